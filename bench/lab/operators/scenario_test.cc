// Tests takt-lab scenario operators: a small run has all systems and claims, and equal runs give equal bytes.
#include <set>
#include <string>

#include "catch.h"
#include "scale.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"

namespace takt {
namespace {

using Json = nlohmann::json;

TEST_CASE("a small run of the scenario of operators") {
  const TempDir dir;
  Args args = {"scenario", "operators", "--data", dir / ".", "--seeds", "2", "--minutes", "1", "--no-wall", "--json"};
  Args again = args;
  args.push_back(dir / "a.json"), again.push_back(dir / "b.json");
  const Ended ended = RunTool(args);
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  REQUIRE(RunTool(again).exit_code == 0);
  CHECK(ReadWhole(dir / "a.json") == ReadWhole(dir / "b.json"));
  const Json json = Json::parse(ReadWhole(dir / "a.json"));
  std::set<std::string> parts;
  for (const Json& row : json["rows"]) parts.insert(row["part"]);
  CHECK(parts == std::set<std::string>{"classes", "flood", "quota", "burst", "share", "memory", "answers", "roles"});
  std::set<std::string> letters;
  for (const Json& claim : json["claims"]) letters.insert(claim["name"].get<std::string>().substr(0, 3));
  CHECK(letters == std::set<std::string>{"(a)", "(b)", "(c)", "(d)", "(e)", "(f)", "(g)"});
}

TEST_CASE("a small run of the rivals' tuning") {
  const TempDir dir;
  const Ended ended = RunTool(
      {"scenario", "operators-tuning", "--seeds", "1", "--minutes", "0.2", "--no-wall", "--json", dir / "a.json"});
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(Json::parse(ReadWhole(dir / "a.json"))["rows"].size() == 51);
}

}  // namespace
}  // namespace takt
