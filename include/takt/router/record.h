// Records of a router's living requests, by slot or by id.
#ifndef TAKT_ROUTER_RECORD_H_
#define TAKT_ROUTER_RECORD_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/model/instance.h"
#include "takt/state/request_parts.h"
#include "takt/state/request_state.h"

namespace takt::internal {

enum class RouteStatus : std::uint8_t {
  kUnknown,  // no living request has the slot
  kWaiting,  // the request is in the queue
  kSetAside,  // the request is too large for every instance that is up
  kHeld,  // the request waits for earlier stages of its workflow
  kPlaced,  // the request is on an instance
};

// The tokens that were reported to the policy, over all instances that ran the request.
struct Charged {
  struct More {
    Tokens prefill{0}, output{0};
    std::int64_t steps = 0;  // steps of the output
  };

  // Raises the reported tokens to `to` and returns the difference. Repeated reports count once. Work that is repeated
  // after a loss counts once.
  More RaiseTo(const TokensServed& to, std::int32_t sequences) {
    More more;
    const bool first = served.output.value == 0;
    if (to.prefill > served.prefill) more.prefill = {to.prefill.value - served.prefill.value};
    if (to.output > served.output) {
      more.output = {to.output.value - served.output.value};
      // One token per sequence and step. The first token comes with the last prompt token.
      more.steps = (std::int64_t{more.output.value} + sequences - 1) / sequences - (first ? 1 : 0);
    }
    served.prefill = std::max(served.prefill, to.prefill), served.output = std::max(served.output, to.output);
    return more;
  }

  TokensServed served = {};
  bool reported = false;  // true: the host has sent an event about the request since its placement
};

// Links of a record that may be in a SlotList.
struct SlotLinks {
  Slot before = kNoSlot, after = kNoSlot;
};

// A placed request has one or two legs. With two, `place` computes the prompt, and `decode` takes the request over at
// PrefillEnded. The request then has one leg, on that instance.
struct RouteRecord {
  RequestState state = {};
  RouteStatus status = RouteStatus::kUnknown;
  bool unseen = false;  // true: no report of the instance includes the request yet, so `age` is in a list
  bool lacks_decode = false;  // true: the instance in `decode` went down, and no other has been chosen yet
  bool prefilled = false;  // with lacks_decode: `place` has computed the prompt
  InstanceId place = {};  // instance that has the request; none: not placed
  InstanceId decode = {};  // instance that will decode; none: `place` does both phases, or lacks_decode
  TimePoint placed{};
  std::int32_t uncomputed = 0;  // prompt tokens that its instance has not computed, as far as reported
  AgeLink age = {};
  SlotLinks links = {};  // of the list of its instance, or of set_aside
  SlotLinks decode_links = {};  // of the list of its decode instance, or of the requests that lack one
  Charged charged = {};
};

// Invariant: a slot has a status other than kUnknown if and only if its request can be found by id.
class RouteTable : public IdTable<RequestId, RouteRecord> {
 public:
  // Makes room for the copies of the request's spans, in the slot that Insert takes next.
  void MakeRoomFor(const Request& request) {
    if (RequestParts::Any(request)) parts_.MakeRoom(MakeSlot(), request);
  }

  // Adds a record and returns its slot. `request.id` must be new, and room must be available.
  Slot Insert(const Request& request) {
    const Slot slot = IdTable::Insert(request.id);
    RouteRecord& record = (*this)[slot];
    record = {.state = {.request = request, .slot = slot}, .status = RouteStatus::kHeld};
    if (RequestParts::Any(request)) parts_.Keep(slot, record.state.request);
    return slot;
  }

  void Erase(Slot slot) {
    RouteRecord& record = (*this)[slot];
    record.status = RouteStatus::kUnknown;
    record.state.request.prefix = {}, record.state.request.scores = {};
    IdTable::Erase(slot, record.state.request.id);
  }

 private:
  RequestParts parts_;
};

// An unordered list of requests, threaded through the links of their records.
//
// Invariant: each links of a record are in at most one list. The list has size() members.
template <SlotLinks RouteRecord::* kLinks>
class SlotListBy {
 public:
  std::int64_t size() const { return size_; }

  void Add(RouteTable& table, Slot slot) {
    table[slot].*kLinks = {kNoSlot, first_};
    if (first_ != kNoSlot) (table[first_].*kLinks).before = slot;
    first_ = slot;
    ++size_;
  }
  // `slot` must be a member.
  void Remove(RouteTable& table, Slot slot) {
    const auto [before, after] = table[slot].*kLinks;
    (before == kNoSlot ? first_ : (table[before].*kLinks).after) = after;
    if (after != kNoSlot) (table[after].*kLinks).before = before;
    --size_;
  }
  // Sets `to` to all members, in order of slots.
  void List(const RouteTable& table, std::vector<Slot>& to) const {
    to.clear();
    for (Slot slot = first_; slot != kNoSlot; slot = (table[slot].*kLinks).after) to.push_back(slot);
    std::ranges::sort(to);
  }
  // Moves all members to `to`, in order of slots.
  void TakeAll(const RouteTable& table, std::vector<Slot>& to) {
    List(table, to);
    first_ = kNoSlot;
    size_ = 0;
  }

 private:
  Slot first_ = kNoSlot;
  std::int64_t size_ = 0;
};
using SlotList = SlotListBy<&RouteRecord::links>;
using DecodeList = SlotListBy<&RouteRecord::decode_links>;

}  // namespace takt::internal

#endif  // TAKT_ROUTER_RECORD_H_
