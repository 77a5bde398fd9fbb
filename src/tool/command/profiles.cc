#include <map>
#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "tool/report/table.h"
#include "tool/run/exit_code.h"
#include "fmt/format.h"
#include "takt/sim/profiles.h"

namespace takt::tool {
namespace {

struct ProfilesArguments {
  std::string file;
};

int RunProfiles(const ProfilesArguments& arguments) {
  std::vector<Profile> profiles = BuiltInProfiles();
  if (!arguments.file.empty()) {
    absl::StatusOr<std::vector<Profile>> more = ReadProfiles(arguments.file);
    if (!more.ok()) return Complain("profiles", more.status(), kFailed);
    profiles.insert(profiles.end(), more->begin(), more->end());
  }
  Table table(
      {{"", "profile", false}, {"", "GPUs"}, {"KV cache", "tokens"}, {"error", "decode %"}, {"error", "prefill %"}});
  std::map<std::string, std::string> sources;  // by family
  for (const Profile& profile : profiles) {
    const auto known = [](double number) { return number >= 0 ? number : Table::kNoNumber; };
    table.BeginRow();
    table.Text(profile.id + (profile.derived ? " (derived)" : ""));
    table.Number(profile.cost.tp * profile.cost.pp);
    table.Number(profile.kv_capacity_tokens > 0 ? static_cast<double>(profile.kv_capacity_tokens) : Table::kNoNumber);
    table.Number(known(profile.decode_error_pct));
    table.Number(known(profile.prefill_error_pct));
    sources.emplace(profile.id.substr(0, profile.id.find('/')), profile.source);
  }
  std::string from;
  for (const auto& [family, source] : sources) from += fmt::format("  {:<5} {}\n", family, source);
  return Print(
      "profiles",
      "What a step costs, and how much KV there is (takt replay --profile ID)\n\n" + table.ToString() +
          "\nMeasured by\n" + from +
          "\nThe error is that of the fit to these measurements. Other tensor parallelism, GPUs and models:\n"
          "--profile derived/MODEL/GPU/bf16/tpN scales the nearest of these (docs/reference/engine_profiles.md).\n");
}

}  // namespace

void AddProfiles(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] =
      AddCommand(tool, chosen, "profiles", "list the profiles: models on GPUs, by what a step costs", RunProfiles);
  Group(app, "Options").Add("--profiles", to.file, "FILE", "a JSON file with more");
}

}  // namespace takt::tool
