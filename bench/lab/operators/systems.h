// Systems that serve the scenario's calls: tuned rivals, and takt.
#ifndef TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_
#define TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/operators/engine.h"
#include "takt/sim/profiles.h"

namespace takt::tool {

inline constexpr std::int32_t kTunedPrompts = 432;  // best fixed limit on prompt tokens of a step (tuning.cc)

struct NamedSystem {
  std::string label;
  OperatorSystem system;
};

// An order with a fixed limit on the prompt tokens of a step.
NamedSystem StaticBudget(const std::string& policy, std::int32_t prompts, const Profile& profile);
// Rivals that the tuning compares: each order with each limit.
std::vector<NamedSystem> StaticBudgets(const Profile& profile);

// A stand-in for P-PAS (arXiv 2608.15171), written from its abstract and public proposal, not from its code. The limit
// on prompt tokens falls from 16,384 to 2,048 as running and waiting requests grow. It shows nothing about the
// original.
NamedSystem PressureBudget(const std::string& policy, const Profile& profile);

// takt: the order, with each request's own pace and no fixed limit.
NamedSystem Paced(const std::string& label, const std::string& policy, const Profile& profile);

// An order for tenants, with the fixed limit of the tuning, or paced.
NamedSystem ForTenants(const std::string& label, const std::string& policy, bool paced, const Profile& profile);

// An order of classes, paced; batch and all later classes use at most `ceiling` of the engine.
NamedSystem WithCeiling(const std::string& label, const std::string& policy, double ceiling, const Profile& profile);

// Systems on an engine with `kv_blocks` of 16 tokens.
NamedSystem OnLittleKv(const std::string& label, std::int32_t kv_blocks, double reserve);
NamedSystem WithWatermark(const std::string& label, std::int32_t kv_blocks, double watermark);

// At most `waiting` requests wait; refused clients come back once, at the time that they get.
NamedSystem WithBoundedQueue(const std::string& label, std::int64_t waiting, const Profile& profile);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_
