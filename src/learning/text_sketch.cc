#include "takt/learning/text_sketch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "Eigen/Dense"
#include "Eigen/SparseCore"
#include "absl/status/status.h"
#include "learning/pack.h"
#include "takt/base/exact_math.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr std::string_view kMagic = "takt sketch ";
constexpr std::uint32_t kVersion = 1;

// Returns the character at `at` and its length; length 0 for invalid UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

Character CharacterAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size() - at) return {};
  std::uint32_t code = first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(at + i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

// Calls f(hash) for each word of the text.
template <class F>
void ForEachWord(std::string_view text, F&& f) {
  constexpr std::uint64_t kStart = 0xcbf29ce484222325u, kPrime = 0x100000001b3u;  // FNV-1a
  std::uint64_t hash = kStart;
  bool within = false;
  const auto end = [&] {
    if (within) f(hash);
    within = false;
    hash = kStart;
  };
  const auto add = [&](unsigned byte) {
    hash = (hash ^ byte) * kPrime;
    within = true;
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const unsigned lower = c | 0x20u;
    if (c < 0x80) {
      ++i;
      if (lower >= 'a' && lower <= 'z') add(lower);
      else if (c >= '0' && c <= '9') add(c);
      else end();
      continue;
    }
    const Character character = CharacterAt(text, i);
    const bool alone = character.code >= 0x2e80;
    if (character.bytes == 0 || alone) end();
    for (std::size_t k = 0; k < character.bytes; ++k) add(static_cast<unsigned char>(text[i + k]));
    if (alone) end();
    i += std::max<std::size_t>(character.bytes, 1);
  }
  end();
}

// Counts words into scratch. `used` lists the buckets above zero.
void CountWords(std::string_view text, std::size_t buckets, TextScratch& scratch) {
  scratch.counts.resize(buckets);
  scratch.used.clear();
  const auto add = [&](std::uint64_t hash) {
    const auto bucket = static_cast<std::uint32_t>(Mix64(hash) % buckets);
    if (scratch.counts[bucket]++ == 0) scratch.used.push_back(bucket);
  };
  std::uint64_t before = 0;
  ForEachWord(text, [&](std::uint64_t word) {
    add(word);
    if (before != 0) add(before * 31 + word);
    before = word;
  });
}

double Weight(std::uint32_t count, float idf) {
  return (1 + exact::Log(static_cast<double>(count))) * static_cast<double>(idf);
}

using FloatMatrix = Eigen::MatrixXf;

FloatMatrix Orthonormal(const FloatMatrix& a) {
  const Eigen::HouseholderQR<FloatMatrix> qr(a);
  return qr.householderQ() * FloatMatrix::Identity(a.rows(), std::min(a.rows(), a.cols()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TextSketch>> TextSketch::Train(std::span<const std::string_view> texts,
                                                                    const TextSketchOptions& options,
                                                                    const Progress& progress) {
  const auto invalid = [](const std::string& text) { return absl::InvalidArgumentError("text sketch: " + text); };
  if (texts.empty()) return invalid("there are no texts to learn from");
  if (options.dimensions < 1 || options.dimensions > 200) return invalid("dimensions must be 1 to 200");
  if (options.buckets < 256 || options.buckets > (1 << 20)) return invalid("buckets must be 256 to 1,048,576");
  if (options.max_texts < 1) return invalid("max_texts must be positive");
  const auto goes_on = [&](double share) { return !progress || progress(share); };
  const absl::Status stopped = absl::CancelledError("text sketch: training was stopped");

  // Computes counts, then weights, row by row.
  const std::size_t n = std::min(texts.size(), options.max_texts);
  std::vector<Eigen::Triplet<float>> entries;
  std::vector<std::uint32_t> texts_with(options.buckets);
  TextScratch scratch;
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 256 == 0 && !goes_on(0.5 * static_cast<double>(i) / static_cast<double>(n))) return stopped;
    CountWords(texts[i * texts.size() / n].substr(0, options.max_bytes), options.buckets, scratch);
    for (const std::uint32_t bucket : scratch.used) {
      ++texts_with[bucket];
      const auto count = static_cast<float>(std::exchange(scratch.counts[bucket], 0));
      entries.emplace_back(static_cast<int>(i), static_cast<int>(bucket), count);
    }
    begins.push_back(entries.size());
  }
  const auto sketch = std::make_shared<TextSketch>();
  sketch->dimensions_ = options.dimensions;
  sketch->max_bytes_ = options.max_bytes;
  for (const std::uint32_t count : texts_with) {
    sketch->idf_.push_back(static_cast<float>(1 + exact::Log((1.0 + static_cast<double>(n)) / (1.0 + count))));
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = std::span(entries).subspan(begins[i], begins[i + 1] - begins[i]);
    double squares = 0;
    for (auto& e : row) {
      const double w = Weight(static_cast<std::uint32_t>(e.value()), sketch->idf_[static_cast<std::size_t>(e.col())]);
      e = {e.row(), e.col(), static_cast<float>(w)};
      squares += w * w;
    }
    for (auto& e : row) e = {e.row(), e.col(), e.value() / static_cast<float>(std::sqrt(squares))};
  }

  const auto buckets = static_cast<Eigen::Index>(options.buckets);
  Eigen::SparseMatrix<float, Eigen::RowMajor> x(static_cast<Eigen::Index>(n), buckets);
  x.setFromTriplets(entries.begin(), entries.end());
  constexpr std::size_t kMore = 8;  // extra columns that make the subspace accurate
  const auto width = static_cast<Eigen::Index>(std::min(options.dimensions + kMore, n));
  Random random(options.seed);
  FloatMatrix start(buckets, width);
  for (Eigen::Index c = 0; c < width; ++c) {
    for (Eigen::Index r = 0; r < buckets; ++r) start(r, c) = static_cast<float>(random.Normal());
  }
  FloatMatrix range = Orthonormal(x * start);
  for (int i = 0; i < options.power_iterations; ++i) {
    if (!goes_on(0.5 + 0.5 * i / (options.power_iterations + 1.0))) return stopped;
    range = Orthonormal(x * Orthonormal(x.transpose() * range));
  }
  // Within the range, the eigenvectors of (Q'X)(Q'X)' are the left singular vectors.
  const FloatMatrix small = x.transpose() * range;  // buckets x width
  const Eigen::SelfAdjointEigenSolver<FloatMatrix> solver(small.transpose() * small);
  sketch->vectors_.assign(options.buckets * options.dimensions, 0);
  for (std::size_t d = 0; d < std::min(options.dimensions, static_cast<std::size_t>(width)); ++d) {
    const Eigen::Index column = width - 1 - static_cast<Eigen::Index>(d);  // ascending eigenvalues
    const float value = solver.eigenvalues()(column);
    if (!(value > 1e-6f * solver.eigenvalues()(width - 1))) break;
    Eigen::VectorXf v = small * solver.eigenvectors().col(column) / std::sqrt(value);
    Eigen::Index largest = 0;
    v.cwiseAbs().maxCoeff(&largest);
    if (v(largest) < 0) v = -v;
    for (std::size_t b = 0; b < options.buckets; ++b) {
      sketch->vectors_[b * options.dimensions + d] = v(static_cast<Eigen::Index>(b));
    }
  }
  return sketch;
}

void TextSketch::Of(std::string_view text, std::span<float> out, TextScratch& scratch) const {
  CountWords(text.substr(0, max_bytes_), idf_.size(), scratch);
  std::ranges::fill(out, 0.0f);
  double squares = 0;
  for (const std::uint32_t bucket : scratch.used) {
    const double weight = Weight(std::exchange(scratch.counts[bucket], 0), idf_[bucket]);
    squares += weight * weight;
    const float* vector = &vectors_[bucket * dimensions_];
    for (std::size_t d = 0; d < dimensions_; ++d) out[d] += static_cast<float>(weight) * vector[d];
  }
  if (!(squares > 0)) return;
  const auto scale = static_cast<float>(1 / std::sqrt(squares));
  for (float& x : out) x *= scale;
}

std::string TextSketch::Save() const {
  internal::Packer out(kMagic, kVersion);
  out.Put(static_cast<std::uint64_t>(dimensions_));
  out.Put(static_cast<std::uint64_t>(max_bytes_));
  out.Put(idf_);
  out.Put(vectors_);
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const TextSketch>> TextSketch::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kMagic, kVersion, "a text sketch");
  if (!in.ok()) return in.status();
  const auto sketch = std::make_shared<TextSketch>();
  sketch->dimensions_ = in->Get<std::uint64_t>();
  sketch->max_bytes_ = in->Get<std::uint64_t>();
  in->Get(sketch->idf_);
  in->Get(sketch->vectors_);
  const std::size_t buckets = sketch->idf_.size(), places = sketch->vectors_.size();
  if (!in->done() || buckets == 0 || places % buckets != 0 || places / buckets != sketch->dimensions_) {
    return absl::DataLossError("the file of a text sketch is damaged: sizes in it do not match");
  }
  return sketch;
}

}  // namespace takt
