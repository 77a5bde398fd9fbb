// Counts with a unit. Code that mixes tokens and blocks does not compile.
#ifndef TAKT_BASE_COUNT_H_
#define TAKT_BASE_COUNT_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "takt/config.h"

namespace takt {

// A number of steps or plans that is never reached.
inline constexpr std::int64_t kForever = INT64_MAX;

template <class Tag>
struct Count {
  std::int32_t value = 0;

  static constexpr Count Max() { return {std::numeric_limits<std::int32_t>::max()}; }

  constexpr Count& operator+=(Count other) { return value += other.value, *this; }
  constexpr Count& operator-=(Count other) { return value -= other.value, *this; }
  friend constexpr Count operator+(Count a, Count b) { return a += b; }
  friend constexpr Count operator-(Count a, Count b) { return a -= b; }
  friend constexpr bool operator==(Count, Count) = default;
  friend constexpr auto operator<=>(Count, Count) = default;
};

using Tokens = Count<struct TokensTag>;
using Blocks = Count<struct BlocksTag>;  // KV blocks, each of a fixed number of tokens

}  // namespace takt

#endif  // TAKT_BASE_COUNT_H_
