// The cascade router and the tail test, for the C interface.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "c/convert.h"
#include "c/handle.h"
#include "c/memory.h"
#include "c/stats.h"
#include "takt/cascade_router.h"
#include "takt/numeric/tail_test.h"

struct takt_cascade_router : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kCascadeRouter;

  explicit takt_cascade_router(takt::CascadeRouter made) : Handle(kKind), router(std::move(made)) {}
  void End() { router.reset(), expired = {}; }

  std::optional<takt::CascadeRouter> router;
  std::vector<takt_cascade_action> expired;
};

namespace takt::c {

static_assert(int{TAKT_CASCADE_FAIL} == int{CascadeAction::kFail});
static_assert(int{TAKT_VERDICT_ESCALATE} == static_cast<int>(NoVerdict::kEscalate));

template <>
takt_cascade_options Defaults<takt_cascade_options>() {
  const CascadeRouterOptions plain;
  auto to = Zeroed<takt_cascade_options>();
  to.on_missing = static_cast<std::uint32_t>(plain.on_missing), to.on_late = static_cast<std::uint32_t>(plain.on_late);
  to.judge_timeout = plain.judge_timeout.count();
  to.seed = plain.seed, to.reserve_requests = plain.reserve_requests;
  return to;
}

namespace {

constexpr auto kCascadeCounters = std::to_array<Counter<CascadeStats>>({{"arrived", &CascadeStats::arrived},
                                                                        {"accepted", &CascadeStats::accepted},
                                                                        {"failed", &CascadeStats::failed},
                                                                        {"cancelled", &CascadeStats::cancelled},
                                                                        {"escalated", &CascadeStats::escalated},
                                                                        {"passed_on", &CascadeStats::passed_on},
                                                                        {"judged", &CascadeStats::judged},
                                                                        {"missing", &CascadeStats::missing},
                                                                        {"late", &CascadeStats::late},
                                                                        {"ignored", &CascadeStats::ignored}});

takt_cascade_action InC(const CascadeAction& action) {
  return {static_cast<std::uint32_t>(action.kind), action.model, action.request.value};
}

takt_status StagesOf(const takt_cascade_stage* stages, std::size_t n, std::vector<CascadeStage>& to,
                     takt_error* error) {
  if (Given(stages, n) != TAKT_OK) return Say(error, TAKT_E_NULL, "stages is NULL");
  for (const takt_cascade_stage& s : std::span(stages, n)) {
    if (s.reserved != 0) return NotReserved(error);
    to.push_back({s.accept_at, s.escalated_share, s.served != 0});
  }
  return TAKT_OK;
}

takt_status Create(const takt_cascade_options& from, takt_cascade_router** to, takt_error* error) {
  if (from.reserved != 0) return NotReserved(error);
  if (from.on_missing > TAKT_VERDICT_ESCALATE) {
    return Say(error, TAKT_E_INVALID, "on_missing: is invalid; expected 0 to 2");
  }
  if (from.on_late > TAKT_VERDICT_ESCALATE) return Say(error, TAKT_E_INVALID, "on_late: is invalid; expected 0 to 2");
  CascadeRouterOptions options{.judge_timeout = Duration(from.judge_timeout),
                               .on_missing = static_cast<NoVerdict>(from.on_missing),
                               .on_late = static_cast<NoVerdict>(from.on_late),
                               .seed = from.seed,
                               .reserve_requests = from.reserve_requests};
  const takt_status stages = StagesOf(from.stages, from.n_stages, options.stages, error);
  if (stages != TAKT_OK) return stages;
  absl::StatusOr<CascadeRouter> router = CascadeRouter::Create(std::move(options));
  if (!router.ok()) return Invalid(error, "", router.status());
  auto handle = std::make_unique<takt_cascade_router>(*std::move(router));
  handle->expired.reserve(static_cast<std::size_t>(from.reserve_requests));
  *to = handle.release();
  return TAKT_OK;
}

template <class F>
takt_status Act(takt_cascade_router* router, takt_cascade_action* action, F&& call) {
  if (const takt_status status = FirstOf(Valid(router), Given(action, 1)); status != TAKT_OK) return status;
  *action = InC(call(*router->router));
  return TAKT_OK;
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

void takt_cascade_options_init(takt_cascade_options* options, size_t size) noexcept { Init(options, size); }

takt_status takt_cascade_router_create(const takt_cascade_options* options, takt_cascade_router** router,
                                       takt_error* error) noexcept {
  if (router == nullptr) return Say(error, TAKT_E_NULL, "router is NULL");
  *router = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_cascade_options local;
  return UnlessMemoryEnds(error, [&] { return Create(Whole(options, local), router, error); });
}

takt_status takt_cascade_router_destroy(takt_cascade_router* router) noexcept { return Destroy(router); }

takt_status takt_cascade_router_arrived(takt_cascade_router* router, uint64_t request,
                                        takt_cascade_action* action) noexcept {
  return Act(router, action, [&](CascadeRouter& r) { return r.OnArrival({request}); });
}
takt_status takt_cascade_router_answered(takt_cascade_router* router, uint64_t request, int32_t model, int64_t now,
                                         takt_cascade_action* action) noexcept {
  return Act(router, action, [&](CascadeRouter& r) { return r.OnAnswered({request}, model, At(now)); });
}
takt_status takt_cascade_router_judged(takt_cascade_router* router, uint64_t request, int32_t model, double score,
                                       int64_t now, takt_cascade_action* action) noexcept {
  return Act(router, action, [&](CascadeRouter& r) { return r.OnJudged({request}, model, score, At(now)); });
}
takt_status takt_cascade_router_failed(takt_cascade_router* router, uint64_t request, int32_t model,
                                       takt_cascade_action* action) noexcept {
  return Act(router, action, [&](CascadeRouter& r) { return r.OnFailed({request}, model); });
}

takt_status takt_cascade_router_cancelled(takt_cascade_router* router, uint64_t request) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return status;
  return Meant(router->router->OnCancelled({request}));
}

takt_status takt_cascade_router_expire(takt_cascade_router* router, int64_t now, const takt_cascade_action** actions,
                                       size_t* n) noexcept {
  const takt_status status = FirstOf(Valid(router), Given(actions, 1), Given(n, 1));
  if (status != TAKT_OK) return status;
  router->expired.clear();
  for (const CascadeAction& action : router->router->Expire(At(now))) router->expired.push_back(InC(action));
  *actions = router->expired.data(), *n = router->expired.size();
  return TAKT_OK;
}

takt_status takt_cascade_router_wake_at(const takt_cascade_router* router, int64_t* wake_at) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Given(wake_at, 1)); status != TAKT_OK) return status;
  *wake_at = Ns(router->router->wake_at());
  return TAKT_OK;
}

takt_status takt_cascade_router_replan(takt_cascade_router* router, const takt_cascade_stage* stages, size_t n,
                                       takt_error* error) noexcept {
  if (const takt_status status = Valid(router); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    std::vector<CascadeStage> plan;
    if (const takt_status status = StagesOf(stages, n, plan, error); status != TAKT_OK) return status;
    const absl::Status status = router->router->Replan(plan);
    return status.ok() ? TAKT_OK : Invalid(error, "", status);
  });
}

takt_status takt_cascade_router_model_of(const takt_cascade_router* router, uint64_t request, int32_t* model) noexcept {
  if (const takt_status status = FirstOf(Valid(router), Given(model, 1)); status != TAKT_OK) return status;
  *model = router->router->ModelOf({request});
  return TAKT_OK;
}

size_t takt_cascade_router_stats(const takt_cascade_router* router, takt_stat* stats, size_t n) noexcept {
  return Valid(router) == TAKT_OK ? WriteStats(kCascadeCounters, router->router->stats(), stats, n) : 0;
}

takt_status takt_tail_test(const double* before, size_t n_before, const double* now, size_t n_now, double tail,
                           double* p) noexcept {
  const auto sound = [](const double* values, std::size_t n) -> takt_status {
    if (const takt_status status = Given(values, n); status != TAKT_OK) return status;
    return Meant(std::all_of(values, values + n, [](double x) { return std::isfinite(x); }));
  };
  const takt_status status =
      FirstOf(sound(before, n_before), sound(now, n_now), Given(p, 1), Meant(0 <= tail && tail < 1));
  if (status != TAKT_OK) return status;
  return UnlessMemoryEnds(nullptr, [&]() -> takt_status {
    *p = TailTest({before, n_before}, {now, n_now}, tail).p_greater;
    return TAKT_OK;
  });
}
