// Cascadia (Jiang et al., 2025) on toy engines, which serve one request at a time. The small model takes 0.15 s, and
// the large one 1 s. After half of the requests, the small model's answers become worse.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "takt/systems/cascadia.h"

using namespace takt;
using Do = systems::CascadiaAction;

void Print(const char* name, std::vector<double> latency, double quality, int plans) {
  std::ranges::sort(latency);
  const double mean = std::accumulate(latency.begin(), latency.end(), 0.0) / 6000;
  std::printf("%-8s mean %.2f s, p95 %.2f s, quality %.1f, plans %d\n", name, mean, latency[5700], quality, plans);
}

int main() {
  Random random(1);
  std::vector<double> arrives(1), score(1), latency, fcfs, large(8);  // FCFS: by the large model alone
  std::vector<CascadeSample> sample;
  std::multimap<double, Do> timers;  // by time [s]: an arrival (kFail), or the end of an action
  for (std::uint64_t id = 1; id <= 6000; ++id) {
    timers.emplace(arrives.emplace_back(arrives.back() + random.Exponential() / 7), Do{Do::kFail, 0, {id}});
    score.push_back(100 * std::min(random.Uniform() * (id <= 3000 ? 1.5 : 0.9), 1.0));  // of the small model
    if (id <= 300) sample.push_back({50, {50, 50}, {score.back(), 95}});
    fcfs.push_back((large[id % 8] = std::max(large[id % 8], arrives.back()) + 1) - arrives.back());
  }
  systems::CascadiaOptions options{.gpus = 8, .goal = {.quality_floor = 75}, .plan_requests = 60};
  options.drift = {.period = std::chrono::seconds(60), .score_share = 0.2};
  for (const double token_ms : {3.0, 20.0}) {
    options.models.push_back({.name = {}, .shapes = std::vector<Profile>(1), .max_seqs = 1});
    options.models.back().shapes[0].kv_capacity_tokens = 1000;
    options.models.back().shapes[0].cost.served = {.constant_ms = token_ms};
  }
  auto cascadia = *systems::Cascadia::Create(options, sample, 7);
  std::map<InstanceId, double> free;  // when a replica has served its requests
  double quality = 0;  // of the last 1,500
  for (; !timers.empty(); timers.erase(timers.begin())) {
    const auto [at, a] = *timers.begin();
    const TimePoint now(FromSeconds(at));
    const auto points = [&](const Do& of) { return of.model == 0 ? score[of.request.value] : 95; };
    if (a.kind == Do::kFail) cascadia.OnArrived({.id = a.request, .prompt_tokens = {50}}, now);
    if (a.kind == Do::kServe) cascadia.OnAnswered(a.request, a.model, {50}, now);
    if (a.kind == Do::kJudge) cascadia.OnJudged(a.request, a.model, points(a), now);
    if (a.kind == Do::kStart) cascadia.OnReplicaUp(a.instance, now);
    if (a.kind == Do::kStop) cascadia.OnReplicaDown(a.instance, now);
    if (cascadia.HasWork(now)) cascadia.Apply(*systems::Cascadia::Do(cascadia.TakeWork(now)), now);  // Do: any thread
    for (const Do& next : cascadia.Next(now)) {
      double& busy = free[next.instance] = std::max(free[next.instance], at);
      if (next.kind == Do::kServe) timers.emplace(busy += next.model == 0 ? 0.15 : 1, next);
      if (next.kind == Do::kJudge) timers.emplace(at + 0.27, next);
      if (next.kind == Do::kStart || next.kind == Do::kStop) timers.emplace(busy + 10, next);
      if (next.kind == Do::kAccept) latency.push_back(at - arrives[next.request.value]);
      if (next.kind == Do::kAccept && next.request.value > 4500) quality += points(next) / 1500;
    }
  }
  Print("FCFS", fcfs, 95, 0), Print("Cascadia", latency, quality, static_cast<int>(cascadia.stats().plans));
}
