// Catch2 2.13 and 3 through one door.
#ifndef TAKT_TESTS_CATCH_H_
#define TAKT_TESTS_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include <algorithm>
#include <span>
#include <vector>

namespace takt {

// A plan's views, compared with what they should show.
template <class T>
bool operator==(std::span<const T> a, const std::vector<T>& b) {
  return std::ranges::equal(a, b);
}
template <class T>
bool operator==(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(a, b);
}

}  // namespace takt

#endif  // TAKT_TESTS_CATCH_H_
