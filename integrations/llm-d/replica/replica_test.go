package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"takt"
	"takt-llm-d/fleet"
)

// memoryLog is a log in memory with a clock controlled by the test.
type memoryLog struct {
	mu       sync.Mutex
	next     int
	now      time.Time
	records  []Record
	trimmed  int
	position string
	snapshot []byte
	broken   bool // unreachable for all
	doubt    map[*view]bool
}

// view is one replica's connection to the log.
type view struct {
	*memoryLog
	cut bool // unreachable for this replica
}

func newMemory() *memoryLog {
	return &memoryLog{now: time.Unix(1_700_000_000, 0), doubt: map[*view]bool{}}
}

func (v *view) reach() error {
	if v.broken || v.cut {
		v.doubt[v] = true
		return fmt.Errorf("the log is unreachable")
	}
	return nil
}

func number(position string) int { n, _ := strconv.Atoi(position); return n }

func (l *memoryLog) put(value []byte) {
	l.next++
	l.now = l.now.Add(time.Millisecond)
	l.records = append(l.records, Record{strconv.Itoa(l.next), l.now, value})
}

func (v *view) Append(_ context.Context, values [][]byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.reach(); err != nil {
		return err
	}
	for _, value := range values {
		v.put(value)
	}
	return nil
}

func (v *view) Read(ctx context.Context, after string, most int, wait time.Duration) ([]Record, error) {
	for end := time.Now().Add(wait); ; {
		v.mu.Lock()
		records, err := v.look(after, most)
		v.mu.Unlock()
		if err != nil || len(records) > 0 || ctx.Err() != nil || time.Now().After(end) {
			return records, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (v *view) look(after string, most int) ([]Record, error) {
	if err := v.reach(); err != nil {
		return nil, err
	}
	if after != "" && number(after) < v.trimmed {
		return nil, ErrTrimmed
	}
	there := after == "" || number(after) == v.trimmed
	var records []Record
	for _, r := range v.records {
		there = there || r.Position == after
		if number(r.Position) > number(after) && len(records) < most {
			records = append(records, r)
		}
	}
	if v.doubt[v] {
		delete(v.doubt, v)
		if !there {
			return nil, ErrLost
		}
	}
	return records, nil
}

func (v *view) Before(a, b string) bool { return number(a) < number(b) }

func (v *view) Save(_ context.Context, position string, snapshot []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.reach(); err != nil {
		return err
	}
	if number(position) > number(v.position) {
		v.position, v.snapshot = position, bytes.Clone(snapshot)
	}
	return nil
}

func (v *view) Load(context.Context) (string, []byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.position, v.snapshot, v.reach()
}

func (v *view) Trim(_ context.Context, before string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.reach(); err != nil {
		return err
	}
	for len(v.records) > 0 && number(v.records[0].Position) < number(before) {
		v.trimmed = number(v.records[0].Position)
		v.records = v.records[1:]
	}
	return nil
}

func (v *view) Close() error { return nil }

var placements = []string{"least_loaded", "workload_balance", "least_outstanding_tokens", "best_fit", "prefix",
	"time_slot_packer", "confidence_slack", "session", "round_robin", "minimum_completion_time"}

type node struct {
	fleet   *fleet.Fleet
	learner *fleet.Learner
	replica *Replica
	stop    context.CancelFunc
	done    chan struct{}
}

func start(t *testing.T, log Log, placement, name string, options Options) *node {
	t.Helper()
	f, err := fleet.New(fleet.Options{Placement: placement})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{fleet: f, learner: fleet.NewLearner(60e9), done: make(chan struct{})}
	options.Name = name
	options.Failed = func(err error) { t.Log(name, "hears:", err) }
	n.replica = New(log, f, n.learner, options)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { defer close(n.done); n.replica.Run(ctx) }()
	t.Cleanup(n.end)
	return n
}

func (n *node) end() {
	n.stop()
	<-n.done
}

// bits returns the whole state: its bytes, and the scores of unknown requests.
func bits(t *testing.T, s *State, f *fleet.Fleet, seed int64) string {
	t.Helper()
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewSource(seed))
	engines := []uint64{}
	for i := range 8 {
		engines = append(engines, fleet.IDOf(fmt.Sprint("engine", i)))
	}
	text := string(snapshot)
	for range 5 {
		request := takt.NewRequest(1<<60+uint64(dice.Intn(1000)), 1+dice.Intn(900))
		request.OutputTokens = takt.About(float64(dice.Intn(300)))
		request.Workflow = fleet.IDOf(fmt.Sprint("flow", dice.Intn(5)))
		request.PrefixHashes, request.PrefixBlockTokens = []uint64{uint64(dice.Intn(3)), 7}, 16
		scores := make([]float64, len(engines))
		if err := f.ScoreOf(&request, engines, scores); err != nil {
			t.Fatal(err)
		}
		for i, score := range scores {
			text += fmt.Sprintf(" %x@%d", math.Float64bits(score), f.InstanceOf(uint64(i+1)))
		}
	}
	return text
}

// load generates items of random routers, including malformed ones and duplicates.
type load struct {
	dice  *rand.Rand
	seq   map[string]uint64
	alive []takt.Request
	last  [][]byte
	only  int
}

func (l *load) value(marks bool) []byte {
	dice := l.dice
	name := fmt.Sprint("router", dice.Intn(3))
	if l.only > 0 {
		name = "router0"
	}
	it := item{From: name}
	engine := fleet.IDOf(fmt.Sprint("engine", dice.Intn(8)))
	flow, agent := fleet.IDOf(fmt.Sprint("flow", dice.Intn(40))), fmt.Sprint("agent", dice.Intn(4))
	one := func(e takt.Event) *fleet.Entry {
		return &fleet.Entry{At: takt.Time(dice.Int63()), Events: []takt.Event{e}}
	}
	switch p := dice.Float64(); {
	case p < 0.03:
		return [][]byte{[]byte("{"), nil, []byte(`{"from":"x"}`), []byte(`{"from":"x","seq":1,"more":2}`), []byte(`[1]`),
			[]byte(`{"from":"router1","seq":99999999999999999999}`), []byte(`{"from":"y","seq":4,"entry":{"events":[{"no":{}}]}}`),
			[]byte(`{"from":"z","seq":1,"base":{"after":"","snapshot":{"n":1}}}`),
			[]byte(`{"from":"w","seq":1,"entry":{"at":1,"events":[{"up":{"Instance":{"ID":0}}}]}}`)}[dice.Intn(9)]
	case p < 0.05 && len(l.last) > 0:
		return l.last[dice.Intn(len(l.last))]
	case p < 0.13:
		it.Entry = one(takt.InstanceUp{Instance: takt.Instance{ID: engine, KVTokens: dice.Intn(2) * 50_000,
			TokenS: float64(dice.Intn(9)) / 1000}})
	case p < 0.15:
		it.Entry = one(takt.InstanceDown{Instance: engine})
	case p < 0.25:
		it.Entry = one(takt.InstanceReported{Instance: engine, Waiting: int64(dice.Intn(9)), Running: int64(dice.Intn(30)),
			KVUsed: dice.Intn(40_000)})
	case p < 0.45:
		r := takt.NewRequest(uint64(1+dice.Intn(300)), 1+dice.Intn(2000))
		r.Workflow, r.Agent, r.OutputTokens = flow, fleet.IDOf(agent), takt.About(float64(dice.Intn(500)))
		r.PrefixHashes, r.PrefixBlockTokens = []uint64{uint64(dice.Intn(3)), 7}, 16
		it.Entry = one(takt.Arrived{Request: r})
		it.Entry.Placed = &takt.Placement{Request: r.ID, Instance: engine}
		l.alive = append(l.alive, r)
	case p < 0.55 && len(l.alive) > 0:
		it.Entry = one(takt.RequestStarted{Request: l.alive[dice.Intn(len(l.alive))].ID, Instance: engine})
	case p < 0.7 && len(l.alive) > 0:
		i := dice.Intn(len(l.alive))
		it.Entry = one(takt.RequestEnded{Request: l.alive[i].ID, Served: true, Prefill: 10, Output: dice.Intn(500)})
		l.alive = append(l.alive[:i], l.alive[i+1:]...)
	case p < 0.8:
		it.Fact = &fleet.Fact{Workflow: flow, Agent: agent}
	case p < 0.97:
		it.Fact = &fleet.Fact{Workflow: flow, Agent: agent, Ended: true, Last: dice.Intn(3) == 0, Bytes: 1 + dice.Intn(4000),
			Prompt: 1 + dice.Intn(900), Output: dice.Intn(700) - 1}
	case p < 0.98 && marks:
		it.Mark = &mark{}
	}
	l.seq[name]++
	it.Seq = l.seq[name]
	value, err := json.Marshal(it)
	if err != nil {
		panic(err)
	}
	l.last = append(l.last, value)
	return value
}

func newState(t *testing.T, placement string) (*State, *fleet.Fleet) {
	t.Helper()
	f, err := fleet.New(fleet.Options{Placement: placement})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return NewState(f, fleet.NewLearner(2e9), 5*time.Second, 60*time.Second), f
}

// Two states that follow the same log agree bit for bit. A third one, loaded from a snapshot at any mark, agrees as
// well. Scores asked of one of them change nothing.
func TestTheSameLogGivesTheSameBits(t *testing.T) {
	logs := len(placements)
	if n, err := strconv.Atoi(os.Getenv("TAKT_LOGS")); err == nil {
		logs = n
	}
	var marks, refused int
	var swept uint64
	for seed := range logs {
		placement := placements[seed%len(placements)]
		l := &load{dice: rand.New(rand.NewSource(int64(seed))), seq: map[string]uint64{}}
		at := time.Unix(1_700_000_000, 0)
		a, fa := newState(t, placement)
		b, fb := newState(t, placement)
		var c *State
		var fc *fleet.Fleet
		for i := range 500 {
			at = at.Add(time.Duration(l.dice.ExpFloat64() * 2e7))
			if l.dice.Intn(100) == 0 { // only one router publishes for a while
				l.only = 10
			}
			if l.only > 0 {
				l.only--
				at = at.Add(900 * time.Millisecond)
			}
			record := Record{strconv.Itoa(i), at, l.value(true)}
			before := a.k.Marks
			ea, eb := a.Apply(record), b.Apply(record)
			if fmt.Sprint(ea) != fmt.Sprint(eb) {
				t.Fatalf("%s, log %d, record %d: %v, and %v", placement, seed, i, ea, eb)
			}
			if ea != nil {
				refused++
			}
			if c != nil {
				c.Apply(record)
			}
			if i%7 == 0 { // only one is asked
				stranger := takt.NewRequest(1<<61, 9)
				fa.ScoreOf(&stranger, []uint64{fleet.IDOf("engine0"), 5}, make([]float64, 2))
			}
			if a.k.Marks > before {
				marks++
				if c == nil || l.dice.Intn(2) == 0 {
					c, fc = newState(t, placement)
					snapshot, err := a.Snapshot()
					if err == nil {
						err = c.Restore(snapshot)
					}
					if err != nil {
						t.Fatalf("%s, log %d, record %d: %v", placement, seed, i, err)
					}
				}
			}
			if i == 499 {
				swept += a.left
			}
			if i%100 == 99 {
				want := bits(t, a, fa, int64(i))
				if got := bits(t, b, fb, int64(i)); got != want {
					t.Fatalf("%s, log %d, record %d:\n%s\n%s", placement, seed, i, want, got)
				}
				if c != nil {
					if got := bits(t, c, fc, int64(i)); got != want {
						t.Fatalf("%s, log %d, record %d, from a snapshot:\n%s\n%s", placement, seed, i, want, got)
					}
				}
			}
		}
	}
	if marks < logs || refused < 10*logs || swept < uint64(logs) {
		t.Fatalf("%d marks, %d refusals, %d left by silent routers: the logs are too tame", marks, refused, swept)
	}
}

// The comparison can fail: two records in another order give another state.
func TestAnotherOrderGivesAnotherState(t *testing.T) {
	a, fa := newState(t, "least_loaded")
	b, fb := newState(t, "least_loaded")
	up := func(seq uint64, kv int) []byte {
		v, _ := json.Marshal(item{From: "r", Seq: seq, Entry: &fleet.Entry{Events: []takt.Event{
			takt.InstanceUp{Instance: takt.Instance{ID: 5, KVTokens: kv}}}}})
		return v
	}
	at := time.Unix(1_700_000_000, 0)
	for i, v := range [][]byte{up(1, 10), up(2, 20)} {
		a.Apply(Record{strconv.Itoa(i), at, v})
	}
	for i, v := range [][]byte{up(1, 20), up(2, 10)} {
		b.Apply(Record{strconv.Itoa(i), at, v})
	}
	if bits(t, a, fa, 1) == bits(t, b, fb, 1) {
		t.Fatal("the same bits")
	}
}

// Requests in flight of a dead router end, and so do those that are too old.
func TestNothingStaysInFlightForEver(t *testing.T) {
	s, f := newState(t, "least_loaded")
	at := time.Unix(1_700_000_000, 0)
	tell := func(after time.Duration, it item) {
		t.Helper()
		at = at.Add(after)
		v, _ := json.Marshal(it)
		if err := s.Apply(Record{"1", at, v}); err != nil {
			t.Fatal(err)
		}
	}
	place := func(from string, seq, id uint64) item {
		return item{From: from, Seq: seq, Entry: &fleet.Entry{Events: []takt.Event{takt.Arrived{Request: takt.NewRequest(id, 9)}},
			Placed: &takt.Placement{Request: id, Instance: 5}}}
	}
	tell(0, item{From: "a", Seq: 1, Entry: &fleet.Entry{Events: []takt.Event{takt.InstanceUp{Instance: takt.Instance{ID: 5}}}}})
	tell(0, place("a", 2, 1))
	tell(0, place("b", 1, 2))
	for seq := uint64(2); seq < 60; seq++ {
		tell(time.Second, item{From: "b", Seq: seq})
		wantA, wantB := seq < 7, true
		if gotA, gotB := f.InstanceOf(1) != 0, f.InstanceOf(2) != 0; gotA != wantA || gotB != wantB {
			t.Fatalf("%d s: of a dead router %v, of one that lives %v", seq-1, gotA, gotB)
		}
	}
	tell(3*time.Second, item{From: "b", Seq: 60})
	if f.InstanceOf(2) != 0 || len(s.k.Flights) != 0 || s.left != 2 {
		t.Fatalf("in flight for more than a minute: %d", len(s.k.Flights))
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatal("never: " + what)
}

// reporting is a list of engines with equal reports.
type reporting struct {
	slots  []*fleet.Slot
	report fleet.Report
}

func (r reporting) Engine(i int, _ func(string) *fleet.Slot) (*fleet.Slot, int64) {
	return r.slots[i], r.report.At
}
func (r reporting) Report(int) (fleet.Report, float64) { return r.report, 0 }

// work runs calls through a node's fleet, like the plug-ins, and leaves `open` of them in flight.
func work(t *testing.T, n *node, seed int64, calls, open int) {
	t.Helper()
	dice := rand.New(rand.NewSource(seed))
	now := func() takt.Time { return takt.Time(time.Now().UnixNano()) }
	var slots []*fleet.Slot
	for i := range 4 {
		slots = append(slots, n.fleet.Slot(fmt.Sprint("engine", i)))
	}
	scores := make([]float64, len(slots))
	for i := range calls {
		c := n.learner.Begin(fmt.Sprint(n.replica.options.Name, seed, "call", i), map[string]string{
			"x-takt-workflow": fmt.Sprint("flow", seed, i/3), "x-takt-agent": fmt.Sprint("agent", dice.Intn(3)),
			"x-takt-last": fmt.Sprint(i % 3 / 2)}, 100, 400, 0, 0, now())
		err := n.fleet.Score(c, reporting{slots, fleet.Report{At: int64(now()), Running: dice.Intn(9)}}, now(), scores)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.fleet.Placed(c, slots[dice.Intn(4)].Name(), now()); err != nil {
			t.Fatal(err)
		}
		n.fleet.Started(c, now())
		if i >= calls-open {
			continue
		}
		n.fleet.Ended(c, 100, 20+dice.Intn(100), now())
		c.End(100, 20+dice.Intn(100), now())
	}
}

func settled(nodes ...*node) func() bool {
	return func() bool {
		position := nodes[0].replica.Count().Position
		for _, n := range nodes {
			if c := n.replica.Count(); c.Pending > 0 || !c.Connected || c.Position != position {
				return false
			}
		}
		return true
	}
}

// same checks that nodes that have ended have the same state.
func same(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		n.end()
	}
	// They ended at different positions, so each reads the rest.
	for _, n := range nodes {
		for {
			log := n.replica.log
			records, err := log.Read(context.Background(), n.replica.position, 1024, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				n.replica.applyRecord(context.Background(), r)
			}
		}
	}
	want := bits(t, nodes[0].replica.state, nodes[0].fleet, 9)
	for i, n := range nodes[1:] {
		if got := bits(t, n.replica.state, n.fleet, 9); got != want {
			t.Fatalf("replica %d:\n%s\n%s", i+1, want, got)
		}
	}
	for _, n := range nodes {
		if c := n.replica.Count(); c.Diverged > 0 || c.Dropped > 0 {
			t.Fatalf("%+v", c)
		}
	}
}

var quick = Options{Lease: time.Minute, MarkEvery: 200, ReportEvery: time.Millisecond, Patience: 20 * time.Millisecond}

func TestReplicasAgreeWhileTheyWorkAndMark(t *testing.T) {
	for _, placement := range placements[:4] {
		log := newMemory()
		nodes := []*node{start(t, &view{memoryLog: log}, placement, "a", quick), start(t, &view{memoryLog: log}, placement, "b", quick)}
		var all sync.WaitGroup
		for i, n := range nodes {
			all.Add(1)
			go func() { defer all.Done(); work(t, n, int64(i), 300, 2) }()
		}
		all.Wait()
		eventually(t, "all is published", settled(nodes...))
		late := start(t, &view{memoryLog: log}, placement, "c", quick)
		eventually(t, "the late one has caught up", settled(append(nodes, late)...))
		same(t, append(nodes, late)...)
		if c := late.replica.Count(); c.Restored != 1 || log.trimmed == 0 {
			t.Fatalf("the late one began from the first record: %+v", c)
		}
		if n := len(late.replica.state.k.Flights); n != 4 {
			t.Fatalf("%d in flight", n)
		}
	}
}

// A killed replica loses none of its learned state, and a new one loads it.
func TestAKilledReplicaLosesNothing(t *testing.T) {
	log := newMemory()
	first := start(t, &view{memoryLog: log}, "least_loaded", "a", quick)
	work(t, first, 1, 60, 3)
	eventually(t, "all is published", settled(first))
	agents, flows, over := first.learner.Knows()
	if agents != 3 || over != 19 {
		t.Fatalf("learnt %d agents, %d and %d workflows", agents, flows, over)
	}
	log.mu.Lock()
	first.replica.log.(*view).cut = true // it publishes no more
	log.mu.Unlock()
	first.end()
	second := start(t, &view{memoryLog: log}, "least_loaded", "b", quick)
	eventually(t, "the second has caught up", func() bool { a, f, o := second.learner.Knows(); return a == agents && f == flows && o == over })
	if got, want := fmt.Sprint(second.fleet.Count().Engines), "4"; got != want {
		t.Fatal(got)
	}
	eventually(t, "what is in flight is known", func() bool {
		second.replica.mu.Lock()
		defer second.replica.mu.Unlock()
		return second.replica.counts.Followed > 0
	})
	second.end()
	if n := len(second.replica.state.k.Flights); n != 3 {
		t.Fatalf("%d in flight", n)
	}
}

// Without the log a replica works and learns alone; afterwards all replicas have the same complete state.
func TestReplicasWorkWithoutTheLogForAWhile(t *testing.T) {
	for _, lose := range []int{0, 5, 1 << 30} { // records that the log has lost when it is back
		log := newMemory()
		nodes := []*node{start(t, &view{memoryLog: log}, "least_loaded", "a", quick), start(t, &view{memoryLog: log}, "least_loaded", "b", quick)}
		for i, n := range nodes {
			work(t, n, int64(i), 30, 1)
		}
		eventually(t, "all is published", settled(nodes...))
		log.mu.Lock()
		log.broken = true
		log.mu.Unlock()
		eventually(t, "it is noticed", func() bool {
			return !nodes[0].replica.Count().Connected && !nodes[1].replica.Count().Connected
		})
		_, _, before := nodes[0].learner.Knows()
		for i, n := range nodes {
			work(t, n, int64(10+i), 30, 1)
		}
		eventually(t, "it learns alone", func() bool { _, _, over := nodes[0].learner.Knows(); return over == before+9 })
		log.mu.Lock()
		log.records = log.records[:max(0, len(log.records)-lose)]
		if lose > 1000 {
			log.position, log.snapshot, log.trimmed, log.records = "", nil, 0, nil
		}
		log.broken = false
		log.mu.Unlock()
		eventually(t, "all is published again", settled(nodes...))
		eventually(t, "both know all", func() bool {
			_, _, a := nodes[0].learner.Knows()
			_, _, b := nodes[1].learner.Knows()
			return a == before+18 && b == before+18
		})
		late := start(t, &view{memoryLog: log}, "least_loaded", "c", quick)
		eventually(t, "the late one has caught up", settled(append(nodes, late)...))
		if lost := nodes[0].replica.Count().Lost; (lost > 0) != (lose > 0) {
			t.Fatalf("lost %d records, noticed %d times", lose, lost)
		}
		same(t, append(nodes, late)...)
		if n := len(late.replica.state.k.Flights); n != 4 {
			t.Fatalf("%d in flight", n)
		}
	}
}

func TestMalformedRecordsAreCountedAndSkipped(t *testing.T) {
	log := newMemory()
	n := start(t, &view{memoryLog: log}, "least_loaded", "a", quick)
	l := &load{dice: rand.New(rand.NewSource(5)), seq: map[string]uint64{}}
	log.mu.Lock()
	for range 50 {
		log.put([]byte("{nothing"))
	}
	log.put(l.value(false))
	log.mu.Unlock()
	work(t, n, 1, 9, 0)
	eventually(t, "they are counted", func() bool { return n.replica.Count().Malformed == 50 })
	eventually(t, "all is published", settled(n))
	if _, _, over := n.learner.Knows(); over != 3 {
		t.Fatalf("%d workflows", over)
	}
}

func TestAnInvalidSnapshotChangesNothing(t *testing.T) {
	s, f := newState(t, "least_loaded")
	l := &load{dice: rand.New(rand.NewSource(5)), seq: map[string]uint64{}}
	for i := range 300 {
		s.Apply(Record{strconv.Itoa(i), time.Unix(1_700_000_000, int64(i)), l.value(false)})
	}
	want := bits(t, s, f, 1)
	good, _ := s.Snapshot()
	for _, bad := range []string{"", "{}", "null", "[", `{"engines":{"5":{}}}`, `{"flights":{"5":null},"learner":{}}`,
		string(bytes.Replace(good, []byte(`"per_byte":`), []byte(`"per_byte":-`), 1)), string(good[:len(good)/2])} {
		if err := s.Restore([]byte(bad)); err == nil {
			t.Fatalf("taken: %.80s", bad)
		}
	}
	if got := bits(t, s, f, 1); got != want {
		t.Fatal("it has changed")
	}
}

// Applies a record to a state with a few hundred requests in flight.
func BenchmarkApply(b *testing.B) {
	f, err := fleet.New(fleet.Options{Placement: "least_outstanding_tokens"})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	s := NewState(f, fleet.NewLearner(60e9), time.Minute, time.Hour)
	l := &load{dice: rand.New(rand.NewSource(1)), seq: map[string]uint64{}}
	records := make([]Record, b.N)
	var bytes int64
	for i := range records {
		records[i] = Record{strconv.Itoa(i), time.Unix(1_700_000_000, int64(i)*1e6), l.value(false)}
		bytes += int64(len(records[i].Value))
	}
	b.SetBytes(bytes / int64(b.N))
	b.ResetTimer()
	for _, record := range records {
		s.Apply(record)
	}
}
