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
  LogHistogram values(1, 100, 2);
  values.Add(0.5), values.Add(20), values.Add(5000);
  Exposition out;
  out.Begin("x", MetricType::kHistogram, "x");
  out.Histogram(values, 5020.5, {{"priority", "0"}});
  CHECK(out.text() ==
        "# HELP x x\n# TYPE x histogram\nx_bucket{priority=\"0\",le=\"10\"} 1\n"
        "x_bucket{priority=\"0\",le=\"+Inf\"} 3\nx_sum{priority=\"0\"} 5020.5\nx_count{priority=\"0\"} 3\n");
}

}  // namespace
}  // namespace takt
