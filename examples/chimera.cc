// Chimera before a small and a large toy model, which run eight calls at once, a token a step. The large model is right
// more often, and its steps take 40 ms instead of 20. The rival is FCFS on the least loaded model.
#include <algorithm>
#include <cstdio>
#include <ranges>
#include <tuple>

#include "takt/base/random.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/systems/chimera.h"

using namespace takt;
constexpr std::uint64_t kQuestions = 1000;
double Hard(std::uint64_t q) { return Random(2 * q).Uniform(); }  // two features of a question, known when it arrives
double Open(std::uint64_t q) { return Random(2 * q + 1).Uniform(); }
double Output(std::uint64_t q) { return Random(~q).LogNormal(3 + 3.5 * Open(q) * Open(q), 0.2); }
bool Solves(std::uint64_t model, std::uint64_t q) { return Hard(q) < (model == 1 ? 0.4 : 0.9); }

void Compare(const char* name, const systems::ChimeraOptions& options) {
  auto chimera = systems::Chimera::Create(options);
  for (std::uint64_t m = 1; m <= 2; ++m)
    chimera->On(InstanceUp{{.id = {m}, .model = {m}, .token_s = 0.0025 * static_cast<double>(m)}}, {});
  std::vector<std::tuple<bool, double, std::uint64_t, int>> engines[2];  // calls: waits, key, id, tokens so far
  std::vector<double> latencies, asked{0};
  double sum = 0, solved = 0;
  for (std::uint64_t step = 0; latencies.size() < kQuestions; ++step) {
    const TimePoint now(std::chrono::milliseconds(20 * step));
    if (const std::uint64_t id = asked.size(); id <= kQuestions && Random(step << 32).Chance(0.118)) {
      const float seen[] = {static_cast<float>(Hard(id)), static_cast<float>(Open(id))};
      chimera->Add({.id = {id}, .workflow = {id}, .prompt_tokens = {100}}, {{.sketch = seen}, seen}, now);
      if (asked.push_back(ToSeconds(now)); id == 200) chimera->Publish(*chimera->lessons().Train());
    }
    if (auto batch = chimera->TakeBatch(now)) batch->Predict(), chimera->Finish(*batch, now);
    for (const auto& p : chimera->Place(now))
      engines[p.instance.value - 1].emplace_back(true, chimera->policy().Key(*chimera->router().Find(p.request)).key,
                                                 p.request.value, 0);
    for (std::uint64_t m = 1; m <= 2 - step % 2; ++m) {
      std::ranges::sort(engines[m - 1]);
      for (auto& [waits, key, id, done] : engines[m - 1] | std::views::take(8)) waits = false, ++done;
      std::erase_if(engines[m - 1], [&](const auto& call) {
        const auto& [waits, key, id, done] = call;
        if (waits || done < Output(id)) return false;
        chimera->On(RequestEnded{{id}, {}, false, TokensServed{{100}, {done}}}, now);
        chimera->Ended({id}, Solves(m, id), now), solved += Solves(m, id);
        sum += latencies.emplace_back(ToSeconds(now) - asked[id]);
        return true;
      });
    }
  }
  std::ranges::sort(latencies);
  std::printf("%-25s mean %4.1f s  p95 %4.1f s  %.0f %% right\n", name, sum / kQuestions,
              latencies[kQuestions * 95 / 100], 100 * solved / kQuestions);
}

int main() {
  Compare("FCFS, least loaded", {.policy = Fcfs{}, .placement = LeastLoaded{}});
  Compare("Chimera without its order", {.policy = Fcfs{}, .lengths = {.sketch = 2}});
  Compare("Chimera", {.lengths = {.sketch = 2}});
}
