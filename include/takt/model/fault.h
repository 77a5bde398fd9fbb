// Faults: invalid input from the host. The scheduler ignores invalid input and reports a fault.
#ifndef TAKT_MODEL_FAULT_H_
#define TAKT_MODEL_FAULT_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/time.h"

namespace takt {

enum class FaultKind : std::uint8_t {
  kNone,
  kNoId,  // a request with id 0
  kIdInUse,  // a new request whose id belongs to an unreleased request
  kPromptTokens,  // a request with an invalid prompt length of `received` tokens
  kMaxOutputTokens,  // a request with a negative output limit of `received` tokens
  kSequences,  // a request with no sequences or too many; `received`: number of sequences
  kUnknownRequest,  // an event for a request that is not alive
  kUnknownMove,  // MoveDone for a move that is not in flight; `received`: number of the move
  kOutOfPlace,  // an event that the state of its request does not allow
  kAbsurdEstimate,  // an estimate that is NaN, infinite, negative or too large; treated as unknown
  kClockBack,  // a call whose time `received` is before `expected`, the last call's time, which is used instead [ns]
  kUnknownStep,  // a result for a step that is not in flight
  kUnknownRow,  // a result for a request that its step did not run; `expected`: the request's lane; below 0: no lane
  kInvalidRow,  // a result of `received` tokens for a plan entry that allows 1 to `expected` tokens
  kUnknownInstance,  // a router event for an instance that is not up; `received`: its id
  kInvalidEvent,  // an instance event with a negative count, no id or an unsupported role; `received`: instance id
  kWorkflow,  // a router event that contradicts the state of its workflow; `received`: id of the workflow
  kEnded,  // a call after an exception, or during another call (from a policy or another thread)
  kChunkAlign,  // a chunk_align of `received` tokens, above the largest possible chunk of `expected` tokens
};
constexpr auto NamesOf(FaultKind) {
  return std::to_array<std::string_view>({"none", "no_id", "id_in_use", "prompt_tokens", "max_output_tokens",
                                          "sequences", "unknown_request", "unknown_move", "out_of_place",
                                          "absurd_estimate", "clock_back", "unknown_step", "unknown_row", "invalid_row",
                                          "unknown_instance", "invalid_event", "workflow", "ended", "chunk_align"});
}

struct Fault {
  FaultKind kind = FaultKind::kNone;
  StepId step = {};  // step of the faulty result; for other faults, the most recent plan
  RequestId request = {};  // request that the input names; 0: none
  std::uint32_t lane = UINT32_MAX;  // lane that the result row names; UINT32_MAX: the fault is not about a row
  TimePoint at = {};  // time of the call
  std::int64_t received = 0, expected = 0;  // received and expected value; `expected` below 0: no value was valid

  friend constexpr bool operator==(const Fault&, const Fault&) = default;
};

// Returns one line of text: "1.5 s, step 103, request 7, lane 4: unknown_row, received 4, expected 3".
inline std::string ToText(const Fault& f) {
  const std::int64_t ms = f.at.time_since_epoch().count() / 1'000'000;
  std::string text = std::to_string(ms / 1000) + "." + std::to_string(1000 + std::abs(ms % 1000)).substr(1) + " s";
  if (f.step) text += ", step " + std::to_string(f.step.value);
  if (f.request) text += ", request " + std::to_string(f.request.value);
  if (f.lane != UINT32_MAX) text += ", lane " + std::to_string(f.lane);
  text.append(": ").append(Name(f.kind));
  if (f.received == 0 && f.expected == 0) return text;
  text += ", received " + std::to_string(f.received);
  if (f.expected > 0 || f.kind == FaultKind::kUnknownRow) {
    text += ", expected " + (f.expected < 0 ? "none" : std::to_string(f.expected));
  }
  return text;
}

// Input that a call ignored.
struct Ignored {
  std::uint32_t faults = 0;
  // Results for requests that ended or were preempted after the plan. Such results are normal if steps overlap. If
  // steps do not overlap, the host removed a request before it reported the request's result.
  std::uint32_t dead_rows = 0;
  FaultKind first = FaultKind::kNone;

  constexpr explicit operator bool() const { return faults > 0; }
  friend constexpr bool operator==(const Ignored&, const Ignored&) = default;
};

// A handler of faults. Each call that finds a fault calls the handler, which must not call the scheduler.
struct FaultHandler {
  void (*heard)(void* context, const Fault& fault) = nullptr;
  void* context = nullptr;
};

namespace internal {

class FaultLog {
 public:
  // Starts a call. A call from within a handler does not start a new one.
  void Begin() {
    if (!heard_now_) before_ = count_, first_ = FaultKind::kNone;
  }
  void Add(const Fault& fault) {
    ++count_;
    if (first_ == FaultKind::kNone) first_ = fault.kind;
    last_ = fault;
    if (handler_.heard == nullptr || heard_now_) return;
    heard_now_ = true;
    handler_.heard(handler_.context, fault);
    heard_now_ = false;
  }
  // Returns the input that the call since Begin has ignored.
  Ignored Summary(std::uint64_t dead_rows) const {
    return {static_cast<std::uint32_t>(count_ - before_), static_cast<std::uint32_t>(dead_rows), first_};
  }

  // Returns true if a search for the expected value pays: always with a handler, else only for the first fault.
  bool wants_detail() const { return handler_.heard != nullptr || first_ == FaultKind::kNone; }

  std::uint64_t count() const { return count_; }
  const Fault& last() const { return last_; }
  void Handle(FaultHandler handler) { handler_ = handler; }

 private:
  std::uint64_t count_ = 0, before_ = 0;
  FaultKind first_ = FaultKind::kNone;
  Fault last_;
  FaultHandler handler_;
  bool heard_now_ = false;  // true: a handler runs now, so faults of nested calls are not reported
};

}  // namespace internal

}  // namespace takt

#endif  // TAKT_MODEL_FAULT_H_
