// A policy is a value with a key; the smallest key runs first. This one serves short prompts first; Aged prevents
// starvation of long ones. Composed at compile time; AnyPolicy(ShortestPrompt{}) would do the same at run time.
#include <cstdio>

#include "takt/policy/aged.h"
#include "takt/scheduler.h"

struct ShortestPrompt {
  static constexpr std::string_view kName = "shortest_prompt";
  takt::RankKey Key(const takt::RequestState& r) const { return {static_cast<double>(r.request.prompt_tokens.value)}; }
};

int main() {
  using Scheduler = takt::BasicScheduler<takt::Aged<ShortestPrompt>>;
  auto scheduler = Scheduler::Create({.kv_blocks = {1000}}, takt::Aged(ShortestPrompt{}, {.threshold = 100}));
  if (!scheduler.ok()) return 1;

  std::uint64_t id = 0;
  for (int prompt : {900, 300, 600}) {
    takt::Request request;
    request.id = {++id};
    request.prompt_tokens = {prompt};
    scheduler->On(takt::Arrived{request}, {});
  }
  for (const takt::PlanEntry& entry : scheduler->Plan({}, {.max_seqs = 2}).run) {
    std::printf("request %d runs, %d tokens\n", static_cast<int>(entry.request.value), entry.tokens);
  }
}
