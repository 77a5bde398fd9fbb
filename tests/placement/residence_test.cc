// Placements by cached KV: the assumed cache contents, and the choice of instance.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/placement/cached_cost.h"
#include "takt/rivals/placement/llmd.h"
#include "takt/rivals/placement/mooncake.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint{} + FromSeconds(seconds); }

struct Fleet {
  explicit Fleet(const std::string& placement, int instances = 3, std::int32_t kv_tokens = 100'000)
      : router(*Router::Create({}, Fcfs{}, *MakePlacement(placement))) {
    for (int i = 1; i <= instances; ++i) Up(static_cast<std::uint64_t>(i), kv_tokens);
  }
  void Up(std::uint64_t id, std::int32_t kv_tokens) {
    Instance instance;
    instance.id = {id};
    instance.kv_tokens = {kv_tokens};
    router.On(InstanceUp{instance}, At(now));
  }
  void Down(std::uint64_t id) { router.On(InstanceDown{{id}}, At(now)); }

  // Returns the chosen instance.
  std::uint64_t Begin(std::uint64_t id, std::uint64_t workflow, std::int32_t prompt) {
    Request r;
    r.id = {id};
    r.workflow = {workflow};
    r.prompt_tokens = {prompt};
    r.arrival = At(now);
    router.On(Arrived{r}, At(now));
    std::uint64_t place = 0;
    for (const Placement& p : router.Place(At(now))) place = p.instance.value;
    return place;
  }
  void End(std::uint64_t id) { router.On(RequestEnded{{id}, {}}, At(now)); }
  std::uint64_t Turn(std::uint64_t id, std::uint64_t workflow, std::int32_t prompt) {
    const std::uint64_t place = Begin(id, workflow, prompt);
    router.On(RequestStarted{{id}, {place}}, At(now));
    End(id);
    now += 1;
    return place;
  }
  // Cached tokens of each instance, for a turn of the workflow.
  std::vector<double> Scores(std::uint64_t workflow, std::int32_t prompt) {
    Request r;
    r.id = {9999};
    r.workflow = {workflow};
    r.prompt_tokens = {prompt};
    std::vector<InstanceId> ids;
    for (const InstanceState& i : router.instances()) ids.push_back(i.instance.id);
    std::vector<double> scores(ids.size());
    router.Score(r, ids, At(now), scores);
    return scores;
  }

  Router router;
  double now = 1;
};

const std::vector<std::string> kCacheAware = {"session", "prefix",   "sglang",      "llmd",     "dynamo",
                                              "preble",  "mooncake", "cached_cost", "autellix", "lmetric"};

}  // namespace

TEST_CASE("a workflow's turns stay with its context at equal loads") {
  for (const std::string& placement : kCacheAware) {
    CAPTURE(placement);
    Fleet fleet(placement);
    fleet.Begin(1, 1, 5'000);  // it stays there, so that the first is not the least loaded
    const std::uint64_t home = fleet.Turn(2, 7, 20'000);
    CHECK(home != 1);
    for (std::uint64_t turn = 3; turn < 8; ++turn) {
      CHECK(fleet.Turn(turn, 7, 20'000 + 500 * static_cast<std::int32_t>(turn)) == home);
    }
  }
}

TEST_CASE("KV of a lost instance or an ended workflow is gone") {
  for (const std::string& placement : kCacheAware) {
    CAPTURE(placement);
    Fleet fleet(placement);
    fleet.Begin(1, 1, 5'000);
    const std::uint64_t home = fleet.Turn(2, 7, 50'000);
    CHECK(fleet.Scores(7, 50'001) != fleet.Scores(8, 50'001));
    fleet.Down(home);
    fleet.Up(home, 100'000);
    CHECK(fleet.Scores(7, 50'001) == fleet.Scores(8, 50'001));
    fleet.Turn(3, 7, 50'000);
    CHECK(fleet.Scores(7, 50'001) != fleet.Scores(8, 50'001));
    fleet.router.On(WorkflowEnded{{7}}, At(fleet.now));
    CHECK(fleet.Scores(7, 50'001) == fleet.Scores(8, 50'001));
  }
}

TEST_CASE("an instance is assumed to hold its last used KV") {
  Fleet fleet("prefix", 1, 100'000);
  fleet.Turn(1, 7, 60'000);
  CHECK(fleet.Scores(7, 60'001) == std::vector<double>{60'000});
  CHECK(fleet.Scores(7, 30'000) == std::vector<double>{29'999});  // at least one token is computed
  fleet.Turn(2, 8, 30'000);
  CHECK(fleet.Scores(7, 60'001) == std::vector<double>{60'000});
  fleet.Turn(3, 9, 30'000);
  CHECK(fleet.Scores(7, 60'001) == std::vector<double>{0});
  CHECK(fleet.Scores(8, 30'001) == std::vector<double>{30'000});
}

TEST_CASE("scores equal values by hand") {
  SECTION("llmd: 2 match + shorter queue + emptier cache") {
    Fleet fleet("llmd", 2);
    fleet.Turn(1, 7, 40'000);
    fleet.Begin(2, 8, 10'000);  // on the other instance, whose cache is empty
    const std::vector<double> scores = fleet.Scores(7, 50'000);
    CHECK(scores[0] == Approx(2 * 0.8 + 1 + 0.6));
    CHECK(scores[1] == Approx(0 + 0 + 0.9));
  }
  SECTION("lmetric(queued=true): prefill tokens, with those that wait, times requests") {
    Fleet fleet("lmetric(queued=true)", 2);
    fleet.Turn(1, 7, 40'000);
    CHECK(fleet.Begin(2, 8, 10'000) == 1);  // equal products go to the smaller id
    const double pending = (0.0387e-3 * 10'000 + 0.546e-9 * 1e8 / 2) / 0.0387e-3;  // its seconds, in tokens
    const std::vector<double> scores = fleet.Scores(7, 50'000);
    CHECK(scores[0] == Approx(-2 * (10'000 + pending)).epsilon(1e-6));
    CHECK(scores[1] == -50'000);
  }
  SECTION("lmetric: the request's prefill tokens times requests") {
    Fleet fleet("lmetric", 2);
    fleet.Turn(1, 7, 40'000);
    fleet.Begin(2, 8, 10'000);
    CHECK(fleet.Scores(7, 50'000) == std::vector<double>{-2 * 10'000, -50'000});
    CHECK(fleet.Begin(3, 7, 40'001) == 1);  // 2 * 1 against 40,001
    CHECK(fleet.Scores(7, 50'000) == std::vector<double>{-3 * 9'999, -50'000});
    CHECK(fleet.Scores(7, 100) == std::vector<double>{-3, -100});  // a fully cached prompt counts one token
    CHECK(fleet.Scores(9, 100) == std::vector<double>{-300, -100});
  }
  SECTION("mooncake: the wait and the prefill, 0.0387 ms and 0.546 ns a token") {
    Fleet fleet("mooncake", 2);
    fleet.Turn(1, 7, 40'000);
    fleet.Begin(2, 8, 10'000);
    const auto prefill = [](double from, double to) {
      return 0.0387e-3 * (to - from) + 0.546e-9 * (to * to - from * from) / 2;
    };
    const std::vector<double> scores = fleet.Scores(7, 50'000);
    CHECK(scores[0] == Approx(-prefill(40'000, 50'000) - prefill(0, 10'000)));
    CHECK(scores[1] == Approx(-prefill(0, 50'000)));
  }
  SECTION("cached_cost: evicted KV counts if it was used within two minutes") {
    Fleet fleet("cached_cost", 1);
    fleet.Turn(1, 7, 60'000);
    const auto prefill = [](double from, double to) {
      return 0.0387e-3 * (to - from) + 0.546e-9 * (to * to - from * from) / 2;
    };
    // 70,000 more, of 100,000: 30,000 tokens of the tail are evicted.
    CHECK(fleet.Scores(8, 70'000)[0] == Approx(-10 * prefill(0, 70'000) - prefill(30'000, 60'000) - 0.6e-3));
    fleet.now += 200;
    CHECK(fleet.Scores(8, 70'000)[0] == Approx(-10 * prefill(0, 70'000) - 0.6e-3));
  }
  SECTION("dynamo: pending prefill, new prefill and running contexts, in tokens") {
    Fleet fleet("dynamo", 1);
    fleet.Begin(1, 7, 100);
    const double pending = (0.0387e-3 * 100 + 0.546e-9 * 100 * 100 / 2) / 0.0387e-3;
    CHECK(fleet.Scores(8, 1000)[0] == Approx(-(pending + 1000) - 100).epsilon(1e-6));
  }
}

TEST_CASE("a score examines few copies, however many the prompt would displace") {
  for (const std::int32_t copies : {100, 10'000}) {
    CAPTURE(copies);
    CachedCost placer;
    const InstanceState at{.instance = {.id = {1}, .kv_tokens = {16 * copies}}};
    placer.Up(at, At(0));
    RequestState r;
    r.request.prompt_tokens = {16};
    for (std::int32_t c = 0; c < copies; ++c) {
      r.request.workflow = {static_cast<std::uint64_t>(c) + 1};
      placer.Prepare(r, At(0));
      placer.Placed(r, at, At(0));
      placer.Released(r, at, At(0));
    }
    CHECK(placer.looks() == 0);
    r.request = {.prompt_tokens = {16 * copies - 8}};
    placer.Prepare(r, At(1));
    const double displaced = (copies - 1) * (16 * 0.0387e-3 + 0.546e-9 * 16 * 16 / 2) +  // and the tail of the last
                             8 * 0.0387e-3 + 0.546e-9 * (16 * 16 - 8 * 8) / 2;
    const double prefill = 0.0387e-3 * (16 * copies - 8) + 0.546e-9 * std::pow(16 * copies - 8, 2) / 2;
    CHECK(placer.Score(r, at, At(1)) == Approx(-10 * prefill - displaced - 1e-3));
    CHECK(placer.looks() <= 10);
  }
}

TEST_CASE("rules of thumb of other systems are followed") {
  SECTION("sglang gives up a match if loads differ much") {
    Fleet fleet("sglang(abs=3)", 2);
    const std::uint64_t home = fleet.Turn(1, 7, 10'000);
    for (std::uint64_t id = 2; id < 6; ++id) CHECK(fleet.Begin(id, 7, 10'000) == home);
    CHECK(fleet.Begin(6, 7, 10'000) != home);
  }
  SECTION("preble gives up a match if its load is far above the least") {
    Fleet fleet("preble", 2);
    const std::uint64_t home = fleet.Turn(1, 7, 5'000);
    CHECK(fleet.Turn(2, 8, 6'000) != home);
    CHECK(fleet.Turn(3, 9, 60'000) == home);  // 3.3 s of prefill
    CHECK(fleet.Begin(4, 7, 5'001) != home);
    fleet.now += 1000;
    CHECK(fleet.Begin(5, 9, 60'001) == home);
  }
  SECTION("preble stays with a match within a second of the least load") {
    Fleet fleet("preble", 2);
    const std::uint64_t home = fleet.Turn(1, 7, 5'000);
    CHECK(fleet.Turn(2, 8, 6'000) != home);
    CHECK(fleet.Turn(3, 9, 8'000) == home);
    CHECK(fleet.Begin(4, 7, 5'001) == home);  // 0.7 s of prefill, against 0.3 s on the other
  }
  SECTION("preble keeps the cache of an instance that is reported up again") {
    Fleet fleet("preble", 2);
    const std::uint64_t home = fleet.Turn(1, 7, 5'000);
    fleet.Up(home, 1'000'000);
    CHECK(fleet.Begin(2, 7, 5'001) == home);
  }
  SECTION("autellix sends short prompts anywhere") {
    Fleet fleet("autellix", 2);
    const std::uint64_t home = fleet.Begin(1, 7, 5'000);
    CHECK(fleet.Begin(2, 7, 2'000) != home);
    CHECK(fleet.Scores(7, 3'000) != fleet.Scores(8, 3'000));
  }
  SECTION("a session whose home is down moves elsewhere and stays there") {
    Fleet fleet("session", 3);
    const std::uint64_t home = fleet.Turn(1, 7, 5'000);
    fleet.Down(home);
    const std::uint64_t next = fleet.Turn(2, 7, 5'000);
    CHECK(next != home);
    fleet.Up(home, 100'000);
    CHECK(fleet.Turn(3, 7, 5'000) == next);
  }
}

TEST_CASE("scores are valid for any input, and warm placements allocate nothing") {
  for (const std::string& placement : kCacheAware) {
    CAPTURE(placement);
    Fleet fleet(placement, 4, 50'000);
    Random random(7);
    std::uint64_t id = 1;
    std::size_t allocated = 0;
    for (int step = 0; step < 30'000; ++step) {
      const std::size_t before = allocations;
      const std::uint64_t workflow = random.Below(60);
      Request r;
      r.id = {id};
      r.workflow = {workflow};
      r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(20'000))};
      fleet.router.On(Arrived{r}, At(fleet.now));
      fleet.router.Place(At(fleet.now));
      if (id > 20) fleet.router.On(RequestStarted{{id - 10}, {}}, At(fleet.now));
      if (id > 20) fleet.router.On(RequestEnded{{id - 20}, {}}, At(fleet.now));
      fleet.now += 0.01;
      ++id;
      if (step >= 25'000) allocated += allocations - before;
    }
    CHECK(allocated == 0);
    for (const double score : fleet.Scores(3, 1000)) CHECK(std::isfinite(score));
    CHECK(fleet.router.alive() == 20);
  }
}

}  // namespace takt
