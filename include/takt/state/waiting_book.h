// Waiting requests by class and tenant: finds the requests beyond a bound, and the time at which to come back.
#ifndef TAKT_STATE_WAITING_BOOK_H_
#define TAKT_STATE_WAITING_BOOK_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/model/class_limits.h"
#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt::internal {

// The rate at which requests leave a queue while others wait in it. Integers only, so the rate is the same on every
// compiler. The counts, in units of 2^-16, halve after each kWindow of waiting, so older departures count less.
class DrainMeter {
 public:
  static constexpr Duration kWindow = FromSeconds(10);

  // Adds the time since the last call, if requests waited in it.
  void Pass(TimePoint now, bool waiting) {
    if (waiting) busy_ = Sum(busy_, std::clamp(Between(since_, now), Duration::zero(), kWindow));
    since_ = now;
    if (busy_ <= kWindow) return;
    busy_ /= 2, requests_ /= 2, tokens_ /= 2;
  }
  void Left(std::int64_t tokens) { requests_ += kOne, tokens_ += tokens * kOne; }

  bool known() const { return busy_ > Duration::zero() && requests_ > 0 && tokens_ > 0; }
  // Returns the time in which one request, or one token, leaves [s]. Precondition: known().
  double Each(bool token) const {
    return Rounded(ToSeconds(busy_) * static_cast<double>(kOne) / static_cast<double>(token ? tokens_ : requests_));
  }

 private:
  static constexpr std::int64_t kOne = 1 << 16;
  Duration busy_{0};
  TimePoint since_ = kUnset;
  std::int64_t requests_ = 0, tokens_ = 0;
};

// Bounds on requests that wait and have never run.
struct QueueBounds {
  template <class Options>
  explicit QueueBounds(const Options& o)
      : requests(o.max_waiting),
        tokens(o.max_waiting_tokens),
        tenant_requests(o.tenant_max_waiting),
        tenant_tokens(o.tenant_max_waiting_tokens),
        classes(o.class_limits) {}

  std::int64_t requests, tokens, tenant_requests, tenant_tokens;
  ClassLimitsList classes;  // sorted by priority

  friend bool operator==(const QueueBounds&, const QueueBounds&) = default;

  bool OfTenants() const { return tenant_requests < INT64_MAX || tenant_tokens < INT64_MAX; }
  bool Any() const {
    const auto bounds = [](const ClassLimits& c) {
      return c.max_waiting < INT64_MAX || c.max_waiting_tokens < INT64_MAX;
    };
    return requests < INT64_MAX || tokens < INT64_MAX || OfTenants() || std::ranges::any_of(classes, bounds);
  }
  // Returns the class of a priority; null: none.
  const ClassLimits* ClassOf(std::int32_t priority) const {
    const int i = classes.IndexOf(priority);
    return i < 0 ? nullptr : classes.begin() + i;
  }
  // Returns the time at which a request that began to wait at `since` must have run.
  TimePoint WaitEnds(const Request& r, TimePoint since) const {
    const ClassLimits* of = classes.empty() ? nullptr : ClassOf(r.priority);
    return of == nullptr || !(of->max_wait > 0) ? kNever : After(since, FromSeconds(of->max_wait));
  }
};

// Invariant: if there is a bound, the book has every waiting request that has never run. `crowded_` lists each tenant
// that may exceed its bound. Nothing is stored without a bound. O(1) per call, O(classes) to find a class.
class WaitingBook {
 public:
  enum Scope : std::uint8_t { kAll, kClass, kTenant, kScopes };

  // Longest answer of RetryAfter.
  static constexpr Duration kLongestRetry = FromSeconds(60);
  // Both were chosen by simulation of bursts (tests/scheduler/bounds_test.cc).
  static constexpr double kDrains = 2, kReturning = 0.25;

  // A request beyond a bound.
  struct Excess {
    Slot slot = kNoSlot;  // kNoSlot: no bound is exceeded
    Scope scope = kAll;
    bool of_tokens = false;  // the bound counts tokens
    FailReason reason() const { return scope == kTenant ? FailReason::kQuota : FailReason::kShed; }
  };

  explicit WaitingBook(const QueueBounds& bounds) : bounds_(bounds), keeps_(bounds_.Any()) {
    if (keeps_) classes_.resize(bounds_.classes.size());
  }

  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }
  void Reserve(std::size_t slots) {
    if (!keeps_) return;
    members_.reserve(slots);
    if (!bounds_.OfTenants()) return;
    tenants_.Reserve(slots), crowded_.reserve(slots);
  }

  // Reserves memory for Change.
  void ReserveFor(const QueueBounds& to, std::size_t slots) {
    classes_.reserve(kMostClasses);
    if (to.Any()) members_.reserve(slots);
    if (to.OfTenants()) tenants_.Reserve(slots), crowded_.reserve(slots);
  }
  // Replaces the bounds. Drain rates and promises of queues that remain are kept. `order`: the waiting requests that
  // have never run, which join again in this order.
  template <class RequestOf>
  void Change(const QueueBounds& bounds, std::span<const Slot> order, RequestOf&& request_of, TimePoint now) {
    const auto empty = [now](Line& line) {
      line.meter.Pass(now, line.waiting > 0);
      line.waiting = line.tokens = 0;
      line.newest = kNoSlot, line.crowded = false;
    };
    empty(all_);
    for (Slot i = 0; i < tenants_.slots(); ++i) {
      if (tenants_.Find(tenants_[i].tenant) == i) empty(tenants_[i]);
    }
    std::array<Line, kMostClasses> before;
    const std::size_t kept = classes_.size();
    for (std::size_t i = 0; i < classes_.size(); ++i) empty(classes_[i]), before[i] = classes_[i];
    const ClassLimitsList old = bounds_.classes;
    bounds_ = bounds, keeps_ = bounds_.Any();
    classes_.clear();
    for (const ClassLimits& c : bounds_.classes) {
      const auto same = std::ranges::find(old, c.priority, &ClassLimits::priority);
      const auto i = static_cast<std::size_t>(same - old.begin());
      if (keeps_) classes_.push_back(i < kept ? before[i] : Line{});
    }
    crowded_.clear();
    for (Member& m : members_) m.in = false;
    for (const Slot slot : order) Join(slot, request_of(slot), now);
    for (Slot i = 0; i < tenants_.slots(); ++i) {
      if (tenants_.Find(tenants_[i].tenant) == i && tenants_[i].waiting == 0) tenants_.Erase(i, tenants_[i].tenant);
    }
  }

  const QueueBounds& bounds() const { return bounds_; }
  std::int64_t waiting() const { return all_.waiting; }
  std::int64_t tokens() const { return all_.tokens; }
  bool contains(Slot slot) const { return slot < members_.size() && members_[slot].in; }

  // A request that has never run joined the queue.
  void Join(Slot slot, const Request& r, TimePoint now) {
    if (!keeps_ || contains(slot)) return;
    if (slot >= members_.size()) members_.resize(std::size_t{slot} + 1);
    Member& m = members_[slot];
    m = {.tokens = r.prompt_tokens.value, .in = true};
    const ClassLimits* of = bounds_.ClassOf(r.priority);
    if (of != nullptr) m.in_class = static_cast<std::uint32_t>(of - bounds_.classes.begin());
    if (bounds_.OfTenants()) {
      m.tenant = tenants_.Find(r.tenant);
      if (m.tenant == kNoSlot) m.tenant = tenants_.Insert(r.tenant, {.tenant = r.tenant});
    }
    for (int s = kAll; s < kScopes; ++s) {
      if (Line* line = LineOf(m, static_cast<Scope>(s))) Append(*line, static_cast<Scope>(s), slot, now);
    }
    if (m.tenant == kNoSlot || tenants_[m.tenant].crowded || !Over(m, kTenant, 0).has) return;
    tenants_[m.tenant].crowded = true;
    crowded_.push_back(m.tenant);
  }

  // A request left the queue. `served`: it got a row or an instance, which counts as progress of its queues if others
  // still wait there.
  void Leave(Slot slot, bool served, TimePoint now) {
    if (!contains(slot)) return;
    Member& m = members_[slot];
    m.in = false;
    for (int s = kAll; s < kScopes; ++s) {
      Line* const line = LineOf(m, static_cast<Scope>(s));
      if (line == nullptr) continue;
      Remove(*line, static_cast<Scope>(s), slot, now);
      if (served && line->waiting > 0) line->meter.Left(m.tokens);
    }
    if (m.tenant == kNoSlot || tenants_[m.tenant].waiting > 0) return;
    if (tenants_[m.tenant].crowded) std::erase(crowded_, m.tenant);
    tenants_.Erase(m.tenant, tenants_[m.tenant].tenant);
  }

  // Returns the latest request to join a tenant or class that exceeds its bound.
  Excess OverTenantOrClass() {
    while (!crowded_.empty()) {
      Line& line = tenants_[crowded_.back()];
      if (const Overrun over = Over(members_[line.newest], kTenant, 0); over.has) {
        return {line.newest, kTenant, over.of_tokens};
      }
      line.crowded = false;
      crowded_.pop_back();
    }
    for (const Line& line : classes_) {
      if (line.newest == kNoSlot) continue;
      if (const Overrun over = Over(members_[line.newest], kClass, 0); over.has) {
        return {line.newest, kClass, over.of_tokens};
      }
    }
    return {};
  }
  // Returns the latest request to join, if all waiting requests together exceed a bound.
  Excess OverAll() const {
    if (all_.newest == kNoSlot) return {};
    const Overrun over = Over(members_[all_.newest], kAll, 0);
    return over.has ? Excess{all_.newest, kAll, over.of_tokens} : Excess{};
  }
  // Returns the request if its tenant or class has more than `spare` requests beyond a bound on requests.
  Excess OverBy(Slot slot, std::int64_t spare) const {
    if (!contains(slot)) return {};
    for (const Scope scope : {kTenant, kClass}) {
      const Overrun over = Over(members_[slot], scope, spare);
      if (over.has && !over.of_tokens) return {slot, scope, false};
    }
    return {};
  }
  // Returns true if the bound on the tokens of all waiting requests is exceeded. A single request may exceed it.
  bool TokensOver() const { return all_.waiting > 1 && all_.tokens > bounds_.tokens; }

  // Returns the time after which the client of a request beyond a bound should try again, and records this promise. The
  // time is the later of two: that in which the queue of the bound drains, times kDrains, and the last promise. Then
  // follows the request's own share: returning clients share kReturning of the drain rate, and new clients the rest.
  // Between 1 ms and kLongestRetry; 0 if no request has left a queue yet.
  Duration RetryAfter(const Excess& over, TimePoint now) {
    if (!contains(over.slot)) return Duration::zero();
    const Member& m = members_[over.slot];
    Line* const line = LineOf(m, over.scope);
    line->meter.Pass(now, true), all_.meter.Pass(now, true);
    const DrainMeter& meter = line->meter.known() ? line->meter : all_.meter;
    if (!meter.known()) return Duration::zero();
    const double each = meter.Each(over.of_tokens);
    const double own = over.of_tokens ? m.tokens : 1;
    const double before = static_cast<double>(over.of_tokens ? line->tokens : line->waiting) - own;
    const TimePoint clear = After(now, FromSeconds(Rounded(kDrains * each * before)));
    const TimePoint then = After(std::max(clear, line->promised), FromSeconds(Rounded(each * own / kReturning)));
    line->promised = std::clamp(then, After(now, kShortestRetry), After(now, kLongestRetry));
    return Between(now, line->promised);
  }

 private:
  static constexpr Duration kShortestRetry = FromSeconds(1e-3);

  struct Link {
    Slot older = kNoSlot, newer = kNoSlot;
  };
  struct Member {
    std::int32_t tokens = 0;
    bool in = false;
    std::uint32_t in_class = kNoSlot;
    Slot tenant = kNoSlot;
    std::array<Link, kScopes> links = {};
  };
  // The requests of one queue, in the order in which they joined.
  struct Line {
    TenantId tenant = {};
    std::int64_t waiting = 0, tokens = 0;
    Slot newest = kNoSlot;
    bool crowded = false;  // listed in crowded_
    TimePoint promised = kUnset;  // last time at which a client was asked to come back
    DrainMeter meter = {};
  };
  struct Overrun {
    bool has = false, of_tokens = false;
  };

  Line* LineOf(const Member& m, Scope scope) {
    switch (scope) {
      case kAll: return &all_;
      case kClass: return m.in_class == kNoSlot ? nullptr : &classes_[m.in_class];
      case kTenant: return m.tenant == kNoSlot ? nullptr : &tenants_[m.tenant];
      case kScopes: break;
    }
    return nullptr;
  }
  const Line* LineOf(const Member& m, Scope scope) const { return const_cast<WaitingBook*>(this)->LineOf(m, scope); }

  Overrun Over(const Member& m, Scope scope, std::int64_t spare) const {
    const Line* const line = LineOf(m, scope);
    if (line == nullptr) return {};
    std::int64_t requests = bounds_.requests, tokens = bounds_.tokens;
    if (scope == kTenant) requests = bounds_.tenant_requests, tokens = bounds_.tenant_tokens;
    if (scope == kClass) {
      const ClassLimits& c = bounds_.classes[m.in_class];
      requests = c.max_waiting, tokens = c.max_waiting_tokens;
    }
    if (line->waiting - spare > requests) return {true, false};
    return {line->waiting > 1 && line->tokens > tokens, true};
  }

  void Append(Line& line, Scope scope, Slot slot, TimePoint now) {
    line.meter.Pass(now, line.waiting > 0);
    ++line.waiting, line.tokens += members_[slot].tokens;
    members_[slot].links[scope].older = line.newest;
    if (line.newest != kNoSlot) members_[line.newest].links[scope].newer = slot;
    line.newest = slot;
  }
  void Remove(Line& line, Scope scope, Slot slot, TimePoint now) {
    line.meter.Pass(now, true);
    --line.waiting, line.tokens -= members_[slot].tokens;
    const Link link = members_[slot].links[scope];
    if (link.older != kNoSlot) members_[link.older].links[scope].newer = link.newer;
    if (link.newer != kNoSlot) members_[link.newer].links[scope].older = link.older;
    if (line.newest == slot) line.newest = link.older;
  }

  QueueBounds bounds_;
  bool keeps_ = false;
  Line all_;
  std::vector<Line> classes_;  // as in bounds_
  IdTable<TenantId, Line> tenants_;  // tenants with waiting requests
  std::vector<Slot> crowded_;
  std::vector<Member> members_;  // by slot
};

}  // namespace takt::internal

#endif  // TAKT_STATE_WAITING_BOOK_H_
