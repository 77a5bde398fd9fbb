// A random host with a seed. It draws actions and carries them out on a scheduler, and a shadow checks the results.
#ifndef TAKT_TESTS_FIRE_HOST_H_
#define TAKT_TESTS_FIRE_HOST_H_

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "action.h"
#include "broken.h"
#include "dice.h"
#include "host_kv.h"
#include "memory.h"
#include "setup.h"
#include "shadow.h"
#include "takt/scheduler.h"
#include "watched_lives.h"
#include "watched_pause.h"

namespace takt::fire {

// Events by kind.
struct HostTally {
  std::uint64_t events = 0, plans = 0, commits = 0, arrivals = 0, cancels = 0, blocked = 0, tools = 0,
                policy_changes = 0, option_changes = 0, relocations = 0, plans_refused = 0, allocations_failed = 0;
  std::uint64_t answers = 0, long_answers = 0, absurd_calls = 0, let_go = 0, parts = 0, facts = 0;
  std::uint64_t bad_rows = 0, absent_rows = 0, failed_rows = 0, out_of_order = 0, unknown_steps = 0, by_exception = 0;
  std::uint64_t absurd = 0, clock_faults = 0, moves = 0, failed_moves = 0, odd_limits = 0, preempted = 0, promoted = 0;
  std::uint64_t kv_refused = 0, kv_exhausted = 0, expired = 0, shed = 0, idle = 0, drains = 0, finished = 0;
  std::uint64_t resizes = 0;
  std::uint64_t plan_hash = 0;  // of all plans, in order
};

void Print(const HostTally& tally, std::uint64_t seeds);

// A request and the length of its output.
struct Drawn {
  Request request;
  std::int32_t length = 0;
  bool absurd = false;
};
// A tool call and the time of the tool's answer; no time if it never answers.
struct DrawnCall {
  ToolCalled call;
  std::optional<Duration> answer;
  bool absurd = false;
};
DrawnCall DrawCall(RequestId id, std::uint64_t bits);
Drawn DrawRequest(RequestId id, const Setup& setup, TimePoint now, std::uint64_t bits);
Revised DrawRevised(RequestId id, const Setup& setup, TimePoint now, std::uint64_t bits);

// A second scheduler that receives the same calls as a world's scheduler. The host carries out its plans. Both
// schedulers must return the same plans.
class Twin {
 public:
  Twin() = default;
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  virtual ~Twin() = default;

  virtual void On(const Event& event, TimePoint now) = 0;
  virtual void ChangePolicy(const AnyPolicy& policy, TimePoint now) = 0;
  // `changes`: "NAME=VALUE,...".
  virtual void SetOptions(const std::string& changes, TimePoint now) = 0;
  virtual void SetRetention(const std::string& retention, const std::string& gate) = 0;
  virtual const StepPlan& Plan(TimePoint now, const StepLimits& limits) = 0;  // valid until its commit
  virtual void Commit(const StepResult& result, TimePoint now) = 0;
  virtual HostKv* kv() { return nullptr; }  // the block manager of its host
  // Returns the difference to the world's scheduler; empty if there is none.
  virtual std::string Unlike(const Scheduler& scheduler) const = 0;
};

// The scheduler of a seed under actions. The same seed and actions give the same run.
class World {
 public:
  using Tally = HostTally;
  static constexpr const char* kLogPrefix = "";

  explicit World(std::uint64_t seed) : World(Setup::OfSeed(seed)) {}
  explicit World(const Setup& setup);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Call this before any action.
  void Pair(std::unique_ptr<Twin> twin) { twin_ = std::move(twin); }

  // Skips some impossible actions, such as one on an unknown request. Carries out other impossible actions, as a faulty
  // host does.
  void Carry(const Action& action);

  // For a host whose requests come from elsewhere; `length` is the length of the output.
  void Arrive(const Request& request, std::int32_t length);
  template <class E>
  void Send(const E& event);
  void Pass(std::int64_t nanoseconds);
  TimePoint now() const { return now_; }

  // Stops faults. All live requests must then end within twice the plans that a fresh scheduler needs for the rest.
  void Drain();

  // Returns true if the tool of the request's call would have answered by now.
  bool answered(RequestId id) const {
    const std::uint64_t name = NameOf(id);
    return name < answers_.size() && answers_[name] <= now_;
  }
  std::uint64_t NameOf(RequestId id) const { return setup_.ids.NameOf(id); }

  const Setup& setup() const { return setup_; }
  const Shadow& shadow() const { return shadow_; }
  const Scheduler& scheduler() const { return *scheduler_; }
  std::string violation() const { return shadow_.violation(); }
  const Tally& tally() const { return tally_; }

  std::string Description() const;

  // If set, every action adds a comment with its effect.
  std::string* comment = nullptr;

 private:
  void Do(const Action& action);
  void CheckPin(const Action& a, WorkflowId workflow, std::uint64_t branch, const HeldExplanation& before,
                std::uint64_t broken);
  void Arrive(const Action& action);
  void Revise(const Action& action);
  void CallTool(const Action& action);
  void ReturnTool(const Action& action);
  template <class F>
  void EachKv(F&& f);
  template <class F>
  void Attempt(F&& call);
  void Plan(const StepLimits& limits);
  bool RefusesAll(std::uint64_t bits);
  void Relocate(std::uint64_t bits);
  void Commit(StepId step, std::uint64_t bits, bool faults);
  StepResult WithoutRest(const StepPlan& plan, const StepResult& result);
  StepLimits LimitsOf(std::uint64_t bits) const;
  void Compare(std::uint64_t bits);
  std::int32_t OutputLeft(RequestId id, const Life& life) const;
  void Settle();
  void OutlastTools();
  double ShareForOthers() const;
  double PlansEachStep() const;
  std::int64_t PlansToDrain();
  std::int64_t PlansOfFreshDrain() const;
  static Scheduler MakeScheduler(const Setup& setup, AnyPause pause, HostKv* kv);
  template <class... Args>
  void Note(const char* format, const Args&... args);

  Setup setup_;
  std::uint64_t policy_;  // current policy: bits for PolicyOf
  std::optional<HostKv> kv_;
  WatchedLives lives_;
  std::optional<Scheduler> scheduler_;
  std::unique_ptr<Twin> twin_;
  WatchedPause::List asked_ = std::make_shared<std::vector<Asked>>();
  Shadow shadow_;
  TimePoint now_{};
  std::vector<std::int32_t> lengths_;  // true output lengths, by name of the request
  std::vector<TimePoint> answers_;  // answer times of the last tool call, by request name
  struct Given {
    StepId id;
    const StepPlan* plan;
  };
  std::vector<Given> given_;  // plans in flight, as the scheduler returned them
  std::vector<RowResult> rows_, exceptions_;
  Tally tally_;
  TimePoint last_wake_at_ = kNever;  // as of the last plan
  std::int32_t fails_at_ = -1;  // allocations of the next call that succeed; below 0: all
  std::int32_t spell_ = 0;  // number of coming plans in which the oracle refuses everything
  std::int32_t longest_ = 1;  // longest context of any request
};

// The block managers of the world and of the twin.
template <class F>
void World::EachKv(F&& f) {
  if (kv_) f(*kv_);
  if (HostKv* twins = twin_ ? twin_->kv() : nullptr; twins != nullptr) f(*twins);
}

// May let memory fail in a call. Nothing has then changed, and the call is repeated. Plans are therefore the same
// wherever a standard library allocates.
template <class F>
void World::Attempt(F&& call) {
  if (fails_at_ < 0) return call();
  const auto state = [this] {
    const Scheduler& s = *scheduler_;
    return std::tuple(s.stats(), s.kv(), s.alive(), s.waiting(), s.running(), s.paused(), s.blocked(), s.draining());
  };
  const auto before = state();
  Memory::left = std::exchange(fails_at_, -1);
  Memory::watched = true;
  try {
    call();
    Memory::watched = false;
    return;
  } catch (const std::bad_alloc&) {
    Memory::watched = false;
  } catch (...) {
    Memory::watched = false;
    throw;
  }
  ++tally_.allocations_failed;
  if (comment != nullptr) *comment += "[memory fails] ";
  if (scheduler_->ended()) shadow_.Violate("memory fails, and the scheduler has ended");
  if (state() != before) shadow_.Violate("memory fails, and something has changed");
  if (const char* fault = scheduler_->Inconsistency(); fault != nullptr) shadow_.Violate(fault);
  call();
}

template <class E>
void World::Send(const E& event) {
  Attempt([&] { scheduler_->On(event, now_); });
  if (twin_) twin_->On(event, now_);
  shadow_.Handled(event, now_, *scheduler_);
}

// Draws the next action for a world.
class RandomHost {
 public:
  explicit RandomHost(std::uint64_t seed) : dice_(seed ^ 0xac7105u) {}
  Action Next(const World& world);

 private:
  std::uint64_t Anyone(const World& world);  // returns a request name

  Dice dice_;
  std::uint64_t last_name_ = 0;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_HOST_H_
