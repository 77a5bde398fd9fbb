// A second opinion on a router: who is alive, where each was placed, and what must hold of every answer. Kept from
// events and placements alone.
#ifndef TAKT_TESTS_FIRE_ROUTER_SHADOW_H_
#define TAKT_TESTS_FIRE_ROUTER_SHADOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "takt/router.h"

namespace takt::fire {

// What a router was made of, and what may be demanded of it.
struct RouterRules {
  RouterOptions options;
  AnyPolicy policy;
  bool plain = false;    // the policy's keys depend on the request alone, and it does not age
  bool willing = false;  // the placement takes any instance that has room
};

class RouterShadow {
 public:
  explicit RouterShadow(const RouterRules& rules) : rules_(rules) {}

  // To be told after the router was.
  void Told(const RouterEvent& event, TimePoint now, const Router& router);
  void Placed(std::span<const Placement> placements, TimePoint now, const Router& router);

  // Recounts everything; for now and then.
  void Compare(const Router& router);

  struct Request {
    RequestState state = {};
    bool alive = false;
    InstanceId place = {};  // none: it waits in the router
  };
  const Request& request(RequestId id) const { return id.value < requests_.size() ? requests_[id.value] : nobody_; }
  const std::vector<RequestId>& alive() const { return alive_; }
  bool up(InstanceId id) const { return Find(id) != nullptr; }

  const std::string& violation() const { return violation_; }
  void Violate(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }

 private:
  struct Up {
    Instance instance;
    std::int64_t outstanding = 0;
  };

  void On(const Arrived& e);
  void On(const Revised& e);
  void On(const Cancelled& e);
  void On(const RequestStarted& e);
  void On(const RequestServed& e);
  void On(const RequestEnded& e);
  void On(const InstanceUp& e);
  void On(const InstanceDown& e);
  void On(const InstanceReported& e);
  void On(const Epoch&) {}
  void On(const WorkflowDeclared&) {}  // its host declares none
  void On(const WorkflowGrown&) {}
  void On(const StageEnded&) {}
  void On(const WorkflowEnded&) {}

  void Clock(TimePoint now);
  Request* Living(RequestId id);
  void End(Request& request);
  const Up* Find(InstanceId id) const;
  Up* Find(InstanceId id);
  bool HasRoom(const Up& up) const;
  static bool Fits(const Request& request, const Up& up);
  bool Before(const Request& a, const Request& b) const;

  void CheckFailed(const Router& router);
  void CheckPlaced(std::span<const Placement> placements);
  void CheckLeft(std::span<const Placement> placements);
  void CheckStats(const Router& router);

  const RouterRules& rules_;
  std::vector<Request> requests_;  // by id
  Request nobody_;
  std::vector<RequestId> alive_;
  std::vector<Up> up_;
  std::vector<Failure> refused_;  // since the last Place
  TimePoint now_ = kUnset;
  RouterStats ours_;
  std::string violation_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_ROUTER_SHADOW_H_
