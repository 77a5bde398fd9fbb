// From arguments to the options of an engine.
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

// All but the policy, which is chosen for each run. Takes the settings of takt replay that mean the same to an engine,
// and gives the policies theirs.
absl::StatusOr<EngineOptions> MakeEngineOptions(Arguments& arguments);

// A log: what is there of it counts, even where the engine was killed. Nothing where the path is empty.
absl::StatusOr<std::optional<takt::tool::OutputFile>> OpenIfNamed(const std::string& path);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SETUP_H_
