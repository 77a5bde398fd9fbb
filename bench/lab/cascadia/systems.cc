#include "lab/cascadia/systems.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "takt/sim/profiles.h"

namespace takt::tool {
namespace {

// Latency figures for a 4-bit 671B model on H100, derived from measurements of SGLang's users on eight H200 in fp8.
// Reading weights is scaled by bytes and bandwidth. Prefill is scaled by the peak of bf16 against fp8, because 4-bit
// weights are computed in bf16. Each GPU holds the compressed KV of the model's attention.
absl::StatusOr<Profile> DeepSeek671b() {
  absl::StatusOr<Profile> found = FindProfile("e2e/deepseek-r1/h200/fp8/sglang/tp8");
  if (!found.ok()) return found.status();
  Profile p = *std::move(found);
  constexpr double kWeights4Bit = 378.95e9, kH200 = 4800, kH100 = 3350, kMemoryGib = 79.11;
  const double weights = kWeights4Bit / static_cast<double>(p.weight_bytes);
  const double bandwidth = kH200 / kH100;
  CostModel::Served& served = *p.cost.served;
  served.constant_ms *= weights * bandwidth;
  served.per_decode_ms *= weights * bandwidth;
  served.per_context_ms *= bandwidth;
  served.per_prefill_ms *= 2;
  p.id = "derived/deepseek-671b/h100/int4/tp8";
  p.model = "deepseek-671b";
  p.gpu = "h100";
  p.dtype = "int4";
  p.source = "scaled from e2e/deepseek-r1/h200/fp8/sglang/tp8";
  p.derived = true;
  p.weight_bytes = static_cast<std::int64_t>(kWeights4Bit);
  p.gpu_memory_gib = kMemoryGib;
  p.kv_heads = 1;
  p.kv_capacity_tokens = KvCapacityTokens(p);
  return p;
}

}  // namespace

absl::StatusOr<std::vector<ServedModel>> CascadiaModels(CascadiaCascade cascade) {
  constexpr std::int32_t kTp[] = {1, 2, 4, 8}, kPp[] = {1, 2, 4};
  std::vector<ServedModel> models;
  for (const char* name : {"llama-3.1-8b", "llama-3.1-70b"}) {
    absl::StatusOr<std::vector<Profile>> shapes = FindShapes(fmt::format("aic/{}/h100/bf16", name), kTp, kPp);
    if (!shapes.ok()) return shapes.status();
    models.push_back({.name = name, .shapes = *std::move(shapes)});
  }
  if (cascade == CascadiaCascade::kDeepSeek) {
    absl::StatusOr<Profile> large = DeepSeek671b();
    if (!large.ok()) return large.status();
    models.push_back({.name = "deepseek-671b", .shapes = {*std::move(large)}});
  }
  return models;
}

}  // namespace takt::tool
