// Scores of the instances for a request, and the regret of each choice.
#ifndef TAKT_ROUTER_EXPLANATION_H_
#define TAKT_ROUTER_EXPLANATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/state/request_status.h"

namespace takt {

enum class CandidateState : std::uint8_t {
  kScored,
  kRejected,  // the placement rejects the instance now
  kFull,  // the instance has its maximum of requests
  kTooSmall,  // the request exceeds the instance's context or KV cache
};
constexpr auto NamesOf(CandidateState) {
  return std::to_array<std::string_view>({"scored", "rejected", "full", "too_small"});
}

// An instance as a candidate for a request.
struct Candidate {
  InstanceId instance = {};
  CandidateState state = CandidateState::kScored;
  double score = std::numeric_limits<double>::quiet_NaN();  // larger is better; NaN unless kScored
  double regret = std::numeric_limits<double>::quiet_NaN();  // best score minus this score; NaN: unknown
};

// State of a request for diagnosis, from the facts of this moment. The host can compare its own choice before PlaceAt.
struct RouteExplanation {
  RequestStatus status = RequestStatus::kUnknown;  // kRunning: placed; kBlocked: held, or too large for all instances
  std::int64_t ahead = 0;  // waiting requests ahead of it
  // Instance of a placed request. For other requests, the candidate with the best score; none: no candidate is scored.
  InstanceId chosen = {};
  // Regret of `chosen`, in units of the score. For a placed request, later events and its own load count. NaN: unknown.
  double regret = std::numeric_limits<double>::quiet_NaN();
  double margin = std::numeric_limits<double>::quiet_NaN();  // best score minus the second best; NaN: unknown
  // Instance that takes the request over after its prefill on `chosen`; none: `chosen` runs the whole request, or the
  // request has left its prefill instance. Scores of decode instances only compare with each other.
  InstanceId decode = {};
  double decode_regret = std::numeric_limits<double>::quiet_NaN();  // of `decode`; NaN: unknown
  // False: the placement draws or takes turns, so its scores only order the instances, and no regret is known.
  bool scores_compare = true;
  std::size_t candidates = 0;  // instances that are up; those beyond the output's size were not written
  std::size_t scored = 0;
};

}  // namespace takt

#endif  // TAKT_ROUTER_EXPLANATION_H_
