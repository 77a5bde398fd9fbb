// Hosts shared by benchmarks of a step. SchedulerT is the C++ scheduler, or has the same On, Plan and Commit.
#ifndef TAKT_BENCH_STEP_HOSTS_H_
#define TAKT_BENCH_STEP_HOSTS_H_

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/scheduler.h"

namespace takt {

inline constexpr double kChurn = 1.2;  // average requests that finish, arrive and are admitted in a step

// A host whose requests look equal to the engine and different to the policy.
template <class SchedulerT>
class ChurnHost {
 public:
  using Clock = std::chrono::steady_clock;

  // `governed`: requests have one of 8 tenants and one of 3 priorities.
  ChurnHost(SchedulerT scheduler, int running, std::int64_t waiting, bool by_exception = false, bool governed = false)
      : scheduler_(std::move(scheduler)),
        limits_{.tokens = {8192}, .max_seqs = running},
        by_exception_(by_exception),
        governed_(governed) {
    for (std::int64_t i = 0; i < running + waiting; ++i) Arrive();
    rows_.reserve(static_cast<std::size_t>(running));
  }

  SchedulerT& scheduler() { return scheduler_; }

  // Time of On, Plan and Commit in one step.
  std::chrono::duration<double> Step() {
    const auto start = Clock::now();
    const auto& plan = scheduler_.Plan(Now(), limits_);
    const auto planned = Clock::now();
    Compute(plan);
    const auto computed = Clock::now();
    scheduler_.Commit(result_, Now());
    for (; ended_ > 0; --ended_) Arrive();
    return (planned - start) + (Clock::now() - computed);
  }

  // Time of the last step's results and the next step's plan, in one call if there is one.
  std::chrono::duration<double> CommitAndPlan() {
    for (; ended_ > 0; --ended_) Arrive();
    const auto start = Clock::now();
    const auto& plan = [&]() -> const auto& {
      if constexpr (requires { scheduler_.Step(result_, Now(), limits_); }) {
        return scheduler_.Step(result_, Now(), limits_);
      } else {
        if (result_.step) scheduler_.Commit(result_, Now());
        return scheduler_.Plan(Now(), limits_);
      }
    }();
    const auto took = Clock::now() - start;
    Compute(plan);
    return took;
  }

 private:
  TimePoint Now() { return TimePoint(Duration(now_ += 1'000'000)); }

  // Runs a plan: rows_ has the results, ended_ the number of finished requests.
  template <class Plan>
  void Compute(const Plan& plan) {
    rows_.clear();
    for (const PlanEntry& e : plan.run) {
      rows_.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples() ? 1 : 0), 0, 0});
    }
    int ends = random_.Chance(kChurn - 1) ? 2 : 1;
    while (ends > 0) {
      RowResult& row = rows_[random_.Below(rows_.size())];
      if (row.tokens == 0) continue;
      row.flags = RowResult::kFinished;
      --ends;
    }
    for (const RowResult& row : rows_) ended_ += row.finished() ? 1 : 0;
    if (by_exception_) std::erase_if(rows_, [](const RowResult& row) { return row.tokens == 1 && row.flags == 0; });
    result_ = {plan.id, rows_, by_exception_};
  }

  void Arrive() {
    event_.request.id = {++last_id_};
    event_.request.workflow = {1 + last_id_ / 3};
    event_.request.prompt_tokens = {32};
    if (governed_) {
      event_.request.tenant = {1 + last_id_ % 8};
      event_.request.priority = static_cast<std::int32_t>(last_id_ % 3);
    }
    const auto length = static_cast<std::int64_t>(1 + random_.Below(1'000'000));
    event_.request.output_tokens = Estimate::Exact(static_cast<double>(length));
    event_.request.compute = Duration(length * 10'000);
    event_.request.deadline = TimePoint(Duration(now_ + length * 100'000));
    scheduler_.On(event_, TimePoint(Duration(now_)));
  }

  SchedulerT scheduler_;
  StepLimits limits_;
  bool by_exception_, governed_;
  std::vector<RowResult> rows_;
  StepResult result_;
  std::int64_t ended_ = 0;
  Arrived event_;
  Random random_{1};
  std::uint64_t last_id_ = 0;
  std::int64_t now_ = 0;
};

// A host's block manager with room for all. In blocks of one token, every row grows at every step.
class EndlessMemory final : public KvOracle {
 public:
  explicit EndlessMemory(Tokens block_tokens = {1}) : block_tokens_(block_tokens) {}

  Tokens block_tokens() const override { return block_tokens_; }
  KvSnapshot Snapshot() const override { return {{1 << 30}, {1 << 30}, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    for (KvReservation& wish : wishes) wish.granted = true;
  }
  Blocks Release(RequestId, KvAction) override { return {0}; }

 private:
  Tokens block_tokens_;
};

// Rows that never end and ask for a block at every step. SchedulerT must count memory by EndlessMemory.
template <class SchedulerT>
class GrowthHost {
 public:
  GrowthHost(SchedulerT scheduler, std::int32_t rows) : scheduler_(std::move(scheduler)), rows_(rows) {
    results_.reserve(static_cast<std::size_t>(rows));
    for (std::int32_t i = 1; i <= rows; ++i) {
      scheduler_.On(Arrived{{.id = {static_cast<std::uint64_t>(i)}, .prompt_tokens = {4}}}, now_);
    }
  }

  // Time of a plan.
  std::chrono::duration<double> Step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto& plan = scheduler_.Plan(now_ += Duration(1'000'000), {.tokens = Tokens::Max(), .max_seqs = rows_});
    const auto took = Clock::now() - start;
    results_.clear();
    for (const PlanEntry& e : plan.run) results_.push_back({e.request, e.lane, 1});
    scheduler_.Commit({plan.id, results_}, now_);
    return took;
  }

 private:
  SchedulerT scheduler_;
  std::int32_t rows_;
  std::vector<RowResult> results_;
  TimePoint now_{};
};

}  // namespace takt

#endif  // TAKT_BENCH_STEP_HOSTS_H_
