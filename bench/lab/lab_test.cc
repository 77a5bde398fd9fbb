// Tests takt-lab scenario: rows and claims exist with the keys that other programs read, and equal runs give equal
// bytes.
#include <cstdlib>
#include <map>
#include <string>

#include "catch.h"
#include "scale.h"
#include "tool/tool.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Requests with no tool call, one call, and two calls.
std::string Requests(const TempDir& dir, const std::string& name = "infercept_multi_api.jsonl") {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    text +=
        fmt::format(R"({{"prompt": {}, "class": "qa", "segments": [{{"gen": {}, "api": "qa", "api_s": 0.4, "ret": 9}},)"
                    R"({{"gen": 30, "api": "math", "api_s": 0.001, "ret": 4}}, {{"gen": 12}}]}})",
                    300 + 90 * i, 20 + 7 * i);
    text += "\n";
  }
  text += R"({"prompt": 50, "segments": [{"gen": 9}]})"
          "\n";
  return dir.Write(name, text);
}

// Number of claims by source. No two claims share a name.
std::map<std::string, int> Sources(const Json& json) {
  std::map<std::string, int> sources, names;
  for (const Json& claim : json["claims"]) {
    CAPTURE(claim["name"]);
    CHECK(++names[claim["name"]] == 1);
    ++sources[claim["source"]];
  }
  return sources;
}

Args Small(const std::string& data, Args more) {
  Args args = {"scenario", "lamps", "--data", data, "--seeds", "2", "--minutes", "0.05"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// A trace from which only arrivals are used.
std::string Trace(const TempDir& dir) {
  std::string text = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 200; ++i) text += fmt::format("2023-11-16 18:{:02}:{:02}.5000000,374,44\n", i / 30, i % 30 * 2);
  return dir.Write("trace.csv", text);
}

// Thirty sessions of two turns.
std::string AgentLines() {
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    lines += R"({"block_tokens":64,"calls":[{"t":0,"in":6400,"out":9,"next":"tool","blocks":[[1,100]]},)"
             R"({"t":1,"in":7040,"out":9,"think_s":2,"blocks":[[1,110]]}]})"
             "\n";
  }
  return lines;
}

TEST_CASE("a small run of the agents scenario, with all its systems, loads and claims") {
  const TempDir dir;
  const std::string file = dir.Write("coding_sessions.jsonl", AgentLines());
  const Args args = {"scenario",  "agents", "--data", file, "--seeds",  "1",
                     "--minutes", "9",      "--json", "-",  "--no-wall"};
  const Ended ended = RunTool(args);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  const Json json = Json::parse(ended.out);
  std::map<std::string, int> loads, verdicts, troubles;
  for (const Json& row : json["rows"]) {
    if (row.contains("paper")) {
      ++verdicts[row["verdict"]];
      CHECK(row.contains("times") == (row["verdict"] != "cannot be judged"));
    } else if (row.contains("trouble")) {
      ++troubles[row["trouble"]];
      CHECK(row["calm_cached_share"].is_number());
      CHECK(row["ttft_max_s"].get<double>() >= 0);
    } else {
      ++loads[row["system"]];
      CHECK(row["turns"].is_number());
      CHECK(row["ttft_max_s_1"].is_number());
    }
  }
  CHECK(loads["takt's"] ==
        16);  // open loop at three loads, closed loop at five on two engines, three with other memory
  CHECK(loads["belady"] == 3);
  CHECK(loads["lru, no gate, fcfs"] == 16);
  CHECK(loads["times told"] == 1);
  CHECK(loads["one class for all gaps"] == 1);
  CHECK(loads["gaps learnt before, 10 times as long"] == 1);
  CHECK(loads["cached_cost"] == 1);
  CHECK(loads["cached_cost, takt's engines"] == 1);
  CHECK(verdicts["cannot be judged"] == 2);
  CHECK(verdicts["holds"] + verdicts["does not"] == 9);
  CHECK(troubles.size() == 4);
  CHECK(troubles["all KV lost at once"] == 4);
  CHECK(json["claims"].size() == 52);
  CHECK(RunTool(args).out == ended.out);
  const std::string other =
      dir.Write("flat.jsonl", R"({"timestamp":0,"input_length":9,"output_length":3,"hash_ids":[1]})"
                              "\n");
  const Ended none = RunTool({"scenario", "agents", "--data", other});
  CHECK(none.exit_code == 1);
  CHECK(Has(none.err, "has no sessions with the blocks of their prompts"));
}

TEST_CASE("chat next to agents, with a trace of chat") {
  const TempDir dir;
  dir.Write("coding_sessions.jsonl.gz", AgentLines());
  std::string chat;
  for (int i = 0; i < 60; ++i) {
    chat +=
        fmt::format(R"({{"timestamp":{},"input_length":1500,"output_length":3,"hash_ids":[1,2,{}]}})", 1000 * i, i + 3);
    chat += "\n";
  }
  dir.Write("mooncake_fast25_conversation.jsonl.gz", chat);
  const Ended ended = RunTool(
      {"scenario", "agents", "--data", dir / ".", "--seeds", "1", "--minutes", "4", "--json", "-", "--no-wall"});
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  std::map<std::string, int> mixes;
  const Json json = Json::parse(ended.out);
  for (const Json& row : json["rows"]) {
    if (!row.contains("mix")) continue;
    ++mixes[row["mix"]];
    CAPTURE(row);
    CHECK(row["chat_turns"] == 15);  // one every eight seconds for two minutes
    CHECK(row["chat_cached_share"].get<double>() == Approx(1024.0 / 1500));  // 16 blocks of 64 tokens each
    const bool alone = row["mix"].get<std::string>().ends_with("chat alone");
    CHECK((row["turns"].get<double>() == 0 || !alone));
  }
  CHECK(mixes.size() == 4);
  for (const auto& [mix, rows] : mixes) CHECK(rows == 3);
}

TEST_CASE("a small run of the Kairos scenario, with all its rows, claims and the learnt graph") {
  const TempDir dir;
  const Args args = {"scenario", "kairos", "--data", Trace(dir), "--seeds", "2", "--minutes", "0.1", "--no-wall"};
  const auto run = [&](const std::string& name) {
    Args all = args;
    all.insert(all.end(), {"--json", dir / (name + ".json"), "--html", dir / (name + ".html")});
    return RunTool(all);
  };
  const Ended ended = run("a");
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"Capacity", "Llama-2-13B, mix:1", "Kairos without packing", "ordered rightly"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["scenario"] == "kairos");
  std::map<std::string, int> parts;
  for (const Json& row : json["rows"]) {
    CAPTURE(row);
    ++parts[row["part"].get<std::string>()];
    if (row["part"] == "loads") {
      CHECK(row["token_latency_mean_ms"].get<double>() > 0);
      CHECK(row["token_latency_p99_ms"] >= row["token_latency_p90_ms"]);
      CHECK(row["queued_pct"].get<double>() <= 100);
    } else if (row["part"] == "fit") {
      CHECK(row["off_by_pct"].get<double>() >= 0);
    } else {
      for (const char* key : {"classical_pct", "smacof_pct", "mean_pct", "median_pct", "ayo_pct"}) {
        CHECK(row[key].get<double>() <= row["best_pct"].get<double>() + 1e-9);
      }
      CHECK(row["fcfs_pct"].get<double>() == Approx(50));
    }
  }
  CHECK(parts == std::map<std::string, int>{{"loads", 8 * 3 * 4 + 3 * 8 + 2 * 7 * 13}, {"accuracy", 10}, {"fit", 13}});
  CHECK(Sources(json) == std::map<std::string, int>{{"paper", 58}, {"takt's own", 10}, {"fitted", 2}});
  const std::string html = ReadWhole(dir / "a.html");
  for (const char* agent : {"Router", "Humanities", "Writer", "ProjectManager", "Engineer", "stroke-dasharray"}) {
    CHECK(Has(html, agent));
  }
  REQUIRE(run("b").exit_code == 0);
  CHECK(ReadWhole(dir / "a.json") == ReadWhole(dir / "b.json"));
}

TEST_CASE("a small run of the aging scenario, with all its rows") {
  const TempDir dir;
  const Args args = {"scenario",  "aging", "--data",    Trace(dir), "--seeds",     "2",
                     "--minutes", "0.2",   "--no-wall", "--json",   dir / "a.json"};
  const Ended ended = RunTool(args);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"less than a tenth", "S = 1600", "math: thresholds", "Quanta", "forever"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }
  CHECK_FALSE(Has(ended.out, "claim"));
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["claims"].empty());
  std::map<std::string, int> rows;
  for (const Json& row : json["rows"]) {
    CAPTURE(row);
    ++rows[row["preemptive"].get<std::string>()];
    CHECK(row["latency_p99_s"] >= row["latency_mean_s"]);
    if (row["policy"] == "fcfs" || row["policy"] == "stjf") CHECK(row["promoted_per_100"] == 0);
    if (row.contains("gain_kept") && row["policy"] == "stjf") CHECK(row["gain_kept"].get<double>() == Approx(1));
  }
  CHECK(rows == std::map<std::string, int>{{"no", 3 * 9 * 9}, {"yes", 3 * 2 * (2 + 2 * 6)}});
}

TEST_CASE("the figures of two seeds are the means of each seed's figures") {
  if (ScaledDown()) return;
  const auto rows = [](const char* seeds, const char* first) {
    const Ended ended = RunTool({"scenario", "chimera", "--regime", "takt", "--minutes", "0.02", "--seeds", seeds,
                                 "--first-seed", first, "-q", "--json", "-"});
    REQUIRE(ended.exit_code == 0);
    return Json::parse(ended.out)["rows"];
  };
  const Json both = rows("2", "41"), one = rows("1", "41"), other = rows("1", "42");
  int differ = 0;
  for (std::size_t i = 0; i < both.size() && both[i].contains("ms_per_token"); ++i) {
    const double a = one[i]["ms_per_token"].get<double>(), b = other[i]["ms_per_token"].get<double>();
    CHECK(both[i]["ms_per_token"].get<double>() == Approx((a + b) / 2).epsilon(1e-4));  // six digits are written
    differ += a != b ? 1 : 0;
  }
  CHECK(differ > 100);
}

TEST_CASE("a small run of Chimera's frontier: a higher price of latency buys less latency") {
  const Ended ended = RunTool({"scenario", "chimera-frontier", "--regime", "takt", "--minutes", "0.05", "--seeds", "1",
                               "--no-wall", "-q", "--json", "-"});
  REQUIRE(ended.exit_code == 0);
  const Json rows = Json::parse(ended.out)["rows"];
  std::map<std::string, int> systems;
  std::map<std::string, double> any, dearest;  // ms per token of the assignment, by setting
  for (const Json& row : rows) {
    if (row["part"] == "frontier") {
      CHECK(row.contains("points_at_equal_mean_latency"));
      continue;
    }
    CHECK(row["rate_workflows"] == 16);
    ++systems[row["system"].get<std::string>()];
    if (row["system"] != "assigned beforehand") continue;
    CHECK(row["placement"] == "assigned");
    const std::string setting = row["dataset"].get<std::string>() + row["models"].get<std::string>();
    if (row["price"] == 0) any[setting] = row["ms_per_token"].get<double>();
    if (row["price"] == 1.6) dearest[setting] = row["ms_per_token"].get<double>();
  }
  CHECK(systems == std::map<std::string, int>{{"Chimera", 8 * 6},
                                              {"Chimera by gain", 8 * 6},
                                              {"Chimera by latency", 8 * 10},
                                              {"Chimera by latency, exact lengths", 8 * 10},
                                              {"assigned beforehand", 8 * 11},
                                              {"assigned beforehand, answers known", 8 * 3}});
  REQUIRE(any.size() == 8);
  for (const auto& [setting, latency] : any) {
    CAPTURE(setting);
    CHECK(dearest[setting] < latency);
  }
}

TEST_CASE("a small run of the Chimera scenario, with all its rows and claims") {
  const TempDir dir;
  const auto run = [&](const std::string& name, const std::string& threads) {
    return RunTool({"scenario", "chimera", "--seeds", "1", "--minutes", "0.02", "--no-wall", "-j", threads, "--json",
                    dir / (name + ".json"), "--html", dir / (name + ".html")});
  };
  const Ended ended = run("a", "2");
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"Capacity", "MATH, Qwen 1.5B + 3B + 14B", "one model alone", "key = output + w x prompt",
                           "time between two calls", "guard against starvation", "The paper's claims"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["scenario"] == "chimera");
  std::map<std::string, int> parts;
  for (const Json& row : json["rows"]) {
    CAPTURE(row);
    ++parts[row["part"].get<std::string>()];
    if (row["part"] == "prediction") {
      CHECK(row["tau_distance"].get<double>() < row["tau_distance_fcfs"].get<double>());
      continue;
    }
    if (row["part"] == "fit") {
      CHECK(row["vLLM at 8/s [ms per token], paper"] == 82.6);
      CHECK(row["off_by_pct"].get<double>() >= 0);
      continue;
    }
    if (row["part"] == "frontier") {
      CHECK(row["to_ms_per_token"].get<double>() > row["from_ms_per_token"].get<double>());
      CHECK(row["points_low"].is_null());  // of one seed
      continue;
    }
    CHECK(row["ms_per_token"].get<double>() > 0);
    CHECK(row["max_seqs"] == 22);
    CHECK(row["score_pct"].get<double>() >= 0);
    CHECK(row["score_pct"].get<double>() <= 100);
    const bool gap = row["gap_s"].get<double>() > 0;
    CHECK((row["between_stages_tokens"].get<double>() > 0) == gap);
  }
  const int rivals = 4, taus = 6, more_slacks = 9, sweeps = 2 * (5 + 5 + 3);
  const int serving = 2 * 5 * (4 * rivals + (3 * 4 + 2) * taus) + 2 * 3 * 4 * more_slacks;
  CHECK(parts["frontier"] > 2 * 4 * 4);  // at most 2 * 5 * 4: two frontiers may have no common latency
  parts.erase("frontier");
  CHECK(parts == std::map<std::string, int>{
                     {"serving", serving + sweeps}, {"queue", 2 * 4 * 3 * 5}, {"prediction", 12}, {"fit", 15}});
  CHECK(Sources(json) == std::map<std::string, int>{{"paper", 64}, {"fitted", 8}});
  for (const Json& claim : json["claims"]) {
    CAPTURE(claim);
    CHECK(claim["ours"].is_number());
    CHECK_FALSE(claim["reason"].get<std::string>().empty());
  }
  CHECK(Has(ReadWhole(dir / "a.html"), "<svg"));
  if (ScaledDown()) return;
  REQUIRE(run("b", "1").exit_code == 0);
  CHECK(ReadWhole(dir / "a.json") == ReadWhole(dir / "b.json"));
}

TEST_CASE("a small run of the LAMPS scenario, with all its rows and claims") {
  const TempDir dir;
  const std::string data = Requests(dir);
  const Ended ended = RunTool(Small(data, {"--json", dir / "a.json", "--html", dir / "a.html", "--no-wall"}));
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"Workload", "GPT-J 6B, multi-call", "Vicuna 13B, single-call", "Ablation", "Mispredictions",
                           "Starvation threshold", "Refresh interval", "The paper's claims", "no queue forms"}) {
    CAPTURE(part);
    CHECK(Has(ended.out, part));
  }

  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["scenario"] == "lamps");
  CHECK(json["seeds"] == 2);
  CHECK(json["partial"] == false);
  std::map<std::string, int> parts;
  for (const Json& row : json["rows"]) {
    ++parts[row["part"].get<std::string>()];
    if (row["part"] == "predictor" || row["part"] == "fit") continue;
    CAPTURE(row);
    CHECK(row["completed"] == row["requests"]);
    for (const char* key : {"latency_mean_s", "latency_p50_s", "latency_p99_s", "ttft_mean_s", "ttft_p99_s"}) {
      CHECK(row[key].get<double>() > 0);
    }
    CHECK(row["completed_in_time"] <= row["requests"]);
    for (const char* key : {"model", "calls", "system", "policy", "pause", "estimates"}) CHECK(row[key].is_string());
  }
  CHECK(parts == std::map<std::string, int>{{"rates", 2 * 5 * (10 + 15)},
                                            {"throughput", 2 * 4 * 3},
                                            {"ablation", 2 * 12},
                                            {"mispredictions", 3 * 6},
                                            {"starvation threshold", 6},
                                            {"refresh interval", 5},
                                            {"predictor", 1},
                                            {"fit", 22}});

  CHECK(Sources(json) == std::map<std::string, int>{{"paper", 93}});
  int lacking = 0;
  for (const Json& claim : json["claims"]) {
    CAPTURE(claim);
    CHECK(claim.size() == (claim.contains("interval_95") ? 10u : 9u));
    CHECK((claim["verdict"] == "holds") == claim["holds"].get<bool>());
    if (claim.contains("interval_95") && claim["verdict"] == "undecided") {
      const Json &low = claim["interval_95"][0], &high = claim["interval_95"][1];
      CHECK((low.is_null() || low.get<double>() <= (claim["unit"] == "x" ? 1 : 0)));
      CHECK((high.is_null() || high.get<double>() >= (claim["unit"] == "x" ? 1 : 0)));
    }
    CHECK(claim["name"].is_string());
    CHECK((claim["ours"].is_number() || claim["ours"].is_null()));
    CHECK((claim["paper_low"].is_number() || claim["paper_low"].is_null()));
    CHECK((claim["paper_high"].is_number() || claim["paper_high"].is_null()));
    CHECK(claim["unit"].is_string());
    CHECK(claim["holds"].is_boolean());
    CHECK_FALSE(claim["reason"].get<std::string>().empty());
    if (!claim["ours"].is_null()) continue;
    ++lacking;
    CHECK(claim["verdict"] == "undecided");
    CHECK((Has(claim["reason"], "ToolBench") || Has(claim["name"], "time of a prediction")));
  }
  CHECK(lacking > 20);

  const std::string html = ReadWhole(dir / "a.html");
  CHECK(Has(html, "<svg"));
  CHECK(Has(html, "predictor on ToolBench: Acc-5 in bin 10"));
  CHECK_FALSE(Has(html, "http"));

  if (ScaledDown()) return;
  const Ended again = RunTool(Small(data, {"--json", "-", "--no-wall", "-j", "1", "-q"}));
  CHECK(again.out == ReadWhole(dir / "a.json"));
}

TEST_CASE("a scenario is judged under the paper's regime, takt's, or with --full both") {
  const TempDir dir;
  const std::string data = Requests(dir);
  const auto run = [&](Args more) {
    Args args = {"scenario", "lamps", "--data", data, "--seeds", "2", "--minutes", "0.02", "--json", "-", "--no-wall"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = RunTool(args);
    CAPTURE(ended.err);
    REQUIRE(ended.exit_code == 0);
    return ended;
  };
  const Ended by_default = run({"-q"}), paper = run({"-q", "--regime", "paper"}),
              takt = run({"-q", "--regime", "takt"});
  CHECK(by_default.out == paper.out);
  const Json a = Json::parse(paper.out), b = Json::parse(takt.out);
  CHECK(a["regime"] == "paper");
  CHECK(b["regime"] == "takt");
  CHECK(Has(a["conditions"]["Engines"], "10 and 16 requests"));
  CHECK(Has(b["conditions"]["Engines"], "256 and 256 requests"));
  REQUIRE(a["claims"].size() == b["claims"].size());
  for (std::size_t i = 0; i < a["claims"].size(); ++i) CHECK(a["claims"][i]["name"] == b["claims"][i]["name"]);
  const Ended both = run({"--full", "--html", dir / "both.html"});
  const std::string html = ReadWhole(dir / "both.html");
  for (const char* part : {"The claims under both regimes", "(regime takt)", "The fit of sequences a step"}) {
    CAPTURE(part);
    CHECK(Has(html, part));
  }
  CHECK(Json::parse(both.out)["regime"] == "paper");

  const Ended unknown = RunTool(Small(data, {"--regime", "vllm"}));
  CHECK(unknown.exit_code == 2);
  CHECK(Has(unknown.err, "--regime"));
  CHECK(Has(unknown.err, "paper"));
  const Ended none = RunTool({"scenario", "aging", "--regime", "takt"});
  CHECK(none.exit_code == 2);
  CHECK(Has(none.err, "--regime: scenario 'aging' has only one regime"));
}

TEST_CASE("the data may be a file, a folder, or the folder that TAKT_DATA names") {
  const TempDir dir;
  const std::string file = Requests(dir, "mine.jsonl");
  CHECK(RunTool(Small(file, {"-q"})).exit_code == 0);
  const Ended none = RunTool(Small(dir / ".", {}));
  CHECK(none.exit_code == 1);
  CHECK(Has(none.err, "tools/infercept_multi_api.jsonl"));
  CHECK(Has(none.err, "--data"));
  CHECK(Has(RunTool(Small(dir / "absent", {})).err, "absent"));
  Requests(dir);
  CHECK(RunTool(Small(dir / ".", {"-q"})).exit_code == 0);
  setenv("TAKT_DATA", (dir / ".").c_str(), 1);
  const Ended named = RunTool({"scenario", "lamps", "--seeds", "2", "--minutes", "0.02", "-q"});
  unsetenv("TAKT_DATA");
  CAPTURE(named.err);
  CHECK(named.exit_code == 0);
}

TEST_CASE("invalid options are reported by name") {
  const TempDir dir;
  const std::string data = Requests(dir);
  const Ended list = RunTool({"scenario"});
  CHECK(list.exit_code == 0);
  CHECK(Has(list.out, "lamps"));
  const Ended unknown = RunTool({"scenario", "lamp"});
  CHECK(unknown.exit_code == 2);
  CHECK(Has(unknown.err, "unknown scenario 'lamp'"));
  CHECK(RunTool(Small(data, {"--json", "-", "--html", "-"})).exit_code == 2);
  CHECK(Has(RunTool(Small(data, {"--json", data})).err, "--data and --json"));
  CHECK(RunTool(Small(data, {"--minutes", "0"})).exit_code == 2);
  CHECK(RunTool(Small(data, {"--json", dir / "no/such.json"})).exit_code == 1);
  CHECK(RunTool(Small(data, {"--html", "/dev/full"})).exit_code == 1);
}

TEST_CASE("an interrupted scenario reports the completed runs") {
  const TempDir dir;
  const std::string data = Requests(dir);
  Tool tool({"scenario", "lamps", "--data", data, "--json", dir / "a.json"}, Tool::Where::kTerminal);
  tool.WaitFor("done");
  tool.Interrupt();
  const Ended ended = tool.Wait();
  CHECK(ended.exit_code == 130);
  CHECK(Has(ended.out, "Interrupted"));
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  CHECK(json["partial"] == true);
  CHECK(json["claims"].size() > 60);
}

}  // namespace
}  // namespace takt
