#include "c/events.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "c/layout.h"

namespace takt::c {

// Not by its bits: what is padding there is zero here.
takt_estimate Of(const Estimate& estimate) {
  takt_estimate to{};
  to.mean = estimate.mean;
  std::ranges::copy(estimate.quantiles, to.quantiles);
  return to;
}

NextCall Of(const takt_next_call& call) { return std::bit_cast<NextCall>(call); }

StepLimits Of(const takt_limits& limits) {
  return {{limits.tokens}, limits.max_seqs,   {limits.prefill_tokens}, {limits.chunk_tokens},
          limits.adapters, {limits.swap_out}, {limits.swap_in},        {limits.chunk_align}};
}

// ---- defaults -------------------------------------------------------------------------------------------------------

template <>
takt_request Defaults<takt_request>() {
  takt_request to;
  Fill(Request{}, to);
  return to;
}

template <>
takt_instance Defaults<takt_instance>() {
  auto to = Zeroed<takt_instance>();
  to.capacity = Instance::kUnbounded;
  return to;
}

template <>
takt_workflow Defaults<takt_workflow>() {
  auto to = Zeroed<takt_workflow>();
  to.arrival = to.deadline = TAKT_UNSET;
  return to;
}

template <>
takt_epoch Defaults<takt_epoch>() {
  return Zeroed<takt_epoch>();
}

template <>
takt_limits Defaults<takt_limits>() {
  const StepLimits plain;
  return {sizeof(takt_limits),        plain.tokens.value,       plain.max_seqs,
          plain.prefill_tokens.value, plain.chunk_tokens.value, plain.adapters,
          plain.swap_out.value,       plain.swap_in.value,      plain.chunk_align.value};
}

// ---- soundness ------------------------------------------------------------------------------------------------------

takt_status Sound(const takt_request* request) {
  if (const takt_status status = Readable(request); status != TAKT_OK) return status;
  takt_request local;
  const takt_request& r = Whole(request, local);
  constexpr std::uint32_t kFlags = TAKT_REQUEST_UNCHUNKABLE | TAKT_REQUEST_UNPREEMPTIBLE;
  const bool reserved = (r.reserved | r.output_tokens.reserved | r.workflow_tokens_left.reserved) == 0;
  return FirstOf(Meant((r.flags & ~kFlags) == 0 && reserved), Given(r.prefix_hashes, r.n_prefix_hashes),
                 Given(r.scores, r.n_scores));
}

takt_status SoundToRank(const takt_request* request) {
  if (const takt_status status = Sound(request); status != TAKT_OK) return status;
  takt_request local;
  return Meant(Whole(request, local).sequences >= 1);
}

takt_status Sound(const takt_instance* instance) {
  if (const takt_status status = Readable(instance); status != TAKT_OK) return status;
  takt_instance local;
  const takt_instance& i = Whole(instance, local);
  return i.role == TAKT_ROLE_BOTH && i.reserved == 0 ? TAKT_OK : TAKT_E_INVALID;
}

takt_status Sound(const takt_stage* stage) {
  if (stage == nullptr) return TAKT_E_NULL;
  return FirstOf(Meant(stage->reserved == 0), Given(stage->after, stage->n_after));
}

takt_status Sound(const takt_workflow* workflow) {
  if (const takt_status status = Readable(workflow); status != TAKT_OK) return status;
  takt_workflow local;
  const takt_workflow& w = Whole(workflow, local);
  takt_status status = Given(w.stages, w.n_stages);
  for (std::size_t i = 0; status == TAKT_OK && i < w.n_stages; ++i) status = Sound(&w.stages[i]);
  return status;
}

// ---- facts ----------------------------------------------------------------------------------------------------------

void Fill(const takt_request* from, Request& to) {
  takt_request local;
  const takt_request& r = Whole(from, local);
  to.id = {r.id}, to.workflow = {r.workflow}, to.stage = {r.stage}, to.agent = {r.agent}, to.tenant = {r.tenant};
  to.adapter = {r.adapter};
  to.arrival = At(r.arrival), to.workflow_arrival = At(r.workflow_arrival);
  to.deadline = At(r.deadline), to.expires_at = At(r.expires_at);
  to.prompt_tokens = {r.prompt_tokens}, to.max_output_tokens = {r.max_output_tokens};
  to.sequences = r.sequences, to.priority = r.priority;
  to.chunkable = (r.flags & TAKT_REQUEST_UNCHUNKABLE) == 0;
  to.preemptible = (r.flags & TAKT_REQUEST_UNPREEMPTIBLE) == 0;
  to.output_tokens = std::bit_cast<Estimate>(r.output_tokens);
  to.workflow_tokens_left = std::bit_cast<Estimate>(r.workflow_tokens_left);
  to.after = std::bit_cast<WorkAfter>(r.after);
  to.next_call = Of(r.next_call);
  to.compute = Duration(r.compute);
  to.session = {r.session};
  to.branch = r.branch;
  to.salt = r.salt;
  to.prefix = {{r.prefix_block_tokens}, {r.prefix_hashes, r.n_prefix_hashes}};
  if (r.n_prefix_hashes == 0) to.prefix = {};
  to.scores = {FromC<ModelScore>(r.scores), r.n_scores};
}

void Fill(const Request& from, takt_request& to) {
  to = Zeroed<takt_request>();
  if (!from.chunkable) to.flags |= TAKT_REQUEST_UNCHUNKABLE;
  if (!from.preemptible) to.flags |= TAKT_REQUEST_UNPREEMPTIBLE;
  to.id = from.id.value, to.workflow = from.workflow.value, to.stage = from.stage.value, to.agent = from.agent.value;
  to.tenant = from.tenant.value, to.adapter = from.adapter.value, to.session = from.session.value;
  to.branch = from.branch;
  to.salt = from.salt;
  to.arrival = Ns(from.arrival), to.workflow_arrival = Ns(from.workflow_arrival);
  to.deadline = Ns(from.deadline), to.expires_at = Ns(from.expires_at);
  to.prompt_tokens = from.prompt_tokens.value, to.max_output_tokens = from.max_output_tokens.value;
  to.sequences = from.sequences, to.priority = from.priority;
  to.output_tokens = Of(from.output_tokens), to.workflow_tokens_left = Of(from.workflow_tokens_left);
  to.after = std::bit_cast<takt_work_after>(from.after);
  to.next_call = std::bit_cast<takt_next_call>(from.next_call);
  to.compute = from.compute.count();
  to.prefix_hashes = from.prefix.hashes.data(), to.n_prefix_hashes = from.prefix.hashes.size();
  to.prefix_block_tokens = from.prefix.block_tokens.value;
  to.scores = AsC<takt_model_score>(from.scores.data()), to.n_scores = from.scores.size();
}

void Fill(const takt_request* from, std::uint32_t told, Revised& to) {
  takt_request local;
  const takt_request& r = Whole(from, local);
  to.request = {r.id};
  if ((told & TAKT_TOLD_OUTPUT_TOKENS) != 0) to.output_tokens = std::bit_cast<Estimate>(r.output_tokens);
  if ((told & TAKT_TOLD_WORKFLOW_TOKENS_LEFT) != 0)
    to.workflow_tokens_left = std::bit_cast<Estimate>(r.workflow_tokens_left);
  if ((told & TAKT_TOLD_AFTER) != 0) to.after = std::bit_cast<WorkAfter>(r.after);
  if ((told & TAKT_TOLD_DEADLINE) != 0) to.deadline = At(r.deadline);
  if ((told & TAKT_TOLD_EXPIRES_AT) != 0) to.expires_at = At(r.expires_at);
  if ((told & TAKT_TOLD_PRIORITY) != 0) to.priority = r.priority;
  if ((told & TAKT_TOLD_SEQUENCES) != 0) to.sequences = r.sequences;
  if ((told & TAKT_TOLD_NEXT_CALL) != 0) to.next_call = Of(r.next_call);
}

void Fill(const takt_instance* from, Instance& to) {
  takt_instance local;
  const takt_instance& i = Whole(from, local);
  to.id = {i.id}, to.model = {i.model};
  to.kv_tokens = {i.kv_tokens};
  to.capacity = i.capacity;
  to.token_s = i.token_s;
  to.profile = {i.profile};
  to.life = i.life;
}

void Fill(const takt_stage& from, WorkflowStage& to) {
  to.stage = {from.stage};
  to.after.assign(from.after, from.after + from.n_after);
  to.calls = from.calls;
  to.cost_s = from.cost_s;
}

void Fill(const takt_workflow* from, Workflow& to) {
  takt_workflow local;
  const takt_workflow& w = Whole(from, local);
  to.id = {w.id}, to.tenant = {w.tenant};
  to.arrival = At(w.arrival), to.deadline = At(w.deadline);
  to.open = w.open != 0;
  to.stages.resize(w.n_stages);
  for (std::size_t i = 0; i < w.n_stages; ++i) Fill(w.stages[i], to.stages[i]);
}

static_assert(static_cast<int>(FaultKind::kChunkAlign) == TAKT_FAULT_CHUNK_ALIGN &&
              static_cast<int>(FaultKind::kUnknownRow) == TAKT_FAULT_UNKNOWN_ROW);
takt_fault FaultOf(const Fault& f, std::uint64_t count) {
  return {
      0, static_cast<std::uint32_t>(f.kind), count, f.step.value, f.request.value, Ns(f.at), f.said, f.expected, f.lane,
      0};
}

takt_status Take(const takt_epoch* from, Epoch& to) {
  if (const takt_status status = Readable(from); status != TAKT_OK) return status;
  takt_epoch local;
  const takt_epoch& e = Whole(from, local);
  if (const takt_status status = Given(e.ranks, e.n_ranks); status != TAKT_OK) return status;
  const auto meant = [](const takt_agent_rank& r) {
    return std::isfinite(r.rank) && std::isfinite(r.execution_s) && r.execution_s >= 0 && r.stages_left >= 0 &&
           r.reserved == 0;
  };
  if ((e.told & ~std::uint32_t{TAKT_EPOCH_AGENT_RANKS | TAKT_EPOCH_ALPHA}) != 0) return TAKT_E_INVALID;
  if ((e.told & TAKT_EPOCH_ALPHA) != 0) {
    if (!(0 <= e.alpha && e.alpha <= 1)) return TAKT_E_INVALID;
    to.alpha = e.alpha;
  }
  if ((e.told & TAKT_EPOCH_AGENT_RANKS) != 0) {
    if (!meant(e.otherwise) || !std::all_of(e.ranks, e.ranks + e.n_ranks, meant)) return TAKT_E_INVALID;
    const auto* ranks = FromC<AgentRank>(e.ranks);
    AgentRanks table{{ranks, ranks + e.n_ranks}, *FromC<AgentRank>(&e.otherwise)};
    std::ranges::sort(table.ranks, {}, &AgentRank::agent);
    if (std::ranges::adjacent_find(table.ranks, {}, &AgentRank::agent) != table.ranks.end()) return TAKT_E_INVALID;
    to.agent_ranks = std::make_shared<const AgentRanks>(std::move(table));
  }
  return TAKT_OK;
}

void Fill(const takt_event& from, Arrived& to) { Fill(from.u.arrived.request, to.request); }
void Fill(const takt_event& from, Revised& to) { Fill(from.u.revised.request, from.u.revised.told, to); }
void Fill(const takt_event& from, Blocked& to) { to.request = {from.u.request}; }
void Fill(const takt_event& from, Unblocked& to) { to = {{from.u.kv.request}, {from.u.kv.tokens}}; }
void Fill(const takt_event& from, NotReady& to) { to.request = {from.u.request}; }
void Fill(const takt_event& from, KvArrived& to) { to = {{from.u.kv.request}, {from.u.kv.tokens}}; }
void Fill(const takt_event& from, KvLost& to) { to = {{from.u.kv.request}, {from.u.kv.tokens}}; }
void Fill(const takt_event& from, KvPinned& to) { to.request = {from.u.request}; }
static_assert(static_cast<int>(TurnWhy::kTool) == TAKT_TURN_TOOL &&
              static_cast<int>(TurnWhy::kUser) == TAKT_TURN_USER &&
              static_cast<int>(TurnWhy::kChildren) == TAKT_TURN_CHILDREN &&
              static_cast<int>(TurnWhy::kOver) == TAKT_TURN_OVER);
void Fill(const takt_event& from, TurnEnded& to) {
  const auto& e = from.u.turn_ended;
  to = {{e.workflow}, e.branch, static_cast<TurnWhy>(e.why), {e.tool}, Duration(e.expected), Duration(e.pin)};
}
void Fill(const takt_event& from, TurnExpected& to) {
  const auto& e = from.u.turn_expected;
  to = {{e.workflow}, e.branch, TimePoint(Duration(e.when))};
}
void Fill(const takt_event& from, KvFreed& to) { to.request = {from.u.request}; }
void Fill(const takt_event& from, ToolCalled& to) {
  const auto& e = from.u.tool_called;
  to = {{e.request}, Duration(e.expected), {e.expected_returned}, {e.tool}};
}
void Fill(const takt_event& from, ToolReturned& to) {
  const auto& e = from.u.tool_returned;
  to = {{e.request}, {e.returned}, Of(e.next_call)};
}
void Fill(const takt_event& from, Cancelled& to) { to.request = {from.u.request}; }
void Fill(const takt_event& from, MoveDone& to) { to = {{from.u.move_done.move}, from.u.move_done.failed != 0}; }
void Fill(const takt_event&, Drain&) {}
void Fill(const takt_event& from, RequestStarted& to) {
  const auto& e = from.u.request_started;
  to = {{e.request}, {e.instance}, e.life};
}
void Fill(const takt_event& from, RequestServed& to) {
  const auto& e = from.u.request_served;
  to = {{e.request}, {e.instance}, {{e.prefill}, {e.output}}, e.life};
}
void Fill(const takt_event& from, RequestEnded& to) {
  const auto& e = from.u.request_ended;
  to.request = {e.request}, to.instance = {e.instance}, to.life = e.life;
  to.failed = e.failed != 0;
  if (e.served != 0) to.served = TokensServed{{e.prefill}, {e.output}};
}
void Fill(const takt_event& from, InstanceUp& to) { Fill(from.u.instance_up.instance, to.instance); }
void Fill(const takt_event& from, InstanceDown& to) {
  to = {{from.u.instance_down.instance}, from.u.instance_down.life};
}
void Fill(const takt_event& from, InstanceReported& to) {
  const auto& e = from.u.instance_reported;
  to = {{e.instance}, {e.waiting, e.running, e.preempted, {e.kv_used}, e.dated != 0 ? At(e.as_of) : kUnset}, e.life};
}
void Fill(const takt_event& from, WorkflowDeclared& to) { Fill(from.u.workflow_declared.workflow, to.workflow); }
void Fill(const takt_event& from, WorkflowGrown& to) {
  const auto& e = from.u.workflow_grown;
  to.workflow = {e.workflow};
  Fill(*e.stage, to.stage);
  to.before.assign(e.before, e.before + e.n_before);
}
void Fill(const takt_event& from, StageEnded& to) { to = {{from.u.stage_ended.workflow}, from.u.stage_ended.stage}; }
void Fill(const takt_event& from, WorkflowEnded& to) {
  to = {{from.u.workflow_ended.workflow}, from.u.workflow_ended.cancelled != 0};
}

}  // namespace takt::c
