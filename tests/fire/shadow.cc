#include "shadow.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "check.h"

namespace takt::fire {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

// Returns true if the keys depend only on a host's facts about the request.
bool OrderIsStatic(const AnyPolicy& policy) {
  const PolicyHooks hooks = policy.hooks();
  return !hooks.moving && !hooks.groups && !hooks.observes && !hooks.scheduled && !hooks.enters && !hooks.timed &&
         policy.spec().find("memory_integral") == std::string::npos &&
         policy.spec().find("sagesched") == std::string::npos;
}

// Returns true if the keys depend only on such facts, the time, and the policy's inputs.
bool OrderIsKnown(const AnyPolicy& policy) {
  const std::string_view spec = policy.spec();
  return OrderIsStatic(policy) || spec.find("moving") != spec.npos || spec.find("fair") != spec.npos ||
         spec.find("observing") != spec.npos;
}

// The limits of docs/reference/pause_policies.md.
bool IsValid(Duration duration, Tokens a, Tokens b = {0}) {
  const auto fine = [](Tokens t) { return t.value >= 0 && t.value <= 1 << 28; };
  return duration >= Duration(0) && duration <= std::chrono::seconds(1'000'000'000) && fine(a) && fine(b);
}
NextCall Sanitized(const NextCall& next) {
  return IsValid(next.duration, next.returned, next.after) ? next : NextCall{};
}

}  // namespace

Shadow::Shadow(const Setup& setup, const HostKv* host_kv, WatchedPause::List asked)
    : setup_(setup),
      host_kv_(host_kv),
      asked_(std::move(asked)),
      policy_(setup.PolicyOf(setup.policy)),
      static_order_(OrderIsStatic(policy_)),
      known_order_(OrderIsKnown(policy_)),
      seen_(4096),
      last_step_(setup.options.first_step.value - 1) {
  if (setup.agents) prefixes_.Doubt();  // the retention policy chooses the order of eviction
}

Life& Shadow::At(RequestId id) {
  const std::uint64_t name = setup_.ids.NameOf(id);
  if (name >= 1u << 24) {  // the host never used such a name
    Violate(fmt::format("unknown request {}", id.value));
    return scapegoat_ = {};
  }
  if (name >= lives_.size()) lives_.resize(name + 256);
  return lives_[name];
}

Life* Shadow::Living(RequestId id) {
  Life& life = At(id);
  if (life.living()) return &life;
  ++ours_.events_unknown;
  return nullptr;
}

internal::FullKey Shadow::KeyOf(const Life& life) const {
  const double key = policy_.hooks().moving ? policy_.KeyAt(life.state, now_).key : policy_.Key(life.state).key;
  // A request that has run may come before others with an equal key.
  const bool first = setup_.options.begun_first && life.state.has_run && life.is == Is::kWaiting;
  return {std::isnan(key) ? std::numeric_limits<double>::infinity() : key, first ? kUnset : life.state.request.arrival,
          life.state.request.id};
}

internal::FullKey Shadow::VictimKeyOf(const Life& life) const {
  if (!policy_.hooks().victims) return KeyOf(life);
  return {policy_.VictimKey(life.state).key, life.state.request.arrival, life.state.request.id};
}

void Shadow::ReadVictimKey(Life& life) {
  life.state.generated = {life.generated};
  life.state.has_run |= life.generated > 0;
  life.victim_key = VictimKeyOf(life);
}

std::int32_t Shadow::TotalBlocks() const {
  if (setup_.options.kv == KvMode::kNone) return kMost;
  return host_kv_ != nullptr ? host_kv_->total_blocks().value : setup_.options.kv_blocks.value;
}

// The documented rule: all sequences share the prompt's whole blocks, and each has its own blocks for the rest.
std::int32_t Shadow::BlocksOf(const Life& life, std::int32_t tokens) const {
  if (setup_.options.kv == KvMode::kNone || tokens <= 0) return 0;
  const std::int32_t b = setup_.options.kv_block_tokens.value;
  const std::int32_t n = life.in_lane ? life.row_sequences : life.state.request.sequences;
  const auto blocks = [b](std::int32_t t) { return t / b + (t % b != 0 ? 1 : 0); };
  if (tokens <= life.base && n > 1 && life.generated == 0) {
    return life.base / b + n * blocks(life.base % b);
  }
  const std::int32_t own = n == 1 ? 0 : (std::max(tokens - life.base, 0) + n - 1) / n;
  return n == 1 ? blocks(tokens) : life.base / b + n * blocks(life.base % b + own);
}

std::span<const std::uint64_t> Shadow::HashesOf(const Life& life) const { return life.state.request.prefix.hashes; }

// ---- events ---------------------------------------------------------------------------------------------------

void Shadow::Handled(const Event& event, TimePoint now, const Scheduler& scheduler) {
  now_ = std::max(now_, now);
  prefixes_.Tie(false);
  if (policy_.hooks().observes) policy_.Observe(event, now_);
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { On(e, scheduler); }) {
          On(e, scheduler);
        } else {
          On(e);
        }
      },
      event);
  Looked(scheduler);
}

// Checks that every call except a plan makes at its end.
void Shadow::Looked(const Scheduler& scheduler) {
  CheckPredictions(true);
  CheckCpu(scheduler);
  free_before_ = FreeBlocks(scheduler);
}

std::int64_t Shadow::FreeBlocks(const Scheduler& scheduler) const {
  return setup_.options.kv == KvMode::kNone ? kMost : scheduler.kv().free.value;
}

void Shadow::On(const Arrived& e, const Scheduler& scheduler) {
  const Request& r = e.request;
  if (!r.id) {
    ++ours_.failed_invalid;
    return turned_away_.push_back({r.id, FailReason::kInvalid});
  }
  if (At(r.id).is != Is::kNowhere) {
    ++ours_.failed_id_in_use;
    return turned_away_.push_back({r.id, FailReason::kIdInUse});
  }
  Life& life = At(r.id);
  life = {};
  life.state.request = r;
  Request& kept = life.state.request;
  if (kept.arrival == kUnset) kept.arrival = now_;
  if (kept.workflow_arrival == kUnset) kept.workflow_arrival = kept.arrival;
  for (Estimate* estimate : {&kept.output_tokens, &kept.workflow_tokens_left}) {
    if (estimate->without_quantiles()) *estimate = Estimate::Mean(estimate->mean);
    if (!estimate->known()) *estimate = {};
  }
  kept.next_call = Sanitized(kept.next_call);
  if (kept.after.absurd()) kept.after = {};
  life.base = life.known = r.prompt_tokens.value;
  life.row_sequences = r.sequences;
  life.state.enqueued = now_;
  life.is = Is::kBlocked;  // until Enqueue
  unreleased_.push_back(r.id);
  if (draining_) return FailWith(life, FailReason::kDraining);
  if (r.prompt_tokens.value < 1 || r.prompt_tokens.value > 1 << 28 || r.max_output_tokens.value < 0 ||
      r.sequences < 1) {
    return FailWith(life, FailReason::kInvalid);
  }
  const auto never = [&r](std::int32_t most) { return most > 0 && r.sequences > most; };
  if (r.sequences > setup_.options.max_running || never(setup_.options.max_step_seqs) ||
      never(setup_.options.max_step_tokens.value)) {
    return FailWith(life, FailReason::kNeverFits);
  }
  if (r.expires_at <= now_) return FailWith(life, FailReason::kExpired);
  if (BlocksOf(life, life.known) > TotalBlocks()) return FailWith(life, FailReason::kNeverFits);

  ++ours_.arrived;
  const ClassLimitsList& classes = setup_.options.class_limits;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].priority <= kept.priority || !(classes[i].ceiling < 1) || !(classes[i].soft > 0)) continue;
    soft_until_[i] = std::max(soft_until_[i], After(now_, FromSeconds(classes[i].soft)));
  }
  life.accepted = true;
  Enqueue(life);
  FindShed(life, scheduler);
}

// Returns the number of waiting requests that have never run.
std::int64_t Shadow::MayBeShed() const {
  return std::ranges::count_if(unreleased_, [this](RequestId id) { return MayBeShed(Of(id)); });
}

const ClassLimits* Shadow::ClassOf(std::int32_t priority) const {
  const ClassLimits* of = nullptr;
  for (const ClassLimits& c : setup_.options.class_limits) {
    if (c.priority <= priority) of = &c;
  }
  return of;
}

TimePoint Shadow::WaitEnds(const Life& life) const {
  const Request& r = life.state.request;
  const ClassLimits* of = ClassOf(r.priority);
  if (of == nullptr || of->max_wait == 0) return r.expires_at;
  return std::min(r.expires_at, After(r.arrival, FromSeconds(of->max_wait)));
}

void Shadow::ParkFor(Life& life, double seconds) const {
  life.parked_until = seconds > 0 ? After(now_, FromSeconds(seconds)) : kNever;
}

Shadow::Crowd Shadow::CrowdOf(const Life& life, Scope scope) const {
  Crowd crowd;
  for (RequestId id : unreleased_) {
    const Life& other = Of(id);
    if (!MayBeShed(other)) continue;
    if (scope == Scope::kTenant && other.state.request.tenant != life.state.request.tenant) continue;
    if (scope == Scope::kClass && ClassOf(other.class_priority) != ClassOf(life.class_priority)) continue;
    ++crowd.requests, crowd.tokens += other.state.request.prompt_tokens.value;
    crowd.last = std::max(crowd.last, other.joined_no);
  }
  return crowd;
}

// A single request may exceed a bound on tokens.
bool Shadow::Exceeds(const Life& life, Scope scope, const Crowd& crowd) const {
  const SchedulerOptions& o = setup_.options;
  std::int64_t requests = o.max_waiting, tokens = o.max_waiting_tokens;
  if (scope == Scope::kTenant) requests = o.tenant_max_waiting, tokens = o.tenant_max_waiting_tokens;
  if (scope == Scope::kClass) {
    const ClassLimits* of = ClassOf(life.class_priority);
    if (of == nullptr) return false;
    requests = of->max_waiting, tokens = of->max_waiting_tokens;
  }
  return crowd.requests > requests || (crowd.requests > 1 && crowd.tokens > tokens);
}

// A request has joined the queue outside a plan. If more wait than the next plan could admit, the rest is shed at once.
// The request itself is shed for the bounds of its tenant and class. More than one is shed only if a bound has changed.
void Shadow::FindShed(Life& joined, const Scheduler& scheduler) {
  const std::int64_t spare = setup_.options.max_running;
  if (MayBeShed(joined)) {
    const ClassLimits* of = ClassOf(joined.class_priority);
    if (CrowdOf(joined, Scope::kTenant).requests - spare > setup_.options.tenant_max_waiting) {
      FailWith(joined, FailReason::kQuota);
    } else if (of != nullptr && CrowdOf(joined, Scope::kClass).requests - spare > of->max_waiting) {
      FailWith(joined, FailReason::kShed);
    }
  }
  if (MayBeShed() - spare <= setup_.options.max_waiting) return;
  const std::int64_t excess = MayBeShed() - spare - setup_.options.max_waiting;
  std::vector<Life*> shed;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (MayBeShed(life) && scheduler.Explain(id).status != RequestStatus::kWaiting) shed.push_back(&life);
  }
  FIRE_CHECK(std::ssize(shed) == excess, "{} requests shed, not {}", shed.size(), excess);
  if (shed.size() == 1) CheckShed(*shed.front(), false);
  for (Life* life : shed) FailWith(*life, FailReason::kShed);
  // The order of groups depends on their numbers, which change with each of several requests.
  if (shed.size() == 1 || (policy_.hooks().groups && setup_.options.shed == Shed::kWorst)) return;
  for (const Life* life : shed) CheckShed(*life, false);
}

// The worst request by rank is shed, or the last to arrive. A promoted request is shed only after all others. Among
// groups with equal keys, the group with most requests to shed comes first. After a plan sheds KV, it is built again. A
// row that was preempted only in the second build was not waiting when others were shed.
void Shadow::CheckShed(const Life& shed, bool built_again) {
  const bool by_rank = setup_.options.shed == Shed::kWorst;
  if (by_rank && !known_order_) return;
  // The cached tokens of a request change. The request is then ranked by the policy's newer observations.
  if (by_rank && setup_.agents && policy_.hooks().observes) return;
  const PolicyHooks hooks = policy_.hooks();
  const auto to_shed = [&](const Life& life) -> std::int64_t {
    if (!hooks.groups) return 0;
    return std::ranges::count_if(unreleased_, [&](RequestId id) {
      const Life& other = Of(id);
      return MayBeShed(other) && !other.promoted() && policy_.Group(other.state) == policy_.Group(life.state);
    });
  };
  const auto last = [](const Life& life) { return std::pair(life.state.request.arrival, life.state.request.id); };
  const auto worse = [&](const Life& a, const Life& b) {
    if (!by_rank) return last(b) < last(a);
    if (a.promoted() != b.promoted()) return b.promoted();
    if (a.promoted()) return b.promotion < a.promotion;
    const auto rank = [&](const Life& life) {
      return std::tuple(GroupKeyOf(life), to_shed(life), hooks.moving ? KeyOf(life) : life.key);
    };
    return rank(b) < rank(a);
  };
  for (RequestId id : unreleased_) {
    const Life& other = Of(id);
    if (&other == &shed || !MayBeShed(other) || (built_again && other.joined_in == last_step_)) continue;
    FIRE_CHECK(!worse(other, shed), "request {} was shed, and {} is worse", shed.state.request.id.value, id.value);
  }
}

void Shadow::On(const Revised& e) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  Request& r = life->state.request;
  const auto revise = [](Estimate& estimate, const std::optional<Estimate>& news) {
    if (news) estimate = news->without_quantiles() ? Estimate::Mean(news->mean) : *news;
    if (!estimate.known()) estimate = {};
  };
  revise(r.output_tokens, e.output_tokens);
  revise(r.workflow_tokens_left, e.workflow_tokens_left);
  if (e.after) r.after = e.after->absurd() ? WorkAfter{} : *e.after;
  if (e.next_call) r.next_call = Sanitized(*e.next_call);
  if (e.deadline) r.deadline = *e.deadline;
  if (e.priority) r.priority = *e.priority;
  if (e.expires_at) r.expires_at = *e.expires_at;
  if (e.sequences && (*e.sequences < 1 || *e.sequences > r.sequences)) {
    ++ours_.events_out_of_place;
  } else if (e.sequences && *e.sequences < r.sequences) {
    r.sequences = *e.sequences;
    if (life->is != Is::kRunning) {
      life->row_sequences = r.sequences;
      life->known = life->base + r.sequences * life->generated;
      if (life->in_transit()) life->tokens_held = std::min(life->tokens_held, life->base);
      if (life->in_lane) {
        if (life->leave == Life::Leave::kOut) life->cpu_blocks = 0;
        life->leave = Life::Leave::kDrop;  // the row's KV has a layout for more sequences
      } else if (life->in_transit()) {
        life->computed = std::max(std::min(life->computed, life->known - r.sequences), 0);
      } else {
        DropKv(*life);
        life->copied = false;
        life->cpu_blocks = 0;
      }
    }
  }
  if (life->is == Is::kWaiting) life->key = KeyOf(*life);
  if (life->is == Is::kRunning) ReadVictimKey(*life);
}

void Shadow::On(const Blocked& e) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  if (life->is == Is::kRunning) {
    ParkFor(*life, setup_.options.max_blocked);
    return Depart(*life, Life::Leave::kKeep, Is::kBlocked);
  }
  if (life->is != Is::kWaiting) {
    ++ours_.events_out_of_place;
    return;
  }
  LeaveQueue(*life);
  ParkFor(*life, setup_.options.max_blocked);
  life->is = Is::kBlocked;
  life->counting = false;
}

void Shadow::On(const Unblocked& e, const Scheduler& scheduler) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  if (life->is != Is::kBlocked) {
    ++ours_.events_out_of_place;
    return;
  }
  ours_.events_out_of_place += e.computed.value < 0 ? 1u : 0u;
  if (e.computed.value > 0) life->arrived = e.computed.value;
  Enqueue(*life);
  FindShed(*life, scheduler);
}

void Shadow::On(const NotReady& e) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  ours_.events_out_of_place += life->is != Is::kRunning ? 1u : 0u;
  life->left_out = life->is == Is::kRunning;
}

void Shadow::On(const KvArrived& e) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  if (life->is == Is::kRunning || e.computed.value < 0) {
    ++ours_.events_out_of_place;
    return;
  }
  life->arrived = e.computed.value;
}

void Shadow::On(const KvLost& e) {
  Life* life = e.request ? Living(e.request) : nullptr;
  if (e.request && life == nullptr) return;
  if (e.from.value < 0) {
    ++ours_.events_out_of_place;
    return;
  }
  prefixes_.Doubt();
  if (life != nullptr) return Lose(*life, e.from.value);
  for (RequestId id : unreleased_) {
    if (Of(id).living()) Lose(Of(id), e.from.value);
  }
}

// The KV of the request is lost from this token on.
void Shadow::Lose(Life& life, std::int32_t from) {
  life.arrived = std::min(life.arrived, from);
  if (life.fetching) {
    const std::int32_t tokens = life.state.request.prefix.block_tokens.value;
    life.fetched = std::min(life.fetched, from / tokens * tokens);
  }
  if (from >= life.computed) return;
  if (!life.in_lane) {
    life.computed = from;
    if (from > 0 || life.moving_out) return;
    DropKv(life);
    life.copied = false;
    life.cpu_blocks = 0;
    return;
  }
  if (life.row_sequences > 1) from = std::min(from, life.state.request.prompt_tokens.value);
  if (life.is == Is::kRunning) {
    Void(life);
    life.drafts = 0;
    life.prefilling = true;
  } else if (from == 0) {
    if (life.leave == Life::Leave::kOut) life.cpu_blocks = 0;
    life.leave = Life::Leave::kDrop;
  }
  life.computed = life.scheduled = from;
}

void Shadow::On(const KvPinned& e) {
  Life& life = At(e.request);
  if (!life.accepted) {
    ++ours_.events_unknown;
    return;
  }
  const bool over = life.is == Is::kEnded && !life.in_transit() && !life.kept;
  if (over || std::exchange(life.pinned, true)) ++ours_.events_out_of_place;
}

// Returns the tokens whose KV came from elsewhere.
std::int32_t Shadow::ArrivedOf(const Life& life) {
  const Request& r = life.state.request;
  return std::min(life.arrived, (r.sequences == 1 ? life.known : r.prompt_tokens.value) - 1);
}

bool Shadow::AnyLeftOut() const {
  return std::ranges::any_of(unreleased_, [this](RequestId id) { return Of(id).left_out; });
}

void Shadow::On(const ToolCalled& e, const Scheduler& scheduler) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  if ((life->is != Is::kRunning && life->is != Is::kWaiting) || life->state.request.sequences != 1) {
    ++ours_.events_out_of_place;
    return;
  }
  if (life->is == Is::kWaiting) LeaveQueue(*life);  // before the call resets its promotion
  if (const AgingOptions* aging = policy_.aging(); aging != nullptr) {
    if (aging->at_tool_call != AgingOptions::AtToolCall::kKeep) life->waited = 0;
    if (aging->at_tool_call == AgingOptions::AtToolCall::kReset) life->quantum = 0;
  }
  FIRE_CHECK(!asked_->empty() && asked_->front().what == Asked::What::kAtCall,
             "request {} calls, and the pause policy is not asked", e.request.value);
  const Asked asked = asked_->front();
  asked_->erase(asked_->begin());
  ToolCalled& call = life->call = e;
  if (!IsValid(e.expected, e.expected_returned)) call.expected = {}, call.expected_returned = {0};
  life->called_at = now_;
  ParkFor(*life, setup_.options.max_paused);
  life->state.request.next_call = {};
  CheckAsked(*life, asked);
  const bool keeps = Keeps(asked.decision);
  life->review_at = keeps ? asked.decision.review_at : kNever;
  const bool was_copied = life->cpu_blocks > 0;
  if (!keeps) CheckMovedOut(*life, asked, scheduler);
  const bool out = !was_copied && life->cpu_blocks > 0;
  if (life->is == Is::kRunning) {
    return Depart(*life, keeps ? Life::Leave::kKeep : out ? Life::Leave::kOut : Life::Leave::kDrop, Is::kPaused);
  }
  life->is = Is::kPaused;
  life->counting = false;
  if (keeps) return;
  if (life->in_lane && life->leave == Life::Leave::kKeep) life->leave = Life::Leave::kDrop;
  if (!life->in_transit() && asked.view.held.value > 0) LetGo(*life, out);
}

bool Shadow::Keeps(const PauseDecision& decision) {
  return decision.action == KvAction::kKeep || decision.action == KvAction::kIn;
}

// Checks the view that the pause policy received.
void Shadow::CheckAsked(const Life& life, const Asked& asked) {
  const std::uint64_t id = life.state.request.id.value;
  const PauseView& view = asked.view;
  FIRE_CHECK(asked.request.value == id, "asked about request {}, and {} has called", asked.request.value, id);
  FIRE_CHECK(asked.call.expected == life.call.expected && asked.call.tool == life.call.tool &&
                 asked.call.expected_returned == life.call.expected_returned,
             "request {}: not its call", id);
  FIRE_CHECK(view.now == now_, "asked at another time");
  FIRE_CHECK(view.swap_free.value == std::max<std::int64_t>(std::min(CpuFree(), swap_out_left_), 0),
             "{} blocks may move out, not {}", std::min(CpuFree(), swap_out_left_), view.swap_free.value);
  FIRE_CHECK(view.running_tokens >= 0, "{} tokens run", view.running_tokens);
  const bool leaves = life.in_lane && life.is != Is::kRunning;
  if (leaves && life.leave == Life::Leave::kDrop) {
    FIRE_CHECK(view.context.value == 0 && view.held.value == 0, "request {} will hold nothing", id);
    return;
  }
  FIRE_CHECK(view.context.value == life.computed || (!life.sure && view.context.value == 0) || (leaves && life.part),
             "request {}: {} computed, not {}", id, view.context.value, life.computed);
  if (!life.sure) return;
  const std::int32_t least = BlocksOf(life, life.tokens_held);
  FIRE_CHECK(view.held.value >= least, "request {} needs {} blocks, and holds {}", id, least, view.held.value);
  FIRE_CHECK(!Counts() || view.held.value <= life.most_blocks + life.spare_blocks,
             "request {} can hold {} blocks, and holds {}", id, life.most_blocks + life.spare_blocks, view.held.value);
}

// A decision to move blocks out moves all blocks that it names. If that is impossible, it moves none.
void Shadow::CheckMovedOut(Life& life, const Asked& asked, const Scheduler& scheduler) {
  if (life.cpu_blocks > 0 || life.fetching) return;  // the blocks are in the host's memory already, and none move
  const std::uint64_t id = life.state.request.id.value;
  const std::int64_t block = Counts() || host_kv_ != nullptr ? setup_.options.kv_block_tokens.value : 0;
  const std::int32_t wish =
      asked.decision.action == KvAction::kOut ? std::clamp(asked.decision.out.value, 0, asked.view.held.value) : 0;
  const bool possible = wish > 0 && wish <= CpuFree() && wish <= swap_out_left_ &&
                        std::min<std::int64_t>(asked.view.context.value, wish * block) > 0 &&
                        (life.is == Is::kRunning ? life.row_sequences == life.state.request.sequences
                                                 : !life.in_transit() || life.is == Is::kPaused);
  const std::int32_t moved = scheduler.Explain({id}).cpu_blocks.value;
  FIRE_CHECK(moved == 0 || (possible && moved == wish), "request {} moves {} blocks out, of {} that it should", id,
             moved, wish);
  FIRE_CHECK(moved > 0 || !possible || !HashesOf(life).empty(), "request {} could move {} blocks out, and does not", id,
             wish);
  life.cpu_blocks = moved;
  life.part = moved < asked.view.held.value;
  swap_out_left_ -= moved;
}

// For a request without a lane: its KV moves out or is dropped.
void Shadow::LetGo(Life& life, bool out) {
  if (!out) return DropKv(life);
  life.moving_out = true;
  if (life.part) life.computed = std::min(life.computed, life.cpu_blocks * setup_.options.kv_block_tokens.value);
}

// The policy must review every paused request whose `review_at` has passed.
void Shadow::CheckReviews(const Scheduler& scheduler) {
  constexpr Duration kSoon = std::chrono::milliseconds(1);
  for (const Asked& asked : *asked_) {
    if (asked.what != Asked::What::kReview) continue;
    Life& life = At(asked.request);
    const std::uint64_t id = asked.request.value;
    FIRE_CHECK(life.is == Is::kPaused && life.review_at <= now_, "request {} is asked about too soon", id);
    FIRE_CHECK(!life.in_transit(), "request {} is asked about, and steps in flight name it", id);
    FIRE_CHECK(asked.since == life.called_at, "request {} has called at another time", id);
    CheckAsked(life, asked);
    life.sure = true;
    const PauseDecision& decision = asked.decision;
    life.review_at =
        Keeps(decision) && decision.review_at != kNever ? std::max(decision.review_at, now_ + kSoon) : kNever;
    if (Keeps(decision)) continue;
    ++ours_.pauses_let_go;
    CheckMovedOut(life, asked, scheduler);
    LetGo(life, life.cpu_blocks > 0);
  }
  std::erase_if(*asked_, [](const Asked& asked) { return asked.what == Asked::What::kReview; });
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (life.is != Is::kPaused || life.review_at > now_) continue;
    if (life.in_transit()) {
      life.review_at = now_ + kSoon;
      continue;
    }
    const bool counted = setup_.options.kv != KvMode::kNone;
    FIRE_CHECK(!counted || !life.sure || life.tokens_held == 0,
               "request {} is overdue, and the pause policy is not asked", id.value);
    life.review_at = kNever;
    if (counted && !life.copied) DropKv(life);
  }
}

// Checks predictions, which are made before a key is computed. `settled`: the shadow has applied the event.
void Shadow::CheckPredictions(bool settled) {
  for (const Asked& asked : *asked_) {
    const std::uint64_t id = asked.request.value;
    FIRE_CHECK(asked.what == Asked::What::kPredict, "request {}: a question without a tool call", id);
    const Life& life = At(asked.request);
    const NextCall& next = asked.next_call;
    FIRE_CHECK(next && IsValid(next.duration, next.returned, next.after), "request {}: a prediction from nothing", id);
    if (!life.living()) continue;
    FIRE_CHECK(next == life.state.request.next_call, "request {}: a prediction from another call", id);
    FIRE_CHECK(!settled || asked.view.context.value == life.known, "request {}: predicted at {} tokens of {}", id,
               asked.view.context.value, life.known);
  }
  asked_->clear();
}

std::int64_t Shadow::CpuUsed() const {
  std::int64_t used = 0;
  for (RequestId id : unreleased_) used += Of(id).cpu_blocks;
  return used;
}

// Returns the room for swapped-out KV. Copies of prompts make room unless they are being loaded.
std::int64_t Shadow::CpuFree() const {
  std::int64_t free = setup_.options.cpu_blocks.value - CpuUsed();
  for (const auto& [hash, blocks] : pinned_) free -= blocks;
  return free;
}

// Collects the chunks of the host's memory that loads in flight need.
void Shadow::CountPinned() {
  pinned_.clear();
  for (const Move& move : moves_) {
    if (move.action != KvAction::kFetch) continue;
    const Life& life = Of(move.request);
    for (const std::uint64_t hash : HashesOf(life).first(static_cast<std::size_t>(life.pinned_chunks))) {
      pinned_.insert({hash, ChunkBlocks(life)});
    }
  }
}

// The plan names each change of the prompts in the host's memory, in order. There must be room for each. A chunk that
// is being loaded must stay.
void Shadow::CheckCopies(const StepPlan& plan, const Scheduler& scheduler) {
  for (const HostChunk& chunk : plan.host_chunks) {
    const std::pair name(chunk.hash, chunk.blocks.value);
    if (chunk.action == KvAction::kOut) {
      FIRE_CHECK(chunk.hash < seen_.size() && seen_[chunk.hash], "chunk {} is copied and was never computed",
                 chunk.hash);
      FIRE_CHECK(copies_.insert(name).second, "a chunk {} is copied twice", chunk.hash);
      copied_blocks_ += chunk.blocks.value;
      FIRE_CHECK(copied_blocks_ <= setup_.options.prefix_cpu_blocks.value, "{} blocks of prompts in the host's memory",
                 copied_blocks_);
    } else {
      FIRE_CHECK(chunk.action == KvAction::kDrop && copies_.erase(name) == 1, "a chunk {} is forgotten, unknown",
                 chunk.hash);
      FIRE_CHECK(!pinned_.contains(name), "a chunk {} is forgotten while it is loaded", chunk.hash);
      copied_blocks_ -= chunk.blocks.value;
    }
  }
  FIRE_CHECK(scheduler.kv().cpu_cached.value == copied_blocks_, "{} blocks of prompts in the host's memory, not {}",
             scheduler.kv().cpu_cached.value, copied_blocks_);
}

// A prompt starts with KV in the GPU's memory and continues with chunks from the host's memory.
void Shadow::CheckFetch(const KvMove& move, Life& life) {
  const std::uint64_t id = move.request.value;
  const std::int32_t chunk = ChunkBlocks(life);
  FIRE_CHECK(life.is == Is::kWaiting && !life.copied && !life.in_transit() && chunk > 0, "request {} loads a prompt",
             id);
  FIRE_CHECK(!(life.sure && life.computed > 0), "request {} loads what it has", id);
  FIRE_CHECK(move.count.value > 0 && move.first.value % chunk == 0 && move.count.value % chunk == 0,
             "request {} loads {} blocks from {}", id, move.count.value, move.first.value);
  const std::int32_t first = move.first.value / chunk, last = first + move.count.value / chunk;
  const Request& r = life.state.request;
  const std::int32_t tokens = r.prefix.block_tokens.value;
  FIRE_CHECK(std::cmp_less_equal(last, r.prefix.hashes.size()) && last * tokens < r.prompt_tokens.value,
             "request {} loads {} chunks", id, last);
  for (std::int32_t i = 0; i < last; ++i) {
    const std::uint64_t hash = r.prefix.hashes[static_cast<std::size_t>(i)];
    FIRE_CHECK(copies_.contains({hash, chunk}), "request {} loads a chunk that the host's memory does not have", id);
  }
  const std::int32_t start = std::max(first * tokens, ArrivedOf(life));
  FIRE_CHECK(start < last * tokens, "request {} loads what has arrived", id);
  if (life.shared_chunks > 0 || !life.sure) DropKv(life);
  life.computed = start;
  life.prefilling = life.fetching = life.sure = true;
  life.fetched = last * tokens, life.pinned_chunks = last;
}

void Shadow::CheckCpu(const Scheduler& scheduler) {
  const KvUse use = scheduler.kv();
  const std::int64_t used = CpuUsed();
  FIRE_CHECK(use.cpu_used.value == used && used <= use.cpu_total.value,
             "{} of {} blocks in the host's memory, and the ledger has {}", used, use.cpu_total.value,
             use.cpu_used.value);
}

void Shadow::On(const ToolReturned& e, const Scheduler& scheduler) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  if (life->is != Is::kPaused || e.returned.value < 0) {
    ++ours_.events_out_of_place;
    return;
  }
  if (e.returned.value > (1 << 28) - life->known) return FailWith(*life, FailReason::kKvExhausted);
  life->base += e.returned.value;
  life->known += e.returned.value;
  life->state.returned += e.returned;
  life->state.request.next_call = Sanitized(e.next_call);
  Enqueue(*life);
  FindShed(*life, scheduler);
}

void Shadow::On(const Cancelled& e) {
  Life* life = Living(e.request);
  if (life == nullptr) return;
  ++ours_.cancelled;
  End(*life);
}

void Shadow::On(const MoveDone& e) {
  const auto move = std::ranges::find(moves_, e.move, &Move::id);
  if (move == moves_.end()) {
    ++ours_.events_unknown;
    return;
  }
  Life& life = At(move->request);
  const KvAction action = move->action;
  moves_.erase(move);
  ours_.moves_failed += e.failed ? 1 : 0;
  if (action == KvAction::kOut) {
    life.moving_out = false, life.move = {};
    const std::int32_t computed = life.computed;
    DropKv(life);
    life.copied = !e.failed;
    if (e.failed) life.cpu_blocks = 0;
    if (!e.failed) life.computed = computed;
    if (life.is == Is::kEnded) life.copied = false, Release(life);
    return;
  }
  life.moving_in = false;
  if (std::exchange(life.fetching, false)) {
    CountPinned();
    if (!e.failed && life.fetched > life.computed) life.computed = life.scheduled = life.fetched;
    if (life.is != Is::kRunning) Settle(life);
    return;
  }
  life.copied = false;
  life.cpu_blocks = 0;
  if (e.failed) life.computed = life.scheduled = 0;
  if (life.is != Is::kRunning) Settle(life);
}

void Shadow::On(const KvFreed& e) {
  for (RequestId id : unreleased_) Of(id).refused = false;
  if (!e.request) return;
  Life& life = At(e.request);
  if (!life.accepted) {
    ++ours_.events_unknown;
  } else if (!std::exchange(life.pinned, false)) {
    ++ours_.events_out_of_place;
  } else if (std::exchange(life.kept, false)) {
    Due(life);
  }
}

void Shadow::ChangePolicy(const AnyPolicy& policy, TimePoint now, const Scheduler& scheduler) {
  now_ = std::max(now_, now);
  prefixes_.Tie(false);
  built_ = false;
  const bool aged = policy_.aging() != nullptr;
  policy_ = policy;
  const AgingOptions* aging = policy_.aging();
  static_order_ = OrderIsStatic(policy_);
  known_order_ = OrderIsKnown(policy_);
  ++counted_;
  waited_last_.clear();
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (aged && aging == nullptr) life.waited = life.quantum = 0, life.counting = false;
    life.group_key = 0;
    life.declined = false;
    if (life.is == Is::kWaiting) {
      life.key = KeyOf(life);
      if (policy_.hooks().group_watch && !life.promoted()) policy_.GroupSized(policy_.Group(life.state), 1, {});
      if (aging != nullptr && !life.promoted()) {
        const bool counted =
            std::exchange(life.counting, aging->count_from == AgingOptions::CountFrom::kArrival || life.state.has_run);
        if (!counted) life.counted_from = counted_;  // all at once
      }
    }
    if (life.is == Is::kRunning) ReadVictimKey(life), Admitted(life);
  }
  Looked(scheduler);
}

void Shadow::OptionsChanged(const SchedulerOptions& before, TimePoint now) {
  now_ = std::max(now_, now);
  const SchedulerOptions& o = setup_.options;
  const bool classes = o.class_limits != before.class_limits;
  const bool bounds = classes || o.max_waiting != before.max_waiting ||
                      o.max_waiting_tokens != before.max_waiting_tokens ||
                      o.tenant_max_waiting != before.tenant_max_waiting ||
                      o.tenant_max_waiting_tokens != before.tenant_max_waiting_tokens;
  if (classes) std::ranges::fill(soft_until_, kUnset);
  const auto limit_of = [](const SchedulerOptions& of, Is is) {
    return is == Is::kWaiting ? of.max_resume_wait : is == Is::kBlocked ? of.max_blocked : of.max_paused;
  };
  std::vector<Life*> waiting;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    life.declined = false;
    if (life.may_park()) {
      const double old = limit_of(before, life.is), limit = limit_of(o, life.is);
      const TimePoint since = old > 0 ? takt::Before(life.parked_until, FromSeconds(old)) : now_;
      life.parked_until = limit > 0 ? After(since, FromSeconds(limit)) : kNever;
    }
    if (MayBeShed(life)) waiting.push_back(&life);
  }
  if (!bounds) return;
  // They join their classes again, in order of arrival.
  std::ranges::sort(waiting, {},
                    [](const Life* life) { return std::pair(life->state.request.arrival, life->state.request.id); });
  for (Life* life : waiting) life->joined_no = ++joins_, life->class_priority = life->state.request.priority;
}

// The request has a row.
void Shadow::Admitted(const Life& life) {
  if (policy_.hooks().declines) policy_.Admitted(life.state, now_);
}

bool Shadow::HasCeilings() const {
  return setup_.options.tenant_kv_share < 1 ||
         std::ranges::any_of(setup_.options.class_limits, [](const ClassLimits& c) { return c.ceiling < 1; });
}

// Reads from the scheduler which waiting requests the policy or a ceiling keeps out. If requests ended in the middle of
// the plan, others may have been kept out before.
void Shadow::ReadDeclined(const StepPlan& plan, const Scheduler& scheduler) {
  if (!policy_.hooks().declines && !HasCeilings()) return;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    const WaitsFor reason = scheduler.Explain(id).waits_for;
    life.declined = life.is == Is::kWaiting && (fails_ || finished_ || !plan.failed.empty() ||
                                                reason == WaitsFor::kDeclined || reason == WaitsFor::kCeiling);
  }
}

// ---- lives ----------------------------------------------------------------------------------------------------

void Shadow::Enqueue(Life& life) {
  life.is = Is::kWaiting;
  life.state.enqueued = now_;
  life.state.generated = {life.generated};
  life.joined_in = last_step_;
  life.joined_no = ++joins_;
  life.class_priority = life.state.request.priority;
  ParkFor(life, setup_.options.max_resume_wait);
  life.key = KeyOf(life);
  if (policy_.hooks().groups && !life.promoted()) JoinGroup(life);
  life.group_key = GroupKeyOf(life);
  if (const AgingOptions* aging = policy_.aging()) {
    life.counting = !life.promoted() && (aging->count_from == AgingOptions::CountFrom::kArrival || life.state.has_run);
    life.counted_from = ++counted_;
  }
  if (AtCap(life)) return Finish(life);
  if (BlocksOf(life, life.known) > TotalBlocks()) FailWith(life, FailReason::kKvExhausted);
}

// The policy receives the number of its group's waiting requests. A group's first request also reports the least key of
// the other waiting groups. If no group waits, it reports the key of the group that waited last.
void Shadow::JoinGroup(const Life& life) {
  if (!policy_.hooks().group_watch) return;
  const std::uint64_t group = policy_.Group(life.state);
  double least = std::numeric_limits<double>::infinity();
  std::int64_t of_it = 1;
  for (RequestId id : unreleased_) {
    const Life& other = Of(id);
    if (&other == &life || other.is != Is::kWaiting || other.promoted()) continue;
    const std::uint64_t its = policy_.Group(other.state);
    of_it += its == group ? 1 : 0;
    least = std::min(least, policy_.GroupKey(its).key);
  }
  if (of_it > 1) return policy_.GroupSized(group, of_it, {});
  if (least == std::numeric_limits<double>::infinity()) {
    if (waited_last_.empty()) return policy_.GroupSized(group, of_it, {});
    const auto key = [this](std::uint64_t g) { return policy_.GroupKey(g).key; };
    least = key(waited_last_.front());
    // The shadow does not know which of several groups was last, nor the key to which this group is lifted.
    if (std::ranges::any_of(waited_last_, [&](std::uint64_t g) { return key(g) != least; })) known_order_ = false;
  }
  policy_.GroupSized(group, of_it, RankKey{least});
}

// Call this while the request is still waiting.
void Shadow::LeaveQueue(const Life& life) {
  if (!policy_.hooks().groups || life.promoted()) return;
  const bool last = std::ranges::none_of(unreleased_, [&](RequestId id) {
    const Life& other = Of(id);
    return &other != &life && other.is == Is::kWaiting && !other.promoted();
  });
  if (last) waited_last_ = {policy_.Group(life.state)};
}

double Shadow::GroupKeyOf(const Life& life) const {
  return policy_.hooks().groups ? policy_.GroupKey(policy_.Group(life.state)).key : 0;
}

// The order of victims: by rank as of now, the group's key first; or as the policy decides.
Shadow::Rank Shadow::VictimRankOf(const Life& life) const {
  return {policy_.hooks().victims ? 0 : GroupKeyOf(life), policy_.hooks().moving ? VictimKeyOf(life) : life.victim_key};
}

// Keys are read as a plan finds them. The key of a preempted request is read when it joins the queue.
void Shadow::ReadKeys() {
  const PolicyHooks hooks = policy_.hooks();
  if (!hooks.moving && !hooks.groups) return;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (life.is != Is::kWaiting) continue;
    if (hooks.moving) life.key = KeyOf(life);
    life.group_key = GroupKeyOf(life);
  }
}

// Returns true if the request has all the output that its host allows.
bool Shadow::AtCap(const Life& life) const {
  const Tokens cap = life.state.request.max_output_tokens;
  return cap.value > 0 && life.generated >= cap.value;
}

// Returns true if a plan must end this row because of its output cap. The host does not report its end.
bool Shadow::EndsAtCap(const Life& life) const {
  return life.is == Is::kRunning && !life.moving_in && life.in_flight == 0 && AtCap(life);
}

void Shadow::Finish(Life& life) {
  ++ours_.finished;
  End(life);
}

void Shadow::Ran(Life& life) {
  if (life.steps <= 0) return;
  life.waited = 0;
  if (life.quantum != kForever) life.quantum = std::max<std::int64_t>(life.quantum - life.steps, 0);
}

void Shadow::Void(Life& life) {
  life.void_through = last_step_;
  ours_.tokens_void += static_cast<std::uint64_t>(life.scheduled - life.computed);
  life.scheduled = life.computed;
  life.expected = life.known;
}

void Shadow::Depart(Life& life, Life::Leave leave, Is is) {
  Void(life);
  life.left_out = false;
  if (life.row_sequences != life.state.request.sequences) {
    leave = Life::Leave::kDrop;
    life.row_sequences = life.state.request.sequences;
    life.known = life.expected = life.base + life.row_sequences * life.generated;
    life.computed = life.scheduled = std::min(life.computed, life.known);
    life.tokens_held = std::min(life.tokens_held, life.base);
  }
  life.leave = leave;
  Ran(life);
  life.is = is;
  life.state.generated = {life.generated};
  if (is == Is::kWaiting) Enqueue(life);
  if (life.in_flight == 0 && !life.moving_in) Settle(life);
}

void Shadow::Settle(Life& life) {
  life.in_lane = false;
  life.computed = std::min(life.computed, life.known);
  if (life.is == Is::kEnded) return Due(life);
  if (life.leave == Life::Leave::kDrop) DropKv(life);
  if (life.leave == Life::Leave::kOut) LetGo(life, true);
}

void Shadow::DropKv(Life& life) {
  life.computed = life.tokens_held = life.most_blocks = life.spare_blocks = 0;
  if (life.shared_chunks > 0)
    prefixes_.Release(HashesOf(life).first(static_cast<std::size_t>(life.shared_chunks)), ChunkBlocks(life));
  life.shared_chunks = 0;
  life.sure = true;
}

void Shadow::End(Life& life) {
  life.counting = false;
  if (life.is == Is::kRunning) return Depart(life, Life::Leave::kDrop, Is::kEnded);
  if (life.is == Is::kWaiting) LeaveQueue(life);
  life.is = Is::kEnded;
  if (!life.in_transit()) Due(life);
}

void Shadow::FailWith(Life& life, FailReason reason) {
  life.must_fail = reason;
  ++must_fail_;
  switch (reason) {
    case FailReason::kInvalid: ++ours_.failed_invalid; break;
    case FailReason::kNeverFits: ++ours_.failed_never_fits; break;
    case FailReason::kKvExhausted: ++ours_.failed_kv_exhausted; break;
    case FailReason::kExpired: ++ours_.failed_expired; break;
    case FailReason::kShed: ++ours_.failed_shed; break;
    case FailReason::kDraining: ++ours_.failed_draining; break;
    case FailReason::kHost: ++ours_.failed_host; break;
    case FailReason::kIdInUse: ++ours_.failed_id_in_use; break;
    case FailReason::kQuota: ++ours_.failed_quota; break;
    case FailReason::kNoInstance: Violate("a scheduler has no instances"); break;
  }
  End(life);
}

// The request has ended, and nothing in flight names it.
void Shadow::Due(Life& life) {
  life.copied = false;
  life.cpu_blocks = 0;
  if (life.pinned) {
    life.kept = true;
  } else {
    Release(life);
  }
}

void Shadow::Release(Life& life) {
  DropKv(life);
  life.cpu_blocks = 0;
  ++due_;
}

// Sequences that have ended leave the row once no step in flight counts them.
void Shadow::Shrink(Life& life) {
  const std::int32_t left = life.state.request.sequences, before = life.row_sequences;
  const std::int32_t behind = life.known - life.computed;
  life.known = life.base + left * life.generated;
  if (behind == before) {
    life.computed = life.known - left;
  } else if (life.computed > life.base) {
    life.computed = life.base + (life.computed - life.base) / before * left;
  }
  life.scheduled = life.computed;
  life.expected = life.known;
  life.row_sequences = left;
  life.spare_blocks = left - 1;
  if (life.tokens_held > life.base) {
    life.tokens_held = std::min(life.base + (life.tokens_held - life.base) / before * left, life.known);
  }
}

// ---- plans ----------------------------------------------------------------------------------------------------

void Shadow::Planned(const StepPlan& plan, const StepLimits& limits, TimePoint now, const Scheduler& scheduler) {
  now_ = std::max(now_, now);
  FIRE_CHECK(plan.id.value == last_step_ + 1, "plan {} follows plan {}", plan.id.value, last_step_);
  last_step_ = plan.id.value;
  joined_others_ = finished_ = shrunk_ = false;
  prefixes_.Tie(false);
  built_ = steps_.size() < static_cast<std::size_t>(Scheduler::kMaxStepsInFlight);
  ++ours_.plans;
  if (const std::int32_t most = LargestChunk(limits); most > 0 && limits.chunk_align.value > most) {
    ++ours_.limits_misaligned;
  }
  if (policy_.hooks().declines) {
    for (RequestId id : plan.released) policy_.Ends(At(id).state, now_);
  }

  // Requests that waited past their time fail first, in the order of their expiry times. Requests that may expire
  // before their first step come before others.
  scratch_.clear();
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if ((life.may_expire() && WaitEnds(life) <= now_) || (life.may_park() && life.parked_until <= now_))
      scratch_.push_back(&life);
  }
  std::ranges::sort(scratch_, {}, [this](const Life* life) {
    const Request& r = life->state.request;
    const bool fresh = life->may_expire() && WaitEnds(*life) <= now_;
    return std::tuple(!fresh, fresh ? WaitEnds(*life) : life->parked_until, r.arrival, r.id);
  });
  for (const Life* life : scratch_) FailWith(At(life->state.request.id), FailReason::kExpired);
  swap_out_left_ += std::max(limits.swap_out.value, 0) - swap_out_limit_;  // minus swap-outs by calls since then
  swap_out_limit_ = std::max(limits.swap_out.value, 0);
  CheckReviews(scheduler);
  // Only a running request with a target limits prompts, and never below the minimum.
  const std::int32_t paced = scheduler.paced_prefill().value;
  const bool has_target = std::ranges::any_of(unreleased_, [this](RequestId id) {
    const Life& life = Of(id);
    const Duration own = life.state.request.token_pace;
    return life.is == Is::kRunning && (own > Duration::zero() || setup_.options.token_pace > 0);
  });
  FIRE_CHECK(paced == INT32_MAX || has_target, "{} prompt tokens without a target", paced);
  FIRE_CHECK(paced >= setup_.options.least_prefill.value, "{} prompt tokens of at least {}", paced,
             setup_.options.least_prefill.value);
  if (built_) {
    Promote();
    for (RequestId id : unreleased_) {
      Life& life = Of(id);
      if (life.is != Is::kRunning || life.moving_in) continue;
      if (life.in_flight == 0) {
        if (life.row_sequences != life.state.request.sequences) shrunk_ = true, Shrink(life);
        life.prefilling = life.generated == 0 || life.known - life.computed != life.row_sequences;
      }
      life.most_before = life.most_blocks;
      life.most_blocks = std::max(
          life.most_blocks, BlocksOf(life, life.expected + life.drafts + (life.prefilling ? 0 : life.row_sequences)));
    }
  }
  stalled_ = scheduler.stats().kv_stalls != before_.kv_stalls;
  prefixes_.Forgive();
  // The order of events of several kinds is unknown.
  const std::uint64_t reclaimed = scheduler.stats().kv_reclaimed - before_.kv_reclaimed;
  // Requests are shed after everything else is planned.
  const bool fails = fails_ = std::ranges::any_of(plan.failed, [this](const Failure& f) {
    return f.request && f.reason != FailReason::kIdInUse && HttpStatus(f.reason) != 429 && !At(f.request).must_fail;
  });
  const bool capped = built_ && std::ranges::any_of(unreleased_, [this](RequestId id) { return EndsAtCap(Of(id)); });
  const std::uint64_t kinds = (plan.preempted.empty() ? 0u : 1u) + (fails ? 1u : 0u) + (capped ? 1u : 0u);
  prefixes_.Tie(kinds + reclaimed > 1);
  if (built_) ReadKeys();
  CheckReclaimed(plan, limits, scheduler);
  // The order of joining and leaving is unknown, and so are the groups that the policy lifted.
  const bool swaps_in =
      std::ranges::any_of(plan.moves, [](const KvMove& move) { return move.action != KvAction::kOut; });
  const bool enters = std::ranges::any_of(plan.run, &PlanEntry::admitted);
  const int ways = (enters ? 1 : 0) + (swaps_in ? 1 : 0) + (fails ? 1 : 0);
  if (policy_.hooks().group_watch && (ways > 1 || (!plan.preempted.empty() && ways > 0))) known_order_ = false;
  CheckNeeded(plan, limits, scheduler);
  CheckPreempted(plan, scheduler);
  if (built_) FinishAtCap();
  CheckFailed(plan, limits);
  if (built_) ReadKeys();
  CheckCopies(plan, scheduler);
  CheckMoves(plan, limits);
  CheckEntries(plan, limits);
  shed_kv_ = false;
  for (const Failure& f : plan.failed) {
    Life& life = At(f.request);
    if (HttpStatus(f.reason) != 429 || !life.living() || life.in_transit() || life.pinned) continue;
    shed_kv_ |= life.most_blocks > 0;
    DropKv(life);
  }
  CheckEvictions(plan, scheduler);
  CheckDropped(plan);
  ReadDeclined(plan, scheduler);
  ReadPrefixes(plan, scheduler);
  if (violation_.empty()) CheckOrder(plan, limits);
  if (violation_.empty()) CheckWho(plan, limits, scheduler);
  if (violation_.empty()) CheckAllShed(plan);
  CheckReleased(plan);
  CheckPredictions(false);
  if (!violation_.empty()) return;
  swap_out_left_ = swap_out_limit_;

  if (!plan.run.empty()) {
    steps_.push_back({plan.id, {plan.run.begin(), plan.run.end()}});
    if (policy_.aging() != nullptr) {
      for (RequestId id : unreleased_) {
        Life& life = Of(id);
        if (life.is == Is::kWaiting && life.counting && !life.promoted()) ++life.waited;
      }
    }
  } else {
    ++ours_.plans_idle;
    CheckIdle(plan, limits, scheduler);
  }
  TimePoint wake_at = kNever;
  bool waits = false;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (built_) life.left_out = false;
    if (life.may_expire()) wake_at = std::min(wake_at, WaitEnds(life));
    if (life.may_park()) wake_at = std::min(wake_at, life.parked_until);
    if (life.is == Is::kPaused) wake_at = std::min(wake_at, life.review_at);
    waits |= life.is == Is::kWaiting;
  }
  for (const TimePoint until : soft_until_) {
    if (waits && until > now_) wake_at = std::min(wake_at, until);
  }
  const bool gated = setup_.agents && plan.run.empty() && plan.wake_at < wake_at;
  FIRE_CHECK(gated || plan.wake_at == wake_at, "wake_at is {}, the next to expire or to be reviewed is at {}",
             plan.wake_at.time_since_epoch().count(), wake_at.time_since_epoch().count());
  CheckMemory(scheduler);
  CheckWatermark(plan, scheduler);
  before_ = scheduler.stats();
  free_before_ = FreeBlocks(scheduler);
  if (host_kv_ == nullptr) return;
  // The oracle is asked once. It is asked again if a row was preempted or ended at its cap, or if the policy declines.
  // If nothing runs, waiting requests are tried one at a time.
  const int removed = static_cast<int>(plan.preempted.size() + plan.failed.size()) + (finished_ ? 1 : 0);
  const int tries = std::max(setup_.options.admission_window, 1);
  FIRE_CHECK(policy_.hooks().declines || host_kv_->asked() <= 1 + tries + removed + static_cast<int>(reclaimed),
             "the oracle is asked {} times in one plan", host_kv_->asked());
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (!host_kv_->refused(id)) continue;
    const bool preempted = std::ranges::find(plan.preempted, id, &Preemption::request) != plan.preempted.end();
    if (life.is == Is::kWaiting && !preempted) life.refused = true;
    if (life.is != Is::kRunning) continue;
    was_stalled_ = true;
    life.drafts = 0;  // the scheduler dropped them with the refused allocation
  }
}

void Shadow::Promote() {
  const AgingOptions* aging = policy_.aging();
  if (aging == nullptr) return;
  scratch_.clear();
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    const bool counts = life.is == Is::kWaiting && life.counting && !life.promoted();
    if (counts && life.waited >= aging->threshold) scratch_.push_back(&life);
  }
  // The request that has waited longest comes first. Among equal waits, the request that was counted first comes first.
  // Requests counted at once, as at a change of policy, leave the queue in an order of the scheduler's choice.
  std::pair<std::int64_t, std::uint64_t> last;
  std::vector<std::uint64_t> groups;  // groups of the last promotion
  const auto place = [](const Life* life) { return std::pair(-life->waited, life->counted_from); };
  std::ranges::sort(scratch_, {}, place);
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    Life& life = At(scratch_[i]->state.request.id);
    const bool at_once = i > 0 && place(scratch_[i]) == last;
    life.promotion = at_once ? promotions_ : ++promotions_;
    last = place(scratch_[i]);
    LeaveQueue(life);
    if (!at_once) groups.clear();
    if (policy_.hooks().groups) groups.push_back(policy_.Group(life.state));
    life.quantum = aging->quantum;
    life.waited = 0;
    life.counting = false;
    ++ours_.promoted;
  }
  const auto ranked = [this](RequestId id) { return Of(id).is == Is::kWaiting && !Of(id).promoted(); };
  if (!groups.empty() && std::ranges::none_of(unreleased_, ranked)) waited_last_ = groups;
}

void Shadow::CheckPreempted(const StepPlan& plan, const Scheduler& scheduler) {
  const std::uint64_t by_rank = scheduler.stats().preempted_by_rank - before_.preempted_by_rank;
  FIRE_CHECK(by_rank == 0 || setup_.options.preempt == PreemptMode::kByRank, "preempted by rank against the option");
  for (const Preemption& p : plan.preempted) {
    Life& life = At(p.request);
    FIRE_CHECK(life.is == Is::kRunning || life.is == Is::kWaiting, "request {} is preempted and does not run",
               p.request.value);
    FIRE_CHECK(life.state.request.preemptible, "request {} is not preemptible", p.request.value);
    FIRE_CHECK(p.action == KvAction::kDrop || p.action == KvAction::kOut, "preempted by {}", Name(p.action));
    ++(p.action == KvAction::kOut ? ours_.preempted_swap : ours_.preempted_recompute);
    const bool was_running = life.is == Is::kRunning;
    if (was_running) CheckWorst(life, plan);
    if (by_rank == plan.preempted.size() && known_order_ && was_running) {
      FIRE_CHECK(life.quantum <= life.steps, "request {} is promoted and was displaced", p.request.value);
      bool gains = false;
      life.state.generated = {life.generated};
      for (RequestId id : unreleased_) {
        const Life& other = Of(id);
        if (&other == &life || (other.is != Is::kWaiting && !other.must_fail) || other.refused) continue;
        gains |= other.promoted() || (KeyOf(other).key + setup_.options.preempt_margin < KeyOf(life).key &&
                                      GroupKeyOf(other) <= GroupKeyOf(life));
      }
      FIRE_CHECK(gains, "request {} was displaced, and no other is better by the margin", p.request.value);
    }
    if (!was_running) {  // admitted and preempted within this plan
      if (!HashesOf(life).empty()) prefixes_.Doubt();  // perhaps it used its prefix
      ++ours_.admitted;
      LeaveQueue(life);
      const std::int32_t cached = host_kv_ != nullptr ? CachedTokens(life.state.request) : 0;
      if (life.arrived > 0 || cached > 0) life.computed = scheduler.Explain(p.request).computed.value;
      ResetAtAdmission(life);
      life.most_blocks = std::max(life.most_blocks, BlocksOf(life, life.known));  // it was admitted to this many blocks
      life.in_lane = true;
      life.counting = false;
      life.steps = 0;
      life.in_flight = 0;
      life.scheduled = life.computed;
    }
    if (p.action == KvAction::kOut) {
      const Explanation now = scheduler.Explain(p.request);
      const bool ended =
          // the request ended in this same plan
          now.status == RequestStatus::kDead || now.status == RequestStatus::kUnknown;
      life.cpu_blocks = now.cpu_blocks.value;
      life.part = false;
      FIRE_CHECK((ended || life.cpu_blocks >= BlocksOf(life, life.tokens_held)) && life.cpu_blocks <= swap_out_left_,
                 "request {} is swapped out: {} blocks, with {} tokens, of {}", p.request.value, life.cpu_blocks,
                 life.tokens_held, swap_out_left_);
      swap_out_left_ -= life.cpu_blocks;
    }
    Depart(life, p.action == KvAction::kOut ? Life::Leave::kOut : Life::Leave::kDrop, Is::kWaiting);
  }
}

// A running request is preempted or fails for want of memory only if the running requests together need more than there
// is. An oracle's refusal is no such reason.
void Shadow::CheckNeeded(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) {
  const std::uint64_t by_rank = scheduler.stats().preempted_by_rank - before_.preempted_by_rank;
  const bool exhausted = std::ranges::any_of(plan.failed, [this](const Failure& f) {
    const Life& life = At(f.request);  // it may need more than the total
    return f.reason == FailReason::kKvExhausted && !life.must_fail && BlocksOf(life, life.known) <= TotalBlocks();
  });
  if (plan.preempted.size() <= by_rank && !exhausted) return;
  FIRE_CHECK(stalled_, "a request was preempted for memory, and none was missing");
  if (was_stalled_ || setup_.options.order != StepOrder::kRunningFirst || !violation_.empty()) return;
  // If prompts come first, an admission may have taken blocks that rows need.
  const bool admits =
      std::ranges::any_of(plan.run, &PlanEntry::admitted) ||
      std::ranges::any_of(plan.moves, [](const KvMove& move) { return move.action != KvAction::kOut; }) ||
      std::ranges::any_of(plan.preempted, [this](const Preemption& p) { return At(p.request).is == Is::kWaiting; });
  if (admits && MayComputePromptsFirst(limits)) return;
  std::int64_t most = 0;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kRunning || life.moving_in) continue;
    const std::int32_t n = life.row_sequences;
    if (BlocksOf(life, life.expected) + n > TotalBlocks()) return;
    most += std::max(BlocksOf(life, life.expected + n + life.drafts) + n - BlocksOf(life, life.tokens_held), 0);
  }
  FIRE_CHECK(free_before_ < most, "a request was preempted for memory; {} blocks were free, and at most {} needed",
             free_before_, most);
}

// Ends the requests at their output caps. The host did not report their ends.
void Shadow::FinishAtCap() {
  scratch_.clear();
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (EndsAtCap(life)) scratch_.push_back(&life);
  }
  std::ranges::sort(scratch_, {}, &Life::admission);
  finished_ = !scratch_.empty();
  if (scratch_.size() > 1 && setup_.options.order == StepOrder::kPrefillFirst) prefixes_.Tie(true);
  for (const Life* life : scratch_) Finish(At(life->state.request.id));
}

// KV kept for requests that do not run is reclaimed if others need it. Paused and blocked requests keep theirs last.
// Among waiting requests, the worst loses its KV first.
void Shadow::CheckReclaimed(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) {
  const std::uint64_t reclaimed = scheduler.stats().kv_reclaimed - before_.kv_reclaimed;
  if (reclaimed == 0) return;
  struct Holder {
    Life* life;
    bool lost, unknown, admitted;
  };
  std::vector<Holder> holders;
  const Life* first = nullptr;  // first of the queue, which perhaps needed the KV
  bool unknown = false;
  std::uint64_t lost = 0;
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    if (life.is == Is::kWaiting && (first == nullptr || Before(life, *first))) first = &life;
    if (life.in_lane || life.moving_out || life.copied || (life.most_blocks == 0 && life.sure) || !life.living())
      continue;
    Holder holder{&life, false, !life.sure, false};
    const auto entry = std::ranges::find(plan.run, id, &PlanEntry::request);
    const auto names_it = [id](const auto& notice) { return notice.request == id; };
    const bool fails = std::ranges::any_of(
        plan.failed, [&](const Failure& f) { return names_it(f) && f.reason != FailReason::kIdInUse; });
    if (entry != plan.run.end() && life.is == Is::kWaiting) {
      holder.admitted = true;
      // Without its KV, the request might start at the same position.
      const Request& r = life.state.request;
      const std::int32_t chunk = r.prefix.hashes.empty() ? 0 : r.prefix.block_tokens.value;
      holder.unknown |=
          life.computed == 0 || life.arrived > 0 || std::ranges::any_of(plan.preempted, names_it) ||
          (host_kv_ == nullptr ? chunk > 0 && life.computed % chunk == 0 : life.computed == CachedTokens(r));
      holder.lost = entry->position != life.computed;
    } else if (fails || std::ranges::any_of(plan.preempted, names_it) || std::ranges::any_of(plan.moves, names_it)) {
      holder.unknown = true;
    } else {
      holder.lost = scheduler.Explain(id).kv_blocks.value == 0;
    }
    unknown |= holder.unknown;
    lost += holder.lost && !holder.unknown;
    holders.push_back(holder);
  }
  FIRE_CHECK(unknown ? lost <= reclaimed : lost == reclaimed, "{} have lost the KV kept for them, not {}", lost,
             reclaimed);
  const auto rank = [this](const Life& life) {
    return Rank(policy_.hooks().victims ? 0 : GroupKeyOf(life), VictimKeyOf(life));
  };
  // If nothing runs, KV was reclaimed for the first of the queue, which must have needed it.
  if (!setup_.agents && plan.run.empty() && plan.moves.empty() && first != nullptr && !stalled_ && !unknown) {
    std::int64_t room = FreeBlocks(scheduler);
    for (const Holder& holder : holders) room -= holder.lost ? holder.life->most_blocks : 0;
    const bool needed = std::ranges::any_of(unreleased_, [&](RequestId id) {
      const Life& life = Of(id);
      const std::int32_t need = std::max(BlocksOf(life, life.known), life.cpu_blocks);
      if (std::ranges::find(plan.preempted, id, &Preemption::request) != plan.preempted.end()) return need > room;
      return life.is == Is::kWaiting && need - BlocksOf(life, life.tokens_held) > room;
    });
    FIRE_CHECK(needed, "{} lose their KV, and {} blocks are free without it", reclaimed, room);
  }
  // The first of the queue keeps its KV. If requests before the first admissible one exist, they may keep theirs, too.
  scratch_.clear();
  for (RequestId id : unreleased_) {
    if (const Life& life = Of(id); life.is == Is::kWaiting) scratch_.push_back(&life);
  }
  std::ranges::sort(scratch_, [this](const Life* a, const Life* b) { return Before(*a, *b); });
  const auto surely = [&](const Life* life) {
    const Request& r = life->state.request;
    // perhaps it failed before
    if (std::ranges::find(plan.failed, r.id, &Failure::request) != plan.failed.end()) return false;
    // `declined` is of the last plan. The policy may decline a newer request, or another request, by now.
    return !life->in_transit() && !life->declined && policy_.Admits(life->state, now_) && !r.adapter && r.chunkable &&
           !NeedsMore(*life, limits) && (host_kv_ == nullptr || !host_kv_->refused(r.id));
  };
  const auto head = std::ranges::find_if(scratch_, surely);
  const bool known = std::ranges::adjacent_find(
                         scratch_, [this](const Life* a, const Life* b) { return !Before(*a, *b); }) == scratch_.end();
  if (head != scratch_.end()) scratch_.erase(head + 1, scratch_.end());
  const auto spared = [this](const Life* life) { return std::ranges::find(scratch_, life) != scratch_.end(); };
  for (const Holder& gone : holders) {
    if (!known || setup_.agents) break;
    if (!gone.lost || gone.unknown) continue;
    for (const Holder& kept : holders) {
      if (kept.lost || kept.unknown || kept.admitted || spared(kept.life)) continue;
      const bool waits = kept.life->is == Is::kWaiting, waited = gone.life->is == Is::kWaiting;
      const std::uint64_t id = gone.life->state.request.id.value, other = kept.life->state.request.id.value;
      FIRE_CHECK(waited || !waits, "request {} loses its KV, and {}, which waits, keeps its own", id, other);
      if (!known_order_ || waits != waited) continue;
      // A tie of two keys is broken by whether the requests had run when takt ranked them, which is unknown here.
      const auto gone_rank = rank(*gone.life), kept_rank = rank(*kept.life);
      const bool ties = setup_.options.begun_first && gone_rank.first == kept_rank.first &&
                        gone_rank.second.key == kept_rank.second.key;
      FIRE_CHECK(ties || !(gone_rank < kept_rank), "request {} loses its KV, and {} is worse", id, other);
    }
  }
  for (const Holder& holder : holders) {
    if (holder.unknown) {
      if (lost == reclaimed) continue;  // all reclaimed KV belonged to others
      holder.life->sure = false;
      if (holder.life->shared_chunks > 0) prefixes_.Doubt();
    } else if (holder.lost) {
      DropKv(*holder.life);
    }
  }
}

// No running row may rank worse than the victim. Promoted rows come last.
void Shadow::CheckWorst(const Life& victim, const StepPlan& plan) {
  if (!known_order_) return;
  const bool least_lost = setup_.options.victims == VictimChoice::kLeastLost;
  const auto rank = [this, least_lost](const Life& life) {
    return std::tuple(life.quantum <= life.steps, least_lost ? -life.computed : 0, VictimRankOf(life));
  };
  for (RequestId id : unreleased_) {
    const Life& other = Of(id);
    if (other.is != Is::kRunning || other.moving_in || !other.state.request.preemptible) continue;
    if (EndsAtCap(other)) continue;  // it ends before any preemption
    if (std::ranges::find(plan.failed, id, &Failure::request) != plan.failed.end()) continue;
    FIRE_CHECK(!(rank(victim) < rank(other)), "request {} was preempted, and {} is worse",
               victim.state.request.id.value, id.value);
  }
}

void Shadow::CheckFailed(const StepPlan& plan, const StepLimits&) {
  for (const Failure& f : plan.failed) {
    FIRE_CHECK(f.retry_after_ms <= (HttpStatus(f.reason) == 429 ? 60'000u : 0u), "request {} comes back in {} ms",
               f.request.value, f.retry_after_ms);
    if (f.reason == FailReason::kIdInUse || !f.request) {
      const auto expected = std::ranges::find(turned_away_, f);
      FIRE_CHECK(expected != turned_away_.end(), "request {} fails as {}", f.request.value, Name(f.reason));
      turned_away_.erase(expected);
      continue;
    }
    Life& life = At(f.request);
    FIRE_CHECK(life.is != Is::kNowhere, "request {} fails, and is not there", f.request.value);
    if (life.must_fail) {
      FIRE_CHECK(*life.must_fail == f.reason, "request {} fails as {}, not {}", f.request.value, Name(f.reason),
                 Name(*life.must_fail));
      FIRE_CHECK(f.code == life.code, "request {} fails with code {}, not {}", f.request.value, f.code, life.code);
      life.must_fail.reset();
      --must_fail_;
      continue;
    }
    FIRE_CHECK(life.living(), "request {} fails twice", f.request.value);
    if (HttpStatus(f.reason) == 429) continue;  // handled after the admissions
    const Request& r = life.state.request;
    if (f.reason == FailReason::kNeverFits) {
      const std::int32_t most = setup_.options.max_step_tokens.value;
      const bool too_long = !r.chunkable && most > 0 && r.prompt_tokens.value > most;
      const std::int32_t blocks = std::max(BlocksOf(life, life.known), life.copied ? life.cpu_blocks : 0);
      const bool too_large = host_kv_ != nullptr && blocks > TotalBlocks();
      FIRE_CHECK(life.is == Is::kWaiting && (too_long || too_large), "request {} fits, and fails", f.request.value);
      ++ours_.failed_never_fits;
    } else {
      FIRE_CHECK(f.reason == FailReason::kKvExhausted, "request {} fails as {}", f.request.value, Name(f.reason));
      ++ours_.failed_kv_exhausted;
      // A request may fail only if it needs more than the total, or if it runs alone and cannot grow.
      std::int64_t running = 0;
      for (RequestId id : unreleased_) running += Of(id).is == Is::kRunning;
      const std::int32_t needs =
          BlocksOf(life, life.expected + life.row_sequences + (life.prefilling ? 0 : life.drafts)) + life.row_sequences;
      FIRE_CHECK(running <= 1 || !r.preemptible || needs > TotalBlocks(),
                 "request {} fails for want of KV, and {} others run", f.request.value, running - 1);
    }
    End(life);
  }
  FIRE_CHECK(must_fail_ == 0, "{} failed requests are missing in the plan", must_fail_);
  FIRE_CHECK(turned_away_.empty(), "{} rejected arrivals are missing in the plan", turned_away_.size());
}

// Requests are shed at the end of a plan, from those that have never run, until the bound holds.
void Shadow::CheckAllShed(const StepPlan& plan) {
  for (const Failure& f : plan.failed) {
    Life& life = At(f.request);
    if (HttpStatus(f.reason) != 429 || !life.living()) continue;
    FIRE_CHECK(built_ && MayBeShed(life), "request {} was shed, and may not be", f.request.value);
    // Bounds of a tenant or class shed the last to join. Requests admitted to the KV of shed ones may leave fewer than
    // a bound.
    const auto last_of = [&](Scope scope) {
      const Crowd crowd = CrowdOf(life, scope);
      return shed_kv_ || (Exceeds(life, scope, crowd) && crowd.last == life.joined_no);
    };
    if (f.reason == FailReason::kQuota) {
      FIRE_CHECK(last_of(Scope::kTenant), "request {} is not the last of a crowded tenant", f.request.value);
      ++ours_.failed_quota;
    } else {
      if (ClassOf(life.class_priority) == nullptr || !last_of(Scope::kClass)) {
        FIRE_CHECK(shed_kv_ || Exceeds(life, Scope::kAll, CrowdOf(life, Scope::kAll)),
                   "request {} was shed, and no bound is exceeded", f.request.value);
        CheckShed(life, shed_kv_);
      }
      ++ours_.failed_shed;
    }
    End(life);
  }
  if (!built_) return;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (!MayBeShed(life)) continue;
    for (const Scope scope : {Scope::kAll, Scope::kClass, Scope::kTenant}) {
      FIRE_CHECK(!Exceeds(life, scope, CrowdOf(life, scope)), "request {} waits beyond bound {}", id.value,
                 static_cast<int>(scope));
    }
  }
}

void Shadow::CheckMoves(const StepPlan& plan, const StepLimits& limits) {
  std::int64_t in = 0, ins = 0;
  for (const KvMove& move : plan.moves) {
    if (move.action == KvAction::kIn || move.action == KvAction::kFetch) in += move.count.value, ++ins;
  }
  FIRE_CHECK(ins == 0 || in <= limits.swap_in.value || (ins == 1 && limits.swap_in.value > 0),
             "{} blocks are moved in, of {}", in, limits.swap_in.value);
  for (const KvMove& move : plan.moves) {
    Life& life = At(move.request);
    const bool fetches = move.action == KvAction::kFetch;
    if (fetches) CheckFetch(move, life);
    if (!violation_.empty()) return;
    FIRE_CHECK(fetches || (move.count.value > 0 && move.first.value == 0 && move.count.value == life.cpu_blocks),
               "a move of {} blocks from {}, of {}", move.count.value, move.first.value, life.cpu_blocks);
    if (move.action == KvAction::kOut) {
      FIRE_CHECK(life.moving_out && !life.move, "request {} is moved out unasked", move.request.value);
      ++ours_.moves_out;
    } else {
      FIRE_CHECK(
          fetches || (move.action == KvAction::kIn && life.is == Is::kWaiting && life.copied && !life.in_transit()),
          "request {} is moved in", move.request.value);
      LeaveQueue(life);
      life.refused = false;
      life.is = Is::kRunning;
      life.in_lane = life.moving_in = true;
      FIRE_CHECK(policy_.Admits(life.state, now_), "request {} comes back, and the policy declines it",
                 move.request.value);
      Admitted(life);
      life.counting = false;
      ResetAtAdmission(life);
      life.row_sequences = life.state.request.sequences;
      life.scheduled = life.computed;
      life.expected = life.known;
      life.drafts = life.steps = 0;
      life.void_through = last_step_ - 1;
      life.most_blocks = std::max(BlocksOf(life, life.known), move.count.value);
      if (!fetches && move.count.value > BlocksOf(life, life.known)) life.spare_blocks = life.row_sequences - 1;
      life.tokens_held = life.computed;
      life.victim_key = VictimKeyOf(life);
      life.admission = ++admissions_, life.admitted_in = last_step_;
      life.turn_from = life.turn_to = last_step_;
      life.lane = kNoLane;
      ++ours_.moves_in;
      ++ours_.admitted;
    }
    moves_.push_back({move.id, move.request, move.action});
    if (fetches) CountPinned();
  }
  for (const Move& move : moves_) {
    if (move.action == KvAction::kOut) At(move.request).move = move.id;
  }
  for (RequestId id : unreleased_) {
    Life& life = Of(id);
    FIRE_CHECK(!life.moving_out || life.move, "request {} should be moved out", id.value);
    if (!life.moving_out) life.move = {};
  }
}

void Shadow::CheckEntries(const StepPlan& plan, const StepLimits& limits) {
  FIRE_CHECK(built_ || plan.run.empty(), "a plan with {} steps in flight", steps_.size());
  std::int64_t tokens = 0, prefill = 0, seqs = 0;
  for (const PlanEntry& entry : plan.run) {
    CheckEntry(entry, plan.id, limits);
    if (!violation_.empty()) return;
    tokens += entry.tokens + entry.speculative;
    if (entry.prefill()) prefill += entry.tokens;
    seqs += At(entry.request).row_sequences;
  }
  ours_.rows_scheduled += plan.run.size();
  FIRE_CHECK(tokens <= std::max(limits.tokens.value, 0), "{} tokens, of {}", tokens, limits.tokens.value);
  FIRE_CHECK(plan.tokens.value == tokens, "{} tokens, and the plan counts {}", tokens, plan.tokens.value);
  FIRE_CHECK(prefill <= std::max(limits.prefill_tokens.value, 0), "{} tokens of prefill, of {}", prefill,
             limits.prefill_tokens.value);
  FIRE_CHECK(seqs <= std::max(limits.max_seqs, 0), "{} sequences, of {}", seqs, limits.max_seqs);

  // Counts all running requests, including those being moved in. The limits bind admissions.
  std::int64_t rows = 0, running_seqs = 0;
  std::vector<AdapterId> adapters;
  const auto in_use = [&adapters](AdapterId id) { return !id || std::ranges::find(adapters, id) != adapters.end(); };
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (life.is != Is::kRunning) continue;
    ++rows;
    running_seqs += life.row_sequences;
    if (life.picked_in != last_step_ && !in_use(life.state.request.adapter))
      adapters.push_back(life.state.request.adapter);
  }
  FIRE_CHECK(rows <= setup_.options.max_running, "{} rows, of {}", rows, setup_.options.max_running);
  for (const PlanEntry& entry : plan.run) {
    const Life& life = At(entry.request);
    if (life.picked_in != last_step_) continue;
    FIRE_CHECK(running_seqs <= limits.max_seqs, "admits to {} sequences, of {}", running_seqs, limits.max_seqs);
    // A request that was preempted, failed or ended may have used the adapter until then.
    if (in_use(life.state.request.adapter) || !plan.preempted.empty() || fails_ || finished_) continue;
    adapters.push_back(life.state.request.adapter);
    FIRE_CHECK(std::cmp_less_equal(adapters.size(), limits.adapters), "admits to {} adapters, of {}", adapters.size(),
               limits.adapters);
  }
}

void Shadow::CheckEntry(const PlanEntry& entry, StepId step, const StepLimits& limits) {
  const std::uint64_t id = entry.request.value;
  Life& life = At(entry.request);
  FIRE_CHECK(life.planned_in != step.value || life.steps == 0, "request {} twice in one plan", id);
  if (life.is == Is::kWaiting) {
    Admitted(life, entry, limits);
  } else {
    FIRE_CHECK(life.is == Is::kRunning, "request {} is planned and cannot run", id);
    FIRE_CHECK(!life.moving_in, "request {} is planned before it has been moved in", id);
    FIRE_CHECK(!life.left_out, "request {} is planned, and was not ready", id);
    FIRE_CHECK(entry.admitted() == (life.steps == 0), "request {} {} admitted", id, entry.admitted() ? "is not" : "is");
    if (life.lane == kNoLane) life.lane = entry.lane;
    FIRE_CHECK(life.lane == entry.lane, "request {} goes from lane {} to {}", id, life.lane, entry.lane);
  }
  if (!violation_.empty()) return;
  FIRE_CHECK(life.row_sequences == life.state.request.sequences, "request {} runs with ended sequences", id);
  for (const Step& other : steps_) {
    for (const PlanEntry& e : other.entries) {
      FIRE_CHECK(e.lane != entry.lane || e.request == entry.request,
                 "lane {} is given to {}, and {} is in flight in it", entry.lane, id, e.request.value);
    }
  }

  FIRE_CHECK(entry.position == life.scheduled, "request {} goes on at {}, not {}", id, entry.position, life.scheduled);
  FIRE_CHECK(entry.tokens > 0, "request {} gets {} tokens", id, entry.tokens);
  const std::int32_t end = entry.position + entry.tokens;
  FIRE_CHECK(end <= life.expected, "request {} computes {} tokens of {}", id, end, life.expected);
  FIRE_CHECK(entry.samples() == (end == life.expected), "request {} samples at {} of {}", id, end, life.expected);
  FIRE_CHECK(entry.prefill() == life.prefilling, "request {} {}", id,
             life.prefilling ? "prefills without the flag" : "does not prefill");
  if (life.prefilling) {
    const bool whole = !life.state.request.chunkable && entry.position < life.state.request.prompt_tokens.value;
    FIRE_CHECK(!whole || end >= life.state.request.prompt_tokens.value, "request {} is chunked", id);
    FIRE_CHECK(whole || entry.tokens <= limits.chunk_tokens.value, "request {}: a chunk of {}", id, entry.tokens);
    const std::int32_t align = limits.chunk_align.value;
    FIRE_CHECK(whole || align <= 1 || end == life.expected || end % align == 0, "request {}: a chunk to {}", id, end);
    FIRE_CHECK(entry.speculative == 0, "request {} speculates while it prefills", id);
  } else {
    FIRE_CHECK(entry.tokens == life.row_sequences, "request {} decodes {} tokens", id, entry.tokens);
    FIRE_CHECK(entry.speculative <= life.drafts, "request {} has {} drafts, {} are planned", id, life.drafts,
               entry.speculative);
    FIRE_CHECK(life.row_sequences == 1 || entry.speculative == 0, "request {} speculates with sequences", id);
  }
  const Tokens cap = life.state.request.max_output_tokens;
  if (cap.value > 0 && entry.samples()) {
    FIRE_CHECK(life.expected + life.row_sequences + entry.speculative <= life.base + life.row_sequences * cap.value,
               "request {} is planned past its cap", id);
  }
  life.scheduled = end + entry.speculative;
  if (entry.samples()) {
    life.expected += life.row_sequences + entry.speculative;
    life.prefilling = false;
  }
  life.started = life.was_prefill;
  life.was_prefill = entry.prefill();
  life.offered = std::exchange(life.drafts, 0);
  ++life.steps;
  ++life.in_flight;
  life.planned_in = step.value;
  life.held_without = std::max(life.tokens_held, life.scheduled - entry.speculative);
  life.tokens_held = std::max(life.tokens_held, life.scheduled);
  life.most_blocks = std::max(life.most_blocks, BlocksOf(life, life.scheduled));
  if (host_kv_ != nullptr) {
    FIRE_CHECK(host_kv_->held(entry.request) >= BlocksOf(life, life.scheduled),
               "request {} runs with {} blocks, and needs {}", id, host_kv_->held(entry.request),
               BlocksOf(life, life.scheduled));
  }
}

// Returns the tokens that the host's own prefix cache has, without the last token, which must be computed.
std::int32_t Shadow::CachedTokens(const Request& r) {
  return std::clamp(HostKv::Cached(r), 0, r.prompt_tokens.value - 1);
}

// A request may start at the end of its kept KV, at zero, or past a prefix that was computed earlier.
bool Shadow::StartFits(const Life& life, std::int32_t start) const {
  const bool kept = life.computed > 0;
  if (kept && start == life.computed) return true;
  if (kept && life.sure) return false;
  const std::int32_t arrived = ArrivedOf(life);
  const Request& r = life.state.request;
  if (arrived > 0 && start == arrived && (host_kv_ == nullptr || arrived >= CachedTokens(r))) return true;
  if (start < arrived && !kept && life.sure && life.most_blocks == 0) return false;
  if (start == 0) return true;
  if (host_kv_ != nullptr) return start == CachedTokens(r);
  const std::span<const std::uint64_t> hashes = HashesOf(life);
  if (prefixes_.sure() && life.sure) return ChunkBlocks(life) > 0 && start % r.prefix.block_tokens.value == 0;
  if (hashes.empty() || start % r.prefix.block_tokens.value != 0 || start >= r.prompt_tokens.value) return false;
  const std::int32_t chunks = start / r.prefix.block_tokens.value;
  if (std::cmp_greater(chunks, hashes.size())) return false;
  return std::ranges::all_of(hashes.first(static_cast<std::size_t>(chunks)),
                             [this](std::uint64_t h) { return seen_[h]; });
}

void Shadow::Admitted(Life& life, const PlanEntry& entry, const StepLimits&) {
  const std::uint64_t id = entry.request.value;
  FIRE_CHECK(entry.admitted(), "request {} runs without admission", id);
  FIRE_CHECK(!life.in_transit(), "request {} is admitted while it is in flight", id);
  FIRE_CHECK(!life.copied, "request {} runs, and its KV is in the host's memory", id);
  FIRE_CHECK(StartFits(life, entry.position), "request {} starts at {}, with {} computed", id, entry.position,
             life.computed);
  if (ChunkBlocks(life) > 0 && life.arrived > 0) prefixes_.Doubt();
  if (ChunkBlocks(life) > 0 && !(life.sure && life.most_blocks > 0) &&
      (life.computed == 0 || entry.position != life.computed)) {
    const Request& r = life.state.request;
    const std::int32_t whole = (r.prompt_tokens.value - 1) / r.prefix.block_tokens.value;
    const std::span<const std::uint64_t> hashes = HashesOf(life);
    const auto usable = hashes.first(std::min(hashes.size(), static_cast<std::size_t>(whole)));
    // It continues with blocks that hold nothing computed. Or its blocks were reclaimed and no prefix is cached.
    const bool unclear = !life.sure && life.computed == entry.position;
    if (unclear && prefixes_.Found(usable, ChunkBlocks(life)) > 0) prefixes_.Doubt();
    if (life.shared_chunks > 0) DropKv(life);  // it may have been reclaimed, and now it certainly was
    const std::int32_t chunks = entry.position / r.prefix.block_tokens.value;
    // KV that arrived may reach beyond the last hash.
    life.shared_chunks = std::min(chunks, static_cast<std::int32_t>(hashes.size()));
    const std::string fault = prefixes_.Acquire(usable, chunks, ChunkBlocks(life));
    FIRE_CHECK(fault.empty() || !prefixes_.sure(), "request {} {}", id, fault);
  }
  // A load gives a request a row's blocks, some of which others may hold. A request blocked during its load has such
  // blocks even if the load failed or its KV was lost. It takes no free memory.
  const bool holds_nothing = life.sure && life.most_blocks == 0 && life.fetched == 0;
  joined_others_ |= holds_nothing &&
                    std::ranges::any_of(unreleased_, [this](RequestId other) { return Of(other).is == Is::kRunning; });
  // Blocks count even if nothing in them is computed any more.
  life.went_on = life.sure ? life.most_blocks > 0 : life.tokens_held > 0 || entry.position > 0;
  if (life.computed != entry.position) life.most_blocks = 0;
  if (life.computed != entry.position || !life.sure) life.tokens_held = 0;
  ours_.tokens_cached += static_cast<std::uint64_t>(entry.position - std::min(life.computed, entry.position));
  LeaveQueue(life);
  life.refused = false;
  life.is = Is::kRunning;
  life.in_lane = true;
  ResetAtAdmission(life);
  life.picked_in = last_step_;
  life.lane = entry.lane;
  life.counting = false;
  life.sure = true;
  life.row_sequences = life.state.request.sequences;
  life.computed = life.scheduled = entry.position;
  life.expected = life.known;
  life.drafts = life.steps = life.in_flight = 0;
  life.void_through = last_step_ - 1;
  life.prefilling = life.generated == 0 || life.known - life.computed != life.row_sequences;
  life.most_blocks = std::max(life.most_blocks, BlocksOf(life, life.known));
  life.victim_key = VictimKeyOf(life);
  life.admission = ++admissions_, life.admitted_in = last_step_;
  life.turn_from = life.turn_to = last_step_;
  FIRE_CHECK(policy_.Admits(life.state, now_), "request {} was picked, and the policy declines it",
             entry.request.value);
  Admitted(life);
  ++ours_.admitted;
}

// Chunks are evicted only if there is no other room. The chunk that has been idle longest is evicted first.
void Shadow::CheckEvictions(const StepPlan& plan, const Scheduler& scheduler) {
  if (setup_.families == 0 || !Counts()) return;
  const KvUse use = scheduler.kv();
  const std::string fault = prefixes_.Settle(use.cached.value);
  if (!prefixes_.sure()) return;
  FIRE_CHECK(fault.empty(), "{}", fault);
  if (scheduler.stats().kv_reclaimed > before_.kv_reclaimed) return;
  if (prefixes_.evicted() == 0 || finished_ || shrunk_ || fails_ || !plan.preempted.empty() || !plan.released.empty())
    return;
  FIRE_CHECK(use.free.value - use.cached.value < prefixes_.evicted(), "a chunk of {} blocks goes, and {} were free",
             prefixes_.evicted(), use.free.value - use.cached.value);
}

// The plan names each evicted chunk once.
void Shadow::CheckDropped(const StepPlan& plan) {
  std::vector<std::pair<std::uint64_t, std::int32_t>> ours = prefixes_.TakeGone(), theirs;
  FIRE_CHECK(plan.dropped.empty() || (setup_.families > 0 && Counts()), "a chunk is dropped, and there are none");
  if (setup_.families == 0 || !Counts() || !prefixes_.sure()) return;
  for (const DroppedPrefix& chunk : plan.dropped) theirs.push_back({chunk.hash, chunk.blocks.value});
  std::ranges::sort(ours);
  std::ranges::sort(theirs);
  FIRE_CHECK(ours == theirs, "{} chunks have gone, and the plan names {}", ours.size(), theirs.size());
}

// Returns true if a is known to rank before b.
bool Shadow::Before(const Life& a, const Life& b) const {
  if (a.promoted() != b.promoted()) return a.promoted();
  if (a.promoted()) return a.promotion < b.promotion;
  if (!known_order_ || a.group_key != b.group_key) return known_order_ && a.group_key < b.group_key;
  return a.key < b.key;
}

// Returns true if the request needs a larger step than these limits allow.
bool Shadow::NeedsMore(const Life& life, const StepLimits& limits) const {
  const Request& r = life.state.request;
  const std::int32_t tokens = limits.tokens.value;
  const std::int32_t start = std::max(life.computed, ArrivedOf(life));  // or 0 if its KV was reclaimed
  return r.sequences > limits.max_seqs || r.sequences > tokens || FitsNoChunk(life, 0, limits) ||
         FitsNoChunk(life, start, limits) ||
         (!r.chunkable && r.prompt_tokens.value > std::min(tokens, limits.prefill_tokens.value));
}

// Returns true if prompts were computed before running rows: entries are then not in the order of admission.
bool Shadow::PromptsFirst(const StepPlan& plan) const {
  return !std::ranges::is_sorted(plan.run, {}, [this](const PlanEntry& entry) { return Of(entry.request).admission; });
}

std::int32_t Shadow::LargestChunk(const StepLimits& limits) {
  return std::max(std::min({limits.tokens.value, limits.prefill_tokens.value, limits.chunk_tokens.value}), 0);
}

// Returns true if no step of these limits computes a chunk of the request. A chunk ends at a multiple of the alignment
// or at the last known token. A request that lacks only its last tokens decodes them, which is no chunk.
bool Shadow::FitsNoChunk(const Life& life, std::int32_t start, const StepLimits& limits) {
  const std::int32_t most = LargestChunk(limits), align = std::max(limits.chunk_align.value, 1);
  const std::int32_t to_next = align - start % align, left = life.known - start;
  const bool chunks =
      life.state.request.chunkable || std::max(start, life.computed) >= life.state.request.prompt_tokens.value;
  const bool decodes = life.generated > 0 && left == life.state.request.sequences;
  return chunks && !decodes && most > 0 && std::min(to_next, left) > most;
}

Shadow::Adapters Shadow::AdaptersOf(const StepPlan& plan) const {
  Adapters used;
  const auto add = [](std::vector<AdapterId>& to, AdapterId id) {
    if (std::ranges::find(to, id) == to.end()) to.push_back(id);
  };
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    const AdapterId adapter = life.state.request.adapter;
    if (life.is != Is::kRunning || !adapter) continue;
    add(used.any, adapter);
    if (life.admitted_in != last_step_) add(used.always, adapter);
  }
  used.left = !plan.preempted.empty() || fails_ || finished_ || (host_kv_ != nullptr && host_kv_->refuses());
  return used;
}

// Returns true if no place was left for its adapter when others were admitted; no value if that is unknown.
std::optional<bool> Shadow::LackedAdapter(const Life& life, const Adapters& used, const StepLimits& limits) {
  const AdapterId adapter = life.state.request.adapter;
  const auto has = [adapter](const std::vector<AdapterId>& in) { return std::ranges::find(in, adapter) != in.end(); };
  if (!adapter || has(used.always)) return false;
  if (used.left) return std::nullopt;
  const bool in_use = has(used.any);
  if (std::cmp_less(used.any.size(), limits.adapters + (in_use ? 1 : 0))) return false;
  if (!in_use && std::cmp_greater_equal(used.always.size(), limits.adapters)) return true;
  return std::nullopt;
}

// While a request that has never run lacks memory or room, others may pass it. While a request lacks its adapter, users
// of resident adapters may overtake it. Both are limited by the window.
void Shadow::PassBy(Life& passed, const Life& by, std::optional<bool> lacked, const StepLimits& limits) {
  const std::uint64_t id = passed.state.request.id.value;
  const int window = setup_.options.admission_window;
  const bool fresh = passed.admission == 0 && passed.most_blocks == 0 && !passed.promoted();
  if (lacked.value_or(true)) {
    if (!by.state.request.adapter || limits.adapters < 1) return;
    ++(lacked || !fresh ? passed.overtaken : passed.overtaken_or_passed);
    FIRE_CHECK(passed.overtaken <= window, "request {} waits for its adapter, and {} overtook it", id,
               passed.overtaken);
  } else {
    FIRE_CHECK(fresh, "request {} was picked before {}{}", by.state.request.id.value, id,
               passed.promoted() ? ", which is promoted" : "");
    FIRE_CHECK(++passed.passed <= window, "request {} waits, and {} passed it", id, passed.passed);
  }
  const int all = passed.overtaken + passed.passed + passed.overtaken_or_passed;
  FIRE_CHECK(all <= 2 * window, "request {} waits, and {} overtook or passed it", id, all);
}

void Shadow::CheckOrder(const StepPlan& plan, const StepLimits& limits) {
  // If nothing else can run, any request that fits may run. CheckIdle checks the others. A gate passes over the
  // requests that it holds back.
  if (plan.run.size() == 1 || setup_.agents) return;
  const std::int32_t shortest = ShortestOf(plan, limits);
  const Adapters used = AdaptersOf(plan);
  for (const PlanEntry& entry : plan.run) {
    const Life& picked = At(entry.request);
    const bool sure = plan.preempted.empty() && limits.chunk_align.value <= 1;
    if (sure && picked.picked_in == last_step_ && entry.prefill() && !entry.samples()) {
      FIRE_CHECK(picked.expected - entry.position <= shortest / 2 || entry.position + entry.tokens == picked.expected,
                 "request {} starts next to a prompt that lacks {} tokens", entry.request.value, shortest);
    }
    // While the first of the queue waits for memory, requests with KV continue.
    if (picked.picked_in != last_step_ || picked.went_on) continue;
    for (RequestId id : unreleased_) {
      const Life& passed = Of(id);
      if (passed.is != Is::kWaiting || passed.in_transit() || passed.joined_in == last_step_) continue;
      if (NeedsMore(passed, limits) || passed.declined || passed.awaits_prefix) continue;
      if (passed.known > shortest / 2) continue;  // this prompt would delay a started one
      if (host_kv_ != nullptr && host_kv_->refused(id)) continue;
      if (!Before(passed, picked)) continue;
      const bool may_lack = passed.state.request.adapter && limits.adapters < setup_.adapters;
      const auto lacked = may_lack ? LackedAdapter(passed, used, limits) : false;
      // Perhaps an earlier request that lacks an adapter was overtaken too often. No adapter is then given.
      const bool held_up =
          may_lack && !picked.state.request.adapter && std::ranges::any_of(unreleased_, [&](RequestId other) {
            const Life& life = Of(other);
            return life.is == Is::kWaiting && life.state.request.adapter && &life != &passed && !Before(passed, life) &&
                   LackedAdapter(life, used, limits).value_or(true);
          });
      if (!held_up) PassBy(Of(id), picked, lacked, limits);
      if (!violation_.empty()) return;
    }
  }
}

void Shadow::CheckReleased(const StepPlan& plan) {
  for (RequestId id : plan.released) {
    Life& life = At(id);
    FIRE_CHECK(life.is == Is::kEnded && !life.in_transit() && !life.kept, "request {} is released, and has not ended",
               id.value);
    FIRE_CHECK(host_kv_ == nullptr || host_kv_->held(id) == 0, "request {} is released with {} blocks", id.value,
               host_kv_->held(id));
    life = {};
    unreleased_.erase(std::ranges::find(unreleased_, id));
    --due_;
  }
  FIRE_CHECK(due_ == 0, "{} ended requests are not released", due_);
}

void Shadow::CheckIdle(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) {
  std::int64_t waiting = 0, running = 0, paused = 0, blocked = 0;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    waiting += life.is == Is::kWaiting, running += life.is == Is::kRunning;
    paused += life.is == Is::kPaused, blocked += life.is == Is::kBlocked;
  }
  const bool kept = std::ranges::any_of(unreleased_, [this](RequestId id) { return Of(id).kept; });
  const bool pending = kept || (host_kv_ != nullptr && host_kv_->pending_blocks().value > 0);
  const bool left_out = AnyLeftOut();
  switch (plan.idle) {
    case Idle::kBusy: return Violate("busy, and runs nothing");
    case Idle::kEnded: return Violate("it has ended");
    case Idle::kNoRequests:
    case Idle::kDrained:
      FIRE_CHECK(unreleased_.empty(), "idle for want of requests, with {}", unreleased_.size());
      FIRE_CHECK((plan.idle == Idle::kDrained) == draining_, "drained, or not");
      return;
    case Idle::kStepsInFlight: FIRE_CHECK(!steps_.empty(), "idle for steps in flight, of which there are none"); return;
    case Idle::kMovesInFlight: FIRE_CHECK(!moves_.empty(), "idle for moves in flight, of which there are none"); break;
    case Idle::kKvPending: FIRE_CHECK(pending, "idle for pending KV, of which there is none"); break;
    case Idle::kPaused: FIRE_CHECK(waiting + running + blocked == 0 && paused > 0, "idle for tools"); break;
    case Idle::kBlocked:
      FIRE_CHECK(left_out || (waiting + running == 0 && blocked > 0), "idle for blocked requests");
      break;
    case Idle::kNoBudget:
    case Idle::kKvHeld: break;
    case Idle::kDeclined:
      FIRE_CHECK(policy_.hooks().declines, "idle since the policy declines, and it never does");
      break;
    case Idle::kGated:
      FIRE_CHECK(setup_.agents && waiting > 0, "idle for a gate, and {} wait", waiting);
      FIRE_CHECK(plan.wake_at != kNever, "idle for a gate, and wake_at is unset");
      return;
  }
  FIRE_CHECK(!unreleased_.empty(), "idle as {}, with no requests", Name(plan.idle));
  if (!steps_.empty() || limits.tokens.value <= 0 || left_out) return;
  if (host_kv_ != nullptr && host_kv_->refuses()) {
    // A request that was refused and then shed is no reason. If its KV becomes free, the plan is built without it.
    const bool lives =
        std::ranges::any_of(unreleased_, [this](RequestId id) { return Of(id).living() && host_kv_->refused(id); });
    FIRE_CHECK(!lives || plan.idle != Idle::kNoBudget || limits.max_seqs <= 0,
               "idle for want of budget, and KV was refused");
    return;
  }
  // An oracle is asked for at most this many requests in a plan.
  if (host_kv_ != nullptr && host_kv_->asked() >= std::max(setup_.options.admission_window, 1)) return;
  const Left left = LeftOf(plan, limits, scheduler);
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    FIRE_CHECK(!CouldRun(life, left, limits), "idle as {}, and request {} could run on, with {} blocks",
               Name(plan.idle), id.value, left.blocks);
    const bool comes_later = stalled_ && life.cpu_blocks > 0;  // running rows come first
    FIRE_CHECK(life.is != Is::kWaiting || setup_.agents || comes_later || BarOf(life, left, limits) != Bar::kNone,
               "idle as {}, and request {} fits", Name(plan.idle), id.value);
  }
}

// Compares the ledger with two counts of the shadow: the least and the most blocks that requests can hold.
void Shadow::CheckMemory(const Scheduler& scheduler) {
  CheckCpu(scheduler);
  if (host_kv_ != nullptr) {
    if (!host_kv_->fault().empty()) Violate(host_kv_->fault());
    return;
  }
  if (!Counts() || !violation_.empty()) return;
  const KvUse use = scheduler.kv();
  FIRE_CHECK(use.used <= use.total && use.used + use.free == use.total, "{} of {} blocks used, {} free", use.used.value,
             use.total.value, use.free.value);
  FIRE_CHECK(use.cached <= use.free, "{} blocks cached, {} free", use.cached.value, use.free.value);

  std::int64_t least = 0, most = 0;
  const bool shares = setup_.families > 0 && prefixes_.sure();
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    const std::int64_t shared = shares ? std::int64_t{life.shared_chunks} * ChunkBlocks(life) : 0;
    most += life.most_blocks + life.spare_blocks - (life.most_blocks > 0 ? shared : 0);
    if (life.tokens_held == 0 || !life.sure) continue;
    least += std::max<std::int64_t>(BlocksOf(life, life.tokens_held) - shared, 0);
  }
  if (shares) {
    least += prefixes_.referenced_blocks(), most += prefixes_.referenced_blocks();
    FIRE_CHECK(use.cached.value == prefixes_.idle_blocks(), "{} blocks are cached, not {}", use.cached.value,
               prefixes_.idle_blocks());
  } else if (setup_.families > 0) {
    least = 0;
  }
  FIRE_CHECK(least <= use.total.value, "{} blocks are needed, and there are {}", least, use.total.value);
  FIRE_CHECK(least <= use.used.value, "{} blocks are needed, and the ledger has {}", least, use.used.value);
  FIRE_CHECK(most >= use.used.value, "{} blocks at most, and the ledger has {}", most, use.used.value);
}

// A request admitted to a running batch leaves room for its growth or, after a wait, a block for each sequence. This
// room is still free at the end of a plan only if rows grow first.
void Shadow::CheckWatermark(const StepPlan& plan, const Scheduler& scheduler) {
  const SchedulerOptions& o = setup_.options;
  if (!joined_others_ || !Counts() || o.order != StepOrder::kRunningFirst || !plan.preempted.empty()) return;
  if (PromptsFirst(plan) || o.reserve_output > 0) return;
  const auto watermark = static_cast<std::int32_t>(o.kv_watermark * o.kv_blocks.value);
  if (scheduler.kv().free.value >= watermark) return;
  // At most one request is admitted below the watermark: the first of the queue, after `admission_window` plans. It may
  // hold KV; other requests that continue with their KV come after it.
  std::int64_t sequences = 0;
  std::uint64_t waited = 0, last = 0;
  const auto joins = [this](const Life& life) {
    return life.is == Is::kRunning && (life.picked_in == last_step_ || (life.moving_in && life.lane == kNoLane));
  };
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    if (!joins(life)) continue;
    waited = std::max(waited, last_step_ - life.joined_in);
    if (life.picked_in != last_step_ || !life.went_on) last = std::max(last, life.admission);
  }
  for (RequestId id : unreleased_) {
    if (const Life& life = Of(id); life.is == Is::kRunning && life.admission <= last) sequences += life.row_sequences;
  }
  FIRE_CHECK(std::cmp_greater_equal(waited, o.admission_window) && scheduler.kv().free.value >= sequences,
             "admits to {} free blocks after {} plans, and the watermark is {}", scheduler.kv().free.value, waited,
             watermark);
}

// ---- results --------------------------------------------------------------------------------------------------

void Shadow::Committed(const StepResult& result, TimePoint now, const Scheduler& scheduler) {
  now_ = std::max(now_, now);
  prefixes_.Tie(false);
  const auto step = std::ranges::find(steps_, result.step, &Step::id);
  if (step == steps_.end()) {
    ++ours_.commits_unknown;
    return;
  }
  ++ours_.commits;
  const Step done = std::move(*step);
  steps_.erase(step);
  // Results apply in the order of the rows. The first row that names an entry's request and lane is its result. Entries
  // without a row come last.
  reported_.assign(done.entries.size(), false);
  for (std::size_t j = 0; j < result.rows.size(); ++j) {
    const RowResult& row = result.rows[j];
    const auto is_its = [&](std::size_t i) {
      return !reported_[i] && done.entries[i].request == row.request && done.entries[i].lane == row.lane;
    };
    std::size_t i = j;
    if (i >= reported_.size() || !is_its(i)) {
      for (i = 0; i < reported_.size() && !is_its(i);) ++i;
    }
    if (i == reported_.size()) continue;
    reported_[i] = true;
    Apply(At(row.request), done.entries[i], &row, done.id);
  }
  for (std::size_t i = 0; i < reported_.size(); ++i) {
    if (!reported_[i]) Apply(At(done.entries[i].request), done.entries[i], nullptr, done.id);
  }
  FIRE_CHECK(scheduler.stats().tokens_output == ours_.tokens_output, "output of {} tokens, not {}",
             scheduler.stats().tokens_output, ours_.tokens_output);
  CheckMemory(scheduler);
  free_before_ = FreeBlocks(scheduler);
}

void Shadow::Apply(Life& life, const PlanEntry& entry, const RowResult* row, StepId step) {
  --life.in_flight;
  if (step.value <= life.void_through) {
    ++ours_.rows_dead;
    if (life.is != Is::kRunning && life.in_lane && life.in_flight == 0 && !life.moving_in) Settle(life);
    return;
  }
  if (row != nullptr && row->failed()) {
    life.code = row->tokens;
    return FailWith(life, FailReason::kHost);
  }
  const std::int32_t most = entry.samples() ? 1 + entry.speculative : 0;
  const std::int32_t sampled = row == nullptr ? 0 : std::min<std::int32_t>(row->tokens, most);
  if (row == nullptr || (entry.samples() && sampled == 0 && !row->finished())) {
    ++ours_.rows_absent;
    Void(life);
    life.drafts = 0;
    life.prefilling = life.generated == 0 || life.known - life.computed != life.row_sequences;
    return;
  }
  const std::int32_t accepted = std::max(sampled - 1, 0), rejected = entry.speculative - accepted;
  const std::int32_t fresh = sampled > 0 ? life.row_sequences + accepted : 0;
  life.computed += entry.tokens + accepted;
  life.scheduled -= rejected;
  life.expected -= rejected;
  life.known += fresh;
  life.generated += sampled;
  life.drafts = row->drafts;
  life.state.has_run = true;
  if (entry.prefill()) ours_.tokens_prefill += static_cast<std::uint64_t>(entry.tokens);
  ours_.tokens_output += static_cast<std::uint64_t>(fresh);
  if (policy_.hooks().scheduled && known_order_) {
    life.state.generated = {life.generated};
    policy_.Scheduled(life.state, {entry.prefill() ? entry.tokens : 0}, {fresh});
  }
  const std::span<const std::uint64_t> hashes = HashesOf(life);
  if (const std::int32_t blocks = ChunkBlocks(life); blocks > 0 && entry.prefill()) {
    const std::int32_t whole =
        std::min(life.computed, life.state.request.prompt_tokens.value) / life.state.request.prefix.block_tokens.value;
    const auto last = static_cast<std::size_t>(std::min(whole, static_cast<std::int32_t>(hashes.size())));
    for (auto c = static_cast<std::size_t>(life.shared_chunks); c < last && prefixes_.Publish(hashes[c], blocks); ++c) {
      ++life.shared_chunks;
    }
  }
  for (std::size_t c = 0; c < hashes.size(); ++c) {
    const auto end = static_cast<std::int32_t>(c + 1) * life.state.request.prefix.block_tokens.value;
    if (end <= std::min(life.computed, life.state.request.prompt_tokens.value)) seen_[hashes[c]] = true;
  }
  if (row->finished()) {
    ++ours_.finished;
    Depart(life, Life::Leave::kDrop, Is::kEnded);
  }
}

// ---- now and then ---------------------------------------------------------------------------------------------

void Shadow::Compare(const Scheduler& scheduler, std::uint64_t bits) {
  if (const char* fault = scheduler.Inconsistency(); fault != nullptr)
    return Violate(fmt::format("inconsistent: {}", fault));
  std::int64_t waiting = 0, running = 0, paused = 0, blocked = 0;
  for (RequestId id : unreleased_) {
    const Life& life = Of(id);
    waiting += life.is == Is::kWaiting, running += life.is == Is::kRunning;
    paused += life.is == Is::kPaused, blocked += life.is == Is::kBlocked;
  }
  FIRE_CHECK(scheduler.waiting() == waiting, "{} wait, not {}", scheduler.waiting(), waiting);
  FIRE_CHECK(scheduler.running() == running, "{} run, not {}", scheduler.running(), running);
  FIRE_CHECK(scheduler.paused() == paused, "{} are paused, not {}", scheduler.paused(), paused);
  FIRE_CHECK(scheduler.blocked() == blocked, "{} are blocked, not {}", scheduler.blocked(), blocked);
  const Stats& theirs = scheduler.stats();
#define FIRE_SAME(name) FIRE_CHECK(theirs.name == ours_.name, #name " is {}, not {}", theirs.name, ours_.name)
  FIRE_SAME(arrived);
  FIRE_SAME(finished);
  FIRE_SAME(cancelled);
  FIRE_SAME(failed_invalid);
  FIRE_SAME(failed_id_in_use);
  FIRE_SAME(failed_never_fits);
  FIRE_SAME(failed_kv_exhausted);
  FIRE_SAME(failed_expired);
  FIRE_SAME(failed_shed);
  FIRE_SAME(failed_draining);
  FIRE_SAME(failed_host);
  FIRE_SAME(plans);
  FIRE_SAME(plans_idle);
  FIRE_SAME(commits);
  FIRE_SAME(commits_unknown);
  FIRE_SAME(rows_scheduled);
  FIRE_SAME(rows_absent);
  FIRE_SAME(rows_dead);
  FIRE_SAME(tokens_prefill);
  FIRE_SAME(tokens_output);
  FIRE_SAME(tokens_void);
  FIRE_SAME(preempted_recompute);
  FIRE_SAME(preempted_swap);
  FIRE_SAME(moves_out);
  FIRE_SAME(moves_in);
  FIRE_SAME(moves_failed);
  FIRE_SAME(pauses_let_go);
  FIRE_SAME(promoted);
  FIRE_SAME(events_unknown);
  FIRE_SAME(events_out_of_place);
  FIRE_SAME(limits_misaligned);
  FIRE_SAME(failed_quota);
#undef FIRE_SAME
  if (Counts() && (setup_.families == 0 || prefixes_.sure())) {
    std::int64_t held = prefixes_.referenced_blocks();
    for (RequestId id : unreleased_) {
      const Life& life = Of(id);
      const std::int32_t blocks = scheduler.Explain(id).kv_blocks.value;
      FIRE_CHECK(blocks <= life.most_blocks + life.spare_blocks, "request {} holds {} blocks, of {} at most", id.value,
                 blocks, life.most_blocks + life.spare_blocks);
      FIRE_CHECK(!life.sure || blocks >= BlocksOf(life, life.tokens_held), "request {} holds {} blocks, for {} tokens",
                 id.value, blocks, life.tokens_held);
      held += blocks - std::int64_t{life.shared_chunks} * ChunkBlocks(life);
    }
    FIRE_CHECK(held == scheduler.kv().used.value, "requests hold {} blocks, and the ledger has {}", held,
               scheduler.kv().used.value);
  }
  if (unreleased_.empty()) return;
  const RequestId id = unreleased_[bits % unreleased_.size()];
  const Life& life = Of(id);
  const Explanation e = scheduler.Explain(id);
  constexpr RequestStatus kStatus[] = {RequestStatus::kUnknown, RequestStatus::kWaiting, RequestStatus::kRunning,
                                       RequestStatus::kPaused,  RequestStatus::kBlocked, RequestStatus::kDead};
  FIRE_CHECK(e.status == kStatus[static_cast<std::size_t>(life.is)], "request {}: status {}, not {}", id.value,
             static_cast<int>(e.status), static_cast<int>(life.is));
  if (!life.living()) return;
  FIRE_CHECK(e.generated.value == life.generated, "request {}: {} generated, not {}", id.value, e.generated.value,
             life.generated);
  FIRE_CHECK(e.known.value == life.known, "request {}: {} known, not {}", id.value, e.known.value, life.known);
  FIRE_CHECK(e.computed.value == life.computed || (!life.sure && e.computed.value == 0),
             "request {}: {} computed, not {}", id.value, e.computed.value, life.computed);
  if (life.is == Is::kWaiting) {
    FIRE_CHECK(e.promoted == life.promoted(), "request {}: promoted {}, not {}", id.value, e.promoted, life.promoted());
    const AgingOptions* aging = policy_.aging();
    FIRE_CHECK(!built_ || aging == nullptr || !life.counting || life.waited <= aging->threshold,
               "request {} has waited for {} plans", id.value, life.waited);
    std::int64_t ahead = 0;
    for (RequestId other : unreleased_) {
      ahead += Of(other).is == Is::kWaiting && Before(Of(other), life);
    }
    // Compares the keys of the queue and the shadow. If the cached tokens of a request change, it is ranked by the
    // policy's newer observations.
    const bool fresh = (built_ || static_order_) && !(setup_.agents && policy_.hooks().observes);
    FIRE_CHECK(!fresh || e.ahead >= ahead, "request {}: {} ahead, not {}", id.value, e.ahead, ahead);
  }
}

void Shadow::CheckEmpty(const Scheduler& scheduler) {
  FIRE_CHECK(unreleased_.empty(), "{} requests are left", unreleased_.size());
  FIRE_CHECK(scheduler.alive() == 0 && scheduler.waiting() == 0 && scheduler.running() == 0, "a request is left");
  const KvUse use = scheduler.kv();
  FIRE_CHECK(use.used.value == 0 && use.cpu_used.value == 0, "{} blocks and {} in the host's memory are left",
             use.used.value, use.cpu_used.value);
  Compare(scheduler, 0);
}

}  // namespace takt::fire
