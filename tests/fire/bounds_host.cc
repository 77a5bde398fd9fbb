#include "bounds_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "broken.h"
#include "check.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/policy/sjf.h"

namespace takt::fire {
namespace {

constexpr std::uint64_t kFirstWorkflow = 1'000'000'000;
constexpr StageId kFirstStage{1}, kSecondStage{2};

AnyPolicy OrderOf(std::uint64_t bits) {
  switch (bits % 3) {
    case 0: return Fcfs{};
    case 1: return Sjf{};
    default: return Priority{};
  }
}

// Draws the options that may change.
void Draw(Dice& dice, RouterOptions& o) {
  const auto draw_count = [&dice](double rate) {
    return dice.Chance(rate) ? dice.Of<std::int64_t>({0, 1, 2, 3, 5, 8, 13, 30}) : INT64_MAX;
  };
  const auto draw_tokens = [&dice](double rate) {
    return dice.Chance(rate) ? dice.Of<std::int64_t>({0, 1, 50, 200, 1000, 5000}) : INT64_MAX;
  };
  const auto draw_limit = [&dice](double rate) { return dice.Chance(rate) ? dice.Of({0.125, 0.5, 2.0, 16.0}) : 0.0; };
  o.max_waiting = draw_count(0.5);
  o.max_waiting_tokens = draw_tokens(0.3);
  o.tenant_max_waiting = draw_count(0.4);
  o.tenant_max_waiting_tokens = draw_tokens(0.3);
  o.class_limits.clear();
  std::int32_t priority = dice.Int(-3, 3);
  for (std::int32_t left = dice.Chance(0.6) ? dice.Int(1, 4) : 0; left > 0; --left, priority += dice.Int(1, 4)) {
    o.class_limits.push_back({.priority = dice.Chance(0.05) ? std::max(priority, 100) : priority,
                              .max_waiting = draw_count(0.4),
                              .max_waiting_tokens = draw_tokens(0.3),
                              .max_wait = draw_limit(0.5)});
    priority = o.class_limits.begin()[o.class_limits.size() - 1].priority;
  }
  o.max_held = draw_limit(0.5);
  o.max_down = draw_limit(0.5);
  o.window = dice.Of({0, 1, 16});
  o.max_outstanding = dice.Of<std::int64_t>({1, 3, 10, INT64_MAX});
}

}  // namespace

void Print(const BoundsTally& t, std::uint64_t seeds) {
  fmt::print(
      "{} events over {} seeds: {} arrivals, {} of them held, {} placements in {} answers, {} instances lost\n"
      "{} expired, {} shed, {} beyond a quota, {} without an instance; {} with a time to come back\n"
      "{} changes of options\n"
      "no violation; all placements and failures hash to {:016x}\n",
      t.events, seeds, t.arrivals, t.held, t.placed, t.places, t.lost, t.expired, t.shed, t.quota, t.no_instance,
      t.timed, t.changes, t.plan_hash);
}

BoundsSetup BoundsSetup::OfSeed(std::uint64_t seed) {
  Dice dice(seed ^ 0xb0a4u);
  BoundsSetup s;
  RouterOptions& o = s.options;
  Draw(dice, o);
  o.workflows.silence = Duration::max();
  o.reserve_requests = dice.Of<std::int64_t>({0, 64});
  s.policy = dice.Bits();
  s.instances = static_cast<std::uint32_t>(dice.Int(1, 3));
  s.tenants = static_cast<std::uint32_t>(dice.Int(1, 4));
  s.sizes = dice.Chance(0.3);
  s.population = dice.Of<std::size_t>({5, 20, 60});
  s.tick = dice.Of<std::int64_t>({1, 1'000'000, 125'000'000});
  s.holds = dice.Of({0.0, 0.1, 0.5});
  s.losses = dice.Of({0.0, 0.01, 0.05});
  s.cancels = dice.Of({0.0, 0.02, 0.1});
  s.expiries = dice.Of({0.0, 0.2, 0.8});
  s.places = dice.Of({0.1, 0.4});
  s.changes = dice.Of({0.0, 0.002, 0.02});
  return s;
}

BoundsWorld::BoundsWorld(std::uint64_t seed)
    : setup_(BoundsSetup::OfSeed(seed)),
      router_(*Router::Create(setup_.options, OrderOf(setup_.policy), LeastLoaded{})),
      shadow_(setup_.options) {}

std::string BoundsWorld::Description() const {
  const RouterOptions& o = setup_.options;
  const auto limit = [](std::int64_t most) { return most == INT64_MAX ? std::string("-") : fmt::format("{}", most); };
  return fmt::format("{}; waiting {} of {} tokens, per tenant {} of {}; classes {}; held {} s, down {} s; window {}",
                     OrderOf(setup_.policy).spec(), limit(o.max_waiting), limit(o.max_waiting_tokens),
                     limit(o.tenant_max_waiting), limit(o.tenant_max_waiting_tokens), OptionToText(o.class_limits),
                     o.max_held, o.max_down, o.window);
}

void BoundsWorld::Carry(const Action& action) {
  ++tally_.events;
  try {
    Do(action);
    if (violation().empty()) Compare();
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

void BoundsWorld::Do(const Action& a) {
  now_ += Duration(std::max<std::int64_t>(a.dt, 0));
  const auto known = shadow_.lives().find(RequestId{a.name});
  Dice dice(a.bits);
  switch (a.what) {
    case Do::kArrive: return Arrive(a.name, a.bits);
    case Do::kRevise: return Revise({a.name}, a.bits);
    case Do::kUnblock: return Release();
    case Do::kChangeOptions: return Change(a.bits);
    case Do::kPlace: return Place();
    case Do::kUp: {
      const std::int64_t capacity = dice.Of<std::int64_t>({0, 1, 2, 4, Instance::kUnbounded});
      const std::int32_t kv = setup_.sizes ? dice.Of({0, 100, 1000}) : 0;
      return Up(a.at, capacity, kv);
    }
    case Do::kDown:
      if (std::ranges::none_of(router_.instances(), [&](const auto& i) { return i.instance.id.value == a.at; })) return;
      ++tally_.lost;
      router_.On(InstanceDown{{a.at}}, now_);
      return shadow_.Returns({a.at}, now_);
    case Do::kCancel:
      if (known == shadow_.lives().end()) return;
      router_.On(Cancelled{{a.name}}, now_);
      return shadow_.Leaves({a.name});
    case Do::kHear:
      if (known == shadow_.lives().end() || known->second.at != BoundsShadow::At::kPlaced) return;
      router_.On(RequestEnded{.request = {a.name}, .instance = known->second.instance}, now_);
      return shadow_.Leaves({a.name});
    default: return;
  }
}

void BoundsWorld::Arrive(std::uint64_t name, std::uint64_t bits) {
  const RequestId id{name};
  if (name == 0 || shadow_.lives().contains(id)) return;
  Dice dice(bits);
  Request request{.id = id};
  BoundsShadow::Life life;
  request.prompt_tokens = {static_cast<std::int32_t>(life.prompt = dice.Of({1, 40, 150, 999}))};
  request.tenant = {life.tenant = dice.Bits() % setup_.tenants};
  request.priority = life.priority = dice.Int(-4, 12);
  request.output_tokens = Estimate::Mean(static_cast<double>(dice.Int(1, 500)));
  if (dice.Chance(setup_.expiries)) {
    request.expires_at = life.expires_at = now_ + Duration(dice.Between(0, 40) * 50'000'000);
  }
  if (dice.Chance(setup_.holds)) {
    if (workflow_ == 0) {
      workflow_ = kFirstWorkflow + ++workflows_;
      Workflow declared{.id = {workflow_}, .open = true};
      declared.stages = {{.stage = kFirstStage}, {.stage = kSecondStage, .after = {0}, .calls = 1'000'000}};
      router_.On(WorkflowDeclared{declared}, now_);
    }
    request.workflow = {life.workflow = workflow_};
    request.stage = kSecondStage;
    life.at = BoundsShadow::At::kHeld;
    ++tally_.held;
  }
  ++tally_.arrivals;
  router_.On(Arrived{request}, now_);
  shadow_.Arrives(id, life, now_);
}

void BoundsWorld::Revise(RequestId id, std::uint64_t bits) {
  const auto at = shadow_.lives().find(id);
  if (at == shadow_.lives().end()) return;
  Dice dice(bits);
  Revised revised{.request = id};
  BoundsShadow::Life& life = at->second;
  if (dice.Chance(0.5)) revised.priority = life.priority = dice.Int(-4, 12);
  if (dice.Chance(0.7)) {
    revised.expires_at = life.expires_at =
        dice.Chance(0.3) ? kNever : now_ + Duration(dice.Between(0, 40) * 50'000'000);
  }
  router_.On(revised, now_);
}

void BoundsWorld::Change(std::uint64_t bits) {
  Dice dice(bits);
  RouterOptions to = router_.options();
  Draw(dice, to);
  if (dice.Chance(0.1)) ++to.hash_seed;
  const bool fine = router_.SetOptions(to, now_).ok();
  if (fine != (to.hash_seed == setup_.options.hash_seed)) shadow_.Violate("options are refused or taken wrongly");
  if (!fine) return;
  ++tally_.changes;
  shadow_.Changes(to);
}

// The first stage of the workflow ends, so that its held calls join the queue.
void BoundsWorld::Release() {
  if (workflow_ == 0) return;
  router_.On(StageEnded{{workflow_}, 0}, now_);
  shadow_.Releases(std::exchange(workflow_, 0), now_);
}

void BoundsWorld::Up(std::uint32_t at, std::int64_t capacity, std::int32_t kv) {
  if (at == 0) return;
  router_.On(InstanceUp{{.id = {at}, .kv_tokens = {kv}, .capacity = capacity}}, now_);
  shadow_.SomeUp();
}

void BoundsWorld::Place() {
  ++tally_.places;
  const std::span<const Placement> placed = router_.Place(now_);
  tally_.placed += placed.size();
  shadow_.Placed(placed, router_.failed(), some_up(), now_);
  for (const Placement& p : placed) tally_.plan_hash = Mix64(tally_.plan_hash ^ p.request.value);
  for (const Failure& f : router_.failed()) {
    tally_.plan_hash = Mix64(tally_.plan_hash ^ f.request.value << 32 ^ f.retry_after_ms);
    if (comment != nullptr) {
      *comment += fmt::format(" {} {} {} ms", f.request.value, Name(f.reason), f.retry_after_ms);
    }
  }
  const bool room = std::ranges::any_of(router_.instances(), [this](const InstanceState& i) {
    return i.outstanding < std::min(i.instance.capacity, router_.options().max_outstanding);
  });
  if (room && !setup_.sizes &&
      router_.stats().failed_shed + router_.stats().failed_quota > tally_.shed + tally_.quota) {
    shadow_.Violate("requests are refused, and an instance has room");
  }
  const TimePoint wake = shadow_.WakeAt(some_up());
  if (router_.wake_at() != wake) {
    shadow_.Violate(fmt::format("wake_at is {}, not {}, at {}", router_.wake_at().time_since_epoch().count(),
                                wake.time_since_epoch().count(), now_.time_since_epoch().count()));
  }
}

void BoundsWorld::Compare() {
  const auto violate = [this](const std::string& text) { shadow_.Violate(text); };
  const RouterStats& theirs = router_.stats();
  const BoundsShadow::Counts& ours = shadow_.counts();
  const auto same = [&](std::string_view name, std::uint64_t a, std::uint64_t b) {
    if (a != b) violate(fmt::format("{} is {}, not {}", name, a, b));
  };
  same("failed_expired", theirs.failed_expired, ours.expired);
  same("failed_shed", theirs.failed_shed, ours.shed);
  same("failed_quota", theirs.failed_quota, ours.quota);
  same("failed_no_instance", theirs.failed_no_instance, ours.none);
  tally_.expired = ours.expired, tally_.shed = ours.shed, tally_.quota = ours.quota;
  tally_.no_instance = ours.none, tally_.timed = ours.timed;
  std::int64_t waiting = 0;
  for (const auto& [id, life] : shadow_.lives()) waiting += life.at != BoundsShadow::At::kPlaced ? 1 : 0;
  if (router_.waiting() != waiting) violate(fmt::format("{} wait, not {}", router_.waiting(), waiting));
  if (std::cmp_not_equal(router_.alive(), shadow_.lives().size())) {
    violate(fmt::format("{} are alive, not {}", router_.alive(), shadow_.lives().size()));
  }
}

void BoundsWorld::Drain() {
  try {
    Release();
    Up(setup_.instances + 1, Instance::kUnbounded, 0);
    for (std::size_t rounds = 4 * shadow_.lives().size() + 4; rounds > 0 && violation().empty(); --rounds) {
      now_ += Duration(1'000'000);
      Place();
      std::vector<std::uint64_t> placed;
      for (const auto& [id, life] : shadow_.lives()) {
        if (life.at == BoundsShadow::At::kPlaced) placed.push_back(id.value);
      }
      for (const std::uint64_t name : placed) Do({.what = Do::kHear, .name = name});
      if (violation().empty()) Compare();
    }
    if (violation().empty() && !shadow_.lives().empty()) shadow_.Violate("requests do not end");
  } catch (const Broken& broken) {
    shadow_.Violate(broken.what());
  }
}

Action BoundsHost::Next(const BoundsWorld& world) {
  const BoundsSetup& s = world.setup();
  Action a{.what = Do::kPlace, .bits = dice_.Bits()};
  a.dt = dice_.Between(0, 100'000'000 / s.tick) * s.tick;
  if (s.tick > 100'000'000) a.dt = dice_.Chance(0.5) ? s.tick : 0;
  const std::map<RequestId, BoundsShadow::Life>& lives = world.shadow().lives();
  const auto anyone = [&] {
    if (lives.empty()) return std::uint64_t{0};
    return std::next(lives.begin(), static_cast<std::ptrdiff_t>(dice_.Index(lives.size())))->first.value;
  };
  const auto with = [&a](Do what, std::uint64_t name, std::uint32_t at = 0) {
    a.what = what, a.name = name, a.at = at;
    return a;
  };
  if (dice_.Chance(s.places)) return a;
  if (dice_.Chance(s.cancels)) return with(Do::kCancel, anyone());
  if (dice_.Chance(0.03)) return with(Do::kRevise, anyone());
  if (dice_.Chance(0.02)) return with(Do::kUnblock, 0);
  if (dice_.Chance(s.changes)) return with(Do::kChangeOptions, 0);
  const auto at = static_cast<std::uint32_t>(1 + dice_.Index(s.instances));
  if (dice_.Chance(s.losses)) return with(Do::kDown, 0, at);
  if (dice_.Chance(0.03)) return with(Do::kUp, 0, at);
  if (lives.size() < s.population && dice_.Chance(0.6)) return with(Do::kArrive, ++last_name_);
  return with(Do::kHear, anyone());
}

}  // namespace takt::fire
