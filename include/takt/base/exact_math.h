// Logarithms and powers that are bit-identical with every compiler, processor and C library.
//
// C libraries differ in the last bit, which is enough to swap two keys. These functions use +, -, * and / on doubles in
// a fixed order, and sqrt, floor and ldexp of the C library. IEEE 754 defines the exact results of all these
// operations. Logarithm and exponential are computed as an unevaluated sum of two doubles, rounded once at the end.
// Nearly all results are the nearest double. Maximum errors in units in the last place:
//
//   Log, Log1p, Log2   0.51
//   Exp, Exp2          0.55
//   Expm1, Pow         0.7
//
// Results below 2^-1022 are rounded once more. Log is monotonic: its error before rounding is less than half of its
// increase from one double to the next. Domains and limits are those of <cmath>, except that Pow accepts no negative
// base.
#ifndef TAKT_BASE_EXACT_MATH_H_
#define TAKT_BASE_EXACT_MATH_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "takt/base/rounded.h"

namespace takt::exact {
namespace internal {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // the first 42 bits, for exact products with an exponent
inline constexpr double kLn2Low = 0x1.ef35793c76730p-45;

// The sum of two doubles. `low` is at most half a unit in the last place of `high`.
struct Pair {
  double high = 0;
  double low = 0;
};

// Returns a + b exactly (Dekker's Fast2Sum). The exponent of a must be at least that of b.
constexpr Pair FastSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// Returns a + b exactly, for any a and b (Knuth's 2Sum).
constexpr Pair Sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// Returns the first half of x's digits.
constexpr double Front(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~0x7ffffffull); }

// Returns a b with a relative error of at most 2^-105.
constexpr Pair Product(double a, double b) {
  const double product = Rounded(a * b);
  const double a1 = Front(a), a2 = a - a1, b1 = Front(b), b2 = b - b1;
  return {product, ((Rounded(a1 * b1) - product) + Rounded(a1 * b2) + Rounded(a2 * b1)) + Rounded(a2 * b2)};
}

constexpr Pair Product(Pair a, double b) {
  const Pair p = Product(a.high, b);
  return FastSum(p.high, p.low + Rounded(a.low * b));
}

// Returns c[0] + c[1] x + c[2] x^2 + ... Even and odd terms are evaluated separately and recursively, for
// instruction-level parallelism.
template <std::size_t N>
constexpr double Polynomial(const std::array<double, N>& c, double x) {
  if constexpr (N == 1) {
    return c[0];
  } else {
    std::array<double, (N + 1) / 2> pairs{};
    for (std::size_t i = 0; i < N / 2; ++i) pairs[i] = c[2 * i] + Rounded(c[2 * i + 1] * x);
    if constexpr (N % 2 == 1) pairs[N / 2] = c[N - 1];
    return Polynomial(pairs, Rounded(x * x));
  }
}

// Returns 2^k x in two steps, because 2^k may not be a double.
constexpr double Scaled(double x, int k) {
  const auto power = [](int n) { return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52); };
  const int half = k / 2;
  return Rounded(x * power(half) * power(k - half));
}

struct Logarithm {
  int exponent = 0;
  Pair mantissa = {};  // the logarithm is exponent ln 2 + mantissa
};

// Returns the logarithm of x + low. x is positive and finite; low is at most half a unit in x's last place. With x =
// 2^k m, m between sqrt(1/2) and sqrt(2), and s = (m - 1) / (m + 1): ln m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.1716.
constexpr Logarithm LogParts(double x, double low = 0) {
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const std::uint64_t exponent = (bits - kRootHalf) >> 52;  // modulo 2^12
  const int of_x = static_cast<int>(exponent ^ 0x800) - 0x800;
  const double m = std::bit_cast<double>(bits - (exponent << 52));
  if (low != 0) low = Scaled(low, -of_x);
  k += of_x;

  const Pair above = Sum(m - 1, low);  // m - 1 is exact
  const Pair below = FastSum(1, m);
  const double s = above.high / below.high;
  const Pair back = Product(s, below.high);
  const double s_low = ((above.high - back.high) - back.low - Rounded(s * (below.low + low)) + above.low) / below.high;
  const Pair square = Product(s, s);
  const double z = square.high;
  // 2 s^3/3 is a sum of two doubles, the rest of the series is one double.
  const Pair cube = Product(square, s);
  const Pair third = Product(cube, 0x1.5555555555555p-1);
  const double third_low = third.low + Rounded(cube.high * 0x1.5555555555555p-55);
  constexpr std::array kSeries{2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
                               2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25};
  const double rest = Rounded(Rounded(cube.high * z) * Polynomial(kSeries, z));
  const Pair first = FastSum(Rounded(2 * s), third.high);
  // The derivative of the series is 2 / (1 - s^2).
  const double end = first.low + (2 * s_low + (Rounded(2 * s_low * z) + (third_low + rest)));
  return {k, FastSum(first.high, end)};
}

constexpr Pair Joined(const Logarithm& log) {
  if (log.exponent == 0) return log.mantissa;
  const double k = log.exponent;
  const Pair sum = FastSum(Rounded(k * kLn2High), log.mantissa.high);
  return FastSum(sum.high, sum.low + (log.mantissa.low + Rounded(k * kLn2Low)));
}

struct Exponential {
  int exponent = 0;
  Pair over_one = {};  // the exponential is 2^exponent (1 + over_one)
};

// Returns e^(x + low), |x| < 800, from the series of e^r, with x = k ln 2 + r and |r| < 0.347.
constexpr Exponential ExpParts(double x, double low = 0) {
  const double k = (Rounded(x * 0x1.71547652b82fep+0) + 0x1.8p52) - 0x1.8p52;  // round to the nearest integer
  const Pair r = FastSum(x - Rounded(k * kLn2High), low - Rounded(k * kLn2Low));
  const Pair square = Product(r.high, r.high);
  constexpr std::array kSeries{1.0 / 6,          1.0 / 24,          1.0 / 120,          1.0 / 720,      1.0 / 5040,
                               1.0 / 40320,      1.0 / 362880,      1.0 / 3628800,      1.0 / 39916800, 1.0 / 479001600,
                               1.0 / 6227020800, 1.0 / 87178291200, 1.0 / 1307674368000};
  const double rest = Rounded(Rounded(square.high * r.high) * Polynomial(kSeries, r.high));
  const Pair first = FastSum(r.high, Rounded(square.high * 0.5));
  const double end = first.low + (Rounded(square.low * 0.5) + (r.low + Rounded(r.high * r.low)) + rest);
  return {static_cast<int>(k), FastSum(first.high, end)};
}

constexpr double ExpOfSum(double x, double low) {
  if (x != x) return x;
  if (x > 710) return kInfinity;
  if (x < -746) return 0;
  const Exponential e = ExpParts(x, low);
  const Pair sum = FastSum(1, e.over_one.high);
  return Scaled(sum.high + (sum.low + e.over_one.low), e.exponent);
}

}  // namespace internal

constexpr double Log(double x) {
  using namespace internal;
  if (!(x > 0) || x > std::numeric_limits<double>::max()) return x > 0 ? x : x == 0 ? -kInfinity : kNan;
  const Pair log = Joined(LogParts(x));
  return log.high + log.low;
}

// Returns ln(1 + x).
constexpr double Log1p(double x) {
  using namespace internal;
  if (!(x > -1) || x > std::numeric_limits<double>::max()) return x > 0 ? x : x == -1 ? -kInfinity : kNan;
  if (x > -0x1p-54 && x < 0x1p-54) return x;
  const Pair sum = Sum(1, x);
  const Pair log = Joined(LogParts(sum.high, sum.low));
  return log.high + log.low;
}

constexpr double Log2(double x) {
  using namespace internal;
  if (!(x > 0) || x > std::numeric_limits<double>::max()) return x > 0 ? x : x == 0 ? -kInfinity : kNan;
  const Logarithm log = LogParts(x);
  Pair mantissa = Product(log.mantissa, 0x1.71547652b82fep+0);  // 1 / ln 2
  mantissa.low += Rounded(log.mantissa.high * 0x1.777d0ffda0d24p-56);
  const Pair sum = Sum(log.exponent, mantissa.high);
  return sum.high + (sum.low + mantissa.low);
}

constexpr double Exp(double x) { return internal::ExpOfSum(x, 0); }

// Returns 2^x.
constexpr double Exp2(double x) {
  using namespace internal;
  if (x != x) return x;
  if (x > 1100) return kInfinity;
  if (x < -1100) return 0;
  const Pair product = Product(x, 0x1.62e42fefa39efp-1);  // ln 2
  return internal::ExpOfSum(product.high, product.low + Rounded(x * 0x1.abc9e3b39803fp-56));
}

// Returns e^x - 1.
constexpr double Expm1(double x) {
  using namespace internal;
  if (x != x) return x;
  if (x > 710) return kInfinity;
  if (x < -40) return -1;
  if (x > -0x1p-54 && x < 0x1p-54) return x;
  const Exponential e = ExpParts(x);
  if (e.exponent == 0) return e.over_one.high + e.over_one.low;
  if (e.exponent > 200) return Exp(x);  // the 1 is below the last place of the result
  const Pair whole = Sum(1, -Scaled(1, -e.exponent));
  const Pair sum = Sum(whole.high, e.over_one.high);
  return Scaled(sum.high + (sum.low + (whole.low + e.over_one.low)), e.exponent);
}

// Returns x^y for x >= 0, and NaN for negative x.
constexpr double Pow(double x, double y) {
  using namespace internal;
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y || x < 0) return kNan;
  if (x == 0 || x > std::numeric_limits<double>::max()) return (x == 0) == (y > 0) ? 0 : kInfinity;
  const Pair log = Joined(LogParts(x));
  const double about = log.high * y;
  if (!(about > -800 && about < 800)) return about > 0 ? kInfinity : 0;
  const Pair power = Product(log.high, y);
  return internal::ExpOfSum(power.high, power.low + Rounded(log.low * y));
}

// Returns the complementary error function with a relative error below 1e-13. Up to 1.5 it uses the series of erf with
// positive terms. Beyond that it uses 128 terms of Laplace's continued fraction.
constexpr double Erfc(double x) {
  if (x != x) return x;
  if (x < 0) return 2 - Erfc(-x);
  if (x > 27.3) return 0;
  const double square = Rounded(x * x);
  const double density = Exp(-square) * 0x1.20dd750429b6dp-1;  // 1 / sqrt(pi)
  if (x < 1.5) {
    double term = x, sum = x;
    for (int n = 1; n < 64; ++n) sum += term *= 2 * square / (2 * n + 1);
    return 1 - Rounded(2 * density * sum);
  }
  double fraction = x;
  for (int n = 128; n > 0; --n) fraction = x + 0.5 * n / fraction;
  return density / fraction;
}

}  // namespace takt::exact

#endif  // TAKT_BASE_EXACT_MATH_H_
