// Named cost models: the iteration cost and KV capacity of a model, GPU, number format and tensor parallelism.
// docs/reference/engine_profiles.md lists the sources.
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
  std::string dtype;  // number format of weights and activations; the KV cache is bf16
  CostModel cost;  // cost model, including tp and pp

  std::int64_t weight_bytes = 0;  // size of the weights; 0: unknown
  std::int64_t kv_bytes_per_token = 0;  // KV bytes of a token in one copy; 0: unknown
  // KV bytes of a sequence that do not grow with its length: sliding windows and states of linear attention.
  std::int64_t kv_bytes_per_sequence = 0;
  std::int32_t kv_heads = 0;  // number of KV heads; if tp is larger, tensor parallelism replicates KV; 0: never
  double gpu_memory_gib = 0;  // memory of a GPU; 0: unknown
  std::int64_t kv_capacity_tokens = 0;  // size of the KV cache; 0: unknown, or the weights leave no room

  // Mean absolute error of the fit, in %; negative: unknown. The error is of whole iterations; for a fit to served
  // runs, it is of the time per output token.
  double decode_error_pct = -1;
  double prefill_error_pct = -1;

  // Time before a request reaches the engine, for HTTP and tokenising: per request, and per prompt token. `takt replay`
  // uses each unless its option is given.
  double front_end_ms = 0;
  double front_end_token_us = 0;

  std::string engine;  // engine and layout whose kernels were measured, as in the id; empty: not named
  std::string source;  // source of the measurements
  bool derived = false;  // true: scaled from another profile instead of measured
  TransferCurve send_recv_intra;  // transfer between pipeline stages within a server
  TransferCurve send_recv_inter;  // transfer between pipeline stages on different servers
};

// Returns the built-in profiles, in the order of `takt profiles`.
std::vector<Profile> BuiltInProfiles();

// Finds a profile by id, first in `more` (for example from ReadProfiles), then among the built-in ones. An id may end
// in "/ppN" (WithPipeline). "derived/<model>/<gpu>/bf16/tp<N>" derives a profile from the most similar one. NotFound
// lists similar ids.
absl::StatusOr<Profile> FindProfile(std::string_view id, std::span<const Profile> more = {});

// Reads all profiles of a JSON file (format: docs/reference/engine_profiles.md). NotFound: no such file.
// InvalidArgument contains file, entry and field. ResourceExhausted: more than 64 MiB.
absl::StatusOr<std::vector<Profile>> ReadProfiles(const std::string& path);

// Returns the profile with pp pipeline stages. Up to 8 GPUs share one server; with more GPUs, each stage has its own
// server. InvalidArgument: pp does not divide the layers, or the profile is a fit to served runs.
absl::StatusOr<Profile> WithPipeline(Profile profile, std::int32_t pp);

// Adds the overhead of the engine's software per iteration: "none" (default), "modern-cudagraph" (0.5 ms + 0.005 ms per
// sequence), or a measured preset of OverheadPresets().
absl::StatusOr<Profile> WithOverhead(Profile profile, std::string_view preset);

struct OverheadPreset {
  std::string_view name;
  double overhead_ms = 0;
  double overhead_per_sample_ms = 0;
};
std::span<const OverheadPreset> OverheadPresets();

// Scales a profile to another GPU or model (of GpuSpecs and ModelSpecs; empty: unchanged) or tensor parallelism (0:
// unchanged), and marks it `derived`. It scales by bytes / bandwidth and FLOPs / peak; see
// docs/reference/engine_profiles.md. NotFound: unknown GPU or model.
absl::StatusOr<Profile> DeriveProfile(const Profile& anchor, std::string_view gpu, std::string_view model,
                                      std::int32_t tp = 0);

struct GpuSpec {
  std::string_view name;
  std::string_view generation;
  double memory_gib = 0;  // usable memory that the driver reports
  double bandwidth_gb_s = 0;  // memory bandwidth [1e9 bytes/s]
  double tflops = 0;  // peak of dense bf16 operations [1e12/s]
};
std::span<const GpuSpec> GpuSpecs();

struct ModelSpec {
  std::string_view name;
  double parameters = 0;
  double active_parameters = 0;  // parameters that a token uses
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int64_t kv_bytes_per_token = 0;  // KV bytes of a token in bf16
  std::int32_t kv_heads = 0;
};
std::span<const ModelSpec> ModelSpecs();

// Returns the KV capacity in tokens: free memory divided by the bytes per token. Free are 90 % of the memory, minus 3
// GiB per GPU, the weights, and kv_bytes_per_sequence of 256 sequences. If tp exceeds kv_heads, replicated KV counts.
std::int64_t KvCapacityTokens(const Profile& profile);

}  // namespace takt

#endif  // TAKT_SIM_PROFILES_H_
