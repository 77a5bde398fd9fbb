// Measures the C interface's cost beyond C++, in turns in one run, each against its limit.
//
//   abi_bench [--rounds N] [facts] [steps] [keys] [order] [oracle]
//
// Each line compares blocks of the same work, run in turns: the median over the rounds, with the tenth and ninetieth
// percentiles in brackets. A difference or ratio compares the two blocks of one round. The exit code is 0 even if
// limits are missed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "counting_new.h"
#include "step_hosts.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "takt/queue/ranker.h"
#include "takt/queue/waiting_queue.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::duration<double, std::nano>;

int rounds = 300;
int missed = 0;

// ---- the C side with the calls of C++ -------------------------------------------------------------------------------

void Must(takt_status status) {
  if (status == TAKT_OK) return;
  std::fprintf(stderr, "abi_bench: %s\n", takt_status_name(status));
  std::exit(1);
}

std::int64_t Ns(TimePoint t) { return t.time_since_epoch().count(); }

takt_limits InC(const StepLimits& l) {
  return {sizeof(takt_limits), l.tokens.value,   l.max_seqs,      l.prefill_tokens.value, l.chunk_tokens.value,
          l.adapters,          l.swap_out.value, l.swap_in.value, l.chunk_align.value};
}

// A request that a C host keeps and refills for each arrival, as the C++ hosts here do.
class RequestInC {
 public:
  RequestInC() { takt_request_init(&request_, sizeof request_); }

  const takt_request* Of(const Request& r) {
    request_.id = r.id.value, request_.workflow = r.workflow.value;
    request_.prompt_tokens = r.prompt_tokens.value;
    request_.output_tokens.mean = r.output_tokens.mean;
    std::ranges::copy(r.output_tokens.quantiles, request_.output_tokens.quantiles);
    request_.compute = r.compute.count(), request_.deadline = Ns(r.deadline);
    return &request_;
  }

 private:
  takt_request request_;
};

// A C++ scheduler whose policy is chosen at run time, as in C.
Scheduler InCxx(int running, std::int64_t waiting, const char* policy) {
  return *Scheduler::Create(
      {.max_running = running, .reserve_requests = running + waiting + 64, .kv_blocks = {1 << 20}},
      *MakePolicy(policy));
}

struct PlanInC {
  StepId id;
  std::span<const PlanEntry> run;
};

// The same through C.
class CallsInC {
 public:
  CallsInC(int running, std::int64_t waiting, const char* policy) : entries_(static_cast<std::size_t>(running)) {
    takt_scheduler_options options;
    takt_scheduler_options_init(&options, sizeof options);
    options.max_running = running, options.reserve_requests = running + waiting + 64, options.kv_blocks = 1 << 20;
    options.policy = policy;
    takt_scheduler* scheduler = nullptr;
    Must(takt_scheduler_create(&options, &scheduler, nullptr));
    scheduler_.reset(scheduler);
    plan_.struct_size = sizeof plan_;
  }

  void On(const Arrived& e, TimePoint now) {
    takt_event event{};
    event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = request_.Of(e.request);
    takt_scheduler_on(scheduler_.get(), &event, 1, Ns(now));
  }
  void On(const Cancelled& e, TimePoint now) {
    takt_event event{};
    event.type = TAKT_EVENT_CANCELLED, event.u.request = e.request.value;
    takt_scheduler_on(scheduler_.get(), &event, 1, Ns(now));
  }
  const PlanInC& Plan(TimePoint now, const StepLimits& limits) {
    const takt_limits l = InC(limits);
    takt_scheduler_plan(scheduler_.get(), Ns(now), &l, &plan_);
    return Told(plan_.run);
  }
  void Commit(const StepResult& result, TimePoint now) {
    takt_scheduler_commit(scheduler_.get(), result.step.value, Rows(result), result.rows.size(), Flags(result),
                          Ns(now));
  }

 protected:
  // `copy`: the entries are copied into an array of the host.
  const PlanInC& CommitAndPlan(const StepResult& result, TimePoint now, const StepLimits& limits, bool copy) {
    const takt_limits l = InC(limits);
    takt_scheduler_step(scheduler_.get(), result.step.value, Rows(result), result.rows.size(), Flags(result), Ns(now),
                        &l, &plan_, copy ? entries_.data() : nullptr, entries_.size());
    return Told(copy ? entries_.data() : plan_.run);
  }

 private:
  static const takt_row_result* Rows(const StepResult& result) {
    return reinterpret_cast<const takt_row_result*>(result.rows.data());
  }
  static std::uint32_t Flags(const StepResult& result) { return result.rest_as_planned ? TAKT_REST_AS_PLANNED : 0; }
  const PlanInC& Told(const takt_plan_entry* run) {
    told_ = {{plan_.id}, {reinterpret_cast<const PlanEntry*>(run), plan_.n_run}};
    return told_;
  }

  struct Destroy {
    void operator()(takt_scheduler* scheduler) const { takt_scheduler_destroy(scheduler); }
  };
  std::unique_ptr<takt_scheduler, Destroy> scheduler_;
  takt_plan plan_{};
  std::vector<takt_plan_entry> entries_;
  PlanInC told_;
  RequestInC request_;
};

template <bool kCopy>
class OneCallInC : public CallsInC {
 public:
  using CallsInC::CallsInC;
  const PlanInC& Step(const StepResult& result, TimePoint now, const StepLimits& limits) {
    return CommitAndPlan(result, now, limits, kCopy);
  }
};

// ---- measuring ------------------------------------------------------------------------------------------------------

// One block of work: nanoseconds per operation.
using Block = std::function<double()>;

struct Spread {
  double low, median, high;
};
Spread SpreadOf(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&](double share) { return samples[static_cast<std::size_t>(share * double(samples.size() - 1))]; };
  return {at(0.1), at(0.5), at(0.9)};
}

struct Measured {
  std::vector<std::vector<double>> samples;  // of each block, by round
  std::vector<std::size_t> allocated;

  Spread Of(std::size_t block) const { return SpreadOf(samples[block]); }
  Spread Beyond(std::size_t a, std::size_t b) const {
    std::vector<double> d;
    for (std::size_t i = 0; i < samples[a].size(); ++i) d.push_back(samples[a][i] - samples[b][i]);
    return SpreadOf(std::move(d));
  }
  Spread Ratio(std::size_t a, std::size_t b) const {
    std::vector<double> d;
    for (std::size_t i = 0; i < samples[a].size(); ++i) d.push_back(samples[a][i] / samples[b][i]);
    return SpreadOf(std::move(d));
  }
};

// Blocks in turns; each round starts with another one.
Measured InTurns(const std::vector<Block>& blocks) {
  const std::size_t n = blocks.size();
  Measured m;
  m.samples.resize(n), m.allocated.resize(n);
  for (auto& samples : m.samples) samples.resize(static_cast<std::size_t>(rounds));
  for (int warm_up = 0; warm_up < 5; ++warm_up) {
    for (const Block& block : blocks) block();
  }
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    for (std::size_t turn = 0; turn < n; ++turn) {
      const std::size_t i = (round + turn) % n;
      const std::size_t before = allocations;
      m.samples[i][round] = blocks[i]();
      m.allocated[i] += allocations - before;
    }
  }
  return m;
}

void Print(const char* what, Spread s, const char* unit) {
  const int digits = *unit == '\0' ? 3 : 1;
  std::printf("  %-34s %9.*f %-3s [%.*f .. %.*f]", what, digits, s.median, unit, digits, s.low, digits, s.high);
}
void Line(const char* what, const Measured& m, std::size_t block) {
  Print(what, m.Of(block), "ns");
  std::printf("  %zu allocations\n", m.allocated[block]);
}
void Judge(const char* what, Spread s, const char* unit, double bar) {
  Print(what, s, unit);
  std::printf("  bar %g: %s\n", bar, s.median <= bar ? "met" : "MISSED");
  if (s.median > bar) ++missed;
}
void JudgeAllocations(const Measured& m, std::size_t block) {
  if (m.allocated[block] == 0) return;
  std::printf("  allocations after warm-up: MISSED\n");
  ++missed;
}

double Each(Clock::time_point start, std::size_t n) {
  return Nanoseconds(Clock::now() - start).count() / static_cast<double>(n);
}

// ---- facts ----------------------------------------------------------------------------------------------------------

// Requests arrive and are cancelled while 10,000 others wait.
template <class SchedulerT>
class Facts {
 public:
  static constexpr std::size_t kBlock = 64;
  static constexpr std::uint64_t kWaiting = 10'000;

  explicit Facts(SchedulerT scheduler) : scheduler_(std::move(scheduler)) {
    for (std::uint64_t i = 0; i < kWaiting; ++i) Arrive();
  }

  double Arrivals() { return Both().first; }
  double Cancellations() { return Both().second; }

 private:
  std::pair<double, double> Both() {
    auto start = Clock::now();
    for (std::size_t i = 0; i < kBlock; ++i) Arrive();
    const double arrivals = Each(start, kBlock);
    start = Clock::now();
    for (std::size_t i = 0; i < kBlock; ++i) scheduler_.On(Cancelled{{last_id_ - i}}, now_);
    const double cancellations = Each(start, kBlock);
    scheduler_.Plan(now_ += Duration(1'000'000), {.tokens = {0}});  // forgets them
    return {arrivals, cancellations};
  }

  void Arrive() {
    event_.request.id = {++last_id_};
    event_.request.prompt_tokens = {32};
    event_.request.output_tokens = Estimate::Exact(static_cast<double>(1 + random_.Below(1'000'000)));
    scheduler_.On(event_, now_);
  }

  SchedulerT scheduler_;
  Arrived event_;
  Random random_{1};
  std::uint64_t last_id_ = 0;
  TimePoint now_{};
};

void MeasureFacts() {
  Facts cxx(InCxx(256, Facts<Scheduler>::kWaiting, "sjf"));
  Facts c(CallsInC(256, Facts<Scheduler>::kWaiting, "sjf"));
  const Measured m = InTurns({[&] { return cxx.Arrivals(); }, [&] { return c.Arrivals(); },
                              [&] { return cxx.Cancellations(); }, [&] { return c.Cancellations(); }});
  std::printf("\na fact; 10,000 wait\n");
  for (const std::size_t of : {0u, 2u}) {
    std::printf(" %s\n", of == 0 ? "arrived" : "cancelled");
    Line("C++", m, of), Line("C", m, of + 1);
    Judge("C beyond C++", m.Beyond(of + 1, of), "ns", 100);
    JudgeAllocations(m, of + 1);
  }
}

// ---- steps ----------------------------------------------------------------------------------------------------------

template <class HostT>
Block Steps(HostT& host, std::size_t n) {
  for (int i = 0; i < 2000; ++i) host.CommitAndPlan();
  return [&host, n] {
    Nanoseconds took{0};
    for (std::size_t i = 0; i < n; ++i) took += host.CommitAndPlan();
    return took.count() / static_cast<double>(n);
  };
}

void MeasureSteps(int running, std::int64_t waiting, const char* policy, bool by_exception = false) {
  ChurnHost cxx(InCxx(running, waiting, policy), running, waiting, by_exception);
  ChurnHost calls(CallsInC(running, waiting, policy), running, waiting, by_exception);
  ChurnHost fused(OneCallInC<false>(running, waiting, policy), running, waiting, by_exception);
  ChurnHost copied(OneCallInC<true>(running, waiting, policy), running, waiting, by_exception);
  const Measured m = InTurns({Steps(cxx, 100), Steps(calls, 100), Steps(fused, 100), Steps(copied, 100)});
  std::printf("\nresults%s and the next plan; %d run with churn, %lld wait, %s\n", by_exception ? " by exception" : "",
              running, static_cast<long long>(waiting), policy);
  Line("C++: Commit, Plan", m, 0), Line("C: commit, plan", m, 1);
  Line("C: step", m, 2), Line("C: step, run copied", m, 3);
  Judge("C: commit, plan beyond C++", m.Beyond(1, 0), "ns", 100);
  Judge("C: step beyond C++", m.Beyond(2, 0), "ns", 100);
  if (running == 256) {
    Judge("C: step over C++", m.Ratio(2, 0), "", 1.05);
    Judge("C: step, run copied, over C++", m.Ratio(3, 0), "", 1.05);
  }
  for (const std::size_t block : {1u, 2u, 3u}) JudgeAllocations(m, block);
}

// ---- the key of one request -----------------------------------------------------------------------------------------

void MeasureKeys(const char* policy) {
  constexpr std::size_t kRequests = 64, kRepeats = 8;
  std::vector<Request> requests(kRequests);
  std::vector<takt_request> in_c(kRequests);
  Random random(1);
  for (std::size_t i = 0; i < kRequests; ++i) {
    requests[i].id = {i + 1};
    requests[i].prompt_tokens = {32};
    requests[i].output_tokens = Estimate::Exact(static_cast<double>(1 + random.Below(1'000'000)));
    RequestInC filled;
    in_c[i] = *filled.Of(requests[i]);
  }
  Ranker<AnyPolicy> cxx(*MakePolicy(policy));
  takt_ranker* made = nullptr;
  Must(takt_ranker_create(policy, nullptr, &made, nullptr));
  std::vector<double> keys(kRequests);
  const auto all = [&](auto&& work) -> Block {
    return [work] {
      const auto start = Clock::now();
      for (std::size_t repeat = 0; repeat < kRepeats; ++repeat) work();
      return Each(start, kRequests * kRepeats);
    };
  };
  const Measured m = InTurns({
      all([&] {
        for (std::size_t i = 0; i < kRequests; ++i) keys[i] = cxx.Key(requests[i], TimePoint{});
      }),
      all([&] {
        for (std::size_t i = 0; i < kRequests; ++i)
          Must(takt_ranker_keys(made, &in_c[i], 1, sizeof in_c[i], 0, &keys[i]));
      }),
      all([&] { Must(takt_ranker_keys(made, in_c.data(), kRequests, sizeof in_c[0], 0, keys.data())); }),
  });
  const bool fixed = (takt_ranker_traits(made) & TAKT_TRAIT_FIXED) != 0;
  std::printf("\nthe key of a request, %s (%s)\n", policy, fixed ? "fixed" : "not fixed: no bar");
  for (const std::size_t block : {0u, 1u, 2u}) {
    constexpr std::array<const char*, 3> kNames = {"C++", "C, one a call", "C, 64 a call"};
    if (fixed) {
      Judge(kNames[block], m.Of(block), "ns", 60);
    } else {
      Line(kNames[block], m, block);
    }
  }
  JudgeAllocations(m, 1), JudgeAllocations(m, 2);
  takt_ranker_destroy(made);
}

// ---- the order alone ------------------------------------------------------------------------------------------------

class QueueInCxx {
 public:
  QueueInCxx(const char* policy, std::size_t reserve) : queue_(*MakePolicy(policy), reserve) {}

  void Push(const Request& request, std::int64_t now) { queue_.Push(request, At(now)); }
  void Erase(std::uint64_t id) { queue_.Erase({id}); }
  void Begin(std::int64_t now) { queue_.Begin(At(now)); }
  std::uint64_t Take() {
    const RequestId top = queue_.Top();
    queue_.Take(top);
    return top.value;
  }
  void End(std::span<const std::uint64_t> ids, std::int64_t now) {
    for (std::size_t i = 0; i < ids.size(); ++i) ran_[i] = {{ids[i]}, {32}, {1}};
    queue_.End({ran_.data(), ids.size()}, At(now));
  }

 private:
  static TimePoint At(std::int64_t ns) { return TimePoint(Duration(ns)); }

  AnyWaitingQueue queue_;
  std::array<AnyWaitingQueue::Ran, 8> ran_;
};

class QueueInC {
 public:
  QueueInC(const char* policy, std::size_t reserve) {
    takt_queue_options options;
    takt_queue_options_init(&options, sizeof options);
    options.policy = policy, options.reserve_requests = static_cast<std::int64_t>(reserve);
    Must(takt_queue_create(&options, &queue_, nullptr));
  }
  QueueInC(const QueueInC&) = delete;
  QueueInC& operator=(const QueueInC&) = delete;
  ~QueueInC() { takt_queue_destroy(queue_); }

  void Push(const Request& request, std::int64_t now) { takt_queue_push(queue_, request_.Of(request), now); }
  void Erase(std::uint64_t id) { takt_queue_erase(queue_, id); }
  void Begin(std::int64_t now) { takt_queue_begin(queue_, now); }
  std::uint64_t Take() {
    std::uint64_t top = 0;
    takt_queue_top(queue_, &top);
    takt_queue_take(queue_, top);
    return top;
  }
  void End(std::span<const std::uint64_t> ids, std::int64_t now) {
    for (std::size_t i = 0; i < ids.size(); ++i) ran_[i] = {ids[i], 32, 1};
    takt_queue_end(queue_, ran_.data(), ids.size(), nullptr, now, nullptr);
  }

 private:
  takt_queue* queue_ = nullptr;
  std::array<takt_ran, 8> ran_;
  RequestInC request_;
};

// Takes 8 waiting requests at each iteration; they end, and as many arrive. By deadline all wait equally long. Their
// turns do not follow arrival, so that their data has left the caches. By length, recent arrivals go first, except the
// longest, which stay.
template <class QueueT>
class OrderHost {
 public:
  OrderHost(const char* policy, std::size_t waiting) : queue_(policy, waiting + 64), waiting_(waiting) {
    for (std::size_t i = 0; i < waiting; ++i) Arrive();
  }

  std::size_t waiting() const { return waiting_; }

  // Time of the iteration.
  Nanoseconds Iterate() {
    now_ += kIteration;
    const auto start = Clock::now();
    queue_.Begin(now_);
    for (std::uint64_t& id : taken_) id = queue_.Take();
    queue_.End(taken_, now_);
    const Nanoseconds took = Clock::now() - start;
    for (const std::uint64_t id : taken_) queue_.Erase(id), Arrive();
    return took;
  }

 private:
  void Arrive() {
    request_.id = {++last_id_};
    request_.workflow = {1 + last_id_ / 3};
    request_.prompt_tokens = {32};
    request_.output_tokens = Estimate::Exact(static_cast<double>(1 + random_.Below(1'000'000)));
    const auto slack = static_cast<std::int64_t>(random_.Below(2 * waiting_ / 8 * kIteration));
    request_.deadline = TimePoint(Duration(now_ + slack));
    queue_.Push(request_, now_);
  }

  static constexpr std::int64_t kIteration = 1'000'000;

  QueueT queue_;
  std::size_t waiting_;
  std::array<std::uint64_t, 8> taken_{};
  Request request_;
  Random random_{1};
  std::uint64_t last_id_ = 0;
  std::int64_t now_ = 0;
};

// The first iterations of a block load the queue into the caches again, since a host has one queue.
template <class HostT>
Block Iterations(HostT& host) {
  for (std::size_t i = 0; i < host.waiting(); ++i) host.Iterate();  // by now the set of waiting lengths has settled
  return [&host] {
    constexpr int kFirst = 100, kBlock = 200;
    for (int i = 0; i < kFirst; ++i) host.Iterate();
    Nanoseconds took{0};
    for (int i = 0; i < kBlock; ++i) took += host.Iterate();
    return took.count() / kBlock;
  };
}

void MeasureOrder(const char* policy, std::size_t waiting) {
  OrderHost<QueueInCxx> cxx(policy, waiting);
  OrderHost<QueueInC> c(policy, waiting);
  const Measured m = InTurns({Iterations(cxx), Iterations(c)});
  std::printf("\nan iteration of the order alone: begin, 8 takes, end; %zu wait, %s\n", waiting, policy);
  Line("C++", m, 0);
  Judge("C", m.Of(1), "ns", 3000);
  Print("C beyond C++, of 18 calls", m.Beyond(1, 0), "ns");
  std::printf("\n");
  JudgeAllocations(m, 1);
}

// ---- memory that the host counts ------------------------------------------------------------------------------------

void MeasureOracle() {
  constexpr std::array<std::int32_t, 7> kRows = {64, 128, 256, 512, 1024, 2048, 4096};
  EndlessMemory memory;
  std::vector<std::unique_ptr<GrowthHost<Scheduler>>> hosts;
  std::vector<Block> blocks;
  for (const std::int32_t rows : kRows) {
    auto scheduler = Scheduler::Create({.max_running = rows, .reserve_requests = 2 * rows, .kv = KvMode::kOracle},
                                       *MakePolicy("fcfs"), {}, &memory);
    auto& host = hosts.emplace_back(std::make_unique<GrowthHost<Scheduler>>(*std::move(scheduler), rows));
    for (int i = 0; i < 50; ++i) host->Step();
    blocks.push_back([&host = *host] {
      constexpr int kBlock = 10;
      Nanoseconds took{0};
      for (int i = 0; i < kBlock; ++i) took += host.Step();
      return took.count() / kBlock;
    });
  }
  const Measured m = InTurns(blocks);
  std::printf("\na plan in which every row asks the host's memory for a block\n");
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    Print((std::to_string(kRows[i]) + " rows").c_str(), m.Of(i), "ns");
    std::printf("  %.2f ns a row\n", m.Of(i).median / kRows[i]);
  }
  // Exponent of time as a power of rows, from 256 on, by least squares: 1 is linear, 2 quadratic.
  std::vector<double> powers;
  for (std::size_t round = 0; round < m.samples[0].size(); ++round) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (std::size_t i = 2; i < kRows.size(); ++i) {
      const double lx = std::log(kRows[i]), ly = std::log(m.samples[i][round]);
      n += 1, x += lx, y += ly, xx += lx * lx, xy += lx * ly;
    }
    powers.push_back((n * xy - x * y) / (n * xx - x * x));
  }
  Judge("time grows with rows to the power", SpreadOf(powers), "", 1.1);
}

int Main(const std::vector<std::string>& args) {
  std::vector<std::string> sections;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--rounds" && i + 1 < args.size()) {
      rounds = std::max(std::atoi(args[++i].c_str()), 10);
    } else {
      sections.push_back(args[i]);
    }
  }
  const auto wanted = [&](const char* section) {
    return sections.empty() || std::ranges::find(sections, section) != sections.end();
  };
  double load[1] = {0};
  getloadavg(load, 1);
  std::printf("takt %s, %d rounds; medians [tenth .. ninetieth of 100]; load of the machine %.1f\n", takt_version(),
              rounds, load[0]);
  if (wanted("facts")) MeasureFacts();
  if (wanted("steps")) {
    MeasureSteps(1, 1'000, "sjf");
    for (const std::int64_t waiting : {1'000, 10'000}) MeasureSteps(256, waiting, "sjf");
    MeasureSteps(256, 10'000, "room_to_pass");
    MeasureSteps(256, 10'000, "sjf", true);
  }
  if (wanted("keys")) {
    for (const char* policy : {"fcfs", "sjf", "urgency", "room_to_pass"}) MeasureKeys(policy);
  }
  if (wanted("order")) {
    for (const std::size_t waiting : {1'000u, 10'000u, 100'000u}) MeasureOrder("edf", waiting);
    for (const char* policy : {"fcfs", "sjf"}) MeasureOrder(policy, 100'000);
  }
  if (wanted("oracle")) MeasureOracle();
  std::printf("\n%d bars missed\n", missed);
  return 0;
}

}  // namespace
}  // namespace takt

int main(int argc, char** argv) { return takt::Main({argv + 1, argv + argc}); }
