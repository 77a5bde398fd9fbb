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

// How many requests are in the engine, or have tokens, as their clients see it.
class InFlight {
 public:
  explicit InFlight(std::span<const ClientTimes> requests) {
    for (const ClientTimes& r : requests) {
      sent_.push_back(r.sent), first_.push_back(r.chunks.front()), last_.push_back(r.chunks.back());
    }
    for (std::vector<double>* times : {&sent_, &first_, &last_}) std::ranges::sort(*times);
  }

  std::ptrdiff_t SentBefore(double time) const { return Below(sent_, time) - UpTo(last_, time); }
  std::ptrdiff_t BetweenTokens(double time) const { return UpTo(first_, time) - UpTo(last_, time); }

 private:
  static std::ptrdiff_t Below(const std::vector<double>& times, double time) {
    return std::ranges::lower_bound(times, time) - times.begin();
  }
  static std::ptrdiff_t UpTo(const std::vector<double>& times, double time) {
    return std::ranges::upper_bound(times, time) - times.begin();
  }

  std::vector<double> sent_, first_, last_;
};

// Returns the requests that a step could take at once. No other request waits for its first token when they are sent,
// and fewer requests run than at the peak.
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
  const std::vector<bool> at_once = TakenAtOnce(requests);
  const InFlight in_flight(requests);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    double first = step.end;  // arrival of the first request whose prompt the step ends
    for (const std::size_t r : step.opened) first = std::min(first, requests[r].sent);
    if (step.rows.empty()) {
      // The engine was idle, or became so on the way of the tokens to their clients.
      step.from_arrival = first > step.begin && in_flight.SentBefore(first) == 0;
      if (step.from_arrival) step.begin = first;
      else if (first > step.begin || in_flight.BetweenTokens(step.begin) == 0) step.fits = false;
    }
    for (const std::size_t r : step.opened) {
      const ClientTimes& request = requests[r];
      std::int64_t left = request.prompt_tokens;
      // The request came to the engine during the step before its own.
      const Step* found =
          s > 0 && step.fits && at_once[r] && left <= token_budget - step.tokens ? &steps[s - 1] : nullptr;
      if (found != nullptr && found->fits && found->begin >= 0 && found->end > request.sent) {
        const double most = found->end - request.sent;
        step.paths.emplace_back(most - (found->end - found->begin), most);
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
