#include "takt/router.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "c/bounds.h"
#include "c/events.h"
#include "c/handle.h"
#include "c/inbox.h"
#include "c/memory.h"
#include "c/metrics.h"
#include "c/policy.h"
#include "c/stats.h"
#include "takt/model/cost_model.h"
#include "takt/model/stage_times.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/registry.h"
#include "takt/workflow/slo_budget.h"

struct takt_router : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kRouter;

  takt_router() : Handle(kKind) {}
  void End() { router.reset(), watching.metrics.reset(), profiles.clear(); }

  struct Profile {
    std::uint64_t id = 0;
    takt_cost_model cost = {};  // zeros: none
  };

  takt::c::Watching watching;
  std::optional<takt::Router> router;
  std::map<std::string, Profile, std::less<>> profiles;
};

namespace takt::c {

template <>
takt_router_options Defaults<takt_router_options>() {
  const RouterOptions plain;
  auto to = Zeroed<takt_router_options>();
  PutBounds(plain, to);
  to.window = plain.window;
  to.max_outstanding = plain.max_outstanding;
  to.reserve_requests = plain.reserve_requests;
  to.hash_seed = plain.hash_seed;
  to.fail_unfit = plain.fail_unfit ? 1 : 0;
  to.local_tokens = plain.local_tokens, to.local_if_sooner = plain.local_if_sooner ? 1 : 0;
  to.kv_link_gb_s = plain.kv_link_gb_s;
  return to;
}
template <>
takt_cost_model Defaults<takt_cost_model>() {
  const CostModel plain;
  auto to = Zeroed<takt_cost_model>();
  to.tp = plain.tp, to.host_link_gb_s = plain.host_link_gb_s;
  return to;
}

namespace {

static_assert(int{TAKT_BUDGETS_WHOLE} == static_cast<int>(BudgetRule::kWhole) + 1);
static_assert(int{TAKT_BLOWN_ZERO} == static_cast<int>(BlownRule::kZero));

takt_status BudgetsOf(const takt_router_options& from, RouterOptions& to, takt_error* error) {
  if (from.budgets > TAKT_BUDGETS_WHOLE) return Say(error, TAKT_E_INVALID, "budgets: is invalid; expected 0 to 2");
  if (from.blown > TAKT_BLOWN_ZERO) return Say(error, TAKT_E_INVALID, "blown: is invalid; expected 0 to 2");
  if (from.budgets != TAKT_BUDGETS_NONE) {
    to.budgets = {static_cast<BudgetRule>(from.budgets - 1), static_cast<BlownRule>(from.blown)};
  }
  if (from.n_stage_times == 0) return TAKT_OK;
  if (from.stage_times == nullptr) return Say(error, TAKT_E_NULL, "stage_times is NULL");
  auto times = std::make_shared<StageTimes>();
  for (const takt_stage_time& each : std::span(from.stage_times, from.n_stage_times)) {
    if (each.profile == nullptr) return Say(error, TAKT_E_NULL, "stage_times: profile is NULL");
    if (each.time < 0) return Say(error, TAKT_E_INVALID, "stage_times: time is negative; expected 0 or more");
    times->Set({each.stage}, each.profile, Duration(each.time));
  }
  to.stage_times = std::move(times);
  return TAKT_OK;
}

CostModel CostOf(const takt_cost_model& from) {
  CostModel to;
  to.tp = from.tp;
  to.served = {from.constant_ms, from.per_decode_ms, from.per_context_ms, from.per_prefill_ms};
  to.overhead_per_sample_ms = from.per_sample_ms;
  to.kv_bytes_per_token = from.kv_bytes_per_token, to.host_link_gb_s = from.host_link_gb_s;
  return to;
}

takt_status Create(const takt_router_options& from, takt_router** to, takt_error* error) {
  if (from.reserved != 0) return NotReserved(error);
  RouterOptions options;
  options.max_outstanding = from.max_outstanding, options.window = from.window;
  options.fail_unfit = from.fail_unfit != 0;
  options.reserve_requests = from.reserve_requests, options.hash_seed = from.hash_seed;
  options.max_held = from.max_held, options.max_down = from.max_down;
  options.local_tokens = from.local_tokens, options.local_if_sooner = from.local_if_sooner != 0;
  options.kv_link_gb_s = from.kv_link_gb_s;
  if (const takt_status status = TakeBounds(from, options, error); status != TAKT_OK) return status;
  if (absl::Status status = options.Validate(); !status.ok()) return Invalid(error, "", status);
  if (const takt_status made = BudgetsOf(from, options, error); made != TAKT_OK) return made;
  AnyPolicy policy;
  const char* text = from.policy == nullptr && from.key == nullptr ? "fcfs" : from.policy;
  if (const takt_status made = MakePolicy(text, from.key, policy, error); made != TAKT_OK) return made;
  absl::StatusOr<AnyPlacement> placement =
      from.placement == nullptr ? AnyPlacement(LeastLoaded{}) : MakePlacement(from.placement);
  if (!placement.ok()) return Invalid(error, "placement: ", placement.status());
  absl::StatusOr<AnyPlacement> decode_placement =
      from.decode_placement == nullptr ? *placement : MakePlacement(from.decode_placement);
  if (!decode_placement.ok()) return Invalid(error, "decode_placement: ", decode_placement.status());
  auto handle = std::make_unique<takt_router>();
  absl::StatusOr<Router> router =
      Router::Create(options, std::move(policy), *std::move(placement), *std::move(decode_placement));
  if (!router.ok()) return Invalid(error, "", router.status());
  handle->router.emplace(*std::move(router));
  *to = handle.release();
  return TAKT_OK;
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

void takt_router_options_init(takt_router_options* options, size_t size) noexcept { Init(options, size); }

takt_status takt_router_create(const takt_router_options* options, takt_router** router, takt_error* error) noexcept {
  if (router == nullptr) return Say(error, TAKT_E_NULL, "router is NULL");
  *router = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_router_options local;
  const takt_router_options& whole = Whole(options, local);
  return UnlessMemoryEnds(error, [&] { return Create(whole, router, error); });
}

takt_status takt_router_destroy(takt_router* router) noexcept { return Destroy(router); }

takt_status takt_router_on(takt_router* router, const takt_event* events, size_t n, int64_t now) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return status;
  if (const takt_status status = Sound<RouterEvent>(events, n); status != TAKT_OK) return status;
  const Busy busy(*router);
  ForEach<RouterEvent>(events, n, [&](const RouterEvent& event) { router->router->On(event, At(now)); });
  return TAKT_OK;
}

takt_status takt_router_set_options(takt_router* router, const char* changes, int64_t now, takt_error* error) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) {
    return Say(error, status, takt_status_name(status));
  }
  const Busy busy(*router);
  return ChangeOptions(router->router->options(), changes, error,
                       [&](const RouterOptions& to) { return router->router->SetOptions(to, At(now)); });
}

takt_status takt_router_epoch(takt_router* router, const takt_epoch* epoch, int64_t now) noexcept {
  Epoch taken;
  if (const takt_status status = FirstOf(Valid(router), Take(epoch, taken)); status != TAKT_OK) return status;
  const Busy busy(*router);
  router->router->On(taken, At(now));
  return TAKT_OK;
}

takt_status takt_router_take(takt_router* router, takt_inbox* inbox, int64_t now, size_t* n) noexcept {
  return TakeAll(router, inbox, &takt_inbox::of_router, n,
                 [&](const RouterEvent& event) { router->router->On(event, At(now)); });
}

takt_status takt_router_place(takt_router* router, int64_t now, takt_routing* routing) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Writable(routing)); status != TAKT_OK) return status;
  const Busy busy(*router);
  Router& r = *router->router;
  const std::span<const Placement> placed = r.Place(At(now));
  takt_routing to;
  to.reserved = 0;
  to.placed = AsC<takt_placement>(placed.data()), to.n_placed = placed.size();
  to.failed = AsC<takt_failure>(r.failed().data()), to.n_failed = r.failed().size();
  to.ended = AsC<takt_workflow_end>(r.ended_workflows().data()), to.n_ended = r.ended_workflows().size();
  to.faults = AsC<takt_workflow_fault>(r.workflow_faults().data()), to.n_faults = r.workflow_faults().size();
  to.wake_at = Ns(r.wake_at());
  to.decodes = AsC<takt_placement>(r.decodes().data()), to.n_decodes = r.decodes().size();
  to.withdrawn = AsC<takt_placement>(r.withdrawn().data()), to.n_withdrawn = r.withdrawn().size();
  Write(to, routing);
  return TAKT_OK;
}

takt_status takt_router_wake_at(const takt_router* router, int64_t* wake_at) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Given(wake_at, 1)); status != TAKT_OK) return status;
  *wake_at = Ns(router->router->wake_at());
  return TAKT_OK;
}

takt_status takt_router_score(takt_router* router, const takt_request* request, const uint64_t* instances, size_t n,
                              int64_t now, double* scores, size_t* possible) noexcept {
  const takt_status status = FirstOf(Valid(router), SoundToRank(request), Given(instances, n), Given(scores, n));
  if (status != TAKT_OK) return status;
  Request filled;
  Fill(request, filled);
  const std::size_t places =
      router->router->Score(filled, {FromC<InstanceId>(instances), n}, At(now), std::span(scores, n));
  if (possible != nullptr) *possible = places;
  return TAKT_OK;
}

takt_status takt_router_place_at(takt_router* router, uint64_t request, uint64_t instance, int64_t now) noexcept {
  return takt_router_place_apart(router, request, instance, 0, now);
}

takt_status takt_router_place_apart(takt_router* router, uint64_t request, uint64_t instance, uint64_t decode,
                                    int64_t now) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return status;
  const Busy busy(*router);
  return router->router->PlaceAt({request}, {instance}, At(now), {decode}) ? TAKT_OK : TAKT_E_INVALID;
}

takt_status takt_router_instance_of(const takt_router* router, uint64_t request, uint64_t* instance) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Given(instance, 1)); status != TAKT_OK) return status;
  *instance = router->router->InstanceOf({request}).value;
  return TAKT_OK;
}

const char* takt_router_policy(const takt_router* router) noexcept {
  return Valid(router) == TAKT_OK ? router->router->policy().spec().c_str() : nullptr;
}

size_t takt_router_learnt(const takt_router* router, uint64_t* numbers, size_t n) noexcept {
  return Valid(router) == TAKT_OK ? ReadLearnt(router->router->policy(), numbers, n) : 0;
}

takt_status takt_router_load_learnt(takt_router* router, const uint64_t* numbers, size_t n,
                                    takt_error* error) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  if (numbers == nullptr && n > 0) return Say(error, TAKT_E_NULL, "numbers is NULL");
  const Busy busy(*router);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    if (router->router->alive() > 0) return Say(error, TAKT_E_INVALID, "the router has requests; expected none");
    if (router->router->LoadLearnt({numbers, n})) return TAKT_OK;
    return Say(error, TAKT_E_INVALID, "numbers: are invalid; expected numbers that this policy has learned");
  });
}

void takt_cost_model_init(takt_cost_model* cost, size_t size) noexcept { Init(cost, size); }

takt_status takt_router_add_profile(takt_router* router, const char* name, const takt_cost_model* cost,
                                    uint64_t* profile, takt_error* error) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  if (name == nullptr || profile == nullptr) return Say(error, TAKT_E_NULL, "name or profile is NULL");
  takt_cost_model given{};
  if (cost != nullptr) {
    if (const takt_status status = Readable(cost); status != TAKT_OK) {
      return Say(error, status, "cost.struct_size: is invalid; expected a known size, and zeros in new fields");
    }
    takt_cost_model local;
    given = Whole(cost, local);
    given.struct_size = sizeof given;
  }
  const Busy busy(*router);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    std::shared_ptr<const PreparedCostModel> prepared;
    if (cost != nullptr) {
      const CostModel model = CostOf(given);
      if (const std::string faults = model.Faults(); !faults.empty()) {
        return Say(error, TAKT_E_INVALID, "cost: " + faults);
      }
      prepared = std::make_shared<const PreparedCostModel>(model);
    }
    takt_router::Profile& kept = router->profiles[name];
    if (kept.id != 0 && std::memcmp(&kept.cost, &given, sizeof given) != 0) {
      return Say(error, TAKT_E_INVALID, "cost: differs from that of the profile with this name; expected another name");
    }
    if (kept.id == 0) kept = {router->router->AddProfile({name, std::move(prepared)}).value, given};
    *profile = kept.id;
    return TAKT_OK;
  });
}

takt_status takt_router_last_fault(const takt_router* router, takt_fault* fault) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Writable(fault)); status != TAKT_OK) return status;
  takt_fault to = FaultOf(router->router->last_fault(), router->router->stats().faults());
  Write(to, fault);
  return TAKT_OK;
}

size_t takt_router_stats(const takt_router* router, takt_stat* stats, size_t n) noexcept {
  return Valid(router) == TAKT_OK ? WriteStats(kRouterCounters, router->router->stats(), stats, n) : 0;
}

takt_status takt_router_count(const takt_router* router, takt_router_counts* counts) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Writable(counts)); status != TAKT_OK) return status;
  const Router& r = *router->router;
  takt_router_counts to{0, static_cast<std::uint32_t>(r.instances().size()), r.alive(), r.waiting(), r.set_aside()};
  Write(to, counts);
  return TAKT_OK;
}

takt_status takt_router_measure(takt_router* router, const takt_metrics_options* options, takt_error* error) noexcept {
  return Measure(router, options, error, [&](Observer observer) { router->router->Watch(observer); });
}

takt_status takt_router_name_class(takt_router* router, int64_t key, const char* name, takt_error* error) noexcept {
  return NameClass(router, key, name, error);
}

takt_status takt_router_saturation(takt_router* router, int64_t now, takt_saturation* saturation) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Writable(saturation)); status != TAKT_OK) return status;
  return ReadSaturation(router, now, KvShare(router->router->instances()), saturation);
}

takt_status takt_router_metrics(takt_router* router, int64_t now, const char* names, const char* model,
                                const char** text, size_t* n) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Given(text, 1)); status != TAKT_OK) return status;
  const Router& r = *router->router;
  return WriteMetrics(router, now, names, model, KvShare(r.instances()), false, text, n,
                      [&](MetricsText& out) { out.Write(FiguresOfRouter(r)); });
}

takt_status takt_router_watch(takt_router* router, const takt_observer* observer) noexcept {
  return SetObserver(router, observer, [&](Observer o) { router->router->Watch(o); });
}

static_assert(static_cast<int>(CandidateState::kTooSmall) == TAKT_CANDIDATE_TOO_SMALL);

takt_status takt_router_explain(takt_router* router, const takt_request* request, int64_t now,
                                takt_candidate* candidates, size_t n, takt_route_explanation* explanation) noexcept {
  const takt_status status = FirstOf(Valid(router), SoundToRank(request), Given(candidates, n), Writable(explanation));
  if (status != TAKT_OK) return status;
  const Busy busy(*router);
  Request filled;
  Fill(request, filled);
  static_assert(sizeof(takt_candidate) == sizeof(Candidate) && alignof(takt_candidate) == alignof(Candidate) &&
                offsetof(takt_candidate, state) == offsetof(Candidate, state) &&
                offsetof(takt_candidate, score) == offsetof(Candidate, score) &&
                offsetof(takt_candidate, regret) == offsetof(Candidate, regret));
  const RouteExplanation why = router->router->Explain(filled, At(now), {reinterpret_cast<Candidate*>(candidates), n});
  // The C++ struct has padding after its one byte of state.
  for (takt_candidate& each : std::span(candidates, std::min(n, why.candidates))) each.state &= 0xFF, each.reserved = 0;
  takt_route_explanation to{};
  to.status = static_cast<std::uint32_t>(why.status);
  to.chosen = why.chosen.value, to.ahead = why.ahead;
  to.regret = why.regret, to.margin = why.margin;
  to.scores_compare = why.scores_compare ? 1 : 0;
  to.scored = static_cast<std::uint32_t>(why.scored), to.candidates = why.candidates;
  to.decode = why.decode.value, to.decode_regret = why.decode_regret;
  Write(to, explanation);
  return TAKT_OK;
}
