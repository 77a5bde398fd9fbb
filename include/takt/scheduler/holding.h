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
  held_.joined.reserve(kMostLooks);
  kv_.ledger.MakeRoomToHold(requests);
  table_.FollowWorkflows();
  kv_.ledger.SetPolicy(reads);
  kv_.ledger.BoundHoldings(times.max_open);
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
  table_.FollowWorkflows();
  auto hints = std::make_unique<TurnHints>(value, keyed);
  hints->MakeRoom(std::max<std::size_t>(slots_reserved_, table_.size() + 1));
  held_.hints = std::move(hints);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Hint(const std::optional<CacheHint>& hint) {
  if (hint) notices_.hints.push_back(*hint);
}

// With the tenant of its requests, or of what it holds.
template <RankPolicy Policy, PausePolicy Pause>
BranchName BasicScheduler<Policy, Pause>::NameOf(WorkflowId workflow, std::uint64_t branch) {
  BranchName name{workflow, branch, kv_.ledger.holdings()->TenantOf(workflow, branch)};
  table_.ForEachOf(workflow, [&](const Record& record) {
    if (const Request& r = record.state.request; r.branch == branch) name.tenant = r.tenant;
  });
  return name;
}

// Whose blocks they are that a request gives back.
template <RankPolicy Policy, PausePolicy Pause>
HeldTurn BasicScheduler<Policy, Pause>::TurnOf(const Record& record) const {
  if (!Holds()) return {};
  const Request& r = record.state.request;
  HeldTurn turn{.workflow = r.workflow, .branch = r.branch, .over = record.last_turn, .tenant = r.tenant};
  if (record.status == RequestStatus::kDead) {
    turn.its_class = held_.times->ClassOf(r.workflow, r.branch);
    turn.pinned_until = record.pinned_until;
  }
  return turn;
}

// A request has arrived: its workflow is back.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TurnBegins(const Record& record) {
  const Request& r = record.state.request;
  if (!r.workflow) return;
  held_.times->Returned(r.workflow, r.branch, now_);
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
  } else if (!record.last_turn && !held_.times->IsOpen(r.workflow, r.branch)) {
    held_.times->Began({r.workflow, r.branch, r.tenant}, ReturnClass::kUnknown, now_);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const TurnEnded& e, TimePoint now) {
  if (!e.workflow) return OutOfPlace({});
  if (held_.hints) Hint(held_.hints->On(e, now));
  if (!Holds() && !held_.hints) return;
  if (e.why == TurnWhy::kOver) {
    table_.ForEachOf(e.workflow, [&](Record& record) { record.last_turn |= record.state.request.branch == e.branch; });
  }
  if (!Holds()) return;
  ++held_.changes;
  if (e.why == TurnWhy::kOver) {
    held_.times->Lost(e.workflow, e.branch, now);
    kv_.ledger.End(e.workflow, e.branch);
    return;
  }
  internal::Holdings& holdings = *kv_.ledger.holdings();
  const TimePoint until = e.pin > Duration::zero() ? After(now, e.pin) : kUnset;
  if (until != kUnset || held_.pins) {
    held_.pins = true;
    table_.ForEachOf(e.workflow, [&](Record& record) {  // its blocks are still in use
      if (record.state.request.branch == e.branch) record.pinned_until = until;
    });
    holdings.Pin(e.workflow, e.branch, until);
  }
  const std::uint32_t its_class = held_.times->ClassOf(e);
  if (!held_.times->Told(e.workflow, e.branch, its_class)) {
    held_.times->Began(NameOf(e.workflow, e.branch), its_class, now);
  }
  kv_.ledger.SetClass(e.workflow, e.branch, its_class);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const TurnExpected& e, TimePoint now) {
  if (!e.workflow) return OutOfPlace({});
  if (held_.hints) Hint(held_.hints->On(e, now));
  if (!Holds()) return;
  if (!held_.times->IsOpen(e.workflow, e.branch)) return;  // it is not away, or nothing is known of it
  ++held_.changes;
  const std::uint32_t its_class = ReturnClass::Expected(ToSeconds(e.when) - ToSeconds(now));
  held_.times->Lost(e.workflow, e.branch, now);  // how long it would have stayed away without that is not seen
  held_.times->Began(NameOf(e.workflow, e.branch), its_class, now);
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
  table_.ForEachOf(e.workflow, [](Record& record) { record.last_turn = true; });
  if (!Holds()) return;
  ++held_.changes;
  held_.times->Lost(e.workflow, now);
  kv_.ledger.End(e.workflow);
}

// What is cached of each that waits changes as blocks go that it would have used, which are the last to go, and as
// others compute what it shares with them. At most kMostLooks slots a plan.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LookUpHits() {
  if (held_.to_look_up == 0) {
    const std::uint64_t lost = kv_.ledger.awaited_lost();
    if (lost == held_.lost && Between(held_.looked_up, now_) < std::chrono::seconds(1)) return;
    held_.lost = lost;
    held_.looked_up = now_;
    held_.to_look_up = table_.slots();
  }
  for (std::size_t n = std::min(held_.to_look_up, kMostLooks); n > 0; --n) {
    const auto slot = static_cast<Slot>(--held_.to_look_up);
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
  const std::int32_t cached = record.state.cached.value;
  return record.computed > 0 || budget_.Fits(r, cached, record.known - cached);
}

// As AdmitWaiting, by the ledger. Those that the gate keeps out are passed over. If they are many, a plan looks at the
// first kMostLooks of them and at those that have joined the queue since; a search of all comes once in so many plans
// that they, too, are at most kMostLooks a plan.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitThroughGate() {
  held_.sum.reset(), held_.copies_sum.reset();
  TellGate();
  const Slot elder = Elder();
  const bool due = held_.partly && stats_.plans >= held_.whole_at;
  if (elder == kNoSlot && held_.in_vain && !due && held_.vain_changes == held_.changes && now_ < held_.ask_at &&
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
  // Mostly the first ones run, or the rest waits for them. The others are listed once these have been tried, or before
  // a row that gives way joins the queue.
  search_.slots.clear();
  const bool whole = counts_.rows == 0 || stats_.plans >= held_.whole_at;
  const std::size_t all = whole ? SIZE_MAX
                                : kMostLooks + static_cast<std::size_t>(options_.admission_window) +
                                      static_cast<std::size_t>(options_.max_running);
  std::size_t most = static_cast<std::size_t>(options_.admission_window), looks = 0;
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
  BeginPassing();
  std::int32_t window = options_.admission_window;
  bool gated = false, follows = false, stopped = false;
  held_.partly = false;
  held_.stuck = false;
  for (std::size_t i = 0;; ++i) {
    if (i == search_.slots.size() && std::exchange(most, all) != all) list();
    held_.partly = !whole && (looks >= kMostLooks || i == all);
    if (held_.partly) break;
    if (i == search_.slots.size()) {
      // Nothing runs, and all that wait keep each other out, perhaps: once more.
      if (!gated || held_.stuck || counts_.rows > 0) break;
      held_.stuck = true, held_.refused = false, i = 0;
    }
    const Slot slot = search_.slots[i];
    if (!queue_.contains(slot)) continue;
    const Fit fit = TryAdmit(slot);
    if (fit == Fit::kStop) {
      bool freed = false;
      if (search_.passed.empty()) {
        const bool by_rank = options_.preempt == PreemptMode::kByRank;
        const std::uint32_t worst = by_rank && most < all ? Worst(true) : kNoLane;
        if (worst != kNoLane && Outranks(slot, worst)) most = all, list();
        freed = (by_rank && MakeWayFor(slot)) || (draft_.top_waits_for == WaitsFor::kKv && AdmitKept());
      }
      if (freed) --i;  // once more
      stopped = !freed && (!LetPass(slot) || --window == 0);
      if (stopped) break;
      continue;
    }
    search_.passing += fit == Fit::kAdmitted ? 1 : 0;
    stopped = search_.passing >= search_.most_passing;
    if (stopped) break;
    held_.stuck &= counts_.rows == 0;
    if (fit != Fit::kSkip) continue;
    gated |= draft_.top_waits_for == WaitsFor::kGate;
    follows |= draft_.top_waits_for == WaitsFor::kPrefix;
    const bool free = draft_.top_waits_for == WaitsFor::kGate || draft_.top_waits_for == WaitsFor::kDeclined ||
                      draft_.top_waits_for == WaitsFor::kPrefix || NeedsLargerStep(table_[slot]);
    stopped = !free && --window == 0;
    if (stopped) break;
    looks += free ? 1 : 0;
  }
  if (held_.partly) AdmitJoined();
  if (whole) held_.whole_at = stats_.plans + looks / kMostLooks;
  if (!stopped) held_.joined.clear();
  EndPassing();
  if (stopped || !gated || follows || !search_.passed.empty()) return;
  draft_.top_waits_for = WaitsFor::kGate;
  held_.in_vain = true;
  held_.vain_changes = held_.changes;
  held_.vain_at = now_;
}

// Those that have joined the queue since the last search. Those before them have been looked at, or none of these was
// let in by the last search of all.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitJoined() {
  const WaitsFor reason = draft_.top_waits_for;
  const Slot head = draft_.head;
  for (std::size_t i = 0; i < held_.joined.size() && search_.passing < search_.most_passing; ++i) {
    if (!queue_.contains(held_.joined[i])) continue;
    const Fit fit = TryAdmit(held_.joined[i]);
    if (fit == Fit::kStop) break;
    search_.passing += fit == Fit::kAdmitted ? 1 : 0;
  }
  draft_.top_waits_for = reason;
  draft_.head = head;
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
