#include "host.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/turns/gates/registry.h"
#include "takt/turns/retention/registry.h"
#include "views.h"

namespace takt::fire {
namespace {

constexpr std::int32_t kUnbounded = std::numeric_limits<std::int32_t>::max();

Estimate EstimateOf(Dice& dice, double truth, double absurd) {
  if (dice.Chance(absurd)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {.mean = dice.Of({std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0, -7.0, 1e300})};
  }
  if (dice.Chance(0.3)) return {};
  return Estimate::Exact(static_cast<double>(static_cast<std::int64_t>(truth) + dice.Between(0, 3)));
}

// Prediction of a tool call's time and returned tokens: exact, off by up to ten times either way, absent, or absurd.
struct Predicted {
  Duration duration{0};
  Tokens returned{0};
  bool absurd = false;
};
Predicted Predict(Dice& dice, Duration truth, std::int32_t returned) {
  const double off = dice.Of({1.0, 1.0, 1.0, 0.1, 10.0, 0.0});
  Predicted p{FromSeconds(off * ToSeconds(truth)), {static_cast<std::int32_t>(off * returned)}};
  if (!dice.Chance(0.15)) return p;
  p.absurd = true;
  if (dice.Chance(0.8)) p.duration = dice.Of({Duration::max(), Duration::min(), Duration(-1), FromSeconds(1e9 + 1)});
  else p.returned = {dice.Of({-1, INT32_MIN, INT32_MAX})};
  return p;
}

NextCall DrawNextCall(Dice& dice) {
  if (dice.Chance(0.5)) return {};
  const Duration duration(dice.Between(0, 1'000'000));
  const Predicted p = Predict(dice, duration, dice.Int(0, 9));
  return {{dice.Bits() % 3}, {dice.Chance(0.03) ? dice.Of({-1, INT32_MAX}) : dice.Int(0, 9)}, p.returned, p.duration};
}

WorkAfter DrawAfter(Dice& dice, double absurd) {
  const double calls = dice.Int(0, 4);
  WorkAfter after{calls, 40 * calls, 10 * calls, 300 * calls, 10 * calls};
  if (dice.Chance(absurd)) after.kv_steps = dice.Of({-3.0, 1e300, std::numeric_limits<double>::quiet_NaN()});
  return after;
}

// Returns the host's time or a slightly earlier one.
TimePoint Soon(Dice& dice, const Setup& setup, TimePoint now, std::int64_t most) {
  if (setup.tick > 1 && dice.Chance(0.5)) most = 20 * setup.tick;
  return now + Duration(dice.Between(-1, most / setup.tick) * setup.tick);
}

std::uint64_t Mixed(std::uint64_t hash, std::uint64_t x) { return Mix64(hash ^ x); }

std::uint64_t HashOf(const StepPlan& plan) {
  std::uint64_t hash = plan.id.value;
  const auto add = [&hash](auto x) { hash = Mixed(hash, static_cast<std::uint64_t>(x)); };
  for (const PlanEntry& e : plan.run) add(e.request.value), add(e.lane), add(e.tokens), add(e.position), add(e.flags);
  for (const KvMove& m : plan.moves) add(m.id.value), add(m.request.value), add(m.count.value);
  add(plan.wake_at.time_since_epoch().count());
  for (const Preemption& p : plan.preempted) add(p.request.value), add(p.action);
  for (const Failure& f : plan.failed) add(f.request.value), add(f.reason);
  for (RequestId id : plan.released) add(id.value);
  add(plan.idle);
  return hash;
}

bool Same(const StepPlan& a, const StepPlan& b) {
  return a.id == b.id && std::ranges::equal(a.run, b.run) && a.dropped == b.dropped && a.host_chunks == b.host_chunks &&
         a.moves == b.moves && a.preempted == b.preempted && a.failed == b.failed && a.released == b.released &&
         a.tokens == b.tokens && a.idle == b.idle && a.wake_at == b.wake_at;
}

}  // namespace

void Print(const HostTally& t, std::uint64_t seeds) {
  fmt::print(
      "{} events over {} seeds: {} plans ({} idle, {} with odd limits), {} results ({} by exception, {} out of order, "
      "{} of unknown "
      "steps)\n"
      "{} arrivals ({} absurd), {} released, {} cancels, {} blocked, {} policy changes, {} drains\n"
      "{} tool calls ({} with absurd predictions), {} answers ({} of more than a cache), {} overdue and let go, {} "
      "moved in "
      "part\n"
      "{} bad rows ({} absent, {} failed), {} moves ({} failed), {} clock faults, {} refusals of KV\n"
      "{} preempted, {} promoted, {} out of KV, {} expired, {} shed, {} plans of which nothing was granted, {} moves "
      "of "
      "the scheduler, {} failed allocations\n"
      "{} times KV came, was lost or pinned, or a row was not ready; {} times an oracle's total changed\n"
      "no violation; all plans hash to {:016x}\n",
      t.events, seeds, t.plans, t.idle, t.odd_limits, t.commits, t.by_exception, t.out_of_order, t.unknown_steps,
      t.arrivals, t.absurd, t.finished, t.cancels, t.blocked, t.policy_changes, t.drains, t.tools, t.absurd_calls,
      t.answers, t.long_answers, t.let_go, t.parts, t.bad_rows, t.absent_rows, t.failed_rows, t.moves, t.failed_moves,
      t.clock_faults, t.kv_refused, t.preempted, t.promoted, t.kv_exhausted, t.expired, t.shed, t.plans_refused,
      t.relocations, t.allocations_failed, t.facts, t.resizes, t.plan_hash);
}

constexpr std::uint64_t kFirstOfFlood = 1'000;  // first name of a flood

Drawn DrawRequest(RequestId id, const Setup& setup, TimePoint now, std::uint64_t bits) {
  Dice dice(bits);
  Drawn drawn;
  Request& r = drawn.request;
  std::int32_t& length = drawn.length;
  r.id = id;
  r.prompt_tokens = {dice.Int(1, setup.most_prompt)};
  r.sequences = dice.Int(1, setup.most_sequences);
  r.tenant = {dice.Bits() % 3};
  r.workflow = {Mix64(bits) % 6};  // 0: none
  if (setup.agents) r.branch = Mix64(bits + 1) % 2;
  if (setup.flood != Setup::Flood::kNone && Mix64(bits + 2) % 2 == 0) {
    const std::uint64_t name = kFirstOfFlood + Mix64(bits + 3) % 1'000'000;
    r.workflow = {setup.flood == Setup::Flood::kBranches ? kFirstOfFlood : name};
    r.branch = setup.flood == Setup::Flood::kBranches ? name : 0;
    r.tenant = {setup.flood == Setup::Flood::kTenants    ? name
                : setup.flood == Setup::Flood::kNameless ? 0
                                                         : kFirstOfFlood};
  }
  length = dice.Int(1, setup.most_output);
  if (dice.Chance(0.3)) {
    r.max_output_tokens = {dice.Int(1, setup.most_output)};
    length = std::min(length, r.max_output_tokens.value);
  }
  if (setup.adapters > 0 && dice.Chance(0.7))
    r.adapter = {1 + dice.Bits() % static_cast<std::uint64_t>(setup.adapters)};
  r.chunkable = !dice.Chance(std::max(setup.share_odd, setup.share_whole));
  r.preemptible = !dice.Chance(setup.share_odd);
  r.priority = dice.Int(-2, 2);
  if (dice.Chance(0.2)) r.arrival = TimePoint(Duration(dice.Between(-5, 1'000'000)));
  if (dice.Chance(0.2)) r.deadline = now + Duration(dice.Between(-10, 1'000'000'000));
  if (dice.Chance(setup.share_expiring)) r.expires_at = Soon(dice, setup, now, 3'000'000);
  r.output_tokens = EstimateOf(dice, length, setup.absurd);
  r.workflow_tokens_left = EstimateOf(dice, length, setup.absurd);
  if (dice.Chance(0.3)) r.after = DrawAfter(dice, setup.absurd);
  if (setup.share_tools > 0) r.next_call = DrawNextCall(dice);
  if (setup.families > 0 && dice.Chance(0.8)) {
    std::int32_t tokens = setup.chunk_tokens;
    if (setup.unlike_chunks) {
      const std::int32_t block = setup.options.kv_block_tokens.value;
      tokens = block > 1 && dice.Chance(0.05) ? block + 1 : block * dice.Int(1, 3);
    }
    const std::uint64_t family = dice.Bits() % static_cast<std::uint64_t>(setup.families);
    const std::int32_t chunks = std::min(dice.Int(0, 7), r.prompt_tokens.value / tokens);
    static const std::vector<std::uint64_t> hashes = [] {
      std::vector<std::uint64_t> all(std::size_t{16} * Setup::kMostFamilies);
      std::iota(all.begin(), all.end(), 1);
      return all;
    }();
    r.prefix = {{tokens}, std::span(hashes).subspan(family * 16, static_cast<std::size_t>(chunks))};
  }
  if (Dice pace(Mix64(bits ^ 0x9ace3u)); pace.Chance(setup.share_paced)) {
    r.token_pace = Times(Duration(setup.tick), pace.Of({-1, 1, 100, 100'000}));
    r.first_token_by = Soon(pace, setup, now, 1'000'000);
  }
  drawn.absurd = dice.Chance(setup.absurd * 0.1);
  if (!drawn.absurd) return drawn;
  switch (dice.Index(6)) {
    case 0: r.prompt_tokens = {0}; break;
    case 1: r.prompt_tokens = {kUnbounded}; break;
    case 2: r.sequences = 0; break;
    case 3: r.sequences = 70000; break;
    case 4: r.max_output_tokens = {-1}; break;
    default: r.id = {}; break;
  }
  return drawn;
}

Revised DrawRevised(RequestId id, const Setup& setup, TimePoint now, std::uint64_t bits) {
  Dice dice(bits);
  Revised r{.request = id};
  if (dice.Chance(0.5)) r.output_tokens = EstimateOf(dice, 5, setup.absurd);
  if (dice.Chance(0.2)) r.workflow_tokens_left = EstimateOf(dice, 50, setup.absurd);
  if (dice.Chance(0.1)) r.after = DrawAfter(dice, setup.absurd);
  if (dice.Chance(0.2)) r.priority = dice.Int(-3, 3);
  if (dice.Chance(0.2)) r.deadline = now + Duration(dice.Between(0, 1'000'000));
  if (dice.Chance(setup.share_expiring * 0.3)) r.expires_at = Soon(dice, setup, now, 1'000'000);
  if (dice.Chance(0.3)) r.sequences = dice.Int(dice.Chance(0.1) ? 0 : 1, setup.most_sequences);
  if (setup.share_tools > 0 && dice.Chance(0.3)) r.next_call = DrawNextCall(dice);
  return r;
}

DrawnCall DrawCall(RequestId id, std::uint64_t bits) {
  Dice dice(bits);
  const double exponent = dice.Int(0, 1000) * 4.3e-3;
  const auto truth = Duration(static_cast<std::int64_t>(1000 * takt::exact::Pow(10.0, exponent)));  // 1 us to 20 ms
  const Predicted p = Predict(dice, truth, dice.Int(0, 8));
  DrawnCall drawn{{id, p.duration, p.returned, {dice.Bits() % 3}}, truth, p.absurd};
  if (dice.Chance(0.1)) drawn.answer.reset();
  return drawn;
}

template <class... Args>
void World::Note(const char* format, const Args&... args) {
  if (comment != nullptr) *comment += fmt::format(fmt::runtime(format), args...);
}

// A bound that hosts in other languages do not choose.
ReturnTimesOptions TimesOf(const Setup& setup) {
  ReturnTimesOptions times;
  if (!setup.by_name) times.max_open = setup.most_holdings;
  return times;
}

Scheduler World::MakeScheduler(const Setup& setup, AnyPause pause, HostKv* kv) {
  Scheduler scheduler = *Scheduler::Create(setup.options, setup.PolicyOf(setup.policy), std::move(pause), kv);
  if (setup.agents && setup.retention % 4 > 0) {  // otherwise, the first turn that ends sets retention and gate
    const absl::Status set = scheduler.SetRetention(*MakeRetention(Setup::RetentionOf(setup.retention)),
                                                    *MakeGate(Setup::GateOf(setup.retention)), TimesOf(setup));
    if (!set.ok()) throw Broken(std::string(set.message()));
  }
  return scheduler;
}

World::World(const Setup& setup)
    : setup_(setup),
      policy_(setup.policy),
      shadow_(setup_,
              setup_.options.kv == KvMode::kOracle
                  ? &kv_.emplace(setup_.options.kv_blocks, setup_.options.kv_block_tokens, setup_.ids)
                  : nullptr,
              asked_) {
  scheduler_.emplace(
      MakeScheduler(setup_, WatchedPause::Of(setup_.PauseOf(setup_.pause), asked_), kv_ ? &*kv_ : nullptr));
  scheduler_->Watch(lives_.observer());
}

std::string World::Description() const {
  const SchedulerOptions& o = setup_.options;
  constexpr const char* kKv[] = {"no KV", "ledger", "oracle"};
  constexpr const char* kPreempt[] = {"no preemption", "preemption on memory", "preemption by rank"};
  return fmt::format(
      "{}, {}, {} rows, {}, {} blocks of {}, {} in the host's memory, watermark {}, {} tokens and {} seqs a step, "
      "prefill "
      "{}, chunk {}, adapters {}, {}, {}, margin {}, window {}, {} further steps",
      setup_.PolicyOf(setup_.policy).spec(), setup_.PauseOf(setup_.pause).spec(), o.max_running,
      kKv[static_cast<int>(o.kv)], o.kv_blocks.value, o.kv_block_tokens.value, o.cpu_blocks.value, o.kv_watermark,
      setup_.limits.tokens.value, setup_.limits.max_seqs, setup_.limits.prefill_tokens.value,
      setup_.limits.chunk_tokens.value, setup_.limits.adapters,
      o.order == StepOrder::kRunningFirst ? "running first" : "prefill first", kPreempt[static_cast<int>(o.preempt)],
      o.preempt_margin, o.admission_window, setup_.depth);
}

void World::Pass(std::int64_t nanoseconds) { now_ += Duration(nanoseconds); }

void World::Carry(const Action& action) {
  ++tally_.events;
  try {
    const bool watched = setup_.flood != Setup::Flood::kNone && tally_.events % 8 == 0;
    const WorkflowId workflow{1 + action.bits % 5};
    const std::uint64_t branch = action.bits / 5 % 2;
    const HeldExplanation before = watched ? scheduler_->ExplainHeld(workflow, branch) : HeldExplanation();
    const std::uint64_t broken = scheduler_->stats().pins_broken;
    Do(action);
    if (watched) CheckPin(action, workflow, branch, before, broken);
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

// A pin ends with its time, with the branch's next request, by the host's events of the workflow, or with the KV. It
// also ends if nothing else can be evicted. It remains whatever other names clients invent.
void World::CheckPin(const Action& a, WorkflowId workflow, std::uint64_t branch, const HeldExplanation& before,
                     std::uint64_t broken) {
  const Stats& stats = scheduler_->stats();
  if (stats.pins_crowded_out > 0) shadow_.Violate("names without pins ended pins");
  if (before.pinned_until == kUnset || before.pinned_until <= now_ || stats.pins_broken > broken) return;
  if (a.what == Do::kEndTurn || a.what == Do::kKvLose) return;
  for (RequestId id : shadow_.unreleased()) {
    const Request& r = shadow_.life(id).state.request;
    if (r.workflow == workflow && r.branch == branch) return;
  }
  if (scheduler_->ExplainHeld(workflow, branch).pinned_until == before.pinned_until) return;
  shadow_.Violate(fmt::format("the pin of workflow {}, branch {} has ended early", workflow.value, branch));
}

void World::Do(const Action& a) {
  Pass(a.dt);
  if (a.dt < 0 || a.dt > 1'000'000'000) ++tally_.clock_faults;
  Dice dice(a.bits ^ 0xa110cu);
  fails_at_ = setup_.failing_memory > 0 && dice.Chance(setup_.failing_memory) ? dice.Int(0, 3) : -1;
  if (kv_) {
    const bool all = a.what == Do::kPlan && RefusesAll(a.bits);
    const bool resizes = a.what == Do::kPlan && setup_.resizes > 0 && Dice(a.bits ^ 0x7e512eu).Chance(setup_.resizes);
    EachKv([&](HostKv& kv) {
      kv.Behave(setup_.refusals, setup_.deferred_frees, all, a.bits);
      if (resizes) kv.Resize(a.bits);
    });
    if (resizes) ++tally_.resizes, shadow_.Resized(*scheduler_);
  }
  const RequestId id = setup_.ids.Of(a.name);
  switch (a.what) {
    case Do::kArrive: return Arrive(a);
    case Do::kRevise: return Revise(a);
    case Do::kBlock: ++tally_.blocked; return Send(Blocked{id});
    case Do::kUnblock: {
      Dice of(a.bits);
      const bool came = setup_.facts > 0 && of.Chance(0.3);
      return Send(Unblocked{id, {came ? of.Int(-1, 2 * setup_.most_prompt) : 0}});
    }
    case Do::kCallTool: return CallTool(a);
    case Do::kReturnTool: return ReturnTool(a);
    case Do::kCancel: ++tally_.cancels; return Send(Cancelled{id});
    case Do::kFinishMove: {
      if (a.name > shadow_.moves_named()) return;  // only requested moves are reported
      const bool failed = Dice(a.bits).Chance(setup_.failed_moves);
      ++tally_.moves;
      tally_.failed_moves += failed ? 1 : 0;
      Note(failed ? "fails" : "done");
      return Send(MoveDone{{a.name}, failed});
    }
    case Do::kFreeKv:
      if (a.name == 0) EachKv([](HostKv& kv) { kv.FreePending(); });
      return Send(KvFreed{a.name == 0 ? RequestId{} : id});
    case Do::kNotReady: ++tally_.facts; return Send(NotReady{id});
    case Do::kKvArrive: ++tally_.facts; return Send(KvArrived{id, {Dice(a.bits).Int(-1, 2 * setup_.most_prompt)}});
    case Do::kKvLose: {
      ++tally_.facts;
      Dice of(a.bits);
      const std::int32_t from = of.Chance(0.5) ? 0 : of.Int(-1, 2 * setup_.most_prompt);
      return Send(KvLost{of.Chance(0.02) ? RequestId{} : id, {from}});
    }
    case Do::kPinKv: ++tally_.facts; return Send(KvPinned{id});
    case Do::kEndTurn: {
      ++tally_.facts;
      Dice of(a.bits);
      const WorkflowId workflow = {of.Bits() % 8};  // none, or an unknown one
      if (of.Chance(0.1)) return Send(WorkflowEnded{workflow, of.Chance(0.5)});
      const std::uint64_t branch = of.Bits() % 3;
      TurnEnded ended{workflow, branch, static_cast<TurnWhy>(of.Index(5)), {of.Bits() % 100}};
      // Uses a second stream of random numbers, so that earlier draws remain.
      Dice more(Mix64(a.bits));
      const auto gap = [&] { return FromSeconds(more.Chance(0.1) ? 1e11 : more.Int(-10, 2000) / 1e3); };
      if (more.Chance(0.2)) return Send(TurnExpected{workflow, branch, After(now_, gap())});
      if (more.Chance(0.3)) ended.expected = gap();
      if (more.Chance(0.3)) ended.pin = gap();
      return Send(ended);
    }
    case Do::kRetain: {
      const std::string retention = Setup::RetentionOf(a.bits), gate = Setup::GateOf(a.bits);
      Note("{}, {}", retention, gate);
      const AnyRetention holds = *MakeRetention(retention);
      const AnyGate lets_in = *MakeGate(gate);
      Attempt([&] { (void)scheduler_->SetRetention(holds, lets_in, TimesOf(setup_)); });
      if (twin_) twin_->SetRetention(retention, gate);
      return;
    }
    case Do::kChangePolicy: {
      ++tally_.policy_changes;
      policy_ = a.bits;
      const AnyPolicy policy = setup_.PolicyOf(policy_);
      Note("{}", policy.spec());
      Attempt([&] { scheduler_->ChangePolicy(policy, now_); });
      if (twin_) twin_->ChangePolicy(policy, now_);
      return shadow_.ChangePolicy(policy, now_, *scheduler_);
    }
    case Do::kChangeOptions: {
      ++tally_.option_changes;
      const SchedulerOptions changed = setup_.ChangedOptions(a.bits);
      std::string changes;
      VisitOptions(changed, [&](std::string_view name, const auto& value, const OptionText&) {
        VisitOptions(setup_.options, [&](std::string_view other, const auto& old, const OptionText&) {
          if (name != other || (OptionToText(value) == OptionToText(old) && name != "least_prefill")) return;
          changes.append(changes.empty() ? "" : ",").append(name).append("=").append(OptionToText(value));
        });
      });
      Note("{}", changes);
      absl::Status set;
      Attempt([&] { set = scheduler_->SetOptions(changed, now_); });
      if (!set.ok()) return shadow_.Violate("refused options: " + std::string(set.message()));
      if (twin_) twin_->SetOptions(changes, now_);
      const SchedulerOptions before = std::exchange(setup_.options, changed);
      if (changed.class_limits != before.class_limits)
        lives_.Recount(changed.class_limits, [this](RequestId of) { return shadow_.life(of).state.request.priority; });
      return shadow_.OptionsChanged(before, now_);
    }
    case Do::kDrain: ++tally_.drains; return Send(takt::Drain{});
    case Do::kPlan: return Plan(LimitsOf(a.bits));
    case Do::kCommit: return Commit({a.name}, a.bits, true);
    case Do::kRelocate: return Relocate(a.bits);
    case Do::kPlace:
    case Do::kUp:
    case Do::kDown:
    case Do::kDie:
    case Do::kPost:
    case Do::kHear:
    case Do::kReport:
    case Do::kReportKv: return;  // only for hosts with a router
  }
}

void World::Arrive(const Action& a) {
  // A host does not reuse an id until the scheduler has reported it as refused.
  const RequestId id = setup_.ids.Of(a.name);
  if (shadow_.life(id).must_fail) return;
  const Drawn drawn = DrawRequest(id, setup_, now_, a.bits);
  tally_.absurd += drawn.absurd ? 1 : 0;
  Arrive(drawn.request, drawn.length);
}

void World::Arrive(const Request& r, std::int32_t length) {
  ++tally_.arrivals;
  const std::uint64_t name = NameOf(r.id);
  if (name >= lengths_.size()) lengths_.resize(name + 256);
  if (shadow_.life(r.id).is == Is::kNowhere) lengths_[name] = length;
  const std::int32_t most_sequences = std::max(setup_.most_sequences, 4);
  longest_ = std::max(longest_, std::min(r.prompt_tokens.value, 1000) + length * most_sequences);
  if (r.id.value != name) Note("id {}, ", r.id.value);
  Note("prompt {}, output {}, cap {}, {} sequences{}{}{}{}", r.prompt_tokens.value, length, r.max_output_tokens.value,
       r.sequences, r.chunkable ? "" : ", whole", r.preemptible ? "" : ", not preemptible",
       r.adapter ? ", adapter" : "", r.expires_at == kNever ? "" : ", expires");
  if (!r.prefix.hashes.empty()) Note(", prefix of {}", r.prefix.hashes.size());
  Send(Arrived{r});
}

void World::Revise(const Action& a) {
  const Revised r = DrawRevised(setup_.ids.Of(a.name), setup_, now_, a.bits);
  if (r.sequences) Note("{} sequences", *r.sequences);
  Send(r);
}

void World::CallTool(const Action& a) {
  ++tally_.tools;
  const DrawnCall drawn = DrawCall(setup_.ids.Of(a.name), a.bits);
  tally_.absurd_calls += drawn.absurd ? 1 : 0;
  if (a.name < lengths_.size()) {  // a request with that name has arrived
    if (a.name >= answers_.size()) answers_.resize(a.name + 256, kNever);
    answers_[a.name] = drawn.answer ? now_ + *drawn.answer : kNever;
  }
  Note("{} ns expected, {}", drawn.call.expected.count(), drawn.answer ? drawn.answer->count() : -1);
  Send(drawn.call);
}

void World::ReturnTool(const Action& a) {
  Dice dice(a.bits);
  const std::int64_t cache = std::int64_t{setup_.options.kv_blocks.value} * setup_.options.kv_block_tokens.value;
  const std::int32_t absurd = dice.Of({kUnbounded, -3, 1'000'000});
  const std::int32_t tokens = dice.Chance(0.004)  ? absurd
                              : dice.Chance(0.02) ? static_cast<std::int32_t>(dice.Between(0, 2 * cache))
                                                  : dice.Int(0, 8);
  const RequestId id = setup_.ids.Of(a.name);
  const Life& life = shadow_.life(id);
  ++tally_.answers;
  tally_.long_answers += tokens > cache ? 1 : 0;
  if (life.is == Is::kPaused && tokens >= 0 && tokens <= 1'000'000) {
    const std::int32_t most_sequences = std::max(setup_.most_sequences, 4);
    longest_ = std::max(longest_, life.known + tokens + setup_.most_output * most_sequences);
  }
  Note("{} tokens", tokens);
  Send(ToolReturned{id, {tokens}, setup_.share_tools > 0 ? DrawNextCall(dice) : NextCall{}});
}

StepLimits World::LimitsOf(std::uint64_t bits) const {
  StepLimits limits = setup_.limits;
  Dice dice(bits);
  if (!dice.Chance(setup_.odd_limits)) return limits;
  switch (dice.Index(8)) {
    case 0: limits.tokens = {dice.Int(-1, 2)}; break;
    case 1: limits.max_seqs = dice.Int(-1, 2); break;
    case 2: limits.prefill_tokens = {dice.Int(-1, 1)}; break;
    case 3: limits.chunk_tokens = {dice.Int(-1, 1)}; break;
    case 4: limits.adapters = dice.Int(-1, 1); break;
    case 5: limits.swap_in = {dice.Int(-1, 1)}; break;
    case 6: limits.swap_out = {dice.Int(-1, 1)}; break;
    default: limits.tokens = {dice.Int(1, 2 * setup_.limits.tokens.value)}; break;
  }
  return limits;
}

bool World::RefusesAll(std::uint64_t bits) {
  Dice dice(bits ^ 0x4ef5u);
  if (spell_ > 0) return --spell_, true;
  if (dice.Chance(setup_.refusal_spells)) spell_ = setup_.spell_plans;
  if (setup_.refuses_each > 0 && tally_.plans % static_cast<std::uint64_t>(setup_.refuses_each) == 0) return true;
  return dice.Chance(setup_.refuses_all);
}

// Moves the scheduler to another address by one of the two ways. Plans in flight move along.
void World::Relocate(std::uint64_t bits) {
  ++tally_.relocations;
  Scheduler elsewhere(std::move(*scheduler_));
  if (bits % 2 == 0) {
    *scheduler_ = std::move(elsewhere);
  } else {
    scheduler_.emplace(std::move(elsewhere));
  }
  if (const char* fault = scheduler_->Inconsistency(); fault != nullptr) shadow_.Violate(fault);
}

void World::Plan(const StepLimits& limits) {
  lives_.Keep(setup_.options, std::min(limits.max_seqs, setup_.options.max_running));
  ++tally_.plans;
  tally_.odd_limits += limits == setup_.limits ? 0u : 1u;
  const StepPlan* made = nullptr;
  Attempt([&] { made = &scheduler_->Plan(now_, limits); });
  if (twin_) {
    const StepPlan& twins = twin_->Plan(now_, limits);
    if (!Same(twins, *made)) shadow_.Violate("the twin's plan differs");
    made = &twins;
  }
  const StepPlan& plan = *made;
  tally_.plan_hash = Mixed(tally_.plan_hash, HashOf(plan));
  for (const KvMove& move : plan.moves) {
    tally_.parts += move.action == KvAction::kOut && scheduler_->Explain(move.request).kv_blocks > move.count;
  }
  if (tally_.plans % 32 == 0) {
    const WaitsFor head = scheduler_->HeadWaitsFor();
    if ((head == WaitsFor::kNothing) != (scheduler_->waiting() == 0))
      shadow_.Violate("the head of the queue lacks a reason");
    for (RequestId id : shadow_.unreleased()) {
      const Explanation e = scheduler_->Explain(id);
      if (e.status == RequestStatus::kWaiting && e.ahead == 0 && e.waits_for != head)
        shadow_.Violate("HeadWaitsFor differs from the head's own reason");
    }
  }
  tally_.preempted += plan.preempted.size();
  tally_.finished += plan.released.size();
  for (const Failure& f : plan.failed) {
    tally_.expired += f.reason == FailReason::kExpired;
    tally_.shed += f.reason == FailReason::kShed;
    tally_.kv_exhausted += f.reason == FailReason::kKvExhausted;
  }
  if (comment != nullptr) {
    if (!(limits == setup_.limits)) {
      Note("[limits {} tokens, {} seqs, prefill {}, chunk {}, adapters {}] ", limits.tokens.value, limits.max_seqs,
           limits.prefill_tokens.value, limits.chunk_tokens.value, limits.adapters);
    }
    Note("step {}:", plan.id.value);
    for (const Preemption& p : plan.preempted) Note(" preempts {} ({})", p.request.value, Name(p.action));
    for (const Failure& f : plan.failed) Note(" fails {} ({})", f.request.value, Name(f.reason));
    for (const KvMove& m : plan.moves) {
      Note(" move {}: {} blocks of {} ({})", m.id.value, m.count.value, m.request.value, Name(m.action));
    }
    for (const PlanEntry& e : plan.run) {
      Note(" {}@{}+{}{}{}{}", e.request.value, e.position, e.tokens, e.speculative > 0 ? "d" : "",
           e.prefill() ? "p" : "", e.samples() ? "s" : "");
    }
    for (RequestId id : plan.released) Note(" releases {}", id.value);
    if (plan.run.empty()) Note(" idle: {}", Name(plan.idle));
  }
  last_wake_at_ = plan.wake_at;
  if (plan.run.empty()) {
    ++tally_.idle;
  } else {
    given_.push_back({plan.id, &plan});
  }
  if (kv_ && kv_->refuses() && plan.run.empty()) ++tally_.plans_refused;
  shadow_.Planned(plan, limits, now_, *scheduler_);
  if (plan.id.value % 16 == 0) Compare(Mix64(plan.id.value));
}

void World::Compare(std::uint64_t bits) {
  shadow_.Compare(*scheduler_, bits);
  if (const std::string fault = lives_.Unlike(*scheduler_); !fault.empty()) shadow_.Violate(fault);
  if (!twin_) return;
  if (const std::string fault = twin_->Unlike(*scheduler_); !fault.empty()) shadow_.Violate("the twin: " + fault);
}

std::int32_t World::OutputLeft(RequestId id, const Life& life) const { return lengths_[NameOf(id)] - life.generated; }

// Reports the same results as exceptions if every entry has its row in place: rows that went as planned are omitted.
StepResult World::WithoutRest(const StepPlan& plan, const StepResult& result) {
  const auto names = [](const PlanEntry& e, const RowResult& r) { return e.request == r.request && e.lane == r.lane; };
  if (!std::ranges::equal(plan.run, result.rows, names)) return result;
  exceptions_.clear();
  for (std::size_t i = 0; i < plan.run.size(); ++i) {
    const RowResult& r = result.rows[i];
    const bool as_planned = r.tokens == (plan.run[i].samples() ? 1 : 0) && r.drafts == 0 && r.flags == 0;
    if (!as_planned) exceptions_.push_back(r);
  }
  ++tally_.by_exception;
  return {result.step, exceptions_, true};
}

void World::Commit(StepId step, std::uint64_t bits, bool faults) {
  ++tally_.commits;
  Dice dice(bits);
  rows_.clear();
  const auto given = std::ranges::find(given_, step, &Given::id);
  if (given == given_.end()) {
    ++tally_.unknown_steps;
    const StepResult result{step, {}};
    scheduler_->Commit(result, now_);
    if (twin_) twin_->Commit(result, now_);
    shadow_.Committed(result, now_, *scheduler_);
    return;
  }
  if (given != given_.begin()) ++tally_.out_of_order;
  // A plan must not have changed since it was returned.
  const auto known = std::ranges::find(shadow_.steps(), step, &Shadow::Step::id);
  if (known == shadow_.steps().end() || given->plan->id != step ||
      !std::ranges::equal(given->plan->run, known->entries)) {
    return shadow_.Violate("a plan changed in flight");
  }
  const bool bad = faults && dice.Chance(setup_.bad_results);
  for (const PlanEntry& e : given->plan->run) {
    const Life& life = shadow_.life(e.request);
    RowResult row{.request = e.request, .lane = e.lane};
    if (e.samples()) {
      const std::int32_t left = std::max(OutputLeft(e.request, life), 1);
      const std::int32_t accepted = e.speculative > 0 ? dice.Int(0, e.speculative) : 0;
      row.tokens = static_cast<std::uint16_t>(std::min(1 + accepted, left));
      const std::int32_t cap = life.state.request.max_output_tokens.value;
      const bool unsaid = faults && setup_.caps_end && cap > 0 && life.generated + row.tokens >= cap;
      if (row.tokens == left && !unsaid) row.flags |= RowResult::kFinished;
      if (setup_.most_drafts > 0 && dice.Chance(0.6))
        row.drafts = static_cast<std::uint8_t>(dice.Int(0, setup_.most_drafts));
    }
    if (bad && dice.Chance(0.3)) {
      ++tally_.bad_rows;
      switch (dice.Index(10)) {
        case 0:
        case 1: ++tally_.absent_rows; continue;
        case 2: row.flags |= RowResult::kFailed, ++tally_.failed_rows; break;
        case 3: row.tokens = static_cast<std::uint16_t>(dice.Of({0, 1, 2, 65535})); break;
        case 4: row.lane = dice.Chance(0.5) ? row.lane + 1 : UINT32_MAX - 3; break;
        case 5: row.request = {row.request.value + 1}; break;
        case 6: rows_.push_back(row); break;
        case 7: row.drafts = 255; break;
        case 8: rows_.push_back({.request = {row.request.value + 7}, .lane = row.lane, .tokens = 1}); break;
        default: row.flags |= RowResult::kFinished; break;
      }
    }
    rows_.push_back(row);
  }
  if (bad && dice.Chance(0.3) && rows_.size() > 1) {
    for (std::size_t i = 1; i < rows_.size(); ++i) std::swap(rows_[i], rows_[dice.Index(i + 1)]);
  }
  if (bad && dice.Chance(0.02)) rows_.clear();
  if (comment != nullptr) {
    for (const RowResult& r : rows_) {
      Note(" {}+{}{}{}", r.request.value, r.tokens, r.finished() ? "f" : "", r.failed() ? "!" : "");
    }
  }
  const StepResult result{step, rows_};
  StepResult reported = result;
  if (Mixed(bits, 7) % 2 == 0) reported = WithoutRest(*given->plan, result);
  given_.erase(given);
  Attempt([&] { scheduler_->Commit(reported, now_); });
  if (twin_) twin_->Commit(reported, now_);
  shadow_.Committed(result, now_, *scheduler_);
}

// ---- the quiet at the end -------------------------------------------------------------------------------------

void World::Drain() {
  try {
    setup_.refusals = setup_.deferred_frees = setup_.refuses_all = setup_.refusal_spells = 0;
    setup_.refuses_each = spell_ = 0;
    OutlastTools();
    tally_.let_go = scheduler_->stats().pauses_let_go;
    const std::int64_t fresh = PlansOfFreshDrain();
    const double share = ShareForOthers();
    const std::int64_t plans = PlansToDrain();
    tally_.promoted = scheduler_->stats().promoted;
    tally_.kv_refused = scheduler_->stats().oracle_refused;
    if (!shadow_.violation().empty()) return;
    if (plans < 0) return shadow_.Violate("live requests do not end");
    Compare(1);
    shadow_.CheckEmpty(*scheduler_);
    if (setup_.agents) return;  // a gate depends on time
    if (share * static_cast<double>(plans) > 2 * PlansEachStep() * static_cast<double>(fresh)) {
      shadow_.Violate(fmt::format("drains in {} plans, and afresh in {}", plans, fresh));
    }
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

// Ends all steps and moves in flight.
void World::Settle() {
  EachKv([](HostKv& kv) {
    kv.Behave(0, 0, false, 0);
    kv.FreePending();
  });
  while (!shadow_.steps().empty() && violation().empty()) Commit(shadow_.steps().front().id, 1, false);
  while (!shadow_.moves().empty() && violation().empty()) Send(MoveDone{shadow_.moves().front().id, false});
  const std::vector<RequestId> ids = shadow_.unreleased();
  for (RequestId id : ids) {
    if (shadow_.life(id).pinned && violation().empty()) Send(KvFreed{id});
  }
}

// A gate is asked again after this many nanoseconds, so that requests it admits by time arrive after few plans.
constexpr std::int64_t kGateAsksEach = 1'000 * std::int64_t{1'000'000'000};

StepLimits QuietLimits(std::int32_t longest, std::int32_t max_running) {
  return {.tokens = {std::max(longest, 64) + 1024 * 4}, .max_seqs = max_running};
}

// The tools no longer answer, and running requests run to their end. A pause policy that reviews paused requests
// releases all memory in time.
void World::OutlastTools() {
  const StepLimits limits = QuietLimits(longest_, setup_.options.max_running);
  const std::string pause = setup_.PauseOf(setup_.pause).spec();
  const bool lets_go = pause.starts_with("infercept") || pause.starts_with("least_waste");
  for (int plans = 0; lets_go && violation().empty(); ++plans) {
    Settle();
    if (!violation().empty()) return;
    if (plans == 10'000) return shadow_.Violate("requests wait for tools without end");
    Plan(limits);
    const bool idle = shadow_.steps().empty() && shadow_.moves().empty();
    if (!idle) continue;
    if (last_wake_at_ == kNever) break;
    const std::int64_t least = setup_.agents ? kGateAsksEach : 1;
    Pass(std::max<std::int64_t>((last_wake_at_ - now_).count(), least));
  }
  if (!lets_go || setup_.options.kv == KvMode::kNone) return;
  for (RequestId id : shadow_.unreleased()) {
    if (shadow_.life(id).is != Is::kPaused || !violation().empty()) continue;
    const std::int32_t blocks = scheduler_->Explain(id).kv_blocks.value;
    if (blocks > 0)
      shadow_.Violate(fmt::format("request {} waits for its tool with {} blocks for ever", id.value, blocks));
  }
}

// Returns the share of the usable memory that waiting requests do not keep. Blocked requests and requests in a tool
// call return at once and count as waiting. A fresh scheduler has all of it. While something runs, kept KV is not
// taken, so fewer requests run at a time.
double World::ShareForOthers() const {
  const SchedulerOptions& options = setup_.options;
  if (options.kv == KvMode::kNone) return 1;
  const Blocks total = kv_ ? kv_->total_blocks() : options.kv_blocks;
  const double most = total.value - options.kv_watermark * options.kv_blocks.value;
  double kept = 0;
  for (RequestId id : shadow_.unreleased()) {
    if (shadow_.life(id).is != Is::kRunning) kept += scheduler_->Explain(id).kv_blocks.value;
  }
  return most > 0 ? std::max(most - kept, 0.0) / most : 1;
}

// With preemption by rank that swaps, each end of a promotion may let a promoted request displace another. Two plans
// then only move KV. If aging counts from the first run, a fresh scheduler promotes few requests, because none has run.
double World::PlansEachStep() const {
  const SchedulerOptions& options = setup_.options;
  const AnyPolicy policy = setup_.PolicyOf(policy_);
  const AgingOptions* aging = policy.aging();
  const bool moves = options.preempt == PreemptMode::kByRank && options.preempt_action == KvAction::kOut;
  if (!moves || aging == nullptr || aging->count_from != AgingOptions::CountFrom::kFirstRun) return 1;
  return 1 + 2.0 / static_cast<double>(std::max<std::int64_t>(aging->quantum, 1));
}

// Returns the number of plans after faults stop, with one step in flight at a time; -1 if the run does not end.
std::int64_t World::PlansToDrain() {
  const auto quiet = [this] {
    Settle();
    const std::vector<RequestId> ids = shadow_.unreleased();
    for (RequestId id : ids) {
      if (!violation().empty()) return;
      if (shadow_.life(id).is == Is::kBlocked) Send(Unblocked{id});
      if (shadow_.life(id).is == Is::kPaused) Send(ToolReturned{id, {0}});
    }
  };
  const StepLimits limits = QuietLimits(longest_, setup_.options.max_running);
  std::int64_t most = 1000 + 40 * static_cast<std::int64_t>(shadow_.unreleased().size() + 1) * setup_.most_output;
  for (std::int64_t plans = 0; plans < most; ++plans) {
    quiet();
    if (!violation().empty()) return 0;
    if (shadow_.unreleased().empty()) return plans;
    Pass(1000);
    Plan(limits);
    const bool gated = setup_.agents && shadow_.steps().empty() && last_wake_at_ != kNever;
    if (gated) Pass(std::max<std::int64_t>((last_wake_at_ - now_).count(), kGateAsksEach));
  }
  return -1;
}

// Submits the remaining requests as new ones to a fresh scheduler with the same options and the current policy, without
// faults.
std::int64_t World::PlansOfFreshDrain() const {
  std::optional<HostKv> kv;
  if (kv_) kv.emplace(kv_->total_blocks(), setup_.options.kv_block_tokens, setup_.ids);
  Setup setup = setup_;
  setup.policy = policy_;
  // All requests arrive at once, and no bound may fail them.
  SchedulerOptions& bounds = setup.options;
  const std::int64_t none = std::numeric_limits<std::int64_t>::max();
  bounds.max_waiting = bounds.max_waiting_tokens = bounds.tenant_max_waiting = bounds.tenant_max_waiting_tokens = none;
  for (ClassLimits& c : bounds.class_limits) c = {.priority = c.priority, .ceiling = c.ceiling, .soft = c.soft};
  bounds.max_resume_wait = bounds.max_blocked = bounds.max_paused = 0;
  Scheduler fresh = MakeScheduler(setup, setup.PauseOf(setup.pause), kv ? &*kv : nullptr);
  std::vector<std::int32_t> left(lengths_.size());
  for (RequestId id : shadow_.unreleased()) {
    const Life& life = shadow_.life(id);
    if (!life.living()) continue;
    Request r = life.state.request;
    r.prompt_tokens = {life.base + life.generated};
    if (r.max_output_tokens.value > 0)
      r.max_output_tokens.value -= std::min(life.generated, r.max_output_tokens.value - 1);
    r.expires_at = kNever;
    r.prefix = {};
    left[NameOf(id)] = std::max(OutputLeft(id, life), 1);
    fresh.On(Arrived{r}, now_);
  }
  const StepLimits limits = QuietLimits(longest_, setup_.options.max_running);
  std::vector<RowResult> rows;
  for (std::int64_t plans = 4;; ++plans) {  // four extra plans: steps in flight and a move
    const StepPlan& plan = fresh.Plan(now_, limits);
    for (const KvMove& move : plan.moves) fresh.On(MoveDone{move.id}, now_);
    if (fresh.alive() == 0 || plans > 1'000'000) return plans;
    if (plan.run.empty()) continue;
    rows.clear();
    for (const PlanEntry& e : plan.run) {
      RowResult row{.request = e.request, .lane = e.lane};
      if (e.samples()) {
        row.tokens = 1;
        if (--left[NameOf(e.request)] <= 0) row.flags |= RowResult::kFinished;
      }
      rows.push_back(row);
    }
    fresh.Commit({plan.id, rows}, now_);
  }
}

// ---- drawing ----------------------------------------------------------------------------------------------------

std::uint64_t RandomHost::Anyone(const World& world) {
  const std::vector<RequestId>& ids = world.shadow().unreleased();
  if (ids.empty() || dice_.Chance(0.02)) return dice_.Bits() % (last_name_ + 3);
  return world.NameOf(ids[dice_.Index(ids.size())]);
}

Action RandomHost::Next(const World& world) {
  const Setup& s = world.setup();
  const Shadow& shadow = world.shadow();
  Action a{.bits = dice_.Bits(), .dt = 0};
  a.dt = dice_.Chance(s.clock) ? dice_.Of<std::int64_t>({0, -1, -1'000'000, 5'000'000'000, 60'000'000'000})
                               : dice_.Between(0, 20'000 / s.tick) * s.tick;
  const auto with = [&a](Do what, std::uint64_t name) {
    a.what = what;
    a.name = name;
    return a;
  };
  if (dice_.Chance(s.cancels)) return with(Do::kCancel, Anyone(world));
  if (dice_.Chance(s.blocks)) return with(Do::kBlock, Anyone(world));
  if (dice_.Chance(s.policy_changes)) return with(Do::kChangePolicy, 0);
  if (s.option_changes > 0 && dice_.Chance(s.option_changes)) return with(Do::kChangeOptions, 0);
  if (dice_.Chance(s.relocations)) return with(Do::kRelocate, 0);
  if (s.drains && dice_.Chance(0.0005)) return with(Do::kDrain, 0);
  if (s.facts > 0 && dice_.Chance(s.facts)) {
    const std::uint64_t name = Anyone(world);
    if (shadow.life(s.ids.Of(name)).pinned && dice_.Chance(0.7)) return with(Do::kFreeKv, name);
    return with(dice_.Of({Do::kNotReady, Do::kKvArrive, Do::kKvLose, Do::kPinKv}), name);
  }
  if (s.agents && dice_.Chance(0.05)) return with(dice_.Chance(0.02) ? Do::kRetain : Do::kEndTurn, 0);
  if (dice_.Chance(0.02)) return with(Do::kRevise, Anyone(world));
  if (dice_.Chance(0.2 * s.share_tools)) {
    const std::vector<RequestId>& ids = shadow.unreleased();
    const std::size_t first = dice_.Index(ids.size() + 1);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const RequestId id = ids[(first + i) % ids.size()];
      const Life& life = shadow.life(id);
      if (life.is == Is::kRunning && life.generated > 0) return with(Do::kCallTool, world.NameOf(id));
      if (life.is == Is::kPaused && world.answered(id)) return with(Do::kReturnTool, world.NameOf(id));
    }
    if (dice_.Chance(0.05)) {
      const Do what = dice_.Of({Do::kReturnTool, Do::kCallTool});
      return with(what, Anyone(world));
    }
  }
  if (dice_.Chance(0.2)) {  // any request that waits for the host
    const std::uint64_t name = Anyone(world);
    const RequestId id = s.ids.Of(name);
    const Life& life = shadow.life(id);
    if (life.is == Is::kBlocked) return with(Do::kUnblock, name);
    if (life.is == Is::kPaused && (world.answered(id) || dice_.Chance(0.02))) return with(Do::kReturnTool, name);
    if (dice_.Chance(0.002)) return with(dice_.Of({Do::kUnblock, Do::kReturnTool, Do::kCallTool}), name);
  }
  if (!shadow.moves().empty() && !dice_.Chance(s.slow_moves)) {
    return with(Do::kFinishMove, shadow.moves()[dice_.Index(shadow.moves().size())].id.value);
  }
  if (s.options.kv == KvMode::kOracle && dice_.Chance(0.15)) return with(Do::kFreeKv, 0);
  if (std::cmp_less(shadow.unreleased().size(), s.population) && dice_.Chance(0.5)) {
    const bool again = last_name_ > 0 && dice_.Chance(s.used_again);  // an id that is or was alive
    // Prefers recent ids: such a request may have ended without having been released.
    const std::uint64_t back = dice_.Chance(0.5) ? std::min<std::uint64_t>(last_name_, 20) : last_name_;
    return with(Do::kArrive, again ? last_name_ - dice_.Bits() % std::max<std::uint64_t>(back, 1) : ++last_name_);
  }
  const std::size_t in_flight = shadow.steps().size();
  if (in_flight > 0 && (std::cmp_greater(in_flight, s.depth) ? !dice_.Chance(0.05) : dice_.Chance(0.4))) {
    const std::size_t which = dice_.Chance(s.out_of_order) ? dice_.Index(in_flight) : 0;
    return with(Do::kCommit, shadow.steps()[which].id.value);
  }
  if (dice_.Chance(s.bad_results * 0.02)) return with(Do::kCommit, s.options.first_step.value + dice_.Bits() % 1000);
  return with(Do::kPlan, 0);
}

}  // namespace takt::fire
