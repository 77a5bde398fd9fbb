// Scale of the long tests.
#ifndef TAKT_TESTS_SCALE_H_
#define TAKT_TESTS_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace takt {

// `count` times TAKT_TEST_SCALE from the environment, at least 1. Unset is 1: what fits into CI. Presets with
// sanitizers take 0.1; 25 and more is for the night before a release (docs/project/testing.md).
inline std::int64_t Scaled(std::int64_t count) {
  const char* scale = std::getenv("TAKT_TEST_SCALE");
  const double factor = scale == nullptr ? 1.0 : std::strtod(scale, nullptr);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(count) * factor));
}

// Comparisons of two equal runs show nothing more under sanitizers.
inline bool ScaledDown() { return Scaled(10) < 10; }

}  // namespace takt

#endif  // TAKT_TESTS_SCALE_H_
