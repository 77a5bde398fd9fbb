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
// -infinity. If scores are equal, the smaller instance id wins.
template <RankPolicy Policy, PlacementPolicy Placer>
class Placing {
 public:
  explicit Placing(RouterRequests<Policy, Placer>& requests) : r_(requests) {}

  // Places requests in rank order, and considers at most `window` requests after the first one that must wait.
  void Run() {
    r_.queue.BeginPlan(r_.now(), r_.StateOf());
    PlaceFromTop();
    while (PlacePastTop()) PlaceFromTop();
    r_.queue.EndPlan(!r_.notices.placed.empty());
    ReportPressure();
  }

  // Scores the candidates for a request; NaN excludes a candidate. Returns the number of remaining candidates.
  std::size_t Score(const RequestState& state, std::span<const InstanceId> candidates, std::span<double> scores) {
    constexpr double kNoPlace = std::numeric_limits<double>::quiet_NaN();
    r_.placer.Prepare(state, r_.now());
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
    r_.placer.Prepare(state, r_.now());
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    double best = kNone, second = kNone, of_chosen = kNone;
    const InstanceId placed = why.chosen;
    for (const InstanceState& i : r_.instances.all()) {
      // A placed request counts itself among its instance's requests, which it would not leave for being full.
      const takt::Candidate c = Judge(state, i, i.instance.id == placed);
      if (why.candidates < out.size()) out[why.candidates] = c;
      ++why.candidates;
      if (c.state != CandidateState::kScored) continue;
      ++why.scored;
      if (c.score > best) {
        second = best, best = c.score;
        if (!placed) why.chosen = c.instance, of_chosen = c.score;
      } else {
        second = std::max(second, c.score);
      }
      if (c.instance == placed) of_chosen = c.score;
    }
    why.scores_compare = r_.placer.scores_compare();
    if (!why.scores_compare) return why;
    if (of_chosen > kNone) why.regret = best - of_chosen;
    if (second > kNone) why.margin = best - second;
    for (takt::Candidate& c : out.first(std::min(out.size(), why.candidates))) c.regret = best - c.score;
    return why;
  }

 private:
  // `full`: the number of requests on the instance excludes no request.
  takt::Candidate Judge(const RequestState& state, const InstanceState& i, bool full = false) {
    takt::Candidate c{.instance = i.instance.id};
    if (!r_.Fits(state.request, i.instance)) {
      c.state = CandidateState::kTooSmall;
    } else if (!full && !r_.HasRoom(i)) {
      c.state = CandidateState::kFull;
    } else if (const double score = r_.placer.Score(state, i, r_.now());
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
    InstanceState* best = nullptr;
    double best_score = -std::numeric_limits<double>::infinity();
    bool fits = false;
    r_.placer.Prepare(state, r_.now());
    for (InstanceState& i : r_.instances.all()) {
      if (!r_.Fits(state.request, i.instance)) continue;
      fits = true;
      if (!r_.HasRoom(i)) continue;
      const double score = r_.placer.Score(state, i, r_.now());
      if (score > best_score) best = &i, best_score = score;
    }
    if (best != nullptr) {
      r_.queue.Erase(slot, true);
      r_.Assign(slot, *best);
      return true;
    }
    if (fits) return false;
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
