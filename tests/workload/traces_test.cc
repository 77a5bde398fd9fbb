// The real traces, where they are at hand: their counts, means and percentiles, as counted by other means.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "catch.h"
#include "takt/workload/read.h"
#include "takt/workload/summary.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"
#include "takt/workload/write.h"

namespace takt {
namespace {

// The trace of that name, or one without workflows where it is absent.
Workload Trace(const std::string& name) {
  const char* data = std::getenv("TAKT_DATA");
  const std::filesystem::path folder = data != nullptr ? data : std::string(TAKT_SOURCE_DIR) + "/../shared/data";
  const std::string path = (folder / "traces" / name).string();
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; TAKT_DATA names the folder above traces/");
    return {};
  }
  ReadReport report;
  absl::StatusOr<Workload> workload = ReadWorkload(path, {}, &report);
  INFO(std::string(workload.status().message()));
  REQUIRE(workload.ok());
  CHECK(report.bad_lines == 0);
  CHECK(report.raised_lengths == 0);
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

TEST_CASE("Azure 2023, conversations") {
  const Workload w = Trace("azure_llm_2023_conv.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 19366);
  CHECK(s.span_s == Approx(3502).margin(1));
  CHECK(s.rate == Approx(5.53).margin(0.005));
  CHECK(s.gap_cv == Approx(1.09).margin(0.005));
  Check(s.prompt_tokens, 1155, 1020, 2734, 4142, 14050);
  Check(s.output_tokens, 211, 129, 424, 601, 1000);
}

TEST_CASE("Azure 2023, code") {
  const Workload w = Trace("azure_llm_2023_code.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 8819);
  CHECK(s.span_s == Approx(3436).margin(1));
  CHECK(s.rate == Approx(2.57).margin(0.005));
  CHECK(s.gap_cv == Approx(13.15).margin(0.005));
  Check(s.prompt_tokens, 2048, 1469, 5188, 7436, 7437);
  Check(s.output_tokens, 28, 13, 55, 251, 1899);
}

TEST_CASE("Mooncake, conversations: prefixes, too") {
  const Workload w = Trace("mooncake_fast25_conversation.jsonl.gz");
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

TEST_CASE("ShareGPT lengths") {
  const Workload w = Trace("sharegpt_10k_lengths.csv.gz");
  if (w.workflows.empty()) return;
  const WorkloadSummary s = Summarise(w);
  CHECK(s.calls == 10000);
  CHECK(s.rate == Approx(1).margin(0.05));
  Check(s.prompt_tokens, 246, 35, 761, 2862, 3973);
  Check(s.output_tokens, 326, 286, 681, 1000, 1734);
}

}  // namespace
}  // namespace takt
