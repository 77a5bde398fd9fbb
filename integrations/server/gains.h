// Compares which requests gain and which lose under a policy.
#ifndef TAKT_INTEGRATIONS_SERVER_GAINS_H_
#define TAKT_INTEGRATIONS_SERVER_GAINS_H_

#include <string>

#include "tool/report/comparison.h"

namespace serving {

// Returns a table with a row per quarter of the requests by length of the answer. Its columns are the mean latency
// under each policy, and the number of requests that ended sooner than under the first policy. It covers requests
// completed in every run. The runs must have kept their requests. Empty if there are fewer than two runs.
std::string GainTable(const takt::tool::Comparison& comparison);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_GAINS_H_
