// The instance on which the call is expected to end first, learnt from the times of earlier calls.
#ifndef TAKT_PLACEMENT_MINIMUM_COMPLETION_TIME_H_
#define TAKT_PLACEMENT_MINIMUM_COMPLETION_TIME_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/model/instance.h"
#include "takt/placement/books/call_costs.h"
#include "takt/placement/books/work_in_flight.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Chooses the instance with the least own + wait [s]:
//
//     own  = a + b * prompt tokens + c * (expected output tokens - 1)
//     wait = (sum of own over the instance's calls) / B if it has at least B calls, else 0
//
// - a, b: a least-squares fit to the times from getting a place to RequestStarted. b is at least 0. A call has a place
//   at once if fewer than B calls have one. Otherwise calls get places in order of arrival, when others end.
// - c: mean time per output token after the first. Each further call reduces the weight of earlier ones by `fade`.
// - B: the calls that can run at once. If a report shows waiting calls, B is its running count for the next `recent_s`,
//   or until more run. Otherwise B is the larger of two numbers: the newest report's running count plus one, and the
//   most that ever ran. Without reports, B is the most that ever ran, at least 1.
// - An instance without an ended call in the last `recent_s` uses the times of all instances. So the policy tries
//   instances that are new or may no longer be slow. Before any call has ended, it chooses the instance with the fewest
//   calls.
// - Lengths: Request::prompt_tokens, CallCosts::OutputTokens.
// - The host must report RequestEnded::served. Failed calls and calls without it are ignored.
//
// Source: minimum completion time, Ibarra and Kim (1977), algorithm for unequal processors. The estimates are takt's.
class MinimumCompletionTime {
 public:
  static constexpr std::string_view kName = "minimum_completion_time";

  double recent_s = 60;
  double fade = 0.02;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("recent_s", self.recent_s,
          OptionText{"s", "time without an ended call after which an instance counts as unknown", 0, 1e9});
    visit("fade", self.fade, OptionText{"share", "share of the weight of earlier calls that each call removes", 0, 1});
  }

  void Up(const InstanceState& i, TimePoint) {
    if (i.slot >= instances_.size()) instances_.resize(i.slot + std::size_t{1});
    Instance& at = instances_[i.slot];
    if (at.id == i.instance.id) return;
    while (at.first != kNone) Leave(at.first);
    at = {.id = i.instance.id};
  }

  void Observe(const RouterEvent& event, TimePoint) {
    const auto* ended = std::get_if<RequestEnded>(&event);
    ended_ =
        ended != nullptr && !ended->failed && ended->served && !ended->served->absurd() ? ended->request : RequestId{};
    if (ended_) output_ = ended->served->output.value;
  }

  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const {
    const std::int64_t there = work_.waiting_count(i.slot) + work_.running_count(i.slot);
    const double own = Own(r.request, i.slot, now);
    if (!(own > 0)) return -static_cast<double>(there);
    const std::int64_t most = i.slot < instances_.size() ? MostOn(instances_[i.slot], i, now) : 1;
    if (there < most) return -own;
    return -(own + Rounded(static_cast<double>(work_.outstanding(i.slot)) * 1e-9 / static_cast<double>(most)));
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (r.slot >= calls_.size()) calls_.resize(r.slot + std::size_t{1});
    if (i.slot >= instances_.size()) instances_.resize(i.slot + std::size_t{1});
    Instance& at = instances_[i.slot];
    Leave(r.slot);
    calls_[r.slot] = {.instance = i.slot};
    if (i.report.waiting > 0 && i.report.running > 0) {
      at.full = IsRecent(at, now) ? std::max(at.full, i.report.running) : i.report.running;
      at.full_at = now;
    }
    at.most = std::max(at.most, i.report.running);
    at.now = MostOn(at, i, now);
    if (at.begun < at.now) {
      Begin(at, r.slot, now);
    } else {
      Join(r.slot);
    }
    work_.Placed(r.slot, i.slot, static_cast<std::int64_t>(std::min(Own(r.request, i.slot, now), 1e4) * 1e9));
  }

  void Started(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (!work_.Started(r.slot)) return;
    Call& call = calls_[r.slot];
    Instance& at = instances_[i.slot];
    // A report is more exact: events of ended calls arrive late.
    if (!i.reported) at.most = at.now = std::max(at.most, work_.running_count(i.slot));
    call.started = now;
    call.runs = true;
    if (!call.has_place) {  // the wait of a call without a place is meaningless
      Leave(r.slot);
      Begin(at, r.slot, now);
      return;
    }
    const double prompt = static_cast<double>(r.request.prompt_tokens.value),
                 took = ToSeconds(Between(call.begun, now));
    at.costs.First(prompt, took, fade);
    all_.First(prompt, took, fade);
  }

  void Released(const RequestState& r, const InstanceState& i, TimePoint now) {
    work_.Released(r.slot);
    if (r.slot >= calls_.size() || i.slot >= instances_.size()) return;
    Instance& at = instances_[i.slot];
    const Call call = calls_[r.slot];
    if (call.has_place) {
      --at.begun;
    } else {
      Leave(r.slot);
    }
    calls_[r.slot] = {};
    while (at.begun < at.now && at.first != kNone) {
      const std::uint32_t next = at.first;
      Leave(next);
      Begin(at, next, now);
    }
    if (!ended_ || r.request.id != ended_ || output_ <= 0) return;
    at.heard = now;
    const double tokens = static_cast<double>(output_);
    double took = 0;
    if (call.runs && output_ > 1) {
      took = ToSeconds(Between(call.started, now)) / (tokens - 1);
    } else if (!call.runs && call.has_place) {  // the time of the first token is unknown
      took = ToSeconds(Between(call.begun, now)) / tokens;
    } else {
      return;
    }
    at.costs.Further(took, fade);
    all_.Further(took, fade);
  }

  // Returns the expected time of the call alone on the instance [s]; 0: nothing was learnt.
  double Own(const Request& r, std::uint32_t slot, TimePoint now) const {
    const bool known = slot < instances_.size() && instances_[slot].costs.known() &&
                       !(ToSeconds(Between(instances_[slot].heard, now)) > recent_s);
    return (known ? instances_[slot].costs : all_)
        .Of(static_cast<double>(r.prompt_tokens.value), static_cast<double>(CallCosts::OutputTokens(r)));
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // Decaying sums, and the coefficients computed from these sums.
  struct Costs {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;  // sums over calls of x prompt tokens with y seconds to the first token
    double further = 0, seconds = 0;  // sum of calls, and sum of their seconds per output token after the first
    double mean_x = 0, mean_y = 0, slope = 0, token = 0;

    bool known() const { return further > 0; }
    void First(double prompt, double took, double share) {
      const double keep = 1 - share;
      n = Rounded(n * keep) + 1;
      x = Rounded(x * keep) + prompt;
      y = Rounded(y * keep) + took;
      xx = Rounded(xx * keep) + Rounded(prompt * prompt);
      xy = Rounded(xy * keep) + Rounded(prompt * took);
      const double spread = Rounded(n * xx) - Rounded(x * x), both = Rounded(n * xy) - Rounded(x * y);
      // Prompts of nearly equal length do not determine a slope.
      slope = spread > 1e-6 * Rounded(n * xx) && both > 0 ? both / spread : 0;
      mean_x = x / n, mean_y = y / n;
    }
    void Further(double took, double share) {
      const double keep = 1 - share;
      further = Rounded(further * keep) + 1;
      seconds = Rounded(seconds * keep) + took;
      token = seconds / further;
    }
    double Of(double prompt, double output) const {
      const double first = n > 0 ? std::max(0.0, mean_y + Rounded(slope * (prompt - mean_x))) : 0;
      if (further <= 0) return first;
      return first + Rounded(token * std::max(0.0, output - (n > 0 ? 1 : 0)));
    }
  };
  struct Instance {
    InstanceId id;
    std::int64_t most = 1;  // largest number of calls that ran at once
    std::int64_t full = 0;  // number of calls that ran while others waited; 0: none ever waited
    TimePoint full_at{};
    std::int64_t now = 1;  // B at the last placement
    std::int64_t begun = 0;  // number of calls that have a place
    std::uint32_t first = kNone, last = kNone;  // slots of calls without a place, by arrival
    TimePoint heard{};
    Costs costs = {};
  };
  struct Call {
    TimePoint begun{}, started{};
    bool has_place = false, runs = false;
    bool waits = false;  // true: the call waits for a place, between `before` and `after`
    std::uint32_t instance = 0, before = kNone, after = kNone;
  };

  bool IsRecent(const Instance& at, TimePoint now) const {
    return at.full > 0 && !(ToSeconds(Between(at.full_at, now)) > recent_s);
  }
  std::int64_t MostOn(const Instance& at, const InstanceState& i, TimePoint now) const {
    if (!i.reported) return at.most;
    if (IsRecent(at, now)) return std::max(at.full, i.report.running);
    return std::max(at.most, i.report.running + 1);
  }

  // Calls that wait for a place form a linked list, since they may leave from anywhere.
  void Join(std::uint32_t slot) {
    Call& call = calls_[slot];
    Instance& at = instances_[call.instance];
    call.waits = true;
    call.before = at.last;
    (at.last == kNone ? at.first : calls_[at.last].after) = slot;
    at.last = slot;
  }
  void Leave(std::uint32_t slot) {
    Call& call = calls_[slot];
    if (!call.waits) return;
    Instance& at = instances_[call.instance];
    (call.before == kNone ? at.first : calls_[call.before].after) = call.after;
    (call.after == kNone ? at.last : calls_[call.after].before) = call.before;
    call.waits = false;
    call.before = call.after = kNone;
  }

  void Begin(Instance& at, std::uint32_t slot, TimePoint now) {
    calls_[slot].begun = now;
    calls_[slot].has_place = true;
    ++at.begun;
  }

  std::vector<Instance> instances_;  // by InstanceState::slot
  std::vector<Call> calls_;  // by RequestState::slot
  WorkInFlight work_;  // own time of calls [ns]
  Costs all_;
  RequestId ended_;  // request of the current event, if the policy learns from the event
  std::int64_t output_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_MINIMUM_COMPLETION_TIME_H_
