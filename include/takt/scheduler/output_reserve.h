// The KV that admissions leave for the output of running requests.
#ifndef TAKT_SCHEDULER_OUTPUT_RESERVE_H_
#define TAKT_SCHEDULER_OUTPUT_RESERVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "takt/scheduler/kv.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Rows grow by one token per sequence and step, and free their KV at their end. So the largest need comes just before
// some row ends. An admission must leave enough KV for that peak. Only with the ledger and `reserve_output`.
//
// Source: the same peak as in Gong et al., Past-Future Scheduler for LLM Serving under SLA Guarantees (ASPLOS 2025).
//
// Departures: the end of a row comes from a quantile of its request's own estimate, given its output so far. Prefills
// count as one step. Each sequence wastes half a block at the peak; with quantile 1 a whole block.
//
// Invariant: if `plan_` is the present plan and `rows_` the present number of rows, `ends_` has each row, last end
// first.
class OutputReserve {
 public:
  OutputReserve(EngineState& s, Kv& kv) : s_(s), kv_(kv) {}

  void Reserve(std::size_t lanes) { ends_.reserve(lanes + 1); }
  bool on() const { return s_.options.reserve_output > 0 && kv_.Counts() && kv_.oracle == nullptr; }

  // Returns the blocks that must stay free after the admission of this waiting request to a running batch. They cover
  // the watermark, and the peak's need beyond the blocks that rows hold. O(rows); once per plan O(rows log rows).
  std::int64_t Spare(const Record& record) {
    if (!on()) return kv_.watermark;
    ReadRows();
    const std::int64_t blocks = std::max(kv_.BlocksFor(record), std::max(record.blocks, record.cpu_blocks));
    return std::max<std::int64_t>(kv_.watermark,
                                  PeakWith(EndOf(record, record.known, record.state.generated.value, blocks)));
  }

  // A waiting request got this row.
  void Admitted(std::uint32_t lane) {
    if (!on() || plan_ != s_.stats.plans || rows_ != s_.counts.rows - 1) return void(rows_ = -1);
    const End end = EndOfRow(s_.running.Look(lane));
    ends_.insert(std::ranges::lower_bound(ends_, end.steps, std::greater{}, &End::steps), end);
    rows_ = s_.counts.rows;
  }

 private:
  // The expected end of a request.
  struct End {
    std::int64_t steps = 0;  // remaining steps
    std::int64_t spare = 0;  // tokens that fit into its blocks beyond its context
    std::int64_t sequences = 1;
    std::int64_t frees = 0;  // blocks of its own, free after its end
  };

  void ReadRows() {
    if (plan_ == s_.stats.plans && rows_ == s_.counts.rows) return;
    plan_ = s_.stats.plans, rows_ = s_.counts.rows;
    ends_.clear();
    for (const std::uint32_t lane : s_.running.order()) {
      const Row row = s_.running.Look(lane);
      if (row.state != RowState::kFree && row.state != RowState::kLeaving) ends_.push_back(EndOfRow(row));
    }
    std::ranges::sort(ends_, std::greater{}, &End::steps);
  }

  // Returns the largest number of blocks that the rows and this request need beyond their present blocks at the end of
  // any of them.
  std::int64_t PeakWith(const End& added) const {
    const std::int64_t block = kv_.block_tokens, waste = s_.options.reserve_output < 1 ? block / 2 : block - 1;
    std::int64_t peak = 0, freed = added.frees, spare = 0, sequences = 0;
    for (const End& end : ends_) freed += end.frees;
    const auto until = [&](const End& end) {  // the rows so far end last, and the others have ended
      freed -= end.frees, spare += end.spare, sequences += end.sequences;
      const std::int64_t tokens = sequences * end.steps - spare;
      const std::int64_t more = tokens > 0 ? (tokens + sequences * waste) / block : 0;
      peak = std::max(peak, more - freed);
    };
    bool counted = false;
    for (const End& end : ends_) {
      if (!counted && added.steps >= end.steps) until(added), counted = true;
      until(end);
    }
    if (!counted) until(added);
    return peak;
  }

  End EndOfRow(const Row& row) const { return EndOf(s_.table[row.slot], row.known, row.generated, row.blocks); }
  End EndOf(const Record& record, std::int64_t known, std::int64_t generated, std::int64_t blocks) const {
    const std::int64_t shared = std::int64_t{record.shared_chunks} * kv_.ChunkBlocks(record);
    return {.steps = std::max<std::int64_t>(Output(record.state.request, generated) - 1 - generated, 0),
            .spare = blocks * kv_.block_tokens - known,
            .sequences = s_.Sequences(record),
            .frees = blocks - shared};
  }

  // Returns the expected output tokens per sequence of a request that has generated this many. This is the quantile of
  // the estimate among larger outputs, at most the cap. Without a usable estimate, or with quantile 1, a share of the
  // rest of the cap is added to the generated tokens.
  std::int64_t Output(const Request& r, std::int64_t generated) const {
    constexpr double kMost = 1 << 28;
    const double quantile = s_.options.reserve_output;
    const auto so_far = static_cast<double>(generated);
    const double cap = r.max_output_tokens.value > 0 ? r.max_output_tokens.value : so_far;
    double output = so_far + Rounded(quantile * std::max(cap - so_far, 0.0));
    if (r.output_tokens.known() && (quantile < 1 || r.max_output_tokens.value == 0)) {
      const double estimate = r.output_tokens.Quantile(LevelAfter(r.output_tokens, so_far, quantile));
      if (estimate > so_far) output = r.max_output_tokens.value > 0 ? std::min(estimate, cap) : estimate;
    }
    return static_cast<std::int64_t>(std::clamp(output, 0.0, kMost));
  }

  // Returns the level of this quantile among the outputs above `so_far`.
  static double LevelAfter(const Estimate& estimate, double so_far, double quantile) {
    double below = 0;  // share of outputs of at most `so_far`
    if (so_far > 0) {
      double least = 0, most = 1;
      for (int i = 0; i < 12; ++i) {
        const double middle = (least + most) / 2;
        (estimate.Quantile(middle) <= so_far ? least : most) = middle;
      }
      below = least;
    }
    return below + Rounded(quantile * (1 - below));
  }

  EngineState& s_;
  Kv& kv_;
  std::uint64_t plan_ = 0;
  std::int32_t rows_ = 0;
  std::vector<End> ends_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_OUTPUT_RESERVE_H_
