// Settings that takt replay and takt recommend share, and the replay that follows from them.
#ifndef TAKT_SRC_TOOL_COMMAND_REPLAY_SETUP_H_
#define TAKT_SRC_TOOL_COMMAND_REPLAY_SETUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"
#include "tool/command/options.h"
#include "tool/report/comparison.h"

namespace takt::tool {

inline constexpr std::int32_t kMostInstances = 1024;

// Policies of a comparison if the user gives none.
std::vector<std::string> DefaultPolicies();

// Adds the options of engines that do not depend on their number and shape.
void AddEngineSetup(Group group, ReplaySetup& to);

// The options that choose the arrivals. At most one of them may be given.
struct LoadFlags {
  Flag scale, closed, sessions;
};
LoadFlags AddLoadSetup(Group group, ReplaySetup& to);

// Returns InvalidArgument if an option of the load lacks the option that it needs.
absl::Status CheckLoad(const ReplaySetup& setup);

// Returns the options of a replay on these engines, one or more, and gives the policies their options. Errors name the
// option at fault.
absl::StatusOr<ReplayOptions> ReplayOptionsOf(const ReplaySetup& setup, std::vector<Profile> engines,
                                              std::uint64_t seed, std::vector<std::string>& policies);

// Sets the profile of all engines, and its front end unless the setup has one.
void SetProfile(const ReplaySetup& setup, Profile profile, ReplayOptions& options);

// Draws sessions until the horizon if --session-rate is given, or if a closed loop replays sessions. Sets retention,
// gate and prefix cache, also those of the setup.
absl::Status DrawLoad(ReplaySetup& setup, std::uint64_t seed, Workload& workload, ReplayOptions& options);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_REPLAY_SETUP_H_
