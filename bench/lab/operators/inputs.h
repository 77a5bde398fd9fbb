// Calls that operators worry about: classes with bursts, a tenant that floods, long outputs on little memory.
#ifndef TAKT_BENCH_LAB_OPERATORS_INPUTS_H_
#define TAKT_BENCH_LAB_OPERATORS_INPUTS_H_

#include <cstdint>
#include <vector>

#include "lab/operators/engine.h"

namespace takt::tool {

inline constexpr const char* kOperatorProfile = "aic/llama-3.1-70b/h100/bf16/tp4";

// Interactive (2 s to the first token, 50 ms between tokens), agents (10 s, 100 ms), batch (ends within 300 s).
inline const std::vector<ServiceClass> kServiceClasses = {{0, 2, 0.05, 0}, {1, 10, 0.1, 0}, {2, 0, 0, 300}};

// Poisson arrivals at `rate` [1/s] on average for `seconds`. For the first 10 s of each minute the rate is `burst`
// times the mean. Lengths are log-normal.
// Ten of 20 calls are interactive (median prompt 500, output 150). Six belong to agents (8,000 and 200) and four to
// batch (4,000 and 500).
std::vector<OperatorCall> MixedCalls(double rate, double burst, double seconds, std::uint64_t seed);

// Interactive calls of `tenants` tenants at `rate` in all; tenant ids 1 to `tenants`. Tenant `tenants` + 1 sends calls
// like theirs at `flood` [1/s] from a third to two thirds of the time.
std::vector<OperatorCall> TenantCalls(double rate, double flood, std::uint64_t tenants, double seconds,
                                      std::uint64_t seed);

// Batch calls (tenant 2) at `batch` [1/s]. Interactive calls (tenant 1) come at `burst` in the first 5 s of each
// minute, and at `calm` otherwise.
std::vector<OperatorCall> BurstsOverBatch(double batch, double burst, double calm, double seconds, std::uint64_t seed);

// `count` calls of 300 prompt tokens at once, with log-normal outputs (median 493, sigma 0.6). The host knows their
// distribution.
std::vector<OperatorCall> LongOutputs(int count, std::uint64_t seed);

// Calls of 512 + 64 tokens at `calm` between bursts, and at `burst` in the first 8 s of each minute [1/s].
std::vector<OperatorCall> BurstsOfEqual(double calm, double burst, double seconds, std::uint64_t seed);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_INPUTS_H_
