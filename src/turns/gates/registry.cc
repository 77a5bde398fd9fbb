#include "takt/turns/gates/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "takt/base/spec_parser.h"
#include "takt/turns/gates/concur.h"
#include "takt/turns/gates/lease.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/gates/working_set.h"

namespace takt {
namespace {

// visit(gate, summary) for each, at its defaults.
template <class V>
void ForEachGate(V&& visit) {
  visit(NoGate{}, "lets in whatever fits");
  visit(Lease{}, "takes no memory of workflows that were here a moment ago");
  visit(WorkingSet{}, "lets in while what runs and what was here of late fits (ThunderAgent)");
  visit(Concur{}, "bounds how many are active by congestion control on cache use and hits (CONCUR)");
  visit(Price{}, "lets in what is worth more than what it takes from others; bounds every wait (takt's)");
}

using OwnGate = internal::Own<AnyGate, const PrefillPace*>;

std::vector<OwnGate>& OwnGates() {
  static std::vector<OwnGate> own;
  return own;
}

}  // namespace

absl::StatusOr<AnyGate> MakeGate(std::string_view spec, const PrefillPace* pace) {
  return internal::MakeByName<AnyGate>(
      "gate", spec, OwnGates(), [](auto&& visit) { ForEachGate(visit); },
      [pace](auto& gate) {
        if constexpr (requires { gate.value.alpha_ms; }) {
          if (pace == nullptr) return;
          gate.value.alpha_ms = pace->alpha_ms, gate.value.beta_ns = pace->beta_ns, gate.value.load_ms = pace->load_ms;
        }
      },
      pace);
}

absl::StatusOr<GateFactory> MakeGateFactory(std::string_view spec) {
  if (const absl::StatusOr<AnyGate> gate = MakeGate(spec); !gate.ok()) return gate.status();
  return [text = std::string(spec)](const PrefillPace& pace) { return *MakeGate(text, &pace); };
}

std::vector<GateInfo> GateInfos() {
  std::vector<GateInfo> infos;
  ForEachGate(
      [&](const auto& gate, std::string_view summary) { infos.push_back({NameOf(gate), std::string(summary)}); });
  for (const OwnGate& own : OwnGates()) infos.push_back({own.name, own.summary});
  return infos;
}

absl::Status RegisterGate(std::string name, std::string summary, OwnGateFactory factory) {
  std::vector<std::string> known;
  for (const GateInfo& info : GateInfos()) known.push_back(info.name);
  return internal::AddOwn("gate", OwnGates(), {std::move(name), std::move(summary), std::move(factory)}, known);
}

}  // namespace takt
