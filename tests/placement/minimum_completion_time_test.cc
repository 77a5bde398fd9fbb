// Learned costs of calls, compared with hand calculation and with known costs, and placements by these costs.
#include "takt/placement/minimum_completion_time.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

using std::chrono::milliseconds;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

InstanceState InstanceAt(std::uint32_t slot, std::uint64_t id) { return {.instance = {.id = {id}}, .slot = slot}; }

RequestState RequestAt(std::uint32_t slot, std::int32_t prompt, double output) {
  RequestState r{.slot = slot};
  r.request.id = {slot + 1u};
  r.request.prompt_tokens = {prompt};
  r.request.output_tokens = Estimate::Exact(output);
  return r;
}

void End(MinimumCompletionTime& placement, const RequestState& r, const InstanceState& i, std::int32_t output,
         double at, bool failed = false) {
  RequestEnded ended{r.request.id, i.instance.id, failed};
  if (output >= 0) ended.served = TokensServed{{r.request.prompt_tokens.value}, {output}};
  placement.Observe(ended, At(at));
  placement.Released(r, i, At(at));
}

// From `begin`: the first token after `first`, the others `token` apart.
void Serve(MinimumCompletionTime& placement, const RequestState& r, const InstanceState& i, double begin, double first,
           double token, std::int32_t output) {
  placement.Placed(r, i, At(begin));
  placement.Started(r, i, At(begin + first));
  End(placement, r, i, output, begin + first + token * static_cast<double>(output - 1));
}

TEST_CASE("time to first token is fitted by prompt, later tokens by mean") {
  MinimumCompletionTime placement;
  placement.fade = 0;
  const InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  const RequestState ask = RequestAt(9, 400, 11);
  CHECK(placement.Own(ask.request, 0, {}) == 0);
  Serve(placement, RequestAt(0, 100, 5), one, 0, 0.3, 0.1, 5);
  CHECK(placement.Own(ask.request, 0, At(1)) == Approx(0.3 + 10 * 0.1));  // one prompt gives no slope
  Serve(placement, RequestAt(0, 300, 5), one, 10, 0.7, 0.2, 3);
  CHECK(placement.Own(ask.request, 0, At(12)) == Approx(0.1 + 400 * 0.002 + 10 * 0.15));
  Serve(placement, RequestAt(0, 300, 5), one, 20, 0.9, 0.3, 2);
  // Least squares over (100, 0.3), (300, 0.7), (300, 0.9): through (100, 0.3) and (300, 0.8).
  CHECK(placement.Own(ask.request, 0, At(22)) == Approx(0.05 + 400 * 0.0025 + 10 * 0.2));
  CHECK(placement.Own(RequestAt(9, 400, 1).request, 0, At(22)) == Approx(1.05));
}

TEST_CASE("longer prompts are never estimated as shorter, and no estimate is negative") {
  MinimumCompletionTime placement;
  const InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  Serve(placement, RequestAt(0, 100, 5), one, 0, 0.9, 0.1, 5);
  Serve(placement, RequestAt(0, 300, 5), one, 10, 0.1, 0.1, 5);
  CHECK(placement.Own(RequestAt(9, 5000, 1).request, 0, At(11)) ==
        placement.Own(RequestAt(9, 1, 1).request, 0, At(11)));
  CHECK(placement.Own(RequestAt(9, 5000, 1).request, 0, At(11)) > 0);
}

TEST_CASE("failed and cancelled calls teach nothing and leave the queue") {
  MinimumCompletionTime placement;
  const InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  const RequestState a = RequestAt(0, 100, 5), b = RequestAt(1, 100, 5), ask = RequestAt(9, 100, 5);
  placement.Placed(a, one, At(0));
  End(placement, a, one, 5, 1, true);
  placement.Placed(a, one, At(2));
  placement.Observe(Cancelled{a.request.id}, At(3));
  placement.Released(a, one, At(3));
  placement.Placed(a, one, At(4));
  End(placement, a, one, -1, 5);
  CHECK(placement.Own(ask.request, 0, At(5)) == 0);
  placement.Placed(a, one, At(10));
  placement.Placed(b, one, At(10));
  placement.Started(a, one, At(10.5));
  End(placement, a, one, 2, 11);
  placement.Started(b, one, At(11.5));  // it had a place from 11 on
  End(placement, b, one, 2, 12);
  CHECK(placement.Own(ask.request, 0, At(20)) == Approx(0.5 + 4 * 0.5));
}

TEST_CASE("an answer in one piece counts by its tokens") {
  MinimumCompletionTime placement;
  const InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  const RequestState a = RequestAt(0, 100, 5);
  placement.Placed(a, one, At(0));
  End(placement, a, one, 10, 2);
  CHECK(placement.Own(RequestAt(9, 100, 5).request, 0, At(2)) == Approx(5 * 0.2));
}

TEST_CASE("the score is the call alone, or the call behind the queue") {
  MinimumCompletionTime placement;
  const InstanceState one = InstanceAt(0, 7), two = InstanceAt(1, 8);
  placement.Up(one, {});
  placement.Up(two, {});
  const RequestState ask = RequestAt(9, 100, 11);
  CHECK(placement.Score(ask, one, {}) == 0);
  placement.Placed(RequestAt(0, 100, 11), one, At(0));
  CHECK(placement.Score(ask, one, {}) == -1);  // nothing is known: the number of calls
  placement.Started(RequestAt(0, 100, 11), one, At(0.5));
  End(placement, RequestAt(0, 100, 11), one, 11, 1.5);  // 0.5 s, and 0.1 s a token
  CHECK(placement.Score(ask, one, At(2)) == Approx(-1.5));
  CHECK(placement.Score(ask, two, At(2)) == Approx(-1.5));  // the mean of all instances
  for (const std::uint32_t slot : {0u, 1u}) placement.Placed(RequestAt(slot, 100, 11), one, At(2));
  CHECK(placement.Score(ask, one, At(2)) == Approx(-(1.5 + 2 * 1.5)));  // one at a time
  for (const std::uint32_t slot : {0u, 1u}) placement.Started(RequestAt(slot, 100, 11), one, At(2.5));
  CHECK(placement.Score(ask, one, At(2.5)) == Approx(-(1.5 + 2 * 1.5 / 2)));  // two were observed at once
  End(placement, RequestAt(1, 100, 11), one, 11, 3.5);
  CHECK(placement.Score(ask, one, At(3.5)) == Approx(-1.5));
}

TEST_CASE("a waiting call may leave, and the next by arrival follows") {
  MinimumCompletionTime placement;
  placement.fade = 0;
  const InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  std::vector<RequestState> calls;
  for (std::uint32_t slot = 0; slot < 6; ++slot) calls.push_back(RequestAt(slot, 100, 5));
  for (const RequestState& r : calls) placement.Placed(r, one, At(0));  // the first one has the only place
  placement.Placed(calls[2], one, At(0));                               // again: it is the last one now
  End(placement, calls[1], one, -1, 1);
  End(placement, calls[5], one, -1, 1);
  // They wait in the order 3, 4, 2. Each call has the place from the end of the previous call on.
  placement.Started(calls[0], one, At(2));
  End(placement, calls[0], one, 5, 10);
  double begin = 10, sum = 2;
  for (const std::uint32_t next : {3u, 4u, 2u}) {
    placement.Started(calls[next], one, At(begin + next));
    sum += next;
    begin += 10;
    End(placement, calls[next], one, 5, begin);
  }
  CHECK(placement.Own(RequestAt(9, 100, 1).request, 0, At(begin)) == Approx(sum / 4));
  // Another instance in its place: calls that waited for the old one wait for none, after any reports of it.
  for (const RequestState& r : calls) placement.Placed(r, one, At(50));
  const InstanceState two = InstanceAt(0, 8);
  placement.Up(two, At(51));
  placement.Placed(calls[4], two, At(51));
  for (const RequestState& r : calls) End(placement, r, two, -1, 52);
  CHECK(placement.Score(RequestAt(9, 100, 1), two, At(52)) == Approx(-sum / 4));
}

TEST_CASE("reports give the number of parallel calls") {
  MinimumCompletionTime placement;
  placement.recent_s = 60;
  InstanceState one = InstanceAt(0, 7);
  placement.Up(one, {});
  Serve(placement, RequestAt(0, 100, 11), one, 0, 0.5, 0.1, 11);
  const RequestState ask = RequestAt(9, 100, 11);
  const auto put = [&](std::uint32_t slot, double at) { placement.Placed(RequestAt(slot, 100, 11), one, At(at)); };
  put(0, 2);
  CHECK(placement.Score(ask, one, At(2)) == Approx(-3));
  one.reported = true;
  one.report = {.waiting = 0, .running = 1};
  CHECK(placement.Score(ask, one, At(2)) == Approx(-1.5));  // none waits: one more may run
  put(1, 2);
  put(2, 2);
  one.report = {.waiting = 1, .running = 2};
  put(3, 3);
  CHECK(placement.Score(ask, one, At(3)) == Approx(-(1.5 + 4 * 1.5 / 2)));
  one.report = {.waiting = 0, .running = 2};
  End(placement, RequestAt(3, 100, 11), one, -1, 4);
  End(placement, RequestAt(2, 100, 11), one, -1, 4);
  CHECK(placement.Score(ask, one, At(5)) == Approx(-(1.5 + 2 * 1.5 / 2)));  // two are assumed to be the maximum
  one.report = {.waiting = 0, .running = 3};
  CHECK(placement.Score(ask, one, At(5)) == Approx(-1.5));
  one.report = {.waiting = 0, .running = 2};
  Serve(placement, RequestAt(5, 100, 11), one, 60, 0.5, 0.1, 11);
  CHECK(placement.Score(ask, one, At(62.9)) == Approx(-(1.5 + 2 * 1.5 / 2)));
  CHECK(placement.Score(ask, one, At(63.1)) == Approx(-1.5));  // for a minute
}

TEST_CASE("an unreported instance counts as the mean, a reused slot as new") {
  MinimumCompletionTime placement;
  placement.recent_s = 60;
  const InstanceState slow = InstanceAt(0, 7), fast = InstanceAt(1, 8);
  placement.Up(slow, {});
  placement.Up(fast, {});
  Serve(placement, RequestAt(0, 100, 5), slow, 0, 4, 1, 2);
  Serve(placement, RequestAt(0, 100, 5), fast, 6, 0.5, 0.1, 2);
  const RequestState ask = RequestAt(9, 100, 2);
  CHECK(placement.Score(ask, slow, At(60)) == Approx(-5));
  CHECK(placement.Score(ask, fast, At(60)) == Approx(-0.6));
  CHECK(placement.Score(ask, slow, At(65.5)) > -5);
  CHECK(placement.Score(ask, slow, At(65.5)) < -0.6);
  CHECK(placement.Score(ask, fast, At(65.5)) == Approx(-0.6));
  const InstanceState again = InstanceAt(0, 9);
  placement.Up(slow, {});
  CHECK(placement.Score(ask, slow, At(60)) == Approx(-5));
  placement.Up(again, {});
  CHECK(placement.Score(ask, again, At(60)) > -5);
}

// Instances under a router whose costs are exactly such a line and that run several calls at once. By the true costs,
// no other choice is better once enough calls were observed.
TEST_CASE("the placement learns the true costs and places by them") {
  struct Engine {
    double a, b, c;
    std::size_t lanes;
    std::vector<double> free = {};  // when each lane is
  };
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Random random(seed);
    std::vector<Engine> engines{{0.08, 0, 0.04, 4}, {0.24, 0, 0.12, 4}, {0.02, 0.0008, 0.0025, 1}};
    auto made = BasicRouter<Fcfs, MinimumCompletionTime>::Create({}, Fcfs{}, MinimumCompletionTime{});
    REQUIRE(made.ok());
    auto& router = *made;
    for (std::size_t e = 0; e < engines.size(); ++e) {
      engines[e].free.assign(engines[e].lanes, 0);
      router.On(InstanceUp{{.id = {e + 1}}}, {});
    }
    struct Due {
      double at;
      std::uint64_t request;
      std::size_t engine;
      bool begins;
      std::int32_t prompt, output;
    };
    std::vector<Due> due;
    const auto later = [](const Due& x, const Due& y) { return x.at > y.at; };
    double now = 0;
    std::vector<int> went(6);
    for (std::uint64_t id = 1; id <= 4000; ++id) {
      now += 0.1 * random.Exponential();
      while (!due.empty() && due.front().at <= now) {
        std::pop_heap(due.begin(), due.end(), later);
        const Due d = due.back();
        due.pop_back();
        const InstanceId instance{d.engine + 1};
        if (d.begins) {
          router.On(RequestStarted{{d.request}, instance}, At(d.at));
        } else {
          router.On(RequestEnded{{d.request}, instance, false, TokensServed{{d.prompt}, {d.output}}}, At(d.at));
        }
      }
      const bool is_long = random.Below(2) == 0;
      const std::int32_t prompt = is_long ? 1500 : 80, output = 12;
      Request r{.id = {id}};
      r.prompt_tokens = {prompt};
      r.output_tokens = Estimate::Exact(output);
      router.On(Arrived{r}, At(now));
      const auto& placed = router.Place(At(now));
      REQUIRE(placed.size() == 1);
      const std::size_t e = placed.front().instance.value - 1;
      Engine& engine = engines[e];
      auto lane = std::min_element(engine.free.begin(), engine.free.end());
      const double begin = std::max(now, *lane), first = begin + engine.a + engine.b * prompt;
      *lane = first + engine.c * (output - 1);
      due.push_back({first, id, e, true, prompt, output});
      std::push_heap(due.begin(), due.end(), later);
      due.push_back({*lane, id, e, false, prompt, output});
      std::push_heap(due.begin(), due.end(), later);
      if (id > 1000) ++went[e * 2 + (is_long ? 1 : 0)];
    }
    while (!due.empty()) {  // until empty, so that a score is a call's own time
      std::pop_heap(due.begin(), due.end(), later);
      const Due d = due.back();
      due.pop_back();
      now = d.at;
      if (!d.begins) {
        router.On(RequestEnded{{d.request}, {d.engine + 1}, false, TokensServed{{d.prompt}, {d.output}}}, At(now));
      }
    }
    for (const std::int32_t prompt : {80, 1500}) {
      Request r{.id = {5000}};
      r.prompt_tokens = {prompt};
      r.output_tokens = Estimate::Exact(12);
      const std::vector<InstanceId> ids{{1}, {2}, {3}};
      std::vector<double> scores(3);
      REQUIRE(router.Score(r, ids, At(now), scores) == 3);
      for (std::size_t e = 0; e < engines.size(); ++e) {
        const double truth = engines[e].a + engines[e].b * prompt + engines[e].c * 11;
        INFO(seed << " engine " << e << " prompt " << prompt);
        CHECK(-scores[e] == Approx(truth).epsilon(0.25));
      }
    }
    // The third is fast for short prompts, and slow for long ones.
    CHECK(went[4] > 5 * went[5]);
    CHECK(went[4] > went[2]);
    CHECK(went[1] > went[3]);
  }
}

}  // namespace
}  // namespace takt
