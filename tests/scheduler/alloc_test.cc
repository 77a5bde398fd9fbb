// A warm scheduler allocates nothing, under any events. The test counts calls of operator new.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/pause/any_pause.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/registry.h"
#include "takt/queue/waiting_queue.h"
#include "takt/kv/kv_ledger.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

// 200 live requests with memory for a quarter of them. They are chunked, preempted, moved and cancelled, and call
// tools.
class Host {
 public:
  Host(SchedulerOptions options, AnyPolicy policy, AnyPause pause)
      : scheduler_(*Scheduler::Create(options, std::move(policy), std::move(pause))) {
    arrival_.request.prompt_tokens = {1};
    lengths_.resize(kMost), output_.resize(kMost);
    rows_.reserve(64), paused_.reserve(256), moves_.reserve(256);
  }

  void Step() {
    now_ += FromSeconds(0.01);
    for (; scheduler_.alive() < 200; Arrive()) {
    }
    for (MoveId move : moves_) scheduler_.On(MoveDone{move}, now_);
    moves_.clear();
    if (!paused_.empty() && random_.Chance(0.5)) {
      scheduler_.On(ToolReturned{paused_.back(), {20}}, now_);
      paused_.pop_back();
    }
    const StepPlan& plan = scheduler_.Plan(now_, {.tokens = {128}, .max_seqs = 48});
    for (const KvMove& move : plan.moves) moves_.push_back(move.id);
    rows_.clear();
    RequestId calls{};
    for (const PlanEntry& e : plan.run) {
      std::int32_t& length = output_[e.request.value % kMost];
      length += e.samples() ? 1 : 0;
      const bool last = length >= lengths_[e.request.value % kMost];
      rows_.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                       static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
      if (!last && e.samples() && random_.Chance(0.01)) calls = e.request;
    }
    if (!plan.run.empty()) scheduler_.Commit({plan.id, rows_}, now_);
    if (calls) {
      scheduler_.On(ToolCalled{.request = calls}, now_);
      if (scheduler_.Explain(calls).status == RequestStatus::kPaused) paused_.push_back(calls);
    }
    if (random_.Chance(0.05)) scheduler_.On(Cancelled{{last_ - random_.Below(150)}}, now_);
  }

  const Stats& stats() const { return scheduler_.stats(); }

 private:
  static constexpr std::uint64_t kMost = 4096;

  void Arrive() {
    arrival_.request.id = {++last_};
    arrival_.request.tenant = {last_ % 7};
    arrival_.request.priority = static_cast<std::int32_t>(last_ % 3);
    arrival_.request.workflow = {1 + last_ / 3};
    arrival_.request.prompt_tokens = {1 + static_cast<std::int32_t>(random_.Below(300))};
    arrival_.request.expires_at = now_ + FromSeconds(100);
    lengths_[last_ % kMost] = 1 + static_cast<std::int32_t>(random_.Below(60));
    output_[last_ % kMost] = 0;
    arrival_.request.output_tokens = Estimate::Exact(lengths_[last_ % kMost]);
    scheduler_.On(arrival_, now_);
  }

  Scheduler scheduler_;
  Arrived arrival_;
  std::vector<std::int32_t> lengths_, output_;  // by id
  std::vector<RowResult> rows_;
  std::vector<RequestId> paused_;
  std::vector<MoveId> moves_;
  Random random_{5};
  TimePoint now_{};
  std::uint64_t last_ = 0;
};

TEST_CASE("no call allocates after warm-up") {
  for (const char* policy :
       {"fcfs", "sjf", "aged(sjf,threshold=20)", "aged(fair_share)", "bands(bands=0;1:0.2;2:0.2,quantum=99)", "hrrn",
        "room_to_pass", "footprint", "footprint(hopeless_last=true)"}) {
    for (KvAction action : {KvAction::kDrop, KvAction::kOut}) {
      CAPTURE(policy, action);
      const AnyPause pause = action == KvAction::kOut ? AnyPause(SwapAll{}) : AnyPause(KeepAll{});
      Host host({.max_running = 64,
                 .reserve_requests = 512,
                 .preempt_action = action,
                 .kv_blocks = {200},
                 .cpu_blocks = {action == KvAction::kOut ? 2000 : 0},
                 .tenant_kv_share = action == KvAction::kDrop ? 0.95 : 1.0},
                *MakePolicy(policy), pause);
      for (int i = 0; i < 20'000; ++i) host.Step();
      const Stats before = host.stats();
      const std::size_t warm = allocations;
      for (int i = 0; i < 20'000; ++i) host.Step();
      const std::size_t after = allocations;
      CHECK(after == warm);
      CHECK(warm > 0);
      const Stats& stats = host.stats();
      CHECK(stats.finished > before.finished + 300);
      CHECK(stats.cancelled > before.cancelled + 100);
      CHECK(stats.preempted_recompute + stats.preempted_swap + stats.kv_reclaimed >
            before.preempted_recompute + before.preempted_swap + before.kv_reclaimed);
      if (action == KvAction::kOut) CHECK(stats.moves_in > before.moves_in + 10);
    }
  }
}

TEST_CASE("a plan without a step left allocates nothing, now or later") {
  auto scheduler = *Scheduler::Create({.kv_blocks = {40}}, Fcfs{});
  Arrived arrival;
  arrival.request.id = {1};
  arrival.request.prompt_tokens = {8};
  scheduler.On(arrival, {});
  for (int i = 0; i < 3; ++i) CHECK_FALSE(scheduler.Plan({}, {}).run.empty());
  const std::size_t before = allocations;
  scheduler.Plan({}, {});
  scheduler.On(Cancelled{{2}}, {});
  const std::size_t after = allocations;
  CHECK(after == before);
}

TEST_CASE("evicted chunks of prefixes leave their room to others") {
  internal::KvLedger ledger({64}, {16}, {0}, true);
  ledger.MakeRoom(16);
  ledger.dropped().reserve(16);  // until a plan names them
  const std::vector<std::uint64_t> hashes = {1, 2, 3, 4};
  const std::size_t before = allocations;
  ledger.Allocate(4);
  for (std::size_t n = 1; n <= hashes.size(); ++n) static_cast<void>(ledger.Publish(std::span(hashes).first(n), 1));
  ledger.Release(hashes, 1);
  ledger.Allocate(64);
  ledger.MakeRoom(16);
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(ledger.use().cached == Blocks{0});
}

TEST_CASE("a queue has room for its maximum number of requests") {
  WaitingQueue<Fcfs> queue(Fcfs{}, 100);
  Request request;
  const std::size_t before = allocations;
  for (request.id = {1}; request.id.value <= 100; ++request.id.value) queue.Push(request, {});
  CHECK(allocations == before);
}

}  // namespace
}  // namespace takt
