#include "lab/lamps/claims.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

// Mean wait for the first step from which requests count as waiting for others.
constexpr double kQueueSeconds = 0.5;

constexpr double kSignificant = 0.05;
constexpr const char* kToolBench = "no data: the ToolBench file is not in the authors' release";

using LampsMeasure = Figure<LampsFigures>;
constexpr const LampsMeasure &kLatency = FigureOf(kLampsFigures, &LampsFigures::latency),
                             &kTtft = FigureOf(kLampsFigures, &LampsFigures::ttft),
                             &kTailTtft = FigureOf(kLampsFigures, &LampsFigures::ttft_p99);

class LampsPaperClaims : Claims {
 public:
  LampsPaperClaims(const LampsStudy& study, const LampsPlan& plan, const LampsPredictor& predictor)
      : Claims(ClaimSource::kPaper), study_(study), plan_(plan), predictor_(predictor) {}

  std::vector<ScenarioClaim> All() {
    GptJ();
    Vicuna();
    RateFive();
    Tail();
    Throughput();
    Starvation();
    Ablation();
    Mispredictions();
    Predictor();
    Conclusion();
    return Take();
  }

 private:
  using M = LampsModel;
  using C = LampsCalls;

  // ---- 6.2 ----

  void GptJ() {
    const LampsSystem infercept = lamps::InferCept(), vllm = lamps::Vllm();
    At(M::kGptJ, C::kSingle, 3, infercept, kTtft, 4.61);
    At(M::kGptJ, C::kSingle, 3, vllm, kTtft, 22.86);
    At(M::kGptJ, C::kSingle, 3, infercept, kLatency, -0.78);
    At(M::kGptJ, C::kSingle, 3, vllm, kLatency, 14.48);
    At(M::kGptJ, C::kSingle, 5, infercept, kTtft, 91.27);
    At(M::kGptJ, C::kSingle, 5, vllm, kTtft, 95.71);
    At(M::kGptJ, C::kSingle, 5, infercept, kLatency, 65.51);
    At(M::kGptJ, C::kSingle, 5, vllm, kLatency, 90.44);
    At(M::kGptJ, C::kMulti, 3, infercept, kTtft, 95.93);
    At(M::kGptJ, C::kMulti, 3, infercept, kLatency, 63.32);
    Lacking("GPT-J 6B, ToolBench at 3/s: mean TTFT below InferCept's", 87.04, "%", kToolBench);
    Lacking("GPT-J 6B, ToolBench at 3/s: mean TTFT below vLLM's", 99.51, "%", kToolBench);
    Lacking("GPT-J 6B, ToolBench at 3/s: mean latency below InferCept's", 27.24, "%", kToolBench);
    Lacking("GPT-J 6B, ToolBench at 3/s: mean latency below vLLM's", 96.07, "%", kToolBench);
  }

  void Vicuna() {
    const LampsSystem infercept = lamps::InferCept(), vllm = lamps::Vllm();
    At(M::kVicuna, C::kSingle, 3, infercept, kTtft, 4.78);
    At(M::kVicuna, C::kSingle, 3, vllm, kTtft, 18.65);
    At(M::kVicuna, C::kSingle, 3, infercept, kLatency, 0.24);
    At(M::kVicuna, C::kSingle, 3, vllm, kLatency, 15.73);
    for (const LampsSystem& other : {infercept, vllm}) At(M::kVicuna, C::kSingle, 4, other, kTtft, Over(98));
    BestOf(M::kVicuna, C::kSingle, 4, kLatency, 82);
    for (const LampsSystem& other : {infercept, vllm}) At(M::kVicuna, C::kMulti, 4, other, kTtft, Over(89));
    BestOf(M::kVicuna, C::kMulti, 4, kLatency, 78);
    Lacking("Vicuna 13B, ToolBench at 3/s: mean TTFT below InferCept's", 75.46, "%", kToolBench);
    Lacking("Vicuna 13B, ToolBench at 3/s: mean latency below InferCept's", 62.61, "%", kToolBench);
    Lacking("Vicuna 13B, ToolBench at 3/s: mean latency below vLLM's, up to", 90.25, "%", kToolBench);
  }

  // Figure 7. The text gives figures for GPT-J's single calls, which GptJ() judges.
  void RateFive() {
    for (const LampsModel model : kLampsModels) {
      for (const LampsCalls calls : kLampsCalls) {
        if (model == M::kGptJ && calls == C::kSingle) continue;
        for (const LampsMeasure& measure : {kLatency, kTtft}) {
          for (const LampsSystem& other : {lamps::InferCept(), lamps::Vllm()}) {
            At(model, calls, 5, other, measure, Over(0));
          }
        }
      }
      for (const LampsMeasure& measure : {kLatency, kTtft}) {
        Lacking(fmt::format("{}, ToolBench at 5/s: {} below InferCept's and vLLM's", Name(model), measure.label), {},
                "%", kToolBench);
      }
    }
  }

  void Tail() {
    for (const LampsModel model : kLampsModels) {
      for (const LampsSystem& other : {lamps::InferCept(), lamps::Vllm()}) {
        At(model, C::kMulti, plan_.rates.back(), other, kTailTtft, Over(0));
      }
    }
  }

  void Throughput() {
    const auto claim = [&](LampsCalls calls, const LampsSystem& other, const Claimed& claimed) {
      std::optional<Reduction> best;
      double rate = 0;
      for (const double r : plan_.throughput_rates) {
        const auto less =
            study_.Compare({M::kVicuna, calls, lamps::Lamps(), r, plan_.throughput_minutes},
                           {M::kVicuna, calls, other, r, plan_.throughput_minutes}, &LampsFigures::in_time);
        if (less && (!best || Increase(*less).mean > best->mean)) best = Increase(*less), rate = r;
      }
      const std::string name = fmt::format("Vicuna 13B, {}: completions in {:g} minutes above {}'s, at the best rate",
                                           Name(calls), plan_.throughput_minutes, other.label);
      if (!best) return Lacking(name, claimed, "%");
      Below(name, *best, claimed, fmt::format("at {:g}/s", rate));
    };
    claim(C::kSingle, lamps::InferCept(), 46.81);
    claim(C::kSingle, lamps::Vllm(), 71.34);
    claim(C::kMulti, lamps::InferCept(), 50.23);
    claim(C::kMulti, lamps::Vllm(), Over(144));
    Lacking("Vicuna 13B, ToolBench: completions in 30 minutes slightly below InferCept's", {}, "%", kToolBench);
  }

  // Figure 9.
  void Starvation() {
    const LampsCell* guarded = Cell(M::kGptJ, C::kMulti, plan_.rate, lamps::Guarded(100));
    const LampsCell* free = Cell(M::kGptJ, C::kMulti, plan_.rate, lamps::Guarded(0));
    const std::string where = fmt::format("GPT-J 6B, multi-call at {:g}/s: starvation threshold 100", plan_.rate);
    const auto claim = [&](const std::string& name, bool increase, LampsFigure figure) {
      if (guarded == nullptr || free == nullptr) return Lacking(name, Over(0), "%");
      const Reduction change =
          increase ? Increase(ReductionOf(*guarded, *free, figure)) : ReductionOf(*guarded, *free, figure);
      Below(name, change, Over(0),
            fmt::format("{} against {} without", Short(guarded->Mean(figure)), Short(free->Mean(figure))));
    };
    claim(where + ", p99 latency below that without a guard", false, &LampsFigures::latency_p99);
    claim(where + ", throughput above that without a guard", true, &LampsFigures::in_time);
  }

  // ---- 6.3 ----

  void Ablation() {
    for (const LampsModel model : kLampsModels) {
      const LampsCell* vllm = Cell(model, C::kMulti, plan_.rate, lamps::Vllm());
      const LampsCell* infercept = Cell(model, C::kMulti, plan_.rate, lamps::InferCept());
      const LampsCell* no_order = Cell(model, C::kMulti, plan_.rate, lamps::NoOrder());
      const LampsCell* all = Cell(model, C::kMulti, plan_.rate, lamps::Lamps());
      const std::string where = fmt::format("{}, multi-call at {:g}/s: ", Name(model), plan_.rate);
      const std::string worse = where + "LAMPS without its order slightly worse than InferCept in mean latency";
      const std::string main = where + "share of the gain over vLLM in mean latency that is due to the order";
      if (vllm == nullptr || infercept == nullptr || no_order == nullptr || all == nullptr) {
        Lacking(worse, Over(0), "%");
        Lacking(main, Over(50), "%");
        continue;
      }
      Below(worse, Increase(ReductionOf(*no_order, *infercept, &LampsFigures::latency)), Over(0), "");
      const double latency[] = {vllm->Mean(&LampsFigures::latency), no_order->Mean(&LampsFigures::latency),
                                all->Mean(&LampsFigures::latency)};
      Moments shares;
      for (std::size_t i = 0; i < all->seeds.size(); ++i) {
        const double ours = all->seeds[i].latency, gain = vllm->seeds[i].latency - ours;
        shares.Add(gain > 0 ? 100 * (no_order->seeds[i].latency - ours) / gain : 0);
      }
      const Interval share = IntervalOf(shares);
      Judge(main, share, Over(50), "%",
            fmt::format("{} s with vLLM, {} s with calls handled by least waste, {} s with the order; {}",
                        Short(latency[0]), Short(latency[1]), Short(latency[2]), IntervalText(share)));
    }
  }

  // ---- 6.4 ----

  void Mispredictions() {
    const auto gaussian = [](double error) { return lamps::Lamps({EstimateKind::kGaussian, error}); };
    const auto compare = [&](const std::string& name, double rate, double error, bool latency, bool grows) {
      const LampsCell* exact = Cell(M::kGptJ, C::kMulti, rate, lamps::Lamps());
      const LampsCell* noisy = Cell(M::kGptJ, C::kMulti, rate, gaussian(error));
      const Claimed claimed = grows ? Over(0) : Claimed({}, 5);
      if (exact == nullptr || noisy == nullptr) return Lacking(name, claimed, "%");
      const Reduction change = latency ? Increase(ReductionOf(*noisy, *exact, &LampsFigures::latency_p50))
                                       : ReductionOf(*noisy, *exact, &LampsFigures::in_time);
      Below(name, change, claimed, grows ? "" : "at most 5 % is taken as none");
    };
    for (const double rate : {8.0, 10.0}) {
      const std::string where = fmt::format("GPT-J 6B, multi-call at {:g}/s: ", rate);
      compare(where + "median latency grows with errors of 50 %", rate, 0.5, true, true);
      compare(where + "throughput falls with errors of 50 %", rate, 0.5, false, true);
      compare(where + "median latency hardly grows with errors of 10 %", rate, 0.1, true, false);
    }
  }

  void Predictor() {
    const std::string here = fmt::format(
        "{}; class means on InferCept's requests ({} calls): within 5 tokens {} %, within 15 {} %, mean error {} "
        "tokens, {} in the first "
        "20 bins",
        kToolBench, predictor_.calls, Short(predictor_.acc_5), Short(predictor_.acc_15), Short(predictor_.mae),
        Short(predictor_.mae_first_20));
    Lacking("predictor on ToolBench: Acc-5", 68.5, "%", here);
    Lacking("predictor on ToolBench: Acc-15", 78.3, "%", here);
    Lacking("predictor on ToolBench: mean absolute error", 3.06, "words", here);
    Lacking("predictor on ToolBench: mean absolute error of the first 20 bins", 1.366, "words", here);
    Lacking("predictor: time of a prediction", 13.7, "ms",
            "takt runs no language model to predict: it looks up a mean");
    constexpr double kAcc5[] = {0, .75, .834, .813, .713, .769, .568, .5, .321, .333, .3};
    constexpr double kAcc15[] = {0, .75, .921, .933, .867, .851, .691, .545, .321, .462, .3};
    for (std::size_t bin = 0; bin < std::size(kAcc5); ++bin) {
      Lacking(fmt::format("predictor on ToolBench: Acc-5 in bin {}", bin), kAcc5[bin], "share", kToolBench);
      Lacking(fmt::format("predictor on ToolBench: Acc-15 in bin {}", bin), kAcc15[bin], "share", kToolBench);
    }
  }

  // ---- 8: the abstract's ranges ----

  void Conclusion() {
    const auto claim = [&](const LampsMeasure& measure, double low, double high) {
      const std::string name =
          fmt::format("{} below InferCept's, at the best rate, model and kind of calls", measure.label);
      std::optional<Reduction> best;
      std::string where;
      for (const LampsModel model : kLampsModels) {
        for (const LampsCalls calls : kLampsCalls) {
          for (const double rate : plan_.rates) {
            const auto r = study_.Compare({model, calls, lamps::Lamps(), rate, plan_.minutes},
                                          {model, calls, lamps::InferCept(), rate, plan_.minutes}, measure.member);
            if (!r || (best && r->mean <= best->mean)) continue;
            best = r;
            where = fmt::format("{}, {} at {:g}/s", Name(model), Name(calls), rate);
          }
        }
      }
      if (!best) return Lacking(name, {low, high}, "%");
      Below(name, *best, {low, high}, where);
    };
    claim(kLatency, 27, 85);
    claim(kTtft, 4, 96);
  }

  // ---- how a claim is judged ----

  const LampsCell* Cell(LampsModel model, LampsCalls calls, double rate, const LampsSystem& system) const {
    return study_.Find({model, calls, system, rate, plan_.minutes});
  }

  // `why` precedes the interval in the reason.
  void Below(const std::string& name, const Interval& ours, const Claimed& claimed, const std::string& why) {
    Judge(name, ours, claimed, "%", (why.empty() ? "" : why + "; ") + IntervalText(ours));
  }

  // LAMPS against `other` at one rate.
  void At(LampsModel model, LampsCalls calls, double rate, const LampsSystem& other, const LampsMeasure& measure,
          const Claimed& claimed) {
    const std::string name =
        fmt::format("{}, {} at {:g}/s: {} below {}'s", Name(model), Name(calls), rate, measure.label, other.label);
    const LampsCell *a = Cell(model, calls, rate, lamps::Lamps()), *b = Cell(model, calls, rate, other);
    if (a == nullptr || b == nullptr) return Lacking(name, claimed, "%");
    Below(name, ReductionOf(*a, *b, measure.member), claimed, Why(*a, *b, measure.member));
  }

  // Against the one of the two that it is further below.
  void BestOf(LampsModel model, LampsCalls calls, double rate, const LampsMeasure& measure, double paper) {
    const std::string name = fmt::format("{}, {} at {:g}/s: {} below InferCept's and vLLM's, up to", Name(model),
                                         Name(calls), rate, measure.label);
    const LampsCell* a = Cell(model, calls, rate, lamps::Lamps());
    const LampsCell* best = nullptr;
    for (const LampsSystem& other : {lamps::InferCept(), lamps::Vllm()}) {
      const LampsCell* b = Cell(model, calls, rate, other);
      if (a == nullptr || b == nullptr) return Lacking(name, paper, "%");
      if (best == nullptr || b->Mean(measure.member) > best->Mean(measure.member)) best = b;
    }
    Below(name, ReductionOf(*a, *best, measure.member), paper, Why(*a, *best, measure.member));
  }

  static std::string Why(const LampsCell& ours, const LampsCell& other, LampsFigure figure) {
    const double waits = other.Mean(&LampsFigures::queue);
    const std::string shown = fmt::format("{} s against {} s", Short(ours.Mean(figure)), Short(other.Mean(figure)));
    if (waits < kQueueSeconds)
      return fmt::format("{}; no queue forms: its requests wait {} s before they first run", shown, Short(waits));
    return fmt::format("{}; its requests wait {} s before they first run", shown, Short(waits));
  }

  const LampsStudy& study_;
  const LampsPlan& plan_;
  const LampsPredictor& predictor_;
};

// Rates at which LAMPS is beyond doubt lower, higher, or neither, such as "lower at 9, 10/s, higher at 7/s".
std::string Standing(const std::vector<std::pair<double, Reduction>>& by_rate) {
  std::vector<double> lower, higher, alike;
  for (const auto& [rate, r] : by_rate) {
    (r.p >= kSignificant ? alike : r.mean > 0 ? lower : higher).push_back(rate);
  }
  std::vector<std::string> parts;
  const auto add = [&](const char* word, const std::vector<double>& rates) {
    if (!rates.empty()) parts.push_back(fmt::format("{} at {}/s", word, fmt::join(rates, ", ")));
  };
  add("lower", lower);
  add("higher", higher);
  add("not told apart", alike);
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<ScenarioClaim> LampsClaims(const LampsStudy& study, const LampsPlan& plan,
                                       const LampsPredictor& predictor) {
  return LampsPaperClaims(study, plan, predictor).All();
}

std::vector<std::string> LampsFindings(const LampsStudy& study, const LampsPlan& plan) {
  std::vector<std::string> findings;
  for (const LampsModel model : kLampsModels) {
    for (const LampsCalls calls : kLampsCalls) {
      for (const LampsSystem& other : {lamps::InferCept(), lamps::Vllm()}) {
        std::vector<std::pair<double, Reduction>> latency, ttft;
        std::string tail;
        for (const double rate : plan.RatesOf(calls)) {
          const LampsCell* a = study.Find({model, calls, lamps::Lamps(), rate, plan.minutes});
          const LampsCell* b = study.Find({model, calls, other, rate, plan.minutes});
          if (a == nullptr || b == nullptr || b->Mean(&LampsFigures::queue) < kQueueSeconds) continue;
          latency.emplace_back(rate, ReductionOf(*a, *b, &LampsFigures::latency));
          ttft.emplace_back(rate, ReductionOf(*a, *b, &LampsFigures::ttft));
          tail = fmt::format("p99 at {:g}/s: latency {} s against {} s, TTFT {} s against {} s", rate,
                             Short(a->Mean(&LampsFigures::latency_p99)), Short(b->Mean(&LampsFigures::latency_p99)),
                             Short(a->Mean(&LampsFigures::ttft_p99)), Short(b->Mean(&LampsFigures::ttft_p99)));
        }
        const std::string who = fmt::format("{}, {}, LAMPS against {}: ", Name(model), Name(calls), other.label);
        if (latency.empty()) findings.push_back(who + "no queue forms at any rate.");
        else
          findings.push_back(fmt::format("{}at rates with a queue, mean latency is {}; mean TTFT is {}; {}.", who,
                                         Standing(latency), Standing(ttft), tail));
      }
    }
  }
  return findings;
}

}  // namespace takt::tool
