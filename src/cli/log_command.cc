#include <string>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/table.h"
#include "fmt/format.h"
#include "takt/base/time.h"
#include "takt/record.h"

namespace takt::cli {
namespace {

std::string StatsText(const Stats& stats) {
  std::string text;
#define TAKT_SHOW_STAT(name, meaning) \
  if (stats.name != 0) text += fmt::format("  {:>12}  {}\n", Grouped(static_cast<long long>(stats.name)), meaning);
  TAKT_STATS(TAKT_SHOW_STAT)
#undef TAKT_SHOW_STAT
  return text;
}

int Dump(std::string_view log) {
  OutputFile out = OutputFile::Open("-").value();
  absl::Status status = DumpLog(log, [&](std::string_view line) {
    out.Write(line);
    out.Write("\n");
  });
  status.Update(out.Close());
  return status.ok() ? kDone : Complain("replay-log", status, kFailed);
}

}  // namespace

int RunCommand(const ReplayLogArguments& arguments) {
  const absl::StatusOr<std::string> log = ReadFile(arguments.file);
  if (!log.ok()) return Complain("replay-log", log.status(), kFailed);
  if (arguments.dump) return Dump(*log);
  const absl::StatusOr<LogReplay> replay = ReplayLog(*log);
  if (!replay.ok()) return Complain("replay-log", replay.status(), kFailed);

  std::string text = fmt::format("{}: {}, {}, {}\n", arguments.file, Counted(replay->events, "event"),
                                 Counted(replay->plans, "plan"), Counted(replay->commits, "commit"));
  if (replay->truncated) {
    text += fmt::format("The log is cut off in the middle of a record: replayed up to there, {} of {} bytes.\n",
                        Grouped(static_cast<long long>(replay->bytes)), Grouped(static_cast<long long>(log->size())));
  }
  if (replay->difference) {
    text += fmt::format("Step {}, at {} s, came out otherwise: {}\n", replay->difference->step.value,
                        ToSeconds(replay->difference->now), replay->difference->what);
  } else {
    text += fmt::format("All {} that the log tells of came out again.\n", Counted(replay->plans_compared, "plan"));
  }
  text += "\nThe scheduler at the end:\n" + StatsText(replay->stats);
  const int printed = Print("replay-log", text);
  return replay->difference ? kFailed : printed;
}

}  // namespace takt::cli
