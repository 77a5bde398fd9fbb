// The real traces, if present: counts, means and percentiles, compared with other programs' results.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "catch.h"
#include "takt/numeric/summary.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/sessions.h"
#include "takt/workload/summary.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"
#include "takt/workload/write.h"

namespace takt {
namespace {

// Returns the trace of that name, or one without workflows if it is absent.
Workload Trace(const std::string& name, std::int64_t raised_lengths = 0) {
  const char* data = std::getenv("TAKT_DATA");
  const std::filesystem::path folder = data != nullptr ? data : std::string(TAKT_SOURCE_DIR) + "/../shared/data";
  const std::string path = (folder / name).string();
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; TAKT_DATA names the folder above " << name);
    return {};
  }
  ReadReport report;
  absl::StatusOr<Workload> workload = ReadWorkload(path, {}, &report);
  INFO(std::string(workload.status().message()));
  REQUIRE(workload.ok());
  CHECK(report.bad_lines == 0);
  CHECK(report.raised_lengths == raised_lengths);
  CHECK(Validate(*workload).ok());
  CHECK(*ParseWorkload(ToJsonl(*workload), "t") == *workload);
  return *workload;
}

void Check(const Summary& s, double mean, double p50, double p90, double p99, double max) {
  CHECK(s.mean == Approx(mean).margin(0.5));
  CHECK(s.p50 == Approx(p50).margin(0.6));
  CHECK(s.p90 == Approx(p90).margin(0.6));
  CHECK(s.p99 == Approx(p99).margin(0.6));
  CHECK(s.max == max);
}

TEST_CASE("Azure 2023 conversations have the known statistics") {
  const Workload w = Trace("traces/azure_llm_2023_conv.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 19366);
  CHECK(s.span_s == Approx(3502).margin(1));
  CHECK(s.rate == Approx(5.53).margin(0.005));
  CHECK(s.gap_cv == Approx(1.09).margin(0.005));
  Check(s.prompt_tokens, 1155, 1020, 2734, 4142, 14050);
  Check(s.output_tokens, 211, 129, 424, 601, 1000);
}

TEST_CASE("Azure 2023 code has the known statistics") {
  const Workload w = Trace("traces/azure_llm_2023_code.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 8819);
  CHECK(s.span_s == Approx(3436).margin(1));
  CHECK(s.rate == Approx(2.57).margin(0.005));
  CHECK(s.gap_cv == Approx(13.15).margin(0.005));
  Check(s.prompt_tokens, 2048, 1469, 5188, 7436, 7437);
  Check(s.output_tokens, 28, 13, 55, 251, 1899);
}

TEST_CASE("Mooncake conversations have the known statistics and prefixes") {
  const Workload w = Trace("traces/mooncake_fast25_conversation.jsonl.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 12031);
  CHECK(s.span_s == Approx(3537).margin(0.5));
  CHECK(s.rate == Approx(3.40).margin(0.005));
  Check(s.prompt_tokens, 12035, 6909, 27367, 85400, 126195);
  Check(s.output_tokens, 343, 350, 597, 1119, 2000);
  CHECK(s.distinct_prefix_blocks == 182790);
  CHECK(s.prefix_hit_share == Approx(0.366).margin(0.0005));
}

TEST_CASE("ShareGPT lengths have the known statistics") {
  const Workload w = Trace("traces/sharegpt_10k_lengths.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 10000);
  CHECK(s.rate == Approx(1).margin(0.05));
  Check(s.prompt_tokens, 246, 35, 761, 2862, 3973);
  Check(s.output_tokens, 326, 286, 681, 1000, 1734);
}

// Counts of one kind of conversations or calls.
struct Kind {
  std::int64_t requests = 0, instant = 0;
  Moments calls, seconds, returned, prompt, context;
};
using Kinds = std::map<std::string, Kind>;

// Groups counts by the class of the request or of its tools.
Kinds Count(const Workload& w, bool by_tool) {
  Kinds kinds;
  for (const WorkloadWorkflow& f : w.workflows) {
    Kind& of = kinds[w.names[f.name]];
    const WorkloadCall& call = w.calls_of(f)[0];
    ++of.requests;
    of.calls.Add(call.tools);
    of.prompt.Add(call.prompt_tokens);
    double context = call.prompt_tokens + call.output_tokens;
    for (const WorkloadTool& tool : w.tools_of(call)) {
      Kind& kind = by_tool ? kinds[w.names[tool.name]] : of;
      kind.instant += tool.duration == Duration(0);
      kind.seconds.Add(ToSeconds(tool.duration));
      kind.returned.Add(tool.returned_tokens);
      context += tool.returned_tokens;
    }
    of.context.Add(context);
  }
  return kinds;
}

struct Told {
  const char* name;
  std::int64_t requests;
  double calls, seconds, deviation, prompt, returned;
};

void Check(Kinds& kinds, const Told& t) {
  INFO(t.name);
  const Kind& k = kinds[t.name];
  CHECK(k.requests == t.requests);
  CHECK(k.calls.mean() == Approx(t.calls).margin(0.005));
  CHECK(k.seconds.mean() == Approx(t.seconds).epsilon(1e-5));
  const auto n = static_cast<double>(k.seconds.count());  // the paper divides by n, Moments by n - 1
  CHECK(k.seconds.deviation() * std::sqrt(1 - 1 / n) == Approx(t.deviation).epsilon(2e-3));
  CHECK(k.prompt.mean() == Approx(t.prompt).margin(0.5));
  CHECK(k.returned.mean() == Approx(t.returned).margin(0.051));
}

TEST_CASE("text-to-SQL traces have the authors' counts and exact arrivals") {
  struct Counts {
    const char* name;
    std::int64_t workflows, calls;
    double mean, variance;
  };
  for (const Counts& c : {Counts{"text2sql/trace1.jsonl", 90, 1732, 19.24, 13.4},
                          Counts{"text2sql/trace2.jsonl", 96, 1984, 20.67, 14.7}}) {
    const Workload w = Trace(c.name);
    if (w.workflows.empty()) return;
    const WorkloadSummary s = Summarise(w);
    CHECK(s.workflows == c.workflows);
    CHECK(s.calls == c.calls);
    CHECK(s.calls_per_workflow.mean == Approx(c.mean).margin(0.01));
    CHECK(std::pow(s.calls_per_workflow.deviation, 2) == Approx(c.variance).margin(0.2));
    CHECK(s.stages.size() == 7);
  }
  const char* data = std::getenv("TAKT_DATA");
  std::ifstream in((data != nullptr ? data : std::string(TAKT_SOURCE_DIR) + "/../shared/data") +
                   "/text2sql/arrivals.csv");
  std::string line;
  std::getline(in, line);
  std::int64_t lines = 0;
  for (double rate, seed, n, index, arrival; std::getline(in, line); ++lines) {
    REQUIRE(std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf,%lf", &rate, &seed, &n, &index, &arrival) == 5);
    const auto times = NumpyPoissonArrivals(rate, static_cast<std::uint32_t>(seed), static_cast<std::size_t>(n));
    CHECK(times[static_cast<std::size_t>(index)] == TimePoint(FromSeconds(arrival)));
  }
  CHECK(lines == 660);
}

TEST_CASE("coding-agent sessions have the known lengths and endless-cache hits") {
  const Workload w = Trace("agents/coding_sessions.jsonl.gz", 16);
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.workflows == 392);
  CHECK(s.calls == 24'710);
  CHECK(s.prompt_tokens.mean == Approx(95'576.4).margin(0.1));
  CHECK(s.prompt_tokens.max == 261'440);
  CHECK(s.prefix_blocks == 36'889'258);
  CHECK(s.distinct_prefix_blocks == 1'420'583);
  CHECK(s.prefix_hit_share == Approx(0.96149).margin(1e-5));
  double tokens = 0;
  for (const std::int32_t cached : TokensEverCached(w)) tokens += cached;
  CHECK(tokens / (s.prompt_tokens.mean * static_cast<double>(s.calls)) == Approx(0.96117).margin(1e-5));
  CHECK(std::ranges::count_if(w.calls, [](const WorkloadCall& c) { return c.branch > 0; }) == 464);
  CHECK(std::ranges::count(w.calls, TurnEnd::kTool, &WorkloadCall::then) == 20'573);
  CHECK(std::ranges::count(w.calls, TurnEnd::kUser, &WorkloadCall::then) == 1'112);
}

TEST_CASE("InferCept requests have the known statistics by class") {
  const Workload w = Trace("tools/infercept_multi_api.jsonl", 184);
  if (w.workflows.empty()) return;
  CHECK(w.workflows.size() == 397);
  CHECK(w.tools.size() == 1841);
  Kinds classes = Count(w, false), kinds = Count(w, true);
  REQUIRE(classes.size() == 6);
  CHECK(classes["math"].instant + classes["qa"].instant == 15);
  Check(classes, {"chatbot", 65, 3.46, 28.2324, 18.35, 108, 39.7});
  Check(classes, {"image", 65, 6.92, 19.8879, 15.44, 108, 23.9});
  Check(classes, {"math", 99, 2.79, 8.29834e-05, 4.82e-05, 411, 21.0});
  Check(classes, {"qa", 49, 3.08, 0.713266, 0.2017, 934, 56.8});
  Check(classes, {"tts", 65, 6.92, 17.1477, 17.17, 108, 24.4});
  Check(classes, {"ve", 54, 5.35, 0.0850887, 0.01468, 1973, 10.2});
  for (const auto& [name, calls, seconds] : {std::tuple("chatbot", 675, 28.232381),
                                             {"image", 225, 11.543467},
                                             {"math", 276, 8.3e-05},
                                             {"qa", 151, 0.713266},
                                             {"tts", 225, 6.063001},
                                             {"ve", 289, 0.085089}}) {
    INFO(name);
    CHECK(kinds[name].seconds.count() == calls);
    CHECK(kinds[name].seconds.mean() == Approx(seconds).epsilon(5e-4));
  }
  CHECK(classes["qa"].context.mean() == Approx(1851).margin(0.5));
  CHECK(classes["ve"].context.mean() == Approx(2049 + 1).margin(0.5));  // and the token after the last answer
}

TEST_CASE("InferCept's first calls have the statistics of its single-call workload") {
  Workload w = Trace("tools/infercept_multi_api.jsonl", 184);
  if (w.workflows.empty()) return;
  LimitTools(w, 1);
  CHECK(Validate(w).ok());
  CHECK(w.tools.size() == 397);
  Kinds classes = Count(w, false);
  Check(classes, {"chatbot", 65, 1, 28.9556, 19.17, 108, 60.1});
  Check(classes, {"image", 65, 1, 11.4802, 0.9195, 108, 8.0});
  Check(classes, {"math", 99, 1, 8.82319e-05, 5.88e-05, 411, 21.3});
  Check(classes, {"qa", 49, 1, 0.674855, 0.248, 934, 56.4});
  Check(classes, {"tts", 65, 1, 5.77288, 2.644, 108, 9.0});
  Check(classes, {"ve", 54, 1, 0.0852199, 0.01466, 1973, 2.0});
  for (const auto& [name, context] : {std::tuple("chatbot", 341), {"math", 711}, {"qa", 1462}, {"ve", 1983}}) {
    INFO(name);
    CHECK(classes[name].context.mean() == Approx(context).margin(0.5));
  }
}

}  // namespace
}  // namespace takt
