// HexGen-Flow's dispatch over unequal instances. Alpha weighs the call's speed on an instance against the queue there.
#ifndef TAKT_PLACEMENT_WORKLOAD_BALANCE_H_
#define TAKT_PLACEMENT_WORKLOAD_BALANCE_H_

#include <bit>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/instance.h"
#include "takt/placement/books/call_costs.h"
#include "takt/placement/books/due_work.h"
#include "takt/placement/books/work_in_flight.h"

namespace takt {

// The work that counts as being before a call.
enum class QueueWork : std::uint8_t {
  kWaiting,  // waiting calls
  kOutstanding,  // waiting calls, plus the remaining time of running calls
};
constexpr auto NamesOf(QueueWork) { return std::to_array<std::string_view>({"waiting", "outstanding"}); }

// Peng et al. (2025), equations 2 to 4:
//
//  score = (1 - alpha) beta / t_queue - alpha t_comp     [s; beta in s^2]
//
// t_comp is the time of the call on the instance (CallCosts). t_queue is the sum of t_comp over the calls before it.
// The paper leaves these cases open:
//
// - t_queue = 0: instances without work come before all others (alpha < 1); ties: smaller t_comp, then less running
//   work.
// - alpha = 1: the smallest t_comp; ties: less work. The paper would put all load on one of several equal instances.
// - The paper's queue is the waiting calls. `queue` can add running calls, with t_comp less the time since their first
//   step, at least 0. Without RequestStarted reports, a call counts as waiting until it ends.
// - When a call ends, its t_comp as of its placement is subtracted, even if costs or lengths have changed since.
class WorkloadBalance {
 public:
  static constexpr std::string_view kName = "workload_balance";

  double alpha = 0;  // weight of the call's own time, 0 to 1; AlphaTuner changes it (planning/alpha_tuner.h)
  double beta = 100;  // weight of the queue [s^2]; not given in the paper
  QueueWork queue = QueueWork::kWaiting;

  WorkloadBalance() = default;
  explicit WorkloadBalance(std::shared_ptr<const StageTimes> measured) : costs_(std::move(measured)) {}

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha", self.alpha, OptionText{"", "1: only speed counts; 0: only work before the call", 0, 1});
    visit("beta", self.beta, OptionText{"s^2", "weight of work before the call", 0, 1e9});
    visit("queue", self.queue, OptionText{"", "work before the call: waiting | outstanding"});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    const double comp = ToSeconds(costs_.On(i));
    const std::int64_t waiting = work_.waiting(i.slot);
    const std::int64_t running = left_.Left(i.slot, now);
    if (alpha >= 1) return -Ordered(comp, waiting + running);
    const std::int64_t before = queue == QueueWork::kOutstanding ? waiting + running : waiting;
    // This score is larger than every other, because other scores are below beta * 1e9.
    if (before <= 0) return 0x1p900 * (0x1p53 - Ordered(comp, running));
    return (1 - alpha) * beta / (static_cast<double>(before) * 1e-9) - Rounded(alpha * comp);
  }

  void Observe(const Epoch& epoch, TimePoint) {
    if (epoch.alpha && *epoch.alpha >= 0 && *epoch.alpha <= 1) alpha = *epoch.alpha;
  }
  void Up(const InstanceState& i, TimePoint) { costs_.Up(i); }
  void Prepare(const RequestState& r, TimePoint now) {
    costs_.Prepare(r);
    left_.Advance(now);
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint) {
    work_.Placed(r.slot, i.slot, costs_.On(i).count());
  }
  void Started(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (work_.Started(r.slot)) left_.Began(r.slot, i.slot, Duration(work_.AmountOf(r.slot)), now);
  }
  void Released(const RequestState& r, const InstanceState&, TimePoint) {
    work_.Released(r.slot);
    left_.Ended(r.slot);
  }

 private:
  // Packs two keys into one number: `first` in 24 bits, then `second` as tie-breaker in 13 bits. The result is a whole
  // number below 2^52. Both must be at least 0.
  static double Ordered(double first, std::int64_t second) {
    const std::uint64_t a = std::bit_cast<std::uint32_t>(static_cast<float>(first));
    const std::uint64_t b = std::bit_cast<std::uint32_t>(static_cast<float>(second));
    return static_cast<double>((a << 21) | (b >> 10));
  }

  CallCosts costs_;
  WorkInFlight work_;  // sums of t_comp [ns]; left_ counts running calls
  DueWork left_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_WORKLOAD_BALANCE_H_
