// Work in flight on each instance, summed as requests come and go.
#ifndef TAKT_PLACEMENT_BOOKS_WORK_IN_FLIGHT_H_
#define TAKT_PLACEMENT_BOOKS_WORK_IN_FLIGHT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/slot.h"

namespace takt {

// Each request adds an amount, which is subtracted in full when the request leaves. Sums are integers, so an instance
// without requests has exactly 0. Amounts are limited to [0, 10^14], so that 90,000 of the largest do not overflow.
// Indices are RequestState::slot and InstanceState::slot. If a request is placed twice or released twice, the newest
// report counts. Memory grows only with the peak number of slots.
class WorkInFlight {
 public:
  static constexpr std::int64_t kMost = 100'000'000'000'000;

  void Placed(std::uint32_t request, std::uint32_t instance, std::int64_t amount) {
    Released(request);
    if (request >= entries_.size()) entries_.resize(request + std::size_t{1});
    if (instance >= sums_.size()) sums_.resize(instance + std::size_t{1});
    entries_[request] = {std::clamp<std::int64_t>(amount, 0, kMost), instance, State::kWaiting};
    sums_[instance].waiting += entries_[request].amount;
    ++sums_[instance].waiting_count;
  }

  // Moves the request from waiting to running. Returns false if it was not waiting.
  bool Started(std::uint32_t request) {
    if (request >= entries_.size() || entries_[request].state != State::kWaiting) return false;
    Entry& e = entries_[request];
    e.state = State::kRunning;
    Sums& s = sums_[e.instance];
    s.waiting -= e.amount;
    --s.waiting_count;
    s.running += e.amount;
    ++s.running_count;
    return true;
  }

  void Released(std::uint32_t request) {
    if (request >= entries_.size() || entries_[request].state == State::kGone) return;
    Entry& e = entries_[request];
    Sums& s = sums_[e.instance];
    if (e.state == State::kWaiting) {
      s.waiting -= e.amount;
      --s.waiting_count;
    } else {
      s.running -= e.amount;
      --s.running_count;
    }
    e.state = State::kGone;
  }

  // Returns a sum over an instance; 0 if the instance is unknown.
  std::int64_t waiting(std::uint32_t instance) const { return Of(instance).waiting; }
  std::int64_t running(std::uint32_t instance) const { return Of(instance).running; }
  std::int64_t outstanding(std::uint32_t instance) const { return Of(instance).waiting + Of(instance).running; }
  std::int64_t waiting_count(std::uint32_t instance) const { return Of(instance).waiting_count; }
  std::int64_t running_count(std::uint32_t instance) const { return Of(instance).running_count; }

  // Returns the request's amount; 0 if it has none.
  std::int64_t AmountOf(std::uint32_t request) const {
    return request < entries_.size() && entries_[request].state != State::kGone ? entries_[request].amount : 0;
  }

  // Returns the slot of the request's instance; kNoSlot: none.
  std::uint32_t InstanceOf(std::uint32_t request) const {
    return request < entries_.size() && entries_[request].state != State::kGone ? entries_[request].instance : kNoSlot;
  }

  // Returns true if the sums match the entries. O(requests).
  bool Exact() const {
    std::vector<Sums> anew(sums_.size());
    for (const Entry& e : entries_) {
      if (e.state == State::kGone) continue;
      const bool waits = e.state == State::kWaiting;
      (waits ? anew[e.instance].waiting : anew[e.instance].running) += e.amount;
      ++(waits ? anew[e.instance].waiting_count : anew[e.instance].running_count);
    }
    return anew == sums_;
  }

 private:
  enum class State : std::uint8_t { kGone, kWaiting, kRunning };
  struct Entry {
    std::int64_t amount = 0;
    std::uint32_t instance = 0;
    State state = State::kGone;
  };
  struct Sums {
    std::int64_t waiting = 0, running = 0;
    std::int64_t waiting_count = 0, running_count = 0;

    friend bool operator==(const Sums&, const Sums&) = default;
  };

  Sums Of(std::uint32_t instance) const { return instance < sums_.size() ? sums_[instance] : Sums{}; }

  std::vector<Entry> entries_;  // by request's slot
  std::vector<Sums> sums_;  // by instance's slot
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_WORK_IN_FLIGHT_H_
