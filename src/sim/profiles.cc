#include "takt/sim/profiles.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "profiles_table.h"
#include "takt/base/rounded.h"
#include "takt/base/spec_parser.h"

namespace takt {
namespace internal {
namespace {

// Memory as in the calibrated entries. Cards without an entry have the usable share of their generation.
constexpr GpuSpec kGpus[] = {
    {"h100", "hopper", 79.11, 3350, 989},     {"h200", "hopper", 139.8, 4800, 989},
    {"a100", "ampere", 79.15, 2039, 312},     {"a100-40gb", "ampere", 39.575, 1555, 312},
    {"a40", "ampere", 44.4, 696, 150},        {"a6000", "ampere", 44.4, 768, 155},
    {"l40s", "ada", 44.4, 864, 362},          {"l40", "ada", 44.4, 864, 181},
    {"b200", "blackwell", 179.0, 8000, 2250}, {"b300", "blackwell", 268.0, 8000, 2250},
};

constexpr ModelSpec kModels[] = {
    {"gpt-j-6b", 6.05e9, 6.05e9, 28, 4096, 458752, 16},    {"vicuna-13b", 13.0e9, 13.0e9, 40, 5120, 819200, 40},
    {"llama-2-13b", 13.0e9, 13.0e9, 40, 5120, 819200, 40}, {"llama-3-8b", 8.03e9, 8.03e9, 32, 4096, 131072, 8},
    {"llama-3.1-8b", 8.03e9, 8.03e9, 32, 4096, 131072, 8}, {"llama-3.2-3b", 3.21e9, 3.21e9, 28, 3072, 114688, 8},
    {"ministral-8b", 8.02e9, 8.02e9, 36, 4096, 147456, 8}, {"qwen2.5-1.5b", 1.54e9, 1.54e9, 28, 1536, 28672, 2},
    {"qwen2.5-3b", 3.09e9, 3.09e9, 36, 2048, 36864, 2},    {"qwen2.5-7b", 7.61e9, 7.61e9, 28, 3584, 57344, 4},
    {"qwen2.5-14b", 14.7e9, 14.7e9, 48, 5120, 196608, 8},  {"llama-3.1-70b", 70.6e9, 70.6e9, 80, 8192, 327680, 8},
    {"deepseek-671b", 671e9, 37e9, 61, 7168, 70272, 0},
};

template <class T>
const T* FindByName(std::span<const T> specs, std::string_view name) {
  const auto it = std::find_if(specs.begin(), specs.end(), [name](const T& spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

}  // namespace

TransferCurve FindCurve(std::string_view name) {
  const CurveRow* row = FindByName(CurveRows(), name);
  return row ? TransferCurve{{row->points.begin(), row->points.end()}} : TransferCurve{};
}

std::string_view SendRecvNetwork(std::string_view gpu) {
  if (gpu == "h100" || gpu == "h200") return "h100_dgx";
  if (gpu == "a100" || gpu == "a100-40gb") return "a100_dgx";
  return "a40_pairwise_nvlink";
}

std::string_view AllReduceNetwork(std::string_view gpu) {
  if (gpu == "h100" || gpu == "h200") return "h100_sxm";
  if (gpu == "a100" || gpu == "a100-40gb") return "a100_sxm";
  if (gpu == "l40s" || gpu == "l40") return "l40s";
  return "a100_pairwise_nvlink";
}

std::vector<std::string_view> SplitId(std::string_view id) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = id.find('/');
    parts.push_back(id.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    id.remove_prefix(slash + 1);
  }
}

std::int32_t NumberAfter(std::string_view letters, std::string_view part) {
  if (part.substr(0, letters.size()) != letters) return 0;
  std::int32_t number = 0;
  const auto result = std::from_chars(part.data() + letters.size(), part.data() + part.size(), number);
  return result.ec == std::errc() && number > 0 ? number : 0;
}

const GpuSpec* FindGpu(std::string_view name) { return FindByName(GpuSpecs(), name); }
const ModelSpec* FindModel(std::string_view name) { return FindByName(ModelSpecs(), name); }

std::string SourceOf(std::string_view family) {
  if (family == "aic") {
    return "ai-dynamo/aiconfigurator (Apache-2.0), vLLM 0.14 kernels; with an engine in the id: vLLM 0.24.0, SGLang "
           "0.5.14, TensorRT-LLM 1.3.0rc20";
  }
  if (family == "vidur") return "microsoft/vidur (MIT); attention by ai-dynamo/aiconfigurator (Apache-2.0)";
  if (family == "e2e") return "served runs, framework overhead included";
  if (family == "lamps") return "constants of the LAMPS and InferCept papers";
  if (family == "fit")
    return "scaled profile with a constant fitted to runs on GPUs (zetxqx/thunderagent-original-verification)";
  return std::string(family);
}

namespace {

Profile Common(std::string_view family, std::string id, std::string_view model, std::string_view gpu,
               std::string_view dtype, std::int32_t tp, std::int64_t weight_bytes, std::int64_t kv_bytes_per_token) {
  Profile p;
  p.id = std::move(id);
  p.model = model;
  p.gpu = gpu;
  p.dtype = dtype;
  p.cost.tp = tp;
  p.cost.kv_bytes_per_token = static_cast<double>(kv_bytes_per_token);
  p.weight_bytes = weight_bytes;
  p.kv_bytes_per_token = kv_bytes_per_token;
  if (const GpuSpec* spec = FindGpu(gpu)) p.gpu_memory_gib = spec->memory_gib;
  p.source = SourceOf(family);
  const std::string network(SendRecvNetwork(gpu));
  p.send_recv_intra = FindCurve("sendrecv/" + network + "/intra");
  p.send_recv_inter = FindCurve("sendrecv/" + network + "/inter");
  return p;
}

// Front ends of engines: ms per request and us per prompt token. Fitted by bench/served/served_runs.py --fit to the
// times to the first token of served runs, docs/background/served_runs.md.
struct FrontEndRow {
  std::string_view engine;
  double request_ms, token_us;
};
constexpr FrontEndRow kFrontEnds[] = {{"sglang", 245, 9}, {"trtllm", 50, 0}, {"vllm", 50, 3}};

std::string IdOf(const LayerRow& r) {
  return fmt::format("{}/{}/{}/{}/{}{}tp{}", r.family, r.model, r.gpu, r.dtype, r.engine, r.engine.empty() ? "" : "/",
                     r.tp);
}
std::string IdOf(const ServedRow& r) { return std::string(r.id); }

Profile Make(const LayerRow& r) {
  Profile p = Common(r.family, IdOf(r), r.model, r.gpu, r.dtype, r.tp, r.weight_bytes, r.kv_bytes_per_token);
  p.cost.layers = r.layers;
  p.cost.hidden = r.hidden;
  p.cost.gemm = r.gemm;
  p.cost.prefill = r.prefill;
  p.cost.decode = r.decode;
  p.cost.head = r.head;
  p.cost.experts = r.experts;
  p.cost.all_reduce =
      r.engine.empty() ? FindCurve(fmt::format("allreduce/{}/tp{}", r.network, r.tp)) : TransferCurve{{{0, 0}}};
  p.engine = r.engine;
  for (const FrontEndRow& row : kFrontEnds) {
    if (r.engine.substr(0, r.engine.find('-')) == row.engine) {
      p.front_end_ms = row.request_ms;
      p.front_end_token_us = row.token_us;
    }
  }
  p.kv_bytes_per_sequence = r.kv_bytes_per_sequence;
  p.kv_heads = r.kv_heads;
  p.derived = r.family == "fit";
  p.decode_error_pct = r.decode_error_pct;
  p.prefill_error_pct = r.prefill_error_pct;
  p.kv_capacity_tokens = KvCapacityTokens(p);
  return p;
}

Profile Make(const ServedRow& r) {
  Profile p = Common(SplitId(r.id)[0], IdOf(r), r.model, r.gpu, r.dtype, r.tp, r.weight_bytes, r.kv_bytes_per_token);
  p.cost.served = r.cost;
  p.decode_error_pct = r.error_pct;
  p.kv_capacity_tokens = r.kv_capacity_tokens > 0 ? r.kv_capacity_tokens : KvCapacityTokens(p);
  return p;
}

std::string NearestIds(std::string_view id, std::span<const Profile> more) {
  struct Candidate {
    std::size_t distance;
    std::size_t place;
    std::string name;
  };
  std::vector<Candidate> candidates;
  const auto add = [&](std::string name) {
    const std::size_t distance = EditDistance(id, name);
    candidates.push_back({distance, candidates.size(), std::move(name)});
  };
  for (const Profile& p : more) add(p.id);
  for (const LayerRow& row : LayerRows()) add(IdOf(row));
  for (const ServedRow& row : ServedRows()) add(IdOf(row));
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.distance, a.place) < std::tie(b.distance, b.place);
  });
  candidates.resize(std::min<std::size_t>(candidates.size(), 4));
  return Names(candidates);
}

// Returns the profile of an id without pp.
absl::StatusOr<Profile> FindStage(std::string_view id, std::span<const Profile> more) {
  for (const Profile& p : more) {
    if (p.id == id) return p;
  }
  for (const LayerRow& row : LayerRows()) {
    if (IdOf(row) == id) return Make(row);
  }
  for (const ServedRow& row : ServedRows()) {
    if (IdOf(row) == id) return Make(row);
  }
  if (id.substr(0, 8) == "derived/") {
    std::vector<Profile> candidates(more.begin(), more.end());
    for (Profile& p : BuiltInProfiles()) candidates.push_back(std::move(p));
    return DeriveById(id, candidates);
  }
  return absl::NotFoundError(fmt::format("profile \"{}\" is unknown; similar names: {}", id, NearestIds(id, more)));
}

}  // namespace
}  // namespace internal

std::span<const GpuSpec> GpuSpecs() { return internal::kGpus; }
std::span<const ModelSpec> ModelSpecs() { return internal::kModels; }

std::vector<Profile> BuiltInProfiles() {
  std::vector<Profile> profiles;
  for (const internal::LayerRow& row : internal::LayerRows()) profiles.push_back(internal::Make(row));
  for (const internal::ServedRow& row : internal::ServedRows()) profiles.push_back(internal::Make(row));
  return profiles;
}

absl::StatusOr<Profile> FindProfile(std::string_view id, std::span<const Profile> more) {
  const std::string_view last = internal::SplitId(id).back();
  const std::int32_t pp = internal::NumberAfter("pp", last);
  if (pp == 0) return internal::FindStage(id, more);
  absl::StatusOr<Profile> stage = internal::FindStage(id.substr(0, id.size() - last.size() - 1), more);
  return stage.ok() ? WithPipeline(*std::move(stage), pp) : stage;
}

absl::StatusOr<Profile> WithPipeline(Profile profile, std::int32_t pp) {
  CostModel& cost = profile.cost;
  if (cost.pp != 1) return absl::InvalidArgumentError(profile.id + ": already has pipeline stages");
  if (pp < 1) return absl::InvalidArgumentError(fmt::format("{}: pp is {}, must be at least 1", profile.id, pp));
  if (pp == 1) return profile;
  if (cost.served) {
    return absl::InvalidArgumentError(profile.id + ": pipeline stages are unsupported for a fit to served runs");
  }
  if (cost.layers % pp != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} layers are no multiple of pp {}", profile.id, cost.layers, pp));
  }
  constexpr std::int32_t kServerGpus = 8;
  cost.send_recv = cost.tp * pp <= kServerGpus ? profile.send_recv_intra : profile.send_recv_inter;
  cost.pp = pp;
  profile.id += fmt::format("/pp{}", pp);
  if (const std::string faults = cost.Faults(); !faults.empty()) {
    return absl::InvalidArgumentError(profile.id + ": " + faults);
  }
  profile.kv_capacity_tokens = KvCapacityTokens(profile);
  return profile;
}

std::span<const OverheadPreset> OverheadPresets() {
  static constexpr OverheadPreset kPresets[] = {
      {"none", 0, 0},
      {"modern-cudagraph", 0.5, 0.005},
      {"vidur-2024-ray/a100/tp1", 0.968, 0.0487},
      {"vidur-2024-ray/a100/tp2", 7.677, 0.0443},
      {"vidur-2024-ray/a100/tp4", 8.484, 0.0349},
      {"vidur-2024-ray/a40/tp1", 1.603, 0.0659},
      {"vidur-2024-ray/a40/tp2", 9.269, 0.1006},
      {"vidur-2024-ray/a40/tp4", 13.043, 0.1134},
      {"vidur-2024-ray/a40/tp8", 13.987, 0.084},
      {"splitwise-2023-eager/a100/tp2", 9.9, 0},
      {"splitwise-2023-eager/a100/tp4", 16.9, 0},
      {"splitwise-2023-eager/a100/tp8", 28.5, 0},
      {"splitwise-2023-eager/h100/tp2", 10.6, 0},
      {"splitwise-2023-eager/h100/tp4", 14.1, 0},
      {"splitwise-2023-eager/h100/tp8", 20.9, 0},
  };
  return kPresets;
}

absl::StatusOr<Profile> WithOverhead(Profile profile, std::string_view preset) {
  for (const OverheadPreset& p : OverheadPresets()) {
    if (p.name != preset) continue;
    profile.cost.overhead_ms = p.overhead_ms;
    profile.cost.overhead_per_sample_ms = p.overhead_per_sample_ms;
    return profile;
  }
  return absl::NotFoundError(
      fmt::format("overhead preset \"{}\" is unknown; expected one of {}", preset, internal::Names(OverheadPresets())));
}

std::int64_t KvCapacityTokens(const Profile& profile) {
  if (!(profile.gpu_memory_gib > 0) || profile.weight_bytes <= 0 || profile.kv_bytes_per_token <= 0) return 0;
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const double gpus = profile.cost.gpus();
  constexpr double kSequences = 256;
  const double fixed = static_cast<double>(profile.weight_bytes) +
                       Rounded(kSequences * static_cast<double>(profile.kv_bytes_per_sequence));
  const double free = profile.gpu_memory_gib * kGib * 0.9 - 3 * kGib - fixed / gpus;
  const bool copies = profile.kv_heads > 0 && profile.cost.tp > profile.kv_heads;
  const double per_token = static_cast<double>(profile.kv_bytes_per_token) *
                           (copies ? static_cast<double>(profile.cost.tp) / profile.kv_heads : 1);
  const double tokens = free * gpus / per_token;
  return tokens > 0 ? static_cast<std::int64_t>(std::min(tokens, 0x1p53)) : 0;
}

}  // namespace takt
