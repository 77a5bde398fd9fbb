// A model of a router's bounds and time limits, written from docs/howto/bounds.md. It predicts which waiting requests
// fail in a Place, and why.
#ifndef TAKT_TESTS_FIRE_BOUNDS_SHADOW_H_
#define TAKT_TESTS_FIRE_BOUNDS_SHADOW_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "takt/router/notices.h"
#include "takt/model/step.h"
#include "takt/router/options.h"

namespace takt::fire {

class BoundsShadow {
 public:
  explicit BoundsShadow(const RouterOptions& options) : options_(options) {}

  enum class At : std::uint8_t { kHeld, kWaiting, kPlaced };
  struct Life {
    At at = At::kWaiting;
    bool placed_before = false;
    std::uint64_t tenant = 0, workflow = 0;
    std::int64_t prompt = 0;
    int own_class = -1;  // index of its class when it joined the queue; -1: none
    std::int32_t priority = 0;
    std::uint64_t joined = 0;  // place in the order of joining
    TimePoint arrived{}, joined_at{}, expires_at = kNever;
    InstanceId instance = {};
  };

  void Arrives(RequestId id, Life life, TimePoint now);
  void Joins(Life& life, TimePoint now);
  void Releases(std::uint64_t workflow, TimePoint now);  // its held calls join the queue, in order of arrival
  void Leaves(RequestId id);  // ended or cancelled
  void Returns(InstanceId lost, TimePoint now);  // its requests join the queue again
  void Changes(const RouterOptions& to);
  void SomeUp() { down_since_ = kNever; }

  // Checks the answer of a Place. `up`: instances that are up.
  void Placed(std::span<const Placement> placed, std::span<const Failure> failed, bool some_up, TimePoint now);
  TimePoint WakeAt(bool some_up) const;

  std::map<RequestId, Life>& lives() { return lives_; }
  const std::map<RequestId, Life>& lives() const { return lives_; }

  struct Counts {
    std::uint64_t expired = 0, shed = 0, quota = 0, none = 0, timed = 0;  // timed: failures with a time to come back
  };
  const Counts& counts() const { return counts_; }
  const std::string& violation() const { return violation_; }
  void Violate(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }

 private:
  // A bounded queue: of a tenant, of a class, or of all.
  enum class Kind : std::uint8_t { kTenant, kClass, kAll };
  using Queue = std::tuple<Kind, std::uint64_t>;
  struct Past {
    TimePoint left = kUnset;  // the last time at which a request was placed while others of the queue waited
    TimePoint promise = kUnset;  // the last time at which a client was asked to come back
  };

  struct Expected {
    FailReason reason;
    Queue queue;
  };

  TimePoint LimitOf(const Life& life) const;
  bool Remembers(Kind kind) const;
  bool Counted(const Life& life) const { return life.at == At::kWaiting && !life.placed_before; }
  std::vector<Queue> QueuesOf(const Life& life) const;
  void Left(const Life& life, bool placed, TimePoint now);
  int ClassOf(std::int32_t priority) const;
  void Shed(Queue queue, std::int64_t most, std::int64_t most_tokens, FailReason reason,
            std::map<RequestId, Expected>& expected);
  bool In(const Life& life, Queue queue) const;
  void CheckTime(const Failure& failure, Queue queue, TimePoint now);

  RouterOptions options_;
  std::map<RequestId, Life> lives_;
  std::map<Queue, Past> past_;
  std::uint64_t joins_ = 0;
  TimePoint down_since_ = kNever;  // first Place without an instance
  Counts counts_;
  std::string violation_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_BOUNDS_SHADOW_H_
