// The text for Prometheus: escapes, numbers and histograms.
#include "takt/metrics/exposition.h"

#include <cmath>
#include <limits>
#include <string>

#include "catch.h"

namespace takt {
namespace {

TEST_CASE("a label value with any bytes is one line of valid text") {
  Exposition out({{"model_name", "a\"b\\c\nd"}});
  out.Begin("x_total", MetricType::kCounter, "a \\ and\na line");
  out.Sample(3, {{"tenant", "\xFF\x00\r\xC3\xA9\x7F"}});
  CHECK(out.text() ==
        "# HELP x_total a \\\\ and\\na line\n# TYPE x_total counter\n"
        "x_total{model_name=\"a\\\"b\\\\c\\nd\",tenant=\"\xEF\xBF\xBD\"} 3\n");
  const std::string bytes("\xFF\0\r\xC3\xA9\x7F", 6), replaced = "\xEF\xBF\xBD";
  CHECK(LabelValue(bytes) == replaced + replaced + replaced + "\xC3\xA9" + replaced);
}

TEST_CASE("invalid UTF-8 is replaced byte by byte") {
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(LabelValue("\xC0\x80") == bad + bad);  // overlong
  CHECK(LabelValue("\xED\xA0\x80") == bad + bad + bad);  // a surrogate
  CHECK(LabelValue("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(LabelValue("\xE2\x82") == bad + bad);  // truncated
  CHECK(LabelValue("\xF0\x9F\x98\x80\xE2\x82\xAC") == "\xF0\x9F\x98\x80\xE2\x82\xAC");
}

TEST_CASE("a long label value is cut between characters") {
  const std::string value = LabelValue(std::string(kMostLabelBytes - 1, 'a') + "\xC3\xA9");
  CHECK(value == std::string(kMostLabelBytes - 1, 'a'));
}

TEST_CASE("numbers are written as Prometheus reads them") {
  Exposition out;
  out.Begin("x", MetricType::kGauge, "x");
  out.Sample(0.1);
  out.Sample(std::numeric_limits<double>::infinity());
  out.Sample(-std::numeric_limits<double>::infinity());
  out.Sample(std::nan(""));
  out.Sample(std::numeric_limits<std::int64_t>::min());
  CHECK(out.text() == "# HELP x x\n# TYPE x gauge\nx 0.1\nx +Inf\nx -Inf\nx NaN\nx -9223372036854775808\n");
}

TEST_CASE("the buckets of a histogram are cumulative, and the last has every value") {
  HalfOctaves values(3, 1);
  values.Add(0.5), values.Add(12), values.Add(5000), values.Add(std::nan("")), values.Add(-1);
  Exposition out;
  out.Begin("x", MetricType::kHistogram, "x");
  out.Histogram(values, {{"priority", "0"}});
  CHECK(out.text() ==
        "# HELP x x\n# TYPE x histogram\nx_bucket{priority=\"0\",le=\"12\"} 2\n"
        "x_bucket{priority=\"0\",le=\"+Inf\"} 4\nx_sum{priority=\"0\"} 5011.5\nx_count{priority=\"0\"} 4\n");
}

TEST_CASE("each value is in the bin between its edges, and counts are in the bin that they end") {
  HalfOctaves values(-10, 20);
  for (std::size_t i = 0; i < values.counts().size(); ++i) {
    HalfOctaves one(-10, 20);
    one.Add(values.edge(i));
    one.Add(std::nextafter(values.edge(i + 1), 0));
    CHECK(one.counts()[i] == 2);
  }
  CHECK(values.edge(0) == 0x1p-10);
  CHECK(values.edge(1) == 0x1.8p-10);
  CHECK(values.edge(40) == 0x1p10);
  HalfOctaves counts(-1, 7);
  for (const std::int32_t n : {0, 1, 2, 3, 4}) counts.AddCount(n);
  CHECK(counts.sum() == 10);
  for (std::size_t i = 0; i < 6; ++i) {  // bins end at 0.75, 1, 1.5, 2, 3 and 4
    CAPTURE(i, counts.edge(i + 1));
    std::int64_t below = 0, expected = 0;
    for (std::size_t j = 0; j <= i; ++j) below += counts.counts()[j];
    for (const std::int32_t n : {0, 1, 2, 3, 4}) expected += n <= counts.edge(i + 1) ? 1 : 0;
    CHECK(below == expected);
  }
}

}  // namespace
}  // namespace takt
