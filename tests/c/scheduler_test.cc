// Two schedulers, one in C++ and one in C, receive the same random facts. Their plans, counters and logs must be equal.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "fire/dice.h"
#include "fire/host.h"
#include "fire/host_kv.h"
#include "fire/setup.h"
#include "scale.h"
#include "takt/c/takt.h"
#include "takt/turns/gates/registry.h"
#include "takt/policy/registry.h"
#include "takt/pause/registry.h"
#include "takt/record.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

using fire::Dice;

// Elements have padding in C++ that C names, so that fields are compared.
bool Same(const PlanEntry& a, const takt_plan_entry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool Same(const KvMove& a, const takt_move& b) {
  return a.id.value == b.id && a.request.value == b.request && static_cast<std::uint8_t>(a.action) == b.action &&
         a.first.value == b.first && a.count.value == b.count;
}
bool Same(const Preemption& a, const takt_preemption& b) {
  return a.request.value == b.request && static_cast<std::uint8_t>(a.action) == b.action;
}
bool Same(const Failure& a, const takt_failure& b) {
  return a.request.value == b.request && static_cast<std::uint8_t>(a.reason) == b.reason;
}
bool Same(const HostChunk& a, const takt_host_chunk& b) {
  return a.hash == b.hash && a.blocks.value == b.blocks && static_cast<std::uint8_t>(a.action) == b.action;
}
bool Same(const CacheHint& a, const takt_cache_hint& b) {
  return a.workflow.value == b.workflow && a.branch == b.branch && static_cast<std::uint8_t>(a.action) == b.action &&
         a.priority == b.priority && a.until.time_since_epoch().count() == b.until && a.tokens.value == b.tokens;
}
bool Same(const DroppedPrefix& a, const takt_dropped_prefix& b) {
  return a.hash == b.hash && a.blocks.value == b.blocks;
}
bool Same(RequestId a, std::uint64_t b) { return a.value == b; }
template <class A, class B>
bool SameAll(const A& a, const B* b, std::size_t n) {
  return std::equal(a.begin(), a.end(), b, b + n, [](const auto& x, const auto& y) { return Same(x, y); });
}

// A host's block manager that refuses at random, some for ever.
class RandomKv final : public KvOracle {
 public:
  RandomKv(const SchedulerOptions& options, Tokens block_tokens) : kv_(options.kv_blocks, block_tokens, fire::Ids()) {}

  void Behave(const fire::Setup& setup, bool all, std::uint64_t bits) {
    kv_.Behave(setup.refusals, setup.deferred_frees, all, bits);
    for_ever_ = bits;
  }
  void FreePending() { kv_.FreePending(); }
  const std::string& fault() const { return kv_.fault(); }
  std::int64_t refused() const { return refused_; }

  Tokens block_tokens() const override { return kv_.block_tokens(); }
  KvSnapshot Snapshot() const override { return kv_.Snapshot(); }
  void CachedTokens(std::span<KvHit> hits) override {
    kv_.CachedTokens(hits);
    for (KvHit& hit : hits) {
      const PrefixBlocks& prefix = hit.request->prefix;
      if (!prefix.hashes.empty())
        hit.tokens = {prefix.block_tokens.value * static_cast<std::int32_t>(prefix.hashes.back() % 4)};
    }
  }
  void Reserve(StepId step, std::span<KvReservation> wishes) override {
    kv_.Reserve(step, wishes);
    for (KvReservation& wish : wishes) {
      refused_ += wish.granted ? 0 : 1;
      if (Mix64(for_ever_ ^ wish.request.value) % 8 == 0) wish.refusal = KvRefusal::kForEver;
    }
  }
  Blocks Release(RequestId request, KvAction action) override { return kv_.Release(request, action); }

 private:
  fire::HostKv kv_;
  std::uint64_t for_ever_ = 0;
  std::int64_t refused_ = 0;
};

// A host's own order. It uses all fields of an entering request except scores, which no log holds.
double OwnKey(const takt_request_state& state) {
  const takt_request& r = *state.request;
  std::uint64_t bits = 0;
  const auto add = [&bits](auto x) { bits = Mix64(bits ^ std::bit_cast<std::uint64_t>(x)); };
  for (const std::int64_t x :
       {std::int64_t{r.priority}, r.arrival, r.deadline, std::int64_t{r.prompt_tokens}, std::int64_t{r.sequences},
        state.enqueued, std::int64_t{state.generated}, std::int64_t{state.returned}, std::int64_t{state.computed},
        std::int64_t{state.has_run}, std::int64_t{r.next_call.after}, r.next_call.duration, r.compute}) {
    add(x);
  }
  for (const std::uint64_t x : {r.id, r.workflow, r.tenant, r.adapter, r.session, r.branch, std::uint64_t{r.flags}})
    add(x);
  for (const double x : {r.output_tokens.mean, r.workflow_tokens_left.mean, r.after.calls}) add(x);
  for (std::size_t i = 0; i < r.n_prefix_hashes; ++i) add(r.prefix_hashes[i]);
  return static_cast<double>(bits % 1000);
}

class OwnPolicy {
 public:
  std::string spec() const { return "custom(own)"; }
  void Enters(const RequestState& r, TimePoint) { keys_[r.request.id] = Fresh(r); }
  RankKey Key(const RequestState& r) const {
    const auto kept = keys_.find(r.request.id);
    return {kept == keys_.end() ? Fresh(r) : kept->second};
  }

 private:
  static double Fresh(const RequestState& r) {
    Told told;
    told.Add(Arrived{r.request});
    takt_request_state state{};
    state.has_run = r.has_run, state.request = told.data()->u.arrived.request, state.enqueued = Ns(r.enqueued);
    state.generated = r.generated.value, state.returned = r.returned.value, state.computed = r.computed.value;
    return OwnKey(state);
  }

  std::map<RequestId, double> keys_;
};

absl::StatusOr<AnyPolicy> MakeInCxx(std::string_view spec) {
  const AnyPolicy own{OwnPolicy()};
  return MakePolicy(spec, {}, nullptr, &own);
}
bool IsOwn(const std::string& spec) { return spec.find("custom") != std::string::npos; }

// Any of the policies that a spec makes, with any options; now and then the host's own.
std::string PolicyOf(const fire::Setup& setup, std::uint64_t bits) {
  if (bits % 8 == 0) return bits % 16 == 0 ? "custom" : "aged(custom(own),threshold=3,quantum=2)";
  return setup.PolicyOf(bits).spec();
}

class Twins {
 public:
  explicit Twins(std::uint64_t seed) : setup_(fire::Setup::OfSeed(seed)), dice_(seed ^ 0xc0deu) {
    const SchedulerOptions& options = setup_.options;
    if (options.kv == KvMode::kOracle) {
      for (auto* kv : {&cxx_kv_, &c_kv_}) kv->emplace(options, options.kv_block_tokens);
    }
    setup_.by_name = true;
    const std::string policy = PolicyOf(setup_, setup_.policy), pause = setup_.PauseOf(setup_.pause).spec();
    CAPTURE(policy, pause);
    const bool whole = dice_.Chance(0.5);
    cxx_recorder_.emplace([this](std::string_view bytes) { cxx_log_ += bytes; },
                          RecorderOptions{.plan_contents = whole, .flush_bytes = 1000});
    cxx_.emplace(*Recorded<Scheduler>::Create(*cxx_recorder_, options, *MakeInCxx(policy), *MakePause(pause),
                                              cxx_kv_ ? &*cxx_kv_ : nullptr));
    takt_scheduler_options in_c = InC(options);
    takt_key_init(&key_, sizeof key_);
    key_.name = "own", key_.key = [](void*, const takt_request_state* state) { return OwnKey(*state); };
    if (IsOwn(policy)) in_c.key = &key_, own_ = true;
    in_c.policy = policy == "custom" ? nullptr : policy.c_str(), in_c.pause = pause.c_str();
    in_c.record = [](void* log, const void* bytes, std::size_t n) {
      static_cast<std::string*>(log)->append(static_cast<const char*>(bytes), n);
    };
    in_c.record_context = &c_log_, in_c.record_plans = whole, in_c.record_flush_bytes = 1000;
    takt_kv_oracle oracle;
    if (c_kv_) oracle = InC(*c_kv_), in_c.oracle = &oracle;
    takt_error error;
    takt_error_init(&error, sizeof error);
    const takt_status status = takt_scheduler_create(&in_c, &c_, &error);
    CAPTURE(error.text);
    REQUIRE(status == TAKT_OK);
    CHECK(takt_scheduler_policy(c_) == cxx_->scheduler().policy().spec());
    if (options.kv == KvMode::kLedger && options.prefix_cache && dice_.Chance(0.7)) SetRetention();
  }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;
  ~Twins() { takt_scheduler_destroy(c_); }

  void Run(int actions) {
    for (int i = 0; i < actions && same_; ++i) Act(i, actions);
    TellAll();
    while (!flight_.empty() && same_) Commit();
    Step();  // with an oracle, nothing after a log's last plan is replayed
    CHECK(same_);
  }

  void CompareWholes() {
    const Scheduler& s = cxx_->scheduler();
    const std::vector<takt_stat> stats = StatsOf(takt_scheduler_stats, c_);
    CompareStats(stats);

    auto counts = Sized<takt_scheduler_counts>();
    REQUIRE(takt_scheduler_count(c_, &counts) == TAKT_OK);
    CHECK(counts.alive == s.alive());
    CHECK(counts.waiting == s.waiting());
    CHECK(counts.running == s.running());
    CHECK(counts.paused == s.paused());
    CHECK(counts.blocked == s.blocked());
    CHECK((counts.draining != 0) == s.draining());

    auto use = Sized<takt_kv_use>();
    REQUIRE(takt_scheduler_kv(c_, &use) == TAKT_OK);
    CHECK(KvUse{{use.total},
                {use.used},
                {use.free},
                {use.cached},
                {use.pending},
                {use.cpu_total},
                {use.cpu_used},
                {use.cpu_cached}} == s.kv());

    for (const RequestId id : ids_) CompareExplanations(id);

    auto fault = Sized<takt_fault>();
    REQUIRE(takt_scheduler_last_fault(c_, &fault) == TAKT_OK);
    CHECK(fault.count == s.stats().faults());
    CHECK(Fault{static_cast<FaultKind>(fault.kind),
                {fault.step},
                {fault.request},
                fault.lane,
                TimePoint(Duration(fault.at)),
                fault.received,
                fault.expected} == s.last_fault());

    takt_error error;
    takt_error_init(&error, sizeof error);
    CHECK(takt_scheduler_check(c_, &error) == TAKT_OK);
    if (c_kv_) CHECK(c_kv_->fault() == "");

    REQUIRE(takt_scheduler_flush(c_) == TAKT_OK);
    cxx_recorder_->Flush();
    CHECK(cxx_log_ == c_log_);
    if (own_) return ReplayOwn();
    auto report = Sized<takt_replay_report>();
    std::vector<takt_stat> replayed(stats.size());
    CHECK(takt_replay(c_log_.data(), c_log_.size(), &report, replayed.data(), replayed.size(), &error) == TAKT_OK);
    CompareStats(replayed);
    CAPTURE(error.text, report.difference);
    CHECK(report.differs == 0);
    CHECK(report.truncated == 0);
    CHECK(report.bytes == c_log_.size());
    CHECK(static_cast<std::uint64_t>(report.plans) == s.stats().plans);
  }

  std::int64_t entries() const { return entries_; }
  bool own() const { return own_; }
  std::uint64_t gated() const { return cxx_->scheduler().stats().gate_refused; }
  std::int64_t refused() const { return c_kv_ ? c_kv_->refused() : 0; }

 private:
  // A log with a host's own order: C names the missing order, and C++ accepts it.
  void ReplayOwn() {
    auto report = Sized<takt_replay_report>();
    takt_error error;
    takt_error_init(&error, sizeof error);
    CHECK(takt_replay(c_log_.data(), c_log_.size(), &report, nullptr, 0, &error) == TAKT_E_INVALID);
    CHECK(std::string_view(error.text).find("'custom(own)' is unknown; only a host that registers") !=
          std::string_view::npos);
    const auto replay = ReplayLog(c_log_, {.make_policy = MakeInCxx, .make_pause = nullptr});
    REQUIRE(replay.ok());
    if (replay->difference) FAIL_CHECK(replay->difference->what);
    CHECK(replay->plans == static_cast<std::int64_t>(cxx_->scheduler().stats().plans));
  }

  void CompareStats(const std::vector<takt_stat>& in_c) {
    const Stats& s = cxx_->scheduler().stats();
    std::size_t i = 0;
#define TAKT_COMPARE(field, text)                                                                          \
  REQUIRE(i < in_c.size());                                                                                \
  if (const takt_stat& stat = in_c[i++]; std::string_view(stat.name) != #field || stat.value != s.field) { \
    FAIL_CHECK(#field << ": " << s.field << " in C++, " << stat.name << ": " << stat.value << " in C");    \
  }
    TAKT_STATS(TAKT_COMPARE)
#undef TAKT_COMPARE
    CHECK(i == in_c.size());
  }

  struct Flight {
    std::uint64_t id = 0;
    std::vector<PlanEntry> run;
    const takt_plan_entry* in_c = nullptr;
  };

  struct Results {
    std::vector<RowResult> rows;
    bool by_exception = false;

    const takt_row_result* in_c() const { return reinterpret_cast<const takt_row_result*>(rows.data()); }
    std::uint32_t flags() const { return by_exception ? TAKT_REST_AS_PLANNED : 0; }
  };

  void Act(int i, int actions) {
    if (cxx_kv_) {
      TellAll();  // events for C++ in the oracle's previous state
      const std::uint64_t bits = dice_.Bits();
      for (auto* kv : {&cxx_kv_, &c_kv_}) (*kv)->Behave(setup_, bits % 16 == 0, bits);
    }
    const int what = dice_.Int(0, 99);
    if (what < 35) return Step();
    if (what < 40) return flight_.empty() ? Step() : Commit();
    if (what < 42) return ChangePolicy();
    if (what < 43) return dice_.Chance(0.5) ? Step(true) : TellEpoch();
    const RequestId id = Anyone();
    if (what < 65) {
      if (cxx_->scheduler().alive() >= setup_.population) return;
      const bool again = dice_.Chance(setup_.used_again);
      fire::Drawn drawn = fire::DrawRequest(again ? id : RequestId{++last_id_}, setup_, now_, dice_.Bits());
      Request& r = drawn.request;
      r.branch = dice_.Bits() % 2;
      if (held_ && dice_.Chance(0.5)) ShareWithTurnsBefore(r);
      r.stage = {dice_.Bits() % 5}, r.agent = {dice_.Bits() % 4}, r.compute = Duration(dice_.Between(0, 1000));
      if (r.prefix.hashes.empty()) r.prefix = {};  // in C they are one
      if (dice_.Chance(0.2)) r.scores = kScores;
      if (r.id) ids_.push_back(r.id), lengths_[r.id.value] = drawn.length;
      return Tell(Arrived{r});
    }
    if (held_ && what < 69) return TellOfTurn();
    if (what < 72) return Tell(fire::DrawRevised(id, setup_, now_, dice_.Bits()));
    if (what < 76) return Tell(Blocked{id});
    if (what < 79) return Tell(Unblocked{id, {dice_.Int(-1, 30)}});
    if (what < 80) {
      switch (dice_.Int(0, 5)) {
        case 0: return Tell(NotReady{id});
        case 1: return Tell(KvArrived{id, {dice_.Int(-1, 30)}});
        case 2: return Tell(KvLost{dice_.Chance(0.1) ? RequestId{} : id, {dice_.Int(-1, 30)}});
        case 3: return Tell(KvPinned{id});
        default: return Tell(KvFreed{id});
      }
    }
    if (what < 86) return Tell(fire::DrawCall(id, dice_.Bits()).call);
    if (what < 92) {
      const NextCall next{{dice_.Bits() % 3}, {dice_.Int(0, 9)}, {dice_.Int(0, 9)}, Duration(dice_.Between(0, 9999))};
      return Tell(ToolReturned{id, {dice_.Int(-1, 8)}, next});
    }
    if (what < 94) return Tell(Cancelled{id});
    if (what < 99) {
      if (moves_.empty()) return Tell(MoveDone{{dice_.Bits() % 9}});
      std::swap(moves_[dice_.Index(moves_.size())], moves_.back());
      Tell(MoveDone{moves_.back(), dice_.Chance(0.1)});
      return moves_.pop_back();
    }
    if (cxx_kv_ && dice_.Chance(0.5)) {
      for (auto* kv : {&cxx_kv_, &c_kv_}) (*kv)->FreePending();
      return Tell(KvFreed{});
    }
    if (2 * i > actions && dice_.Chance(0.05)) Tell(Drain{});
  }

  RequestId Anyone() {
    if (ids_.empty() || dice_.Chance(0.02)) return {dice_.Bits() % 100};
    return ids_[ids_.size() - 1 - dice_.Index(std::min<std::size_t>(ids_.size(), 64))];
  }

  void Pass() {
    const bool back = dice_.Chance(0.02);
    now_ += Duration(back ? dice_.Between(-1000, 0) : dice_.Between(0, 300) * 1000);
  }

  template <class E>
  void Tell(const E& event) {
    cxx_->On(Event(event), now_);
    kept_.push_back(event);  // memory behind the C pointers
    told_.Add(kept_.back());
    if (dice_.Chance(0.5)) TellAll();
  }

  // C receives as a batch the events that C++ received one by one.
  void TellAll() {
    same_ &= takt_scheduler_on(c_, told_.data(), told_.size(), Ns(now_)) == TAKT_OK;
    told_.Clear(), kept_.clear();
    Pass();
  }

  void SetRetention() {
    held_ = true;
    const char* retention = dice_.Chance(0.5) ? "hold_value(beta_ns=5)" : "ttl(seconds=1)";
    const char* gate = dice_.Chance(0.5) ? "price(share=0.2,after_s=0.01)" : "lease(seconds=0.02)";
    const PrefillPace pace = {0.5, 7};
    const bool told = dice_.Chance(0.5);
    REQUIRE(
        cxx_->SetRetention(*MakeRetention(retention, told ? &pace : nullptr), *MakeGate(gate, told ? &pace : nullptr))
            .ok());
    REQUIRE(takt_scheduler_set_retention(c_, retention, gate, told ? 0.5 : 0, told ? 7 : 0, nullptr) == TAKT_OK);
  }

  // A prompt that continues the prompts of its branch's earlier turns.
  void ShareWithTurnsBefore(Request& r) {
    r.workflow = {1 + dice_.Bits() % 4};
    const std::int32_t block = setup_.options.kv_block_tokens.value;
    std::vector<std::uint64_t>& hashes = hashes_.emplace_back();
    const auto blocks = static_cast<std::uint64_t>(r.prompt_tokens.value / block);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(blocks, 1000); ++i)
      hashes.push_back(Mix64((r.workflow.value * 2 + r.branch) * 10'000 + i));
    r.prefix = hashes.empty() ? PrefixBlocks{} : PrefixBlocks{{block}, hashes};
  }

  void TellOfTurn() {
    const WorkflowId workflow{dice_.Bits() % 5};  // 0 is none
    if (dice_.Chance(0.1)) return Tell(WorkflowEnded{workflow, dice_.Chance(0.5)});
    TurnEnded ended{workflow, dice_.Bits() % 2, static_cast<TurnWhy>(dice_.Int(0, 4)), {dice_.Bits() % 3}};
    if (dice_.Chance(0.3)) ended.expected = std::chrono::milliseconds(dice_.Int(1, 1000));
    if (dice_.Chance(0.3)) ended.pin = std::chrono::milliseconds(dice_.Int(1, 1000));
    if (dice_.Chance(0.2)) Tell(TurnExpected{workflow, dice_.Bits() % 2, now_ + std::chrono::milliseconds(50)});
    Tell(ended);
  }

  void TellEpoch() {
    TellAll();
    const Epoch epoch = DrawEpoch(dice_);
    cxx_->On(epoch, now_);
    std::vector<takt_agent_rank> ranks;
    const takt_epoch in_c = InC(epoch, ranks);
    same_ &= takt_scheduler_epoch(c_, &in_c, Ns(now_)) == TAKT_OK;
  }

  void ChangePolicy() {
    TellAll();
    const std::string spec = PolicyOf(setup_, dice_.Bits());
    CAPTURE(spec);
    cxx_->ChangePolicy(*MakeInCxx(spec), now_);
    own_ |= IsOwn(spec);
    takt_error error;
    takt_error_init(&error, sizeof error);
    REQUIRE(takt_scheduler_set_policy(c_, spec.c_str(), IsOwn(spec) ? &key_ : nullptr, Ns(now_), &error) == TAKT_OK);
    CHECK(takt_scheduler_policy(c_) == cxx_->scheduler().policy().spec());
  }

  StepLimits Limits() {
    StepLimits limits = setup_.limits;
    if (dice_.Chance(0.8)) return limits;
    limits.tokens = {dice_.Int(0, 64)}, limits.max_seqs = dice_.Int(0, 8), limits.adapters = dice_.Int(0, 3);
    limits.swap_out = {dice_.Int(0, 9)}, limits.swap_in = {dice_.Int(0, 9)};
    limits.prefill_tokens = {dice_.Int(1, 64)}, limits.chunk_tokens = {dice_.Int(1, 64)};
    return limits;
  }

  // Plans, and commits the oldest step before, in one call or in two.
  void Step(bool unknown = false) {
    TellAll();
    const bool by_default = dice_.Chance(0.05);
    const StepLimits limits = by_default ? StepLimits{} : Limits();
    const takt_limits in_c = InC(limits);
    const takt_limits* told = by_default ? nullptr : &in_c;
    auto plan = Sized<takt_plan>();
    const bool commits = unknown || std::cmp_greater(flight_.size(), setup_.depth);
    const std::uint64_t step = !commits ? 0 : unknown || flight_.empty() ? 12345 : flight_.front().id;
    const Results results = commits ? ResultsOfOldest() : Results();
    std::vector<takt_plan_entry> run(static_cast<std::size_t>(dice_.Of({0, 3, 4096})));
    if (commits) cxx_->Commit({{step}, results.rows, results.by_exception}, now_);
    const StepPlan& expected = cxx_->Plan(now_, limits);
    if (dice_.Chance(0.5)) {
      same_ &= takt_scheduler_step(c_, step, results.in_c(), results.rows.size(), results.flags(), Ns(now_), told,
                                   &plan, run.data(), run.size()) == TAKT_OK;
      const std::size_t n = std::min(run.size(), plan.n_run);
      same_ &= SameAll(expected.run.first(std::min(n, expected.run.size())), run.data(), n);
    } else {
      if (commits) same_ &= CommitInC(step, results);
      same_ &= takt_scheduler_plan(c_, Ns(now_), told, &plan) == TAKT_OK;
    }
    if (commits && !unknown && !flight_.empty()) flight_.pop_front();
    Compare(expected, plan);
    for (const KvMove& move : expected.moves) moves_.push_back(move.id);
    if (!expected.run.empty()) {
      flight_.push_back({expected.id.value, {expected.run.begin(), expected.run.end()}, plan.run});
    }
    Pass();
  }

  void Commit() {
    TellAll();
    const Results results = ResultsOfOldest();
    const std::uint64_t step = flight_.front().id;
    cxx_->Commit({{step}, results.rows, results.by_exception}, now_);
    same_ &= CommitInC(step, results);
    flight_.pop_front();
    Pass();
  }

  bool CommitInC(std::uint64_t step, const Results& results) {
    return takt_scheduler_commit(c_, step, results.in_c(), results.rows.size(), results.flags(), Ns(now_)) == TAKT_OK;
  }

  // Results of the oldest step in flight, whose plan must be unchanged. Half of them are reported by exception.
  Results ResultsOfOldest() {
    Results results;
    if (flight_.empty()) return results;
    std::vector<RowResult>& rows = results.rows;
    results.by_exception = dice_.Chance(0.5);
    const Flight& flight = flight_.front();
    same_ &= SameAll(flight.run, flight.in_c, flight.run.size());
    for (const PlanEntry& entry : flight.run) {
      std::int32_t& left = lengths_[entry.request.value];
      if (results.by_exception && left > 1 && dice_.Chance(0.8)) {
        left -= entry.samples() ? 1 : 0;
        continue;
      }
      if (dice_.Chance(0.02)) continue;
      RowResult row{entry.request, entry.lane};
      if (entry.samples()) row.tokens = static_cast<std::uint16_t>(1 + dice_.Int(0, entry.speculative));
      if (dice_.Chance(0.01)) row.tokens = static_cast<std::uint16_t>(dice_.Int(0, 70));
      row.drafts = static_cast<std::uint8_t>(dice_.Int(0, setup_.most_drafts));
      if ((left -= row.tokens) <= 0) row.flags |= RowResult::kFinished;
      if (dice_.Chance(0.005)) row.flags |= RowResult::kFailed;
      rows.push_back(row);
    }
    if (rows.size() > 1 && dice_.Chance(0.05)) std::swap(rows.front(), rows.back());
    return results;
  }

  void Compare(const StepPlan& a, const takt_plan& b) {
    entries_ += static_cast<std::int64_t>(a.run.size());
    same_ &= a.id.value == b.id && static_cast<std::uint32_t>(a.idle) == b.idle && a.tokens.value == b.tokens &&
             Ns(a.wake_at) == b.wake_at && SameAll(a.run, b.run, b.n_run) && SameAll(a.moves, b.moves, b.n_moves) &&
             SameAll(a.preempted, b.preempted, b.n_preempted) && SameAll(a.failed, b.failed, b.n_failed) &&
             SameAll(a.released, b.released, b.n_released) && SameAll(a.dropped, b.dropped, b.n_dropped) &&
             SameAll(a.host_chunks, b.host_chunks, b.n_host_chunks) && SameAll(a.hints, b.hints, b.n_hints);
  }

  void CompareExplanations(RequestId id) {
    const Explanation a = cxx_->scheduler().Explain(id);
    auto b = Sized<takt_explanation>();
    REQUIRE(takt_scheduler_explain(c_, id.value, &b) == TAKT_OK);
    bool same =
        static_cast<std::uint32_t>(a.status) == b.status && static_cast<std::uint32_t>(a.waits_for) == b.waits_for;
    same = same && a.promoted == (b.promoted != 0) && a.ahead == b.ahead;
    same = same && std::memcmp(&a.key.key, &b.key, sizeof b.key) == 0 && a.key_parts.size == b.n_parts;
    same = same && a.known.value == b.known && a.computed.value == b.computed && a.in_flight.value == b.in_flight;
    same = same && a.generated.value == b.generated && a.kv_blocks.value == b.kv_blocks;
    same = same && a.cpu_blocks.value == b.cpu_blocks;
    for (std::size_t i = 0; same && i < a.key_parts.size; ++i) {
      same = a.key_parts.parts[i].name == b.parts[i].name &&
             std::memcmp(&a.key_parts.parts[i].value, &b.parts[i].value, sizeof(double)) == 0;
    }
    if (!same) FAIL_CHECK("explanations of request " << id.value << " differ");
  }

  fire::Setup setup_;
  Dice dice_;
  std::string cxx_log_, c_log_;
  std::optional<Recorder> cxx_recorder_;
  std::optional<RandomKv> cxx_kv_, c_kv_;
  std::optional<Recorded<Scheduler>> cxx_;
  takt_scheduler* c_ = nullptr;
  takt_key key_;
  bool own_ = false;  // some order was the host's own
  bool held_ = false;  // KV of turns is held
  std::deque<std::vector<std::uint64_t>> hashes_;
  TimePoint now_{};
  std::uint64_t last_id_ = 0;
  std::vector<RequestId> ids_;
  std::map<std::uint64_t, std::int32_t> lengths_;
  std::vector<MoveId> moves_;
  std::deque<Flight> flight_;
  std::deque<Event> kept_;
  Told told_;
  bool same_ = true;
  std::int64_t entries_ = 0;
};

TEST_CASE("a scheduler in C and in C++ plans and logs alike") {
  std::int64_t entries = 0, refused = 0, own = 0;
  std::uint64_t gated = 0;
  for (std::int64_t seed = 1; seed <= Scaled(400); ++seed) {
    CAPTURE(seed);
    Twins twins(static_cast<std::uint64_t>(seed));
    twins.Run(300);
    twins.CompareWholes();
    entries += twins.entries(), refused += twins.refused(), own += twins.own();
    gated += twins.gated();
  }
  CHECK(refused > Scaled(400));
  CHECK(own > Scaled(40));
  CHECK(gated > 0);
  CHECK(entries > 10 * Scaled(400));
}

}  // namespace
}  // namespace takt
