// libllama as a served model: rows of a plan become a llama_batch.
#ifndef TAKT_INTEGRATIONS_LLAMA_CPP_LLAMA_MODEL_H_
#define TAKT_INTEGRATIONS_LLAMA_CPP_LLAMA_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "served_model.h"

struct llama_model;

namespace llama_host {

// Injected faults for tests, each with this probability, from a seed. missing_cells are cells that takt counts but the
// context lacks, so that llama_decode runs out of room.
struct Faults {
  double no_room = 0;  // llama_decode is not called, and returns 1
  double aborted = 0;  // llama_decode is aborted midway, and returns 2
  double move = 0;  // a copy to host memory runs out of memory
  std::int32_t missing_cells = 0;
  std::uint64_t seed = 1;
};

// "no_room=0.01,aborted=0.01,move=0.1,missing_cells=64,seed=3". InvalidArgument names the invalid part.
absl::StatusOr<Faults> ParseFaults(const std::string& text);

struct LlamaOptions {
  std::string path;  // path of a GGUF file
  std::int32_t sequences = 0;  // sequences of the context: running, waiting with KV, and idle; 0: 4 * max_running
  // Maximum cells in host memory for idle sequences that were evicted, for reuse as prefixes; -1: four times the
  // context's cells.
  std::int32_t saved_cells = -1;
  std::int32_t ubatch = 512;  // maximum tokens per library call
  bool kv_f32 = false;  // keys and values in single precision, not half
  bool no_flash = false;  // attention whose sums do not depend on the batch
  Faults faults = {};
};

class LlamaModel final : public serving::ServedModel {
 public:
  // InvalidArgument: the file is missing or no model, or its cache does not support cuts at any position.
  static absl::StatusOr<std::unique_ptr<LlamaModel>> Load(const LlamaOptions& options, std::int32_t cells);
  ~LlamaModel() override;

  std::string name() const override { return name_; }
  double parameters() const override;
  std::size_t vocab() const override;
  std::size_t max_context() const override;
  const serving::Vocabulary* text() const override { return text_.get(); }
  absl::StatusOr<std::unique_ptr<serving::ComputedKv>> Open(const serving::EngineOptions& options) const override;

  llama_model* get() const { return model_; }

 private:
  LlamaModel(const LlamaOptions& options, llama_model* model, std::int32_t cells);

  LlamaOptions options_;
  llama_model* model_;
  std::int32_t cells_;
  std::string name_;
  std::unique_ptr<serving::Vocabulary> text_;
};

}  // namespace llama_host

#endif  // TAKT_INTEGRATIONS_LLAMA_CPP_LLAMA_MODEL_H_
