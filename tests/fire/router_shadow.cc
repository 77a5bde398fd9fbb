#include "router_shadow.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "check.h"

namespace takt::fire {

void RouterShadow::Clock(TimePoint now) {
  ours_.clock_stepped_back += now < now_ ? 1u : 0u;
  now_ = std::max(now_, now);
}

void FairModel::Joins(std::uint64_t tenant) {
  if (tenants_[tenant].waiting++ > 0) return;
  std::optional<double> least;
  for (const auto& [other, t] : tenants_) {
    if (other == tenant || t.waiting == 0) continue;
    least = std::min(least.value_or(Counter(other)), Counter(other));
  }
  if (!least && waited_last_) least = Counter(*waited_last_);
  if (least && Counter(tenant) < *least) tenants_[tenant].lifted_to = *least, tenants_[tenant].cost = 0;
}

void FairModel::Leaves(std::uint64_t tenant) {
  --tenants_[tenant].waiting;
  if (std::ranges::all_of(tenants_, [](const auto& t) { return t.second.waiting == 0; })) waited_last_ = tenant;
}

RouterShadow::Request* RouterShadow::Living(RequestId id) {
  if (request(id).alive) return &Of(id);
  ++ours_.events_unknown;
  return nullptr;
}

const RouterShadow::Up* RouterShadow::Find(InstanceId id) const {
  const auto at = std::ranges::find(up_, id, [](const Up& u) { return u.instance.id; });
  return at == up_.end() ? nullptr : &*at;
}
RouterShadow::Up* RouterShadow::Find(InstanceId id) { return const_cast<Up*>(std::as_const(*this).Find(id)); }

// A message that names another life of its instance is late, or belongs to a life that has not begun. It has no effect.
bool RouterShadow::Lives(InstanceId id, std::uint64_t life) {
  if (!id || life == 0) return true;
  const Up* up = Find(id);
  if (up != nullptr && up->instance.life == life) return true;
  if (life <= (up != nullptr ? up->instance.life : newest_life_)) {
    ++ours_.reported_late;
  } else {
    ++ours_.events_unknown;
  }
  return false;
}

// Returns true if a message comes from an instance that does not have the request, or no longer has it.
bool RouterShadow::Left(const Request& request, InstanceId instance, std::uint64_t life) const {
  if (instance && instance != request.place && instance != request.decode) return true;
  const InstanceId at = instance ? instance : request.place;
  return life != 0 && (!at || Find(at)->instance.life != life);
}

void RouterShadow::Up::Use(AdapterId id) {
  if (!id) return;
  std::erase(adapters, id);
  adapters.insert(adapters.begin(), id);
  const std::size_t most = instance.max_adapters > 0 ? static_cast<std::size_t>(instance.max_adapters) : 32;
  if (adapters.size() > most) adapters.resize(most);
}

void RouterShadow::Serve(Request& request, const TokensServed& served) {
  const std::int32_t prompt = request.state.request.prompt_tokens.value;
  const std::int32_t left = served.output.value > 0 ? 0 : prompt - std::min(prompt, served.prefill.value);
  request.uncomputed = std::min(request.uncomputed, left);
}

// Orders by placement.
std::vector<RouterShadow::Request*> RouterShadow::Unseen(InstanceId id) {
  std::vector<Request*> unseen;
  for (RequestId alive : alive_) {
    Request& life = Of(alive);
    if (life.place == id && life.unseen) unseen.push_back(&life);
  }
  std::ranges::sort(unseen, {}, &Request::number);
  return unseen;
}

// Returns the requests that the instance will get after their prefill.
std::int64_t RouterShadow::Expected(InstanceId id) const {
  return std::ranges::count_if(alive_, [&](RequestId alive) { return request(alive).decode == id; });
}

bool RouterShadow::HasRoom(const Up& up) const {
  return up.outstanding < std::min(up.instance.capacity, rules_.options.max_outstanding);
}

bool RouterShadow::Fits(const Request& request, const Up& up) {
  return up.instance.kv_tokens.value == 0 || request.state.request.prompt_tokens < up.instance.kv_tokens;
}

bool RouterShadow::Before(const Request& a, const Request& b) const {
  const auto key = [this](const Request& r) {
    return internal::FullKey{rules_.policy.Key(r.state).key, r.state.request.arrival, r.state.request.id};
  };
  return key(a) < key(b);
}

// ---- events ---------------------------------------------------------------------------------------------------

void RouterShadow::Handled(const RouterEvent& event, TimePoint now, const Router& router) {
  Clock(now);
  const auto tell = [&](const auto& e) {
    if constexpr (requires { On(e, router); }) {
      On(e, router);
    } else {
      On(e);
    }
  };
  std::visit(tell, event);
  CheckStats(router);
}

void RouterShadow::On(const Arrived& e) {
  const takt::Request& r = e.request;
  if (r.id && request(r.id).alive) {
    ++ours_.failed_id_in_use;
    refused_.push_back({r.id, FailReason::kIdInUse});
    return;
  }
  if (!r.id || r.prompt_tokens.value < 1 || r.sequences < 1) {
    ++ours_.failed_invalid;
    refused_.push_back({r.id, FailReason::kInvalid});
    return;
  }
  ++ours_.arrived;
  if (const std::uint64_t name = rules_.ids.NameOf(r.id); name >= requests_.size()) requests_.resize(name + 256);
  Request& fresh = Of(r.id);
  fresh = {.state = {.request = r}, .alive = true};
  takt::Request& kept = fresh.state.request;
  if (kept.arrival == kUnset) kept.arrival = now_;
  if (kept.workflow_arrival == kUnset) kept.workflow_arrival = kept.arrival;
  for (Estimate* estimate : {&kept.output_tokens, &kept.workflow_tokens_left}) {
    if (estimate->without_quantiles()) *estimate = Estimate::Mean(estimate->mean);
    if (!estimate->known()) *estimate = {};
  }
  if (kept.after.absurd()) kept.after = {};
  alive_.push_back(r.id);
  fair_.Joins(kept.tenant.value);
}

void RouterShadow::On(const Revised& e) {
  Request* life = Living(e.request);
  if (life == nullptr) return;
  takt::Request& r = life->state.request;
  const auto revise = [](Estimate& estimate, const std::optional<Estimate>& news) {
    if (news) estimate = news->without_quantiles() ? Estimate::Mean(news->mean) : *news;
    if (!estimate.known()) estimate = {};
  };
  revise(r.output_tokens, e.output_tokens);
  revise(r.workflow_tokens_left, e.workflow_tokens_left);
  if (e.after) r.after = e.after->absurd() ? WorkAfter{} : *e.after;
  if (e.deadline) r.deadline = *e.deadline;
  if (e.expires_at) r.expires_at = *e.expires_at;
  if (e.priority) r.priority = *e.priority;
  if (e.sequences && *e.sequences >= 1) r.sequences = std::min(r.sequences, *e.sequences);
}

void RouterShadow::On(const Cancelled& e) {
  Request* life = Living(e.request);
  if (life == nullptr) return;
  ++ours_.cancelled;
  End(*life);
}

void RouterShadow::On(const RequestStarted& e) {
  if (!Lives(e.instance, e.life)) return;
  Request* life = Living(e.request);
  if (life == nullptr) return;
  if (!life->place || !e.instance || (e.instance != life->place && e.instance != life->decode)) {
    ++ours_.reported_late;
  } else if (e.instance == life->decode) {
    HandOver(*life);
  }
}

void RouterShadow::On(const PrefillEnded& e) {
  if (!Lives(e.instance, e.life)) return;
  Request* life = Living(e.request);
  if (life == nullptr) return;
  if (!life->place || Left(*life, e.instance, e.life)) {
    ++ours_.reported_late;
  } else {
    HandOver(*life);
  }
}

// The request leaves its prefill instance, if another will decode.
void RouterShadow::HandOver(Request& request) {
  request.uncomputed = 0;
  request.prefilled = request.lacks_decode;
  if (!request.decode) return;
  Up& from = *Find(request.place);
  --from.outstanding, from.Use(request.state.request.adapter);
  request.place = std::exchange(request.decode, {});
  ++ours_.handed_over;
  request.number = ++placements_, request.placed = now_, request.unseen = true;
  Up& to = *Find(request.place);
  ++to.since, to.tokens += request.state.request.prompt_tokens.value;
}

void RouterShadow::ReleaseDecode(Request& request) {
  request.lacks_decode = request.prefilled = false;
  if (Up* up = Find(std::exchange(request.decode, {}))) --up->outstanding;
}

// The request waits in the router again. `withdrawn` still has a leg of it, if that instance is up.
void RouterShadow::Return(Request& request, InstanceId withdrawn) {
  ++ours_.returned;
  if (const Up* up = Find(withdrawn)) withdrawn_.push_back({request.state.request.id, withdrawn, up->instance.life});
  ReleaseDecode(request);
  request.place = {};
  request.reported = request.unseen = false;
}

// Charges tokens beyond the maximum charged before.
void RouterShadow::Charge(Request& request, const TokensServed& served) {
  const Tokens prefill = std::max(request.charged.prefill, served.prefill);
  const Tokens output = std::max(request.charged.output, served.output);
  fair_.Charge(request.state.request.tenant.value, prefill.value - request.charged.prefill.value,
               output.value - request.charged.output.value);
  request.charged = {prefill, output};
}

void RouterShadow::On(const RequestServed& e) {
  if (!Lives(e.instance, e.life)) return;
  Request* life = Living(e.request);
  if (life == nullptr) return;
  if (!life->place || Left(*life, e.instance, e.life)) {
    ++ours_.reported_late;
  } else if (e.served.prefill.value < 0 || e.served.output.value < 0) {
    ++ours_.events_invalid;
  } else {
    if (e.instance && e.instance == life->decode) HandOver(*life);
    Charge(*life, e.served);
    Serve(*life, e.served);
    life->reported = true;
  }
}

void RouterShadow::On(const RequestEnded& e) {
  if (!Lives(e.instance, e.life)) return;
  Request* life = Living(e.request);
  if (life == nullptr) return;
  if (Left(*life, e.instance, e.life)) {
    ++ours_.reported_late;
    return;
  }
  ++ours_.ended;
  if (e.instance && e.instance == life->decode) HandOver(*life);
  const bool reported = e.served && e.served->prefill.value >= 0 && e.served->output.value >= 0;
  ours_.events_invalid += e.served && !reported ? 1u : 0u;
  if (!life->place) return End(*life);
  const takt::Request& r = life->state.request;
  if (reported) {
    Charge(*life, *e.served);
  } else if (!life->reported && !e.failed && r.output_tokens.known()) {
    double each = r.output_tokens.mean;
    if (r.max_output_tokens.value > 0) each = std::min(each, static_cast<double>(r.max_output_tokens.value));
    Charge(*life, {{}, {static_cast<std::int32_t>(std::min(each * r.sequences, 1e9))}});
  }
  End(*life);
}

void RouterShadow::On(const InstanceUp& e, const Router& router) {
  const InstanceId id = e.instance.id;
  std::uint64_t life = e.instance.life;
  if (!id) {
    ++ours_.events_invalid;
    return;
  }
  if (Up* known = Find(id)) {
    const std::uint64_t present = known->instance.life;
    if (known->instance.role != e.instance.role && life <= present) {
      ++ours_.events_invalid;
      return;
    }
    if (life != 0 && life < present) {
      ++ours_.reported_late;
      return;
    }
    if (life == 0 || life == present) {
      known->instance = e.instance;
      known->instance.life = present;
      return;
    }
    On(InstanceDown{id}, router);
  }
  if (life == 0) life = newest_life_ + 1;
  newest_life_ = std::max(newest_life_, life);
  up_.push_back({.instance = e.instance, .complete = now_});
  up_.back().instance.life = life;
}

void RouterShadow::On(const InstanceDown& e, const Router& router) {
  if (!Lives(e.instance, e.life)) return;
  Up* lost = Find(e.instance);
  if (lost == nullptr) {
    ++ours_.events_unknown;
    return;
  }
  ++ours_.instances_lost;
  up_.erase(up_.begin() + (lost - up_.data()));
  std::vector<std::pair<std::uint32_t, std::uint64_t>> back;  // in the order in which they join the queue, with tenants
  for (RequestId id : alive_) {
    Request& life = Of(id);
    if (life.decode == e.instance) {
      ++ours_.decode_lost;
      life.decode = {}, life.lacks_decode = true;
    }
    if (life.place != e.instance) continue;
    Return(life, life.decode);
    if (const RequestState* theirs = router.Find(id)) back.emplace_back(theirs->slot, life.state.request.tenant.value);
  }
  std::ranges::sort(back);
  for (const auto& [slot, tenant] : back) fair_.Joins(tenant);
}

void RouterShadow::On(const InstanceReported& e) {
  if (!Lives(e.instance, e.life)) return;
  const InstanceReport& r = e.report;
  Up* up = Find(e.instance);
  if (up == nullptr) {
    ++ours_.events_unknown;
    return;
  }
  if (r.waiting < 0 || r.running < 0 || r.preempted < 0 || r.kv_used < Tokens{0}) {
    ++ours_.events_invalid;
    return;
  }
  bool dated = r.as_of != kUnset;
  if (dated && r.as_of < up->complete) {
    ++ours_.reported_late;
    return;
  }
  if (dated && r.as_of > now_) dated = false, ++ours_.events_invalid;
  if (dated) up->complete = r.as_of;
  const double counted = static_cast<double>(r.waiting) + static_cast<double>(r.running);
  std::vector<Request*> unseen = Unseen(e.instance);
  auto left = static_cast<double>(unseen.size());
  for (Request* request : unseen) {
    const auto present = static_cast<double>(up->outstanding - Expected(e.instance));
    const bool included = dated ? request->placed <= r.as_of : left + counted > present;
    if (included) request->unseen = false, --left;
  }
  up->report = r;
  up->since = up->tokens = 0;
  for (const Request* request : Unseen(e.instance)) {
    ++up->since, up->tokens += request->state.request.prompt_tokens.value;
  }
}

// Returns the instance if it is up in this life; otherwise counts the message.
RouterShadow::Up* RouterShadow::FindInLife(InstanceId id, std::uint64_t life) {
  if (!Lives(id, life)) return nullptr;
  Up* up = Find(id);
  ours_.events_unknown += up == nullptr ? 1u : 0u;
  return up;
}

void RouterShadow::On(const KvStored& e) {
  Up* up = FindInLife(e.instance, e.life);
  if (up == nullptr) return;
  if (!up->blocks) up->blocks.emplace();
  up->blocks->insert(e.hashes.begin(), e.hashes.end());
}

void RouterShadow::On(const KvRemoved& e) {
  Up* up = FindInLife(e.instance, e.life);
  if (up == nullptr) return;
  if (!up->blocks) up->blocks.emplace();
  for (const std::uint64_t hash : e.hashes) up->blocks->erase(hash);
}

void RouterShadow::On(const KvCleared& e) {
  if (Up* up = FindInLife(e.instance, e.life)) up->blocks.emplace();
}

// Returns the least and the most tokens of a prompt that the router may count as cached on an instance.
std::pair<std::int64_t, std::int64_t> RouterShadow::Cached(const takt::Request& r, const Up& up) {
  const std::int64_t all = std::max(r.prompt_tokens.value - 1, 0), tokens = r.prefix.block_tokens.value;
  const std::size_t usable = tokens > 0 ? std::min(r.prefix.hashes.size(), static_cast<std::size_t>(all / tokens)) : 0;
  if (!up.blocks || usable == 0) return {0, all};
  std::size_t run = 0;
  while (run < usable && up.blocks->contains(SaltedHash(r.prefix.hashes[run], r.salt))) ++run;
  const std::int64_t cached = static_cast<std::int64_t>(run) * tokens;
  return {cached, run == usable ? all : cached};
}

void RouterShadow::End(Request& request) {
  if (Up* up = Find(request.place)) --up->outstanding, up->Use(request.state.request.adapter);
  ReleaseDecode(request);
  if (!request.place) fair_.Leaves(request.state.request.tenant.value);
  alive_.erase(std::ranges::find(alive_, request.state.request.id));
  request = {};
}

// ---- placements -----------------------------------------------------------------------------------------------

void RouterShadow::Placed(std::span<const Placement> placements, TimePoint now, const Router& router) {
  Clock(now);
  CheckWithdrawn(router);
  CheckFailed(router);
  CheckDecodes(router);
  CheckPlaced(placements, router);
  if (violation_.empty() && router.decodes().size() != decodes_seen_) Violate("decodes() names too many instances");
  CheckLeft(placements);
  if (violation_.empty()) CheckStats(router);
}

// Checks refused requests, then requests that waited past their time, each once.
void RouterShadow::CheckFailed(const Router& router) {
  std::size_t seen = 0;
  for (const Failure& f : router.failed()) {
    const std::uint64_t id = f.request.value;
    if (seen < refused_.size()) {
      FIRE_CHECK(f == refused_[seen], "request {} fails as {}, and {} was refused", id, Name(f.reason),
                 refused_[seen].request.value);
      ++seen;
      continue;
    }
    const Request& life = request(f.request);
    FIRE_CHECK(f.reason == FailReason::kExpired && life.alive && !life.place, "request {} fails as {}", id,
               Name(f.reason));
    FIRE_CHECK(life.state.request.expires_at <= now_, "request {} expires early", id);
    ++ours_.failed_expired;
    End(Of(f.request));
  }
  FIRE_CHECK(seen == refused_.size(), "{} refused requests are missing in the answer", refused_.size() - seen);
  refused_.clear();
  for (RequestId id : alive_) {
    const Request& life = request(id);
    FIRE_CHECK(life.place || life.state.request.expires_at > now_, "request {} waits past its time", id.value);
  }
}

// A loss of a prefill instance withdraws its requests from their decode instances, each once. A prefilled request that
// no decode instance accepts leaves its prefill instance if an instance of both phases has room.
void RouterShadow::CheckWithdrawn(const Router& router) {
  for (const RequestId id : alive_) {
    Request& life = Of(id);
    if (!life.lacks_decode || !life.prefilled) continue;
    const auto decodes = [&](const Up& up) {
      return up.instance.role == InstanceRole::kDecode && Fits(life, up) && up.instance.capacity > 0;
    };
    const auto runs = [&](const Up& up) {
      return up.instance.role == InstanceRole::kBoth && Fits(life, up) && HasRoom(up);
    };
    if (std::ranges::any_of(up_, decodes) || std::ranges::none_of(up_, runs)) continue;
    Up& from = *Find(life.place);
    --from.outstanding, from.Use(life.state.request.adapter);
    Return(life, life.place);
    fair_.Joins(life.state.request.tenant.value);
  }
  std::vector<Placement> theirs(router.withdrawn().begin(), router.withdrawn().end());
  const auto order = [](const Placement& a, const Placement& b) {
    return std::tuple(a.request, a.instance, a.life) < std::tuple(b.request, b.instance, b.life);
  };
  std::ranges::sort(theirs, order), std::ranges::sort(withdrawn_, order);
  FIRE_CHECK(theirs == withdrawn_, "{} requests are withdrawn, not {}", theirs.size(), withdrawn_.size());
  withdrawn_.clear();
}

// Placed requests that lost their decode instance get another if one has room.
void RouterShadow::CheckDecodes(const Router& router) {
  decodes_seen_ = 0;
  for (const Placement& p : router.decodes()) {
    const std::uint64_t id = p.request.value;
    if (!request(p.request).lacks_decode) continue;
    Request& life = Of(p.request);
    Up* up = Find(p.instance);
    FIRE_CHECK(up != nullptr && up->instance.role == InstanceRole::kDecode && up->instance.life == p.life,
               "request {} shall be decoded on {}, which does not decode", id, p.instance.value);
    FIRE_CHECK(HasRoom(*up) && Fits(life, *up), "request {} shall be decoded on {}, which is full", id,
               p.instance.value);
    life.lacks_decode = false, life.decode = p.instance, ++up->outstanding, ++decodes_seen_;
    up->Use(life.state.request.adapter);
    if (std::exchange(life.prefilled, false)) HandOver(life);
  }
}

void RouterShadow::CheckPlaced(std::span<const Placement> placements, const Router& router) {
  for (const Placement& p : placements) {
    const std::uint64_t id = p.request.value;
    const Request& life = request(p.request);
    FIRE_CHECK(life.alive, "request {} is placed, and is not alive", id);
    FIRE_CHECK(!life.place, "request {} is placed on {}, and is on {}", id, p.instance.value, life.place.value);
    Up* up = Find(p.instance);
    FIRE_CHECK(up != nullptr, "request {} is placed on {}, which is not up", id, p.instance.value);
    FIRE_CHECK(HasRoom(*up), "request {} is placed on {}, which is full", id, p.instance.value);
    FIRE_CHECK(Fits(life, *up), "request {} is placed on {} and does not fit there", id, p.instance.value);
    CheckFair(p.request);
    CheckCached(life, *up);
    if (!violation_.empty()) return;
    Request& placed = Of(p.request);
    FIRE_CHECK(p.life == up->instance.life, "request {} is placed in life {} of {}, not {}", id, p.life,
               p.instance.value, up->instance.life);
    placed.place = p.instance;
    placed.number = ++placements_, placed.placed = now_, placed.unseen = true;
    ++up->since, up->tokens += placed.state.request.prompt_tokens.value;
    fair_.Leaves(placed.state.request.tenant.value);
    Charge(placed, {placed.state.request.prompt_tokens, {}});
    ++up->outstanding;
    up->Use(placed.state.request.adapter);
    placed.uncomputed = placed.state.request.prompt_tokens.value;
    ++ours_.placed;
    if (up->instance.role != InstanceRole::kPrefill) continue;
    const auto then = std::ranges::find(router.decodes(), p.request, &Placement::request);
    FIRE_CHECK(then != router.decodes().end(), "request {} is placed on {}, and nothing decodes it", id,
               p.instance.value);
    Up* decode = Find(then->instance);
    FIRE_CHECK(
        decode != nullptr && decode->instance.role == InstanceRole::kDecode && decode->instance.life == then->life,
        "request {} shall be decoded on {}, which does not decode", id, then->instance.value);
    FIRE_CHECK(HasRoom(*decode) && Fits(life, *decode), "request {} shall be decoded on {}, which is full", id,
               then->instance.value);
    FIRE_CHECK(life.state.request.prompt_tokens.value > rules_.options.local_tokens,
               "request {} of {} tokens is short, and is decoded elsewhere", id,
               life.state.request.prompt_tokens.value);
    placed.decode = then->instance, ++decode->outstanding;
    decode->Use(placed.state.request.adapter);
    ++ours_.placed_apart, ++decodes_seen_;
  }
}

// The placed request is the oldest of the waiting tenant that was served least.
void RouterShadow::CheckFair(RequestId placed) {
  if (!rules_.fair || !rules_.willing) return;
  const auto rank = [this](const Request& r) {
    const takt::Request& q = r.state.request;
    return std::tuple(fair_.Counter(q.tenant.value), q.arrival, q.id);
  };
  for (RequestId id : alive_) {
    const Request &best = request(placed), &other = request(id);
    if (other.place) continue;
    FIRE_CHECK(!(rank(other) < rank(best)), "request {} of tenant {} at {} is placed before {} of tenant {} at {}",
               placed.value, best.state.request.tenant.value, fair_.Counter(best.state.request.tenant.value), id.value,
               other.state.request.tenant.value, fair_.Counter(other.state.request.tenant.value));
  }
}

// No other instance with room has certainly more cached tokens of the prompt.
void RouterShadow::CheckCached(const Request& placed, const Up& there) {
  if (!rules_.cached || rules_.apart) return;
  const std::int64_t most = Cached(placed.state.request, there).second;
  for (const Up& other : up_) {
    const std::int64_t least = Cached(placed.state.request, other).first;
    FIRE_CHECK(least <= most || !HasRoom(other) || !Fits(placed, other),
               "request {} is placed on {} with at most {} cached tokens, and {} has {}", placed.state.request.id.value,
               there.instance.id.value, most, other.instance.id.value, least);
  }
}

// No request beyond the window could still be placed, and none was passed over.
void RouterShadow::CheckLeft(std::span<const Placement> placements) {
  if (!rules_.willing) return;
  std::int64_t stuck = 0, idle = 0;
  for (RequestId id : alive_) {
    const Request& life = request(id);
    if (life.lacks_decode) {
      const auto may = [&](const Up& up) { return up.instance.role == InstanceRole::kDecode && Fits(life, up); };
      FIRE_CHECK(std::ranges::none_of(up_, [&](const Up& up) { return may(up) && HasRoom(up); }),
                 "request {} could be decoded", id.value);
    }
    if (life.place) continue;
    using enum InstanceRole;
    const auto any = [&](InstanceRole role, auto&& test) {
      return std::ranges::any_of(up_, [&](const Up& up) { return up.instance.role == role && test(up); });
    };
    const auto fits = [&life](const Up& up) { return Fits(life, up); };
    const auto has_room = [&](const Up& up) { return fits(up) && HasRoom(up); };
    const auto open = [&](const Up& up) { return fits(up) && up.instance.capacity > 0; };
    const bool is_short = life.state.request.prompt_tokens.value <= rules_.options.local_tokens;
    const bool decodes = any(kPrefill, has_room) || is_short || !(any(kPrefill, open) || any(kBoth, open));
    const bool room = any(kBoth, has_room) || (any(kDecode, has_room) && decodes);
    idle += room ? 1 : 0;
    stuck += !room && std::ranges::any_of(up_, fits) ? 1 : 0;
  }
  FIRE_CHECK(idle == 0 || stuck > rules_.options.window, "{} requests could be placed, and {} are before them", idle,
             stuck);
  if (!rules_.plain) return;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Request& placed = request(placements[i].request);
    for (std::size_t j = i + 1; j < placements.size(); ++j) {
      const Request& later = request(placements[j].request);
      FIRE_CHECK(!Before(later, placed), "request {} was placed before {}", placements[i].request.value,
                 placements[j].request.value);
    }
    if (rules_.apart) continue;  // instances of both phases must have room
    for (RequestId id : alive_) {
      const Request& left = request(id);
      FIRE_CHECK(left.place || !Before(left, placed) || !Fits(left, *Find(placed.place)),
                 "request {} was placed, and {} was not", placements[i].request.value, id.value);
    }
  }
}

// ---- counts ---------------------------------------------------------------------------------------------------

void RouterShadow::CheckStats(const Router& router) {
  const RouterStats& theirs = router.stats();
#define FIRE_SAME(name, text) FIRE_CHECK(theirs.name == ours_.name, #name " is {}, not {}", theirs.name, ours_.name);
  TAKT_ROUTER_STATS(FIRE_SAME)
#undef FIRE_SAME
  FIRE_CHECK(router.alive() == static_cast<std::int64_t>(alive_.size()), "{} are alive, not {}", router.alive(),
             alive_.size());
}

void RouterShadow::Compare(const Router& router) {
  std::int64_t waiting = 0, too_large = 0;
  TimePoint wake_at = kNever;
  for (RequestId id : alive_) {
    const Request& life = request(id);
    FIRE_CHECK(router.InstanceOf(id) == life.place, "request {} is on {}, not {}", id.value,
               router.InstanceOf(id).value, life.place.value);
    FIRE_CHECK(router.DecodeOf(id) == life.decode, "request {} will be decoded on {}, not {}", id.value,
               router.DecodeOf(id).value, life.decode.value);
    const RequestState* theirs = router.Find(id);
    FIRE_CHECK(theirs != nullptr && theirs->request.id == id && theirs->request.priority == life.state.request.priority,
               "request {} differs from its report", id.value);
    if (life.place) continue;
    ++waiting;
    const auto whole = [&](const Up& up) { return up.instance.role != InstanceRole::kPrefill && Fits(life, up); };
    too_large += std::ranges::none_of(up_, whole) ? 1 : 0;
    wake_at = std::min(wake_at, life.state.request.expires_at);
  }
  FIRE_CHECK(router.waiting() == waiting, "{} wait, not {}", router.waiting(), waiting);
  FIRE_CHECK(router.set_aside() >= 0 && router.set_aside() <= too_large, "{} are set aside, and {} are too large",
             router.set_aside(), too_large);
  FIRE_CHECK(router.wake_at() == wake_at, "wake_at is {}, the next to expire does at {}",
             router.wake_at().time_since_epoch().count(), wake_at.time_since_epoch().count());
  FIRE_CHECK(router.instances().size() == up_.size(), "{} instances are up, not {}", router.instances().size(),
             up_.size());
  for (const InstanceState& theirs : router.instances()) {
    const Up* up = Find(theirs.instance.id);
    FIRE_CHECK(up != nullptr, "instance {} is not up", theirs.instance.id.value);
    FIRE_CHECK(theirs.instance.capacity == up->instance.capacity, "instance {} differs from its description",
               theirs.instance.id.value);
    FIRE_CHECK(theirs.outstanding == up->outstanding, "instance {} holds {}, not {}", theirs.instance.id.value,
               theirs.outstanding, up->outstanding);
    std::int64_t uncomputed = 0;
    for (const RequestId id : alive_)
      uncomputed += request(id).place == theirs.instance.id ? request(id).uncomputed : 0;
    FIRE_CHECK(theirs.pending_prefill == uncomputed, "instance {} has {} prompt tokens to compute, not {}",
               theirs.instance.id.value, theirs.pending_prefill, uncomputed);
    FIRE_CHECK(std::ranges::equal(theirs.adapters.all(), up->adapters), "instance {} has other adapters",
               theirs.instance.id.value);
    FIRE_CHECK(theirs.instance.life == up->instance.life, "instance {} is in life {}, not {}", theirs.instance.id.value,
               theirs.instance.life, up->instance.life);
    const std::int64_t expected = Expected(theirs.instance.id);
    std::int64_t since = up->since + expected, tokens = up->tokens;
    for (const RequestId id : alive_) {
      tokens += request(id).decode == theirs.instance.id ? request(id).state.request.prompt_tokens.value : 0;
    }
    FIRE_CHECK(theirs.expected == expected && theirs.instance.role == up->instance.role,
               "instance {} expects {} requests, not {}", theirs.instance.id.value, theirs.expected, expected);
    FIRE_CHECK(theirs.since_report == since && theirs.tokens_since_report == tokens,
               "{} requests of {} tokens since the report of {}, not {} of {}", theirs.since_report,
               theirs.tokens_since_report, theirs.instance.id.value, since, tokens);
    FIRE_CHECK(theirs.report.kv_used == up->report.kv_used && theirs.report.preempted == up->report.preempted,
               "the report of {} differs", theirs.instance.id.value);
  }
}

}  // namespace takt::fire
