// Kairos before two toy engines with little KV, which serve short questions (Router, Math) and long reports (Research,
// Writer). The rival is FCFS on the least loaded engine.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "takt/base/random.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/systems/kairos.h"

using namespace takt;
constexpr std::size_t kWorkflows = 1000;
constexpr double kTick = 0.1, kGap = 0.55;            // seconds: of a step, between two workflows
constexpr int kKv = 1600, kPrompt = 100, kRate = 25;  // tokens; a running call makes 25 a second
constexpr const char* kAgents[] = {"Router", "Math", "Research", "Writer"};

bool IsLong(std::uint64_t call) { return call / 2 % 3 == 0; }  // workflow w has the calls 2 w and 2 w + 1
double Seconds(std::uint64_t c) { return (IsLong(c) ? 6 : 1) * (c % 2 ? 2 : 1) * (0.8 + 0.4 * Random(c).Uniform()); }

void Compare(const char* name, const systems::KairosOptions& options) {
  auto kairos = systems::Kairos::Create(options);
  for (std::uint64_t i = 1; i <= 2; ++i) kairos->On(InstanceUp{{.id = {i}, .kv_tokens = {kKv}}}, {});
  Random random(1);
  std::vector<std::pair<std::uint64_t, double>> engines[2];  // calls, and their seconds so far
  std::vector<double> latencies, asked;
  const auto call = [&](std::uint64_t id, TimePoint now) {
    const char* const* agents = &kAgents[IsLong(id) ? 2 : 0];
    Request r{.id = {id}, .workflow = {id / 2}, .agent = kairos->Agent(agents[id % 2])};
    r.prompt_tokens = {kPrompt}, r.workflow_arrival = TimePoint(FromSeconds(asked[id / 2 - 1]));
    kairos->On(Arrived{r}, now, id % 2 ? kairos->Agent(agents[0]) : AgentId{});
  };
  for (TimePoint now{}; latencies.size() < kWorkflows; now += FromSeconds(kTick)) {
    const bool arrives = asked.size() < kWorkflows && random.Chance(kTick / kGap);
    if (arrives) asked.push_back(ToSeconds(now)), call(2 * asked.size(), now);
    kairos->Advance(now);  // a host gives the result to the schedulers of its engines
    for (const Placement& p : kairos->Place(now)) engines[p.instance.value - 1].push_back({p.request.value, 0});
    for (auto& engine : engines) {
      double kv = 0, evicted = 0;  // a call that no longer fits is evicted, starts again, and costs the engine a step
      for (auto& [id, done] : engine) evicted += (kv += kPrompt + kRate * done) > kKv && std::exchange(done, 0) > 0;
      for (kv = 0; auto& [id, done] : engine) done += evicted == 0 && (kv += kPrompt + kRate * done) <= kKv ? kTick : 0;
      const auto ended = std::ranges::stable_partition(engine, [](auto& c) { return c.second < Seconds(c.first); });
      for (const auto& [id, done] : ended) {
        kairos->On(RequestEnded{{id}, {}}, now);
        if (id % 2 == 0) call(id + 1, now);
        else kairos->On(WorkflowEnded{{id / 2}}, now), latencies.push_back(ToSeconds(now) - asked[id / 2 - 1]);
      }
      engine.erase(ended.begin(), ended.end());
    }
  }
  std::ranges::sort(latencies);
  const double sum = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  std::printf("%-24s mean %4.1f s  p95 %5.1f s\n", name, sum / kWorkflows, latencies[kWorkflows * 95 / 100]);
}

int main() {
  Compare("FCFS, least loaded", {.policy = Fcfs{}, .placement = LeastLoaded{}});
  Compare("Kairos without its order", {.policy = Fcfs{}});
  Compare("Kairos", {});
}
