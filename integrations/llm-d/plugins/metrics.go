package plugins

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"

	"takt-llm-d/fleet"
)

// collector reports the figures of a fleet and the learner to Prometheus.
type collector struct{ fleet *fleet.Fleet }

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("takt_"+name, help, labels, nil)
}

var (
	scored    = described("scored_total", "Requests for which the placement has scored endpoints.")
	placed    = described("placed_total", "Requests that were sent to an endpoint.")
	ended     = described("ended_total", "Requests whose answer has ended, by kind of end.", "how")
	inFlight  = described("in_flight", "Requests that were sent to an endpoint and have not ended.")
	endpoints = described("endpoints", "Endpoints that the placement knows.")
	agents    = described("learned_agents", "Agents with learned lengths of answers.")
	underWay  = described("learned_workflows", "Active workflows.")
	over      = described("learned_workflows_ended_total", "Ended workflows that the learner has used.")
	counted   = described("router_total", "Counters of takt's router, by name (docs/reference/stats.md).", "counter")
)

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{scored, placed, ended, inFlight, endpoints, agents, underWay, over, counted} {
		to <- d
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	n := c.fleet.Count()
	send(scored, prometheus.CounterValue, float64(n.Scored))
	send(placed, prometheus.CounterValue, float64(n.Placed))
	send(ended, prometheus.CounterValue, float64(n.Ended-n.Failed), "with_usage")
	send(ended, prometheus.CounterValue, float64(n.Failed), "without_usage")
	send(inFlight, prometheus.GaugeValue, float64(n.InFlight))
	send(endpoints, prometheus.GaugeValue, float64(n.Engines))
	a, u, o := learned.Knows()
	send(agents, prometheus.GaugeValue, float64(a))
	send(underWay, prometheus.GaugeValue, float64(u))
	send(over, prometheus.CounterValue, float64(o))
	for name, value := range c.fleet.Stats() {
		send(counted, prometheus.CounterValue, float64(value), name)
	}
}

// measured registers the metrics with the router. Only the first scorer has metrics.
func measured(handle plugin.Handle, f *fleet.Fleet) error {
	recorder := handle.Metrics()
	if recorder == nil {
		return nil
	}
	err := recorder.Register(collector{f})
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		return nil
	}
	return err
}
