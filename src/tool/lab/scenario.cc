#include "tool/lab/scenario.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr Scenario kScenarios[] = {
    {"aging", "shortest total job first with a starvation counter: from which load on it is first come, first served",
     RunAging},
    {"cascadia", "cascades of models: GPUs, replicas and thresholds, against six rivals", RunCascadia},
    {"chimera", "agentic workflows on models of unlike sizes: vLLM, MLFQ, LTR and Chimera, latency against score",
     RunChimera},
    {"default", "the default order against every rival, each on its own workload, and all of them on one GPU",
     RunDefault, true},
    {"default-sensitivity", "the default order with its constants halved and doubled, and in other surroundings",
     RunDefaultSensitivity, true},
    {"hexgen-flow", "text-to-SQL workflows under deadlines on unequal GPUs: vLLM, VTC, QLM and HexGen-Flow",
     RunHexgenFlow},
    {"kairos", "agents that share a model: Parrot, Ayo and Kairos, from no queue to deep overload", RunKairos},
    {"lamps", "requests that call tools: vLLM, InferCept and LAMPS at 1 to 10 requests a second", RunLamps},
};

}  // namespace

std::span<const Scenario> Scenarios() { return kScenarios; }

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
