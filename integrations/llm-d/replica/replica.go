package replica

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"takt"
	"takt-llm-d/fleet"
)

// Options of a replica; zero values have defaults.
type Options struct {
	Name        string        // name of this router, new at each start; empty: 16 random digits
	Lease       time.Duration // silence after which a router is dead and its requests in flight have failed; 10 s
	Expire      time.Duration // longest time in flight; 1 h
	MarkEvery   int           // records between snapshots, of which the log keeps two; 20,000
	ReportEvery time.Duration // least time between an engine's reports, over all routers; 500 ms
	Patience    time.Duration // time without the log after which events apply locally; 250 ms
	MostPending int           // maximum items waiting for the log; further ones are dropped and counted; 100,000
	Failed      func(error)   // called with errors of the log; nil: ignored
}

func (o Options) filled() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Lease, 10*time.Second)
	set(&o.Expire, time.Hour)
	set(&o.ReportEvery, 500*time.Millisecond)
	set(&o.Patience, 250*time.Millisecond)
	if o.MarkEvery <= 0 {
		o.MarkEvery = 20_000
	}
	if o.MostPending <= 0 {
		o.MostPending = 100_000
	}
	if o.Name == "" {
		var own [8]byte
		rand.Read(own[:]) // never fails
		o.Name = hex.EncodeToString(own[:])
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// Counts since creation.
type Counts struct {
	Published, Dropped             uint64 // items of this router; items dropped for lack of room
	Followed, Duplicates           uint64 // records
	Malformed                      uint64 // records that were skipped
	Marks, Saved, Restored         uint64 // snapshots taken, stored in the log, and loaded
	Lost, Outages, Diverged, Swept uint64 // losses in the log; outages; diverged states; requests of dead routers
	Pending                        int
	Connected                      bool
	Position                       string
}

// Replica publishes and follows the log for one router.
type Replica struct {
	options Options
	log     Log
	state   *State

	mu       sync.Mutex
	pending  []*item // not come back yet
	sent     int     // of pending: appended
	seq      uint64
	reported map[uint64]time.Time // time of the newest report, by engine
	counts   Counts
	kick     chan struct{} // wakes the sender
	alone    chan struct{} // wakes the follower: an event is pending

	// The follower's own:
	position string
	old      int  // of tail: read before the log lost records
	begun    bool // has read the snapshot, or the first record
	base     []byte
	tail     []Record // after base
	ahead    int      // of pending: applied without the log
	dirty    bool     // some were
	down     time.Time
	heard    time.Time // time of the newest read
	leftAt   takt.Time // the log's time then
	marking  uint64    // the record at which this router requested a mark
	lastMark string
}

// New creates a replica on a log; Run starts it. From now on, events of the fleet and the learner go through the log.
func New(log Log, f *fleet.Fleet, l *fleet.Learner, options Options) *Replica {
	options = options.filled()
	r := &Replica{options: options, log: log, state: NewState(f, l, options.Lease, options.Expire),
		reported: map[uint64]time.Time{}, kick: make(chan struct{}, 1), alone: make(chan struct{}, 1)}
	r.state.before = log.Before
	r.state.between = func(after, before string) (records []Record) {
		for _, record := range r.tail {
			if log.Before(after, record.Position) && log.Before(record.Position, before) {
				records = append(records, record)
			}
		}
		return records
	}
	f.SetShare(r.shareEntry)
	l.SetShare(func(fact fleet.Fact) { r.publish(&item{Fact: &fact}) })
	return r
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// shareEntry publishes an entry without the reports that are too early.
func (r *Replica) shareEntry(e fleet.Entry) {
	now := time.Now()
	kept := e.Events[:0]
	r.mu.Lock()
	for _, event := range e.Events {
		if report, is := event.(takt.InstanceReported); is {
			if now.Sub(r.reported[report.Instance]) < r.options.ReportEvery {
				continue
			}
			r.reported[report.Instance] = now
		}
		kept = append(kept, event)
	}
	r.mu.Unlock()
	if e.Events = kept; len(kept) > 0 || e.Placed != nil {
		r.publish(&item{Entry: &e})
	}
}

func (r *Replica) publish(it *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= r.options.MostPending && it.Base == nil {
		r.counts.Dropped++
		return
	}
	r.seq++
	it.From, it.Seq = r.options.Name, r.seq
	r.pending = append(r.pending, it)
	r.counts.Published++
	poke(r.kick)
	if !r.counts.Connected {
		poke(r.alone)
	}
}

// Count returns the current counts.
func (r *Replica) Count() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts
	c.Pending = len(r.pending)
	return c
}

// Run follows and publishes until ctx ends, and then waits at most a second for unpublished items.
func (r *Replica) Run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Add(1)
	go func() { defer done.Done(); r.send(sending) }()
	r.follow(ctx)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		left := len(r.pending) - r.sent
		r.mu.Unlock()
		if left == 0 {
			break
		}
	}
	stop()
	done.Wait()
}

// send appends pending items, or a sign of life if there are none.
func (r *Replica) send(ctx context.Context) {
	alive := time.NewTicker(max(10*time.Millisecond, r.options.Lease/10))
	defer alive.Stop()
	wait := time.Millisecond
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		case <-alive.C:
			r.mu.Lock()
			idle := len(r.pending) == 0
			r.mu.Unlock()
			if idle {
				r.publish(&item{})
			}
		}
		r.mu.Lock()
		from := r.sent
		batch := append([]*item(nil), r.pending[from:min(len(r.pending), from+512)]...)
		r.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		values := make([][]byte, 0, len(batch))
		for _, it := range batch {
			if value, err := json.Marshal(it); err == nil {
				values = append(values, value)
			} else { // for example an estimate that is NaN
				r.options.Failed(err)
			}
		}
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := r.log.Append(bounded, values)
		cancel()
		if err != nil {
			poke(r.kick)
			sleep(ctx, wait)
			wait = min(2*wait, time.Second)
			continue
		}
		wait = time.Millisecond
		last := batch[len(batch)-1].Seq
		r.mu.Lock()
		for r.sent < len(r.pending) && r.pending[r.sent].Seq <= last {
			r.sent++
		}
		if r.sent < len(r.pending) {
			poke(r.kick)
		}
		r.mu.Unlock()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// follow reads the log and applies it to the state.
func (r *Replica) follow(ctx context.Context) {
	retry := 10 * time.Millisecond
	for ctx.Err() == nil {
		err := r.read(ctx)
		if err == nil || ctx.Err() != nil {
			retry = 10 * time.Millisecond
			continue
		}
		if r.down.IsZero() {
			r.down = time.Now()
			r.mu.Lock()
			r.counts.Connected = false
			r.counts.Outages++
			r.mu.Unlock()
			r.options.Failed(err)
		}
		r.alonefor(ctx, retry)
		retry = min(2*retry, 500*time.Millisecond)
	}
}

func (r *Replica) read(ctx context.Context) error {
	if !r.begun {
		position, snapshot, err := r.log.Load(ctx)
		if err != nil {
			return err
		}
		if err := r.state.Restore(snapshot); err != nil { // damaged, or another version: read the log instead
			r.options.Failed(err)
			position, snapshot = "", nil
			if err := r.state.Restore(nil); err != nil {
				return err
			}
		}
		r.begun, r.dirty, r.ahead = true, false, 0
		r.position, r.base, r.tail, r.lastMark = position, snapshot, nil, position
		if position != "" {
			r.count(func(c *Counts) { c.Restored++; c.Position = position; r.confirm() })
		}
	}
	records, err := r.log.Read(ctx, r.position, 1024, 200*time.Millisecond)
	switch {
	case errors.Is(err, ErrTrimmed):
		r.options.Failed(err)
		r.begun = false
		return nil
	case errors.Is(err, ErrLost):
		r.options.Failed(err)
		return r.rebase()
	case err != nil:
		return err
	}
	if !r.down.IsZero() { // the log is back: items applied without it come again, in its order
		r.down = time.Time{}
		r.mu.Lock()
		r.sent = 0
		r.mu.Unlock()
		poke(r.kick)
	}
	if r.dirty {
		if err := r.rebuild(); err != nil {
			return err
		}
	}
	r.heard = time.Now()
	r.count(func(c *Counts) { c.Connected = true })
	for _, record := range records {
		r.applyRecord(ctx, record)
	}
	return nil
}

func (r *Replica) count(change func(*Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.counts)
}

// applyRecord applies a record of the log to the state.
func (r *Replica) applyRecord(ctx context.Context, record Record) {
	diverged := r.state.diverged
	it, err := r.state.applyRecord(record)
	r.position = record.Position
	r.tail = append(r.tail, record)
	r.mu.Lock()
	r.counts.Followed++
	r.counts.Position = record.Position
	r.counts.Diverged, r.counts.Swept = r.state.diverged, r.state.left
	if errors.Is(err, errDuplicate) {
		r.counts.Duplicates++
	} else if err != nil {
		r.counts.Malformed++
	}
	if it != nil && it.Entry != nil && err == nil {
		for _, event := range it.Entry.Events {
			if report, is := event.(takt.InstanceReported); is {
				r.reported[report.Instance] = time.Now()
			}
		}
	}
	mine := it != nil && it.From == r.options.Name
	r.confirm()
	r.mu.Unlock()
	if err == nil && it.Mark != nil {
		r.marked(ctx, record, mine)
	}
	if r.state.records >= r.options.MarkEvery && r.state.oldest() == r.options.Name && r.marking < r.state.k.N {
		r.marking = r.state.k.N + uint64(r.options.MarkEvery)
		r.publish(&item{Mark: &mark{r.state.k.Marks, r.state.k.Digest}})
	}
	if r.state.diverged > diverged { // only one can be right: the log's state counts, as for a new router
		r.options.Failed(errors.New("this router's state differs from the one that marked the log; restarting from the log"))
		r.begun = false
	}
}

// confirm drops pending items that have come back, also through a snapshot.
func (r *Replica) confirm() {
	known := r.state.k.Routers[r.options.Name]
	for known != nil && len(r.pending) > 0 && r.pending[0].Seq <= known.Seq {
		r.pending = r.pending[1:]
		r.sent = max(0, r.sent-1)
	}
}

// marked runs after the state was restored from its own snapshot; others can load it as well.
func (r *Replica) marked(ctx context.Context, record Record, save bool) {
	snapshot, err := r.state.Snapshot()
	if err != nil {
		r.options.Failed(err)
		return
	}
	r.base, r.tail, r.marking = snapshot, nil, 0
	before := r.lastMark
	r.lastMark = record.Position
	r.count(func(c *Counts) { c.Marks++ })
	if !save {
		return
	}
	if err = r.log.Save(ctx, record.Position, snapshot); err == nil {
		r.count(func(c *Counts) { c.Saved++ })
		if before != "" { // a router between the last two marks can still read on
			err = r.log.Trim(ctx, before)
		}
	}
	if err != nil {
		r.options.Failed(err)
	}
}

// rebuild resets the state to the log's, without items applied in its absence.
func (r *Replica) rebuild() error {
	if err := r.state.Restore(r.base); err != nil {
		return err
	}
	for _, record := range r.tail {
		r.state.Apply(record) // its errors were counted
	}
	r.dirty, r.ahead = false, 0
	return nil
}

// rebase publishes this router's state after the log has lost records, so that all routers agree again.
func (r *Replica) rebase() error {
	if r.dirty {
		if err := r.rebuild(); err != nil {
			return err
		}
	}
	snapshot, err := r.state.Snapshot()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.sent = 0
	r.counts.Lost++
	r.mu.Unlock()
	r.base, r.tail = snapshot, nil
	r.publish(&item{Base: &base{r.position, snapshot}})
	return nil
}

// alonefor runs without the log for a while: after Patience, events apply at once.
func (r *Replica) alonefor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		if !r.dirty {
			r.leftAt = r.state.k.At
		}
		known := r.leftAt
		if time.Since(r.down) >= r.options.Patience {
			r.mu.Lock()
			items := append([]*item(nil), r.pending[min(r.ahead, len(r.pending)):]...)
			r.mu.Unlock()
			for _, it := range items {
				if value, err := json.Marshal(it); err == nil && it.Base == nil && it.Mark == nil {
					at := time.Now()
					if !r.heard.IsZero() { // by the log's clock
						at = time.Unix(0, int64(known)).Add(time.Since(r.heard))
					}
					r.state.Apply(Record{At: at, Value: value})
				}
			}
			r.ahead += len(items)
			r.dirty = r.dirty || len(items) > 0
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.alone:
		}
	}
}
