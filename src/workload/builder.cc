#include "workload/builder.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "fmt/format.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"

namespace takt {
namespace {

using Order = std::vector<std::uint32_t>;

std::string CallName(const Workload& w, std::span<const CallDraft> drafts, std::size_t i) {
  const std::string& stage = w.names[drafts[i].call.stage];
  return stage.empty() ? fmt::format("calls[{}]", i) : fmt::format("calls[{}] (stage \"{}\")", i, stage);
}

bool InOrder(std::span<const CallDraft> drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (std::ranges::any_of(drafts[i].after, [&](std::uint32_t p) { return p >= i; })) return false;
  }
  return true;
}

// Returns the calls in an order with predecessors first, otherwise as given (Kahn's algorithm, always with the first
// ready call). The order is shorter than `drafts` if calls form a cycle.
Order TopologicalOrder(std::span<const CallDraft> drafts) {
  std::vector<Order> successors(drafts.size());
  std::vector<std::size_t> open(drafts.size());
  std::priority_queue<std::uint32_t, Order, std::greater<>> ready;
  for (std::uint32_t i = 0; i < drafts.size(); ++i) {
    for (const std::uint32_t p : drafts[i].after) successors[p].push_back(i);
    open[i] = drafts[i].after.size();
    if (open[i] == 0) ready.push(i);
  }
  Order order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::uint32_t s : successors[order.back()]) {
      if (--open[s] == 0) ready.push(s);
    }
  }
  return order;
}

// Finds a call on a cycle: walks backwards from a call that was never ready, over such calls only, until one repeats.
std::uint32_t OnCycle(std::span<const CallDraft> drafts, const Order& order) {
  std::vector<bool> done(drafts.size());
  for (const std::uint32_t i : order) done[i] = true;
  auto at = static_cast<std::uint32_t>(std::ranges::find(done, false) - done.begin());
  std::vector<bool> seen(drafts.size());
  while (!seen[at]) {
    seen[at] = true;
    at = *std::ranges::find_if(drafts[at].after, [&](std::uint32_t p) { return !done[p]; });
  }
  return at;
}

}  // namespace

std::uint32_t WorkloadBuilder::Number(std::string_view name, std::vector<std::string>& names, Numbers& known) {
  if (const auto found = known.find(name); found != known.end()) return found->second;
  const auto index = static_cast<std::uint32_t>(names.size());
  names.emplace_back(name);
  known.emplace(name, index);
  return index;
}

std::uint32_t WorkloadBuilder::Name(std::string_view name) {
  return name.empty() ? 0 : Number(name, workload_.names, index_of_name_);
}

std::uint32_t WorkloadBuilder::Tenant(std::string_view name) {
  return name.empty() ? 0 : Number(name, workload_.tenant_names, index_of_tenant_) + 1;
}

void WorkloadBuilder::Add(TimePoint arrival, std::int32_t prompt_tokens, std::int32_t output_tokens, std::uint32_t name,
                          std::uint32_t stage, std::span<const std::uint64_t> hashes) {
  Workload& w = workload_;
  w.workflows.push_back(
      {.arrival = arrival, .name = name, .first_call = static_cast<std::uint32_t>(w.calls.size()), .calls = 1});
  w.calls.push_back({.prompt_tokens = prompt_tokens,
                     .output_tokens = output_tokens,
                     .stage = stage,
                     .first_predecessor = static_cast<std::uint32_t>(w.predecessors.size()),
                     .first_hash = static_cast<std::uint32_t>(w.prefix_hashes.size()),
                     .hashes = static_cast<std::uint32_t>(hashes.size()),
                     .first_run = static_cast<std::uint32_t>(w.prefix_runs.size()),
                     .first_tool = static_cast<std::uint32_t>(w.tools.size())});
  w.prefix_hashes.insert(w.prefix_hashes.end(), hashes.begin(), hashes.end());
}

absl::Status WorkloadBuilder::Add(WorkloadWorkflow head, std::span<const CallDraft> drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    for (const std::uint32_t p : drafts[i].after) {
      if (p < drafts.size()) continue;
      return absl::InvalidArgumentError(fmt::format("{}: after: {} is invalid; expected one of the {} calls",
                                                    CallName(workload_, drafts, i), p, drafts.size()));
    }
  }
  Order position(drafts.size());
  for (std::uint32_t i = 0; i < drafts.size(); ++i) position[i] = i;
  Order order = position;
  if (!InOrder(drafts)) {
    order = TopologicalOrder(drafts);
    if (order.size() < drafts.size()) {
      return absl::InvalidArgumentError(CallName(workload_, drafts, OnCycle(drafts, order)) +
                                        ": after: is invalid; the calls form a cycle");
    }
    for (std::uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
    tidy_ = false;
  }

  Workload& w = workload_;
  head.first_call = static_cast<std::uint32_t>(w.calls.size());
  head.calls = static_cast<std::uint32_t>(drafts.size());
  const std::size_t predecessors = w.predecessors.size(), tools = w.tools.size(), hashes = w.prefix_hashes.size();
  const std::size_t runs = w.prefix_runs.size();
  const std::size_t model_tokens = w.model_tokens.size(), features = w.features.size();
  w.workflows.push_back(head);
  for (const std::uint32_t i : order) Append(drafts[i], position);

  absl::Status status = ValidateWorkflow(w, w.workflows.size() - 1);
  if (!status.ok()) {
    w.workflows.pop_back();
    w.calls.resize(head.first_call);
    w.predecessors.resize(predecessors);
    w.tools.resize(tools);
    w.prefix_hashes.resize(hashes);
    w.prefix_runs.resize(runs);
    w.model_tokens.resize(model_tokens);
    w.features.resize(features);
  }
  return status;
}

void WorkloadBuilder::Append(const CallDraft& draft, std::span<const std::uint32_t> position) {
  Workload& w = workload_;
  WorkloadCall call = draft.call;
  call.first_predecessor = static_cast<std::uint32_t>(w.predecessors.size());
  for (const std::uint32_t p : draft.after) w.predecessors.push_back(position[p]);
  const auto first = w.predecessors.begin() + call.first_predecessor;
  std::sort(first, w.predecessors.end());
  w.predecessors.erase(std::unique(first, w.predecessors.end()), w.predecessors.end());
  call.predecessors = static_cast<std::uint32_t>(w.predecessors.size()) - call.first_predecessor;

  call.first_hash = static_cast<std::uint32_t>(w.prefix_hashes.size());
  call.hashes = static_cast<std::uint32_t>(draft.hashes.size());
  w.prefix_hashes.insert(w.prefix_hashes.end(), draft.hashes.begin(), draft.hashes.end());

  call.first_run = static_cast<std::uint32_t>(w.prefix_runs.size());
  call.runs = static_cast<std::uint32_t>(draft.runs.size());
  w.prefix_runs.insert(w.prefix_runs.end(), draft.runs.begin(), draft.runs.end());

  call.first_tool = static_cast<std::uint32_t>(w.tools.size());
  call.tools = static_cast<std::uint32_t>(draft.tools.size());
  w.tools.insert(w.tools.end(), draft.tools.begin(), draft.tools.end());
  std::sort(w.tools.begin() + call.first_tool, w.tools.end(),
            [](const WorkloadTool& a, const WorkloadTool& b) { return a.after_tokens < b.after_tokens; });
  w.calls.push_back(call);
  w.model_tokens.insert(w.model_tokens.end(), draft.model_tokens.begin(), draft.model_tokens.end());
  w.features.insert(w.features.end(), draft.features.begin(), draft.features.end());
}

bool WorkloadBuilder::Finish() {
  auto& workflows = workload_.workflows;
  // The sort is stable, so the first call's index grows in the order of adding.
  const auto earlier = [](const WorkloadWorkflow& a, const WorkloadWorkflow& b) {
    return std::pair(a.arrival, a.first_call) < std::pair(b.arrival, b.first_call);
  };
  const bool sorted = std::ranges::is_sorted(workflows, earlier);
  if (!sorted) std::ranges::sort(workflows, earlier);
  if (!sorted || !tidy_) workload_ = Tidied(workload_);
  if (!workflows.empty()) {
    const Duration first = workflows[0].arrival.time_since_epoch();
    for (WorkloadWorkflow& w : workflows) w.arrival = Before(w.arrival, first);
  }
  workflows.shrink_to_fit();
  workload_.calls.shrink_to_fit();
  workload_.predecessors.shrink_to_fit();
  workload_.tools.shrink_to_fit();
  workload_.prefix_hashes.shrink_to_fit();
  workload_.prefix_runs.shrink_to_fit();
  workload_.model_tokens.shrink_to_fit();
  workload_.features.shrink_to_fit();
  return sorted;
}

void CopyHead(const Workload& from, Workload& to) {
  to.name = from.name;
  to.prefix_block_tokens = from.prefix_block_tokens;
  to.tenant_names = from.tenant_names;
  to.models = from.models;
  to.feature_names = from.feature_names;
}

void Copy(const Workload& from, const WorkloadWorkflow& workflow, WorkloadBuilder& to,
          const std::function<std::uint64_t(std::uint64_t)>& rehash) {
  Workload& w = to.workload();
  WorkloadWorkflow head = workflow;
  head.name = to.Name(from.names[workflow.name]);
  head.first_call = static_cast<std::uint32_t>(w.calls.size());
  w.workflows.push_back(head);
  const auto rows = [&](const auto& all, std::size_t columns, auto& copy) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(workflow.first_call * columns);
    copy.insert(copy.end(), first, first + static_cast<std::ptrdiff_t>(workflow.calls * columns));
  };
  rows(from.model_tokens, from.models.size(), w.model_tokens);
  rows(from.features, from.feature_names.size(), w.features);
  for (WorkloadCall call : from.calls_of(workflow)) {
    const auto predecessors = from.predecessors_of(call);
    const auto tools = from.tools_of(call);
    const auto hashes = from.hashes_of(call);
    const auto runs = from.runs_of(call);
    call.stage = to.Name(from.names[call.stage]);
    call.agent = to.Name(from.names[call.agent]);
    call.first_predecessor = static_cast<std::uint32_t>(w.predecessors.size());
    call.first_tool = static_cast<std::uint32_t>(w.tools.size());
    call.first_hash = static_cast<std::uint32_t>(w.prefix_hashes.size());
    w.predecessors.insert(w.predecessors.end(), predecessors.begin(), predecessors.end());
    for (WorkloadTool tool : tools) {
      tool.name = to.Name(from.names[tool.name]);
      w.tools.push_back(tool);
    }
    call.first_run = static_cast<std::uint32_t>(w.prefix_runs.size());
    w.prefix_runs.insert(w.prefix_runs.end(), runs.begin(), runs.end());
    for (const std::uint64_t hash : hashes) w.prefix_hashes.push_back(rehash ? rehash(hash) : hash);
    w.calls.push_back(call);
  }
}

}  // namespace takt
