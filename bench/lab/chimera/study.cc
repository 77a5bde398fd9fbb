#include "lab/chimera/study.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "lab/chimera/assignment.h"
#include "tool/run/host_threads.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/learning/length_forest.h"
#include "takt/numeric/classification.h"
#include "takt/numeric/correlation.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/gain_slack.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr double kRate = 8;  // rate at which workloads are drawn
constexpr double kMostRate = 48;
// Chosen: in blocks of 16 tokens, host memory for requests that MLFQ displaces; more than all waiting requests need.
constexpr Blocks kHostBlocks = {1 << 20};

std::uint64_t IdOf(const Workload& training, const std::string& name) {
  return static_cast<std::uint64_t>(std::ranges::find(training.names, name) - training.names.begin()) + 1;
}

// The visible data of a call at its start, if `model` answered all earlier calls.
LengthInput InputOf(const Workload& w, const WorkloadWorkflow& workflow, std::uint32_t i, std::size_t model,
                    const Workload& training) {
  const std::uint32_t c = workflow.first_call + i;
  std::int32_t written = 0, usual = 0;
  for (std::uint32_t b = workflow.first_call; b < c; ++b) {
    written += w.OutputOf(b, model);
    usual += w.calls[b].output_tokens;
  }
  const auto user = static_cast<std::int32_t>(1.3 * static_cast<double>(w.features_of(c)[1]));
  return {.kind = IdOf(training, w.names[workflow.name]),
          .stage = {IdOf(training, w.names[w.calls[c].stage])},
          .prompt_tokens = {w.calls[c].prompt_tokens + written - usual},
          .system_tokens = {std::max(w.calls[c].prompt_tokens - usual - user, 0)},
          .user_tokens = {user},
          .calls_before = static_cast<std::int32_t>(i),
          .tokens_before = {written},
          .sketch = w.features_of(c)};
}

// Returns the features of the router: one number per topic, which is 1 for the topic of the prompt, and the counts.
std::vector<float> RouterFeatures(std::span<const float> features) {
  std::vector<float> seen(kChimeraTopics);
  if (const auto topic = static_cast<std::size_t>(features[0]); topic < seen.size()) seen[topic] = 1;
  seen.insert(seen.end(), features.begin() + 1, features.end());
  return seen;
}

Workload Generate(ChimeraDataset d, double rate, std::int64_t workflows, std::uint64_t seed) {
  GeneratorOptions options = ChimeraOptions(d);
  options.arrivals.rate = rate;
  options.workflows = workflows;
  options.seed = seed;
  return *GenerateWorkload(options);
}

double TotalOf(const Workload& w, const WorkloadWorkflow& workflow, std::uint32_t from, std::size_t model) {
  double sum = 0;
  for (std::uint32_t c = workflow.first_call + from; c < workflow.first_call + workflow.calls; ++c) {
    sum += w.OutputOf(c, model);
  }
  return sum;
}

// The share of a problem's tests that each model's answer passes, instead of whether it solves the problem. A test
// passes with the probability with which gen:apps solves a problem of this difficulty and topic. The difficulty is
// drawn anew, given the prompt's marker words. `solved`: each model's share of solved problems. `easier`: as in
// ChimeraFitted.
std::vector<float> SharesOfTests(const Workload& w, const std::vector<double>& solved, double easier,
                                 std::uint64_t seed) {
  constexpr int kTests = 21;  // tests of a problem, about the average of APPS
  // gen:apps: marker words at mean difficulty, and the increase for each standard deviation of it. Counts are Poisson,
  // so that their noise has the variance of their mean. The last value: the difficulty's variance given the counts.
  constexpr double kMarkers = 80, kPerHard = 25, kNoise = kMarkers / (kPerHard * kPerHard), kWeight = 1.5;
  constexpr std::size_t kHardWords = 3;
  const auto passes = [](double ease, double difficulty) { return 1 / (1 + std::exp(kWeight * difficulty - ease)); };
  const auto strength = [&](std::size_t i, std::size_t model) {
    return ChimeraStrength(model, static_cast<std::size_t>(w.features_of(w.workflows[i].first_call)[0]));
  };
  Random random(seed);
  std::vector<double> difficulty;
  for (const WorkloadWorkflow& workflow : w.workflows) {
    const double seen = (static_cast<double>(w.features_of(workflow.first_call)[kHardWords]) - kMarkers) / kPerHard;
    difficulty.push_back(seen / (1 + kNoise) + std::sqrt(kNoise / (1 + kNoise)) * random.Normal());
  }
  const std::size_t models = w.models.size();
  std::vector<float> shares(difficulty.size() * models);
  for (std::size_t m = 0; m < models; ++m) {
    double low = -20, high = 20;
    for (int round = 0; round < 50; ++round) {
      const double middle = (low + high) / 2;
      double sum = 0;
      for (std::size_t i = 0; i < difficulty.size(); ++i) sum += passes(middle + strength(i, m), difficulty[i]);
      (sum < solved[m] * static_cast<double>(difficulty.size()) ? low : high) = middle;
    }
    for (std::size_t i = 0; i < difficulty.size(); ++i) {
      int passed = 0;
      for (int t = 0; t < kTests; ++t)
        passed += random.Chance(passes(low + easier + strength(i, m), difficulty[i])) ? 1 : 0;
      shares[i * models + m] = static_cast<float>(passed) / kTests;
    }
  }
  return shares;
}

// The model of each engine.
std::vector<std::string> ModelsOf(const Deployment& deployment, const ChimeraFitted& fitted) {
  std::vector<std::string> models = deployment.models;
  if (models.size() > 1) models.resize(models.size() - 1 + fitted.largest, models.back());
  return models;
}

absl::StatusOr<ReplayOptions> EngineOptions(const Deployment& deployment, const ChimeraFitted& fitted) {
  ReplayOptions options;
  for (const std::string& model : ModelsOf(deployment, fitted)) {
    absl::StatusOr<Profile> profile = FindProfile(fmt::format("derived/{}/a6000/bf16/tp1", model));
    if (!profile.ok()) return profile.status();
    profile->cost.overhead_ms += fitted.overhead_ms;
    options.engines.push_back(*std::move(profile));
  }
  options.profile = options.engines.front();
  options.engine.limits = kStepLimits;
  options.engine.limits.max_seqs = fitted.seqs;
  return options;
}

}  // namespace

const std::vector<Deployment>& Deployments() {
  static const std::vector<Deployment> all = {
      {"Qwen 1.5B + 7B", {"qwen2.5-1.5b", "qwen2.5-7b"}},
      {"Qwen 1.5B + 14B", {"qwen2.5-1.5b", "qwen2.5-14b"}},
      {"Llama 3B + Ministral 8B", {"llama-3.2-3b", "ministral-8b"}},
      {"Qwen 1.5B + 3B + 14B", {"qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-14b"}},
      {"Qwen 1.5B", {"qwen2.5-1.5b"}},
      {"Qwen 3B", {"qwen2.5-3b"}},
      {"Qwen 7B", {"qwen2.5-7b"}},
      {"Qwen 14B", {"qwen2.5-14b"}},
  };
  return all;
}

// Forests and heads are trained on the workflows of another seed; tables hold their predictions for each seed's.
absl::Status ChimeraStudy::Learn(ChimeraDataset d, int threads) {
  const Workload training = Generate(d, kRate, kTraining, 1001);
  const std::size_t models = training.models.size(), features = training.feature_names.size();
  const LengthForestOptions options{.sketch = features};
  systems::ChimeraLessons lessons(options);
  LengthLearner output(options);  // of single calls
  std::vector<double> solved(models);
  std::uint64_t number = 0;  // of the workflow
  for (const WorkloadWorkflow& workflow : training.workflows) {
    ++number;
    for (std::size_t m = 0; m < models; ++m) {
      std::vector<FinishedCall> calls;
      for (std::uint32_t i = 0; i < workflow.calls; ++i) {
        calls.push_back({InputOf(training, workflow, i, m, training), {training.OutputOf(workflow.first_call + i, m)}});
        output.Finished({m + 1}, std::span(&calls.back(), 1), number);
      }
      const bool right = (workflow.solved_by >> m & 1) != 0;
      lessons.Add({m + 1}, calls, RouterFeatures(training.features_of(workflow.first_call)), right);
      solved[m] += right ? 1.0 / kTraining : 0;
    }
  }
  const ParallelFor parallel = OnThreads(threads);
  const auto trained = lessons.Train(parallel);
  const auto calls_forest = output.Train(parallel);
  if (!trained.ok()) return trained.status();
  if (!calls_forest.ok()) return calls_forest.status();

  auto& all = seeds_of_[static_cast<std::size_t>(d)];
  all.resize(static_cast<std::size_t>(seeds()));
  parallel(all.size(), [&](std::size_t s) {
    Seed& seed = all[s];
    // Enough for the highest rate; other rates use the first of them.
    const auto n = minutes_ > 0 ? static_cast<std::int64_t>(std::ceil(kMostRate * 60 * minutes_)) : kWorkflows;
    seed.workload = Generate(d, kRate, n, seed_range().At(s));
    const Workload& w = seed.workload;
    LengthForest::Scratch scratch;
    std::vector<LengthForest::Query> queries;
    std::vector<float> truth;
    for (const WorkloadWorkflow& workflow : w.workflows) {
      for (std::uint32_t i = 0; i < workflow.calls; ++i) {
        for (std::size_t m = 0; m < models; ++m) {
          queries.push_back({{m + 1}, InputOf(w, workflow, i, m, training), {-1}});
        }
      }
      std::vector<double> scores(models);
      trained->confidence->Scores(RouterFeatures(w.features_of(workflow.first_call)), scores);
      for (std::size_t m = 0; m < models; ++m) {
        seed.learnt.scores.push_back(static_cast<float>(scores[m]));
        seed.mean.push_back(static_cast<float>(solved[m]));
        truth.push_back((workflow.solved_by >> m & 1) != 0 ? 1.0f : 0.0f);
      }
    }
    const auto grade = [&](double easier) {
      if (seed.truth.contains(easier)) return;
      const bool by_tests = published_ && d == ChimeraDataset::kApps;
      seed.truth[easier] = by_tests ? SharesOfTests(w, solved, easier, seed_range().At(s)) : truth;
    };
    grade(fitted_.easier);
    for (std::size_t c = 0; c < size(); ++c) grade((*this)[c].setup.fitted.value_or(fitted_).easier);
    seed.learnt.left.resize(queries.size());
    seed.learnt.output.resize(queries.size());
    constexpr std::size_t kBatch = 1024;
    for (std::size_t q = 0; q < queries.size(); q += kBatch) {
      const auto some = std::span(queries).subspan(q, std::min(kBatch, queries.size() - q));
      trained->lengths->Predict(some, std::span(seed.learnt.left).subspan(q, some.size()), scratch);
      (*calls_forest)->Predict(some, std::span(seed.learnt.output).subspan(q, some.size()), scratch);
    }
  });

  const Seed& first = all.front();
  const Workload& w = first.workload;
  for (std::size_t m = 0; m < models; ++m) {
    const double rho = d == ChimeraDataset::kApps ? 0.89 : 0.87;
    ChimeraPrediction p{.dataset = d, .model = w.models[m], .best = 0.5 - std::asin(rho) / 3.14159265358979};
    std::vector<double> truth, told, truth_all, told_all, input, order, scores;
    std::vector<std::uint8_t> outcomes;
    for (const WorkloadWorkflow& workflow : w.workflows) {
      for (std::uint32_t i = 0; i < workflow.calls; ++i) {
        truth_all.push_back(TotalOf(w, workflow, i, m));
        told_all.push_back(first.learnt.left[(workflow.first_call + i) * models + m].Quantile(0.5));
      }
      const std::uint32_t c = workflow.first_call;
      truth.push_back(TotalOf(w, workflow, 0, m));
      told.push_back(first.learnt.left[c * models + m].Quantile(0.5));
      input.push_back(w.calls[c].prompt_tokens);
      order.push_back(static_cast<double>(order.size()));
      scores.push_back(static_cast<double>(first.learnt.scores[(order.size() - 1) * models + m]));
      outcomes.push_back(static_cast<std::uint8_t>(workflow.solved_by >> m & 1));
      p.solved += static_cast<double>(outcomes.back()) / static_cast<double>(w.workflows.size());
    }
    p.forest = CountPairs(truth, told).distance();
    p.forest_all = CountPairs(truth_all, told_all).distance();
    p.input = CountPairs(truth, input).distance();
    p.fcfs = CountPairs(truth, order).distance();
    p.average_precision = AveragePrecision(scores, outcomes);
    p.calibration = ExpectedCalibrationError(Reliability(scores, outcomes));
    predictions_.push_back(std::move(p));
  }
  return absl::OkStatus();
}

absl::Status ChimeraStudy::Prepare(int threads) {
  for (const ChimeraDataset d : kDatasets) {
    if (absl::Status s = Learn(d, threads); !s.ok()) return s;
    const Workload sample = Generate(d, kRate, 500, 1002);
    for (std::size_t i = 0; i < kDeployments; ++i) {
      const absl::StatusOr<ReplayOptions> options = EngineOptions(Deployments()[i], fitted_);
      if (!options.ok()) return options.status();
      const absl::StatusOr<double> calls = MeasureSaturation(sample, *options);
      if (!calls.ok()) return calls.status();
      capacity_[static_cast<std::size_t>(d)][i] =
          *calls * static_cast<double>(sample.workflows.size()) / static_cast<double>(sample.calls.size());
    }
  }
  return absl::OkStatus();
}

const std::vector<float>& ChimeraStudy::ScoresOf(const Seed& seed, RouterBy router) const {
  return router == RouterBy::kMean    ? seed.mean
         : router == RouterBy::kTruth ? seed.truth.at(fitted_.easier)
                                      : seed.learnt.scores;
}

// Runs the object of the paper with predictions that were made once for all runs.
void ChimeraStudy::UseChimera(const Seed& seed, const ChimeraSystem& system, const Workload& w,
                              ReplayOptions& options) const {
  // Workflows wait longer than a model is usually kept.
  const auto place_by = [&](auto placement) {
    placement.tau = system.tau;
    placement.sticky_s = 1e6;
    options.placement = placement;
  };
  if (system.gain) {
    GainSlack placement;
    placement.per_s = system.price / 100;
    place_by(placement);
  } else {
    place_by(ConfidenceSlack{});
  }
  const auto scores = [&, made = std::vector<ModelScore>()](std::uint32_t workflow, std::uint32_t call) mutable {
    made.clear();
    const WorkloadWorkflow& of = w.workflows[workflow];
    const std::size_t models = w.models.size();
    for (std::size_t m = 0; m < models; ++m) {
      const double tokens = TokensOf(seed, system, w, of, call - of.first_call, m);
      made.push_back({{m + 1}, ScoresOf(seed, system.router)[workflow * models + m], static_cast<float>(tokens)});
    }
    return std::span<const ModelScore>(made);
  };
  systems::UseChimera({}, w, options, scores);
}

double ChimeraStudy::TokensOf(const Seed& seed, const ChimeraSystem& system, const Workload& w,
                              const WorkloadWorkflow& workflow, std::uint32_t call, std::size_t model) const {
  if (system.lengths != LengthsBy::kForest) return TotalOf(w, workflow, call, model);
  return seed.learnt.left[(workflow.first_call + call) * w.models.size() + model].Quantile(0.5);
}

absl::StatusOr<std::optional<ChimeraFigures>> ChimeraStudy::RunOne(const ChimeraSetup& setup, std::uint64_t seed_number,
                                                                   const RunProgress& progress) const {
  const Seed& seed = seeds_of_[static_cast<std::size_t>(setup.dataset)][seed_range().IndexOf(seed_number)];
  const Deployment& deployment = Deployments()[setup.deployment];
  const ChimeraSystem& system = setup.system;
  absl::StatusOr<ReplayOptions> options = EngineOptions(deployment, setup.fitted.value_or(fitted_));
  if (!options.ok()) return options.status();
  const bool alone = setup.deployment >= kFirstAlone;
  const double rate = alone ? setup.rate * capacity(setup.dataset, setup.deployment) : setup.rate;

  Workload changed;
  const Workload* workload = &seed.workload;
  if (setup.gap_s > 0) {
    changed = seed.workload;
    for (WorkloadCall& call : changed.calls) {
      if (call.predecessors > 0) call.delay = FromSeconds(setup.gap_s);
    }
    workload = &changed;
  }
  if (minutes_ > 0 && !alone && setup.rate < kMostRate) {
    changed = *workload;
    Truncate(changed, static_cast<std::size_t>(std::max(1.0, std::round(setup.rate * 60 * minutes_))));
    workload = &changed;
  }
  const Workload& w = *workload;

  options->seed = seed_number;
  options->policy = *MakePolicyFactory(system.policy);
  options->cluster.rate_scale = rate / kRate;
  options->estimates = {system.lengths == LengthsBy::kTruth ? EstimateKind::kOracle : EstimateKind::kNone, 0};
  options->cluster.progress = progress;
  const bool routed = system.router != RouterBy::kNobody && !system.assigned;
  if (!routed && system.lengths == LengthsBy::kForest) {
    auto forecasts = std::make_shared<Forecasts>();
    const auto rows = static_cast<std::ptrdiff_t>(w.calls.size() * w.models.size());
    forecasts->left.assign(seed.learnt.left.begin(), seed.learnt.left.begin() + rows);
    forecasts->output.assign(seed.learnt.output.begin(), seed.learnt.output.begin() + rows);
    options->forecasts = std::move(forecasts);
  }
  if (system.assigned) return RunAssigned(setup, seed, w, *options);
  if (routed) UseChimera(seed, system, w, *options);
  if (system.levels) {
    options->scheduler.preempt = PreemptMode::kByRank;
    options->scheduler.preempt_margin = 0.5;
    if (published_) {
      options->scheduler.preempt_action = KvAction::kOut;
      options->scheduler.cpu_blocks = kHostBlocks;
    }
  }
  const absl::StatusOr<ReplayResult> result = Replay(w, *options);
  if (!result.ok()) return result.status();
  if (result->stopped) return std::nullopt;

  return FiguresOf(setup, seed, w, *result);
}

ChimeraFigures ChimeraStudy::FiguresOf(const ChimeraSetup& setup, const Seed& seed, const Workload& w,
                                       const ReplayResult& result) const {
  const std::vector<std::string> models = ModelsOf(Deployments()[setup.deployment], setup.fitted.value_or(fitted_));
  const std::string& strongest = Deployments()[setup.deployment].models.back();
  ChimeraFigures f;
  const Metrics& metrics = result.metrics;
  f.latency = metrics.workflow.mean;
  f.p95 = metrics.workflow.p95;
  f.each_per_token = 1e3 * metrics.workflow_per_token.mean;
  f.per_token = 1e3 * f.latency * static_cast<double>(w.workflows.size()) / static_cast<double>(metrics.output_tokens);
  f.queue = metrics.queue.mean;
  f.drained = metrics.makespan;
  const std::vector<float>& truth = TruthOf(seed, setup);
  for (const WorkloadWorkflow& workflow : w.workflows) {
    const auto number = static_cast<std::size_t>(&workflow - w.workflows.data());
    const RequestRecord& answer = result.requests[workflow.first_call + workflow.calls - 1];
    const std::size_t answered_by = w.ModelIndex(models[answer.instance]);
    f.score += 100 * static_cast<double>(truth[number * w.models.size() + answered_by]);
    for (std::uint32_t i = 0; i < workflow.calls; ++i) {
      const std::uint32_t c = workflow.first_call + i;
      const RequestRecord& call = result.requests[c];
      if (i + 1 == workflow.calls && models[call.instance] == strongest) f.strongest += 1;
      const std::size_t m = w.ModelIndex(models[call.instance]);
      const double told = TokensOf(seed, setup.system, w, workflow, i, m);
      f.in_flight += told * ToSeconds(call.end - call.arrival);
      // At a steady rate from its first token to its last.
      f.written += 0.5 * call.output_tokens * ToSeconds(call.end - call.first_token);
      if (i > 0) f.between += told * ToSeconds(call.arrival - result.requests[c - 1].end);
    }
  }
  f.score /= static_cast<double>(w.workflows.size());
  f.strongest *= 100 / static_cast<double>(w.workflows.size());
  for (const ChimeraFigure figure : {&ChimeraFigures::in_flight, &ChimeraFigures::written, &ChimeraFigures::between}) {
    f.*figure /= std::max(f.drained, 1e-9);
  }
  return f;
}

// The best result of the rounds' assignments.
absl::StatusOr<std::optional<ChimeraFigures>> ChimeraStudy::RunAssigned(const ChimeraSetup& setup, const Seed& seed,
                                                                        const Workload& w,
                                                                        ReplayOptions& options) const {
  constexpr int kRounds = 8;
  const double price = setup.system.price;
  Assignment assignment(w, options, ScoresOf(seed, setup.system.router));
  options.cluster.on_step = [&](const VirtualStep& step) { assignment.Saw(step); };
  std::optional<ChimeraFigures> best;
  for (int round = 0; round < (price > 0 ? kRounds : 1); ++round) {
    options.placement = AssignedToModels{assignment.Choose(price)};
    const absl::StatusOr<ReplayResult> result = Replay(w, options);
    if (!result.ok()) return result.status();
    if (result->stopped) return std::nullopt;
    assignment.Learn(*result);
    const ChimeraFigures f = FiguresOf(setup, seed, w, *result);
    const auto worth = [&](const ChimeraFigures& x) { return x.score - price * x.per_token; };
    if (!best || worth(f) > worth(*best)) best = f;
  }
  return best;
}

absl::Status ChimeraStudy::Run(int threads, ProgressBar& bar) {
  if (absl::Status s = Prepare(threads); !s.ok()) return s;
  return RunCells(threads, "replaying", bar,
                  [&](const ChimeraSetup& setup, std::uint64_t seed, const RunProgress& progress) {
                    return RunOne(setup, seed, progress);
                  });
}

}  // namespace takt::tool
