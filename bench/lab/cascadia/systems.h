// Systems and models of the Cascadia scenario.
#ifndef TAKT_BENCH_LAB_CASCADIA_SYSTEMS_H_
#define TAKT_BENCH_LAB_CASCADIA_SYSTEMS_H_

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/planning/parallelism.h"

namespace takt::tool {

enum class CascadiaCascade : unsigned char { kLlama, kDeepSeek };
inline constexpr CascadiaCascade kCascadiaCascades[] = {CascadiaCascade::kLlama, CascadiaCascade::kDeepSeek};
inline std::string_view Name(CascadiaCascade c) { return c == CascadiaCascade::kLlama ? "Llama" : "DeepSeek"; }

// Returns the cascade's models on H100 with all their shapes. The 671B model's profile is derived
// (bench/lab/README.md).
absl::StatusOr<std::vector<ServedModel>> CascadiaModels(CascadiaCascade cascade);

enum class CascadiaSystem : unsigned char {
  kTakt,      // least p95 of the slowest model, as in the paper
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
