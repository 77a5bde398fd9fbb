#include "takt/systems/chimera.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <variant>

#include "fmt/format.h"
#include "takt/base/faults.h"
#include "takt/state/call_desk.h"

namespace takt::systems {
namespace {

constexpr std::size_t kMostCallsLearned = 512;  // of a workflow; more calls are not learned

constexpr std::string_view kChimeraHead = "takt chimera 1\n";

std::string HeadOf(std::size_t lengths, std::size_t confidence) {
  return fmt::format("{}{} {}\n", kChimeraHead, lengths, confidence);
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

bool ChimeraLessons::Add(ModelId model, std::span<const FinishedCall> calls, std::span<const float> features,
                         std::optional<bool> solved) {
  if (calls.empty()) return true;
  lengths_.Finished(model, calls, ++workflows_);
  if (!solved || most_rows_ == 0) return true;
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();  // counts as the mean
  ConfidenceData& t = tried_;
  if (features.size() > Confidence::kMostFeatures) return false;
  if (t.features == 0 && !features.empty()) {  // the first row with features fixes their number
    t.numbers.assign(t.columns.size() * features.size(), kUnknown);
    t.features = features.size();
  }
  if (!features.empty() && features.size() != t.features) return false;
  const bool grows = t.columns.size() < most_rows_;
  internal::MakeRoom(t.models, 1);
  if (grows) {
    internal::MakeRoom(t.outcomes, 1);
    internal::MakeRoom(t.columns, 1);
    internal::MakeRoom(t.numbers, t.features);
  }
  const auto at = std::ranges::find(t.models, model);
  const auto column = static_cast<std::uint32_t>(at - t.models.begin());
  if (at == t.models.end()) t.models.push_back(model);
  const std::size_t row = grows ? t.columns.size() : random_.Below(t.columns.size());
  if (grows) {
    t.numbers.resize(t.numbers.size() + t.features);
    t.outcomes.push_back({});
    t.columns.push_back({});
  }
  const auto numbers = t.numbers.begin() + static_cast<std::ptrdiff_t>(row * t.features);
  if (features.empty()) std::fill_n(numbers, t.features, kUnknown);
  else std::ranges::copy(features, numbers);
  t.outcomes[row] = *solved ? ConfidenceData::kSolved : ConfidenceData::kFailed;
  t.columns[row] = column;
  return true;
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
  const auto no_less = [&faults](std::string_view field, Duration wait) {
    faults.Expect(wait >= Duration::zero(), field, ToSeconds(wait), "must be at least 0 s");
  };
  no_less("batches.longest", batches.longest);
  no_less("batches.bound", batches.bound);
  faults.ExpectOptions(lengths, "lengths.");
  faults.ExpectOptions(lengths.forest, "lengths.forest.");
  faults.ExpectOptions(confidence, "confidence.");
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
      hash_seed_(options.router.hash_seed),
      lessons_(options.lengths, options.confidence) {
  known_.KeyHashes(hash_seed_);
  workflows_.KeyHashes(hash_seed_);
}

Chimera::Known* Chimera::HeldBy(const Waiting& entry) {
  Known* known = known_.Get(entry.id);
  return known != nullptr && known->held && known->serial == entry.serial ? known : nullptr;
}

void Chimera::Forget(RequestId id) {
  if (const Slot slot = known_.Find(id); slot != kNoSlot) known_.Erase(slot, id);
}

void Chimera::Enter(TimePoint now) {
  for (std::deque<Waiting>* entries : {&pending_, &bounds_}) {
    for (auto entry = entries->rbegin(); entry != entries->rend() && entry->since > now; ++entry) entry->since = now;
  }
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
  const Known* former = known_.Get(request.id);
  const bool held = former != nullptr && former->held;
  if (held || router_.Find(request.id) != nullptr || !request.id) return On(Arrived{request}, now);
  Enter(now);
  Known known{.request = request, .serial = ++serials_, .held = true};
  if (request.arrival == kUnset) known.request.arrival = now;
  known.request.scores = {};
  known.hashes.assign(request.prefix.hashes.begin(), request.prefix.hashes.end());
  known.facts.input = prompt.input;
  known.facts.sketch.assign(prompt.input.sketch.begin(), prompt.input.sketch.end());
  known.facts.features.assign(prompt.features.begin(), prompt.features.end());
  const bool predicts = predictors_.lengths != nullptr || predictors_.confidence != nullptr;
  const bool waits = predicts && held_ < batches_.capacity;
  // If a later allocation fails, these entries are of no held request, and Trim removes them.
  bounds_.push_back({request.id, known.serial, now});
  if (waits) pending_.push_back(bounds_.back());
  Slot slot = known_.Find(request.id);
  if (slot == kNoSlot) slot = known_.Insert(request.id);  // the last allocation
  known_[slot] = std::move(known);
  ++held_;
  if (waits) return {};
  const Ignored ignored = Route(known_[slot], {}, now);
  Trim();
  return ignored;
}

Ignored Chimera::Route(Known& known, std::span<const ModelScore> scores, TimePoint now) {
  Request request = known.request;
  request.prefix.hashes = known.hashes;
  request.scores = scores;
  const Ignored ignored = router_.On(Arrived{request}, now);  // if it throws, the request is still held
  ++(scores.empty() ? stats_.fallbacks : stats_.predicted);
  known.held = false;
  --held_;
  if (router_.Find(request.id) == nullptr) {
    Miss(known, false);
    Forget(request.id);
  }
  return ignored;
}

std::optional<Chimera::Batch> Chimera::TakeBatch(TimePoint now) {
  Enter(now);
  Trim();
  if (pending_.empty()) return std::nullopt;
  if (pending_.size() < batches_.most && Between(pending_.front().since, now) < batches_.longest) return std::nullopt;
  Batch batch;
  batch.predictors_ = predictors_;
  auto entry = pending_.begin();
  for (; entry != pending_.end() && batch.items_.size() < batches_.most; ++entry) {
    if (const Known* known = HeldBy(*entry)) batch.items_.push_back({entry->id, entry->serial, known->facts, {}});
  }
  pending_.erase(pending_.begin(), entry);
  return batch;
}

void Chimera::Finish(const Batch& batch, TimePoint now) {
  Enter(now);
  for (const Batch::Item& item : batch.items_) {
    if (Known* known = HeldBy({item.id, item.serial, {}})) Route(*known, item.scores, now);
    else ++stats_.late;
  }
  Trim();
}

std::span<const Placement> Chimera::Place(TimePoint now) {
  Enter(now);
  for (; !bounds_.empty(); bounds_.pop_front()) {
    Known* known = HeldBy(bounds_.front());
    if (known == nullptr) continue;
    if (Between(bounds_.front().since, now) < batches_.bound) break;
    Route(*known, {}, now);
  }
  Trim();
  const std::span<const Placement> placed = router_.Place(now);
  for (const Failure& failure : router_.failed()) {
    const Known* known = known_.Get(failure.request);
    if (known == nullptr || known->held || router_.Find(failure.request) != nullptr) continue;
    Miss(*known, failure.reason == FailReason::kHost);
    Forget(failure.request);
  }
  return placed;
}

Ignored Chimera::On(const RouterEvent& event, TimePoint now) {
  if (const auto* end = std::get_if<WorkflowEnded>(&event)) return End(*end, {}, now);
  Enter(now);
  const RequestId id = RequestOf(event);
  if (Known* known = known_.Get(id); known != nullptr && known->held) {
    Route(*known, {}, now);
    Trim();
  }
  const RequestState* state = router_.Find(id);
  Known* known = known_.Get(id);
  if (state == nullptr && known != nullptr) {  // the request has failed since the last Place
    Miss(*known, true);
    Forget(id);
  }
  const auto* ended = std::get_if<RequestEnded>(&event);
  const bool ends = state != nullptr && (ended != nullptr || std::holds_alternative<Cancelled>(event));
  if (!ends) return router_.On(event, now);
  Call call{.start = state->enqueued};
  const InstanceId instance = router_.InstanceOf(id);
  const std::span<const InstanceState> up = router_.instances();
  const auto at = std::ranges::lower_bound(up, instance, {}, [](const InstanceState& i) { return i.instance.id; });
  const bool placed = at != up.end() && at->instance.id == instance;
  if (placed) call.model = at->instance.model;
  const bool served = ended != nullptr && !ended->failed && ended->served && !ended->served->absurd();
  if (served && placed && known != nullptr) call.output = ended->served->output;
  const WorkflowId workflow = state->request.workflow;
  std::vector<Call>* calls = workflow ? &CallsOf(workflow) : nullptr;
  const Ignored ignored = router_.On(event, now);
  if (router_.Find(id) == nullptr) {
    if (known != nullptr) call.facts = std::move(known->facts);
    Forget(id);
    if (calls != nullptr) Add(*calls, std::move(call));
  } else if (calls != nullptr && calls->empty()) {
    workflows_.Erase(workflows_.Find(workflow), workflow);
  }
  return ignored;
}

std::vector<Chimera::Call>& Chimera::CallsOf(WorkflowId workflow) {
  if (calls_ >= most_lessons_) {  // the host ends no workflow
    stats_.unlearned += workflows_.size();
    workflows_ = {};
    workflows_.KeyHashes(hash_seed_);
    calls_ = 0;
  }
  Slot slot = workflows_.Find(workflow);
  if (slot == kNoSlot) slot = workflows_.Insert(workflow, {});
  internal::MakeRoom(workflows_[slot], 1);
  return workflows_[slot];
}

void Chimera::Add(std::vector<Call>& calls, Call call) {
  if (calls.size() == kMostCallsLearned) return void(calls.back().output = {-1});
  calls.push_back(std::move(call));
  ++calls_;
}

void Chimera::Miss(const Known& known, bool may_be_over) {
  const WorkflowId workflow = known.request.workflow;
  if (!workflow || (may_be_over && !router_.workflows().alive(workflow))) return;
  Add(CallsOf(workflow), {});
}

Ignored Chimera::Ended(WorkflowId workflow, std::optional<bool> solved, TimePoint now) {
  return End({workflow}, solved, now);
}

Ignored Chimera::End(const WorkflowEnded& end, std::optional<bool> solved, TimePoint now) {
  Enter(now);
  const bool declared = router_.workflows().alive(end.workflow);
  if (declared) {  // the router drops its requests
    for (const Waiting& entry : bounds_) {
      Known* known = HeldBy(entry);
      if (known != nullptr && known->request.workflow == end.workflow) Route(*known, {}, now);
    }
    Trim();
  }
  if (const Slot slot = workflows_.Find(end.workflow); slot != kNoSlot) {
    std::vector<Call> calls = std::exchange(workflows_[slot], {});
    workflows_.Erase(slot, end.workflow);
    calls_ -= calls.size();
    if (!end.cancelled && !calls.empty()) Learn(calls, solved);
  }
  // The placement forgets the workflow's model. The router counts a fault if the workflow is not declared.
  const Ignored ignored = router_.On(end, now);
  return declared ? ignored : Ignored{};
}

void Chimera::Learn(std::vector<Call>& calls, std::optional<bool> solved) {
  std::ranges::stable_sort(calls, {}, &Call::start);
  if (calls.front().facts.input.calls_before > 0) return void(++stats_.unlearned);  // its first calls are not here
  std::vector<FinishedCall> finished;
  for (const Call& call : calls) {
    if (call.output.value < 0 || call.model != calls.front().model) return void(++stats_.unlearned);
    finished.push_back({call.facts.Input(), call.output});
  }
  if (!lessons_.Add(calls.front().model, finished, calls.front().facts.features, solved)) ++stats_.unlearned;
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
  rest.remove_prefix(std::min(kChimeraHead.size(), rest.size()));
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
