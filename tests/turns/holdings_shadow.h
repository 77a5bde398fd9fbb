// A model of a prefix cache that keeps every chunk. It scans all of them for every victim.
#ifndef TAKT_TESTS_TURNS_HOLDINGS_SHADOW_H_
#define TAKT_TESTS_TURNS_HOLDINGS_SHADOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/turns/holdings.h"

namespace takt {

using Hashes = std::vector<std::uint64_t>;
inline constexpr std::int32_t kBlocks = 2, kBlockTokens = 512;

inline TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// Continues from another prompt, as the seed decides.
inline Hashes GoOn(Hashes prompt, std::size_t more, std::uint64_t seed) {
  for (std::size_t i = 0; i < more; ++i) prompt.push_back(Mix64((prompt.empty() ? 0 : prompt.back()) ^ Mix64(seed)));
  return prompt;
}
inline std::span<const std::uint64_t> First(const Hashes& hashes, std::int32_t n) {
  return std::span(hashes).first(static_cast<std::size_t>(n));
}

using Branch = std::pair<std::uint64_t, std::uint64_t>;

template <class Policy>
struct Shadow {
  struct Chunk {
    std::uint64_t before = 0;
    std::int32_t depth = 0, references = 0;
    std::set<Branch> holders = {};
    bool loose = false, spoiled = false;
    bool copied = false;  // the next tier has it, as of the last release
    TimePoint used = {};
    std::uint64_t stamp = 0;
  };
  struct Record {
    Hashes path = {};
    std::uint32_t return_class = 0;
    std::int32_t uses = 0;
    TimePoint since = {};
    bool awaited = false;
    std::int32_t context = 0;
    TenantId tenant = {};
    TimePoint pinned_until = kUnset;
    std::int32_t pinned = 0;  // blocks
  };
  Policy policy;
  std::map<std::uint64_t, Chunk> chunks = {};
  std::map<Branch, Record> records = {};
  std::uint64_t stamp = 0;
  std::int32_t most_of_one = 0, most_of_all = 0;  // limits of pinned blocks

  std::int32_t Find(const Hashes& prompt) const {
    std::int32_t n = 0;
    for (const std::uint64_t hash : prompt) {
      const auto chunk = chunks.find(hash);
      if (chunk == chunks.end() || chunk->second.spoiled) break;
      ++n;
    }
    return n;
  }
  bool Leaf(std::uint64_t hash) const {
    return std::none_of(chunks.begin(), chunks.end(), [&](const auto& c) { return c.second.before == hash; });
  }
  void Drop(std::uint64_t hash) {
    for (auto r = records.begin(); r != records.end();) {
      if (!r->second.path.empty() && r->second.path.back() == hash) r->second.path.pop_back();
      r = r->second.path.empty() ? records.erase(r) : std::next(r);
    }
    chunks.erase(hash);
  }
  void End(const Branch& branch) {
    if (!records.contains(branch)) return;
    for (const std::uint64_t hash : records[branch].path) chunks[hash].holders.erase(branch);
    records.erase(branch);
  }
  void Release(std::span<const std::uint64_t> path, const HeldTurn& turn, TimePoint now, std::int32_t copied = 0) {
    ++stamp;
    for (const std::uint64_t hash : path) {
      Chunk& c = chunks[hash];
      --c.references, c.used = now, c.stamp = stamp, c.loose |= !turn.workflow && !turn.over;
      c.copied = c.depth < copied;
    }
    if (turn.workflow) {
      const Branch branch = {turn.workflow.value, turn.branch};
      const std::int32_t uses = records.contains(branch) ? records[branch].uses : 0;
      End(branch);
      if (!turn.over && !path.empty()) {
        records[branch] = {Hashes(path.begin(), path.end()),
                           turn.return_class,
                           uses + 1,
                           now,
                           false,
                           static_cast<std::int32_t>(path.size()) * kBlocks * kBlockTokens,
                           turn.tenant};
        for (const std::uint64_t hash : path) chunks[hash].holders.insert(branch);
        if (turn.pinned_until > now) Pin(branch, turn.pinned_until);
      }
    }
    for (std::size_t i = path.size(); i-- > 0;) {
      if (chunks[path[i]].spoiled && chunks[path[i]].references == 0 && Leaf(path[i])) Drop(path[i]);
    }
  }
  bool NothingKept() const {
    return std::ranges::none_of(records,
                                [](const auto& r) { return r.second.awaited || r.second.pinned_until != kUnset; });
  }
  bool Pin(const Branch& branch, TimePoint until) {
    if (!records.contains(branch)) return true;
    Record& r = records[branch];
    r.pinned_until = kUnset;
    if (until == kUnset || r.awaited) return true;
    const auto blocks = static_cast<std::int32_t>(r.path.size()) * kBlocks;
    std::int32_t of_one = blocks, of_all = blocks;
    for (const auto& [other, record] : records) {
      if (record.pinned_until == kUnset) continue;
      of_all += record.pinned;
      of_one += record.tenant == r.tenant ? record.pinned : 0;
    }
    if (of_one > most_of_one || of_all > most_of_all) return false;
    r.pinned_until = until, r.pinned = blocks;
    return true;
  }
  // The chunk and all that follow it.
  std::set<std::uint64_t> From(std::uint64_t top) const {
    std::set<std::uint64_t> found = {top};
    for (std::size_t before = 0; before != found.size();) {
      before = found.size();
      for (const auto& [hash, c] : chunks) {
        if (found.contains(c.before)) found.insert(hash);
      }
    }
    return found;
  }
  void Spoil(const std::set<std::uint64_t>& lost) {
    for (const std::uint64_t hash : lost) chunks[hash].spoiled = true;
    for (bool more = true; more;) {
      more = false;
      for (const std::uint64_t hash : lost) {
        if (!chunks.contains(hash) || chunks[hash].references > 0 || !Leaf(hash)) continue;
        Drop(hash);
        more = true;
      }
    }
  }

  struct Order {
    HeldTier tier;
    std::size_t list;
    double value;
    std::uint64_t stamp;
  };
  Order OrderOf(const Chunk& c, TimePoint now) const {
    Held held = {.uses = static_cast<std::int32_t>(c.holders.size()) + c.loose,
                 .since = c.used,
                 .tokens = (c.depth + 1) * kBlocks * kBlockTokens,
                 .block_tokens = kBlockTokens,
                 .copied = c.copied};
    const bool awaited =
        std::any_of(c.holders.begin(), c.holders.end(), [&](const Branch& b) { return records.at(b).awaited; });
    if (held.uses == 1 && !c.loose) {
      const Branch& branch = *c.holders.begin();
      const Record& r = records.at(branch);
      held.workflow = {branch.first}, held.branch = branch.second;
      held.return_class = r.return_class, held.uses = r.uses, held.context = r.context;
    }
    const bool pinned = std::any_of(c.holders.begin(), c.holders.end(),
                                    [&](const Branch& b) { return records.at(b).pinned_until != kUnset; });
    if (held.uses == 0) return {HeldTier::kDead, 0, 0, c.stamp};
    Order order = {awaited ? HeldTier::kAwaited : pinned ? HeldTier::kPinned : HeldTier::kHeld, 0, 0, c.stamp};
    order.value = policy.Value(held, now);
    if constexpr (AwaitedRetention<Policy>) {
      if (awaited || pinned) order.value = policy.AwaitedValue(held);
    }
    if constexpr (ListedRetention<Policy>) {
      if (!awaited && !pinned) order.list = policy.List(held);
    }
    return order;
  }
  // The next victim and its value.
  std::optional<std::pair<std::uint64_t, double>> Next(TimePoint now) const {
    std::map<std::tuple<HeldTier, std::size_t>, std::pair<std::uint64_t, Order>> heads;
    std::set<std::uint64_t> inner;
    for (const auto& [hash, c] : chunks) inner.insert(c.before);
    const auto held_first = [](const Order& a, const Order& b) {
      return std::tuple(a.value, a.stamp) < std::tuple(b.value, b.stamp);
    };
    for (const auto& [hash, c] : chunks) {
      if (c.references > 0 || inner.contains(hash)) continue;
      const Order order = OrderOf(c, now);
      const auto [head, first] = heads.try_emplace({order.tier, order.list}, hash, order);
      const Order& other = head->second.second;
      const bool scanned = !ListedRetention<Policy> && order.tier == HeldTier::kHeld;
      if (scanned ? held_first(order, other) : order.stamp < other.stamp) head->second = {hash, order};
    }
    if (heads.empty()) return std::nullopt;
    const auto best = std::min_element(heads.begin(), heads.end(), [&](const auto& a, const auto& b) {
      const Order &x = a.second.second, &y = b.second.second;
      if (x.tier != y.tier) return x.tier < y.tier;
      return held_first(x, y);
    });
    return std::pair(best->second.first, best->second.second.value);
  }
};

}  // namespace takt

#endif  // TAKT_TESTS_TURNS_HOLDINGS_SHADOW_H_
