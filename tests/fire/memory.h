// Memory that fails where a host wants it to: operator new of takt_fire, in memory.cc.
#ifndef TAKT_TESTS_FIRE_MEMORY_H_
#define TAKT_TESTS_FIRE_MEMORY_H_

#include <cstdint>
#include <utility>

namespace takt::fire {

// While `watched`, the allocation before which so many are left fails.
struct Memory {
  inline static bool watched = false;
  inline static std::int32_t left = 0;
};

// What the host allocates for itself, in code that a scheduler calls.
class OfTheHost {
 public:
  OfTheHost() : was_(std::exchange(Memory::watched, false)) {}
  ~OfTheHost() { Memory::watched = was_; }
  OfTheHost(const OfTheHost&) = delete;
  OfTheHost& operator=(const OfTheHost&) = delete;

 private:
  bool was_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_MEMORY_H_
