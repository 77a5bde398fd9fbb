#include "takt/scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "c/bounds.h"
#include "c/events.h"
#include "c/handle.h"
#include "c/inbox.h"
#include "c/memory.h"
#include "c/metrics.h"
#include "c/oracle.h"
#include "c/policy.h"
#include "c/stats.h"
#include "takt/base/spec.h"
#include "takt/turns/gates/registry.h"
#include "takt/model/prefill_pace.h"
#include "takt/pause/registry.h"
#include "takt/record.h"
#include "takt/turns/retention/registry.h"

// A scheduler, with a recorder if the host has a sink for the log.
struct takt_scheduler : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kScheduler;

  takt_scheduler() : Handle(kKind) {}
  void End() { scheduler.reset(), watching.metrics.reset(), recorder.reset(), oracle.reset(); }

  std::optional<takt::c::HostOracle> oracle;
  std::optional<takt::Recorder> recorder;
  takt::c::Watching watching;
  std::optional<takt::Recorded<takt::Scheduler>> scheduler;
};

namespace takt::c {

template <>
takt_kv_oracle Defaults<takt_kv_oracle>() {
  auto to = Zeroed<takt_kv_oracle>();
  to.block_tokens = SchedulerOptions{}.kv_block_tokens.value;
  return to;
}

template <>
takt_scheduler_options Defaults<takt_scheduler_options>() {
  const SchedulerOptions plain;
  auto to = Zeroed<takt_scheduler_options>();
  PutBounds(plain, to);
  to.max_running = plain.max_running;
  to.reserve_requests = plain.reserve_requests;
  to.shed = static_cast<std::uint32_t>(plain.shed), to.order = static_cast<std::uint32_t>(plain.order);
  to.preempt = static_cast<std::uint32_t>(plain.preempt);
  to.preempt_action = static_cast<std::uint32_t>(plain.preempt_action);
  to.preempt_margin = plain.preempt_margin;
  to.kv = static_cast<std::uint32_t>(plain.kv);
  to.kv_block_tokens = plain.kv_block_tokens.value;
  to.kv_blocks = plain.kv_blocks.value, to.cpu_blocks = plain.cpu_blocks.value;
  to.kv_watermark = plain.kv_watermark;
  to.prefix_cache = plain.prefix_cache ? 1 : 0;
  to.admission_window = plain.admission_window;
  to.first_step = plain.first_step.value, to.hash_seed = plain.hash_seed;
  to.max_step_tokens = plain.max_step_tokens.value, to.max_step_seqs = plain.max_step_seqs;
  to.prefix_cpu_blocks = plain.prefix_cpu_blocks.value;
  to.prefix_wait = plain.prefix_wait;
  to.token_pace = plain.token_pace, to.least_prefill = plain.least_prefill.value;
  to.tenant_kv_share = plain.tenant_kv_share;
  to.record_flush_bytes = RecorderOptions{}.flush_bytes;
  to.pin_share = plain.pin_share;
  return to;
}

namespace {

// Keeps a missing name missing.
template <class E>
E EnumOf(std::uint32_t value) {
  return static_cast<E>(std::min<std::uint32_t>(value, UINT8_MAX));
}

SchedulerOptions OptionsOf(const takt_scheduler_options& from) {
  SchedulerOptions to;
  to.max_running = from.max_running;
  to.reserve_requests = from.reserve_requests;
  to.shed = EnumOf<Shed>(from.shed), to.order = EnumOf<StepOrder>(from.order);
  to.preempt = EnumOf<PreemptMode>(from.preempt), to.preempt_action = EnumOf<KvAction>(from.preempt_action);
  to.preempt_margin = from.preempt_margin;
  to.kv = EnumOf<KvMode>(from.kv);
  to.kv_block_tokens = {from.kv_block_tokens};
  to.kv_blocks = {from.kv_blocks}, to.cpu_blocks = {from.cpu_blocks};
  to.kv_watermark = from.kv_watermark;
  to.prefix_cache = from.prefix_cache != 0;
  to.admission_window = from.admission_window;
  to.first_step = {from.first_step}, to.hash_seed = from.hash_seed;
  to.max_step_tokens = {from.max_step_tokens}, to.max_step_seqs = from.max_step_seqs;
  to.pin_share = from.pin_share;
  to.prefix_cpu_blocks = {from.prefix_cpu_blocks};
  to.prefix_wait = from.prefix_wait;
  to.max_resume_wait = from.max_resume_wait, to.max_blocked = from.max_blocked, to.max_paused = from.max_paused;
  to.reserve_output = from.reserve_output, to.victims = EnumOf<VictimChoice>(from.victims);
  to.begun_first = from.begun_first != 0;
  to.token_pace = from.token_pace, to.least_prefill = {from.least_prefill};
  to.tenant_kv_share = from.tenant_kv_share;
  return to;
}

takt_status Create(const takt_scheduler_options& from, takt_scheduler** to, takt_error* error) {
  if (from.reserved != 0 || from.reserved_pace != 0) return NotReserved(error);
  SchedulerOptions options = OptionsOf(from);
  if (const takt_status status = TakeBounds(from, options, error); status != TAKT_OK) return status;
  if (absl::Status status = options.Validate(); !status.ok()) return Invalid(error, "", status);
  AnyPolicy policy;
  if (const takt_status made = MakePolicy(from.policy, from.key, policy, error); made != TAKT_OK) return made;
  absl::StatusOr<AnyPause> pause = from.pause == nullptr ? AnyPause() : MakePause(from.pause);
  if (!pause.ok()) return Invalid(error, "pause: ", pause.status());
  auto handle = std::make_unique<takt_scheduler>();
  if (from.oracle != nullptr) {
    if (const takt_status status = Readable(from.oracle); status != TAKT_OK) {
      return Say(error, status, "oracle.struct_size: is invalid; expected a known size, and zeros in new fields");
    }
    takt_kv_oracle local;
    const takt_kv_oracle& oracle = Whole(from.oracle, local);
    if (oracle.snapshot == nullptr || oracle.reserve == nullptr || oracle.release == nullptr) {
      return Say(error, TAKT_E_NULL, "oracle: snapshot, reserve or release is NULL; expected three functions");
    }
    handle->oracle.emplace(oracle);
  }
  if (from.record != nullptr) {
    const auto sink = [write = from.record, context = from.record_context](std::string_view bytes) {
      write(context, bytes.data(), bytes.size());
    };
    handle->recorder.emplace(sink, RecorderOptions{from.record_plans != 0, from.record_flush_bytes});
  }
  auto scheduler =
      Recorded<Scheduler>::Create(handle->recorder ? &*handle->recorder : nullptr, options, std::move(policy),
                                  *std::move(pause), handle->oracle ? &*handle->oracle : nullptr);
  if (!scheduler.ok()) return Invalid(error, "", scheduler.status());
  handle->scheduler.emplace(*std::move(scheduler));
  *to = handle.release();
  return TAKT_OK;
}

void WritePlan(const StepPlan& plan, takt_plan* out) {
  takt_plan to;
  to.idle = static_cast<std::uint32_t>(plan.idle);
  to.id = plan.id.value;
  to.run = AsC<takt_plan_entry>(plan.run.data()), to.n_run = plan.run.size();
  to.moves = AsC<takt_move>(plan.moves.data()), to.n_moves = plan.moves.size();
  to.preempted = AsC<takt_preemption>(plan.preempted.data()), to.n_preempted = plan.preempted.size();
  to.failed = AsC<takt_failure>(plan.failed.data()), to.n_failed = plan.failed.size();
  to.released = AsC<std::uint64_t>(plan.released.data()), to.n_released = plan.released.size();
  to.wake_at = Ns(plan.wake_at);
  to.tokens = plan.tokens.value;
  to.reserved = 0;
  to.dropped = AsC<takt_dropped_prefix>(plan.dropped.data()), to.n_dropped = plan.dropped.size();
  to.hints = AsC<takt_cache_hint>(plan.hints.data()), to.n_hints = plan.hints.size();
  to.host_chunks = AsC<takt_host_chunk>(plan.host_chunks.data()), to.n_host_chunks = plan.host_chunks.size();
  Write(to, out);
}

static_assert(static_cast<int>(Idle::kGated) == TAKT_IDLE_GATED);
static_assert(static_cast<int>(PlanEntry::kGated) == TAKT_ENTRY_GATED);

takt_status MeantPace(const PrefillPace& pace, takt_error* error) {
  for (const auto& [field, value] : {std::pair("alpha_ms", pace.alpha_ms), std::pair("beta_ns", pace.beta_ns)}) {
    if (value >= 0 && std::isfinite(value)) continue;
    return Say(error, TAKT_E_INVALID,
               field + (" is " + OptionToText(value)) + "; expected a finite number of at least 0");
  }
  return TAKT_OK;
}

takt_status SetRetention(takt_scheduler& scheduler, const char* retention, const char* gate, const PrefillPace& pace,
                         takt_error* error) {
  if (const takt_status status = MeantPace(pace, error); status != TAKT_OK) return status;
  const PrefillPace* known = pace.alpha_ms > 0 || pace.beta_ns > 0 ? &pace : nullptr;
  absl::StatusOr<AnyRetention> holds = retention == nullptr ? AnyRetention() : MakeRetention(retention, known);
  if (!holds.ok()) return Invalid(error, "retention: ", holds.status());
  absl::StatusOr<AnyGate> lets_in = gate == nullptr ? AnyGate() : MakeGate(gate, known);
  if (!lets_in.ok()) return Invalid(error, "gate: ", lets_in.status());
  const absl::Status set = scheduler.scheduler->SetRetention(*holds, *lets_in);
  return set.ok() ? TAKT_OK : Invalid(error, "", set);
}

takt_status ReadableOrNull(const takt_limits* limits) { return limits == nullptr ? TAKT_OK : Readable(limits); }

StepLimits LimitsOf(const takt_limits* limits) {
  if (limits == nullptr) return {};
  takt_limits local;
  return Of(Whole(limits, local));
}

takt_status Sound(const takt_row_result* rows, std::size_t n, std::uint32_t flags) {
  return FirstOf(Given(rows, n), Meant((flags & ~std::uint32_t{TAKT_REST_AS_PLANNED}) == 0));
}

StepResult ResultOf(std::uint64_t step, const takt_row_result* rows, std::size_t n, std::uint32_t flags) {
  return {{step}, {FromC<RowResult>(rows), n}, (flags & TAKT_REST_AS_PLANNED) != 0};
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

void takt_kv_oracle_init(takt_kv_oracle* oracle, size_t size) noexcept { Init(oracle, size); }
void takt_scheduler_options_init(takt_scheduler_options* options, size_t size) noexcept { Init(options, size); }

takt_status takt_scheduler_create(const takt_scheduler_options* options, takt_scheduler** scheduler,
                                  takt_error* error) noexcept {
  if (scheduler == nullptr) return Say(error, TAKT_E_NULL, "scheduler is NULL");
  *scheduler = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_scheduler_options local;
  const takt_scheduler_options& whole = Whole(options, local);
  return UnlessMemoryEnds(error, [&] { return Create(whole, scheduler, error); });
}

takt_status takt_scheduler_destroy(takt_scheduler* scheduler) noexcept { return Destroy(scheduler); }

takt_status takt_scheduler_on(takt_scheduler* scheduler, const takt_event* events, size_t n, int64_t now) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) return status;
  if (const takt_status status = Sound<Event>(events, n); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  ForEach<Event>(events, n, [&](const Event& event) { scheduler->scheduler->On(event, At(now)); });
  return TAKT_OK;
}

takt_status takt_scheduler_take(takt_scheduler* scheduler, takt_inbox* inbox, int64_t now, size_t* n) noexcept {
  return TakeAll(scheduler, inbox, &takt_inbox::of_scheduler, n,
                 [&](const Event& event) { scheduler->scheduler->On(event, At(now)); });
}

takt_status takt_scheduler_plan(takt_scheduler* scheduler, int64_t now, const takt_limits* limits,
                                takt_plan* plan) noexcept {
  return takt_scheduler_step(scheduler, 0, nullptr, 0, 0, now, limits, plan, nullptr, 0);
}

takt_status takt_scheduler_commit(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows, size_t n,
                                  uint32_t flags, int64_t now) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Sound(rows, n, flags)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  scheduler->scheduler->Commit(ResultOf(step, rows, n, flags), At(now));
  return TAKT_OK;
}

takt_status takt_scheduler_step(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows, size_t n,
                                uint32_t flags, int64_t now, const takt_limits* limits, takt_plan* plan,
                                takt_plan_entry* run_out, size_t run_cap) noexcept {
  const takt_status status = FirstOf(Valid(scheduler), Sound(rows, n, flags), ReadableOrNull(limits), Writable(plan));
  if (status != TAKT_OK) return status;
  if (step == 0 && (n > 0 || flags != 0)) return TAKT_E_INVALID;
  const Busy busy(*scheduler);
  if (step != 0) scheduler->scheduler->Commit(ResultOf(step, rows, n, flags), At(now));
  const StepPlan& made = scheduler->scheduler->Plan(At(now), LimitsOf(limits));
  WritePlan(made, plan);
  if (run_out != nullptr && !made.run.empty()) {
    std::memcpy(run_out, made.run.data(), std::min(made.run.size(), run_cap) * sizeof *run_out);
  }
  return TAKT_OK;
}

takt_status takt_scheduler_set_policy(takt_scheduler* scheduler, const char* policy, const takt_key* key, int64_t now,
                                      takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  AnyPolicy made;
  const takt_status status =
      UnlessMemoryEnds(error, [&]() -> takt_status { return MakePolicy(policy, key, made, error); });
  if (status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  scheduler->scheduler->ChangePolicy(made, At(now));
  return TAKT_OK;
}

takt_status takt_scheduler_set_options(takt_scheduler* scheduler, const char* changes, int64_t now,
                                       takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*scheduler);
  return ChangeOptions(scheduler->scheduler->scheduler().options(), changes, error,
                       [&](const SchedulerOptions& to) { return scheduler->scheduler->SetOptions(to, At(now)); });
}

takt_status takt_scheduler_set_retention(takt_scheduler* scheduler, const char* retention, const char* gate,
                                         double alpha_ms, double beta_ns, takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*scheduler);
  return UnlessMemoryEnds(error, [&] { return SetRetention(*scheduler, retention, gate, {alpha_ms, beta_ns}, error); });
}

takt_status takt_scheduler_set_hints(takt_scheduler* scheduler, double alpha_ms, double beta_ns,
                                     takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*scheduler);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    const PrefillPace pace{alpha_ms, beta_ns};
    if (const takt_status status = MeantPace(pace, error); status != TAKT_OK) return status;
    if (!scheduler->oracle)
      return Say(error, TAKT_E_INVALID, "hints: are unsupported without an oracle; expected TAKT_KV_MODE_ORACLE as kv");
    HoldValue value;
    if (alpha_ms > 0 || beta_ns > 0) value.alpha_ms = alpha_ms, value.beta_ns = beta_ns;
    scheduler->scheduler->SetHints(value);
    return TAKT_OK;
  });
}

takt_status takt_scheduler_epoch(takt_scheduler* scheduler, const takt_epoch* epoch, int64_t now) noexcept {
  Epoch taken;
  if (const takt_status status = FirstOf(Valid(scheduler), Take(epoch, taken)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  scheduler->scheduler->On(taken, At(now));
  return TAKT_OK;
}

const char* takt_scheduler_policy(const takt_scheduler* scheduler) noexcept {
  if (Valid(scheduler) != TAKT_OK) return nullptr;
  return scheduler->scheduler->scheduler().policy().spec().c_str();
}

size_t takt_scheduler_learnt(const takt_scheduler* scheduler, uint64_t* numbers, size_t n) noexcept {
  return Valid(scheduler) == TAKT_OK ? ReadLearnt(scheduler->scheduler->scheduler().policy(), numbers, n) : 0;
}

takt_status takt_scheduler_load_learnt(takt_scheduler* scheduler, const uint64_t* numbers, size_t n, int64_t now,
                                       takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*scheduler);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    const Scheduler& s = scheduler->scheduler->scheduler();
    if (scheduler->recorder)
      return Say(error, TAKT_E_INVALID, "this call is unsupported while the scheduler records a log");
    if (s.alive() > 0) return Say(error, TAKT_E_INVALID, "the scheduler has requests; expected none");
    AnyPolicy policy = s.policy();
    if (const takt_status status = LoadLearnt(numbers, n, policy, error); status != TAKT_OK) return status;
    scheduler->scheduler->ChangePolicy(policy, At(now));
    return TAKT_OK;
  });
}

takt_status takt_scheduler_last_fault(const takt_scheduler* scheduler, takt_fault* fault) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(fault)); status != TAKT_OK) return status;
  const Scheduler& s = scheduler->scheduler->scheduler();
  takt_fault to = FaultOf(s.last_fault(), s.stats().faults());
  Write(to, fault);
  return TAKT_OK;
}

size_t takt_scheduler_stats(const takt_scheduler* scheduler, takt_stat* stats, size_t n) noexcept {
  return Valid(scheduler) == TAKT_OK ? WriteStats(kCounters, scheduler->scheduler->scheduler().stats(), stats, n) : 0;
}

takt_status takt_scheduler_count(const takt_scheduler* scheduler, takt_scheduler_counts* counts) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(counts)); status != TAKT_OK) return status;
  const Scheduler& s = scheduler->scheduler->scheduler();
  takt_scheduler_counts to{0, s.draining() ? 1u : 0u, s.alive(), s.waiting(), s.running(), s.paused(), s.blocked()};
  Write(to, counts);
  return TAKT_OK;
}

takt_status takt_scheduler_kv(const takt_scheduler* scheduler, takt_kv_use* use) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(use)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  const KvUse kv = scheduler->scheduler->scheduler().kv();
  takt_kv_use to{0,
                 kv.total.value,
                 kv.used.value,
                 kv.free.value,
                 kv.cached.value,
                 kv.pending.value,
                 kv.cpu_total.value,
                 kv.cpu_used.value,
                 kv.cpu_cached.value,
                 0};
  Write(to, use);
  return TAKT_OK;
}

takt_status takt_scheduler_explain(const takt_scheduler* scheduler, uint64_t request,
                                   takt_explanation* explanation) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(explanation)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  const Explanation why = scheduler->scheduler->scheduler().Explain({request});
  takt_explanation to{};
  to.status = static_cast<std::uint32_t>(why.status), to.waits_for = static_cast<std::uint32_t>(why.waits_for);
  to.promoted = why.promoted ? 1 : 0;
  to.key = why.key.key;
  to.ahead = why.ahead;
  to.known = why.known.value, to.computed = why.computed.value;
  to.in_flight = why.in_flight.value, to.generated = why.generated.value;
  to.kv_blocks = why.kv_blocks.value, to.cpu_blocks = why.cpu_blocks.value;
  to.passed = why.passed;
  static_assert(std::tuple_size_v<decltype(KeyParts::parts)> == std::size(to.parts));
  to.n_parts = static_cast<std::uint32_t>(why.key_parts.size);
  for (std::size_t i = 0; i < why.key_parts.size; ++i) {
    CopyText(why.key_parts.parts[i].name, to.parts[i].name, sizeof to.parts[i].name);
    to.parts[i].value = why.key_parts.parts[i].value;
  }
  Write(to, explanation);
  return TAKT_OK;
}

takt_status takt_scheduler_explain_held(takt_scheduler* scheduler, uint64_t workflow, uint64_t branch,
                                        takt_held* held) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(held)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  const HeldExplanation why = scheduler->scheduler->ExplainHeld({workflow}, branch);
  takt_held to{};
  to.return_class = why.return_class;
  to.tokens = why.tokens.value, to.own = why.own.value, to.turns = why.turns;
  to.awaited = why.awaited ? 1 : 0, to.in_use = why.in_use ? 1 : 0;
  to.ahead = why.ahead.value;
  to.since = Ns(why.since);
  to.value = why.value, to.price = why.price;
  to.next = why.next.value, to.next_branch = why.next_branch;
  to.pinned_until = Ns(why.pinned_until);
  Write(to, held);
  return TAKT_OK;
}

takt_status takt_scheduler_measure(takt_scheduler* scheduler, const takt_metrics_options* options,
                                   takt_error* error) noexcept {
  return Measure(scheduler, options, error, [&](Observer observer) { scheduler->scheduler->Watch(observer); });
}

takt_status takt_scheduler_name_class(takt_scheduler* scheduler, int64_t key, const char* name,
                                      takt_error* error) noexcept {
  return NameClass(scheduler, key, name, error);
}

takt_status takt_scheduler_saturation(takt_scheduler* scheduler, int64_t now, takt_saturation* saturation) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Writable(saturation)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  return ReadSaturation(scheduler, now, KvShare(scheduler->scheduler->scheduler().kv()), saturation);
}

takt_status takt_scheduler_metrics(takt_scheduler* scheduler, int64_t now, const char* names, const char* model,
                                   const char** text, size_t* n) noexcept {
  if (const takt_status status = FirstOf(Valid(scheduler), Given(text, 1)); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  const Scheduler& s = scheduler->scheduler->scheduler();
  return WriteMetrics(scheduler, now, names, model, KvShare(s.kv()), true, text, n,
                      [&](MetricsText& out) { out.Write(FiguresOf(s)); });
}

takt_status takt_scheduler_watch(takt_scheduler* scheduler, const takt_observer* observer) noexcept {
  return SetObserver(scheduler, observer, [&](Observer o) { scheduler->scheduler->Watch(o); });
}

void takt_metrics_options_init(takt_metrics_options* options, size_t size) noexcept { Init(options, size); }

takt_status takt_scheduler_check(const takt_scheduler* scheduler, takt_error* error) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*scheduler);
  const char* fault = scheduler->scheduler->scheduler().Inconsistency();
  return fault == nullptr ? TAKT_OK : Say(error, TAKT_E_CORRUPT, fault);
}

takt_status takt_scheduler_flush(takt_scheduler* scheduler) noexcept {
  if (const takt_status status = Valid(scheduler); status != TAKT_OK) return status;
  const Busy busy(*scheduler);
  if (scheduler->recorder) scheduler->recorder->Flush();
  return TAKT_OK;
}
