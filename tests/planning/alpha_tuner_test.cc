// The search for alpha, and when it starts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/placement/registry.h"
#include "takt/planning/alpha_tuner.h"
#include "takt/sim/profiles.h"
#include "takt/workload/generate.h"
#include "takt/workload/validate.h"

namespace takt {
namespace {

using std::chrono::seconds;

// Duration of a step with any batch; one call at a time.
Profile EngineOf(const std::string& id, double step_ms) {
  Profile p;
  p.id = id;
  p.cost.served = CostModel::Served{.constant_ms = step_ms};
  p.kv_capacity_tokens = 1 << 20;
  return p;
}

// A fast engine and two that are too slow to be useful.
ReplayOptions Cluster() {
  ReplayOptions options;
  options.engines = {EngineOf("slow", 2000), EngineOf("fast", 10), EngineOf("slow2", 2000)};
  options.engine.limits.max_seqs = 1;
  options.placement = *MakePlacement("workload_balance");
  options.estimates = {EstimateKind::kOracle, 0};
  return options;
}

Workload Chat() { return *GenerateWorkload("gen:poisson,requests=150,rate=4,prompt=constant:10,output=constant:20"); }

TEST_CASE("the search finds slow engines useless in any thread order") {
  AlphaSearch search{.workload = Chat(), .replay = Cluster(), .quantile = 1};
  const auto choice = SearchAlpha(search);
  REQUIRE(choice.ok());
  REQUIRE(choice->points.size() == 11);
  CHECK(choice->replays == 55);
  CHECK(choice->points.front().mean > 3 * choice->points.back().mean);
  CHECK(choice->alpha > 0);
  CHECK(choice->alpha <= choice->best);
  CHECK_FALSE(choice->why.empty());
  // From the last to the first, as other threads may finish.
  const auto backwards = [](std::size_t n, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = n; i-- > 0;) body(i);
  };
  const auto again = SearchAlpha(search, backwards);
  REQUIRE(again.ok());
  CHECK(again->alpha == choice->alpha);
  for (std::size_t i = 0; i < 11; ++i) {
    CHECK(again->points[i].mean == choice->points[i].mean);
    CHECK(again->points[i].p_worse == choice->points[i].p_worse);
  }
}

TEST_CASE("the search takes the smallest of equal alphas") {
  AlphaSearch search{.workload = Chat(), .replay = Cluster()};
  search.replay.engines = {EngineOf("a", 10)};
  search.alphas = {0.2, 0.4, 0.8};
  search.seeds = 3;
  const auto choice = SearchAlpha(search);
  REQUIRE(choice.ok());
  CHECK(choice->alpha == 0.2);
  search.seeds = 1;
  CHECK(SearchAlpha(search)->alpha == 0.2);
}

TEST_CASE("a search can be stopped, and its faults are named") {
  AlphaSearch search{.workload = Chat(), .replay = Cluster()};
  double last_share = -1;
  const auto stopped = SearchAlpha(search, SerialFor, [&](double share) { return last_share = share, share < 0.5; });
  CHECK(stopped.status().code() == absl::StatusCode::kCancelled);
  CHECK(last_share >= 0.5);
  AlphaSearch wrong = search;
  wrong.alphas = {0.5, 0.5, 1.5};
  wrong.seeds = 0;
  wrong.quantile = std::numeric_limits<double>::quiet_NaN();
  wrong.replay.placement = *MakePlacement("round_robin");
  wrong.workload = {};
  const std::string faults(SearchAlpha(wrong).status().message());
  for (const char* field : {"alphas is 0.5", "alphas is 1.5", "seeds is 0", "quantile is nan",
                            "placement is round_robin", "workload is empty"}) {
    INFO(faults);
    CHECK(faults.find(field) != std::string::npos);
  }
  search.replay.placement = *MakePlacement("workload_balance(queue=waiting)");
  search.alphas = {1};
  search.seeds = 1;
  CHECK(SearchAlpha(search).ok());
}

TEST_CASE("another seed has equal gaps and reordered workflows") {
  const Workload w = BundledWorkload();
  CHECK(Reshuffled(w, 0) == w);
  const Workload other = Reshuffled(w, 7);
  CHECK(Validate(other).ok());
  CHECK_FALSE(other == w);
  CHECK(other == Reshuffled(w, 7));
  CHECK(other.workflows.back().arrival == w.workflows.back().arrival);
  CHECK(other.calls.size() == w.calls.size());
  const auto tokens = [](const Workload& x) {
    std::vector<std::int32_t> all;
    for (const WorkloadCall& c : x.calls) all.push_back(c.output_tokens);
    std::ranges::sort(all);
    return all;
  };
  CHECK(tokens(other) == tokens(w));
}

// ---- start of a search ----

ServedWorkflow Served(TimePoint end, double latency) {
  ServedWorkflow s{.arrival = end - FromSeconds(latency), .end = end};
  WorkloadCall first, second;
  first.prompt_tokens = second.prompt_tokens = 10;
  first.output_tokens = second.output_tokens = 5;
  first.stage = 1;
  s.calls = {first, second};
  s.predecessors = {{}, {0}};
  return s;
}

// Windows of 100 s with a number of workflows each. Latencies are `scale` times log-normal.
struct Host {
  AlphaTuner tuner;
  Random random;
  TimePoint now{};

  explicit Host(std::uint64_t seed, AlphaTunerOptions options = {.first_search = false})
      : tuner(*AlphaTuner::Create(options, Cluster())), random(seed) {
    tuner.Advance(now);
  }

  std::optional<AlphaSearch> Window(int workflows, double scale) {
    for (int i = 0; i < workflows; ++i) {
      tuner.Ended(Served(now + FromSeconds(100.0 * (i + 0.5) / workflows), scale * random.LogNormal(0, 0.5)));
    }
    now += seconds(100);
    return tuner.Advance(now);
  }
};

TEST_CASE("a worse tail starts a search over the last two windows") {
  Host host(1);
  CHECK(host.tuner.alpha() == 0);
  CHECK_FALSE(host.Window(50, 30));
  CHECK_FALSE(host.Window(50, 30));
  const auto search = host.Window(50, 60);
  REQUIRE(search);
  CHECK(host.tuner.searching());
  CHECK(search->workload.workflows.size() == 100);
  CHECK(search->workload.calls.size() == 200);
  CHECK(Validate(search->workload).ok());
  CHECK(search->replay.engines.size() == 3);
  CHECK_FALSE(host.Window(50, 120));  // worse again, but a search is running

  AlphaChoice choice;
  choice.alpha = 0.4;
  choice.why = "it is the best";
  const std::optional<Epoch> epoch = host.tuner.Finished(choice, host.now);
  REQUIRE(epoch);
  CHECK(epoch->alpha == 0.4);
  CHECK(host.tuner.alpha() == 0.4);
  CHECK_FALSE(host.tuner.Finished(choice, host.now));  // no search is running
  const auto& history = host.tuner.history();
  REQUIRE(history.size() == 5);
  CHECK(history[0].why == "0 and 50 workflows ended in two windows; expected 10 each");
  CHECK(history[1].action == AlphaDecision::Action::kKept);
  CHECK(history[2].action == AlphaDecision::Action::kSearched);
  CHECK(history[2].p < 0.01);
  CHECK(history[2].tail_now > history[2].tail_before);
  CHECK(history[3].why.find("a search is already running") != std::string::npos);
  CHECK(history[4].action == AlphaDecision::Action::kChanged);
  CHECK(history[4].alpha_before == 0);
  CHECK(history[4].why == "it is the best");

  REQUIRE(host.Window(50, 400));
  CHECK_FALSE(host.tuner.Finished(absl::InternalError("lost"), host.now));
  CHECK(host.tuner.history().back().action == AlphaDecision::Action::kFailed);
  CHECK(host.tuner.alpha() == 0.4);
  REQUIRE(host.Window(50, 4000));
  CHECK_FALSE(host.tuner.Finished(choice, host.now));  // it stays
  CHECK(host.tuner.history().back().action == AlphaDecision::Action::kKept);
}

TEST_CASE("the first full window is searched once, after a warm-up") {
  Host host(1, {});
  CHECK_FALSE(host.Window(5, 30));  // too few
  const auto search = host.Window(50, 30);
  REQUIRE(search);
  CHECK(host.tuner.history().back().why == "50 workflows ended in the first full window");
  std::int64_t early = 0;  // arrived before the second window
  for (const WorkloadWorkflow& w : search->workload.workflows) {
    early += w.arrival < search->workload.workflows.back().arrival - seconds(100) ? 1 : 0;
  }
  CHECK(search->warm >= early);
  CHECK(search->warm > 0);
  AlphaSearch all = *search;
  all.alphas = {0}, all.seeds = 1;
  AlphaSearch none = all;
  none.warm = 0;
  CHECK(SearchAlpha(all)->points[0].mean != SearchAlpha(none)->points[0].mean);
  none.warm = 55;
  CHECK_FALSE(SearchAlpha(none).ok());
  none.warm = 5, none.replay.limit = 5;  // no workflow would count
  CHECK_FALSE(SearchAlpha(none).ok());
  AlphaChoice choice;
  host.tuner.Finished(choice, host.now);
  CHECK_FALSE(host.Window(50, 30));

  Host cold(1, {.first_search = false, .warm = false});
  cold.Window(50, 30);
  const auto later = cold.Window(50, 90);
  REQUIRE(later);
  CHECK(later->warm == 0);
  Host restored(1, {});
  CHECK(restored.tuner.Restore(0.3).alpha == 0.3);
  CHECK_FALSE(restored.Window(50, 30));
  CHECK(restored.tuner.alpha() == 0.3);
}

TEST_CASE("equal windows differ about as rarely as p, better tails never") {
  int alarms = 0, tests = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(100)); ++seed) {
    for (const int workflows : {15, 50}) {
      Host host(seed);
      for (int w = 0; w < 21; ++w) {
        const bool alarm = host.Window(workflows, 30).has_value();
        if (alarm) host.tuner.Finished(absl::CancelledError(""), host.now);
        alarms += alarm ? 1 : 0;
        tests += w > 0 ? 1 : 0;
      }
      CHECK_FALSE(host.Window(workflows, 5));
    }
  }
  INFO(alarms << " of " << tests);
  CHECK(alarms <= 3 + tests * 15 / 1000);
}

TEST_CASE("a doubled tail is nearly always detected; few workflows are not compared") {
  int seen = 0;
  const std::int64_t seeds = Scaled(100);
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    Host host(static_cast<std::uint64_t>(seed));
    host.Window(50, 30);
    seen += host.Window(50, 60) ? 1 : 0;
    Host few(static_cast<std::uint64_t>(seed));
    few.Window(9, 30);
    CHECK_FALSE(few.Window(9, 3000));
  }
  CHECK(seen >= seeds * 9 / 10);
}

TEST_CASE("invalid input to the tuner does no harm, and memory stays bounded") {
  Host host(1, {.most = 20, .history = 3, .first_search = false});
  ServedWorkflow none, early = Served(TimePoint(seconds(5)), 1), circle = Served(TimePoint(seconds(5)), 1);
  early.end = early.arrival - seconds(1);
  circle.predecessors = {{1}, {0}};
  ServedWorkflow dangling = Served(TimePoint(seconds(5)), 1);
  dangling.predecessors = {{}, {7}};
  ServedWorkflow empty = Served(TimePoint(seconds(5)), 1);
  empty.calls[0].prompt_tokens = -5;
  for (const ServedWorkflow& s : {none, early, circle, dangling, empty}) host.tuner.Ended(s);
  CHECK(host.tuner.ignored() == 4);
  CHECK_FALSE(host.tuner.Advance(TimePoint(seconds(-50))));
  for (int w = 0; w < 10; ++w) {
    if (const auto search = host.Window(30, w % 2 == 0 ? 10 : 1000)) {
      CHECK(search->workload.workflows.size() <= 20);
      CHECK(Validate(search->workload).ok());
      host.tuner.Finished(absl::CancelledError(""), host.now);
    }
  }
  CHECK(host.tuner.history().size() == 3);
  host.now += seconds(1'000'000);  // the host slept
  CHECK_FALSE(host.tuner.Advance(host.now));
  CHECK_FALSE(host.tuner.Advance(host.now));
  CHECK(host.tuner.history().size() == 3);

  CHECK_FALSE(
      AlphaTuner::Create({.window = seconds(0), .p = 2, .tail = 1, .least = 1, .most = 0, .history = 0}, Cluster())
          .ok());
  CHECK_FALSE(AlphaTuner::Create({}, ReplayOptions{}).ok());
}

}  // namespace
}  // namespace takt
