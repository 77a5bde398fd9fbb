#include "trace_run.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/sim/workload_progress.h"

namespace serving {
namespace {

using takt::Outcome;
using takt::TimePoint;

constexpr takt::Duration kLongestSleep = std::chrono::milliseconds(20);  // longest time between calls of `progress`

std::vector<std::int32_t> RandomTokens(std::uint64_t seed, std::size_t n, std::size_t vocab) {
  takt::Random random(seed);
  std::vector<std::int32_t> tokens(n);
  for (std::int32_t& t : tokens) t = static_cast<std::int32_t>(random.Below(vocab));
  return tokens;
}

// Returns the processor time of this thread.
takt::Duration ProcessorTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + takt::Duration(time.tv_nsec);
}

// Time since Start.
class RunClock {
 public:
  explicit RunClock(bool processor_time) : processor_time_(processor_time) {}

  void Start() { start_ = Read(); }
  TimePoint Now() const { return TimePoint(Read() - start_ + skipped_); }
  void SleepUntil(TimePoint wake) {
    if (processor_time_) skipped_ += std::max(wake - Now(), takt::Duration(0));
    else std::this_thread::sleep_for(std::min(wake - Now(), kLongestSleep));
  }

 private:
  takt::Duration Read() const {
    return processor_time_ ? ProcessorTime() : std::chrono::steady_clock::now().time_since_epoch();
  }

  bool processor_time_;
  takt::Duration start_ = Read(), skipped_{0};
};

class TraceRun {
 public:
  TraceRun(const ServedModel& model, const takt::Workload& workload, const TraceOptions& options)
      : model_(model),
        workload_(workload),
        options_(options),
        progress_(workload, options.estimates, options.seed, result_.requests),
        computed_(workload.calls.size()),
        clock_(options.processor_time) {}

  absl::StatusOr<TraceResult> Run();

 private:
  struct Due {
    TimePoint time;
    std::uint32_t call = 0;
    friend bool operator>(const Due& a, const Due& b) { return a.time > b.time; }
  };

  TimePoint Now() const { return clock_.Now(); }
  TimePoint NextArrival() const;
  void StartWorkflow(TimePoint at) {
    progress_.Start(next_workflow_++, at, [&](std::uint32_t call) { Ready(call, at); });
  }
  void Ready(std::uint32_t call, TimePoint at) { due_.push({at + workload_.calls[call].delay, call}); }
  void Submit(const Due& due);
  std::vector<std::int32_t> Prompt(std::uint32_t call) const;
  void Hear(const Output& output);
  void End(std::uint32_t call, Outcome outcome, takt::FailReason reason);
  void ReportTurnEnded(std::uint32_t call);
  takt::SessionFigures Sessions() const;
  void OnStep(const StepReport& report);
  void Sample();

  struct Spoken {
    std::vector<std::int32_t> prompt, output;
    std::vector<ToolCall> tools;
  };

  const ServedModel& model_;
  const takt::Workload& workload_;
  const TraceOptions& options_;
  takt::ReplayResult result_;
  takt::WorkloadProgress progress_;
  std::vector<std::int32_t> computed_;  // by call: tokens whose KV was computed at least once
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;  // calls to make
  std::uint32_t next_workflow_ = 0;
  RunClock clock_;
  std::vector<takt::Event> ended_;  // ended turns and workflows to report
  TimePoint busy_since_ = {};  // end of the last step, or of a later wait
  std::unordered_map<std::uint32_t, Spoken> spoken_;  // if on_tokens is set
  std::unique_ptr<Engine> engine_;
  takt::Series series_;
  takt::TimeMean kv_used_;
};

absl::StatusOr<TraceResult> TraceRun::Run() {
  EngineOptions engine = options_.engine;
  if (options_.processor_time && (engine.threads > 1 || engine.overlap)) {
    return absl::InvalidArgumentError("processor_time: is invalid with several threads or overlap");
  }
  engine.clock = [this] { return Now(); };
  engine.output = [this](const Output& output) { Hear(output); };
  engine.on_step = [this](const StepReport& report) { OnStep(report); };
  auto made = Engine::Create(model_, std::move(engine));
  if (!made.ok()) return made.status();
  engine_ = *std::move(made);

  clock_.Start();
  const auto workflows = static_cast<std::int64_t>(workload_.workflows.size());
  for (std::int64_t i = 0; i < std::min(options_.closed_loop, workflows); ++i) StartWorkflow({});
  while (!progress_.over()) {
    double share = static_cast<double>(progress_.calls_over()) / static_cast<double>(workload_.calls.size());
    if (options_.horizon > takt::Duration{0}) {
      if (Now() >= TimePoint(options_.horizon)) break;
      share = std::max(share, takt::ToSeconds(Now()) / takt::ToSeconds(options_.horizon));
    }
    if (options_.progress && !options_.progress(share)) {
      result_.stopped = true;
      break;
    }
    // Arrivals during a step are reported late; their wait until now counts.
    while (NextArrival() <= Now()) StartWorkflow(NextArrival());
    while (!due_.empty() && due_.top().time <= Now()) {
      const Due due = due_.top();
      due_.pop();
      Submit(due);
    }
    for (const takt::Event& ended : std::exchange(ended_, {})) engine_->On(ended);
    if (engine_->Step()) continue;
    const TimePoint wake = std::min({engine_->wake_at(), NextArrival(), due_.empty() ? takt::kNever : due_.top().time});
    if (wake == takt::kNever && !progress_.over()) {
      return absl::InternalError("the run has stalled: " + std::string(takt::Name(engine_->idle())));
    }
    clock_.SleepUntil(wake);
    busy_since_ = Now();
  }

  while (!result_.stopped && progress_.over() && !engine_->empty()) engine_->Step();  // applies the last releases
  Sample();
  const takt::Scheduler& scheduler = engine_->scheduler();
  TraceResult traced{.counters = engine_->counters(),
                     .cut_running = scheduler.running(),
                     .cut_waiting = scheduler.alive() - scheduler.running()};
  if (options_.horizon > takt::Duration{0}) result_.window = takt::Window{TimePoint(options_.warm_up), Now()};
  result_.metrics = takt::Summarize(result_.requests, progress_.workflows(), {}, options_.slo, result_.window);
  if (!workload_.prefix_runs.empty()) result_.metrics.sessions = Sessions();
  result_.kv_blocks = scheduler.kv().total.value;
  result_.metrics.kv_mean = kv_used_.mean() / static_cast<double>(result_.kv_blocks);
  result_.metrics.kv_peak = kv_used_.peak() / static_cast<double>(result_.kv_blocks);
  result_.estimates = progress_.estimator().errors();
  result_.workflows = progress_.workflows();
  result_.series = series_.points();
  result_.stats = scheduler.stats();
  result_.steps = engine_->counters().steps;
  traced.result = std::move(result_);
  return traced;
}

TimePoint TraceRun::NextArrival() const {
  if (options_.closed_loop > 0 || next_workflow_ == workload_.workflows.size()) return takt::kNever;
  const TimePoint arrival = workload_.workflows[next_workflow_].arrival;
  return TimePoint(takt::FromSeconds(takt::ToSeconds(arrival) / options_.rate_scale));
}

void TraceRun::Submit(const Due& due) {
  const takt::WorkloadCall& call = workload_.calls[due.call];
  const std::size_t vocab = model_.vocab();
  EngineRequest request{
      .about = progress_.Make(due.call, due.time), .prompt = Prompt(due.call), .max_output_tokens = call.output_tokens};
  std::int32_t generated = 0;
  for (std::uint32_t t = call.first_tool; t < call.first_tool + call.tools; ++t) {
    const takt::WorkloadTool& tool = workload_.tools[t];
    const takt::NextCall expected = progress_.estimator().Tool(t, generated);
    if (t == call.first_tool) request.about.next_call = expected;
    generated = tool.after_tokens;
    request.tools.push_back({tool.after_tokens, tool.duration,
                             RandomTokens(takt::Mix64(options_.seed ^ (std::uint64_t{t} << 32)),
                                          static_cast<std::size_t>(tool.returned_tokens), vocab),
                             expected});
  }
  if (options_.on_tokens) spoken_[due.call] = {request.prompt, {}, request.tools};
  if (!engine_->Submit(std::move(request)).ok()) End(due.call, Outcome::kFailed, takt::FailReason::kNeverFits);
}

// Returns a prompt: tokens derived from its prefix hashes (equal for equal hashes), then tokens of its own.
std::vector<std::int32_t> TraceRun::Prompt(std::uint32_t index) const {
  const takt::WorkloadCall& call = workload_.calls[index];
  const auto length = static_cast<std::size_t>(call.prompt_tokens);
  std::vector<std::int32_t> prompt;
  prompt.reserve(length);
  const auto add = [&](std::uint64_t seed, std::size_t most) {
    const auto tokens = RandomTokens(seed, std::min(most, length - prompt.size()), model_.vocab());
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  };
  std::vector<std::uint64_t> made;
  for (const std::uint64_t hash : workload_.PrefixOf(result_.requests[index].workflow, call, made)) {
    add(hash, static_cast<std::size_t>(workload_.prefix_block_tokens));
  }
  add(takt::Mix64(options_.seed + index), length);
  return prompt;
}

void TraceRun::Hear(const Output& output) {
  const std::uint32_t call = takt::VirtualRequests::IndexOf(output.request);
  takt::RequestRecord& record = result_.requests[call];
  if (output.token >= 0) {
    if (record.output_tokens++ == 0) record.first_token = Now();
    if (options_.on_tokens) spoken_[call].output.push_back(output.token);
  }
  if (output.end == serving::End::kNotYet) return;
  const bool failed = output.end == serving::End::kFailed;
  if (const auto spoken = spoken_.find(call); spoken != spoken_.end()) {
    const Spoken& s = spoken->second;
    if (!failed) options_.on_tokens({call, s.prompt, s.output, s.tools});
    spoken_.erase(spoken);
  }
  End(call, failed ? Outcome::kFailed : Outcome::kCompleted, output.reason);
}

void TraceRun::End(std::uint32_t call, Outcome outcome, takt::FailReason reason) {
  const takt::WorkloadCall& c = workload_.calls[call];
  if (outcome == Outcome::kCompleted) {
    std::int32_t generated = 0;
    for (std::uint32_t t = c.first_tool; t < c.first_tool + c.tools; ++t) {
      progress_.estimator().ToolEnded(t, generated);
      generated = workload_.tools[t].after_tokens;
    }
  }
  const TimePoint now = Now();
  if (!options_.engine.retention.empty()) ReportTurnEnded(call);
  const bool last = progress_.End(call, outcome, reason, now, [&](std::uint32_t next) { Ready(next, now); });
  if (last && !options_.engine.retention.empty()) {
    ended_.push_back(takt::WorkflowEnded{takt::WorkloadProgress::IdOf(result_.requests[call].workflow)});
  }
  if (last && options_.closed_loop > 0 && next_workflow_ < workload_.workflows.size()) StartWorkflow(now);
}

// Reports the end of a turn, and the reason for which its branch waits, before the next step: callbacks must not call
// the engine.
void TraceRun::ReportTurnEnded(std::uint32_t index) {
  const takt::WorkloadCall& call = workload_.calls[index];
  const std::uint32_t of = result_.requests[index].workflow;
  const takt::WorkloadWorkflow& workflow = workload_.workflows[of];
  const auto later = workload_.calls_of(workflow).subspan(index - workflow.first_call + 1);
  const bool more = std::ranges::find(later, call.branch, &takt::WorkloadCall::branch) != later.end();
  const takt::TurnWhy why = !more                               ? takt::TurnWhy::kOver
                            : call.then == takt::TurnEnd::kTool ? takt::TurnWhy::kTool
                            : call.then == takt::TurnEnd::kUser ? takt::TurnWhy::kUser
                                                                : takt::TurnWhy::kUnknown;
  ended_.push_back(takt::TurnEnded{takt::WorkloadProgress::IdOf(of), call.branch, why});
}

takt::SessionFigures TraceRun::Sessions() const {
  const takt::Window window = result_.window.value_or(takt::Window{TimePoint{}, takt::kNever});
  takt::SessionFigures figures;
  std::int64_t tokens = 0, cached = 0;
  for (std::size_t i = 0; i < result_.requests.size(); ++i) {
    const takt::RequestRecord& r = result_.requests[i];
    figures.turns += r.outcome == Outcome::kCompleted && window.contains(r.end) ? 1 : 0;
    if (r.first_step == takt::kNever || !window.contains(r.first_step)) continue;
    tokens += workload_.calls[i].prompt_tokens;
    cached += r.cached_tokens;
  }
  for (const takt::WorkflowRecord& w : progress_.workflows())
    figures.sessions += w.outcome == Outcome::kCompleted && window.contains(w.end) ? 1 : 0;
  if (tokens > 0) figures.cached_share = static_cast<double>(cached) / static_cast<double>(tokens);
  return figures;
}

void TraceRun::OnStep(const StepReport& report) {
  for (const takt::Preemption& p : report.plan.preempted) {
    ++result_.requests[takt::VirtualRequests::IndexOf(p.request)].preemptions;
  }
  for (const takt::PlanEntry& entry : report.plan.run) {
    const std::uint32_t call = takt::VirtualRequests::IndexOf(entry.request);
    takt::RequestRecord& record = result_.requests[call];
    if (record.first_step == takt::kNever) {
      record.first_step = report.begin;
      record.cached_tokens = entry.position;
    }
    const std::int32_t end = entry.position + entry.tokens;
    if (entry.prefill()) record.recomputed_tokens += std::max(0, std::min(end, computed_[call]) - entry.position);
    computed_[call] = std::max(computed_[call], end);
  }
  result_.request_steps += static_cast<std::int64_t>(report.plan.run.size());
  kv_used_.Set(report.end, engine_->scheduler().kv().used.value);
  if (series_.due(report.end)) Sample();
  const takt::Duration between = report.begin - std::exchange(busy_since_, report.end);
  if (options_.on_step) {
    const takt::Scheduler& scheduler = engine_->scheduler();
    options_.on_step(report, scheduler.waiting(), scheduler.HeadWaitsFor(), between);
  }
}

void TraceRun::Sample() {
  const takt::Scheduler& scheduler = engine_->scheduler();
  series_.Add({Now(), scheduler.waiting(), scheduler.running(), scheduler.kv().used.value});
}

}  // namespace

absl::StatusOr<TraceResult> RunTrace(const ServedModel& model, const takt::Workload& workload,
                                     const TraceOptions& options) {
  return TraceRun(model, workload, options).Run();
}

}  // namespace serving
