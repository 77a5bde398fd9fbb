#include "takt/learning/agent_learner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/learning/call_graph.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A planner, then three parallel coders, then a tester half of the time.
void Teach(AgentLearner& learner, AgentNames& names, std::uint64_t from, int workflows, Random& random) {
  const AgentId planner = names.Intern("planner"), coder = names.Intern("Coder"), tester = names.Intern("");
  for (std::uint64_t w = from; w < from + static_cast<std::uint64_t>(workflows); ++w) {
    double now = 10 * static_cast<double>(w), last = 0;
    const auto call = [&](AgentId agent, AgentId upstream, double start, double mu) {
      const double end = start + random.LogNormal(mu, 0.4);
      learner.Add({{w}, agent, upstream, At(start), At(end)}, At(end));
      return end;
    };
    now = call(planner, {}, now, 1);
    for (int i = 0; i < 3; ++i) last = std::max(last, call(coder, planner, now + 0.1 * i, 2));
    if (random.Chance(0.5)) call(tester, coder, last, 0);
    learner.Close({w});
  }
}

double RankOf(const AgentRanks& table, AgentId agent) { return table.Of(agent).rank; }

TEST_CASE("records give a table that ranks the agent nearest the end first") {
  AgentLearner learner;
  AgentNames names;
  CHECK(learner.Table() == nullptr);
  Random random(1);
  Teach(learner, names, 1, 300, random);
  const auto table = learner.Table();
  REQUIRE(table != nullptr);
  CHECK(learner.Table() == nullptr);  // nothing new
  const AgentId planner{1}, coder{2}, tester{3};
  CHECK(RankOf(*table, tester) < RankOf(*table, coder));
  CHECK(RankOf(*table, coder) < RankOf(*table, planner));
  CHECK(RankOf(*table, {99}) == RankOf(*table, coder));  // unknown: ranked as the median agent
  CHECK(table->Of(planner).execution_s == Approx(std::exp(1 - 0.16)).epsilon(0.3));
  CHECK(table->Of(planner).stages_left == 3);
  CHECK(table->Of(tester).stages_left == 1);
  CHECK(table->otherwise.execution_s > 0);
  // Its latencies triple. Only its rank changes, and the table is sent again.
  Random more(2);
  for (int i = 0; i < 200; ++i) learner.Add({{100'000u + static_cast<unsigned>(i)}, tester, {}, At(0), At(300)}, At(0));
  for (int i = 0; i < 200; ++i) learner.Close({100'000u + static_cast<unsigned>(i)});
  const auto moved = learner.Table();
  REQUIRE(moved != nullptr);
  CHECK(RankOf(*moved, tester) > RankOf(*moved, planner));
}

TEST_CASE("names differ by case, may be empty, and are bounded") {
  AgentNames names(3, 10);
  CHECK(names.Intern("Coder") == AgentId{1});
  CHECK(names.Intern("coder") == AgentId{2});
  CHECK(names.Intern("") == AgentId{3});
  CHECK(names.Intern("Coder") == AgentId{1});
  CHECK(names.Intern("more") == AgentId{});
  CHECK(names.refused() == 1);
  CHECK(names.NameOf({2}) == "coder");
  CHECK(names.NameOf({}) == "");
  CHECK(names.NameOf({9}) == "");
  AgentNames all;
  for (int i = 0; i < 20'000; ++i) all.Intern("agent " + std::to_string(i));
  CHECK(all.size() == 8192);
  CHECK(all.Intern(std::string(2000, 'x')) == AgentId{});
}

TEST_CASE("learnt data is saved and loaded") {
  AgentLearner learner;
  AgentNames names;
  Random random(3);
  Teach(learner, names, 1, 300, random);
  const std::string text = learner.Save(names);
  AgentLearner other;
  AgentNames other_names;
  other_names.Intern("somebody else");
  REQUIRE(other.Load(text, other_names).ok());
  CHECK(other_names.size() == 3);
  CHECK(other_names.NameOf({2}) == "Coder");
  const auto loaded = other.Table(), original = learner.Table();
  REQUIRE(loaded->ranks.size() == original->ranks.size());
  for (const AgentRank& r : original->ranks) {  // curves are read at every look, and at a load
    CHECK(loaded->Of(r.agent).rank == Approx(r.rank).epsilon(0.1));
    CHECK(loaded->Of(r.agent).stages_left == r.stages_left);
  }
  CHECK(std::ranges::equal(other.graph().edges(), learner.graph().edges()));
  CHECK(std::ranges::equal(other.graph().nodes(), learner.graph().nodes(), [](const CallNode& a, const CallNode& b) {
    return a.agent == b.agent && a.calls == b.calls && a.first == b.first && a.last == b.last;
  }));
  // It continues to learn as before.
  Random a(4), b(4);
  Teach(learner, names, 1000, 100, a);
  Teach(other, other_names, 1000, 100, b);
  CHECK(learner.graph().nodes()[0].calls == other.graph().nodes()[0].calls);
  AgentLearner empty;
  AgentNames none;
  CHECK(other.Load(empty.Save(none), other_names).ok());
  CHECK(other.graph().nodes().empty());
  CHECK(other_names.size() == 0);
}

TEST_CASE("a damaged file is named, and earlier knowledge stays") {
  AgentLearner learner;
  AgentNames names;
  Random random(5);
  Teach(learner, names, 1, 100, random);
  const std::string text = learner.Save(names);
  const auto refused = [&](const std::string& bad, const std::string& why) {
    const absl::Status status = learner.Load(bad, names);
    CAPTURE(status.ToString());
    CHECK(!status.ok());
    CHECK(status.ToString().find(why) != std::string::npos);
    CHECK(learner.Save(names) == text);
  };
  refused("", "first line");
  refused("takt_learnt 2 0\n", "version");
  refused(text.substr(0, text.size() / 2), "checksum");
  for (int i = 0; i < Scaled(500); ++i) {
    std::string bad = text;
    char& c = bad[random.Below(bad.size())];
    c = static_cast<char>(c ^ (1 << random.Below(7)));
    CHECK(!learner.Load(bad, names).ok());
  }
  CHECK(learner.Save(names) == text);
  // With a valid checksum: invalid numbers are detected and change nothing.
  const auto sealed = [](const std::string& body) {
    std::uint64_t sum = 0xcbf29ce484222325u;
    for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(sum));
    return "takt_learnt 1 " + std::string(hex) + "\n" + body;
  };
  refused(sealed("nonsense 1\n"), "line 2: 'nonsense'");
  refused(sealed("node 1 1 1 1 1 1\n"), "line 2: node");
  refused(sealed("node 1 1 1 1 1 1 1"), "cut off");
  refused(sealed("node 1 1 1 1 1 1 1\nedge 0 1 1 1 1\n"), "line 3: edge");
  refused(sealed("node 1 1 1 1 -1 1 1\n"), "line 2: node");
  refused(sealed("node 1 1 1 1 nan 1 1\n"), "line 2: node");
  refused(sealed("agent 0 1\nlatency 1 0 0 1 1 0 1 1 9999 256\n"), "line 3: latency");
  refused(sealed("latency 1 0 0 1 1 0 1 1\n"), "line 2: latency");
  // Bounds follow the options. A node's number refers to a present node.
  const std::string node = "node 1 1 1 1 1 1 1\n";
  refused(sealed(node + "path 7 1 1 0 4294967295 3\nnode 2 1 1 1 1 1 1\n"),
          "line 3: path: its agent is node 3; expected one of 2");
  refused(sealed(node + "name x41\n"), "line 3: name: a name comes after other lines");
  refused(sealed(node + node), "line 3: node: the agent is repeated");
  refused(sealed(node + "path 7 1 1\npath 7 1 1\n"), "line 4: path: the key");
  refused(sealed(node + "edge 0 0 1 1 1\nedge 0 0 1 1 1\n"), "line 4: edge: the line is repeated");
  refused(sealed(node + "edge 0 0 9000000000000000000 1 1\n"), "line 3: edge: calls is '9000000000000000000'");
  refused(sealed(node + "join 0 0 1 1 1 0 0 1\n"), "line 3: join: member is node 1");
  refused(sealed("agent 0 1\nlatency 1 0 0 1 1 0 1 1 5 1 5 1\n"), "line 3: latency: bins must ascend");
  std::string paths = node, longest = "path 7 1 1";
  for (int i = 0; i < 17; ++i) paths += "path " + std::to_string(i) + " 1 1\n";
  for (int i = 0; i < 65; ++i) longest += " 0";
  refused(sealed(paths), "line 19: path: there are too many; expected at most 16, the value of graph.max_paths");
  refused(sealed(node + longest + "\n"), "line 3: path: the path is too long");
  std::string many;
  for (int i = 0; i < 10; ++i) many += "name x4" + std::to_string(i) + "\n";
  AgentNames few(9), brief(100, 1);
  CHECK_FALSE(learner.Load(sealed(many), few).ok());
  CHECK_FALSE(learner.Load(sealed("name x4141\n"), brief).ok());
  CHECK(learner.Load(sealed("name x41\n"), brief).ok());
  CHECK(brief.Intern("BB") == AgentId{});  // the bounds stay
  CHECK(brief.Intern("B") == AgentId{2});
  CHECK(learner.Load(text, names).ok());
  const std::string body = text.substr(text.find('\n') + 1);
  for (int i = 0; i < Scaled(500); ++i) {
    std::string bad = body;
    for (int n = 0; n < 3; ++n) bad[random.Below(bad.size())] = "0123456789 .-enamedg\n"[random.Below(20)];
    AgentLearner fresh;
    AgentNames fresh_names;
    if (fresh.Load(sealed(bad), fresh_names).ok()) fresh.Table();
  }
}

}  // namespace
}  // namespace takt
