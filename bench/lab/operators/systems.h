// What serves the scenario's calls: rivals, as they were tuned, and takt.
#ifndef TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_
#define TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/operators/engine.h"
#include "takt/sim/profiles.h"

namespace takt::tool {

struct NamedSystem {
  std::string label;
  OperatorSystem system;
};

// An order with a fixed limit on the prompt tokens of a step.
NamedSystem StaticBudget(const std::string& policy, std::int32_t prompts, const Profile& profile);
// Rivals that the tuning compares: each order with each limit.
std::vector<NamedSystem> StaticBudgets(const Profile& profile);

// A stand-in for P-PAS (arXiv 2608.15171), written from its abstract and public proposal, not from its code: the limit
// on prompt tokens falls from 16,384 to 2,048 as running and waiting requests grow. It shows nothing about the
// original.
NamedSystem PressureBudget(const std::string& policy, const Profile& profile);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_SYSTEMS_H_
