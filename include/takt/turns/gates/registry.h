// Gates by name.
#ifndef TAKT_TURNS_GATES_REGISTRY_H_
#define TAKT_TURNS_GATES_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/spec_parser.h"
#include "takt/model/prefill_pace.h"
#include "takt/turns/gates/any_gate.h"

namespace takt {

// Makes a gate from "NAME" or "NAME(k=v,...)". `pace`: how fast the engine is, for what the spec does not
// say. InvalidArgument names what is unknown or out of bounds, and what there is instead.
absl::StatusOr<AnyGate> MakeGate(std::string_view spec, const PrefillPace* pace = nullptr);

// Makes the gate of an engine, by how fast that is.
using GateFactory = std::function<AnyGate(const PrefillPace&)>;

// One that makes what MakeGate makes of the text. What is wrong with the text is said now.
absl::StatusOr<GateFactory> MakeGateFactory(std::string_view spec);

// One of the host's own, by its options in a spec and the engine's pace, which may be null.
using OwnGateFactory =
    std::function<absl::StatusOr<AnyGate>(std::span<const KeyValue> options, const PrefillPace* pace)>;

// From here on MakeGate knows the name. As RegisterPolicy.
absl::Status RegisterGate(std::string name, std::string summary, OwnGateFactory factory);

// What can be made, for people to read.
struct GateInfo {
  std::string name, summary;
};
std::vector<GateInfo> GateInfos();

}  // namespace takt

#endif  // TAKT_TURNS_GATES_REGISTRY_H_
