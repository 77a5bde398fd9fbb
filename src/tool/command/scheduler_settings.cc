#include "tool/command/scheduler_settings.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "takt/base/spec.h"
#include "takt/base/spec_parser.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"

namespace takt::tool {
namespace {

// Fields that have options of their own, follow from other options, or change no figure.
constexpr std::string_view kNoSettings[] = {"max_running", "reserve_requests", "kv_blocks",       "prefix_cache",
                                            "first_step",  "hash_seed",        "max_step_tokens", "max_step_seqs",
                                            "tokens",      "max_seqs",         "adapters"};

// Calls visit(name, value, text) for every setting but the pause policy.
template <class V>
void VisitSettings(ReplayOptions& options, V&& visit) {
  const auto own = [&](std::string_view name, auto& value, OptionText text) {
    if (name == "kv") text.most = static_cast<double>(KvMode::kLedger);  // the tool has no oracle
    if (std::ranges::find(kNoSettings, name) == std::end(kNoSettings)) visit(name, value, text);
  };
  VisitOptions(options.scheduler, own);
  VisitOptions(options.engine.limits, own);
  VisitOptions(options.engine, own);
}

constexpr std::string_view kPause = "pause";

// Returns the error of an option that no policy accepts. An unknown key is compared with all settings and options.
absl::Status WrongOption(std::string_view option, const std::vector<std::string>& policies, const absl::Status& fault) {
  const std::string_view key = option.substr(0, option.find('='));
  std::string wrong(fault.message());
  if (key.size() == option.size()) {
    wrong = "is invalid; expected K=V";
  } else if (wrong.find("unknown option") != std::string::npos) {
    std::vector<std::string> names;
    ReplayOptions options;
    VisitSettings(options, [&](std::string_view name, auto&, auto&) { names.emplace_back(name); });
    names.emplace_back(kPause);
    for (const PolicyInfo& info : PolicyInfos()) {
      const auto has = [&](const std::string& spec) {
        const std::string_view inner = spec.starts_with("aged(") ? std::string_view(spec).substr(5) : spec;
        return inner.substr(0, inner.find_first_of("(,)")) == info.name || (inner != spec && info.name == "aged");
      };
      if (std::ranges::none_of(policies, has)) continue;
      for (const PolicyInfo::Option& own : info.options) {
        if (std::ranges::find(names, own.name) == names.end()) names.push_back(own.name);
      }
    }
    wrong = internal::Unknown("option", key, names);
  }
  return absl::InvalidArgumentError(fmt::format("--option {}: {}", option, wrong));
}

}  // namespace

std::string SettingNames() {
  ReplayOptions options;
  std::string names;
  VisitSettings(options, [&](std::string_view name, auto&, auto&) { names.append(name).append(", "); });
  return names.append(kPause);
}

absl::StatusOr<bool> ApplySetting(std::string_view setting, ReplayOptions& options) {
  const std::string_view key = setting.substr(0, setting.find('='));
  const std::string_view value = key.size() < setting.size() ? setting.substr(key.size() + 1) : "";
  if (key == kPause) {
    absl::StatusOr<PauseFactory> pause = MakePauseFactory(value);
    if (!pause.ok()) {
      return absl::InvalidArgumentError(fmt::format("--option pause: {}", std::string(pause.status().message())));
    }
    options.pause = *std::move(pause);
    return true;
  }
  bool known = false;
  std::string wish;
  VisitSettings(options, [&](std::string_view name, auto& field, const OptionText& text) {
    if (name != key) return;
    known = true;
    if (!OptionFromText(value, text, field)) wish = WishOf(field, text, value);
  });
  if (wish.empty()) return known;
  return absl::InvalidArgumentError(fmt::format("--option {}: '{}' {}", key, value, wish));
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
    if (!known) return WrongOption(option, policies, fault);
  }
  return absl::OkStatus();
}

}  // namespace takt::tool
