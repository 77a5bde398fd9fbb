// room_to_pass with a second account of the work that goes before each request.
#ifndef TAKT_TESTS_FIRE_WATCHED_ROOM_H_
#define TAKT_TESTS_FIRE_WATCHED_ROOM_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory.h"
#include "takt/config.h"
#include "takt/policy/room_to_pass.h"

namespace takt::fire {

// Asserts the bound of docs/reference/policies/room_to_pass.md for each request that goes. O(waiting) for each event.
class WatchedRoom : public RoomToPass {
 public:
  static constexpr std::string_view kName = "watched_room";

  struct Tally {
    std::int64_t went = 0;  // requests that were checked
    std::int64_t passed = 0;  // requests before which more went than first come, first served lets go
    std::int64_t excused = 0;  // requests that were passed out of turn, or while the host had taken them
    double closest = 0;  // largest ratio of the work that went to its bound
    std::size_t longest = 0;  // requests that waited at once
  };

  WatchedRoom() = default;
  explicit WatchedRoom(RoomToPass policy) : RoomToPass(std::move(policy)) {}

  void Enters(const RequestState& r, TimePoint now) {
    RoomToPass::Enters(r, now);
    if (r.slot >= items_.size() || !items_[r.slot].waits) return;
    Item& item = items_[r.slot];
    const Work more = line().work(r.slot) - item.size;
    item.size += more;
    if (more > 0) Precedes(item, more);
    Waits(more);
  }

  void Joins(const RequestState& r, TimePoint now) {
    RoomToPass::Joins(r, now);
    const OfTheHost memory;
    if (r.slot >= items_.size()) items_.resize(r.slot + std::size_t{1});
    Item& item = items_[r.slot];
    item = {.place = PlaceOf(r), .size = line().work(r.slot), .joined = gone_, .order = ++joins_};
    for (const Slot i : waiting_) item.found += items_[i].place < item.place ? items_[i].size : 0;
    item.room = line().Room(r.slot);
    Precedes(item, item.size);
    Add(r.slot);
  }

  void Leaves(Slot slot, bool goes) {
    const bool chosen = First() == slot;
    RoomToPass::Leaves(slot, goes);
    Item& item = items_[slot];
    item.waits = false;
    waiting_[item.at] = waiting_.back();
    items_[waiting_.back()].at = item.at;
    waiting_.pop_back();
    Waits(-item.size);
    item.went = goes, item.out_of_turn = goes && !chosen, item.left_at = joins_, item.left_gone = gone_;
    if (!goes) return;
    Check(item);
    if (item.out_of_turn) Excuse(item, item.size);
    gone_ += item.size;
  }

  void Returns(Slot slot) {
    RoomToPass::Returns(slot);
    const OfTheHost memory;
    Item& item = items_[slot];
    if (item.went) gone_ -= item.size;
    item.excused += std::max(gone_ - item.left_gone, Work{0});
    if (item.out_of_turn) Excuse(item, -item.size);
    for (const Slot i : waiting_) {
      if (items_[i].order <= item.left_at) continue;
      if (item.went) items_[i].joined -= item.size;
      if (item.place < items_[i].place) items_[i].before += item.size;
    }
    Add(slot);
  }

  const Tally& tally() const { return tally_; }

 private:
  struct Item {
    PassingLine::Place place;
    Work size = 0;
    Work found = 0, room = 0;  // when it joined
    Work joined = 0;  // gone_ when it joined
    std::uint64_t order = 0;  // joins_ when it joined
    Work before = 0;  // work that joined before it since it joined
    Work most = 0;  // most work that waited at once while it waited
    Work excused = 0;  // work that passed it out of turn
    std::size_t at = 0;  // index in waiting_
    bool waits = false;
    // When it left: whether it was admitted, and was not the policy's choice; joins_; gone_.
    bool went = false, out_of_turn = false;
    std::uint64_t left_at = 0;
    Work left_gone = 0;
  };

  void Add(Slot slot) {
    items_[slot].waits = true, items_[slot].at = waiting_.size();
    waiting_.push_back(slot);
    tally_.longest = std::max(tally_.longest, waiting_.size());
    Waits(items_[slot].size);
  }
  void Waits(Work more) {
    sum_ += more;
    TAKT_ASSERT(sum_ == line().waiting());
    if (more <= 0) return;
    for (const Slot i : waiting_) items_[i].most = std::max(items_[i].most, sum_);
  }
  // `work` joined at the place of this request.
  void Precedes(const Item& item, Work work) {
    for (const Slot i : waiting_) items_[i].before += item.place < items_[i].place ? work : 0;
  }
  void Excuse(const Item& item, Work work) {
    for (const Slot i : waiting_) {
      if (items_[i].order <= item.left_at && items_[i].place < item.place) items_[i].excused += work;
    }
  }
  void Check(const Item& item) {
    const Work gone = gone_ - item.joined;
    const Work bound = std::max(item.found + item.room, item.most) + item.before + item.excused;
    TAKT_ASSERT(gone <= bound);
    ++tally_.went;
    tally_.passed += gone > item.found + item.before ? 1 : 0;
    tally_.excused += item.excused > 0 ? 1 : 0;
    if (bound > 0) tally_.closest = std::max(tally_.closest, static_cast<double>(gone) / static_cast<double>(bound));
  }

  std::vector<Item> items_;  // by slot
  std::vector<Slot> waiting_;
  Work sum_ = 0, gone_ = 0;  // work that waits; that has gone
  std::uint64_t joins_ = 0;
  Tally tally_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_WATCHED_ROOM_H_
