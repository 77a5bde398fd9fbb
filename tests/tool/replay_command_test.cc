// takt replay: its reports agree with each other, and runs that are equal give equal bytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Json JsonOf(const Args& args) {
  const Ended ended = RunTool(args);
  CAPTURE(args, ended.err);
  REQUIRE(ended.exit_code == 0);
  const Json json = Json::parse(ended.out, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

// Lines of fields; none of them holds a comma here.
std::vector<std::map<std::string, std::string>> CsvOf(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(in, line);) {
    lines.emplace_back();
    std::istringstream fields(line + ",");
    for (std::string field; std::getline(fields, field, ',');) lines.back().push_back(field);
  }
  REQUIRE_FALSE(lines.empty());
  std::vector<std::map<std::string, std::string>> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    REQUIRE(lines[i].size() == lines[0].size());
    rows.emplace_back();
    for (std::size_t f = 0; f < lines[0].size(); ++f) rows.back()[lines[0][f]] = lines[i][f];
  }
  return rows;
}

// The warnings of a report, which stderr repeats.
std::vector<std::string> WarningsOf(Args args) {
  args.emplace_back("--quiet");
  const Ended ended = RunTool(args);
  CAPTURE(args, ended.err);
  REQUIRE(ended.exit_code == 0);
  const std::vector<std::string> warnings = Json::parse(ended.out).at("warnings").get<std::vector<std::string>>();
  std::string lines;
  for (const std::string& warning : warnings) lines += "takt replay: warning: " + warning + "\n";
  CHECK(ended.err == lines);
  return warnings;
}

using Warnings = std::vector<std::string>;

TEST_CASE("replay warns of agent_priority without ranks") {
  const Warnings expected = {
      "agent_priority lacks ranks of agents, which only --system kairos learns; it ranks requests as workflow_fcfs "
      "does"};
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--policy", "agent_priority", "--json", "-"})) == expected);
  CHECK(WarningsOf(Replay({"--policy", "aged(agent_priority)", "--json", "-"})) == expected);
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--json", "-"})).empty());
}

TEST_CASE("a profile's front end delays requests, and options replace each of its parts") {
  const auto front = [](Args more) {
    Args args = {"replay",  "--workload", "bundled",
                 "--limit", "20",         "--policy",
                 "fcfs",    "--profile",  "aic/llama-3.1-70b/h200/fp8/vllm/tp4",
                 "--json",  "-",          "--quiet"};
    args.insert(args.end(), more.begin(), more.end());
    const std::string text = JsonOf(args).dump();
    return std::pair(Has(text, "\"front_end_ms\":50"), Has(text, "\"front_end_token_us\":3"));
  };
  CHECK(front({}) == std::pair(true, true));
  CHECK(front({"--front-end", "0"}) == std::pair(false, true));
  CHECK(front({"--front-end-token", "0"}) == std::pair(true, false));
  CHECK(front({"--front-end", "0", "--front-end-token", "0"}) == std::pair(false, false));
}

TEST_CASE("replay warns of options without effect") {
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--placement", "round_robin", "--json", "-"})) ==
        Warnings{"--placement has no effect on one instance; see --instances"});
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--placement", "round_robin", "--instances", "2", "--json", "-"}))
            .empty());
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--gate", "price", "--json", "-"})) ==
        Warnings{"--retention and --gate have no effect without shared prefixes in the workload"});
  const Ended ended = RunTool({"replay", "--columns", "prompt=p,output=o"});
  CHECK(ended.exit_code != 0);
  CHECK(ended.err.find("--columns: is invalid for the bundled workload; expected also --workload") !=
        std::string::npos);
}

TEST_CASE("replay warns if no order can make a difference") {
  const Warnings same = {
      "hardly a request waited, so all orders have the same mean latency; see --load, --rate-scale and --limit"};
  const Args args = {"replay", "--workload", "gen:poisson,rate=0.01,requests=20,seed=1", "--json", "-"};
  const auto with = [&](Args more) {
    more.insert(more.begin(), args.begin(), args.end());
    return WarningsOf(more);
  };
  CHECK(with({"--policy", "fcfs", "--policy", "sjf"}) == same);
  CHECK(with({"--policy", "fcfs"}).empty());
  CHECK(with({"--policy", "fcfs", "--policy", "sjf", "--rate-scale", "10000"}).empty());
  // Equal orders in overload, and runs in which nothing ends.
  CHECK(with({"--policy", "fcfs", "--policy", "workflow_fcfs", "--rate-scale", "10000", "--max-seqs", "1"}).empty());
  CHECK(with({"--policy", "fcfs", "--policy", "sjf", "--kv-tokens", "64"}).empty());
}

TEST_CASE("the reading of equal runs agrees with their waits") {
  const auto reading = [](Args more) {
    Args args = {"replay", "--workload", "gen:poisson,rate=0.01,requests=20,seed=1", "--policy", "fcfs"};
    args.insert(args.end(), more.begin(), more.end());
    return RunTool(args).out;
  };
  CHECK(Has(reading({"--policy", "sjf"}), "try a higher --load or --rate-scale"));
  const std::string queued = reading({"--policy", "workflow_fcfs", "--rate-scale", "10000", "--max-seqs", "1"});
  CHECK(Has(queued, "Hardly any difference"));
  CHECK(Has(queued, "s on average under fcfs. These policies order this workload almost alike"));
  CHECK_FALSE(Has(queued, "higher"));
}

TEST_CASE("replay warns of a split that no request has") {
  for (const char* by : {"tenant", "class", "agent", "stage"}) {
    CAPTURE(by);
    const Warnings expected = {"--by " + std::string(by) + " has no effect, because no request of the workload has a " +
                               by};
    CHECK(WarningsOf({"replay", "--workload", "gen:poisson,requests=20", "--policy", "fcfs", "--by", by, "--json",
                      "-"}) == expected);
  }
  CHECK(WarningsOf(Replay({"--policy", "fcfs", "--by", "stage", "--json", "-"})).empty());
}

// Returns the lines of workflows whose second call may be at a tool, with what each system needs.
std::string ForSystems() {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    const bool is_long = i % 2 == 0;
    const std::string output = is_long ? "400" : "20", agent = is_long ? "writer" : "router";
    lines += R"({"arrival_s": )" + std::to_string(i / 20) + R"(, "deadline_s": )" + (is_long ? "90" : "9") +
             R"(, "calls": [{"agent": ")" + agent + R"(", "prompt": 200, "output": )" + output +
             R"(}, {"agent": "judge", "prompt": 300, "output": 30, "after": [0], "tools": [{"after": 10, )" +
             R"("duration_s": 2, "returned": 50, "class": "search"}]}]})" + "\n";
  }
  return lines;
}

TEST_CASE("replay runs systems of papers, and its reports name them") {
  const TempDir dir;
  const std::string file = dir.Write("w.jsonl", ForSystems());
  const Json all = JsonOf({"replay", "--workload", file, "--system", "kairos", "--system", "hexgen_flow", "--system",
                           "lamps", "--instances", "2", "--max-seqs", "4", "--estimates", "none", "-q", "--json", "-"});
  const char* const names[] = {"fcfs", "kairos", "hexgen_flow", "lamps"};
  REQUIRE(all["runs"].size() == 4);
  std::set<double> means;
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& run = all["runs"][i];
    CHECK(run["policy"] == names[i]);
    CHECK(run.contains("system") == (i > 0));
    if (i > 0) CHECK(run["system"] == names[i]);
    CHECK(run["completed"] == 80);
    means.insert(run["metrics"]["workflow_s"]["mean"].get<double>());
  }
  CHECK(means.size() == 4);  // none is another's order

  const Json chimera = JsonOf({"replay", "--workload", "gen:apps,workflows=60,rate=8", "--profile",
                               "derived/qwen2.5-1.5b/a6000/bf16/tp1", "--profile", "derived/qwen2.5-7b/a6000/bf16/tp1",
                               "--max-seqs", "8", "--estimates", "none", "--system", "chimera", "-q", "--json", "-"});
  CHECK(chimera["runs"][1]["system"] == "chimera");
  CHECK(chimera["runs"][1]["metrics"]["score"].is_number());

  const Ended table = RunTool({"replay", "--workload", file, "--policy", "sjf", "--system", "kairos"});
  CHECK(table.exit_code == 0);
  CHECK(Has(table.out, "kairos"));
  CHECK_FALSE(Has(table.out, "fcfs"));
  CHECK(Has(RunTool({"policies"}).out, "  kairos "));
}

TEST_CASE("replay names what a workload lacks for a system, and unknown systems") {
  const TempDir dir;
  const std::string plain = dir.Write("w.jsonl", R"({"arrival_s": 0, "calls": [{"prompt": 10, "output": 10}]})"
                                                 "\n");
  const std::pair<const char*, const char*> lacks[] = {
      {"kairos", "--system: kairos: the workload lacks the agents of calls"},
      {"hexgen_flow", "--system: hexgen_flow: the workload lacks deadlines of workflows"},
      {"cascadia", "--system: cascadia: the workload lacks several models"},
      {"chimera", "--system: chimera: the workload lacks several models"},
      {"lamps", "--system: lamps: the workload lacks tool calls"},
      {"kairo", "--system: unknown system 'kairo'; did you mean 'kairos'?"}};
  for (const auto& [name, error] : lacks) {
    const Ended ended = RunTool({"replay", "--workload", plain, "--system", name, "-q"});
    CAPTURE(name, ended.err);
    CHECK(ended.exit_code == 2);
    CHECK(Has(ended.err, error));
  }
  const std::string file = dir.Write("all.jsonl", ForSystems());
  const Ended kept = RunTool({"replay", "--workload", file, "--system", "lamps", "--retention", "lru", "-q"});
  CHECK(kept.exit_code == 2);
  CHECK(Has(kept.err, "retention is unsupported by the scheduler of a system"));
}

TEST_CASE("replay warns of confidence_slack on one model or without scores") {
  const Args placed = {"--policy", "fcfs", "--instances", "2", "--placement", "confidence_slack", "--json", "-"};
  CHECK(WarningsOf(Replay(placed)) ==
        Warnings{"confidence_slack lacks several models and scores; every instance serves the model of --profile"});
}

TEST_CASE("replay warns of edf without deadlines") {
  CHECK(WarningsOf({"replay", "--workload", "gen:poisson,requests=20", "--policy", "edf", "--json", "-"}) ==
        Warnings{"edf lacks deadlines in the workload; it ranks requests by arrival"});
  TempDir dir;
  const std::string due =
      dir.Write("due.jsonl", R"({"arrival_s": 0, "deadline_s": 9, "calls": [{"prompt": 9, "output": 2}]})"
                             "\n");
  CHECK(WarningsOf({"replay", "--workload", due, "--policy", "edf", "--json", "-"}).empty());
}

TEST_CASE("replay warns of uncached without prefixes, or without a prefix cache") {
  CHECK(WarningsOf(Replay({"--policy", "uncached", "--json", "-"})) ==
        Warnings{"uncached lacks prefixes in the workload; it ranks requests by all their prompt tokens"});
  TempDir dir;
  const std::string shared =
      dir.Write("shared.jsonl", R"({"arrival_s": 0, "calls": [{"prompt": 600, "output": 2, "prefix": [7]}]})"
                                "\n");
  const Args args = {"replay", "--workload", shared, "--policy", "uncached", "--json", "-"};
  CHECK(WarningsOf(args) ==
        Warnings{"uncached lacks a prefix cache (--prefix-cache); it ranks requests by all their prompt tokens"});
  Args cached = args;
  cached.emplace_back("--prefix-cache");
  CHECK(WarningsOf(cached).empty());
}

TEST_CASE("an unknown option is compared with settings and policies' options") {
  const Ended typo = RunTool(Replay({"--option", "preemt=by_rank"}));
  CHECK(typo.exit_code == 2);
  CHECK(Has(typo.err, "did you mean 'preempt'?"));
  CHECK(Has(RunTool(Replay({"--policy", "fair_share(weights=1:2,2:1)"})).err, "separated by ;"));
}

TEST_CASE("several profiles are engines that differ, and the report names them") {
  const std::string small = "aic/llama-3.1-8b/h100/bf16/tp1", large = "aic/llama-3.1-70b/h100/fp8/tp8";
  const Args engines = {"--profile", small + "*2", "--profile", large, "--limit", "40", "--policy", "fcfs"};
  const auto with = [&](Args more) {
    more.insert(more.begin(), engines.begin(), engines.end());
    return Replay(more);
  };
  const Json json = JsonOf(with({"--json", "-"}));
  CHECK(json["engine"]["instances"] == 3);
  REQUIRE(json["engine"]["engines"].size() == 2);
  CHECK((json["engine"]["engines"][0]["profile"] == small && json["engine"]["engines"][0]["count"] == 2));
  CHECK((json["engine"]["engines"][1]["profile"] == large && json["engine"]["engines"][1]["count"] == 1));
  CHECK(json["engine"]["engines"][0]["kv_tokens"] != json["engine"]["engines"][1]["kv_tokens"]);
  const std::string text = RunTool(with({})).out;
  CHECK(Has(text, "2 x " + small));
  CHECK(Has(text, ", and 1 x " + large));
  // A count alone is the same as --instances.
  const Args alike = {"--policy", "fcfs", "--limit", "40", "--json", "-", "--no-wall"};
  const auto instances = [&](Args more) {
    more.insert(more.end(), alike.begin(), alike.end());
    return JsonOf(Replay(more))["runs"];
  };
  CHECK(instances({"--profile", small + "*2"}) == instances({"--instances", "2"}));
  CHECK_FALSE(JsonOf(Replay(alike))["engine"].contains("engines"));
  for (const char* wrong : {"*0", "*1025", "*x", "*"}) {
    const Ended ended = RunTool(Replay({"--profile", small + wrong}));
    CHECK(ended.exit_code == 2);
    CHECK(Has(ended.err, "--profile: " + small + wrong + " is invalid; expected ID or ID*COUNT"));
  }
  const Ended counts = RunTool(with({"--instances", "2"}));
  CHECK(counts.exit_code == 2);
  CHECK(Has(counts.err, "--profile: 3 engines are invalid; expected 2, the number of instances"));
}

TEST_CASE("with a prefix cache the reports have the share of prompt tokens that were cached") {
  const TempDir dir;
  const std::string file = dir.Write("own.csv", "t,p,o,h\n0,64,1,1 2 3 4\n50,64,1,1 2 3 5\n");
  const Args args = {"replay",   "--workload", file, "--columns", "arrival=t,prompt=p,output=o,prefix=h:16",
                     "--policy", "fcfs",       "-q", "--json",    "-"};
  Args cached = args;
  cached.emplace_back("--prefix-cache");
  CHECK(JsonOf(cached)["runs"][0]["metrics"]["cached_share"] == 48.0 / 128);
  CHECK_FALSE(JsonOf(args)["runs"][0]["metrics"].contains("cached_share"));
  const Args shown = {"replay", "--workload", file, "--columns", args[4], "--policy", "fcfs", "--prefix-cache"};
  CHECK(Has(RunTool(shown).out, "cached %"));
  CHECK_FALSE(Has(RunTool({shown.begin(), shown.end() - 1}).out, "cached %"));
}

TEST_CASE("the table is for people, and plain in a pipe") {
  const Ended ended = RunTool(Replay({}));
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.empty());
  for (const char* part : {"Workload", "aic/llama-3.1-8b/h100/bf16/tp1", "oracle", "seed 1", "workflow [s]", "fcfs",
                           "sjf", "stjf", "* best of its column", "latency"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }
  CHECK_FALSE(Has(ended.out, "\r"));
  CHECK_FALSE(Has(ended.out, "\x1b"));
  const Ended quiet = RunTool(Replay({"-q"}));
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
}

TEST_CASE("the JSON has a run for every policy with every estimate") {
  const Json json = JsonOf(Replay({"--json", "-", "--policy", "fcfs", "--policy", "aged(sjf)", "--estimates", "none",
                                   "--estimates", "noise:0.5", "--option", "threshold=2000", "--seed", "9"}));
  CHECK(json["seed"] == 9);
  CHECK(json["partial"] == false);
  CHECK(json["wall"]["total_s"].is_number());
  CHECK(json["engine"]["max_seqs"] == 24);
  CHECK(json["workload"]["workflows"] == 80);
  const Json& runs = json["runs"];
  REQUIRE(runs.size() == 4);
  const std::array<std::pair<const char*, const char*>, 4> wished = {{{"fcfs", "none"},
                                                                      {"fcfs", "noise:0.5"},
                                                                      {"aged(sjf,threshold=2000)", "none"},
                                                                      {"aged(sjf,threshold=2000)", "noise:0.5"}}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& run = runs[i];
    CHECK(run["policy"] == wished[i].first);
    CHECK(run["estimates"] == wished[i].second);
    CHECK(run["requests"] == json["workload"]["requests"]);
    CHECK(run["completed"] == run["requests"]);
    CHECK(run["failed"] == 0);
    const Json& metrics = run["metrics"];
    for (const char* key : {"ttft_s", "e2e_s", "tpot_s", "queue_s", "workflow_s", "per_token_s", "slowdown"}) {
      for (const char* of : {"mean", "p50", "p90", "p95", "p99"}) CHECK(metrics[key][of].get<double>() > 0);
      CHECK(metrics[key]["p50"] <= metrics[key]["p99"]);
    }
    for (const char* key : {"throughput_rps", "goodput_rps", "slo_scale_95", "max_slowdown", "kv_peak"}) {
      CHECK(metrics[key].get<double>() > 0);
    }
    CHECK(metrics["preemptions"].is_number_integer());
    CHECK(metrics["recomputed_tokens"].is_number_integer());
    CHECK(run["stats"]["finished"] == run["completed"]);
    CHECK_FALSE(run.contains("wall"));
  }
  CHECK(runs[0]["metrics"] == runs[1]["metrics"]);
  CHECK(runs[2]["metrics"] != runs[3]["metrics"]);
}

TEST_CASE("errors of predictions are reported, before and after calibration") {
  const Args args = Replay({"--policy", "sjf", "--estimates", "noise:1", "--estimates", "learnt(noise:1)"});
  const Ended text = RunTool(args);
  CHECK(Has(text.out, "Predictions. Off by"));
  CHECK(Has(text.out, "learnt(noise:1)"));
  CHECK_FALSE(Has(RunTool(Replay({"--estimates", "oracle", "--estimates", "none"})).out, "Predictions."));
  Args as_json = args;
  as_json.insert(as_json.end(), {"--json", "-"});
  const Json runs = JsonOf(as_json)["runs"];
  const Json &raw = runs[0]["estimate_errors"], &learnt = runs[1]["estimate_errors"];
  CHECK(raw["output"]["count"] == runs[0]["completed"]);
  CHECK(raw["output"] == raw["raw_output"]);
  CHECK(raw["output"]["spread"].get<double>() == Approx(1).margin(0.2));
  CHECK(learnt["raw_output"]["count"] == learnt["output"]["count"]);
  CHECK(learnt["output"] != learnt["raw_output"]);
  for (const char* key : {"output", "left", "raw_output", "raw_left"}) {
    for (const char* figure : {"by_octave", "bias", "spread"}) CHECK(learnt[key][figure].is_number());
  }
}

TEST_CASE("an uninformed estimate cannot separate short from long") {
  const Json runs = JsonOf(Replay({"--json", "-", "--estimates", "none"}))["runs"];
  CHECK(runs[0]["metrics"] == runs[1]["metrics"]);
  const Json known = JsonOf(Replay({"--json", "-"}))["runs"];
  CHECK(known[0]["metrics"] == runs[0]["metrics"]);
  CHECK(known[1]["metrics"]["e2e_s"]["mean"] < runs[1]["metrics"]["e2e_s"]["mean"]);
}

TEST_CASE("equal runs give equal bytes, on any number of threads") {
  const TempDir dir;
  const std::array<std::string, 5> reports = {"json", "csv", "csv-summary", "html", "perfetto"};
  std::array<Ended, 2> ended;
  for (int i = 0; i < 2; ++i) {
    Args args = Replay({"--no-wall", "--estimates", "noise:1", "--sweep", "0.8,1.3", "-j", i == 0 ? "1" : "4"});
    for (const std::string& report : reports)
      args.insert(args.end(), {"--" + report, dir / (report + std::to_string(i))});
    ended[static_cast<std::size_t>(i)] = RunTool(args);
    REQUIRE(ended[static_cast<std::size_t>(i)].exit_code == 0);
  }
  CHECK(ended[0].out == ended[1].out);
  for (const std::string& report : reports) {
    const std::string first = ReadWhole(dir / (report + "0"));
    CAPTURE(report);
    CHECK(first.size() > 1000);
    CHECK(first == ReadWhole(dir / (report + "1")));
  }
  const Json other_seed = JsonOf(Replay({"--json", "-", "--policy", "sjf", "--estimates", "noise:1", "--seed", "2"}));
  const Json one_seed = JsonOf(Replay({"--json", "-", "--policy", "sjf", "--estimates", "noise:1"}));
  CHECK(one_seed["runs"][0]["metrics"] != other_seed["runs"][0]["metrics"]);
}

TEST_CASE("CSV and JSON have the same figures") {
  const TempDir dir;
  const Json json = JsonOf(Replay({"--json", "-", "--csv", dir / "csv", "--csv-summary", dir / "summary"}));
  const auto rows = CsvOf(dir / "csv");
  const std::size_t requests = json["workload"]["requests"];
  REQUIRE(rows.size() == 4 * requests);
  const auto summary = CsvOf(dir / "summary");
  REQUIRE(summary.size() == 4);
  for (std::size_t r = 0; r < 4; ++r) {
    const Json& run = json["runs"][r];
    double e2e = 0, queue = 0, workflow_end = 0;
    for (std::size_t i = 0; i < requests; ++i) {
      const auto& row = rows[r * requests + i];
      CHECK(row.at("policy") == run["policy"].get<std::string>());
      CHECK(row.at("outcome") == "completed");
      CHECK(row.at("tenant").empty());
      CHECK(std::stod(row.at("arrival_s")) + std::stod(row.at("e2e_s")) == Approx(std::stod(row.at("end_s"))));
      e2e += std::stod(row.at("e2e_s"));
      queue += std::stod(row.at("queue_s"));
      workflow_end = std::max(workflow_end, std::stod(row.at("end_s")));
    }
    const auto mean = [&](double sum) { return Approx(sum / static_cast<double>(requests)).epsilon(1e-12); };
    CHECK(run["metrics"]["e2e_s"]["mean"].get<double>() == mean(e2e));
    CHECK(run["metrics"]["queue_s"]["mean"].get<double>() == mean(queue));
    CHECK(run["metrics"]["makespan_s"].get<double>() == Approx(workflow_end));
    CHECK(std::stod(summary[r].at("e2e_s_mean")) == run["metrics"]["e2e_s"]["mean"].get<double>());
    CHECK(std::stod(summary[r].at("goodput_rps")) == run["metrics"]["goodput_rps"].get<double>());
  }
}

TEST_CASE("a request that can never fit is named") {
  const TempDir dir;
  const Ended ended = RunTool(Replay({"--kv-tokens", "3000", "--policy", "fcfs", "--csv", dir / "csv", "--json",
                                      dir / "json", "--html", dir / "html"}));
  REQUIRE(ended.exit_code == 0);
  const Json run = Json::parse(ReadWhole(dir / "json"))["runs"][0];
  REQUIRE(run["failed"].get<int>() > 0);
  std::map<std::string, int> outcomes;
  for (const auto& row : CsvOf(dir / "csv")) ++outcomes[row.at("outcome")];
  CHECK(outcomes["completed"] == run["completed"]);
  CHECK(outcomes["never_made"] == run["never_made"]);
  int failed = 0;
  for (const auto& [reason, count] : run["failures"].items()) {
    CHECK(outcomes[reason] == count);
    failed += count.get<int>();
    CHECK(Has(ended.out, reason + ": "));
  }
  CHECK(failed == run["failed"]);
  CHECK(run["requests"] == run["completed"].get<int>() + failed + run["never_made"].get<int>());
}

TEST_CASE("a load is a share of the rate that fcfs serves") {
  const Json json = JsonOf(Replay({"--json", "-", "--policy", "fcfs", "--load", "0.5", "--sweep", "1,3"}));
  REQUIRE(json["runs"].size() == 2);
  const double saturation = json["saturation_rps"], offered = json["workload"]["offered_rps"];
  for (const Json& run : json["runs"]) {
    CHECK(run["rate_scale"].get<double>() * offered == Approx(run["load"].get<double>() * saturation));
  }
  CHECK(json["runs"][0]["load"] == 0.5);
  CHECK(json["runs"][1]["load"] == 1.5);
  CHECK(json["runs"][0]["metrics"]["queue_s"]["mean"] < json["runs"][1]["metrics"]["queue_s"]["mean"]);
  const Json closed = JsonOf({"replay", "--workload", "gen:poisson,requests=20,rate=99", "--json", "-", "--policy",
                              "fcfs", "--closed-loop", "1"});
  CHECK(closed["runs"][0]["metrics"]["queue_s"]["max"] == 0);
}

TEST_CASE("sessions run at a rate or in a loop until a horizon") {
  const TempDir dir;
  std::string lines = R"({"block_tokens":64,"calls":[{"t":0,"in":300000,"out":1}]})"
                      "\n";
  for (int i = 0; i < 20; ++i) {
    lines += R"({"block_tokens":64,"calls":[{"t":0,"in":6400,"out":9,"next":"tool","blocks":[[1,100]]},)"
             R"({"t":1,"in":7040,"out":9,"think_s":2,"blocks":[[1,110]]}]})"
             "\n";
  }
  const std::string file = dir.Write("s.jsonl", lines);
  const auto run = [&](const Args& more) {
    Args args = {"replay", "--workload", file, "--json", "-", "--policy", "fcfs"};
    args.insert(args.end(), more.begin(), more.end());
    return JsonOf(args);
  };
  const Json open = run({"--session-rate", "0.5"});
  CHECK(open["session_rate"] == 0.5);
  CHECK(open["horizon_s"] == 40);
  CHECK(open["warm_up"] == 0.25);
  CHECK(open["engine"]["prefix_cache"] == true);
  CHECK(open["engine"]["retention"] == "hold_value");
  CHECK(open["engine"]["gate"] == "price");
  const Json& metrics = open["runs"][0]["metrics"];
  CHECK(metrics["makespan_s"].get<double>() == Approx(30));
  CHECK(metrics["turns"] > 10);
  CHECK(metrics["sessions"] > 5);
  CHECK(metrics["cached_share"] > 0.3);
  CHECK(metrics["prefill_excess"].get<double>() == Approx(1));
  CHECK(metrics["gate_wait_s"]["max"] == 0);
  const Json small = run({"--session-rate", "0.5", "--kv-tokens", "8000", "--retention", "lru"});
  CHECK(small["engine"]["gate"] == "none");
  CHECK(small["runs"][0]["metrics"]["prefill_excess"] > 1.2);
  CHECK(small["runs"][0]["metrics"]["gate_wait_s"]["max"] == 0);
  const Json gated = run({"--session-rate", "0.5", "--kv-tokens", "8000", "--gate", "lease(seconds=1000)"});
  CHECK(gated["engine"]["retention"] == "lru");
  CHECK(gated["runs"][0]["metrics"]["prefill_excess"].get<double>() == Approx(1));
  CHECK(gated["runs"][0]["metrics"]["gate_wait_s"]["max"] > 1);
  CHECK(Has(RunTool({"replay", "--gate", "leas"}).err, "did you mean 'lease'?"));
  CHECK(Has(RunTool({"replay", "--retention", "lru(x=1)"}).err, "unknown option 'x'"));

  const Json closed = run({"--closed-loop", "3", "--think-cap", "0.5", "--horizon", "20", "--warm-up", "0.5"});
  CHECK(closed["closed_loop"] == 3);
  CHECK(closed["think_cap_s"] == 0.5);
  CHECK(closed["horizon_s"] == 20);
  CHECK(closed["runs"][0]["metrics"]["sessions"] > 25);  // of at least half a second each, three at a time
  CHECK(run({"--closed-loop", "1"})["horizon_s"] == 1800);

  const Ended told = RunTool({"replay", "--workload", file, "--policy", "fcfs", "--session-rate", "0.5"});
  CHECK(Has(told.err, "excluded 1 session with a prompt of more than 262,144 tokens"));
  CHECK(Has(told.out, "0.500 sessions/s for 40.0 s; figures cover the time from 10.0 s on"));
  CHECK(Has(told.out, "prefill excess"));
  CHECK(RunTool({"replay", "--horizon", "5"})
            .err.find("--horizon: is invalid alone; expected also --session-rate or --closed-loop") !=
        std::string::npos);
}

TEST_CASE("regret compares with the order by exact size") {
  const Json runs = JsonOf(Replay({"--json", "-", "--regret"}))["runs"];
  CHECK(runs[1]["metrics"]["regret"] == 1);
  const double fcfs = runs[0]["metrics"]["e2e_s"]["mean"], sjf = runs[1]["metrics"]["e2e_s"]["mean"];
  CHECK(runs[0]["metrics"]["regret"].get<double>() == Approx(fcfs / sjf));
  CHECK_FALSE(JsonOf(Replay({"--json", "-"}))["runs"][0]["metrics"].contains("regret"));
}

TEST_CASE("options reach the scheduler and the policy") {
  const auto preemptions = [](const char* option) {
    const Json json = JsonOf(Replay({"--json", "-", "--policy", "fcfs", "--kv-tokens", "12000", "--option", option}));
    return json["runs"][0]["metrics"]["preemptions"].get<int>();
  };
  CHECK(preemptions("preempt=on_memory") > 0);
  CHECK(preemptions("preempt=off") != preemptions("preempt=on_memory"));
  const Json two = JsonOf(Replay({"--json", "-", "--instances", "2", "--placement", "round_robin"}));
  const Json one = JsonOf(Replay({"--json", "-"}));
  CHECK(two["runs"][0]["metrics"]["e2e_s"]["mean"] < one["runs"][0]["metrics"]["e2e_s"]["mean"]);
}

TEST_CASE("standard output holds only the requested output") {
  const Ended ended = RunTool(Replay({"--csv-summary", "-", "--json", "/dev/null"}));
  CHECK(ended.exit_code == 0);
  CHECK(ended.out.rfind("policy,", 0) == 0);
  CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') == 5);
  CHECK(Has(ended.err, "* best of its column"));
}

TEST_CASE("the page needs nothing else, and its numbers are numbers") {
  const TempDir dir;
  const std::string odd = dir / "a<b>&'\"\xff.jsonl";
  REQUIRE(RunTool({"generate", "gen:poisson,requests=50,rate=9", "--output", odd}).exit_code == 0);
  const Args args = {"replay", "--workload", odd, "--sweep", "0.5,1.2", "--html", dir / "html", "--json", dir / "json"};
  REQUIRE(RunTool(args).exit_code == 0);
  CHECK_FALSE(Json::parse(ReadWhole(dir / "json"), nullptr, false).is_discarded());
  const std::string html = ReadWhole(dir / "html");
  for (const char* foreign : {"http:", "https:", "src=", "@import", "url(", "a<b>"}) CHECK_FALSE(Has(html, foreign));
  std::size_t figures = 0;
  for (std::size_t at = 0; (at = html.find("<figure>", at)) != std::string::npos; ++at) {
    ++figures;
    const std::string figure = html.substr(at, html.find("</figure>", at) - at);
    const std::string begin = "<script type='application/json'>";
    const std::size_t data = figure.find(begin) + begin.size();
    const Json plot = Json::parse(figure.substr(data, figure.find("</script>") - data), nullptr, false);
    REQUIRE(plot.is_object());
    CHECK(plot["lines"].size() == 4);
    for (const Json& line : plot["lines"]) CHECK(line["points"].size() >= 4);
    const std::string drawing = figure.substr(0, data);
    for (const char* bad : {"nan", "inf", "null"}) CHECK_FALSE(Has(drawing, bad));
  }
  CHECK(figures == 4 + 2 * 5);
}

TEST_CASE("the trace has every event of a request's life once") {
  const TempDir dir;
  const Args args = Replay({"--policy", "fcfs", "--policy", "stjf", "--kv-tokens", "12000", "--instances", "2",
                            "--perfetto", dir / "trace", "--perfetto-limit", "60", "--csv", dir / "csv"});
  REQUIRE(RunTool(args).exit_code == 0);
  const Json trace = Json::parse(ReadWhole(dir / "trace"), nullptr, false);
  REQUIRE(trace["traceEvents"].is_array());
  struct Slice {
    double start = 0, end = 0;
    std::string name;
  };
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  std::map<std::pair<int, int>, std::string> names;
  std::map<int, std::string> processes;
  std::set<std::string> reasons;
  for (const Json& event : trace["traceEvents"]) {
    const std::string kind = event["ph"];
    REQUIRE(std::set<std::string>{"X", "M", "C"}.count(kind) == 1);
    const int process = event["pid"];
    if (kind == "M" && event["name"] == "process_name") processes[process] = event["args"]["name"];
    if (kind == "M" && event["name"] == "thread_name") names[{process, event["tid"]}] = event["args"]["name"];
    if (kind != "X") continue;
    if (event["name"] == "step") reasons.insert(event["args"]["queue_waits_for"]);
    const double start = event["ts"], duration = event["dur"];
    tracks[{process, event["tid"]}].push_back({start, start + duration, event["name"]});
  }
  CHECK(processes.size() == 6);
  CHECK(processes[1] == "fcfs: instance 0");

  const auto rows = CsvOf(dir / "csv");
  std::size_t requests = 0;
  std::set<std::string> phases;
  for (auto& [track, slices] : tracks) {
    REQUIRE(names.count(track) == 1);
    for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].start >= slices[i - 1].end - 1e-3);
    if (names[track] == "steps") continue;
    ++requests;
    for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].start == Approx(slices[i - 1].end));
    const std::size_t run = track.first > 3 ? 1 : 0;
    const auto& row = rows[run * rows.size() / 2 + static_cast<std::size_t>(track.second - 1)];
    CHECK(slices.front().start == Approx(1e6 * std::stod(row.at("arrival_s"))));
    CHECK(slices.back().end == Approx(1e6 * std::stod(row.at("end_s"))));
    const auto preempted = std::count_if(slices.begin(), slices.end(), [](auto& s) { return s.name == "preempted"; });
    CHECK(preempted <= std::stoi(row.at("preemptions")));
    for (const Slice& slice : slices) phases.insert(slice.name);
  }
  CHECK(requests == 2 * 60);
  for (const char* phase : {"queued", "prefill", "decode", "preempted"}) CHECK(phases.count(phase) == 1);
  for (const char* reason : {"nothing", "kv"}) CHECK(reasons.count(reason) == 1);
}

TEST_CASE("with instances for prefill and decoding, a trace has each request's slices on both") {
  const TempDir dir;
  const Args args = {"replay",
                     "-q",
                     "--workload",
                     "gen:poisson,requests=60,rate=40,prompt=1500,output=20",
                     "--policy",
                     "fcfs",
                     "--prefill-instances",
                     "1",
                     "--decode-instances",
                     "1",
                     "--option",
                     "overlap=1",
                     "--perfetto",
                     dir / "trace"};
  REQUIRE(RunTool(args).exit_code == 0);
  const Json trace = Json::parse(ReadWhole(dir / "trace"), nullptr, false);
  std::map<std::string, std::set<int>> requests[3];
  std::set<std::string> reasons[3];
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int process = event["pid"];
    REQUIRE((process == 1 || process == 2));
    if (event["name"] == "step") reasons[process].insert(event["args"]["queue_waits_for"]);
    else requests[process][event["name"]].insert(event["tid"].get<int>());
  }
  CHECK(requests[1]["prefill"].size() == 60);
  CHECK(requests[2]["decode"].size() == 60);
  CHECK(requests[1]["queued"].size() > 1);
  CHECK(requests[2]["queued"].empty());
  CHECK(reasons[1].count("budget") == 1);  // although a plan is made ahead of its step
  CHECK(reasons[2].count("budget") == 0);
}

// Long enough for the bar to be seen, and to be interrupted.
Args LongReplay(Args more) {
  Args args = {"replay", "--workload", "gen:poisson,requests=200000,rate=40", "-j", "1", "--policy", "fcfs"};
  for (int i = 0; i < 20; ++i) args.insert(args.end(), {"--policy", "sjf"});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_CASE("a terminal shows a bar, and Ctrl-C prints the results so far") {
  const TempDir dir;
  Tool tool(LongReplay({"--json", dir / "json", "--csv-summary", dir / "csv"}), Tool::Where::kTerminal);
  tool.WaitFor("of 21 done");
  tool.Interrupt();
  const Ended ended = tool.Wait();
  CHECK(ended.exit_code == 130);
  CHECK(Has(ended.err, "\r["));
  CHECK(Has(ended.err, "Interrupted"));
  const Json json = Json::parse(ReadWhole(dir / "json"), nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json["partial"] == true);
  CHECK(json["runs"].size() < 21);
  REQUIRE_FALSE(json["runs"].empty());
  const Json& last = json["runs"].back();
  if (last["partial"] == true) CHECK(last["pending"].get<int>() > 0);
  CHECK(CsvOf(dir / "csv").size() == json["runs"].size());
}

TEST_CASE("a terminal shows the state of a long run") {
  Tool tool(LongReplay({}), Tool::Where::kTerminal);
  tool.WaitFor("\r\nsjf ");
  tool.WaitFor("\r\x1b[2A[");
  tool.Interrupt();
  const Ended ended = tool.Wait();
  CHECK(ended.exit_code == 130);
  for (const char* text : {"time [s]        done  waiting  running  KV %  tokens/s\x1b[K", "\r\x1b[2A["}) {
    CAPTURE(text);
    CHECK(Has(ended.err, text));
  }
  CHECK(ended.err.rfind("\x1b[J") > ended.err.rfind("\r\nsjf "));  // nothing stays
  for (std::size_t end = 0; (end = ended.err.find("\x1b[K", end + 1)) != std::string::npos;) {
    const std::size_t begin = ended.err.find_last_of("\r\n", end) + 1;
    CHECK(end - begin < 80 + std::string("\x1b[2A").size());
  }
}

TEST_CASE("a terminal changes no report") {
  const TempDir dir;
  const auto report = [&](const std::string& file, Tool::Where where) {
    const Args args = {"replay",   "--workload", "gen:poisson,requests=20000,rate=40",
                       "--policy", "fcfs",       "--policy",
                       "sjf",      "--no-wall",  "--json",
                       dir / file};
    CHECK(Tool(args, where).Wait().exit_code == 0);
    return ReadWhole(dir / file);
  };
  const std::string plain = report("plain", Tool::Where::kFiles);
  CHECK_FALSE(plain.empty());
  CHECK(report("shown", Tool::Where::kTerminal) == plain);
}

// A tenant with many requests at once, before a tenant with few.
std::string Tenants() {
  std::string text = "arrival,tenant,prompt,output\n";
  for (int i = 0; i < 200; ++i) text += "0.01" + std::to_string(100 + i) + ",greedy,400,200\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(1 + i) + ".5,polite,400,20\n";
  return text;
}

TEST_CASE("a user's table is read by columns, with tenants in reports") {
  const TempDir dir;
  const std::string file = dir.Write("own.csv", Tenants()), csv = dir / "r.csv", runs = dir / "runs.csv";
  const Args args = {
      "replay",   "--workload", file,       "--columns",  "arrival=arrival,prompt=prompt,output=output,tenant=tenant",
      "--policy", "fcfs",       "--policy", "fair_share", "--max-seqs",
      "8",        "--by",       "tenant"};
  const auto with = [&args](Args more) {
    more.insert(more.begin(), args.begin(), args.end());
    return more;
  };
  const Json json = JsonOf(with({"--json", "-", "-q", "--csv", csv, "--csv-summary", runs, "--html", dir / "page"}));
  REQUIRE(json["runs"].size() == 2);
  double polite[2] = {};
  for (std::size_t run = 0; run < 2; ++run) {
    const Json& parts = json["runs"][run]["parts"];
    CHECK(json["runs"][run]["by"] == "tenant");
    REQUIRE(parts.size() == 2);
    CHECK(parts[0]["name"] == "greedy");
    CHECK(parts[0]["requests"] == 200);
    CHECK(parts[1]["workflows_completed"] == 20);
    polite[run] = parts[1]["metrics"]["e2e_s"]["mean"];
    // The figures of a run are sums over its sections.
    const auto sum = [&](const Json& of) {
      return of["metrics"]["e2e_s"]["mean"].get<double>() * of["completed"].get<double>();
    };
    CHECK(sum(parts[0]) + sum(parts[1]) == Approx(sum(json["runs"][run])));
  }
  CHECK(2 * polite[1] < polite[0]);  // the purpose of fair_share

  const auto rows = CsvOf(csv);
  REQUIRE(rows.size() == 440);
  CHECK(rows[0].at("tenant") == "greedy");
  CHECK(rows[219].at("tenant") == "polite");
  const auto summary = CsvOf(runs);
  REQUIRE(summary.size() == 6);
  CHECK(summary[3].at("by").empty());
  CHECK(summary[5].at("by") == "tenant");
  CHECK(summary[5].at("name") == "polite");
  CHECK(summary[5].at("requests") == "20");
  CHECK(Has(ReadWhole(dir / "page"), "By tenant"));

  const Ended text = RunTool(args);
  CAPTURE(text.out);
  CHECK(Has(text.out, "By tenant\n"));
  CHECK(Has(text.out, "\n  greedy "));
  CHECK(text.out.find("  polite ") > text.out.rfind("  greedy "));
  CHECK_FALSE(Has(RunTool(Replay({})).out, "By "));
}

TEST_CASE("the sentence names the policy with the lowest p99, as the star does") {
  const Json report = JsonOf({"replay", "--rate-scale", "2", "--json", "-", "-q"});
  std::string mean, calm;
  double least_mean = 1e9, least_p99 = 1e9;
  for (const Json& run : report["runs"]) {
    const Json& latency = run["metrics"]["workflow_s"];
    if (latency["mean"] < least_mean) least_mean = latency["mean"], mean = run["policy"];
    if (latency["p99"] < least_p99) least_p99 = latency["p99"], calm = run["policy"];
  }
  const std::string text = RunTool({"replay", "--rate-scale", "2"}).out;
  CAPTURE(text, mean, calm);
  CHECK(Has(text, mean + " has the lowest mean workflow latency"));
  CHECK(Has(text, calm + " has the lowest p99") == (calm != mean));
  CHECK(Has(text, ", and the lowest p99") == (calm == mean));
}

TEST_CASE("requests are grouped by agent, stage and class of workflow") {
  const Json whole = JsonOf(Replay({"--policy", "sjf", "--by", "stage", "--json", "-", "-q"}))["runs"][0];
  std::int64_t requests = 0;
  for (const Json& part : whole["parts"]) {
    requests += part["requests"].get<std::int64_t>();
    CHECK(part["workflows"] == 0);
    // Figures that no part has: their zeros would be false.
    for (const char* figure : {"kv_mean", "kv_peak", "max_slowdown", "slo_scale_95"}) {
      CAPTURE(figure);
      CHECK(part["metrics"][figure].is_null());
      CHECK(whole["metrics"][figure].get<double>() > 0);
    }
    CHECK(part["metrics"]["slowdown"]["mean"].is_null());
    CHECK(part["metrics"]["ttft_s"]["mean"].get<double>() > 0);
  }
  CHECK(whole["parts"].size() > 2);
  CHECK(requests == whole["requests"]);

  const TempDir dir;
  std::string jsonl;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "c" + std::to_string(i % 25);
    jsonl += R"({"t": 0, "usage": {"in": 9, "out": 5}, "kind": ")" + name + "\"}\n";
  }
  const std::string file = dir.Write("log.jsonl", jsonl);
  const Ended text =
      RunTool({"replay", "--workload", file, "--columns", "arrival=t:ms,prompt=usage.in,output=usage.out,class=kind",
               "--policy", "fcfs", "--by", "class"});
  CAPTURE(text.out, text.err);
  CHECK(Has(text.out, "By class: the 20 of 25 with the most requests"));
  CHECK(Has(text.out, "\n  c4 "));   // twice
  CHECK_FALSE(Has(text.out, "  c24 "));

  const Ended wrong = RunTool({"replay", "--workload", file, "--columns", "prompt=usage.in,output=tokens"});
  CHECK(wrong.exit_code == 1);
  CHECK(Has(wrong.err, "log.jsonl:1: tokens: is missing"));
  CHECK(RunTool(Replay({"--by", "user"})).exit_code == 2);
}

}  // namespace
}  // namespace takt
