// Through C, too, nothing is allocated after warm-up, and a creation that runs out of memory leaks nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "counting_new.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

// Serves 32 requests at once. Each end makes room for another request.
class Host {
 public:
  explicit Host(const takt_key* key = nullptr) {
    takt_scheduler_options options;
    takt_scheduler_options_init(&options, sizeof options);
    options.key = key;
    options.kv_blocks = 4096, options.max_running = 16, options.reserve_requests = 256;
    REQUIRE(takt_scheduler_create(&options, &scheduler_, nullptr) == TAKT_OK);
    run_.resize(16), rows_.resize(16);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { takt_scheduler_destroy(scheduler_); }

  void Step() {
    for (; arrived_ - released_ < 32; ++arrived_) {
      takt_request request;
      takt_request_init(&request, sizeof request);
      request.id = arrived_ + 1, request.prompt_tokens = 40;
      takt_event event{};
      event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
      takt_scheduler_on(scheduler_, &event, 1, now_);
    }
    takt_scheduler_step(scheduler_, step_, rows_.data(), n_, 0, now_ += 1000, nullptr, &plan_, run_.data(),
                        run_.size());
    released_ += plan_.n_released;
    n_ = plan_.n_run, step_ = n_ > 0 ? plan_.id : 0;
    for (std::size_t i = 0; i < n_; ++i) {
      const takt_plan_entry& entry = run_[i];
      const bool ends = entry.position + entry.tokens > 60;
      rows_[i] = {entry.request, entry.lane, static_cast<std::uint16_t>(entry.flags & TAKT_ENTRY_SAMPLES ? 1 : 0), 0,
                  static_cast<std::uint8_t>(ends ? TAKT_ROW_FINISHED : 0)};
    }
  }

  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t released() const { return released_; }

 private:
  takt_scheduler* scheduler_ = nullptr;
  takt_plan plan_ = Sized<takt_plan>();
  std::vector<takt_plan_entry> run_;
  std::vector<takt_row_result> rows_;
  std::size_t n_ = 0;
  std::uint64_t step_ = 0, arrived_ = 0, released_ = 0;
  std::int64_t now_ = 0;
};

TEST_CASE("nothing is allocated after warm-up") {
  Host host;
  for (int i = 0; i < 200; ++i) host.Step();
  const std::size_t before = allocations;
  for (int i = 0; i < 2000; ++i) host.Step();
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(before > 0);
  CHECK(host.released() > 1000);
}

TEST_CASE("a host's own key is read at arrival and by no step") {
  std::uint64_t calls = 0;
  takt_key key;
  takt_key_init(&key, sizeof key);
  key.name = "counted", key.context = &calls;
  key.key = [](void* context, const takt_request_state* state) {
    ++*static_cast<std::uint64_t*>(context);
    return -static_cast<double>(state->request->id);
  };
  Host host(&key);
  for (int i = 0; i < 200; ++i) host.Step();
  const std::size_t before = allocations;
  for (int i = 0; i < 2000; ++i) host.Step();
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(host.released() > 1000);
  CHECK(calls == host.arrived());
}

TEST_CASE("a name that has an id costs no allocation") {
  takt_ids* ids = nullptr;
  REQUIRE(takt_ids_create(100, 0, &ids, nullptr) == TAKT_OK);
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("request-of-a-client-with-a-long-name-" + std::to_string(i));
  std::uint64_t id = 0, sum = 0;
  const auto ask = [&] {
    for (const std::string& name : names) takt_ids_of(ids, name.data(), name.size(), &id), sum += id;
  };
  const std::size_t start = allocations;
  ask();
  const std::size_t before = allocations;
  ask(), ask();
  const std::size_t after = allocations;
  CHECK(before >= start + 100);
  CHECK(after == before);
  CHECK(sum == 3 * 5050);
  CHECK(takt_ids_destroy(ids) == TAKT_OK);
}

// Lets each allocation of `make` fail in turn, until it needs no more.
template <class F>
void FailEach(F&& make) {
  takt_status status = TAKT_E_NOMEM;
  std::size_t n = 0;
  for (; status != TAKT_OK && n < 10'000; ++n) {
    takt_error error;
    takt_error_init(&error, sizeof error);
    watched_allocations = 0, failing = n + 1, watched = true;
    status = make(&error);
    watched = false;
    if (status != TAKT_OK && (status != TAKT_E_NOMEM || error.code != TAKT_E_NOMEM)) FAIL(n << ": " << error.text);
  }
  CHECK(status == TAKT_OK);
  CHECK(n > 2);
}

TEST_CASE("a creation that runs out of memory fails cleanly") {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.kv_blocks = 64, options.policy = "aged(stjf,threshold=100)", options.pause = "infercept";
  options.max_running = 4, options.reserve_requests = 8;
  FailEach([&](takt_error* error) {
    takt_scheduler* scheduler = nullptr;
    const takt_status status = takt_scheduler_create(&options, &scheduler, error);
    takt_scheduler_destroy(scheduler);
    return status;
  });
  options.prefix_cache = 1;
  FailEach([&](takt_error* error) {
    takt_scheduler* scheduler = nullptr;
    takt_status status = takt_scheduler_create(&options, &scheduler, error);
    if (status == TAKT_OK) status = takt_scheduler_set_retention(scheduler, "hold_value", "price", 0.1, 1, error);
    takt_scheduler_destroy(scheduler);
    return status;
  });
  FailEach([&](takt_error* error) {
    takt_ids* ids = nullptr;
    const takt_status status = takt_ids_create(8, 0, &ids, error);
    takt_ids_destroy(ids);
    return status;
  });
  takt_router_options router_options;
  takt_router_options_init(&router_options, sizeof router_options);
  router_options.reserve_requests = 8;
  FailEach([&](takt_error* error) {
    takt_router* router = nullptr;
    const takt_status status = takt_router_create(&router_options, &router, error);
    takt_router_destroy(router);
    return status;
  });
}

}  // namespace
}  // namespace takt
