// Spans of requests as OTLP/JSON, from the transitions of a scheduler. Post the output to a collector's /v1/traces:
// bench/peers/peer-otlp does so with the OpenTelemetry Collector.
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "takt/policy/fcfs.h"
#include "takt/scheduler.h"

namespace {

using namespace takt;

// One trace per request: a span for its life, and a child for each status. A trace id is a number of this process,
// which differs from the numbers of other engines and of earlier runs, and the request's id.
class Spans {
 public:
  Observer observer() {
    return {[](void* spans, const Transition& t) { static_cast<Spans*>(spans)->See(t); }, this};
  }

  // Returns the ended spans as one ExportTraceServiceRequest.
  std::string Take() {
    const std::string spans = std::exchange(ended_, {});
    return R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"engine"}}]},)"
           R"("scopeSpans":[{"scope":{"name":"takt"},"spans":[)" +
           spans + "]}]}]}";
  }

 private:
  struct Life {
    std::uint64_t root = 0;
    TimePoint arrival{}, since{};
  };

  void See(const Transition& t) {
    if (t.slot == kNoSlot) return;  // refused
    if (t.from == RequestStatus::kUnknown) lives_[t.request.value] = {++last_span_, t.at, t.at};
    Life& life = lives_[t.request.value];
    if (t.from == t.to || t.from == RequestStatus::kUnknown) return;  // a first token, or the arrival
    static const char* const kNames[] = {"", "waiting", "running", "paused", "blocked"};
    Add(t, ++last_span_, life.root, kNames[static_cast<int>(t.from)], life.since);
    life.since = t.at;
    if (t.to != RequestStatus::kDead) return;
    Add(t, life.root, 0, "request", life.arrival);
    lives_.erase(t.request.value);
  }

  void Add(const Transition& t, std::uint64_t span, std::uint64_t parent, const char* name, TimePoint begin) {
    char text[512];
    const auto ns = [](TimePoint at) { return static_cast<long long>(at.time_since_epoch().count()); };
    const std::string reason(Name(t.reason));
    const bool failed = t.to == RequestStatus::kDead && t.reason > TransitionReason::kCancelled;
    std::snprintf(text, sizeof text,
                  R"(%s{"traceId":"%s%s","spanId":"%s","parentSpanId":"%s","name":"%s","kind":1,)"
                  R"("startTimeUnixNano":"%lld","endTimeUnixNano":"%lld","attributes":[)"
                  R"({"key":"takt.reason","value":{"stringValue":"%s"}},)"
                  R"({"key":"takt.generated","value":{"intValue":"%d"}}],"status":{"code":%d}})",
                  ended_.empty() ? "" : ",", Hex(process_).c_str(), Hex(t.request.value).c_str(), Hex(span).c_str(),
                  parent == 0 ? "" : Hex(parent).c_str(), name, ns(begin), ns(t.at), reason.c_str(), t.generated.value,
                  failed ? 2 : 0);
    ended_ += text;
  }
  static std::string Hex(std::uint64_t id) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
    return text;
  }

  std::map<std::uint64_t, Life> lives_;
  std::uint64_t process_ = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  std::uint64_t last_span_ = 0;
  std::string ended_;
};

}  // namespace

int main() {
  auto scheduler = BasicScheduler<Fcfs>::Create({.max_running = 1, .kv = KvMode::kNone}, Fcfs{});
  if (!scheduler.ok()) return 1;
  Spans spans;
  scheduler->Watch(spans.observer());

  TimePoint now(std::chrono::seconds(1'700'000'000));  // the host's clock: a collector expects Unix time
  for (std::uint64_t id = 1; id <= 2; ++id) scheduler->On(Arrived{{.id = {id}, .prompt_tokens = {100}}}, now);
  scheduler->On(Arrived{{.id = {3}, .expires_at = now + std::chrono::milliseconds(5), .prompt_tokens = {100}}}, now);
  while (true) {
    const StepPlan& plan = scheduler->Plan(now, {});
    if (plan.run.empty()) break;
    now += std::chrono::milliseconds(10);  // here an engine computes the plan, which ends the request
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, RowResult::kFinished});
    scheduler->Commit({plan.id, rows}, now);
  }
  std::puts(spans.Take().c_str());
}
