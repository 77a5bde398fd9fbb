// Finds results that match the plan, eight at a time.
#ifndef TAKT_SCHEDULER_PLAIN_RESULTS_H_
#define TAKT_SCHEDULER_PLAIN_RESULTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "takt/model/step.h"

namespace takt::internal {

// Returns the index of the first entry from `i` on whose result is not exactly one token; run.size() if there is none.
// Each entry must have one token, and rows.size() == run.size(). An entry with one token has the same first 16 bytes as
// its plain result: request, lane, and a 1. In a result, the upper half of the 1 holds drafts and flags.
inline std::size_t PlainResults(std::span<const PlanEntry> run, std::span<const RowResult> rows, std::size_t i) {
  static_assert(offsetof(PlanEntry, lane) == offsetof(RowResult, lane) && std::endian::native == std::endian::little &&
                offsetof(PlanEntry, tokens) == offsetof(RowResult, tokens) && sizeof(RowResult) == 16);
  using Words = std::uint64_t __attribute__((vector_size(16)));
  const auto difference = [&](std::size_t at) {
    Words plain, reported;
    std::memcpy(&plain, &run[at], sizeof plain);
    std::memcpy(&reported, &rows[at], sizeof reported);
    return plain ^ reported;
  };
  const auto none = [](const Words& w) { return (w[0] | w[1]) == 0; };
  constexpr std::size_t kBlock = 8;
  for (; i + kBlock <= run.size(); i += kBlock) {
    Words any = {};
    for (std::size_t k = 0; k < kBlock; ++k) any |= difference(i + k);
    if (!none(any)) break;
  }
  while (i < run.size() && none(difference(i))) ++i;
  return i;
}

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PLAIN_RESULTS_H_
