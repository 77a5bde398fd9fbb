// A host's step loop, with an engine that takes 10 ms a step and ends every answer after 3 tokens.
#include <cstdio>
#include <vector>

#include "takt/policy/sjf.h"
#include "takt/scheduler.h"

int main() {
  using namespace takt;
  auto scheduler = BasicScheduler<Sjf>::Create({.kv_blocks = {1000}}, Sjf{});
  if (!scheduler.ok()) return std::puts(scheduler.status().ToString().c_str()), 1;

  TimePoint now{};  // the host's clock; takt reads none
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request request{.id = {id}, .prompt_tokens = {static_cast<int>(400 * id)}};
    request.output_tokens = Estimate::Exact(static_cast<double>(10 - id));
    scheduler->On(Arrived{request}, now);
  }

  std::vector<int> output(4);
  std::vector<RowResult> rows;
  while (true) {
    const StepPlan& plan = scheduler->Plan(now, {.tokens = {512}, .max_seqs = 2});
    if (plan.run.empty()) break;  // plan.idle has the reason, plan.wake_at the time of the next plan

    now += std::chrono::milliseconds(10);  // here an engine computes the plan's entries
    rows.clear();
    for (const PlanEntry& e : plan.run) {
      const bool token = e.samples();  // this entry reaches the last known token, so it yields a new one
      const bool last = token && ++output[e.request.value] == 3;
      std::printf("%5.0f ms  request %d: %3d tokens from %d%s\n", ToSeconds(now) * 1e3,
                  static_cast<int>(e.request.value), e.tokens, e.position, last ? ", done" : "");
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(token), 0,
                      static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
    }
    scheduler->Commit({plan.id, rows}, now);
  }
}
