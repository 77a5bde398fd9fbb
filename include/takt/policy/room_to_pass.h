// takt's default: first come, first served, but a request may be passed while it has room for that.
#ifndef TAKT_POLICY_ROOM_TO_PASS_H_
#define TAKT_POLICY_ROOM_TO_PASS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/slot.h"
#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/policy/books/footprint_book.h"
#include "takt/policy/books/passing_line.h"
#include "takt/policy/footprint.h"
#include "takt/policy/rank_policy.h"

namespace takt {

enum class PassPreset : std::uint8_t {
  kDefault,  // bounded tail latency
  kMean,  // the order of footprint: least mean latency, unlimited tail latency
};
constexpr auto NamesOf(PassPreset) { return std::to_array<std::string_view>({"default", "mean"}); }

// The work that requests found before them when they joined, in classes of an eighth of an octave. The last kHalve
// requests have about two thirds of the weight.
class FoundWork {
 public:
  static constexpr std::int64_t kHalve = 8192;

  // Returns true if it has just halved all weights.
  bool Add(Work work) {
    const std::size_t at = work < Classes::kLeast ? 0 : static_cast<std::size_t>(Classes::Of(work)) + 1;
    ++counts_[at], ++all_;
    if (at > at_) ++above_;
    if (++since_halved_ < kHalve) return false;
    since_halved_ = all_ = above_ = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] /= 2, all_ += counts_[i];
      if (i > at_) above_ += counts_[i];
    }
    return true;
  }

  // Returns the quantile q; 0 if fewer than 1 / (1 - q) requests are known. Usually O(1), since it starts at the last
  // answer.
  Work Quantile(double q) {
    const double over = (1 - q) * static_cast<double>(all_);
    if (over < 1) return 0;
    while (static_cast<double>(above_) > over) above_ -= counts_[++at_];
    while (at_ > 0 && static_cast<double>(above_ + counts_[at_]) <= over) above_ += counts_[at_--];
    if (at_ == 0) return 0;
    const auto cls = static_cast<int>(at_) - 1;
    const auto most = static_cast<double>(Classes::Size(cls));
    const double least = cls == 0 ? 0 : static_cast<double>(Classes::Size(cls - 1));
    const double share = (over - static_cast<double>(above_)) / static_cast<double>(counts_[at_]);
    return static_cast<Work>(most - Rounded(share * (most - least)));
  }

  static constexpr std::size_t kWords = WorkClasses<3, 52>::kCount + 2;  // words of Save

  void Save(std::vector<std::uint64_t>& words) const {
    words.push_back(static_cast<std::uint64_t>(since_halved_));
    words.insert(words.end(), counts_.begin(), counts_.end());
  }
  // Returns false if the words are invalid.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != kWords || std::ranges::any_of(words, [](std::uint64_t n) { return n > 2 * kHalve; }))
      return false;
    *this = {};
    since_halved_ = static_cast<std::int64_t>(words[0]);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] = static_cast<std::int64_t>(words[i + 1]), all_ += counts_[i], above_ += i > 0 ? counts_[i] : 0;
    }
    return true;
  }

 private:
  using Classes = WorkClasses<3, 52>;

  std::array<std::int64_t, Classes::kCount + 1> counts_ = {};
  std::int64_t all_ = 0, above_ = 0, since_halved_ = 0;  // above_: in classes above at_
  std::size_t at_ = 0;  // class of the last quantile
};

// All is counted in work, which does not depend on the order: the engine seconds that the request takes. Its size is
// the work of the rest of its workflow (FootprintBook).
//
//  A request joins:      found = work that waits before it
//                        room  = max(tail_factor found, quantile of found) - found
//  A request goes:       each request before it that still waits loses its work as room
//  A request may go if   its size <= max(room, min(waiting work, cap) - found - passed) of each request before it
//  The next:             of those that may go, the one with the least arrival + tau ln(size)
//
// The line is in order of the workflows' arrivals. A workflow whose deadline is tighter than usual counts as older, by
// a share of the waiting work. A request that was admitted before comes before all that were not. The rule compares
// sizes that are rounded up to a quarter of an octave. tau is the mean time that work waits: the integral of the
// waiting work over time, divided by the work that has left. Any order has the same tau (Little's law). It is the mean
// wait under first come, first served. An order by arrival + tau ln(size) improves the tail in M/G/1 queues. Source: Yu
// and Scully, Strongly tail-optimal scheduling in the light-tailed M/G/1, 2024.
//
// `cap` is the waiting work times the share of recent work that was not cancelled while it waited. So repeated
// predictions of work that never runs do not let others pass.
//
// With true sizes, the work that goes before a request is bounded by the larger of two amounts. The first is the work
// that first come, first served lets go before it, and its room. The second is the most work that waited at once while
// it waited. docs/reference/policies/room_to_pass.md has the proof and its limits.
class RoomToPass {
 public:
  static constexpr std::string_view kName = "room_to_pass";

  void set_pace(const StepPace& pace) { book_.options().pace = pace; }

  void Reserve(std::size_t requests) { book_.Reserve(requests), line_.Reserve(requests), calls_.reserve(requests); }
  void KeyHashes(std::uint64_t seed) { book_.KeyHashes(seed); }
  void Enters(const RequestState& r, TimePoint now) {
    book_.Enters(r, now);
    if (r.slot >= calls_.size()) calls_.resize(r.slot + std::size_t{1});
    Call& call = calls_[r.slot];
    if (std::exchange(call.enqueued, r.enqueued) != r.enqueued) {
      const double drain = Seconds(line_.waiting()) / book_.engines();
      call.start =
          std::min(FromSeconds(Rounded(options_.deadline_weight * book_.Tightness(r) * drain)), Duration(kMostAge));
    }
    if (line_.contains(r.slot)) line_.Resize(r.slot, WorkOf(r), SizeOf(r));
  }
  void Ends(const RequestState& r, TimePoint now) {
    book_.Ends(r, now);
    if (r.slot >= calls_.size()) return;
    if (calls_[r.slot].counted && !r.taken) cancelled_ = std::min(cancelled_ + line_.work(r.slot), Work{kMostLeft});
    calls_[r.slot] = {};
  }
  // Learnt sizes, tau, and the work found.
  std::vector<std::uint64_t> SaveLearnt() const {
    std::vector<std::uint64_t> words = {kFormat, std::bit_cast<std::uint64_t>(waited_),
                                        static_cast<std::uint64_t>(left_), static_cast<std::uint64_t>(cancelled_)};
    found_.Save(words);
    const std::vector<std::uint64_t> sizes = book_.Save();
    words.insert(words.end(), sizes.begin(), sizes.end());
    return words;
  }
  bool LoadLearnt(std::span<const std::uint64_t> words) {
    constexpr std::size_t kOwn = 4 + FoundWork::kWords;
    if (words.size() < kOwn || words[0] != kFormat || std::max(words[2], words[3]) > kMostLeft) return false;
    const auto waited = std::bit_cast<double>(words[1]);
    FoundWork found;
    if (!(waited >= 0 && waited <= kMostWaited) || !found.Load(words.subspan(4, FoundWork::kWords))) return false;
    if (!book_.Load(words.subspan(kOwn))) return false;
    found_ = found, waited_ = waited, left_ = static_cast<Work>(words[2]), cancelled_ = static_cast<Work>(words[3]);
    return true;
  }
  PolicyHooks hooks() const {
    PolicyHooks hooks = HooksOf<RoomToPass>();
    hooks.chooses = options_.preset != PassPreset::kMean;
    return hooks;
  }
  void PlanBegins(TimePoint now) { Wait(now), line_.BeginPlan(); }
  void PlanEnds(const QueuePressure& pressure, TimePoint) { book_.PlanEnds(pressure); }

  // The order of the line.
  RankKey Key(const RequestState& r) const {
    return {options_.preset == PassPreset::kMean ? book_.Left(r) : static_cast<double>(PlaceOf(r).came) * 1e-9};
  }

  Slot First() const { return line_.First(tau(), cap()); }
  void Joins(const RequestState& r, TimePoint now) {
    Wait(now);
    Call& call = calls_[r.slot];
    const PassingLine::Place place = PlaceOf(r);
    call.found = line_.Ahead(place);
    if (!std::exchange(call.counted, true) && found_.Add(call.found)) waited_ /= 2, left_ /= 2, cancelled_ /= 2;
    const auto most = static_cast<Work>(std::min(options_.tail_factor * static_cast<double>(call.found), 1e18));
    call.room = std::max(most, found_.Quantile(options_.quantile)) - call.found;
    line_.Join(r.slot, place, WorkOf(r), call.room, SizeOf(r));
  }
  void Leaves(Slot slot, bool goes) {
    left_ = std::min(left_ + line_.work(slot), Work{kMostLeft});
    line_.Leave(slot, goes);
  }
  void Returns(Slot slot) {
    left_ = std::max(left_ - line_.work(slot), Work{0});
    line_.Return(slot);
  }

  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    parts.Add("size_s", book_.Left(r));
    parts.Add("truth", book_.Truth(r));
    parts.Add("tau_s", tau());
    if (!line_.contains(r.slot)) return parts;
    const Call& call = calls_[r.slot];
    parts.Add("found_s", Seconds(call.found));
    parts.Add("room_s", Seconds(line_.Room(r.slot)));
    parts.Add("passed_s", Seconds(call.room - line_.Room(r.slot)));
    parts.Add("newcomer_s", Seconds(std::min(line_.waiting(), cap()) - line_.Before(r.slot)));
    parts.Add("deadline_s", ToSeconds(call.start));
    return parts;
  }

  const PassingLine& line() const { return line_; }
  double tau() const { return left_ > 0 ? waited_ / Seconds(left_) : 0; }  // [s]
  Work cap() const {
    if (cancelled_ == 0) return PassingLine::kNoCap;
    const double share = 1 - std::min(Seconds(cancelled_) / Seconds(std::max(left_, Work{1})), 1.0);
    return static_cast<Work>(share * static_cast<double>(line_.waiting()));
  }
  PassingLine::Place PlaceOf(const RequestState& r) const {
    const TimePoint own = r.request.arrival;
    TimePoint came = std::clamp(r.request.workflow_arrival, Before(own, Duration(kMostAge)), own);
    if (r.slot < calls_.size()) came = Before(came, calls_[r.slot].start);
    if (r.taken) came = Before(came, Duration(kBeforeAll));
    return {came.time_since_epoch().count(), r.request.id.value};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.options_;
    visit("preset", o.preset, OptionText{"", "default | mean"});
    visit("tail_factor", o.tail_factor,
          OptionText{"x", "work that may go before a request, over the work found", 1, 1e6});
    visit("quantile", o.quantile,
          OptionText{"", "quantile of the work found; this much may go before any request", 0, 1, true});
    visit("deadline_weight", o.deadline_weight, OptionText{"", "weight of deadlines; 0: ignored", 0, 1e6});
    VisitFootprintOptions(self.book_.options(), visit);
  }

 private:
  static constexpr std::uint64_t kFormat = 0x74616b7470617302u;  // format of SaveLearnt
  static constexpr std::uint64_t kMostLeft = std::uint64_t{1} << 60;
  static constexpr double kMostWaited = 1e30;  // [s * s]
  // [ns] that a place may precede the arrival of the call, for its workflow and again for its deadline
  static constexpr std::int64_t kMostAge = 3'600'000'000'000;

  static constexpr std::int64_t kBeforeAll = 1'000'000'000'000'000'000;  // [ns]

  struct Options {
    PassPreset preset = PassPreset::kDefault;
    double tail_factor = 1.05, quantile = 0.95, deadline_weight = 1;
  };
  struct Call {
    Work found = 0, room = 0;  // when it joined
    bool counted = false;  // in found_
    Duration start{};  // its place is earlier by this much, for its deadline
    TimePoint enqueued = kUnset;  // when `start` was computed
  };

  static double Seconds(Work work) { return Rounded(static_cast<double>(work) * 1e-6); }
  // An absurd prediction counts as a multiple of the largest workflow so far.
  Work SizeOf(const RequestState& r) const { return static_cast<Work>(std::min(book_.Left(r), book_.most()) * 1e6); }
  Work WorkOf(const RequestState& r) const { return static_cast<Work>(std::min(book_.Own(r), book_.most()) * 1e6); }

  // Counts the work that has waited until now.
  void Wait(TimePoint now) {
    if (now_ != kUnset && now > now_) {
      const double gap = std::min(SecondsBetween(now_, now), kMostAge * 1e-9);  // a clock may leap
      waited_ += Rounded(Seconds(line_.waiting()) * gap);
    }
    now_ = now;
  }

  Options options_;
  FootprintBook book_;
  PassingLine line_;
  FoundWork found_;
  std::vector<Call> calls_;  // by slot
  double waited_ = 0;  // integral of the waiting work over time [s * s]
  Work left_ = 0;  // work that has left
  Work cancelled_ = 0;  // work of it that was cancelled while it waited
  TimePoint now_ = kUnset;
};

}  // namespace takt

#endif  // TAKT_POLICY_ROOM_TO_PASS_H_
