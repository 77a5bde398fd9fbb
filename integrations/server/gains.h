// Who gains from a policy, and who pays for it.
#ifndef TAKT_INTEGRATIONS_SERVER_GAINS_H_
#define TAKT_INTEGRATIONS_SERVER_GAINS_H_

#include <string>

#include "tool/report/comparison.h"

namespace serving {

// Mean latency of the requests with the shortest answers, and of the others, a quarter at a time, under each policy,
// and how many of them ended sooner than under the first. Over the requests that completed in every run; the runs must
// have kept theirs. Empty where there are no two runs to compare.
std::string GainTable(const takt::tool::Comparison& comparison);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_GAINS_H_
