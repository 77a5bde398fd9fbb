// Matrix products whose results do not depend on the batch.
//
// A usual library splits its sums by the sizes of the matrices. The low bits of a result then depend on the batch size,
// and greedy decoding sooner or later picks another token. Here each result is one sum over `in`, from first to last.
// Sixteen outputs are summed in the lanes of vector registers, and several rows share loaded weights; neither changes
// the order of a sum. Without fused operations (-ffp-contract=off) the results do not depend on the width of the
// registers either.
#ifndef TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MATRIX_H_
#define TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_MATRIX_H_

#include <array>
#include <cstddef>

#include "threads.h"

namespace tiny {

using namespace serving;  // parts shared by engines

inline constexpr std::size_t kLanes = 16;

// Sixteen weights on one cache line.
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
