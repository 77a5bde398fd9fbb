// How a host names its requests: counters, random numbers, or an adversary's choice.
#ifndef TAKT_TESTS_FIRE_IDS_H_
#define TAKT_TESTS_FIRE_IDS_H_

#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/random.h"

namespace takt::fire {

// Modulo 2^64. Newton's iteration doubles the number of correct bits.
constexpr std::uint64_t InverseOf(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Names in actions are 1, 2, 3 and so on. Each maps to an id for the scheduler and back. 0 stays 0.
class Ids {
 public:
  enum class Kind : std::uint8_t {
    kCounter,    // the name itself
    kScattered,  // spread over all 64 bits
    kRuns,       // runs of sixteen
    kColliding,  // all collide in an IdMap with the default key
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
    // IdMap uses the top bits of its 60-bit hash, so one name in sixteen is enough.
    for (std::uint64_t extra = 0;; ++extra) {
      const std::uint64_t run = Unspread(kPlace | name << 8 | extra);
      if (run >> 60 == 0 || extra == 255) return {run << 4};
    }
  }

  std::uint64_t NameOf(RequestId id) const {
    switch (kind_) {
      case Kind::kCounter: break;
      case Kind::kScattered: return id.value * kInverse;
      case Kind::kRuns: return (((id.value >> 4) * kInverse) & (~std::uint64_t{0} >> 4)) << 4 | (id.value & 15);
      case Kind::kColliding: return id.value == 0 ? 0 : (Spread(id.value >> 4) & ~kPlace) >> 8;
    }
    return id.value;
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t kInverse = InverseOf(kFactor);

  static constexpr std::uint64_t kPlace = std::uint64_t{0x5eed1} << 44;

  // The spread of IdMap under hash_seed 0.
  static constexpr std::uint64_t kAdd = Mix64(0), kFirst = Mix64(kAdd) | 1, kSecond = Mix64(Mix64(kAdd)) | 1,
                                 kThird = Mix64(Mix64(Mix64(kAdd))) | 1;
  static constexpr std::uint64_t Spread(std::uint64_t run) {
    std::uint64_t x = (run + kAdd) * kFirst;
    x = (x ^ (x >> 32)) * kSecond;
    return (x ^ (x >> 29)) * kThird;
  }
  static constexpr std::uint64_t Unspread(std::uint64_t x) {
    x = Unshift(x * InverseOf(kThird), 29) * InverseOf(kSecond);
    return Unshift(x, 32) * InverseOf(kFirst) - kAdd;
  }
  // The inverse of y ^ (y >> by).
  static constexpr std::uint64_t Unshift(std::uint64_t x, int by) {
    std::uint64_t y = x;
    for (int bits = by; bits < 64; bits += by) y = x ^ y >> by;
    return y;
  }

  Kind kind_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_IDS_H_
