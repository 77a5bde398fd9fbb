// The life of a router's requests, from arrival to end.
#ifndef TAKT_ROUTER_REQUESTS_H_
#define TAKT_ROUTER_REQUESTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <variant>

#include "takt/base/time_heap.h"
#include "takt/policy/rank_policy.h"
#include "takt/queue/rank_queue.h"
#include "takt/router/book.h"
#include "takt/router/placement_hooks.h"
#include "takt/state/revise.h"
#include "takt/state/waiting_book.h"

namespace takt::internal {

// Invariant: the queue has exactly the requests with the status kWaiting, and `set_aside` those with kSetAside.
// `expiries` contains each request that may expire, until it is placed.
template <RankPolicy Policy, PlacementPolicy Placer>
struct RouterRequests : RouterBook {
  RouterRequests(const RouterOptions& from, Policy policy, Placer placement, Placer decode_placement)
      : RouterBook(from),
        queue(std::move(policy)),
        placer(std::move(placement)),
        decode_placer(std::move(decode_placement)),
        book(QueueBounds(from)) {
    queue.KeyHashes(options.hash_seed);
    book.KeyHashes(Mix64(options.hash_seed));
    placer.KeyHashes(options.hash_seed);
    decode_placer.KeyHashes(options.hash_seed);
    ReserveSlots(static_cast<std::size_t>(options.reserve_requests));
  }

  void ReserveSlots(std::size_t slots) {
    table.Reserve(slots);
    queue.Reserve(slots);
    expiries.Reserve(slots);
    book.Reserve(slots);
    slots_reserved = slots;
  }
  void MakeRoomFor(const RouterEvent& event) {
    if (const auto* arrived = std::get_if<Arrived>(&event)) {
      if (!table.HasSlot() && table.slots() >= slots_reserved) {
        ReserveSlots(std::max<std::size_t>(2 * slots_reserved, 16));
      }
      table.MakeRoomFor(arrived->request);
    }
    RouterBook::MakeRoomFor(event);
  }

  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table[slot].state; };
  }

  // ---- waiting ------------------------------------------------------------------------------------------------------

  void Arrive(const Request& r) {
    ++stats.arrived;
    const Slot slot = table.Insert(r);
    RouteRecord& record = table[slot];
    Sanitize(record.state.request, now());
    const WorkflowTable::Made made = calls.Make(record.state, instances.all(), now());
    if (!Note(made.fault) || made.ready) {
      Enqueue(slot, RequestStatus::kUnknown, TransitionReason::kArrived);
    } else {
      ++stats.held;
      Moved(record, RequestStatus::kUnknown, RequestStatus::kBlocked, TransitionReason::kArrived);
      record.state.enqueued = now();
    }
    ExpectExpiry(slot);
  }

  void Enqueue(Slot slot, RequestStatus from, TransitionReason why) {
    RouteRecord& record = table[slot];
    record.status = RouteStatus::kWaiting;
    record.state.enqueued = now();
    record.place = {};
    calls.SetDeadline(record.state, instances.all(), now());
    queue.Push(slot, record.state, now());
    Moved(record, from, RequestStatus::kWaiting, why);
    if (!record.state.taken) book.Join(slot, record.state.request, now());
  }

  // Sets aside a waiting request that fits no instance that is up.
  void SetAside(Slot slot) {
    queue.Erase(slot);
    table[slot].status = RouteStatus::kSetAside;
    set_aside.Add(table, slot);
    Moved(table[slot], RequestStatus::kWaiting, RequestStatus::kBlocked, TransitionReason::kBlocked);
  }
  // Puts all requests that were set aside back into the queue, because a new instance may be large enough.
  void TakeBackAside() {
    set_aside.TakeAll(table, scratch), Sort(scratch);
    for (const Slot slot : scratch) {
      const TimePoint since = table[slot].state.enqueued;
      Enqueue(slot, RequestStatus::kBlocked, TransitionReason::kUnblocked);
      table[slot].state.enqueued = since;  // its time limits continue
    }
  }

  // A policy that chooses receives the requests in the order of their keys.
  void Sort(std::vector<Slot>& slots) const {
    if (!queue.hooks().chooses) return;
    std::ranges::sort(slots, {}, [this](Slot slot) { return queue.PeekKey(table[slot].state, now()); });
  }

  // Makes a request expire at its expiry time, or at a time limit that counts from its last change of status.
  void ExpectExpiry(Slot slot) {
    const RouteRecord& record = table[slot];
    const Request& r = record.state.request;
    TimePoint at = r.expires_at;
    if (record.status == RouteStatus::kHeld) {
      if (options.max_held > 0) at = std::min(at, After(record.state.enqueued, FromSeconds(options.max_held)));
    } else {
      at = std::min(at, book.bounds().WaitEnds(r, record.state.enqueued));
    }
    if (at != kNever) expiries.Push(slot, at, {}, r.id);
  }
  void Expire() {
    while (!expiries.empty() && expiries.next() <= now()) {
      const Slot slot = expiries.Top();
      ++stats.failed_expired;
      notices.refused.push_back({table[slot].state.request.id, FailReason::kExpired});
      End(slot, TransitionReason::kExpired);
    }
  }

  // Sheds requests that were never placed until all bounds hold: of tenants, then of classes, then of the queue.
  void Shed() {
    WaitingBook::Excess over;
    while ((over = book.OverTenantOrClass()).slot != kNoSlot || (over = book.OverAll()).slot != kNoSlot) {
      const Duration after = book.RetryAfter(over, now());
      const bool none_up = instances.all().empty();
      const FailReason reason = none_up ? FailReason::kNoInstance : over.reason();
      Failure failure{.request = table[over.slot].state.request.id, .reason = reason};
      if (!none_up) failure.retry_after_ms = static_cast<std::uint32_t>((after.count() + 999'999) / 1'000'000);
      ++(none_up                              ? stats.failed_no_instance
         : over.scope == WaitingBook::kTenant ? stats.failed_quota
                                              : stats.failed_shed);
      notices.failed.push_back(failure);
      book.Leave(over.slot, false, now());
      End(over.slot, ReasonOf(reason));
    }
  }

  // If no instance has been up for too long, fails all waiting requests except held ones.
  void FailWithoutInstance() {
    if (!instances.all().empty()) return void(down_since = kUnset);
    if (down_since == kUnset) down_since = now();
    if (!(options.max_down > 0) || now() < DownUntil()) return;
    TakeBackAside();
    while (!queue.empty()) {
      const Slot slot = queue.Top();
      ++stats.failed_no_instance;
      notices.failed.push_back({.request = table[slot].state.request.id, .reason = FailReason::kNoInstance});
      End(slot, TransitionReason::kNoInstance);
    }
  }
  // Returns the time at which waiting requests fail if no instance comes up; kNever: none waits, or an instance is up.
  TimePoint DownUntil() const {
    return down_since == kUnset || !(options.max_down > 0) ? kNever : After(down_since, FromSeconds(options.max_down));
  }

  // Prepares OptionsChanged for these options.
  void MakeRoomFor(const RouterOptions& to) {
    book.ReserveFor(QueueBounds(to), std::max(slots_reserved, table.slots()));
    scratch.clear();
    MakeRoom(scratch, std::max(table.slots(), static_cast<std::size_t>(to.window) + 1));
    expiries.Reserve(table.slots());
  }
  // The options have changed from `before`. If a bound has changed, the requests that were never placed join their
  // classes again, in the order in which they joined the queue.
  void OptionsChanged(const RouterOptions& before) {
    if (const QueueBounds bounds(options); bounds != book.bounds()) {
      scratch.clear();
      for (Slot slot = 0; slot < table.slots(); ++slot) {
        if (Waits(slot) && !table[slot].state.taken) scratch.push_back(slot);
      }
      const auto request_of = [this](Slot slot) -> const Request& { return table[slot].state.request; };
      std::ranges::sort(scratch, {}, [&](Slot slot) {
        return std::tuple(table[slot].state.enqueued, request_of(slot).arrival, request_of(slot).id);
      });
      book.Change(bounds, scratch, request_of, now());
    }
    for (Slot slot = 0; slot < table.slots(); ++slot) {
      if (!Waits(slot) && table[slot].status != RouteStatus::kHeld) continue;
      expiries.Erase(slot), ExpectExpiry(slot);
    }
    if (options.fail_unfit && !before.fail_unfit) TakeBackAside();
  }

  // ---- on an instance -----------------------------------------------------------------------------------------------

  // Returns the placement that chooses and observes instances of this role.
  PlacementHooks<Placer>& PlacerOf(const Instance& i) {
    return i.role == InstanceRole::kDecode ? decode_placer : placer;
  }

  // Places a request that has left the queue on this instance. If `decode` is not null, that instance takes the request
  // over at the end of the prefill.
  void Assign(Slot slot, InstanceState& instance, InstanceState* decode = nullptr) {
    RouteRecord& record = table[slot];
    const RequestStatus from = StatusOf(std::exchange(record.status, RouteStatus::kPlaced));
    const bool again = std::exchange(record.state.taken, true);
    record.place = instance.instance.id;
    expiries.Erase(slot);
    book.Leave(slot, true, now());
    placed.Add(table, slot, instance, record.state.request.prompt_tokens.value, now());
    if (options.model_tokens) TakePrediction(record.state.request, instance.instance.model);
    instance.last_placed = ++stats.placed;
    instance.UseAdapter(record.state.request.adapter);
    notices.placed.push_back({record.state.request.id, instance.instance.id, instance.instance.life});
    calls.Sent(record.state, instance, instances.all(), now());
    PlacerOf(instance.instance).Placed(record.state, instance, now());
    if (decode != nullptr) ++stats.placed_apart, SetDecode(slot, *decode);
    // Report the prompt to the policy at once, without waiting for the instance. Otherwise one group could fill all
    // instances at once.
    Charge(slot, {record.state.request.prompt_tokens, {}});
    queue.ReadGroupsAgain();
    Moved(record, from, RequestStatus::kRunning, again ? TransitionReason::kResumed : TransitionReason::kAdmitted);
  }

  // Chooses the decode instance of a placed request that computes its prompt elsewhere.
  void SetDecode(Slot slot, InstanceState& decode) {
    RouteRecord& record = table[slot];
    const bool waited = std::exchange(record.lacks_decode, false);
    if (waited) lacking.Remove(table, slot);  // both lists use the same links
    record.decode = decode.instance.id;
    decode.last_placed = stats.placed;
    decode.UseAdapter(record.state.request.adapter);
    placed.Expect(table, slot, decode);
    decode_placer.Placed(record.state, decode, now());
    notices.decodes.push_back({record.state.request.id, decode.instance.id, decode.instance.life});
    if (waited && std::exchange(record.prefilled, false)) HandOver(slot);
  }

  // Moves a placed request to its decode instance. Without one, the request moves when it gets one.
  void HandOver(Slot slot) {
    RouteRecord& record = table[slot];
    InstanceState& from = *instances.Find(record.place);
    if (!record.decode) {
      record.prefilled = record.lacks_decode;
      placed.Serve(record, from, {record.state.request.prompt_tokens, {}});
      return;
    }
    ++stats.handed_over;
    placed.Remove(table, slot, from);
    from.UseAdapter(record.state.request.adapter);
    placer.Released(record.state, from, now());
    record.place = std::exchange(record.decode, {});
    InstanceState& to = *instances.Find(record.place);
    placed.ExpectNoMore(table, slot, to);
    placed.Add(table, slot, to, 0, now());
  }

  // Releases the decode leg of a placed request that computes its prompt elsewhere.
  void ReleaseDecode(Slot slot) {
    RouteRecord& record = table[slot];
    if (std::exchange(record.lacks_decode, false)) lacking.Remove(table, slot);
    record.prefilled = false;
    if (!record.decode) return;
    InstanceState& decode = *instances.Find(std::exchange(record.decode, {}));
    placed.ExpectNoMore(table, slot, decode);
    decode_placer.Released(record.state, decode, now());
  }

  // Requests whose prompt is on another instance stay there, and need another decode instance.
  void LoseDecodes(const InstanceState& gone) {
    placed.TakeExpected(table, gone, scratch);
    for (const Slot slot : scratch) {
      ++stats.decode_lost;
      decode_placer.Released(table[slot].state, gone, now());
      table[slot].decode = {};
      table[slot].lacks_decode = true;
      lacking.Add(table, slot);
    }
  }

  // Puts the requests of an instance that went down back into the queue.
  void ReturnAll(const InstanceState& gone) {
    placed.TakeAll(table, gone, scratch), Sort(scratch);
    for (const Slot slot : scratch) ReturnOne(slot, gone, table[slot].decode);
  }

  // Puts a request that lost its decode instance back into the queue, and withdraws it from its prefill instance.
  void ReturnPrefilled(Slot slot) {
    InstanceState& from = *instances.Find(table[slot].place);
    placed.Remove(table, slot, from);
    from.UseAdapter(table[slot].state.request.adapter);
    ReturnOne(slot, from, from.instance.id);
  }

  // Records the reported tokens of a placed request.
  void Serve(Slot slot, const TokensServed& served) {
    RequestState& state = table[slot].state;
    state.generated = std::max(state.generated, Tokens{served.output.value / state.request.sequences});
    state.has_run |= served.prefill > Tokens{0} || served.output > Tokens{0};
    table[slot].charged.reported = true;
    placed.Serve(table[slot], *instances.Find(table[slot].place), served);
    Charge(slot, served);
  }

  // If a finished request has no report, reports its expected output to the policy.
  void ChargeExpected(Slot slot) {
    const Request& r = table[slot].state.request;
    if (!r.output_tokens.known()) return;
    constexpr double kMost = 1e9;
    const double cap = r.max_output_tokens.value > 0 ? r.max_output_tokens.value : kMost;
    const double output = std::min(std::min(r.output_tokens.mean, cap) * r.sequences, kMost);
    Charge(slot, {{}, {static_cast<std::int32_t>(output)}});
  }

  // ---- ends ---------------------------------------------------------------------------------------------------------

  // Forgets a living request in any state. Its stage is complete if it has finished.
  void End(Slot slot, TransitionReason why) {
    const bool well = why == TransitionReason::kFinished;
    Moved(table[slot], StatusOf(table[slot].status), RequestStatus::kDead, why);
    switch (table[slot].status) {
      case RouteStatus::kPlaced: {
        InstanceState& instance = *instances.Find(table[slot].place);
        placed.Remove(table, slot, instance);
        instance.UseAdapter(table[slot].state.request.adapter);
        PlacerOf(instance.instance).Released(table[slot].state, instance, now());
        ReleaseDecode(slot);
        break;
      }
      case RouteStatus::kWaiting: queue.Erase(slot); break;
      case RouteStatus::kSetAside: set_aside.Remove(table, slot); break;
      case RouteStatus::kHeld:
      case RouteStatus::kUnknown: break;
    }
    expiries.Erase(slot);
    book.Leave(slot, false, now());
    table[slot].state.cut = !well;
    queue.Forget(slot, table[slot].state, now());
    table.Erase(slot);
    if (!calls.table().contains(slot)) return;
    calls.Ended(slot, well, now());
    Follow(FailReason::kHost);
  }

  // Applies the changes of the workflows. Calls of a workflow that is over fail with `reason`.
  void Follow(FailReason reason) {
    WorkflowTable& workflows = calls.table();
    for (const Slot slot : workflows.released()) {
      Enqueue(slot, RequestStatus::kBlocked, TransitionReason::kUnblocked);
      expiries.Erase(slot), ExpectExpiry(slot);
    }
    workflows.released().clear();
    for (const Slot slot : workflows.dropped()) {
      ++stats.dropped;
      notices.refused.push_back({table[slot].state.request.id, reason});
      End(slot, ReasonOf(reason));  // the workflow table has already dropped it
    }
    workflows.dropped().clear();
    stats.workflows_ended += workflows.ended().size();
    notices.ending.insert(notices.ending.end(), workflows.ended().begin(), workflows.ended().end());
    workflows.ended().clear();
  }

  RankQueue<Policy> queue;
  PlacementHooks<Placer> placer;  // of instances that compute prompts
  PlacementHooks<Placer> decode_placer;  // of instances for decode
  WaitingBook book;
  TimeHeap expiries;
  TimePoint down_since = kUnset;  // first Place without an instance since the last InstanceUp
  SlotList set_aside;
  std::size_t slots_reserved = 0;

 private:
  bool Waits(Slot slot) const {
    return table[slot].status == RouteStatus::kWaiting || table[slot].status == RouteStatus::kSetAside;
  }
  // Returns the prediction for a model, possibly unknown.
  static Estimate PredictionFor(const Request& r, ModelId model) {
    constexpr float kMost = 1e9f;
    Estimate prediction;
    for (const ModelScore& score : r.scores) {
      if (score.model != model || !(score.tokens >= 0)) continue;
      prediction = Estimate::Exact(static_cast<double>(std::min(score.tokens, kMost)));
    }
    return prediction;
  }
  // Gives the prediction for the chosen model to the engine's order. Source: Chimera, algorithm 1, lines 27 to 33.
  static void TakePrediction(Request& r, ModelId model) {
    if (const Estimate prediction = PredictionFor(r, model); prediction.known()) r.workflow_tokens_left = prediction;
  }

  // Puts a request that has left the instance `from` back into the queue. `withdrawn`: an instance that is up and still
  // has a leg of the request; none: no instance has one.
  void ReturnOne(Slot slot, const InstanceState& from, InstanceId withdrawn) {
    RouteRecord& record = table[slot];
    Request& r = record.state.request;
    ++stats.returned;
    PlacerOf(from.instance).Released(record.state, from, now());
    if (withdrawn) notices.withdrawing.push_back({r.id, withdrawn, instances.Find(withdrawn)->instance.life});
    ReleaseDecode(slot);
    record.state.generated = {};
    record.charged.reported = false;
    // The prediction for the old model does not hold for another model.
    if (options.model_tokens && r.workflow_tokens_left == PredictionFor(r, from.instance.model)) {
      r.workflow_tokens_left = {};
    }
    Enqueue(slot, RequestStatus::kRunning, TransitionReason::kInstanceLost);
    ExpectExpiry(slot);
  }

  // Reports tokens to the policy, without tokens that were already reported for the request.
  void Charge(Slot slot, const TokensServed& served) {
    const RequestState& state = table[slot].state;
    const Charged::More more = table[slot].charged.RaiseTo(served, state.request.sequences);
    if (more.prefill > Tokens{0}) queue.Scheduled(state, more.prefill, {});
    if (more.output > Tokens{0}) queue.Scheduled(state, {}, more.output, more.steps);
  }
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_REQUESTS_H_
