#include "lab/chimera/systems.h"

#include "fmt/format.h"

namespace takt::tool::chimera {

ChimeraSystem Vllm() { return {"vLLM"}; }
ChimeraSystem Mlfq() { return {.label = "MLFQ", .policy = "mlfq", .levels = true}; }
ChimeraSystem Ltr() { return {.label = "LTR", .policy = "ltr", .lengths = LengthsBy::kForest}; }
ChimeraSystem VllmStjf() { return {.label = "vLLM, STJF oracle", .policy = "stjf", .lengths = LengthsBy::kTruth}; }
ChimeraSystem Chimera(double tau) { return {"Chimera", "stjf", LengthsBy::kForest, RouterBy::kTrained, tau}; }
ChimeraSystem NoRouter(double tau) {
  return {"Chimera without router", "stjf", LengthsBy::kForest, RouterBy::kMean, tau};
}
ChimeraSystem OraclePredictor(double tau) {
  return {"Chimera, oracle predictor", "stjf", LengthsBy::kTruth, RouterBy::kTrained, tau};
}
ChimeraSystem OracleRouter(double tau) {
  return {"Chimera, oracle router", "stjf", LengthsBy::kForest, RouterBy::kTruth, tau};
}
ChimeraSystem ByGain(double tau) {
  ChimeraSystem system = Chimera(tau);
  system.label = "Chimera by gain", system.gain = true;
  return system;
}
ChimeraSystem ByLatency(double per_s) {
  ChimeraSystem system = ByGain(1e9);
  system.label = "Chimera by latency", system.price = per_s;
  return system;
}
ChimeraSystem ByLatencyOracle(double per_s) {
  ChimeraSystem system = ByLatency(per_s);
  system.label = "Chimera by latency, exact lengths", system.lengths = LengthsBy::kTruth;
  return system;
}
ChimeraSystem Assigned(double price) {
  ChimeraSystem system = Chimera(0);
  system.label = "assigned beforehand", system.assigned = true, system.price = price;
  return system;
}
ChimeraSystem AssignedByTruth(double price) {
  ChimeraSystem system = Assigned(price);
  system.label = "assigned beforehand, answers known", system.router = RouterBy::kTruth;
  return system;
}
ChimeraSystem Weighted(double tau, double weight) {
  ChimeraSystem system = Chimera(tau);
  if (weight > 0) system.policy = fmt::format("stjf(input={})", weight);
  return system;
}
ChimeraSystem Guarded(double tau, int threshold) {
  ChimeraSystem system = Chimera(tau);
  system.policy = fmt::format("aged(stjf,threshold={},quantum=10)", threshold);
  return system;
}

std::vector<ChimeraSystem> Rivals() { return {Vllm(), Mlfq(), Ltr(), VllmStjf()}; }

std::vector<ChimeraSystem> Orders() {
  return {{.label = "FCFS"},
          {.label = "SJF", .policy = "sjf", .lengths = LengthsBy::kTruth},
          {.label = "STJF", .policy = "stjf", .lengths = LengthsBy::kTruth},
          {.label = "SJF, forest", .policy = "sjf", .lengths = LengthsBy::kForest},
          {.label = "STJF, forest", .policy = "stjf", .lengths = LengthsBy::kForest}};
}

std::vector<ByTau> Kinds(std::size_t deployment) {
  if (deployment > kQwen14) return {&Chimera, &ByGain};
  return {&Chimera, &ByGain, &NoRouter, &OraclePredictor, &OracleRouter};
}

}  // namespace takt::tool::chimera
