// Replays side by side on several threads.
#ifndef TAKT_SRC_CLI_RUNNER_H_
#define TAKT_SRC_CLI_RUNNER_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/progress_bar.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::cli {

// A run to be made. The workload must outlive it.
struct ReplayTask {
  const Workload* workload = nullptr;
  ReplayOptions options;
};

// Told once per run, from the thread that ran it: which of them, what came of it, and how long it took.
using OnRun = std::function<void(std::size_t run, absl::StatusOr<ReplayResult> result, double wall_s)>;

// Runs the tasks, at most `threads` at once (0: as many as there are cores). After an interrupt what runs is stopped,
// and the rest is never begun. Sets `progress` of the options.
void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_RUNNER_H_
