// Matrix products whose every number is the same in every batch.
//
// A library's product cuts its sums into blocks by the sizes at hand: the same token then gets other low bits in a
// batch of 64 than alone, and greedy decoding sooner or later picks another token. Here each number of the result is
// one sum over `in`, from first to last, whatever stands beside it: 16 outputs are summed side by side in the lanes of
// vector registers, several rows share the weights that were loaded for one, and neither touches the order of a sum.
// Without contraction to fused operations (-ffp-contract=off) the numbers do not even depend on the width of the
// registers.
#ifndef TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MATRIX_H_
#define TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MATRIX_H_

#include <array>
#include <cstddef>

#include "threads.h"

namespace tiny {

using namespace serving;  // what engines have in common

inline constexpr std::size_t kLanes = 16;

// Sixteen weights on a cache line of their own.
struct alignas(64) Lanes {
  std::array<float, kLanes> at = {};
};

// Weights [out][in] as [out / 16][in][16]: the order in which the product reads them. `out` is a multiple of 16.
struct Matrix {
  const Lanes* lanes = nullptr;
  std::size_t in = 0, out = 0;

  float at(std::size_t o, std::size_t i) const { return lanes[o / kLanes * in + i].at[o % kLanes]; }
};

// y[rows][out] = x[rows][in] times the transposed weights.
void MatMul(const Matrix& weights, const float* x, std::size_t rows, float* y, Threads& threads);

}  // namespace tiny

#endif  // TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MATRIX_H_
