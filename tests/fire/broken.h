// Include this before any header of takt. A failed assertion then becomes a violation with a seed and a log instead of
// an abort.
#ifndef TAKT_TESTS_FIRE_BROKEN_H_
#define TAKT_TESTS_FIRE_BROKEN_H_

#include <stdexcept>
#include <string>

namespace takt::fire {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void Break(const char* condition, const char* file, int line) {
  const std::string path = file;
  throw Broken("assertion " + path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) + ": " + condition);
}

}  // namespace takt::fire

#define TAKT_ASSERT(condition) ((condition) ? static_cast<void>(0) : takt::fire::Break(#condition, __FILE__, __LINE__))

#endif  // TAKT_TESTS_FIRE_BROKEN_H_
