#include "tool/run/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tool/run/number_text.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {

void RunEach(std::size_t runs, int threads, std::string_view what, ProgressBar& bar,
             const std::function<void(std::size_t, const RunProgress&)>& work,
             const std::function<std::vector<std::string>()>& rows) {
  std::vector<std::atomic<double>> shares(runs);
  std::atomic<std::size_t> next = 0, over = 0;
  std::mutex mutex;
  std::condition_variable changed;

  const auto work_on = [&] {
    for (std::size_t run = next++; run < runs && !Interrupted(); run = next++) {
      work(run, [&share = shares[run]](double done) {
        share = done;
        return !Interrupted();
      });
      shares[run] = 1;
      ++over;
    }
  };

  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t wished = threads > 0 ? static_cast<std::size_t>(threads) : cores;
  std::size_t working = std::min(wished, runs);
  std::vector<std::jthread> pool;
  for (std::size_t i = working; i > 0; --i) {
    pool.emplace_back([&] {
      work_on();
      const std::lock_guard lock(mutex);
      --working;
      changed.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return working == 0; })) {
    double sum = 0;
    for (const std::atomic<double>& share : shares) sum += share;
    bar.Show(sum / static_cast<double>(runs),
             runs == 1 ? std::string(what) : fmt::format("{}, {} of {} done", what, over.load(), runs),
             rows ? rows() : std::vector<std::string>());
  }
}

namespace {

// The states of running replays. Replays write and the bar reads, on several threads.
class LiveTable {
 public:
  explicit LiveTable(std::span<const ReplayTask> tasks) : tasks_(tasks), states_(tasks.size()) {
    for (const ReplayTask& task : tasks) width_ = std::max(width_, task.name.size());
  }

  void Set(std::size_t run, std::optional<RunState> state) {
    const std::lock_guard lock(mutex_);
    states_[run] = std::move(state);
  }

  std::vector<std::string> Rows() const {
    constexpr std::size_t kMostRuns = 8;
    std::vector<std::string> rows = {fmt::format("{:{}}  {:>10}{:>12}{:>9}{:>9}{:>6}{:>10}", "", width_, "time [s]",
                                                 "done", "waiting", "running", "KV %", "tokens/s")};
    const std::lock_guard lock(mutex_);
    for (std::size_t run = 0; run < states_.size() && rows.size() <= kMostRuns; ++run) {
      if (!states_[run]) continue;
      const RunState& now = *states_[run];
      const double s = ToSeconds(now.at.time.time_since_epoch());
      const double kv =
          now.kv_blocks > 0 ? static_cast<double>(now.at.kv_blocks) / static_cast<double>(now.kv_blocks) : 0;
      const double rate = s > 0 ? static_cast<double>(now.output_tokens) / s : 0;
      rows.push_back(fmt::format("{:{}}  {:>10}{:>12}{:>9}{:>9}{:>6.0f}{:>10}", tasks_[run].name, width_,
                                 Grouped(std::llround(s)), Grouped(static_cast<long long>(now.ended)),
                                 Grouped(now.at.waiting), Grouped(now.at.running), kv * 100,
                                 Grouped(std::llround(rate))));
    }
    if (rows.size() == 1) rows.clear();
    return rows;
  }

 private:
  std::span<const ReplayTask> tasks_;
  std::size_t width_ = 0;  // of names
  mutable std::mutex mutex_;
  std::vector<std::optional<RunState>> states_;  // by run; none: not running
};

}  // namespace

void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run) {
  LiveTable live(tasks);
  const auto work = [&](std::size_t run, const RunProgress& progress) {
    tasks[run].options.cluster.progress = progress;
    if (bar.shown()) tasks[run].options.cluster.watch = [&live, run](const RunState& state) { live.Set(run, state); };
    const auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<ReplayResult> result = Replay(*tasks[run].workload, tasks[run].options);
    live.Set(run, std::nullopt);
    on_run(run, std::move(result), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  };
  RunEach(tasks.size(), threads, what, bar, work, [&live] { return live.Rows(); });
}

}  // namespace takt::tool
