#include <algorithm>
#include <cmath>
#include <cstdint>
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
  bool derived = false;
};

// Relative difference in time per output token between two profiles, in %. Means cover steps of 4 to 64 decoding
// sequences at two context lengths.
struct TokenError {
  double mean = 0, absolute = 0;
};
TokenError ErrorOf(const Profile& ours, const Profile& truth) {
  TokenError error;
  int steps = 0;
  for (const std::int64_t context : {1536, 5120}) {
    for (const int sequences : {4, 8, 16, 32, 64}) {
      StepLoad load;
      for (int i = 0; i < sequences; ++i) load.AddDecode(context);
      const double off = 100 * (ToSeconds(ours.cost.StepTime(load)) / ToSeconds(truth.cost.StepTime(load)) - 1);
      error.mean += off;
      error.absolute += std::abs(off);
      ++steps;
    }
  }
  return {error.mean / steps, error.absolute / steps};
}

// Compares each measured profile with the profiles derived from fewer GPUs.
std::string DerivedText(const std::vector<Profile>& profiles) {
  Table table({{"", "profile", false},
               {"", "from tp"},
               {"of kernels measured there", "mean %"},
               {"of kernels measured there", "absolute %"},
               {"of served runs", "mean %"},
               {"of served runs", "kernels %"}});
  const auto alike = [](const Profile& a, const Profile& b) {
    return a.model == b.model && a.gpu == b.gpu && a.dtype == b.dtype && !a.derived && !b.derived && a.cost.pp == 1 &&
           b.cost.pp == 1 && a.engine.empty() && b.engine.empty();
  };
  // Finds a profile of the same GPUs with measured kernels, or as served. Returns null if there is none.
  const auto find = [&](const Profile& like, bool served) -> const Profile* {
    const auto at = std::ranges::find_if(profiles, [&](const Profile& p) {
      return p.cost.served.has_value() == served && alike(p, like) && p.cost.tp == like.cost.tp;
    });
    return at != profiles.end() ? &*at : nullptr;
  };
  for (const Profile& there : profiles) {
    const Profile *kernels = find(there, false), *served = find(there, true);
    if (&there != (kernels != nullptr ? kernels : served)) continue;
    for (const Profile& anchor : profiles) {
      if (anchor.cost.served || !alike(anchor, there) || anchor.cost.tp >= there.cost.tp) continue;
      const absl::StatusOr<Profile> derived = DeriveProfile(anchor, "", "", there.cost.tp);
      if (!derived.ok()) continue;
      const auto add = [&](const Profile* ours, const Profile* truth, double TokenError::* figure, const char* form) {
        if (ours == nullptr || truth == nullptr) return table.Text("-");
        table.Text(fmt::format(fmt::runtime(form), ErrorOf(*ours, *truth).*figure));
      };
      table.BeginRow();
      table.Text(there.id);
      table.Number(anchor.cost.tp);
      add(&*derived, kernels, &TokenError::mean, "{:+.1f}");
      add(&*derived, kernels, &TokenError::absolute, "{:.1f}");
      add(&*derived, served, &TokenError::mean, "{:+.1f}");
      add(kernels, served, &TokenError::mean, "{:+.1f}");
    }
  }
  return "Error of the time per output token if a profile is derived from fewer GPUs. Means over steps of 4 to "
         "64\nsequences at contexts of 1,536 and 5,120 tokens. The last column is the error of measured kernels "
         "against served runs.\n\n" +
         table.ToString();
}

int RunProfiles(const ProfilesArguments& arguments) {
  std::vector<Profile> profiles = BuiltInProfiles();
  if (!arguments.file.empty()) {
    absl::StatusOr<std::vector<Profile>> more = ReadProfiles(arguments.file);
    if (!more.ok()) return Complain("profiles", more.status(), kFailed);
    profiles.insert(profiles.end(), more->begin(), more->end());
  }
  if (arguments.derived) return Print("profiles", DerivedText(profiles));
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
      "Step times and KV capacity of models on GPUs (takt replay --profile ID)\n\n" + table.ToString() +
          "\nMeasured by\n" + from +
          "\nErrors are those of the fit to these measurements. For other tensor parallelism, GPUs and models,\n"
          "--profile derived/MODEL/GPU/bf16/tpN scales the nearest profile (docs/reference/engine_profiles.md).\n");
}

}  // namespace

void AddProfiles(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] =
      AddCommand(tool, chosen, "profiles", "list the profiles: step times of models on GPUs", RunProfiles);
  Group options(app, "Options");
  options.Add("--profiles", to.file, "FILE", "read more profiles from a JSON file");
  options.AddFlag("--derived", to.derived, "show the error of profiles that are derived from fewer GPUs");
}

}  // namespace takt::tool
