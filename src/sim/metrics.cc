#include "takt/sim/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "takt/numeric/quantile.h"

namespace takt {
namespace {

double Seconds(TimePoint from, TimePoint to) { return ToSeconds(Between(from, to)); }

double Tpot(const RequestRecord& r) {
  return r.output_tokens > 1 ? Seconds(r.first_token, r.end) / (r.output_tokens - 1) : 0;
}

bool Meets(const RequestRecord& r, const SloTarget& slo) {
  return Between(r.arrival, r.first_token) <= slo.ttft && Tpot(r) <= ToSeconds(slo.tpot);
}

// Summarises `value(i)` over all i below `count` with a value of at least 0.
template <class Value>
Summary Over(std::size_t count, std::vector<double>& scratch, Value value) {
  scratch.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (const double x = value(i); x >= 0) scratch.push_back(x);
  }
  return Summary::Of(scratch);
}

double Ratio(Duration latency, Duration alone) {
  return alone > Duration::zero() ? ToSeconds(latency) / ToSeconds(alone) : -1;
}

double SloScale95(std::span<const WorkflowRecord> workflows, std::span<const Duration> alone) {
  std::vector<double> scales;
  scales.reserve(workflows.size());
  for (std::size_t i = 0; i < workflows.size(); ++i) {
    const WorkflowRecord& w = workflows[i];
    scales.push_back(w.outcome == Outcome::kCompleted ? Ratio(Between(w.arrival, w.end), alone[i])
                                                      : std::numeric_limits<double>::infinity());
  }
  return scales.empty() ? 0 : Quantile(scales, 0.95, QuantileKind::kNearestRank);
}

Metrics SummarizeIn(const Window& window, std::span<const RequestRecord> requests,
                    std::span<const WorkflowRecord> workflows, const IsolatedLatencies& isolated,
                    const SloTarget& slo) {
  std::vector<RequestRecord> its_requests;
  std::vector<WorkflowRecord> its_workflows;
  IsolatedLatencies its_isolated;
  std::vector<std::uint32_t> index(workflows.size(), UINT32_MAX);  // index among the part's workflows
  for (std::size_t i = 0; i < workflows.size(); ++i) {
    if (!window.contains(workflows[i].arrival)) continue;
    index[i] = static_cast<std::uint32_t>(its_workflows.size());
    its_workflows.push_back(workflows[i]);
    if (isolated.workflows.size() == workflows.size()) its_isolated.workflows.push_back(isolated.workflows[i]);
  }
  std::vector<double> ttft;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestRecord& r = requests[i];
    if (!window.contains(r.arrival)) continue;
    its_requests.push_back(r);
    if (r.workflow < index.size()) its_requests.back().workflow = index[r.workflow];
    if (isolated.requests.size() == requests.size()) its_isolated.requests.push_back(isolated.requests[i]);
    const bool waits = r.outcome == Outcome::kPending && !window.contains(r.first_token);
    if (waits || r.first_token != kNever) ttft.push_back(Seconds(r.arrival, waits ? window.until : r.first_token));
  }
  Metrics m = Summarize(its_requests, its_workflows, its_isolated, slo);
  m.ttft = Summary::Of(ttft);
  const double longer = Seconds(window.from, window.until) / m.makespan;
  if (m.makespan > 0 && longer > 0) {
    m.makespan *= longer;
    for (double* rate : {&m.throughput_rps, &m.throughput_tokens, &m.goodput_rps}) *rate /= longer;
  }
  return m;
}

}  // namespace

void Series::Add(const SeriesPoint& point) {
  if (points_.size() == limit_) {
    // Keeps every second point.
    for (std::size_t i = 0; 2 * i < limit_; ++i) points_[i] = points_[2 * i];
    points_.resize((limit_ + 1) / 2);
    const Duration mean = Between(points_.front().time, point.time) / static_cast<std::int64_t>(points_.size());
    interval_ = std::max(Times(interval_, 2), mean);
  }
  points_.push_back(point);
  next_ = After(point.time, interval_);
}

void TimeMean::Set(TimePoint now, double value) {
  if (started_ && now > since_) {
    const double span = Seconds(since_, now);
    sum_ += value_ * span;
    span_ += span;
  }
  if (!started_ || now > since_) since_ = now;
  started_ = true;
  value_ = value;
  peak_ = std::max(peak_, value);
}

Metrics Summarize(std::span<const RequestRecord> requests, std::span<const WorkflowRecord> workflows,
                  const IsolatedLatencies& isolated, const SloTarget& slo, const std::optional<Window>& window) {
  if (window) return SummarizeIn(*window, requests, workflows, isolated, slo);
  Metrics m;
  m.requests = static_cast<std::int64_t>(requests.size());
  m.workflows = static_cast<std::int64_t>(workflows.size());

  TimePoint first = kNever, last = kUnset;
  std::int64_t met = 0;
  std::vector<std::int64_t> written(workflows.size());
  for (const RequestRecord& r : requests) {
    first = std::min(first, r.arrival);
    m.preemptions += r.preemptions;
    m.recomputed_tokens += r.recomputed_tokens;
    m.cached_tokens += r.cached_tokens;
    m.output_tokens += r.output_tokens;
    if (r.workflow < written.size()) written[r.workflow] += r.output_tokens;
    if (r.end != kNever) last = std::max(last, r.end);
    switch (r.outcome) {
      case Outcome::kCompleted: ++m.completed, met += Meets(r, slo); break;
      case Outcome::kFailed: ++m.failed; break;
      case Outcome::kNeverMade: ++m.never_made; break;
      case Outcome::kPending: ++m.pending; break;
    }
  }
  for (const WorkflowRecord& w : workflows) m.workflows_completed += w.outcome == Outcome::kCompleted;
  if (m.requests > 0) m.slo_attainment = static_cast<double>(met) / static_cast<double>(m.requests);
  if (first < last) {
    m.makespan = Seconds(first, last);
    m.throughput_rps = static_cast<double>(m.completed) / m.makespan;
    m.throughput_tokens = static_cast<double>(m.output_tokens) / m.makespan;
    m.goodput_rps = static_cast<double>(met) / m.makespan;
  }

  std::vector<double> scratch;
  scratch.reserve(std::max(requests.size(), workflows.size()));
  const auto over_requests = [&](auto value) {
    return Over(requests.size(), scratch,
                [&](std::size_t i) { return requests[i].outcome == Outcome::kCompleted ? value(requests[i], i) : -1; });
  };
  const auto over_workflows = [&](auto value) {
    return Over(workflows.size(), scratch, [&](std::size_t i) {
      return workflows[i].outcome == Outcome::kCompleted ? value(workflows[i], i) : -1;
    });
  };
  using R = const RequestRecord&;
  m.queue = over_requests([](R r, std::size_t) { return Seconds(r.arrival, r.first_step); });
  m.ttft = over_requests([](R r, std::size_t) { return Seconds(r.arrival, r.first_token); });
  m.tpot = over_requests([](R r, std::size_t) { return r.output_tokens > 1 ? Tpot(r) : -1; });
  m.e2e = over_requests([](R r, std::size_t) { return Seconds(r.arrival, r.end); });
  m.per_token =
      over_requests([](R r, std::size_t) { return Seconds(r.arrival, r.end) / std::max(r.output_tokens, 1); });
  m.workflow = over_workflows([](const WorkflowRecord& w, std::size_t) { return Seconds(w.arrival, w.end); });
  m.workflow_per_token = over_workflows([&](const WorkflowRecord& w, std::size_t i) {
    return Seconds(w.arrival, w.end) / static_cast<double>(std::max<std::int64_t>(written[i], 1));
  });
  if (isolated.requests.size() == requests.size()) {
    m.slowdown =
        over_requests([&](R r, std::size_t i) { return Ratio(Between(r.arrival, r.end), isolated.requests[i]); });
    m.max_slowdown = m.slowdown.max;
  }
  if (isolated.workflows.size() == workflows.size()) {
    m.workflow_slowdown = over_workflows([&](const WorkflowRecord& w, std::size_t i) {
      return Ratio(Between(w.arrival, w.end), isolated.workflows[i]);
    });
    m.slo_scale_95 = SloScale95(workflows, isolated.workflows);
  }
  return m;
}

}  // namespace takt
