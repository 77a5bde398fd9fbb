// A host with a seed, a router and several instances, each a World of its own. It places, hands over, loses and
// restarts instances, and reports to the router late. A shadow checks the router, and each instance's own shadow checks
// that instance.
#ifndef TAKT_TESTS_FIRE_ROUTER_HOST_H_
#define TAKT_TESTS_FIRE_ROUTER_HOST_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "action.h"
#include "dice.h"
#include "host.h"
#include "router_shadow.h"
#include "watched_lives.h"
#include "setup.h"
#include "takt/router.h"

namespace takt::fire {

struct RouterTally {
  std::uint64_t events = 0, steps = 0, places = 0, placed = 0, arrivals = 0, ended = 0, reported_late = 0, expired = 0;
  std::uint64_t cancels = 0, cancelled_waiting = 0, starts = 0, died = 0, lost = 0, returned = 0, drains = 0,
                reports = 0;
  std::uint64_t apart = 0, handed = 0, decodes_lost = 0, withdrawn = 0;
  std::uint64_t former = 0, kv_reports = 0, unheard = 0, twice = 0, unknown = 0, clock_faults = 0, services = 0;
  std::uint64_t plan_hash = 0;  // of all placements and plans
};
void Print(const RouterTally& tally, std::uint64_t seeds);

enum class Lives : std::uint8_t { kUnnamed, kByRouter, kByHost };

struct RouterSetup {
  Setup instance;  // of each instance; the size of its KV cache varies
  RouterRules rules;
  std::uint64_t placement = 0;  // bits for the kind of placement
  std::uint32_t instances = 1;
  bool knows_size = false;  // the router knows the size of an instance's KV cache
  std::size_t population = 0;  // requests that the host keeps alive

  double losses = 0, silent = 0,
         redescribed = 0;  // rates of noticed failures, unnoticed failures and new descriptions
  double slow = 0, slow_reports = 0;  // shares of delayed messages and delayed reports
  double cancels = 0, clock = 0, twice = 0, absurd = 0;
  Lives lives = Lives::kUnnamed;  // whether messages name a life, and whether the router or the host numbers it
  double dated = 0;  // share of reports with as_of
  double kv_reports = 0;  // rate of reports of KV blocks
  double services = 0;  // share of reports with running requests, and of ends with served tokens

  static RouterSetup OfSeed(std::uint64_t seed);
};

// Deterministic: the same seed and actions give the same run.
class RouterWorld {
 public:
  using Tally = RouterTally;
  static constexpr const char* kLogPrefix = "router ";

  explicit RouterWorld(std::uint64_t seed);
  RouterWorld(const RouterWorld&) = delete;
  RouterWorld& operator=(const RouterWorld&) = delete;

  // Impossible actions are skipped.
  void Carry(const Action& action);

  // Stops faults. All live requests must end, and nothing may be left anywhere.
  void Drain();

  struct Message {  // a message to an instance
    Event event;
    std::int32_t length = 0;  // output length of an arrival
  };
  struct Member {
    std::unique_ptr<World> world;  // null: the instance is down
    std::vector<RequestId> held;  // handed over; no end is known
    std::deque<Message> to;  // messages in transit to the instance, in order
    std::deque<RouterEvent> from;  // messages in transit to the router
    std::uint64_t starts = 0;
    std::uint64_t life = 0;  // 0: messages name no life
    std::uint64_t last_step = 0;
    bool draining = false;  // takes no new requests until it restarts
    InstanceRole role = InstanceRole::kBoth;
    std::set<RequestId> prefilled = {};  // requests that it no longer reports, because another instance decodes them
  };

  const RouterSetup& setup() const { return setup_; }
  const RouterShadow& shadow() const { return shadow_; }
  // By instance id, from 1; 0 means no instance.
  const Member& member(std::uint32_t at) const { return members_[at]; }
  std::uint32_t members() const { return static_cast<std::uint32_t>(members_.size()) - 1; }
  std::string violation() const { return shadow_.violation(); }
  const Tally& tally() const { return tally_; }
  std::string Description() const;

  std::string* comment = nullptr;

 private:
  void Do(const Action& action);
  void Send(const RouterEvent& event);
  void Arrive(const Action& action);
  void Cancel(RequestId id);
  void Place();
  void Compare();
  void Up(std::uint32_t at, std::uint64_t bits);
  void Down(std::uint32_t at);
  void Die(std::uint32_t at);
  void Post(std::uint32_t at);
  void Hear(std::uint32_t at, std::uint64_t bits);
  void Report(std::uint32_t at, std::uint64_t bits);
  void ReportKv(std::uint32_t at, RequestId like, std::uint64_t bits);
  PrefixBlocks PrefixFor(RequestId id) const;
  void Run(const Action& action);
  void Watch(std::uint32_t at);
  void Forward();
  std::uint64_t NameOf(RequestId id) const { return setup_.rules.ids.NameOf(id); }
  TokensServed Served(const Life& life, Dice& dice) const;
  void Synchronise(World& world) { world.Pass((now_ - world.now()).count()); }
  void Exchange();
  Instance Described(std::uint32_t at, std::int64_t capacity) const;
  template <class... Args>
  void Note(const char* format, const Args&... args);

  RouterSetup setup_;
  WatchedLives lives_;
  Router router_;
  RouterShadow shadow_;
  TimePoint now_{};
  std::vector<Member> members_;
  std::vector<std::int32_t> lengths_;  // true output lengths, by name
  std::vector<bool> cancelled_;  // by name
  std::map<RequestId, std::uint32_t> prefills_;  // requests that another instance will decode, and their instance
  Tally tally_;
};

// Draws the next action for a world.
class RouterHost {
 public:
  explicit RouterHost(std::uint64_t seed);
  Action Next(const RouterWorld& world);

 private:
  std::uint64_t Anyone(const RouterWorld& world);

  Dice dice_;
  std::vector<RandomHost> hosts_;  // by instance
  std::uint64_t last_name_ = 0;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_ROUTER_HOST_H_
