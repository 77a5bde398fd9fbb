#include "lab/chimera/claims.h"

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
#include "takt/numeric/summary.h"

namespace takt::tool {
namespace {

// Chimera's factor in speed per token and its margin in points, means over rates and places, by seed. Empty if a run
// is missing.
struct ChimeraGain {
  Moments speed, points;
};
using Places = std::vector<std::pair<ChimeraDataset, std::size_t>>;  // dataset and deployment
ChimeraGain GainOf(const ChimeraStudy& study, const std::vector<double>& rates, const Places& places,
                   const ChimeraSystem& ours, const ChimeraSystem& other) {
  ChimeraGain gain;
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(study.seeds()); ++seed) {
    Moments speed, points;
    for (const auto& [d, deployment] : places) {
      for (const double rate : rates) {
        const ChimeraCell *a = study.Find({d, deployment, rate, ours}), *b = study.Find({d, deployment, rate, other});
        if (a == nullptr || b == nullptr) return {};
        const ChimeraFigures &x = a->seeds[seed], &y = b->seeds[seed];
        speed.Add(y.per_token / x.per_token);
        points.Add(x.score - y.score);
      }
    }
    gain.speed.Add(speed.mean());
    gain.points.Add(points.mean());
  }
  return gain;
}
ChimeraGain GainOf(const ChimeraStudy& study, const std::vector<double>& rates, ChimeraDataset d,
                   std::size_t deployment, const ChimeraSystem& ours, const ChimeraSystem& other) {
  return GainOf(study, rates, Places{{d, deployment}}, ours, other);
}

class ChimeraPaperClaims : Claims {
 public:
  ChimeraPaperClaims(const ChimeraStudy& study, const ChimeraPlan& plan)
      : Claims(ClaimSource::kPaper), study_(study), plan_(plan) {}

  std::vector<ScenarioClaim> All() {
    const ChimeraDataset apps = ChimeraDataset::kApps, math = ChimeraDataset::kMath;
    const ChimeraSystem vllm = chimera::Vllm(), mlfq = chimera::Mlfq(), ltr = chimera::Ltr();
    Frontier(apps, kQwen7, vllm, 3.4, 16.0);
    Frontier(apps, kQwen7, mlfq, 1.42, 19.6);
    Frontier(apps, kQwen7, ltr, 1.31, 16.0);
    Frontier(apps, kQwen14, vllm, 2.9, 10.5);
    Frontier(apps, kQwen14, mlfq, 1.7, 10.8);
    Frontier(apps, kQwen14, ltr, 1.2, 10.9);
    Frontier(apps, kLlama, vllm, 1.2, 15.7);
    Frontier(apps, kLlama, mlfq, 1.2, 13.0);
    Frontier(apps, kLlama, ltr, 1.1, 14.4);
    Frontier(apps, kThree, vllm, 2.7, 8.2);
    Frontier(apps, kThree, mlfq, 1.5, 6.7);
    Frontier(apps, kThree, ltr, 1.3, 7.5);
    Frontier(math, kQwen7, vllm, 2.5, 2.2);
    Frontier(math, kQwen7, vllm, 1.9, 4.1);
    Frontier(math, kQwen7, ltr, 1.2, 2.1);
    Frontier(math, kQwen14, vllm, 2.1, 5.0);
    Frontier(math, kQwen14, mlfq, 1.4, 3.8);
    Frontier(math, kQwen14, ltr, 1.0, 3.7);
    Frontier(math, kThree, vllm, 2.1, 1.6);
    Frontier(math, kThree, mlfq, 1.2, 1.3);
    Frontier(math, kThree, ltr, 1.2, 1.2);
    Overall();
    Rival(apps, kQwen7, mlfq, 2.4);
    Tag(ClaimSource::kFitted);
    Rival(apps, kQwen7, ltr, 2.6);
    Tag(ClaimSource::kFitted);
    Rival(apps, kQwen14, mlfq, 1.7);
    Rival(apps, kQwen14, ltr, 2.5);
    Rival(apps, kLlama, chimera::VllmStjf(), 1.2);
    Rival(math, kQwen7, ltr, 2.2);
    Vllm(8, 82.6, 22.7);
    Vllm(12, 81.0, 23.5);
    Vllm(16, 107.8, 20.6);
    Slack();
    Router(kQwen7);
    Router(kQwen14);
    OraclePredictor();
    OracleRouter();
    Queue();
    Key();
    Predictions();
    return Take();
  }

 private:
  std::string Where(ChimeraDataset d, std::size_t at) const {
    return fmt::format("{}, {}: ", Name(d), Deployments()[at].name);
  }
  static std::string TextOf(double tau, const ChimeraGain& gain) {
    return fmt::format("{:g}: {} x, {:+.1f}", tau, Short(gain.speed.mean()), gain.points.mean());
  }
  // The slack with the highest score among those that reach the speed, else the fastest, and the gain with it.
  std::optional<std::pair<double, ChimeraGain>> AtBestSlack(const Places& places, const ChimeraSystem& other,
                                                            double speed) const {
    std::optional<std::pair<double, ChimeraGain>> best;
    for (const double tau : plan_.slacks) {
      const ChimeraGain gain = GainOf(study_, plan_.rates, places, chimera::Chimera(tau), other);
      if (gain.speed.count() == 0) continue;
      const bool reaches = gain.speed.mean() >= speed, reached = best && best->second.speed.mean() >= speed;
      if (!best || (reaches ? !reached || gain.points.mean() > best->second.points.mean()
                            : !reached && gain.speed.mean() > best->second.speed.mean())) {
        best.emplace(tau, gain);
      }
    }
    return best;
  }

  // Both figures of one sentence, at one slack.
  void Frontier(ChimeraDataset d, std::size_t at, const ChimeraSystem& other, double speed, double points) {
    const std::string faster =
        fmt::format("{}Chimera is faster than {} by a factor of {:g}", Where(d, at), other.label, speed);
    const std::string better = fmt::format("{}Chimera scores more than {}, {:g} x", Where(d, at), other.label, speed);
    const auto best = AtBestSlack({{d, at}}, other, speed);
    std::vector<std::string> texts, beyond;
    for (const double tau : plan_.taus) {
      for (const auto& [rates, to] :
           {std::pair{plan_.rates, &texts}, std::pair{std::vector{plan_.beyond.back()}, &beyond}}) {
        const ChimeraGain gain = GainOf(study_, rates, d, at, chimera::Chimera(tau), other);
        if (gain.speed.count() > 0) to->push_back(TextOf(tau, gain));
      }
    }
    if (!best) {
      Lacking(faster, speed, "x");
      Lacking(better, points, "points");
      return;
    }
    const Interval s = IntervalOf(best->second.speed), p = IntervalOf(best->second.points);
    const std::string reason =
        fmt::format("at tau {:g}, means over the rates; {{}}; by tau: {}; at {:g}/s: {}", best->first,
                    fmt::join(texts, "; "), plan_.beyond.back(), fmt::join(beyond, "; "));
    Judge(faster, s, speed, "x", fmt::format(fmt::runtime(reason), IntervalText(s)));
    Judge(better, p, points, "points", fmt::format(fmt::runtime(reason), IntervalText(p)));
  }

  // The abstract's claims: means over datasets and deployments, at one slack for all.
  void Overall() {
    Places places;
    for (const ChimeraDataset d : kDatasets) {
      for (std::size_t at = 0; at < kFirstAlone; ++at) places.emplace_back(d, at);
    }
    for (const auto& [other, speed] : {std::pair{chimera::Vllm(), 2.4}, std::pair{chimera::Ltr(), 1.2}}) {
      const std::string name = fmt::format("All datasets and models: Chimera against {}, ", other.label);
      const auto best = AtBestSlack(places, other, speed);
      if (!best) {
        Lacking(name + "faster by a factor", speed, "x");
        Lacking(name + "score", {8.0, 9.5}, "points");
        continue;
      }
      const Interval s = IntervalOf(best->second.speed), p = IntervalOf(best->second.points);
      const std::string reason =
          fmt::format("one slack for all, tau {:g}; mean over datasets and models; ", best->first);
      Judge(name + "faster by a factor", s, speed, "x", reason + IntervalText(s));
      Judge(name + "score", p, {8.0, 9.5}, "points", reason + IntervalText(p));
    }
  }

  void Rival(ChimeraDataset d, std::size_t at, const ChimeraSystem& rival, double speed) {
    const std::string name = fmt::format("{}{} is faster than vLLM by a factor", Where(d, at), rival.label);
    const ChimeraGain gain = GainOf(study_, plan_.rates, d, at, rival, chimera::Vllm());
    if (gain.speed.count() == 0) return Lacking(name, speed, "x");
    const Interval s = IntervalOf(gain.speed);
    const ChimeraGain far = GainOf(study_, {plan_.beyond.back()}, d, at, rival, chimera::Vllm());
    Judge(name, s, speed, "x",
          fmt::format("mean over the rates; {}; score {:+.1f} points; at {:g}/s {} x", IntervalText(s),
                      gain.points.mean(), plan_.beyond.back(), Short(far.speed.mean())));
  }

  void Vllm(double rate, double ms, double score) {
    const ChimeraCell* c = study_.Find({ChimeraDataset::kApps, kQwen7, rate, chimera::Vllm()});
    const std::string where = fmt::format("{}vLLM at {:g}/s: ", Where(ChimeraDataset::kApps, kQwen7), rate);
    if (c == nullptr) {
      Lacking(where + "ms per token", ms, "ms");
      Tag(ClaimSource::kFitted);
      Lacking(where + "score", score, "%");
      return Tag(ClaimSource::kFitted);
    }
    const Interval ours = c->Of(&ChimeraFigures::per_token), solved = c->Of(&ChimeraFigures::score);
    Judge(where + "ms per token", ours, ms, "ms", IntervalText(ours) + "; lengths of runs are chosen");
    Tag(ClaimSource::kFitted);
    Judge(where + "score", solved, score, "%",
          fmt::format("{}; {:.0f} % of the workflows end on the larger model", IntervalText(solved),
                      c->Mean(&ChimeraFigures::strongest)));
    Tag(ClaimSource::kFitted);
  }

  // The means of two systems over all rates, seed by seed, of one figure.
  Moments Differences(std::size_t at, const ChimeraSystem& ours, const ChimeraSystem& other, bool points) const {
    const ChimeraGain gain = GainOf(study_, plan_.AllRates(), ChimeraDataset::kApps, at, ours, other);
    return points ? gain.points : gain.speed;
  }

  void Slack() {
    const std::string name = Where(ChimeraDataset::kApps, kQwen7) + "more slack, more score, no more latency: points";
    const ChimeraGain gain = GainOf(study_, plan_.rates, ChimeraDataset::kApps, kQwen7,
                                    chimera::Chimera(plan_.taus.back()), chimera::Chimera(plan_.taus.front()));
    if (gain.speed.count() == 0) return Lacking(name, Over(0), "points");
    const Interval p = IntervalOf(gain.points), s = IntervalOf(gain.speed);
    constexpr double kNoSlower = 0.95;  // of the speed; chosen
    Add(name, p, Over(0), "points", Worse(VerdictOf(p, Over(0), 0), VerdictOf(s, Over(kNoSlower), 0)),
        fmt::format("tau {:g} against {:g}; {}; {} of the speed (at least {} is no more latency)", plan_.taus.back(),
                    plan_.taus.front(), IntervalText(p), Short(s.mean), kNoSlower));
  }

  void Router(std::size_t at) {
    const std::string name =
        Where(ChimeraDataset::kApps, at) + "the router moves the frontier: points at the latency without it";
    // At each slack with the router, compared with the score without it at the same latency.
    Moments gap;
    for (std::size_t seed = 0; seed < static_cast<std::size_t>(study_.seeds()); ++seed) {
      Moments here;
      for (const double rate : plan_.AllRates()) {
        for (const double tau : plan_.taus) {
          const ChimeraCell* with = study_.Find({ChimeraDataset::kApps, at, rate, chimera::Chimera(tau)});
          if (with == nullptr) return Lacking(name, Over(0), "points");
          double best = -1;  // score of those that are no slower
          for (const double other : plan_.taus) {
            const ChimeraCell* without = study_.Find({ChimeraDataset::kApps, at, rate, chimera::NoRouter(other)});
            if (without == nullptr) return Lacking(name, Over(0), "points");
            const ChimeraFigures& w = without->seeds[seed];
            if (w.per_token <= with->seeds[seed].per_token * 1.02) best = std::max(best, w.score);
          }
          if (best >= 0) here.Add(with->seeds[seed].score - best);
        }
      }
      if (here.count() > 0) gap.Add(here.mean());
    }
    if (gap.count() == 0) return Lacking(name, Over(0), "points");
    const Interval points = IntervalOf(gap);
    Judge(name, points, Over(0), "points",
          "mean over slacks and rates, against the best score without it that takes at most 2 % longer; " +
              IntervalText(points));
  }

  void OraclePredictor() {
    for (const std::size_t at : {kQwen7, kQwen14}) {
      const double tau = plan_.taus.front();
      const std::string name = fmt::format("{}exact lengths lower latency {}", Where(ChimeraDataset::kApps, at),
                                           at == kQwen7 ? "at little slack" : "by almost nothing");
      const Claimed claimed = at == kQwen7 ? Over(1) : Claimed({}, 1.05);
      const Moments speed = Differences(at, chimera::OraclePredictor(tau), chimera::Chimera(tau), false);
      if (speed.count() == 0) return Lacking(name, claimed, "x");
      const Interval s = IntervalOf(speed);
      std::vector<std::string> texts;
      for (const double t : plan_.taus) {
        texts.push_back(fmt::format(
            "{:g}: {}", t, Short(Differences(at, chimera::OraclePredictor(t), chimera::Chimera(t), false).mean())));
      }
      Judge(name, s, claimed, "x",
            fmt::format("at tau {:g}; {}; by tau: {}", tau, IntervalText(s), fmt::join(texts, ", ")));
    }
  }

  void OracleRouter() {
    const char* const name = "APPS: a perfect router gains more with 1.5B + 14B than with 1.5B + 7B: points more";
    Moments more, by[2];
    for (std::size_t seed = 0; seed < static_cast<std::size_t>(study_.seeds()); ++seed) {
      Moments here[2];
      for (const std::size_t at : {kQwen7, kQwen14}) {
        for (const double tau : plan_.taus) {
          for (const double rate : plan_.AllRates()) {
            const ChimeraCell *a = study_.Find({ChimeraDataset::kApps, at, rate, chimera::OracleRouter(tau)}),
                              *b = study_.Find({ChimeraDataset::kApps, at, rate, chimera::Chimera(tau)});
            if (a == nullptr || b == nullptr) return Lacking(name, Over(0), "points");
            here[at].Add(a->seeds[seed].score - b->seeds[seed].score);
          }
        }
        by[at].Add(here[at].mean());
      }
      more.Add(here[kQwen14].mean() - here[kQwen7].mean());
    }
    const Interval points = IntervalOf(more);
    Judge(name, points, Over(0), "points",
          fmt::format("mean over slacks and rates: {:+.1f} and {:+.1f} points over the trained router; {}",
                      by[kQwen14].mean(), by[kQwen7].mean(), IntervalText(points)));
  }

  // Figure 3 gives no load.
  void Queue() {
    const std::vector<ChimeraSystem> orders = chimera::Orders();
    const auto claim = [&](const char* name, std::size_t ours, std::size_t other, double low, double high) {
      std::vector<Moments> by_seed(static_cast<std::size_t>(study_.seeds()));
      std::vector<std::string> texts;
      for (const ChimeraDataset d : kDatasets) {
        for (std::size_t at = kFirstAlone; at < kDeployments; ++at) {
          for (const double load : plan_.loads) {
            const ChimeraCell *a = study_.Find({d, at, load, orders[ours]}),
                              *b = study_.Find({d, at, load, orders[other]});
            if (a == nullptr || b == nullptr || load <= 1) continue;
            Moments here;
            for (std::size_t seed = 0; seed < by_seed.size(); ++seed) {
              const double waits = b->seeds[seed].queue,
                           below = waits > 0 ? 100 * (1 - a->seeds[seed].queue / waits) : 0;
              here.Add(below);
              by_seed[seed].Add(below);
            }
            texts.push_back(fmt::format("{} {} {:g}: {:.0f}", Name(d), Deployments()[at].name, load, here.mean()));
          }
        }
      }
      if (texts.empty()) return Lacking(name, {low, high}, "%");
      Moments all;
      for (const Moments& m : by_seed) all.Add(m.mean());
      const Interval below = IntervalOf(all);
      Judge(name, below, {low, high}, "%",
            fmt::format("mean of the loads above 1; {}; {}", IntervalText(below), fmt::join(texts, ", ")));
    };
    claim("Queueing time of SJF below that of FCFS, one model alone", 1, 0, 26, 48);
    claim("Queueing time of STJF below that of SJF, one model alone", 2, 1, 15, 34);
    claim("Queueing time of SJF below that of FCFS, lengths by the forest", 3, 0, 26, 48);
    claim("Queueing time of STJF below that of SJF, lengths by the forest", 4, 3, 15, 34);
  }

  void Key() {
    const char* const name = "The prompt's length in the key gains nothing: the best weight's gain in latency";
    std::optional<Reduction> best;
    std::vector<std::string> texts;
    for (const std::size_t at : {kQwen7, kQwen14}) {
      for (const double weight : plan_.weights) {
        if (weight == 0) continue;
        const auto r = study_.Compare({ChimeraDataset::kApps, at, plan_.rate, chimera::Weighted(plan_.tau, weight)},
                                      {ChimeraDataset::kApps, at, plan_.rate, chimera::Chimera(plan_.tau)},
                                      &ChimeraFigures::per_token);
        if (!r) return Lacking(name, {{}, 2.0}, "%");
        texts.push_back(fmt::format("{} w {:g}: {:+.1f}", Deployments()[at].name, weight, r->mean));
        if (!best || r->mean > best->mean) best = r;
      }
    }
    if (!best) return Lacking(name, {{}, 2.0}, "%");
    Judge(name, *best, {{}, 2}, "%",
          fmt::format("up to 2 % is nothing; {}; {}", IntervalText(*best), fmt::join(texts, ", ")));
  }

  void Predictions() {
    if (study_.predictions().empty()) return;
    Moments forest, precision[2];
    double worst = 0;
    std::vector<std::string> texts, heads;
    for (const ChimeraPrediction& p : study_.predictions()) {
      forest.Add(p.forest);
      worst = std::max(worst, p.forest - p.best);
      precision[static_cast<std::size_t>(p.dataset)].Add(p.average_precision);
      texts.push_back(fmt::format("{} {} {:.3f}", Name(p.dataset), p.model, p.forest));
    }
    Judge("Length predictor: Kendall tau distance at arrival, mean over models and datasets", Exact(forest.mean()),
          {0.155, 0.262}, "",
          fmt::format("at most {:.3f} above the best possible here; {}", worst, fmt::join(texts, ", ")));
    for (const ChimeraDataset d : kDatasets) {
      const double paper = d == ChimeraDataset::kApps ? 0.521 : 0.740;
      const double ours = precision[static_cast<std::size_t>(d)].mean();
      Judge(fmt::format("{}: router, macro mean average precision", Name(d)), Exact(ours), paper, "",
            "six models; here the success of a model is drawn with a known probability");
    }
  }

  const ChimeraStudy& study_;
  const ChimeraPlan& plan_;
};

}  // namespace

std::vector<ScenarioClaim> ChimeraClaims(const ChimeraStudy& study, const ChimeraPlan& plan) {
  return ChimeraPaperClaims(study, plan).All();
}

std::vector<std::string> ChimeraFindings(const ChimeraStudy& study, const ChimeraPlan& plan) {
  std::vector<std::string> findings;
  const auto at = [&](const ChimeraSystem& system, double gap = 0) {
    return study.Find({ChimeraDataset::kApps, kQwen7, plan.rate, system, gap});
  };
  std::vector<std::string> texts;
  for (const double gap : plan.gaps) {
    const ChimeraCell* c = at(chimera::Chimera(plan.tau), gap);
    if (c == nullptr) continue;
    const double told = c->Mean(&ChimeraFigures::in_flight), between = c->Mean(&ChimeraFigures::between);
    texts.push_back(fmt::format("{:g} s: {:.0f} % ({} ms per token, score {:.1f} %)", gap,
                                100 * between / std::max(told + between, 1e-9),
                                Short(c->Mean(&ChimeraFigures::per_token)), c->Mean(&ChimeraFigures::score)));
  }
  if (!texts.empty()) {
    findings.push_back(
        fmt::format("Between two calls a workflow has nothing in flight. Share of the predicted tokens that algorithm "
                    "1 misses for this reason, by the time between calls (APPS, {}, {:g}/s, tau {:g}): {}.",
                    Deployments()[kQwen7].name, plan.rate, plan.tau, fmt::join(texts, "; ")));
  }
  if (const ChimeraCell* c = at(chimera::Chimera(plan.tau))) {
    findings.push_back(
        fmt::format("{:.0f} % of the tokens in flight are already generated, because an entry counts in full until its "
                    "request ends.",
                    100 * c->Mean(&ChimeraFigures::written) / c->Mean(&ChimeraFigures::in_flight)));
  }
  texts.clear();
  for (const int s : plan.thresholds) {
    const ChimeraCell* c = at(chimera::Guarded(plan.tau, s));
    if (c != nullptr) {
      texts.push_back(fmt::format("{}: {} and {} s", s, Short(c->Mean(&ChimeraFigures::per_token)),
                                  Short(c->Mean(&ChimeraFigures::p95))));
    }
  }
  if (const ChimeraCell* c = at(chimera::Chimera(plan.tau)); c != nullptr && !texts.empty()) {
    findings.push_back(fmt::format(
        "A guard against starvation of S plans, ms per token and P95 of workflows: none {} and "
        "{} s; {}.",
        Short(c->Mean(&ChimeraFigures::per_token)), Short(c->Mean(&ChimeraFigures::p95)), fmt::join(texts, "; ")));
  }
  return findings;
}

}  // namespace takt::tool
