// A model whose steps take the time of a profile's cost model, and whose answers are filler.
#ifndef TAKT_INTEGRATIONS_SERVER_SIMULATED_SIMULATED_MODEL_H_
#define TAKT_INTEGRATIONS_SERVER_SIMULATED_SIMULATED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "served_model.h"
#include "simulated_time.h"
#include "takt/sim/profiles.h"

namespace simulated {

// Four bytes of text are a token, and every token reads as an English word. The tokens of a prompt may come from any
// tokenizer.
const serving::Vocabulary& FillerVocabulary();

class SimulatedModel final : public serving::ServedModel {
 public:
  // kv_tokens: capacity instead of the profile's; 0: the profile's. InvalidArgument: neither is known.
  static absl::StatusOr<std::unique_ptr<SimulatedModel>> Create(takt::Profile profile, std::int64_t kv_tokens,
                                                                std::size_t max_context);

  std::string name() const override { return profile_.model.empty() ? profile_.id : profile_.model; }
  double parameters() const override { return 0; }
  std::size_t vocab() const override { return FillerVocabulary().size(); }
  std::size_t max_context() const override { return max_context_; }
  const serving::Vocabulary* text() const override { return &FillerVocabulary(); }
  bool filler() const override { return true; }
  void Prescribe(serving::EngineOptions& options) const override;
  serving::SimulatedTime* time() const override { return &time_; }
  absl::StatusOr<std::unique_ptr<serving::ComputedKv>> Open(const serving::EngineOptions& options) const override;

 private:
  SimulatedModel(takt::Profile profile, std::int64_t kv_tokens, std::size_t max_context);

  takt::Profile profile_;
  std::int64_t kv_tokens_;
  std::size_t max_context_;
  mutable serving::SimulatedTime time_;  // an engine's
};

}  // namespace simulated

#endif  // TAKT_INTEGRATIONS_SERVER_SIMULATED_SIMULATED_MODEL_H_
