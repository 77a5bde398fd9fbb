// What the tool can do. Each command prints what goes wrong on standard error and returns the exit code.
#ifndef TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
#define TAKT_SRC_TOOL_COMMAND_COMMANDS_H_

#include <string_view>

#include "absl/status/status.h"
#include "tool/command/arguments.h"

namespace takt::tool {

int RunCommand(const ReplayArguments& arguments);
int RunCommand(const PoliciesArguments& arguments);
int RunCommand(const ProfilesArguments& arguments);
int RunCommand(const InspectArguments& arguments);
int RunCommand(const GenerateArguments& arguments);
int RunCommand(const ReplayLogArguments& arguments);
int RunCommand(const CalibrateArguments& arguments);
int RunCommand(const CompareArguments& arguments);
int RunCommand(const ScenarioArguments& arguments);
int RunCommand(const PlanArguments& arguments);
int RunCommand(const TuneArguments& arguments);
int RunCommand(const ClusterArguments& arguments);
int RunCommand(const TrainArguments& arguments);
int RunCommand(const PredictArguments& arguments);

// Says what is wrong on standard error, under the command's name; returns `exit_code`.
int Complain(std::string_view command, const absl::Status& status, int exit_code);

// Writes to standard output; the exit code says whether it could.
int Print(std::string_view command, std::string_view text);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
