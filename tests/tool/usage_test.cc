// First use of the tool: help, mistakes, and missing files.
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "takt/turns/gates/price.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "takt/record.h"
#include "takt/turns/gates/registry.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler.h"
#include "takt/sim/profiles.h"
#include "takt/version.h"
#include "with_rivals.h"

namespace takt {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("help and version go to standard output") {
  const Ended version = RunTool({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out.starts_with("takt " TAKT_VERSION "\n"));
  CHECK((Has(version.out, "gcc ") || Has(version.out, "clang ")));
  for (const Args& args : std::vector<Args>{{"--help"},
                                            {"replay", "--help"},
                                            {"workload", "-h"},
                                            {"generate", "--help"},
                                            {"replay-log", "--help"},
                                            {"calibrate", "--help"},
                                            {"train", "--help"},
                                            {"predict", "--help"},
                                            {"compare", "--help"},
                                            {"policies", "--help"},
                                            {"profiles", "--help"},
                                            {"doctor", "--help"},
                                            {"completion", "--help"}}) {
    const Ended help = RunTool(args);
    CAPTURE(args);
    CHECK(help.exit_code == 0);
    CHECK(Has(help.out, "Usage: takt"));
    CHECK(help.err.empty());
  }
  const Ended nothing = RunTool({});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.out.empty());
  CHECK(Has(nothing.err, "takt replay"));
}

TEST_CASE("a shell asks for the words of a command line") {
  const auto words = [](Args line) {
    line.insert(line.begin(), "complete-words");
    const Ended told = RunTool(line);
    CHECK((told.exit_code == 0 && told.err.empty()));
    return told.out;
  };
  CHECK(words({"rep"}) == "replay\nreplay-log\n");
  CHECK(words({"replay", "--ret"}) == "--retention\n");
  CHECK(words({"replay", "--policy", "room"}) == "room_to_pass\n");
  CHECK(words({"replay", "--placement", "rou"}) == "round_robin\n");
  CHECK(words({"workload", "tr"}).empty());  // a file
  CHECK(words({"plan", "--no-such"}).empty());
  CHECK(Has(words({"plan", "--"}), "--help\n"));  // asks takt-plan
  CHECK(Has(words({""}), "doctor\n"));
}

TEST_CASE("a shell loads the script of completion") {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Ended script = RunTool({"completion", shell});
    CHECK((script.exit_code == 0 && Has(script.out, "takt complete-words")));
  }
  const Ended other = RunTool({"completion", "tcsh"});
  CHECK((other.exit_code == 2 && Has(other.err, "tcsh")));
}

TEST_CASE("the doctor names what is there") {
  const Ended told = RunTool({"doctor"});
  CAPTURE(told.out);
  CHECK(Has(told.out, "takt " TAKT_VERSION));
  CHECK(Has(told.out, "200 requests replayed twice, equal times"));
  CHECK(Has(told.out, "ok    takt-plan"));
  CHECK((told.exit_code == 0) == !Has(told.out, "FAULT"));
}

TEST_CASE("wrong usage exits with 2 and names fault and choices") {
  struct Case {
    Args args;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{"repaly"}, {"repaly", "did you mean replay"}},
      {{"replay", "--polcy", "sjf"}, {"--polcy", "did you mean --policy"}},
      {{"replay", "extra"}, {"extra"}},
      {{"replay", "--policy"}, {"--policy"}},
      {{"replay", "--policy", "best"}, {"best", "fcfs", "stjf"}},
      {{"replay", "--policy", "aged(stjf"}, {"aged(stjf"}},
      {{"replay", "--policy", "sjf(speed=1)"}, {"speed", "unknown"}},
      {{"replay", "--estimates", "noise:x"}, {"--estimates", "noise:x", "calibrated:SIGMA"}},
      {{"replay", "--estimates", "guess"}, {"guess", "oracle"}},
      {{"replay", "--profile", "aic/llama-3.1-8b/h100"}, {"is unknown", "aic/llama-3.1-8b/h100/bf16/tp1"}},
      {{"replay", "--placement", "nearest"}, {"nearest", "round_robin"}},
      {{"replay", "--instances", "0"}, {"--instances", "'0'"}},
      {{"replay", "--instances", "2.5"}, {"--instances", "'2.5'"}},
      {{"replay", "--token-budget", "-1"}, {"--token-budget", "'-1'"}},
      {{"replay", "--seed", "-1"}, {"--seed", "'-1'"}},
      {{"replay", "--seed", "12345678901234567890123"}, {"--seed"}},
      {{"replay", "--draw", "0"}, {"--draw", "'0'"}},
      {{"replay", "--rate-scale", "0"}, {"--rate-scale", "'0'"}},
      {{"replay", "--load", "nan"}, {"--load", "'nan'"}},
      {{"replay", "--load", "inf"}, {"--load", "'inf'"}},
      {{"replay", "--sweep", "0.5,-1"}, {"--sweep", "'-1'"}},
      {{"replay", "--load", "1", "--rate-scale", "2"}, {"--load", "--rate-scale"}},
      {{"replay", "--closed-loop", "4", "--sweep", "1,2"}, {"--closed-loop", "--sweep"}},
      {{"replay", "--slo-ttft", "1s"}, {"--slo-ttft", "'1s'"}},
      {{"replay", "--option", "speed=1"}, {"speed", "preempt"}},
      {{"replay", "--option", "preempt=often"}, {"preempt", "often", "by_rank"}},
      {{"replay", "--option", "preempt_action=keep"}, {"preempt_action", "keep", "drop, out"}},
      {{"replay", "--option", "kv_watermark=1"}, {"kv_watermark", "'1'", "a number in [0, 1)"}},
      {{"replay", "--option", "max_running=8"}, {"max_running", "max_waiting"}},
      {{"replay", "--option", "kv=oracle"}, {"--option kv: 'oracle'", "none, ledger"}},
      {{"replay", "--option", "kv=foo"}, {"--option kv: 'foo' must be one of none, ledger\n"}},
      {{"replay", "--option", "kv_block_tokens=16.5"}, {"'16.5' must be a whole number from 1 to 1048576"}},
      {{"replay", "--option", "cpu_blocks=1.5"}, {"'1.5' must be a whole number of at least 0"}},
      {{"replay", "--option", "admission_window=3000000000"}, {"must be a whole number from 1 to 2147483647"}},
      {{"replay", "--option", "max_waiting=99999999999999999999"},
       {"must be a whole number from 0 to 9223372036854775807, or forever"}},
      {{"replay", "--option", "preempt_margin=wide"}, {"'wide' must be a number of at least 0"}},
      {{"replay", "--option", "preempt_margin=1e400"}, {"must be a number of at least 0 that a double can hold"}},
      {{"replay", "--option", "overlap=3"}, {"overlap", "3"}},
      {{"replay", "--option", "overlap"}, {"overlap"}},
      {{"replay", "--format", "xml"}, {"xml", "mooncake"}},
      {{"replay", "--json", "-", "--csv", "-"}, {"standard output"}},
      {{"replay", "-j", "0"}, {"'0'"}},
      {{"replay", "--workload", "gen:multi_stage,workflows=1", "--load", "1"}, {"--load"}},
      {{"replay", "--profile", "aic/llama-3.1-70b/h100/bf16/tp1"}, {"kv_tokens"}},
      {{"replay", "--kv-tokens", "10"}, {"kv_tokens", "10", "one block"}},
      {{"replay", "--max-seqs", "2000000"}, {"--max-seqs", "2000000", "1 to 1048576"}},
      {{"generate"}, {"spec"}},
      {{"generate", "gen:storm"}, {"storm", "poisson"}},
      {{"generate", "gen:poisson,rate=fast"}, {"rate", "fast"}},
      {{"replay-log"}, {"file"}},
  };
  for (const Case& c : cases) {
    const Ended ended = RunTool(c.args);
    CAPTURE(c.args, ended.err);
    CHECK(ended.exit_code == 2);
    CHECK(ended.out.empty());
    for (const std::string& said : c.said) CHECK(Has(ended.err, said));
  }
}

TEST_CASE("unreadable and unwritable files exit with 1 and are named") {
  const TempDir dir;
  const std::string bad = dir.Write("bad.csv",
                                    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,10,5\n"
                                    "2023-11-16 18:00:01,12x,5\n");
  const std::string empty = dir.Write("empty", "");
  struct Case {
    Args args;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{"replay", "--workload", dir / "none.csv"}, {"none.csv", "No such file"}},
      {{"replay", "--workload", bad}, {"bad.csv:3", "ContextTokens", "12x"}},
      {{"replay", "--workload", empty}, {"empty"}},
      {{"workload", bad}, {"bad.csv:3", "12x"}},
      {Replay({"--json", dir / "no/such/folder.json"}), {"no/such/folder.json", "No such file"}},
      {Replay({"--html", "/dev/full"}), {"/dev/full", "No space left"}},
      {{"replay-log", dir / "none"}, {"none", "No such file"}},
      {{"replay-log", bad}, {"bad.csv", "takt log"}},
      {{"replay-log", bad, "--dump"}, {"bad.csv", "takt log"}},
      {{"workload", "bundled", "--output", "/dev/full"}, {"/dev/full"}},
      {{"generate", "gen:poisson,requests=9", "--output", dir / "no/such.jsonl"}, {"no/such.jsonl"}},
  };
  for (const Case& c : cases) {
    const Ended ended = RunTool(c.args);
    CAPTURE(c.args, ended.err);
    CHECK(ended.exit_code == 1);
    CHECK_FALSE(ended.err.empty());
    for (const std::string& said : c.said) CHECK(Has(ended.err, said));
  }
  for (const Args& args : std::vector<Args>{Replay({}), {"policies"}, {"profiles"}, {"workload"}}) {
    CAPTURE(args);
    CHECK(Tool(args, Tool::Where::kFiles, "/dev/full").Wait().exit_code == 1);
  }

  const Ended skipped = RunTool({"workload", bad, "--skip-bad-lines"});
  CHECK(skipped.exit_code == 0);
  CHECK(Has(skipped.err, "1 bad line skipped"));
  CHECK(Has(skipped.out, "1 request"));
}

TEST_CASE("policies and profiles are listed") {
  const std::string policies = RunTool({"policies"}).out;
  for (const auto& infos : {PolicyInfos(), PlacementInfos(), RetentionInfos(), GateInfos(), PauseInfos()}) {
    for (const RegistryInfo& policy : infos) {
      CHECK(Has(policies, "\n  " + policy.name + " "));
      for (const RegistryInfo::Option& option : policy.options) CHECK(Has(policies, "    " + option.name + " "));
    }
  }
  const std::string profiles = RunTool({"profiles"}).out;
  for (const Profile& profile : BuiltInProfiles()) CHECK(Has(profiles, profile.id + " "));

  // The 70B on two GPUs is measured; on four it was served, on eight measured and served.
  const std::string derived = RunTool({"profiles", "--derived"}).out;
  for (const auto& [id, error] :
       {std::pair{"e2e/llama-3.1-70b/h100/fp8/vllm/tp4", " -0.8 "}, {"aic/llama-3.1-70b/h100/fp8/tp8", " -3.0 "}}) {
    const std::size_t at = derived.find(id);
    REQUIRE(at != std::string::npos);
    CHECK(Has(derived.substr(at, derived.find('\n', at) - at), error));
  }
  CHECK(Has(derived, " +5.2"));  // and the measured kernels of eight are slower
}

TEST_CASE("a workload is described and written for reading back") {
  const TempDir dir;
  const Ended described = RunTool({"workload", "--output", dir / "bundled.jsonl.gz"});
  CHECK(described.exit_code == 0);
  for (const char* part : {"1,200 workflows", "planner", "output tokens of a workflow", "Poisson"}) {
    CHECK(Has(described.out, part));
  }
  const Ended again = RunTool({"workload", dir / "bundled.jsonl.gz", "--output", "-"});
  CHECK(again.out == RunTool({"workload", "bundled", "--output", "-"}).out);

  const Ended generated = RunTool({"generate", "gen:poisson,requests=5,rate=2"});
  CHECK(generated.exit_code == 0);
  const std::string path = dir.Write("five.jsonl", generated.out);
  CHECK(Has(RunTool({"workload", path}).out, "5 requests"));
  CHECK(Has(RunTool({"workload", path, "--draw", "300"}).out, "300 requests"));
}

TEST_CASE("requests with tool calls are read by their first line, and drawn") {
  const TempDir dir;
  const std::string path = dir.Write(
      "calls.jsonl", "{\"prompt\":9,\"segments\":[{\"gen\":4,\"api\":\"search\",\"api_s\":0.5,\"ret\":7}]}\n");
  const Ended read = RunTool({"workload", path});
  CHECK(read.exit_code == 0);
  CHECK(Has(read.err, "has no arrival times"));
  CHECK(Has(read.err, "1 length of 0 tokens"));
  CHECK(RunTool({"workload", path, "--format", "infercept"}).out == read.out);
  CHECK(Has(RunTool({"workload", path, "--draw", "50"}).out, "50 requests"));
}

// Three requests through a recorded scheduler.
std::string SomeLog() {
  Recorder recorder;
  auto scheduler = Recorded<BasicScheduler<Sjf>>::Create(recorder, {.kv_blocks = {100}}, Sjf{});
  REQUIRE(scheduler.ok());
  TimePoint now{};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    scheduler->On(Arrived{Request{.id = {id}, .prompt_tokens = {100}}}, now);
  }
  for (int step = 0; step < 4; ++step) {
    const StepPlan& plan = scheduler->Plan(now, {});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      rows.push_back({e.request, e.lane, std::uint16_t{1}, 0, static_cast<std::uint8_t>(step == 2 ? 1 : 0)});
    }
    now += std::chrono::milliseconds(10);
    if (!rows.empty()) scheduler->Commit({plan.id, rows}, now);
  }
  return std::string(recorder.bytes());
}

TEST_CASE("a log replays, even if it was cut off") {
  const TempDir dir;
  const std::string log = SomeLog();
  const Ended whole = RunTool({"replay-log", dir.Write("log", log)});
  CAPTURE(whole.out, whole.err);
  CHECK(whole.exit_code == 0);
  CHECK(Has(whole.out, "3 events, 4 plans, 3 commits"));
  CHECK(Has(whole.out, "the same plans as the log: 4 plans"));
  CHECK(Has(whole.out, "requests accepted"));

  const Ended cut = RunTool({"replay-log", dir.Write("cut", log.substr(0, log.size() - 5))});
  CAPTURE(cut.out, cut.err);
  CHECK(cut.exit_code == 0);
  CHECK(Has(cut.out, "ends in the middle of a record"));

  const Ended dump = RunTool({"replay-log", "--dump", dir / "log"});
  CHECK(dump.exit_code == 0);
  CHECK(Has(dump.out, "\n"));
  CHECK(Has(whole.out, "No faults found."));
}

TEST_CASE("a log shows the KV held between turns, and the gate") {
  const TempDir dir;
  const auto said = [&](const AnyGate& gate, Args args) {
    Recorder recorder;
    auto scheduler = Recorded<Scheduler>::Create(recorder, {.kv_blocks = {100}, .prefix_cache = true}, Fcfs{});
    REQUIRE(scheduler->SetRetention(HoldValue{.alpha_ms = 0.25}, gate).ok());
    scheduler->On(TurnEnded{.workflow = {7}, .why = TurnWhy::kUser}, {});
    args.push_back(dir.Write("held", std::string(recorder.bytes())));
    return RunTool(args).out;
  };
  CHECK(Has(said(Price{.share = 0.5}, {"replay-log"}),
            "Policy for KV between turns: hold_value(alpha_ms=0.25), with the gate "
            "price(share=0.5).\n"));
  CHECK(Has(said({}, {"replay-log"}), "hold_value(alpha_ms=0.25), without a gate.\n"));
  const std::string dump = said({}, {"replay-log", "--dump"});
  CHECK(Has(dump, "retention_set retention=hold_value(alpha_ms=0.25) gate=none\n"));
  CHECK(Has(dump, "turn_ended workflow=7 why=user\n"));
  const Ended none = RunTool({"replay-log", dir.Write("log", SomeLog())});
  CHECK(none.exit_code == 0);
  CHECK_FALSE(Has(none.out, "between their turns"));
}

TEST_CASE("a log shows the invalid input of its host") {
  const TempDir dir;
  Recorder recorder;
  auto scheduler = Recorded<Scheduler>::Create(recorder, {.kv_blocks = {100}}, Fcfs{});
  TimePoint now{};
  for (std::uint64_t id = 1; id <= 2; ++id) {
    scheduler->On(Arrived{Request{.id = {id}, .prompt_tokens = {100}}}, now);
  }
  for (int step = 1; step <= 4; ++step) {
    now += std::chrono::milliseconds(10);
    const StepPlan& plan = scheduler->Plan(now, {});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, 0});
    if (step == 3) std::swap(rows[0].lane, rows[1].lane);
    scheduler->Commit({plan.id, rows}, now);
  }
  const std::string file = dir.Write("swapped", std::string(recorder.bytes()));
  const Ended brief = RunTool({"replay-log", file});
  CHECK(brief.exit_code == 0);
  CHECK(Has(brief.out, "2 invalid values; list them with --anomalies"));
  const Ended full = RunTool({"replay-log", "--anomalies", file});
  CHECK(full.exit_code == 0);
  CHECK(Has(full.out, "0.030 s, step 3, request 1, lane 1: unknown_row, received 1, expected 0"));
  CHECK(Has(full.out, "0.030 s, step 3, request 2, lane 0: unknown_row, received 0, expected 1"));
}

TEST_CASE("without takt-plan, the commands that run it explain how to build it") {
  const TempDir dir;
  const std::string tool = dir / "takt";
  std::filesystem::copy_file(TAKT_TOOL_PATH, tool);
  for (const char* command : {"plan", "recommend", "tune", "cluster"}) {
    CAPTURE(command);
    const std::string line = "PATH=/nowhere " + tool + " " + command + " --help 2>" + (dir / "err");
    CHECK(WEXITSTATUS(std::system(line.c_str())) == 1);
    const std::string said = ReadWhole(dir / "err");
    CHECK(Has(said, std::string("takt ") + command + ": takt-plan is missing"));
    CHECK(Has(said, "--target takt_cli takt_plan"));
  }
  CHECK(Has(RunTool({"plan", "--help"}).out, "Usage: takt plan"));
}

}  // namespace
}  // namespace takt
