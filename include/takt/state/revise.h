// Sanitizes requests, and applies revisions to them.
#ifndef TAKT_STATE_REVISE_H_
#define TAKT_STATE_REVISE_H_

#include <concepts>
#include <cstdint>

#include "takt/model/event.h"
#include "takt/model/request.h"

namespace takt::internal {

// Bounds on a request's counts, so that their sums do not overflow. kMostRequestTokens bounds the tokens of a prompt,
// of a tool's answer, and of one block per sequence. A request ends when the context of all its sequences together
// reaches kMostContext.
inline constexpr std::int32_t kMostRequestTokens = 1 << 28, kMostContext = 1 << 30;

// Return true if an estimate is invalid or would overflow sums.
inline bool Absurd(const Estimate& estimate) { return !estimate.known() && estimate != Estimate{}; }
inline bool Absurd(const WorkAfter& estimate) { return estimate.absurd(); }
inline bool Absurd(Duration duration, Tokens returned, Tokens after = {0}) {
  constexpr Duration kLongest = FromSeconds(1e9);
  const auto outside = [](Tokens t) { return t.value < 0 || t.value > kMostRequestTokens; };
  return duration < Duration::zero() || duration > kLongest || outside(returned) || outside(after);
}
inline bool Absurd(const NextCall& estimate) { return Absurd(estimate.duration, estimate.returned, estimate.after); }

// Stores an estimate, or unknown if it is absurd. Returns 1 if it was absurd, else 0.
template <class Prediction>
int Sanitize(Prediction& kept, const Prediction& estimate) {
  const bool absurd = Absurd(estimate);
  kept = absurd ? Prediction{} : estimate;
  if constexpr (std::same_as<Prediction, Estimate>) {
    if (kept.without_quantiles()) [[unlikely]]
      kept = Estimate::Mean(kept.mean);
  }
  return absurd ? 1 : 0;
}

// Sanitizes an arriving request: sets its times, and replaces absurd estimates by unknown. Returns the number of absurd
// estimates.
inline int Sanitize(Request& r, TimePoint now) {
  if (r.arrival == kUnset) r.arrival = now;
  if (r.workflow_arrival == kUnset) r.workflow_arrival = r.arrival;
  return Sanitize(r.output_tokens, r.output_tokens) + Sanitize(r.workflow_tokens_left, r.workflow_tokens_left) +
         Sanitize(r.next_call, r.next_call) + Sanitize(r.after, r.after);
}

struct Revision {
  int absurd = 0;  // number of absurd estimates
  std::int32_t sequences_ended = 0;
  bool sequences_out_of_place = false;  // true: the number of sequences is invalid and was not changed
};

// Applies a revision to a request.
inline Revision Revise(Request& r, const Revised& e) {
  Revision revision;
  const auto take = [&revision](auto& kept, const auto& estimate) {
    if (estimate) revision.absurd += Sanitize(kept, *estimate);
  };
  take(r.output_tokens, e.output_tokens);
  take(r.workflow_tokens_left, e.workflow_tokens_left);
  take(r.after, e.after);
  take(r.next_call, e.next_call);
  if (e.deadline) r.deadline = *e.deadline;
  if (e.expires_at) r.expires_at = *e.expires_at;
  if (e.priority) r.priority = *e.priority;
  if (e.sequences) {
    revision.sequences_out_of_place = *e.sequences < 1 || *e.sequences > r.sequences;
    if (!revision.sequences_out_of_place) {
      revision.sequences_ended = r.sequences - *e.sequences;
      r.sequences = *e.sequences;
    }
  }
  return revision;
}

}  // namespace takt::internal

#endif  // TAKT_STATE_REVISE_H_
