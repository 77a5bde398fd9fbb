// Whole traces through the real scheduler. Traces outside takt's sources are skipped if absent.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "catch.h"
#include "takt/policy/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"

namespace takt {
namespace {

std::optional<Workload> Trace(const std::string& file) {
  const char* data = std::getenv("TAKT_DATA");
  const std::string path = (data != nullptr ? data : TAKT_SOURCE_DIR "/../shared/data") + ("/traces/" + file);
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; TAKT_DATA names the folder above traces/");
    return std::nullopt;
  }
  absl::StatusOr<Workload> workload = ReadWorkload(path);
  REQUIRE(workload.ok());
  return *std::move(workload);
}

ReplayOptions OnOneH100() {
  ReplayOptions options;
  options.profile = *FindProfile("aic/llama-3.1-8b/h100/bf16/tp1");
  return options;
}

ReplayResult MustReplay(const Workload& workload, ReplayOptions options, const char* policy, const char* estimates) {
  options.policy = *MakePolicyFactory(policy);
  options.estimates = *EstimateSpec::Parse(estimates);
  absl::StatusOr<ReplayResult> result = Replay(workload, options);
  INFO(policy << " " << estimates << ": " << result.status());
  REQUIRE(result.ok());
  CHECK(result->metrics.completed == result->metrics.requests);
  return *std::move(result);
}

TEST_CASE("a conversation trace overloads one engine as computed") {
  const std::optional<Workload> conv = Trace("azure_llm_2023_conv.csv.gz");
  if (!conv) return;
  ReplayOptions options = OnOneH100();
  options.cluster.rate_scale = 5;  // 27.6 requests per second
  const ReplayResult fcfs = MustReplay(*conv, options, "fcfs", "none");
  CHECK(fcfs.metrics.requests == 19'366);
  CHECK(fcfs.metrics.throughput_rps > 22);
  CHECK(fcfs.metrics.throughput_rps < 26);
  CHECK(fcfs.request_steps >= fcfs.metrics.output_tokens);

  const double oracle = MustReplay(*conv, options, "sjf", "oracle").metrics.e2e.mean;
  const double noise = MustReplay(*conv, options, "sjf", "noise:0.7").metrics.e2e.mean;
  const double classes = MustReplay(*conv, options, "sjf", "class-mean").metrics.e2e.mean;
  CHECK(oracle < noise);
  CHECK(noise < classes);
  CHECK(classes < fcfs.metrics.e2e.mean);
}

TEST_CASE("saturation is the served rate of an overloaded engine") {
  const std::optional<Workload> conv = Trace("azure_llm_2023_conv.csv.gz");
  if (!conv) return;
  ReplayOptions options = OnOneH100();
  options.limit = 6000;
  const absl::StatusOr<double> saturation = MeasureSaturation(*conv, options);
  REQUIRE(saturation.ok());
  options.cluster.rate_scale = RateScaleForLoad(*conv, 2, *saturation, options.limit);
  const ReplayResult overloaded = MustReplay(*conv, options, "fcfs", "none");
  CHECK(overloaded.metrics.throughput_rps == Approx(*saturation).epsilon(0.05));
}

TEST_CASE("a trace with shared prefixes ends sooner with a prefix cache") {
  const std::optional<Workload> mooncake = Trace("mooncake_fast25_conversation.jsonl.gz");
  if (!mooncake) return;
  ReplayOptions options = OnOneH100();
  options.limit = 1500;
  options.cluster.rate_scale = 0.4;
  const ReplayResult plain = MustReplay(*mooncake, options, "fcfs", "none");
  options.scheduler.prefix_cache = true;
  const ReplayResult cached = MustReplay(*mooncake, options, "fcfs", "none");
  CHECK(plain.metrics.cached_tokens == 0);
  CHECK(cached.metrics.cached_tokens > 0);
  CHECK(static_cast<std::uint64_t>(cached.metrics.cached_tokens) == cached.stats.tokens_cached);
  CHECK(cached.metrics.ttft.mean < plain.metrics.ttft.mean);
}

TEST_CASE("takt's own workflows end soonest with known rests") {
  const Workload workload = BundledWorkload();
  ReplayOptions options = OnOneH100();
  options.engine.limits.max_seqs = 32;
  const absl::StatusOr<double> saturation = MeasureSaturation(workload, options);
  REQUIRE(saturation.ok());
  options.cluster.rate_scale = RateScaleForLoad(workload, 1.2, *saturation);
  const double fcfs = MustReplay(workload, options, "fcfs", "oracle").metrics.workflow.mean;
  const double sjf = MustReplay(workload, options, "sjf", "oracle").metrics.workflow.mean;
  const double stjf = MustReplay(workload, options, "stjf", "oracle").metrics.workflow.mean;
  CHECK(stjf < sjf);
  CHECK(sjf < fcfs);
}

}  // namespace
}  // namespace takt
