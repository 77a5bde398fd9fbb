// A workload: arrival times and true lengths of requests. Only a host (the simulator or the example engine) may use the
// true lengths; a Request never contains them.
#ifndef TAKT_WORKLOAD_WORKLOAD_H_
#define TAKT_WORKLOAD_WORKLOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "takt/base/random.h"
#include "takt/base/time.h"

namespace takt {

inline constexpr std::int32_t kMaxContextTokens = 1'000'000'000;  // of a call: prompt, output and tool answers
inline constexpr std::size_t kMaxWorkloadModels = 32, kMaxWorkloadFeatures = 64;
// maximum arrival time, and maximum sum of a workflow's delays and tools
inline constexpr Duration kMaxWorkloadTime{1'000'000'000'000'000'000};

// A tool call within an LLM call.
struct WorkloadTool {
  std::int32_t after_tokens = 0;  // output tokens before the tool call: 1 .. output_tokens - 1
  std::int32_t returned_tokens = 0;  // tokens of the answer, which join the context
  Duration duration{0};
  std::uint32_t name = 0;  // index into Workload::names of the tool's class

  friend bool operator==(const WorkloadTool&, const WorkloadTool&) = default;
};

// Consecutive blocks of a prompt, with ids first .. first + count - 1. An id identifies a block and all blocks before
// it within its workflow. Ids of different workflows are unrelated.
struct PrefixRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;  // number of blocks; at least 1

  friend bool operator==(const PrefixRun&, const PrefixRun&) = default;
};

// The reason for a workflow's wait after a call.
enum class TurnEnd : std::uint8_t { kUnknown, kTool, kUser };
constexpr auto NamesOf(TurnEnd) { return std::to_array<std::string_view>({"unknown", "tool", "user"}); }

// One LLM call of a workflow.
struct WorkloadCall {
  std::int32_t prompt_tokens = 0;  // prompt length; at least 1
  std::int32_t output_tokens = 0;  // true output length; at least 1
  std::uint32_t stage = 0;  // index into Workload::names; 0: the empty name
  std::uint32_t agent = 0;  // index into Workload::names; 0: the empty name
  std::uint32_t first_predecessor = 0, predecessors = 0;  // range in Workload::predecessors
  std::uint32_t first_hash = 0, hashes = 0;  // range in Workload::prefix_hashes
  std::uint32_t first_run = 0, runs = 0;  // range in Workload::prefix_runs; a call has either hashes or runs
  std::uint32_t first_tool = 0, tools = 0;  // range in Workload::tools, sorted by after_tokens
  std::uint16_t branch = 0;  // branch of the workflow; 0: main agent; other numbers: sub-agents
  TurnEnd then = TurnEnd::kUnknown;
  std::uint32_t adapter = 0;  // LoRA adapter that the call needs; 0: none
  Duration delay{0};  // time from the end of the last predecessor (or the arrival) to this call

  friend bool operator==(const WorkloadCall&, const WorkloadCall&) = default;
};

struct WorkloadWorkflow {
  TimePoint arrival{};
  Duration deadline = Duration::max();  // deadline of the whole workflow, relative to its arrival
  std::uint32_t name = 0;  // index into Workload::names of its class
  std::uint32_t tenant = 0;  // tenant; 0: none; if tenants have names, its name is Workload::tenant_names[tenant - 1]
  std::int32_t priority = 0;  // priority; workflows with a lower number run sooner
  std::uint32_t first_call = 0, calls = 0;  // range in Workload::calls; at least one
  std::uint32_t solved_by = 0;  // models that solve the workflow; bit m: the answer of Workload::models[m] is correct

  friend bool operator==(const WorkloadWorkflow&, const WorkloadWorkflow&) = default;
};

// Flat arrays: a million one-call workflows take 104 MB. Validate() (workload/validate.h) checks these invariants.
struct Workload {
  std::string name;
  std::vector<WorkloadWorkflow> workflows;  // workflows sorted by arrival; the first arrives at time zero
  std::vector<WorkloadCall> calls;  // calls grouped by workflow, predecessors before successors
  std::vector<std::uint32_t> predecessors;  // indices of calls within the workflow, ascending
  std::vector<WorkloadTool> tools;
  std::vector<std::uint64_t> prefix_hashes;  // chained hashes: hash i covers block i and all blocks before it
  std::vector<PrefixRun> prefix_runs;  // runs of blocks, used instead of hashes in prompts with thousands of blocks
  std::int32_t prefix_block_tokens = 512;
  std::vector<std::string> names = {""};
  std::vector<std::string> tenant_names = {};  // distinct names; empty: tenants are numbers

  // For workloads with several models. Without models, each call has output_tokens on any model, and correctness is
  // unknown.
  std::vector<std::string> models = {};  // distinct names, as in profiles; at most kMaxWorkloadModels
  std::vector<std::int32_t> model_tokens = {};  // true output of each call on each model, calls x models; at least 1
  // Numeric features of a call's prompt text; predictors use only these.
  std::vector<std::string> feature_names = {};  // names of features; at most kMaxWorkloadFeatures
  std::vector<float> features = {};  // finite feature values, by call and feature

  friend bool operator==(const Workload&, const Workload&) = default;

  std::span<const WorkloadCall> calls_of(const WorkloadWorkflow& w) const {
    return std::span(calls).subspan(w.first_call, w.calls);
  }
  std::span<const std::uint32_t> predecessors_of(const WorkloadCall& c) const {
    return std::span(predecessors).subspan(c.first_predecessor, c.predecessors);
  }
  std::span<const WorkloadTool> tools_of(const WorkloadCall& c) const {
    return std::span(tools).subspan(c.first_tool, c.tools);
  }
  std::span<const std::uint64_t> hashes_of(const WorkloadCall& c) const {
    return std::span(prefix_hashes).subspan(c.first_hash, c.hashes);
  }
  std::span<const PrefixRun> runs_of(const WorkloadCall& c) const {
    return std::span(prefix_runs).subspan(c.first_run, c.runs);
  }
  // Returns the hashes of the call's prefix, listed or generated from its runs. `made` owns the generated hashes.
  std::span<const std::uint64_t> PrefixOf(std::uint32_t workflow, const WorkloadCall& c,
                                          std::vector<std::uint64_t>& made) const {
    if (c.runs == 0) return hashes_of(c);
    made.clear();
    for (const PrefixRun& run : runs_of(c)) {
      const std::uint64_t first = ((std::uint64_t{workflow} + 1) << 32) + run.first;
      for (std::uint64_t i = 0; i < run.count; ++i) made.push_back(Mix64(first + i));
    }
    return made;
  }

  static constexpr std::size_t kNoModel = static_cast<std::size_t>(-1);
  // Returns the column of a model, or kNoModel.
  std::size_t ModelIndex(std::string_view model) const {
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (models[m] == model) return m;
    }
    return kNoModel;
  }
  // Returns the true output of a call on a model of the workload, or on any other model.
  std::int32_t OutputOf(std::size_t call, std::size_t model) const {
    return model < models.size() ? model_tokens[call * models.size() + model] : calls[call].output_tokens;
  }
  // Returns the tenant's name for files and reports; empty without a tenant.
  std::string TenantOf(const WorkloadWorkflow& w) const {
    if (w.tenant == 0) return "";
    return tenant_names.empty() ? std::to_string(w.tenant) : tenant_names[w.tenant - 1];
  }
  std::span<const float> features_of(std::size_t call) const {
    return std::span(features).subspan(call * feature_names.size(), feature_names.size());
  }
};

}  // namespace takt

#endif  // TAKT_WORKLOAD_WORKLOAD_H_
