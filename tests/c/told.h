// Events of C++ as a host in C passes them, and the options of both.
#ifndef TAKT_TESTS_C_TOLD_H_
#define TAKT_TESTS_C_TOLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "c/convert.h"
#include "fire/dice.h"
#include "takt/c/takt.h"
#include "takt/kv/kv_oracle.h"
#include "takt/model/event.h"
#include "takt/model/instance.h"
#include "takt/scheduler_options.h"

namespace takt {

// A struct for takt to write to.
template <class T>
T Sized() {
  T out{};
  out.struct_size = sizeof out;
  return out;
}

// All counters of a scheduler or of a router.
template <class H>
std::vector<takt_stat> StatsOf(std::size_t (*stats_of)(const H*, takt_stat*, std::size_t) noexcept, const H* handle) {
  std::vector<takt_stat> stats(stats_of(handle, nullptr, 0));
  stats_of(handle, stats.data(), stats.size());
  return stats;
}

using c::Ns;

inline takt_limits InC(const StepLimits& limits) {
  auto out = Sized<takt_limits>();
  Pair(c::IntoC(), out, limits);
  return out;
}

inline takt_scheduler_options InC(const SchedulerOptions& o) {
  takt_scheduler_options c;
  takt_scheduler_options_init(&c, sizeof c);
  c.max_running = o.max_running, c.max_waiting = o.max_waiting, c.reserve_requests = o.reserve_requests;
  c.shed = static_cast<std::uint32_t>(o.shed), c.order = static_cast<std::uint32_t>(o.order);
  c.preempt = static_cast<std::uint32_t>(o.preempt), c.preempt_action = static_cast<std::uint32_t>(o.preempt_action);
  c.preempt_margin = o.preempt_margin;
  c.kv = static_cast<std::uint32_t>(o.kv);
  c.kv_block_tokens = o.kv_block_tokens.value, c.kv_blocks = o.kv_blocks.value, c.cpu_blocks = o.cpu_blocks.value;
  c.kv_watermark = o.kv_watermark, c.prefix_cache = o.prefix_cache;
  c.admission_window = o.admission_window;
  c.first_step = o.first_step.value, c.hash_seed = o.hash_seed;
  c.max_step_tokens = o.max_step_tokens.value, c.max_step_seqs = o.max_step_seqs;
  c.pin_share = o.pin_share;
  c.prefix_cpu_blocks = o.prefix_cpu_blocks.value;
  c.prefix_wait = o.prefix_wait;
  static thread_local std::string classes;  // read at creation
  classes = OptionToText(o.class_limits);
  c.class_limits = classes.c_str();
  c.max_waiting_tokens = o.max_waiting_tokens;
  c.tenant_max_waiting = o.tenant_max_waiting, c.tenant_max_waiting_tokens = o.tenant_max_waiting_tokens;
  c.max_resume_wait = o.max_resume_wait, c.max_blocked = o.max_blocked, c.max_paused = o.max_paused;
  c.reserve_output = o.reserve_output, c.victims = static_cast<std::uint32_t>(o.victims), c.begun_first = o.begun_first;
  c.token_pace = o.token_pace, c.least_prefill = o.least_prefill.value;
  c.tenant_kv_share = o.tenant_kv_share;
  return c;
}

// With the ranks in a different order from C++.
inline takt_epoch InC(const Epoch& e, std::vector<takt_agent_rank>& ranks) {
  takt_epoch c;
  takt_epoch_init(&c, sizeof c);
  if (e.alpha) c.fields |= TAKT_EPOCH_ALPHA, c.alpha = *e.alpha;
  if (e.agent_ranks == nullptr) return c;
  const auto in_c = [](const AgentRank& r) {
    return takt_agent_rank{r.agent.value, r.rank, r.execution_s, r.stages_left, 0};
  };
  for (const AgentRank& r : e.agent_ranks->ranks) ranks.insert(ranks.begin(), in_c(r));
  c.fields |= TAKT_EPOCH_AGENT_RANKS, c.otherwise = in_c(e.agent_ranks->otherwise);
  c.ranks = ranks.data(), c.n_ranks = ranks.size();
  return c;
}

constexpr std::array<ModelScore, 2> kScores = {{{{1}, 0.25f, 10}, {{2}, 0.5f, -1}}};

// Random learnt data of a host.
inline Epoch DrawEpoch(fire::Dice& dice) {
  Epoch e;
  if (dice.Chance(0.5)) e.alpha = 0.01 * dice.Int(0, 100);
  if (dice.Chance(0.3)) return e;
  AgentRanks ranks;
  for (std::uint64_t agent = 0; agent < 4; ++agent) {
    const AgentRank rank{{agent}, 0.1 * dice.Int(-9, 9), 0.1 * dice.Int(0, 9), dice.Int(0, 3)};
    if (dice.Chance(0.7)) ranks.ranks.push_back(rank);
    if (dice.Chance(0.2)) ranks.otherwise = rank;
  }
  e.agent_ranks = std::make_shared<const AgentRanks>(std::move(ranks));
  return e;
}

// A batch, and all that its events point to.
class Told {
 public:
  template <class E>
  void Add(const E& e) {
    takt_event event{};
    event.type = c::kNumber<E>;
    Pair(Teller(*this), event, e);
    events_.push_back(event);
  }
  // In C, these are never negative.
  void Add(TurnEnded e) {
    e.expected = std::max(e.expected, Duration::zero()), e.pin = std::max(e.pin, Duration::zero());
    Add<TurnEnded>(e);
  }
  template <class... Es>
  void Add(const std::variant<Es...>& event) {
    std::visit([this](const auto& e) { this->Add(e); }, event);
  }
  void Clear() { events_.clear(), requests_.clear(), instances_.clear(), workflows_.clear(), stages_.clear(); }

  const takt_event* data() const { return events_.data(); }
  std::size_t size() const { return events_.size(); }

 private:
  // Keeps the memory behind its pointers.
  struct Teller : c::IntoC {
    explicit Teller(Told& all) : told(all) {}

    using IntoC::Array;
    void Array(const takt_stage*& first, std::size_t& n, const std::vector<WorkflowStage>& stages) const {
      std::vector<takt_stage>& kept = told.stages_.emplace_back(stages.size());
      for (std::size_t i = 0; i < stages.size(); ++i) Pair(*this, kept[i], stages[i]);
      first = kept.data(), n = kept.size();
    }
    void Array(const std::uint32_t*& first, std::size_t& n, const std::vector<std::uint32_t>& all) const {
      first = all.data(), n = all.size();
    }
    void Struct(const takt_request*& c, const Request& request) const {
      Pair(*this, told.New(told.requests_, takt_request_init, c), request);
    }
    void Struct(const takt_instance*& c, const Instance& instance) const {
      Pair(*this, told.New(told.instances_, takt_instance_init, c), instance);
    }
    void Struct(const takt_workflow*& c, const Workflow& workflow) const {
      Pair(*this, told.New(told.workflows_, takt_workflow_init, c), workflow);
    }
    void Struct(const takt_stage*& c, const WorkflowStage& stage) const {
      Pair(*this, told.stages_.emplace_back(1).front(), stage);
      c = told.stages_.back().data();
    }
    void Dated(std::uint32_t& dated, std::int64_t& c, TimePoint time) const {
      dated = time != kUnset;
      (*this)(c, time);
    }
    template <class T, class F>
    void Optional(std::uint32_t& c, const std::optional<T>& value, F&& fields) const {
      c = value.has_value();
      if (value) fields(*value);
    }
    void Revision(const takt_request*& c, std::uint32_t& bits, const Revised& revised) const;

    Told& told;
  };
  struct Reviser : Teller {
    Reviser(Told& all, std::uint32_t& to) : Teller(all), bits(to) {}

    template <class C, class T>
    void IfRevised(std::uint32_t bit, C& c, const std::optional<T>& value) const {
      if (!value) return;
      bits |= bit;
      (*this)(c, *value);
    }

    std::uint32_t& bits;
  };

  template <class T>
  T& New(std::deque<T>& all, void (*init)(T*, std::size_t) noexcept, const T*& c) {
    init(&all.emplace_back(), sizeof(T));
    c = &all.back();
    return all.back();
  }

  std::vector<takt_event> events_;
  std::deque<takt_request> requests_;
  std::deque<takt_instance> instances_;
  std::deque<takt_workflow> workflows_;
  std::deque<std::vector<takt_stage>> stages_;
};

inline void Told::Teller::Revision(const takt_request*& c, std::uint32_t& bits, const Revised& revised) const {
  Pair(Reviser(told, bits), told.New(told.requests_, takt_request_init, c), revised);
}

// A block manager as the functions of C; it outlives them.
inline takt_kv_oracle InC(KvOracle& kv) {
  takt_kv_oracle c;
  takt_kv_oracle_init(&c, sizeof c);
  c.block_tokens = kv.block_tokens().value;
  c.context = &kv;
  c.snapshot = [](void* context, takt_kv_snapshot* to) {
    const KvSnapshot now = static_cast<KvOracle*>(context)->Snapshot();
    *to = {now.total.value, now.free.value, now.pending.value, 0};
  };
  c.cached = [](void* context, takt_kv_hit* hits, std::size_t n) {
    std::deque<Request> requests;
    std::vector<KvHit> in_cxx;
    for (const takt_kv_hit& hit : std::span(hits, n)) {
      Request& r = requests.emplace_back();
      r.id = {hit.request}, r.prompt_tokens = {hit.prompt_tokens};
      const std::span<const std::uint64_t> hashes(hit.prefix_hashes, hit.n_prefix_hashes);
      if (!hashes.empty()) r.prefix = {{hit.prefix_block_tokens}, hashes};
      in_cxx.push_back({&r, {hit.tokens}});
    }
    static_cast<KvOracle*>(context)->CachedTokens(in_cxx);
    for (std::size_t i = 0; i < n; ++i) hits[i].tokens = in_cxx[i].tokens.value;
  };
  c.reserve = [](void* context, std::uint64_t step, takt_kv_wish* wishes, std::size_t n) {
    std::vector<KvReservation> in_cxx;
    for (const takt_kv_wish& w : std::span(wishes, n)) {
      in_cxx.push_back({{w.request}, {w.have}, {w.want}, w.admission != 0, w.granted != 0});
    }
    static_cast<KvOracle*>(context)->Reserve({step}, in_cxx);
    for (std::size_t i = 0; i < n; ++i) {
      wishes[i].granted = in_cxx[i].granted, wishes[i].refusal = static_cast<std::uint32_t>(in_cxx[i].refusal);
    }
  };
  c.release = [](void* context, std::uint64_t request, std::uint32_t action) {
    return static_cast<KvOracle*>(context)->Release({request}, static_cast<KvAction>(action)).value;
  };
  return c;
}

}  // namespace takt

#endif  // TAKT_TESTS_C_TOLD_H_
