// A decoder-only transformer like LLaMA, in fp32: RMS norms, rotary positions, grouped-query attention, SwiGLU. Its KV
// cache is paged; one call computes all rows of a step.
//
// The result of a row depends only on its sequence, bit for bit. It does not depend on other rows or on chunking or
// recomputation of its context. Products work as described in matrix.h; norms and attention work row by row. Softmax
// runs over positions in order, whatever their blocks. Rows of a prompt use the same code as decoding rows, so they
// store the same keys and values.
#ifndef TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MODEL_H_
#define TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "matrix.h"
#include "served_model.h"

namespace tiny {

struct ModelConfig {
  std::size_t layers = 4;
  std::size_t hidden = 256;
  std::size_t heads = 8;
  std::size_t kv_heads = 4;  // each serves heads / kv_heads query heads
  std::size_t ffn = 704;
  std::size_t vocab = 1024;
  std::size_t max_context = 4096;  // [tokens]
  bool tied = true;                // the output head is the embedding
  float rope_theta = 10000;

  std::size_t head_dim() const { return hidden / heads; }
  std::size_t kv_dim() const { return kv_heads * head_dim(); }
  std::size_t parameters() const;

  // Names every invalid field. Matrices need multiples of 16 rows, heads a multiple of 8 numbers.
  absl::Status Validate() const;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Weights in one block of memory; immutable.
class Model : public ServedModel {
 public:
  // Returns seeded random weights, the same on every machine. The config must be valid.
  static Model Random(const ModelConfig& config, std::uint64_t seed);

  // Loads a file from Save. NotFound, or InvalidArgument with the fault.
  static absl::StatusOr<Model> Load(const std::string& path);
  absl::Status Save(const std::string& path) const;

  struct Layer {
    std::span<const float> attention_norm, ffn_norm;
    Matrix qkv;      // queries of all heads, then keys, then values
    Matrix out;
    Matrix gate_up;  // gate, then up
    Matrix down;
  };

  const ModelConfig& config() const { return config_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Matrix& embedding() const { return embedding_; }
  std::span<const float> final_norm() const { return final_norm_; }
  const Matrix& head() const { return head_; }

  std::string name() const override { return name_; }
  void Rename(std::string name) { name_ = std::move(name); }
  const Vocabulary* text() const override { return config_.vocab < kTextVocab ? nullptr : &ByteVocabulary(); }
  double parameters() const override { return static_cast<double>(config_.parameters()); }
  std::size_t vocab() const override { return config_.vocab; }
  std::size_t max_context() const override { return config_.max_context; }
  absl::StatusOr<std::unique_ptr<ComputedKv>> Open(const EngineOptions& options) const override;

  Model(Model&&) = default;
  Model& operator=(Model&&) = default;

 private:
  explicit Model(const ModelConfig& config);  // all weights zero

  std::string name_ = "tiny";
  ModelConfig config_;
  std::vector<Lanes> weights_;
  std::vector<Layer> layers_;
  Matrix embedding_, head_;
  std::span<const float> final_norm_;
};

// Layout of keys and values: blocks of block_tokens, each [layer][key or value][kv head][token][head_dim].
struct KvLayout {
  std::size_t layers = 0, kv_heads = 0, head_dim = 0, block_tokens = 0;

  KvLayout(const ModelConfig& config, std::size_t tokens)
      : layers(config.layers), kv_heads(config.kv_heads), head_dim(config.head_dim()), block_tokens(tokens) {}

  std::size_t panel() const { return block_tokens * head_dim; }  // of one head
  std::size_t block() const { return layers * 2 * kv_heads * panel(); }
  std::size_t keys(std::size_t layer, std::size_t head) const { return (layer * 2 * kv_heads + head) * panel(); }
  std::size_t values(std::size_t layer, std::size_t head) const { return keys(layer, kv_heads + head); }
};

// One token of one sequence. All earlier positions of the sequence are computed, or are earlier rows of the step.
struct Row {
  std::int32_t token = 0;
  std::int32_t position = 0;
  std::span<const std::int32_t> blocks = {};  // of the sequence, at least up to the position's
  bool samples = false;                       // sample the next token
};

// Computes steps, with a model, memory for keys and values that its caller divides, and threads.
class Runner {
 public:
  // `kv` holds whole blocks of the layout. Model and memory must outlive this.
  Runner(const Model& model, const KvLayout& layout, std::span<float> kv, std::size_t threads = 1);

  // Computes keys and values of all rows. Returns the samples of the rows with `sample`, in order. They are valid until
  // the next call.
  std::span<const Sample> Step(std::span<const Row> rows);

 private:
  struct Angle {
    float cosine = 1, sine = 0;
  };

  void Embed(std::span<const Row> rows);
  void Norm(std::size_t rows, std::span<const float> weights);
  void Attend(std::size_t layer, std::span<const Row> rows);
  void StoreKv(std::size_t layer, const Row& row, float* qkv);
  void AttendRow(std::size_t layer, const Row& row, const float* queries, float* scores, float* out) const;
  void Rotate(float* head, std::size_t position) const;
  void FeedForward(const Model::Layer& layer, std::size_t rows);
  void AddTo(std::vector<float>& sum, const Matrix& weights, const std::vector<float>& x, std::size_t rows);
  void SampleRows(std::span<const Row> rows);

  const Model& model_;
  const ModelConfig& config_;
  KvLayout layout_;
  std::span<float> kv_;
  Threads threads_;
  std::vector<Angle> angles_;  // [position][head_dim / 2]
  std::vector<std::vector<float>> scores_;  // by thread: [position]
  std::vector<float> stream_, normed_, qkv_, mixed_, gate_up_, product_, logits_;  // [row][...]
  std::vector<Sample> samples_;
};

}  // namespace tiny

#endif  // TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MODEL_H_
