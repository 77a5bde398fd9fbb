// Ranks waiting requests by a policy, for hosts that manage admission and KV themselves (level L1).
#ifndef TAKT_QUEUE_WAITING_QUEUE_H_
#define TAKT_QUEUE_WAITING_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/names.h"
#include "takt/base/slot_table.h"
#include "takt/policy/any_policy.h"
#include "takt/queue/rank_queue.h"
#include "takt/queue/ranker.h"
#include "takt/state/request_parts.h"
#include "takt/state/revise.h"

namespace takt {

// Result of a call that names a request. Only kDone and kRequeued change anything.
enum class QueueResult : std::uint8_t {
  kDone,
  kUnknown,  // no request has this id
  kInUse,  // a request with this id exists
  kInvalid,     // no id, or no sequence
  kOutOfPlace,  // the request's place does not allow this call, or no iteration has begun
  kEnded,  // an exception left an earlier call incomplete
  kRequeued,  // Put: the known request waits again
};
constexpr auto NamesOf(QueueResult) {
  return std::to_array<std::string_view>({"done", "unknown", "in_use", "invalid", "out_of_place", "ended", "requeued"});
}

// The place of a request in a queue.
enum class QueuePlace : std::uint8_t {
  kNone,  // the request is not in this queue, or no longer
  kWaiting,  // the request is in the order
  kTaken,  // the request is out of the order until the iteration ends
  kHeld,  // the request is blocked, so it is out of the order until Requeue
  kRunning,  // the request runs on the host's engine
  kPaused,  // the request is in a tool call
};
constexpr auto NamesOf(QueuePlace) {
  return std::to_array<std::string_view>({"none", "waiting", "taken", "held", "running", "paused"});
}

// An iteration of the host's engine:
//
//   queue.Begin(now);                       // promotes requests that are due, takes in keys that moved
//   while (RequestId id = queue.Top()) {    // changes nothing
//     queue.Take(id);                       // the next request comes to the top
//     ...                                   // admit it or not; call Hold(id) if it is blocked
//   }
//   queue.End(ran, now);                    // what ran; other taken requests return to their places
//
// End may name requests that were not taken. So a host with expensive calls, such as one in Python, needs only Begin,
// one List, and End in each iteration. In vLLM's scheduler, 33 single calls per step took 2 to 5 % of its time. These
// three calls had no measurable cost.
//
// Taking a request does not admit it. A taken request that End does not list keeps its rank, waiting count and
// promotion. The same holds if Requeue returns the request earlier. The policy observes neither. The host may add,
// revise and erase requests at any time, also between Begin and End. The order changes at once. A request that ran
// stays known until Erase. Until Requeue, Hold or Pause, the request counts as run in every iteration.
//
// An invalid call changes nothing and returns the reason. Memory is allocated only if more requests are alive than ever
// before. If operator new throws and the host catches it, the call has no effect or ended() returns true.
// Thread-compatible.
template <RankPolicy Policy>
class WaitingQueue {
 public:
  // A request that ran, and the tokens computed for it. A host that learns the tokens later reports them with Computed.
  struct Ran {
    RequestId request;
    Tokens prefill{0};  // known tokens that were computed
    Tokens output{0};  // new tokens per sequence
  };
  // Facts that Revise accepts in addition to the event Revised, for the next input of a streaming session. Schedulers
  // do not accept these facts, because they have already computed the prompt.
  struct Restated {
    std::optional<Tokens> prompt_tokens = {};
    std::optional<TimePoint> arrival = {};  // new arrival time; kUnset: now; the workflow's arrival stays
  };
  // A request on the host's engine, and the KV that its preemption would free.
  struct Holding {
    RequestId request;
    Blocks blocks{0};
  };

  // `hash_seed`: see SchedulerOptions.
  explicit WaitingQueue(Policy policy, std::size_t reserve = 0, std::uint64_t hash_seed = 0)
      : queue_(std::move(policy)) {
    table_.KeyHashes(hash_seed);
    queue_.KeyHashes(hash_seed);
    ReserveSlots(reserve);
  }

  std::size_t size() const { return queue_.size(); }  // number of requests in the order
  bool empty() const { return queue_.empty(); }
  bool contains(RequestId id) const { return place(id) == QueuePlace::kWaiting; }
  QueuePlace place(RequestId id) const {
    const Slot slot = inside_ ? kNoSlot : table_.Find(id);
    return slot == kNoSlot ? QueuePlace::kNone : table_[slot].place;
  }
  std::size_t known() const { return table_.size(); }  // number of requests in any place
  bool iterating() const { return iterating_; }
  const Policy& policy() const { return queue_.policy(); }
  Policy& policy() { return queue_.policy(); }
  PolicyTraits traits() const { return TraitsOf(queue_.policy()); }

  // Returns true if an exception, for example from a policy, left a call incomplete. Then no request is known, and
  // calls have no effect.
  bool ended() const { return inside_; }

  // Adds a request, whose unset times become `now`.
  QueueResult Push(const Request& request, TimePoint now) {
    if (inside_) return QueueResult::kEnded;
    if (!request.id || request.sequences < 1) return QueueResult::kInvalid;
    if (table_.Find(request.id) != kNoSlot) return QueueResult::kInUse;
    if (!table_.HasSlot() && table_.slots() >= slots_reserved_) {
      ReserveSlots(std::max<std::size_t>(2 * slots_reserved_, 16));
    }
    const bool parts = internal::RequestParts::Any(request);
    if (parts) parts_.MakeRoom(table_.MakeSlot(), request);
    inside_ = true;
    now_ = std::max(now, now_);
    const Slot slot = table_.Insert(request.id);
    table_[slot] = {.state = {.request = request, .slot = slot}};
    Request& r = table_[slot].state.request;
    if (parts) parts_.Keep(slot, r);
    internal::Sanitize(r, now);
    Notify(Arrived{r}, now);
    Wait(slot, now, 0);
    return Done();
  }

  // Calls Push, or Requeue if the request is known; returns kDone or kRequeued. A requeued request keeps its facts; use
  // Revise to change them.
  QueueResult Put(const Request& request, TimePoint now) {
    if (place(request.id) == QueuePlace::kNone) return Push(request, now);
    const QueueResult requeued = Requeue(request.id, now);
    return requeued == QueueResult::kDone ? QueueResult::kRequeued : requeued;
  }

  // Removes a request that ended or was cancelled, in any place.
  QueueResult Erase(RequestId id) {
    Slot slot;
    if (const QueueResult r = Find(id, slot); r != QueueResult::kDone) return r;
    inside_ = true;
    Leave(slot);
    queue_.Forget(slot, table_[slot].state, now_);
    table_[slot].state.request.prefix = {}, table_[slot].state.request.scores = {};
    table_.Erase(slot, id);
    return Done();
  }

  // Changes the facts of a request in any place.
  QueueResult Revise(const Revised& e, TimePoint now, const Restated& restated = {}) {
    Slot slot;
    if (const QueueResult r = Find(e.request, slot); r != QueueResult::kDone) return r;
    inside_ = true;
    Change(slot, now, [&](RequestState& state) {
      internal::Revise(state.request, e);
      if (restated.prompt_tokens) state.request.prompt_tokens = *restated.prompt_tokens;
      if (restated.arrival) state.request.arrival = *restated.arrival == kUnset ? now : *restated.arrival;
      Notify(e, now);
    });
    if (!Ordered(slot)) queue_.Enter(table_[slot].state, now);
    return Done();
  }

  // Sets new tables for a policy that ranks by them. The next Begin orders by the tables.
  QueueResult Set(const Epoch& epoch, TimePoint now) {
    if (inside_) return QueueResult::kEnded;
    inside_ = true;
    Notify(epoch, now);
    return Done();
  }

  // Begins an iteration. An iteration that has not ended is discarded, so taken requests return to their places and
  // nothing counts.
  void Begin(TimePoint now) {
    if (inside_) return;
    inside_ = true;
    now_ = std::max(now, now_);
    GiveBack();
    begun_ = now_;
    queue_.BeginPlan(now, [this](Slot slot) -> const RequestState& { return table_[slot].state; });
    iterating_ = true;
    inside_ = false;
    Foresee();
  }

  // Returns the first request in order as of the last Begin; zero if none waits. O(1), changes nothing.
  RequestId Top() const {
    const Slot top = inside_ ? kNoSlot : queue_.Top();
    return top == kNoSlot ? RequestId{} : table_[top].state.request.id;
  }

  // Lists the first requests in order, as many as `first` has room for. Returns their number, k. O(k log k), changes
  // nothing.
  std::size_t List(std::span<RequestId> first) const {
    if (inside_) return 0;
    std::size_t n = 0;
    queue_.TopK(first.size(), [&](Slot slot) { first[n++] = table_[slot].state.request.id; });
    return n;
  }

  // Takes a waiting request out of the order until the iteration ends. O(log waiting).
  QueueResult Take(RequestId id) {
    Slot slot;
    if (const QueueResult r = Find(id, slot); r != QueueResult::kDone) return r;
    if (!iterating_ || table_[slot].place != QueuePlace::kWaiting) return QueueResult::kOutOfPlace;
    inside_ = true;
    queue_.SetAside(slot);
    Join(taken_, slot, QueuePlace::kTaken);
    table_[slot].state.taken = true;
    Foresee();
    return Done();
  }

  // Takes a blocked request out of the order until Requeue, for example while a grammar compiles or its KV is loaded.
  // While the request is held, its waiting does not count.
  QueueResult Hold(RequestId id) {
    Slot slot;
    if (const QueueResult r = Find(id, slot); r != QueueResult::kDone) return r;
    if (table_[slot].place == QueuePlace::kHeld || table_[slot].place == QueuePlace::kPaused) {
      return QueueResult::kOutOfPlace;
    }
    inside_ = true;
    queue_.Ran(slot, Leave(slot));
    table_[slot].state.taken = table_[slot].state.has_run;
    table_[slot].place = QueuePlace::kHeld;
    return Done();
  }

  // Pauses a request for a tool call. Requeue brings it back.
  QueueResult Pause(const ToolCalled& call, TimePoint now) {
    Slot slot;
    if (const QueueResult r = Find(call.request, slot); r != QueueResult::kDone) return r;
    if (table_[slot].place == QueuePlace::kPaused) return QueueResult::kOutOfPlace;
    inside_ = true;
    Notify(call, now);
    queue_.Ran(slot, Leave(slot));  // the tool call may end the promotion
    queue_.ToolCalled(slot);
    table_[slot].state.taken = table_[slot].state.has_run;
    table_[slot].place = QueuePlace::kPaused;
    return Done();
  }

  // Makes a request wait again. A taken request gets its former place; other requests wait from now on.
  QueueResult Requeue(RequestId id, TimePoint now) {
    Slot slot;
    if (const QueueResult r = Find(id, slot); r != QueueResult::kDone) return r;
    if (table_[slot].place == QueuePlace::kWaiting) return QueueResult::kOutOfPlace;
    inside_ = true;
    if (table_[slot].place == QueuePlace::kTaken) {
      Unlist(taken_, slot);
      PutBack(slot);
    } else {
      const std::int64_t steps_run = Leave(slot);
      Wait(slot, now, steps_run);
    }
    return Done();
  }

  // Ends the iteration. `ran` lists every request that started in this iteration: taken, held or neither. It may also
  // list running requests, to report their tokens. Waiting is counted in iterations in which anything ran, listed or
  // not. `pressure`: the resource that the first request lacked, for policies that price resources. Returns how many
  // requests of `ran` run; the other requests are unknown or paused.
  std::size_t End(std::span<const Ran> ran, TimePoint now, const QueuePressure* pressure = nullptr) {
    if (inside_) return 0;
    inside_ = true;
    now_ = std::max(now, now_);
    std::size_t counted = 0;
    if (queue_.hooks().chooses) GiveBack(RanInOrder(ran));
    for (const Ran& r : ran) {
      const Slot slot = table_.Find(r.request);
      if (slot == kNoSlot || table_[slot].place == QueuePlace::kPaused) continue;
      Entry& entry = table_[slot];
      if (entry.place != QueuePlace::kRunning) {
        Leave(slot, true);
        Join(running_, slot, QueuePlace::kRunning);
        entry.state.taken = entry.state.has_run = true;
        entry.picked_at = iterations_;
      }
      if (r.prefill.value > 0 || r.output.value > 0) Charge(entry.state, r.prefill, r.output);
      ++counted;
    }
    GiveBack();
    iterating_ = false;
    const bool something_ran = !running_.empty();
    queue_.EndPlan(something_ran);
    iterations_ += something_ran ? 1 : 0;
    if (pressure != nullptr) queue_.ReportPressure(*pressure, now);
    inside_ = false;
    return counted;
  }

  // Reports tokens of a request that runs or was preempted, at any time after the End that listed it. Only policies
  // that charge for tokens use them.
  QueueResult Computed(const Ran& ran) {
    Slot slot;
    if (const QueueResult r = Find(ran.request, slot); r != QueueResult::kDone) return r;
    if (!table_[slot].state.has_run) return QueueResult::kOutOfPlace;
    inside_ = true;
    Change(slot, now_, [&](RequestState& state) { Charge(state, ran.prefill, ran.output); });
    return Done();
  }

  // Reports the tokens of a whole step. Each running request that is not listed got `rest_output` tokens. List only
  // exceptions, which include running requests that were not in the step. Returns how many of `ran` were counted.
  // O(running) if `rest_output` is not 0.
  std::size_t Computed(std::span<const Ran> ran, Tokens rest_output) {
    std::size_t counted = 0;
    ++steps_reported_;
    for (const Ran& r : ran) {
      if (Computed(r) != QueueResult::kDone) continue;
      table_[table_.Find(r.request)].listed_in = steps_reported_;
      ++counted;
    }
    if (inside_ || rest_output.value <= 0) return counted;
    inside_ = true;
    for (const Slot slot : running_) {
      if (table_[slot].listed_in != steps_reported_) Charge(table_[slot].state, {0}, rest_output);
    }
    inside_ = false;
    return counted;
  }

  // Selects requests of `holding` to preempt for `needed` blocks. Fills `victims`: worst rank first, promoted requests
  // last. Skips requests that are not preemptible or not running. With a waiting or taken `beneficiary`, selects only
  // requests with worse keys. Returns false, without victims, if all together would not free enough blocks. O(n log n).
  bool Victims(std::span<const Holding> holding, Blocks needed, TimePoint now, std::vector<RequestId>& victims,
               RequestId beneficiary = {}) {
    victims.clear();
    candidates_.clear();
    if (inside_) return false;
    candidates_.reserve(holding.size());
    victims.reserve(holding.size());
    Slot better = table_.Find(beneficiary);
    if (better != kNoSlot && table_[better].place != QueuePlace::kWaiting &&
        table_[better].place != QueuePlace::kTaken) {
      better = kNoSlot;
    }
    for (const Holding& h : holding) {
      const Slot slot = table_.Find(h.request);
      if (slot == kNoSlot || table_[slot].place != QueuePlace::kRunning) continue;
      if (!table_[slot].state.request.preemptible || (better != kNoSlot && !Outranks(better, slot, now))) continue;
      const bool promoted = queue_.PromotedWith(slot, StepsRun(slot));
      candidates_.push_back({{!promoted, queue_.VictimRankOf(table_[slot].state, now)}, h.blocks});
    }
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) { return b.rank < a.rank; });
    std::int64_t missing = needed.value;
    for (auto c = candidates_.begin(); missing > 0 && c != candidates_.end(); ++c) {
      const RequestId id = c->rank.rank.key.id;
      if (!victims.empty() && victims.back() == id) continue;  // listed twice
      victims.push_back(id);
      missing -= c->blocks.value;
    }
    if (missing > 0) victims.clear();
    return missing <= 0;
  }

 private:
  struct Entry {
    RequestState state = {};
    QueuePlace place = QueuePlace::kNone;
    std::uint32_t at = 0;  // index in taken_ or running_, while it is taken or runs
    std::int64_t picked_at = 0;  // iterations_ when it began to run
    std::uint64_t listed_in = 0;  // steps_reported_ when Computed last listed it
  };
  struct Candidate {
    internal::VictimRank rank;
    Blocks blocks{0};
  };

  // Compares by rank, like the scheduler. A policy's victim order decides only which victim is first.
  bool Outranks(Slot waiting, Slot running, TimePoint now) {
    if (queue_.PromotedWith(running, StepsRun(running))) return false;
    return queue_.promoted(waiting) || queue_.Outranks(table_[waiting].state, table_[running].state, 0, now);
  }

  QueueResult Find(RequestId id, Slot& slot) const {
    if (inside_) return QueueResult::kEnded;
    slot = table_.Find(id);
    return slot == kNoSlot ? QueueResult::kUnknown : QueueResult::kDone;
  }

  // Each call first makes room and then changes state. If an exception is thrown meanwhile, `inside_` stays set.
  void ReserveSlots(std::size_t slots) {
    table_.Reserve(slots);
    queue_.Reserve(slots);
    taken_.reserve(slots);
    running_.reserve(slots);
    slots_reserved_ = slots;
  }
  QueueResult Done() {
    inside_ = false;
    return QueueResult::kDone;
  }

  // Prefetches data of the requests that come to the top next. In a long queue, this data has left the CPU cache.
  void Foresee() const {
    queue_.VisitNext([this](Slot slot, RequestId id) {
      table_.Prefetch(id);
      const Entry& entry = table_[slot];
      __builtin_prefetch(&entry);
      __builtin_prefetch(&entry.state.generated);
      __builtin_prefetch(&entry.picked_at);
    });
  }

  std::int64_t StepsRun(Slot slot) const {
    return table_[slot].place == QueuePlace::kRunning ? iterations_ - table_[slot].picked_at : 0;
  }

  void Wait(Slot slot, TimePoint now, std::int64_t steps_run) {
    table_[slot].place = QueuePlace::kWaiting;
    table_[slot].state.enqueued = now;
    queue_.Push(slot, table_[slot].state, now, steps_run);
  }

  // Removes a request from its place. Returns the steps that ran it since it was picked. `goes`: it runs from now on.
  std::int64_t Leave(Slot slot, bool goes = false) {
    const std::int64_t steps_run = StepsRun(slot);
    switch (table_[slot].place) {
      case QueuePlace::kWaiting: queue_.Erase(slot, goes); break;
      case QueuePlace::kTaken: Unlist(taken_, slot), queue_.LetGo(slot, goes); break;
      case QueuePlace::kRunning: Unlist(running_, slot); break;
      default: break;
    }
    return steps_run;
  }

  void Join(std::vector<Slot>& list, Slot slot, QueuePlace place) {
    table_[slot].place = place;
    table_[slot].at = static_cast<std::uint32_t>(list.size());
    list.push_back(slot);
  }
  void Unlist(std::vector<Slot>& list, Slot slot) {
    const std::uint32_t at = table_[slot].at;
    if (queue_.hooks().chooses && &list == &taken_) {  // choices are undone in the reverse of their order
      list.erase(list.begin() + at);
      for (std::size_t i = at; i < list.size(); ++i) table_[list[i]].at = static_cast<std::uint32_t>(i);
      return;
    }
    list[at] = list.back();
    table_[list[at]].at = at;
    list.pop_back();
  }

  bool Ordered(Slot slot) const {
    return table_[slot].place == QueuePlace::kWaiting || table_[slot].place == QueuePlace::kTaken;
  }
  // Changes the facts of a request, and its rank if it has one.
  template <class F>
  void Change(Slot slot, TimePoint now, F&& change) {
    RequestState& state = table_[slot].state;
    const bool taken = table_[slot].place == QueuePlace::kTaken;
    if (taken) queue_.PutBack(slot, state, begun_);
    change(state);
    if (Ordered(slot)) queue_.Update(slot, state, now);
    if (taken) queue_.SetAside(slot);
  }

  // Undoes Take.
  void PutBack(Slot slot) {
    table_[slot].state.taken = table_[slot].state.has_run;
    queue_.PutBack(slot, table_[slot].state, begun_);  // keys that move with time are as of Begin for all requests
    table_[slot].place = QueuePlace::kWaiting;
  }
  // Undoes the choices after the first `kept`, last one first.
  void GiveBack(std::size_t kept = 0) {
    for (; taken_.size() > kept; taken_.pop_back()) PutBack(taken_.back());
  }
  // Returns the number of requests that were taken first and run in the same order. A policy that chooses counts other
  // requests that go while all that do not run wait.
  std::size_t RanInOrder(std::span<const Ran> ran) const {
    std::size_t n = 0;
    while (n < std::min(ran.size(), taken_.size()) && table_[taken_[n]].state.request.id == ran[n].request) ++n;
    return n;
  }

  // Charges tokens to a request, clamped so that sums never overflow.
  void Charge(RequestState& state, Tokens prefill, Tokens output) {
    const auto meant = [](Tokens tokens) {
      return std::clamp(tokens, Tokens{0}, Tokens{internal::kMostRequestTokens});
    };
    state.generated = std::min(state.generated + meant(output), Tokens{internal::kMostContext});
    queue_.Scheduled(state, meant(prefill), meant(output));
  }

  template <class E>
  void Notify(const E& event, TimePoint now) {
    queue_.Observe(event, now);
  }

  internal::RankQueue<Policy> queue_;
  IdTable<RequestId, Entry> table_;
  internal::RequestParts parts_;
  std::vector<Slot> taken_, running_;
  TimePoint now_ = kUnset;  // latest reported time
  TimePoint begun_ = kUnset;  // time of the last Begin
  std::int64_t iterations_ = 0;  // iterations in which a request ran
  std::uint64_t steps_reported_ = 0;  // number of whole steps that Computed reported
  bool iterating_ = false;  // true between Begin and End
  bool inside_ = false;  // true inside a call; true between calls if a call is incomplete
  std::size_t slots_reserved_ = 0;
  std::vector<Candidate> candidates_;  // scratch memory of Victims
};

// A queue whose policy is chosen at run time.
using AnyWaitingQueue = WaitingQueue<AnyPolicy>;

}  // namespace takt

#endif  // TAKT_QUEUE_WAITING_QUEUE_H_
