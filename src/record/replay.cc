// Replays a log and compares the plans.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "record/text.h"
#include "takt/turns/gates/registry.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/record.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler.h"

namespace takt {

LogAnswer ReplayOracle::Next(OracleQuestion question) const {
  LogAnswer answer;
  if (answers_.empty() || answers_.front().question != question) {
    diverged_ = true;
    return answer;
  }
  answer = std::move(answers_.front());
  answers_.pop_front();
  answer.value = std::max(answer.value, 0);
  return answer;
}

void ReplayOracle::Reserve(StepId, std::span<KvReservation> wishes) {
  const LogAnswer answer = Next(OracleQuestion::kReserve);
  diverged_ |= answer.granted.size() != wishes.size();
  const auto says = [](const std::vector<bool>& list, std::size_t i) { return i < list.size() && list[i]; };
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    wishes[i].granted = says(answer.granted, i);
    if (says(answer.for_ever, i)) wishes[i].refusal = KvRefusal::kForEver;
  }
}

namespace {

using internal::TextOf;

template <class T>
std::string Differ(std::string_view name, const T& logged, const T& replayed) {
  return logged == replayed ? std::string()
                            : TextOf(name, ": ", TextOf(logged), " logged, ", TextOf(replayed), " replayed");
}

// Lists the elements that differ between two lists, one per line.
template <class T>
std::string DifferIn(std::string_view name, std::span<const T> logged, std::span<const T> replayed) {
  constexpr std::size_t kMostShown = 20;
  std::string text;
  std::size_t n = 0;
  for (std::size_t i = 0; i < std::max(logged.size(), replayed.size()); ++i) {
    const T* a = i < logged.size() ? &logged[i] : nullptr;
    const T* b = i < replayed.size() ? &replayed[i] : nullptr;
    if ((a != nullptr && b != nullptr && *a == *b) || ++n > kMostShown) continue;
    text += TextOf(n > 1 ? "\n" : "", name, "[", i, "]: ", a == nullptr ? "nothing" : TextOf(*a), " logged, ",
                   b == nullptr ? "nothing" : TextOf(*b), " replayed");
  }
  return n > kMostShown ? text + TextOf("\n", name, ": ", n - kMostShown, " more") : text;
}

// Joins the texts that are not empty, one or more lines each.
std::string Lines(std::initializer_list<std::string> texts) {
  std::string all;
  for (const std::string& text : texts) {
    if (!text.empty()) all.append(all.empty() ? "" : "\n").append(text);
  }
  return all;
}

// Returns the differences between two plans; empty if they are equal.
std::string Compare(const PlanDigest& logged, const PlanDigest& replayed) {
  const auto list = [](std::string_view name, std::uint64_t a, std::uint64_t b) {
    return a == b ? std::string() : TextOf(name, ": different content");
  };
  return Lines({Differ("id", logged.id, replayed.id), Differ("entries", logged.entries, replayed.entries),
                list("run", logged.run, replayed.run), list("moves", logged.moves, replayed.moves),
                list("preempted", logged.preempted, replayed.preempted), list("failed", logged.failed, replayed.failed),
                list("released", logged.released, replayed.released), Differ("tokens", logged.tokens, replayed.tokens),
                Differ("idle", logged.idle, replayed.idle), Differ("wake_at", logged.wake_at, replayed.wake_at)});
}

std::string Compare(const KeptPlan& logged, const StepPlan& replayed) {
  const auto list = []<class T>(std::string_view name, const std::vector<T>& a, const auto& b) {
    return DifferIn(name, std::span<const T>(a), std::span<const T>(b));
  };
  return Lines({list("run", logged.run, replayed.run), list("moves", logged.moves, replayed.moves),
                list("preempted", logged.preempted, replayed.preempted), list("failed", logged.failed, replayed.failed),
                list("released", logged.released, replayed.released)});
}

std::string Compare(const LogStep& logged, const StepPlan& replayed) {
  if (logged.plan) {
    const std::string lists = Compare(*logged.plan, replayed);
    if (!lists.empty()) return lists;
  }
  const std::string parts = Compare(logged.digest, Digest(replayed));
  if (parts.empty() || logged.plan) return parts;
  return parts + "\n(the log has only digests of plans; record with RecorderOptions::plan_contents to compare entries)";
}

// One replay: passes the records of a reader to a scheduler.
class Replayer {
 public:
  Replayer(std::string_view bytes, LogReader reader, const LogReplayOptions& options)
      : bytes_(bytes), reader_(reader), options_(options) {}

  absl::StatusOr<LogReplay> Run() {
    if (absl::Status status = Advance(); !status.ok()) return status;
    while (record_ && !replay_.difference) {
      absl::Status status = std::visit([this](auto& r) { return Do(r); }, *record_);
      if (!status.ok()) return status;
    }
    replay_.truncated = reader_.truncated();
    if (scheduler_) replay_.stats = scheduler_->stats();
    return std::move(replay_);
  }

 private:
  // Reads the next record into record_.
  absl::Status Advance() {
    replay_.bytes = offset_ = reader_.offset();
    auto next = reader_.Next();
    if (!next.ok()) return next.status();
    record_ = *std::move(next);
    return absl::OkStatus();
  }

  // Reads the next record, and prepares the oracle's answers to the previous operation.
  absl::Status Prepare() {
    absl::Status status = Advance();
    for (; status.ok() && record_ && std::holds_alternative<LogAnswer>(*record_); status = Advance()) {
      oracle_->Feed(std::get<LogAnswer>(std::move(*record_)));
    }
    return status;
  }

  // The log ends after an operation, possibly before all answers of the oracle to it. That operation is not replayed.
  bool CutOff() const { return !record_ && scheduler_->options().kv == KvMode::kOracle; }

  absl::Status OutOfPlace(std::string_view what) const {
    return absl::DataLossError(TextOf("log record at byte ", offset_, ": ", what));
  }

  void Note(std::string difference) {
    if (!difference.empty() && !replay_.difference) replay_.difference = {step_, now_, std::move(difference)};
  }

  void CheckOracle() {
    if (oracle_->diverged()) return Note("the scheduler asked the oracle a different question");
    if (oracle_->unasked() > 0) Note("the scheduler asked the oracle fewer questions");
  }

  absl::Status Do(LogStart& start) {
    if (scheduler_) return OutOfPlace("second start record");
    // Reserved storage affects no decision. A log may reserve as much as the requests in its bytes need.
    const std::int64_t most_reserved = std::min<std::int64_t>(1 << 16, std::ssize(bytes_) / kLeastRequestBytes);
    const LogStart s = std::move(start);
    SchedulerOptions options = s.options;
    options.reserve_requests = std::min(options.reserve_requests, most_reserved);
    auto policy = MakeAnyPolicy(s.policy);
    if (!policy.ok()) return policy.status();
    auto pause = options_.make_pause ? options_.make_pause(s.pause) : MakePause(s.pause);
    if (!pause.ok()) return pause.status();
    if (absl::Status status = Prepare(); !status.ok()) return status;
    auto scheduler = Scheduler::Create(options, *std::move(policy), *std::move(pause),
                                       options.kv == KvMode::kOracle ? oracle_.get() : nullptr);
    if (!scheduler.ok()) return scheduler.status();
    scheduler_.emplace(*std::move(scheduler));
    scheduler_->HandleFaults({[](void* to, const Fault& fault) {
                                auto& faults = *static_cast<std::vector<Fault>*>(to);
                                if (faults.size() < LogReplay::kMostFaults) faults.push_back(fault);
                              },
                              &replay_.faults});
    CheckOracle();
    return absl::OkStatus();
  }

  absl::Status Do(LogEvent& logged) {
    if (!scheduler_) return OutOfPlace("event before the start record");
    const LogEvent e = std::move(logged);
    std::optional<AnyPolicy> policy;
    if (const auto* change = std::get_if<LogPolicy>(&e.event)) {
      auto made = MakeAnyPolicy(change->policy);
      if (!made.ok()) return made.status();
      policy = *std::move(made);
    }
    std::optional<SchedulerOptions> changed;
    if (const auto* set = std::get_if<LogOptions>(&e.event)) {
      changed = set->options;
      changed->reserve_requests = scheduler_->options().reserve_requests;
      if (absl::Status status = scheduler_->options().ValidateChange(*changed); !status.ok()) return status;
    }
    if (const auto* set = std::get_if<LogRetention>(&e.event)) {
      if (absl::Status status = SetRetention(*set); !status.ok()) return status;
    }
    if (absl::Status status = Prepare(); !status.ok() || CutOff()) return status;
    now_ = e.now;
    if (policy) {
      scheduler_->ChangePolicy(*policy, e.now);
    } else if (changed) {
      if (absl::Status status = scheduler_->SetOptions(*changed, e.now); !status.ok()) return status;
    } else {
      std::visit(
          [&]<class E>(const E& event) {
            if constexpr (std::constructible_from<Event, E> || std::same_as<E, Epoch>) scheduler_->On(event, e.now);
          },
          e.event);
    }
    ++replay_.events;
    CheckOracle();
    return absl::OkStatus();
  }

  // The log holds only calls that the recorded scheduler accepted.
  absl::Status SetRetention(const LogRetention& set) {
    const ReturnTimesOptions& times = set.times;
    const auto meant = [](double x) { return x >= 0 && x <= 1e15; };
    if (times.classes > LogRetention::kMostClasses || !meant(times.window) || !meant(times.prior_weight)) {
      return OutOfPlace(TextOf("invalid return times: ", times));
    }
    auto retention = options_.make_retention ? options_.make_retention(set.retention) : MakeRetention(set.retention);
    if (!retention.ok()) return retention.status();
    auto gate = options_.make_gate ? options_.make_gate(set.gate) : MakeGate(set.gate);
    if (!gate.ok()) return gate.status();
    replay_.retention = set.retention, replay_.gate = set.gate;
    return scheduler_->SetRetention(*retention, *gate, times);
  }

  absl::Status Do(LogPlan& logged) {
    if (!scheduler_) return OutOfPlace("plan before the start record");
    const LogPlan p = logged;
    if (absl::Status status = Prepare(); !status.ok() || CutOff()) return status;
    now_ = p.now;
    const StepPlan& plan = scheduler_->Plan(p.now, p.limits);
    ++replay_.plans;
    if (!record_) return absl::OkStatus();
    if (!std::holds_alternative<LogStep>(*record_)) return OutOfPlace("plan without an answer");
    const LogStep step = std::get<LogStep>(std::move(*record_));
    step_ = step.digest.id;
    ++replay_.plans_compared;
    Note(Compare(step, plan));
    CheckOracle();
    return Advance();
  }

  absl::Status Do(LogStep&) { return OutOfPlace("answer without a plan"); }

  absl::Status Do(LogCommit& logged) {
    if (!scheduler_) return OutOfPlace("commit before the start record");
    const LogCommit c = std::move(logged);
    if (absl::Status status = Prepare(); !status.ok() || CutOff()) return status;
    now_ = c.now;
    scheduler_->Commit({c.step, c.rows, c.rest_as_planned}, c.now);
    ++replay_.commits;
    CheckOracle();
    return absl::OkStatus();
  }

  absl::Status Do(LogAnswer&) { return OutOfPlace("oracle's answer before the start record"); }

  absl::StatusOr<AnyPolicy> MakeAnyPolicy(std::string_view spec) const {
    return options_.make_policy ? options_.make_policy(spec) : MakePolicy(spec);
  }

  static constexpr std::int64_t kLeastRequestBytes =
      10;  // bytes of a record: 7 of its frame, then time, kind and fields

  std::string_view bytes_;
  LogReader reader_;
  const LogReplayOptions& options_;
  std::unique_ptr<ReplayOracle> oracle_ = std::make_unique<ReplayOracle>();
  std::optional<Scheduler> scheduler_;
  std::optional<LogRecord> record_;  // next record
  std::size_t offset_ = 0;  // its position
  StepId step_;
  TimePoint now_{};
  LogReplay replay_;
};

}  // namespace

absl::StatusOr<LogReplay> ReplayLog(std::string_view bytes, const LogReplayOptions& options) {
  auto reader = LogReader::Open(bytes);
  if (!reader.ok()) return reader.status();
  return Replayer(bytes, *std::move(reader), options).Run();
}

}  // namespace takt
