// Figures by class and the saturation of a queue, from transitions.
#include "takt/metrics/request_metrics.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/metrics/metrics_text.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }
double Total(const HalfOctaves& of) { return of.sum(); }
std::int64_t Count(const HalfOctaves& of) {
  const auto counts = of.counts();
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Request Prompt(std::uint64_t id, std::int32_t tokens, std::int32_t priority = 0) {
  Request r;
  r.id = {id};
  r.prompt_tokens = {tokens};
  r.priority = priority;
  return r;
}

// A scheduler with metrics.
struct Watched {
  explicit Watched(SchedulerOptions options = {}, const MetricsOptions& metrics_options = {})
      : metrics(*RequestMetrics::Create(metrics_options)), scheduler(*BasicScheduler<Fcfs>::Create(WithKv(options))) {
    scheduler.Watch(metrics->observer());
  }
  // One step at `plan`, which ends at `commit`. Requests of `finished` have their last token.
  void Step(double plan, double commit, const std::set<std::uint64_t>& finished = {}) {
    const StepPlan& made = scheduler.Plan(At(plan), {});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : made.run) {
      const bool ends = finished.contains(e.request.value);
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
    }
    if (!rows.empty()) scheduler.Commit({made.id, rows}, At(commit));
  }

  static SchedulerOptions WithKv(SchedulerOptions options) {
    options.kv_blocks = {1000};
    return options;
  }

  std::unique_ptr<RequestMetrics> metrics;
  BasicScheduler<Fcfs> scheduler;
};

TEST_CASE("times of a request are measured from its arrival, by class") {
  Watched w;
  Request r = Prompt(1, 8, 7);
  r.arrival = At(1);
  w.scheduler.On(Arrived{r}, At(1.5));
  w.Step(2, 3);
  w.Step(3, 4);
  w.scheduler.On(ToolCalled{{1}}, At(4));
  w.scheduler.On(ToolReturned{{1}, {4}}, At(14));
  w.Step(14, 15, {1});
  REQUIRE(w.metrics->classes().size() == 2);
  CHECK(w.metrics->classes()[0].arrived == 0);
  const ClassFigures& c = w.metrics->classes()[1];
  CHECK(c.label == "7");
  CHECK(Total(c.queue_s) == 1);
  CHECK(Total(c.first_token_s) == 2);
  CHECK(Total(c.end_to_end_s) == 14);
  CHECK(Total(c.token_s) == 1);  // two tokens after the first, in 12 s of which 10 s are the tool's
  CHECK(Count(c.preemptions) == 1);
  CHECK(Total(c.preemptions) == 0);
  CHECK(c.arrived == 1);
  CHECK(c.ended[static_cast<std::size_t>(TransitionReason::kFinished)] == 1);
}

TEST_CASE("at most max_classes labels are in use, and named classes come first") {
  Watched w({}, {.max_classes = 3});
  CHECK(w.metrics->Name(5, "batch\"\n"));
  CHECK(w.metrics->Name(6, "batch\"\n"));
  CHECK_FALSE(w.metrics->Name(5, "again"));
  for (std::uint64_t id = 1; id <= 100; ++id) {
    w.scheduler.On(Arrived{Prompt(id, 8, static_cast<std::int32_t>(id))}, At(1));
  }
  REQUIRE(w.metrics->classes().size() == 4);
  CHECK(w.metrics->classes()[0].label == "other");
  CHECK(w.metrics->classes()[0].arrived == 96);
  CHECK(w.metrics->classes()[1].label == "batch\"\n");
  CHECK(w.metrics->classes()[1].arrived == 2);
  CHECK(w.metrics->classes()[2].label == "1");
  CHECK_FALSE(w.metrics->Name(200, "late"));
  CHECK(w.metrics->Name(300, "other"));
}

TEST_CASE("invalid options are named") {
  CHECK(RequestMetrics::Create({.max_classes = 65}).status().message().find("max_classes") != std::string_view::npos);
  CHECK(RequestMetrics::Create({.max_requests = 0}).status().message().find("max_requests") != std::string_view::npos);
  CHECK(RequestMetrics::Create({.window_s = 0}).status().message().find("window_s") != std::string_view::npos);
}

TEST_CASE("requests beyond max_requests, and those before the observer, are counted or ignored") {
  Watched w({}, {.max_requests = 2});
  for (std::uint64_t id = 1; id <= 3; ++id) w.scheduler.On(Arrived{Prompt(id, 8)}, At(1));
  CHECK(w.metrics->unmeasured() == 1);
  CHECK(w.metrics->classes()[1].arrived == 3);
  w.Step(2, 3, {1, 2, 3});
  CHECK(w.metrics->classes()[1].ended[static_cast<std::size_t>(TransitionReason::kFinished)] == 3);
  CHECK(Count(w.metrics->classes()[1].end_to_end_s) == 2);

  const auto late = *RequestMetrics::Create({});
  w.scheduler.On(Arrived{Prompt(9, 8)}, At(4));
  w.scheduler.Watch(late->observer());
  w.scheduler.On(Cancelled{{9}}, At(5));
  CHECK(late->classes().size() == 1);
  CHECK(late->Read(At(6)).backlog_tokens == 0);
}

TEST_CASE("a quiet time does not hide a queue that grows") {
  Watched w({.max_running = 1}, {.window_s = 300});
  std::uint64_t id = 0;
  double now = 0;
  for (int i = 0; i < 20'000; ++i, now += 0.1) {  // each request waits 20 us
    w.scheduler.On(Arrived{Prompt(++id, 100)}, At(now));
    w.Step(now + 2e-5, now + 0.05, {id});
  }
  const std::uint64_t first = id + 1;
  for (int i = 0; i < 200; ++i) w.scheduler.On(Arrived{Prompt(++id, 100)}, At(now));
  for (std::uint64_t i = 0; i < 20; ++i, now += 1) w.Step(now, now + 1, {first + i});  // one per second
  CHECK(w.metrics->Read(At(now)).seconds_to_clear > 90);  // 180 requests wait
}

TEST_CASE("the queue clears at the rate at which waiting tokens got rows") {
  Watched w({.max_running = 1}, {.window_s = 1e6});
  for (std::uint64_t id = 1; id <= 10; ++id) w.scheduler.On(Arrived{Prompt(id, 100)}, At(0));
  Saturation s = w.metrics->Read(At(0));
  CHECK(s.backlog_tokens == 1000);
  CHECK(s.seconds_to_clear == Saturation::kMostSeconds);  // no request has left the queue yet
  for (int i = 0; i < 5; ++i) w.Step(2 * i, 2 * i + 2, {static_cast<std::uint64_t>(i + 1)});  // 100 tokens in 2 s
  s = w.metrics->Read(At(10), 0.25);
  CHECK(s.backlog_tokens == 500);
  CHECK(s.drain_tokens_per_s == Approx(50).epsilon(0.01));
  CHECK(s.seconds_to_clear == Approx(10).epsilon(0.01));
  CHECK(s.kv_share == 0.25);
  for (std::uint64_t id = 6; id <= 10; ++id) w.scheduler.On(Cancelled{{id}}, At(10));
  s = w.metrics->Read(At(1000));
  CHECK(s.seconds_to_clear == 0);
  CHECK(s.drain_tokens_per_s == Approx(50).epsilon(0.01));  // time without a queue does not count
}

TEST_CASE("the late share is of requests that have a deadline") {
  Watched w;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Request r = Prompt(id, 8);
    if (id <= 2) r.deadline = At(id == 1 ? 2 : 10);
    w.scheduler.On(Arrived{r}, At(0));
  }
  w.Step(1, 3, {1, 2, 3, 4});
  CHECK(w.metrics->Read(At(3)).late_share == 0.5);
}

TEST_CASE("no transition allocates") {
  Watched w({.reserve_requests = 64});
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = allocations;
    for (std::uint64_t id = 1; id <= 40; ++id) {
      w.scheduler.On(Arrived{Prompt(id, 8, round * 100 + static_cast<std::int32_t>(id))}, At(round * 10));
    }
    if (round > 0) CHECK(allocations == before);
    std::set<std::uint64_t> all;
    for (std::uint64_t id = 1; id <= 40; ++id) all.insert(id);
    w.Step(round * 10 + 1, round * 10 + 2, all);
    w.scheduler.Plan(At(round * 10 + 3), {});
  }
  CHECK(w.metrics->classes().size() == 65);
}

TEST_CASE("a router's requests are measured from arrival to instance and end") {
  auto router = *BasicRouter<Fcfs, RoundRobin>::Create({}, {}, {});
  const auto metrics = *RequestMetrics::Create({});
  router.Watch(metrics->observer());
  router.On(Arrived{Prompt(1, 100)}, At(0));
  CHECK(metrics->Read(At(1)).backlog_tokens == 100);
  router.On(InstanceUp{{.id = {1}, .kv_tokens = {1000}}}, At(2));
  router.Place(At(2));
  router.On(RequestEnded{{1}, {1}}, At(5));
  const ClassFigures& c = metrics->classes()[1];
  CHECK(Total(c.queue_s) == 2);
  CHECK(Total(c.end_to_end_s) == 5);
  CHECK(metrics->Read(At(5)).backlog_tokens == 0);
}

// The names after "# TYPE".
std::vector<std::string> NamesIn(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos;) {
    at += 7;
    names.push_back(text.substr(at, text.find(' ', at) - at));
  }
  return names;
}

TEST_CASE("every metric is in the text of a scheduler or of a router, once") {
  Watched w;
  w.scheduler.On(Arrived{Prompt(1, 8)}, At(0));
  w.Step(1, 2, {1});
  auto router = *BasicRouter<Fcfs, RoundRobin>::Create({}, {}, {});
  for (const NameStyle style : {NameStyle::kTakt, NameStyle::kVllm, NameStyle::kLlmD}) {
    MetricsText of_scheduler(style), of_router(style);
    of_scheduler.Write(FiguresOf(w.scheduler));
    of_scheduler.Write(FiguresOf(*w.metrics, At(2), KvShare(w.scheduler.kv())));
    of_router.Write(FiguresOfRouter(router));
    of_router.Write(FiguresOf(*w.metrics, At(2), 0), false);
    std::set<std::string> both;
    for (const MetricsText* text : {&of_scheduler, &of_router}) {
      const std::vector<std::string> names = NamesIn(text->text());
      const std::set<std::string> once(names.begin(), names.end());
      CHECK(once.size() == names.size());
      both.insert(once.begin(), once.end());
    }
    for (const MetricEntry& metric : kMetrics) {
      CAPTURE(metric.NameIn(style));
      CHECK(both.contains(std::string(metric.NameIn(style))));
    }
    const bool foreign = std::ranges::any_of(both, [](const std::string& name) { return !name.starts_with("takt_"); });
    CHECK(foreign == (style != NameStyle::kTakt));
  }
}

TEST_CASE("the page lists every metric with its names, unit, meaning and an alert") {
  std::ifstream file(std::filesystem::path(TAKT_SOURCE_DIR) / "docs/reference/metrics.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const auto code = [](std::string_view name) { return name.empty() ? "-" : "`" + std::string(name) + "`"; };
  for (const MetricEntry& metric : kMetrics) {
    const std::string row = "\n| " + code(metric.names[0]) + " | " + code(metric.names[1]) + " | " +
                            code(metric.names[2]) + " | " + std::string(metric.unit) + " | " +
                            std::string(metric.help) + " | ";
    CAPTURE(row);
    const std::size_t at = page.find(row);
    REQUIRE(at != std::string::npos);
    CHECK(page.find(" |\n", at + row.size()) > at + row.size() + 5);
  }
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = page.find("\n| `", at)) != std::string::npos; ++at) ++rows;
  CHECK(rows == kMetrics.size());
  for (const char* sum : {"`vllm:num_preemptions_total`", "`vllm:generation_tokens_total`"}) {
    CHECK(page.find(sum) != std::string::npos);
  }
}

TEST_CASE("labels of all samples and of the class are in the text") {
  Watched w;
  w.metrics->Name(3, "chat \"fast\"");
  w.scheduler.On(Arrived{Prompt(1, 8, 3)}, At(0));
  w.Step(1, 2, {1});
  MetricsText text(NameStyle::kVllm, {{"model_name", "tiny"}});
  text.Write(FiguresOf(*w.metrics, At(2), 0));
  CHECK(text.text().find("vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",priority=\"chat \\\"fast\\\"\","
                         "le=\"+Inf\"} 1\n") != std::string::npos);
  CHECK(text.text().find("takt_requests_ended_total{model_name=\"tiny\",priority=\"chat \\\"fast\\\"\","
                         "reason=\"finished\"} 1\n") != std::string::npos);
}

}  // namespace
}  // namespace takt
