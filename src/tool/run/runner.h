// Runs replays in parallel on several threads.
#ifndef TAKT_SRC_TOOL_RUN_RUNNER_H_
#define TAKT_SRC_TOOL_RUN_RUNNER_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/progress_bar.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// Called with the progress of a run, from 0 to 1. Returns false to stop the run.
using RunProgress = std::function<bool(double)>;

// Calls work(run, progress) for 0 .. runs - 1 on at most `threads` threads; 0: one per core. After an interrupt
// `progress` returns false and no further run starts. `rows` returns the lines below the bar.
void RunEach(std::size_t runs, int threads, std::string_view what, ProgressBar& bar,
             const std::function<void(std::size_t, const RunProgress&)>& work,
             const std::function<std::vector<std::string>()>& rows = {});

// A run of a replay. The workload must outlive it.
struct ReplayTask {
  std::string name;
  const Workload* workload = nullptr;
  ReplayOptions options;
};

// Called once per run on its thread with the run's index, its result and its duration.
using OnRun = std::function<void(std::size_t run, absl::StatusOr<ReplayResult> result, double wall_s)>;

// Runs replays with RunEach. Sets `progress` and `watch` of the options. The bar has a line for each running replay.
void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_RUNNER_H_
