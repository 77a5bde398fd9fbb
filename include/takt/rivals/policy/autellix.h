// Autellix: program-aware feedback queues; the program with the least service goes first.
#ifndef TAKT_RIVALS_POLICY_AUTELLIX_H_
#define TAKT_RIVALS_POLICY_AUTELLIX_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/rivals/policy/attained_service.h"
#include "takt/policy/rank_policy.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

// The service of a program when one of its calls begins. PLAS: engine time of all its ended calls. ATLAS: engine time
// of the longest chain of ended calls, because parallel calls do not add up.
enum class ProgramService : std::uint8_t { kPlas, kAtlas };
constexpr auto NamesOf(ProgramService) { return std::to_array<std::string_view>({"plas", "atlas"}); }

// Queues 0, 1, ... hold programs by attained service: below `bound` seconds, below bound * ratio, and so on. A call
// joins the queue of its program (its workflow; otherwise the call alone). A call moves to the next queue when it has
// run for quantum * ratio^i in queue i. A call goes to the first queue, with its own wait and service reset, if its
// program has waited too long:
//
//  (waits of ended calls + own wait) / (service of ended calls + own service) >= beta
//
// Key: number of the queue; ties by arrival. Source: Luo et al., Autellix (2025), Algorithm 1. Preemptive, as
// published: PreemptMode::kByRank.
//
// Departures: the paper gives no values for queues, quanta and beta; the defaults are from a public reimplementation,
// which counts steps instead of seconds. A step's time is computed from tokens and `pace`, or the host's own pace, not
// measured. The table of programs is per engine. The last `programs` programs without a call are remembered. The time
// of a waiting call's promotion is computed when the call joins, so later waits of sibling calls do not advance the
// promotion.
class Autellix {
 public:
  static constexpr std::string_view kName = "autellix";

  struct Options {
    ProgramService service = ProgramService::kPlas;
    std::int64_t queues = 7;
    double bound = 2;  // service below which a program is in queue 0 [s]
    double quantum = 1;  // quantum of queue 0 [s]
    double ratio = 2;
    double beta = 8;
    std::int64_t programs = 10'000;
  };
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};  // pace of the engine; only these two coefficients are used

  Autellix() = default;
  explicit Autellix(Options options) : options_(options) {}

  void KeyHashes(std::uint64_t seed) { programs_.KeyHashes(seed); }

  // Reserves memory for `requests` programs at once, and for remembered programs, at most 65,536.
  void Reserve(std::size_t requests) {
    const auto rest = static_cast<std::size_t>(std::min<std::int64_t>(options_.programs, 1 << 16));
    calls_.reserve(requests);
    programs_.Reserve(requests + rest + 1);
  }

  void Enters(const RequestState& r, TimePoint now) {
    if (!Known(r)) {
      if (r.slot >= calls_.size()) calls_.resize(std::size_t{r.slot} + 1);
      const std::uint32_t program = Join(r.request.workflow);
      const double service = program == kNoSlot ? 0 : programs_[program].service;
      const std::int64_t queue = QueueOf(service);
      calls_[r.slot] = {.id = r.request.id,
                        .program = program,
                        .queue = queue,
                        .quantum = Quantum(queue),
                        .begun_at = service,
                        .enqueued = r.enqueued,
                        .since = r.enqueued,
                        .waits = true};
    } else if (Call& call = calls_[r.slot]; call.enqueued != r.enqueued) {
      EndWait(call, now);
      call.enqueued = call.since = r.enqueued;
      call.waits = true;
    }
    LookAt(calls_[r.slot], now);
  }

  void Ends(const RequestState& r, TimePoint now) {
    if (!Known(r)) return;
    Call& call = calls_[r.slot];
    EndWait(call, now);
    if (call.program != kNoSlot) {
      Program& program = programs_[call.program];
      const double ran = call.ran.Seconds(pace);
      program.service = options_.service == ProgramService::kPlas ? program.service + ran
                                                                  : std::max(program.service, call.begun_at + ran);
      program.wait += call.wait;
      Leave(call.program);
    }
    call = {};
  }

  RankKey Key(const RequestState& r) const { return {static_cast<double>(queue(r))}; }

  bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps = 1) {
    if (!Known(r)) return false;
    Call& call = calls_[r.slot];
    EndWait(call, planned_);
    call.ran.Add(prefill, output, steps);
    call.ran_here.Add(prefill, output, steps);
    if (call.queue + 1 >= options_.queues || call.ran_here.Seconds(pace) < call.quantum) return false;
    ++call.queue;
    call.quantum *= options_.ratio;
    call.ran_here = {};
    return true;
  }

  TimePoint ChangesAt(const RequestState& r) const { return Known(r) ? calls_[r.slot].due : kNever; }
  void Change(const RequestState& r, TimePoint now) {
    if (Known(r)) LookAt(calls_[r.slot], now);
  }

  void PlanBegins(TimePoint now) { planned_ = now; }
  void PlanEnds(const QueuePressure&, TimePoint now) { planned_ = now; }

  // Returns the call's queue, 0 first.
  std::int64_t queue(const RequestState& r) const {
    if (Known(r)) return calls_[r.slot].queue;
    const Program* program = programs_.Get(r.request.workflow);
    return QueueOf(program == nullptr ? 0 : program->service);
  }
  // Returns a program's service and wait of its calls [s]; zeros if unknown.
  std::pair<double, double> ServiceAndWait(WorkflowId workflow) const {
    const Program* program = programs_.Get(workflow);
    if (program == nullptr) return {0, 0};
    return {program->service, program->wait};
  }
  std::size_t remembered() const { return programs_.size(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.options_;
    visit("service", o.service,
          OptionText{"", "plas | atlas: service of all calls of a program, or of their longest chain"});
    visit("queues", o.queues, OptionText{"", "number of queues", 1, 64});
    visit("bound", o.bound, OptionText{"s", "attained service at which the first queue ends", 1e-6, 1e9});
    visit("quantum", o.quantum, OptionText{"s", "time that a call runs in the first queue", 1e-6, 1e9});
    visit("ratio", o.ratio, OptionText{"", "ratio of a queue's bound and quantum to the one above", 1, 1e3});
    visit("beta", o.beta, OptionText{"", "ratio of wait to service at which a program goes first", 0, 1e9});
    visit("programs", o.programs, OptionText{"", "remembered programs without a call", 0, 1e7});
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step", 0, 1e9});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time that a prefill token adds to a step", 0, 1e9});
  }

 private:
  struct Program {
    WorkflowId id = {};
    double service = 0, wait = 0;  // service and wait of ended calls [s]
    std::int64_t living = 0;  // number of calls that have not ended
    AgeLink age = {};  // links in the list of programs without a call
  };
  struct Call {
    RequestId id = {};
    std::uint32_t program = kNoSlot;
    std::int64_t queue = 0;
    double quantum = 0;  // quantum of the call's queue [s]
    AttainedService ran_here = {};  // service that the call received in its queue
    double begun_at = 0;  // service of the program when the call arrived [s]
    AttainedService ran = {};  // service since the call arrived or was last promoted
    double wait = 0;  // wait since then, without the current wait [s]
    TimePoint enqueued{};
    TimePoint since{};  // start of the current wait
    TimePoint due = kNever;  // time of the next check for promotion
    bool waits = false;  // true: no step has run the call since it joined the queue
  };

  bool Known(const RequestState& r) const {
    return r.slot < calls_.size() && calls_[r.slot].id && calls_[r.slot].id == r.request.id;
  }

  double Scale(double first, std::int64_t queue) const {
    for (std::int64_t i = 0; i < queue; ++i) first *= options_.ratio;
    return first;
  }
  double Quantum(std::int64_t queue) const { return Scale(options_.quantum, queue); }
  std::int64_t QueueOf(double service) const {
    std::int64_t queue = 0;
    for (double end = options_.bound; queue + 1 < options_.queues && service >= end; end *= options_.ratio) ++queue;
    return queue;
  }

  static void EndWait(Call& call, TimePoint at) {
    if (call.waits) call.wait += std::max(0.0, SecondsBetween(call.since, at));
    call.waits = false;
  }

  // Promotes a waiting call if its program has waited too long; otherwise sets the time of the next check.
  void LookAt(Call& call, TimePoint now) {
    call.due = kNever;
    if (!call.waits || call.queue == 0) return;
    const Program none, &program = call.program == kNoSlot ? none : programs_[call.program];
    const double service = program.service + call.ran.Seconds(pace), wait = program.wait + call.wait;
    call.due = Later(call.since, std::max(Rounded(options_.beta * service) - wait, 0.0));
    if (now < call.due) return;
    call.queue = 0;
    call.quantum = options_.quantum;
    call.ran = call.ran_here = {};
    call.wait = 0;
    call.since = now;
    call.due = kNever;
  }

  // ---- the table of programs ----------------------------------------------------------------------------------

  std::uint32_t Join(WorkflowId workflow) {
    if (!workflow) return kNoSlot;
    Slot at = programs_.Find(workflow);
    if (at == kNoSlot) {
      at = programs_.Insert(workflow, {.id = workflow});
    } else if (programs_[at].living == 0) {
      rest_.Remove(programs_, at);
    }
    ++programs_[at].living;
    return at;
  }

  void Leave(std::uint32_t at) {
    if (--programs_[at].living > 0) return;
    rest_.Append(programs_, at);
    if (std::cmp_less_equal(rest_.size(), options_.programs)) return;
    const Slot forgotten = rest_.oldest();
    rest_.Remove(programs_, forgotten);
    programs_.Erase(forgotten, programs_[forgotten].id);
  }

  Options options_;
  std::vector<Call> calls_;  // by slot
  IdTable<WorkflowId, Program> programs_;
  AgeList rest_;  // programs without a call, by the end of their last call
  TimePoint planned_{};  // time of the last plan
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_AUTELLIX_H_
