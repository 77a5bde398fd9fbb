// The program as its users run it.
#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "client.h"
#include "takt/record.h"
#include "takt/sim/calibrate.h"

namespace tiny {
namespace {

using nlohmann::json;
using takt::Args;
using takt::Ended;
using takt::RunTool;
using takt::TempDir;
using takt::Tool;

// Two hundred short requests in about a second.
Args Trace(Args more) {
  Args args = {"--trace",        "gen:multi_stage,workflows=40,rate=60,seed=3",
               "--length-scale", "0.02",
               "--model",        "1M",
               "--threads",      "1",
               "--max-context",  "512"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_CASE("a trace is played and reported as by takt replay") {
  const TempDir dir;
  const Ended run =
      RunTool(Trace({"--json", dir / "run.json", "--csv", dir / "run.csv", "--perfetto", dir / "run.perfetto", "--html",
                     dir / "run.html", "--policy", "fcfs", "--policy", "stjf", "--prefix-cache"}));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.out.find("Steps under stjf") != std::string::npos);
  CHECK(run.out.find("Plan + Commit") != std::string::npos);
  const json report = json::parse(takt::ReadWhole(dir / "run.json"));
  REQUIRE(report["runs"].size() == 2);
  for (const json& r : report["runs"]) {
    CHECK(r["completed"] == r["requests"]);
    CHECK(r["workflows_completed"] == 40);
    CHECK(r["stats"]["finished"] == r["requests"]);
    CHECK(r["metrics"]["e2e_s"]["mean"] > 0);
    CHECK(r["metrics"]["ttft_s"]["mean"] < r["metrics"]["e2e_s"]["mean"]);
    CHECK(r["metrics"]["queue_s"]["mean"] < r["metrics"]["ttft_s"]["mean"]);
    CHECK(r["metrics"]["kv_peak"] > 0);
    CHECK(r["measured"]["plan_commit_s"] < r["measured"]["computing_s"]);
    CHECK(r["measured"]["plan_commit_p50_s_at_most_requests"] > 0);
  }
  CHECK_FALSE(json::parse(takt::ReadWhole(dir / "run.perfetto"), nullptr, false).is_discarded());
  const std::string csv = takt::ReadWhole(dir / "run.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 2 * report["workload"]["requests"].get<int>());
  CHECK(takt::ReadWhole(dir / "run.html").starts_with("<!doctype html>"));
}

TEST_CASE("the duration of every step is logged, and the log replays") {
  for (const char* overlap : {"overlap=0", "overlap=1"}) {
    const TempDir dir;
    const Ended run =
        RunTool(Trace({"--steps", dir / "steps", "--log", dir / "log", "--json", dir / "run.json", "--option", overlap,
                       "--option", "preempt=by_rank", "--policy", "sjf", "--max-seqs", "6", "--closed-loop", "12"}));
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const json report = json::parse(takt::ReadWhole(dir / "run.json"))["runs"][0];
    std::istringstream steps(takt::ReadWhole(dir / "steps"));
    std::int64_t lines = 0, prefilled = 0, rows = 0;
    double end = 0, computing = 0;
    for (std::string line; std::getline(steps, line); ++lines) {
      const json step = json::parse(line);
      CHECK(step["begin_s"] >= end - 1e-9);
      end = step["begin_s"].get<double>() + step["time_s"].get<double>();
      computing += step["time_s"].get<double>();
      CHECK(step["plan_s"] > 0);
      for (const json& row : step["rows"]) {
        REQUIRE(row.size() == 4);
        CHECK((row[2] == 1 || row[0] == 1));  // a decode computes one token
        prefilled += row[2] == 1 ? row[0].get<std::int64_t>() : 0;
        ++rows;
      }
    }
    CHECK(lines == report["steps"]);
    CHECK(prefilled == report["stats"]["tokens_prefill"]);
    CHECK(rows <= report["stats"]["rows_scheduled"]);
    CHECK(std::abs(computing - report["measured"]["computing_s"].get<double>()) < 1e-6);
    const auto replay = takt::ReplayLog(takt::ReadWhole(dir / "log"));
    REQUIRE(replay.ok());
    CHECK(replay->difference == std::nullopt);
    CHECK(replay->stats.finished == report["requests"]);
  }
}

TEST_CASE("processor time skips idle waits, and its log calibrates") {
  const TempDir dir;
  // Forty requests over 400 s, each of a few milliseconds.
  const Args args = {"--trace",          "gen:poisson,requests=40,rate=0.1,prompt=constant:40,output=constant:20",
                     "--model",          "1M",
                     "--threads",        "1",
                     "--processor-time", "--steps",
                     dir / "steps",      "--json",
                     dir / "run.json"};
  const Ended run = RunTool(args);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const json report = json::parse(takt::ReadWhole(dir / "run.json"));
  CHECK(report["runs"][0]["completed"] == 40);
  CHECK(report["runs"][0]["metrics"]["makespan_s"] > 100);
  CHECK(report["engine"]["profile"].get<std::string>().ends_with("processor time"));
  const auto log = takt::ReadStepLog(dir / "steps");
  REQUIRE(log.ok());
  CHECK(log->steps.size() == report["runs"][0]["steps"]);
  CHECK(log->knows_samples);
  CHECK(takt::Calibrate(*log).ok());
  for (const char* more : {"--overlap", "--threads"}) {
    Args wrong = args;
    wrong.push_back(more);
    if (wrong.back() == "--threads") wrong.push_back("2");
    CHECK(RunTool(wrong).exit_code != 0);
  }
}

TEST_CASE("a model can be saved and loaded again") {
  const TempDir dir;
  CHECK(RunTool(Trace({"--limit", "3", "--save-weights", dir / "m"})).exit_code == 0);
  CHECK(RunTool(Trace({"--limit", "3", "--weights", dir / "m"})).exit_code == 0);
  dir.Write("m", "short");
  const Ended broken = RunTool(Trace({"--weights", dir / "m"}));
  CHECK(broken.exit_code == 1);
  CHECK(broken.err.find("too short") != std::string::npos);
}

TEST_CASE("a faulty command line is reported") {
  struct Case {
    Args args;
    const char* says;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "--trace"},
           {{"--policy", "fcfs"}, "--trace"},
           {{"--serve", "70000"}, "65535"},
           {{"--serve", "0", "--trace", "bundled"}, "exclude"},
           {{"--serve", "0", "--policy", "fcfs", "--policy", "sjf"}, "a single --policy"},
           {{"--serve", "0", "--policy", "luck"}, "luck"},
           {{"--serve", "0", "--model", "7B"}, "100M"},
           {{"--serve", "0", "--host", "192.0.2.1"}, "192.0.2.1"},
           {{"--trace", "bundled", "--policy", "fcfs", "--policy", "sjf", "--log", "x"}, "a single --policy"},
           {{"--trace", "bundled", "--option", "kv=none"}, "manages its KV itself"},
           {{"--trace", "bundled", "--option", "overlap=2"}, "expected 0 or 1 step ahead"},
           {{"--trace", "bundled", "--option", "colour=red"}, "colour"},
           {{"--trace", "bundled", "--steps", "-", "--json", "-"}, "expected at most one"},
           {{"--trace", "/nonexistent"}, "/nonexistent"},
           {{"--trace", "bundled", "--polcy", "fcfs"}, "--policy"},
       }) {
    const Ended run = RunTool(c.args);
    INFO(run.err);
    CHECK((run.exit_code == 1 || run.exit_code == 2));
    CHECK(run.err.find(c.says) != std::string::npos);
  }
}

TEST_CASE("an interrupt ends a trace and reports what has ended") {
  const TempDir dir;
  Tool tool({"--trace", "gen:poisson,requests=2000,rate=50,prompt=constant:20,output=constant:40", "--model", "1M",
             "--json", dir / "json", "--steps", dir / "steps", "--log", dir / "log"},
            Tool::Where::kTerminal);
  tool.WaitFor("serving under fcfs");
  tool.Interrupt();
  const Ended run = tool.Wait();
  CHECK(run.exit_code == 130);
  CHECK(run.out.find("Interrupted: ") != std::string::npos);
  const json report = json::parse(takt::ReadWhole(dir / "json"));
  CHECK(report["partial"] == true);
  CHECK(report["runs"][0]["pending"] > 0);
  const std::string steps = takt::ReadWhole(dir / "steps");
  CHECK((steps.empty() || steps.ends_with("]}\n")));
  CHECK(takt::ReplayLog(takt::ReadWhole(dir / "log")).ok());
}

int PortOf(Tool& tool) {
  tool.WaitFor(" at http://127.0.0.1:");
  tool.WaitFor("\n");
  const std::string& seen = tool.seen();
  return std::atoi(seen.c_str() + seen.find("127.0.0.1:") + 10);
}

TEST_CASE("a server asked to end while busy answers, and reports cut requests") {
  std::set<std::string> seeds;
  for (const bool time_enough : {true, false}) {
    const TempDir dir;
    Tool tool({"--serve", "0", "--model", "1M", "--max-context", "20000", "--max-seqs", "4", "--kv-blocks", "8000",
               "--drain", time_enough ? "600" : "0.2", "--log", dir / "log"},
              Tool::Where::kTerminal);
    const int port = PortOf(tool);
    const std::string body =
        json({{"prompt", "busy"}, {"max_tokens", time_enough ? 200 : 19'000}, {"ignore_eos", true}, {"stream", true}})
            .dump();
    std::array<Answer, 6> answers;
    std::vector<std::thread> clients;
    for (Answer& answer : answers) {
      clients.emplace_back([&] { answer = Post(port, "/v1/completions", body); });
    }
    while (Metric(port, "takt_arrived_total") < 6) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    tool.Terminate();
    const Ended run = tool.Wait();
    for (std::thread& client : clients) client.join();
    INFO(run.out);
    CHECK(run.exit_code == (time_enough ? 0 : 1));
    CHECK(run.out.find(time_enough ? "all requests have been answered" : "6 requests interrupted") !=
          std::string::npos);
    for (const Answer& answer : answers) {
      const Answer::Stream stream = answer.stream();
      CHECK(stream.done == time_enough);  // a cut answer is never taken for a whole one
      if (!time_enough) CHECK((answer.error("code") == "draining" || stream.last["error"]["code"] == "draining"));
    }
    const auto replay = takt::ReplayLog(takt::ReadWhole(dir / "log"));
    REQUIRE(replay.ok());
    CHECK(replay->difference == std::nullopt);
    REQUIRE(takt::DumpLog(takt::ReadWhole(dir / "log"), [&](std::string_view line) {
              const std::size_t at = line.find(" hash_seed=");
              if (at != line.npos) seeds.emplace(line.substr(at + 11, line.find(' ', at + 1) - at - 11));
            }).ok());
  }
  CHECK(seeds.size() == 2);  // drawn by each server
  CHECK_FALSE(seeds.contains("0"));
}

}  // namespace
}  // namespace tiny
