#include "takt/learning/call_predictor.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "learning/pack.h"
#include "takt/base/exact_math.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr std::string_view kPredictorMagic = "takt predictor ";
constexpr std::uint32_t kPredictorVersion = 2;
constexpr std::size_t kAnswerCounts = 2;  // inputs of confidence besides the sketch

// Returns a hash of the name; 0 for the empty name.
std::uint64_t NameOf(std::string_view text) {
  if (text.empty()) return 0;
  std::uint64_t hash = text.size();
  for (const char c : text) hash = Mix64(hash ^ static_cast<unsigned char>(c));
  return hash | 1;
}

// Appends the inputs of confidence to `numbers`.
void AppendNumbers(const CallDescription& call, std::span<const float> sketch, std::vector<float>& numbers) {
  for (const Tokens count : {call.prompt_tokens, call.user_tokens}) {
    numbers.push_back(count.value >= 0 ? static_cast<float>(exact::Log1p(static_cast<double>(count.value)))
                                       : std::numeric_limits<float>::quiet_NaN());
  }
  numbers.insert(numbers.end(), sketch.begin(), sketch.end());
}

// Returns the middle of the count's bin.
Tokens Binned(Tokens count, const CallPredictorOptions& options) {
  if (options.tool_bins <= 0 || options.tool_bin_tokens <= 0) return count;
  const std::int64_t bin = std::min(count.value / options.tool_bin_tokens, options.tool_bins - 1);
  const std::int64_t middle = bin * options.tool_bin_tokens + options.tool_bin_tokens / 2;
  return {static_cast<std::int32_t>(std::min<std::int64_t>(middle, INT32_MAX))};
}

// Maps the progress of a part of the work to the progress of the whole.
Progress PartOf(const Progress& progress, double from, double to) {
  if (!progress) return {};
  return [&progress, from, to](double share) { return progress(from + (to - from) * share); };
}

}  // namespace

ModelId CallPredictor::IdOf(std::string_view model) const {
  const auto at = std::ranges::lower_bound(models_, model);
  if (at == models_.end() || *at != model) return {};
  return {static_cast<std::uint64_t>(at - models_.begin()) + 1};
}

// The sketch is unknown if there is no text.
void CallPredictor::SketchOf(std::string_view text, std::span<float> out, TextScratch& scratch) const {
  if (sketch_ == nullptr || text.empty()) std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
  else sketch_->Of(text, out, scratch);
}

LengthForest::Query CallPredictor::QueryOf(const CallDescription& call, std::span<const float> sketch) const {
  return {IdOf(call.model),
          {.kind = NameOf(call.kind),
           .stage = {NameOf(call.stage)},
           .prompt_tokens = call.prompt_tokens,
           .system_tokens = call.system_tokens,
           .user_tokens = call.user_tokens,
           .calls_before = call.calls_before,
           .tokens_before = call.tokens_before,
           .sketch = sketch},
          call.generated};
}

absl::StatusOr<std::shared_ptr<const CallPredictor>> CallPredictor::Train(
    std::span<const std::vector<LoggedCall>> workflows, const CallPredictorOptions& options,
    const ParallelFor& parallel, const Progress& progress) {
  const auto made = std::make_shared<CallPredictor>();
  std::vector<std::string_view> texts;
  std::set<std::string_view> models;
  std::size_t calls = 0;
  bool any_solved = false;
  for (const std::vector<LoggedCall>& workflow : workflows) {
    for (const LoggedCall& logged : workflow) {
      ++calls;
      models.insert(logged.call.model);
      if (!logged.call.text.empty()) texts.push_back(logged.call.text);
      any_solved |= logged.solved < ConfidenceData::kUntried;
    }
  }
  made->models_.assign(models.begin(), models.end());
  if (calls == 0) return absl::InvalidArgumentError("predictor: calls are empty; expected at least one");
  if (!texts.empty()) {
    auto sketch = TextSketch::Train(texts, options.sketch, PartOf(progress, 0, 0.1));
    if (!sketch.ok()) return sketch.status();
    made->sketch_ = *std::move(sketch);
  }

  const std::size_t dimensions = made->dimensions();
  LengthForestOptions lengths = options.lengths;
  lengths.sketch = dimensions;
  LengthLearner learner(lengths), tools(lengths);
  ConfidenceData tried{.features = kAnswerCounts + dimensions};
  for (std::size_t m = 0; m < made->models_.size(); ++m) tried.models.push_back({m + 1});
  TextScratch scratch;
  std::vector<float> sketches;
  std::uint64_t number = 0;  // the workflow's number; all calls of a workflow are held out together
  const Progress gathering = PartOf(progress, texts.empty() ? 0 : 0.1, 0.2);
  for (const std::vector<LoggedCall>& workflow : workflows) {
    if (gathering && number % 64 == 0 &&
        !gathering(static_cast<double>(number) / static_cast<double>(workflows.size()))) {
      return absl::CancelledError("predictor: training was stopped");
    }
    ++number;
    sketches.resize(workflow.size() * dimensions);
    for (std::size_t i = 0; i < workflow.size(); ++i) {
      const std::span sketch = std::span(sketches).subspan(i * dimensions, dimensions);
      made->SketchOf(workflow[i].call.text, sketch, scratch);
      if (workflow[i].solved >= ConfidenceData::kUntried) continue;
      AppendNumbers(workflow[i].call, sketch, tried.numbers);
      tried.groups.push_back(number);
      tried.columns.push_back(static_cast<std::uint32_t>(made->IdOf(workflow[i].call.model).value - 1));
      tried.outcomes.push_back(workflow[i].solved);
    }
    // Calls of a workflow may use several models. Each model learns the remaining tokens of the whole workflow.
    std::vector<std::int64_t> left(workflow.size() + 1);
    for (std::size_t i = workflow.size(); i-- > 0;) {
      left[i] = std::min<std::int64_t>(left[i + 1] + std::max(workflow[i].output_tokens.value, 0), INT32_MAX);
    }
    for (std::size_t i = 0; i < workflow.size(); ++i) {
      const std::span sketch = std::span<const float>(sketches).subspan(i * dimensions, dimensions);
      const LengthForest::Query query = made->QueryOf(workflow[i].call, sketch);
      const FinishedCall call{query.input, {static_cast<std::int32_t>(left[i])}};
      learner.Finished(query.model, std::span(&call, 1), number);
      if (workflow[i].before_tool.value < 0) continue;
      const FinishedCall before{query.input, Binned(workflow[i].before_tool, options)};
      tools.Finished(query.model, std::span(&before, 1), number);
    }
  }
  auto forests = learner.Train(parallel, PartOf(progress, 0.2, 0.9));
  if (!forests.ok()) return forests.status();
  made->lengths_ = *std::move(forests);
  if (tools.seen() > 0) {
    forests = tools.Train(parallel, PartOf(progress, 0.9, 0.9));
    if (!forests.ok()) return forests.status();
    made->before_tool_ = *std::move(forests);
  }
  if (any_solved) {
    auto confidence = Confidence::Train(tried, options.confidence, parallel, PartOf(progress, 0.9, 1));
    if (!confidence.ok()) return confidence.status();
    made->confidence_ = *std::move(confidence);
  }
  return made;
}

void CallPredictor::Predict(std::span<const CallDescription> calls, std::span<CallForecast> out, Scratch& s) const {
  const std::size_t d = dimensions();
  s.sketches.resize(calls.size() * d);
  s.queries.clear();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::span sketch = std::span(s.sketches).subspan(i * d, d);
    SketchOf(calls[i].text, sketch, s.text);
    s.queries.push_back(QueryOf(calls[i], sketch));
  }
  s.predicted.resize(calls.size());
  lengths_->Predict(s.queries, s.predicted, s.lengths);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    out[i] = {s.predicted[i]};
    const ModelId model = s.queries[i].model;
    if (confidence_ == nullptr || !model) continue;
    s.numbers.clear();
    AppendNumbers(calls[i], std::span(s.sketches).subspan(i * d, d), s.numbers);
    out[i].solved = confidence_->Score(model.value - 1, s.numbers);
  }
  if (before_tool_ == nullptr) return;
  before_tool_->Predict(s.queries, s.predicted, s.lengths);
  for (std::size_t i = 0; i < calls.size(); ++i) out[i].before_tool = s.predicted[i];
}

const ForestReport* CallPredictor::ReportOf(std::string_view model) const {
  const QuantileForest* forest = lengths_->Of(IdOf(model));
  return forest == nullptr ? nullptr : &forest->report();
}

std::string CallPredictor::Save() const {
  internal::Packer out(kPredictorMagic, kPredictorVersion);
  out.Put(static_cast<std::uint64_t>(models_.size()));
  for (const std::string& model : models_) out.Put(std::string_view(model));
  out.Put(std::string_view(sketch_ == nullptr ? std::string() : sketch_->Save()));
  out.Put(std::string_view(lengths_->Save()));
  out.Put(std::string_view(confidence_ == nullptr ? std::string() : confidence_->Save()));
  out.Put(std::string_view(before_tool_ == nullptr ? std::string() : before_tool_->Save()));
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const CallPredictor>> CallPredictor::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kPredictorMagic, kPredictorVersion, "a predictor");
  if (!in.ok()) return in.status();
  const auto made = std::make_shared<CallPredictor>();
  for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) made->models_.emplace_back(in->Text());
  const std::string_view sketch = in->Text(), lengths = in->Text(), confidence = in->Text(), tools = in->Text();
  const absl::Status misfit = absl::DataLossError("the file of a predictor is damaged: sizes in it do not match");
  if (!in->done() || std::ranges::adjacent_find(made->models_, std::greater_equal{}) != made->models_.end()) {
    return misfit;
  }
  if (!sketch.empty()) {
    auto read = TextSketch::Load(sketch);
    if (!read.ok()) return read.status();
    made->sketch_ = *std::move(read);
  }
  auto forests = LengthForest::Load(lengths);
  if (!forests.ok()) return forests.status();
  made->lengths_ = *std::move(forests);
  if (!confidence.empty()) {
    auto read = Confidence::Load(confidence);
    if (!read.ok()) return read.status();
    made->confidence_ = *std::move(read);
  }
  if (!tools.empty()) {
    auto read = LengthForest::Load(tools);
    if (!read.ok()) return read.status();
    made->before_tool_ = *std::move(read);
  }
  // Ids are positions in the list of models, from 1.
  const auto is_ours = [&](ModelId model) { return model && model.value <= made->models_.size(); };
  const auto reads = [&](const LengthForest& forest) {
    return forest.sketch() == made->dimensions() && std::ranges::all_of(forest.models(), is_ours);
  };
  const Confidence* heads = made->confidence_.get();
  const bool fits = reads(*made->lengths_) && (made->before_tool_ == nullptr || reads(*made->before_tool_)) &&
                    (heads == nullptr ||
                     (heads->features() == kAnswerCounts + made->dimensions() &&
                      heads->models().size() == made->models_.size() && std::ranges::all_of(heads->models(), is_ours)));
  return fits ? absl::StatusOr<std::shared_ptr<const CallPredictor>>(made) : misfit;
}

}  // namespace takt
