#include "tool/command/scheduler_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"

namespace takt::tool {
namespace {

struct Setting {
  std::string_view key;
  std::string values;  // for messages
  bool (*apply)(std::string_view value, ReplayOptions& options);
};

template <class E>
using Names = std::initializer_list<std::pair<std::string_view, E>>;

template <class E>
bool Choose(std::string_view value, E& to, Names<E> names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == value; });
  if (found != names.end()) to = found->second;
  return found != names.end();
}

template <class N>
bool Parse(std::string_view value, N& to, N least, N most = std::numeric_limits<N>::max()) {
  N number{};
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || !(number >= least && number <= most)) return false;
  to = number;
  return true;
}

std::string PauseNames() {
  std::string names;
  for (const PauseInfo& info : PauseInfos()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

const std::vector<Setting>& Settings() {
  using V = std::string_view;
  using O = ReplayOptions;
  static const std::vector<Setting> kSettings = {
      {"order", "running_first or prefill_first",
       [](V v, O& o) {
         return Choose(v, o.scheduler.order,
                       {{"running_first", StepOrder::kRunningFirst}, {"prefill_first", StepOrder::kPrefillFirst}});
       }},
      {"preempt", "off, on_memory or by_rank",
       [](V v, O& o) {
         return Choose(
             v, o.scheduler.preempt,
             {{"off", PreemptMode::kOff}, {"on_memory", PreemptMode::kOnMemory}, {"by_rank", PreemptMode::kByRank}});
       }},
      {"preempt_action", "drop or out",
       [](V v, O& o) {
         return Choose(v, o.scheduler.preempt_action, {{"drop", KvAction::kDrop}, {"out", KvAction::kOut}});
       }},
      {"preempt_margin", "a number", [](V v, O& o) { return Parse(v, o.scheduler.preempt_margin, 0.0); }},
      {"pause", PauseNames(),
       [](V v, O& o) {
         o.pause = v;
         return MakePause(v).ok();
       }},
      {"max_waiting", "a number of requests",
       [](V v, O& o) { return Parse<std::int64_t>(v, o.scheduler.max_waiting, 0); }},
      {"shed", "newest or worst",
       [](V v, O& o) { return Choose(v, o.scheduler.shed, {{"newest", Shed::kNewest}, {"worst", Shed::kWorst}}); }},
      {"kv", "ledger or none",
       [](V v, O& o) { return Choose(v, o.scheduler.kv, {{"ledger", KvMode::kLedger}, {"none", KvMode::kNone}}); }},
      {"kv_block_tokens", "a number of tokens",
       [](V v, O& o) { return Parse(v, o.scheduler.kv_block_tokens.value, 1); }},
      {"kv_watermark", "a share from 0 to 1", [](V v, O& o) { return Parse(v, o.scheduler.kv_watermark, 0.0, 1.0); }},
      {"cpu_blocks", "a number of KV blocks", [](V v, O& o) { return Parse(v, o.scheduler.cpu_blocks.value, 0); }},
      {"admission_window", "a number of requests", [](V v, O& o) { return Parse(v, o.scheduler.admission_window, 1); }},
      {"prefill_tokens", "a number of tokens", [](V v, O& o) { return Parse(v, o.limits.prefill_tokens.value, 1); }},
      {"chunk_tokens", "a number of tokens", [](V v, O& o) { return Parse(v, o.limits.chunk_tokens.value, 1); }},
      {"swap_out", "a number of KV blocks", [](V v, O& o) { return Parse(v, o.limits.swap_out.value, 0); }},
      {"swap_in", "a number of KV blocks", [](V v, O& o) { return Parse(v, o.limits.swap_in.value, 1); }},
      {"swap_overlap", "a share from 0 to 1", [](V v, O& o) { return Parse(v, o.swap_overlap, 0.0, 1.0); }},
      {"overlap", "0, 1 or 2", [](V v, O& o) { return Parse(v, o.overlap, 0, 2); }},
  };
  return kSettings;
}

}  // namespace

std::string SettingNames() {
  std::vector<std::string_view> keys;
  for (const Setting& s : Settings()) keys.push_back(s.key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

absl::StatusOr<bool> ApplySetting(std::string_view setting, ReplayOptions& options) {
  const std::string_view key = setting.substr(0, setting.find('='));
  const auto found = std::find_if(Settings().begin(), Settings().end(), [&](const Setting& s) { return s.key == key; });
  if (found == Settings().end()) return false;
  const std::string_view value = key.size() < setting.size() ? setting.substr(key.size() + 1) : "";
  if (found->apply(value, options)) return true;
  return absl::InvalidArgumentError(fmt::format("--option {}: '{}' is not {}", key, value, found->values));
}

absl::Status GiveOptions(std::vector<std::string>& policies, const std::vector<std::string>& options) {
  for (std::string& spec : policies) {
    absl::StatusOr<AnyPolicy> policy = MakePolicy(spec);
    if (!policy.ok()) return policy.status();
    spec = policy->spec();
  }
  for (const std::string& option : options) {
    absl::Status fault;
    bool known = false;
    for (std::string& spec : policies) {
      const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec, std::span(&option, 1));
      if (policy.ok()) {
        spec = policy->spec();
        known = true;
      } else {
        fault = policy.status();
      }
    }
    if (!known) {
      return absl::InvalidArgumentError(
          fmt::format("--option {}: the scheduler has {}; {}", option, SettingNames(), std::string(fault.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace takt::tool
