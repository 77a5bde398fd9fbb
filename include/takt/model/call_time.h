// The time of one call on an otherwise empty engine.
#ifndef TAKT_MODEL_CALL_TIME_H_
#define TAKT_MODEL_CALL_TIME_H_

#include <algorithm>
#include <cstdint>

#include "takt/base/time.h"
#include "takt/model/cost_model.h"

namespace takt {

// Returns the load of one of `parts` equal micro-batches, rounded up.
constexpr StepLoad ShareOf(const StepLoad& load, std::int64_t parts) {
  const auto share = [parts](std::int64_t count) { return (count + parts - 1) / parts; };
  return {share(load.prefill_tokens), load.prefill_work / static_cast<double>(parts), share(load.decodes),
          share(load.decode_context), share(load.samples)};
}

// Returns the time of a step, at least 1 ns so that virtual time advances. With pp pipeline stages, a step has pp equal
// micro-batches and takes pp times the time of the slowest stage.
inline Duration VirtualStepTime(const PreparedCostModel& cost, const StepLoad& load) {
  const std::int32_t pp = cost.model().pp;
  return std::max(pp <= 1 ? cost.StepTime(load) : Times(cost.StepTime(ShareOf(load, pp)), pp), Duration(1));
}

// One call in progress: prefill in chunks, then decoding. A tool's answer may add more prefill and decoding.
class LoneCall {
 public:
  // `cost` must outlive this object. `chunk` is the longest prefill of a step, at least 1 token.
  LoneCall(const PreparedCostModel& cost, std::int64_t chunk, std::int64_t prompt_tokens)
      : cost_(cost), chunk_(std::max<std::int64_t>(chunk, 1)), known_(prompt_tokens) {}

  // Appends the answer of a tool to the context.
  void Return(std::int64_t tokens) { known_ += tokens; }

  // Returns the time to compute the known context and then decode until `stop` tokens have been generated in total.
  Duration Generate(std::int64_t stop) {
    Duration total{0};
    while (known_ - computed_ > 1 || computed_ == 0) {
      const std::int64_t tokens = std::min(known_ - computed_, chunk_);
      StepLoad load;
      load.AddPrefill(tokens, computed_, computed_ + tokens == known_);
      total = Sum(total, VirtualStepTime(cost_, load));
      computed_ += tokens;
      if (computed_ == known_) ++known_, ++generated_;
    }
    const std::int64_t decodes = stop - generated_;
    if (decodes <= 0) return total;
    // A decode's time is linear in its context, so the mean of the first and the last decode is exact.
    total = Sum(total, Times(Sum(Decode(known_), Decode(known_ + decodes - 1)), decodes) / 2);
    known_ += decodes;
    computed_ += decodes;
    generated_ = stop;
    return total;
  }

 private:
  Duration Decode(std::int64_t context) const {
    StepLoad load;
    load.AddDecode(context);
    return VirtualStepTime(cost_, load);
  }

  const PreparedCostModel& cost_;
  std::int64_t chunk_;
  std::int64_t known_, computed_ = 0, generated_ = 0;  // tokens
};

// Returns t_comp of HexGen-Flow (Peng et al., 2025, equation 2): the time to prefill the prompt and decode the output.
// Prompt and output each count as 1 to 10^6 tokens, to prevent overflow.
inline Duration CallTime(const PreparedCostModel& cost, std::int64_t prompt_tokens, std::int64_t output_tokens,
                         std::int64_t chunk = 2048) {
  constexpr std::int64_t kMost = 1'000'000;
  return LoneCall(cost, chunk, std::clamp<std::int64_t>(prompt_tokens, 1, kMost))
      .Generate(std::clamp<std::int64_t>(output_tokens, 1, kMost));
}

}  // namespace takt

#endif  // TAKT_MODEL_CALL_TIME_H_
