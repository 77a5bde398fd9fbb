#include "router_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "takt/placement/least_loaded.h"
#include "takt/placement/prefix.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/policy/sjf.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt::fire {
namespace {

constexpr std::uint32_t kMostInstances = 5;

// An autoscaler that uses every call of the interface, and often changes its decisions about instances. Its accounts
// must equal the router's.
struct Picky {
  static constexpr std::string_view kName = "picky";

  std::vector<std::int64_t> held = {};  // requests, by the slot of their instance
  std::vector<bool> placed = {};  // by slot

  void Up(const InstanceState& i, TimePoint) {
    if (i.slot >= held.size()) held.resize(i.slot + 1);
    TAKT_ASSERT(held[i.slot] == i.outstanding);
  }
  void Prepare(const RequestState& r, TimePoint) {
    if (r.slot >= placed.size()) placed.resize(r.slot + 1);
    TAKT_ASSERT(!placed[r.slot]);
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint) {
    ++held[i.slot];
    TAKT_ASSERT(!placed[r.slot] && held[i.slot] == i.outstanding);
    placed[r.slot] = true;
  }
  void Started(const RequestState& r, const InstanceState&, TimePoint) { TAKT_ASSERT(placed[r.slot]); }
  void Released(const RequestState& r, const InstanceState& i, TimePoint) {
    --held[i.slot];
    TAKT_ASSERT(placed[r.slot] && held[i.slot] >= 0);
    placed[r.slot] = false;
  }
  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const {
    TAKT_ASSERT(held[i.slot] == i.outstanding);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto tens_of_us = static_cast<std::uint64_t>(now.time_since_epoch().count()) / 10'000;
    switch (Mix64(tens_of_us ^ r.request.id.value << 20 ^ i.instance.id.value << 50) % 5) {
      case 0: return std::numeric_limits<double>::quiet_NaN();
      case 1: return -kInfinity;
      case 2: return kInfinity;
      default: return -static_cast<double>(i.outstanding);
    }
  }
};

AnyPlacement PlacementOf(std::uint64_t bits) {
  switch (bits % 8) {
    case 0:
    case 1: return RoundRobin{};
    case 2: return Picky{};
    case 3:
    case 4:
    case 5: return PrefixPlacement{};
    default: return LeastLoaded{};
  }
}

// Hashes of the blocks of a prompt, for instances without a prefix cache.
PrefixBlocks DrawPrefix(std::uint64_t bits) {
  static const std::vector<std::uint64_t> hashes = [] {
    std::vector<std::uint64_t> all(64);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }();
  Dice dice(bits);
  const std::int32_t tokens = dice.Of({0, 1, 3, 4, 16});
  const std::size_t family = dice.Index(4);
  return {{tokens}, std::span(hashes).subspan(family * 16, dice.Index(8))};
}

AnyPolicy PlainPolicy(std::uint64_t bits) {
  switch (bits % 5) {
    case 0: return Fcfs{};
    case 1: return Sjf{};
    case 2: return Priority{};
    case 3: return Edf{};
    default: return WorkflowFcfs{};
  }
}

Router MakeRouter(const RouterSetup& setup) {
  return *Router::Create(setup.rules.options, setup.rules.policy, PlacementOf(setup.placement));
}

Setup MemberSetup(const RouterSetup& setup, std::uint32_t at) {
  Setup own = setup.instance;
  std::int32_t& blocks = own.options.kv_blocks.value;
  blocks = std::max(blocks * static_cast<std::int32_t>(1 + at % 3) / 2, 1);
  return own;
}

}  // namespace

void Print(const RouterTally& t, std::uint64_t seeds) {
  fmt::print(
      "{} events over {} seeds: {} arrivals, {} placements in {} answers, {} ended, {} steps of instances\n"
      "{} instances started, {} lost with {} requests that came back, {} of them unnoticed at first, {} drained\n"
      "{} placed apart, {} handed over, {} lost their decode instance before, {} withdrawn from their "
      "prefill instance\n"
      "{} cancels ({} in the router's queue), {} expired there, {} reports, {} reports of services, {} late "
      "reports, {} of former lives, {} of KV blocks, {} twice, {} of unknown "
      "requests or instances, {} messages to the dead, {} clock faults\n"
      "no violation; all placements and plans hash to {:016x}\n",
      t.events, seeds, t.arrivals, t.placed, t.places, t.ended, t.steps, t.starts, t.lost, t.returned, t.died, t.drains,
      t.apart, t.handed, t.decodes_lost, t.withdrawn, t.cancels, t.cancelled_waiting, t.expired, t.reports, t.services,
      t.reported_late, t.former, t.kv_reports, t.twice, t.unknown, t.unheard, t.clock_faults, t.plan_hash);
}

RouterSetup RouterSetup::OfSeed(std::uint64_t seed) {
  Dice dice(seed ^ 0x40a7e4u);
  RouterSetup s;
  const auto sometimes = [&dice](double rate) { return dice.Chance(0.6) ? rate * dice.Of({0.1, 0.5, 1.0}) : 0.0; };
  s.instance = Setup::OfSeed(seed);
  s.instance.population = 0;  // all requests come through the router
  s.instance.drains = false;
  s.rules.ids = s.instance.ids;
  s.rules.plain = dice.Chance(0.5);
  s.rules.policy = s.rules.plain ? PlainPolicy(dice.Bits()) : PolicyOf(dice.Bits());
  s.rules.options.max_outstanding = dice.Of<std::int64_t>({1, 3, 10, Instance::kUnbounded, Instance::kUnbounded});
  s.rules.options.window = dice.Of({0, 1, 16});
  s.rules.options.reserve_requests = dice.Of<std::int64_t>({0, 64});
  s.placement = dice.Bits();
  s.rules.willing = PlacementOf(s.placement).name() != Picky::kName;
  s.rules.cached = PlacementOf(s.placement).name() == PrefixPlacement::kName;
  s.kv_reports = s.rules.cached ? 0.1 : 0.002;
  s.instances = static_cast<std::uint32_t>(dice.Int(1, static_cast<std::int32_t>(kMostInstances)));
  s.knows_size = dice.Chance(0.5);
  s.population = s.instances * dice.Of<std::size_t>({2, 6, 20});
  s.losses = sometimes(0.01);
  s.silent = sometimes(0.8);
  s.redescribed = sometimes(0.01);
  s.slow = sometimes(0.95);
  s.slow_reports = sometimes(0.95);
  s.cancels = sometimes(0.02);
  s.clock = sometimes(0.05);
  s.twice = sometimes(0.2);
  s.absurd = sometimes(0.2);
  s.services = dice.Chance(0.7) ? dice.Of({0.1, 0.5, 1.0}) : 0.0;
  s.lives = dice.Of({Lives::kUnnamed, Lives::kByRouter, Lives::kByHost});
  s.dated = dice.Of({0.0, 0.5, 1.0});
  if (!dice.Chance(0.3)) {
    s.rules.apart = dice.Chance(0.6);
    s.rules.options.local_tokens = dice.Of({0, 0, 8, 64});
    s.rules.options.local_if_sooner = dice.Chance(0.3);
    return s;
  }
  s.rules.fair = true;
  s.rules.plain = false;
  s.knows_size = false;
  s.rules.options.max_outstanding = dice.Of<std::int64_t>({1, 3, 10});  // so that some requests wait
  FairShare::Options shares;
  for (std::uint64_t tenant : {1u, 2u}) {
    if (dice.Chance(0.5)) shares.weights.weights.push_back({{tenant}, dice.Of({0.01, 0.5, 3.0, 1e6})});
  }
  for (const TenantWeights::Weight& w : shares.weights.weights) s.rules.weights[w.tenant.value] = w.weight;
  s.rules.policy = FairShare(shares);
  return s;
}

// ---- the world ------------------------------------------------------------------------------------------------

RouterWorld::RouterWorld(std::uint64_t seed)
    : setup_(RouterSetup::OfSeed(seed)),
      router_(MakeRouter(setup_)),
      shadow_(setup_.rules),
      members_(setup_.instances + 1) {
  router_.Watch(lives_.observer());
}

std::string RouterWorld::Description() const {
  return fmt::format("{}, {}, {} instances, at most {} on one, window {}", setup_.rules.policy.spec(),
                     PlacementOf(setup_.placement).name(), setup_.instances, setup_.rules.options.max_outstanding,
                     setup_.rules.options.window);
}

template <class... Args>
void RouterWorld::Note(const char* format, const Args&... args) {
  if (comment != nullptr) *comment += fmt::format(fmt::runtime(format), args...);
}

void RouterWorld::Carry(const Action& action) {
  ++tally_.events;
  try {
    Do(action);
    if (tally_.events % 16 == 0 && violation().empty()) Compare();
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

void RouterWorld::Do(const Action& a) {
  now_ += Duration(a.dt);
  if (a.dt < 0 || a.dt > 1'000'000'000) ++tally_.clock_faults;
  if (a.at >= members_.size()) return;
  switch (a.what) {
    case Do::kPlace: return Place();
    case Do::kUp: return Up(a.at, a.bits);
    case Do::kDown: return Down(a.at);
    case Do::kDie: ++tally_.died; return Die(a.at);
    case Do::kPost: return Post(a.at);
    case Do::kHear: return Hear(a.at, a.bits);
    case Do::kReport: return Report(a.at, a.bits);
    case Do::kReportKv: return ReportKv(a.at, setup_.rules.ids.Of(a.name), a.bits);
    default: break;
  }
  if (a.at > 0) return Run(a);
  switch (a.what) {
    case Do::kArrive: return Arrive(a);
    case Do::kRevise: {
      const Revised r = DrawRevised(setup_.rules.ids.Of(a.name), setup_.instance, now_, a.bits);
      const InstanceId place = shadow_.request(r.request).place;
      if (place && members_[place.value].world) members_[place.value].to.push_back({r});
      return Send(r);
    }
    case Do::kCancel: return Cancel(setup_.rules.ids.Of(a.name));
    default: return;
  }
}

void RouterWorld::Compare() {
  shadow_.Compare(router_);
  if (const std::string fault = lives_.UnlikeRouter(router_); !fault.empty()) shadow_.Violate(fault);
}

void RouterWorld::Send(const RouterEvent& event) {
  router_.On(event, now_);
  shadow_.Handled(event, now_, router_);
  tally_.ended = router_.stats().ended, tally_.reported_late = router_.stats().reported_late;
  tally_.returned = router_.stats().returned, tally_.lost = router_.stats().instances_lost;
  tally_.unknown = router_.stats().events_unknown;
  Forward();
}

// Sends the requests that have left their prefill instance to their decode instance.
void RouterWorld::Forward() {
  tally_.apart = router_.stats().placed_apart, tally_.handed = router_.stats().handed_over;
  tally_.decodes_lost = router_.stats().decode_lost;
  std::erase_if(prefills_, [&](const auto& prefill) {
    const auto& [id, from] = prefill;
    const RouterShadow::Request& request = shadow_.request(id);
    if (!request.alive || !request.place) return true;
    if (request.place == InstanceId{from}) return false;
    members_[from].prefilled.insert(id);
    if (members_[from].world) members_[from].to.push_back({Cancelled{id}});
    Member& to = members_[request.place.value];
    if (!to.world) {
      ++tally_.unheard;
      return true;
    }
    Request arrival = router_.Find(id)->request;
    arrival.prefix = PrefixFor(id), arrival.scores = {};
    to.to.push_back({Arrived{arrival}, lengths_[NameOf(id)]});
    return true;
  });
}

void RouterWorld::Arrive(const Action& a) {
  const RequestId id = setup_.rules.ids.Of(a.name);
  Drawn drawn = DrawRequest(id, setup_.instance, now_, a.bits);
  if (setup_.rules.cached && setup_.instance.families == 0) drawn.request.prefix = DrawPrefix(Mix64(a.bits));
  ++tally_.arrivals;
  if (a.name >= lengths_.size()) lengths_.resize(a.name + 256), cancelled_.resize(lengths_.size());
  if (!shadow_.request(id).alive) lengths_[a.name] = drawn.length;
  Note("prompt {}, output {}", drawn.request.prompt_tokens.value, drawn.length);
  Send(Arrived{drawn.request});
}

// Also sends the event to the instance that has the request.
void RouterWorld::Cancel(RequestId id) {
  const RouterShadow::Request& request = shadow_.request(id);
  ++tally_.cancels;
  tally_.cancelled_waiting += request.alive && !request.place ? 1u : 0u;
  if (request.alive) cancelled_[NameOf(id)] = true;
  const InstanceId place = request.place;
  if (place && members_[place.value].world) members_[place.value].to.push_back({Cancelled{id}});
  Send(Cancelled{id});
}

void RouterWorld::Place() {
  ++tally_.places;
  const std::span<const Placement> placements = router_.Place(now_);
  shadow_.Placed(placements, now_, router_);
  if (!violation().empty()) return;
  tally_.expired = router_.stats().failed_expired, tally_.returned = router_.stats().returned;
  for (const Placement& p : router_.withdrawn()) {  // decode instances have received nothing yet
    Member& from = members_[p.instance.value];
    if (from.role != InstanceRole::kPrefill) continue;
    ++tally_.withdrawn;
    prefills_.erase(p.request), from.prefilled.insert(p.request);
    if (from.world) from.to.push_back({Cancelled{p.request}});
  }
  for (const Failure& f : router_.failed()) Note(" fails {} ({})", f.request.value, Name(f.reason));
  for (const Placement& p : placements) {
    ++tally_.placed;
    tally_.plan_hash = Mix64(Mix64(tally_.plan_hash ^ p.request.value) ^ p.instance.value);
    Note(" {} to {}", p.request.value, p.instance.value);
    Member& member = members_[p.instance.value];
    if (!member.world) {
      ++tally_.unheard;  // until the loss is noticed
      continue;
    }
    Request request = router_.Find(p.request)->request;
    request.prefix = PrefixFor(p.request);
    request.scores = {};
    member.to.push_back({Arrived{request}, lengths_[NameOf(p.request)]});
    if (member.role == InstanceRole::kPrefill) {
      prefills_[p.request] = static_cast<std::uint32_t>(p.instance.value);
    }
  }
  Forward();
}

Instance RouterWorld::Described(std::uint32_t at, std::int64_t capacity) const {
  const SchedulerOptions& o = members_[at].world->setup().options;
  const bool reported = setup_.knows_size && o.kv != KvMode::kNone;
  return {.id = {at},
          .profile = {},
          .kv_tokens = {reported ? o.kv_blocks.value * o.kv_block_tokens.value : 0},
          .capacity = capacity,
          .role = members_[at].role,
          .life = setup_.lives == Lives::kByHost ? members_[at].life : 0,
          .max_adapters = static_cast<std::int32_t>(at % 3)};
}

// Starts an instance, or sends a new description of a running instance.
void RouterWorld::Up(std::uint32_t at, std::uint64_t bits) {
  if (at == 0) return;
  Member& member = members_[at];
  Dice dice(bits);
  std::int64_t capacity = dice.Of<std::int64_t>({1, 4, 20, Instance::kUnbounded, Instance::kUnbounded});
  if (member.world == nullptr) {
    // The loss went unnoticed. A new life reveals the loss.
    if (shadow_.up({at}) && (setup_.lives != Lives::kByHost || dice.Chance(0.5))) Down(at);
    // Messages of the former life are still in transit. If they name no life, only as_of lets the router recognize
    // them.
    if (member.life > 0) {
      if (dice.Chance(0.3)) member.from.push_back(InstanceDown{{at}, member.life});
    } else {
      std::erase_if(member.from, [](const RouterEvent& event) {
        const auto* reported = std::get_if<InstanceReported>(&event);
        return reported == nullptr || reported->report.as_of == kUnset;
      });
    }
    member = {.world = std::make_unique<World>(MemberSetup(setup_, at)),
              .held = {},
              .to = {},
              .from = std::move(member.from),
              .starts = member.starts + 1,
              .life = setup_.lives == Lives::kByHost ? member.starts + 1 : 0};
    using enum InstanceRole;
    if (setup_.rules.apart) member.role = dice.Of({kBoth, kPrefill, kPrefill, kDecode, kDecode});
    ++tally_.starts;
    Synchronise(*member.world);
  } else if (dice.Chance(0.3) || member.draining) {
    capacity = 0;
    if (!member.draining && dice.Chance(0.5)) {
      member.draining = true;
      member.to.push_back({takt::Drain{}});
      ++tally_.drains;
    }
  }
  Note("capacity {}", capacity);
  if (dice.Chance(setup_.absurd * 0.1)) {  // another role, without another life
    Instance other = Described(at, capacity);
    other.life = 0;
    other.role = other.role == InstanceRole::kDecode ? InstanceRole::kBoth : InstanceRole::kDecode;
    if (shadow_.up({at})) Send(InstanceUp{other});
  }
  Send(InstanceUp{Described(at, capacity)});
  if (setup_.lives != Lives::kByRouter) return;
  for (const InstanceState& i : router_.instances()) {
    if (i.instance.id == InstanceId{at}) member.life = i.instance.life;
  }
}

void RouterWorld::Down(std::uint32_t at) {
  if (at > 0) Die(at);
  Send(InstanceDown{{at}});
}

// The router receives no event.
void RouterWorld::Die(std::uint32_t at) {
  Member& member = members_[at];
  if (member.world == nullptr) return;
  tally_.unheard += member.to.size();
  member.world.reset();
  member.held.clear();
  member.to.clear();
  member.draining = false;
}

// Delivers the next message to its instance.
void RouterWorld::Post(std::uint32_t at) {
  Member& member = members_[at];
  if (member.world == nullptr || member.to.empty()) return;
  const Message message = std::move(member.to.front());
  member.to.pop_front();
  World& world = *member.world;
  Synchronise(world);
  if (const auto* arrived = std::get_if<Arrived>(&message.event)) {
    Note("request {} arrives", arrived->request.id.value);
    member.prefilled.erase(arrived->request.id);
    member.held.push_back(arrived->request.id);
    world.Arrive(arrived->request, message.length);
  } else {
    world.Send(message.event);
  }
  Watch(at);
}

// Delivers the next message of an instance to the router. Messages of a lost instance are still delivered until it is
// back.
void RouterWorld::Hear(std::uint32_t at, std::uint64_t bits) {
  Member& member = members_[at];
  if (member.from.empty()) return;
  RouterEvent event = std::move(member.from.front());
  member.from.pop_front();
  Dice dice(bits);
  if (auto* ended = std::get_if<RequestEnded>(&event)) {
    Note("request {} has ended", ended->request.value);
    if (shadow_.request(ended->request).place == InstanceId{at} && dice.Chance(0.2)) ended->instance = {};
  }
  const auto named = [](auto& e) -> std::uint64_t* {
    if constexpr (requires { e.life; }) return &e.life;
    return nullptr;
  };
  std::uint64_t* life = std::visit(named, event);
  tally_.former += life != nullptr && *life != 0 && *life < member.life ? 1u : 0u;
  if (life != nullptr && dice.Chance(setup_.absurd * 0.2)) {
    const std::uint64_t true_life = std::exchange(*life, UINT64_MAX);  // a life that has not begun
    Send(event);
    *life = true_life;
  }
  Send(event);
  if (!dice.Chance(setup_.twice)) return;
  ++tally_.twice;
  Send(event);
}

void RouterWorld::Report(std::uint32_t at, std::uint64_t bits) {
  Member& member = members_[at];
  if (member.world == nullptr) return;
  const Scheduler& s = member.world->scheduler();
  InstanceReport report{.waiting = s.waiting(),
                        .running = s.running(),
                        .preempted = static_cast<std::int64_t>(s.stats().preempted_recompute),
                        .kv_used = {s.kv().used.value}};
  Dice dice(bits);
  if (dice.Chance(setup_.absurd * 0.2)) report.waiting = -1;
  if (dice.Chance(setup_.absurd * 0.2)) report.running = std::numeric_limits<std::int64_t>::max();
  if (dice.Chance(setup_.absurd * 0.2)) report.kv_used = Tokens::Max();
  if (dice.Chance(setup_.dated)) report.as_of = now_;
  if (dice.Chance(setup_.absurd * 0.2)) {
    report.as_of = dice.Of({kNever, After(kUnset, Duration(1)), After(now_, Duration(1'000'000))});
  }
  ++tally_.reports;
  // The message overtakes others, or is overtaken.
  const std::size_t place = dice.Chance(0.3) ? dice.Index(member.from.size() + 1) : member.from.size();
  member.from.insert(member.from.begin() + static_cast<std::ptrdiff_t>(place),
                     InstanceReported{{at}, report, member.life});
  if (!dice.Chance(setup_.services)) return;
  for (RequestId id : member.held) {
    member.from.push_back(RequestServed{id, {at}, Served(member.world->shadow().life(id), dice), member.life});
    ++tally_.services;
  }
}

// Returns the hashes of a request for an instance, from memory that outlives the router's copy.
PrefixBlocks RouterWorld::PrefixFor(RequestId id) const {
  return setup_.instance.families > 0 ? shadow_.request(id).state.request.prefix : PrefixBlocks{};
}

// Some blocks of a request come or go in the instance's cache, whether or not the request is there.
void RouterWorld::ReportKv(std::uint32_t at, RequestId like, std::uint64_t bits) {
  Member& member = members_[at];
  if (at == 0 || member.world == nullptr) return;
  Dice dice(bits);
  ++tally_.kv_reports;
  std::span<const std::uint64_t> hashes = shadow_.request(like).state.request.prefix.hashes;
  if (dice.Chance(0.3)) hashes = hashes.subspan(dice.Index(hashes.size() + 1));
  if (dice.Chance(0.02)) return member.from.push_back(KvCleared{{at}, member.life});
  if (dice.Chance(0.2)) return member.from.push_back(KvRemoved{{at}, hashes, member.life});
  member.from.push_back(KvStored{{at}, hashes, member.life});
}

// An instance's report of a request: correct or invalid.
TokensServed RouterWorld::Served(const Life& life, Dice& dice) const {
  TokensServed served{{life.computed}, {life.generated * life.row_sequences}};
  if (!dice.Chance(setup_.absurd * 0.2)) return served;
  Tokens& absurd = dice.Chance(0.5) ? served.prefill : served.output;
  absurd = {dice.Of<std::int32_t>({-1, std::numeric_limits<std::int32_t>::min(), 0, 1 << 20, Tokens::Max().value})};
  return served;
}

// An instance's own host acts.
void RouterWorld::Run(const Action& a) {
  Member& member = members_[a.at];
  if (member.world == nullptr || a.what == Do::kArrive) return;
  Action own = a;
  own.dt = (now_ - member.world->now()).count();
  own.at = 0;
  member.world->comment = comment;
  member.world->Carry(own);
  member.world->comment = nullptr;
  Watch(a.at);
}

// Every request that an instance runs must be placed there. Every end at an instance is reported in time.
void RouterWorld::Watch(std::uint32_t at) {
  Member& member = members_[at];
  const Shadow& theirs = member.world->shadow();
  if (!theirs.violation().empty()) return shadow_.Violate(fmt::format("instance {}: {}", at, theirs.violation()));
  if (!theirs.steps().empty() && theirs.steps().back().id.value > member.last_step) {
    const Shadow::Step& step = theirs.steps().back();
    member.last_step = step.id.value;
    ++tally_.steps;
    for (const PlanEntry& entry : step.entries) {
      tally_.plan_hash = Mix64(tally_.plan_hash ^ entry.request.value);
      if (tally_.plan_hash % 8 == 0) member.from.push_back(RequestStarted{entry.request, {at}, member.life});
      const RouterShadow::Request& request = shadow_.request(entry.request);
      if (member.prefilled.contains(entry.request)) continue;
      if (const InstanceId then = request.decode; request.place == InstanceId{at} && then && entry.samples()) {
        const std::uint64_t bits = Mix64(tally_.plan_hash ^ entry.request.value);
        if (bits % 4 == 0) {
          member.from.push_back(PrefillEnded{entry.request, {at}, member.life});
          member.prefilled.insert(entry.request);
          Member& to = members_[then.value];  // its message may overtake the one above
          if (bits % 16 == 0 && to.world) to.from.push_back(RequestStarted{entry.request, then, to.life});
        }
      }
      if (cancelled_[NameOf(entry.request)] || (request.alive && request.place == InstanceId{at})) continue;
      return shadow_.Violate(fmt::format("request {} runs on {}, and is {}", entry.request.value, at,
                                         request.alive ? "elsewhere" : "over"));
    }
  }
  std::erase_if(member.held, [&](RequestId id) {
    const Life& life = theirs.life(id);
    if (life.is != Is::kNowhere && (life.is != Is::kEnded || life.must_fail)) return false;
    if (member.prefilled.contains(id)) return true;
    RequestEnded ended{.request = id, .instance = {at}, .life = member.life};
    Dice dice(Mix64(id.value ^ theirs.steps().size()));
    ended.failed = dice.Chance(0.1);
    if (dice.Chance(setup_.services)) ended.served = Served(life, dice);
    member.from.push_back(ended);
    return true;
  });
}

// ---- the quiet at the end -------------------------------------------------------------------------------------

// All messages in transit arrive.
void RouterWorld::Exchange() {
  for (std::uint32_t at = 1; at < members_.size(); ++at) {
    while (!members_[at].to.empty() && members_[at].world && violation().empty()) Post(at);
    while (!members_[at].from.empty() && violation().empty()) Hear(at, 0);
  }
}

void RouterWorld::Drain() {
  try {
    setup_.twice = 0;
    // Losses are noticed, and a last instance takes all remaining requests.
    for (std::uint32_t at = 1; at < members_.size(); ++at) {
      if (members_[at].world == nullptr && shadow_.up({at})) Down(at);
    }
    Member& last = members_.emplace_back();
    last.world = std::make_unique<World>(MemberSetup(setup_, members()));
    Synchronise(*last.world);
    last.life = setup_.lives == Lives::kByHost ? 1 : 0;
    Instance described = Described(members(), Instance::kUnbounded);
    described.kv_tokens = {0};
    Send(InstanceUp{described});
    if (setup_.rules.apart) {  // for requests that wait on a prefill instance
      Member& decode = members_.emplace_back();
      decode.world = std::make_unique<World>(MemberSetup(setup_, members()));
      Synchronise(*decode.world);
      decode.life = setup_.lives == Lives::kByHost ? 1 : 0;
      decode.role = InstanceRole::kDecode;
      Instance also = Described(members(), Instance::kUnbounded);
      also.kv_tokens = {0};
      Send(InstanceUp{also});
    }

    std::size_t rounds = 100 + 20 * shadow_.alive().size();
    for (; rounds > 0 && !shadow_.alive().empty() && violation().empty(); --rounds) {
      now_ += Duration(100'000);
      Place();
      Exchange();
      for (std::uint32_t at = 1; at < members_.size() && violation().empty(); ++at) {
        if (members_[at].world == nullptr) continue;
        Synchronise(*members_[at].world);
        members_[at].world->Drain();
        Watch(at);
      }
      Exchange();
    }
    if (!violation().empty()) return;
    if (!shadow_.alive().empty()) return shadow_.Violate(fmt::format("{} requests do not end", shadow_.alive().size()));
    Compare();
    for (const Member& member : members_) {
      if (!member.held.empty()) shadow_.Violate("an instance holds requests, and the router none");
    }
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

// ---- drawing --------------------------------------------------------------------------------------------------

RouterHost::RouterHost(std::uint64_t seed) : dice_(seed ^ 0x4057u) {
  for (std::uint32_t at = 0; at <= kMostInstances; ++at) hosts_.emplace_back(Mix64(seed) + at);
}

std::uint64_t RouterHost::Anyone(const RouterWorld& world) {
  const std::vector<RequestId>& ids = world.shadow().alive();
  if (ids.empty() || dice_.Chance(0.02)) return dice_.Bits() % (last_name_ + 3);
  return world.setup().rules.ids.NameOf(ids[dice_.Index(ids.size())]);
}

Action RouterHost::Next(const RouterWorld& world) {
  const RouterSetup& s = world.setup();
  Action a{.bits = dice_.Bits(), .dt = 0};
  const std::int64_t tick = s.instance.tick;
  a.dt = dice_.Chance(s.clock) ? dice_.Of<std::int64_t>({0, -1, -1'000'000, 5'000'000'000})
                               : dice_.Between(0, 20'000 / tick) * tick;
  const auto with = [&a](Do what, std::uint64_t name, std::uint32_t at = 0) {
    a.what = what, a.name = name, a.at = at;
    return a;
  };
  if (dice_.Chance(s.cancels)) return with(Do::kCancel, Anyone(world));
  if (dice_.Chance(0.01)) return with(Do::kRevise, Anyone(world));
  if (world.shadow().alive().size() < s.population && dice_.Chance(0.2)) {
    const bool again = !world.shadow().alive().empty() && dice_.Chance(0.02);  // an id that is alive
    return with(Do::kArrive, again ? Anyone(world) : ++last_name_);
  }
  if (dice_.Chance(0.15)) return with(Do::kPlace, 0);

  const auto at = static_cast<std::uint32_t>(1 + dice_.Index(world.members()));
  const RouterWorld::Member& member = world.member(at);
  if (!member.from.empty() && !dice_.Chance(s.slow_reports)) return with(Do::kHear, 0, at);
  if (member.world == nullptr) {
    if (world.shadow().up({at}) && dice_.Chance(0.3)) return with(Do::kDown, 0, at);
    if (dice_.Chance(0.1)) return with(Do::kUp, 0, at);
    return with(Do::kPlace, 0);
  }
  if (dice_.Chance(s.losses)) return with(dice_.Chance(s.silent) ? Do::kDie : Do::kDown, 0, at);
  if (dice_.Chance(s.redescribed)) return with(Do::kUp, 0, at);
  if (member.draining && member.held.empty() && dice_.Chance(0.05)) return with(Do::kDown, 0, at);
  if (dice_.Chance(s.kv_reports)) return with(Do::kReportKv, Anyone(world), at);
  if (dice_.Chance(0.02)) return with(Do::kReport, 0, at);
  if (!member.to.empty() && !dice_.Chance(s.slow)) return with(Do::kPost, 0, at);
  Action own = hosts_[at].Next(*member.world);
  own.at = at;
  own.dt = a.dt;
  return own;
}

}  // namespace takt::fire
