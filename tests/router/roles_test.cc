// Instances for prefill and for decode.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/model/cost_model.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/least_outstanding_tokens.h"
#include "takt/placement/registry.h"
#include "takt/placement/session.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Arrived Arrival(std::uint64_t id, std::int32_t prompt = 1000) {
  Arrived arrived;
  arrived.request.id = {id};
  arrived.request.prompt_tokens = {prompt};
  return arrived;
}

InstanceUp Up(std::uint64_t id, InstanceRole role, std::int64_t capacity = Instance::kUnbounded,
              std::int32_t kv_tokens = 0) {
  return {{.id = {id}, .kv_tokens = {kv_tokens}, .capacity = capacity, .role = role}};
}
InstanceUp Prefill(std::uint64_t id) { return Up(id, InstanceRole::kPrefill); }
InstanceUp Decode(std::uint64_t id) { return Up(id, InstanceRole::kDecode); }

Router Make(RouterOptions options = {.local_if_sooner = false}) {
  return *Router::Create(options, Fcfs{}, LeastOutstandingTokens{}, LeastLoaded{});
}

// The answers of a Place: request, instance; then those of decodes() and withdrawn().
struct Answer {
  using List = std::vector<std::tuple<std::uint64_t, std::uint64_t>>;
  List placed = {}, decodes = {}, withdrawn = {};

  friend bool operator==(const Answer&, const Answer&) = default;
};
Answer Place(Router& router, double seconds) {
  const auto list = [](std::span<const Placement> from) {
    Answer::List to;
    for (const Placement& p : from) to.emplace_back(p.request.value, p.instance.value);
    return to;
  };
  const std::span<const Placement> placed = router.Place(At(seconds));
  return {list(placed), list(router.decodes()), list(router.withdrawn())};
}

const InstanceState& Of(const Router& router, std::uint64_t id) {
  for (const InstanceState& i : router.instances()) {
    if (i.instance.id == InstanceId{id}) return i;
  }
  FAIL("the instance is not up");
  return router.instances()[0];
}

std::shared_ptr<const PreparedCostModel> Cost(double prefill_ms) {
  CostModel cost;
  cost.served = {5, 0, 0, prefill_ms};
  cost.kv_bytes_per_token = 1e6;
  return std::make_shared<const PreparedCostModel>(cost);
}

TEST_CASE("a request is prefilled on one instance and decoded on another") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{7, 1}}, .decodes = {{7, 2}}});
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  CHECK(router.DecodeOf({7}) == InstanceId{2});
  CHECK(Of(router, 1).outstanding == 1);
  CHECK(Of(router, 1).pending_prefill == 1000);
  CHECK(Of(router, 2).outstanding == 1);
  CHECK(Of(router, 2).expected == 1);
  CHECK(Of(router, 2).since_report == 1);
  CHECK(Of(router, 2).pending_prefill == 0);
  router.On(InstanceReported{{2}, {.as_of = At(1)}}, At(1));  // the request is not there yet
  CHECK(Of(router, 2).since_report == 1);
  CHECK(Of(router, 2).tokens_since_report == 1000);

  router.On(PrefillEnded{{7}, {1}}, At(2));
  CHECK(router.InstanceOf({7}) == InstanceId{2});
  CHECK_FALSE(router.DecodeOf({7}));
  CHECK(Of(router, 1).outstanding == 0);
  CHECK(Of(router, 1).pending_prefill == 0);
  CHECK(Of(router, 2).outstanding == 1);
  CHECK(Of(router, 2).expected == 0);
  CHECK(Of(router, 2).since_report == 1);
  router.On(InstanceReported{{2}, {.running = 1, .as_of = At(3)}}, At(3));
  CHECK(Of(router, 2).since_report == 0);
  CHECK(router.waiting() == 0);
  router.On(PrefillEnded{{7}, {1}}, At(3));  // again
  CHECK(router.stats().reported_late == 1);
  router.On(RequestEnded{{7}, {2}}, At(4));
  CHECK(router.alive() == 0);
  CHECK(Of(router, 2).outstanding == 0);
  CHECK(router.stats().placed_apart == 1);
  CHECK(router.stats().handed_over == 1);
  CHECK(router.stats().faults() == 0);
}

TEST_CASE("an event of the decode instance also hands a request over") {
  const int kind = GENERATE(0, 1, 2);
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  Place(router, 0);
  if (kind == 0) router.On(RequestStarted{{7}, {2}}, At(1));
  if (kind == 1) router.On(RequestServed{{7}, {2}, {{0}, {3}}}, At(1));
  if (kind == 2) router.On(RequestEnded{{7}, {2}}, At(1));
  CHECK(router.stats().handed_over == 1);
  CHECK(Of(router, 1).outstanding == 0);
  CHECK(router.alive() == (kind == 2 ? 0 : 1));
}

TEST_CASE("a request may end on its prefill instance") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  for (std::uint64_t id : {7u, 8u}) router.On(Arrival(id), At(0));
  Place(router, 0);
  router.On(RequestEnded{{7}, {}, true}, At(1));
  router.On(Cancelled{{8}}, At(1));
  CHECK(router.alive() == 0);
  for (const InstanceState& i : router.instances()) CHECK((i.outstanding == 0 && i.expected == 0));
  CHECK(Of(router, 2).since_report == 0);
}

TEST_CASE("if the prefill instance dies, the request is placed anew and withdrawn from its decode instance") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  router.On(Arrival(8), At(0));
  Place(router, 0);
  router.On(PrefillEnded{{8}, {1}}, At(1));
  router.On(InstanceDown{{1}}, At(1));
  CHECK(router.stats().returned == 1);  // the other request has left the instance
  CHECK(Of(router, 2).outstanding == 1);
  CHECK(Of(router, 2).expected == 0);
  CHECK(router.waiting() == 1);
  router.On(Prefill(3), At(2));
  CHECK(Place(router, 2) == Answer{.placed = {{7, 3}}, .decodes = {{7, 2}}, .withdrawn = {{7, 2}}});
  CHECK(Place(router, 3) == Answer{});
}

TEST_CASE("if the decode instance dies before the prefill ends, the request only gets another") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  Place(router, 0);
  router.On(InstanceDown{{2}}, At(1));
  CHECK(router.stats().decode_lost == 1);
  CHECK(router.stats().returned == 0);
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  CHECK(Place(router, 1) == Answer{});
  const bool soon = GENERATE(true, false);
  if (!soon) {  // the KV waits on the prefill instance
    router.On(PrefillEnded{{7}, {1}}, At(2));
    CHECK(router.InstanceOf({7}) == InstanceId{1});
    CHECK(Of(router, 1).pending_prefill == 0);
  }
  router.On(Decode(3), At(3));
  CHECK(Place(router, 3) == Answer{.decodes = {{7, 3}}});
  CHECK(router.InstanceOf({7}) == (soon ? InstanceId{1} : InstanceId{3}));
  if (soon) router.On(PrefillEnded{{7}, {}}, At(4));
  CHECK(router.InstanceOf({7}) == InstanceId{3});
  CHECK(Of(router, 1).outstanding == 0);
  CHECK(router.stats().handed_over == 1);
}

TEST_CASE("a prefilled request that no decode instance accepts runs as a whole elsewhere") {
  // The decode instance that remains: none, one that is too small, or one that accepts no more requests.
  const int rest = GENERATE(0, 1, 2);
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  Arrived arrival = Arrival(7);
  arrival.request.expires_at = At(100);
  router.On(arrival, At(0));
  Place(router, 0);
  router.On(Up(3, InstanceRole::kBoth, 1), At(1));
  router.On(Arrival(8), At(1));
  CHECK(Place(router, 1) == Answer{.placed = {{8, 3}}});
  if (rest == 1) router.On(Up(4, InstanceRole::kDecode, Instance::kUnbounded, 900), At(1));
  if (rest == 2) router.On(Up(4, InstanceRole::kDecode, 0), At(1));
  router.On(InstanceDown{{2}}, At(1));
  CHECK(Place(router, 1) == Answer{});  // the prefill goes on
  router.On(PrefillEnded{{7}, {1}}, At(2));
  CHECK(Place(router, 2) == Answer{});  // no instance has room
  CHECK(router.InstanceOf({7}) == InstanceId{1});
  router.On(RequestEnded{{8}, {3}}, At(3));
  const bool late = GENERATE(false, true);
  if (late) {
    CHECK(Place(router, 100) == Answer{.withdrawn = {{7, 1}}});
    CHECK(router.failed().size() == 1);
    CHECK(router.alive() == 0);
  } else {
    CHECK(Place(router, 3) == Answer{.placed = {{7, 3}}, .withdrawn = {{7, 1}}});
    CHECK(router.InstanceOf({7}) == InstanceId{3});
    CHECK(Of(router, 3).pending_prefill == 1000);
    CHECK(Place(router, 4) == Answer{});
  }
  CHECK(Of(router, 1).outstanding == 0);
  CHECK(router.stats().returned == 1);
  CHECK(router.waiting() == 0);
}

TEST_CASE("a prefilled request waits for a decode instance that is full") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  Place(router, 0);
  router.On(InstanceDown{{2}}, At(1));
  router.On(PrefillEnded{{7}, {1}}, At(1));
  router.On(Up(4, InstanceRole::kDecode, 1), At(1));
  router.On(Arrival(8), At(1));
  CHECK(Place(router, 1).decodes == Answer::List{{7, 4}});
  router.On(Cancelled{{7}}, At(2));
  CHECK(Place(router, 2) == Answer{.placed = {{8, 1}}, .decodes = {{8, 4}}});
  router.On(Decode(5), At(3));
  router.On(Arrival(9), At(3));
  CHECK(Place(router, 3) == Answer{.placed = {{9, 1}}, .decodes = {{9, 5}}});
  router.On(InstanceDown{{5}}, At(4));
  router.On(PrefillEnded{{9}, {1}}, At(4));
  router.On(Up(3, InstanceRole::kBoth), At(4));
  CHECK(Place(router, 4) == Answer{});
  router.On(RequestEnded{{8}, {4}}, At(5));
  CHECK(Place(router, 5) == Answer{.decodes = {{9, 4}}});
}

TEST_CASE("a leg that the host uses again is not withdrawn") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Prefill(3), At(0));
  router.On(Decode(4), At(0));
  for (std::uint64_t id : {7u, 8u, 9u}) {
    router.On(Arrival(id), At(0));
    CHECK(router.PlaceAt({id}, {1}, At(0), {2}));
  }
  router.On(InstanceDown{{1}}, At(1));
  CHECK(router.PlaceAt({7}, {3}, At(1), {2}));
  CHECK(router.PlaceAt({8}, {2}, At(1)));  // as a whole
  CHECK(router.PlaceAt({9}, {3}, At(1), {4}));
  CHECK(router.DecodeOf({7}) == InstanceId{2});
  CHECK(Place(router, 2) == Answer{.withdrawn = {{9, 2}}});
}

TEST_CASE("without cost models of both instances, no prefill is taken to end sooner") {
  // The instance with a profile: none, the prefill instance, or the decode instance.
  const std::uint64_t known = GENERATE(0u, 1u, 2u);
  Router router = Make({});
  const ProfileId profile = router.AddProfile({.name = "a", .cost = Cost(1)});
  for (auto [id, role] : {std::tuple(1u, InstanceRole::kPrefill), std::tuple(2u, InstanceRole::kDecode)}) {
    router.On(InstanceUp{{.id = {id}, .profile = id == known ? profile : ProfileId{}, .role = role}}, At(0));
  }
  router.On(Arrival(7), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{7, 1}}, .decodes = {{7, 2}}});
}

// Counts the events that all copies observe.
struct Counting {
  std::int64_t* seen;

  double Score(const RequestState&, const InstanceState&, TimePoint) const { return 0; }
  void Observe(const RouterEvent&, TimePoint) { ++*seen; }
};

TEST_CASE("a placement of decode instances observes nothing before the first instance of one role") {
  std::int64_t seen = 0;
  auto router = *BasicRouter<Fcfs, Counting>::Create({}, Fcfs{}, Counting{&seen});
  router.On(Up(1, InstanceRole::kBoth), At(0));
  router.On(Arrival(7), At(0));
  router.Place(At(0));
  router.On(RequestEnded{{7}, {1}}, At(1));
  CHECK(seen == 3);
  router.On(Decode(2), At(1));
  CHECK(seen == 4);
  router.On(Arrival(8), At(1));
  CHECK(seen == 6);
}

TEST_CASE("many requests lose their decode instance") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  for (std::uint64_t id = 1; id <= 4; ++id) router.On(Arrival(id), At(0));
  Place(router, 0);
  router.On(InstanceDown{{2}}, At(1));
  router.On(Cancelled{{3}}, At(1));
  router.On(PrefillEnded{{4}, {1}}, At(1));
  router.On(Up(5, InstanceRole::kDecode, 2), At(2));
  CHECK(Place(router, 2) == Answer{.decodes = {{1, 5}, {2, 5}}});
  CHECK(Of(router, 5).expected == 2);
  router.On(Decode(6), At(3));
  CHECK(Place(router, 3) == Answer{.decodes = {{4, 6}}});
  CHECK(router.InstanceOf({4}) == InstanceId{6});
  CHECK(Of(router, 1).outstanding == 2);
}

TEST_CASE("both instances of a request die") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  Place(router, 0);
  const bool decode_first = GENERATE(true, false);
  router.On(InstanceDown{{decode_first ? 2u : 1u}}, At(1));
  router.On(InstanceDown{{decode_first ? 1u : 2u}}, At(1));
  CHECK(router.waiting() == 1);
  router.On(Prefill(3), At(2));
  CHECK(Place(router, 2).placed.empty());  // a prefill instance alone runs nothing
  CHECK(router.set_aside() == 0);
  router.On(Decode(4), At(3));
  CHECK(Place(router, 3) == Answer{.placed = {{7, 3}}, .decodes = {{7, 4}}});
}

TEST_CASE("if the decode instance dies after the hand-over, the request starts again") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  Place(router, 0);
  router.On(PrefillEnded{{7}, {1}}, At(1));
  router.On(RequestServed{{7}, {2}, {{0}, {5}}}, At(1));
  router.On(InstanceDown{{2}}, At(2));
  CHECK(router.stats().returned == 1);
  router.On(Decode(3), At(2));
  CHECK(Place(router, 2) == Answer{.placed = {{7, 1}}, .decodes = {{7, 3}}});
}

TEST_CASE("without a prefill instance, decode instances run whole requests") {
  Router router = Make();
  router.On(Decode(2), At(0));
  router.On(Arrival(7), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{7, 2}}});
  CHECK(Of(router, 2).pending_prefill == 1000);
  router.On(PrefillEnded{{7}, {2}}, At(1));  // no other instance takes the request
  CHECK(Of(router, 2).pending_prefill == 0);
  CHECK(router.InstanceOf({7}) == InstanceId{2});
  CHECK(router.stats().handed_over == 0);
  router.On(Up(1, InstanceRole::kPrefill, 0), At(1));  // takes no new requests
  router.On(Arrival(8), At(1));
  CHECK(Place(router, 1) == Answer{.placed = {{8, 2}}});
}

TEST_CASE("instances for both phases stay as they are") {
  Router router = Make();
  router.On(Up(1, InstanceRole::kBoth), At(0));
  router.On(Prefill(2), At(0));
  router.On(Decode(3), At(0));
  for (std::uint64_t id = 1; id <= 4; ++id) router.On(Arrival(id), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{1, 1}, {2, 2}, {3, 1}, {4, 2}}, .decodes = {{2, 3}, {4, 3}}});
  router.On(InstanceDown{{3}}, At(1));
  router.On(Arrival(5), At(1));
  CHECK(Place(router, 1) == Answer{.placed = {{5, 1}}});  // no decode instance is up
}

TEST_CASE("short prompts stay on a decode instance, even if the prefill instances are full") {
  RouterOptions options{.local_tokens = 500, .local_if_sooner = false};
  Router router = Make(options);
  router.On(Up(1, InstanceRole::kPrefill, 1), At(0));
  router.On(Decode(2), At(0));
  router.On(Arrival(1, 501), At(0));
  router.On(Arrival(2, 501), At(0));
  router.On(Arrival(3, 500), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{1, 1}, {3, 2}}, .decodes = {{1, 2}}});
  CHECK(router.waiting() == 1);
}

TEST_CASE("the cached part of a prompt does not count") {
  RouterOptions options{.local_tokens = 300, .local_if_sooner = false};
  Router router = *Router::Create(options, Fcfs{}, LeastLoaded{}, *MakePlacement("cached_cost"));
  router.On(Prefill(1), At(0));
  router.On(Up(2, InstanceRole::kDecode, Instance::kUnbounded, 100'000), At(0));
  Arrived turn = Arrival(1, 1000);
  turn.request.workflow = {5};
  router.On(turn, At(0));
  CHECK(Place(router, 0).placed == Answer::List{{1, 1}});
  router.On(PrefillEnded{{1}, {1}}, At(1));
  router.On(RequestEnded{{1}, {2}}, At(2));
  turn.request.id = {2}, turn.request.prompt_tokens = {1200};
  router.On(turn, At(3));
  CHECK(Place(router, 3) == Answer{.placed = {{2, 2}}});
}

TEST_CASE("a prefill stays on the decode instance while its end there is no later") {
  Router router = *Router::Create({.kv_link_gb_s = 10}, Fcfs{}, LeastOutstandingTokens{}, LeastLoaded{});
  const ProfileId profile = router.AddProfile({.name = "a", .cost = Cost(1)});
  for (auto [id, role] : {std::tuple(1u, InstanceRole::kPrefill), std::tuple(2u, InstanceRole::kDecode)}) {
    router.On(InstanceUp{{.id = {id}, .profile = profile, .role = role}}, At(0));
  }
  // A prompt of 1000 tokens: a prefill of about 1 s, a transfer of 0.1 s.
  for (std::uint64_t id = 1; id <= 4; ++id) router.On(Arrival(id), At(0));
  CHECK(Place(router, 0) == Answer{.placed = {{1, 2}, {2, 1}, {3, 2}, {4, 1}}, .decodes = {{2, 2}, {4, 2}}});
}

TEST_CASE("an instance must be large enough for its phase") {
  Router router = Make();
  router.On(Up(1, InstanceRole::kPrefill, Instance::kUnbounded, 900), At(0));
  router.On(Up(2, InstanceRole::kDecode, Instance::kUnbounded, 2000), At(0));
  router.On(Arrival(1, 1000), At(0));  // too large for the prefill instance
  router.On(Arrival(2, 3000), At(0));  // too large for both
  CHECK(Place(router, 0) == Answer{.placed = {{1, 2}}});
  CHECK(router.set_aside() == 1);
}

TEST_CASE("an explanation names both instances") {
  Router router = Make();
  for (std::uint64_t id : {1u, 2u}) router.On(Prefill(id), At(0));
  for (std::uint64_t id : {3u, 4u}) router.On(Decode(id), At(0));
  router.On(Arrival(7), At(0));
  router.On(InstanceReported{{3}, {.running = 5}}, At(0));
  std::vector<Candidate> all(4);
  RouteExplanation why = router.Explain(Arrival(7).request, At(0), all);
  CHECK(why.chosen == InstanceId{1});
  CHECK(why.decode == InstanceId{4});
  CHECK(why.scored == 4);
  CHECK(why.regret == 0);
  CHECK(why.decode_regret == 0);
  CHECK(all[2].regret > 0);
  CHECK(all[1].regret == 0);
  CHECK(Place(router, 0) == Answer{.placed = {{7, 1}}, .decodes = {{7, 4}}});
  why = router.Explain(Arrival(7).request, At(0), all);
  CHECK(why.status == RequestStatus::kRunning);
  CHECK(why.chosen == InstanceId{1});
  CHECK(why.decode == InstanceId{4});
  CHECK(why.regret > 0);  // its own tokens are there
  router.On(PrefillEnded{{7}, {1}}, At(0));
  why = router.Explain(Arrival(7).request, At(0), all);
  CHECK(why.chosen == InstanceId{4});
  CHECK_FALSE(why.decode);
  CHECK(why.regret == 0);
}

TEST_CASE("a host places a request on instances of fitting roles") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Up(3, InstanceRole::kBoth), At(0));
  for (std::uint64_t id = 1; id <= 3; ++id) router.On(Arrival(id), At(0));
  CHECK_FALSE(router.PlaceAt({1}, {1}, At(0)));
  CHECK_FALSE(router.PlaceAt({1}, {1}, At(0), {3}));
  CHECK_FALSE(router.PlaceAt({1}, {1}, At(0), {9}));
  CHECK_FALSE(router.PlaceAt({1}, {2}, At(0), {2}));
  CHECK_FALSE(router.PlaceAt({1}, {3}, At(0), {2}));
  CHECK(router.PlaceAt({1}, {1}, At(0), {2}));
  CHECK(router.PlaceAt({2}, {2}, At(0)));
  CHECK(router.PlaceAt({3}, {3}, At(0)));
  CHECK(router.DecodeOf({1}) == InstanceId{2});
  CHECK(Place(router, 0) == Answer{});
}

TEST_CASE("late and unknown ends of prefills are counted") {
  Router router = Make();
  router.On(Prefill(1), At(0));
  router.On(Decode(2), At(0));
  router.On(Decode(3), At(0));
  router.On(PrefillEnded{{9}, {1}}, At(0));
  CHECK(router.stats().events_unknown == 1);
  router.On(Arrival(7), At(0));
  router.On(PrefillEnded{{7}, {}}, At(0));  // it waits here
  CHECK(router.stats().reported_late == 1);
  Place(router, 0);
  router.On(PrefillEnded{{7}, {3}}, At(0));
  CHECK(router.stats().reported_late == 2);
  router.On(PrefillEnded{{7}, {1}, 99}, At(0));
  CHECK(router.stats().events_unknown == 2);
  CHECK(router.InstanceOf({7}) == InstanceId{1});
}

TEST_CASE("invalid options about roles are named") {
  const absl::Status status = RouterOptions{.local_tokens = -1, .kv_link_gb_s = -2}.Validate();
  CHECK(std::string(status.message()).find("local_tokens") != std::string::npos);
  CHECK(std::string(status.message()).find("kv_link_gb_s") != std::string::npos);
  CHECK_FALSE(RouterOptions{.kv_link_gb_s = std::nan("")}.Validate().ok());
}

TEST_CASE("a router with roles allocates nothing after warm-up") {
  Router router = *Router::Create({.max_outstanding = 8, .reserve_requests = 64}, Fcfs{}, LeastLoaded{});
  for (std::uint64_t id : {1u, 2u}) router.On(Prefill(id), At(0));
  for (std::uint64_t id : {3u, 4u}) router.On(Decode(id), At(0));
  std::uint64_t arrived = 0, ended = 0;
  const auto round = [&] {
    for (; arrived - ended < 20; ++arrived) router.On(Arrival(arrived + 1), At(0));
    const std::uint64_t first = ended + 1;
    for (const Placement& p : router.Place(At(0))) ended = std::max(ended, p.request.value);
    for (std::uint64_t id = first; id <= ended; ++id) {
      router.On(PrefillEnded{{id}, {}}, At(0));
      router.On(RequestEnded{{id}, {}}, At(0));
    }
  };
  for (int i = 0; i < 20; ++i) round();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) round();
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(router.stats().handed_over > 1000);
}

}  // namespace
}  // namespace takt
