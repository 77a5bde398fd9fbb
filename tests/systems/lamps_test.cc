// LAMPS as one object: what it learns and predicts, its guard, and hosts that do anything.
#include "takt/systems/lamps.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt::systems {
namespace {

constexpr ToolId kSearch{1}, kHuman{2};
constexpr StepLimits kLimits{.tokens = {256}, .max_seqs = 32};

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Lamps Made(LampsOptions options = {}) {
  if (options.scheduler.kv_blocks.value == 0) options.scheduler.kv_blocks = {100};
  return *Lamps::Create(options);
}

// Runs one step; every sampling row yields a token. Rows of `last` end.
StepPlan Step(Lamps& lamps, TimePoint now, RequestId last = {}, StepLimits limits = kLimits) {
  const StepPlan& plan = lamps.Plan(now, limits);
  std::vector<RowResult> rows;
  for (const PlanEntry& e : plan.run) {
    const bool ends = e.request == last && e.samples();
    rows.push_back({e.request, e.lane, e.samples(), 0, static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
  }
  if (!plan.run.empty()) lamps.Commit({plan.id, rows}, now);
  return plan;
}

// A request that calls a tool after 5 tokens, gets an answer, and ends 3 tokens later.
void OneCall(Lamps& lamps, RequestId id, ToolId tool, double start, double seconds = 7, Tokens answer = {40}) {
  lamps.On(Arrived{{.id = id, .stage = {9}, .prompt_tokens = {30}, .next_call = {.tool = tool}}}, At(start));
  for (int i = 0; i < 5; ++i) Step(lamps, At(start));
  lamps.On(ToolCalled{.request = id}, At(start));  // the tool is known from the arrival
  lamps.On(ToolReturned{.request = id, .returned = answer}, At(start + seconds));
  for (int i = 0; i < 3; ++i) Step(lamps, At(start + seconds), i == 2 ? id : RequestId{});
  Step(lamps, At(start + seconds));
}

TEST_CASE("LAMPS learns the duration and the answer of a tool, the tokens before a call, and outputs") {
  Lamps lamps = Made();
  OneCall(lamps, {1}, kHuman, 0);
  const ToolExpectation& human = lamps.tools().Expect(kHuman);
  CHECK(human.observations == 1);
  CHECK(human.seconds.mean == 7);
  CHECK(human.returned_tokens.mean == 40);
  CHECK(human.tokens_before.mean == 5);
  CHECK(lamps.lengths().Expect({9}, 30).mean == 8);
  CHECK(lamps.lamps_stats() == LampsStats{.calls_learned = 1, .outputs_learned = 1});
  lamps.On(Arrived{{.id = {2}, .stage = {9}, .prompt_tokens = {30}, .next_call = {.tool = kHuman}}}, At(8));
  CHECK(lamps.lamps_stats().outputs_predicted == 1);
  CHECK(lamps.lamps_stats().calls_predicted == 1);
}

TEST_CASE("LAMPS learns outputs only of requests that the scheduler finished") {
  Lamps lamps = Made();
  const auto arrive = [&](std::uint64_t id, Tokens most = {0}) {
    lamps.On(Arrived{{.id = {id}, .stage = {9}, .prompt_tokens = {30}, .max_output_tokens = most}}, At(0));
  };
  const auto commit = [&](std::uint16_t tokens, std::uint8_t flags, std::uint64_t late = 0) {
    const StepPlan& plan = lamps.Plan(At(0), kLimits);
    REQUIRE(plan.run.size() == 1);
    const RowResult row{plan.run[0].request, plan.run[0].lane, tokens, 0, flags};
    lamps.Commit({{plan.id.value + late}, {&row, 1}}, At(0));
    if (late > 0) lamps.Commit({plan.id, {}, true}, At(0));
  };
  arrive(1);
  commit(1, RowResult::kFinished, 7);  // of an unknown step
  commit(500, RowResult::kFinished | RowResult::kFailed);  // an error code
  Step(lamps, At(0));
  CHECK(lamps.alive() == 0);
  arrive(2);
  commit(1, RowResult::kFinished, 7);
  lamps.On(Cancelled{{2}}, At(0));
  Step(lamps, At(0));
  CHECK(lamps.alive() == 0);
  CHECK(lamps.lamps_stats().outputs_learned == 0);
  CHECK_FALSE(lamps.lengths().Expect({9}, 30).known());
  arrive(3, {4});
  for (int i = 0; i < 4; ++i) lamps.Commit({lamps.Plan(At(0), kLimits).id, {}, true}, At(0));
  Step(lamps, At(0));
  Step(lamps, At(0));
  CHECK(lamps.alive() == 0);
  CHECK(lamps.lamps_stats().outputs_learned == 1);
  CHECK(lamps.lengths().Expect({9}, 30).mean == 4);
  arrive(4);
  commit(9, RowResult::kFinished);  // more tokens than the step can yield
  Step(lamps, At(0));
  CHECK(lamps.lamps_stats().outputs_learned == 2);
  CHECK(lamps.lengths().Expect({9}, 30).mean < 4);
}

TEST_CASE("LAMPS runs a request first that holds little memory for a short time, once it has learned the tools") {
  Lamps lamps = Made();
  const auto first = [&](double now) {
    // The same request but for its tool; the one that arrives first calls the slow tool.
    lamps.On(Arrived{{.id = {101}, .stage = {9}, .prompt_tokens = {30}, .next_call = {.tool = kHuman}}}, At(now));
    lamps.On(Arrived{{.id = {102}, .stage = {9}, .prompt_tokens = {30}, .next_call = {.tool = kSearch}}}, At(now));
    const StepPlan& plan = lamps.Plan(At(now), {.tokens = {256}, .max_seqs = 1});
    const RequestId ran = plan.run[0].request;
    lamps.On(Cancelled{{101}}, At(now));
    lamps.On(Cancelled{{102}}, At(now));
    lamps.Commit({plan.id, {}}, At(now));
    Step(lamps, At(now));
    REQUIRE(lamps.alive() == 0);
    return ran;
  };
  CHECK(first(0) == RequestId{101});  // nothing is known: first come, first served
  for (std::uint64_t id = 1; id < 20; ++id) {
    OneCall(lamps, {id}, kHuman, 10.0 * static_cast<double>(id));
    OneCall(lamps, {50}, kSearch, 10.0 * static_cast<double>(id) + 8, 0.1, {5});
  }
  CHECK(first(300) == RequestId{102});
  const std::string learned = lamps.Save();
  Lamps other = Made();
  REQUIRE(other.Load(learned).ok());
  CHECK(other.Save() == learned);
  std::swap(lamps, other);
  CHECK(first(0) == RequestId{102});
}

TEST_CASE("a promoted request keeps its promotion through tool calls, unless the option is the authors' code") {
  for (const auto at : {AgingOptions::AtToolCall::kResetCount, AgingOptions::AtToolCall::kReset}) {
    LampsOptions options{.threshold = 3, .at_tool_call = at};
    Lamps lamps = Made(options);
    constexpr StepLimits kOne{.tokens = {64}, .max_seqs = 1};
    const auto arrive = [&](std::uint64_t id, double output) {
      Request request{.id = {id}, .prompt_tokens = {10}, .output_tokens = Estimate::Exact(output)};
      lamps.On(Arrived{request}, At(0));
    };
    const auto call = [&] {
      lamps.On(ToolCalled{.request = {1}, .tool = kSearch}, At(0));
      lamps.On(ToolReturned{.request = {1}, .returned = {5}}, At(0));
    };
    arrive(1, 900);  // the worst rank
    Step(lamps, At(0), {}, kOne);
    std::uint64_t id = 2;
    arrive(id, 2);
    call();
    int steps = 0;
    for (; steps < 20 && !lamps.Explain({1}).promoted; ++steps) {  // each step ends a better request
      arrive(id + 1, 2);
      Step(lamps, At(0), {id++}, kOne);
    }
    CHECK(steps == 4);
    for (int i = 0; i < 3 && lamps.Explain({1}).status != RequestStatus::kRunning; ++i) Step(lamps, At(0), {id}, kOne);
    REQUIRE(lamps.Explain({1}).status == RequestStatus::kRunning);
    call();
    CHECK(lamps.Explain({1}).promoted == (at == AgingOptions::AtToolCall::kResetCount));
  }
}

TEST_CASE("the default options are the published system") {
  CHECK(LampsOptions{}.Policy().spec() ==
        "aged(memory_integral,quantum=forever,count_from=first_run,at_tool_call=reset_count)");
  CHECK(LampsOptions{}.Pause().spec() == "least_waste");
  CHECK(LampsOptions{.threshold = 0}.Policy().spec() == "memory_integral");
}

TEST_CASE("LAMPS refuses invalid options, and names them all") {
  LampsOptions options{.stall = -1, .refresh = -1, .threshold = -1};
  options.costs.pace.decode_s = -1;
  const std::string message(Lamps::Create(options).status().message());
  for (const char* field : {"stall", "refresh", "threshold", "costs.pace"}) {
    CHECK(message.find(field) != std::string::npos);
  }
}

TEST_CASE("LAMPS keeps what it has learned if bytes are damaged") {
  Lamps lamps = Made();
  OneCall(lamps, {1}, kHuman, 0);
  const std::string bytes = lamps.Save();
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 4)
    CHECK_FALSE(lamps.Load(bytes.substr(0, size)).ok());
  for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 60) {
    std::string damaged = bytes;
    damaged[i] ^= 0x10;
    CHECK_FALSE(lamps.Load(damaged).ok());
  }
  CHECK_FALSE(lamps.Load(lamps.tools().Save()).ok());
  CHECK(lamps.Save() == bytes);
  CHECK(lamps.Load(bytes).ok());
}

// Sends events in any order, about any request, and never waits for an answer. Requests end in exactly one way.
class AnyHost {
 public:
  explicit AnyHost(LampsOptions options, std::uint64_t seed = 3) : lamps_(Made(std::move(options))), random_(seed) {
    rows_.reserve(64);
  }

  void Step(bool hostile) {
    now_ = At(ToSeconds(now_) + 0.02);
    for (int i = 0; i < 100 && lamps_.alive() < 60; ++i) Arrive();  // at the end of time, all expire
    for (int i = 0; i < 4; ++i) Event(hostile);
    const StepPlan& plan = lamps_.Plan(now_, kLimits);
    rows_.clear();
    const bool dies = hostile && random_.Chance(0.01);  // the engine loses all rows of the step
    for (const PlanEntry& e : plan.run) {
      const bool ends = e.samples() && random_.Chance(0.05);
      const int flags = dies ? RowResult::kFailed : ends ? RowResult::kFinished : 0;
      rows_.push_back({e.request, e.lane, e.samples(), 0, static_cast<std::uint8_t>(flags)});
      hash_ = Mix64(hash_ ^ e.request.value ^ (static_cast<std::uint64_t>(e.tokens) << 32));
    }
    for (const KvMove& move : plan.moves) moves_.push_back(move.id);
    released_ += plan.released.size();
    if (!plan.run.empty()) lamps_.Commit({plan.id, rows_}, now_);
    for (const MoveId move : moves_) lamps_.On(MoveDone{move, random_.Chance(0.1)}, now_);
    moves_.clear();
  }

  // A damaged file changes nothing; an intact one is taken.
  void LoadFile() {
    const std::string bytes = lamps_.Save();
    std::string damaged = bytes;
    damaged[random_.Below(damaged.size())] ^= static_cast<char>(1 + random_.Below(255));
    if (random_.Chance(0.3)) damaged.resize(random_.Below(damaged.size()));
    REQUIRE_FALSE(lamps_.Load(damaged).ok());
    REQUIRE(lamps_.Save() == bytes);
    REQUIRE(lamps_.Load(bytes).ok());
  }

  // Lets all requests end.
  void Drain() {
    std::vector<RequestId> living;
    for (std::uint64_t id = 1; id <= 1'000'000; ++id) {
      if (lamps_.Explain({id}).status != RequestStatus::kUnknown) living.push_back({id});
    }
    for (int i = 0; i < 20'000 && lamps_.alive() > 0; ++i) {
      for (const RequestId id : living) lamps_.On(ToolReturned{id, {1}}, now_);
      const StepPlan& plan = lamps_.Plan(now_, kLimits);
      rows_.clear();
      for (const PlanEntry& e : plan.run) rows_.push_back({e.request, e.lane, e.samples(), 0, e.samples()});
      for (const KvMove& move : plan.moves) moves_.push_back(move.id);
      released_ += plan.released.size();
      if (!plan.run.empty()) lamps_.Commit({plan.id, rows_}, now_);
      for (const MoveId move : moves_) lamps_.On(MoveDone{move}, now_);
      moves_.clear();
    }
    released_ += lamps_.Plan(now_, kLimits).released.size();
  }

  const Lamps& lamps() const { return lamps_; }
  std::uint64_t arrived() const { return last_; }
  std::uint64_t released() const { return released_; }
  std::uint64_t hash() const { return hash_; }  // hash of all plans

 private:
  RequestId Any() {
    return {random_.Chance(0.05) ? random_.Below(1'000'000) : last_ - random_.Below(100) % (last_ + 1)};
  }
  ToolId AnyTool() { return {random_.Below(5)}; }

  void Arrive() {
    Request request{
        .id = {++last_}, .stage = {random_.Below(4)}, .prompt_tokens = {1 + static_cast<int>(random_.Below(90))}};
    if (random_.Chance(0.7)) request.next_call.tool = AnyTool();
    lamps_.On(Arrived{request}, now_);
  }

  void Event(bool hostile) {
    const Duration odd = hostile ? Duration(static_cast<std::int64_t>(random_.Below(UINT64_MAX))) : FromSeconds(1);
    const Tokens tokens{hostile && random_.Chance(0.2) ? static_cast<std::int32_t>(random_.Below(UINT64_MAX)) : 10};
    switch (random_.Below(7)) {
      case 0:
      case 1: lamps_.On(ToolCalled{Any(), random_.Chance(0.3) ? odd : Duration{}, {}, AnyTool()}, now_); break;
      case 2:
      case 3:
      case 4: lamps_.On(takt::Event(ToolReturned{Any(), tokens, {.tool = AnyTool()}}), now_); break;
      case 5:
        lamps_.On(Revised{.request = Any(), .next_call = NextCall{.tool = AnyTool(), .duration = odd}}, now_);
        break;
      case 6:
        if (hostile && random_.Chance(0.5)) lamps_.On(Arrived{{.id = Any(), .prompt_tokens = tokens}}, now_);
        else lamps_.On(Cancelled{Any()}, now_);
    }
    if (hostile && random_.Chance(0.02))
      now_ = TimePoint(Duration(static_cast<std::int64_t>(random_.Below(UINT64_MAX))));
  }

  Lamps lamps_;
  std::vector<RowResult> rows_;
  std::vector<MoveId> moves_;
  Random random_;
  TimePoint now_{};
  std::uint64_t last_ = 0, released_ = 0, hash_ = 0;
};

// The plans do not depend on the seed of the hashes.
TEST_CASE("LAMPS loses no request, whatever the host does") {
  for (std::int64_t seed = 1; seed <= Scaled(10); ++seed) {
    INFO("seed " << seed);
    std::uint64_t hashes[2] = {};
    for (std::uint64_t i = 0; i < 2; ++i) {
      AnyHost host({.scheduler = {.kv_blocks = {60}, .cpu_blocks = {60}, .hash_seed = i}, .threshold = 5},
                   static_cast<std::uint64_t>(seed));
      for (int step = 0; step < 2000; ++step) {
        host.Step(true);
        if (step % 500 == 0) REQUIRE(host.lamps().Inconsistency() == nullptr);
        if (step % 200 == 0) host.LoadFile();
      }
      hashes[i] = host.hash();
      host.Drain();
      REQUIRE(host.lamps().alive() == 0);
      REQUIRE(host.released() >= host.arrived());  // requests with random ids also end
      REQUIRE(host.lamps().lamps_stats().calls_learned > 50);
    }
    REQUIRE(hashes[0] == hashes[1]);
  }
}

TEST_CASE("after warm-up LAMPS allocates nothing") {
  AnyHost host({.scheduler = {.reserve_requests = 256, .kv_blocks = {60}, .cpu_blocks = {60}}, .threshold = 5});
  for (int i = 0; i < 3000; ++i) host.Step(false);
  const std::size_t warm = allocations;
  const LampsStats before = host.lamps().lamps_stats();
  for (int i = 0; i < 3000; ++i) host.Step(false);
  const std::size_t after = allocations;
  CHECK(after == warm);
  CHECK(host.lamps().lamps_stats().calls_learned > before.calls_learned + 100);
  CHECK(host.lamps().lamps_stats().outputs_learned > before.outputs_learned + 100);
}

}  // namespace
}  // namespace takt::systems
