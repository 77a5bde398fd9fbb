// Systems and models of the Cascadia scenario.
#ifndef TAKT_BENCH_LAB_CASCADIA_SYSTEMS_H_
#define TAKT_BENCH_LAB_CASCADIA_SYSTEMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/planning/parallelism.h"

namespace takt::tool {

enum class CascadiaCascade : unsigned char { kLlama, kDeepSeek };
inline constexpr CascadiaCascade kCascadiaCascades[] = {CascadiaCascade::kLlama, CascadiaCascade::kDeepSeek};
inline std::string_view Name(CascadiaCascade c) { return c == CascadiaCascade::kLlama ? "Llama" : "DeepSeek"; }

// Free parameters of the engines. The defaults are those of regime takt.
struct CascadiaEngine {
  std::int32_t max_seqs = 256;  // requests that a replica runs at once
  double large_pace = 1;        // time of the 671B model's steps over that of its derived profile
};

// Regime paper. The requests at once are fitted (engine_fit.h). The pace is 16.1 ms a token of a lone request, measured
// with DeepSeek-R1-0528-AWQ on eight H100 (tenstorrent/tt-inference-server, issue 356), over 7.47 ms.
inline constexpr CascadiaEngine kPaperEngine{.max_seqs = 1, .large_pace = 2.16};

// Returns the cascade's models on H100 with all their shapes. The 671B model's profiles are derived
// (bench/lab/cascadia/README.md).
absl::StatusOr<std::vector<ServedModel>> CascadiaModels(CascadiaCascade cascade, const CascadiaEngine& engine);

enum class CascadiaSystem : unsigned char {
  kTakt,  // least p95 of the slowest model, as in the paper
  kTaktPath,  // least p95 along the path that requests take
  kAlternation,  // the paper's algorithm on takt's tables, with a hard floor
  kUniformGpus,  // the same number of GPUs for each model
  kUniformParallelism,  // tp 8 for every replica
  kCascadeServe,
  kRouteLlm,
  kStandAlone,
  kSarathi,  // one model, with tuned chunk sizes
};
inline constexpr std::array<std::string_view, 9> kCascadiaSystemNames = {
    "takt",         "takt, path", "alternation", "uniform GPUs", "uniform parallelism",
    "CascadeServe", "RouteLLM",   "stand-alone", "Sarathi"};
inline constexpr std::size_t kCascadiaSystems = kCascadiaSystemNames.size();

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CASCADIA_SYSTEMS_H_
