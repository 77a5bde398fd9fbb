// Justitia: fair virtual time by the memory cost of a whole workflow.
#ifndef TAKT_RIVALS_POLICY_JUSTITIA_H_
#define TAKT_RIVALS_POLICY_JUSTITIA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/model/memory_time.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Serves workflows in the order in which they would end if all had an equal share of the KV cache. Key [tokens x
// steps]: the finish tag of the workflow, set at its first call and then constant:
//
//  tag = V(arrival) + cost,  cost = d (p + d / 2) + memory of later calls (Request::after.kv_steps)
//
// p, d: prompt and expected output of the call. If the memory of later calls is unknown, each output token of
// workflow_tokens_left counts as much as an output token of this call. Virtual time V grows by KV / N per decode step,
// where N is the number of workflows with a waiting or running call. V stops if N is 0. This is fair queuing (Parekh
// and Gallager, 1993) over the present workflows, which are not those of an ideal server.
//
// A reimplementation of Justitia (Yang et al., arXiv 2510.17015) from its abstract: memory cost, virtual-time fair
// queuing, workflows in order of fair completion. The form of the cost, N, and the pace of V are takt's.
//
// The tags of the last 65,536 workflows without a call are remembered; an older workflow gets a new tag.
class Justitia {
 public:
  static constexpr std::string_view kName = "justitia";
  static constexpr std::size_t kRemembered = 65'536;

  MemoryPace pace{.decode_s = 0.02};
  double kv_tokens = 1e5;  // size of the KV cache until the scheduler reports it
  double unknown = 256;  // assumed output tokens of a call without a prediction

  void KeyHashes(std::uint64_t seed) { workflows_.KeyHashes(seed); }

  void Reserve(std::size_t requests) {
    calls_.reserve(requests);
    workflows_.Reserve(requests + kRemembered + 1);
  }

  void PlanEnds(const QueuePressure& pressure, TimePoint) {
    if (pressure.kv_tokens.value > 0) reported_kv_ = 1.0 * pressure.kv_tokens.value * pressure.engines;
  }

  void Enters(const RequestState& r, TimePoint now) {
    if (calls_.size() <= r.slot) calls_.resize(r.slot + 1);
    Call& call = calls_[r.slot];
    if (call.tagged) return;
    Advance(now);
    const WorkflowId id = r.request.workflow;
    Slot at = workflows_.Find(id);
    if (at == kNoSlot) {
      at = id ? workflows_.Insert(id) : workflows_.Take();
      workflows_[at] = {.id = id, .tag = virtual_time_ + std::min(CostOf(r.request), kMost)};
    } else if (workflows_[at].calls == 0) {
      away_.Remove(workflows_, at);
    }
    if (workflows_[at].calls++ == 0) ++there_;
    call = {workflows_[at].tag, at, true};
  }
  void Ends(const RequestState& r, TimePoint now) {
    if (r.slot >= calls_.size() || !calls_[r.slot].tagged) return;
    Advance(now);
    const Slot at = std::exchange(calls_[r.slot], {}).workflow;
    if (--workflows_[at].calls > 0) return;
    --there_;
    if (!workflows_[at].id) return workflows_.Give(at);
    away_.Append(workflows_, at);
    if (away_.size() <= kRemembered) return;
    const Slot oldest = away_.oldest();
    away_.Remove(workflows_, oldest);
    workflows_.Erase(oldest, workflows_[oldest].id);
  }

  RankKey Key(const RequestState& r) const { return {r.slot < calls_.size() ? calls_[r.slot].tag : 0}; }

  std::size_t remembered() const { return away_.size(); }  // number of remembered workflows without a call

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step", 1e-6, 1e6});
    visit("kv_tokens", self.kv_tokens, OptionText{"tokens", "KV cache until the scheduler reports its size", 1, 1e12});
    visit("unknown", self.unknown, OptionText{"tokens", "output without a prediction", 1, 1e9});
  }

 private:
  static constexpr double kMost = 1e12;  // maximum counted prediction

  struct Call {
    double tag = 0;
    std::uint32_t workflow = 0;  // index in workflows_
    bool tagged = false;
  };
  struct Workflow {
    WorkflowId id = {};  // workflow; none: a single request
    double tag = 0;
    std::int64_t calls = 0;  // number of waiting and running calls
    AgeLink age = {};  // links in away_, used while `calls` is 0
  };

  double CostOf(const Request& q) const {
    const double own = q.output_tokens.known() ? std::max(q.output_tokens.mean, 1.0) : unknown;
    const double output = own * q.sequences;
    const double each = q.prompt_tokens.value + own / 2;
    if (q.after.known()) return Rounded(output * each) + q.after.kv_steps;
    const double left = q.workflow_tokens_left.known() ? q.workflow_tokens_left.mean : 0;
    return std::max(left, output) * each;
  }

  void Advance(TimePoint now) {
    if (now <= as_of_) return;
    const double kv = reported_kv_ > 0 ? reported_kv_ : kv_tokens;
    if (there_ > 0) {
      virtual_time_ += ToSeconds(Between(as_of_, now)) / pace.decode_s * kv / static_cast<double>(there_);
    }
    as_of_ = now;
  }

  std::vector<Call> calls_;  // by slot
  IdTable<WorkflowId, Workflow> workflows_;
  AgeList away_;  // workflows without a call, by the end of their last call
  std::int64_t there_ = 0;  // number of workflows with a waiting or running call
  double virtual_time_ = 0, reported_kv_ = 0;
  TimePoint as_of_{};
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_JUSTITIA_H_
