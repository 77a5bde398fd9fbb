// A histogram whose bins end at powers of two and halfway between them.
#ifndef TAKT_METRICS_HALF_OCTAVES_H_
#define TAKT_METRICS_HALF_OCTAVES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/base/rounded.h"
#include "takt/config.h"

namespace takt {

// Bin i counts values in [edge(i), edge(i + 1)). Smaller values count in the first bin, larger values in the last bin.
// NaN is ignored. An addition needs no logarithm: a bin is the exponent and the first bit of the fraction.
class HalfOctaves {
 public:
  // Bins from 2^first to 2^(first + octaves). Requires -1000 < first < 1000 and 0 < octaves <= kMostOctaves.
  static constexpr int kMostOctaves = 21;
  constexpr HalfOctaves(int first, int octaves)
      : base_(static_cast<std::uint32_t>(1023 + first) * 2), bins_(static_cast<std::uint32_t>(2 * octaves)) {
    TAKT_ASSERT(-1000 < first && first < 1000 && 0 < octaves && octaves <= kMostOctaves);
  }

  void Add(double x) {
    if (x != x) return;
    Count(x > 0 ? std::bit_cast<std::uint64_t>(x) : 0);
    sum_ = Rounded(sum_ + x);
  }
  // Adds a count. Bins then include their end instead of their begin.
  void AddCount(std::int32_t n) {
    Count(n > 0 ? std::bit_cast<std::uint64_t>(static_cast<double>(n)) - 1 : 0);
    sum_ = Rounded(sum_ + n);
  }

  double edge(std::size_t i) const { return std::bit_cast<double>((base_ + std::uint64_t{i}) << 51); }
  std::span<const std::int64_t> counts() const { return std::span(counts_).first(bins_); }
  double sum() const { return sum_; }

 private:
  // `bits`: of a number of at least 0.
  void Count(std::uint64_t bits) {
    const std::uint64_t at = bits >> 51;
    ++counts_[at > base_ ? std::min<std::uint64_t>(at - base_, bins_ - 1) : 0];
  }

  std::uint32_t base_, bins_;
  double sum_ = 0;
  std::array<std::int64_t, 2 * kMostOctaves> counts_ = {};
};

}  // namespace takt

#endif  // TAKT_METRICS_HALF_OCTAVES_H_
