// A key in two parts: fewest uncomputed prompt tokens first, in steps of 64; ties are ordered by deadline. A key is one
// double, which holds whole numbers up to 2^53. So the first part is multiplied by the range of the second.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "takt/scheduler.h"

struct ShortThenDue {
  static constexpr std::string_view kName = "short_then_due";
  static constexpr double kRange = 1e12;  // values of the second part: 31 years in milliseconds

  takt::RankKey Key(const takt::RequestState& r) const {
    const int blocks = std::max(0, r.request.prompt_tokens.value - r.cached.value) / 64;
    const double due_ms = std::floor(1e3 * takt::ToSeconds(r.request.deadline));
    return {blocks * kRange + std::clamp(due_ms, 0.0, kRange - 1)};  // exact while `blocks` is below 2^53 / kRange
  }
};

int main() {
  auto scheduler = takt::BasicScheduler<ShortThenDue>::Create({.kv_blocks = {1000}}, ShortThenDue{});
  if (!scheduler.ok()) return 1;
  const struct {
    int prompt, deadline;
  } requests[] = {{900, 10}, {310, 30}, {300, 20}};
  for (std::uint64_t id = 1; const auto& [prompt, deadline] : requests) {
    takt::Request request{.id = {id++}, .prompt_tokens = {prompt}};
    request.deadline = takt::TimePoint{} + std::chrono::seconds(deadline);
    scheduler->On(takt::Arrived{request}, {});
  }
  for (const takt::PlanEntry& entry : scheduler->Plan({}, {.max_seqs = 2}).run) {  // 3, then 2
    std::printf("request %d runs, %d tokens\n", static_cast<int>(entry.request.value), entry.tokens);
  }
}
