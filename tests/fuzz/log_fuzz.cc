// Any bytes as a log, and as a log's contents with valid checksums. The reader, the dump and the replay must end. A
// second scheduler makes the same calls. They are recorded and must replay to the same plans, also at the ends of the
// clock.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "record/codec.h"
#include "record/frame.h"
#include "takt/turns/gates/registry.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/record.h"
#include "takt/rivals/rivals.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

const absl::Status kRivals = RegisterRivals();

constexpr std::uint8_t kEvent = 1, kPlan = 2, kCommit = 4;  // records with a time, in LogRecord

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void Check(std::string_view log) {
  std::size_t lines = 0;
  const absl::Status dumped = DumpLog(log, [&lines](std::string_view) { ++lines; });
  const absl::StatusOr<LogReplay> replay = ReplayLog(log);
  if (!replay.ok()) return;
  Expect(replay->bytes <= log.size(), "no more is replayed than there is");
  Expect(replay->plans_compared <= replay->plans, "what is compared has been planned");
  if (!replay->difference) Expect(dumped.ok(), "what replays to the end can be printed");
}

// A scheduler that receives all calls of a log's records. Their answers are not compared.
class Driven {
 public:
  void Do(const LogStart& start) {
    auto policy = MakePolicy(start.policy);
    auto pause = MakePause(start.pause);
    SchedulerOptions options = start.options;
    options.reserve_requests = std::min<std::int64_t>(options.reserve_requests, 64);
    if (scheduler_ || !policy.ok() || !pause.ok() || options.kv == KvMode::kOracle) return;
    auto made = Recorded<Scheduler>::Create(recorder_, options, *std::move(policy), *std::move(pause));
    if (made.ok()) scheduler_.emplace(*std::move(made));
  }
  void Do(const LogEvent& e) {
    if (!scheduler_) return;
    std::visit([&](const auto& event) { On(event, e.now); }, e.event);
  }
  void Do(const LogPlan& plan) {
    if (scheduler_) scheduler_->Plan(plan.now, plan.limits);
  }
  void Do(const LogCommit& c) {
    if (scheduler_) scheduler_->Commit({c.step, c.rows, c.rest_as_planned}, c.now);
  }
  void Do(const LogStep&) {}
  void Do(const LogAnswer&) {}

  void Check() {
    if (!scheduler_) return;
    Expect(scheduler_->scheduler().Inconsistency() == nullptr, "the scheduler is consistent");
    const auto replay = ReplayLog(recorder_.bytes());
    Expect(replay.ok() && !replay->difference, "what was recorded replays to the same plans");
  }

 private:
  template <class E>
  void On(const E& event, TimePoint now) {
    scheduler_->On(event, now);
  }
  void On(const LogPolicy& change, TimePoint now) {
    if (const auto policy = MakePolicy(change.policy); policy.ok()) scheduler_->ChangePolicy(*policy, now);
  }
  void On(const LogOptions& set, TimePoint now) { (void)scheduler_->SetOptions(set.options, now); }
  void On(const LogRetention& set, TimePoint) {
    const auto retention = MakeRetention(set.retention);
    const auto gate = MakeGate(set.gate);
    if (retention.ok() && gate.ok()) (void)scheduler_->SetRetention(*retention, *gate);
  }

  Recorder recorder_;
  std::optional<Recorded<Scheduler>> scheduler_;
};

// Reads until the log ends or is invalid.
void Drive(std::string_view log) {
  auto reader = LogReader::Open(log);
  Driven driven;
  while (reader.ok()) {
    const auto record = reader->Next();
    if (!record.ok() || !*record) break;
    std::visit([&](const auto& r) { driven.Do(r); }, **record);
  }
  driven.Check();
}

// Replaces a body's first number, its time relative to `now`. `now` becomes that time.
std::string At(TimePoint at, std::string_view body, TimePoint& now) {
  std::size_t end = 0;
  while (end < body.size() && static_cast<unsigned char>(body[end]) >= 0x80) ++end;
  std::string moved;
  internal::Writer(moved, now).Put(at, TimePoint{});
  now = at;
  return moved.append(body.substr(std::min(end + 1, body.size())));
}

// The input as records of kind, length and body, without checksums, which a fuzzer would have to guess. A nonzero high
// half of the kind sets the record's time to an end of the clock.
std::string WithChecksums(std::string_view bytes) {
  constexpr Duration kSoon = std::chrono::milliseconds(1);
  constexpr TimePoint kTimes[] = {kUnset,
                                  After(kUnset, Duration(1)),
                                  After(kUnset, kSoon),
                                  TimePoint{},
                                  Before(kNever, Times(kSoon, 1'000'000)),
                                  Before(kNever, kSoon),
                                  Before(kNever, Duration(1)),
                                  kNever};
  std::string log = std::string(internal::kLogMagic) + internal::kLogVersion;
  TimePoint now{};
  while (bytes.size() >= 2) {
    const auto first = static_cast<unsigned char>(bytes[0]);
    const auto kind = static_cast<std::uint8_t>(first & 15);
    const std::string_view body = bytes.substr(2, static_cast<unsigned char>(bytes[1]));
    bytes.remove_prefix(2 + body.size());
    if (kind != kEvent && kind != kPlan && kind != kCommit) {
      internal::AppendFrame(log, kind, body);
    } else if (first >= 16) {
      internal::AppendFrame(log, kind, At(kTimes[first / 16 % std::size(kTimes)], body, now));
    } else {
      internal::Reader(body, now).Get(now);
      internal::AppendFrame(log, kind, body);
    }
  }
  return log;
}

// The bodies of a good log's records in that form: a start for the fuzzer.
std::string WithoutChecksums(std::string_view log) {
  std::string bytes;
  if (!log.starts_with(internal::kLogMagic) || log.size() < internal::kLogHeaderBytes) return bytes;
  log.remove_prefix(internal::kLogHeaderBytes);
  for (;;) {
    const internal::Frame frame = internal::ReadFrame(log);
    if (frame.state != internal::Frame::State::kWhole || frame.body.size() > 255) return bytes;
    bytes += static_cast<char>(frame.kind);
    bytes += static_cast<char>(frame.body.size());
    bytes += frame.body;
    log.remove_prefix(frame.bytes);
  }
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  takt::Check(bytes);
  takt::Check(takt::WithChecksums(bytes));
  const std::string bodies = takt::WithoutChecksums(bytes);
  takt::Check(takt::WithChecksums(bodies));
  takt::Drive(takt::WithChecksums(bodies.empty() ? bytes : bodies));
  return 0;
}
