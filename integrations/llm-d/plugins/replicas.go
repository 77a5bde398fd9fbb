package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"

	"takt-llm-d/fleet"
	"takt-llm-d/replica"
)

// Replicas configures the log that several routers of one fleet share: docs/howto/llm_d_replicas.md.
type Replicas struct {
	// URL of a Valkey or Redis 7 server, redis://user:password@host:6379/0; empty: the value of TAKT_REPLICAS_URL.
	URL string `json:"url"`
	// Stream of this fleet's routers; no other routers may use it.
	Stream string `json:"stream"`
	// LeaseSeconds: silence after which a router is dead and its requests in flight have failed; 0: 10.
	LeaseSeconds float64 `json:"leaseSeconds"`
	// MarkEvery: records between snapshots; records older than the last two snapshots are dropped; 0: 20,000.
	MarkEvery int `json:"markEvery"`
}

var sharing atomic.Bool // the process has one learner, which can follow one log

// share makes the fleet and the learner follow the log until the router ends.
func (r *Replicas) share(ctx context.Context, handle plugin.Handle, f *fleet.Fleet) error {
	url := r.URL
	if url == "" {
		if url = os.Getenv("TAKT_REPLICAS_URL"); url == "" {
			return errors.New("replicas: url is empty; set it or TAKT_REPLICAS_URL")
		}
	}
	if !(r.LeaseSeconds >= 0 && r.LeaseSeconds <= 3600) {
		return fmt.Errorf("replicas: leaseSeconds is %v: must be from 0 to 3600", r.LeaseSeconds)
	}
	if r.MarkEvery < 0 {
		return fmt.Errorf("replicas: markEvery is %d: must not be below 0", r.MarkEvery)
	}
	shared, err := replica.OpenRedis(url, r.Stream)
	if err != nil {
		return fmt.Errorf("replicas: %w", err)
	}
	if sharing.Swap(true) {
		shared.Close()
		return errors.New("replicas: another takt-scorer of this router uses replicas already")
	}
	it := replica.New(shared, f, learned, replica.Options{Lease: time.Duration(r.LeaseSeconds * 1e9), MarkEvery: r.MarkEvery,
		Failed: func(err error) { log.Log.Error(err, "the log of the replicas", "stream", r.Stream) }})
	if recorder := handle.Metrics(); recorder != nil {
		if err := recorder.Register(sharedCollector{it}); err != nil {
			return err
		}
	}
	go func() {
		defer shared.Close()
		it.Run(ctx)
	}()
	return nil
}

type sharedCollector struct{ replica *replica.Replica }

var (
	connected = described("log_connected", "1: this router follows the log of the replicas.")
	pending   = described("log_pending", "Items that have not come back from the log yet.")
	logItems  = described("log_items_total", "Items and records of the log, by outcome.", "what")
)

func (c sharedCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connected, pending, logItems} {
		to <- d
	}
}

func (c sharedCollector) Collect(to chan<- prometheus.Metric) {
	n := c.replica.Count()
	up := 0.0
	if n.Connected {
		up = 1
	}
	to <- prometheus.MustNewConstMetric(connected, prometheus.GaugeValue, up)
	to <- prometheus.MustNewConstMetric(pending, prometheus.GaugeValue, float64(n.Pending))
	for what, value := range map[string]uint64{"published": n.Published, "dropped": n.Dropped, "followed": n.Followed,
		"duplicate": n.Duplicates, "malformed": n.Malformed, "mark": n.Marks, "snapshot_kept": n.Saved,
		"snapshot_begun_from": n.Restored, "end_lost": n.Lost, "outage": n.Outages, "diverged": n.Diverged,
		"left_in_flight": n.Swept} {
		to <- prometheus.MustNewConstMetric(logItems, prometheus.CounterValue, float64(value), what)
	}
}
