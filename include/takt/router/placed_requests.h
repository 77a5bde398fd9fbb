// The requests on each instance. A part of these are in no report of the instance yet.
#ifndef TAKT_ROUTER_PLACED_REQUESTS_H_
#define TAKT_ROUTER_PLACED_REQUESTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/router/record.h"
#include "takt/state/call_desk.h"
#include "takt/state/instance_state.h"

namespace takt::internal {

// Invariant: an instance's `outstanding` is the number of its members, and `pending_prefill` the sum of their
// uncomputed tokens. Its `expected` members are still on another instance, which computes their prompts. `since_report`
// and `tokens_since_report` count the expected members, and placements after its newest report.
class PlacedRequests {
 public:
  std::int64_t size() const { return size_; }  // number of requests on all instances

  void MakeRoomForOne() { MakeRoom(lists_, 1); }

  // Adds an instance that came up. The list of its slot must be empty.
  void Up(const InstanceState& instance, TimePoint now) {
    if (instance.slot >= lists_.size()) lists_.resize(instance.slot + std::size_t{1});
    lists_[instance.slot] = {.as_of = now};
  }

  // Adds a member with this many prompt tokens to compute.
  void Add(RouteTable& table, Slot slot, InstanceState& instance, std::int32_t uncomputed, TimePoint now) {
    RouteRecord& record = table[slot];
    List& list = lists_[instance.slot];
    const std::int64_t tokens = record.state.request.prompt_tokens.value;
    record.placed = now;
    record.unseen = true;
    list.unseen.Append(table, slot);
    list.tokens += tokens;
    list.all.Add(table, slot);
    ++size_;
    ++instance.outstanding;
    ++instance.since_report;
    instance.tokens_since_report += tokens;
    record.uncomputed = uncomputed;
    instance.pending_prefill += uncomputed;
  }

  // Adds a member whose prompt another instance computes.
  void Expect(RouteTable& table, Slot slot, InstanceState& instance) {
    lists_[instance.slot].expected.Add(table, slot);
    AddExpected(table[slot], instance, 1);
  }
  void ExpectNoMore(RouteTable& table, Slot slot, InstanceState& instance) {
    lists_[instance.slot].expected.Remove(table, slot);
    AddExpected(table[slot], instance, -1);
  }

  void Remove(RouteTable& table, Slot slot, InstanceState& instance) {
    List& list = lists_[instance.slot];
    if (table[slot].unseen) See(table, slot, list);
    list.all.Remove(table, slot);
    --size_;
    --instance.outstanding;
    instance.pending_prefill -= std::exchange(table[slot].uncomputed, 0);
  }

  // Lowers the uncomputed prompt tokens of a request by a report. With an output token, the whole prompt is computed.
  void Serve(RouteRecord& record, InstanceState& instance, const TokensServed& served) {
    const std::int32_t prompt = record.state.request.prompt_tokens.value;
    const std::int32_t left = served.output > Tokens{0} ? 0 : std::max(prompt - served.prefill.value, 0);
    instance.pending_prefill -= std::max(record.uncomputed - left, 0);
    record.uncomputed = std::min(record.uncomputed, left);
  }

  // Moves the expected requests of an instance that went down to `to`, in order of slots.
  void TakeExpected(RouteTable& table, const InstanceState& gone, std::vector<Slot>& to) {
    lists_[gone.slot].expected.TakeAll(table, to);
  }
  // Moves all other requests of an instance that went down to `to`, in order of slots.
  void TakeAll(RouteTable& table, const InstanceState& gone, std::vector<Slot>& to) {
    SlotList& all = lists_[gone.slot].all;
    size_ -= all.size();
    all.TakeAll(table, to);
    for (const Slot slot : to) table[slot].unseen = false;
  }

  // Returns true if an earlier report has a later `as_of` than this time.
  bool IsLate(const InstanceState& instance, TimePoint as_of) const {
    return as_of != kUnset && as_of < lists_[instance.slot].as_of;
  }

  // Stores the newest report of an instance. Its `as_of` must not be later than now.
  void Report(RouteTable& table, InstanceState& instance, const InstanceReport& newest) {
    InstanceReport& report = instance.report;
    report = newest;
    report.waiting = std::min(report.waiting, kMostCount), report.running = std::min(report.running, kMostCount);
    instance.reported = true;
    List& list = lists_[instance.slot];
    list.as_of = std::max(list.as_of, report.as_of);
    const std::int64_t missing = instance.outstanding - instance.expected - report.waiting - report.running;
    const auto includes = [&](Slot slot) {
      const auto unseen = static_cast<std::int64_t>(list.unseen.size());
      return report.as_of == kUnset ? unseen > missing : table[slot].placed <= report.as_of;
    };
    while (!list.unseen.empty() && includes(list.unseen.oldest())) See(table, list.unseen.oldest(), list);
    instance.since_report = static_cast<std::int64_t>(list.unseen.size()) + instance.expected;
    instance.tokens_since_report = list.tokens + list.expected_tokens;
  }

 private:
  static constexpr std::int64_t kMostCount = std::int64_t{1} << 48;  // maximum count in a report; prevents overflow

  struct List {
    TimePoint as_of = kUnset;  // time up to which reports are complete
    AgeList unseen = {};  // living requests that no report includes yet
    std::int64_t tokens = 0;  // prompt tokens of these requests
    std::int64_t expected_tokens = 0;  // prompt tokens of the expected requests
    SlotList all = {};  // all members except the expected ones
    DecodeList expected = {};
  };

  void AddExpected(const RouteRecord& record, InstanceState& instance, std::int64_t sign) {
    const std::int64_t tokens = sign * record.state.request.prompt_tokens.value;
    lists_[instance.slot].expected_tokens += tokens;
    instance.outstanding += sign, instance.expected += sign;
    instance.since_report += sign, instance.tokens_since_report += tokens;
  }

  static void See(RouteTable& table, Slot slot, List& list) {
    list.unseen.Remove(table, slot);
    table[slot].unseen = false;
    list.tokens -= table[slot].state.request.prompt_tokens.value;
  }

  std::vector<List> lists_;  // by slot of the instance
  std::int64_t size_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_PLACED_REQUESTS_H_
