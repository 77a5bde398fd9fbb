// Pins of holdings: their end times, and the pinned blocks of each tenant.
#ifndef TAKT_TURNS_PIN_BOOK_H_
#define TAKT_TURNS_PIN_BOOK_H_

#include <cstddef>
#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/base/time_heap.h"

namespace takt::internal {

// Invariant: a holding has at most one pin. Pinned blocks are counted per tenant and in total, and a pin is granted
// only within both bounds. A tenant without pins has no record.
class PinBook {
 public:
  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }
  // Reserves memory for holdings in slots 0 .. n - 1.
  void Reserve(std::size_t n) {
    ends_.Reserve(n);
    if (tenants_.capacity() < n) tenants_.Reserve(n);
  }

  // Sets the maximum pinned blocks per tenant and in total.
  void Bound(std::int32_t of_one, std::int32_t of_all) { most_of_one_ = of_one, most_of_all_ = of_all; }

  std::size_t size() const { return ends_.size(); }
  std::int32_t blocks() const { return blocks_; }
  std::uint64_t refused() const { return refused_; }
  TimePoint next() const { return ends_.next(); }  // end of the next pin; kNever if there is none
  Slot Top() const { return ends_.Top(); }  // holding whose pin ends next

  // Pins a holding without a pin. Returns false, and counts a refusal, if a bound would be exceeded.
  bool Grant(Slot h, TenantId tenant, std::int32_t blocks, TimePoint until) {
    const Slot known = tenants_.Find(tenant);
    const std::int32_t has = known == kNoSlot ? 0 : tenants_[known].blocks;
    if (blocks > most_of_one_ - has || blocks > most_of_all_ - blocks_) {
      ++refused_;
      return false;
    }
    Pinning& of = tenants_[known != kNoSlot ? known : tenants_.Insert(tenant, {})];
    ++of.pins, of.blocks += blocks, blocks_ += blocks;
    ends_.Push(h, until, {}, {h});
    return true;
  }

  // Ends a pin that was granted for this number of blocks.
  void End(Slot h, TenantId tenant, std::int32_t blocks) {
    ends_.Erase(h);
    const Slot of = tenants_.Find(tenant);
    blocks_ -= blocks, tenants_[of].blocks -= blocks;
    if (--tenants_[of].pins == 0) tenants_.Erase(of, tenant);
  }

 private:
  struct Pinning {
    std::int32_t pins = 0, blocks = 0;
  };

  IdTable<TenantId, Pinning> tenants_;  // tenants with pins
  TimeHeap ends_;  // by holding slot
  std::int32_t most_of_one_ = 0, most_of_all_ = 0, blocks_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_PIN_BOOK_H_
