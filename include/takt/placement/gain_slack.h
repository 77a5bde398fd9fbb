// Routes workflows among models of different sizes, by score minus the price of the work.
#ifndef TAKT_PLACEMENT_GAIN_SLACK_H_
#define TAKT_PLACEMENT_GAIN_SLACK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/placement/books/model_fleet.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// A workflow keeps its model. Otherwise it goes to the model m with the highest
//
//  q[m] - max(price[m] + pull * excess[m], 0) * tokens[m] / mean_tokens[m]
//
// q[m] is the model's score and tokens[m] the predicted work on it. So a model with little room serves the workflows
// that gain most per token. Before each placement,
//
//  excess[m] = (L[m] - bound) / (L[m] + bound), bound = max((1 + tau) L_fast, floor_s)
//
// which is in [-1, 1]. After each placement of a workflow without a model, price[m] += step * excess[m], within [0,
// kMostPrice]. The price of a model thus rises while its load exceeds the bound, and falls otherwise. This is dual
// ascent: it maximizes the sum of scores under Chimera's slack. `pull` is the penalty of the augmented Lagrangian,
// which reacts at once. ModelFleet defines L(m) and how long a model is kept.
//
// - mean_tokens[m]: mean over the last kMemory placed workflows, on any model. It starts at `unknown`. A sample is
//   capped at kMostRatio times the mean, so that an absurd prediction does no harm.
// - Requests without scores go to the fastest model and leave prices unchanged. Ties: smaller load, then smaller model
//   id.
// - Only models that are up have prices. A model that returns starts at 0.
//
// Source: none; takt's own. The slack is that of Chimera, algorithm 1 (confidence_slack).
class GainSlack {
 public:
  static constexpr std::string_view kName = "gain_slack";
  // At this price, even 1/16 of the mean work costs as much as the largest gain in score.
  static constexpr double kMostPrice = 16;
  static constexpr double kMostRatio = 32;
  static constexpr double kMemory = 1024;  // workflows

  double tau = 0.5;
  double step = 0.02;
  double pull = 2;
  double per_s = 0;
  double floor_s = 0;
  double sticky_s = 600;
  double unknown = 512;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("tau", self.tau, OptionText{"share", "latency slack relative to the fastest model"});
    visit("step", self.step, OptionText{"", "maximum change of a price when a workflow is placed", 0, 1});
    visit("pull", self.pull, OptionText{"", "maximum immediate change of a price", 0, 16});
    visit("per_s", self.per_s, OptionText{"", "points of score that a second of latency is worth", 0, 1e9});
    visit("floor_s", self.floor_s, OptionText{"s", "load at or below which a model is always within the slack"});
    visit("sticky_s", self.sticky_s, OptionText{"s", "time that a workflow keeps its model after its last request"});
    visit("unknown", self.unknown, OptionText{"tokens", "value without any prediction"});
  }

  void KeyHashes(std::uint64_t seed) { fleet_.KeyHashes(seed); }

  // Returns the score of a replica of the model that Prepare chose: the least loaded is best.
  double Score(const RequestState&, const InstanceState& i, TimePoint) const { return fleet_.Score(i); }

  void Up(const InstanceState& i, TimePoint) {
    fleet_.Up(i);
    Regroup();
  }
  void Observe(const RouterEvent& event, TimePoint) {
    if (fleet_.Observe(event)) Regroup();
  }
  void Prepare(const RequestState& r, TimePoint now) {
    const bool kept = fleet_.Kept(r, now, sticky_s);
    chosen_for_ = kept ? RequestId{} : r.request.id;
    if (!kept) Choose(r);
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (chosen_for_ && chosen_for_ == r.request.id && !r.request.scores.empty()) Learn();
    chosen_for_ = {};
    fleet_.Placed(r, i, now, unknown);
  }
  void Released(const RequestState& r, const InstanceState&, TimePoint now) { fleet_.Released(r, now); }

  // Returns the predicted seconds of work on the model's least loaded replica; 0 if there is none.
  double LoadOf(ModelId model) const { return fleet_.LoadOf(model); }
  // Returns the score that a workflow of mean_tokens must gain to be placed on the model; 0 if the model is not up.
  double PriceOf(ModelId model) const {
    const Price* price = Find(model);
    return price != nullptr ? price->price : 0;
  }
  double MeanTokensOf(ModelId model) const {  // 0 if the model is not up
    const Price* price = Find(model);
    return price != nullptr ? price->mean : 0;
  }
  std::size_t programs() const { return fleet_.programs(); }

 private:
  // The price of a model that is up.
  struct Price {
    ModelId model;
    double price = 0;
    double mean = 0, count = 0;  // mean of predicted tokens, at least 1, and number of predictions
    double inverse = 1;  // 1 / mean
    double tokens = 0, value = 0;  // predicted tokens and score of the current request on the model
  };

  const Price* Find(ModelId model) const {
    const auto at = std::ranges::lower_bound(prices_, model, {}, &Price::model);
    return at != prices_.end() && at->model == model ? &*at : nullptr;
  }

  void Regroup() {
    const double mean = std::max(unknown, 1.0);
    std::vector<Price> prices;
    prices.reserve(fleet_.models().size());
    for (const ModelFleet::Model& m : fleet_.models()) {
      const Price* known = Find(m.id);
      prices.push_back(known != nullptr ? *known : Price{.model = m.id, .mean = mean, .inverse = 1 / mean});
    }
    prices_.swap(prices);
    excess_.assign(prices_.size(), 0);
    chosen_for_ = {};  // loads have changed
  }

  void Choose(const RequestState& r) {
    const std::span<const ModelFleet::Model> models = fleet_.models();
    if (models.empty()) return;
    const std::span<const double> loads = fleet_.loads();
    if (r.request.scores.empty()) return fleet_.Choose(models[fleet_.Fastest(r)].id);
    if (!std::ranges::all_of(models, [&r](const ModelFleet::Model& m) { return ModelFleet::Fits(m, r); })) {
      chosen_for_ = {};  // prices do not learn from this choice
      return fleet_.Choose(models[fleet_.Fastest(r)].id);
    }
    const double bound = std::max(Rounded((1 + tau) * std::ranges::min(loads)), floor_s);
    Exceed(loads, bound);
    double default_tokens = -1, most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      Price& p = prices_[i];
      const ModelScore* report = ModelFleet::ReportOf(r, p.model, i);
      if (ModelFleet::HasTokens(report)) {
        p.tokens = static_cast<double>(ModelFleet::TokensOf(*report));
      } else {
        if (default_tokens < 0) default_tokens = static_cast<double>(ModelFleet::DefaultTokens(r, unknown));
        p.tokens = default_tokens;
      }
      const double price = std::max(p.price + Rounded(pull * excess_[i]), 0.0);
      p.value = ModelFleet::ScoreOf(report) - Rounded(price * (p.tokens * p.inverse));
    }
    if (per_s > 0) {
      for (std::size_t i = 0; i < prices_.size(); ++i) {
        Price& p = prices_[i];
        p.value -= Rounded(per_s * fleet_.Latency(models[i], p.tokens, r.request));
      }
    }
    for (const Price& p : prices_) most = std::max(most, p.value);
    // A second pass finds the best, since a branch on "best so far" is unpredictable.
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      if (prices_[i].value == most && loads[i] < least) best = i, least = loads[i];
    }
    fleet_.Choose(models[best].id);
  }

  // Computes each load's excess over the bound. Without a branch, a compiler divides for several models at once.
  void Exceed(std::span<const double> loads, double bound) {
    double* const excess = excess_.data();
    if (bound > 0) {
      for (std::size_t i = 0; i < loads.size(); ++i) excess[i] = (loads[i] - bound) / (loads[i] + bound);
    } else {
      for (std::size_t i = 0; i < loads.size(); ++i) {
        excess[i] = loads[i] + bound > 0 ? (loads[i] - bound) / (loads[i] + bound) : -1;
      }
    }
  }

  // Updates prices and means after a choice.
  void Learn() {
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      Price& p = prices_[i];
      p.price = std::clamp(p.price + Rounded(step * excess_[i]), 0.0, kMostPrice);
      p.count = std::min(p.count + 1, kMemory);
      const double sample = std::min(p.tokens, kMostRatio * p.mean);
      p.mean = std::max(p.mean + (sample - p.mean) / p.count, 1.0);
      p.inverse = 1 / p.mean;
    }
  }

  ModelFleet fleet_;
  std::vector<Price> prices_;  // by ModelFleet::models
  std::vector<double> excess_;  // excess of each model of ModelFleet::models for the current request
  RequestId chosen_for_;  // current request, unless its workflow keeps its model
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_GAIN_SLACK_H_
