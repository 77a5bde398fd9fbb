// Output lengths by stage and prompt, and the fallbacks for unobserved cells.
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/learning/length_table.h"

namespace takt {
namespace {

TEST_CASE("a cell answers, else its stage, else all, else none") {
  LengthTable table;
  CHECK_FALSE(table.Expect({1}, 100).known());
  table.Observe({1}, 100, 10);
  table.Observe({1}, 127, 30);    // the same octave
  table.Observe({1}, 5000, 200);
  table.Observe({2}, 100, 1000);
  CHECK(table.Expect({1}, 64).mean == 20);
  CHECK(table.Expect({1}, 5000).mean == 200);
  CHECK(table.Expect({1}, 1).mean == 80);      // mean of the stage
  CHECK(table.Expect({3}, 100).mean == 310);   // mean of all
  CHECK(table.Expect({0}, 100).mean == 310);
  CHECK(table.stages() == 2);
}

TEST_CASE("quantiles match the log-normal distribution of the samples") {
  LengthTable table;
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    table.Observe({1}, 1000, static_cast<std::int64_t>(random.LogNormal(std::log(200), 0.5)));
  }
  const Estimate e = table.Expect({1}, 1000);
  CHECK(e.Quantile(0.5) == Approx(200).epsilon(0.05));
  CHECK(e.Quantile(0.9) == Approx(200 * std::exp(0.5 * 1.2816)).epsilon(0.07));
  CHECK(e.mean == Approx(200 * std::exp(0.125)).epsilon(0.05));
}

TEST_CASE("old observations count less") {
  LengthTable table({.window = 100});
  for (int i = 0; i < 1000; ++i) table.Observe({1}, 10, 100);
  for (int i = 0; i < 1000; ++i) table.Observe({1}, 10, 500);
  CHECK(table.Expect({1}, 10).mean > 499);
}

TEST_CASE("invalid lengths and surplus stages do no harm") {
  LengthTable table({.max_stages = 2, .window = -5});
  for (const std::int64_t wrong : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
    for (std::uint64_t stage = 1; stage < 5; ++stage) table.Observe({stage}, wrong, wrong);
  }
  CHECK(table.stages() == 2);
  CHECK(table.Expect({9}, INT64_MIN).known() == table.Expect({9}, 1).known());
  CHECK(std::isfinite(table.Expect({1}, INT64_MAX).mean));
}

}  // namespace
}  // namespace takt
