// libllama as a model that an engine serves: rows of a plan become a llama_batch.
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

// Faults on purpose, for tests: each with this chance, from a seed. Context cells that takt is told of and that are not
// there make llama_decode find no room by itself.
struct Faults {
  double no_room = 0;  // llama_decode is not called, and counts as 1
  double aborted = 0;  // llama_decode is aborted in the middle, and gives 2
  double move = 0;  // no memory for a copy to the host
  std::int32_t missing_cells = 0;
  std::uint64_t seed = 1;
};

// "no_room=0.01,aborted=0.01,move=0.1,missing_cells=64,seed=3". InvalidArgument names the part that is wrong.
absl::StatusOr<Faults> ParseFaults(const std::string& text);

struct LlamaOptions {
  std::string path;  // of a GGUF file
  std::int32_t sequences =
      0;  // that the context is made with: those that run, wait with KV, and lie idle; 0: 4 * max_running
  // That the host's memory keeps of requests that have ended and whose sequences gave way, for prefixes; -1: four times
  // as many as the context has.
  std::int32_t saved_cells = -1;
  std::int32_t ubatch = 512;  // tokens that are computed at once, at most
  bool kv_f32 = false;  // keys and values in single precision, not half
  bool no_flash = false;  // attention in one piece: its sums do not go by how many rows a sequence has in a batch
  Faults faults = {};
};

class LlamaModel final : public serving::ServedModel {
 public:
  // InvalidArgument: there is no such file, it is no model, or one whose cache cannot be cut at any position.
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
