// A random host in C whose clients flood the prefix cache: unlimited workflows, branches and tenants, with pins,
// copies in the host's memory, and times at both ends of the clock.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

using Branch = std::pair<std::uint64_t, std::uint64_t>;  // a workflow's

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int32_t kBlock = 16;
constexpr std::uint64_t kHonest = 8;  // workflows of two branches; each two have a tenant

struct Life {
  Branch branch = {};
  std::vector<std::uint64_t> hashes = {};
  bool ran = false;

  std::size_t Chunks(std::int32_t tokens) const {
    return std::min(static_cast<std::size_t>(tokens / kBlock), hashes.size());
  }
};

class Host {
 public:
  Host(std::uint64_t seed, std::int32_t blocks) : dice_(seed), blocks_(blocks) {
    takt_scheduler_options options;
    takt_scheduler_options_init(&options, sizeof options);
    options.kv_blocks = blocks, options.kv_block_tokens = kBlock, options.prefix_cache = 1, options.kv_watermark = 0;
    options.max_running = 16, options.reserve_requests = 64, options.prefix_wait = dice_.Of({0, 8});
    options.cpu_blocks = options.prefix_cpu_blocks = dice_.Of({0, blocks / 4, 2 * blocks});
    options.pin_share = pin_share_ = dice_.Of({0.1, 0.25, 1.0});
    REQUIRE(takt_scheduler_create(&options, &scheduler_, nullptr) == TAKT_OK);
    const char* retention = dice_.Of({"lru", "hold_value", "ttl(seconds=30)", "continuum", "shortest"});
    const char* gate = dice_.Of({"none", "price", "lease(seconds=30)", "working_set"});
    if (std::string_view(gate) == "none") gate = nullptr;
    REQUIRE(takt_scheduler_set_retention(scheduler_, retention, gate, 0.1, 1, nullptr) == TAKT_OK);
    now_ = dice_.Of<std::int64_t>({INT64_MIN, INT64_MIN + 1, 0, TAKT_NEVER - kSecond});
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { takt_scheduler_destroy(scheduler_); }

  void Act() {
    const Branch honest{1 + dice_.Index(kHonest), dice_.Index(2)};
    const Branch any = dice_.Chance(0.7) ? honest : Branch{100, dice_.Index(fresh_ + 1)};
    const auto kind = dice_.Index(12);
    if (kind < 3) return Arrive(honest, (honest.first + 1) / 2, dice_.Int(1, blocks_ / 6));
    if (kind == 3) return Flood(dice_.Int(1, 30));
    if (kind > 7) return Step(0.5);
    takt_event event{};
    if (kind < 6) {
      event.type = TAKT_EVENT_TURN_ENDED;
      event.u.turn_ended = {any.first, any.second, static_cast<std::uint32_t>(dice_.Index(5)), 0, 0, 0, 0};
      event.u.turn_ended.expected = dice_.Of<std::int64_t>({0, 1, 60 * kSecond, TAKT_NEVER});
      event.u.turn_ended.pin = dice_.Of<std::int64_t>({0, 1, kSecond, TAKT_NEVER - 1, TAKT_NEVER});
    } else if (kind == 6) {
      event.type = TAKT_EVENT_TURN_EXPECTED;
      event.u.turn_expected = {any.first, any.second, dice_.Of<std::int64_t>({now_, TAKT_NEVER - 1, TAKT_NEVER})};
    } else if (dice_.Chance(0.2)) {
      event.type = TAKT_EVENT_WORKFLOW_ENDED, event.u.workflow_ended = {any.first, 0, 0};
    } else if (!lives_.empty() && dice_.Chance(0.3)) {
      event.type = dice_.Of<std::uint32_t>({TAKT_EVENT_CANCELLED, TAKT_EVENT_KV_LOST});
      event.u.kv = {lives_.begin()->first, 0, 0};
      pinned_.clear();  // lost blocks are no victims
    }
    if (event.type != 0) Tell(event, any.first);
  }

  // A turn each of n branches, or of n tenants, that are new.
  void Flood(std::int32_t n) {
    const bool tenants = dice_.Chance(0.3);
    for (std::uint64_t last = fresh_ + static_cast<std::uint64_t>(n); fresh_++ < last;)
      Arrive(tenants ? Branch{1000 + fresh_, 0} : Branch{100, fresh_}, tenants ? 1000 + fresh_ : 100, 1);
  }

  void Arrive(Branch branch, std::uint64_t tenant, std::int32_t blocks) {
    Life& life = lives_[++last_id_];
    life.branch = branch;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(blocks); ++i) {
      const bool of_branch = i > 1 || branch.first > kHonest;  // branches of honest workflows have two blocks in common
      life.hashes.push_back(Mix64(Mix64(branch.first * 1000 + i) + (of_branch ? branch.second + 1 : 0)));
    }
    takt_request request;
    takt_request_init(&request, sizeof request);
    request.id = last_id_, request.tenant = tenant, request.workflow = branch.first, request.branch = branch.second;
    request.prompt_tokens = blocks * kBlock + dice_.Int(0, kBlock - 1);
    request.prefix_hashes = life.hashes.data(), request.n_prefix_hashes = life.hashes.size();
    request.prefix_block_tokens = kBlock;
    takt_event event{};
    event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
    Tell(event, branch.first);
  }

  void Tell(const takt_event& event, std::uint64_t workflow) {
    std::erase_if(pinned_, [&](const auto& pin) { return pin.first.first == workflow; });  // the event may end it
    CHECK(takt_scheduler_on(scheduler_, &event, 1, now_) == TAKT_OK);
    Look();
  }

  // A plan, its moves and its results. A row that samples ends with probability `ends`.
  void Step(double ends) {
    now_ = now_ > TAKT_NEVER - kSecond ? TAKT_NEVER : now_ + kSecond / 100;
    if (dice_.Chance(0.01)) now_ = dice_.Of<std::int64_t>({TAKT_NEVER, TAKT_NEVER - 1, now_ / 2});
    latest_ = std::max(latest_, now_);
    for (const std::uint64_t move : std::exchange(moves_, {})) {
      takt_event event{};
      event.type = TAKT_EVENT_MOVE_DONE, event.u.move_done = {move, dice_.Chance(0.1) ? 1u : 0u, 0};
      Tell(event, 0);
    }
    takt_limits limits;
    takt_limits_init(&limits, sizeof limits);
    limits.tokens = 4 * blocks_ * kBlock;
    auto plan = Sized<takt_plan>();
    REQUIRE(takt_scheduler_plan(scheduler_, now_, &limits, &plan) == TAKT_OK);
    for (std::size_t i = 0; i < plan.n_dropped; ++i) CHECK(on_gpu_.erase(plan.dropped[i].hash) == 1);
    for (std::size_t i = 0; i < plan.n_host_chunks; ++i) {
      const takt_host_chunk& c = plan.host_chunks[i];
      CHECK((c.action == TAKT_KV_OUT ? copies_.insert(c.hash).second : copies_.erase(c.hash) == 1));
    }
    for (const takt_move& move : std::span(plan.moves, plan.n_moves)) {
      moves_.push_back(move.id);
      Life& life = lives_.at(move.request);
      life.ran = true;  // its load may fail, so it finds less than planned
      const std::span loads = std::span(life.hashes).subspan(std::size_t(move.first), std::size_t(move.count));
      for (const std::uint64_t hash : loads) CHECK(copies_.contains(hash));
      on_gpu_.insert(loads.begin(), loads.end());
    }
    std::vector<takt_row_result> rows;
    for (const takt_plan_entry& e : std::span(plan.run, plan.n_run)) {
      Life& life = lives_.at(e.request);
      const std::size_t found = std::exchange(life.ran, true) ? 0 : life.Chunks(e.position);
      for (std::size_t c = 0; c < found; ++c) CHECK(on_gpu_.contains(life.hashes[c]));
      for (std::size_t c = 0; c < life.Chunks(e.position + e.tokens); ++c) on_gpu_.insert(life.hashes[c]);
      const bool samples = (e.flags & TAKT_ENTRY_SAMPLES) != 0, over = samples && dice_.Chance(ends);
      rows.push_back({e.request, e.lane, samples, 0, static_cast<std::uint8_t>(over ? TAKT_ROW_FINISHED : 0)});
    }
    for (std::size_t i = 0; i < plan.n_released; ++i) lives_.erase(plan.released[i]);
    const takt_kv_use use = Look();
    CHECK(std::cmp_equal(copies_.size(), use.cpu_cached));
    for (const auto& [branch, held] : pinned_) CHECK(held.pinned_until > latest_);
    if (!rows.empty()) takt_scheduler_commit(scheduler_, plan.id, rows.data(), rows.size(), 0, now_);
    Look();
  }

  // All requests end: then no block is in use.
  void Drain() {
    for (int i = 0; i < 100 && !lives_.empty(); ++i) {
      takt_event event{};
      event.type = TAKT_EVENT_CANCELLED;
      for (const auto& [id, life] : lives_) event.u.request = id, Tell(event, life.branch.first);
      Step(1);
    }
    CHECK(lives_.empty());
    CHECK((Look().used == 0 && Look().cpu_used == 0));
  }

  std::uint64_t Stat(std::string_view name) const {
    const std::vector<takt_stat> all = StatsOf(takt_scheduler_stats, scheduler_);
    return std::ranges::find_if(all, [&](const takt_stat& stat) { return stat.name == name; })->value;
  }
  takt_held Held(Branch branch) const {
    auto held = Sized<takt_held>();
    REQUIRE(takt_scheduler_explain_held(scheduler_, branch.first, branch.second, &held) == TAKT_OK);
    return held;
  }

 private:
  // Blocks add up, no honest tenant pins more than its share, and none loses a pin that is not counted.
  takt_kv_use Look() {
    auto use = Sized<takt_kv_use>();
    REQUIRE(takt_scheduler_kv(scheduler_, &use) == TAKT_OK);
    CHECK((use.total == blocks_ && use.used + use.free == use.total && use.used >= 0));
    CHECK((use.cached >= 0 && use.cached <= use.free && use.cpu_used + use.cpu_cached <= use.cpu_total));
    REQUIRE(takt_scheduler_check(scheduler_, nullptr) == TAKT_OK);
    const std::uint64_t lost = Stat("pins_broken") + Stat("pins_crowded_out");
    std::map<Branch, takt_held> pinned;
    std::map<std::uint64_t, std::int32_t> blocks;  // by tenant; of all: 0
    for (std::uint64_t i = 0; i < 2 * kHonest; ++i) {
      const Branch branch{1 + i / 2, i % 2};
      const takt_held held = Held(branch);
      const bool is = held.tokens > 0 && held.pinned_until != TAKT_UNSET;
      for (const std::uint64_t tenant : {std::uint64_t{0}, 1 + i / 4}) blocks[tenant] += is ? held.tokens / kBlock : 0;
      const bool alive = std::ranges::any_of(lives_, [&](const auto& l) { return l.second.branch == branch; });
      if (is && !alive) pinned[branch] = held;  // else its next request may end it
      const auto was = pinned_.find(branch);
      if (was == pinned_.end() || was->second.pinned_until <= latest_) continue;
      CHECK((lost > lost_ || (is && held.tokens >= was->second.tokens)));
    }
    for (const auto& [tenant, n] : blocks)
      CHECK(n <= (tenant == 0 ? blocks_ / 2 : static_cast<std::int32_t>(blocks_ * pin_share_)));
    pinned_ = std::move(pinned), lost_ = lost;
    return use;
  }

  fire::Dice dice_;
  takt_scheduler* scheduler_ = nullptr;
  std::int32_t blocks_;
  double pin_share_ = 0;
  std::int64_t now_ = 0, latest_ = INT64_MIN;
  std::uint64_t last_id_ = 0, fresh_ = 0, lost_ = 0;
  std::map<std::uint64_t, Life> lives_;
  std::map<Branch, takt_held> pinned_;  // at the last look, of honest tenants
  std::set<std::uint64_t> on_gpu_, copies_;  // chunks; at most these are on the GPU
  std::vector<std::uint64_t> moves_;
};

TEST_CASE("client names of any kind keep counts and others' pins") {
  for (std::int64_t seed = 1; seed <= Scaled(40); ++seed) {
    CAPTURE(seed);
    Host host(static_cast<std::uint64_t>(seed), 40 + static_cast<std::int32_t>(seed * 37 % 260));
    for (int i = 0; i < 400; ++i) host.Act();
    CHECK(host.Stat("holdings_crowded_out") == 0);
    host.Drain();
  }
}

TEST_CASE("66,000 branches of one workflow end their own holdings alone") {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.kv_blocks = 70'000, options.kv_block_tokens = kBlock, options.prefix_cache = 1;
  takt_scheduler* scheduler = nullptr;
  REQUIRE(takt_scheduler_create(&options, &scheduler, nullptr) == TAKT_OK);
  REQUIRE(takt_scheduler_set_retention(scheduler, "lru", nullptr, 0.1, 1, nullptr) == TAKT_OK);
  std::int64_t now = 0;
  std::uint64_t id = 0;
  const auto tell = [&](const takt_event& event) {
    REQUIRE(takt_scheduler_on(scheduler, &event, 1, ++now) == TAKT_OK);
  };
  // Requests of one block each, which run and end in one step. Returns the number of tokens that the last request
  // found.
  const auto run = [&](std::uint64_t workflow, std::uint64_t first, std::uint64_t n) {
    for (std::uint64_t branch = first; branch < first + n; ++branch) {
      const std::uint64_t hash = Mix64(Mix64(workflow) + branch);
      takt_request request;
      takt_request_init(&request, sizeof request);
      request.id = ++id, request.tenant = workflow, request.workflow = workflow, request.branch = branch;
      request.prompt_tokens = kBlock + 1, request.prefix_block_tokens = kBlock;
      request.prefix_hashes = &hash, request.n_prefix_hashes = 1;
      takt_event event{};
      event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
      tell(event);
    }
    takt_limits limits;
    takt_limits_init(&limits, sizeof limits);
    limits.tokens = 1 << 20;
    auto plan = Sized<takt_plan>();
    REQUIRE(takt_scheduler_plan(scheduler, ++now, &limits, &plan) == TAKT_OK);
    REQUIRE(plan.n_run == n);
    std::vector<takt_row_result> rows;
    for (const takt_plan_entry& e : std::span(plan.run, plan.n_run)) {
      rows.push_back({e.request, e.lane, 1, 0, TAKT_ROW_FINISHED});
    }
    const std::int32_t position = plan.run[n - 1].position;
    takt_scheduler_commit(scheduler, plan.id, rows.data(), rows.size(), 0, ++now);
    return position;
  };
  const auto held = [&](std::uint64_t workflow, std::uint64_t branch) {
    auto now_held = Sized<takt_held>();
    REQUIRE(takt_scheduler_explain_held(scheduler, workflow, branch, &now_held) == TAKT_OK);
    return now_held;
  };
  // KV of another tenant, older than all later KV. One turn is pinned, the other is not. Its workflow returns, so the
  // workflow has a share of its own.
  run(1, 0, 1);
  run(1, 1, 1);
  CHECK(run(1, 1, 1) == kBlock);
  takt_event turn{};
  turn.type = TAKT_EVENT_TURN_ENDED;
  turn.u.turn_ended = {1, 0, 0, 0, 0, 0, 0};
  turn.u.turn_ended.expected = TAKT_NEVER, turn.u.turn_ended.pin = TAKT_NEVER;
  tell(turn);
  constexpr std::uint64_t kBranches = 66'000;
  for (std::uint64_t branch = 0; branch < kBranches; branch += 250) run(2, branch, 250);
  std::map<std::string_view, std::uint64_t> stats;
  for (const takt_stat& stat : StatsOf(takt_scheduler_stats, scheduler)) stats[stat.name] = stat.value;
  CHECK(stats.at("holdings_crowded_out") == kBranches + 2 - 65'536);
  CHECK(stats.at("pins_crowded_out") == 0);
  CHECK(held(1, 0).pinned_until == TAKT_NEVER);
  CHECK(held(1, 1).tokens == kBlock);
  CHECK(held(2, 0).tokens == 0);
  CHECK(held(2, kBranches - 1).tokens == kBlock);
  CHECK(run(1, 1, 1) == kBlock);  // a hit
  takt_scheduler_destroy(scheduler);
}

}  // namespace
}  // namespace takt
