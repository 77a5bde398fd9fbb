// Chimera's routing among models of different sizes: the most capable one that is not too slow right now.
#ifndef TAKT_PLACEMENT_CONFIDENCE_SLACK_H_
#define TAKT_PLACEMENT_CONFIDENCE_SLACK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <variant>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/config.h"
#include "takt/model/instance.h"
#include "takt/placement/work_in_flight.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Chimera, algorithm 1. A workflow that has a model keeps it. Another goes to the model of the highest score among
// those with L(m) <= (1 + tau) L_fast, if that score is at least delta_s above that of the fastest model; else to the
// fastest. If the highest score within the slack lacks the margin, so do all below it, so that no further ones are
// tried.
//
//   L(m) = sum of predicted tokens in flight on m * decode time per token(m) / max batch size(m)   [s]
//
// - Predicted tokens: of the workflow from this request on: ModelScore::tokens, else the median of
// workflow_tokens_left,
//   else of output_tokens, else `unknown`; rounded to whole ones, counted once and taken back when the request leaves,
//   so that sums cannot drift. The quotient is Instance::token_s; 1 ms where it was not told.
// - Several replicas of a model: L is that of the least loaded, and the request goes there.
// - floor_s: models with L at or below it are within the slack too. The paper has none (0): beside an idle model every
//   other is too slow, however little it has to do.
// - A model is kept from the first request that was placed until sticky_s after the last one was heard of, until the
//   workflow has ended (WorkflowEnded), or until no instance of the model is up. Requests without a workflow keep
//   nothing.
// - Requests without scores go to the fastest model. Equal loads: the model of smaller id; equal scores: the smaller
// load.
class ConfidenceSlack {
 public:
  static constexpr std::string_view kName = "confidence_slack";

  double tau = 0.5;       // the paper sweeps it
  double delta_s = 0.05;  // not given in the paper
  double floor_s = 0;
  double sticky_s = 600;  // not given in the paper: longer than tools take between two calls
  double unknown = 512;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("tau", self.tau, OptionText{"share", "latency slack: how much slower than the fastest a model may be"});
    visit("delta_s", self.delta_s, OptionText{"", "how much better than the fastest model's its score must be", 0, 1});
    visit("floor_s", self.floor_s, OptionText{"s", "load up to which a model is always within the slack"});
    visit("sticky_s", self.sticky_s, OptionText{"s", "how long a workflow keeps its model after its last request"});
    visit("unknown", self.unknown, OptionText{"tokens", "taken where nothing was predicted"});
  }

  void KeyHashes(std::uint64_t seed) { programs_.KeyHashes(seed); }

  // The replica with the least load of the model that Prepare has chosen.
  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const bool there = i.slot < slots_.size() && slots_[i.slot].up && slots_[i.slot].model == chosen_;
    return there ? -LoadOf(i.slot) : -std::numeric_limits<double>::infinity();
  }

  void Up(const InstanceState& i, TimePoint) {
    if (i.slot >= slots_.size()) slots_.resize(i.slot + std::size_t{1});
    Slot& slot = slots_[i.slot];
    slot = {i.instance.id, i.instance.model, i.instance.token_s > 0 ? i.instance.token_s : 0.001, true};
    Regroup();
  }

  void Observe(const RouterEvent& event, TimePoint) {
    if (const auto* ended = std::get_if<WorkflowEnded>(&event)) Forget(ended->workflow);
    const auto* down = std::get_if<InstanceDown>(&event);
    if (down == nullptr) return;
    for (Slot& slot : slots_) {
      if (slot.instance == down->instance) slot.up = false;
    }
    Regroup();
  }

  void Prepare(const RequestState& r, TimePoint now) {
    Expire(now);
    if (const Program* program = programs_.Get(r.request.workflow)) {
      const auto at = std::ranges::lower_bound(models_, program->model, {}, &Model::id);
      if (at != models_.end() && at->id == program->model) {
        chosen_ = program->model;
        return;
      }
    }
    Choose(r);
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    work_.Placed(r.slot, i.slot, TokensOn(r, i.instance.model));
    if (r.request.workflow) Keep(r.request.workflow, i.instance.model, now);
    ++placed_;
    TAKT_ASSERT(placed_ % 1024 != 0 || work_.Exact());
  }
  void Released(const RequestState& r, const InstanceState&, TimePoint now) {
    work_.Released(r.slot);
    if (const Program* program = programs_.Get(r.request.workflow)) Keep(r.request.workflow, program->model, now);
  }

  // Predicted seconds of work on a model's least loaded replica; 0 where there is none.
  double LoadOf(ModelId model) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].up && slots_[s].model == model) least = std::min(least, LoadOf(static_cast<std::uint32_t>(s)));
    }
    return least < std::numeric_limits<double>::infinity() ? least : 0;
  }
  std::size_t programs() const { return programs_.size(); }

 private:
  struct Slot {
    InstanceId instance;
    ModelId model;
    double token_s = 0;
    bool up = false;
  };
  struct Model {
    ModelId id;
    std::vector<std::uint32_t> slots = {};
    double load = 0;  // of the request at hand
  };
  // In a list by when it was last heard of.
  struct Program {
    WorkflowId workflow;
    ModelId model;
    TimePoint heard{};
    AgeLink age = {};
  };

  double LoadOf(std::uint32_t slot) const {
    return Rounded(static_cast<double>(work_.outstanding(slot)) * slots_[slot].token_s);
  }

  void Regroup() {
    models_.clear();
    for (std::uint32_t s = 0; s < slots_.size(); ++s) {
      if (!slots_[s].up) continue;
      auto at = std::ranges::lower_bound(models_, slots_[s].model, {}, &Model::id);
      if (at == models_.end() || at->id != slots_[s].model) at = models_.insert(at, {slots_[s].model});
      at->slots.push_back(s);
    }
  }

  static const ModelScore* ScoreOf(const RequestState& r, ModelId model, std::size_t hint) {
    const std::span<const ModelScore> all = r.request.scores;
    if (hint < all.size() && all[hint].model == model) return &all[hint];  // told in the order of their ids
    for (const ModelScore& score : all) {
      if (score.model == model) return &score;
    }
    return nullptr;
  }

  void Choose(const RequestState& r) {
    const Model* fast = nullptr;
    for (Model& m : models_) {
      m.load = std::numeric_limits<double>::infinity();
      for (const std::uint32_t slot : m.slots) m.load = std::min(m.load, LoadOf(slot));
      if (fast == nullptr || m.load < fast->load) fast = &m;
    }
    if (fast == nullptr) return;
    const double most = std::max((1 + tau) * fast->load, floor_s);
    const Model* best = nullptr;
    double best_score = 0, fast_score = 0;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      const Model& m = models_[i];
      const ModelScore* told = ScoreOf(r, m.id, i);
      const double score = told != nullptr && told->score >= 0 ? static_cast<double>(told->score) : 0;  // NaN: none
      if (&m == fast) fast_score = score;
      if (m.load > most) continue;
      if (best != nullptr && (score < best_score || (score == best_score && m.load >= best->load))) continue;
      best = &m;
      best_score = score;
    }
    chosen_ = best != nullptr && best_score >= fast_score + delta_s ? best->id : fast->id;
  }

  std::int64_t TokensOn(const RequestState& r, ModelId model) const {
    if (const ModelScore* told = ScoreOf(r, model, 0); told != nullptr && told->tokens >= 0)
      return Whole(static_cast<double>(told->tokens));
    const Estimate& workflow = r.request.workflow_tokens_left;
    const Estimate& tokens = workflow.known() ? workflow : r.request.output_tokens;
    return Whole(tokens.known() ? tokens.Quantile(0.5) : unknown);
  }
  static std::int64_t Whole(double tokens) {
    return static_cast<std::int64_t>(std::min(tokens + 0.5, static_cast<double>(WorkInFlight::kMost)));
  }

  // To the end of the list.
  void Keep(WorkflowId workflow, ModelId model, TimePoint now) {
    std::uint32_t at = programs_.Find(workflow);
    if (at == kNoSlot) {
      at = programs_.Insert(workflow);
    } else {
      by_age_.Remove(programs_, at);
    }
    programs_[at] = {workflow, model, now};
    by_age_.Append(programs_, at);
  }

  void Expire(TimePoint now) {
    while (!by_age_.empty()) {
      const Program& oldest = programs_[by_age_.oldest()];
      if (!(ToSeconds(now - oldest.heard) > sticky_s)) return;
      Forget(oldest.workflow);
    }
  }

  void Forget(WorkflowId workflow) {
    const std::uint32_t at = programs_.Find(workflow);
    if (at == kNoSlot) return;
    by_age_.Remove(programs_, at);
    programs_.Erase(at, workflow);
  }

  std::vector<Slot> slots_;    // by InstanceState::slot
  std::vector<Model> models_;  // that are up, ascending
  WorkInFlight work_;          // tokens
  ModelId chosen_;             // for the request at hand
  IdTable<WorkflowId, Program> programs_;
  AgeList by_age_;
  std::uint64_t placed_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_CONFIDENCE_SLACK_H_
