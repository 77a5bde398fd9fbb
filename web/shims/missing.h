// Included before each file: what this target's C++ library lacks. It has one thread, and no from_chars for long
// double.
#ifndef TAKT_WEB_SHIMS_MISSING_H_
#define TAKT_WEB_SHIMS_MISSING_H_

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string>

namespace std {

#if !_LIBCPP_HAS_THREADS
struct mutex {
  void lock() {}
  bool try_lock() { return true; }
  void unlock() {}
};
#endif

inline from_chars_result from_chars(const char* first, const char* last, long double& value) {
  double same_text = 0;
  const from_chars_result result = from_chars(first, last, same_text);
  if (result.ec == errc()) value = strtold(string(first, result.ptr).c_str(), nullptr);
  return result;
}

}  // namespace std

#endif  // TAKT_WEB_SHIMS_MISSING_H_
