// Two routers, one in C++ and one in C, receive the same random facts. Their placements, failures and counts must be
// equal.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
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
#include "fire/setup.h"
#include "scale.h"
#include "takt/c/takt.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/router.h"

namespace takt {
namespace {

using fire::Dice;

bool Same(const Placement& a, const takt_placement& b) {
  return a.request.value == b.request && a.instance.value == b.instance;
}
bool Same(const Failure& a, const takt_failure& b) {
  return a.request.value == b.request && static_cast<std::uint8_t>(a.reason) == b.reason;
}
bool Same(const WorkflowEnd& a, const takt_workflow_end& b) {
  return a.workflow.value == b.workflow && static_cast<std::uint8_t>(a.how) == b.how && Ns(a.arrival) == b.arrival &&
         Ns(a.end) == b.end && Ns(a.deadline) == b.deadline && a.stage == b.stage;
}
bool Same(const WorkflowFault& a, const takt_workflow_fault& b) {
  return static_cast<std::uint8_t>(a.kind) == b.kind && a.workflow.value == b.workflow && a.stage == b.stage &&
         a.site.value == b.site;
}
template <class A, class B>
bool SameAll(const A& a, const B* b, std::size_t n) {
  return std::equal(a.begin(), a.end(), b, b + n, [](const auto& x, const auto& y) { return Same(x, y); });
}

constexpr std::uint64_t kInstances = 4;

class Twins {
 public:
  explicit Twins(std::uint64_t seed) : setup_(fire::Setup::OfSeed(seed)), dice_(seed ^ 0x40a7u) {
    RouterOptions options;
    options.max_outstanding = dice_.Of<std::int64_t>({1, 3, 10, Instance::kUnbounded});
    options.window = dice_.Of({0, 1, 16});
    options.fail_unfit = dice_.Chance(0.3);
    options.reserve_requests = dice_.Of<std::int64_t>({0, 64});
    options.hash_seed = dice_.Bits();
    apart_ = dice_.Chance(0.4);
    options.local_tokens = dice_.Of({0, 8}), options.local_if_sooner = dice_.Chance(0.5);
    options.kv_link_gb_s = dice_.Of({0.0, 25.0});
    setup_.by_name = true;
    const std::string policy = setup_.PolicyOf(setup_.policy).spec();
    const std::vector<PlacementInfo> infos = PlacementInfos();
    const std::string placement = infos[dice_.Index(infos.size())].name;
    const std::string decode = dice_.Chance(0.5) ? infos[dice_.Index(infos.size())].name : "";
    CAPTURE(policy, placement, decode);
    cxx_.emplace(*Router::Create(options, *MakePolicy(policy), *MakePlacement(placement),
                                 *MakePlacement(decode.empty() ? placement : decode)));

    takt_router_options in_c;
    takt_router_options_init(&in_c, sizeof in_c);
    in_c.max_outstanding = options.max_outstanding, in_c.window = options.window;
    in_c.fail_unfit = options.fail_unfit, in_c.reserve_requests = options.reserve_requests;
    in_c.hash_seed = options.hash_seed;
    in_c.policy = policy.c_str(), in_c.placement = placement.c_str();
    in_c.local_tokens = options.local_tokens, in_c.local_if_sooner = options.local_if_sooner;
    in_c.kv_link_gb_s = options.kv_link_gb_s;
    if (!decode.empty()) in_c.decode_placement = decode.c_str();
    REQUIRE(takt_router_create(&in_c, &c_, nullptr) == TAKT_OK);
    for (const char* name : {"a", "b", "a"}) {
      std::uint64_t profile = 0;
      REQUIRE(takt_router_add_profile(c_, name, nullptr, &profile, nullptr) == TAKT_OK);
      CHECK(profile == cxx_->AddProfile({name}).value);
    }
    CHECK(takt_router_policy(c_) == cxx_->policy().spec());
  }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;
  ~Twins() { takt_router_destroy(c_); }

  void Run(int actions) {
    for (int i = 0; i < actions && same_; ++i) Act();
    Place();
    CHECK(same_);
  }

  void CompareWholes() {
    const std::vector<takt_stat> stats = StatsOf(takt_router_stats, c_);
    std::size_t i = 0;
#define TAKT_COMPARE(field, text)                                                                              \
  REQUIRE(i < stats.size());                                                                                   \
  if (const takt_stat& s = stats[i++]; std::string_view(s.name) != #field || s.value != cxx_->stats().field) { \
    FAIL_CHECK(#field << ": " << cxx_->stats().field << " in C++, " << s.name << ": " << s.value << " in C");  \
  }
    TAKT_ROUTER_STATS(TAKT_COMPARE)
#undef TAKT_COMPARE
    CHECK(i == stats.size());
    auto fault = Sized<takt_fault>();
    REQUIRE(takt_router_last_fault(c_, &fault) == TAKT_OK);
    CHECK(fault.count == cxx_->stats().faults());
    CHECK(fault.kind == static_cast<std::uint32_t>(cxx_->last_fault().kind));
    CHECK(fault.received == cxx_->last_fault().received);
    auto counts = Sized<takt_router_counts>();
    REQUIRE(takt_router_count(c_, &counts) == TAKT_OK);
    CHECK(counts.alive == cxx_->alive());
    CHECK(counts.waiting == cxx_->waiting());
    CHECK(counts.set_aside == cxx_->set_aside());
    CHECK(counts.instances == cxx_->instances().size());
    for (std::uint64_t id = 0; id <= last_id_; ++id) {
      std::uint64_t instance = 0;
      REQUIRE(takt_router_instance_of(c_, id, &instance) == TAKT_OK);
      if (instance != cxx_->InstanceOf({id}).value) FAIL_CHECK("request " << id << " is elsewhere");
    }
  }

  const RouterStats& stats() const { return cxx_->stats(); }

 private:
  RequestId Anyone() { return {dice_.Bits() % (last_id_ + 2)}; }
  InstanceId Instance1() { return {dice_.Bits() % (kInstances + 2)}; }
  // An instance that has the request, or any.
  InstanceId PlaceOf(RequestId id) { return dice_.Chance(0.9) ? cxx_->InstanceOf(id) : Instance1(); }
  TokensServed Served() { return {{dice_.Int(-1, 40)}, {dice_.Int(0, 40)}}; }

  WorkflowStage Stage() {
    WorkflowStage stage{{dice_.Bits() % 5}, {}, dice_.Int(0, 3), 0.001 * dice_.Int(0, 9)};
    while (dice_.Chance(0.4)) stage.after.push_back(static_cast<std::uint32_t>(dice_.Int(0, 3)));
    return stage;
  }

  void Act() {
    const int what = dice_.Int(0, 99);
    const RequestId id = Anyone();
    const WorkflowId workflow{dice_.Bits() % 6};
    if (what < 25) return Place();
    if (what < 45) {
      fire::Drawn drawn = fire::DrawRequest({++last_id_}, setup_, now_, dice_.Bits());
      Request& r = drawn.request;
      r.stage = {dice_.Bits() % 5};
      if (r.prefix.hashes.empty()) r.prefix = {};  // in C they are one
      if (dice_.Chance(0.3)) r.scores = kScores;
      return Tell(Arrived{r});
    }
    if (what < 50) return Tell(fire::DrawRevised(id, setup_, now_, dice_.Bits()));
    if (what < 53) return Tell(Cancelled{id});
    if (what < 55) return Tell(RequestStarted{id, PlaceOf(id)});
    if (what < 57) return TellKv();
    if (what < 60) return Tell(PrefillEnded{id, dice_.Chance(0.1) ? cxx_->DecodeOf(id) : PlaceOf(id)});
    if (what < 64) return Tell(RequestServed{id, PlaceOf(id), Served()});
    if (what < 78) {
      RequestEnded ended{id, PlaceOf(id), dice_.Chance(0.2)};
      if (dice_.Chance(0.5)) ended.served = Served();
      return Tell(ended);
    }
    if (what < 84) {
      Instance instance{Instance1(),
                        {static_cast<std::uint64_t>(dice_.Int(0, 3))},  // of which two are known
                        {dice_.Of({0, 20, 1000})},
                        dice_.Of<std::int64_t>({0, 1, 4, Instance::kUnbounded})};
      instance.model = {dice_.Bits() % 3}, instance.token_s = 0.001 * dice_.Int(0, 2);
      if (apart_) instance.role = static_cast<InstanceRole>((instance.id.value + (dice_.Chance(0.05) ? 1 : 0)) % 3);
      return Tell(InstanceUp{instance});
    }
    if (what < 86) return Tell(InstanceDown{Instance1()});
    if (what < 89) {
      return Tell(
          InstanceReported{Instance1(), {dice_.Int(-1, 9), dice_.Int(0, 9), dice_.Int(0, 9), {dice_.Int(0, 9)}}});
    }
    if (what < 93) {
      Workflow declared{workflow, {dice_.Bits() % 3}};
      if (dice_.Chance(0.3)) declared.arrival = now_ - Duration(5);
      if (dice_.Chance(0.5)) declared.deadline = now_ + Duration(dice_.Between(0, 1'000'000));
      for (int stages = dice_.Int(0, 4); stages > 0; --stages) declared.stages.push_back(Stage());
      declared.open = dice_.Chance(0.3);
      return Tell(WorkflowDeclared{declared});
    }
    if (what < 95) {
      WorkflowGrown grown{workflow, Stage()};
      if (dice_.Chance(0.3)) grown.before.push_back(static_cast<std::uint32_t>(dice_.Int(0, 3)));
      return Tell(grown);
    }
    if (what < 98) return Tell(StageEnded{workflow, static_cast<std::uint32_t>(dice_.Int(0, 3))});
    if (dice_.Chance(0.5)) return TellEpoch();
    Tell(WorkflowEnded{workflow, dice_.Chance(0.3)});
  }

  // Hashes are those of the drawn requests: small numbers.
  void TellKv() {
    static const std::vector<std::uint64_t> hashes = [] {
      std::vector<std::uint64_t> all(100);
      std::iota(all.begin(), all.end(), 1);
      return all;
    }();
    const std::size_t first = dice_.Index(90);
    const std::span<const std::uint64_t> some = std::span(hashes).subspan(first, dice_.Index(10));
    const InstanceId instance = Instance1();
    if (dice_.Chance(0.1)) return Tell(KvCleared{instance, dice_.Bits() % 3});
    if (dice_.Chance(0.3)) return Tell(KvRemoved{instance, some, dice_.Bits() % 3});
    Tell(KvStored{instance, some, dice_.Bits() % 3});
  }

  template <class E>
  void Tell(const E& event) {
    kept_.push_back(event);  // memory behind the C pointers
    cxx_->On(kept_.back(), now_);
    told_.Add(kept_.back());
    if (dice_.Chance(0.3)) TellAll();
  }

  void TellEpoch() {
    TellAll();
    const Epoch epoch = DrawEpoch(dice_);
    cxx_->On(epoch, now_);
    std::vector<takt_agent_rank> ranks;
    const takt_epoch in_c = InC(epoch, ranks);
    same_ &= takt_router_epoch(c_, &in_c, Ns(now_)) == TAKT_OK;
  }

  void TellAll() {
    same_ &= takt_router_on(c_, told_.data(), told_.size(), Ns(now_)) == TAKT_OK;
    told_.Clear(), kept_.clear();
    now_ += Duration(dice_.Chance(0.02) ? dice_.Between(-1000, 0) : dice_.Between(0, 300) * 1000);
  }

  void Place() {
    TellAll();
    auto routing = Sized<takt_routing>();
    same_ &= takt_router_place(c_, Ns(now_), &routing) == TAKT_OK;
    const auto placed = cxx_->Place(now_);
    std::int64_t wake_at = 0;
    same_ &= takt_router_wake_at(c_, &wake_at) == TAKT_OK;
    same_ &= SameAll(placed, routing.placed, routing.n_placed) &&
             SameAll(cxx_->decodes(), routing.decodes, routing.n_decodes) &&
             SameAll(cxx_->withdrawn(), routing.withdrawn, routing.n_withdrawn) &&
             SameAll(cxx_->failed(), routing.failed, routing.n_failed) &&
             SameAll(cxx_->ended_workflows(), routing.ended, routing.n_ended) &&
             SameAll(cxx_->workflow_faults(), routing.faults, routing.n_faults) &&
             Ns(cxx_->wake_at()) == routing.wake_at && wake_at == routing.wake_at;
  }

  fire::Setup setup_;
  Dice dice_;
  std::optional<Router> cxx_;
  takt_router* c_ = nullptr;
  TimePoint now_{};
  std::uint64_t last_id_ = 0;
  bool apart_ = false;  // instances have roles
  std::deque<RouterEvent> kept_;
  Told told_;
  bool same_ = true;
};

TEST_CASE("a router in C and in C++ decides and counts alike") {
  RouterStats sums;
  for (std::int64_t seed = 1; seed <= Scaled(400); ++seed) {
    CAPTURE(seed);
    Twins twins(static_cast<std::uint64_t>(seed));
    twins.Run(300);
    twins.CompareWholes();
    const RouterStats& s = twins.stats();
    sums.placed += s.placed, sums.ended += s.ended, sums.held += s.held, sums.workflows_ended += s.workflows_ended;
    sums.workflow_faults += s.workflow_faults, sums.returned += s.returned, sums.failed_expired += s.failed_expired;
    sums.handed_over += s.handed_over, sums.decode_lost += s.decode_lost;
  }
  CHECK(sums.placed > 0);
  CHECK(sums.ended > 0);
  CHECK(sums.held > 0);
  CHECK(sums.workflows_ended > 0);
  CHECK(sums.workflow_faults > 0);
  CHECK(sums.returned > 0);
  CHECK(sums.failed_expired > 0);
  CHECK(sums.handed_over > 0);
  CHECK(sums.decode_lost > 0);
}

TEST_CASE("a host of a router in C chooses both instances, and sees both in an explanation") {
  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  CHECK(options.local_if_sooner == 1);
  options.local_if_sooner = 0;
  takt_error error;
  takt_error_init(&error, sizeof error);
  takt_router* router = nullptr;
  options.decode_placement = "none";
  CHECK(takt_router_create(&options, &router, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text).starts_with("decode_placement: "));
  options.decode_placement = "round_robin", options.local_tokens = -1;
  CHECK(takt_router_create(&options, &router, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text).find("local_tokens") != std::string::npos);
  options.local_tokens = 0;
  REQUIRE(takt_router_create(&options, &router, &error) == TAKT_OK);
  std::array<takt_instance, 2> instances;
  std::array<takt_event, 3> events{};
  for (std::size_t i = 0; i < 2; ++i) {
    takt_instance_init(&instances[i], sizeof instances[i]);
    instances[i].id = i + 1, instances[i].role = i == 0 ? TAKT_ROLE_PREFILL : TAKT_ROLE_DECODE;
    events[i].type = TAKT_EVENT_INSTANCE_UP, events[i].u.instance_up.instance = &instances[i];
  }
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = 7, request.prompt_tokens = 100;
  events[2].type = TAKT_EVENT_ARRIVED, events[2].u.arrived.request = &request;
  REQUIRE(takt_router_on(router, events.data(), events.size(), 0) == TAKT_OK);
  instances[0].role = TAKT_ROLE_DECODE + 1;
  CHECK(takt_router_on(router, events.data(), 1, 0) == TAKT_E_INVALID);
  auto why = Sized<takt_route_explanation>();
  REQUIRE(takt_router_explain(router, &request, 0, nullptr, 0, &why) == TAKT_OK);
  CHECK(why.chosen == 1);
  CHECK(why.decode == 2);
  CHECK(takt_router_place_at(router, 7, 1, 0) == TAKT_E_INVALID);
  CHECK(takt_router_place_apart(router, 7, 1, 2, 0) == TAKT_OK);
  takt_event ended{};
  ended.type = TAKT_EVENT_PREFILL_ENDED, ended.u.prefill_ended = {7, 1, 0};
  REQUIRE(takt_router_on(router, &ended, 1, 0) == TAKT_OK);
  std::uint64_t instance = 0;
  REQUIRE(takt_router_instance_of(router, 7, &instance) == TAKT_OK);
  CHECK(instance == 2);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

// Largest id first; and it calls the router that asks.
struct LargestId {
  takt_router* router = nullptr;
  int calls = 0, others = 0;  // others: answers but TAKT_E_BUSY
};

TEST_CASE("a host's own key orders the router's queue") {
  LargestId own;
  takt_key key;
  takt_key_init(&key, sizeof key);
  key.name = "largest_id", key.context = &own;
  key.key = [](void* context, const takt_request_state* state) {
    auto* self = static_cast<LargestId*>(context);
    ++self->calls;
    auto routing = Sized<takt_routing>();
    for (const takt_status status : {takt_router_on(self->router, nullptr, 0, 0), takt_router_destroy(self->router),
                                     takt_router_place(self->router, 0, &routing)}) {
      self->others += status == TAKT_E_BUSY ? 0 : 1;
    }
    return -static_cast<double>(state->request->id);
  };
  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  options.key = &key, options.policy = "fcfs";
  takt_error error;
  takt_error_init(&error, sizeof error);
  CHECK(takt_router_create(&options, &own.router, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text) == "policy: is invalid with a key; expected custom or aged(custom)");
  options.policy = nullptr;
  REQUIRE(takt_router_create(&options, &own.router, &error) == TAKT_OK);
  CHECK(takt_router_policy(own.router) == std::string("custom(largest_id)"));
  std::array<takt_request, 3> requests;
  std::array<takt_event, 4> events{};
  for (std::size_t i = 0; i < 3; ++i) {
    takt_request_init(&requests[i], sizeof requests[i]);
    requests[i].id = i + 1, requests[i].prompt_tokens = 10;
    events[i].type = TAKT_EVENT_ARRIVED, events[i].u.arrived.request = &requests[i];
  }
  takt_instance instance;
  takt_instance_init(&instance, sizeof instance);
  instance.id = 9;
  events[3].type = TAKT_EVENT_INSTANCE_UP, events[3].u.instance_up.instance = &instance;
  REQUIRE(takt_router_on(own.router, events.data(), 4, 0) == TAKT_OK);
  auto routing = Sized<takt_routing>();
  REQUIRE(takt_router_place(own.router, 1, &routing) == TAKT_OK);
  REQUIRE(routing.n_placed == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(routing.placed[i].request == 3 - i);
  takt_event down{};
  down.type = TAKT_EVENT_INSTANCE_DOWN, down.u.instance_down = {9, 0};
  REQUIRE(takt_router_on(own.router, &down, 1, 2) == TAKT_OK);
  CHECK(own.calls == 6);  // on arrival, and on return
  CHECK(own.others == 0);
  CHECK(takt_router_destroy(own.router) == TAKT_OK);
}

}  // namespace
}  // namespace takt
