// Tests takt-lab scenario hexgen-flow: requested parts exist, equal runs give equal bytes, and faults name the option.
#include <algorithm>
#include <set>
#include <string>

#include "catch.h"
#include "scale.h"
#include "tool/queries.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a small run of the HexGen-Flow scenario, with all its rows and claims") {
  const TempDir dir;
  Queries(dir, "trace1");
  Queries(dir, "trace2");
  const Args args = {"scenario", "hexgen-flow", "--data", dir / ".", "--seeds", "2",           "--minutes",
                     "0.01",     "--no-wall",   "--json", "-",       "--html",  dir / "p.html"};
  const Ended first = RunTool(args);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const Json json = Json::parse(first.out);
  std::set<std::string> parts, systems;
  for (const Json& row : json["rows"]) {
    parts.insert(row["part"]);
    systems.insert(row["system"]);
    CHECK(row["p95_s"].get<double>() > 0);
    CHECK(row["seeds"] == 2);
    CHECK(row.contains("scale_95_middle"));
    CHECK(row.contains("throughput_qps_sd"));
  }
  CHECK(parts == std::set<std::string>{"systems", "alpha", "orders", "placements", "knowledge", "deadlines",
                                       "two users", "changing load"});
  for (const char* system : {"vLLM", "RR, by workflow", "VTC", "QLM", "RR+PQ", "WB+FCFS", "HexGen-Flow", "tuner"}) {
    CHECK(systems.count(system) == 1);
  }
  std::size_t without_data = 0;
  for (const Json& claim : json["claims"]) {
    if (Has(claim["reason"], "no data")) ++without_data;
    CHECK((!Has(claim["reason"], "no data") || claim["holds"] == false));
  }
  CHECK(without_data == 1);  // Trace 4
  const std::string page = ReadWhole(dir / "p.html");
  for (const char* part : {"SLO scale", "The tuner under a changing load", "Shares of stages and instances", "<svg"}) {
    CHECK(Has(page, part));
  }
  if (ScaledDown()) return;
  Args serial = args;
  serial.insert(serial.end(), {"--threads", "1"});
  CHECK(RunTool(serial).out == first.out);
}

TEST_CASE("the scenario names the missing file") {
  const TempDir dir;
  const Ended ended = RunTool({"scenario", "hexgen-flow", "--data", dir / "."});
  CHECK(ended.exit_code == 1);
  CHECK(Has(ended.err, "trace1.jsonl"));
}

}  // namespace
}  // namespace takt
