// An instance as placement policies see it.
#ifndef TAKT_STATE_INSTANCE_STATE_H_
#define TAKT_STATE_INSTANCE_STATE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/base/id.h"
#include "takt/model/instance.h"

namespace takt {

// The adapters that an instance has loaded, as far as a router can infer: the last ones placed there. Engines evict the
// adapter that was used least recently.
class LoadedAdapters {
 public:
  static constexpr std::int32_t kMost = 32;  // maximum adapters that it tracks

  bool Has(AdapterId id) const { return std::ranges::find(all(), id) != all().end(); }
  // Returns the adapters, the most recently used first.
  std::span<const AdapterId> all() const { return std::span(ids_).first(count_); }

  // Makes `id` the most recently used of at most `most` adapters. Ignores adapter 0. O(most).
  void Use(AdapterId id, std::int32_t most) {
    if (!id) return;
    const auto room = static_cast<std::size_t>(most > 0 ? std::min(most, kMost) : kMost);
    count_ = std::min(count_, room);
    auto at = std::find(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(count_), id);
    if (at == ids_.begin() + static_cast<std::ptrdiff_t>(count_)) {
      if (count_ < room) ++count_;
      at = ids_.begin() + static_cast<std::ptrdiff_t>(count_) - 1;
      *at = id;
    }
    std::rotate(ids_.begin(), at, at + 1);
  }

 private:
  std::array<AdapterId, kMost> ids_ = {};
  std::size_t count_ = 0;
};

struct InstanceState {
  Instance instance;  // description from the host, except that `life` is never 0
  const InstanceProfile* profile = nullptr;  // profile of the instance; null: the host named none
  std::uint32_t slot = 0;  // small index, unique among the instances that are up; reused
  InstanceReport report{};  // newest report; zeros before the first
  bool reported = false;  // true: the instance has reported
  std::int64_t outstanding = 0;  // number of requests placed on this instance that have not ended
  std::int64_t expected = 0;  // number of these requests whose prompt another instance still computes
  std::int64_t since_report = 0;  // number of requests placed on this instance after the newest report, or expected
  std::int64_t tokens_since_report = 0;  // prompt tokens of these requests
  std::uint64_t last_placed = 0;  // sequence number of the last placement on this instance, from 1; 0: none yet
  // Prompt tokens of its requests that it has not computed; only RequestServed and the end of a request lower this.
  std::int64_t pending_prefill = 0;
  LoadedAdapters adapters = {};  // adapters that it probably has loaded, the most recently used first

  void UseAdapter(AdapterId id) { adapters.Use(id, instance.max_adapters); }
};

}  // namespace takt

#endif  // TAKT_STATE_INSTANCE_STATE_H_
