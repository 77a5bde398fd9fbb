// The LoRA adapters in use.
#ifndef TAKT_SCHEDULER_ADAPTER_SET_H_
#define TAKT_SCHEDULER_ADAPTER_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/id.h"

namespace takt::internal {

// Counts, for each adapter, the running requests and the pending admissions that use it.
class AdapterSet {
 public:
  void Reserve(std::size_t adapters) { uses_.reserve(adapters); }

  // Returns true if a request with this adapter may run when at most `most` adapters may be in use.
  bool Fits(AdapterId id, std::int32_t most) const {
    const auto loaded = static_cast<std::int32_t>(uses_.size());
    return loaded < most || std::ranges::find(uses_, id, &Use::id) != uses_.end();
  }

  // Add and Remove ignore requests without an adapter.
  void Add(AdapterId id) {
    if (!id) return;
    auto use = std::ranges::find(uses_, id, &Use::id);
    if (use == uses_.end()) use = uses_.insert(use, {id, 0}), ++changes_;
    ++use->requests;
  }
  void Remove(AdapterId id) {
    if (!id) return;
    const auto use = std::ranges::find(uses_, id, &Use::id);
    if (--use->requests == 0) uses_.erase(use), ++changes_;
  }

  // Returns a number that changes whenever the set of adapters changes.
  std::uint64_t version() const { return uses_.empty() ? 0 : changes_; }

 private:
  struct Use {
    AdapterId id;
    std::int32_t requests = 0;
  };
  std::vector<Use> uses_;  // the adapters in use, which are few
  std::uint64_t changes_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ADAPTER_SET_H_
