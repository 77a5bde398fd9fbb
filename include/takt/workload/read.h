// Reads traces into a Workload. docs/reference/workloads.md describes the formats.
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
  kAuto,  // format detected from the first line, never from the file name
  kWorkflow,  // takt's own format: one workflow per line of JSON
  kAzure,     // CSV: TIMESTAMP, ContextTokens, GeneratedTokens (Azure LLM inference traces of 2023 and 2024)
  kMooncake,  // JSON lines: timestamp [ms], input_length, output_length, hash_ids
  kBurstGpt,  // CSV: Timestamp [s], Model, Request tokens, Response tokens, Log Type
  kShareGpt,  // CSV: num_prefill_tokens, num_decode_tokens; no times
  kInferCept,  // JSON lines: prompt, segments that end in tool calls; no times
  kText2Sql,  // JSON lines: n_stages, calls with step, preds, in, out (HexGen-Flow's traces); no times
  kSessions,  // JSON lines: block_tokens, calls with in, out, blocks, think_s; no session times
  kColumns,  // CSV with a header, or JSON lines, with the columns of ReadOptions::columns
};
constexpr auto NamesOf(WorkloadFormat) {
  return std::to_array<std::string_view>({"auto", "workflow", "azure", "mooncake", "burstgpt", "sharegpt", "infercept",
                                          "text2sql", "sessions", "columns"});
}

// Returns the format of that name. The error lists all names.
absl::StatusOr<WorkloadFormat> ParseWorkloadFormat(std::string_view name);

struct ReadOptions {
  WorkloadFormat format = WorkloadFormat::kAuto;
  // Mapping of CSV columns or JSON keys, such as "arrival=ts:ms,prompt=in,output=out,tenant=user"
  // (docs/reference/workloads.md). If not empty, `format` must be kAuto or kColumns.
  std::string columns = {};
  std::int64_t limit = 0;  // maximum workflows to read, from the start of the file; 0: all
  bool skip_bad_lines = false;  // true: invalid lines are counted in the report; false: the first one is an error
  std::int64_t max_session_tokens = 262'144;  // kSessions: sessions with a longer prompt are skipped and counted
  double rate = 1;  // rate of Poisson arrivals for files without times [1/s]
  std::uint64_t seed = 1;  // seed of these arrivals
  std::int64_t max_bytes = std::int64_t{4} << 30;  // maximum bytes of uncompressed text; protects against gzip bombs
};

struct ReadReport {
  WorkloadFormat format = WorkloadFormat::kAuto;  // detected format
  std::int64_t lines = 0;  // number of data lines that became workflows
  std::int64_t bad_lines = 0;  // number of skipped lines
  std::vector<std::string> bad_line_messages = {};  // errors of the first few skipped lines
  std::int64_t raised_lengths = 0;  // number of lengths of 0 tokens that were read as 1 token
  std::int64_t long_sessions = 0;  // number of skipped sessions
  bool sorted = true;  // false: the file was not sorted by arrival
  bool arrivals_generated = false;  // true: the file has no times
};

// Reads a plain or gzip file, or generates a workload if `path` begins with "gen:" (workload/generate.h). Arrivals are
// sorted (stable) and start at zero. A prompt or output of 0 tokens is counted and becomes 1 token, since a prefill
// always yields a token. `report` may be null. Errors: NotFound or the system's error for the file; ResourceExhausted
// beyond max_bytes; otherwise InvalidArgument with file, line, field and value: `trace.csv:17: ContextTokens: "12x" is
// not a whole number`.
absl::StatusOr<Workload> ReadWorkload(const std::string& path, const ReadOptions& options = {},
                                      ReadReport* report = nullptr);

// Same as ReadWorkload, but parses a text. Messages contain `name` as the file name.
absl::StatusOr<Workload> ParseWorkload(std::string_view text, const std::string& name, const ReadOptions& options = {},
                                       ReadReport* report = nullptr);

}  // namespace takt

#endif  // TAKT_WORKLOAD_READ_H_
