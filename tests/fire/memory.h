// Memory that fails on a host's request: operator new of takt_fire, defined in memory.cc.
#ifndef TAKT_TESTS_FIRE_MEMORY_H_
#define TAKT_TESTS_FIRE_MEMORY_H_

#include <cstdint>
#include <utility>

namespace takt::fire {

// While `watched` is set, the allocation fails before which this many have succeeded.
struct Memory {
  inline static bool watched = false;
  inline static std::int32_t left = 0;
};

// Scope for the host's own allocations inside a scheduler call.
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
