// Settings that a host may define before it includes takt.
#ifndef TAKT_CONFIG_H_
#define TAKT_CONFIG_H_

#if __cplusplus < 202002L
#error "takt is C++20: compile with -std=c++20, or later"
#endif

// TAKT_ASSERT(condition) checks the contracts of takt and its host. Define it to call your own handler. The default is
// the standard assert, which does nothing with NDEBUG.
#ifndef TAKT_ASSERT
#ifdef NDEBUG
#define TAKT_ASSERT(condition) static_cast<void>(0)
#else
#include <cassert>
#define TAKT_ASSERT(condition) assert(condition)
#endif
#endif

// With TAKT_COMPILED (set by linking takt::takt), code that does not depend on a policy is compiled once, in libtakt.
// Otherwise it is inline, from the same source. Code in libtakt uses the TAKT_ASSERT of its own build.
#ifndef TAKT_INLINE
#define TAKT_INLINE inline
#endif

#endif  // TAKT_CONFIG_H_
