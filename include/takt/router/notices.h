// The lists that a router's Place returns.
#ifndef TAKT_ROUTER_NOTICES_H_
#define TAKT_ROUTER_NOTICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/model/instance.h"
#include "takt/model/step.h"
#include "takt/model/workflow.h"
#include "takt/state/call_desk.h"

namespace takt {

struct Placement {
  RequestId request;
  InstanceId instance;  // instance that computes the request, or one of its phases
  std::uint64_t life = 0;  // life of `instance`; events about this placement contain it

  friend constexpr bool operator==(const Placement&, const Placement&) = default;
};

namespace internal {

// Invariant: each failure, withdrawn leg, ended workflow and workflow fault appears in one list of one Place. Between
// two calls of Place, `refused`, `withdrawing`, `ending` and `new_faults` collect them.
struct RouterNotices {
  void Reserve(std::size_t requests) {
    placed.reserve(requests), decodes.reserve(requests), failed.reserve(requests), refused.reserve(requests);
  }
  // Makes room for an event, which may end all requests of a workflow.
  void MakeRoomToGather(std::size_t alive, std::size_t workflows) {
    MakeRoom(refused, alive + 1);
    MakeRoom(ending, workflows + 1);
    MakeRoom(new_faults, 1);
  }
  void MakeRoomToWithdraw(std::size_t alive) { MakeRoom(withdrawing, alive); }
  // Makes room for a Place, which includes the lists of the last call. No request ends, or is placed, twice.
  void MakeRoomToPlace(std::size_t alive, std::size_t workflows) {
    MakeRoom(refused, alive), MakeRoom(failed, alive), MakeRoom(placed, alive);
    MakeRoom(decodes, alive);
    MakeRoom(ending, workflows), MakeRoom(ended, workflows);
  }

  void Clear() {
    placed.clear(), decodes.clear(), withdrawn.clear();
    failed.clear(), ended.clear(), faults.clear();
  }
  // Moves the collected notices to the lists, which must be clear.
  void TakeGathered() {
    failed.swap(refused), ended.swap(ending), faults.swap(new_faults), withdrawn.swap(withdrawing);
  }

  std::vector<Placement> placed, decodes, withdrawn, withdrawing;
  std::vector<Failure> failed, refused;
  std::vector<WorkflowEnd> ended, ending;
  std::vector<WorkflowFault> faults, new_faults;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_ROUTER_NOTICES_H_
