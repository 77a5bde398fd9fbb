// Recorded sessions of coding agents whose prompts are nearly all cached. Compares which KV stays in the cache, which
// turns are admitted and who goes first, below, at and beyond the load at which engines collapse.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/agents/study.h"
#include "lab/claim.h"
#include "lab/figure.h"
#include "lab/scenario.h"
#include "lab/study.h"
#include "tool/run/load_workload.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/turns/gates/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/turns/retention/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/sessions.h"

namespace takt::tool {
namespace {

constexpr std::string_view kGpuProfile = "fit/qwen3-coder-30b-a3b/h100/fp8/tp2";  // model of the published GPU runs
constexpr std::int64_t kLoopTokens = 2'240'000;  // tokens of KV, in the closed loop
constexpr double kChatHorizon = 1800;
constexpr double kAgentThinkCap = 10, kLoopHorizon = 1800, kAgentLoopWarmUp = 1.0 / 3, kAgentWarmUp = 0.25;

// `rate` sessions begin each second, or `loop` sessions are active at any time. Or the load is chat, `chat` times as
// fast as recorded.
struct AgentSetup {
  AgentSystem system = {};
  std::int64_t kv_tokens = 0;  // tokens of each instance
  double rate = 0;
  std::int64_t loop = 0;
  std::int64_t instances = 1;
  std::int64_t host_tokens = 0;  // tokens of host memory
  double chat = 0;
  bool gpus = false;  // the engine of the GPU runs

  friend bool operator==(const AgentSetup&, const AgentSetup&) = default;
};

struct AgentFigures {
  double turns = 0, sessions = 0, hits = 0, excess = 0, moved = 0, tokens = 0;
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, longest = 0;  // s, time to the first token, of all turns that arrived
};
using AgentCell = Cell<AgentSetup, AgentFigures>;
using AgentStudy = Study<AgentSetup, AgentFigures>;

constexpr Figure<AgentFigures> kAgentFigures[] = {
    {"turns", &AgentFigures::turns, "turns completed", "", "", "turns", Best::kLargest},
    {"sessions", &AgentFigures::sessions, "sessions completed", "", "", "sessions", Best::kLargest},
    {"cached_share", &AgentFigures::hits, "share of prompts cached", "", "", "hits", Best::kLargest},
    {"prefill_excess", &AgentFigures::excess, "prefill over that of an endless cache", "", "", "excess",
     Best::kSmallest},
    {"moved_share", &AgentFigures::moved, "share of turns that moved", "", "", "moved", Best::kSmallest},
    {"output_tokens_per_s", &AgentFigures::tokens, "output tokens per second", "", "", "tokens/s", Best::kLargest},
    {"ttft_mean_s", &AgentFigures::mean, "first token, mean", "s", "first token [s]", "mean", Best::kSmallest},
    {"ttft_p50_s", &AgentFigures::p50, "first token, p50", "s", "first token [s]", "p50", Best::kSmallest},
    {"ttft_p95_s", &AgentFigures::p95, "first token, p95", "s", "first token [s]", "p95", Best::kSmallest},
    {"ttft_p99_s", &AgentFigures::p99, "first token, p99", "s", "first token [s]", "p99", Best::kSmallest},
    {"ttft_max_s", &AgentFigures::longest, "first token, longest", "s", "first token [s]", "longest", Best::kSmallest}};

const AgentSystem kNoDoor{"takt's without the door", "hold_value", "price(share=0)", "uncached"};
const AgentSystem kClairvoyant{"clairvoyant victims, price", "belady_cost", "price", "uncached"};

std::vector<AgentSystem> VictimOrders() {
  std::vector<AgentSystem> systems;
  for (const char* retention :
       {"lru", "lfu", "slru", "tlru", "wa", "shortest", "ttl(seconds=60)", "hold_value", "belady", "belady_cost"}) {
    systems.push_back({retention, retention, "none", "fcfs"});
  }
  return systems;
}

std::vector<AgentSystem> GatesAndOrders() {
  return {kAgentToday,
          {"lru, no gate, workflow_fcfs", "lru", "none", "workflow_fcfs"},
          {"lru, no gate, lpm", "lru", "none", "lpm"},
          {"lru, no gate, uncached", "lru", "none", "uncached"},
          {"hold_value, no gate, fcfs", "hold_value", "none", "fcfs"},
          {"belady, no gate, fcfs", "belady", "none", "fcfs"},
          {"lease of 2 s, prefix_then_workflow", "lru", "lease(seconds=2)", "prefix_then_workflow"},
          {"lease of 30 s, prefix_then_workflow", "lru", "lease(seconds=30)", "prefix_then_workflow"},
          {"lease of 120 s, uncached", "hold_value", "lease(seconds=120)", "uncached"},
          {"working set, half-life 1 s", "lru", "working_set", "uncached"},
          {"working set, half-life 60 s", "hold_value", "working_set(half_life_s=60,force_s=0)", "uncached"},
          {"congestion control", "lru", "concur", "uncached"},
          kNoDoor,
          kAgentTakts,
          {"takt's, victims by lru", "lru", "price", "uncached"},
          kClairvoyant};
}

std::vector<AgentSystem> LoopSystems() {
  return {kAgentToday,
          {"working set, half-life 10 s, fcfs", "lru", "working_set(half_life_s=10)", "fcfs"},
          {"lease of 30 s, uncached", "lru", "lease(seconds=30)", "uncached"},
          kAgentTakts};
}

// On engines without retention and gate, and on takt's.
std::vector<AgentSystem> AgentPlacements() {
  std::vector<AgentSystem> systems;
  for (const bool gated : {false, true}) {
    for (const char* placement : {"random", "least_loaded", "session", "prefix", "sglang", "llmd", "dynamo", "preble",
                                  "mooncake", "cached_cost(move=1)", "cached_cost"}) {
      systems.push_back(gated ? AgentSystem{fmt::format("{}, takt's engines", placement), "hold_value", "price",
                                            "uncached", placement}
                              : AgentSystem{placement, "lru", "none", "fcfs", placement});
    }
  }
  return systems;
}

// Systems by their knowledge of gaps. Systems with `learnt` do not learn during the run.
std::vector<AgentSystem> Knowing() {
  std::vector<AgentSystem> systems = {kAgentToday, kAgentTakts};
  const auto add = [&](const char* label, double told, double learnt, bool one_class = false) {
    systems.push_back({label, "hold_value", "price", "uncached", "least_loaded", told, learnt, one_class});
  };
  add("times told", 1, 0);
  add("reported times, a tenth", 0.1, 0);
  add("reported times, ten times", 10, 0);
  add("one class for all gaps", 0, 0, true);
  add("gaps learnt before", 0, 1);
  add("gaps learnt before, a tenth as long", 0, 0.1);
  add("gaps learnt before, 3 times as long", 0, 3);
  add("gaps learnt before, 10 times as long", 0, 10);
  systems.push_back(kClairvoyant);
  return systems;
}

AgentSystem SystemOf(const std::vector<AgentSystem>& systems, const std::string& label) {
  const auto it = std::ranges::find(systems, label, &AgentSystem::label);
  return it == systems.end() ? AgentSystem{} : *it;
}

std::vector<AgentSystem> TodayAndTakts() { return {kAgentToday, kAgentTakts}; }

// In chat each turn is a workflow of its own. Both systems use order of arrival, so that only the cache and the gate
// differ.
std::vector<AgentSystem> ChatSystems() {
  return {kAgentToday, {"takt's cache and gate, fcfs", "hold_value", "price", "fcfs"}};
}

struct AgentPlan {
  std::vector<std::int64_t> victim_tokens = {1'000'000, 1'500'000, 2'000'000};
  double victim_rate = 0.0025;
  std::vector<std::pair<std::int64_t, double>> loads = {{1'500'000, 0.002}, {1'500'000, 0.004}, {1'500'000, 0.006}};
  std::vector<std::int64_t> loops = {16, 24, 32, 48, 84};
  AgentSetup fleet = {.system = {}, .kv_tokens = 1'500'000, .rate = 0.024, .loop = 0, .instances = 4};
  AgentSetup known = {.system = {}, .kv_tokens = 1'500'000, .rate = 0.006};
  std::vector<AgentSetup> tiers = {{.kv_tokens = 750'000, .rate = 0.0025},
                                   {.kv_tokens = 750'000, .rate = 0.0025, .host_tokens = 1'500'000},
                                   {.kv_tokens = 750'000, .rate = 0.006, .host_tokens = 1'500'000},
                                   {.kv_tokens = 1'500'000, .rate = 0.006}};
  std::vector<AgentSetup> chats = {{.kv_tokens = 1'500'000, .chat = 0.25}, {.kv_tokens = 1'500'000, .chat = 0.4}};
};

AgentFigures AgentFiguresOf(const ReplayResult& result) {
  const Metrics& m = result.metrics;
  const SessionFigures& s = *m.sessions;
  return {.turns = static_cast<double>(s.turns),
          .sessions = static_cast<double>(s.sessions),
          .hits = s.cached_share,
          .excess = s.prefill_excess,
          .moved = s.moved_share,
          .tokens = m.throughput_tokens,
          .mean = m.ttft.mean,
          .p50 = m.ttft.p50,
          .p95 = m.ttft.p95,
          .p99 = m.ttft.p99,
          .longest = m.ttft.max};
}

// Chat at its recorded pace.
absl::StatusOr<std::optional<AgentFigures>> RunChat(const Workload& chat, const AgentSetup& setup,
                                                    ReplayOptions options, double minutes,
                                                    const RunProgress& progress) {
  options.cluster.rate_scale = setup.chat;
  options.cluster.horizon = FromSeconds(minutes > 0 ? 60 * minutes : kChatHorizon);
  options.warm_up = FromSeconds(ToSeconds(options.cluster.horizon) * kAgentWarmUp);
  options.cluster.progress = progress;
  const absl::StatusOr<ReplayResult> result = Replay(chat, options);
  if (!result.ok()) return result.status();
  if (result->stopped) return std::nullopt;
  return AgentFiguresOf(*result);
}

// `minutes`: length of the run; 0: long enough to start each session once, and half an hour for the closed loop and
// chat.
absl::Status RunAgents(const Workload& sessions, const Workload& one_class, const Workload& chat,
                       const Profile& profile, const Profile& gpus, double minutes, int threads, ProgressBar& bar,
                       AgentStudy& study) {
  return study.RunCells(
      threads, "replaying", bar,
      [&](const AgentSetup& setup, std::uint64_t seed,
          const RunProgress& progress) -> absl::StatusOr<std::optional<AgentFigures>> {
        ReplayOptions options =
            AgentOptionsOf(setup.system, sessions, setup.kv_tokens, setup.gpus ? gpus : profile, seed);
        options.host_kv_tokens = setup.host_tokens;
        options.instances = static_cast<std::int32_t>(setup.instances);
        if (setup.chat > 0) return RunChat(chat, setup, std::move(options), minutes, progress);
        const bool closed = setup.loop > 0;
        const double once = static_cast<double>(sessions.workflows.size()) / (closed ? 1 : setup.rate);
        SessionLoad load{.rate = setup.rate, .closed_loop = setup.loop, .seed = seed};
        load.horizon = FromSeconds(minutes > 0 ? 60 * minutes : closed ? kLoopHorizon : once);
        if (closed) load.think_cap = FromSeconds(kAgentThinkCap);
        const absl::StatusOr<Workload> drawn = DrawSessions(setup.system.one_class ? one_class : sessions, load);
        if (!drawn.ok()) return drawn.status();
        options.cluster.horizon = load.horizon;
        options.cluster.closed_loop = setup.loop;
        options.warm_up = FromSeconds(ToSeconds(load.horizon) * (closed ? kAgentLoopWarmUp : kAgentWarmUp));
        options.cluster.progress = progress;
        const absl::StatusOr<ReplayResult> result = Replay(*drawn, options);
        if (!result.ok()) return result.status();
        if (result->stopped) return std::nullopt;
        return AgentFiguresOf(*result);
      });
}

std::string AgentLoadText(const AgentSetup& s) {
  if (s.chat > 0) return fmt::format("chat, {:g} times as fast", s.chat);
  if (s.host_tokens > 0) {
    return fmt::format("{:.2f}M tokens of KV, {:.2f}M in host memory, {:g} sessions/s",
                       static_cast<double>(s.kv_tokens) / 1e6, static_cast<double>(s.host_tokens) / 1e6, s.rate);
  }
  if (s.instances > 1) {
    return fmt::format("{} instances of {:.2f}M, {:g} sessions/s", s.instances, static_cast<double>(s.kv_tokens) / 1e6,
                       s.rate);
  }
  return s.loop > 0
             ? fmt::format("{} sessions at a time{}", s.loop, s.gpus ? ", the GPUs' engine" : "")
             : fmt::format("{:.2f}M tokens of KV, {:g} sessions/s", static_cast<double>(s.kv_tokens) / 1e6, s.rate);
}

ScenarioRow AgentRowOf(const AgentCell& cell) {
  const AgentSetup& s = cell.setup;
  ScenarioRow row = {{"system", s.system.label},
                     {"retention", s.system.retention},
                     {"gate", s.system.gate},
                     {"policy", s.system.policy},
                     {"kv_tokens", s.kv_tokens},
                     {"session_rate", s.rate},
                     {"placement", s.system.placement},
                     {"instances", s.instances},
                     {"expected_gaps", s.system.told},
                     {"learnt_gaps", s.system.learnt},
                     {"profile", std::string(s.gpus ? kGpuProfile : kAgentProfile)},
                     {"host_kv_tokens", s.host_tokens},
                     {"chat", s.chat},
                     {"closed_loop", s.loop},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())}};
  AddMeans(row, cell, kAgentFigures);
  for (std::size_t i = 0; i < cell.seeds.size(); ++i) {
    row.emplace_back(fmt::format("turns_{}", i + 1), cell.seeds[i].turns);
    row.emplace_back(fmt::format("ttft_p95_s_{}", i + 1), cell.seeds[i].p95);
    row.emplace_back(fmt::format("ttft_max_s_{}", i + 1), cell.seeds[i].longest);
  }
  return row;
}

// The systems under each of these loads.
Table AgentTable(const AgentStudy& study, const std::vector<AgentSystem>& systems,
                 const std::vector<AgentSetup>& loads) {
  Table table = TableOf({{"", "load", false}, {"", "system", false}}, kAgentFigures);
  for (AgentSetup setup : loads) {
    table.BeginSection();
    for (const AgentSystem& system : systems) {
      setup.system = system;
      const AgentCell* c = study.Find(setup);
      if (c == nullptr) continue;
      table.BeginRow();
      table.Text(AgentLoadText(setup));
      table.Text(system.label);
      FillCells(kAgentFigures, [&](auto figure) { table.Number(c->Mean(figure)); });
    }
  }
  return table;
}

std::vector<AgentSetup> VictimLoads(const AgentPlan& plan) {
  std::vector<AgentSetup> loads;
  for (const std::int64_t tokens : plan.victim_tokens) loads.push_back({{}, tokens, plan.victim_rate, 0});
  return loads;
}
std::vector<AgentSetup> GateLoads(const AgentPlan& plan) {
  std::vector<AgentSetup> loads;
  for (const auto& [tokens, rate] : plan.loads) loads.push_back({{}, tokens, rate, 0});
  return loads;
}
std::vector<AgentSetup> Loops(const AgentPlan& plan, bool gpus = false) {
  std::vector<AgentSetup> loads;
  for (const std::int64_t loop : plan.loops) loads.push_back({.kv_tokens = kLoopTokens, .loop = loop, .gpus = gpus});
  return loads;
}

// Ratios of one system's figures to another's, seed by seed; empty if a run is incomplete.
std::optional<Interval> AgentRatioOf(const AgentStudy& study, AgentSetup load, const AgentSystem& ours,
                                     const AgentSystem& other, double AgentFigures::* figure) {
  load.system = ours;
  const AgentCell* a = study.Find(load);
  load.system = other;
  const AgentCell* b = study.Find(load);
  if (a == nullptr || b == nullptr) return std::nullopt;
  Moments ratios;
  for (std::size_t i = 0; i < a->seeds.size(); ++i) {
    if (b->seeds[i].*figure > 0) ratios.Add(a->seeds[i].*figure / (b->seeds[i].*figure));
  }
  if (ratios.count() == 0) return std::nullopt;
  return IntervalOf(ratios);
}

// The largest figure of any seed.
std::optional<double> WorstAgentFigure(const AgentStudy& study, AgentSetup load, const AgentSystem& system,
                                       double AgentFigures::* figure) {
  load.system = system;
  const AgentCell* c = study.Find(load);
  if (c == nullptr) return std::nullopt;
  double worst = 0;
  for (const AgentFigures& seed : c->seeds) worst = std::max(worst, seed.*figure);
  return worst;
}
std::optional<double> LeastAgentFigure(const AgentStudy& study, AgentSetup load, const AgentSystem& system,
                                       double AgentFigures::* figure) {
  load.system = system;
  const AgentCell* c = study.Find(load);
  if (c == nullptr) return std::nullopt;
  double least = c->seeds.front().*figure;
  for (const AgentFigures& seed : c->seeds) least = std::min(least, seed.*figure);
  return least;
}

std::vector<ScenarioClaim> AgentClaimsOf(const AgentStudy& study, const AgentPlan& plan) {
  Claims claims;
  const auto ratio = [&](const std::string& name, const AgentSetup& load, double AgentFigures::* figure, double least,
                         const std::string& reason, const AgentSystem& other = kAgentToday) {
    const std::optional<Interval> r = AgentRatioOf(study, load, kAgentTakts, other, figure);
    if (!r) return claims.Lacking(name, Over(least), "x");
    claims.Add(name, *r, Over(least), "x", r->mean >= least, reason + "; " + IntervalText(*r));
  };
  const auto at_most = [&](const std::string& name, const AgentSetup& load, double AgentFigures::* figure, double most,
                           const std::string& unit) {
    claims.AtMost(name, WorstAgentFigure(study, load, kAgentTakts, figure), most, unit, "of the worst seed");
  };
  const auto at_least = [&](const std::string& name, const AgentSetup& load, const AgentSystem& system,
                            double AgentFigures::* figure, double least, const std::string& unit) {
    claims.AtLeast(name, LeastAgentFigure(study, load, system, figure), least, unit, "of the worst seed");
  };
  const auto load = [](std::int64_t tokens, double rate) { return AgentSetup{{}, tokens, rate, 0}; };
  const AgentSetup low = load(1'500'000, 0.002), high = load(1'500'000, 0.004), over = load(1'500'000, 0.006);
  ratio("no harm below the cliff: turns over lru's, 0.002/s", low, &AgentFigures::turns, 0.98, "paired seeds");
  const std::optional<Interval> p95 = AgentRatioOf(study, low, kAgentTakts, kAgentToday, &AgentFigures::p95);
  claims.AtMost("no harm below the cliff: p95 over lru's, 0.002/s", p95 ? std::optional(p95->mean) : std::nullopt, 1.02,
                "x", "paired seeds");
  at_least("hits at 0.004/s", high, kAgentTakts, &AgentFigures::hits, 0.87, "");
  at_most("p95 at 0.004/s", high, &AgentFigures::p95, 11, "s");
  ratio("turns over lru's at 0.006/s", over, &AgentFigures::turns, 2, "paired seeds");
  at_least("hits at 0.006/s", over, kAgentTakts, &AgentFigures::hits, 0.8, "");
  at_most("p95 at 0.006/s", over, &AgentFigures::p95, 37, "s");
  ratio("turns over those of clairvoyant victims with the same gate, 0.006/s", over, &AgentFigures::turns, 0.95,
        "paired seeds", kClairvoyant);
  at_most("longest wait at 0.006/s", over, &AgentFigures::longest, 2800, "s");
  for (const AgentSetup& victim : VictimLoads(plan)) {
    const auto hits = [&](const char* retention) -> std::optional<double> {
      AgentSetup setup = victim;
      setup.system = {retention, retention, "none", "fcfs"};
      const AgentCell* c = study.Find(setup);
      if (c == nullptr) return std::nullopt;
      return c->Mean(&AgentFigures::hits);
    };
    const std::optional<double> lru = hits("lru"), ours = hits("hold_value"), best = hits("belady");
    const bool known = lru && ours && best && *best > *lru;
    claims.AtLeast(fmt::format("victims at {}: share of the gap to the clairvoyant", AgentLoadText(victim)),
                   known ? std::optional(100 * (*ours - *lru) / (*best - *lru)) : std::nullopt,
                   victim.kv_tokens < 2'000'000 ? 15 : 25, "%",
                   known ? fmt::format("hits {:.3f}, {:.3f}, {:.3f}", *lru, *ours, *best) : "no gap");
  }
  for (const AgentSetup& loop : Loops(plan)) {
    if (loop.loop == 24)
      at_least("closed loop: hits over those of lru with 24", loop, kAgentToday, &AgentFigures::hits, 0.75, "");
    if (loop.loop < 32) continue;
    at_least(fmt::format("closed loop: hits with {}", loop.loop), loop, kAgentTakts, &AgentFigures::hits, 0.85, "");
    ratio(fmt::format("closed loop: turns over lru's with {}", loop.loop), loop, &AgentFigures::turns,
          loop.loop == 32 ? 3.5 : 4, "paired seeds");
    at_most(fmt::format("closed loop: p50 with {}", loop.loop), loop, &AgentFigures::p50, 1, "s");
  }
  const auto fleet = [&](const std::string& placement, double AgentFigures::* figure) -> std::optional<double> {
    AgentSetup setup = plan.fleet;
    for (const AgentSystem& system : AgentPlacements()) {
      if (system.placement != placement || system.gate != "price") continue;
      setup.system = system;
      if (const AgentCell* c = study.Find(setup)) return c->Mean(figure);
    }
    return std::nullopt;
  };
  std::optional<double> most_turns, least_p95;  // of the rivals
  for (const char* rival : {"session", "prefix", "llmd", "sglang", "preble", "mooncake", "dynamo"}) {
    const std::optional<double> turns = fleet(rival, &AgentFigures::turns), soon = fleet(rival, &AgentFigures::p95);
    if (turns) most_turns = std::max(*turns, most_turns.value_or(0));
    if (soon) least_p95 = std::min(*soon, least_p95.value_or(*soon));
  }
  const auto over_rival = [](std::optional<double> ours, std::optional<double> rivals) -> std::optional<double> {
    if (!ours || !rivals || !(*rivals > 0)) return std::nullopt;
    return *ours / *rivals;
  };
  claims.AtLeast("placement: turns over the best rival's",
                 over_rival(fleet("cached_cost", &AgentFigures::turns), most_turns), 0.98, "x", "means");
  claims.AtMost("placement: p95 over the best rival's", over_rival(fleet("cached_cost", &AgentFigures::p95), least_p95),
                1.05, "x", "means");
  claims.AtMost("placement: turns that moved", fleet("cached_cost", &AgentFigures::moved), 0.15, "", "mean");
  const auto known = [&](const std::string& label, const AgentSystem& other, double AgentFigures::* figure) {
    const std::optional<Interval> r = AgentRatioOf(study, plan.known, SystemOf(Knowing(), label), other, figure);
    return r ? std::optional(r->mean) : std::nullopt;
  };
  for (const std::string label : {"reported times, a tenth", "reported times, ten times"}) {
    claims.AtLeast(label + ": turns over those without", known(label, kAgentTakts, &AgentFigures::turns), 0.95, "x",
                   "paired seeds");
  }
  for (const std::string label :
       {"one class for all gaps", "gaps learnt before, a tenth as long", "gaps learnt before, 3 times as long"}) {
    claims.AtLeast(label + ": turns over takt's", known(label, kAgentTakts, &AgentFigures::turns), 0.95, "x",
                   "paired seeds");
    claims.AtMost(label + ": p95 of takt's", known(label, kAgentTakts, &AgentFigures::p95), 1.3, "x", "paired seeds");
  }
  claims.AtLeast("gaps learnt before, 10 times as long: turns over lru's",
                 known("gaps learnt before, 10 times as long", kAgentToday, &AgentFigures::turns), 1.7, "x",
                 "paired seeds");
  for (const AgentSetup& chat : plan.chats) {
    const std::optional<Interval> r = AgentRatioOf(study, chat, ChatSystems()[1], kAgentToday, &AgentFigures::p95);
    claims.AtMost(AgentLoadText(chat) + ": p95 of today's", r ? std::optional(r->mean) : std::nullopt, 1.01, "x",
                  "one trace");
  }
  return claims.Take();
}

// A paper's claim for its system, compared with the nearest system here.
struct PaperClaim {
  std::string paper, claim, here;
  std::optional<double> ours = {};  // none: this scenario cannot judge it, or a run is incomplete
  double bound = 0;
  bool most = false;  // `bound`: the largest permitted value
  std::string why;

  std::string Verdict() const {
    return !ours ? "cannot be judged" : (most ? *ours <= bound : *ours >= bound) ? "holds" : "does not";
  }
};

// The papers used other engines, models and loads. A claim that fails here is not refuted.
std::vector<PaperClaim> AgentPaperClaims(const AgentStudy& study, const AgentPlan& plan) {
  const AgentSetup high{.kv_tokens = 1'500'000, .rate = 0.004}, over{.kv_tokens = 1'500'000, .rate = 0.006};
  const AgentSetup cliff{.kv_tokens = plan.victim_tokens.front(), .rate = plan.victim_rate};
  const AgentSetup loop{.kv_tokens = kLoopTokens, .loop = 32, .gpus = true};
  const auto ratio = [&](const AgentSetup& load, const AgentSystem& ours, const AgentSystem& other,
                         double AgentFigures::* figure) {
    const std::optional<Interval> r = AgentRatioOf(study, load, ours, other, figure);
    return r ? std::optional(r->mean) : std::nullopt;
  };
  const auto system = [&](const std::string& label) { return SystemOf(GatesAndOrders(), label); };
  const auto victims = [&](const std::string& label) { return SystemOf(VictimOrders(), label); };
  const AgentSystem continuum = system("lease of 2 s, prefix_then_workflow");
  const auto turns = &AgentFigures::turns;
  return {
      {"Continuum", "throughput 1.10 to 3.22 times vLLM's", "turns over lru's at 0.004/s; a lease of 2 s (its code)",
       ratio(high, continuum, kAgentToday, turns), 1.10, false, "the order causes it: gaps outlast a lease of 2 s"},
      {"Continuum", "1.26 times the steps of ThunderAgent", "turns at 0.006/s; half-life 1 s, uncached work first",
       ratio(over, continuum, system("working set, half-life 1 s"), turns), 1.26, false,
       "humans are in the loop here, and not in its benchmarks"},
      {"ThunderAgent", "serving 1.48 to 3.58 times vLLM's",
       "turns over lru's at 0.006/s; half-life 1 s, uncached first",
       ratio(over, system("working set, half-life 1 s"), kAgentToday, turns), 1.48, false,
       "includes the effect of the order: see lru with that order"},
      {"ThunderAgent", "1.2 times llm-d's default (others, on GPUs)",
       "tokens over lru's, 32 at a time; half-life 10 s, fcfs",
       ratio(loop, SystemOf(LoopSystems(), "working set, half-life 10 s, fcfs"), kAgentToday, &AgentFigures::tokens),
       1.2, false, "here no running request is paused, and requests run in order of arrival"},
      {"CacheWise", "completion 3.5 times vLLM's", "turns over lru's at 0.004/s; longest cached prefix first",
       ratio(high, system("lru, no gate, lpm"), kAgentToday, turns), 3.5, false,
       "its order alone, without its victims"},
      {"CacheWise",
       "evictions 2 to 2.6 times fewer",
       "-",
       {},
       0,
       false,
       "needs names of tools, which the recording omits"},
      {"Bailian", "hits 8.1 to 23.9 % above LRU's", "hits over lru's, victims alone, 1M tokens",
       ratio(cliff, victims("wa"), victims("lru"), &AgentFigures::hits), 1.081, false,
       "classes predict little of a session's next gap"},
      {"KVFlow", "1.83 times as fast as HiCache", "-", {}, 0, false, "sessions have no graph of agents"},
      {"KVFlow", "keeps the KV of the agents that run next", "hits over lru's; clairvoyant victims alone, 1M tokens",
       ratio(cliff, victims("belady"), victims("lru"), &AgentFigures::hits), 1.0, false,
       "an upper bound; beyond the cliff it collapses too"},
      {"T-LRU", "p95 of first tokens 23.9 % below LRU's", "p95 over lru's, victims alone, 1M tokens",
       ratio(cliff, victims("tlru"), victims("lru"), &AgentFigures::p95), 0.761, true,
       "its threshold for chat turns trims every turn here"},
      {"CONCUR", "batch throughput up to 4.09 times", "turns over lru's at 0.006/s",
       ratio(over, system("congestion control"), kAgentToday, turns), 1.0, false, "any gain counts as holding"}};
}

Table AgentPaperTable(const std::vector<PaperClaim>& claims) {
  Table table({{"", "paper", false},
               {"", "claims", false},
               {"", "measured here", false},
               {"", "times"},
               {"", "verdict", false},
               {"", "because", false}});
  for (const PaperClaim& claim : claims) {
    table.BeginRow();
    table.Text(claim.paper);
    table.Text(claim.claim);
    table.Text(claim.here);
    table.Text(claim.ours ? Short(*claim.ours) : "-");
    table.Text(claim.Verdict());
    table.Text(claim.why);
  }
  return table;
}

// Published GPU measurements: 4 pods of 2 H100, Qwen3-Coder-30B-A3B fp8, sessions of the same recording, at most 10 s
// between turns (zetxqx/thunderagent-original-verification). Systems: llm-d's default, and a gate that resumes at home.
// Figures: tokens of a pod.
std::vector<PlotPoint> GpuPoints(double AgentFigures::* figure, bool gate) {
  using Points = std::vector<PlotPoint>;
  if (figure == &AgentFigures::hits) {
    return gate ? Points{{24, 0.82}, {32, 0.63}, {48, 0.53}, {84, 0.42}}
                : Points{{16, 0.93}, {24, 0.63}, {32, 0.04}, {48, 0.003}, {84, 0.002}};
  }
  if (figure == &AgentFigures::p50) {
    return gate ? Points{{24, 0.5}, {32, 1.3}, {48, 3}, {84, 4.4}}
                : Points{{16, 0.4}, {24, 0.5}, {32, 8.2}, {48, 36}, {84, 102}};
  }
  if (figure == &AgentFigures::tokens) {
    return gate ? Points{{24, 453}, {32, 393}, {48, 410}, {84, 425}}
                : Points{{16, 489}, {24, 385}, {32, 288}, {48, 266}, {84, 263}};
  }
  return {};
}

ScenarioPlots LoopPlots(const AgentStudy& study, const AgentPlan& plan, bool gpus) {
  ScenarioPlots group{fmt::format("Closed loop: the collapse, on {}", gpus ? kGpuProfile : kAgentProfile), {}};
  for (const auto& figure :
       Only(kAgentFigures, {&AgentFigures::hits, gpus ? &AgentFigures::tokens : &AgentFigures::turns,
                            &AgentFigures::p50, &AgentFigures::p95})) {
    const bool hits = figure.member == &AgentFigures::hits;
    Plot plot{.title = figure.Text(),
              .x_label = "sessions at a time on a pod",
              .y_label = figure.Text(),
              .x_scale = Scale::kFit,
              .y_scale = hits ? Scale::kLinear : Scale::kAuto,
              .y_most = hits ? 1.0 : 0.0,
              .marks = true,
              .lines = {}};
    std::size_t style = 0;
    for (const AgentSystem& system : LoopSystems()) {
      plot.lines.push_back(LineOf(system.label, style++, figure.member, plan.loops, [&](std::int64_t loop) {
        return study.Find({.system = system, .kv_tokens = kLoopTokens, .loop = loop, .gpus = gpus});
      }));
    }
    // Dashed, in the colours of the default and of the gate in those runs.
    constexpr std::size_t kBroken = 7;
    const std::string of = gpus ? "measured on GPUs: " : "measured on GPUs, another model: ";
    for (const bool gate : {false, true}) {
      const std::vector<PlotPoint> points = GpuPoints(figure.member, gate);
      if (points.empty()) continue;
      plot.lines.push_back({of + (gate ? "gate, at home" : "llm-d's default"), kBroken + (gate ? 1 : 0), points});
    }
    group.plots.push_back(std::move(plot));
  }
  return group;
}

absl::StatusOr<ScenarioReport> RunAgentsScenario(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<std::string> file = FindData(settings.data, "agents", "coding_sessions.jsonl.gz");
  if (!file.ok()) return file.status();
  WorkloadSource from;
  from.file = *file;
  const absl::StatusOr<Workload> sessions = LoadWorkload(from);
  if (!sessions.ok()) return sessions.status();
  if (sessions->prefix_runs.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: has no sessions with the blocks of their prompts", *file));
  }
  const absl::StatusOr<Profile> profile = FindProfile(kAgentProfile), gpus = FindProfile(kGpuProfile);
  if (!profile.ok()) return profile.status();
  if (!gpus.ok()) return gpus.status();
  Workload one_class = *sessions;
  for (WorkloadCall& call : one_class.calls) call.then = TurnEnd::kUnknown;

  const AgentPlan plan;
  AgentStudy study(settings.Seeds(3, 10));
  const auto add = [&](const std::vector<AgentSystem>& systems, const std::vector<AgentSetup>& loads) {
    for (AgentSetup setup : loads) {
      for (const AgentSystem& system : systems) setup.system = system, study.Add(setup);
    }
  };
  add(VictimOrders(), VictimLoads(plan));
  add(GatesAndOrders(), GateLoads(plan));
  for (const bool on_gpus : {false, true}) add(LoopSystems(), Loops(plan, on_gpus));
  add(AgentPlacements(), {plan.fleet});
  add(Knowing(), {plan.known});
  add(TodayAndTakts(), plan.tiers);
  Workload chat;
  const absl::StatusOr<std::string> trace = FindData(settings.data, "traces", "mooncake_fast25_conversation.jsonl.gz");
  const bool chats = trace.ok() && *trace != *file;  // chat is skipped if its trace is missing
  if (chats) {
    from.file = *trace;
    absl::StatusOr<Workload> read = LoadWorkload(from);
    if (!read.ok()) return read.status();
    chat = *std::move(read);
    add(ChatSystems(), plan.chats);
  }
  absl::Status run =
      RunAgents(*sessions, one_class, chat, *profile, *gpus, settings.minutes, settings.threads, bar, study);
  if (!run.ok()) return run;

  ScenarioReport report;
  report.title = "Agents: which KV stays cached, which turns are admitted, who goes first";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.conditions = {
      {"Sessions", fmt::format("{}: {} sessions, {} turns", file->substr(file->rfind('/') + 1),
                               sessions->workflows.size(), sessions->calls.size())},
      {"Engine", fmt::format("{}; a step: 4,096 tokens, of one prompt 2,048 (chosen)", kAgentProfile)},
      {"GPUs'", fmt::format("{}: scaled from Llama-3.1-70B's; attention's part of prefill fitted to 84 sessions under "
                            "the default in published GPU runs",
                            kGpuProfile)},
      {"Open loop", "sessions begin at random, each once; gaps as recorded; figures exclude the first quarter"},
      {"Closed",
       "a fixed number of sessions at a time, 2.24M tokens of KV, gaps of 10 s at most, 20 of 30 minutes counted"},
      {"Known",
       "the kind of each turn's end (a tool, a user, over), at its end; no lengths; the clairvoyants: the next turn"},
      {"TTFT", "over all turns that arrived: a turn that still waits at the end counts with its wait so far"},
      {"Chosen", "on these sessions: kappa of the price gate (0.3), and the prior of return times"}};
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete()) report.rows.push_back(AgentRowOf(study[c]));
  }
  report.tables.push_back({"Victims alone: fcfs, no gate", AgentTable(study, VictimOrders(), VictimLoads(plan))});
  report.tables.push_back({"Gates and orders", AgentTable(study, GatesAndOrders(), GateLoads(plan))});
  report.tables.push_back({"Closed loop", AgentTable(study, LoopSystems(), Loops(plan))});
  report.tables.push_back({"Closed loop on the GPUs' engine", AgentTable(study, LoopSystems(), Loops(plan, true))});
  report.tables.push_back({"Placements on 4 instances", AgentTable(study, AgentPlacements(), {plan.fleet})});
  report.tables.push_back({"Knowledge of gaps", AgentTable(study, Knowing(), {plan.known})});
  report.tables.push_back({"A tier in the host's memory", AgentTable(study, TodayAndTakts(), plan.tiers)});
  if (chats) report.tables.push_back({"Chat", AgentTable(study, ChatSystems(), plan.chats)});
  report.plots = {LoopPlots(study, plan, false), LoopPlots(study, plan, true)};
  const std::vector<PaperClaim> papers = AgentPaperClaims(study, plan);
  report.tables.insert(report.tables.begin(), {"Papers' claims for their systems", AgentPaperTable(papers)});
  for (const PaperClaim& claim : papers) {
    report.rows.push_back({{"paper", claim.paper},
                           {"claim", claim.claim},
                           {"here", claim.here},
                           {"verdict", claim.Verdict()},
                           {"because", claim.why}});
    if (claim.ours) report.rows.back().emplace_back("times", *claim.ours);
  }
  report.claims = AgentClaimsOf(study, plan);
  run = AddTrouble(*sessions, chats ? &chat : nullptr, *profile, settings, study.seed_range(), bar, report);
  if (!run.ok()) return run;
  report.claims_heading = "Goals";
  report.claimed_by = "wish";
  return report;
}

}  // namespace

Scenario AgentsScenario() {
  return {"agents", "coding agents whose prompts are cached: retention, gates and orders, and the collapse without",
          RunAgentsScenario};
}

}  // namespace takt::tool
