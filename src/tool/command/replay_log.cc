#include <string>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "tool/report/table.h"
#include "fmt/format.h"
#include "takt/base/time.h"
#include "takt/record.h"

namespace takt::tool {
namespace {

struct ReplayLogArguments {
  std::string file;
  bool dump = false, anomalies = false;
};

std::string StatsText(const Stats& stats) {
  std::string text;
#define TAKT_SHOW_STAT(name, meaning) \
  if (stats.name != 0) text += fmt::format("  {:>12}  {}\n", Grouped(static_cast<long long>(stats.name)), meaning);
  TAKT_STATS(TAKT_SHOW_STAT)
#undef TAKT_SHOW_STAT
  return text;
}

// Prints an error about the content of the file.
int Wrong(const ReplayLogArguments& arguments, const absl::Status& status) {
  const std::string named = fmt::format("{}: {}", arguments.file, std::string(status.message()));
  return Complain("replay-log", absl::Status(status.code(), named), kFailed);
}

int Dump(const ReplayLogArguments& arguments, std::string_view log) {
  OutputFile out = OutputFile::Open("-").value();
  const absl::Status read = DumpLog(log, [&](std::string_view line) {
    out.Write(ShownName(line));
    out.Write("\n");
  });
  const absl::Status written = out.Close();
  if (!read.ok()) return Wrong(arguments, read);
  return written.ok() ? kDone : Complain("replay-log", written, kFailed);
}

// Returns the report of the host's invalid input.
std::string FaultsText(const ReplayLogArguments& arguments, const LogReplay& replay) {
  const auto n = static_cast<long long>(replay.stats.faults());
  if (n == 0) return "No faults found.\n";
  if (!arguments.anomalies) {
    return fmt::format("The host passed {}; list them with --anomalies.\n", Counted(n, "invalid value"));
  }
  std::string text = "Invalid input of the host:\n";
  for (const Fault& fault : replay.faults) text += "  " + ToText(fault) + "\n";
  const long long left = n - static_cast<long long>(replay.faults.size());
  return left > 0 ? text + fmt::format("  and {} more\n", Grouped(left)) : text;
}

// Returns a line on the retention of KV between turns, or an empty string if none was kept.
std::string RetentionText(const LogReplay& replay) {
  if (replay.retention.empty()) return {};
  const std::string gate = replay.gate == NoGate::kName ? "without a gate" : "with the gate " + replay.gate;
  return fmt::format("Policy for KV between turns: {}, {}.\n", replay.retention, gate);
}

int RunReplayLog(const ReplayLogArguments& arguments) {
  const absl::StatusOr<std::string> log = ReadFile(arguments.file);
  if (!log.ok()) return Complain("replay-log", log.status(), kFailed);
  if (arguments.dump) return Dump(arguments, *log);
  const absl::StatusOr<LogReplay> replay = ReplayLog(*log);
  if (!replay.ok()) return Wrong(arguments, replay.status());

  std::string text = fmt::format("{}: {}, {}, {}\n", arguments.file, Counted(replay->events, "event"),
                                 Counted(replay->plans, "plan"), Counted(replay->commits, "commit"));
  text += RetentionText(*replay);
  if (replay->truncated) {
    text += fmt::format("The log ends in the middle of a record: replayed {} of {} bytes.\n",
                        Grouped(static_cast<long long>(replay->bytes)), Grouped(static_cast<long long>(log->size())));
  }
  if (replay->difference) {
    text += fmt::format("The plans of step {}, at {} s, differ:\n{}\n", replay->difference->step.value,
                        ToSeconds(replay->difference->now), replay->difference->what);
  } else {
    text += fmt::format("This replay made the same plans as the log: {}.\n", Counted(replay->plans_compared, "plan"));
  }
  text += FaultsText(arguments, *replay);
  text += "\nThe scheduler at the end:\n" + StatsText(replay->stats);
  const int printed = Print("replay-log", text);
  return replay->difference ? kFailed : printed;
}

}  // namespace

void AddReplayLog(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "replay-log", "replay a scheduler's log and report plans that differ from the log", RunReplayLog,
      "A truncated log is replayed up to its last whole record. Exit code: 0 all plans are equal, 1 a plan differs.");
  Group options(app, "Options");
  options.Add("file", to.file, "FILE", "read a log written by takt's Recorder, or - for standard input").Required();
  options.AddFlag("--anomalies", to.anomalies,
                  "list the host's invalid input: time, step, request, lane, value, expected value");
  options.AddFlag("--dump", to.dump, "print the log's records instead, one per line");
}

}  // namespace takt::tool
