// What a host said that cannot be: it changes nothing, and is told.
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
  kNoId,             // a request whose id is zero
  kIdInUse,          // a request whose id is another's that has not been released
  kPromptTokens,     // a request with a prompt that cannot be; `said` tokens
  kMaxOutputTokens,  // with a cap on output below zero; `said` tokens
  kSequences,        // with sequences below one, or more than there can be; `said`
  kUnknownRequest,   // an event names no living request
  kUnknownMove,      // no move of this number is in flight; `said`
  kOutOfPlace,       // the state of its request does not allow the event
  kAbsurdEstimate,   // a prediction that is NaN, infinite, negative or endless, taken as unknown
  kClockBack,        // `said` nanoseconds lie before those of an earlier call, `expected`, and are taken as these
  kUnknownStep,      // a result for a step that is not in flight
  kUnknownRow,  // a result that matches no entry of its step: its request is on lane `expected` there, or not there
  kInvalidRow,  // a result of `said` tokens where its entry allows at least one, or at most `expected`
  kUnknownInstance,  // a router event names an instance that is not up; `said`: its id
  kInvalidEvent,  // a count below zero, or an instance without id or with one role alone; `said`: its id
  kWorkflow,  // a router event contradicts what is known of its workflow; `said`: its id
  kEnded,  // a call after an exception, or while another is being made: from a policy, or from another thread
  kChunkAlign,  // limits of a step with a chunk_align of `said`, above its largest chunk of `expected` tokens
};
constexpr auto NamesOf(FaultKind) {
  return std::to_array<std::string_view>({"none", "no_id", "id_in_use", "prompt_tokens", "max_output_tokens",
                                          "sequences", "unknown_request", "unknown_move", "out_of_place",
                                          "absurd_estimate", "clock_back", "unknown_step", "unknown_row", "invalid_row",
                                          "unknown_instance", "invalid_event", "workflow", "ended", "chunk_align"});
}

struct Fault {
  FaultKind kind = FaultKind::kNone;
  StepId step = {};  // whose result it was in; of others, the last that was planned
  RequestId request = {};  // that it names, where it names any
  std::uint32_t lane = UINT32_MAX;  // that the row names, of a row
  TimePoint at = {};  // of the call, as the scheduler has it
  std::int64_t said = 0, expected = 0;  // as its kind says; an `expected` below 0: nothing would do

  friend constexpr bool operator==(const Fault&, const Fault&) = default;
};

// One line for people: "1.5 s, step 103, request 7, lane 4: unknown_row, said 4, expected 3".
inline std::string ToText(const Fault& f) {
  const std::int64_t ms = f.at.time_since_epoch().count() / 1'000'000;
  std::string text = std::to_string(ms / 1000) + "." + std::to_string(1000 + std::abs(ms % 1000)).substr(1) + " s";
  if (f.step) text += ", step " + std::to_string(f.step.value);
  if (f.request) text += ", request " + std::to_string(f.request.value);
  if (f.lane != UINT32_MAX) text += ", lane " + std::to_string(f.lane);
  text.append(": ").append(Name(f.kind));
  if (f.said == 0 && f.expected == 0) return text;
  text += ", said " + std::to_string(f.said);
  if (f.expected > 0 || f.kind == FaultKind::kUnknownRow) {
    text += ", expected " + (f.expected < 0 ? "none" : std::to_string(f.expected));
  }
  return text;
}

// What a call ignored of what it was told.
struct Ignored {
  std::uint32_t faults = 0;
  // Results for requests that had ended, or lost their place, since the plan. Where steps overlap this is no fault:
  // otherwise a request was taken away before its result was told.
  std::uint32_t dead_rows = 0;
  FaultKind first = FaultKind::kNone;

  constexpr explicit operator bool() const { return faults > 0; }
  friend constexpr bool operator==(const Ignored&, const Ignored&) = default;
};

// Hears of each fault from within the call that makes it, and makes no call itself.
struct FaultHandler {
  void (*heard)(void* context, const Fault& fault) = nullptr;
  void* context = nullptr;
};

namespace internal {

class FaultLog {
 public:
  // A call begins; not one from within a handler, which is that call's fault.
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
  // Of the call since Begin.
  Ignored Said(std::uint64_t dead_rows) const {
    return {static_cast<std::uint32_t>(count_ - before_), static_cast<std::uint32_t>(dead_rows), first_};
  }

  // Whether it is worth a search to say what was expected: not for each row of a result that is wrong throughout.
  bool wants_detail() const { return handler_.heard != nullptr || first_ == FaultKind::kNone; }

  std::uint64_t count() const { return count_; }
  const Fault& last() const { return last_; }
  void Handle(FaultHandler handler) { handler_ = handler; }

 private:
  std::uint64_t count_ = 0, before_ = 0;
  FaultKind first_ = FaultKind::kNone;
  Fault last_;
  FaultHandler handler_;
  bool heard_now_ = false;  // it is inside, and hears nothing from within itself
};

}  // namespace internal

}  // namespace takt

#endif  // TAKT_MODEL_FAULT_H_
