#include "lab/cascadia/engine_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "lab/cascadia/cascade_rivals.h"
#include "fmt/format.h"
#include "takt/workload/cascadia.h"

namespace takt::tool {
namespace {

constexpr double kRouteLlm[] = {1.9, 2.9};                  // Appendix I, traces 1 and 2 [requests/s]
constexpr double kSarathi[] = {0.1913, 0.2385, 0.3977};     // Table 4, traces 1 to 3 [requests/s]

}  // namespace

std::vector<double> CascadiaAlone(const std::vector<ServedModel>& models, const std::vector<CascadeSample>& sample) {
  constexpr std::int32_t kTp[] = {1, 4, 8};
  constexpr double kApart = 1e5;  // s between requests
  std::vector<double> means;
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::size_t shape = 0;
    while (models[m].shapes[shape].cost.tp != kTp[m] || models[m].shapes[shape].cost.pp != 1) ++shape;
    std::vector<FastRequest> requests;
    for (const CascadeSample& s : sample) {
      requests.push_back({kApart * static_cast<double>(requests.size()), s.prompt, s.outputs[m]});
    }
    std::vector<double> ends(requests.size());
    const ReplicaCount one[] = {{shape, 1, 1}};
    SimulateMix(models[m], one, requests, ends);
    double sum = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) sum += ends[i] - requests[i].arrival;
    means.push_back(sum / static_cast<double>(ends.size()));
  }
  return means;
}

absl::StatusOr<CascadiaFit> FitCascadia(const CascadiaSettings& settings, const RunProgress& progress) {
  constexpr std::int32_t kSeqs[] = {1, 2, 4, 16, 256};
  const auto draw = [&](int trace, std::size_t models) {
    return DrawCascadia(trace, models, kProfiled, settings.seed, settings.harder);
  };
  const auto planner = [&](std::vector<ServedModel> models, std::vector<CascadeSample> sample) {
    CascadeProblem problem;
    problem.models = std::move(models);
    problem.sample = std::move(sample);
    problem.gpus = settings.gpus;
    return CascadePlanner::Create(std::move(problem), {});
  };
  CascadiaFit fit;
  fit.max_seqs.parameter = "requests that a replica runs at once";
  for (int trace = 1; trace <= 2; ++trace) {
    fit.max_seqs.figures.emplace_back(fmt::format("RouteLLM, trace {} [1/s]", trace), kRouteLlm[trace - 1]);
  }
  for (int trace = 1; trace <= 3; ++trace) {
    fit.max_seqs.figures.emplace_back(fmt::format("Sarathi, trace {} [1/s]", trace), kSarathi[trace - 1]);
  }
  for (const std::int32_t seqs : kSeqs) {
    const absl::StatusOr<std::vector<ServedModel>> models =
        CascadiaModels(CascadiaCascade::kDeepSeek, {.max_seqs = seqs, .large_pace = settings.engine.large_pace});
    if (!models.ok()) return models.status();
    const std::vector<ServedModel> llama = {(*models)[0], (*models)[1]};
    const bool taken = seqs == settings.engine.max_seqs;
    Fit::Tried tried{fmt::format("{}", seqs), {}, taken ? "taken" : seqs == 256 ? "regime takt" : ""};
    for (int trace = 1; trace <= 2; ++trace) {
      const CascadiaDraw requests = draw(trace, 2);
      const absl::StatusOr<CascadePlanner> both = planner(llama, requests.sample);
      if (!both.ok()) return both.status();
      tried.ours.push_back(PlanRouteLlm(*both, requests.router, 80, 1e-3).sustains);
      if (trace == 1 && taken) fit.alone_s = CascadiaAlone(llama, requests.sample);
    }
    for (int trace = 1; trace <= 3; ++trace) {
      std::vector<CascadeSample> own = draw(trace, 3).sample;
      for (CascadeSample& s : own) s = {s.prompt, {s.outputs[2]}, {s.scores[2]}};
      const absl::StatusOr<CascadePlanner> alone = planner({models->back()}, std::move(own));
      if (!alone.ok()) return alone.status();
      tried.ours.push_back(alone->SustainableRate(0));
    }
    fit.max_seqs.tried.push_back(std::move(tried));
    if (!progress(0.2 * static_cast<double>(fit.max_seqs.tried.size()))) return absl::CancelledError("stopped");
  }
  return fit;
}

absl::StatusOr<double> CascadiaTable1Error(const CascadiaEngine& engine) {
  struct Measured {
    std::int32_t dp, tp, pp;
    double rate;  // requests/s
  };
  constexpr Measured kMeasured[] = {{1, 4, 1, .21}, {1, 2, 2, .26}, {1, 1, 4, .27}, {2, 1, 2, .33},
                                    {2, 2, 1, .40}, {2, 4, 1, .41}, {2, 2, 2, .55}};
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(CascadiaCascade::kLlama, engine);
  if (!models.ok()) return models.status();
  const ServedModel large[] = {(*models)[1]};
  const std::vector<RequestLengths> lengths[] = {{{1600, 16}}};
  const absl::StatusOr<std::vector<ModelRates>> rates = MeasureRates(large, lengths, {});
  if (!rates.ok()) return rates.status();
  std::vector<double> logs;
  double mean = 0;
  for (const Measured& m : kMeasured) {
    double ours = 0;
    for (const ShapeRates& s : rates->front().shapes) {
      const CostModel& cost = large[0].shapes[s.shape].cost;
      if (cost.tp == m.tp && cost.pp == m.pp) ours = m.dp * s.curve.saturation();
    }
    if (!(ours > 0)) return absl::FailedPreconditionError("a replica of Table 1 does not fit into memory");
    logs.push_back(std::log(ours / m.rate));
    mean += logs.back() / static_cast<double>(std::size(kMeasured));
  }
  double most = 0;
  for (const double l : logs) most = std::max(most, 100 * std::abs(std::exp(l - mean) - 1));
  return most;
}

}  // namespace takt::tool
