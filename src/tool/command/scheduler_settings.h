// --option key=value: how the scheduler behaves.
#ifndef TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_
#define TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/sim/replay.h"

namespace takt::tool {

// False where there is no such key: it may be one of a policy. InvalidArgument names the key and the value.
absl::StatusOr<bool> ApplySetting(std::string_view setting, ReplayOptions& options);

// The specs of the policies with those of `options` that they know. Every option must be known to one of them.
absl::Status GiveOptions(std::vector<std::string>& policies, const std::vector<std::string>& options);

// The keys there are: "order, preempt, ...".
std::string SettingNames();

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_SCHEDULER_SETTINGS_H_
