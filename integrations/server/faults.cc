#include "faults.h"

#include <algorithm>

#include "fmt/format.h"
#include "takt/base/from_chars.h"
#include "takt/base/random.h"

namespace serving {

absl::StatusOr<FaultOptions> ParseFaults(std::string_view text) {
  FaultOptions options;
  const std::string whole(text);
  constexpr double kMost = 1e9;  // of times [ms] and seeds
  double sum = 0;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals), digits = part.substr(std::min(equals + 1, part.size()));
    double value = -1;
    const auto [end, error] = takt::internal::FromChars(digits.data(), digits.data() + digits.size(), value);
    const bool number = error == std::errc() && end == digits.data() + digits.size() && value >= 0 && value <= kMost;
    const auto share = static_cast<std::size_t>(takt::FromName<Fault>(name).value_or(Fault::kNone));
    const auto milliseconds = std::chrono::milliseconds(static_cast<std::int64_t>(value));
    if (number && name == "slow_ms") {
      options.slow = milliseconds;
    } else if (number && name == "stall_s") {
      options.stall = std::min<std::chrono::milliseconds>(milliseconds * 1000, std::chrono::hours(24));
    } else if (number && name == "seed") {
      options.seed = static_cast<std::uint64_t>(value);
    } else if (number && value <= 1 && share < options.shares.size()) {
      sum += options.shares[share] = value;
    } else {
      return absl::InvalidArgumentError(
          fmt::format("'{}' is invalid in '{}'; expected a share from 0 to 1 for error, drop, stall, damage or slow, "
                      "or a number for "
                      "slow_ms, stall_s or seed",
                      part, whole));
    }
  }
  if (sum > 1) return absl::InvalidArgumentError(fmt::format("'{}' is invalid: the shares sum to more than 1", whole));
  return options;
}

std::optional<AnswerFault> FaultDraw::Next(std::string_view wanted, int most_pieces) {
  takt::Random random(takt::Mix64(options_.seed + drawn_++));
  AnswerFault drawn;
  double at = random.Uniform();
  drawn.after = static_cast<int>(random.Below(static_cast<std::uint64_t>(std::clamp(most_pieces, 1, 8))));
  if (!wanted.empty()) {
    const std::optional<Fault> named = takt::FromName<Fault>(wanted);
    if (!named) return std::nullopt;
    drawn.fault = *named;
    return drawn;
  }
  for (std::size_t i = 0; i < options_.shares.size(); ++i) {
    if ((at -= options_.shares[i]) >= 0) continue;
    drawn.fault = static_cast<Fault>(i);
    break;
  }
  return drawn;
}

}  // namespace serving
