// Retention and gate through C: KV of turns is held, and the gate admits.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int32_t kBlock = 16;

takt_scheduler_options Cached(std::int32_t blocks) {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.policy = "fcfs";
  options.kv_blocks = blocks, options.kv_watermark = 0, options.prefix_cache = 1;
  options.max_running = 16, options.reserve_requests = 64;
  return options;
}

struct Agents {
  explicit Agents(std::int32_t blocks) {
    takt_scheduler_options options = Cached(blocks);
    options.record = [](void* to, const void* bytes, std::size_t n) {
      static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), n);
    };
    options.record_context = &log;
    REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
  }
  Agents(std::int32_t blocks, const char* retention, const char* gate) : Agents(blocks) {
    REQUIRE(takt_scheduler_set_retention(scheduler, retention, gate, 0, 0, nullptr) == TAKT_OK);
  }
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  ~Agents() { takt_scheduler_destroy(scheduler); }

  takt_status On(const takt_event& event) { return takt_scheduler_on(scheduler, &event, 1, now); }

  // A turn of this many blocks. Earlier turns of its branch wrote the first blocks.
  void Arrive(std::uint64_t id, std::uint64_t workflow, std::int32_t blocks, std::uint64_t branch = 0) {
    std::vector<std::uint64_t> hashes;
    for (std::int32_t i = 0; i < blocks; ++i)
      hashes.push_back(Mix64((workflow * 100 + branch) * 10'000 + static_cast<std::uint64_t>(i)));
    takt_request request;
    takt_request_init(&request, sizeof request);
    request.id = id, request.workflow = workflow, request.branch = branch, request.prompt_tokens = blocks * kBlock;
    request.prefix_hashes = hashes.data(), request.n_prefix_hashes = hashes.size();
    request.prefix_block_tokens = kBlock;
    takt_event event{};
    event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
    REQUIRE(On(event) == TAKT_OK);
  }

  void TurnEnds(std::uint64_t workflow, std::uint32_t why, std::uint64_t branch = 0) {
    takt_event event{};
    event.type = TAKT_EVENT_TURN_ENDED;
    event.u.turn_ended = {workflow, branch, why, 0, 0, 0, 0};
    REQUIRE(On(event) == TAKT_OK);
  }

  void WorkflowEnds(std::uint64_t workflow) {
    takt_event event{};
    event.type = TAKT_EVENT_WORKFLOW_ENDED, event.u.workflow_ended = {workflow, 0, 0};
    REQUIRE(On(event) == TAKT_OK);
  }

  // Makes the next plan and ends the running request. Returns the cached tokens of `id`; -1: it did not run.
  std::int32_t Step(std::uint64_t id) {
    now += 1'000'000;
    takt_limits limits;
    takt_limits_init(&limits, sizeof limits);
    limits.tokens = 100'000;
    REQUIRE(takt_scheduler_plan(scheduler, now, &limits, &plan) == TAKT_OK);
    std::int32_t cached = -1;
    std::vector<takt_row_result> rows;
    flags = 0;
    for (std::size_t i = 0; i < plan.n_run; ++i) {
      const takt_plan_entry& e = plan.run[i];
      if (e.request == id) cached = e.position, flags = e.flags;
      rows.push_back({e.request, e.lane, 1, 0, TAKT_ROW_FINISHED});
    }
    if (plan.n_run > 0) takt_scheduler_commit(scheduler, plan.id, rows.data(), rows.size(), 0, now);
    return cached;
  }

  std::int32_t Run(std::uint64_t id, std::uint64_t workflow, std::int32_t blocks, std::uint64_t branch = 0) {
    Arrive(id, workflow, blocks, branch);
    return Step(id);
  }

  std::uint32_t WaitsFor(std::uint64_t id) const {
    auto explanation = Sized<takt_explanation>();
    REQUIRE(takt_scheduler_explain(scheduler, id, &explanation) == TAKT_OK);
    return explanation.waits_for;
  }

  std::uint64_t Stat(std::string_view name) const {
    for (const takt_stat& stat : StatsOf(takt_scheduler_stats, scheduler)) {
      if (stat.name == name) return stat.value;
    }
    FAIL("no counter " << name);
    return 0;
  }

  std::string log;
  takt_scheduler* scheduler = nullptr;
  std::int64_t now = 0;
  takt_plan plan = Sized<takt_plan>();
  std::uint32_t flags = 0;  // of the entry that Step was asked for
};

TEST_CASE("a gated turn is reported and admitted after the lease") {
  Agents host(100, nullptr, "lease(seconds=30)");
  CHECK(host.Run(1, 7, 60) == 0);
  CHECK(host.Run(2, 8, 60) == -1);  // 20 of its 60 blocks would be held by 7
  CHECK(host.plan.idle == TAKT_IDLE_GATED);
  CHECK(host.plan.wake_at > host.now);
  CHECK(host.plan.wake_at <= host.now + kSecond / 2);
  CHECK(host.WaitsFor(2) == TAKT_WAITS_FOR_GATE);
  CHECK(host.Run(3, 7, 61) == 60 * kBlock);  // its KV is cached
  CHECK((host.flags & TAKT_ENTRY_GATED) == 0);
  CHECK(host.Stat("gate_refused") > 0);
  host.now += 31 * kSecond;
  CHECK(host.Step(2) == 0);
  CHECK((host.flags & TAKT_ENTRY_ADMITTED) != 0);
  CHECK((host.flags & TAKT_ENTRY_GATED) != 0);
  CHECK(host.Stat("gate_doors") == 0);

  REQUIRE(takt_scheduler_flush(host.scheduler) == TAKT_OK);
  auto report = Sized<takt_replay_report>();
  std::vector<takt_stat> stats = StatsOf(takt_scheduler_stats, host.scheduler), replayed(stats.size());
  REQUIRE(takt_replay(host.log.data(), host.log.size(), &report, replayed.data(), replayed.size(), nullptr) == TAKT_OK);
  CHECK(report.differs == 0);
  CHECK(report.plans == 4);
  for (std::size_t i = 0; i < stats.size(); ++i) CHECK(replayed[i].value == stats[i].value);
}

TEST_CASE("a key of the host sees the cached tokens of a request") {
  struct Seen {
    std::int32_t cached = -1;
    std::uint32_t taken = 9, cut = 9;
  } seen[3];
  takt_key key;
  takt_key_init(&key, sizeof key);
  key.name = "seen", key.context = seen;
  key.key = [](void* to, const takt_request_state* state) {
    static_cast<Seen*>(to)[state->request->id] = {state->cached, state->taken, state->cut};
    return 0.0;
  };
  Agents host(64, nullptr, "lease(seconds=30)");
  REQUIRE(takt_scheduler_set_policy(host.scheduler, nullptr, &key, host.now, nullptr) == TAKT_OK);
  host.Arrive(1, 7, 4);
  CHECK((seen[1].cached == 0 && seen[1].taken == 0 && seen[1].cut == 0));
  CHECK(host.Step(1) == 0);
  host.TurnEnds(7, TAKT_TURN_TOOL);
  host.Arrive(2, 7, 6);
  CHECK((seen[2].cached == 4 * kBlock && seen[2].taken == 0));
}

TEST_CASE("an ended workflow or branch holds nothing") {
  Agents host(100, "lru", "lease(seconds=1e9)");
  host.Run(1, 7, 60);
  CHECK(host.Run(2, 8, 60) == -1);
  host.WorkflowEnds(7);
  CHECK(host.Step(2) == 0);

  Agents branches(100, "lru", "lease(seconds=1e9)");
  branches.Run(1, 7, 50, 1);
  branches.Run(2, 7, 50, 2);
  CHECK(branches.Run(3, 8, 40) == -1);
  branches.TurnEnds(7, TAKT_TURN_TOOL, 1);
  CHECK(branches.Step(3) == -1);
  branches.TurnEnds(7, TAKT_TURN_OVER, 1);
  CHECK(branches.Step(3) == 0);
  CHECK(branches.Run(4, 7, 51, 2) == 50 * kBlock);
}

TEST_CASE("a branch's expected event and the pace decide its blocks' worth") {
  // The price gate's wait of a new request that would take all KV of 7.
  const auto waits_s = [](std::uint32_t why, double alpha_ms) {
    Agents host(100);
    REQUIRE(takt_scheduler_set_retention(host.scheduler, "hold_value", "price(share=0)", alpha_ms, 0, nullptr) ==
            TAKT_OK);
    host.Run(1, 7, 100);
    host.TurnEnds(7, why);
    host.now += 5 * kSecond;
    const std::int64_t from = host.now;
    host.Arrive(2, 8, 100);
    while (host.Step(2) < 0 && host.now - from < 10'000 * kSecond) host.now += 10 * kSecond;
    return (host.now - from) / kSecond;
  };
  const std::int64_t tool = waits_s(TAKT_TURN_TOOL, 100), user = waits_s(TAKT_TURN_USER, 100);
  CHECK(user > 0);
  CHECK(tool > user);
  CHECK(waits_s(TAKT_TURN_TOOL, 1e-6) == 0);
  CHECK(waits_s(TAKT_TURN_OVER, 100) == 0);
}

TEST_CASE("invalid retention options are named and change nothing") {
  takt_error error;
  takt_error_init(&error, sizeof error);
  const auto fault = [&](const takt_scheduler_options& options, const char* retention, const char* gate,
                         double alpha_ms = 0, double beta_ns = 0) {
    takt_scheduler* scheduler = nullptr;
    REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
    const takt_status status = takt_scheduler_set_retention(scheduler, retention, gate, alpha_ms, beta_ns, &error);
    CHECK(takt_scheduler_check(scheduler, nullptr) == TAKT_OK);
    CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
    CHECK(status == TAKT_E_INVALID);
    CHECK(error.code == TAKT_E_INVALID);
    return std::string(error.text);
  };
  const takt_scheduler_options sound = Cached(100);
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has(fault(sound, "hold_valu", nullptr), "did you mean 'hold_value'"));
  CHECK(has(fault(sound, "ttl(seconds=x)", nullptr), "seconds=x"));
  CHECK(has(fault(sound, nullptr, "prize"), "gate: "));
  CHECK(has(fault(sound, nullptr, "prize"), "did you mean 'price'"));
  CHECK(fault(sound, nullptr, nullptr, -1) == "alpha_ms is -1; expected a finite number of at least 0");
  CHECK(fault(sound, nullptr, nullptr, 0, std::numeric_limits<double>::quiet_NaN()) ==
        "beta_ns is nan; expected a finite number of at least 0");
  CHECK(has(fault(sound, nullptr, nullptr, 0, std::numeric_limits<double>::infinity()), "beta_ns is inf"));
  takt_scheduler_options without = sound;
  without.prefix_cache = 0;
  CHECK(fault(without, "lru", "price") == "retention: requires kv ledger and prefix_cache");
  without.prefix_cache = 1, without.kv = TAKT_KV_MODE_NONE;
  CHECK(fault(without, "lru", "price") == "retention: requires kv ledger and prefix_cache");

  CHECK(takt_scheduler_set_retention(nullptr, nullptr, nullptr, 0, 0, &error) == TAKT_E_NULL);
  CHECK(error.code == TAKT_E_NULL);
  Agents late(100);
  late.Run(1, 7, 60);
  CHECK(takt_scheduler_set_retention(late.scheduler, "lru", "lease", 0, 0, &error) == TAKT_OK);
  CHECK(late.Run(2, 8, 60) == 0);
}

TEST_CASE("Explain shows a workflow's held KV") {
  Agents host(100, "hold_value", nullptr);
  host.Run(1, 7, 60);
  takt_held held;
  held.struct_size = sizeof held;
  REQUIRE(takt_scheduler_explain_held(host.scheduler, 7, 0, &held) == TAKT_OK);
  CHECK(held.tokens > 0);
  CHECK(held.own == held.tokens);
  CHECK(held.turns == 1);
  CHECK(held.value > 0);
  CHECK(held.price > 0);
  CHECK(held.next == 7);
  CHECK(held.ahead == 0);
  REQUIRE(takt_scheduler_explain_held(host.scheduler, 8, 0, &held) == TAKT_OK);
  CHECK(held.tokens == 0);
  CHECK(takt_scheduler_explain_held(nullptr, 7, 0, &held) == TAKT_E_NULL);
  CHECK(takt_scheduler_explain_held(host.scheduler, 7, 0, nullptr) == TAKT_E_NULL);
}

TEST_CASE("invalid ends of turns are refused, and those of unknown workflows counted") {
  Agents host(100, "hold_value", "price");
  takt_event event{};
  event.type = TAKT_EVENT_TURN_ENDED;
  event.u.turn_ended = {7, 0, TAKT_TURN_OVER + 1, 0, 0, 0, 0};
  CHECK(host.On(event) == TAKT_E_INVALID);
  event.u.turn_ended = {7, 0, TAKT_TURN_TOOL, 1, 0, 0, 0};
  CHECK(host.On(event) == TAKT_E_INVALID);
  event.u.turn_ended = {7, 0, TAKT_TURN_TOOL, 0, ~std::uint64_t{0}, 0, 0};
  CHECK(host.On(event) == TAKT_OK);
  event.u.turn_ended = {7, 0, TAKT_TURN_TOOL, 0, 0, -1, 0};
  CHECK(host.On(event) == TAKT_E_INVALID);
  event.u.turn_ended = {7, 0, TAKT_TURN_TOOL, 0, 0, 0, -1};
  CHECK(host.On(event) == TAKT_E_INVALID);
  event.u.turn_ended = {7, 0, TAKT_TURN_TOOL, 0, 0, TAKT_NEVER, TAKT_NEVER};
  CHECK(host.On(event) == TAKT_OK);
  CHECK(host.Stat("events_out_of_place") == 0);
  event.u.turn_ended = {0, 0, TAKT_TURN_TOOL, 0, 0, 0, 0};
  CHECK(host.On(event) == TAKT_OK);
  CHECK(host.Stat("events_out_of_place") == 1);

  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  takt_router* router = nullptr;
  REQUIRE(takt_router_create(&options, &router, nullptr) == TAKT_OK);
  CHECK(takt_router_on(router, &event, 1, 0) == TAKT_E_INVALID);  // no event of routers
  event.type = TAKT_EVENT_WORKFLOW_ENDED, event.u.workflow_ended = {7, 0, 0};
  CHECK(takt_router_on(router, &event, 1, 0) == TAKT_OK);
  CHECK(host.On(event) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

TEST_CASE("a request of a header without branches is of its workflow's first") {
  Agents host(100, "lru", "lease(seconds=1e9)");
  std::vector<std::uint64_t> hashes(60, 1);
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = i + 1;
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.struct_size = offsetof(takt_request, branch);
  request.id = 1, request.workflow = 7, request.branch = 99, request.prompt_tokens = 60 * kBlock;
  request.prefix_hashes = hashes.data(), request.n_prefix_hashes = hashes.size();
  request.prefix_block_tokens = kBlock;
  takt_event event{};
  event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
  REQUIRE(host.On(event) == TAKT_OK);
  CHECK(host.Step(1) == 0);
  CHECK(host.Run(2, 8, 60) == -1);
  host.TurnEnds(7, TAKT_TURN_OVER, 99);
  CHECK(host.Step(2) == -1);
  host.TurnEnds(7, TAKT_TURN_OVER, 0);
  CHECK(host.Step(2) == 0);
}

}  // namespace
}  // namespace takt
