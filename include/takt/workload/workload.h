// A workload: what arrives when, with the true lengths. Only a host (the simulator, the example engine) may look at
// the true lengths; a Request never carries them.
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

inline constexpr std::int32_t kMaxContextTokens = 1'000'000'000;  // of one call: prompt, output and tools' answers
inline constexpr std::size_t kMaxWorkloadModels = 32, kMaxWorkloadFeatures = 64;
inline constexpr Duration kMaxWorkloadTime{1'000'000'000'000'000'000};  // an arrival, or a workflow's delays and tools

// A tool call inside an LLM call.
struct WorkloadTool {
  std::int32_t after_tokens = 0;  // of the call's output, when the tool is called: 1 .. output_tokens - 1
  std::int32_t returned_tokens = 0;  // that join the context
  Duration duration{0};
  std::uint32_t name = 0;  // index into Workload::names: the tool's class

  friend bool operator==(const WorkloadTool&, const WorkloadTool&) = default;
};

// Consecutive blocks of a prompt, with the ids first .. first + count - 1. An id names a block and all before it within
// its workflow; ids of different workflows have nothing to do with one another.
struct PrefixRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;  // at least 1

  friend bool operator==(const PrefixRun&, const PrefixRun&) = default;
};

// What a workflow waits for when a call has ended.
enum class TurnEnd : std::uint8_t { kUnknown, kTool, kUser };
constexpr auto NamesOf(TurnEnd) { return std::to_array<std::string_view>({"unknown", "tool", "user"}); }

// One LLM call of a workflow.
struct WorkloadCall {
  std::int32_t prompt_tokens = 0;  // at least 1
  std::int32_t output_tokens = 0;  // true; at least 1
  std::uint32_t stage = 0;  // index into Workload::names; 0 is the empty name
  std::uint32_t agent = 0;  // likewise
  std::uint32_t first_predecessor = 0, predecessors = 0;  // into Workload::predecessors
  std::uint32_t first_hash = 0, hashes = 0;  // into Workload::prefix_hashes
  std::uint32_t first_run = 0, runs = 0;  // into Workload::prefix_runs; a call has no hashes besides
  std::uint32_t first_tool = 0, tools = 0;  // into Workload::tools, after_tokens rising
  std::uint16_t branch = 0;  // of its workflow: 0 is the main agent, others are its sub-agents
  TurnEnd then = TurnEnd::kUnknown;
  Duration delay{0};  // from the end of the last predecessor (or the arrival) until the call is made

  friend bool operator==(const WorkloadCall&, const WorkloadCall&) = default;
};

struct WorkloadWorkflow {
  TimePoint arrival{};
  Duration deadline = Duration::max();  // of the whole workflow, from its arrival
  std::uint32_t name = 0;  // index into Workload::names: its class
  std::uint32_t tenant = 0;  // 0: none; else Workload::tenant_names[tenant - 1], where they are named
  std::int32_t priority = 0;  // lower is sooner
  std::uint32_t first_call = 0, calls = 0;  // into Workload::calls; at least one
  std::uint32_t solved_by = 0;  // true; bit m: the answer of Workload::models[m] is right

  friend bool operator==(const WorkloadWorkflow&, const WorkloadWorkflow&) = default;
};

// Flat arrays: a million one-call workflows take 104 MB. Validate() (workload/validate.h) checks what is promised here.
struct Workload {
  std::string name;
  std::vector<WorkloadWorkflow> workflows;  // by arrival; the first arrives at time zero
  std::vector<WorkloadCall> calls;  // of one workflow together, predecessors before their successors
  std::vector<std::uint32_t> predecessors;  // indices of calls, counted from the workflow's first; rising
  std::vector<WorkloadTool> tools;
  std::vector<std::uint64_t> prefix_hashes;  // chained: hash i names block i and all before it
  std::vector<PrefixRun> prefix_runs;  // instead of hashes, where prompts have thousands of blocks
  std::int32_t prefix_block_tokens = 512;
  std::vector<std::string> names = {""};
  std::vector<std::string> tenant_names = {};  // none twice; empty: tenants are numbers

  // Where models differ. Without models each call is as long as its output_tokens, whichever answers, and it is not
  // known which is right.
  std::vector<std::string> models = {};  // as profiles call them; none twice; at most kMaxWorkloadModels
  std::vector<std::int32_t> model_tokens = {};  // true output of each call on each model, calls x models; at least 1
  // What the text of a call's prompt shows, in numbers: for predictors, which may look at these alone.
  std::vector<std::string> feature_names = {};  // at most kMaxWorkloadFeatures
  std::vector<float> features = {};  // calls x feature_names; finite

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
  // The hashes of the call's prefix, listed or made from its runs; `made` must live as long as they do.
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
  // The column of a model; kNoModel where it is none of them.
  std::size_t ModelIndex(std::string_view model) const {
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (models[m] == model) return m;
    }
    return kNoModel;
  }
  // The true output of a call, by index, on a model of which the workload tells, or on any other.
  std::int32_t OutputOf(std::size_t call, std::size_t model) const {
    return model < models.size() ? model_tokens[call * models.size() + model] : calls[call].output_tokens;
  }
  // As files and reports show it; empty where the workflow has none.
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
