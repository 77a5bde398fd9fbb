// The engine's answers are the same with every plan of takt.
#include "engine.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alone.h"
#include "catch.h"
#include "paged_compute.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/registry.h"
#include "with_rivals.h"

namespace tiny {
namespace {

using takt::Random;
using takt::RequestId;

constexpr std::size_t kMaxContext = 128;

const Model& TestModel() {
  static const Model model = Model::Random({.layers = 2,
                                            .hidden = 32,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .ffn = 48,
                                            .vocab = 96,
                                            .max_context = kMaxContext,
                                            .tied = false},
                                           11);
  return model;
}

std::vector<std::int32_t> RandomTokens(Random& random, std::uint64_t n) {
  std::vector<std::int32_t> tokens(n);
  for (std::int32_t& t : tokens) t = static_cast<std::int32_t>(random.Below(96));
  return tokens;
}

const KvMemory& Kv(const Engine& engine) { return static_cast<const PagedCompute&>(engine.kv()).kv(); }

// An engine in virtual time with one millisecond a step, and its output.
class Bench {
 public:
  explicit Bench(EngineOptions options) {
    options.clock = [this] { return takt::TimePoint(takt::Duration(now_.load())); };
    options.output = [this](const Output& output) { Hear(output); };
    auto engine = Engine::Create(TestModel(), std::move(options));
    REQUIRE(engine.ok());
    engine_ = *std::move(engine);
  }

  Engine& engine() { return *engine_; }
  takt::TimePoint now() const { return takt::TimePoint(takt::Duration(now_.load())); }
  const std::vector<Sample>& tokens(RequestId id) { return heard_[id].tokens; }
  End end(RequestId id) { return heard_[id].end; }

  // Serves for a step, or sleeps until the next event, `event` at the latest. Returns false if there is none.
  bool Step(takt::TimePoint event = takt::kNever) {
    const bool busy = engine_->Step();
    const char* fault = engine_->scheduler().Inconsistency();
    if (fault == nullptr) fault = Kv(*engine_).Inconsistency();
    if (fault != nullptr) FAIL(fault);
    if (busy) return now_ += 1'000'000, true;
    const takt::TimePoint wake = std::min(event, engine_->wake_at());
    if (wake == takt::kNever) return false;
    now_ = std::max(now_.load(), wake.time_since_epoch().count());
    return true;
  }

 private:
  struct Heard {
    std::vector<Sample> tokens;
    End end = End::kNotYet;
  };

  void Hear(const Output& output) {
    Heard& heard = heard_[output.request];
    if (heard.end != End::kNotYet) FAIL("a request that has ended is heard of again");
    if (output.token >= 0) heard.tokens.push_back({output.token, output.logit});
    heard.end = output.end;
  }

  std::atomic<std::int64_t> now_ = 0;  // the worker of a running step reads it, too
  std::map<RequestId, Heard> heard_;
  std::unique_ptr<Engine> engine_;
};

struct Client {
  EngineRequest request;
  takt::TimePoint arrival;
  std::optional<std::size_t> leaves_after;  // tokens
  std::vector<Sample> alone;
};

std::vector<Client> RandomClients(Random& random, std::size_t n) {
  std::vector<std::vector<std::int32_t>> openings;
  for (int i = 0; i < 4; ++i) openings.push_back(RandomTokens(random, 12 + random.Below(24)));
  std::vector<Client> clients(n);
  takt::TimePoint at{};
  for (std::size_t i = 0; i < n; ++i) {
    Client& c = clients[i];
    at += takt::Duration(static_cast<std::int64_t>(3e6 * random.Exponential()));
    c.arrival = at;
    EngineRequest& r = c.request;
    r.about.id = {i + 1};
    r.about.workflow = {1 + random.Below(10)};
    r.about.tenant = {1 + random.Below(3)};
    r.about.priority = static_cast<std::int32_t>(random.Below(3));
    r.about.chunkable = !random.Chance(0.05);
    r.about.preemptible = i != 7;  // two such requests may need each other's memory, and one would have to fail
    if (random.Chance(0.6)) r.prompt = openings[random.Below(openings.size())];
    const auto own = RandomTokens(random, 1 + random.Below(20));
    r.prompt.insert(r.prompt.end(), own.begin(), own.end());
    r.max_output_tokens = static_cast<std::int32_t>(1 + random.Below(24));
    if (random.Chance(0.3)) r.end_token = static_cast<std::int32_t>(random.Below(96));
    for (std::int32_t after = 1; random.Chance(0.3) && r.tools.size() < 2;) {
      after += static_cast<std::int32_t>(random.Below(6));
      r.tools.push_back({after, takt::Duration(static_cast<std::int64_t>(random.Below(30) * 1'000'000)),
                         RandomTokens(random, random.Below(10))});
    }
    if (random.Chance(0.5)) r.about.max_output_tokens = {r.max_output_tokens};
    r.about.output_tokens = takt::Estimate::Exact(static_cast<double>(r.max_output_tokens));
    r.about.workflow_tokens_left =
        takt::Estimate::Exact(static_cast<double>(r.max_output_tokens + static_cast<std::int32_t>(random.Below(50))));
    if (random.Chance(0.08)) c.leaves_after = random.Below(static_cast<std::uint64_t>(r.max_output_tokens));
    c.alone = Alone(TestModel(), r);
  }
  return clients;
}

EngineOptions RandomOptions(Random& random) {
  static const std::vector<takt::PolicyInfo> policies = takt::PolicyInfos();
  constexpr std::int32_t kLongest = 100;  // tokens of context
  EngineOptions o;
  o.policy = policies[random.Below(policies.size() - 2)].name;
  if (random.Chance(0.4)) o.policy = "aged(" + o.policy + ")";
  constexpr const char* kPauses[] = {"keep_all", "drop_all", "swap_all"};
  o.pause = kPauses[random.Below(3)];
  o.block_tokens = {static_cast<std::int32_t>(1 + random.Below(12))};
  const std::int32_t one = kLongest / o.block_tokens.value + 1;
  o.gpu_blocks = {one + static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(2 * one)))};
  if (random.Chance(0.8)) o.cpu_blocks = {static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(6 * one)))};
  o.prefix_cache = random.Chance(0.7);
  o.overlap = random.Chance(0.5);
  o.awake = random.Chance(0.2);
  o.threads = 1 + random.Below(2);
  o.scheduler.order = random.Chance(0.5) ? takt::StepOrder::kRunningFirst : takt::StepOrder::kPrefillFirst;
  o.scheduler.preempt = random.Chance(0.1)   ? takt::PreemptMode::kOff
                        : random.Chance(0.5) ? takt::PreemptMode::kOnMemory
                                             : takt::PreemptMode::kByRank;
  o.scheduler.preempt_action = random.Chance(0.6) ? takt::KvAction::kOut : takt::KvAction::kDrop;
  if (o.cpu_blocks.value == 0) o.scheduler.preempt_action = takt::KvAction::kDrop;
  o.limits.tokens = {static_cast<std::int32_t>(64 + random.Below(200))};  // a prompt that is not chunkable must fit
  o.limits.max_seqs = static_cast<std::int32_t>(2 + random.Below(24));
  if (random.Chance(0.7)) o.limits.chunk_tokens = {static_cast<std::int32_t>(1 + random.Below(30))};
  if (random.Chance(0.2)) o.limits.swap_in = o.limits.swap_out = {static_cast<std::int32_t>(one)};
  return o;
}

// Serves all clients and compares every answer with the one served alone. Returns the engine's counts.
EngineCounters Serve(Bench& bench, std::vector<Client>& clients) {
  std::size_t next = 0;
  int rounds = 0;
  do {
    REQUIRE(++rounds < 20'000);  // otherwise it makes no progress
    for (; next < clients.size() && clients[next].arrival <= bench.now(); ++next) {
      REQUIRE(bench.engine().Submit(clients[next].request).ok());
    }
    for (std::size_t i = 0; i < next; ++i) {
      const Client& c = clients[i];
      const RequestId id = c.request.about.id;
      if (c.leaves_after && bench.end(id) == End::kNotYet && bench.tokens(id).size() >= *c.leaves_after) {
        bench.engine().Cancel(id);
      }
    }
  } while (bench.Step(next < clients.size() ? clients[next].arrival : takt::kNever));

  for (const Client& c : clients) {
    const RequestId id = c.request.about.id;
    const std::vector<Sample>& tokens = bench.tokens(id);
    INFO("request " << id.value);
    const bool left = bench.end(id) == End::kCancelled;
    if (left) CHECK(c.leaves_after);
    if (!left) {
      CHECK(bench.end(id) == (c.alone.back().token == c.request.end_token ? End::kEndToken : End::kLength));
      CHECK(tokens.size() == c.alone.size());
    }
    CHECK(std::equal(tokens.begin(), tokens.end(), c.alone.begin(),
                     c.alone.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), c.alone.size()))));
  }
  const Engine& engine = bench.engine();
  CHECK(engine.empty());
  CHECK(engine.idle() == takt::Idle::kNoRequests);
  CHECK(Kv(engine).free_blocks() == Kv(engine).total_blocks());
  CHECK(Kv(engine).cpu_free() == engine.options().cpu_blocks);
  const takt::Stats& stats = engine.scheduler().stats();
  CHECK(stats.events_unknown + stats.events_out_of_place + stats.rows_unknown + stats.rows_invalid == 0);
  CHECK(stats.commits_unknown + stats.oracle_refused + stats.clock_stepped_back == 0);
  return engine.counters();
}

TEST_CASE("every request is answered as if alone, with random plans") {
  const std::int64_t configurations = takt::Scaled(50);
  constexpr std::size_t kClients = 46;
  const std::vector<std::pair<const char*, std::int64_t EngineCounters::*>> features = {
      {"preempted, recompute", &EngineCounters::preempted_recompute},
      {"preempted, swap", &EngineCounters::preempted_swap},
      {"swapped out", &EngineCounters::swapped_out},
      {"swapped in", &EngineCounters::swapped_in},
      {"chunked", &EngineCounters::chunked},
      {"tool call, KV kept", &EngineCounters::tools_kept},
      {"tool call, KV dropped", &EngineCounters::tools_dropped},
      {"tool call, KV swapped", &EngineCounters::tools_swapped},
      {"steps overlapped", &EngineCounters::overlapped},
      {"entries void", &EngineCounters::entries_void},
      {"cancelled", &EngineCounters::cancelled},
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> seen(features.size() + 1);  // in configurations, and in total
  std::int64_t finished = 0, steps = 0, rows = 0;
  const auto see = [&seen](std::size_t i, std::int64_t count) {
    seen[i].first += count > 0 ? 1 : 0;
    seen[i].second += count;
  };
  for (std::int64_t seed = 0; seed < configurations; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const EngineOptions options = RandomOptions(random);
    std::vector<Client> clients = RandomClients(random, kClients);
    INFO("seed " << seed << ", policy " << options.policy << ", pause " << options.pause);
    Bench bench(options);
    const EngineCounters counters = Serve(bench, clients);
    for (std::size_t i = 0; i < features.size(); ++i) see(i, counters.*features[i].second);
    see(features.size(), Kv(bench.engine()).reused_tokens());
    finished += counters.finished, steps += counters.steps, rows += counters.rows;
  }
  std::printf("%-26s %14s %10s\n", "feature", "configurations", "times");
  for (std::size_t i = 0; i <= features.size(); ++i) {
    const char* name = i < features.size() ? features[i].first : "prefix tokens reused";
    std::printf("%-26s %14lld %10lld\n", name, static_cast<long long>(seen[i].first),
                static_cast<long long>(seen[i].second));
    if (configurations >= 50) CHECK(seen[i].first >= 10);
  }
  if (configurations >= 50) CHECK(finished >= 2000);
  std::printf("%lld of %lld requests finished, %lld steps, %lld tokens computed\n", static_cast<long long>(finished),
              static_cast<long long>(configurations * static_cast<std::int64_t>(kClients)),
              static_cast<long long>(steps), static_cast<long long>(rows));
}

EngineRequest Ask(std::uint64_t id, std::vector<std::int32_t> prompt, std::int32_t output) {
  return {.about = {.id = {id}}, .prompt = std::move(prompt), .max_output_tokens = output};
}

TEST_CASE("a request that can never be served is refused with a reason") {
  Bench bench({.gpu_blocks = {4}});
  Engine& engine = bench.engine();
  const auto complaint = [&](EngineRequest r) { return std::string(engine.Submit(std::move(r)).message()); };
  CHECK(complaint(Ask(0, {1}, 1)).find("no id") != std::string::npos);
  CHECK(complaint(Ask(1, {}, 1)).find("empty prompt") != std::string::npos);
  CHECK(complaint(Ask(1, {96}, 1)).find("vocabulary") != std::string::npos);
  CHECK(complaint(Ask(1, {-1}, 1)).find("vocabulary") != std::string::npos);
  CHECK(complaint(Ask(1, {1}, 0)).find("max_output_tokens") != std::string::npos);
  CHECK(complaint(Ask(1, std::vector<std::int32_t>(100, 1), 29)).find("context") != std::string::npos);
  CHECK(engine.empty());
  CHECK(complaint(Ask(1, {1}, 3)).empty());
  CHECK(complaint(Ask(1, {1}, 3)).find("already") != std::string::npos);
  CHECK(complaint(Ask(2, std::vector<std::int32_t>(65, 1), 3)).empty());  // 5 blocks: the scheduler refuses
  while (bench.Step()) {
  }
  CHECK(bench.end({1}) == End::kLength);
  CHECK(bench.end({2}) == End::kFailed);
  CHECK(engine.empty());
  engine.On(takt::Drain{});
  CHECK(complaint(Ask(3, {1}, 1)).empty());
  while (bench.Step()) {
  }
  CHECK(bench.end({3}) == End::kFailed);
}

TEST_CASE("options are checked") {
  EngineOptions options;
  options.clock = [] { return takt::TimePoint{}; };
  options.output = [](const Output&) {};
  CHECK(Engine::Create(TestModel(), options).ok());
  const auto fails = [&](auto change) {
    EngineOptions wrong = options;
    change(wrong);
    return !Engine::Create(TestModel(), wrong).ok();
  };
  CHECK(fails([](EngineOptions& o) { o.policy = "luck"; }));
  CHECK(fails([](EngineOptions& o) { o.pause = "coffee"; }));
  CHECK(fails([](EngineOptions& o) { o.gpu_blocks = {0}; }));
  CHECK(fails([](EngineOptions& o) { o.cpu_blocks = {-1}; }));
  CHECK(fails([](EngineOptions& o) { o.block_tokens = {0}; }));
  CHECK(fails([](EngineOptions& o) { o.clock = nullptr; }));
}

TEST_CASE("an ended id may return, and the policy may change while serving") {
  for (bool overlap : {false, true}) {
    Bench bench({.gpu_blocks = {32}, .overlap = overlap});
    Engine& engine = bench.engine();
    Random random(5);
    const EngineRequest first = Ask(1, RandomTokens(random, 30), 9), second = Ask(2, RandomTokens(random, 20), 9);
    REQUIRE(engine.Submit(first).ok());
    REQUIRE(engine.Submit(second).ok());
    bench.Step();
    bench.Step();
    auto policy = takt::MakePolicy("sjf");
    REQUIRE(policy.ok());
    engine.ChangePolicy(*policy);
    engine.Cancel({1});
    engine.Cancel({1});
    engine.Cancel({77});
    while (bench.Step()) {
    }
    CHECK(bench.end({1}) == End::kCancelled);
    CHECK(bench.tokens({2}) == Alone(TestModel(), second));
    CHECK(engine.counters().cancelled == 1);
    REQUIRE(engine.empty());
  }
}

TEST_CASE("an engine may be destroyed while a step runs") {
  Bench bench({.overlap = true});
  REQUIRE(bench.engine().Submit(Ask(1, {1, 2, 3}, 5)).ok());
  bench.Step();
}

}  // namespace
}  // namespace tiny
