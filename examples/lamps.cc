// LAMPS (Shahout et al., 2024) on a toy engine: 240 requests that call a fast or a slow tool. It learns the tools, and
// runs requests first that occupy little memory for a short time.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "takt/policy/fcfs.h"
#include "takt/systems/lamps.h"

using namespace takt;

constexpr double kSeconds[] = {0.2, 4};  // duration of the tools
constexpr Tokens kAnswer[] = {{10}, {80}};
struct Job {
  int arrives, prompt, before, after, output = 0;  // ms, then tokens; before and after its tool call
};

void Serve(const char* name, auto scheduler, std::vector<Job> jobs) {
  std::vector<double> latency;
  std::vector<std::pair<TimePoint, RequestId>> calls;  // open tool calls, and when their tools answer
  TimePoint now{};
  for (std::size_t next = 0; latency.size() < jobs.size();) {
    for (; next < jobs.size() && jobs[next].arrives <= ToSeconds(now) * 1e3; ++next) {
      const NextCall call{.tool = {1 + next % 2}};  // the prompt names the tool
      scheduler.On(Arrived{{.id = {next + 1}, .prompt_tokens = {jobs[next].prompt}, .next_call = call}}, now);
    }
    for (const auto& [when, id] : calls) {
      if (when <= now) scheduler.On(ToolReturned{id, kAnswer[(id.value - 1) % 2]}, now);
    }
    std::erase_if(calls, [&](const auto& call) { return call.first <= now; });
    const StepPlan& plan = scheduler.Plan(now, {.tokens = {512}, .max_seqs = 16});
    now += std::chrono::microseconds(10'000 + 100 * plan.tokens.value);  // here an engine computes the plan's entries
    std::vector<RowResult> rows;
    std::vector<RequestId> calling;
    for (const PlanEntry& e : plan.run) {
      Job& job = jobs[e.request.value - 1];
      if (e.samples() && ++job.output == job.before) calling.push_back(e.request);
      const bool last = job.output == job.before + job.after;
      if (last) latency.push_back(ToSeconds(now) - job.arrives / 1e3);
      rows.push_back({e.request, e.lane, e.samples(), 0, static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
    }
    if (!plan.run.empty()) scheduler.Commit({plan.id, rows}, now);
    for (const RequestId id : calling) {
      scheduler.On(ToolCalled{.request = id, .tool = {1 + (id.value - 1) % 2}}, now);
      calls.emplace_back(now + FromSeconds(kSeconds[(id.value - 1) % 2]), id);
    }
  }
  double sum = 0;
  for (const double seconds : latency) sum += seconds;
  std::ranges::sort(latency);
  std::printf("%-5s mean %.2f s, p95 %.2f s, promoted %d\n", name, sum / 240, latency[228],
              static_cast<int>(scheduler.stats().promoted));
}

int main() {
  std::vector<Job> jobs;
  for (int i = 0; i < 240; ++i) jobs.push_back({i * 100, 60 + i * 37 % 300, 10 + i * 13 % 60, 5 + i * 7 % 50});
  Serve("FCFS", *BasicScheduler<Fcfs, DropAll>::Create({.kv_blocks = {200}}), jobs);
  Serve("LAMPS", *systems::Lamps::Create({.scheduler = {.kv_blocks = {200}}}), jobs);
}
