// takt calibrate: it writes the fitted engine, and takt replay accepts that file.
#include <string>
#include <utility>

#include "catch.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"
#include "takt/sim/replay.h"
#include "takt/sim/step_log.h"
#include "takt/workload/generate.h"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kWorkload = "gen:poisson,requests=400,rate=12,seed=5";

// The log of a virtual engine with a compiled-in profile.
std::string Log() {
  ReplayOptions options;
  options.profile = FindProfile("aic/llama-3.1-8b/h100/bf16/tp1").value();
  std::string text;
  options.cluster.on_step = [&](const VirtualStep& step) {
    text += StepLogLine(step.plan, step.start, step.end) + "\n";
  };
  REQUIRE(Replay(GenerateWorkload(kWorkload).value(), options).ok());
  return text;
}

TEST_CASE("a profile is fitted, written in every form, and replayed") {
  const TempDir dir;
  const std::string log = dir.Write("steps.jsonl", Log());
  const Ended ended = RunTool({"calibrate", log, "--id", "own/llama/h100/bf16/tp2", "--kv-tokens", "436154",
                               "--kv-bytes-per-token", "131072", "--weight-bytes", "16000000000", "--out",
                               dir / "own.json", "--html", dir / "fit.html", "--json", dir / "fit.json"});
  CAPTURE(ended.out, ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(ended.err.empty());
  for (const char* part : {"decode-only", "new steps", "linear", "saturating", "is chosen", "decode rows", "Warnings",
                           "no decode step above", "takt replay --profiles"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }

  const Json json = Json::parse(ReadWhole(dir / "fit.json"), nullptr, false);
  REQUIRE(json["forms"].size() == 2);
  CHECK(json["id"] == "own/llama/h100/bf16/tp2");
  for (const Json& form : json["forms"]) {
    for (const char* key : {"train", "holdout", "all", "prefill_only", "decode_only", "mixed"}) {
      CAPTURE(key);
      CHECK(form[key]["mean_abs_pct"].is_number());
    }
    CHECK(form["all"]["steps"] == form["train"]["steps"].get<int>() + form["holdout"]["steps"].get<int>());
    CHECK(form["predicted_s"].get<double>() == Approx(form["measured_s"].get<double>()).epsilon(0.02));
  }
  CHECK(json["covered"].size() == 3);
  CHECK_FALSE(json["warnings"].empty());

  const auto profiles = ReadProfiles(dir / "own.json");
  INFO(profiles.status().ToString());
  REQUIRE(profiles.ok());
  const Profile& own = profiles->front();
  CHECK(own.model == "llama");
  CHECK(own.cost.tp == 2);
  CHECK(own.kv_capacity_tokens == 436154);
  CHECK(own.kv_bytes_per_token == 131072);
  CHECK(own.weight_bytes == 16'000'000'000);
  CHECK(own.decode_error_pct >= 0);
  CHECK(Has(own.source, "takt calibrate"));
  CHECK(Has(own.source, "steps.jsonl"));
  StepLoad load{.decodes = 20, .decode_context = 10'000, .samples = 20};
  const Profile truth = FindProfile("aic/llama-3.1-8b/h100/bf16/tp1").value();
  CHECK(ToSeconds(own.cost.StepTime(load)) == Approx(ToSeconds(truth.cost.StepTime(load))).epsilon(0.03));

  const std::string html = ReadWhole(dir / "fit.html");
  for (const char* part : {"Measured against predicted", "Error over the log", "saturating", "<svg"}) {
    CHECK(Has(html, part));
  }
  for (const char* part : {"http:", "https:", "src="}) CHECK_FALSE(Has(html, part));

  // The same workload on the fitted engine takes as long as on the true one.
  const auto mean = [&](Args args) {
    args.insert(args.end(), {"--workload", kWorkload, "--policy", "fcfs", "--json", "-", "-q"});
    const Ended replay = RunTool(args);
    CAPTURE(replay.err);
    REQUIRE(replay.exit_code == 0);
    return Json::parse(replay.out)["runs"][0]["metrics"]["e2e_s"]["mean"].get<double>();
  };
  CHECK(mean({"replay", "--profiles", dir / "own.json", "--profile", "own/llama/h100/bf16/tp2"}) ==
        Approx(mean({"replay"})).epsilon(0.01));
  CHECK(Has(RunTool({"profiles", "--profiles", dir / "own.json"}).out, "own/llama/h100/bf16/tp2"));
}

TEST_CASE("the form is an option, and a file may be standard output") {
  const TempDir dir;
  const std::string log = dir.Write("steps.jsonl", Log());
  for (const char* form : {"linear", "saturating"}) {
    const Ended ended = RunTool({"calibrate", log, "--form", form, "--json", "-"});
    CHECK(ended.exit_code == 0);
    CHECK(Json::parse(ended.out, nullptr, false)["chosen"] == form);
    CHECK(Has(ended.err, "as requested"));
  }
  const Json profile = Json::parse(RunTool({"calibrate", log, "--out", "-"}).out, nullptr, false);
  CHECK(profile["profiles"][0]["id"] == "own/model/host/any/tp1");
  CHECK_FALSE(profile["profiles"][0].contains("kv_capacity_tokens"));
  // Without it the size of the KV cache must be given.
  const std::string own = dir.Write("own.json", profile.dump());
  const Args replay = {"replay", "--workload", kWorkload, "--profiles", own, "--profile", "own/model/host/any/tp1"};
  CHECK(RunTool(replay).exit_code == 2);
  Args more = replay;
  more.insert(more.end(), {"--kv-tokens", "100000"});
  CHECK(RunTool(more).exit_code == 0);
}

TEST_CASE("the path to a busy engine becomes the front end of the profile, and of its replays") {
  const TempDir dir;
  std::string log = Log();
  std::size_t at = 0;
  for (int i = 0; i < 25; ++i, ++at) {
    at = log.find("\"rows\"", at);
    const std::string bounds = i < 24 ? "\"path_us\":[[4000,6000]]," : "\"path_us\":[[90000,95000]],";
    log.insert(at, bounds);
    at += bounds.size();
  }
  const Ended ended = RunTool({"calibrate", dir.Write("steps.jsonl", log), "--kv-tokens", "100000", "--out",
                               dir / "own.json", "--html", dir / "fit.html", "--json", dir / "fit.json"});
  CAPTURE(ended.out, ended.err);
  REQUIRE(ended.exit_code == 0);
  const std::string line = "Front end: 5 ms from a client to the engine and back, by 25 arrivals";
  CHECK(Has(ended.out, line));
  CHECK(Has(ReadWhole(dir / "fit.html"), line));
  CHECK(Json::parse(ReadWhole(dir / "fit.json"), nullptr, false)["front_end_ms"] == 5);
  const Json profile = Json::parse(ReadWhole(dir / "own.json"), nullptr, false)["profiles"][0];
  CHECK(profile["front_end"] == Json::array({5, 0}));
  const Ended replay = RunTool(
      {"replay", "--workload", kWorkload, "--profiles", dir / "own.json", "--profile", "own/model/host/any/tp1"});
  CHECK(Has(replay.out, "front end: 5.00 ms per request"));
}

TEST_CASE("totals as CSV fit, and list the unfitted terms") {
  const TempDir dir;
  std::string csv = "time_s,prefill_tokens,decode_rows,context_tokens\n";
  const StepLog log = ParseStepLog(Log(), "log").value();
  for (const TimedStep& step : log.steps) {
    csv += std::to_string(ToSeconds(step.time)) + "," + std::to_string(step.load.prefill_tokens) + "," +
           std::to_string(step.load.decodes) + "," + std::to_string(step.load.decode_context) + "\n";
  }
  const Ended ended = RunTool({"calibrate", dir.Write("steps.csv", csv)});
  CAPTURE(ended.out, ended.err);
  CHECK(ended.exit_code == 0);
  CHECK_FALSE(Has(ended.out, "W the same"));
}

TEST_CASE("a log in milliseconds is fitted with a doubt about its unit") {
  const TempDir dir;
  std::string csv = "time_s,prefill_tokens,decode_rows,context_tokens\n";
  const StepLog log = ParseStepLog(Log(), "log").value();
  for (const TimedStep& step : log.steps) {
    csv += std::to_string(1000 * ToSeconds(step.time)) + "," + std::to_string(step.load.prefill_tokens) + "," +
           std::to_string(step.load.decodes) + "," + std::to_string(step.load.decode_context) + "\n";
  }
  const Ended ended = RunTool({"calibrate", dir.Write("steps.csv", csv)});
  CAPTURE(ended.out, ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(Has(ended.out, "\nWarnings\n  nine steps of ten take more than "));
  CHECK(Has(ended.out, "Times must be in seconds; divide them by"));
}

TEST_CASE("input that is unfit, unreadable or unwritable is reported") {
  const TempDir dir;
  const std::string good = dir.Write("good.jsonl", Log());
  const std::string few = dir.Write("few.jsonl", "{\"time_s\":1,\"rows\":[[1,1,0]]}\n");
  const std::string bad = dir.Write("bad.jsonl", Log() + "{\"time_s\":1,\"rows\":[[0,1,0]]}\n");
  struct Case {
    Args args;
    int exit_code;
    std::string said;
  };
  const Case cases[] = {
      {{"calibrate"}, 2, "log"},
      {{"calibrate", good, "--id", "mine"}, 2, "--id: 'mine' is invalid; expected FAMILY/MODEL/GPU/DTYPE/tpN"},
      {{"calibrate", good, "--id", "a/b/c//tp1"}, 2, "--id"},
      {{"calibrate", good, "--holdout", "0.6"}, 2, "'0.6' is invalid; expected a number from 0 to 0.5"},
      {{"calibrate", good, "--form", "cubic"}, 2, "cubic"},
      {{"calibrate", good, "--kv-tokens", "0"}, 2, "'0'"},
      {{"calibrate", good, "--out", "-", "--json", "-"}, 2, "both write standard output"},
      {{"calibrate", dir / "none"}, 1, "none: cannot be opened"},
      {{"calibrate", few}, 1, "few.jsonl: too few steps to fit a cost model: 1"},
      {{"calibrate", bad}, 1, "rows[0][0]: 0 is below 1"},
      {{"calibrate", good, "--html", dir / "no/such.html"}, 1, "no/such.html"},
      {{"calibrate", good, "--out", "/dev/full"}, 1, "No space left"},
  };
  for (const Case& c : cases) {
    const Ended ended = RunTool(c.args);
    CAPTURE(c.args, ended.err);
    CHECK(ended.exit_code == c.exit_code);
    CHECK(Has(ended.err, c.said));
  }
  const Ended skipped = RunTool({"calibrate", bad, "--skip-bad-lines"});
  CHECK(skipped.exit_code == 0);
  CHECK(Has(skipped.err, "bad.jsonl: 1 bad line skipped"));
}

}  // namespace
}  // namespace takt
