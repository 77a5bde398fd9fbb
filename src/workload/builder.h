// How every reader, generator and transformation puts a Workload together.
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

// A call with all that belongs to it. Of `call`, the builder sets the ranges.
struct CallDraft {
  WorkloadCall call;
  std::vector<std::uint32_t> after;  // positions in the workflow's drafts, in any order
  std::vector<WorkloadTool> tools;   // in any order
  std::vector<std::uint64_t> hashes;
  std::vector<PrefixRun> runs;  // instead of hashes
  std::vector<std::int32_t> model_tokens;  // of each of the workload's models
  std::vector<float> features;             // of each of the workload's feature names
};

class WorkloadBuilder {
 public:
  Workload& workload() { return workload_; }

  // The index of a name, new or known.
  std::uint32_t Name(std::string_view name);

  // The number of a tenant of that name, from 1; 0 where it has none.
  std::uint32_t Tenant(std::string_view name);

  // One workflow of one call, where models do not differ. Lengths are at least 1.
  void Add(TimePoint arrival, std::int32_t prompt_tokens, std::int32_t output_tokens, std::uint32_t name = 0,
           std::uint32_t stage = 0, std::span<const std::uint64_t> hashes = {});

  // One workflow; of `head`, the range is set here. Its calls are put in an order in which predecessors come first.
  // On an error (a cycle, a broken promise of workload.h), which names the call and its stage, nothing is added.
  absl::Status Add(WorkloadWorkflow head, std::span<const CallDraft> drafts);

  // Sorts by arrival, stably, and counts arrivals from the first. Whether they were in order already.
  bool Finish();

 private:
  void Append(const CallDraft& draft, std::span<const std::uint32_t> position);

  Workload workload_;
  bool tidy_ = true;
  using Numbers = std::map<std::string, std::uint32_t, std::less<>>;
  static std::uint32_t Number(std::string_view name, std::vector<std::string>& names, Numbers& known);
  Numbers index_of_name_, index_of_tenant_;  // without the empty name
};

// What a workload says of all its workflows: the name, blocks, tenants, models and features.
void CopyHead(const Workload& from, Workload& to);

// Copies one workflow, with the hashes put through `rehash`. Both have the same models and features.
void Copy(const Workload& from, const WorkloadWorkflow& workflow, WorkloadBuilder& to,
          const std::function<std::uint64_t(std::uint64_t)>& rehash = {});

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_BUILDER_H_
