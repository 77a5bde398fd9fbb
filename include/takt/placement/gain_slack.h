// Routing among models of different sizes: the best score, less the price of the work.
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

// A workflow that has a model keeps it. Another goes to the model of the highest
//
//   q[m] - max(price[m] + pull * excess[m], 0) * tokens[m] / mean_tokens[m]
//
// where q[m] is its score and tokens[m] the work that is predicted on m. Of all workflows, those go to a model with
// little room that gain most there for each token. With the loads before it,
//
//   excess[m] = (L[m] - most) / (L[m] + most),   most = max((1 + tau) L_fast, floor_s),
//
// -1 .. 1; after each placement of a workflow that had no model, price[m] += step * excess[m], within 0 .. kMostPrice:
// raised while m is slower than (1 + tau) times the fastest model, lowered else. That is dual ascent on Chimera's own
// slack (of the augmented Lagrangian, whose penalty is `pull`): the sum of scores is to be as large as it can be while
// no model is slower than that. The step finds the price, the pull answers at once.
// L(m), and for how long a model is kept: ModelFleet.
//
// - mean_tokens[m]: over all workflows that were placed, wherever they went; the last kMemory count. It begins at
//   `unknown`, and no sample counts for more than kMostRatio times the mean, so that one absurd prediction spoils
//   nothing.
// - Requests without scores go to the fastest model, and leave prices as they are. Equal values: the smaller load, then
//   the model of smaller id.
// - Prices are those of models that are up; a model that comes back begins at 0.
//
// Source: none; takt's own. The slack is that of Chimera, algorithm 1, whose rule is confidence_slack.
class GainSlack {
 public:
  static constexpr std::string_view kName = "gain_slack";
  static constexpr double kMostPrice = 16;  // a workflow of a 16th of the mean still costs as much as any score brings
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
    visit("tau", self.tau, OptionText{"share", "latency slack: how much slower than the fastest a model may be"});
    visit("step", self.step, OptionText{"", "by how much a price moves at most when a workflow is placed", 0, 1});
    visit("pull", self.pull, OptionText{"", "by how much a price is higher or lower at once, at most", 0, 16});
    visit("per_s", self.per_s, OptionText{"", "what a second of latency is worth in points of score", 0, 1e9});
    visit("floor_s", self.floor_s, OptionText{"s", "load up to which a model is always within the slack"});
    visit("sticky_s", self.sticky_s, OptionText{"s", "how long a workflow keeps its model after its last request"});
    visit("unknown", self.unknown, OptionText{"tokens", "taken where nothing was predicted"});
  }

  void KeyHashes(std::uint64_t seed) { fleet_.KeyHashes(seed); }

  // The replica with the least load of the model that Prepare has chosen.
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

  // Predicted seconds of work on a model's least loaded replica; 0 where there is none.
  double LoadOf(ModelId model) const { return fleet_.LoadOf(model); }
  // In points of score for a workflow of mean work; 0 where the model is not up.
  double PriceOf(ModelId model) const {
    const Price* price = Find(model);
    return price != nullptr ? price->price : 0;
  }
  double MeanTokensOf(ModelId model) const {  // 0 where the model is not up
    const Price* price = Find(model);
    return price != nullptr ? price->mean : 0;
  }
  std::size_t programs() const { return fleet_.programs(); }

 private:
  // Of a model that is up.
  struct Price {
    ModelId model;
    double price = 0;
    double mean = 0, count = 0;  // of predicted tokens, at least 1
    double inverse = 1;  // of the mean
    double tokens = 0, value = 0;  // of the request at hand
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
    chosen_for_ = {};  // loads are of other models
  }

  void Choose(const RequestState& r) {
    const std::span<const ModelFleet::Model> models = fleet_.models();
    if (models.empty()) return;
    const std::span<const double> loads = fleet_.loads();
    if (r.request.scores.empty()) {
      return fleet_.Choose(models[static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin())].id);
    }
    const double bound = std::max(Rounded((1 + tau) * std::ranges::min(loads)), floor_s);
    Exceed(loads, bound);
    double untold = -1, most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      Price& p = prices_[i];
      const ModelScore* told = ModelFleet::ToldOf(r, p.model, i);
      if (ModelFleet::TellsTokens(told)) {
        p.tokens = static_cast<double>(ModelFleet::TokensOf(*told));
      } else {
        if (untold < 0) untold = static_cast<double>(ModelFleet::UntoldTokens(r, unknown));
        p.tokens = untold;
      }
      const double price = std::max(p.price + Rounded(pull * excess_[i]), 0.0);
      p.value = ModelFleet::ScoreOf(told) - Rounded(price * (p.tokens * p.inverse));
    }
    if (per_s > 0) {
      for (std::size_t i = 0; i < prices_.size(); ++i) {
        Price& p = prices_[i];
        p.value -= Rounded(per_s * fleet_.Latency(models[i], p.tokens, r.request));
      }
    }
    for (const Price& p : prices_) most = std::max(most, p.value);
    // Looked for afterwards, since a branch on each that is better so far could not be foretold.
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      if (prices_[i].value == most && loads[i] < least) best = i, least = loads[i];
    }
    fleet_.Choose(models[best].id);
  }

  // By how much each load is above the bound. Without a condition a compiler divides for several models at once.
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

  // With what Choose has found.
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
  std::vector<double> excess_;  // likewise, of the request at hand
  RequestId chosen_for_;  // the request at hand, where it was not kept
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_GAIN_SLACK_H_
