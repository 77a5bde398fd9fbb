#include "service.h"

#include <algorithm>
#include <utility>

namespace serving {
namespace {

const Output kTooLate = {.end = End::kFailed, .reason = takt::FailReason::kDraining};

}  // namespace

// ---- replies -------------------------------------------------------------------------------------------------------

Reply::News Reply::Wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return !news_.tokens.empty() || news_.end != End::kNotYet; });
  return std::exchange(news_, {});
}

void Reply::Hear(const Output& output) {
  {
    const std::lock_guard lock(mutex_);
    if (output.token >= 0) news_.tokens.push_back(output.token);
    news_.end = output.end;
    news_.reason = output.reason;
    news_.retry_after_ms = output.retry_after_ms;
  }
  changed_.notify_one();
}

// ---- workflows -----------------------------------------------------------------------------------------------------

void Followers::Begin(takt::Request& request, bool last) {
  if (!request.workflow) return;
  const std::uint64_t tenant = request.tenant.value, agent = request.agent.value;
  Workflow& workflow = workflows_.Get({tenant, request.workflow.value}, {.arrival = request.arrival});
  request.workflow_arrival = workflow.arrival;
  const std::size_t place = std::min(workflow.begun++, kLongest);
  if (last) {
    request.after = Class().sum;
    return;
  }
  for (const std::size_t of : {place, kAnyPlace}) {
    const Class* known = classes_.Find({tenant, agent, of});
    if (known == nullptr || known->weight < kEnough) continue;
    const auto& [calls, prompt, output, kv, path] = known->sum;
    const double w = known->weight;
    request.after = {calls / w, prompt / w, output / w, kv / w, path / w};
    return;
  }
}

void Followers::End(const takt::Request& request, std::int32_t output_tokens, bool last) {
  if (!request.workflow) return;
  const std::uint64_t tenant = request.tenant.value;
  Workflow& workflow = workflows_.Get({tenant, request.workflow.value}, {.arrival = request.arrival});
  if (workflow.ended.size() < kLongest) {
    workflow.ended.push_back({request.agent.value, workflow.ended.size(),
                              static_cast<double>(request.prompt_tokens.value), static_cast<double>(output_tokens)});
  }
  if (!last) return;
  takt::WorkAfter after = Class().sum;
  for (std::size_t i = workflow.ended.size(); i-- > 0;) {
    const Call& call = workflow.ended[i];
    for (const std::size_t of : {call.place, kAnyPlace}) {
      Class& to = classes_.Get({tenant, call.agent, of});
      to.weight += 1;
      to.sum.calls += after.calls, to.sum.prompt_tokens += after.prompt_tokens;
      to.sum.output_tokens += after.output_tokens, to.sum.kv_steps += after.kv_steps;
      to.sum.path_tokens += after.path_tokens;
    }
    after.calls += 1, after.prompt_tokens += call.prompt, after.output_tokens += call.output;
    after.kv_steps += call.output * (call.prompt + call.output / 2), after.path_tokens += call.output;
  }
  workflow.ended.clear();
}

// ---- from any thread -----------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Service>> Service::Start(const ServedModel& model, EngineOptions options) {
  auto service = std::unique_ptr<Service>(new Service());
  service->time_ = model.time();
  if (service->time_ != nullptr) service->time_->Start(service->start_);
  options.clock = [s = service.get()] { return s->EngineTime(); };
  options.output = [s = service.get()](const Output& output) { s->Hear(output); };
  service->metrics_ = *takt::RequestMetrics::Create({});
  options.observer = service->metrics_->observer();
  auto engine = Engine::Create(model, std::move(options));
  if (!engine.ok()) return engine.status();
  service->engine_ = *std::move(engine);
  service->thread_ = std::thread([s = service.get()] { s->Run(); });
  return service;
}

Service::~Service() { Drain({}); }

Service::Ticket Service::Submit(EngineRequest request) {
  request.about.id = {++last_id_};
  request.about.arrival = Now();
  Ticket ticket{request.about.id, std::make_shared<Reply>()};
  if (!Push(Arrival{std::move(request), ticket.reply})) ticket.reply->Hear(kTooLate);
  return ticket;
}

void Service::Cancel(takt::RequestId id) { Push(Cancelling{id}); }

std::optional<ServiceReport> Service::Report(std::chrono::milliseconds most) {
  const Ask ask = std::make_shared<std::promise<ServiceReport>>();
  std::future<ServiceReport> answer = ask->get_future();
  if (!Push(ask)) return std::nullopt;
  if (answer.wait_for(most) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

std::int64_t Service::Drain(std::chrono::nanoseconds patience) {
  if (thread_.joinable()) {
    Push(Draining{Now() + patience});
    thread_.join();
  }
  return cut_;
}

bool Service::Push(Command command) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  if (inbox_.Push(std::move(command)) == takt::Pushed::kFirst) {  // otherwise the loop is awake
    pushed_ = true;
    changed_.notify_one();
  }
  return true;
}

// ---- the engine's thread -------------------------------------------------------------------------------------------

void Service::Run() {
  while (true) {
    inbox_.Drain([this](Command& command) { Take(command); });
    DoDue();
    if (drain_until_ && *drain_until_ <= Now()) CutAll();
    if (engine_->Step()) continue;
    if (drain_until_ && engine_->empty() && later_.empty()) break;
    takt::TimePoint wake = engine_->wake_at();
    if (!later_.empty()) wake = std::min(wake, later_.begin()->first);
    if (time_ != nullptr && wake <= Now()) time_->MoveTo(wake);
    else SleepUntil(std::min(wake, drain_until_.value_or(takt::kNever)));
  }
  const std::lock_guard lock(mutex_);
  closed_ = true;
  inbox_.Drain([](Command& command) {
    if (const Arrival* late = std::get_if<Arrival>(&command)) late->reply->Hear(kTooLate);
  });
}

// Does a command. With simulated time, keeps an arrival until its time.
void Service::Take(Command& command) {
  if (time_ != nullptr) {
    if (Arrival* arrival = std::get_if<Arrival>(&command)) {
      const auto tokens = static_cast<std::int64_t>(arrival->request.prompt.size());
      later_.emplace(arrival->request.about.arrival + time_->FrontEnd(tokens), std::move(*arrival));
      return;
    }
    if (const Cancelling* cancelling = std::get_if<Cancelling>(&command)) {
      const auto waits = std::ranges::find_if(
          later_, [&](const auto& entry) { return entry.second.request.about.id == cancelling->request; });
      if (waits != later_.end()) {
        waits->second.reply->Hear({.request = cancelling->request, .end = End::kCancelled});
        later_.erase(waits);
        return;
      }
    }
  }
  std::visit([this](auto& c) { Do(c); }, command);
}

void Service::DoDue() {
  while (!later_.empty() && later_.begin()->first <= time_->now()) {
    Arrival arrival = std::move(later_.extract(later_.begin()).mapped());
    Do(arrival);
  }
}

void Service::SleepUntil(takt::TimePoint wake) {
  std::unique_lock lock(mutex_);
  const auto pushed = [this] { return std::exchange(pushed_, false); };
  if (wake == takt::kNever) {
    changed_.wait(lock, pushed);
  } else {
    changed_.wait_until(lock, start_ + wake.time_since_epoch(), pushed);
  }
}

void Service::Do(Arrival& arrival) {
  Describe(arrival.request);
  const takt::Request& about = arrival.request.about;
  living_[about.id] = {arrival.reply, about, arrival.request.last};
  living_[about.id].about.prompt_tokens = {static_cast<std::int32_t>(arrival.request.prompt.size())};
  const takt::RequestId id = about.id;
  const absl::Status status = engine_->Submit(std::move(arrival.request));
  if (!status.ok()) Hear({.request = id, .end = End::kFailed, .reason = takt::FailReason::kInvalid});
}

// Adds learned estimates and deadlines to a request.
void Service::Describe(EngineRequest& request) {
  takt::Request& about = request.about;
  if (request.deadline >= takt::Duration::zero()) about.deadline = about.arrival + request.deadline;
  followers_.Begin(about, request.last);
  const Mean* mean = outputs_.Find({about.tenant.value, about.agent.value});
  if (mean != nullptr) about.output_tokens = takt::Estimate::Exact(mean->sum / mean->count);
}

void Service::Hear(const Output& output) {
  const auto found = living_.find(output.request);
  if (found == living_.end()) return;
  Living& living = found->second;
  const bool cut = output.end == End::kCancelled && drain_until_ && *drain_until_ <= Now();
  living.reply->Hear(cut ? kTooLate : output);
  if (output.token >= 0 && living.output_tokens++ == 0) living.first_token = EngineTime();
  if (output.end == End::kLength || output.end == End::kEndToken) {
    Mean& mean = outputs_.Get({living.about.tenant.value, living.about.agent.value});
    mean.sum += living.output_tokens, mean.count += 1;
    followers_.End(living.about, living.output_tokens, living.last);
  }
  if (output.end == End::kNotYet) return;
  if (engine_->options().on_request) {
    engine_->options().on_request({output.request, living.about.arrival, living.first_token, EngineTime(),
                                   living.about.prompt_tokens.value, living.output_tokens, output.end});
  }
  living_.erase(found);
}

void Service::Do(const Ask& ask) {
  const takt::Scheduler& scheduler = engine_->scheduler();
  takt::SchedulerFigures figures = takt::FiguresOf(scheduler);
  const double kv_share = takt::KvShare(figures.kv);
  ask->set_value({std::move(figures), takt::FiguresOf(*metrics_, Now(), kv_share), engine_->counters()});
}

void Service::Do(const Draining& draining) {
  drain_until_ = draining.until;
  engine_->On(takt::Drain{});
}

void Service::CutAll() {
  std::vector<takt::RequestId> left;
  for (const auto& [id, living] : living_) left.push_back(id);
  cut_ += static_cast<std::int64_t>(left.size());
  for (const takt::RequestId id : left) engine_->Cancel(id);
}

}  // namespace serving
