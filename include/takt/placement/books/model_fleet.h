// Models of different sizes behind one router: predicted work on each model, and the model that each workflow keeps.
#ifndef TAKT_PLACEMENT_BOOKS_MODEL_FLEET_H_
#define TAKT_PLACEMENT_BOOKS_MODEL_FLEET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/config.h"
#include "takt/model/cost_model.h"
#include "takt/model/instance.h"
#include "takt/placement/books/work_in_flight.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Placements that choose a model pass every hook to this class. If Kept returns false, they choose one of `models`.
//
//  L(m) = sum of predicted tokens in flight on m * decode time per token(m) / max batch size(m)   [s]
//
// - Predicted tokens of the workflow from this request on: ModelScore::tokens, else the median of workflow_tokens_left,
//   else of output_tokens, else `unknown`. They are rounded to integers, so that sums do not drift. Decode time / max
//   batch size is Instance::token_s, or 1 ms if that is unknown.
// - If a model has several replicas, the least loaded one gets the request and determines L. Loads are updated when a
//   request comes or leaves, in O(replicas of the model).
// - A workflow keeps its model until `sticky_s` after its last request, until WorkflowEnded, or until no instance of
//   the model is up. Requests without a workflow keep no model.
// - A model fits a prompt if one of its instances has KV for it. A request whose kept model does not fit gets another.
//
// Source: Chimera, algorithm 1, lines 1 to 6.
class ModelFleet {
 public:
  static constexpr double kMostCalls = 64;  // limit on the expected calls of a workflow

  struct Model {
    ModelId id;
    std::vector<std::uint32_t> slots = {};
    std::int64_t most_kv = 0;  // largest KV of its instances [tokens]
  };
  // Returns true if an instance of the model has KV for the prompt.
  static bool Fits(const Model& m, const RequestState& r) { return r.request.prompt_tokens.value < m.most_kv; }

  void KeyHashes(std::uint64_t seed) { programs_.KeyHashes(seed); }

  void Up(const InstanceState& i) {
    if (i.slot >= slots_.size()) slots_.resize(i.slot + std::size_t{1});
    slots_[i.slot] = {i.instance.id,
                      i.instance.model,
                      i.instance.token_s > 0 ? i.instance.token_s : 0.001,
                      i.profile != nullptr ? i.profile->cost : nullptr,
                      i.instance.kv_tokens.value > 0 ? i.instance.kv_tokens.value : INT64_MAX,
                      true};
    Regroup();
  }
  // Returns true if the set of models that are up may have changed.
  bool Observe(const RouterEvent& event) {
    if (const auto* ended = std::get_if<WorkflowEnded>(&event)) Forget(ended->workflow);
    const auto* down = std::get_if<InstanceDown>(&event);
    if (down == nullptr) return false;
    for (Slot& slot : slots_) {
      if (slot.instance == down->instance) slot.up = false;
    }
    Regroup();
    return true;
  }

  // Returns true and chooses the model if the request's workflow has a model that is up and has KV for the prompt.
  bool Kept(const RequestState& r, TimePoint now, double sticky_s) {
    Expire(now, sticky_s);
    const Program* program = programs_.Get(r.request.workflow);
    if (program == nullptr) return false;
    const auto at = std::ranges::lower_bound(models_, program->model, {}, &Model::id);
    if (at == models_.end() || at->id != program->model || !Fits(*at, r)) return false;
    chosen_ = program->model;
    return true;
  }
  // Returns the index of the model with the least load of those that fit the prompt. If none fits, returns 0.
  std::size_t Fastest(const RequestState& r) const {
    std::size_t fast = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < models_.size(); ++i) {
      if (loads_[i] < least && Fits(models_[i], r)) fast = i, least = loads_[i];
    }
    return fast;
  }
  // Models that are up, by id, and the load of each [s].
  std::span<const Model> models() const { return models_; }
  std::span<const double> loads() const { return loads_; }
  void Choose(ModelId model) { chosen_ = model; }

  // Returns the score of a replica of the chosen model: the least loaded is best.
  double Score(const InstanceState& i) const {
    const bool there = i.slot < slots_.size() && slots_[i.slot].up && slots_[i.slot].model == chosen_;
    return there ? -slots_[i.slot].load : -std::numeric_limits<double>::infinity();
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint now, double unknown) {
    const ModelScore* report = ReportOf(r, i.instance.model, 0);
    Leave(r.slot);
    work_.Placed(r.slot, i.slot, HasTokens(report) ? TokensOf(*report) : DefaultTokens(r, unknown));
    Weigh(i.slot);
    if (r.request.workflow) Keep(r.request.workflow, i.instance.model, now);
    ++placed_;
    TAKT_ASSERT(placed_ % 1024 != 0 || work_.Exact());
  }
  void Released(const RequestState& r, TimePoint now) {
    Leave(r.slot);
    if (const Program* program = programs_.Get(r.request.workflow)) Keep(r.request.workflow, program->model, now);
  }

  // Returns the predicted seconds of work on the model's least loaded replica; 0 if there is none.
  double LoadOf(ModelId model) const {
    const auto at = std::ranges::lower_bound(models_, model, {}, &Model::id);
    return at != models_.end() && at->id == model ? loads_[static_cast<std::size_t>(at - models_.begin())] : 0;
  }
  std::size_t programs() const { return programs_.size(); }

  // Returns the latency that a workflow of `tokens` would cause on the least loaded replica of a model [s]. That is its
  // own latency plus the delay of the n requests on that replica:
  //
  //  prompt(n) + tokens step(n) + n (prompt(n) + tokens (step(n + 1) - step(n)))
  //
  // step(n): time of a step with n decoding requests. prompt(n): time that the prompt adds, times the expected number
  // of calls if that is known. Both come from the instance's cost model. Without a cost model, step(n) is n times the
  // time per token, and prompts take no time.
  double Latency(const Model& m, double tokens, const Request& r) const {
    std::uint32_t slot = m.slots.front();
    for (const std::uint32_t s : m.slots) {
      if (slots_[s].load < slots_[slot].load) slot = s;
    }
    const std::int64_t n = work_.waiting_count(slot) + work_.running_count(slot);
    const double there = static_cast<double>(n);
    const PreparedCostModel* cost = slots_[slot].cost.get();
    if (cost == nullptr) return Rounded(slots_[slot].token_s * tokens) * (Rounded(2 * there) + 1);
    const std::int64_t context = r.prompt_tokens.value + static_cast<std::int64_t>(tokens / 2);
    StepLoad load{.decodes = n, .decode_context = n * context, .samples = n};
    const double before = n > 0 ? ToSeconds(cost->StepTime(load)) : 0;
    StepLoad with = load;
    with.AddDecode(context);
    const double step = ToSeconds(cost->StepTime(with));
    load.AddPrefill(r.prompt_tokens.value, 0, true);
    const double output = r.output_tokens.known() ? r.output_tokens.Quantile(0.5) : 0;
    const double calls = output > 0 ? std::clamp(tokens / output, 1.0, kMostCalls) : 1;
    const double prompt = Rounded(calls * (ToSeconds(cost->StepTime(load)) - before));
    const double others = prompt + Rounded(tokens * (step - before));
    return prompt + Rounded(tokens * step) + Rounded(there * others);
  }

  // Returns the request's prediction for a model; null: none. `hint`: its index if scores are ordered by id.
  static const ModelScore* ReportOf(const RequestState& r, ModelId model, std::size_t hint) {
    const std::span<const ModelScore> all = r.request.scores;
    if (hint < all.size() && all[hint].model == model) return &all[hint];
    for (const ModelScore& score : all) {
      if (score.model == model) return &score;
    }
    return nullptr;
  }
  // Returns the score; 0 if it is missing, negative or NaN.
  static double ScoreOf(const ModelScore* report) {
    return report != nullptr && report->score >= 0 ? static_cast<double>(report->score) : 0;
  }
  // Returns true if the report has the predicted tokens of the workflow on the model.
  static bool HasTokens(const ModelScore* report) { return report != nullptr && report->tokens >= 0; }
  static std::int64_t TokensOf(const ModelScore& report) { return Whole(static_cast<double>(report.tokens)); }
  static std::int64_t DefaultTokens(const RequestState& r, double unknown) {
    const Estimate& workflow = r.request.workflow_tokens_left;
    const Estimate& tokens = workflow.known() ? workflow : r.request.output_tokens;
    return Whole(tokens.known() ? tokens.Quantile(0.5) : unknown);
  }

 private:
  struct Slot {
    InstanceId instance;
    ModelId model;
    double token_s = 0;
    std::shared_ptr<const PreparedCostModel> cost = {};
    std::int64_t kv = 0;  // [tokens]
    bool up = false;
    std::uint32_t at = 0;  // index of its model in models_, if up
    double load = 0;  // [s]
  };
  // A workflow, in a list sorted by last request.
  struct Program {
    WorkflowId workflow;
    ModelId model;
    TimePoint heard{};
    AgeLink age = {};
  };

  static std::int64_t Whole(double tokens) {
    return static_cast<std::int64_t>(std::min(tokens + 0.5, static_cast<double>(WorkInFlight::kMost)));
  }

  // Removes a request if it is on an instance.
  void Leave(std::uint32_t request) {
    const std::uint32_t slot = work_.InstanceOf(request);
    work_.Released(request);
    if (slot != kNoSlot) Weigh(slot);
  }
  // Updates the load of an instance and of its model after a change of work.
  void Weigh(std::uint32_t slot) {
    if (slot >= slots_.size()) return;
    Slot& s = slots_[slot];
    s.load = Rounded(static_cast<double>(work_.outstanding(slot)) * s.token_s);
    if (!s.up) return;
    double least = std::numeric_limits<double>::infinity();
    for (const std::uint32_t replica : models_[s.at].slots) least = std::min(least, slots_[replica].load);
    loads_[s.at] = least;
  }

  void Regroup() {
    models_.clear();
    for (std::uint32_t s = 0; s < slots_.size(); ++s) {
      if (!slots_[s].up) continue;
      auto at = std::ranges::lower_bound(models_, slots_[s].model, {}, &Model::id);
      if (at == models_.end() || at->id != slots_[s].model) at = models_.insert(at, {slots_[s].model});
      at->slots.push_back(s);
      at->most_kv = std::max(at->most_kv, slots_[s].kv);
    }
    loads_.assign(models_.size(), 0);
    for (std::uint32_t m = 0; m < models_.size(); ++m) {
      for (const std::uint32_t slot : models_[m].slots) slots_[slot].at = m;
      for (const std::uint32_t slot : models_[m].slots) Weigh(slot);
    }
  }

  // Moves the workflow to the end of the list.
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

  void Expire(TimePoint now, double sticky_s) {
    while (!by_age_.empty()) {
      const Program& oldest = programs_[by_age_.oldest()];
      if (!(ToSeconds(Between(oldest.heard, now)) > sticky_s)) return;
      Forget(oldest.workflow);
    }
  }

  void Forget(WorkflowId workflow) {
    const std::uint32_t at = programs_.Find(workflow);
    if (at == kNoSlot) return;
    by_age_.Remove(programs_, at);
    programs_.Erase(at, workflow);
  }

  std::vector<Slot> slots_;  // by InstanceState::slot
  std::vector<Model> models_;  // models that are up, ascending
  std::vector<double> loads_;  // load of each model [s]
  WorkInFlight work_;  // tokens
  ModelId chosen_;  // chosen model of the current request
  IdTable<WorkflowId, Program> programs_;
  AgeList by_age_;
  std::uint64_t placed_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_MODEL_FLEET_H_
