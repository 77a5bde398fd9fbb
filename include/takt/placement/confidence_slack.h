// Chimera's routing among models of different sizes: the most capable model that is not too slow now.
#ifndef TAKT_PLACEMENT_CONFIDENCE_SLACK_H_
#define TAKT_PLACEMENT_CONFIDENCE_SLACK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/model_fleet.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Chimera, algorithm 1. A workflow keeps its model. Otherwise it goes to the model with the highest score among those
// with L(m) <= (1 + tau) L_fast. If that score exceeds the fastest model's by less than delta_s, the workflow goes to
// the fastest model. ModelFleet defines L(m) and how long a model is kept.
//
// - floor_s: models with L of at most floor_s are always within the slack. The paper has no floor (0): while one model
//   is idle, any other with work is too slow.
// - Requests without scores go to the fastest model. Ties in load: smaller model id. Ties in score: smaller load.
class ConfidenceSlack {
 public:
  static constexpr std::string_view kName = "confidence_slack";

  double tau = 0.5;  // slack relative to the fastest model; the paper tries several values
  double delta_s = 0.05;  // not given in the paper
  double floor_s = 0;
  double sticky_s = 600;  // time for which a workflow keeps its model [s]; longer than most tool calls
  double unknown = 512;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("tau", self.tau, OptionText{"share", "latency slack relative to the fastest model"});
    visit("delta_s", self.delta_s, OptionText{"", "minimum advantage in score over the fastest model", 0, 1});
    visit("floor_s", self.floor_s, OptionText{"s", "load at or below which a model is always within the slack"});
    visit("sticky_s", self.sticky_s, OptionText{"s", "time that a workflow keeps its model after its last request"});
    visit("unknown", self.unknown, OptionText{"tokens", "value without any prediction"});
  }

  void KeyHashes(std::uint64_t seed) { fleet_.KeyHashes(seed); }

  // Returns the score of a replica of the model that Prepare chose: the least loaded is best.
  double Score(const RequestState&, const InstanceState& i, TimePoint) const { return fleet_.Score(i); }

  void Up(const InstanceState& i, TimePoint) { fleet_.Up(i); }
  void Observe(const RouterEvent& event, TimePoint) { fleet_.Observe(event); }
  void Prepare(const RequestState& r, TimePoint now) {
    if (!fleet_.Kept(r, now, sticky_s)) Choose(r);
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) { fleet_.Placed(r, i, now, unknown); }
  void Released(const RequestState& r, const InstanceState&, TimePoint now) { fleet_.Released(r, now); }

  // Returns the predicted seconds of work on the model's least loaded replica; 0 if there is none.
  double LoadOf(ModelId model) const { return fleet_.LoadOf(model); }
  std::size_t programs() const { return fleet_.programs(); }

 private:
  void Choose(const RequestState& r) {
    const std::span<const ModelFleet::Model> models = fleet_.models();
    if (models.empty()) return;
    const std::span<const double> loads = fleet_.loads();
    const std::size_t fast = fleet_.Fastest(r);
    const double most = std::max((1 + tau) * loads[fast], floor_s);
    constexpr std::size_t kNone = SIZE_MAX;
    std::size_t best = kNone;
    double best_score = 0, fast_score = 0;
    for (std::size_t i = 0; i < models.size(); ++i) {
      const double score = ModelFleet::ScoreOf(ModelFleet::ReportOf(r, models[i].id, i));
      if (i == fast) fast_score = score;
      if (loads[i] > most || !ModelFleet::Fits(models[i], r)) continue;
      if (best != kNone && (score < best_score || (score == best_score && loads[i] >= loads[best]))) continue;
      best = i;
      best_score = score;
    }
    fleet_.Choose(models[best != kNone && best_score >= fast_score + delta_s ? best : fast].id);
  }

  ModelFleet fleet_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_CONFIDENCE_SLACK_H_
