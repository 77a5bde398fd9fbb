// Arrays of 2^k elements in one vector.
#ifndef TAKT_BASE_ARRAY_POOL_H_
#define TAKT_BASE_ARRAY_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace takt::internal {

// Freed arrays are reused and never split. For each size, memory is at most the peak use of that size.
//
// Invariant: an array is either in use or in the free list of its size.
template <class T>
class ArrayPool {
 public:
  void Reserve(std::size_t n) { items_.reserve(n); }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }

  // Returns the index of the first element of an array of 2^k elements.
  std::uint32_t Take(std::uint32_t k) {
    if (free_[k].empty()) {
      free_[k].push_back(static_cast<std::uint32_t>(items_.size()));
      items_.resize(items_.size() + (std::size_t{1} << k));
    }
    const std::uint32_t first = free_[k].back();
    free_[k].pop_back();
    return first;
  }
  void Give(std::uint32_t first, std::uint32_t k) { free_[k].push_back(first); }

 private:
  std::vector<T> items_;
  std::array<std::vector<std::uint32_t>, 32> free_;
};

}  // namespace takt::internal

#endif  // TAKT_BASE_ARRAY_POOL_H_
