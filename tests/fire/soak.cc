// takt_soak: one scheduler under hours of simulated load. Its host keeps no data of requests that have ended.
// docs/project/testing.md
//
//   takt_soak [--hours H] [--rate R] [--seed S]     default: 24 hours at 10,000 requests/s
//
// Every arrival must end exactly once. Every redundant count must agree with a recount each simulated minute. Memory
// must not grow after a tenth of the time. Exits with 1 if a check fails. The hash covers all plans.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/policy/sjf.h"
#include "takt/scheduler.h"

namespace {

using namespace takt;

using ShortestFirst = BasicScheduler<Sjf, AnyPause>;

struct Settings {
  double hours = 24;
  double rate = 10'000;  // mean rate, requests/s
  std::uint64_t seed = 1;
};

[[noreturn]] void Fail(const char* what, std::uint64_t which) {
  std::printf("%s (%llu)\n", what, static_cast<unsigned long long>(which));
  std::exit(1);
}

std::int64_t ResidentBytes() {
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// An engine of steady steps. It can serve 1.15 times the mean rate and receives 1.5 times the mean rate for a third of
// each minute. The queue therefore grows to sixty thousand and empties again. Most outputs are short, so that there are
// many requests. The shortest requests go first and displace longer running requests.
class Soak {
 public:
  explicit Soak(const Settings& settings)
      : settings_(settings),
        random_(settings.seed),
        limits_{.tokens = {static_cast<std::int32_t>(kServed * settings.rate * kStepS * (kMeanPrompt + kMeanOutput))},
                .max_seqs = static_cast<std::int32_t>(20 + 0.2 * settings.rate),
                .swap_out = {64},
                .swap_in = {64}},
        scheduler_(ShortestFirst::Create({.max_running = kRows,
                                          .max_waiting = 200'000,
                                          .reserve_requests = 1 << 18,
                                          .preempt = PreemptMode::kByRank,
                                          .preempt_action = KvAction::kOut,
                                          .preempt_margin = 4,
                                          .kv_blocks = {static_cast<std::int32_t>(100 + 0.7 * settings.rate)},
                                          .cpu_blocks = {4096},
                                          .kv_watermark = 0,
                                          .prefix_cache = true})
                       .value()),
        alive_(kMostAlive) {
    for (std::uint64_t i = 0; i < 64; ++i) {
      std::vector<std::uint64_t>& hashes = prefixes_.emplace_back();
      for (std::uint64_t k = 0; k < 1 + i % 3; ++k) hashes.push_back(Mix64(i * 8 + k));
    }
  }

  void Run() {
    const TimePoint end{FromSeconds(settings_.hours * 3600)};
    const TimePoint warm = TimePoint(end.time_since_epoch() / 10);
    std::int64_t resident_warm = 0, next_check = 0;
    double owed = 0;
    for (; now_ < end; Step()) {
      const double minute = ToSeconds(now_ - TimePoint()) - 60 * static_cast<double>(next_check - 1);
      owed += settings_.rate * kStepS * (minute < 20 ? 1.5 : 0.75);
      for (; owed >= 1; --owed) Arrive();
      if (now_.time_since_epoch() >= std::chrono::minutes(next_check)) {
        Check();
        if (next_check > 0 && next_check % 60 == 0) {
          std::printf("hour %lld: %llu requests, %.1f MiB\n", static_cast<long long>(next_check / 60), Number(last_),
                      MiB(ResidentBytes()));
          std::fflush(stdout);
        }
        ++next_check;
      }
      if (resident_warm == 0 && now_ >= warm) resident_warm = ResidentBytes();
    }
    const std::int64_t resident = ResidentBytes();
    for (int quiet = 0; scheduler_.alive() > 0; ++quiet) {
      if (quiet > 100'000) Fail("live requests do not end", static_cast<std::uint64_t>(scheduler_.alive()));
      Step();
    }
    Step();  // names the last released requests
    Check();
    if (released_ != last_) Fail("arrivals and ends differ", last_ - released_);
    if (scheduler_.kv().used.value != 0) Fail("KV blocks without a holder", 0);
    const Stats& stats = scheduler_.stats();
    std::printf("%llu requests, %llu plans, hash %016llx\n", Number(last_), Number(plans_), Number(hash_));
    std::printf(
        "finished or cancelled %llu, failed %llu (expired %llu, shed %llu), preempted %llu, moves %llu, tool calls "
        "%llu\n",
        Number(released_ - failed_), Number(failed_), Number(stats.failed_expired), Number(stats.failed_shed),
        Number(preempted_), Number(moved_), Number(called_));
    std::printf("most waiting %lld, most running %lld\n", static_cast<long long>(most_waiting_),
                static_cast<long long>(most_running_));
    std::printf("resident %.1f MiB at 10 %% of the time, %.1f MiB at its end\n", MiB(resident_warm), MiB(resident));
    if (settings_.hours >= 0.1 && resident > resident_warm + resident_warm / 20 + (4 << 20)) {
      Fail("memory grew", static_cast<std::uint64_t>(resident - resident_warm));
    }
  }

 private:
  static constexpr double kStepS = 0.02, kServed = 1.15;
  static constexpr std::int32_t kRows = 4096, kMeanPrompt = 40, kMeanOutput = 8;
  static constexpr std::size_t kMostAlive = 1 << 20;

  struct Living {
    std::uint64_t id = 0;  // none
    std::int32_t left = 0;  // output tokens
    bool calls = false;  // a tool call half way
  };
  struct Return {
    TimePoint at;
    std::uint64_t id;
    bool operator>(const Return& other) const { return std::pair(at, id) > std::pair(other.at, other.id); }
  };

  static double MiB(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }
  static unsigned long long Number(std::uint64_t x) { return x; }
  std::int32_t Below(std::int32_t n) { return static_cast<std::int32_t>(random_.Below(static_cast<std::uint64_t>(n))); }
  void Hash(std::uint64_t x) { hash_ = (hash_ ^ x) * 0x9e3779b97f4a7c15u, hash_ ^= hash_ >> 32; }
  Living& At(std::uint64_t id) { return alive_[id % kMostAlive]; }
  Living& Expect(std::uint64_t id) {
    if (At(id).id != id) Fail("a plan names a request that has ended", id);
    return At(id);
  }

  void Arrive() {
    const std::uint64_t id = ++last_;
    if (At(id).id != 0) Fail("alive for a million arrivals", At(id).id);
    const std::int32_t output = random_.Chance(0.01) ? 50 + Below(150) : 1 + Below(2 * kMeanOutput - 1);
    At(id) = {id, output, random_.Chance(0.01)};
    Request r{.id = {id}, .prompt_tokens = {1 + Below(2 * kMeanPrompt - 1)}, .max_output_tokens = {200}};
    if (random_.Chance(0.3)) r.workflow = {1 + id / 100 * 40 + random_.Below(40)};
    r.tenant = {1 + random_.Below(8)};
    if (random_.Chance(0.8)) r.output_tokens = Estimate::Exact(1 + Below(2 * output));
    if (random_.Chance(0.2)) r.deadline = now_ + FromSeconds(10 * random_.Uniform());
    if (random_.Chance(0.05)) r.expires_at = now_ + FromSeconds(5 * random_.Uniform());
    if (random_.Chance(0.25)) r.prefix = {{16}, prefixes_[random_.Below(prefixes_.size())]};
    scheduler_.On(Arrived{std::move(r)}, now_);
    // A request of about the last second; many of these have ended.
    if (random_.Chance(0.02)) scheduler_.On(Cancelled{{id - std::min(id - 1, random_.Below(10'000))}}, now_);
  }

  void Step() {
    for (; !returns_.empty() && returns_.top().at <= now_; returns_.pop()) {
      scheduler_.On(ToolReturned{{returns_.top().id}, {Below(20)}}, now_);
    }
    const StepPlan& plan = scheduler_.Plan(now_, limits_);
    ++plans_;
    rows_.clear();
    for (const PlanEntry& e : plan.run) {
      Hash(e.request.value ^ static_cast<std::uint64_t>(e.tokens) << 48);
      Living& r = Expect(e.request.value);
      RowResult row{.request = e.request, .lane = e.lane, .tokens = e.samples()};
      if (e.samples() && --r.left <= 0) row.flags = RowResult::kFinished;
      rows_.push_back(row);
      if (r.calls && e.samples() && r.left > 0) calls_.push_back(e.request), r.calls = false;
    }
    for (const Preemption& p : plan.preempted) Hash(p.request.value), ++preempted_;
    for (const Failure& f : plan.failed) Hash(f.request.value), Expect(f.request.value).left = 0, ++failed_;
    for (const RequestId id : plan.released) Hash(id.value), Expect(id.value) = {}, ++released_;
    moves_.assign(plan.moves.begin(), plan.moves.end());
    moved_ += moves_.size();
    most_waiting_ = std::max(most_waiting_, scheduler_.waiting());
    most_running_ = std::max(most_running_, scheduler_.running());
    now_ += FromSeconds(kStepS);
    if (!plan.run.empty()) scheduler_.Commit({plan.id, rows_}, now_);
    for (const KvMove& move : moves_) scheduler_.On(MoveDone{move.id}, now_);
    for (const RequestId id : calls_) {
      scheduler_.On(ToolCalled{.request = id, .expected = FromSeconds(0.5)}, now_);
      returns_.push({now_ + FromSeconds(random_.Exponential()), id.value});
      ++called_;
    }
    calls_.clear();
  }

  void Check() const {
    if (const char* what = scheduler_.Inconsistency(); what != nullptr) Fail(what, plans_);
  }

  const Settings settings_;
  Random random_;
  const StepLimits limits_;
  ShortestFirst scheduler_;
  std::vector<Living> alive_;  // by id, modulo its size
  std::vector<std::vector<std::uint64_t>> prefixes_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  std::vector<RowResult> rows_;
  std::vector<KvMove> moves_;
  std::vector<RequestId> calls_;
  TimePoint now_{};
  std::uint64_t last_ = 0, plans_ = 0, released_ = 0, failed_ = 0, preempted_ = 0, moved_ = 0, called_ = 0, hash_ = 0;
  std::int64_t most_waiting_ = 0, most_running_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--hours") settings.hours = std::strtod(argv[i + 1], nullptr);
    if (name == "--rate") settings.rate = std::strtod(argv[i + 1], nullptr);
    if (name == "--seed") settings.seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (argc % 2 == 0 || !(settings.hours > 0 && settings.rate > 0)) {
    std::printf("usage: takt_soak [--hours H] [--rate R] [--seed S]\n");
    return 2;
  }
  Soak(settings).Run();
  return 0;
}
