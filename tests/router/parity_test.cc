// Logs the events and decisions of the simulator's router, as a router in Go does (integrations/llm-d/fleet/log.go). A
// second router that receives the events must place alike. Go checks the same logs if TAKT_PARITY_LOGS names their
// folder.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"
#include "fmt/format.h"
#include "sim/sim_workloads.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"
#include "takt/sim/replay.h"
#include "with_rivals.h"

namespace takt {
namespace {

struct Line {
  TimePoint at;
  std::variant<RouterEvent, Placement> what;
};

// Forwards to the inner placement and remembers the events. It hides the cost models of profiles, which no fleet log
// has.
struct Spy {
  static constexpr std::string_view kName = "spy";

  static InstanceState Plain(InstanceState i) {
    i.profile = nullptr, i.instance.profile = {};
    return i;
  }
  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const {
    return inside.Score(r, Plain(i), now);
  }
  void KeyHashes(std::uint64_t seed) { inside.KeyHashes(seed); }
  void Observe(const RouterEvent& event, TimePoint now) {
    RouterEvent plain = event;
    if (auto* up = std::get_if<InstanceUp>(&plain); up != nullptr) up->instance.profile = {};
    lines->push_back({now, plain});
    inside.Observe(plain, now);
  }
  void Prepare(const RequestState& r, TimePoint now) { inside.Prepare(r, now); }
  void Up(const InstanceState& i, TimePoint now) { inside.Up(Plain(i), now); }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    lines->push_back({now, Placement{r.request.id, i.instance.id}});
    inside.Placed(r, Plain(i), now);
  }
  void Started(const RequestState& r, const InstanceState& i, TimePoint now) { inside.Started(r, Plain(i), now); }
  void Released(const RequestState& r, const InstanceState& i, TimePoint now) { inside.Released(r, Plain(i), now); }

  AnyPlacement inside;
  std::shared_ptr<std::vector<Line>> lines;
};

// Five equal instances of 20,000 tokens.
std::vector<Line> Simulated(const std::string& placement) {
  auto lines = std::make_shared<std::vector<Line>>();
  ReplayOptions options = testing::LinearSteps();
  options.instances = 5;
  options.kv_tokens = 20'000;
  options.engine.limits.max_seqs = 4;
  options.estimates = {EstimateKind::kOracle, 0};
  options.placement = Spy{*MakePlacement(placement), lines};
  const absl::StatusOr<ReplayResult> result = Replay(testing::RandomWorkload(11, 150, 20, true), options);
  REQUIRE(result.ok());
  return *lines;
}

std::string Text(const Estimate& e) {
  return fmt::format(R"({{"Mean":{},"Quantiles":[{}]}})", e.mean, fmt::join(e.quantiles, ","));
}

std::int64_t Ns(TimePoint t) { return t.time_since_epoch().count(); }

std::string Text(const Arrived& e) {
  const Request& r = e.request;
  return fmt::format(
      R"({{"arrived":{{"Request":{{"ID":{},"Workflow":{},"Stage":{},"Agent":{},"Tenant":{},"Session":{},"Branch":{},)"
      R"("Arrival":{},"WorkflowArrival":{},"Deadline":{},"ExpiresAt":{},"PromptTokens":{},"MaxOutputTokens":{},)"
      R"("Sequences":{},"Priority":{},"OutputTokens":{},"WorkflowTokensLeft":{},"After":{{"Calls":{},"PromptTokens":{},)"
      R"("OutputTokens":{},"KVSteps":{},"PathTokens":{}}},"Compute":{}}}}}}})",
      r.id.value, r.workflow.value, r.stage.value, r.agent.value, r.tenant.value, r.session.value, r.branch,
      Ns(r.arrival), Ns(r.workflow_arrival), Ns(r.deadline), Ns(r.expires_at), r.prompt_tokens.value,
      r.max_output_tokens.value, r.sequences, r.priority, Text(r.output_tokens), Text(r.workflow_tokens_left),
      r.after.calls, r.after.prompt_tokens, r.after.output_tokens, r.after.kv_steps, r.after.path_tokens,
      r.compute.count());
}
std::string Text(const Cancelled& e) { return fmt::format(R"({{"cancelled":{{"Request":{}}}}})", e.request.value); }
std::string Text(const RequestStarted& e) {
  return fmt::format(R"({{"started":{{"Request":{},"Instance":{}}}}})", e.request.value, e.instance.value);
}
std::string Text(const RequestEnded& e) {
  const TokensServed served = e.served.value_or(TokensServed{});
  return fmt::format(R"({{"ended":{{"Request":{},"Instance":{},"Failed":{},"Served":{},"Prefill":{},"Output":{}}}}})",
                     e.request.value, e.instance.value, e.failed, e.served.has_value(), served.prefill.value,
                     served.output.value);
}
std::string Text(const InstanceUp& e) {
  const Instance& i = e.instance;
  return fmt::format(R"({{"up":{{"Instance":{{"ID":{},"Model":{},"KVTokens":{},"TokenS":{}}}}}}})", i.id.value,
                     i.model.value, i.kv_tokens.value, i.token_s);
}
std::string Text(const InstanceDown& e) { return fmt::format(R"({{"down":{{"Instance":{}}}}})", e.instance.value); }
std::string Text(const InstanceReported& e) {
  return fmt::format(R"({{"reported":{{"Instance":{},"Waiting":{},"Running":{},"Preempted":{},"KVUsed":{}}}}})",
                     e.instance.value, e.report.waiting, e.report.running, e.report.preempted, e.report.kv_used.value);
}
template <class E>
std::string Text(const E&) {
  FAIL("the simulator has reported what a fleet never reports");
  return "";
}

void Write(const std::string& placement, const std::vector<Line>& lines, const char* folder) {
  std::ofstream out(std::string(folder) + "/" + placement + ".jsonl");
  for (const Line& line : lines) {
    if (const auto* placed = std::get_if<Placement>(&line.what); placed != nullptr) {
      out << fmt::format(R"({{"at":{},"placed":{{"Request":{},"Instance":{}}}}})", Ns(line.at), placed->request.value,
                         placed->instance.value);
    } else {
      const auto& event = std::get<RouterEvent>(line.what);
      const std::string text = std::visit([](const auto& e) { return Text(e); }, event);
      out << fmt::format(R"({{"at":{},"events":[{}]}})", Ns(line.at), text);
    }
    out << '\n';
  }
  REQUIRE(out.good());
}

TEST_CASE("a router with the simulator's events decides as the simulator's does") {
  for (const char* placement : {"least_loaded", "least_outstanding_tokens", "confidence_slack", "workload_balance",
                                "time_slot_packer", "session", "cached_cost", "minimum_completion_time"}) {
    INFO(placement);
    const std::vector<Line> lines = Simulated(placement);
    Router router = *Router::Create({}, *MakePolicy("fcfs"), *MakePlacement(placement));
    std::size_t compared = 0;
    for (std::size_t i = 0; i < lines.size();) {
      if (const auto* event = std::get_if<RouterEvent>(&lines[i].what); event != nullptr) {
        std::visit([&](const auto& e) { router.On(e, lines[i].at); }, *event);
        ++i;
        continue;
      }
      const std::span<const Placement> placements = router.Place(lines[i].at);
      INFO("line " << i << ", " << compared << " compared");
      REQUIRE_FALSE(placements.empty());
      for (const Placement& p : placements) {
        REQUIRE(i < lines.size());
        const auto* placed = std::get_if<Placement>(&lines[i].what);
        REQUIRE(placed != nullptr);
        CHECK(p.request == placed->request);
        CHECK(p.instance == placed->instance);
        ++i, ++compared;
      }
    }
    CHECK(compared > 300);
    if (const char* folder = std::getenv("TAKT_PARITY_LOGS"); folder != nullptr) Write(placement, lines, folder);
  }
}

}  // namespace
}  // namespace takt
