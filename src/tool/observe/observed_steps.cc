#include "tool/observe/observed_steps.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"

namespace takt::tool {
namespace {

struct Chunk {
  double time = 0;
  std::size_t request = 0, place = 0;
};

struct Row {
  std::int64_t tokens = 0, position = 0;
  bool prefill = false, samples = true;
};

struct Step {
  double begin = 0, end = 0;
  std::vector<Row> rows = {};
  std::vector<std::size_t> opened = {};  // requests with their first chunk
  std::int64_t tokens = 0;
  bool fits = true;
};

// Returns half the median time between chunks of a request.
double LongestGap(std::span<const ClientTimes> requests) {
  std::vector<double> gaps;
  for (const ClientTimes& r : requests) {
    for (std::size_t i = 1; i < r.chunks.size(); ++i) gaps.push_back(r.chunks[i] - r.chunks[i - 1]);
  }
  if (gaps.empty()) return 0;
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2));
  return gaps[gaps.size() / 2] / 2;
}

std::vector<Step> StepsOf(std::span<const ClientTimes> requests) {
  std::vector<Chunk> chunks;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    for (std::size_t i = 0; i < requests[r].chunks.size(); ++i) chunks.push_back({requests[r].chunks[i], r, i});
  }
  std::ranges::stable_sort(chunks, {}, &Chunk::time);
  const double gap = LongestGap(requests);
  std::vector<Step> steps;
  std::vector<std::size_t> last(requests.size(), SIZE_MAX);  // step of each request's newest chunk
  double before = 0;
  for (const Chunk& chunk : chunks) {
    if (steps.empty() || chunk.time - before > gap || last[chunk.request] == steps.size() - 1) {
      steps.push_back({.end = chunk.time});
    }
    before = chunk.time;
    last[chunk.request] = steps.size() - 1;
    Step& step = steps.back();
    if (chunk.place == 0) {
      step.opened.push_back(chunk.request);
      continue;
    }
    const ClientTimes& r = requests[chunk.request];
    step.rows.push_back({.tokens = 1, .position = r.prompt_tokens + static_cast<std::int64_t>(chunk.place) - 1});
    ++step.tokens;
  }
  return steps;
}

}  // namespace

std::string ObservedSteps(std::span<const ClientTimes> requests, std::int64_t token_budget) {
  std::vector<Step> steps = StepsOf(requests);
  for (std::size_t s = 0; s < steps.size(); ++s) steps[s].begin = s > 0 ? steps[s - 1].end : -1;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    double first = step.end;  // arrival of the first request whose prompt the step ends
    for (const std::size_t r : step.opened) first = std::min(first, requests[r].sent);
    // Without decodes, the engine may have been idle before the arrival.
    if (step.rows.empty()) step.begin = std::max(step.begin, first);
    for (const std::size_t r : step.opened) {
      const ClientTimes& request = requests[r];
      std::int64_t left = request.prompt_tokens;
      for (std::size_t at = s + 1; at-- > 0 && left > 0;) {
        Step& in = steps[at];
        if (at < s && in.end <= request.sent) break;
        const std::int64_t room = std::min(left, token_budget - in.tokens);
        if (room <= 0) continue;
        left -= room;
        in.tokens += room;
        in.rows.push_back({.tokens = room, .position = left, .prefill = true, .samples = at == s});
      }
      if (left > 0) step.fits = false;
    }
  }
  std::string log;
  for (const Step& step : steps) {
    const double time = step.end - step.begin;
    if (!step.fits || step.begin < 0 || step.rows.empty() || !(time > 0)) continue;
    log += fmt::format(R"({{"time_s":{:.6f},"rows":[)", time);
    for (const Row& row : step.rows) {
      log += fmt::format("{}[{},{},{},{}]", &row == step.rows.data() ? "" : ",", row.tokens, row.position,
                         row.prefill ? 1 : 0, row.samples ? 1 : 0);
    }
    log += "]}\n";
  }
  return log;
}

}  // namespace takt::tool
