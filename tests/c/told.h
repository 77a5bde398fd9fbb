// Events of C++ as a host in C would tell them, and the options of both.
#ifndef TAKT_TESTS_C_TOLD_H_
#define TAKT_TESTS_C_TOLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fire/dice.h"
#include "takt/c/takt.h"
#include "takt/kv/kv_oracle.h"
#include "takt/model/event.h"
#include "takt/model/instance.h"
#include "takt/scheduler_options.h"

namespace takt {

// A struct for takt to write to.
template <class T>
T Sized() {
  T out{};
  out.struct_size = sizeof out;
  return out;
}

// All counters of a scheduler or of a router.
template <class H>
std::vector<takt_stat> StatsOf(std::size_t (*stats_of)(const H*, takt_stat*, std::size_t) noexcept, const H* handle) {
  std::vector<takt_stat> stats(stats_of(handle, nullptr, 0));
  stats_of(handle, stats.data(), stats.size());
  return stats;
}

inline std::int64_t Ns(TimePoint t) { return t.time_since_epoch().count(); }

inline takt_estimate InC(const Estimate& e) {
  takt_estimate c{};
  c.mean = e.mean;
  std::copy(e.quantiles.begin(), e.quantiles.end(), c.quantiles);
  return c;
}
inline takt_work_after InC(const WorkAfter& a) {
  return {a.calls, a.prompt_tokens, a.output_tokens, a.kv_steps, a.path_tokens};
}
inline takt_next_call InC(const NextCall& n) {
  return {n.tool.value, n.after.value, n.returned.value, n.duration.count()};
}

inline takt_limits InC(const StepLimits& l) {
  return {sizeof(takt_limits), l.tokens.value,   l.max_seqs,      l.prefill_tokens.value, l.chunk_tokens.value,
          l.adapters,          l.swap_out.value, l.swap_in.value, l.chunk_align.value};
}

inline takt_scheduler_options InC(const SchedulerOptions& o) {
  takt_scheduler_options c;
  takt_scheduler_options_init(&c, sizeof c);
  c.max_running = o.max_running, c.max_waiting = o.max_waiting, c.reserve_requests = o.reserve_requests;
  c.shed = static_cast<std::uint32_t>(o.shed), c.order = static_cast<std::uint32_t>(o.order);
  c.preempt = static_cast<std::uint32_t>(o.preempt), c.preempt_action = static_cast<std::uint32_t>(o.preempt_action);
  c.preempt_margin = o.preempt_margin;
  c.kv = static_cast<std::uint32_t>(o.kv);
  c.kv_block_tokens = o.kv_block_tokens.value, c.kv_blocks = o.kv_blocks.value, c.cpu_blocks = o.cpu_blocks.value;
  c.kv_watermark = o.kv_watermark, c.prefix_cache = o.prefix_cache;
  c.admission_window = o.admission_window;
  c.first_step = o.first_step.value, c.hash_seed = o.hash_seed;
  c.max_step_tokens = o.max_step_tokens.value, c.max_step_seqs = o.max_step_seqs;
  c.pin_share = o.pin_share;
  c.prefix_cpu_blocks = o.prefix_cpu_blocks.value;
  c.prefix_wait = o.prefix_wait;
  return c;
}

// With the ranks in another order than C++ has them.
inline takt_epoch InC(const Epoch& e, std::vector<takt_agent_rank>& ranks) {
  takt_epoch c;
  takt_epoch_init(&c, sizeof c);
  if (e.alpha) c.told |= TAKT_EPOCH_ALPHA, c.alpha = *e.alpha;
  if (e.agent_ranks == nullptr) return c;
  const auto in_c = [](const AgentRank& r) {
    return takt_agent_rank{r.agent.value, r.rank, r.execution_s, r.stages_left, 0};
  };
  for (const AgentRank& r : e.agent_ranks->ranks) ranks.insert(ranks.begin(), in_c(r));
  c.told |= TAKT_EPOCH_AGENT_RANKS, c.otherwise = in_c(e.agent_ranks->otherwise);
  c.ranks = ranks.data(), c.n_ranks = ranks.size();
  return c;
}

constexpr std::array<ModelScore, 2> kScores = {{{{1}, 0.25f, 10}, {{2}, 0.5f, -1}}};

// What a host has learnt, at random.
inline Epoch DrawEpoch(fire::Dice& dice) {
  Epoch e;
  if (dice.Chance(0.5)) e.alpha = 0.01 * dice.Int(0, 100);
  if (dice.Chance(0.3)) return e;
  AgentRanks ranks;
  for (std::uint64_t agent = 0; agent < 4; ++agent) {
    const AgentRank rank{{agent}, 0.1 * dice.Int(-9, 9), 0.1 * dice.Int(0, 9), dice.Int(0, 3)};
    if (dice.Chance(0.7)) ranks.ranks.push_back(rank);
    if (dice.Chance(0.2)) ranks.otherwise = rank;
  }
  e.agent_ranks = std::make_shared<const AgentRanks>(std::move(ranks));
  return e;
}

// A batch, and all that its events point to.
class Told {
 public:
  template <class E>
  void Add(const E& e) {
    takt_event event{};
    Fill(e, event);
    events_.push_back(event);
  }
  template <class... Es>
  void Add(const std::variant<Es...>& event) {
    std::visit([this](const auto& e) { this->Add(e); }, event);
  }
  void Clear() { events_.clear(), requests_.clear(), instances_.clear(), workflows_.clear(), stages_.clear(); }

  const takt_event* data() const { return events_.data(); }
  std::size_t size() const { return events_.size(); }

 private:
  takt_request* NewRequest() {
    takt_request_init(&requests_.emplace_back(), sizeof(takt_request));
    return &requests_.back();
  }

  void Fill(const Arrived& e, takt_event& to) {
    const Request& r = e.request;
    takt_request& c = *NewRequest();
    if (!r.chunkable) c.flags |= TAKT_REQUEST_UNCHUNKABLE;
    if (!r.preemptible) c.flags |= TAKT_REQUEST_UNPREEMPTIBLE;
    c.id = r.id.value, c.workflow = r.workflow.value, c.stage = r.stage.value, c.agent = r.agent.value;
    c.tenant = r.tenant.value, c.adapter = r.adapter.value;
    c.arrival = Ns(r.arrival), c.workflow_arrival = Ns(r.workflow_arrival);
    c.deadline = Ns(r.deadline), c.expires_at = Ns(r.expires_at);
    c.prompt_tokens = r.prompt_tokens.value, c.max_output_tokens = r.max_output_tokens.value;
    c.sequences = r.sequences, c.priority = r.priority;
    c.output_tokens = InC(r.output_tokens), c.workflow_tokens_left = InC(r.workflow_tokens_left);
    c.after = InC(r.after), c.next_call = InC(r.next_call), c.compute = r.compute.count(), c.session = r.session.value;
    c.branch = r.branch;
    c.salt = r.salt;
    c.prefix_hashes = r.prefix.hashes.data(), c.n_prefix_hashes = r.prefix.hashes.size();
    c.prefix_block_tokens = r.prefix.block_tokens.value;
    c.scores = reinterpret_cast<const takt_model_score*>(r.scores.data()), c.n_scores = r.scores.size();
    to.type = TAKT_EVENT_ARRIVED, to.u.arrived.request = &c;
  }
  void Fill(const Revised& e, takt_event& to) {
    takt_request& c = *NewRequest();
    c.id = e.request.value;
    std::uint32_t told = 0;
    const auto tell = [&told](std::uint32_t bit, const auto& field, auto set) {
      if (!field) return;
      told |= bit;
      set(*field);
    };
    tell(TAKT_TOLD_OUTPUT_TOKENS, e.output_tokens, [&](const Estimate& x) { c.output_tokens = InC(x); });
    tell(TAKT_TOLD_WORKFLOW_TOKENS_LEFT, e.workflow_tokens_left,
         [&](const Estimate& x) { c.workflow_tokens_left = InC(x); });
    tell(TAKT_TOLD_AFTER, e.after, [&](const WorkAfter& x) { c.after = InC(x); });
    tell(TAKT_TOLD_DEADLINE, e.deadline, [&](TimePoint x) { c.deadline = Ns(x); });
    tell(TAKT_TOLD_EXPIRES_AT, e.expires_at, [&](TimePoint x) { c.expires_at = Ns(x); });
    tell(TAKT_TOLD_PRIORITY, e.priority, [&](std::int32_t x) { c.priority = x; });
    tell(TAKT_TOLD_SEQUENCES, e.sequences, [&](std::int32_t x) { c.sequences = x; });
    tell(TAKT_TOLD_NEXT_CALL, e.next_call, [&](const NextCall& x) { c.next_call = InC(x); });
    to.type = TAKT_EVENT_REVISED, to.u.revised.request = &c, to.u.revised.told = told;
  }
  void Fill(const Blocked& e, takt_event& to) { to.type = TAKT_EVENT_BLOCKED, to.u.request = e.request.value; }
  void Fill(const Unblocked& e, takt_event& to) { OfKv(TAKT_EVENT_UNBLOCKED, e.request, e.computed, to); }
  void Fill(const KvArrived& e, takt_event& to) { OfKv(TAKT_EVENT_KV_ARRIVED, e.request, e.computed, to); }
  void Fill(const KvLost& e, takt_event& to) { OfKv(TAKT_EVENT_KV_LOST, e.request, e.from, to); }
  static void OfKv(std::uint32_t type, RequestId request, Tokens tokens, takt_event& to) {
    to.type = type, to.u.kv = {request.value, tokens.value, 0};
  }
  void Fill(const NotReady& e, takt_event& to) { to.type = TAKT_EVENT_NOT_READY, to.u.request = e.request.value; }
  void Fill(const KvPinned& e, takt_event& to) { to.type = TAKT_EVENT_KV_PINNED, to.u.request = e.request.value; }
  void Fill(const TurnEnded& e, takt_event& to) {
    to.type = TAKT_EVENT_TURN_ENDED;
    to.u.turn_ended = {e.workflow.value,
                       e.branch,
                       static_cast<std::uint32_t>(e.why),
                       0,
                       e.tool.value,
                       std::max(e.expected, Duration::zero()).count(),
                       std::max(e.pin, Duration::zero()).count()};
  }
  void Fill(const TurnExpected& e, takt_event& to) {
    to.type = TAKT_EVENT_TURN_EXPECTED;
    to.u.turn_expected = {e.workflow.value, e.branch, e.when.time_since_epoch().count()};
  }
  void Fill(const KvFreed& e, takt_event& to) { to.type = TAKT_EVENT_KV_FREED, to.u.request = e.request.value; }
  void Fill(const ToolCalled& e, takt_event& to) {
    to.type = TAKT_EVENT_TOOL_CALLED;
    to.u.tool_called = {e.request.value, e.expected.count(), e.expected_returned.value, 0, e.tool.value};
  }
  void Fill(const ToolReturned& e, takt_event& to) {
    to.type = TAKT_EVENT_TOOL_RETURNED;
    to.u.tool_returned = {e.request.value, e.returned.value, 0, InC(e.next_call)};
  }
  void Fill(const Cancelled& e, takt_event& to) { to.type = TAKT_EVENT_CANCELLED, to.u.request = e.request.value; }
  void Fill(const MoveDone& e, takt_event& to) {
    to.type = TAKT_EVENT_MOVE_DONE, to.u.move_done = {e.move.value, e.failed, 0};
  }
  void Fill(const Drain&, takt_event& to) { to.type = TAKT_EVENT_DRAIN; }

  void Fill(const RequestStarted& e, takt_event& to) {
    to.type = TAKT_EVENT_REQUEST_STARTED, to.u.request_started = {e.request.value, e.instance.value, e.life};
  }
  void Fill(const RequestServed& e, takt_event& to) {
    to.type = TAKT_EVENT_REQUEST_SERVED;
    to.u.request_served = {e.request.value, e.instance.value, e.served.prefill.value, e.served.output.value, e.life};
  }
  void Fill(const RequestEnded& e, takt_event& to) {
    to.type = TAKT_EVENT_REQUEST_ENDED;
    const TokensServed served = e.served.value_or(TokensServed{});
    to.u.request_ended = {
        e.request.value, e.instance.value, served.prefill.value, served.output.value, e.failed, e.served.has_value(),
        e.life};
  }
  void Fill(const InstanceUp& e, takt_event& to) {
    takt_instance& c = instances_.emplace_back();
    takt_instance_init(&c, sizeof c);
    c.id = e.instance.id.value, c.model = e.instance.model.value, c.kv_tokens = e.instance.kv_tokens.value;
    c.capacity = e.instance.capacity, c.token_s = e.instance.token_s, c.profile = e.instance.profile.value;
    c.life = e.instance.life;
    to.type = TAKT_EVENT_INSTANCE_UP, to.u.instance_up.instance = &c;
  }
  void Fill(const InstanceDown& e, takt_event& to) {
    to.type = TAKT_EVENT_INSTANCE_DOWN, to.u.instance_down = {e.instance.value, e.life};
  }
  void Fill(const InstanceReported& e, takt_event& to) {
    const InstanceReport& r = e.report;
    to.type = TAKT_EVENT_INSTANCE_REPORTED;
    to.u.instance_reported = {e.instance.value, r.waiting,         r.running,   r.preempted,
                              r.kv_used.value,  r.as_of != kUnset, Ns(r.as_of), e.life};
  }
  static takt_stage StageInC(const WorkflowStage& s) {
    return {s.stage.value, s.after.data(), s.after.size(), s.cost_s, s.calls, 0};
  }
  void Fill(const WorkflowDeclared& e, takt_event& to) {
    takt_workflow& c = workflows_.emplace_back();
    takt_workflow_init(&c, sizeof c);
    std::vector<takt_stage>& stages = stages_.emplace_back();
    for (const WorkflowStage& s : e.workflow.stages) stages.push_back(StageInC(s));
    c.open = e.workflow.open, c.id = e.workflow.id.value, c.tenant = e.workflow.tenant.value;
    c.arrival = Ns(e.workflow.arrival), c.deadline = Ns(e.workflow.deadline);
    c.stages = stages.data(), c.n_stages = stages.size();
    to.type = TAKT_EVENT_WORKFLOW_DECLARED, to.u.workflow_declared.workflow = &c;
  }
  void Fill(const WorkflowGrown& e, takt_event& to) {
    to.type = TAKT_EVENT_WORKFLOW_GROWN;
    to.u.workflow_grown = {e.workflow.value, &stages_.emplace_back(1, StageInC(e.stage)).front(), e.before.data(),
                           e.before.size()};
  }
  void Fill(const StageEnded& e, takt_event& to) {
    to.type = TAKT_EVENT_STAGE_ENDED, to.u.stage_ended = {e.workflow.value, e.stage, 0};
  }
  void Fill(const WorkflowEnded& e, takt_event& to) {
    to.type = TAKT_EVENT_WORKFLOW_ENDED, to.u.workflow_ended = {e.workflow.value, e.cancelled, 0};
  }

  std::vector<takt_event> events_;
  std::deque<takt_request> requests_;
  std::deque<takt_instance> instances_;
  std::deque<takt_workflow> workflows_;
  std::deque<std::vector<takt_stage>> stages_;
};

// A block manager as the functions of C; it outlives them.
inline takt_kv_oracle InC(KvOracle& kv) {
  takt_kv_oracle c;
  takt_kv_oracle_init(&c, sizeof c);
  c.block_tokens = kv.block_tokens().value;
  c.context = &kv;
  c.snapshot = [](void* context, takt_kv_snapshot* to) {
    const KvSnapshot now = static_cast<KvOracle*>(context)->Snapshot();
    *to = {now.total.value, now.free.value, now.pending.value, 0};
  };
  c.cached = [](void* context, takt_kv_hit* hits, std::size_t n) {
    std::deque<Request> requests;
    std::vector<KvHit> in_cxx;
    for (const takt_kv_hit& hit : std::span(hits, n)) {
      Request& r = requests.emplace_back();
      r.id = {hit.request}, r.prompt_tokens = {hit.prompt_tokens};
      const std::span<const std::uint64_t> hashes(hit.prefix_hashes, hit.n_prefix_hashes);
      if (!hashes.empty()) r.prefix = {{hit.prefix_block_tokens}, hashes};
      in_cxx.push_back({&r, {hit.tokens}});
    }
    static_cast<KvOracle*>(context)->CachedTokens(in_cxx);
    for (std::size_t i = 0; i < n; ++i) hits[i].tokens = in_cxx[i].tokens.value;
  };
  c.reserve = [](void* context, std::uint64_t step, takt_kv_wish* wishes, std::size_t n) {
    std::vector<KvReservation> in_cxx;
    for (const takt_kv_wish& w : std::span(wishes, n)) {
      in_cxx.push_back({{w.request}, {w.have}, {w.want}, w.admission != 0, w.granted != 0});
    }
    static_cast<KvOracle*>(context)->Reserve({step}, in_cxx);
    for (std::size_t i = 0; i < n; ++i) {
      wishes[i].granted = in_cxx[i].granted, wishes[i].refusal = static_cast<std::uint32_t>(in_cxx[i].refusal);
    }
  };
  c.release = [](void* context, std::uint64_t request, std::uint32_t action) {
    return static_cast<KvOracle*>(context)->Release({request}, static_cast<KvAction>(action)).value;
  };
  return c;
}

}  // namespace takt

#endif  // TAKT_TESTS_C_TOLD_H_
