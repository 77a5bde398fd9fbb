// Runs side by side on several threads.
#ifndef TAKT_SRC_TOOL_RUN_RUNNER_H_
#define TAKT_SRC_TOOL_RUN_RUNNER_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/progress_bar.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// Told how far a run has come, from 0 to 1; false: stop it.
using RunProgress = std::function<bool(double)>;

// work(run, progress) for each of 0 .. runs - 1, at most `threads` at once (0: as many as there are cores). After an
// interrupt `progress` says false, and the rest is never begun.
void RunEach(std::size_t runs, int threads, std::string_view what, ProgressBar& bar,
             const std::function<void(std::size_t, const RunProgress&)>& work);

// A run to be made. The workload must outlive it.
struct ReplayTask {
  const Workload* workload = nullptr;
  ReplayOptions options;
};

// Told once per run, from the thread that ran it: which of them, what came of it, and how long it took.
using OnRun = std::function<void(std::size_t run, absl::StatusOr<ReplayResult> result, double wall_s)>;

// RunEach for replays. Sets `progress` of the options.
void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_RUNNER_H_
