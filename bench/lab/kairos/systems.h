// What the Kairos scenario compares, and at which loads.
#ifndef TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_
#define TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lab/kairos/study.h"

namespace takt::tool {

struct KairosPlan {
  double minutes = 30;  // of arrivals, where as many arrive as can be served, and the trace is long enough
  // Loads: shares of what can be served; the same workflows arrive, sooner or later.
  std::vector<double> loads = {0.8, 1.2, 2};
  std::vector<double> mix_loads = {0.5, 0.8, 1, 1.2, 1.5, 2, 3};
  double accuracy_load = 0.8;
  // Tokens of each KV cache of the 8B in regime paper, by the fit below; what the fit tried, and at which rate the
  // paper has its figure, which is of the 8B alone.
  static constexpr std::int64_t kPaperKvTokens = 22'000;
  static constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();  // all that the profile has
  std::vector<std::int64_t> fit = {kWhole, 40'000, 32'000, 28'000, 24'000, 22'000, 20'000, 18'000};
  double fit_calls_per_s = 8;

  const std::vector<double>& LoadsOf(std::size_t scenario) const { return scenario == kMix ? mix_loads : loads; }
};

namespace kairos {
KairosSystem Parrot();
KairosSystem Ayo();
KairosSystem Kairos();
KairosSystem NoPriority();
KairosSystem NoPacking();
KairosSystem Oracle();
KairosSystem ByMean();       // agents by the mean alone
KairosSystem ByMedian();
KairosSystem AsPublished();  // packing that does not count what outlives its expected time
KairosSystem Reserving();    // takt's own: room for a quantile of each agent's outputs
KairosSystem BestFit();      // Parrot's order, the instance that fits best
std::vector<KairosSystem> OfMix();                  // all of them
std::vector<KairosSystem> Of(std::size_t scenario);  // fewer where applications are alone
}  // namespace kairos

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_SYSTEMS_H_
