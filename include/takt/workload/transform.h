// One workload into another. All of them keep the promises of workload.h.
#ifndef TAKT_WORKLOAD_TRANSFORM_H_
#define TAKT_WORKLOAD_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

// The same workload with its arrays in the order of the workflows, nothing in between, and its names in the order of
// their use. Readers, generators and all below leave it so.
Workload Tidied(const Workload& workload);

// Divides arrivals by `factor`: 2 is twice the load. Delays, tools and deadlines stay. InvalidArgument for a factor
// that is not a positive number, or under which arrivals lie beyond kMaxWorkloadTime.
absl::Status ScaleRate(Workload& workload, double factor);

// Multiplies all lengths by `factor`, to the nearest token: prompts, outputs, what tools return, and the blocks of
// prefixes, so that prompts share what they shared before. A prompt stays at least one token, an output long enough
// for each of its tools to be called at a place of its own. InvalidArgument for a factor that is not a positive number,
// or under which a context grows beyond kMaxContextTokens.
absl::Status ScaleLengths(Workload& workload, double factor);

// Each call with its first `most` tools only: it ends where the next one would be called. With 1, InferCept's requests
// of several calls are those of its workload of single calls.
void LimitTools(Workload& workload, std::uint32_t most);

// Lets the workflows, in their order, arrive at these times, which rise; the first at zero. InvalidArgument: another
// number of times than workflows, a time before the one before it, or an arrival beyond kMaxWorkloadTime.
absl::Status SetArrivals(Workload& workload, std::span<const TimePoint> arrivals);

// Deadlines of `scale` times what each workflow takes alone (sim/replay.h measures it); beyond kMaxWorkloadTime, none.
// InvalidArgument: another number
// of durations than workflows, or a scale that is negative or not finite.
absl::Status SetDeadlines(Workload& workload, std::span<const Duration> alone, double scale);

// The first workflows only, with what belongs to them.
void Truncate(Workload& workload, std::size_t workflows);

// A workload in a merged one: it starts `starts` after the beginning.
struct Part {
  const Workload* workload = nullptr;
  Duration starts{0};
};

// All parts in one, by arrival; ties in the order of the parts. Beginning at zero side by side is a mixed run; each at
// the end of the one before, a sequence. Prefixes are shared within a part, never between parts. InvalidArgument for
// different block sizes of prefixes, other models or features, a negative start, or arrivals beyond kMaxWorkloadTime.
absl::StatusOr<Workload> Merge(std::span<const Part> parts);

}  // namespace takt

#endif  // TAKT_WORKLOAD_TRANSFORM_H_
