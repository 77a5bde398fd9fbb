// The time of an engine whose steps are simulated. It is fixed while the engine plans. A step moves it by the
// step's modelled time, and arrivals move it while the engine is idle. Real time may be ahead of it, but never behind.
// Delays of the machine then make answers late, but do not change what the engine decides.
#ifndef TAKT_INTEGRATIONS_SERVER_SIMULATED_TIME_H_
#define TAKT_INTEGRATIONS_SERVER_SIMULATED_TIME_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "takt/base/time.h"

namespace serving {

// Owned by the engine's thread.
class SimulatedTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SimulatedTime(takt::Duration front_end = {}, takt::Duration front_end_token = {})
      : front_end_(front_end), front_end_token_(front_end_token) {}

  // Sets time zero.
  void Start(Clock::time_point zero) { zero_ = zero; }

  takt::TimePoint now() const { return now_; }
  void MoveTo(takt::TimePoint time) { now_ = std::max(now_, time); }

  // Waits in real time until `time`, and moves to it.
  void WaitUntil(takt::TimePoint time) {
    std::this_thread::sleep_until(zero_ + time.time_since_epoch());
    MoveTo(time);
    const takt::Duration late = takt::TimePoint(Clock::now() - zero_) - now_;
    ++steps_, late_ += late, latest_ = std::max(latest_, late);
  }

  // Time from the arrival of a request until the engine has it.
  takt::Duration FrontEnd(std::int64_t prompt_tokens) const { return front_end_ + front_end_token_ * prompt_tokens; }

  // Lateness of the ends of steps.
  takt::Duration mean_late() const { return steps_ > 0 ? late_ / steps_ : takt::Duration(0); }
  takt::Duration latest() const { return latest_; }

 private:
  takt::Duration front_end_, front_end_token_;
  Clock::time_point zero_ = {};
  takt::TimePoint now_ = {};
  takt::Duration late_{0}, latest_{0};
  std::int64_t steps_ = 0;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SIMULATED_TIME_H_
