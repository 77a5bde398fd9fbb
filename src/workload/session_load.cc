#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include "fmt/format.h"
#include "takt/base/faults.h"
#include "takt/base/random.h"
#include "takt/workload/sessions.h"
#include "workload/builder.h"
#include "workload/seen_prefixes.h"

namespace takt {
namespace {

constexpr std::size_t kMostCalls = 10'000'000;

// Lower bound of a session's duration on any engine: the delays on the longest path, plus 1 ms per call.
Duration LeastTime(const Workload& w, const WorkloadWorkflow& workflow, Duration think_cap) {
  std::vector<Duration> end;
  for (const WorkloadCall& call : w.calls_of(workflow)) {
    Duration start{0};
    for (const std::uint32_t p : w.predecessors_of(call)) start = std::max(start, end[p]);
    end.push_back(Sum(Sum(start, std::min(call.delay, think_cap)), std::chrono::milliseconds(1)));
  }
  return std::ranges::max(end);
}

// Yields all numbers below n in random order, then all of them in another order, and so on.
class Rounds {
 public:
  Rounds(std::size_t n, std::uint64_t seed) : random_(Mix64(seed)), order_(n), next_(n) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  std::size_t Next() {
    if (next_ == order_.size()) {
      for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
      next_ = 0;
    }
    return order_[next_++];
  }

 private:
  Random random_;
  std::vector<std::size_t> order_;
  std::size_t next_;
};

absl::Status Check(const Workload& from, const SessionLoad& load) {
  Faults faults;
  faults.Expect(!from.workflows.empty(), "sessions: the workload is empty; expected a workflow");
  faults.Expect(
      std::isfinite(load.rate) && load.rate >= 0 && load.closed_loop >= 0 && (load.rate > 0) != (load.closed_loop > 0),
      "sessions: expected either a rate or a closed loop above 0");
  faults.Expect(load.horizon > Duration{0} && load.horizon <= kMaxWorkloadTime, "horizon", ToSeconds(load.horizon),
                "is invalid; expected a positive number of seconds up to 1e9");
  faults.Expect(load.think_cap >= Duration{0}, "think_cap", ToSeconds(load.think_cap),
                "is negative; expected at least 0");
  return faults.ToStatus();
}

}  // namespace

absl::StatusOr<Workload> DrawSessions(const Workload& from, const SessionLoad& load) {
  if (absl::Status s = Check(from, load); !s.ok()) return s;
  const auto too_many = [] {
    return absl::InvalidArgumentError(
        fmt::format("sessions: the horizon has too many calls; expected at most {}", kMostCalls));
  };
  const double sessions = load.rate * ToSeconds(load.horizon) + static_cast<double>(load.closed_loop);  // lower bound
  const double calls_each = static_cast<double>(from.calls.size()) / static_cast<double>(from.workflows.size());
  if (sessions * calls_each > static_cast<double>(kMostCalls)) return too_many();
  Random gaps(Mix64(load.seed));
  Rounds rounds(from.workflows.size(), load.seed + 1);
  WorkloadBuilder builder;
  CopyHead(from, builder.workload());
  const auto add = [&](Duration arrival) -> const WorkloadWorkflow& {
    WorkloadWorkflow workflow = from.workflows[rounds.Next()];
    workflow.arrival = TimePoint(arrival);
    Copy(from, workflow, builder);
    return builder.workload().workflows.back();
  };
  if (load.rate > 0) {
    const double most = ToSeconds(load.horizon);
    for (double now = 0; now < most; now += gaps.Exponential() / load.rate) {
      if (builder.workload().calls.size() > kMostCalls) return too_many();
      add(FromSeconds(now));
    }
  } else {
    // The earliest end of each concurrent session.
    std::priority_queue<Duration, std::vector<Duration>, std::greater<>> ends;
    for (std::size_t i = 0; std::cmp_less(i, load.closed_loop) || ends.top() < load.horizon; ++i) {
      if (builder.workload().calls.size() > kMostCalls) return too_many();
      Duration start{0};
      if (std::cmp_greater_equal(i, load.closed_loop)) start = ends.top(), ends.pop();
      const WorkloadWorkflow& session = add(Duration{0});
      ends.push(Sum(start, LeastTime(builder.workload(), session, load.think_cap)));
    }
  }
  builder.Finish();
  Workload drawn = std::move(builder.workload());
  for (WorkloadCall& call : drawn.calls) call.delay = std::min(call.delay, load.think_cap);
  return drawn;
}

std::vector<std::int32_t> TokensEverCached(const Workload& workload) {
  std::vector<std::int32_t> tokens(workload.calls.size());
  SeenPrefixes seen(workload);
  for (const WorkloadWorkflow& w : workload.workflows) {
    seen.NextWorkflow();
    for (std::uint32_t c = w.first_call; c < w.first_call + w.calls; ++c) {
      const WorkloadCall& call = workload.calls[c];
      const std::int64_t most = (call.prompt_tokens - 1) / workload.prefix_block_tokens;
      const std::int64_t blocks = std::min(seen.Add(call), most);
      tokens[c] = static_cast<std::int32_t>(blocks * workload.prefix_block_tokens);
    }
  }
  return tokens;
}

}  // namespace takt
