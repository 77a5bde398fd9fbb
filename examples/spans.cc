// Spans of requests as OTLP/JSON, from the transitions of a scheduler. Pipe the output to a collector's /v1/traces.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "takt/policy/fcfs.h"
#include "takt/scheduler.h"

namespace {

using namespace takt;

// One trace per request: a span for its life, and a child for each status.
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
    std::snprintf(text, sizeof text,
                  R"(%s{"traceId":"%032llx","spanId":"%016llx","parentSpanId":"%.*s","name":"%s","kind":1,)"
                  R"("startTimeUnixNano":"%lld","endTimeUnixNano":"%lld","attributes":[)"
                  R"({"key":"takt.reason","value":{"stringValue":"%s"}},)"
                  R"({"key":"takt.generated","value":{"intValue":"%d"}}]})",
                  ended_.empty() ? "" : ",", static_cast<unsigned long long>(t.request.value),
                  static_cast<unsigned long long>(span), parent == 0 ? 0 : 16, Hex(parent).c_str(), name, ns(begin),
                  ns(t.at), reason.c_str(), t.generated.value);
    ended_ += text;
  }
  static std::string Hex(std::uint64_t id) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
    return text;
  }

  std::map<std::uint64_t, Life> lives_;
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
