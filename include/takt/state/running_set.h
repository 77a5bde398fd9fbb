// The rows of the requests that run: dense, one cache line each, outside every heap.
#ifndef TAKT_STATE_RUNNING_SET_H_
#define TAKT_STATE_RUNNING_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/slot_table.h"

namespace takt::internal {

enum class RowState : std::uint8_t {
  kFree,
  kSteady,    // decodes one token per sequence and step: nothing else to look at
  kUnsteady,  // prefills, has drafts to verify, or is to change
  kMoving,    // its KV is being moved in
  kLeaving,   // lost its place; steps or moves in flight name it
};

// Token counts are over all sequences together. Invariants: computed <= scheduled <= expected, known <= expected; and
// expected = scheduled + sequences where the row is steady.
struct alignas(64) Row {
  RequestId request = {};
  std::int64_t steps = 0;      // plans with this row since it was admitted
  std::uint32_t slot = 0;
  std::int32_t known = 0;      // tokens whose values the host has
  std::int32_t computed = 0;   // tokens with KV
  std::int32_t scheduled = 0;  // computed, or to be computed by steps in flight
  std::int32_t expected = 0;   // known, or to be known after the steps in flight
  std::int32_t capacity = 0;   // tokens that its KV blocks hold
  std::int32_t cap = 0;        // known tokens after which nothing more is computed: the host's cap on output
  std::int32_t ceiling = 0;    // `scheduled` may rise so far without a closer look: min(capacity, cap - 1)
  std::int32_t blocks = 0;     // KV blocks, shared ones included
  std::int32_t generated = 0;  // output per sequence
  std::uint16_t sequences = 1;
  std::uint8_t drafts = 0;     // draft tokens to verify next
  RowState state = RowState::kFree;
  bool prefilling = false;     // has not sampled since it was admitted
  // Of the steps in flight, and the one being planned, a bit each, by the places that they have in the scheduler: in
  // the low byte of those that name the row, in the high byte of those of them whose results count.
  std::uint16_t in_flight = 0;

  static constexpr std::uint16_t Bits(int place) { return static_cast<std::uint16_t>(0x101 << place); }
  static constexpr std::uint16_t kCounting = 0xff00;
  bool Counts(std::uint16_t step) const { return (in_flight & step & kCounting) != 0; }
};
static_assert(sizeof(Row) == 64);

// Lanes are stable while a request runs, and given out last in, first out, so that few are touched.
class RunningSet {
 public:
  void Reserve(std::size_t lanes) {
    rows_.Reserve(lanes);
    order_.reserve(lanes);
    resting_.reserve(lanes);
  }

  // Room for n more rows after the next BeginWalk, without allocation.
  void MakeRoom(std::size_t n) {
    if (n <= rows_.room() + resting_.size() && order_.size() + n <= order_.capacity()) [[likely]]
      return;
    Reserve(std::max({2 * rows_.capacity(), rows_.slots() + n, 2 * (order_.size() + n)}));
  }
  std::size_t capacity() const { return rows_.capacity(); }  // lanes that need no allocation are below this

  Row& operator[](std::uint32_t lane) { return rows_[lane]; }
  const Row& operator[](std::uint32_t lane) const { return rows_[lane]; }
  std::size_t lanes() const { return rows_.slots(); }

  // Lanes in the order of admission. Rows that have left stay among them until the next walk, which must drop them.
  std::vector<std::uint32_t>& order() { return order_; }
  const std::vector<std::uint32_t>& order() const { return order_; }

  // A lane for a new row, last in order.
  std::uint32_t Add(const Row& row) {
    const std::uint32_t lane = rows_.Take();
    rows_[lane] = row;
    order_.push_back(lane);
    return lane;
  }

  // Whoever calls this walks the whole order next, before Add: lanes freed until now may then be given out again.
  void BeginWalk() {
    for (const std::uint32_t lane : resting_) rows_.Give(lane);
    resting_.clear();
  }

  void Free(std::uint32_t lane) {
    rows_[lane].state = RowState::kFree;
    resting_.push_back(lane);
  }

 private:
  SlotTable<Row> rows_;
  std::vector<std::uint32_t> order_ = {};
  std::vector<std::uint32_t> resting_ = {};  // free, but still in the order
};

}  // namespace takt::internal

#endif  // TAKT_STATE_RUNNING_SET_H_
