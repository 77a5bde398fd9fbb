// Included before anything else if TAKT_PLANTED is on. One build has all bugs of tests/planted_bugs.txt. The
// environment variable TAKT_PLANT names the bug of a run; 0 or unset: no bug.
#ifndef TAKT_TESTS_PLANTED_H_
#define TAKT_TESTS_PLANTED_H_

#include <cstdlib>

namespace takt::testing {

inline int PlantedBug() {
  static const int number = [] {
    const char* text = std::getenv("TAKT_PLANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return number;
}

}  // namespace takt::testing

#define PLANTED(n) (takt::testing::PlantedBug() == (n))

#endif  // TAKT_TESTS_PLANTED_H_
