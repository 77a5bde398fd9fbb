// From a 64-bit name to a 32-bit index: open addressing, linear probing, no tombstones.
#ifndef TAKT_BASE_ID_MAP_H_
#define TAKT_BASE_ID_MAP_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/random.h"

namespace takt {

// Deterministic (nothing iterates over it), allocates only when it outgrows what was reserved. O(1) expected. Names
// that follow one another, as counters give them, lie side by side: the newest are in cache.
class IdMap {
 public:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  explicit IdMap(std::size_t reserve = 0) { Reserve(reserve); }

  // Room for n entries without allocation.
  void Reserve(std::size_t n) {
    const std::size_t want = std::bit_ceil(n < 8 ? std::size_t{16} : 2 * n);
    if (want > entries_.size()) Rehash(want);
  }

  std::size_t size() const { return size_; }

  // `key` will be looked up soon.
  void Prefetch(std::uint64_t key) const { __builtin_prefetch(&entries_[Home(key)]); }

  // The value of `key`, or kAbsent.
  std::uint32_t Find(std::uint64_t key) const {
    for (std::size_t i = Home(key);; i = Next(i)) {
      if (entries_[i].value == kAbsent || entries_[i].key == key) return entries_[i].value;
    }
  }

  // False, and nothing changes, where `key` is there already. `value` must not be kAbsent.
  bool Insert(std::uint64_t key, std::uint32_t value) {
    if (2 * (size_ + 1) > entries_.size()) Rehash(2 * entries_.size());
    std::size_t i = Home(key);
    while (entries_[i].value != kAbsent) {
      if (entries_[i].key == key) return false;
      i = Next(i);
    }
    entries_[i] = {key, value};
    ++size_;
    return true;
  }

  // False where `key` is not there.
  bool Erase(std::uint64_t key) {
    std::size_t hole = Home(key);
    while (entries_[hole].key != key || entries_[hole].value == kAbsent) {
      if (entries_[hole].value == kAbsent) return false;
      hole = Next(hole);
    }
    // Close the gap: pull back every follower whose home does not lie behind the hole.
    for (std::size_t i = Next(hole); entries_[i].value != kAbsent; i = Next(i)) {
      if (((i - Home(entries_[i].key)) & mask_) >= ((i - hole) & mask_)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole].value = kAbsent;
    --size_;
    return true;
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t value = kAbsent;
  };

  // Runs of 16 keys stay together, and are spread as one.
  std::size_t Home(std::uint64_t key) const { return (Mix64(key >> 4) << 4 | (key & 15)) & mask_; }
  std::size_t Next(std::size_t i) const { return (i + 1) & mask_; }

  void Rehash(std::size_t capacity) {
    std::vector<Entry> old(capacity);
    old.swap(entries_);
    mask_ = capacity - 1;
    size_ = 0;
    for (const Entry& e : old) {
      if (e.value != kAbsent) Insert(e.key, e.value);
    }
  }

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace takt

#endif  // TAKT_BASE_ID_MAP_H_
