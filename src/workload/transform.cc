#include "takt/workload/transform.h"

#include <cmath>
#include <string>

#include "fmt/format.h"
#include "takt/base/random.h"
#include "workload/builder.h"

namespace takt {

Workload Tidied(const Workload& workload) {
  WorkloadBuilder builder;
  builder.workload().name = workload.name;
  builder.workload().prefix_block_tokens = workload.prefix_block_tokens;
  for (const WorkloadWorkflow& w : workload.workflows) Copy(workload, w, builder);
  return std::move(builder.workload());
}

absl::Status ScaleRate(Workload& workload, double factor) {
  const double last = workload.workflows.empty() ? 0 : ToSeconds(workload.workflows.back().arrival);
  if (!(factor > 0) || !std::isfinite(factor) || !(last / factor <= ToSeconds(kMaxWorkloadTime))) {
    return absl::InvalidArgumentError(
        fmt::format("rate scale: {} is not a positive number, or puts arrivals beyond 1e9 s", factor));
  }
  for (WorkloadWorkflow& w : workload.workflows) w.arrival = TimePoint(FromSeconds(ToSeconds(w.arrival) / factor));
  return absl::OkStatus();
}

void Truncate(Workload& workload, std::size_t workflows) {
  if (workflows >= workload.workflows.size()) return;
  workload.workflows.resize(workflows);
  workload = Tidied(workload);
}

absl::StatusOr<Workload> Merge(std::span<const Part> parts) {
  WorkloadBuilder builder;
  std::uint64_t part = 0;
  for (const auto& [workload, starts] : parts) {
    Workload& merged = builder.workload();
    if (starts < Duration::zero()) return absl::InvalidArgumentError("merge: a part starts before zero");
    if (part == 0) merged.prefix_block_tokens = workload->prefix_block_tokens;
    if (merged.prefix_block_tokens != workload->prefix_block_tokens && !workload->prefix_hashes.empty()) {
      return absl::InvalidArgumentError(fmt::format("merge: prefix blocks of {} and of {} tokens",
                                                    merged.prefix_block_tokens, workload->prefix_block_tokens));
    }
    merged.name += (part > 0 ? "+" : "") + workload->name;
    for (WorkloadWorkflow w : workload->workflows) {
      if (w.arrival.time_since_epoch() > kMaxWorkloadTime - starts) {
        return absl::InvalidArgumentError("merge: arrivals beyond 1e9 s");
      }
      w.arrival += starts;
      Copy(*workload, w, builder, [part](std::uint64_t hash) { return part == 0 ? hash : Mix64(hash ^ Mix64(part)); });
    }
    ++part;
  }
  builder.Finish();
  return std::move(builder.workload());
}

}  // namespace takt
