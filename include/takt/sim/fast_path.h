// A fast simulation of one engine without a scheduler: first come first served, continuous batching, chunked prefill
// within a token budget, KV in blocks. Planners use it for thousands of runs.
//
// It models Replay (sim/replay.h) with one instance, policy "fcfs", StepLimits of `token_budget` and `max_seqs`, and
// defaults otherwise. It processes a request only at admission, end of prefill, preemption and end. An iteration costs
// O(1). Iterations in which all rows decode are processed together. A decode's time is linear in its context, so the
// times of these iterations form an arithmetic series. A calendar of iterations holds the ends of requests.
//
// Differences from Replay: times between decode-only iterations are not rounded to nanoseconds. A request that never
// fits fails at once, not when its context outgrows the cache. Prefix hits are a fixed share of each prompt (Cascadia,
// Appendix M, equation 1), and each request holds its own KV for them.
#ifndef TAKT_SIM_FAST_PATH_H_
#define TAKT_SIM_FAST_PATH_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/slot.h"
#include "takt/base/time.h"
#include "takt/config.h"
#include "takt/model/call_time.h"
#include "takt/model/cost_model.h"

namespace takt {

struct FastRequest {
  double arrival = 0;  // arrival time [s]
  std::int32_t prompt = 1;  // prompt tokens; at least 1
  std::int32_t output = 1;  // output tokens; at least 1

  friend constexpr bool operator==(const FastRequest&, const FastRequest&) = default;
};

// Times in seconds on the clock of the arrivals; infinite if the request never fits the cache.
struct FastRecord {
  double first_token = 0;
  double end = 0;

  friend constexpr bool operator==(const FastRecord&, const FastRecord&) = default;
};

struct FastPathOptions {
  std::int32_t token_budget = 2048;  // maximum tokens of an iteration, decodes and prefill together
  std::int32_t max_seqs = 256;  // maximum running requests, clamped to the budget
  std::int64_t kv_tokens = 0;  // size of the KV cache [tokens]
  std::int32_t kv_block_tokens = 16;  // block size, as in SchedulerOptions
  double kv_watermark = 0.01;  // share of the cache that admissions leave free for growth
  double prefix_hit_rate = 0;  // share of each prompt found in the prefix cache; clamped to [0, 1]
};

struct FastRun {
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t failed = 0;
  double busy = 0;  // total time of all iterations [s]
  double end = 0;  // end of the last iteration [s]
};

// Thread-compatible. A reused object allocates nothing for runs that are no larger.
class FastPath {
 public:
  // `cost` must outlive this object.
  FastPath(const PreparedCostModel& cost, const FastPathOptions& options) : cost_(&cost), options_(options) {
    options_.token_budget = std::max(options.token_budget, 1);
    options_.max_seqs = std::clamp(options.max_seqs, 1, options_.token_budget);
    options_.kv_block_tokens = std::max(options.kv_block_tokens, 1);
    options_.prefix_hit_rate = options.prefix_hit_rate > 0 ? std::min(options.prefix_hit_rate, 1.0) : 0;
    blocks_ = std::max<std::int64_t>(options.kv_tokens, 0) / options_.kv_block_tokens;
    watermark_ = static_cast<std::int64_t>(options_.kv_watermark * static_cast<double>(blocks_));
    phase_.resize(static_cast<std::size_t>(options_.kv_block_tokens));
    decode_s_.reserve(static_cast<std::size_t>(options_.max_seqs) + 1);
    for (std::int64_t b = 0; b <= options_.max_seqs; ++b) decode_s_.push_back(DecodeSeconds(b, 0));
    constexpr std::int64_t kFar = 100'000'000;
    const std::int64_t rows = cost.model().pp;
    context_s_ = (DecodeSeconds(rows, kFar) - DecodeSeconds(rows, 0)) / static_cast<double>(kFar);
  }

  // Runs all requests to their end. Requests must be sorted by arrival; `records` has the same size.
  FastRun Run(std::span<const FastRequest> requests, std::span<FastRecord> records);

  const FastPathOptions& options() const { return options_; }

 private:
  struct Row {
    std::int64_t finish = -1;  // iteration of the row's last token; -1: the row does not decode
    std::int32_t known = 0;  // tokens that must be computed at the row's next admission
    std::uint32_t next = kNoSlot;  // next row in the same calendar bucket
    bool running = false;
  };

  double DecodeSeconds(std::int64_t rows, std::int64_t context) const {
    if (rows == 0) return 0;
    return ToSeconds(VirtualStepTime(*cost_, {.decodes = rows, .decode_context = context, .samples = rows}));
  }

  std::int32_t Prompt(std::uint32_t r) const { return std::max(requests_[r].prompt, 1); }
  std::int32_t Output(std::uint32_t r) const { return std::max(requests_[r].output, 1); }
  std::int64_t BlocksOf(std::int64_t tokens) const {
    return (tokens + options_.kv_block_tokens - 1) / options_.kv_block_tokens;
  }
  // Returns the tokens of a decoding row before iteration step_, including the newest.
  std::int64_t KnownOf(std::uint32_t r) const {
    return std::int64_t{Prompt(r)} + Output(r) - (rows_[r].finish - step_ + 1);
  }
  std::size_t PhaseOf(std::int64_t step) const {
    const auto period = static_cast<std::int64_t>(phase_.size());
    const std::int64_t at = step % period;
    return static_cast<std::size_t>(at < 0 ? at + period : at);
  }
  // Returns the phase in which a row takes its next block, if it starts to decode at `step` with `computed` tokens.
  std::size_t PhaseOfRow(std::int64_t step, std::int64_t computed) const { return PhaseOf(step - computed); }

  void Begin(std::span<const FastRequest> requests, std::span<FastRecord> records);
  std::uint32_t Head();
  bool Admissible(std::uint32_t r) const;
  bool PlanPrefill(bool admit, StepLoad& load);
  void AddChunk(std::uint32_t r, StepLoad& load, std::int64_t& budget);
  void MakeRoom();
  void PreemptLast();
  void StepWithPrefill(StepLoad& load);
  void Decode();
  std::int64_t BlocksTaken(std::int64_t steps) const;
  void StartDecoding(std::uint32_t r);
  void EndRows();
  void End(std::uint32_t r, std::int64_t tokens);
  void Enter(std::uint32_t r, std::int64_t step);
  void Leave(std::uint32_t r, std::int64_t step);
  std::int64_t NextEnd() const;

  const PreparedCostModel* cost_;
  FastPathOptions options_;
  std::int64_t blocks_ = 0, watermark_ = 0;
  std::vector<double> decode_s_;  // time of a decode iteration without context, by rows [s]
  double context_s_ = 0;  // time per token of context [s]

  std::span<const FastRequest> requests_;
  std::span<FastRecord> records_;
  FastRun run_;
  double now_ = 0;
  std::int64_t step_ = 0;
  std::int64_t free_ = 0;
  std::int64_t decodes_ = 0;  // decoding rows
  std::int64_t context_ = 0;  // sum of the decoding rows' contexts in the next iteration
  std::int64_t done_ = 0;
  std::uint32_t next_ = 0;  // next request that was never admitted
  std::uint32_t prefill_ = kNoSlot;  // request whose prompt is partly computed
  std::int64_t prefill_done_ = 0;  // number of computed tokens of that prompt
  std::vector<std::uint32_t> back_;  // preempted requests; the last one is admitted first
  std::vector<std::uint32_t> order_;  // running requests in order of admission; may contain finished ones
  std::vector<std::uint32_t> starts_;  // requests whose prefill ends in this iteration
  std::vector<Row> rows_;
  std::vector<std::int64_t> phase_;  // number of rows that take a block, by iteration modulo block size
  std::vector<std::uint32_t> calendar_;  // first row by last iteration, modulo its size
  std::vector<std::uint64_t> calendar_bits_;  // non-empty buckets, one bit each
};

inline void FastPath::Begin(std::span<const FastRequest> requests, std::span<FastRecord> records) {
  TAKT_ASSERT(requests.size() == records.size());
  requests_ = requests;
  records_ = records;
  run_ = {};
  now_ = 0;
  step_ = done_ = decodes_ = context_ = 0;
  free_ = blocks_;
  next_ = 0;
  prefill_ = kNoSlot;
  back_.clear();
  order_.clear();
  rows_.assign(requests.size(), {});
  std::fill(phase_.begin(), phase_.end(), 0);
  std::int64_t longest = 1;
  for (std::uint32_t r = 0; r < requests.size(); ++r) {
    const std::int64_t most = std::int64_t{Prompt(r)} + Output(r) - 1;
    if (BlocksOf(most) <= blocks_) longest = std::max<std::int64_t>(longest, Output(r));
    rows_[r].known = Prompt(r);
  }
  const std::size_t size = std::max<std::size_t>(64, std::bit_ceil(static_cast<std::size_t>(longest) + 2));
  calendar_.assign(size, kNoSlot);
  calendar_bits_.assign(size / 64, 0);
}

inline FastRun FastPath::Run(std::span<const FastRequest> requests, std::span<FastRecord> records) {
  Begin(requests, records);
  const auto all = static_cast<std::int64_t>(requests.size());
  while (done_ < all) {
    if (decodes_ == 0 && prefill_ == kNoSlot) {
      const std::uint32_t head = Head();
      if (head == kNoSlot) break;
      now_ = std::max(now_, requests_[head].arrival);
    }
    StepLoad load;
    const bool crowded = phase_[PhaseOf(step_)] > free_;
    if (crowded) MakeRoom();
    if (PlanPrefill(!crowded, load)) {
      StepWithPrefill(load);
    } else if (decodes_ > 0) {
      Decode();
    }
  }
  run_.end = now_;
  return run_;
}

// Returns the next request to admit, arrived or not. Fails requests that never fit.
inline std::uint32_t FastPath::Head() {
  if (!back_.empty()) return back_.back();
  while (next_ < requests_.size()) {
    if (BlocksOf(std::int64_t{Prompt(next_)} + Output(next_) - 1) <= blocks_) return next_;
    records_[next_] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    ++run_.failed;
    ++done_;
    ++next_;
  }
  return kNoSlot;
}

inline bool FastPath::Admissible(std::uint32_t r) const {
  if (requests_[r].arrival > now_) return false;
  const std::int64_t running = decodes_ + static_cast<std::int64_t>(starts_.size()) + (prefill_ == kNoSlot ? 0 : 1);
  if (running >= options_.max_seqs) return false;
  return BlocksOf(rows_[r].known) <= free_ - (running > 0 ? watermark_ : 0);
}

// Gives the remaining budget to prompts: first the started one, then new requests. Returns false if no prefill runs.
inline bool FastPath::PlanPrefill(bool admit, StepLoad& load) {
  starts_.clear();
  std::int64_t budget = options_.token_budget - decodes_;
  if (budget <= 0) return false;
  const std::int64_t need = phase_[PhaseOf(step_)];  // blocks that running requests need, which have priority
  free_ -= need;
  if (prefill_ != kNoSlot) AddChunk(prefill_, load, budget);
  while (admit && budget > 0) {
    const std::uint32_t r = Head();
    if (r == kNoSlot || !Admissible(r)) break;
    if (back_.empty()) {
      ++next_;
    } else {
      back_.pop_back();
    }
    free_ -= BlocksOf(rows_[r].known);
    rows_[r].running = true;
    order_.push_back(r);
    const auto cached = static_cast<std::int64_t>(options_.prefix_hit_rate * Prompt(r));
    prefill_done_ = std::min<std::int64_t>(cached, Prompt(r) - 1);
    AddChunk(r, load, budget);
  }
  free_ += need;
  return load.prefill_tokens > 0;
}

inline void FastPath::AddChunk(std::uint32_t r, StepLoad& load, std::int64_t& budget) {
  const std::int64_t left = rows_[r].known - prefill_done_;
  const std::int64_t tokens = std::min(left, budget);
  load.AddPrefill(tokens, prefill_done_, tokens == left);
  budget -= tokens;
  prefill_done_ += tokens;
  prefill_ = tokens == left ? kNoSlot : r;
  if (tokens == left) starts_.push_back(r);
}

// Preempts the most recently admitted requests until this iteration's rows have enough blocks.
inline void FastPath::MakeRoom() {
  while (phase_[PhaseOf(step_)] > free_) PreemptLast();
}

inline void FastPath::PreemptLast() {
  while (!rows_[order_.back()].running) order_.pop_back();
  const std::uint32_t r = order_.back();
  order_.pop_back();
  Row& row = rows_[r];
  row.running = false;
  ++run_.preemptions;
  if (r == prefill_) {
    free_ += BlocksOf(row.known);
    prefill_ = kNoSlot;
  } else {
    const std::int64_t known = KnownOf(r);
    Leave(r, row.finish);
    --phase_[PhaseOfRow(step_, known - 1)];
    --decodes_;
    context_ -= known;
    free_ += BlocksOf(known - 1);
    row.known = static_cast<std::int32_t>(known);
    row.finish = -1;
  }
  back_.push_back(r);
}

inline void FastPath::StepWithPrefill(StepLoad& load) {
  load.decodes = decodes_;
  load.decode_context = context_;
  load.samples += decodes_;
  const double seconds = ToSeconds(VirtualStepTime(*cost_, load));
  now_ += seconds;
  run_.busy += seconds;
  ++run_.steps;
  free_ -= phase_[PhaseOf(step_)];
  context_ += decodes_;
  ++step_;
  EndRows();
  for (const std::uint32_t r : starts_) StartDecoding(r);
  starts_.clear();
}

// Handles the end of a prefill, which yields a token.
inline void FastPath::StartDecoding(std::uint32_t r) {
  Row& row = rows_[r];
  const std::int32_t generated = row.known - Prompt(r) + 1;
  if (generated == 1) records_[r].first_token = now_;
  const std::int64_t left = Output(r) - generated;
  if (left == 0) return End(r, row.known);
  row.finish = step_ + left - 1;
  ++phase_[PhaseOfRow(step_, row.known)];
  ++decodes_;
  context_ += row.known + 1;
  Enter(r, row.finish);
}

// Runs iterations that only decode, until the next end or the next possible admission.
inline void FastPath::Decode() {
  std::int64_t steps = NextEnd() - step_ + 1;
  const double first =
      decode_s_[static_cast<std::size_t>(decodes_)] + Rounded(context_s_ * static_cast<double>(context_));
  const double grows = Rounded(context_s_ * static_cast<double>(decodes_));  // growth of the time per iteration
  const auto seconds = [&](std::int64_t n) {
    const auto count = static_cast<double>(n);
    return Rounded(count * (first + Rounded(grows * 0.5 * (count - 1))));
  };
  double span = seconds(steps);
  const std::uint32_t head = prefill_ == kNoSlot ? Head() : kNoSlot;
  if (head != kNoSlot && requests_[head].arrival > now_ && requests_[head].arrival < now_ + span) {
    const double wait = requests_[head].arrival - now_;
    const double p = first - Rounded(0.5 * grows);
    const double n = std::ceil(2 * wait / (p + std::sqrt(Rounded(p * p) + Rounded(2 * grows * wait))));
    steps = std::clamp(static_cast<std::int64_t>(n), std::int64_t{1}, steps);
    span = seconds(steps);
  }
  if (BlocksTaken(steps) > free_) {
    // In each period every row takes one block.
    steps = std::clamp(free_ / decodes_ * options_.kv_block_tokens, std::int64_t{1}, steps);
    span = seconds(steps);
  }
  free_ -= BlocksTaken(steps);
  now_ += span;
  run_.busy += span;
  run_.steps += steps;
  context_ += decodes_ * steps;
  step_ += steps;
  EndRows();
}

// Returns the blocks that decoding rows take in the next `steps` iterations.
inline std::int64_t FastPath::BlocksTaken(std::int64_t steps) const {
  const auto period = static_cast<std::int64_t>(phase_.size());
  std::int64_t blocks = steps / period * decodes_;
  std::size_t at = PhaseOf(step_);
  for (std::int64_t left = steps % period; left > 0; --left) {
    blocks += phase_[at];
    if (++at == phase_.size()) at = 0;
  }
  return blocks;
}

// Ends the rows whose last token came from the last iteration.
inline void FastPath::EndRows() {
  const std::int64_t last = step_ - 1;
  const std::size_t bucket = static_cast<std::size_t>(last) & (calendar_.size() - 1);
  if (calendar_[bucket] == kNoSlot) return;
  for (std::uint32_t r = calendar_[bucket]; r != kNoSlot; r = rows_[r].next) {
    const std::int64_t tokens = std::int64_t{Prompt(r)} + Output(r);
    --phase_[PhaseOfRow(step_, tokens - 1)];
    --decodes_;
    context_ -= tokens;
    End(r, tokens - 1);
  }
  calendar_[bucket] = kNoSlot;
  calendar_bits_[bucket / 64] &= ~(std::uint64_t{1} << (bucket % 64));
}

inline void FastPath::End(std::uint32_t r, std::int64_t tokens) {
  records_[r].end = now_;
  free_ += BlocksOf(tokens);
  rows_[r].running = false;
  ++done_;
}

inline void FastPath::Enter(std::uint32_t r, std::int64_t step) {
  const std::size_t bucket = static_cast<std::size_t>(step) & (calendar_.size() - 1);
  rows_[r].next = calendar_[bucket];
  calendar_[bucket] = r;
  calendar_bits_[bucket / 64] |= std::uint64_t{1} << (bucket % 64);
}

inline void FastPath::Leave(std::uint32_t r, std::int64_t step) {
  const std::size_t bucket = static_cast<std::size_t>(step) & (calendar_.size() - 1);
  std::uint32_t* at = &calendar_[bucket];
  while (*at != r) at = &rows_[*at].next;
  *at = rows_[r].next;
  if (calendar_[bucket] == kNoSlot) calendar_bits_[bucket / 64] &= ~(std::uint64_t{1} << (bucket % 64));
}

// Returns the first iteration from step_ on that is the last of a row. At least one row must be decoding.
inline std::int64_t FastPath::NextEnd() const {
  const std::size_t start = static_cast<std::size_t>(step_) & (calendar_.size() - 1);
  std::size_t word = start / 64;
  std::uint64_t bits = calendar_bits_[word] & (~std::uint64_t{0} << (start % 64));
  while (bits == 0) {
    if (++word == calendar_bits_.size()) word = 0;
    bits = calendar_bits_[word];
  }
  const std::size_t found = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  return step_ + static_cast<std::int64_t>((found - start) & (calendar_.size() - 1));
}

}  // namespace takt

#endif  // TAKT_SIM_FAST_PATH_H_
