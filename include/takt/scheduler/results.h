// Reads the results of steps.
#ifndef TAKT_SCHEDULER_RESULTS_H_
#define TAKT_SCHEDULER_RESULTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/scheduler/plain_results.h"
#include "takt/scheduler/state.h"
#include "takt/scheduler/faults.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/lives.h"

namespace takt::internal {

// Invariant: each entry of a step gets at most one result.
class Results {
 public:
  Results(EngineState& s, Faults& faults, Kv& kv, Prefixes& prefixes, Ranks& ranks, Lives& lives)
      : s_(s), faults_(faults), kv_(kv), prefixes_(prefixes), ranks_(ranks), lives_(lives) {}

  // Applies a result to the requests of its step.
  void Read(const Step& step, const StepResult& result) {
    result_of_ = result.step;

    const std::uint64_t standing_plan = step.standing_plan;
    // Token counts of standing rows are valid only if results arrive in order.
    const bool out_of_order = standing_plan != 0 && !s_.running.InOrder(standing_plan);
    if (s_.running.front() > 0 && out_of_order) s_.running.StandNoMoreFrom(0);
    std::uint64_t output = 0;
    if (result.rest_as_planned) {
      CommitExceptions(step, result.rows, output);
    } else {
      const std::size_t read = CommitInOrder(step, result.rows, output);
      if (read < step.plan.run.size() || read < result.rows.size()) CommitScattered(step, result.rows, read);
    }
    s_.stats.tokens_output += output;
    if (standing_plan != 0) s_.running.CommitStanding(standing_plan);
  }

 private:
  static constexpr std::size_t kMostSearched = 16;  // maximum exceptions that are searched without an index of entries

  // Applies results while their order is the plan's, and returns their number. A decoding row usually has one token per
  // sequence. A standing row needs no write for such a result.
  std::size_t CommitInOrder(const Step& step, std::span<const RowResult> rows, std::uint64_t& output) {
    const std::uint16_t bits = step.bits;
    const auto counting = static_cast<std::uint16_t>(bits & Row::kCounting);
    const std::span<const PlanEntry> run = step.plan.run;
    const std::size_t both = std::min(run.size(), rows.size()), standing = std::min(step.standing, both);
    const auto names = [&](std::size_t i) { return rows[i].request == run[i].request && rows[i].lane == run[i].lane; };
    const auto plain = [&](std::size_t i) { return rows[i].tokens == 1 && (rows[i].flags | rows[i].drafts) == 0; };
    std::size_t i = 0;
    if (s_.running.Undisturbed(step.standing_plan)) {
      while (i < standing) {
        const std::size_t from = i;
        i = PlainResults(run.first(standing), rows, from);
        output += i - from;
        ranks_.ReportStanding(run.subspan(from, i - from), step.standing_plan);
        if (i == standing) break;
        if (!names(i)) return i;
        Apply(run[i], rows[i], bits);
        ++i;
      }
    }
    for (; i < both; ++i) {
      const PlanEntry& entry = run[i];
      if (!names(i)) return i;
      if (i < standing && s_.running.StoodIn(entry.lane, step.standing_plan)) {
        if (plain(i)) {
          ++output;
          ranks_.ReportStanding(run.subspan(i, 1), step.standing_plan);
        } else {
          Apply(entry, rows[i], bits);
        }
        continue;
      }
      if (!plain(i) || entry.flags != PlanEntry::kSamples || entry.speculative != 0 ||
          (s_.running.Stored(entry.lane).in_flight & counting) == 0) [[unlikely]] {
        Apply(entry, rows[i], bits);
        continue;
      }
      Decoded(entry, bits, output);
    }
    return i;
  }

  // Applies the listed exceptions, and all other entries as planned, in plan order. O(entries without a standing row),
  // plus one search per exception.
  void CommitExceptions(const Step& step, std::span<const RowResult> rows, std::uint64_t& output) {
    const std::span<const PlanEntry> run = step.plan.run;
    std::vector<std::uint32_t>& index = s_.draft.entry_of_lane;  // by lane: its entry + 1, or kNamed and its row
    constexpr std::uint32_t kNamed = std::uint32_t{1} << 31;
    const bool few = rows.size() <= kMostSearched;
    const std::size_t unmoved = few && s_.running.Undisturbed(step.standing_plan) ? step.standing : 0;
    if (!few) {
      for (std::size_t i = 0; i < run.size(); ++i) index[run[i].lane] = static_cast<std::uint32_t>(i + 1);
    }
    std::array<std::pair<std::size_t, std::size_t>, kMostSearched> standing;  // entry and row
    std::size_t n_standing = 0;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const std::uint32_t lane = rows[j].lane;
      std::size_t at = lane < index.size() && (index[lane] & kNamed) == 0 ? index[lane] : run.size() + 1;
      if (at == 0 && few) {
        at = EntryOf(run, lane) + 1;
      }
      if (at == 0 || at > run.size() || run[at - 1].request != rows[j].request) {
        UnknownRow(step, rows[j]);
        continue;
      }
      index[lane] = kNamed | static_cast<std::uint32_t>(j);
      if (at <= unmoved) standing[n_standing++] = {at - 1, j};
    }
    std::ranges::sort(standing.begin(), standing.begin() + static_cast<std::ptrdiff_t>(n_standing));
    std::size_t next = 0;
    for (std::size_t i = 0; i < n_standing; ++i) {
      const auto [at, j] = standing[i];
      ranks_.ReportStanding(run.subspan(next, at - next), step.standing_plan);
      Apply(run[at], rows[j], step.bits);
      next = at + 1;
    }
    ranks_.ReportStanding(run.subspan(next, unmoved - next), step.standing_plan);
    output += unmoved - n_standing;
    const auto counting = static_cast<std::uint16_t>(step.bits & Row::kCounting);
    for (std::size_t i = unmoved; i < run.size(); ++i) {
      const PlanEntry& entry = run[i];
      if (const std::uint32_t named = index[entry.lane]; (named & kNamed) != 0) {
        Apply(entry, rows[named & ~kNamed], step.bits);
      } else if (i < step.standing && s_.running.StoodIn(entry.lane, step.standing_plan)) {
        ++output;
        ranks_.ReportStanding(run.subspan(i, 1), step.standing_plan);
      } else if (entry.flags == PlanEntry::kSamples && entry.speculative == 0 &&
                 (s_.running.Stored(entry.lane).in_flight & counting) != 0) {
        Decoded(entry, step.bits, output);
      } else {
        Apply(entry, {entry.request, entry.lane, static_cast<std::uint16_t>(entry.samples() ? 1 : 0), 0, 0}, step.bits);
      }
    }
    if (few) {
      for (const RowResult& row : rows) {
        if (row.lane < index.size()) index[row.lane] = 0;
      }
    } else {
      for (const PlanEntry& entry : run) index[entry.lane] = 0;
    }
  }

  // Returns the index of a lane's entry; run.size() if it has none. Rows are planned in order, so the entry is usually
  // near the lane's place in the order.
  std::size_t EntryOf(std::span<const PlanEntry> run, std::uint32_t lane) const {
    constexpr std::size_t kNear = 16;
    const std::size_t place = PlaceOf(s_.running.order(), lane);
    const std::size_t end = std::min(place + kNear, run.size()), begin = std::min(place - std::min(place, kNear), end);
    for (std::size_t i = end; i > begin; --i) {
      if (run[i - 1].lane == lane) return i - 1;
    }
    return static_cast<std::size_t>(std::ranges::find(run, lane, &PlanEntry::lane) - run.begin());
  }

  // Applies the rest of a result, from the first difference to the plan on. Rows may be missing, duplicate, unknown or
  // unordered. The first row with an entry's request and lane is the entry's result. Other rows have no effect.
  void CommitScattered(const Step& step, std::span<const RowResult> rows, std::size_t first) {
    const std::span<const PlanEntry> run = step.plan.run;
    for (std::size_t i = first; i < run.size(); ++i)
      s_.draft.entry_of_lane[run[i].lane] = static_cast<std::uint32_t>(i + 1);
    for (std::size_t j = first; j < rows.size(); ++j) {
      const std::uint32_t lane = rows[j].lane;
      const std::uint32_t i = lane < s_.draft.entry_of_lane.size() ? s_.draft.entry_of_lane[lane] : 0;
      if (i == 0 || run[i - 1].request != rows[j].request) {
        UnknownRow(step, rows[j]);
        continue;
      }
      s_.draft.entry_of_lane[lane] = 0;
      Apply(run[i - 1], rows[j], step.bits);
    }
    for (std::size_t i = first; i < run.size(); ++i) {
      if (std::exchange(s_.draft.entry_of_lane[run[i].lane], 0) != 0) Absent(run[i], step.bits);
    }
  }

  // Reports a result row that matches no entry.
  void UnknownRow(const Step& step, const RowResult& row) {
    const std::span<const PlanEntry> run = step.plan.run;
    Fault fault{.kind = FaultKind::kUnknownRow, .step = step.plan.id, .request = row.request, .lane = row.lane};
    fault.received = row.lane, fault.expected = -1;
    if (faults_.desk.log().wants_detail()) {
      const auto entry = std::ranges::find(run, row.request, &PlanEntry::request);
      if (entry != run.end()) fault.expected = entry->lane;
    }
    faults_.Blame(&Stats::rows_unknown, fault);
  }

  // Applies one token per sequence to a decoding row that is not standing.
  void Decoded(const PlanEntry& entry, std::uint16_t step, std::uint64_t& output) {
    Row& row = s_.running.Stored(entry.lane);
    row.computed += entry.tokens;
    row.known += entry.tokens;
    row.drafts = 0;
    ++row.generated;
    row.in_flight &= static_cast<std::uint16_t>(~step);
    output += static_cast<std::uint64_t>(entry.tokens);
    ranks_.ReportScheduled(entry, 0, entry.tokens);
  }

  void Apply(const PlanEntry& entry, const RowResult& result, std::uint16_t step) {
    if (Voided(entry, step)) return;
    Row& row = s_.running[entry.lane];
    const Slot slot = row.slot;
    if (result.failed()) {
      row.in_flight &= static_cast<std::uint16_t>(~step);
      return lives_.Fail(slot, FailReason::kHost, result.tokens);
    }
    const std::int32_t most = entry.samples() ? 1 + entry.speculative : 0;
    const std::int32_t sampled = std::min<std::int32_t>(result.tokens, most);
    const auto invalid = [&] {
      faults_.Blame(&Stats::rows_invalid, {.kind = FaultKind::kInvalidRow,
                                           .step = result_of_,
                                           .request = entry.request,
                                           .lane = entry.lane,
                                           .received = result.tokens,
                                           .expected = most});
    };
    if (sampled != result.tokens) invalid();
    if (entry.samples() && sampled == 0 && !result.finished()) {
      invalid();
      return Absent(entry, step);
    }
    Record& record = s_.table[slot];
    const bool first_token = row.generated == 0 && sampled > 0;
    row.in_flight &= static_cast<std::uint16_t>(~step);
    const std::int32_t accepted = std::max(sampled - 1, 0);
    const std::int32_t rejected = entry.speculative - accepted;
    const std::int32_t fresh = sampled > 0 ? row.sequences + accepted : 0;
    row.computed += entry.tokens + accepted;
    row.scheduled -= rejected;
    row.expected -= rejected;
    row.known += fresh;
    row.generated += sampled;
    row.drafts = result.drafts;
    if (row.drafts > 0 && row.state == RowState::kSteady) row.state = RowState::kUnsteady;
    record.state.has_run = true;
    const std::int32_t prefilled = entry.prefill() ? entry.tokens : 0;
    s_.stats.tokens_prefill += static_cast<std::uint64_t>(prefilled);
    const std::int32_t again = std::clamp(record.was_computed - entry.position, 0, entry.tokens);
    s_.stats.tokens_recomputed += static_cast<std::uint64_t>(again);
    record.recomputed = std::min(record.recomputed, INT32_MAX - again) + again;
    s_.stats.tokens_output += static_cast<std::uint64_t>(fresh);
    if (prefilled > 0 && kv_.Counts()) prefixes_.PublishPrefix(row, record);
    ranks_.ReportScheduled(entry, prefilled, fresh);
    if (first_token && s_.observer.moved != nullptr) [[unlikely]]
      s_.Report(record, RequestStatus::kRunning, TransitionReason::kFirstToken, {row.generated});
    if (result.finished()) {
      ++s_.stats.finished;
      lives_.Depart(entry.lane, KvAction::kDrop, RequestStatus::kDead, TransitionReason::kFinished);
    }
  }

  // Handles an entry without progress. Later steps in flight for the row are void.
  void Absent(const PlanEntry& entry, std::uint16_t step) {
    if (Voided(entry, step)) return;
    ++s_.stats.rows_absent;
    Row& row = s_.running[entry.lane];
    row.in_flight &= static_cast<std::uint16_t>(~step);
    s_.Void(row);
    row.drafts = 0;
    row.state = RowState::kUnsteady;
    row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
  }

  // Returns true if the row has left since this entry was planned, or if its steps in flight are void.
  bool Voided(const PlanEntry& entry, std::uint16_t step) {
    Row& row = s_.running[entry.lane];
    TAKT_ASSERT(row.request == entry.request && (row.in_flight & step) != 0);
    if (row.Counts(step)) return false;
    ++s_.stats.rows_dead;
    row.in_flight &= static_cast<std::uint16_t>(~step);
    if (row.state == RowState::kLeaving && row.in_flight == 0) lives_.Settle(row.slot);
    return true;
  }

  EngineState& s_;
  Faults& faults_;
  Kv& kv_;
  Prefixes& prefixes_;
  Ranks& ranks_;
  Lives& lives_;
  StepId result_of_ = {};  // step of the result read last
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_RESULTS_H_
