// A log of all input and output of a scheduler, which can be replayed. A log turns a host's bug report into a test.
//
//   Recorder recorder([&](std::string_view bytes) { file.write(bytes.data(), bytes.size()); });
//   auto scheduler = Recorded<Scheduler>::Create(recorder, options, policy, pause);   // used like a Scheduler
//   ...
//   recorder.Flush();
//   absl::StatusOr<LogReplay> replay = ReplayLog(bytes);   // here, or on another machine, years later
//
// docs/howto/record.md describes the format.
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
#include "takt/state/transition.h"

namespace takt {

// ---- contents of a log ----------------------------------------------------------------------------------------

// Creation of the scheduler.
struct LogStart {
  SchedulerOptions options;
  std::string policy;  // AnyPolicy::spec(), which MakePolicy accepts
  std::string pause;  // AnyPause::spec()
};

// A call of ChangePolicy.
struct LogPolicy {
  std::string policy;  // as in LogStart
};
// A call of SetOptions that was accepted.
struct LogOptions {
  SchedulerOptions options;
};
// A call of SetRetention. Its time is that of the previous record.
struct LogRetention {
  std::string retention;  // AnyRetention::spec(), which MakeRetention accepts
  std::string gate;  // AnyGate::spec(), which MakeGate accepts
  ReturnTimesOptions times;
  static constexpr std::uint32_t kMostClasses = 4096;  // maximum classes of return times that a replay creates
};
// Logged calls except Plan and Commit. The index of an alternative is its number in the log format.
using LoggedEvent = std::variant<Arrived, Revised, Blocked, Unblocked, ToolCalled, ToolReturned, Cancelled, MoveDone,
                                 KvFreed, LogPolicy, Drain, Epoch, NotReady, KvArrived, KvLost, KvPinned, TurnEnded,
                                 WorkflowEnded, LogRetention, TurnExpected, LogOptions>;

struct LogEvent {
  TimePoint now{};
  LoggedEvent event;
  std::shared_ptr<const std::vector<std::uint64_t>> hashes = {};  // storage of the hashes of an Arrived
};

struct LogPlan {
  TimePoint now{};
  StepLimits limits;
};

// Digest of a plan: a 64-bit hash of each of the plan's parts; 0: the part is empty.
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
// Copies the logged parts of a plan, which do not include `dropped`.
KeptPlan Keep(const StepPlan& plan);

// The result of the preceding Plan; the whole plan if RecorderOptions::plan_contents is set.
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

// An answer of the host's KvOracle during the preceding operation (start, event, plan or commit).
struct LogAnswer {
  OracleQuestion question = OracleQuestion::kBlockTokens;
  std::int32_t value = 0;  // tokens or blocks
  std::vector<bool> granted;  // kReserve: whether each wish was granted
  std::vector<bool> for_ever;  // kReserve: whether each refusal is permanent; empty: none
};

using LogRecord = std::variant<LogStart, LogEvent, LogPlan, LogStep, LogCommit, LogAnswer>;

namespace internal {
// Values to which later records are encoded as differences.
struct LogContext {
  TimePoint now{};  // time of the last operation
  StepLimits limits;  // limits of the last plan
  std::vector<RowResult> rows;  // rows of the last commit
};
}  // namespace internal

// ---- writing --------------------------------------------------------------------------------------------------

struct RecorderOptions {
  bool plan_contents = false;  // true: the log contains whole plans, not digests, with about 5 more bytes per entry
  std::size_t flush_bytes = 64 * 1024;  // number of buffered bytes at which the sink is called
};

// Writes the log of one scheduler. Without a sink, bytes() returns the log. The sink is called during On, Plan and
// Commit of the recorded scheduler, and by Flush. Input is written before the scheduler is called. If the host crashes
// in a call, the log ends with that call.
class Recorder {
 public:
  using Sink = std::function<void(std::string_view)>;

  explicit Recorder(Sink sink = nullptr, RecorderOptions options = {});

  void Start(const SchedulerOptions& options, std::string_view policy, std::string_view pause);
  void Refused();  // creation failed: removes the records since Start
  void On(const Event& event, TimePoint now);
  void On(const Epoch& epoch, TimePoint now);
  void ChangePolicy(const AnyPolicy& policy, TimePoint now);
  void SetOptions(const SchedulerOptions& options, TimePoint now);
  void SetRetention(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times);
  void Plan(TimePoint now, const StepLimits& limits);
  void Planned(const StepPlan& plan);
  void Commit(const StepResult& result, TimePoint now);
  void Done();  // ends an operation, so later answers are not written

  void Answer(OracleQuestion question, std::int32_t value);
  void Answer(std::span<const KvReservation> reserved);

  // Passes all buffered bytes to the sink.
  void Flush();

  // Returns the bytes that the sink has not received yet.
  std::string_view bytes() const { return buffer_; }

 private:
  void Begin(TimePoint now);
  template <class E>
  void PutEvent(const E& event, TimePoint now);
  void Append(std::uint8_t kind);  // adds body_ to the log as one record

  Sink sink_;
  RecorderOptions options_;
  std::string buffer_;
  std::string body_;
  internal::LogContext context_;
  LogAnswer reserved_;
  std::optional<std::size_t> start_;  // position of an unfinished Start in buffer_, which the sink does not get yet
  bool in_operation_ = false;
};

// Forwards all questions, and records the answers.
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

// A scheduler whose calls a recorder logs; null: no log. Recorder and oracle must outlive the scheduler.
template <class SchedulerT>
class Recorded {
 public:
  // Same as SchedulerT::Create. A failed creation is not logged.
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

  // A rejected call has no effect and is not logged.
  absl::Status SetOptions(const SchedulerOptions& options, TimePoint now) {
    absl::Status status = scheduler_.SetOptions(options, now);
    if (recorder_ != nullptr && status.ok()) {
      recorder_->SetOptions(options, now);
      recorder_->Done();
    }
    return status;
  }
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
  void Watch(Observer observer) { scheduler_.Watch(observer); }

  // SetHints is not logged, since hints do not change what runs.
  void SetHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {}) {
    scheduler_.SetHints(value, times);
  }

  // ExplainHeld is not logged, since it changes nothing.
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch = 0) {
    return scheduler_.ExplainHeld(workflow, branch);
  }
  // Access to const functions: stats, Explain, kv and counts.
  const SchedulerT& scheduler() const { return scheduler_; }

 private:
  Recorded(Recorder* recorder, std::unique_ptr<RecordedOracle> oracle, SchedulerT scheduler)
      : recorder_(recorder), oracle_(std::move(oracle)), scheduler_(std::move(scheduler)) {}

  Recorder* recorder_;  // may be null
  std::unique_ptr<RecordedOracle> oracle_;  // on the heap, so that its address is stable
  SchedulerT scheduler_;
};

// ---- reading --------------------------------------------------------------------------------------------------

// Reads a log record by record. `bytes` must stay valid.
class LogReader {
 public:
  // InvalidArgument: not a log, or an unknown version.
  static absl::StatusOr<LogReader> Open(std::string_view bytes);

  // Returns the next record, or nothing at the end of the log. A truncated last record also counts as the end.
  // DataLoss: the record is damaged. The error contains its byte offset, and the reader does not move on.
  absl::StatusOr<std::optional<LogRecord>> Next();

  std::size_t offset() const { return at_; }  // byte offset of the next record
  bool truncated() const { return truncated_; }  // true: the log ends within a record

 private:
  explicit LogReader(std::string_view bytes) : bytes_(bytes) {}
  absl::Status Damaged(std::string_view why) const;

  std::string_view bytes_;
  std::size_t at_ = 0;
  internal::LogContext context_;
  bool truncated_ = false;
};

// An oracle that gives the logged answers, in order.
class ReplayOracle final : public KvOracle {
 public:
  void Feed(LogAnswer answer) { answers_.push_back(std::move(answer)); }

  // Returns true if the scheduler asked other questions than the recorded ones. The answer to such a question is 0.
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

// Factories for the policies in a log; by default the registries of this library.
struct LogReplayOptions {
  std::function<absl::StatusOr<AnyPolicy>(std::string_view spec)> make_policy;
  std::function<absl::StatusOr<AnyPause>(std::string_view name)> make_pause;
  std::function<absl::StatusOr<AnyRetention>(std::string_view spec)> make_retention = nullptr;
  std::function<absl::StatusOr<AnyGate>(std::string_view spec)> make_gate = nullptr;
};

struct LogReplay {
  struct Difference {
    StepId step;  // first plan that differs from the log
    TimePoint now{};
    std::string what;  // the entries that differ, logged and replayed, one per line
  };

  std::int64_t events = 0;
  std::int64_t plans = 0;
  std::int64_t commits = 0;
  std::int64_t plans_compared = 0;  // number of compared plans; excludes a last plan with a truncated result
  std::optional<Difference> difference;  // first difference, which ends the replay
  bool truncated = false;  // true: the log ends within a record
  std::size_t bytes = 0;  // replayed bytes of the log
  Stats stats;  // counters of the scheduler at the end
  std::string retention, gate;  // retention and gate at the end; empty: never set
  static constexpr std::size_t kMostFaults = 1000;
  std::vector<Fault> faults;  // first faults of the host; stats.faults() counts all of them
};

// Rebuilds the scheduler and replays all calls. A truncated log is replayed up to its end. Returns an error if the
// bytes are not a log, or are damaged (with the byte offset), or if options or policies are invalid.
absl::StatusOr<LogReplay> ReplayLog(std::string_view bytes, const LogReplayOptions& options = {});

// Prints a log as text, one line per record. If the log is damaged, prints the records before the damage and then
// returns an error.
absl::Status DumpLog(std::string_view bytes, const std::function<void(std::string_view line)>& out);

}  // namespace takt

#endif  // TAKT_RECORD_H_
