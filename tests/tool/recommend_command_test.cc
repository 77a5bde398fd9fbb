// takt recommend: it chooses as an exhaustive search does, its command repeats the run, and faults name the option.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "with_rivals.h"
#include "nlohmann/json.hpp"
#include "takt/policy/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Small engines with 1 and 2 GPUs, whose KV holds a few prompts.
const char* const kOwnProfiles = R"({"profiles": [
 {"id": "own/m/g/bf16/tp1", "model": "m", "gpu": "g", "dtype": "bf16", "tp": 1, "layers": 32, "hidden": 4096,
  "lin": [0, 0.174, 0.000594, 2.2], "ap": [0.0104, 1.8e-5, 2.55e-8], "ad": [0.011, 8.8e-5, 1.27e-6],
  "head": [0, 0.407, 0.0013, 3.78], "allreduce": null, "kv_bytes_per_token": 131072, "kv_heads": 8,
  "kv_capacity_tokens": {"pp1": 9000}},
 {"id": "own/m/g/bf16/tp2", "model": "m", "gpu": "g", "dtype": "bf16", "tp": 2, "layers": 32, "hidden": 4096,
  "lin": [0, 0.1, 0.0003, 2.2], "ap": [0.0104, 1.8e-5, 1.3e-8], "ad": [0.011, 5e-5, 7e-7],
  "head": [0, 0.3, 0.0013, 3.78], "allreduce": "allreduce/g/tp2", "kv_bytes_per_token": 131072, "kv_heads": 8,
  "kv_capacity_tokens": {"pp1": 18000}}],
 "net": {"allreduce/g/tp2": {"bytes": [8192, 1048576], "ms": [0.0044, 0.0125]}}, "gpus": {"g": {"mem_gib": 79.11}}})";

// Conversations: call i of a workflow has the prompt of call i - 1 as its prefix.
std::string Conversations(int workflows, double gap) {
  std::string text = R"({"takt_workload": 1, "name": "talks", "prefix_block_tokens": 256})";
  text += "\n";
  for (int w = 0; w < workflows; ++w) {
    Json calls = Json::array();
    std::vector<std::uint64_t> prefix;
    for (int turn = 0; turn < 4; ++turn) {
      for (int block = 0; block < 3; ++block) prefix.push_back(static_cast<std::uint64_t>(100 * w + 10 * turn + block));
      Json call = {{"prompt", 800 * (turn + 1)}, {"output", 20 + 3 * (w % 5)}, {"prefix", prefix}, {"delay_s", 0.5}};
      if (turn > 0) call["after"] = {turn - 1};
      calls.push_back(call);
    }
    text += Json{{"arrival_s", gap * w}, {"calls", calls}}.dump() + "\n";
  }
  return text;
}

struct Shape {
  std::string id;
  int gpus;
};
struct Cache {
  std::string text;
  bool prefixes;
  std::int64_t host_tokens;
};
const Cache kOff{"off", false, 0}, kOn{"on", true, 0}, kHost{"50000", true, 50'000};

struct Case {
  std::string workload;  // a generator, "bundled", or empty: conversations
  std::string limits;  // targets
  int gpus = 0;
  std::string profile;
  std::string tp, pp;
  std::vector<Shape> shapes;  // what the options above mean
  std::vector<std::string> policies;
  std::vector<int> budgets;
  std::vector<Cache> caches = {kOff};
  double rate_scale = 1;
  std::string estimates = "oracle";
};

const std::string kLlama = "aic/llama-3.1-8b/h100/bf16", kOwn = "own/m/g/bf16";
const std::vector<Shape> kLlamaShapes = {{kLlama + "/tp1", 1}, {kLlama + "/tp2", 2}, {kLlama + "/tp4", 4}};

const std::vector<Case> kCases = {
    {"gen:poisson,rate=20,requests=300,seed=3",
     "ttft_p95=500ms,tpot_p95=30ms",
     4,
     kLlama,
     "1,2,4",
     "1",
     kLlamaShapes,
     {"fcfs", "sjf"},
     {2048, 8192}},
    {"gen:poisson,rate=60,requests=400,seed=4",
     "e2e_p95=20s,attainment=0.9",
     6,
     kLlama,
     "1,2,4",
     "1",
     kLlamaShapes,
     {"fcfs", "stjf", "room_to_pass"},
     {1024}},
    {"gen:poisson,rate=90,requests=400,seed=5",
     "tpot_mean=0.009",
     8,
     kLlama,
     "4,2,1",
     "1",
     {{kLlama + "/tp4", 4}, {kLlama + "/tp2", 2}, {kLlama + "/tp1", 1}},
     {"sjf"},
     {512, 4096}},
    {"gen:multi_stage,workflows=60,rate=20,seed=6",
     "workflow_p95=30s",
     4,
     kLlama,
     "1,2",
     "1,2",
     {{kLlama + "/tp1", 1}, {kLlama + "/tp1/pp2", 2}, {kLlama + "/tp2", 2}, {kLlama + "/tp2/pp2", 4}},
     {"fcfs", "stjf"},
     {2048}},
    {"gen:multi_stage,workflows=60,rate=20,seed=7",
     "slowdown_p90=2,ttft_p50=100ms",
     5,
     kLlama,
     "2",
     "1",
     {{kLlama + "/tp2", 2}},
     {"fcfs", "sjf", "aged(stjf,threshold=50)"},
     {2048, 512},
     {kOff},
     2},
    {"bundled",
     "attainment=95%",
     3,
     kLlama,
     "1",
     "1",
     {{kLlama + "/tp1", 1}},
     {"fcfs", "stjf"},
     {2048},
     {kOff},
     6,
     "noise:0.5"},
    {"",
     "ttft_p95=400ms,success=0.99",
     3,
     kOwn,
     "1,2",
     "1",
     {{kOwn + "/tp1", 1}, {kOwn + "/tp2", 2}},
     {"fcfs", "lpm"},
     {1024, 2048},
     {kOff, kOn}},
    {"",
     "ttft_mean=60ms,goodput=2",
     2,
     kOwn,
     "1,2",
     "1",
     {{kOwn + "/tp1", 1}, {kOwn + "/tp2", 2}},
     {"fcfs"},
     {2048},
     {kOff, kOn, kHost}},
    {"",
     "queue_p99=30ms,tpot_max=40ms",
     4,
     kOwn,
     "2,1",
     "1",
     {{kOwn + "/tp2", 2}, {kOwn + "/tp1", 1}},
     {"uncached", "fcfs"},
     {512, 2048},
     {kHost, kOn},
     2},
    {"gen:poisson,rate=200,requests=300,seed=8",
     "ttft_p95=1ms",
     2,
     kLlama,
     "1,2",
     "1",
     {{kLlama + "/tp1", 1}, {kLlama + "/tp2", 2}},
     {"fcfs", "sjf"},
     {2048}}};  // nothing serves

Workload WorkloadOf(const Case& c, const std::string& file) {
  if (c.workload == "bundled") return BundledWorkload();
  return *(c.workload.empty() ? ReadWorkload(file) : GenerateWorkload(c.workload));
}

// Returns how far a figure is from its limit, as a share of the limit.
double RoomOf(const std::string& limit, const Metrics& m) {
  struct Figure {
    std::string text;
    double limit;
    std::function<double(const Metrics&)> of;
    bool least = false;
  };
  static const std::vector<Figure> kFigures = {
      {"ttft_p95=500ms", 0.5, [](const Metrics& x) { return x.ttft.p95; }},
      {"ttft_p95=400ms", 0.4, [](const Metrics& x) { return x.ttft.p95; }},
      {"ttft_p95=1ms", 0.001, [](const Metrics& x) { return x.ttft.p95; }},
      {"ttft_p50=100ms", 0.1, [](const Metrics& x) { return x.ttft.p50; }},
      {"ttft_mean=60ms", 0.06, [](const Metrics& x) { return x.ttft.mean; }},
      {"tpot_p95=30ms", 0.03, [](const Metrics& x) { return x.tpot.p95; }},
      {"tpot_mean=0.009", 0.009, [](const Metrics& x) { return x.tpot.mean; }},
      {"tpot_max=40ms", 0.04, [](const Metrics& x) { return x.tpot.max; }},
      {"e2e_p95=20s", 20, [](const Metrics& x) { return x.e2e.p95; }},
      {"queue_p99=30ms", 0.03, [](const Metrics& x) { return x.queue.p99; }},
      {"workflow_p95=30s", 30, [](const Metrics& x) { return x.workflow.p95; }},
      {"slowdown_p90=2", 2, [](const Metrics& x) { return x.slowdown.p90; }},
      {"attainment=0.9", 0.9, [](const Metrics& x) { return x.slo_attainment; }, true},
      {"attainment=95%", 0.95, [](const Metrics& x) { return x.slo_attainment; }, true},
      {"goodput=2", 2, [](const Metrics& x) { return x.goodput_rps; }, true},
      {"success=0.99", 0.99,
       [](const Metrics& x) { return static_cast<double>(x.completed) / static_cast<double>(x.requests); }, true}};
  const auto figure = std::ranges::find(kFigures, limit, &Figure::text);
  REQUIRE(figure != kFigures.end());
  const double value = figure->of(m);
  return (figure->least ? value - figure->limit : figure->limit - value) / figure->limit;
}

// A configuration of the exhaustive search.
struct Choice {
  int gpus = 0, replicas = 0, budget = 0;
  std::string shape, policy, cache;
  double room = 0;
};

// Replays every configuration up to the most GPUs. Returns those with the fewest GPUs that serve, the most room first.
// If none serves, returns the nearest miss alone, with negative room.
Choice Exhaustive(const Case& c, const Workload& workload, const std::vector<Profile>& more, int& runs) {
  std::vector<std::string> limits;
  for (std::size_t at = 0; at < c.limits.size();) {
    const std::size_t end = std::min(c.limits.find(',', at), c.limits.size());
    limits.push_back(c.limits.substr(at, end - at));
    at = end + 1;
  }
  std::optional<Choice> best;
  for (int gpus = c.gpus; gpus >= 1; --gpus) {  // backwards, unlike the tool
    for (const Shape& shape : c.shapes) {
      if (gpus % shape.gpus != 0) continue;
      for (const Cache& cache : c.caches) {
        for (const int budget : c.budgets) {
          for (const std::string& policy : c.policies) {
            ReplayOptions options;
            options.profile = FindProfile(shape.id, more).value();
            options.cluster.front_end = FromSeconds(options.profile.front_end_ms / 1e3);
            options.cluster.front_end_token = FromSeconds(options.profile.front_end_token_us / 1e6);
            options.cluster.rate_scale = c.rate_scale;
            options.instances = gpus / shape.gpus;
            options.policy = MakePolicyFactory(policy).value();
            options.estimates = EstimateSpec::Parse(c.estimates).value();
            options.engine.limits.tokens = {budget};
            options.engine.limits.max_seqs = 256;
            options.scheduler.prefix_cache = cache.prefixes;
            options.host_kv_tokens = cache.host_tokens;
            const ReplayResult result = Replay(workload, options).value();
            ++runs;
            Choice choice{gpus, options.instances, budget, shape.id, policy, cache.text, 1e300};
            for (const std::string& limit : limits) choice.room = std::min(choice.room, RoomOf(limit, result.metrics));
            if (!Has(c.limits, "success=") && result.metrics.completed < result.metrics.requests) {
              const auto all = static_cast<double>(result.metrics.requests);
              choice.room = std::min(choice.room, static_cast<double>(result.metrics.completed) / all - 1);
            }
            const bool first = !best;
            const bool serves = choice.room >= 0, best_serves = best && best->room >= 0;
            if (first || (serves && (!best_serves || gpus < best->gpus || choice.room > best->room)) ||
                (!serves && !best_serves &&
                 (choice.room > best->room || (choice.room == best->room && gpus < best->gpus)))) {
              best = choice;
            }
          }
        }
      }
    }
  }
  return *best;
}

Args ArgsOf(const Case& c, const std::string& talks, const std::string& profiles, const std::string& threads) {
  Args args = {"recommend",
               "--workload",
               c.workload.empty() ? talks : c.workload,
               "--slo",
               c.limits,
               "--gpus",
               std::to_string(c.gpus),
               "--profile",
               c.profile,
               "--tp",
               c.tp,
               "--pp",
               c.pp,
               "--profiles",
               profiles,
               "--estimates",
               c.estimates,
               "-j",
               threads,
               "--json",
               "-"};
  if (c.rate_scale != 1) args.insert(args.end(), {"--rate-scale", std::to_string(c.rate_scale)});
  std::string budgets, caches;
  for (const int b : c.budgets) budgets += (budgets.empty() ? "" : ",") + std::to_string(b);
  for (const Cache& cache : c.caches) caches += (caches.empty() ? "" : ",") + cache.text;
  args.insert(args.end(), {"--token-budgets", budgets, "--caches", caches});
  for (const std::string& policy : c.policies) args.insert(args.end(), {"--policy", policy});
  return args;
}

TEST_CASE("takt recommend equals exhaustive search on ten small cases, on one and two threads") {
  const TempDir dir;
  const std::string talks = dir.Write("talks.jsonl", Conversations(40, 0.25));
  const std::string profiles = dir.Write("own.json", kOwnProfiles);
  const std::vector<Profile> more = ReadProfiles(profiles).value();
  int served = 0, one_gpu = 0;
  for (const Case& c : kCases) {
    int runs = 0;
    const Choice expected = Exhaustive(c, WorkloadOf(c, talks), more, runs);
    const Ended ended = RunTool(ArgsOf(c, talks, profiles, "1"));
    INFO(c.limits << "\n" << ended.err);
    REQUIRE(ended.exit_code == (expected.room >= 0 ? 0 : 1));
    const Json json = Json::parse(ended.out);
    CHECK(json["candidates"] == runs);
    CHECK(json["best"].is_null() == (expected.room < 0));
    const Json& chosen = json["ranked"][0];
    CHECK(chosen["gpus"] == expected.gpus);
    CHECK(chosen["replicas"] == expected.replicas);
    CHECK(chosen["profile"] == expected.shape);
    CHECK(chosen["policy"] == MakePolicy(expected.policy)->spec());
    CHECK(chosen["token_budget"] == expected.budget);
    CHECK(chosen["prefix_cache"] == (expected.cache != "off"));
    CHECK(chosen["host_kv_tokens"] == (expected.cache == kHost.text ? kHost.host_tokens : 0));
    CHECK(chosen["room"] == expected.room);
    served += expected.room >= 0;
    one_gpu += expected.gpus == 1;
    if (expected.room >= 0) {
      for (const Json& row : json["ranked"]) CHECK(row["gpus"] <= expected.gpus);
      Args all = ArgsOf(c, talks, profiles, "2");
      all.push_back("--exhaustive");
      const Json whole = Json::parse(RunTool(all).out);
      CHECK(whole["best"] == json["best"]);
      CHECK(whole["ranked"].size() == static_cast<std::size_t>(runs));
    }
    CHECK(RunTool(ArgsOf(c, talks, profiles, "2")).out == ended.out);
  }
  CHECK(served == 9);
  CHECK(one_gpu < 6);
}

TEST_CASE("the command of takt recommend repeats the run of its choice") {
  const TempDir dir;
  const std::string talks = dir.Write("a 'b' $c.jsonl", Conversations(30, 0.25));
  const std::string profiles = dir.Write("own.json", kOwnProfiles);
  const auto repeats = [](const Args& more) {
    Args args = {"recommend", "--gpus", "3", "--json", "-"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = RunTool(args);
    INFO(ended.err);
    REQUIRE(ended.exit_code == 0);
    const Json best = Json::parse(ended.out)["best"];
    Args again = best["replay"];
    again.insert(again.end(), {"--json", "-"});
    const Ended replay = RunTool(again);
    INFO(replay.err);
    REQUIRE(replay.exit_code == 0);
    const Json run = Json::parse(replay.out)["runs"][0];
    CHECK(run["metrics"]["ttft_s"]["p95"] == best["figures"]["ttft_p95"]);
    CHECK(run["metrics"]["slo_attainment"] == best["figures"]["attainment"]);
    CHECK(run["metrics"]["e2e_s"]["mean"] == best["e2e_mean_s"]);
    CHECK(run["completed"] == best["completed"]);
    return ended.err;
  };
  const std::string err = repeats({"--workload",  talks,
                                   "--profiles",  profiles,
                                   "--profile",   "own/m/g/bf16",
                                   "--tp",        "1,2",
                                   "--slo",       "ttft_p95=400ms,attainment=0.8",
                                   "--slo-ttft",  "0.3",
                                   "--caches",    "50000,off",
                                   "--option",    "order=prefill_first",
                                   "--policy",    "aged(stjf,threshold=50)",
                                   "--estimates", "noise:0.5",
                                   "--seed",      "7",
                                   "--limit",     "25"});
  CHECK(Has(err, R"(/a '\''b'\'' $c.jsonl')"));
  CHECK(Has(err, "'aged(stjf,threshold=50"));
  repeats({"--workload", TAKT_SOURCE_DIR "/tests/fuzz/corpus/workload/sessions.jsonl", "--session-rate", "0.5",
           "--horizon", "60", "--slo", "ttft_p95=2s,attainment=0.5"});
}

TEST_CASE("if nothing serves, takt recommend names the nearest miss") {
  const Ended ended = RunTool(
      {"recommend", "--limit", "100", "--gpus", "1", "--slo", "ttft_p95=50ms,tpot_p95=1ms", "--policy", "fcfs"});
  CHECK(ended.exit_code == 1);
  CHECK(Has(ended.err, "no configuration of at most 1 GPU serves within the targets. The nearest misses tpot_p95 by "));
  CHECK(Has(ended.err, "1 x aic/llama-3.1-8b/h100/bf16/tp1 with fcfs, steps of "));
  CHECK(Has(ended.out, "2 of 2 candidates ran"));
  // The weights do not fit into one GPU. On two, the longest request does not fit.
  const Ended large = RunTool({"recommend", "--limit", "10", "--gpus", "2", "--slo", "ttft_p95=20s", "--profile",
                               "aic/llama-3.1-70b/h100/bf16", "--rate-scale", "0.01"});
  CHECK(Has(large.out, "Left out  aic/llama-3.1-70b/h100/bf16/tp1: no KV capacity"));
  const TempDir dir;
  const std::string file = dir.Write("long.jsonl", R"({"arrival_s": 0, "calls": [{"prompt": 8990, "output": 12}]})");
  const std::string profiles = dir.Write("own.json", kOwnProfiles);
  const auto run = [&](const std::string& tp, const std::string& target) {
    return RunTool({"recommend", "--workload", file, "--gpus", "2", "--slo", target, "--profiles", profiles,
                    "--profile", "own/m/g/bf16", "--tp", tp});
  };
  const Ended two = run("1,2", "ttft_p95=20s");
  CHECK(two.exit_code == 0);
  CHECK(Has(two.out, "Left out  own/m/g/bf16/tp1: 9,000 tokens of KV, but the longest request needs 9,001"));
  const Ended one = run("1", "ttft_p95=20s");
  CHECK(one.exit_code == 1);
  CHECK(Has(one.err, "no configuration serves: own/m/g/bf16/tp1: 9,000 tokens of KV"));
  CHECK(Has(run("1", "ttft_p95=20s,success=0.5").err, "misses ttft_p95 (nothing to measure), success by 100 %"));
}

TEST_CASE("takt recommend names the option at fault") {
  const auto fails = [](const Args& more, const std::string& told) {
    Args args = {"recommend", "--limit", "5"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = RunTool(args);
    INFO(ended.err);
    CHECK(ended.exit_code == 2);
    CHECK(Has(ended.err, told));
    CHECK(ended.out.empty());
  };
  const auto slo = [&](const std::string& target, const std::string& told) {
    fails({"--gpus", "1", "--slo", target}, "--slo " + told);
  };
  slo("ttft_p96=2s", "ttft_p96=2s: unknown target 'ttft_p96'; did you mean 'ttft_p9");
  slo("ttft_p95", "ttft_p95: is invalid; expected NAME=LIMIT");
  slo("=2s", "=2s: unknown target ''");
  for (const char* limit : {"nan", "inf", "-1s", "0", "", "2h", "1e-320us", "2s2", "1e999"}) {
    slo(std::string("ttft_p95=") + limit,
        std::string("ttft_p95=") + limit + ": '" + limit + "' is invalid; expected a time");
  }
  for (const char* limit : {"nan", "0", "1.01", "101%", "-0.5", "90s"}) {
    slo(std::string("attainment=") + limit, std::string("attainment=") + limit + ": '" + limit + "' is invalid");
  }
  slo("slowdown_p95=2s", "slowdown_p95=2s: '2s' is invalid; expected a positive number");
  slo("goodput=5s", "goodput=5s: '5s' is invalid; expected requests per second");
  slo("ttft_p95=2s,ttft_p95=3s", "ttft_p95=3s: is given twice");
  fails({"--gpus", "1"}, "--slo is required");
  const auto option = [&](const Args& more, const std::string& told) {
    Args args = {"--slo", "ttft_p95=2s"};
    if (more.front() != "--gpus") args.insert(args.end(), {"--gpus", "4"});
    args.insert(args.end(), more.begin(), more.end());
    fails(args, told);
  };
  for (const char* gpus : {"0", "-1", "nan", "1.5", "65537"}) option({"--gpus", gpus}, "--gpus");
  option({"--gpus", "65536"}, "--gpus: the grid has 32,768 candidates; expected at most 10,000");
  option({"--gpus", "1", "--tp", "2,4"}, "--gpus: 1 is invalid; expected at least 2, as each engine needs");
  option({"--tp", "0"}, "--tp");
  option({"--tp", "3"}, "--profile: profile \"aic/llama-3.1-8b/h100/bf16/tp3\"");
  option({"--tp", "1", "--profile", "aic/llama-3.1-70b/h100/bf16"}, "--profile: no shape has KV capacity");
  option({"--token-budgets", "1024,x"}, "--token-budgets");
  option({"--caches", "maybe"}, "--caches: 'maybe' is invalid");
  option({"--caches", "-5"}, "--caches: '-5' is invalid");
  option({"--caches", "off", "--retention", "lru"}, "--caches: off is unsupported");
  option({"--policy", "sjff"}, "unknown policy 'sjff'");
  option({"--profiles", "none.json"}, "--profiles: ");
  option({"--estimates", "guess"}, "--estimates: ");
  option({"--option", "nothing=1"}, "--option nothing=1");
  option({"--placement", "nowhere"}, "nowhere");
  option({"--horizon", "60"}, "--horizon: is invalid alone");
  option({"--threads", "0"}, "--threads");
  option({"--slo-ttft", "nan"}, "--slo-ttft");
  option({"--workload", "gen:poisson,requests=300,rate=100", "--session-rate", "200", "--horizon", "10"},
         "--slo: is incomplete with a horizon");
  CHECK(RunTool({"recommend", "--workload", "none.jsonl", "--gpus", "1", "--slo", "ttft_p95=2s"}).exit_code == 1);
}

TEST_CASE("an interrupted search reports the best so far") {
  const TempDir dir;
  const std::string json = dir / "out.json";
  Tool tool({"recommend", "--gpus", "64", "--slo", "ttft_p95=1ms", "--json", json, "-j", "1"}, Tool::Where::kTerminal);
  tool.WaitFor("searching");
  tool.Interrupt();
  const Ended ended = tool.Wait();
  CHECK(ended.exit_code == 130);
  const Json report = Json::parse(ReadWhole(json));
  CHECK(report["partial"] == true);
  CHECK(report["ranked"].size() < report["candidates"]);
  CHECK(Has(ended.out, "; interrupted"));
}

}  // namespace
}  // namespace takt
