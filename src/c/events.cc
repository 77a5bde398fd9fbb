#include "c/events.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace takt::c {

StepLimits Of(const takt_limits& limits) {
  StepLimits to;
  Pair(IntoCxx(), limits, to);
  return to;
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
  const Instance plain{};
  Pair(IntoC(), to, plain);
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
  auto to = Zeroed<takt_limits>();
  const StepLimits plain;
  Pair(IntoC(), to, plain);
  return to;
}

// ---- soundness ------------------------------------------------------------------------------------------------------

takt_status Sound(const takt_request* request) {
  if (const takt_status status = Readable(request); status != TAKT_OK) return status;
  takt_request local;
  return SoundFields(Whole(request, local));
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
  return FirstOf(Meant(i.role <= TAKT_ROLE_DECODE), SoundFields(i));
}

takt_status Sound(const takt_stage* stage) { return stage == nullptr ? TAKT_E_NULL : SoundFields(*stage); }

takt_status Sound(const takt_workflow* workflow) {
  if (const takt_status status = Readable(workflow); status != TAKT_OK) return status;
  takt_workflow local;
  const takt_workflow& w = Whole(workflow, local);
  takt_status status = SoundFields(w);
  for (std::size_t i = 0; status == TAKT_OK && i < w.n_stages; ++i) status = Sound(&w.stages[i]);
  return status;
}

// ---- facts ----------------------------------------------------------------------------------------------------------

void Fill(const Request& from, takt_request& to) {
  to = Zeroed<takt_request>();
  Pair(IntoC(), to, from);
}

takt_fault FaultOf(const Fault& f, std::uint64_t count) {
  return {0,
          static_cast<std::uint32_t>(f.kind),
          count,
          f.step.value,
          f.request.value,
          Ns(f.at),
          f.received,
          f.expected,
          f.lane,
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
  if ((e.fields & ~std::uint32_t{TAKT_EPOCH_AGENT_RANKS | TAKT_EPOCH_ALPHA}) != 0) return TAKT_E_INVALID;
  if ((e.fields & TAKT_EPOCH_ALPHA) != 0) {
    if (!(0 <= e.alpha && e.alpha <= 1)) return TAKT_E_INVALID;
    to.alpha = e.alpha;
  }
  if ((e.fields & TAKT_EPOCH_AGENT_RANKS) != 0) {
    if (!meant(e.otherwise) || !std::all_of(e.ranks, e.ranks + e.n_ranks, meant)) return TAKT_E_INVALID;
    const auto* ranks = FromC<AgentRank>(e.ranks);
    AgentRanks table{{ranks, ranks + e.n_ranks}, *FromC<AgentRank>(&e.otherwise)};
    std::ranges::sort(table.ranks, {}, &AgentRank::agent);
    if (std::ranges::adjacent_find(table.ranks, {}, &AgentRank::agent) != table.ranks.end()) return TAKT_E_INVALID;
    to.agent_ranks = std::make_shared<const AgentRanks>(std::move(table));
  }
  return TAKT_OK;
}

}  // namespace takt::c
