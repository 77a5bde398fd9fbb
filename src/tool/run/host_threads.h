// Threads of the tool, for slow work of the library.
#ifndef TAKT_SRC_TOOL_RUN_HOST_THREADS_H_
#define TAKT_SRC_TOOL_RUN_HOST_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "takt/base/parallel.h"

namespace takt::tool {

// Runs work on at most `threads` threads; 0: one per core.
inline ParallelFor OnThreads(int threads) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t most = threads > 0 ? static_cast<std::size_t>(threads) : cores;
  return [most](std::size_t n, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < n; i = next++) body(i);
    };
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(most, n); ++i) others.emplace_back(work);
    work();
  };
}

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_HOST_THREADS_H_
