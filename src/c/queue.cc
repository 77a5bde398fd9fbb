#include "takt/queue/waiting_queue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "c/policy.h"
#include "takt/model/event.h"
#include "takt/queue/ranker.h"
#include "takt/scheduler_options.h"
#include "takt/state/revise.h"

struct takt_ranker : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kRanker;

  explicit takt_ranker(takt::AnyPolicy policy) : Handle(kKind) { ranker.emplace(std::move(policy)); }
  void End() { ranker.reset(); }

  std::optional<takt::Ranker<takt::AnyPolicy>> ranker;
  takt::Request asked;  // the current request; no policy's key depends on prefixes or scores
};

struct takt_queue : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kQueue;

  takt_queue(takt::AnyPolicy policy, std::size_t reserve, std::uint64_t hash_seed) : Handle(kKind) {
    queue.emplace(std::move(policy), reserve, hash_seed);
  }
  void End() { queue.reset(); }

  std::optional<takt::AnyWaitingQueue> queue;
  std::vector<takt::RequestId> victims;
};

namespace takt::c {

static_assert(static_cast<takt_result>(QueueResult::kDone) == TAKT_RESULT_DONE);
static_assert(static_cast<takt_result>(QueueResult::kEnded) == TAKT_RESULT_ENDED);
static_assert(static_cast<takt_result>(QueueResult::kRequeued) == TAKT_RESULT_REQUEUED);
static_assert(static_cast<takt_result>(QueuePlace::kPaused) == TAKT_PLACE_PAUSED);
static_assert(static_cast<std::uint32_t>(WaitsFor::kPrefix) == TAKT_WAITS_FOR_PREFIX);
static_assert(static_cast<std::uint32_t>(WaitsFor::kCeiling) == TAKT_WAITS_FOR_CEILING);

template <>
takt_queue_options Defaults<takt_queue_options>() {
  auto to = Zeroed<takt_queue_options>();
  to.reserve_requests = SchedulerOptions{}.reserve_requests;
  return to;
}
template <>
takt_pressure Defaults<takt_pressure>() {
  auto to = Zeroed<takt_pressure>();
  to.engines = QueuePressure{}.engines;
  return to;
}

namespace {

bool Countable(std::int32_t tokens) { return 0 <= tokens && tokens <= internal::kMostRequestTokens; }

takt_status Sound(const takt_ran* ran, std::size_t n) {
  if (const takt_status status = Given(ran, n); status != TAKT_OK) return status;
  return Meant(
      std::all_of(ran, ran + n, [](const takt_ran& r) { return Countable(r.prefill) && Countable(r.output); }));
}

takt_status Sound(const takt_holding* holding, std::size_t n) {
  if (const takt_status status = Given(holding, n); status != TAKT_OK) return status;
  return Meant(
      std::all_of(holding, holding + n, [](const takt_holding& h) { return h.blocks >= 0 && h.reserved == 0; }));
}

takt_result Of(QueueResult result) { return static_cast<takt_result>(result); }

std::uint32_t InC(const PolicyTraits& t) {
  std::uint32_t traits = 0;
  const auto add = [&traits](bool has, std::uint32_t trait) { traits |= has ? trait : 0; };
  add(t.fixed, TAKT_TRAIT_FIXED), add(t.timed, TAKT_TRAIT_TIMED), add(t.moving, TAKT_TRAIT_MOVING);
  add(t.groups, TAKT_TRAIT_GROUPS), add(t.learns, TAKT_TRAIT_LEARNS);
  add(t.pressure, TAKT_TRAIT_PRESSURE), add(t.ages, TAKT_TRAIT_AGES), add(t.tables, TAKT_TRAIT_TABLES);
  add(t.chooses, TAKT_TRAIT_CHOOSES);
  return traits;
}

// Returns the outcome of the call, or the reason why it was not made.
template <class F>
takt_result Ask(takt_queue* queue, F&& call) {
  if (const takt_status status = Valid(queue); status != TAKT_OK) return -status;
  const Busy busy(*queue);
  return Of(call(*queue->queue));
}

// The same for a request that the caller passes.
template <class F>
takt_result AskOf(takt_queue* queue, const takt_request* request, F&& call) {
  if (const takt_status status = FirstOf(Valid(queue), c::Sound(request)); status != TAKT_OK) return -status;
  Request filled;
  Fill(request, filled);
  return Ask(queue, [&](AnyWaitingQueue& q) { return call(q, filled); });
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

// ---- L0 -------------------------------------------------------------------------------------------------------------

void takt_key_init(takt_key* key, size_t size) noexcept { Init(key, size); }

takt_status takt_ranker_create(const char* policy, const takt_key* key, takt_ranker** ranker,
                               takt_error* error) noexcept {
  if (ranker == nullptr) return Say(error, TAKT_E_NULL, "ranker is NULL");
  *ranker = nullptr;
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    AnyPolicy made;
    if (const takt_status status = MakePolicy(policy, key, made, error); status != TAKT_OK) return status;
    if (TraitsOf(made).tables) {
      return Say(
          error, TAKT_E_INVALID,
          "policy: " + made.spec() + " needs ranks of agents, which are unsupported here; choose another policy");
    }
    *ranker = std::make_unique<takt_ranker>(std::move(made)).release();
    return TAKT_OK;
  });
}

takt_status takt_ranker_destroy(takt_ranker* ranker) noexcept { return Destroy(ranker); }

uint32_t takt_ranker_traits(const takt_ranker* ranker) noexcept {
  return Valid(ranker) == TAKT_OK ? InC(ranker->ranker->traits()) : 0;
}

takt_status takt_ranker_keys(takt_ranker* ranker, const takt_request* requests, size_t n, size_t stride, int64_t now,
                             double* keys) noexcept {
  const takt_status status =
      FirstOf(Valid(ranker), Given(keys, n),
              GivenEach(requests, n, stride, [](const takt_request* r) { return SoundToRank(r); }));
  if (status != TAKT_OK) return status;
  const Busy busy(*ranker);
  for (std::size_t i = 0; i < n; ++i) {
    Fill(Nth(requests, stride, i), ranker->asked);
    keys[i] = ranker->ranker->Key(ranker->asked, At(now));
  }
  return TAKT_OK;
}

// ---- L1 -------------------------------------------------------------------------------------------------------------

void takt_queue_options_init(takt_queue_options* options, size_t size) noexcept { Init(options, size); }
void takt_pressure_init(takt_pressure* pressure, size_t size) noexcept { Init(pressure, size); }

takt_status takt_queue_create(const takt_queue_options* options, takt_queue** queue, takt_error* error) noexcept {
  if (queue == nullptr) return Say(error, TAKT_E_NULL, "queue is NULL");
  *queue = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_queue_options local;
  const takt_queue_options& whole = Whole(options, local);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    if (whole.reserved != 0) return NotReserved(error);
    const takt_status sound = SoundReserve("reserve_requests", whole.reserve_requests, error);
    if (sound != TAKT_OK) return sound;
    AnyPolicy policy;
    const takt_status made = MakePolicy(whole.policy, whole.key, policy, error);
    if (made != TAKT_OK) return made;
    Epoch first;
    if (whole.epoch != nullptr) {
      if (const takt_status taken = Take(whole.epoch, first); taken != TAKT_OK) {
        return Say(error, taken, "epoch: is invalid; expected finite numbers, and each agent once");
      }
    }
    if (TraitsOf(policy).tables && first.agent_ranks == nullptr) {
      return Say(error, TAKT_E_INVALID,
                 "policy: " + policy.spec() + " needs ranks of agents; expected a first epoch with the ranks");
    }
    policy.Observe(first, kUnset);
    *queue = std::make_unique<takt_queue>(std::move(policy), static_cast<std::size_t>(whole.reserve_requests),
                                          whole.hash_seed)
                 .release();
    return TAKT_OK;
  });
}

takt_status takt_queue_destroy(takt_queue* queue) noexcept { return Destroy(queue); }

const char* takt_queue_policy(const takt_queue* queue) noexcept {
  return Valid(queue) == TAKT_OK ? queue->queue->policy().spec().c_str() : nullptr;
}

size_t takt_queue_learnt(const takt_queue* queue, uint64_t* numbers, size_t n) noexcept {
  return Valid(queue) == TAKT_OK ? ReadLearnt(std::as_const(*queue->queue).policy(), numbers, n) : 0;
}

takt_status takt_queue_load_learnt(takt_queue* queue, const uint64_t* numbers, size_t n, takt_error* error) noexcept {
  if (const takt_status status = Valid(queue); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  const Busy busy(*queue);
  return UnlessMemoryEnds(error, [&] { return LoadLearnt(numbers, n, queue->queue->policy(), error); });
}

uint32_t takt_queue_traits(const takt_queue* queue) noexcept {
  return Valid(queue) == TAKT_OK ? InC(queue->queue->traits()) : 0;
}

size_t takt_queue_size(const takt_queue* queue) noexcept { return Valid(queue) == TAKT_OK ? queue->queue->size() : 0; }

takt_result takt_queue_place(const takt_queue* queue, uint64_t request) noexcept {
  const takt_status status = Valid(queue);
  return status == TAKT_OK ? static_cast<takt_result>(queue->queue->place({request})) : -status;
}

takt_result takt_queue_push(takt_queue* queue, const takt_request* request, int64_t now) noexcept {
  return AskOf(queue, request, [now](AnyWaitingQueue& q, const Request& r) { return q.Push(r, At(now)); });
}

takt_result takt_queue_put(takt_queue* queue, const takt_request* request, int64_t now) noexcept {
  return AskOf(queue, request, [now](AnyWaitingQueue& q, const Request& r) { return q.Put(r, At(now)); });
}

takt_result takt_queue_revise(takt_queue* queue, const takt_request* request, uint32_t fields, int64_t now) noexcept {
  if ((fields & ~kRevised) != 0) return -FirstOf(Valid(queue), TAKT_E_INVALID);
  return AskOf(queue, request, [&](AnyWaitingQueue& q, const Request& r) {
    Revised revised;
    Fill(request, fields, revised);
    AnyWaitingQueue::Restated restated;
    if ((fields & TAKT_REVISED_PROMPT_TOKENS) != 0) restated.prompt_tokens = r.prompt_tokens;
    if ((fields & TAKT_REVISED_ARRIVAL) != 0) restated.arrival = r.arrival;
    return q.Revise(revised, At(now), restated);
  });
}

takt_result takt_queue_erase(takt_queue* queue, uint64_t request) noexcept {
  return Ask(queue, [&](AnyWaitingQueue& q) { return q.Erase({request}); });
}

takt_status takt_queue_epoch(takt_queue* queue, const takt_epoch* epoch, int64_t now) noexcept {
  Epoch taken;
  if (const takt_status status = FirstOf(Valid(queue), Take(epoch, taken)); status != TAKT_OK) return status;
  queue->queue->Set(taken, At(now));
  return TAKT_OK;
}

takt_status takt_queue_begin(takt_queue* queue, int64_t now) noexcept {
  if (const takt_status status = Valid(queue); status != TAKT_OK) return status;
  queue->queue->Begin(At(now));
  return TAKT_OK;
}

int32_t takt_queue_top(const takt_queue* queue, uint64_t* request) noexcept {
  if (const takt_status status = FirstOf(Valid(queue), Given(request, 1)); status != TAKT_OK) return -status;
  *request = queue->queue->Top().value;
  return *request != 0 ? 1 : 0;
}

size_t takt_queue_list(const takt_queue* queue, uint64_t* requests, size_t n) noexcept {
  if (FirstOf(Valid(queue), Given(requests, n)) != TAKT_OK) return 0;
  static_assert(sizeof(RequestId) == sizeof *requests);
  return queue->queue->List({reinterpret_cast<RequestId*>(requests), n});
}

takt_result takt_queue_take(takt_queue* queue, uint64_t request) noexcept {
  return Ask(queue, [&](AnyWaitingQueue& q) { return q.Take({request}); });
}
takt_result takt_queue_hold(takt_queue* queue, uint64_t request) noexcept {
  return Ask(queue, [&](AnyWaitingQueue& q) { return q.Hold({request}); });
}
takt_result takt_queue_requeue(takt_queue* queue, uint64_t request, int64_t now) noexcept {
  return Ask(queue, [&](AnyWaitingQueue& q) { return q.Requeue({request}, At(now)); });
}
takt_result takt_queue_pause(takt_queue* queue, uint64_t request, int64_t now) noexcept {
  return Ask(queue, [&](AnyWaitingQueue& q) { return q.Pause({.request = {request}}, At(now)); });
}

takt_status takt_queue_end(takt_queue* queue, const takt_ran* ran, size_t n, const takt_pressure* pressure, int64_t now,
                           size_t* counted) noexcept {
  const takt_status status = FirstOf(Valid(queue), Sound(ran, n), pressure == nullptr ? TAKT_OK : Readable(pressure));
  if (status != TAKT_OK) return status;
  QueuePressure given;
  if (pressure != nullptr) {
    takt_pressure local;
    const takt_pressure& whole = Whole(pressure, local);
    if (whole.head > TAKT_WAITS_FOR_PREFIX || whole.kv_tokens < 0 || whole.engines < 1) return TAKT_E_INVALID;
    if (whole.limits != nullptr) {
      if (const takt_status of_limits = Readable(whole.limits); of_limits != TAKT_OK) return of_limits;
      takt_limits local_limits;
      given.limits = takt::c::Of(Whole(whole.limits, local_limits));
    }
    given.head = static_cast<WaitsFor>(whole.head);
    given.kv_tokens = {whole.kv_tokens};
    given.engines = whole.engines;
  }
  const std::span<const AnyWaitingQueue::Ran> all(FromC<AnyWaitingQueue::Ran>(ran), n);
  WriteCount(queue->queue->End(all, At(now), pressure != nullptr ? &given : nullptr), counted);
  return TAKT_OK;
}

takt_status takt_queue_computed(takt_queue* queue, const takt_ran* ran, size_t n, int32_t rest_output,
                                size_t* counted) noexcept {
  const takt_status status = FirstOf(Valid(queue), Sound(ran, n), Meant(Countable(rest_output)));
  if (status != TAKT_OK) return status;
  const Busy busy(*queue);
  WriteCount(queue->queue->Computed({FromC<AnyWaitingQueue::Ran>(ran), n}, {rest_output}), counted);
  return TAKT_OK;
}

takt_status takt_queue_victims(takt_queue* queue, const takt_holding* holding, size_t n, int32_t need,
                               uint64_t beneficiary, int64_t now, const uint64_t** victims,
                               size_t* n_victims) noexcept {
  const takt_status status = FirstOf(Valid(queue), Sound(holding, n), Given(victims, 1), Given(n_victims, 1));
  if (status != TAKT_OK) return status;
  queue->queue->Victims({FromC<AnyWaitingQueue::Holding>(holding), n}, {need}, At(now), queue->victims, {beneficiary});
  *victims = AsC<std::uint64_t>(queue->victims.data());
  *n_victims = queue->victims.size();
  return TAKT_OK;
}
