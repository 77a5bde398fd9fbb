// Estimates the workflows in each instance's prefix cache, and the prefill that waits on each instance.
#ifndef TAKT_PLACEMENT_BOOKS_RESIDENCE_H_
#define TAKT_PLACEMENT_BOOKS_RESIDENCE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/model/instance.h"
#include "takt/model/prefill_pace.h"
#include "takt/placement/books/due_work.h"
#include "takt/placement/books/kv_index.h"
#include "takt/placement/books/work_in_flight.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// The base of placements that use cached prefixes. It assumes that a workflow has one context, on the instance of its
// last turn: the turn's prompt and, after its end, the output. An instance keeps the most recently used contexts, up to
// its kv_tokens. Cached tokens are an estimate. It ignores branches, shared prompts and the instance's order of
// eviction. An instance without kv_tokens holds at most kMostCopies.
//
// If an instance reports its blocks (KvStored, KvRemoved, KvCleared), the cached tokens of a request with prefix hashes
// are exact there. They are the longest run of leading blocks in the instance's cache (KvIndex). The estimate remains
// for other requests, and for tokens after the last hash if the cache has all hashed blocks. If the home of a workflow
// reports, and another reporting instance has a longer run, that instance is the home.
//
// The prefill time of uncached tokens counts in full until the first step. Then only its remaining part counts
// (DueWork). Without RequestStarted, it counts in full until the request ends. The pace of an instance is that of its
// profile, or PrefillPace without a profile.
//
// Memory is allocated only for new peaks. Preparing a turn costs O(instances), and O(blocks of the prompt) with
// reports.
class Residence {
 public:
  static constexpr std::size_t kMostCopies = 65536;  // maximum copies per instance

  void KeyHashes(std::uint64_t seed) { flows_.KeyHashes(seed), kv_.KeyHashes(seed); }

  std::int64_t looks() const { return looks_; }  // copies examined one by one so far; for tests

  void Up(const InstanceState& i, TimePoint) {
    if (i.slot >= places_.size()) places_.resize(i.slot + std::size_t{1});
    cached_at_.reserve(2 * places_.size());
    Place& place = places_[i.slot];
    if (place.id != i.instance.id || !place.up) Empty(i.slot);
    place.id = i.instance.id;
    place.up = true;
    place.kv_tokens = i.instance.kv_tokens.value;
    place.pace = {};
    if (i.profile != nullptr && i.profile->cost != nullptr) {
      place.pace = PrefillPace::From(i.profile->cost->model(), kChunk);
    }
    Trim(i.slot, kNoSlot);
  }

  void Observe(const RouterEvent& event, TimePoint) {
    if (const auto* ended = std::get_if<WorkflowEnded>(&event)) {
      const Slot f = flows_.Find(ended->workflow);
      while (f != kNoSlot && flows_[f].copies != kNoSlot && Drop(flows_[f].copies)) {
      }
    }
    if (const auto* down = std::get_if<InstanceDown>(&event)) {
      if (const Slot slot = SlotOf(down->instance); slot != kNoSlot) Empty(slot), places_[slot].up = false;
    }
    if (const auto* stored = std::get_if<KvStored>(&event)) kv_.Store(SlotOf(stored->instance), stored->hashes);
    if (const auto* removed = std::get_if<KvRemoved>(&event)) kv_.Remove(SlotOf(removed->instance), removed->hashes);
    if (const auto* cleared = std::get_if<KvCleared>(&event)) kv_.Clear(SlotOf(cleared->instance));
  }

  void Prepare(const RequestState& r, TimePoint now) {
    left_.Advance(now);
    now_ = now;
    prompt_ = r.request.prompt_tokens.value;
    for (const std::uint32_t slot : cached_at_) places_[slot].cached = 0;
    cached_at_.clear();
    home_ = kNowhere;
    const Flow* flow = r.request.workflow ? flows_.Get(r.request.workflow) : nullptr;
    if (flow != nullptr) {
      home_ = places_[flow->home].up ? flow->home : kNowhere;
      for (Slot c = flow->copies; c != kNoSlot; c = copies_[c].next) {
        places_[copies_[c].place].cached = std::min<std::int64_t>(copies_[c].tokens, std::max(prompt_ - 1, 0));
        cached_at_.push_back(copies_[c].place);
      }
    }
    ReadReports(r.request);
    least_ = most_ = -1;
    for (const Place& place : places_) {
      if (!place.up) continue;
      least_ = least_ < 0 ? place.requests : std::min(least_, place.requests);
      most_ = std::max(most_, place.requests);
    }
  }

  // Returns the tokens of the prepared turn that are in the instance's cache.
  std::int64_t CachedTokens(const InstanceState& i) const { return At(i.slot).cached; }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (i.slot >= places_.size()) return;
    const double seconds = PrefillSeconds(i.slot);
    work_.Placed(r.slot, i.slot, FromSeconds(seconds).count());
    contexts_.Placed(r.slot, i.slot, r.request.prompt_tokens.value);
    ++places_[i.slot].requests;
    Learn(r, i.slot, r.request.prompt_tokens.value, now);
    kv_.Use(UsableBlocks(r.request), r.request.salt);
  }
  void Started(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (work_.Started(r.slot)) left_.Began(r.slot, i.slot, Duration(work_.AmountOf(r.slot)), now);
  }
  void Released(const RequestState& r, const InstanceState& i, TimePoint now) {
    work_.Released(r.slot);
    contexts_.Released(r.slot);
    left_.Ended(r.slot);
    if (i.slot >= places_.size()) return;
    --places_[i.slot].requests;
    if (places_[i.slot].up) Learn(r, i.slot, r.request.prompt_tokens.value + r.generated.value, now);
  }

 protected:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  // Results for the prepared turn.
  // instance of the workflow's last turn; kNowhere: none, or the instance is down
  std::uint32_t home() const { return home_; }
  double prompt() const { return std::max(prompt_, 1); }
  double Cached(std::uint32_t slot) const { return static_cast<double>(At(slot).cached); }
  double Uncached(std::uint32_t slot) const { return prompt() - Cached(slot); }
  double Match(std::uint32_t slot) const { return Cached(slot) / prompt(); }
  // Returns the prefill time of the uncached tokens [s].
  double PrefillSeconds(std::uint32_t slot) const { return Seconds(At(slot).pace, Cached(slot), prompt()); }

  // Returns the requests of the instance.
  double Requests(std::uint32_t slot) const { return static_cast<double>(At(slot).requests); }
  double LeastRequests() const { return static_cast<double>(std::max<std::int64_t>(least_, 0)); }
  double MostRequests() const { return static_cast<double>(std::max<std::int64_t>(most_, 0)); }
  double Held(std::uint32_t slot) const { return static_cast<double>(At(slot).tokens); }
  double KvTokens(std::uint32_t slot) const { return static_cast<double>(At(slot).kv_tokens); }
  bool IsUp(std::uint32_t slot) const { return At(slot).up; }
  // Returns the pending prompt tokens on the instance: pending prefill seconds, divided by the time per token at the
  // start of a prompt.
  double PendingTokens(std::uint32_t slot, TimePoint now) const {
    const double token_s = At(slot).pace.alpha_ms * 1e-3;
    return token_s > 0 ? Rounded(WaitSeconds(slot, now) / token_s) : 0;
  }
  double RunningTokens(std::uint32_t slot) const { return static_cast<double>(contexts_.outstanding(slot)); }
  // Returns the prefill time that waits on the instance before the turn [s].
  double WaitSeconds(std::uint32_t slot, TimePoint now) const {
    return Rounded(static_cast<double>(work_.waiting(slot) + left_.Left(slot, now)) * 1e-9);
  }
  // Returns the time to recompute the KV that the turn would evict [s]. Only workflows used less than `recent` ago
  // count. O(log copies).
  double DisplacedSeconds(std::uint32_t slot, Duration recent) const {
    const Place& place = At(slot);
    if (place.kv_tokens <= 0) return 0;
    const std::int64_t lack = std::max(prompt_, 1) - place.cached + place.tokens - place.kv_tokens;
    double left = static_cast<double>(lack), seconds = 0;
    Slot c = place.ages.oldest();
    const bool summed = place.sums.size() > 0;
    for (int few = 0; (few < kFew || !summed) && c != kNoSlot && left > 0; ++few, c = copies_[c].age.newer) {
      ++looks_;
      const Copy& copy = copies_[c];
      const double tokens = copy.tokens, gone = std::min(tokens, left);  // number of tokens at the end of this copy
      if (Between(copy.used, now_) < recent) seconds += Seconds(place.pace, tokens - gone, tokens);
      left -= gone;
    }
    if (c == kNoSlot || !(left > 0)) return seconds;
    const CopySums& sums = place.sums;
    CopySums::Sum gone;
    const std::size_t end = sums.Within(static_cast<std::uint64_t>(lack), gone), from = sums.UsedWithin(recent, now_);
    seconds = 0;
    if (from < end) {
      const CopySums::Sum spared = sums.Before(from);
      seconds = Rounded(place.pace.alpha_ms * 1e-3 * static_cast<double>(gone.tokens - spared.tokens)) +
                Rounded(place.pace.beta_ns * 1e-9 * static_cast<double>(gone.squares - spared.squares) / 2);
    }
    if (end < sums.size() && end >= from) {  // a part of the next copy is evicted
      const auto tokens = static_cast<double>(sums.TokensAt(end));
      seconds +=
          Seconds(place.pace, tokens - static_cast<double>(lack - static_cast<std::int64_t>(gone.tokens)), tokens);
    }
    return seconds;
  }

 private:
  static constexpr std::int64_t kChunk = 2048;  // prompt tokens that determine the profile's pace
  static constexpr int kFew = 8;  // maximum copies examined one by one; for more copies, sums are used if there are any
  static constexpr std::size_t kMany = 64;  // number of copies from which on an instance has sums
  static constexpr std::size_t kMostEmpty = 64;  // empty positions in an instance's sums, in addition to one per copy

  // Sums of tokens, and of squared tokens, over an instance's oldest copies, in O(log n). A binary indexed tree
  // (Fenwick, 1994) in order of last use. Element i is the sum of the last 2^k positions up to i. 2^k is the lowest set
  // bit of i + 1. The position of a removed copy stays empty.
  class CopySums {
   public:
    struct Sum {
      std::uint64_t tokens = 0, squares = 0;  // sums modulo 2^64, which suffices for any instance with kv_tokens

      static Sum Of(std::uint64_t tokens) { return {tokens, tokens * tokens}; }
      void operator+=(const Sum& o) { tokens += o.tokens, squares += o.squares; }
      void operator-=(const Sum& o) { tokens -= o.tokens, squares -= o.squares; }
    };

    std::size_t size() const { return places_.size(); }
    void Clear() { places_.clear(); }
    void Reserve(std::size_t n) {
      if (n > places_.capacity()) places_.reserve(2 * n);
    }

    // Appends the newest copy. Returns its position.
    std::uint32_t Append(std::int32_t tokens, TimePoint used) {
      const std::size_t end = places_.size() + 1;
      Sum sum = Sum::Of(static_cast<std::uint64_t>(tokens));
      for (std::size_t i = end - 1; i > (end & (end - 1)); i &= i - 1) sum += places_[i - 1].sum;
      places_.push_back({sum, used, tokens});
      return static_cast<std::uint32_t>(end - 1);
    }
    void Remove(std::uint32_t at) {
      const Sum left = Sum::Of(static_cast<std::uint64_t>(std::exchange(places_[at].tokens, 0)));
      for (std::size_t i = at + std::size_t{1}; i <= places_.size(); i += i & -i) places_[i - 1].sum -= left;
    }

    std::int32_t TokensAt(std::size_t at) const { return places_[at].tokens; }
    Sum Before(std::size_t end) const {
      Sum sum;
      for (std::size_t i = end; i > 0; i &= i - 1) sum += places_[i - 1].sum;
      return sum;
    }
    // Returns the largest number of oldest positions that together have at most this many tokens, and the sum over
    // these positions.
    std::size_t Within(std::uint64_t tokens, Sum& sum) const {
      std::size_t end = 0;
      for (std::size_t step = std::bit_floor(places_.size()); step > 0; step /= 2) {
        if (end + step > places_.size() || sum.tokens + places_[end + step - 1].sum.tokens > tokens) continue;
        end += step;
        sum += places_[end - 1].sum;
      }
      return end;
    }
    // Returns the first position that was used less than `recent` ago.
    std::size_t UsedWithin(Duration recent, TimePoint now) const {
      const auto longer = [&](const Place& place) { return Between(place.used, now) >= recent; };
      return static_cast<std::size_t>(std::ranges::partition_point(places_, longer) - places_.begin());
    }

   private:
    struct Place {
      Sum sum;
      TimePoint used{};
      std::int32_t tokens = 0;
    };
    std::vector<Place> places_;
  };

  struct Copy {
    WorkflowId workflow;
    std::uint32_t place = 0;
    std::int32_t tokens = 0;
    Slot next = kNoSlot;  // next copy of the workflow
    AgeLink age = {};  // position in the instance's order of use
    TimePoint used{};
    std::uint32_t at = 0;  // position in the instance's sums
  };
  struct Flow {
    Slot copies = kNoSlot;
    std::uint32_t home = 0;
  };
  struct Place {
    InstanceId id;
    bool up = false;
    std::int64_t kv_tokens = 0;
    std::int64_t tokens = 0;  // tokens of its copies
    std::int64_t requests = 0;
    std::int64_t cached = 0;  // cached tokens of the prepared turn
    PrefillPace pace;
    AgeList ages;
    CopySums sums;
  };

  static double Seconds(const PrefillPace& pace, double from, double to) {
    return Rounded(pace.alpha_ms * 1e-3 * (to - from)) +
           Rounded(pace.beta_ns * 1e-9 * (Rounded(to * to) - Rounded(from * from)) / 2);
  }

  const Place& At(std::uint32_t slot) const { return slot < places_.size() ? places_[slot] : none_; }
  Slot SlotOf(InstanceId id) const {
    const auto at = std::ranges::find_if(places_, [id](const Place& p) { return p.up && p.id == id; });
    return at != places_.end() ? static_cast<Slot>(at - places_.begin()) : kNoSlot;
  }

  // Returns the hashes of the blocks that may be reused. The last token is always computed.
  static std::span<const std::uint64_t> UsableBlocks(const Request& r) {
    const std::int32_t tokens = r.prefix.block_tokens.value;
    if (tokens < 1 || r.prompt_tokens.value < 1) return {};
    const auto usable = static_cast<std::size_t>((r.prompt_tokens.value - 1) / tokens);
    return r.prefix.hashes.first(std::min(r.prefix.hashes.size(), usable));
  }

  // Replaces the estimates of the prepared turn on instances that report their blocks.
  void ReadReports(const Request& r) {
    const std::span<const std::uint64_t> blocks = UsableBlocks(r);
    if (blocks.empty()) return;
    std::uint32_t longest = kNowhere;
    kv_.Match(blocks, r.salt, [&](std::uint32_t slot, std::size_t run) {
      std::int64_t& cached = places_[slot].cached;
      const std::int64_t reported = static_cast<std::int64_t>(run) * r.prefix.block_tokens.value;
      cached = run == blocks.size() ? std::max(cached, reported) : reported;
      cached_at_.push_back(slot);
      if (longest == kNowhere || cached > places_[longest].cached) longest = slot;
    });
    if (home_ == kNowhere || !kv_.Reports(home_)) return;
    if (places_[longest].cached > places_[home_].cached) home_ = longest;
  }

  // Records that the turn's context is on the instance, which is now the home of its workflow.
  void Learn(const RequestState& r, std::uint32_t place, std::int64_t tokens, TimePoint now) {
    if (!r.request.workflow) return;
    tokens = std::min<std::int64_t>(tokens, INT32_MAX);
    Slot f = flows_.Find(r.request.workflow);
    if (f == kNoSlot) f = flows_.Insert(r.request.workflow, {kNoSlot, place});
    Flow& flow = flows_[f];
    Slot c = flow.copies;
    while (c != kNoSlot && copies_[c].place != place) c = copies_[c].next;
    Place& at = places_[place];
    const bool lacks_sums = at.sums.size() == 0 && at.ages.size() >= kMany;
    if (lacks_sums || at.sums.size() > 2 * at.ages.size() + kMostEmpty) Close(at);
    const bool summed = at.sums.size() > 0;
    if (summed) at.sums.Reserve(2 * at.ages.size() + kMostEmpty + 2);
    if (c == kNoSlot) {
      c = copies_.Take();
      copies_[c] = {.workflow = r.request.workflow, .place = place, .next = flow.copies};
      flow.copies = c;
      at.ages.Append(copies_, c);
    } else {
      at.ages.MoveToEnd(copies_, c);
      if (summed) at.sums.Remove(copies_[c].at);
    }
    Copy& copy = copies_[c];
    at.tokens += tokens - copy.tokens;
    copy.tokens = static_cast<std::int32_t>(tokens);
    copy.used = now;
    if (summed) copy.at = at.sums.Append(copy.tokens, now);
    flow.home = place;
    Trim(place, c);
  }

  // Removes empty positions from the sums. If there are few copies, removes the sums. Runs once in as many turns as
  // there are copies.
  void Close(Place& at) {
    at.sums.Clear();
    if (at.ages.size() < kMany) return;
    for (Slot c = at.ages.oldest(); c != kNoSlot; c = copies_[c].age.newer) {
      copies_[c].at = at.sums.Append(copies_[c].tokens, copies_[c].used);
    }
  }

  // Removes whole copies, the least recently used first.
  void Trim(std::uint32_t place, Slot spared) {
    Place& at = places_[place];
    while (!at.ages.empty() && at.ages.oldest() != spared &&
           ((at.kv_tokens > 0 && at.tokens > at.kv_tokens) || at.ages.size() > kMostCopies)) {
      Drop(at.ages.oldest());
    }
  }
  void Empty(std::uint32_t place) {
    while (!places_[place].ages.empty()) Drop(places_[place].ages.oldest());
    kv_.Forget(place);
  }

  // Removes a copy. Returns false and forgets the workflow if this was its last copy.
  bool Drop(Slot c) {
    const Copy copy = copies_[c];
    const Slot f = flows_.Find(copy.workflow);
    Slot* link = &flows_[f].copies;
    while (*link != c) link = &copies_[*link].next;
    *link = copy.next;
    places_[copy.place].ages.Remove(copies_, c);
    if (places_[copy.place].sums.size() > 0) places_[copy.place].sums.Remove(copy.at);
    places_[copy.place].tokens -= copy.tokens;
    copies_.Give(c);
    if (flows_[f].copies != kNoSlot) return true;
    flows_.Erase(f, copy.workflow);
    return false;
  }

  SlotTable<Copy> copies_;
  IdTable<WorkflowId, Flow> flows_;
  KvIndex kv_;
  std::vector<Place> places_;  // by slot
  Place none_;  // place of an unknown instance
  WorkInFlight work_;  // ns of prefill
  WorkInFlight contexts_;  // tokens
  DueWork left_;
  // State of the prepared turn.
  std::vector<std::uint32_t> cached_at_;
  std::uint32_t home_ = kNowhere;
  std::int32_t prompt_ = 0;
  TimePoint now_{};
  std::int64_t least_ = 0, most_ = 0;
  mutable std::int64_t looks_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_RESIDENCE_H_
