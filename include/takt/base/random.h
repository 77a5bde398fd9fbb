// Seeded random numbers that are the same with every compiler. The bits come from mt19937_64, which the standard
// specifies. The distributions are takt's own, because standard libraries differ in theirs.
#ifndef TAKT_BASE_RANDOM_H_
#define TAKT_BASE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <random>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"

namespace takt {

// Mixes the bits of x with the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(Mix64(seed)) {}

  std::uint64_t Bits() { return bits_(); }

  // Returns a number in [0, 1) with 53 bits.
  double Uniform() { return Rounded(static_cast<double>(bits_() >> 11) * 0x1p-53); }

  // Returns an integer in [0, n), or 0 if n is 0. n is at most 2^32; the bias is below n / 2^53.
  std::uint64_t Below(std::uint64_t n) { return static_cast<std::uint64_t>(Uniform() * static_cast<double>(n)); }

  bool Chance(double p) { return Uniform() < p; }

  // Returns an exponential variate with mean 1.
  double Exponential() { return -exact::Log1p(-Uniform()); }

  // Returns a normal variate with mean 0 and standard deviation 1, by Marsaglia's polar method. The second value of
  // each pair is dropped, so that the generator's bits are the only state.
  double Normal() {
    for (;;) {
      const double u = Rounded(2 * Uniform()) - 1;
      const double v = Rounded(2 * Uniform()) - 1;
      const double s = Rounded(u * u) + Rounded(v * v);
      if (s > 0 && s < 1) return Rounded(u * std::sqrt(-2 * exact::Log(s) / s));
    }
  }

  // Returns exp(mu + sigma * Normal()).
  double LogNormal(double mu, double sigma) { return exact::Exp(mu + Rounded(sigma * Normal())); }

  // Returns a gamma variate with this shape and scale 1, so with mean `shape` (Marsaglia and Tsang, 2000). Shapes below
  // 1 use the power of a uniform variate.
  double Gamma(double shape) {
    if (shape < 1) {
      const double larger = Gamma(shape + 1);  // drawn first: C++ leaves the order of factors unspecified
      return Rounded(larger * exact::Pow(1 - Uniform(), 1 / shape));
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = Normal();
      const double t = 1 + Rounded(c * x);
      if (t <= 0) continue;
      const double v = Rounded(t * t * t);
      if (exact::Log(1 - Uniform()) < Rounded(0.5 * x * x) + d - Rounded(d * v) + Rounded(d * exact::Log(v))) {
        return Rounded(d * v);
      }
    }
  }

  // Returns a Weibull variate with this shape and scale 1, so with mean tgamma(1 + 1/shape).
  double Weibull(double shape) { return exact::Pow(Exponential(), 1 / shape); }

 private:
  std::mt19937_64 bits_;
};

}  // namespace takt

#endif  // TAKT_BASE_RANDOM_H_
