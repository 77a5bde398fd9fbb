#include "lab/cascadia/claims.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/claim.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct Ratios {
  std::vector<double> values;
  std::size_t bounds = 0;  // of them

  bool empty() const { return values.empty(); }
  double mean() const {
    double sum = 0;
    for (const double v : values) sum += v;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  }
  double most() const { return values.empty() ? 0 : *std::max_element(values.begin(), values.end()); }
};

// Cells with a figure in the paper. Regime takt uses every run.
enum Where : unsigned char {
  kAnywhere,   // DeepSeek, at the paper's qualities
  kAtNinety,   // DeepSeek, quality 90: Appendices F and L
  kOfRouters,  // Llama, quality 80, traces 1 and 2: Appendix I
};

bool IsAt(const CascadiaFindings& all, const CascadiaCase& c, Where where) {
  if (!all.settings.published) return true;
  if (where == kOfRouters) return c.cascade == CascadiaCascade::kLlama && c.quality == 80 && c.trace <= 2;
  if (c.cascade != CascadiaCascade::kDeepSeek) return false;
  return where == kAtNinety ? c.quality == 90 : c.quality != 75;
}

// The rival's p95 along the path over takt's, if both have a plan, or a bound of it.
Ratios Latency(const CascadiaFindings& all, CascadiaSystem rival, CascadiaSystem ours, Where where = kAnywhere) {
  Ratios ratios;
  const auto fitted = [&](const CascadiaCase& x) { return !all.settings.published || x.load == all.settings.load; };
  for (const CascadiaCase* c : all.Cases([&](const CascadiaCase& x) { return IsAt(all, x, where) && fitted(x); })) {
    const CascadiaResult &r = c->of(rival), &o = c->of(ours);
    if (!r.measured() || !o.feasible()) continue;
    ratios.values.push_back(r.e2e / o.e2e);
    ratios.bounds += r.bound ? 1 : 0;
  }
  return ratios;
}

// The rate that takt sustains over the rate that the rival sustains, at each quality.
Ratios Throughput(const CascadiaFindings& all, CascadiaSystem rival, Where where = kAnywhere) {
  Ratios ratios;
  for (const CascadiaCase* c :
       all.Cases([&](const CascadiaCase& x) { return x.load == kCascadiaLoad && IsAt(all, x, where); })) {
    const double r = c->of(rival).sustains, o = c->of(CascadiaSystem::kTakt).sustains;
    if (r > 0 && o > 0) ratios.values.push_back(o / r);
  }
  return ratios;
}

std::optional<double> MeanOf(const Ratios& r) { return r.empty() ? std::nullopt : std::optional(r.mean()); }
std::optional<double> MostOf(const Ratios& r) { return r.empty() ? std::nullopt : std::optional(r.most()); }
// Share [%] by which a cost or latency is below the rival's, from the mean of its ratios.
std::optional<double> BelowOf(const Ratios& r) {
  return r.empty() ? std::nullopt : std::optional(100 * (1 - 1 / r.mean()));
}
Ratios Joined(Ratios a, const Ratios& b) {
  a.values.insert(a.values.end(), b.values.begin(), b.values.end());
  a.bounds += b.bounds;
  return a;
}

// Gap of the alternation to the optimum of the tables, over the cases in which it finds a plan [%].
Ratios AlternationGaps(const CascadiaFindings& all) {
  Ratios gaps;
  for (const CascadiaStudy& s : all.studies) {
    for (const CascadiaOptimality& o : s.optimality()) {
      if (o.alternation > 0) gaps.values.push_back(100 * (o.alternation / o.takt - 1));
    }
  }
  return gaps;
}
Ratios ExhaustiveGaps(const CascadiaFindings& all) {
  Ratios gaps;
  for (const CascadiaStudy& s : all.studies) {
    for (const CascadiaOptimality& o : s.optimality()) {
      gaps.values.push_back(100 * std::abs(o.takt / o.exhaustive - 1));
    }
  }
  return gaps;
}

// A judge's figure above that of the first judge [%].
std::optional<double> AboveFirst(const CascadiaFindings& all, std::size_t judge, double CascadiaJudge::* figure) {
  if (all.judges.size() != 5 || !all.judges[0].why.empty() || !all.judges[judge].why.empty()) return std::nullopt;
  return 100 * (all.judges[judge].*figure / (all.judges[0].*figure) - 1);
}
std::optional<double> MoreToTheLarge(const CascadiaFindings& all, std::size_t judge) {
  if (all.judges.size() != 5 || !all.judges[0].why.empty()) return std::nullopt;
  return 100 * (all.judges[judge].share - all.judges[0].share);
}

std::optional<double> Fluctuating(const CascadiaFindings& all, std::string_view rival) {
  Ratios ratios;
  for (const std::vector<CascadiaFluctuation>& cascade : all.fluctuations) {
    const auto at = std::find_if(cascade.begin(), cascade.end(), [&](const auto& f) { return f.system == rival; });
    if (at != cascade.end()) ratios.values.push_back(100 * (1 - cascade.front().p95 / at->p95));
  }
  return MeanOf(ratios);
}

class CascadiaPaperClaims : Claims {
 public:
  explicit CascadiaPaperClaims(const std::vector<CascadiaFindings>& seeds)
      : Claims(ClaimSource::kPaper), seeds_(seeds) {}

  std::vector<ScenarioClaim> All() {
    Systems();
    Planning();
    CaseStudies();
    Judges();
    using F = const CascadiaFindings&;
    // Cost is the inverse of the sustained rate, at equal price.
    Claim(
        "cost per request below CascadeServe",
        [](F f) { return BelowOf(Throughput(f, CascadiaSystem::kCascadeServe, kAtNinety)); }, 20, "%",
        "32 GPUs at 2.67 USD/h in either system");
    Claim(
        "cost per request below stand-alone",
        [](F f) { return BelowOf(Throughput(f, CascadiaSystem::kStandAlone, kAtNinety)); }, 33, "%", "likewise");
    Claim(
        "fluctuating: SLO scale below CascadeServe", [](F f) { return Fluctuating(f, "CascadeServe"); }, 34, "%",
        "p95 of all requests; quality 80, while the paper has 90");
    Claim(
        "fluctuating: SLO scale below stand-alone", [](F f) { return Fluctuating(f, "stand-alone"); }, 45, "%",
        "the rates of traces 2 and 3 exceed its capacity, so that its queue grows to the end");
    return Take();
  }

 private:
  // Judges figure(findings), which is empty if nothing was measured, over the seeds.
  template <class Figure>
  void Claim(const std::string& name, Figure figure, const Claimed& claimed, const std::string& unit,
             const std::string& reason, ClaimSource source = ClaimSource::kPaper) {
    Moments ours;
    for (const CascadiaFindings& seed : seeds_) {
      if (const std::optional<double> measured = figure(seed)) ours.Add(*measured);
    }
    const Interval interval = IntervalOf(ours);
    if (ours.count() < std::ssize(seeds_)) Lacking(name, claimed, unit, "no plan, or the run is incomplete; " + reason);
    else Judge(name, interval, claimed, unit, IntervalText(interval) + "; " + reason);
    Tag(source);
  }

  // Judges mean and largest of ratios(findings).
  template <class RatiosOf>
  void MeanAndMost(const std::string& name, RatiosOf ratios, double mean, double most, const std::string& reason) {
    const Ratios first = ratios(seeds_.front());
    const std::string count =
        fmt::format("{} cases of the first seed{}", first.values.size(),
                    first.bounds == 0 ? ""
                                      : fmt::format("; in {} of them the rival has no plan for the rate and counts "
                                                    "with its latency at the largest rate it serves",
                                                    first.bounds));
    Claim(
        name + ", mean", [&](const CascadiaFindings& f) { return MeanOf(ratios(f)); }, mean, "x",
        count + "; " + reason);
    Claim(name + ", most", [&](const CascadiaFindings& f) { return MostOf(ratios(f)); }, most, "x", count);
  }

  void Systems() {
    using F = const CascadiaFindings&;
    using S = CascadiaSystem;
    const auto alone = [](F f) { return Latency(f, S::kStandAlone, S::kTaktPath); };
    const auto serve = [](F f) { return Latency(f, S::kCascadeServe, S::kTaktPath); };
    Claim(
        "tighter SLO, mean over both rivals", [&](F f) { return MeanOf(Joined(alone(f), serve(f))); }, 2.3, "x",
        "p95 along the path, takt planning for the path; SLO scales are proportional to it. Rivals share takt's "
        "engine and tuned parallelism, and CascadeServe also takt's thresholds. The paper's rivals ran on their own "
        "engines");
    MeanAndMost("tighter SLO than stand-alone", alone, 2.8, 4, "loads beyond stand-alone's capacity have no ratio");
    MeanAndMost("tighter SLO than CascadeServe", serve, 1.7, 2.5,
                "CascadeServe is given the best thresholds and replicas for its load range");
    Claim(
        "tighter SLO than CascadeServe, mean, takt planning for the slowest model",
        [](F f) { return MeanOf(Latency(f, S::kCascadeServe, S::kTakt)); }, 1.7, "x", "the paper's own objective",
        ClaimSource::kOwn);

    const auto more = [](S rival, Where where = kAnywhere) { return [=](F f) { return Throughput(f, rival, where); }; };
    const auto more_alone = more(S::kStandAlone), more_serve = more(S::kCascadeServe);
    Claim(
        "throughput, mean over both rivals", [&](F f) { return MeanOf(Joined(more_alone(f), more_serve(f))); }, 2.4,
        "x", "largest rate at the quality with every replica below saturation");
    MeanAndMost("throughput over stand-alone", more_alone, 3, 5,
                "falls as the quality rises: at 90, half of all requests reach the largest model in either system");
    MeanAndMost("throughput over CascadeServe", more_serve, 1.7, 3.3,
                "its one shape per model is near the best at saturation, because replicas of few GPUs serve most per "
                "GPU");
    MeanAndMost("throughput over Sarathi's chunks", more(S::kSarathi, kAtNinety), 1.64, 1.95,
                "stand-alone with the best of five chunk sizes; all systems here chunk prefills");
    Claim(
        "SLO scale below RouteLLM, mean",
        [](F f) { return BelowOf(Latency(f, S::kRouteLlm, S::kTaktPath, kOfRouters)); }, 21.3, "%",
        "a request that RouteLLM sends to the large model skips the small one");
    Claim(
        "throughput over RouteLLM, mean",
        [](F f) -> std::optional<double> {
          const Ratios r = Throughput(f, S::kRouteLlm, kOfRouters);
          return r.empty() ? std::nullopt : std::optional(100 * (r.mean() - 1));
        },
        18.8, "%",
        "its learned score (rank correlation 0.5) sends more requests to the large model for the same quality");
    MeanAndMost("throughput over uniform parallelism", more(S::kUniformParallelism), 1.4, 1.6, "tp 8 for every model");
    MeanAndMost("throughput over an even split of GPUs", more(S::kUniformGpus), 1.7, 2.1,
                "parallelism is tuned for it");
  }

  void Planning() {
    using F = const CascadiaFindings&;
    Claim(
        "the alternation's gap to the optimum, mean", [](F f) { return MeanOf(AlternationGaps(f)); }, {2, 6}, "%",
        "on one table, hard floor; zero for two models, because its first step finds the optimum");
    Claim(
        "takt's gap to exhaustive search on the table", [](F f) { return MostOf(ExhaustiveGaps(f)); }, {{}, 0}, "%",
        "all thresholds and splits", ClaimSource::kOwn);
    if (const std::optional<CascadiaSimulated>& first = seeds_.front().simulated) {
      Claim(
          fmt::format("takt's gap beyond the table, {} GPUs, slowest model", first->gpus),
          [](F f) -> std::optional<double> {
            if (!f.simulated) return std::nullopt;
            return 100 * (f.simulated->takt_slowest / f.simulated->best_slowest - 1);
          },
          {{}, 6}, "%",
          fmt::format("all {} plans of the first seed simulated: takt {}; best {}", Grouped(first->plans),
                      first->takt_plan, first->best_plan),
          ClaimSource::kOwn);
    }
    Claim(
        "time to plan for 32 GPUs",
        [](F f) -> std::optional<double> {
          double planning = 0;
          for (const CascadiaStudy& s : f.studies) planning = std::max(planning, s.planning_s());
          return planning > 0 ? std::optional(planning) : std::nullopt;
        },
        {{}, 20}, "s", "tables included, one thread on a shared machine; the paper's 20 s are on 12 cores");
  }

  void CaseStudies() {
    using F = const CascadiaFindings&;
    // takt's plan for a case of Table 2, at the lower load, because quality 90 has no plan at the other.
    const auto plan = [](F f, int trace, double quality) -> const CascadePlan* {
      for (const CascadiaCase* c : f.Cases([&](const CascadiaCase& x) {
             return x.cascade == CascadiaCascade::kDeepSeek && x.trace == trace && x.quality == quality &&
                    x.load == 0.4;
           })) {
        const CascadiaResult& r = c->of(CascadiaSystem::kTakt);
        if (r.feasible()) return &r.plan;
      }
      return nullptr;
    };
    const auto difference = [=](F f, auto of) -> std::optional<double> {
      const CascadePlan *high = plan(f, 1, 90), *low = plan(f, 1, 85);
      return high && low ? std::optional<double>(of(high->models[2]) - of(low->models[2])) : std::nullopt;
    };
    Claim(
        "Table 1: largest error in the rates of the 70B's replicas", [](F f) { return f.table1_error; }, {{}, 7.69},
        "%", "after one factor for all; the measured rates are below those of any H100 profile");
    Claim(
        "Table 2: requests at the 671B, quality 90 above 85",
        [=](F f) { return difference(f, [](const ModelPlan& m) { return 100 * m.share; }); }, 29, "points", "trace 1");
    Claim(
        "Table 2: GPUs of the 671B, quality 90 above 85",
        [=](F f) { return difference(f, [](const ModelPlan& m) { return m.gpus; }); }, 4, "GPUs", "trace 1");
    Claim(
        "Table 2: GPUs of the 671B on trace 3 at quality 70",
        [=](F f) -> std::optional<double> {
          const CascadePlan* low = plan(f, 3, 70);
          return low ? std::optional<double>(low->models[2].gpus) : std::nullopt;
        },
        {{}, 0}, "GPUs", "two model types suffice");
    const auto study = [](F f, double (CascadiaStudy::*figure)() const) -> std::optional<double> {
      double most = 0;
      for (const CascadiaStudy& s : f.studies) {
        if (s.middle_tp2() > 0) most = std::max(most, (s.*figure)());
      }
      return most > 0 ? std::optional(most) : std::nullopt;
    };
    Claim(
        "Table 3: the 70B with four replicas of tp 2 instead of two of tp 4, throughput lower",
        [](F f) -> std::optional<double> {
          for (const CascadiaStudy& s : f.studies) {
            if (s.middle_tp2() > 0) return 100 * (1 - s.middle_tp2());
          }
          return std::nullopt;
        },
        33.7, "%", "at saturation; the paper names no measure");
    Claim(
        "Figure 2: throughput of the best parallelism over the worst, most",
        [=](F f) { return study(f, &CascadiaStudy::parallelism_gain); }, 3, "x", "eight GPUs, all models and traces");
    Claim(
        "perfect prefix caching: p95 lower",
        [](F f) { return f.prefix ? std::optional(f.prefix->takt) : std::nullopt; }, {{}, 2.2}, "%",
        "SLO scale 4.6 to 4.5, at an unknown hit rate");
    Claim(
        "perfect prefix caching: p95 of stand-alone lower",
        [](F f) { return f.prefix ? std::optional(f.prefix->alone) : std::nullopt; }, {{}, 1.2}, "%",
        "SLO scale 8.2 to 8.1, at an unknown hit rate");
    Claim(
        "time to plan for 80 GPUs", [=](F f) { return study(f, &CascadiaStudy::planning_80_s); }, {{}, 60}, "s",
        "DeepSeek, trace 1, tables included, one thread on a shared machine; the paper's minute is on 12 cores");
  }

  void Judges() {
    using F = const CascadiaFindings&;
    const char* why =
        "a judge with lower scores at all thresholds needs more of the large model to see 80 on average; the shape of "
        "the scores determines how much";
    struct Weaker {
      const char* name;
      double more, higher;
    };
    const Weaker weaker[] = {{"GPT-4o-mini", 11.1, 6.8}, {"Llama-70B as judge", 9.4, 5.5}};
    for (std::size_t i = 0; i < std::size(weaker); ++i) {
      Claim(
          fmt::format("{}: more to the large model", weaker[i].name), [i](F f) { return MoreToTheLarge(f, i + 1); },
          {{}, weaker[i].more}, "points", why);
      Claim(
          fmt::format("{}: p95 higher", weaker[i].name),
          [i](F f) { return AboveFirst(f, i + 1, &CascadiaJudge::slowest); }, {{}, weaker[i].higher}, "%", why);
    }
    Claim(
        "learned judge: true quality at a floor of 80",
        [](F f) { return f.judges.size() == 5 ? std::optional(f.judges[3].quality) : std::nullopt; }, {{}, 74}, "",
        "it estimates 80; rank correlation 0.5 chosen");
    Claim(
        "perfect learned judge: p95 lower",
        [](F f) -> std::optional<double> {
          const std::optional<double> above = AboveFirst(f, 4, &CascadiaJudge::p95);
          return above ? std::optional(-*above) : std::nullopt;
        },
        {{}, 5}, "%", "saves 0.27 s per judged answer");
  }

  const std::vector<CascadiaFindings>& seeds_;
};

}  // namespace

std::vector<ScenarioClaim> CascadiaClaims(const std::vector<CascadiaFindings>& seeds) {
  return CascadiaPaperClaims(seeds).All();
}

}  // namespace takt::tool
