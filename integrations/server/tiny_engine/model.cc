#include "model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "takt/base/random.h"

namespace tiny {
namespace {

// Sums eight lanes, then the lanes: an order that depends only on n, a multiple of 8.
float Dot(const float* a, const float* b, std::size_t n) {
  float sums[8] = {};
  for (std::size_t i = 0; i < n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

float* Room(std::vector<float>& v, std::size_t n) {
  if (v.size() < n) v.resize(n);
  return v.data();
}

}  // namespace

std::size_t ModelConfig::parameters() const {
  const std::size_t layer = 2 * hidden + hidden * (hidden + 2 * kv_dim()) + hidden * hidden + 3 * hidden * ffn;
  return layers * layer + hidden + (tied ? 1 : 2) * vocab * hidden;
}

absl::Status ModelConfig::Validate() const {
  std::string faults;
  const auto expect = [&faults](bool fine, const char* field, std::size_t value, const char* wish) {
    if (!fine) faults += std::string(field) + " is " + std::to_string(value) + ": " + wish + "\n";
  };
  constexpr std::size_t kMost = 1 << 20;
  const auto between = [](std::size_t value, std::size_t most) { return value >= 1 && value <= most; };
  expect(between(layers, 1000), "layers", layers, "must be 1 to 1000");
  expect(between(hidden, kMost) && hidden % kLanes == 0, "hidden", hidden, "must be a multiple of 16, at most 2^20");
  expect(between(ffn, kMost) && ffn % kLanes == 0, "ffn", ffn, "must be a multiple of 16, at most 2^20");
  expect(between(vocab, kMost) && vocab % kLanes == 0, "vocab", vocab, "must be a multiple of 16, at most 2^20");
  expect(between(max_context, kMost), "max_context", max_context, "must be 1 to 2^20");
  expect(between(heads, hidden) && hidden % heads == 0 && head_dim() % 8 == 0, "heads", heads,
         "must split hidden into multiples of 8");
  const bool grouped = between(kv_heads, heads) && heads % kv_heads == 0;
  expect(grouped, "kv_heads", kv_heads, "must divide heads");
  if (faults.empty())
    expect(kv_dim() % kLanes == 0, "kv_heads", kv_heads, "times the head's size must be a multiple of 16");
  expect(std::isfinite(rope_theta) && rope_theta > 1, "rope_theta", static_cast<std::size_t>(0), "must be above 1");
  return faults.empty() ? absl::OkStatus() : absl::InvalidArgumentError(faults);
}

// ---- weights ------------------------------------------------------------------------------------------------------

Model::Model(const ModelConfig& config) : config_(config), weights_(config.parameters() / kLanes) {
  const Lanes* next = weights_.data();
  const auto matrix = [&next](std::size_t in, std::size_t out) {
    const Matrix m{next, in, out};
    next += in * out / kLanes;
    return m;
  };
  const auto vector = [&next](std::size_t n) {
    const std::span<const float> v(next->at.data(), n);
    next += n / kLanes;
    return v;
  };
  const std::size_t d = config.hidden;
  embedding_ = matrix(d, config.vocab);
  for (std::size_t i = 0; i < config.layers; ++i) {
    Layer layer;
    layer.attention_norm = vector(d);
    layer.qkv = matrix(d, d + 2 * config.kv_dim());
    layer.out = matrix(d, d);
    layer.ffn_norm = vector(d);
    layer.gate_up = matrix(d, 2 * config.ffn);
    layer.down = matrix(config.ffn, d);
    layers_.push_back(layer);
  }
  final_norm_ = vector(d);
  head_ = config.tied ? embedding_ : matrix(d, config.vocab);
}

Model Model::Random(const ModelConfig& config, std::uint64_t seed) {
  Model model(config);
  takt::Random random(seed);
  // The entries of a matrix have variance 1 / in, which keeps the size of the activations.
  const auto fill = [&](const Matrix& m) {
    const double bound = std::sqrt(3.0 / static_cast<double>(m.in));
    Lanes* lanes = model.weights_.data() + (m.lanes - model.weights_.data());
    for (std::size_t i = 0; i < m.in * m.out / kLanes; ++i) {
      for (float& w : lanes[i].at) w = static_cast<float>(bound * (2 * random.Uniform() - 1));
    }
  };
  for (Lanes& lanes : model.weights_) lanes.at.fill(1);  // the weights of norms
  fill(model.embedding_);
  for (const Layer& layer : model.layers_) {
    for (const Matrix* m : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) fill(*m);
  }
  if (!config.tied) fill(model.head_);
  return model;
}

// ---- a step ---------------------------------------------------------------------------------------------------------

Runner::Runner(const Model& model, const KvLayout& layout, std::span<float> kv, std::size_t threads)
    : model_(model), config_(model.config()), layout_(layout), kv_(kv), threads_(threads), scores_(threads) {
  for (std::vector<float>& scores : scores_) scores.resize(config_.max_context);
  const std::size_t half = config_.head_dim() / 2;
  for (std::size_t position = 0; position < config_.max_context; ++position) {
    for (std::size_t i = 0; i < half; ++i) {
      const double turn =
          std::pow(static_cast<double>(config_.rope_theta), -static_cast<double>(i) / static_cast<double>(half));
      const double angle = static_cast<double>(position) * turn;
      angles_.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
  }
}

std::span<const Sample> Runner::Step(std::span<const Row> rows) {
  Embed(rows);
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const Model::Layer& layer = model_.layers()[i];
    Norm(rows.size(), layer.attention_norm);
    MatMul(layer.qkv, normed_.data(), rows.size(), Room(qkv_, rows.size() * layer.qkv.out), threads_);
    Attend(i, rows);
    AddTo(stream_, layer.out, mixed_, rows.size());
    Norm(rows.size(), layer.ffn_norm);
    FeedForward(layer, rows.size());
  }
  SampleRows(rows);
  return samples_;
}

void Runner::Embed(std::span<const Row> rows) {
  const std::size_t d = config_.hidden;
  float* x = Room(stream_, rows.size() * d);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < d; ++i) *x++ = model_.embedding().at(static_cast<std::size_t>(row.token), i);
  }
}

// stream_ -> normed_, each row divided by its root mean square.
void Runner::Norm(std::size_t rows, std::span<const float> weights) {
  const std::size_t d = config_.hidden;
  Room(normed_, rows * d);
  threads_.For(rows, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = stream_.data() + r * d;
      const float scale = 1 / std::sqrt(Dot(x, x, d) / static_cast<float>(d) + 1e-5f);
      for (std::size_t i = 0; i < d; ++i) normed_[r * d + i] = x[i] * scale * weights[i];
    }
  });
}

// qkv_ -> mixed_. First stores the keys and values of all rows, because rows of one sequence attend to one another.
void Runner::Attend(std::size_t layer, std::span<const Row> rows) {
  const std::size_t d = config_.hidden, width = d + 2 * config_.kv_dim();
  Room(mixed_, rows.size() * d);
  threads_.For(rows.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) StoreKv(layer, rows[r], qkv_.data() + r * width);
  });
  threads_.For(rows.size(), [&](std::size_t thread, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      AttendRow(layer, rows[r], qkv_.data() + r * width, scores_[thread].data(), mixed_.data() + r * d);
    }
  });
}

// Rotates the row's queries and keys by its position; stores keys and values in its blocks.
void Runner::StoreKv(std::size_t layer, const Row& row, float* qkv) {
  const auto position = static_cast<std::size_t>(row.position);
  const std::size_t n = config_.head_dim(), at = position % layout_.block_tokens * n;
  float* block = kv_.data() + static_cast<std::size_t>(row.blocks[position / layout_.block_tokens]) * layout_.block();
  float* keys = qkv + config_.hidden;
  for (std::size_t head = 0; head < config_.heads + config_.kv_heads; ++head) Rotate(qkv + head * n, position);
  for (std::size_t head = 0; head < config_.kv_heads; ++head) {
    std::copy_n(keys + head * n, n, block + layout_.keys(layer, head) + at);
    std::copy_n(keys + (config_.kv_heads + head) * n, n, block + layout_.values(layer, head) + at);
  }
}

void Runner::Rotate(float* head, std::size_t position) const {
  const std::size_t half = config_.head_dim() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const Angle turn = angles_[position * half + i];
    const float a = head[i], b = head[i + half];
    head[i] = a * turn.cosine - b * turn.sine;
    head[i + half] = b * turn.cosine + a * turn.sine;
  }
}

void Runner::AttendRow(std::size_t layer, const Row& row, const float* queries, float* scores, float* out) const {
  const std::size_t n = config_.head_dim(), context = static_cast<std::size_t>(row.position) + 1;
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  // Calls f(position, its n numbers in the panel) for all positions, in order.
  const auto walk = [&](std::size_t panel, auto&& f) {
    for (std::size_t first = 0; first < context; first += layout_.block_tokens) {
      const auto block = static_cast<std::size_t>(row.blocks[first / layout_.block_tokens]);
      const float* numbers = kv_.data() + block * layout_.block() + panel;
      const std::size_t last = std::min(context, first + layout_.block_tokens);
      for (std::size_t position = first; position < last; ++position, numbers += n) f(position, numbers);
    }
  };
  for (std::size_t head = 0; head < config_.heads; ++head) {
    const std::size_t kv_head = head / (config_.heads / config_.kv_heads);
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    walk(layout_.keys(layer, kv_head), [&](std::size_t position, const float* key) {
      scores[position] = Dot(queries + head * n, key, n) * scale;
      most = std::max(most, scores[position]);
    });
    for (std::size_t position = 0; position < context; ++position) {
      scores[position] = std::exp(scores[position] - most);
      sum += scores[position];
    }
    float* mix = out + head * n;
    std::fill_n(mix, n, 0.0f);
    walk(layout_.values(layer, kv_head), [&](std::size_t position, const float* value) {
      const float share = scores[position] / sum;
      for (std::size_t i = 0; i < n; ++i) mix[i] += share * value[i];
    });
  }
}

// normed_ -> stream_, through down(silu(gate) * up).
void Runner::FeedForward(const Model::Layer& layer, std::size_t rows) {
  const std::size_t n = config_.ffn;
  MatMul(layer.gate_up, normed_.data(), rows, Room(gate_up_, rows * 2 * n), threads_);
  Room(mixed_, rows * n);
  threads_.For(rows, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* gate = gate_up_.data() + r * 2 * n;
      for (std::size_t i = 0; i < n; ++i) mixed_[r * n + i] = gate[i] / (1 + std::exp(-gate[i])) * gate[n + i];
    }
  });
  AddTo(stream_, layer.down, mixed_, rows);
}

void Runner::AddTo(std::vector<float>& sum, const Matrix& weights, const std::vector<float>& x, std::size_t rows) {
  MatMul(weights, x.data(), rows, Room(product_, rows * weights.out), threads_);
  for (std::size_t i = 0; i < rows * weights.out; ++i) sum[i] += product_[i];
}

void Runner::SampleRows(std::span<const Row> rows) {
  const std::size_t d = config_.hidden, vocab = config_.vocab;
  std::size_t n = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].samples) std::copy_n(stream_.data() + r * d, d, stream_.data() + n++ * d);
  }
  samples_.clear();
  if (n == 0) return;
  Norm(n, model_.final_norm());
  MatMul(model_.head(), normed_.data(), n, Room(logits_, n * vocab), threads_);
  for (std::size_t r = 0; r < n; ++r) {
    const auto begin = logits_.begin() + static_cast<std::ptrdiff_t>(r * vocab);
    const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    samples_.push_back({static_cast<std::int32_t>(best - begin), *best});
  }
}

}  // namespace tiny
