// Options of a scheduler, independent of its policy.
#ifndef TAKT_SCHEDULER_OPTIONS_H_
#define TAKT_SCHEDULER_OPTIONS_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/count.h"
#include "takt/base/faults.h"
#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/spec.h"
#include "takt/model/class_limits.h"
#include "takt/model/step.h"

namespace takt {

enum class KvMode : std::uint8_t {
  kNone,  // the host manages KV memory; takt counts no blocks
  kLedger,  // takt counts KV blocks
  kOracle,  // the host counts KV blocks and answers takt's questions through a KvOracle
};
constexpr auto NamesOf(KvMode) { return std::to_array<std::string_view>({"none", "ledger", "oracle"}); }

enum class StepOrder : std::uint8_t {
  kRunningFirst,  // decodes first, then started prefills, then admissions
  kPrefillFirst,  // started prefills and admissions first, then decodes
};
constexpr auto NamesOf(StepOrder) { return std::to_array<std::string_view>({"running_first", "prefill_first"}); }

enum class PreemptMode : std::uint8_t {
  kOff,  // no preemption: a running request that lacks KV waits
  kOnMemory,  // if a running request lacks KV, the running request of worst rank is preempted
  kByRank,  // as kOnMemory; a waiting request also preempts a running one whose key is worse by more than the margin
};
constexpr auto NamesOf(PreemptMode) { return std::to_array<std::string_view>({"off", "on_memory", "by_rank"}); }

enum class Shed : std::uint8_t { kNewest, kWorst };
constexpr auto NamesOf(Shed) { return std::to_array<std::string_view>({"newest", "worst"}); }

enum class VictimChoice : std::uint8_t {
  kRank,  // the request of worst rank is preempted first
  kLeastLost,  // the request with the fewest computed tokens is preempted first, so that least is recomputed
};
constexpr auto NamesOf(VictimChoice) { return std::to_array<std::string_view>({"rank", "least_lost"}); }

struct SchedulerOptions {
  std::int32_t max_running = 1024;  // maximum running requests; StepLimits.max_seqs may be lower
  // Maximum waiting requests that have never run; further ones are shed after each plan. Between two plans, up to
  // max_running further requests may wait, because the next plan may admit them.
  std::int64_t max_waiting = INT64_MAX;
  // Number of requests for which Create reserves memory, with their rows and prefix blocks. Up to this number, On does
  // not allocate.
  std::int64_t reserve_requests = 1024;
  Shed shed = Shed::kNewest;  // order of shedding: newest first, or worst rank first

  StepOrder order = StepOrder::kRunningFirst;
  PreemptMode preempt = PreemptMode::kOnMemory;
  KvAction preempt_action = KvAction::kDrop;  // kDrop: recompute the victim; kOut: swap it while host memory has room
  double preempt_margin = 0;  // kByRank: minimum difference between the keys of victim and waiting request

  KvMode kv = KvMode::kLedger;
  Tokens kv_block_tokens{16};  // tokens per KV block; default: that of vLLM
  Blocks kv_blocks{0};  // kLedger: size of the KV cache in blocks
  Blocks cpu_blocks{0};  // blocks in host memory for swapped KV and prefix copies; 0: no swapping
  double kv_watermark = 0.01;  // kLedger: share of the cache that admissions leave free; default: that of vLLM
  bool prefix_cache = false;  // kLedger: true: finished prefixes stay cached; the least recently used are evicted first
  // Maximum part of cpu_blocks for copies of finished prefixes, a second tier of the prefix cache. Swapped KV has
  // priority. 0: none.
  Blocks prefix_cpu_blocks{0};

  // kLedger with prefix_cache: maximum share of the cache that one tenant's workflows can pin (TurnEnded::pin). All
  // tenants together can pin half. Pins beyond these limits are refused.
  double pin_share = 0.1;

  // This number sets three limits. (1) Maximum requests that may pass a request that has never run and lacks memory or
  // room. The same limit holds for requests with adapters that pass a request that waits for its adapter. It also holds
  // for requests that pass the first one of their class, or of an earlier class, that a ceiling keeps out. (2) Maximum
  // waiting requests that a plan considers after a request that does not fit. Requests that need a larger step do not
  // count. (3) Number of plans after which the first waiting request may use the watermark's blocks.
  std::int32_t admission_window = 16;

  // kLedger with prefix_cache: maximum steps for which a request waits for the next chunk of a prefix that a running
  // request computes. Only a request that has never run waits, and only if the prefix is at least 1/8 of its remaining
  // prefill. 0: never waits.
  std::int32_t prefix_wait = 64;

  // Number of the first plan. If a host restarts its scheduler, it should continue with the next number. The scheduler
  // can then recognize late results of the old scheduler.
  StepId first_step{1};

  // Seed of the hashes of ids, prefixes, tenants and workflows. Choose it at random if clients are not trusted, so that
  // they cannot cause collisions. Plans do not depend on it.
  std::uint64_t hash_seed = 0;

  // Largest step that the host will ever allow. A request that needs a larger one fails. 0: unknown, so the request
  // waits.
  Tokens max_step_tokens{0};  // limit of StepLimits.tokens or prefill_tokens, whichever is smaller
  std::int32_t max_step_seqs = 0;  // largest StepLimits.max_seqs that the host will ever set; 0: unknown

  // Maximum prompt tokens of the waiting requests that have never run; further requests are shed after each plan. One
  // request may wait alone, however long it is.
  std::int64_t max_waiting_tokens = INT64_MAX;
  // Maximum waiting requests of each tenant that have never run. Further requests fail with kQuota: the last to join
  // first.
  std::int64_t tenant_max_waiting = INT64_MAX;
  std::int64_t tenant_max_waiting_tokens = INT64_MAX;  // maximum prompt tokens of these requests
  // Bounds, time limits and ceilings of classes, which are ranges of priorities. A request cannot extend the time limit
  // of its class, which counts from Request::arrival; `expires_at` can only shorten it.
  ClassLimitsList class_limits = {};
  // Time limits of one wait [s]; a request that waits longer fails with kExpired. 0: unlimited.
  double max_resume_wait = 0;  // wait for a row of a request that has run, for example after a preemption
  double max_blocked = 0;  // time from Blocked to Unblocked
  double max_paused = 0;  // time from ToolCalled to ToolReturned

  // kLedger: admissions to a running batch leave KV for the largest need until all running requests end. Each is
  // expected to end at this quantile of Request::output_tokens, and at most at max_output_tokens. 0: no reserve. 1:
  // each ends at max_output_tokens. If the estimate is unknown: this share of max_output_tokens.
  double reserve_output = 0;
  VictimChoice victims = VictimChoice::kRank;  // order of preemption for memory; kLeastLost: not with kByRank
  // true: a waiting request that has run comes before waiting requests with an equal key; false: ties by arrival
  bool begun_first = false;
  // Target time between two tokens of a running request, for requests without Request::token_pace [s]. Each step then
  // computes only as many prompt tokens as keep the smallest target of the running requests. The speed of the engine is
  // learned from the times of plans and results, so the host must report them as they occur. A prompt that must
  // be computed whole ignores it in a step without other prompts. 0: no target.
  double token_pace = 0;
  // Minimum prompt tokens that a step computes if prompts need them, even if that breaks the pace. So prompts never
  // stop.
  Tokens least_prefill{64};
  // kLedger: share of the KV cache that the running requests of a tenant may hold at an admission. A tenant that does
  // not run may exceed it by one request. A block that requests share counts for each. 1: no limit.
  double tenant_kv_share = 1;

  // InvalidArgument lists all invalid fields with their values, one per line.
  absl::Status Validate() const;
  // Validates the options of SetOptions. They may differ from these options in the fields of kMayChange only.
  absl::Status ValidateChange(const SchedulerOptions& to) const;

  // Options that may change while the scheduler has requests.
  static constexpr auto kMayChange = std::to_array<std::string_view>(
      {"max_waiting", "max_waiting_tokens", "tenant_max_waiting", "tenant_max_waiting_tokens", "class_limits",
       "max_resume_wait", "max_blocked", "max_paused", "kv_watermark", "reserve_output", "prefix_wait",
       "preempt_margin", "token_pace", "least_prefill", "tenant_kv_share"});

  // All fields, in the order of the log.
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
        Option("prefix_wait", self.prefix_wait), Option("max_waiting_tokens", self.max_waiting_tokens),
        Option("tenant_max_waiting", self.tenant_max_waiting),
        Option("tenant_max_waiting_tokens", self.tenant_max_waiting_tokens), Option("class_limits", self.class_limits),
        Option("max_resume_wait", self.max_resume_wait), Option("max_blocked", self.max_blocked),
        Option("max_paused", self.max_paused), Option("reserve_output", self.reserve_output, {.most = 1}),
        Option("victims", self.victims), Option("begun_first", self.begun_first),
        Option("token_pace", self.token_pace, {.most = 1e6}), Option("least_prefill", self.least_prefill, {.least = 1}),
        Option("tenant_kv_share", self.tenant_kv_share, {.most = 1}));
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
  faults.Expect(reserve_output == 0 || preempt != PreemptMode::kByRank, "reserve_output", reserve_output,
                "must be 0 if preempt is by_rank: a preemption does not shrink the reserve");
  faults.Expect(victims != VictimChoice::kLeastLost || preempt != PreemptMode::kByRank,
                "victims is least_lost: is unsupported with preempt by_rank; expected rank");
  faults.Expect(prefix_cpu_blocks <= cpu_blocks, "prefix_cpu_blocks", prefix_cpu_blocks.value,
                "must be at most cpu_blocks, of which they are a part");
  return faults.ToStatus();
}

inline absl::Status SchedulerOptions::ValidateChange(const SchedulerOptions& to) const {
  if (absl::Status status = to.Validate(); !status.ok()) return status;
  Faults faults;
  faults.ExpectChange(*this, to);
  return faults.ToStatus();
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_OPTIONS_H_
