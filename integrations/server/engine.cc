#include "engine.h"

#include <algorithm>
#include <utility>

#include "takt/turns/gates/registry.h"
#include "takt/policy/registry.h"
#include "takt/rivals/rivals.h"
#include "takt/turns/retention/registry.h"

namespace serving {
namespace {

absl::StatusOr<takt::AnyPause> MakePause(const std::string& name) {
  if (name == takt::KeepAll::kName) return takt::AnyPause(takt::KeepAll{});
  if (name == takt::DropAll::kName) return takt::AnyPause(takt::DropAll{});
  if (name == takt::SwapAll::kName) return takt::AnyPause(takt::SwapAll{});
  return absl::InvalidArgumentError("pause is " + name + ": must be keep_all, drop_all or swap_all");
}

constexpr int kMostTries = 8;  // attempts at steps that compute nothing, in a row

takt::Tokens Count(std::size_t n) { return {static_cast<std::int32_t>(n)}; }

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const ServedModel& model, EngineOptions options) {
  if (!options.clock || !options.output) return absl::InvalidArgumentError("clock and output are required");
  if (options.block_tokens.value < 1) return absl::InvalidArgumentError("block_tokens must be positive");
  if (options.gpu_blocks.value < 1) return absl::InvalidArgumentError("gpu_blocks must be positive");
  if (options.threads < 1) return absl::InvalidArgumentError("threads must be positive");
  takt::RegisterRivals().IgnoreError();
  model.Prescribe(options);
  const takt::EnginePace* pace = options.pace ? &*options.pace : nullptr;
  auto policy = takt::MakePolicy(options.policy, {}, pace);
  if (!policy.ok()) return policy.status();
  auto pause = MakePause(options.pause);
  if (!pause.ok()) return pause.status();
  const bool retains = !options.retention.empty(), counts = options.ledger |= retains;
  takt::AnyRetention retention;
  takt::AnyGate gate;
  if (counts) {
    if (options.cpu_blocks.value > 0) return absl::InvalidArgumentError("retention: excludes cpu_blocks");
    if (options.pause != takt::KeepAll::kName) return absl::InvalidArgumentError("retention: needs pause keep_all");
  }
  if (retains) {
    if (!options.prefix_cache) return absl::InvalidArgumentError("retention: needs prefix_cache");
    const takt::PrefillPace* prefill = pace != nullptr ? &pace->prefill : nullptr;
    auto holds = takt::MakeRetention(options.retention, prefill);
    if (!holds.ok()) return holds.status();
    auto lets_in = takt::MakeGate(options.gate, prefill);
    if (!lets_in.ok()) return lets_in.status();
    retention = *std::move(holds), gate = *std::move(lets_in);
  }
  options.scheduler.kv = counts ? takt::KvMode::kLedger : takt::KvMode::kOracle;
  options.scheduler.kv_blocks = options.gpu_blocks;
  options.scheduler.kv_block_tokens = options.block_tokens;
  options.scheduler.prefix_cache = counts && options.prefix_cache;
  options.scheduler.cpu_blocks = options.cpu_blocks;
  if (absl::Status status = options.scheduler.Validate(); !status.ok()) return status;

  auto kv = model.Open(options);
  if (!kv.ok()) return kv.status();
  auto scheduler = Scheduler::Create(options.recorder, options.scheduler, *std::move(policy), *std::move(pause),
                                     counts ? nullptr : (*kv)->oracle());
  if (!scheduler.ok()) return scheduler.status();
  scheduler->Watch(options.observer);
  if (retains) {
    if (absl::Status set = scheduler->SetRetention(retention, gate); !set.ok()) return set;
  }
  return std::unique_ptr<Engine>(new Engine(model, std::move(options), *std::move(kv), *std::move(scheduler)));
}

Engine::Engine(const ServedModel& model, EngineOptions options, std::unique_ptr<ComputedKv> kv, Scheduler scheduler)
    : model_(model), options_(std::move(options)), kv_(std::move(kv)), scheduler_(std::move(scheduler)) {}

// ---- what comes in --------------------------------------------------------------------------------------------------

absl::Status Engine::Submit(EngineRequest request) {
  const auto wrong = [&](const char* what) {
    return absl::InvalidArgumentError("request " + std::to_string(request.about.id.value) + " " + what);
  };
  const auto in_vocab = [this](const std::vector<std::int32_t>& tokens) {
    return std::ranges::all_of(
        tokens, [this](std::int32_t t) { return t >= 0 && static_cast<std::size_t>(t) < model_.vocab(); });
  };
  if (!request.about.id) return wrong("has no id");
  if (requests_.contains(request.about.id)) return wrong("is already being served");
  if (request.prompt.empty()) return wrong("has an empty prompt");
  if (request.max_output_tokens < 1) return wrong("has max_output_tokens below 1");
  if (!in_vocab(request.prompt)) return wrong("has a prompt with a token outside the vocabulary");
  std::size_t most = request.prompt.size() + static_cast<std::size_t>(request.max_output_tokens);
  for (const ToolCall& tool : request.tools) {
    if (!in_vocab(tool.answer)) return wrong("has a tool answer outside the vocabulary");
    most += tool.answer.size();
  }
  if (most > model_.max_context()) return wrong("has more tokens than the model's context");

  takt::Request& about = request.about;
  about.prompt_tokens = Count(request.prompt.size());
  about.sequences = 1;
  kv_->Arrive(about, request.prompt);
  scheduler_.On(takt::Arrived{about}, options_.clock());
  // The scheduler has copied the hashes.
  about.prefix = {}, about.scores = {};
  Live& live = requests_[about.id];
  live.context = request.prompt;
  live.request = std::move(request);
  return absl::OkStatus();
}

void Engine::Cancel(takt::RequestId id) {
  Live* live = Find(id);
  if (live == nullptr || live->ended) return;
  ++counters_.cancelled;
  Finish(*live, {.request = id, .end = End::kCancelled});
  scheduler_.On(takt::Cancelled{id}, options_.clock());
}

void Engine::On(const takt::Event& event) { scheduler_.On(event, options_.clock()); }
void Engine::ChangePolicy(const takt::AnyPolicy& policy) { scheduler_.ChangePolicy(policy, options_.clock()); }

Engine::Live* Engine::Find(takt::RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : &found->second;
}

// ---- the step loop --------------------------------------------------------------------------------------------------

bool Engine::Step() {
  bool busy = ReturnTools();
  const takt::StepPlan& plan = Plan();
  busy |= Heed(plan) || !plan.run.empty();
  if (options_.overlap) {
    counters_.overlapped += flight_.plan != nullptr && !plan.run.empty() ? 1 : 0;
    busy |= Land();
    Launch(plan);
  } else {
    Launch(plan);
    Land();
  }
  if (!tools_.empty()) wake_at_ = std::min(wake_at_, tools_.begin()->first);
  return busy;
}

const takt::StepPlan& Engine::Plan() {
  const takt::TimePoint now = options_.clock();
  const takt::StepPlan& plan = scheduler_.Plan(now, options_.limits);
  planning_ = options_.clock() - now;
  counters_.scheduling += planning_;
  last_plan_ = plan.id.value;
  idle_ = plan.idle;
  wake_at_ = plan.wake_at;
  return plan;
}

takt::Duration Engine::Commit(const takt::StepPlan& plan) {
  const takt::TimePoint now = options_.clock();
  scheduler_.Commit({plan.id, results_}, now);
  const takt::Duration committing = options_.clock() - now;
  counters_.scheduling += committing;
  return committing;
}

void Engine::KeepForReport(const takt::StepPlan& plan) {
  reported_ = takt::Keep(plan);
  reported_.run.clear(), reported_rows_.clear();
  for (std::size_t i = 0; i < plan.run.size(); ++i) {
    if (flight_.entries[i] == nullptr) continue;
    reported_.run.push_back(plan.run[i]);
    reported_rows_.push_back(results_[i]);
  }
}

// Applies everything in a plan except the entries to run. Returns true if the scheduler may have a further plan because
// of it.
bool Engine::Heed(const takt::StepPlan& plan) {
  for (const takt::Preemption& preemption : plan.preempted) {
    ++(preemption.action == takt::KvAction::kOut ? counters_.preempted_swap : counters_.preempted_recompute);
    if (Live* live = Find(preemption.request)) live->void_through = plan.id.value - 1;
    if (TaktCounts()) kv_->Free(preemption.request);
  }
  for (const takt::Failure& failure : plan.failed) {
    if (failure.reason == takt::FailReason::kIdInUse) continue;  // the request that has the id continues
    Live* live = Find(failure.request);
    if (live == nullptr || live->ended) continue;
    ++counters_.failed;
    Finish(*live, {.request = failure.request,
                   .end = End::kFailed,
                   .reason = failure.reason,
                   .retry_after_ms = failure.retry_after_ms});
  }
  for (takt::RequestId id : plan.released) {
    kv_->Forget(id);
    requests_.erase(id);
  }
  for (const takt::DroppedPrefix& dropped : plan.dropped) kv_->Drop(dropped.hash);
  for (const takt::KvMove& move : plan.moves) Move(move);
  return !plan.moves.empty();
}

// A copy completes at once here. The scheduler ensures that no step in flight uses the blocks.
void Engine::Move(const takt::KvMove& move) {
  const bool out = move.action == takt::KvAction::kOut;
  const bool copied = out ? kv_->CopyOut(move.request, move.count) : kv_->CopyIn(move.request);
  ++(!copied ? counters_.moves_lost : out ? counters_.swapped_out : counters_.swapped_in);
  Live* live = Find(move.request);
  if (copied && !out && live != nullptr && live->resume == Resume::kReturned) live->resume = Resume::kSwappedIn;
  scheduler_.On(takt::MoveDone{move.id, !copied}, options_.clock());
}

// Starts to compute a plan. Skips entries whose request has ended or been preempted since the plan. The scheduler frees
// their memory when the step is committed.
void Engine::Launch(const takt::StepPlan& plan) {
  if (plan.run.empty()) return;
  ++counters_.steps;
  flight_.begin = options_.clock();
  flight_.planning = planning_;
  flight_.plan = &plan;
  flight_.entries.clear();
  for (const takt::PlanEntry& entry : plan.run) {
    const Live* live = TaktCounts() ? Find(entry.request) : nullptr;
    if (live == nullptr || live->ended || live->void_through >= plan.id.value) continue;
    kv_->Room(entry.request, live->request.prompt, entry.position, entry.position + entry.tokens);
  }
  kv_->Begin(plan);
  for (const takt::PlanEntry& entry : plan.run) {
    Live* live = Find(entry.request);
    const bool counts = live != nullptr && !live->ended && live->void_through < plan.id.value;
    flight_.entries.push_back(counts ? live : nullptr);
    if (!counts) {
      ++counters_.entries_void;
      continue;
    }
    counters_.chunked += entry.prefill() && !entry.samples() ? 1 : 0;
    CountResume(*live, entry);
    kv_->Add(entry, live->context);
    counters_.rows += entry.tokens;
  }
  if (options_.overlap) {
    background_.Begin([this] { Compute(); });
  } else {
    Compute();
  }
}

void Engine::Compute() {
  flight_.computed = kv_->Run();
  flight_.end = options_.clock();
}

// Ends the step in flight: sends its tokens, and commits its results. Returns false if there is none.
bool Engine::Land() {
  if (flight_.plan == nullptr) return false;
  background_.Wait(options_.awake);
  const takt::StepPlan& plan = *std::exchange(flight_.plan, nullptr);
  results_.clear();
  counters_.computing += flight_.end - flight_.begin;
  if (Lost(plan)) {
    Commit(plan);
    return true;
  }
  const Sample* sample = kv_->samples().data();
  for (std::size_t i = 0; i < plan.run.size(); ++i) {
    const takt::PlanEntry& entry = plan.run[i];
    Live* live = flight_.entries[i];
    const Sample* mine = live != nullptr && entry.samples() ? sample++ : nullptr;
    const bool counts = live != nullptr && !live->ended && live->void_through < plan.id.value;
    // the scheduler ignores results of void entries, but reads a complete list fastest
    results_.push_back(counts ? Take(entry, *live, mine) : takt::RowResult{entry.request, entry.lane});
  }
  if (options_.on_step) KeepForReport(plan);
  const takt::Duration scheduling = flight_.planning + Commit(plan);
  CallTools();
  const takt::StepPlan reported = reported_.view();
  if (options_.on_step) options_.on_step({reported, reported_rows_, flight_.begin, flight_.end, scheduling});
  return true;
}

// Returns true if the step in flight has computed nothing. The results then lack its rows, so the scheduler plans them
// again. After kMostTries in a row they fail.
bool Engine::Lost(const takt::StepPlan& plan) {
  if (flight_.computed == Computed::kDone) return lost_in_a_row_ = 0, false;
  ++counters_.steps_lost;
  if (flight_.computed == Computed::kNothing && ++lost_in_a_row_ < kMostTries) return true;
  lost_in_a_row_ = 0;
  for (std::size_t i = 0; i < plan.run.size(); ++i) {
    if (flight_.entries[i] == nullptr || flight_.entries[i]->ended) continue;
    const takt::PlanEntry& entry = plan.run[i];
    results_.push_back({.request = entry.request, .lane = entry.lane, .flags = takt::RowResult::kFailed});
  }
  return true;
}

// Returns the result of an entry: its KV is there, and perhaps a token.
takt::RowResult Engine::Take(const takt::PlanEntry& entry, Live& live, const Sample* sample) {
  takt::RowResult result{.request = entry.request, .lane = entry.lane};
  // takt knows only the hashes of the prompt.
  const auto computed = static_cast<std::size_t>(entry.position + entry.tokens);
  if (TaktCounts()) kv_->Publish(entry.request, live.request.prompt, std::min(computed, live.request.prompt.size()));
  else kv_->Publish(entry.request, live.context, computed);
  if (sample == nullptr) return result;
  live.context.push_back(sample->token);
  ++live.generated;
  result.tokens = 1;
  const EngineRequest& r = live.request;
  Output output{.request = entry.request, .token = sample->token, .logit = sample->logit};
  if (sample->token == r.end_token) {
    output.end = End::kEndToken;
  } else if (live.generated >= r.max_output_tokens) {
    output.end = End::kLength;
  } else if (live.next_tool < r.tools.size() && live.generated >= r.tools[live.next_tool].after_tokens) {
    calling_.push_back(entry.request);
  }
  if (output.end == End::kNotYet) {
    options_.output(output);
    return result;
  }
  result.flags = takt::RowResult::kFinished;
  ++counters_.finished;
  Finish(live, output);
  return result;
}

void Engine::Finish(Live& live, Output output) {
  live.ended = true;
  if (live.resume == Resume::kInTool) {
    std::erase_if(tools_, [&](const auto& tool) { return tool.second == output.request; });
  }
  options_.output(output);
}

// ---- tools ----------------------------------------------------------------------------------------------------------

void Engine::CallTools() {
  for (takt::RequestId id : calling_) {
    Live& live = *Find(id);
    const ToolCall& tool = live.request.tools[live.next_tool];
    const takt::TimePoint now = options_.clock();
    scheduler_.On(takt::ToolCalled{id, tool.expected.duration, tool.expected.returned, tool.expected.tool}, now);
    live.void_through = last_plan_;
    live.resume = Resume::kInTool;
    tools_.emplace(now + tool.duration, id);
  }
  calling_.clear();
}

// Returns true if a tool has answered.
bool Engine::ReturnTools() {
  const takt::TimePoint now = options_.clock();
  bool any = false;
  for (; !tools_.empty() && tools_.begin()->first <= now; any = true) {
    const takt::RequestId id = tools_.begin()->second;
    tools_.erase(tools_.begin());
    Live& live = *Find(id);
    const std::vector<std::int32_t>& answer = live.request.tools[live.next_tool++].answer;
    live.context.insert(live.context.end(), answer.begin(), answer.end());
    live.resume = Resume::kReturned;
    const bool more = live.next_tool < live.request.tools.size();
    const takt::NextCall next = more ? live.request.tools[live.next_tool].expected : takt::NextCall{};
    scheduler_.On(takt::ToolReturned{id, Count(answer.size()), next}, now);
  }
  return any;
}

// Counts what happened to a request's KV, at its first entry after a tool call.
void Engine::CountResume(Live& live, const takt::PlanEntry& entry) {
  const Resume resume = std::exchange(live.resume, Resume::kNone);
  if (resume == Resume::kNone) return;
  const std::size_t answer = live.request.tools[live.next_tool - 1].answer.size();
  const bool there = static_cast<std::size_t>(entry.position) + 1 + answer == live.context.size();
  ++(resume == Resume::kSwappedIn ? counters_.tools_swapped : there ? counters_.tools_kept : counters_.tools_dropped);
}

}  // namespace serving
