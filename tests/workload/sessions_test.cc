#include "takt/workload/sessions.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/workload/read.h"
#include "takt/workload/summary.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"

namespace takt {
namespace {

using namespace std::chrono_literals;

// Sessions of two calls each, 10 and 20 s apart, with different prompts.
Workload Sessions(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    const std::string prompt = std::to_string(1000 + i);
    text += R"({"block_tokens":64,"calls":[{"t":0,"in":)" + prompt + R"(,"out":5,"blocks":[[1,9]]},)" +
            R"({"t":9,"in":)" + prompt + R"(,"out":5,"think_s":)" + std::to_string(10 * i) +
            R"(,"blocks":[[1,8],[20,2]]}]})" + "\n";
  }
  return *ParseWorkload(text, "s");
}

std::vector<int> PromptsOf(const Workload& w) {
  std::vector<int> prompts;
  for (const WorkloadWorkflow& f : w.workflows) prompts.push_back(w.calls_of(f)[0].prompt_tokens);
  return prompts;
}

TEST_CASE("sessions arrive at random, each once before any repeats") {
  const Workload from = Sessions(20);
  const Workload w = *DrawSessions(from, {.rate = 0.5, .horizon = 200s, .seed = 7});
  REQUIRE(Validate(w).ok());
  CHECK(Tidied(w) == w);
  CHECK(w.workflows.size() > 70);
  CHECK(w.workflows.size() < 130);
  CHECK(w.workflows.back().arrival < TimePoint(200s));
  CHECK(ToSeconds(w.workflows.back().arrival) > 180);
  const std::vector<int> prompts = PromptsOf(w);
  for (std::size_t round = 0; round + 20 <= prompts.size(); round += 20) {
    const auto first = prompts.begin() + static_cast<std::ptrdiff_t>(round);
    CHECK(std::set<int>(first, first + 20).size() == 20);
  }
  CHECK_FALSE(std::equal(prompts.begin(), prompts.begin() + 20, prompts.begin() + 20));
  CHECK(*DrawSessions(from, {.rate = 0.5, .horizon = 200s, .seed = 7}) == w);
  CHECK_FALSE(*DrawSessions(from, {.rate = 0.5, .horizon = 200s, .seed = 8}) == w);
  CHECK(w.calls[1].delay == 10s * (w.calls[1].prompt_tokens - 1000));
}

TEST_CASE("a closed loop has as many sessions as possible, with pauses cut") {
  const Workload from = Sessions(2);  // of 10.002 and 20.002 s at least
  SessionLoad load{.closed_loop = 3, .horizon = 100s, .think_cap = 5s};
  const Workload w = *DrawSessions(from, load);
  for (const WorkloadCall& call : w.calls) CHECK(call.delay <= 5s);
  CHECK(w.workflows.size() == 3 * 20);  // one ends after 5.002 s
  load.think_cap = Duration{0};
  load.horizon = 40ms;
  CHECK(DrawSessions(from, load)->workflows.size() == 3 * 20);
  for (const WorkloadWorkflow& f : w.workflows) CHECK(f.arrival == TimePoint{});
}

TEST_CASE("an invalid load of sessions is refused") {
  const auto error = [](const SessionLoad& load) {
    return std::string(DrawSessions(Sessions(1), load).status().message());
  };
  CHECK(error({.horizon = 1s}) == "sessions: expected either a rate or a closed loop above 0");
  CHECK(error({.rate = 1, .closed_loop = 1, .horizon = 1s}) ==
        "sessions: expected either a rate or a closed loop above 0");
  CHECK(error({.rate = 1}).find("horizon is 0") == 0);
  CHECK(error({.rate = 1e9, .horizon = 1s}) == "sessions: the horizon has too many calls; expected at most 10000000");
  CHECK(error({.closed_loop = 1'000'000'000, .horizon = 1s}) ==
        "sessions: the horizon has too many calls; expected at most 10000000");
  CHECK(std::string(DrawSessions(Workload{}, {.rate = 1, .horizon = 1s}).status().message()) ==
        "sessions: the workload is empty; expected a workflow");
}

TEST_CASE("ids of different workflows never collide; equal ones within one do") {
  const Workload w = *DrawSessions(Sessions(1), {.rate = 1, .horizon = 3s});
  REQUIRE(w.workflows.size() >= 2);
  std::vector<std::uint64_t> made;
  const auto prefix = [&](std::uint32_t workflow, std::size_t call) {
    const auto hashes = w.PrefixOf(workflow, w.calls_of(w.workflows[workflow])[call], made);
    return std::vector<std::uint64_t>(hashes.begin(), hashes.end());
  };
  const auto first = prefix(0, 0), second = prefix(0, 1), other = prefix(1, 0);
  REQUIRE(first.size() == 9);
  REQUIRE(second.size() == 10);
  CHECK(std::equal(first.begin(), first.begin() + 8, second.begin()));
  CHECK(first[8] != second[8]);
  std::set<std::uint64_t> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  all.insert(other.begin(), other.end());
  CHECK(all.size() == 9 + 2 + 9);
}

TEST_CASE("an endless cache has the computed hits") {
  const std::string calls =
      R"({"t":0,"in":640,"out":1,"blocks":[[5,10]]},{"t":0,"in":641,"out":1,"blocks":[[5,10]]},)"
      R"({"t":0,"in":640,"out":1,"blocks":[[5,10]]},{"t":0,"in":999,"out":1,"blocks":[[5,4],[30,3]]},)"
      R"({"t":0,"in":999,"out":1,"blocks":[[5,4],[30,5],[5,1]]},{"t":0,"in":64,"out":1,"blocks":[[4,1]]}]})";
  const std::string line = R"({"block_tokens":64,"calls":[)" + calls + "\n";
  const Workload w = *ParseWorkload(line + line, "s");
  const std::vector<std::int32_t> once = {0, 640, 576, 256, 448, 0};
  std::vector<std::int32_t> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  CHECK(TokensEverCached(w) == twice);
  const WorkloadSummary s = Summarise(w);
  CHECK(s.prefix_blocks == 2 * (30 + 7 + 10 + 1));
  CHECK(s.distinct_prefix_blocks == 2 * (10 + 5 + 1));
  CHECK(s.prefix_hit_share == Approx((10 + 10 + 4 + 7) / 48.0));
}

}  // namespace
}  // namespace takt
