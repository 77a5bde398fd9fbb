// How a scheduler behaves, whatever its policy.
#ifndef TAKT_SCHEDULER_OPTIONS_H_
#define TAKT_SCHEDULER_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "takt/base/count.h"
#include "takt/base/faults.h"
#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/spec.h"
#include "takt/model/step.h"

namespace takt {

enum class KvMode : std::uint8_t {
  kNone,    // the host sees to memory by itself; nothing is accounted for
  kLedger,  // the library counts blocks
  kOracle,  // the host counts; a KvOracle answers
};
constexpr auto NamesOf(KvMode) { return std::to_array<std::string_view>({"none", "ledger", "oracle"}); }

enum class StepOrder : std::uint8_t {
  kRunningFirst,  // decodes take the budget first, then started prefills, and admissions what is left
  kPrefillFirst,  // started prefills and admissions first, decodes what is left
};
constexpr auto NamesOf(StepOrder) { return std::to_array<std::string_view>({"running_first", "prefill_first"}); }

enum class PreemptMode : std::uint8_t {
  kOff,       // a running request keeps its place; a row that cannot grow waits for KV
  kOnMemory,  // the worst by rank gives way when a row cannot grow
  kByRank,    // also to a waiting request that is better by more than the margin
};
constexpr auto NamesOf(PreemptMode) { return std::to_array<std::string_view>({"off", "on_memory", "by_rank"}); }

enum class Shed : std::uint8_t { kNewest, kWorst };
constexpr auto NamesOf(Shed) { return std::to_array<std::string_view>({"newest", "worst"}); }

struct SchedulerOptions {
  std::int32_t max_running = 1024;     // rows of running requests at most; StepLimits.max_seqs may ask for less
  // Bounded waiting: of the requests that have never run, so many may still wait after a plan; the others are shed.
  // Between two plans max_running more may wait, since so many might be let in by the next.
  std::int64_t max_waiting = INT64_MAX;
  // Requests that storage is made ready for at creation, with their rows and prefix blocks; up to here On allocates
  // nothing.
  std::int64_t reserve_requests = 1024;
  Shed shed = Shed::kNewest;           // which: the last to arrive, or the worst by rank

  StepOrder order = StepOrder::kRunningFirst;
  PreemptMode preempt = PreemptMode::kOnMemory;
  KvAction preempt_action = KvAction::kDrop;  // kDrop: recompute; kOut: swap while the host's memory has room
  double preempt_margin = 0;           // kByRank: a waiting key must be smaller than the victim's by more than this

  KvMode kv = KvMode::kLedger;
  Tokens kv_block_tokens{16};          // vLLM's default block
  Blocks kv_blocks{0};                 // kLedger: size of the cache
  Blocks cpu_blocks{0};                // host memory for swapped KV, and for prefixes; 0: no swapping
  double kv_watermark = 0.01;  // kLedger: share of the cache that admissions leave free for growth (vLLM's figure)
  bool prefix_cache = false;  // kLedger: keep finished prefixes, least recently used out first
  // Of cpu_blocks, so many may keep copies of finished prefixes, as long as nothing that is swapped out needs them: a
  // second tier of the prefix cache, from which what has left the GPU is loaded. 0: there is none.
  Blocks prefix_cpu_blocks{0};

  // kLedger with prefix_cache: share of the cache that one tenant's workflows may have pinned at once (TurnEnded::pin);
  // all together may have half of it. More is refused, and held as if it were not pinned.
  double pin_share = 0.1;

  // Maximum requests that may pass a waiting one, over its whole wait: those that use an adapter, if it waits for its
  // own; any, if it has never run and lacks memory or room in a step. Also the waiting requests that a plan looks at
  // past one that has no place; requests that need a larger step do not count. Also the plans after which the first of
  // the queue may take blocks of the watermark.
  std::int32_t admission_window = 16;

  // kLedger with prefix_cache: maximum steps in a row, without progress, that a request waits for a running request to
  // compute a prefix that both have; it then computes the prefix itself. It waits only if it has never run, and if that
  // prefix is at least an eighth of what it must compute. 0: it never waits.
  std::int32_t prefix_wait = 64;

  // Number of the first plan. A host whose results may come later than the end of their scheduler goes on counting with
  // the next one: what was meant for the first is then unknown to the second.
  StepId first_step{1};

  // Keys the hashes of ids, prefixes, tenants and workflows. A host that faces strangers draws it at random: one that
  // knows it can choose names that collide. No plan depends on it.
  std::uint64_t hash_seed = 0;

  // The largest step that the host will ever allow: a request that needs more can never fit, and fails. 0: not known;
  // then it waits for a step that is large enough.
  Tokens max_step_tokens{0};  // of StepLimits.tokens, or of prefill_tokens where those are fewer
  std::int32_t max_step_seqs = 0;  // of StepLimits.max_seqs

  // InvalidArgument names every field at fault, with its value, one a line.
  absl::Status Validate() const;

  // All fields in their order, which is that of a log.
  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    constexpr auto drop = static_cast<double>(KvAction::kDrop), out = static_cast<double>(KvAction::kOut);
    return list(
        Option("max_running", self.max_running, {.least = 1, .most = 1 << 20}), Option("max_waiting", self.max_waiting),
        Option("reserve_requests", self.reserve_requests, {.most = 1 << 28}), Option("shed", self.shed),
        Option("order", self.order), Option("preempt", self.preempt),
        Option("preempt_action", self.preempt_action, {.least = drop, .most = out}),
        Option("preempt_margin", self.preempt_margin), Option("kv", self.kv),
        Option("kv_block_tokens", self.kv_block_tokens, {.least = 1, .most = 1 << 20}),
        Option("kv_blocks", self.kv_blocks, {.meaning = "where the library counts KV", .least = 1}),
        Option("cpu_blocks", self.cpu_blocks),
        Option("kv_watermark", self.kv_watermark, {.most = 1, .below_most = true}),
        Option("prefix_cache", self.prefix_cache), Option("admission_window", self.admission_window, {.least = 1}),
        Option("first_step", self.first_step, {.least = 1, .most = 0x1p63}), Option("hash_seed", self.hash_seed),
        Option("max_step_tokens", self.max_step_tokens), Option("max_step_seqs", self.max_step_seqs),
        Option("pin_share", self.pin_share, {.most = 1}), Option("prefix_cpu_blocks", self.prefix_cpu_blocks),
        Option("prefix_wait", self.prefix_wait));
  }
};

inline absl::Status SchedulerOptions::Validate() const {
  Faults faults;
  VisitOptions(*this, [&](std::string_view name, const auto& value, const OptionText& text) {
    const bool of_the_ledger = name.starts_with("kv_");
    if (kv == KvMode::kLedger || !of_the_ledger) faults.ExpectOption(name, value, text);
  });
  faults.Expect(preempt_action != KvAction::kOut || cpu_blocks.value > 0 || kv == KvMode::kNone,
                "preempt_action is out: needs cpu_blocks, the host's memory for it, of at least 1");
  faults.Expect(prefix_cpu_blocks <= cpu_blocks, "prefix_cpu_blocks", prefix_cpu_blocks.value,
                "must be at most cpu_blocks, of which they are a part");
  return faults.ToStatus();
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_OPTIONS_H_
