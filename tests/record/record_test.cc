#include "takt/record.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "record/fields.h"
#include "takt/base/random.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/gates/registry.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

std::vector<LogRecord> ReadAll(std::string_view bytes) {
  std::vector<LogRecord> records;
  auto reader = LogReader::Open(bytes);
  REQUIRE(reader.ok());
  for (;;) {
    auto record = reader->Next();
    REQUIRE(record.ok());
    if (!*record) return records;
    records.push_back(**record);
  }
}

// ---- values ---------------------------------------------------------------------------------------------------

Estimate SomeEstimate(Random& random) {
  constexpr double kOdd[] = {
      -1, 0, 17, 1e300, 0.1, -0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
  const double mean = random.Chance(0.5) ? kOdd[random.Below(std::size(kOdd))] : random.Uniform() * 1000;
  Estimate estimate{mean, {}};
  if (random.Chance(0.5) && mean >= 0 && mean < 1e9) return Estimate::Exact(mean);
  for (float& q : estimate.quantiles) q = static_cast<float>(random.Normal());
  return estimate;
}

TimePoint SomeTime(Random& random) {
  switch (random.Below(4)) {
    case 0: return kNever;
    case 1: return kUnset;
    default: return TimePoint(Duration(static_cast<std::int64_t>(random.Bits())));
  }
}

// Values of every kind of field, from Draw(random, field).
template <class T>
  requires std::integral<T>
void Draw(Random& random, T& x) {
  x = static_cast<T>(random.Bits());
}
void Draw(Random& random, bool& x) { x = random.Chance(0.5); }
void Draw(Random& random, double& x) { x = random.Chance(0.2) ? 1e300 : random.Uniform(); }
template <class E>
  requires std::is_enum_v<E>
void Draw(Random& random, E& x) {
  x = static_cast<E>(random.Below(NamesOf(E{}).size()));
}
template <class Tag>
void Draw(Random& random, Id<Tag>& x) {
  x = {random.Bits() >> random.Below(64)};
}
template <class Tag>
void Draw(Random& random, Count<Tag>& x) {
  Draw(random, x.value);
}
void Draw(Random& random, Duration& x) { x = Duration(static_cast<std::int64_t>(random.Bits())); }
void Draw(Random& random, TimePoint& x) { x = SomeTime(random); }
void Draw(Random& random, Estimate& x) { x = SomeEstimate(random); }
void Draw(Random&, std::span<const ModelScore>&) {}  // a log has no such field
void Draw(Random& random, PrefixBlocks& x) {
  static std::deque<std::vector<std::uint64_t>> kept;
  Draw(random, x.block_tokens);
  std::vector<std::uint64_t>& hashes = kept.emplace_back(1 + random.Below(4));
  for (std::uint64_t& hash : hashes) hash = random.Bits();
  x.hashes = hashes;
}
template <internal::HasFields T>
void Draw(Random& random, T& x);
template <class T>
void Draw(Random& random, std::optional<T>& x) {
  Draw(random, x.emplace());
}
template <internal::HasFields T>
void Draw(Random& random, T& x) {
  std::apply([&](auto&... field) { ((random.Chance(0.5) ? Draw(random, field) : void()), ...); }, internal::Fields(x));
}
void Draw(Random& random, LogPolicy& x) { x.policy = random.Chance(0.5) ? "sjf" : "aged(fcfs)"; }
void Draw(Random& random, LogOptions& x) {
  x.options.max_waiting = static_cast<std::int64_t>(random.Below(1000));
  x.options.class_limits = {{.priority = static_cast<std::int32_t>(random.Bits()), .max_wait = random.Uniform()}};
}
void Draw(Random& random, LogRetention& x) {
  x = {random.Chance(0.5) ? "hold_value(alpha_ms=0.1)" : "ttl", random.Chance(0.5) ? "price" : "none", {}};
  if (random.Chance(0.5)) x.times = {99, random.Uniform(), 1e300, 7, -3, random.Bits()};
}
void Draw(Random& random, Epoch& x) {
  if (random.Chance(0.5)) {
    x.agent_ranks =
        std::make_shared<const AgentRanks>(AgentRanks{{{{1}, 0.5, 2.5, 3}, {{random.Bits()}, -1}}, {{}, 0.25, 1}});
  }
  if (random.Chance(0.5)) x.alpha = random.Uniform();
}

template <std::size_t I = 0>
LoggedEvent SomeEvent(Random& random, std::size_t index) {
  if constexpr (I + 1 < std::variant_size_v<LoggedEvent>) {
    if (index > I) return SomeEvent<I + 1>(random, index);
  }
  LoggedEvent event(std::in_place_index<I>);
  Draw(random, std::get<I>(event));
  return event;
}

bool SameBits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

TEST_CASE("every event is read back bit for bit") {
  Random random(3);
  Recorder first, second;
  const auto record = [](Recorder& recorder, const LoggedEvent& event, TimePoint now) {
    std::visit(
        [&]<class E>(const E& e) {
          if constexpr (std::same_as<E, LogPolicy>) recorder.ChangePolicy(*MakePolicy(e.policy), now);
          else if constexpr (std::same_as<E, LogOptions>) recorder.SetOptions(e.options, now);
          else if constexpr (std::same_as<E, LogRetention>)
            recorder.SetRetention(*MakeRetention(e.retention), *MakeGate(e.gate), e.times);
          else recorder.On(e, now);
        },
        event);
  };
  std::vector<LoggedEvent> events;
  std::vector<TimePoint> times;
  for (int i = 0; i < 5000; ++i) {
    events.push_back(SomeEvent(random, random.Below(std::variant_size_v<LoggedEvent>)));
    const bool timeless = std::holds_alternative<LogRetention>(events.back());
    times.push_back(!timeless ? SomeTime(random) : times.empty() ? TimePoint{} : times.back());
    record(first, events.back(), times.back());
  }
  const std::vector<LogRecord> records = ReadAll(first.bytes());
  REQUIRE(records.size() == events.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    LogEvent e = std::get<LogEvent>(records[i]);
    REQUIRE(e.now == times[i]);
    REQUIRE(e.event.index() == events[i].index());
    if (const auto* epoch = std::get_if<Epoch>(&e.event)) {
      const auto& was = std::get<Epoch>(events[i]);
      REQUIRE(epoch->alpha == was.alpha);
      REQUIRE((epoch->agent_ranks != nullptr) == (was.agent_ranks != nullptr));
      if (was.agent_ranks != nullptr) REQUIRE(*epoch->agent_ranks == *was.agent_ranks);
    }
    if (const auto* arrived = std::get_if<Arrived>(&e.event)) {
      const Request &a = arrived->request, &b = std::get<Arrived>(events[i]).request;
      REQUIRE(a.id == b.id);
      REQUIRE(a.tenant == b.tenant);
      REQUIRE(a.arrival == b.arrival);
      REQUIRE(a.expires_at == b.expires_at);
      REQUIRE(a.prompt_tokens == b.prompt_tokens);
      REQUIRE(a.priority == b.priority);
      REQUIRE(a.preemptible == b.preemptible);
      REQUIRE(SameBits(a.output_tokens.mean, b.output_tokens.mean));
      REQUIRE(std::bit_cast<std::array<std::uint32_t, 5>>(a.workflow_tokens_left.quantiles) ==
              std::bit_cast<std::array<std::uint32_t, 5>>(b.workflow_tokens_left.quantiles));
      REQUIRE(a.after == b.after);
      REQUIRE(std::ranges::equal(a.prefix.hashes, b.prefix.hashes));
      REQUIRE(a.prefix.block_tokens == b.prefix.block_tokens);
    }
    if (const auto* set = std::get_if<LogRetention>(&e.event)) {
      const auto& was = std::get<LogRetention>(events[i]);
      REQUIRE(set->retention == was.retention);
      REQUIRE(set->gate == was.gate);
      REQUIRE(SameBits(set->times.window, was.times.window));
      REQUIRE(set->times.hash_seed == was.times.hash_seed);
    }
    if (const auto* set = std::get_if<LogOptions>(&e.event)) {
      REQUIRE(set->options.max_waiting == std::get<LogOptions>(events[i]).options.max_waiting);
      REQUIRE(set->options.class_limits == std::get<LogOptions>(events[i]).options.class_limits);
    }
    if (const auto* change = std::get_if<LogPolicy>(&e.event)) {
      REQUIRE(change->policy == MakePolicy(std::get<LogPolicy>(events[i]).policy)->spec());
    }
    record(second, e.event, e.now);  // a lost field would be missing here
  }
  CHECK(second.bytes() == first.bytes());
}

TEST_CASE("limits, results, answers and plans are read back unchanged") {
  SchedulerOptions options;
  options.kv_blocks = {777};
  options.preempt = PreemptMode::kByRank;
  options.preempt_margin = 0.25;
  const StepLimits limits{.tokens = {512}, .max_seqs = 3, .swap_in = {0}};
  const std::vector<RowResult> rows = {
      {{9}, 0, 1, 0, 0}, {{8}, 1, 0, 3, RowResult::kFailed}, {{1}, 70000, 65535, 255, 1}};
  const std::vector<PlanEntry> run = {{{9}, 0, 512, 64, 0, PlanEntry::kPrefill},
                                      {{7}, 3, 1, 100000, 4, PlanEntry::kSamples}};
  const KeptPlan kept{
      {5},
      run,
      {{{1}, {2}, KvAction::kOut, {3}, {4}}},
      {{.request = {6}, .action = KvAction::kDrop}},
      {{.request = {7}, .reason = FailReason::kShed}, {.request = {9}, .reason = FailReason::kHost, .code = 7}},
      {{8}, {9}},
      {513},
      Idle::kBusy,
      At(3)};
  const StepPlan plan = kept.view();
  std::vector<KvReservation> wishes(11);
  wishes[0].granted = wishes[8].granted = wishes[10].granted = true;

  Recorder recorder(nullptr, {.plan_contents = true});
  recorder.Start(options, "aged(sjf)", "drop_all");
  recorder.Answer(OracleQuestion::kTotalBlocks, 100);
  recorder.Plan(At(1), limits);
  recorder.Answer(wishes);
  recorder.Planned(plan);
  recorder.Answer(OracleQuestion::kFreeBlocks, 1);  // asked between operations: not part of the log
  recorder.Plan(At(2), limits);
  recorder.Commit({{5}, rows}, At(0.5));  // time may step back

  const std::vector<LogRecord> records = ReadAll(recorder.bytes());
  REQUIRE(records.size() == 7);
  const auto& start = std::get<LogStart>(records[0]);
  CHECK(start.policy == "aged(sjf)");
  CHECK(start.pause == "drop_all");
  CHECK(start.options.kv_blocks == Blocks{777});
  CHECK(start.options.preempt == PreemptMode::kByRank);
  CHECK(start.options.preempt_margin == 0.25);
  CHECK(start.options.max_waiting == INT64_MAX);
  CHECK(std::get<LogAnswer>(records[1]).value == 100);
  CHECK(std::get<LogPlan>(records[2]).limits == limits);
  CHECK(std::get<LogPlan>(records[2]).now == At(1));
  const auto& granted = std::get<LogAnswer>(records[3]).granted;
  REQUIRE(granted.size() == wishes.size());
  for (std::size_t i = 0; i < wishes.size(); ++i) CHECK(granted[i] == wishes[i].granted);
  const auto& step = std::get<LogStep>(records[4]);
  REQUIRE(step.plan);
  CHECK(step.plan->run == run);
  CHECK(step.plan->moves == plan.moves);
  CHECK(step.plan->preempted == plan.preempted);
  CHECK(step.plan->failed == plan.failed);
  CHECK(step.plan->released == plan.released);
  CHECK(step.plan->wake_at == plan.wake_at);
  CHECK(step.digest == Digest(plan));
  CHECK(std::get<LogPlan>(records[5]).limits == limits);
  const auto& commit = std::get<LogCommit>(records[6]);
  CHECK(commit.now == At(0.5));
  CHECK(commit.step == StepId{5});
  REQUIRE(commit.rows.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(std::bit_cast<std::array<char, 16>>(commit.rows[i]) == std::bit_cast<std::array<char, 16>>(rows[i]));
  }
}

TEST_CASE("rows are read back unchanged and cost little if they repeat") {
  Random random(8);
  std::vector<std::vector<RowResult>> commits;
  std::vector<RowResult> rows;
  Recorder recorder;
  std::uint64_t last_id = 0;
  for (int i = 0; i < 300; ++i) {
    for (std::uint64_t n = random.Below(4); n > 0 && !rows.empty(); --n) {
      const auto at = rows.begin() + static_cast<std::ptrdiff_t>(random.Below(rows.size()));
      if (random.Chance(0.5)) rows.erase(at);
      else at->tokens = static_cast<std::uint16_t>(random.Below(3));
    }
    for (std::uint64_t n = random.Below(4); n > 0; --n)
      rows.push_back({{++last_id}, static_cast<std::uint32_t>(last_id % 16), 1, 0, 0});
    if (random.Chance(0.02)) rows.clear();
    if (random.Chance(0.02)) std::ranges::reverse(rows);
    commits.push_back(rows);
    recorder.Commit({{1}, rows}, {});
  }
  const std::vector<LogRecord> records = ReadAll(recorder.bytes());
  REQUIRE(records.size() == commits.size());
  const auto bits = [](const RowResult& row) { return std::bit_cast<std::array<char, 16>>(row); };
  for (std::size_t i = 0; i < commits.size(); ++i) {
    REQUIRE(std::ranges::equal(std::get<LogCommit>(records[i]).rows, commits[i], {}, bits, bits));
  }
  rows.clear();
  for (std::uint64_t id = 1; id <= 256; ++id) rows.push_back({{id}, static_cast<std::uint32_t>(id), 1, 0, 0});
  recorder.Commit({{1}, rows}, {});
  const std::size_t before = recorder.bytes().size();
  recorder.Commit({{2}, rows}, {});
  CHECK(recorder.bytes().size() - before < 20);
}

TEST_CASE("a digest differs if any part of a plan differs") {
  const std::vector<PlanEntry> run = {{{9}, 0, 512, 64, 0, PlanEntry::kPrefill}};
  const std::vector<PlanEntry> other = {{{9}, 0, 512, 65, 0, PlanEntry::kPrefill}};
  const std::vector<RequestId> released = {{1}, {2}}, swapped = {{2}, {1}};
  const StepPlan plan{{5}, run, {}, {}, {}, released, {512}, Idle::kBusy, kNever};
  StepPlan changed = plan;
  changed.run = other;
  CHECK(Digest(changed).run != Digest(plan).run);
  changed = plan;
  changed.released = swapped;
  CHECK(Digest(changed).released != Digest(plan).released);
  CHECK(Digest(plan).moves == 0);
  CHECK(Digest(plan) == Digest(plan));
}

// ---- whole logs -----------------------------------------------------------------------------------------------

// Counts blocks and frees late.
class CountingOracle final : public KvOracle {
 public:
  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{64}, {free_}, {pending_}}; }
  void CachedTokens(std::span<KvHit> hits) override {
    for (KvHit& hit : hits) hit.tokens = {hit.request->prompt_tokens.value / 2};
  }
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    for (KvReservation& w : wishes) {
      std::int32_t& held = held_[w.request.value];
      const std::int32_t more = std::max(0, (w.want.value + 15) / 16 - held);
      w.granted = more <= free_;
      if (w.granted) held += more, free_ -= more;
    }
  }
  Blocks Release(RequestId request, KvAction) override {
    pending_ += std::exchange(held_[request.value], 0);
    return {0};
  }
  void Settle() { free_ += std::exchange(pending_, 0); }

 private:
  std::int32_t free_ = 64, pending_ = 0;
  std::map<std::uint64_t, std::int32_t> held_;
};

// A host under random load; returns its log.
std::string RecordHost(std::uint64_t seed, RecorderOptions recorder_options = {}, bool with_oracle = false,
                       int steps = 120) {
  Random random(seed);
  std::string log;
  Recorder recorder([&log](std::string_view bytes) { log += bytes; }, recorder_options);
  SchedulerOptions options;
  options.max_running = 8;
  options.kv = with_oracle ? KvMode::kOracle : KvMode::kLedger;
  options.kv_blocks = {64};
  options.cpu_blocks = {32};
  options.preempt = PreemptMode::kByRank;
  options.reserve_requests = 16;
  CountingOracle oracle;
  auto scheduler = Recorded<Scheduler>::Create(recorder, options, AnyPolicy(Sjf{}), AnyPause(DropAll{}),
                                               with_oracle ? &oracle : nullptr);
  REQUIRE(scheduler.ok());
  std::uint64_t last_id = 0;
  std::vector<KvMove> moves;
  std::vector<RowResult> rows;
  for (int i = 0; i < steps; ++i) {
    const TimePoint now = At(0.01 * i);
    for (std::uint64_t n = random.Below(3); n > 0; --n) {
      Arrived arrived;
      arrived.request.id = {++last_id};
      arrived.request.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(200))};
      arrived.request.output_tokens = Estimate::Exact(static_cast<double>(random.Below(50)));
      scheduler->On(arrived, now);
    }
    const RequestId some{1 + random.Below(last_id + 1)};
    if (random.Chance(0.1)) scheduler->On(Cancelled{some}, now);
    if (random.Chance(0.1)) scheduler->On(ToolCalled{some, {}, {}}, now);
    if (random.Chance(0.2)) scheduler->On(ToolReturned{some, {5}}, now);
    if (random.Chance(0.02)) scheduler->ChangePolicy(Fcfs{}, now);
    for (const KvMove& move : std::exchange(moves, {})) scheduler->On(MoveDone{move.id, random.Chance(0.1)}, now);
    oracle.Settle();
    if (with_oracle) scheduler->On(KvFreed{}, now);
    const StepPlan& plan = scheduler->Plan(now, {.tokens = {256}, .max_seqs = 6});
    moves.assign(plan.moves.begin(), plan.moves.end());
    rows.clear();
    for (const PlanEntry& e : plan.run) {
      const bool last = e.samples() && random.Chance(0.1);
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
    }
    if (!plan.run.empty()) scheduler->Commit({plan.id, rows}, now + FromSeconds(0.005));
    static_cast<void>(scheduler->scheduler().kv());  // asks the oracle between operations
  }
  REQUIRE(scheduler->scheduler().stats().finished > static_cast<std::uint64_t>(steps) / 40);
  recorder.Flush();
  CHECK(recorder.bytes().empty());
  return log;
}

TEST_CASE("a log replays to the same plans") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const bool contents : {false, true}) {
      const std::string log = RecordHost(seed, {.plan_contents = contents});
      const auto replay = ReplayLog(log);
      REQUIRE(replay.ok());
      INFO((replay->difference ? replay->difference->what : ""));
      CHECK(!replay->difference);
      CHECK(replay->plans == 120);
      CHECK(replay->plans_compared == 120);
      CHECK(replay->events > 120);
      CHECK(!replay->truncated);
      CHECK(replay->bytes == log.size());
      CHECK(replay->stats.finished > 5);
    }
  }
}

TEST_CASE("a log replays without the host's oracle") {
  const std::string log = RecordHost(1, {}, true);
  const auto replay = ReplayLog(log);
  REQUIRE(replay.ok());
  INFO((replay->difference ? replay->difference->what : ""));
  CHECK(!replay->difference);
  CHECK(replay->plans_compared == 120);
  CHECK(replay->stats.finished > 5);
}

// Agents with random turns, ends and losses, under a gate. Returns their log.
std::string RecordTurns(std::uint64_t seed, const AnyRetention& retention, const AnyGate& gate,
                        const ReturnTimesOptions& times, Stats* stats) {
  constexpr std::int32_t kBlock = 16;
  Random random(seed);
  Recorder recorder;
  SchedulerOptions options;
  options.kv_blocks = {60};
  options.prefix_cache = true;
  options.reserve_requests = 16;
  auto scheduler = Recorded<Scheduler>::Create(recorder, options, AnyPolicy(Fcfs{}));
  REQUIRE(scheduler.ok());
  REQUIRE(scheduler->SetRetention(retention, gate, times).ok());
  std::map<std::uint64_t, std::int32_t> blocks_of;
  std::vector<RowResult> rows;
  std::uint64_t last_id = 0;
  TimePoint now = At(1);
  for (int i = 0; i < 500; ++i) {
    now += FromSeconds(2 * random.Uniform());
    const WorkflowId workflow{1 + random.Below(8)};
    const std::uint64_t branch = random.Below(2);
    switch (random.Below(10)) {
      case 0:
      case 1:
      case 2: {
        std::int32_t& blocks = blocks_of[workflow.value * 10 + branch];
        blocks = random.Chance(0.1) ? 1 : std::min(blocks + static_cast<std::int32_t>(random.Below(6)) + 1, 30);
        std::vector<std::uint64_t> hashes;
        for (std::int32_t b = 0; b < blocks; ++b)
          hashes.push_back(Mix64((workflow.value * 100 + branch) * 10'000 + static_cast<std::uint64_t>(b)));
        Arrived arrived;
        arrived.request.id = {++last_id};
        arrived.request.workflow = workflow, arrived.request.branch = branch;
        arrived.request.prompt_tokens = {blocks * kBlock};
        arrived.request.prefix = {{kBlock}, hashes};
        scheduler->On(arrived, now);
        break;
      }
      case 3:
        if (random.Chance(0.2)) scheduler->On(TurnExpected{workflow, branch, now + FromSeconds(random.Uniform())}, now);
        scheduler->On(TurnEnded{.workflow = workflow,
                                .branch = branch,
                                .why = static_cast<TurnWhy>(random.Below(5)),
                                .tool = {random.Below(3)},
                                .expected = FromSeconds(random.Chance(0.3) ? random.Uniform() : 0),
                                .pin = FromSeconds(random.Chance(0.3) ? random.Uniform() : 0)},
                      now);
        break;
      case 4:
        if (random.Chance(0.3)) scheduler->On(WorkflowEnded{workflow}, now);
        break;
      case 5:
        if (random.Chance(0.3)) scheduler->On(Cancelled{{1 + random.Below(last_id + 1)}}, now);
        break;
      case 6:
        if (random.Chance(0.1)) scheduler->On(KvLost{}, now);
        break;
      default: {
        const StepPlan& plan = scheduler->Plan(now, {.tokens = {300}});
        rows.clear();
        for (const PlanEntry& e : plan.run) {
          const bool last = e.samples() && random.Chance(0.3);
          rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                          static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
        }
        if (!plan.run.empty()) scheduler->Commit({plan.id, rows}, now);
      }
    }
  }
  *stats = scheduler->scheduler().stats();
  return std::string(recorder.bytes());
}

TEST_CASE("a log of turns with a gate replays to the same plans") {
  const HoldValue value{.alpha_ms = 21.1, .beta_ns = 5};
  const Price price{.share = 0.2, .after_s = 5, .value = value};
  const ReturnTimesOptions quick{.classes = 6, .window = 20, .prior_weight = 0.5, .refresh = 1};
  LogReplayOptions open;
  open.make_gate = [](std::string_view) { return AnyGate(); };
  std::uint64_t refused = 0, otherwise = 0, times_matter = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Stats stats;
    const std::string log = RecordTurns(seed, value, price, quick, &stats);
    const auto replay = ReplayLog(log);
    REQUIRE(replay.ok());
    INFO((replay->difference ? replay->difference->what : ""));
    CHECK(!replay->difference);
    CHECK(replay->plans == replay->plans_compared);
    CHECK(replay->stats == stats);
    CHECK(replay->retention == AnyRetention(value).spec());
    CHECK(replay->gate == AnyGate(price).spec());
    refused += stats.gate_refused;
    // The gate and the return times influence these plans.
    const auto without = ReplayLog(log, open);
    REQUIRE(without.ok());
    otherwise += without->difference.has_value();
    Stats slow;
    RecordTurns(seed, value, price, {}, &slow);
    times_matter += slow != stats;
  }
  CHECK(refused > 20);
  CHECK(otherwise > 0);
  CHECK(times_matter > 0);
}

TEST_CASE("refused retention is not logged, and a host's own is requested") {
  SchedulerOptions options;
  options.kv_blocks = {60};
  Recorder recorder;
  auto scheduler = Recorded<Scheduler>::Create(recorder, options, AnyPolicy(Fcfs{}));
  const std::size_t start = recorder.bytes().size();
  CHECK(absl::IsInvalidArgument(scheduler->SetRetention(HoldValue{})));
  CHECK(recorder.bytes().size() == start);

  Recorder own;
  options.prefix_cache = true;
  own.Start(options, "fcfs", "keep_all");
  AnyRetention of_the_host;
  of_the_host.Rename("", "of_the_host");
  own.SetRetention(of_the_host, {}, {});
  const auto unknown = ReplayLog(own.bytes());
  REQUIRE(!unknown.ok());
  CHECK(std::string(unknown.status().message()).find("of_the_host") != std::string::npos);
  LogReplayOptions made;
  made.make_retention = [](std::string_view spec) { return spec == "of_the_host" ? AnyRetention() : HoldValue{}; };
  CHECK(ReplayLog(own.bytes(), made).ok());
}

TEST_CASE("invalid return times in a log are refused by name") {
  SchedulerOptions options;
  options.kv_blocks = {60};
  options.prefix_cache = true;
  const auto replayed = [&](const ReturnTimesOptions& times) {
    Recorder recorder;
    recorder.Start(options, "fcfs", "keep_all");
    recorder.SetRetention(AnyRetention(), {}, times);
    return ReplayLog(recorder.bytes()).status();
  };
  CHECK(replayed({}).ok());
  CHECK(replayed({.classes = LogRetention::kMostClasses}).ok());
  const absl::Status many = replayed({.classes = 4'000'000'000u});
  CHECK(absl::IsDataLoss(many));
  CHECK(std::string(many.message()).find("classes=4000000000") != std::string::npos);
  CHECK(absl::IsDataLoss(replayed({.window = std::numeric_limits<double>::quiet_NaN()})));
  CHECK(absl::IsDataLoss(replayed({.prior_weight = std::numeric_limits<double>::infinity()})));
  Recorder early;
  early.SetRetention(AnyRetention(), {}, {});
  CHECK(absl::IsDataLoss(ReplayLog(early.bytes()).status()));
}

TEST_CASE("a compile-time scheduler's log replays with the erased one") {
  Recorder recorder;
  SchedulerOptions options;
  options.kv_blocks = {100};
  auto scheduler = Recorded<BasicScheduler<Sjf, DropAll>>::Create(recorder, options, Sjf{}, DropAll{});
  REQUIRE(scheduler.ok());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Arrived arrived;
    arrived.request.id = {id};
    arrived.request.prompt_tokens = {10};
    arrived.request.output_tokens = Estimate::Exact(static_cast<double>(9 - id));
    scheduler->On(arrived, At(1));
  }
  const StepPlan& plan = scheduler->Plan(At(1), {.max_seqs = 1});
  REQUIRE(plan.run.size() == 1);
  CHECK(plan.run[0].request == RequestId{3});
  const auto replay = ReplayLog(recorder.bytes());
  REQUIRE(replay.ok());
  CHECK(replay->plans_compared == 1);
  CHECK(!replay->difference);
}

TEST_CASE("a scheduler that is not created leaves the log empty") {
  for (const bool sinks : {false, true}) {
    CAPTURE(sinks);
    std::string sunk;
    Recorder recorder(sinks ? [&](std::string_view bytes) { sunk += bytes; } : Recorder::Sink(), {.flush_bytes = 0});
    CHECK_FALSE(Recorded<Scheduler>::Create(recorder, {.kv_blocks = {-8}}, Fcfs{}).ok());
    auto scheduler = Recorded<Scheduler>::Create(recorder, {.kv_blocks = {100}}, Fcfs{});
    REQUIRE(scheduler.ok());
    CHECK(scheduler->Plan(At(1), {}).run.empty());
    recorder.Flush();
    const auto replay = ReplayLog(sunk + std::string(recorder.bytes()));
    REQUIRE(replay.ok());
    CHECK(replay->plans == 1);
    CHECK(!replay->difference);
  }
}

TEST_CASE("with flush_bytes 0 the sink gets every record at once") {
  std::vector<std::size_t> sizes;
  Recorder recorder([&](std::string_view bytes) { sizes.push_back(bytes.size()); }, {.flush_bytes = 0});
  recorder.Start({}, "sjf", "keep_all");
  recorder.Done();
  recorder.Plan(At(1), {});
  CHECK(sizes.size() == 2);
  recorder.Planned({});
  CHECK(sizes.size() == 3);
  CHECK(recorder.bytes().empty());
}

TEST_CASE("a scheduler that decides otherwise is found, with step and part") {
  LogReplayOptions otherwise;
  otherwise.make_policy = [](std::string_view) { return AnyPolicy(Fcfs{}); };
  for (const bool contents : {false, true}) {
    const auto replay = ReplayLog(RecordHost(2, {.plan_contents = contents}), otherwise);
    REQUIRE(replay.ok());
    REQUIRE(replay->difference);
    CHECK(replay->difference->step.value == static_cast<std::uint64_t>(replay->plans));
    CHECK(replay->difference->step.value > 1);
    CHECK(replay->plans < 120);
    CHECK(!replay->difference->what.empty());
  }
}

TEST_CASE("a truncated log replays up to the cut") {
  const std::string log = RecordHost(3, {}, false, 30);
  const std::size_t header = 9;
  std::int64_t events = 0, whole = 0;
  for (std::size_t cut = header; cut <= log.size(); ++cut) {
    INFO("cut at " << cut);
    const auto replay = ReplayLog(std::string_view(log).substr(0, cut));
    REQUIRE(replay.ok());
    REQUIRE(!replay->difference);
    REQUIRE(replay->events >= events);
    events = replay->events;
    REQUIRE(replay->truncated == (replay->bytes != cut));
    whole += replay->truncated ? 0 : 1;
  }
  CHECK(whole > 60);
  CHECK(!ReplayLog(std::string_view(log).substr(0, header - 1)).ok());
}

TEST_CASE("a damaged log is an error with its byte, or a cut") {
  const std::string log = RecordHost(4, {}, false, 12);
  std::vector<std::size_t> starts;  // of records
  for (auto reader = *LogReader::Open(log);;) {
    starts.push_back(reader.offset());
    if (!*reader.Next()) break;
  }
  const std::size_t header = starts.front();
  for (std::size_t at = 0; at < log.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = log;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto replay = ReplayLog(damaged);
      INFO("byte " << at << ", bit " << bit);
      if (at < header) {
        REQUIRE(!replay.ok());
        continue;
      }
      const std::size_t start = *std::prev(std::ranges::upper_bound(starts, at));
      if (replay.ok()) {
        REQUIRE(replay->truncated);
        REQUIRE(replay->bytes == start);
        REQUIRE(log.size() - start < 200);
      } else {
        REQUIRE(std::string(replay.status().message()).find(" byte " + std::to_string(start) + ":") !=
                std::string::npos);
      }
    }
  }
}

TEST_CASE("garbage is refused") {
  CHECK(!LogReader::Open("").ok());
  CHECK(!LogReader::Open("takt log").ok());
  CHECK(!LogReader::Open("something else entirely").ok());
  const auto newer = LogReader::Open(std::string("takt log") + '\x02');
  REQUIRE(!newer.ok());
  CHECK(std::string(newer.status().message()).find("version 2") != std::string::npos);
  const auto empty = ReplayLog(std::string("takt log") + '\x01');
  REQUIRE(empty.ok());
  CHECK(empty->plans == 0);
}

TEST_CASE("a short log replays with little memory under any options") {
  for (const bool tier : {false, true}) {
    SchedulerOptions options;
    options.max_running = 1 << 20;
    options.reserve_requests = 1 << 28;
    options.kv_blocks = Blocks::Max();
    options.kv_block_tokens = {1 << 20};
    options.prefix_cache = true;
    options.admission_window = std::numeric_limits<std::int32_t>::max();
    options.max_waiting = 0;
    options.shed = Shed::kWorst;
    if (tier) options.cpu_blocks = options.prefix_cpu_blocks = Blocks::Max();
    Recorder recorder;
    recorder.Start(options, tier ? "fair_share" : "footprint", "keep_all");
    recorder.Plan(At(1), {});
    const std::string log(recorder.bytes());
    const std::size_t before = allocated_bytes;
    const auto replay = ReplayLog(log);
    INFO(replay.status().message() << ", " << log.size() << " bytes");
    REQUIRE(replay.ok());
    CHECK(replay->plans == 1);
    CHECK(allocated_bytes - before < 4'000'000);
  }
}

TEST_CASE("a scheduler with little reserved plans as one with much") {
  const auto run = [](std::int64_t reserved) {
    SchedulerOptions options;
    options.reserve_requests = reserved;
    options.kv_blocks = {4096};
    Scheduler scheduler = *Scheduler::Create(options);
    std::vector<PlanDigest> plans;
    for (std::uint64_t step = 0; step < 200; ++step) {
      const TimePoint now = At(static_cast<double>(step));
      for (std::uint64_t i = 0; i < step % 40; ++i) {
        scheduler.On(Arrived{{.id = {1000 * step + i + 1}, .prompt_tokens = {20}, .max_output_tokens = {30}}}, now);
      }
      const StepPlan& plan = scheduler.Plan(now, {.tokens = {4096}, .max_seqs = 1024});
      plans.push_back(Digest(plan));
      std::vector<RowResult> rows;
      for (const PlanEntry& e : plan.run) rows.push_back({.request = e.request, .lane = e.lane, .tokens = e.samples()});
      scheduler.Commit({plan.id, rows}, now);
    }
    REQUIRE(scheduler.Inconsistency() == nullptr);
    REQUIRE(scheduler.running() > 400);
    return plans;
  };
  const std::vector<PlanDigest> much = run(1 << 14);
  CHECK(run(0) == much);
  CHECK(run(1) == much);
}

TEST_CASE("records in an impossible order are errors") {
  Recorder recorder;
  recorder.Commit({}, {});
  CHECK(ReplayLog(recorder.bytes()).status().code() == absl::StatusCode::kDataLoss);
  Recorder unknown;
  unknown.Start({}, "a policy of the host's own", "keep_all");
  CHECK(!ReplayLog(unknown.bytes()).ok());
}

TEST_CASE("a dump has one line per record") {
  Recorder recorder;
  SchedulerOptions options;
  options.kv_blocks = {100};
  recorder.Start(options, "sjf", "keep_all");
  recorder.SetRetention(HoldValue{.alpha_ms = 0.25}, Price{.share = 0.5}, {.window = 100});
  Arrived arrived;
  arrived.request.id = {7};
  arrived.request.prompt_tokens = {300};
  arrived.request.output_tokens = Estimate::Exact(12.5);
  recorder.On(arrived, At(1.5));
  recorder.On(TurnEnded{{3}, 1, TurnWhy::kTool, {2}}, At(1.5));
  recorder.On(WorkflowEnded{{3}}, At(1.5));
  recorder.ChangePolicy(Fcfs{}, At(2));
  recorder.On(Drain{}, At(2));
  recorder.Plan(At(2), {});
  recorder.Planned({});
  const std::vector<RowResult> rows = {{{7}, 1, 1, 0, 1}};
  recorder.Commit({{3}, rows}, At(3));
  std::string text;
  const auto append = [&text](std::string_view line) { text += std::string(line) + '\n'; };
  CHECK(DumpLog(recorder.bytes(), append).ok());
  CHECK(text ==
        "start policy=sjf pause=keep_all kv_blocks=100\n"
        "0.000000000s retention_set retention=hold_value(alpha_ms=0.25) gate=price(share=0.5) times={window=100}\n"
        "1.500000000s arrived request={id=7 prompt_tokens=300 output_tokens=12.5}\n"
        "1.500000000s turn_ended workflow=3 branch=1 why=tool tool=2\n"
        "1.500000000s workflow_ended workflow=3\n"
        "2.000000000s policy_changed policy=fcfs\n"
        "2.000000000s drain\n"
        "2.000000000s plan\n"
        "  step\n"
        "3.000000000s commit step=3 rows=[{request=7 lane=1 tokens=1 flags=1}]\n");
  text.clear();
  const std::string_view all = recorder.bytes();
  CHECK(DumpLog(all.substr(0, all.size() - 1), append).ok());
  CHECK(text.find("(truncated at byte") != std::string::npos);
}

}  // namespace
}  // namespace takt
