// takt plan: a plan with its keys and its picture, and faults of its input.
#include <string>

#include "catch.h"
#include "tool/tool.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string Models(const TempDir& dir) {
  return dir.Write("models.json",
                   R"({"models": [{"name": "8b", "profile": "aic/llama-3.1-8b/h100/bf16", "tp": [1, 2, 4], "pp": [1]},
                                  {"name": "70b", "profile": "aic/llama-3.1-70b/h100/bf16", "tp": [2, 4], "pp": [1]}]})");
}

std::string Sample(const TempDir& dir, const std::string& more = "") {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += fmt::format(R"({{"prompt": {}, "outputs": [{}, {}], "scores": [{}, {}]}})", 100 + 10 * i, 50 + 5 * i,
                        60 + 5 * i, 30 + i, 80 + i / 4);
    text += "\n";
  }
  return dir.Write("sample.jsonl", text + more);
}

Args Plan(const TempDir& dir, Args more) {
  Args args = {"plan", "--workload", Sample(dir), "--models", Models(dir), "--gpus", "8", "--rate", "2"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_CASE("a plan, with its keys and its picture") {
  const TempDir dir;
  const Ended ended = RunTool(
      Plan(dir, {"--quality", "75", "--alternation", "--json", dir / "a.json", "--html", dir / "a.html", "--no-wall"}));
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"8b -> 70b", "escalates below", "The paper's alternation", "sustains", "frontier"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["gpus"] == 8);
  CHECK(json["plan"]["quality"] >= 75);
  CHECK(Has(ended.out, fmt::format("2 requests/s are {:.1f} % of the capacity of these GPUs",
                                   100 * 2 / json["sustains_rps"].get<double>())));
  CHECK(json["plan"]["thresholds"].size() == 1);
  CHECK(json["plan"]["models"].size() == 2);
  int gpus = 0;
  for (const Json& model : json["plan"]["models"]) {
    gpus += model["gpus"].get<int>();
    for (const Json& r : model["replicas"]) CHECK(r["count"] >= 1);
  }
  CHECK(gpus <= 8);
  CHECK(json["plan"]["simulated_e2e_p95_s"] > 0);
  CHECK(json["alternation"]["latency_p95_s"] >= json["plan"]["latency_p95_s"]);
  CHECK(json["frontier"].size() > 3);
  CHECK_FALSE(json.contains("wall"));
  const std::string html = ReadWhole(dir / "a.html");
  CHECK(Has(html, "<svg"));
  CHECK(Has(html, "score below"));
  CHECK_FALSE(Has(html, "http"));

  const Ended again =
      RunTool(Plan(dir, {"--quality", "75", "--alternation", "--json", "-", "--no-wall", "-q", "-j", "1"}));
  CHECK(again.out == ReadWhole(dir / "a.json"));
}

TEST_CASE("a latency budget, a fixed routing, and made workloads") {
  const TempDir dir;
  const Ended budget = RunTool(Plan(dir, {"--latency", "20", "--json", "-", "-q"}));
  REQUIRE(budget.exit_code == 0);
  CHECK(Json::parse(budget.out)["plan"]["latency_p95_s"] <= 20);
  const Ended fixed = RunTool(Plan(dir, {"--thresholds", "60", "--json", "-", "-q"}));
  REQUIRE(fixed.exit_code == 0);
  CHECK(Json::parse(fixed.out)["plan"]["thresholds"][0] == 60);
  CHECK(Json::parse(fixed.out)["plan"]["models"][1]["share"] == Approx(0.5));
  const Ended path = RunTool(Plan(dir, {"--quality", "75", "--path", "--json", "-", "-q"}));
  const Ended slowest = RunTool(Plan(dir, {"--quality", "75", "--json", "-", "-q"}));
  REQUIRE((path.exit_code == 0 && slowest.exit_code == 0));
  CHECK(Json::parse(path.out)["plan"]["simulated_e2e_p95_s"].get<double>() <=
        Json::parse(slowest.out)["plan"]["simulated_e2e_p95_s"].get<double>());
  CHECK(RunTool(Plan(dir, {"--latency", "20", "--path"})).exit_code == 2);
  CHECK(RunTool({"plan", "--workload", "cascadia:2", "--models", Models(dir), "--gpus", "8", "--rate", "1", "-q"})
            .exit_code == 0);
}

TEST_CASE("generated workloads have the throughput of Cascadia's Table 2") {
  const TempDir dir;
  const std::string models =
      dir.Write("three.json", R"({"models": [{"profile": "aic/llama-3.1-8b/h100/bf16", "tp": [1], "pp": [1]},
                                   {"profile": "aic/qwen3-32b/h100/bf16", "tp": [2], "pp": [1]},
                                   {"profile": "aic/llama-3.1-70b/h100/bf16", "tp": [4], "pp": [1]}]})");
  struct Row {
    const char *trace, *thresholds;
    double middle, large;
  };
  for (const Row& row : {Row{"1", "99,91", .94, .50}, Row{"1", "74,64", .62, .21}, Row{"1", "69,25", .54, .11},
                         Row{"2", "61,18", .31, .03}, Row{"3", "32,0", .23, 0}, Row{"3", "10,0", .05, 0}}) {
    const Ended ended =
        RunTool({"plan", "--workload", std::string("cascadia:") + row.trace, "--models", models, "--gpus", "64",
                 "--rate", "0.5", "--requests", "0", "--thresholds", row.thresholds, "--json", "-", "-q"});
    CAPTURE(row.trace, row.thresholds, ended.err);
    REQUIRE(ended.exit_code == 0);
    const Json plan = Json::parse(ended.out)["plan"];
    CHECK(plan["models"][1]["share"].get<double>() == Approx(row.middle).margin(0.03));
    CHECK(plan["models"][2]["share"].get<double>() == Approx(row.large).margin(0.03));
  }
}

TEST_CASE("without a feasible plan, the tool names the reason") {
  const TempDir dir;
  for (const auto& [more, part] :
       std::vector<std::pair<Args, std::string>>{{{"--quality", "99"}, "quality: no routing reaches 99"},
                                                 {{"--quality", "85", "--rate", "10000"}, "requests/s too few"},
                                                 {{"--latency", "0.01"}, "above the budget"},
                                                 {{"--quality", "80", "--gpus", "1"}, "GPUs: 1 serve at most 0"}}) {
    Args args = Plan(dir, {});
    for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
      bool replaced = false;
      for (std::size_t k = 0; k + 1 < args.size(); ++k) {
        if (args[k] == more[i]) args[k + 1] = more[i + 1], replaced = true;
      }
      if (!replaced) args.push_back(more[i]), args.push_back(more[i + 1]);
    }
    const Ended ended = RunTool(args);
    CAPTURE(part, ended.err);
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, part));
  }
}

TEST_CASE("faults in the files are reported with their line") {
  const TempDir dir;
  const std::string models = Models(dir);
  const auto run = [&](const std::string& sample, const std::string& cascade) {
    return RunTool({"plan", "--workload", sample, "--models", cascade, "--gpus", "8", "--rate", "2"});
  };
  const auto complains = [&](const Ended& ended, const std::string& part) {
    CAPTURE(ended.err, part);
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, part));
  };
  complains(run(dir.Write("empty.jsonl", "\n"), models), "empty.jsonl: has no requests");
  complains(run(dir / "absent.jsonl", models), "absent.jsonl");
  complains(run(Sample(dir, R"({"prompt": 1, "outputs": [1, 1], "scores": [NaN, 3]})"), models), "sample.jsonl:61");
  complains(run(Sample(dir, R"({"prompt": 1, "outputs": [1, 1], "scores": [3]})"), models),
            "has 1 numbers; expected 2, one per model");
  complains(run(Sample(dir, R"({"prompt": 1, "outputs": [1, 1], "scores": [3, 101]})"), models), "score 101 is not in");
  complains(run(Sample(dir, R"({"prompt": 0, "outputs": [1, 1], "scores": [3, 4]})"), models), "prompt 0 is invalid");
  complains(run(Sample(dir, R"({"prompt": 1, "outputs": [1, 1], "scores": [3, 4], "x": 1})"), models), "x is unknown");
  complains(run("cascadia:4", models), "cascadia:3");
  const std::string sample = Sample(dir);
  complains(run(sample, dir.Write("m1.json", "{")), "is invalid; expected JSON");
  complains(run(sample, dir.Write("m2.json", R"({"models": []})")), "no models");
  complains(run(sample, dir.Write("m3.json", R"({"models": [{"profile": "aic/none/h100/bf16"}]})")), "model 1");
  complains(run(sample, dir.Write("m4.json", R"({"models": [{"profile": "aic/llama-3.1-8b/h100/bf16", "tp": [0]}]})")),
            "model 1: tp 0 is invalid");
  const auto with_tp = [](const std::string& tp) {
    return R"({"models": [{"profile": "aic/llama-3.1-8b/h100/bf16", "tp": [)" + tp + "]}]}";
  };
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  complains(run(sample, dir.Write("deep.json", with_tp(deep))),
            "model 1: tp array is invalid; expected a whole number");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  complains(run(sample, dir.Write("many.json", with_tp(ones))), "model 1: tp has 65 degrees; expected at most 64");
  complains(run(sample, dir.Write("m5.json", R"({"models": [{"profile": "aic/llama-3.1-8b/h100/bf16"},
                                                           {"profile": "aic/llama-3.1-70b/h100/bf16", "tp": [1],
                                                            "pp": [1]}]})")),
            "but weights and the KV of");
  CHECK(RunTool(Plan(dir, {"--quality", "3", "--latency", "4"})).exit_code == 2);
  CHECK(RunTool(Plan(dir, {"--json", "-", "--html", "-"})).exit_code == 2);
  CHECK(RunTool(Plan(dir, {"--grid", "3,2"})).exit_code == 1);
  CHECK(RunTool(Plan(dir, {"--thresholds", "3,2"})).exit_code == 1);
  CHECK(RunTool(Plan(dir, {"--json", "/dev/full"})).exit_code == 1);
  CHECK(RunTool({"plan", "--gpus", "4"}).exit_code == 2);
}

}  // namespace
}  // namespace takt
