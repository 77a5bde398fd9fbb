package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"takt"
	"takt-llm-d/fleet"
)

// item is a value of the log. Without any fact it is a sign of life of its router.
type item struct {
	From  string       `json:"from"` // router
	Seq   uint64       `json:"seq"`  // number of the router's item: 1, 2, ...
	Entry *fleet.Entry `json:"entry,omitempty"`
	Fact  *fleet.Fact  `json:"fact,omitempty"`
	Mark  *mark        `json:"mark,omitempty"`
	Base  *base        `json:"base,omitempty"`
}

// base replaces the state up to a position after the log has lost records. Records between that position and the base
// are applied again.
type base struct {
	After    string          `json:"after"`
	Snapshot json.RawMessage `json:"snapshot"`
}

// mark makes each replica restart from its own snapshot, so that a replica which loads the snapshot has the same state.
type mark struct {
	Marks uint64 `json:"marks"` // earlier marks that its router knows
	Last  string `json:"last"`  // digest at the last of them
}

const longestName = 128

func parse(value []byte) (*item, error) {
	var it item
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&it); err != nil {
		return nil, err
	}
	if it.From == "" || len(it.From) > longestName || it.Seq == 0 {
		return nil, errors.New("missing router or number")
	}
	return &it, nil
}

// State is the result of the log so far. Its only clock is the log's. It is not safe for concurrent use.
type State struct {
	fleet         *fleet.Fleet
	learner       *fleet.Learner
	lease, expire takt.Time
	k             known
	records       int // since the last mark
	// Functions of the log for a base: the records between two positions, and the order of positions.
	between  func(after, before string) []Record
	before   func(a, b string) bool
	diverged uint64 // marks at which another replica had another state
	left     uint64 // requests ended because their router was silent or they were too old
}

// known is the part of the state outside of the placement and the learner, as in a snapshot.
type known struct {
	N       uint64             `json:"n"`     // number of records
	At      takt.Time          `json:"at"`    // time of the newest record
	Lived   takt.Time          `json:"lived"` // the log's time so far, at most a second between two records
	Swept   takt.Time          `json:"swept"`
	Marks   uint64             `json:"marks"`
	Digest  string             `json:"digest,omitempty"` // at the last mark
	Marked  string             `json:"marked,omitempty"` // position of the last mark
	Based   string             `json:"based,omitempty"`  // position up to which the newest base knew the log
	Routers map[string]*router `json:"routers"`
	Engines map[uint64]*engine `json:"engines"` // engines that are up
	Flights map[uint64]*flight `json:"flights"` // by request
	Learner json.RawMessage    `json:"learner,omitempty"`
}

// router has the number of its last item, and the log's time then: an outage of the log makes no router silent.
type router struct {
	Seq uint64    `json:"seq"`
	At  takt.Time `json:"at"`
}

type told struct {
	N     uint64      `json:"n"`
	Entry fleet.Entry `json:"entry"`
}

type engine struct {
	Up       told  `json:"up"`
	Reported *told `json:"reported,omitempty"`
}

type flight struct {
	From     string `json:"from"`
	Workflow uint64 `json:"workflow"`
	Placed   told   `json:"placed"`
	Started  *told  `json:"started,omitempty"`
	Away     bool   `json:"away,omitempty"` // its engine is gone, and it has not ended
}

// NewState creates a state of an empty fleet and learner. A router that is silent for lease is dead, and its requests
// in flight have failed; so have requests in flight for longer than expire.
func NewState(f *fleet.Fleet, l *fleet.Learner, lease, expire time.Duration) *State {
	s := &State{fleet: f, learner: l, lease: takt.Time(lease), expire: takt.Time(expire)}
	s.k, s.between = fresh(), func(string, string) []Record { return nil }
	s.before = func(a, b string) bool { return a < b }
	return s
}

func fresh() known {
	return known{Routers: map[string]*router{}, Engines: map[uint64]*engine{}, Flights: map[uint64]*flight{}}
}

// errDuplicate is an item that was applied before.
var errDuplicate = errors.New("a duplicate")

// Apply applies a record. An error means that it is malformed or a duplicate; then only its time counts.
func (s *State) Apply(r Record) error {
	_, err := s.applyRecord(r)
	return err
}

// applyRecord is Apply, but returns the item; nil: malformed.
func (s *State) applyRecord(r Record) (*item, error) {
	if at := takt.Time(r.At.UnixNano()); at > s.k.At {
		s.k.Lived += min(at-s.k.At, 1e9)
		s.k.At = at
	}
	s.k.N++
	s.records++
	it, err := parse(r.Value)
	if err == nil {
		err = s.apply(it, r.Position)
	}
	s.sweep()
	return it, err
}

func (s *State) apply(it *item, position string) error {
	from := s.k.Routers[it.From]
	if from == nil {
		from = &router{}
		s.k.Routers[it.From] = from
	}
	if it.Seq <= from.Seq {
		return errDuplicate
	}
	from.Seq, from.At = it.Seq, s.k.Lived
	switch {
	case it.Base != nil:
		return s.base(it, position)
	case it.Mark != nil:
		return s.mark(it.Mark, position)
	case it.Entry != nil:
		return s.entry(it.From, *it.Entry)
	case it.Fact != nil:
		fact := *it.Fact
		fact.At = s.k.At
		return s.learner.Follow(fact)
	}
	return nil
}

func (s *State) entry(from string, e fleet.Entry) error {
	e.At = s.k.At
	err := s.fleet.Follow(e)
	if errors.Is(err, fleet.ErrNotPlaced) {
		e.Placed = nil
	} else if err != nil {
		return err
	}
	at := func(events ...takt.Event) told { return told{s.k.N, fleet.Entry{At: e.At, Events: events}} }
	for _, event := range e.Events {
		switch event := event.(type) {
		case takt.InstanceUp:
			if known := s.k.Engines[event.Instance.ID]; known != nil {
				known.Up.Entry.Events[0] = event
			} else {
				s.k.Engines[event.Instance.ID] = &engine{Up: at(event)}
			}
		case takt.InstanceReported:
			if known := s.k.Engines[event.Instance]; known != nil {
				reported := at(event)
				known.Reported = &reported
			}
		case takt.InstanceDown:
			delete(s.k.Engines, event.Instance)
			for _, f := range s.k.Flights {
				f.Away = f.Away || f.Placed.Entry.Placed.Instance == event.Instance
			}
		case takt.Arrived:
			if e.Placed != nil && e.Placed.Request == event.Request.ID {
				placed := at(event)
				placed.Entry.Placed = e.Placed
				s.k.Flights[event.Request.ID] = &flight{From: from, Workflow: event.Request.Workflow, Placed: placed}
			}
		case takt.RequestStarted:
			if known := s.k.Flights[event.Request]; known != nil {
				started := at(event)
				known.Started = &started
			}
		case takt.RequestEnded:
			delete(s.k.Flights, event.Request)
		case takt.Cancelled:
			if e.Placed == nil || e.Placed.Request != event.Request {
				delete(s.k.Flights, event.Request)
			}
		}
	}
	return err
}

// sweep ends the requests of silent routers, at most once a second of the log's time.
func (s *State) sweep() {
	if s.k.At-s.k.Swept < 1e9 {
		return
	}
	s.k.Swept = s.k.At
	var over []uint64
	for id, f := range s.k.Flights {
		from := s.k.Routers[f.From]
		if from == nil || s.k.Lived-from.At > s.lease || s.k.At-f.Placed.Entry.At > s.expire {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		f := s.k.Flights[id]
		s.fleet.Follow(fleet.Entry{At: s.k.At, Events: []takt.Event{takt.RequestEnded{Request: id, Failed: true}}})
		s.learner.Follow(fleet.Fact{At: s.k.At, Workflow: f.Workflow, Ended: true, Output: -1})
		delete(s.k.Flights, id)
		s.left++
	}
	for name, r := range s.k.Routers {
		if s.k.Lived-r.At > 100*s.lease {
			delete(s.k.Routers, name)
		}
	}
}

// Snapshot returns the state; the same records give the same bytes.
func (s *State) Snapshot() ([]byte, error) {
	learner, err := json.Marshal(s.learner)
	if err != nil {
		return nil, err
	}
	k := s.k
	k.Learner = learner
	return json.Marshal(k)
}

// Restore replaces the state by a snapshot; nil: the empty state. On error nothing changes.
func (s *State) Restore(snapshot []byte) error {
	k, learner := fresh(), fleet.NewLearner(s.learner.Idle())
	var err error
	if snapshot != nil {
		if err := json.Unmarshal(snapshot, &k); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		if err := json.Unmarshal(k.Learner, learner); err != nil {
			return fmt.Errorf("snapshot: learner: %w", err)
		}
	} else if k.Learner, err = json.Marshal(learner); err != nil {
		return err
	}
	if err := k.check(); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	var all []told
	for _, e := range k.Engines {
		if all = append(all, e.Up); e.Reported != nil {
			all = append(all, *e.Reported)
		}
	}
	for _, f := range k.Flights {
		if f.Away {
			continue
		}
		if all = append(all, f.Placed); f.Started != nil {
			all = append(all, *f.Started)
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { // within a record, engines come before placements on them
		if a.N != b.N {
			return int(min(max(int64(a.N)-int64(b.N), math.MinInt32), math.MaxInt32))
		}
		return bytes.Compare(line(a), line(b))
	})
	entries := make([]fleet.Entry, len(all))
	for i, t := range all {
		entries[i] = t.Entry
	}
	if err := s.fleet.Restore(entries, k.At); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := json.Unmarshal(k.Learner, s.learner); err != nil {
		return fmt.Errorf("snapshot: learner: %w", err)
	}
	k.Learner = nil
	s.k, s.records = k, 0
	return nil
}

// check checks that a snapshot has the form of Snapshot.
func (k *known) check() error {
	one := func(t *told) bool { return t == nil || len(t.Entry.Events) == 1 }
	for id, e := range k.Engines {
		if e == nil || len(e.Up.Entry.Events) != 1 || !one(e.Reported) {
			return fmt.Errorf("engine %d is incomplete", id)
		}
	}
	for id, f := range k.Flights {
		if f == nil || len(f.Placed.Entry.Events) != 1 || f.Placed.Entry.Placed == nil || !one(f.Started) {
			return fmt.Errorf("request %d is incomplete", id)
		}
	}
	for name, r := range k.Routers {
		if r == nil {
			return fmt.Errorf("router %q is incomplete", name)
		}
	}
	if k.Engines == nil || k.Flights == nil || k.Routers == nil {
		return errors.New("engines, flights or routers are missing")
	}
	return nil
}

// line orders the entries of one record: engines up, reports, placements, starts.
func line(t told) []byte {
	kind := byte(0)
	switch t.Entry.Events[0].(type) {
	case takt.InstanceReported:
		kind = 1
	case takt.Arrived:
		kind = 2
	case takt.RequestStarted:
		kind = 3
	}
	text, _ := json.Marshal(t.Entry)
	return append([]byte{kind}, text...)
}

func digest(snapshot []byte) string {
	sum := sha256.Sum256(snapshot)
	return hex.EncodeToString(sum[:16])
}

func (s *State) mark(m *mark, position string) error {
	if m.Marks == s.k.Marks && m.Last != s.k.Digest {
		s.diverged++
	}
	s.k.Marks++
	s.k.Digest, s.k.Marked = "", position
	snapshot, err := s.Snapshot()
	if err != nil {
		return err
	}
	if err := s.Restore(snapshot); err != nil {
		return err
	}
	s.k.Digest = digest(snapshot)
	return nil
}

// base takes over another router's snapshot, so that all routers agree again. Among several bases, the one that knew
// most of the log counts.
func (s *State) base(it *item, position string) error {
	after := it.Base.After
	if s.k.Based != "" && !s.before(s.k.Based, after) || s.k.Marked != "" && s.before(after, s.k.Marked) {
		return nil
	}
	at := s.k.At
	if err := s.Restore(it.Base.Snapshot); err != nil {
		return err
	}
	for _, r := range s.between(after, position) {
		if again, err := parse(r.Value); err == nil && again.Base == nil && again.Mark == nil {
			s.Apply(r) // its errors were counted
		}
	}
	s.k.N, s.k.At, s.k.Based = s.k.N+1, max(s.k.At, at), after
	from := s.k.Routers[it.From]
	if from == nil {
		from = &router{}
		s.k.Routers[it.From] = from
	}
	from.Seq, from.At = max(from.Seq, it.Seq), s.k.Lived
	return nil
}

// Digest returns the digest of the state.
func (s *State) Digest() (string, error) {
	snapshot, err := s.Snapshot()
	return digest(snapshot), err
}

// oldest returns the first live router by name, which writes the marks.
func (s *State) oldest() string {
	least := ""
	for name, r := range s.k.Routers {
		if s.k.Lived-r.At <= s.lease && (least == "" || name < least) {
			least = name
		}
	}
	return least
}
