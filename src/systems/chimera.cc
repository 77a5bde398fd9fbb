#include "takt/systems/chimera.h"

#include <algorithm>
#include <charconv>
#include <variant>

#include "fmt/format.h"
#include "takt/base/faults.h"

namespace takt::systems {
namespace {

constexpr std::size_t kMostCallsLearned = 512;  // of a workflow; more calls are not learned

constexpr std::string_view kHead = "takt chimera 1\n";

std::string HeadOf(std::size_t lengths, std::size_t confidence) {
  return fmt::format("{}{} {}\n", kHead, lengths, confidence);
}

// Returns the request that an event names; none: it names no request.
RequestId RequestOf(const RouterEvent& event) {
  return std::visit(
      [](const auto& e) -> RequestId {
        if constexpr (requires { e.request.id; }) return e.request.id;
        else if constexpr (requires { e.request.value; }) return e.request;
        else return {};
      },
      event);
}

}  // namespace

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

LengthInput Chimera::Facts::Input() const {
  LengthInput with = input;
  with.sketch = sketch;
  return with;
}

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
    item.scores.clear();
    for (const ModelId model : models) {
      item.scores.push_back({model, 0, -1});
      queries.push_back({model, item.facts.Input(), {-1}});
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
      score.score = static_cast<float>(std::max(confidence->Score(column, item.facts.features), 0.0));
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
      most_lessons_(options.most_lessons),
      router_(std::move(router)),
      lessons_(options.lengths, options.confidence) {}

Chimera::Known* Chimera::HeldBy(const Waiting& entry) {
  const auto at = known_.find(entry.id.value);
  return at != known_.end() && at->second.held && at->second.serial == entry.serial ? &at->second : nullptr;
}

void Chimera::Trim() {
  constexpr std::size_t kFew = 64;
  for (std::deque<Waiting>* entries : {&pending_, &bounds_}) {
    while (!entries->empty() && HeldBy(entries->front()) == nullptr) entries->pop_front();
    if (entries->size() <= 2 * held_ + kFew) continue;
    std::erase_if(*entries, [this](const Waiting& entry) { return HeldBy(entry) == nullptr; });
  }
}

Ignored Chimera::Add(const Request& request, const Prompt& prompt, TimePoint now) {
  const auto at = known_.find(request.id.value);
  const bool held = at != known_.end() && at->second.held;
  if (held || router_.Find(request.id) != nullptr || !request.id) return On(Arrived{request}, now);
  Known& known = known_[request.id.value];
  known.request = request;
  if (request.arrival == kUnset) known.request.arrival = now;
  known.request.scores = {};
  known.hashes.assign(request.prefix.hashes.begin(), request.prefix.hashes.end());
  known.serial = ++serials_;
  known.held = true;
  known.facts.input = prompt.input;
  known.facts.sketch.assign(prompt.input.sketch.begin(), prompt.input.sketch.end());
  known.facts.features.assign(prompt.features.begin(), prompt.features.end());
  ++held_;
  const bool predicts = predictors_.lengths != nullptr || predictors_.confidence != nullptr;
  if (!predicts || held_ > batches_.capacity) return Route(known, {}, now);
  pending_.push_back({request.id, known.serial, now});
  bounds_.push_back(pending_.back());
  return {};
}

Ignored Chimera::Route(Known& known, std::span<const ModelScore> scores, TimePoint now) {
  ++(scores.empty() ? stats_.fallbacks : stats_.predicted);
  known.held = false;
  --held_;
  Request request = known.request;
  request.prefix.hashes = known.hashes;
  request.scores = scores;
  const Ignored ignored = router_.On(Arrived{request}, now);
  if (router_.Find(request.id) == nullptr) known_.erase(request.id.value);
  return ignored;
}

std::optional<Chimera::Batch> Chimera::TakeBatch(TimePoint now) {
  Trim();
  if (pending_.empty()) return std::nullopt;
  if (pending_.size() < batches_.most && Between(pending_.front().since, now) < batches_.longest) return std::nullopt;
  Batch batch;
  batch.predictors_ = predictors_;
  for (; !pending_.empty() && batch.items_.size() < batches_.most; pending_.pop_front()) {
    const Waiting& entry = pending_.front();
    if (const Known* known = HeldBy(entry)) batch.items_.push_back({entry.id, entry.serial, known->facts, {}});
  }
  return batch;
}

void Chimera::Finish(const Batch& batch, TimePoint now) {
  for (const Batch::Item& item : batch.items_) {
    if (Known* known = HeldBy({item.id, item.serial, {}})) Route(*known, item.scores, now);
    else ++stats_.late;
  }
  Trim();
}

std::span<const Placement> Chimera::Place(TimePoint now) {
  for (; !bounds_.empty(); bounds_.pop_front()) {
    Known* known = HeldBy(bounds_.front());
    if (known == nullptr) continue;
    if (Between(bounds_.front().since, now) < batches_.bound) break;
    Route(*known, {}, now);
  }
  Trim();
  const std::span<const Placement> placed = router_.Place(now);
  for (const Failure& failure : router_.failed()) {
    const auto at = known_.find(failure.request.value);
    if (at != known_.end() && !at->second.held && router_.Find(failure.request) == nullptr) known_.erase(at);
  }
  return placed;
}

Ignored Chimera::On(const RouterEvent& event, TimePoint now) {
  if (const auto* end = std::get_if<WorkflowEnded>(&event)) return End(*end, {}, now);
  const RequestId id = RequestOf(event);
  if (const auto at = known_.find(id.value); at != known_.end() && at->second.held) {
    Route(at->second, {}, now);
    Trim();
  }
  const RequestState* state = router_.Find(id);
  if (state == nullptr) known_.erase(id.value);  // the request has failed
  const auto* ended = std::get_if<RequestEnded>(&event);
  Call call;
  WorkflowId workflow;
  if (state != nullptr && ended != nullptr && !ended->failed) {
    workflow = state->request.workflow;
    call.start = state->enqueued;
    for (const InstanceState& i : router_.instances()) {
      if (i.instance.id == router_.InstanceOf(id)) call.model = i.instance.model;
    }
    if (ended->served && !ended->served->absurd() && known_.contains(id.value)) call.output = ended->served->output;
  }
  const Ignored ignored = router_.On(event, now);
  if (state == nullptr || router_.Find(id) != nullptr) return ignored;
  if (auto known = known_.extract(id.value)) call.facts = std::move(known.mapped().facts);
  if (workflow) Add(workflow, std::move(call));
  return ignored;
}

void Chimera::Add(WorkflowId workflow, Call call) {
  if (calls_ >= most_lessons_) {  // the host ends no workflow
    stats_.unlearned += workflows_.size();
    workflows_.clear();
    calls_ = 0;
  }
  std::vector<Call>& calls = workflows_[workflow.value];
  if (calls.size() == kMostCallsLearned) return void(calls.back().output = {-1});
  calls.push_back(std::move(call));
  ++calls_;
}

Ignored Chimera::Ended(WorkflowId workflow, std::optional<bool> solved, TimePoint now) {
  return End({workflow}, solved, now);
}

Ignored Chimera::End(const WorkflowEnded& end, std::optional<bool> solved, TimePoint now) {
  const bool declared = router_.workflows().alive(end.workflow);
  if (declared) {  // the router drops its requests
    for (const Waiting& entry : bounds_) {
      Known* known = HeldBy(entry);
      if (known != nullptr && known->request.workflow == end.workflow) Route(*known, {}, now);
    }
    Trim();
  }
  if (const auto at = workflows_.find(end.workflow.value); at != workflows_.end()) {
    calls_ -= at->second.size();
    if (!end.cancelled) Learn(at->second, solved);
    workflows_.erase(at);
  }
  // The placement forgets the workflow's model. The router counts a fault if the workflow is not declared.
  const Ignored ignored = router_.On(end, now);
  return declared ? ignored : Ignored{};
}

void Chimera::Learn(std::vector<Call>& calls, std::optional<bool> solved) {
  std::ranges::stable_sort(calls, {}, &Call::start);
  std::vector<FinishedCall> finished;
  for (const Call& call : calls) {
    if (call.output.value < 0 || call.model != calls.front().model) return void(++stats_.unlearned);
    finished.push_back({call.facts.Input(), call.output});
  }
  lessons_.Add(calls.front().model, finished, calls.front().facts.features, solved);
}

TimePoint Chimera::wake_at() const {
  TimePoint at = router_.wake_at();
  if (pending_.size() >= batches_.most) at = TimePoint{};
  if (!pending_.empty()) at = std::min(at, After(pending_.front().since, batches_.longest));
  if (!bounds_.empty()) at = std::min(at, After(bounds_.front().since, batches_.bound));
  return at;
}

// ---- files ---------------------------------------------------------------------------------------------------------

std::string Chimera::Save() const {
  const std::string lengths = predictors_.lengths ? predictors_.lengths->Save() : "";
  const std::string confidence = predictors_.confidence ? predictors_.confidence->Save() : "";
  return HeadOf(lengths.size(), confidence.size()) + lengths + confidence;
}

absl::Status Chimera::Load(std::string_view bytes) {
  const absl::Status damaged = absl::InvalidArgumentError("chimera: the file is damaged; expected the output of Save");
  std::size_t sizes[2] = {};
  std::string_view rest = bytes;
  rest.remove_prefix(std::min(kHead.size(), rest.size()));
  for (std::size_t& size : sizes) {
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(std::min(static_cast<std::size_t>(end - rest.data()) + 1, rest.size()));
  }
  const std::string head = HeadOf(sizes[0], sizes[1]);
  if (!bytes.starts_with(head)) return damaged;
  bytes.remove_prefix(head.size());
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
