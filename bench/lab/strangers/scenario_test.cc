// Tests takt-lab scenario strangers: requested parts exist, unreadable parts are left out and named, each claim has a
// verdict, and equal runs give equal bytes.
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

TEST_CASE("a small run of the scenario of strangers, with all its rows, claims and maps") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "traces");
  std::string trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 200; ++i) {
    trace += fmt::format("2023-11-16 18:{:02}:{:02}.5000000,{},{}\n", i / 30, i % 30 * 2, 100 + i * 37 % 3000,
                         5 + i * 53 % 400);
  }
  dir.Write("traces/azure_llm_2023_conv.csv.gz", trace);
  dir.Write("traces/servegen_clients.csv.gz",
            "model,client,windows,mean_rps,max_rps,cv,mean_in,mean_out\n"
            "deepseek-r1,0,2,0.1,0.2,1.0,268.0,400.0\ndeepseek-r1,1,2,0.2,0.4,3.0,,\nm-large,2,2,1,1,1,1,1\n"
            "deepseek-r1,3,2,0.1,0.2,6.0,2000.0,40.0\n");
  dir.Write("traces/servegen_deepseek-r1_windows.csv.gz",
            "client,t,rate,cv,pat,a,b\n0,600,0.1,1.0,Gamma,1,10\n3,600,0.2,6.0,Gamma,0.03,180\n1,600,9,1,Gamma,1,1\n"
            "0,1200,0.3,2.0,Weibull,1,1\n");
  Args args = {"scenario", "strangers", "--data", dir / ".", "--seeds", "2", "--minutes", "0.06", "--no-wall"};
  Args files = args;
  files.insert(files.end(), {"--json", dir / "a.json", "--html", dir / "a.html"});
  const Ended ended = RunTool(files);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(Has(ended.out, "Left out"));
  CHECK(Has(ended.out, "traces/azure_llm_2023_code.csv.gz"));
  const std::string text = ReadWhole(dir / "a.json");
  const Json json = Json::parse(text);
  std::set<std::string> workloads, systems, halves;
  int lies = 0;
  for (const Json& row : json["rows"]) {
    CAPTURE(row);
    workloads.insert(row["workload"]);
    systems.insert(row["system"]);
    halves.insert(row["half"]);
    CHECK(row["latency_mean_s"].get<double>() > 0);
    CHECK(row["latency_p99_s"] >= row["latency_p95_s"]);
    // Workflows opened early have another order than the workflows measured alone.
    const bool early = row["workload"] == "one of ten opens workflows ten minutes early";
    if (!early) CHECK(row["slowdown_max"].get<double>() >= 0.99);
    if (row["part"] != "lies") continue;
    ++lies;
    CHECK(row["liar_p95_s"].get<double>() > 0);
    CHECK(row["polite_p95_s"].get<double>() > 0);
  }
  for (const char* workload : {"conversations", "many clients", "prompts, sigma 2", "agents", "4 instances"}) {
    CAPTURE(workload);
    CHECK(workloads.count(workload) == 1);
  }
  CHECK(workloads.count("sharegpt") == 0);
  CHECK(halves == std::set<std::string>{"found", "judged"});
  for (const char* system : {"default", "tail factor 1.1", "tail factor 1.2", "tail factor 1.4", "footprint", "fcfs",
                             "workflow_fcfs", "uniboost"}) {
    CAPTURE(system);
    CHECK(systems.count(system) == 1);
  }
  CHECK(lies == 11);  // four ways to cheat and honesty, with exact predictions too, which fcfs does not use
  std::map<std::string, int> verdicts;
  for (const Json& claim : json["claims"]) {
    CAPTURE(claim);
    ++verdicts[claim["verdict"]];
    CHECK((claim["verdict"] == "holds") == claim["holds"].get<bool>());
    CHECK(claim["ours"].is_null() == (claim["reason"] == "no data"));
  }
  CHECK(verdicts.size() >= 2);
  CHECK(Has(ReadWhole(dir / "a.html"), "the default over each rival, no estimates"));

  if (ScaledDown()) return;
  args.insert(args.end(), {"--threads", "1", "--json", "-"});
  CHECK(RunTool(args).out == text);
}

TEST_CASE("the requested width determines the number of seeds, up to a bound") {
  const auto seeds = [](const char* width) {
    const TempDir dir;
    const Ended ended = RunTool({"scenario", "strangers", "--data", dir / ".", "--seeds", "2", "--width", width,
                                 "--minutes", "0.06", "--no-wall", "-q", "--json", "-"});
    CAPTURE(ended.err);
    REQUIRE(ended.exit_code == 0);
    const Json json = Json::parse(ended.out);
    CHECK(json["conditions"].contains("Seeds"));
    return json["seeds"].get<int>();
  };
  CHECK(seeds("1000") == 2);
  CHECK(seeds("0.5") > 2);
}

}  // namespace
}  // namespace takt
