// HexGen-Flow before three unequal toy engines, which run one call at a time. A query plans, drafts three times and
// tests. The rival is FCFS on the engines in turn. The gain is from the choice of engines: alpha stays 0.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "takt/base/random.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/sim/profiles.h"
#include "takt/systems/hexgen_flow.h"

using namespace takt;
constexpr std::uint64_t kQueries = 400, kStages[] = {1, 2, 2, 2, 3};  // the stage of each call of a query
constexpr int kPrompt = 1000, kTokens[] = {60, 250, 250, 250, 100};
const char* const kGpus[] = {"aic/llama-3.1-70b/a100", "derived/llama-3.1-70b/a6000", "derived/llama-3.1-70b/l40"};

void Compare(const char* name, systems::HexGenFlowOptions options) {
  std::vector<Profile> gpus;
  for (const char* gpu : kGpus) gpus.push_back(*FindProfile(std::string(gpu) + "/bf16/tp4"));
  if (options.cluster) options.cluster->engines = gpus, options.cluster->engine.limits.max_seqs = 1;
  auto flow = systems::HexGenFlow::Create(options);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const InstanceProfile profile{gpus[i].id, std::make_shared<PreparedCostModel>(gpus[i].cost, 4096, 1)};
    flow->On(InstanceUp{{.id = {i + 1}, .profile = flow->AddProfile(profile)}}, {});
  }
  Random random(1);
  const auto key = [&](const RequestState& r) { return flow->policy().Key(r).key; };
  std::vector<RequestState> waiting[3];  // on each engine
  std::map<TimePoint, RequestId> ends;   // of running calls
  std::vector<double> latencies;
  for (TimePoint now{}, next{}, free[3]{}; latencies.size() < kQueries;) {
    const std::uint64_t arrived = flow->router().stats().workflows_declared;
    if (now = ends.empty() ? next : ends.begin()->first; arrived < kQueries && next <= now) {
      now = next, next += FromSeconds(18 * random.Exponential());
      Workflow query{.id = {arrived + 1}, .deadline = now + FromSeconds(arrived % 2 == 0 ? 60 : 180)};
      query.stages = {{.stage = {1}}, {.stage = {2}, .after = {0}, .calls = 3}, {.stage = {3}, .after = {1}}};
      flow->On(WorkflowDeclared{query}, now);
      for (std::uint64_t c = 0; c < 5; ++c) {  // the router holds a call until its stage may begin
        Request r{.id = {5 * arrived + c + 5}, .workflow = query.id, .stage = {kStages[c]}, .prompt_tokens = {kPrompt}};
        r.output_tokens = Estimate::Exact(kTokens[c]), flow->On(Arrived{r}, now);
      }
    } else {
      const RequestId id = ends.extract(ends.begin()).mapped();
      flow->On(RequestEnded{id, {}, false, TokensServed{{kPrompt}, {kTokens[id.value % 5]}}}, now);
    }
    if (const auto search = flow->Advance(now); search && flow->Finished(SearchAlpha(*search), now))
      std::printf("%13.0f s: alpha is now %.1f\n", ToSeconds(now), flow->alpha());
    for (const auto& p : flow->Place(now)) waiting[p.instance.value - 1].push_back(*flow->router().Find(p.request));
    for (const auto& end : flow->router().ended_workflows()) latencies.push_back(ToSeconds(end.end - end.arrival));
    for (std::size_t i = 0; i < 3; ++i) {
      if (now < free[i] || waiting[i].empty()) continue;
      const auto first = std::ranges::min_element(waiting[i], {}, key);
      const Duration step = gpus[i].cost.StepTime({.decodes = 1, .decode_context = kPrompt, .samples = 1});
      free[i] = now + kTokens[first->request.id.value % 5] * step + Duration(i);  // no two calls end at once
      ends.emplace(free[i], first->request.id), waiting[i].erase(first);
    }
  }
  std::ranges::sort(latencies);
  const double mean = std::accumulate(latencies.begin(), latencies.end(), 0.0) / kQueries;
  std::printf("%-13s mean %5.1f s  p95 %6.1f s\n", name, mean, latencies[kQueries * 95 / 100]);
}

int main() {
  Compare("FCFS, in turn", {.policy = Fcfs{}, .placement = RoundRobin{}});
  Compare("HexGen-Flow", {.tuner = {.most = 40}, .cluster = ReplayOptions{}});
}
