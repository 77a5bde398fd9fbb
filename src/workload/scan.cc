#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "fmt/format.h"
#include "workload/format.h"

namespace takt {
namespace {

absl::Status Bad(std::string_view value, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} {}", Quoted(value), what));
}

// Reads `digits` digits from the front. Returns -1 if there are fewer.
int TakeDigits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return -1;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool Take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

// Returns the nanoseconds of a decimal fraction with one to nine digits; -1 for any other text.
std::int64_t TakeFraction(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  if (end < 1 || end > 9) return -1;
  std::int64_t nanoseconds = TakeDigits(text, end);
  for (std::size_t i = end; i < 9; ++i) nanoseconds *= 10;
  return nanoseconds;
}

struct Clock {
  std::chrono::minutes offset{0};
  bool ok = false;
};

// Reads the zone of a timestamp: nothing, Z, +HH:MM or -HH:MM.
Clock TakeZone(std::string_view text) {
  if (text.empty() || text == "Z") return {.ok = true};
  const int sign = text[0] == '-' ? -1 : 1;
  if (!Take(text, '+') && !Take(text, '-')) return {};
  const int hours = TakeDigits(text, 2);
  Take(text, ':');
  const int minutes = TakeDigits(text, 2);
  return {std::chrono::minutes(sign * (60 * hours + minutes)),
          hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60 && text.empty()};
}

// Returns the length of the UTF-8 character at the front of `text`; 0 for a control character or invalid UTF-8.
std::size_t ShownBytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return lead >= ' ' && lead <= '~' ? 1 : 0;
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0xa0, 0x800, 0x10000};
  return code >= kLeast[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? bytes : 0;
}

}  // namespace

std::string Quoted(std::string_view value) {
  constexpr std::size_t kMost = 60;
  std::string text;
  std::size_t at = 0;
  while (at < value.size()) {
    const std::size_t bytes = ShownBytes(value.substr(at));
    if (at + std::max<std::size_t>(bytes, 1) > kMost) break;
    if (bytes == 0) text += '?';
    else text += value.substr(at, bytes);
    at += std::max<std::size_t>(bytes, 1);
  }
  return fmt::format("\"{}{}\"", text, at < value.size() ? "..." : "");
}

absl::StatusOr<std::int64_t> ParseWhole(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  if (stop != end || error == std::errc::invalid_argument) return Bad(text, "is invalid; expected a whole number");
  if (text[0] == '-' && (error != std::errc() || value < 0)) return Bad(text, "is negative; expected at least 0");
  if (error != std::errc() || value > most) return Bad(text, fmt::format("is above {}", most));
  return value;
}

absl::StatusOr<Duration> ParseSeconds(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  if (stop != end || error == std::errc::invalid_argument) return Bad(text, "is invalid; expected a number");
  if (std::isnan(value) || std::isinf(value)) return Bad(text, "is invalid; expected a finite number");
  if (value < 0) return Bad(text, "is negative; expected at least 0");
  if (error != std::errc() || value > ToSeconds(kMaxWorkloadTime)) {
    return Bad(text, fmt::format("is invalid; expected 0 to {} s", kMaxWorkloadTime / std::chrono::seconds(1)));
  }
  return FromSeconds(value);
}

absl::StatusOr<TimePoint> ParseTimestamp(std::string_view text) {
  const auto bad = [text] { return Bad(text, "is invalid; expected a time such as 2023-11-16 18:15:46.6805900"); };
  std::string_view rest = text;
  const int year = TakeDigits(rest, 4);
  const bool dash = Take(rest, '-');
  const int month = TakeDigits(rest, 2);
  const bool dash2 = Take(rest, '-');
  const int day = TakeDigits(rest, 2);
  const bool blank = Take(rest, ' ') || Take(rest, 'T');
  const int hour = TakeDigits(rest, 2);
  const bool colon = Take(rest, ':');
  const int minute = TakeDigits(rest, 2);
  const bool colon2 = Take(rest, ':');
  const int second = TakeDigits(rest, 2);
  const std::int64_t fraction = Take(rest, '.') ? TakeFraction(rest) : 0;
  const Clock zone = TakeZone(rest);
  if (!dash || !dash2 || !blank || !colon || !colon2 || fraction < 0 || !zone.ok) return bad();
  if (year < 1970 || year > 2200 || month < 1 || day < 1) return bad();
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return bad();
  const std::chrono::year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return bad();
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  return After(TimePoint(days + std::chrono::hours(hour) + std::chrono::minutes(minute) - zone.offset +
                         std::chrono::seconds(second)),
               Duration(fraction));
}

}  // namespace takt
