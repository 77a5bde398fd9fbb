// The total order of requests: a policy's key, then arrival, then id.
#ifndef TAKT_BASE_FULL_KEY_H_
#define TAKT_BASE_FULL_KEY_H_

#include <bit>
#include <compare>
#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt::internal {

// Maps a double to an integer with the same order; both zeros map to one value.
constexpr std::uint64_t OrderedBits(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return (bits >> 63) != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
}

// A request with a smaller key runs sooner. The order is total even for NaN keys, which come last.
struct FullKey {
  double key = 0;
  TimePoint arrival{};
  RequestId id;

  friend constexpr bool operator==(const FullKey& a, const FullKey& b) { return (a <=> b) == 0; }
  friend constexpr std::strong_ordering operator<=>(const FullKey& a, const FullKey& b) {
    if (const auto order = OrderedBits(a.key) <=> OrderedBits(b.key); order != 0) return order;
    if (const auto order = a.arrival <=> b.arrival; order != 0) return order;
    return a.id <=> b.id;
  }
};

// The rank of a request that is not promoted: its group's key (as OrderedBits; 0 without groups), then its own key.
struct FullRank {
  std::uint64_t group = 0;
  FullKey key = {};

  friend constexpr auto operator<=>(const FullRank&, const FullRank&) = default;
};

// The rank of a running request as a victim; the request of larger rank is preempted sooner.
struct VictimRank {
  bool unpromoted = true;
  FullRank rank = {};

  friend constexpr auto operator<=>(const VictimRank&, const VictimRank&) = default;
};

// A FullKey as three integers, which heaps compare fast.
struct PackedKey {
  std::uint64_t key = 0;
  std::int64_t arrival = 0;
  std::uint64_t id = 0;

  constexpr PackedKey() = default;
  constexpr PackedKey(const FullKey& k)  // NOLINT: implicit conversion of the same value
      : key(OrderedBits(k.key)), arrival(k.arrival.time_since_epoch().count()), id(k.id.value) {}
  constexpr PackedKey(double k, TimePoint at, RequestId request) : PackedKey(FullKey{k, at, request}) {}

  // Returns a key that ranks by an exact time, which a double does not represent.
  static constexpr PackedKey OfTime(TimePoint at, TimePoint arrival, RequestId request) {
    PackedKey key(FullKey{0, arrival, request});
    key.key = static_cast<std::uint64_t>(at.time_since_epoch().count()) ^ kSign;
    return key;
  }
  constexpr TimePoint time() const { return TimePoint(Duration(static_cast<std::int64_t>(key ^ kSign))); }

  // Returns a key with the reverse order.
  constexpr PackedKey Reversed() const {
    PackedKey reversed;
    reversed.key = ~key, reversed.arrival = ~arrival, reversed.id = ~id;
    return reversed;
  }

  constexpr std::uint64_t lead() const { return key; }
  friend constexpr bool operator<(const PackedKey& a, const PackedKey& b) {
    if (a.key != b.key) return a.key < b.key;
    if (a.arrival != b.arrival) return a.arrival < b.arrival;
    return a.id < b.id;
  }

 private:
  static constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
};

}  // namespace takt::internal

#endif  // TAKT_BASE_FULL_KEY_H_
