// Transformations of workloads. All results satisfy the invariants of workload.h.
#ifndef TAKT_WORKLOAD_TRANSFORM_H_
#define TAKT_WORKLOAD_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

// Returns the same workload with arrays in workflow order and without gaps, and with names in the order of use.
// Readers, generators and all functions below return workloads in this form.
Workload Tidied(const Workload& workload);

// Divides arrival times by `factor`: 2 doubles the load. Delays, tools and deadlines do not change. InvalidArgument:
// the factor is not a positive number, or arrivals exceed kMaxWorkloadTime.
absl::Status ScaleRate(Workload& workload, double factor);

// Multiplies all lengths by `factor`, rounded to tokens: prompts, outputs, tool answers, and prefix blocks, so that
// prompts keep their common prefixes. A prompt keeps at least one token. An output stays long enough for each of its
// tools to have a different position. InvalidArgument: the factor is not a positive number, or a context exceeds
// kMaxContextTokens.
absl::Status ScaleLengths(Workload& workload, double factor);

// Keeps the first `most` tools of each call. The call then ends at the position of the next tool. If `most` is 1,
// InferCept's multi-call requests become its single-call workload.
void LimitTools(Workload& workload, std::uint32_t most);

// Sets the adapter of all calls of each workflow to a random number from 1 to `adapters`. Adapter k has a probability
// proportional to k^-exponent (Zipf); an exponent of 0 draws all equally often. InvalidArgument: `adapters` is outside
// 1 to kMaxWorkloadAdapters, or the exponent outside 0 to 10.
inline constexpr std::int64_t kMaxWorkloadAdapters = 1'000'000;
absl::Status DrawAdapters(Workload& workload, std::int64_t adapters, double exponent, std::uint64_t seed);

// Sets the arrival times of the workflows, in order. The first arrival is moved to zero. InvalidArgument: the number of
// times differs from the number of workflows, times decrease, or an arrival exceeds kMaxWorkloadTime.
absl::Status SetArrivals(Workload& workload, std::span<const TimePoint> arrivals);

// Sets each workflow's deadline to `scale` times its isolated latency (see sim/replay.h). Beyond kMaxWorkloadTime there
// is no deadline. InvalidArgument: the number of durations differs from the number of workflows, or the scale is
// negative or not finite.
absl::Status SetDeadlines(Workload& workload, std::span<const Duration> alone, double scale);

// Keeps only the first workflows.
void Truncate(Workload& workload, std::size_t workflows);

// A part of a merged workload. Its arrivals are delayed by `starts`.
struct Part {
  const Workload* workload = nullptr;
  Duration starts{0};
};

// Merges all parts by arrival; ties keep the order of the parts. Equal `starts` give a mixed run; a part that starts at
// the end of another gives a sequence. Prefixes are shared within a part only. InvalidArgument: different prefix block
// sizes, models or features; a negative start; or arrivals beyond kMaxWorkloadTime.
absl::StatusOr<Workload> Merge(std::span<const Part> parts);

}  // namespace takt

#endif  // TAKT_WORKLOAD_TRANSFORM_H_
