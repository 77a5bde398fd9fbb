#include "takt/systems/lamps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "learning/pack.h"
#include "takt/base/faults.h"
#include "takt/policy/aged.h"

namespace takt::systems {
namespace {

constexpr std::string_view kLampsMagic = "takt lamps ";
constexpr std::uint32_t kLampsVersion = 1;

Tokens TokensOf(const Estimate& estimate) {
  return {static_cast<std::int32_t>(std::clamp(std::round(estimate.mean), 0.0, 1e9))};
}

}  // namespace

AnyPolicy LampsOptions::Policy() const {
  const MemoryIntegral rank{.pace = costs.pace, .stall = stall, .refresh = refresh};
  if (threshold <= 0) return rank;
  return Aged(rank, {.threshold = threshold,
                     .quantum = kForever,
                     .count_from = AgingOptions::CountFrom::kFirstRun,
                     .at_tool_call = at_tool_call});
}

AnyPause LampsOptions::Pause() const { return LeastWaste{costs}; }

absl::StatusOr<Lamps> Lamps::Create(const LampsOptions& options, KvOracle* oracle) {
  Faults faults;
  faults.Expect(options.stall >= 0 && options.stall <= 1e9, "stall", options.stall, "must be 0 to 1e9");
  faults.Expect(options.refresh >= 0, "refresh", options.refresh, "must not be negative");
  faults.Expect(options.threshold >= 0, "threshold", options.threshold, "must not be negative");
  const MemoryPace& pace = options.costs.pace;
  for (const double seconds : {pace.decode_s, pace.forward_s, pace.swap_s, pace.chunk_overhead_s}) {
    faults.Expect(seconds >= 0 && seconds <= 1e9, "costs.pace", seconds, "must be 0 to 1e9 s");
  }
  faults.Expect(pace.chunk_tokens >= 1 && pace.chunk_tokens <= 1e9, "costs.pace.chunk_tokens", pace.chunk_tokens,
                "must be 1 to 1e9");
  if (!faults.empty()) return faults.ToStatus();
  absl::StatusOr<Scheduler> scheduler = Scheduler::Create(options.scheduler, options.Policy(), options.Pause(), oracle);
  if (!scheduler.ok()) return scheduler.status();
  return Lamps(options, *std::move(scheduler));
}

Lamps::Lamps(const LampsOptions& options, Scheduler scheduler)
    : scheduler_(std::move(scheduler)), tools_(options.tools), lengths_(options.lengths) {
  living_.KeyHashes(options.scheduler.hash_seed);
  living_.Reserve(static_cast<std::size_t>(options.scheduler.reserve_requests));
}

void Lamps::Predict(const CallPredictor& predictor, const CallDescription& call, CallPredictor::Scratch& scratch,
                    Request& request) {
  CallForecast forecast;
  predictor.Predict(std::span(&call, 1), std::span(&forecast, 1), scratch);
  if (forecast.tokens_left.known()) request.workflow_tokens_left = forecast.tokens_left;
  if (forecast.before_tool.known()) request.next_call.after = TokensOf(forecast.before_tool);
}

// Adds what the class of the tool predicts. A request that names no tool and expects no call stays as it is.
NextCall Lamps::Complete(NextCall next) {
  if (!next && !next.tool) return next;
  const ToolExpectation& expected = tools_.Expect(next.tool);
  const NextCall given = next;
  if (next.after.value == 0 && expected.tokens_before.known()) next.after = TokensOf(expected.tokens_before);
  if (next.returned.value == 0 && expected.returned_tokens.known()) next.returned = TokensOf(expected.returned_tokens);
  if (next.duration == Duration::zero() && expected.seconds.known()) next.duration = FromSeconds(expected.seconds.mean);
  stats_.calls_predicted += next == given ? 0 : 1;
  return next;
}

Ignored Lamps::On(const Arrived& event, TimePoint now) {
  const Request& given = event.request;
  if (!given.id || living_.Find(given.id) != kNoSlot) return scheduler_.On(event, now);
  living_.Insert(given.id, {.stage = given.stage,
                            .prompt = given.prompt_tokens.value,
                            .most = given.max_output_tokens.value,
                            .tool = given.next_call.tool});
  Arrived arrived = event;
  Request& request = arrived.request;
  if (!request.output_tokens.known()) {
    request.output_tokens = lengths_.Expect(request.stage, request.prompt_tokens.value);
    stats_.outputs_predicted += request.output_tokens.known() ? 1 : 0;
  }
  request.next_call = Complete(request.next_call);
  return scheduler_.On(arrived, now);
}

Ignored Lamps::On(const Revised& event, TimePoint now) {
  Living* living = living_.Get(event.request);
  if (living == nullptr || !event.next_call) return scheduler_.On(event, now);
  Revised revised = event;
  revised.next_call = Complete(*event.next_call);
  if (living->called_at == kNever) living->tool = revised.next_call->tool;
  return scheduler_.On(revised, now);
}

Ignored Lamps::On(const ToolCalled& event, TimePoint now) {
  Living* living = living_.Get(event.request);
  if (living == nullptr) return scheduler_.On(event, now);
  ToolCalled call = event;
  if (!call.tool) call.tool = living->tool;
  const ToolExpectation& expected = tools_.Expect(call.tool);
  if (call.expected == Duration::zero() && expected.seconds.known()) call.expected = FromSeconds(expected.seconds.mean);
  if (call.expected_returned.value == 0 && expected.returned_tokens.known()) {
    call.expected_returned = TokensOf(expected.returned_tokens);
  }
  const std::int64_t paused = scheduler_.paused();
  const std::int32_t generated = scheduler_.GeneratedBy(event.request).value;
  const Ignored ignored = scheduler_.On(call, now);
  if (scheduler_.paused() == paused) return ignored;
  living->tool = call.tool;
  living->called_at = now;
  living->before = std::max(generated - living->segment, 0);
  living->segment = generated;
  return ignored;
}

Ignored Lamps::On(const ToolReturned& event, TimePoint now) {
  Living* living = living_.Get(event.request);
  if (living == nullptr || living->called_at == kNever) return scheduler_.On(event, now);
  if (scheduler_.Explain(event.request).status != RequestStatus::kPaused || event.returned.value < 0) {
    return scheduler_.On(event, now);
  }
  tools_.Observe({.tool = living->tool,
                  .seconds = std::max(ToSeconds(Between(living->called_at, now)), 0.0),
                  .returned_tokens = event.returned.value,
                  .tokens_before = living->before});
  ++stats_.calls_learned;
  living->called_at = kNever;
  living->tool = event.next_call.tool;
  ToolReturned returned = event;
  returned.next_call = Complete(event.next_call);
  return scheduler_.On(returned, now);
}

Ignored Lamps::On(const Cancelled& event, TimePoint now) {
  const auto cancelled = scheduler_.stats().cancelled;
  const Ignored ignored = scheduler_.On(event, now);
  Living* living = scheduler_.stats().cancelled == cancelled ? nullptr : living_.Get(event.request);
  if (living != nullptr) living->cut = true;
  return ignored;
}

// Keeps the output of a request if the scheduler has finished it.
void Lamps::Finished(RequestId id) {
  Living* living = living_.Get(id);
  if (living == nullptr || living->cut || living->output >= 0) return;
  if (scheduler_.Explain(id).status == RequestStatus::kDead) living->output = scheduler_.GeneratedBy(id).value;
}

void Lamps::Failed(const Failure& failure) {
  Living* living = failure.reason == FailReason::kIdInUse ? nullptr : living_.Get(failure.request);
  if (living != nullptr) living->cut = true;
}

// A released request that nothing has cut or reported as finished has reached its maximum output.
void Lamps::Forget(RequestId id) {
  const Slot slot = living_.Find(id);
  if (slot == kNoSlot) return;
  Living& living = living_[slot];
  if (living.output < 0 && living.most > 0) living.output = living.most;
  if (living.output >= 0 && !living.cut) {
    lengths_.Observe(living.stage, living.prompt, living.output);
    ++stats_.outputs_learned;
  }
  living_.Erase(slot, id);
}

std::string Lamps::Save() const {
  internal::Packer out(kLampsMagic, kLampsVersion);
  out.Put(std::string_view(tools_.Save()));
  out.Put(std::string_view(lengths_.Save()));
  return out.Take();
}

absl::Status Lamps::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kLampsMagic, kLampsVersion, "a file of LAMPS");
  if (!in.ok()) return in.status();
  const std::string_view tools = in->Text(), lengths = in->Text();
  if (!in->done()) return absl::DataLossError("the file of LAMPS is damaged: values in it do not match");
  ToolProfile read = tools_;
  if (absl::Status status = read.Load(tools); !status.ok()) return status;
  if (absl::Status status = lengths_.Load(lengths); !status.ok()) return status;
  tools_ = std::move(read);
  return absl::OkStatus();
}

}  // namespace takt::systems
