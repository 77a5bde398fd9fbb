#include "tool/observe/observed_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

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
  std::vector<std::pair<double, double>> paths = {};  // least and most of paths to the engine and back [s]
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

// Returns true if a token came with the next one, long after the one before: the step's end is then unknown.
bool CameLate(const std::vector<double>& chunks, std::size_t place) {
  double around = 0;
  int gaps = 0;
  if (place > 0) around += chunks[place] - chunks[place - 1], ++gaps;
  if (place + 2 < chunks.size()) around += chunks[place + 2] - chunks[place + 1], ++gaps;
  return gaps > 0 && chunks[place + 1] - chunks[place] < around / gaps / 2;
}

// How many requests wait or run at a time, as their clients see it.
class InFlight {
 public:
  explicit InFlight(std::span<const ClientTimes> requests) {
    for (const ClientTimes& r : requests) {
      sent_.push_back(r.sent), first_.push_back(r.chunks.front()), last_.push_back(r.chunks.back());
    }
    for (std::vector<double>* times : {&sent_, &first_, &last_}) std::ranges::sort(*times);
    for (const double time : first_) peak_ = std::max(peak_, Running(time));
  }

  // Counts requests that were sent before the time.
  std::ptrdiff_t Waiting(double time) const { return Below(sent_, time) - UpTo(first_, time); }
  std::ptrdiff_t Running(double time) const { return UpTo(first_, time) - UpTo(last_, time); }

  // Returns true if a step could take a request at once: no other waits, and fewer run than at the peak.
  bool TakesAtOnce(double sent) const { return Waiting(sent) == 0 && Running(sent) < peak_; }

 private:
  static std::ptrdiff_t Below(const std::vector<double>& times, double time) {
    return std::ranges::lower_bound(times, time) - times.begin();
  }
  static std::ptrdiff_t UpTo(const std::vector<double>& times, double time) {
    return std::ranges::upper_bound(times, time) - times.begin();
  }

  std::vector<double> sent_, first_, last_;
  std::ptrdiff_t peak_ = 0;
};

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
      // Many tokens that come together have no neighbours to compare with.
      const std::vector<double>& times = requests[chunk.request].chunks;
      const bool late = !apart && (chunk.time - times[chunk.place - 1] < gap / 5 || CameLate(times, chunk.place - 1));
      if (late) steps.back().fits = false;
      steps.push_back({.end = chunk.time, .fits = !late});
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
  const InFlight in_flight(requests);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    double first = step.end;  // arrival of the first request whose prompt the step ends
    for (const std::size_t r : step.opened) first = std::min(first, requests[r].sent);
    if (step.rows.empty()) {
      // The engine was idle, or became so on the way of the tokens to their clients.
      step.from_arrival = first > step.begin && in_flight.Waiting(first) + in_flight.Running(first) == 0;
      if (step.from_arrival) step.begin = first;
      else if (first > step.begin || in_flight.Running(step.begin) == 0) step.fits = false;
    }
    for (const std::size_t r : step.opened) {
      const ClientTimes& request = requests[r];
      std::int64_t left = request.prompt_tokens;
      // The request came to the engine during the step before its own.
      if (s > 0 && step.fits && left <= token_budget - step.tokens && in_flight.TakesAtOnce(request.sent)) {
        const Step& found = steps[s - 1];
        if (found.fits && found.begin >= 0 && found.end > request.sent) {
          step.paths.emplace_back(found.begin - request.sent, found.end - request.sent);
        }
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
    if (!step.fits || step.begin < 0 || step.rows.empty() || !(time > 1e-6)) continue;
    log += fmt::format(R"({{"time_s":{:.6f},)", time);
    if (step.from_arrival) log += R"("from_arrival":1,)";
    const auto us = [](double seconds) { return std::clamp(seconds, -3600.0, 3600.0) * 1e6; };
    for (const auto& path : step.paths) {
      log += fmt::format("{}[{:.0f},{:.0f}]", &path == step.paths.data() ? R"("path_us":[)" : ",", us(path.first),
                         us(path.second));
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
