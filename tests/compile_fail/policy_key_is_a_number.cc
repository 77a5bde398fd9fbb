#include "takt/policy/rank_policy.h"

struct Policy {
#ifdef TAKT_MUST_FAIL
  double Key(const takt::RequestState&) const { return 0; }
#else
  takt::RankKey Key(const takt::RequestState&) const { return {0}; }
#endif
};

template <takt::RankPolicy P>
void Take(const P&) {}

void Use() { Take(Policy{}); }
