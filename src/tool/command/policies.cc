#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "fmt/format.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"

namespace takt::tool {
namespace {

struct PoliciesArguments {};

struct ProfilesArguments {
  std::string file;
};

std::string OptionLine(const PolicyInfo::Option& option) {
  return fmt::format("    {:<14} {} [{}{}{}]\n", option.name, option.meaning, option.default_value,
                     option.unit.empty() ? "" : " ", option.unit);
}

int RunPolicies(const PoliciesArguments&) {
  std::string text = "Which request first? (takt replay --policy NAME)\n\n";
  for (const PolicyInfo& policy : PolicyInfos()) {
    text += fmt::format("  {:<15} {}\n", policy.name, policy.summary);
    for (const PolicyInfo::Option& option : policy.options) text += OptionLine(option);
  }
  text +=
      "\nOptions go with the name: --policy 'aged(stjf,threshold=50)'.\n"
      "aged(POLICY) is any of the others, but who has been passed over for too long comes first.\n"
      "\nWhich instance? (takt replay --instances N --placement NAME)\n\n";
  for (const PlacementInfo& placement : PlacementInfos()) {
    text += fmt::format("  {:<15} {}\n", placement.name, placement.text);
  }
  return Print("policies", text);
}

}  // namespace

void AddPolicies(CLI::App& tool, Chosen& chosen) {
  AddCommand(tool, chosen, "policies", "list the policies: what each does, and its options", RunPolicies);
}

}  // namespace takt::tool
