#include "takt/placement/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "takt/base/spec_parser.h"
#include "takt/placement/autellix.h"
#include "takt/placement/best_fit.h"
#include "takt/placement/cached_cost.h"
#include "takt/placement/code_ratio.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/dynamo.h"
#include "takt/placement/gain_slack.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/least_outstanding_tokens.h"
#include "takt/placement/llmd.h"
#include "takt/placement/minimum_completion_time.h"
#include "takt/placement/mooncake.h"
#include "takt/placement/preble.h"
#include "takt/placement/prefix.h"
#include "takt/placement/random.h"
#include "takt/placement/round_robin.h"
#include "takt/placement/session.h"
#include "takt/placement/sglang.h"
#include "takt/placement/time_slot_packer.h"
#include "takt/placement/token_reservation.h"
#include "takt/placement/workload_balance.h"

namespace takt {
namespace {

// visit(policy, summary) for each, at its defaults.
template <class V>
void ForEachPlacement(V&& visit) {
  visit(AutellixPlacement{}, "short prompts anywhere, long ones where their workflow is (Autellix)");
  visit(BestFit{}, "the least KV memory to spare that is enough (Parrot)");
  visit(CachedCost{}, "the least delay for all: wait, uncached prefill, and what would go (takt's, for agents)");
  visit(CodeRatio{}, "speed against all work ever sent, as in the code of HexGen-Flow's authors");
  visit(ConfidenceSlack{}, "the most capable model that is not too slow right now (Chimera, algorithm 1)");
  visit(DynamoPlacement{}, "the fewest tokens of prefill and decode, cached ones not counted (Dynamo)");
  visit(GainSlack{}, "the best score less the price of the work, which keeps models within a slack (takt's)");
  visit(LeastLoaded{}, "fewest requests, those that wait counted four times (vLLM's balancer)");
  visit(LeastOutstandingTokens{}, "fewest tokens of prompt and estimated output that are not done");
  visit(LlmdPlacement{}, "weighted sum of cached share, shorter queue and emptier cache (llm-d)");
  visit(MinimumCompletionTime{}, "the soonest expected end, by what calls were seen to take there (Ibarra and Kim)");
  visit(MooncakePlacement{}, "the soonest first token: queue and uncached prefill (Mooncake, without transfers)");
  visit(PreblePlacement{}, "the longest match if it is most of the prompt, else the least work (Preble)");
  visit(PrefixPlacement{}, "the most cached tokens");
  visit(RandomPlacement{}, "any, with equal chances");
  visit(RoundRobin{}, "each instance in turn");
  visit(SessionPlacement{}, "where the workflow's last turn went");
  visit(SglangPlacement{}, "the longest match, unless loads are apart (SGLang)");
  visit(TimeSlotPacker{}, "the lowest peak of the KV memory that will be needed, by slots of time (Kairos)");
  visit(TokenReservation{},
        "room for the prompt and a learnt quantile of the agent's outputs, else the router's queue (takt's)");
  visit(WorkloadBalance{}, "speed against the work that stands before the call (HexGen-Flow, equation 4)");
}

using OwnPlacement = internal::Own<AnyPlacement>;

std::vector<OwnPlacement>& OwnPlacements() {
  static std::vector<OwnPlacement> own;
  return own;
}

}  // namespace

std::vector<PlacementInfo> PlacementInfos() {
  std::vector<PlacementInfo> infos;
  ForEachPlacement(
      [&](const auto& policy, std::string_view text) { infos.push_back({NameOf(policy), std::string(text)}); });
  for (const OwnPlacement& own : OwnPlacements()) infos.push_back({own.name, own.summary});
  return infos;
}

absl::StatusOr<AnyPlacement> MakePlacement(std::string_view spec) {
  return internal::MakeByName<AnyPlacement>(
      "placement", spec, OwnPlacements(), [](auto&& visit) { ForEachPlacement(visit); }, [](const auto&) {});
}

absl::Status RegisterPlacement(std::string name, std::string summary, OwnPlacementFactory factory) {
  std::vector<std::string> known;
  for (const PlacementInfo& info : PlacementInfos()) known.push_back(info.name);
  return internal::AddOwn("placement", OwnPlacements(), {std::move(name), std::move(summary), std::move(factory)},
                          known);
}

}  // namespace takt
