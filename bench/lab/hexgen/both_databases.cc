#include "lab/hexgen/both_databases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr std::string_view kRevision = "revise";  // the authors' name of the step
constexpr std::size_t kMostRevisions = 10, kSamples = 5;  // samples of each number of revisions
constexpr std::uint64_t kOrderSeed = 3;

struct Query {
  const WorkloadWorkflow* flow;
  bool one_more = false;  // repeats its last revision
};

bool IsRevision(const Workload& trace, const WorkloadCall& call) { return trace.names[call.stage] == kRevision; }

bool Alike(const Workload& trace, const WorkloadWorkflow& a, const WorkloadWorkflow& b) {
  return std::ranges::equal(trace.calls_of(a), trace.calls_of(b), [](const WorkloadCall& x, const WorkloadCall& y) {
    return x.stage == y.stage && x.prompt_tokens == y.prompt_tokens && x.output_tokens == y.output_tokens;
  });
}

// Returns the distinct queries among `flows` with this number of revisions, in order.
std::vector<Query> Distinct(const Workload& trace, std::span<const WorkloadWorkflow> flows, std::size_t revisions) {
  std::vector<Query> found;
  for (const WorkloadWorkflow& flow : flows) {
    const auto own = std::ranges::count_if(trace.calls_of(flow), [&](const auto& c) { return IsRevision(trace, c); });
    const bool known = std::ranges::any_of(found, [&](const Query& q) { return Alike(trace, *q.flow, flow); });
    if (static_cast<std::size_t>(own) == revisions && !known) found.push_back({&flow});
  }
  return found;
}

// Adds a query of `from` to `out`, which has the same names.
void Append(Workload& out, const Workload& from, const Query& query) {
  const auto calls = from.calls_of(*query.flow);
  std::size_t last = calls.size();  // repeated call
  for (std::size_t i = 0; query.one_more && i < calls.size(); ++i) {
    if (IsRevision(from, calls[i])) last = i;
  }
  WorkloadWorkflow flow = *query.flow;
  flow.arrival = {};
  flow.first_call = static_cast<std::uint32_t>(out.calls.size());
  flow.calls = static_cast<std::uint32_t>(calls.size() + (last < calls.size() ? 1 : 0));
  const auto add = [&out](WorkloadCall call, const std::vector<std::uint32_t>& predecessors) {
    call.first_predecessor = static_cast<std::uint32_t>(out.predecessors.size());
    call.predecessors = static_cast<std::uint32_t>(predecessors.size());
    out.predecessors.insert(out.predecessors.end(), predecessors.begin(), predecessors.end());
    out.calls.push_back(call);
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto before = from.predecessors_of(calls[i]);
    std::vector<std::uint32_t> shifted(before.begin(), before.end());
    for (std::uint32_t& p : shifted) p += i > last && p >= last ? 1 : 0;
    add(calls[i], shifted);
    if (i == last) add(calls[i], {static_cast<std::uint32_t>(last)});
  }
  out.workflows.push_back(flow);
}

}  // namespace

absl::StatusOr<Workload> BothDatabases(const Workload& first, const Workload& second) {
  // One trace after the other, with one list of names.
  const Duration end = first.workflows.empty() ? Duration{0} : first.workflows.back().arrival.time_since_epoch();
  const absl::StatusOr<Workload> both = Merge(std::vector<Part>{{&first}, {&second, end}});
  if (!both.ok()) return both.status();
  const std::span<const WorkloadWorkflow> flows(both->workflows);
  const std::span<const WorkloadWorkflow> databases[] = {flows.first(first.workflows.size()),
                                                         flows.subspan(first.workflows.size())};
  std::vector<Query> half;
  for (std::size_t revisions = 0; revisions <= kMostRevisions; ++revisions) {
    std::vector<Query> pools[] = {Distinct(*both, databases[0], revisions), Distinct(*both, databases[1], revisions)};
    if (pools[0].empty() && pools[1].empty() && revisions > 0) {
      for (std::size_t d = 0; d < 2; ++d) {
        pools[d] = Distinct(*both, databases[d], revisions - 1);
        for (Query& query : pools[d]) query.one_more = true;
      }
    }
    if (pools[0].empty() && pools[1].empty()) continue;
    std::size_t taken[2] = {};
    for (std::size_t s = 0; s < kSamples; ++s) {
      const std::size_t d = pools[s % 2].empty() ? 1 - s % 2 : s % 2;
      half.push_back(pools[d][taken[d]++ % pools[d].size()]);
    }
  }
  Random random(kOrderSeed);
  for (std::size_t i = half.size(); i > 1; --i) std::swap(half[i - 1], half[random.Below(i)]);
  Workload out = *both;
  out.workflows.clear(), out.calls.clear(), out.predecessors.clear();
  for (int copy = 0; copy < 2; ++copy) {
    for (const Query& query : half) Append(out, *both, query);
  }
  return Tidied(out);
}

}  // namespace takt::tool
