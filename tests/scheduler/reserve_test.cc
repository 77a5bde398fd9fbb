// Reserves for outputs, the order of victims, and ties in favor of requests that have run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "host.h"
#include "takt/base/random.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/policy/sjf.h"

namespace takt {
namespace {

using testing::Host;
using testing::Prompt;

struct Outcome {
  std::int64_t steps = 0;
  std::uint64_t preempted = 0, recomputed = 0;
};

// Runs 60 requests of 300 prompt tokens and the given outputs on 400 blocks of 16 tokens. `known`: the estimates that
// the scheduler receives; unknown if a mean is negative.
template <class Policy = Fcfs>
Outcome Run(SchedulerOptions options, const std::vector<std::int32_t>& outputs, const std::vector<Estimate>& known) {
  options.kv_blocks = {400};
  auto scheduler = *BasicScheduler<Policy>::Create(options);
  std::map<std::uint64_t, std::int32_t> left;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Request r = Prompt(i + 1, 300);
    r.output_tokens = known[i], r.max_output_tokens = {2 * outputs[i]};
    left[i + 1] = outputs[i];
    scheduler.On(Arrived{r}, TimePoint{});
  }
  Outcome outcome;
  while (scheduler.alive() > 0 && outcome.steps < 100'000) {
    const StepPlan& plan = scheduler.Plan(TimePoint(Duration(++outcome.steps)), {.tokens = {2048}});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      const bool ends = e.samples() && --left[e.request.value] == 0;
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
    }
    scheduler.Commit({plan.id, rows}, TimePoint(Duration(outcome.steps)));
  }
  outcome.preempted = scheduler.stats().preempted_recompute;
  outcome.recomputed = scheduler.stats().tokens_recomputed;
  return outcome;
}

const std::vector<std::int32_t> kEqual(60, 600);
const std::vector<Estimate> kExact(60, Estimate::Exact(600)), kUnknown(60);

TEST_CASE("with exact estimates, a reserve ends preemptions under every order") {
  const Outcome today = Run({}, kEqual, kExact);
  CHECK(today.preempted > 50);
  for (const double quantile : {0.1, 0.5, 0.9}) {
    CAPTURE(quantile);
    const Outcome reserved = Run({.reserve_output = quantile}, kEqual, kExact);
    CHECK(reserved.preempted == 0);
    CHECK(reserved.recomputed == 0);
    CHECK(Run<Sjf>({.reserve_output = quantile}, kEqual, kExact).preempted == 0);
    CHECK(Run<Priority>({.reserve_output = quantile}, kEqual, kExact).preempted == 0);
  }
}

TEST_CASE("a reserve of the whole cap never evicts, and without estimates a share of the cap is reserved") {
  CHECK(Run({.reserve_output = 1}, kEqual, kUnknown).preempted == 0);
  CHECK(Run({.reserve_output = 0.5}, kEqual, kUnknown).preempted == 0);  // half of the cap is the true length
  CHECK(Run({.reserve_output = 0.2}, kEqual, kUnknown).preempted > 0);
}

TEST_CASE("the frontier of preemptions and steps") {
  // Lengths around 600 with a known distribution, as a predictor gives them.
  Random random(5);
  std::vector<std::int32_t> outputs;
  for (int i = 0; i < 60; ++i)
    outputs.push_back(static_cast<std::int32_t>(std::clamp(random.LogNormal(6.2, 0.6), 20.0, 3000.0)));
  const std::vector<Estimate> known(60, Estimate::LogNormal(std::exp(6.2 + 0.18), 0.36));
  const Outcome none = Run({}, outputs, known);
  std::string table;
  const auto row = [&table](const std::string& name, const Outcome& o) {
    table += name + ": " + std::to_string(o.preempted) + " preempted, " + std::to_string(o.recomputed) +
             " recomputed, " + std::to_string(o.steps) + " steps\n";
  };
  row("equal, none", Run({}, kEqual, kExact));
  row("equal, least lost", Run({.victims = VictimChoice::kLeastLost}, kEqual, kExact));
  for (const double share : {0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5}) {  // of the cap of 1,200
    row("equal, unknown, " + OptionToText(share), Run({.reserve_output = share}, kEqual, kUnknown));
  }
  row("spread, none", none);
  row("spread, least lost", Run({.victims = VictimChoice::kLeastLost}, outputs, known));
  for (const double quantile : {0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0}) {
    row("spread, " + OptionToText(quantile), Run({.reserve_output = quantile}, outputs, known));
  }
  std::vector<Estimate> exact;
  for (const std::int32_t output : outputs) exact.push_back(Estimate::Exact(output));
  row("spread, exact", Run({.reserve_output = 0.5}, outputs, exact));
  std::fputs(table.c_str(), stdout);
  const Outcome some = Run({.reserve_output = 0.2}, outputs, known),
                sure = Run({.reserve_output = 0.5}, outputs, exact);
  CHECK(4 * some.recomputed < none.recomputed);
  CHECK(100 * some.steps < 110 * none.steps);
  CHECK(10 * sure.recomputed < none.recomputed);
  CHECK(100 * sure.steps < 115 * none.steps);
}

TEST_CASE("the request that loses least is preempted, instead of the last by rank") {
  SchedulerOptions options{.kv_block_tokens = {4}, .kv_blocks = {12}, .kv_watermark = 0};
  options.victims = VictimChoice::kLeastLost;
  const auto preempted = [](const SchedulerOptions& o) {
    Host<Priority> host(o);
    Request old = Prompt(1, 20), young = Prompt(2, 8);
    old.priority = 1;  // it ranks last, and has computed most
    host.Arrive(old), host.Step();
    host.Arrive(young);
    for (int i = 0; i < 40; ++i) {
      const StepPlan& plan = host.Plan();
      if (!plan.preempted.empty()) return plan.preempted[0].request.value;
      host.Commit(plan);
    }
    return std::uint64_t{0};
  };
  CHECK(preempted(options) == 2);
  options.victims = VictimChoice::kRank;
  CHECK(preempted(options) == 1);
  options.victims = VictimChoice::kLeastLost;
  options.preempt = PreemptMode::kByRank;
  CHECK(std::string(options.Validate().message()).find("victims is least_lost: is unsupported") != std::string::npos);
}

TEST_CASE("a request that has run comes before its peers") {
  for (const bool first : {false, true}) {
    SchedulerOptions options{.kv_blocks = {100}};
    options.begun_first = first;
    Host<Priority> host(options, {.max_seqs = 1});
    Request late = Prompt(1, 8), early = Prompt(2, 8);
    late.arrival = testing::Ms(5), early.arrival = testing::Ms(1);
    host.Arrive(late);
    host.Step();
    host.On(Blocked{{1}});
    host.limits.max_seqs = 0;
    host.Arrive(early);
    host.On(Unblocked{{1}});
    host.limits.max_seqs = 1;
    CHECK(host.Step().substr(0, 1) == (first ? "1" : "2"));
  }
}

TEST_CASE("the reserve is checked") {
  SchedulerOptions options{.kv_blocks = {100}, .reserve_output = 1.5};
  CHECK(std::string(options.Validate().message()).find("reserve_output is 1.5: must be 0 to 1") != std::string::npos);
}

}  // namespace
}  // namespace takt
