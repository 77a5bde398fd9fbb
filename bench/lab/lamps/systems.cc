#include "lab/lamps/systems.h"

#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace takt::tool {

std::vector<double> LampsPlan::RatesOf(LampsCalls calls) const {
  std::vector<double> all = rates;
  if (calls == LampsCalls::kSingle) all.insert(all.end(), rates_beyond.begin(), rates_beyond.end());
  return all;
}

namespace lamps {
namespace {

constexpr EstimateSpec kOracle = {EstimateKind::kOracle, 0};

LampsSystem SystemOf(std::string label, const systems::LampsOptions& options, EstimateSpec estimates = kOracle) {
  return {std::move(label), options.Policy().spec(), options.Pause().spec(), estimates, false, options};
}

}  // namespace

LampsSystem Vllm() { return {"vLLM", "fcfs", "drop_all", kOracle}; }
LampsSystem InferCept() { return {"InferCept", "fcfs", "infercept", kOracle}; }
LampsSystem NoOrder() { return {"no order", "fcfs", "least_waste", kOracle}; }
LampsSystem Lamps(EstimateSpec estimates) { return SystemOf("LAMPS", {}, estimates); }
LampsSystem LampsClassMean() {
  LampsSystem system = Lamps({EstimateKind::kNone, 0});
  system.label = "LAMPS means";
  return system;
}
LampsSystem Guarded(int threshold) {
  return SystemOf(threshold > 0 ? fmt::format("threshold {}", threshold) : "no guard", {.threshold = threshold});
}
LampsSystem Refreshed(int refresh) {
  return SystemOf(refresh > 0 ? fmt::format("refresh {}", refresh) : "never refreshed",
                  {.stall = 1, .refresh = refresh});
}

std::vector<LampsSystem> Main() { return {Vllm(), InferCept(), NoOrder(), Lamps(), LampsClassMean()}; }

std::vector<LampsSystem> Ablation() {
  const EstimateSpec means = {EstimateKind::kClassMean, 0};
  LampsSystem preemptive = Lamps(), stall = Refreshed(0), unguarded = Guarded(0);
  preemptive.label = "LAMPS, preemptive", preemptive.preemptive = true;
  stall.label = "LAMPS with the stall of others";
  unguarded.label = "LAMPS without its guard";
  LampsSystem no_order = NoOrder(), with_means = LampsClassMean();
  no_order.label = "LAMPS without its order";
  with_means.label = "LAMPS, class means";
  return {Vllm(),
          InferCept(),
          {"InferCept, class means", "fcfs", "infercept", means},
          {"InferCept by elapsed time", "fcfs", "infercept(elapsed=true)", means},
          no_order,
          {"LAMPS without its order, class means", "fcfs", "least_waste", means},
          {"shortest first, least waste", "sjf", "least_waste", {EstimateKind::kOracle, 0}},
          unguarded,
          Lamps(),
          with_means,
          preemptive,
          stall};
}

}  // namespace lamps

}  // namespace takt::tool
