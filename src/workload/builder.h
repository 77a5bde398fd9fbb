// Builds a Workload for readers, generators and transformations.
#ifndef TAKT_SRC_WORKLOAD_BUILDER_H_
#define TAKT_SRC_WORKLOAD_BUILDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "takt/workload/workload.h"

namespace takt {

// A call with everything that belongs to it. The builder sets the ranges of `call`.
struct CallDraft {
  WorkloadCall call;
  std::vector<std::uint32_t> after;  // positions in the workflow's drafts, in any order
  std::vector<WorkloadTool> tools;   // in any order
  std::vector<std::uint64_t> hashes;
  std::vector<PrefixRun> runs;  // instead of hashes
  std::vector<std::int32_t> model_tokens;  // per model of the workload
  std::vector<float> features;  // per feature name of the workload
};

class WorkloadBuilder {
 public:
  Workload& workload() { return workload_; }

  // Returns the index of a name, which is added if it is new.
  std::uint32_t Name(std::string_view name);

  // Returns the number of the tenant of that name, from 1; 0 for the empty name.
  std::uint32_t Tenant(std::string_view name);

  // Adds a workflow of one call without differences between models. Lengths are at least 1.
  void Add(TimePoint arrival, std::int32_t prompt_tokens, std::int32_t output_tokens, std::uint32_t name = 0,
           std::uint32_t stage = 0, std::span<const std::uint64_t> hashes = {});

  // Adds one workflow and sets the range in `head`. Orders its calls with predecessors first. On an error, which names
  // the call and its stage, nothing is added. Errors are cycles and violations of workload.h's rules.
  absl::Status Add(WorkloadWorkflow head, std::span<const CallDraft> drafts);

  // Sorts stably by arrival, and counts arrivals from the first. Returns whether they were in order.
  bool Finish();

 private:
  void Append(const CallDraft& draft, std::span<const std::uint32_t> position);

  Workload workload_;
  bool tidy_ = true;
  using Numbers = std::map<std::string, std::uint32_t, std::less<>>;
  static std::uint32_t Number(std::string_view name, std::vector<std::string>& names, Numbers& known);
  Numbers index_of_name_, index_of_tenant_;  // without the empty name
};

// Copies the properties that all workflows share: name, blocks, tenants, models and features.
void CopyHead(const Workload& from, Workload& to);

// Copies one workflow, with its hashes mapped by `rehash`. Both workloads have the same models and features.
void Copy(const Workload& from, const WorkloadWorkflow& workflow, WorkloadBuilder& to,
          const std::function<std::uint64_t(std::uint64_t)>& rehash = {});

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_BUILDER_H_
