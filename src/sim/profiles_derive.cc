// Derives profiles without measurements from the nearest measured profile.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "fmt/format.h"
#include "profiles_table.h"
#include "takt/base/exact_math.h"

namespace takt {
namespace {

// Returns 0 for a format without a fixed width.
double BytesPerWeight(std::string_view dtype) {
  if (dtype == "bf16" || dtype == "fp16") return 2;
  if (dtype == "fp8" || dtype == "int8") return 1;
  if (dtype == "fp4" || dtype == "int4") return 0.5;
  return 0;
}

// Fixed part of a layer's time with few tokens [ms]: launches and small kernels, which do not depend on the GPU's share
// of the weights. Each value is a median over models: the intercept of this time against weight bytes / bandwidth, tp 1
// to 8, family aic. Vidur's A40 gives 0.031, too.
double FixedMs(const GpuSpec& gpu, std::string_view dtype) {
  if (gpu.generation == "hopper" || gpu.generation == "blackwell") return BytesPerWeight(dtype) > 1 ? 0.023 : 0.041;
  return gpu.generation == "ampere" ? 0.031 : 0;
}

// Work that a model needs from one of its GPUs.
struct Demand {
  double weights = 0;  // bytes per layer; FLOP per token are proportional
  double width = 0;  // LM head up to the vocabulary; attention FLOP per token and token of context
  double kv = 0;  // bytes per token and layer
};

Demand DemandOf(const Profile& p) {
  const double layers = p.cost.layers;
  const double tp = p.cost.tp;
  const double kv_ways = p.kv_heads > 0 && p.kv_heads < p.cost.tp ? p.kv_heads : tp;
  return {.weights = static_cast<double>(p.weight_bytes) / layers / tp,
          .width = p.cost.hidden / tp,
          .kv = static_cast<double>(p.kv_bytes_per_token) / layers / kv_ways};
}

// True if every layer's heads have a key and a value as wide as the model.
bool MultiHead(double kv_bytes_per_token, double layers, double hidden) {
  return std::abs(kv_bytes_per_token - 4 * layers * hidden) < 1;
}

absl::Status ScaleLayers(const Profile& anchor, const GpuSpec& from, const GpuSpec& to, Profile& p) {
  const Demand before = DemandOf(anchor);
  const Demand after = DemandOf(p);
  const double bytes = from.bandwidth_gb_s / to.bandwidth_gb_s;
  const double flop = from.tflops / to.tflops;
  CostModel& c = p.cost;
  double weights = after.weights / before.weights * bytes;
  if (const double whole = c.gemm.offset_ms + c.gemm.floor_ms; c.tp != anchor.cost.tp && whole > 0) {
    const double fixed = std::min(FixedMs(from, anchor.dtype), whole);
    weights = (FixedMs(to, p.dtype) + (whole - fixed) * weights) / whole;
    c.gemm.offset_ms *= weights;
  }
  c.gemm.floor_ms *= weights;
  c.gemm.slope_ms *= after.weights / before.weights * flop;
  c.head.floor_ms *= after.width / before.width * bytes;
  c.head.slope_ms *= after.width / before.width * flop;
  c.decode.per_context_ms *= after.kv / before.kv * bytes;
  c.prefill.per_context_ms *= after.width / before.width * flop;
  if (c.tp == 1) {
    c.all_reduce = {};
  } else if (c.tp != anchor.cost.tp || p.gpu != anchor.gpu) {
    const std::string_view network = internal::AllReduceNetwork(p.gpu);
    // Bridges join pairs of GPUs. The measurement of four GPUs is used for eight.
    const std::int32_t measured = network == "a100_pairwise_nvlink" && c.tp == 8 ? 4 : c.tp;
    c.all_reduce = internal::FindCurve(fmt::format("allreduce/{}/tp{}", network, measured));
    if (c.all_reduce.points.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: no all-reduce was measured on {} of these GPUs", p.id, c.tp));
    }
  }
  return absl::OkStatus();
}

absl::Status ScaleServed(const Profile& anchor, const GpuSpec& from, const GpuSpec& to, Profile& p) {
  if (p.cost.tp != anchor.cost.tp) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a derivation from \"{}\", a fit to served runs, supports only tp {}", p.id, anchor.id, anchor.cost.tp));
  }
  const double bytes = from.bandwidth_gb_s / to.bandwidth_gb_s;
  const double weights = static_cast<double>(p.weight_bytes) / static_cast<double>(anchor.weight_bytes);
  CostModel::Served& s = *p.cost.served;
  s.constant_ms *= weights * bytes;
  s.per_decode_ms *= weights * bytes;
  s.per_context_ms *=
      static_cast<double>(p.kv_bytes_per_token) / static_cast<double>(anchor.kv_bytes_per_token) * bytes;
  s.per_prefill_ms *= weights * from.tflops / to.tflops;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Profile> DeriveProfile(const Profile& anchor, std::string_view gpu, std::string_view model,
                                      std::int32_t tp) {
  const GpuSpec* from = internal::FindGpu(anchor.gpu);
  const GpuSpec* to = gpu.empty() ? from : internal::FindGpu(gpu);
  const ModelSpec* target = model.empty() ? nullptr : internal::FindModel(model);
  if (from == nullptr || to == nullptr) {
    return absl::NotFoundError(fmt::format("no GPU \"{}\"; there are {}", to == nullptr && from ? gpu : anchor.gpu,
                                           internal::Names(GpuSpecs())));
  }
  if (target == nullptr && !model.empty()) {
    return absl::NotFoundError(
        fmt::format("model \"{}\" is unknown; expected one of {}", model, internal::Names(ModelSpecs())));
  }
  if (anchor.cost.pp != 1)
    return absl::InvalidArgumentError(anchor.id + ": has pipeline stages; add them to the derived profile");
  if (!anchor.engine.empty()) {
    return absl::InvalidArgumentError(anchor.id + ": includes all-reduces in gemm; profiles of an engine do not scale");
  }
  if (anchor.weight_bytes <= 0 || anchor.kv_bytes_per_token <= 0) {
    return absl::InvalidArgumentError(anchor.id + ": weight bytes or KV bytes per token are unknown");
  }

  if (target != nullptr && BytesPerWeight(anchor.dtype) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: bytes per weight of \"{}\" are unknown", anchor.id, anchor.dtype));
  }

  Profile p = anchor;
  p.gpu = to->name;
  if (tp > 0) p.cost.tp = tp;
  if (target != nullptr) {
    p.model = target->name;
    p.weight_bytes = static_cast<std::int64_t>(target->parameters * BytesPerWeight(anchor.dtype));
    p.kv_bytes_per_token = target->kv_bytes_per_token;
    p.kv_heads = target->kv_heads;
    p.cost.layers = target->layers;
    p.cost.hidden = target->hidden;
    p.cost.kv_bytes_per_token = static_cast<double>(target->kv_bytes_per_token);
  }
  p.id = fmt::format("derived/{}/{}/{}/tp{}", p.model, p.gpu, p.dtype, p.cost.tp);
  const absl::Status scaled = p.cost.served ? ScaleServed(anchor, *from, *to, p) : ScaleLayers(anchor, *from, *to, p);
  if (!scaled.ok()) return scaled;

  p.gpu_memory_gib = to->memory_gib;
  p.decode_error_pct = -1;
  p.prefill_error_pct = -1;
  p.source = "scaled from " + anchor.id;
  p.derived = true;
  const std::string network(internal::SendRecvNetwork(p.gpu));
  p.send_recv_intra = internal::FindCurve("sendrecv/" + network + "/intra");
  p.send_recv_inter = internal::FindCurve("sendrecv/" + network + "/inter");
  p.kv_capacity_tokens = KvCapacityTokens(p);
  if (const std::string faults = p.cost.Faults(); !faults.empty()) {
    return absl::InvalidArgumentError(p.id + ": " + faults);
  }
  return p;
}

namespace internal {

absl::StatusOr<Profile> DeriveById(std::string_view id, std::span<const Profile> candidates) {
  const std::vector<std::string_view> parts = SplitId(id);
  const std::int32_t tp = NumberAfter("tp", parts.back());
  if (parts.size() != 5 || tp == 0) {
    return absl::NotFoundError(fmt::format("\"{}\" is invalid; expected derived/<model>/<gpu>/<dtype>/tp<N>", id));
  }
  const ModelSpec* model = FindModel(parts[1]);
  if (model == nullptr) {
    return absl::NotFoundError(
        fmt::format("{}: model \"{}\" is unknown; expected one of {}", id, parts[1], Names(ModelSpecs())));
  }
  const GpuSpec* gpu = FindGpu(parts[2]);
  if (gpu == nullptr) {
    return absl::NotFoundError(fmt::format("{}: no GPU \"{}\"; there are {}", id, parts[2], Names(GpuSpecs())));
  }

  const bool dense = model->active_parameters == model->parameters;
  const bool multi_head = MultiHead(static_cast<double>(model->kv_bytes_per_token), model->layers, model->hidden);
  // Distance to a profile: kind of attention, generation, bandwidth, size and tp.
  const auto ratio = [](double a, double b) { return std::abs(exact::Log(a / b)); };
  using Distance = std::tuple<bool, bool, double, double, double>;
  const Profile* nearest = nullptr;
  Distance least;
  for (const Profile& p : candidates) {
    const GpuSpec* its_gpu = FindGpu(p.gpu);
    if (p.dtype != parts[3] || its_gpu == nullptr || p.derived || p.weight_bytes <= 0 || !p.engine.empty()) continue;
    // A mixture of experts is derived only from a served run of its kind.
    if (dense == p.cost.served.has_value()) continue;
    if (!dense && p.kv_bytes_per_token != model->kv_bytes_per_token) continue;
    const double weights = model->parameters * BytesPerWeight(p.dtype);
    const bool its_multi_head = MultiHead(static_cast<double>(p.kv_bytes_per_token), p.cost.layers, p.cost.hidden);
    const Distance distance = {dense && multi_head != its_multi_head, its_gpu->generation != gpu->generation,
                               ratio(its_gpu->bandwidth_gb_s, gpu->bandwidth_gb_s),
                               ratio(static_cast<double>(p.weight_bytes), weights), ratio(p.cost.tp, tp)};
    if (nearest == nullptr || distance < least) nearest = &p, least = distance;
  }
  if (nearest == nullptr) {
    return absl::NotFoundError(fmt::format("{}: no measured profile of this kind has dtype \"{}\"", id, parts[3]));
  }
  return DeriveProfile(*nearest, parts[2], parts[1], tp);
}

}  // namespace internal
}  // namespace takt
