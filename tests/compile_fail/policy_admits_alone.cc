// A policy with Admits also receives the admitted requests.
#include "takt/policy/rank_policy.h"

struct Policy {
  takt::RankKey Key(const takt::RequestState&) const { return {}; }
  bool Admits(const takt::RequestState&, takt::TimePoint) const { return false; }
#ifndef TAKT_MUST_FAIL
  void Admitted(const takt::RequestState&, takt::TimePoint) {}
#endif
};

constexpr takt::PolicyHooks kHooks = takt::HooksOf<Policy>();
