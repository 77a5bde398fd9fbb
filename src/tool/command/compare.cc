// takt compare: compares measured runs with predicted runs, or with measurements of another day.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/report/table.h"
#include "fmt/format.h"
#include "workload/json_members.h"

namespace takt::tool {
namespace {

struct CompareArguments {
  std::vector<std::string> measured, predicted;  // files
  double tie = 2;  // %
};

struct Latency {
  double mean = 0, p95 = 0;  // [s]
};

// One run of a report by takt replay, or by a host that writes the same format.
struct ReportedRun {
  std::string place;  // file and run, for messages
  std::string workload;  // its source
  std::string policy;
  double rate_scale = 1;
  std::int64_t requests = 0, completed = 0, workflows = 0;
  Latency e2e, ttft, tpot, workflow;  // tpot: 0 if the report lacks it

  bool SameLoad(const ReportedRun& other) const {
    return workload == other.workload && requests == other.requests && rate_scale == other.rate_scale;
  }
};

// Reads runs from reports. Keeps the first fault.
class ReportReader {
 public:
  explicit ReportReader(absl::Status& fault) : fault_(fault) {}

  void Read(const std::string& path, std::vector<ReportedRun>& runs) {
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return fault_.Update(text.status());
    const Json json = Json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array() || !json.contains("workload")) {
      return fault_.Update(absl::InvalidArgumentError(path + ": is invalid; expected a report by takt replay --json"));
    }
    Members workload(json["workload"], path + ": workload", fault_);
    const std::string source(workload.Text("source"));
    for (std::size_t i = 0; i < json["runs"].size() && fault_.ok(); ++i) {
      ReportedRun& run = runs.emplace_back();
      run.place = fmt::format("{}: runs[{}]", path, i);
      run.workload = source;
      ReadRun(json["runs"][i], run);
    }
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 53;

  void ReadRun(const Json& json, ReportedRun& run) {
    Members members(json, run.place, fault_);
    run.policy = members.Text("policy");
    if (members.Find("rate_scale") != nullptr) run.rate_scale = Number(members, json, "rate_scale");
    run.requests = members.Whole("requests", 0, kMost);
    run.completed = members.Whole("completed", 0, kMost);
    run.workflows = members.Whole("workflows", 0, kMost);
    const Json* metrics = members.Find("metrics");
    if (metrics == nullptr) return members.Fault("metrics", "is missing");
    run.e2e = ReadLatency(*metrics, run.place, "e2e_s");
    run.ttft = ReadLatency(*metrics, run.place, "ttft_s");
    if (metrics->is_object() && metrics->contains("tpot_s")) run.tpot = ReadLatency(*metrics, run.place, "tpot_s");
    run.workflow = ReadLatency(*metrics, run.place, "workflow_s");
  }

  Latency ReadLatency(const Json& metrics, const std::string& place, const char* key) {
    Members members(metrics, place + ".metrics", fault_);
    const Json* summary = members.Find(key);
    if (summary == nullptr) return members.Fault(key, "is missing"), Latency{};
    Members values(*summary, place + ".metrics." + key, fault_);
    return {Number(values, *summary, "mean"), Number(values, *summary, "p95")};
  }

  double Number(Members& members, const Json& json, const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number()) {
      return members.Fault(key, "is invalid; expected a number"), 0.0;
    }
    return json[key].get<double>();
  }

  absl::Status& fault_;
};

struct Pair {
  ReportedRun measured, predicted;
};

absl::StatusOr<std::vector<Pair>> ReadPairs(const CompareArguments& arguments) {
  absl::Status fault;
  ReportReader reader(fault);
  std::vector<ReportedRun> measured, predicted;
  for (const std::string& path : arguments.measured) reader.Read(path, measured);
  for (const std::string& path : arguments.predicted) reader.Read(path, predicted);
  if (!fault.ok()) return fault;
  if (measured.size() != predicted.size() || measured.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} measured, but {} runs predicted; expected the same number",
                                                  Counted(std::ssize(measured), "run"), predicted.size()));
  }
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const ReportedRun &m = measured[i], &p = predicted[i];
    if (m.policy != p.policy || !m.SameLoad(p)) {
      const auto shown = [](const ReportedRun& r) {
        return fmt::format("{} ({} under {} at rate {})", r.place, Counted(r.requests, "request"), r.policy,
                           r.rate_scale);
      };
      return absl::InvalidArgumentError(
          fmt::format("{} is paired with a run of another policy or load: {}", shown(m), shown(p)));
    }
    pairs.push_back({m, p});
  }
  return pairs;
}

double Off(double measured, double predicted) {
  return measured > 0 ? 100 * (predicted / measured - 1) : Table::kNoNumber;
}

// Runs of one load. Policies are ranked within a section.
using Section = std::vector<Pair>;

std::vector<Section> Sections(const std::vector<Pair>& pairs) {
  std::vector<Section> sections;
  for (const Pair& pair : pairs) {
    if (sections.empty() || !sections.back().front().measured.SameLoad(pair.measured)) sections.emplace_back();
    sections.back().push_back(pair);
  }
  return sections;
}

bool MultiStage(const Pair& pair) { return pair.measured.workflows < pair.measured.requests; }

Table ErrorsOf(const std::vector<Section>& sections) {
  std::vector<Table::Column> columns = {{"", "workload", false}, {"", "rate"}, {"", "policy", false}};
  const auto add = [&](const std::string& group) {
    for (const char* name : {"measured", "predicted", "off %"}) columns.push_back({group, name});
  };
  for (const char* group : {"mean request [s]", "p95 request [s]", "mean workflow [s]"}) add(group);
  for (const char* group : {"first token, off %", "later tokens, off %"}) {
    for (const char* name : {"mean", "p95"}) columns.push_back({group, name});
  }
  Table table(std::move(columns));
  for (const Section& section : sections) {
    table.BeginSection();
    for (const auto& [m, p] : section) {
      table.BeginRow();
      table.Text(m.workload.substr(m.workload.rfind('/') + 1));
      table.Number(m.rate_scale);
      table.Text(m.policy);
      const auto numbers = [&](double measured, double predicted) {
        for (const double number : {measured, predicted, Off(measured, predicted)}) table.Number(number);
      };
      numbers(m.e2e.mean, p.e2e.mean);
      numbers(m.e2e.p95, p.e2e.p95);
      if (m.workflows < m.requests) numbers(m.workflow.mean, p.workflow.mean);
      else numbers(Table::kNoNumber, Table::kNoNumber);
      for (Latency ReportedRun::* latency : {&ReportedRun::ttft, &ReportedRun::tpot}) {
        table.Number(Off((m.*latency).mean, (p.*latency).mean));
        table.Number(Off((m.*latency).p95, (p.*latency).p95));
      }
    }
  }
  return table;
}

// Returns the mean latency that ranks a policy.
double LatencyOf(const ReportedRun& run, bool multi_stage) { return multi_stage ? run.workflow.mean : run.e2e.mean; }

// Lists pairs of policies that the prediction ranks in the wrong order. Pairs at most `tie` % apart do not count.
std::string Ranking(Section section, double tie) {
  const bool multi_stage = MultiStage(section.front());
  std::ranges::stable_sort(section, {}, [&](const Pair& p) { return LatencyOf(p.measured, multi_stage); });
  std::string order, wrong;
  double before = 0;
  for (const Pair& pair : section) {
    const double latency = LatencyOf(pair.measured, multi_stage);
    if (!order.empty()) order += latency <= before * (1 + tie / 100) ? " = " : " < ";
    order += pair.measured.policy;
    before = latency;
  }
  for (std::size_t i = 0; i < section.size(); ++i) {
    for (std::size_t j = i + 1; j < section.size(); ++j) {
      const double apart =
          Off(LatencyOf(section[i].measured, multi_stage), LatencyOf(section[j].measured, multi_stage));
      const double predicted =
          Off(LatencyOf(section[i].predicted, multi_stage), LatencyOf(section[j].predicted, multi_stage));
      if (apart <= tie || predicted > 0) continue;
      wrong +=
          fmt::format("{0}{1} slower than {2}, but {2} was {3:.1f} % slower", wrong.empty() ? "; predicted " : ", ",
                      section[i].measured.policy, section[j].measured.policy, apart);
    }
  }
  const ReportedRun& run = section.front().measured;
  return fmt::format("  {} at rate {}, by mean {} latency: {}{}\n", run.workload.substr(run.workload.rfind('/') + 1),
                     run.rate_scale, multi_stage ? "workflow" : "request", order,
                     wrong.empty() ? ", as predicted" : wrong);
}

std::string Text(const std::vector<Pair>& pairs, double tie) {
  const std::vector<Section> sections = Sections(pairs);
  std::string text = ErrorsOf(sections).ToString();
  double mean = 0, p95 = 0;
  for (const auto& [m, p] : pairs) {
    mean = std::max(mean, std::abs(Off(m.e2e.mean, p.e2e.mean)));
    p95 = std::max(p95, std::abs(Off(m.e2e.p95, p.e2e.p95)));
    if (m.completed != p.completed) {
      text +=
          fmt::format("{}: {} completed, but {} predicted\n", m.place, Counted(m.completed, "request"), p.completed);
    }
  }
  text += fmt::format("\nLargest error of request latency: {:.1f} % in the mean, {:.1f} % at p95.\n", mean, p95);
  bool ranked = false;
  for (const Section& section : sections) {
    if (section.size() < 2) continue;
    if (!ranked) text += fmt::format("Policies from fast to slow (=: at most {} % apart):\n", tie);
    ranked = true;
    text += Ranking(section, tie);
  }
  return text;
}

int RunCompare(const CompareArguments& arguments) {
  std::vector<NamedPath> inputs;
  for (const std::string& path : arguments.measured) inputs.push_back({"--measured", path});
  for (const std::string& path : arguments.predicted) inputs.push_back({"--predicted", path});
  if (absl::Status usage = CheckPaths(inputs, {}); !usage.ok()) return Complain("compare", usage, kUsage);
  const absl::StatusOr<std::vector<Pair>> pairs = ReadPairs(arguments);
  if (!pairs.ok()) return Complain("compare", pairs.status(), kFailed);
  return Print("compare", Text(*pairs, arguments.tie));
}

}  // namespace

void AddCompare(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "compare", "compare an engine's reports with the simulator's reports of the same runs", RunCompare,
      "Reports come from takt replay --json, or from a host such as tiny_engine. Runs are paired in "
      "the\n"
      "order of the files. Each workload and rate has its own ranking of policies.\n\nExample\n"
      "  takt compare --measured engine.json --predicted simulator.json");
  Group options(app, "Options");
  options.Add("--measured", to.measured, "FILE", "read the measured reports from one or more files").Required();
  options.Add("--predicted", to.predicted, "FILE", "read predicted reports of the same runs in the same order")
      .Required();
  options.Add("--tie", to.tie, "PCT", "treat policies at most PCT % apart as equal", Share(100));
}

}  // namespace takt::tool
