// ltr, mlfq and autellix: the published algorithms, step by step against calculations by hand. mlfq also runs against a
// model that scans all requests.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "scheduler/host.h"
#include "takt/base/random.h"
#include "takt/policy/aged.h"
#include "takt/rivals/policy/autellix.h"
#include "takt/rivals/policy/ltr.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/queue/rank_queue.h"
#include "takt/policy/registry.h"
#include "takt/queue/waiting_queue.h"
#include "with_rivals.h"

namespace takt {
namespace {

using Ids = std::vector<std::uint64_t>;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A queue with its waiting and taken requests: slot i holds request i + 1.
template <class P>
class Bench {
 public:
  explicit Bench(P policy) : queue(std::move(policy)) {}

  RequestState& Arrive(Request request, double now) {
    const auto slot = static_cast<Slot>(states_.size());
    RequestState& r = states_.emplace_back();
    r.request = std::move(request);
    r.request.id = {slot + 1};
    r.request.arrival = r.request.workflow_arrival = At(now);
    r.slot = slot;
    Join(slot + 1, now);
    return r;
  }
  void Join(std::uint64_t id, double now) {
    Of(id).enqueued = At(now);
    queue.Push(Of(id).slot, Of(id), At(now));
  }
  void Pick(std::uint64_t id) { queue.Erase(Of(id).slot); }
  bool Runs(std::uint64_t id, std::int32_t prefill, std::int32_t output) {
    return queue.Scheduled(Of(id), {prefill}, {output});
  }
  void End(std::uint64_t id, double now) { queue.Forget(Of(id).slot, Of(id), At(now)); }
  Ids Order(double now) {
    queue.BeginPlan(At(now), [this](Slot slot) -> const RequestState& { return states_[slot]; });
    Ids ids;
    queue.TopK(states_.size(), [&](Slot slot) { ids.push_back(slot + std::uint64_t{1}); });
    return ids;
  }
  void PlanEnds(double now) { queue.ReportPressure({WaitsFor::kSequences, {}, {}}, At(now)); }
  RequestState& Of(std::uint64_t id) { return states_[id - 1]; }

  internal::RankQueue<P> queue;

 private:
  std::deque<RequestState> states_;
};

Request Predicted(double tokens) {
  Request r;
  r.output_tokens = Estimate::Exact(tokens);
  return r;
}

// ---- ltr ---------------------------------------------------------------------------------------------------------

TEST_CASE("ltr ranks by buckets of 10 tokens, then by arrival") {
  Bench<Ltr> b(Ltr{});
  for (const double tokens : {99.0, 19.0, 12.0, 20.0, 10.0, 9.9}) b.Arrive(Predicted(tokens), 1);
  CHECK(b.Order(2) == Ids{6, 2, 3, 5, 4, 1});
  Bench<Ltr> coarse(Ltr({.bucket = 820}));
  for (const double tokens : {819.0, 1.0, 820.0, 5.0}) coarse.Arrive(Predicted(tokens), 1);
  CHECK(coarse.Order(2) == Ids{1, 2, 4, 3});
  Bench<Ltr> exact(Ltr({.bucket = 0}));
  for (const double tokens : {19.0, 18.5, 18.25}) exact.Arrive(Predicted(tokens), 1);
  CHECK(exact.Order(2) == Ids{3, 2, 1});
}

TEST_CASE("ltr scores a request once, at its first prediction") {
  Bench<Ltr> b(Ltr({.bucket = 10, .unknown = 55}));
  b.Arrive(Predicted(40), 1);
  b.Arrive({}, 2);
  b.Arrive(Predicted(60), 3);
  CHECK(b.Order(4) == Ids{1, 2, 3});
  const auto revise = [&](std::uint64_t id, double tokens) {
    b.Of(id).request.output_tokens = Estimate::Exact(tokens);
    b.queue.Update(b.Of(id).slot, b.Of(id), At(4));
  };
  revise(1, 900), revise(3, 1);
  CHECK(b.Order(4) == Ids{1, 2, 3});
  revise(2, 10);
  CHECK(b.Order(4) == Ids{2, 1, 3});
  revise(2, 1000);
  CHECK(b.Order(4) == Ids{2, 1, 3});

  // Another request takes its slot.
  b.Pick(1), b.End(1, 5);
  b.Of(1).request.id = {77};
  b.Of(1).request.output_tokens = Estimate::Exact(500);
  b.Join(1, 5);
  CHECK(b.Order(5) == Ids{2, 3, 1});
}

TEST_CASE("ltr, aged, ranks starving requests first by LTR's counts") {
  const AnyPolicy policy = *MakePolicy("aged(ltr,threshold=200,quantum=10)");
  Bench<AnyPolicy> b(policy);
  b.Arrive(Predicted(1000), 0);
  for (int plan = 0; plan < 200; ++plan) {
    b.Arrive(Predicted(1), 1);
    CHECK(b.Order(1).front() == 2);
    b.queue.EndPlan(true);
  }
  CHECK(b.Order(1).front() == 1);
}

// ---- mlfq --------------------------------------------------------------------------------------------------------

// A decode step takes 4 ms, a token of prompt 1 ms; the quanta are 10, 20, 40 ms.
Mlfq Feedback(Mlfq::Options options = {}) {
  Mlfq policy(options);
  policy.pace = {.decode_s = 0.004, .forward_s = 0.001};
  return policy;
}

Request Long(std::int32_t prompt) {
  Request r;
  r.prompt_tokens = {prompt};
  return r;
}

TEST_CASE("mlfq admits arrivals to the first level that fits their prefill") {
  Bench<Mlfq> b(Feedback());
  const std::vector<std::pair<std::int32_t, int>> prompts = {{1, 0}, {10, 0}, {11, 1}, {20, 1}, {21, 2}, {5000, 9}};
  for (const auto& [prompt, level] : prompts) CHECK(b.queue.policy().level(b.Arrive(Long(prompt), 0)) == level);
  Bench<Mlfq> plain(Feedback({.skip_join = false}));
  CHECK(plain.queue.policy().level(plain.Arrive(Long(5000), 0)) == 0);
  Bench<Mlfq> deepest(Feedback({.base = 1e-9, .ratio = 1}));
  CHECK(deepest.queue.policy().level(deepest.Arrive(Long(5000), 0)) == 63);
}

TEST_CASE("mlfq moves a request after its quantum to the next level's front") {
  Bench<Mlfq> b(Feedback());
  b.Arrive(Long(6), 0);
  b.Arrive(Long(15), 0.001);  // level 1
  b.Arrive(Long(2), 0.002);
  CHECK(b.Order(0.003) == Ids{1, 3, 2});
  b.Pick(1);
  CHECK(b.Runs(1, 6, 1));  // 6 ms: it runs, so it is the first of its level
  CHECK_FALSE(b.Runs(1, 0, 1));  // 10 ms: at most the quantum
  b.Join(1, 0.01);
  CHECK(b.Order(0.01) == Ids{1, 3, 2});
  b.Pick(1);
  CHECK(b.Runs(1, 0, 1));  // 14 ms
  b.Join(1, 0.02);
  CHECK(b.queue.policy().level(b.Of(1)) == 1);
  CHECK(b.Order(0.02) == Ids{3, 1, 2});
  b.Pick(1);
  for (int i = 0; i < 5; ++i) CHECK(b.Runs(1, 0, 1) == (i == 0));  // 20 ms of 20
  CHECK(b.Runs(1, 0, 3));  // drafts and sequences are one step
  CHECK(b.queue.policy().level(b.Of(1)) == 2);
  b.Join(1, 0.03);
  CHECK(b.Order(0.03) == Ids{3, 2, 1});
  // A prefill in chunks takes the same time as a whole one.
  b.Pick(2);
  for (int i = 0; i < 15; ++i) b.Runs(2, 1, i == 14);
  CHECK(b.queue.policy().level(b.Of(2)) == 1);
}

TEST_CASE("mlfq moves requests to the front after three seconds of waiting") {
  Bench<Mlfq> b(Feedback());
  b.Arrive(Long(3000), 0);
  b.Arrive(Long(2000), 0.5);
  b.Arrive(Long(1), 2.9);
  CHECK(b.Order(2.99) == Ids{3, 2, 1});
  CHECK(b.Order(3) == Ids{1, 3, 2});
  CHECK(b.queue.policy().level(b.Of(1)) == -1);
  CHECK(b.Order(3.5) == Ids{1, 2, 3});
  // It starts at level 0 again, with a new wait.
  b.Pick(1);
  CHECK(b.Runs(1, 5, 0));
  CHECK(b.queue.policy().level(b.Of(1)) == 0);
  b.Join(1, 3.6);
  CHECK(b.Order(5.8) == Ids{2, 1, 3});
  b.Pick(2);
  CHECK(b.Runs(2, 11, 0));
  b.Join(2, 5.85);
  CHECK(b.queue.policy().level(b.Of(2)) == 1);
  CHECK(b.Order(6.59) == Ids{3, 1, 2});  // 3 has starved since 5.9
  CHECK(b.Order(6.6) == Ids{1, 3, 2});
  // One is revised when it is due, and one becomes known to the policy late.
  b.queue.Update(b.Of(2).slot, b.Of(2), At(8.9));
  CHECK(b.queue.policy().level(b.Of(2)) == -1);
  Bench<AnyPolicy> late(Feedback());
  late.Arrive(Long(3000), 0);
  late.Arrive(Long(1), 5);
  const std::vector<RequestState> states = {late.Of(1), late.Of(2)};
  late.queue.ChangePolicy(Feedback(), At(5), [&](Slot slot) -> const RequestState& { return states[slot]; });
  CHECK(late.Order(5) == Ids{1, 2});
}

// The published queues are lists. The front of the first non-empty one is taken. All waiting requests are scanned.
class NaiveMlfq {
 public:
  void Arrive(std::uint64_t id, std::int32_t prompt, TimePoint now) {
    int level = 0;
    while (Quantum(level) < 0.001 * prompt) ++level;
    requests_[id] = {level, 0, 0, now};
    levels_[level].push_back(id);
  }
  void Erase(std::uint64_t id) {
    std::erase(starved_, id);
    for (auto& [level, queue] : levels_) std::erase(queue, id);
    requests_.erase(id);
  }
  Ids Order(TimePoint now) {
    for (auto& [id, r] : requests_) {
      if (std::ranges::find(starved_, id) != starved_.end() || now - r.since < std::chrono::seconds(3)) continue;
      std::erase(levels_[r.level], id);
      r = {0, 0, 0, r.since};
      starved_.push_back(id);
    }
    std::ranges::sort(starved_);  // ids rise with arrivals
    Ids all = starved_;
    for (const auto& [level, queue] : levels_) all.insert(all.end(), queue.begin(), queue.end());
    return all;
  }
  void Ran(std::uint64_t id, std::int32_t prefill, std::int32_t output, TimePoint now) {
    Naive& r = requests_.at(id);
    std::erase(starved_, id);
    std::erase(levels_[r.level], id);
    r.prefill += prefill;
    r.decodes += prefill == 0 && output > 0 ? 1 : 0;
    if (0.001 * r.prefill + 0.004 * r.decodes > Quantum(r.level)) r.prefill = r.decodes = 0, ++r.level;
    levels_[r.level].push_front(id);
    r.since = now;
  }
  std::int64_t starved() const { return std::ssize(starved_); }
  int deepest() const { return levels_.empty() ? 0 : levels_.rbegin()->first; }

 private:
  struct Naive {
    int level = 0, prefill = 0, decodes = 0;
    TimePoint since{};
  };
  static double Quantum(int level) {
    double quantum = 0.01;
    while (level-- > 0) quantum *= 2;
    return quantum;
  }
  std::map<std::uint64_t, Naive> requests_;
  std::map<int, std::deque<std::uint64_t>> levels_;
  Ids starved_;
};

TEST_CASE("mlfq equals the published queues under random hosts") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(40)); ++seed) {
    Random random(seed);
    WaitingQueue<Mlfq> queue(Feedback());
    NaiveMlfq naive;
    std::map<std::uint64_t, std::int32_t> to_prefill;
    std::vector<RequestId> order, picked;
    std::uint64_t ids = 0;
    std::int64_t starved = 0;
    int deepest = 0;
    TimePoint now{};
    const double pace = seed % 2 == 0 ? 0.5 : 0.05;  // [s]
    for (int step = 0; step < 500; ++step) {
      now += Duration(1) + FromSeconds(random.Uniform() * pace);
      while (to_prefill.size() < 3 || (to_prefill.size() < 30 && random.Chance(0.6))) {
        now += Duration(1);
        const auto prompt = static_cast<std::int32_t>(1 + random.Below(random.Chance(0.2) ? 300 : 20));
        to_prefill[++ids] = prompt;
        Request r = Long(prompt);
        r.id = {ids};
        REQUIRE(queue.Push(r, now) == QueueResult::kDone);
        naive.Arrive(ids, prompt, now);
      }
      if (random.Chance(0.1)) {
        const auto victim = std::next(to_prefill.begin(), static_cast<std::ptrdiff_t>(random.Below(to_prefill.size())));
        REQUIRE(queue.Erase({victim->first}) == QueueResult::kDone);
        naive.Erase(victim->first);
        to_prefill.erase(victim);
      }
      if (random.Chance(0.2)) {
        queue.Revise({.request = {to_prefill.begin()->first}, .output_tokens = Estimate::Exact(3)}, now);
      }
      queue.Begin(now);
      order.resize(queue.size());
      REQUIRE(queue.List(order) == order.size());
      Ids seen;
      for (const RequestId id : order) seen.push_back(id.value);
      REQUIRE(seen == naive.Order(now));

      // Requests taken beyond the batch get their places back.
      const std::size_t runs = random.Below(order.size() + 1);
      const std::size_t taken = runs + (order.size() - runs) / (1 + static_cast<std::size_t>(step) % 3);
      for (std::size_t i = 0; i < taken; ++i) {
        REQUIRE(queue.Top() == order[i]);
        REQUIRE(queue.Take(order[i]) == QueueResult::kDone);
      }
      picked.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(runs));
      std::vector<WaitingQueue<Mlfq>::Ran> ran;
      for (const RequestId id : picked) ran.push_back({id});
      queue.End(ran, now);
      now += Duration(1);
      for (const RequestId id : picked) {
        std::int32_t& left = to_prefill.at(id.value);
        const std::int32_t prefill = std::min(left, static_cast<std::int32_t>(1 + random.Below(40)));
        left -= prefill;
        const std::int32_t output = left == 0 ? 1 : 0;
        REQUIRE(queue.Computed({id, {prefill}, {output}}) == QueueResult::kDone);
        naive.Ran(id.value, prefill, output, now);
        if (output > 0 && random.Chance(0.02)) {
          REQUIRE(queue.Erase(id) == QueueResult::kDone);
          naive.Erase(id.value);
          to_prefill.erase(id.value);
        } else {
          REQUIRE(queue.Requeue(id, now) == QueueResult::kDone);
        }
      }
      starved += naive.starved();
      deepest = std::max(deepest, naive.deepest());
    }
    CHECK(deepest > 2);
    if (pace > 0.1) CHECK(starved > 0);
  }
}

using testing::Host;
using testing::Prompt;

SchedulerOptions ByRank() {
  SchedulerOptions options;
  options.kv_blocks = {100};
  options.preempt = PreemptMode::kByRank;
  options.preempt_margin = 0.5;
  return options;
}

TEST_CASE("mlfq preempts a running request after its quantum") {
  Host<Mlfq> host(ByRank(), {.tokens = {64}, .max_seqs = 1}, Feedback());
  host.Arrive(1, 6);
  CHECK(host.Step() == "1:6");  // 6 ms
  host.Arrive(2, 4);
  CHECK(host.Step() == "1:1");  // 10 ms
  CHECK(host.Step() == "1:1");  // 14 ms: level 1
  CHECK(host.Step() == "2:4");  // 4 ms
  CHECK(host.scheduler.stats().preempted_by_rank == 1);
  CHECK(host.Step() == "2:1");
  CHECK(host.Step() == "2:1");  // 12 ms: level 1, before request 1
  for (int i = 0; i < 6; ++i) CHECK(host.Step() == "2:1");  // 24 ms: level 2
  CHECK(host.Step() == "1:9");  // recomputed: 9 ms
  CHECK(host.scheduler.stats().preempted_by_rank == 2);
  host.Arrive(3, 15);  // level 1, behind the running request there
  for (int i = 0; i < 3; ++i) CHECK(host.Step() == "1:1");  // 21 ms: level 2
  CHECK(host.Step() == "3:15");
  CHECK(host.Step({3}) == "3:1");
  CHECK(host.Step({1}) == "1:13");  // it joined the front of level 2 after request 2
  CHECK(host.Step({2}) == "2:13");
}

// ---- autellix ----------------------------------------------------------------------------------------------------

// A decode step takes a second, as do ten tokens of prompt. Queues end at 2, 4, 8 s; quanta are 1, 2, 4 s.
Autellix Programs(Autellix::Options options = {}) {
  Autellix policy(options);
  policy.pace = {.decode_s = 1, .forward_s = 0.1};
  return policy;
}

Request Part(std::uint64_t workflow) {
  Request r;
  r.workflow = {workflow};
  return r;
}

TEST_CASE("autellix starts a call at its program's level and demotes by quanta") {
  Bench<Autellix> b(Programs());
  const auto queue = [&](std::uint64_t id) { return b.queue.policy().queue(b.Of(id)); };
  b.Arrive(Part(7), 0);
  CHECK(queue(1) == 0);
  b.PlanEnds(0.5);
  b.Pick(1);
  CHECK_FALSE(b.Runs(1, 5, 1));  // 0.5 s
  CHECK(b.Runs(1, 0, 1));  // 1.5 s
  CHECK(queue(1) == 1);
  CHECK_FALSE(b.Runs(1, 0, 1));
  CHECK(b.Runs(1, 0, 1));  // 2 s more
  CHECK(queue(1) == 2);
  b.End(1, 20);
  CHECK(b.queue.policy().ServiceAndWait({7}) == std::pair{3.5, 0.5});

  b.Arrive(Part(7), 100);  // in the queue of 2 to 4 s
  b.Arrive(Part(8), 101);
  b.Arrive(Part(7), 102);
  b.Arrive({}, 103);
  CHECK(queue(2) == 1);
  CHECK(b.Order(104) == Ids{3, 5, 2, 4});
}

TEST_CASE("autellix adds up service in PLAS, the longest chain in ATLAS") {
  for (const bool chain : {false, true}) {
    Bench<Autellix> b(Programs({.service = chain ? ProgramService::kAtlas : ProgramService::kPlas}));
    b.Arrive(Part(7), 0), b.Arrive(Part(7), 0);
    for (int i = 0; i < 5; ++i) b.Runs(1, 0, 1);
    for (int i = 0; i < 3; ++i) b.Runs(2, 0, 1);
    b.Pick(1), b.End(1, 10);
    b.Pick(2), b.End(2, 10);
    CHECK(b.queue.policy().ServiceAndWait({7}).first == (chain ? 5 : 8));
    b.Arrive(Part(7), 11);
    CHECK(b.queue.policy().queue(b.Of(3)) == (chain ? 2 : 3));
    for (int i = 0; i < 4; ++i) b.Runs(3, 0, 1);
    b.Pick(3), b.End(3, 20);
    CHECK(b.queue.policy().ServiceAndWait({7}).first == (chain ? 9 : 12));
  }
}

TEST_CASE("autellix ranks a program first after waiting beta times its service") {
  Bench<Autellix> b(Programs());
  b.Arrive(Part(7), 0);
  b.PlanEnds(0.5);
  b.Pick(1), b.Runs(1, 5, 0);
  for (int i = 0; i < 3; ++i) b.Runs(1, 0, 1);
  b.End(1, 4);  // service 3.5, wait 0.5
  b.Arrive(Part(7), 100);
  b.Arrive(Part(9), 120);
  CHECK(b.Order(127.4) == Ids{3, 2});
  CHECK(b.Order(127.5) == Ids{2, 3});  // 0.5 + 27.5 = 8 * 3.5
  b.PlanEnds(128);
  b.Pick(2);
  CHECK(b.Runs(2, 0, 1));  // the quantum of the first queue
  b.End(2, 130);
  CHECK(b.queue.policy().ServiceAndWait({7}) == std::pair{4.5, 1.0});

  // It is preempted and waits on. Its service and wait before count.
  b.Arrive(Part(7), 200);  // 4.5 s: the third queue
  b.PlanEnds(210);
  b.Pick(4);
  for (int i = 0; i < 2; ++i) b.Runs(4, 0, 1);
  b.Join(4, 220);  // 8 * (4.5 + 2) = 1 + 10 + 41
  CHECK(b.Order(260.9) == Ids{3, 4});
  CHECK(b.Order(261) == Ids{3, 4});  // request 3 came first
  CHECK(b.queue.policy().queue(b.Of(4)) == 0);
  b.Pick(3), b.Pick(4);
  b.End(3, 262), b.End(4, 262);  // cancelled before it ran again
  CHECK(b.queue.policy().ServiceAndWait({7}) == std::pair{4.5, 2.0});
}

TEST_CASE("autellix remembers the last programs at rest") {
  Bench<Autellix> b(Programs({.programs = 2}));
  for (std::uint64_t i = 1; i <= 5; ++i) b.Arrive(Part(i), 0), b.Runs(i, 0, 1);
  CHECK(b.queue.policy().remembered() == 5);
  for (const std::uint64_t id : {2u, 1u, 4u, 3u}) b.Pick(id), b.End(id, 1);
  CHECK(b.queue.policy().remembered() == 3);
  for (const auto& [program, service] : {std::pair{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 0}}) {
    CHECK(b.queue.policy().ServiceAndWait({static_cast<std::uint64_t>(program)}).first == service);
  }
  b.Arrive(Part(4), 2);  // alive again, so another is forgotten next
  b.Pick(5), b.End(5, 3);
  CHECK(b.queue.policy().ServiceAndWait({4}).first == 1);
  CHECK(b.queue.policy().ServiceAndWait({3}).first == 1);
  b.Arrive(Part(9), 4);
  b.Pick(7), b.End(7, 4);
  CHECK(b.queue.policy().ServiceAndWait({3}).first == 0);
  CHECK(b.queue.policy().ServiceAndWait({5}).first == 1);
  Bench<Autellix> none(Programs({.programs = 0}));
  none.Arrive(Part(1), 0), none.Runs(1, 0, 1), none.Pick(1), none.End(1, 1);
  CHECK(none.queue.policy().remembered() == 0);
}

TEST_CASE("autellix preempts a running call whose program had its share") {
  Host<Autellix> host(ByRank(), {.tokens = {64}, .max_seqs = 1}, Programs());
  const auto arrive = [&](std::uint64_t id, std::uint64_t workflow) {
    Request r = Prompt(id, 5);
    r.workflow = {workflow};
    host.Arrive(r);
  };
  arrive(1, 7);
  CHECK(host.Step() == "1:5");  // 0.5 s
  arrive(2, 8);
  CHECK(host.Step() == "1:1");  // 1.5 s: the second queue
  CHECK(host.Step() == "2:5");
  CHECK(host.Step({2}) == "2:1");  // program 8: 1.5 s
  CHECK(host.Step({1}) == "1:7");
  CHECK(host.scheduler.policy().ServiceAndWait({7}).first == Approx(1.5 + 0.7));
  arrive(3, 7);
  CHECK(host.Step() == "3:5");  // the second queue
  arrive(4, 8);
  CHECK(host.Step({4}) == "4:5");
  CHECK(host.Step({3}) == "3:6");
  CHECK(host.scheduler.stats().preempted_by_rank == 2);
}

TEST_CASE("queue parameters are part of the spec") {
  for (const char* spec : {"ltr(bucket=820)", "mlfq(base=0.02,ratio=3,starvation=10,skip_join=false)",
                           "autellix(service=atlas,queues=3,beta=2,programs=7)", "aged(ltr,threshold=200)"}) {
    const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec);
    REQUIRE(policy.ok());
    CHECK(policy->spec() == spec);
  }
  for (const char* wrong :
       {"ltr(bucket=x)", "ltr(bucket=-1)", "mlfq(base=0)", "mlfq(ratio=0.5)", "mlfq(starvation=nan)",
        "autellix(service=best)", "autellix(queues=0)", "autellix(programs=-1)"}) {
    CHECK_FALSE(MakePolicy(wrong).ok());
  }
}

}  // namespace
}  // namespace takt
