// What a prompt is about, in a few numbers: TF-IDF of hashed words and pairs of words, reduced by a truncated SVD.
#ifndef TAKT_LEARNING_TEXT_SKETCH_H_
#define TAKT_LEARNING_TEXT_SKETCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/parallel.h"

namespace takt {

struct TextSketchOptions {
  std::size_t dimensions = 16;
  std::size_t buckets = 1 << 14;  // that words and pairs are hashed into
  std::size_t max_bytes = 1 << 16;  // of a text; what comes after is not read
  std::size_t max_texts = 20'000;   // to learn from; of more, evenly spaced ones
  int power_iterations = 2;
  std::uint64_t seed = 1;
};

// Room to work in, one for each thread.
struct TextScratch {
  std::vector<std::uint32_t> counts = {};  // by bucket; zeros between calls
  std::vector<std::uint32_t> used = {};    // buckets
};

// Immutable. Words are runs of letters and digits, ASCII in lower case; characters of scripts that set no spaces
// (U+2E80 on) are words of their own; bytes that are no UTF-8 separate. Weight of a bucket that occurs c times:
// (1 + ln c) (1 + ln((1 + texts) / (1 + texts that have it))); the whole has length 1. The sketch is its projection on
// the leading right singular vectors of the texts learnt from (Halko, Martinsson and Tropp, 2011, algorithm 4.4).
class TextSketch {
 public:
  // InvalidArgument: no texts, or options; Cancelled.
  static absl::StatusOr<std::shared_ptr<const TextSketch>> Train(std::span<const std::string_view> texts,
                                                                 const TextSketchOptions& options = {},
                                                                 const Progress& progress = {});

  // `out` has dimensions() places. Zeros where the text has no word.
  void Of(std::string_view text, std::span<float> out, TextScratch& scratch) const;

  std::size_t dimensions() const { return dimensions_; }

  // As QuantileForest's.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const TextSketch>> Load(std::string_view bytes);

 private:
  std::size_t dimensions_ = 0, max_bytes_ = 0;
  std::vector<float> idf_;      // by bucket
  std::vector<float> vectors_;  // buckets x dimensions
};

}  // namespace takt

#endif  // TAKT_LEARNING_TEXT_SKETCH_H_
