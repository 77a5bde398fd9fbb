// A second model of a router: it knows the live requests and their placements, and checks every answer. It uses events
// and placements alone.
#ifndef TAKT_TESTS_FIRE_ROUTER_SHADOW_H_
#define TAKT_TESTS_FIRE_ROUTER_SHADOW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ids.h"
#include "takt/router.h"

namespace takt::fire {

// The options of a router, and the checks that they allow.
struct RouterRules {
  RouterOptions options;
  AnyPolicy policy;
  bool plain = false;    // the policy's keys depend on the request alone, and it does not age
  bool willing = false;  // the placement takes any instance that has room
  bool fair = false;     // the policy is fair_share with w_in 1, w_out 2, and every request fits every instance
  bool apart = false;    // some instances serve one phase
  bool cached = false;   // the placement chooses the instance with the most cached tokens
  std::map<std::uint64_t, double> weights = {};  // weights of its tenants; 1 for others
  Ids ids;
};

// Returns the next tenant by the rules of docs/reference/policies/fair_share.md and docs/howto/router.md.
class FairModel {
 public:
  explicit FairModel(std::map<std::uint64_t, double> weights) : weights_(std::move(weights)) {}

  double Counter(std::uint64_t tenant) const {
    const auto at = tenants_.find(tenant);
    return at == tenants_.end() ? 0 : at->second.lifted_to + at->second.cost / WeightOf(tenant);
  }
  void Joins(std::uint64_t tenant);
  void Leaves(std::uint64_t tenant);
  void Charge(std::uint64_t tenant, std::int64_t prefill, std::int64_t output) {
    tenants_[tenant].cost += static_cast<double>(prefill + 2 * output);
  }

 private:
  struct Tenant {
    double lifted_to = 0, cost = 0;
    std::int64_t waiting = 0;
  };
  double WeightOf(std::uint64_t tenant) const {
    const auto at = weights_.find(tenant);
    return at == weights_.end() ? 1 : at->second;
  }

  std::map<std::uint64_t, double> weights_;
  std::map<std::uint64_t, Tenant> tenants_;
  std::optional<std::uint64_t> waited_last_;
};

class RouterShadow {
 public:
  explicit RouterShadow(const RouterRules& rules) : rules_(rules), fair_(rules.weights) {}

  // Call this after the router has received the event.
  void Handled(const RouterEvent& event, TimePoint now, const Router& router);
  void Placed(std::span<const Placement> placements, TimePoint now, const Router& router);

  // Recounts everything. This is slow, so call it rarely.
  void Compare(const Router& router);

  struct Request {
    RequestState state = {};
    bool alive = false;
    InstanceId place = {};  // unset: the request waits in the router
    InstanceId decode = {};  // will take the request over from `place`
    bool lacks_decode = false;  // its decode instance went down
    bool prefilled = false;  // with lacks_decode: its prompt is computed
    TokensServed charged = {};  // tokens charged to its tenant
    bool reported = false;          // its instance has reported its served tokens
    std::uint64_t number = 0;  // number of its placement
    TimePoint placed{};
    bool unseen = false;  // not yet included in its instance's reports
    std::int32_t uncomputed = 0;  // prompt tokens that no report of its instance includes
  };
  const Request& request(RequestId id) const {
    const std::uint64_t name = rules_.ids.NameOf(id);
    return name < requests_.size() && requests_[name].state.request.id == id ? requests_[name] : nobody_;
  }
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
    InstanceReport report{};
    TimePoint complete = kUnset;  // time up to which its reports are complete
    std::int64_t since = 0, tokens = 0;  // requests newer than its reports, and their prompt tokens
    std::vector<AdapterId> adapters = {};  // the most recently used first
    std::optional<std::set<std::uint64_t>> blocks = {};  // hashes of its KV blocks; none: it has not reported

    void Use(AdapterId id);
  };
  static void Serve(Request& request, const TokensServed& served);

  void On(const Arrived& e);
  void On(const Revised& e);
  void On(const Cancelled& e);
  void On(const RequestStarted& e);
  void On(const RequestServed& e);
  void On(const RequestEnded& e);
  void On(const PrefillEnded& e);
  void On(const InstanceUp& e, const Router& router);
  void On(const InstanceDown& e, const Router& router);
  void On(const InstanceReported& e);
  void On(const KvStored& e);
  void On(const KvRemoved& e);
  void On(const KvCleared& e);
  void On(const WorkflowDeclared&) {}  // the host declares no workflows
  void On(const WorkflowGrown&) {}
  void On(const StageEnded&) {}
  void On(const WorkflowEnded&) {}

  void Clock(TimePoint now);
  Request& Of(RequestId id) { return requests_[rules_.ids.NameOf(id)]; }
  Request* Living(RequestId id);
  void Charge(Request& request, const TokensServed& served);
  void End(Request& request);
  void HandOver(Request& request);
  void ReleaseDecode(Request& request);
  void Return(Request& request, InstanceId withdrawn);
  const Up* Find(InstanceId id) const;
  Up* Find(InstanceId id);
  bool Lives(InstanceId id, std::uint64_t life);
  bool Left(const Request& request, InstanceId instance, std::uint64_t life) const;
  std::vector<Request*> Unseen(InstanceId id);
  std::int64_t Expected(InstanceId id) const;
  Up* FindInLife(InstanceId id, std::uint64_t life);
  static std::pair<std::int64_t, std::int64_t> Cached(const takt::Request& r, const Up& up);
  bool HasRoom(const Up& up) const;
  static bool Fits(const Request& request, const Up& up);
  bool Before(const Request& a, const Request& b) const;

  void CheckFailed(const Router& router);
  void CheckWithdrawn(const Router& router);
  void CheckPlaced(std::span<const Placement> placements, const Router& router);
  void CheckDecodes(const Router& router);
  void CheckLeft(std::span<const Placement> placements);
  void CheckFair(RequestId placed);
  void CheckCached(const Request& placed, const Up& there);
  void CheckStats(const Router& router);

  const RouterRules& rules_;
  FairModel fair_;
  std::vector<Request> requests_;  // by name
  Request nobody_;
  std::vector<RequestId> alive_;
  std::vector<Up> up_;
  std::vector<Failure> refused_;  // since the last Place
  std::vector<Placement> withdrawn_;  // since the last Place
  std::size_t decodes_seen_ = 0;  // entries of decodes() that new placements need
  TimePoint now_ = kUnset;
  RouterStats ours_;
  std::uint64_t placements_ = 0;  // placements and hand-overs
  std::uint64_t newest_life_ = 0;
  std::string violation_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_ROUTER_SHADOW_H_
