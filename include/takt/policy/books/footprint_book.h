// Estimates the remaining cost of each workflow in seconds of GPU time.
#ifndef TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_
#define TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/model/engine_pace.h"
#include "takt/model/step.h"
#include "takt/policy/books/seen_lengths.h"
#include "takt/policy/books/predicted_lengths.h"
#include "takt/state/request_state.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

// The largest workflow size of late. It caps predictions, so that an absurd one has little effect.
class LargestWork {
 public:
  static constexpr int kEnough = 16;  // number of ended workflows from which they cap predictions

  void End(double seconds) {
    ++ended_;
    largest_ = std::max(std::clamp(seconds, kLeast, kMost), kForget * largest_);
  }
  // Returns the cap on the size of a workflow that has not ended [s].
  double most() const { return ended_ < kEnough ? kMostUnseen : kMostOfLargest * largest_; }

 private:
  static constexpr double kLeast = 1e-6, kMost = 1e6, kMostUnseen = 100;
  static constexpr double kMostOfLargest = 16;  // an unseen workflow may be this much larger than the largest one
  static constexpr double kForget = 0.9995;  // decay of largest_ per ended workflow

  std::int64_t ended_ = 0;
  double largest_ = 0;  // largest ended size, with decay
};

// Prices of an engine's scarce resources as shares of a step, learnt from the limit that keeps the first request
// waiting.
struct ResourcePrices {
  double tokens = 1.0 / 3, sequences = 1.0 / 3, kv = 1.0 / 3;  // prices of token budget, max_seqs and KV cache

  void Learn(WaitsFor head, double rate) {
    const bool t = head == WaitsFor::kBudget, s = head == WaitsFor::kSequences, k = head == WaitsFor::kKv;
    if (!t && !s && !k) return;
    tokens += Rounded(rate * ((t ? 1 : 0) - tokens));
    sequences += Rounded(rate * ((s ? 1 : 0) - sequences));
    kv += Rounded(rate * ((k ? 1 : 0) - kv));
  }
};

// Cost estimates of one scheduler. Left returns the remaining cost of a request's workflow.
//
// The cost of P prompt tokens without KV, G output tokens and M token-steps of context (tokens attended to, summed over
// the steps) is
//
//  C = aQ P + aB G + aS M + T0 (p_tok (P + G) / budget + p_seq G / max_seqs + p_kv M / KV) + tool
//
// The prices p_tok, p_seq and p_kv divide the fixed time T0 of a step among the scarce resources. A tool call expected
// within the request holds its KV or costs a recomputation: tool = p_kv min(context T_tool / KV, aQ context).
//
// P, G and M of this call come from its own prediction, and those of the rest of the workflow from Request::after. If
// that is unknown, they come from workflow_tokens_left and the averages per output token of ended calls. If the host
// predicts nothing, SeenLengths estimates the output and the rest from similar calls. The host's cap bounds every
// output. Memory: one record per running workflow, and a bounded number of workflows without a call.
//
// Limits: prompts are priced whole, since cached prefixes are known only at admission. Each scheduler has its own book.
// The book of a router's queue learns from reports of ended requests, and treats places on instances as the scarce
// resource.
class FootprintBook {
 public:
  struct Options {
    StepPace pace = {};
    double price_rate = 0.005;  // learning rate of prices, per plan in which a request waited
    double idle_s = 10;  // time without a call after which a workflow counts as ended [s]
    bool learn = true;  // learn missing predictions, and correct the host's predictions
  };

  static constexpr std::size_t kLeastIdle = 1 << 10, kMostIdle = 1 << 16;

  FootprintBook() : FootprintBook(Options{}) {}
  explicit FootprintBook(const Options& options) : options_(options) {}

  void KeyHashes(std::uint64_t seed) {
    flows_.KeyHashes(seed);
    ratios_.KeyHashes(seed);
  }

  // Reserves memory for `requests` concurrent requests and as many workflows without a call, within bounds.
  void Reserve(std::size_t requests) {
    // The first call sets the limit on idle workflows, so that it does not depend on the load.
    if (!std::exchange(reserved_, true)) most_idle_ = std::clamp(requests, kLeastIdle, kMostIdle);
    calls_.reserve(requests);
    flows_.Reserve(requests + most_idle_ + 1);
  }

  // Computes the request's cost and adds it to its workflow.
  void Enters(const RequestState& r, TimePoint now) {
    if (r.slot >= calls_.size()) calls_.resize(r.slot + std::size_t{1});
    Call& call = calls_[r.slot];
    if (call.flow == kNoSlot) {
      call.flow = FlowOf(r.request.workflow);
      Flow& flow = flows_[call.flow];
      if (flow.idle) Leave(call.flow);
      ++flow.alive;
    }
    Flow& flow = flows_[call.flow];
    // Concurrent calls of a workflow predict the same rest, which counts once.
    const bool tells = r.request.after.known() || r.request.workflow_tokens_left.known();
    flow.told |= tells;
    const bool learns = options_.learn && !flow.told && r.request.workflow;
    const double rest = learns ? seen_.Left(PlaceOf(r, flow)) : 0;
    UpdatePrediction(r, tells, call, flow);
    call.cost = std::min(Price(r) + rest, kMostSeconds);
    if (!std::exchange(flow.entered, true)) flow.given = TimeGiven(r.request);
    while (!by_age_.empty()) {
      const std::uint32_t oldest = by_age_.oldest();
      const bool ended = ToSeconds(Between(flows_[oldest].idle_since, now)) > options_.idle_s;
      if (!ended && by_age_.size() <= most_idle_) break;
      flows_[oldest].cut |= !ended;
      Leave(oldest);
      Close(oldest);
    }
  }

  void Ends(const RequestState& r, TimePoint now) {
    if (r.slot >= calls_.size() || calls_[r.slot].flow == kNoSlot) return;
    const std::uint32_t index = calls_[r.slot].flow;
    const double predicted = std::exchange(calls_[r.slot], {}).predicted;
    Flow& flow = flows_[index];
    if (flow.teller == r.slot) flow.teller = kNoSlot;
    flow.cut |= r.cut;
    Learn(r, predicted, flow);
    if (--flow.alive > 0) return;
    const double after = r.request.after.calls;
    const bool over = !r.request.workflow || (after >= 0 && after < 0.5);
    flow.goes_on = after >= 0.5;
    if (over) return Close(index);
    flow.idle = true;
    flow.idle_since = now;
    by_age_.Append(flows_, index);
  }

  void PlanEnds(const QueuePressure& pressure) {
    prices_.Learn(pressure.head, options_.price_rate);
    budget_ = Reciprocal(pressure.limits.tokens.value);
    sequences_ = Reciprocal(pressure.limits.max_seqs);
    kv_ = pressure.kv_tokens.value > 0 ? 1.0 / pressure.kv_tokens.value : 0;
    engines_ = std::max(pressure.engines, 1);
  }

  // Returns the remaining cost of the request's workflow, including this call, as of the request's entry [s]; 0: the
  // request has not entered.
  double Left(const RequestState& r) const { return r.slot < calls_.size() ? calls_[r.slot].cost : 0; }

  // Returns the remaining cost of the call alone, as of this moment [s].
  double Own(const RequestState& r) const { return Cost(OwnOf(r).work); }

  // Returns the factor that corrects the request's predicted output; 1: the request has not entered.
  double Truth(const RequestState& r) const {
    return r.slot < calls_.size() && calls_[r.slot].truth > 0 ? calls_[r.slot].truth : 1;
  }

  // Returns 1 - (time of the request's workflow to its deadline) / (usual time); 0 if that is negative, or without a
  // deadline. The request must have entered. The usual time is a geometric mean over ended workflows, each with bounded
  // influence. A deadline with Request::compute belongs to the call and is ignored.
  double Tightness(const RequestState& r) const {
    if (r.slot >= calls_.size() || calls_[r.slot].flow == kNoSlot) return 0;
    const double given = flows_[calls_[r.slot].flow].given;
    return given > 0 && deadlines_ > 0 ? std::max(1 - given / exact::Exp(usual_), 0.0) : 0;
  }

  std::size_t records() const { return flows_.slots(); }  // number of known workflows and free slots
  double most() const { return largest_.most(); }  // cap on the size of a workflow that has not ended [s]
  double engines() const { return engines_; }
  const ResourcePrices& prices() const { return prices_; }
  const Options& options() const { return options_; }
  Options& options() { return options_; }

  // Returns the learnt means and corrections as words that Load accepts on any machine.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words = seen_.Save();
    const std::vector<std::uint64_t> told = ratios_.Save();
    words.insert(words.begin(), kFormat);
    words.insert(words.end(), told.begin(), told.end());
    return words;
  }
  // Returns false and changes nothing if the words are invalid.
  bool Load(std::span<const std::uint64_t> words) {
    constexpr std::size_t kSeen = SeenLengths::kWords;
    if (words.size() != 1 + kSeen + PredictedLengths::kWords || words[0] != kFormat) return false;
    SeenLengths seen;
    if (!seen.Load(words.subspan(1, kSeen)) || !ratios_.Load(words.subspan(1 + kSeen))) return false;
    seen_ = std::move(seen);
    return true;
  }

  // Returns the time of the call and the longest path after it on an idle engine [s].
  double PathSeconds(const RequestState& r) const {
    const Remaining own = OwnOf(r);
    const double later = Rounded(Truth(r) * std::max(r.request.after.path_tokens, 0.0));
    const double path = own.work.output / r.request.sequences + later;
    const double step = options_.pace.step_s + Rounded(options_.pace.context_s * own.context);
    return Rounded(path * step) + Rounded(options_.pace.prefill_s * own.work.prompt) + ToolSeconds(r.request);
  }

 private:
  static constexpr std::uint64_t kFormat = 0x74616b7473656e07u;  // format of Save
  static constexpr double kForget = 0.998;  // decay of sums, per ended call or workflow
  static constexpr double kMostSeconds = 1e6;  // limit on a cost

  // Demand on the engine: prompt tokens, output tokens, token-steps of context.
  struct Work {
    double prompt = 0, output = 0, kv_steps = 0;
  };
  struct Call {
    std::uint32_t flow = kNoSlot;
    double cost = 0;
    double truth = 0;  // correction of the predicted output; 0: has not entered
    double prediction = 0;  // predicted output that `truth` corrects
    double predicted = 0;  // predicted output per sequence at the first admission; 0: none
  };
  struct Flow {
    WorkflowId id = {};
    bool entered = false;  // a call has entered
    double done = 0;  // cost of ended calls [s]
    bool told = false;  // the host predicts the rest
    bool cut = false;  // a call ended early
    bool goes_on = false;  // the call that ended last expects more calls
    // `predicted`: output that the workflow's first call with a predicted rest expected at its first admission.
    // `output`: output of ended calls of the same tenant since then.
    double predicted = 0, output = 0;
    TenantId tenant = {};
    Slot teller = kNoSlot;  // slot of that first call, until it ends
    SeenLengths::Place last = {};  // class of the call that ended last
    std::int32_t calls = 0;  // ended calls
    double given = 0;  // time from the first call to the workflow's deadline [s]; 0: no deadline
    std::int32_t alive = 0;  // calls that have not ended
    bool idle = false;  // true: the workflow has no such call, and so is in by_age_
    AgeLink age = {};
    TimePoint idle_since{};
  };
  // Remaining work of a call.
  struct Remaining {
    Work work = {};
    double context = 0;
  };

  static double ToolSeconds(const Request& q) { return std::max(ToSeconds(q.next_call.duration), 0.0); }
  static double Reciprocal(std::int32_t limit) { return 1.0 / std::max(limit, 1); }

  double Cost(const Work& work) const {
    const StepPace& pace = options_.pace;
    const double shares = Rounded(prices_.tokens * (work.prompt + work.output) * budget_) +
                          Rounded(prices_.sequences * work.output * sequences_) +
                          Rounded(prices_.kv * work.kv_steps * kv_);
    const double cost = Rounded(pace.prefill_s * work.prompt) + Rounded(pace.sequence_s * work.output) +
                        Rounded(pace.context_s * work.kv_steps) + Rounded(pace.step_s * shares);
    return cost < kMostSeconds ? std::max(cost, 0.0) : kMostSeconds;
  }

  // Returns the expected output of the call over all sequences [tokens].
  double Expected(const Request& q) const {
    if (q.output_tokens.known()) return Rounded(q.output_tokens.mean * q.sequences);
    return Rounded((options_.learn ? seen_.Output(q, mean_output()) : mean_output()) * q.sequences);
  }
  double Capped(const Request& q, double output) const {
    const double cap = Rounded(1.0 * q.max_output_tokens.value * q.sequences);
    return cap > 0 ? std::min(output, cap) : output;
  }
  static SeenLengths::Place PlaceOf(const RequestState& r, const Flow& flow) {
    return SeenLengths::PlaceOf(r.request, flow.calls);
  }

  Remaining OwnOf(const RequestState& r) const {
    const Request& q = r.request;
    const double n = q.sequences;
    const double generated = Rounded(r.generated.value * n);
    const double known = 1.0 * q.prompt_tokens.value + r.returned.value + generated;
    // A request beyond its predicted length is assumed not to end at once.
    const double expected = Capped(q, Rounded(Truth(r) * Expected(q)));
    const double left = std::max({expected - generated, generated / 4, 1.0});
    // Sequences share the prompt, and each attends to its own output.
    const double context = known - generated + r.generated.value;
    return {{std::max(known - r.computed.value, 0.0), left, Rounded(left * (context + Rounded(left / n / 2)))},
            context};
  }

  // Returns the predicted output of later calls [tokens].
  double More(const Request& q) const {
    if (q.after.known()) return q.after.output_tokens;
    if (!q.workflow_tokens_left.known()) return 0;
    return std::max(q.workflow_tokens_left.mean - Capped(q, Expected(q)), 0.0);
  }
  // Returns the output that the host predicts for the call and the rest [tokens]; 0 if a part is not predicted.
  double PredictionOf(const Request& q) const {
    if (q.output_tokens.known()) return std::max(Capped(q, Expected(q)), 1.0) + More(q);
    return q.workflow_tokens_left.known() && !q.after.known() ? std::max(q.workflow_tokens_left.mean, 1.0) : 0;
  }
  Work After(const Request& q) const {
    const WorkAfter& after = q.after;
    const double more = More(q), rate = output_ > 0 ? more / output_ : 0;  // per output token of ended calls
    return {after.prompt_tokens >= 0 ? after.prompt_tokens : Rounded(rate * prompt_), more,
            after.kv_steps >= 0 ? after.kv_steps : Rounded(rate * kv_steps_)};
  }

  double Price(const RequestState& r) const {
    const Request& q = r.request;
    const Remaining own = OwnOf(r);
    const double truth = Truth(r);
    const Work after = After(q);
    double cost =
        Cost({own.work.prompt + Rounded(truth * after.prompt), own.work.output + Rounded(truth * after.output),
              own.work.kv_steps + Rounded(truth * after.kv_steps)});
    if (q.next_call) {
      const double context = own.context + q.next_call.after.value;
      cost += Rounded(prices_.kv * std::min(context * ToolSeconds(q) * kv_, options_.pace.prefill_s * context));
    }
    return std::min(cost, kMostSeconds);
  }

  // Updates the correction of the host's prediction when a call enters or its prediction changes.
  void UpdatePrediction(const RequestState& r, bool tells, Call& call, Flow& flow) {
    const Request& q = r.request;
    const double prediction = options_.learn ? PredictionOf(q) : 0;
    if (call.truth > 0 && call.prediction == prediction) return;
    call.prediction = prediction;
    call.truth = prediction > 0 ? ratios_.Truth(prediction, q.tenant) : 1;
    if (r.taken) return;  // predictions after admission are not learnt from
    call.predicted = tells ? 0 : prediction / q.sequences;
    if (flow.teller == r.slot || (tells && !(flow.predicted > 0))) {
      flow.predicted = tells ? prediction : 0, flow.output = 0;
      flow.tenant = q.tenant, flow.teller = r.slot;
    }
  }

  // Learns from an ended call.
  void Learn(const RequestState& r, double predicted, Flow& flow) {
    const double output = Rounded(static_cast<double>(r.generated.value) * r.request.sequences);
    if (!(output > 0)) {
      flow.cut = true;  // no output was reported
      return;
    }
    const double prompt = 1.0 * r.request.prompt_tokens.value + r.returned.value;
    const double kv_steps = Rounded(output * (prompt + Rounded(r.generated.value / 2.0)));
    const double cost = Cost({prompt, output, kv_steps});
    flow.done += cost;
    if (r.request.tenant == flow.tenant) flow.output += output;
    if (predicted > 0) Judge(Rounded(predicted * r.request.sequences), r.request.tenant, output, r.cut);
    if (options_.learn) LearnUnpredicted(r, cost, flow);
    outputs_ = Rounded(kForget * outputs_) + r.request.sequences;
    prompt_ = Rounded(kForget * prompt_) + prompt;
    output_ = Rounded(kForget * output_) + output;
    kv_steps_ = Rounded(kForget * kv_steps_) + kv_steps;
  }
  // Compares a predicted output with the true one. The output of a call that ended early is only a lower bound.
  void Judge(double predicted, TenantId tenant, double taken, bool cut) {
    if (!cut || taken > predicted) ratios_.Observe(predicted, tenant, taken);
  }
  // Learns the means that replace missing predictions.
  void LearnUnpredicted(const RequestState& r, double cost, Flow& flow) {
    const Request& q = r.request;
    if (!q.output_tokens.known()) seen_.ObserveOutput(q, r.generated.value);
    if (!q.workflow || flow.told) return;
    const SeenLengths::Place place = PlaceOf(r, flow);
    if (flow.last) seen_.ObserveLeft(flow.last, cost, place);
    flow.last = place;
    if (flow.calls < INT32_MAX) ++flow.calls;
  }
  // Returns the mean output per sequence over all calls [tokens].
  double mean_output() const {
    constexpr double kGuess = 256, kGuesses = 4;
    return (output_ + kGuess * kGuesses) / (outputs_ + kGuesses);
  }

  static double TimeGiven(const Request& q) {
    if (q.deadline == kNever || q.compute > Duration::zero()) return 0;
    return std::clamp(SecondsBetween(q.arrival, q.deadline), 0.0, kMostSeconds);
  }
  void LearnGiven(double seconds) {
    constexpr double kMostStep = 3;  // largest step of the logarithm
    const double x = exact::Log(std::max(seconds, 1e-3));
    deadlines_ = Rounded(kForget * deadlines_) + 1;
    usual_ = deadlines_ == 1 ? x : usual_ + std::clamp(x - usual_, -kMostStep, kMostStep) / deadlines_;
  }

  // Removes a workflow from the idle list.
  void Leave(std::uint32_t index) {
    by_age_.Remove(flows_, index);
    flows_[index].idle = false;
  }

  // Closes a workflow that has ended or been idle too long.
  void Close(std::uint32_t index) {
    Flow& flow = flows_[index];
    if (flow.done > 0) {
      largest_.End(flow.done);
      if (flow.given > 0) LearnGiven(flow.given);
      if (flow.predicted > 0) {
        Judge(flow.predicted, flow.tenant, flow.output, flow.cut || flow.goes_on);
      }
      if (flow.last) seen_.ObserveLeft(flow.last, 0);
    }
    flows_.Erase(index, flow.id);
  }

  std::uint32_t FlowOf(WorkflowId id) {
    if (const Slot known = flows_.Find(id); known != kNoSlot) return known;
    const Slot index = id ? flows_.Insert(id) : flows_.Take();
    flows_[index] = {.id = id};
    return index;
  }

  Options options_;
  ResourcePrices prices_;
  double budget_ = 1.0 / 2048, sequences_ = 1.0 / 256, kv_ = 0;  // reciprocals of a step's limits
  double engines_ = 1;  // engines that share the work
  LargestWork largest_;
  SeenLengths seen_;
  PredictedLengths ratios_;
  std::vector<Call> calls_;  // by slot
  IdTable<WorkflowId, Flow> flows_;
  AgeList by_age_;  // idle workflows
  std::size_t most_idle_ = kLeastIdle;
  bool reserved_ = false;
  // Decaying sums over ended calls.
  double outputs_ = 0, prompt_ = 0, output_ = 0, kv_steps_ = 0;  // outputs_ counts sequences
  double deadlines_ = 0, usual_ = 0;  // number of workflows with a deadline, and mean logarithm of their time
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_
