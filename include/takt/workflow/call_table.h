// The running and waiting calls of all workflows, by handle.
#ifndef TAKT_WORKFLOW_CALL_TABLE_H_
#define TAKT_WORKFLOW_CALL_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/slot.h"

namespace takt::internal {

// The calls of one workflow that have not ended.
struct CallList {
  std::uint32_t first = kNoSlot;
  std::uint32_t size = 0, running = 0;  // number of calls, and number of these that are not held
};

// The owner keeps a CallList per workflow and the first held call per stage (kNoSlot: none).
//
// Invariant: a call is in the list of its workflow from Join to Leave. A held call is in its stage's list of held
// calls, newest first, from Join to Release or Leave.
class CallTable {
 public:
  using Handle = std::uint32_t;
  struct Place {
    std::uint32_t workflow = kNoSlot, stage = 0;
  };

  void Reserve(std::size_t n) { calls_.reserve(n); }
  bool contains(Handle call) const { return call < calls_.size() && calls_[call].at.workflow != kNoSlot; }
  bool held(Handle call) const { return contains(call) && calls_[call].held; }
  Place PlaceOf(Handle call) const { return calls_[call].at; }

  void Join(Handle call, Place at, CallList& of, std::uint32_t& first_held, bool held) {
    if (call >= calls_.size()) calls_.resize(std::size_t{call} + 1);
    Call& c = calls_[call];
    c = {.at = at, .next = std::exchange(of.first, call), .held = held};
    if (c.next != kNoSlot) calls_[c.next].previous = call;
    if (held) c.next_held = std::exchange(first_held, call);
    ++of.size;
    of.running += held ? 0u : 1u;
  }

  void Leave(Handle call, CallList& of, std::uint32_t& first_held) {
    Call& c = calls_[call];
    if (c.held) {
      std::uint32_t* link = &first_held;
      while (*link != call) link = &calls_[*link].next_held;
      *link = c.next_held;
    }
    (c.previous == kNoSlot ? of.first : calls_[c.previous].next) = c.next;
    if (c.next != kNoSlot) calls_[c.next].previous = c.previous;
    --of.size;
    of.running -= c.held ? 0u : 1u;
    c.at.workflow = kNoSlot;
  }

  // Releases the held calls of a stage. Appends them to `released` in the order in which they were made.
  void Release(CallList& of, std::uint32_t& first_held, std::vector<Handle>& released) {
    const std::size_t first = released.size();
    for (std::uint32_t call = std::exchange(first_held, kNoSlot); call != kNoSlot; call = calls_[call].next_held) {
      calls_[call].held = false;
      ++of.running;
      released.push_back(call);
    }
    std::reverse(released.begin() + static_cast<std::ptrdiff_t>(first), released.end());
  }

 private:
  struct Call {
    Place at = {};
    std::uint32_t previous = kNoSlot, next = kNoSlot;  // of its workflow
    std::uint32_t next_held = kNoSlot;
    bool held = false;
  };

  std::vector<Call> calls_;  // by handle
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_CALL_TABLE_H_
