#include "takt/queue/ranker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/registry.h"
#include "takt/policy/stjf.h"
#include "takt/queue/waiting_queue.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Request RequestOf(std::uint64_t id, Random& random) {
  Request r;
  r.id = {id};
  r.arrival = At(static_cast<double>(random.Below(20)));
  r.workflow_arrival = r.arrival - FromSeconds(static_cast<double>(random.Below(5)));
  r.deadline = r.arrival + FromSeconds(static_cast<double>(random.Below(9)));
  r.priority = static_cast<std::int32_t>(random.Below(4));
  r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(500))};
  if (random.Chance(0.8)) r.output_tokens = Estimate::Exact(static_cast<double>(random.Below(300)));
  if (random.Chance(0.8)) r.workflow_tokens_left = Estimate::Exact(static_cast<double>(random.Below(900)));
  return r;
}

TEST_CASE("fixed keys of single requests sort as a queue orders them") {
  std::vector<std::string> fixed;
  for (const PolicyInfo& info : PolicyInfos()) {
    const bool outer = info.name == "aged" || info.name == "metered";
    const std::string name = outer ? info.name + "(sjf)" : info.name;
    Ranker ranker(*MakePolicy(name));
    if (!ranker.traits().fixed) continue;
    fixed.push_back(name);
    CAPTURE(name);
    Random random(7);
    AnyWaitingQueue queue(*MakePolicy(name));
    std::vector<std::tuple<double, TimePoint, std::uint64_t>> keys;
    for (std::uint64_t id = 1; id <= 200; ++id) {
      const Request r = RequestOf(id, random);
      queue.Push(r, At(30));
      keys.emplace_back(ranker.Key(r, At(30)), r.arrival, id);
    }
    std::ranges::sort(keys);
    std::vector<RequestId> order(queue.size());
    REQUIRE(queue.List(order) == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) REQUIRE(order[i].value == std::get<2>(keys[i]));
  }
  for (const char* name : {"fcfs", "workflow_fcfs", "priority", "edf", "sjf", "stjf"}) {
    CAPTURE(name);
    CHECK(std::ranges::find(fixed, name) != fixed.end());
  }
}

TEST_CASE("a ranker names the traits that only a queue supports") {
  const auto traits = [](const char* spec) { return Ranker(*MakePolicy(spec)).traits(); };
  CHECK(traits("sjf") == PolicyTraits{.fixed = true});
  CHECK(traits("hrrn") == PolicyTraits{.moving = true});
  CHECK(traits("aged(sjf)") == PolicyTraits{.ages = true});
  CHECK(traits("fair_share").groups);
  CHECK(traits("fair_share").learns);
  CHECK(traits("mlfq").timed);
  CHECK(traits("memory_integral(stall=1)").moving);  // it refreshes keys
  CHECK_FALSE(traits("memory_integral(stall=0)").moving);
  CHECK(traits("footprint").pressure);
  CHECK_FALSE(traits("footprint").timed);
  CHECK(traits("footprint(hopeless_last=true)").timed);
  CHECK(traits("room_to_pass").chooses);
  CHECK(TraitsOf(Stjf{}).fixed);  // also for a policy known at compile time
  CHECK_FALSE(TraitsOf(Aged(Stjf{})).fixed);
}

TEST_CASE("a key changes with time if the policy does") {
  Ranker ranker(*MakePolicy("hrrn"));
  Request r;
  r.id = {1};
  r.arrival = At(0);
  r.output_tokens = Estimate::Exact(100);
  CHECK(ranker.Key(r, At(20)) < ranker.Key(r, At(10)));

  struct NotANumber {
    RankKey Key(const RequestState&) const { return {std::nan("")}; }
  };
  CHECK(Ranker(NotANumber{}).Key(r, At(1)) == std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace takt
