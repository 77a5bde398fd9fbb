// Limits on the waiting requests of a class. A class is a range of priorities.
#ifndef TAKT_MODEL_CLASS_LIMITS_H_
#define TAKT_MODEL_CLASS_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/spec.h"

namespace takt {

// Limits of the class whose least Request::priority is `priority`. The class ends before the least priority of the next
// class. A request below the first class has no class.
struct ClassLimits {
  std::int32_t priority = std::numeric_limits<std::int32_t>::min();  // least priority of the class
  std::int64_t max_waiting = INT64_MAX;  // maximum waiting requests that have never run
  std::int64_t max_waiting_tokens = INT64_MAX;  // maximum prompt tokens of these requests
  double max_wait = 0;  // maximum wait of a request that has never run [s]; 0: unlimited

  friend constexpr bool operator==(const ClassLimits&, const ClassLimits&) = default;
};

inline constexpr std::size_t kMostClasses = 16;

// Returns "PRIORITY:REQUESTS:TOKENS:SECONDS;...". An unlimited count is empty.
inline std::string OptionToText(const std::vector<ClassLimits>& classes) {
  const auto count = [](std::int64_t n) { return n == INT64_MAX ? std::string() : OptionToText(n); };
  std::string text;
  for (const ClassLimits& c : classes) {
    text += (text.empty() ? "" : ";") + OptionToText(c.priority) + ":" + count(c.max_waiting) + ":" +
            count(c.max_waiting_tokens) + ":" + OptionToText(c.max_wait);
  }
  return text;
}

// Reads the same text. Missing and empty numbers mean unlimited; only the priority is required.
inline bool OptionFromText(std::string_view text, const OptionText&, std::vector<ClassLimits>& value) {
  const auto take = [](std::string_view& from, char end) {
    const std::string_view part = from.substr(0, from.find(end));
    from.remove_prefix(part.size() < from.size() ? part.size() + 1 : from.size());
    return part;
  };
  const auto number = [](std::string_view part, auto& to, const OptionText& bounds) {
    return part.empty() || OptionFromText(part, bounds, to);
  };
  std::vector<ClassLimits> read;
  while (!text.empty()) {
    std::string_view one = take(text, ';');
    ClassLimits c;
    const std::string_view priority = take(one, ':');
    const OptionText any{"", "", static_cast<double>(std::numeric_limits<std::int32_t>::min())};
    if (priority.empty() || !OptionFromText(priority, any, c.priority)) return false;
    if (!number(take(one, ':'), c.max_waiting, {}) || !number(take(one, ':'), c.max_waiting_tokens, {})) return false;
    if (!number(take(one, ':'), c.max_wait, {}) || !one.empty()) return false;
    read.push_back(c);
  }
  value = std::move(read);
  return true;
}

// Returns true if the classes are sorted by priority, differ, and have valid limits.
inline bool Within(const std::vector<ClassLimits>& classes, const OptionText&) {
  if (classes.size() > kMostClasses) return false;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const ClassLimits& c = classes[i];
    if (i > 0 && c.priority <= classes[i - 1].priority) return false;
    if (c.max_waiting < 0 || c.max_waiting_tokens < 0 || !(c.max_wait >= 0)) return false;
  }
  return true;
}

inline std::string WishOf(const std::vector<ClassLimits>&, const OptionText&) {
  return "must be PRIORITY:REQUESTS:TOKENS:SECONDS;... with rising priorities, limits of at least 0, and at most 16 "
         "classes";
}
inline std::string WishOf(const std::vector<ClassLimits>& classes, const OptionText& bounds, std::string_view) {
  return WishOf(classes, bounds);
}

}  // namespace takt

#endif  // TAKT_MODEL_CLASS_LIMITS_H_
