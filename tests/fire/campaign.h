// Many seeds of one kind of world; a seed that fails becomes a short log, and a log a run.
#ifndef TAKT_TESTS_FIRE_CAMPAIGN_H_
#define TAKT_TESTS_FIRE_CAMPAIGN_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "action.h"
#include "takt/base/random.h"

namespace takt::fire {

// Sums tallies, which are numbers from `events` to `plan_hash`, the last.
template <class Tally>
void Add(Tally& sum, const Tally& t) {
  std::uint64_t* to = &sum.events;
  const std::uint64_t* from = &t.events;
  for (; to != &sum.plan_hash; ++to, ++from) *to += *from;
  sum.plan_hash = Mix64(sum.plan_hash ^ t.plan_hash);
}

// A World has a seed and carries actions out: the same seed and actions, the same run. A Host draws the next action.
template <class World, class Host>
class Campaign {
 public:
  // 1 at the first violation, with its seed and a log.
  // `survey`: goes on with the next seed, and prints what is wrong with each.
  static int Run(std::uint64_t first, std::uint64_t last, std::int64_t events, bool shrink, bool survey) {
    typename World::Tally sum;
    bool fine = true;
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      World world(seed);
      Host host(seed);
      std::vector<Action> actions;
      actions.reserve(static_cast<std::size_t>(events));
      while (std::cmp_less(actions.size(), events) && world.violation().empty()) {
        actions.push_back(host.Next(world));
        world.Carry(actions.back());
      }
      const bool drain = world.violation().empty();
      if (drain) world.Drain();
      Add(sum, world.tally());
      if (world.violation().empty()) continue;
      fmt::print("seed {}, event {}: {}\n", seed, actions.size(), world.violation());
      std::fflush(stdout);
      fine = false;
      if (survey) continue;
      if (shrink) PrintLog(seed, Shrink(seed, std::move(actions), world.violation(), drain), drain);
      return 1;
    }
    if (fine) Print(sum, last - first + 1);
    return fine ? 0 : 1;
  }

  static int Replay(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
    PrintLog(seed, actions, drain);
    return Outcome(seed, actions, drain).empty() ? 0 : 1;
  }

 private:
  // The violation that actions lead to, if any; with a drain at the end, or without where it comes before.
  static std::string Outcome(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
    World world(seed);
    for (const Action& action : actions) {
      world.Carry(action);
      if (!world.violation().empty()) return world.violation();
    }
    if (drain) world.Drain();
    return world.violation();
  }

  // What kind of violation, whatever its numbers: a shorter log must show the same.
  static std::string KindOf(const std::string& violation) {
    std::string kind;
    for (char c : violation) {
      if (c < '0' || c > '9') kind += c;
    }
    return kind;
  }

  // Delta debugging (Zeller, 1999): leaves out ever smaller pieces for as long as the violation stays.
  static std::vector<Action> Shrink(std::uint64_t seed, std::vector<Action> actions, const std::string& violation,
                                    bool drain) {
    const std::string kind = KindOf(violation);
    int attempts = 2000;
    for (std::size_t piece = actions.size() / 2; piece > 0 && attempts > 0;) {
      bool shorter = false;
      for (std::size_t at = 0; at < actions.size() && attempts-- > 0;) {
        std::vector<Action> fewer = actions;
        const std::size_t end = std::min(at + piece, fewer.size());
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at), fewer.begin() + static_cast<std::ptrdiff_t>(end));
        if (KindOf(Outcome(seed, fewer, drain)) == kind) {
          actions = std::move(fewer);
          shorter = true;
        } else {
          at += piece;
        }
      }
      piece = shorter && piece == 1 ? 1 : piece / 2;
    }
    return actions;
  }

  static void PrintLog(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
    World world(seed);
    fmt::print("{}seed {}  # {}\n", World::kLogPrefix, seed, world.Description());
    std::string comment;
    world.comment = &comment;
    const auto print = [&](const std::string& line) {
      fmt::print("{}{}{}\n", line, comment.empty() ? "" : "  # ", comment);
      comment.clear();
    };
    for (const Action& action : actions) {
      world.Carry(action);
      print(Text(action));
      if (!world.violation().empty()) break;
    }
    if (drain && world.violation().empty()) {
      world.Drain();
      print("drain");
    }
    fmt::print("# violation: {}\n", world.violation().empty() ? "none" : world.violation());
  }
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_CAMPAIGN_H_
