// Threads with separate handles are independent: each gets the same answers as a single thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

// Answers to one thread, in order.
class Answers {
 public:
  void Add(std::uint64_t x) { hash_ = Mix64(hash_ ^ x); }
  void Must(takt_status status) { failed_ |= status != TAKT_OK; }
  std::uint64_t hash() const { return failed_ ? 0 : hash_; }

 private:
  std::uint64_t hash_ = 1;
  bool failed_ = false;
};

takt_request RequestOf(std::uint64_t id, Random& random) {
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = id, request.tenant = random.Below(3);
  request.prompt_tokens = static_cast<std::int32_t>(1 + random.Below(100));
  request.output_tokens.mean = static_cast<double>(random.Below(300));
  return request;
}

// Serves requests by a scheduler that is recorded, and replays the log.
void Serve(Random& random, const char* policy, Answers& answers) {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  std::string log;
  options.policy = policy, options.pause = "infercept", options.kv_blocks = 64, options.max_running = 8;
  options.record = [](void* to, const void* bytes, std::size_t n) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), n);
  };
  options.record_context = &log;
  takt_scheduler* scheduler = nullptr;
  answers.Must(takt_scheduler_create(&options, &scheduler, nullptr));
  auto plan = Sized<takt_plan>();
  std::vector<takt_row_result> rows;
  for (std::uint64_t step = 1; step <= 100; ++step) {
    const auto now = static_cast<std::int64_t>(step) * 1000;
    const takt_request request = RequestOf(step, random);
    takt_event event{};
    event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
    answers.Must(takt_scheduler_on(scheduler, &event, 1, now));
    const std::uint64_t ran = rows.empty() ? 0 : plan.id;
    answers.Must(takt_scheduler_step(scheduler, ran, rows.data(), rows.size(), 0, now, nullptr, &plan, nullptr, 0));
    rows.clear();
    for (const takt_plan_entry& e : std::span(plan.run, plan.n_run)) {
      answers.Add(e.request ^ static_cast<std::uint64_t>(e.tokens));
      const bool samples = (e.flags & TAKT_ENTRY_SAMPLES) != 0;
      const bool ends = samples && random.Below(8) == 0;
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(samples), 0, static_cast<std::uint8_t>(ends)});
    }
  }
  answers.Must(takt_scheduler_flush(scheduler));
  answers.Must(takt_scheduler_destroy(scheduler));
  auto report = Sized<takt_replay_report>();
  answers.Must(takt_replay(log.data(), log.size(), &report, nullptr, 0, nullptr));
  answers.Add(static_cast<std::uint64_t>(report.plans_compared) + report.differs);
}

// Orders requests by a queue and by keys.
void Order(Random& random, const char* policy, Answers& answers) {
  takt_queue_options options;
  takt_queue_options_init(&options, sizeof options);
  options.policy = policy;
  takt_queue* queue = nullptr;
  takt_ranker* ranker = nullptr;
  answers.Must(takt_queue_create(&options, &queue, nullptr));
  answers.Must(takt_ranker_create(policy, nullptr, &ranker, nullptr));
  for (std::uint64_t id = 1; id <= 200; ++id) {
    const takt_request request = RequestOf(id, random);
    answers.Must(takt_queue_push(queue, &request, static_cast<std::int64_t>(id)));
    double key = 0;
    answers.Must(takt_ranker_keys(ranker, &request, 1, sizeof request, 0, &key));
    answers.Add(static_cast<std::uint64_t>(static_cast<std::int64_t>(key * 16)));
  }
  std::uint64_t top = 0;
  for (std::int64_t now = 1000; takt_queue_size(queue) > 0; ++now) {
    answers.Must(takt_queue_begin(queue, now));
    takt_queue_top(queue, &top);
    answers.Add(top);
    const takt_ran ran = {top, 1, 1};
    answers.Must(takt_queue_end(queue, &ran, 1, nullptr, now, nullptr));
    answers.Must(takt_queue_erase(queue, top));
  }
  answers.Must(takt_ranker_destroy(ranker));
  answers.Must(takt_queue_destroy(queue));
}

// Places requests among three instances.
void Place(Random& random, Answers& answers) {
  takt_router_options options;
  takt_router_options_init(&options, sizeof options);
  options.placement = "workload_balance";
  takt_router* router = nullptr;
  answers.Must(takt_router_create(&options, &router, nullptr));
  auto routing = Sized<takt_routing>();
  for (std::uint64_t id = 1; id <= 100; ++id) {
    takt_instance instance;
    takt_instance_init(&instance, sizeof instance);
    instance.id = id, instance.kv_tokens = 1000;
    const takt_request request = RequestOf(id, random);
    std::array<takt_event, 2> events{};
    events[0].type = TAKT_EVENT_ARRIVED, events[0].u.arrived.request = &request;
    events[1].type = TAKT_EVENT_INSTANCE_UP, events[1].u.instance_up.instance = &instance;
    answers.Must(takt_router_on(router, events.data(), id <= 3 ? 2 : 1, static_cast<std::int64_t>(id)));
    answers.Must(takt_router_place(router, static_cast<std::int64_t>(id), &routing));
    for (const takt_placement& p : std::span(routing.placed, routing.n_placed))
      answers.Add(p.request ^ p.instance << 32);
  }
  answers.Must(takt_router_destroy(router));
}

std::uint64_t AnswersOf(std::uint64_t seed) {
  constexpr std::array<const char*, 4> kPolicies = {"fcfs", "aged(sjf,threshold=4)", "fair_share", "room_to_pass"};
  Random random(seed);
  Answers answers;
  const char* policy = kPolicies[seed % kPolicies.size()];
  Serve(random, policy, answers), Order(random, policy, answers), Place(random, answers);
  return answers.hash();
}

TEST_CASE("threads with handles of their own get the same answers as alone") {
  constexpr std::size_t kThreads = 4, kRepeats = 5;
  std::array<std::uint64_t, kThreads> alone{};
  for (std::size_t t = 0; t < kThreads; ++t) alone[t] = AnswersOf(t);
  std::array<bool, kThreads> same{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      same[t] = alone[t] != 0;
      for (std::size_t i = 0; i < kRepeats; ++i) same[t] = same[t] && AnswersOf(t) == alone[t];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool s : same) CHECK(s);
  CHECK(alone[0] != alone[1]);
}

}  // namespace
}  // namespace takt
