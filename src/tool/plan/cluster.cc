// takt cluster: plans replicas and routings on classes of GPUs by an integer program.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/plan/cluster_input.h"
#include "tool/command/commands.h"
#include "takt/planning/milp.h"
#include "tool/run/exit_code.h"
#include "tool/report/json_writer.h"
#include "tool/run/output.h"
#include "tool/report/table.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct ClusterArguments {
  std::string file;
  std::string solver;  // empty: the first built-in solver
  double seconds = 60;
  double gap = 1e-6;
  bool patterns = false;
  std::string mps, json;
  bool quiet = false;
};

constexpr const char* kClusterExamples =
    R"(The file: {"quality": 80, "budget": 100,
 "models": [{"name": "8b"}, {"name": "70b", "min_replicas": 2}],
 "classes": [{"name": "h100", "price": 2.67, "servers": [{"servers": 4, "gpus": 8}]}],
 "replicas": [{"name": "8b tp1", "model": "8b", "class": "h100", "tp": 1, "rate": 5}, ...],
 "routings": [{"name": "74", "rates": [30, 12], "quality": 84}, ...]}. docs/howto/milp.md lists all fields.

Examples
  takt cluster cluster.json
  takt cluster cluster.json --mps cluster.mps && glpsol --freemps cluster.mps

Exit code: 0 a plan (perhaps not optimal, then with a note), 1 failed or no plan (with the missing amounts),
2 wrong usage, 130 interrupted (the best plan so far was reported).)";

constexpr std::string_view kCluster = "cluster";

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// The table counts servers: "3 x tp4 of 8b on 2 servers". This text lists the servers of a type's groups: "0 0 1".
std::string ServersText(const ClusterPlan& plan, int type) {
  std::vector<int> servers;
  for (const PlacedGroup& g : plan.groups) {
    if (g.type == type) servers.push_back(g.server);
  }
  std::ranges::sort(servers);
  std::string text;
  for (std::size_t i = 0; i < servers.size();) {
    const std::size_t same =
        static_cast<std::size_t>(std::ranges::upper_bound(servers, servers[i]) - servers.begin()) - i;
    text += fmt::format("{}{}", text.empty() ? "" : " ", servers[i]);
    if (same > 1) text += fmt::format("(x{})", same);
    i += same;
  }
  return text;
}

std::string ClusterText(const ClusterProblem& problem, const ClusterPlan& plan, bool colour) {
  const bool cost = problem.goal == ClusterGoal::kLeastCost;
  Table table({{"", "replicas", false},
               {"", "class", false},
               {"", "number"},
               {"", "before"},
               {"GPUs", "each"},
               {"GPUs", "all"},
               {"", "1/s"},
               {"", "per hour"},
               {"", "servers", false}});
  for (std::size_t r = 0; r < problem.types.size(); ++r) {
    const ReplicaType& type = problem.types[r];
    const int n = plan.replicas[r];
    if (n == 0 && type.current == 0) continue;
    const GpuClass& gpu_class = problem.classes[At(type.gpu_class)];
    table.BeginRow();
    table.Text(type.name);
    table.Text(gpu_class.name);
    table.Number(n);
    table.Number(type.current);
    table.Number(type.tp * type.pp);
    table.Number(type.tp * type.pp * n);
    table.Number(type.rate * n);
    table.Number(gpu_class.price * type.tp * type.pp * n);
    table.Text(ServersText(plan, static_cast<int>(r)));
  }
  std::string text = table.ToString(colour) + "\nRouting  ";
  bool first = true;
  for (std::size_t j = 0; j < problem.routings.size(); ++j) {
    if (!(plan.routing[j] > 0)) continue;
    text += fmt::format("{}{}", first ? "" : ", ", ShownName(problem.routings[j].name));
    if (plan.routing[j] < 1) text += fmt::format(" ({:.1f} %)", 100 * plan.routing[j]);
    first = false;
  }
  text += fmt::format("; quality {:.4g}\nCost     {:.6g} per hour\n", plan.quality, plan.cost);
  if (plan.factor > 0) text += fmt::format("Sustains {:.4g} times the arrival rates\n", plan.factor);
  if (plan.move_cost > 0) text += fmt::format("Moves    {:.4g}\n", plan.move_cost);
  if (plan.status == MilpStatus::kLimit) {
    const double gap = plan.objective != 0 ? 100 * std::abs(plan.objective - plan.bound) / std::abs(plan.objective) : 0;
    text += fmt::format("A limit ended the search. No plan {} than {:.6g}. This plan has {:.6g} ({:.2g} % apart).\n",
                        cost ? "costs less" : "sustains more", plan.bound, plan.objective, gap);
  } else {
    text += "This plan is optimal.\n";
  }
  return text;
}

std::string ClusterJson(const ClusterProblem& problem, const ClusterPlan& plan) {
  JsonWriter json;
  json.BeginObject().Field("status", Name(plan.status));
  json.Field("goal", problem.goal == ClusterGoal::kLeastCost ? "cost" : "throughput");
  if (!plan.replicas.empty()) {
    json.Field("objective", plan.objective).Field("bound", plan.bound).Field("cost_per_hour", plan.cost);
    json.Field("factor", plan.factor).Field("quality", plan.quality).Field("move_cost", plan.move_cost);
    json.Key("replicas").BeginArray();
    for (std::size_t r = 0; r < problem.types.size(); ++r) {
      json.BeginObject().Field("name", problem.types[r].name).Field("count", plan.replicas[r]).EndObject();
    }
    json.EndArray().Key("routings").BeginArray();
    for (std::size_t j = 0; j < problem.routings.size(); ++j) {
      if (!(plan.routing[j] > 0)) continue;
      json.BeginObject().Field("name", problem.routings[j].name).Field("share", plan.routing[j]).EndObject();
    }
    json.EndArray().Key("groups").BeginArray();
    for (const PlacedGroup& g : plan.groups) {
      json.BeginObject().Field("name", problem.types[At(g.type)].name).Field("replica", g.replica);
      json.Field("stage", g.stage).Field("server", g.server).EndObject();
    }
    json.EndArray();
  }
  json.Key("shortages").BeginArray();
  for (const Shortage& s : plan.shortages) {
    json.BeginObject().Field("limit", Name(s.limit)).Field("name", s.name).Field("missing", s.missing);
    json.Field("alone", s.alone).Field("exact", s.exact).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

absl::Status WriteMps(const ClusterArguments& arguments, const ClusterProblem& problem, ServerModel servers) {
  if (arguments.mps.empty()) return absl::OkStatus();
  const absl::StatusOr<MilpModel> model = MakeClusterModel(problem, servers);
  if (!model.ok()) return model.status();
  absl::StatusOr<OutputFile> file = OutputFile::Open(arguments.mps);
  if (!file.ok()) return file.status();
  file->Write(ToFreeMps(*model));
  return file->Close();
}

int RunCluster(const ClusterArguments& arguments) {
  const NamedPath input{"FILE", arguments.file}, outputs[] = {{"--json", arguments.json}, {"--mps", arguments.mps}};
  if (absl::Status usage = CheckPaths(std::span(&input, 1), outputs); !usage.ok())
    return Complain(kCluster, usage, kUsage);
  const auto fail = [](const absl::Status& status) { return Complain(kCluster, status, kFailed); };
  absl::StatusOr<OutputFile> json = OutputFile::Open(arguments.json);
  if (!json.ok()) return fail(json.status());
  const absl::StatusOr<ClusterProblem> problem = ReadClusterProblem(arguments.file);
  if (!problem.ok()) return fail(problem.status());
  const ServerModel servers = arguments.patterns ? ServerModel::kPatterns : ServerModel::kAuto;
  // The integer program is written first because writing needs no solver.
  if (absl::Status written = WriteMps(arguments, *problem, servers); !written.ok()) return fail(written);
  const absl::StatusOr<std::unique_ptr<const MilpSolver>> solver = MakeMilpSolver(arguments.solver);
  if (!solver.ok()) return fail(solver.status());

  CatchInterrupts();
  const MilpLimits limits{
      .seconds = arguments.seconds, .relative_gap = arguments.gap, .go_on = [] { return !Interrupted(); }};
  const absl::StatusOr<ClusterPlan> plan = PlanCluster(*problem, **solver, limits, servers);
  if (!plan.ok()) return fail(plan.status());
  json->Write(ClusterJson(*problem, *plan));
  if (absl::Status written = json->Close(); !written.ok()) return fail(written);
  if (plan->replicas.empty()) {
    const bool stopped = plan->status == MilpStatus::kLimit;
    const std::string why =
        stopped ? "a limit ended the search before it found a plan" : "there is no plan\n" + Describe(plan->shortages);
    return Complain(kCluster, absl::FailedPreconditionError(why.substr(0, why.find_last_not_of('\n') + 1)),
                    Interrupted() ? kInterrupted : kFailed);
  }
  if (!arguments.quiet) {
    std::FILE* stream = IsStdout(arguments.json) || IsStdout(arguments.mps) ? stderr : stdout;
    const absl::Status shown = ShowText(stream, ClusterText(*problem, *plan, WantsColour(stream)));
    if (!shown.ok()) return fail(shown);
  }
  return Interrupted() ? kInterrupted : kDone;
}

}  // namespace

void AddCluster(CLI::App& tool, Chosen& chosen) {
  std::string solvers;
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    solvers += fmt::format("{}{}{}", solvers.empty() ? "" : ", ", info.name, info.built_in ? "" : " (not built in)");
  }
  const auto [app, to] =
      AddCommand(tool, chosen, "cluster", "plan a cluster with several classes of GPUs by an integer program",
                 RunCluster, kClusterExamples);
  Group problem(app, "Problem");
  problem.Add("file", to.file, "FILE", "read models, classes of GPUs, replicas and routings, or - for standard input")
      .Required();
  problem.AddFlag("--patterns", to.patterns, "always plan each server, even if counting GPUs per class would suffice");
  Group search(app, "Search");
  search.Add("--solver", to.solver, "NAME", ("use this solver: " + solvers + " [the first built-in one]").c_str());
  search.Add("--seconds", to.seconds, "S", "stop after S seconds, and report the best plan and a bound for the optimum",
             Positive());
  search.Add("--gap", to.gap, "SHARE", "accept a plan at most this share worse than the bound for the optimum",
             Share(1));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "write the plan");
  output.Add("--mps", to.mps, "FILE", "write the integer program as free MPS, for any solver");
  output.AddFlag("-q,--quiet", to.quiet, "print no table");
}

}  // namespace takt::tool
