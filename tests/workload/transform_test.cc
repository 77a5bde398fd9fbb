#include "takt/workload/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "catch.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/summary.h"
#include "takt/workload/validate.h"
#include "takt/workload/write.h"

namespace takt {
namespace {

using std::chrono::seconds;

Workload Parsed(std::string_view text) {
  absl::StatusOr<Workload> workload = ParseWorkload(text, "t");
  INFO(std::string(workload.status().message()));
  REQUIRE(workload.ok());
  return *workload;
}

// Two workflows with every feature.
Workload Rich() {
  return Parsed(
      R"({"takt_workload": 1, "name": "rich \" é", "prefix_block_tokens": 16})"
      "\n"
      R"({"class": "x", "arrival_s": 0.000000001, "deadline_s": 0.5, "tenant": 4294967295, "priority": -2147483648, "calls": [)"
      R"({"stage": "b", "prompt": 2, "output": 1, "after": [1], "delay_s": 0.1},)"
      R"({"stage": "a", "agent": "y", "prompt": 40, "output": 9, "adapter": 4294967295, "prefix": [1, 18446744073709551615, 3],)"
      R"( "tools": [{"after": 8, "duration_s": 1e-9, "returned": 3, "class": "z"}, {"after": 1, "duration_s": 0}]},)"
      R"({"stage": "b", "prompt": 3, "output": 1, "after": ["a", 0]}]})"
      "\n"
      R"({"class": "x2", "arrival_s": 0, "tenant": 2, "calls": [{"stage": "a", "prompt": 17, "output": 2, "prefix": [1, 7]}]})");
}

// Two models that differ, with text of prompts; out of order.
Workload Models() {
  return Parsed(
      R"({"takt_workload": 1, "models": ["big", "small"], "features": ["x", "y"]})"
      "\n"
      R"({"arrival_s": 3, "solved_by": ["small"], "calls": [)"
      R"({"stage": "b", "prompt": 9, "output": 5, "outputs": [0, 6], "features": [0.1, -1e30], "after": ["a"]},)"
      R"({"stage": "a", "prompt": 7, "output": 3, "outputs": [3, 4], "features": [2, 3]}]})"
      "\n"
      R"({"arrival_s": 1, "solved_by": ["small", "big"], "calls": [)"
      R"({"prompt": 5, "output": 1, "outputs": [11, 12], "features": [4, 5]}]})");
}

TEST_CASE("drawn adapters follow Zipf's law, one for each workflow") {
  absl::StatusOr<Workload> w = GenerateWorkload("gen:multi_stage,workflows=20000,seed=3");
  REQUIRE(w.ok());
  const Workload before = *w;
  REQUIRE(DrawAdapters(*w, 4, 1, 7).ok());
  std::vector<int> count(5);
  for (const WorkloadWorkflow& workflow : w->workflows) {
    const auto calls = w->calls_of(workflow);
    ++count[calls[0].adapter];
    CHECK(std::ranges::all_of(calls, [&](const WorkloadCall& c) { return c.adapter == calls[0].adapter; }));
  }
  // 1 + 1/2 + 1/3 + 1/4 = 25/12; three standard deviations of 20,000 draws are at most 212.
  CHECK(count[0] == 0);
  for (int k = 1; k <= 4; ++k) CHECK(std::abs(count[static_cast<std::size_t>(k)] - 20000 * 12.0 / 25 / k) < 212);
  Workload again = before;
  REQUIRE(DrawAdapters(again, 4, 1, 7).ok());
  CHECK(again == *w);
  REQUIRE(DrawAdapters(again, 1, 0, 1).ok());
  CHECK(std::ranges::all_of(again.calls, [](const WorkloadCall& c) { return c.adapter == 1; }));
  CHECK(DrawAdapters(again, 0, 1, 1).message() == "adapters: 0 is invalid; expected 1 to 1000000");
  CHECK(DrawAdapters(again, 2'000'000, 1, 1).message() == "adapters: 2000000 is invalid; expected 1 to 1000000");
  CHECK(DrawAdapters(again, 2, -1, 1).message() == "adapter exponent: -1 is invalid; expected 0 to 10");
  CHECK_FALSE(DrawAdapters(again, 2, std::nan(""), 1).ok());
}

TEST_CASE("model data of a workload follows its calls") {
  const Workload w = Models();
  CHECK(w.models == std::vector<std::string>{"big", "small"});
  CHECK(w.model_tokens == std::vector<std::int32_t>{11, 12, 3, 4, 1, 6});
  CHECK(w.features == std::vector<float>{4, 5, 2, 3, 0.1f, -1e30f});
  CHECK(w.workflows[0].solved_by == 3);
  CHECK(w.workflows[1].solved_by == 2);
  CHECK(w.OutputOf(2, w.ModelIndex("small")) == 6);
  CHECK(w.OutputOf(2, w.ModelIndex("none")) == 5);
  CHECK(w.features_of(1)[1] == 3);

  Workload first = w;
  Truncate(first, 1);
  CHECK(Validate(first).ok());
  CHECK(first.model_tokens == std::vector<std::int32_t>{11, 12});
  Workload longer = w;
  REQUIRE(ScaleLengths(longer, 2).ok());
  CHECK(longer.model_tokens == std::vector<std::int32_t>{22, 24, 6, 8, 2, 12});
  CHECK_FALSE(ScaleLengths(longer, 1e8).ok());

  const Part twice[] = {{&w, {}}, {&w, seconds(1)}};
  const absl::StatusOr<Workload> merged = Merge(twice);
  REQUIRE(merged.ok());
  CHECK(Validate(*merged).ok());
  CHECK(merged->model_tokens == std::vector<std::int32_t>{11, 12, 11, 12, 3, 4, 1, 6, 3, 4, 1, 6});
  const Workload rich = Rich();
  const Part unlike[] = {{&w, {}}, {&rich, {}}};
  CHECK(std::string(Merge(unlike).status().message()) ==
        "merge: the workloads have different models or features; expected the same");

  const absl::StatusOr<Workload> drawn = Draw(w, 20, {}, 1);
  REQUIRE(drawn.ok());
  CHECK(Validate(*drawn).ok());
}

TEST_CASE("invalid model data is found and named") {
  const auto fault = [](auto&& breaks) {
    Workload w = Models();
    breaks(w);
    return std::string(Validate(w).message());
  };
  CHECK(fault([](Workload& w) { w.model_tokens[3] = 0; }) ==
        "workflows[1]: calls[0] (stage \"a\"): outputs[1]: 0 is invalid; expected at least 1");
  CHECK(fault([](Workload& w) { w.model_tokens[3] = kMaxContextTokens; }) ==
        "workflows[1]: calls[0] (stage \"a\"): outputs[1]: a context is too long; expected at most 1000000000 tokens");
  CHECK(fault([](Workload& w) { w.model_tokens.pop_back(); }) ==
        "outputs: are incomplete; expected an output per model and call");
  CHECK(fault([](Workload& w) { w.features.push_back(1); }) ==
        "features: are incomplete; expected a number per feature and call");
  CHECK(fault([](Workload& w) { w.features[0] = std::nanf(""); }) ==
        "workflows[0]: calls[0]: features: are invalid; expected finite numbers");
  CHECK(fault([](Workload& w) { w.models[1] = "big"; }) == "models[1]: is repeated; expected distinct names");
  CHECK(fault([](Workload& w) { w.models[0] = ""; }) == "models[0]: is empty; expected a name");
  CHECK(fault([](Workload& w) { w.models.resize(33, "x"); }) == "models: too many; expected at most 32");
  CHECK(fault([](Workload& w) { w.workflows[0].solved_by = 4; }) ==
        "workflows[0]: solved_by: names an unknown model; expected models of the workload");
  CHECK(fault([](Workload& w) {
          w.tools.push_back({.after_tokens = 1});
          w.calls[1].tools = 1;
        }) == "workflows[1]: calls[0] (stage \"a\"): tools: are unsupported in a workload with several models");
}

TEST_CASE("a written workload is read back unchanged") {
  for (const Workload& w : {Rich(), BundledWorkload(), Models(), *GenerateWorkload("gen:math,workflows=200"),
                            *GenerateWorkload("gen:gamma,requests=300,rate=0.001,cv=4"),
                            Parsed("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                   "5,ChatGPT,472,18,490,Conversation log\n7,GPT-4,1087,230,1317,API log\n")}) {
    CHECK(Validate(w).ok());
    CHECK(Tidied(w) == w);
    CHECK(Parsed(ToJsonl(w)) == w);
  }
}

TEST_CASE("a plain or packed file, by its ending, holds the same") {
  const Workload w = BundledWorkload();
  for (const std::string path : {"write_test.jsonl", "write_test.jsonl.gz"}) {
    REQUIRE(WriteWorkload(w, path).ok());
    const absl::StatusOr<Workload> read = ReadWorkload(path);
    REQUIRE(read.ok());
    CHECK(*read == w);
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    CHECK((bytes == ToJsonl(w)) == (path == "write_test.jsonl"));
    std::remove(path.c_str());
  }
  const absl::Status none = WriteWorkload(w, "/no/such/folder/file");
  CHECK(std::string(none.message()) == "/no/such/folder/file: cannot be written: No such file or directory");
}

TEST_CASE("names that are not UTF-8 are still written as JSON") {
  Workload w = Rich();
  w.names[1] = "\xff";
  CHECK(Parsed(ToJsonl(w)).names[1] == "\xef\xbf\xbd");
}

TEST_CASE("the rate scales arrivals and nothing else") {
  Workload w = Rich();
  const Workload before = w;
  REQUIRE(ScaleRate(w, 0.5).ok());
  CHECK(w.workflows[1].arrival == TimePoint(Duration(2)));
  w.workflows[1].arrival = before.workflows[1].arrival;
  CHECK(w == before);
  for (const double factor : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e-300}) {
    CHECK_FALSE(ScaleRate(w, factor).ok());
    CHECK(w == before);
  }
}

TEST_CASE("lengths scale together, and shared prefixes stay shared") {
  const Workload rich = Rich();
  for (const double factor : {0.001, 0.05, 0.3, 1.0, 2.5, 1000.0}) {
    Workload w = rich;
    REQUIRE(ScaleLengths(w, factor).ok());
    CHECK(Validate(w).ok());
    CHECK(w.prefix_hashes == rich.prefix_hashes);
    CHECK((w == rich) == (factor == 1));
  }
  Workload w = rich;
  REQUIRE(ScaleLengths(w, 10).ok());
  const std::size_t with_tools = 1;
  CHECK(w.calls[with_tools].prompt_tokens == 400);
  CHECK(w.calls[with_tools].output_tokens == 90);
  CHECK(w.tools[0].after_tokens == 10);
  CHECK(w.tools[1].after_tokens == 80);
  CHECK(w.tools[1].returned_tokens == 30);
  CHECK(w.prefix_block_tokens == 160);
  REQUIRE(ScaleLengths(w, 1e-9).ok());
  CHECK(Validate(w).ok());
  CHECK(w.calls[with_tools].prompt_tokens == 3);  // its third block starts there
  CHECK(w.calls[with_tools].output_tokens == 3);  // room for two tools
  for (const double factor : {0.0, -1.0, 1e12, std::nan(""), HUGE_VAL}) {
    Workload wrong = rich;
    CHECK_FALSE(ScaleLengths(wrong, factor).ok());
  }
}

TEST_CASE("truncation keeps the first workflows and only their data") {
  Workload w = Rich();
  Truncate(w, 2);
  CHECK(w == Rich());
  Truncate(w, 1);
  CHECK(Validate(w).ok());
  CHECK(w.workflows.size() == 1);
  CHECK(w.calls.size() == 1);
  CHECK(w.prefix_hashes.size() == 2);
  CHECK(w.predecessors.empty());
  CHECK(w.names == std::vector<std::string>{"", "x2", "a"});
  Truncate(w, 0);
  CHECK(w.workflows.empty());
  CHECK(Validate(w).ok());
}

TEST_CASE("a call with fewer tools ends at the next tool") {
  Workload w = Rich();
  LimitTools(w, 2);
  CHECK(w == Rich());
  LimitTools(w, 1);
  CHECK(Validate(w).ok());
  CHECK(Tidied(w) == w);
  const auto with_tool = [&] {
    return *std::ranges::find_if(w.calls, [](const WorkloadCall& c) { return c.prompt_tokens == 40; });
  };
  CHECK(with_tool().tools == 1);
  CHECK(with_tool().output_tokens == 8);
  CHECK(w.tools.size() == 1);
  CHECK(w.tools[0].after_tokens == 1);
  LimitTools(w, 0);
  CHECK(Validate(w).ok());
  CHECK(with_tool().output_tokens == 1);
  CHECK(w.tools.empty());
}

TEST_CASE("a merged workload mixes parts by arrival and keeps prefixes apart") {
  const Workload a =
      Parsed(R"({"arrival_s": 0, "calls": [{"stage": "s", "prompt": 600, "output": 1, "prefix": [5, 6]}]})"
             "\n"
             R"({"arrival_s": 4, "calls": [{"prompt": 1, "output": 2}]})");
  const Workload b =
      Parsed(R"({"arrival_s": 0, "class": "s", "calls": [{"stage": "r", "prompt": 600, "output": 3, "prefix": [5]}]})"
             "\n"
             R"({"arrival_s": 1, "calls": [{"prompt": 600, "output": 4, "prefix": [5]}]})");
  const Part parts[] = {{&a}, {&b, seconds(2)}};
  const absl::StatusOr<Workload> merged = Merge(parts);
  REQUIRE(merged.ok());
  const Workload& m = *merged;
  CHECK(Validate(m).ok());
  CHECK(Tidied(m) == m);
  CHECK(m.name == "t+t");
  std::vector<int> outputs;
  std::vector<double> arrivals;
  for (const WorkloadWorkflow& w : m.workflows) {
    outputs.push_back(m.calls_of(w)[0].output_tokens);
    arrivals.push_back(ToSeconds(w.arrival));
  }
  CHECK(outputs == std::vector<int>{1, 3, 4, 2});
  CHECK(arrivals == std::vector<double>{0, 2, 3, 4});
  CHECK(m.names[m.workflows[1].name] == "s");
  CHECK(m.names[m.calls_of(m.workflows[1])[0].stage] == "r");
  const auto first = m.hashes_of(m.calls_of(m.workflows[0])[0]);
  const auto second = m.hashes_of(m.calls_of(m.workflows[1])[0]);
  const auto third = m.hashes_of(m.calls_of(m.workflows[2])[0]);
  CHECK(first[0] == 5);
  CHECK(second[0] != 5);
  CHECK(second[0] == third[0]);

  Workload other = b;
  other.prefix_block_tokens = 16;
  const Part different[] = {{&a}, {&other}};
  CHECK(std::string(Merge(different).status().message()) ==
        "merge: prefix blocks have 512 and 16 tokens; expected one size");
  const Part negative[] = {{&a, seconds(-1)}};
  CHECK_FALSE(Merge(negative).ok());
  const Part late[] = {{&a, kMaxWorkloadTime - seconds(3)}};
  CHECK_FALSE(Merge(late).ok());
}

TEST_CASE("ties in a merge are ordered by part") {
  const Workload a = Parsed(R"({"arrival_s": 0, "calls": [{"prompt": 1, "output": 1}]})");
  const Workload b = Parsed(R"({"arrival_s": 0, "calls": [{"prompt": 1, "output": 2}]})");
  const Part parts[] = {{&b}, {&a}, {&b}};
  const Workload m = *Merge(parts);
  CHECK(m.calls[0].output_tokens == 2);
  CHECK(m.calls[1].output_tokens == 1);
  CHECK(m.calls[2].output_tokens == 2);
}

TEST_CASE("the summary equals calculations by hand") {
  const WorkloadSummary s = Summarise(Rich());
  CHECK(s.workflows == 2);
  CHECK(s.calls == 4);
  CHECK(s.tools == 2);
  CHECK(s.tenants == 2);
  CHECK(s.span_s == Approx(1e-9));
  CHECK(s.rate == Approx(1e9));
  CHECK(s.prompt_tokens.mean == Approx((17 + 40 + 2 + 3) / 4.0));
  CHECK(s.prompt_tokens.p50 == Approx(10));
  CHECK(s.output_tokens.max == 9);
  CHECK(s.calls_per_workflow.mean == 2);
  CHECK(s.workflow_output_tokens.max == 11);
  CHECK(s.tool_s.max == Approx(1e-9));
  REQUIRE(s.stages.size() == 2);
  CHECK(s.stages[0].stage == "a");
  CHECK(s.stages[0].calls == 2);
  CHECK(s.stages[0].mean_prompt_tokens == Approx(28.5));
  CHECK(s.stages[1].mean_output_tokens == Approx(1));
  CHECK(s.prefix_blocks == 5);
  CHECK(s.distinct_prefix_blocks == 4);
  CHECK(s.prefix_hit_share == Approx(0.2));  // block 1 of the second workflow

  const Workload even = Parsed(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n1,m,1,1,2,l\n3,m,1,1,2,l\n4,m,1,1,2,l\n8,m,1,1,2,l\n");
  const WorkloadSummary t = Summarise(even);
  CHECK(t.span_s == 7);
  CHECK(t.rate == Approx(3.0 / 7));
  const double mean = 7.0 / 3,
               variance = ((2 - mean) * (2 - mean) + (1 - mean) * (1 - mean) + (4 - mean) * (4 - mean)) / 2;
  CHECK(t.gap_cv == Approx(std::sqrt(variance) / mean));

  const WorkloadSummary none = Summarise(Workload());
  CHECK(none.calls == 0);
  CHECK(none.rate == 0);
}

TEST_CASE("an invalid workload is found and named") {
  const auto fault = [](auto&& breaks) {
    Workload w = Rich();
    breaks(w);
    return std::string(Validate(w).message());
  };
  CHECK(Validate(Rich()).ok());
  CHECK(fault([](Workload& w) { w.calls[2].output_tokens = 0; }) ==
        "workflows[1]: calls[1] (stage \"b\"): output_tokens: 0 is invalid; expected at least 1");
  CHECK(fault([](Workload& w) { w.calls[0].prompt_tokens = -1; }) ==
        "workflows[0]: calls[0] (stage \"a\"): prompt_tokens: -1 is invalid; expected at least 1");
  CHECK(fault([](Workload& w) { w.calls[0].stage = 99; }) ==
        "workflows[0]: calls[0]: stage: 99 is invalid; expected an index into names");
  CHECK(fault([](Workload& w) { w.calls[0].agent = 99; }) ==
        "workflows[0]: calls[0] (stage \"a\"): agent: 99 is invalid; expected an index into names");
  CHECK(fault([](Workload& w) { w.calls[3].first_predecessor = 99; }) ==
        "workflows[1]: calls[2] (stage \"b\"): after: is out of range");
  CHECK(fault([](Workload& w) { w.predecessors[0] = 1; }) ==
        "workflows[1]: calls[1] (stage \"b\"): after: call 1 is invalid; expected an earlier call");
  CHECK(fault([](Workload& w) { std::swap(w.predecessors[1], w.predecessors[2]); }) ==
        "workflows[1]: calls[2] (stage \"b\"): after: is invalid; expected ascending order");
  CHECK(fault([](Workload& w) { w.calls[0].hashes = 99; }) ==
        "workflows[0]: calls[0] (stage \"a\"): prefix: is out of range");
  CHECK(fault([](Workload& w) { w.prefix_block_tokens = 0; }) == "prefix_block_tokens: 0 is out of range");
  CHECK(fault([](Workload& w) {
          w.prefix_block_tokens = 17;
        }).find("workflows[0]: calls[0] (stage \"a\"): prefix: 2 blocks of 17") == 0);
  CHECK(fault([](Workload& w) { w.calls[1].tools = 99; }) ==
        "workflows[1]: calls[0] (stage \"a\"): tools: is out of range");
  CHECK(fault([](Workload& w) { std::swap(w.tools[0], w.tools[1]); }) ==
        "workflows[1]: calls[0] (stage \"a\"): tools[1].after: is invalid; expected ascending order");
  CHECK(fault([](Workload& w) { w.tools[0].returned_tokens = -1; }) ==
        "workflows[1]: calls[0] (stage \"a\"): tools[0].returned: -1 is negative; expected at least 0");
  CHECK(fault([](Workload& w) { w.tools[0].duration = Duration(-1); }) ==
        "workflows[1]: calls[0] (stage \"a\"): tools[0].duration: is negative or too long");
  CHECK(fault([](Workload& w) { w.tools[1].name = 99; }) ==
        "workflows[1]: calls[0] (stage \"a\"): tools[1].name: 99 is invalid; expected an index into names");
  CHECK(fault([](Workload& w) { w.workflows[0].calls = 0; }) == "workflows[0]: calls: is empty; expected a call");
  CHECK(fault([](Workload& w) { w.workflows[1].calls = 9; }) == "workflows[1]: calls: is out of range");
  CHECK(fault([](Workload& w) { w.workflows[1].name = 99; }) ==
        "workflows[1]: class: 99 is invalid; expected an index into names");
  CHECK(fault([](Workload& w) { w.workflows[1].deadline = Duration(-1); }) ==
        "workflows[1]: deadline: is negative or too long");
  CHECK(fault([](Workload& w) { w.workflows[1].arrival = TimePoint(Duration(-1)); }) ==
        "workflows[1]: arrival: is negative or too late");
  CHECK(fault([](Workload& w) { w.workflows[0].arrival += seconds(1); }) ==
        "workflows[0]: arrival: is invalid; expected 0 for the first arrival");
  CHECK(fault([](Workload& w) { w.workflows.push_back(w.workflows[0]); }) ==
        "workflows[2]: arrival: is invalid; expected ascending times");
  CHECK(fault([](Workload& w) { w.names[0] = "x"; }) == "names[0]: is invalid; expected the empty name");
}

TEST_CASE("arrivals and deadlines are set for all workflows or none") {
  Workload w = Rich();
  const std::vector<TimePoint> times = {TimePoint(seconds(3)), TimePoint(seconds(10))};
  REQUIRE(SetArrivals(w, times).ok());
  CHECK(w.workflows[0].arrival == TimePoint{});
  CHECK(w.workflows[1].arrival == TimePoint(seconds(7)));
  const std::vector<Duration> alone = {seconds(2), seconds(5)};
  REQUIRE(SetDeadlines(w, alone, 1.5).ok());
  CHECK(w.workflows[0].deadline == seconds(3));
  CHECK(Validate(w).ok());
  REQUIRE(SetDeadlines(w, alone, 1e300).ok());
  CHECK(w.workflows[1].deadline == Duration::max());
  CHECK(Validate(w).ok());

  const Workload before = w;
  const std::vector<TimePoint> falling = {TimePoint(seconds(3)), TimePoint(seconds(2))};
  const std::vector<TimePoint> far = {TimePoint{}, TimePoint(kMaxWorkloadTime + seconds(1))};
  CHECK(SetArrivals(w, falling).message().find("arrivals[1]: 2 s") == 0);
  CHECK_FALSE(SetArrivals(w, far).ok());
  CHECK(SetArrivals(w, {}).message() == "arrivals: 0 entries; expected 2, one per workflow");
  CHECK(SetDeadlines(w, {}, 1).message() == "deadlines: 0 durations; expected 2, one per workflow");
  for (const double scale : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_FALSE(SetDeadlines(w, alone, scale).ok());
  CHECK(w == before);
}

}  // namespace
}  // namespace takt
