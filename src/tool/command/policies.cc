#include <algorithm>
#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "fmt/format.h"
#include "takt/turns/gates/registry.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "takt/turns/retention/registry.h"

namespace takt::tool {
namespace {

struct PoliciesArguments {};

// Returns a line for each policy, with its options below it.
std::string ListOf(const std::vector<RegistryInfo>& infos) {
  std::size_t column = 0;
  for (const RegistryInfo& info : infos) {
    column = std::max(column, info.name.size());
    for (const RegistryInfo::Option& option : info.options) column = std::max(column, 2 + option.name.size());
  }
  std::string text;
  for (const RegistryInfo& info : infos) {
    text += fmt::format("  {:<{}} {}\n", info.name, column, info.summary);
    for (const RegistryInfo::Option& option : info.options) {
      text += fmt::format("    {:<{}} {} [{}{}{}]\n", option.name, column - 2, option.meaning, option.default_value,
                          option.unit.empty() ? "" : " ", option.unit);
    }
  }
  return text;
}

int RunPolicies(const PoliciesArguments&) {
  return Print(
      "policies",
      "Ranking of requests (takt replay --policy NAME)\n\n" + ListOf(PolicyInfos()) +
          "\nGive options with the name: --policy 'aged(stjf,threshold=50)'.\n"
          "aged(POLICY) ranks by POLICY, but promotes requests that were passed over for too long.\n"
          "metered(POLICY) ranks by POLICY, but serves tenants beyond their quota last.\n"
          "\nSystems of papers (takt replay --system NAME)\n\n" +
          ListOf(systems::SystemInfos()) + "\nPlacement on instances (takt replay --instances N --placement NAME)\n\n" +
          ListOf(PlacementInfos()) + "\nEviction of KV that ended turns keep (takt replay --retention NAME)\n\n" +
          ListOf(RetentionInfos()) +
          "\nAdmission of requests that need KV held for others (takt replay --gate NAME)\n\n" + ListOf(GateInfos()) +
          "\nKV of requests in a tool call (takt replay --option pause=NAME)\n\n" + ListOf(PauseInfos()));
}

}  // namespace

void AddPolicies(CLI::App& tool, Chosen& chosen) {
  AddCommand(tool, chosen, "policies", "list the policies with their effects and options", RunPolicies);
}

}  // namespace takt::tool
