#include "tool/command/completion.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/sim/profiles.h"
#include "takt/turns/gates/registry.h"
#include "takt/turns/retention/registry.h"
#include "tool/command/commands.h"

namespace takt::tool {
namespace {

// The shell calls takt for the candidates of each word, so the scripts never become out of date.
constexpr const char* kBash = R"sh(_takt() {
  local IFS=$'\n' word=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(compgen -W "$(takt complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$word"))
}
complete -o default -F _takt takt
)sh";
constexpr const char* kZsh = R"sh(#compdef takt
_takt() {
  local -a found=("${(@f)$(takt complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[*]}" ]]; then compadd -a found; else _files; fi
}
if [[ ${funcstack[1]} == _takt ]]; then _takt "$@"; else compdef _takt takt; fi
)sh";
constexpr const char* kFish = R"sh(function __takt_words
  takt complete-words (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c takt -a '(__takt_words)'
)sh";
constexpr std::array<std::pair<std::string_view, const char*>, 3> kShells = {
    {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}}};

constexpr const char* kCompletionExamples = R"(Examples
  source <(takt completion bash)
  takt completion zsh > ~/.zfunc/_takt
  takt completion fish > ~/.config/fish/completions/takt.fish)";

struct CompletionArguments {
  std::string shell;
};

std::vector<std::string> Names(const std::vector<RegistryInfo>& infos) {
  std::vector<std::string> names;
  for (const RegistryInfo& info : infos) names.push_back(info.name);
  return names;
}

// Returns the known values of an option; empty: a file, a number or a text.
std::vector<std::string> ValuesOf(const std::string& option) {
  if (option == "--policy" || option == "-p") return Names(PolicyInfos());
  if (option == "--placement") return Names(PlacementInfos());
  if (option == "--retention") return Names(RetentionInfos());
  if (option == "--gate") return Names(GateInfos());
  if (option != "--profile") return {};
  std::vector<std::string> names;
  for (const Profile& profile : BuiltInProfiles()) names.push_back(profile.id);
  return names;
}

}  // namespace

std::vector<std::string> CandidatesOf(const CLI::App& tool, const std::vector<std::string>& words) {
  const CLI::App* app = &tool;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    for (const CLI::App* sub : app->get_subcommands({})) {
      if (sub->get_name() == words[i]) app = sub;
    }
  }
  const std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> all;
  if (words.size() > 1) all = ValuesOf(words[words.size() - 2]);
  if (all.empty() && (last.starts_with('-') || app != &tool)) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
      if (last.starts_with("--")) continue;
      for (const std::string& name : option->get_snames()) all.push_back("-" + name);
    }
    if (!last.starts_with('-')) all.clear();  // a file
  } else if (all.empty()) {
    for (const CLI::App* sub : app->get_subcommands({})) all.push_back(sub->get_name());
  }
  std::erase_if(all, [&](const std::string& name) { return !name.starts_with(last); });
  std::ranges::sort(all);
  return all;
}

void AddCompletion(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "completion", "print a script that lets a shell complete commands and options",
      +[](const CompletionArguments& arguments) {
        const auto at = std::ranges::find(kShells, arguments.shell, &std::pair<std::string_view, const char*>::first);
        return Print("completion", at->second);
      },
      kCompletionExamples);
  Group options(app, "Options");
  options.Add("shell", to.shell, "SHELL", "bash, zsh or fish", OneOf({"bash", "zsh", "fish"})).Required();
}

}  // namespace takt::tool
