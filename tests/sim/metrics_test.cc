#include "takt/sim/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RequestRecord Completed(double arrival, double first_step, double first_token, double end, std::int32_t output) {
  RequestRecord r;
  r.arrival = At(arrival);
  r.first_step = At(first_step);
  r.first_token = At(first_token);
  r.end = At(end);
  r.output_tokens = output;
  r.outcome = Outcome::kCompleted;
  return r;
}

TEST_CASE("two requests have the metrics computed by hand") {
  // The first waits 1 s, gets its token at 3 s and four more until 11 s; the second has one token.
  std::vector<RequestRecord> requests = {Completed(0, 1, 3, 11, 5), Completed(2, 2, 4, 4, 1)};
  requests[0].preemptions = 2;
  requests[0].recomputed_tokens = 70;
  const std::vector<WorkflowRecord> workflows = {{At(0), At(11), Outcome::kCompleted}};
  const IsolatedLatencies isolated{{FromSeconds(5.5), FromSeconds(2)}, {FromSeconds(4)}};

  const Metrics m = Summarize(requests, workflows, isolated, {FromSeconds(2.5), FromSeconds(2)});
  CHECK(m.completed == 2);
  CHECK(m.queue.mean == 0.5);
  CHECK(m.ttft.mean == 2.5);
  CHECK(m.tpot.count == 1);
  CHECK(m.tpot.mean == 2);  // 8 s for the four after the first
  CHECK(m.e2e.mean == 6.5);
  CHECK(m.e2e.max == 11);
  CHECK(m.per_token.mean == Approx((11.0 / 5 + 2) / 2));
  CHECK(m.workflow.mean == 11);
  CHECK(m.slowdown.max == 2);
  CHECK(m.max_slowdown == 2);
  CHECK(m.slo_scale_95 == 2.75);
  CHECK(m.makespan == 11);
  CHECK(m.throughput_rps == Approx(2 / 11.0));
  CHECK(m.throughput_tokens == Approx(6 / 11.0));
  CHECK(m.goodput_rps == Approx(1 / 11.0));  // the first misses its first token by half a second
  CHECK(m.slo_attainment == 0.5);
  CHECK(m.preemptions == 2);
  CHECK(m.recomputed_tokens == 70);
  CHECK_FALSE(m.regret.has_value());
}

TEST_CASE("a window omits earlier requests and counts waiting ones") {
  // Six requests: before the window, served, still running, its step beyond the end, waiting, and never arrived.
  std::vector<RequestRecord> requests = {Completed(0, 1, 3, 11, 5), Completed(10, 11, 12, 14, 3), {}, {}, {}, {}};
  requests[2].arrival = At(12), requests[2].first_token = At(15);
  requests[3].arrival = At(13), requests[3].first_token = At(21);
  requests[4].arrival = At(14);
  requests[1].workflow = requests[2].workflow = 1;
  const std::vector<WorkflowRecord> workflows = {{At(0), At(11), Outcome::kCompleted}, {At(10)}, {}};
  const IsolatedLatencies isolated{std::vector(6, FromSeconds(2)), std::vector(3, FromSeconds(2))};
  const Metrics m = Summarize(requests, workflows, isolated, {}, Window{At(10), At(20)});
  CHECK(m.requests == 4);
  CHECK(m.completed == 1);
  CHECK(m.pending == 3);
  CHECK(m.workflows == 1);
  CHECK(m.workflows_completed == 0);
  CHECK(m.ttft.count == 4);
  CHECK(m.ttft.mean == Approx((2 + 3 + 7 + 6) / 4.0));
  CHECK(m.ttft.max == 7);
  CHECK(m.e2e.mean == 4);
  CHECK(m.slowdown.max == 2);
  CHECK(m.makespan == Approx(10));
  CHECK(m.throughput_rps == Approx(0.1));
  CHECK(m.throughput_tokens == Approx(0.3));
}

TEST_CASE("incomplete requests are counted and excluded from latencies") {
  std::vector<RequestRecord> requests = {Completed(0, 0, 1, 1.05, 2), {}, {}, {}};
  requests[1].arrival = At(1);
  requests[1].outcome = Outcome::kFailed;
  requests[2].outcome = Outcome::kNeverMade;
  const Metrics m = Summarize(requests, {}, {}, {});
  CHECK(m.requests == 4);
  CHECK(m.completed == 1);
  CHECK(m.failed == 1);
  CHECK(m.never_made == 1);
  CHECK(m.pending == 1);
  CHECK(m.e2e.count == 1);
  CHECK(m.slo_attainment == 0.25);
  CHECK(m.slowdown.count == 0);
}

TEST_CASE("the SLO scale is the least multiple for 95 % of workflows") {
  Random random(3);
  for (const std::size_t n : {1u, 2u, 19u, 20u, 21u, 40u, 100u, 333u}) {
    std::vector<WorkflowRecord> workflows;
    IsolatedLatencies isolated;
    std::vector<double> scales;
    for (std::size_t i = 0; i < n; ++i) {
      const double alone = 0.5 + random.Uniform();
      const double latency = alone * (1 + random.Exponential());
      workflows.push_back({At(0), At(latency), Outcome::kCompleted});
      isolated.workflows.push_back(FromSeconds(alone));
      scales.push_back(ToSeconds(workflows[i].end - workflows[i].arrival) / ToSeconds(isolated.workflows[i]));
    }
    const auto share_within = [&](double scale) {
      return static_cast<double>(std::count_if(scales.begin(), scales.end(), [&](double s) { return s <= scale; })) /
             static_cast<double>(n);
    };
    double best = std::numeric_limits<double>::infinity();
    for (const double scale : scales) {
      if (share_within(scale) >= 0.95) best = std::min(best, scale);
    }
    CHECK(Summarize({}, workflows, isolated, {}).slo_scale_95 == best);
  }
}

TEST_CASE("an SLO scale is infinite if a twentieth fails") {
  std::vector<WorkflowRecord> workflows(20, {At(0), At(1), Outcome::kCompleted});
  const IsolatedLatencies isolated{{}, std::vector<Duration>(20, FromSeconds(1))};
  workflows[7].outcome = Outcome::kFailed;
  CHECK(Summarize({}, workflows, isolated, {}).slo_scale_95 == 1);
  workflows[3].outcome = Outcome::kFailed;
  CHECK(std::isinf(Summarize({}, workflows, isolated, {}).slo_scale_95));
}

TEST_CASE("a series stays within its limit and covers the run") {
  Series series(50);
  for (int i = 0; i < 100'000; ++i) {
    const TimePoint now = At(i * 0.01);
    if (series.due(now)) series.Add({now, i, 0, 0});
  }
  const auto& points = series.points();
  CHECK(points.size() <= 50);
  CHECK(points.size() >= 20);
  CHECK(points.front().time == At(0));
  CHECK(points.back().time > At(900));
  CHECK(std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.time < b.time; }));
}

TEST_CASE("a mean over time weighs values by duration") {
  TimeMean mean;
  CHECK(mean.mean() == 0);
  mean.Set(At(1), 10);
  CHECK(mean.mean() == 10);
  mean.Set(At(2), 40);  // 10 for 1 s
  mean.Set(At(4), 0);   // 40 for 2 s
  CHECK(mean.mean() == Approx(30));
  CHECK(mean.peak() == 40);
}

}  // namespace
}  // namespace takt
