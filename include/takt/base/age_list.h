// A list by age, threaded through records that lie in a vector.
#ifndef TAKT_BASE_AGE_LIST_H_
#define TAKT_BASE_AGE_LIST_H_

#include <cstdint>
#include <utility>

namespace takt {

// Of a record that may be in a list: its neighbours.
struct AgeLink {
  std::uint32_t older = UINT32_MAX, newer = UINT32_MAX;
};

// Names its members by their indices in `records`, each of which has a field `age`, an AgeLink. All in O(1).
class AgeList {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  bool empty() const { return oldest_ == kNone; }
  std::uint32_t oldest() const { return oldest_; }  // kNone where there is none
  std::uint32_t newest() const { return newest_; }

  // As the newest; must not be in the list.
  template <class Records>
  void Append(Records& records, std::uint32_t i) {
    const std::uint32_t before = std::exchange(newest_, i);
    records[i].age = {before, kNone};
    (before == kNone ? oldest_ : records[before].age.newer) = i;
  }

  // Must be in the list.
  template <class Records>
  void Remove(Records& records, std::uint32_t i) {
    const AgeLink link = std::exchange(records[i].age, {});
    (link.older == kNone ? oldest_ : records[link.older].age.newer) = link.newer;
    (link.newer == kNone ? newest_ : records[link.newer].age.older) = link.older;
  }

  template <class Records>
  void MoveToEnd(Records& records, std::uint32_t i) {
    if (newest_ == i) return;
    Remove(records, i);
    Append(records, i);
  }

 private:
  std::uint32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace takt

#endif  // TAKT_BASE_AGE_LIST_H_
