// How a scheduler behaves, whatever its policy.
#ifndef TAKT_SCHEDULER_OPTIONS_H_
#define TAKT_SCHEDULER_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "takt/base/faults.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/model/step.h"

namespace takt {

enum class KvMode : std::uint8_t {
  kNone,    // the host sees to memory by itself; nothing is accounted for
  kLedger,  // the library counts blocks
  kOracle,  // the host counts; a KvOracle answers
};

enum class StepOrder : std::uint8_t {
  kRunningFirst,  // decodes and started prefills take the budget first, admissions what is left
  kPrefillFirst,  // started prefills and admissions first, decodes what is left
};

enum class PreemptMode : std::uint8_t {
  kOff,       // who runs keeps its place; a row that cannot grow waits for KV
  kOnMemory,  // the worst by rank gives way when a row cannot grow
  kByRank,    // also to a waiting request that is better by more than the margin
};

enum class Shed : std::uint8_t { kNewest, kWorst };

struct SchedulerOptions {
  std::int32_t max_running = 1024;     // rows reserved for running requests; StepLimits.max_seqs may ask for less
  // Bounded waiting: of the requests that have never run, so many may still wait after a plan; the others are shed.
  // Between two plans max_running more may wait, since so many might be let in by the next.
  std::int64_t max_waiting = INT64_MAX;
  std::int64_t reserve_requests = 1024;  // storage made ready at creation; up to here On allocates nothing
  Shed shed = Shed::kNewest;           // whom: the last to arrive, or the worst by rank

  StepOrder order = StepOrder::kRunningFirst;
  PreemptMode preempt = PreemptMode::kOnMemory;
  KvAction preempt_action = KvAction::kDrop;  // kDrop: recompute; kOut: swap while the host's memory has room
  double preempt_margin = 0;           // kByRank: a waiting key must be smaller than the victim's by more than this

  KvMode kv = KvMode::kLedger;
  Tokens kv_block_tokens{16};          // vLLM's default block
  Blocks kv_blocks{0};                 // kLedger: size of the cache
  Blocks cpu_blocks{0};                // host memory for swapped KV; 0: no swapping
  double kv_watermark = 0.01;  // kLedger: share of the cache that admissions leave free for growth (vLLM's figure)
  bool prefix_cache = false;  // kLedger: keep finished prefixes, least recently used out first

  // Waiting requests looked at past one whose adapter has no place; and how many that use an adapter may overtake one
  // that waits for its own, in all. Those that need a larger step do not count.
  std::int32_t admission_window = 16;

  // Number of the first plan. A host whose results may come later than the end of their scheduler goes on counting with
  // the next one: what was meant for the first is then unknown to the second.
  StepId first_step{1};

  // Keys the hashes of ids, prefixes, tenants and workflows. A host that faces strangers draws it at random: who knows
  // it can choose names that collide. No plan depends on it.
  std::uint64_t hash_seed = 0;

  // The largest step that the host will ever allow: a request that needs more can never fit, and fails. 0: not known;
  // then it waits for a step that is large enough.
  Tokens max_step_tokens{0};  // of StepLimits.tokens, or of prefill_tokens where those are fewer
  std::int32_t max_step_seqs = 0;  // of StepLimits.max_seqs

  // InvalidArgument names every field at fault, with its value, one a line.
  absl::Status Validate() const;
};

inline absl::Status SchedulerOptions::Validate() const {
  Faults faults;
  faults.Expect(max_running >= 1 && max_running <= 1 << 20, "max_running", max_running, "must be 1 to 1048576");
  faults.Expect(max_waiting >= 0, "max_waiting", max_waiting, "must not be negative");
  faults.Expect(reserve_requests >= 0 && reserve_requests <= 1 << 28, "reserve_requests", reserve_requests,
                "must be 0 to 268435456");
  faults.Expect(preempt_action == KvAction::kDrop || preempt_action == KvAction::kOut, "preempt_action",
                Name(preempt_action), "must be drop or out");
  faults.Expect(preempt_margin >= 0, "preempt_margin", preempt_margin, "must not be negative");
  faults.Expect(admission_window >= 1, "admission_window", admission_window, "must be at least 1");
  faults.Expect(first_step.value >= 1 && first_step.value <= std::uint64_t{1} << 63, "first_step", first_step.value,
                "must be 1 to 2^63");
  faults.Expect(max_step_tokens.value >= 0, "max_step_tokens", max_step_tokens.value, "must not be negative");
  faults.Expect(max_step_seqs >= 0, "max_step_seqs", max_step_seqs, "must not be negative");
  faults.Expect(cpu_blocks.value >= 0, "cpu_blocks", cpu_blocks.value, "must not be negative");
  if (kv == KvMode::kLedger) {
    faults.Expect(kv_blocks.value >= 1, "kv_blocks", kv_blocks.value, "must be at least 1 where the library counts KV");
    faults.Expect(kv_block_tokens.value >= 1 && kv_block_tokens.value <= 1 << 20, "kv_block_tokens",
                  kv_block_tokens.value, "must be 1 to 1048576");
    faults.Expect(kv_watermark >= 0 && kv_watermark < 1, "kv_watermark", kv_watermark, "must be in [0, 1)");
  }
  return faults.ToStatus();
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_OPTIONS_H_
