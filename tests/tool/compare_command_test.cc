// takt compare: reports of the same runs are compared, others are refused.
#include <string>

#include "catch.h"
#include "tool/tool.h"
#include "fmt/format.h"

namespace takt {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct RunFigures {
  const char* policy = "fcfs";
  double mean = 1, p95 = 2, workflow = 1, ttft_p95 = 1, tpot = 0.01;
};

std::string ReportOf(const std::vector<RunFigures>& runs, int workflows = 10, double rate_scale = 1.5) {
  std::string text = R"({"workload": {"source": "traces/a.csv"}, "runs": [)";
  for (const RunFigures& run : runs) {
    if (text.back() == '}') text += ',';
    text += fmt::format(
        R"({{"policy": "{}", "rate_scale": {}, "requests": 10, "completed": 10, "workflows": {}, "metrics": {{
           "e2e_s": {{"mean": {}, "p95": {}}}, "ttft_s": {{"mean": 0.5, "p95": {}}},
           "tpot_s": {{"mean": {}, "p95": 0.02}},
           "workflow_s": {{"mean": {}, "p95": 1}}}}}})",
        run.policy, rate_scale, workflows, run.mean, run.p95, run.ttft_p95, run.tpot, run.workflow);
  }
  return text + "]}";
}

TEST_CASE("compare reports errors of means and p95 and the policies' order") {
  const TempDir dir;
  const std::string measured = dir.Write("m.json", ReportOf({{"fcfs", 2, 4}, {"sjf", 1, 5}, {"stjf", 1.01, 5}}));
  const std::string predicted = dir.Write("p.json", ReportOf({{"fcfs", 1.9, 4.4}, {"sjf", 1.02, 5}, {"stjf", 1, 5}}));
  const Ended ended = RunTool({"compare", "--measured", measured, "--predicted", predicted});
  CAPTURE(ended.out, ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(Has(ended.out, "a.csv"));
  CHECK(Has(ended.out, "-5.00"));
  CHECK(Has(ended.out, "of request latency: 5.0 % in the mean, 10.0 % at p95"));
  CHECK(Has(ended.out, "by mean request latency: sjf = stjf < fcfs, as predicted"));
  CHECK(Has(RunTool({"compare", "--measured", measured, "--predicted", predicted, "--tie", "0.5"}).out,
            "sjf < stjf < fcfs; predicted sjf slower than stjf, but stjf was 1.0 % slower"));
}

TEST_CASE("compare has errors of the first token and of later tokens") {
  const TempDir dir;
  const std::string measured = dir.Write("m.json", ReportOf({{"fcfs"}}));
  const std::string predicted = dir.Write("p.json", ReportOf({{"fcfs", 1, 2, 1, 1.2, 0.013}}));
  const std::string out = RunTool({"compare", "--measured", measured, "--predicted", predicted}).out;
  CAPTURE(out);
  CHECK(Has(out, "first token, off %"));
  CHECK(Has(out, "later tokens, off %"));
  CHECK(Has(out, "20.0"));  // p95 of the first token
  CHECK(Has(out, "30.0"));  // mean of later tokens
  std::string old = ReadWhole(measured);  // a report without times of later tokens
  old.erase(old.find("\"tpot_s\""), old.find("\"workflow_s\"") - old.find("\"tpot_s\""));
  CHECK(RunTool({"compare", "--measured", dir.Write("old.json", old), "--predicted", predicted}).exit_code == 0);
}

TEST_CASE("workflows of several requests are ranked by their own latency") {
  const TempDir dir;
  const std::string measured = dir.Write("m.json", ReportOf({{"fcfs", 1, 1, 9}, {"stjf", 2, 2, 5}}, 4));
  const std::string predicted = dir.Write("p.json", ReportOf({{"fcfs", 1, 1, 4}, {"stjf", 2, 2, 5}}, 4));
  const Ended ended = RunTool({"compare", "--measured", measured, "--predicted", predicted});
  CHECK(Has(ended.out,
            "by mean workflow latency: stjf < fcfs; predicted stjf slower than fcfs, but fcfs was 80.0 % slower"));
}

TEST_CASE("several files count as one, and unlike runs are refused") {
  const TempDir dir;
  const std::string fcfs = dir.Write("fcfs.json", ReportOf({{"fcfs"}})),
                    sjf = dir.Write("sjf.json", ReportOf({{"sjf"}}));
  const std::string both = dir.Write("both.json", ReportOf({{"fcfs"}, {"sjf"}}));
  CHECK(RunTool({"compare", "--measured", fcfs, sjf, "--predicted", both}).exit_code == 0);
  struct Case {
    Args args;
    int exit_code;
    std::string said;
  };
  const Case cases[] = {
      {{"compare"}, 2, "--measured"},
      {{"compare", "--measured", fcfs, "--predicted", both},
       1,
       "1 run measured, but 2 runs predicted; expected the same number"},
      {{"compare", "--measured", sjf, fcfs, "--predicted", both}, 1, "is paired with a run of another policy or load"},
      {{"compare", "--measured", fcfs, "--predicted", dir.Write("r.json", ReportOf({{"fcfs"}}, 10, 2))},
       1,
       "at rate 2)"},
      {{"compare", "--measured", fcfs, "--predicted", dir / "none"}, 1, "none"},
      {{"compare", "--measured", fcfs, "--predicted", dir.Write("x.json", "[1]")},
       1,
       "x.json: is invalid; expected a report"},
      {{"compare", "--measured", fcfs, "--predicted",
        dir.Write("y.json", R"({"workload": {"source": "a"}, "runs": [{"policy": "fcfs", "requests": 1, "completed": 1,
                                "workflows": 1, "metrics": {"e2e_s": {"mean": null}}}]})")},
       1,
       "y.json: runs[0].metrics.e2e_s.mean: is invalid; expected a number"},
  };
  for (const Case& c : cases) {
    const Ended ended = RunTool(c.args);
    CAPTURE(c.args, ended.err);
    CHECK(ended.exit_code == c.exit_code);
    CHECK(Has(ended.err, c.said));
  }
}

TEST_CASE("a report of takt replay equals itself") {
  const TempDir dir;
  REQUIRE(RunTool(Replay({"--json", dir / "a.json", "-q"})).exit_code == 0);
  const Ended ended = RunTool({"compare", "--measured", dir / "a.json", "--predicted", dir / "a.json"});
  CAPTURE(ended.out, ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(Has(ended.out, "of request latency: 0.0 % in the mean, 0.0 % at p95"));
  CHECK(Has(ended.out, "as predicted"));
}

}  // namespace
}  // namespace takt
