#include "setup.h"

#include "memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "takt/rivals/pause/infercept.h"
#include "takt/pause/least_waste.h"
#include "takt/pause/registry.h"
#include "takt/policy/aged.h"
#include "takt/rivals/policy/autellix.h"
#include "takt/policy/registry.h"
#include "takt/policy/bands.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/footprint.h"
#include "takt/rivals/policy/justitia.h"
#include "takt/rivals/policy/ltr.h"
#include "takt/policy/memory_integral.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/policy/registry.h"
#include "takt/rivals/policy/sagesched.h"
#include "takt/policy/sjf.h"
#include "watched_room.h"
#include "takt/rivals/policy/uniboost.h"
#include "with_rivals.h"

namespace takt::fire {
namespace {

// Many requests have equal keys, so arrival and id decide.
struct Ties {
  static constexpr std::string_view kName = "ties";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.id.value % 3)}; }
};

// Some keys are NaN.
struct Absurd {
  static constexpr std::string_view kName = "absurd";
  RankKey Key(const RequestState& r) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (r.request.id.value % 5) {
      case 0: return {std::numeric_limits<double>::quiet_NaN()};
      case 1: return {kInfinity};
      case 2: return {-kInfinity};
      default: return {-0.0};
    }
  }
};

// Ranks by the work done and by the start of the wait: state that changes from turn to turn.
struct LeastServed {
  static constexpr std::string_view kName = "least_served";
  RankKey Key(const RequestState& r) const {
    return {r.generated.value + ToSeconds(r.enqueued) + (r.has_run ? 0.5 : 0.0)};
  }
};

// A key that changes with time: response ratio.
struct Moving {
  static constexpr std::string_view kName = "moving";
  RankKey Key(const RequestState& r) const { return KeyAt(r, r.enqueued); }
  RankKey KeyAt(const RequestState& r, TimePoint now) const {
    return {-(ToSeconds(now) - ToSeconds(r.request.arrival)) / (1.0 + std::max(r.request.output_tokens.mean, 0.0))};
  }
};

// Fair share of tenants. It receives all scheduled tokens.
struct Fair {
  static constexpr std::string_view kName = "fair";
  RankKey Key(const RequestState&) const { return {}; }
  std::uint64_t Group(const RequestState& r) const { return r.request.tenant.value; }
  RankKey GroupKey(std::uint64_t group) const {
    const auto at = served.find(group);
    return {at == served.end() ? 0 : at->second};
  }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) {
    const OfTheHost memory;
    served[r.request.tenant.value] += prefill.value + 2.0 * output.value;
  }
  std::unordered_map<std::uint64_t, double> served = {};
};

// Fair share that also logs changed keys, lifts groups that wake, and picks victims in an order of its own.
struct LoggedFair : Fair {
  static constexpr std::string_view kName = "logged_fair";
  std::vector<std::uint64_t>& moved_groups() { return moved; }
  void GroupSized(std::uint64_t group, std::int64_t, std::optional<RankKey> least) {
    if (!least) return;
    const OfTheHost memory;
    served[group] = std::max(served[group], least->key);
    moved.push_back(group);
  }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) {
    Fair::Scheduled(r, prefill, output);
    const OfTheHost memory;
    moved.push_back(r.request.tenant.value);
  }
  RankKey VictimKey(const RequestState& r) const { return {static_cast<double>(r.generated.value)}; }
  std::vector<std::uint64_t> moved = {};
};

// Learns from events: the request whose output estimate was revised last goes first.
struct Observing {
  static constexpr std::string_view kName = "observing";
  RankKey Key(const RequestState& r) const { return {r.request.id == last ? -1.0 : 0.0}; }
  void Observe(const Event& event, TimePoint) {
    if (const auto* revised = std::get_if<Revised>(&event)) last = revised->request;
  }
  RequestId last = {};
};

// Declines requests: a fifth of the tenants may have only a limited number of requests in progress.
struct Capped {
  static constexpr std::string_view kName = "capped";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
  bool Admits(const RequestState& r, TimePoint) const {
    return Find(r.request.id) < n || std::ranges::count(tenants, TenantOf(r)) < cap;
  }
  void Admitted(const RequestState& r, TimePoint) {
    if (n < begun.size() && Find(r.request.id) == n) begun[n] = r.request.id, tenants[n++] = TenantOf(r);
  }
  void Ends(const RequestState& r, TimePoint) {
    if (const std::size_t at = Find(r.request.id); at < n) {
      begun[at] = begun[--n], tenants[at] = tenants[n];
      tenants[n] = 0;
    }
  }
  static int TenantOf(const RequestState& r) { return 1 + static_cast<int>(r.request.tenant.value % 5); }
  std::size_t Find(RequestId id) const {
    return static_cast<std::size_t>(std::ranges::find(begun.begin(), begun.begin() + n, id) - begun.begin());
  }

  std::int64_t cap = 1;
  std::size_t n = 0;
  std::array<RequestId, 150> begun = {};
  std::array<int, 150> tenants = {};  // number of such tenants; 0 afterwards
};

// A host's own pause policy at its worst: it decides at random and ignores what is possible.
struct Whim {
  static constexpr std::string_view kName = "whim";
  PauseDecision AtCall(const RequestState& r, const ToolCalled&, const PauseView& view) const { return Any(r, view); }
  KvAction Predict(const RequestState& r, const PauseView& view) const { return Any(r, view).action; }
  PauseDecision Review(const RequestState& r, const ToolCalled&, TimePoint, const PauseView& view) const {
    return Any(r, view);
  }
  static PauseDecision Any(const RequestState& r, const PauseView& view) {
    Dice dice(r.request.id.value ^ static_cast<std::uint64_t>(view.now.time_since_epoch().count()));
    const TimePoint soon = After(view.now, Duration(dice.Between(-1000, 100'000)));
    return {dice.Of({KvAction::kKeep, KvAction::kDrop, KvAction::kOut, KvAction::kOut, KvAction::kIn}),
            dice.Of({kNever, kUnset, soon, soon}),
            {dice.Of({INT32_MIN, -1, 0, 1, view.held.value / 2, view.held.value, view.held.value + 1, INT32_MAX})}};
  }
};

// Times that suit the random host, whose steps are some ten microseconds apart.
PauseCosts CostsOf(Dice& dice) {
  return {.pace = {.decode_s = 2e-5,
                   .forward_s = dice.Of({1e-8, 1e-6, 1e-5}),
                   .swap_s = dice.Of({1e-9, 1e-7, 1e-5}),
                   .chunk_overhead_s = 1e-5,
                   .chunk_tokens = dice.Of({1.0, 16.0, 512.0})},
          .overlap = dice.Of({0.0, 1.0})};
}

template <RankPolicy P>
AnyPolicy MaybeAged(P policy, Dice& dice) {
  if (dice.Chance(0.35)) return AnyPolicy(std::move(policy));
  AgingOptions aging;
  aging.threshold = dice.Of<std::int64_t>({1, 2, 5, 20, 100});
  aging.quantum = dice.Of<std::int64_t>({1, 2, 10, kForever});
  aging.count_from = dice.Of({AgingOptions::CountFrom::kArrival, AgingOptions::CountFrom::kFirstRun});
  using At = AgingOptions::AtToolCall;
  const bool resets = dice.Chance(0.3);
  const bool from_arrival = aging.count_from == AgingOptions::CountFrom::kArrival;
  aging.at_tool_call = !resets ? At::kKeep : from_arrival ? At::kReset : At::kResetCount;
  return AnyPolicy(Aged(std::move(policy), aging));
}

// Times that suit the random host, so that queues, quanta and long waits occur.
AnyPolicy Feedback(Dice& dice) {
  const MemoryPace pace = CostsOf(dice).pace;
  const double quantum = dice.Of({1e-6, 2e-5, 1e-4}), ratio = dice.Of({1.0, 1.5, 2.0});
  switch (dice.Index(3)) {
    case 0: return MaybeAged(Ltr({.bucket = dice.Of({0.0, 10.0})}), dice);
    case 1: {
      Mlfq policy({quantum, ratio, dice.Of({1e-5, 3e-4, 3.0}), dice.Chance(0.7)});
      policy.pace = pace;
      return MaybeAged(std::move(policy), dice);
    }
    default: {
      Autellix policy({.service = dice.Of({ProgramService::kPlas, ProgramService::kAtlas}),
                       .queues = dice.Of<std::int64_t>({1, 3, 7}),
                       .bound = 2 * quantum,
                       .quantum = quantum,
                       .ratio = ratio,
                       .beta = dice.Of({0.0, 0.5, 8.0}),
                       .programs = dice.Of<std::int64_t>({0, 2, 100})});
      policy.pace = pace;
      return MaybeAged(std::move(policy), dice);
    }
  }
}

}  // namespace

AnyPolicy PolicyOf(std::uint64_t bits) {
  if (Dice other(~bits); other.Chance(0.2)) return Feedback(other);
  if (Dice third(Mix64(bits)); third.Chance(0.06))
    return MaybeAged(Capped{.cap = third.Of<std::int64_t>({1, 2, 5, 30})}, third);
  if (Dice fourth(Mix64(~bits)); fourth.Chance(0.06)) return MaybeAged(WatchedRoom{}, fourth);
  if (Dice fifth(Mix64(bits + 1)); fifth.Chance(0.06))
    return MaybeAged(*MakePolicy(fifth.Of({"first_token", "first_token(default_s=0.001,forward_s=1e-7)"})), fifth);
  if (Dice sixth(Mix64(bits) + 1); sixth.Chance(0.06)) {
    Bands::Options bands{.bands = {{{-1}, {0, sixth.Of({0.0, 0.2})}, {2, sixth.Of({0.0, 0.1, 0.5})}}}};
    bands.by = sixth.Chance(0.3) ? Bands::By::kWorkflow : Bands::By::kTenant;
    bands.quantum = sixth.Of({1.0, 100.0, 2048.0});
    return MaybeAged(Bands(std::move(bands)), sixth);
  }
  Dice dice(bits);
  switch (dice.Index(13)) {
    case 0: return MaybeAged(Fcfs{}, dice);
    case 1: return MaybeAged(Ties{}, dice);
    case 2: return MaybeAged(Absurd{}, dice);
    case 3: return MaybeAged(LeastServed{}, dice);
    case 4: return MaybeAged(Moving{}, dice);
    case 5: return MaybeAged(Fair{}, dice);
    case 6: return MaybeAged(LoggedFair{}, dice);
    case 7: return MaybeAged(Observing{}, dice);
    case 8:
      return MaybeAged(MemoryIntegral{.stall = dice.Of({0.0, 1.0}), .refresh = dice.Of<std::int64_t>({0, 1, 9})}, dice);
    case 9: return MaybeAged(Footprint{}, dice);
    case 10:
    case 11:
      return MaybeAged(
          *MakePolicy(dice.Of({"room_to_pass", "room_to_pass(preset=mean)", "footprint(hopeless_last=true)"})), dice);
    default: break;
  }
  switch (dice.Index(6)) {
    case 0: return MaybeAged(FairShare{{.w_in = 1, .w_out = 3, .weights = {{{{1}, 4.0}, {{2}, 0.5}}}}}, dice);
    case 1: return MaybeAged(FairShare{}, dice);
    case 2: return MaybeAged(UniBoost{}, dice);
    case 3: return MaybeAged(SageSched{}, dice);
    case 4: return MaybeAged(Justitia{}, dice);
    default: return MaybeAged(Sjf{}, dice);
  }
}

AnyPause PauseOf(std::uint64_t bits) {
  Dice dice(bits);
  switch (dice.Index(8)) {
    case 0: return KeepAll{};
    case 1: return DropAll{};
    case 2: return SwapAll{};
    case 3: return Whim{};
    case 4:
    case 5: return InferCept{.costs = CostsOf(dice), .elapsed = dice.Chance(0.3)};
    default: return LeastWaste{.costs = CostsOf(dice)};
  }
}

AnyPolicy Setup::PolicyOf(std::uint64_t bits) const {
  for (; by_name; bits = Mix64(bits)) {
    if (auto made = MakePolicy(fire::PolicyOf(bits).spec()); made.ok()) return *std::move(made);
  }
  return fire::PolicyOf(bits);
}

std::string Setup::RetentionOf(std::uint64_t bits) {
  return Dice(bits).Of<const char*>({"lru", "lfu", "slru", "ttl(seconds=1)", "tlru", "wa", "shortest", "continuum",
                                     "hold_value", "hold_value", "hold_value"});
}

// Memory is small here and prompts are short, so the cost model describes a slow engine.
std::string Setup::GateOf(std::uint64_t bits) {
  return Dice(Mix64(bits))
      .Of<const char*>({"none", "lease(seconds=0.001)", "lease(seconds=5)", "working_set", "concur", "price",
                        "price(alpha_ms=1000)", "price(alpha_ms=1000,after_s=1)", "price(alpha_ms=100000,share=0.5)"});
}

AnyPause Setup::PauseOf(std::uint64_t bits) const {
  for (; by_name; bits = Mix64(bits)) {
    if (auto made = MakePause(fire::PauseOf(bits).spec()); made.ok()) return *std::move(made);
  }
  return fire::PauseOf(bits);
}

namespace {

// Draws bounds, time limits of waits, and ceilings of classes.
void DrawBounds(Dice& bounds, Dice& ceilings, Setup& s) {
  SchedulerOptions& o = s.options;
  if (bounds.Chance(0.15)) o.max_waiting_tokens = bounds.Between(0, 6 * s.most_prompt);
  if (bounds.Chance(0.15)) o.tenant_max_waiting = bounds.Between(0, 6);
  if (bounds.Chance(0.1)) o.tenant_max_waiting_tokens = bounds.Between(0, 4 * s.most_prompt);
  const auto limit = [&](double share) {
    return bounds.Chance(share) ? static_cast<double>(bounds.Between(1, 3'000'000)) * 1e-9 : 0.0;
  };
  for (std::int32_t priority = -1; bounds.Chance(0.2) && priority <= 2; ++priority) {
    ClassLimits c{.priority = priority};
    if (bounds.Chance(0.5)) c.max_waiting = bounds.Between(0, 6);
    if (bounds.Chance(0.3)) c.max_waiting_tokens = bounds.Between(0, 4 * s.most_prompt);
    c.max_wait = limit(0.3);
    o.class_limits.push_back(c);
  }
  for (ClassLimits& c : o.class_limits) {
    if (ceilings.Chance(0.5)) c.ceiling = ceilings.Of({0.0, 0.2, 0.5, 0.8});
    if (ceilings.Chance(0.3)) c.soft = static_cast<double>(ceilings.Between(1, 30'000'000)) * 1e-9;
  }
  if (ceilings.Chance(0.2)) o.tenant_kv_share = ceilings.Of({0.0, 0.2, 0.5, 0.9});
  o.max_resume_wait = limit(0.1), o.max_blocked = limit(0.15), o.max_paused = limit(0.15);
}

}  // namespace

SchedulerOptions Setup::ChangedOptions(std::uint64_t bits) const {
  Setup changed = *this;
  SchedulerOptions& o = changed.options;
  Dice dice(bits);
  if (dice.Chance(0.7)) {
    const SchedulerOptions plain;
    o.max_waiting = dice.Chance(0.3) ? dice.Between(0, 12) : plain.max_waiting;
    o.max_waiting_tokens = plain.max_waiting_tokens, o.tenant_max_waiting = plain.tenant_max_waiting;
    o.tenant_max_waiting_tokens = plain.tenant_max_waiting_tokens, o.tenant_kv_share = plain.tenant_kv_share;
    o.class_limits.clear();
    Dice ceilings(Mix64(bits));
    DrawBounds(dice, ceilings, changed);
  }
  if (dice.Chance(0.3)) o.kv_watermark = dice.Of({0.0, 0.01, 0.1, 0.5});
  if (dice.Chance(0.3) && o.preempt != PreemptMode::kByRank) o.reserve_output = dice.Of({0.0, 0.5, 1.0});
  if (dice.Chance(0.2)) o.prefix_wait = dice.Of({0, 1, 64});
  if (dice.Chance(0.2)) o.preempt_margin = dice.Of({0.0, 1.0, 100.0});
  if (dice.Chance(0.3)) o.token_pace = std::min(static_cast<double>(tick) * 1e-9 * dice.Of({0.0, 10.0, 1e5}), 1e6);
  if (dice.Chance(0.2)) o.least_prefill = {dice.Of({1, 7, 64})};
  return o;
}

Setup Setup::OfSeed(std::uint64_t seed) {
  Dice dice(seed ^ 0x5e7u);
  Setup s;
  const auto sometimes = [&dice](double rate) { return dice.Chance(0.5) ? rate * dice.Of({0.1, 0.5, 1.0}) : 0.0; };

  s.most_prompt = dice.Of({4, 16, 64, 300});
  s.most_output = dice.Of({1, 6, 24, 24});
  s.most_sequences = dice.Chance(0.3) ? 4 : 1;
  s.most_drafts = dice.Chance(0.3) ? dice.Of({1, 3, 9}) : 0;
  s.adapters = dice.Chance(0.3) ? 4 : 0;
  s.share_odd = sometimes(0.3);
  s.share_expiring = sometimes(0.3);
  s.share_tools = dice.Chance(0.3) ? 0 : dice.Of({0.1, 0.5, 1.0});
  s.population = dice.Of({3, 8, 20, 40});

  SchedulerOptions& o = s.options;
  o.max_running = dice.Of({1, 2, 4, 8, 16});
  o.reserve_requests = dice.Of<std::int64_t>({0, 64});
  if (dice.Chance(0.3)) o.max_waiting = dice.Between(0, 12);
  o.shed = dice.Of({Shed::kNewest, Shed::kWorst});
  o.order = dice.Of({StepOrder::kRunningFirst, StepOrder::kPrefillFirst});
  o.preempt = dice.Of({PreemptMode::kOff, PreemptMode::kOnMemory, PreemptMode::kByRank, PreemptMode::kByRank});
  o.preempt_action = dice.Of({KvAction::kDrop, KvAction::kOut});
  o.preempt_margin = dice.Of({0.0, 0.0, 1.0, 8.0});
  o.kv = dice.Of({KvMode::kLedger, KvMode::kLedger, KvMode::kLedger, KvMode::kOracle, KvMode::kNone});
  o.kv_block_tokens = {dice.Of({1, 3, 4, 16})};
  const std::int32_t context = s.most_prompt + s.most_output * s.most_sequences;
  const double caches = dice.Of({0.5, 1.0, 1.3, 2.0, 5.0, 20.0});
  o.kv_blocks = {1 + static_cast<std::int32_t>(caches * context) / o.kv_block_tokens.value};
  o.cpu_blocks = {
      dice.Of({0, 1, 1 + o.kv_blocks.value / 10, o.kv_blocks.value / 2, o.kv_blocks.value, 2 * o.kv_blocks.value})};
  if (o.cpu_blocks.value == 0 && o.kv != KvMode::kNone) o.preempt_action = KvAction::kDrop;
  o.kv_watermark = dice.Of({0.0, 0.01, 0.1, 0.5});
  o.prefix_cache = o.kv == KvMode::kLedger && dice.Chance(0.4);
  o.admission_window = dice.Of({1, 2, 16});
  if (o.prefix_cache) {
    s.families = dice.Int(1, Setup::kMostFamilies);
    s.chunk_tokens = o.kv_block_tokens.value * dice.Int(1, 3);
  }

  // Bounds and reserves are drawn apart, so that the other choices of a seed stay.
  Dice bounds(seed ^ 0xb0d5u);
  Dice ceilings(seed ^ 0xce11u);
  DrawBounds(bounds, ceilings, s);
  const double reserve = bounds.Chance(0.2) ? bounds.Of({0.1, 0.5, 0.9, 1.0}) : 0.0;
  if (o.preempt != PreemptMode::kByRank) o.reserve_output = reserve;
  if (o.preempt != PreemptMode::kByRank && bounds.Chance(0.3)) o.victims = VictimChoice::kLeastLost;
  o.begun_first = bounds.Chance(0.2);

  s.policy = dice.Bits();
  s.pause = dice.Bits();
  s.depth = dice.Int(0, 2);

  s.limits.tokens = {dice.Of({3, 12, 60, 400})};
  s.limits.max_seqs = dice.Of({1, 4, 8, 64});
  if (dice.Chance(0.3)) s.limits.prefill_tokens = {dice.Int(1, s.limits.tokens.value)};
  if (dice.Chance(0.3)) s.limits.chunk_tokens = {dice.Int(1, s.limits.tokens.value)};
  if (s.adapters > 0) s.limits.adapters = dice.Int(1, 4);
  if (dice.Chance(0.3)) s.limits.swap_out = {dice.Int(1, 20)};
  if (dice.Chance(0.3)) s.limits.swap_in = {dice.Int(1, 20)};
  s.odd_limits = sometimes(0.3);

  s.cancels = sometimes(0.03);
  s.blocks = sometimes(0.06);
  s.absurd = sometimes(0.2);
  s.clock = sometimes(0.1);
  s.bad_results = sometimes(0.3);
  s.out_of_order = sometimes(0.3);
  s.failed_moves = sometimes(0.5);
  s.slow_moves = sometimes(0.9);
  s.deferred_frees = sometimes(0.9);
  s.refusals = sometimes(0.2);
  s.policy_changes = sometimes(0.01);
  if (Dice options(seed ^ 0x0b7eu); options.Chance(0.3)) s.option_changes = options.Of({0.001, 0.01, 0.05});
  s.drains = dice.Chance(0.05);

  s.ids = Ids(dice.Of(
      {Ids::Kind::kCounter, Ids::Kind::kCounter, Ids::Kind::kScattered, Ids::Kind::kRuns, Ids::Kind::kColliding}));
  s.tick = dice.Of<std::int64_t>({1, 1, 1000, 10'000});
  s.share_whole = dice.Chance(0.2) ? 0.9 : 0;
  s.used_again = dice.Of({0.02, 0.02, 0.3});
  s.caps_end = dice.Chance(0.3);
  s.relocations = sometimes(0.01);
  s.failing_memory = sometimes(0.3);
  s.unlike_chunks = dice.Chance(0.5);
  s.refuses_all = sometimes(0.1);
  s.refuses_each = dice.Of({0, 0, 2, 7});
  s.refusal_spells = sometimes(0.01);
  s.spell_plans = dice.Of({3, 30});
  // Counters that exceed the ranges of 31, 32 and 63 bits.
  constexpr std::uint64_t kOne = 1;
  o.first_step = {dice.Of({kOne, kOne, (kOne << 31) - 50, (kOne << 32) - 50, (kOne << 63) - 50})};
  o.hash_seed = dice.Chance(0.5) ? 0 : dice.Bits();
  if (dice.Chance(0.03)) {  // many samples of one prompt
    s.most_sequences = 300;
    o.max_running = dice.Of({64, 400});
    s.limits.tokens = {dice.Of({200, 2000})};
    s.limits.max_seqs = dice.Of({100, 400});
    o.kv_blocks.value *= dice.Of({4, 30});
  }
  if (dice.Chance(0.8)) {
    o.max_step_tokens = std::min(s.limits.tokens, s.limits.prefill_tokens);
    o.max_step_seqs = s.limits.max_seqs;
  } else {  // unset: all must fit
    s.limits.tokens = {std::max({s.limits.tokens.value, s.most_prompt, s.most_sequences})};
    s.limits.prefill_tokens = Tokens::Max();
    s.limits.max_seqs = std::max(s.limits.max_seqs, s.most_sequences);
  }
  if (Setup::with_facts && dice.Chance(0.5)) {
    s.facts = dice.Of({0.01, 0.05, 0.2});
    s.limits.chunk_align = {dice.Of({1, 1, 2, 8})};
  }
  Dice more(Mix64(seed ^ 0xa6e47u));
  if (Setup::with_facts && s.families > 0 && o.kv == KvMode::kLedger && o.prefix_cache && more.Chance(0.3)) {
    s.agents = true;
    s.retention = more.Bits();
    Dice flood(Mix64(seed ^ 0xf100du));
    using enum Setup::Flood;
    s.flood = flood.Of({kNone, kNone, kBranches, kWorkflows, kTenants, kNameless});
    if (s.flood != kNone) s.most_holdings = flood.Of({65536u, 64u, 300u});
    if (more.Chance(0.5)) {  // a tier in the host's memory, shared with swapped-out KV
      const std::int32_t blocks = more.Of({1, o.kv_blocks.value / 2, o.kv_blocks.value, 3 * o.kv_blocks.value});
      o.prefix_cpu_blocks = {std::max(blocks, 1)};
      o.cpu_blocks = std::max(o.cpu_blocks, o.prefix_cpu_blocks);
    }
  }
  Dice waits(Mix64(seed ^ 0x3a175u));
  o.prefix_wait = waits.Of({0, 1, 4, 64, 64});
  Dice size(Mix64(seed ^ 0x5e512eu));
  if (Setup::with_facts && o.kv == KvMode::kOracle && size.Chance(0.4)) s.resizes = size.Of({0.003, 0.1});
  Dice pace(Mix64(seed ^ 0x9ace3u));
  if (Setup::with_facts && pace.Chance(0.4)) {
    // From far shorter than any step to far longer. Ticks are the host's unit of time.
    const double tick = static_cast<double>(s.tick) * 1e-9;
    if (pace.Chance(0.7)) o.token_pace = std::min(tick * pace.Of({0.01, 10.0, 1e3, 1e5}), 1e6);
    o.least_prefill = {pace.Of({1, 2, 16, 64})};
    s.share_paced = pace.Of({0.0, 0.2, 1.0});
  }
  return s;
}

}  // namespace takt::fire
