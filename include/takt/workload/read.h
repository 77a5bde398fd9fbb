// Traces in, one Workload out. The formats are described in docs/reference/workloads.md.
#ifndef TAKT_WORKLOAD_READ_H_
#define TAKT_WORKLOAD_READ_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/names.h"
#include "takt/workload/workload.h"

namespace takt {

enum class WorkloadFormat : std::uint8_t {
  kAuto,      // by the first line, never by the file's name
  kWorkflow,  // takt's own: one workflow per line of JSON
  kAzure,     // CSV: TIMESTAMP, ContextTokens, GeneratedTokens (Azure LLM inference traces of 2023 and 2024)
  kMooncake,  // one JSON object per line: timestamp [ms], input_length, output_length, hash_ids
  kBurstGpt,  // CSV: Timestamp [s], Model, Request tokens, Response tokens, Log Type
  kShareGpt,  // CSV: num_prefill_tokens, num_decode_tokens; no times
  kInferCept,  // one JSON object per line: prompt, segments that end in tool calls; no times
  kText2Sql,  // one JSON object per line: n_stages, calls with step, preds, in, out (HexGen-Flow's traces); no times
  kSessions,  // one JSON object per line: block_tokens, calls with in, out, blocks, think_s; no times of sessions
  kColumns,  // CSV with a header, or one JSON object per line: ReadOptions::columns says what is what
};
constexpr auto NamesOf(WorkloadFormat) {
  return std::to_array<std::string_view>({"auto", "workflow", "azure", "mooncake", "burstgpt", "sharegpt", "infercept",
                                          "text2sql", "sessions", "columns"});
}

// The format of that name; the error lists them all.
absl::StatusOr<WorkloadFormat> ParseWorkloadFormat(std::string_view name);

struct ReadOptions {
  WorkloadFormat format = WorkloadFormat::kAuto;
  // "arrival=ts:ms,prompt=in,output=out,tenant=user": which column of a CSV file, or key of JSON lines, is what. Not
  // empty: the file is read so, and `format` is kAuto or kColumns (docs/reference/workloads.md).
  std::string columns = {};
  std::int64_t limit = 0;  // the file's first workflows only; 0: all
  bool skip_bad_lines = false;  // count them in the report instead of failing at the first
  std::int64_t max_session_tokens = 262'144;  // of kSessions: those with a longer prompt are left out, and counted
  double rate = 1;  // where the file has no times: Poisson arrivals [per second]
  std::uint64_t seed = 1;  // of those
  std::int64_t max_bytes = std::int64_t{4} << 30;  // of text, unpacked: more is refused (a gzip bomb, or a mistake)
};

struct ReadReport {
  WorkloadFormat format = WorkloadFormat::kAuto;  // as detected
  std::int64_t lines = 0;  // of data that became workflows
  std::int64_t bad_lines = 0;  // skipped
  std::vector<std::string> bad_line_messages = {};  // the first few of them
  std::int64_t raised_lengths = 0;  // prompts, outputs or parts of them of no tokens, read as one token
  std::int64_t long_sessions = 0;  // left out
  bool sorted = true;  // false: the file was not in the order of arrival
  bool arrivals_generated = false;  // the file has no times
};

// Reads a file, gzip or plain, or generates what a spec says where `path` begins with "gen:" (workload/generate.h).
// Arrivals are sorted, stably, and counted from the first. A prompt or output of no tokens becomes one token (a
// prefill always yields one) and is counted. Errors: NotFound or what the system says of the file; else
// InvalidArgument, naming file, line, field and value: `trace.csv:17: ContextTokens: "12x" is not a whole number`;
// ResourceExhausted beyond max_bytes. `report` may be null.
absl::StatusOr<Workload> ReadWorkload(const std::string& path, const ReadOptions& options = {},
                                      ReadReport* report = nullptr);

// The same from memory; `name` stands for the file in messages.
absl::StatusOr<Workload> ParseWorkload(std::string_view text, const std::string& name, const ReadOptions& options = {},
                                       ReadReport* report = nullptr);

}  // namespace takt

#endif  // TAKT_WORKLOAD_READ_H_
