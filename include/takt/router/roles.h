// Decides whether a decode instance also computes the prompt of a request.
#ifndef TAKT_ROUTER_ROLES_H_
#define TAKT_ROUTER_ROLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/model/prefill_pace.h"
#include "takt/router/options.h"
#include "takt/state/instance_state.h"

namespace takt::internal {

// The prefill paces of the instances that are up, by slot.
class Roles {
 public:
  void Up(const InstanceState& i) {
    if (i.slot >= paces_.size()) paces_.resize(i.slot + std::size_t{1});
    paces_[i.slot] = Known(i) ? PrefillPace::From(i.profile->cost->model(), kChunk) : PrefillPace{};
  }

  // Returns true if a decode instance computes a prompt, of which it has `cached` tokens, however long its queue is.
  static bool IsShort(const RouterOptions& options, std::int32_t prompt, std::int64_t cached) {
    return prompt - cached <= options.local_tokens;
  }

  // Returns true if `decode` runs the whole request, instead of a prefill on `prefill` and a transfer. `prefill_cached`
  // and `decode_cached` are the tokens of the prompt in the instances' caches. False if an instance's pace is unknown.
  bool RunsWhole(const RouterOptions& options, std::int32_t prompt, const InstanceState& prefill,
                 std::int64_t prefill_cached, const InstanceState& decode, std::int64_t decode_cached) const {
    if (IsShort(options, prompt, decode_cached)) return true;
    if (!options.local_if_sooner || !Known(decode) || !Known(prefill)) return false;
    return Seconds(decode, prompt, decode_cached) <=
           Seconds(prefill, prompt, prefill_cached) + TransferSeconds(options, prefill, prompt);
  }

 private:
  static constexpr std::int64_t kChunk = 2048;  // prompt tokens that determine an instance's pace

  static bool Known(const InstanceState& i) { return i.profile != nullptr && i.profile->cost != nullptr; }

  // Returns the time until the prompt is computed, after the pending prefill [s].
  double Seconds(const InstanceState& i, std::int32_t prompt, std::int64_t cached) const {
    const PrefillPace& pace = paces_[i.slot];
    const double from = static_cast<double>(cached), to = prompt;
    return Rounded(pace.alpha_ms * 1e-3 * (static_cast<double>(i.pending_prefill) + to - from)) +
           Rounded(pace.beta_ns * 1e-9 * (Rounded(to * to) - Rounded(from * from)) / 2);
  }

  // Returns the time to send the KV of the prompt over a link that is free [s]. `from` must be Known.
  static double TransferSeconds(const RouterOptions& options, const InstanceState& from, std::int32_t prompt) {
    if (!(options.kv_link_gb_s > 0)) return 0;
    return prompt * from.profile->cost->model().kv_bytes_per_token / (options.kv_link_gb_s * 1e9);
  }

  std::vector<PrefillPace> paces_;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_ROLES_H_
