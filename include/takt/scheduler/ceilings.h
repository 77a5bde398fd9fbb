// Ceilings of classes: the share of the engine that a class and all later classes may use together. Shares of tenants:
// the part of the KV cache that the running requests of one tenant may use.
#ifndef TAKT_SCHEDULER_CEILINGS_H_
#define TAKT_SCHEDULER_CEILINGS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/model/class_limits.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Without a ceiling, EngineState::ceilings is null and nothing is counted. A row counts in the class that its request
// had at its admission. KV blocks count with the ledger only. A block that requests share counts for each.
//
// Waiting requests are listed by class, so that a walk of the queue can leave out a class without room. Smaller
// requests may pass the first request of a class that is kept out. After `admission_window` of these, requests of its
// class and of later classes that come after it are kept out until it has room.
//
// With `tenant_kv_share`, a request is kept out if its tenant would hold more than that share. Smaller requests of the
// tenant may pass it. A tenant without rows is never kept out.
//
// Invariant: `tenants_` has the tenants with rows. `running_` equals a recount of the rows. If
// `read_`, `blocks_` has the blocks of all rows as of the first question of this plan, and of those admitted since.
// Each waiting request is in the line of its class, and needs at least the line's `least` blocks.
class Ceilings {
 public:
  Ceilings(EngineState& s, const Kv& kv) : s_(s), kv_(kv) {
    if (Any(s.options)) s.ceilings = this;
  }

  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }

  // The classes or the share of tenants have changed from `before`. Soft ceilings of new classes hold from the next
  // arrival on.
  void OptionsChanged(const SchedulerOptions& before) {
    const bool classes = !(before.class_limits == s_.options.class_limits);
    if (!classes && before.tenant_kv_share == s_.options.tenant_kv_share) return;
    const bool was = std::exchange(s_.ceilings, Any(s_.options) ? this : nullptr) != nullptr;
    const bool lines_stay = was && s_.ceilings != nullptr && !classes;
    ++version_;
    read_ = false;
    for (Slot t = 0; t < tenants_.slots(); ++t) {
      if (Tenant& tenant = tenants_[t]; tenant.rows > 0) tenants_.Erase(t, tenant.id), tenant = {};
    }
    if (!lines_stay) held_ = 0, running_ = asked_ = {}, lines_ = {};
    if (classes) until_.fill(kUnset);
    for (const std::uint32_t lane : s_.running.order()) {
      const Row& row = s_.running.Stored(lane);
      if (row.state == RowState::kFree || row.state == RowState::kLeaving) continue;
      Record& record = s_.table[row.slot];
      if (lines_stay) {
        Count(record, 1);
        continue;
      }
      record.ceiling_class = -1;
      if (s_.ceilings != nullptr) Joined(record, row);
    }
    for (Slot slot = 0; !lines_stay && s_.ceilings != nullptr && slot < s_.table.slots(); ++slot) {
      if (s_.table[slot].status == RequestStatus::kWaiting) Enqueued(slot);
    }
  }

  // Reserves memory for these options.
  void Reserve(const SchedulerOptions& options, std::size_t slots) {
    if (Any(options)) places_.resize(std::max(slots, places_.size())), in_order_.reserve(slots);
    if (OfTenants(options)) tenants_.Reserve(slots);
  }

  std::uint64_t version() const { return version_; }  // changes whenever more requests may be admitted than before

  // A request arrived, which makes the soft ceilings of later classes hold.
  void Arrived(std::int32_t priority) {
    const ClassLimitsList& classes = s_.options.class_limits;
    for (auto i = static_cast<std::size_t>(classes.IndexOf(priority) + 1); i < classes.size(); ++i) {
      if (classes[i].soft > 0) until_[i] = std::max(until_[i], After(s_.now, FromSeconds(classes[i].soft)));
    }
  }
  // A request joined the queue, or left it.
  void Enqueued(Slot slot) {
    const Record& record = s_.table[slot];
    const int of = ClassOf(record) + 1;
    Line& line = lines_[static_cast<std::size_t>(of)];
    const std::int32_t need = kv_.BlocksFor(record);
    line.least = line.waiting.empty() ? need : std::min(line.least, need);
    line.waiting.Append(places_, slot);
    places_[slot].line = static_cast<std::int8_t>(of);
    places_[slot].passes = 0;
  }
  // `goes`: it gets a row. Call this before it leaves the queue.
  void Dequeued(Slot slot, bool goes) {
    Line& line = LineOf(slot);
    line.waiting.Remove(places_, slot);
    if (goes) VisitPassed(slot, [this](Line& passed) { ++places_[passed.first].passes; });
    if (line.first != slot) return;
    line.first = kNoSlot;
    if (places_[slot].passes >= s_.options.admission_window) ++version_;
  }
  // A ceiling keeps out this waiting request, which was the next in order. It may be passed if a smaller one has room.
  void Keep(Slot slot) {
    Line& line = LineOf(slot);
    const int its = places_[slot].line - 1;
    if (MayKeep(line, slot) && HasRoom(its, 1, 0) && !HasRoom(its, s_.table[slot])) line.first = slot, line.asked = 0;
  }
  // A request has another class from now on, or fewer sequences.
  void Revised(Slot slot) {
    ++version_;
    if (s_.table[slot].status != RequestStatus::kWaiting) return;
    const Place was = places_[slot];
    const bool first = LineOf(slot).first == slot;
    Dequeued(slot, false), Enqueued(slot);
    if (places_[slot].line != was.line) return;
    places_[slot].passes = was.passes;
    if (first) LineOf(slot).first = slot;
  }

  void BeginPlan() {
    read_ = false;
    std::uint32_t held = 0;
    for (std::size_t i = 0; i < s_.options.class_limits.size(); ++i) held |= Holds(i) ? std::uint32_t{1} << i : 0u;
    if ((held_ & ~held) != 0) ++version_;
    held_ = held;
  }

  // The oracle is asked to admit a request, or has answered all questions.
  void Asked(const Record& record) {
    VisitPassed(record.state.slot, [](Line& passed) { ++passed.asked; });
    Add(asked_, ClassOf(record), s_.Sequences(record));
  }
  void Answered() {
    asked_ = {};
    for (Line& line : lines_) line.asked = 0;
  }

  void Joined(Record& record, const Row& row) {
    record.ceiling_class = static_cast<std::int8_t>(ClassOf(record));
    Add(running_, record.ceiling_class, row.sequences);
    Count(record, 1);
    if (read_) AddBlocks(record, row.blocks);
  }
  void Left(const Record& record, const Row& row) {
    Count(record, -1);
    if (record.ceiling_class >= 0) --running_[Index(record)].rows;
    Shrank(record, row.sequences);
  }

  // Sequences of a row have ended.
  void Shrank(const Record& record, std::int32_t ended) {
    if (record.ceiling_class >= 0) running_[Index(record)].seqs -= ended;
    read_ = false;
    ++version_;
  }

  // Returns true if no ceiling keeps this waiting request out. O(classes), and once per plan O(rows).
  bool Admits(const Record& record) {
    if (OfTenants(s_.options) && !HasShare(record)) return false;
    const int its = ClassOf(record);
    if (its < 0) return true;
    if (!HasRoom(its, record)) return false;
    const Slot slot = record.state.slot;
    for (std::size_t i = 1; std::cmp_less_equal(i, its + 1); ++i) {
      if (lines_[i].first != slot && Waited(lines_[i]) && IsAfter(slot, lines_[i].first)) return false;
    }
    return true;
  }

  // Calls visit(slot) for the waiting requests in order until it returns false. Leaves out the classes that have no
  // room for any of their requests, and ends after the last request of the others. If few requests are left, it costs
  // O(these), otherwise as RankQueue::ForEachInOrder.
  template <class Visit>
  void VisitOpen(Visit&& visit) {
    std::array<std::size_t, kMostClasses + 1> unseen = {};
    std::array<std::int32_t, kMostClasses + 1> least = {};
    std::uint32_t open = 0;
    std::size_t left = 0;  // unseen requests of open classes
    const auto closed = [this](std::size_t i) {  // the first that is kept out must be known
      return i > 0 && !HasRoom(static_cast<int>(i) - 1, 1, lines_[i].first != kNoSlot ? lines_[i].least : 0);
    };
    const auto close = [&](std::size_t i) {
      if ((open >> i & 1) != 0) open &= ~(std::uint32_t{1} << i), left -= unseen[i];
    };
    for (std::size_t i = 0; i <= s_.options.class_limits.size(); ++i) {
      unseen[i] = lines_[i].waiting.size(), least[i] = std::numeric_limits<std::int32_t>::max();
      if (unseen[i] == 0 || closed(i)) continue;
      open |= std::uint32_t{1} << i, left += unseen[i];
    }
    const auto visits = [&](Slot slot) {
      const auto i = static_cast<std::size_t>(places_[slot].line);
      if ((open >> i & 1) == 0) return true;
      const Record& record = s_.table[slot];
      least[i] = std::min(least[i], kv_.BlocksFor(record));
      --left;
      if (--unseen[i] == 0) lines_[i].least = least[i];
      if (!visit(slot)) return false;
      const bool may_keep = i > 0 && MayKeep(lines_[i], slot);
      if (may_keep && s_.PassedOverFor(record) == WaitsFor::kCeiling) {
        Keep(slot);
        if (closed(i)) close(i);
      }
      // All others of its class and of later classes come after it.
      if (i > 0 && lines_[i].first == slot && Waited(lines_[i])) {
        for (std::size_t j = i; j <= s_.options.class_limits.size(); ++j) close(j);
      }
      return left > 0;
    };
    if (left == 0) return;
    if (s_.queue.hooks().chooses || left > s_.queue.size() / 8) return s_.queue.ForEachInOrder(visits);
    in_order_.clear();
    for (std::size_t i = 0; i <= s_.options.class_limits.size(); ++i) {
      if ((open >> i & 1) == 0) continue;
      for (Slot slot = lines_[i].waiting.oldest(); slot != kNoSlot; slot = places_[slot].age.newer) {
        in_order_.push_back(slot);
      }
    }
    const auto later = [this](Slot a, Slot b) { return s_.queue.IsBefore(b, a); };
    std::ranges::make_heap(in_order_, later);
    for (bool goes_on = true; goes_on && !in_order_.empty(); in_order_.pop_back()) {
      std::ranges::pop_heap(in_order_, later);
      goes_on = visits(in_order_.back());
    }
  }

  // Returns the first time at which a ceiling that holds now will not hold; kNever if there is none.
  TimePoint next_end() const {
    TimePoint next = kNever;
    for (std::size_t i = 0; i < s_.options.class_limits.size(); ++i) {
      if (s_.options.class_limits[i].soft > 0 && Holds(i)) next = std::min(next, until_[i]);
    }
    return next;
  }

  // Returns true if this waiting request is in the line of its class.
  bool Lists(Slot slot) const {
    const Record& record = s_.table[slot];
    const auto i = static_cast<std::size_t>(places_[slot].line);
    return places_[slot].line == ClassOf(record) + 1 && lines_[i].least <= kv_.BlocksFor(record);
  }
  // Returns true if the tenants have as many rows.
  bool HasTenants(std::int64_t rows) const {
    for (const Tenant& tenant : tenants_.records()) rows -= tenant.rows;
    return !OfTenants(s_.options) || rows == 0;
  }
  // Returns true if the counts of this class are these.
  bool Has(std::size_t i, std::int32_t rows, std::int32_t seqs) const {
    return running_[i].rows == rows && running_[i].seqs == seqs && asked_[i].rows == 0;
  }

 private:
  static bool OfTenants(const SchedulerOptions& o) { return o.tenant_kv_share < 1 && o.kv == KvMode::kLedger; }
  static bool Any(const SchedulerOptions& options) {
    return OfTenants(options) ||
           std::ranges::any_of(options.class_limits, [](const ClassLimits& c) { return c.ceiling < 1; });
  }
  struct Use {
    std::int32_t rows = 0, seqs = 0;
  };
  using Uses = std::array<Use, kMostClasses>;
  struct Line {
    AgeList waiting;
    std::int32_t least = 0;  // minimum blocks of its requests, or less
    Slot first = kNoSlot;  // the first request that a ceiling kept out
    std::int32_t asked = 0;  // requests that pass it if the oracle grants them
  };
  struct Tenant {
    TenantId id;
    std::int32_t rows = 0;
    std::int64_t blocks = 0;  // blocks of its rows, if `read_`
  };
  struct Place {
    AgeLink age;
    std::int8_t line = 0;  // class + 1
    std::int32_t passes = 0;  // requests of its class and of later classes that passed it while it was the first
  };

  int ClassOf(const Record& record) const { return s_.options.class_limits.IndexOf(record.state.request.priority); }
  Line& LineOf(Slot slot) { return lines_[static_cast<std::size_t>(places_[slot].line)]; }
  static std::size_t Index(const Record& record) { return static_cast<std::size_t>(record.ceiling_class); }
  static void Add(Uses& uses, int of, std::int32_t seqs) {
    if (of < 0) return;
    Use& use = uses[static_cast<std::size_t>(of)];
    ++use.rows, use.seqs += seqs;
  }

  // Adds rows of the request's tenant.
  void Count(const Record& record, std::int32_t rows) {
    if (!OfTenants(s_.options)) return;
    const TenantId id = record.state.request.tenant;
    Slot t = tenants_.Find(id);
    if (t == kNoSlot) t = tenants_.Insert(id, {id});
    tenants_[t].rows += rows;
    if (tenants_[t].rows == 0) tenants_.Erase(t, id), tenants_[t] = {};
  }
  void AddBlocks(const Record& record, std::int64_t blocks) {
    if (record.ceiling_class >= 0) blocks_[Index(record)] += blocks;
    if (OfTenants(s_.options)) tenants_.Get(record.state.request.tenant)->blocks += blocks;
  }

  // Returns false if the share of its tenant keeps this waiting request out.
  bool HasShare(const Record& record) {
    const Tenant* tenant = tenants_.Get(record.state.request.tenant);
    if (tenant == nullptr) return true;
    ReadBlocks();
    return tenant->blocks + BlocksOf(record) <= Share(s_.options.tenant_kv_share, kv_.ledger.total());
  }

  bool Holds(std::size_t i) const {
    const ClassLimits& c = s_.options.class_limits[i];
    return c.ceiling < 1 && (!(c.soft > 0) || s_.now < until_[i]);
  }
  std::int64_t Share(std::size_t i, std::int64_t of) const { return Share(s_.options.class_limits[i].ceiling, of); }
  static std::int64_t Share(double share, std::int64_t of) {
    return static_cast<std::int64_t>(Rounded(share * static_cast<double>(of)) + 1e-6);  // 0.29 * 100 is less than 29
  }

  bool IsAfter(Slot slot, Slot other) const { return s_.queue.hooks().chooses || s_.queue.IsBefore(other, slot); }
  // Returns true if this request may be the line's first: there is none, or it is later and nobody has passed it.
  bool MayKeep(const Line& line, Slot slot) {
    if (line.first == kNoSlot || !KeptOut(line)) return line.first != slot;
    return !s_.queue.hooks().chooses && IsAfter(line.first, slot);
  }
  // Calls visit(line) for each line whose first kept-out request is passed if this request is admitted. Nobody passes
  // in a class without room for one sequence, except by the rule for classes that do not run.
  template <class Visit>
  void VisitPassed(Slot slot, Visit&& visit) {
    for (std::size_t i = 1; std::cmp_less_equal(i, places_[slot].line); ++i) {
      Line& line = lines_[i];
      if (line.first == kNoSlot || line.first == slot || !HasRoom(static_cast<int>(i) - 1, 1, 0)) continue;
      if (IsAfter(slot, line.first)) visit(line);
    }
  }
  // Returns true if no request may pass the first kept-out request of this line. Otherwise it may run, or it waits for
  // something else.
  bool Waited(const Line& line) {
    if (line.first == kNoSlot || places_[line.first].passes + line.asked < s_.options.admission_window) return false;
    return KeptOut(line);
  }
  bool KeptOut(const Line& line) {
    const Record& record = s_.table[line.first];
    return MayRun(record) && !HasRoom(places_[line.first].line - 1, record);
  }
  bool MayRun(const Record& record) const {
    const bool may_run = record.lane == kNoLane && record.transit == Transit::kNone && !s_.NeedsLargerStep(record);
    return may_run && s_.queue.Admits(record.state, s_.now);
  }
  std::int32_t BlocksOf(const Record& record) const {
    return std::max({kv_.BlocksFor(record), record.blocks, record.cpu_blocks});
  }
  bool HasRoom(int its, const Record& record) { return HasRoom(its, s_.Sequences(record), BlocksOf(record)); }
  // Returns true if a request of this class with these sequences and blocks keeps all ceilings. Sequences come first,
  // because the blocks may have to be read.
  bool HasRoom(int its, std::int64_t seqs, std::int64_t blocks) {
    const std::int64_t most = std::max(std::min(s_.budget.limits.max_seqs, s_.options.max_running), 0);
    std::int64_t rows = 0;
    for (std::size_t i = s_.options.class_limits.size(); i-- > 0;) {
      rows += running_[i].rows + asked_[i].rows;
      seqs += running_[i].seqs + asked_[i].seqs;
      if (static_cast<int>(i) > its) continue;
      if (static_cast<int>(i) == its && rows == 0) return true;
      if (Holds(i) && seqs > Share(i, most)) return false;
    }
    if (!kv_.Counts()) return true;
    ReadBlocks();
    for (std::size_t i = s_.options.class_limits.size(); i-- > 0;) {
      blocks += blocks_[i];
      if (static_cast<int>(i) <= its && Holds(i) && blocks > Share(i, kv_.ledger.total())) return false;
    }
    return true;
  }

  // Standing rows grow without a visit, so nobody could count each block as it is taken.
  void ReadBlocks() {
    if (read_) return;
    read_ = true;
    blocks_ = {};
    for (Slot t = 0; t < tenants_.slots(); ++t) tenants_[t].blocks = 0;
    for (const std::uint32_t lane : s_.running.order()) {
      const Row row = s_.running.Look(lane);
      if (row.state == RowState::kFree || row.state == RowState::kLeaving) continue;
      AddBlocks(s_.table[row.slot], row.blocks);
    }
  }

  EngineState& s_;
  const Kv& kv_;
  Uses running_ = {}, asked_ = {};  // rows, and requests that the oracle was not yet asked about, by class
  std::array<std::int64_t, kMostClasses> blocks_ = {};
  std::array<Line, kMostClasses + 1> lines_ = {};  // waiting requests by class + 1
  std::vector<Place> places_;  // by slot
  std::vector<Slot> in_order_;  // scratch memory of VisitOpen
  std::array<TimePoint, kMostClasses> until_ = MakeUnset();  // ends of soft ceilings
  IdTable<TenantId, Tenant> tenants_;  // with tenant_kv_share
  std::uint32_t held_ = 0;  // bit i: the ceiling of class i held in this plan
  bool read_ = false;
  std::uint64_t version_ = 0;

  static constexpr std::array<TimePoint, kMostClasses> MakeUnset() {
    std::array<TimePoint, kMostClasses> times;
    times.fill(kUnset);
    return times;
  }
};

inline bool EngineState::KeptOut(const Record& record) const {
  return !queue.Admits(record.state, now) || (ceilings != nullptr && !ceilings->Admits(record));
}

inline WaitsFor EngineState::PassedOverFor(const Record& record) const {
  const Request& r = record.state.request;
  if (record.lane != kNoLane || record.transit != Transit::kNone) return WaitsFor::kMove;
  if (r.sequences > budget.limits.max_seqs) return WaitsFor::kSequences;
  if (r.sequences > budget.limits.tokens.value && record.cpu_blocks == 0) return WaitsFor::kBudget;
  if (!queue.Admits(record.state, now)) return WaitsFor::kDeclined;
  if (ceilings != nullptr && !ceilings->Admits(record)) return WaitsFor::kCeiling;
  if (r.adapter && !adapters.Fits(r.adapter, budget.limits.adapters)) return WaitsFor::kAdapter;
  return WaitsFor::kNothing;
}

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_CEILINGS_H_
