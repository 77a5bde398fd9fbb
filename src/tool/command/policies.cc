#include <algorithm>
#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "fmt/format.h"
#include "takt/turns/gates/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/turns/retention/registry.h"

namespace takt::tool {
namespace {

struct PoliciesArguments {};

std::size_t LongestName(const auto& infos) {
  std::size_t longest = 0;
  for (const auto& info : infos) longest = std::max(longest, info.name.size());
  return longest;
}

int RunPolicies(const PoliciesArguments&) {
  std::string text = "Ranking of requests (takt replay --policy NAME)\n\n";
  const std::vector<PolicyInfo> policies = PolicyInfos();
  std::size_t column = LongestName(policies);
  for (const PolicyInfo& policy : policies) column = std::max(column, 2 + LongestName(policy.options));
  for (const PolicyInfo& policy : policies) {
    text += fmt::format("  {:<{}} {}\n", policy.name, column, policy.summary);
    for (const PolicyInfo::Option& option : policy.options) {
      text += fmt::format("    {:<{}} {} [{}{}{}]\n", option.name, column - 2, option.meaning, option.default_value,
                          option.unit.empty() ? "" : " ", option.unit);
    }
  }
  text +=
      "\nGive options with the name: --policy 'aged(stjf,threshold=50)'.\n"
      "aged(POLICY) wraps another policy and puts requests first that were passed over for too long.\n"
      "\nPlacement on instances (takt replay --instances N --placement NAME)\n\n";
  const std::vector<PlacementInfo> placements = PlacementInfos();
  for (const PlacementInfo& placement : placements) {
    text += fmt::format("  {:<{}} {}\n", placement.name, LongestName(placements), placement.summary);
  }
  const auto list = [&text](const auto& infos) {
    for (const auto& info : infos) text += fmt::format("  {:<{}} {}\n", info.name, LongestName(infos), info.summary);
  };
  text += "\nEviction of KV that ended turns keep (takt replay --retention NAME)\n\n";
  list(RetentionInfos());
  text += "\nAdmission of requests that need KV held for others (takt replay --gate NAME)\n\n";
  list(GateInfos());
  return Print("policies", text);
}

}  // namespace

void AddPolicies(CLI::App& tool, Chosen& chosen) {
  AddCommand(tool, chosen, "policies", "list the policies with their effects and options", RunPolicies);
}

}  // namespace takt::tool
