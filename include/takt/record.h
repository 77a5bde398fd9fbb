// The log that replays: all that reached a scheduler, and what it answered. A host's bug report becomes a test.
//
//   Recorder recorder([&](std::string_view bytes) { file.write(bytes.data(), bytes.size()); });
//   auto scheduler = Recorded<Scheduler>::Create(recorder, options, policy, pause);   // used like a Scheduler
//   ...
//   recorder.Flush();
//   absl::StatusOr<LogReplay> replay = ReplayLog(bytes);   // here, or on another machine, years later
//
// The format is described in docs/howto/record.md.
#ifndef TAKT_RECORD_H_
#define TAKT_RECORD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/names.h"
#include "takt/turns/gates/any_gate.h"
#include "takt/turns/return_times.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/step.h"
#include "takt/pause/any_pause.h"
#include "takt/policy/any_policy.h"
#include "takt/turns/retention/any_retention.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/scheduler_options.h"
#include "takt/kv/kv_oracle.h"
#include "takt/state/stats.h"

namespace takt {

// ---- what a log holds -----------------------------------------------------------------------------------------

// How the scheduler was made.
struct LogStart {
  SchedulerOptions options;
  std::string policy;   // as AnyPolicy::spec() gives and MakePolicy takes it
  std::string pause;    // as AnyPause::spec() gives it
};

// ChangePolicy.
struct LogPolicy {
  std::string policy;  // as in LogStart
};
// SetRetention. Its time is that of the record before.
struct LogRetention {
  std::string retention;  // as AnyRetention::spec() gives and MakeRetention takes it
  std::string gate;       // as AnyGate::spec() gives and MakeGate takes it
  ReturnTimesOptions times;
  static constexpr std::uint32_t kMostClasses = 4096;  // of times that a replay makes
};
// All that is no plan and no commit. A place in it is a number of the log's format.
using LoggedEvent = std::variant<Arrived, Revised, Blocked, Unblocked, ToolCalled, ToolReturned, Cancelled, MoveDone,
                                 KvFreed, LogPolicy, Drain, Epoch, NotReady, KvArrived, KvLost, KvPinned, TurnEnded,
                                 WorkflowEnded, LogRetention, TurnExpected>;

struct LogEvent {
  TimePoint now{};
  LoggedEvent event;
  std::shared_ptr<const std::vector<std::uint64_t>> hashes = {};  // which an Arrived sees
};

struct LogPlan {
  TimePoint now{};
  StepLimits limits;
};

// A plan in brief: a 64-bit hash of each part, 0 where it is empty.
struct PlanDigest {
  StepId id{};
  Tokens tokens{0};
  Idle idle = Idle::kNoRequests;
  TimePoint wake_at = kNever;
  std::int64_t entries = 0;
  std::uint64_t run = 0, moves = 0, preempted = 0, failed = 0, released = 0;

  friend bool operator==(const PlanDigest&, const PlanDigest&) = default;
};

// A StepPlan that owns all its parts.
struct KeptPlan {
  StepId id{};
  std::vector<PlanEntry> run{};
  std::vector<KvMove> moves{};
  std::vector<Preemption> preempted{};
  std::vector<Failure> failed{};
  std::vector<RequestId> released{};
  Tokens tokens{0};
  Idle idle = Idle::kNoRequests;
  TimePoint wake_at = kNever;

  StepPlan view() const { return {id, run, moves, preempted, failed, released, tokens, idle, wake_at}; }
};

PlanDigest Digest(const StepPlan& plan);
// All that a log holds of it, which is not what was dropped from a prefix cache.
KeptPlan Keep(const StepPlan& plan);

// What the scheduler answered to the Plan before it; the plan itself where the recorder was asked to keep it.
struct LogStep {
  PlanDigest digest;
  std::optional<KeptPlan> plan;
};

struct LogCommit {
  TimePoint now{};
  StepId step;
  std::vector<RowResult> rows;
  bool rest_as_planned = false;
};

enum class OracleQuestion : std::uint8_t {
  kBlockTokens,
  kTotalBlocks,
  kFreeBlocks,
  kPendingBlocks,
  kCachedTokens,
  kReserve,
  kRelease,
};
constexpr auto NamesOf(OracleQuestion) {
  return std::to_array<std::string_view>(
      {"block_tokens", "total_blocks", "free_blocks", "pending_blocks", "cached_tokens", "reserve", "release"});
}

// What the host's KvOracle answered to a question of the operation (start, event, plan, commit) before it.
struct LogAnswer {
  OracleQuestion question = OracleQuestion::kBlockTokens;
  std::int32_t value = 0;     // tokens or blocks
  std::vector<bool> granted;   // kReserve: of each wish
  std::vector<bool> for_ever;  // and whether it is refused so; of none where that is empty
};

using LogRecord = std::variant<LogStart, LogEvent, LogPlan, LogStep, LogCommit, LogAnswer>;

namespace internal {
// What later records are told relative to.
struct LogContext {
  TimePoint now{};              // of the last operation
  StepLimits limits;            // of the last plan
  std::vector<RowResult> rows;  // of the last commit
};
}  // namespace internal

// ---- writing --------------------------------------------------------------------------------------------------

struct RecorderOptions {
  bool plan_contents = false;             // whole plans instead of their digests: about five bytes per entry more
  std::size_t flush_bytes = 64 * 1024;    // the sink is called when so much has come together
};

// Writes one scheduler's log. Without a sink, the log stays in bytes(). The sink is called from inside On, Plan and
// Commit of the scheduler being recorded, or from Flush. What was asked is written before the scheduler is called,
// so that a log whose host died in the middle shows the last question.
class Recorder {
 public:
  using Sink = std::function<void(std::string_view)>;

  explicit Recorder(Sink sink = nullptr, RecorderOptions options = {});

  void Start(const SchedulerOptions& options, std::string_view policy, std::string_view pause);
  void Refused();  // the scheduler of the last Start was not created: removes its records from the log
  void On(const Event& event, TimePoint now);
  void On(const Epoch& epoch, TimePoint now);
  void ChangePolicy(const AnyPolicy& policy, TimePoint now);
  void SetRetention(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times);
  void Plan(TimePoint now, const StepLimits& limits);
  void Planned(const StepPlan& plan);
  void Commit(const StepResult& result, TimePoint now);
  void Done();  // the operation is over: answers from here on belong to none and are not written

  void Answer(OracleQuestion question, std::int32_t value);
  void Answer(std::span<const KvReservation> reserved);

  // Hands all that is buffered to the sink.
  void Flush();

  // What the sink has not been given yet.
  std::string_view bytes() const { return buffer_; }

 private:
  void Begin(TimePoint now);
  template <class E>
  void PutEvent(const E& event, TimePoint now);
  void Append(std::uint8_t kind);  // frames body_

  Sink sink_;
  RecorderOptions options_;
  std::string buffer_;
  std::string body_;
  internal::LogContext context_;
  LogAnswer reserved_;
  std::optional<std::size_t> start_;  // in buffer_, of a Start that is not over: until then the sink is not called
  bool in_operation_ = false;
};

// Hands every question on, and writes the answer down.
class RecordedOracle final : public KvOracle {
 public:
  RecordedOracle(KvOracle& oracle, Recorder& recorder) : oracle_(oracle), recorder_(recorder) {}

  Tokens block_tokens() const override { return Note(OracleQuestion::kBlockTokens, oracle_.block_tokens()); }
  KvSnapshot Snapshot() const override {
    const KvSnapshot now = oracle_.Snapshot();
    Note(OracleQuestion::kTotalBlocks, now.total), Note(OracleQuestion::kFreeBlocks, now.free);
    Note(OracleQuestion::kPendingBlocks, now.pending);
    return now;
  }
  void CachedTokens(std::span<KvHit> hits) override {
    oracle_.CachedTokens(hits);
    for (const KvHit& hit : hits) Note(OracleQuestion::kCachedTokens, hit.tokens);
  }
  void Reserve(StepId step, std::span<KvReservation> wishes) override {
    oracle_.Reserve(step, wishes);
    recorder_.Answer(wishes);
  }
  Blocks Release(RequestId request, KvAction action) override {
    return Note(OracleQuestion::kRelease, oracle_.Release(request, action));
  }

 private:
  template <class Count>
  Count Note(OracleQuestion question, Count answer) const {
    recorder_.Answer(question, answer.value);
    return answer;
  }

  KvOracle& oracle_;
  Recorder& recorder_;
};

// A scheduler that is recorded, or, without a recorder, just that scheduler. The recorder and the oracle, where there
// are any, must outlive it.
template <class SchedulerT>
class Recorded {
 public:
  // As SchedulerT::Create. A creation that fails leaves nothing in the log.
  template <class Policy, class Pause = KeepAll>
  static absl::StatusOr<Recorded> Create(Recorder* recorder, const SchedulerOptions& options, Policy policy,
                                         Pause pause = {}, KvOracle* oracle = nullptr) {
    std::unique_ptr<RecordedOracle> recorded;
    if (recorder != nullptr) {
      recorder->Start(options, AnyPolicy(policy).spec(), AnyPause(pause).spec());
      if (oracle != nullptr) recorded = std::make_unique<RecordedOracle>(*oracle, *recorder);
    }
    auto scheduler =
        SchedulerT::Create(options, std::move(policy), std::move(pause), recorded ? recorded.get() : oracle);
    if (recorder != nullptr) scheduler.ok() ? recorder->Done() : recorder->Refused();
    if (!scheduler.ok()) return scheduler.status();
    return Recorded(recorder, std::move(recorded), *std::move(scheduler));
  }

  template <class Policy, class Pause = KeepAll>
  static absl::StatusOr<Recorded> Create(Recorder& recorder, const SchedulerOptions& options, Policy policy,
                                         Pause pause = {}, KvOracle* oracle = nullptr) {
    return Create(&recorder, options, std::move(policy), std::move(pause), oracle);
  }

  Ignored On(const Event& event, TimePoint now) {
    if (recorder_ != nullptr) recorder_->On(event, now);
    const Ignored ignored = scheduler_.On(event, now);
    if (recorder_ != nullptr) recorder_->Done();
    return ignored;
  }
  Ignored On(const Epoch& epoch, TimePoint now) {
    if (recorder_ != nullptr) recorder_->On(epoch, now);
    const Ignored ignored = scheduler_.On(epoch, now);
    if (recorder_ != nullptr) recorder_->Done();
    return ignored;
  }
  void ChangePolicy(const AnyPolicy& policy, TimePoint now)
    requires requires(SchedulerT& s) { s.ChangePolicy(policy, now); }
  {
    if (recorder_ != nullptr) recorder_->ChangePolicy(policy, now);
    scheduler_.ChangePolicy(policy, now);
    if (recorder_ != nullptr) recorder_->Done();
  }

  // What is refused changes nothing, and is not in the log.
  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate = {},
                            const ReturnTimesOptions& times = {}) {
    const absl::Status status = scheduler_.SetRetention(retention, gate, times);
    if (recorder_ != nullptr && status.ok()) {
      recorder_->SetRetention(retention, gate, times);
      recorder_->Done();
    }
    return status;
  }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits) {
    if (recorder_ != nullptr) recorder_->Plan(now, limits);
    const StepPlan& plan = scheduler_.Plan(now, limits);
    if (recorder_ != nullptr) recorder_->Planned(plan);
    return plan;
  }

  Ignored Commit(const StepResult& result, TimePoint now) {
    if (recorder_ != nullptr) recorder_->Commit(result, now);
    const Ignored ignored = scheduler_.Commit(result, now);
    if (recorder_ != nullptr) recorder_->Done();
    return ignored;
  }
  void HandleFaults(FaultHandler handler) { scheduler_.HandleFaults(handler); }

  // Hints change no plan, and are not in the log.
  void SetHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {}) {
    scheduler_.SetHints(value, times);
  }

  // Only looks, and is not in the log.
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch = 0) {
    return scheduler_.ExplainHeld(workflow, branch);
  }
  // For all that only looks: stats, Explain, kv and counts.
  const SchedulerT& scheduler() const { return scheduler_; }

 private:
  Recorded(Recorder* recorder, std::unique_ptr<RecordedOracle> oracle, SchedulerT scheduler)
      : recorder_(recorder), oracle_(std::move(oracle)), scheduler_(std::move(scheduler)) {}

  Recorder* recorder_;                      // may be null
  std::unique_ptr<RecordedOracle> oracle_;  // at an address that stays
  SchedulerT scheduler_;
};

// ---- reading --------------------------------------------------------------------------------------------------

// Reads a log record by record. `bytes` must stay valid while it is used.
class LogReader {
 public:
  // InvalidArgument where this is no log, or one of a version that this library does not know.
  static absl::StatusOr<LogReader> Open(std::string_view bytes);

  // The next record; nothing at the end of the log, or where it is cut off. DataLoss, naming the byte offset of the
  // record, where it is damaged; the reader stays there.
  absl::StatusOr<std::optional<LogRecord>> Next();

  std::size_t offset() const { return at_; }   // of the next record
  bool truncated() const { return truncated_; }  // the log ended in the middle of a record

 private:
  explicit LogReader(std::string_view bytes) : bytes_(bytes) {}
  absl::Status Damaged(std::string_view why) const;

  std::string_view bytes_;
  std::size_t at_ = 0;
  internal::LogContext context_;
  bool truncated_ = false;
};

// Answers as the log says, in its order.
class ReplayOracle final : public KvOracle {
 public:
  void Feed(LogAnswer answer) { answers_.push_back(std::move(answer)); }

  // True where the scheduler asked otherwise than when it was recorded; its answers were zero then.
  bool diverged() const { return diverged_; }
  std::size_t unasked() const { return answers_.size(); }

  Tokens block_tokens() const override { return {std::max(1, Next(OracleQuestion::kBlockTokens).value)}; }
  KvSnapshot Snapshot() const override {
    const Blocks total{Next(OracleQuestion::kTotalBlocks).value}, free{Next(OracleQuestion::kFreeBlocks).value};
    return {total, free, {Next(OracleQuestion::kPendingBlocks).value}};
  }
  void CachedTokens(std::span<KvHit> hits) override {
    for (KvHit& hit : hits) hit.tokens = {Next(OracleQuestion::kCachedTokens).value};
  }
  void Reserve(StepId, std::span<KvReservation> wishes) override;
  Blocks Release(RequestId, KvAction) override { return {Next(OracleQuestion::kRelease).value}; }

 private:
  LogAnswer Next(OracleQuestion question) const;

  mutable std::deque<LogAnswer> answers_;
  mutable bool diverged_ = false;
};

// Where the policies of a log come from; by default the registries of this library.
struct LogReplayOptions {
  std::function<absl::StatusOr<AnyPolicy>(std::string_view spec)> make_policy;
  std::function<absl::StatusOr<AnyPause>(std::string_view name)> make_pause;
  std::function<absl::StatusOr<AnyRetention>(std::string_view spec)> make_retention = nullptr;
  std::function<absl::StatusOr<AnyGate>(std::string_view spec)> make_gate = nullptr;
};

struct LogReplay {
  struct Difference {
    StepId step;       // the logged plan that did not come out again
    TimePoint now{};
    std::string what;  // which entries of which list, logged and replayed, one a line
  };

  std::int64_t events = 0;
  std::int64_t plans = 0;
  std::int64_t commits = 0;
  std::int64_t plans_compared = 0;       // all but a last one whose answer was cut off
  std::optional<Difference> difference;  // the first; the replay ends there
  bool truncated = false;                // the log ended in the middle of a record
  std::size_t bytes = 0;                 // of the log that were replayed
  Stats stats;                           // of the scheduler, at the end
  std::string retention, gate;           // that were set; empty: none were
  static constexpr std::size_t kMostFaults = 1000;
  std::vector<Fault> faults;  // what the host said and cannot be: the first of stats.faults()
};

// Builds the scheduler anew and does all again. A log that is cut off is replayed up to the cut. Errors: not a log,
// damaged (with the byte offset), options or a policy that cannot be made.
absl::StatusOr<LogReplay> ReplayLog(std::string_view bytes, const LogReplayOptions& options = {});

// The log for people: one line a record, without its end. What stands before damage is given out before the error.
absl::Status DumpLog(std::string_view bytes, const std::function<void(std::string_view line)>& out);

}  // namespace takt

#endif  // TAKT_RECORD_H_
