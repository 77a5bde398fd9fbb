// Records that come and go, each in a slot of its own as long as it is there; by slot, or found by id as well.
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

// Slots are reused last in, first out, so that few are touched. Only Take allocates, and not within what was reserved;
// where memory fails, nothing has changed.
template <class T, class Records = std::vector<T>>
class SlotTable {
 public:
  // The records last: what is read as capacity is there in full, also where memory fails half-way.
  void Reserve(std::size_t n) {
    free_.reserve(n);
    records_.reserve(n);
  }

  bool HasSlot() const { return !free_.empty(); }  // Take makes none that was not there before
  std::size_t capacity() const { return records_.capacity(); }  // slots that need no allocation are below this
  std::size_t room() const { return capacity() - slots() + free_.size(); }  // for so many more without allocation
  std::size_t slots() const { return records_.size(); }

  T& operator[](Slot slot) { return records_[slot]; }
  const T& operator[](Slot slot) const { return records_[slot]; }
  const Records& records() const { return records_; }  // by slot, with those that were given back

  // A slot, whose record is as the former owner left it.
  Slot Take() {
    MakeSlot();
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Give(Slot slot) { free_.push_back(slot); }

  // The slot that Take returns next, made where there is none.
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
  std::vector<Slot> free_;  // has room for all
};

// Id: a typed one, or a number. A record that Take has made has no name. Whoever wants the records by age threads an
// AgeList through the table.
template <class Id, class T, class Records = std::vector<T>>
class IdTable : public SlotTable<T, Records> {
  using Slots = SlotTable<T, Records>;

 public:
  void Reserve(std::size_t n) {
    index_.Reserve(n);
    Slots::Reserve(n);
  }
  void KeyHashes(std::uint64_t seed) { index_.SetKey(seed); }

  std::size_t size() const { return index_.size(); }  // records that have a name
  std::size_t Looks(Id id) const { return index_.Looks(Value(id)); }  // of Find, at entries; for tests
  void Prefetch(Id id) const { index_.Prefetch(Value(id)); }  // it will be looked up soon

  // kNoSlot where it names none.
  Slot Find(Id id) const { return index_.Find(Value(id)); }
  // Null where it names none.
  T* Get(Id id) { return At(*this, Find(id)); }
  const T* Get(Id id) const { return At(*this, Find(id)); }

  // `id` must not be there.
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

  // `id` must be the record's.
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
