// Two turns of one conversation: a real clock, hashes of the prompt's blocks, and KV that is kept between the turns.
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

#include "takt/base/random.h"
#include "takt/scheduler.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/retention/hold_value.h"

// Prompts with the least uncached tokens first.
struct FewestMissing {
  static constexpr std::string_view kName = "fewest_missing";
  takt::RankKey Key(const takt::RequestState& r) const {
    return {static_cast<double>(r.request.prompt_tokens.value - r.cached.value)};
  }
};

// The host's clock, in nanoseconds since the computer started.
takt::TimePoint Now() { return takt::TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

// One hash for each full block. Each hash covers the block and all blocks before it.
std::vector<std::uint64_t> BlockHashes(std::span<const int> tokens, std::size_t block_tokens) {
  std::vector<std::uint64_t> hashes;
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    hash = takt::Mix64(hash ^ static_cast<std::uint64_t>(tokens[i] + 1));
    if ((i + 1) % block_tokens == 0) hashes.push_back(hash);
  }
  return hashes;
}

int main() {
  using Scheduler = takt::BasicScheduler<FewestMissing>;
  constexpr int kBlock = 16;
  auto scheduler = Scheduler::Create({.kv_block_tokens = {kBlock}, .kv_blocks = {1000}, .prefix_cache = true}, {});
  if (!scheduler.ok()) return 1;
  // Sets which KV stays after a turn, and which requests may evict it. RequestState::cached is 0 until this call or the
  // first TurnEnded.
  if (!scheduler->SetRetention(takt::HoldValue{}, takt::Price{}).ok()) return 1;

  std::vector<int> conversation(400, 7);  // token ids
  for (std::uint64_t turn = 1; turn <= 2; ++turn) {
    const std::vector<std::uint64_t> hashes = BlockHashes(conversation, kBlock);
    takt::Request request{.id = {turn}, .workflow = {1}};
    request.prompt_tokens = {static_cast<int>(conversation.size())};
    request.prefix = {{kBlock}, hashes};
    scheduler->On(takt::Arrived{request}, Now());
    std::printf("turn %d: key %.0f, prompt %d tokens\n", static_cast<int>(turn), scheduler->Explain(request.id).key.key,
                request.prompt_tokens.value);

    const takt::StepPlan& plan = scheduler->Plan(Now(), {.tokens = {2048}});
    const takt::PlanEntry& entry = plan.run.front();
    std::printf("turn %d: %d tokens are computed\n", static_cast<int>(turn), entry.tokens);
    const takt::RowResult row{entry.request, entry.lane, 1, 0, takt::RowResult::kFinished};
    scheduler->Commit({plan.id, {&row, 1}}, Now());
    scheduler->Plan(Now(), {});  // releases the request
    scheduler->On(takt::TurnEnded{.workflow = {1}, .why = takt::TurnWhy::kUser}, Now());

    conversation.insert(conversation.end(), 100, static_cast<int>(turn));  // the answer, and the next question
  }
}
