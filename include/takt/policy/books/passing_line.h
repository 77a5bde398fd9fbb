// A line of requests in which each may be passed only while it has room.
#ifndef TAKT_POLICY_BOOKS_PASSING_LINE_H_
#define TAKT_POLICY_BOOKS_PASSING_LINE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/base/skew_heap.h"
#include "takt/base/slot.h"

namespace takt {

// Work of an engine [us].
using Work = std::int64_t;

// Classes of work, 2^bits in each octave. With two bits, their largest sizes are 1, 1.25, 1.5 and 1.75 times a power of
// two. They reach from 16 us to 2^octaves times as much.
template <int bits, int octaves>
struct WorkClasses {
  static constexpr Work kLeast = 16, kMost = kLeast << octaves;

  static constexpr int Of(Work size) {
    const auto u = static_cast<std::uint64_t>(std::clamp(size, kLeast, kMost));
    const auto octave = static_cast<int>(std::bit_width(u)) - 1;
    const std::uint64_t lead = u >> (octave - bits);
    const bool more = (u & ((std::uint64_t{1} << (octave - bits)) - 1)) != 0;
    return ((octave - 4) << bits) + static_cast<int>(lead - (std::uint64_t{1} << bits)) + (more ? 1 : 0);
  }
  // Returns the largest size of the class.
  static constexpr Work Size(int i) {
    const int octave = (i >> bits) + 4;
    return ((Work{1} << bits) + (i & ((1 << bits) - 1))) << (octave - bits);
  }
  static constexpr int kCount = (octaves << bits) + 1;
};

// Each request has a place, its own work, a size of at least that, and room: the work that may still pass it. If a
// request goes, every request before it loses its work as room. A request may go if its size is at most
//
//   max(room(i), min(waiting, cap) - ahead(i) - gone(i))   for every request i before it
//
// waiting: all work in the line. ahead(i): the part before i. gone(i): work that has gone since i joined. The second
// term is the work that a newcomer would find, less the work that i will have waited for. `cap` bounds the effect of
// false sizes. First returns the request that may go and has the least place + tau ln(size). The first in the line may
// always go. Sizes are rounded up to a class for both comparisons.
//
// Within a class, the first in the line may go if any may. So a choice examines one request per class. A treap by place
// has sums over its subtrees: work, least room, and the largest ahead + gone. A heap per class finds its first. All
// functions take expected O(log n), also if clients choose sizes. The choices of a plan that go examine at most
// kMostLooks nodes, and kLooksEach more for each of them. Any other choice examines at most kMostLooks + 1 nodes. A
// choice that exceeds this takes the first in the line. The shape of the treap depends only on the places that it
// contains, not on its history. Its priorities are hashes of times [ns] and ids, so a client cannot make it deep.
// Nothing is allocated within the reserved memory.
class PassingLine {
 public:
  // Time of arrival [ns], then id.
  struct Place {
    std::int64_t came = 0;
    std::uint64_t id = 0;
    friend constexpr auto operator<=>(const Place&, const Place&) = default;
  };
  static constexpr Work kMostSize = 10'000'000'000, kMostGone = Work{1} << 50, kNoCap = INT64_MAX;
  static constexpr int kMostLooks = 4096, kLooksEach = 64;

  PassingLine() {
    for (int c = 0; c < kClasses; ++c) {
      logs_[static_cast<std::size_t>(c)] = exact::Log(static_cast<double>(Classes::Size(c)) * 1e-6);
    }
  }

  void Reserve(std::size_t slots) { nodes_.reserve(slots), items_.reserve(slots); }
  bool contains(Slot slot) const { return slot < nodes_.size() && nodes_[slot].waits; }
  // Returns all work that waits.
  Work waiting() const { return SumOf(root_); }
  // Returns the work that waits before this place.
  Work Ahead(const Place& place) const {
    Work ahead = 0;
    for (Slot n = root_; n != kNoSlot;) {
      const Node& node = nodes_[n];
      const bool before = node.place < place;
      if (before) ahead += SumOf(node.left) + node.work;
      n = before ? node.right : node.left;
    }
    return ahead;
  }
  Work work(Slot slot) const { return nodes_[slot].work; }
  // Returns the room that a request has of its own.
  Work Room(Slot slot) const {
    Work room = nodes_[slot].room;
    for (Slot n = root_; n != slot;) {
      room = Sum(room, nodes_[n].add);
      n = nodes_[slot].place < nodes_[n].place ? nodes_[n].left : nodes_[n].right;
    }
    return room;
  }
  // Returns the number of requests above it in the treap.
  int Depth(Slot slot) const {
    int depth = 0;
    for (Slot n = root_; n != slot; ++depth) {
      n = nodes_[slot].place < nodes_[n].place ? nodes_[n].left : nodes_[n].right;
    }
    return depth;
  }
  // Returns the work that goes between its arrival and its turn if nothing passes it from now on.
  Work Before(Slot slot) const { return Ahead(nodes_[slot].place) + gone_ - nodes_[slot].joined; }

  // Requests are compared by `size`, or by `work` if that is larger. Room is counted in work.
  void Join(Slot slot, const Place& place, Work work, Work room, Work size = 0) {
    if (slot >= nodes_.size()) nodes_.resize(slot + std::size_t{1}), items_.resize(slot + std::size_t{1});
    if (gone_ > kMostGone) Rebase();
    ++joins_;
    Node& node = nodes_[slot];
    node = {.place = place, .joined = gone_, .room = std::min(room, -kLeastRoom)};
    node.priority = static_cast<std::uint32_t>(Mix64(Mix64(static_cast<std::uint64_t>(place.came)) ^ place.id) >> 32);
    SetSize(node, work, size);
    Add(slot);
  }
  // The request leaves the line. `goes`: it is admitted, so all requests before it are passed.
  void Leave(Slot slot, bool goes) {
    const Node& node = nodes_[slot];
    Item& item = items_[slot];
    item.went = goes, item.joins = joins_, item.spent = spent_;
    if (goes && known_ && slot == first_) spent_ = std::max(spent_ + looks_ - kLooksEach, 0);
    Cut(slot, goes ? node.work : 0);
    if (goes) gone_ += node.work;
  }
  // Undoes Leave. If others have joined since then, those that it passed stay passed.
  void Return(Slot slot) {
    Node& node = nodes_[slot];
    if (items_[slot].went && items_[slot].joins == joins_) {
      gone_ -= node.work;
      Charge(root_, node.place, node.work);
      spent_ = items_[slot].spent;
    }
    node.left = node.right = kNoSlot, node.add = 0;
    Add(slot);
  }
  void Resize(Slot slot, Work work, Work size = 0) {
    Node& node = nodes_[slot];
    if (Clamp(work) == node.work && ClassOf(work, size) == node.cls) return;
    Cut(slot, 0);
    node.left = node.right = kNoSlot, node.add = 0;
    SetSize(node, work, size);
    Add(slot);
  }

  // Returns the number of requests that the last choice examined.
  int looks() const { return looks_; }
  // Restores what choices may examine.
  void BeginPlan() {
    if (std::exchange(spent_, 0) > 0) known_ = false;
  }
  // Returns the request that goes next; kNoSlot if none waits. `tau` [s].
  Slot First(double tau, Work cap = kNoCap) const {
    if (!known_ || tau != tau_ || cap != cap_) tau_ = tau, cap_ = cap, first_ = Choose(tau), known_ = true;
    return first_;
  }

 private:
  using Classes = WorkClasses<2, 30>;
  static constexpr int kClasses = Classes::kCount;
  static constexpr std::size_t kWords = (kClasses + 63) / 64;
  static constexpr Work kLeastRoom = -(Work{1} << 60);

  using Mask = std::array<std::uint64_t, kWords>;
  struct Node {
    Place place = {};
    Work work = 0, joined = 0;  // `joined`: gone_ when it joined
    Work room = 0;  // without the pending sums of the nodes above it
    // Over the subtree: work, largest (work before a node in the subtree) - joined, least room. `add`: pending sum of
    // both children.
    Work sum = 0, most = 0, least = 0, add = 0;
    Slot left = kNoSlot, right = kNoSlot;
    std::uint32_t priority = 0;
    std::uint8_t cls = 0;  // of its size
    bool waits = false;
  };
  // The rest of a request: its links in the heap of its class, and how it left.
  struct Item {
    HeapLink link = {};
    bool went = false;  // it left because it was admitted
    std::uint64_t joins = 0;  // joins_ when it left
    int spent = 0;  // spent_ when it left
  };
  // The first request of a class.
  struct Head {
    double came_s = 0;
    Slot slot = kNoSlot;
  };
  // Search for a request without room for `size`.
  struct Search {
    Work size = 0, limit = 0;
    int most = 0, looks = 0;
  };

  static Work Sum(Work a, Work b) { return std::max(a + b, kLeastRoom); }
  Work SumOf(Slot n) const { return n == kNoSlot ? 0 : nodes_[n].sum; }
  static Work Clamp(Work work) { return std::clamp(work, Work{1}, kMostSize); }
  static std::uint8_t ClassOf(Work work, Work size) {
    return static_cast<std::uint8_t>(Classes::Of(Clamp(std::max(work, size))));
  }
  static void SetSize(Node& node, Work work, Work size) { node.work = Clamp(work), node.cls = ClassOf(work, size); }

  // ---- the treap

  void Tag(Slot n, Work add) {
    if (n == kNoSlot) return;
    Node& node = nodes_[n];
    node.room = Sum(node.room, add), node.least = Sum(node.least, add), node.add = Sum(node.add, add);
  }
  void Push(Node& node) {
    if (node.add == 0) return;
    Tag(node.left, node.add), Tag(node.right, node.add);
    node.add = 0;
  }
  void Update(Node& node) {
    node.sum = node.work, node.most = -node.joined, node.least = node.room;
    if (node.left != kNoSlot) {
      const Node& left = nodes_[node.left];
      node.most = std::max(left.most, left.sum + node.most);
      node.sum += left.sum;
      node.least = std::min(node.least, left.least);
    }
    if (node.right != kNoSlot) {
      const Node& right = nodes_[node.right];
      node.most = std::max(node.most, node.sum + right.most);
      node.sum += right.sum;
      node.least = std::min(node.least, right.least);
    }
  }

  auto ByPlace() const {
    return [this](Slot a, Slot b) { return nodes_[a].place < nodes_[b].place; };
  }

  void Add(Slot slot) {
    Node& node = nodes_[slot];
    node.waits = true;
    Update(node);
    root_ = Insert(root_, slot);
    SetHead(node.cls, PushHeap<&Item::link>(items_, heads_[node.cls].slot, slot, ByPlace()));
  }
  void Cut(Slot slot, Work charge) {
    root_ = Remove(root_, slot, charge);
    Node& node = nodes_[slot];
    node.waits = false;
    SetHead(node.cls, EraseFromHeap<&Item::link>(items_, heads_[node.cls].slot, slot, ByPlace()));
  }

  // ---- a skew heap by place for each class

  void SetHead(std::size_t cls, Slot head) {
    heads_[cls].slot = head;
    const std::uint64_t bit = std::uint64_t{1} << (cls % 64);
    if (head == kNoSlot) {
      classes_[cls / 64] &= ~bit;
    } else {
      classes_[cls / 64] |= bit;
      heads_[cls].came_s = static_cast<double>(nodes_[head].place.came) * 1e-9;
    }
    known_ = false;
  }
  // ---- changes of the treap

  Slot Insert(Slot n, Slot slot) {
    if (n == kNoSlot) return slot;
    Node &node = nodes_[n], &added = nodes_[slot];
    Push(node);
    if (added.priority > node.priority) {
      Split(n, added.place, added.left, added.right);
      Update(added);
      return slot;
    }
    Slot& child = added.place < node.place ? node.left : node.right;
    child = Insert(child, slot);
    Update(node);
    return n;
  }
  void Split(Slot n, const Place& place, Slot& before, Slot& after) {
    if (n == kNoSlot) return static_cast<void>(before = after = kNoSlot);
    Node& node = nodes_[n];
    Push(node);
    if (node.place < place) {
      before = n;
      Split(node.right, place, node.right, after);
    } else {
      after = n;
      Split(node.left, place, before, node.left);
    }
    Update(node);
  }
  Slot Merge(Slot a, Slot b) {
    if (a == kNoSlot || b == kNoSlot) return a == kNoSlot ? b : a;
    const bool first = nodes_[a].priority > nodes_[b].priority;
    Node& node = nodes_[first ? a : b];
    Push(node);
    if (first) node.right = Merge(node.right, b);
    else node.left = Merge(a, node.left);
    Update(node);
    return first ? a : b;
  }
  // Removes a request and takes `charge` from the room of all before it.
  Slot Remove(Slot n, Slot slot, Work charge) {
    Node& node = nodes_[n];
    Push(node);
    if (n == slot) {
      Tag(node.left, -charge);
      return Merge(node.left, node.right);
    }
    if (nodes_[slot].place < node.place) {
      node.left = Remove(node.left, slot, charge);
    } else {
      node.room = Sum(node.room, -charge);
      Tag(node.left, -charge);
      node.right = Remove(node.right, slot, charge);
    }
    Update(node);
    return n;
  }
  void Charge(Slot n, const Place& place, Work add) {
    if (n == kNoSlot) return;
    Node& node = nodes_[n];
    Push(node);
    const bool before = node.place < place;
    if (before) node.room = Sum(node.room, add), Tag(node.left, add);
    Charge(before ? node.right : node.left, place, add);
    Update(node);
  }
  // Keeps the sums small. O(n), once in kMostGone of work, which is more than 100,000 requests.
  void Rebase() {
    for (Node& node : nodes_) {
      node.joined = std::max(node.joined - gone_, kLeastRoom), node.most = std::min(node.most + gone_, -kLeastRoom);
    }
    gone_ = 0;
  }

  // ---- the choice

  // Calls f(class, head) for each class.
  template <class F>
  void ForHeads(const Mask& classes, F&& f) const {
    for (std::size_t w = 0; w < kWords; ++w) {
      for (std::uint64_t left = classes[w]; left != 0; left &= left - 1) {
        const std::size_t cls = 64 * w + static_cast<std::size_t>(std::countr_zero(left));
        f(cls, heads_[cls]);
      }
    }
  }

  // Starts with the classes that fit the room of the first in the line. Drops those that another request stops.
  Slot Choose(double tau) const {
    if (root_ == kNoSlot) return kNoSlot;
    Work add = 0;
    Slot front = root_;
    for (; nodes_[front].left != kNoSlot; front = nodes_[front].left) add = Sum(add, nodes_[front].add);
    const Work newcomer = std::min(waiting(), cap_);
    const Work room = std::max(Sum(nodes_[front].room, add), newcomer - gone_ + nodes_[front].joined);
    Mask classes = classes_;
    for (std::size_t w = 0, below = room < Classes::kLeast ? 0 : Fitting(room); w < kWords; ++w) {
      const std::size_t bits = std::clamp<std::size_t>(below, 64 * w, 64 * w + 64) - 64 * w;
      classes[w] &= bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    }
    for (Search search{.most = kMostLooks - spent_}; (looks_ = search.looks) <= search.most;) {
      Slot best = front;
      double least = KeyOf(nodes_[front].cls, tau);
      ForHeads(classes, [&](std::size_t cls, const Head& head) {
        const double key = KeyOf(cls, tau);
        if (key < least || (key == least && nodes_[head.slot].place < nodes_[best].place))
          best = head.slot, least = key;
      });
      if (best == front) return front;
      search.size = Classes::Size(nodes_[best].cls), search.limit = newcomer - search.size - gone_;
      const Slot stops = Stops(best, search);
      if (search.looks > search.most) continue;
      if (stops == kNoSlot) return looks_ = search.looks, best;
      const Work most = std::max(Room(stops), newcomer - Before(stops));
      ForHeads(Mask(classes), [&](std::size_t cls, const Head& head) {
        if (Classes::Size(static_cast<int>(cls)) <= most || nodes_[head.slot].place <= nodes_[stops].place) return;
        classes[cls / 64] &= ~(std::uint64_t{1} << (cls % 64));
      });
    }
    return front;
  }
  double KeyOf(std::size_t cls, double tau) const { return heads_[cls].came_s + Rounded(tau * logs_[cls]); }
  // Returns the number of classes whose sizes fit this room.
  static std::size_t Fitting(Work room) {
    const int cls = Classes::Of(room);
    return static_cast<std::size_t>(cls) + (room >= Classes::Size(cls) ? 1 : 0);
  }

  // Returns the first request before `slot` that lacks room.
  Slot Stops(Slot slot, Search& search) const {
    const Place& place = nodes_[slot].place;
    Work before = 0, add = 0;
    for (Slot n = root_; n != kNoSlot && search.looks <= search.most;) {
      const Node& node = nodes_[n];
      if (!MayStop(node, before, add, search)) return kNoSlot;
      ++search.looks;
      const Work below = Sum(add, node.add);
      if (node.place < place) {
        if (const Slot found = StopsIn(node.left, before, below, search); found != kNoSlot) return found;
        if (StopsItself(node, before, add, search)) return n;
        before += SumOf(node.left) + node.work;
        n = node.right;
      } else {
        n = node.left;
      }
      add = below;
    }
    return kNoSlot;
  }
  Slot StopsIn(Slot n, Work before, Work add, Search& search) const {
    if (n == kNoSlot || search.looks > search.most || !MayStop(nodes_[n], before, add, search)) return kNoSlot;
    ++search.looks;
    const Node& node = nodes_[n];
    const Work below = Sum(add, node.add);
    if (const Slot found = StopsIn(node.left, before, below, search); found != kNoSlot) return found;
    if (StopsItself(node, before, add, search)) return n;
    return StopsIn(node.right, before + SumOf(node.left) + node.work, below, search);
  }
  static bool MayStop(const Node& node, Work before, Work add, const Search& search) {
    return Sum(node.least, add) < search.size && before + node.most > search.limit;
  }
  bool StopsItself(const Node& node, Work before, Work add, const Search& search) const {
    return Sum(node.room, add) < search.size && before + SumOf(node.left) - node.joined > search.limit;
  }

  std::vector<Node> nodes_;  // by slot
  std::vector<Item> items_;  // by slot
  Slot root_ = kNoSlot;
  Work gone_ = 0;  // exact, so nothing drifts
  std::uint64_t joins_ = 0;
  std::array<double, kClasses> logs_ = {};  // ln of the classes' sizes [s]
  std::array<Head, kClasses> heads_ = {};
  Mask classes_ = {};  // with a request
  mutable Slot first_ = kNoSlot;
  mutable double tau_ = 0;
  mutable Work cap_ = 0;
  mutable int looks_ = 0;  // that first_ took
  mutable bool known_ = false;  // first_ is the choice at tau_ and cap_
  int spent_ = 0;  // looks in this plan, less kLooksEach for each choice; at least 0
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_PASSING_LINE_H_
