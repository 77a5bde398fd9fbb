#include "tool/lab/scenario.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace takt::tool {
std::vector<Scenario> Scenarios() {
#define TAKT_LIST_SCENARIO(name) name##Scenario(),
  return {TAKT_SCENARIOS(TAKT_LIST_SCENARIO)};
#undef TAKT_LIST_SCENARIO
}

absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  const char* named = std::getenv("TAKT_DATA");
  const fs::path root = !given.empty() ? given : named != nullptr && *named != '\0' ? named : "../shared/data";
  std::error_code ignored;
  if (!given.empty() && !fs::is_directory(root, ignored)) return given;  // reading it tells what is wrong with it
  for (const fs::path& path : {root / folder / file, root / file}) {
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return absl::NotFoundError(fmt::format("neither {} nor {} is there; --data says where {} is",
                                         (root / folder / file).string(), (root / file).string(), file));
}

}  // namespace takt::tool
