// Included before each file: what this target's C++ library lacks. It has one thread.
#ifndef TAKT_WEB_SHIMS_MISSING_H_
#define TAKT_WEB_SHIMS_MISSING_H_

#include <mutex>

namespace std {

#if !_LIBCPP_HAS_THREADS
struct mutex {
  void lock() {}
  bool try_lock() { return true; }
  void unlock() {}
};
#endif

}  // namespace std

#endif  // TAKT_WEB_SHIMS_MISSING_H_
