// Parallel loops on the host's threads; the library starts none.
#ifndef TAKT_BASE_PARALLEL_H_
#define TAKT_BASE_PARALLEL_H_

#include <cstddef>
#include <functional>

namespace takt {

// Calls body(0) .. body(n - 1) in any order, on any threads, and returns when all have returned. The calls write to
// disjoint data.
using ParallelFor = std::function<void(std::size_t n, const std::function<void(std::size_t)>& body)>;

inline void SerialFor(std::size_t n, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < n; ++i) body(i);
}

// A callback that receives the completed share of the work, 0 to 1, on the caller's thread. It returns false to stop
// the work. May be empty.
using Progress = std::function<bool(double)>;

}  // namespace takt

#endif  // TAKT_BASE_PARALLEL_H_
