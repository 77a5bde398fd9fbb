#include "tool/run/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {

void RunEach(std::size_t runs, int threads, std::string_view what, ProgressBar& bar,
             const std::function<void(std::size_t, const RunProgress&)>& work) {
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
             runs == 1 ? std::string(what) : fmt::format("{}, {} of {} done", what, over.load(), runs));
  }
}

void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run) {
  RunEach(tasks.size(), threads, what, bar, [&](std::size_t run, const RunProgress& progress) {
    tasks[run].options.cluster.progress = progress;
    const auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<ReplayResult> result = Replay(*tasks[run].workload, tasks[run].options);
    on_run(run, std::move(result), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  });
}

}  // namespace takt::tool
