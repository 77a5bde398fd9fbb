#include "takt/systems/cascadia.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "learning/pack.h"
#include "takt/base/exact_math.h"
#include "takt/base/faults.h"
#include "takt/planning/cascade_stages.h"
#include "takt/policy/fcfs.h"

namespace takt::systems {
namespace {

constexpr std::string_view kCascadiaMagic = "takt cascadia ";
constexpr std::uint32_t kCascadiaVersion = 1;
constexpr std::int32_t kRowsUnderWay = 256;  // rows beyond plan_requests, for requests whose answers are not complete
constexpr double kUnscored = std::numeric_limits<double>::quiet_NaN();

// Plans the change from the current replicas to the plan. Each model keeps at least the capacity that both have.
absl::Status PlanChange(const CascadiaOptions& options, std::span<const CascadiaReplica> replicas,
                        CascadiaResult& result) {
  RolloutProblem problem;
  problem.gpus = {0};
  std::int32_t wanted = 0;
  for (std::size_t m = 0; m < result.plan.models.size(); ++m) {
    double before = 0, after = 0;
    const std::vector<Profile>& shapes = options.models[m].shapes;
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      RolloutReplicas kind{.name = shapes[s].id, .model = static_cast<int>(m), .gpus = shapes[s].cost.gpus()};
      for (const CascadiaReplica& r : replicas) {
        if (std::cmp_not_equal(r.model, m) || r.shape != s || r.state == CascadiaReplica::kStopping) continue;
        ++kind.from, kind.rate = r.rate;
      }
      for (const ReplicaCount& r : result.plan.models[m].replicas) {
        if (r.shape == s) kind.to = r.count, kind.rate = r.rate;
      }
      if (kind.from == 0 && kind.to == 0) continue;
      kind.start_s = options.start_s;
      problem.gpus[0] += kind.from * kind.gpus;
      wanted += kind.to * kind.gpus;
      before += kind.from * kind.rate, after += kind.to * kind.rate;
      result.shapes.push_back(s);
      problem.replicas.push_back(std::move(kind));
    }
    problem.needed.push_back(std::min(before, after));
  }
  problem.gpus[0] = std::max({problem.gpus[0], wanted, options.gpus});
  absl::StatusOr<Rollout> rollout = PlanRollout(problem);
  // Without spare GPUs, less capacity must do during the change.
  if (rollout.ok() && rollout->status != RolloutStatus::kFound) {
    for (double& needed : problem.needed) needed *= std::max(rollout->share - 0.01, 0.0);
    rollout = PlanRollout(problem);
  }
  if (!rollout.ok()) return rollout.status();
  if (rollout->status != RolloutStatus::kFound)
    return absl::FailedPreconditionError("the changes fit on the GPUs in no order");
  result.kinds = std::move(problem.replicas);
  result.steps = std::move(rollout->steps);
  return absl::OkStatus();
}

// Returns true if the change was planned for these replicas.
bool BeginsWith(const CascadiaResult& result, std::span<const CascadiaReplica> replicas) {
  std::vector<int> more;  // by kind: replicas that the change does not know
  for (const RolloutReplicas& kind : result.kinds) more.push_back(-kind.from);
  for (const CascadiaReplica& r : replicas) {
    if (r.state == CascadiaReplica::kStopping) continue;
    std::size_t k = 0;
    while (k < more.size() && (result.kinds[k].model != r.model || result.shapes[k] != r.shape)) ++k;
    if (k == more.size()) return false;
    ++more[k];
  }
  return std::ranges::all_of(more, [](int n) { return n == 0; });
}

// Returns the workload of a sample whose requests arrive at random: gaps at the quantiles of an exponential
// distribution.
WorkloadSample ReferenceOf(const std::vector<CascadeSample>& sample, double rate, int most) {
  WorkloadSample reference;
  const std::size_t n = std::min(sample.size(), static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < n; ++i) {
    const CascadeSample& s = sample[i];
    reference.gaps.push_back(-exact::Log((static_cast<double>(i) + 0.5) / static_cast<double>(n)) / rate);
    reference.prompts.push_back(s.prompt);
    reference.outputs.push_back(s.outputs[0]);
    reference.scores.resize(s.scores.size());
    for (std::size_t m = 0; m < s.scores.size(); ++m) reference.scores[m].push_back(s.scores[m]);
  }
  return reference;
}

void PutSample(internal::Packer& out, const WorkloadSample& sample) {
  out.Put(sample.gaps);
  out.Put(sample.open_s);
  out.Put(sample.prompts);
  out.Put(sample.outputs);
  for (const std::vector<double>& scores : sample.scores) out.Put(scores);
}

// Returns false if a value is invalid.
bool GetSample(internal::Unpacker& in, WorkloadSample& sample) {
  const auto read = [&](std::vector<double>& values) {
    in.Get(values);
    return std::ranges::all_of(values, [](double x) { return x >= 0 && x <= 1e12; });
  };
  if (!read(sample.gaps)) return false;
  sample.open_s = in.Get<double>();
  return sample.open_s >= 0 && sample.open_s <= 1e12 && read(sample.prompts) && read(sample.outputs) &&
         std::ranges::all_of(sample.scores, read) && in.ok();
}

}  // namespace

absl::Status CascadiaOptions::Validate() const {
  Faults faults;
  faults.Expect(!models.empty() && models.size() <= 64, "models", models.size(), "must be 1 to 64");
  faults.Expect(gpus >= 1 && gpus <= 1 << 20, "gpus", gpus, "must be 1 to 1048576");
  faults.Expect(alternate >= 0, "alternate", alternate, "must not be negative");
  faults.Expect(judge_s >= 0 && judge_s <= 1e6, "judge_s", judge_s, "must be 0 to 1e6 s");
  faults.Expect(judge_timeout > Duration::zero(), "judge_timeout must be above 0");
  faults.Expect(plan_requests >= 1 && plan_requests <= 1 << 20, "plan_requests", plan_requests, "must be 1 to 1048576");
  faults.Expect(start_s >= 0 && start_s <= 1e6, "start_s", start_s, "must be 0 to 1e6 s");
  faults.Expect(reserve_requests >= 0 && reserve_requests <= 1 << 28, "reserve_requests", reserve_requests,
                "must be 0 to 268435456");
  for (const absl::Status& status : {goal.Validate(), drift.Validate()}) {
    if (!status.ok()) faults.Add(std::string(status.message()));
  }
  return faults.empty() ? absl::OkStatus() : faults.ToStatus();
}

absl::StatusOr<Cascadia> Cascadia::Create(CascadiaOptions options, std::vector<CascadeSample> sample, double rate) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  const CascadeProblem problem{.models = options.models, .sample = sample, .rate = rate, .gpus = options.gpus};
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  // Until the first plan, requests wait for the first model.
  absl::StatusOr<CascadeRouter> cascade =
      CascadeRouter::Create({.stages = std::vector<CascadeStage>(options.models.size()),
                             .judge_timeout = options.judge_timeout,
                             .on_missing = options.no_verdict,
                             .on_late = options.no_verdict,
                             .seed = options.seed,
                             .reserve_requests = options.reserve_requests});
  if (!cascade.ok()) return cascade.status();
  std::vector<Router> routers;
  for (std::size_t m = 0; m < options.models.size(); ++m) {
    absl::StatusOr<Router> router = Router::Create(
        {.reserve_requests = options.reserve_requests, .hash_seed = options.seed}, Fcfs{}, options.placement);
    if (!router.ok()) return router.status();
    routers.push_back(*std::move(router));
  }
  return Cascadia(std::make_shared<const CascadiaOptions>(std::move(options)), *std::move(cascade), std::move(routers),
                  std::move(sample), rate);
}

Cascadia::Cascadia(std::shared_ptr<const CascadiaOptions> options, CascadeRouter cascade, std::vector<Router> routers,
                   std::vector<CascadeSample> sample, double rate)
    : options_(std::move(options)),
      cascade_(std::move(cascade)),
      routers_(std::move(routers)),
      sample_(std::move(sample)),
      rate_(rate),
      sampler_(static_cast<int>(options_->models.size()), options_->drift),
      monitor_(options_->drift) {
  living_.KeyHashes(options_->seed);
  living_.Reserve(static_cast<std::size_t>(options_->reserve_requests));
  actions_.reserve(2 * static_cast<std::size_t>(options_->reserve_requests));
  given_.reserve(actions_.capacity());
  const auto rows = static_cast<std::size_t>(options_->plan_requests + kRowsUnderWay);
  prompts_.resize(rows), arrived_.resize(rows);
  outputs_.resize(rows * models()), scores_.resize(rows * models());
  complete_.reserve(rows);
  failed_.reserve(static_cast<std::size_t>(options_->reserve_requests));
  monitor_.Rebase(ReferenceOf(sample_, rate_, options_->drift.reference_requests));
  for (std::size_t row = rows; row > 0; --row) free_rows_.push_back(static_cast<std::int32_t>(row - 1));
}

bool Cascadia::serves(int model) const {
  return std::ranges::any_of(replicas_, [model](const CascadiaReplica& r) {
    return r.model == model && r.state != CascadiaReplica::kStopping;
  });
}

void Cascadia::FreeRow(Living& living) {
  if (living.row >= 0) free_rows_.push_back(std::exchange(living.row, -1));
}

void Cascadia::Forget(Slot slot) {
  Living& living = living_[slot];
  FreeRow(living);
  living_.Erase(slot, std::exchange(living.request.id, RequestId{}));
}

void Cascadia::SendOn(Slot slot, int model, TimePoint now) {
  routers_[static_cast<std::size_t>(model)].On(Arrived{living_[slot].request}, now);
}

// Follows a decision of the cascade. May forget the request.
void Cascadia::Act(const CascadeAction& action, TimePoint now) {
  const Slot slot = living_.Find(action.request);
  switch (action.kind) {
    case CascadeAction::kNone: return;
    case CascadeAction::kSend: return SendOn(slot, action.model, now);
    case CascadeAction::kJudge: actions_.push_back({CascadiaAction::kJudge, action.model, action.request}); return;
    case CascadeAction::kAccept:
      actions_.push_back({CascadiaAction::kAccept, action.model, action.request});
      return living_[slot].row >= 0 ? Advance(slot, now) : Forget(slot);
    case CascadeAction::kFail:
      actions_.push_back({CascadiaAction::kFail, action.model, action.request});
      return Forget(slot);
  }
}

void Cascadia::NoteAnswer(const Living& living, int model, Tokens output) {
  output = std::max(output, Tokens{1});  // as the planner needs it
  sampler_.OnFinished(living.request.id, output);  // the first answer counts
  if (living.row >= 0) OutputOf(living, model) = output.value;
}

void Cascadia::NoteScore(const Living& living, int model, double score) {
  if (living.row < 0 || !std::isfinite(score) || !std::isnan(ScoreOf(living, model))) return;
  ScoreOf(living, model) = score = std::clamp(score, 0.0, 100.0);
  sampler_.OnScore(model, score);
}

// After the reply: asks the next model for an answer, or the judge for a score, that the sample lacks.
void Cascadia::Advance(Slot slot, TimePoint now) {
  Living& living = living_[slot];
  for (int m = 0; std::cmp_less(m, models()); ++m) {
    const bool answered = OutputOf(living, m) >= 0;
    if (answered ? !std::isnan(ScoreOf(living, m)) : !serves(m)) continue;
    living.model = m;
    living.judging = answered;
    if (!answered) return SendOn(slot, m, now);
    actions_.push_back({CascadiaAction::kJudge, m, living.request.id});
    return;
  }
  Complete(slot);
}

// A model without replicas cannot answer: its answer is one of the sample before.
void Cascadia::Complete(Slot slot) {
  Living& living = living_[slot];
  for (int m = 0; std::cmp_less(m, models()); ++m) {
    if (OutputOf(living, m) >= 0) continue;
    const CascadeSample& before = sample_[substitute_++ % sample_.size()];
    OutputOf(living, m) = before.outputs[static_cast<std::size_t>(m)];
    ScoreOf(living, m) = before.scores[static_cast<std::size_t>(m)];
  }
  ++stats_.sampled;
  if (living.arrived >= since_ && std::cmp_less(complete_.size(), options_->plan_requests)) {
    complete_.push_back(std::exchange(living.row, -1));
  }
  Forget(slot);
}

// Gives up a request that only the sample needs.
void Cascadia::EndProbe(Slot slot, TimePoint now) {
  const Living& living = living_[slot];
  if (!living.judging) {
    routers_[static_cast<std::size_t>(living.model)].On(Cancelled{living.request.id}, now);
    actions_.push_back({CascadiaAction::kCancel, living.model, living.request.id});
  }
  Forget(slot);
}

bool Cascadia::OnArrived(const Request& request, TimePoint now) {
  if (!request.id) return Ignore();
  const Slot old = living_.Find(request.id);
  if (old != kNoSlot && cascade_.ModelOf(request.id) < 0) EndProbe(old, now);
  const CascadeAction action = cascade_.OnArrival(request.id);
  if (action.kind == CascadeAction::kNone) return Ignore();
  const Slot slot = living_.Insert(request.id, {.request = request, .arrived = now});
  Living& living = living_[slot];
  if (sampler_.OnArrival(request.id, request.prompt_tokens, now) && !free_rows_.empty()) {
    living.row = free_rows_.back();
    free_rows_.pop_back();
    prompts_[static_cast<std::size_t>(living.row)] = std::max(request.prompt_tokens.value, 1);
    arrived_[static_cast<std::size_t>(living.row)] = now;
    for (int m = 0; std::cmp_less(m, models()); ++m) OutputOf(living, m) = -1, ScoreOf(living, m) = kUnscored;
  }
  SendOn(slot, action.model, now);
  living.request.prefix.hashes = {};
  living.request.scores = {};
  return true;
}

bool Cascadia::OnAnswered(RequestId request, int model, Tokens output, TimePoint now) {
  const Slot slot = living_.Find(request);
  if (slot == kNoSlot) return Ignore();
  const bool replied = cascade_.ModelOf(request) < 0;
  CascadeAction action;
  if (replied) {
    if (living_[slot].model != model || living_[slot].judging) return Ignore();
  } else if (action = cascade_.OnAnswered(request, model, now); action.kind == CascadeAction::kNone) {
    return Ignore();
  }
  routers_[static_cast<std::size_t>(model)].On(RequestEnded{request, {}}, now);
  NoteAnswer(living_[slot], model, output);
  if (replied) Advance(slot, now);
  else Act(action, now);
  return true;
}

bool Cascadia::OnJudged(RequestId request, int model, double score, TimePoint now) {
  const Slot slot = living_.Find(request);
  if (slot == kNoSlot || model < 0 || std::cmp_greater_equal(model, models())) return Ignore();
  if (cascade_.ModelOf(request) >= 0) {
    const CascadeAction action = cascade_.OnJudged(request, model, score, now);
    if (action.kind == CascadeAction::kNone) return Ignore();
    NoteScore(living_[slot], model, score);
    Act(action, now);
    return true;
  }
  if (living_[slot].model != model || !living_[slot].judging) return Ignore();
  NoteScore(living_[slot], model, score);
  if (std::isfinite(score)) Advance(slot, now);
  else Forget(slot);
  return true;
}

bool Cascadia::OnFailed(RequestId request, int model, TimePoint now) {
  const Slot slot = living_.Find(request);
  if (slot == kNoSlot) return Ignore();
  CascadeAction action;
  if (cascade_.ModelOf(request) < 0) {
    if (living_[slot].model != model || living_[slot].judging) return Ignore();
  } else if (action = cascade_.OnFailed(request, model); action.kind == CascadeAction::kNone) {
    return Ignore();
  }
  routers_[static_cast<std::size_t>(model)].On(RequestEnded{.request = request, .instance = {}, .failed = true}, now);
  FreeRow(living_[slot]);
  if (action.kind == CascadeAction::kNone) Forget(slot);
  else Act(action, now);
  return true;
}

bool Cascadia::OnCancelled(RequestId request, TimePoint now) {
  const int model = cascade_.ModelOf(request);
  if (model < 0) return Ignore();
  cascade_.OnCancelled(request);
  routers_[static_cast<std::size_t>(model)].On(Cancelled{request}, now);
  Forget(living_.Find(request));
  return true;
}

std::vector<CascadiaReplica>::iterator Cascadia::Find(InstanceId replica) {
  return std::ranges::find(replicas_, replica, &CascadiaReplica::id);
}

InstanceId Cascadia::Start(int model, std::size_t shape, double rate) {
  const InstanceId id{++last_instance_};
  replicas_.push_back({id, model, shape, rate});
  actions_.push_back({CascadiaAction::kStart, model, {}, id, shape});
  return id;
}

bool Cascadia::OnReplicaUp(InstanceId replica, TimePoint now) {
  const auto at = Find(replica);
  if (at == replicas_.end() || at->state != CascadiaReplica::kStarting) return Ignore();
  at->state = CascadiaReplica::kUp;
  routers_[static_cast<std::size_t>(at->model)].On(InstanceUp{{.id = replica}}, now);
  if (awaited_ == replica) awaited_ = {};
  Continue(now);
  return true;
}

bool Cascadia::OnReplicaDown(InstanceId replica, TimePoint now) {
  const auto at = Find(replica);
  if (at == replicas_.end()) return Ignore();
  const CascadiaReplica lost = *at;
  replicas_.erase(at);
  if (lost.state != CascadiaReplica::kStarting) {
    routers_[static_cast<std::size_t>(lost.model)].On(InstanceDown{replica}, now);
  }
  const bool awaited = awaited_ == replica;
  if (lost.state == CascadiaReplica::kStopping) {
    if (awaited) awaited_ = {};
    Continue(now);
    return true;
  }
  ++stats_.replicas_lost;
  const InstanceId again = Start(lost.model, lost.shape, lost.rate);
  if (awaited) awaited_ = again;
  return true;
}

// Begins the next step of the change, or ends it.
void Cascadia::Continue(TimePoint now) {
  while (step_ < change_.steps.size() && !awaited_) {
    const RolloutStep& step = change_.steps[step_++];
    const auto kind = static_cast<std::size_t>(step.replicas);
    const int model = change_.kinds[kind].model;
    if (step.start) {
      awaited_ = Start(model, change_.shapes[kind], change_.kinds[kind].rate);
      return;
    }
    const auto at = std::ranges::find_if(replicas_, [&](const CascadiaReplica& r) {
      return r.model == model && r.shape == change_.shapes[kind] && r.state != CascadiaReplica::kStopping;
    });
    if (at == replicas_.end()) continue;
    if (at->state == CascadiaReplica::kUp) {  // no new requests
      routers_[static_cast<std::size_t>(model)].On(InstanceUp{{.id = at->id, .capacity = 0}}, now);
    }
    at->state = CascadiaReplica::kStopping;
    awaited_ = at->id;
    actions_.push_back({CascadiaAction::kStop, model, {}, at->id, at->shape});
  }
  if (!changing() && !change_.steps.empty()) Finish(now);
}

// All replicas of the plan serve: its thresholds take effect. A model without replicas passes its requests on.
void Cascadia::Finish(TimePoint now) {
  change_ = {};
  step_ = 0;
  (void)cascade_.Replan(StagesOf(plan_));  // a plan has a stage for each model
  for (Slot slot = 0; slot < living_.slots(); ++slot) {
    const RequestId id = living_[slot].request.id;
    if (!id) continue;
    const int model = cascade_.ModelOf(id);
    if (serves(model < 0 ? living_[slot].model : model)) continue;
    if (model < 0) {
      EndProbe(slot, now);
    } else if (routers_[static_cast<std::size_t>(model)].Find(id) != nullptr) {
      routers_[static_cast<std::size_t>(model)].On(Cancelled{id}, now);
      Act(cascade_.OnFailed(id, model), now);
    }
  }
}

std::span<const CascadiaAction> Cascadia::Next(TimePoint now) {
  for (const CascadeAction& action : cascade_.Expire(now)) Act(action, now);
  for (std::size_t m = 0; m < models(); ++m) {
    for (const Placement& p : routers_[m].Place(now)) {
      actions_.push_back({CascadiaAction::kServe, static_cast<int>(m), p.request, p.instance});
    }
    failed_.clear();
    for (const Failure& failure : routers_[m].failed()) failed_.push_back(failure.request);
    for (const RequestId id : failed_) OnFailed(id, static_cast<int>(m), now);
  }
  given_.swap(actions_);
  actions_.clear();
  return given_;
}

TimePoint Cascadia::wake_at() const {
  TimePoint at = std::min(cascade_.wake_at(), sampler_.wake_at());
  for (const Router& router : routers_) at = std::min(at, router.wake_at());
  return at;
}

bool Cascadia::HasWork(TimePoint now) const { return !under_way_ && (plan_due() || sampler_.Ready(now)); }

void Cascadia::FreeOldRows() {
  std::erase_if(complete_, [this](std::int32_t row) {
    const bool old = arrived_[static_cast<std::size_t>(row)] < since_;
    if (old) free_rows_.push_back(row);
    return old;
  });
}

CascadiaWork Cascadia::TakeWork(TimePoint now) {
  CascadiaWork work{.options = options_, .generation = generation_};
  under_way_ = true;
  taken_generation_ = generation_;
  if (!plan_due()) {
    const TimePoint begin = Before(sampler_.wake_at(), options_->drift.period);
    if (!wants_plan_) since_ = begin;
    FreeOldRows();
    for (Slot slot = 0; slot < living_.slots(); ++slot) {  // models or judges that never answered
      const Living& living = living_[slot];
      const bool probe = living.request.id && cascade_.ModelOf(living.request.id) < 0;
      if (probe && living.arrived < Before(begin, options_->drift.period)) EndProbe(slot, now);
    }
    work.monitor = monitor_;
    work.window = sampler_.Take(now);
    return work;
  }
  if (!first_) {
    sample_.clear();
    for (const std::int32_t row : complete_) {
      const std::size_t at = static_cast<std::size_t>(row) * models();
      CascadeSample& sample = sample_.emplace_back();
      sample.prompt = prompts_[static_cast<std::size_t>(row)];
      for (std::size_t m = 0; m < models(); ++m) {
        sample.outputs.push_back(std::max(outputs_[at + m], 1));
        sample.scores.push_back(scores_[at + m]);
      }
      free_rows_.push_back(row);
    }
    complete_.clear();
  }
  work.problem = {.models = options_->models,
                  .sample = sample_,
                  .rate = rate_,
                  .gpus = options_->gpus,
                  .judge_s = options_->judge_s};
  work.replicas = replicas_;
  return work;
}

absl::StatusOr<CascadiaResult> Cascadia::Do(const CascadiaWork& work, const ParallelFor& parallel) {
  CascadiaResult result;
  if (work.monitor) {
    result.monitor = work.monitor;
    result.report = result.monitor->Add(work.window);
    result.generation = work.generation;
    return result;
  }
  const CascadiaOptions& options = *work.options;
  const absl::StatusOr<CascadePlanner> planner = CascadePlanner::Create(work.problem, options.plan, parallel);
  if (!planner.ok()) return planner.status();
  absl::StatusOr<CascadePlan> plan =
      options.alternate > 0 ? planner->Alternate(options.goal, 0, options.alternate) : planner->Plan(options.goal);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<CascadiaResult> change = ChangeTo(*std::move(plan), options, work.replicas);
  if (change.ok()) change->generation = work.generation;
  return change;
}

absl::StatusOr<CascadiaResult> Cascadia::ChangeTo(CascadePlan plan, const CascadiaOptions& options,
                                                  std::span<const CascadiaReplica> replicas) {
  if (plan.models.size() != options.models.size()) {
    return absl::InvalidArgumentError("plan: " + std::to_string(plan.models.size()) + " models; expected " +
                                      std::to_string(options.models.size()));
  }
  CascadiaResult result{.plan = std::move(plan)};
  if (absl::Status status = PlanChange(options, replicas, result); !status.ok()) return status;
  return result;
}

void Cascadia::Apply(CascadiaResult result, TimePoint now) {
  under_way_ = false;
  if (result.generation >= 0 && result.generation != generation_) return;  // Load has replaced this change's plan
  if (result.monitor) {
    monitor_ = *std::move(result.monitor);
    ++stats_.windows;
    if (!result.report.drifted || plan_.models.empty()) return;
    ++stats_.drifts;
    wants_plan_ = true;
    drift_ = std::move(result.report);
    rate_ = drift_.recent.rate();
    return;
  }
  if (result.plan.models.size() != models()) return;
  // A change to another plan may have begun since. The current plan stays if no order of changes is found.
  if (!BeginsWith(result, replicas_)) {
    absl::StatusOr<CascadiaResult> anew = ChangeTo(std::move(result.plan), *options_, replicas_);
    if (!anew.ok()) {
      wants_plan_ = false;
      return;
    }
    result = *std::move(anew);
  }
  ++stats_.plans;
  if (!std::exchange(first_, false)) monitor_.Rebase(drift_.recent);
  wants_plan_ = false;
  plan_ = result.plan;
  change_ = std::move(result);
  step_ = 0;
  if (change_.steps.empty() || replicas_.empty()) {  // all at once: there is nothing to keep
    for (const RolloutStep& step : change_.steps) {
      const auto kind = static_cast<std::size_t>(step.replicas);
      Start(change_.kinds[kind].model, change_.shapes[kind], change_.kinds[kind].rate);
    }
    return Finish(now);
  }
  Continue(now);
}

void Cascadia::GiveUp() {
  under_way_ = false;
  if (taken_generation_ != generation_) return;  // Load wants another plan
  wants_plan_ = false;
  if (!first_) monitor_.Rebase(drift_.recent);
}

std::string Cascadia::Save() const {
  internal::Packer out(kCascadiaMagic, kCascadiaVersion);
  out.Put(static_cast<std::uint64_t>(models()));
  out.Put(rate_);
  out.Put(static_cast<std::uint64_t>(sample_.size()));
  for (const CascadeSample& sample : sample_) {
    out.Put(sample.prompt);
    for (const std::int32_t output : sample.outputs) out.Put(output);
    for (const double score : sample.scores) out.Put(score);
  }
  WorkloadSample reference = monitor_.reference();
  reference.scores.resize(models());
  PutSample(out, reference);
  return out.Take();
}

absl::Status Cascadia::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kCascadiaMagic, kCascadiaVersion, "a file of Cascadia");
  if (!in.ok()) return in.status();
  if (const auto found = in->Get<std::uint64_t>(); found != models()) {
    return absl::InvalidArgumentError("a file of Cascadia for " + std::to_string(found) + " models; expected " +
                                      std::to_string(models()));
  }
  const auto rate = in->Get<double>();
  std::vector<CascadeSample> read;
  for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) {
    CascadeSample& sample = read.emplace_back();
    sample.prompt = in->Get<std::int32_t>();
    for (std::size_t m = 0; m < models(); ++m) sample.outputs.push_back(in->Get<std::int32_t>());
    for (std::size_t m = 0; m < models(); ++m) sample.scores.push_back(in->Get<double>());
  }
  WorkloadSample reference;
  reference.scores.resize(models());
  const bool valid = GetSample(*in, reference) && in->done();
  const CascadeProblem problem{.models = options_->models, .sample = read, .rate = rate, .gpus = options_->gpus};
  if (!valid || !problem.Validate().ok()) {
    return absl::DataLossError("the file of Cascadia is damaged: values in it do not match");
  }
  sample_ = std::move(read);
  rate_ = rate;
  monitor_.Rebase(std::move(reference));
  wants_plan_ = first_ = true;
  ++generation_;
  return absl::OkStatus();
}

}  // namespace takt::systems
