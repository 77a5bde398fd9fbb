// A cascade at run time: decisions by score, requests without a score, and a host that makes every mistake.
#include "takt/cascade_router.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/planning/cascade_stages.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

using Action = CascadeAction;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

CascadeRouter Make(CascadeRouterOptions options) {
  auto router = CascadeRouter::Create(std::move(options));
  REQUIRE(router.ok());
  return *std::move(router);
}

// Cascadia's Table 2, (85, 1): 62 % of all requests reach the second model, 21 % the third.
const std::vector<CascadeStage> kStages = {
    {.accept_at = 74, .escalated_share = 0.62}, {.accept_at = 64, .escalated_share = 0.34}, {}};

TEST_CASE("a score accepts the answer or escalates the request") {
  CascadeRouter router = Make({.stages = kStages});
  const RequestId good{1}, poor{2};
  CHECK(router.OnArrival(good) == Action{Action::kSend, 0, good});
  CHECK(router.OnArrival(poor) == Action{Action::kSend, 0, poor});
  CHECK(router.OnAnswered(good, 0, At(1)) == Action{Action::kJudge, 0, good});
  CHECK(router.OnJudged(good, 0, 74, At(1)) == Action{Action::kAccept, 0, good});
  router.OnAnswered(poor, 0, At(1));
  CHECK(router.OnJudged(poor, 0, 73.9, At(1)) == Action{Action::kSend, 1, poor});
  CHECK(router.ModelOf(poor) == 1);
  CHECK(router.OnAnswered(poor, 1, At(2)) == Action{Action::kJudge, 1, poor});
  CHECK(router.OnJudged(poor, 1, 0, At(2)) == Action{Action::kSend, 2, poor});
  // the last model's answer is not judged
  CHECK(router.OnAnswered(poor, 2, At(3)) == Action{Action::kAccept, 2, poor});
  CHECK(router.alive() == 0);
  CHECK(router.stats() == CascadeStats{.arrived = 2, .accepted = 2, .escalated = 2, .judged = 3});
  CHECK(router.wake_at() == kNever);
}

TEST_CASE("a model that is not served is skipped") {
  std::vector<CascadeStage> stages = kStages;
  stages[0].served = stages[2].served = false;
  CascadeRouter router = Make({.stages = stages});
  CHECK(router.OnArrival({1}) == Action{Action::kSend, 1, {1}});
  CHECK(router.OnAnswered({1}, 1, At(0)) == Action{Action::kAccept, 1, {1}});
  CascadeRouter alone = Make({.stages = {{}}});
  alone.OnArrival({1});
  CHECK(alone.OnAnswered({1}, 0, At(0)) == Action{Action::kAccept, 0, {1}});
}

TEST_CASE("a request without a score is accepted, escalated, or follows the plan") {
  const double nan = std::nan("");
  for (const bool late : {false, true}) {
    const auto share = [&](NoVerdict verdict, std::uint64_t seed) {
      CascadeRouter router = Make({.stages = kStages, .on_missing = verdict, .on_late = verdict, .seed = seed});
      int sent = 0;
      for (std::uint64_t id = 1; id <= 2000; ++id) {
        router.OnArrival({id});
        router.OnAnswered({id}, 0, At(0));
        if (late) {
          CHECK(router.wake_at() == At(2));
          CHECK(router.Expire(At(1.9)).empty());
          const auto expired = router.Expire(At(2));
          REQUIRE(expired.size() == 1);
          sent += expired[0].kind == Action::kSend ? 1 : 0;
          CHECK(router.OnJudged({id}, 0, 100, At(3)).kind == Action::kNone);  // too late
        } else {
          sent += router.OnJudged({id}, 0, nan, At(0)).kind == Action::kSend ? 1 : 0;
        }
        router.OnCancelled({id});
        router = Make({.stages = kStages, .on_missing = verdict, .on_late = verdict, .seed = seed});
      }
      return sent / 2000.0;
    };
    CHECK(share(NoVerdict::kAccept, 1) == 0);
    CHECK(share(NoVerdict::kEscalate, 1) == 1);
    CHECK(share(NoVerdict::kAsPlanned, 1) == Approx(0.62).margin(0.03));
    CHECK(share(NoVerdict::kAsPlanned, 1) == share(NoVerdict::kAsPlanned, 1));
  }
}

TEST_CASE("late verdicts are decided in the order of their requests") {
  CascadeRouter router = Make({.stages = kStages, .on_late = NoVerdict::kAccept});
  for (std::uint64_t id = 1; id <= 4; ++id) router.OnArrival({id});
  for (const std::uint64_t id : {3u, 1u, 4u, 2u})
    router.OnAnswered({id}, 0, At(static_cast<double>(5 - id)));  // 2, 4, 4, 4
  router.OnJudged({1}, 0, 100, At(4));
  CHECK(router.wake_at() == At(4));
  const auto expired = router.Expire(At(10));
  REQUIRE(expired.size() == 3);
  CHECK(expired[0] == Action{Action::kAccept, 0, {3}});
  CHECK(expired[1] == Action{Action::kAccept, 0, {4}});
  CHECK(expired[2] == Action{Action::kAccept, 0, {2}});
  CHECK(router.stats().late == 3);
}

TEST_CASE("a failed request uses the next model, its last answer, or fails") {
  CascadeRouter router = Make({.stages = kStages});
  router.OnArrival({1});
  CHECK(router.OnFailed({1}, 0) == Action{Action::kSend, 1, {1}});
  CHECK(router.OnFailed({1}, 0).kind == Action::kNone);  // reported before
  router.OnAnswered({1}, 1, At(0));
  CHECK(router.OnFailed({1}, 1).kind == Action::kNone);  // its answer is being judged
  CHECK(router.OnJudged({1}, 1, 10, At(0)) == Action{Action::kSend, 2, {1}});
  CHECK(router.OnFailed({1}, 2) == Action{Action::kAccept, 1, {1}});
  router.OnArrival({2});
  router.OnFailed({2}, 0);
  router.OnFailed({2}, 1);
  CHECK(router.OnFailed({2}, 2) == Action{Action::kFail, 2, {2}});
  CHECK(router.alive() == 0);
  CHECK(router.stats().failed == 1);
  CHECK(router.stats().passed_on == 3);
}

TEST_CASE("events for unknown requests change nothing") {
  CascadeRouter router = Make({.stages = kStages});
  CHECK(router.OnArrival({}).kind == Action::kNone);
  router.OnArrival({1});
  CHECK(router.OnArrival({1}).kind == Action::kNone);
  CHECK(router.OnAnswered({9}, 0, At(0)).kind == Action::kNone);
  for (const int model : {-1, 1, 2, 3, 99, std::numeric_limits<int>::min()}) {
    CHECK(router.OnAnswered({1}, model, At(0)).kind == Action::kNone);
    CHECK(router.OnFailed({1}, model).kind == Action::kNone);
    CHECK(router.OnJudged({1}, model, 50, At(0)).kind == Action::kNone);
  }
  CHECK(router.OnJudged({1}, 0, 50, At(0)).kind == Action::kNone);  // no answer yet
  CHECK_FALSE(router.OnCancelled({9}));
  CHECK(router.ModelOf({1}) == 0);
  CHECK(router.OnAnswered({1}, 0, At(0)).kind == Action::kJudge);
  CHECK(router.OnAnswered({1}, 0, At(0)).kind == Action::kNone);  // the second time
  // A score outside the scale is still a score.
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(router.OnJudged({1}, 0, -infinity, At(0)).kind == Action::kSend);
  router.OnAnswered({1}, 1, At(0));
  CHECK(router.OnJudged({1}, 1, infinity, At(0)).kind == Action::kAccept);
  CHECK(router.ModelOf({1}) == -1);
}

TEST_CASE("a new plan applies to later decisions") {
  CascadeRouter router = Make({.stages = kStages});
  router.OnArrival({1});
  router.OnAnswered({1}, 0, At(0));
  std::vector<CascadeStage> stages = kStages;
  stages[0].accept_at = 10;
  CHECK(router.Replan(stages).ok());
  CHECK(router.OnJudged({1}, 0, 20, At(0)).kind == Action::kAccept);
  router.OnArrival({2});
  stages[0].served = false;
  CHECK(router.Replan(stages).ok());
  router.OnAnswered({2}, 0, At(0));  // its model takes no new requests any more
  CHECK(router.OnJudged({2}, 0, 0, At(0)) == Action{Action::kSend, 1, {2}});
  CHECK(router.OnArrival({3}) == Action{Action::kSend, 1, {3}});
  stages.pop_back();
  CHECK(router.Replan(stages).code() == absl::StatusCode::kInvalidArgument);
  CHECK(router.stages().size() == 3);
}

TEST_CASE("invalid options are named") {
  const double nan = std::nan("");
  CascadeRouterOptions options{
      .stages = {{.accept_at = nan, .served = false}, {.escalated_share = 2, .served = false}}};
  options.judge_timeout = Duration(0);
  options.reserve_requests = -1;
  const std::string faults(options.Validate().message());
  for (const char* part :
       {"stage 0: accept_at", "stage 1: escalated_share", "no stage is served", "judge_timeout", "reserve_requests"}) {
    CAPTURE(part, faults);
    CHECK(faults.find(part) != std::string::npos);
  }
  CHECK_FALSE(CascadeRouter::Create({}).ok());
  CHECK_FALSE(CascadeRouter::Create({.stages = std::vector<CascadeStage>(65)}).ok());
}

TEST_CASE("a plan's thresholds escalate the planned shares") {
  // A sample's scores of two models, with thresholds 60 and 40. The numbers that reach the second and third are counted
  // by hand.
  const std::vector<std::vector<double>> scores = {{90, 10}, {60, 0}, {59, 40}, {20, 39}, {0, 100}};
  CascadePlan plan;
  plan.thresholds = {60, 40};
  plan.models.resize(3);
  for (ModelPlan& model : plan.models) model.gpus = 2;
  plan.models[0].share = 1;
  plan.models[1].share = 0.6;
  plan.models[2].share = 0.2;
  const std::vector<CascadeStage> stages = StagesOf(plan);
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].escalated_share == Approx(0.6));
  CHECK(stages[1].escalated_share == Approx(1.0 / 3));
  CHECK(stages[2].served);
  CascadeRouter router = Make({.stages = stages});
  std::vector<int> reached(3);
  for (std::uint64_t i = 0; i < scores.size(); ++i) {
    Action action = router.OnArrival({i + 1});
    while (action.kind == Action::kSend) {
      ++reached[static_cast<std::size_t>(action.model)];
      action = router.OnAnswered({i + 1}, action.model, At(0));
      if (action.kind != Action::kJudge) continue;
      action = router.OnJudged({i + 1}, action.model, scores[i][static_cast<std::size_t>(action.model)], At(0));
    }
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(reached[i] == Approx(5 * plan.models[i].share));

  plan.models[2] = {};  // as in Table 2 at quality 80 on trace 3: none reaches the third
  plan.thresholds[1] = 0;
  CHECK_FALSE(StagesOf(plan)[2].served);
  CHECK(StagesOf(plan)[1].escalated_share == 0);
}

// ---- under fire -----------------------------------------------------------------------------------------------

// Three models have a router each. Instances come and go, the judge is slow, silent or confused, and clients give up.
// The host's own account of every request checks the cascade.
class Host {
 public:
  explicit Host(std::uint64_t seed) : random_(seed) {
    const auto verdict = [this] { return static_cast<NoVerdict>(random_.Below(3)); };
    cascade_ = std::make_unique<CascadeRouter>(
        Make({.stages = kStages, .on_missing = verdict(), .on_late = verdict(), .seed = seed}));
    for (int model = 0; model < 3; ++model) {
      routers_.push_back(*Router::Create({.max_outstanding = 4}, Fcfs{}, LeastLoaded{}));
      for (std::uint64_t i = 1; i <= 2; ++i) routers_.back().On(InstanceUp{{.id = {i}}}, now());
    }
  }

  void Run(std::int64_t arrivals) {
    for (std::int64_t i = 0; i < arrivals; ++i) {
      clock_ += random_.Exponential() / 4;
      Pass();
      Meddle();
      const RequestId id{++last_id_};
      ++living_[id.value];
      Do(cascade_->OnArrival(id));
    }
    for (int model = 0; model < 3; ++model) {
      for (std::uint64_t i = 1; i <= 2; ++i) {
        routers_[static_cast<std::size_t>(model)].On(InstanceUp{{.id = {i}}}, now());
      }
    }
    for (int i = 0; i < 10'000 && cascade_->alive() > 0; ++i) clock_ += 1, Pass();
    CHECK(cascade_->alive() == 0);
    CHECK(living_.empty());
    const CascadeStats& stats = cascade_->stats();
    CHECK(stats.arrived == static_cast<std::uint64_t>(arrivals));
    CHECK(stats.accepted + stats.failed + stats.cancelled == stats.arrived);
    CHECK(stats.accepted > 0);
    CHECK(stats.late > 0);
    CHECK(stats.missing > 0);
    CHECK(stats.ignored > 0);
  }

 private:
  enum class What { kAnswer, kFail, kVerdict };
  struct Due {
    double at;
    std::uint64_t order;
    What what;
    RequestId request;
    int model;
    bool operator>(const Due& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  TimePoint now() const { return At(clock_); }

  void Later(What what, RequestId request, int model, double mean) {
    due_.push({clock_ + mean * random_.Exponential(), ++order_, what, request, model});
  }

  // The cascade handles every call. The host acts only on the cascade's answers.
  void Do(Action action) {
    if (action.kind == Action::kNone) return;
    REQUIRE(living_.contains(action.request.value));
    if (action.kind == Action::kSend) {
      routers_[static_cast<std::size_t>(action.model)].On(Arrived{{.id = action.request, .prompt_tokens = Tokens{100}}},
                                                          now());
    } else if (action.kind == Action::kJudge) {
      if (!random_.Chance(0.1)) Later(What::kVerdict, action.request, action.model, 0.6);  // else never
      if (random_.Chance(0.1)) Later(What::kVerdict, action.request, action.model, 5);  // or once more
    } else {
      if (action.kind == Action::kAccept) CHECK(answered_[action.request.value] == action.model);
      if (action.kind == Action::kFail) CHECK_FALSE(answered_.contains(action.request.value));
      living_.erase(action.request.value);
      answered_.erase(action.request.value);
    }
  }

  void Place() {
    for (int model = 0; model < 3; ++model) {
      Router& router = routers_[static_cast<std::size_t>(model)];
      const auto placed = router.Place(now());
      const std::vector<Placement> copy(placed.begin(), placed.end());
      for (const Placement& p : copy) Later(random_.Chance(0.05) ? What::kFail : What::kAnswer, p.request, model, 0.5);
      for (const Failure& f : router.failed()) Do(cascade_->OnFailed(f.request, model));
    }
  }

  void Pass() {
    Place();
    while (!due_.empty() && due_.top().at <= clock_) {
      const Due due = due_.top();
      due_.pop();
      if (due.what == What::kVerdict) {
        const double score = random_.Chance(0.1) ? std::nan("") : 100 * random_.Uniform();
        Do(cascade_->OnJudged(due.request, due.model, score, now()));
        continue;
      }
      // A lost instance no longer answers. Its request is placed again and answered then.
      Router& router = routers_[static_cast<std::size_t>(due.model)];
      if (!router.InstanceOf(due.request)) continue;
      router.On(RequestEnded{due.request, {}}, now());
      if (due.what == What::kFail) {
        Do(cascade_->OnFailed(due.request, due.model));
        continue;
      }
      answered_[due.request.value] = due.model;
      Do(cascade_->OnAnswered(due.request, due.model, now()));
    }
    const auto expired = cascade_->Expire(now());
    const std::vector<Action> actions(expired.begin(), expired.end());
    for (const Action& action : actions) Do(action);
    if (cascade_->wake_at() != kNever) CHECK(cascade_->wake_at() > now());
    Place();
  }

  void Meddle() {
    const RequestId any{1 + random_.Below(last_id_ + 3)};
    const int model = static_cast<int>(random_.Below(5)) - 1;
    switch (random_.Below(12)) {
      case 0:
        if (cascade_->ModelOf(any) >= 0) {
          routers_[static_cast<std::size_t>(cascade_->ModelOf(any))].On(Cancelled{any}, now());
        }
        if (cascade_->OnCancelled(any)) living_.erase(any.value), answered_.erase(any.value);
        break;
      case 1: routers_[random_.Below(3)].On(InstanceDown{{1 + random_.Below(2)}}, now()); break;
      case 2: routers_[random_.Below(3)].On(InstanceUp{{.id = {1 + random_.Below(2)}}}, now()); break;
      case 3: {
        std::vector<CascadeStage> stages = kStages;
        for (CascadeStage& stage : stages)
          stage.accept_at = 120 * random_.Uniform() - 10, stage.served = random_.Chance(0.7);
        const bool fine = stages[0].served || stages[1].served || stages[2].served;
        CHECK(cascade_->Replan(stages).ok() == fine);
        break;
      }
      case 4:
        if (living_.contains(any.value)) Do(cascade_->OnArrival(any));
        break;
      case 5:
        CHECK(cascade_->OnJudged({last_id_ + 9}, model, 50, now()).kind == Action::kNone);
        CHECK(cascade_->OnAnswered({last_id_ + 9}, model, now()).kind == Action::kNone);
        CHECK(cascade_->OnFailed(any, -1).kind == Action::kNone);
        break;
      case 6:
        // An unexpected verdict counts only if the cascade waits for one.
        Do(cascade_->OnJudged(any, model, 100 * random_.Uniform(), At(clock_ - 3)));
        break;
      default: break;
    }
  }

  Random random_;
  std::unique_ptr<CascadeRouter> cascade_;
  std::vector<Router> routers_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::map<std::uint64_t, int> living_;  // arrivals of each request that has not ended
  std::map<std::uint64_t, int> answered_;  // model of the last answer
  double clock_ = 1;
  std::uint64_t order_ = 0;
  std::uint64_t last_id_ = 0;
};

TEST_CASE("every request leaves exactly once under random hosts") {
  for (std::int64_t seed = 1; seed <= Scaled(50); ++seed) {
    CAPTURE(seed);
    Host(static_cast<std::uint64_t>(seed)).Run(400);
  }
}

TEST_CASE("equal events give equal actions without allocation") {
  const auto run = [](std::vector<Action>& actions) {
    Random random(7);
    CascadeRouter router = Make({.stages = kStages, .reserve_requests = 64});
    double clock = 0;
    const std::size_t before = allocations;
    for (int i = 0; i < 20'000; ++i) {
      clock += random.Exponential() / 10;
      const RequestId id{1 + random.Below(64)};
      const int model = static_cast<int>(random.Below(3));
      switch (random.Below(6)) {
        case 0: actions.push_back(router.OnArrival(id)); break;
        case 1:
        case 2: actions.push_back(router.OnAnswered(id, model, At(clock))); break;
        case 3: actions.push_back(router.OnJudged(id, model, random.Chance(0.2) ? std::nan("") : 50, At(clock))); break;
        case 4: actions.push_back(router.OnFailed(id, model)); break;
        default:
          for (const Action& action : router.Expire(At(clock))) actions.push_back(action);
      }
    }
    return allocations - before;
  };
  std::vector<Action> first, second;
  first.reserve(100'000);
  second.reserve(100'000);
  CHECK(run(first) == 0);
  run(second);
  CHECK(first == second);
  CHECK(first.size() > 10'000);
}

}  // namespace
}  // namespace takt
