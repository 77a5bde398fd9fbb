// The total order of requests: a policy's key, completed by arrival and id.
#ifndef TAKT_BASE_FULL_KEY_H_
#define TAKT_BASE_FULL_KEY_H_

#include <bit>
#include <compare>
#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt::internal {

// A double's bits as an integer of the same order; the two zeros are one.
constexpr std::uint64_t OrderedBits(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return (bits >> 63) != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
}

// Smaller is sooner. Total also where a key is not a number, which then comes last.
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

// The whole rank of a request that has not been promoted: its group's key comes first, as OrderedBits; 0 where the
// policy does not group.
struct FullRank {
  std::uint64_t group = 0;
  FullKey key = {};

  friend constexpr auto operator<=>(const FullRank&, const FullRank&) = default;
};

// The rank of a request that runs, as a victim of preemption: larger is sooner.
struct VictimRank {
  bool unpromoted = true;
  FullRank rank = {};

  friend constexpr auto operator<=>(const VictimRank&, const VictimRank&) = default;
};

// A FullKey as three integers: what heaps compare.
struct PackedKey {
  std::uint64_t key = 0;
  std::int64_t arrival = 0;
  std::uint64_t id = 0;

  constexpr PackedKey() = default;
  constexpr PackedKey(const FullKey& k)  // NOLINT: the same value
      : key(OrderedBits(k.key)), arrival(k.arrival.time_since_epoch().count()), id(k.id.value) {}
  constexpr PackedKey(double k, TimePoint at, RequestId request) : PackedKey(FullKey{k, at, request}) {}

  // Ranks by a time; exactly, as no double does.
  static constexpr PackedKey OfTime(TimePoint at, TimePoint arrival, RequestId request) {
    PackedKey key(FullKey{0, arrival, request});
    key.key = static_cast<std::uint64_t>(at.time_since_epoch().count()) ^ kSign;
    return key;
  }
  constexpr TimePoint time() const { return TimePoint(Duration(static_cast<std::int64_t>(key ^ kSign))); }

  // The same order, backwards.
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
