// The default order with its constants halved and doubled, and in environments other than one GPU.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/claim.h"
#include "lab/default/systems.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/model/engine_pace.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"

namespace takt::tool {
namespace {

struct Constant {
  std::string name, value;
  DefaultSystem halved, doubled;
};

// The simulator reports the engine's pace to the default, which replaces the options' own values.
double AsRun(const std::string& option, double value, const Profile& profile) {
  constexpr std::int64_t kBatch = 32, kContext = 1024, kChunk = 512;  // as Replay sets them
  const StepPace pace = StepPace::From(profile.cost, kBatch, kContext, kChunk);
  if (option == "step_s") return pace.step_s;
  if (option == "prefill_s") return pace.prefill_s;
  if (option == "sequence_s") return pace.sequence_s;
  if (option == "context_s") return pace.context_s;
  return value;
}

// Every numeric option of the default except zeros; for a factor, its excess over 1; for a quantile, its distance to 1.
std::vector<Constant> Constants(const Profile& profile) {
  std::vector<Constant> all;
  const DefaultSystem ours = defaults::Ours();
  for (const PolicyInfo& info : PolicyInfos()) {
    if (info.name != ours.policy) continue;
    for (const PolicyInfo::Option& option : info.options) {
      double value = 0;
      const char* end = option.default_value.data() + option.default_value.size();
      const auto [stop, error] = std::from_chars(option.default_value.data(), end, value);
      if (error != std::errc() || stop != end || value == 0) continue;
      value = AsRun(option.name, value, profile);
      const auto with = [&](double times) {
        DefaultSystem system = ours;
        system.label = fmt::format("{} x {:g}", option.name, times);
        const bool from_one = option.unit == "x" || option.name == "quantile";
        const double changed = from_one ? 1 + (value - 1) * times : value * times;
        system.policy = fmt::format("{}({}={:.6g})", ours.policy, option.name, changed);
        return system;
      };
      all.push_back({option.name, fmt::format("{:.3g}", value), with(0.5), with(2)});
    }
  }
  return all;
}

std::vector<std::string> Placements() {
  std::vector<std::string> all;
  for (const PlacementInfo& info : PlacementInfos()) {
    if (MakePlacement(info.name).ok()) all.push_back(info.name);
  }
  return all;
}

constexpr std::int32_t kInstances = 4;
constexpr Served kPlaced[] = {Served::kAgents, Served::kMix};
constexpr Served kGreedy[] = {Served::kGreedyShort, Served::kGreedyAlike};
constexpr double kGreedyLoad = 1.2;  // sum over all tenants; the polite ones ask for half of it

DefaultSystem FairShare() { return {.label = "fair_share", .policy = "fair_share", .asks = false}; }

class Sensitivity {
 public:
  Sensitivity(DefaultStudy& study, const DefaultPlan& plan)
      : study_(study), plan_(plan), constants_(Constants(study.profile())) {
    for (const Served s : kDefaultServed) {
      Add({s, plan.load, defaults::Ours(), plan.usual});
      for (const Constant& c : constants_) {
        Add({s, plan.load, c.halved, plan.usual});
        Add({s, plan.load, c.doubled, plan.usual});
      }
    }
    for (const Served s : kPlaced) {
      for (const std::string& placement : placements_) {
        for (const DefaultSystem& system : {defaults::Ours(), defaults::WorkflowFcfs()}) {
          Add(Placed(s, placement, system));
        }
      }
    }
    for (const double load : plan.claimed_loads) {
      for (const DefaultSystem& system : Chatters()) Add({Served::kChats, load, system, plan.usual});
    }
    for (const Served s : kGreedy) {
      for (const DefaultSystem& system : {defaults::Ours(), defaults::Fcfs(), FairShare()}) {
        Add({s, kGreedyLoad, system, plan.usual});
      }
    }
  }

  std::vector<ScenarioTable> Tables() const {
    return {{fmt::format("Constants halved and doubled, rho {:g}: mean/p99 over the default's", plan_.load),
             ConstantTable()},
            {fmt::format("{} instances, rho {:g}: the default over workflow_fcfs with the same placement", kInstances,
                         plan_.load),
             PlacementTable()},
            {"Conversations whose prompts share beginnings, with a prefix cache: the default over others", ChatTable()},
            {fmt::format("Nine polite tenants and a greedy one with as much load as all of them, rho {:g}: "
                         "latencies of the polite in s",
                         kGreedyLoad),
             GreedyTable()}};
  }

  std::vector<ScenarioRow> Rows() const {
    std::vector<ScenarioRow> rows;
    for (std::size_t c = 0; c < study_.size(); ++c) {
      const DefaultCell& cell = study_[c];
      if (!cell.complete()) continue;
      const DefaultSetup& s = cell.setup;
      rows.push_back({{"part", std::string("sensitivity")},
                      {"workload", std::string(Name(s.served))},
                      {"rho", s.load},
                      {"system", s.system.label},
                      {"policy", s.system.policy},
                      {"estimates", s.estimates.ToString()},
                      {"instances", static_cast<std::int64_t>(s.instances)},
                      {"placement", s.instances > 1 ? s.placement : std::string("none")},
                      {"seeds", static_cast<std::int64_t>(cell.seeds.size())},
                      {"latency_mean_s", cell.Mean(&DefaultFigures::mean)},
                      {"latency_p95_s", cell.Mean(&DefaultFigures::p95)},
                      {"latency_p99_s", cell.Mean(&DefaultFigures::p99)},
                      {"latency_max_s", cell.Mean(&DefaultFigures::max)},
                      {"others_mean_s", cell.Mean(&DefaultFigures::others)},
                      {"others_p99_s", cell.Mean(&DefaultFigures::others_p99)}});
    }
    return rows;
  }

  std::vector<ScenarioClaim> All() {
    for (const Constant& c : constants_) {
      Moves(c.name, c.halved, "halved");
      Moves(c.name, c.doubled, "doubled");
    }
    for (const Served s : kPlaced) {
      for (const std::string& placement : placements_) {
        AtMost(fmt::format("{}, {} instances, {}: mean of the default over that of workflow_fcfs", Name(s), kInstances,
                           placement),
               Placed(s, placement, defaults::Ours()), Placed(s, placement, defaults::WorkflowFcfs()),
               &DefaultFigures::mean, 1.0);
      }
    }
    for (const double load : plan_.claimed_loads) {
      for (const auto& [name, figure, target] :
           {std::tuple{"mean", &DefaultFigures::mean, 1.0}, std::tuple{"p99", &DefaultFigures::p99, 1.1}}) {
        AtMost(fmt::format("chats with a prefix cache, rho {:g}: {} of the default over that of fcfs", load, name),
               {Served::kChats, load, defaults::Ours(), plan_.usual},
               {Served::kChats, load, defaults::Fcfs(), plan_.usual}, figure, target);
      }
    }
    for (const Served s : kGreedy) {
      for (const auto& [name, figure] :
           {std::pair{"mean", &DefaultFigures::others}, std::pair{"p99", &DefaultFigures::others_p99}}) {
        AtMost(fmt::format("{}: {} of the polite under the default over that under fcfs", Name(s), name),
               {s, kGreedyLoad, defaults::Ours(), plan_.usual}, {s, kGreedyLoad, defaults::Fcfs(), plan_.usual}, figure,
               1.1);
      }
    }
    return claims_.Take();
  }

 private:
  void Add(const DefaultSetup& setup) { study_.AddRun(setup); }

  DefaultSetup Placed(Served s, const std::string& placement, const DefaultSystem& system) const {
    return {s, plan_.load, system, plan_.usual, kInstances, placement};
  }
  static std::vector<DefaultSystem> Chatters() {
    return {defaults::Ours(), defaults::Fcfs(), defaults::Stjf(), defaults::Mean()};
  }

  std::string Over(const DefaultSetup& ours, const DefaultSetup& other, DefaultFigure figure) const {
    const std::optional<Reduction> r = study_.Compare(ours, other, figure);
    return r ? fmt::format("{:.2f}", 1 - r->mean / 100) : "-";
  }

  Table ConstantTable() const {
    std::vector<Table::Column> columns = {{"", "constant", false}, {"", "default"}, {"", "times"}};
    for (const Served s : kDefaultServed) {
      if (study_.has(s)) columns.push_back({"", std::string(Name(s))});
    }
    Table table(std::move(columns));
    for (const Constant& c : constants_) {
      for (const auto& [times, system] : {std::pair{"0.5", &c.halved}, std::pair{"2", &c.doubled}}) {
        table.BeginRow();
        table.Text(c.name);
        table.Text(c.value);
        table.Text(times);
        for (const Served s : kDefaultServed) {
          if (!study_.has(s)) continue;
          const DefaultSetup with = {s, plan_.load, *system, plan_.usual};
          const DefaultSetup as_is = {s, plan_.load, defaults::Ours(), plan_.usual};
          table.Text(Over(with, as_is, &DefaultFigures::mean) + "/" + Over(with, as_is, &DefaultFigures::p99));
        }
      }
    }
    return table;
  }

  Table PlacementTable() const {
    Table table(
        {{"", "workload", false}, {"", "placement", false}, {"", "mean"}, {"", "p95"}, {"", "p99"}, {"", "max"}});
    for (const Served s : kPlaced) {
      table.BeginSection();
      for (const std::string& placement : placements_) {
        table.BeginRow();
        table.Text(std::string(Name(s)));
        table.Text(placement);
        for (const DefaultFigure figure :
             {&DefaultFigures::mean, &DefaultFigures::p95, &DefaultFigures::p99, &DefaultFigures::max}) {
          table.Text(
              Over(Placed(s, placement, defaults::Ours()), Placed(s, placement, defaults::WorkflowFcfs()), figure));
        }
      }
    }
    return table;
  }

  Table ChatTable() const {
    Table table({{"", "rho"}, {"", "over", false}, {"", "mean"}, {"", "p95"}, {"", "p99"}, {"", "mean TTFT"}});
    for (const double load : plan_.claimed_loads) {
      table.BeginSection();
      for (const DefaultSystem& other : Chatters()) {
        if (other == defaults::Ours()) continue;
        table.BeginRow();
        table.Text(fmt::format("{:g}", load));
        table.Text(other.label);
        for (const DefaultFigure figure :
             {&DefaultFigures::mean, &DefaultFigures::p95, &DefaultFigures::p99, &DefaultFigures::ttft}) {
          table.Text(Over({Served::kChats, load, defaults::Ours(), plan_.usual},
                          {Served::kChats, load, other, plan_.usual}, figure));
        }
      }
    }
    return table;
  }

  Table GreedyTable() const {
    Table table({{"", "workload", false}, {"", "order", false}, {"", "mean"}, {"", "p99"}, {"", "all: mean"}});
    for (const Served s : kGreedy) {
      table.BeginSection();
      for (const DefaultSystem& system : {defaults::Ours(), defaults::Fcfs(), FairShare()}) {
        const DefaultCell* cell = study_.FindRun({s, kGreedyLoad, system, plan_.usual});
        if (cell == nullptr) continue;
        table.BeginRow();
        table.Text(std::string(Name(s)));
        table.Text(system.label);
        for (const DefaultFigure figure :
             {&DefaultFigures::others, &DefaultFigures::others_p99, &DefaultFigures::mean}) {
          table.Number(cell->Mean(figure));
        }
      }
    }
    return table;
  }

  void AtMost(const std::string& name, const DefaultSetup& ours, const DefaultSetup& other, DefaultFigure figure,
              double target) {
    const std::optional<Reduction> r = study_.Compare(ours, other, figure);
    if (!r) {
      return claims_.Lacking(name, {{}, target}, "x", study_.has(ours.served) ? kNotRun : "no data");
    }
    const Interval ratio = {1 - r->mean / 100, 1 - r->high / 100, 1 - r->low / 100};
    claims_.Add(name, ratio, {{}, target}, "x", ratio.high <= target,
                fmt::format("[{:.3f}, {:.3f}]", ratio.low, ratio.high), ratio.high);
  }

  // The largest effect of a constant on mean and p99, over all workloads.
  void Moves(const std::string& constant, const DefaultSystem& changed, const char* how) {
    double most = 0;
    std::string where;
    bool any = false;
    for (const Served s : kDefaultServed) {
      for (const auto& [name, figure] :
           {std::pair{"mean", &DefaultFigures::mean}, std::pair{"p99", &DefaultFigures::p99}}) {
        const std::optional<Reduction> r = study_.Compare({s, plan_.load, changed, plan_.usual},
                                                          {s, plan_.load, defaults::Ours(), plan_.usual}, figure);
        if (!r) continue;
        any = true;
        if (std::abs(r->mean) < most) continue;
        most = std::abs(r->mean);
        where = fmt::format("{} of {}: {:+.1f} %", name, Name(s), -r->mean);
      }
    }
    const std::string name = fmt::format("{} {}: mean and p99 move by at most, rho {:g}", constant, how, plan_.load);
    constexpr double kTarget = 10;
    claims_.AtMost(name, any ? std::optional(most) : std::nullopt, kTarget, "%", any ? where : kNotRun);
  }

  DefaultStudy& study_;
  const DefaultPlan& plan_;
  std::vector<Constant> constants_;
  std::vector<std::string> placements_ = Placements();
  Claims claims_;
};

absl::StatusOr<ScenarioReport> RunSensitivity(const StudySettings& settings, ProgressBar& bar) {
  DefaultPlan plan;
  if (settings.full) plan.minutes = 30;
  if (settings.minutes > 0) plan.minutes = settings.minutes;
  DefaultStudy study(settings.data, plan.minutes, settings.Seeds(6, 12));
  Sensitivity sensitivity(study, plan);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "The default with other constants and in other surroundings";
  report.conditions = {
      {"Engine", std::string(kDefaultProfile)},
      {"Workloads", fmt::format("those of scenario default, {:g} minutes of arrivals at capacity", study.minutes())},
      {"Known", plan.usual.ToString()},
      {"Runs", fmt::format("{} paired seeds from {} on; 95 % intervals", study.seeds(), study.seed_range().first)}};
  if (!study.missing().empty()) {
    report.conditions.push_back({"Left out", fmt::format("missing data: {}", fmt::join(study.missing(), ", "))});
  }
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.claims_heading = "Claims";
  report.claimed_by = "target";
  report.rows = sensitivity.Rows();
  report.tables = sensitivity.Tables();
  report.claims = sensitivity.All();
  return report;
}

}  // namespace

Scenario DefaultSensitivityScenario() {
  return {"default-sensitivity", "the default order with its constants halved and doubled, and in other surroundings",
          RunSensitivity, true};
}

}  // namespace takt::tool
