// Learns output lengths of a stage's calls by length of the prompt.
#ifndef TAKT_LEARNING_LENGTH_TABLE_H_
#define TAKT_LEARNING_LENGTH_TABLE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "takt/base/exact_math.h"
#include "takt/base/id.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/model/estimate.h"
#include "takt/numeric/summary.h"

namespace takt {

namespace internal {
struct LearntFile;
}

struct LengthTableOptions {
  std::uint32_t max_stages = 1024;  // maximum stages, about 3 KB each; calls of further stages count for no stage
  std::int64_t window = 1024;  // number of calls per cell after which older calls count half; at least 2
  std::uint64_t hash_seed = 0;  // seed of hashes of stages, as SchedulerOptions::hash_seed
};

// A table with a cell per stage and octave of prompt tokens. A cell without data uses its stage's data. A stage without
// data uses all calls. Before the first call, estimates are unknown. Quantiles are log-normal. Deterministic. Lengths
// below 1 count as 1.
class LengthTable {
 public:
  explicit LengthTable(const LengthTableOptions& options = {}) : options_(options) {
    options_.window = std::max<std::int64_t>(options_.window, 2);
    stages_.KeyHashes(options.hash_seed);
  }

  // Learns from an ended call. Allocates only for a new stage.
  void Observe(StageId stage, std::int64_t prompt_tokens, std::int64_t output_tokens) {
    const auto output = static_cast<double>(std::max<std::int64_t>(output_tokens, 1));
    const double log = exact::Log(output);
    all_.Add(output, log, options_.window);
    Slot slot = stages_.Find(stage);
    if (slot == kNoSlot && stages_.size() >= options_.max_stages) return;
    if (slot == kNoSlot) stages_[slot = stages_.Insert(stage)].id = stage;
    stages_[slot].whole.Add(output, log, options_.window);
    stages_[slot].cells[Octave(prompt_tokens)].Add(output, log, options_.window);
  }

  // Returns the expected output tokens of a new call.
  Estimate Expect(StageId stage, std::int64_t prompt_tokens) const {
    const Stage* known = stages_.Get(stage);
    if (known == nullptr) return all_.ToEstimate();
    const Cell& cell = known->cells[Octave(prompt_tokens)];
    return cell.tokens.count() > 0 ? cell.ToEstimate() : known->whole.ToEstimate();
  }

  // Save and Load work as in ToolProfile.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

  std::size_t stages() const { return stages_.size(); }

  // Returns the table entries visited by a look-up; for tests.
  std::size_t Looks(StageId stage) const { return stages_.Looks(stage); }

 private:
  friend struct internal::LearntFile;

  struct Cell {
    Moments tokens, logs;

    void Add(double output, double log, std::int64_t window) {
      if (tokens.count() >= window) {
        tokens = Moments::From(tokens.count() / 2, tokens.mean(), tokens.deviation());
        logs = Moments::From(logs.count() / 2, logs.mean(), logs.deviation());
      }
      tokens.Add(output);
      logs.Add(log);
    }

    Estimate ToEstimate() const {
      if (tokens.count() == 0) return {};
      Estimate e{.mean = tokens.mean()};
      for (std::size_t i = 0; i < Estimate::kNormal.size(); ++i) {
        e.quantiles[i] = static_cast<float>(exact::Exp(logs.mean() + Rounded(Estimate::kNormal[i] * logs.deviation())));
      }
      return e;
    }
  };
  static constexpr std::size_t kOctaves = 32;
  struct Stage {
    StageId id;
    Cell whole;
    std::array<Cell, kOctaves> cells;
  };

  static std::size_t Octave(std::int64_t tokens) {
    const auto whole = static_cast<std::uint64_t>(std::max<std::int64_t>(tokens, 0));
    return std::min(static_cast<std::size_t>(std::bit_width(whole)), std::size_t{kOctaves} - 1);
  }

  LengthTableOptions options_;
  Cell all_;
  IdTable<StageId, Stage> stages_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_LENGTH_TABLE_H_
