#include "tool/run/number_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "fmt/format.h"

namespace takt::tool {
namespace {

// Groups digits by thousands. Decimals stay unchanged.
std::string GroupDigits(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  std::size_t at = std::min(digits.find('.'), digits.size());
  while (at > first + 3) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace

int Decimals(double number) {
  const double size = std::abs(number);
  return size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
}

std::string Fixed(double number, int decimals) {
  if (!std::isfinite(number)) return std::isnan(number) ? "-" : number > 0 ? "inf" : "-inf";
  return GroupDigits(fmt::format("{:.{}f}", number, decimals));
}

std::string Grouped(long long number) { return GroupDigits(std::to_string(number)); }

std::string Short(double number) { return Fixed(number, Decimals(number)); }

std::string Counted(long long number, std::string_view noun) {
  return fmt::format("{} {}{}", Grouped(number), noun, number == 1 ? "" : "s");
}

}  // namespace takt::tool
