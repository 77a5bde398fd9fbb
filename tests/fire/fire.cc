// takt_fire: a scheduler under a random host, for so many events of so many seeds.
//
//   takt_fire --seeds 1..100 --events 20000     exit 1 at the first violation, with its seed and a short log
//   takt_fire --replay FILE                     carries out such a log, line by line
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "host.h"
#include "scale.h"

namespace takt::fire {
namespace {

// The violation that actions lead to, if any; with a drain at the end, or without where it comes before.
std::string Outcome(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
  World world(seed);
  for (const Action& action : actions) {
    world.Carry(action);
    if (!world.violation().empty()) return world.violation();
  }
  if (drain) world.Drain();
  return world.violation();
}

// What kind of violation, whatever its numbers: a shorter log must show the same.
std::string KindOf(const std::string& violation) {
  std::string kind;
  for (char c : violation) {
    if (c < '0' || c > '9') kind += c;
  }
  return kind;
}

// Delta debugging (Zeller, 1999): leaves out ever smaller pieces for as long as the violation stays.
std::vector<Action> Shrink(std::uint64_t seed, std::vector<Action> actions, const std::string& violation, bool drain) {
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

void PrintLog(std::uint64_t seed, const std::vector<Action>& actions, bool drain) {
  World world(seed);
  const SchedulerOptions& o = world.setup().options;
  fmt::print("seed {}  # {}, {} rows, {} blocks of {}, {} in the host's memory, {} tokens and {} seqs a step\n", seed,
             PolicyOf(world.setup().policy).spec(), o.max_running, o.kv_blocks.value, o.kv_block_tokens.value,
             o.cpu_blocks.value, world.setup().limits.tokens.value, world.setup().limits.max_seqs);
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

void Add(Tally& sum, const Tally& t) {
  std::uint64_t* to = &sum.events;
  const std::uint64_t* from = &t.events;
  for (; to != &sum.plan_hash; ++to, ++from) *to += *from;
  sum.plan_hash = Mix64(sum.plan_hash ^ t.plan_hash);
}

void PrintTally(const Tally& t, std::uint64_t seeds) {
  fmt::print(
      "{} events over {} seeds: {} plans ({} idle, {} with odd limits), {} results ({} out of order, {} of unknown "
      "steps)\n"
      "{} arrivals ({} absurd), {} released, {} cancels, {} blocked, {} tool calls, {} policy changes, {} drains\n"
      "{} bad rows ({} absent, {} failed), {} moves ({} failed), {} clock faults, {} refusals of KV\n"
      "{} preempted, {} promoted, {} out of KV, {} expired, {} shed\n"
      "no violation; all plans hash to {:016x}\n",
      t.events, seeds, t.plans, t.idle, t.odd_limits, t.commits, t.out_of_order, t.unknown_steps, t.arrivals, t.absurd,
      t.finished, t.cancels, t.blocked, t.tools, t.policy_changes, t.drains, t.bad_rows, t.absent_rows, t.failed_rows,
      t.moves, t.failed_moves, t.clock_faults, t.kv_refused, t.preempted, t.promoted, t.kv_exhausted, t.expired, t.shed,
      t.plan_hash);
}

int RunSeeds(std::uint64_t first, std::uint64_t last, std::int64_t events, bool shrink) {
  Tally sum;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    World world(seed);
    RandomHost host(seed);
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
    if (shrink) PrintLog(seed, Shrink(seed, std::move(actions), world.violation(), drain), drain);
    return 1;
  }
  PrintTally(sum, last - first + 1);
  return 0;
}

int Replay(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t seed = 0;
  std::vector<Action> actions;
  bool drain = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("seed ")) seed = std::strtoull(line.c_str() + 5, nullptr, 10);
    if (const auto action = ParseAction(line)) actions.push_back(*action);
    if (line.starts_with("drain")) {
      if (!ParseAction(line)) drain = true;
    }
  }
  PrintLog(seed, actions, drain);
  return Outcome(seed, actions, drain).empty() ? 0 : 1;
}

int Main(const std::vector<std::string>& args) {
  std::uint64_t first = 1, last = 100;
  std::int64_t events = 20'000;
  bool shrink = true, scaled = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool more = i + 1 < args.size();
    if (args[i] == "--seeds" && more) {
      const std::string& range = args[++i];
      const std::size_t dots = range.find("..");
      first = std::strtoull(range.c_str(), nullptr, 10);
      last = dots == std::string::npos ? first : std::strtoull(range.c_str() + dots + 2, nullptr, 10);
    } else if (args[i] == "--events" && more) {
      events = std::strtoll(args[++i].c_str(), nullptr, 10);
    } else if (args[i] == "--scaled") {
      scaled = true;  // as many seeds as TAKT_TEST_SCALE says
    } else if (args[i] == "--no-shrink") {
      shrink = false;
    } else if (args[i] == "--replay" && more) {
      return Replay(args[++i]);
    } else {
      fmt::print("usage: takt_fire [--seeds A..B] [--events N] [--scaled] [--no-shrink] | --replay FILE\n");
      return 2;
    }
  }
  if (scaled) last = first + static_cast<std::uint64_t>(Scaled(static_cast<std::int64_t>(last - first + 1))) - 1;
  return RunSeeds(first, last, events, shrink);
}

}  // namespace
}  // namespace takt::fire

int main(int argc, char** argv) { return takt::fire::Main({argv + 1, argv + argc}); }
