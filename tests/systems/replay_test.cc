// Systems in the simulator: each gets the events of a run, and what it learns changes the run.
#include "takt/systems/replay.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "catch.h"
#include "sim/sim_workloads.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/registry.h"
#include "takt/policy/stjf.h"
#include "takt/workload/generate.h"

namespace takt::systems {
namespace {

// Engines with few places, so that requests wait.
ReplayOptions Cluster(std::int32_t instances) {
  ReplayOptions options = testing::ConstantSteps();
  options.instances = instances;
  options.engine.limits.max_seqs = 8;
  options.estimates = {EstimateKind::kNone, 0};
  return options;
}

double MeanOf(const Workload& w, const ReplayOptions& options) {
  const absl::StatusOr<ReplayResult> result = Replay(w, options);
  REQUIRE(result.ok());
  CHECK(result->metrics.completed == std::ssize(w.calls));
  return result->metrics.workflow.mean;
}

TEST_CASE("Kairos learns the agents of a run, on one engine and on several") {
  const Workload w = *GenerateWorkload("gen:kairos,app=qa:1,workflows=500,rate=20,seed=3");
  for (const int instances : {1, 2}) {
    CAPTURE(instances);
    ReplayOptions options = Cluster(instances);
    REQUIRE(UseSystem("kairos", w, options).ok());
    const double learned = MeanOf(w, options);
    CHECK(learned == MeanOf(w, options));
    CHECK((options.max_outstanding == options.engine.limits.max_seqs) == (instances > 1));
    options.system = {};  // the same order and placement, without a learner
    CHECK(learned != MeanOf(w, options));
  }
}

TEST_CASE("Kairos in a run forms the graph of the calls") {
  const Workload w = *GenerateWorkload("gen:kairos,app=qa:1,workflows=60,rate=2,seed=3");
  ReplayOptions options = Cluster(1);
  std::shared_ptr<Kairos> kairos;
  UseKairos({}, options, &kairos);
  MeanOf(w, options);
  const std::vector<std::int32_t> stages = kairos->learner().graph().StagesLeft();
  const auto left = [&](const char* name) {
    const auto agent = static_cast<std::uint64_t>(std::ranges::find(w.names, name) - w.names.begin());
    return stages[kairos->learner().graph().Find({agent})];
  };
  CHECK(left("Router") == 2);
  CHECK(left("Math") == 1);
  CHECK(left("Humanities") == 1);
}

TEST_CASE("HexGen-Flow searches alpha in a run, and stops with it") {
  const Workload w = *GenerateWorkload("gen:multi_stage,workflows=120,rate=2,seed=3,deadline=10:40");
  ReplayOptions options = Cluster(2);
  options.engines = {options.profile, options.profile};
  REQUIRE(UseSystem("hexgen_flow", w, options).ok());
  std::shared_ptr<HexGenFlow> flow;
  UseHexGenFlow({.tuner = {.window = std::chrono::seconds(20), .least = 3}}, options, &flow);
  MeanOf(w, options);
  const auto& history = flow->tuner()->history();
  const auto searched = [](const AlphaDecision& d) { return d.action == AlphaDecision::Action::kSearched; };
  CHECK(std::ranges::any_of(history, searched));
  CHECK(flow->lessons_dropped() == 0);

  options.cluster.progress = [](double) { return false; };
  REQUIRE(Replay(w, options).ok());
  const auto failed = [](const AlphaDecision& d) { return d.action == AlphaDecision::Action::kFailed; };
  CHECK(std::ranges::any_of(flow->tuner()->history(), failed));
}

// Two engines of unequal models. The 7B is right more often, and its steps are longer.
ReplayOptions TwoModels() {
  ReplayOptions options = Cluster(2);
  options.engines = {options.profile, options.profile};
  options.engines[0].model = "qwen2.5-1.5b", options.engines[1].model = "qwen2.5-7b";
  options.engines[1].cost.served->constant_ms *= 2;
  return options;
}

TEST_CASE("Chimera learns in a run how well and how long each model answers") {
  const Workload w = *GenerateWorkload("gen:apps,workflows=400,rate=2,seed=3");
  ReplayOptions options = TwoModels();
  REQUIRE(UseSystem("chimera", w, options).ok());
  const double learned = MeanOf(w, options);
  CHECK(learned == MeanOf(w, options));

  std::shared_ptr<Chimera> chimera;
  UseChimera({}, w, options, {}, &chimera);
  CHECK(learned == MeanOf(w, options));
  CHECK(chimera->lessons().workflows() == 400);
  CHECK(chimera->stats().unlearned == 0);
  CHECK(chimera->stats().predicted > chimera->stats().fallbacks);
  const Confidence& confidence = *chimera->predictors().confidence;
  const auto score = [&](const char* model) {
    const ModelId id{w.ModelIndex(model) + 1};
    const auto column =
        static_cast<std::size_t>(std::ranges::find(confidence.models(), id) - confidence.models().begin());
    double sum = 0;
    for (const WorkloadWorkflow& f : w.workflows) sum += confidence.Score(column, w.features_of(f.first_call)) / 400;
    return sum;
  };
  CHECK(score("qwen2.5-1.5b") < 0.2);  // 8 % and 38 % of all prompts
  CHECK(score("qwen2.5-7b") > 0.25);

  options.system = {};  // the same order and placement, without predictions
  CHECK(learned != MeanOf(w, options));
}

TEST_CASE("Chimera places and orders by the host's scores") {
  const Workload w = *GenerateWorkload("gen:apps,workflows=200,rate=2,seed=3");
  ReplayOptions options = TwoModels();
  options.policy = [](const EnginePace&) { return AnyPolicy(Stjf{}); };
  ConfidenceSlack placement;
  placement.tau = placement.floor_s = 1e9;
  options.placement = placement;
  const auto mean = [&](bool lengths) {
    std::shared_ptr<Chimera> chimera;
    const std::size_t large = w.ModelIndex("qwen2.5-7b");
    UseChimera(
        {}, w, options,
        [&, score = ModelScore{{large + 1}, 1, -1}](std::uint32_t workflow, std::uint32_t call) mutable {
          double left = 0;
          const WorkloadWorkflow& f = w.workflows[workflow];
          for (std::uint32_t c = call; c < f.first_call + f.calls; ++c) left += w.OutputOf(c, large);
          if (lengths) score.tokens = static_cast<float>(left);
          return std::span<const ModelScore>(&score, 1);
        },
        &chimera);
    const ReplayResult result = *Replay(w, options);
    CHECK(std::ranges::all_of(result.requests, [](const RequestRecord& r) { return r.instance == 1; }));
    CHECK(chimera->predictors().lengths == nullptr);
    return result.metrics.workflow.mean;
  };
  CHECK(mean(true) < 0.8 * mean(false));  // the engine orders by the prediction for the chosen model
}

TEST_CASE("LAMPS predicts the tool calls of a run that the host does not") {
  Workload w = *GenerateWorkload("gen:multi_stage,workflows=120,rate=9,seed=3");
  for (std::size_t i = 0; i < w.calls.size(); ++i) {
    WorkloadCall& call = w.calls[i];
    if (call.output_tokens < 4) continue;
    call.first_tool = static_cast<std::uint32_t>(w.tools.size()), call.tools = 1;
    w.tools.push_back({.after_tokens = 2, .returned_tokens = 8, .duration = std::chrono::seconds(i % 3 + 1)});
  }
  ReplayOptions options = Cluster(1);
  REQUIRE(UseSystem("lamps", w, options).ok());
  const double predicted = MeanOf(w, options);
  CHECK(predicted == MeanOf(w, options));
  options.policy = [](const EnginePace& pace) { return LampsOptions{.costs = {.pace = pace.memory}}.Policy(); };
  options.system = {};
  CHECK(predicted != MeanOf(w, options));
}

TEST_CASE("the errors of systems name the system and its need") {
  const Workload w = *GenerateWorkload("gen:multi_stage,workflows=5,rate=2,seed=3");
  ReplayOptions options = Cluster(1);
  CHECK(UseSystem("lamps", w, options).message() == "lamps: the workload lacks tool calls");
  CHECK(UseSystem("lamp", w, options).message().find("did you mean 'lamps'?") != std::string::npos);
  CHECK(UseSystem("chimera", w, options).message() == "chimera: the workload lacks several models");
  const Workload models = *GenerateWorkload("gen:apps,workflows=5,rate=2,seed=3");
  CHECK(UseSystem("chimera", models, options).message() ==
        "chimera: the engines lack several models of the workload; expected profiles of two or more of qwen2.5-1.5b, "
        "qwen2.5-3b, qwen2.5-7b, qwen2.5-14b, llama-3.2-3b, ministral-8b");
  Workload unjudged = models;
  for (WorkloadWorkflow& workflow : unjudged.workflows) workflow.solved_by = 0;
  ReplayOptions two = Cluster(1);
  for (const char* engine : {"derived/qwen2.5-1.5b/a6000/bf16/tp1", "derived/qwen2.5-7b/a6000/bf16/tp1"}) {
    two.engines.push_back(*FindProfile(engine));
  }
  CHECK(UseSystem("chimera", unjudged, two).message() == "chimera: the workload lacks solved_by of workflows");
  CHECK(UseSystem("cascadia", models, options).message() ==
        "cascadia: a replay runs each call once, on engines that keep their models; run takt-lab scenario cascadia");
  UseLamps({}, options);
  options.retention = [](const PrefillPace&) { return AnyRetention(); };
  CHECK(Replay(w, options).status().message() == "retention is unsupported by the scheduler of a system");
}

}  // namespace
}  // namespace takt::systems
