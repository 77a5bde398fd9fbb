// takt_fire: a scheduler, or a router and its instances, under a random host. docs/project/under_fire.md
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bounds_host.h"
#include "campaign.h"
#include "ends_host.h"
#include "host.h"
#include "router_host.h"
#include "scale.h"
#ifdef TAKT_FIRE_C
#include "c_scheduler.h"
#endif

namespace takt::fire {
namespace {

using SchedulerCampaign = Campaign<World, RandomHost>;
using RouterCampaign = Campaign<RouterWorld, RouterHost>;
using EndsCampaign = Campaign<EndsWorld, EndsHost>;
using BoundsCampaign = Campaign<BoundsWorld, BoundsHost>;

// A world whose policy and pause policy have names in the C interface.
class NamedWorld : public World {
 public:
  static constexpr const char* kLogPrefix = "cxx ";
  explicit NamedWorld(std::uint64_t seed) : World(SetupOf(seed)) {}

 private:
  static Setup SetupOf(std::uint64_t seed) {
    Setup setup = Setup::OfSeed(seed);
    setup.by_name = true;
    return setup;
  }
};
using NamedCampaign = Campaign<NamedWorld, RandomHost>;

#ifdef TAKT_FIRE_C
class WorldInC : public NamedWorld {
 public:
  static constexpr const char* kLogPrefix = "c ";
  explicit WorldInC(std::uint64_t seed) : NamedWorld(seed) { Pair(std::make_unique<CScheduler>(setup())); }
};
using CCampaign = Campaign<WorldInC, RandomHost>;
#endif

enum class Through { kCxx, kNamed, kC, kRouter, kEnds, kBounds };
const char* PrefixOf(Through through) {
  switch (through) {
    case Through::kRouter: return RouterWorld::kLogPrefix;
    case Through::kEnds: return EndsWorld::kLogPrefix;
    case Through::kBounds: return BoundsWorld::kLogPrefix;
    case Through::kNamed: return "cxx ";
    case Through::kC: return "c ";
    case Through::kCxx: break;
  }
  return World::kLogPrefix;
}

// Calls f with a null pointer to the campaign type of this kind.
template <class F>
int OfKind(Through through, F&& f) {
  switch (through) {
    case Through::kRouter: return f(static_cast<RouterCampaign*>(nullptr));
    case Through::kEnds: return f(static_cast<EndsCampaign*>(nullptr));
    case Through::kBounds: return f(static_cast<BoundsCampaign*>(nullptr));
    case Through::kNamed: return f(static_cast<NamedCampaign*>(nullptr));
#ifdef TAKT_FIRE_C
    case Through::kC: return f(static_cast<CCampaign*>(nullptr));
#else
    case Through::kC: fmt::print("this takt_fire was built without the C interface\n"); return 2;
#endif
    case Through::kCxx: break;
  }
  return f(static_cast<SchedulerCampaign*>(nullptr));
}

int Replay(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t seed = 0;
  std::vector<Action> actions;
  bool drain = false;
  Through through = Through::kCxx;
  for (std::string line; std::getline(file, line);) {
    for (const Through kind : {Through::kRouter, Through::kEnds, Through::kBounds, Through::kNamed, Through::kC}) {
      const std::string prefix = PrefixOf(kind);
      if (line.starts_with(prefix + "seed ")) through = kind, line = line.substr(prefix.size());
    }
    if (line.starts_with("seed ")) seed = std::strtoull(line.c_str() + 5, nullptr, 10);
    if (const auto action = ParseAction(line)) {
      actions.push_back(*action);
    } else {
      drain |= line.starts_with("drain");
    }
  }
  return OfKind(through, [&]<class C>(C*) { return C::Replay(seed, actions, drain); });
}

int Main(const std::vector<std::string>& args) {
  std::uint64_t first = 1, last = 100;
  std::int64_t events = 20'000;
  bool shrink = true, survey = false, scaled = false;
  Through through = Through::kCxx;
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
      through = Through::kRouter;
    } else if (args[i] == "--ends") {
      through = Through::kEnds;
    } else if (args[i] == "--bounds") {
      through = Through::kBounds;
    } else if (args[i] == "--through" && more && (args[i + 1] == "c" || args[i + 1] == "cxx")) {
      through = args[++i] == "c" ? Through::kC : Through::kNamed;
    } else if (args[i] == "--no-facts") {
      Setup::with_facts = false;  // the worlds without agents and facts
    } else if (args[i] == "--scaled") {
      scaled = true;  // the number of seeds for TAKT_TEST_SCALE
    } else if (args[i] == "--no-shrink") {
      shrink = false;
    } else if (args[i] == "--survey") {
      survey = true;
    } else if (args[i] == "--replay" && more) {
      return Replay(args[++i]);
    } else {
      fmt::print(
          "usage: takt_fire [--router | --ends | --bounds | --through c | --through cxx] [--no-facts] "
          "[--seeds A..B] [--events N] [--scaled] "
          "[--no-shrink | --survey] | takt_fire "
          "--replay FILE\n");
      return 2;
    }
  }
  if (scaled) last = first + static_cast<std::uint64_t>(Scaled(static_cast<std::int64_t>(last - first + 1))) - 1;
  return OfKind(through, [&]<class C>(C*) { return C::Run(first, last, events, shrink, survey); });
}

}  // namespace
}  // namespace takt::fire

int main(int argc, char** argv) { return takt::fire::Main({argv + 1, argv + argc}); }
