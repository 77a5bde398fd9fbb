// Converts arguments to the options of an engine.
#ifndef TAKT_INTEGRATIONS_SERVER_SETUP_H_
#define TAKT_INTEGRATIONS_SERVER_SETUP_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arguments.h"
#include "tool/run/output.h"
#include "engine.h"

namespace serving {

// Sets all options except the policy, which differs between runs. Accepts the settings of takt replay that apply to an
// engine, and passes their options to the policies.
absl::StatusOr<EngineOptions> MakeEngineOptions(Arguments& arguments);

// Opens a log file, which stays readable if the engine is killed. Returns nothing if the path is empty.
absl::StatusOr<std::optional<takt::tool::OutputFile>> OpenIfNamed(const std::string& path);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SETUP_H_
