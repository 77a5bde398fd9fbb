// Pause policies by name.
#ifndef TAKT_PAUSE_REGISTRY_H_
#define TAKT_PAUSE_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/spec_parser.h"
#include "takt/model/memory_time.h"
#include "takt/pause/any_pause.h"

namespace takt {

// Makes a pause policy from "NAME" or "NAME(k=v,...)". `pace`: how fast the engine is, for what the spec does not say.
// InvalidArgument names what is unknown or out of bounds, and what there is instead.
absl::StatusOr<AnyPause> MakePause(std::string_view spec, const MemoryPace* pace = nullptr);

// Makes the pause policy of an engine, by how fast that is.
using PauseFactory = std::function<AnyPause(const MemoryPace&)>;

// One that makes what MakePause makes of the text. What is wrong with the text is said now; the factory cannot fail.
absl::StatusOr<PauseFactory> MakePauseFactory(std::string_view spec);

// One of the host's own, by its options in a spec and the engine's pace, which may be null.
using OwnPauseFactory =
    std::function<absl::StatusOr<AnyPause>(std::span<const KeyValue> options, const MemoryPace* pace)>;

// From here on MakePause knows the name. As RegisterPolicy.
absl::Status RegisterPause(std::string name, std::string summary, OwnPauseFactory factory);

// One with a kName, and options, if any, that it visits.
template <PausePolicy P>
  requires requires { P::kName; }
absl::Status RegisterPause(P plain, std::string summary) {
  return RegisterPause(std::string(P::kName), std::move(summary),
                       [plain](std::span<const KeyValue> options, const MemoryPace*) -> absl::StatusOr<AnyPause> {
                         P pause = plain;
                         const absl::Status status = internal::SetOwn("pause policy", P::kName, pause, options);
                         if (!status.ok()) return status;
                         return AnyPause(std::move(pause));
                       });
}

// What can be made, for people to read.
struct PauseInfo {
  std::string name, summary;
};
std::vector<PauseInfo> PauseInfos();

}  // namespace takt

#endif  // TAKT_PAUSE_REGISTRY_H_
