// A host whose clock, requests and events have times at both ends of the clock. It has no shadow. Nothing may crash,
// hang or get lost, and the scheduler must stay consistent. A router and a queue receive the same requests.
#ifndef TAKT_TESTS_FIRE_ENDS_HOST_H_
#define TAKT_TESTS_FIRE_ENDS_HOST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "action.h"
#include "dice.h"
#include "setup.h"
#include "takt/queue/waiting_queue.h"
#include "takt/router.h"
#include "takt/scheduler.h"

namespace takt::fire {

struct EndsTally {
  std::uint64_t events = 0, arrivals = 0, plans = 0, commits = 0, placements = 0, taken = 0, jumps = 0;
  std::uint64_t plan_hash = 0;
};

void Print(const EndsTally& tally, std::uint64_t seeds);

// Deterministic: the same seed and actions, the same run.
class EndsWorld {
 public:
  using Tally = EndsTally;
  static constexpr const char* kLogPrefix = "ends ";

  explicit EndsWorld(std::uint64_t seed);
  void Carry(const Action& action);
  // Cancels all requests and checks that none are left.
  void Drain();

  std::uint64_t named() const { return named_; }  // requests so far
  bool in_flight() const { return !plans_.empty(); }
  bool moves() const { return !moves_.empty(); }
  const std::string& violation() const { return violation_; }
  const Tally& tally() const { return tally_; }
  std::string Description() const;

  std::string* comment = nullptr;

 private:
  struct Given {
    StepId id;
    std::vector<PlanEntry> run;
  };

  void Do(const Action& action);
  void Arrive(std::uint64_t bits);
  template <class E>
  void Send(const E& event, Dice& dice);
  void Plan(TimePoint now);
  void Commit(std::uint64_t bits, TimePoint now);
  void Route(Dice& dice);
  void Queue(Dice& dice);
  TimePoint Time(Dice& dice) const;
  void Violate(const std::string& what) { violation_ = violation_.empty() ? what : violation_; }

  Setup setup_;
  Scheduler scheduler_;
  Router router_;
  WaitingQueue<AnyPolicy> queue_;
  TimePoint now_{};    // the host's clock
  TimePoint latest_ = kUnset;  // the latest time of a scheduler call
  std::uint64_t named_ = 0;
  std::vector<Given> plans_;  // in flight
  std::vector<MoveId> moves_;
  std::string violation_;
  Tally tally_;
};

class EndsHost {
 public:
  explicit EndsHost(std::uint64_t seed) : dice_(seed ^ 0xe4d5u) {}
  Action Next(const EndsWorld& world);

 private:
  Dice dice_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_ENDS_HOST_H_
