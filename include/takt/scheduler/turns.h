// KV held for workflows that will return.
#ifndef TAKT_SCHEDULER_TURNS_H_
#define TAKT_SCHEDULER_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/gate.h"
#include "takt/turns/return_times.h"
#include "takt/turns/turn_hints.h"
#include "absl/status/status.h"

namespace takt::internal {

// Retention of KV between turns, learned return times, and hints for the cache of an oracle's host.
//
// Invariant: a branch is open in times() if it has released its blocks and is expected to return.
class Turns {
 public:
  Turns(EngineState& s, Kv& kv, Gate& gate) : s_(s), kv_(kv), gate_(gate) {}

  bool Holds() const { return times_ != nullptr; }
  const ReturnTimes* times() const { return times_.get(); }
  ReturnTimes* times() { return times_.get(); }
  TurnHints* hints() { return hints_.get(); }

  // Has no effect if an allocation fails.
  void Hold(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times) {
    ReturnTimesOptions keyed = times;
    if (keyed.hash_seed == 0) keyed.hash_seed = Mix64(s_.options.hash_seed + 1);
    auto learns = std::make_unique<ReturnTimes>(keyed);
    const std::size_t requests = std::max<std::size_t>(s_.slots_reserved, s_.table.size() + 1);
    learns->MakeRoom(requests);
    AnyRetention reads = retention;
    reads.Read(&learns->curves());
    AnyGate asks = gate;
    asks.Read(&learns->curves());
    const GateDoor door = asks.Door();
    gate_.Prepare(door, requests);
    kv_.ledger.MakeRoomToHold(requests);
    s_.table.FollowWorkflows();
    kv_.ledger.SetPolicy(reads);
    kv_.ledger.BoundHoldings(times.max_open);
    const std::int32_t total = kv_.ledger.total();
    kv_.ledger.holdings()->BoundPins(static_cast<std::int32_t>(total * s_.options.pin_share), total / 2);
    times_ = std::move(learns);
    gate_.SetPolicy(std::move(asks), door);
  }

  // Hints depend on the size of the host's cache at each plan.
  void SetHints(const HoldValue& value, const ReturnTimesOptions& times) {
    if (kv_.oracle == nullptr) return;
    ReturnTimesOptions keyed = times;
    if (keyed.hash_seed == 0) keyed.hash_seed = Mix64(s_.options.hash_seed + 1);
    s_.table.FollowWorkflows();
    auto hints = std::make_unique<TurnHints>(value, keyed);
    hints->MakeRoom(std::max<std::size_t>(s_.slots_reserved, s_.table.size() + 1));
    hints_ = std::move(hints);
  }

  void Hint(const std::optional<CacheHint>& hint) {
    if (hint) s_.notices.hints.push_back(*hint);
  }

  // Returns the branch together with the tenant of its requests or its holding.
  BranchName NameOf(WorkflowId workflow, std::uint64_t branch) {
    BranchName name{workflow, branch, kv_.ledger.holdings()->TenantOf(workflow, branch)};
    s_.table.ForEachOf(workflow, [&](const Record& record) {
      if (const Request& r = record.state.request; r.branch == branch) name.tenant = r.tenant;
    });
    return name;
  }

  // Returns the turn that owns the blocks that a request releases.
  HeldTurn TurnOf(const Record& record) const {
    if (!Holds()) return {};
    const Request& r = record.state.request;
    HeldTurn turn{.workflow = r.workflow, .branch = r.branch, .over = record.last_turn, .tenant = r.tenant};
    if (record.status == RequestStatus::kDead) {
      turn.return_class = times_->ClassOf(r.workflow, r.branch);
      turn.pinned_until = record.pinned_until;
    }
    return turn;
  }

  // Records the return of a workflow when a request arrives.
  void TurnBegins(const Record& record) {
    const Request& r = record.state.request;
    if (!r.workflow) return;
    times_->Returned(r.workflow, r.branch, s_.now);
    kv_.ledger.Await(r.workflow, r.branch, true, s_.now);
  }

  // Records that the request runs and refers to its blocks, or ended without running.
  void TurnNotAwaited(const Record& record) {
    const Request& r = record.state.request;
    if (r.workflow) kv_.ledger.Await(r.workflow, r.branch, false);
  }

  // Records that a request released its blocks, because its turn ended or because it waits again.
  void TurnReleased(const Record& record) {
    const Request& r = record.state.request;
    if (!r.workflow) return;
    if (record.status != RequestStatus::kDead) {
      kv_.ledger.Await(r.workflow, r.branch, true, s_.now);
    } else if (!record.last_turn && !times_->IsOpen(r.workflow, r.branch)) {
      times_->Began({r.workflow, r.branch, r.tenant}, ReturnClass::kUnknown, s_.now);
    }
  }

  void EndPins() {
    if (!Holds() || kv_.ledger.holdings()->next_pin_end() > s_.now) return;
    kv_.ledger.holdings()->EndPins(s_.now);
    gate_.Changed();
  }

  // Handles a report about a turn. Returns false if it names no workflow.
  bool On(const TurnEnded& e, TimePoint now) {
    if (!e.workflow) return false;
    if (hints_ != nullptr) Hint(hints_->On(e, now));
    if (!Holds() && hints_ == nullptr) return true;
    if (e.why == TurnWhy::kOver) {
      s_.table.ForEachOf(e.workflow,
                         [&](Record& record) { record.last_turn |= record.state.request.branch == e.branch; });
    }
    if (!Holds()) return true;
    gate_.Changed();
    if (e.why == TurnWhy::kOver) {
      times_->Lost(e.workflow, e.branch, now);
      kv_.ledger.End(e.workflow, e.branch);
      return true;
    }
    Holdings& holdings = *kv_.ledger.holdings();
    const TimePoint until = e.pin > Duration::zero() ? After(now, e.pin) : kUnset;
    if (until != kUnset || pins_) {
      pins_ = true;
      s_.table.ForEachOf(e.workflow, [&](Record& record) {  // its blocks are still in use
        if (record.state.request.branch == e.branch) record.pinned_until = until;
      });
      holdings.Pin(e.workflow, e.branch, until);
    }
    const std::uint32_t return_class = times_->ClassOf(e);
    if (!times_->SetClass(e.workflow, e.branch, return_class)) {
      times_->Began(NameOf(e.workflow, e.branch), return_class, now);
    }
    kv_.ledger.SetClass(e.workflow, e.branch, return_class);
    return true;
  }

  bool On(const TurnExpected& e, TimePoint now) {
    if (!e.workflow) return false;
    if (hints_ != nullptr) Hint(hints_->On(e, now));
    if (!Holds()) return true;
    if (!times_->IsOpen(e.workflow, e.branch)) return true;  // the branch is unknown, or no return is expected
    gate_.Changed();
    const std::uint32_t return_class = ReturnClass::Expected(ToSeconds(e.when) - ToSeconds(now));
    // takt does not learn how long the branch would have stayed away without this report
    times_->Lost(e.workflow, e.branch, now);
    times_->Began(NameOf(e.workflow, e.branch), return_class, now);
    kv_.ledger.Touch(e.workflow, e.branch, return_class);
    return true;
  }

  bool On(const WorkflowEnded& e, TimePoint now) {
    if (!e.workflow) return false;
    if (hints_ != nullptr) hints_->On(e, now, [this](const CacheHint& hint) { Hint(hint); });
    if (!Holds() && hints_ == nullptr) return true;
    s_.table.ForEachOf(e.workflow, [](Record& record) { record.last_turn = true; });
    if (!Holds()) return true;
    gate_.Changed();
    times_->Lost(e.workflow, now);
    kv_.ledger.End(e.workflow);
    return true;
  }

  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times) {
    if (kv_.ledger.holdings() == nullptr) {
      return absl::InvalidArgumentError("retention: requires kv ledger and prefix_cache");
    }
    Hold(retention, gate, times);
    return absl::OkStatus();
  }

  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch) {
    HeldExplanation e;
    if (!Holds()) return e;
    Holdings& holdings = *kv_.ledger.holdings();
    const Holding held = holdings.Find(workflow, branch);
    e.tokens = {held.tokens}, e.own = {held.tokens - held.own_from};
    e.return_class = held.return_class, e.turns = held.uses;
    e.since = held.uses > 0 ? held.since : kUnset;
    e.awaited = held.awaited, e.in_use = held.in_use;
    e.pinned_until = holdings.PinnedUntil(workflow, branch);
    e.value = holdings.ValueOf(workflow, branch, s_.now);
    bool first = true;
    holdings.Walk(holdings.idle(), s_.now, [&](const HeldVictim& victim) {
      if (std::exchange(first, false)) {
        e.price = victim.value / std::max(victim.blocks, 1);
        e.next = victim.held.workflow, e.next_branch = victim.held.branch;
      }
      if (victim.held.workflow == workflow && victim.held.branch == branch) return false;
      e.ahead.value += victim.blocks;
      return true;
    });
    if (e.tokens == Tokens{0}) e.ahead = {};
    return e;
  }

 private:
  EngineState& s_;
  Kv& kv_;
  Gate& gate_;
  std::unique_ptr<ReturnTimes> times_;  // null: no retention was set, and the host reported no turn
  std::unique_ptr<TurnHints> hints_;  // for an oracle's host; null: the host reported no turn
  bool pins_ = false;  // true: the host has pinned a holding before
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_TURNS_H_
