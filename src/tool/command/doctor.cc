#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "takt/policy/registry.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "tool/command/commands.h"
#include "tool/command/other_programs.h"
#include "tool/command/version.h"
#include "tool/run/exit_code.h"
#include "tool/run/terminal.h"

namespace takt::tool {
namespace {

constexpr const char* kSelfTestProfile = "aic/llama-3.1-8b/h100/bf16/tp1";

struct DoctorArguments {};

struct Finding {
  bool fine = true;
  std::string what, text;
};

// A short run through the whole simulator, twice. Equal inputs must give equal times.
Finding SelfTest() {
  const absl::StatusOr<Workload> workload = GenerateWorkload("gen:poisson,requests=200,rate=20,seed=1");
  if (!workload.ok()) return {false, "self-test", std::string(workload.status().message())};
  const absl::StatusOr<Profile> profile = FindProfile(kSelfTestProfile);
  if (!profile.ok()) return {false, "self-test", std::string(profile.status().message())};
  ReplayOptions options;
  options.profile = *profile;
  std::vector<TimePoint> ends[2];
  for (std::vector<TimePoint>& of : ends) {
    const absl::StatusOr<ReplayResult> run = Replay(*workload, options);
    if (!run.ok()) return {false, "self-test", std::string(run.status().message())};
    for (const RequestRecord& r : run->requests) of.push_back(r.end);
  }
  const bool equal = ends[0] == ends[1] && ends[0].size() == 200;
  return {equal, "self-test", equal ? "200 requests replayed twice, equal times" : "two equal replays differ"};
}

Finding FolderIsWritable() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  const bool fine = !error && access(here.c_str(), W_OK | X_OK) == 0;
  return {fine, "folder", (fine ? "takt may write to " : "takt may not write to ") + here.string()};
}

int RunDoctor(const DoctorArguments&) {
  std::vector<Finding> findings = {{true, "version", VersionText("takt")}};
  std::set<std::string> programs;
  for (const OtherCommand& command : kOtherCommands) programs.insert(command.program);
  for (const std::string& program : programs) {
    const std::string path = PathOf(program);
    findings.push_back({true, program, path.empty() ? "not here: neither in takt's folder nor on PATH" : path});
  }
  findings.push_back({true, "threads", fmt::format("{}", std::thread::hardware_concurrency())});
  findings.push_back(
      {true, "terminal", IsTerminal(stdout) ? "yes, with a progress bar" : "no, so without a progress bar"});
  findings.push_back({true, "built in",
                      fmt::format("{} policies, {} engine profiles", PolicyInfos().size(), BuiltInProfiles().size())});
  findings.push_back(FolderIsWritable());
  findings.push_back(SelfTest());
  std::string text;
  bool fine = true;
  for (const Finding& f : findings) {
    std::string indented;
    for (const char c : f.text) indented += c == '\n' ? fmt::format("\n{:20}", "") : std::string(1, c);
    text += fmt::format("{:<6}{:<14}{}\n", f.fine ? "ok" : "FAULT", f.what, indented);
    fine &= f.fine;
  }
  const int printed = Print("doctor", text);
  return printed != kDone ? printed : fine ? kDone : kFailed;
}

}  // namespace

void AddDoctor(CLI::App& tool, Chosen& chosen) {
  AddCommand(tool, chosen, "doctor", "check this installation, and print what a bug report needs", RunDoctor,
             "Exit code 1: a check failed.");
}

}  // namespace takt::tool
