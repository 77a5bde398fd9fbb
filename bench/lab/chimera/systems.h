// Systems and rates of the Chimera scenario.
#ifndef TAKT_BENCH_LAB_CHIMERA_SYSTEMS_H_
#define TAKT_BENCH_LAB_CHIMERA_SYSTEMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/chimera/study.h"

namespace takt::tool {

struct ChimeraPlan {
  std::vector<double> rates = {8, 12, 16};  // the paper's, workflows per second
  std::vector<double> beyond = {24, 48};    // all systems have a queue
  std::vector<double> taus = {0, 0.25, 0.5, 1, 2, 4};
  // Slacks at which Chimera is judged.
  std::vector<double> slacks = {0, 0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 16};
  std::vector<double> loads = {0.9, 1.2, 2};  // of a model alone
  std::vector<double> weights = {0, 0.1, 0.25, 0.5, 1, 2};  // of the prompt in the key
  std::vector<double> gaps = {0, 0.1, 1, 5};                // seconds
  std::vector<int> thresholds = {25, 50, 100, 200, 400};    // plans, of the guard against starvation
  std::vector<double> per_s = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2};  // % a second, of latency
  std::vector<double> prices = {0,   0.02, 0.05, 0.1, 0.15, 0.2,
                                0.3, 0.4,  0.6,  0.8, 1.6};  // % per ms per token, of bounds
  std::vector<double> truth_prices = {0.1, 0.4, 1.6};  // prices of bounds that know the answers
  double tau = 0.5, rate = 48;  // for the parts that vary something else
  // Free parameters of the regimes. Regime paper has those of least error.
  static constexpr ChimeraFitted kPaperFitted = {.seqs = 22, .easier = 1}, kUnfitted = {.seqs = kStepLimits.max_seqs};
  std::vector<ChimeraFitted> fit = {
      {.seqs = 16, .easier = 1},       {.seqs = 20, .easier = 1},        kPaperFitted,
      {.seqs = 24, .easier = 1},       {.seqs = 28, .easier = 1},        {.seqs = 22, .easier = 0},
      {.seqs = 22, .easier = 0.5},     {.seqs = 22, .easier = 1.5},      {.seqs = 16, .largest = 2},
      {.seqs = 12, .largest = 4},      {.seqs = 12, .largest = 5},       {.seqs = 64, .overhead_ms = 20},
      {.seqs = 96, .overhead_ms = 30}, {.seqs = 192, .overhead_ms = 40}, kUnfitted};

  std::vector<double> AllRates() const {
    std::vector<double> all = rates;
    all.insert(all.end(), beyond.begin(), beyond.end());
    return all;
  }
};

namespace chimera {
ChimeraSystem Vllm();
ChimeraSystem Mlfq();
ChimeraSystem Ltr();
ChimeraSystem VllmStjf();  // exact lengths
ChimeraSystem Chimera(double tau);
ChimeraSystem NoRouter(double tau);         // the same score for every prompt
ChimeraSystem OraclePredictor(double tau);
ChimeraSystem OracleRouter(double tau);
ChimeraSystem ByGain(double tau);        // takt's own router: score less the price of the work
ChimeraSystem ByLatency(double per_s);   // the same with a fixed price of latency, in % a second
ChimeraSystem ByLatencyOracle(double per_s);  // and with exact lengths
// Systems that know all beforehand except the correct answers, with scores as the router was trained; and one that
// knows those too.
ChimeraSystem Assigned(double price);
ChimeraSystem AssignedByTruth(double price);
ChimeraSystem Weighted(double tau, double weight);  // stjf's key with a share of the prompt
ChimeraSystem Guarded(double tau, int threshold);   // aged(stjf), quantum 10
std::vector<ChimeraSystem> Rivals();
std::vector<ChimeraSystem> Orders();  // of a model alone
// For each slack: Chimera's kinds, and takt's next to them.
using ByTau = ChimeraSystem (*)(double);
std::vector<ByTau> Kinds(std::size_t deployment);
}  // namespace chimera

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CHIMERA_SYSTEMS_H_
