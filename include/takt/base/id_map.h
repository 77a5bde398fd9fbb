// A map from a 64-bit id to a 32-bit index: open addressing, linear probing, no tombstones, a keyed hash.
#ifndef TAKT_BASE_ID_MAP_H_
#define TAKT_BASE_ID_MAP_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/random.h"
#include "takt/base/slot.h"

namespace takt {

// Deterministic: no code iterates over the map. Allocates only beyond the reserved size. Consecutive ids are adjacent,
// so the newest are in the CPU cache. Expected O(1) for any ids, if clients that choose ids do not know the key.
class IdMap {
 public:
  explicit IdMap(std::size_t reserve = 0) { Reserve(reserve); }

  // Reserves room for n entries.
  void Reserve(std::size_t n) {
    const std::size_t want = std::bit_ceil(n < 16 ? std::size_t{32} : 2 * n);
    if (want > entries_.size()) Rehash(want);
  }

  // Derives the hash function from the seed. Entries and results of lookups do not change.
  void SetKey(std::uint64_t seed) {
    key_ = KeyOf(seed);
    if (size_ > 0) Rehash(entries_.size());
  }

  std::size_t size() const { return size_; }

  // Prefetches the entry of `key` for a later lookup.
  void Prefetch(std::uint64_t key) const {
    asm volatile("");  // keeps g++ from removing calls of a function that only prefetches
    __builtin_prefetch(&entries_[Home(key)]);
  }

  // Returns the value of `key`, or kNoSlot.
  std::uint32_t Find(std::uint64_t key) const {
    for (std::size_t i = Home(key);; i = Next(i)) {
      if (entries_[i].value == kNoSlot || entries_[i].key == key) return entries_[i].value;
    }
  }

  // Returns the number of entries that Find compares; for tests and benchmarks.
  std::size_t Looks(std::uint64_t key) const {
    std::size_t looks = 1;
    for (std::size_t i = Home(key); entries_[i].value != kNoSlot && entries_[i].key != key; i = Next(i)) ++looks;
    return looks;
  }

  // Returns false, without effect, if `key` exists. `value` must not be kNoSlot.
  bool Insert(std::uint64_t key, std::uint32_t value) {
    if (2 * (size_ + 1) > entries_.size()) Rehash(2 * entries_.size());
    std::size_t i = Home(key);
    while (entries_[i].value != kNoSlot) {
      if (entries_[i].key == key) return false;
      i = Next(i);
    }
    entries_[i] = {key, value};
    ++size_;
    return true;
  }

  // Returns false if `key` does not exist.
  bool Erase(std::uint64_t key) {
    std::size_t hole = Home(key);
    while (entries_[hole].key != key || entries_[hole].value == kNoSlot) {
      if (entries_[hole].value == kNoSlot) return false;
      hole = Next(hole);
    }
    // Close the gap: move back each following entry whose home is not after the hole.
    for (std::size_t i = Next(hole); entries_[i].value != kNoSlot; i = Next(i)) {
      const std::size_t home = Home(entries_[i].key);
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole].value = kNoSlot;
    --size_;
    return true;
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t value = kNoSlot;
  };

  struct Key {
    std::uint64_t add = 0, first = 1, second = 1, third = 1;  // factors are odd
  };
  static constexpr Key KeyOf(std::uint64_t seed) {
    const std::uint64_t a = Mix64(seed), b = Mix64(a), c = Mix64(b), d = Mix64(c);
    return {a, b | 1, c | 1, d | 1};
  }

  // Each run of 16 ids stays together and has one hash: the top bits of a product. With a random factor, two runs
  // rarely share these bits (multiply-shift; Dietzfelbinger et al., 1997). Two rounds of mixing break up regular
  // strides of ids; multiply-shift alone would not.
  std::size_t Home(std::uint64_t name) const {
    std::uint64_t x = ((name >> 4) + key_.add) * key_.first;
    x = (x ^ (x >> 32)) * key_.second;
    x = (x ^ (x >> 29)) * key_.third;
    return static_cast<std::size_t>(x >> shift_ << 4 | (name & 15));
  }
  std::size_t Next(std::size_t i) const { return (i + 1) & mask_; }

  void Rehash(std::size_t capacity) {
    std::vector<Entry> old(capacity);
    old.swap(entries_);
    mask_ = capacity - 1;
    shift_ = 68 - std::countr_zero(capacity);
    size_ = 0;
    for (const Entry& e : old) {
      if (e.value != kNoSlot) Insert(e.key, e.value);
    }
  }

  std::vector<Entry> entries_;
  Key key_ = KeyOf(0);
  int shift_ = 63;  // shift to the index of a run
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace takt

#endif  // TAKT_BASE_ID_MAP_H_
