// Room for prompts and learned outputs: by hand, and with any input.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/registry.h"
#include "takt/placement/token_reservation.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr double kNowhere = -std::numeric_limits<double>::infinity();

RequestState Of(std::uint32_t slot, std::int32_t prompt, std::uint64_t agent = 0) {
  RequestState r;
  r.slot = slot;
  r.request.id = {slot + std::uint64_t{1}};
  r.request.agent = {agent};
  r.request.prompt_tokens = {prompt};
  return r;
}

InstanceState Engine(std::uint32_t slot, std::int32_t kv, std::int64_t outstanding = 1) {
  InstanceState i;
  i.slot = slot;
  i.instance = {.id = {slot + std::uint64_t{1}}, .kv_tokens = {kv}};
  i.outstanding = outstanding;
  return i;
}

double ScoreOf(TokenReservation& policy, const RequestState& r, const InstanceState& i) {
  policy.Prepare(r, {});
  return policy.Score(r, i, {});
}

// The request has run and ended well, and its output was reported.
void End(TokenReservation& policy, RequestState r, const InstanceState& i, std::int32_t output, bool well = true) {
  policy.Started(r, i, {});
  policy.Observe(RequestEnded{r.request.id, i.instance.id, !well, TokensServed{{}, {output}}}, {});
  r.generated = {output};
  policy.Released(r, i, {});
}

TEST_CASE("a reservation lasts until the request has ended") {
  TokenReservation policy;
  policy.unknown = 100;
  const InstanceState engine = Engine(0, 1000);
  const RequestState first = Of(0, 500), second = Of(1, 200), third = Of(2, 100);
  CHECK(ScoreOf(policy, first, engine) == Approx(-0.6));
  policy.Placed(first, engine, {});
  CHECK(policy.Reserved(0) == 600);
  CHECK(ScoreOf(policy, second, engine) == Approx(-0.9));
  policy.Placed(second, engine, {});
  CHECK(ScoreOf(policy, third, engine) == kNowhere);
  CHECK(ScoreOf(policy, third, Engine(0, 1000, 0)) == Approx(-1.1));  // an empty instance may try
  policy.share = 1.1;
  CHECK(ScoreOf(policy, third, engine) == Approx(-1.1));
  policy.share = 1;
  policy.Released(first, engine, {});
  CHECK(policy.Reserved(0) == 300);
  CHECK(ScoreOf(policy, third, engine) == Approx(-0.5));
  policy.Released(first, engine, {});  // the second call
  CHECK(policy.Reserved(0) == 300);
}

TEST_CASE("among instances with room, the smallest reserved share wins") {
  TokenReservation policy;
  policy.unknown = 0;
  policy.Placed(Of(0, 500), Engine(0, 1000), {});
  policy.Placed(Of(1, 800), Engine(1, 4000), {});
  const RequestState r = Of(2, 100);
  CHECK(ScoreOf(policy, r, Engine(0, 1000)) == Approx(-0.6));
  CHECK(ScoreOf(policy, r, Engine(1, 4000)) == Approx(-900.0 / 4000));
  CHECK(ScoreOf(policy, r, Engine(0, 0)) > kNowhere);
  CHECK(ScoreOf(policy, r, Engine(0, 0)) > ScoreOf(policy, r, Engine(1, 0)));
}

TEST_CASE("a bounded number of unstarted requests waits at an instance") {
  TokenReservation policy;
  policy.waiting = 1;
  const InstanceState engine = Engine(0, 1 << 30);
  policy.Placed(Of(0, 10), engine, {});
  CHECK(ScoreOf(policy, Of(9, 10), engine) > kNowhere);
  policy.Placed(Of(1, 10), engine, {});
  CHECK(ScoreOf(policy, Of(9, 10), engine) == kNowhere);
  CHECK(ScoreOf(policy, Of(9, 10), Engine(1, 1 << 30)) > kNowhere);
  policy.Started(Of(0, 10), engine, {});
  CHECK(ScoreOf(policy, Of(9, 10), engine) > kNowhere);
}

TEST_CASE("output is the quantile of the agent, the estimate, or all") {
  TokenReservation policy;
  policy.quantile = 0.5;
  policy.unknown = 7;
  const InstanceState engine = Engine(0, 1 << 30);
  const auto output = [&](std::uint64_t agent, Estimate estimate = {}) {
    RequestState r = Of(1, 10, agent);
    r.request.output_tokens = estimate;
    return policy.TokensOf(r) - 10;
  };
  const auto learn = [&](std::uint64_t agent, std::int32_t tokens, bool well = true) {
    const RequestState r = Of(5, 10, agent);
    policy.Placed(r, engine, {});
    End(policy, r, engine, tokens, well);
  };
  CHECK(output(1) == 7);
  CHECK(output(1, Estimate::Exact(55)) == 55);
  learn(1, 100);
  learn(1, 300);
  learn(1, 200);
  learn(1, 9000, false);  // failed: no length
  CHECK(output(1) == 200);
  CHECK(output(1, Estimate::Exact(55)) == 200);
  CHECK(output(2, Estimate::Exact(55)) == 55);
  CHECK(output(2) == 200);
  learn(2, 1000);
  CHECK(output(2) == 1000);
  CHECK(output(1) == 200);
  CHECK(output(3) == 250);  // of 100, 200, 300, 1000
  for (std::size_t i = 0; i < TokenReservation::kWindow; ++i) learn(1, 40);
  CHECK(output(1) == 40);  // earlier state is forgotten
  CHECK(policy.agents() == 2);
}

TEST_CASE("unreported and cancelled outputs teach nothing") {
  TokenReservation policy;
  policy.unknown = 7;
  const InstanceState engine = Engine(0, 1 << 30);
  RequestState r = Of(5, 10, 1);
  r.generated = {500};
  policy.Placed(r, engine, {});
  policy.Observe(RequestEnded{r.request.id, engine.instance.id, false, {}}, {});
  policy.Released(r, engine, {});
  policy.Placed(r, engine, {});
  policy.Observe(Cancelled{r.request.id}, {});
  policy.Released(r, engine, {});
  policy.Placed(r, engine, {});
  policy.Observe(RequestEnded{{77}, engine.instance.id, false, TokensServed{{}, {5}}}, {});  // of another request
  policy.Released(r, engine, {});
  CHECK(policy.TokensOf(Of(1, 10, 1)) == 17);
  CHECK(policy.agents() == 0);
}

TEST_CASE("agents are bounded, and the longest silent one is dropped") {
  TokenReservation policy;
  policy.unknown = 7;
  const InstanceState engine = Engine(0, 1 << 30);
  for (std::uint64_t agent = 1; agent <= TokenReservation::kMost + 10; ++agent) {
    const RequestState r = Of(5, 10, agent);
    policy.Placed(r, engine, {});
    End(policy, r, engine, static_cast<std::int32_t>(agent == 1 ? 5000 : 100));
    if (agent % 100 == 0) End(policy, Of(5, 10, 1), engine, 5000);
  }
  CHECK(policy.agents() == TokenReservation::kMost);
  CHECK(policy.TokensOf(Of(1, 10, 1)) == 5010);  // it stayed active
}

TEST_CASE("absurd lengths do not overflow or stop other requests") {
  TokenReservation policy;
  const InstanceState engine = Engine(0, 1000);
  RequestState r = Of(0, std::numeric_limits<std::int32_t>::max());
  r.request.output_tokens = Estimate::Exact(1e300);
  for (std::uint32_t slot = 0; slot < 100; ++slot) {
    r.slot = slot;
    policy.Placed(r, engine, {});
  }
  CHECK(policy.Reserved(0) > 0);
  CHECK(ScoreOf(policy, Of(200, 1), engine) == kNowhere);
  for (std::uint32_t slot = 0; slot < 100; ++slot) {
    r.slot = slot;
    policy.Released(r, engine, {});
  }
  CHECK(policy.Reserved(0) == 0);
}

TEST_CASE("a router keeps requests without room, and rank decides next") {
  const auto placement = MakePlacement("token_reservation(quantile=0.75,share=0.9,waiting=8,unknown=100)");
  REQUIRE(placement.ok());
  CHECK(placement->spec() == "token_reservation(quantile=0.75,share=0.9,waiting=8,unknown=100)");
  CHECK_FALSE(MakePlacement("token_reservation(quantile=1.5)").ok());
  CHECK_FALSE(MakePlacement("token_reservation(share=0)").ok());
  CHECK_FALSE(MakePlacement("token_reservation(waiting=-1)").ok());
  auto router = Router::Create({}, AnyPolicy(Priority{}), *placement);
  REQUIRE(router.ok());
  for (std::uint64_t id : {1u, 2u}) router->On(InstanceUp{{.id = {id}, .kv_tokens = {1000}}}, {});
  const auto arrive = [&](std::uint64_t id, std::int32_t priority) {
    Request r;
    r.id = {id}, r.prompt_tokens = {300}, r.priority = priority;
    router->On(Arrived{r}, {});
    return router->Place({}).size();
  };
  CHECK(arrive(1, 5) == 1);
  CHECK(arrive(2, 5) == 1);
  CHECK(arrive(3, 5) == 1);
  CHECK(arrive(4, 5) == 1);  // two on each: 800 of 900
  CHECK(arrive(5, 5) == 0);
  CHECK(arrive(6, 1) == 0);
  router->On(RequestEnded{{1}, router->InstanceOf({1})}, {});
  REQUIRE(router->Place({}).size() == 1);
  CHECK(router->InstanceOf({6}) != InstanceId{});
  CHECK(router->InstanceOf({5}) == InstanceId{});
  router->On(InstanceDown{{1}}, {});
  router->On(InstanceUp{{.id = {1}, .kv_tokens = {1000}}}, {});
  CHECK(router->Place({}).size() == 2);  // all reservations there went with it
  CHECK(router->waiting() == 1);
}

}  // namespace
}  // namespace takt
