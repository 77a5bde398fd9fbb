// An observer of transitions: each request begins once, ends once, and each transition begins with the status that the
// last one set.
#ifndef TAKT_TESTS_FIRE_WATCHED_LIVES_H_
#define TAKT_TESTS_FIRE_WATCHED_LIVES_H_

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory.h"
#include "takt/metrics/request_metrics.h"
#include "takt/model/class_limits.h"
#include "takt/router/stats.h"
#include "takt/scheduler_options.h"
#include "takt/state/stats.h"
#include "takt/state/transition.h"

namespace takt::fire {

class WatchedLives {
 public:
  WatchedLives() : metrics_(*RequestMetrics::Create({.by = ClassBy::kTenant, .max_classes = 3, .max_requests = 64})) {}

  Observer observer() {
    return {[](void* lives, const Transition& t) {
              const OfTheHost scope;
              static_cast<WatchedLives*>(lives)->See(t);
            },
            this};
  }

  // Checks from now on that admissions keep the ceilings of classes and the shares of tenants. `most`: maximum
  // sequences of the present plan.
  void Keep(const SchedulerOptions& o, std::int32_t most) {
    classes_ = o.class_limits, most_ = most;
    block_tokens_ = o.kv_block_tokens.value;
    const bool shares = o.kv == KvMode::kLedger && o.tenant_kv_share < 1;
    share_ = shares ? static_cast<std::int64_t>(o.tenant_kv_share * o.kv_blocks.value + 1e-6) : INT64_MAX;
  }

  // Counts running requests by new classes, and by their present priorities.
  template <class PriorityOf>
  void Recount(const ClassLimitsList& classes, PriorityOf&& priority_of) {
    classes_ = classes;
    rows_ = {};
    for (Seen& life : lives_) {
      if (life.status != RequestStatus::kRunning) continue;
      life.ceiling_class = classes_.IndexOf(priority_of(life.id));
      if (life.ceiling_class >= 0) ++rows_[static_cast<std::size_t>(life.ceiling_class)];
    }
  }

  // Returns the first contradiction; empty if there is none.
  const std::string& fault() const { return fault_; }

  // Compares the transitions with the counters and the current numbers of requests. Returns the first difference.
  template <class Scheduler>
  std::string Unlike(const Scheduler& s) {
    const Stats& stats = s.stats();
    Expect("admitted", Count(TransitionReason::kAdmitted) + Count(TransitionReason::kResumed), stats.admitted);
    Expect("preempted", Count(TransitionReason::kPreemptedKv) + Count(TransitionReason::kPreemptedRank),
           stats.preempted_recompute + stats.preempted_swap);
    Expect("by rank", Count(TransitionReason::kPreemptedRank), stats.preempted_by_rank);
    Expect("arrived", Count(TransitionReason::kArrived), stats.arrived);
    Expect("finished", Count(TransitionReason::kFinished), stats.finished);
    Expect("cancelled", Count(TransitionReason::kCancelled), stats.cancelled);
    Expect("invalid", Count(TransitionReason::kInvalid), stats.failed_invalid);
    Expect("never_fits", Count(TransitionReason::kNeverFits), stats.failed_never_fits);
    Expect("kv_exhausted", Count(TransitionReason::kKvExhausted), stats.failed_kv_exhausted);
    Expect("expired", Count(TransitionReason::kExpired), stats.failed_expired);
    Expect("shed", Count(TransitionReason::kShed), stats.failed_shed);
    Expect("draining", Count(TransitionReason::kDraining), stats.failed_draining);
    Expect("host", Count(TransitionReason::kHost), stats.failed_host);
    Expect("id_in_use", Count(TransitionReason::kIdInUse), stats.failed_id_in_use);
    Expect("waiting", Now(RequestStatus::kWaiting), s.waiting());
    Expect("running", Now(RequestStatus::kRunning), s.running());
    Expect("paused", Now(RequestStatus::kPaused), s.paused());
    Expect("blocked", Now(RequestStatus::kBlocked), s.blocked());
    const WaitingCounts by_reason = s.WaitingByReason();
    std::int64_t wait = 0;
    for (const std::int64_t n : by_reason.of) wait += n;
    if (wait < s.waiting() + s.paused() + s.blocked() || by_reason[WaitsFor::kTool] != s.paused() ||
        by_reason[WaitsFor::kUnblock] != s.blocked()) {
      Say(fmt::format("{} requests wait by reason, of {}", wait, s.waiting() + s.paused() + s.blocked()));
    }
    Metrics();
    return fault_;
  }
  template <class Router>
  std::string UnlikeRouter(const Router& r) {
    const RouterStats& stats = r.stats();
    Expect("placed", Count(TransitionReason::kAdmitted) + Count(TransitionReason::kResumed), stats.placed);
    Expect("returned", Count(TransitionReason::kInstanceLost), stats.returned);
    Expect("arrived", Count(TransitionReason::kArrived), stats.arrived);
    Expect("cancelled", Count(TransitionReason::kCancelled), stats.cancelled);
    Expect("ended", Now(RequestStatus::kDead),
           stats.ended + stats.cancelled + stats.failed_expired + stats.failed_unfit + stats.dropped);
    Expect("invalid", Count(TransitionReason::kInvalid), stats.failed_invalid);
    Expect("id_in_use", Count(TransitionReason::kIdInUse), stats.failed_id_in_use);
    Expect("waiting", Now(RequestStatus::kWaiting) + Now(RequestStatus::kBlocked), r.waiting());
    Expect("placed now", Now(RequestStatus::kRunning), r.alive() - r.waiting());
    Metrics();
    return fault_;
  }

 private:
  struct Seen {
    RequestId id = {};
    RequestStatus status = RequestStatus::kUnknown;
    int ceiling_class = -1;  // of its row
    TenantId tenant = {};
    std::int64_t blocks = 0;  // blocks of its prompt, which its row has at least
  };

  // An admission of a tenant that runs keeps its share.
  void Shares(const Transition& t, Seen& life) {
    life.tenant = t.about->tenant;
    if (t.from == RequestStatus::kRunning || t.to != RequestStatus::kRunning) return;
    life.blocks = (std::int64_t{t.about->prompt_tokens.value} + block_tokens_ - 1) / block_tokens_;
    const auto held = [this](TenantId tenant) {
      std::int64_t blocks = 0;
      for (const Seen& s : lives_) blocks += s.status == RequestStatus::kRunning && s.tenant == tenant ? s.blocks : 0;
      return blocks;
    };
    if (share_ == INT64_MAX) return;
    const std::int64_t own = held(life.tenant);
    if (own == 0 || own + life.blocks <= share_) return;
    Say(fmt::format("request {} was admitted over the share of tenant {}", t.request.value, life.tenant.value));
  }

  // Counts rows by class. An admission must keep the ceilings that always hold, unless no row of the request's class or
  // of a later one runs. A row has at least one sequence: others may have ended.
  void Ceilings(const Transition& t, Seen& life) {
    if (classes_.empty()) return;
    if (t.from == RequestStatus::kRunning && t.to != RequestStatus::kRunning && life.ceiling_class >= 0) {
      --rows_[static_cast<std::size_t>(life.ceiling_class)];
    }
    if (t.from == RequestStatus::kRunning || t.to != RequestStatus::kRunning) return;
    life.ceiling_class = classes_.IndexOf(t.about->priority);
    if (life.ceiling_class < 0) return;
    std::int32_t rows = 0, seqs = t.about->sequences;
    bool over = false;
    for (auto i = static_cast<int>(classes_.size()); i-- > 0;) {
      const auto at = static_cast<std::size_t>(i);
      rows += i >= life.ceiling_class ? rows_[at] : 0;
      seqs += rows_[at];
      const ClassLimits& c = classes_[at];
      over |= i <= life.ceiling_class && c.soft == 0 && c.ceiling < 1 &&
              seqs > static_cast<std::int32_t>(c.ceiling * std::max(most_, 0) + 1e-6);
    }
    if (over && rows > 0) Say(fmt::format("request {} was admitted over a ceiling", t.request.value));
    ++rows_[static_cast<std::size_t>(life.ceiling_class)];
  }

  void See(const Transition& t) {
    metrics_->See(t);
    ++counts_[static_cast<std::size_t>(t.reason)];
    if (t.about == nullptr) return Say("a transition without a request");
    if (t.slot == kNoSlot) {
      if (t.from != RequestStatus::kUnknown || t.to != RequestStatus::kDead) Say("a refusal of a living request");
      return;
    }
    if (t.slot >= lives_.size()) lives_.resize(t.slot + std::size_t{1});
    Seen& life = lives_[t.slot];
    if (t.from != life.status) {
      Say(fmt::format("request {} moves from {}, and was {}", t.request.value, static_cast<int>(t.from),
                      static_cast<int>(life.status)));
    }
    if (t.from != RequestStatus::kUnknown && life.id != t.request) Say("a slot has another request");
    if (t.about->id != t.request) Say("a transition is about another request");
    if (t.from == t.to && t.reason != TransitionReason::kFirstToken) Say("a transition without a change");
    Ceilings(t, life);
    Shares(t, life);
    life.id = t.request, life.status = t.to == RequestStatus::kDead ? RequestStatus::kUnknown : t.to;
    if (t.from != RequestStatus::kUnknown) --now_[static_cast<std::size_t>(t.from)];
    ++now_[static_cast<std::size_t>(t.to)];
  }

  std::uint64_t Count(TransitionReason reason) const { return counts_[static_cast<std::size_t>(reason)]; }
  std::int64_t Now(RequestStatus status) const { return now_[static_cast<std::size_t>(status)]; }
  void Say(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  template <class A, class B>
  void Expect(const char* what, A mine, B theirs) {
    if (static_cast<std::uint64_t>(mine) != static_cast<std::uint64_t>(theirs)) {
      Say(fmt::format("transitions give {} {}, not {}", mine, what, theirs));
    }
  }
  // The figures by class add up to the transitions.
  void Metrics() {
    std::uint64_t arrived = 0, finished = 0;
    for (const ClassFigures& c : metrics_->classes()) {
      arrived += static_cast<std::uint64_t>(c.arrived);
      finished += static_cast<std::uint64_t>(c.ended[static_cast<std::size_t>(TransitionReason::kFinished)]);
    }
    Expect("arrived in metrics", Count(TransitionReason::kArrived), arrived);
    Expect("finished in metrics", Count(TransitionReason::kFinished), finished);
    if (metrics_->classes().size() > 4) Say("too many classes");
    const Saturation s = metrics_->Read(kUnset);
    if (s.backlog_tokens < 0 || !(s.seconds_to_clear >= 0 && s.seconds_to_clear <= Saturation::kMostSeconds)) {
      Say(fmt::format("a backlog of {} tokens clears in {} s", s.backlog_tokens, s.seconds_to_clear));
    }
  }

  std::unique_ptr<RequestMetrics> metrics_;
  std::vector<Seen> lives_;  // by slot
  std::array<std::uint64_t, NamesOf(TransitionReason{}).size()> counts_ = {};
  std::array<std::int64_t, 6> now_ = {};  // by status; kDead: all that ended
  ClassLimitsList classes_ = {};
  std::int32_t most_ = 0;
  std::int32_t block_tokens_ = 1;
  std::int64_t share_ = INT64_MAX;  // blocks that a tenant may hold
  std::array<std::int32_t, kMostClasses> rows_ = {};  // rows by class
  std::string fault_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_WATCHED_LIVES_H_
