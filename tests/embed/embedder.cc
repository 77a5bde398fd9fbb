// A host without exceptions and RTTI. It includes every header and serves requests.
#include "all_headers.h"

double FromSecondUnit(const takt::Estimate& estimate);

namespace {

// Steps until all requests have their output tokens. Returns false if the loop stalls.
template <class AnyScheduler>
bool Serve(AnyScheduler& scheduler, int requests, int output_tokens) {
  takt::TimePoint now{};
  for (int i = 1; i <= requests; ++i) {
    const takt::RequestId id{static_cast<std::uint64_t>(i)};
    scheduler.On(takt::Arrived{{.id = id, .prompt_tokens = {100 * i}}}, now);
  }
  std::vector<takt::RowResult> rows;
  std::vector<int> generated(static_cast<std::size_t>(requests) + 1);
  while (scheduler.alive() > 0) {
    const takt::StepPlan& plan = scheduler.Plan(now, {});
    if (plan.run.empty()) return false;
    rows.clear();
    for (const takt::PlanEntry& entry : plan.run) {
      takt::RowResult row{.request = entry.request, .lane = entry.lane, .tokens = entry.samples()};
      if (entry.samples() && ++generated[entry.request.value] == output_tokens) row.flags = takt::RowResult::kFinished;
      rows.push_back(row);
    }
    now += takt::FromSeconds(0.02);
    scheduler.Commit({plan.id, rows}, now);
  }
  return true;
}

}  // namespace

int main() {
  const takt::SchedulerOptions options{.kv_blocks = {1000}};
  auto composed = takt::BasicScheduler<takt::Fcfs>::Create(options, {});
  auto erased = takt::Scheduler::Create(options, takt::Fcfs{});
  const bool served = composed.ok() && Serve(*composed, 50, 5) && erased.ok() && Serve(*erased, 50, 5);
  return served && FromSecondUnit(takt::Estimate::Exact(300)) == 300 ? 0 : 1;
}
