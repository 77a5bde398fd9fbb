// Plans, keys, placements and figures, which an embedder's own flags must not change. Prints a hash of each, and one of
// all. They are the same with every compiler, optimisation, processor and C library. docs/project/determinism.md
//
// same_plans exit 0; 77 if this processor lacks an instruction of this build
//   same_plans --log FILE      writes the log of a scheduler under a random host
// same_plans --replay FILE exit 1 if such a log, from any machine, replays to other plans
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/learning/latency_profile.h"
#include "takt/model/memory_time.h"
#include "takt/numeric/classification.h"
#include "takt/numeric/correlation.h"
#include "takt/rivals/gittins.h"
#include "takt/numeric/histogram.h"
#include "takt/learning/line_mds.h"
#include "takt/learning/quantile_sketch.h"
#include "takt/numeric/summary.h"
#include "takt/numeric/ttest.h"
#include "takt/numeric/two_sample.h"
#include "takt/learning/wasserstein.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/record.h"
#include "takt/rivals/rivals.h"
#include "takt/router.h"
#include "takt/scheduler.h"

namespace {

using namespace takt;

class Hash {
 public:
  void Add(std::uint64_t x) { sum_ = Mix64(sum_ ^ x); }
  void Add(std::int64_t x) { Add(static_cast<std::uint64_t>(x)); }
  void Add(std::int32_t x) { Add(std::int64_t{x}); }
  void Add(double x) { Add(std::bit_cast<std::uint64_t>(x)); }
  void Add(Duration x) { Add(std::int64_t{x.count()}); }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

const CostModel kCost{.layers = 32,
                      .hidden = 4096,
                      .tp = 2,
                      .pp = 2,
                      .gemm = {.offset_ms = 0.013, .floor_ms = 0.11, .slope_ms = 0.00031, .sharpness = 2.7},
                      .prefill = {.constant_ms = 0.011, .per_token_ms = 1.3e-5, .per_context_ms = 1.7e-8},
                      .decode = {.constant_ms = 0.007, .per_token_ms = 3.1e-4, .per_context_ms = 1.9e-7},
                      .head = {.offset_ms = 0.01, .floor_ms = 0.3, .slope_ms = 0.0021, .sharpness = 3.3},
                      .all_reduce = {.points = {{1000, 0.011}, {1e6, 0.037}, {1e8, 1.9}}},
                      .send_recv = {.points = {{1000, 0.017}, {1e7, 0.41}}},
                      .overhead_ms = 0.7,
                      .overhead_per_sample_ms = 0.003,
                      .kv_bytes_per_token = 131072};

// Requests of an agentic host with all fields that policies and placements read.
class Requests {
 public:
  explicit Requests(std::uint64_t seed) : random_(seed) {}

  Random& random() { return random_; }
  int Below(int n) { return static_cast<int>(random_.Below(static_cast<std::uint64_t>(n))); }

  Request Next(TimePoint now) {
    Request r{.id = {++last_}};
    r.arrival = now - FromSeconds(0.1 * random_.Uniform());
    if (random_.Chance(0.6)) {
      r.workflow = {1 + random_.Below(20)};
      r.workflow_arrival = r.arrival - FromSeconds(random_.Exponential());
    }
    r.stage = {random_.Below(4)}, r.agent = {random_.Below(5)}, r.tenant = {1 + random_.Below(3)};
    if (random_.Chance(0.7)) r.deadline = now + FromSeconds(random_.Gamma(0.7) * 3);
    r.prompt_tokens = {1 + Below(900)};
    if (random_.Chance(0.2)) r.max_output_tokens = {1 + Below(200)};
    if (random_.Chance(0.1)) r.sequences = 1 + Below(3);
    r.priority = Below(3);
    if (random_.Chance(0.8)) r.output_tokens = Guess(80);
    if (random_.Chance(0.6)) r.workflow_tokens_left = Guess(500);
    if (random_.Chance(0.5)) {
      const double calls = 1 + random_.Weibull(0.8), out = random_.LogNormal(4, 0.9);
      r.after = {calls, 311.7 * calls, out * calls, out * calls * 417.3, out * 1.3};
    }
    if (random_.Chance(0.4)) r.next_call = {{1 + random_.Below(3)}, {1 + Below(30)}, {Below(100)}, Time(0.4)};
    if (random_.Chance(0.5)) r.compute = Time(0.8);
    scores_.clear();
    for (std::uint64_t m = 1; m <= 3; ++m) {
      scores_.push_back({{m}, static_cast<float>(random_.Uniform()), static_cast<float>(900 * random_.Uniform())});
    }
    r.scores = scores_;
    return r;
  }

  Estimate Guess(double mean) {
    const double median = mean * random_.LogNormal(0, 0.8);
    return Estimate::LogNormal(median, 0.3 * random_.Uniform());
  }
  Duration Time(double mean) { return FromSeconds(mean * random_.Exponential()); }

  std::shared_ptr<const AgentRanks> Ranks() {
    auto ranks = std::make_shared<AgentRanks>();
    for (std::uint64_t a = 1; a < 5; ++a) {
      ranks->ranks.push_back({{a}, random_.Normal(), random_.Exponential(), Below(4)});
    }
    return ranks;
  }

 private:
  std::vector<ModelScore> scores_;  // of the last request
  Random random_;
  std::uint64_t last_ = 0;
};

void Add(Hash& hash, const StepPlan& plan) {
  for (const PlanEntry& e : plan.run) hash.Add(e.request.value), hash.Add(e.tokens), hash.Add(e.position);
  for (const KvMove& m : plan.moves) {
    hash.Add(m.request.value), hash.Add(m.first.value), hash.Add(m.count.value);
    hash.Add(static_cast<std::int32_t>(m.action));
  }
  for (const Preemption& p : plan.preempted) hash.Add(p.request.value), hash.Add(static_cast<std::int32_t>(p.action));
  for (const Failure& f : plan.failed) hash.Add(f.request.value), hash.Add(static_cast<std::int32_t>(f.reason));
  for (const RequestId id : plan.released) hash.Add(id.value);
  hash.Add(plan.tokens.value), hash.Add(static_cast<std::int32_t>(plan.idle));
  hash.Add(plan.wake_at.time_since_epoch());
}

// `steps` steps of one overloaded engine. Keys of some waiting requests are hashed, too.
std::uint64_t PlansOf(AnyPolicy policy, AnyPause pause, int steps, Recorder* recorder = nullptr) {
  const SchedulerOptions options{.preempt = PreemptMode::kByRank,
                                 .preempt_action = KvAction::kOut,
                                 .preempt_margin = 0.01,
                                 .kv_blocks = {700},
                                 .cpu_blocks = {300}};
  auto made = Recorded<Scheduler>::Create(recorder, options, std::move(policy), std::move(pause));
  if (!made.ok()) return 0;
  Recorded<Scheduler>& scheduler = *made;
  Requests requests(7);
  Hash hash;
  TimePoint now{};
  struct Away {
    RequestId request;
    TimePoint until;
    std::int32_t returned;
  };
  std::vector<Away> away;
  std::vector<MoveId> moves;
  std::vector<RowResult> rows;
  for (int step = 0; step < steps; ++step) {
    Random& random = requests.random();
    while (random.Chance(0.4)) scheduler.On(Arrived{requests.Next(now)}, now);
    if (step % 50 == 25) scheduler.On(Epoch{requests.Ranks(), random.Uniform()}, now);
    if (random.Chance(0.1)) scheduler.On(Cancelled{{1 + random.Below(static_cast<std::uint64_t>(step) + 1)}}, now);
    if (random.Chance(0.2)) {
      scheduler.On(Revised{.request = {1 + random.Below(static_cast<std::uint64_t>(step) + 1)},
                           .output_tokens = requests.Guess(60),
                           .deadline = now + requests.Time(2)},
                   now);
    }
    for (const MoveId move : moves) scheduler.On(MoveDone{move, random.Chance(0.02)}, now);
    std::erase_if(away, [&](const Away& a) {
      if (a.until > now) return false;
      scheduler.On(ToolReturned{a.request, {a.returned}}, now);
      return true;
    });

    const StepPlan& plan = scheduler.Plan(now, {.tokens = {512}, .max_seqs = 24, .swap_out = {60}, .swap_in = {60}});
    Add(hash, plan);
    for (int i = 0; i < 3; ++i) {
      const auto why = scheduler.scheduler().Explain({1 + random.Below(static_cast<std::uint64_t>(step) + 1)});
      hash.Add(why.key.key), hash.Add(why.ahead);
      for (const KeyPart& part : std::span(why.key_parts.parts).first(why.key_parts.size)) hash.Add(part.value);
    }
    moves.clear();
    for (const KvMove& move : plan.moves) moves.push_back(move.id);
    rows.clear();
    StepLoad load;
    std::vector<RequestId> call;
    for (const PlanEntry& e : plan.run) {
      if (e.prefill()) {
        load.AddPrefill(e.tokens, e.position, e.samples());
      } else {
        load.AddDecode(e.position);
      }
      RowResult row{.request = e.request, .lane = e.lane, .tokens = e.samples()};
      if (e.samples() && random.Chance(0.03)) row.flags = RowResult::kFinished;
      if (row.flags == 0 && e.samples() && random.Chance(0.02)) call.push_back(e.request);
      rows.push_back(row);
    }
    now += std::max(kCost.StepTime(load), Duration(1'000'000));
    scheduler.Commit({plan.id, rows}, now);
    for (const RequestId id : call) {
      const Duration took = requests.Time(0.5);
      scheduler.On(ToolCalled{id, requests.Time(0.5), {20}, {1 + random.Below(3)}}, now);
      away.push_back({id, now + took, requests.Below(200)});
    }
  }
  return hash.sum();
}

// Six unlike instances behind a router: placements and returned requests.
std::uint64_t PlacementsOf(AnyPlacement placement) {
  auto made = BasicRouter<AnyPolicy, AnyPlacement>::Create({.budgets = BudgetOptions{}}, MakePolicy("urgency").value(),
                                                           std::move(placement));
  if (!made.ok()) return 0;
  auto& router = *made;
  Requests requests(11);
  Hash hash;
  TimePoint now{};
  for (std::uint64_t i = 1; i <= 6; ++i) {
    CostModel cost = kCost;
    cost.overhead_ms *= static_cast<double>(i);
    cost.gemm.slope_ms *= Rounded(0.1 * static_cast<double>(i % 3)) + 1;
    router.On(InstanceUp{{.id = {i},
                          .profile = router.AddProfile({std::string(1, static_cast<char>('a' + i % 3)),
                                                        std::make_shared<PreparedCostModel>(cost, 1024, 64)}),
                          .kv_tokens = {30'000},
                          .capacity = 30,
                          .model = {1 + i % 3},
                          .token_s = 1e-4 * static_cast<double>(i)}},
              now);
  }
  router.On(Epoch{requests.Ranks(), 0.37}, now);
  std::vector<Placement> placed;
  for (int step = 0; step < 600; ++step) {
    Random& random = requests.random();
    now += requests.Time(0.02);
    while (random.Chance(0.5)) router.On(Arrived{requests.Next(now)}, now);
    for (const Placement& p : router.Place(now)) {
      hash.Add(p.request.value), hash.Add(p.instance.value);
      hash.Add(router.Find(p.request)->request.deadline.time_since_epoch());
      placed.push_back(p);
    }
    for (const Failure& f : router.failed()) hash.Add(f.request.value);
    if (!placed.empty() && random.Chance(0.7)) {
      const auto at = placed.begin() + static_cast<std::ptrdiff_t>(random.Below(placed.size()));
      router.On(RequestStarted{at->request, at->instance}, now);
      if (random.Chance(0.6)) {
        router.On(RequestEnded{at->request, at->instance}, now);
        placed.erase(at);
      }
    }
    const std::uint64_t instance = 1 + random.Below(6);
    router.On(InstanceReported{{instance}, {requests.Below(9), requests.Below(20), 0, {requests.Below(30'000)}}}, now);
  }
  return hash.sum();
}

// Other results of the headers: mathematics, models of cost and memory, learned values.
std::uint64_t Figures() {
  Hash hash;
  Random random(3);
  const MemoryPace pace = MemoryPace::From(kCost, 64, 900, 512);
  std::vector<double> a, b;
  for (int i = 0; i < 400; ++i) {
    a.push_back(random.LogNormal(1, 0.7)), b.push_back(random.Gamma(2.3)), b.back() *= random.Weibull(1.4);
    for (const double x : {random.Normal(), random.Exponential(), random.Gamma(0.4)}) hash.Add(x);
    const double x = a.back(), y = b.back();
    for (const double f : {exact::Log(x), exact::Log1p(x), exact::Log2(x), exact::Exp(x), exact::Exp2(-x),
                           exact::Expm1(y), exact::Pow(x, y), exact::Erfc(y)}) {
      hash.Add(f);
    }
    StepLoad load;
    load.AddPrefill(1 + static_cast<std::int64_t>(100 * x), static_cast<std::int64_t>(500 * y), true);
    load.AddDecode(static_cast<std::int64_t>(700 * y));
    hash.Add(kCost.StepTime(load)), hash.Add(kCost.SwapTime(load.tokens()));
    const MemoryBeside beside{.other_tokens = 3000 * x};
    hash.Add(WasteOfKeeping(700 * y, x)), hash.Add(WasteOfDropping(pace, beside, 1000 * y));
    hash.Add(WasteOfDroppingWhole(pace, beside, 1000 * y)), hash.Add(WasteOfSwapping(pace, beside, 1000 * y, 0.3));
    const MemorySegment segments[] = {{Rounded(90 * x), Rounded(40 * y), x, KvAction::kDrop},
                                      {Rounded(7 * x), Rounded(30 * y), y, KvAction::kOut},
                                      {x, y}};
    hash.Add(AreaOfMemory(pace, segments, Rounded(17 * x)));
  }
  const Moments of_a = Moments::Of(a), of_b = Moments::Of(b);
  const TTest t = WelchTest(of_a, of_b);
  hash.Add(t.t), hash.Add(t.freedom), hash.Add(t.p_greater), hash.Add(StudentQuantile(0.9, t.freedom));
  hash.Add(Correlation(a, b)), hash.Add(CrossEntropy(std::vector{0.2, 0.7}, std::vector<std::uint8_t>{0, 1}));
  QuantileSketch sketch(LogHistogram(0.01, 100, 64));
  sketch.Seed(40, 3.1, 1.7);
  for (const double x : a) sketch.Observe(x);
  double quantiles[5] = {};
  sketch.Quantiles(Estimate::kLevels, quantiles);
  for (const double q : quantiles) hash.Add(q);
  std::vector<float> curves;
  for (const double x : a) {
    for (int k = 0; k < 10; ++k) curves.push_back(static_cast<float>(x * (1 + Rounded(k * b[curves.size() / 40]))));
  }
  LineMds mds;
  mds.Fit(curves, 10, {.smacof_steps = 2});
  for (const double x : mds.coordinates()) hash.Add(x);
  hash.Add(mds.Place(std::span(curves).first(10))), hash.Add(mds.Stress());
  std::ranges::sort(a), std::ranges::sort(b);
  hash.Add(RankSumTest(a, b).p), hash.Add(KolmogorovSmirnovTest(a, b).p), hash.Add(FisherTail(1.3, 9, 40));
  hash.Add(Wasserstein1(a, b)), hash.Add(GittinsRank(a, b));
  for (const double p : {0.07, 0.5, 0.93}) hash.Add(QuantileOfSorted(a, p));
  return hash.sum();
}

AnyPause KeepAllOf() { return MakePause("infercept").value(); }

int Print() {
  Hash all;
  const auto print = [&all](std::string_view kind, std::string_view name, std::uint64_t hash) {
    std::printf("%.*s %.*s %016llx\n", static_cast<int>(kind.size()), kind.data(), static_cast<int>(name.size()),
                name.data(), static_cast<unsigned long long>(hash));
    all.Add(hash);
  };
  for (const PolicyInfo& info : PolicyInfos()) {
    std::string spec = info.name;
    if (spec == "aged") spec = "aged(room_to_pass,threshold=30)";
    if (spec == "metered") spec = "metered(stjf,rate=100)";
    print("policy", spec, PlansOf(MakePolicy(spec).value(), KeepAllOf(), 400));
  }
  for (const PauseInfo& info : PauseInfos()) {
    print("pause", info.name, PlansOf(MakePolicy("memory_integral").value(), MakePause(info.name).value(), 400));
  }
  for (const PlacementInfo& info : PlacementInfos()) {
    print("placement", info.name, PlacementsOf(MakePlacement(info.name).value()));
  }
  print("figures", "of the headers", Figures());
  std::printf("all %016llx\n", static_cast<unsigned long long>(all.sum()));
  return 0;
}

int WriteLog(const char* path) {
  Recorder recorder;
  PlansOf(MakePolicy("room_to_pass").value(), KeepAllOf(), 2000, &recorder);
  std::ofstream(path, std::ios::binary) << recorder.bytes();
  std::printf("%zu bytes\n", recorder.bytes().size());
  return 0;
}

int ReplayFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto replay = ReplayLog(bytes);
  if (!replay.ok()) {
    std::printf("%s\n", replay.status().ToString().c_str());
    return 1;
  }
  std::printf("%lld plans\n", static_cast<long long>(replay->plans));
  if (replay->difference) std::printf("differs: %s\n", replay->difference->what.c_str());
  return replay->difference || replay->plans == 0 ? 1 : 0;
}

bool CanRunHere() {
#if defined(__FMA__) && (defined(__x86_64__) || defined(__i386__))
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (!CanRunHere()) {
    std::printf("skipped: this processor has no FMA\n");
    return 77;
  }
  if (!RegisterRivals().ok()) return 1;
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what == "--log") return WriteLog(argv[2]);
  if (what == "--replay") return ReplayFile(argv[2]);
  return argc == 1 ? Print() : 2;
}
