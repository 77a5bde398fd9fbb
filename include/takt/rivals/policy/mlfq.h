// FastServe: a multi-level feedback queue without predictions, in which the request with the most service runs last.
#ifndef TAKT_RIVALS_POLICY_MLFQ_H_
#define TAKT_RIVALS_POLICY_MLFQ_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/rivals/policy/attained_service.h"
#include "takt/policy/rank_policy.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

// Levels 0, 1, ... have quanta base * ratio^level. A request arrives at the end of the first level whose quantum covers
// its prefill (skip-join). A request that has run goes to the front of its level, or of the next level if its quantum
// is used up. A request that has waited for `starvation` seconds in a row goes before level 0 and starts there anew.
//
// Key: level - (number of moves to a front) * 2^-40, so that a level is 1 wide. With PreemptMode::kByRank (as
// published) and a preempt_margin of 0.5, a request preempts only requests of later levels. Source: FastServe (Wu et
// al., 2023) and its code.
//
// Departures: a step's time is computed from tokens and `pace`, or the host's own pace, not measured. Starving requests
// move when they are due, in order of arrival. FastServe visits all requests every 1,000 iterations, newest first.
class Mlfq {
 public:
  static constexpr std::string_view kName = "mlfq";

  struct Options {
    double base = 0.01;  // quantum of level 0 [s]
    double ratio = 2;  // quantum relative to the previous level; defaults of these three are FastServe's
    double starvation = 3;  // wait after which a request moves before level 0 [s]
    bool skip_join = true;  // false: all requests arrive at level 0, as in a plain feedback queue
  };
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};  // pace of the engine; only these two coefficients are used

  Mlfq() = default;
  explicit Mlfq(Options options) : options_(options) {}

  void Reserve(std::size_t requests) { records_.reserve(requests); }
  void Enters(const RequestState& r, TimePoint now) {
    if (!Known(r)) {
      if (r.slot >= records_.size()) records_.resize(std::size_t{r.slot} + 1);
      const int level = LevelOf(r);
      records_[r.slot] = {.id = r.request.id, .key = Back(level), .quantum = Quantum(level), .level = level};
    } else if (Record& record = records_[r.slot]; record.enqueued == r.enqueued) {
      if (!record.has_run && now >= record.due) Promote(record);
      return;
    }
    Record& record = records_[r.slot];
    record.enqueued = r.enqueued;
    record.due = Later(r.enqueued, options_.starvation);
    record.has_run = false;
    if (now >= record.due) Promote(record);
  }

  void Ends(const RequestState& r, TimePoint) {
    if (Known(r)) records_[r.slot] = {};
  }

  RankKey Key(const RequestState& r) const { return Known(r) ? records_[r.slot].key : Back(LevelOf(r)); }

  bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps = 1) {
    if (!Known(r)) return false;
    Record& record = records_[r.slot];
    record.service.Add(prefill, output, steps);
    const bool used_up = record.level < kLast && record.service.Seconds(pace) > record.quantum;
    if (used_up) {
      ++record.level;
      record.quantum *= options_.ratio;
      record.service = {};
    }
    // A request that runs in consecutive steps stays at the front.
    if (!used_up && record.has_run) return false;
    record.has_run = true;
    record.key = Front(record.level);
    return true;
  }

  TimePoint ChangesAt(const RequestState& r) const { return Known(r) ? records_[r.slot].due : kNever; }
  void Change(const RequestState& r, TimePoint) {
    if (Known(r)) Promote(records_[r.slot]);
  }

  // Returns the request's level, 0 first; -1: the request has starved.
  int level(const RequestState& r) const {
    return !Known(r) ? LevelOf(r) : records_[r.slot].key.key == kStarved ? -1 : records_[r.slot].level;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("base", self.options_.base, OptionText{"s", "quantum of the first level", 1e-9, 1e9});
    visit("ratio", self.options_.ratio, OptionText{"", "ratio of a level's quantum to the one above", 1, 1e6});
    visit("starvation", self.options_.starvation,
          OptionText{"s", "waiting time after which a request goes first", 1e-3});
    visit("skip_join", self.options_.skip_join,
          OptionText{"", "arrivals join the level whose quantum covers their prefill"});
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step", 0, 1e9});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time that a prefill token adds to a step", 0, 1e9});
  }

 private:
  static constexpr int kLast = 63;  // last level, whose quantum never ends
  static constexpr double kMove = 0x1p-40;
  static constexpr double kStarved = -1;

  struct Record {
    RequestId id = {};
    RankKey key = {};
    AttainedService service = {};  // service that the request received at this level
    double quantum = 0;  // quantum of this level [s]
    TimePoint enqueued{};  // time when the request last joined the queue
    TimePoint due = kNever;  // time when the request starves
    int level = 0;
    bool has_run = false;  // true: the request has run since it joined the queue
  };

  bool Known(const RequestState& r) const {
    return r.slot < records_.size() && records_[r.slot].id && records_[r.slot].id == r.request.id;
  }

  double Quantum(int level) const {
    double quantum = options_.base;
    for (int i = 0; i < level; ++i) quantum *= options_.ratio;
    return quantum;
  }
  int LevelOf(const RequestState& r) const {
    if (!options_.skip_join) return 0;
    const AttainedService prefill{.prefill = r.request.prompt_tokens.value};
    int level = 0;
    while (level < kLast && Quantum(level) < prefill.Seconds(pace)) ++level;
    return level;
  }

  // Equal keys are in order of arrival, so newcomers queue behind one another.
  static RankKey Back(int level) { return {static_cast<double>(level)}; }
  RankKey Front(int level) { return {level - Rounded(kMove * static_cast<double>(++moves_))}; }
  void Promote(Record& record) {
    record.level = 0;
    record.quantum = options_.base;
    record.service = {};
    record.key = {kStarved};
    record.due = kNever;
  }

  Options options_;
  std::vector<Record> records_;  // by slot
  std::int64_t moves_ = 0;  // number of moves to a front
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_MLFQ_H_
