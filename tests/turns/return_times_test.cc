// Gaps between turns: against Kaplan and Meier's estimator by its definition, and on recorded sessions.
#include "takt/turns/return_times.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "nlohmann/json.hpp"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr std::size_t kBins = ReturnCurve::kBins;
constexpr std::uint32_t kTool = ReturnClass::kTool, kUser = ReturnClass::kUser;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A gap observed for a time. It ended then or was lost.
struct Gap {
  double seconds = 0;
  bool ended = true;
};

// By definition, the hazard at a time is the share of gaps at risk that end at that time.
double KaplanMeier(const std::vector<Gap>& gaps, double age) {
  std::map<double, double> ended;
  for (const Gap& g : gaps) {
    if (g.ended && g.seconds < age) ended[g.seconds] += 1;
  }
  double survival = 1;
  for (const auto& [when, count] : ended) {
    const auto at_risk = std::count_if(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.seconds >= when; });
    survival *= 1 - count / static_cast<double>(at_risk);
  }
  return survival;
}

// The best ratio by definition, at the edges.
double BestGain(const ReturnCurve& curve, double age) {
  double best = 0;
  for (std::size_t to = 1; to <= kBins; ++to) {
    if (ReturnCurve::Edge(to) <= age) continue;
    double held = 0;
    for (std::size_t i = 0; i < to; ++i) {
      const double a = std::max(ReturnCurve::Edge(i), age), b = ReturnCurve::Edge(i + 1);
      if (a < b) held += (curve.Survival(a) + curve.survival[i + 1]) / 2 * (b - a);
    }
    best = std::max(best, (curve.Survival(age) - curve.survival[to]) / held);
  }
  return best;
}

ReturnTimes Bare() { return ReturnTimes({.window = 1e12, .prior_weight = 1e-6}); }

TEST_CASE("bins divide each octave in two, from zero on") {
  CHECK(ReturnCurve::Edge(0) == 0);
  CHECK(ReturnCurve::Edge(1) == 0.25);
  CHECK(ReturnCurve::Edge(2) == 0.375);
  CHECK(ReturnCurve::Edge(5) == 1);
  CHECK(ReturnCurve::Edge(10) == 6);
  CHECK(ReturnCurve::Edge(kBins) == 0x1p18);
  for (std::size_t i = 0; i <= kBins; ++i) {
    CHECK(ReturnCurve::BinOf(ReturnCurve::Edge(i)) == i);
    if (i > 0) CHECK(ReturnCurve::BinOf(std::nextafter(ReturnCurve::Edge(i), 0)) == i - 1);
  }
  CHECK(ReturnCurve::BinOf(-1) == 0);
  CHECK(ReturnCurve::BinOf(std::nan("")) == 0);
  CHECK(ReturnCurve::BinOf(HUGE_VAL) == kBins);
}

TEST_CASE("without loss, survival at edges is the share of longer gaps") {
  Random random(1);
  ReturnTimes times = Bare();
  std::vector<Gap> gaps;
  for (int i = 0; i < 2000; ++i) {
    gaps.push_back({random.Chance(0.1) ? 1e9 : random.LogNormal(3, 2), true});
    times.Learn(kTool, gaps.back().seconds, true);
  }
  times.Refresh({});
  for (std::size_t i = 0; i <= kBins; ++i) {
    const double edge = ReturnCurve::Edge(i);
    const auto last = std::count_if(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.seconds >= edge; });
    CHECK(times.curves().Of(kTool).survival[i] == Approx(static_cast<double>(last) / 2000).margin(1e-6));
  }
}

TEST_CASE("with losses, survival is Kaplan and Meier's at the edges") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    for (const bool at_edges : {true, false}) {
      ReturnTimes times = Bare();
      std::vector<Gap> gaps;
      for (int i = 0; i < 1000; ++i) {
        const double comes = random.LogNormal(3, 1.5);
        double lost = random.LogNormal(4, 1.5);
        if (at_edges) lost = ReturnCurve::Edge(ReturnCurve::BinOf(lost));
        gaps.push_back({std::min(comes, lost), comes < lost});
        times.Learn(kUser, gaps.back().seconds, gaps.back().ended);
      }
      times.Refresh({});
      for (std::size_t i = 0; i <= kBins; ++i) {
        const double edge = ReturnCurve::Edge(i), exact = KaplanMeier(gaps, edge);
        const auto at_risk = std::count_if(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.seconds >= edge; });
        if (at_risk < 30) break;
        CAPTURE(seed, at_edges, edge);
        CHECK(times.Survival(kUser, edge) == Approx(exact).margin(at_edges ? 1e-6 : 0.01));
      }
    }
  }
}

TEST_CASE("open gaps are at risk while they last and count once") {
  ReturnTimes times = Bare();
  for (std::uint64_t gap = 1; gap <= 10; ++gap) times.Began({{gap}}, kTool, At(0));
  for (std::uint64_t gap = 1; gap <= 5; ++gap) CHECK(times.Returned({gap}, 0, At(1.25)));
  times.Refresh(At(8));
  CHECK(times.open() == 5);
  CHECK(times.Survival(kTool, 8) == Approx(0.5).margin(1e-6));
  CHECK(times.Survival(kTool, 1) == Approx(1).margin(1e-6));
  CHECK(times.Hazard(kTool, 1) == Approx(1).margin(1e-5));
  CHECK(times.Lost({6}, 0, At(8)));
  CHECK_FALSE(times.Lost({6}, 0, At(8)));
  CHECK_FALSE(times.Returned({6}, 0, At(8)));
  times.Refresh(At(8));
  CHECK(times.Survival(kTool, 8) == Approx(0.5).margin(1e-6));
  times.Began({{7}}, kUser, At(9));  // reported again with another class, which counts from now on
  CHECK(times.open() == 4);
  CHECK(times.Returned({7}, 0, At(10.5)));
  CHECK(times.counts(kUser).ended[ReturnCurve::BinOf(1.5)] == 1);
  for (std::uint64_t gap = 8; gap <= 10; ++gap) CHECK(times.Returned({gap}, 0, At(20)));
  CHECK(times.open() == 0);
  CHECK(times.pool().ended[ReturnCurve::BinOf(20)] == 3);
  CHECK(times.counts(kTool).ended[ReturnCurve::BinOf(20)] == 3);
}

TEST_CASE("gain is the best ratio of returns to time held") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    ReturnTimes times = Bare();
    const double shape = 0.5 + 3 * random.Uniform(), scale = 100 * random.Uniform();
    for (int i = 0; i < 300; ++i) {
      const double gap = scale * random.Gamma(shape);
      times.Learn(kTool, gap, random.Chance(0.8));
    }
    times.Refresh({});
    const ReturnCurve& curve = times.curves().Of(kTool);
    for (std::size_t i = 0; i < kBins; ++i) {
      const double edge = ReturnCurve::Edge(i);
      CAPTURE(seed, edge);
      if (curve.survival[i] < 1e-9) break;
      CHECK(curve.Gain(edge) == Approx(BestGain(curve, edge)));
      CHECK(curve.Gain(edge) >= curve.Hazard(edge) * (1 - 1e-9));
    }
    CHECK(curve.Gain(1e6) == 0);
  }
}

TEST_CASE("unseen classes come from the table, tools, or the pool") {
  constexpr std::uint32_t kGrep = ReturnClass::kFirstTool + 3;
  ReturnTimes times;
  for (std::size_t row = 0; row < ReturnTimes::kToolHazards.size(); ++row) {
    const double age = row == 0 ? 0.25 : std::ldexp(2.0, static_cast<int>(row));
    CAPTURE(age);
    // a bin's mean over its time: up to a quarter below if half of those at risk return in it
    CHECK(times.Hazard(kTool, age) == Approx(ReturnTimes::kToolHazards[row]).epsilon(0.25));
    CHECK(times.Hazard(kUser, age) == Approx(ReturnTimes::kUserHazards[row]).epsilon(0.1));
  }
  CHECK(times.Survival(kTool, 4096) < 0.01);
  CHECK(times.Survival(kUser, 4096) == Approx(0.19).margin(0.02));
  CHECK(times.Survival(kUser, 1e6) == times.Survival(kUser, 4096));
  CHECK(times.Survival(kGrep, 10) == times.Survival(kTool, 10));
  CHECK(times.Survival(1000, 10) == times.Survival(ReturnClass::kUnknown, 10));
  CHECK(times.Survival(ReturnClass::kSubAgent, 100) == times.Survival(ReturnClass::kUnknown, 100));
  for (int i = 0; i < 2000; ++i) times.Learn(kGrep, 100, true);
  times.Refresh({});
  for (const std::uint32_t of_tools : {kGrep, kGrep + 1, kTool}) CHECK(times.Survival(of_tools, 64) > 0.8);
  CHECK(times.Survival(kGrep, 128) < 0.02);
  CHECK(times.Survival(ReturnClass::kUnknown, 64) > 0.8);
  CHECK(times.Survival(kUser, 64) < 0.9);  // users are not tools
}

TEST_CASE("old gaps count less, and saved counts load again") {
  ReturnTimes times({.window = 512});
  for (int i = 0; i < 512; ++i) times.Learn(kTool, 2, true);
  for (int i = 0; i < 1024; ++i) times.Learn(kTool, 200, true);
  times.Refresh({});
  CHECK(times.Survival(kTool, 4) > 0.9);
  ReturnTimes loaded({.window = 512});
  for (std::uint32_t k = 0; k < times.classes(); ++k) CHECK(loaded.Restore(k, times.counts(k)));
  CHECK(loaded.RestorePool(times.pool()));
  loaded.Refresh({});
  for (std::uint32_t k = 0; k < times.classes(); ++k) {
    CHECK(loaded.curves().Of(k).survival == times.curves().Of(k).survival);
    CHECK(loaded.curves().Of(k).gain == times.curves().Of(k).gain);
  }
  ReturnCounts bad = times.pool();
  bad.ended[3] = -1;
  CHECK_FALSE(loaded.RestorePool(bad));
  bad.ended[3] = std::nan("");
  CHECK_FALSE(loaded.Restore(0, bad));
  CHECK_FALSE(loaded.Restore(64, times.pool()));
  bad = times.pool();
  bad.seen[3] = bad.lost[3] + 1;
  CHECK_FALSE(loaded.Restore(0, bad));
  CHECK(loaded.pool() == times.pool());
}

TEST_CASE("survival falls from 1 and stays a share under random gaps") {
  Random random(5);
  ReturnTimes times({.classes = 8, .window = 64, .max_open = 32, .refresh = 16});
  double clock = 0;
  for (std::int64_t i = 0; i < Scaled(20'000); ++i) {
    clock += random.Chance(0.01) ? -100 : random.LogNormal(0, 3);
    const std::uint64_t gap = random.Below(64);
    switch (random.Below(4)) {
      case 0:
      case 1: times.Began({{gap}}, static_cast<std::uint32_t>(random.Below(12)), At(clock)); break;
      case 2: times.Returned({gap}, 0, At(clock)); break;
      default: times.Lost({gap}, 0, At(clock));
    }
    REQUIRE(times.open() <= 32);
    if (i % 64 != 0) continue;
    times.Learn(2, std::nan(""), true);
    for (std::uint32_t k = 0; k < 8; ++k) {
      const ReturnCurve& curve = times.curves().Of(k);
      bool sound = curve.survival[0] == 1;
      for (std::size_t bin = 0; bin < kBins; ++bin) {
        sound &= curve.survival[bin + 1] >= 0 && curve.survival[bin + 1] <= curve.survival[bin];
        sound &= curve.gain[bin] >= 0 && curve.gain[bin] < 100;
      }
      REQUIRE(sound);
    }
  }
}

// Tenant 1 returns after 3 s each turn. The workflows of `flood` never return.
template <class Flood>
double SurvivalBeside(Flood&& flood) {
  ReturnTimes times;
  double clock = 0;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    clock += 4;
    if (i >= 500) flood(times, i, clock);
    times.Began({{1}, 0, {1}}, kTool, At(clock));
    times.Returned({1}, 0, At(clock + 3));
  }
  times.Refresh(At(clock + 4));
  return times.Survival(kTool, 4);
}

TEST_CASE("a flood of endless gaps leaves other estimates unchanged") {
  CHECK(SurvivalBeside([](auto&&...) {}) < 0.05);
  const auto flooded = [](auto&& name) {
    return SurvivalBeside([&](ReturnTimes& times, std::uint64_t i, double clock) {
      for (std::uint64_t k = 0; k < 60; ++k) times.Began(name(60 * i + k), kTool, At(clock));
    });
  };
  // All other tenants together count as much as tenant 1, the only known one.
  CHECK(flooded([](std::uint64_t i) { return BranchName{{9}, i, {9}}; }) < 0.6);
  CHECK(flooded([](std::uint64_t i) { return BranchName{{9 + i}, 0, {9}}; }) < 0.6);
  CHECK(flooded([](std::uint64_t i) { return BranchName{{9 + i}, 0, {9 + i}}; }) < 0.6);
  CHECK(flooded([](std::uint64_t i) { return BranchName{{9 + i}, 0, {}}; }) < 0.6);
  CHECK(flooded([](std::uint64_t i) { return BranchName{{9}, i, {}}; }) < 0.6);
}

TEST_CASE("a workflow counts at most 64 open gaps") {
  ReturnTimes times({.max_open = 1'000});
  for (std::uint64_t i = 0; i < 3'000; ++i) times.Began({{9}, i}, kTool, At(0));
  CHECK(times.open() == 1'000);
  CHECK(times.counts(kTool) == ReturnCounts{});
  for (int i = 0; i < 64; ++i) times.Learn(kTool, 3, true);
  times.Refresh(At(100));
  CHECK(times.Survival(kTool, 4) == Approx(0.5).margin(0.1));
  times.Lost({9}, At(100));
  CHECK(times.open() == 0);
}

TEST_CASE("no branch ends another workflow's gap") {
  ReturnTimes times;
  // a sum of hashes would confuse it with branch 0 of 111
  const std::uint64_t own = 222, branch = Mix64(111) - Mix64(own);
  times.Began({{111}, 0, {1}}, kTool, At(0));
  CHECK_FALSE(times.IsOpen({own}, branch));
  CHECK_FALSE(times.SetClass({own}, branch, kUser));
  CHECK_FALSE(times.Returned({own}, branch, At(1)));
  CHECK(times.IsOpen({111}, 0));
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines(1);
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  char buffer[1 << 16];
  for (int n; (n = gzread(file, buffer, sizeof(buffer))) > 0;) {
    for (int i = 0; i < n; ++i) {
      if (buffer[i] == '\n') lines.emplace_back();
      else lines.back() += buffer[i];
    }
  }
  gzclose(file);
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// Gaps of the main agents: a gap ends if the agent continues. The last gap of a session does not end.
TEST_CASE("recorded agent sessions have the table's hazards and falling gains") {
  const char* data = std::getenv("TAKT_DATA");
  const std::filesystem::path folder = data != nullptr ? data : std::string(TAKT_SOURCE_DIR) + "/../shared/data";
  const std::string path = (folder / "agents/coding_sessions.jsonl.gz").string();
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; TAKT_DATA names the folder above agents/");
    return;
  }
  ReturnTimes times({.window = 1e9});
  std::map<std::uint32_t, std::vector<Gap>> gaps;
  for (const std::string& line : LinesOf(path)) {
    const nlohmann::json session = nlohmann::json::parse(line);
    const nlohmann::json* before = nullptr;
    const auto learn = [&](double seconds, bool ended) {
      const std::string next = before->value("next", "");
      const std::uint32_t k = next == "tool" ? kTool : next == "user" ? kUser : ReturnClass::kUnknown;
      gaps[k].push_back({seconds, ended});
      times.Learn(k, seconds, true);  // an ended session has a gap that never ends and is at risk for ever
    };
    for (const nlohmann::json& call : session["calls"]) {
      if (call.contains("agent")) continue;
      if (before != nullptr) learn(call.value("think_s", 0.0), true);
      before = &call;
    }
    if (before != nullptr) learn(1e9, false);
  }
  REQUIRE(gaps[kTool].size() == 25'915);
  REQUIRE(gaps[kUser].size() == 1'559);
  times.Refresh({});
  for (const std::uint32_t k : {kTool, kUser, ReturnClass::kUnknown}) {
    for (std::size_t i = 0; i <= kBins; i += 2) {
      CAPTURE(k, ReturnCurve::Edge(i));
      CHECK(times.curves().Of(k).survival[i] == Approx(KaplanMeier(gaps[k], ReturnCurve::Edge(i))).margin(0.005));
    }
  }
  // The table does not name its bins and has one digit. Its hazard lies between the hazards of the bins around the age,
  // within a factor of 1.5.
  for (const std::uint32_t k : {kTool, kUser}) {
    const auto& table = k == kTool ? ReturnTimes::kToolHazards : ReturnTimes::kUserHazards;
    for (std::size_t row = 1; row < table.size(); ++row) {
      const double age = std::ldexp(2.0, static_cast<int>(row));
      const std::vector<double> around = {times.Hazard(k, age / 1.5), times.Hazard(k, age), times.Hazard(k, age * 1.5)};
      CAPTURE(k, age, around);
      CHECK(table[row] * 1.5 >= *std::min_element(around.begin(), around.end()));
      CHECK(table[row] <= 1.5 * *std::max_element(around.begin(), around.end()));
    }
  }
  // Cost of holding: a user's turn starts at the level that a tool's turn reaches after two minutes.
  // Before 4 s, times are whole seconds, and some are 0.
  CHECK(times.Gain(kTool, 4) > 10 * times.Gain(kUser, 4));
  CHECK(times.Gain(kTool, 128) == Approx(times.Gain(kUser, 4)).epsilon(0.3));
  for (const double age : {8.0, 16.0, 32.0, 64.0, 256.0, 1024.0}) {
    CHECK(times.Gain(kTool, 2 * age) < times.Gain(kTool, age));
  }
}

}  // namespace
}  // namespace takt
