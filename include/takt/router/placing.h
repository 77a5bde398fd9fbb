// Finds instances for waiting requests.
#ifndef TAKT_ROUTER_PLACING_H_
#define TAKT_ROUTER_PLACING_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "takt/router/explanation.h"
#include "takt/router/requests.h"

namespace takt::internal {

// One search during one call.
//
// Invariant: a request is placed only on an instance that is up, has room, is large enough, and has a score above
// -infinity. If scores are equal, the smaller instance id wins. A prefill instance is only chosen together with a
// decode instance.
template <RankPolicy Policy, PlacementPolicy Placer>
class Placing {
 public:
  explicit Placing(RouterRequests<Policy, Placer>& requests) : r_(requests) {}

  // Chooses other decode instances for placed requests that lost theirs. If no decode instance accepts a request whose
  // prompt is computed, and an instance of kBoth has room, the request returns to the queue.
  void ReplaceDecodes() {
    if (r_.lacking.size() == 0) return;
    r_.lacking.List(r_.table, r_.scratch), r_.Sort(r_.scratch);
    for (const Slot slot : r_.scratch) {
      const RequestState& state = r_.table[slot].state;
      r_.decode_placer.Prepare(state, r_.now());
      const Found decode = Search(state, r_.decode_placer, Decodes);
      if (decode.best != nullptr) {
        r_.SetDecode(slot, *decode.best);
      } else if (!decode.open && r_.table[slot].prefilled &&
                 std::ranges::any_of(r_.instances.all(), [&](const auto& i) {
                   return OfBoth(i) && r_.HasRoom(i) && r_.Fits(state.request, i.instance);
                 })) {
        r_.ReturnPrefilled(slot);
      }
    }
  }

  // Places requests in rank order, and considers at most `window` requests after the first one that must wait.
  void Run() {
    r_.queue.BeginPlan(r_.now(), r_.StateOf());
    PlaceFromTop();
    while (PlacePastTop()) PlaceFromTop();
    r_.queue.EndPlan(!r_.notices.placed.empty());
    ReportPressure();
  }

  // Prepares the placements for a request.
  void Prepare(const RequestState& state) {
    r_.placer.Prepare(state, r_.now());
    if (r_.instances.apart()) r_.decode_placer.Prepare(state, r_.now());
  }

  // Scores the candidates for a request; NaN excludes a candidate. Returns the number of remaining candidates.
  std::size_t Score(const RequestState& state, std::span<const InstanceId> candidates, std::span<double> scores) {
    constexpr double kNoPlace = std::numeric_limits<double>::quiet_NaN();
    Prepare(state);
    std::size_t possible = 0;
    for (std::size_t c = 0; c < std::min(candidates.size(), scores.size()); ++c) {
      const InstanceState* i = r_.instances.Candidate(c, candidates[c]);
      scores[c] = i != nullptr ? Judge(state, *i).score : kNoPlace;
      possible += std::isnan(scores[c]) ? 0u : 1u;
    }
    return possible;
  }

  // Explains a request by the scores of all instances that are up, and writes the first of them to `out`.
  RouteExplanation Explain(const RequestState& state, RouteExplanation why, std::span<takt::Candidate> out) {
    Prepare(state);
    if (!why.chosen) {
      const Legs legs = Choose(state);
      if (legs.first != nullptr) why.chosen = legs.first->instance.id;
      if (legs.decode != nullptr) why.decode = legs.decode->instance.id;
    }
    Best prompts, decodes;  // of the instances of each placement
    for (const InstanceState& i : r_.instances.all()) {
      // A placed request counts itself among its instance's requests, which it would not leave for being full.
      const InstanceId id = i.instance.id;
      const takt::Candidate c = Judge(state, i, id == why.chosen || id == why.decode);
      if (why.candidates < out.size()) out[why.candidates] = c;
      ++why.candidates;
      if (c.state != CandidateState::kScored) continue;
      ++why.scored;
      (Decodes(i) ? decodes : prompts).Add(c, Decodes(i) && why.decode ? why.decode : why.chosen);
    }
    const InstanceState* chosen = r_.instances.Find(why.chosen);
    const bool whole_on_decode = chosen != nullptr && Decodes(*chosen);
    const Best& first = whole_on_decode ? decodes : prompts;
    why.scores_compare = (whole_on_decode ? r_.decode_placer : r_.placer).scores_compare();
    if (why.scores_compare) why.regret = first.Regret(), why.margin = first.Margin();
    if (why.decode && r_.decode_placer.scores_compare()) why.decode_regret = decodes.Regret();
    std::size_t at = 0;
    for (const InstanceState& i : r_.instances.all().first(std::min(out.size(), why.candidates))) {
      const Best& best = Decodes(i) ? decodes : prompts;
      if (r_.PlacerOf(i.instance).scores_compare()) out[at].regret = best.best - out[at].score;
      ++at;
    }
    return why;
  }

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  // The best scores among the candidates of one placement.
  struct Best {
    double best = kNone, second = kNone, of_chosen = kNone;

    void Add(const takt::Candidate& c, InstanceId chosen) {
      second = std::max(second, std::min(best, c.score)), best = std::max(best, c.score);
      if (c.instance == chosen) of_chosen = c.score;
    }
    double Regret() const { return of_chosen > kNone ? best - of_chosen : std::numeric_limits<double>::quiet_NaN(); }
    double Margin() const { return second > kNone ? best - second : std::numeric_limits<double>::quiet_NaN(); }
  };

  // The instances for a request.
  struct Legs {
    InstanceState* first = nullptr;  // instance that computes the prompt; null: the request waits
    InstanceState* decode = nullptr;  // instance that decodes; null: `first` runs the whole request
    bool fits = false;  // false: the request is too large for every instance
  };

  static bool Decodes(const InstanceState& i) { return i.instance.role == InstanceRole::kDecode; }
  static bool OfBoth(const InstanceState& i) { return i.instance.role == InstanceRole::kBoth; }

  // The result of a search.
  struct Found {
    InstanceState* best = nullptr;  // best instance with room; null: none
    bool up = false, fits = false, open = false;  // an instance is up, is large enough, and accepts requests at times
  };
  // Searches the instances that `admits` accepts for a prepared request.
  template <class Admits>
  Found Search(const RequestState& state, const PlacementHooks<Placer>& placer, Admits admits) {
    Found found;
    double best = kNone;
    for (InstanceState& i : r_.instances.all()) {
      if (!admits(i)) continue;
      found.up = true;
      if (!r_.Fits(state.request, i.instance)) continue;
      found.fits = true;
      found.open |= r_.MostOn(i) > 0;
      if (!r_.HasRoom(i)) continue;
      if (const double score = placer.Score(state, i, r_.now()); score > best) found.best = &i, best = score;
    }
    return found;
  }

  // Chooses the instances of a prepared request.
  Legs Choose(const RequestState& state) {
    if (!r_.instances.apart()) {
      const Found found = Search(state, r_.placer, [](const InstanceState&) { return true; });
      return {found.best, nullptr, found.fits};
    }
    const Found prompt = Search(state, r_.placer, [](const InstanceState& i) { return !Decodes(i); });
    const Found decode = Search(state, r_.decode_placer, Decodes), both = Search(state, r_.placer, OfBoth);
    // If no instance runs whole requests, a prefill instance waits for a decode instance.
    const bool fits = both.fits || decode.fits || (!both.up && !decode.up);
    if (decode.best == nullptr) return {both.best, nullptr, fits};
    const std::int32_t tokens = state.request.prompt_tokens.value;
    const std::int64_t cached = r_.decode_placer.CachedTokens(*decode.best);
    if (prompt.best == nullptr) {
      const bool whole = !prompt.open || Roles::IsShort(r_.options, tokens, cached);
      return {whole ? decode.best : nullptr, nullptr, fits};
    }
    if (OfBoth(*prompt.best)) return {prompt.best, nullptr, fits};
    const std::int64_t prompt_cached = r_.placer.CachedTokens(*prompt.best);
    if (r_.roles.RunsWhole(r_.options, tokens, *prompt.best, prompt_cached, *decode.best, cached)) {
      return {decode.best, nullptr, fits};
    }
    return {prompt.best, decode.best, fits};
  }

  // `full`: the number of requests on the instance excludes no request.
  takt::Candidate Judge(const RequestState& state, const InstanceState& i, bool full = false) {
    takt::Candidate c{.instance = i.instance.id};
    if (!r_.Fits(state.request, i.instance)) {
      c.state = CandidateState::kTooSmall;
    } else if (!full && !r_.HasRoom(i)) {
      c.state = CandidateState::kFull;
    } else if (const double score = r_.PlacerOf(i.instance).Score(state, i, r_.now());
               score > -std::numeric_limits<double>::infinity()) {
      c.score = score;
    } else {
      c.state = CandidateState::kRejected;
    }
    return c;
  }

  void PlaceFromTop() {
    while (!r_.queue.empty() && r_.AnyRoom() && TryPlace(r_.queue.Top())) {
    }
  }

  // Considers requests after the first one, which must wait, in rank order. Returns true if it placed a request.
  bool PlacePastTop() {
    if (r_.queue.empty() || !r_.AnyRoom()) return false;
    auto& window = r_.scratch;
    window.clear();
    r_.queue.ForEachInOrder([&](Slot slot) {
      if (std::cmp_greater(window.size(), r_.options.window)) return false;
      window.push_back(slot);
      return true;
    });
    bool moved = false;
    for (std::size_t i = 1; i < window.size() && !(moved && r_.queue.charges_groups()); ++i) {
      moved |= TryPlace(window[i]);
    }
    return moved;
  }

  // Returns true if the request left the queue: placed, set aside or failed.
  bool TryPlace(Slot slot) {
    const RequestState& state = r_.table[slot].state;
    Prepare(state);
    const Legs legs = Choose(state);
    if (legs.first != nullptr) {
      r_.queue.Erase(slot, true);
      r_.Assign(slot, *legs.first, legs.decode);
      return true;
    }
    if (legs.fits) return false;
    if (r_.options.fail_unfit && !r_.instances.all().empty()) {
      ++r_.stats.failed_unfit;
      r_.notices.failed.push_back({state.request.id, FailReason::kNeverFits});
      r_.End(slot, TransitionReason::kNeverFits);
    } else {
      r_.SetAside(slot);
    }
    return true;
  }

  // If the policy prices resources, reports why the first request still waits. kSequences: the instances that are large
  // enough are full. kKv: the placement rejects them all now. Reported sizes are means over the instances that accept
  // requests and whose sizes are known.
  void ReportPressure() {
    if (!r_.queue.hooks().pressure) return;
    QueuePressure pressure;
    std::int32_t engines = 0, sized = 0;
    double kv_tokens = 0, places = 0;
    bool declined = false;
    for (const InstanceState& i : r_.instances.all()) {
      const std::int64_t most = r_.MostOn(i);
      if (most <= 0) continue;
      ++engines;
      places += static_cast<double>(most);
      sized += i.instance.kv_tokens.value > 0 ? 1 : 0;
      kv_tokens += std::max(i.instance.kv_tokens.value, 0);
      declined |= !r_.queue.empty() && r_.HasRoom(i) && r_.Fits(r_.table[r_.queue.Top()].state.request, i.instance);
    }
    if (!r_.queue.empty()) pressure.head = declined ? WaitsFor::kKv : WaitsFor::kSequences;
    if (sized > 0) pressure.kv_tokens = {static_cast<std::int32_t>(kv_tokens / sized)};
    if (engines > 0 && places < 1e9) pressure.limits.max_seqs = static_cast<std::int32_t>(places / engines);
    pressure.engines = std::max(engines, 1);
    r_.queue.ReportPressure(pressure, r_.now());
  }

  RouterRequests<Policy, Placer>& r_;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_PLACING_H_
