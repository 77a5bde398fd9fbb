// Each mistake of a host returns an error and changes nothing.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

// A takt_error whose end is watched.
struct Watched {
  Watched() { takt_error_init(&error, sizeof error); }
  takt_error error;
  std::uint32_t guard = 0x12345678u;
};

takt_scheduler_options Options() {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.kv_blocks = 64;
  return options;
}

takt_scheduler* Make(const takt_scheduler_options& options = Options()) {
  takt_scheduler* scheduler = nullptr;
  REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
  REQUIRE(scheduler != nullptr);
  return scheduler;
}

takt_router* MakeRouter() {
  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  takt_router* router = nullptr;
  REQUIRE(takt_router_create(&options, &router, nullptr) == TAKT_OK);
  return router;
}

takt_request RequestOf(std::uint64_t id) {
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = id, request.prompt_tokens = 10;
  return request;
}

takt_event Arrives(const takt_request& request) {
  takt_event event{};
  event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
  return event;
}

std::int64_t Alive(const takt_scheduler* scheduler) {
  auto counts = Sized<takt_scheduler_counts>();
  REQUIRE(takt_scheduler_count(scheduler, &counts) == TAKT_OK);
  return counts.alive;
}

// An oracle that grants each request and calls the scheduler.
struct Asked {
  takt_scheduler* scheduler = nullptr;  // while it is being made, none
  std::int32_t free = 64;
  std::array<int, 4> calls = {};
  int others = 0;  // answers but TAKT_E_BUSY

  void Call(std::size_t which) {
    ++calls[which];
    if (scheduler == nullptr) return;
    auto use = Sized<takt_kv_use>();
    for (const takt_status status : {takt_scheduler_kv(scheduler, &use), takt_scheduler_on(scheduler, nullptr, 0, 0),
                                     takt_scheduler_check(scheduler, nullptr), takt_scheduler_destroy(scheduler)}) {
      others += status == TAKT_E_BUSY ? 0 : 1;
    }
  }
};

takt_kv_oracle OracleOf(Asked* asked) {
  takt_kv_oracle oracle;
  takt_kv_oracle_init(&oracle, sizeof oracle);
  oracle.context = asked;
  oracle.snapshot = [](void* context, takt_kv_snapshot* to) {
    auto* self = static_cast<Asked*>(context);
    self->Call(0);
    to->total = 64, to->free = self->free;
  };
  oracle.cached = [](void* context, takt_kv_hit*, std::size_t) { static_cast<Asked*>(context)->Call(1); };
  oracle.reserve = [](void* context, std::uint64_t, takt_kv_wish* wishes, std::size_t n) {
    static_cast<Asked*>(context)->Call(2);
    for (std::size_t i = 0; i < n; ++i) wishes[i].granted = 7;
  };
  oracle.release = [](void* context, std::uint64_t, std::uint32_t) {
    static_cast<Asked*>(context)->Call(3);
    return -1;
  };
  return oracle;
}

std::string FaultOf(const takt_scheduler_options& options, takt_status expected = TAKT_E_INVALID) {
  Watched watched;
  auto* scheduler = reinterpret_cast<takt_scheduler*>(&watched);
  CHECK(takt_scheduler_create(&options, &scheduler, &watched.error) == expected);
  CHECK(scheduler == nullptr);
  CHECK(watched.error.code == expected);
  CHECK(watched.guard == 0x12345678u);
  return watched.error.text;
}

TEST_CASE("the version is that of the header") {
  CHECK(takt_abi_version() == TAKT_ABI_VERSION);
  CHECK(std::string_view(takt_version()).find('.') == 1);
  CHECK(takt_status_name(TAKT_E_SIZE) == std::string_view("TAKT_E_SIZE"));
  CHECK(takt_status_name(-1) == takt_status_name(8));
}

TEST_CASE("null handles and null structs") {
  takt_scheduler* const first = Make();
  takt_scheduler* scheduler = first;
  takt_router* router = MakeRouter();
  auto plan = Sized<takt_plan>();
  auto routing = Sized<takt_routing>();
  auto explanation = Sized<takt_explanation>();
  const auto options = Options();

  CHECK(takt_scheduler_create(nullptr, &scheduler, nullptr) == TAKT_E_NULL);
  CHECK(scheduler == nullptr);
  scheduler = first;
  CHECK(takt_scheduler_create(&options, nullptr, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_destroy(nullptr) == TAKT_OK);
  CHECK(takt_scheduler_on(nullptr, nullptr, 0, 0) == TAKT_E_NULL);
  CHECK(takt_scheduler_on(scheduler, nullptr, 0, 0) == TAKT_OK);
  CHECK(takt_scheduler_on(scheduler, nullptr, 1, 0) == TAKT_E_NULL);
  CHECK(takt_scheduler_plan(nullptr, 0, nullptr, &plan) == TAKT_E_NULL);
  CHECK(takt_scheduler_plan(scheduler, 0, nullptr, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_commit(nullptr, 1, nullptr, 0, 0, 0) == TAKT_E_NULL);
  CHECK(takt_scheduler_commit(scheduler, 1, nullptr, 1, 0, 0) == TAKT_E_NULL);
  CHECK(takt_scheduler_step(scheduler, 1, nullptr, 1, 0, 0, nullptr, &plan, nullptr, 0) == TAKT_E_NULL);
  CHECK(takt_scheduler_set_policy(nullptr, "fcfs", nullptr, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_policy(nullptr) == nullptr);
  CHECK(takt_scheduler_learnt(nullptr, nullptr, 0) == 0);
  CHECK(takt_scheduler_load_learnt(nullptr, nullptr, 0, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_load_learnt(scheduler, nullptr, 1, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_queue_learnt(nullptr, nullptr, 0) == 0);
  CHECK(takt_queue_load_learnt(nullptr, nullptr, 0, nullptr) == TAKT_E_NULL);
  std::array<takt_stat, 2> stats = {{{"none", 7}, {"none", 7}}};
  CHECK(takt_scheduler_stats(nullptr, stats.data(), 1) == 0);
  CHECK(takt_scheduler_stats(scheduler, nullptr, 1) == 0);
  CHECK(takt_scheduler_stats(scheduler, stats.data(), 1) > 40);
  CHECK(stats[0].name == std::string_view("arrived"));
  CHECK(stats[1].value == 7);
  CHECK(takt_router_stats(reinterpret_cast<takt_router*>(scheduler), stats.data(), 2) == 0);
  CHECK(takt_scheduler_count(scheduler, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_kv(scheduler, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_last_fault(scheduler, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_explain(nullptr, 1, &explanation) == TAKT_E_NULL);
  CHECK(takt_scheduler_explain(scheduler, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_check(nullptr, nullptr) == TAKT_E_NULL);
  CHECK(takt_scheduler_flush(nullptr) == TAKT_E_NULL);
  CHECK(takt_router_place(nullptr, 0, &routing) == TAKT_E_NULL);
  CHECK(takt_router_place(router, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_router_wake_at(router, nullptr) == TAKT_E_NULL);
  CHECK(takt_router_instance_of(router, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_router_policy(nullptr) == nullptr);
  CHECK(takt_router_learnt(nullptr, nullptr, 0) == 0);
  CHECK(takt_router_load_learnt(nullptr, nullptr, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_router_load_learnt(router, nullptr, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_replay(nullptr, 1, nullptr, nullptr, 0, nullptr) == TAKT_E_NULL);
  takt_request_init(nullptr, sizeof(takt_request));

  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

TEST_CASE("a batch in which one event is malformed does not happen") {
  takt_scheduler* scheduler = Make();
  const takt_request request = RequestOf(1);
  takt_request odd = RequestOf(2);
  std::array<takt_event, 2> events = {Arrives(request), Arrives(odd)};
  takt_event& last = events[1];
  const auto tell = [&] { return takt_scheduler_on(scheduler, events.data(), events.size(), 0); };

  for (const std::uint32_t type : {0u, 11u, 12u, 17u, 63u, 64u, 67u, 72u, 74u, 0xffffffffu}) {
    CAPTURE(type);
    last.type = type;
    CHECK(tell() == TAKT_E_INVALID);
  }
  last = Arrives(odd), last.reserved = 1;
  CHECK(tell() == TAKT_E_INVALID);
  odd = RequestOf(2), odd.reserved = 1, last = Arrives(odd);
  CHECK(tell() == TAKT_E_INVALID);
  for (const auto estimate : {&takt_request::output_tokens, &takt_request::workflow_tokens_left}) {
    odd = RequestOf(2), (odd.*estimate).reserved = 1;
    CHECK(tell() == TAKT_E_INVALID);
  }
  odd = RequestOf(2);
  last.type = TAKT_EVENT_REVISED, last.u.revised = {&odd, 0, 1};
  CHECK(tell() == TAKT_E_INVALID);
  last.type = TAKT_EVENT_TOOL_CALLED, last.u.tool_called = {1, 0, 0, 1, 0};
  CHECK(tell() == TAKT_E_INVALID);
  last.type = TAKT_EVENT_TOOL_RETURNED, last.u.tool_returned = {1, 0, 1, {}};
  CHECK(tell() == TAKT_E_INVALID);
  last.u.kv = {1, 0, 1};
  for (const std::uint32_t type : {TAKT_EVENT_UNBLOCKED, TAKT_EVENT_KV_ARRIVED, TAKT_EVENT_KV_LOST}) {
    last.type = type;
    CHECK(tell() == TAKT_E_INVALID);
  }
  last.type = TAKT_EVENT_MOVE_DONE, last.u.move_done = {1, 0, 1};
  CHECK(tell() == TAKT_E_INVALID);
  last = Arrives(odd), last.u.arrived.request = nullptr;
  CHECK(tell() == TAKT_E_NULL);
  last = Arrives(odd), odd.flags = 4;
  CHECK(tell() == TAKT_E_INVALID);
  odd = RequestOf(2), odd.n_prefix_hashes = 3;
  CHECK(tell() == TAKT_E_NULL);
  odd = RequestOf(2), odd.n_scores = 3;
  CHECK(tell() == TAKT_E_NULL);
  for (const std::uint32_t size : {0u, 7u, 5000u, 0xffffffffu}) {
    CAPTURE(size);
    odd = RequestOf(2), odd.struct_size = size;
    CHECK(tell() == TAKT_E_SIZE);
  }
  odd = RequestOf(2);
  last.type = TAKT_EVENT_REVISED, last.u.revised.fields = 256;
  CHECK(tell() == TAKT_E_INVALID);
  CHECK(Alive(scheduler) == 0);
  last = Arrives(odd);
  CHECK(tell() == TAKT_OK);
  CHECK(Alive(scheduler) == 2);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
}

TEST_CASE("reserved fields in facts of routers must be zero") {
  takt_router* router = MakeRouter();
  takt_stage stage{};
  stage.calls = 1, stage.reserved = 1;
  takt_workflow workflow;
  takt_workflow_init(&workflow, sizeof workflow);
  workflow.id = 1, workflow.stages = &stage, workflow.n_stages = 1;
  std::array<takt_event, 4> events{};
  events[0].type = TAKT_EVENT_STAGE_ENDED, events[0].u.stage_ended = {1, 0, 1};
  events[1].type = TAKT_EVENT_WORKFLOW_ENDED, events[1].u.workflow_ended = {1, 0, 1};
  events[2].type = TAKT_EVENT_WORKFLOW_DECLARED, events[2].u.workflow_declared = {&workflow};
  events[3].type = TAKT_EVENT_WORKFLOW_GROWN, events[3].u.workflow_grown = {1, &stage, nullptr, 0};
  for (const takt_event& event : events) {
    CAPTURE(event.type);
    CHECK(takt_router_on(router, &event, 1, 0) == TAKT_E_INVALID);
  }
  stage.reserved = 0;
  CHECK(takt_router_on(router, &events[2], 2, 0) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

TEST_CASE("a scored request before arrival has sequences and valid estimates") {
  takt_router* router = MakeRouter();
  takt_instance instance;
  takt_instance_init(&instance, sizeof instance);
  instance.id = 1;
  takt_event up{};
  up.type = TAKT_EVENT_INSTANCE_UP, up.u.instance_up.instance = &instance;
  REQUIRE(takt_router_on(router, &up, 1, 0) == TAKT_OK);
  takt_ranker* ranker = nullptr;
  REQUIRE(takt_ranker_create("stjf", nullptr, &ranker, nullptr) == TAKT_OK);
  const auto score = [&](const takt_request& request, double& of) {
    return takt_router_score(router, &request, &instance.id, 1, 0, &of, nullptr);
  };
  const auto key = [&](const takt_request& request, double& of) {
    return takt_ranker_keys(ranker, &request, 1, 0, 0, &of);
  };

  takt_request request = RequestOf(1);
  double as_score = 7, as_key = 7, scored = 0, ranked = 0;
  for (const std::int32_t sequences : {0, -1}) {
    request.sequences = sequences;
    CHECK(score(request, as_score) == TAKT_E_INVALID);
    CHECK(key(request, as_key) == TAKT_E_INVALID);
  }
  CHECK((as_score == 7 && as_key == 7));
  request.sequences = 1;
  REQUIRE((score(request, scored) == TAKT_OK && key(request, ranked) == TAKT_OK));
  request.workflow_tokens_left.mean = request.output_tokens.mean = std::numeric_limits<double>::quiet_NaN();
  REQUIRE((score(request, as_score) == TAKT_OK && key(request, as_key) == TAKT_OK));
  CHECK((as_score == scored && as_key == ranked));
  CHECK(takt_ranker_destroy(ranker) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

TEST_CASE("an invalid epoch is not passed on") {
  takt_scheduler* scheduler = Make();
  takt_router* router = MakeRouter();
  std::array<takt_agent_rank, 2> ranks{};
  takt_epoch epoch;
  const auto status = [&] {
    const takt_status of_scheduler = takt_scheduler_epoch(scheduler, &epoch, 0);
    CHECK(takt_router_epoch(router, &epoch, 0) == of_scheduler);
    return of_scheduler;
  };
  const auto make = [&] {
    takt_epoch_init(&epoch, sizeof epoch);
    ranks[0] = {1, 0.5, 1, 1, 0}, ranks[1] = {2, 0.5, 1, 1, 0};
    epoch.fields = TAKT_EPOCH_AGENT_RANKS | TAKT_EPOCH_ALPHA, epoch.ranks = ranks.data(), epoch.n_ranks = ranks.size();
  };
  CHECK(takt_scheduler_epoch(scheduler, nullptr, 0) == TAKT_E_NULL);
  CHECK(takt_router_epoch(nullptr, nullptr, 0) == TAKT_E_NULL);
  make();
  CHECK(status() == TAKT_OK);
  make(), epoch.fields = 4;
  CHECK(status() == TAKT_E_INVALID);
  make(), epoch.ranks = nullptr;
  CHECK(status() == TAKT_E_NULL);
  make(), epoch.struct_size = 2;
  CHECK(status() == TAKT_E_SIZE);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double alpha : {-0.5, 1.5, kNan}) {
    make(), epoch.alpha = alpha;
    CHECK(status() == TAKT_E_INVALID);
  }
  for (const takt_agent_rank odd :
       {takt_agent_rank{1, 0, 0, 0, 0}, takt_agent_rank{2, kNan, 0, 0, 0}, takt_agent_rank{2, 0, -1, 0, 0},
        takt_agent_rank{2, 0, kNan, 0, 0}, takt_agent_rank{2, 0, 0, -1, 0}, takt_agent_rank{2, 0, 0, 0, 1}}) {
    make(), ranks[1] = odd;
    CHECK(status() == TAKT_E_INVALID);
    if (odd.agent == 1) continue;
    make(), epoch.otherwise = odd;
    CHECK(status() == TAKT_E_INVALID);
  }
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

// A struct of a newer header, whose last fields this library does not know.
template <class T>
struct Longer {
  T known;
  std::uint64_t unknown = 0;
};

TEST_CASE("structs of older and of newer headers") {
  takt_scheduler* scheduler = Make();
  Longer<takt_request> newer{RequestOf(1)};
  newer.known.struct_size = sizeof newer;
  takt_event event = Arrives(newer.known);
  CHECK(takt_scheduler_on(scheduler, &event, 1, 0) == TAKT_OK);
  newer.known.id = 2, newer.unknown = 1;
  CHECK(takt_scheduler_on(scheduler, &event, 1, 0) == TAKT_E_SIZE);
  CHECK(Alive(scheduler) == 1);

  // Up to `sequences`, with 17 after it in memory: the default holds, not the 17.
  takt_request older;
  std::memset(&older, 17, sizeof older);
  takt_request_init(&older, offsetof(takt_request, sequences));
  CHECK(older.struct_size == offsetof(takt_request, sequences));
  CHECK(older.sequences == 0x11111111);
  older.id = 3, older.prompt_tokens = 10;
  event = Arrives(older);
  CHECK(takt_scheduler_on(scheduler, &event, 1, 0) == TAKT_OK);
  CHECK(Alive(scheduler) == 2);

  Longer<takt_plan> plan{Sized<takt_plan>(), 17};
  plan.known.struct_size = sizeof plan;
  CHECK(takt_scheduler_plan(scheduler, 0, nullptr, &plan.known) == TAKT_OK);
  CHECK(plan.known.struct_size == sizeof plan);
  CHECK(plan.known.n_run == 2);
  CHECK(plan.unknown == 0);
  takt_plan head;
  std::memset(&head, 17, sizeof head);
  head.struct_size = offsetof(takt_plan, run);
  CHECK(takt_scheduler_plan(scheduler, 0, nullptr, &head) == TAKT_OK);
  CHECK(head.id == plan.known.id + 1);
  CHECK(head.n_run == 0x1111111111111111u);
  head.struct_size = 0;
  CHECK(takt_scheduler_plan(scheduler, 0, nullptr, &head) == TAKT_E_SIZE);

  takt_limits limits;
  takt_limits_init(&limits, sizeof limits);
  limits.struct_size = 3;
  CHECK(takt_scheduler_plan(scheduler, 0, &limits, &plan.known) == TAKT_E_SIZE);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);

  takt_scheduler_options options = Options();
  options.struct_size = 0;
  CHECK(FaultOf(options, TAKT_E_SIZE).find("struct_size") != std::string::npos);

  // An error of sixteen bytes has eight of text, the last of them zero.
  takt_error small;
  std::memset(&small, 17, sizeof small);
  small.struct_size = 16;
  options = Options(), options.max_running = 0;
  CHECK(takt_scheduler_create(&options, &scheduler, &small) == TAKT_E_INVALID);
  CHECK(std::string_view(small.text) == "max_run");
  CHECK(small.text[8] == 17);
}

TEST_CASE("invalid options are named") {
  takt_scheduler_options options = Options();
  options.max_running = 0, options.shed = 7, options.kv_blocks = 0, options.order = 256;
  const std::string faults = FaultOf(options);
  for (const char* field : {"max_running is 0", "shed is 7", "kv_blocks is 0", "order is 255"}) {
    CAPTURE(field, faults);
    CHECK(faults.find(field) != std::string::npos);
  }
  options = Options(), options.kv = TAKT_KV_MODE_ORACLE;
  CHECK(FaultOf(options).find("kv: kOracle requires an oracle") == 0);
  takt_kv_oracle oracle;
  takt_kv_oracle_init(&oracle, sizeof oracle);
  options.oracle = &oracle;
  CHECK(FaultOf(options, TAKT_E_NULL).find("oracle: snapshot, reserve or release is NULL") == 0);
  oracle = OracleOf(nullptr), options.kv = TAKT_KV_MODE_LEDGER;
  CHECK(FaultOf(options).find("kv: kOracle requires an oracle") == 0);
  options.kv = TAKT_KV_MODE_ORACLE, oracle.block_tokens = 0;
  CHECK(FaultOf(options).find("oracle: block_tokens() is 0") == 0);
  oracle.struct_size = 3;
  CHECK(FaultOf(options, TAKT_E_SIZE).find("oracle.struct_size") == 0);
  options = Options(), options.policy = "no_such";
  CHECK(FaultOf(options).find("policy: ") == 0);
  options = Options(), options.pause = "no_such";
  CHECK(FaultOf(options).find("pause: ") == 0);

  options = Options(), options.reserved = 1;
  CHECK(FaultOf(options) == "reserved: is invalid; expected 0");

  takt_scheduler* scheduler = Make();
  Watched watched;
  CHECK(takt_scheduler_policy(scheduler) == std::string_view("room_to_pass"));
  CHECK(takt_scheduler_set_policy(scheduler, "no_such", nullptr, 0, &watched.error) == TAKT_E_INVALID);
  CHECK(std::string_view(watched.error.text).find("policy: ") == 0);
  CHECK(takt_scheduler_policy(scheduler) == std::string_view("room_to_pass"));
  // Learnt data must have its stated length.
  std::vector<std::uint64_t> numbers(takt_scheduler_learnt(scheduler, nullptr, 0));
  REQUIRE(!numbers.empty());
  CHECK(takt_scheduler_learnt(scheduler, numbers.data(), numbers.size()) == numbers.size());
  CHECK(takt_scheduler_load_learnt(scheduler, numbers.data(), numbers.size(), 0, nullptr) == TAKT_OK);
  CHECK(takt_scheduler_load_learnt(scheduler, numbers.data(), numbers.size() - 1, 0, &watched.error) == TAKT_E_INVALID);
  CHECK(std::string_view(watched.error.text).find("numbers: ") == 0);
  CHECK(takt_scheduler_set_policy(scheduler, "fcfs", nullptr, 0, nullptr) == TAKT_OK);
  CHECK(takt_scheduler_policy(scheduler) == std::string_view("fcfs"));
  CHECK(takt_scheduler_learnt(scheduler, numbers.data(), numbers.size()) == 0);
  CHECK(takt_scheduler_load_learnt(scheduler, numbers.data(), numbers.size(), 0, nullptr) == TAKT_E_INVALID);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);

  takt_router_options router_options;
  takt_router_options_init(&router_options, sizeof router_options);
  router_options.placement = "no_such";
  takt_router* router = nullptr;
  CHECK(takt_router_create(&router_options, &router, &watched.error) == TAKT_E_INVALID);
  CHECK(std::string_view(watched.error.text).find("placement: ") == 0);
  router_options.placement = nullptr, router_options.window = -1;
  CHECK(takt_router_create(&router_options, &router, &watched.error) == TAKT_E_INVALID);
  CHECK(std::string_view(watched.error.text).find("window is -1") == 0);
  router_options.window = 0, router_options.reserved = 1;
  CHECK(takt_router_create(&router_options, &router, &watched.error) == TAKT_E_INVALID);
  CHECK(std::string_view(watched.error.text) == "reserved: is invalid; expected 0");
}

TEST_CASE("a step without number has no rows and no unknown flag") {
  takt_scheduler* scheduler = Make();
  const takt_row_result row{};
  auto plan = Sized<takt_plan>();
  CHECK(takt_scheduler_step(scheduler, 0, &row, 1, 0, 0, nullptr, &plan, nullptr, 0) == TAKT_E_INVALID);
  CHECK(takt_scheduler_step(scheduler, 0, nullptr, 0, TAKT_REST_AS_PLANNED, 0, nullptr, &plan, nullptr, 0) ==
        TAKT_E_INVALID);
  CHECK(takt_scheduler_step(scheduler, 1, nullptr, 0, 2, 0, nullptr, &plan, nullptr, 0) == TAKT_E_INVALID);
  CHECK(takt_scheduler_commit(scheduler, 1, nullptr, 0, 2, 0) == TAKT_E_INVALID);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
}

TEST_CASE("a handle is of one kind") {
  takt_scheduler* scheduler = Make();
  takt_router* router = MakeRouter();
  CHECK(takt_scheduler_on(reinterpret_cast<takt_scheduler*>(router), nullptr, 0, 0) == TAKT_E_HANDLE);
  CHECK(takt_router_destroy(reinterpret_cast<takt_router*>(scheduler)) == TAKT_E_HANDLE);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

#ifndef NDEBUG
TEST_CASE("a handle that was destroyed is found out") {
  takt_scheduler* scheduler = Make();
  takt_router* router = MakeRouter();
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
  auto plan = Sized<takt_plan>();
  CHECK(takt_scheduler_plan(scheduler, 0, nullptr, &plan) == TAKT_E_HANDLE);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_E_HANDLE);
  CHECK(takt_router_place(router, 0, nullptr) == TAKT_E_HANDLE);
  CHECK(takt_router_destroy(router) == TAKT_E_HANDLE);
}
#endif

struct Caller {
  takt_scheduler* scheduler = nullptr;
  takt_status last = TAKT_OK;
  int calls = 0;
};

TEST_CASE("an oracle may not call its scheduler, and may answer nonsense") {
  Asked asked;
  const takt_kv_oracle oracle = OracleOf(&asked);
  takt_scheduler_options options = Options();
  options.kv = TAKT_KV_MODE_ORACLE, options.oracle = &oracle;
  asked.scheduler = Make(options);
  const takt_request request = RequestOf(1);
  const takt_event event = Arrives(request);
  auto plan = Sized<takt_plan>();
  auto use = Sized<takt_kv_use>();
  CHECK(takt_scheduler_on(asked.scheduler, &event, 1, 0) == TAKT_OK);
  CHECK(takt_scheduler_plan(asked.scheduler, 0, nullptr, &plan) == TAKT_OK);
  CHECK(plan.n_run == 1);
  takt_scheduler_commit(asked.scheduler, plan.id, nullptr, 0, TAKT_REST_AS_PLANNED, 0);
  takt_event cancelled{};
  cancelled.type = TAKT_EVENT_CANCELLED, cancelled.u.request = 1;
  CHECK(takt_scheduler_on(asked.scheduler, &cancelled, 1, 0) == TAKT_OK);
  CHECK(asked.calls == std::array<int, 4>{asked.calls[0], 1, 1, 1});
  asked.free = -5;
  CHECK(takt_scheduler_kv(asked.scheduler, &use) == TAKT_OK);
  CHECK(use.free == 0);
  CHECK(asked.calls[0] > 1);
  CHECK(asked.others == 0);
  CHECK(takt_scheduler_destroy(asked.scheduler) == TAKT_OK);
}

TEST_CASE("a callback may not call the handle that calls it") {
  Caller caller;
  takt_scheduler_options options = Options();
  options.record = [](void* context, const void*, std::size_t) {
    auto* self = static_cast<Caller*>(context);
    if (self->scheduler == nullptr) return;  // still being made
    ++self->calls;
    auto plan = Sized<takt_plan>();
    self->last = takt_scheduler_plan(self->scheduler, 0, nullptr, &plan);
    if (self->last == TAKT_E_BUSY) self->last = takt_scheduler_destroy(self->scheduler);
  };
  options.record_context = &caller, options.record_flush_bytes = 1;
  caller.scheduler = Make(options);
  auto plan = Sized<takt_plan>();
  CHECK(takt_scheduler_plan(caller.scheduler, 0, nullptr, &plan) == TAKT_OK);
  CHECK(caller.last == TAKT_E_BUSY);
  CHECK(caller.calls > 0);
  CHECK(takt_scheduler_destroy(caller.scheduler) == TAKT_OK);
}

struct Drainer {
  takt_scheduler* scheduler = nullptr;
  takt_inbox* inbox = nullptr;
  takt_scheduler* other = nullptr;
  std::array<takt_status, 4> answers = {};
};

TEST_CASE("an inbox in a drain accepts events and no other drain") {
  Drainer drainer;
  takt_scheduler_options options = Options();
  options.record = [](void* context, const void*, std::size_t) {
    auto* self = static_cast<Drainer*>(context);
    if (self->inbox == nullptr) return;  // still being made
    takt_event event{};
    event.type = TAKT_EVENT_CANCELLED, event.u.request = 2;
    self->answers = {takt_scheduler_take(self->other, self->inbox, 0, nullptr), takt_inbox_destroy(self->inbox),
                     takt_scheduler_take(self->scheduler, self->inbox, 0, nullptr),
                     takt_inbox_push(self->inbox, &event, nullptr)};
  };
  options.record_context = &drainer, options.record_flush_bytes = 1;
  drainer.scheduler = Make(options), drainer.other = Make();
  REQUIRE(takt_inbox_create(TAKT_INBOX_OF_SCHEDULER, 0, &drainer.inbox, nullptr) == TAKT_OK);
  takt_event event{};
  event.type = TAKT_EVENT_CANCELLED, event.u.request = 1;
  REQUIRE(takt_inbox_push(drainer.inbox, &event, nullptr) == TAKT_OK);
  std::size_t n = 0;
  CHECK(takt_scheduler_take(drainer.scheduler, drainer.inbox, 0, &n) == TAKT_OK);
  CHECK(n == 1);
  CHECK(drainer.answers == std::array<takt_status, 4>{TAKT_E_BUSY, TAKT_E_BUSY, TAKT_E_BUSY, TAKT_OK});
  CHECK(takt_scheduler_take(drainer.other, drainer.inbox, 0, &n) == TAKT_OK);
  CHECK(n == 1);
  CHECK(takt_inbox_destroy(drainer.inbox) == TAKT_OK);
  CHECK(takt_scheduler_destroy(drainer.other) == TAKT_OK);
  CHECK(takt_scheduler_destroy(drainer.scheduler) == TAKT_OK);
}

TEST_CASE("an invalid log and a damaged one") {
  std::string log;
  takt_scheduler_options options = Options();
  options.record = [](void* context, const void* bytes, std::size_t n) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(bytes), n);
  };
  options.record_context = &log;
  takt_scheduler* scheduler = Make(options);
  auto plan = Sized<takt_plan>();
  for (int i = 0; i < 20; ++i) CHECK(takt_scheduler_plan(scheduler, i, nullptr, &plan) == TAKT_OK);
  CHECK(takt_scheduler_flush(scheduler) == TAKT_OK);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);

  Watched watched;
  auto report = Sized<takt_replay_report>();
  CHECK(takt_replay(log.data(), log.size(), &report, nullptr, 0, &watched.error) == TAKT_OK);
  CHECK(report.plans == 20);
  CHECK(report.differs == 0);
  CHECK(takt_replay(log.data(), log.size() - 3, &report, nullptr, 0, &watched.error) == TAKT_OK);
  CHECK(report.truncated == 1);
  CHECK(takt_replay("nonsense", 8, &report, nullptr, 0, &watched.error) == TAKT_E_INVALID);
  CHECK(watched.error.text[0] != 0);
  log[log.size() / 2] ^= 0x55;
  CHECK(takt_replay(log.data(), log.size(), &report, nullptr, 0, &watched.error) == TAKT_E_CORRUPT);
  CHECK(watched.guard == 0x12345678u);
}

}  // namespace
}  // namespace takt
