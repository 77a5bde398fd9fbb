#include "takt/systems/chimera.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/policy/fcfs.h"

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

TEST_CASE("a late prediction delays nobody; a cancelled request does not come out") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  Add(chimera, 9, 0.5f, 0);  // no predictor yet
  CHECK(chimera.Place(At(0)).size() == 1);
  chimera.Publish(Trained());
  Add(chimera, 1, 0.9f, 0);
  Add(chimera, 2, 0.9f, 0);
  CHECK(chimera.Add({.id = {2}, .prompt_tokens = {1}}, {}, At(0)).first == FaultKind::kIdInUse);
  auto batch = chimera.TakeBatch(At(0.01));
  REQUIRE(batch);
  CHECK(batch->size() == 2);
  chimera.On(Cancelled{{2}}, At(0.01));
  CHECK(chimera.Place(At(0.019)).empty());
  CHECK(chimera.Place(At(0.02)).size() == 1);
  batch->Predict();
  chimera.Finish(*batch, At(0.03));
  CHECK(chimera.stats().late == 2);
  CHECK(chimera.stats().fallbacks == 2);
  CHECK(chimera.Place(At(0.04)).empty());
  CHECK(chimera.held() == 0);
}

TEST_CASE("ended workflows are lessons") {
  Chimera chimera = *Chimera::Create({.lengths = {.sketch = 1}});
  Start(chimera);
  for (std::uint64_t id = 1; id <= 40; ++id) {
    Add(chimera, id, 0.5f, static_cast<double>(id), {id});
    chimera.Place(At(static_cast<double>(id)));
    chimera.On(RequestEnded{{id}, {}, false, TokensServed{{100}, {50}}}, At(static_cast<double>(id)));
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

TEST_CASE("predictors survive; damaged files change nothing") {
  Chimera chimera = *Chimera::Create();
  chimera.Publish(Trained());
  const std::string bytes = chimera.Save();
  Chimera other = *Chimera::Create();
  REQUIRE(other.Load(bytes).ok());
  CHECK(other.Save() == bytes);
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    std::string damaged = bytes;
    damaged[random.Below(damaged.size())] ^= static_cast<char>(1 + random.Below(255));
    if (i % 2 == 0) damaged.resize(random.Below(damaged.size()));
    Chimera victim = *Chimera::Create();
    CHECK_FALSE(victim.Load(damaged).ok());
    CHECK(victim.predictors().lengths == nullptr);
  }
}

TEST_CASE("options are checked") {
  CHECK_FALSE(Chimera::Create({.router = {.max_outstanding = 0}}).ok());
  CHECK_FALSE(Chimera::Create({.batches = {.most = 0}}).ok());
}

// Events in any order, unknown ids and models, batches that come late or never, instances that die.
TEST_CASE("a random host loses nothing") {
  const ChimeraPredictors trained = Trained();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    ChimeraOptions options;
    options.router.max_outstanding = 4;
    options.batches.capacity = 30;
    Chimera chimera = *Chimera::Create(options);
    std::uint64_t next = 1;
    std::int64_t added = 0, gone = 0, dropped = 0;
    double now = 0;
    std::vector<Chimera::Batch> batches;
    const auto anyone = [&] { return RequestId{1 + random.Below(next + 2)}; };
    for (int i = 0; i < 3000; ++i) {
      now += random.Uniform() * 0.01;
      switch (random.Below(9)) {
        case 0:
        case 1: ++added, Add(chimera, next++, static_cast<float>(random.Uniform()), now, {random.Below(next)}); break;
        case 2: chimera.On(RequestEnded{anyone(), {random.Below(4)}, false, TokensServed{{9}, {9}}}, At(now)); break;
        case 3: chimera.On(RequestEnded{anyone(), {}, random.Chance(0.2)}, At(now)); break;
        case 4: {
          const auto held = chimera.held();
          chimera.On(Cancelled{anyone()}, At(now));
          dropped += static_cast<std::int64_t>(held - chimera.held());
          break;
        }
        case 5: chimera.Ended({random.Below(next)}, random.Chance(0.5), At(now)); break;
        case 6:
          if (random.Chance(0.3)) chimera.On(InstanceDown{{random.Below(4)}}, At(now));
          else chimera.On(InstanceUp{{.id = {random.Below(4)}, .model = {random.Below(4)}}}, At(now));
          break;
        case 7:
          if (auto batch = chimera.TakeBatch(At(now))) batches.push_back(*std::move(batch));
          if (random.Chance(0.01)) chimera.Publish(random.Chance(0.5) ? trained : ChimeraPredictors{});
          break;
        case 8:
          if (batches.empty()) break;
          batches.front().Predict();
          chimera.Finish(batches.front(), At(now));
          batches.erase(batches.begin());
          break;
      }
      chimera.Place(At(now));
      gone += std::ssize(chimera.router().failed());
      const RouterStats& s = chimera.router().stats();
      REQUIRE(added == static_cast<std::int64_t>(s.ended + s.cancelled + chimera.held()) + dropped + gone +
                           chimera.router().alive());
    }
    now += 100;
    chimera.Place(At(now));
    CHECK(chimera.held() == 0);
  }
}

TEST_CASE("placing allocates nothing after warm-up") {
  Chimera chimera = *Chimera::Create();
  Start(chimera);
  std::uint64_t id = 0;
  std::size_t placing = 0;
  const auto round = [&] {
    const std::uint64_t first = id + 1;
    for (int i = 0; i < 20; ++i) Add(chimera, ++id, 0.5f, 0);
    const std::size_t before = allocations;
    chimera.Place({});
    placing += allocations - before;
    for (std::uint64_t r = first; r <= id; ++r) chimera.On(RequestEnded{{r}, {}}, {});
  };
  for (int i = 0; i < 50; ++i) round();
  placing = 0;
  for (int i = 0; i < 100; ++i) round();
  CHECK(placing == 0);
  CHECK(chimera.router().stats().ended == 3000);
}

}  // namespace
}  // namespace takt::systems
