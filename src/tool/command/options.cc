#include "tool/command/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <optional>
#include <vector>

#include "CLI/CLI.hpp"
#include "tool/run/exit_code.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/workload/read.h"

namespace takt::tool {
namespace {

bool ParseNumber(const std::string& text, double& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && std::isfinite(number);
}

Check Rule(std::function<std::string(std::string&)> fault) {
  return std::make_shared<CLI::Validator>(std::move(fault), "");
}

Check KnownFormat() {
  return Rule([](std::string& text) -> std::string {
    const absl::StatusOr<WorkloadFormat> format = ParseWorkloadFormat(text);
    return format.ok() ? "" : std::string(format.status().message());
  });
}

// Prints names and values on the left and descriptions on the right, wrapped to the width.
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

// Returns the known name nearest to an unknown word, or an empty string if no name is near.
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

}  // namespace

Check Positive() {
  return Rule([](std::string& text) -> std::string {
    double number = 0;
    return ParseNumber(text, number) && number > 0 ? ""
                                                   : fmt::format("'{}' is invalid; expected a positive number", text);
  });
}

Check Share(double most) {
  return Rule([most](std::string& text) -> std::string {
    double number = 0;
    const bool fine = ParseNumber(text, number) && number >= 0 && number <= most;
    return fine ? "" : fmt::format("'{}' is invalid; expected a number from 0 to {}", text, most);
  });
}

Check Whole(std::int64_t least, std::int64_t most) {
  return Rule([least, most](std::string& text) -> std::string {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= least && number <= most) return "";
    const bool bounded = most < INT64_MAX || error == std::errc::result_out_of_range;
    const std::string range =
        bounded ? fmt::format("from {} to {}", least, most) : fmt::format("of at least {}", least);
    return fmt::format("'{}' is invalid; expected a whole number {}", text, range);
  });
}

Check OneOf(std::vector<std::string> names) { return std::make_shared<CLI::IsMember>(std::move(names)); }

Flag Flag::Required() const { return option_->required(), *this; }
Flag Flag::Listed() const { return option_->delimiter(','), *this; }
Flag Flag::Must(const Check& check) const { return option_->check(*check), *this; }
Flag Flag::Excludes(std::initializer_list<Flag> others) const {
  for (const Flag& other : others) option_->excludes(other.option_);
  return *this;
}
Flag Flag::Each(std::function<void()> given) const {
  return option_->each([given = std::move(given)](const std::string&) { given(); }), *this;
}

template <class T>
Flag Group::Add(const char* names, T& to, const char* type, const char* text, const Check& check) const {
  CLI::Option* option = app_.add_option(names, to, text)->type_name(type)->group(name_);
  if constexpr (requires { to == T{}; }) {
    if (to != T{}) option->capture_default_str();
  }
  if (check != nullptr) option->check(*check);
  return Flag(option);
}
#define TAKT_OPTION_OF(...) \
  template Flag Group::Add(const char*, __VA_ARGS__&, const char*, const char*, const Check&) const;
TAKT_OPTION_OF(std::string)
TAKT_OPTION_OF(std::vector<std::string>)
TAKT_OPTION_OF(std::int32_t)
TAKT_OPTION_OF(std::int64_t)
TAKT_OPTION_OF(std::uint64_t)
TAKT_OPTION_OF(double)
TAKT_OPTION_OF(std::optional<double>)
TAKT_OPTION_OF(std::vector<double>)
TAKT_OPTION_OF(std::vector<std::int32_t>)
#undef TAKT_OPTION_OF

Flag Group::AddFlag(const char* names, bool& to, const char* text) const {
  return Flag(app_.add_flag(names, to, text)->group(name_));
}

std::shared_ptr<CLI::FormatterBase> HelpFormat() { return std::make_shared<Format>(); }

void AddWorkloadSource(Group group, WorkloadSource& to) {
  group.Add("--format", to.format, "NAME",
            fmt::format("read the file in this format: {}; auto decides by the first line",
                        fmt::join(NamesOf(WorkloadFormat{}), ", "))
                .c_str(),
            KnownFormat());
  group.Add(
      "--columns", to.columns, "KEY=COLUMN,...",
      "read any CSV file with a header, or JSON lines, such as by arrival=ts:ms,prompt=in,output=out,prefix=hashes:16. "
      "Keys: prompt, output, arrival, workflow, session, tenant, class, priority, deadline, agent, stage, prefix. "
      "Units: s, ms, us, ns, or time for dates. For prefix: tokens per hash");
  group.Add("--length-scale", to.length_scale, "X",
            "multiply all lengths by X, for an engine smaller than the traced one", Positive());
  group.Add("--max-session-tokens", to.max_session_tokens, "N",
            "exclude sessions with a prompt of more than N tokens, in a file of sessions", Whole(1, INT64_MAX));
  group.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count and skip invalid lines");
  group.Add("--limit", to.limit, "N", "read only the first N workflows (in most traces a workflow is one request)",
            Whole(1, INT64_MAX));
  group.Add("--draw", to.draw, "N",
            "draw N workflows at random with replacement, with Poisson arrivals at 1 per second", Whole(1, 50'000'000));
  group.Add("--adapters", to.adapters, "N", "give each workflow one of N LoRA adapters at random", Whole(1, 1'000'000));
  group.Add("--adapter-zipf", to.adapter_zipf, "S",
            "with --adapters: draw adapter k with a probability proportional to k^-S", Share(10));
  group.Add("--seed", to.seed, "N", "seed all random draws: errors of estimates, workflows, and missing arrival times",
            Whole(0, INT64_MAX));
}

void AddReports(Group group, ReportFiles& to, ReplaySetup& setup) {
  group.Add("--json", to.json, "FILE", "write all figures");
  group.Add("--csv", to.csv, "FILE", "write a line per request and run");
  group.Add("--csv-summary", to.csv_summary, "FILE", "write a line per run");
  group.Add("--html", to.html, "FILE", "write a self-contained page with plots");
  group.Add("--perfetto", to.perfetto, "FILE", "write the schedule, for ui.perfetto.dev");
  group.Add("--perfetto-limit", to.perfetto_limit, "N", "limit --perfetto to the first N requests",
            Whole(1, INT64_MAX));
  group.Add("--slo-ttft", setup.slo_ttft, "S", "set the SLO for the time to first token, in seconds", Positive());
  group.Add("--slo-tpot", setup.slo_tpot, "S", "set the SLO for the mean time per output token, in seconds",
            Positive());
  group.AddFlag("--no-wall", to.no_wall, "omit wall-clock times, so that equal runs write equal files");
  group.AddFlag("-q,--quiet", to.quiet, "print no table and no progress bar");
}

std::vector<std::string> GivenOptions(const CLI::App& app, std::initializer_list<const char*> groups) {
  std::vector<std::string> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || std::ranges::find(groups, option->get_group()) == groups.end()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (option->get_items_expected_max() == 0) {
      given.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) given.push_back(name), given.push_back(value);
  }
  return given;
}

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
    message = fmt::format("'{}' is unknown", word);
    if (const std::string near = Nearest(word, known); !near.empty())
      message += fmt::format("; did you mean {}?", near);
  }
  const std::string command = commands.empty() ? "" : " " + app.get_name();
  Note(fmt::format("{0}{1}: {2}\n'{0}{1} --help' lists the options.", tool.get_name(), command, message));
  return kUsage;
}

}  // namespace takt::tool
