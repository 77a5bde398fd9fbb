#include "takt/rivals/gittins.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

struct Size {
  std::vector<double> sizes, weights;  // whole numbers above 0, ascending
};

Size AnySize(Random& random, std::uint64_t most) {
  Size s;
  for (std::uint64_t size = 1; size <= most; ++size) {
    if (!random.Chance(0.5) && !(size == most && s.sizes.empty())) continue;
    s.sizes.push_back(static_cast<double>(size));
    s.weights.push_back(0.1 + random.Uniform());
  }
  return s;
}

// The remaining size after `age` units of service.
Size After(const Size& s, int age) {
  Size left;
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    if (s.sizes[i] <= age) continue;
    left.sizes.push_back(s.sizes[i] - age);
    left.weights.push_back(s.weights[i]);
  }
  return left;
}

double Rank(const Size& s) { return GittinsRank(s.sizes, s.weights); }

TEST_CASE("the index equals two calculations by hand") {
  CHECK(GittinsRank(std::vector{7.0}, std::vector{3.0}) == 7);
  // Half are 1, half are 10: a stop at 1 costs 1 for a chance of a half.
  CHECK(GittinsRank(std::vector{1.0, 10.0}, std::vector{1.0, 1.0}) == 2);
  CHECK(GittinsRank(std::vector{5.0, 6.0}, std::vector{1.0, 1.0}) == 5.5);
  CHECK(GittinsRank({}, {}) == std::numeric_limits<double>::infinity());
  CHECK(GittinsRank(std::vector{1.0}, std::vector{0.0}) == std::numeric_limits<double>::infinity());
}

TEST_CASE("the index is the least over all stopping times") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(300)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Size s = AnySize(random, 12);
    double total = 0;
    for (const double w : s.weights) total += w;
    double least = std::numeric_limits<double>::infinity();
    for (double stop = 0.05; stop < 14; stop += 0.05) {  // includes the whole numbers, up to rounding
      const double at = std::abs(stop - std::round(stop)) < 1e-6 ? std::round(stop) : stop;
      double within = 0, served = 0;
      for (std::size_t i = 0; i < s.sizes.size(); ++i) {
        within += s.sizes[i] <= at ? s.weights[i] : 0;
        served += s.weights[i] * std::min(s.sizes[i], at);
      }
      if (within > 0) least = std::min(least, served / within);
    }
    CHECK(Rank(s) == Approx(least).epsilon(1e-9));
    CHECK(Rank(s) <= Approx([&] {
            double mean = 0;
            for (std::size_t i = 0; i < s.sizes.size(); ++i) mean += s.sizes[i] * s.weights[i] / total;
            return mean;
          }()));
  }
}

// Two pieces of work on one machine, a unit at a time. Dynamic programming finds the least mean sum of completion times
// over all rules that see ages.
class Two {
 public:
  Two(Size a, Size b) : a_(std::move(a)), b_(std::move(b)) {}

  double Best() { return Cost(0, 0, true); }
  double ByRank() { return Cost(0, 0, false); }

 private:
  static double Chance(const Size& s, int age) {  // of an end with the next unit
    double total = 0, next = 0;
    for (std::size_t i = 0; i < s.sizes.size(); ++i) {
      if (s.sizes[i] <= age) continue;
      total += s.weights[i];
      if (s.sizes[i] == age + 1) next += s.weights[i];
    }
    return next / total;
  }
  static double MeanLeft(const Size& s, int age) {
    const Size left = After(s, age);
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < left.sizes.size(); ++i)
      total += left.weights[i], sum += left.weights[i] * left.sizes[i];
    return sum / total;
  }
  // Units of waiting from these ages on, summed over unfinished work.
  double Cost(int age_a, int age_b, bool best) {
    const auto key = std::make_pair(std::make_pair(age_a, age_b), best);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const auto serve = [&](const Size& served, int age, const Size& other, int other_age, bool a) {
      const double ends = Chance(served, age);
      double cost = 2 + ends * MeanLeft(other, other_age);
      if (ends < 1) cost += (1 - ends) * (a ? Cost(age_a + 1, age_b, best) : Cost(age_a, age_b + 1, best));
      return cost;
    };
    double cost = 0;
    if (best) {
      cost = std::min(serve(a_, age_a, b_, age_b, true), serve(b_, age_b, a_, age_a, false));
    } else if (Rank(After(a_, age_a)) <= Rank(After(b_, age_b))) {
      cost = serve(a_, age_a, b_, age_b, true);
    } else {
      cost = serve(b_, age_b, a_, age_a, false);
    }
    return known_[key] = cost;
  }

  Size a_, b_;
  std::map<std::pair<std::pair<int, int>, bool>, double> known_;
};

TEST_CASE("serving by the index is optimal") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(200)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Two two{AnySize(random, 9), AnySize(random, 9)};
    CHECK(two.ByRank() == Approx(two.Best()).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace takt
