// What takt observe concludes from the answers of a server whose true times are known.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.h"
#include "sim/sim_workloads.h"
#include "takt/base/random.h"
#include "takt/sim/calibrate.h"
#include "takt/sim/replay.h"
#include "takt/sim/step_log.h"
#include "tool/observe/observed_steps.h"
#include "tool/observe/openai_stream.h"

namespace takt::tool {
namespace {

using testing::RandomWorkload;

// ---- streams -------------------------------------------------------------------------------------------------------

struct Heard {
  std::int64_t tokens = 0;
  bool done = false;
  std::string fault;
};

// Reads the events in pieces of a few bytes.
Heard Hear(const std::vector<std::string_view>& events) {
  std::string stream;
  for (const std::string_view event : events) stream += "data: " + std::string(event) + "\n\n";
  StreamReader reader(64);
  Heard heard;
  for (std::size_t at = 0; at < stream.size(); at += 7) {
    if (!reader.Read(std::string_view(stream).substr(at, 7), [&] { ++heard.tokens; })) break;
  }
  heard.done = reader.done();
  heard.fault = reader.fault();
  return heard;
}

TEST_CASE("an event without text is a token, because servers hold back the text of incomplete characters") {
  // vLLM: the second token is half a character, and the last token comes with the end.
  const Heard completions = Hear({R"({"choices":[{"index":0,"text":"a","finish_reason":null}]})",
                                  R"({"choices":[{"index":0,"text":"","finish_reason":null}]})",
                                  R"({"choices":[{"index":0,"text":"\u00e9","finish_reason":"length"}]})", "[DONE]"});
  CHECK(completions.tokens == 3);
  CHECK(completions.done);
  // The text of the last token is held back for ever; the usage counts it.
  const Heard held = Hear({R"({"choices":[{"text":"a","finish_reason":null}]})",
                           R"({"choices":[{"text":"","finish_reason":"length"}]})",
                           R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}})", "[DONE]"});
  CHECK(held.tokens == 2);
  // llama-server: the end is an event of its own.
  const Heard apart =
      Hear({R"({"choices":[{"text":"a","finish_reason":null}]})", R"({"choices":[{"text":"b","finish_reason":null}]})",
            R"({"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":2}})", "[DONE]"});
  CHECK(apart.tokens == 2);
  const Heard chat = Hear({R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{"content":""},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{"content":"b"},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{"reasoning":"c"},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", "[DONE]"});
  CHECK(chat.tokens == 4);
  CHECK(chat.fault.empty());
}

TEST_CASE("comments keep a stream alive, but not for ever") {
  StreamReader reader(64);
  const auto none = [] {};
  std::int64_t bytes = 0;
  for (const std::string comment = ": ping\n\n"; reader.Read(comment, none); bytes += std::ssize(comment)) {
    REQUIRE(bytes < 1 << 24);
  }
  CHECK(bytes > 1 << 20);
  CHECK(reader.fault().find("bytes without an event") != std::string::npos);
}

// ---- steps ---------------------------------------------------------------------------------------------------------

// The clients of a virtual engine. Its front end delays each request by 12 ms.
struct Truth {
  CostModel cost{.hidden = 1};
  std::vector<ClientTimes> clients;
};

Truth Serve(int overlap, double mean_gap_ms, double delay_ms = 0) {
  Truth truth;
  truth.cost.gemm = {.floor_ms = 8, .slope_ms = 0.1};
  truth.cost.decode.per_context_ms = 8e-4;
  ReplayOptions options;
  options.profile.id = "truth";
  options.profile.cost = truth.cost;
  options.kv_tokens = 200'000;
  options.engine.limits = {.tokens = {512}, .max_seqs = 16};
  options.engine.overlap = overlap;
  options.cluster.front_end = testing::Ms(12);
  std::map<std::uint64_t, std::vector<double>> chunks;
  Random random(5);
  options.cluster.on_step = [&](const VirtualStep& step) {
    // Now and then the machine delays what the clients of a step get.
    const double late = random.Below(10) == 0 ? delay_ms / 1e3 : 0;
    for (const PlanEntry& entry : step.plan.run) {
      if (entry.samples()) chunks[entry.request.value].push_back(ToSeconds(step.end.time_since_epoch()) + late);
    }
  };
  const Workload workload = RandomWorkload(3, 400, mean_gap_ms, false);
  const absl::StatusOr<ReplayResult> result = Replay(workload, options);
  REQUIRE(result.ok());
  REQUIRE(chunks.size() == workload.calls.size());
  std::size_t call = 0;
  for (auto& [id, times] : chunks) {
    // A plan made ahead may have a row of a request that has ended.
    REQUIRE(std::ssize(times) - workload.calls[call].output_tokens <= overlap);
    times.resize(static_cast<std::size_t>(workload.calls[call].output_tokens));
    const double sent = ToSeconds(result->requests[call].arrival.time_since_epoch());
    truth.clients.push_back({sent, workload.calls[call].prompt_tokens, std::ssize(times), std::move(times)});
    ++call;
  }
  return truth;
}

EngineCalibration CalibrationOf(const Truth& truth) {
  const absl::StatusOr<StepLog> log = ParseStepLog(ObservedSteps(truth.clients, 512), "log");
  INFO(log.status().ToString());
  REQUIRE(log.ok());
  absl::StatusOr<EngineCalibration> found = Calibrate(*log, {.max_seqs = 16, .token_budget = 512});
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  return *std::move(found);
}

// Returns the fit's mean error over decode steps of the engine, in %.
double Off(const CostModel& found, const CostModel& truth) {
  double sum = 0;
  for (std::int64_t rows = 1; rows <= 16; ++rows) {
    StepLoad load;
    for (std::int64_t i = 0; i < rows; ++i) load.AddDecode(200);
    sum += std::abs(ToSeconds(found.StepTime(load)) / ToSeconds(truth.StepTime(load)) - 1);
  }
  return 100 * sum / 16;
}

TEST_CASE("steps and front end are found from the clients' times") {
  for (const double gap : {60.0, 200.0}) {  // busy, and often idle
    const Truth truth = Serve(0, gap);
    const EngineCalibration found = CalibrationOf(truth);
    INFO(gap);
    CHECK(Off(found.fit().cost, truth.cost) < 1);
    CHECK(found.front_end_ms == Approx(12).margin(1));
  }
}

TEST_CASE("a plan made ahead is a part of the front end") {
  const Truth truth = Serve(1, 60);
  const EngineCalibration found = CalibrationOf(truth);
  CHECK(Off(found.fit().cost, truth.cost) < 1);
  CHECK(found.front_end_ms > 18);
  CHECK(found.front_end_ms < 26);
}

TEST_CASE("tokens that come late with the next ones do not make short steps") {
  const Truth truth = Serve(0, 60, 9);
  const EngineCalibration found = CalibrationOf(truth);
  CHECK(Off(found.fit().cost, truth.cost) < 12);
}

TEST_CASE("the steps of an engine that is always idle are all fitted, with a warning") {
  std::vector<ClientTimes> clients;
  for (int i = 0; i < 60; ++i) {
    ClientTimes& client = clients.emplace_back();
    client.sent = i;
    client.prompt_tokens = 10 + i;
    client.output_tokens = 3;
    client.chunks = {i + 0.030 + 1e-4 * i, i + 0.040 + 1e-4 * i, i + 0.050 + 1e-4 * i};
  }
  const absl::StatusOr<StepLog> log = ParseStepLog(ObservedSteps(clients, 512), "log");
  REQUIRE(log.ok());
  CHECK(log->from_arrival.size() == 60);
  CHECK(log->steps.size() == 120);
  const absl::StatusOr<EngineCalibration> found = Calibrate(*log, {});
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  CHECK(found->front_end_ms == 0);
  CHECK(found->warnings.back().find("begin with an arrival") != std::string::npos);
  CHECK(ObservedSteps({}, 512).empty());
}

}  // namespace
}  // namespace takt::tool
