// What a host may replace before it includes takt.
#ifndef TAKT_CONFIG_H_
#define TAKT_CONFIG_H_

#if __cplusplus < 202002L
#error "takt is C++20: compile with -std=c++20, or later"
#endif

// TAKT_ASSERT(condition): a broken contract of takt's or of its host's. Define it yourself to route it to
// your own handler; by default it is the standard assert, and nothing where NDEBUG is defined.
#ifndef TAKT_ASSERT
#ifdef NDEBUG
#define TAKT_ASSERT(condition) static_cast<void>(0)
#else
#include <cassert>
#define TAKT_ASSERT(condition) assert(condition)
#endif
#endif

// What does not depend on a policy is compiled once, in libtakt, where TAKT_COMPILED is defined (by linking
// takt::takt); else it is inline, from the same source. In libtakt, the TAKT_ASSERT of its build holds.
#ifndef TAKT_INLINE
#define TAKT_INLINE inline
#endif

#endif  // TAKT_CONFIG_H_
