// The steps of a server, found from the times at which its clients got their tokens.
#ifndef TAKT_SRC_TOOL_OBSERVE_OBSERVED_STEPS_H_
#define TAKT_SRC_TOOL_OBSERVE_OBSERVED_STEPS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace takt::tool {

// Times in seconds from the same start.
struct ClientTimes {
  double sent = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<double> chunks = {};
};

// Returns a step log for takt calibrate, one line per step. Each request has a chunk. Chunks that arrive together come
// from one step, and no request has two of them. A step lasts from the end of the step before. If no request was in
// flight, it lasts from the arrival of its first request ("from_arrival"). Prompts are assumed to be computed right
// before their first tokens, at most `token_budget` tokens per step.
//
// A request that a busy engine takes at once came to it during the step before its own. This bounds the path from a
// client to the engine and back ("path_us").
//
// These steps are left out, because their work or time is unknown:
//   - a prompt has more tokens than the steps' budget, and no other request marks their ends
//   - a request has two tokens at about the same time, because the first came late
//   - the engine may have been idle before a step in which nothing decodes
std::string ObservedSteps(std::span<const ClientTimes> requests, std::int64_t token_budget);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_OBSERVE_OBSERVED_STEPS_H_
