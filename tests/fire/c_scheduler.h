// A world's scheduler, used through the C interface.
#ifndef TAKT_TESTS_FIRE_C_SCHEDULER_H_
#define TAKT_TESTS_FIRE_C_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "c/told.h"
#include "host.h"
#include "takt/c/takt.h"

namespace takt::fire {

class CScheduler final : public Twin {
 public:
  explicit CScheduler(const Setup& setup) {
    const std::string policy = setup.PolicyOf(setup.policy).spec(), pause = setup.PauseOf(setup.pause).spec();
    takt_scheduler_options options = InC(setup.options);
    options.policy = policy.c_str(), options.pause = pause.c_str();
    takt_kv_oracle oracle;
    if (setup.options.kv == KvMode::kOracle) {
      oracle = InC(kv_.emplace(setup.options.kv_blocks, setup.options.kv_block_tokens, setup.ids));
      options.oracle = &oracle;
    }
    Must(takt_scheduler_create(&options, &scheduler_, nullptr), "create");
    if (setup.agents && setup.retention % 4 > 0) {
      SetRetention(Setup::RetentionOf(setup.retention), Setup::GateOf(setup.retention));
    }
  }
  ~CScheduler() override { takt_scheduler_destroy(scheduler_); }

  void On(const Event& event, TimePoint now) override {
    reported_.Clear();
    reported_.Add(event);
    Must(takt_scheduler_on(scheduler_, reported_.data(), reported_.size(), Ns(now)), "on");
  }

  void ChangePolicy(const AnyPolicy& policy, TimePoint now) override {
    Must(takt_scheduler_set_policy(scheduler_, policy.spec().c_str(), nullptr, Ns(now), nullptr), "set_policy");
  }

  void SetOptions(const std::string& changes, TimePoint now) override {
    Must(takt_scheduler_set_options(scheduler_, changes.c_str(), Ns(now), nullptr), "set_options");
  }

  void SetRetention(const std::string& retention, const std::string& gate) override {
    Must(takt_scheduler_set_retention(scheduler_, retention.c_str(), gate.c_str(), 0, 0, nullptr), "set_retention");
  }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits) override {
    const takt_limits in_c = InC(limits);
    auto plan = Sized<takt_plan>();
    Must(takt_scheduler_plan(scheduler_, Ns(now), &in_c, &plan), "plan");
    StepPlan& made = plan.n_run > 0 ? plans_.emplace_back() : idle_;
    made = {};
    made.id = {plan.id};
    made.run = {reinterpret_cast<const PlanEntry*>(plan.run), plan.n_run};
    made.moves = {reinterpret_cast<const KvMove*>(plan.moves), plan.n_moves};
    made.preempted = {reinterpret_cast<const Preemption*>(plan.preempted), plan.n_preempted};
    made.failed = {reinterpret_cast<const Failure*>(plan.failed), plan.n_failed};
    made.released = {reinterpret_cast<const RequestId*>(plan.released), plan.n_released};
    made.dropped = {reinterpret_cast<const DroppedPrefix*>(plan.dropped), plan.n_dropped};
    made.host_chunks = {reinterpret_cast<const HostChunk*>(plan.host_chunks), plan.n_host_chunks};
    made.tokens = {plan.tokens};
    made.idle = static_cast<Idle>(plan.idle);
    made.wake_at = TimePoint(Duration(plan.wake_at));
    return made;
  }

  void Commit(const StepResult& result, TimePoint now) override {
    Must(takt_scheduler_commit(scheduler_, result.step.value,
                               reinterpret_cast<const takt_row_result*>(result.rows.data()), result.rows.size(),
                               result.rest_as_planned ? std::uint32_t{TAKT_REST_AS_PLANNED} : 0, Ns(now)),
         "commit");
    plans_.remove_if([&](const StepPlan& plan) { return plan.id == result.step; });
  }

  HostKv* kv() override { return kv_ ? &*kv_ : nullptr; }

  std::string Unlike(const Scheduler& s) const override {
    if (!fault_.empty()) return fault_;
    std::vector<takt_stat> stats(takt_scheduler_stats(scheduler_, nullptr, 0));
    takt_scheduler_stats(scheduler_, stats.data(), stats.size());
    std::size_t i = 0;
#define TAKT_COMPARE(field, text)                                                                          \
  if (i == stats.size() || stats[i].name != std::string_view(#field) || stats[i].value != s.stats().field) \
    return "another count of " #field;                                                                     \
  ++i;
    TAKT_STATS(TAKT_COMPARE)
#undef TAKT_COMPARE
    auto counts = Sized<takt_scheduler_counts>();
    auto use = Sized<takt_kv_use>();
    if (takt_scheduler_count(scheduler_, &counts) != TAKT_OK || counts.alive != s.alive() ||
        counts.waiting != s.waiting() || counts.running != s.running() || counts.paused != s.paused() ||
        counts.blocked != s.blocked() || (counts.draining != 0) != s.draining()) {
      return "other requests";
    }
    if (takt_scheduler_kv(scheduler_, &use) != TAKT_OK || KvUse{{use.total},
                                                                {use.used},
                                                                {use.free},
                                                                {use.cached},
                                                                {use.pending},
                                                                {use.cpu_total},
                                                                {use.cpu_used},
                                                                {use.cpu_cached}} != s.kv()) {
      return "other KV";
    }
    takt_error error;
    takt_error_init(&error, sizeof error);
    return takt_scheduler_check(scheduler_, &error) == TAKT_OK ? "" : error.text;
  }

 private:
  void Must(takt_status status, const char* call) {
    if (status != TAKT_OK && fault_.empty()) fault_ = std::string(call) + ": " + takt_status_name(status);
  }

  std::optional<HostKv> kv_;
  takt_scheduler* scheduler_ = nullptr;
  Told reported_;
  std::list<StepPlan> plans_;  // in flight
  StepPlan idle_;              // the last plan that ran nothing
  std::string fault_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_C_SCHEDULER_H_
