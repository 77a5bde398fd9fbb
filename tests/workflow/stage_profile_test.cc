// Learned costs of call sites, and the shares of a workflow's time.
#include "takt/workflow/stage_profile.h"

#include <cstdint>
#include <limits>

#include "catch.h"
#include "takt/workflow/slo_budget.h"

namespace takt {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("a site's cost is the mean of its reports, and zero before") {
  StageProfile profile;
  CHECK(profile.CostOf({1}) == 0);
  for (const double cost : {2.0, 4.0, 9.0}) profile.Learn({1}, cost);
  profile.Learn({2}, 7);
  CHECK(profile.CostOf({1}) == 5);
  CHECK(profile.CostOf({2}) == 7);
  CHECK(profile.CostOf({3}) == 0);
  CHECK(profile.sites() == 2);
}

TEST_CASE("invalid costs are ignored; the least and largest valid ones count") {
  StageProfile profile;
  profile.Learn({1}, 6);
  for (const double cost : {-1.0, kNan, kInf, 1.1e15}) profile.Learn({1}, cost);
  CHECK(profile.CostOf({1}) == 6);
  profile.Learn({1}, 0);
  CHECK(profile.CostOf({1}) == 3);
  profile.Learn({2}, 1e15);
  CHECK(profile.CostOf({2}) == 1e15);
  profile.Learn({}, 5);  // no site
  CHECK(profile.sites() == 2);
}

TEST_CASE("a mean weighs about the last `memory` observations") {
  StageProfile profile(2);
  for (const double cost : {0.0, 0.0, 0.0, 8.0, 8.0}) profile.Learn({1}, cost);
  CHECK(profile.CostOf({1}) == 6);  // 0, then half of the way to 8, twice
  StageProfile newest(0);  // at least one
  for (const double cost : {3.0, 8.0}) newest.Learn({1}, cost);
  CHECK(newest.CostOf({1}) == 8);
}

TEST_CASE("the work after a visit is the newest one learned before") {
  StageProfile profile;
  CHECK(profile.After({1}, 0) == Outlook{});
  profile.LearnAfter({1}, 1, {10, 2});
  profile.LearnAfter({1}, 1, {20, 4});
  CHECK(profile.After({1}, 0) == Outlook{});
  CHECK(profile.After({1}, 1) == Outlook{15, 3});
  CHECK(profile.After({1}, 5) == Outlook{15, 3});
  profile.LearnAfter({1}, 3, {1, 1});
  CHECK(profile.After({1}, 2) == Outlook{15, 3});
  CHECK(profile.After({1}, 3) == Outlook{1, 1});
}

TEST_CASE("visits beyond the last distinguished one count as that one") {
  StageProfile profile;
  profile.LearnAfter({1}, StageProfile::kVisits - 2, {4, 1});
  profile.LearnAfter({1}, 1'000'000, {2, 1});
  profile.LearnAfter({1}, StageProfile::kVisits - 1, {8, 3});
  CHECK(profile.After({1}, StageProfile::kVisits - 2) == Outlook{4, 1});
  CHECK(profile.After({1}, StageProfile::kVisits - 1) == Outlook{5, 2});
  CHECK(profile.After({1}, UINT32_MAX) == Outlook{5, 2});
}

TEST_CASE("sites beyond the limit are not learned") {
  StageProfile profile(1000, 2);
  for (std::uint64_t site = 1; site <= 3; ++site) {
    profile.Learn({site}, 5);
    profile.LearnAfter({site}, 0, {5, 1});
  }
  CHECK(profile.sites() == 2);
  CHECK(profile.CostOf({2}) == 5);
  CHECK(profile.CostOf({3}) == 0);
  CHECK(profile.After({3}, 0) == Outlook{});
}

TEST_CASE("a call's budget is its share of the time left") {
  CHECK(SloBudget(40, 1, 3) == 10);
  CHECK(SloBudget(40, 1, 0) == 40);
  CHECK(SloBudget(40, 1, 3, {.rule = BudgetRule::kWhole}) == 40);
}

TEST_CASE("a call of unknown cost gets all the time left") {
  for (const double own : {0.0, -1.0, kNan, kInf}) CHECK(SloBudget(40, own, 3) == 40);
  for (const double after : {-1.0, kNan, kInf}) CHECK(SloBudget(40, 1, after) == 40);
}

TEST_CASE("without time left, a budget is the lateness, its share, or zero") {
  CHECK(SloBudget(-40, 1, 3) == -40);
  CHECK(SloBudget(-40, 1, 3, {.blown = BlownRule::kPublished}) == -10);
  CHECK(SloBudget(-40, 1, 3, {.blown = BlownRule::kZero}) == 0);
  CHECK(SloBudget(40, 1, 3, {.blown = BlownRule::kZero}) == 10);
}

TEST_CASE("times are subtracted and added at the ends of the clock, too") {
  const TimePoint first = TimePoint::min(), last = TimePoint::max(), two(std::chrono::seconds(2)),
                  five(std::chrono::seconds(5));
  CHECK(SecondsBetween(two, five) == 3);
  CHECK(SecondsBetween(five, two) == -3);
  CHECK(SecondsBetween(two, two) == 0);
  CHECK(SecondsBetween(first, last) == Approx(18446744073.7));
  CHECK(SecondsBetween(last, first) == Approx(-18446744073.7));
  CHECK(Later(two, 3) == five);
  CHECK(Later(five, -3) == two);
  CHECK(Later(five, kNan) == five);
  CHECK(Later(last, 1) == kNever);
  CHECK(Later(last, -1) == last - std::chrono::seconds(1));
  CHECK(Later(last - std::chrono::seconds(1), 1) == last);
  CHECK(Later(first, -1) == first);
  CHECK(Later(first, 1) == first + std::chrono::seconds(1));
  CHECK(Later(first + std::chrono::seconds(1), -1) == first);
  CHECK(Later(two, 0) == two);
}

}  // namespace
}  // namespace takt
