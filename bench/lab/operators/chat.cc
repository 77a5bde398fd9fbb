#include "lab/operators/chat.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "lab/agents/study.h"
#include "lab/claim.h"
#include "lab/figure.h"
#include "takt/sim/profiles.h"
#include "tool/run/load_workload.h"

namespace takt::tool {
namespace {

using ChatStudy = Study<MixSetup, MixFigures>;

constexpr double kCalmAgents = 0.002, kManyAgents = 0.006;  // sessions per second
const AgentSystem kChatFirst{"takt's, chat first", "hold_value", "price(free_below=1)",
                             "uncached(priority_first=true)"};
constexpr double kChatCeilings[] = {1, 0.6, 0.4, 0.3, 0.2};
constexpr double kChosenCeiling = 0.2;

std::vector<MixSetup> ChatSetups() {
  std::vector<MixSetup> all = {{.system = kAgentTakts, .rate = kCalmAgents},
                               {.system = kAgentTakts, .rate = kManyAgents}};
  for (const double ceiling : kChatCeilings) {
    all.push_back({.system = kChatFirst, .rate = kManyAgents, .ceiling = ceiling});
  }
  return all;
}

constexpr Figure<MixFigures> kChatFigures[] = {{"chat_ttft_p50_s", &MixFigures::chat_p50, "", "", "chat", "p50 [s]"},
                                               {"chat_ttft_p95_s", &MixFigures::chat_p95, "", "", "chat", "p95 [s]"},
                                               {"chat_turns", &MixFigures::chat_turns, "", "", "chat", "turns"},
                                               {"turns", &MixFigures::turns, "", "", "agents", "turns"},
                                               {"ttft_p95_s", &MixFigures::p95, "", "", "agents", "p95 [s]"}};

absl::StatusOr<Workload> Loaded(const std::string& file) {
  WorkloadSource from;
  from.file = file;
  return LoadWorkload(from);
}

}  // namespace

absl::Status AddChatPart(const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report) {
  Claims claims;
  const std::string chat_claim = "(f) chat next to many agents: p95 of its first tokens over that next to few",
                    turns_claim = "(f) chat next to many agents: agents' turns over those without bands";
  const absl::StatusOr<std::string> file = FindData(settings.data, "agents", "coding_sessions.jsonl.gz"),
                                    trace = FindData(settings.data, "traces", "mooncake_fast25_conversation.jsonl.gz");
  if (!file.ok() || !trace.ok()) {
    claims.Lacking(chat_claim, {{}, 1.2}, "x", "data are missing");
    claims.Lacking(turns_claim, {0.95, {}}, "x", "data are missing");
  } else {
    const absl::StatusOr<Workload> sessions = Loaded(*file), chat = Loaded(*trace);
    if (!sessions.ok()) return sessions.status();
    if (!chat.ok()) return chat.status();
    const absl::StatusOr<Profile> profile = FindProfile(kAgentProfile);
    if (!profile.ok()) return profile.status();
    ChatStudy study(seeds);
    for (const MixSetup& setup : ChatSetups()) study.Add(setup);
    const absl::Status run =
        study.RunCells(settings.threads, "chat and agents", bar,
                       [&](const MixSetup& setup, std::uint64_t seed, const RunProgress& progress) {
                         return RunMix(*sessions, *chat, *profile, 10 * settings.minutes, setup, seed, progress);
                       });
    if (!run.ok()) return run;
    Table table = TableOf({{"", "system"}, {"", "sessions/s", true}}, kChatFigures);
    for (std::size_t c = 0; c < study.size(); ++c) {
      const ChatStudy::CellType& cell = study[c];
      if (!cell.complete()) continue;
      const MixSetup& s = cell.setup;
      const std::string label = s.system.label + (s.ceiling < 1 ? fmt::format(", ceiling {:g}", s.ceiling) : "");
      table.BeginRow();
      table.Text(label), table.Number(s.rate);
      FillCells(kChatFigures, [&](double MixFigures::* figure) { table.Number(cell.Mean(figure)); });
      ScenarioRow row = {{"part", std::string("chat")}, {"system", label}, {"session_rate", s.rate}};
      AddMeans(row, cell, kChatFigures);
      report.rows.push_back(std::move(row));
    }
    report.tables.push_back({"Part chat", std::move(table)});
    const MixSetup ours{.system = kChatFirst, .rate = kManyAgents, .ceiling = kChosenCeiling};
    const auto p95 = study.Ratio(ours, {.system = kAgentTakts, .rate = kCalmAgents}, &MixFigures::chat_p95);
    const auto turns = study.Ratio(ours, {.system = kAgentTakts, .rate = kManyAgents}, &MixFigures::turns);
    if (p95) claims.Add(chat_claim, *p95, {{}, 1.2}, "x", p95->high <= 1.2, IntervalText(*p95), p95->high);
    if (turns) claims.Add(turns_claim, *turns, {0.95, {}}, "x", turns->low >= 0.95, IntervalText(*turns), turns->low);
    if (!p95) claims.Lacking(chat_claim, {{}, 1.2}, "x");
    if (!turns) claims.Lacking(turns_claim, {0.95, {}}, "x");
  }
  for (ScenarioClaim& claim : claims.Take()) report.claims.push_back(std::move(claim));
  return absl::OkStatus();
}

}  // namespace takt::tool
