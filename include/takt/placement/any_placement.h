// A placement policy chosen at run time.
#ifndef TAKT_PLACEMENT_ANY_PLACEMENT_H_
#define TAKT_PLACEMENT_ANY_PLACEMENT_H_

#include <concepts>
#include <memory>
#include <string_view>
#include <utility>

#include "takt/placement/least_loaded.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// Copyable handle; copies share one immutable policy.
class AnyPlacement {
 public:
  AnyPlacement() : AnyPlacement(LeastLoaded{}) {}

  template <PlacementPolicy P>
    requires(!std::same_as<P, AnyPlacement>)
  AnyPlacement(P policy) : held_(std::make_shared<const Held<P>>(std::move(policy))) {  // NOLINT: any policy is one
    if constexpr (requires { P::kName; }) name_ = P::kName;
  }

  std::string_view name() const { return name_; }
  double Score(const RequestState& request, const InstanceState& instance, TimePoint now) const {
    return held_->Score(request, instance, now);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual double Score(const RequestState&, const InstanceState&, TimePoint) const = 0;
  };
  template <class P>
  struct Held final : Base {
    explicit Held(P p) : policy(std::move(p)) {}
    double Score(const RequestState& request, const InstanceState& instance, TimePoint now) const override {
      return policy.Score(request, instance, now);
    }
    P policy;
  };

  std::shared_ptr<const Base> held_;
  std::string_view name_ = "unnamed";
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_ANY_PLACEMENT_H_
