#include "takt/systems/chimera.h"

#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "systems/router_host.h"
#include "takt/base/random.h"

namespace takt::systems {
namespace {

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

// Model 2 solves all, with 300 tokens; model 1 solves prompts with a feature below 0.5, with 100 tokens.
ChimeraPredictors Trained() {
  ChimeraLessons lessons({.sketch = 1});
  Random random(1);
  for (int i = 0; i < 400; ++i) {
    const auto hard = static_cast<float>(random.Uniform());
    for (std::uint64_t m = 1; m <= 2; ++m) {
      const FinishedCall call{{.prompt_tokens = {100}, .sketch = {&hard, 1}}, {m == 1 ? 100 : 300}};
      lessons.Add({m}, {&call, 1}, {&hard, 1}, m == 2 || hard < 0.5f);
    }
  }
  return *lessons.Train();
}

void Start(Chimera& chimera) {
  for (std::uint64_t m = 1; m <= 2; ++m) {
    chimera.On(InstanceUp{{.id = {m}, .model = {m}, .token_s = 0.001}}, {});
  }
}

void Add(Chimera& chimera, std::uint64_t id, float hard, double at, WorkflowId workflow = {}) {
  chimera.Add({.id = {id}, .workflow = workflow, .prompt_tokens = {100}},
              {.input = {.prompt_tokens = {100}, .sketch = {&hard, 1}}, .features = {&hard, 1}}, At(at));
}

bool Predict(Chimera& chimera, double at) {
  auto batch = chimera.TakeBatch(At(at));
  if (!batch) return false;
  batch->Predict();
  chimera.Finish(*batch, At(at));
  return true;
}

TEST_CASE("one batch predicts for all models; the prediction for the chosen model becomes the priority") {
  for (const bool hands_over : {true, false}) {
    ChimeraOptions options;
    options.router.model_tokens = hands_over;
    Chimera chimera = *Chimera::Create(options);
    Start(chimera);
    chimera.Publish(Trained());
    Add(chimera, 1, 0.9f, 0);
    CHECK_FALSE(Predict(chimera, 0.001));  // the batch is not due
    CHECK(chimera.wake_at() == At(0.002));
    REQUIRE(Predict(chimera, 0.002));
    const auto placed = chimera.Place(At(0.002));
    REQUIRE(placed.size() == 1);
    CHECK(placed[0].instance == InstanceId{2});  // both are idle, and model 2 is better
    const Request& r = chimera.router().Find({1})->request;
    REQUIRE(r.scores.size() == 2);
    CHECK(r.scores[0].score < 0.5f);
    CHECK(r.scores[1].score > 0.5f);
    CHECK(r.workflow_tokens_left.known() == hands_over);
    if (hands_over) CHECK(r.workflow_tokens_left.Quantile(0.5) == static_cast<double>(r.scores[1].tokens));
  }
}

TEST_CASE("a workflow keeps its model until it ends") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  chimera.Publish(Trained());
  Add(chimera, 1, 0.9f, 0, {7});
  Predict(chimera, 1);
  REQUIRE(chimera.Place(At(1)).front().instance == InstanceId{2});
  chimera.On(RequestEnded{{1}, {}}, At(2));
  Add(chimera, 2, 0.9f, 2);  // load on model 2: the next workflow would go to model 1
  Predict(chimera, 3);
  chimera.Place(At(3));
  Add(chimera, 3, 0.1f, 3, {7});
  Predict(chimera, 4);
  CHECK(chimera.Place(At(4)).front().instance == InstanceId{2});
  chimera.On(RequestEnded{{3}, {}}, At(5));
  CHECK_FALSE(chimera.Ended({7}, true, At(5)));
  Add(chimera, 4, 0.1f, 5, {7});
  Predict(chimera, 6);
  CHECK(chimera.Place(At(6)).front().instance == InstanceId{1});
}

TEST_CASE("a late prediction delays nobody") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  Add(chimera, 9, 0.5f, 0);  // no predictor yet
  CHECK(chimera.Place(At(0)).size() == 1);
  chimera.Publish(Trained());
  Add(chimera, 1, 0.9f, 0);
  auto batch = chimera.TakeBatch(At(0.01));
  REQUIRE(batch);
  CHECK(chimera.Place(At(0.019)).empty());
  CHECK(chimera.wake_at() == At(0.02));
  CHECK(chimera.Place(At(0.02)).size() == 1);
  CHECK(chimera.wake_at() == kNever);
  batch->Predict();
  chimera.Finish(*batch, At(0.03));
  CHECK(chimera.stats().late == 1);
  CHECK(chimera.stats().fallbacks == 2);
  CHECK(chimera.Place(At(0.04)).empty());
  CHECK(chimera.held() == 0);
}

TEST_CASE("full batches are due at once; requests beyond the capacity run without scores") {
  Chimera chimera = *Chimera::Create({.batches = {.most = 2, .capacity = 5}});
  Start(chimera);
  chimera.Publish(Trained());
  for (std::uint64_t id = 1; id <= 6; ++id) Add(chimera, id, 0.9f, 1);
  CHECK(chimera.held() == 5);
  CHECK(chimera.stats().fallbacks == 1);
  CHECK(chimera.wake_at() == TimePoint{});
  CHECK(Predict(chimera, 1));
  CHECK(Predict(chimera, 1));
  CHECK_FALSE(Predict(chimera, 1));  // one request waits for others
  CHECK(chimera.wake_at() == At(1.002));
  CHECK(chimera.stats().predicted == 4);
}

// Unknown ids, ids in use, and reports about held requests.
TEST_CASE("an event that names a held request passes it to the router first") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  chimera.Publish(Trained());
  for (std::uint64_t id = 1; id <= 5; ++id) Add(chimera, id, 0.9f, 0);
  CHECK(chimera.Add({.id = {1}, .prompt_tokens = {1}}, {}, At(0)).first == FaultKind::kIdInUse);
  CHECK(chimera.On(Arrived{{.id = {2}, .prompt_tokens = {1}}}, At(0)).first == FaultKind::kIdInUse);
  chimera.On(RequestEnded{{3}, {2}}, At(0));  // an instance that does not have it
  chimera.On(Cancelled{{4}}, At(0));
  chimera.On(Revised{.request = {5}, .priority = -1}, At(0));
  CHECK(chimera.On(RequestEnded{{77}, {}}, At(0)).first == FaultKind::kUnknownRequest);
  CHECK(chimera.Add({.prompt_tokens = {1}}, {}, At(0)).first == FaultKind::kNoId);
  CHECK(chimera.held() == 0);
  CHECK(chimera.Place(At(0)).size() == 4);
  CHECK(chimera.router().failed().size() == 3);
  CHECK(chimera.router().stats().cancelled == 1);
  CHECK(chimera.router().Find({5})->request.priority == -1);
  CHECK_FALSE(Predict(chimera, 1));
}

TEST_CASE("requests of an ended workflow that are held fail with it") {
  Chimera chimera = *Chimera::Create();
  chimera.Publish(Trained());
  Workflow w{.id = {7}};
  w.stages = {{.stage = {1}}};
  chimera.On(WorkflowDeclared{w}, At(0));
  Add(chimera, 1, 0.9f, 0, {7});
  chimera.On(WorkflowEnded{{7}, true}, At(0));
  CHECK(chimera.held() == 0);
  chimera.Place(At(0));
  CHECK(chimera.router().failed().size() == 1);
}

TEST_CASE("requests of a model that dies go to another one, with its prediction") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  chimera.Publish(Trained());
  Add(chimera, 1, 0.9f, 0, {7});
  Predict(chimera, 1);
  REQUIRE(chimera.Place(At(1)).front().instance == InstanceId{2});
  chimera.On(InstanceDown{{2}}, At(2));
  REQUIRE(chimera.Place(At(2)).front().instance == InstanceId{1});
  const Request& r = chimera.router().Find({1})->request;
  CHECK(r.workflow_tokens_left.Quantile(0.5) == static_cast<double>(r.scores[0].tokens));
}

// A call of the workflow, with facts about its prompt.
void Serve(Chimera& chimera, std::uint64_t id, WorkflowId workflow, Tokens output = {50}) {
  const double at = static_cast<double>(id);
  Add(chimera, id, 0.5f, at, workflow);
  chimera.Place(At(at));
  chimera.On(RequestEnded{{id}, {}, false, TokensServed{{100}, output}}, At(at));
}

TEST_CASE("ended workflows are lessons") {
  Chimera chimera = *Chimera::Create({.lengths = {.sketch = 1}});
  Start(chimera);
  for (std::uint64_t id = 1; id <= 40; ++id) {
    Serve(chimera, id, {id});
    chimera.Ended({id}, id % 2 == 0, At(static_cast<double>(id)));
  }
  CHECK(chimera.lessons().workflows() == 40);
  const auto predictors = chimera.lessons().Train();
  REQUIRE(predictors.ok());
  CHECK(predictors->confidence != nullptr);
  LengthForest::Scratch scratch;
  CHECK(predictors->lengths->Predict({.model = {1}, .input = {.prompt_tokens = {100}}}, scratch).Quantile(0.5) == 50);
  CHECK_FALSE(ChimeraLessons().Train().ok());
}

TEST_CASE("only complete workflows on one model are lessons") {
  Chimera chimera = *Chimera::Create({.most_lessons = 600});
  chimera.On(InstanceUp{{.id = {1}, .model = {1}}}, {});
  std::uint64_t id = 0;
  Serve(chimera, ++id, {1});
  chimera.On(WorkflowEnded{{1}, true}, At(1));  // cancelled
  CHECK(chimera.stats().unlearned == 0);
  Serve(chimera, ++id, {2});
  chimera.On(Arrived{{.id = {++id}, .workflow = {2}, .prompt_tokens = {1}}}, At(3));  // without facts
  chimera.Place(At(3));
  chimera.On(RequestEnded{{id}, {}, false, TokensServed{{1}, {1}}}, At(3));
  chimera.Ended({2}, true, At(3));
  CHECK(chimera.stats().unlearned == 1);
  Serve(chimera, ++id, {3}, {-1});  // `served` is invalid
  chimera.Ended({3}, true, At(4));
  CHECK(chimera.stats().unlearned == 2);
  Serve(chimera, ++id, {4});
  chimera.On(InstanceDown{{1}}, At(5));
  chimera.On(InstanceUp{{.id = {2}, .model = {2}}}, At(5));
  Serve(chimera, ++id, {4});
  chimera.Ended({4}, true, At(6));
  CHECK(chimera.stats().unlearned == 3);
  for (int i = 0; i < 513; ++i) Serve(chimera, ++id, {5});  // too many calls
  chimera.Ended({5}, true, At(1000));
  CHECK(chimera.stats().unlearned == 4);
  for (std::uint64_t w = 0; w < 601; ++w) Serve(chimera, ++id, {10 + w});  // workflows that do not end
  CHECK(chimera.stats().unlearned == 604);
  CHECK(chimera.lessons().workflows() == 0);
  chimera.Ended({610}, true, At(2000));
  CHECK(chimera.lessons().workflows() == 1);
}

// Each workflow has a call that is served, and another that is not.
TEST_CASE("workflows with a call that has no answer are not lessons") {
  Chimera chimera = *Chimera::Create();
  chimera.On(InstanceUp{{.id = {1}, .model = {1}}}, {});
  Serve(chimera, 1, {1});
  Add(chimera, 2, 0.5f, 2, {1});
  chimera.Place(At(2));
  chimera.On(Cancelled{{2}}, At(2));
  chimera.Ended({1}, true, At(2));
  CHECK(chimera.stats().unlearned == 1);
  Serve(chimera, 3, {2});
  Add(chimera, 4, 0.5f, 4, {2});
  chimera.Place(At(4));
  chimera.On(RequestEnded{{4}, {}, true, TokensServed{{100}, {50}}}, At(4));
  chimera.Ended({2}, true, At(4));
  CHECK(chimera.stats().unlearned == 2);
  Serve(chimera, 5, {3});
  Request late{.id = {6}, .workflow = {3}, .prompt_tokens = {100}};
  late.expires_at = At(5);
  chimera.Add(late, {}, At(6));
  chimera.Place(At(6));
  REQUIRE(chimera.router().failed().size() == 1);
  chimera.Ended({3}, true, At(6));
  CHECK(chimera.stats().unlearned == 3);
  Serve(chimera, 7, {4});
  Add(chimera, 8, 0.5f, 8, {4});
  chimera.On(RequestEnded{{8}, {}, false, TokensServed{{100}, {50}}}, At(8));  // on no instance
  chimera.Ended({4}, true, At(8));
  CHECK(chimera.stats().unlearned == 4);
  const float feature = 0.5f;
  chimera.Add({.id = {9}, .workflow = {5}, .prompt_tokens = {100}},
              {.input = {.calls_before = 1}, .features = {&feature, 1}}, At(9));
  chimera.Place(At(9));
  chimera.On(RequestEnded{{9}, {}, false, TokensServed{{100}, {50}}}, At(9));
  chimera.Ended({5}, true, At(9));  // its first call was not seen
  CHECK(chimera.stats().unlearned == 5);
  CHECK(chimera.lessons().workflows() == 0);
}

TEST_CASE("rows with other features do not spoil the lessons") {
  const std::vector<float> many(1001);
  const float one[] = {0.5f, 1};
  const FinishedCall call{{.prompt_tokens = {100}}, {10}};
  ChimeraLessons lessons;
  CHECK_FALSE(lessons.Add({1}, {&call, 1}, many, true));
  CHECK(lessons.Add({1}, {&call, 1}, {}, true));
  CHECK(lessons.Add({1}, {&call, 1}, {one, 1}, false));
  CHECK_FALSE(lessons.Add({1}, {&call, 1}, one, true));
  CHECK(lessons.Add({1}, {&call, 1}, {}, true));
  CHECK(lessons.Train()->confidence->features() == 1);
  ChimeraLessons none({}, {}, 0);
  for (int i = 0; i < 3; ++i) CHECK(none.Add({1}, {&call, 1}, {one, 1}, true));
  CHECK(none.Train()->confidence == nullptr);
  ChimeraLessons few({}, {}, 2);
  for (int i = 0; i < 9; ++i) CHECK(few.Add({1}, {&call, 1}, {one, static_cast<std::size_t>(i % 2)}, true));
  CHECK(few.Train()->confidence->features() == 1);
}

TEST_CASE("a clock that jumps ahead once blocks no request") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  chimera.Publish(Trained());
  chimera.Add({.id = {1}, .prompt_tokens = {100}}, {}, kNever);
  CHECK_FALSE(chimera.TakeBatch(At(1)));
  CHECK(chimera.wake_at() == At(1.002));
  Add(chimera, 2, 0.9f, 1.001);
  CHECK(Predict(chimera, 1.002));
  CHECK(chimera.held() == 0);
  CHECK(chimera.stats().predicted == 2);
}

// Repeats a call whose allocation failed.
template <class F>
void Insist(F&& call) {
  watched = true;
  try {
    call();
  } catch (const std::bad_alloc&) {
    call();
  }
  watched = false;
}

TEST_CASE("a failed allocation loses no request") {
  const ChimeraPredictors trained = Trained();
  bool fails = true;
  for (std::size_t n = 1; fails; ++n) {
    CAPTURE(n);
    Chimera chimera = *Chimera::Create({.batches = {.capacity = 4}});
    Start(chimera);
    chimera.Publish(trained);
    failing = n, watched_allocations = 0;
    for (std::uint64_t id = 1; id <= 6; ++id) Insist([&] { Add(chimera, id, 0.5f, 0, {id % 2 + 1}); });
    std::optional<Chimera::Batch> batch;
    Insist([&] { batch = chimera.TakeBatch(At(0.002)); });
    if (batch) batch->Predict();
    if (batch) Insist([&] { chimera.Finish(*batch, At(0.003)); });
    Insist([&] { Add(chimera, 7, 0.5f, 0.003, {1}); });
    std::size_t placed = 0;
    Insist([&] { placed += chimera.Place(At(0.1)).size(); });
    CHECK(chimera.held() == 0);
    for (std::uint64_t id = 1; id <= 7; ++id) {
      Insist([&] { chimera.On(RequestEnded{{id}, {}, false, TokensServed{{100}, {5}}}, At(1)); });
    }
    fails = watched_allocations >= n;
    failing = 0;
    if (chimera.router().ended()) continue;
    CHECK(placed == 7);
    CHECK(chimera.router().alive() == 0);
    chimera.Ended({1}, true, At(2)), chimera.Ended({2}, true, At(2));
    CHECK(chimera.lessons().workflows() + chimera.stats().unlearned == 2);
  }
}

TEST_CASE("predictors survive; damaged files change nothing") {
  Chimera chimera = *Chimera::Create();
  chimera.Publish(Trained());
  const std::string bytes = chimera.Save();
  Chimera other = *Chimera::Create();
  REQUIRE(other.Load(bytes).ok());
  CHECK(other.Save() == bytes);
  REQUIRE(other.Load(Chimera::Create()->Save()).ok());
  CHECK(other.predictors().lengths == nullptr);
  Random random(1);
  const std::size_t head = bytes.find('\n', bytes.find('\n') + 1) + 1;
  for (std::size_t i = 0; i < 200 + head; ++i) {
    std::string damaged = bytes;
    damaged[i < head ? i : random.Below(damaged.size())] ^= static_cast<char>(1 + random.Below(255));
    if (i % 2 == 0 && i >= head) damaged.resize(random.Below(damaged.size()));
    Chimera victim = *Chimera::Create();
    CHECK_FALSE(victim.Load(damaged).ok());
    CHECK_FALSE(victim.Load(bytes.substr(0, i)).ok());
    CHECK(victim.predictors().lengths == nullptr);
  }
}

TEST_CASE("options are checked") {
  CHECK_FALSE(Chimera::Create({.router = {.max_outstanding = 0}}).ok());
  CHECK_FALSE(Chimera::Create({.batches = {.most = 0}}).ok());
  CHECK_FALSE(Chimera::Create({.batches = {.longest = Duration(-1)}}).ok());
  CHECK_FALSE(Chimera::Create({.batches = {.bound = Duration(-1)}}).ok());
  CHECK_FALSE(Chimera::Create({.lengths = {.sketch = 248}}).ok());
  CHECK_FALSE(Chimera::Create({.lengths = {.forest = {.trees = 0}}}).ok());
  CHECK_FALSE(Chimera::Create({.confidence = {.l2 = -1}}).ok());
}

// Batches come late or never.
struct ChimeraHooks {
  Chimera system;
  ChimeraPredictors trained;
  std::vector<Chimera::Batch> batches = {};

  void Arrive(const Request& r, TimePoint t, Random& random) {
    const auto fact = static_cast<float>(random.Uniform());
    const std::span<const float> facts(&fact, random.Below(2));
    if (random.Chance(0.2)) system.On(Arrived{r}, t);
    else system.Add(r, {.input = {.prompt_tokens = r.prompt_tokens, .sketch = facts}, .features = facts}, t);
  }
  void Act(TimePoint t, Random& random) {
    const TimePoint at = random.Chance(0.02) ? kNever : t;
    if (auto batch = system.TakeBatch(at)) batches.push_back(*std::move(batch));
    const WorkflowId workflow{random.Below(500)};
    if (random.Chance(0.2)) system.Ended(workflow, random.Chance(0.5), t);
    if (random.Chance(0.02)) system.Publish(random.Chance(0.5) ? trained : ChimeraPredictors{});
    if (batches.empty() || random.Chance(0.3)) return;
    batches.front().Predict();
    system.Finish(batches.front(), t);
    batches.erase(batches.begin());
  }
  std::int64_t held() const { return static_cast<std::int64_t>(system.held()); }
  std::string Save() const { return system.Save(); }
  absl::Status Load(const std::string& bytes, TimePoint) { return system.Load(bytes); }
  double learned() const { return static_cast<double>(system.stats().predicted); }
};

TEST_CASE("a random host loses nothing") {
  RunRouterHosts([trained = Trained()](std::uint64_t hash_seed) {
    ChimeraOptions options;
    options.router.max_outstanding = 4;
    options.router.hash_seed = hash_seed;
    options.batches.capacity = 30;
    return ChimeraHooks{*Chimera::Create(options), trained};
  });
}

// The self-check of an assertion build allocates at every 1,024th placement.
TEST_CASE("after warm-up, placing allocates nothing") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  chimera.Publish(Trained());
  std::uint64_t id = 0;
  std::size_t placing = 0;
  const auto round = [&](double at) {
    const std::uint64_t first = id + 1;
    for (int i = 0; i < 20; ++i) Add(chimera, ++id, 0.5f, at);
    Predict(chimera, at + 0.01);
    for (int i = 0; i < 20; ++i) Add(chimera, ++id, 0.5f, at);  // without scores
    const std::size_t before = allocations;
    chimera.Place(At(at + 0.03));
    placing += allocations - before;
    for (std::uint64_t r = first; r <= id; ++r) chimera.On(RequestEnded{{r}, {}}, At(at + 0.03));
  };
  for (int i = 0; i < 10; ++i) round(i);
  placing = 0;
  for (int i = 10; i < 25; ++i) round(i);
  CHECK(placing == 0);
  CHECK(chimera.router().stats().ended == 1000);
  CHECK(chimera.stats().predicted == 500);
}

}  // namespace
}  // namespace takt::systems
