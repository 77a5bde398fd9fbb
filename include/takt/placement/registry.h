// Placement policies by name.
#ifndef TAKT_PLACEMENT_REGISTRY_H_
#define TAKT_PLACEMENT_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/spec_parser.h"
#include "takt/placement/any_placement.h"

namespace takt {

struct PlacementInfo {
  std::string name;
  std::string text;  // what it does, in one line
};

// All there are, in the order of their names.
std::vector<PlacementInfo> PlacementInfos();

// One of the host's own, by its options in a spec.
using OwnPlacementFactory = std::function<absl::StatusOr<AnyPlacement>(std::span<const KeyValue> options)>;

// From here on MakePlacement knows the name. As RegisterPolicy.
absl::Status RegisterPlacement(std::string name, std::string summary, OwnPlacementFactory factory);

// "round_robin", "least_loaded(waiting_weight=2)". InvalidArgument names what is wrong, and what there is.
absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec);

}  // namespace takt

#endif  // TAKT_PLACEMENT_REGISTRY_H_
