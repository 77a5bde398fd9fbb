// Copies of the data that spans of requests refer to, for tables that keep requests by slot.
#ifndef TAKT_STATE_REQUEST_PARTS_H_
#define TAKT_STATE_REQUEST_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/slot.h"
#include "takt/model/request.h"

namespace takt::internal {

// A slot keeps its storage when its request ends, so memory is allocated only for larger data than before.
class RequestParts {
 public:
  // Not copyable, because requests of a copy would refer to the original.
  RequestParts() = default;
  RequestParts(RequestParts&&) noexcept = default;
  RequestParts& operator=(RequestParts&&) noexcept = default;

  static bool Any(const Request& r) { return !r.prefix.hashes.empty() || !r.scores.empty(); }

  // Makes room for the data of this request. Has no effect if an allocation fails.
  void MakeRoom(Slot slot, const Request& r) {
    if (slot >= parts_.size()) parts_.resize(std::max<std::size_t>(slot + std::size_t{1}, 2 * parts_.size()));
    parts_[slot].hashes.reserve(r.prefix.hashes.size());
    parts_[slot].scores.reserve(r.scores.size());
  }

  // Copies the data of the request's spans. Requires MakeRoom.
  void Keep(Slot slot, Request& r) {
    Parts& parts = parts_[slot];
    parts.hashes.assign(r.prefix.hashes.begin(), r.prefix.hashes.end());
    parts.scores.assign(r.scores.begin(), r.scores.end());
    r.prefix.hashes = parts.hashes;
    r.scores = parts.scores;
  }

  // Salts the copied hashes.
  void Salt(Slot slot, const Request& r) {
    if (r.salt == 0 || r.prefix.hashes.empty()) return;
    for (std::uint64_t& hash : parts_[slot].hashes) hash = SaltedHash(hash, r.salt);
  }

 private:
  struct Parts {
    std::vector<std::uint64_t> hashes;
    std::vector<ModelScore> scores;
  };
  std::vector<Parts> parts_;  // by slot, up to the last slot with data
};

}  // namespace takt::internal

#endif  // TAKT_STATE_REQUEST_PARTS_H_
