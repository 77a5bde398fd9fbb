// Troubles of an engine that serves agents: many sessions at once, some that never return, memory taken or lost; and
// chat next to agents.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "takt/numeric/summary.h"
#include "takt/workload/sessions.h"
#include "takt/workload/transform.h"
#include "lab/agents/study.h"
#include "lab/claim.h"
#include "lab/figure.h"
#include "lab/study.h"

namespace takt::tool {
namespace {

constexpr std::int64_t kTroubleTokens = 1'500'000;
constexpr double kTroubleRates[] = {0.003, 0.004};  // lru copes with it at first, and has collapsed after a day

enum class Trouble : std::uint8_t { kMany, kNever, kHalf, kCold };
struct TroubleKind {
  Trouble kind;
  const char* text;
};
constexpr TroubleKind kTroubles[] = {{Trouble::kMany, "300 sessions begin within a minute"},
                                     {Trouble::kNever, "for an hour, sessions that never return"},
                                     {Trouble::kHalf, "half the memory taken by eight long outputs"},
                                     {Trouble::kCold, "all KV lost at once"}};

struct TroubleSetup {
  AgentSystem system;
  Trouble kind = {};
  double rate = 0;

  friend bool operator==(const TroubleSetup&, const TroubleSetup&) = default;
};

// Figures of ordinary sessions in the hour that begins ten minutes after the trouble's end; calm: the same hour without
// the trouble.
struct TroubleFigures {
  double lasts_min = 0;
  double turns = 0, calm_turns = 0, hits = 0, calm_hits = 0, p95 = 0, calm_p95 = 0;
  double longest = 0, calm_longest = 0;  // s, time to the first token, of all turns of the run
};
using TroubleStudy = Study<TroubleSetup, TroubleFigures>;

constexpr Figure<TroubleFigures> kTroubleFigures[] = {
    {"lasts_min", &TroubleFigures::lasts_min, "", "", "trouble", "lasts [min]"},
    {"turns", &TroubleFigures::turns, "", "", "an hour, from ten minutes after", "turns"},
    {"calm_turns", &TroubleFigures::calm_turns, "", "", "an hour, from ten minutes after", "calm"},
    {"cached_share", &TroubleFigures::hits, "", "", "an hour, from ten minutes after", "hits"},
    {"calm_cached_share", &TroubleFigures::calm_hits, "", "", "an hour, from ten minutes after", "calm"},
    {"ttft_p95_s", &TroubleFigures::p95, "", "", "an hour, from ten minutes after", "p95 [s]"},
    {"calm_ttft_p95_s", &TroubleFigures::calm_p95, "", "", "an hour, from ten minutes after", "calm"},
    {"ttft_max_s", &TroubleFigures::longest, "", "", "whole run", "longest [s]"},
    {"calm_ttft_max_s", &TroubleFigures::calm_longest, "", "", "whole run", "calm"}};

using MixStudy = Study<MixSetup, MixFigures>;

constexpr Figure<MixFigures> kMixFigures[] = {
    {"chat_turns", &MixFigures::chat_turns, "", "", "chat", "turns", Best::kLargest},
    {"chat_cached_share", &MixFigures::chat_hits, "", "", "chat", "hits", Best::kLargest},
    {"chat_ttft_p50_s", &MixFigures::chat_p50, "", "", "chat", "p50 [s]", Best::kSmallest},
    {"chat_ttft_p95_s", &MixFigures::chat_p95, "", "", "chat", "p95 [s]", Best::kSmallest},
    {"turns", &MixFigures::turns, "", "", "agents", "turns", Best::kLargest},
    {"cached_share", &MixFigures::hits, "", "", "agents", "hits", Best::kLargest},
    {"ttft_p95_s", &MixFigures::p95, "", "", "agents", "p95 [s]", Best::kSmallest},
    {"ttft_max_s", &MixFigures::longest, "", "", "agents", "longest [s]", Best::kSmallest}};

// Each kind has its own tenant; 1: the ordinary sessions.
void SetTenant(Workload& workload, std::uint32_t tenant) {
  for (WorkloadWorkflow& w : workload.workflows) w.tenant = tenant;
}

struct Watched {
  double turns = 0, hits = 0, p50 = 0, p95 = 0, longest = 0;
};
// Turns of one tenant: turns that end in the window, hits of turns that start in it, first tokens of turns that arrive
// in it. A turn that still waits at the end of the run counts with its wait so far.
Watched Watch(const Workload& workload, const ReplayResult& result, std::uint32_t tenant, const Window& window,
              TimePoint end) {
  Watched watched;
  double tokens = 0, cached = 0;
  std::vector<double> waits;
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& r = result.requests[i];
    if (r.arrival == kNever || workload.workflows[r.workflow].tenant != tenant) continue;
    watched.turns += r.outcome == Outcome::kCompleted && window.contains(r.end) ? 1 : 0;
    if (r.first_step != kNever && window.contains(r.first_step)) {
      tokens += workload.calls[i].prompt_tokens;
      cached += r.cached_tokens;
    }
    if (window.contains(r.arrival)) waits.push_back(ToSeconds(std::min(r.first_token, end) - r.arrival));
  }
  const Summary first = Summary::Of(waits);
  if (tokens > 0) watched.hits = cached / tokens;
  watched.p50 = first.p50, watched.p95 = first.p95, watched.longest = first.max;
  return watched;
}

// `count` workflows, one every `every_s`, each of `turns` prompts that grow from `prompt` tokens, with `gap_s` between
// them.
Workload Made(std::int32_t count, double every_s, std::int32_t turns, std::int32_t prompt, std::int32_t output,
              double gap_s, std::int32_t block) {
  Workload made;
  made.prefix_block_tokens = block;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto first = static_cast<std::uint32_t>(made.calls.size());
    made.workflows.push_back({.arrival = TimePoint(FromSeconds(i * every_s)),
                              .tenant = 2,
                              .first_call = first,
                              .calls = static_cast<std::uint32_t>(turns)});
    for (std::int32_t t = 0; t < turns; ++t) {
      WorkloadCall call{.prompt_tokens = prompt + 640 * t, .output_tokens = output, .then = TurnEnd::kTool};
      call.first_run = static_cast<std::uint32_t>(made.prefix_runs.size()), call.runs = 1;
      made.prefix_runs.push_back({0, static_cast<std::uint32_t>(call.prompt_tokens / block)});
      call.first_predecessor = static_cast<std::uint32_t>(made.predecessors.size());
      if (t > 0) {
        made.predecessors.push_back(static_cast<std::uint32_t>(t - 1)), call.predecessors = 1;
        call.delay = FromSeconds(gap_s);
      }
      made.calls.push_back(call);
    }
  }
  return made;
}

Workload MadeOf(Trouble kind, std::int32_t block) {
  constexpr double kForever = 1e8;  // s
  switch (kind) {
    case Trouble::kMany: return Made(300, 0.2, 3, 20'000, 200, 10, block);
    case Trouble::kNever: return Made(180, 20, 2, 60'000, 200, kForever, block);
    case Trouble::kHalf: return Made(8, 1, 1, static_cast<std::int32_t>(kTroubleTokens / 16), 30'000, 0, block);
    case Trouble::kCold: return {};
  }
  return {};
}

// The end of the trouble, whose turns have tenant 2.
TimePoint EndOf(Trouble kind, const Workload& workload, const ReplayResult& result, TimePoint at) {
  if (kind == Trouble::kCold) return at;
  if (kind == Trouble::kNever) return at + std::chrono::hours(1);
  TimePoint end = at;
  for (const RequestRecord& r : result.requests) {
    if (workload.workflows[r.workflow].tenant == 2) end = std::max(end, r.end);
  }
  return end;  // kNever if one of them has not ended
}

class TroubleRuns {
 public:
  TroubleRuns(const Workload& sessions, const Workload* chat, const Profile& profile, double minutes)
      : sessions_(sessions), chat_(chat), profile_(profile), minutes_(minutes) {}

  absl::StatusOr<std::optional<TroubleFigures>> Run(const TroubleSetup& setup, std::uint64_t seed,
                                                    const RunProgress& progress) const {
    const Duration horizon = Horizon(8);
    const TimePoint at(horizon / 2), end(horizon);
    absl::StatusOr<Workload> drawn = Drawn(setup.rate, horizon, seed);
    if (!drawn.ok()) return drawn.status();
    Workload with = *drawn;
    const Workload made = MadeOf(setup.kind, drawn->prefix_block_tokens);
    if (!made.workflows.empty()) {
      const std::array<Part, 2> parts = {{{&*drawn, Duration{0}}, {&made, horizon / 2}}};
      absl::StatusOr<Workload> merged = Merge(parts);
      if (!merged.ok()) return merged.status();
      with = *std::move(merged);
    }
    ReplayOptions options = OptionsOf(setup.system, kTroubleTokens, seed, horizon, progress);
    const absl::StatusOr<ReplayResult> calm = Replay(*drawn, options);
    if (!calm.ok()) return calm.status();
    if (setup.kind == Trouble::kCold) options.cluster.cold_at = horizon / 2;
    const absl::StatusOr<ReplayResult> result = Replay(with, options);
    if (!result.ok()) return result.status();
    if (calm->stopped || result->stopped) return std::nullopt;
    const TimePoint over = std::min(EndOf(setup.kind, with, *result, at), end);
    // If the trouble outlasts the run, the window is empty and has no hits.
    const TimePoint from = over < end ? over + std::min<Duration>(std::chrono::minutes(10), horizon / 48) : end;
    const Window window{from, std::min(from + std::chrono::hours(1), end)};
    const Watched after = Watch(with, *result, 1, window, end), before = Watch(*drawn, *calm, 1, window, end);
    const Window all{TimePoint{}, end};
    return TroubleFigures{
        .lasts_min = ToSeconds(over - at) / 60,
        .turns = after.turns,
        .calm_turns = before.turns,
        .hits = after.hits,
        .calm_hits = before.hits,
        .p95 = after.p95,
        .calm_p95 = before.p95,
        .longest = std::max(Watch(with, *result, 1, all, end).longest, Watch(with, *result, 2, all, end).longest),
        .calm_longest = Watch(*drawn, *calm, 1, all, end).longest};
  }

  // Chat at an eighth of its pace: about half of the rate at which first tokens of chat alone begin to wait here.
  absl::StatusOr<std::optional<MixFigures>> Run(const MixSetup& setup, std::uint64_t seed,
                                                const RunProgress& progress) const {
    const Duration horizon = Horizon(6);
    Workload both = *chat_;
    SetTenant(both, 2);
    if (absl::Status s = ScaleRate(both, 0.125); !s.ok()) return s;
    if (setup.rate > 0) {
      absl::StatusOr<Workload> drawn = Drawn(setup.rate, horizon, seed);
      if (!drawn.ok()) return drawn.status();
      Cut(both, drawn->prefix_block_tokens);
      const std::array<Part, 2> parts = {{{&*drawn, Duration{0}}, {&both, Duration{0}}}};
      absl::StatusOr<Workload> merged = Merge(parts);
      if (!merged.ok()) return merged.status();
      both = *std::move(merged);
    } else {
      Cut(both, sessions_.prefix_block_tokens);
    }
    for (WorkloadWorkflow& w : both.workflows) w.priority = w.tenant == 2 ? 0 : 1;
    ReplayOptions options = OptionsOf(setup.system, setup.kv_tokens, seed, horizon, progress);
    if (setup.ceiling < 1) {
      options.scheduler.class_limits = {{.priority = 0}, {.priority = 1, .ceiling = setup.ceiling}};
    }
    const absl::StatusOr<ReplayResult> result = Replay(both, options);
    if (!result.ok()) return result.status();
    if (result->stopped) return std::nullopt;
    const Window window{TimePoint(horizon / 2), TimePoint(horizon)};
    const Watched chat = Watch(both, *result, 2, window, window.until);
    const Watched agents = Watch(both, *result, 1, window, window.until);
    return MixFigures{.chat_turns = chat.turns,
                      .chat_hits = chat.hits,
                      .chat_p50 = chat.p50,
                      .chat_p95 = chat.p95,
                      .turns = agents.turns,
                      .hits = agents.hits,
                      .p95 = agents.p95,
                      .longest = agents.longest};
  }

 private:
  Duration Horizon(double hours) const { return FromSeconds(minutes_ > 0 ? 60 * minutes_ : 3600 * hours); }

  absl::StatusOr<Workload> Drawn(double rate, Duration horizon, std::uint64_t seed) const {
    absl::StatusOr<Workload> drawn = DrawSessions(sessions_, {.rate = rate, .horizon = horizon, .seed = seed});
    if (drawn.ok()) SetTenant(*drawn, 1);
    return drawn;
  }

  ReplayOptions OptionsOf(const AgentSystem& system, std::int64_t kv_tokens, std::uint64_t seed, Duration horizon,
                          const RunProgress& progress) const {
    ReplayOptions options = AgentOptionsOf(system, sessions_, kv_tokens, profile_, seed);
    options.cluster.horizon = horizon;
    options.cluster.progress = progress;
    return options;
  }

  // Splits each block of a prefix into smaller ones.
  static void Cut(Workload& workload, std::int32_t block) {
    const auto pieces = static_cast<std::uint32_t>(std::max(workload.prefix_block_tokens / block, 1));
    std::vector<std::uint64_t> hashes;
    for (WorkloadCall& call : workload.calls) {
      const auto first = static_cast<std::uint32_t>(hashes.size());
      const auto whole = static_cast<std::uint32_t>(call.prompt_tokens / block);
      for (const std::uint64_t hash : workload.hashes_of(call)) {
        for (std::uint64_t i = 0; i < pieces && hashes.size() - first < whole; ++i) {
          hashes.push_back(i + 1 < pieces ? Mix64(hash ^ Mix64(i + 1)) : hash);
        }
      }
      call.first_hash = first, call.hashes = static_cast<std::uint32_t>(hashes.size()) - first;
    }
    workload.prefix_hashes = std::move(hashes);
    workload.prefix_block_tokens = block;
  }

  const Workload& sessions_;
  const Workload* chat_;
  const Profile& profile_;
  double minutes_;
};

std::vector<AgentSystem> TroubleSystems() { return {kAgentToday, kAgentTakts}; }
std::vector<AgentSystem> MixSystems() {
  return {kAgentToday, kAgentTakts, {"takt's cache and gate, fair_share", "hold_value", "price", "fair_share"}};
}
// Chat alone; next to agents below lru's limit; next to agents far beyond it; and alone on half the memory.
constexpr std::array<std::pair<double, std::int64_t>, 4> kMixes = {
    {{0, kTroubleTokens / 2}, {0, kTroubleTokens}, {0.002, kTroubleTokens}, {0.006, kTroubleTokens}}};
std::string MixText(const MixSetup& s) {
  const std::string kv = fmt::format("{:.2f}M tokens of KV", static_cast<double>(s.kv_tokens) / 1e6);
  return s.rate > 0 ? fmt::format("{}, {:g} sessions/s", kv, s.rate) : kv + ", chat alone";
}

void TellTroubles(const TroubleStudy& study, ScenarioReport& report, Claims& claims) {
  Table table = TableOf({{"", "trouble", false}, {"", "system", false}}, kTroubleFigures);
  for (const double rate : kTroubleRates) {
    for (const TroubleKind& kind : kTroubles) {
      const std::string text = fmt::format("{:g} sessions/s: {}", rate, kind.text);
      table.BeginSection();
      for (const AgentSystem& system : TroubleSystems()) {
        const auto* cell = study.Find({system, kind.kind, rate});
        std::optional<double> least, longest;
        if (cell != nullptr) {
          table.BeginRow();
          table.Text(text);
          table.Text(system.label);
          FillCells(kTroubleFigures, [&](auto figure) { table.Number(cell->Mean(figure)); });
          report.rows.push_back(
              {{"trouble", std::string(kind.text)}, {"session_rate", rate}, {"system", system.label}});
          AddMeans(report.rows.back(), *cell, kTroubleFigures);
          for (const TroubleFigures& seed : cell->seeds) {
            least = std::min(least.value_or(1e9), seed.calm_hits > 0 ? seed.hits / seed.calm_hits : 0);
            longest = std::max(longest.value_or(0), seed.longest);
          }
        }
        if (system != kAgentTakts) continue;
        claims.AtLeast(text + ": hits after ten minutes over those without", least, 0.95, "x", "of the worst seed");
        claims.AtMost(text + ": longest wait", longest, 3600, "s", "of the worst seed");
      }
    }
  }
  report.tables.push_back({"Trouble, half way through 8 hours on 1.5M tokens", std::move(table)});
}

void TellMixes(const MixStudy& study, ScenarioReport& report, Claims& claims) {
  Table table = TableOf({{"", "load", false}, {"", "system", false}}, kMixFigures);
  for (const auto& [rate, kv_tokens] : kMixes) {
    table.BeginSection();
    for (const AgentSystem& system : MixSystems()) {
      const MixSetup setup{system, rate, kv_tokens};
      const auto* cell = study.Find(setup);
      if (cell == nullptr) continue;
      table.BeginRow();
      table.Text(MixText(setup));
      table.Text(system.label);
      FillCells(kMixFigures, [&](auto figure) { table.Number(cell->Mean(figure)); });
      report.rows.push_back({{"mix", MixText(setup)}, {"system", system.label}});
      AddMeans(report.rows.back(), *cell, kMixFigures);
    }
  }
  for (const AgentSystem& system : MixSystems()) {
    if (system == kAgentToday) continue;
    const auto *over = study.Find({system, 0.006}), *below = study.Find({system, 0.002});
    std::optional<double> worst;
    for (std::size_t i = 0; over != nullptr && below != nullptr && i < over->seeds.size(); ++i) {
      const double base = below->seeds[i].chat_p95;
      if (base > 0) worst = std::max(worst.value_or(0), over->seeds[i].chat_p95 / base);
    }
    claims.AtMost(fmt::format("chat next to agents, {}: p95 at 0.006 over that at 0.002 sessions/s", system.label),
                  worst, 1.1, "x", "of the worst seed");
  }
  report.tables.push_back({"Chat and agents on one engine", std::move(table)});
}

}  // namespace

absl::StatusOr<std::optional<MixFigures>> RunMix(const Workload& sessions, const Workload& chat, const Profile& profile,
                                                 double minutes, const MixSetup& setup, std::uint64_t seed,
                                                 const RunProgress& progress) {
  return TroubleRuns(sessions, &chat, profile, minutes).Run(setup, seed, progress);
}

absl::Status AddTrouble(const Workload& sessions, const Workload* chat, const Profile& profile,
                        const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report) {
  const TroubleRuns runs(sessions, chat, profile, settings.minutes);
  const auto run = [&](const auto& setup, std::uint64_t seed, const RunProgress& progress) {
    return runs.Run(setup, seed, progress);
  };
  Claims claims;
  TroubleStudy troubles(seeds);
  for (const double rate : kTroubleRates) {
    for (const TroubleKind& kind : kTroubles) {
      for (const AgentSystem& system : TroubleSystems()) troubles.Add({system, kind.kind, rate});
    }
  }
  if (absl::Status s = troubles.RunCells(settings.threads, "replaying trouble", bar, run); !s.ok()) return s;
  TellTroubles(troubles, report, claims);
  if (chat != nullptr) {
    MixStudy mixes(seeds);
    for (const auto& [rate, kv_tokens] : kMixes) {
      for (const AgentSystem& system : MixSystems()) mixes.Add({system, rate, kv_tokens});
    }
    if (absl::Status s = mixes.RunCells(settings.threads, "replaying chat and agents", bar, run); !s.ok()) return s;
    TellMixes(mixes, report, claims);
  }
  for (ScenarioClaim& claim : claims.Take()) report.claims.push_back(std::move(claim));
  return absl::OkStatus();
}

}  // namespace takt::tool
