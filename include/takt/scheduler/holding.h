// BasicScheduler, continued: KV that is held for workflows which will come back, and the gate before it.
#ifndef TAKT_SCHEDULER_HOLDING_H_
#define TAKT_SCHEDULER_HOLDING_H_

#include "takt/basic_scheduler.h"

namespace takt {
namespace internal {

// What a gate sees of the holdings.
class HoldingsOrder final : public HeldOrder {
 public:
  HoldingsOrder(Holdings& holdings, TimePoint now, std::optional<double>& sum)
      : holdings_(&holdings), now_(now), sum_(&sum) {}

  void Walk(std::int32_t blocks, FunctionRef<bool(const HeldVictim&)> take) const override {
    holdings_->Walk(blocks, now_, take);
  }
  void ForEach(FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> tell) const override {
    holdings_->ForEach(tell);
  }
  double Sum(FunctionRef<double(const Holding&)> of) const override {
    if (!*sum_) *sum_ = HeldOrder::Sum(of);
    return **sum_;
  }

 private:
  Holdings* holdings_;
  TimePoint now_;
  std::optional<double>* sum_;  // that the gate was given before, as things are
};

}  // namespace internal

template <RankPolicy Policy, PausePolicy Pause>
absl::Status BasicScheduler<Policy, Pause>::SetRetention(const AnyRetention& retention, const AnyGate& gate,
                                                         const ReturnTimesOptions& times) {
  if (kv_.ledger.holdings() == nullptr) {
    return absl::InvalidArgumentError("retention: needs kv to be ledger, and prefix_cache");
  }
  Hold(retention, gate, times);
  return absl::OkStatus();
}

// Nothing has changed where memory fails.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Hold(const AnyRetention& retention, const AnyGate& gate,
                                         const ReturnTimesOptions& times) {
  ReturnTimesOptions keyed = times;
  if (keyed.hash_seed == 0) keyed.hash_seed = Mix64(options_.hash_seed + 1);
  auto learns = std::make_unique<ReturnTimes>(keyed);
  const std::size_t requests = std::max<std::size_t>(slots_reserved_, table_.size() + 1);
  learns->MakeRoom(requests);
  AnyRetention reads = retention;
  reads.Read(&learns->curves());
  AnyGate asks = gate;
  asks.Read(&learns->curves());
  kv_.ledger.MakeRoomToHold(requests);
  kv_.ledger.SetPolicy(reads);
  const std::int32_t total = kv_.ledger.total();
  kv_.ledger.holdings()->BoundPins(static_cast<std::int32_t>(total * options_.pin_share), total / 2);
  const GateDoor door = asks.Door();
  if (door.share > 0) held_.by_arrival.Reserve(requests);
  held_.times = std::move(learns);
  held_.gate = std::move(asks);
  held_.door = door;
  held_.by_arrival.Clear();
  for (Slot slot = 0; door.share > 0 && slot < table_.slots(); ++slot) {
    if (queue_.contains(slot)) NoteAtDoor(slot);
  }
  held_.state = 0, held_.tell_at = {}, held_.next_door = kUnset;
  held_.in_vain = false;
  ++held_.changes;
}

// By the size of the host's cache as of each plan.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::SetHints(const HoldValue& value, const ReturnTimesOptions& times) {
  if (kv_.oracle == nullptr) return;
  ReturnTimesOptions keyed = times;
  if (keyed.hash_seed == 0) keyed.hash_seed = Mix64(options_.hash_seed + 1);
  auto hints = std::make_unique<TurnHints>(value, keyed);
  hints->MakeRoom(std::max<std::size_t>(slots_reserved_, table_.size() + 1));
  held_.hints = std::move(hints);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Hint(const std::optional<CacheHint>& hint) {
  if (hint) notices_.hints.push_back(*hint);
}

// What ReturnTimes knows a branch by.
template <RankPolicy Policy, PausePolicy Pause>
std::uint64_t BasicScheduler<Policy, Pause>::GapOf(WorkflowId workflow, std::uint64_t branch) {
  return Mix64(workflow.value) + branch;
}

// Whose blocks they are that a request gives back.
template <RankPolicy Policy, PausePolicy Pause>
HeldTurn BasicScheduler<Policy, Pause>::TurnOf(const Record& record) const {
  if (!Holds()) return {};
  const Request& r = record.state.request;
  HeldTurn turn{.workflow = r.workflow, .branch = r.branch, .over = record.last_turn, .tenant = r.tenant};
  if (record.status == RequestStatus::kDead) {
    turn.its_class = held_.times->ClassOf(GapOf(r.workflow, r.branch));
    turn.pinned_until = record.pinned_until;
  }
  return turn;
}

// A request has arrived: its workflow is back.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TurnBegins(const Record& record) {
  const Request& r = record.state.request;
  if (!r.workflow) return;
  held_.times->Returned(GapOf(r.workflow, r.branch), now_);
  kv_.ledger.Await(r.workflow, r.branch, true, now_);
}

// It runs, and refers to what it uses; or it has ended without that.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TurnNotAwaited(const Record& record) {
  const Request& r = record.state.request;
  if (r.workflow) kv_.ledger.Await(r.workflow, r.branch, false);
}

// It has given its blocks back: its workflow is away from now on, or it waits for them.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TurnReleased(const Record& record) {
  const Request& r = record.state.request;
  if (!r.workflow) return;
  if (record.status != RequestStatus::kDead) {
    kv_.ledger.Await(r.workflow, r.branch, true, now_);
  } else if (const std::uint64_t gap = GapOf(r.workflow, r.branch); !record.last_turn && !held_.times->IsOpen(gap)) {
    held_.times->Began(gap, ReturnClass::kUnknown, now_);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const TurnEnded& e, TimePoint now) {
  if (!e.workflow) return OutOfPlace({});
  if (held_.hints) Hint(held_.hints->On(e, now));
  if (!Holds() && !held_.hints) return;
  if (e.why == TurnWhy::kOver) {
    for (Slot slot = 0; slot < table_.slots(); ++slot) {
      const Request& r = table_[slot].state.request;
      if (r.workflow == e.workflow && r.branch == e.branch) table_[slot].last_turn = true;
    }
  }
  if (!Holds()) return;
  ++held_.changes;
  const std::uint64_t gap = GapOf(e.workflow, e.branch);
  if (e.why == TurnWhy::kOver) {
    held_.times->Lost(gap, now);
    kv_.ledger.End(e.workflow, e.branch);
    return;
  }
  internal::Holdings& holdings = *kv_.ledger.holdings();
  const TimePoint until = e.pin > Duration::zero() ? After(now, e.pin) : kUnset;
  if (until != kUnset || held_.pins) {
    held_.pins = true;
    for (Slot slot = 0; slot < table_.slots(); ++slot) {  // its blocks are still in use
      const Request& r = table_[slot].state.request;
      if (r.workflow == e.workflow && r.branch == e.branch) table_[slot].pinned_until = until;
    }
    holdings.Pin(e.workflow, e.branch, until);
  }
  const std::uint32_t its_class = held_.times->ClassOf(e);
  if (!held_.times->Told(gap, its_class)) held_.times->Began(gap, its_class, now);
  kv_.ledger.SetClass(e.workflow, e.branch, its_class);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const TurnExpected& e, TimePoint now) {
  if (!e.workflow) return OutOfPlace({});
  if (held_.hints) Hint(held_.hints->On(e, now));
  if (!Holds()) return;
  const std::uint64_t gap = GapOf(e.workflow, e.branch);
  if (!held_.times->IsOpen(gap)) return;  // it is not away, or nothing is known of it
  ++held_.changes;
  const std::uint32_t its_class = ReturnClass::Expected(ToSeconds(e.when) - ToSeconds(now));
  held_.times->Lost(gap, now);  // how long it would have stayed away without that is not seen
  held_.times->Began(gap, its_class, now);
  kv_.ledger.Touch(e.workflow, e.branch, its_class);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndPins() {
  if (!Holds() || kv_.ledger.holdings()->next_pin_end() > now_) return;
  kv_.ledger.holdings()->EndPins(now_);
  ++held_.changes;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const WorkflowEnded& e, TimePoint now) {
  if (!e.workflow) return OutOfPlace({});
  if (held_.hints) held_.hints->On(e, now, [this](const CacheHint& hint) { Hint(hint); });
  if (!Holds() && !held_.hints) return;
  for (Slot slot = 0; slot < table_.slots(); ++slot) {
    if (table_[slot].state.request.workflow == e.workflow) table_[slot].last_turn = true;
  }
  if (!Holds()) return;
  ++held_.changes;
  kv_.ledger.holdings()->ForEachBranch(
      e.workflow, [&](std::uint64_t branch) { held_.times->Lost(GapOf(e.workflow, branch), now); });
  kv_.ledger.End(e.workflow);
}

// What is cached of each that waits changes as blocks go that it would have used, which are the last to go, and as
// others compute what it shares with them. All are looked up again, a slice in each plan.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LookUpHits() {
  const std::uint64_t lost = kv_.ledger.awaited_lost();
  if (lost != held_.lost || Between(held_.looked_up, now_) >= std::chrono::seconds(1)) {
    held_.lost = lost;
    held_.looked_up = now_;
    if (held_.look_ups == 0) held_.look_next = 0;
    held_.look_ups = table_.slots();
  }
  const std::size_t most = std::min<std::size_t>(held_.look_ups, 1024);
  held_.look_ups -= most;
  for (std::size_t n = 0; n < most; ++n) {
    if (held_.look_next >= table_.slots()) held_.look_next = 0;
    const Slot slot = held_.look_next++;
    const Record& record = table_[slot];
    if (record.status != RequestStatus::kWaiting) continue;
    const std::int32_t cached = CachedTokensOf(record);
    if (cached != record.state.cached.value) Rank(slot);
  }
}

// `need`: blocks beyond what it has and what is cached for it. `start`: tokens of its context that it need not compute.
template <RankPolicy Policy, PausePolicy Pause>
GateAsk BasicScheduler<Policy, Pause>::AskFor(const Record& record, std::int32_t need, std::int32_t start) const {
  const Request& r = record.state.request;
  return {.workflow = r.workflow,
          .branch = r.branch,
          .need = need,
          .lack = need - (kv_.ledger.free() - kv_.ledger.idle()),
          .block_tokens = kv_.block_tokens,
          .tokens = record.known,
          .cached = start,
          .waited_s = std::max(ToSeconds(Between(r.arrival, now_)), 0.0),
          .delayed = static_cast<std::int64_t>(queue_.size()) + counts_.rows,
          .running = counts_.rows,
          .used = kv_.ledger.used(),
          .total = kv_.ledger.total(),
          .hits = held_.prompt_tokens > 0 ? held_.cached_tokens / held_.prompt_tokens : held_.hits,
          .state = held_.state,
          .stuck = held_.stuck,
          .now = now_};
}

template <RankPolicy Policy, PausePolicy Pause>
HeldExplanation BasicScheduler<Policy, Pause>::ExplainHeld(WorkflowId workflow, std::uint64_t branch) {
  HeldExplanation e;
  if (ended() || !Holds()) return e;
  internal::Holdings& holdings = *kv_.ledger.holdings();
  const Holding held = holdings.Find(workflow, branch);
  e.tokens = {held.tokens}, e.own = {held.tokens - held.own_from};
  e.its_class = held.its_class, e.turns = held.uses;
  e.since = held.uses > 0 ? held.since : kUnset;
  e.awaited = held.awaited, e.in_use = held.in_use;
  e.pinned_until = holdings.PinnedUntil(workflow, branch);
  e.value = holdings.ValueOf(workflow, branch, now_);
  bool first = true;
  holdings.Walk(holdings.idle(), now_, [&](const HeldVictim& victim) {
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

// The same of the host's memory, which will have a copy: there is lost for good what gives way. `lack` 0: nothing does.
template <RankPolicy Policy, PausePolicy Pause>
GateAsk BasicScheduler<Policy, Pause>::AskForCopies(const Record& record, const GateAsk& of_gpu) const {
  GateAsk ask = of_gpu;
  ask.need = ask.lack = 0;
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (kv_.ledger.copies() == nullptr || chunk_blocks == 0) return ask;
  const auto chunks = static_cast<std::int32_t>(record.state.request.prefix.hashes.size());
  const std::int32_t new_chunks = chunks - kv_.ledger.FindCopies(Hashes(record, 0, chunks), chunk_blocks);
  const KvUse use = kv_.ledger.use();
  ask.total = std::min(options_.prefix_cpu_blocks.value, use.cpu_total.value - use.cpu_used.value);
  ask.used = 0;
  ask.need = std::min(new_chunks * chunk_blocks, ask.total);
  ask.lack = std::max(ask.need - kv_.ledger.copy_room(), 0);
  return ask;
}

// Whether the gate lets it in. What has had a token already has paid.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::LetsIn(Record& record, std::int32_t need, std::int32_t start) {
  if (need <= 0 || record.state.generated.value > 0 || record.state.slot == held_.elder) return true;
  const GateAsk ask = AskFor(record, need, start);
  const GateAsk copies = AskForCopies(record, ask);
  if (ask.lack <= 0 && copies.lack <= 0) return true;
  const bool known = held_.refused && start == 0 && ask.lack >= held_.lack && ask.need >= held_.need &&
                     copies.lack >= held_.copies_lack && copies.need >= held_.copies_need;
  double until_s = held_.until_s;
  if (!known || ask.waited_s >= until_s) {
    until_s = 0;
    if (held_.sums_changes != held_.changes) held_.sum.reset(), held_.copies_sum.reset();
    held_.sums_changes = held_.changes;
    if (ask.lack > 0) {
      until_s = held_.gate.LetsInAfter(ask, internal::HoldingsOrder(*kv_.ledger.holdings(), now_, held_.sum));
    }
    if (copies.lack > 0 && until_s <= ask.waited_s) {
      const internal::HoldingsOrder order(*kv_.ledger.copies(), now_, held_.copies_sum);
      until_s = std::max(until_s, held_.gate.LetsInAfter(copies, order));
    }
    if (until_s <= ask.waited_s) return true;
    if (!held_.refused || (ask.lack <= held_.lack && ask.need <= held_.need)) {
      held_.lack = ask.lack, held_.need = ask.need, held_.until_s = until_s;
      held_.copies_lack = copies.lack, held_.copies_need = copies.need;
    }
    held_.refused = true;
  }
  record.gated = true;
  ++stats_.gate_refused;
  if (until_s < kMostWait) held_.ask_at = std::min(held_.ask_at, After(now_, FromSeconds(until_s - ask.waited_s)));
  return false;
}

// It waits, and the door's share counts.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::NoteAtDoor(Slot slot) {
  const Request& r = table_[slot].state.request;
  held_.by_arrival.Push(slot, r.arrival, {}, r.id);
}

// That which has waited longest, and long enough for the door's share, of those that could run in a step of these
// limits; kNoSlot where none has.
template <RankPolicy Policy, PausePolicy Pause>
Slot BasicScheduler<Policy, Pause>::Elder() {
  const Duration enough = FromSeconds(held_.door.after_s);
  if (!(held_.door.share > 0) || now_ < held_.next_door || Between(held_.oldest, now_) < enough) return kNoSlot;
  Slot elder = kNoSlot;
  held_.oldest = held_.by_arrival.next();
  held_.by_arrival.VisitInOrder([&](Slot slot) {
    const Record& record = table_[slot];
    if (Between(record.state.request.arrival, now_) < enough) return false;
    if (MayStandAtDoor(record)) elder = slot;
    return elder == kNoSlot;
  });
  return elder;
}

// Not what the policy declines, nor what waits for reasons of its own, perhaps for ever: all behind it would wait with
// it. What waits for its adapter does stand there, as long as there is a place for any.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MayStandAtDoor(const Record& record) const {
  const Request& r = record.state.request;
  const WaitsFor reason = PassedOverFor(record);
  if (reason != WaitsFor::kNothing && (reason != WaitsFor::kAdapter || budget_.limits.adapters < 1)) return false;
  return r.chunkable || record.computed > 0 || budget_.WouldFit(r.prompt_tokens.value - record.state.cached.value);
}

// As AdmitWaiting, by the ledger. Those that the gate keeps out are passed over, at most kMostGated in a plan.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitThroughGate() {
  held_.sum.reset(), held_.copies_sum.reset();
  TellGate();
  const Slot elder = Elder();
  if (elder == kNoSlot && held_.in_vain && held_.vain_changes == held_.changes && now_ < held_.ask_at &&
      Between(held_.vain_at, now_) < std::chrono::milliseconds(50)) {
    held_.refused = true;
    draft_.top_waits_for = WaitsFor::kGate;
    return;
  }
  held_.in_vain = false;
  held_.ask_at = kNever;
  LookUpHits();
  if (elder != kNoSlot) {
    const double cost = held_.gate.PrefillSeconds(AskFor(table_[elder], 0, table_[elder].state.cached.value));
    held_.elder = elder;
    const Fit fit = TryAdmit(elder);
    held_.elder = kNoSlot;
    if (fit == Fit::kAdmitted) {
      ++stats_.gate_doors;
      held_.next_door = After(now_, FromSeconds(std::clamp(cost / held_.door.share, 0.0, kMostWait)));
    }
    // While it does not fit nobody else is let in.
    const bool adapter = fit == Fit::kSkip && draft_.top_waits_for == WaitsFor::kAdapter;
    if (fit == Fit::kStop || adapter) return;
  }
  // Mostly the first ones run, or the rest waits for them. More and more others are listed once these have been tried,
  // and all before a row that gives way joins the queue.
  search_.slots.clear();
  std::size_t most = static_cast<std::size_t>(options_.admission_window);
  const auto list = [&] {
    auto listed = static_cast<std::size_t>(
        std::ranges::count_if(search_.slots, [this](Slot slot) { return queue_.contains(slot); }));
    queue_.ForEachInOrder([&](Slot slot) {
      if (listed > 0) {
        --listed;
      } else {
        search_.slots.push_back(slot);
      }
      return search_.slots.size() < most;
    });
  };
  list();
  std::int32_t window = options_.admission_window;
  constexpr int kMostGated = 4096;
  int gated = 0;
  bool any_gated = false;
  held_.stuck = false;
  for (std::size_t i = 0;; ++i) {
    if (i == search_.slots.size() && gated < kMostGated && most < SIZE_MAX) {
      most = i < most ? SIZE_MAX : 16 * std::max<std::size_t>(most, 1);
      list();
    }
    if (i == search_.slots.size() || gated == kMostGated) {
      // Nothing runs, and all that wait keep each other out, perhaps: once more.
      if (gated == 0 || held_.stuck || counts_.rows > 0) break;
      held_.stuck = true, held_.refused = false, i = 0, gated = 0;
    }
    const Slot slot = search_.slots[i];
    if (!queue_.contains(slot)) continue;
    const Fit fit = TryAdmit(slot);
    if (fit == Fit::kStop) {
      const bool by_rank = options_.preempt == PreemptMode::kByRank;
      const std::uint32_t worst = by_rank && most < SIZE_MAX ? Worst(true) : kNoLane;
      if (worst != kNoLane && Outranks(slot, worst)) most = SIZE_MAX, list();
      const bool freed = (by_rank && MakeWayFor(slot)) || (draft_.top_waits_for == WaitsFor::kKv && AdmitKept());
      if (!freed) return;
      --i;  // once more
      continue;
    }
    held_.stuck &= counts_.rows == 0;
    if (fit != Fit::kSkip) continue;
    if (draft_.top_waits_for == WaitsFor::kGate) ++gated, any_gated = true;
    const bool free = draft_.top_waits_for == WaitsFor::kGate || draft_.top_waits_for == WaitsFor::kDeclined ||
                      NeedsLargerStep(table_[slot]);
    if (!free && --window == 0) return;
  }
  if (!any_gated) return;
  draft_.top_waits_for = WaitsFor::kGate;
  held_.in_vain = true;
  held_.vain_changes = held_.changes;
  held_.vain_at = now_;
}

// A gate that moves with how the engine fares hears of it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TellGate() {
  const double every_s = held_.gate.TellEvery();
  if (!(every_s > 0) || now_ < held_.tell_at) return;
  if (held_.prompt_tokens > 0) held_.hits = held_.cached_tokens / held_.prompt_tokens;
  const double total = std::max(kv_.ledger.total(), 1);
  const double state = held_.gate.Told(held_.state, {kv_.ledger.used() / total, held_.hits, counts_.rows});
  if (state != held_.state) ++held_.changes;
  held_.state = state;
  held_.tell_at = After(now_, FromSeconds(std::min(every_s, kMostWait)));
  held_.prompt_tokens = held_.cached_tokens = 0;
}

// When the gate may let in what it has refused.
template <RankPolicy Policy, PausePolicy Pause>
TimePoint BasicScheduler<Policy, Pause>::AskGateAt() const {
  TimePoint at = std::min(held_.ask_at, After(now_, std::chrono::milliseconds(500)));
  if (held_.door.share > 0 && held_.oldest != kNever) {
    at = std::min(at, std::max(held_.next_door, After(held_.oldest, FromSeconds(held_.door.after_s))));
  }
  return std::max(at, After(now_, std::chrono::milliseconds(1)));
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_HOLDING_H_
