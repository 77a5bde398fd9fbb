#include "lab/operators/engine.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>

#include "takt/base/random.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/scheduler.h"

namespace takt::tool {
namespace {

constexpr double kStepNoise = 0.05;

class OperatorEngine {
 public:
  OperatorEngine(const std::vector<OperatorCall>& calls, const std::vector<ServiceClass>& classes,
                 const OperatorSystem& system, const CostModel& cost, std::uint64_t seed, Scheduler scheduler)
      : calls_(calls),
        classes_(classes),
        system_(system),
        cost_(cost),
        noise_(seed),
        scheduler_(std::move(scheduler)),
        left_(calls.size()) {
    run_.records.resize(calls.size());
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      left_[i] = calls[i].output;
      tenants_ = std::max(tenants_, calls[i].tenant + 1);
      coming_.push({calls[i].at, i});
    }
    run_.tenant_tokens.resize(tenants_);
  }

  OperatorRun Serve(double until, double from, double to) {
    while (now_ < until && (!coming_.empty() || scheduler_.alive() > 0)) {
      while (!coming_.empty() && coming_.top().first <= now_) Arrive();
      if (!Step(from, to)) {
        double next = coming_.empty() ? until : coming_.top().first;
        next = std::clamp(std::min(next, ToSeconds(wake_at_)), now_, until);
        if (scheduler_.waiting() > 0) run_.idle_s += next - now_;
        if (next <= now_ && coming_.empty()) break;
        now_ = next;
      }
    }
    run_.seconds = now_;
    run_.preempted = scheduler_.stats().preempted_recompute;
    run_.recomputed = scheduler_.stats().tokens_recomputed;
    return std::move(run_);
  }

 private:
  TimePoint Now() const { return TimePoint(FromSeconds(now_)); }

  void Arrive() {
    const auto [at, i] = coming_.top();
    coming_.pop();
    const OperatorCall& call = calls_[i];
    const ServiceClass& kind = classes_[call.kind];
    ids_.push_back(i);
    Request r{.id = {ids_.size()}, .tenant = {call.tenant}, .prompt_tokens = {call.prompt}};
    r.priority = kind.priority;
    r.max_output_tokens = {4 * call.output};
    r.output_tokens = call.known;
    if (kind.first_token > 0) {
      r.first_token_by = TimePoint(FromSeconds(call.at + kind.first_token));
      r.deadline = r.first_token_by;
    }
    if (system_.paces && kind.pace > 0) r.token_pace = FromSeconds(kind.pace);
    ++run_.records[i].tries;
    scheduler_.On(Arrived{r}, TimePoint(FromSeconds(at)));
  }

  void Refused(const Failure& f) {
    const std::uint32_t i = ids_[f.request.value - 1];
    OperatorRecord& record = run_.records[i];
    if (record.tries >= system_.most_tries) return;
    record.returned = true;
    coming_.push({now_ + (f.retry_after_ms > 0 ? 1e-3 * static_cast<double>(f.retry_after_ms) : 1), i});
  }

  bool Step(double from, double to) {
    StepLimits limits = system_.limits;
    if (system_.prefill) {
      limits.prefill_tokens = {system_.prefill({.running = scheduler_.running(),
                                                .waiting = scheduler_.waiting(),
                                                .decodes = decodes_,
                                                .prompts = prompts_})};
    }
    const StepPlan& plan = scheduler_.Plan(Now(), limits);
    wake_at_ = plan.wake_at;
    for (const Failure& f : plan.failed) Refused(f);
    if (plan.run.empty()) return false;
    StepLoad load;
    double target = 0;
    bool paced = false;
    rows_.clear();
    decodes_ = prompts_ = 0;
    for (const PlanEntry& e : plan.run) {
      const std::uint32_t i = ids_[e.request.value - 1];
      const double pace = classes_[calls_[i].kind].pace;
      OperatorRecord& record = run_.records[i];
      if (record.first_step < 0) {
        record.first_step = now_;
        record.took = record.tries == 2;
      }
      if (e.prefill()) {
        load.AddPrefill(e.tokens, e.position, e.samples());
        ++prompts_;
      } else {
        load.AddDecode(e.position + e.tokens);
        ++decodes_;
        if (pace > 0 && (!paced || pace < target)) paced = true, target = pace;
      }
      if (now_ >= from && now_ < to) run_.tenant_tokens[calls_[i].tenant] += e.tokens;
      RowResult row{.request = e.request, .lane = e.lane, .tokens = static_cast<std::uint16_t>(e.samples() ? 1 : 0)};
      if (e.samples() && --left_[i] <= 0) row.flags = RowResult::kFinished;
      rows_.push_back(row);
    }
    const double took = ToSeconds(cost_.StepTime(load)) * (1 + kStepNoise * (2 * noise_.Uniform() - 1));
    now_ += std::max(took, 1e-4);
    ++run_.steps;
    if (paced && load.prefill_tokens > 0) {
      ++run_.paced;
      run_.late += took > target ? 1 : 0;
    }
    for (const PlanEntry& e : plan.run) {
      OperatorRecord& record = run_.records[ids_[e.request.value - 1]];
      if (!e.samples()) continue;
      if (record.first_token < 0) record.first_token = now_;
      if (left_[ids_[e.request.value - 1]] <= 0) record.end = now_;
    }
    scheduler_.Commit({.step = plan.id, .rows = rows_}, Now());
    return true;
  }

  using Coming = std::pair<double, std::uint32_t>;

  const std::vector<OperatorCall>& calls_;
  const std::vector<ServiceClass>& classes_;
  const OperatorSystem& system_;
  const CostModel& cost_;
  Random noise_;
  Scheduler scheduler_;
  OperatorRun run_;
  std::vector<std::int32_t> left_;  // output tokens, by call
  std::vector<std::uint32_t> ids_;  // call of each request id - 1
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  std::vector<RowResult> rows_;
  std::uint64_t tenants_ = 0;
  std::int64_t decodes_ = 0, prompts_ = 0;  // rows of the last step
  double now_ = 0;
  TimePoint wake_at_ = kNever;
};

}  // namespace

absl::StatusOr<OperatorRun> Serve(const std::vector<OperatorCall>& calls, const std::vector<ServiceClass>& classes,
                                  const OperatorSystem& system, const CostModel& cost, std::uint64_t seed, double until,
                                  double from, double to) {
  absl::StatusOr<AnyPolicy> policy = MakePolicy(system.policy);
  if (!policy.ok()) return policy.status();
  absl::StatusOr<Scheduler> scheduler = Scheduler::Create(system.options, *std::move(policy));
  if (!scheduler.ok()) return scheduler.status();
  return OperatorEngine(calls, classes, system, cost, seed, *std::move(scheduler)).Serve(until, from, to);
}

}  // namespace takt::tool
