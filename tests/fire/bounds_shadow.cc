#include "bounds_shadow.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "check.h"

namespace takt::fire {
namespace {

Duration Seconds(double s) { return Duration(static_cast<std::int64_t>(s * 1e9)); }

}  // namespace

void BoundsShadow::Arrives(RequestId id, Life life, TimePoint now) {
  life.arrived = now;
  Life& kept = lives_[id] = life;
  if (kept.at == At::kWaiting) Joins(kept, now);
}

void BoundsShadow::Joins(Life& life, TimePoint now) {
  life.at = At::kWaiting;
  life.joined = ++joins_, life.joined_at = now;
  life.own_class = ClassOf(life.priority);
}

void BoundsShadow::Changes(const RouterOptions& to) {
  const RouterOptions from = std::exchange(options_, to);
  const auto bounds = [](const RouterOptions& o) {
    return std::tuple(o.max_waiting, o.max_waiting_tokens, o.tenant_max_waiting, o.tenant_max_waiting_tokens,
                      OptionToText(o.class_limits));
  };
  if (bounds(from) == bounds(to)) return;
  std::vector<std::pair<RequestId, Life*>> waiting;
  for (auto& [id, life] : lives_) {
    if (Counted(life)) waiting.emplace_back(id, &life);
  }
  std::ranges::sort(waiting, {}, [](const auto& each) {
    return std::tuple(each.second->joined_at, each.second->arrived, each.first);
  });
  for (const auto& [id, life] : waiting) life->joined = ++joins_, life->own_class = ClassOf(life->priority);
  // The past of a queue stays if the queue does.
  std::map<Queue, Past> before = std::exchange(past_, {});
  for (const auto& [queue, past] : before) {
    const auto& [kind, number] = queue;
    if (kind == Kind::kAll || (kind == Kind::kTenant && Remembers(kind))) past_[queue] = past;
    if (kind != Kind::kClass || !Remembers(kind)) continue;
    for (std::size_t i = 0; i < to.class_limits.size(); ++i) {
      if (to.class_limits[i].priority == from.class_limits[number].priority) past_[{kind, i}] = past;
    }
  }
}

// Returns true if a bound needs the past of such queues.
bool BoundsShadow::Remembers(Kind kind) const {
  const bool tenants = options_.tenant_max_waiting < INT64_MAX || options_.tenant_max_waiting_tokens < INT64_MAX;
  if (kind == Kind::kTenant) return tenants;
  return tenants || options_.max_waiting < INT64_MAX || options_.max_waiting_tokens < INT64_MAX ||
         std::ranges::any_of(
             options_.class_limits,
             [](const ClassLimits& c) { return c.max_waiting < INT64_MAX || c.max_waiting_tokens < INT64_MAX; });
}

int BoundsShadow::ClassOf(std::int32_t priority) const {
  return static_cast<int>(std::ranges::count_if(options_.class_limits,
                                                [&](const ClassLimits& c) { return c.priority <= priority; })) -
         1;
}

void BoundsShadow::Releases(std::uint64_t workflow, TimePoint now) {
  std::vector<Life*> held;
  for (auto& [id, life] : lives_) {
    if (life.at == At::kHeld && life.workflow == workflow) held.push_back(&life);
  }
  std::ranges::stable_sort(held, {}, &Life::arrived);  // then by id, which counts arrivals
  for (Life* life : held) Joins(*life, now);
}

std::vector<BoundsShadow::Queue> BoundsShadow::QueuesOf(const Life& life) const {
  std::vector<Queue> queues = {{Kind::kTenant, life.tenant}, {Kind::kAll, 0}};
  if (life.own_class >= 0) queues.emplace_back(Kind::kClass, static_cast<std::uint64_t>(life.own_class));
  return queues;
}

bool BoundsShadow::In(const Life& life, Queue queue) const {
  if (!Counted(life)) return false;
  const std::vector<Queue> queues = QueuesOf(life);
  return std::ranges::find(queues, queue) != queues.end();
}

// A request leaves its queues. Call this while it still waits. A request whose time is over does not wait any more.
void BoundsShadow::Left(const Life& life, bool placed, TimePoint now) {
  if (!Counted(life)) return;
  for (const Queue& queue : QueuesOf(life)) {
    if (!Remembers(std::get<0>(queue))) continue;
    const auto others = std::ranges::count_if(lives_, [&](const auto& each) {
      return &each.second != &life && In(each.second, queue) && !(placed && LimitOf(each.second) <= now);
    });
    if (placed && others > 0) past_[queue].left = now;
    if (others == 0 && std::get<0>(queue) == Kind::kTenant) past_.erase(queue);
  }
}

void BoundsShadow::Leaves(RequestId id) {
  Left(lives_.at(id), false, {});
  lives_.erase(id);
}

void BoundsShadow::Returns(InstanceId lost, TimePoint now) {
  for (auto& [id, life] : lives_) {
    if (life.at == At::kPlaced && life.instance == lost) Joins(life, now);
  }
}

// Returns the time at which a waiting or held request fails with kExpired.
TimePoint BoundsShadow::LimitOf(const Life& life) const {
  if (life.at == At::kPlaced) return kNever;
  if (life.at == At::kHeld) {
    const TimePoint end = options_.max_held > 0 ? life.arrived + Seconds(options_.max_held) : kNever;
    return std::min(end, life.expires_at);
  }
  const int own_class = ClassOf(life.priority);
  if (own_class < 0) return life.expires_at;
  const double most = options_.class_limits[static_cast<std::size_t>(own_class)].max_wait;
  return most > 0 ? std::min(life.expires_at, life.joined_at + Seconds(most)) : life.expires_at;
}

// A queue above its bounds loses the request that joined last, until the rest fits. One request may wait alone.
void BoundsShadow::Shed(Queue queue, std::int64_t most, std::int64_t most_tokens, FailReason reason,
                        std::map<RequestId, Expected>& expected) {
  std::vector<std::pair<std::uint64_t, RequestId>> members;
  std::int64_t tokens = 0;
  for (const auto& [id, life] : lives_) {
    if (!In(life, queue) || expected.contains(id)) continue;
    members.emplace_back(life.joined, id);
    tokens += life.prompt;
  }
  std::ranges::sort(members, [](const auto& a, const auto& b) { return a.first < b.first; });
  while (std::cmp_greater(members.size(), most) || (tokens > most_tokens && members.size() > 1)) {
    const RequestId last = members.back().second;
    tokens -= lives_.at(last).prompt;
    expected.insert({last, {reason, queue}});
    members.pop_back();
  }
}

void BoundsShadow::Placed(std::span<const Placement> placed, std::span<const Failure> failed, bool some_up,
                          TimePoint now) {
  std::map<RequestId, Expected> expected;
  for (const auto& [id, life] : lives_) {
    if (LimitOf(life) <= now) expected.insert({id, {FailReason::kExpired, {}}});
  }
  if (!some_up && down_since_ == kNever) down_since_ = now;
  if (!some_up && options_.max_down > 0 && now >= down_since_ + Seconds(options_.max_down)) {
    for (const auto& [id, life] : lives_) {
      if (life.at == At::kWaiting) expected.insert({id, {FailReason::kNoInstance, {}}});
    }
  }
  for (const Placement& p : placed) {
    const auto at = lives_.find(p.request);
    FIRE_CHECK(at != lives_.end() && at->second.at == At::kWaiting, "request {} is placed, and does not wait",
               p.request.value);
    FIRE_CHECK(!expected.contains(p.request), "request {} is placed, and its time is over", p.request.value);
    Left(at->second, true, now);
    at->second.at = At::kPlaced, at->second.placed_before = true, at->second.instance = p.instance;
  }
  std::map<std::uint64_t, bool> tenants;
  for (const auto& [id, life] : lives_) tenants[life.tenant] = true;
  for (const auto& [tenant, any] : tenants) {
    Shed({Kind::kTenant, tenant}, options_.tenant_max_waiting, options_.tenant_max_waiting_tokens, FailReason::kQuota,
         expected);
  }
  for (std::size_t i = 0; i < options_.class_limits.size(); ++i) {
    const ClassLimits& c = options_.class_limits[i];
    Shed({Kind::kClass, i}, c.max_waiting, c.max_waiting_tokens, FailReason::kShed, expected);
  }
  Shed({Kind::kAll, 0}, options_.max_waiting, options_.max_waiting_tokens, FailReason::kShed, expected);

  for (const Failure& f : failed) {
    const auto at = expected.find(f.request);
    FIRE_CHECK(at != expected.end(), "request {} fails as {}, and was not expected to", f.request.value,
               Name(f.reason));
    const bool bound = at->second.reason == FailReason::kShed || at->second.reason == FailReason::kQuota;
    const FailReason reason = bound && !some_up ? FailReason::kNoInstance : at->second.reason;
    FIRE_CHECK(f.reason == reason, "request {} fails as {}, and not as {}", f.request.value, Name(f.reason),
               Name(reason));
    if (bound && some_up) {
      CheckTime(f, at->second.queue, now);
    } else {
      FIRE_CHECK(f.retry_after_ms == 0, "request {} fails as {} and should come back after {} ms", f.request.value,
                 Name(f.reason), f.retry_after_ms);
    }
    if (!violation_.empty()) return;
    ++(reason == FailReason::kExpired ? counts_.expired
       : reason == FailReason::kShed  ? counts_.shed
       : reason == FailReason::kQuota ? counts_.quota
                                      : counts_.none);
    counts_.timed += f.retry_after_ms > 0 ? 1u : 0u;
    expected.erase(at);
    Leaves(f.request);
  }
  FIRE_CHECK(expected.empty(), "request {} does not fail as {}", expected.begin()->first.value,
             Name(expected.begin()->second.reason));
}

// No time to come back is known before a request has left the queue, or the whole queue, while others waited. Promises
// of a queue rise.
void BoundsShadow::CheckTime(const Failure& f, Queue queue, TimePoint now) {
  constexpr std::uint32_t kMostMs = 60'000;
  const auto ms = static_cast<std::uint32_t>(f.retry_after_ms);
  Past& past = past_[queue];
  const TimePoint left = std::max(past.left, past_[Queue{Kind::kAll, 0}].left);
  FIRE_CHECK(ms <= kMostMs, "request {} should come back after {} ms", f.request.value, ms);
  FIRE_CHECK(ms == 0 || left != kUnset, "request {} should come back after {} ms, and its queue has no rate",
             f.request.value, ms);
  const bool lately = left != kUnset && left < now && now - left < std::chrono::seconds(60);
  FIRE_CHECK(ms > 0 || !lately, "request {} has no time to come back, and its queue has a rate", f.request.value);
  if (ms == 0) return;
  const TimePoint promise = now + std::chrono::milliseconds(ms);
  const Duration rounding = std::chrono::milliseconds(1);
  FIRE_CHECK(ms == kMostMs || promise + rounding >= past.promise,
             "request {} should come back {} ms before one that was refused earlier", f.request.value,
             (past.promise - promise).count() / 1'000'000);
  past.promise = promise;
}

TimePoint BoundsShadow::WakeAt(bool some_up) const {
  TimePoint wake = kNever;
  bool waits = false;
  for (const auto& [id, life] : lives_) {
    wake = std::min(wake, LimitOf(life));
    waits |= life.at == At::kWaiting;
  }
  if (waits && !some_up && options_.max_down > 0 && down_since_ != kNever) {
    wake = std::min(wake, down_since_ + Seconds(options_.max_down));
  }
  return wake;
}

}  // namespace takt::fire
