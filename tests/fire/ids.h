// How a host names its requests: counters, random numbers, or what an adversary would choose.
#ifndef TAKT_TESTS_FIRE_IDS_H_
#define TAKT_TESTS_FIRE_IDS_H_

#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/random.h"

namespace takt::fire {

// Modulo 2^64; Newton's iteration doubles the number of right bits.
constexpr std::uint64_t InverseOf(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Names of actions are 1, 2, 3 ...; the ids that a scheduler sees follow from them, and back. 0 stays 0.
class Ids {
 public:
  enum class Kind : std::uint8_t {
    kCounter,    // the name itself
    kScattered,  // over all 64 bits
    kRuns,       // sixteen in a row, here and there
    kColliding,  // equal in the low 28 bits of what Mix64 makes of them: one place in a hash table that trusts it
  };

  explicit Ids(Kind kind = Kind::kCounter) : kind_(kind) {}

  RequestId Of(std::uint64_t name) const {
    if (name == 0) return {};
    switch (kind_) {
      case Kind::kCounter: return {name};
      case Kind::kScattered: return {name * kFactor};
      case Kind::kRuns: return {((name >> 4) * kFactor) << 4 | (name & 15)};
      case Kind::kColliding: break;
    }
    for (std::uint64_t extra = 0;; ++extra) {
      const std::uint64_t id = Unmix(name << 36 | (extra & 255) << 28);
      if (id >> 60 == 0 || extra == 255) return {id << 4};
    }
  }

  std::uint64_t NameOf(RequestId id) const {
    switch (kind_) {
      case Kind::kCounter: break;
      case Kind::kScattered: return id.value * kInverse;
      case Kind::kRuns: return (((id.value >> 4) * kInverse) & (~std::uint64_t{0} >> 4)) << 4 | (id.value & 15);
      case Kind::kColliding: return id.value == 0 ? 0 : Mix64(id.value >> 4) >> 36;
    }
    return id.value;
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t kInverse = InverseOf(kFactor);

  static constexpr std::uint64_t Unshift(std::uint64_t x, int by) {
    std::uint64_t y = x;
    for (int bits = by; bits < 64; bits += by) y = x ^ y >> by;
    return y;
  }
  // The inverse of Mix64.
  static constexpr std::uint64_t Unmix(std::uint64_t x) {
    x = Unshift(x, 31) * InverseOf(0x94d049bb133111ebu);
    x = Unshift(x, 27) * InverseOf(0xbf58476d1ce4e5b9u);
    return Unshift(x, 30) - 0x9e3779b97f4a7c15u;
  }

  Kind kind_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_IDS_H_
