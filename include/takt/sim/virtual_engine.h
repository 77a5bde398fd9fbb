// A simulated engine: a host of the scheduler whose step times come from a cost model.
#ifndef TAKT_SIM_VIRTUAL_ENGINE_H_
#define TAKT_SIM_VIRTUAL_ENGINE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/time.h"
#include "takt/config.h"
#include "takt/model/call_time.h"
#include "takt/model/cost_model.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/sim/metrics.h"
#include "takt/sim/virtual_options.h"
#include "takt/kv/kv_ledger.h"
#include "takt/workload/workload.h"

namespace takt {

// Engine state of a request. Request i of a run has the id i + 1.
struct VirtualRequest {
  std::int32_t prompt = 0;
  std::int32_t returned = 0;  // tokens added by tools
  std::int32_t stop_at = 0;  // output tokens at the request's next stop: a tool call or the end
  std::int32_t to_stop = 0;  // output tokens until that stop; the lane counts these while the request runs
  std::int32_t computed = 0;  // tokens whose KV was computed at least once; computing them again is recomputation
  std::uint32_t lane = kNoLane;
  std::uint64_t void_through = 0;  // number of the last plan of the engine that is void for the request
  std::uint32_t adapter = 0;  // adapter that the request needs; 0: none
  bool last_stop = true;  // true: stop_at is the end
  bool decoding = false;  // true: the request's prefill has finished since admission
  bool handed = false;  // true: the KV came from another engine, and the request has not started on this engine
  std::uint16_t engine = kAnyEngine;  // current engine of a request that moves; plans of other engines are void

  static constexpr std::uint16_t kAnyEngine = 0xffff;

  std::int32_t generated() const { return stop_at - to_stop; }
};

// The requests of a run, shared by all engines of a cluster.
struct VirtualRequests {
  std::vector<VirtualRequest> state;
  std::vector<RequestRecord> records;

  static std::uint32_t IndexOf(RequestId id) { return static_cast<std::uint32_t>(id.value - 1); }
  static RequestId IdOf(std::uint32_t index) { return {std::uint64_t{index} + 1}; }
};

// A step at its start, for traces. Rows of requests that have left since the plan are in `plan` but not in `rows`.
struct VirtualStep {
  std::uint16_t instance = 0;
  TimePoint start{}, end{};
  std::int64_t waiting = 0;  // number of requests that the plan leaves waiting
  WaitsFor head = WaitsFor::kNothing;  // why the first of them waits; not set by_exception
  const StepPlan& plan;
  std::span<const RowResult> rows;
};

// Scheduler: any BasicScheduler. The owner's loop calls, at each time when something happens:
//   On(event, now)   for each event
//   Resolve(now)     if now == step_end(): commits the step; then finished() and tool_calls() list the stopped requests
//   Start(now)       after all events: plans, and starts a step if none runs
// After Start(), the owner must handle failed() and moves(). One sequence per request; no draft tokens.
template <class Scheduler>
class VirtualEngine {
 public:
  struct Move {
    MoveId id;
    TimePoint done{};
  };

  // `cost` and `requests` must outlive the engine.
  VirtualEngine(Scheduler scheduler, const PreparedCostModel& cost, const VirtualEngineOptions& options,
                VirtualRequests& requests)
      : scheduler_(std::move(scheduler)), cost_(&cost), options_(options), requests_(&requests) {
    options_.overlap = std::clamp(options.overlap, 0, static_cast<int>(planned_.size()) - 1);
  }

  template <class E>
  void On(const E& event, TimePoint now) {
    scheduler_.On(event, now);
    news_ = true;
  }

  bool busy() const { return busy_; }
  TimePoint step_end() const { return busy_ ? step_end_ : kNever; }
  TimePoint wake_at() const { return busy_ ? kNever : wake_at_; }  // time of the next Start if no event comes earlier

  void Resolve(TimePoint now);
  void Start(TimePoint now);

  // Indices of requests that finished in the last Resolve, and of requests that called a tool.
  std::span<const std::uint32_t> finished() const { return finished_; }
  std::span<const std::uint32_t> tool_calls() const { return tool_calls_; }
  // Lists that grow until the owner clears them: indices of requests whose first step here began, failures, moves.
  std::vector<std::uint32_t>& started() { return started_; }
  std::vector<Failure>& failed() { return failed_; }
  std::vector<Move>& moves() { return moves_; }

  // Calls f(index, output tokens so far) for each request with a lane.
  template <class F>
  void ForEachRunning(F&& f) const {
    for (const Lane& lane : lanes_) {
      if (lane.request == 0) continue;
      const std::uint32_t index = lane.request - 1;
      f(index, requests_->state[index].stop_at - ToStop(lane));
    }
  }

  // The running step.
  VirtualStep step() const {
    const Planned& plan = planned_[0];
    return {options_.instance, step_start_, step_end_, plan.waiting, plan.head, *plan.plan, rows_};
  }
  std::int64_t steps() const { return steps_; }
  std::int64_t request_steps() const { return request_steps_; }
  std::int64_t adapter_loads() const { return adapter_loads_; }
  Idle idle() const { return idle_; }
  const TimeMean& kv_blocks_used() const { return kv_blocks_used_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const VirtualEngineOptions& options() const { return options_; }
  const PreparedCostModel& cost() const { return *cost_; }

 private:
  struct Lane {
    std::uint32_t request = 0;  // id of the lane's request; 0: none
    bool steady = false;  // a steady row
    std::int64_t stop = 0;  // output tokens until the request stops; for a steady row, number of the step that stops it
    std::int64_t kept = 0;  // last step in which a steady row was out of place
    std::int64_t base = 0;  // position minus step number, for a steady row
  };
  struct Adapter {
    std::uint32_t id = 0;
    std::int32_t rows = 0;  // number of rows that use the adapter
  };
  // The expected stop of a steady row, valid if the lane has the same stop.
  struct Stop {
    std::int64_t step = 0;
    std::uint32_t lane = 0, request = 0;

    // Reversed, so that the top of the heap is the earliest stop.
    friend bool operator<(const Stop& a, const Stop& b) { return a.step > b.step; }
  };

  bool PlanOne(TimePoint now);
  void Begin(TimePoint now);
  static std::size_t CountSteady(std::span<const PlanEntry> run, std::span<const PlanEntry> steady);
  bool BeginClosely(const StepPlan& plan, std::size_t place, TimePoint now, StepLoad& load);
  void FindStops(std::span<const PlanEntry> run);
  std::int32_t ToStop(const Lane& lane) const {
    return static_cast<std::int32_t>(lane.steady ? lane.stop - steps_ : lane.stop);
  }
  // Ends a row's steady state.
  void Loosen(Lane& lane) {
    lane.stop = ToStop(lane);
    steady_bases_ -= std::exchange(lane.base, 0);
    lane.steady = false;
  }
  void DropSteady(std::uint32_t lane, std::size_t place = 0);
  bool Seated(const PlanEntry& entry) const {
    return entry.lane < lanes_.size() && lanes_[entry.lane].request == entry.request.value;
  }
  bool Seat(const PlanEntry& entry, StepId step);
  void Unseat(RequestId id);
  void UseAdapter(std::uint32_t id);
  void StartMove(const KvMove& move, TimePoint now);
  TimePoint Copy(std::int64_t blocks, TimePoint& link, TimePoint now);

  Scheduler scheduler_;
  const PreparedCostModel* cost_;
  VirtualEngineOptions options_;
  VirtualRequests* requests_;

  struct Planned {
    const StepPlan* plan = nullptr;
    std::int64_t waiting = 0;  // number of requests that the plan leaves waiting
    WaitsFor head = WaitsFor::kNothing;  // why the first of them waits
  };
  std::array<Planned, 3> planned_ = {};  // plans in flight; [0] runs if busy_
  int plans_ = 0;
  std::uint64_t newest_step_ = 0;
  bool busy_ = false;
  bool news_ = false;  // true: an event came since the last plan
  TimePoint step_start_{}, step_end_{};
  TimePoint wake_at_ = kNever;
  Idle idle_ = Idle::kNoRequests;

  std::vector<Lane> lanes_;
  std::vector<PlanEntry> steady_;  // rows of the newest step that only decode, in order
  std::int64_t steady_bases_ = 0;  // sum of Lane::base over the rows in steady_
  std::vector<PlanEntry> rest_;  // used by Begin: steady rows from the first one out of place
  std::vector<Stop> steady_stops_;  // a heap
  std::vector<std::size_t> stop_places_;  // places of these rows in the starting step
  std::vector<RowResult> rows_;  // results of the running step
  std::vector<std::uint32_t> stops_;  // indices of requests that stop with the running step
  std::vector<std::uint32_t> first_tokens_;
  std::vector<std::uint32_t> finished_, tool_calls_, started_;
  std::vector<Failure> failed_;
  std::vector<Move> moves_;
  TimePoint link_free_out_{}, link_free_in_{};
  TimePoint stalled_until_{};  // end of a stall by KV moves; no step computes earlier

  TimeMean kv_blocks_used_;
  std::int64_t steps_ = 0, request_steps_ = 0;
  std::vector<Adapter> adapters_;  // loaded adapters, the least recently used first
  std::int64_t adapter_loads_ = 0;
};

template <class Scheduler>
void VirtualEngine<Scheduler>::Start(TimePoint now) {
  if (busy_) return;
  if (plans_ == 0 && !news_ && now < wake_at_) return;
  news_ = false;
  while (plans_ <= options_.overlap && PlanOne(now)) {
  }
  if (plans_ > 0) Begin(now);
  kv_blocks_used_.Set(now, scheduler_.kv().used.value);
}

// Returns false if nothing can run.
template <class Scheduler>
bool VirtualEngine<Scheduler>::PlanOne(TimePoint now) {
  const StepPlan& plan = scheduler_.Plan(now, options_.limits);
  for (const Preemption& p : plan.preempted) {
    Unseat(p.request);
    ++requests_->records[VirtualRequests::IndexOf(p.request)].preemptions;
  }
  for (const Failure& f : plan.failed) {
    Unseat(f.request);
    failed_.push_back(f);
  }
  std::int64_t copies = 0;
  for (const HostChunk& chunk : plan.host_chunks) copies += chunk.action == KvAction::kOut ? chunk.blocks.value : 0;
  if (copies > 0) Copy(copies, link_free_out_, now);
  for (const KvMove& move : plan.moves) StartMove(move, now);
  idle_ = plan.idle;
  wake_at_ = plan.wake_at;
  if (plan.run.empty()) return false;
  planned_[static_cast<std::size_t>(plans_++)] = {
      &plan, scheduler_.waiting(), options_.by_exception ? WaitsFor::kNothing : scheduler_.HeadWaitsFor()};
  newest_step_ = plan.id.value;
  return true;
}

// Returns the length of the common prefix of `run` and `steady`, comparing all fields except the positions.
template <class Scheduler>
std::size_t VirtualEngine<Scheduler>::CountSteady(std::span<const PlanEntry> run, std::span<const PlanEntry> steady) {
  static_assert(std::endian::native == std::endian::little && offsetof(PlanEntry, position) == 16);
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::uint64_t kNoPosition = ~std::uint64_t{0xffffffff};
  constexpr std::size_t kBlock = 8, kPair = 2 * sizeof(PlanEntry) / sizeof(Words);  // two entries equal three words
  const std::size_t both = std::min(run.size(), steady.size());
  std::size_t i = 0;
  for (; i + kBlock <= both; i += kBlock) {
    std::array<Words, kPair> difference = {};
    for (std::size_t w = 0; w < kBlock / 2 * kPair; ++w) {
      Words entry, row;
      std::memcpy(&entry, reinterpret_cast<const char*>(&run[i]) + w * sizeof entry, sizeof entry);
      std::memcpy(&row, reinterpret_cast<const char*>(&steady[i]) + w * sizeof row, sizeof row);
      difference[w % kPair] |= entry ^ row;
    }
    const auto& [first, middle, last] = difference;
    if ((first[0] | first[1] | (middle[0] & kNoPosition) | middle[1] | last[0] | (last[1] & kNoPosition)) != 0) break;
  }
  const auto same = [](PlanEntry entry, const PlanEntry& row) {
    entry.position = row.position;
    return entry == row;
  };
  while (i < both && same(run[i], steady[i])) ++i;
  return i;
}

// Starts a step: computes its cost and the result of each row. The work is proportional to the rows that are not
// steady.
template <class Scheduler>
void VirtualEngine<Scheduler>::Begin(TimePoint now) {
  const StepPlan& plan = *planned_[0].plan;
  const std::span<const PlanEntry> run = plan.run;
  StepLoad load;
  std::int64_t others = 0;
  const std::int64_t loads_before = adapter_loads_;
  std::size_t at = CountSteady(run, steady_);
  std::span<const PlanEntry> rest;
  if (at < steady_.size()) {
    rest_.assign(steady_.begin() + static_cast<std::ptrdiff_t>(at), steady_.end());
    steady_.resize(at);
    rest = rest_;
  }
  while (at < run.size()) {
    if (const std::size_t n = rest.empty() ? 0 : CountSteady(run.subspan(at), rest); n > 0) {
      steady_.insert(steady_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n));
      rest = rest.subspan(n);
      at += n;
      continue;
    }
    const PlanEntry& entry = run[at++];
    if (entry.flags != PlanEntry::kSamples || !Seated(entry)) {
      others += BeginClosely(plan, at - 1, now, load) ? 1 : 0;
      continue;
    }
    Lane& lane = lanes_[entry.lane];
    if (!lane.steady) {
      lane.steady = true;
      lane.stop += steps_;
      lane.base = entry.position - steps_ - 1;
      steady_bases_ += lane.base;
      steady_stops_.push_back({lane.stop, entry.lane, lane.request});
      std::push_heap(steady_stops_.begin(), steady_stops_.end());
    }
    TAKT_ASSERT(entry.position == lane.base + steps_ + 1);
    lane.kept = steps_ + 1;
    steady_.push_back(entry);
  }
  for (const PlanEntry& row : rest) {
    if (Lane& lane = lanes_[row.lane]; lane.steady && lane.kept <= steps_) Loosen(lane);
  }
  ++steps_;
  const auto decodes = static_cast<std::int64_t>(steady_.size());
  load.decodes += decodes;
  load.decode_context += steady_bases_ + decodes * (steps_ + 1);  // each token also attends to itself
  load.samples += decodes;
  const TimePoint loaded = After(now, Times(options_.adapter_load, adapter_loads_ - loads_before));
  request_steps_ += decodes + others;

  busy_ = true;
  step_start_ = now;
  step_end_ = After(std::max(loaded, stalled_until_), VirtualStepTime(*cost_, load));
  for (const std::uint32_t index : first_tokens_) requests_->records[index].first_token = step_end_;
  first_tokens_.clear();
  rows_.clear();
  for (const PlanEntry& entry : options_.by_exception ? std::span<const PlanEntry>() : run) {
    if (!Seated(entry)) continue;
    rows_.push_back({entry.request, entry.lane, static_cast<std::uint16_t>(entry.samples() ? 1 : 0), 0, 0});
  }
  FindStops(run);
}

// Handles an entry of any kind. Returns false if the plan is void for the request. Such rows only cost time.
template <class Scheduler>
bool VirtualEngine<Scheduler>::BeginClosely(const StepPlan& plan, std::size_t place, TimePoint now, StepLoad& load) {
  const PlanEntry& entry = plan.run[place];
  const std::int32_t end = entry.position + entry.tokens;
  if (entry.prefill()) {
    load.AddPrefill(entry.tokens, entry.position, entry.samples());
  } else {
    load.AddDecode(end);
  }
  if (!Seat(entry, plan.id)) return false;
  const std::uint32_t index = VirtualRequests::IndexOf(entry.request);
  VirtualRequest& request = requests_->state[index];
  RequestRecord& record = requests_->records[index];
  if (record.first_step == kNever) {
    record.first_step = now;
    started_.push_back(index);
    record.instance = options_.instance;
    record.cached_tokens = entry.position;
    record.gated = entry.gated();
  } else if (request.handed) {
    request.handed = false;
    started_.push_back(index);
  }
  if (entry.prefill()) record.recomputed_tokens += std::max(0, std::min(end, request.computed) - entry.position);
  request.computed = std::max(request.computed, end);
  if (!entry.samples()) return true;
  request.decoding = true;
  if (record.first_token == kNever) first_tokens_.push_back(index);
  Lane& lane = lanes_[entry.lane];
  Loosen(lane);
  if (--lane.stop == 0) stop_places_.push_back(place);
  return true;
}

// Finds requests that stop with the started step, in order, and sets the rows of those that end.
template <class Scheduler>
void VirtualEngine<Scheduler>::FindStops(std::span<const PlanEntry> run) {
  for (; !steady_stops_.empty() && steady_stops_.front().step <= steps_; steady_stops_.pop_back()) {
    std::pop_heap(steady_stops_.begin(), steady_stops_.end());
    const Stop& stop = steady_stops_.back();
    const Lane& lane = lanes_[stop.lane];
    if (lane.request != stop.request || !lane.steady || lane.stop != stop.step) continue;
    const auto place = std::ranges::find(run, stop.lane, &PlanEntry::lane) - run.begin();
    stop_places_.push_back(static_cast<std::size_t>(place));
  }
  std::ranges::sort(stop_places_);
  // A request that lost its KV and decodes again may have two entries in the heap.
  const auto repeated = std::ranges::unique(stop_places_);
  stop_places_.erase(repeated.begin(), repeated.end());
  std::size_t dropped = 0;
  for (const std::size_t place : stop_places_) {
    const PlanEntry& entry = run[place];
    if (lanes_[entry.lane].steady) DropSteady(entry.lane, place - dropped++);
    const std::uint32_t index = VirtualRequests::IndexOf(entry.request);
    stops_.push_back(index);
    if (!requests_->state[index].last_stop) continue;
    if (options_.by_exception) rows_.push_back({entry.request, entry.lane, 1, 0, 0});
    const auto row = options_.by_exception ? rows_.end() - 1 : std::ranges::find(rows_, entry.lane, &RowResult::lane);
    row->flags = RowResult::kFinished;
  }
  stop_places_.clear();
}

// `place` is a hint: the row's index, if no earlier row has left or changed.
template <class Scheduler>
void VirtualEngine<Scheduler>::DropSteady(std::uint32_t lane, std::size_t place) {
  Loosen(lanes_[lane]);
  const bool there = place < steady_.size() && steady_[place].lane == lane;
  const auto first = steady_.begin() + static_cast<std::ptrdiff_t>(there ? place : 0);
  steady_.erase(std::find_if(first, steady_.end(), [lane](const PlanEntry& row) { return row.lane == lane; }));
}

// Ensures that the request has the entry's lane. Returns false if the plan is void for the request.
template <class Scheduler>
bool VirtualEngine<Scheduler>::Seat(const PlanEntry& entry, StepId step) {
  if (entry.lane >= lanes_.size()) lanes_.resize(entry.lane + 1);
  if (Seated(entry)) return true;
  VirtualRequest& request = requests_->state[VirtualRequests::IndexOf(entry.request)];
  if (step.value <= request.void_through) return false;
  if (request.engine != VirtualRequest::kAnyEngine && request.engine != options_.instance) return false;
  lanes_[entry.lane] = {.request = static_cast<std::uint32_t>(entry.request.value), .stop = request.to_stop};
  request.lane = entry.lane;
  request.decoding = !entry.prefill();
  if (request.adapter != 0) UseAdapter(request.adapter);
  return true;
}

// Counts a row that uses the adapter, and loads the adapter if necessary. Evicts the least recently used adapter that
// no row uses.
template <class Scheduler>
void VirtualEngine<Scheduler>::UseAdapter(std::uint32_t id) {
  auto at = std::ranges::find(adapters_, id, &Adapter::id);
  if (at == adapters_.end()) {
    ++adapter_loads_;
    if (std::cmp_greater_equal(adapters_.size(), options_.limits.adapters)) {
      const auto idle = std::ranges::find(adapters_, 0, &Adapter::rows);
      if (idle != adapters_.end()) adapters_.erase(idle);
    }
    at = adapters_.insert(adapters_.end(), {id, 0});
  }
  ++at->rows;
}

// Removes a request from its lane and saves its progress. Plans that have not run yet become void for the request.
template <class Scheduler>
void VirtualEngine<Scheduler>::Unseat(RequestId id) {
  VirtualRequest& request = requests_->state[VirtualRequests::IndexOf(id)];
  request.void_through = newest_step_;
  if (request.lane == kNoLane) return;
  Lane& lane = lanes_[request.lane];
  TAKT_ASSERT(lane.request == id.value);
  if (lane.steady) DropSteady(request.lane);
  request.to_stop = ToStop(lane);
  // Decoding has computed every token except the newest.
  if (request.decoding) {
    request.computed = std::max(request.computed, request.prompt + request.returned + request.generated() - 1);
  }
  request.lane = kNoLane;
  lane = {};
  const auto used = std::ranges::find(adapters_, request.adapter, &Adapter::id);
  if (used == adapters_.end()) return;
  --used->rows;
  std::rotate(used, used + 1, adapters_.end());
}

template <class Scheduler>
void VirtualEngine<Scheduler>::Resolve(TimePoint now) {
  TAKT_ASSERT(busy_ && now == step_end_);
  finished_.clear();
  tool_calls_.clear();
  scheduler_.Commit({planned_[0].plan->id, rows_, options_.by_exception}, now);
  for (const std::uint32_t index : stops_) {
    const VirtualRequest& request = requests_->state[index];
    Unseat(VirtualRequests::IdOf(index));
    (request.last_stop ? finished_ : tool_calls_).push_back(index);
  }
  stops_.clear();
  std::copy(planned_.begin() + 1, planned_.end(), planned_.begin());
  --plans_;
  busy_ = false;
  news_ = true;
}

// Copies wait in one queue per direction; keep and drop take no time. Stalls are sequential and start when the plan
// with the moves is made. The running step does not stall.
template <class Scheduler>
void VirtualEngine<Scheduler>::StartMove(const KvMove& move, TimePoint now) {
  if (move.action == KvAction::kKeep || move.action == KvAction::kDrop) {
    moves_.push_back({move.id, now});
    return;
  }
  TimePoint& link = move.action == KvAction::kOut ? link_free_out_ : link_free_in_;
  moves_.push_back({move.id, Copy(move.count.value, link, now)});
}

// Returns the time when a copy of `blocks` is done.
template <class Scheduler>
TimePoint VirtualEngine<Scheduler>::Copy(std::int64_t blocks, TimePoint& link, TimePoint now) {
  const Duration time = cost_->model().SwapTime(blocks * scheduler_.options().kv_block_tokens.value);
  link = After(std::max(link, now), time);
  const double stall = 1 - options_.swap_overlap;
  if (stall > 0) stalled_until_ = After(std::max(stalled_until_, now), FromSeconds(stall * ToSeconds(time)));
  return link;
}

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_ENGINE_H_
