// Systems and loads of the Kairos scenario.
#ifndef TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_
#define TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lab/kairos/study.h"

namespace takt::tool {

struct KairosPlan {
  double minutes = 30;  // time of arrivals at full load, at most the length of the trace
  // Loads as shares of the capacity. The same workflows arrive at each load, with scaled times.
  std::vector<double> loads = {0.8, 1.2, 2};
  std::vector<double> mix_loads = {0.5, 0.8, 1, 1.2, 1.5, 2, 3};
  double accuracy_load = 0.8;
  // For the 8B model: the size of each KV cache in regime paper, from the fit below [tokens]; the sizes that the fit
  // tried; and the rate of the paper's figure.
  static constexpr std::int64_t kPaperKvTokens = 25'000;
  static constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();  // the profile's size
  std::vector<std::int64_t> fit = {kWhole, 40'000, 32'000, 28'000, 26'000, 25'000, 24'000, 22'000};
  double fit_calls_per_s = 8;
  // Factor on the sigmas of all outputs in regime paper, and the factors tried.
  static constexpr double kPaperSpread = 0.7, kChosenSpread = 1;
  std::vector<double> spreads = {kChosenSpread, 0.85, 0.7, 0.6, 0.5};

  const std::vector<double>& LoadsOf(std::size_t scenario) const { return scenario == kMix ? mix_loads : loads; }
};

namespace kairos {
KairosSystem Parrot();
KairosSystem Ayo();
KairosSystem Kairos();
KairosSystem NoPriority();
KairosSystem NoPacking();
KairosSystem Oracle();
KairosSystem ByMean();  // agents ranked by the mean
KairosSystem ByMedian();
KairosSystem AsPublished();  // packing that ignores requests after their expected time
KairosSystem WithThresholds();  // packing that suspends instances at thresholds of the used share
KairosSystem ByModelRate();     // packing by the decode rate of the cost model
KairosSystem Reserving();  // takt's own: reserves a quantile of each agent's outputs
KairosSystem BestFit();  // Parrot's order, on the instance with the best fit
std::vector<KairosSystem> OfMix();  // all systems
std::vector<KairosSystem> OfParts();  // order and placement apart, for the application whose agents are alike
std::vector<KairosSystem> Of(std::size_t scenario);  // fewer systems for single applications
}  // namespace kairos

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_
