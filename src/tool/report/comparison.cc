#include "tool/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <utility>

#include "fmt/format.h"
#include "takt/base/time.h"
#include "takt/numeric/quantile.h"

namespace takt::tool {
namespace {

// Returns the `seconds` of each record that has both times.
template <class Records, class From, class To>
Quantiles QuantilesOf(const Records& records, From from, To to) {
  constexpr std::size_t kSteps = 200;
  std::vector<double> seconds;
  for (const auto& record : records) {
    if (record.outcome == Outcome::kCompleted) seconds.push_back(ToSeconds(record.*to - record.*from));
  }
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  Quantiles quantiles;
  for (std::size_t i = 0; i <= kSteps; ++i) {
    quantiles.push_back(QuantileOfSorted(seconds, static_cast<double>(i) / kSteps));
  }
  return quantiles;
}

std::string PartOf(const Workload& workload, Split split, std::size_t call, std::size_t workflow) {
  const WorkloadWorkflow& w = workload.workflows[workflow];
  switch (split) {
    case Split::kNothing: break;
    case Split::kTenant: return workload.TenantOf(w);
    case Split::kClass: return workload.names[w.name];
    case Split::kAgent: return workload.names[workload.calls[call].agent];
    case Split::kStage: return workload.names[workload.calls[call].stage];
  }
  return "";
}

// A part has no slowdowns, and no KV cache of its own.
void LeaveOutUnmeasured(Metrics& m) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (Summary* s : {&m.slowdown, &m.workflow_slowdown}) {
    s->mean = s->p50 = s->p90 = s->p95 = s->p99 = s->min = s->max = kNone;
  }
  m.slo_scale_95 = m.max_slowdown = m.kv_mean = m.kv_peak = kNone;
}

std::vector<Slice> PartsOf(const Comparison& comparison, const ReplayResult& result) {
  if (comparison.split == Split::kNothing) return {};
  struct Records {
    std::vector<RequestRecord> requests;
    std::vector<WorkflowRecord> workflows;
  };
  const bool whole =
      comparison.split == Split::kTenant || comparison.split == Split::kClass;  // splits of whole workflows
  std::vector<std::string> names;
  std::map<std::string, Records> records;
  std::uint32_t last = 0;
  for (std::size_t call = 0; call < result.requests.size(); ++call) {
    const RequestRecord& request = result.requests[call];
    std::string name = PartOf(comparison.workload, comparison.split, call, request.workflow);
    const auto [at, is_new] = records.try_emplace(name);
    if (is_new) names.push_back(std::move(name));
    Records& part = at->second;
    if (whole && (call == 0 || request.workflow != last)) part.workflows.push_back(result.workflows[request.workflow]);
    last = request.workflow;
    part.requests.push_back(request);
    part.requests.back().workflow = static_cast<std::uint32_t>(part.workflows.size()) - (whole ? 1 : 0);
  }
  const SloTarget slo{FromSeconds(comparison.setup.slo_ttft), FromSeconds(comparison.setup.slo_tpot)};
  std::vector<Slice> parts;
  for (std::string& name : names) {
    const Records& part = records[name];
    parts.push_back({name, Summarize(part.requests, part.workflows, {}, slo, result.window)});
    LeaveOutUnmeasured(parts.back().metrics);
  }
  return parts;
}

// Returns the policy's name in "name", "name(option=value)" or "aged(metered(name,option=value))".
std::string NameIn(std::string_view spec) {
  for (const std::string_view outer : {"aged(", "metered("}) {
    if (spec.starts_with(outer)) spec.remove_prefix(outer.size());
  }
  return std::string(spec.substr(0, spec.find_first_of("(,)")));
}

}  // namespace

double OfferedRps(const Workload& workload) {
  if (workload.workflows.size() < 2) return 0;
  const WorkloadWorkflow& last = workload.workflows.back();
  const double span = ToSeconds(last.arrival - workload.workflows.front().arrival);
  return span > 0 ? static_cast<double>(workload.calls.size() - last.calls) / span : 0;
}

void Keep(const Comparison& comparison, ReplayResult result, bool requests, Run& run) {
  run.ended = true;
  run.stopped = result.stopped;
  run.metrics = result.metrics;
  run.errors = result.estimates;
  run.stats = result.stats;
  run.steps = result.steps;
  run.kv_blocks = result.kv_blocks;
  run.series = std::move(result.series);
  for (const RequestRecord& record : result.requests) {
    if (record.outcome == Outcome::kFailed) ++run.failed[static_cast<std::size_t>(record.reason)];
  }
  run.ttft = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::first_token);
  run.e2e = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::end);
  run.workflow = QuantilesOf(result.workflows, &WorkflowRecord::arrival, &WorkflowRecord::end);
  run.parts = PartsOf(comparison, result);
  if (run.trace) run.trace->Finish(result.requests);
  if (requests) run.requests = std::move(result.requests);
}

std::vector<std::string> WarningsOf(const Comparison& comparison) {
  const Workload& workload = comparison.workload;
  std::vector<std::string> names = {NameIn(comparison.setup.placement)}, warnings;
  for (const Run& run : comparison.runs) {
    if (!run.settings.system) names.push_back(NameIn(run.settings.policy));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) - names.begin() <
        static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    std::string lack;
    if (names[i] == "agent_priority") {
      lack = "ranks of agents, which only --system kairos learns; it ranks requests as workflow_fcfs does";
    } else if (names[i] == "confidence_slack") {
      const bool one_model = std::ranges::all_of(comparison.engines,
                                                 [&](const Profile& e) { return e.model == comparison.profile.model; });
      if (workload.models.empty()) lack = one_model ? "several models and scores" : "scores";
      if (!workload.models.empty() && one_model) lack = "several models";
      if (one_model) lack += "; every instance serves the model of --profile";
    } else if (names[i] == "edf") {
      if (std::ranges::all_of(workload.workflows, [](const auto& w) { return w.deadline == Duration::max(); })) {
        lack = "deadlines in the workload; it ranks requests by arrival";
      }
    } else if (names[i] == "uncached") {
      if (workload.prefix_hashes.empty() && workload.prefix_runs.empty()) {
        lack = "prefixes in the workload; it ranks requests by all their prompt tokens";
      } else if (!comparison.setup.prefix_cache) {
        lack = "a prefix cache (--prefix-cache); it ranks requests by all their prompt tokens";
      }
    }
    if (!lack.empty()) warnings.push_back(fmt::format("{} lacks {}", names[i], lack));
  }
  const ReplaySetup& setup = comparison.setup;
  if (setup.placement != ReplaySetup{}.placement && setup.instances <= 1 && comparison.engines.size() <= 1) {
    warnings.emplace_back("--placement has no effect on one instance; see --instances");
  }
  const auto nameless = [&](std::size_t w) {
    const std::size_t call = workload.workflows[w].first_call;
    for (std::size_t c = call; c < call + workload.workflows[w].calls; ++c) {
      if (!PartOf(workload, comparison.split, c, w).empty()) return false;
    }
    return true;
  };
  if (comparison.split != Split::kNothing &&
      std::ranges::all_of(std::views::iota(std::size_t{0}, workload.workflows.size()), nameless)) {
    const std::string_view by = Name(comparison.split);
    warnings.push_back(fmt::format("--by {0} has no effect, because no request of the workload has a {0}", by));
  }
  if (!setup.retention.empty() && workload.prefix_hashes.empty() && workload.prefix_runs.empty()) {
    warnings.emplace_back("--retention and --gate have no effect without shared prefixes in the workload");
  }
  return warnings;
}

bool HardlyWaits(const Run& run) { return run.metrics.queue.mean <= 0.01 * run.metrics.e2e.mean; }

std::string WarningOfEqualRuns(const Comparison& comparison) {
  constexpr double kSame = 1e-3;
  const Run* other = nullptr;
  const Run& first = comparison.runs.front();
  for (const Run& run : comparison.runs) {
    const double mean = run.metrics.e2e.mean, usual = first.metrics.e2e.mean;
    if (!run.ended || !(usual > 0) || run.settings.load != first.settings.load) return {};
    if (std::abs(mean - usual) > kSame * usual || !HardlyWaits(run)) return {};
    if (run.settings.policy != first.settings.policy) other = &run;
  }
  if (other == nullptr) return {};
  return "hardly a request waited, so all orders have the same mean latency; see --load, --rate-scale and --limit";
}

std::string LabelOf(const Comparison& comparison, const Run& run) {
  const std::string& policy = run.settings.policy;
  return comparison.several_estimates ? fmt::format("{}, {}", policy, run.settings.estimates.ToString()) : policy;
}

}  // namespace takt::tool
