// Cascadia as one object: the first plan, the sample, drift, replanning and the change of replicas; hosts that do
// anything.
#include "takt/systems/cascadia.h"

#include <cmath>
#include <deque>
#include <limits>
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

using Action = CascadiaAction;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

ServedModel Model(double token_ms) {
  Profile shape;
  shape.kv_capacity_tokens = 1000;
  shape.cost.served = {.constant_ms = token_ms};
  return {.name = {}, .shapes = {shape}, .max_seqs = 1};
}

CascadiaOptions Options() {
  CascadiaOptions options{.models = {Model(2), Model(20)}, .gpus = 6, .goal = {.quality_floor = 75}};
  options.plan.rates = {.runs = 4, .least_requests = 200, .most_requests = 400};
  options.plan.simulated = 0;
  options.drift = {.period = std::chrono::seconds(60), .score_share = 0.5};
  options.plan_requests = 40;
  options.reserve_requests = 256;
  return options;
}

double ScoreOf(std::uint64_t id, bool worse) {
  const double share = static_cast<double>(Mix64(id) >> 11) * 0x1p-53;
  return 100 * std::min(share * (worse ? 0.9 : 1.5), 1.0);
}

std::vector<CascadeSample> SampleOf(int n) {
  std::vector<CascadeSample> sample;
  for (int i = 0; i < n; ++i) sample.push_back({50, {50, 50}, {ScoreOf(static_cast<std::uint64_t>(i), false), 95}});
  return sample;
}

Cascadia Made(CascadiaOptions options = Options()) { return *Cascadia::Create(std::move(options), SampleOf(200), 3); }

void Work(Cascadia& cascadia, TimePoint now) {
  while (cascadia.HasWork(now)) {
    absl::StatusOr<CascadiaResult> result = Cascadia::Do(cascadia.TakeWork(now));
    if (result.ok()) cascadia.Apply(*std::move(result), now);
    else cascadia.GiveUp();
  }
}

// Answers every request at once, and counts its ends.
class Host {
 public:
  explicit Host(CascadiaOptions options = Options()) : cascadia(Made(std::move(options))) {}

  void Arrive(std::uint64_t id, bool worse = false) {
    worse_ = worse;
    CHECK(cascadia.OnArrived({.id = {id}, .prompt_tokens = {50}}, now));
    Run();
  }
  void Run() {
    Work(cascadia, now);
    for (bool more = true; more;) {
      const auto next = cascadia.Next(now);
      todo_.insert(todo_.end(), next.begin(), next.end());
      more = !todo_.empty();
      for (; !todo_.empty(); todo_.pop_front()) Do(todo_.front());
    }
  }

  Cascadia cascadia;
  TimePoint now{};
  std::map<std::uint64_t, int> ends;  // by request
  std::map<std::uint64_t, int> answered_by;
  std::vector<Action> changes;

 private:
  void Do(const Action& a) {
    const double score = a.model == 0 ? ScoreOf(a.request.value, worse_) : 95;
    switch (a.kind) {
      case Action::kServe: CHECK(cascadia.OnAnswered(a.request, a.model, {50}, now)); break;
      case Action::kJudge: CHECK(cascadia.OnJudged(a.request, a.model, score, now)); break;
      case Action::kAccept: answered_by[a.request.value] = a.model; [[fallthrough]];
      case Action::kFail: ++ends[a.request.value]; break;
      case Action::kStart:
        CHECK(cascadia.OnReplicaUp(a.instance, now));
        changes.push_back(a);
        break;
      case Action::kStop:
        CHECK(cascadia.OnReplicaDown(a.instance, now));
        changes.push_back(a);
        break;
      case Action::kCancel: break;
    }
  }

  std::deque<Action> todo_;
  bool worse_ = false;
};

TEST_CASE("Cascadia plans, routes by its thresholds, samples, and plans anew when scores change") {
  Host host;
  std::uint64_t id = 1;
  for (; id <= 1500; ++id) host.now = At(static_cast<double>(id) / 3), host.Arrive(id);
  REQUIRE(host.cascadia.stats().plans == 1);
  const double threshold = host.cascadia.stages()[0].accept_at;
  CHECK(threshold == host.cascadia.plan().thresholds[0]);
  CHECK(host.cascadia.stats().windows >= 5);
  CHECK(host.cascadia.stats().drifts == 0);
  CHECK(host.cascadia.stats().sampled > 600);  // both models answer half of the requests
  for (std::uint64_t i = 1; i < id; ++i) {
    REQUIRE(host.ends[i] == 1);
    REQUIRE(host.answered_by[i] == (ScoreOf(i, false) >= threshold ? 0 : 1));
  }
  for (; id <= 3000; ++id) host.now = At(static_cast<double>(id) / 3), host.Arrive(id, true);
  CHECK(host.cascadia.stats().plans == 2);
  CHECK(host.cascadia.last_drift().signs[0].feature == DriftFeature::kScore);
  CHECK(host.cascadia.stages()[0].accept_at > threshold + 5);
  CHECK_FALSE(host.cascadia.changing());
  std::map<int, int> replicas;
  for (const CascadiaReplica& r : host.cascadia.replicas()) ++replicas[r.model];
  for (int m = 0; m < 2; ++m) CHECK(replicas[m] == host.cascadia.plan().models[static_cast<std::size_t>(m)].gpus);

  // A restarted system plans by what was learned.
  Cascadia again = Made();
  REQUIRE(again.Load(host.cascadia.Save()).ok());
  CHECK(again.Save() == host.cascadia.Save());
  Work(again, At(0));
  CHECK(again.plan().thresholds == host.cascadia.plan().thresholds);
}

TEST_CASE("the paper's alternation plans, too, and a goal that no plan reaches leaves the object as it is") {
  CascadiaOptions options = Options();
  options.alternate = 5;
  Cascadia alternates = Made(options);
  Work(alternates, At(0));
  CHECK(alternates.stats().plans == 1);
  options.goal.quality_floor = 99;
  Cascadia impossible = Made(options);
  Work(impossible, At(0));
  CHECK(impossible.stats().plans == 0);
  CHECK_FALSE(impossible.HasWork(At(0)));
}

TEST_CASE("a lost replica is started again, and its requests go to others") {
  Host host;
  host.Arrive(1);
  Cascadia& c = host.cascadia;
  CHECK(c.OnArrived({.id = {2}, .prompt_tokens = {50}}, host.now));
  const auto next = c.Next(host.now);
  REQUIRE(next.size() == 1);
  const InstanceId lost = next[0].instance;
  CHECK(c.OnReplicaDown(lost, host.now));
  CHECK_FALSE(c.OnReplicaDown(lost, host.now));
  CHECK(c.stats().replicas_lost == 1);
  host.Run();
  CHECK(host.ends[2] == 1);
  CHECK(host.changes.back().model == 0);
  CHECK(host.changes.back().instance != lost);
}

CascadePlan PlanOf(int first, int second) {
  CascadePlan plan;
  plan.thresholds = {50};
  for (const int n : {first, second}) plan.models.emplace_back().replicas = {{0, n, 1}};
  return plan;
}

TEST_CASE("a plan applied during a change takes its place, and never needs more GPUs than there are") {
  for (const bool early : {false, true}) {  // planned before the first change began
    for (const int events : {0, 1, 2}) {
      Cascadia c = Made();
      std::deque<Action> todo;
      std::set<std::uint64_t> alive;
      const auto take = [&] {
        for (const Action& a : c.Next(At(0))) {
          if (a.kind == Action::kStart) alive.insert(a.instance.value);
          todo.push_back(a);
        }
        REQUIRE(alive.size() <= 6);
      };
      const auto answer = [&] {
        const Action a = todo.front();
        todo.pop_front();
        if (a.kind == Action::kStart) return c.OnReplicaUp(a.instance, At(0));
        alive.erase(a.instance.value);
        return c.OnReplicaDown(a.instance, At(0));
      };
      const auto change = [&](int first, int second) {
        return *Cascadia::ChangeTo(PlanOf(first, second), Options(), c.replicas());
      };
      c.Apply(change(1, 5), At(0));
      for (take(); !todo.empty(); take()) REQUIRE(answer());
      REQUIRE(c.replicas().size() == 6);
      CascadiaResult next = change(4, 2);
      c.Apply(change(2, 4), At(0));
      take();
      for (int i = 0; i < events; ++i, take()) REQUIRE(answer());
      REQUIRE(c.changing() == (events < 2));
      if (!early) next = change(4, 2);
      c.Apply(std::move(next), At(0));
      for (take(); !todo.empty(); take()) REQUIRE(answer());
      CHECK_FALSE(c.changing());
      int first = 0;
      for (const CascadiaReplica& r : c.replicas()) first += r.model == 0;
      CHECK(first == 4);
      CHECK(c.replicas().size() == 6);
    }
  }
}

TEST_CASE("Cascadia refuses invalid options and bytes") {
  CascadiaOptions options = Options();
  options.gpus = 0, options.plan_requests = 0, options.drift.requests = 0, options.judge_timeout = {};
  const std::string message(Cascadia::Create(options, SampleOf(5), 1).status().message());
  for (const char* field : {"gpus", "plan_requests", "requests", "judge_timeout"}) {
    CHECK(message.find(field) != std::string::npos);
  }
  CHECK_FALSE(Cascadia::Create(Options(), {}, 1).ok());
  CHECK_FALSE(Cascadia::Create(Options(), SampleOf(5), -1).ok());

  Cascadia cascadia = Made();
  const std::string bytes = cascadia.Save();
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 4) {
    CHECK_FALSE(cascadia.Load(bytes.substr(0, size)).ok());
  }
  for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 60) {
    std::string damaged = bytes;
    damaged[i] ^= 0x10;
    CHECK_FALSE(cascadia.Load(damaged).ok());
  }
  CHECK(cascadia.Save() == bytes);
  CascadiaOptions one = Options();
  one.models.pop_back();
  CHECK_FALSE(Cascadia::Create(one, {{50, {50}, {80}}}, 1)->Load(bytes).ok());
}

TEST_CASE("results of work taken before Load have no effect") {
  const std::string bytes = Cascadia::Create(Options(), SampleOf(100), 2)->Save();
  for (const bool window : {false, true}) {
    for (const bool fails : {false, true}) {
      Cascadia c = Made();
      TimePoint now = At(0);
      if (window) {
        Work(c, now);
        for (std::uint64_t id = 1; id <= 300; ++id) {
          now = At(static_cast<double>(id) / 3);
          c.OnArrived({.id = {id}, .prompt_tokens = {900}}, now);
        }
        now = At(200);
      }
      REQUIRE(c.HasWork(now));
      const CascadiaWork work = c.TakeWork(now);
      REQUIRE(work.monitor.has_value() == window);
      const CascadiaStats before = c.stats();
      REQUIRE(c.Load(bytes).ok());
      CHECK_FALSE(c.HasWork(now));
      if (fails) c.GiveUp();
      else c.Apply(*Cascadia::Do(work), now);
      CHECK(c.stats() == before);
      CHECK(c.Save() == bytes);
      CHECK(c.HasWork(now));
    }
  }
}

// Models, judge and replicas that fail, answer late, twice or never; events about anything, in any order.
class AnyHost {
 public:
  explicit AnyHost(std::uint64_t seed) : cascadia_(Made()), random_(seed) {}

  void Step(bool arrivals) {
    now_ = At(ToSeconds(now_) + 0.3);
    if (arrivals) {
      const RequestId id{random_.Chance(0.05) ? 1 + random_.Below(last_ + 1) : ++last_};
      if (cascadia_.OnArrived({.id = id, .prompt_tokens = {50}}, now_)) ++arrived_;
    }
    Work(cascadia_, now_);
    for (const Action& a : cascadia_.Next(now_)) Take(a);
    if (arrivals && random_.Chance(0.002)) LoadFile();
    for (int i = 0; i < 4; ++i) {
      const RequestId id{random_.Below(last_ + 5)};
      const int model = static_cast<int>(random_.Below(4)) - 1;
      switch (random_.Below(arrivals ? 40 : 400)) {
        case 0: cancelled_ += cascadia_.OnCancelled(id, now_); break;
        case 1: cascadia_.OnAnswered(id, model, {static_cast<std::int32_t>(random_.Below(UINT32_MAX))}, now_); break;
        case 2: cascadia_.OnJudged(id, model, random_.Chance(0.5) ? 50 : 1e300, now_); break;
        case 3: cascadia_.OnFailed(id, model, now_); break;
        case 4: cascadia_.OnReplicaUp({random_.Below(40)}, now_); break;
        case 5: cascadia_.OnReplicaDown({1 + random_.Below(40)}, now_); break;
        default: break;
      }
    }
    for (int i = 0; i < 3 && !todo_.empty(); ++i) {
      const std::size_t at = random_.Below(todo_.size());
      const Action a = todo_[at];
      todo_.erase(todo_.begin() + static_cast<std::ptrdiff_t>(at));
      if (arrivals && a.kind == Action::kJudge && random_.Chance(0.1)) continue;  // the judge died
      Answer(a);
    }
  }

  const Cascadia& cascadia() const { return cascadia_; }
  std::int64_t arrived() const { return arrived_; }
  std::int64_t ended() const { return ended_ + cancelled_; }
  bool busy() const { return cascadia_.alive() > 0 || !todo_.empty(); }

  std::uint64_t hash() const { return hash_; }  // hash of all actions

 private:
  // A damaged file changes nothing; an intact one is taken.
  void LoadFile() {
    const std::string bytes = cascadia_.Save();
    std::string damaged = bytes;
    damaged[random_.Below(damaged.size())] ^= static_cast<char>(1 + random_.Below(255));
    if (random_.Chance(0.3)) damaged.resize(random_.Below(damaged.size()));
    REQUIRE_FALSE(cascadia_.Load(damaged).ok());
    REQUIRE(cascadia_.Save() == bytes);
    REQUIRE(cascadia_.Load(bytes) == absl::OkStatus());
  }
  void Take(const Action& a) {
    hash_ = Mix64(hash_ ^ a.request.value ^ (a.instance.value << 32) ^ (static_cast<std::uint64_t>(a.kind) << 60));
    if (a.kind == Action::kAccept || a.kind == Action::kFail) ++ended_;
    else if (a.kind != Action::kCancel) todo_.push_back(a);
  }
  void Answer(const Action& a) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    switch (a.kind) {
      case Action::kServe:
        if (random_.Chance(0.05)) cascadia_.OnFailed(a.request, a.model, now_);
        else cascadia_.OnAnswered(a.request, a.model, {50}, now_);
        break;
      case Action::kJudge:
        cascadia_.OnJudged(a.request, a.model, random_.Chance(0.1) ? nan : 100 * random_.Uniform(), now_);
        break;
      case Action::kStart:
        if (random_.Chance(0.2)) cascadia_.OnReplicaDown(a.instance, now_);
        else cascadia_.OnReplicaUp(a.instance, now_);
        break;
      case Action::kStop: cascadia_.OnReplicaDown(a.instance, now_); break;
      default: break;
    }
  }

  Cascadia cascadia_;
  std::vector<Action> todo_;
  Random random_;
  TimePoint now_{};
  std::uint64_t last_ = 0, hash_ = 0;
  std::int64_t arrived_ = 0, ended_ = 0, cancelled_ = 0;
};

TEST_CASE("each request ends exactly once, whatever models, judge and replicas do") {
  for (std::int64_t seed = 1; seed <= Scaled(4); ++seed) {
    INFO("seed " << seed);
    std::uint64_t hashes[2] = {};
    for (std::uint64_t& hash : hashes) {
      AnyHost host(static_cast<std::uint64_t>(seed));
      for (int i = 0; i < 3000; ++i) host.Step(true);
      for (int i = 0; i < 20'000 && host.busy(); ++i) host.Step(false);
      host.Step(false);  // takes the last actions
      REQUIRE(host.cascadia().alive() == 0);
      REQUIRE(host.arrived() > 2500);
      REQUIRE(host.ended() == host.arrived());
      REQUIRE(host.cascadia().stats().replicas_lost > 5);
      REQUIRE(host.cascadia().stats().plans >= 1);
      REQUIRE(host.cascadia().stats().ignored > 50);
      hash = host.hash();
    }
    REQUIRE(hashes[0] == hashes[1]);
  }
}

TEST_CASE("after warm-up Cascadia's events and actions allocate nothing") {
  CascadiaOptions options = Options();
  options.drift.period = std::chrono::hours(1);  // no slow work
  Cascadia cascadia = Made(options);
  Work(cascadia, At(0));
  std::vector<Action> todo;
  todo.reserve(64);
  std::size_t warm = 0;
  for (std::uint64_t id = 1; id <= 2000; ++id) {
    if (id == 500) warm = allocations;
    const TimePoint now = At(static_cast<double>(id) / 3);
    cascadia.OnArrived({.id = {id}, .prompt_tokens = {50}}, now);
    for (int round = 0; round < 8; ++round) {
      const auto next = cascadia.Next(now);
      todo.assign(next.begin(), next.end());
      for (const Action& a : todo) {
        if (a.kind == Action::kServe) cascadia.OnAnswered(a.request, a.model, {50}, now);
        if (a.kind == Action::kJudge) cascadia.OnJudged(a.request, a.model, ScoreOf(id, false), now);
        if (a.kind == Action::kStart) cascadia.OnReplicaUp(a.instance, now);
      }
    }
  }
  const std::size_t after = allocations;
  CHECK(after == warm);
  CHECK(cascadia.alive() == 0);
}

}  // namespace
}  // namespace takt::systems
