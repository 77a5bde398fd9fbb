// Logs of steps: the parsed values, and the messages for bad lines.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/sim/step_log.h"

namespace takt {
namespace {

StepLog Parse(std::string_view text, const StepLogOptions& options = {}) {
  const absl::StatusOr<StepLog> log = ParseStepLog(text, "log", options);
  INFO(log.status().ToString());
  REQUIRE(log.ok());
  return *log;
}

TEST_CASE("rows add up to a load") {
  const StepLog log = Parse(
      "{\"step\": 7, \"time_s\": 0.25, \"plan_s\": 0.5, \"rows\": [[1, 99, 0, 1], [30, 10, 1, 1], [8, 0, true, 0], "
      "[1, 4, 1, 0], [3, 50, 0, 1]], \"host\": \"other keys are none of takt's business\"}\n\n"
      "{\"time_s\": 1e-3, \"rows\": [[1, 0, 0, true]]}");
  REQUIRE(log.steps.size() == 2);
  CHECK(log.knows_samples);
  CHECK(log.knows_prefill_work);
  StepLoad load;
  load.AddDecode(100);
  load.AddPrefill(30, 10, true);
  load.AddPrefill(8, 0, false);
  load.AddPrefill(1, 4, false);
  load.AddPrefill(3, 50, true);  // drafts are verified
  CHECK(log.steps[0].load == load);
  CHECK(log.steps[0].time == std::chrono::milliseconds(750));
  CHECK(log.steps[0].longest_context == 100);
  CHECK(log.steps[1].time == std::chrono::milliseconds(1));
  CHECK(Parse("{\"time_s\": 1, \"plan_s\": 1, \"rows\": [[1,1,0]]}", {.plan_time = false}).steps[0].time ==
        std::chrono::seconds(1));
}

TEST_CASE("times that clients saw are marked") {
  const StepLog log = Parse(
      "{\"time_s\": 1, \"from_arrival\": 1, \"rows\": [[5,0,1]]}\n"
      "{\"time_s\": 2, \"path_us\": [[-250, 12000]], \"rows\": [[5,0,1,1]]}");
  REQUIRE(log.steps.size() == 2);
  CHECK(log.steps[0].from_arrival);
  CHECK_FALSE(log.steps[1].from_arrival);
  CHECK(log.paths == std::vector<PathRange>{{std::chrono::microseconds(-250), std::chrono::milliseconds(12)}});
  for (const char* bad : {"\"from_arrival\": 2", "\"path_us\": 5", "\"path_us\": [5]", "\"path_us\": [[1]]",
                          "\"path_us\": [[0.5, 1]]", "\"path_us\": [[1, 1e300]]"}) {
    const auto refused = ParseStepLog("{\"time_s\": 1, " + std::string(bad) + ", \"rows\": [[5,0,1]]}", "log");
    INFO(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().message().find(bad[1] == 'f' ? "from_arrival" : "path_us") != std::string::npos);
  }
}

TEST_CASE("if rows do not show sampling, only decodes count") {
  const StepLog log = Parse("{\"time_s\": 1, \"rows\": [[5,0,1,1],[1,3,0]]}\n{\"time_s\": 1, \"rows\": [[5,0,1]]}");
  CHECK_FALSE(log.knows_samples);
  CHECK(log.steps[0].load.samples == 1);
  CHECK(log.steps[1].load.samples == 0);
}

TEST_CASE("totals are read as CSV with columns in any order") {
  const StepLog log = Parse(
      "step,decode_rows,time_s,context_tokens,prefill_tokens\n"
      "1,4,0.5,400,0\n2,0,0.25,0,512\n");
  REQUIRE(log.steps.size() == 2);
  CHECK_FALSE(log.knows_samples);
  CHECK_FALSE(log.knows_prefill_work);
  CHECK(log.steps[0].load == StepLoad{.decodes = 4, .decode_context = 400, .samples = 4});
  CHECK(log.steps[0].longest_context == 100);
  CHECK(log.steps[1].load == StepLoad{.prefill_tokens = 512});
  const StepLog more = Parse(
      "time_s,prefill_tokens,decode_rows,context_tokens,plan_s,prefill_work,samples\n"
      "0.5,512,4,400,0.25,131072,5\n");
  CHECK(more.knows_samples);
  CHECK(more.knows_prefill_work);
  CHECK(more.steps[0].load == StepLoad{512, 131072, 4, 400, 5});
  CHECK(more.steps[0].time == std::chrono::milliseconds(750));
}

TEST_CASE("a plan becomes a line that can be read again") {
  const std::vector<PlanEntry> run = {
      {.request = {1}, .tokens = 1, .position = 41, .flags = PlanEntry::kSamples},
      {.request = {2}, .tokens = 64, .position = 16, .flags = PlanEntry::kPrefill},
      {.request = {3}, .tokens = 1, .position = 9, .speculative = 3, .flags = PlanEntry::kSamples}};
  const StepPlan plan{.id = {12}, .run = run};
  const TimePoint begin(std::chrono::seconds(2));
  const std::string line = StepLogLine(plan, begin, begin + std::chrono::microseconds(1500), Duration(20'000));
  CHECK(line ==
        "{\"step\":12,\"begin_s\":2.000000000,\"time_s\":0.001500000,\"plan_s\":0.000020000,\"rows\":"
        "[[1,41,0,1],[64,16,1,0],[4,9,0,1]]}");
  const StepLog log = Parse(line);
  StepLoad load;
  load.AddDecode(42);
  load.AddPrefill(64, 16, false);
  load.AddPrefill(4, 9, true);
  CHECK(log.steps[0].load == load);
  CHECK(log.steps[0].time == std::chrono::microseconds(1520));
}

TEST_CASE("a bad line names file, line, field and value") {
  struct Case {
    std::string_view text, message;
  };
  const std::string_view good = "{\"time_s\": 1, \"rows\": [[1,1,0]]}\n";
  const Case cases[] = {
      {"{\"time_s\": 1, \"rows\": [[1,1,0]", "log:2: column 31: invalid JSON"},
      {"7", "log:2: 7 is invalid; expected an object"},
      {"{\"rows\": [[1,1,0]]}", "log:2: time_s: is missing"},
      {"{\"time_s\": \"1\", \"rows\": [[1,1,0]]}", "log:2: time_s: \"1\" is invalid; expected a number"},
      {"{\"time_s\": 0, \"rows\": [[1,1,0]]}", "log:2: time_s: 0 is invalid; expected a number above 0"},
      {"{\"time_s\": -1, \"rows\": [[1,1,0]]}", "log:2: time_s: -1 is negative"},
      {"{\"time_s\": 1, \"plan_s\": -1, \"rows\": [[1,1,0]]}", "log:2: plan_s: -1 is negative"},
      {"{\"time_s\": 1}", "log:2: rows: is missing"},
      {"{\"time_s\": 1, \"rows\": []}", "log:2: rows: is empty; expected a row"},
      {"{\"time_s\": 1, \"rows\": [[1,1]]}", "log:2: rows[0]: an array is not [tokens, position, prefill]"},
      {"{\"time_s\": 1, \"rows\": [[1,1,0],[0,1,0]]}", "log:2: rows[1][0]: 0 is below 1"},
      {"{\"time_s\": 1, \"rows\": [[1,-1,0]]}", "log:2: rows[0][1]: -1 is negative"},
      {"{\"time_s\": 1, \"rows\": [[1,0.5,0]]}", "log:2: rows[0][1]: 0.5 is invalid; expected a whole number"},
      {"{\"time_s\": 1, \"rows\": [[1,1,2]]}", "log:2: rows[0][2]: 2 is above 1"},
      {"{\"time_s\": 1, \"rows\": [[1,1,0,\"x\"]]}", "log:2: rows[0][3]: \"x\" is invalid; expected a whole number"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const absl::StatusOr<StepLog> log = ParseStepLog(std::string(good) + std::string(c.text), "log");
    CHECK(log.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(log.status().message()).starts_with(c.message));
    StepLogReport report;
    const absl::StatusOr<StepLog> skipped =
        ParseStepLog(std::string(good) + std::string(c.text), "log", {.skip_bad_lines = true}, &report);
    REQUIRE(skipped.ok());
    CHECK(skipped->steps.size() == 1);
    CHECK(report.bad_lines == 1);
    CHECK(report.bad_line_messages[0].starts_with(c.message));
  }
  const std::string header = "time_s,prefill_tokens,decode_rows,context_tokens,plan_s,samples\n";
  const Case tables[] = {
      {"0,1,1,1,0,0", "log:2: time_s: 0 is invalid; expected a number above 0"},
      {"x,1,1,1,0,0", "log:2: time_s: \"x\" is invalid; expected a number"},
      {"1,1.5,1,1,0,0", "log:2: prefill_tokens: \"1.5\" is invalid; expected a whole number"},
      {"1,1,-1,1,0,0", "log:2: decode_rows: \"-1\" is negative; expected at least 0"},
      {"1,1,1,,0,0", "log:2: context_tokens: is empty"},
      {"1,1,0,7,0,0", "log:2: context_tokens: 7 without decode_rows"},
      {"1,0,0,0,0,0", "log:2: prefill_tokens: 0 is invalid; expected a number above 0 here or in decode_rows"},
      {"1,1,1,1,nan,0", "log:2: plan_s: \"nan\" is invalid; expected a finite number"},
      {"1,1,1,1,0,many", "log:2: samples: \"many\" is invalid; expected a whole number"},
      {"1,1,1,1", "log:2: 4 fields; expected 6, as in the header"},
  };
  for (const Case& c : tables) {
    CAPTURE(c.text);
    const absl::StatusOr<StepLog> log = ParseStepLog(header + std::string(c.text), "log");
    CHECK(std::string(log.status().message()).starts_with(c.message));
  }
}

TEST_CASE("files that are no log are refused") {
  const auto message = [](std::string_view text) { return std::string(ParseStepLog(text, "log").status().message()); };
  CHECK(message("") == "log: is empty");
  CHECK(message("time_s,prefill_tokens\n1,2\n")
            .starts_with("log:1: header: column \"decode_rows\" is missing; the columns are \"time_s\", "
                         "\"prefill_tokens\"; expected JSON lines with time_s"));
  CHECK(message("time_s,prefill_tokens,decode_rows,context_tokens\n") == "log: has no steps");
  CHECK(ReadStepLog("/nowhere/steps.jsonl").status().code() == absl::StatusCode::kNotFound);
  const absl::StatusOr<StepLog> none = ParseStepLog("{}\n{}", "log", {.skip_bad_lines = true});
  CHECK(std::string(none.status().message()) == "log:1: time_s: is missing (and no line is valid)");
}

}  // namespace
}  // namespace takt
