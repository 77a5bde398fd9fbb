// L0 and L1 through C: a random host drives a queue in C++ and one in C, and both answer alike.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"
#include "takt/policy/registry.h"
#include "takt/queue/ranker.h"
#include "takt/queue/waiting_queue.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(std::int64_t ns) { return TimePoint(Duration(ns)); }

takt_queue* Make(const char* policy) {
  takt_queue_options options;
  takt_queue_options_init(&options, sizeof options);
  options.policy = policy;
  takt_queue* queue = nullptr;
  REQUIRE(takt_queue_create(&options, &queue, nullptr) == TAKT_OK);
  return queue;
}

struct Both {
  Request cxx;
  takt_request c;
};
Both RequestOf(std::uint64_t id, Random& random, std::int64_t now) {
  Both both;
  takt_request_init(&both.c, sizeof both.c);
  both.cxx.id = {id}, both.c.id = id;
  both.cxx.workflow = {id / 3 + 1}, both.c.workflow = id / 3 + 1;
  both.cxx.tenant.value = both.c.tenant = random.Below(4);
  both.cxx.priority = both.c.priority = static_cast<std::int32_t>(random.Below(5));
  both.cxx.prompt_tokens.value = both.c.prompt_tokens = static_cast<std::int32_t>(1 + random.Below(500));
  const auto deadline = now + static_cast<std::int64_t>(random.Below(1'000'000'000));
  both.cxx.deadline = At(deadline), both.c.deadline = deadline;
  const Estimate length = Estimate::Exact(static_cast<double>(random.Below(300)));
  both.cxx.output_tokens = length;
  both.c.output_tokens.mean = length.mean;
  std::copy(length.quantiles.begin(), length.quantiles.end(), both.c.output_tokens.quantiles);
  return both;
}

TEST_CASE("a queue through C is the queue of C++") {
  for (const char* policy : {"aged(stjf,threshold=4,quantum=2)", "fair_share", "bands(bands=0;1:0.3)", "room_to_pass",
                             "mlfq", "hrrn", "edf"}) {
    CAPTURE(policy);
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(5)); ++seed) {
      Random random(seed);
      AnyWaitingQueue cxx(*MakePolicy(policy));
      takt_queue* c = Make(policy);
      CHECK(takt_queue_policy(c) == cxx.policy().spec());
      CHECK(((takt_queue_traits(c) & TAKT_TRAIT_AGES) != 0) == cxx.traits().ages);
      CHECK(((takt_queue_traits(c) & TAKT_TRAIT_GROUPS) != 0) == cxx.traits().groups);
      std::uint64_t last = 0;
      std::int64_t now = 0;
      std::vector<std::uint64_t> running;
      const auto same = [](QueueResult a, takt_result b) { return static_cast<takt_result>(a) == b; };
      for (int step = 0; step < 200; ++step) {
        now += static_cast<std::int64_t>(random.Below(400'000'000));
        for (std::uint64_t n = random.Below(4); n > 0; --n) {
          const Both r = RequestOf(random.Chance(0.05) ? random.Below(last + 1) : ++last, random, now);
          REQUIRE(same(cxx.Push(r.cxx, At(now)), takt_queue_push(c, &r.c, now)));
        }
        const std::uint64_t any = random.Below(last + 2);
        if (random.Chance(0.3)) {
          Both news = RequestOf(any, random, now);
          const Revised e{.request = {any}, .output_tokens = news.cxx.output_tokens, .priority = news.cxx.priority};
          std::uint32_t told = TAKT_REVISED_OUTPUT_TOKENS | TAKT_REVISED_PRIORITY;
          AnyWaitingQueue::Restated restated;
          if (random.Chance(0.3)) told |= TAKT_REVISED_PROMPT_TOKENS, restated.prompt_tokens = news.cxx.prompt_tokens;
          if (random.Chance(0.3)) told |= TAKT_REVISED_ARRIVAL, restated.arrival = news.cxx.arrival;
          REQUIRE(same(cxx.Revise(e, At(now), restated), takt_queue_revise(c, &news.c, told, now)));
        }
        if (random.Chance(0.2)) {
          const Both r = RequestOf(random.Chance(0.1) ? ++last : any, random, now);
          REQUIRE(same(cxx.Put(r.cxx, At(now)), takt_queue_put(c, &r.c, now)));
        }
        if (random.Chance(0.2)) REQUIRE(same(cxx.Erase({any}), takt_queue_erase(c, any)));
        if (random.Chance(0.1)) REQUIRE(same(cxx.Hold({any}), takt_queue_hold(c, any)));
        if (random.Chance(0.1)) REQUIRE(same(cxx.Pause({.request = {any}}, At(now)), takt_queue_pause(c, any, now)));
        if (random.Chance(0.3)) REQUIRE(same(cxx.Requeue({any}, At(now)), takt_queue_requeue(c, any, now)));
        cxx.Begin(At(now));
        REQUIRE(takt_queue_begin(c, now) == TAKT_OK);
        std::vector<AnyWaitingQueue::Ran> ran;
        std::vector<takt_ran> ran_c;
        for (std::uint64_t n = random.Below(5); n > 0; --n) {
          std::uint64_t top = 1;
          REQUIRE(takt_queue_top(c, &top) == (cxx.Top() ? 1 : 0));
          REQUIRE(top == cxx.Top().value);
          if (top == 0) break;
          REQUIRE(same(cxx.Take({top}), takt_queue_take(c, top)));
          if (random.Chance(0.4)) continue;
          ran.push_back({{top}, {5}, {1}}), ran_c.push_back({top, 5, 1});
          running.push_back(top);
        }
        ran.push_back({{any}, {0}, {1}}), ran_c.push_back({any, 0, 1});  // wherever it is
        takt_pressure pressure;
        takt_pressure_init(&pressure, sizeof pressure);
        pressure.head = TAKT_WAITS_FOR_KV, pressure.kv_tokens = 1000;
        const QueuePressure told{.head = WaitsFor::kKv, .kv_tokens = {1000}};
        std::size_t counted = 0;
        const std::size_t run = cxx.End(ran, At(now), &told);
        REQUIRE(takt_queue_end(c, ran_c.data(), ran_c.size(), &pressure, now, &counted) == TAKT_OK);
        REQUIRE(counted == run);
        std::vector<AnyWaitingQueue::Holding> rows;
        std::vector<takt_holding> rows_c;
        for (std::uint64_t id : running) rows.push_back({{id}, {2}}), rows_c.push_back({id, 2, 0});
        std::vector<RequestId> victims;
        const std::uint64_t* victims_c = nullptr;
        std::size_t n_victims = 0;
        cxx.Victims(rows, {4}, At(now), victims, cxx.Top());
        REQUIRE(takt_queue_victims(c, rows_c.data(), rows_c.size(), 4, cxx.Top().value, now, &victims_c, &n_victims) ==
                TAKT_OK);
        REQUIRE(std::equal(victims.begin(), victims.end(), victims_c, victims_c + n_victims,
                           [](RequestId a, std::uint64_t b) { return a.value == b; }));
        // C passes all at once. C++ passes one by one, from a host's own list of running requests, whose order does not
        // matter to the policy.
        const auto rest = static_cast<std::int32_t>(random.Below(3));
        const bool at_once = std::string_view(policy) == "mlfq";
        std::size_t expected = at_once ? cxx.Computed(ran, {rest}) : 0;
        for (std::size_t i = 0; !at_once && i < ran.size(); ++i) {
          expected += cxx.Computed(ran[i]) == QueueResult::kDone ? 1u : 0u;
        }
        for (std::uint64_t id = 1; !at_once && rest > 0 && id <= last + 1; ++id) {
          const bool named = std::ranges::find(ran, RequestId{id}, &AnyWaitingQueue::Ran::request) != ran.end();
          if (!named && cxx.place({id}) == QueuePlace::kRunning) cxx.Computed({{id}, {0}, {rest}});
        }
        REQUIRE(takt_queue_computed(c, ran_c.data(), ran_c.size(), rest, &counted) == TAKT_OK);
        REQUIRE(counted == expected);
        std::vector<RequestId> order(cxx.size());
        std::vector<std::uint64_t> order_c(cxx.size() + 1);
        REQUIRE(cxx.List(order) == order.size());
        REQUIRE(takt_queue_list(c, order_c.data(), order_c.size()) == order.size());
        REQUIRE(takt_queue_size(c) == order.size());
        for (std::size_t i = 0; i < order.size(); ++i) REQUIRE(order[i].value == order_c[i]);
        REQUIRE(static_cast<takt_result>(cxx.place({any})) == takt_queue_place(c, any));
      }
      const std::vector<std::uint64_t> learnt = cxx.policy().SaveLearnt();
      std::vector<std::uint64_t> learnt_c(learnt.size());
      REQUIRE(takt_queue_learnt(c, learnt_c.data(), learnt_c.size()) == learnt.size());
      CHECK(learnt_c == learnt);
      takt_queue* other = Make(policy);
      const takt_status loaded = takt_queue_load_learnt(other, learnt.data(), learnt.size(), nullptr);
      CHECK((loaded == TAKT_OK) == !learnt.empty());
      REQUIRE(takt_queue_learnt(other, learnt_c.data(), learnt_c.size()) == learnt.size());
      CHECK(learnt_c == learnt);
      CHECK(takt_queue_destroy(other) == TAKT_OK);
      CHECK(takt_queue_destroy(c) == TAKT_OK);
    }
  }
}

TEST_CASE("keys through C equal those of C++") {
  for (const char* policy : {"stjf", "edf", "hrrn", "room_to_pass", "ltr"}) {
    CAPTURE(policy);
    Ranker ranker(*MakePolicy(policy));
    takt_ranker* c = nullptr;
    REQUIRE(takt_ranker_create(policy, nullptr, &c, nullptr) == TAKT_OK);
    CHECK(((takt_ranker_traits(c) & TAKT_TRAIT_FIXED) != 0) == ranker.traits().fixed);
    CHECK(((takt_ranker_traits(c) & TAKT_TRAIT_MOVING) != 0) == ranker.traits().moving);
    Random random(3);
    std::vector<takt_request> requests;
    std::vector<double> keys(50), expected;
    for (std::uint64_t id = 1; id <= keys.size(); ++id) {
      const Both r = RequestOf(id, random, 5);
      requests.push_back(r.c);
      expected.push_back(ranker.Key(r.cxx, At(7'000'000'000)));
    }
    REQUIRE(takt_ranker_keys(c, requests.data(), keys.size(), sizeof(takt_request), 7'000'000'000, keys.data()) ==
            TAKT_OK);
    CHECK(keys == expected);
    CHECK(takt_ranker_destroy(c) == TAKT_OK);
  }
}

// Ranks the largest id first, and calls back into its caller.
struct Own {
  takt_queue* queue = nullptr;
  takt_ranker* ranker = nullptr;
  int calls = 0, others = 0;  // others: answers but TAKT_E_BUSY

  takt_key InC() {
    takt_key key;
    takt_key_init(&key, sizeof key);
    key.name = "largest_id", key.context = this;
    key.key = [](void* context, const takt_request_state* state) {
      auto* self = static_cast<Own*>(context);
      ++self->calls;
      double of = 0;
      if (self->queue != nullptr) {
        for (const takt_result r :
             {takt_queue_push(self->queue, state->request, 0), takt_queue_put(self->queue, state->request, 0),
              takt_queue_erase(self->queue, 1), -takt_queue_computed(self->queue, nullptr, 0, 1, nullptr)}) {
          self->others += r == -TAKT_E_BUSY ? 0 : 1;
        }
        self->others += takt_queue_destroy(self->queue) == TAKT_E_BUSY ? 0 : 1;
      }
      if (self->ranker != nullptr) {
        self->others += takt_ranker_keys(self->ranker, state->request, 1, 0, 0, &of) == TAKT_E_BUSY ? 0 : 1;
      }
      return -static_cast<double>(state->request->id);
    };
    return key;
  }
};

TEST_CASE("a host's own keys order a queue and a ranker") {
  Own own;
  const takt_key key = own.InC();
  takt_ranker* ranker = nullptr;
  REQUIRE(takt_ranker_create(nullptr, &key, &ranker, nullptr) == TAKT_OK);
  own.ranker = ranker;
  CHECK(takt_ranker_traits(ranker) == TAKT_TRAIT_FIXED);
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = 7;
  double of = 0;
  CHECK(takt_ranker_keys(ranker, &request, 1, 0, 0, &of) == TAKT_OK);
  CHECK(of == -7);
  CHECK(takt_ranker_destroy(ranker) == TAKT_OK);
  own.ranker = nullptr;

  takt_queue_options options;
  takt_queue_options_init(&options, sizeof options);
  options.policy = "aged(custom,threshold=2)", options.key = &key;
  REQUIRE(takt_queue_create(&options, &own.queue, nullptr) == TAKT_OK);
  CHECK(takt_queue_policy(own.queue) == std::string("aged(custom(largest_id),threshold=2)"));
  own.calls = 0;
  for (request.id = 1; request.id <= 3; ++request.id) {
    CHECK(takt_queue_push(own.queue, &request, 0) == TAKT_RESULT_DONE);
  }
  std::array<std::uint64_t, 3> order = {};
  CHECK(takt_queue_list(own.queue, order.data(), 3) == 3);
  CHECK(order == std::array<std::uint64_t, 3>{3, 2, 1});
  for (int i = 0; i < 2; ++i) {
    const takt_ran ran{3, 1, 1};
    CHECK(takt_queue_begin(own.queue, 0) == TAKT_OK);
    CHECK(takt_queue_end(own.queue, &ran, 1, nullptr, 0, nullptr) == TAKT_OK);
  }
  CHECK(own.calls == 3);
  request.id = 2;
  CHECK(takt_queue_revise(own.queue, &request, TAKT_REVISED_PRIORITY, 0) == TAKT_RESULT_DONE);
  CHECK(takt_queue_requeue(own.queue, 3, 0) == TAKT_RESULT_DONE);
  CHECK(own.calls == 5);
  const takt_ran late{3, 1, 1};
  CHECK(takt_queue_computed(own.queue, &late, 1, 0, nullptr) == TAKT_OK);  // it waits: its key is read again
  CHECK(own.calls == 6);
  CHECK(own.others == 0);
  CHECK(takt_queue_destroy(own.queue) == TAKT_OK);
}

TEST_CASE("a host's own key reports its mistakes") {
  takt_error error;
  takt_error_init(&error, sizeof error);
  Own own;
  const auto fault = [&](const takt_key& key, const char* policy = nullptr) {
    takt_ranker* ranker = nullptr;
    const takt_status status = takt_ranker_create(policy, &key, &ranker, &error);
    CHECK(ranker == nullptr);
    return takt_status_name(status) + std::string(": ") + error.text;
  };
  takt_key key = own.InC();
  CHECK(fault(key, "fcfs") == "TAKT_E_INVALID: policy: is invalid with a key; expected custom or aged(custom)");
  CHECK(fault(key, "custom(another)").find("'custom(another)' is unknown") != std::string::npos);
  key.reserved = 1;
  CHECK(fault(key) == "TAKT_E_INVALID: reserved: is invalid; expected 0");
  key = own.InC(), key.struct_size = 9;
  CHECK(fault(key).find("TAKT_E_SIZE: key.struct_size") == 0);
  key = own.InC(), key.key = nullptr;
  CHECK(fault(key) == "TAKT_E_NULL: key: name or key is NULL; expected both");
  const std::string longest(64, 'x'), too_long(65, 'x');
  for (const char* name : {"", "a b", "a)", "\xe9", too_long.c_str()}) {
    key = own.InC(), key.name = name;
    CHECK(fault(key) == "TAKT_E_INVALID: key.name: is invalid; expected 1 to 64 letters, digits and _");
  }
  key.name = longest.c_str();
  takt_ranker* ranker = nullptr;
  CHECK(takt_ranker_create("custom", &key, &ranker, &error) == TAKT_OK);
  CHECK(takt_ranker_destroy(ranker) == TAKT_OK);
  CHECK(takt_ranker_create("custom", nullptr, &ranker, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text).find("'custom' is unknown; only a host that registers this policy can use it") !=
        std::string::npos);
}

TEST_CASE("a queue in C reports each mistake") {
  takt_error error;
  takt_error_init(&error, sizeof error);
  takt_queue* queue = nullptr;
  takt_queue_options options;
  takt_queue_options_init(&options, sizeof options);
  options.policy = "sooner";
  CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text).find("policy: ") == 0);
  CHECK(queue == nullptr);
  options.policy = "fcfs";
  options.reserve_requests = -1;
  CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text) == "reserve_requests is -1; expected 0 to 2147483648");
  options.reserve_requests = 0, options.reserved = 1;
  CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_INVALID);
  CHECK(std::string(error.text) == "reserved: is invalid; expected 0");
  CHECK(takt_queue_create(nullptr, &queue, &error) == TAKT_E_NULL);
  options.struct_size = 4;
  CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_SIZE);

  CHECK(takt_queue_begin(nullptr, 0) == TAKT_E_NULL);
  CHECK(takt_queue_take(nullptr, 1) == -TAKT_E_NULL);
  queue = Make("fcfs");
  CHECK(takt_queue_push(queue, nullptr, 0) == -TAKT_E_NULL);
  CHECK(takt_queue_top(queue, nullptr) == -TAKT_E_NULL);
  CHECK(takt_queue_end(queue, nullptr, 1, nullptr, 0, nullptr) == TAKT_E_NULL);
  CHECK(takt_queue_traits(nullptr) == 0);
  CHECK(takt_queue_put(nullptr, nullptr, 0) == -TAKT_E_NULL);
  CHECK(takt_queue_put(queue, nullptr, 0) == -TAKT_E_NULL);
  takt_request request{};
  CHECK(takt_queue_push(queue, &request, 0) == -TAKT_E_SIZE);
  takt_request_init(&request, sizeof request);
  CHECK(takt_queue_push(queue, &request, 0) == TAKT_RESULT_INVALID);
  CHECK(takt_queue_put(queue, &request, 0) == TAKT_RESULT_INVALID);
  CHECK(takt_queue_revise(queue, &request, 2 * TAKT_REVISED_ARRIVAL, 0) == -TAKT_E_INVALID);
  CHECK(takt_queue_revise(nullptr, &request, 2 * TAKT_REVISED_ARRIVAL, 0) == -TAKT_E_NULL);

  // Invalid counts: nothing of the batch is counted.
  request.id = 1;
  REQUIRE(takt_queue_push(queue, &request, 0) == TAKT_RESULT_DONE);
  std::size_t counted = 7;
  for (const takt_ran odd :
       {takt_ran{1, -1, 0}, takt_ran{1, 0, -1}, takt_ran{1, INT32_MAX, 0}, takt_ran{1, 0, INT32_MAX}}) {
    const std::array<takt_ran, 2> ran = {{{1, 5, 1}, odd}};
    CHECK(takt_queue_end(queue, ran.data(), 2, nullptr, 0, &counted) == TAKT_E_INVALID);
    CHECK(takt_queue_place(queue, 1) == TAKT_PLACE_WAITING);
    CHECK(takt_queue_computed(queue, ran.data(), 2, 0, &counted) == TAKT_E_INVALID);
  }
  for (const std::int32_t rest : {-1, INT32_MAX}) {
    CHECK(takt_queue_computed(queue, nullptr, 0, rest, &counted) == TAKT_E_INVALID);
  }
  CHECK(counted == 7);
  takt_pressure pressure;
  takt_pressure_init(&pressure, sizeof pressure);
  pressure.kv_tokens = -1;
  CHECK(takt_queue_end(queue, nullptr, 0, &pressure, 0, nullptr) == TAKT_E_INVALID);
  const std::uint64_t* victims = nullptr;
  std::size_t n = 0;
  for (const takt_holding odd : {takt_holding{1, -1, 0}, takt_holding{1, 1, 1}}) {
    CHECK(takt_queue_victims(queue, &odd, 1, 1, 0, 0, &victims, &n) == TAKT_E_INVALID);
  }
  // The largest valid counts, repeatedly.
  for (const takt_ran most{1, 1 << 28, 1 << 28}; n < 20; ++n)
    CHECK(takt_queue_end(queue, &most, 1, nullptr, 0, nullptr) == TAKT_OK);

  takt_ranker* ranker = nullptr;
  REQUIRE(takt_ranker_create(nullptr, nullptr, &ranker, nullptr) == TAKT_OK);
  CHECK(takt_queue_begin(reinterpret_cast<takt_queue*>(ranker), 0) == TAKT_E_HANDLE);
  CHECK(takt_ranker_destroy(ranker) == TAKT_OK);
  CHECK(takt_queue_destroy(queue) == TAKT_OK);
  CHECK(takt_queue_destroy(nullptr) == TAKT_OK);
}

TEST_CASE("a policy that needs ranks of agents is refused until it gets them") {
  auto error = Sized<takt_error>();
  takt_ranker* ranker = nullptr;
  takt_queue* queue = nullptr;
  takt_queue_options options;
  takt_queue_options_init(&options, sizeof options);
  for (const char* policy : {"agent_priority", "stage_depth", "aged(agent_priority)"}) {
    CAPTURE(policy);
    CHECK(takt_ranker_create(policy, nullptr, &ranker, &error) == TAKT_E_INVALID);
    CHECK(std::string_view(error.text).find("needs ranks of agents, which are unsupported here") != std::string::npos);
    takt_epoch epoch;
    takt_epoch_init(&epoch, sizeof epoch);
    options.policy = policy, options.epoch = nullptr;
    CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_INVALID);
    CHECK(std::string_view(error.text).find("needs ranks of agents; expected a first epoch") != std::string::npos);
    options.epoch = &epoch;
    CHECK(takt_queue_create(&options, &queue, &error) == TAKT_E_INVALID);

    std::array<takt_agent_rank, 2> ranks = {takt_agent_rank{1, 2, 0, 2, 0}, takt_agent_rank{2, 1, 0, 1, 0}};
    epoch.fields = TAKT_EPOCH_AGENT_RANKS, epoch.ranks = ranks.data(), epoch.n_ranks = ranks.size();
    REQUIRE(takt_queue_create(&options, &queue, &error) == TAKT_OK);
    CHECK((takt_queue_traits(queue) & TAKT_TRAIT_TABLES) != 0);
    for (const std::uint64_t id : {std::uint64_t{1}, std::uint64_t{2}}) {
      takt_request request;
      takt_request_init(&request, sizeof request);
      request.id = request.agent = id, request.prompt_tokens = 10;
      REQUIRE(takt_queue_push(queue, &request, static_cast<std::int64_t>(id)) == TAKT_RESULT_DONE);
    }
    const auto first = [queue] {
      std::uint64_t top = 0;
      CHECK(takt_queue_begin(queue, 10) == TAKT_OK);
      takt_queue_top(queue, &top);
      return top;
    };
    CHECK(first() == 2);
    ranks = {takt_agent_rank{1, 1, 0, 1, 0}, takt_agent_rank{2, 2, 0, 2, 0}};
    CHECK(takt_queue_epoch(queue, &epoch, 10) == TAKT_OK);
    CHECK(first() == 1);
    ranks[1].agent = 1;
    CHECK(takt_queue_epoch(queue, &epoch, 10) == TAKT_E_INVALID);
    CHECK(takt_queue_destroy(queue) == TAKT_OK);
  }
}

}  // namespace
}  // namespace takt
