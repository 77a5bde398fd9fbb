#include "lab/scenario.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "fmt/format.h"

namespace takt::tool {
std::vector<Scenario> Scenarios() {
#define TAKT_LIST_SCENARIO(name) name##Scenario(),
  return {TAKT_SCENARIOS(TAKT_LIST_SCENARIO)};
#undef TAKT_LIST_SCENARIO
}

namespace {

namespace fs = std::filesystem;

fs::path DataRoot(const std::string& given) {
  const char* named = std::getenv("TAKT_DATA");
  if (!given.empty()) return given;
  if (named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  const fs::path whole = "../shared/data", samples = "bench/lab/samples";
  return !fs::is_directory(whole, ignored) && fs::is_directory(samples, ignored) ? samples : whole;
}

}  // namespace

std::string SampleNote(const std::string& given) {
  std::string note;
  std::getline(std::ifstream(DataRoot(given) / "SAMPLE"), note);
  return note;
}

absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file) {
  const fs::path root = DataRoot(given);
  std::error_code ignored;
  if (!given.empty() && !fs::is_directory(root, ignored))
    return given;  // the reader reports what is wrong with the file
  for (const fs::path& path : {root / folder / file, root / file}) {
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return absl::NotFoundError(fmt::format("neither {} nor {} exists; give the path of {} with --data",
                                         (root / folder / file).string(), (root / file).string(), file));
}

void AddOtherRegime(ScenarioReport& report, const ScenarioReport& other) {
  const auto hold = [](const ScenarioReport& r) {
    return std::ranges::count_if(r.claims,
                                 [](const ScenarioClaim& c) { return c.holds() && c.source == ClaimSource::kPaper; });
  };
  report.findings.push_back(fmt::format("{} claims of the paper: {} hold under regime {}, {} under {}.",
                                        std::ranges::count(report.claims, ClaimSource::kPaper, &ScenarioClaim::source),
                                        hold(report), report.regime, hold(other), other.regime));
  Table table({{"", "claim", false},
               {"", "paper"},
               {"regime " + report.regime, "here"},
               {"regime " + report.regime, "verdict", false},
               {"regime " + other.regime, "here "},
               {"regime " + other.regime, "verdict ", false},
               {"", "unit", false}});
  for (const ScenarioClaim& claim : report.claims) {
    const auto there = std::ranges::find(other.claims, claim.name, &ScenarioClaim::name);
    table.BeginRow();
    table.Text(claim.name);
    table.Text(PaperText(claim));
    const auto fill = [&](const ScenarioClaim* c) {
      table.Text(c != nullptr && c->ours ? Short(*c->ours) : "-");
      table.Text(c == nullptr ? "-" : std::string(takt::Name(c->verdict)));
    };
    fill(&claim);
    fill(there != other.claims.end() ? &*there : nullptr);
    table.Text(claim.unit);
  }
  report.tables.push_back({"The claims under both regimes", std::move(table)});
  for (const ScenarioTable& t : other.tables) {
    report.tables.push_back({fmt::format("{} (regime {})", t.heading, other.regime), t.table, t.page_only});
  }
  report.interrupted = report.interrupted || other.interrupted;
}

}  // namespace takt::tool
