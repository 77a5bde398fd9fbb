#include "lab/operators/systems.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr Tokens kMostStep{16'384};

OperatorSystem Plain(const std::string& policy, const Profile& profile) {
  OperatorSystem system{.policy = policy};
  system.options.kv_blocks = {static_cast<std::int32_t>(profile.kv_capacity_tokens / 16)};
  system.limits = {.tokens = kMostStep, .max_seqs = 256};
  return system;
}

}  // namespace

NamedSystem StaticBudget(const std::string& policy, std::int32_t prompts, const Profile& profile) {
  NamedSystem named{fmt::format("{}, {} prompt tokens", policy, prompts), Plain(policy, profile)};
  named.system.limits.prefill_tokens = {prompts};
  return named;
}

std::vector<NamedSystem> StaticBudgets(const Profile& profile) {
  std::vector<NamedSystem> all;
  for (const char* policy : {"fcfs", "priority", "edf", "urgency"}) {
    for (const std::int32_t prompts : {64, 128, 256, 320, 384, 416, 432, 448, 512, 1024, 2048, 8192}) {
      all.push_back(StaticBudget(policy, prompts, profile));
    }
  }
  return all;
}

NamedSystem PressureBudget(const std::string& policy, const Profile& profile) {
  NamedSystem named{fmt::format("{}, limit by pressure (stand-in)", policy), Plain(policy, profile)};
  named.system.prefill = [](const StepPressure& p) {
    const double pressure = std::clamp(static_cast<double>(p.running + p.waiting) / 64, 0.0, 1.0);
    return static_cast<std::int32_t>(std::round(16'384 * std::pow(2'048.0 / 16'384, pressure)));
  };
  return named;
}

NamedSystem Paced(const std::string& label, const std::string& policy, const Profile& profile) {
  NamedSystem named{label, Plain(policy, profile)};
  named.system.paces = true;
  return named;
}

NamedSystem ForTenants(const std::string& label, const std::string& policy, bool paced, const Profile& profile) {
  NamedSystem named = paced ? Paced(label, policy, profile) : StaticBudget(policy, kTunedPrompts, profile);
  named.label = label;
  return named;
}

NamedSystem WithCeiling(const std::string& label, const std::string& policy, double ceiling, const Profile& profile) {
  NamedSystem named = Paced(label, policy, profile);
  if (ceiling < 1) named.system.options.class_limits = {{.priority = 0}, {.priority = 2, .ceiling = ceiling}};
  return named;
}

NamedSystem OnLittleKv(const std::string& label, std::int32_t kv_blocks, double reserve) {
  NamedSystem named{label, {.policy = "fcfs"}};
  named.system.options.kv_blocks = {kv_blocks};
  named.system.options.reserve_output = reserve;
  return named;
}

NamedSystem WithWatermark(const std::string& label, std::int32_t kv_blocks, double watermark) {
  NamedSystem named = OnLittleKv(label, kv_blocks, 0);
  named.system.options.kv_watermark = watermark;
  return named;
}

NamedSystem WithBoundedQueue(const std::string& label, std::int64_t waiting, const Profile& profile) {
  NamedSystem named = StaticBudget("fcfs", kTunedPrompts, profile);
  named.label = label;
  named.system.options.max_waiting = waiting;
  named.system.most_tries = 2;
  return named;
}

}  // namespace takt::tool
