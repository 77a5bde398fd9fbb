// A router for a cascade of models. The cascade router decides which model answers a request first. A judge then scores
// the answer. By the score, the cascade router accepts the answer or escalates to the next model. Each model's own
// router (takt/router.h) chooses an instance:
//
//   auto cascade = *CascadeRouter::Create({.stages = {{.accept_at = 74}, {.accept_at = 64}, {}}});
//   Do(cascade.OnArrival(id, now));                 // and likewise for the result of every call:
//
//   void Do(CascadeAction a) {
//     if (a.kind == CascadeAction::kSend) routers[a.model].On(Arrived{requests[a.request]}, now);
//     if (a.kind == CascadeAction::kJudge) judge.Ask(a.request, a.model);   // then OnJudged
//     if (a.kind == CascadeAction::kAccept) Reply(a.request, AnswerOf(a.request, a.model));
//     if (a.kind == CascadeAction::kFail) Fail(a.request);
//   }
//
// The host keeps each request and its last answer. See docs/howto/cascade_router.md.
#ifndef TAKT_CASCADE_ROUTER_H_
#define TAKT_CASCADE_ROUTER_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/age_list.h"
#include "takt/base/faults.h"
#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"

namespace takt {

// A model of the cascade, in order. The answer of the last served model is never judged.
struct CascadeStage {
  double accept_at = 0;  // minimum score at which an answer is accepted
  double escalated_share = 0;  // share of judged answers that the plan expects to escalate, for kAsPlanned
  bool served = true;  // false: the plan gives it no GPUs, so it is skipped
};

// Decision if the judge gives no score for an answer.
enum class NoVerdict : std::uint8_t {
  // Escalates the planned share of answers, chosen by request id. Loads stay as planned, so a failed judge does not
  // overload the largest model. Quality is as low as with a random choice.
  kAsPlanned,
  kAccept,  // accepts the answer: lowest latency
  kEscalate,  // escalates the answer: best quality, full load on the largest model
};
constexpr auto NamesOf(NoVerdict) { return std::to_array<std::string_view>({"as_planned", "accept", "escalate"}); }

struct CascadeRouterOptions {
  std::vector<CascadeStage> stages = {};  // the cascade's models in order, 1 to 64
  Duration judge_timeout = std::chrono::seconds(2);  // maximum wait for a score; Cascadia measures 0.27 s
  NoVerdict on_missing = NoVerdict::kAsPlanned;  // decision if the judge returns NaN
  NoVerdict on_late = NoVerdict::kAsPlanned;  // decision after judge_timeout
  std::uint64_t seed = 1;  // seed of kAsPlanned and of the id hashes
  std::int64_t reserve_requests = 1024;  // living requests for which memory is reserved

  // InvalidArgument lists all invalid fields with their values.
  absl::Status Validate() const {
    Faults faults = FaultsOf(stages);
    faults.Expect(judge_timeout > Duration::zero(), "judge_timeout must be above 0");
    faults.Expect(reserve_requests >= 0 && reserve_requests <= 1 << 28, "reserve_requests", reserve_requests,
                  "must be 0 to 268435456");
    return faults.ToStatus();
  }

  // Returns the faults of the stages; empty if they are valid.
  static Faults FaultsOf(std::span<const CascadeStage> stages) {
    Faults faults;
    faults.Expect(!stages.empty() && stages.size() <= 64, "stages", stages.size(), "must be 1 to 64");
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const std::string name = "stage " + std::to_string(i);
      faults.Expect(!std::isnan(stages[i].accept_at), name + ": accept_at must be a number");
      faults.Expect(stages[i].escalated_share >= 0 && stages[i].escalated_share <= 1,
                    name + ": escalated_share must be 0 to 1");
    }
    const bool any = std::ranges::any_of(stages, [](const CascadeStage& s) { return s.served; });
    faults.Expect(any || stages.empty(), "no stage is served");
    return faults;
  }
};

struct CascadeAction {
  enum Kind : std::uint8_t {
    kNone,  // nothing to do: the event was counted and ignored
    kSend,  // send the request to the model's router
    kJudge,  // send the model's answer to the judge
    kAccept,  // reply with the model's answer
    kFail,  // fail the request, because no model has answered and none is left
  };
  Kind kind = kNone;
  int model = 0;
  RequestId request = {};

  friend constexpr bool operator==(const CascadeAction&, const CascadeAction&) = default;
};

struct CascadeStats {
  std::uint64_t arrived = 0;
  std::uint64_t accepted = 0;  // requests that ended with an answer
  std::uint64_t failed = 0;  // requests that ended without an answer
  std::uint64_t cancelled = 0;  // requests that their client cancelled
  std::uint64_t escalated = 0;  // escalations to another model because of a score or a missing score
  std::uint64_t passed_on = 0;  // requests sent to another model because a model failed
  std::uint64_t judged = 0;  // scores that accepted or escalated an answer
  std::uint64_t missing = 0;  // judgements without a score
  std::uint64_t late = 0;  // answers whose score did not come within judge_timeout
  std::uint64_t ignored = 0;  // events about an unknown request, a wrong model, or an unexpected score

  friend constexpr bool operator==(const CascadeStats&, const CascadeStats&) = default;
};

// If the host calls Expire at wake_at(), every request ends in exactly one kAccept, kFail or OnCancelled. All calls are
// O(1) and accept any input. Thread-compatible.
class CascadeRouter {
 public:
  static absl::StatusOr<CascadeRouter> Create(CascadeRouterOptions options) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    return CascadeRouter(std::move(options));
  }

  // Adds a request. Returns kSend; kNone if the id is 0 or already alive.
  CascadeAction OnArrival(RequestId request) {
    if (!request || alive_.Find(request) != kNoSlot) return Ignored();
    const Slot slot = alive_.Insert(request, {.request = request, .model = NextServed(-1)});
    ++stats_.arrived;
    return {CascadeAction::kSend, alive_[slot].model, request};
  }

  // Handles a model's answer. Returns kJudge, or kAccept for the last model.
  CascadeAction OnAnswered(RequestId request, int model, TimePoint now) {
    Clock(now);
    const std::uint32_t slot = Find(request, model, false);
    if (slot == kNoSlot) return Ignored();
    alive_[slot].answered = model;
    if (NextServed(model) == kNoModel) return Accept(slot);
    Await(slot);
    return {CascadeAction::kJudge, model, request};
  }

  // Handles the judge's score; NaN: no score. Returns kAccept or kSend.
  CascadeAction OnJudged(RequestId request, int model, double score, TimePoint now) {
    Clock(now);
    const std::uint32_t slot = Find(request, model, true);
    if (slot == kNoSlot) return Ignored();
    Unawait(slot);
    if (std::isnan(score)) {
      ++stats_.missing;
      return Decide(slot, Escalates(slot, options_.on_missing));
    }
    ++stats_.judged;
    return Decide(slot, !(score >= StageOf(slot).accept_at));
  }

  // Handles the failure of a model or its router. Returns kSend to the next model. If no model is left, returns kAccept
  // with the last answer, or kFail if there is no answer. Ignored while the judge has an answer.
  CascadeAction OnFailed(RequestId request, int model) {
    const std::uint32_t slot = Find(request, model, false);
    if (slot == kNoSlot) return Ignored();
    if (const int next = NextServed(model); next != kNoModel) {
      ++stats_.passed_on;
      return Send(slot, next);
    }
    if (alive_[slot].answered != kNoModel) return Accept(slot);
    ++stats_.failed;
    return End(slot, CascadeAction::kFail, model);
  }

  // Removes a request. Returns false if the request is unknown.
  bool OnCancelled(RequestId request) {
    const std::uint32_t slot = alive_.Find(request);
    if (slot == kNoSlot) return ++stats_.ignored, false;
    ++stats_.cancelled;
    if (alive_[slot].awaits) Unawait(slot);
    End(slot, CascadeAction::kNone, 0);
    return true;
  }

  // Decides requests that have waited longer than judge_timeout for a score. The result is valid until the next call.
  std::span<const CascadeAction> Expire(TimePoint now) {
    Clock(now);
    expired_.clear();
    while (!awaiting_.empty() && wake_at() <= now_) {
      const Slot slot = awaiting_.oldest();
      Unawait(slot);
      ++stats_.late;
      expired_.push_back(Decide(slot, Escalates(slot, options_.on_late)));
    }
    return expired_;
  }
  TimePoint wake_at() const { return awaiting_.empty() ? kNever : alive_[awaiting_.oldest()].deadline; }

  // Sets the stages of a new plan for later decisions. Requests stay at their models, even if a model is no longer
  // served. InvalidArgument if the stages are invalid or their number differs.
  absl::Status Replan(std::span<const CascadeStage> stages) {
    Faults faults = CascadeRouterOptions::FaultsOf(stages);
    if (faults.empty() && stages.size() != options_.stages.size()) {
      faults.Add(std::to_string(stages.size()) + " stages instead of " + std::to_string(options_.stages.size()));
    }
    if (!faults.empty()) return faults.ToStatus();
    std::ranges::copy(stages, options_.stages.begin());
    return absl::OkStatus();
  }

  // Returns the last model that received the request; -1 if the request is not alive.
  int ModelOf(RequestId request) const {
    const std::uint32_t slot = alive_.Find(request);
    return slot == kNoSlot ? kNoModel : alive_[slot].model;
  }
  std::int64_t alive() const { return static_cast<std::int64_t>(alive_.size()); }
  std::span<const CascadeStage> stages() const { return options_.stages; }
  const CascadeStats& stats() const { return stats_; }

 private:
  static constexpr int kNoModel = -1;

  struct Alive {
    RequestId request = {};
    int model = 0;
    int answered = kNoModel;  // model of the last answer
    bool awaits = false;  // true: the request waits for a score
    TimePoint deadline = kNever;
    AgeLink age = {};  // position among requests that wait for a score
  };

  explicit CascadeRouter(CascadeRouterOptions options) : options_(std::move(options)) {
    alive_.KeyHashes(options_.seed);
    alive_.Reserve(static_cast<std::size_t>(options_.reserve_requests));
    expired_.reserve(static_cast<std::size_t>(options_.reserve_requests));
  }

  // Never sets time back, so that the list stays sorted by deadline.
  void Clock(TimePoint now) { now_ = std::max(now_, now); }

  CascadeAction Ignored() {
    ++stats_.ignored;
    return {};
  }

  const CascadeStage& StageOf(std::uint32_t slot) const {
    return options_.stages[static_cast<std::size_t>(alive_[slot].model)];
  }

  int NextServed(int model) const {
    for (std::size_t i = static_cast<std::size_t>(model + 1); i < options_.stages.size(); ++i) {
      if (options_.stages[i].served) return static_cast<int>(i);
    }
    return kNoModel;
  }

  // Finds a living request by id, model and `awaits`.
  std::uint32_t Find(RequestId request, int model, bool awaits) const {
    const std::uint32_t slot = alive_.Find(request);
    if (slot == kNoSlot || alive_[slot].model != model || alive_[slot].awaits != awaits) return kNoSlot;
    return slot;
  }

  bool Escalates(std::uint32_t slot, NoVerdict verdict) const {
    if (verdict != NoVerdict::kAsPlanned) return verdict == NoVerdict::kEscalate;
    const auto salt = Mix64(options_.seed) + static_cast<std::uint64_t>(alive_[slot].model);
    const double drawn = Rounded(static_cast<double>(Mix64(alive_[slot].request.value ^ Mix64(salt)) >> 11) * 0x1p-53);
    return drawn < StageOf(slot).escalated_share;
  }

  CascadeAction Decide(std::uint32_t slot, bool escalate) {
    const int next = escalate ? NextServed(alive_[slot].model) : kNoModel;
    if (next == kNoModel) return Accept(slot);
    ++stats_.escalated;
    return Send(slot, next);
  }

  CascadeAction Send(std::uint32_t slot, int model) {
    alive_[slot].model = model;
    return {CascadeAction::kSend, model, alive_[slot].request};
  }

  CascadeAction Accept(std::uint32_t slot) {
    ++stats_.accepted;
    return End(slot, CascadeAction::kAccept, alive_[slot].answered);
  }

  CascadeAction End(std::uint32_t slot, CascadeAction::Kind kind, int model) {
    const RequestId request = alive_[slot].request;
    alive_.Erase(slot, request);
    return {kind, model, request};
  }

  void Await(std::uint32_t slot) {
    Alive& r = alive_[slot];
    r.awaits = true;
    r.deadline = After(now_, options_.judge_timeout);
    awaiting_.Append(alive_, slot);
  }

  void Unawait(std::uint32_t slot) {
    alive_[slot].awaits = false;
    awaiting_.Remove(alive_, slot);
  }

  CascadeRouterOptions options_;
  IdTable<RequestId, Alive> alive_;
  AgeList awaiting_;  // requests that wait for a score, by deadline
  std::vector<CascadeAction> expired_;
  TimePoint now_ = TimePoint::min();
  CascadeStats stats_;
};

}  // namespace takt

#endif  // TAKT_CASCADE_ROUTER_H_
