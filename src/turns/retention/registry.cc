#include "takt/turns/retention/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "takt/base/spec_parser.h"
#include "takt/turns/retention/belady.h"
#include "takt/turns/retention/belady_cost.h"
#include "takt/turns/retention/continuum.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/turns/retention/shortest.h"
#include "takt/turns/retention/slru.h"
#include "takt/turns/retention/tlru.h"
#include "takt/turns/retention/ttl.h"
#include "takt/turns/retention/wa.h"

namespace takt {
namespace {

// visit(policy, summary) for each, at its defaults.
template <class V>
void ForEachRetention(V&& visit) {
  visit(Lru{}, "what was used least recently goes first (vLLM)");
  visit(Lfu{}, "what has had the fewest turns goes first");
  visit(Slru{}, "what has had one turn goes before what has had several (SGLang)");
  visit(Ttl{}, "held for a fixed time after each turn; then by age");
  visit(Continuum{}, "held while waiting for the return is expected to save time; then by age (Continuum)");
  visit(Wa{}, "what is least likely to be used within its lifetime goes first (Bailian)");
  visit(Tlru{}, "what the next turn can do without goes first, then by age (T-LRU)");
  visit(Shortest{}, "what has the fewest tokens goes first");
  visit(HoldValue{}, "what saves the least work per second held goes first (takt's)");
  visit(Belady{}, "what is used again last goes first; simulators alone know it");
  visit(BeladyCost{}, "what saves the least work per second until its next use; simulators alone know it");
}

using OwnRetention = internal::Own<AnyRetention, const PrefillPace*>;

std::vector<OwnRetention>& OwnRetentions() {
  static std::vector<OwnRetention> own;
  return own;
}

}  // namespace

absl::StatusOr<AnyRetention> MakeRetention(std::string_view spec, const PrefillPace* pace) {
  return internal::MakeByName<AnyRetention>(
      "retention policy", spec, OwnRetentions(), [](auto&& visit) { ForEachRetention(visit); },
      [pace](auto& policy) {
        if constexpr (requires { policy.alpha_ms; }) {
          if (pace != nullptr) policy.alpha_ms = pace->alpha_ms, policy.beta_ns = pace->beta_ns;
        }
        if constexpr (requires { policy.load_ms; }) {
          if (pace != nullptr) policy.load_ms = pace->load_ms;
        }
      },
      pace);
}

absl::StatusOr<RetentionFactory> MakeRetentionFactory(std::string_view spec) {
  if (const absl::StatusOr<AnyRetention> retention = MakeRetention(spec); !retention.ok()) return retention.status();
  return [text = std::string(spec)](const PrefillPace& pace) { return *MakeRetention(text, &pace); };
}

std::vector<RetentionInfo> RetentionInfos() {
  std::vector<RetentionInfo> infos;
  ForEachRetention(
      [&](const auto& policy, std::string_view summary) { infos.push_back({NameOf(policy), std::string(summary)}); });
  for (const OwnRetention& own : OwnRetentions()) infos.push_back({own.name, own.summary});
  return infos;
}

absl::Status RegisterRetention(std::string name, std::string summary, OwnRetentionFactory factory) {
  std::vector<std::string> known;
  for (const RetentionInfo& info : RetentionInfos()) known.push_back(info.name);
  return internal::AddOwn("retention policy", OwnRetentions(),
                          {std::move(name), std::move(summary), std::move(factory)}, known);
}

}  // namespace takt
