// Decides whether a waiting request may take KV that is held for workflows.
#ifndef TAKT_SCHEDULER_GATE_H_
#define TAKT_SCHEDULER_GATE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/base/time_heap.h"
#include "takt/turns/gates/any_gate.h"

namespace takt::internal {

// The KV that is held for workflows, as a gate sees it.
class HoldingsOrder final : public HeldOrder {
 public:
  HoldingsOrder(Holdings& holdings, TimePoint now, std::optional<double>& sum)
      : holdings_(&holdings), now_(now), sum_(&sum) {}

  void Walk(std::int32_t blocks, FunctionRef<bool(const HeldVictim&)> take) const override {
    holdings_->Walk(blocks, now_, take);
  }
  void ForEach(FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> visit) const override {
    holdings_->ForEach(visit);
  }
  double Sum(FunctionRef<double(const Holding&)> of) const override {
    if (!*sum_) *sum_ = HeldOrder::Sum(of);
    return **sum_;
  }

 private:
  Holdings* holdings_;
  TimePoint now_;
  std::optional<double>* sum_;  // cached result of Sum; empty if outdated
};

// The gate policy, its door, and the signals that both use. The door admits the oldest requests at a limited rate. This
// bounds how long requests wait at the gate.
//
// Invariant: changes() grows whenever the gate's answers may change. by_arrival_ contains all waiting requests if the
// door's share is not 0.
class Gate {
 public:
  Gate(EngineState& s, Kv& kv) : s_(s), kv_(kv) {}

  // Maximum waiting requests that one plan may examine without admission, or look up in the prefix cache.
  static constexpr std::size_t kMostLooks = 128;

  bool open() const { return gate_.open(); }  // the gate admits every request without a question
  void Changed() { ++changes_; }
  std::uint64_t changes() const { return changes_; }

  // Reserves memory for SetPolicy.
  void Prepare(const GateDoor& door, std::size_t requests) {
    if (door.share > 0) by_arrival_.Reserve(requests);
  }
  // Sets another gate policy. Allocates nothing after Prepare.
  void SetPolicy(AnyGate gate, const GateDoor& door) {
    gate_ = std::move(gate);
    door_ = door;
    by_arrival_.Clear();
    for (Slot slot = 0; door.share > 0 && slot < s_.table.slots(); ++slot) {
      if (s_.queue.contains(slot)) NoteAtDoor(slot);
    }
    state_ = 0, update_at_ = {}, next_door_ = kUnset;
    Changed();
  }
  void Reserve(std::size_t slots) {
    if (door_.share > 0) by_arrival_.Reserve(slots);
  }

  // Reports that a request joined or left the queue.
  void Joined(Slot slot) {
    Changed();
    oldest_ = std::min(oldest_, s_.table[slot].state.request.arrival);
    if (door_.share > 0) NoteAtDoor(slot);
  }
  void Left(Slot slot) {
    Changed();
    by_arrival_.Erase(slot);
  }
  // Counts the prompt tokens of a request that starts to run, and its cached tokens.
  void CountHits(std::int32_t prompt, std::int32_t cached) { prompt_tokens_ += prompt, cached_tokens_ += cached; }

  void BeginPlan() { refused_ = false; }
  // Starts a search, which computes the sums over the holdings anew.
  void BeginSearch() { sum_.reset(), copies_sum_.reset(); }
  // Resets the time of the next question, before a search that sets a new time.
  void ForgetAskTime() { ask_at_ = kNever; }
  bool AskIsDue() const { return s_.now >= ask_at_; }
  // Repeats the result of the last search, which refused waiting requests.
  void RefuseAsBefore() { refused_ = true; }
  // Nothing runs, and the waiting requests may block each other (GateAsk::stuck).
  bool stuck() const { return stuck_; }
  void SetStuck(bool stuck) { stuck_ = stuck; }
  void AskAgain() { refused_ = false; }
  bool refused() const { return refused_; }

  double PrefillSeconds(const Record& record) const {
    return gate_.PrefillSeconds(AskFor(record, 0, record.state.cached.value));
  }
  // Counts an admission through the door. `seconds`: prefill time of the request.
  void UseDoor(double seconds) {
    ++s_.stats.gate_doors;
    next_door_ = After(s_.now, FromSeconds(std::clamp(seconds / door_.share, 0.0, kMostWait)));
  }

  // Returns the question to the gate policy. `need`: blocks that the request must allocate. `start`: context tokens
  // that are already computed or cached.
  GateAsk AskFor(const Record& record, std::int32_t need, std::int32_t start) const {
    const Request& r = record.state.request;
    return {.workflow = r.workflow,
            .branch = r.branch,
            .tenant = r.tenant,
            .priority = r.priority,
            .need = need,
            .lack = need - (kv_.ledger.free() - kv_.ledger.idle()),
            .block_tokens = kv_.block_tokens,
            .tokens = record.known,
            .cached = start,
            .waited_s = std::max(ToSeconds(Between(r.arrival, s_.now)), 0.0),
            .delayed = static_cast<std::int64_t>(s_.queue.size()) + s_.counts.rows,
            .running = s_.counts.rows,
            .used = kv_.ledger.used(),
            .total = kv_.ledger.total(),
            .hits = prompt_tokens_ > 0 ? cached_tokens_ / prompt_tokens_ : hits_,
            .state = state_,
            .stuck = stuck_,
            .now = s_.now};
  }

  // Returns true if the gate admits the request. A request that has generated output is always admitted.
  bool LetsIn(Record& record, std::int32_t need, std::int32_t start) {
    if (need <= 0 || record.state.generated.value > 0) return true;
    const GateAsk ask = AskFor(record, need, start);
    const GateAsk copies = AskForCopies(record, ask);
    if (ask.lack <= 0 && copies.lack <= 0) return true;
    const bool known = refused_ && start == 0 && ask.lack >= lack_ && ask.need >= need_ &&
                       copies.lack >= copies_lack_ && copies.need >= copies_need_ && ask.tenant == tenant_ &&
                       ask.priority == priority_;
    double until_s = until_s_;
    if (!known || ask.waited_s >= until_s) {
      until_s = 0;
      if (sums_changes_ != changes_) sum_.reset(), copies_sum_.reset();
      sums_changes_ = changes_;
      if (ask.lack > 0) {
        until_s = gate_.LetsInAfter(ask, HoldingsOrder(*kv_.ledger.holdings(), s_.now, sum_));
      }
      if (copies.lack > 0 && until_s <= ask.waited_s) {
        const HoldingsOrder order(*kv_.ledger.copies(), s_.now, copies_sum_);
        until_s = std::max(until_s, gate_.LetsInAfter(copies, order));
      }
      if (until_s <= ask.waited_s) return true;
      if (!refused_ || (ask.lack <= lack_ && ask.need <= need_)) {
        lack_ = ask.lack, need_ = ask.need, until_s_ = until_s;
        copies_lack_ = copies.lack, copies_need_ = copies.need;
        tenant_ = ask.tenant, priority_ = ask.priority;
      }
      refused_ = true;
    }
    record.gated = true;
    ++s_.stats.gate_refused;
    if (until_s < kMostWait) ask_at_ = std::min(ask_at_, After(s_.now, FromSeconds(until_s - ask.waited_s)));
    return false;
  }

  // Lists a waiting request for the door, if the door's share is not 0.
  void NoteAtDoor(Slot slot) {
    const Request& r = s_.table[slot].state.request;
    by_arrival_.Push(slot, r.arrival, {}, r.id);
  }

  // Returns the oldest request that has waited long enough for the door and could run in a step of these limits.
  // Returns kNoSlot if there is none.
  Slot OldestAtDoor() {
    const Duration enough = FromSeconds(door_.after_s);
    if (!(door_.share > 0) || s_.now < next_door_ || Between(oldest_, s_.now) < enough) return kNoSlot;
    Slot oldest = kNoSlot;
    oldest_ = by_arrival_.next();
    by_arrival_.VisitInOrder([&](Slot slot) {
      const Record& record = s_.table[slot];
      if (Between(record.state.request.arrival, s_.now) < enough) return false;
      if (MayUseDoor(record)) oldest = slot;
      return oldest == kNoSlot;
    });
    return oldest;
  }

  // Updates the state of the gate policy from the cache's use and hits.
  void UpdateState() {
    const double every_s = gate_.UpdateEvery();
    if (!(every_s > 0) || s_.now < update_at_) return;
    if (prompt_tokens_ > 0) hits_ = cached_tokens_ / prompt_tokens_;
    const double total = std::max(kv_.ledger.total(), 1);
    const double state = gate_.Update(state_, {kv_.ledger.used() / total, hits_, s_.counts.rows});
    if (state != state_) ++changes_;
    state_ = state;
    update_at_ = After(s_.now, FromSeconds(std::min(every_s, kMostWait)));
    prompt_tokens_ = cached_tokens_ = 0;
  }

  // Returns the earliest time at which the gate may admit a request that it has refused.
  TimePoint AskGateAt() const {
    TimePoint at = std::min(ask_at_, After(s_.now, std::chrono::milliseconds(500)));
    if (door_.share > 0 && oldest_ != kNever) {
      at = std::min(at, std::max(next_door_, After(oldest_, FromSeconds(door_.after_s))));
    }
    return std::max(at, After(s_.now, std::chrono::milliseconds(1)));
  }

 private:
  static constexpr double kMostWait = 1e9;  // [s]

  // Returns the question about host memory. Host memory will get a copy of the request's prefix, and KV evicted from
  // host memory is lost. `lack` is 0 if nothing is evicted.
  GateAsk AskForCopies(const Record& record, const GateAsk& of_gpu) const {
    GateAsk ask = of_gpu;
    ask.need = ask.lack = 0;
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    if (kv_.ledger.copies() == nullptr || chunk_blocks == 0) return ask;
    const auto chunks = static_cast<std::int32_t>(record.state.request.prefix.hashes.size());
    const std::int32_t new_chunks = chunks - kv_.ledger.FindCopies(kv_.Hashes(record, 0, chunks), chunk_blocks);
    const KvUse use = kv_.ledger.use();
    ask.total = std::min(s_.options.prefix_cpu_blocks.value, use.cpu_total.value - use.cpu_used.value);
    ask.used = 0;
    ask.need = std::min(new_chunks * chunk_blocks, ask.total);
    ask.lack = std::max(ask.need - kv_.ledger.copy_room(), 0);
    return ask;
  }

  // Returns false if the policy declines the request or if the request may wait forever. Otherwise such a request would
  // block the door for later requests. A request that waits for its adapter may use the door if limits allow adapters.
  bool MayUseDoor(const Record& record) const {
    const Request& r = record.state.request;
    const WaitsFor reason = s_.PassedOverFor(record);
    if (reason != WaitsFor::kNothing && (reason != WaitsFor::kAdapter || s_.budget.limits.adapters < 1)) return false;
    const std::int32_t cached = record.state.cached.value;
    return record.computed > 0 || s_.budget.Fits(r, cached, record.known - cached);
  }

  EngineState& s_;
  Kv& kv_;
  AnyGate gate_;
  GateDoor door_;
  TimePoint next_door_ = kUnset;  // earliest time of the next admission through the door
  TimePoint oldest_ = kNever;  // lower bound of the arrival of every waiting request
  TimeHeap by_arrival_;  // waiting requests, if the door's share is not 0
  std::uint64_t changes_ = 0;
  std::optional<double> sum_, copies_sum_;  // cached HeldOrder::Sum, valid at sums_changes_
  std::uint64_t sums_changes_ = 0;
  TimePoint ask_at_ = kNever;  // earliest time at which the gate may admit a request that it has refused
  bool stuck_ = false;
  // The last state that the gate policy returned, and the time of its next update.
  double state_ = 0;
  TimePoint update_at_ = {};
  double prompt_tokens_ = 0, cached_tokens_ = 0;  // sums over requests that started since the last update
  double hits_ = 1;  // cached share of prompt tokens, as of the last update
  // The last refusal of this plan. A request with at least this lack and need is refused until it has waited for
  // `until_s_`.
  std::int32_t lack_ = 0, need_ = 0, copies_lack_ = 0, copies_need_ = 0;
  TenantId tenant_ = {};  // of the refused request
  std::int32_t priority_ = 0;
  double until_s_ = 0;
  bool refused_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_GATE_H_
