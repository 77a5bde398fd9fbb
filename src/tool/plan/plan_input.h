// Reads the input of `takt plan`.
#ifndef TAKT_SRC_TOOL_PLAN_PLAN_INPUT_H_
#define TAKT_SRC_TOOL_PLAN_PLAN_INPUT_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/planning/cascade.h"

namespace takt::tool {

// Reads the models of a cascade from a JSON file (docs/howto/plan.md). Errors name file, model and field.
absl::StatusOr<std::vector<ServedModel>> ReadModels(const std::string& path, std::span<const Profile> more);

// Reads profiled requests, one JSON object per line, or generates them for "cascadia:1" to "cascadia:3". Errors name
// file and line. With one model, scores are optional.
absl::StatusOr<std::vector<CascadeSample>> ReadSample(const std::string& path, std::size_t models);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_PLAN_PLAN_INPUT_H_
