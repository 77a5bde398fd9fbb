#include "lab/chimera/assignment.h"

#include <algorithm>
#include <cmath>

#include "takt/base/time.h"

namespace takt::tool {
namespace {

constexpr double kOvertaken = 0.5;  // chosen: share of waiting requests that are behind a newcomer under STJF

}  // namespace

StepLoad Assignment::DecodesOf(const State& state, double context) {
  StepLoad load;
  load.decodes = load.samples = std::lround(state.running);
  load.decode_context = static_cast<std::int64_t>(static_cast<double>(load.decodes) * context);
  return load;
}

Assignment::Assignment(const Workload& workload, const ReplayOptions& options, std::span<const float> scores)
    : workload_(workload), rate_scale_(options.cluster.rate_scale), scores_(scores) {
  for (const Profile& profile : options.engines) {
    engines_.push_back({workload.ModelIndex(profile.model), PreparedCostModel(profile.cost, 1 << 13, 256)});
    Engine& engine = engines_.back();
    double sum = 0;
    for (std::size_t c = 0; c < workload.calls.size(); ++c) {
      sum += workload.calls[c].prompt_tokens + 0.5 * workload.OutputOf(static_cast<std::uint32_t>(c), engine.model);
    }
    engine.context = sum / static_cast<double>(workload.calls.size());
  }
}

Assignment::State Assignment::At(const Engine& engine, std::size_t second) const {
  if (second < engine.seconds.size() && engine.seconds[second].step_s > 0) return engine.seconds[second];
  StepLoad load;
  load.AddDecode(static_cast<std::int64_t>(engine.context));
  return {ToSeconds(engine.cost.StepTime(load)), 0, 0};
}

double Assignment::CostOf(const WorkloadWorkflow& workflow, const Engine& engine) const {
  double time = ToSeconds(workflow.arrival.time_since_epoch()) / rate_scale_;
  const double arrival = time;
  double others = 0;
  std::int32_t written = 0, usual = 0;
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    const WorkloadCall& call = workload_.calls[c];
    const std::int32_t output = workload_.OutputOf(c, engine.model);
    std::int64_t context = call.prompt_tokens + written - usual;
    const State begin = At(engine, static_cast<std::size_t>(time));
    // The step that computes the prompt delays all running requests by this much.
    StepLoad load = DecodesOf(begin, engine.context);
    const double without = ToSeconds(engine.cost.StepTime(load));
    load.AddPrefill(context, 0, true);
    const double prefill = ToSeconds(engine.cost.StepTime(load));
    time += prefill;
    others += (prefill - without) * (begin.running + kOvertaken * begin.waiting);
    // Each later token lengthens a step by the cost of one more sequence.
    double left = output - 1;
    while (left > 0) {
      const auto second = static_cast<std::size_t>(time);
      const State s = At(engine, second);
      const double until = std::max(static_cast<double>(second) + 1 - time, s.step_s);
      const double tokens = std::min(left, until / s.step_s);
      StepLoad with = DecodesOf(s, engine.context);
      const double before = ToSeconds(engine.cost.StepTime(with));
      with.AddDecode(context);
      const double more = before > 0 ? ToSeconds(engine.cost.StepTime(with)) - before : 0;
      // If others wait, it also occupies a place that one of them would have: its share of the step.
      const double place = s.waiting > 0 ? s.step_s / std::max(s.running, 1.0) : 0;
      others += tokens * (more * s.running + kOvertaken * s.waiting * place);
      time += tokens * s.step_s;
      context += static_cast<std::int64_t>(tokens);
      left -= tokens;
    }
    written += output;
    usual += call.output_tokens;
  }
  return time - arrival + others;
}

std::vector<std::uint32_t> Assignment::Choose(double price) const {
  std::vector<std::uint32_t> chosen;
  const std::size_t models = workload_.models.size();
  for (std::size_t i = 0; i < workload_.workflows.size(); ++i) {
    const WorkloadWorkflow& workflow = workload_.workflows[i];
    std::uint32_t best = 0;
    double most = 0;
    for (std::uint32_t e = 0; e < engines_.size(); ++e) {
      double value = 100 * static_cast<double>(scores_[i * models + engines_[e].model]);
      if (price > 0) {
        double tokens = 0;
        for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
          tokens += workload_.OutputOf(c, engines_[e].model);
        }
        // Mean latency over mean tokens: more generated tokens reduce the weight of latency.
        value -= price * 1e3 * (CostOf(workflow, engines_[e]) - per_token_s_ * tokens) / mean_tokens_;
      }
      if (e == 0 || value > most) best = e, most = value;
    }
    chosen.push_back(best);
  }
  return chosen;
}

void Assignment::Saw(const VirtualStep& step) {
  std::vector<Second>& seconds = engines_[step.instance].now;
  const auto at = static_cast<std::size_t>(ToSeconds(step.start.time_since_epoch()));
  if (at >= seconds.size()) seconds.resize(at + 1);
  const double duration = ToSeconds(step.end - step.start);
  Second& s = seconds[at];
  s.steps += 1;
  s.busy += duration;
  s.running += duration * static_cast<double>(step.plan.run.size());
  s.waiting += duration * static_cast<double>(step.waiting);
}

void Assignment::Learn(const ReplayResult& result) {
  ++rounds_;
  const double weight = 1.0 / rounds_;
  for (Engine& engine : engines_) {
    const std::size_t old = engine.seconds.size();
    engine.seconds.resize(std::max(old, engine.now.size()));
    for (std::size_t i = 0; i < engine.seconds.size(); ++i) {
      State& average = engine.seconds[i];
      if (average.step_s <= 0) average.step_s = At(engine, engine.seconds.size()).step_s;  // idle until now
      State here = At(engine, engine.seconds.size());
      if (i < engine.now.size() && engine.now[i].steps > 0) {
        const Second& s = engine.now[i];
        here = {s.busy / s.steps, s.running / s.busy, s.waiting / s.busy};
      }
      average.step_s += weight * (here.step_s - average.step_s);
      average.running += weight * (here.running - average.running);
      average.waiting += weight * (here.waiting - average.waiting);
    }
    engine.now.clear();
  }
  mean_tokens_ = static_cast<double>(result.metrics.output_tokens) / static_cast<double>(workload_.workflows.size());
  per_token_s_ = result.metrics.workflow.mean / mean_tokens_;
}

}  // namespace takt::tool
