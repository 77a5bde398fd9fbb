// Tables of records, each in one slot while it exists. SlotTable finds records by slot, IdTable also by id.
#ifndef TAKT_BASE_SLOT_TABLE_H_
#define TAKT_BASE_SLOT_TABLE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/base/slot.h"

namespace takt {

// Slots are reused in last-in, first-out order, so that few are touched. Only Take and MakeSlot allocate, and only
// beyond the reserved size. A failed allocation has no effect.
template <class T, class Records = std::vector<T>>
class SlotTable {
 public:
  // Reserves records last, so that capacity() stays correct if an allocation fails.
  void Reserve(std::size_t n) {
    free_.reserve(n);
    records_.reserve(n);
  }

  bool HasSlot() const { return !free_.empty(); }  // Take can reuse a slot
  std::size_t capacity() const { return records_.capacity(); }  // number of slots that need no allocation
  // number of records that fit without allocation
  std::size_t room() const { return capacity() - slots() + free_.size(); }
  std::size_t slots() const { return records_.size(); }

  T& operator[](Slot slot) { return records_[slot]; }
  const T& operator[](Slot slot) const { return records_[slot]; }
  const Records& records() const { return records_; }  // records by slot, including free slots

  // Returns a free slot. Its record still has the previous owner's data.
  Slot Take() {
    MakeSlot();
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Give(Slot slot) { free_.push_back(slot); }

  // Returns the slot that Take returns next, and creates it if needed.
  Slot MakeSlot() {
    if (free_.empty()) {
      if (free_.capacity() <= records_.size()) free_.reserve(2 * records_.size() + 16);
      records_.emplace_back();
      free_.push_back(static_cast<Slot>(records_.size() - 1));
    }
    return free_.back();
  }

 private:
  Records records_;
  std::vector<Slot> free_;  // capacity for all slots
};

// Id: a typed id or a number. A record from Take has no id. For an order by age, link an AgeList through the table.
template <class Id, class T, class Records = std::vector<T>>
class IdTable : public SlotTable<T, Records> {
  using Slots = SlotTable<T, Records>;

 public:
  void Reserve(std::size_t n) {
    index_.Reserve(n);
    Slots::Reserve(n);
  }
  void KeyHashes(std::uint64_t seed) { index_.SetKey(seed); }

  std::size_t size() const { return index_.size(); }  // number of records that have an id
  std::size_t Looks(Id id) const { return index_.Looks(Value(id)); }  // number of comparisons of Find; for tests
  void Prefetch(Id id) const { index_.Prefetch(Value(id)); }  // prefetches for a later lookup

  // Returns kNoSlot if the id is unknown.
  Slot Find(Id id) const { return index_.Find(Value(id)); }
  // Returns null if the id is unknown.
  T* Get(Id id) { return At(*this, Find(id)); }
  const T* Get(Id id) const { return At(*this, Find(id)); }

  // `id` must be new.
  Slot Insert(Id id) {
    const Slot slot = Slots::MakeSlot();
    index_.Insert(Value(id), slot);
    return Slots::Take();
  }
  Slot Insert(Id id, T record) {
    const Slot slot = Insert(id);
    (*this)[slot] = std::move(record);
    return slot;
  }

  // `id` must be the record's id.
  void Erase(Slot slot, Id id) {
    index_.Erase(Value(id));
    Slots::Give(slot);
  }

 private:
  static std::uint64_t Value(Id id) {
    if constexpr (std::integral<Id>) {
      return id;
    } else {
      return id.value;
    }
  }
  template <class Self>
  static auto At(Self& self, Slot slot) {
    return slot == kNoSlot ? nullptr : &self[slot];
  }

  IdMap index_;
};

}  // namespace takt

#endif  // TAKT_BASE_SLOT_TABLE_H_
