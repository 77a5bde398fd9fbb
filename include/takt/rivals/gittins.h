// The Gittins index of work whose size is known as a distribution.
#ifndef TAKT_RIVALS_GITTINS_H_
#define TAKT_RIVALS_GITTINS_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "takt/base/rounded.h"

namespace takt {

// The reciprocal of the index, in the unit of `sizes`: the least, over how long one is willing to serve it, of the
// service that this takes by expectation per chance that it ends within: min over s of E[min(S, s)] / P(S <= s).
// Smaller is sooner; of a known size the size. Source: Gittins (1979), as in Aalto, Ayesta and Righter (2009).
//
// `sizes` ascending, with `weights` that need not sum to one: what is left to do, so that of served work those belong
// here that are larger than the service, less the service. +infinity where the weights sum to nothing.
inline double GittinsRank(std::span<const double> sizes, std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  double rank = std::numeric_limits<double>::infinity();
  double within = 0, served = 0;  // weight that has ended by a size, and its service
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    within += weights[i];
    served += Rounded(weights[i] * sizes[i]);
    if (within > 0) rank = std::min(rank, (served + Rounded(std::max(total - within, 0.0) * sizes[i])) / within);
  }
  return rank;
}

}  // namespace takt

#endif  // TAKT_RIVALS_GITTINS_H_
