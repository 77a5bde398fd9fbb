// Tests takt-lab scenario default and default-sensitivity: requested parts exist, unreadable parts are left out and
// named, and equal runs give equal bytes.
#include <filesystem>
#include <map>
#include <set>
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

// A folder with a trace of conversations and requests that call tools; nothing else.
void Data(const TempDir& dir) {
  for (const char* folder : {"traces", "tools"}) std::filesystem::create_directories(dir / folder);
  std::string trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 200; ++i) {
    trace += fmt::format("2023-11-16 18:{:02}:{:02}.5000000,{},{}\n", i / 30, i % 30 * 2, 100 + i * 37 % 3000,
                         5 + i * 53 % 400);
  }
  dir.Write("traces/azure_llm_2023_conv.csv.gz", trace);
  std::string tools;
  for (int i = 0; i < 12; ++i) {
    tools += fmt::format(R"({{"prompt": {}, "segments": [{{"gen": {}, "api": "qa", "api_s": 0.4, "ret": 9}}, )"
                         R"({{"gen": 12}}]}})",
                         300 + 90 * i, 20 + 7 * i) +
             "\n";
  }
  dir.Write("tools/infercept_multi_api.jsonl", tools);
}

Args Small(const std::string& name, const std::string& data) {
  return {"scenario", name, "--data", data, "--seeds", "2", "--minutes", "0.02", "--no-wall"};
}

TEST_CASE("a small run of the default's scenario, with all its rows, claims and heat maps") {
  const TempDir dir;
  Data(dir);
  Args args = Small("default", dir / ".");
  args.insert(args.end(), {"--json", dir / "a.json", "--html", dir / "a.html"});
  const Ended ended = RunTool(args);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(Has(ended.out, "Left out"));
  CHECK(Has(ended.out, "text2sql/trace1.jsonl"));
  CHECK(Has(ended.out, "Claims for the default"));

  const std::string text = ReadWhole(dir / "a.json");
  const Json json = Json::parse(text);
  CHECK(json["seeds"] == 2);
  std::set<std::string> workloads, systems, estimates;
  std::map<std::string, int> loads;
  for (const Json& row : json["rows"]) {
    CAPTURE(row);
    workloads.insert(row["workload"]);
    systems.insert(row["system"]);
    estimates.insert(row["estimates"]);
    ++loads[fmt::format("{}", row["rho"].get<double>())];
    CHECK(row["latency_mean_s"].get<double>() > 0);
    CHECK(row["latency_p99_s"] >= row["latency_p95_s"]);
    CHECK(row["latency_max_s"] >= row["latency_p99_s"]);
    CHECK(row["slowdown_max"].get<double>() >= 0.99);
    CHECK(row["in_time_pct"].get<double>() <= 100);
  }
  for (const char* workload : {"agents", "tools", "conv", "mix"}) CHECK(workloads.count(workload) == 1);
  CHECK(workloads.count("text2sql 1") == 0);
  for (const char* system : {"default", "footprint", "footprint, hopeless last", "fcfs", "workflow_fcfs", "sjf", "stjf",
                             "urgency", "slack", "memory_integral", "agent_priority", "stage_depth", "ltr", "mlfq",
                             "autellix", "uniboost", "sagesched", "justitia"}) {
    CAPTURE(system);
    CHECK(systems.count(system) == 1);
  }
  CHECK(estimates ==
        std::set<std::string>{"oracle", "calibrated:0.7", "calibrated:1.2", "noise:1.2", "class-mean", "none"});
  CHECK(loads.size() == 4);

  int measured = 0, without_data = 0;
  for (const Json& claim : json["claims"]) {
    CAPTURE(claim);
    if (!claim["ours"].is_null()) {
      ++measured;
      CHECK(claim.contains("limit_95"));
      REQUIRE(claim.contains("interval_95"));
      const double low = claim["interval_95"][0], high = claim["interval_95"][1];
      if (!claim["paper_high"].is_null()) {
        const double most = claim["paper_high"];
        const bool neither = low <= std::min(most, 1.0) && high >= std::max(most, 1.0);
        CHECK(claim["verdict"] == (high <= most ? "holds" : neither ? "undecided" : "fails"));
      }
    } else {
      CHECK(claim["holds"] == false);
      without_data += claim["reason"] == "no data";
    }
  }
  CHECK(measured >= 15);
  CHECK(without_data >= 15);

  const std::string page = ReadWhole(dir / "a.html");
  for (const char* part : {"the default over each rival", "<svg", "rho 1.1", "fill-opacity"}) CHECK(Has(page, part));

  if (ScaledDown()) return;
  Args serial = Small("default", dir / ".");
  serial.insert(serial.end(), {"--threads", "1", "--json", "-"});
  CHECK(RunTool(serial).out == text);
}

TEST_CASE("other seeds give other figures") {
  const TempDir dir;
  const auto run = [&](const char* seed) {
    Args args = Small("default", dir / ".");
    args.insert(args.end(), {"--first-seed", seed, "--json", "-"});
    const Ended ended = RunTool(args);
    REQUIRE(ended.exit_code == 0);
    return Json::parse(ended.out)["rows"];
  };
  CHECK(run("1") != run("501"));
}

TEST_CASE("a small run of the default's sensitivity") {
  const TempDir dir;
  Data(dir);
  Args args = Small("default-sensitivity", dir / ".");
  args.insert(args.end(), {"--json", dir / "a.json"});
  const Ended ended = RunTool(args);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  std::set<std::string> placements, workloads, systems;
  for (const Json& row : json["rows"]) {
    placements.insert(row["placement"]);
    workloads.insert(row["workload"]);
    systems.insert(row["system"]);
    CHECK(row["others_mean_s"].get<double>() > 0);
  }
  for (const char* placement : {"none", "round_robin", "least_loaded", "workload_balance", "time_slot_packer"}) {
    CHECK(placements.count(placement) == 1);
  }
  for (const char* workload : {"agents", "mix", "greedy short", "greedy alike"}) CHECK(workloads.count(workload) == 1);
  CHECK(systems.count("fair_share") == 1);
  bool halved = false;
  for (const std::string& system : systems) halved = halved || Has(system, " x 0.5");
  CHECK(halved);
}

}  // namespace
}  // namespace takt
