// HexGen-Flow before one fast and two slow toy engines, which run one call at a time. A query makes a long draft, tests
// it three times and answers. The rival is FCFS on the least loaded engine.
#include <algorithm>
#include <cstdio>

#include "takt/base/random.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/systems/hexgen_flow.h"

using namespace takt;
constexpr std::uint64_t kQueries = 400, kStages[] = {1, 2, 2, 2, 3};  // the stage of each call of a query
constexpr int kPrompt = 100, kTokens[] = {1000, 50, 50, 50, 50};  // lengths of prompts, and of the calls' outputs
constexpr double kTick = 0.1, kGap = 13, kTokenMs[] = {10, 40, 40};  // step, gap of queries [s]; time on each engine

void Compare(const char* name, systems::HexGenFlowOptions options, Random random = Random(1), double sum = 0) {
  std::vector<Profile> gpus(3);
  for (std::size_t i = 0; i < 3; ++i) gpus[i].cost.served = {.constant_ms = kTokenMs[i]};
  if (auto& c = options.cluster) c->engines = gpus, c->kv_tokens = 100'000, c->engine.limits.max_seqs = 1;
  auto flow = systems::HexGenFlow::Create(options);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const InstanceProfile profile{"toy", std::make_shared<PreparedCostModel>(gpus[i].cost, 4096, 1)};
    flow->On(InstanceUp{{.id = {i + 1}, .profile = flow->AddProfile(profile)}}, {});
  }
  std::vector<RequestState> waiting[3];  // on each engine
  std::pair<RequestId, TimePoint> running[3];  // on each engine, with its end
  std::vector<double> latencies;
  for (TimePoint now{}; latencies.size() < kQueries; now += FromSeconds(kTick)) {
    const std::uint64_t q = flow->router().stats().workflows_declared + 1;
    if (q <= kQueries && random.Chance(kTick / kGap)) {
      Workflow query{.id = {q}, .deadline = now + FromSeconds(q % 2 == 0 ? 60 : 180)};
      query.stages = {{.stage = {1}}, {.stage = {2}, .after = {0}, .calls = 3}, {.stage = {3}, .after = {1}}};
      flow->On(WorkflowDeclared{query}, now);
      for (std::uint64_t c = 5 * q; const std::uint64_t stage : kStages)  // a call waits until its stage may begin
        flow->On(Arrived{{.id = {c++}, .workflow = {q}, .stage = {stage}, .prompt_tokens = {kPrompt}}}, now);
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      auto& [call, end] = running[i];
      const TokensServed served{{kPrompt}, {kTokens[call.value % 5]}};
      if (call && end <= now) flow->On(RequestEnded{std::exchange(call, {}), {}, false, served}, now);
      if (call || waiting[i].empty()) continue;
      const auto first = std::ranges::min_element(waiting[i], {}, [&](auto& r) { return flow->policy().Key(r).key; });
      call = first->request.id, end = now + FromSeconds(kTokens[call.value % 5] * kTokenMs[i] / 1000);
      waiting[i].erase(first), flow->On(RequestStarted{call, {i + 1}}, now);
    }
    if (const auto search = flow->Advance(now); search && flow->Finished(SearchAlpha(*search), now))
      std::printf("%8.0f s: alpha is now %.1f\n", ToSeconds(now), flow->alpha());
    for (const auto& p : flow->Place(now)) waiting[p.instance.value - 1].push_back(*flow->router().Find(p.request));
    for (const auto& w : flow->router().ended_workflows()) sum += latencies.emplace_back(ToSeconds(w.end - w.arrival));
  }
  std::ranges::sort(latencies);
  std::printf("%-20s mean %4.1f s  p95 %5.1f s\n", name, sum / kQueries, latencies[kQueries * 95 / 100]);
}

int main() {
  Compare("FCFS, least loaded", {.policy = Fcfs{}, .placement = LeastLoaded{}});
  Compare("HexGen-Flow, alpha 0", {});
  systems::HexGenFlowOptions tuned{.tuner = {.window = std::chrono::minutes(10), .most = 60}};
  Compare("HexGen-Flow", (tuned.cluster.emplace(), tuned));
}
