// An engine that a test steps by hand: the waiting requests of one policy, and charges.
#ifndef TAKT_TESTS_POLICY_HAND_ENGINE_H_
#define TAKT_TESTS_POLICY_HAND_ENGINE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "takt/queue/rank_queue.h"

namespace takt {

template <class P>
struct HandEngine {
  explicit HandEngine(typename P::Options options = {}) : queue(P(std::move(options))) {}

  internal::RankQueue<P> queue;
  std::vector<RequestState> requests = {};

  Slot Push(std::uint64_t tenant, std::int32_t priority = 0, std::uint64_t workflow = 0) {
    const auto slot = static_cast<Slot>(requests.size());
    RequestState& r = requests.emplace_back();
    r.slot = slot;
    r.request.id = {slot + 1};
    r.request.tenant = {tenant};
    r.request.priority = priority;
    r.request.workflow = {workflow};
    r.request.arrival = TimePoint(Duration(slot));
    queue.Push(slot, r, {});
    return slot;
  }
  void Begin() {
    queue.BeginPlan({}, [this](Slot slot) -> const RequestState& { return requests[slot]; });
  }
  Slot Admit() {
    Begin();
    const Slot top = queue.Top();
    queue.Erase(top);
    return top;
  }
  void Charge(Slot slot, std::int32_t prompt, std::int32_t output) {
    queue.Scheduled(requests[slot], {prompt}, {output});
  }
  // Serves the first request of the queue and returns its tenant.
  std::uint64_t Serve(std::int32_t prompt = 1) {
    const Slot slot = Admit();
    Charge(slot, prompt, 0);
    return TenantOf(slot);
  }
  std::uint64_t TenantOf(Slot slot) const { return requests[slot].request.tenant.value; }
};

}  // namespace takt

#endif  // TAKT_TESTS_POLICY_HAND_ENGINE_H_
