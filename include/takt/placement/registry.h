// Placement policies by name.
#ifndef TAKT_PLACEMENT_REGISTRY_H_
#define TAKT_PLACEMENT_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

// One with a kName, and options, if any, that it visits.
template <PlacementPolicy P>
  requires requires { P::kName; }
absl::Status RegisterPlacement(P plain, std::string summary) {
  return RegisterPlacement(std::string(P::kName), std::move(summary),
                           [plain](std::span<const KeyValue> options) -> absl::StatusOr<AnyPlacement> {
                             P placement = plain;
                             const absl::Status status = internal::SetOwn("placement", P::kName, placement, options);
                             if (!status.ok()) return status;
                             return AnyPlacement(std::move(placement));
                           });
}

// "round_robin", "least_loaded(waiting_weight=2)". InvalidArgument names what is wrong, and what there is.
absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec);

}  // namespace takt

#endif  // TAKT_PLACEMENT_REGISTRY_H_
