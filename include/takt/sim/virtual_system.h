// A system of a paper in the simulator: the scheduler of each engine, and the router with its learning loop.
#ifndef TAKT_SIM_VIRTUAL_SYSTEM_H_
#define TAKT_SIM_VIRTUAL_SYSTEM_H_

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/base/time.h"
#include "takt/model/engine_pace.h"
#include "takt/model/event.h"
#include "takt/model/instance.h"
#include "takt/model/step.h"
#include "takt/placement/any_placement.h"
#include "takt/policy/any_policy.h"
#include "takt/router.h"
#include "takt/scheduler.h"

namespace takt {

// The scheduler of a simulated engine.
class VirtualScheduler {
 public:
  virtual ~VirtualScheduler() = default;
  virtual const Scheduler& scheduler() const = 0;  // the scheduler inside
  virtual void On(const Event& event, TimePoint now) = 0;
  virtual const StepPlan& Plan(TimePoint now, const StepLimits& limits) = 0;
  virtual void Commit(const StepResult& result, TimePoint now) = 0;
};

// S: a system with the events of Scheduler, such as systems::Lamps.
template <class S>
class VirtualSchedulerOf final : public VirtualScheduler {
 public:
  explicit VirtualSchedulerOf(S system) : system_(std::move(system)) {}
  const Scheduler& scheduler() const override { return system_.scheduler(); }
  void On(const Event& event, TimePoint now) override { system_.On(event, now); }
  const StepPlan& Plan(TimePoint now, const StepLimits& limits) override { return system_.Plan(now, limits); }
  void Commit(const StepResult& result, TimePoint now) override { system_.Commit(result, now); }

 private:
  S system_;
};

// The router of a simulated cluster.
class VirtualRouter {
 public:
  virtual ~VirtualRouter() = default;
  virtual const Router& router() const = 0;  // the router inside
  virtual ProfileId AddProfile(InstanceProfile profile) = 0;
  // `upstream`, with Arrived: the agent of the predecessor that ended last; none: the call has no predecessor.
  virtual void On(const RouterEvent& event, TimePoint now, AgentId upstream) = 0;
  virtual std::span<const Placement> Place(TimePoint now) = 0;
  virtual TimePoint wake_at() const = 0;  // time of the next Advance if no event comes earlier
  // Does the slow work of a system. Returns the epoch for the schedulers of the engines, if any.
  virtual std::optional<Epoch> Advance(TimePoint now, const Progress& progress) = 0;
};

// R: Router, or a system with its events, such as systems::Kairos.
template <class R>
class VirtualRouterOf : public VirtualRouter {
 public:
  explicit VirtualRouterOf(std::shared_ptr<R> inside) : inside_(std::move(inside)) {}
  const Router& router() const final {
    if constexpr (std::same_as<R, Router>) return *inside_;
    else return inside_->router();
  }
  ProfileId AddProfile(InstanceProfile profile) final { return inside_->AddProfile(std::move(profile)); }
  void On(const RouterEvent& event, TimePoint now, AgentId upstream) final {
    if constexpr (requires { inside_->On(event, now, upstream); }) inside_->On(event, now, upstream);
    else inside_->On(event, now);
  }
  std::span<const Placement> Place(TimePoint now) final { return inside_->Place(now); }
  TimePoint wake_at() const override { return std::same_as<R, Router> ? kNever : inside_->wake_at(); }
  std::optional<Epoch> Advance(TimePoint now, const Progress&) override {
    if constexpr (requires { std::optional<Epoch>(inside_->Advance(now)); }) return inside_->Advance(now);
    else return std::nullopt;
  }

 protected:
  R& inside() { return *inside_; }

 private:
  std::shared_ptr<R> inside_;
};

// Makes the parts of a system; an empty function: takt's own part.
struct VirtualSystem {
  std::function<absl::StatusOr<std::unique_ptr<VirtualScheduler>>(const SchedulerOptions&, const EnginePace&)>
      scheduler = {};
  std::function<absl::StatusOr<std::unique_ptr<VirtualRouter>>(const RouterOptions&, AnyPolicy, AnyPlacement)> router =
      {};
};

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_SYSTEM_H_
