// Placement policies by name.
#ifndef TAKT_PLACEMENT_REGISTRY_H_
#define TAKT_PLACEMENT_REGISTRY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/placement/any_placement.h"

namespace takt {

struct PlacementInfo {
  std::string name;
  std::string text;  // what it does, in one line
};

// All there are, in the order of their names.
std::vector<PlacementInfo> PlacementInfos();

// "round_robin", "least_loaded(waiting_weight=2)". InvalidArgument names what is wrong, and what there is.
absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec);

}  // namespace takt

#endif  // TAKT_PLACEMENT_REGISTRY_H_
