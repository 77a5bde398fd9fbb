#include "takt/workload/validate.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace takt {
namespace {

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

template <class T>
bool Within(std::uint64_t first, std::uint64_t count, const std::vector<T>& all) {
  return first + count <= all.size();
}

bool BoundedTime(Duration d) { return d >= Duration::zero() && d <= kMaxWorkloadTime; }

// Sums the times of a workflow, so that no later sum of them overflows.
struct TimeSum {
  Duration sum{0};

  bool Add(Duration d) {
    if (!BoundedTime(d) || d > Difference(kMaxWorkloadTime, sum)) return false;
    sum = Sum(sum, d);
    return true;
  }
};

absl::Status CheckTools(const Workload& w, const WorkloadCall& call, TimeSum& time) {
  std::int64_t context = std::int64_t{call.prompt_tokens} + call.output_tokens;
  std::int32_t before = 0;
  for (std::uint32_t i = 0; i < call.tools; ++i) {
    const WorkloadTool& tool = w.tools[call.first_tool + i];
    if (tool.after_tokens < 1 || tool.after_tokens >= call.output_tokens) {
      return Invalid(fmt::format("tools[{}].after: {} is invalid; expected 1..{}, inside the output", i,
                                 tool.after_tokens, call.output_tokens - 1));
    }
    if (tool.after_tokens == before) {
      return Invalid(fmt::format("tools[{}].after: two calls after {} tokens; expected one", i, tool.after_tokens));
    }
    if (tool.after_tokens < before)
      return Invalid(fmt::format("tools[{}].after: is invalid; expected ascending order", i));
    before = tool.after_tokens;
    if (tool.returned_tokens < 0)
      return Invalid(fmt::format("tools[{}].returned: {} is negative; expected at least 0", i, tool.returned_tokens));
    if (!time.Add(tool.duration)) return Invalid(fmt::format("tools[{}].duration: is negative or too long", i));
    if (tool.name >= w.names.size())
      return Invalid(fmt::format("tools[{}].name: {} is invalid; expected an index into names", i, tool.name));
    context += tool.returned_tokens;
  }
  if (context <= kMaxContextTokens) return absl::OkStatus();
  return Invalid(fmt::format("a context of {} tokens is too long; expected at most {}", context, kMaxContextTokens));
}

absl::Status CheckPredecessors(const Workload& w, const WorkloadCall& call, std::uint32_t self) {
  std::int64_t before = -1;
  for (const std::uint32_t p : w.predecessors_of(call)) {
    if (p >= self) return Invalid(fmt::format("after: call {} is invalid; expected an earlier call", p));
    if (p <= before) return Invalid("after: is invalid; expected ascending order");
    before = p;
  }
  return absl::OkStatus();
}

// The last block may end beyond the prompt, as with hashes.
absl::Status CheckRuns(const Workload& w, const WorkloadCall& call) {
  if (!Within(call.first_run, call.runs, w.prefix_runs)) return Invalid("blocks: is out of range");
  if (call.runs > 0 && call.hashes > 0) return Invalid("blocks: are invalid with prefix; expected blocks or prefix");
  std::uint64_t blocks = 0;
  for (const PrefixRun& run : w.runs_of(call)) {
    if (run.count < 1) return Invalid("blocks: a run has no block; expected at least 1");
    if (std::uint64_t{run.first} + run.count > std::uint64_t{UINT32_MAX} + 1)
      return Invalid("blocks: ids are out of range; expected below 2^32");
    blocks += run.count;
  }
  const auto block_tokens = static_cast<std::uint64_t>(w.prefix_block_tokens);
  if (blocks == 0 || (blocks - 1) * block_tokens < static_cast<std::uint64_t>(call.prompt_tokens)) {
    return absl::OkStatus();
  }
  return Invalid(fmt::format("blocks: {} of {} tokens are too many for a prompt of {} tokens", blocks, block_tokens,
                             call.prompt_tokens));
}

absl::Status CheckCall(const Workload& w, std::size_t index, std::uint32_t self, TimeSum& time) {
  const WorkloadCall& call = w.calls[index];
  if (call.prompt_tokens < 1)
    return Invalid(fmt::format("prompt_tokens: {} is invalid; expected at least 1", call.prompt_tokens));
  if (call.output_tokens < 1)
    return Invalid(fmt::format("output_tokens: {} is invalid; expected at least 1", call.output_tokens));
  if (call.stage >= w.names.size())
    return Invalid(fmt::format("stage: {} is invalid; expected an index into names", call.stage));
  if (call.agent >= w.names.size())
    return Invalid(fmt::format("agent: {} is invalid; expected an index into names", call.agent));
  if (!Within(call.first_predecessor, call.predecessors, w.predecessors)) return Invalid("after: is out of range");
  if (!Within(call.first_hash, call.hashes, w.prefix_hashes)) return Invalid("prefix: is out of range");
  if (!Within(call.first_tool, call.tools, w.tools)) return Invalid("tools: is out of range");
  // The last block may end beyond the prompt.
  if (call.hashes > 0 && std::int64_t{call.hashes - 1} * w.prefix_block_tokens >= call.prompt_tokens) {
    return Invalid(fmt::format("prefix: {} blocks of {} tokens are too many for a prompt of {} tokens", call.hashes,
                               w.prefix_block_tokens, call.prompt_tokens));
  }
  if (absl::Status s = CheckRuns(w, call); !s.ok()) return s;
  for (std::size_t m = 0; m < w.models.size(); ++m) {
    const std::int32_t tokens = w.OutputOf(index, m);
    if (tokens < 1) return Invalid(fmt::format("outputs[{}]: {} is invalid; expected at least 1", m, tokens));
    // A model's output is part of later prompts.
    if (std::int64_t{call.prompt_tokens} + tokens > kMaxContextTokens) {
      return Invalid(
          fmt::format("outputs[{}]: a context is too long; expected at most {} tokens", m, kMaxContextTokens));
    }
  }
  if (!w.models.empty() && call.tools > 0) return Invalid("tools: are unsupported in a workload with several models");
  for (const float x : w.features_of(index)) {
    if (!std::isfinite(x)) return Invalid("features: are invalid; expected finite numbers");
  }
  if (!time.Add(call.delay)) return Invalid("delay: is negative or too long");
  if (absl::Status s = CheckPredecessors(w, call, self); !s.ok()) return s;
  return CheckTools(w, call, time);
}

}  // namespace

absl::Status ValidateWorkflow(const Workload& workload, std::size_t index) {
  const WorkloadWorkflow& w = workload.workflows[index];
  if (!BoundedTime(w.arrival.time_since_epoch())) return Invalid("arrival: is negative or too late");
  if (w.deadline != Duration::max() && !BoundedTime(w.deadline)) return Invalid("deadline: is negative or too long");
  if (w.name >= workload.names.size())
    return Invalid(fmt::format("class: {} is invalid; expected an index into names", w.name));
  if (w.calls < 1) return Invalid("calls: is empty; expected a call");
  if (!Within(w.first_call, w.calls, workload.calls)) return Invalid("calls: is out of range");
  if (!workload.tenant_names.empty() && w.tenant > workload.tenant_names.size()) {
    return Invalid(fmt::format("tenant: {} is invalid; expected the number of a tenant", w.tenant));
  }
  const std::size_t models = workload.models.size(), end = w.first_call + std::size_t{w.calls};
  if (end * models > workload.model_tokens.size())
    return Invalid("outputs: are incomplete; expected an output per model and call");
  if (end * workload.feature_names.size() > workload.features.size())
    return Invalid("features: are incomplete; expected a number per feature");
  if (models < 32 && w.solved_by >> models != 0)
    return Invalid("solved_by: names an unknown model; expected models of the workload");
  TimeSum time;
  for (std::uint32_t i = 0; i < w.calls; ++i) {
    const WorkloadCall& call = workload.calls[w.first_call + i];
    const absl::Status status = CheckCall(workload, w.first_call + std::size_t{i}, i, time);
    if (status.ok()) continue;
    const std::string stage = call.stage > 0 && call.stage < workload.names.size()
                                  ? fmt::format(" (stage \"{}\")", workload.names[call.stage])
                                  : "";
    return Invalid(fmt::format("calls[{}]{}: {}", i, stage, std::string(status.message())));
  }
  return absl::OkStatus();
}

absl::Status Validate(const Workload& workload) {
  if (workload.names.empty() || !workload.names[0].empty())
    return Invalid("names[0]: is invalid; expected the empty name");
  if (workload.prefix_block_tokens < 1 || workload.prefix_block_tokens > kMaxContextTokens) {
    return Invalid(fmt::format("prefix_block_tokens: {} is out of range", workload.prefix_block_tokens));
  }
  const auto& models = workload.models;
  if (models.size() > kMaxWorkloadModels)
    return Invalid(fmt::format("models: too many; expected at most {}", kMaxWorkloadModels));
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (models[m].empty()) return Invalid(fmt::format("models[{}]: is empty; expected a name", m));
    if (workload.ModelIndex(models[m]) != m)
      return Invalid(fmt::format("models[{}]: is repeated; expected distinct names", m));
  }
  const std::set<std::string_view> tenants(workload.tenant_names.begin(), workload.tenant_names.end());
  if (tenants.contains("") || tenants.size() < workload.tenant_names.size()) {
    return Invalid("tenants: an entry is empty or repeated; expected distinct names");
  }
  if (workload.feature_names.size() > kMaxWorkloadFeatures) {
    return Invalid(fmt::format("features: too many; expected at most {}", kMaxWorkloadFeatures));
  }
  if (workload.model_tokens.size() != models.size() * workload.calls.size()) {
    return Invalid("outputs: are incomplete; expected an output per model and call");
  }
  if (workload.features.size() != workload.feature_names.size() * workload.calls.size()) {
    return Invalid("features: are incomplete; expected a number per feature and call");
  }
  TimePoint before{};
  for (std::size_t i = 0; i < workload.workflows.size(); ++i) {
    if (const absl::Status s = ValidateWorkflow(workload, i); !s.ok()) {
      return Invalid(fmt::format("workflows[{}]: {}", i, std::string(s.message())));
    }
    const TimePoint arrival = workload.workflows[i].arrival;
    if (i == 0 && arrival != TimePoint{})
      return Invalid("workflows[0]: arrival: is invalid; expected 0 for the first arrival");
    if (arrival < before)
      return Invalid(fmt::format("workflows[{}]: arrival: is invalid; expected ascending times", i));
    before = arrival;
  }
  return absl::OkStatus();
}

}  // namespace takt
