// What the options of ranking policies need besides those of others.
#ifndef TAKT_POLICY_POLICY_SPEC_H_
#define TAKT_POLICY_POLICY_SPEC_H_

#include <iterator>
#include <string>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

inline constexpr std::string_view kCountFromNames[] = {"arrival", "first_run"};

inline std::string OptionToText(AgingOptions::CountFrom value) {
  return std::string(kCountFromNames[static_cast<std::size_t>(value)]);
}

inline bool OptionFromText(std::string_view text, const OptionText&, AgingOptions::CountFrom& value) {
  for (std::size_t i = 0; i < std::size(kCountFromNames); ++i) {
    if (text != kCountFromNames[i]) continue;
    value = static_cast<AgingOptions::CountFrom>(i);
    return true;
  }
  return false;
}

}  // namespace takt

#endif  // TAKT_POLICY_POLICY_SPEC_H_
