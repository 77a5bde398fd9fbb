// Prevents a compiler from fusing a product with a following addition.
#ifndef TAKT_BASE_ROUNDED_H_
#define TAKT_BASE_ROUNDED_H_

#include <array>
#include <cfloat>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "takt/config.h"

// Plans are not reproducible if a compiler reorders sums or computes in more bits than a double has.
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "takt: -ffast-math (or a part of it) reorders sums, so that plans differ between builds; compile without it"
#endif
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD < 0 || FLT_EVAL_METHOD > 1
#error "takt: doubles must be computed as doubles (on 32-bit x86: -msse2 -mfpmath=sse), or plans differ between builds"
#endif

namespace takt {

// Returns x, rounded to a double. Rounded(a * b) + c is rounded twice on every machine. Without Rounded, a compiler may
// emit one instruction for a * b + c that rounds once. GCC does so by default (-ffp-contract) on ARM64, and on x86-64
// with -mfma. The last bit then differs, so keys and plans differ. The test in tests/embed searches for such
// instructions. Rounded costs no instruction.
template <std::floating_point T>
constexpr T Rounded(T x) {
  if (std::is_constant_evaluated()) return x;
#if defined(__x86_64__) || defined(__i386__)
  asm("" : "+x"(x));
#elif defined(__aarch64__) || defined(__arm__)
  asm("" : "+w"(x));
#elif defined(__s390x__) || defined(__riscv) || defined(__loongarch__) || defined(__mips__)
  asm("" : "+f"(x));
#elif defined(__powerpc64__)
  asm("" : "+d"(x));
#elif defined(__GNUC__)
  asm("" : "+m"(x));
#else
  const volatile T rounded = x;
  x = rounded;
#endif
  return x;
}

// Rounds each element of an array; the compiler can vectorize this.
template <std::floating_point T, std::size_t N>
void Round(std::array<T, N>& x) {
#if defined(__GNUC__)
  asm("" : "+m"(x));
#else
  for (T& value : x) value = Rounded(value);
#endif
}

}  // namespace takt

#endif  // TAKT_BASE_ROUNDED_H_
