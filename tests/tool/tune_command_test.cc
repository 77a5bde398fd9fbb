// takt tune: it gives the requested output, equal runs give equal bytes, and faults name the option.
#include <algorithm>
#include <string>

#include "catch.h"
#include "tool/queries.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("takt tune chooses an alpha and gives the reason") {
  const TempDir dir;
  const std::string queries = Queries(dir, "trace1");
  const Args args = {"tune",
                     "--workload",
                     queries,
                     "--engine",
                     "aic/llama-3.1-70b/a100/bf16/tp4",
                     "--engine",
                     "derived/llama-3.1-70b/a6000/bf16/tp4",
                     "--alphas",
                     "0,0.5,1",
                     "--seeds",
                     "3",
                     "--budget",
                     "share",
                     "--policy",
                     "urgency",
                     "--slo-scale",
                     "5",
                     "--json",
                     "-"};
  const Ended ended = RunTool(args);
  INFO(ended.err);
  REQUIRE(ended.exit_code == 0);
  const Json json = Json::parse(ended.out);
  REQUIRE(json["alphas"].size() == 3);
  CHECK(json["engines"].size() == 2);
  CHECK(json["workload"]["workflows"] == 12);
  CHECK(!json["why"].get<std::string>().empty());
  CHECK(std::ranges::any_of(json["alphas"], [&](const Json& a) { return a["alpha"] == json["alpha"]; }));
  CHECK(Has(ended.err, "Use alpha"));
  CHECK(RunTool(args).out == ended.out);
}

TEST_CASE("takt tune names the option at fault") {
  const TempDir dir;
  const std::string queries = Queries(dir, "trace1");
  const auto fails = [&](Args more, int code, const std::string& told) {
    Args args = {"tune", "--workload", queries, "--engine", "aic/llama-3.1-70b/a100/bf16/tp4"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = RunTool(args);
    INFO(ended.err);
    CHECK(ended.exit_code == code);
    CHECK(Has(ended.err, told));
  };
  fails({"--engine", "nothing"}, 1, "--engine: ");
  fails({"--placement", "round_robin"}, 2, "placement is round_robin");
  fails({"--placement", "workload_balance(x=1)"}, 2, "--placement: ");
  fails({"--policy", "best"}, 2, "--policy: ");
  fails({"--estimates", "guess"}, 2, "--estimates: ");
  fails({"--alphas", "0.5,0.2"}, 2, "alphas is 0.2");
  fails({"--alphas", "2"}, 2, "--alphas");
  fails({"--seeds", "0"}, 2, "--seeds");
  fails({"--budget", "half"}, 2, "--budget");
  fails({"--profiles", dir / "none.json"}, 1, "--profiles: ");
  CHECK(Has(RunTool({"tune", "--workload", dir / "none.jsonl", "--engine", "aic/llama-3.1-70b/a100/bf16/tp4"}).err,
            "--workload: "));
}

}  // namespace
}  // namespace takt
