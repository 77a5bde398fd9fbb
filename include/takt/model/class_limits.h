// Limits on the requests of a class. A class is a range of priorities.
#ifndef TAKT_MODEL_CLASS_LIMITS_H_
#define TAKT_MODEL_CLASS_LIMITS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "takt/base/spec.h"

namespace takt {

// Limits of the class whose least Request::priority is `priority`. The class ends before the least priority of the next
// class. A request below the first class has no class.
struct ClassLimits {
  std::int32_t priority = std::numeric_limits<std::int32_t>::min();  // least priority of the class
  std::int64_t max_waiting = INT64_MAX;  // maximum waiting requests that have never run
  std::int64_t max_waiting_tokens = INT64_MAX;  // maximum prompt tokens of these requests
  double max_wait = 0;  // maximum wait of a request that has never run [s]; 0: unlimited
  // Maximum share of the engine that running requests of this class and of all later classes use together. It counts
  // sequences of a step, and KV blocks with the ledger. So a burst of an earlier class finds room. 1: no ceiling. A
  // request is admitted if no request of its class or of a later class runs. Without effect in a router.
  double ceiling = 1;
  // Time after the last arrival of a request of an earlier class for which the ceiling holds [s]; 0: always.
  double soft = 0;

  friend constexpr bool operator==(const ClassLimits&, const ClassLimits&) = default;
};

inline constexpr std::size_t kMostClasses = 16;

// The classes of a queue, sorted by priority. At most kMostClasses; a longer list is invalid and keeps the first ones.
class ClassLimitsList {
 public:
  using value_type = ClassLimits;

  constexpr ClassLimitsList() = default;
  constexpr ClassLimitsList(std::initializer_list<ClassLimits> classes) {
    for (const ClassLimits& c : classes) push_back(c);
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr bool too_long() const { return too_long_; }
  constexpr const ClassLimits* begin() const { return classes_.data(); }
  constexpr const ClassLimits* end() const { return classes_.data() + size_; }
  constexpr ClassLimits* begin() { return classes_.data(); }
  constexpr ClassLimits* end() { return classes_.data() + size_; }
  constexpr const ClassLimits& operator[](std::size_t i) const { return classes_[i]; }
  constexpr void clear() { *this = {}; }
  constexpr void push_back(const ClassLimits& c) {
    if (size_ < kMostClasses) classes_[size_++] = c;
    else too_long_ = true;
  }
  // Returns the index of a priority's class; -1: none.
  constexpr int IndexOf(std::int32_t priority) const {
    int i = -1;
    while (i + 1 < static_cast<int>(size_) && classes_[static_cast<std::size_t>(i + 1)].priority <= priority) ++i;
    return i;
  }

  friend constexpr bool operator==(const ClassLimitsList& a, const ClassLimitsList& b) {
    return std::ranges::equal(a, b) && a.too_long_ == b.too_long_;
  }

 private:
  std::array<ClassLimits, kMostClasses> classes_ = {};
  std::size_t size_ = 0;
  bool too_long_ = false;
};

// Returns "PRIORITY:REQUESTS:TOKENS:SECONDS:CEILING:SOFT;...". An unlimited count is empty. Without a ceiling, both
// last parts are left out.
inline std::string OptionToText(const ClassLimitsList& classes) {
  const auto count = [](std::int64_t n) { return n == INT64_MAX ? std::string() : OptionToText(n); };
  std::string text;
  for (const ClassLimits& c : classes) {
    if (!text.empty()) text += ';';
    text += OptionToText(c.priority) + ":" + count(c.max_waiting) + ":" + count(c.max_waiting_tokens) + ":" +
            OptionToText(c.max_wait);
    if (c.ceiling == 1 && c.soft == 0) continue;
    text.append(":").append(OptionToText(c.ceiling)).append(":").append(OptionToText(c.soft));
  }
  return text;
}

// Reads the same text. Missing and empty numbers have their defaults; only the priority is required.
inline bool OptionFromText(std::string_view text, const OptionText&, ClassLimitsList& value) {
  const auto take = [](std::string_view& from, char end) {
    const std::string_view part = from.substr(0, from.find(end));
    from.remove_prefix(part.size() < from.size() ? part.size() + 1 : from.size());
    return part;
  };
  const auto number = [](std::string_view part, auto& to, const OptionText& bounds) {
    return part.empty() || OptionFromText(part, bounds, to);
  };
  ClassLimitsList read;
  while (!text.empty()) {
    std::string_view one = take(text, ';');
    ClassLimits c;
    const std::string_view priority = take(one, ':');
    const OptionText any{"", "", static_cast<double>(std::numeric_limits<std::int32_t>::min())};
    if (priority.empty() || !OptionFromText(priority, any, c.priority)) return false;
    if (!number(take(one, ':'), c.max_waiting, {}) || !number(take(one, ':'), c.max_waiting_tokens, {})) return false;
    if (!number(take(one, ':'), c.max_wait, {}) || !number(take(one, ':'), c.ceiling, {"", "", 0, 1})) return false;
    if (!number(take(one, ':'), c.soft, {}) || !one.empty()) return false;
    read.push_back(c);
  }
  value = read;
  return true;
}

// Returns true if the classes are sorted by priority, differ, and have valid limits.
inline bool Within(const ClassLimitsList& classes, const OptionText&) {
  if (classes.too_long()) return false;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const ClassLimits& c = classes[i];
    if (i > 0 && c.priority <= classes[i - 1].priority) return false;
    if (c.max_waiting < 0 || c.max_waiting_tokens < 0 || !(c.max_wait >= 0)) return false;
    if (!(c.ceiling >= 0 && c.ceiling <= 1) || !(c.soft >= 0)) return false;
  }
  return true;
}

inline std::string WishOf(const ClassLimitsList&, const OptionText&) {
  return "must be PRIORITY:REQUESTS:TOKENS:SECONDS:CEILING:SOFT;... with rising priorities, limits of at least 0, "
         "ceilings of 0 to 1, and at most 16 classes";
}
inline std::string WishOf(const ClassLimitsList& classes, const OptionText& bounds, std::string_view) {
  return WishOf(classes, bounds);
}

}  // namespace takt

#endif  // TAKT_MODEL_CLASS_LIMITS_H_
