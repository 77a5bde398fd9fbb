#include "lab/kairos/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/claim.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {
namespace {

// Minimum share of a workflow's time in which its calls wait, for a queue to have formed.
constexpr double kQueuedPercent = 5;

// Returns the cell of the load at which workflows under Parrot wait for about half of their time; null if no queue
// forms.
const KairosCell* HalfQueued(const KairosStudy& study, const KairosPlan& plan, KairosModel model,
                             std::size_t scenario) {
  const KairosCell* best = nullptr;
  const auto off = [](const KairosCell& c) { return std::abs(c.Mean(&KairosFigures::queued) - 50); };
  for (const double load : plan.LoadsOf(scenario)) {
    const KairosCell* c = study.Find({model, scenario, kairos::Parrot(), load});
    if (c == nullptr || c->Mean(&KairosFigures::queued) < kQueuedPercent) continue;
    if (best == nullptr || off(*c) < off(*best)) best = c;
  }
  return best;
}

constexpr const char* kNoQueue = "no queue forms under Parrot at any load";

using KairosMeasure = Figure<KairosFigures>;
constexpr const KairosMeasure &kMean = FigureOf(kKairosFigures, &KairosFigures::mean),
                              &kP90 = FigureOf(kKairosFigures, &KairosFigures::p90),
                              &kP95 = FigureOf(kKairosFigures, &KairosFigures::p95),
                              &kP99 = FigureOf(kKairosFigures, &KairosFigures::p99);

class KairosPaperClaims : Claims {
 public:
  KairosPaperClaims(const KairosStudy& study, const KairosPlan& plan,
                    const std::vector<std::vector<KairosAccuracy>>& accuracies)
      : Claims(ClaimSource::kPaper), study_(study), plan_(plan), accuracies_(accuracies) {}

  std::vector<ScenarioClaim> All() {
    const KairosModel small = KairosModel::k8B, large = KairosModel::k13B;
    for (std::size_t s = 0; s < kMix; ++s) {
      Below(small, s, kairos::Parrot(), kMean, 17.8, 28.4);
      Below(small, s, kairos::Parrot(), kP90, 19.1, 28.6);
      Below(small, s, kairos::Ayo(), kMean, 5.8, 10.8);
      Below(small, s, kairos::Ayo(), kP90, 13.4, 20.2);
    }
    Below(small, kMix, kairos::Parrot(), kMean, 45.1, 72.8);
    Below(small, kMix, kairos::Parrot(), kP90, 45.4, 72.9);
    Below(small, kMix, kairos::Parrot(), kP95, 56.8, 78.3);
    Below(small, kMix, kairos::Parrot(), kP99, 69.6, 81.9);
    Below(small, kMix, kairos::Ayo(), kMean, 6.1, 37.9);
    Below(small, kMix, kairos::Ayo(), kP90, 5.6, 35.7);
    Below(small, kMix, kairos::Ayo(), kP95, 8.4, 40.6);
    Below(small, kMix, kairos::Ayo(), kP99, 6.6, 57.2);
    Below(large, kMix, kairos::Parrot(), kMean, 42.1, 57.4);
    Below(large, kMix, kairos::Parrot(), kP90, 43.1, 56.6);
    Below(large, kMix, kairos::Parrot(), kP95, 48.1, 57.1);
    Below(large, kMix, kairos::Parrot(), kP99, 56.8, 70.6);
    Below(large, kMix, kairos::Ayo(), kMean, 21.8, 24.6);
    Below(large, kMix, kairos::Ayo(), kP90, 23.2, 25.9);
    Below(large, kMix, kairos::Ayo(), kP95, 18.4, 21.4);
    Below(large, kMix, kairos::Ayo(), kP99, 22.6, 37.9);
    Below(small, kMix, kairos::NoPriority(), kMean, 38.8, 69.6);
    Times(small, kairos::NoPriority(), 1.63);
    Below(small, kMix, kairos::NoPacking(), kMean, 9.5, 10.6);
    Times(small, kairos::NoPacking(), 1.12);
    Preemptions();
    Accuracy();
    return Take();
  }

 private:
  const KairosCell* Cell(const KairosCell& at, const KairosSystem& system) const {
    return study_.Find({at.setup.model, at.setup.scenario, system, at.setup.load});
  }

  // Cells of two systems at the load at which calls wait for half of the time under Parrot. Null, with the reason as
  // the claim's result, if no queue forms or a run is incomplete.
  struct Pair {
    const KairosCell *half = nullptr, *ours = nullptr, *theirs = nullptr;
  };
  Pair AtHalf(KairosModel model, std::size_t scenario, const KairosSystem& other, const std::string& name,
              const Claimed& claimed, const char* unit) {
    Pair p{.half = HalfQueued(study_, plan_, model, scenario)};
    if (p.half == nullptr) return Lacking(name, claimed, unit, kNoQueue), Pair{};
    p.ours = Cell(*p.half, kairos::Kairos()), p.theirs = Cell(*p.half, other);
    if (p.ours == nullptr || p.theirs == nullptr) return Lacking(name, claimed, unit), Pair{};
    return p;
  }

  // Judges the reduction of Kairos against another system. The reason lists all loads with a queue.
  void Below(KairosModel model, std::size_t scenario, const KairosSystem& other, const KairosMeasure& measure,
             double low, double high) {
    const Claimed claimed = {low, high};
    const std::string name = fmt::format("{}, {}: {} token latency below that of {}", Name(model),
                                         kKairosScenarios[scenario], measure.column, other.label);
    const auto [half, ours, theirs] = AtHalf(model, scenario, other, name, claimed, "%");
    if (half == nullptr) return;
    const Reduction r = ReductionOf(*ours, *theirs, measure.member);
    std::vector<std::string> all;
    for (const double load : plan_.LoadsOf(scenario)) {
      const auto at =
          study_.Compare({model, scenario, kairos::Kairos(), load}, {model, scenario, other, load}, measure.member);
      if (at) all.push_back(fmt::format("{:.0f} at {:g}", at->mean, load));
    }
    Judge(name, r, claimed, "%",
          fmt::format(
              "at load {:g} (calls wait for {:.0f} % of the time under Parrot): {} ms against {} ms; {}; by load: {}",
              half->setup.load, half->Mean(&KairosFigures::queued), Short(ours->Mean(measure.member)),
              Short(theirs->Mean(measure.member)), IntervalText(r), fmt::join(all, ", ")));
  }

  void Times(KairosModel model, const KairosSystem& without, double paper) {
    const std::string name = fmt::format("{}, {}: {} is slower by a factor, half of the time queued", Name(model),
                                         kKairosScenarios[kMix], without.label);
    const auto [half, ours, theirs] = AtHalf(model, kMix, without, name, paper, "x");
    if (half == nullptr) return;
    Moments ratios;
    for (std::size_t i = 0; i < ours->seeds.size(); ++i) ratios.Add(theirs->seeds[i].mean / ours->seeds[i].mean);
    const Interval times = IntervalOf(ratios);
    Judge(name, times, paper, "x", fmt::format("at load {:g}; {}", half->setup.load, IntervalText(times)));
  }

  void Preemptions() {
    const KairosCell* half = HalfQueued(study_, plan_, KairosModel::k8B, kMix);
    const std::string where = fmt::format("{}, {}: ", Name(KairosModel::k8B), kKairosScenarios[kMix]);
    for (const auto& [what, figure, paper, source] :
         {std::tuple{"calls that round robin preempts", &KairosFigures::preempted, 18.4, ClaimSource::kFitted},
          std::tuple{"tokens that it computes again (the paper: memory that it wastes)", &KairosFigures::recomputed,
                     14.2, ClaimSource::kPaper}}) {
      if (half == nullptr) {
        Lacking(where + what, paper, "%", kNoQueue);
      } else {
        const KairosCell* packed = Cell(*half, kairos::Kairos());
        const Interval ours = half->Of(figure);
        Judge(where + what, ours, paper, "%",
              fmt::format("under Parrot at load {:g} ({:.1f} workflows a second), Kairos {}; {}", half->setup.load,
                          half->Mean(&KairosFigures::rate), packed != nullptr ? Short(packed->Mean(figure)) : "-",
                          IntervalText(ours)));
      }
      Tag(source);
    }
  }

  void Accuracy() {
    if (accuracies_.back().size() <= kMix) return;
    const auto claim = [&](const char* name, double KairosAccuracy::* figure, double paper) {
      Moments means;
      for (const std::vector<KairosAccuracy>& seed : accuracies_) {
        Moments mean;
        for (const KairosAccuracy& a : seed) mean.Add(a.*figure);
        means.Add(mean.mean());
      }
      const Interval ours = IntervalOf(means);
      std::vector<std::string> all;
      for (const KairosAccuracy& a : accuracies_.front()) {
        all.push_back(fmt::format("{} {:.1f}", kKairosScenarios[a.scenario], a.*figure));
      }
      Judge(name, ours, paper, "%", fmt::format("{}; first seed: {}", IntervalText(ours), fmt::join(all, ", ")));
    };
    claim("Pairs of requests ordered as their remaining time: Kairos, mean of the scenarios",
          &KairosAccuracy::classical, 83.5);
    claim("Pairs of requests ordered as their remaining time: Ayo", &KairosAccuracy::depth, 75.9);
    Tag(ClaimSource::kFitted);
    for (const KairosAccuracy& a : accuracies_.front()) {
      AtMost(fmt::format("{}: points below the best fixed order of agents", kKairosScenarios[a.scenario]),
             a.best - a.classical, 1, "points",
             fmt::format("{:.2f} % against {:.2f} %: {}", a.classical, a.best, fmt::join(a.order, " < ")));
      Tag(ClaimSource::kOwn);
    }
  }

  const KairosStudy& study_;
  const KairosPlan& plan_;
  const std::vector<std::vector<KairosAccuracy>>& accuracies_;
};

}  // namespace

std::vector<ScenarioClaim> KairosClaims(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<std::vector<KairosAccuracy>>& accuracies) {
  return KairosPaperClaims(study, plan, accuracies).All();
}

std::vector<std::string> KairosFindings(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<KairosAccuracy>& accuracies) {
  std::vector<std::string> findings;
  if (!accuracies.empty()) {
    double apart = 0, from_best = 0, median_off = 0;
    for (const KairosAccuracy& a : accuracies) {
      apart = std::max({apart, std::abs(a.mean - a.classical), std::abs(a.smacof - a.classical)});
      from_best = std::max(from_best, a.best - a.mean);
      median_off = std::max(median_off, a.best - a.median);
    }
    findings.push_back(fmt::format(
        "Ordering: classical scaling, SMACOF and the mean alone are at most {:.2f} points of accuracy apart in any "
        "scenario; the mean is at most {:.2f} below the best fixed order of agents, the median {:.2f}.",
        apart, from_best, median_off));
  }
  for (const KairosModel model : {KairosModel::k8B, KairosModel::k13B}) {
    const KairosCell* half = HalfQueued(study, plan, model, kMix);
    if (half == nullptr) continue;
    const auto at = [&](const KairosSystem& s) { return study.Find({model, kMix, s, half->setup.load}); };
    const KairosCell *ours = at(kairos::Kairos()), *mean = at(kairos::ByMean()), *published = at(kairos::AsPublished()),
                     *oracle = at(kairos::Oracle()), *fit = at(kairos::BestFit());
    if (ours == nullptr || mean == nullptr || published == nullptr || oracle == nullptr || fit == nullptr) continue;
    const auto ms = [](const KairosCell& c) { return Short(c.Mean(&KairosFigures::mean)); };
    findings.push_back(fmt::format(
        "{}, all applications at load {:g}, mean ms per token: Parrot {}, Parrot with best fit {}, Kairos {}, by means "
        "alone {}, with the published packing {}, oracle {}. Calls preempted: {} %, {} %, {} %, {} %, {} %, {} %.",
        Name(model), half->setup.load, ms(*half), ms(*fit), ms(*ours), ms(*mean), ms(*published), ms(*oracle),
        Short(half->Mean(&KairosFigures::preempted)), Short(fit->Mean(&KairosFigures::preempted)),
        Short(ours->Mean(&KairosFigures::preempted)), Short(mean->Mean(&KairosFigures::preempted)),
        Short(published->Mean(&KairosFigures::preempted)), Short(oracle->Mean(&KairosFigures::preempted))));
  }
  for (const KairosModel model : {KairosModel::k8B, KairosModel::k13B}) {
    const auto factors = [&](const KairosSystem& packing) {
      std::vector<std::string> texts;
      for (const double load : plan.mix_loads) {
        const auto r =
            study.Compare({model, kMix, packing, load}, {model, kMix, kairos::NoPacking(), load}, &KairosFigures::mean);
        if (r) {
          texts.push_back(fmt::format("{:g}: {:.2f} ({:.2f} to {:.2f})", load, 1 / (1 - r->mean / 100),
                                      1 / (1 - r->low / 100), 1 / (1 - r->high / 100)));
        }
      }
      return texts;
    };
    const std::vector<std::string> slots = factors(kairos::Kairos()), published = factors(kairos::AsPublished()),
                                   reserved = factors(kairos::Reserving());
    if (slots.empty() || reserved.empty()) continue;
    findings.push_back(fmt::format(
        "{}, all applications, by load: without packing slower by a factor (95 % interval) than by time slots {}; by "
        "time slots without late calls {}; by reserved tokens {}.",
        Name(model), fmt::join(slots, ", "), fmt::join(published, ", "), fmt::join(reserved, ", ")));
  }
  return findings;
}

}  // namespace takt::tool
