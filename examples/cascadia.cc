// Cascadia (Jiang et al., 2025) on toy engines: a replica serves one request at a time, in 0.15 s by the small model
// and in 1 s by the large one. After half of the requests, the small model's answers become worse.
#include <algorithm>
#include <cstdio>
#include <map>

#include "takt/systems/cascadia.h"

using namespace takt;
using Do = systems::CascadiaAction;

ServedModel Model(double token_ms) {
  Profile shape;
  shape.kv_capacity_tokens = 1000, shape.cost.served = {.constant_ms = token_ms};
  return {.name = {}, .shapes = {shape}, .max_seqs = 1};
}

void Print(const char* name, std::vector<double> latency, double quality) {
  double sum = 0;
  for (const double seconds : latency) sum += seconds;
  std::ranges::sort(latency);
  std::printf("%-8s mean %.2f s, p95 %.2f s, quality at last %.1f\n", name, sum / 6000, latency[5700], quality);
}

int main() {
  Random random(1);
  std::vector<double> arrives(1), score(1), latency, fcfs, large(8);
  std::vector<CascadeSample> sample;
  std::multimap<double, Do> timers;  // by time [s]: an arrival (kFail), or the end of an action
  for (std::uint64_t id = 1; id <= 6000; ++id) {
    timers.emplace(arrives.emplace_back(arrives.back() + random.Exponential() / 7), Do{Do::kFail, 0, {id}});
    score.push_back(100 * std::min(random.Uniform() * (id <= 3000 ? 1.5 : 0.9), 1.0));  // of the small model
    if (id <= 300) sample.push_back({50, {50, 50}, {score.back(), 95}});
    double& free = *std::ranges::min_element(large);  // FCFS: eight replicas of the large model alone
    fcfs.push_back((free = std::max(free, arrives.back()) + 1) - arrives.back());
  }
  systems::CascadiaOptions options{.models = {Model(3), Model(20)}, .gpus = 8, .goal = {.quality_floor = 75}};
  options.plan_requests = 60, options.drift = {.period = std::chrono::seconds(60), .score_share = 0.2};
  auto cascadia = *systems::Cascadia::Create(options, sample, 7);
  std::map<InstanceId, double> free;  // when a replica has served its requests
  double quality = 0;
  for (; !timers.empty(); timers.erase(timers.begin())) {
    const auto [at, a] = *timers.begin();
    const TimePoint now(FromSeconds(at));
    const auto points = [&](const Do& of) { return of.model == 0 ? score[of.request.value] : 95; };
    if (a.kind == Do::kFail) cascadia.OnArrived({.id = a.request, .prompt_tokens = {50}}, now);
    if (a.kind == Do::kServe) cascadia.OnAnswered(a.request, a.model, {50}, now);
    if (a.kind == Do::kJudge) cascadia.OnJudged(a.request, a.model, points(a), now);
    if (a.kind == Do::kStart) cascadia.OnReplicaUp(a.instance, now);
    if (a.kind == Do::kStop) cascadia.OnReplicaDown(a.instance, now);
    if (cascadia.HasWork(now)) {
      const auto plans = cascadia.stats().plans;
      cascadia.Apply(*systems::Cascadia::Do(cascadia.TakeWork(now)), now);  // Do may run on any thread
      const CascadePlan& plan = cascadia.plan();
      if (cascadia.stats().plans > plans) std::printf("%3.0f s: accept from %.0f\n", at, plan.thresholds[0]);
    }
    for (const Do& next : cascadia.Next(now)) {
      double& busy = free[next.instance] = std::max(free[next.instance], at);
      if (next.kind == Do::kServe) busy += next.model == 0 ? 0.15 : 1;
      if (next.kind == Do::kAccept) {
        latency.push_back(at - arrives[next.request.value]);
        quality += next.request.value > 4500 ? points(next) / 1500 : 0;
      } else {
        timers.emplace(next.kind == Do::kJudge ? at + 0.27 : next.kind == Do::kStart ? at + 10 : busy, next);
      }
    }
  }
  Print("FCFS", fcfs, 95), Print("Cascadia", latency, quality);
}
