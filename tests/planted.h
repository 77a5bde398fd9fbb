// Included before anything else where TAKT_PLANTED is on: one build has all bugs of tests/planted_bugs.txt, and the
// environment variable TAKT_PLANT names the one that a run has; 0, or unset: none.
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
