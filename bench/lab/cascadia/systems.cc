#include "lab/cascadia/systems.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "takt/sim/profiles.h"

namespace takt::tool {
namespace {

// Shapes of a 4-bit 671B model on H100, derived from measurements of SGLang's users on eight H200 in fp8. Reading
// weights is scaled by bytes and bandwidth. Prefill is scaled by the peak of bf16 against fp8, because 4-bit weights
// are computed in bf16. Each GPU holds the compressed KV of the model's attention.
//
// Fewer GPUs per stage read and compute proportionally more. The fit to served runs has no layers, so that its time is
// divided among kUnits equal units, which are the layers of the pipeline.
absl::StatusOr<std::vector<Profile>> DeepSeek671b(double pace, const Profile& network) {
  absl::StatusOr<Profile> found = FindProfile("e2e/deepseek-r1/h200/fp8/sglang/tp8");
  if (!found.ok()) return found.status();
  constexpr double kWeights4Bit = 378.95e9, kH200 = 4800, kH100 = 3350, kMemoryGib = 79.11;
  constexpr std::int32_t kMeasuredTp = 8, kUnits = 12, kHidden = 7168;
  const CostModel::Served served = *found->cost.served;
  const double weights = kWeights4Bit / static_cast<double>(found->weight_bytes);
  const double bandwidth = kH200 / kH100;
  std::vector<Profile> shapes;
  for (const auto& [tp, pp] : {std::pair{8, 1}, std::pair{4, 2}, std::pair{4, 3}, std::pair{8, 2}}) {
    Profile p = *found;
    const double unit = pace * kMeasuredTp / tp / kUnits;
    p.cost.served.reset();
    p.cost.layers = kUnits;
    p.cost.hidden = kHidden;
    p.cost.tp = tp;
    p.cost.all_reduce.points = {{0, 0}};  // included in the measured steps
    p.cost.gemm.floor_ms = served.constant_ms * weights * bandwidth * unit;
    p.cost.prefill.per_token_ms = served.per_prefill_ms * 2 * unit;
    p.cost.decode.per_token_ms = served.per_decode_ms * weights * bandwidth * unit;
    p.cost.decode.per_context_ms = served.per_context_ms * bandwidth * unit;
    p.id = fmt::format("derived/deepseek-671b/h100/int4/tp{}", tp);
    p.model = "deepseek-671b";
    p.gpu = "h100";
    p.dtype = "int4";
    p.source = "scaled from " + found->id;
    p.derived = true;
    p.weight_bytes = static_cast<std::int64_t>(kWeights4Bit);
    p.gpu_memory_gib = kMemoryGib;
    p.kv_heads = 1;
    p.kv_capacity_tokens = KvCapacityTokens(p);
    p.send_recv_intra = network.send_recv_intra;
    p.send_recv_inter = network.send_recv_inter;
    absl::StatusOr<Profile> shape = WithPipeline(std::move(p), pp);
    if (!shape.ok()) return shape.status();
    shapes.push_back(*std::move(shape));
  }
  return shapes;
}

}  // namespace

absl::StatusOr<std::vector<ServedModel>> CascadiaModels(CascadiaCascade cascade, const CascadiaEngine& engine) {
  constexpr std::int32_t kTp[] = {1, 2, 4, 8}, kPp[] = {1, 2, 4};
  std::vector<ServedModel> models;
  for (const char* name : {"llama-3.1-8b", "llama-3.1-70b"}) {
    absl::StatusOr<std::vector<Profile>> shapes = FindShapes(fmt::format("aic/{}/h100/bf16", name), kTp, kPp);
    if (!shapes.ok()) return shapes.status();
    models.push_back({.name = name, .shapes = *std::move(shapes)});
  }
  if (cascade == CascadiaCascade::kDeepSeek) {
    absl::StatusOr<std::vector<Profile>> large = DeepSeek671b(engine.large_pace, models.back().shapes.front());
    if (!large.ok()) return large.status();
    models.push_back({.name = "deepseek-671b", .shapes = *std::move(large)});
  }
  for (ServedModel& m : models) m.max_seqs = engine.max_seqs;
  return models;
}

}  // namespace takt::tool
