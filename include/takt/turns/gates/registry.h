// Gates by name.
#ifndef TAKT_TURNS_GATES_REGISTRY_H_
#define TAKT_TURNS_GATES_REGISTRY_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/registry.h"
#include "takt/model/prefill_pace.h"
#include "takt/turns/gates/any_gate.h"

namespace takt {
namespace internal {
using GateRegistry = Registry<AnyGate, const PrefillPace*>;
extern template class Registry<AnyGate, const PrefillPace*>;
GateRegistry& Gates();
}  // namespace internal

// Creates a custom gate from the options in a spec and the engine's pace, which may be null.
using OwnGateFactory = internal::GateRegistry::OwnFactory;

// Creates a gate from "NAME" or "NAME(k=v,...)". `pace` supplies options that the spec omits. InvalidArgument names the
// unknown or invalid part and the valid choices.
inline absl::StatusOr<AnyGate> MakeGate(std::string_view spec, const PrefillPace* pace = nullptr) {
  return internal::Gates().Make(spec, pace);
}

// Creates the gate of an engine from its pace. MakeGateFactory reports invalid specs, so the factory never fails.
using GateFactory = std::function<AnyGate(const PrefillPace&)>;
inline absl::StatusOr<GateFactory> MakeGateFactory(std::string_view spec) {
  return internal::Gates().MakeFactory<PrefillPace>(spec);
}

// Registers a custom gate for MakeGate, like RegisterPolicy.
inline absl::Status RegisterGate(std::string name, std::string summary, OwnGateFactory factory) {
  return internal::Gates().Register(std::move(name), std::move(summary), std::move(factory));
}
template <GatePolicy P>
  requires requires { P::kName; }
absl::Status RegisterGate(P plain, std::string summary) {
  return internal::Gates().Register(std::move(plain), std::move(summary));
}

using GateInfo = RegistryInfo;
inline std::vector<GateInfo> GateInfos() { return internal::Gates().Infos(); }

}  // namespace takt

#endif  // TAKT_TURNS_GATES_REGISTRY_H_
