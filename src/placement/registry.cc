#include "takt/placement/registry.h"

#include "spec_parser.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/round_robin.h"

namespace takt {
namespace {

// visit(policy, summary) for each, at its defaults.
template <class V>
void ForEachPlacement(V&& visit) {
  visit(LeastLoaded{}, "fewest requests, those that wait counted four times (vLLM's balancer)");
  visit(RoundRobin{}, "each instance in turn");
}

}  // namespace

std::vector<PlacementInfo> PlacementInfos() {
  std::vector<PlacementInfo> infos;
  ForEachPlacement(
      [&](const auto& policy, std::string_view text) { infos.push_back({NameOf(policy), std::string(text)}); });
  return infos;
}

absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec) {
  return internal::MakeByName<AnyPlacement>(
      "placement", spec, [](auto&& visit) { ForEachPlacement(visit); }, [](const auto&) {});
}

}  // namespace takt
