// Loads the workload that --workload names.
#ifndef TAKT_SRC_TOOL_RUN_LOAD_WORKLOAD_H_
#define TAKT_SRC_TOOL_RUN_LOAD_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/workload/workload.h"

namespace takt::tool {

struct WorkloadSource {
  std::string file = "bundled";  // or "gen:..."
  std::string format = "auto";
  std::string columns;  // mapping of columns, for a file in no known format
  bool skip_bad_lines = false;
  std::int64_t limit = 0;  // number of workflows read; 0: all
  std::int64_t draw = 0;  // number of workflows drawn with replacement; 0: the workload's own
  double length_scale = 1;
  std::int64_t adapters = 0;  // number of LoRA adapters drawn for the workflows; 0: the workload's own
  double adapter_zipf = 1;  // exponent of their Zipf distribution
  std::int64_t max_session_tokens = 262'144;
  std::uint64_t seed = 1;
};

// Loads a file, the bundled workload or a generated one. Prints notes, such as skipped lines, on standard error.
absl::StatusOr<Workload> LoadWorkload(const WorkloadSource& source);

// Writes workflow JSONL, compressed if the path ends in .gz; "-" is standard output.
absl::Status SaveWorkload(const Workload& workload, const std::string& path);

// Prints the number of skipped lines and the first reasons on standard error. Prints nothing if none was skipped.
void NoteBadLines(const std::string& file, std::int64_t lines, const std::vector<std::string>& messages);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_LOAD_WORKLOAD_H_
