// Checks which requests a plan runs, against docs/project/step_rules.md ("Admission", "Preemption") and a host's facts.
// Each check asks for a reason: a row has no entry, or the first of the queue still waits. The checks use the resources
// that are left at the end of the plan. At its turn, a request had at least these resources.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "shadow.h"

namespace takt::fire {
// Returns the size of a chunk of its prefix, in blocks of the ledger; 0 if the prefix is not shared.
std::int32_t Shadow::ChunkBlocks(const Life& life) const {
  const PrefixBlocks& prefix = life.state.request.prefix;
  if (!setup_.options.prefix_cache || !Counts() || prefix.hashes.empty()) return 0;
  const std::int32_t block = setup_.options.kv_block_tokens.value;
  return prefix.block_tokens.value % block == 0 ? prefix.block_tokens.value / block : 0;
}

Shadow::Left Shadow::LeftOf(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) const {
  Left left{.tokens = std::max(limits.tokens.value, 0), .swap_in = limits.swap_in.value};
  left.whole = std::clamp(limits.prefill_tokens.value, 0, left.tokens);
  left.paced = scheduler.paced_prefill().value;
  left.prefill = std::min(left.whole, left.paced);
  for (const PlanEntry& entry : plan.run) {
    left.tokens -= entry.tokens + entry.speculative;
    if (entry.prefill()) left.prefill -= entry.tokens, left.whole = 0;
    const Life& life = Of(entry.request);
    left.drafts += entry.speculative;
    left.draft_blocks += BlocksOf(life, life.tokens_held) - BlocksWithoutDrafts(life);
  }
  for (const KvMove& move : plan.moves) {
    if (move.action == KvAction::kIn || move.action == KvAction::kFetch)
      left.swap_in -= move.count.value, left.swapped_in = true;
  }
  left.rows = setup_.options.max_running, left.sequences = limits.max_seqs;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kRunning) continue;
    --left.rows, left.sequences -= life.row_sequences;
    const AdapterId adapter = life.state.request.adapter;
    if (adapter && std::ranges::find(left.adapters, adapter) == left.adapters.end()) left.adapters.push_back(adapter);
  }
  left.blocks = FreeBlocks(scheduler);
  return left;
}

// Returns the tokens of a chunk from `start` on: at most n of the `left` tokens, aligned.
std::int32_t Shadow::Aligned(std::int32_t start, std::int32_t n, std::int32_t left, const StepLimits& limits) {
  const std::int32_t align = std::max(limits.chunk_align.value, 1);
  if (n < 1 || n >= left) return std::min(n, left);
  return std::max(start + n - (start + n) % align - start, 0);
}

bool Shadow::BudgetAllows(const Life& life, std::int32_t start, const Left& left, const StepLimits& limits) const {
  const Request& r = life.state.request;
  if (life.generated > 0 && life.known - start == r.sequences) return r.sequences <= left.tokens;
  const std::int32_t allowed = std::min(left.tokens, left.prefill);
  const std::int32_t whole = r.chunkable ? 0 : r.prompt_tokens.value - start;
  if (whole > 0) return whole <= std::min(left.tokens, std::max(left.prefill, left.whole));
  const std::int32_t n = std::min(allowed, limits.chunk_tokens.value);
  return n >= 1 && Aligned(start, n, life.known - start, limits) >= 1;
}

// Returns true if its adapter is not in use and there is no place for another.
bool Shadow::LacksAdapter(const Life& life, const Left& left, const StepLimits& limits) {
  const AdapterId adapter = life.state.request.adapter;
  return adapter && std::ranges::find(left.adapters, adapter) == left.adapters.end() &&
         std::cmp_greater_equal(left.adapters.size(), limits.adapters);
}

// Returns the reason why a request waits, in the order of the documentation.
Shadow::Bar Shadow::BarOf(const Life& life, const Left& left, const StepLimits& limits) const {
  if (life.in_transit()) return Bar::kTransit;
  if (life.declined) return Bar::kDeclined;
  const Request& r = life.state.request;
  if (r.sequences > limits.max_seqs || (r.sequences > limits.tokens.value && !life.copied)) return Bar::kTooLarge;
  if (LacksAdapter(life, left, limits)) return Bar::kAdapter;
  const bool crowded = left.rows <= 0 || r.sequences > left.sequences;
  // At the request's turn, the reason may have differed: a prompt too large for this step, or too long to start while
  // others run. Such a request is unknown.
  const bool too_long =
      !r.chunkable || life.known > left.shortest / 2 || limits.chunk_align.value > LargestChunk(limits);
  if (crowded) return too_long && !life.copied ? Bar::kUnknown : Bar::kRows;
  if (life.awaits_prefix) return life.perhaps_prefix ? Bar::kUnknown : Bar::kPrefix;
  // An admission to a running batch leaves room for growth.
  const bool alone = left.rows == setup_.options.max_running;
  const auto watermark =
      alone || !Counts() ? 0 : static_cast<std::int32_t>(setup_.options.kv_watermark * setup_.options.kv_blocks.value);
  const std::int64_t free = left.blocks - watermark;
  // The reserve for outputs may keep out a request that fits now.
  const bool reserved = !alone && setup_.options.reserve_output > 0 && Counts();
  if (life.copied) {
    // The first swap-in of a step may exceed the step's limit.
    const bool allowed = life.cpu_blocks <= left.swap_in || (!left.swapped_in && left.swap_in > 0);
    if (!allowed) return Bar::kSwap;
    if (std::max(BlocksOf(life, life.known), life.cpu_blocks) > free) return Bar::kMemory;
    return reserved ? Bar::kUnknown : Bar::kNone;
  }
  std::int32_t start = life.computed;
  std::int64_t shared = 0;
  if (host_kv_ != nullptr && start == 0 && life.sure && life.most_blocks == 0) start = CachedTokens(r);
  if (const std::int32_t chunk = ChunkBlocks(life); chunk > 0 && life.sure && life.most_blocks == 0 && start == 0) {
    if (!prefixes_.sure()) return Bar::kUnknown;
    const std::span<const std::uint64_t> hashes = HashesOf(life);
    const auto whole = static_cast<std::size_t>((r.prompt_tokens.value - 1) / r.prefix.block_tokens.value);
    const std::int32_t found = prefixes_.Found(hashes.first(std::min(hashes.size(), whole)), chunk);
    start = found * r.prefix.block_tokens.value;
    shared = std::int64_t{found} * chunk - prefixes_.IdleBlocks(hashes.first(static_cast<std::size_t>(found)), chunk);
  }
  if (life.computed == 0 && life.sure && life.most_blocks == 0) start = std::max(start, ArrivedOf(life));
  if (!life.sure && (limits.chunk_align.value > 1 || life.arrived > 0)) return Bar::kUnknown;
  const std::int32_t whole = r.chunkable ? 0 : r.prompt_tokens.value - start;
  if (whole > std::max(std::min(limits.tokens.value, limits.prefill_tokens.value), 0)) return Bar::kTooLarge;
  if (FitsNoChunk(life, start, limits)) return Bar::kTooLarge;
  const std::int32_t rest = life.known - start, allowed = std::min(left.tokens, left.prefill);
  const bool decodes = life.generated > 0 && rest == r.sequences;
  if (whole <= allowed && !decodes && allowed >= 1 && allowed < life.known && life.known > left.shortest / 2) {
    if (!life.sure || limits.chunk_align.value > 1) return Bar::kUnknown;
    if (allowed < rest && rest > left.shortest / 2) return rest <= allowed + left.perhaps ? Bar::kUnknown : Bar::kLong;
  }
  if (!BudgetAllows(life, start, left, limits) || !(life.sure || BudgetAllows(life, 0, left, limits))) {
    return Bar::kBudget;
  }
  const std::int64_t blocks = BlocksOf(life, life.known) - (life.sure ? BlocksOf(life, life.tokens_held) : 0) - shared;
  if (blocks > 0 && blocks > free) return Bar::kMemory;
  return reserved ? Bar::kUnknown : Bar::kNone;
}

// Reads from the scheduler which requests wait for a prefix, and checks each. Explain() names no reason for requests
// that this plan sheds.
void Shadow::ReadPrefixes(const StepPlan& plan, const Scheduler& scheduler) {
  const bool leaders_stay = plan.preempted.empty() && !fails_ && !finished_ && !stalled_;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    life.awaits_prefix = built_ && life.is == Is::kWaiting && ChunkBlocks(life) > 0;
    if (!life.awaits_prefix) continue;
    const Explanation e = scheduler.Explain(id);
    const bool explained = e.status == RequestStatus::kWaiting;
    life.awaits_prefix = explained ? e.waits_for == WaitsFor::kPrefix : MayAwaitPrefix(life);
    life.perhaps_prefix = !explained && life.awaits_prefix;
    FIRE_CHECK(!life.awaits_prefix || !leaders_stay || MayAwaitPrefix(life),
               "request {} waits for a prefix that no row computes", id.value);
  }
}

// Returns true if a request that has never run may wait while a running request computes a worthwhile part of its
// prompt.
bool Shadow::MayAwaitPrefix(const Life& life) const {
  if (setup_.options.prefix_wait == 0 || life.admission > 0 || life.most_blocks > 0 || life.arrived > 0) return false;
  const Request& r = life.state.request;
  const auto whole = std::min(r.prefix.hashes.size(),
                              static_cast<std::size_t>((r.prompt_tokens.value - 1) / r.prefix.block_tokens.value));
  return std::ranges::any_of(unreleased_, [&](RequestId id) {
    const Life& leader = Of(id);
    const PrefixBlocks& its = leader.state.request.prefix;
    if (leader.is != Is::kRunning || leader.in_flight == 0 || leader.planned_in <= leader.void_through) return false;
    if (its.block_tokens != r.prefix.block_tokens) return false;
    const std::size_t most = std::min(whole, its.hashes.size());
    std::size_t same = 0;
    while (same < most && its.hashes[same] == r.prefix.hashes[same]) ++same;
    const auto first = static_cast<std::size_t>(prefixes_.sure() ? leader.shared_chunks : 0);
    const std::int64_t tokens = r.prefix.block_tokens.value;
    // If the cache is known, it holds exactly the chunks before the leader's next one.
    return same > first && 8 * static_cast<std::int64_t>(same - first) * tokens >=
                               life.known - static_cast<std::int64_t>(first) * tokens;
  });
}

// Returns true if the resources left allow this row.
bool Shadow::CouldRun(const Life& life, const Left& left, const StepLimits& limits) const {
  if (life.is != Is::kRunning || life.moving_in || life.left_out || life.row_sequences > limits.max_seqs) return false;
  if (AtCap(life)) return false;  // its earlier step is still in flight
  if (life.prefilling) {
    const Request& r = life.state.request;
    const std::int32_t known = life.expected - life.scheduled;
    const bool whole = !r.chunkable && life.scheduled < r.prompt_tokens.value;
    const std::int32_t allowed = std::min(left.tokens, whole ? std::max(left.prefill, left.whole) : left.prefill);
    if (whole && r.prompt_tokens.value - life.scheduled > allowed) return false;
    const std::int32_t n = whole ? std::min(known, allowed)
                                 : Aligned(life.scheduled, std::min(allowed, limits.chunk_tokens.value), known, limits);
    // Perhaps a row that decoded and lost its KV lacks a block for its last token.
    const std::int32_t more = BlocksOf(life, life.scheduled + n) - BlocksOf(life, life.tokens_held);
    return n >= 1 && more <= std::max<std::int64_t>(left.blocks, 0);
  }
  return life.row_sequences <= left.tokens && life.row_sequences <= left.blocks;
}

// Returns the blocks of a row without those for drafts of this plan, which LeftOf counts as left.
std::int64_t Shadow::BlocksWithoutDrafts(const Life& life) const {
  const std::int32_t held = BlocksOf(life, life.tokens_held);
  return life.planned_in != last_step_ ? held
                                       : std::max(BlocksOf(life, life.held_without), std::min(held, life.most_before));
}

// Returns true if blocks will soon be free.
bool Shadow::Pending() const {
  return std::ranges::any_of(unreleased_, [this](RequestId id) {
    const Life& life = Of(id);
    return life.moving_out || life.kept ||
           (life.in_lane && life.is != Is::kRunning && life.leave != Life::Leave::kKeep);
  });
}

void Shadow::CheckWho(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) {
  // If rows lack memory or were preempted, earlier decisions of the plan are unknown.
  if (!built_) return;
  const bool was_stalled = std::exchange(was_stalled_, stalled_);
  const bool refuses = host_kv_ != nullptr && host_kv_->refuses();
  const bool sure = !stalled_ && !shed_kv_ && plan.preempted.empty() && !refuses;
  Left left = LeftOf(plan, limits, scheduler);
  CheckDrafts(plan, left, sure);
  if (!sure || !violation_.empty()) return;
  left.tokens += left.drafts, left.blocks += left.draft_blocks;  // drafts come last
  // Chunks of other prompts must not delay a prompt that must be computed whole and fits an empty step.
  bool whole_waits = false;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    const Request& r = life.state.request;
    if (life.is != Is::kRunning || life.moving_in || !life.prefilling || r.chunkable) continue;
    whole_waits |= life.planned_in != last_step_ && life.scheduled < r.prompt_tokens.value;
  }
  if (whole_waits) left.prefill = left.whole = 0;
  CheckRows(plan, left, limits);
  if (!violation_.empty()) return;

  // With prefill first, decodes come after admissions, unless a row lacked memory in the last plan.
  if (setup_.options.order == StepOrder::kPrefillFirst) {
    if (finished_ || shrunk_ || fails_ || !plan.released.empty()) return;  // their resources came free later
    if (!was_stalled) {
      for (const PlanEntry& entry : plan.run) {
        if (!entry.prefill() && !entry.admitted() && !Of(entry.request).started) left.tokens += entry.tokens;
      }
      left.prefill = std::min(left.prefill, left.tokens);
    }
  } else if (PromptsFirst(plan) || ((finished_ || shrunk_) && MayComputePromptsFirst(limits))) {
    return;  // later uses of resources are unknown
  }
  CheckShares(plan, limits, whole_waits, left);
  if (violation_.empty()) CheckHead(plan, left, limits, scheduler);
}

// Returns true if a chunk may have found no room in earlier plans: an aligned one, or a prompt computed whole.
bool Shadow::MayComputePromptsFirst(const StepLimits& limits) const {
  return limits.chunk_align.value > 1 || std::ranges::any_of(unreleased_, [this](RequestId id) {
           const Life& life = Of(id);
           return (life.is == Is::kWaiting || life.is == Is::kRunning) && !life.state.request.chunkable;
         });
}

// Returns true for a prompt that must be computed whole. Such a prompt comes before other prompts.
bool Shadow::IsWhole(const PlanEntry& entry) const {
  const Request& r = Of(entry.request).state.request;
  return !r.chunkable && entry.position < r.prompt_tokens.value;
}

// Returns true for a started prompt that does not end in this step. Other prompts may have taken some of its tokens.
bool Shadow::IsLong(const PlanEntry& entry) const {
  const Life& life = Of(entry.request);
  return entry.prefill() && !entry.samples() && life.picked_in != last_step_ && !IsWhole(entry);
}

std::int32_t Shadow::ShortestOf(const StepPlan& plan, const StepLimits& limits) const {
  if (!Shares(limits)) return INT32_MAX;
  if (!plan.preempted.empty()) return 0;  // perhaps the shortest was preempted since
  std::int32_t shortest = INT32_MAX;
  for (const PlanEntry& entry : plan.run) {
    if (IsLong(entry)) shortest = std::min(shortest, Of(entry.request).expected - entry.position);
  }
  // A prompt that lacks memory had its part set aside.
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (stalled_ && life.is == Is::kRunning && !life.moving_in && life.prefilling && life.planned_in != last_step_)
      shortest = std::min(shortest, life.expected - life.scheduled);
  }
  return shortest;
}

// Started prompts come in the order of admission. A prompt that ends takes all the tokens that it lacks. Each other one
// of m started prompts gets 1/m of the tokens that decodes and whole prompts leave, or 1/(m + 1) if requests wait. It
// may instead get all that those before it leave. The first of the queue could have had its tokens beyond that share.
void Shadow::CheckShares(const StepPlan& plan, const StepLimits& limits, bool whole_waits, Left& left) {
  left.shortest = ShortestOf(plan, limits);
  const bool crowded = left.sequences < 0;
  if (!Shares(limits) || limits.chunk_align.value > 1 || whole_waits || crowded) return;
  const std::int32_t paced = std::min(limits.prefill_tokens.value, left.paced);
  std::int32_t prompts = 0, planned = 0, most = std::max(std::min(limits.tokens.value, paced), 0);
  std::int32_t tokens = std::max(limits.tokens.value, 0), prefill = std::min(tokens, paced);
  bool others_wait = false;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    others_wait |= life.is == Is::kWaiting || life.admitted_in == last_step_;
    prompts += life.is == Is::kRunning && life.planned_in != last_step_ && life.prefilling && !life.left_out;
  }
  if (!others_wait && fails_) return;  // perhaps a request waited until it failed
  std::vector<const PlanEntry*> started;
  for (const PlanEntry& entry : plan.run) {
    if (Of(entry.request).picked_in == last_step_) continue;
    if (entry.prefill() && !IsWhole(entry)) {
      started.push_back(&entry), ++prompts, planned += IsLong(entry);
    } else {
      tokens -= entry.tokens, prefill -= entry.prefill() ? entry.tokens : 0;
    }
  }
  // The order within one plan's admissions is unknown: some are in its entries, others in its moves.
  std::ranges::sort(started, {}, [this](const PlanEntry* entry) {
    return std::tuple(Of(entry->request).admitted_in, IsLong(*entry), -entry->tokens);
  });
  std::int32_t rest = std::max(std::min(tokens, prefill), 0);
  const std::int32_t parts = prompts + (others_wait ? 1 : 0), share = parts > 1 ? rest / parts : rest;
  most = std::max(most / (planned + 1), 1);
  for (const PlanEntry* entry : started) {
    const std::int32_t least = std::min(share, rest);
    rest -= IsLong(*entry) ? least : std::min(entry->tokens, rest);
    if (!IsLong(*entry)) continue;
    FIRE_CHECK(entry->tokens >= least, "request {} has {} tokens of its share of {}", entry->request.value,
               entry->tokens, least);
    const std::int32_t more = std::max(entry->tokens - most, 0);
    left.tokens += more, left.prefill += more, left.perhaps += std::max(entry->tokens - least - more, 0);
  }
}

// Drafts come last. If tokens are short, rows get equal parts. The remainder goes first to the rows that have waited
// longest for their turn.
void Shadow::CheckDrafts(const StepPlan& plan, const Left& left, bool sure) {
  const auto wanted = [this](const PlanEntry& entry) {
    const Life& life = Of(entry.request);
    const std::int32_t cap = life.state.request.max_output_tokens.value;
    if (entry.prefill() || life.row_sequences > 1) return 0;
    return cap > 0 ? std::min(life.offered, life.base + cap - (life.expected - entry.speculative)) : life.offered;
  };
  const auto lacks_room = [this](const PlanEntry& entry) {
    const Life& life = Of(entry.request);
    return BlocksOf(life, life.scheduled + 1) > BlocksOf(life, life.tokens_held);
  };
  std::int32_t part = INT32_MAX;  // of each row
  bool any = false;
  for (const PlanEntry& entry : plan.run) {
    const std::int32_t want = wanted(entry);
    if (entry.speculative >= want) continue;
    any = true;
    if (lacks_room(entry)) {
      sure = false;
      continue;
    }
    part = std::min(part, std::int32_t{entry.speculative});
    FIRE_CHECK(!sure || left.tokens == 0, "request {} verifies {} drafts of {}, and {} tokens are left",
               entry.request.value, entry.speculative, want, left.tokens);
  }
  if (!any && sure) return;
  // A row that an oracle refused has no entry. Such a row may have had its turn.
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (!sure && life.is == Is::kRunning && life.planned_in != last_step_ && life.drafts > 0) life.turn_to = last_step_;
  }
  for (const PlanEntry& entry : plan.run) {
    if (!sure || wanted(entry) < 1) continue;
    FIRE_CHECK(entry.speculative <= part + 1, "request {} verifies {} drafts, and others {}", entry.request.value,
               entry.speculative, part);
    if (entry.speculative <= part) continue;
    for (const PlanEntry& other : plan.run) {
      if (other.speculative != part || wanted(other) <= part) continue;
      FIRE_CHECK(Of(entry.request).turn_from <= Of(other.request).turn_to,
                 "request {} verifies a draft more than {}, whose turn it is", entry.request.value,
                 other.request.value);
    }
  }
  for (const PlanEntry& entry : plan.run) {
    Life& life = Of(entry.request);
    const std::int32_t want = wanted(entry);
    const bool served = entry.speculative == want || entry.speculative > part;
    if (want < 1 || (sure && !served)) continue;
    life.turn_to = last_step_;
    if (sure) life.turn_from = last_step_;
  }
}

// Each running row has an entry, or there is a reason.
void Shadow::CheckRows(const StepPlan& plan, const Left& left, const StepLimits& limits) {
  std::int64_t running = 0, planned = 0;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is == Is::kRunning) running += life.row_sequences;
    if (life.planned_in == last_step_ && life.is == Is::kRunning) planned += life.row_sequences;
  }
  const bool crowded = running > limits.max_seqs;
  const bool capped_prefill = left.prefill <= 0;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kRunning || life.moving_in || life.planned_in == last_step_ || life.left_out) continue;
    if (life.row_sequences != life.state.request.sequences) continue;  // steps in flight still count the others
    if (life.expected <= life.scheduled) continue;
    if (crowded && life.row_sequences > limits.max_seqs - planned) continue;
    const Tokens cap = life.state.request.max_output_tokens;
    if (!life.prefilling && cap.value > 0 && life.expected >= life.base + life.row_sequences * cap.value) continue;
    if (life.prefilling && capped_prefill) continue;
    FIRE_CHECK(!CouldRun(life, left, limits), "request {} could run on, with {} tokens left", id.value, left.tokens);
  }
  for (const PlanEntry& entry : plan.run) {
    if (entry.prefill() && !entry.samples()) {
      const std::int32_t more =
          std::min(entry.tokens + std::max(std::min(left.tokens, left.prefill), 0), limits.chunk_tokens.value);
      const bool full = Aligned(entry.position, more, INT32_MAX, limits) <= entry.tokens;
      FIRE_CHECK(left.tokens == 0 || left.prefill <= 0 || (!IsWhole(entry) && full),
                 "request {} computes {} tokens, and {} are left", entry.request.value, entry.tokens, left.tokens);
    }
  }
}

// The first of the queue is admitted, or there is a reason. A request that cannot run for a reason of its own is passed
// over, within the window.
void Shadow::CheckHead(const StepPlan& plan, const Left& left, const StepLimits& limits, const Scheduler& scheduler) {
  const Life* head = nullptr;
  auto admitted = static_cast<std::int64_t>(plan.failed.size());  // or failed: perhaps those were considered
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is == Is::kWaiting && (head == nullptr || Before(life, *head))) head = &life;
    admitted += life.picked_in == last_step_ || (life.moving_in && life.is == Is::kRunning);
  }
  if (head == nullptr || setup_.agents || (!known_order_ && !head->promoted())) return;
  // If nothing else can run, any request that fits may run.
  if (plan.run.size() == 1 && plan.run[0].admitted()) return;
  const bool unclear = std::ranges::any_of(unreleased_, [&](RequestId id) {
    const Life& life = Of(id);
    return &life != head && life.is == Is::kWaiting && !Before(*head, life);
  });
  if (unclear) return;
  // An oracle is asked about all at once, so more requests are considered.
  std::int64_t window = setup_.options.admission_window;
  if (host_kv_ != nullptr) {
    window += std::max<std::int64_t>(left.sequences, 0);
    if (admitted + 1 > window) return;
  }
  Bar bar = BarOf(*head, left, limits);
  // Perhaps it waited for memory or budget until another request took the last adapter or made the policy decline it.
  // That request passed it or continued with its own KV.
  const auto barred_since = [&](Life from, Bar by) {
    if (by != Bar::kAdapter && by != Bar::kDeclined) return false;
    if (std::exchange(from.declined, false)) {
      const Bar but_for_policy = BarOf(from, left, limits);
      if (but_for_policy == Bar::kNone || PassedOver(but_for_policy)) return false;
    }
    return std::ranges::any_of(unreleased_, [&](RequestId id) {
      const Life& life = Of(id);
      return life.admitted_in == last_step_ && life.is == Is::kRunning &&
             (by == Bar::kDeclined || life.state.request.adapter) && (life.went_on || Before(from, life));
    });
  };
  if (barred_since(*head, bar)) return;
  const bool passes = PassedOver(bar);
  bool overtaken = false;  // perhaps so often that no other request gets an adapter first
  if (passes) {
    scratch_.clear();
    for (RequestId id : unreleased_) {
      if (const Life& life = Of(id); life.is == Is::kWaiting) scratch_.push_back(&life);
    }
    std::ranges::sort(scratch_, [this](const Life* a, const Life* b) { return Before(*a, *b); });
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      const Life* const next = scratch_[i];
      if (!known_order_ && !next->promoted()) return;
      if (i + 1 < scratch_.size() && !Before(*next, *scratch_[i + 1])) return;
      if (++admitted > window) return;
      head = next;
      bar = BarOf(*head, left, limits);
      if (barred_since(*head, bar)) return;
      if (overtaken && head->state.request.adapter && limits.adapters > 0) {
        if (!PassedOver(bar) && bar != Bar::kNone) return;  // perhaps all others wait behind this one
        bar = Bar::kAdapter;
      }
      // Perhaps the policy declines this request only since others were admitted. Before, it waited for its adapter.
      overtaken |= bar == Bar::kAdapter || (bar == Bar::kDeclined && LacksAdapter(*head, left, limits));
      if (!PassedOver(bar)) break;
    }
  }
  if (bar == Bar::kNone) {
    const RequestId id = head->state.request.id;
    const Explanation e = scheduler.Explain(id);
    return Violate(fmt::format("request {} is the first that could run, and waits for {} behind {}", id.value,
                               static_cast<int>(e.waits_for), e.ahead));
  }
  if (PassedOver(bar) || host_kv_ != nullptr) return;
  if (bar == Bar::kRows) {
    // Perhaps it waited for budget or memory until the requests that passed it took the last rows.
    Left before = left;
    for (RequestId id : unreleased_) {
      const Life& life = Of(id);
      if (life.is != Is::kRunning || life.admitted_in != last_step_ || !Before(*head, life)) continue;
      ++before.rows, before.sequences += life.row_sequences, before.blocks += life.most_blocks;
      const std::int32_t tokens = life.picked_in == last_step_ ? life.scheduled - life.computed : 0;
      before.tokens += tokens, before.prefill += tokens;
    }
    if (BarOf(*head, before, limits) != Bar::kRows) return;
  }
  // If nothing runs, any request that fits is admitted at the end of the plan. The first's reason until then counts. If
  // that reason was the step's budget, no row is preempted for it, although it lacks a row or memory now.
  if (plan.run.empty()) {
    Left before = left;
    for (const KvMove& move : plan.moves) {
      if (move.action == KvAction::kOut) continue;
      const Life& moved = Of(move.request);
      ++before.rows, before.sequences += moved.row_sequences, before.blocks += moved.most_blocks;
      before.swap_in += move.count.value, before.swapped_in = false;
    }
    const Bar then = BarOf(*head, before, limits);
    if (then != Bar::kNone && then != Bar::kRows && then != Bar::kMemory) return;
  }
  if (bar == Bar::kMemory && !passes) CheckKept(left, limits);
  if (violation_.empty() && !fails_) CheckDisplaces(*head, bar, left, limits);
}

// The first waits for memory. Requests with KV continue, since nobody else gets their KV before they end.
void Shadow::CheckKept(const Left& left, const StepLimits& limits) {
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kWaiting || life.in_transit() || !life.sure || life.tokens_held == 0 || life.copied) continue;
    FIRE_CHECK(BarOf(life, left, limits) != Bar::kNone, "request {} could go on with the KV that it holds", id.value);
  }
}

// With preemption by rank, the first displaces the worst running request if it ranks better by more than the margin.
void Shadow::CheckDisplaces(const Life& head, Bar bar, const Left& left, const StepLimits& limits) {
  const SchedulerOptions& o = setup_.options;
  if (o.preempt != PreemptMode::kByRank || !known_order_ || o.reserve_output > 0) return;
  if (bar != Bar::kRows && bar != Bar::kMemory) return;
  const Request& r = head.state.request;
  if (LacksAdapter(head, left, limits)) return;
  if (Counts() && bar == Bar::kMemory && Pending()) return;
  const auto outranked = [&](Life life) {
    // a request runs one step before it is displaced
    if (life.steps == 0 || (life.steps == 1 && life.planned_in == last_step_)) return false;
    life.state.generated = {life.generated};
    life.state.has_run |= life.generated > 0;
    return head.promoted() ||
           (KeyOf(head).key + o.preempt_margin < KeyOf(life).key && head.group_key <= GroupKeyOf(life));
  };
  scratch_.clear();
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kRunning) continue;
    if (life.went_on && life.picked_in == last_step_) return;  // it was admitted later
    if (life.quantum > 0) return;
    if (!life.moving_in && life.state.request.preemptible) scratch_.push_back(&life);
  }
  std::ranges::sort(scratch_, [this](const Life* a, const Life* b) { return VictimRankOf(*b) < VictimRankOf(*a); });
  if (scratch_.empty() || !outranked(*scratch_.front())) return;
  // The requests that it outranks, from the worst on, must together hold enough.
  std::int64_t blocks = left.blocks;
  for (const Life* life : scratch_) {
    if (!outranked(*life)) break;
    blocks += BlocksWithoutDrafts(*life);
  }
  const auto watermark = static_cast<std::int32_t>(o.kv_watermark * o.kv_blocks.value);
  if (Counts() && blocks < std::max(BlocksOf(head, head.known), head.cpu_blocks) + watermark) return;
  Violate(fmt::format("request {} could displace {}, and waits", r.id.value, scratch_.front()->state.request.id.value));
}

}  // namespace takt::fire
