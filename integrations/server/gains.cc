#include "gains.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tool/report/table.h"
#include "fmt/format.h"
#include "takt/base/time.h"

namespace serving {

using takt::tool::Run;

std::string GainTable(const takt::tool::Comparison& comparison) {
  std::vector<const Run*> runs;
  for (const Run& run : comparison.runs) {
    if (run.ended && !run.requests.empty()) runs.push_back(&run);
  }
  if (runs.size() < 2) return "";
  const auto& calls = comparison.workload.calls;
  std::vector<std::size_t> requests;  // by length of the answer
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto completed = [i](const Run* run) { return run->requests[i].outcome == takt::Outcome::kCompleted; };
    if (std::ranges::all_of(runs, completed)) requests.push_back(i);
  }
  std::ranges::stable_sort(requests, {}, [&](std::size_t i) { return calls[i].output_tokens; });
  const auto latency = [](const Run& run, std::size_t i) {
    return takt::ToSeconds(run.requests[i].end - run.requests[i].arrival);
  };

  const std::string& first = runs[0]->settings.policy;
  std::vector<takt::tool::Table::Column> columns = {{"answers of", "tokens", false}, {first, "mean [s]"}};
  for (std::size_t r = 1; r < runs.size(); ++r) {
    columns.push_back({runs[r]->settings.policy, "mean [s]"});
    columns.push_back({runs[r]->settings.policy, "sooner %"});
  }
  takt::tool::Table table(std::move(columns));
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    const std::size_t begin = requests.size() * quarter / 4, end = requests.size() * (quarter + 1) / 4;
    if (begin == end) continue;
    table.BeginRow();
    table.Text(fmt::format("{} to {}", calls[requests[begin]].output_tokens, calls[requests[end - 1]].output_tokens));
    for (const Run* run : runs) {
      double sum = 0;
      std::size_t sooner = 0;
      for (std::size_t i = begin; i < end; ++i) {
        sum += latency(*run, requests[i]);
        if (latency(*run, requests[i]) < latency(*runs[0], requests[i])) ++sooner;
      }
      const auto count = static_cast<double>(end - begin);
      table.Number(sum / count);
      if (run != runs[0]) table.Number(static_cast<double>(sooner) * 100 / count);
    }
  }
  return fmt::format("\nLatency of requests divided by that under {}, by length of the answer:\n{}", first,
                     table.ToString());
}

}  // namespace serving
