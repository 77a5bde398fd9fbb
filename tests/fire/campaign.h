// Runs many seeds of one kind of world. A seed that fails yields a short log, and a log replays to the same run.
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

// Adds up tallies: all fields are numbers, from `events` to `plan_hash`.
template <class Tally>
void Add(Tally& sum, const Tally& t) {
  std::uint64_t* to = &sum.events;
  const std::uint64_t* from = &t.events;
  for (; to != &sum.plan_hash; ++to, ++from) *to += *from;
  sum.plan_hash = Mix64(sum.plan_hash ^ t.plan_hash);
}

// A World has a seed and carries out actions. The same seed and actions give the same run. A Host draws the next
// action.
template <class World, class Host>
class Campaign {
 public:
  // Returns 1 at the first violation and prints its seed and a log. With `survey`, it prints each violation and
  // continues with the next seed.
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
  // Returns the violation that the actions lead to, if any. The run ends with a drain unless a violation comes first.
  static std::string Outcome(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
    World world(seed);
    for (const Action& action : actions) {
      world.Carry(action);
      if (!world.violation().empty()) return world.violation();
    }
    if (drain) world.Drain();
    return world.violation();
  }

  // Returns the kind of a violation without its numbers. A shorter log must show the same kind.
  static std::string KindOf(const std::string& violation) {
    std::string kind;
    for (char c : violation) {
      if (c < '0' || c > '9') kind += c;
    }
    return kind;
  }

  // Delta debugging (Zeller, 1999): removes ever smaller pieces while the violation remains.
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
