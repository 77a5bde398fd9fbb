// Compares a plan's views with each other or with expected values.
#ifndef TAKT_TESTS_VIEWS_H_
#define TAKT_TESTS_VIEWS_H_

#include <algorithm>
#include <span>
#include <vector>

namespace takt {

template <class T>
bool operator==(std::span<const T> a, const std::vector<T>& b) {
  return std::ranges::equal(a, b);
}
template <class T>
bool operator==(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(a, b);
}

}  // namespace takt

#endif  // TAKT_TESTS_VIEWS_H_
