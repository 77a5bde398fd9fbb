// Placement policies by name.
#ifndef TAKT_PLACEMENT_REGISTRY_H_
#define TAKT_PLACEMENT_REGISTRY_H_

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "takt/placement/any_placement.h"

namespace takt {

struct PlacementInfo {
  std::string_view name;
  std::string_view text;  // what it does, in one line
};

// All there are, in the order of their names.
std::span<const PlacementInfo> PlacementInfos();

// InvalidArgument, with the names that exist, where there is none of this one.
absl::StatusOr<AnyPlacement> MakePlacement(std::string_view name);

}  // namespace takt

#endif  // TAKT_PLACEMENT_REGISTRY_H_
