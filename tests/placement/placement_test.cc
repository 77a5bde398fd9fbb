// Properties that all placements share, and properties of each placement.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/books/call_costs.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/registry.h"
#include "takt/placement/round_robin.h"
#include "with_rivals.h"

namespace takt {
namespace {

InstanceState RandomInstance(Random& random) {
  InstanceState i;
  i.instance.id = {1 + random.Below(1000)};
  i.report.waiting = static_cast<std::int64_t>(random.Below(100));
  i.report.running = static_cast<std::int64_t>(random.Below(100));
  i.reported = random.Chance(0.5);
  i.outstanding = static_cast<std::int64_t>(random.Below(200));
  i.since_report = static_cast<std::int64_t>(random.Below(20));
  i.last_placed = random.Below(100'000);
  return i;
}

struct Hears {
  std::shared_ptr<std::vector<double>> alphas;
  double Score(const RequestState&, const InstanceState&, TimePoint) const { return 0; }
  void Observe(const Epoch& epoch, TimePoint) { alphas->push_back(epoch.alpha.value_or(-1)); }
};

TEST_CASE("an erased placement receives epochs") {
  const auto alphas = std::make_shared<std::vector<double>>();
  AnyPlacement placement(Hears{alphas});
  placement.Observe(Epoch{.alpha = 0.3}, {});
  CHECK(*alphas == std::vector{0.3});
}

TEST_CASE("every placement has a name and valid, repeatable scores") {
  REQUIRE(!PlacementInfos().empty());
  for (const PlacementInfo& info : PlacementInfos()) {
    auto placement = MakePlacement(info.name);
    REQUIRE(placement.ok());
    CHECK(placement->name() == info.name);
    CHECK(!info.summary.empty());
    Random random(1);
    for (int n = 0; n < 1000; ++n) {
      const InstanceState i = RandomInstance(random);
      RequestState r;
      r.request.output_tokens.mean = n % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
      placement->Up(i, TimePoint{});
      placement->Prepare(r, TimePoint{});
      const double score = placement->Score(r, i, TimePoint{});
      CHECK(std::isfinite(score));
      CHECK(score == AnyPlacement(*placement).Score(r, i, TimePoint{}));
    }
  }
}

TEST_CASE("an unknown placement is reported with the known names") {
  const auto placement = MakePlacement("best");
  REQUIRE(!placement.ok());
  const auto message = std::string(placement.status().message());
  CHECK(message.find("'best'") != std::string::npos);
  CHECK(message.find("least_loaded, least_outstanding_tokens, least_pending_prefill, minimum_completion_time") !=
        std::string::npos);
}

TEST_CASE("every option of a placement can be set by name") {
  for (const std::string spec :
       {"adapter_affinity(load_tokens=5000)", "least_loaded(waiting_weight=2)", "lmetric(queued=true)",
        "random(seed=7)", "best_fit(output_tokens=3)", "code_ratio(alpha=0.3)",
        "confidence_slack(tau=1,delta_s=0.1,floor_s=0.5,sticky_s=5,unknown=100)",
        "gain_slack(tau=1,step=0.1,pull=1,floor_s=0.5,sticky_s=5,unknown=100)",
        "minimum_completion_time(recent_s=5,fade=0.5)",
        "time_slot_packer(slot=1,decode_rate=30,unknown=5,danger=0.9,recovered=0.8,late=false)",
        "token_reservation(quantile=0.75,share=2,waiting=1,unknown=100)",
        "workload_balance(alpha=0.5,beta=7,queue=outstanding)"}) {
    const auto placement = MakePlacement(spec);
    REQUIRE(placement.ok());
    CHECK(placement->spec() == spec);
  }
  for (const char* wrong :
       {"code_ratio(alpha=1.1)", "code_ratio(alpha=-1)", "workload_balance(alpha=2)", "workload_balance(beta=-1)",
        "workload_balance(beta=2e9)", "workload_balance(queue=running)", "time_slot_packer(slot=0)",
        "time_slot_packer(slot=1001)", "time_slot_packer(decode_rate=-1)", "time_slot_packer(decode_rate=2e6)",
        "minimum_completion_time(fade=2)", "time_slot_packer(unknown=-1)", "time_slot_packer(unknown=2e5)",
        "confidence_slack(delta_s=-1)", "adapter_affinity(load_tokens=-1)"}) {
    INFO(wrong);
    CHECK_FALSE(MakePlacement(wrong).ok());
  }
}

TEST_CASE("a call's output is its estimate, below cap and a million") {
  const auto tokens = [](Estimate output, std::int32_t cap) {
    return CallCosts::OutputTokens({.max_output_tokens = {cap}, .output_tokens = output});
  };
  CHECK(tokens({}, 0) == 256);
  CHECK(tokens({}, 100) == 100);
  CHECK(tokens(Estimate::Exact(300.4), 0) == 300);
  CHECK(tokens(Estimate::Exact(300.5), 0) == 301);
  CHECK(tokens(Estimate::Exact(300), 1) == 1);
  CHECK(tokens(Estimate::Exact(1e9), 0) == 1'000'000);
}

TEST_CASE("a call's time is measured, modelled, or a millisecond per token") {
  using std::chrono::milliseconds;
  auto measured = std::make_shared<StageTimes>();
  measured->Set({1}, "x", milliseconds(70));
  measured->Set({2}, "x", Duration(0));
  CallCosts costs(measured);
  const InstanceProfile named_x{"x"}, named_y{"y"}, named_z{"z"};
  const InstanceState x{.instance = {.id = {1}}, .profile = &named_x, .slot = 0};
  InstanceState y{.instance = {.id = {2}}, .profile = &named_y, .slot = 2};
  RequestState r;
  r.request.prompt_tokens = {10};
  r.request.output_tokens = Estimate::Exact(5);
  r.request.stage = {1};
  CHECK(costs.On(x) == Duration(1));  // no instance is up yet
  costs.Up(x);
  costs.Up(y);
  const auto on = [&](const InstanceState& i) {
    costs.Prepare(r);
    return costs.On(i);
  };
  CHECK(on(x) == milliseconds(70));
  CHECK(on(y) == milliseconds(15));
  CHECK(costs.OnSlot(1) == Duration(1));  // no instance has this slot
  CHECK(costs.OnSlot(9) == Duration(1));
  r.request.stage = {2};
  CHECK(on(x) == Duration(1));  // at least that
  r.request.stage = {3};
  CHECK(on(x) == milliseconds(15));
  r.request.output_tokens = Estimate::Exact(0);
  CHECK(on(x) == milliseconds(11));
  r.request.stage = {1};
  y.profile = &named_x;  // reported again with another profile
  costs.Up(y);
  CHECK(on(y) == milliseconds(70));
  y.profile = &named_z;
  costs.Up(y);
  CHECK(on(y) == milliseconds(11));
  CHECK(on(x) == milliseconds(70));
}

TEST_CASE("a host's own placement needs no name") {
  struct Smallest {
    double Score(const RequestState&, const InstanceState& i, TimePoint) const {
      return -static_cast<double>(i.instance.kv_tokens.value);
    }
  };
  InstanceState i;
  i.instance.kv_tokens = {7};
  CHECK(AnyPlacement(Smallest{}).name() == "unnamed");
  CHECK(AnyPlacement(Smallest{}).Score({}, i, {}) == -7);
}

TEST_CASE("round_robin prefers the instance served longest ago") {
  InstanceState a, b;
  a.last_placed = 7, b.last_placed = 3;
  CHECK(RoundRobin{}.Score({}, b, {}) > RoundRobin{}.Score({}, a, {}));
}

TEST_CASE("least_loaded uses 4 * (waiting + placed since the report) + running") {
  InstanceState i;
  i.report = {.waiting = 3, .running = 5};
  i.since_report = 2;
  i.outstanding = 100;
  i.reported = true;
  CHECK(LeastLoaded{}.Score({}, i, {}) == -(4 * (3 + 2) + 5));
  i.reported = false;
  i.report = {};
  CHECK(LeastLoaded{}.Score({}, i, {}) == -400);
  CHECK(LeastLoaded{.waiting_weight = 1}.Score({}, i, {}) == -100);
}

}  // namespace
}  // namespace takt
