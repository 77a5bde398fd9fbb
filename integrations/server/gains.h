// Compares which requests gain and which lose under a policy.
#ifndef TAKT_INTEGRATIONS_SERVER_GAINS_H_
#define TAKT_INTEGRATIONS_SERVER_GAINS_H_

#include <string>

#include "tool/report/comparison.h"

namespace serving {

// Returns a table of mean latencies under each policy, for requests in quarters by length of the answer, and of the
// number that ended sooner than under the first. It covers requests completed in every run; the runs must have kept
// their requests. Empty if there are fewer than two runs.
std::string GainTable(const takt::tool::Comparison& comparison);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_GAINS_H_
