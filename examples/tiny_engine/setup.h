// From arguments to a model and the options of an engine.
#ifndef TAKT_EXAMPLES_TINY_ENGINE_SETUP_H_
#define TAKT_EXAMPLES_TINY_ENGINE_SETUP_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arguments.h"
#include "tool/run/output.h"
#include "engine.h"

namespace tiny {

absl::StatusOr<Model> MakeModel(const ModelArguments& arguments);

// All but the policy, which is chosen for each run. Takes the settings of takt replay that mean the same to an engine,
// and gives the policies theirs.
absl::StatusOr<EngineOptions> MakeEngineOptions(Arguments& arguments);

// A log: what is there of it counts, even where the engine was killed. Nothing where the path is empty.
absl::StatusOr<std::optional<takt::tool::OutputFile>> OpenIfNamed(const std::string& path);

// Says what is wrong on standard error; returns `exit_code`.
int Complain(const absl::Status& status, int exit_code);

}  // namespace tiny

#endif  // TAKT_EXAMPLES_TINY_ENGINE_SETUP_H_
