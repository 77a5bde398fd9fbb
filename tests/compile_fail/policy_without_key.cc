// A policy's key is a function of the request's state, and a RankKey.
#include "takt/policy/rank_policy.h"

struct Policy {
#ifdef TAKT_MUST_FAIL
  takt::RankKey Key() const { return {}; }
#else
  takt::RankKey Key(const takt::RequestState&) const { return {}; }
#endif
};

template <takt::RankPolicy P>
void Take(const P&) {}

void Use() { Take(Policy{}); }
