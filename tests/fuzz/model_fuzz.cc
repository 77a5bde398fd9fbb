// Any bytes as a file of a model. A refusal has a message and leaves the running model unchanged. A model that is read
// predicts, and is written as it was read. Checksums are made valid, to reach the code after them.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "learning/pack.h"
#include "takt/learning/call_predictor.h"

namespace takt {
namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void CheckEstimate(const Estimate& e) {
  if (!e.known()) return;
  for (std::size_t i = 0; i < e.quantiles.size(); ++i) {
    Expect(std::isfinite(e.quantiles[i]) && e.quantiles[i] >= 0, "a quantile");
    Expect(i == 0 || e.quantiles[i] >= e.quantiles[i - 1], "quantiles ascend");
  }
}

void CheckModel(const QuantileForest& forest) {
  ForestScratch scratch;
  for (const float x : {0.0f, 1.0f, -3e38f, kNan, std::numeric_limits<float>::infinity()}) {
    const std::vector<float> numbers(forest.numeric(), x);
    const std::vector<std::uint64_t> names(forest.categories(), 1);
    CheckEstimate(forest.Predict({numbers, names}, scratch));
    CheckEstimate(forest.Predict({numbers, names}, scratch, 100));
  }
  CheckEstimate(forest.Predict({}, scratch));
}

void CheckModel(const LengthForest& lengths) {
  LengthForest::Scratch scratch;
  for (const ModelId model : lengths.models()) CheckEstimate(lengths.Predict({model, {}, {-1}}, scratch));
  Expect(!lengths.Predict({{UINT64_MAX}, {}, {-1}}, scratch).known() || lengths.Of({UINT64_MAX}) != nullptr, "unknown");
}

void CheckModel(const TextSketch& sketch) {
  TextScratch scratch;
  std::vector<float> out(sketch.dimensions());
  for (const std::string_view text : {"", "two words", "\xff\xfe\xc3\x28"}) sketch.Of(text, out, scratch);
}

void CheckModel(const Confidence& confidence) {
  std::vector<double> scores(confidence.models().size());
  for (const float x : {0.0f, 3e38f, kNan}) {
    confidence.Scores(std::array<float, 3>{x, x, x}, scores);
    for (const double score : scores) Expect((score >= 0 && score <= 1) || score == -1, "a probability, or not known");
  }
}

void CheckModel(const CallPredictor& predictor) {
  CallPredictor::Scratch scratch;
  std::vector<CallForecast> forecasts(2);
  for (const std::string& model : predictor.models()) {
    const std::vector<CallDescription> calls = {{.model = model}, {.model = model, .text = "two words"}};
    predictor.Predict(calls, forecasts, scratch);
    for (const CallForecast& forecast : forecasts) CheckEstimate(forecast.tokens_left);
  }
}

template <class Model>
void Read(std::string_view bytes) {
  static std::shared_ptr<const Model> running;
  const std::string before = running == nullptr ? "" : running->Save();
  const auto read = Model::Load(bytes);
  Expect((running == nullptr ? "" : running->Save()) == before, "the running one stays");
  if (!read.ok()) return Expect(!read.status().message().empty(), "a reason");
  CheckModel(**read);
  Expect((*read)->Save() == bytes, "written as it was read");
  running = *read;
}

void ReadAll(std::string_view bytes) {
  Read<QuantileForest>(bytes);
  Read<LengthForest>(bytes);
  Read<TextSketch>(bytes);
  Read<Confidence>(bytes);
  Read<CallPredictor>(bytes);
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  takt::ReadAll(bytes);
  if (size < 4) return 0;
  const std::uint32_t sum = takt::internal::Crc32Of(std::string_view(bytes).substr(0, size - 4));
  for (std::size_t i = 0; i < 4; ++i) bytes[size - 4 + i] = static_cast<char>(sum >> (8 * i));
  takt::ReadAll(bytes);
  return 0;
}
