// Groups of requests with similar deadlines, reordered if one is predicted to be late (QLM).
#ifndef TAKT_RIVALS_POLICY_SLO_GROUPS_H_
#define TAKT_RIVALS_POLICY_SLO_GROUPS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <limits>
#include <string_view>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Requests with deadlines in the same `bucket` of time form a group; requests without a deadline form the last group.
// Groups are served in the order in which they began to wait, requests of a group by arrival. Before each plan, the
// waiting time of each group is estimated: the number of requests in this and earlier groups, times `tokens`, divided
// by `throughput`. If a group would be late, all waiting groups are sorted by deadline. New groups queue behind these.
//
// Source: Patke et al., Queue Management for SLO-Oriented Large Language Model Serving (SoCC 2024): virtual queue and
// default order on violation. Departures: a group has requests of equal absolute deadlines, not of equal SLOs. Moves of
// requests and models between engines are left out. A plan costs O(groups) while no group is predicted to be late.
class SloGroups {
 public:
  static constexpr std::string_view kName = "slo_groups";

  struct Options {
    double bucket = 10;  // width of a group in deadlines [s]
    double tokens = 200;  // mean output tokens of a request
    double throughput = 300;  // output tokens per second; defaults of both: HexGen-Flow's simulator
  };

  SloGroups() = default;
  explicit SloGroups(Options options) : options_(options) {}

  void KeyHashes(std::uint64_t seed) { index_.SetKey(seed); }

  void Reserve(std::size_t requests) {
    const std::size_t groups = 2 * requests + 2;  // half of the groups have left
    groups_.reserve(groups);
    moved_.reserve(groups);
    index_.Reserve(requests + 1);
  }

  RankKey Key(const RequestState&) const { return {}; }
  // Returns the bucket's number with the sign bit flipped, so that numbers are in order of time.
  std::uint64_t Group(const RequestState& r) const {
    if (r.request.deadline == kNever) return UINT64_MAX;
    const double bucket = std::floor(ToSeconds(r.request.deadline) / options_.bucket);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::clamp(bucket, -1e15, 1e15))) ^ kSign;
  }
  RankKey GroupKey(std::uint64_t group) const {
    const std::uint32_t i = index_.Find(group);
    return {static_cast<double>(i == kNoSlot ? next_ : groups_[i].position)};
  }

  void GroupSized(std::uint64_t group, std::int64_t waiting, std::optional<RankKey>) {
    std::uint32_t i = index_.Find(group);
    if (i == kNoSlot) {
      i = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back({group, next_++, 0});
      index_.Insert(group, i);
      sorted_ = sorted_ && (i == 0 || groups_[i - 1].id < group);
    }
    groups_[i].waiting = waiting;
    if (waiting > 0) return;
    index_.Erase(group);
    if (++empty_ * 2 > groups_.size()) Compact();
  }

  void PlanBegins(TimePoint now) {
    if (sorted_ || !AnyLate(ToSeconds(now))) return;
    Compact();
    std::ranges::sort(groups_, {}, &Waiting::id);
    for (Waiting& group : groups_) {
      group.position = next_++;
      moved_.push_back(group.id);
    }
    Reindex();
    sorted_ = true;
  }

  std::vector<std::uint64_t>& moved_groups() { return moved_; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("bucket", self.options_.bucket,
          OptionText{"s", "width of a bucket of deadlines, which forms a group", 1e-3, 1e9});
    visit("tokens", self.options_.tokens, OptionText{"tokens", "mean tokens of a request", 0, 1e9});
    visit("throughput", self.options_.throughput, OptionText{"tokens/s", "throughput of the engine", 1e-3, 1e12});
  }

 private:
  static constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

  struct Waiting {
    std::uint64_t id = 0;
    std::uint64_t position = 0;
    std::int64_t waiting = 0;  // number of waiting requests; 0: the group has left and is not in the index
  };

  bool AnyLate(double now) const {
    const double request_s = options_.tokens / options_.throughput;
    double done = now;
    for (const Waiting& group : groups_) {
      done += Rounded(request_s * static_cast<double>(group.waiting));
      const double deadline =
          group.id == UINT64_MAX
              ? std::numeric_limits<double>::infinity()
              : Rounded(static_cast<double>(static_cast<std::int64_t>(group.id ^ kSign)) * options_.bucket);
      if (group.waiting > 0 && done > deadline) return true;
    }
    return false;
  }

  void Compact() {
    std::erase_if(groups_, [](const Waiting& group) { return group.waiting == 0; });
    empty_ = 0;
    Reindex();
  }
  void Reindex() {
    for (std::uint32_t i = 0; i < groups_.size(); ++i) {
      index_.Erase(groups_[i].id);
      index_.Insert(groups_[i].id, i);
    }
  }

  Options options_;
  std::vector<Waiting> groups_;  // in order of service
  IdMap index_;
  std::size_t empty_ = 0;  // number of groups_ that have left
  std::uint64_t next_ = 0;  // next position
  bool sorted_ = true;  // groups_ are in order of deadlines
  std::vector<std::uint64_t> moved_;
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_SLO_GROUPS_H_
