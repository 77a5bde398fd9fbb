#include "takt/systems/chimera.h"

#include <algorithm>
#include <charconv>
#include <variant>

#include "fmt/format.h"
#include "takt/base/faults.h"

namespace takt::systems {

// ---- learning ------------------------------------------------------------------------------------------------------

void ChimeraLessons::Add(ModelId model, std::span<const FinishedCall> calls, std::span<const float> features,
                         std::optional<bool> solved) {
  if (calls.empty()) return;
  lengths_.Finished(model, calls, ++workflows_);
  if (!solved) return;
  ConfidenceData& t = tried_;
  if (t.columns.empty()) t.features = features.size();
  if (features.size() != t.features) return;
  const auto at = std::ranges::find(t.models, model);
  const auto column = static_cast<std::uint32_t>(at - t.models.begin());
  if (at == t.models.end()) t.models.push_back(model);
  const std::uint8_t outcome = *solved ? ConfidenceData::kSolved : ConfidenceData::kFailed;
  if (t.columns.size() < most_rows_) {
    t.numbers.insert(t.numbers.end(), features.begin(), features.end());
    t.outcomes.push_back(outcome);
    t.columns.push_back(column);
    return;
  }
  const std::size_t row = random_.Below(t.columns.size());
  std::ranges::copy(features, t.numbers.begin() + static_cast<std::ptrdiff_t>(row * t.features));
  t.outcomes[row] = outcome, t.columns[row] = column;
}

absl::StatusOr<ChimeraPredictors> ChimeraLessons::Train(const ParallelFor& parallel, const Progress& progress) const {
  auto lengths = lengths_.Train(parallel, progress);
  if (!lengths.ok()) return lengths.status();
  ChimeraPredictors made{.lengths = *std::move(lengths)};
  if (tried_.columns.empty()) return made;
  auto confidence = Confidence::Train(tried_, confidence_, parallel, progress);
  if (!confidence.ok()) return confidence.status();
  made.confidence = *std::move(confidence);
  return made;
}

// ---- predictions ---------------------------------------------------------------------------------------------------

void Chimera::Batch::Predict() {
  const LengthForest* lengths = predictors_.lengths.get();
  const Confidence* confidence = predictors_.confidence.get();
  std::vector<ModelId> models;
  if (lengths != nullptr) models.insert(models.end(), lengths->models().begin(), lengths->models().end());
  if (confidence != nullptr) models.insert(models.end(), confidence->models().begin(), confidence->models().end());
  std::ranges::sort(models);
  models.erase(std::unique(models.begin(), models.end()), models.end());
  std::vector<LengthForest::Query> queries;
  for (Item& item : items_) {
    item.input.sketch = item.sketch;
    item.scores.clear();
    for (const ModelId model : models) {
      item.scores.push_back({model, 0, -1});
      queries.push_back({model, item.input, {-1}});
    }
  }
  std::vector<Estimate> tokens(queries.size());
  LengthForest::Scratch scratch;
  if (lengths != nullptr) lengths->Predict(queries, tokens, scratch);
  std::size_t q = 0;
  for (Item& item : items_) {
    for (ModelScore& score : item.scores) {
      if (tokens[q].known()) score.tokens = static_cast<float>(tokens[q].Quantile(0.5));
      ++q;
      if (confidence == nullptr) continue;
      const auto at = std::ranges::find(confidence->models(), score.model);
      if (at == confidence->models().end()) continue;
      const auto column = static_cast<std::size_t>(at - confidence->models().begin());
      score.score = static_cast<float>(std::max(confidence->Score(column, item.features), 0.0));
    }
  }
}

// ---- the router ----------------------------------------------------------------------------------------------------

absl::Status ChimeraOptions::Validate() const {
  Faults faults;
  faults.ExpectOptions(router);
  faults.Expect(batches.most >= 1, "batches.most", batches.most, "must be at least 1");
  return faults.ToStatus();
}

absl::StatusOr<Chimera> Chimera::Create(ChimeraOptions options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::StatusOr<Router> router = Router::Create(options.router, options.policy, options.placement);
  if (!router.ok()) return router.status();
  return Chimera(std::move(options), *std::move(router));
}

Chimera::Chimera(ChimeraOptions options, Router router)
    : policy_(std::move(options.policy)),
      batches_(options.batches),
      router_(std::move(router)),
      lessons_(options.lengths, options.confidence) {}

Chimera::Known* Chimera::HeldBy(RequestId id, std::uint64_t serial) {
  const auto at = known_.find(id.value);
  return at != known_.end() && at->second.held && at->second.serial == serial ? &at->second : nullptr;
}

Ignored Chimera::Add(const Request& request, const Prompt& prompt, TimePoint now) {
  const auto at = known_.find(request.id.value);
  const bool held = at != known_.end() && at->second.held;
  if (held || router_.Find(request.id) != nullptr || !request.id) {
    return held ? Ignored{.faults = 1, .first = FaultKind::kIdInUse} : router_.On(Arrived{request}, now);
  }
  Known& known = known_[request.id.value];
  known = {.request = request, .serial = ++serials_, .held = true, .input = prompt.input};
  Request& r = known.request;
  if (r.arrival == kUnset) r.arrival = now;
  known.hashes.assign(r.prefix.hashes.begin(), r.prefix.hashes.end());
  r.prefix.hashes = known.hashes;
  r.scores = {};
  known.sketch.assign(prompt.input.sketch.begin(), prompt.input.sketch.end());
  known.features.assign(prompt.features.begin(), prompt.features.end());
  known.input.sketch = {};
  ++held_;
  const bool predicts = predictors_.lengths != nullptr || predictors_.confidence != nullptr;
  if (!predicts || held_ > batches_.capacity) {
    ++stats_.fallbacks;
    return Route(known, {}, now);
  }
  pending_.push_back({request.id, known.serial, now});
  bounds_.push_back(pending_.back());
  return {};
}

Ignored Chimera::Route(Known& known, std::span<const ModelScore> scores, TimePoint now) {
  known.held = false;
  --held_;
  known.request.scores = scores;
  const RequestId id = known.request.id;
  const Ignored ignored = router_.On(Arrived{known.request}, now);
  known.request = {};
  if (router_.Find(id) == nullptr) known_.erase(id.value);
  return ignored;
}

std::optional<Chimera::Batch> Chimera::TakeBatch(TimePoint now) {
  while (!pending_.empty() && HeldBy(pending_.front().id, pending_.front().serial) == nullptr) pending_.pop_front();
  if (pending_.empty()) return std::nullopt;
  if (pending_.size() < batches_.most && Between(pending_.front().since, now) < batches_.longest) return std::nullopt;
  Batch batch;
  batch.predictors_ = predictors_;
  for (; !pending_.empty() && batch.items_.size() < batches_.most; pending_.pop_front()) {
    const Known* known = HeldBy(pending_.front().id, pending_.front().serial);
    if (known == nullptr) continue;
    batch.items_.push_back({pending_.front().id, known->serial, known->input, known->sketch, known->features});
  }
  return batch;
}

void Chimera::Finish(const Batch& batch, TimePoint now) {
  for (const Batch::Item& item : batch.items_) {
    Known* known = HeldBy(item.id, item.serial);
    ++(known != nullptr ? stats_.predicted : stats_.late);
    if (known != nullptr) Route(*known, item.scores, now);
  }
}

void Chimera::ReleaseOverdue(TimePoint now) {
  for (; !bounds_.empty(); bounds_.pop_front()) {
    Known* known = HeldBy(bounds_.front().id, bounds_.front().serial);
    if (known == nullptr) continue;
    if (Between(bounds_.front().since, now) < batches_.bound) return;
    ++stats_.fallbacks;
    Route(*known, {}, now);
  }
}

std::span<const Placement> Chimera::Place(TimePoint now) {
  ReleaseOverdue(now);
  const std::span<const Placement> placed = router_.Place(now);
  for (const Failure& failure : router_.failed()) {
    const auto at = known_.find(failure.request.value);
    if (at != known_.end() && !at->second.held && router_.Find(failure.request) == nullptr) known_.erase(at);
  }
  return placed;
}

Ignored Chimera::On(const RouterEvent& event, TimePoint now) {
  if (const auto* ended = std::get_if<WorkflowEnded>(&event); ended != nullptr && ended->cancelled) {
    workflows_.erase(ended->workflow.value);
  } else if (ended != nullptr) {
    return Ended(ended->workflow, {}, now);
  }
  RequestId gone;
  if (const auto* cancelled = std::get_if<Cancelled>(&event)) {
    gone = cancelled->request;
    const auto at = known_.find(gone.value);
    if (at != known_.end() && at->second.held) {
      known_.erase(at);
      --held_;
      return {};
    }
  }
  Call call;
  WorkflowId workflow;
  const auto* ended = std::get_if<RequestEnded>(&event);
  if (ended != nullptr) {
    gone = ended->request;
    const RequestState* state = router_.Find(gone);
    const auto at = known_.find(gone.value);
    const bool told = ended->served && !ended->served->absurd() && !ended->failed;
    if (state != nullptr && at != known_.end() && told) {
      for (const InstanceState& i : router_.instances()) {
        if (i.instance.id == router_.InstanceOf(gone)) call.model = i.instance.model;
      }
      workflow = state->request.workflow;
      call.input = at->second.input, call.output = ended->served->output;
      call.sketch = at->second.sketch, call.features = at->second.features;
    }
  }
  const Ignored ignored = router_.On(event, now);
  const auto at = known_.find(gone.value);
  if (at == known_.end() || at->second.held || router_.Find(gone) != nullptr) return ignored;
  known_.erase(at);
  if (workflow && call.model) {
    if (workflows_.size() >= batches_.capacity) workflows_.clear();  // the host ends no workflow
    workflows_[workflow.value].push_back(std::move(call));
  }
  return ignored;
}

Ignored Chimera::Ended(WorkflowId workflow, std::optional<bool> solved, TimePoint now) {
  if (const auto at = workflows_.find(workflow.value); at != workflows_.end()) {
    const std::vector<Call>& calls = at->second;
    std::vector<FinishedCall> finished;
    for (const Call& call : calls) {
      if (call.model != calls.front().model) break;  // its model went down
      finished.push_back({call.input, call.output});
      finished.back().input.sketch = call.sketch;
    }
    lessons_.Add(calls.front().model, finished, calls.front().features,
                 finished.size() == calls.size() ? solved : std::nullopt);
    workflows_.erase(at);
  }
  // The placement forgets the workflow's model. The router counts a fault if the workflow is not declared.
  const bool declared = router_.workflows().alive(workflow);
  const Ignored ignored = router_.On(WorkflowEnded{workflow}, now);
  return declared ? ignored : Ignored{};
}

TimePoint Chimera::wake_at() const {
  TimePoint at = router_.wake_at();
  if (!pending_.empty()) at = std::min(at, After(pending_.front().since, batches_.longest));
  if (!bounds_.empty()) at = std::min(at, After(bounds_.front().since, batches_.bound));
  return at;
}

// ---- files ---------------------------------------------------------------------------------------------------------

std::string Chimera::Save() const {
  const std::string lengths = predictors_.lengths ? predictors_.lengths->Save() : "";
  const std::string confidence = predictors_.confidence ? predictors_.confidence->Save() : "";
  return fmt::format("takt chimera 1\n{} {}\n", lengths.size(), confidence.size()) + lengths + confidence;
}

absl::Status Chimera::Load(std::string_view bytes) {
  const absl::Status damaged = absl::InvalidArgumentError("chimera: the file is damaged; expected the output of Save");
  constexpr std::string_view kHead = "takt chimera 1\n";
  if (!bytes.starts_with(kHead)) return damaged;
  bytes.remove_prefix(kHead.size());
  std::size_t sizes[2] = {};
  for (std::size_t& size : sizes) {
    const auto [end, fault] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
    if (fault != std::errc() || end == bytes.data() + bytes.size()) return damaged;
    bytes.remove_prefix(static_cast<std::size_t>(end - bytes.data()) + 1);
  }
  if (sizes[0] > bytes.size() || sizes[1] != bytes.size() - sizes[0]) return damaged;
  ChimeraPredictors loaded;
  if (sizes[0] > 0) {
    auto lengths = LengthForest::Load(bytes.substr(0, sizes[0]));
    if (!lengths.ok()) return lengths.status();
    loaded.lengths = *std::move(lengths);
  }
  if (sizes[1] > 0) {
    auto confidence = Confidence::Load(bytes.substr(sizes[0]));
    if (!confidence.ok()) return confidence.status();
    loaded.confidence = *std::move(confidence);
  }
  Publish(std::move(loaded));
  return absl::OkStatus();
}

}  // namespace takt::systems
