// Chimera: a router before models of different sizes, which predicts how well and how long each would answer.
//
//   auto chimera = *systems::Chimera::Create();
//   chimera.Publish(*lessons.Train());                                  // of recorded workflows, or Load
//   chimera.On(InstanceUp{instance}, now);                              // with its model and token_s
//   chimera.Add(request, {.input = input, .features = features}, now);
//   while (auto batch = chimera.TakeBatch(now)) {
//     batch->Predict();                                                 // slow: on any thread
//     chimera.Finish(*batch, now);
//   }
//   for (const Placement& p : chimera.Place(now)) { ... }   // send chimera.router().Find(p.request)->request there
//   chimera.On(RequestEnded{.request = id, .instance = instance, .served = tokens}, now);
//   chimera.Ended(workflow, solved, now);
#ifndef TAKT_SYSTEMS_CHIMERA_H_
#define TAKT_SYSTEMS_CHIMERA_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"
#include "takt/learning/batcher.h"
#include "takt/learning/confidence.h"
#include "takt/learning/length_forest.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/confidence_slack.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/stjf.h"
#include "takt/router.h"

namespace takt::systems {

// Both predictors (sections 3.3 and 3.4). Null: none.
struct ChimeraPredictors {
  std::shared_ptr<const LengthForest> lengths = {};
  std::shared_ptr<const Confidence> confidence = {};
};

// Ended workflows, to train predictors with. A copy can be trained on another thread.
class ChimeraLessons {
 public:
  explicit ChimeraLessons(LengthForestOptions lengths = {}, ConfidenceOptions confidence = {},
                          std::size_t most_rows = 20'000)
      : lengths_(lengths), confidence_(confidence), most_rows_(most_rows) {}

  // Adds the calls of a workflow that a model answered. `features`: of its first prompt; none: unknown. `solved`: none:
  // unknown, so that only lengths are learned. False: the outcome was not learned, because there are above 1,000
  // features, or not as many as before.
  bool Add(ModelId model, std::span<const FinishedCall> calls, std::span<const float> features,
           std::optional<bool> solved);

  // Slow. InvalidArgument: nothing was added; Cancelled. Without a known outcome there is no `confidence`.
  absl::StatusOr<ChimeraPredictors> Train(const ParallelFor& parallel = SerialFor, const Progress& progress = {}) const;

  std::uint64_t workflows() const { return workflows_; }

 private:
  LengthLearner lengths_;
  ConfidenceOptions confidence_;
  std::size_t most_rows_;  // limit on prompts with outcomes; a new one then replaces one; 0: none are learned
  ConfidenceData tried_;
  Random random_{1};
  std::uint64_t workflows_ = 0;
};

struct ChimeraOptions {
  AnyPolicy policy = Aged(Stjf{}, {.threshold = 100, .quantum = 10});  // section 3.7; S and Q are not in the paper
  AnyPlacement placement = ConfidenceSlack{};  // algorithm 1, lines 1 to 26, with tau and delta_s
  // model_tokens: the prediction for the chosen model becomes the priority (lines 27 to 33).
  RouterOptions router = {};
  BatcherOptions batches = {};  // of predictions (section 3.8)
  LengthForestOptions lengths = {};
  ConfidenceOptions confidence = {};
  std::size_t most_lessons = 65'536;  // limit on ended calls of workflows that have not ended; more are not learned

  // Returns InvalidArgument with every invalid field and its value.
  absl::Status Validate() const;
};

// Source: "Chimera", sections 3.2 to 3.8. Thread-compatible; Batch::Predict and ChimeraLessons::Train may run on other
// threads. After warm-up, Place does not allocate. Requests without a workflow are placed, but not learned from.
//
// A request that is held belongs to the router once it has scores, or after BatcherOptions::bound without scores. An
// event that names a held request passes it to the router first, without scores. If `now` steps back, held requests
// wait at most the bound from then on.
//
// If operator new throws and the host catches it, no request is lost, or router().ended() returns true.
class Chimera {
 public:
  // The facts about a request's prompt that the predictors see. Spans are copied.
  struct Prompt {
    LengthInput input = {};
    std::span<const float> features = {};  // for Confidence
  };

 private:
  struct Facts {
    LengthInput input = {};
    std::vector<float> sketch = {}, features = {};

    LengthInput Input() const;
  };

 public:
  // Requests that wait for their scores; all models are predicted at once.
  class Batch {
   public:
    void Predict();
    std::size_t size() const { return items_.size(); }

   private:
    friend class Chimera;
    struct Item {
      RequestId id = {};
      std::uint64_t serial = 0;
      Facts facts = {};
      std::vector<ModelScore> scores = {};
    };
    ChimeraPredictors predictors_;
    std::vector<Item> items_;
  };

  struct Stats {
    std::uint64_t predicted = 0;  // requests routed with scores
    // Requests routed without scores: no predictor, no room, too late, or named by an event.
    std::uint64_t fallbacks = 0;
    std::uint64_t late = 0;  // predictions for requests that were no longer held
    // Ended workflows that were not learned: several models, too many calls, no first call, or a call without `served`,
    // Add or instance. A call that failed or was cancelled counts as one without `served`. Also workflows whose outcome
    // ChimeraLessons::Add did not learn.
    std::uint64_t unlearned = 0;
  };

  // InvalidArgument lists all invalid options.
  static absl::StatusOr<Chimera> Create(ChimeraOptions options = {});

  ProfileId AddProfile(InstanceProfile profile) { return router_.AddProfile(std::move(profile)); }

  // Holds the request until its scores are predicted.
  Ignored Add(const Request& request, const Prompt& prompt, TimePoint now);
  // Applies an event. Arrived: the request is routed with the scores that it has.
  Ignored On(const RouterEvent& event, TimePoint now);
  // Ends a workflow, declared or not. `solved`: whether the answer was right; none: unknown. The end of an undeclared
  // workflow counts in RouterStats::workflow_faults, because the placement must observe it and the router does not know
  // it.
  Ignored Ended(WorkflowId workflow, std::optional<bool> solved, TimePoint now);

  // Returns the next batch if it is full or due.
  std::optional<Batch> TakeBatch(TimePoint now);
  // Routes the requests of a predicted batch.
  void Finish(const Batch& batch, TimePoint now);

  // Works like Router::Place. Requests whose prediction is overdue are routed without scores.
  std::span<const Placement> Place(TimePoint now);

  // Uses these predictors for later batches.
  void Publish(ChimeraPredictors predictors) { predictors_ = std::move(predictors); }
  const ChimeraPredictors& predictors() const { return predictors_; }
  const ChimeraLessons& lessons() const { return lessons_; }

  // Policy for the scheduler of each engine.
  const AnyPolicy& policy() const { return policy_; }
  const Router& router() const { return router_; }
  const Stats& stats() const { return stats_; }
  std::size_t held() const { return held_; }  // requests that wait for their scores

  // Time of the next TakeBatch or Place if no event comes earlier.
  TimePoint wake_at() const;

  // Returns the predictors as bytes. Load publishes them; InvalidArgument or DataLoss: nothing changes.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

 private:
  // A living request that came by Add.
  struct Known {
    Request request = {};  // its spans: while it is held
    std::vector<std::uint64_t> hashes = {};  // of its prefix
    std::uint64_t serial = 0;  // distinguishes uses of the same id
    bool held = false;
    Facts facts = {};
  };
  struct Waiting {
    RequestId id = {};
    std::uint64_t serial = 0;
    TimePoint since{};
  };
  // An ended call.
  struct Call {
    Facts facts = {};
    TimePoint start{};  // of its wait for an instance
    ModelId model = {};
    Tokens output{-1};  // below 0: unknown
  };

  Chimera(ChimeraOptions options, Router router);

  // Returns the held request; null if it is no longer held.
  Known* HeldBy(const Waiting& entry);
  Ignored Route(Known& known, std::span<const ModelScore> scores, TimePoint now);
  Ignored End(const WorkflowEnded& end, std::optional<bool> solved, TimePoint now);
  void Forget(RequestId id);
  // After a step back, nobody has waited since a later time.
  void Enter(TimePoint now);
  // Returns the calls of a workflow, with room for one more.
  std::vector<Call>& CallsOf(WorkflowId workflow);
  void Add(std::vector<Call>& calls, Call call);
  // Adds a call without an answer for a request that failed. `may_be_over`: only if its workflow is declared and alive.
  void Miss(const Known& known, bool may_be_over);
  void Learn(std::vector<Call>& calls, std::optional<bool> solved);
  // Removes entries of requests that are not held: those in front, and others if they are the majority.
  void Trim();

  AnyPolicy policy_;
  BatcherOptions batches_;
  std::size_t most_lessons_;
  Router router_;
  std::uint64_t hash_seed_;
  ChimeraPredictors predictors_;
  ChimeraLessons lessons_;
  IdTable<RequestId, Known, std::deque<Known>> known_;  // grows without moving elements
  // Calls of workflows that have not ended.
  IdTable<WorkflowId, std::vector<Call>, std::deque<std::vector<Call>>> workflows_;
  std::size_t calls_ = 0;  // in workflows_; at most most_lessons_
  std::deque<Waiting> pending_, bounds_;  // held requests: without a batch, and all; by `since`
  std::size_t held_ = 0;
  std::uint64_t serials_ = 0;
  Stats stats_;
};

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_CHIMERA_H_
