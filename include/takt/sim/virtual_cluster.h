// A simulated cluster: several engines and a router that run a workload.
#ifndef TAKT_SIM_VIRTUAL_CLUSTER_H_
#define TAKT_SIM_VIRTUAL_CLUSTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/time.h"
#include "takt/model/event.h"
#include "takt/sim/estimates.h"
#include "takt/sim/metrics.h"
#include "takt/sim/virtual_engine.h"
#include "takt/sim/virtual_options.h"
#include "takt/sim/virtual_system.h"
#include "takt/rivals/retention/next_uses.h"
#include "takt/sim/workload_progress.h"
#include "takt/state/stats.h"
#include "takt/workload/workload.h"

namespace takt {

// Runs a workload to its end. Deterministic. Events at the same time are processed in this order: timers, arrivals,
// step ends, placement, new steps. Timers are in order of creation, arrivals in workload order, steps by instance.
//
// With disaggregated prefill, a first router places a call on an engine that computes the prompt up to the first token.
// A second router then places the call on an engine that decodes. Or one router with roles chooses both engines, when
// the call leaves its queue. The transfer of the prompt's KV occupies the links of
// both engines. The source keeps the KV until the call has started to decode. After a preemption, the decode engine
// recomputes the KV.
//
// A single engine needs no router.
template <class Scheduler>
class VirtualCluster {
 public:
  // `workload` must outlive this object.
  VirtualCluster(const Workload& workload, EstimateSpec estimates, std::uint64_t seed, VirtualClusterOptions options);

  VirtualCluster(const VirtualCluster&) = delete;  // engines refer to members of this object
  VirtualCluster& operator=(const VirtualCluster&) = delete;

  // Adds an engine; at least one is needed. `cost` must outlive this object.
  void AddEngine(Scheduler scheduler, const PreparedCostModel& cost, VirtualEngineOptions options);
  // Sets the router for several engines or declared workflows. Instance i + 1 is engine i.
  void SetRouter(std::unique_ptr<VirtualRouter> router) { router_ = std::move(router); }
  // Sets the router of the decode engines, for disaggregated prefill (VirtualClusterOptions::prefill_engines).
  // SetRouter sets the router of the prefill engines. The workload must have no tools and no models.
  void SetDecodeRouter(std::unique_ptr<VirtualRouter> router) {
    decode_router_ = std::move(router);
    SetApart();
  }
  // The router of SetRouter has instances for prefill and for decode, and places both phases of a call.
  void SetApart() {
    hands_.resize(requests_.records.size());
    links_.resize(engines_.size());
  }

  // Returns false if the run was stopped, or if it stalled with requests that will never run (stalled()).
  bool Run();

  bool stalled() const { return stalled_; }
  void NoteGated();
  // Known next uses of workflows, for clairvoyant retention policies.
  const NextUses& next_uses() const { return *next_uses_; }
  TimePoint now() const { return now_; }
  const VirtualRequests& requests() const { return requests_; }
  const std::vector<WorkflowRecord>& workflows() const { return progress_.workflows(); }
  const Estimator& estimator() const { return progress_.estimator(); }
  const std::vector<VirtualEngine<Scheduler>>& engines() const { return engines_; }
  Estimator& estimator() { return progress_.estimator(); }
  const WorkloadProgress& progress() const { return progress_; }
  const std::vector<SeriesPoint>& series() const { return series_.points(); }
  VirtualRequests TakeRequests() { return std::move(requests_); }

 private:
  enum class Timed : std::uint8_t { kCall, kToolReturn, kMoveDone, kKvArrived };

  struct Timer {
    TimePoint time{};
    std::uint64_t order = 0;
    Timed what = Timed::kCall;
    std::uint32_t index = 0;  // index of the call or the instance
    MoveId move;

    // Reversed, so that the top of the heap is the earliest timer.
    friend bool operator<(const Timer& a, const Timer& b) {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };

  // State of a call with disaggregated prefill.
  struct Hand {
    std::uint32_t from = kNone;  // engine that holds the KV of the call's prompt, pinned
    std::uint32_t to = kNone;  // engine that receives the KV
    std::uint32_t next = kNone;  // engine that will receive it, chosen by a router with roles
    bool decodes = false;  // true: the call decodes, or the decode router handles it
  };
  struct Link {
    TimePoint out_free{}, in_free{};
  };
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  const WorkloadCall& CallOf(std::uint32_t call) const { return workload_->calls[call]; }
  Duration FrontEndOf(std::uint32_t call) const {
    return Sum(options_.front_end, Times(options_.front_end_token, CallOf(call).prompt_tokens));
  }
  bool routed() const { return router_ != nullptr; }
  bool apart() const { return !links_.empty(); }
  bool two_routers() const { return decode_router_ != nullptr; }
  bool OnlyPrompts(std::size_t instance) const {
    return apart() && instance < static_cast<std::size_t>(options_.prefill_engines);
  }
  VirtualRouter& RouterBefore(std::size_t instance) {
    return two_routers() && !OnlyPrompts(instance) ? *decode_router_ : *router_;
  }
  VirtualRouter& RouterWith(std::uint32_t call) {
    return two_routers() && hands_[call].decodes ? *decode_router_ : *router_;
  }
  void NotifyRouter(std::uint32_t call, const RouterEvent& event, AgentId upstream = {}) {
    RouterWith(call).On(event, now_, upstream);
    router_changed_ = true;
  }
  AgentId UpstreamOf(std::uint32_t call) const;

  // Returns the finished share of the run.
  double Share() const {
    const double calls = static_cast<double>(progress_.calls_over()) / static_cast<double>(requests_.records.size());
    return options_.horizon > Duration{0} ? std::max(calls, ToSeconds(now_) / ToSeconds(options_.horizon)) : calls;
  }
  void ExpectArrival();
  TimePoint NextTime() const;
  void At(TimePoint time, Timed what, std::uint32_t index, MoveId move = {});
  void Fire(const Timer& timer);
  void Moment();

  void StartWorkflow(std::uint32_t workflow);
  void MakeCall(std::uint32_t call);
  void SendTo(std::uint32_t instance, Arrived arrived);
  void SetLeg(std::uint32_t call);
  bool HandsOver(std::uint32_t call);
  Request SecondLegOf(std::uint32_t call) const;
  void SendKv(std::uint32_t call, std::uint32_t to);
  void KvCame(std::uint32_t call);
  void FreeKv(std::uint32_t call);
  void Left(std::uint32_t call, Outcome outcome, FailReason reason);
  void Ended(std::uint32_t call, Outcome outcome, FailReason reason);
  void Succeed(std::uint32_t call);
  void ReportTurnEnded(std::uint32_t call);
  NextCall NextTool(std::uint32_t call) const;
  void CallTool(std::uint32_t call);
  void ReturnFromTool(std::uint32_t call);

  template <class E>
  void Notify(std::uint32_t instance, const E& event) {
    engines_[instance].On(event, now_);
    Touch(instance);
  }
  // On an engine, a running step must end before another starts.
  void Touch(std::uint32_t instance) {
    if (engines_[instance].busy()) return;
    if (!touched_flag_[instance]) touched_.push_back(instance);
    touched_flag_[instance] = 1;
  }
  void Resolve(std::uint32_t instance);
  void Place();
  void PlaceBy(VirtualRouter& router);
  void Start(std::uint32_t instance);
  void Report();
  TokensServed ServedTo(std::uint32_t call, std::int32_t output) const;
  void Advance();
  SeriesPoint Point() const;
  RunState State() const;

  const Workload* workload_;
  VirtualClusterOptions options_;
  VirtualRequests requests_;
  WorkloadProgress progress_;
  std::vector<VirtualEngine<Scheduler>> engines_;
  std::unique_ptr<VirtualRouter> router_, decode_router_;
  std::vector<Hand> hands_;  // by call; empty without disaggregated prefill
  std::vector<Link> links_;  // by engine; empty without disaggregated prefill
  std::vector<std::uint32_t> tool_of_;  // next tool by call; empty if there are no tools

  std::vector<Timer> timers_;  // a heap
  std::uint64_t timers_set_ = 0;
  std::size_t next_workflow_ = 0;
  std::unique_ptr<NextUses> next_uses_ = std::make_unique<NextUses>();  // next uses, to which schedulers refer
  std::vector<std::uint64_t> prefix_;  // prefix of the current call
  std::vector<TimePoint> next_;  // end of the step, or wake-up time, of each instance
  std::vector<std::uint32_t> touched_;  // instances with events since their last start
  std::vector<std::uint8_t> touched_flag_;
  std::vector<std::uint32_t> starting_;  // used by Moment
  std::vector<Failure> refused_;  // requests that the router failed
  bool router_changed_ = false;  // true: calls came or left since the router's last placement
  TimePoint next_arrival_ = kNever;
  TimePoint next_report_ = kNever;  // next report of all instances to the router
  TimePoint next_advance_ = kNever;  // of the router's system
  TimePoint cold_at_ = kNever;
  TimePoint now_{};
  bool stalled_ = false;
  Series series_;
};

template <class Scheduler>
VirtualCluster<Scheduler>::VirtualCluster(const Workload& workload, EstimateSpec estimates, std::uint64_t seed,
                                          VirtualClusterOptions options)
    : workload_(&workload), options_(std::move(options)), progress_(workload, estimates, seed, requests_.records) {
  const std::size_t calls = workload.calls.size();
  requests_.state.resize(calls);
  if (!workload.tools.empty()) tool_of_.resize(calls);
  for (std::uint32_t c = 0; c < calls; ++c) {
    if (!tool_of_.empty()) tool_of_[c] = CallOf(c).first_tool;
    requests_.state[c].prompt = CallOf(c).prompt_tokens;
    requests_.state[c].adapter = CallOf(c).adapter;
    SetLeg(c);
  }
}

template <class Scheduler>
void VirtualCluster<Scheduler>::AddEngine(Scheduler scheduler, const PreparedCostModel& cost,
                                          VirtualEngineOptions options) {
  options.instance = static_cast<std::uint16_t>(engines_.size());
  options.by_exception = !options_.on_step;  // the rows are not used
  engines_.emplace_back(std::move(scheduler), cost, options, requests_);
  next_.push_back(kNever);
  touched_flag_.push_back(0);
}

// ---- time ----------------------------------------------------------------------------------------------------------

// Sets the time of the next arrival; a closed loop has none.
template <class Scheduler>
void VirtualCluster<Scheduler>::ExpectArrival() {
  next_arrival_ = kNever;
  if (options_.closed_loop > 0 || next_workflow_ == workload_->workflows.size()) return;
  const TimePoint arrival = workload_->workflows[next_workflow_].arrival;
  next_arrival_ = options_.all_at_once       ? TimePoint{}
                  : options_.rate_scale == 1 ? arrival
                                             : TimePoint(FromSeconds(ToSeconds(arrival) / options_.rate_scale));
}

template <class Scheduler>
TimePoint VirtualCluster<Scheduler>::NextTime() const {
  if (!touched_.empty() || router_changed_) return now_;
  TimePoint soonest = std::min(next_arrival_, timers_.empty() ? kNever : timers_.front().time);
  for (const TimePoint next : next_) soonest = std::min(soonest, next);
  return soonest == kNever ? kNever : std::min({soonest, next_report_, next_advance_});
}

template <class Scheduler>
void VirtualCluster<Scheduler>::At(TimePoint time, Timed what, std::uint32_t index, MoveId move) {
  timers_.push_back({time, timers_set_++, what, index, move});
  std::push_heap(timers_.begin(), timers_.end());
}

template <class Scheduler>
bool VirtualCluster<Scheduler>::Run() {
  ExpectArrival();
  if (options_.closed_loop > 0) {
    const auto first = std::min(workload_->workflows.size(), static_cast<std::size_t>(options_.closed_loop));
    while (next_workflow_ < first) StartWorkflow(static_cast<std::uint32_t>(next_workflow_++));
  }
  if (routed()) next_report_ = After(now_, options_.report_interval);
  if (options_.cold_at > Duration{0}) cold_at_ = TimePoint(options_.cold_at);
  if (routed()) Advance();
  for (std::uint64_t moments = 1; !progress_.over(); ++moments) {
    const TimePoint next = NextTime();
    if (options_.horizon > Duration{0} && next > TimePoint(options_.horizon)) {
      now_ = TimePoint(options_.horizon);
      break;
    }
    if (next == kNever) {
      stalled_ = true;
      return false;
    }
    now_ = std::max(now_, next);
    Moment();
    if (moments % 4096 != 0) continue;
    if (options_.watch) options_.watch(State());
    if (options_.progress && !options_.progress(Share())) return false;
  }
  series_.Add(Point());
  return true;
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Moment() {
  while (!timers_.empty() && timers_.front().time <= now_) {
    std::pop_heap(timers_.begin(), timers_.end());
    const Timer timer = timers_.back();
    timers_.pop_back();
    Fire(timer);
  }
  while (next_arrival_ <= now_) {
    StartWorkflow(static_cast<std::uint32_t>(next_workflow_++));
    ExpectArrival();
  }
  for (std::uint32_t i = 0; i < engines_.size(); ++i) {
    if (next_[i] > now_) continue;
    if (engines_[i].busy()) Resolve(i);
    Touch(i);
  }
  if (cold_at_ <= now_ && !engines_.front().busy()) {
    cold_at_ = kNever;
    Notify(0, KvLost{});
  }
  if (next_report_ <= now_) Report();
  if (routed()) {
    Advance();
    Place();
  }
  // A start may fail requests, and thus end workflows and start others. These are handled in the next moment, at the
  // same time.
  starting_.swap(touched_);
  if (starting_.size() > 1) std::ranges::sort(starting_);
  for (const std::uint32_t i : starting_) touched_flag_[i] = 0;
  for (const std::uint32_t i : starting_) Start(i);
  starting_.clear();
  if (series_.due(now_)) series_.Add(Point());
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Fire(const Timer& timer) {
  switch (timer.what) {
    case Timed::kCall: MakeCall(timer.index); break;
    case Timed::kToolReturn: ReturnFromTool(timer.index); break;
    case Timed::kMoveDone: Notify(timer.index, MoveDone{timer.move}); break;
    case Timed::kKvArrived: KvCame(timer.index); break;
  }
}

// ---- engines -------------------------------------------------------------------------------------------------------

template <class Scheduler>
void VirtualCluster<Scheduler>::Resolve(std::uint32_t instance) {
  VirtualEngine<Scheduler>& engine = engines_[instance];
  engine.Resolve(now_);
  for (const std::uint32_t call : engine.finished()) Left(call, Outcome::kCompleted, {});
  for (const std::uint32_t call : engine.tool_calls()) CallTool(call);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Start(std::uint32_t instance) {
  VirtualEngine<Scheduler>& engine = engines_[instance];
  const bool ran = engine.busy();
  engine.Start(now_);
  if (engine.busy()) {
    next_[instance] = engine.step_end();
    if (!ran && options_.on_step) options_.on_step(engine.step());
  } else {
    // A wake-up time in the past would repeat forever.
    next_[instance] = engine.wake_at() > now_ ? engine.wake_at() : kNever;
  }
  for (const std::uint32_t call : engine.started()) {
    if (routed()) RouterBefore(instance).On(RequestStarted{VirtualRequests::IdOf(call), {instance + 1u}}, now_, {});
    if (apart() && !OnlyPrompts(instance)) FreeKv(call);
  }
  engine.started().clear();
  for (const auto& move : engine.moves()) {
    if (move.done > now_) {
      At(move.done, Timed::kMoveDone, instance, move.id);
    } else {
      Notify(instance, MoveDone{move.id});
    }
  }
  engine.moves().clear();
  for (const Failure& f : engine.failed()) Left(VirtualRequests::IndexOf(f.request), Outcome::kFailed, f.reason);
  engine.failed().clear();
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Place() {
  router_changed_ = false;
  PlaceBy(*router_);
  if (two_routers()) PlaceBy(*decode_router_);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::PlaceBy(VirtualRouter& router) {
  for (const Placement& p : router.Place(now_)) {
    const std::uint32_t call = VirtualRequests::IndexOf(p.request);
    const auto instance = static_cast<std::uint32_t>(p.instance.value - 1);
    if (two_routers() && hands_[call].from != kNone) {
      SendKv(call, instance);
    } else {
      SendTo(instance, Arrived{router.router().Find(p.request)->request});
    }
  }
  for (const Placement& p : router.router().decodes()) {
    hands_[VirtualRequests::IndexOf(p.request)].next = static_cast<std::uint32_t>(p.instance.value - 1);
  }
  refused_.assign(router.router().failed().begin(),
                  router.router().failed().end());  // a copy, because Ended() may change the original
  for (const Failure& f : refused_) Ended(VirtualRequests::IndexOf(f.request), Outcome::kFailed, f.reason);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Report() {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const Scheduler& scheduler = engines_[i].scheduler();
    const Stats& stats = scheduler.stats();
    const auto preempted = static_cast<std::int64_t>(stats.preempted_recompute + stats.preempted_swap);
    const Tokens kv_used{scheduler.kv().used.value * scheduler.options().kv_block_tokens.value};
    VirtualRouter& router = RouterBefore(i);
    router.On(InstanceReported{{i + 1}, {scheduler.waiting(), scheduler.running(), preempted, kv_used, now_}}, now_,
              {});
    if (!router.router().goes_by_service()) continue;
    engines_[i].ForEachRunning([&](std::uint32_t call, std::int32_t output) {
      router.On(RequestServed{VirtualRequests::IdOf(call), {i + 1}, ServedTo(call, output)}, now_, {});
    });
  }
  next_report_ = After(now_, options_.report_interval);
}

// Lets the router's system learn. The progress of a run is that of its calls, also during slow work.
template <class Scheduler>
void VirtualCluster<Scheduler>::Advance() {
  const Progress progress = [this](double) { return !options_.progress || options_.progress(Share()); };
  if (const std::optional<Epoch> epoch = router_->Advance(now_, progress)) {
    for (std::uint32_t i = 0; i < engines_.size(); ++i) Notify(i, *epoch);
  }
  const TimePoint wake = router_->wake_at();
  next_advance_ = wake > now_ ? wake : kNever;  // a time in the past would repeat forever
}

template <class Scheduler>
SeriesPoint VirtualCluster<Scheduler>::Point() const {
  SeriesPoint point{now_};
  for (const auto& engine : engines_) {
    point.waiting += engine.scheduler().waiting();
    point.running += engine.scheduler().running();
    point.kv_blocks += engine.scheduler().kv().used.value;
  }
  if (routed()) point.waiting += router_->router().waiting();
  if (two_routers()) point.waiting += decode_router_->router().waiting();
  return point;
}

template <class Scheduler>
RunState VirtualCluster<Scheduler>::State() const {
  RunState state{Point(), progress_.calls_over()};
  for (const auto& engine : engines_) {
    state.kv_blocks += engine.scheduler().kv().total.value;
    state.output_tokens += engine.scheduler().stats().tokens_output;
  }
  return state;
}

// ---- workflows -----------------------------------------------------------------------------------------------------

template <class Scheduler>
void VirtualCluster<Scheduler>::StartWorkflow(std::uint32_t index) {
  if (options_.declare_workflows) {
    const WorkloadWorkflow& w = workload_->workflows[index];
    const TimePoint deadline = WorkloadProgress::DeadlineOf(w, now_);
    router_->On(WorkflowDeclared{{.id = WorkloadProgress::IdOf(index), .tenant = {w.tenant}, .deadline = deadline}},
                now_, {});
  }
  progress_.Start(index, now_, [this](std::uint32_t call) { Succeed(call); });
}

// Schedules a call whose predecessors have all ended.
template <class Scheduler>
void VirtualCluster<Scheduler>::Succeed(std::uint32_t call) {
  const Duration delay = Sum(CallOf(call).delay, FrontEndOf(call));
  if (options_.tell_turns) {
    next_uses_->Set(WorkloadProgress::IdOf(requests_.records[call].workflow), CallOf(call).branch, After(now_, delay));
  }
  if (delay > Duration::zero()) {
    At(After(now_, delay), Timed::kCall, call);
  } else {
    MakeCall(call);
  }
}

template <class Scheduler>
void VirtualCluster<Scheduler>::MakeCall(std::uint32_t call) {
  Arrived arrived{progress_.Make(call, now_)};
  TimePoint& arrival = requests_.records[call].arrival;
  arrival = Before(arrival, FrontEndOf(call));
  arrived.request.next_call = NextTool(call);
  if (const WorkloadCall& c = CallOf(call); options_.send_prefixes && (c.hashes > 0 || c.runs > 0)) {
    const auto hashes = workload_->PrefixOf(requests_.records[call].workflow, c, prefix_);
    arrived.request.prefix = {{workload_->prefix_block_tokens}, hashes};
  }
  requests_.state[call].prompt = arrived.request.prompt_tokens.value;
  if (two_routers()) hands_[call].decodes = arrived.request.prompt_tokens.value <= options_.deflect_tokens;
  if (routed()) {
    NotifyRouter(call, arrived, UpstreamOf(call));
  } else {
    SendTo(0, std::move(arrived));
  }
}

// Returns the agent of the call's predecessor that ended last.
template <class Scheduler>
AgentId VirtualCluster<Scheduler>::UpstreamOf(std::uint32_t call) const {
  const std::uint32_t first = workload_->workflows[requests_.records[call].workflow].first_call;
  AgentId upstream;
  TimePoint latest = TimePoint::min();
  for (const std::uint32_t before : workload_->predecessors_of(CallOf(call))) {
    if (requests_.records[first + before].end <= latest) continue;
    latest = requests_.records[first + before].end;
    upstream = {CallOf(first + before).agent};
  }
  return upstream;
}

// Sends the call to an engine. Its output length is that of the engine's model.
template <class Scheduler>
void VirtualCluster<Scheduler>::SendTo(std::uint32_t instance, Arrived arrived) {
  const std::uint32_t call = VirtualRequests::IndexOf(arrived.request.id);
  progress_.Place(call, engines_[instance].options().model, arrived.request);
  SetLeg(call);
  Notify(instance, arrived);
  VirtualRequest& state = requests_.state[call];
  if (!OnlyPrompts(instance) || state.stop_at == 1) return;
  state.to_stop -= std::exchange(state.stop_at, 1) - 1;
  state.engine = static_cast<std::uint16_t>(instance);
  hands_[call].from = instance;
  Notify(instance, KvPinned{arrived.request.id});
}

// ---- disaggregated prefill -----------------------------------------------------------------------------------------

// Handles the end of a prefill. Returns true if another engine continues with the call. On that engine, the call's
// prompt has one more token. The KV of all tokens except the last is transferred.
template <class Scheduler>
bool VirtualCluster<Scheduler>::HandsOver(std::uint32_t call) {
  if (!apart() || hands_[call].from == kNone || hands_[call].decodes) return false;
  const RequestId id = VirtualRequests::IdOf(call);
  const Request request = SecondLegOf(call);
  NotifyRouter(call, two_routers() ? RouterEvent(RequestEnded{id, {}, false, ServedTo(call, 1)})
                                   : RouterEvent(PrefillEnded{id, {}}));
  SetLeg(call);
  requests_.state[call].handed = true;
  hands_[call].decodes = true;
  if (two_routers()) NotifyRouter(call, Arrived{request});
  else SendKv(call, hands_[call].next);
  return true;
}

// Returns the request that continues after the first token. Its prompt includes that token.
template <class Scheduler>
Request VirtualCluster<Scheduler>::SecondLegOf(std::uint32_t call) const {
  Request request = router_->router().Find(VirtualRequests::IdOf(call))->request;
  request.prefix = {}, request.scores = {};  // these spans refer to memory of the router
  ++request.prompt_tokens.value;
  if (request.max_output_tokens.value > 1) --request.max_output_tokens.value;
  return request;
}

// The transfer waits until both links are free.
template <class Scheduler>
void VirtualCluster<Scheduler>::SendKv(std::uint32_t call, std::uint32_t to) {
  Hand& hand = hands_[call];
  hand.to = to;
  Link &out = links_[hand.from], &in = links_[to];
  const double bytes = requests_.state[call].prompt * engines_[hand.from].cost().model().kv_bytes_per_token;
  const TimePoint done =
      After(std::max({now_, out.out_free, in.in_free}), FromSeconds(bytes / (options_.kv_link_gb_s * 1e9)));
  out.out_free = in.in_free = done;
  At(done, Timed::kKvArrived, call);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::KvCame(std::uint32_t call) {
  const RequestId id = VirtualRequests::IdOf(call);
  const RequestState* state = RouterWith(call).router().Find(id);
  if (state == nullptr) return;  // the call failed during the transfer
  VirtualRequest& request = requests_.state[call];
  request.engine = static_cast<std::uint16_t>(hands_[call].to);
  request.void_through = 0;  // the number referred to plans of the previous engine
  Notify(hands_[call].to, Arrived{two_routers() ? state->request : SecondLegOf(call)});
  Notify(hands_[call].to, KvArrived{id, {request.prompt}});
}

// Frees the KV of a call that has started on another engine or ended.
template <class Scheduler>
void VirtualCluster<Scheduler>::FreeKv(std::uint32_t call) {
  const std::uint32_t from = std::exchange(hands_[call].from, kNone);
  if (from != kNone) Notify(from, KvFreed{VirtualRequests::IdOf(call)});
}

// Sets the next stop of a call.
template <class Scheduler>
void VirtualCluster<Scheduler>::SetLeg(std::uint32_t index) {
  const WorkloadCall& call = CallOf(index);
  VirtualRequest& state = requests_.state[index];
  const std::int32_t generated = state.generated();
  state.last_stop = tool_of_.empty() || tool_of_[index] == call.first_tool + call.tools;
  state.stop_at = state.last_stop ? progress_.OutputOf(index) : workload_->tools[tool_of_[index]].after_tokens;
  state.to_stop = state.stop_at - generated;
}

// Returns the expected next tool call, or none.
template <class Scheduler>
NextCall VirtualCluster<Scheduler>::NextTool(std::uint32_t call) const {
  if (requests_.state[call].last_stop) return {};
  return progress_.estimator().Tool(tool_of_[call], requests_.state[call].generated());
}

template <class Scheduler>
void VirtualCluster<Scheduler>::CallTool(std::uint32_t call) {
  const std::uint32_t tool = tool_of_[call];
  const NextCall expected = progress_.estimator().Tool(tool, requests_.state[call].generated());
  Notify(requests_.records[call].instance,
         ToolCalled{VirtualRequests::IdOf(call), expected.duration, expected.returned, expected.tool});
  At(After(now_, workload_->tools[tool].duration), Timed::kToolReturn, call);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::ReturnFromTool(std::uint32_t call) {
  if (requests_.records[call].outcome != Outcome::kPending) return;  // the call failed during the tool call
  const std::uint32_t tool = tool_of_[call]++;
  const std::int32_t returned = workload_->tools[tool].returned_tokens;
  const bool first = tool == CallOf(call).first_tool;
  progress_.estimator().ToolEnded(tool, first ? 0 : workload_->tools[tool - 1].after_tokens);
  requests_.state[call].returned += returned;
  SetLeg(call);
  Notify(requests_.records[call].instance, ToolReturned{VirtualRequests::IdOf(call), {returned}, NextTool(call)});
}

// Returns the tokens computed for a call with this output.
template <class Scheduler>
TokensServed VirtualCluster<Scheduler>::ServedTo(std::uint32_t call, std::int32_t output) const {
  const VirtualRequest& request = requests_.state[call];
  const RequestRecord& record = requests_.records[call];
  std::int32_t once = std::min(request.computed, request.prompt + request.returned) - record.cached_tokens;
  if (apart() && hands_[call].to != kNone) once = 0;  // another engine computed these tokens
  return {{std::max(once, 0) + record.recomputed_tokens}, {output}};
}

// Sends TurnEnded with the reason for the wait, or kOver for the last turn of the branch.
template <class Scheduler>
void VirtualCluster<Scheduler>::ReportTurnEnded(std::uint32_t index) {
  const WorkloadCall& call = CallOf(index);
  const WorkloadWorkflow& workflow = workload_->workflows[requests_.records[index].workflow];
  const std::span<const WorkloadCall> later = workload_->calls_of(workflow).subspan(index - workflow.first_call + 1);
  const auto next = std::ranges::find(later, call.branch, &WorkloadCall::branch);
  const bool more = next != later.end();
  const TurnWhy why = !more                         ? TurnWhy::kOver
                      : call.then == TurnEnd::kTool ? TurnWhy::kTool
                      : call.then == TurnEnd::kUser ? TurnWhy::kUser
                                                    : TurnWhy::kUnknown;
  TurnEnded ended{WorkloadProgress::IdOf(requests_.records[index].workflow), call.branch, why};
  // The next call waits only for this one.
  if (more && options_.tell_gaps > 0 && next->predecessors == 1 &&
      workload_->predecessors[next->first_predecessor] == index - workflow.first_call) {
    ended.expected = FromSeconds(ToSeconds(next->delay) * options_.tell_gaps);
  }
  Notify(requests_.records[index].instance, ended);
}

// Marks requests that a gate keeps out at the end of a run.
template <class Scheduler>
void VirtualCluster<Scheduler>::NoteGated() {
  for (std::uint32_t call = 0; call < requests_.records.size(); ++call) {
    RequestRecord& record = requests_.records[call];
    if (record.outcome != Outcome::kPending || record.arrival == kNever || record.first_step != kNever) continue;
    for (const VirtualEngine<Scheduler>& engine : engines_) {
      if (engine.scheduler().stats().gate_refused == 0) continue;
      record.gated |= engine.scheduler().Explain(VirtualRequests::IdOf(call)).waits_for == WaitsFor::kGate;
    }
  }
}

// Handles a call that has left its engine.
template <class Scheduler>
void VirtualCluster<Scheduler>::Left(std::uint32_t call, Outcome outcome, FailReason reason) {
  if (outcome == Outcome::kCompleted && HandsOver(call)) return;
  if (routed()) {
    const TokensServed served = ServedTo(call, requests_.state[call].generated());
    NotifyRouter(call, RequestEnded{VirtualRequests::IdOf(call), {}, outcome != Outcome::kCompleted, served});
  }
  Ended(call, outcome, reason);
}

template <class Scheduler>
void VirtualCluster<Scheduler>::Ended(std::uint32_t call, Outcome outcome, FailReason reason) {
  requests_.records[call].output_tokens = requests_.state[call].generated();
  if (apart()) FreeKv(call);
  if (options_.tell_turns && requests_.records[call].first_step != kNever) ReportTurnEnded(call);
  const bool last = progress_.End(call, outcome, reason, now_, [this](std::uint32_t next) { Succeed(next); });
  if (last && options_.end_workflows) {
    const std::uint32_t workflow = requests_.records[call].workflow;
    const bool cancelled = progress_.workflows()[workflow].outcome != Outcome::kCompleted;
    router_->On(WorkflowEnded{WorkloadProgress::IdOf(workflow), cancelled}, now_, {});
  }
  if (last && options_.tell_turns) {
    for (std::uint32_t i = 0; i < engines_.size(); ++i) {
      Notify(i, WorkflowEnded{WorkloadProgress::IdOf(requests_.records[call].workflow)});
    }
  }
  if (last && options_.closed_loop > 0 && next_workflow_ < workload_->workflows.size()) {
    StartWorkflow(static_cast<std::uint32_t>(next_workflow_++));
  }
}

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_CLUSTER_H_
