#include "takt/placement/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/round_robin.h"

namespace takt {
namespace {

constexpr PlacementInfo kInfos[] = {
    {LeastLoaded::kName, "fewest requests, those that wait counted four times (vLLM's balancer)"},
    {RoundRobin::kName, "each instance in turn"},
};

AnyPlacement (*const kMakers[])() = {
    [] { return AnyPlacement(LeastLoaded{}); },
    [] { return AnyPlacement(RoundRobin{}); },
};
static_assert(std::size(kInfos) == std::size(kMakers));

}  // namespace

std::span<const PlacementInfo> PlacementInfos() { return kInfos; }

absl::StatusOr<AnyPlacement> MakePlacement(std::string_view name) {
  const auto* info = std::ranges::find(kInfos, name, &PlacementInfo::name);
  if (info != std::end(kInfos)) return kMakers[info - kInfos]();
  std::string names;
  for (const PlacementInfo& i : kInfos) names += fmt::format("{}{}", names.empty() ? "" : ", ", i.name);
  return absl::InvalidArgumentError(fmt::format("there is no placement \"{}\"; there are: {}", name, names));
}

}  // namespace takt
