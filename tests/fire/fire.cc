// takt_fire: a scheduler, or a router and its instances, under a random host. docs/project/under_fire.md
//
//   takt_fire --seeds 1..100 --events 20000     exit 1 at the first violation, with its seed and a short log
//   takt_fire --survey --seeds 1..100           goes on after a violation, and says for each seed what it was
//   takt_fire --no-facts --seeds 1..100         no KV arrives, is lost or pinned, and all rows are ready
//   takt_fire --router --seeds 1..50            the same with a router in front of several instances
//   takt_fire --replay FILE                     carries out such a log, line by line
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "campaign.h"
#include "host.h"
#include "router_host.h"
#include "scale.h"

namespace takt::fire {
namespace {

using SchedulerCampaign = Campaign<World, RandomHost>;
using RouterCampaign = Campaign<RouterWorld, RouterHost>;

int Replay(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t seed = 0;
  std::vector<Action> actions;
  bool drain = false, router = false;
  for (std::string line; std::getline(file, line);) {
    const std::string prefix = RouterWorld::kLogPrefix;
    if (line.starts_with(prefix + "seed ")) router = true, line = line.substr(prefix.size());
    if (line.starts_with("seed ")) seed = std::strtoull(line.c_str() + 5, nullptr, 10);
    if (const auto action = ParseAction(line)) {
      actions.push_back(*action);
    } else {
      drain |= line.starts_with("drain");
    }
  }
  return router ? RouterCampaign::Replay(seed, actions, drain) : SchedulerCampaign::Replay(seed, actions, drain);
}

int Main(const std::vector<std::string>& args) {
  std::uint64_t first = 1, last = 100;
  std::int64_t events = 20'000;
  bool shrink = true, survey = false, scaled = false, router = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool more = i + 1 < args.size();
    if (args[i] == "--seeds" && more) {
      const std::string& range = args[++i];
      const std::size_t dots = range.find("..");
      first = std::strtoull(range.c_str(), nullptr, 10);
      last = dots == std::string::npos ? first : std::strtoull(range.c_str() + dots + 2, nullptr, 10);
    } else if (args[i] == "--events" && more) {
      events = std::strtoll(args[++i].c_str(), nullptr, 10);
    } else if (args[i] == "--router") {
      router = true;
    } else if (args[i] == "--no-facts") {
      Setup::with_facts = false;  // the worlds of before there were any
    } else if (args[i] == "--scaled") {
      scaled = true;  // as many seeds as TAKT_TEST_SCALE says
    } else if (args[i] == "--no-shrink") {
      shrink = false;
    } else if (args[i] == "--survey") {
      survey = true;
    } else if (args[i] == "--replay" && more) {
      return Replay(args[++i]);
    } else {
      fmt::print(
          "usage: takt_fire [--router | --no-facts] [--seeds A..B] [--events N] [--scaled] [--no-shrink | --survey] | takt_fire "
          "--replay FILE\n");
      return 2;
    }
  }
  if (scaled) last = first + static_cast<std::uint64_t>(Scaled(static_cast<std::int64_t>(last - first + 1))) - 1;
  return router ? RouterCampaign::Run(first, last, events, shrink, survey)
                : SchedulerCampaign::Run(first, last, events, shrink, survey);
}

}  // namespace
}  // namespace takt::fire

int main(int argc, char** argv) { return takt::fire::Main({argv + 1, argv + argc}); }
