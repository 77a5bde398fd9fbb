// Cascadia (Jiang et al., 2025): serves a cascade of models. If the workload changes, plans GPUs and thresholds anew.
//
//   cascadia.OnArrived(request, now);
//   for (const CascadiaAction& a : cascadia.Next(now)) { ... }   // serve, judge, reply, start or stop a replica
//
// When an action has ended, call OnAnswered, OnJudged, OnReplicaUp or OnReplicaDown. If HasWork returns true, pass
// TakeWork's result to Do on another thread, and Do's result to Apply.
#ifndef TAKT_SYSTEMS_CASCADIA_H_
#define TAKT_SYSTEMS_CASCADIA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/slot_table.h"
#include "takt/cascade_router.h"
#include "takt/planning/cascade.h"
#include "takt/planning/drift.h"
#include "takt/placement/round_robin.h"
#include "takt/planning/rollout.h"
#include "takt/router.h"

namespace takt::systems {

struct CascadiaOptions {
  std::vector<ServedModel> models = {};  // models in the order of the cascade, with the shapes that replicas may have
  std::int32_t gpus = 32;  // number of GPUs (N of section 3.2)
  // Section 3.3: J = L + mu max(0, (q_min - Q) / (z1 - z2)); appendix C has a latency budget instead.
  CascadeGoal goal = {};
  CascadeOptions plan = {};
  int alternate = 0;  // rounds of algorithm 1 (K); 0: the joint optimum of all thresholds and GPUs
  double judge_s = 0.27;  // duration of a judgement (appendix H) [s]
  Duration judge_timeout = std::chrono::seconds(2);
  NoVerdict no_verdict = NoVerdict::kAsPlanned;  // decision if the judge gives no score in time
  DriftOptions drift = {};  // detection of changes (section 4.4): 50 requests every 5 minutes, 5 % for scores
  std::int32_t plan_requests = 100;  // number of requests that all models must have answered before a new plan
  double start_s = 20;  // assumed duration of a replica's start (appendix G: 2 to 20 s)
  AnyPlacement placement = RoundRobin{};  // placement of each model's router (appendix B)
  std::int64_t reserve_requests = 1024;  // number of living requests for which memory is reserved
  std::uint64_t seed = 1;  // seed of the hashes of ids and of NoVerdict::kAsPlanned

  // InvalidArgument lists all invalid fields with their values.
  absl::Status Validate() const;
};

struct CascadiaAction {
  enum Kind : std::uint8_t {
    kServe,  // send the request to the model's instance; then call OnAnswered or OnFailed
    kJudge,  // let the judge score the model's answer; then call OnJudged
    kAccept,  // reply to the client with the model's answer
    kFail,  // report to the client that no model has answered
    kCancel,  // the model's answer to the request is no longer needed
    kStart,  // start a replica of the model with this shape; then call OnReplicaUp, or OnReplicaDown if it fails
    kStop,  // stop the replica when its requests have ended; then call OnReplicaDown
  };
  Kind kind = kServe;
  int model = 0;
  RequestId request = {};
  InstanceId instance = {};
  std::size_t shape = 0;  // kStart: index into ServedModel::shapes

  friend constexpr bool operator==(const CascadiaAction&, const CascadiaAction&) = default;
};

struct CascadiaStats {
  std::int64_t plans = 0;  // number of applied plans, including the first
  std::int64_t windows = 0;  // number of windows compared with the reference
  std::int64_t drifts = 0;  // number of windows that showed another workload
  std::int64_t sampled = 0;  // number of requests that all models answered and the judge scored
  std::int64_t replicas_lost = 0;  // number of replicas that stopped on their own
  std::int64_t ignored = 0;  // number of events that the state does not allow or that name unknown requests or replicas

  friend constexpr bool operator==(const CascadiaStats&, const CascadiaStats&) = default;
};

// The state of a replica.
struct CascadiaReplica {
  enum State : std::uint8_t { kStarting, kUp, kStopping };
  InstanceId id = {};
  int model = 0;
  std::size_t shape = 0;
  double rate = 0;  // planned requests/s
  State state = kStarting;
};

// Slow work for another thread. It compares a window with the reference workload, or makes a plan.
struct CascadiaWork {
  std::shared_ptr<const CascadiaOptions> options = {};
  std::optional<DriftMonitor> monitor = {};  // monitor that compares `window`; if set, the work is a comparison
  WorkloadSample window = {};
  CascadeProblem problem = {};  // problem to plan; used if the work is a plan
  std::vector<CascadiaReplica> replicas = {};
  std::int64_t generation = 0;  // number of earlier Load calls
};

struct CascadiaResult {
  std::optional<DriftMonitor> monitor = {};
  DriftReport report = {};
  CascadePlan plan = {};
  std::vector<RolloutReplicas> kinds = {};  // replicas of the change, by RolloutStep::replicas
  std::vector<std::size_t> shapes = {};  // the shape of each kind
  std::vector<RolloutStep> steps = {};
  std::int64_t generation = -1;  // generation of the work; below 0: a plan made elsewhere
};

// Runs the loop of section 4.4: samples the workload, detects a change and plans anew. Then changes one replica after
// another (appendix G), and routes by the new thresholds. A router per model places requests on its replicas.
//
// If the host calls Next at wake_at(), every request ends in exactly one kAccept, kFail or OnCancelled, even if models,
// replicas or the judge fail. A lost replica is started again. All models answer a request of the sample.
//
// Thread-compatible. After warm-up only TakeWork, Do, Apply, Save, Load and changes of replicas allocate. Only Do is
// slow, and may run on any thread.
class Cascadia {
 public:
  // `sample`: requests with the answers of all models, such as a benchmark's. `rate`: expected requests/s. The first
  // plan is the first work. InvalidArgument lists all invalid options.
  static absl::StatusOr<Cascadia> Create(CascadiaOptions options, std::vector<CascadeSample> sample, double rate);

  // Events. Each function returns false and counts the event if it is invalid. Next then returns the new actions.
  bool OnArrived(const Request& request, TimePoint now);  // does not keep the request's spans
  bool OnAnswered(RequestId request, int model, Tokens output, TimePoint now);
  bool OnJudged(RequestId request, int model, double score, TimePoint now);  // `score` NaN: the judge gave no score
  bool OnFailed(RequestId request, int model, TimePoint now);
  bool OnCancelled(RequestId request, TimePoint now);
  bool OnReplicaUp(InstanceId replica, TimePoint now);
  bool OnReplicaDown(InstanceId replica, TimePoint now);

  // Returns all actions since the last call, in order. Valid until the next call.
  std::span<const CascadiaAction> Next(TimePoint now);
  TimePoint wake_at() const;

  // Returns true if there is slow work. Returns false from TakeWork until Apply or GiveUp.
  bool HasWork(TimePoint now) const;
  CascadiaWork TakeWork(TimePoint now);
  // May run on any thread at any time. FailedPrecondition: no plan reaches the goal.
  static absl::StatusOr<CascadiaResult> Do(const CascadiaWork& work, const ParallelFor& parallel = SerialFor);
  // Applies a result. During a change of replicas, the new change begins after the current start or stop. Results of
  // work taken before the last Load have no effect.
  void Apply(CascadiaResult result, TimePoint now);
  // Returns the change from these replicas to a plan that was made elsewhere, for Apply. FailedPrecondition: no order
  // of starts and stops was found.
  static absl::StatusOr<CascadiaResult> ChangeTo(CascadePlan plan, const CascadiaOptions& options,
                                                 std::span<const CascadiaReplica> replicas);
  void GiveUp();  // call this function if Do failed; the current plan stays

  const CascadePlan& plan() const { return plan_; }  // newest plan; empty before the first
  std::span<const CascadeStage> stages() const { return cascade_.stages(); }  // stages with the current thresholds
  std::span<const CascadiaReplica> replicas() const { return replicas_; }
  bool changing() const { return step_ < change_.steps.size() || awaited_; }  // true: replicas are being changed
  const Router& router(int model) const { return routers_[static_cast<std::size_t>(model)]; }
  const DriftReport& last_drift() const { return drift_; }
  const CascadiaStats& stats() const { return stats_; }
  const CascadeStats& cascade_stats() const { return cascade_.stats(); }
  std::int64_t alive() const { return cascade_.alive(); }

  // Returns the sample, the rate and the reference workload as bytes for any machine. Load replaces these, for the next
  // plan. Errors: DataLoss for truncated or damaged bytes, InvalidArgument for others; the state then stays.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

 private:
  // A request that a client waits for, or that only the sample needs.
  struct Living {
    Request request = {};
    std::int32_t row = -1;  // row of the request in the current sample; below 0: the request is not chosen
    int model = -1;  // after the reply: the model whose answer or score the sample waits for
    bool judging = false;  // after the reply: true if the judge has the answer
    TimePoint arrived = {};
  };

  Cascadia(std::shared_ptr<const CascadiaOptions> options, CascadeRouter cascade, std::vector<Router> routers,
           std::vector<CascadeSample> sample, double rate);
  std::size_t models() const { return routers_.size(); }
  bool Ignore() { return ++stats_.ignored, false; }
  bool plan_due() const {
    return wants_plan_ && !changing() && (first_ || std::cmp_greater_equal(complete_.size(), options_->plan_requests));
  }
  std::int32_t& OutputOf(const Living& living, int model) { return outputs_[CellOf(living, model)]; }
  double& ScoreOf(const Living& living, int model) { return scores_[CellOf(living, model)]; }
  std::size_t CellOf(const Living& living, int model) const {
    return static_cast<std::size_t>(living.row) * models() + static_cast<std::size_t>(model);
  }
  bool serves(int model) const;
  void Act(const CascadeAction& action, TimePoint now);
  void SendOn(Slot slot, int model, TimePoint now);
  void NoteAnswer(const Living& living, int model, Tokens output);
  void NoteScore(const Living& living, int model, double score);
  void Advance(Slot slot, TimePoint now);
  void Complete(Slot slot);
  void EndProbe(Slot slot, TimePoint now);
  void Forget(Slot slot);
  void FreeRow(Living& living);
  void FreeOldRows();
  InstanceId Start(int model, std::size_t shape, double rate);
  void Continue(TimePoint now);
  void Finish(TimePoint now);
  std::vector<CascadiaReplica>::iterator Find(InstanceId replica);

  std::shared_ptr<const CascadiaOptions> options_;
  CascadeRouter cascade_;
  std::vector<Router> routers_;  // one router per model
  IdTable<RequestId, Living> living_;
  std::vector<CascadiaReplica> replicas_;
  std::uint64_t last_instance_ = 0;
  std::vector<CascadiaAction> actions_, given_;
  std::vector<RequestId> failed_;

  // The current sample. Each row has a prompt, and an output and a score for each model.
  std::vector<std::int32_t> prompts_, outputs_, free_rows_, complete_;  // outputs below 0: no answer yet
  std::vector<double> scores_;  // NaN: no score yet
  std::vector<TimePoint> arrived_;
  TimePoint since_ = {};  // begin of the sample; older rows do not count
  std::vector<CascadeSample> sample_;  // sample of the newest plan
  std::size_t substitute_ = 0;  // row of sample_ that next replaces the answer of a model without replicas
  double rate_ = 1;

  DriftSampler sampler_;
  DriftMonitor monitor_;
  DriftReport drift_ = {};
  bool wants_plan_ = true;  // true: a plan is due when the sample is large enough
  bool first_ = true;  // true: the sample is that of Create or Load
  bool under_way_ = false;
  std::int64_t generation_ = 0;  // number of successful Load calls
  std::int64_t taken_generation_ = 0;  // generation of the newest work

  CascadePlan plan_;
  CascadiaResult change_;
  std::size_t step_ = 0;  // index of the next step in change_.steps
  InstanceId awaited_ = {};  // replica whose start or stop the change waits for
  CascadiaStats stats_ = {};
};

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_CASCADIA_H_
