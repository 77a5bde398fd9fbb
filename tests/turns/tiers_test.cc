// A ledger with a tier in the host's memory, against two shadows that keep every chunk.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "catch.h"
#include "turns/holdings_shadow.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/kv/kv_ledger.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lru.h"

namespace takt {
namespace {

struct Running {
  Hashes prompt;
  std::int32_t shared = 0;  // chunks in the GPU's memory
  std::int32_t pinned = 0;  // chunks whose copies are being loaded
  std::int32_t own = 0;  // blocks
  HeldTurn turn;
};

// A ledger with two tiers of these sizes.
template <class Policy>
struct Tiers {
  Shadow<Policy> gpu, host;
  std::int32_t blocks = 0, cpu = 0, copies = 0;
  std::int32_t own = 0, swapped = 0;
  std::vector<DroppedPrefix> dropped = {};
  std::vector<HostChunk> reported = {};

  static std::int32_t Blocks(const Shadow<Policy>& tier, bool referenced) {
    const auto counts = [&](const auto& c) { return (c.second.references > 0) == referenced; };
    return kBlocks * static_cast<std::int32_t>(std::ranges::count_if(tier.chunks, counts));
  }
  std::int32_t Free() const { return blocks - own - Blocks(gpu, true); }
  std::int32_t CopyRoom() const {
    return std::min(copies, cpu - swapped) - kBlocks * static_cast<std::int32_t>(host.chunks.size());
  }

  void Trim(TimePoint now) {
    while (Blocks(gpu, false) > Free()) {
      const std::uint64_t hash = gpu.Next(now)->first;
      dropped.push_back({hash, {kBlocks}});
      gpu.Drop(hash);
    }
  }
  // Chunks that have left the tier.
  template <class F>
  void Host(F&& f) {
    std::set<std::uint64_t> before;
    for (const auto& [hash, c] : host.chunks) before.insert(hash);
    f();
    for (const std::uint64_t hash : before) {
      if (host.chunks.contains(hash)) continue;
      gone.insert(hash);
      if (gpu.chunks.contains(hash)) gpu.chunks[hash].copied = false;
    }
  }
  void MakeRoom(std::int32_t lack, TimePoint now) {
    for (; lack > 0; lack -= kBlocks) {
      const auto next = host.Next(now);
      if (!next) return;
      reported.push_back({next->first, {kBlocks}, KvAction::kDrop});
      Host([&] { host.Drop(next->first); });
      gone.clear();
    }
  }
  void Release(const Running& r, TimePoint now) {
    const auto path = First(r.prompt, r.shared);
    std::int32_t there = 0;
    if (r.turn.over) {
      host.End({r.turn.workflow.value, r.turn.branch});
      there = host.Find({path.begin(), path.end()});
    } else {
      const std::int32_t good = gpu.Find({path.begin(), path.end()});
      there = host.Find({path.begin(), path.begin() + good});
      for (std::int32_t i = 0; i < there; ++i) ++host.chunks[path[static_cast<std::size_t>(i)]].references;
      MakeRoom((good - there) * kBlocks - CopyRoom(), now);
      for (; there < good && CopyRoom() >= kBlocks; ++there) {
        const auto i = static_cast<std::size_t>(there);
        if (host.chunks.contains(path[i])) break;  // lost while being loaded
        if (i > 0 && host.chunks[path[i - 1]].spoiled) break;
        host.chunks[path[i]] = {.before = i > 0 ? path[i - 1] : 0, .depth = there, .references = 1};
        reported.push_back({path[i], {kBlocks}, KvAction::kOut});
      }
      Host([&] { host.Release(path.first(static_cast<std::size_t>(there)), r.turn, now); });
    }
    gpu.Release(path, r.turn, now, there);
  }
  std::set<std::uint64_t> gone = {};  // from the host's memory, in any order
};

// Loaded chunks.
template <class Policy>
std::int64_t Compare(const Policy& policy, std::uint64_t seed, std::int64_t steps) {
  Random random(seed);
  const auto any = [&](std::int32_t most) {
    return static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(most)));
  };
  Tiers<Policy> model{{policy}, {policy}, 60 + any(60)};
  model.cpu = 40 + any(300);
  model.copies = 20 + any(model.cpu - 20);
  internal::KvLedger ledger({model.blocks}, {kBlockTokens}, {model.cpu}, true, {model.copies});
  ledger.KeyHashes(seed);
  ledger.SetPolicy(policy);
  std::vector<Running> running;
  std::vector<std::int32_t> swapped;
  std::map<Branch, Hashes> last;
  std::vector<Hashes> heads;
  for (std::uint64_t i = 0; i < 3; ++i) heads.push_back(GoOn({}, 2 + 2 * i, 100 + i));
  double clock = 0;
  std::int64_t loaded = 0;
  const auto any_branch = [&] { return Branch{1 + random.Below(8), random.Below(2)}; };
  for (std::int64_t step = 0; step < steps; ++step) {
    clock += random.Chance(0.3) ? 0 : random.LogNormal(1, 2);
    const TimePoint now = At(clock);
    ledger.SetNow(now);
    CAPTURE(seed, step);
    const std::uint64_t what = random.Below(100);
    if (what < 35 && running.size() < 4) {  // a turn begins
      const Branch branch = any_branch();
      Hashes prompt = last[branch];
      if (prompt.empty() || random.Chance(0.05)) prompt = heads[random.Below(3)];
      if (random.Chance(0.2)) prompt.resize(random.Below(prompt.size() + 1));
      const std::size_t more = random.Below(8);
      prompt = GoOn(std::move(prompt), more, random.Below(4));
      if (prompt.size() > 25) prompt.resize(25);
      const internal::PrefixHit hit = ledger.Find(prompt, kBlocks);
      REQUIRE(hit.chunks == model.gpu.Find(prompt));
      const std::int32_t copies = ledger.FindCopies(prompt, kBlocks);
      REQUIRE(copies == model.host.Find(prompt));
      const std::int32_t need = static_cast<std::int32_t>(prompt.size()) * kBlocks;
      if (need - (hit.chunks - hit.idle) * kBlocks > ledger.free()) continue;
      last[branch] = prompt;
      Running r = {std::move(prompt),
                   hit.chunks,
                   0,
                   need - hit.chunks * kBlocks,
                   {{branch.first}, branch.second, static_cast<std::uint32_t>(random.Below(5)), random.Chance(0.05)}};
      if (random.Chance(0.1)) r.turn.workflow = {};
      ledger.Acquire(First(r.prompt, r.shared), kBlocks);
      for (const std::uint64_t hash : First(r.prompt, r.shared)) ++model.gpu.chunks[hash].references;
      if (copies > r.shared) {
        r.pinned = copies;
        ledger.PinCopies(First(r.prompt, copies), kBlocks);
        for (const std::uint64_t hash : First(r.prompt, copies)) ++model.host.chunks[hash].references;
      }
      ledger.Allocate(r.own);
      model.own += r.own;
      model.Trim(now);
      running.push_back(std::move(r));
    } else if (what < 60 && !running.empty()) {  // a load ends, or chunks are computed
      Running& r = running[random.Below(running.size())];
      std::int32_t publishes = static_cast<std::int32_t>(random.Below(12));
      if (const std::int32_t pinned = std::exchange(r.pinned, 0); pinned > 0) {
        const bool fails = random.Chance(0.1);
        const auto path = First(r.prompt, pinned);
        const std::int32_t good = model.host.Find({path.begin(), path.end()});
        publishes = fails ? 0 : pinned - r.shared;
        loaded += publishes;
        if (fails) {
          ledger.SpoilCopies(path, r.shared, kBlocks);
          if (r.shared < good) {
            model.Host([&] { model.host.Spoil(model.host.From(path[static_cast<std::size_t>(r.shared)])); });
          }
        }
        ledger.UnpinCopies(path, kBlocks);
        model.Host([&] { model.host.Release(path, {.over = true}, now); });
      }
      for (; publishes > 0 && r.shared < static_cast<std::int32_t>(r.prompt.size()); --publishes) {
        const std::uint64_t hash = r.prompt[static_cast<std::size_t>(r.shared)];
        const std::uint64_t before = r.shared == 0 ? 0 : r.prompt[static_cast<std::size_t>(r.shared - 1)];
        const bool fresh = !model.gpu.chunks.contains(hash) && (before == 0 || !model.gpu.chunks[before].spoiled);
        REQUIRE(ledger.Publish(First(r.prompt, r.shared + 1), kBlocks) == fresh);
        if (!fresh) break;
        model.gpu.chunks[hash] = {.before = before, .depth = r.shared, .references = 1};
        model.own -= kBlocks, r.own -= kBlocks;
        ++r.shared;
      }
    } else if (what < 80 && !running.empty()) {  // a turn ends
      const std::size_t i = random.Below(running.size());
      const Running& r = running[i];
      if (r.pinned > 0) continue;
      ledger.Release(First(r.prompt, r.shared), kBlocks, r.turn);
      model.Release(r, now);
      ledger.Free(r.own);
      model.own -= r.own;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (what < 86) {
      const Branch branch = any_branch();
      const bool awaited = random.Chance(0.5);
      ledger.Await({branch.first}, branch.second, awaited);
      for (auto* tier : {&model.gpu, &model.host}) {
        if (tier->records.contains(branch)) tier->records[branch].awaited = awaited;
      }
    } else if (what < 89) {
      const Branch branch = any_branch();
      const auto return_class = static_cast<std::uint32_t>(random.Below(5));
      ledger.SetClass({branch.first}, branch.second, return_class);
      for (auto* tier : {&model.gpu, &model.host}) {
        if (tier->records.contains(branch)) tier->records[branch].return_class = return_class;
      }
    } else if (what < 91) {
      const Branch branch = any_branch();
      ledger.End({branch.first}, branch.second);
      for (auto* tier : {&model.gpu, &model.host}) tier->End(branch);
    } else if (what < 92 && !running.empty() && random.Chance(0.3)) {  // a running request loses KV in both tiers
      Running& r = running[random.Below(running.size())];
      if (r.shared == 0) continue;
      const std::int32_t first = any(r.shared);
      const auto path = First(r.prompt, r.shared);
      const std::int32_t there = model.host.Find({path.begin(), path.end()});
      ledger.Spoil(path, first, kBlocks);
      model.gpu.Spoil(model.gpu.From(path[static_cast<std::size_t>(first)]));
      if (first < there) model.Host([&] { model.host.Spoil(model.host.From(path[static_cast<std::size_t>(first)])); });
    } else if (what < 93 && random.Chance(0.05)) {
      ledger.SpoilAll();
      for (auto* tier : {&model.gpu, &model.host}) {
        std::set<std::uint64_t> all;
        for (const auto& [hash, c] : tier->chunks) all.insert(hash);
        model.Host([&] { tier->Spoil(all); });
      }
    } else if (what < 97) {  // something is swapped out
      if (const std::int32_t n = 1 + any(40); n <= ledger.cpu_free()) {
        ledger.AllocateCpu(n);
        swapped.push_back(n);
        model.swapped += n;
        model.MakeRoom(-model.CopyRoom(), now);
      }
    } else if (!swapped.empty()) {
      ledger.FreeCpu(swapped.back());
      model.swapped -= swapped.back();
      swapped.pop_back();
    }
    // Chunks that leave the host's memory by themselves are reported in any order.
    std::vector<HostChunk> reported;
    for (const HostChunk& chunk : ledger.host_chunks()) {
      if (chunk.action != KvAction::kDrop || model.gone.erase(chunk.hash) == 0) reported.push_back(chunk);
    }
    REQUIRE(model.gone.empty());
    REQUIRE(reported == model.reported);
    ledger.host_chunks().clear(), model.reported.clear();
    if (what < 35) REQUIRE(ledger.dropped() == model.dropped);
    ledger.dropped().clear(), model.dropped.clear();
    REQUIRE(ledger.free() == model.Free());
    REQUIRE(ledger.idle() == model.Blocks(model.gpu, false));
    REQUIRE(ledger.copies()->referenced() == model.Blocks(model.host, true));
    REQUIRE(ledger.copies()->idle() == model.Blocks(model.host, false));
    REQUIRE(ledger.copies()->holdings() == model.host.records.size());
    REQUIRE(ledger.cpu_cached() <= model.copies);
    REQUIRE(ledger.cpu_cached() + model.swapped <= model.cpu);
  }
  return loaded;
}

TEST_CASE("two tiers hold, evict and report as their shadows") {
  const std::int64_t steps = Scaled(3'000);
  std::int64_t loaded = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    loaded += Compare(Lru{}, seed, steps);
    loaded += Compare(HoldValue{}, 100 + seed, steps);
    // A load costs more than to compute the first tokens.
    loaded += Compare(HoldValue{.load_ms = 0.05}, 200 + seed, steps);
  }
  CHECK(loaded > steps / 4);
}

TEST_CASE("a call that copies chunks and drops them again has room") {
  internal::KvLedger ledger({100}, {4}, {3}, true, {3});
  ledger.MakeRoomToCopy(3);
  CHECK(ledger.copies()->dropped().capacity() >= 3);
}

}  // namespace
}  // namespace takt
