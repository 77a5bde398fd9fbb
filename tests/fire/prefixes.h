// A second model of which prefix chunks a KV cache keeps. It knows only which requests start past which chunks, and how
// many idle blocks are cached.
#ifndef TAKT_TESTS_FIRE_PREFIXES_H_
#define TAKT_TESTS_FIRE_PREFIXES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace takt::fire {

// A chunk is cached while a request refers to it, and then until its room is needed. The chunk that has been idle
// longest is evicted first, and among chunks of one request the deepest. Chunks of different sizes differ, whatever
// their hashes. Hashes and sizes in blocks are small numbers.
class Prefixes {
 public:
  using Hashes = std::span<const std::uint64_t>;

  // Sets whether the order in which chunks became idle is known from here on. Some events of a plan leave no trace of
  // the order.
  void Tie(bool tied) {
    tied_ = tied;
    ++clock_;
  }
  // Returns false once chunks of equal age had to be distinguished. The model makes no claims after that.
  bool sure() const { return sure_; }
  void Doubt() { sure_ = false; }

  std::int64_t referenced_blocks() const { return referenced_; }
  std::int64_t idle_blocks() const { return idle_; }
  // Age of the chunk that was evicted last; 0: none since Settle(n) was last called.
  std::int32_t evicted() const { return evicted_; }

  std::int32_t Found(Hashes hashes, std::int32_t blocks) const {
    std::int32_t n = 0;
    for (std::uint64_t hash : hashes) {
      const std::size_t i = Index(hash, blocks);
      if (i >= chunks_.size() || chunks_[i].blocks == 0) break;
      ++n;
    }
    return n;
  }
  std::int64_t IdleBlocks(Hashes hashes, std::int32_t blocks) const {
    std::int64_t idle = 0;
    for (std::uint64_t hash : hashes) idle += chunks_[Index(hash, blocks)].references == 0 ? blocks : 0;
    return idle;
  }

  // A request starts past its first chunks. Returns the fault, or an empty string.
  std::string Acquire(Hashes hashes, std::int32_t chunks, std::int32_t blocks) {
    if (!sure_) return {};
    const std::int32_t found = Found(hashes, blocks);
    if (chunks > found) return fmt::format("starts past {} chunks, and {} are there", chunks, found);
    if (chunks < found) {
      const Chunk& missing = chunks_[Index(hashes[static_cast<std::size_t>(chunks)], blocks)];
      if (missing.references > 0) return fmt::format("finds {} chunks, and another is in use", chunks);
      EvictThrough(missing.idle_since);
    }
    for (std::uint64_t hash : hashes.first(static_cast<std::size_t>(chunks))) {
      Chunk& chunk = chunks_[Index(hash, blocks)];
      if (chunk.references++ == 0) idle_ -= chunk.blocks, referenced_ += chunk.blocks;
    }
    return {};
  }

  // Returns false if the chunk is already present.
  bool Publish(std::uint64_t hash, std::int32_t blocks) {
    if (!sure_) return false;
    const std::size_t i = Index(hash, blocks);
    if (i >= chunks_.size()) chunks_.resize(i + 1);
    if (chunks_[i].blocks > 0) return false;
    chunks_[i] = {blocks, 1, 0};
    referenced_ += blocks;
    return true;
  }

  void Release(Hashes hashes, std::int32_t blocks) {
    if (!sure_) return;
    for (std::size_t i = hashes.size(); i-- > 0;) {
      Chunk& chunk = chunks_[Index(hashes[i], blocks)];
      if (--chunk.references > 0) continue;
      chunk.idle_since = tied_ ? clock_ : ++clock_;
      idle_ += chunk.blocks, referenced_ -= chunk.blocks;
    }
  }

  // Checks the number of cached idle blocks. All other chunks must have been evicted.
  std::string Settle(std::int64_t cached) {
    if (!sure_) return {};
    if (cached > idle_) return fmt::format("{} blocks are cached, and {} can be", cached, idle_);
    while (idle_ > cached && sure_) EvictThrough(Oldest());
    if (idle_ < cached && sure_) return fmt::format("{} blocks are cached, and the oldest leave {}", cached, idle_);
    return {};
  }
  void Forgive() { evicted_ = 0; }

  // Returns the evicted chunks, by hash and blocks, since the last call.
  std::vector<std::pair<std::uint64_t, std::int32_t>> TakeGone() { return std::exchange(gone_, {}); }

 private:
  static std::size_t Index(std::uint64_t hash, std::int32_t blocks) {
    return hash * 4 + static_cast<std::size_t>(blocks);
  }

  struct Chunk {
    std::int32_t blocks = 0;  // 0: absent
    std::int32_t references = 0;
    std::uint64_t idle_since = 0;
  };

  std::uint64_t Oldest() const {
    std::uint64_t oldest = UINT64_MAX;
    for (const Chunk& chunk : chunks_) {
      if (chunk.blocks > 0 && chunk.references == 0) oldest = std::min(oldest, chunk.idle_since);
    }
    return oldest;
  }

  void EvictThrough(std::uint64_t idle_since) {
    int of_that_age = 0;
    for (Chunk& chunk : chunks_) {
      if (chunk.blocks == 0 || chunk.references > 0 || chunk.idle_since > idle_since) continue;
      of_that_age += chunk.idle_since == idle_since;
      if (chunk.idle_since == idle_since) evicted_ = chunk.blocks;
      idle_ -= chunk.blocks;
      gone_.push_back({static_cast<std::uint64_t>((&chunk - chunks_.data() - chunk.blocks) / 4), chunk.blocks});
      chunk = {};
    }
    if (of_that_age > 1) sure_ = false;  // perhaps only some of them were evicted
  }

  std::vector<Chunk> chunks_;  // by hash and size
  std::vector<std::pair<std::uint64_t, std::int32_t>> gone_;
  std::uint64_t clock_ = 1;
  std::int64_t idle_ = 0, referenced_ = 0;
  std::int32_t evicted_ = 0;
  bool tied_ = false, sure_ = true;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_PREFIXES_H_
