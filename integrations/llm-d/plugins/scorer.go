package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/datalayer"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requestcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/scheduling"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"takt"
	"takt-llm-d/fleet"
)

// ScorerParameters configure takt-scorer.
type ScorerParameters struct {
	// Placement is one of docs/howto/router.md, with its options.
	Placement string `json:"placement"`
	// TokenSecondsLabel is an endpoint's label with the seconds per output token at full batch, divided by the batch
	// size. Without it, the value is learned from answers.
	TokenSecondsLabel string `json:"tokenSecondsLabel"`
	// WorkflowIdleSeconds: time without a call after which a workflow has ended.
	WorkflowIdleSeconds float64 `json:"workflowIdleSeconds"`
	// UseMaxTokens: a client's limit on its answer bounds the estimate.
	UseMaxTokens bool `json:"useMaxTokens"`
	// SessionHeaders: a call without X-Takt-Workflow belongs to the session of its coding agent, which headers name.
	SessionHeaders bool `json:"sessionHeaders"`
	// LogFile receives the events of the placement, one JSON object per line; empty: none.
	LogFile string `json:"logFile"`
	// Replicas of the router that share their state; nil: this router is alone.
	Replicas *Replicas `json:"replicas"`
}

type scorer struct {
	name  plugin.TypedName
	fleet *fleet.Fleet
	label string
	pods  func() []string

	mu    sync.Mutex
	known map[datalayer.ID]*fleet.Slot
	order []slotOf // endpoints of the newest request
	swept time.Time
	pool  sync.Pool // slices of scores
	maps  sync.Pool // maps that the router no longer uses
}

type slotOf struct {
	id   datalayer.ID
	slot *fleet.Slot
}

var (
	_ scheduling.Scorer                      = (*scorer)(nil)
	_ requestcontrol.RequestHeaderProcessor  = (*scorer)(nil)
	_ requestcontrol.PreRequest              = (*scorer)(nil)
	_ requestcontrol.ResponseHeaderProcessor = (*scorer)(nil)
	_ requestcontrol.ResponseBodyProcessor   = (*scorer)(nil)
)

func newScorer(name string, parameters *json.Decoder, handle plugin.Handle) (plugin.Plugin, error) {
	p := ScorerParameters{Placement: "least_loaded", TokenSecondsLabel: "takt.dev/token-seconds", WorkflowIdleSeconds: 60,
		UseMaxTokens: true, SessionHeaders: true}
	if err := decoded(ScorerType, name, parameters, &p); err != nil {
		return nil, err
	}
	if !(p.WorkflowIdleSeconds > 0 && p.WorkflowIdleSeconds <= 1e6) {
		return nil, fmt.Errorf("%s %q: workflowIdleSeconds is %v: must be above 0, and at most 1e6", ScorerType, name,
			p.WorkflowIdleSeconds)
	}
	options := fleet.Options{Placement: p.Placement}
	if p.LogFile != "" {
		file, err := os.Create(p.LogFile)
		if err != nil {
			return nil, fmt.Errorf("%s %q: logFile: %w", ScorerType, name, err)
		}
		options.Log = fleet.LogTo(file, func(err error) { log.Log.Error(err, "logFile: no more lines are written", "plugin", name) })
	}
	f, err := fleet.New(options)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", ScorerType, name, err)
	}
	learned.SetIdle(takt.Time(p.WorkflowIdleSeconds * 1e9))
	useMaxTokens.Store(p.UseMaxTokens)
	learned.SetSessions(p.SessionHeaders)
	s := &scorer{name: plugin.TypedName{Type: ScorerType, Name: name}, fleet: f, label: p.TokenSecondsLabel,
		known: map[datalayer.ID]*fleet.Slot{}, pool: sync.Pool{New: func() any { return new([]float64) }}}
	if handle != nil {
		s.pods = func() []string {
			pods := handle.PodList()
			names := make([]string, len(pods))
			for i, p := range pods {
				names[i] = p.String()
			}
			return names
		}
		if err := measured(handle, f); err != nil {
			return nil, fmt.Errorf("%s %q: %w", ScorerType, name, err)
		}
		if p.Replicas != nil {
			if err := p.Replicas.share(handle.Context(), handle, f); err != nil {
				return nil, fmt.Errorf("%s %q: %w", ScorerType, name, err)
			}
		}
	}
	return s, nil
}

func (s *scorer) TypedName() plugin.TypedName { return s.name }

// Category is Balance: some placements prefer the engine with a workflow's context, others the emptier one.
func (s *scorer) Category() scheduling.ScorerCategory { return scheduling.Balance }

// asked holds the endpoints of a request, for the fleet.
type asked struct {
	*scorer
	endpoints []scheduling.Endpoint
}

// Engine returns engine i's slot. The next request mostly has the same endpoints in the same order.
func (a asked) Engine(i int, of func(string) *fleet.Slot) (*fleet.Slot, int64) {
	e := a.endpoints[i]
	id := &e.GetMetadata().ID
	if i == len(a.order) {
		a.order = append(a.order, slotOf{})
	}
	at := &a.order[i]
	if at.slot == nil || at.id != *id {
		slot := a.known[*id]
		if slot == nil {
			slot = of(id.String())
			a.known[*id] = slot
		}
		*at = slotOf{*id, slot}
	}
	if m := e.GetMetrics(); m != nil && !m.UpdateTime.IsZero() {
		return at.slot, m.UpdateTime.UnixNano()
	}
	return at.slot, 0
}

func (a asked) Report(i int) (fleet.Report, float64) {
	e := a.endpoints[i]
	return reportOf(e.GetMetrics()), a.tokenSeconds(e.GetMetadata())
}

// sweep drops endpoints that are gone, at most once a second.
func (s *scorer) sweep(ctx context.Context) {
	s.mu.Lock()
	due := time.Since(s.swept) >= time.Second
	if due {
		s.swept = time.Now()
	}
	s.mu.Unlock()
	if due && s.pods != nil {
		names := s.pods()
		if len(names) == 0 { // no source of endpoints, or no endpoints
			names = nil
		}
		s.complain(ctx, s.fleet.Gone(names, now()))
	}
}

func (s *scorer) complain(ctx context.Context, err error) {
	if err != nil {
		log.FromContext(ctx).Error(err, "the placement rejected an event", "plugin", s.name)
	}
}

// Score gives the placement's choice 1, every other endpoint less, and an endpoint without room 0.
func (s *scorer) Score(ctx context.Context, request *scheduling.InferenceRequest,
	endpoints []scheduling.Endpoint) map[scheduling.Endpoint]float64 {
	s.sweep(ctx)
	room := s.pool.Get().(*[]float64)
	defer s.pool.Put(room)
	told, err := s.scored(request, endpoints, *room)
	*room = told
	s.complain(ctx, err)
	scores, _ := s.maps.Get().(map[scheduling.Endpoint]float64)
	if scores == nil {
		scores = make(map[scheduling.Endpoint]float64, len(endpoints))
	}
	for i, e := range endpoints {
		scores[e] = told[i]
	}
	request.PutAttribute(lentKey, append(lent(request), scores))
	return scores
}

const lentKey = "takt-scores"

// lent returns maps that the router may still read.
func lent(request *scheduling.InferenceRequest) []map[scheduling.Endpoint]float64 {
	kept, _ := request.GetAttribute(lentKey)
	maps, _ := kept.([]map[scheduling.Endpoint]float64)
	return maps
}

// takeBack returns a request's maps to the pool, because the router has picked. The garbage collector frees the maps of
// requests that end earlier.
func (s *scorer) takeBack(request *scheduling.InferenceRequest) {
	for _, scores := range lent(request) {
		clear(scores)
		s.maps.Put(scores)
	}
	request.PutAttribute(lentKey, nil)
}

// scored writes the scores into to, which grows. If the placement fails, all are 0.
func (s *scorer) scored(request *scheduling.InferenceRequest, endpoints []scheduling.Endpoint,
	to []float64) ([]float64, error) {
	if cap(to) < len(endpoints) {
		to = make([]float64, len(endpoints))
	}
	to = to[:len(endpoints)]
	s.mu.Lock() // guards the slots; the fleet has its own lock
	defer s.mu.Unlock()
	err := s.fleet.Score(callOf(request), asked{s, endpoints}, now(), to)
	if err != nil {
		clear(to)
	}
	return to, err
}

func (s *scorer) tokenSeconds(meta *datalayer.EndpointMetadata) float64 {
	if len(meta.Labels) == 0 || s.label == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(meta.Labels[s.label], 64)
	if err != nil || !(seconds > 0 && seconds < 1e3) {
		return 0
	}
	return seconds
}

func reportOf(m *datalayer.Metrics) fleet.Report {
	if m == nil || m.UpdateTime.IsZero() {
		return fleet.Report{}
	}
	kv := m.CacheNumBlocks * m.CacheBlockSize
	if kv <= 0 {
		kv = m.KvCacheMaxTokenCapacity
	}
	return fleet.Report{At: m.UpdateTime.UnixNano(), Waiting: m.WaitingQueueSize, Running: m.RunningRequestsSize,
		KVTokens: kv, KVUsed: int(m.KVCacheUsagePercent * float64(kv))}
}

func (s *scorer) RequestHeader(_ context.Context, request *scheduling.InferenceRequest) error {
	callOf(request)
	return nil
}

// PreRequest reports the endpoint that the router has picked.
func (s *scorer) PreRequest(ctx context.Context, request *scheduling.InferenceRequest,
	result *scheduling.SchedulingResult) error {
	s.takeBack(request)
	profile := result.ProfileResults[result.PrimaryProfileName]
	if profile == nil || len(profile.TargetEndpoints) == 0 {
		return nil
	}
	s.complain(ctx, s.fleet.Placed(callOf(request), profile.TargetEndpoints[0].GetMetadata().ID.String(), now()))
	return nil
}

func (s *scorer) ResponseHeader(ctx context.Context, request *scheduling.InferenceRequest,
	response *requestcontrol.Response, _ *datalayer.EndpointMetadata) {
	c := existing(request)
	if c == nil {
		return
	}
	// The router learns of Envoy's retries only from this header, if the route sets include_attempt_count_in_response.
	attempts, err := strconv.Atoi(response.Headers["x-envoy-attempt-count"])
	moved := err == nil && attempts > 1
	if moved || strings.HasPrefix(response.Headers[":status"], "5") {
		s.fleet.Refused(c)
	}
	if moved { // to an unknown engine
		s.complain(ctx, s.fleet.Ended(c, 0, -1, now()))
	}
}

func (s *scorer) ResponseBody(ctx context.Context, request *scheduling.InferenceRequest, response *requestcontrol.Response,
	_ *datalayer.EndpointMetadata) {
	c := existing(request)
	if c == nil {
		return
	}
	if !response.EndOfStream {
		if response.StartOfStream { // not its headers, which engines send before they run the request
			s.complain(ctx, s.fleet.Started(c, now()))
		}
		return
	}
	prompt, output := lengths(response)
	at := now()
	s.complain(ctx, s.fleet.Ended(c, prompt, output, at))
	c.End(prompt, output, at)
}
