// Events from many threads arrive once each, in the order of their thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

constexpr std::uint64_t kThreads = 4, kEach = 500;

// Each thread lets its requests arrive, and cancels each after it.
TEST_CASE("events pushed by threads arrive once in each thread's order") {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.kv_blocks = 64;
  takt_scheduler* scheduler = nullptr;
  REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
  takt_inbox* inbox = nullptr;
  REQUIRE(takt_inbox_create(TAKT_INBOX_OF_SCHEDULER, 0, &inbox, nullptr) == TAKT_OK);

  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([inbox, t] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        takt_request request;
        takt_request_init(&request, sizeof request);
        request.id = t * kEach + i, request.prompt_tokens = 1;
        takt_event event{};
        event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
        takt_inbox_push(inbox, &event, nullptr);
        event.type = TAKT_EVENT_CANCELLED, event.u.request = request.id;
        takt_inbox_push(inbox, &event, nullptr);
      }
    });
  }
  std::size_t taken = 0;
  for (std::int64_t now = 0; taken < 2 * kThreads * kEach; ++now) {
    std::size_t n = 0;
    if (takt_scheduler_take(scheduler, inbox, now, &n) != TAKT_OK) break;
    taken += n;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(taken == 2 * kThreads * kEach);
  for (const auto& [name, value] : StatsOf(takt_scheduler_stats, scheduler)) {
    const std::string_view counter = name;
    if (counter == "arrived" || counter == "cancelled") CHECK(value == kThreads * kEach);
    if (counter == "events_unknown") CHECK(value == 0);
  }
  CHECK(takt_inbox_destroy(inbox) == TAKT_OK);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
}

TEST_CASE("an inbox reports the fate of an event, and accepts one kind") {
  takt_inbox* inbox = nullptr;
  CHECK(takt_inbox_create(2, 0, &inbox, nullptr) == TAKT_E_INVALID);
  REQUIRE(takt_inbox_create(TAKT_INBOX_OF_ROUTER, 2, &inbox, nullptr) == TAKT_OK);
  takt_event event{};
  event.type = TAKT_EVENT_INSTANCE_DOWN, event.u.instance_down = {7, 0};
  std::uint32_t pushed = 9;
  CHECK(takt_inbox_push(inbox, &event, &pushed) == TAKT_OK);
  CHECK(pushed == TAKT_PUSHED_FIRST);
  CHECK(takt_inbox_push(inbox, &event, &pushed) == TAKT_OK);
  CHECK(pushed == TAKT_PUSHED_QUEUED);
  CHECK(takt_inbox_push(inbox, &event, &pushed) == TAKT_OK);
  CHECK(pushed == TAKT_PUSHED_FULL);
  CHECK(takt_inbox_push(inbox, nullptr, &pushed) == TAKT_E_NULL);
  event.type = TAKT_EVENT_BLOCKED;
  CHECK(takt_inbox_push(inbox, &event, &pushed) == TAKT_E_INVALID);

  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.kv_blocks = 64;
  takt_scheduler* scheduler = nullptr;
  REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
  CHECK(takt_scheduler_take(scheduler, inbox, 0, nullptr) == TAKT_E_INVALID);
  takt_router_options router_options;
  takt_router_options_init(&router_options, sizeof router_options);
  takt_router* router = nullptr;
  REQUIRE(takt_router_create(&router_options, &router, nullptr) == TAKT_OK);
  std::size_t n = 0;
  CHECK(takt_router_take(router, inbox, 0, &n) == TAKT_OK);
  CHECK(n == 2);
  CHECK(takt_router_take(router, nullptr, 0, &n) == TAKT_E_NULL);
  CHECK(takt_router_destroy(router) == TAKT_OK);
  CHECK(takt_scheduler_destroy(scheduler) == TAKT_OK);
  CHECK(takt_inbox_destroy(inbox) == TAKT_OK);
}

TEST_CASE("an inbox copies the hashes of reports") {
  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  options.placement = "prefix";
  takt_router* router = nullptr;
  REQUIRE(takt_router_create(&options, &router, nullptr) == TAKT_OK);
  takt_inbox* inbox = nullptr;
  REQUIRE(takt_inbox_create(TAKT_INBOX_OF_ROUTER, 0, &inbox, nullptr) == TAKT_OK);
  takt_instance instance;
  takt_instance_init(&instance, sizeof instance);
  instance.id = 1;
  std::array<std::uint64_t, 3> hashes = {1, 2, 3};
  std::array<takt_event, 3> events{};
  events[0].type = TAKT_EVENT_INSTANCE_UP, events[0].u.instance_up = {&instance};
  events[1].type = TAKT_EVENT_KV_STORED, events[1].u.kv_stored = {1, hashes.data(), hashes.size(), 0};
  events[2].type = TAKT_EVENT_KV_REMOVED, events[2].u.kv_removed = {1, hashes.data() + 2, 1, 0};
  for (const takt_event& event : events) CHECK(takt_inbox_push(inbox, &event, nullptr) == TAKT_OK);
  hashes = {};  // before the router reads them
  CHECK(takt_router_take(router, inbox, 0, nullptr) == TAKT_OK);
  hashes = {1, 2, 3};
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = 7, request.prompt_tokens = 100;
  request.prefix_hashes = hashes.data(), request.n_prefix_hashes = 3, request.prefix_block_tokens = 16;
  const std::uint64_t id = 1;
  double score = 0;
  CHECK(takt_router_score(router, &request, &id, 1, 0, &score, nullptr) == TAKT_OK);
  CHECK(score == 32);
  events[1].u.kv_stored = {1, nullptr, 1, 0};
  CHECK(takt_inbox_push(inbox, &events[1], nullptr) == TAKT_E_NULL);
  CHECK(takt_router_on(router, &events[1], 1, 0) == TAKT_E_NULL);
  CHECK(takt_inbox_destroy(inbox) == TAKT_OK);
  CHECK(takt_router_destroy(router) == TAKT_OK);
}

}  // namespace
}  // namespace takt
