// HexGen-Flow's dispatch over unequal instances: fast where the call runs, little work before it, and alpha between.
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

// Which work stands before a call on an instance.
enum class QueueWork : std::uint8_t {
  kWaiting,      // what waits there
  kOutstanding,  // what waits there, and what is left of what runs
};
constexpr auto NamesOf(QueueWork) { return std::to_array<std::string_view>({"waiting", "outstanding"}); }

// Peng et al. (2025), equations 2 to 4:
//
//   score = (1 - alpha) beta / t_queue - alpha t_comp     [s; beta in s^2]
//
// with t_comp what the call takes there (CallCosts), and t_queue the sum of t_comp over the work that stands before it.
// The paper leaves open:
// - t_queue = 0 is infinitely good: instances without work come before all others (alpha < 1), among them the smaller
//   t_comp, then what has less running.
// - alpha = 1: the smaller t_comp, and among equals what has less work, where the paper would load one of them alone.
// - Which work: the paper's queue is what waits; `queue` can add what runs, which has its t_comp less the time since
// its
//   first step left, at least nothing. Hosts that do not tell RequestStarted have everything waiting until it ends.
// - A request takes away in the end what it brought when it was placed, also where the instance's cost model was
//   replaced in between or its length was revised.
class WorkloadBalance {
 public:
  static constexpr std::string_view kName = "workload_balance";

  double alpha = 0;  // the paper's start; its tuner moves it (planning/alpha_tuner.h)
  double beta = 100;  // s^2; not given in the paper
  QueueWork queue = QueueWork::kWaiting;

  WorkloadBalance() = default;
  explicit WorkloadBalance(std::shared_ptr<const StageTimes> measured) : costs_(std::move(measured)) {}

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha", self.alpha,
          OptionText{"", "1: the fastest instance alone counts, 0: the work before it alone", 0, 1});
    visit("beta", self.beta, OptionText{"s^2", "weight of the work before it", 0, 1e9});
    visit("queue", self.queue, OptionText{"", "the work before it: waiting or outstanding"});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    const double comp = ToSeconds(costs_.On(i));
    const std::int64_t waiting = work_.waiting(i.slot);
    const std::int64_t running = left_.Left(i.slot, now);
    if (alpha >= 1) return -Ordered(comp, waiting + running);
    const std::int64_t before = queue == QueueWork::kOutstanding ? waiting + running : waiting;
    // Above every finite score: those are below beta * 1e9.
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
  // By the first, among equals by the second, in one number: the two rounded to 24 and 13 bits, side by side in a whole
  // number below 2^52. Neither is negative.
  static double Ordered(double first, std::int64_t second) {
    const std::uint64_t a = std::bit_cast<std::uint32_t>(static_cast<float>(first));
    const std::uint64_t b = std::bit_cast<std::uint32_t>(static_cast<float>(second));
    return static_cast<double>((a << 21) | (b >> 10));
  }

  CallCosts costs_;
  WorkInFlight work_;  // ns of t_comp; what runs is counted in left_
  DueWork left_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_WORKLOAD_BALANCE_H_
