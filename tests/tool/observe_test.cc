// Tests what takt observe concludes from a server whose true times are known.
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
  // The text of the only token is held back for ever; the usage counts it.
  const Heard held = Hear({R"({"choices":[{"text":"","finish_reason":"length"}]})",
                           R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":1}})",
                           R"({"choices":[],"usage":{}})", "[DONE]"});
  CHECK(held.tokens == 1);
  // TGI: no reason is an empty text.
  CHECK(Hear({R"({"choices":[{"text":"","finish_reason":""}]})", R"({"choices":[{"text":"b","finish_reason":""}]})",
              R"({"choices":[{"text":"","finish_reason":"length"}]})", "[DONE]"})
            .tokens == 2);
  // llama-server: the end is an event of its own.
  const Heard apart =
      Hear({R"({"choices":[{"text":"a","finish_reason":null}]})", R"({"choices":[{"text":"b","finish_reason":null}]})",
            R"({"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":2}})", "[DONE]"});
  CHECK(apart.tokens == 2);
  const Heard chat = Hear({R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})",
                           R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})",
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
  for (const std::string comment(1000, ':'); bytes < 1 << 24 && reader.Read(comment + "\n", none); bytes += 1001) {
  }
  CHECK(bytes < 1 << 24);
  CHECK(bytes > 1 << 20);
  CHECK(reader.fault().find("bytes without an event") != std::string::npos);
}

// ---- steps ---------------------------------------------------------------------------------------------------------

// The clients of a virtual engine.
struct Truth {
  CostModel cost{.hidden = 1};
  std::vector<ClientTimes> clients;
};

struct Setting {
  double gap_ms = 60;  // mean between workflows
  int front_ms = 12;
  int overlap = 0;
  double late_ms = 0;  // delay of a tenth of the steps on their way to the clients
  bool chains = false;  // workflows of up to five calls
  double then_gap_ms = 0;  // of as many further workflows; 0: none
};

Truth Serve(const Setting& setting) {
  Truth truth;
  truth.cost.gemm = {.floor_ms = 8, .slope_ms = 0.1};
  truth.cost.decode.per_context_ms = 8e-4;
  ReplayOptions options;
  options.profile.id = "truth";
  options.profile.cost = truth.cost;
  options.kv_tokens = 200'000;
  options.engine.limits = {.tokens = {512}, .max_seqs = 16};
  options.engine.overlap = setting.overlap;
  options.cluster.front_end = testing::Ms(setting.front_ms);
  std::map<std::uint64_t, std::vector<double>> chunks;
  Random random(5);
  options.cluster.on_step = [&](const VirtualStep& step) {
    const double late = random.Below(10) == 0 ? setting.late_ms / 1e3 : 0;
    for (const PlanEntry& entry : step.plan.run) {
      if (entry.samples()) chunks[entry.request.value].push_back(ToSeconds(step.end.time_since_epoch()) + late);
    }
  };
  double start = 0;  // s
  for (const double gap : {setting.gap_ms, setting.then_gap_ms}) {
    if (!(gap > 0)) continue;
    chunks.clear();
    const Workload workload = RandomWorkload(3, 400, gap, setting.chains);
    const absl::StatusOr<ReplayResult> result = Replay(workload, options);
    REQUIRE(result.ok());
    REQUIRE(chunks.size() == workload.calls.size());
    std::size_t call = 0;
    double end = start;
    for (auto& [id, times] : chunks) {
      // A plan made ahead may have a row of a request that has ended.
      REQUIRE(std::ssize(times) - workload.calls[call].output_tokens <= setting.overlap);
      times.resize(static_cast<std::size_t>(workload.calls[call].output_tokens));
      for (double& time : times) time += start;
      end = std::max(end, times.back());
      const double sent = start + ToSeconds(result->requests[call].arrival.time_since_epoch());
      truth.clients.push_back({sent, workload.calls[call].prompt_tokens, std::ssize(times), std::move(times)});
      ++call;
    }
    start = end + 1;
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
  for (const Setting& setting :
       {Setting{}, Setting{.gap_ms = 200}, Setting{.gap_ms = 400, .front_ms = 40},
        Setting{.gap_ms = 250, .front_ms = 2, .chains = true}, Setting{.gap_ms = 400, .then_gap_ms = 30}}) {
    const Truth truth = Serve(setting);
    const EngineCalibration found = CalibrationOf(truth);
    INFO(setting.gap_ms << " " << setting.front_ms << " " << setting.chains);
    CHECK(Off(found.fit().cost, truth.cost) < 1);
    CHECK(found.front_end_ms == Approx(setting.front_ms).margin(1.5));
    CHECK(found.fit().all.steps > 700);
    CHECK(found.front_end_of > 15);
  }
}

TEST_CASE("a plan made ahead is a part of the front end") {
  const Truth truth = Serve({.overlap = 1});
  const EngineCalibration found = CalibrationOf(truth);
  CHECK(Off(found.fit().cost, truth.cost) < 1);
  CHECK(found.front_end_ms > 18);
  CHECK(found.front_end_ms < 26);
}

TEST_CASE("tokens that come late with the next ones do not make short steps") {
  const Truth truth = Serve({.late_ms = 9});
  const EngineCalibration found = CalibrationOf(truth);
  CHECK(Off(found.fit().cost, truth.cost) < 4);
}

TEST_CASE("a client that stops for several steps makes no short steps") {
  Truth truth = Serve({});
  for (ClientTimes& client : truth.clients) {
    for (double& time : client.chunks) {
      const double second = std::floor(time);
      if (time - second < 0.08) time = second + 0.08 + 1e-4 * (time - second);
    }
  }
  const EngineCalibration found = CalibrationOf(truth);
  CHECK(Off(found.fit().cost, truth.cost) < 4);
  CHECK(found.fit().all.mean_abs_pct < 5);
}

TEST_CASE("the path of arrivals at an idle engine is not the engine's time") {
  std::vector<ClientTimes> clients;
  for (int i = 0; i < 60; ++i) {  // a path of 12 ms, and steps of 8 ms and 0.1 ms per token
    ClientTimes& client = clients.emplace_back();
    client.sent = i;
    client.prompt_tokens = 10 + i;
    client.output_tokens = 3;
    const double first = i + 0.012 + 0.008 + 1e-4 * (10 + i);
    client.chunks = {first, first + 0.0081, first + 0.0162};
  }
  // One request arrives while another runs.
  clients.push_back({5.025, 400, 3, {5.0844, 5.0925, 5.1006}});
  std::ranges::sort(clients, {}, &ClientTimes::sent);
  const absl::StatusOr<StepLog> log = ParseStepLog(ObservedSteps(clients, 512), "log");
  REQUIRE(log.ok());
  CHECK(std::ranges::count_if(log->steps, &TimedStep::from_arrival) == 60);
  const absl::StatusOr<EngineCalibration> found = Calibrate(*log, {});
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  CHECK(found->front_end_ms == Approx(12).margin(0.5));
  CHECK(found->front_end_of == 60);
  StepLoad prompt;
  prompt.AddPrefill(60, 0, true);
  CHECK(ToSeconds(found->fit().cost.StepTime(prompt)) == Approx(0.014).epsilon(0.03));
  CHECK(ObservedSteps({}, 512).empty());
}

TEST_CASE("an idle time that no client sees is no engine time") {
  // The second request is sent before the last token of the first one arrives.
  const std::vector<ClientTimes> clients = {{0, 100, 3, {.05, .08, .11}}, {.109, 100, 2, {.149, .179}}};
  const std::string log = ObservedSteps(clients, 512);
  CHECK(log.find("0.039") == std::string::npos);
  CHECK(log.find("path_us") == std::string::npos);
  CHECK(log.find(R"("time_s":0.050000,"from_arrival":1)") != std::string::npos);
  // The second request overtakes the first one, which is in the engine.
  CHECK(ObservedSteps(std::vector<ClientTimes>{{0, 500, 2, {1, 1.1}}, {.5, 10, 2, {.6, 1}}}, 512).find("arrival") ==
        std::string::npos);
}

}  // namespace
}  // namespace takt::tool
