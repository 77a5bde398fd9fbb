// A router with bounds and time limits, under a random host. Its instances are counts of requests. A shadow predicts
// each failure.
#ifndef TAKT_TESTS_FIRE_BOUNDS_HOST_H_
#define TAKT_TESTS_FIRE_BOUNDS_HOST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "action.h"
#include "bounds_shadow.h"
#include "dice.h"
#include "takt/router.h"

namespace takt::fire {

struct BoundsTally {
  std::uint64_t events = 0, arrivals = 0, places = 0, placed = 0, expired = 0, shed = 0, quota = 0, no_instance = 0,
                timed = 0, held = 0, lost = 0, changes = 0;
  std::uint64_t plan_hash = 0;
};

void Print(const BoundsTally& tally, std::uint64_t seeds);

struct BoundsSetup {
  RouterOptions options;
  std::uint64_t policy = 0;  // bits for the policy
  std::uint32_t instances = 1, tenants = 1;
  bool sizes = false;  // some instances have a small KV cache
  std::size_t population = 0;  // requests that the host keeps alive
  std::int64_t tick = 1;  // times are multiples of it [ns]
  double holds = 0, losses = 0, cancels = 0, expiries = 0, places = 0, changes = 0;  // rates

  static BoundsSetup OfSeed(std::uint64_t seed);
};

// Deterministic: the same seed and actions give the same run.
class BoundsWorld {
 public:
  using Tally = BoundsTally;
  static constexpr const char* kLogPrefix = "bounds ";

  explicit BoundsWorld(std::uint64_t seed);
  void Carry(const Action& action);
  // Releases and serves all requests. None may be left.
  void Drain();

  const BoundsSetup& setup() const { return setup_; }
  const BoundsShadow& shadow() const { return shadow_; }
  std::string violation() const { return shadow_.violation(); }
  const Tally& tally() const { return tally_; }
  std::string Description() const;

  std::string* comment = nullptr;

 private:
  void Do(const Action& action);
  void Arrive(std::uint64_t name, std::uint64_t bits);
  void Revise(RequestId id, std::uint64_t bits);
  void Place();
  void Up(std::uint32_t at, std::int64_t capacity, std::int32_t kv);
  void Release();
  void Change(std::uint64_t bits);
  void Compare();
  bool some_up() const { return !router_.instances().empty(); }

  BoundsSetup setup_;
  Router router_;
  BoundsShadow shadow_;
  TimePoint now_{};
  std::uint64_t workflow_ = 0;  // the declared workflow whose calls are held; 0: none
  std::uint64_t workflows_ = 0;
  Tally tally_;
};

class BoundsHost {
 public:
  explicit BoundsHost(std::uint64_t seed) : dice_(seed ^ 0xb0d5u) {}
  Action Next(const BoundsWorld& world);

 private:
  Dice dice_;
  std::uint64_t last_name_ = 0;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_BOUNDS_HOST_H_
