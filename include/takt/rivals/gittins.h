// The Gittins index of work with a known distribution of size.
#ifndef TAKT_RIVALS_GITTINS_H_
#define TAKT_RIVALS_GITTINS_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "takt/base/rounded.h"

namespace takt {

// Returns the reciprocal of the index, in the unit of `sizes`: min over s of E[min(S, s)] / P(S <= s). This is the
// least expected service per probability of ending. Work of smaller rank is served first. The rank of a known size is
// the size. Source: Gittins (1979), as in Aalto, Ayesta and Righter (2009).
//
// `sizes`: remaining work, ascending. `weights` need not sum to one. For a job that has received service a, pass the
// sizes above a, each minus a. Returns +infinity if the weights sum to zero.
inline double GittinsRank(std::span<const double> sizes, std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  double rank = std::numeric_limits<double>::infinity();
  double within = 0, served = 0;  // total weight of the sizes so far, and their total service
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    within += weights[i];
    served += Rounded(weights[i] * sizes[i]);
    if (within > 0) rank = std::min(rank, (served + Rounded(std::max(total - within, 0.0) * sizes[i])) / within);
  }
  return rank;
}

}  // namespace takt

#endif  // TAKT_RIVALS_GITTINS_H_
