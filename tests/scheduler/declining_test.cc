// Tests policies that decline requests for some time.
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/host.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"

namespace takt {
namespace {

using testing::Host;
using testing::Ms;
using testing::Prompt;
using testing::Shape;

// Admits at most `cap` requests of a tenant at a time.
struct Capped {
  static constexpr std::string_view kName = "capped";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
  bool Admits(const RequestState& r, TimePoint) const {
    const auto in = begun.find(r.request.tenant.value);
    return in == begun.end() || in->second.contains(r.request.id.value) || in->second.size() < cap;
  }
  void Admitted(const RequestState& r, TimePoint) { begun[r.request.tenant.value].insert(r.request.id.value); }
  void Ends(const RequestState& r, TimePoint) { begun[r.request.tenant.value].erase(r.request.id.value); }

  std::size_t cap = 1;
  std::map<std::uint64_t, std::set<std::uint64_t>> begun = {};
};

// Admits requests from a given time on.
struct Later {
  RankKey Key(const RequestState&) const { return {0}; }
  bool Admits(const RequestState&, TimePoint now) const { return now >= from; }
  void Admitted(const RequestState&, TimePoint) {}
  TimePoint from = Ms(3);
};

Request Of(std::uint64_t tenant, std::uint64_t id, std::int32_t tokens = 16) {
  Request r = Prompt(id, tokens);
  r.tenant = {tenant};
  return r;
}

TEST_CASE("any number of declined requests is passed over and keeps order") {
  Host<AnyPolicy> host({.kv_blocks = {1000}, .admission_window = 2}, {}, AnyPolicy(Capped{}));
  for (std::uint64_t id = 1; id <= 40; ++id) host.Arrive(Of(1, id));
  host.Arrive(Of(2, 41));
  CHECK(host.Step() == "1:16 41:16");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kDeclined);
  CHECK(host.scheduler.Explain({40}).waits_for == WaitsFor::kDeclined);
  CHECK(host.Step({1}) == "1:1 41:1");
  CHECK(host.Step() == "41:1 2:16");
}

TEST_CASE("a declined request waits for the policy, not for an adapter") {
  Host<AnyPolicy> host({.kv_blocks = {1000}}, {.adapters = 1}, AnyPolicy(Capped{}));
  Request holds = Of(1, 1), declined = Of(1, 2), waits = Of(2, 3);
  holds.adapter = {1}, declined.adapter = {2}, waits.adapter = {3};
  for (const Request& r : {holds, declined, waits}) host.Arrive(r);
  CHECK(host.Step() == "1:16");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kDeclined);
  CHECK(host.scheduler.Explain({3}).waits_for == WaitsFor::kItsTurn);
}

TEST_CASE("an empty plan names the policy as reason and asks again") {
  Host<Later> host({.kv_blocks = {1000}});
  host.Arrive(1, 16);
  CHECK(host.Plan().idle == Idle::kDeclined);
  host.Arrive(2, 16);
  CHECK(host.Plan().idle == Idle::kDeclined);
  CHECK(host.Step() == "1:16 2:16");
}

TEST_CASE("a counted preempted request is readmitted, a cancelled one uncounted") {
  Host<Capped> host({.kv_blocks = {4}, .kv_watermark = 0}, {}, Capped{.cap = 2});
  for (std::uint64_t id = 1; id <= 3; ++id) host.Arrive(Of(1, id, 32));
  CHECK(host.Step() == "1:32 2:32");
  CHECK(host.Step() == "1:1");  // its next block is that of 2
  CHECK(host.scheduler.stats().preempted_recompute == 1);
  CHECK(host.scheduler.Explain({3}).waits_for == WaitsFor::kDeclined);
  CHECK(host.scheduler.Explain({2}).waits_for != WaitsFor::kDeclined);
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.Step({2}) == "2:33");  // prompt of 3 has no room with it
  CHECK(host.Step() == "3:32");
}

TEST_CASE("a declined request displaces none, and a promotion does not admit it") {
  Host<AnyPolicy> host({.max_running = 1, .preempt = PreemptMode::kByRank, .kv_blocks = {1000}}, {},
                       AnyPolicy(Aged(Capped{}, {.threshold = 2})));
  host.Arrive(Of(1, 1));
  CHECK(host.Step() == "1:16");
  Request better = Of(1, 2);
  better.priority = -1;
  host.Arrive(better);
  for (int i = 0; i < 5; ++i) CHECK(host.Step() == "1:1");
  CHECK(host.scheduler.stats().promoted == 1);
  CHECK(host.scheduler.stats().preempted_by_rank == 0);
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.Step() == "2:16");
}

TEST_CASE("a policy set later receives the running requests") {
  Host<AnyPolicy> host({.kv_blocks = {1000}});
  host.Arrive(Of(1, 1));
  CHECK(host.Step() == "1:16");
  host.scheduler.ChangePolicy(Capped{}, Ms(host.now));
  host.Arrive(Of(1, 2)), host.Arrive(Of(2, 3));
  CHECK(host.Step() == "1:1 3:16");
}

// Declines tenant 9.
struct Guarded {
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
  bool Admits(const RequestState& r, TimePoint) const { return r.request.tenant.value != 9; }
  void Admitted(const RequestState&, TimePoint) {}
};

TEST_CASE("declined requests do not let others overtake an adapter's waiter more") {
  const bool beside = GENERATE(false, true);
  Host<Guarded> host({.kv_blocks = {10'000}, .admission_window = 4}, {.adapters = 1});
  const auto arrive = [&](std::uint64_t id, std::uint64_t adapter, std::int32_t priority, std::uint64_t tenant) {
    Request r = Of(tenant, id, 4);
    r.adapter = {adapter}, r.priority = priority;
    host.Arrive(r);
  };
  arrive(1, 2, 1, 1);
  CHECK(host.Step() == "1:4");
  arrive(1000, 1, 0, 1);
  if (beside) arrive(1001, 0, 5, 9);
  int overtook = 0;
  bool runs = false;
  for (std::uint64_t id = 2; id < 60 && !runs; ++id) {  // one request always uses adapter 2
    arrive(id, 2, 1, 1);
    const StepPlan& plan = host.Plan();
    std::vector<std::uint64_t> ended;
    for (const PlanEntry& e : plan.run) {
      overtook += e.request.value == id ? 1 : 0;
      runs |= e.request.value == 1000;
      if (e.request.value < id) ended.push_back(e.request.value);
    }
    host.Commit(plan, ended);
  }
  CHECK(runs);
  CHECK(overtook == 4);
}

// Grants all requests except a listed one.
struct Granting : KvOracle {
  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{100}, {100}, {0}}; }
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    for (KvReservation& wish : wishes) wish.granted = wish.request != refused;
  }
  void CachedTokens(std::span<KvHit>) override {}
  Blocks Release(RequestId, KvAction) override { return {100}; }
  RequestId refused = {};
};

TEST_CASE("with an oracle, a policy sees all earlier admissions and refusals") {
  Granting oracle;
  Host<Capped> host({.kv = KvMode::kOracle}, {}, {}, &oracle);
  oracle.refused = {1};
  for (std::uint64_t id = 1; id <= 3; ++id) host.Arrive(Of(1, id));
  host.Arrive(Of(2, 4));
  CHECK(host.Step() == "2:16 4:16");  // the first is refused, so the second is within the cap
  oracle.refused = {};
  CHECK(host.Step() == "2:1 4:1");
  CHECK(host.scheduler.Explain({1}).waits_for == WaitsFor::kDeclined);
  CHECK(host.Step({2}) == "2:1 4:1");
  CHECK(host.Step() == "4:1 1:16");
}

}  // namespace
}  // namespace takt
