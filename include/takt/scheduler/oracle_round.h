// The reservations that a plan requests from the host's KvOracle.
#ifndef TAKT_SCHEDULER_ORACLE_ROUND_H_
#define TAKT_SCHEDULER_ORACLE_ROUND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/indexed_heap.h"
#include "takt/kv/kv_oracle.h"
#include "takt/state/request_table.h"

namespace takt::internal {

// An admission that awaits the oracle's answer. If `tokens` is 0, the admission is a swap-in.
struct Candidate {
  Slot slot = kNoSlot;
  std::int32_t start = 0, tokens = 0;
  bool prefill = false;
};

// Reservations of running rows, and of candidates for admission, in planning order.
class OracleRound {
 public:
  void Reserve(std::size_t rows) {
    wishes_.reserve(2 * rows), lanes_.reserve(2 * rows), candidates_.reserve(rows), hits_.reserve(kMostAsked),
        asked_.reserve(kMostAsked);
  }
  void ReserveLanes(std::size_t lanes) { wish_of_lane_.reserve(lanes); }
  void ResizeLanes(std::size_t lanes) { wish_of_lane_.resize(lanes); }

  // ---- hits: questions of one plan cover one request, then two, then four, and so on

  void BeginPlan() { ask_ = 1, ForgetHits(); }
  // Invalidates all hits, because their KV may have been evicted.
  void ForgetHits() { ++hits_of_; }
  std::uint64_t hits_of() const { return hits_of_; }  // changes when hits are forgotten
  void BeginQuestion() { hits_.clear(), asked_.clear(); }
  void Ask(Slot slot, const Request& request) { hits_.push_back({&request}), asked_.push_back(slot); }
  bool asks_enough() const { return hits_.size() >= ask_; }
  std::size_t asks() const { return ask_; }  // requests of the next question
  std::span<KvHit> hits() { return hits_; }
  template <class Answered>
  void EndQuestion(Answered answered) {
    for (std::size_t i = 0; i < hits_.size(); ++i) answered(asked_[i], hits_[i].tokens);
    ask_ = std::min<std::size_t>(2 * ask_, kMostAsked);
  }

  // ---- reservations

  bool empty() const { return wishes_.empty(); }
  std::int32_t blocks() const { return blocks_; }  // number of blocks of all reservations
  std::int32_t candidates() const { return static_cast<std::int32_t>(candidates_.size()); }
  std::int32_t candidate_seqs() const { return seqs_; }

  void AddRow(std::uint32_t lane, const KvReservation& wish, std::int32_t blocks) {
    wishes_.push_back(wish);
    lanes_.push_back(lane);
    wish_of_lane_[lane] = static_cast<std::uint32_t>(lanes_.size() - 1);
    blocks_ += blocks;
  }
  // Adds n rows that request one block each. `each` receives add(lane, wish) and calls it once per row.
  template <class Each>
  void AddRows(std::int32_t n, Each&& each) {
    std::size_t at = wishes_.size();
    const std::size_t end = at + static_cast<std::size_t>(n);
    wishes_.resize(end), lanes_.resize(end);
    each([&](std::uint32_t lane, const KvReservation& wish) {
      wishes_[at] = wish, lanes_[at] = lane;
      wish_of_lane_[lane] = static_cast<std::uint32_t>(at++);
    });
    blocks_ += n;
  }
  void AddCandidate(const Candidate& candidate, std::int32_t seqs, const KvReservation& wish, std::int32_t blocks) {
    candidates_.push_back(candidate);
    seqs_ += seqs;
    wishes_.push_back(wish);
    lanes_.push_back(kNoLane);
    blocks_ += blocks;
  }

  // Withdraws the reservation of a row; nullopt if it has none.
  std::optional<KvReservation> Withdraw(std::uint32_t lane) {
    if (!Asks(lane)) return std::nullopt;
    withdrawn_ = true;
    const std::uint32_t at = wish_of_lane_[lane];
    lanes_[at] = kNoLane;
    return std::exchange(wishes_[at], KvReservation{});
  }
  bool Asks(std::uint32_t lane) const {
    const std::uint32_t at = wish_of_lane_[lane];
    return !closed_ && at < lanes_.size() && lanes_[at] == lane;
  }
  void Less(std::int32_t blocks) { blocks_ -= blocks; }

  // Returns the reservations that were not withdrawn. After this call none can be withdrawn.
  std::span<KvReservation> Close() {
    if (withdrawn_) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < wishes_.size(); ++i) {
        if (!wishes_[i].request) continue;
        wishes_[kept] = wishes_[i], lanes_[kept++] = lanes_[i];
      }
      wishes_.resize(kept), lanes_.resize(kept);
    }
    closed_ = !wishes_.empty();
    return wishes_;
  }
  std::uint32_t lane(std::size_t wish) const { return lanes_[wish]; }  // lane that reserves; kNoLane: a candidate does
  const Candidate& candidate(std::size_t i) const { return candidates_[i]; }

  void Clear() {
    wishes_.clear(), lanes_.clear(), candidates_.clear();
    blocks_ = seqs_ = 0;
    withdrawn_ = closed_ = false;
  }

 private:
  static constexpr std::size_t kMostAsked = 64;

  std::vector<KvHit> hits_;
  std::vector<Slot> asked_;  // by hit
  std::size_t ask_ = 1;
  std::uint64_t hits_of_ = 0;
  std::vector<KvReservation> wishes_;
  std::vector<std::uint32_t> lanes_;  // by reservation
  std::vector<std::uint32_t> wish_of_lane_;  // reverse index; valid if lanes_ agrees
  std::vector<Candidate> candidates_;
  std::int32_t blocks_ = 0, seqs_ = 0;
  bool withdrawn_ = false;  // a reservation of this round was withdrawn
  bool closed_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ORACLE_ROUND_H_
