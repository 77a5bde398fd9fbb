// Applies a retention policy to tree nodes: gives each node a line (a list of eviction candidates) and a value.
#ifndef TAKT_TURNS_APPRAISER_H_
#define TAKT_TURNS_APPRAISER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/count.h"
#include "takt/base/time.h"
#include "takt/turns/held.h"
#include "takt/turns/holding_table.h"
#include "takt/turns/prefix_node.h"
#include "takt/turns/retention/any_retention.h"

namespace takt::internal {

// Lists of eviction candidates: dead nodes, the policy's lists (one if there are none), pinned nodes, awaited nodes.
inline constexpr std::size_t kDeadLine = 0, kFirstList = 1, kPinnedLine = kFirstList + AnyRetention::kLists,
                             kAwaitedLine = kPinnedLine + 1, kLines = kAwaitedLine + 1;

// The nodes of the prefix tree, and the holdings whose paths contain them.
struct CacheView {
  PrefixNodes& nodes;
  const HoldingTable& holdings;
};

// Invariant: a line depends only on the policy, the node and the record of its only holder. A value also depends on
// time. The node is appraised as if it ended before chunk `end`.
class Appraiser {
 public:
  explicit Appraiser(AnyRetention policy, Tokens block_tokens)
      : policy_(std::move(policy)), block_tokens_(std::max(block_tokens.value, 1)) {}

  const AnyRetention& policy() const { return policy_; }
  void SetPolicy(AnyRetention policy) { policy_ = std::move(policy); }
  // Returns true if the policy has lists. Without lists, nodes are ranked by value.
  bool listed() const { return policy_.listed(); }
  // Returns true if the time has changed, which may change values.
  bool SetNow(TimePoint now) { return now != std::exchange(now_, now); }

  std::int32_t TokensOf(const PrefixNode& node, std::int32_t chunks) const {
    return chunks * node.blocks * block_tokens_;
  }

  Held HeldOf(CacheView cache, const PrefixNode& node, std::int32_t end) const {
    Held held = {.uses = node.holders + (node.loose ? 1 : 0),
                 .since = node.used,
                 .tokens = TokensOf(node, end),
                 .block_tokens = block_tokens_,
                 .copied = node.copied >= end};
    if (held.uses != 1 || node.loose) return held;
    const HoldingRecord& record = cache.holdings[node.holder];
    held.workflow = record.name.workflow;
    held.branch = record.name.branch;
    held.return_class = record.return_class;
    held.uses = record.uses;
    held.context = record.tokens;
    if (record.awaited) held.awaited = record.awaited_since;
    return held;
  }

  static HeldTier TierOf(const PrefixNode& node) {
    if (node.awaited > 0) return HeldTier::kAwaited;
    if (node.pinned > 0) return HeldTier::kPinned;
    return node.holders > 0 || node.loose ? HeldTier::kHeld : HeldTier::kDead;
  }

  std::size_t LineOf(CacheView cache, const PrefixNode& node, std::int32_t end) const {
    const HeldTier tier = TierOf(node);
    if (tier == HeldTier::kDead) return kDeadLine;
    if (tier != HeldTier::kHeld) return tier == HeldTier::kPinned ? kPinnedLine : kAwaitedLine;
    if (!listed()) return kFirstList;
    return kFirstList + std::min(policy_.List(HeldOf(cache, node, end)), AnyRetention::kLists - 1);
  }

  double ValueOf(CacheView cache, const PrefixNode& node, std::int32_t end) const {
    const HeldTier tier = TierOf(node);
    if (tier == HeldTier::kDead) return 0;
    const Held held = HeldOf(cache, node, end);
    if (tier >= HeldTier::kPinned && policy_.awaits()) return policy_.AwaitedValue(held);
    const double value = policy_.Value(held, now_);
    return value == value ? value : 0;
  }

 private:
  AnyRetention policy_;
  std::int32_t block_tokens_;
  TimePoint now_ = {};
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_APPRAISER_H_
