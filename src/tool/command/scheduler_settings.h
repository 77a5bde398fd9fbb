// --option key=value: settings of the scheduler.
#ifndef TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_
#define TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/sim/replay.h"

namespace takt::tool {

// Applies a setting. Returns false for an unknown key, which may belong to a policy. InvalidArgument names the key and
// the value.
absl::StatusOr<bool> ApplySetting(std::string_view setting, ReplayOptions& options);

// Adds the options that a policy knows to its spec. Every option must be known to at least one policy.
absl::Status GiveOptions(std::vector<std::string>& policies, const std::vector<std::string>& options);

// Returns the known keys: "order, preempt, ...".
std::string SettingNames();

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_
