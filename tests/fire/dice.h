// Cheap randomness for the random host: a counter through Mix64, so that a new seed costs nothing.
#ifndef TAKT_TESTS_FIRE_DICE_H_
#define TAKT_TESTS_FIRE_DICE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "takt/base/random.h"

namespace takt::fire {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(Mix64(seed)) {}

  std::uint64_t Bits() { return Mix64(state_ += 0x9e3779b97f4a7c15u); }
  bool Chance(double p) { return static_cast<double>(Bits() >> 11) * 0x1p-53 < p; }
  std::size_t Index(std::size_t n) { return static_cast<std::size_t>(Bits() % n); }
  // Returns a number between both ends, inclusive.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::int32_t Int(std::int32_t low, std::int32_t high) { return static_cast<std::int32_t>(Between(low, high)); }
  template <class T>
  T Of(std::initializer_list<T> choices) {
    return choices.begin()[Index(choices.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_DICE_H_
