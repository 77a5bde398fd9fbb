#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

#include "CLI/CLI.hpp"
#include "cli/exit_code.h"
#include "fmt/format.h"
#include "takt/version.h"
#include "takt/workload/read.h"

namespace takt::cli {
namespace {

constexpr const char* kToolHelp =
    R"(takt decides what an LLM serving engine runs next. This tool replays a workload through virtual engines under
several scheduling policies, and shows which of them serves its users better.)";

constexpr const char* kToolExamples = R"(Begin with
  takt replay                              the bundled workload under three policies
  takt replay --html report.html           the same, with plots
  takt policies                            which policies there are
  takt replay --help                       all that can be varied)";

constexpr const char* kReplayExamples = R"(Examples
  A real trace at five times its rate, first come first served against shortest first:
    takt replay --workload azure_llm_2023_conv.csv.gz --rate-scale 5 --policy fcfs --policy sjf
  The same at 90 % of what the engine can do, with predictions that are off by a factor of about 1.6:
    takt replay --workload azure_llm_2023_conv.csv.gz --load 0.9 --policy fcfs --policy sjf --estimates noise:0.5
  How much does it cost to know less?
    takt replay --policy stjf --estimates oracle --estimates calibrated:0.5 --estimates class-mean --estimates none
  Latency against load, on four engines, as a page with plots:
    takt replay --instances 4 --sweep 0.5,0.7,0.9,1.0,1.1 --html report.html
  Figures for another program:
    takt replay --json - | jq '.runs[] | {policy, mean: .metrics.e2e_s.mean}'

Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted (what had ended by then is reported).)";

constexpr const char* kGenerateExamples =
    R"(Generators: poisson, constant, gamma, weibull (arrivals of single requests), multi_stage (workflows).
docs/workloads.md lists their keys.

Examples
  takt generate gen:poisson,requests=1000,rate=5,output=lognormal:200:0.8 --output poisson.jsonl
  takt generate gen:multi_stage,workflows=500,rate=2,seed=7 --output stages.jsonl.gz
  takt replay --workload gen:multi_stage,rate=6)";

bool ParseNumber(const std::string& text, double& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && std::isfinite(number);
}

CLI::Validator Positive() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double number = 0;
        return ParseNumber(text, number) && number > 0 ? "" : fmt::format("'{}' is not a positive number", text);
      },
      "");
}

CLI::Validator Whole(std::int64_t least, std::int64_t most = INT32_MAX) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        std::int64_t number = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc() && stop == end && number >= least && number <= most) return "";
        const std::string range =
            most >= INT32_MAX ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most);
        return fmt::format("'{}' is not a whole number {}", text, range);
      },
      "");
}

CLI::Validator KnownFormat() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const absl::StatusOr<WorkloadFormat> format = ParseWorkloadFormat(text);
        return format.ok() ? "" : std::string(format.status().message());
      },
      "");
}

// Names and values to the left, what they are to the right, in lines that fit.
class Format : public CLI::Formatter {
 public:
  Format() { column_width(kLeft); }

  std::string make_option(const CLI::Option* option, bool positional) const override {
    return Entry(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return Entry(command->get_name(), command->get_description());
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return "";
    std::string text = " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += fmt::format(" [{}]", option->get_default_str());
    return text;
  }

 private:
  static constexpr std::size_t kLeft = 28;
  static constexpr std::size_t kWidth = 100;

  static std::string Entry(const std::string& name, const std::string& text) {
    std::string out = "  " + name;
    if (out.size() + 2 > kLeft) out += '\n';
    std::size_t column = out.back() == '\n' ? 0 : out.size();
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (column + 1 + word.size() > kWidth) out += '\n', column = 0;
      const std::size_t blanks = column < kLeft ? kLeft - column : 1;
      out += std::string(blanks, ' ') + word;
      column += blanks + word.size();
    }
    return out + "\n";
  }
};

// Options that stand together in the help.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // What `to` is before shows as the default, where it is anything.
  template <class T>
  CLI::Option* Add(const char* names, T& to, const char* type, const char* text) {
    CLI::Option* option = app_.add_option(names, to, text)->type_name(type)->group(name_);
    if constexpr (requires { to == T{}; }) {
      if (to != T{}) option->capture_default_str();
    }
    return option;
  }
  template <class T>
  CLI::Option* Add(const char* names, T& to, const char* type, const char* text, const CLI::Validator& check) {
    return Add(names, to, type, text)->check(check);
  }
  void AddFlag(const char* names, bool& to, const char* text) { app_.add_flag(names, to, text)->group(name_); }

 private:
  CLI::App& app_;
  std::string name_;
};

void AddWorkload(Group group, WorkloadArguments& to) {
  group.Add("--format", to.format, "NAME",
            "of the file: auto, workflow, azure, mooncake, burstgpt, sharegpt; auto looks at its first line",
            KnownFormat());
  group.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count lines that cannot be read, and go on");
  group.Add("--limit", to.limit, "N", "only the first N workflows (in most traces a workflow is one request)",
            Whole(1, INT64_MAX));
  group.Add("--seed", to.seed, "N",
            "of all that is drawn at random: the errors of estimates, and arrivals where a file has none",
            Whole(0, INT64_MAX));
}

void AddPolicies(Group group, ReplayArguments& to) {
  group.Add("--policy", to.policies, "NAME",
            "which request first; several times to compare with the first [fcfs, sjf, stjf]; see 'takt policies'");
  group.Add("--estimates", to.estimates, "KIND",
            "what is known of lengths that have not been seen: oracle, noise:SIGMA, calibrated:SIGMA, class-mean, "
            "none; several times to compare [oracle]");
}

void AddEngine(Group group, ReplayArguments& to) {
  group.Add("--profile", to.profile, "ID", "what a step costs and how much KV cache there is; see 'takt profiles'");
  group.Add("--profiles", to.profiles_file, "FILE", "a JSON file with more profiles");
  group.Add("--instances", to.instances, "N", "engines side by side, each with its own KV cache", Whole(1, 1024));
  group.Add("--placement", to.placement, "NAME", "which instance a request goes to; see 'takt policies'");
  group.Add("--token-budget", to.token_budget, "N",
            "tokens that one step computes at most, prefill and decode together", Whole(1));
  group.Add("--max-seqs", to.max_seqs, "N", "requests that run at once at most", Whole(1));
  group.Add("--kv-tokens", to.kv_tokens, "N", "size of each instance's KV cache instead of the profile's",
            Whole(1, INT64_MAX));
  group.AddFlag("--prefix-cache", to.prefix_cache, "keep the KV of prompts' beginnings for requests that share them");
  group.Add("--option", to.options, "K=V",
            "how the scheduler or a policy behaves, as often as wished: preempt=by_rank, order=prefill_first, "
            "chunk_tokens=512, threshold=50, ... (docs/cli.md lists them)");
}

void AddLoad(Group group, ReplayArguments& to) {
  CLI::Option* scale =
      group.Add("--rate-scale", to.rate_scale, "X", "requests come X times as fast as they did", Positive());
  CLI::Option* load = group.Add(
      "--load", to.load, "RHO",
      "requests come at this share of what the engines can do at most (measured first, under fcfs)", Positive());
  CLI::Option* sweep =
      group
          .Add("--sweep", to.sweep, "RHO,...", "several loads, such as 0.5,0.7,0.9; --load multiplies them", Positive())
          ->delimiter(',');
  CLI::Option* closed =
      group.Add("--closed-loop", to.closed_loop, "N",
                "N workflows in flight: one starts when another ends, whenever it had come", Whole(1, INT64_MAX));
  scale->excludes(load, sweep, closed);
  closed->excludes(load, sweep);
}

void AddOutput(Group group, ReplayArguments& to) {
  group.Add("--json", to.json, "FILE", "all figures");
  group.Add("--csv", to.csv, "FILE", "a line per request and run");
  group.Add("--csv-summary", to.csv_summary, "FILE", "a line per run");
  group.Add("--html", to.html, "FILE", "a page with plots, which needs nothing else");
  group.Add("--perfetto", to.perfetto, "FILE", "the schedule itself, to be looked at in ui.perfetto.dev");
  group.Add("--perfetto-limit", to.perfetto_limit, "N", "only the first N requests of it", Whole(1, INT64_MAX));
  group.Add("--slo-ttft", to.slo_ttft, "S", "served well is: the first token within S seconds ...", Positive());
  group.Add("--slo-tpot", to.slo_tpot, "S", "... and then S seconds per token on average", Positive());
  group.AddFlag("--regret", to.regret, "also run sjf with exact lengths, and compare every run's mean latency with it");
  group.AddFlag("--no-wall", to.no_wall, "leave out how long it all took, so that equal runs give equal files");
  group.AddFlag("-q,--quiet", to.quiet, "no table, no progress bar");
  group.Add("-j,--threads", to.threads, "N", "runs at once [as many as there are cores]; changes no result",
            Whole(1, 1024));
}

// A command and what its options are written to; `chosen` is that when the command is the one that was given.
template <class Of>
std::pair<CLI::App*, Of&> AddCommand(CLI::App& tool, Arguments& chosen, const char* name, const char* text,
                                     const char* footer = "") {
  CLI::App* app = tool.add_subcommand(name, text);
  auto to = std::make_shared<Of>();
  app->footer(footer);
  app->callback([to, &chosen] { chosen = *to; });
  return {app, *to};
}

void AddReplay(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<ReplayArguments>(
      tool, chosen, "replay", "replay a workload under several policies, and compare them", kReplayExamples);
  Group workload(*app, "Workload");
  workload.Add("--workload", to.workload.file, "FILE",
               "a trace, 'bundled', or a generator (see 'takt generate --help')");
  AddWorkload(workload, to.workload);
  AddPolicies({*app, "Policies"}, to);
  AddEngine({*app, "Engine"}, to);
  AddLoad({*app, "Load"}, to);
  AddOutput({*app, "Output (a file, or - for standard output)"}, to);
}

void AddOthers(CLI::App& tool, Arguments& chosen) {
  const std::string group = "Options";
  AddCommand<PoliciesArguments>(tool, chosen, "policies", "list the policies: what each does, and its options");

  const auto [profiles, more] = AddCommand<ProfilesArguments>(
      tool, chosen, "profiles", "list the profiles: models on GPUs, by what a step costs");
  Group(*profiles, group).Add("--profiles", more.file, "FILE", "a JSON file with more");

  const auto [inspect, inspected] = AddCommand<InspectArguments>(
      tool, chosen, "workload", "say what is in a workload",
      "Examples\n  takt workload azure_llm_2023_conv.csv.gz\n  takt workload bundled --output bundled.jsonl");
  Group options(*inspect, group);
  options.Add("file", inspected.workload.file, "FILE", "a trace, 'bundled', or a generator");
  AddWorkload(options, inspected.workload);
  options.Add("--output", inspected.output, "FILE", "write it as workflow JSONL (.gz packs it)");

  const auto [generate, made] = AddCommand<GenerateArguments>(
      tool, chosen, "generate", "make a workload of random arrivals and lengths", kGenerateExamples);
  Group generator(*generate, group);
  generator.Add("spec", made.spec, "SPEC", "gen:NAME,key=value,...")->required();
  generator.Add("--output", made.output, "FILE", "a file (.gz packs it), or - for standard output");

  const auto [log, replayed] = AddCommand<ReplayLogArguments>(
      tool, chosen, "replay-log", "replay the log of a scheduler, and say where its plans come out otherwise",
      "A log that was cut off is replayed up to the cut. Exit code: 0 all plans came out again, 1 one did not.");
  Group logs(*log, group);
  logs.Add("file", replayed.file, "FILE", "a log that takt's Recorder wrote, or - for standard input")->required();
  logs.AddFlag("--dump", replayed.dump, "print its records instead, one a line");
}

// What is nearest to a word that nobody knows, where anything is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  const auto distance = [](std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < a.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < b.size(); ++j) {
        const std::size_t swapped = diagonal + (a[i] == b[j] ? 0 : 1);
        diagonal = std::exchange(row[j + 1], std::min({swapped, row[j] + 1, row[j + 1] + 1}));
      }
    }
    return row.back();
  };
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t d = distance(word, name);
    if (d < least) least = d, nearest = name;
  }
  return nearest;
}

// Prints what is wrong with the command line. CLI11's words, but for what it does not expect.
int ReportUsage(const CLI::App& tool, const CLI::ParseError& error) {
  const auto commands = tool.get_subcommands();
  const CLI::App& app = commands.empty() ? tool : *commands.front();
  std::string message = error.what();
  if (const std::vector<std::string> extras = app.remaining(true); !extras.empty()) {
    std::vector<std::string> known;
    if (commands.empty()) {
      for (const CLI::App* command : tool.get_subcommands(nullptr)) known.push_back(command->get_name());
    }
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::string word = extras.front().substr(0, extras.front().find('='));
    message = fmt::format("there is no '{}'", word);
    if (const std::string near = Nearest(word, known); !near.empty())
      message += fmt::format("; did you mean {}?", near);
  }
  const std::string command = commands.empty() ? "" : " " + app.get_name();
  std::fputs(fmt::format("takt{0}: {1}\n'takt{0} --help' says what there is.\n", command, message).c_str(), stderr);
  return kUsage;
}

}  // namespace

std::variant<Arguments, int> ParseArguments(int argc, const char* const* argv) {
  CLI::App tool(kToolHelp, "takt");
  tool.formatter(std::make_shared<Format>());
  tool.set_version_flag("--version", "takt " TAKT_VERSION);
  tool.require_subcommand(1);
  tool.footer(kToolExamples);
  Arguments chosen;
  AddReplay(tool, chosen);
  AddOthers(tool, chosen);
  if (argc < 2) {
    std::fputs(tool.help().c_str(), stderr);
    return kUsage;
  }
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return tool.exit(error) == 0 ? kDone : kFailed;
    return ReportUsage(tool, error);
  }
  return chosen;
}

}  // namespace takt::cli
