#include "takt/router.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/rivals/placement/best_fit.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/registry.h"
#include "takt/placement/round_robin.h"
#include "takt/rivals/policy/autellix.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Arrived Arrival(std::uint64_t id, std::int32_t prompt = 10) {
  Arrived arrived;
  arrived.request.id = {id};
  arrived.request.prompt_tokens = {prompt};
  return arrived;
}

InstanceUp Up(std::uint64_t id, std::int64_t capacity = Instance::kUnbounded, std::int32_t kv_tokens = 0) {
  return {{.id = {id}, .kv_tokens = {kv_tokens}, .capacity = capacity}};
}

struct ByPriority {
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
};

template <class Policy = Fcfs, class Placer = RoundRobin>
BasicRouter<Policy, Placer> Make(RouterOptions options = {}, Policy policy = {}, Placer placer = {}) {
  return *BasicRouter<Policy, Placer>::Create(options, policy, placer);
}

// Placements as pairs of plain numbers.
using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
template <class RouterT>
Pairs Place(RouterT& router, double seconds) {
  Pairs pairs;
  for (const Placement& p : router.Place(At(seconds))) pairs.emplace_back(p.request.value, p.instance.value);
  return pairs;
}

TEST_CASE("a placement receives the key of its hashes") {
  struct Keyed {
    std::uint64_t key = 0;
    void KeyHashes(std::uint64_t seed) { key = seed; }
    double Score(const RequestState&, const InstanceState&, TimePoint) const {
      CHECK(key == 7);
      return 0;
    }
  };
  auto router = Make<Fcfs, Keyed>({.hash_seed = 7});
  router.On(Up(1), At(0));
  router.On(Arrival(1), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}});
}

TEST_CASE("round_robin cycles through changing instances") {
  auto router = Make();
  for (std::uint64_t i : {3u, 1u, 2u}) router.On(Up(i), At(0));
  for (std::uint64_t i = 1; i <= 5; ++i) router.On(Arrival(i), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}, {2, 2}, {3, 3}, {4, 1}, {5, 2}});
  router.On(Up(4), At(1));
  for (std::uint64_t i = 6; i <= 9; ++i) router.On(Arrival(i), At(1));
  CHECK(Place(router, 1) == Pairs{{6, 4}, {7, 3}, {8, 1}, {9, 2}});
}

TEST_CASE("least_loaded weighs waiting requests fourfold and adds unreported placements") {
  auto router = Make<Fcfs, LeastLoaded>();
  router.On(Up(1), At(0));
  router.On(Up(2), At(0));
  router.On(InstanceReported{{1}, {.waiting = 2, .running = 1}}, At(0));  // 9
  router.On(InstanceReported{{2}, {.waiting = 0, .running = 6}}, At(0));  // 6
  for (std::uint64_t i = 1; i <= 4; ++i) router.On(Arrival(i), At(0));
  // 9 against 6, 10, 10 (both 9 + 4 = 13 against 10), 14.
  CHECK(Place(router, 0) == Pairs{{1, 2}, {2, 1}, {3, 2}, {4, 1}});
  router.On(InstanceReported{{1}, {.waiting = 0, .running = 0}}, At(0.1));  // its waiting requests have run since
  router.On(Arrival(5), At(0.1));
  CHECK(Place(router, 0.1) == Pairs{{5, 1}});
}

TEST_CASE("an instance without reports is judged by its unfinished placements") {
  auto router = Make<Fcfs, LeastLoaded>();
  router.On(Up(1), At(0));
  router.On(Up(2), At(0));
  for (std::uint64_t i = 1; i <= 4; ++i) router.On(Arrival(i), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}, {2, 2}, {3, 1}, {4, 2}});
  router.On(RequestEnded{{2}, {2}}, At(1));
  router.On(Arrival(5), At(1));
  CHECK(Place(router, 1) == Pairs{{5, 2}});
}

TEST_CASE("without instances all requests wait in rank order") {
  auto router = Make<ByPriority, RoundRobin>();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Arrived arrival = Arrival(i);
    arrival.request.priority = static_cast<std::int32_t>(10 - i);
    router.On(arrival, At(static_cast<double>(i)));
  }
  CHECK(Place(router, 4).empty());
  CHECK(router.waiting() == 3);
  router.On(Revised{.request = {1},
                    .output_tokens = {},
                    .workflow_tokens_left = {},
                    .deadline = {},
                    .expires_at = {},
                    .priority = 0,
                    .sequences = {}},
            At(5));
  router.On(Up(1), At(5));
  CHECK(Place(router, 5) == Pairs{{1, 1}, {3, 1}, {2, 1}});
  CHECK(router.waiting() == 0);
}

TEST_CASE("an instance holds at most its capacity and the router's bound") {
  auto router = Make<Fcfs, RoundRobin>({.max_outstanding = 2});
  router.On(Up(1, 1), At(0));
  router.On(Up(2), At(0));
  for (std::uint64_t i = 1; i <= 5; ++i) router.On(Arrival(i), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}, {2, 2}, {3, 2}});
  CHECK(Place(router, 0).empty());
  router.On(RequestEnded{{1}, {}}, At(1));
  CHECK(Place(router, 1) == Pairs{{4, 1}});
  router.On(Cancelled{{2}}, At(2));
  CHECK(Place(router, 2) == Pairs{{5, 2}});
}

TEST_CASE("an instance described with capacity 0 drains") {
  auto router = Make();
  router.On(Up(1), At(0));
  router.On(Arrival(1), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}});
  router.On(Up(1, 0), At(1));
  router.On(Arrival(2), At(1));
  CHECK(Place(router, 1).empty());
  CHECK(router.InstanceOf({1}) == InstanceId{1});
  router.On(RequestEnded{{1}, {1}}, At(2));
  CHECK(router.alive() == 1);
}

TEST_CASE("a request that fits no instance blocks none, until one fits") {
  auto router = Make();
  router.On(Up(1, Instance::kUnbounded, 100), At(0));
  router.On(Arrival(1, 100), At(0));  // no room for a single new token
  router.On(Arrival(2, 99), At(0));
  router.On(Arrival(4, 500), At(0));
  CHECK(Place(router, 0) == Pairs{{2, 1}});
  CHECK((router.waiting() == 2 && router.set_aside() == 2));
  router.On(Cancelled{{4}}, At(0));
  CHECK(router.set_aside() == 1);
  router.On(Up(2, Instance::kUnbounded, 101), At(1));
  router.On(Arrival(3), At(1));
  CHECK(Place(router, 1) == Pairs{{1, 2}, {3, 1}});
  CHECK(router.set_aside() == 0);
}

TEST_CASE("a window of requests is considered behind a blocked first one") {
  for (const std::int32_t window : {0, 2}) {
    auto router = Make<Fcfs, RoundRobin>({.window = window});
    router.On(Up(1, 1, 1000), At(0));
    router.On(Up(2, 10, 100), At(0));
    for (std::uint64_t i = 1; i <= 4; ++i) router.On(Arrival(i, 500), At(0));
    router.On(Arrival(5, 50), At(0));
    // 1 takes the only large place. 5 is the third after the first that waits.
    CHECK(Place(router, 0) == Pairs{{1, 1}});
    router.On(Cancelled{{3}}, At(0));
    CHECK(Place(router, 0) == (window == 2 ? Pairs{{5, 2}} : Pairs{}));
  }
}

TEST_CASE("a placement policy may decline, also with NaN") {
  struct Picky {
    double Score(const RequestState& r, const InstanceState&, TimePoint now) const {
      return now < At(1) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(r.request.id.value);
    }
  };
  auto router = Make<Fcfs, Picky>();
  router.On(Up(1), At(0));
  router.On(Arrival(1), At(0));
  CHECK(Place(router, 0.5).empty());
  CHECK(Place(router, 1) == Pairs{{1, 1}});
}

TEST_CASE("declined requests are scored twice if tenants are not charged for tokens") {
  struct Picky {
    std::shared_ptr<int> asked = std::make_shared<int>(0);
    double Score(const RequestState& r, const InstanceState&, TimePoint) const {
      ++*asked;
      return r.request.id.value > 10 ? 0 : -std::numeric_limits<double>::infinity();
    }
  };
  const Picky picky;
  auto router = Make<AnyPolicy, Picky>({.window = 20}, Fcfs{}, picky);
  router.On(Up(1), At(0));
  for (std::uint64_t i = 1; i <= 20; ++i) router.On(Arrival(i), At(0));
  CHECK(Place(router, 0).size() == 10);
  CHECK(*picky.asked <= 2 * 20 + 2);
}

TEST_CASE("with fail_unfit, requests too large for all instances fail") {
  auto router = Make<Fcfs, RoundRobin>({.fail_unfit = true});
  router.On(Arrival(1, 500), At(0));
  CHECK(Place(router, 0).empty());  // no instance is up yet
  CHECK(router.failed().empty());
  router.On(Up(1, 10, 100), At(0));
  router.On(Arrival(2, 50), At(0));
  CHECK(Place(router, 1) == Pairs{{2, 1}});
  REQUIRE(router.failed().size() == 1);
  CHECK(router.failed()[0] == Failure{{1}, FailReason::kNeverFits});
  CHECK(router.stats().failed_unfit == 1);
  CHECK(router.alive() == 1);
}

TEST_CASE("a placement hands over the prediction for the instance's model") {
  const auto left = [](bool hands_over, float tokens) {
    auto router = Make<Fcfs, RoundRobin>({.model_tokens = hands_over});
    router.On(InstanceUp{{.id = {1}, .model = {2}}}, At(0));
    const ModelScore scores[] = {{{1}, 0.5f, 7}, {{2}, 0.5f, tokens}};
    Arrived arrived = Arrival(1);
    arrived.request.scores = scores, arrived.request.workflow_tokens_left = Estimate::Exact(5);
    router.On(arrived, At(0));
    REQUIRE(Place(router, 0).size() == 1);
    return router.Find({1})->request.workflow_tokens_left.mean;
  };
  CHECK(left(true, 90) == 90);
  CHECK(left(false, 90) == 5);
  CHECK(left(true, -1) == 5);
  CHECK(left(true, std::numeric_limits<float>::quiet_NaN()) == 5);
  CHECK(left(true, std::numeric_limits<float>::infinity()) == 1e9);
}

TEST_CASE("the prediction for a lost instance's model is not handed over to another model") {
  for (const bool revised : {false, true}) {
    auto router = Make<Fcfs, RoundRobin>();
    router.On(InstanceUp{{.id = {1}, .model = {2}}}, At(0));
    const ModelScore scores[] = {{{2}, 0.5f, 90}};
    Arrived arrived = Arrival(1);
    arrived.request.scores = scores;
    router.On(arrived, At(0));
    REQUIRE(Place(router, 0).size() == 1);
    if (revised) router.On(Revised{.request = {1}, .workflow_tokens_left = Estimate::Exact(60)}, At(1));
    router.On(InstanceDown{{1}}, At(1));
    router.On(InstanceUp{{.id = {2}, .model = {3}}}, At(1));
    REQUIRE(Place(router, 1).size() == 1);
    CHECK(router.Find({1})->request.workflow_tokens_left == (revised ? Estimate::Exact(60) : Estimate{}));
  }
}

TEST_CASE("a lost instance returns its requests once, in their old order") {
  auto router = Make();
  router.On(Up(1), At(0));
  router.On(Up(2), At(0));
  for (std::uint64_t i = 1; i <= 4; ++i) router.On(Arrival(i), At(static_cast<double>(i) * 0.1));
  CHECK(Place(router, 1) == Pairs{{1, 1}, {2, 2}, {3, 1}, {4, 2}});
  router.On(RequestEnded{{1}, {1}}, At(2));
  router.On(Arrival(5), At(2));
  router.On(InstanceDown{{1}}, At(2));
  router.On(InstanceDown{{1}}, At(2));
  CHECK(router.stats().returned == 1);
  CHECK(Place(router, 2) == Pairs{{3, 2}, {5, 2}});
  CHECK(Place(router, 2).empty());
  router.On(RequestEnded{{3}, {1}}, At(3));  // a late report of the lost instance
  CHECK(router.stats().reported_late == 1);
  CHECK(router.InstanceOf({3}) == InstanceId{2});
  router.On(Up(1), At(3));
  router.On(RequestEnded{{3}, {2}}, At(3));
  CHECK(router.alive() == 3);
  router.On(Arrival(6), At(3));
  CHECK(Place(router, 3) == Pairs{{6, 1}});  // it returned empty
}

// Chooses the request that joined first.
struct LogsJoins {
  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.arrival)}; }
  Slot First() const { return line.empty() ? kNoSlot : line.front(); }
  void Joins(const RequestState& r, TimePoint) { line.push_back(r.slot), log->push_back(r.request.id.value); }
  void Leaves(Slot slot, bool) { std::erase(line, slot); }
  void Returns(Slot slot) { line.insert(line.begin(), slot); }

  std::vector<std::uint64_t>* log = nullptr;
  std::vector<Slot> line = {};
};

TEST_CASE("requests of a lost instance join a policy that chooses in order of their keys") {
  std::vector<std::uint64_t> joins;
  auto router = Make<LogsJoins, RoundRobin>({}, LogsJoins{.log = &joins});
  router.On(Up(1), At(0));
  for (const std::uint64_t id : {3u, 1u, 4u, 2u}) {
    Arrived arrived = Arrival(id);
    arrived.request.arrival = At(static_cast<double>(id));
    router.On(arrived, At(5));
  }
  CHECK(Place(router, 6).size() == 4);
  joins.clear();
  router.On(InstanceDown{{1}}, At(7));
  CHECK(joins == std::vector<std::uint64_t>{1, 2, 3, 4});
}

TEST_CASE("an expired waiting request is reported, and wake_at has its time") {
  auto router = Make();
  Arrived arrival = Arrival(1);
  arrival.request.expires_at = At(5);
  router.On(arrival, At(0));
  CHECK(router.wake_at() == At(5));
  CHECK(Place(router, 4.999).empty());
  CHECK(router.failed().empty());
  router.On(Up(1), At(5));
  CHECK(Place(router, 5).empty());
  REQUIRE(router.failed().size() == 1);
  CHECK(router.failed()[0] == Failure{{1}, FailReason::kExpired});
  CHECK(router.wake_at() == kNever);
  CHECK(router.alive() == 0);
  // A placed request expires at its instance, not in the router.
  arrival.request.id = {2};
  arrival.request.expires_at = At(7);
  router.On(arrival, At(6));
  CHECK(Place(router, 6) == Pairs{{2, 1}});
  CHECK(router.wake_at() == kNever);
  router.On(InstanceDown{{1}}, At(6.5));
  CHECK(router.wake_at() == At(7));
}

TEST_CASE("invalid events are harmless and counted") {
  auto router = Make();
  router.On(Arrival(0), At(0));
  router.On(Arrival(1), At(0));
  router.On(Arrival(1), At(0));
  CHECK(router.stats().failed_invalid == 1);
  CHECK(router.stats().failed_id_in_use == 1);
  router.On(Arrival(2, 0), At(0));
  CHECK(Place(router, 0).empty());
  REQUIRE(router.failed().size() == 3);
  CHECK(router.failed()[0] == Failure{{0}, FailReason::kInvalid});
  CHECK(router.failed()[1] == Failure{{1}, FailReason::kIdInUse});
  CHECK(router.failed()[2] == Failure{{2}, FailReason::kInvalid});
  CHECK(router.Find({1}) != nullptr);  // the first request with this id is alive
  router.On(Cancelled{{9}}, At(0));
  router.On(RequestEnded{{9}, {9}}, At(0));
  router.On(InstanceDown{{9}}, At(0));
  router.On(InstanceReported{{9}, {}}, At(0));
  CHECK(router.stats().events_unknown == 4);
  router.On(Up(0), At(0));
  router.On(Up(1), At(0));
  router.On(InstanceReported{{1}, {.waiting = -1}}, At(0));
  CHECK(router.stats().events_invalid == 2);
  router.On(Cancelled{{1}}, At(0));
  router.On(Cancelled{{1}}, At(0));
  CHECK(router.stats().cancelled == 1);
  CHECK(router.alive() == 0);
  CHECK(Place(router, -1).empty());
  CHECK(router.stats().clock_stepped_back == 1);
}

TEST_CASE("options out of range are named with their values") {
  const auto router = BasicRouter<Fcfs, RoundRobin>::Create({.max_outstanding = 0, .window = -3}, {}, {});
  REQUIRE(!router.ok());
  CHECK(std::string(router.status().message()).find("max_outstanding is 0: must be at least 1\nwindow is -3") !=
        std::string::npos);
}

// ---- policies that rank by service ------------------------------------------------------------------------------

Arrived ArrivalOf(std::uint64_t tenant, std::uint64_t id, std::int32_t prompt = 10) {
  Arrived arrived = Arrival(id, prompt);
  arrived.request.tenant = {tenant};
  return arrived;
}

using Ids = std::vector<std::uint64_t>;

// Places and ends requests one by one on an instance that holds one. Calls `end(id)` for each request, and returns the
// order of requests.
template <class RouterT, class End>
Ids OneByOne(RouterT& router, int n, End&& end) {
  Ids ids;
  for (int i = 0; i < n; ++i) {
    const std::span<const Placement> placed = router.Place(At(1 + i));
    if (placed.empty()) break;
    REQUIRE(placed.size() == 1);
    const std::uint64_t id = placed[0].request.value;
    ids.push_back(id);
    end(id, At(1 + i));
  }
  return ids;
}

TEST_CASE("a placement charges its tenant, so a flood waits behind others") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 1});
  router.On(Up(1), At(0));
  for (std::uint64_t id = 1; id <= 10; ++id) router.On(ArrivalOf(1, id), At(0));
  for (std::uint64_t id = 11; id <= 14; ++id) router.On(ArrivalOf(2, id), At(0));
  const Ids ids =
      OneByOne(router, 9, [&](std::uint64_t id, TimePoint now) { router.On(RequestEnded{{id}, {1}}, now); });
  CHECK(ids == Ids{1, 11, 2, 12, 3, 13, 4, 14, 5});
}

TEST_CASE("one Place with room for many charges each in turn") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 6});
  router.On(Up(1), At(0));
  for (std::uint64_t id = 1; id <= 10; ++id) router.On(ArrivalOf(1, id), At(0));
  for (std::uint64_t id = 11; id <= 14; ++id) router.On(ArrivalOf(2, id), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}, {11, 1}, {2, 1}, {12, 1}, {3, 1}, {13, 1}});
}

TEST_CASE("a tenant is charged for each reported output token once") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 1});
  router.On(Up(1), At(0));
  for (std::uint64_t id = 1; id <= 10; ++id) router.On(ArrivalOf(1, id), At(0));
  for (std::uint64_t id = 11; id <= 18; ++id) router.On(ArrivalOf(2, id), At(0));
  // Tenant 1's requests cost 10 + 2 * 25 = 60, those of tenant 2 10 + 2 * 5 = 20.
  const Ids ids = OneByOne(router, 12, [&](std::uint64_t id, TimePoint now) {
    const std::int32_t output = id <= 10 ? 25 : 5;
    router.On(RequestServed{{id}, {1}, {{10}, {output / 5}}}, now);
    router.On(RequestServed{{id}, {1}, {{10}, {output / 5}}}, now);    // a repeated report
    router.On(RequestServed{{id}, {1}, {{5}, {1}}}, now);              // a late report
    router.On(RequestServed{{id}, {2}, {{900}, {900}}}, now);          // it is not on that instance
    router.On(RequestServed{{id}, {1}, {{-900}, {900}}}, now);         // invalid
    router.On(RequestEnded{{id}, {1}, false, TokensServed{{10}, {output}}}, now);
    router.On(RequestServed{{id}, {1}, {{900}, {900}}}, now);          // it has ended
  });
  CHECK(ids == Ids{1, 11, 12, 13, 2, 14, 15, 16, 3, 17, 18, 4});
  CHECK(router.stats().reported_late == 12);
  CHECK(router.stats().events_invalid == 12);
  CHECK(router.stats().events_unknown == 12);
}

TEST_CASE("a request's charge does not pass to its slot's next request") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 1});
  router.On(Up(1), At(0));
  router.On(ArrivalOf(1, 1, 100), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}});
  router.On(RequestEnded{{1}, {1}}, At(1));
  for (std::uint64_t id : {2u, 3u}) router.On(ArrivalOf(2, id, 90), At(1));  // lifted to 100
  router.On(ArrivalOf(1, 4, 10), At(1));
  const auto end = [&](std::uint64_t id, TimePoint now) { router.On(RequestEnded{{id}, {1}}, now); };
  CHECK(OneByOne(router, 3, end) == Ids{2, 4, 3});  // 190 against 100
}

TEST_CASE("without reported tokens, finished requests are charged their expected output") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 1});
  router.On(Up(1), At(0));
  for (std::uint64_t id = 1; id <= 20; ++id) {
    Arrived arrival = ArrivalOf(id <= 10 ? 1 : 2, id);
    arrival.request.output_tokens = Estimate::Exact(id <= 10 ? 25 : 1000);
    if (id > 10) arrival.request.max_output_tokens = {5};
    router.On(arrival, At(0));
  }
  const auto end = [&](std::uint64_t id, TimePoint now) { router.On(RequestEnded{{id}, {1}}, now); };
  CHECK(OneByOne(router, 6, end) == Ids{1, 11, 12, 13, 2, 14});
  const auto fail = [&](std::uint64_t id, TimePoint now) { router.On(RequestEnded{{id}, {1}, true}, now); };
  CHECK(OneByOne(router, 5, fail) == Ids{15, 16, 17, 18, 3});  // only prompts: 80, 100 ... 130 against 120
}

TEST_CASE("tokens recomputed after a lost instance are charged once") {
  auto router = Make<FairShare, RoundRobin>({.max_outstanding = 1});
  router.On(Up(1), At(0));
  router.On(ArrivalOf(1, 1, 100), At(0));
  router.On(ArrivalOf(2, 2, 120), At(0));
  router.On(ArrivalOf(2, 3, 120), At(0));
  CHECK(Place(router, 0) == Pairs{{1, 1}});
  router.On(RequestServed{{1}, {1}, {{100}, {5}}}, At(1));
  CHECK(router.Find({1})->generated == Tokens{5});
  router.On(InstanceDown{{1}}, At(1));
  CHECK(router.Find({1})->generated == Tokens{0});
  router.On(Up(2), At(2));
  CHECK(Place(router, 2) == Pairs{{2, 2}});  // 0 against 110
  router.On(RequestEnded{{2}, {2}, false, TokensServed{{120}, {1}}}, At(3));
  CHECK(Place(router, 3) == Pairs{{1, 2}});  // 110 against 122
  router.On(RequestEnded{{1}, {2}, false, TokensServed{{100}, {5}}}, At(4));
  router.On(ArrivalOf(1, 4), At(4));  // lifted to tenant 2's counter, 122 if it was charged 110 once
  CHECK(Place(router, 4) == Pairs{{3, 2}});
  router.On(RequestEnded{{3}, {2}}, At(5));
  CHECK(Place(router, 5) == Pairs{{4, 2}});
}

TEST_CASE("autellix in a router ranks by the reported service of programs") {
  Autellix policy({.bound = 2, .beta = 1e9});
  policy.pace = {.decode_s = 0.02, .forward_s = 1e-3};
  auto router = Make<Autellix, RoundRobin>({.max_outstanding = 1}, policy);
  router.On(Up(1), At(0));
  const auto call = [&](std::uint64_t workflow, std::uint64_t id, double now) {
    Arrived arrival = Arrival(id, 100);
    arrival.request.workflow = {workflow};
    router.On(arrival, At(now));
  };
  call(1, 1, 0);
  CHECK(Place(router, 5) == Pairs{{1, 1}});
  router.On(RequestServed{{1}, {1}, {{100}, {1}}}, At(6));
  router.On(RequestServed{{1}, {1}, {{100}, {51}}}, At(7));
  router.On(RequestEnded{{1}, {1}, false, TokensServed{{100}, {101}}}, At(8));  // 0.1 s and 100 steps of 0.02 s
  const auto queue_of = [&](std::uint64_t workflow) {
    RequestState next;
    next.request.workflow = {workflow};
    next.slot = 1000;
    return router.policy().queue(next);
  };
  CHECK(router.policy().ServiceAndWait({1}).first == Approx(2.1));
  CHECK(router.policy().ServiceAndWait({1}).second == Approx(5));  // until its placement
  CHECK(queue_of(1) == 1);
  call(1, 2, 9);
  call(2, 3, 10);
  CHECK(Place(router, 11) == Pairs{{3, 1}});
}

// Records its calls.
struct Listening {
  std::vector<QueuePressure> pressures = {};
  std::vector<std::uint64_t> entered = {}, ended = {}, cut = {};
  std::int64_t prefill = 0, output = 0, steps = 0;

  RankKey Key(const RequestState&) const { return {}; }
  void Enters(const RequestState& r, TimePoint) { entered.push_back(r.request.id.value); }
  void Ends(const RequestState& r, TimePoint) { (r.cut ? cut : ended).push_back(r.request.id.value); }
  void PlanEnds(const QueuePressure& p, TimePoint) { pressures.push_back(p); }
  void Scheduled(const RequestState&, Tokens p, Tokens o, std::int64_t n) {
    prefill += p.value, output += o.value, steps += o.value > 0 ? n : 0;
  }
  // Instances with an odd id are never wanted.
  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    return i.instance.id.value % 2 == 0 ? 1 : std::numeric_limits<double>::quiet_NaN();
  }
};

TEST_CASE("a policy receives the head's bottleneck and the number of instances") {
  auto router = Make<Listening, Listening>({.max_outstanding = 4});
  const auto pressure = [&](double now) {
    router.Place(At(now));
    return router.policy().pressures.back();
  };
  CHECK(pressure(0).head == WaitsFor::kNothing);
  CHECK(pressure(0).engines == 1);
  router.On(Arrival(1), At(0));
  CHECK(pressure(0).head == WaitsFor::kSequences);  // no instance is up
  router.On(Up(1, 10, 1000), At(1));
  CHECK(pressure(1).head == WaitsFor::kKv);  // the placement does not want it there
  router.On(Up(2, 2, 3000), At(2));
  router.On(Up(3, 0, 9000), At(2));  // it drains
  CHECK(pressure(2).head == WaitsFor::kNothing);
  CHECK(router.policy().pressures.back().engines == 2);
  CHECK(router.policy().pressures.back().kv_tokens == Tokens{2000});
  CHECK(router.policy().pressures.back().limits.max_seqs == 3);
  router.On(Up(1, 0), At(3));
  for (std::uint64_t id = 2; id <= 3; ++id) router.On(Arrival(id), At(3));
  CHECK(pressure(3).head == WaitsFor::kSequences);
}

TEST_CASE("a policy sees a router's requests as an engine's: revisions, tokens, ends") {
  auto router = Make<Listening, RoundRobin>();
  router.On(Up(1), At(0));
  Arrived arrival = Arrival(1, 7);
  arrival.request.sequences = 3;
  router.On(arrival, At(0));
  CHECK_FALSE(router.Find({1})->taken);
  router.Place(At(0));
  CHECK(router.Find({1})->taken);
  CHECK_FALSE(router.Find({1})->has_run);
  router.On(Revised{.request = {1}, .output_tokens = Estimate::Exact(5)}, At(1));
  CHECK(router.policy().entered == Ids{1, 1});
  router.On(RequestServed{{1}, {1}, {{9}, {6}}}, At(1));  // 2 tokens computed again; 1 step after the prompt's
  CHECK(router.policy().prefill == 9);
  CHECK(router.policy().output == 6);
  CHECK(router.policy().steps == 1);
  CHECK(router.Find({1})->generated == Tokens{2});
  CHECK(router.Find({1})->has_run);
  router.On(RequestEnded{{1}, {}, false, TokensServed{{9}, {30}}}, At(2));
  CHECK(router.policy().steps == 9);
  CHECK(router.policy().ended == Ids{1});
  for (std::uint64_t id = 2; id <= 3; ++id) router.On(Arrival(id), At(3));
  router.Place(At(3));
  router.On(Cancelled{{2}}, At(4));
  router.On(RequestEnded{{3}, {}, true}, At(4));
  CHECK(router.policy().cut == Ids{2, 3});
}

// ---- against a slow, plain model ------------------------------------------------------------------------------

// Least loaded over FCFS with bounds and KV sizes. It scans every request in order of (arrival, id), and scores every
// instance.
class Model {
 public:
  struct Waiting {
    std::int64_t arrival;
    std::int32_t prompt;
    std::int64_t expires;
    std::optional<std::uint64_t> instance;
    std::int64_t number = 0;  // number of its placement
    TimePoint placed{};
    bool unseen = false;  // not in any report of its instance
  };
  struct Replica {
    std::int64_t capacity = 0;
    std::int32_t kv = 0;
    InstanceReport report{};
    bool reported = false;
    std::int64_t since = 0;
    TimePoint complete = kUnset;  // time up to which its reports are complete
  };

  // Returns the instance's requests that no report includes yet, in the order of placement.
  std::map<std::int64_t, Waiting*> Unseen(std::uint64_t instance) {
    std::map<std::int64_t, Waiting*> unseen;
    for (auto& [id, r] : requests) {
      if (r.instance == instance && r.unseen) unseen[r.number] = &r;
    }
    return unseen;
  }

  void Report(std::uint64_t instance, const InstanceReport& report) {
    const auto it = instances.find(instance);
    if (it == instances.end() || (report.as_of != kUnset && report.as_of < it->second.complete)) return;
    const std::int64_t held = Outstanding(instance);
    auto left = static_cast<std::int64_t>(Unseen(instance).size());
    for (const auto& [number, r] : Unseen(instance)) {
      const bool dated = report.as_of != kUnset;
      if (dated ? r->placed <= report.as_of : left > held - report.waiting - report.running) r->unseen = false, --left;
    }
    it->second.complete = std::max(it->second.complete, report.as_of);
    it->second.report = report, it->second.reported = true;
    it->second.since = static_cast<std::int64_t>(Unseen(instance).size());
  }

  std::int64_t Outstanding(std::uint64_t instance) const {
    return std::ranges::count_if(requests, [&](const auto& r) { return r.second.instance == instance; });
  }

  Pairs Place(std::int64_t now, std::vector<std::uint64_t>& expired) {
    std::set<std::tuple<std::int64_t, std::uint64_t>> order;
    for (auto it = requests.begin(); it != requests.end();) {
      if (!it->second.instance && it->second.expires <= now) {
        expired.push_back(it->first);
        it = requests.erase(it);
        continue;
      }
      if (!it->second.instance) order.insert({it->second.arrival, it->first});
      ++it;
    }
    Pairs pairs;
    for (const auto& [arrival, id] : order) {
      Waiting& r = requests.at(id);
      std::optional<double> best;
      for (const auto& [instance, i] : instances) {
        if ((i.kv != 0 && r.prompt >= i.kv) || Outstanding(instance) >= i.capacity) continue;
        const double load = i.reported ? static_cast<double>(4 * (i.report.waiting + i.since) + i.report.running)
                                       : static_cast<double>(4 * Outstanding(instance));
        if (best && load >= *best) continue;
        best = load;
        r.instance = instance;
      }
      if (!best) continue;
      ++instances.at(*r.instance).since;
      r.number = ++placements, r.placed = TimePoint(Duration(now)), r.unseen = true;
      pairs.emplace_back(id, *r.instance);
    }
    return pairs;
  }

  std::map<std::uint64_t, Waiting> requests;
  std::map<std::uint64_t, Replica> instances;
  std::int64_t placements = 0;
};

// Returns the instance of the largest score, the smaller id if scores are equal; 0: none.
std::uint64_t Best(const std::vector<InstanceId>& ids, const std::vector<double>& scores) {
  std::size_t best = ids.size();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!std::isnan(scores[i]) && (best == ids.size() || scores[i] > scores[best])) best = i;
  }
  return best == ids.size() ? 0 : ids[best].value;
}

TEST_CASE("Score gives the scores by which a placement places") {
  for (const PlacementInfo& info : PlacementInfos()) {
    CAPTURE(info.name);
    Random random(5);
    auto router = *Router::Create({}, Fcfs{}, *MakePlacement(info.name));
    std::vector<InstanceId> ids;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      router.On(InstanceUp{{.id = {id}, .kv_tokens = {id == 5 ? 50 : 0}, .capacity = 4}}, At(0));
      ids.push_back({id});
    }
    std::vector<double> scores(ids.size()), again(ids.size());
    std::vector<RequestId> there;
    int placed = 0;
    for (std::uint64_t id = 1; id <= 300; ++id) {
      const TimePoint now = At(static_cast<double>(id) * 0.1);
      Arrived arrival = Arrival(id, static_cast<std::int32_t>(1 + random.Below(100)));
      arrival.request.output_tokens = Estimate::Exact(static_cast<double>(1 + random.Below(200)));
      const std::size_t possible = router.Score(arrival.request, ids, now, scores);
      CHECK(router.alive() == static_cast<std::int64_t>(there.size()));  // its request is still unknown
      router.On(arrival, now);
      REQUIRE(router.Score(arrival.request, ids, now, again) == possible);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        REQUIRE((scores[i] == again[i] || (std::isnan(scores[i]) && std::isnan(again[i]))));
      }
      const auto chosen = router.Place(now);
      REQUIRE(chosen.size() == (possible > 0 ? 1 : 0));
      if (chosen.empty()) {
        router.On(Cancelled{{id}}, now);
      } else {
        REQUIRE(chosen[0].instance.value == Best(ids, scores));
        there.push_back({id}), ++placed;
      }
      while (!there.empty() && random.Chance(0.5)) {
        const std::size_t ends = random.Below(there.size());
        router.On(RequestEnded{there[ends], router.InstanceOf(there[ends])}, now);
        there.erase(there.begin() + static_cast<std::ptrdiff_t>(ends));
      }
    }
    CHECK(placed > 100);
  }
}

// Requests `first` to `last` arrive and are placed. Returns the numbers on instances 1 and 2.
Pairs Split(auto& router, std::uint64_t first, std::uint64_t last, double now) {
  for (std::uint64_t id = first; id <= last; ++id) router.On(Arrival(id), At(now));
  Pairs split{{1, 0}, {2, 0}};
  for (const auto& [request, instance] : Place(router, now)) ++split[instance - 1].second;
  return split;
}

auto TwoThatReport() {
  auto router = Make<Fcfs, LeastLoaded>();
  for (std::uint64_t id : {1u, 2u}) {
    router.On(Up(id), At(0));
    router.On(InstanceReported{{id}, {}}, At(0));
  }
  return router;
}

TEST_CASE("a report from before placements does not erase them") {
  // llm-d-router#2066, aibrix#2422, dynamo#7753: all arrivals go to the instance with the stale report.
  for (const TimePoint as_of : {kUnset, At(0), At(0.5)}) {
    auto router = TwoThatReport();
    CHECK(Split(router, 1, 10, 1) == Pairs{{1, 5}, {2, 5}});
    for (const double now : {2, 3, 4}) router.On(InstanceReported{{1}, {.as_of = as_of}}, At(now));  // again and again
    CHECK(Split(router, 11, 20, 5) == Pairs{{1, 5}, {2, 5}});
    CHECK(router.stats().reported_late == 0);
    CHECK(router.stats().faults() == 0);
  }
}

TEST_CASE("a report includes placements up to as_of, or those it counts") {
  auto router = TwoThatReport();
  const auto since = [&] {
    return std::pair(router.instances()[0].since_report, router.instances()[0].tokens_since_report);
  };
  for (std::uint64_t id = 1; id <= 4; ++id) {
    router.On(Arrival(id, static_cast<std::int32_t>(10 * id)), At(static_cast<double>(id)));
    router.PlaceAt({id}, {1}, At(static_cast<double>(id)));
  }
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{4, 100});
  router.On(InstanceReported{{1}, {.running = 1, .as_of = At(1)}}, At(5));
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{3, 90});
  router.On(InstanceReported{{1}, {.waiting = 1, .running = 1}}, At(5));
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{2, 70});
  router.On(RequestEnded{{3}, {1}}, At(6));  // the next report drops it
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{2, 70});
  router.On(InstanceReported{{1}, {.running = 2}}, At(6));
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{1, 40});
  router.On(InstanceReported{{1}, {.as_of = At(4)}}, At(6));
  CHECK(since() == std::pair<std::int64_t, std::int64_t>{0, 0});
  router.On(InstanceReported{{1}, {.running = 90, .as_of = At(3.9)}}, At(6));  // a newer report has overtaken it
  CHECK(router.instances()[0].report.running == 0);
  CHECK(router.stats().reported_late == 1);
  CHECK(router.stats().faults() == 0);
}

TEST_CASE("as_of may be extreme, in the future, or before the instance") {
  auto router = TwoThatReport();
  Split(router, 1, 10, 1);
  const auto report = [&](TimePoint as_of, std::int64_t running) {
    router.On(InstanceReported{{1}, {.running = running, .as_of = as_of}}, At(2));
    return router.instances()[0].since_report;
  };
  CHECK(report(At(2.5), 1) == 4);  // a future time counts as none
  CHECK(router.stats().events_invalid == 1);
  CHECK(router.last_fault().kind == FaultKind::kInvalidEvent);
  CHECK(report(kNever, 2) == 3);
  CHECK(router.stats().events_invalid == 2);
  CHECK(report(After(kUnset, Duration(1)), 3) == 3);
  CHECK(report(At(-1e-9), 3) == 3);
  CHECK(router.stats().reported_late == 2);
  CHECK(router.instances()[0].report.running == 2);
  CHECK(report(At(2), INT64_MAX) == 0);
  CHECK(router.instances()[0].report.running < INT64_MAX);  // sums with it must not overflow
  CHECK(report(At(2), 0) == 0);  // the same time again is not late
  CHECK(router.stats().reported_late == 2);
}

TEST_CASE("messages of an instance's earlier life are ignored and counted") {
  auto router = Make<Fcfs, LeastLoaded>();
  router.On(Up(1), At(0));
  router.On(Arrival(7), At(0));
  const std::uint64_t first = router.Place(At(0))[0].life;
  router.On(InstanceDown{{1}}, At(1));
  router.On(RequestEnded{{7}, {1}, true, {}, first}, At(1));  // while the instance is down
  CHECK(router.stats().reported_late == 1);
  router.On(Up(1), At(2));
  const std::uint64_t second = router.Place(At(2))[0].life;
  CHECK(second > first);
  // aibrix#2421: a pod is created again under its name.
  router.On(RequestEnded{{7}, {1}, true, {}, first}, At(3));
  router.On(RequestEnded{{7}, {}, true, {}, first}, At(3));
  router.On(RequestServed{{7}, {1}, {{5}, {5}}, first}, At(3));
  router.On(RequestStarted{{7}, {1}, first}, At(3));
  router.On(InstanceReported{{1}, {.running = 9}, first}, At(3));
  router.On(InstanceReported{{1}, {.running = 9, .as_of = At(1.5)}}, At(3));  // read before the instance came up again
  router.On(InstanceDown{{1}, first}, At(3));
  CHECK(router.stats().reported_late == 8);
  CHECK(router.stats().faults() == 0);
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  CHECK(router.instances()[0].report == InstanceReport{});
  CHECK_FALSE(router.instances()[0].reported);
  router.On(RequestEnded{{7}, {1}, true, {}, second + 1}, At(3));  // a life that has not begun
  CHECK(router.stats().events_unknown == 1);
  router.On(RequestEnded{{7}, {1}, false, {}, second}, At(4));
  CHECK(router.stats().ended == 1);
  CHECK(router.alive() == 0);
  router.On(RequestEnded{{7}, {1}, false, {}, first}, At(4));  // late, although 7 is over
  CHECK(router.stats().reported_late == 9);
}

TEST_CASE("an invalid description of a greater life changes nothing") {
  auto router = Make<Fcfs, BestFit>();
  router.On(Up(1), At(0));
  router.On(Arrival(7), At(0));
  const std::uint64_t life = router.Place(At(0))[0].life;
  router.On(InstanceUp{{.id = {1}, .profile = {99}, .life = life + 1}}, At(0));  // there is no such profile
  router.On(InstanceUp{{.id = {1}, .role = static_cast<InstanceRole>(3), .life = life + 1}}, At(0));
  router.On(InstanceUp{{.id = {1}, .role = InstanceRole::kPrefill, .life = life}}, At(0));  // not a new life
  CHECK(router.stats().events_invalid == 3);
  CHECK(router.stats().instances_lost == 0);
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  REQUIRE(router.instances().size() == 1);
  CHECK(router.instances()[0].instance.life == life);
}

TEST_CASE("a greater life restarts an instance; a smaller one is late") {
  auto router = Make<Fcfs, BestFit>();
  const auto up = [&](std::uint64_t life, std::int64_t capacity) {
    router.On(InstanceUp{{.id = {1}, .capacity = capacity, .life = life}}, At(0));
  };
  up(5, 1);
  router.On(Arrival(7), At(0));
  CHECK(router.Place(At(0))[0].life == 5);
  up(5, 2), up(0, 3);  // described again
  CHECK(router.instances()[0].instance.life == 5);
  CHECK(router.instances()[0].instance.capacity == 3);
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  up(4, 4);
  CHECK(router.instances()[0].instance.capacity == 3);
  CHECK(router.stats().reported_late == 1);
  up(6, 5);
  CHECK(router.stats().instances_lost == 1);
  CHECK(router.stats().returned == 1);
  CHECK_FALSE(router.InstanceOf({7}));
  CHECK(router.Place(At(0))[0].life == 6);
  up(UINT64_MAX, 1);
  router.On(InstanceDown{{1}}, At(0));
  up(0, 1);  // no greater number exists
  CHECK(router.Place(At(0))[0].life == UINT64_MAX);
  CHECK(router.stats().faults() == 0);
}

TEST_CASE("a host that picks instances itself reports them with PlaceAt") {
  auto router = Make<Fcfs, LeastLoaded>();
  for (std::uint64_t id : {1u, 2u}) router.On(Up(id, 1), At(0));
  for (std::uint64_t id : {7u, 8u, 9u}) router.On(Arrival(id), At(0));
  std::vector<double> scores(3);
  CHECK(router.Score(Arrival(7).request, std::vector<InstanceId>{{2}, {3}, {1}}, At(0), scores) == 2);
  CHECK(std::isnan(scores[1]));  // not up
  CHECK_FALSE(router.PlaceAt({7}, {3}, At(0)));
  CHECK_FALSE(router.PlaceAt({6}, {1}, At(0)));
  CHECK(router.PlaceAt({8}, {2}, At(0)));
  CHECK_FALSE(router.PlaceAt({8}, {1}, At(0)));  // it exists already
  CHECK(router.InstanceOf({8}) == InstanceId{2});
  CHECK(router.Score(Arrival(7).request, std::vector<InstanceId>{{2}, {1}}, At(0), scores) == 1);  // 2 is full
  CHECK(Place(router, 1) == Pairs{{7, 1}});
  CHECK(router.PlaceAt({9}, {2}, At(2)));  // capacity does not matter: the host has placed it
  CHECK(router.stats().placed == 3);
  router.On(RequestEnded{{8}, {2}}, At(3));
  router.On(RequestEnded{{9}, {2}}, At(3));
  router.On(Arrival(10), At(3));
  CHECK(Place(router, 3) == Pairs{{10, 2}});
}

TEST_CASE("the router agrees with a plain model under random hosts") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    auto router = Make<Fcfs, LeastLoaded>({.window = 1 << 20, .reserve_requests = 0});
    Model model;
    std::uint64_t last_id = 0;
    std::int64_t now = 0;
    const auto some_id = [&] { return 1 + random.Below(last_id + 2); };
    for (int step = 0; step < 400; ++step) {
      INFO("seed " << seed << ", step " << step);
      now += static_cast<std::int64_t>(random.Below(3));
      const TimePoint t{Duration(now)};
      switch (random.Below(9)) {
        case 0:
        case 1:
        case 2: {
          const std::uint64_t id = random.Chance(0.1) ? some_id() : ++last_id;  // sometimes the id of a live request
          Arrived arrival = Arrival(id, static_cast<std::int32_t>(1 + random.Below(120)));
          if (random.Chance(0.3)) arrival.request.expires_at = t + Duration(1 + random.Below(50));
          router.On(arrival, t);
          model.requests.insert(
              {id,
               {now, arrival.request.prompt_tokens.value, arrival.request.expires_at.time_since_epoch().count(), {}}});
          last_id = std::max(last_id, id);
          break;
        }
        case 3: {
          const std::uint64_t id = some_id();
          router.On(Cancelled{{id}}, t);
          model.requests.erase(id);
          break;
        }
        case 4:
        case 5: {
          const std::uint64_t id = some_id(), instance = random.Below(5);  // 0: unknown
          router.On(RequestEnded{{id}, {instance}}, t);
          const auto it = model.requests.find(id);
          if (it != model.requests.end() && (instance == 0 || it->second.instance == instance))
            model.requests.erase(it);
          break;
        }
        case 6: {
          const std::uint64_t id = 1 + random.Below(4);
          const auto capacity = static_cast<std::int64_t>(random.Below(6));
          const auto kv = static_cast<std::int32_t>(random.Chance(0.5) ? 0 : 20 + random.Below(100));
          router.On(Up(id, capacity, kv), t);
          Model::Replica& i = model.instances.try_emplace(id, Model::Replica{.complete = t}).first->second;
          i.capacity = capacity, i.kv = kv;
          break;
        }
        case 7: {
          const std::uint64_t id = 1 + random.Below(4);
          router.On(InstanceDown{{id}}, t);
          model.instances.erase(id);
          for (auto& [request, r] : model.requests) {
            if (r.instance == id) r.instance.reset();
          }
          break;
        }
        default: {
          const std::uint64_t id = 1 + random.Below(4);
          InstanceReport report{.waiting = static_cast<std::int64_t>(random.Below(4)),
                                .running = static_cast<std::int64_t>(random.Below(9))};
          if (random.Chance(0.5)) report.as_of = t - Duration(random.Below(12));
          router.On(InstanceReported{{id}, report}, t);
          model.Report(id, report);
        }
      }
      if (random.Chance(0.3)) continue;
      std::vector<std::uint64_t> expired, named;
      const Pairs expected = model.Place(now, expired);
      Pairs placed;
      for (const Placement& p : router.Place(t)) placed.emplace_back(p.request.value, p.instance.value);
      for (const Failure& f : router.failed()) {
        if (f.reason != FailReason::kIdInUse) named.push_back(f.request.value);
      }
      std::ranges::sort(named);
      REQUIRE(placed == expected);
      REQUIRE(named == expired);
      REQUIRE(router.alive() == static_cast<std::int64_t>(model.requests.size()));
      std::int64_t outstanding = 0;
      for (const InstanceState& i : router.instances()) {
        REQUIRE(i.outstanding == model.Outstanding(i.instance.id.value));
        outstanding += i.outstanding;
      }
      REQUIRE(router.waiting() == router.alive() - outstanding);
    }
  }
}

TEST_CASE("an explanation has the scores of all instances, and the regret of each") {
  auto router = Make<Fcfs, LeastLoaded>({.max_outstanding = 2});
  router.On(Up(1), At(0));
  router.On(Up(2, 1), At(0));
  router.On(Up(3, Instance::kUnbounded, 5), At(0));
  router.On(Arrival(1), At(0));
  router.On(Arrival(2), At(0));
  CHECK(router.Explain(Arrival(2).request, At(0)).ahead == 1);
  CHECK(Place(router, 0) == Pairs{{1, 1}, {2, 2}});
  const Request next = Arrival(9).request;
  std::vector<Candidate> all(4);
  const RouteExplanation why = router.Explain(next, At(1), all);
  CHECK(why.status == RequestStatus::kUnknown);
  CHECK(why.candidates == 3);
  CHECK(why.scored == 1);
  CHECK(why.chosen == InstanceId{1});
  CHECK(why.regret == 0);
  CHECK(std::isnan(why.margin));
  CHECK(all[0].score == -4);
  CHECK(all[1].state == CandidateState::kFull);
  CHECK(all[2].state == CandidateState::kTooSmall);
  CHECK(router.alive() == 2);

  router.On(Up(4), At(1));
  std::vector<Candidate> first(1);
  const RouteExplanation placed = router.Explain(Arrival(1).request, At(1), first);
  CHECK(placed.status == RequestStatus::kRunning);
  CHECK(placed.chosen == InstanceId{1});
  CHECK(placed.candidates == 4);
  CHECK(placed.regret == 4);  // instance 4 is empty
  CHECK(first[0].regret == 4);
  CHECK(placed.margin == 4);
}

TEST_CASE("no regret is known if scores only order the instances") {
  auto router = Make<Fcfs, RoundRobin>();
  router.On(Up(1), At(0));
  router.On(Up(2), At(0));
  std::vector<Candidate> all(2);
  for (const bool erased : {false, true}) {
    auto any = Router::Create({}, AnyPolicy(Fcfs{}), AnyPlacement(RoundRobin{}));
    any->On(Up(1), At(0));
    const RouteExplanation why =
        erased ? any->Explain(Arrival(1).request, At(0), all) : router.Explain(Arrival(1).request, At(0), all);
    CHECK_FALSE(why.scores_compare);
    CHECK(std::isnan(why.regret));
    CHECK(std::isnan(all[0].regret));
    CHECK(why.chosen == InstanceId{1});
  }
}

TEST_CASE("an observer sees each change of a router's requests") {
  std::vector<std::tuple<std::uint64_t, RequestStatus, RequestStatus, TransitionReason>> seen;
  const auto take = [&] { return std::exchange(seen, {}); };
  auto router = Make<Fcfs, RoundRobin>();
  router.Watch({[](void* to, const Transition& t) {
                  static_cast<decltype(seen)*>(to)->emplace_back(t.request.value, t.from, t.to, t.reason);
                },
                &seen});
  using S = RequestStatus;
  using W = TransitionReason;
  using Seen = decltype(seen);
  router.On(Up(1, Instance::kUnbounded, 50), At(0));
  router.On(Arrival(1, 100), At(0));
  Place(router, 0);
  CHECK(take() == Seen{{1, S::kUnknown, S::kWaiting, W::kArrived}, {1, S::kWaiting, S::kBlocked, W::kBlocked}});
  router.On(Up(2, Instance::kUnbounded, 500), At(1));
  Place(router, 1);
  router.On(InstanceDown{{2}}, At(2));
  Place(router, 2);
  CHECK(take() == Seen{{1, S::kBlocked, S::kWaiting, W::kUnblocked},
                       {1, S::kWaiting, S::kRunning, W::kAdmitted},
                       {1, S::kRunning, S::kWaiting, W::kInstanceLost},
                       {1, S::kWaiting, S::kBlocked, W::kBlocked}});
  router.On(Up(3, Instance::kUnbounded, 500), At(3));
  Place(router, 3);
  router.On(RequestEnded{{1}, {3}}, At(4));
  router.On(Arrival(2, 0), At(4));
  CHECK(take() == Seen{{1, S::kBlocked, S::kWaiting, W::kUnblocked},
                       {1, S::kWaiting, S::kRunning, W::kResumed},
                       {1, S::kRunning, S::kDead, W::kFinished},
                       {2, S::kUnknown, S::kDead, W::kInvalid}});
  Arrived late = Arrival(3, 800);
  late.request.expires_at = At(6);
  router.On(late, At(5));
  Place(router, 7);
  CHECK(take() == Seen{{3, S::kUnknown, S::kWaiting, W::kArrived}, {3, S::kWaiting, S::kDead, W::kExpired}});
}

}  // namespace
}  // namespace takt
