// Targets for the first token: least slack first, and requests that cannot meet their target last.
#ifndef TAKT_POLICY_FIRST_TOKEN_H_
#define TAKT_POLICY_FIRST_TOKEN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/memory_time.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Orders requests in four groups:
//
//  1. requests that have generated a token, by arrival
//  2. requests that can meet their target, by latest start = first_token_by - forward_s * uncached prompt tokens
//  3. requests without a target, by arrival
//  4. requests whose latest start has passed, by arrival
//
// All slacks shrink at the same rate, so latest starts order requests by slack. Group 4 waits for all others: bound its
// wait with aged(first_token) or a class limit.
//
// Needs Request::first_token_by. A target of this scheduler's own is `default_s` after the arrival. Latest starts are
// optimistic, since they assume that the prompt has the engine to itself. A larger forward_s is more cautious.
class FirstToken {
 public:
  static constexpr std::string_view kName = "first_token";

  struct Options {
    double default_s = 0;  // target after the arrival, for requests without first_token_by [s]; 0: none
    bool late_last = true;  // false: requests that cannot meet their target keep their place in group 2
  };
  MemoryPace pace{.forward_s = 1e-4};  // only forward_s is used: time of a prompt token [s]

  FirstToken() = default;
  explicit FirstToken(Options options) : options_(options) {}

  void Reserve(std::size_t requests) { late_.reserve(requests); }

  void Enters(const RequestState& r, TimePoint now) {
    if (r.slot >= late_.size()) late_.resize(std::size_t{r.slot} + 1);
    late_[r.slot] = options_.late_last && LatestStart(r) < now;
  }

  RankKey Key(const RequestState& r) const {
    if (r.generated.value > 0) return {kBegun};
    if (Late(r)) return {kLate};
    const TimePoint latest = LatestStart(r);
    return {latest == kNever ? kNoTarget : ToSeconds(latest)};
  }

  // A target is missed one nanosecond after the latest start.
  TimePoint ChangesAt(const RequestState& r) const {
    if (!options_.late_last || r.generated.value > 0 || Late(r)) return kNever;
    return After(LatestStart(r), Duration(1));
  }
  void Change(const RequestState& r, TimePoint now) { Enters(r, now); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("default_s", self.options_.default_s,
          OptionText{"s", "target after the arrival for requests without first_token_by; 0: none", 0, 1e9});
    visit("late_last", self.options_.late_last, OptionText{"", "requests that cannot meet their target go last"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time of a prompt token", 0, 1e6});
  }

 private:
  static constexpr double kBegun = -1e12, kNoTarget = 1e12, kLate = 2e12;  // beyond every time in seconds

  bool Late(const RequestState& r) const { return r.slot < late_.size() && late_[r.slot] != 0; }

  TimePoint LatestStart(const RequestState& r) const {
    TimePoint by = r.request.first_token_by;
    if (by == kNever && options_.default_s > 0) by = After(r.request.arrival, FromSeconds(options_.default_s));
    if (by == kNever) return kNever;
    const std::int64_t tokens =
        std::int64_t{r.request.prompt_tokens.value} - std::max(r.computed.value, r.cached.value);
    return Before(by, FromSeconds(Rounded(pace.forward_s * static_cast<double>(std::max<std::int64_t>(tokens, 0)))));
  }

  Options options_;
  std::vector<std::uint8_t> late_;  // by slot
};

}  // namespace takt

#endif  // TAKT_POLICY_FIRST_TOKEN_H_
