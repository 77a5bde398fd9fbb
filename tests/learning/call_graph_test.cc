#include "takt/learning/call_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "catch.h"
#include "fire/ids.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/learning/latency_profile.h"
#include "takt/learning/length_table.h"
#include "takt/learning/tool_profile.h"

namespace takt {
namespace {

using Edges = std::set<std::pair<std::uint64_t, std::uint64_t>>;

constexpr AgentId kUser{}, kA{1}, kB{2}, kC{3}, kD{4}, kE{5}, kF{6};

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// Workflows of one shape, as their hosts report them.
class Fleet {
 public:
  explicit Fleet(std::uint64_t seed) : random_(seed) {}

  void Begin() { ++workflow_, now_ = 1 + 600 * random_.Uniform(); }

  // Adds a call that starts after it has queued. Returns its end.
  double Call(AgentId agent, AgentId upstream, double from, double most_queue = 3) {
    const double start = from + 0.02 + most_queue * random_.Uniform();
    const double end = start + random_.LogNormal(1, 0.5);
    records_.push_back({{workflow_}, agent, upstream, At(start), At(end)});
    return end;
  }
  // In parallel, so that they overlap: at most half a second of queue, at least a second of execution.
  double Beside(AgentId agent, AgentId upstream, double from) {
    const double start = from + 0.02 + 0.5 * random_.Uniform();
    const double end = start + 1 + random_.LogNormal(1, 0.5);
    records_.push_back({{workflow_}, agent, upstream, At(start), At(end)});
    return end;
  }
  double start() const { return now_; }
  Random& random() { return random_; }

  // Shuffled. Every agent's host has a clock error of up to 2 ms. Some records are lost.
  std::vector<CallRecord> Told(double lost) {
    std::vector<CallRecord> reported;
    for (CallRecord r : records_) {
      if (random_.Chance(lost)) continue;
      const Duration skew = std::chrono::microseconds(static_cast<std::int64_t>(Mix64(r.agent.value) % 4001) - 2000);
      r.start += skew, r.end += skew;
      reported.push_back(r);
    }
    for (std::size_t i = reported.size(); i > 1; --i) std::swap(reported[i - 1], reported[random_.Below(i)]);
    return reported;
  }

 private:
  Random random_;
  std::uint64_t workflow_ = 0;
  double now_ = 0;
  std::vector<CallRecord> records_;
};

CallGraph Learn(const std::vector<CallRecord>& records, const CallGraphOptions& options = {}) {
  CallGraph graph(options);
  for (const CallRecord& r : records) graph.Add(r, At(0));
  graph.CloseAll();
  return graph;
}

Edges EdgesOf(const CallGraph& graph) {
  Edges edges;
  for (const CallEdge& e : graph.edges()) {
    edges.emplace(graph.nodes()[e.from].agent.value, graph.nodes()[e.to].agent.value);
  }
  for (const CallNode& n : graph.nodes()) {
    if (n.first > 0) edges.emplace(0, n.agent.value);
  }
  return edges;
}

const CallSiblings* Siblings(const CallGraph& graph, AgentId from, AgentId a, AgentId b) {
  for (const CallSiblings& s : graph.siblings()) {
    const auto is = [&](std::uint32_t node, AgentId agent) { return graph.nodes()[node].agent == agent; };
    if (is(s.from, from) && ((is(s.a, a) && is(s.b, b)) || (is(s.a, b) && is(s.b, a)))) return &s;
  }
  return nullptr;
}

std::set<std::uint64_t> JoinMembers(const CallGraph& graph, AgentId to) {
  std::set<std::uint64_t> members;
  for (const CallJoin& j : graph.joins()) {
    if (graph.nodes()[j.to].agent != to || !j.holds()) continue;
    for (const std::uint32_t m : j.members) members.insert(graph.nodes()[m].agent.value);
  }
  return members;
}

constexpr int kWorkflows = 200;
constexpr double kLost = 0.05;

TEST_CASE("Figure 11 a: one agent calls three in parallel") {
  Fleet fleet(1);
  for (int i = 0; i < kWorkflows; ++i) {
    fleet.Begin();
    const double a = fleet.Call(kA, kUser, fleet.start());
    for (const AgentId agent : {kB, kC, kD}) fleet.Beside(agent, kA, a);
  }
  const CallGraph graph = Learn(fleet.Told(kLost));
  CHECK(EdgesOf(graph) == Edges{{0, 1}, {1, 2}, {1, 3}, {1, 4}});
  for (const auto& [x, y] : {std::pair{kB, kC}, std::pair{kB, kD}, std::pair{kC, kD}}) {
    REQUIRE(Siblings(graph, kA, x, y) != nullptr);
    CHECK(Siblings(graph, kA, x, y)->side_by_side());
    CHECK(Siblings(graph, kA, x, y)->sequential == 0);
  }
  CHECK(graph.joins().empty());
  CHECK(graph.undecided() == 0);
}

TEST_CASE("Figure 11 b: three in parallel, then one after all") {
  // Either the call that ended last leads to the join, or always the same call.
  for (const bool last_leads : {true, false}) {
    CAPTURE(last_leads);
    Fleet fleet(2);
    for (int i = 0; i < kWorkflows; ++i) {
      fleet.Begin();
      const double a = fleet.Call(kA, kUser, fleet.start());
      std::map<double, AgentId> ends;
      for (const AgentId agent : {kB, kC, kD}) ends.emplace(fleet.Beside(agent, kA, a), agent);
      fleet.Call(kE, last_leads ? ends.rbegin()->second : kC, ends.rbegin()->first);
    }
    const CallGraph graph = Learn(fleet.Told(kLost));
    CHECK(EdgesOf(graph) == (last_leads ? Edges{{0, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 5}, {3, 5}, {4, 5}}
                                        : Edges{{0, 1}, {1, 2}, {1, 3}, {1, 4}, {3, 5}}));
    CHECK(Siblings(graph, kA, kB, kC)->side_by_side());
    CHECK(JoinMembers(graph, kE) == std::set<std::uint64_t>{2, 3, 4});
    CHECK(graph.undecided() == 0);
  }
}

TEST_CASE("a join reported by the host: one record per upstream") {
  Fleet fleet(3);
  std::vector<CallRecord> records;
  for (int i = 0; i < 50; ++i) {
    fleet.Begin();
    const double a = fleet.Call(kA, kUser, fleet.start());
    const double b = fleet.Beside(kB, kA, a), end = std::max(b, fleet.Beside(kC, kA, a));
    fleet.Call(kD, kB, end);
  }
  for (const CallRecord& r : fleet.Told(0)) {
    records.push_back(r);
    if (r.agent != kD) continue;
    records.push_back({r.workflow, kD, kC, r.start, r.end});
    records.push_back(r);
  }
  const CallGraph graph = Learn(records);
  CHECK(EdgesOf(graph) == Edges{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 4}});
  CHECK(JoinMembers(graph, kD) == std::set<std::uint64_t>{2, 3});
  CHECK(graph.stats().repeated == 50);
  CHECK(graph.nodes()[graph.Find(kD)].calls == 50);
}

TEST_CASE("Figure 11 c: three successive calls of one agent are no chain") {
  Fleet fleet(4);
  for (int i = 0; i < kWorkflows; ++i) {
    fleet.Begin();
    double at = fleet.Call(kA, kUser, fleet.start());
    for (const AgentId agent : {kB, kC, kD}) at = fleet.Call(agent, kA, at);
  }
  const CallGraph graph = Learn(fleet.Told(kLost));
  CHECK(EdgesOf(graph) == Edges{{0, 1}, {1, 2}, {1, 3}, {1, 4}});
  for (const auto& [x, y] : {std::pair{kB, kC}, std::pair{kB, kD}, std::pair{kC, kD}}) {
    CHECK_FALSE(Siblings(graph, kA, x, y)->side_by_side());
    CHECK(Siblings(graph, kA, x, y)->parallel == 0);
  }
  CHECK(graph.undecided() == 0);
}

TEST_CASE("Figure 11 d: one, two parallel with their own, then one") {
  Fleet fleet(5);
  for (int i = 0; i < kWorkflows; ++i) {
    fleet.Begin();
    const double a = fleet.Call(kA, kUser, fleet.start());
    const double b = fleet.Call(kB, kA, a);
    const double c = fleet.Beside(kC, kA, b), d = fleet.Beside(kD, kA, b);
    fleet.Call(kE, kC, c);
    fleet.Call(kF, kD, d);
  }
  const CallGraph graph = Learn(fleet.Told(kLost));
  CHECK(EdgesOf(graph) == Edges{{0, 1}, {1, 2}, {1, 3}, {1, 4}, {3, 5}, {4, 6}});
  CHECK_FALSE(Siblings(graph, kA, kB, kC)->side_by_side());
  CHECK_FALSE(Siblings(graph, kA, kB, kD)->side_by_side());
  CHECK(Siblings(graph, kA, kC, kD)->side_by_side());
  CHECK(JoinMembers(graph, kE).empty());
  CHECK(JoinMembers(graph, kF).empty());
  CHECK(graph.undecided() == 0);
}

TEST_CASE("two branches that call the same agent are no join") {
  Fleet fleet(6);
  for (int i = 0; i < kWorkflows; ++i) {
    fleet.Begin();
    const double a = fleet.Call(kA, kUser, fleet.start());
    fleet.Call(kD, kB, fleet.Beside(kB, kA, a));
    fleet.Call(kD, kC, fleet.Beside(kC, kA, a));
  }
  CHECK(JoinMembers(Learn(fleet.Told(kLost)), kD).empty());
}

// QA, RG and CG of the paper, by agent: 11 Router, 12 Math, 13 Humanities; 21 Research, 22 Writer; 31 .. 35.
TEST_CASE("the paper's three applications are found when interleaved") {
  Fleet fleet(7);
  const auto id = [](std::uint64_t n) { return AgentId{n}; };
  std::int64_t failures = 0;
  for (int i = 0; i < kWorkflows; ++i) {
    fleet.Begin();
    if (i % 3 == 0) {
      const double router = fleet.Call(id(11), kUser, fleet.start());
      fleet.Call(id(fleet.random().Chance(0.5) ? 12 : 13), id(11), router);
    } else if (i % 3 == 1) {
      fleet.Call(id(22), id(21), fleet.Call(id(21), kUser, fleet.start()));
    } else {
      double at = fleet.Call(id(31), kUser, fleet.start());
      for (std::uint64_t agent = 32; agent <= 35; ++agent) at = fleet.Call(id(agent), id(agent - 1), at);
      for (int failed = 0; failed < 3 && fleet.random().Chance(0.35); ++failed, ++failures) {
        at = fleet.Call(id(35), id(34), fleet.Call(id(34), id(35), at));
      }
    }
  }
  const CallGraph graph = Learn(fleet.Told(kLost));
  const Edges expected = {{0, 11},  {11, 12}, {11, 13}, {0, 21},  {21, 22}, {0, 31},
                          {31, 32}, {32, 33}, {33, 34}, {34, 35}, {35, 34}};
  CHECK(EdgesOf(graph) == expected);
  CHECK(std::ranges::none_of(graph.siblings(), &CallSiblings::side_by_side));
  CHECK(graph.joins().empty());
  CHECK(graph.undecided() == 0);
  for (const CallEdge& e : graph.edges()) {
    const auto from = graph.nodes()[e.from].agent.value, to = graph.nodes()[e.to].agent.value;
    if (from == 35 && to == 34) {
      // a record of each other failure was lost
      CHECK(static_cast<double>(e.feedback) > 0.75 * static_cast<double>(failures));
    } else if (to < 30) {
      CHECK(e.feedback == 0);
    }
    const double share = static_cast<double>(e.parents) / static_cast<double>(graph.nodes()[e.from].calls);
    if (from == 11) CHECK(share == Approx(0.5).margin(0.15));  // a branch
    if (from == 21) CHECK(share > 0.85);
  }
  // Ayo's depths, learned.
  const std::vector<std::int32_t> left = graph.StagesLeft();
  const std::map<std::uint64_t, std::int32_t> stages = {{11, 2}, {12, 1}, {13, 1}, {21, 2}, {22, 1},
                                                        {31, 5}, {32, 4}, {33, 3}, {34, 2}, {35, 1}};
  for (const auto& [agent, n] : stages) CHECK(left[graph.Find(id(agent))] == n);
  // Paths from the router, with the share of each path.
  const CallNode& router = graph.nodes()[graph.Find(id(11))];
  std::int64_t ways = 0;
  for (const CallPath& p : router.paths) ways += p.count;
  CHECK(ways + router.other_paths == router.calls);
  CHECK(router.paths.size() == 3);  // maths, humanities, and none if that record was lost
}

TEST_CASE("remaining latencies exclude queues") {
  CallGraph graph;
  graph.Add({{1}, kA, kUser, At(10), At(12)}, At(12));
  graph.Add({{1}, kB, kA, At(20), At(25)}, At(25));  // after 8 s of queue
  graph.Add({{1}, kC, kA, At(22), At(30)}, At(30));  // in parallel with it
  CHECK(graph.open() == 1);
  CHECK(graph.Close({1}));
  CHECK_FALSE(graph.Close({1}));
  std::map<std::uint64_t, CallOutcome> of;
  graph.TakeOutcomes([&](const CallOutcome& o) { of[o.agent.value] = o; });
  REQUIRE(of.size() == 3);
  CHECK(of[1].execution_s == Approx(2));
  CHECK(of[1].remaining_s == Approx(12));
  CHECK(of[1].wall_s == Approx(20));
  CHECK(of[2].remaining_s == Approx(10));
  CHECK(of[3].remaining_s == Approx(8));
  graph.TakeOutcomes([&](const CallOutcome&) { FAIL("taken already"); });
}

TEST_CASE("late, silent, backward and nameless records are handled") {
  CallGraph graph({.retire_after = std::chrono::seconds(100)});
  CHECK_FALSE(graph.Add({{}, kA, kUser, At(0), At(1)}, At(1)));
  CHECK_FALSE(graph.Add({{1}, kA, kUser, At(1), At(0.9)}, At(1)));
  CHECK(graph.Add({{1}, kA, kUser, At(1), At(0.996)}, At(1)));  // within the tolerance: zero duration
  CHECK_FALSE(graph.Add({{2}, kA, kUser, TimePoint::min(), TimePoint::max()}, At(1)));
  CHECK(graph.Close({1}));
  CHECK_FALSE(graph.Add({{1}, kB, kA, At(1), At(2)}, At(2)));  // late
  CHECK(graph.Add({{3}, kA, kUser, At(3), At(4)}, At(4)));
  CHECK(graph.Add({{4}, kA, kUser, At(50), At(60)}, At(60)));
  CHECK(graph.Add({{5}, kA, kUser, At(1000), At(1001)}, At(110)));  // a wrong clock retires no other workflow
  CHECK(graph.stats().retired == 1);
  CHECK(graph.open() == 2);
  CHECK(graph.Add({{6}, kA, kUser, At(110), At(111)}, TimePoint::max()));
  CHECK(graph.open() == 1);
  CHECK(graph.stats().unnamed == 1);
  CHECK(graph.stats().backwards == 2);
  CHECK(graph.stats().late == 1);
}

TEST_CASE("all-zero latencies give the right edges and no parallel agents") {
  CallGraph graph;
  for (std::uint64_t w = 1; w <= 100; ++w) {
    for (const auto& [agent, upstream] : {std::pair{kA, kUser}, std::pair{kB, kA}, std::pair{kC, kA}}) {
      graph.Add({{w}, agent, upstream, At(5), At(5)}, At(5));
    }
    graph.Close({w});
  }
  CHECK(EdgesOf(graph) == Edges{{0, 1}, {1, 2}, {1, 3}});
  REQUIRE(Siblings(graph, kA, kB, kC) != nullptr);
  CHECK(Siblings(graph, kA, kB, kC)->undecided == 100);
  CHECK_FALSE(Siblings(graph, kA, kB, kC)->side_by_side());
  CHECK(graph.undecided() == 1);
  graph.TakeOutcomes([](const CallOutcome& o) { CHECK(o.remaining_s == 0); });
}

TEST_CASE("thousands of agents and random records stay bounded and reproducible") {
  const CallGraphOptions options{
      .max_agents = 300, .max_edges = 500, .max_workflows = 40, .max_calls = 30, .max_paths = 4};
  const auto run = [&](std::uint64_t seed) {
    Random random(seed);
    CallGraph graph(options);
    for (int i = 0; i < Scaled(50'000); ++i) {
      const auto time = [&] {
        return random.Chance(0.001) ? TimePoint(Duration(static_cast<std::int64_t>(random.Bits())))
                                    : At(std::floor(100 * random.Uniform()));
      };
      const std::uint64_t agents = random.Chance(0.5) ? 5000 : 8;
      const CallRecord call = {{random.Below(100)}, {random.Below(agents)}, {random.Below(agents)}, time(), time()};
      graph.Add(call, time());
      if (random.Chance(0.02)) graph.Close({random.Below(100)});
      if (random.Chance(0.01)) graph.TakeOutcomes([](const CallOutcome& o) { CHECK(o.remaining_s >= o.execution_s); });
    }
    graph.CloseAll();
    return graph;
  };
  const CallGraph graph = run(8), again = run(8);
  CHECK(graph.nodes().size() == 300);
  CHECK(graph.edges().size() <= 500);
  CHECK(graph.siblings().size() <= 500);
  CHECK(graph.open() == 0);
  for (const CallNode& n : graph.nodes()) CHECK(n.paths.size() <= 4);
  CHECK(graph.stats() == again.stats());
  CHECK(std::ranges::equal(graph.nodes(), again.nodes()));
  CHECK(std::ranges::equal(graph.edges(), again.edges()));
}

// Names that collide under the default key. Returns the entries visited to look all of them up.
template <class Table, class Teach>
std::size_t LooksOfHostile(Table table, Teach&& teach) {
  const fire::Ids hostile(fire::Ids::Kind::kColliding);
  constexpr std::uint64_t kNames = 256;
  std::size_t looks = 0;
  for (std::uint64_t i = 1; i <= kNames; ++i) teach(table, hostile.Of(i).value);
  for (std::uint64_t i = 1; i <= kNames; ++i) looks += table.Looks({hostile.Of(i).value});
  return looks / kNames;
}

TEST_CASE("with keyed hashes, learners find colliding names as fast as others") {
  const auto call = [](CallGraph& t, std::uint64_t name) { t.Add({.workflow = {name}, .agent = {1}}, {}); };
  const auto agent = [](LatencyProfile& t, std::uint64_t name) { t.ObserveExecution({name}, 1); };
  const auto stage = [](LengthTable& t, std::uint64_t name) { t.Observe({name}, 1, 1); };
  const auto tool = [](ToolProfile& t, std::uint64_t name) { t.Observe({.tool = {name}, .seconds = 1}); };
  for (const std::uint64_t seed : {0u, 1u, 77u}) {
    for (const std::size_t looks : {LooksOfHostile(CallGraph({.hash_seed = seed}), call),
                                    LooksOfHostile(LatencyProfile({.hash_seed = seed}), agent),
                                    LooksOfHostile(LengthTable({.hash_seed = seed}), stage),
                                    LooksOfHostile(ToolProfile({.max_classes = 256, .hash_seed = seed}), tool)}) {
      CHECK((seed == 0 ? looks > 64 : looks < 8));
    }
  }
}

}  // namespace
}  // namespace takt
