#include "takt/systems/kairos.h"

#include <algorithm>
#include <variant>

#include "takt/base/faults.h"

namespace takt::systems {
namespace {

constexpr std::size_t kFirstLessons = 4096;  // room that is reserved

}  // namespace

absl::Status KairosOptions::Validate() const {
  Faults faults;
  faults.ExpectOptions(router);
  faults.Expect(refresh >= Duration{0}, "refresh", ToSeconds(refresh), "must be at least 0 [s]");
  return faults.ToStatus();
}

absl::StatusOr<Kairos> Kairos::Create(KairosOptions options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::StatusOr<Router> router = Router::Create(options.router, options.policy, options.placement);
  if (!router.ok()) return router.status();
  return Kairos(std::move(options), *std::move(router));
}

Kairos::Kairos(KairosOptions options, Router router)
    : policy_(std::move(options.policy)),
      refresh_(options.refresh),
      most_lessons_(options.most_lessons),
      router_(std::move(router)),
      learner_(options.learner) {
  calls_.resize(static_cast<std::size_t>(options.router.reserve_requests));
  lessons_.reserve(std::min(most_lessons_, kFirstLessons));
}

Kairos::Call& Kairos::CallAt(Slot slot) {
  if (slot >= calls_.size()) calls_.resize(2 * (slot + std::size_t{1}));
  return calls_[slot];
}

void Kairos::Add(const Lesson& lesson) {
  if (lessons_.size() < most_lessons_) lessons_.push_back(lesson);
  else ++dropped_;
}

Ignored Kairos::On(const RouterEvent& event, TimePoint now, AgentId upstream) {
  const std::uint64_t arrived = router_.stats().arrived, late = router_.stats().reported_late;
  Lesson lesson;
  bool succeeds = false;
  if (const auto* ended = std::get_if<RequestEnded>(&event)) {
    const RequestState* state = router_.Find(ended->request);
    const Call call = state != nullptr ? CallAt(state->slot) : Call{};
    succeeds = call.start != kUnset && !ended->failed;
    if (succeeds) lesson.call = {state->request.workflow, state->request.agent, call.upstream, call.start, now};
  }
  if (const auto* ended = std::get_if<WorkflowEnded>(&event)) {
    Add({ended->cancelled ? Lesson::What::kCancel : Lesson::What::kEnd, {.workflow = ended->workflow}});
    if (!router_.workflows().alive(ended->workflow)) return {};  // the router knows declared workflows only
  }
  const Ignored ignored = router_.On(event, now);
  if (const auto* e = std::get_if<Arrived>(&event); e != nullptr && router_.stats().arrived > arrived) {
    CallAt(router_.Find(e->request.id)->slot) = {.upstream = upstream};
  } else if (const auto* began = std::get_if<RequestStarted>(&event)) {
    const RequestState* state = router_.Find(began->request);
    if (!ignored && state != nullptr && router_.stats().reported_late == late) CallAt(state->slot).start = now;
  } else if (succeeds && router_.Find(std::get<RequestEnded>(event).request) == nullptr) {
    Add(lesson);
  }
  return ignored;
}

std::span<const Placement> Kairos::Place(TimePoint now) {
  const std::span<const Placement> placed = router_.Place(now);
  for (const Placement& p : placed) CallAt(router_.Find(p.request)->slot).start = now;
  for (const WorkflowEnd& end : router_.ended_workflows()) {
    Add({end.how == WorkflowEnd::kCompleted ? Lesson::What::kEnd : Lesson::What::kCancel, {.workflow = end.workflow}});
  }
  return placed;
}

std::optional<Epoch> Kairos::Advance(TimePoint now) {
  const std::optional<Lessons> lessons = TakeLessons(now);
  std::optional<Epoch> epoch = lessons ? Learn(*lessons, now) : std::nullopt;
  if (epoch) Publish(*epoch, now);
  return epoch;
}

std::optional<Kairos::Lessons> Kairos::TakeLessons(TimePoint now) {
  if (now < next_table_ || (lessons_.empty() && !loaded_)) return std::nullopt;
  next_table_ = After(now, refresh_);
  loaded_ = false;
  Lessons fresh;
  fresh.reserve(lessons_.capacity());
  return std::exchange(lessons_, std::move(fresh));
}

std::optional<Epoch> Kairos::Learn(const Lessons& lessons, TimePoint now) {
  for (const Lesson& lesson : lessons) {
    switch (lesson.what) {
      case Lesson::What::kCall: learner_.Add(lesson.call, now); break;
      case Lesson::What::kEnd: learner_.Close(lesson.call.workflow); break;
      case Lesson::What::kCancel: learner_.Forget(lesson.call.workflow); break;
    }
  }
  std::shared_ptr<const AgentRanks> table = learner_.Table();
  if (table == nullptr) return std::nullopt;
  return Epoch{.agent_ranks = std::move(table)};
}

TimePoint Kairos::wake_at() const {
  const TimePoint learns = lessons_.empty() && !loaded_ ? kNever : next_table_;
  return std::min(router_.wake_at(), learns);
}

absl::Status Kairos::Load(std::string_view text) {
  absl::Status status = learner_.Load(text, names_);
  loaded_ |= status.ok();
  return status;
}

}  // namespace takt::systems
