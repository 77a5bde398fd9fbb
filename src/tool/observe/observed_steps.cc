#include "tool/observe/observed_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
  bool from_arrival = false;
  std::vector<double> paths = {};  // guesses of the path to the engine and back [s]
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

// Returns the requests that a step could take at once: they are sent while none waits for its first token, and while
// fewer requests run than at the peak.
std::vector<bool> TakenAtOnce(std::span<const ClientTimes> requests) {
  enum Kind : std::uint8_t { kEnd, kFirst, kSent };
  struct Event {
    double time;
    Kind kind;
    std::size_t request;
  };
  std::vector<Event> events;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    events.push_back({requests[r].sent, kSent, r});
    events.push_back({requests[r].chunks.front(), kFirst, r});
    events.push_back({requests[r].chunks.back(), kEnd, r});
  }
  // At equal times, a request ends after its first token.
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) { return a.time < b.time; });
  std::vector<std::int64_t> running(requests.size(), 0);  // when each is sent; -1: another waits
  std::int64_t waiting = 0, now = 0, peak = 0;
  for (const Event& event : events) {
    if (event.kind == kSent) running[event.request] = waiting++ > 0 ? -1 : now;
    else if (event.kind == kFirst) --waiting, peak = std::max(peak, ++now);
    else --now;
  }
  std::vector<bool> at_once;
  for (const std::int64_t count : running) at_once.push_back(count >= 0 && count < peak);
  return at_once;
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
    const bool apart = steps.empty() || chunk.time - before > gap;
    if (apart || last[chunk.request] == steps.size() - 1) {
      // Two tokens of a request in one burst: the first came late, so the time between the steps is unknown.
      if (!apart) steps.back().fits = false;
      steps.push_back({.end = chunk.time, .fits = apart});
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
  const std::vector<bool> at_once = TakenAtOnce(requests);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    double first = step.end;  // arrival of the first request whose prompt the step ends
    for (const std::size_t r : step.opened) first = std::min(first, requests[r].sent);
    // Without decodes, the engine may have been idle before the arrival.
    if (step.rows.empty() && first > step.begin) step.begin = first, step.from_arrival = true;
    for (const std::size_t r : step.opened) {
      const ClientTimes& request = requests[r];
      std::int64_t left = request.prompt_tokens;
      // An arrival is at any time of the step that it finds running, in the mean at its middle.
      const Step* found = s > 0 && at_once[r] && left <= token_budget - step.tokens ? &steps[s - 1] : nullptr;
      if (found != nullptr && found->fits && found->begin >= 0 && found->end > request.sent) {
        step.paths.push_back(found->end - request.sent - (found->end - found->begin) / 2);
      }
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
    log += fmt::format(R"({{"time_s":{:.6f},)", time);
    if (step.from_arrival) log += R"("from_arrival":1,)";
    for (const double& path : step.paths) {
      log += fmt::format("{}{:.0f}", &path == step.paths.data() ? R"("path_us":[)" : ",",
                         std::clamp(path, -3600.0, 3600.0) * 1e6);
    }
    log += step.paths.empty() ? R"("rows":[)" : R"(],"rows":[)";
    for (const Row& row : step.rows) {
      log += fmt::format("{}[{},{},{},{}]", &row == step.rows.data() ? "" : ",", row.tokens, row.position,
                         row.prefill ? 1 : 0, row.samples ? 1 : 0);
    }
    log += "]}\n";
  }
  return log;
}

}  // namespace takt::tool
