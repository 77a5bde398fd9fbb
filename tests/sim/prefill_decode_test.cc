// Prefill and decode on different engines: by hand, and without lost requests.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "catch.h"
#include "sim/sim_workloads.h"
#include "takt/placement/registry.h"
#include "takt/sim/replay.h"

namespace takt {
namespace {

using testing::AtMs;
using testing::ConstantSteps;
using testing::LinearSteps;
using testing::Ms;
using testing::MustReplay;
using testing::RandomWorkload;
using testing::Requests;

// A token's KV takes a millisecond on a link. Each test runs with two routers, and with one router with roles.
ReplayOptions Apart(std::int32_t prefill, std::int32_t decode, ReplayOptions options = ConstantSteps()) {
  options.instances = prefill + decode;
  options.cluster.prefill_engines = prefill;
  options.cluster.roles = GENERATE(false, true);
  options.cluster.kv_link_gb_s = 1;
  options.profile.cost.kv_bytes_per_token = 1e6;
  options.placement = *MakePlacement("round_robin");
  return options;
}

TEST_CASE("one request takes its prompt step, its transfer and decode steps") {
  const ReplayResult result = MustReplay(Requests({{AtMs(0), {100, 3}}}), Apart(1, 1));
  const RequestRecord& r = result.requests[0];
  CHECK(r.first_step == AtMs(0));
  CHECK(r.first_token == AtMs(10));
  CHECK(r.end == AtMs(10 + 100 + 20));
  CHECK(r.output_tokens == 3);
  CHECK(r.recomputed_tokens == 0);
  CHECK(r.instance == 0);
  CHECK(result.steps == 3);
}

TEST_CASE("an output of one token ends with its prompt without transfer") {
  const ReplayResult result = MustReplay(Requests({{AtMs(0), {100, 1}}}), Apart(1, 1));
  CHECK(result.requests[0].end == AtMs(10));
  CHECK(result.steps == 1);
}

TEST_CASE("transfers take turns on the links of both ends") {
  const Workload w = Requests({{AtMs(0), {100, 2}}, {AtMs(0), {100, 2}}});
  const auto ends = [&](std::int32_t prefill, std::int32_t decode) {
    const ReplayResult result = MustReplay(w, Apart(prefill, decode));
    return std::vector{result.requests[0].end, result.requests[1].end};
  };
  CHECK(ends(1, 1) == std::vector{AtMs(120), AtMs(220)});
  CHECK(ends(1, 2) == std::vector{AtMs(120), AtMs(220)});
  CHECK(ends(2, 1) == std::vector{AtMs(120), AtMs(220)});
  CHECK(ends(2, 2) == std::vector{AtMs(120), AtMs(120)});
}

TEST_CASE("short prompts are computed at their decoder") {
  ReplayOptions options = Apart(1, 1);
  options.cluster.deflect_tokens = 50;
  const ReplayResult result = MustReplay(Requests({{AtMs(0), {50, 3}}, {AtMs(0), {51, 3}}}), options);
  CHECK(result.requests[0].instance == 1);
  CHECK(result.requests[0].end == AtMs(30));
  CHECK(result.requests[1].instance == 0);
  CHECK(result.requests[1].end == AtMs(10 + 51 + 20));  // the decoder is idle at that time
}

TEST_CASE("KV stays at its prefill engine until the decoder starts it") {
  // Seven blocks: one prompt at a time.
  ReplayOptions options = Apart(1, 1);
  options.kv_tokens = 112;
  options.scheduler.kv_watermark = 0;
  const ReplayResult result = MustReplay(Requests({{AtMs(0), {100, 3}}, {AtMs(0), {100, 2}}}), options);
  CHECK(result.requests[0].end == AtMs(130));
  CHECK(result.requests[1].first_step == AtMs(110));
  CHECK(result.requests[1].first_token == AtMs(120));
  CHECK(result.requests[1].end == AtMs(120 + 100 + 10));
  CHECK(result.requests[1].preemptions == 0);
}

TEST_CASE("a prompt does not delay decodes elsewhere") {
  // 31 ms of prefill next to decodes of some 3 ms.
  const Workload w = Requests({{AtMs(0), {10, 40}}, {AtMs(60), {300, 2}}});
  const auto slowest = [&](ReplayOptions options) {
    TimePoint last{};
    Duration most{0};
    options.cluster.on_step = [&](const VirtualStep& step) {
      for (const PlanEntry& entry : step.plan.run) {
        if (entry.request != RequestId{1}) continue;
        if (last > TimePoint{}) most = std::max(most, step.end - last);
        last = step.end;
      }
    };
    MustReplay(w, options);
    return ToSeconds(most);
  };
  ReplayOptions together = LinearSteps();
  CHECK(slowest(together) > 0.030);
  ReplayOptions apart = Apart(1, 1, LinearSteps());
  apart.cluster.kv_link_gb_s = 1000;
  CHECK(slowest(apart) < 0.012);  // its own prompt's transfer and the longest step
}

TEST_CASE("random workloads complete, report no faults, and repeat") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Workload w = RandomWorkload(seed, 60, 20, false);
    for (std::size_t i = 0; i + 1 < w.workflows.size(); i += 2) w.workflows[i + 1].arrival = w.workflows[i].arrival;
    ReplayOptions options =
        Apart(1 + static_cast<std::int32_t>(seed % 3), 1 + static_cast<std::int32_t>(seed % 2), LinearSteps());
    options.kv_tokens = seed % 4 == 0 ? 100'000 : 480;  // decoders preempt
    options.cluster.kv_link_gb_s = seed % 5 == 0 ? 0.2 : 20;
    options.cluster.deflect_tokens = seed % 3 == 0 ? 100 : 0;
    options.engine.overlap = static_cast<int>(seed % 3);
    options.engine.limits.tokens = {128};
    options.engine.limits.max_seqs = 8;
    INFO("seed " << seed);
    const ReplayResult result = MustReplay(w, options);
    for (std::size_t i = 0; i < w.calls.size(); ++i) {
      const RequestRecord& r = result.requests[i];
      CHECK(r.outcome == Outcome::kCompleted);
      CHECK(r.output_tokens == w.calls[i].output_tokens);
      CHECK(r.first_token <= r.end);
      const bool deflected = w.calls[i].prompt_tokens <= options.cluster.deflect_tokens;
      CHECK((r.instance < options.cluster.prefill_engines) != deflected);
      if (deflected || r.output_tokens == 1) continue;
      const double bytes = 1e6 * w.calls[i].prompt_tokens;
      CHECK(r.end - r.first_token >= FromSeconds(bytes / (options.cluster.kv_link_gb_s * 1e9)));
    }
    CHECK(result.stats.events_unknown == 0);
    CHECK(result.stats.events_out_of_place == 0);
    CHECK(MustReplay(w, options).requests == result.requests);
  }
}

TEST_CASE("a request too large for a decoder fails and leaves nothing") {
  ReplayOptions options = Apart(1, 1);
  options.kv_tokens = 112;
  options.scheduler.kv_watermark = 0;
  const ReplayResult result =
      MustReplay(Requests({{AtMs(0), {112, 5}}, {AtMs(1), {500, 5}}, {AtMs(2), {90, 5}}}), options);
  CHECK(result.requests[0].outcome == Outcome::kFailed);  // its prompt has 113 tokens at the decoder
  CHECK(result.requests[1].outcome == Outcome::kFailed);
  CHECK(result.requests[2].outcome == Outcome::kCompleted);
}

TEST_CASE("an invalid split of engines is refused by name") {
  const Workload w = Requests({{AtMs(0), {100, 3}}});
  const auto refused = [&](ReplayOptions options, const char* name, const Workload& workload) {
    const absl::StatusOr<ReplayResult> result = Replay(workload, options);
    INFO(name << ": " << result.status());
    CHECK(result.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(result.status().message().find(name) != std::string_view::npos);
  };
  ReplayOptions options = Apart(1, 1);
  options.cluster.prefill_engines = 2;
  refused(options, "prefill_engines", w);
  options.cluster.prefill_engines = -1;
  refused(options, "prefill_engines", w);
  options = Apart(1, 1);
  options.cluster.kv_link_gb_s = 0;
  refused(options, "kv_link_gb_s", w);
  options = Apart(1, 1);
  options.cluster.deflect_tokens = -1;
  refused(options, "deflect_tokens", w);
  options = Apart(1, 1);
  options.profile.cost.kv_bytes_per_token = 0;
  refused(options, "KV bytes per token", w);
  options = Apart(1, 1);
  options.engines = {options.profile, options.profile};
  options.engines[1].model = "another";
  refused(options, "another", w);
  const Workload tools = Requests({{AtMs(0), {100, 3, {}, Duration{0}, {{1, 5, Ms(10), 0}}}}});
  refused(Apart(1, 1), "tool calls", tools);
}

}  // namespace
}  // namespace takt
