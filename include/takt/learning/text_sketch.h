// Describes a prompt's topic by a few numbers: TF-IDF of hashed words and word pairs, reduced by a truncated SVD.
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
  std::size_t buckets = 1 << 14;  // number of hash buckets for words and pairs of words
  std::size_t max_bytes = 1 << 16;  // maximum bytes read from the start of a text
  std::size_t max_texts = 20'000;  // maximum training texts, evenly spaced among the given texts
  int power_iterations = 2;
  std::uint64_t seed = 1;
};

// Working memory of one thread.
struct TextScratch {
  std::vector<std::uint32_t> counts = {};  // number of occurrences per bucket; zeros between calls
  std::vector<std::uint32_t> used = {};    // buckets with a count
};

// Immutable. Words are runs of letters and digits, with ASCII in lower case. Each character from U+2E80 on is a word,
// since these scripts have no spaces. Bytes that are not UTF-8 separate words. A bucket with c occurrences weighs (1 +
// ln c) (1 + ln((1 + texts) / (1 + texts with this bucket))). The weights are scaled to a vector of length 1. The
// sketch projects this vector on the leading right singular vectors of the training texts (Halko, Martinsson and Tropp,
// 2011, algorithm 4.4).
class TextSketch {
 public:
  // Learns from texts. InvalidArgument: no texts, or invalid options. Cancelled: `progress` returned false.
  static absl::StatusOr<std::shared_ptr<const TextSketch>> Train(std::span<const std::string_view> texts,
                                                                 const TextSketchOptions& options = {},
                                                                 const Progress& progress = {});

  // Sets the dimensions() elements of `out`; zeros if the text has no words.
  void Of(std::string_view text, std::span<float> out, TextScratch& scratch) const;

  std::size_t dimensions() const { return dimensions_; }

  // Save and Load work as in QuantileForest.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const TextSketch>> Load(std::string_view bytes);

 private:
  std::size_t dimensions_ = 0, max_bytes_ = 0;
  std::vector<float> idf_;  // inverse document frequency of each bucket
  std::vector<float> vectors_;  // leading singular vectors, by bucket
};

}  // namespace takt

#endif  // TAKT_LEARNING_TEXT_SKETCH_H_
