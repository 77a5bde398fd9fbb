// Cost models with a name: what a model, a GPU, a number format and a tensor parallelism cost per iteration, and how
// much KV they hold. docs/reference/engine_profiles.md tells where the numbers come from.
#ifndef TAKT_SIM_PROFILES_H_
#define TAKT_SIM_PROFILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/model/cost_model.h"

namespace takt {

struct Profile {
  std::string id;  // "<family>/<model>/<gpu>/<dtype>[/<engine>]/tp<N>[/pp<N>]"
  std::string model;
  std::string gpu;
  std::string dtype;  // of weights and activations; the KV cache is bf16
  CostModel cost;     // with tp and pp

  std::int64_t weight_bytes = 0;        // 0: unknown
  std::int64_t kv_bytes_per_token = 0;  // one copy; 0: unknown
  std::int32_t kv_heads = 0;            // beyond so many GPUs tensor parallelism copies KV; 0: it never does
  double gpu_memory_gib = 0;            // 0: unknown
  std::int64_t kv_capacity_tokens = 0;  // 0: the weights leave no room, or one of the above is unknown

  // Mean absolute error against what it was fitted to, in %; negative: not known. Of whole iterations, of the time
  // per output token for a fit to served runs.
  double decode_error_pct = -1;
  double prefill_error_pct = -1;

  std::string source;    // whose measurements
  bool derived = false;  // scaled from another profile, not fitted to measurements
  TransferCurve send_recv_intra;  // between pipeline stages in one server
  TransferCurve send_recv_inter;  // and across servers
};

// The profiles that are compiled in, in the order of `takt profiles`.
std::vector<Profile> BuiltInProfiles();

// By id, among `more` (say, from ReadProfiles) and then those compiled in. An id may end in "/ppN" (WithPipeline),
// and "derived/<model>/<gpu>/bf16/tp<N>" asks for one that Derive makes from the nearest of them.
// NotFound names the nearest ids.
absl::StatusOr<Profile> FindProfile(std::string_view id, std::span<const Profile> more = {});

// All profiles of a JSON file in the format that docs/reference/engine_profiles.md describes. NotFound: no such file;
// InvalidArgument names file, entry and field; ResourceExhausted beyond 64 MiB.
absl::StatusOr<std::vector<Profile>> ReadProfiles(const std::string& path);

// The same with pp pipeline stages: one server up to 8 GPUs, beyond that one stage per hop across servers.
// InvalidArgument: the layers do not divide by pp, or the profile is a fit to served runs.
absl::StatusOr<Profile> WithPipeline(Profile profile, std::int32_t pp);

// Adds what the engine's own software costs per iteration: "none" (the default everywhere), "modern-cudagraph"
// (0.5 ms + 0.005 ms per sequence), or a measured one; OverheadPresets() lists them.
absl::StatusOr<Profile> WithOverhead(Profile profile, std::string_view preset);

struct OverheadPreset {
  std::string_view name;
  double overhead_ms = 0;
  double overhead_per_sample_ms = 0;
};
std::span<const OverheadPreset> OverheadPresets();

// Scales an anchor to another GPU or model (of GpuSpecs and ModelSpecs; empty: the anchor's own) or tensor
// parallelism (0: the anchor's own) by bytes per bandwidth and FLOP per peak, and marks it `derived`;
// docs/reference/engine_profiles.md has the rule. NotFound: no such GPU or model.
absl::StatusOr<Profile> DeriveProfile(const Profile& anchor, std::string_view gpu, std::string_view model,
                                      std::int32_t tp = 0);

struct GpuSpec {
  std::string_view name;
  std::string_view generation;
  double memory_gib = 0;       // usable by the driver's account
  double bandwidth_gb_s = 0;   // of its memory, 1e9 bytes/s
  double tflops = 0;           // bf16, dense
};
std::span<const GpuSpec> GpuSpecs();

struct ModelSpec {
  std::string_view name;
  double parameters = 0;
  double active_parameters = 0;  // per token
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int64_t kv_bytes_per_token = 0;  // bf16
  std::int32_t kv_heads = 0;
};
std::span<const ModelSpec> ModelSpecs();

// Tokens of KV that fit: 0.9 of the memory, less 3 GiB per GPU and the weights, over the bytes per token; where tp
// exceeds the KV heads, copies count.
std::int64_t KvCapacityTokens(const Profile& profile);

}  // namespace takt

#endif  // TAKT_SIM_PROFILES_H_
