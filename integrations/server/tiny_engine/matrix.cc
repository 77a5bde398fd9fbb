#include "matrix.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tiny {
namespace {

// Elements of a register, and rows that fit into the registers with one line of weights.
#if defined(__AVX512F__)
constexpr std::size_t kWidth = 16, kMostRows = 8;
#elif defined(__AVX__)
constexpr std::size_t kWidth = 8, kMostRows = 4;
#else
constexpr std::size_t kWidth = 4, kMostRows = 2;
#endif
constexpr std::size_t kVectors = kLanes / kWidth;

typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));

// Computes sixteen outputs of kRows rows.
template <std::size_t kRows>
void Tile(const Lanes* weights, std::size_t in, const float* x, float* y, std::size_t y_stride) {
  Vector sums[kRows][kVectors] = {};
  for (std::size_t i = 0; i < in; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector weight;
      std::memcpy(&weight, &weights[i].at[v * kWidth], sizeof(weight));
      for (std::size_t r = 0; r < kRows; ++r) sums[r][v] += weight * x[r * in + i];
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) std::memcpy(y + r * y_stride, sums[r], sizeof(sums[r]));
}

using TileFn = void (*)(const Lanes*, std::size_t, const float*, float*, std::size_t);

template <std::size_t... kRows>
constexpr std::array<TileFn, sizeof...(kRows)> MakeTiles(std::index_sequence<kRows...>) {
  return {&Tile<kRows + 1>...};
}

constexpr auto kTiles = MakeTiles(std::make_index_sequence<kMostRows>());

}  // namespace

void MatMul(const Matrix& weights, const float* x, std::size_t rows, float* y, Threads& threads) {
  threads.For(weights.out / kLanes, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) {
      for (std::size_t row = 0; row < rows; row += kMostRows) {  // while the block's weights are cached
        const TileFn tile = kTiles[std::min(rows - row, kMostRows) - 1];
        tile(weights.lanes + block * weights.in, weights.in, x + row * weights.in,
             y + row * weights.out + block * kLanes, weights.out);
      }
    }
  });
}

}  // namespace tiny
