#include "lab/default/claims.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/claim.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {
namespace {

struct Measure {
  const char* name;
  DefaultFigure figure;
};
constexpr Measure kMean = {"mean", &DefaultFigures::mean}, kP95 = {"p95", &DefaultFigures::p95},
                  kP99 = {"p99", &DefaultFigures::p99}, kMax = {"max", &DefaultFigures::max},
                  kScale = {"SLO scale at 95 %", &DefaultFigures::scale}, kTtft = {"mean TTFT", &DefaultFigures::ttft},
                  kInTime = {"attainment at 5 times alone", &DefaultFigures::in_time};

// Reasons for claims that fail, by kind.
constexpr const char* kTail =
    "large workflows give way to small ones that come later; in overload the largest ones pay for a lower mean";
constexpr const char* kOwnInformation =
    "sizes are known only as class averages, so that an order can rank classes only";
constexpr const char* kFirstTokens = "the order is by the end of workflows and ignores first tokens";
constexpr const char* kFlat =
    "small requests pass only within the room of earlier ones: that costs mean and saves tails";
constexpr const char* kNearEqual =
    "sizes are nearly equal, so passing gains little. Deadlines advance workflows with less time than usual; "
    "the others keep the order of arrival";

class DefaultJudge : Claims {
 public:
  DefaultJudge(const DefaultStudy& study, const DefaultPlan& plan) : study_(study), plan_(plan) {}

  std::vector<ScenarioClaim> All() {
    const DefaultSystem ours = defaults::Ours();
    for (const Served s : {Served::kApps, Served::kMath, Served::kApps7}) {
      AtMostTimes(s, ours, defaults::Stjf(), kMean, Up(1.02), kFlat);
    }
    for (const Served s : {Served::kText1, Served::kText2}) {
      AtMostTimes(s, ours, defaults::Urgency(), kP95, Up(1.02), kNearEqual);
      AtMostTimes(s, ours, defaults::Urgency(), kScale, Up(1.02), kNearEqual);
      AtMostTimes(s, ours, defaults::Slack(), kScale, Up(1.04), kNearEqual);
    }
    AtMostTimes(Served::kTools, ours, defaults::MemoryIntegral(), kMean, Up(1.02), kFlat);
    AtMostTimes(Served::kAgents, ours, defaults::AgentPriority(), kMean, Up(1.02), kOwnInformation, plan_.class_means);
    for (const Served s : {Served::kConv, Served::kCode}) {
      AtMostTimes(s, ours, defaults::Fcfs(), kP99, Up(1.05), kTail);
      AtMostTimes(s, ours, defaults::Fcfs(), kMean, {{1.1, 0.75}}, kFlat);
    }

    for (const Served s : {Served::kApps, Served::kMath})
      AtMostTimes(s, ours, defaults::Stjf(), kMean, {{1.1, 0.98}}, kFlat);
    for (const Served s : {Served::kText1, Served::kText2}) {
      AtMostTimes(s, ours, defaults::Urgency(), kP95, {{1.1, 0.92}}, kNearEqual);
      AtMostTimes(s, ours, defaults::Urgency(), kScale, {{1.1, 0.85}}, kNearEqual);
    }
    AtMostTimes(Served::kTools, ours, defaults::MemoryIntegral(), kMean, {{1.1, 0.85}}, kFlat);
    AtMostTimes(Served::kMix, ours, defaults::WorkflowFcfs(), kMean, {{1.1, 0.8}}, kFlat);
    for (const Measure& m : {kP95, kP99, kMax}) {
      AtMostTimes(Served::kMix, ours, defaults::WorkflowFcfs(), m, {{1.1, 1.01}}, kTail);
    }
    for (std::size_t i = 0; i < kHomes; ++i) BestMean(static_cast<Served>(i));
    for (const Served s : {Served::kText1, Served::kText2}) Attainment(s);
    for (std::size_t i = 0; i < kHomes; ++i) ClassMeansOnly(static_cast<Served>(i));

    AtMostTimes(Served::kAgents, ours, defaults::AgentPriority(), kP99, {{1.1, 1.10}}, kTail);
    AtMostTimes(Served::kAgents, ours, defaults::AgentPriority(), kMean, {{1.1, 0.85}}, kFlat);
    for (const Served s : {Served::kText1, Served::kText2}) {
      AtMostTimes(s, ours, defaults::UrgencyByLateness(), kP95, Up(1.02), kNearEqual);
      AtMostTimes(s, ours, defaults::UrgencyByLateness(), kScale, Up(1.02), kNearEqual);
    }
    AtMostTimes(Served::kTools, ours, defaults::MemoryIntegral(), kTtft, Up(1.0), kFirstTokens);
    AtMostTimes(Served::kShareGpt, ours, defaults::Fcfs(), kP99, {{1.1, 1.10}}, kTail);
    for (const Served s : {Served::kConv, Served::kCode}) {
      AtMostTimes(s, ours, defaults::UniBoost(), kMean, {{1.1, 1.02}}, kFlat);
      AtMostTimes(s, ours, defaults::UniBoost(), kP99, {{1.1, 1.02}}, kTail);
      AtMostTimes(s, defaults::Mean(), defaults::SageSched(), kMean, {{1.1, 1.02}}, kFlat);
    }
    AtMostTimes(Served::kAgents, ours, defaults::Justitia(), kMean, {{1.1, 1.02}}, kFlat);
    AtMostTimes(Served::kAgents, ours, defaults::Justitia(), kP99, {{1.1, 1.02}}, kTail);
    return Take();
  }

 private:
  using Targets = std::vector<std::pair<double, double>>;  // load, and the largest permitted upper limit

  Targets Up(double target) const {
    Targets all;
    for (const double load : plan_.claimed_loads) all.emplace_back(load, target);
    return all;
  }

  // Ratio of our figure to the other's.
  std::optional<Interval> RatioOf(Served s, double load, const DefaultSystem& ours, const DefaultSystem& other,
                                  const Measure& measure, const EstimateSpec& estimates) const {
    const std::optional<Reduction> r =
        study_.Compare({s, load, ours, estimates}, {s, load, other, estimates}, measure.figure);
    if (!r) return std::nullopt;
    return Interval{1 - r->mean / 100, 1 - r->high / 100, 1 - r->low / 100};
  }

  std::string KnownAs(const EstimateSpec& estimates) const {
    return estimates == plan_.usual ? "" : fmt::format(", {}", estimates.ToString());
  }

  // Ours is at most this multiple of the other's at each load; reports the load at which the claim is nearest to
  // failing.
  void AtMostTimes(Served s, const DefaultSystem& ours, const DefaultSystem& other, const Measure& measure,
                   const Targets& targets, const char* why, std::optional<EstimateSpec> estimates = {}) {
    const EstimateSpec known = estimates.value_or(plan_.usual);
    const bool all = targets.size() > 1;
    const std::string name =
        fmt::format("{}: {} of {} over that of {}, {}{}", Name(s), measure.name, ours.label, other.label,
                    all ? fmt::format("rho {:g} to {:g}", targets.front().first, targets.back().first)
                        : fmt::format("rho {:g}", targets.front().first),
                    KnownAs(known));
    std::vector<std::string> by_load;
    Interval worst;
    double target = targets.front().second, margin = -std::numeric_limits<double>::infinity();
    for (const auto& [load, most] : targets) {
      const std::optional<Interval> r = RatioOf(s, load, ours, other, measure, known);
      if (!r) return Missing(name, {{}, targets.back().second}, s);
      by_load.push_back(fmt::format("{:g}: {:.3f} [{:.3f}, {:.3f}]", load, r->mean, r->low, r->high));
      if (r->high / most > margin) margin = r->high / most, worst = *r, target = most;
    }
    const bool holds = margin <= 1;
    Add(name, worst, {{}, target}, "x", holds,
        fmt::format("by rho: {}{}{}", fmt::join(by_load, ", "), holds ? "" : "; ", holds ? "" : why), worst.high);
  }

  void Missing(const std::string& name, const Claimed& claimed, Served s) {
    Lacking(name, claimed, "x", study_.has(s) ? kNotRun : "no data");
  }

  // No order has a mean that is lower beyond chance by more than 2 %; reports the order that comes nearest.
  void BestMean(Served s) {
    const std::string name = fmt::format("{}: mean of footprint over the best other's, rho {:g}", Name(s), plan_.load);
    Interval worst;
    std::string whose;
    for (const DefaultSystem& rival : defaults::Rivals()) {
      const std::optional<Interval> r = RatioOf(s, plan_.load, defaults::Mean(), rival, kMean, plan_.usual);
      if (!r) return Missing(name, {{}, 1.02}, s);
      if (whose.empty() || r->high > worst.high) worst = *r, whose = rival.label;
    }
    const bool holds = worst.high <= 1.02;
    Add(name, worst, {{}, 1.02}, "x", holds,
        fmt::format("nearest comes {}: [{:.3f}, {:.3f}]{}", whose, worst.low, worst.high,
                    holds ? "" : "; by remaining work alone it holds, but a low mean needs more than work"),
        worst.high);
  }

  void Attainment(Served s) {
    const std::string name = fmt::format(
        "{}: attainment at 5 times alone, of footprint(hopeless_last) over that of urgency, "
        "rho {:g}",
        Name(s), plan_.load);
    const std::optional<Interval> r =
        RatioOf(s, plan_.load, defaults::HopelessLast(), defaults::Urgency(), kInTime, plan_.usual);
    if (!r) return Missing(name, Over(2.5), s);
    const auto share = [&](const DefaultSystem& system) {
      return study_.FindRun({s, plan_.load, system, plan_.usual})->Mean(kInTime.figure);
    };
    Add(name, *r, Over(2.5), "x", r->low >= 2.5,
        fmt::format("{:.1f} % against {:.1f} %; the default {:.1f} %, slack {:.1f} %", share(defaults::HopelessLast()),
                    share(defaults::Urgency()), share(defaults::Ours()), share(defaults::Slack())),
        r->low);
  }

  // With class averages as the only knowledge, at most 1.10 times each home policy in its own figures.
  void ClassMeansOnly(Served s) {
    const std::vector<Measure> measures = s == Served::kText1 || s == Served::kText2 ? std::vector{kP95, kScale}
                                          : s == Served::kConv || s == Served::kCode ? std::vector{kP99}
                                                                                     : std::vector{kMean};
    for (const DefaultSystem& rival : RivalsAt(s)) {
      for (const Measure& m : measures)
        AtMostTimes(s, defaults::Ours(), rival, m, Up(1.10), kOwnInformation, plan_.class_means);
    }
  }

  const DefaultStudy& study_;
  const DefaultPlan& plan_;
};

}  // namespace

std::vector<ScenarioClaim> DefaultClaims(const DefaultStudy& study, const DefaultPlan& plan) {
  return DefaultJudge(study, plan).All();
}

}  // namespace takt::tool
