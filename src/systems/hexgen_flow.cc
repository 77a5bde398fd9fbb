#include "takt/systems/hexgen_flow.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "takt/base/faults.h"
#include "takt/base/random.h"

namespace takt::systems {
namespace {

constexpr std::size_t kReservedLessons = 4096;  // room that is reserved
constexpr std::size_t kMostCalls = 512;  // calls of a workflow; later calls are not learned

std::uint64_t SumOf(double alpha) { return Mix64(std::bit_cast<std::uint64_t>(alpha)); }
std::string TextOf(double alpha) {
  return fmt::format("takt hexgen_flow 1\nalpha {}\nchecksum {:016x}\n", alpha, SumOf(alpha));
}

}  // namespace

absl::Status HexGenFlowOptions::Validate() const {
  Faults faults;
  faults.ExpectOptions(router);
  return faults.ToStatus();
}

absl::StatusOr<HexGenFlow> HexGenFlow::Create(HexGenFlowOptions options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  std::optional<AlphaTuner> tuner;
  if (options.cluster) {
    ReplayOptions replay = *options.cluster;
    replay.policy = [policy = options.policy](const EnginePace&) { return policy; };
    replay.placement = options.placement;
    replay.budgets = options.router.budgets;
    replay.max_outstanding = options.router.max_outstanding;
    absl::StatusOr<AlphaTuner> created = AlphaTuner::Create(options.tuner, std::move(replay));
    if (!created.ok()) return created.status();
    tuner = *std::move(created);
  }
  absl::StatusOr<Router> router = Router::Create(options.router, options.policy, options.placement);
  if (!router.ok()) return router.status();
  return HexGenFlow(std::move(options), *std::move(router), std::move(tuner));
}

HexGenFlow::HexGenFlow(HexGenFlowOptions options, Router router, std::optional<AlphaTuner> tuner)
    : policy_(std::move(options.policy)),
      most_lessons_(options.most_lessons),
      router_(std::move(router)),
      tuner_(std::move(tuner)) {
  if (tuner_) lessons_.reserve(std::min(most_lessons_, kReservedLessons));
}

void HexGenFlow::Add(const Lesson& lesson) {
  if (!tuner_ || !lesson.workflow) return;
  if (lessons_.size() < most_lessons_) lessons_.push_back(lesson);
  else ++dropped_;
}

Ignored HexGenFlow::On(const RouterEvent& event, TimePoint now) {
  Lesson lesson;
  const auto* ended = std::get_if<RequestEnded>(&event);
  if (ended != nullptr) {
    if (const RequestState* state = router_.Find(ended->request); state != nullptr && !ended->failed) {
      const Request& r = state->request;
      const bool reported = ended->served && !ended->served->absurd();
      lesson = {.workflow = r.workflow,
                .begin = state->enqueued,
                .end = now,
                .tenant = r.tenant,
                .priority = r.priority,
                .stage = r.stage,
                .prompt = r.prompt_tokens,
                .output = reported ? ended->served->output : Tokens{-1}};
    }
  }
  if (const auto* end = std::get_if<WorkflowEnded>(&event);
      end != nullptr && !router_.workflows().alive(end->workflow)) {
    Add({.what = end->cancelled ? Lesson::What::kCancel : Lesson::What::kEnd,
         .workflow = end->workflow,
         .begin = kUnset,
         .end = now});
    return {};  // the router knows declared workflows only
  }
  const Ignored ignored = router_.On(event, now);
  if (lesson.workflow && router_.Find(ended->request) == nullptr) Add(lesson);
  return ignored;
}

std::span<const Placement> HexGenFlow::Place(TimePoint now) {
  const std::span<const Placement> placed = router_.Place(now);
  for (const WorkflowEnd& end : router_.ended_workflows()) {
    Add({.what = end.how == WorkflowEnd::kCompleted ? Lesson::What::kEnd : Lesson::What::kCancel,
         .workflow = end.workflow,
         .begin = end.arrival,
         .end = end.end,
         .deadline = end.deadline});
  }
  return placed;
}

std::optional<AlphaSearch> HexGenFlow::Advance(TimePoint now) {
  if (!tuner_) return std::nullopt;
  for (const Lesson& lesson : lessons_) {
    if (lesson.what == Lesson::What::kCall) {
      if (open_calls_ >= most_lessons_) {  // the host ends no workflow
        dropped_ += static_cast<std::int64_t>(std::exchange(open_calls_, 0));
        open_.clear();
      }
      std::vector<Lesson>& calls = open_[lesson.workflow.value];
      if (calls.size() < kMostCalls) calls.push_back(lesson), ++open_calls_;
      else ++dropped_;
      continue;
    }
    const auto at = open_.find(lesson.workflow.value);
    if (at == open_.end()) continue;
    if (lesson.what == Lesson::What::kEnd) Learn(lesson, at->second);
    open_calls_ -= at->second.size();
    open_.erase(at);
  }
  lessons_.clear();
  return tuner_->Advance(now);
}

// The predecessors of a call are the calls of its workflow that had ended when it began to wait, without indirect
// predecessors.
void HexGenFlow::Learn(const Lesson& end, const std::vector<Lesson>& calls) {
  ServedWorkflow served{.arrival = end.begin, .end = end.end};
  if (end.begin == kUnset) served.arrival = std::ranges::min(calls, {}, &Lesson::begin).begin;
  if (end.deadline != kNever) served.workflow.deadline = Between(served.arrival, end.deadline);
  served.workflow.tenant = static_cast<std::uint32_t>(calls.front().tenant.value);
  served.workflow.priority = calls.front().priority;
  for (const Lesson& call : calls) {
    if (call.output.value < 0) return void(++dropped_);
    TimePoint ready = served.arrival;
    std::vector<std::uint32_t>& before = served.predecessors.emplace_back();
    const auto precedes = [&](const Lesson& c) { return c.end <= call.begin && c.end > c.begin; };
    TimePoint newest = kUnset;  // beginning of the newest predecessor
    for (const Lesson& c : calls) {
      if (precedes(c)) newest = std::max(newest, c.begin), ready = std::max(ready, c.end);
    }
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      if (precedes(calls[c]) && calls[c].end > newest) before.push_back(c);
    }
    WorkloadCall& made = served.calls.emplace_back();
    made.prompt_tokens = call.prompt.value;
    made.output_tokens = std::max(call.output.value, 1);
    made.stage = static_cast<std::uint32_t>(call.stage.value);
    made.delay = std::max(Between(ready, call.begin), Duration{0});
  }
  tuner_->Ended(std::move(served));
}

bool HexGenFlow::Finished(const absl::StatusOr<AlphaChoice>& choice, TimePoint now) {
  const std::optional<Epoch> epoch = tuner_ ? tuner_->Finished(choice, now) : std::nullopt;
  if (epoch) router_.On(*epoch, now);
  return epoch.has_value();
}

TimePoint HexGenFlow::wake_at() const { return std::min(router_.wake_at(), tuner_ ? tuner_->wake_at() : kNever); }

std::string HexGenFlow::Save() const { return TextOf(alpha()); }

absl::Status HexGenFlow::Load(std::string_view text, TimePoint now) {
  if (!tuner_) return absl::FailedPreconditionError("hexgen_flow: tuning alpha needs a simulated cluster");
  constexpr std::string_view kTunerHead = "takt hexgen_flow 1\nalpha ";
  double alpha = -1;
  if (text.starts_with(kTunerHead)) std::from_chars(text.data() + kTunerHead.size(), text.data() + text.size(), alpha);
  if (!(alpha >= 0 && alpha <= 1) || text != TextOf(alpha)) {
    return absl::InvalidArgumentError("hexgen_flow: the saved state is invalid; expected the output of Save");
  }
  router_.On(tuner_->Restore(alpha), now);
  return absl::OkStatus();
}

}  // namespace takt::systems
