// The rows of running requests: dense, one cache line each, outside every heap.
#ifndef TAKT_STATE_RUNNING_SET_H_
#define TAKT_STATE_RUNNING_SET_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/slot_table.h"

namespace takt::internal {

enum class RowState : std::uint8_t {
  kFree,
  kSteady,  // the row decodes one token per sequence and step, and needs no other handling
  kUnsteady,  // the row prefills, verifies drafts, or will change
  kMoving,  // the row's KV is moving to the GPU
  kLeaving,  // the row's request has left, but steps or moves in flight use the row
};

// Token counts are sums over all sequences. Invariants: computed <= scheduled <= expected, and known <= expected. For a
// steady row, expected = scheduled + sequences.
struct alignas(64) Row {
  RequestId request = {};
  std::int64_t steps = 0;  // number of plans since the row's admission that included it
  std::uint32_t slot = 0;
  std::int32_t known = 0;  // tokens whose values the host has
  std::int32_t computed = 0;  // tokens with KV
  std::int32_t scheduled = 0;  // tokens that are computed or that steps in flight compute
  std::int32_t expected = 0;  // tokens that are known after the steps in flight
  std::int32_t capacity = 0;  // tokens that its KV blocks hold
  std::int32_t cap = 0;  // known tokens at which output ends: the host's cap
  std::int32_t ceiling = 0;  // bound of `scheduled` without further checks: min(capacity, cap - 1)
  std::int32_t blocks = 0;  // KV blocks, including shared ones
  std::int32_t generated = 0;  // output tokens per sequence
  std::uint16_t sequences = 1;
  std::uint8_t drafts = 0;  // number of draft tokens that the next step verifies
  RowState state = RowState::kFree;
  bool prefilling = false;  // true: the row has not sampled since its admission
  bool left_out = false;  // excluded from the next plan
  // One bit per step in flight or under construction, by the step's place in the scheduler. The low byte marks the
  // steps that use the row. The high byte marks those whose results count.
  std::uint16_t in_flight = 0;

  static constexpr std::uint16_t Bits(int place) { return static_cast<std::uint16_t>(0x101 << place); }
  static constexpr std::uint16_t kCounting = 0xff00;
  bool Counts(std::uint16_t step) const { return (in_flight & step & kCounting) != 0; }
};
static_assert(sizeof(Row) == 64);

// Returns the index of a lane; lanes.size() if it is not listed. Compares many lanes at a time.
inline std::size_t PlaceOf(std::span<const std::uint32_t> lanes, std::uint32_t lane) {
  using Four = std::int32_t __attribute__((vector_size(16)));
  constexpr std::size_t kBlock = 64;
  const Four wanted = Four{} + static_cast<std::int32_t>(lane);
  std::size_t at = 0;
  for (; at + kBlock <= lanes.size(); at += kBlock) {
    Four found = {};
    for (std::size_t i = 0; i < kBlock; i += 4) {
      Four four;
      std::memcpy(&four, &lanes[at + i], sizeof four);
      found |= four == wanted;
    }
    if ((found[0] | found[1] | found[2] | found[3]) != 0) break;
  }
  while (at < lanes.size() && lanes[at] != lane) ++at;
  return at;
}

// A lane is stable while its request runs. Lanes are reused last in, first out, so that few are touched.
//
// Standing rows are at the front of the order. They decode one token per step and have room for it. One counter counts
// the steps of all standing rows, so stored counts of a standing row are out of date. operator[] updates a row. The row
// is then not standing until a plan schedules it as a decoding row again. Plans with standing rows are numbered. Their
// results must arrive in that order; otherwise call StandNoMoreFrom(0) first.
class RunningSet {
 public:
  RunningSet() { buckets_.fill(kNoSlot); }

  void Reserve(std::size_t lanes) {
    rows_.Reserve(lanes);
    stands_.reserve(lanes);
    growers_.reserve(lanes);
    disturbed_.reserve(lanes);
    order_.reserve(lanes);
    resting_.reserve(lanes);
  }

  // Makes room for n more rows after the next BeginWalk.
  void MakeRoom(std::size_t n) {
    if (n <= rows_.room() + resting_.size() && order_.size() + n <= order_.capacity()) [[likely]]
      return;
    Reserve(std::max({2 * rows_.capacity(), rows_.slots() + n, 2 * (order_.size() + n)}));
  }
  std::size_t capacity() const { return rows_.capacity(); }  // lanes below this number need no allocation

  // Returns an updated row that may be changed and is no longer standing.
  Row& operator[](std::uint32_t lane) {
    if (stands_[lane].since != 0) StandNoMore(lane);
    return rows_[lane];
  }
  // Returns a copy of the row, up to date.
  Row Look(std::uint32_t lane) const {
    Row row = rows_[lane];
    if (stands_[lane].since != 0) BringUpToDate(row, stands_[lane]);
    return row;
  }
  // Returns a row as stored. The token counts of a standing row lack its standing steps. Request, slot, sequences,
  // state and cap are valid.
  Row& Stored(std::uint32_t lane) { return rows_[lane]; }
  const Row& Stored(std::uint32_t lane) const { return rows_[lane]; }
  std::size_t lanes() const { return rows_.slots(); }

  // Lanes in order of admission. Lanes of rows that have left stay listed until the next walk, which must drop them.
  std::vector<std::uint32_t>& order() { return order_; }
  const std::vector<std::uint32_t>& order() const { return order_; }

  // Adds a row at the end of the order, and returns its lane.
  std::uint32_t Add(const Row& row) {
    const std::uint32_t lane = rows_.Take();
    rows_[lane] = row;
    if (lane >= stands_.size()) stands_.resize(std::size_t{lane} + 1), growers_.resize(stands_.size());
    order_.push_back(lane);
    return lane;
  }

  // Starts a walk of the whole order, which must follow before the next Add. Lanes freed so far may then be reused.
  void BeginWalk() {
    for (const std::uint32_t lane : resting_) rows_.Give(lane);
    resting_.clear();
  }

  void Free(std::uint32_t lane) {
    rows_[lane].state = RowState::kFree;
    resting_.push_back(lane);
  }

  // ---- standing rows

  // Number of lanes in the standing part, at the front of the order: standing rows and those of disturbed().
  std::size_t front() const { return front_; }
  void SetFront(std::size_t lanes) { front_ = lanes; }
  // Lanes of the standing part whose rows have left or are no longer standing.
  std::vector<std::uint32_t>& disturbed() { return disturbed_; }

  bool stands(std::uint32_t lane) const { return stands_[lane].since != 0; }
  // Returns true if this standing plan counts the row with the other standing rows.
  bool StoodIn(std::uint32_t lane, std::uint64_t plan) const {
    return stands_[lane].since != 0 && stands_[lane].since <= plan;
  }

  // Returns the output tokens per sequence. GeneratedAfter requires a standing row, and includes the results of plans
  // up to this one.
  std::int32_t Generated(std::uint32_t lane) const {
    return stands_[lane].since == 0 ? rows_[lane].generated : GeneratedAfter(lane, committed_);
  }
  std::int32_t GeneratedAfter(std::uint32_t lane, std::uint64_t plan) const {
    const std::uint64_t since = stands_[lane].since;
    return rows_[lane].generated + static_cast<std::int32_t>(std::max(plan + 1, since) - since);
  }

  // Sets the tokens per KV block; 0: standing rows need no blocks. `by_lane`: true if VisitGrowing will be called.
  void SetBlocks(std::int32_t tokens, bool by_lane) {
    block_tokens_ = static_cast<std::uint64_t>(tokens);
    growing_.assign(block_tokens_, {});
    links_growers_ = by_lane;
  }

  // Makes the first row after the standing part, which was just planned, standing from the next plan on. Has no effect
  // if the row has more than one spare block.
  void Stand(std::uint32_t lane) {
    const Row& row = rows_[lane];
    if (block_tokens_ > 0 && std::cmp_greater_equal(row.capacity - row.scheduled, block_tokens_)) return;
    Standing& s = stands_[lane];
    s.since = plans_ + 1;
    s.grows = plans_ + 1 + static_cast<std::uint64_t>(row.capacity - row.scheduled);
    if (block_tokens_ > 0) AddGrower(lane);
    Schedule(lane, plans_ + 1 + static_cast<std::uint64_t>(row.cap - 1 - row.scheduled));
    ++front_;
  }

  // Returns how many standing rows get a block with the next standing plan.
  std::int32_t growing() const { return block_tokens_ > 0 ? growing_[(plans_ + 1) % block_tokens_].rows : 0; }
  // Calls visit(lane, request, tokens) for each of these rows in order. `tokens`: scheduled tokens, which fill its
  // blocks.
  template <class Visit>
  void VisitGrowing(Visit&& visit) const {
    for (std::uint32_t lane = growing_[(plans_ + 1) % block_tokens_].first; lane != kNoSlot;
         lane = growers_[lane].next) {
      const Grower& grower = growers_[lane];
      visit(lane, grower.request, static_cast<std::int32_t>(grower.tokens + plans_ + 1));
    }
  }

  // Ends the standing of rows at their caps. Returns true if there was one.
  bool StopAtCaps() {
    bool any = false;
    for (std::uint32_t lane = buckets_[(plans_ + 1) % kBuckets]; lane != kNoSlot;) {
      const std::uint32_t next = stands_[lane].next;
      if (stands_[lane].due <= plans_ + 1) {
        StandNoMore(lane);
        any = true;
      } else {
        Unschedule(lane), Schedule(lane, stands_[lane].due);  // the row is due in a later round
      }
      lane = next;
    }
    return any;
  }

  // Plans one more token for all standing rows in a step with these bits. Returns the number of the standing plan.
  std::uint64_t PlanStanding(std::uint16_t bits) {
    ++plans_;
    *std::ranges::find(in_flight_, std::uint64_t{0}, &InFlight::plan) = {plans_, bits, false};
    return plans_;
  }
  // Discards a standing plan that does not run.
  void ForgetStanding(std::uint64_t plan) { Landed(plan); }
  // Returns true if this plan's results are next in order and all its standing rows are still standing.
  bool Undisturbed(std::uint64_t plan) const {
    const auto at = std::ranges::find(in_flight_, plan, &InFlight::plan);
    return at != in_flight_.end() && !at->disturbed;
  }
  bool InOrder(std::uint64_t plan) const {
    return std::ranges::all_of(in_flight_, [plan](const InFlight& f) { return f.plan == 0 || f.plan >= plan; });
  }
  // Counts the tokens of this plan's rows that are still standing.
  void CommitStanding(std::uint64_t plan) { Landed(plan), committed_ = std::max(committed_, plan); }

  // Rows from this place of the order on are no longer standing.
  void StandNoMoreFrom(std::size_t place) {
    for (std::size_t i = place; i < front_; ++i) {
      if (stands(order_[i])) StandNoMore(order_[i]);
    }
    if (place == 0) disturbed_.clear();
    front_ = std::min(front_, place);
  }

 private:
  static constexpr std::size_t kBuckets = 1024;

  // Rows that need a block in the same plans, in order.
  struct Growing {
    std::int32_t rows = 0;
    std::uint32_t first = kNoSlot, last = kNoSlot;
  };
  struct Grower {
    std::uint32_t prev = kNoSlot, next = kNoSlot;
    RequestId request = {};
    std::uint64_t tokens = 0;  // number of tokens scheduled before a standing plan, minus the plan's number
  };
  struct Standing {
    std::uint64_t since = 0;  // first standing plan that counts for the row; 0: not standing
    std::uint64_t grows = 0;  // first standing plan for which the row needs a block
    std::uint64_t due = 0;  // first standing plan that would exceed the row's cap
    std::uint32_t prev = kNoSlot, next = kNoSlot;  // lanes in its bucket
    std::uint32_t bucket = 0;
  };
  struct InFlight {
    std::uint64_t plan = 0;  // 0: none
    std::uint16_t bits = 0;
    bool disturbed = false;  // a standing row of the plan is no longer standing
  };

  void BringUpToDate(Row& row, const Standing& s) const {
    const std::uint64_t since = s.since;
    const auto planned = static_cast<std::int32_t>(plans_ + 1 - since);
    const auto done = committed_ >= since ? static_cast<std::int32_t>(committed_ + 1 - since) : 0;
    row.steps += planned;
    row.scheduled += planned, row.expected += planned;
    row.computed += done, row.known += done, row.generated += done;
    if (block_tokens_ > 0 && plans_ >= s.grows) {
      const auto grown = static_cast<std::int32_t>((plans_ - s.grows) / block_tokens_ + 1);
      row.blocks += grown;
      row.capacity += grown * static_cast<std::int32_t>(block_tokens_);
      row.ceiling = std::min(row.capacity, row.cap - 1);
    }
    for (const InFlight& f : in_flight_) {
      if (f.plan >= since) row.in_flight |= f.bits;
    }
  }
  void StandNoMore(std::uint32_t lane) {
    Standing& s = stands_[lane];
    BringUpToDate(rows_[lane], s);
    if (block_tokens_ > 0) RemoveGrower(lane);
    for (InFlight& f : in_flight_) f.disturbed |= f.plan >= s.since;
    s.since = 0;
    Unschedule(lane);
    disturbed_.push_back(lane);
  }
  // Rows become standing in order, so a new one is last.
  void AddGrower(std::uint32_t lane) {
    Growing& growing = growing_[stands_[lane].grows % block_tokens_];
    ++growing.rows;
    if (!links_growers_) return;
    const Row& row = rows_[lane];
    growers_[lane] = {growing.last, kNoSlot, row.request, static_cast<std::uint64_t>(row.scheduled) - (plans_ + 1)};
    (growing.last == kNoSlot ? growing.first : growers_[growing.last].next) = lane;
    growing.last = lane;
  }
  void RemoveGrower(std::uint32_t lane) {
    Growing& growing = growing_[stands_[lane].grows % block_tokens_];
    --growing.rows;
    if (!links_growers_) return;
    const Grower& grower = growers_[lane];
    (grower.prev == kNoSlot ? growing.first : growers_[grower.prev].next) = grower.next;
    (grower.next == kNoSlot ? growing.last : growers_[grower.next].prev) = grower.prev;
  }
  void Landed(std::uint64_t plan) {
    const auto at = std::ranges::find(in_flight_, plan, &InFlight::plan);
    if (at != in_flight_.end()) *at = {};
  }

  void Schedule(std::uint32_t lane, std::uint64_t due) {
    Standing& s = stands_[lane];
    s.due = due;
    s.bucket = static_cast<std::uint32_t>(std::min(due, plans_ + kBuckets - 1) % kBuckets);
    s.prev = kNoSlot;
    s.next = buckets_[s.bucket];
    if (s.next != kNoSlot) stands_[s.next].prev = lane;
    buckets_[s.bucket] = lane;
  }
  void Unschedule(std::uint32_t lane) {
    const Standing& s = stands_[lane];
    (s.prev == kNoSlot ? buckets_[s.bucket] : stands_[s.prev].next) = s.next;
    if (s.next != kNoSlot) stands_[s.next].prev = s.prev;
  }

  SlotTable<Row> rows_;
  std::vector<std::uint32_t> order_ = {};
  std::vector<std::uint32_t> resting_ = {};  // free lanes that are still in the order

  std::vector<Standing> stands_;  // by lane
  std::vector<std::uint32_t> disturbed_;
  std::size_t front_ = 0;
  std::uint64_t block_tokens_ = 0;
  std::vector<Growing> growing_;  // by plan modulo a block's tokens
  std::vector<Grower> growers_;  // by lane, stored separately because a plan reads many of them
  bool links_growers_ = false;
  std::uint64_t plans_ = 0, committed_ = 0;  // number of standing plans; last one with results
  std::array<InFlight, 4> in_flight_;  // standing plans without results, unordered
  std::array<std::uint32_t, kBuckets> buckets_;  // lanes by due plan
};

}  // namespace takt::internal

#endif  // TAKT_STATE_RUNNING_SET_H_
