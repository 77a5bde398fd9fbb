// What a tool's --workload names.
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
  std::string columns;  // which column is what, of a file in none of the formats
  bool skip_bad_lines = false;
  std::int64_t limit = 0;  // only the first so many workflows; 0: all
  std::int64_t draw = 0;   // so many workflows with replacement; 0: as they come
  double length_scale = 1;
  std::int64_t max_session_tokens = 262'144;
  std::uint64_t seed = 1;
};

// The file, the bundled workload or a generated one. Notes on lines that were skipped and the like go to standard
// error.
absl::StatusOr<Workload> LoadWorkload(const WorkloadSource& source);

// As workflow JSONL, packed where the path says so; "-" is standard output.
absl::Status SaveWorkload(const Workload& workload, const std::string& path);

// Says on standard error how many lines of a file were skipped, and of the first few why; nothing where none was.
void NoteBadLines(const std::string& file, std::int64_t lines, const std::vector<std::string>& messages);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_LOAD_WORKLOAD_H_
