// takt cluster: a plan, the missing capacity if there is no plan, and faults of its input.
#include <string>

#include "catch.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"
#include "takt/planning/milp.h"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const char* const kCluster = R"({
  "quality": 80,
  "models": [{"name": "8b"}, {"name": "70b", "min_replicas": 2}],
  "classes": [{"name": "h100", "price": 2.5, "servers": [{"servers": 2, "gpus": 8}]},
              {"name": "l40s", "price": 1, "servers": [{"servers": 1, "gpus": 4}]}],
  "replicas": [{"model": "8b", "class": "h100", "rate": 10},
               {"name": "8b on l40s", "model": "8b", "class": "l40s", "rate": 3, "current": 1, "max_change": 2},
               {"name": "70b tp4", "model": "70b", "class": "h100", "tp": 4, "rate": 2}],
  "routings": [{"name": "strict", "rates": [30, 6], "quality": 90},
               {"name": "half", "rates": [30, 3], "quality": 85},
               {"name": "loose", "rates": [30, 0], "quality": 70}]})";

std::string With(const std::string& from, const std::string& to) {
  std::string text = kCluster;
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE("a cluster's plan") {
  const TempDir dir;
  const Ended ended =
      RunTool({"cluster", dir.Write("a.json", kCluster), "--json", dir / "plan.json", "--mps", dir / "a.mps"});
  CHECK(Has(ReadWhole(dir / "a.mps"), "ROWS\n N objective\n"));
  if (!MakeMilpSolver().ok()) {
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, "no solver of integer programs is built in"));
    return;
  }
  CAPTURE(ended.err);
  REQUIRE(ended.exit_code == 0);
  for (const char* part : {"70b tp4", "Routing  half; quality 85", "This plan is optimal."}) {
    CAPTURE(part, ended.out);
    CHECK(Has(ended.out, part));
  }
  const Json plan = Json::parse(ReadWhole(dir / "plan.json"));
  CHECK(plan["status"] == "optimal");
  CHECK(plan["cost_per_hour"] == plan["bound"]);
  // 30/s of 8b need three engines on h100 at 2.5, since three on l40s serve only 9/s. One of these may stop.
  CHECK(plan["cost_per_hour"] == 27.5);
  CHECK(plan["groups"].size() == 5);
  CHECK(plan["routings"][0]["name"] == "half");

  const Ended hostile = RunTool({"cluster", dir.Write("hostile.json", With(R"("half")", R"("half\nFAKE\u001b[8m")")),
                                 "--mps", dir / "hostile.mps"});
  CHECK((Has(hostile.out, "Routing  half\\nFAKE\\x1b[8m; quality 85") && !Has(hostile.out, "\nFAKE")));
  CHECK_FALSE(Has(ReadWhole(dir / "hostile.mps"), "FAKE"));

  const Ended mixed =
      RunTool({"cluster", dir.Write("b.json", With("\"quality\": 80", "\"quality\": 80, \"mixed\": true"))});
  CHECK(mixed.exit_code == 0);
  const Ended most =
      RunTool({"cluster", dir.Write("c.json", With("\"quality\": 80", "\"goal\": \"throughput\"")), "--patterns"});
  CHECK(most.exit_code == 0);
  CHECK(Has(most.out, "Sustains"));
}

TEST_CASE("impossible plans, missing solvers and invalid files are refused") {
  const TempDir dir;
  const auto fails = [&](const std::string& text, const std::string& message) {
    const Ended ended = RunTool({"cluster", dir.Write("a.json", text)});
    CAPTURE(text, ended.err, message);
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, message));
    CHECK(ended.out.empty());
  };
  if (MakeMilpSolver().ok()) {
    fails(With("\"quality\": 80", "\"quality\": 99"), "there is no plan\nquality: a floor 9 lower would do\n");
    fails(With("\"quality\": 80", "\"quality\": 80, \"budget\": 20"), "budget: 7.5 more per hour would do");
  }
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    if (info.built_in) continue;
    const Ended ended = RunTool({"cluster", dir.Write("a.json", kCluster), "--solver", std::string(info.name)});
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, "is not built in"));
    CHECK(Has(RunTool({"cluster", "--help"}).out, std::string(info.name) + " (not built in)"));
  }
  fails("[1]", "is invalid; expected a JSON object");
  fails("{", "is invalid; expected a JSON object");
  fails("{}", "models is invalid; expected a list");
  fails(With("\"8b\", \"class\"", "\"9b\", \"class\""), "replicas 1: model \"9b\" is unknown");
  fails(With("\"tp\": 4", "\"tp\": 0"), "replicas 3: tp 0 is invalid; expected a whole number of at least 1");
  fails(With("\"rate\": 10", "\"rates\": 10"), "replicas 1: rates is unknown");
  fails(With("\"gpus\": 8", "\"gpus\": \"8\""), "classes 1: servers 1: gpus");
  fails(With("\"price\": 2.5", "\"price\": -1"), "h100: the price must not be negative");
  fails(With("[30, 3]", "[30]"), "half: rates must have one entry per model");
  fails(With("\"quality\": 80", "\"goal\": \"speed\""), "goal is invalid; expected cost or throughput");
  CHECK(RunTool({"cluster", dir / "none.json"}).exit_code == 1);
  CHECK(RunTool({"cluster"}).exit_code == 2);
  CHECK(RunTool({"cluster", dir / "a.json", "--json", "-", "--mps", "-"}).exit_code == 2);
}

}  // namespace
}  // namespace takt
