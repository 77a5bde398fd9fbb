#include "lab/operators/inputs.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "takt/base/random.h"

namespace takt::tool {
namespace {

std::int32_t LengthOf(Random& random, double median, double sigma, double most) {
  return static_cast<std::int32_t>(std::clamp(std::round(random.LogNormal(std::log(median), sigma)), 8.0, most));
}

// Calls add(time) at the points of a Poisson process of rate `most`, thinned to rate_at(time).
void Poisson(Random& random, double most, double seconds, const std::function<double(double)>& rate_at,
             const std::function<void(double)>& add) {
  double t = 0;
  while (true) {
    const double gap = random.Exponential();
    t += gap / most;
    if (t >= seconds) return;
    if (random.Chance(rate_at(t) / most)) add(t);
  }
}

bool InFirst(double of_minute, double t) { return std::fmod(t, 60) < of_minute; }

}  // namespace

std::vector<OperatorCall> MixedCalls(double rate, double burst, double seconds, std::uint64_t seed) {
  Random random(seed);
  std::vector<OperatorCall> calls;
  const double calm = rate * (60 - 10 * burst) / 50;
  const auto rate_at = [&](double t) { return InFirst(10, t) ? burst * rate : calm; };
  Poisson(random, burst * rate, seconds, rate_at, [&](double t) {
    const std::uint64_t draw = random.Below(20);
    OperatorCall call{.at = t, .kind = draw < 10 ? 0u : draw < 16 ? 1u : 2u};
    const double prompt = call.kind == 0 ? 500 : call.kind == 1 ? 8000 : 4000;
    const double output = call.kind == 0 ? 150 : call.kind == 1 ? 200 : 500;
    call.prompt = LengthOf(random, prompt, call.kind == 1 ? 0.8 : 1, 32'000);
    call.output = LengthOf(random, output, 0.7, 4000);
    call.tenant = 1 + random.Below(8);
    calls.push_back(call);
  });
  return calls;
}

std::vector<OperatorCall> TenantCalls(double rate, double flood, std::uint64_t tenants, double seconds,
                                      std::uint64_t seed) {
  Random random(seed), other(seed + 1'000'000);
  std::vector<OperatorCall> calls;
  const auto call_at = [](Random& from, double t, std::uint64_t tenant) {
    OperatorCall call{.at = t, .tenant = tenant};
    call.prompt = LengthOf(from, 300, 1, 16'000);
    call.output = LengthOf(from, 150, 0.7, 4000);
    return call;
  };
  Poisson(
      random, rate, seconds, [&](double) { return rate; },
      [&](double t) {
        const std::uint64_t tenant = 1 + random.Below(tenants);
        calls.push_back(call_at(random, t, tenant));
      });
  if (flood > 0) {
    Poisson(
        other, flood, seconds / 3, [&](double) { return flood; },
        [&](double t) { calls.push_back(call_at(other, seconds / 3 + t, tenants + 1)); });
  }
  std::ranges::stable_sort(calls, {}, &OperatorCall::at);
  return calls;
}

std::vector<OperatorCall> BurstsOverBatch(double batch, double burst, double calm, double seconds, std::uint64_t seed) {
  Random random(seed), other(seed + 1'000'000);
  std::vector<OperatorCall> calls;
  Poisson(
      random, batch, seconds, [&](double) { return batch; },
      [&](double t) {
        OperatorCall call{.at = t, .kind = 2, .tenant = 2};
        call.prompt = LengthOf(random, 4000, 1, 32'000);
        call.output = LengthOf(random, 500, 0.7, 4000);
        calls.push_back(call);
      });
  Poisson(
      other, std::max(burst, calm), seconds, [&](double t) { return InFirst(5, t) ? burst : calm; },
      [&](double t) {
        OperatorCall call{.at = t, .tenant = 1};
        call.prompt = LengthOf(other, 500, 1, 16'000);
        call.output = LengthOf(other, 150, 0.7, 4000);
        calls.push_back(call);
      });
  std::ranges::stable_sort(calls, {}, &OperatorCall::at);
  return calls;
}

std::vector<OperatorCall> LongOutputs(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<OperatorCall> calls;
  constexpr double kSigma = 0.6, kMedian = 493;
  const Estimate known = Estimate::LogNormal(kMedian * std::exp(kSigma * kSigma / 2), kSigma * kSigma);
  for (int i = 0; i < count; ++i) {
    calls.push_back({.prompt = 300, .output = LengthOf(random, kMedian, kSigma, 3000), .known = known});
  }
  return calls;
}

std::vector<OperatorCall> BurstsOfEqual(double calm, double burst, double seconds, std::uint64_t seed) {
  Random random(seed);
  std::vector<OperatorCall> calls;
  Poisson(
      random, burst, seconds, [&](double t) { return InFirst(8, t) ? burst : calm; },
      [&](double t) { calls.push_back({.at = t, .prompt = 512, .output = 64}); });
  return calls;
}

}  // namespace takt::tool
