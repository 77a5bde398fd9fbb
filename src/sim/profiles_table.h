// The compiled-in profiles as plain rows.
#ifndef TAKT_SRC_SIM_PROFILES_TABLE_H_
#define TAKT_SRC_SIM_PROFILES_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/model/cost_model.h"
#include "takt/sim/profiles.h"

namespace takt::internal {

// Times in ms, as in cost_model.h.
struct LayerRow {
  std::string_view family, model, gpu, dtype;
  std::int32_t tp, layers, hidden;
  std::int64_t weight_bytes, kv_bytes_per_token;
  std::int32_t kv_heads;
  SoftFloor gemm;
  CostModel::Attention prefill, decode;
  SoftFloor head;
  // Network of the all-reduce: "allreduce/<network>/tp<tp>" in CurveRows; empty: part of gemm.
  std::string_view network;
  double decode_error_pct, prefill_error_pct;
  std::string_view engine = {};  // engine and layout, part of the id; empty: not named
  CostModel::Experts experts = {};
  std::int64_t kv_bytes_per_sequence = 0;
};

struct ServedRow {
  std::string_view id, model, gpu, dtype;
  std::int32_t tp;
  std::int64_t weight_bytes, kv_bytes_per_token;
  CostModel::Served cost;
  double error_pct;
  std::int64_t kv_capacity_tokens;
};

struct CurveRow {
  std::string_view name;
  std::span<const TransferCurve::Point> points;
};

std::span<const LayerRow> LayerRows();
std::span<const ServedRow> ServedRows();
std::span<const CurveRow> CurveRows();

// Returns an empty curve if the name is unknown.
TransferCurve FindCurve(std::string_view name);

// Returns the network whose measured pipeline transfers represent this GPU: its own server, otherwise the nearest
// interconnect.
std::string_view SendRecvNetwork(std::string_view gpu);

// Returns the network whose all-reduces represent this GPU.
std::string_view AllReduceNetwork(std::string_view gpu);

// Returns null if the name is unknown.
const GpuSpec* FindGpu(std::string_view name);
const ModelSpec* FindModel(std::string_view name);

// Returns the parts of an id between its slashes.
std::vector<std::string_view> SplitId(std::string_view id);

// Returns the number after these letters: 2 of "tp2" and of "tp2ep4". Returns 0 if there is none.
std::int32_t NumberAfter(std::string_view letters, std::string_view part);

// Derives the profile of "derived/<model>/<gpu>/<dtype>/tp<N>" from the nearest candidate.
absl::StatusOr<Profile> DeriveById(std::string_view id, std::span<const Profile> candidates);

// Returns the names, separated by commas.
template <class Range>
std::string Names(const Range& specs) {
  std::string names;
  for (const auto& spec : specs) names.append(names.empty() ? "" : ", ").append(spec.name);
  return names;
}

// Returns the source of a family's measurements.
std::string SourceOf(std::string_view family);

}  // namespace takt::internal

#endif  // TAKT_SRC_SIM_PROFILES_TABLE_H_
