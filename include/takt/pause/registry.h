// Pause policies by name.
#ifndef TAKT_PAUSE_REGISTRY_H_
#define TAKT_PAUSE_REGISTRY_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/registry.h"
#include "takt/model/memory_time.h"
#include "takt/pause/any_pause.h"

namespace takt {
namespace internal {
using PauseRegistry = Registry<AnyPause, const MemoryPace*>;
extern template class Registry<AnyPause, const MemoryPace*>;
PauseRegistry& Pauses();
}  // namespace internal

// Creates a custom pause policy from the options in a spec and the engine's pace, which may be null.
using OwnPauseFactory = internal::PauseRegistry::OwnFactory;

// Creates a pause policy from "NAME" or "NAME(k=v,...)". `pace` supplies options that the spec omits. InvalidArgument
// names the unknown or invalid part and the valid choices.
inline absl::StatusOr<AnyPause> MakePause(std::string_view spec, const MemoryPace* pace = nullptr) {
  return internal::Pauses().Make(spec, pace);
}

// Creates the pause policy of an engine from its pace. MakePauseFactory reports invalid specs, so the factory never
// fails.
using PauseFactory = std::function<AnyPause(const MemoryPace&)>;
inline absl::StatusOr<PauseFactory> MakePauseFactory(std::string_view spec) {
  return internal::Pauses().MakeFactory<MemoryPace>(spec);
}

// Registers a custom pause policy for MakePause, like RegisterPolicy.
inline absl::Status RegisterPause(std::string name, std::string summary, OwnPauseFactory factory) {
  return internal::Pauses().Register(std::move(name), std::move(summary), std::move(factory));
}
template <PausePolicy P>
  requires requires { P::kName; }
absl::Status RegisterPause(P plain, std::string summary) {
  return internal::Pauses().Register(std::move(plain), std::move(summary));
}

using PauseInfo = RegistryInfo;
inline std::vector<PauseInfo> PauseInfos() { return internal::Pauses().Infos(); }

}  // namespace takt

#endif  // TAKT_PAUSE_REGISTRY_H_
