// Ranks of agents for the C interface, learned from ended calls.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "c/same.h"
#include "takt/learning/agent_learner.h"
#include "takt/learning/agent_names.h"

struct takt_agent_learner : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kAgentLearner;

  explicit takt_agent_learner(const takt::AgentLearnerOptions& options)
      : Handle(kKind), learner(std::in_place, options), names(options.graph.max_agents) {}
  void End() { learner.reset(), names = takt::AgentNames(0), ranks = {}, saved = {}; }

  std::optional<takt::AgentLearner> learner;
  takt::AgentNames names;
  std::vector<takt_agent_rank> ranks;
  std::string saved;
};

namespace takt::c {

static_assert(int{TAKT_AGENTS_BY_MEDIAN} == static_cast<int>(AgentOrderBy::kMedian));
TAKT_SAME_SIZE(CallRecord, takt_call_record);
TAKT_SAME_PLACE(CallRecord, takt_call_record, upstream);
TAKT_SAME_PLACE(CallRecord, takt_call_record, start);
TAKT_SAME_PLACE(CallRecord, takt_call_record, end);

template <>
takt_agent_learner_options Defaults<takt_agent_learner_options>() {
  const AgentLearnerOptions plain;
  auto to = Zeroed<takt_agent_learner_options>();
  to.order = static_cast<std::uint32_t>(plain.order.by);
  to.wall_clock = plain.wall_clock ? 1 : 0, to.converged_only = plain.converged_only ? 1 : 0;
  to.max_agents = plain.graph.max_agents, to.max_workflows = plain.graph.max_workflows;
  to.retire_after = plain.graph.retire_after.count();
  to.hash_seed = plain.graph.hash_seed;
  return to;
}

namespace {

takt_status OptionsOf(const takt_agent_learner_options& from, AgentLearnerOptions& to, takt_error* error) {
  constexpr std::uint32_t kMost = 1u << 20;
  if (from.order > TAKT_AGENTS_BY_MEDIAN) return Say(error, TAKT_E_INVALID, "order: is invalid; expected 0 to 3");
  if (from.wall_clock > 1) return Say(error, TAKT_E_INVALID, "wall_clock: is invalid; expected 0 or 1");
  if (from.converged_only > 1) return Say(error, TAKT_E_INVALID, "converged_only: is invalid; expected 0 or 1");
  if (from.max_agents < 1 || from.max_agents > kMost) {
    return Say(error, TAKT_E_INVALID, "max_agents: is invalid; expected 1 to 1048576");
  }
  if (from.max_workflows < 1 || from.max_workflows > kMost) {
    return Say(error, TAKT_E_INVALID, "max_workflows: is invalid; expected 1 to 1048576");
  }
  if (from.retire_after <= 0) return Say(error, TAKT_E_INVALID, "retire_after: is invalid; expected above 0");
  to.order.by = static_cast<AgentOrderBy>(from.order);
  to.wall_clock = from.wall_clock != 0, to.converged_only = from.converged_only != 0;
  to.graph.max_agents = to.profile.max_agents = from.max_agents;
  to.graph.max_workflows = from.max_workflows;
  to.graph.retire_after = Duration(from.retire_after);
  to.graph.hash_seed = to.profile.hash_seed = from.hash_seed;
  return TAKT_OK;
}

// Copies by field, so that padding is zero.
takt_agent_rank InC(const AgentRank& rank) {
  return {rank.agent.value, rank.rank, rank.execution_s, rank.stages_left, 0};
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

void takt_agent_learner_options_init(takt_agent_learner_options* options, size_t size) noexcept { Init(options, size); }

takt_status takt_agent_learner_create(const takt_agent_learner_options* options, takt_agent_learner** learner,
                                      takt_error* error) noexcept {
  if (learner == nullptr) return Say(error, TAKT_E_NULL, "learner is NULL");
  *learner = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_agent_learner_options local;
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    AgentLearnerOptions made;
    if (const takt_status status = OptionsOf(Whole(options, local), made, error); status != TAKT_OK) return status;
    *learner = std::make_unique<takt_agent_learner>(made).release();
    return TAKT_OK;
  });
}

takt_status takt_agent_learner_destroy(takt_agent_learner* learner) noexcept { return Destroy(learner); }

takt_status takt_agent_learner_agent(takt_agent_learner* learner, const char* name, size_t n,
                                     uint64_t* agent) noexcept {
  if (const takt_status status = FirstOf(Valid(learner), Given(name, n), Given(agent, 1)); status != TAKT_OK)
    return status;
  *agent = learner->names.Intern({name, n}).value;
  return TAKT_OK;
}

takt_status takt_agent_learner_add(takt_agent_learner* learner, const takt_call_record* calls, size_t n, int64_t now,
                                   size_t* kept) noexcept {
  if (const takt_status status = FirstOf(Valid(learner), Given(calls, n)); status != TAKT_OK) return status;
  std::size_t valid = 0;
  for (const CallRecord& call : std::span(FromC<CallRecord>(calls), n)) {
    if (learner->learner->Add(call, At(now))) ++valid;
  }
  WriteCount(valid, kept);
  return TAKT_OK;
}

takt_status takt_agent_learner_close(takt_agent_learner* learner, uint64_t workflow) noexcept {
  if (const takt_status status = Valid(learner); status != TAKT_OK) return status;
  return Meant(learner->learner->Close({workflow}));
}

takt_status takt_agent_learner_forget(takt_agent_learner* learner, uint64_t workflow) noexcept {
  if (const takt_status status = Valid(learner); status != TAKT_OK) return status;
  return Meant(learner->learner->Forget({workflow}));
}

takt_status takt_agent_learner_epoch(takt_agent_learner* learner, takt_epoch* epoch) noexcept {
  if (const takt_status status = FirstOf(Valid(learner), Writable(epoch)); status != TAKT_OK) return status;
  auto to = Zeroed<takt_epoch>();
  if (const auto table = learner->learner->Table(); table != nullptr) {
    learner->ranks.clear();
    for (const AgentRank& rank : table->ranks) learner->ranks.push_back(InC(rank));
    to.fields = TAKT_EPOCH_AGENT_RANKS;
    to.ranks = learner->ranks.data(), to.n_ranks = learner->ranks.size();
    to.otherwise = InC(table->otherwise);
  }
  Write(to, epoch);
  return TAKT_OK;
}

takt_status takt_agent_learner_save(takt_agent_learner* learner, const char** text, size_t* n) noexcept {
  if (const takt_status status = FirstOf(Valid(learner), Given(text, 1), Given(n, 1)); status != TAKT_OK) return status;
  learner->saved = learner->learner->Save(learner->names);
  *text = learner->saved.data(), *n = learner->saved.size();
  return TAKT_OK;
}

takt_status takt_agent_learner_load(takt_agent_learner* learner, const char* text, size_t n,
                                    takt_error* error) noexcept {
  if (const takt_status status = FirstOf(Valid(learner), Given(text, n)); status != TAKT_OK)
    return Say(error, status, takt_status_name(status));
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    const absl::Status status = learner->learner->Load({text, n}, learner->names);
    return status.ok() ? TAKT_OK : Invalid(error, "", status);
  });
}
