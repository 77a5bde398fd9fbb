// A static key may not depend on the current time.
#include "takt/policy/rank_policy.h"

struct Policy {
#ifdef TAKT_MUST_FAIL
  takt::RankKey Key(const takt::RequestState&, takt::TimePoint now) const { return {takt::ToSeconds(now)}; }
#else
  takt::RankKey Key(const takt::RequestState& r) const { return {takt::ToSeconds(r.request.arrival)}; }
#endif
};

template <takt::RankPolicy P>
void Take(const P&) {}

void Use() { Take(Policy{}); }
