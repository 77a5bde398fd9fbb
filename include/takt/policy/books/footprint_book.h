// What a workflow will still cost an engine, in seconds of the GPU, and what all that are in it will cost together.
#ifndef TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_
#define TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_

#include <algorithm>
#include <array>
#include <cmath>
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
#include "takt/policy/books/told_lengths.h"
#include "takt/state/request_state.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

// The sizes of works, forgetting slowly: how unequal they are, and which are the giants. A work counts from when it
// comes, by its prediction, but for no more than kMostOfLargest times the largest that has ended; and by its true size
// once it has ended. Sizes of those alone that have ended would be those of the small ones for as long as the first
// giants are on their way. A work of which only means were known counts on where its prediction is, and with its true
// size: the works of a bucket then stand for E[true | predicted], which is as far as an order by predictions can tell
// works apart. Before kEnough have ended, predictions are all there is: they count as they are, up to kMostUnseen,
// beside a prior that fades with each that ends; then they are forgotten, since one that was absurd would stay. Of
// fixed size: quarters of an octave from a microsecond to 10^6 s.
class WorkSizes {
 public:
  static constexpr double kMostOfLargest = 16;
  static constexpr int kEnough = 16;  // works that have ended, before predictions are held against them
  static constexpr double kShare = 0.95;  // of the work, below the cut
  static constexpr double kHeavyTail = 3;  // q from which a tail is heavy

  // A work that is expected, and as what it counts; a size of zero: not yet.
  struct Entry {
    double size = 0;
    std::uint32_t epoch = 0;
    bool guessed = false;  // nobody predicted it: a mean stands for it
  };

  Entry Expect(double seconds, bool guessed = false) {
    Entry entry{std::clamp(seconds, kLeast, kMostUnseen), kEarly, guessed};
    if (ended_ >= kEnough) entry.size = std::clamp(std::min(seconds, most()), kLeast, kMost), entry.epoch = epoch_;
    Count(entry.size, 1, entry.size);
    if (ended_ >= kEnough) Age();
    Changed();
    return entry;
  }

  void End(const Entry& entry, double seconds) {
    ++ended_;
    seconds = std::clamp(seconds, kLeast, kMost);
    largest_ = std::max(seconds, kForget * largest_);
    const double size = entry.size > 0 && entry.guessed ? entry.size : seconds;
    if (ended_ <= kEnough) return EndEarly(entry, {size, seconds});
    if (Counts(entry)) {
      const double weight = WeightOf(entry);
      Count(entry.size, -weight, -weight * entry.size);
      Count(size, weight, weight * seconds);
    } else {
      Count(size, 1, seconds);
      Age();
    }
    Changed();
  }

  // Nothing came of it.
  void Withdraw(const Entry& entry) {
    if (!Counts(entry)) return;
    const double weight = WeightOf(entry);
    Count(entry.size, -weight, -weight * entry.size);
    Changed();
  }

  // E[C^2] / E[C]^2: 1 where all works are equal. Before enough have ended it leans towards 2, as of exponential sizes.
  double tail() const { return tail_; }
  // How many times as heavy the tail is as one that counts as heavy, 1 to 2: more makes no difference to the order.
  double Heaviness() const { return std::clamp(tail_ / kHeavyTail, 1.0, 2.0); }
  // How much an order by size is worth: 0 where all works are equal, 1 from a q of 1.5 on.
  double Unequal() const { return std::clamp(3 * (1 - 1 / tail_), 0.0, 1.0); }
  // The size below which kShare of the work lies; 0 before the first. Those above are the giants.
  double cut() const { return cut_; }
  // For which a work counts that has not ended.
  double most() const { return ended_ < kEnough ? kMostUnseen : kMostOfLargest * largest_; }

 private:
  static constexpr double kPerOctave = 4;
  static constexpr int kHalveAfter = 2048;
  static constexpr double kLeast = 1e-6, kMost = 1e6, kMostUnseen = 100, kPriorTail = 2;
  static constexpr double kForget = 0.9995;  // of the largest, per work that ends
  static constexpr double kNothing = 1e-9;  // what is left of works that were corrected

  static constexpr std::uint32_t kEarly = UINT32_MAX;  // the epoch of what came before enough had ended

  struct Bucket {
    double count = 0, work = 0;

    bool empty() const { return !(count > kNothing && work > 0); }
  };
  // A work that has ended: as what it counts, and what it took.
  struct Sized {
    double size = 0, seconds = 0;
  };

  // Of what came early nothing is left once enough have ended.
  bool Counts(const Entry& entry) const { return entry.size > 0 && (entry.epoch != kEarly || ended_ < kEnough); }

  void EndEarly(const Entry& entry, const Sized& work) {
    first_[static_cast<std::size_t>(ended_ - 1)] = work;
    if (ended_ < kEnough) {
      if (entry.size > 0) Count(entry.size, -1, -entry.size);
      Count(work.size, 1, work.seconds);
      return Changed();
    }
    buckets_ = {};
    for (const Sized& w : first_) Count(w.size, 1, w.seconds);
    since_halved_ = kEnough;
    Changed();
  }

  void Age() {
    if (++since_halved_ < kHalveAfter) return;
    for (Bucket& b : buckets_) b.count /= 2, b.work /= 2;
    since_halved_ = 0;
    ++epoch_;
  }

  double WeightOf(const Entry& entry) const {
    return entry.epoch == kEarly ? 1 : std::ldexp(1.0, -static_cast<int>(std::min(epoch_ - entry.epoch, 60u)));
  }

  void Count(double size, double count, double work) {
    const auto i = static_cast<std::size_t>(kPerOctave * exact::Log2(size / kLeast));
    Bucket& b = buckets_[std::min(i, buckets_.size() - 1)];
    b.count += count, b.work += Rounded(work);
  }

  // A pass over the buckets, for every work at first, later for some.
  void Changed() {
    if (ended_ >= kEnough && ++changes_ > 16 * kEnough && changes_ % kEnough != 0) return;
    double count = 0, work = 0, squares = 0;
    for (const Bucket& b : buckets_) {
      if (b.empty()) continue;
      count += b.count, work += b.work, squares += b.work * b.work / b.count;
    }
    if (!(count > 0)) return;
    tail_ = squares * count / (work * work);
    if (ended_ < kEnough) {
      const auto prior = static_cast<double>(kEnough - ended_);
      tail_ = (Rounded(kPriorTail * prior) + Rounded(tail_ * count)) / (prior + count);
    }
    double left = Rounded(kShare * work);
    for (const Bucket& b : buckets_) {
      if (b.empty()) continue;
      cut_ = b.work / b.count;
      if (left <= b.work) {
        cut_ *= exact::Exp2((left / b.work - 0.5) / kPerOctave);  // as if its work were spread over the bucket
        break;
      }
      left -= b.work;
    }
  }

  std::array<Bucket, 160> buckets_ = {};
  std::int64_t changes_ = 0, ended_ = 0;
  double largest_ = 0;  // that has ended, forgetting
  std::uint32_t epoch_ = 0;  // counts halvings
  int since_halved_ = 0;
  double tail_ = kPriorTail, cut_ = 0;
  std::array<Sized, kEnough> first_ = {};  // that have ended
};

// What an engine's scarce resources cost, as shares of a step: learnt from what keeps the first of the queue out.
struct ResourcePrices {
  double tokens = 1.0 / 3, sequences = 1.0 / 3, kv = 1.0 / 3;  // of the token budget, of max_seqs, of the KV cache

  void Learn(WaitsFor head, double rate) {
    const bool t = head == WaitsFor::kBudget, s = head == WaitsFor::kSequences, k = head == WaitsFor::kKv;
    if (!t && !s && !k) return;
    tokens += Rounded(rate * ((t ? 1 : 0) - tokens));
    sequences += Rounded(rate * ((s ? 1 : 0) - sequences));
    kv += Rounded(rate * ((k ? 1 : 0) - kv));
  }
};

// Keeps the books of one scheduler: told of requests that enter and end, and of the pressure, it says what a request's
// whole workflow will still cost (Left), and how long the engine will be busy with all that it knows of (Drain).
//
// The cost of P prompt tokens that no KV is there for, G output tokens and M tokens of context summed over the steps
// that attend to them (token-steps), by the pace of a step:
//
//   C = aQ P + aB G + aS M + T0 (p_tok (P + G) / budget + p_seq G / max_seqs + p_kv M / KV) + tool
//
// so that the fixed time T0 of a step is shared by those that take what is scarce. A tool call expected within the
// request holds its KV, or costs its recomputation: tool = p_kv min(context T_tool / KV, aQ context).
//
// P, G and M are of this call by its own prediction, and of the rest of its workflow by Request::after; where that is
// not known, by workflow_tokens_left and what calls have taken per output token so far. Where the host predicts
// nothing, SeenLengths tells what calls like this one have generated, and what their workflows then still had to do.
// No output counts for more than the host's cap on it, and to the backlog no workflow for more than WorkSizes::most().
// State: a record per living workflow, and a bounded number of those of which no call is there at present.
//
// What is not seen: prefixes in the cache, which are looked up at admission (such prompts are priced whole); other
// instances (each scheduler keeps its own book; that of a router's queue learns from what hosts tell of requests that
// have ended, and takes places on instances for what is scarce).
class FootprintBook {
 public:
  struct Options {
    StepPace pace = {};
    double price_rate = 0.005;  // at which prices follow, per plan in which a request had to wait
    double idle_s = 10;  // without a call a workflow counts as ended
    bool learn = true;  // what the host does not tell, and what its predictions come true to
  };

  static constexpr std::size_t kLeastIdle = 1 << 10, kMostIdle = 1 << 16;

  FootprintBook() : FootprintBook(Options{}) {}
  explicit FootprintBook(const Options& options) : options_(options) {}

  void KeyHashes(std::uint64_t seed) {
    flows_.KeyHashes(seed);
    told_.KeyHashes(seed);
  }

  // For so many requests at once; as many workflows, within bounds, are remembered while no call of theirs is there.
  void Reserve(std::size_t requests) {
    // By what is told first, so that how many are remembered does not depend on how many came.
    if (!std::exchange(reserved_, true)) most_idle_ = std::clamp(requests, kLeastIdle, kMostIdle);
    calls_.reserve(requests);
    flows_.Reserve(requests + most_idle_ + 1);
  }

  // The request is priced, and its workflow counts with that.
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
    // Side by side, calls that tell of the rest of their workflow tell of the same; others speak for themselves.
    const bool tells = r.request.after.known() || r.request.workflow_tokens_left.known();
    flow.told |= tells;
    const bool learns = options_.learn && !flow.told && r.request.workflow;
    const double rest = learns ? seen_.Left(PlaceOf(r, flow)) : 0;
    Believe(r, tells, call, flow);
    const double own = Price(r);
    call.cost = std::min(own + rest, kMostSeconds);
    if (!flow.counts) {
      flow.counts = true;
      flow.given = TimeGiven(r.request);
      flow.entry = works_.Expect(call.cost, options_.learn && !tells && !r.request.output_tokens.known());
    }
    Count(call.counted_ns, tells ? 0 : own);
    if (tells || learns) Count(flow.left_ns, tells ? call.cost : rest);
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
    Count(calls_[r.slot].counted_ns, 0);
    const double predicted = std::exchange(calls_[r.slot], {}).predicted;
    Flow& flow = flows_[index];
    if (flow.teller == r.slot) flow.teller = kNoSlot;
    flow.cut |= r.cut;
    Learn(r, predicted, flow);
    if (--flow.alive > 0) return;
    Count(flow.left_ns, 0);
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

  // What is left of the workflow of a request that has entered, this call included, as of then [s]; 0 of others.
  double Left(const RequestState& r) const { return r.slot < calls_.size() ? calls_[r.slot].cost : 0; }

  // Until all that is known of is done [s].
  double Drain() const { return static_cast<double>(sum_ns_) * 1e-9 / engines_; }

  // Times which the output that was predicted of a request that has entered is taken; 1 of others.
  double Truth(const RequestState& r) const {
    return r.slot < calls_.size() && calls_[r.slot].truth > 0 ? calls_[r.slot].truth : 1;
  }

  // By how much the request's workflow is given less time than is usual, as a share of that: 0 (as much, more, or none
  // told) to 1. Of those that have entered. What is usual is a geometric mean over workflows that have ended, each of
  // which moves it within bounds. A deadline that comes with Request::compute is the call's own, and not looked at.
  double Tightness(const RequestState& r) const {
    if (r.slot >= calls_.size() || calls_[r.slot].flow == kNoSlot) return 0;
    const double given = flows_[calls_[r.slot].flow].given;
    return given > 0 && deadlines_ > 0 ? std::max(1 - given / exact::Exp(usual_), 0.0) : 0;
  }

  // Of a token in, a token out [s].
  double LeastCost() const { return Cost({1, 1, 1}); }

  std::size_t records() const { return flows_.slots(); }  // of workflows, and of some that were
  const WorkSizes& works() const { return works_; }
  const ResourcePrices& prices() const { return prices_; }
  const Options& options() const { return options_; }
  Options& options() { return options_; }

  // What was learnt of what hosts did not tell, and of what they did, as words that Load takes on any machine.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words = seen_.Save();
    const std::vector<std::uint64_t> told = told_.Save();
    words.insert(words.begin(), kFormat);
    words.insert(words.end(), told.begin(), told.end());
    return words;
  }
  // False, and nothing has changed, where they are no such words.
  bool Load(std::span<const std::uint64_t> words) {
    constexpr std::size_t kSeen = SeenLengths::kWords;
    if (words.size() != 1 + kSeen + ToldLengths::kWords || words[0] != kFormat) return false;
    SeenLengths seen;
    if (!seen.Load(words.subspan(1, kSeen)) || !told_.Load(words.subspan(1 + kSeen))) return false;
    seen_ = std::move(seen);
    return true;
  }

  // Seconds from now on that the call, and the calls of its workflow that wait for it, take at least: on an engine by
  // themselves.
  double PathSeconds(const RequestState& r) const {
    const Own own = OwnOf(r);
    const double later = Rounded(Truth(r) * std::max(r.request.after.path_tokens, 0.0));
    const double path = own.work.output / r.request.sequences + later;
    const double step = options_.pace.step_s + Rounded(options_.pace.context_s * own.context);
    return Rounded(path * step) + Rounded(options_.pace.prefill_s * own.work.prompt) + ToolSeconds(r.request);
  }

 private:
  static constexpr std::uint64_t kFormat = 0x74616b7473656e07u;  // of Save
  static constexpr double kForget = 0.998;  // of sums over what has ended, per call or workflow
  static constexpr double kMostSeconds = 1e6;  // of a price
  static constexpr double kMostCounted = 1e4;  // [s], so that no sum overflows

  // What is asked of the engine: tokens of prompts, tokens of output, and token-steps of context.
  struct Work {
    double prompt = 0, output = 0, kv_steps = 0;
  };
  struct Call {
    std::uint32_t flow = kNoSlot;
    double cost = 0;
    std::int64_t counted_ns = 0;  // in the sum, besides its workflow
    double truth = 0;  // times which the output that was predicted is taken; 0: it has not entered
    double said = 0;  // that
    double predicted = 0;  // of itself alone, per sequence, when it was first taken; 0: nothing was
  };
  struct Flow {
    WorkflowId id = {};
    std::int64_t left_ns = 0;  // counted in the sum
    WorkSizes::Entry entry = {};
    bool counts = false;  // among the works
    double done = 0;  // by calls that have ended
    bool told = false;  // what is left of it, by the host
    bool cut = false;  // a call of it
    bool goes_on = false;  // by the word of its call that ended last
    // Output: as predicted by its first call that told what is left, when that was first taken; of calls of that one's
    // tenant that have ended since it came.
    double predicted = 0, output = 0;
    TenantId tenant = {};
    Slot teller = kNoSlot;  // that call, as long as it lives
    SeenLengths::Place last = {};  // of its call that ended last
    std::int32_t calls = 0;  // that have ended
    double given = 0;  // [s] from its first call to its deadline; 0: none told
    std::int32_t alive = 0;  // calls
    bool idle = false;  // none, in the list
    AgeLink age = {};
    TimePoint idle_since{};
  };
  // What a call has still to do.
  struct Own {
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

  // Output of the call, all sequences.
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

  Own OwnOf(const RequestState& r) const {
    const Request& q = r.request;
    const double n = q.sequences;
    const double generated = Rounded(r.generated.value * n);
    const double known = 1.0 * q.prompt_tokens.value + r.returned.value + generated;
    // A request that has outrun its prediction is taken to be some way from its end.
    const double expected = Capped(q, Rounded(Truth(r) * Expected(q)));
    const double left = std::max({expected - generated, generated / 4, 1.0});
    // Its sequences share the prompt, and each attends to its own output.
    const double context = known - generated + r.generated.value;
    return {{std::max(known - r.computed.value, 0.0), left, Rounded(left * (context + Rounded(left / n / 2)))},
            context};
  }

  // Output of the calls after it, as it tells.
  double More(const Request& q) const {
    if (q.after.known()) return q.after.output_tokens;
    if (!q.workflow_tokens_left.known()) return 0;
    return std::max(q.workflow_tokens_left.mean - Capped(q, Expected(q)), 0.0);
  }
  // Output that its host predicts, of the call and of what it tells of the rest; 0 where a part of it would be ours.
  double Said(const Request& q) const {
    if (q.output_tokens.known()) return std::max(Capped(q, Expected(q)), 1.0) + More(q);
    return q.workflow_tokens_left.known() && !q.after.known() ? std::max(q.workflow_tokens_left.mean, 1.0) : 0;
  }
  Work After(const Request& q) const {
    const WorkAfter& after = q.after;
    const double more = More(q), rate = output_ > 0 ? more / output_ : 0;  // of what has ended
    return {after.prompt_tokens >= 0 ? after.prompt_tokens : Rounded(rate * prompt_), more,
            after.kv_steps >= 0 ? after.kv_steps : Rounded(rate * kv_steps_)};
  }

  double Price(const RequestState& r) const {
    const Request& q = r.request;
    const Own own = OwnOf(r);
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

  void Count(std::int64_t& counted_ns, double cost) {
    const auto ns = static_cast<std::int64_t>(std::min({cost, works_.most(), kMostCounted}) * 1e9);
    sum_ns_ += ns - counted_ns;
    counted_ns = ns;
  }

  // A call comes, or what is told of it has changed: as how much its host's prediction is taken.
  void Believe(const RequestState& r, bool tells, Call& call, Flow& flow) {
    const Request& q = r.request;
    const double said = options_.learn ? Said(q) : 0;
    if (call.truth > 0 && call.said == said) return;
    call.said = said;
    call.truth = said > 0 ? told_.Truth(said, q.tenant) : 1;
    if (r.taken) return;  // by what was said before; what is said in hindsight is not judged
    call.predicted = tells ? 0 : said / q.sequences;
    if (flow.teller == r.slot || (tells && !(flow.predicted > 0))) {
      flow.predicted = tells ? said : 0, flow.output = 0;
      flow.tenant = q.tenant, flow.teller = r.slot;
    }
  }

  // What a call that has ended has taken.
  void Learn(const RequestState& r, double predicted, Flow& flow) {
    const double output = Rounded(static_cast<double>(r.generated.value) * r.request.sequences);
    if (!(output > 0)) {
      flow.cut = true;  // as far as is known
      return;
    }
    const double prompt = 1.0 * r.request.prompt_tokens.value + r.returned.value;
    const double kv_steps = Rounded(output * (prompt + Rounded(r.generated.value / 2.0)));
    const double cost = Cost({prompt, output, kv_steps});
    flow.done += cost;
    if (r.request.tenant == flow.tenant) flow.output += output;
    if (predicted > 0) Judge(Rounded(predicted * r.request.sequences), r.request.tenant, output, r.cut);
    if (options_.learn) LearnUntold(r, cost, flow);
    outputs_ = Rounded(kForget * outputs_) + r.request.sequences;
    prompt_ = Rounded(kForget * prompt_) + prompt;
    output_ = Rounded(kForget * output_) + output;
    kv_steps_ = Rounded(kForget * kv_steps_) + kv_steps;
  }
  // Output that was predicted, and what there was; of what has not come to its end it is known only that there would
  // have been no less.
  void Judge(double predicted, TenantId tenant, double taken, bool cut) {
    if (!cut || taken > predicted) told_.Observe(predicted, tenant, taken);
  }
  // The means of what the host did not tell.
  void LearnUntold(const RequestState& r, double cost, Flow& flow) {
    const Request& q = r.request;
    if (!q.output_tokens.known()) seen_.ObserveOutput(q, r.generated.value);
    if (!q.workflow || flow.told) return;
    const SeenLengths::Place place = PlaceOf(r, flow);
    if (flow.last) seen_.ObserveLeft(flow.last, cost, place);
    flow.last = place;
    if (flow.calls < INT32_MAX) ++flow.calls;
  }
  // Of a sequence, over all calls.
  double mean_output() const {
    constexpr double kGuess = 256, kGuesses = 4;
    return (output_ + kGuess * kGuesses) / (outputs_ + kGuesses);
  }

  static double TimeGiven(const Request& q) {
    if (q.deadline == kNever || q.compute > Duration::zero()) return 0;
    return std::clamp(SecondsBetween(q.arrival, q.deadline), 0.0, kMostSeconds);
  }
  void LearnGiven(double seconds) {
    constexpr double kMostStep = 3;  // in logarithms
    const double x = exact::Log(std::max(seconds, 1e-3));
    deadlines_ = Rounded(kForget * deadlines_) + 1;
    usual_ = deadlines_ == 1 ? x : usual_ + std::clamp(x - usual_, -kMostStep, kMostStep) / deadlines_;
  }

  // No longer idle.
  void Leave(std::uint32_t index) {
    by_age_.Remove(flows_, index);
    flows_[index].idle = false;
  }

  // A workflow is over, or does not go on.
  void Close(std::uint32_t index) {
    Flow& flow = flows_[index];
    if (flow.done > 0) {
      works_.End(flow.entry, flow.done);
      if (flow.given > 0) LearnGiven(flow.given);
      if (flow.predicted > 0) {
        Judge(flow.predicted, flow.tenant, flow.output, flow.cut || flow.goes_on);
      }
      if (flow.last) seen_.ObserveLeft(flow.last, 0);
    } else {
      works_.Withdraw(flow.entry);
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
  double budget_ = 1.0 / 2048, sequences_ = 1.0 / 256, kv_ = 0;  // one over what a step has to give
  double engines_ = 1;  // that share the work
  WorkSizes works_;
  SeenLengths seen_;
  ToldLengths told_;
  std::vector<Call> calls_;  // by slot
  IdTable<WorkflowId, Flow> flows_;
  AgeList by_age_;  // of those that are idle
  std::size_t most_idle_ = kLeastIdle;
  bool reserved_ = false;
  std::int64_t sum_ns_ = 0;  // of all that live, exact
  // Sums over what has ended, forgetting.
  double outputs_ = 0, prompt_ = 0, output_ = 0, kv_steps_ = 0;  // sequences, and of calls
  double deadlines_ = 0, usual_ = 0;  // of workflows: how many count, and the mean logarithm of the time given
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_FOOTPRINT_BOOK_H_
