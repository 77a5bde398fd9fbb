// The prompt tokens that each instance has not computed, and the placement that balances them.
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr TimePoint kNow = TimePoint(Duration(1'000'000'000));

struct Ranks {
  explicit Ranks(int instances) : router(*Router::Create({}, Fcfs{}, *MakePlacement("least_pending_prefill"))) {
    for (int i = 1; i <= instances; ++i) Up(static_cast<std::uint64_t>(i));
  }
  void Up(std::uint64_t id) { router.On(InstanceUp{{.id = {id}}}, kNow); }
  std::uint64_t Send(std::uint64_t id, std::int32_t prompt, double output = 100) {
    router.On(Arrived{{.id = {id}, .prompt_tokens = {prompt}, .output_tokens = Estimate::Exact(output)}}, kNow);
    std::uint64_t place = 0;
    for (const Placement& p : router.Place(kNow)) place = p.instance.value;
    return place;
  }
  void Serve(std::uint64_t id, std::int32_t prefill, std::int32_t output = 0) {
    router.On(RequestServed{{id}, {}, {{prefill}, {output}}}, kNow);
  }
  std::vector<std::int64_t> Pending() const {
    std::vector<std::int64_t> pending;
    for (const InstanceState& i : router.instances()) pending.push_back(i.pending_prefill);
    return pending;
  }

  Router router;
};

using Tokens64 = std::vector<std::int64_t>;

TEST_CASE("pending prefill falls with reports, the first output and the end") {
  Ranks ranks(2);
  CHECK(ranks.router.goes_by_service());
  CHECK(ranks.Send(1, 1000) == 1);
  CHECK(ranks.Send(2, 600) == 2);
  CHECK(ranks.Pending() == Tokens64{1000, 600});
  ranks.Serve(1, 512);
  CHECK(ranks.Pending() == Tokens64{488, 600});
  ranks.Serve(1, 100);  // an outdated report
  CHECK(ranks.Pending() == Tokens64{488, 600});
  CHECK(ranks.Send(3, 50) == 1);
  ranks.Serve(1, 700, 1);  // 300 tokens were cached
  CHECK(ranks.Pending() == Tokens64{50, 600});
  ranks.Serve(2, std::numeric_limits<std::int32_t>::max());
  CHECK(ranks.Pending() == Tokens64{50, 0});
  ranks.router.On(RequestEnded{{3}, {}}, kNow);
  CHECK(ranks.Pending() == Tokens64{0, 0});
}

TEST_CASE("equal pending prefill goes to the fewest outstanding tokens") {
  Ranks ranks(2);
  CHECK(ranks.Send(1, 100, 1000) == 1);
  CHECK(ranks.Send(2, 100, 10) == 2);
  ranks.Serve(1, 100), ranks.Serve(2, 100);
  // Nothing is pending, and 1,100 tokens are outstanding against 110.
  CHECK(ranks.Send(3, 100, 10) == 2);
  ranks.Serve(3, 100);
  CHECK(ranks.Send(4, 100, 2000) == 2);
  ranks.Serve(4, 100);
  CHECK(ranks.Send(5, 100) == 1);
}

TEST_CASE("requests of a lost rank are pending again on their next instance") {
  Ranks ranks(2);
  CHECK(ranks.Send(1, 1000) == 1);
  ranks.Serve(1, 900);
  ranks.router.On(InstanceDown{{1}}, kNow);
  CHECK(ranks.router.Place(kNow).size() == 1);
  CHECK(ranks.Pending() == Tokens64{1000});
  ranks.Up(1);
  CHECK(ranks.Pending() == Tokens64{0, 1000});
}

TEST_CASE("pending prefill is 0 after any events if all requests have ended") {
  Random random(5);
  Ranks ranks(3);
  std::vector<std::uint64_t> alive;
  for (std::uint64_t id = 1; id <= 2000; ++id) {
    ranks.Send(id, static_cast<std::int32_t>(1 + random.Below(5000)));
    alive.push_back(id);
    const std::uint64_t served = alive[random.Below(alive.size())];
    const auto prefill = static_cast<std::int32_t>(random.Below(6000));
    ranks.Serve(served, prefill, random.Chance(0.3) ? 1 : 0);
    if (random.Chance(0.01)) ranks.router.On(InstanceDown{{2}}, kNow), ranks.Up(2);
    if (!random.Chance(0.6)) continue;
    const std::size_t at = random.Below(alive.size());
    ranks.router.On(RequestEnded{{alive[at]}, {}}, kNow);
    alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(at));
  }
  for (const std::uint64_t id : alive) ranks.router.On(Cancelled{{id}}, kNow);
  CHECK(ranks.Pending() == Tokens64{0, 0, 0});
}

}  // namespace
}  // namespace takt
