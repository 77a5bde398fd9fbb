// The remaining limits of a step.
#ifndef TAKT_SCHEDULER_STEP_BUDGET_H_
#define TAKT_SCHEDULER_STEP_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt::internal {

struct StepBudget {
  StepLimits limits = {};
  std::int32_t tokens = 0, prefill = 0, seqs = 0;
  std::int32_t paced = 0;  // `prefill` at the start of the build
  // Fewest missing tokens of any started prompt that does not end in this step; the largest int if there is none.
  std::int32_t shortest_rest = std::numeric_limits<std::int32_t>::max();
  std::int32_t swap_in = 0;  // blocks
  std::int32_t swap_out = Blocks::Max().value;  // between plans: estimate for the next plan

  // Swap-out blocks promised to tool calls since the last plan count against this plan.
  void BeginPlan(const StepLimits& of_step) {
    const std::int32_t promised = std::max(limits.swap_out.value, 0) - swap_out;
    limits = of_step;
    swap_in = limits.swap_in.value;  // the plan's budgets, which are not renewed if it is built several times
    swap_out = std::max(limits.swap_out.value, 0) - promised;
  }
  void EndPlan() { swap_out = std::max(limits.swap_out.value, 0); }

  // `of_pace`: maximum prompt tokens that keep the pace of running requests.
  void BeginBuild(std::int32_t of_pace) {
    tokens = std::max(limits.tokens.value, 0);
    prefill = paced = std::min(std::clamp(limits.prefill_tokens.value, 0, tokens), of_pace);
    seqs = limits.max_seqs;
    shortest_rest = std::numeric_limits<std::int32_t>::max();
  }

  // Returns the prompt tokens that this step may still compute.
  std::int32_t ForPrompts() const { return std::max(std::min(tokens, prefill), 0); }

  // Returns the number of tokens that this step may compute of the `left` known tokens from `start` on.
  std::int32_t Chunk(const Request& r, std::int32_t start, std::int32_t left) const {
    const std::int32_t allowed = ForPrompts();
    if (r.chunkable || start >= r.prompt_tokens.value) {
      const std::int32_t n = std::max(std::min({left, allowed, limits.chunk_tokens.value}), 0);
      const std::int32_t align = limits.chunk_align.value;
      return n == left || align <= 1 ? n : std::max((start + n) / align * align - start, 0);
    }
    // A prompt that must be computed whole ignores the pace if the step computes no other prompt.
    const std::int32_t whole = prefill == paced ? std::max(std::min(tokens, limits.prefill_tokens.value), 0) : allowed;
    return r.prompt_tokens.value - start <= whole ? std::min(left, whole) : 0;
  }

  // Returns the share of each of `prompts` prompts, in tokens. Unlimited if the host bounds chunks itself.
  std::int32_t ShareOfPrompt(std::size_t prompts) const {
    if (prompts < 2 || limits.chunk_tokens != Tokens::Max()) return std::numeric_limits<std::int32_t>::max();
    return std::max(ForPrompts() / static_cast<std::int32_t>(prompts), 1);
  }

  // Returns the shortest chunk of at least `share` tokens, or a shorter one if none fits. `left` must exceed what this
  // step may compute.
  std::int32_t LeastChunk(const Request& r, std::int32_t start, std::int32_t left, std::int32_t share) const {
    const std::int64_t align = std::max(limits.chunk_align.value, 1), end = std::int64_t{start} + share;
    const std::int64_t n = (end + align - 1) / align * align - start;
    return n <= ForPrompts() ? static_cast<std::int32_t>(n) : Chunk(r, start, left);
  }

  // Returns true if a prompt may start while other prompts do not end in this step. `n` of the prompt's `left` missing
  // tokens fit. The prompt must end in this step or be at most half as long as the shortest other prompt. If prompts of
  // similar length share a step, both are late.
  bool MayStart(std::int32_t n, std::int32_t left) const { return n == left || left <= shortest_rest / 2; }

  // Returns true if an empty step can compute this number of prompt tokens at once.
  bool WouldFit(std::int32_t prompt) const {
    return prompt <= std::min(limits.tokens.value, limits.prefill_tokens.value);
  }

  // Returns the minimum tokens of a chunk of the `left` known tokens from `start`.
  std::int32_t Least(const Request& r, std::int32_t start, std::int32_t left) const {
    if (IsWhole(r, start)) return r.prompt_tokens.value - start;
    const std::int32_t align = limits.chunk_align.value;
    return std::min(left, align > 1 ? align - start % align : 1);
  }

  // Returns true if an empty step has room for the minimum chunk. A prompt that may be split also fits if the limits
  // allow no prompt tokens.
  bool Fits(const Request& r, std::int32_t start, std::int32_t left) const {
    if (IsWhole(r, start)) return WouldFit(r.prompt_tokens.value - start);
    const std::int32_t most = std::min({limits.tokens.value, limits.prefill_tokens.value, limits.chunk_tokens.value});
    return most <= 0 || Least(r, start, left) <= most;
  }

  // Returns true if this step may still compute prompts.
  bool HasRoom() const { return std::min(tokens, prefill) > 0; }

  // Returns the maximum chunk if no aligned chunk fits any step of these limits; else 0.
  std::int32_t MisalignedAt() const {
    const std::int32_t most = std::min({limits.tokens.value, limits.prefill_tokens.value, limits.chunk_tokens.value});
    return limits.chunk_align.value > most ? std::max(most, 0) : 0;
  }

  // SetAside reserves budget for an admission that awaits the oracle; GiveBack returns it.
  void SetAside(std::int32_t n, bool of_prompt) { tokens -= n, prefill -= of_prompt ? n : 0; }
  void GiveBack(std::int32_t n, bool of_prompt) { SetAside(-n, of_prompt); }

 private:
  // Returns true if the rest of the prompt must be computed at once.
  static bool IsWhole(const Request& r, std::int32_t start) { return !r.chunkable && start < r.prompt_tokens.value; }
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STEP_BUDGET_H_
