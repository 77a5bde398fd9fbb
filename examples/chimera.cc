// Chimera before a small and a large toy model, which run eight calls at once, a token a step. The large one is right
// more often, and slower. The rival is FCFS on the least loaded model.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "takt/base/random.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/systems/chimera.h"

using namespace takt;
constexpr std::uint64_t kQuestions = 2000;
struct Question {
  float hard;
  int tokens;
};  // the predictors see the first value only

Question Draw(std::uint64_t id) {
  Random random(id);
  const double hard = random.Uniform();
  return {static_cast<float>(hard), static_cast<int>(random.LogNormal(3 + 3 * hard, 0.2))};
}
bool Solves(std::uint64_t model, const Question& q) { return q.hard < (model == 1 ? 0.4f : 0.9f); }

void Compare(const char* name, const systems::ChimeraOptions& options) {
  systems::ChimeraLessons lessons({.sketch = 1});
  for (std::uint64_t i = 0; i < 1000; ++i) {  // recorded questions, each answered by one model
    const Question q = Draw(i + 10 * kQuestions);
    const FinishedCall call{{.prompt_tokens = {100}, .sketch = {&q.hard, 1}}, {q.tokens}};
    lessons.Add({1 + i % 2}, {&call, 1}, {&q.hard, 1}, Solves(1 + i % 2, q));
  }
  auto chimera = systems::Chimera::Create(options);
  chimera->Publish(*lessons.Train());
  for (std::uint64_t m = 1; m <= 2; ++m)
    chimera->On(InstanceUp{{.id = {m}, .model = {m}, .token_s = 0.0025 * static_cast<double>(m)}}, {});
  Random random(1);
  std::vector<RequestState> waiting[2];
  std::vector<std::pair<RequestId, int>> running[2];  // calls, and their tokens so far
  std::vector<double> latencies, asked{0};
  int solved = 0, step = 0;
  for (TimePoint now{}; latencies.size() < kQuestions; now += std::chrono::milliseconds(20), ++step) {
    if (asked.size() <= kQuestions && random.Chance(0.1)) {
      const Question q = Draw(asked.size());
      Request r{.id = {asked.size()}, .workflow = {asked.size()}, .prompt_tokens = {100}};
      chimera->Add(r, {{.prompt_tokens = {100}, .sketch = {&q.hard, 1}}, {&q.hard, 1}}, now);
      asked.push_back(ToSeconds(now));
    }
    if (auto batch = chimera->TakeBatch(now)) batch->Predict(), chimera->Finish(*batch, now);
    for (const auto& p : chimera->Place(now))
      waiting[p.instance.value - 1].push_back(*chimera->router().Find(p.request));
    for (std::uint64_t m = 1; m <= 2; ++m) {
      auto& calls = running[m - 1];
      auto& queue = waiting[m - 1];
      if (step % static_cast<int>(m) != 0) continue;  // a step of the large model takes twice as long
      for (; calls.size() < 8 && !queue.empty();) {
        const auto first = std::ranges::min_element(queue, {}, [&](auto& r) { return chimera->policy().Key(r).key; });
        calls.emplace_back(first->request.id, 0), queue.erase(first);
      }
      std::erase_if(calls, [&](auto& call) {
        const Question q = Draw(call.first.value);
        if (++call.second < q.tokens) return false;
        chimera->On(RequestEnded{call.first, {}, false, TokensServed{{100}, {q.tokens}}}, now);
        chimera->Ended({call.first.value}, Solves(m, q), now);
        latencies.push_back(ToSeconds(now) - asked[call.first.value]), solved += Solves(m, q);
        return true;
      });
    }
  }
  std::ranges::sort(latencies);
  const double mean = std::accumulate(latencies.begin(), latencies.end(), 0.0) / kQuestions;
  std::printf("%-18s mean %5.2f s  p95 %5.2f s  %3.0f %% right\n", name, mean, latencies[kQuestions * 95 / 100],
              100.0 * solved / kQuestions);
}

int main() {
  Compare("FCFS, least loaded", {.policy = Fcfs{}, .placement = LeastLoaded{}});
  Compare("Chimera", {});
}
