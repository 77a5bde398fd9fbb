// Placement policies by name.
#ifndef TAKT_PLACEMENT_REGISTRY_H_
#define TAKT_PLACEMENT_REGISTRY_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/registry.h"
#include "takt/placement/any_placement.h"

namespace takt {
namespace internal {
using PlacementRegistry = Registry<AnyPlacement>;
extern template class Registry<AnyPlacement>;
PlacementRegistry& Placements();
}  // namespace internal

// Makes the host's own placement from its options in a spec.
using OwnPlacementFactory = internal::PlacementRegistry::OwnFactory;

// Makes a placement from a spec such as "round_robin" or "least_loaded(waiting_weight=2)". InvalidArgument names the
// unknown or invalid part and the valid choices.
inline absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec) { return internal::Placements().Make(spec); }

// Registers the host's own placement for MakePlacement. The rules of RegisterPolicy apply.
inline absl::Status RegisterPlacement(std::string name, std::string summary, OwnPlacementFactory factory) {
  return internal::Placements().Register(std::move(name), std::move(summary), std::move(factory));
}
template <PlacementPolicy P>
  requires requires { P::kName; }
absl::Status RegisterPlacement(P plain, std::string summary) {
  return internal::Placements().Register(std::move(plain), std::move(summary));
}

using PlacementInfo = RegistryInfo;
// Returns the known placements, sorted by name.
inline std::vector<PlacementInfo> PlacementInfos() {
  std::vector<PlacementInfo> infos = internal::Placements().Infos();
  std::ranges::sort(infos, {}, &PlacementInfo::name);
  return infos;
}

}  // namespace takt

#endif  // TAKT_PLACEMENT_REGISTRY_H_
