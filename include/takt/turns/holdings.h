// Which prompts are in the KV cache, by the workflows whose turns left them there, and which blocks go first.
#ifndef TAKT_TURNS_HOLDINGS_H_
#define TAKT_TURNS_HOLDINGS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/branch_table.h"
#include "takt/base/random.h"
#include "takt/base/skew_heap.h"
#include "takt/base/slot_table.h"
#include "takt/base/time_heap.h"
#include "takt/config.h"
#include "takt/turns/held.h"
#include "takt/model/step.h"

namespace takt {

// Whose turn it was that used blocks, and what it has ended with.
struct HeldTurn {
  WorkflowId workflow = {};  // none: its blocks are nobody's, and go by their age alone
  std::uint64_t branch = 0;  // of the workflow: its main line, its sub-agents
  std::uint32_t its_class = 0;
  bool over = false;  // nothing comes after it: it holds nothing
  TenantId tenant = {};
  TimePoint pinned_until = kUnset;  // unset: no pin
};

namespace internal {

// What is there of a prompt.
struct PrefixHit {
  std::int32_t chunks = 0;  // leading chunks that are there
  std::int32_t idle = 0;  // of these, how many no request refers to now
};

// A tree of prompts. A chunk is so many blocks, and is named by the hash of itself and all before it. Chunks in a row
// that the same requests and the same workflows use are one node, so that a prompt of thousands of chunks is a path of
// few nodes. What has no node below it and is used by no running request can go, from its end: what is there is closed
// under prefixes, and a look-up is a binary search.
//
// When a turn of a workflow's branch ends, its blocks are the branch's holding. Those that its last turn had held and
// this one does not are dead, unless others hold them, and go first. Blocks in several workflows' contexts count once,
// stay as long as one of these has blocks behind them here, and then go by the age of their last use by anyone, as of
// an unknown class.
//
// What a host has pinned goes after all that it has not, the longest unused first. A tenant's pins are bounded, and so
// are those of all; more are refused.
//
// Victims: a list per class and power of two of the cost (RetentionPolicy), ordered by the turn that used them last; an
// eviction compares the heads. A policy without lists has one heap by value, which is built once a call of the host's.
// So a call that evicts n blocks, in one go or one by one, costs O(n log n). Nothing is allocated but where there is
// more than ever before.
//
// Holdings are at most kMostHoldings, or what BoundHoldings says. Of more, one is taken to be over (crowded_out): of
// the largest share of BranchTable that whose last turn ended first, pinned ones last. So a tenant that floods the
// table ends holdings of its own, and workflows that never come back cost no more, though what they hold is others' too
// and stays.
//
// A contract of hosts: equal hashes mean equal prefixes. Where a host breaks it, hits are wrong and nothing else.
template <RetentionPolicy Policy>
class BasicHoldings {
 public:
  using Victim = HeldVictim;

  static constexpr std::size_t kMostHoldings = 65536;

  explicit BasicHoldings(Policy policy = {}, Tokens block_tokens = {16})
      : policy_(std::move(policy)), block_tokens_(std::max(block_tokens.value, 1)) {}

  void KeyHashes(std::uint64_t seed) {
    chunks_.KeyHashes(seed), holdings_.KeyHashes(Mix64(seed)), pinning_.KeyHashes(Mix64(seed + 3));
  }

  // Room for n more chunks, and for n more holdings, without allocation; grows by doubling.
  void MakeRoom(std::size_t n) {
    Grow(chunks_, n);
    Grow(nodes_, n + 1);  // every node has a chunk; a split takes one before it has given one
    MakeRoomFor(policy_);
    if (stack_.capacity() >= nodes_.capacity()) return;
    stack_.reserve(nodes_.capacity());
    taken_.reserve(nodes_.capacity() * kMostParts);
  }
  void MakeRoomToHold(std::size_t n) {
    holdings_.MakeRoom(n);
    pins_.Reserve(holdings_.capacity());
    if (tips_.capacity() < holdings_.capacity()) tips_.Reserve(holdings_.capacity());
    if (pinning_.capacity() < holdings_.capacity()) pinning_.Reserve(holdings_.capacity());
  }

  const Policy& policy() const { return policy_; }
  // SetPolicy of this policy allocates nothing.
  void MakeRoomFor(const Policy& policy) {
    if (Listed(policy) || scan_.capacity() >= 2 * nodes_.capacity()) return;
    scan_.reserve(2 * nodes_.capacity());
    popped_.reserve(2 * nodes_.capacity());
  }
  // Another order from here on: all that could go is listed anew. O(n log n).
  void SetPolicy(Policy policy) {
    MakeRoomFor(policy);
    BeginCall();
    stack_.clear();
    for (std::size_t i = 1; i < kPinnedLine; ++i) {
      for (Slot n = lines_[i].oldest; n != kNoSlot; n = nodes_[n].age.newer) stack_.push_back(n);
      std::size_t next = stack_.size();
      if (lines_[i].strays != kNoSlot) stack_.push_back(lines_[i].strays);
      for (; next < stack_.size(); ++next) {
        const HeapLink link = nodes_[stack_[next]].stray;
        for (const Slot n : {link.left, link.right}) {
          if (n != kNoSlot) stack_.push_back(n);
        }
      }
    }
    std::ranges::sort(stack_, {}, [this](Slot n) { return nodes_[n].stamp; });  // each is its line's newest then
    for (const Slot n : stack_) Unlist(n);
    policy_ = std::move(policy);
    for (const Slot n : stack_) Relist(n);
  }

  // What the policy reads may have changed since: times, curves.
  void BeginCall() { scanned_ = false; }

  std::int32_t referenced() const { return referenced_; }  // blocks that a request refers to
  std::int32_t idle() const { return idle_; }  // blocks that could go
  std::uint64_t uses() const { return uses_; }  // times that unused chunks came into use
  std::size_t chunks() const { return chunks_.size(); }
  std::size_t capacity() const { return chunks_.capacity(); }
  std::size_t holdings() const { return holdings_.size(); }
  // Maximum holdings: at most kMostHoldings.
  void BoundHoldings(std::size_t most) { most_holdings_ = std::clamp<std::size_t>(most, 1, kMostHoldings); }

  // --- Prompts. All hashes of one call are those of chunks of `blocks` blocks each, from the first one on. ---

  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    const std::int32_t found = Search(hashes, blocks);
    PrefixHit hit{found, 0};
    if (found == 0) return hit;
    Slot n = chunks_[chunks_.Find(NameOf(hashes[Index(found - 1)], blocks))].node;
    std::int32_t end = found;
    for (; n != kNoSlot && nodes_[n].references == 0; n = nodes_[n].parent) {
      hit.idle += end - nodes_[n].first;
      end = nodes_[n].first;
    }
    return hit;
  }

  // A request refers to chunks that Find has found.
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    if (hashes.empty()) return;
    Split(chunks_.Find(NameOf(hashes.back(), blocks)));
    for (Slot n = NodeOf(hashes, blocks); n != kNoSlot; n = nodes_[n].parent) {
      Node& node = nodes_[n];
      if (node.references++ > 0) continue;
      Unlist(n);
      idle_ -= node.all_blocks();
      referenced_ += node.all_blocks();
      ++uses_;
    }
  }

  // The last of the hashes becomes a chunk with one reference, of the request that refers to those before it; false
  // where it is there already.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    const auto depth = static_cast<std::int32_t>(hashes.size()) - 1;
    const std::uint64_t name = NameOf(hashes.back(), blocks);
    if (chunks_.Find(name) != kNoSlot) return false;
    Slot before = kNoSlot, n = kNoSlot;
    if (depth > 0) {
      before = chunks_.Find(NameOf(hashes[Index(depth - 1)], blocks));
      if (before == kNoSlot || chunks_[before].depth != depth - 1) return false;
      n = chunks_[before].node;
      if (nodes_[n].spoiled || nodes_[n].references == 0) return false;
      Split(before);
      n = chunks_[before].node;
    }
    if (n == kNoSlot || !GrowsInPlace(nodes_[n], blocks)) n = NewNode(n, depth, blocks);
    const Slot chunk = chunks_.Insert(name, {name, before, n, depth});
    nodes_[n].last = chunk;
    ++nodes_[n].end;
    referenced_ += blocks;
    ++uses_;
    return true;
  }

  // A request gives its chunks back: its turn has ended, or it was preempted. They become the holding of the turn's
  // branch, in place of what that had. The next tier has a copy of the first `copied` of them.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn, TimePoint now,
               std::int32_t copied = 0) {
    const Slot tip = hashes.empty() ? kNoSlot : NodeOf(hashes, blocks);
    ++stamp_;
    const bool loose = !turn.workflow && !turn.over;
    for (Slot n = tip; n != kNoSlot; n = nodes_[n].parent) {
      Node& node = nodes_[n];
      node.used = now, node.stamp = stamp_, node.copied = copied;
      node.loose |= loose;
      if (--node.references > 0) continue;
      referenced_ -= node.all_blocks();
      idle_ += node.all_blocks();
    }
    if (turn.workflow && turn.over) End(turn.workflow, turn.branch);
    if (turn.workflow && !turn.over) Hold(turn, tip, now);
    Slot left = tip;
    while (left != kNoSlot && nodes_[left].spoiled && CanGo(nodes_[left])) left = Shrink(left, 0);
    if (left != tip || tip == kNoSlot) return;  // Shrink has put what is left into its list
    Relist(left);
    while (left != kNoSlot && MergesUp(left)) left = MergeUp(left);
  }

  // What is in the chunks from `first` on, to which a request refers, is lost, and all that follows them: they are
  // found no more.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
    if (first >= static_cast<std::int32_t>(hashes.size())) return;
    if (first > 0) Split(chunks_.Find(NameOf(hashes[Index(first - 1)], blocks)));
    const Slot top = chunks_[chunks_.Find(NameOf(hashes[Index(first)], blocks))].node;
    stack_.assign(1, top);
    for (std::size_t i = 0; i < stack_.size(); ++i) {  // those above come before those below
      nodes_[stack_[i]].spoiled = true;
      for (Slot c = nodes_[stack_[i]].child; c != kNoSlot; c = nodes_[c].siblings.newer) stack_.push_back(c);
    }
    for (std::size_t i = stack_.size(); i-- > 0;) {
      if (CanGo(nodes_[stack_[i]])) Shrink(stack_[i], 0);
    }
  }
  // The same of all chunks that are there.
  void SpoilAll() {
    // What comes to light under others may go into any line.
    for (std::size_t i = 0; i < kLines;) {
      if (!Has(filled_, i)) ++i;
      else Shrink(lines_[i].oldest != kNoSlot ? lines_[i].oldest : lines_[i].strays, 0), i = 0;
    }
    for (Slot n = 0; n < nodes_.slots(); ++n) nodes_[n].spoiled |= nodes_[n].chunks() > 0;
  }

  // The next tier has this chunk no more.
  void Uncopy(std::uint64_t hash, std::int32_t blocks) {
    const Slot c = chunks_.Find(NameOf(hash, blocks));
    if (c == kNoSlot) return;
    Node& node = nodes_[chunks_[c].node];
    if (node.copied <= chunks_[c].depth) return;
    node.copied = chunks_[c].depth;
    if (CanGo(node)) Relist(chunks_[c].node);
  }

  // --- Workflows. Names that hold nothing here are harmless. ---

  // Told late, or anew: what the last turn has ended with.
  void SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t its_class) {
    const Slot h = holdings_.Find(workflow, branch);
    if (h == kNoSlot) return;
    holdings_[h].its_class = its_class;
    Relist(TipOf(holdings_[h]));
  }

  // Its next turn waits here, or does not after all. A turn that ends is not awaited.
  void Await(WorkflowId workflow, std::uint64_t branch, bool awaited, TimePoint now = {}) {
    const Slot h = holdings_.Find(workflow, branch);
    if (h == kNoSlot || holdings_[h].awaited == awaited) return;
    Unpin(h);
    holdings_[h].awaited = awaited;
    holdings_[h].awaited_since = now;
    for (Slot n = TipOf(holdings_[h]); n != kNoSlot; n = nodes_[n].parent) nodes_[n].awaited += awaited ? 1 : -1;
    Relist(TipOf(holdings_[h]));
  }

  // As if a turn had used now what the branch holds, which ended with this class. A branch that is awaited stays so.
  void Touch(WorkflowId workflow, std::uint64_t branch, std::uint32_t its_class, TimePoint now) {
    const Slot h = holdings_.Find(workflow, branch);
    if (h == kNoSlot) return;
    holdings_[h].its_class = its_class;
    ++stamp_;
    const Slot tip = TipOf(holdings_[h]);
    for (Slot n = tip; n != kNoSlot; n = nodes_[n].parent) nodes_[n].used = now, nodes_[n].stamp = stamp_;
    Unlist(tip);
    Relist(tip);
  }

  // --- Pins. ---

  // Blocks that one tenant may have pinned, and all of them together.
  void BoundPins(std::int32_t of_one, std::int32_t of_all) { most_of_one_ = of_one, most_of_all_ = of_all; }

  // Until then, in place of what was said before; unset: no longer. Nothing, where it holds nothing or is awaited.
  // False: more than its tenant may pin.
  bool Pin(WorkflowId workflow, std::uint64_t branch, TimePoint until) {
    const Slot h = holdings_.Find(workflow, branch);
    return h == kNoSlot || Pin(h, until);
  }

  // Those end whose time has come.
  void EndPins(TimePoint now) {
    while (!pins_.empty() && pins_.next() <= now) {
      const Slot h = pins_.Top();
      Unpin(h);
      Relist(TipOf(holdings_[h]));
    }
  }

  TimePoint next_pin_end() const { return pins_.next(); }
  std::size_t pins() const { return pins_.size(); }
  std::int32_t pinned() const { return pinned_; }  // blocks, as many as there were when they were pinned
  std::uint64_t pins_broken() const { return pins_broken_; }  // times that pinned blocks went
  std::uint64_t pins_refused() const { return pins_refused_; }
  TimePoint PinnedUntil(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = holdings_.Find(workflow, branch);
    return h == kNoSlot ? kUnset : holdings_[h].pinned_until;
  }

  // Nothing comes after the branch's last turn, or the workflow's: what it alone holds is dead.
  void End(WorkflowId workflow, std::uint64_t branch) {
    const Slot h = holdings_.Find(workflow, branch);
    if (h != kNoSlot) EndHolding(h);
  }
  void End(WorkflowId workflow) {
    holdings_.ForEachBranch(workflow, [this](Slot h) { EndHolding(h); });
  }

  // All 0 where it holds nothing. O(nodes of its path).
  Holding Find(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = holdings_.Find(workflow, branch);
    if (h == kNoSlot) return {};
    const Record& r = holdings_[h];
    Holding holding = {TokensOf(nodes_[TipOf(r)], nodes_[TipOf(r)].end),
                       0,
                       r.its_class,
                       r.uses,
                       r.since,
                       r.awaited,
                       nodes_[TipOf(r)].references > 0,
                       r.pinned_until != kUnset};
    Slot n = TipOf(r);
    holding.own_from = holding.tokens;
    for (; n != kNoSlot && nodes_[n].holders == 1; n = nodes_[n].parent) {
      holding.own_from = TokensOf(nodes_[n], nodes_[n].first);
    }
    return holding;
  }

  // Of its last block, to the policy; 0 where it holds nothing.
  double ValueOf(WorkflowId workflow, std::uint64_t branch, TimePoint now) {
    const Slot h = holdings_.Find(workflow, branch);
    if (h == kNoSlot) return 0;
    if (now != std::exchange(now_, now)) scanned_ = false;
    return ValueOf(nodes_[TipOf(holdings_[h])], nodes_[TipOf(holdings_[h])].end);
  }

  // Times that blocks went although a waiting turn would have used them.
  std::uint64_t awaited_lost() const { return awaited_lost_; }

  // None if it holds nothing.
  TenantId TenantOf(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = holdings_.Find(workflow, branch);
    return h == kNoSlot ? TenantId{} : holdings_[h].name.tenant;
  }
  // Holdings that ended because there were too many, and of these, pinned ones.
  std::uint64_t crowded_out() const { return crowded_out_; }
  std::uint64_t pins_crowded_out() const { return pins_crowded_out_; }

  // tell(workflow, branch, Holding) of each; `own_from` is not told.
  template <class Tell>
  void ForEach(Tell&& tell) const {
    for (Slot h = 0; h < holdings_.slots(); ++h) {
      if (!holdings_.Has(h)) continue;
      const Record& r = holdings_[h];
      tell(r.name.workflow, r.name.branch,
           Holding{TokensOf(nodes_[TipOf(r)], nodes_[TipOf(r)].end), 0, r.its_class, r.uses, r.since, r.awaited,
                   nodes_[TipOf(r)].references > 0, r.pinned_until != kUnset});
    }
  }

  // --- Eviction. ---

  // Tells take(const Victim&) what would go next, in order, until there are so many blocks, or it is false where it
  // says anything, and returns their sum; less where no more could go. Changes nothing.
  template <class Take>
  std::int32_t Walk(std::int32_t blocks, TimePoint now, Take&& take) {
    BeginWalk(now);
    std::int32_t found = 0;
    for (std::size_t i; found < blocks && (i = Best()) != kNone;) {
      const Part part = heads_[i].part;
      const Node& node = nodes_[part.node];
      const std::int32_t enough = part.end - (blocks - found + node.blocks - 1) / node.blocks;
      std::int32_t end = std::max(EndInLine(node, part.end, i), enough);
      if (node.copied < part.end) end = std::max(end, node.copied);  // what has a copy is worth less
      const std::int32_t chunks = part.end - end, of_blocks = chunks * node.blocks;
      const double mean = (heads_[i].value + ValueOf(node, end + 1)) / 2;
      const Victim victim{HeldOf(node, part.end), TierOf(node), chunks, of_blocks, mean * of_blocks};
      found += of_blocks;
      taken_.push_back({part.node, end});
      if constexpr (std::same_as<decltype(take(victim)), bool>) {
        if (!take(victim)) break;
      } else {
        take(victim);
      }
      if (found < blocks) Took(i, end);
    }
    return found;
  }

  // What would be lost where so many blocks were taken, and how many there are.
  struct Loss {
    double value = 0;
    std::int32_t blocks = 0;
  };
  Loss LossOf(std::int32_t blocks, TimePoint now) {
    Loss loss;
    loss.blocks = Walk(blocks, now, [&loss](const Victim& victim) { loss.value += victim.value; });
    return loss;
  }

  // Forgets so many blocks, or up to the end of a chunk; returns how many. Fewer where no more are idle.
  std::int32_t Evict(std::int32_t blocks, TimePoint now) {
    const std::int32_t found = Walk(blocks, now, [](const Victim&) {});
    for (const Part& part : taken_) Shrink(part.node, part.end);
    return found;
  }

  // Chunks that have left since the list was last taken, and have not come back. Without allocation if room was made
  // since.
  std::vector<DroppedPrefix>& dropped() {
    std::erase_if(dropped_, [&](const DroppedPrefix& chunk) {
      return chunks_.Find(NameOf(chunk.hash, chunk.blocks.value)) != kNoSlot;
    });
    return dropped_;
  }
  // `more`: chunks that are published before the next call of this function.
  void MakeRoomToDrop(std::size_t more = 0) {
    const std::size_t room = dropped_.size() + chunks_.size() + more;
    if (room > dropped_.capacity()) dropped_.reserve(std::max(room, chunks_.capacity()));
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  // Of the optional hooks, those that the policy has: a type has them or not, a policy chosen at run time says so.
  static bool Listed(const Policy& policy) {
    if constexpr (requires { policy.listed(); }) return policy.listed();
    return ListedRetention<Policy>;
  }
  bool Listed() const { return Listed(policy_); }
  bool Awaits() const {
    if constexpr (requires { policy_.awaits(); }) return policy_.awaits();
    return AwaitedRetention<Policy>;
  }

  static constexpr std::size_t kMostParts = 8;  // of a node, as it falls from list to list; more may allocate

  struct Chunk {
    std::uint64_t name = 0;
    Slot before = kNoSlot;  // the chunk that it follows
    Slot node = kNoSlot;
    std::int32_t depth = 0;  // chunks before it
  };

  // Chunks `first` .. `end` - 1 of a prompt.
  struct Node {
    Slot parent = kNoSlot, child = kNoSlot;  // the node before it; the first of those that follow
    AgeLink siblings = {};
    AgeLink age = {};  // in its line
    Slot last = kNoSlot;  // chunk
    Slot tips = kNoSlot;  // the holdings that end with it
    std::size_t line = kNone;
    bool astray = false;  // it is among its line's strays
    HeapLink stray = {};
    std::uint64_t scan = 0;  // which candidate of scan_ it is; 0: none
    std::int32_t first = 0, end = 0;
    std::int32_t blocks = 0;  // of a chunk
    std::int32_t copied = 0;  // of the prompt's chunks, so many from the first on have a copy in the next tier
    std::int32_t children = 0;
    std::int32_t references = 0;  // requests that go through it or end with it
    std::int32_t holders = 0;  // holdings, likewise
    std::int32_t awaited = 0;  // of these, whose next turn waits
    std::int32_t pinned = 0;  // of these, that are pinned
    std::uint32_t holder = 0;  // the exclusive or of their slots: where there is one, its slot
    bool loose = false;  // a request without a workflow has left it behind
    bool spoiled = false;
    TimePoint used = {};
    std::uint64_t stamp = 0;  // of the release that was the last to use it
    // Of the walk whose number it is:
    std::uint64_t walk = 0;
    std::int32_t children_left = 0;
    HeapLink spare = {};
    std::int32_t spare_end = 0;
    double spare_value = 0;  // if it is looked up by value

    std::int32_t chunks() const { return end - first; }
    std::int32_t all_blocks() const { return chunks() * blocks; }
  };

  struct Record : BranchRecord {
    Slot tips = kNoSlot;  // those that end where it does
    std::uint32_t its_class = 0;
    std::int32_t uses = 0;
    std::int32_t tokens = 0;  // of its context, when its last turn ended
    TimePoint since = {};
    bool awaited = false;
    TimePoint awaited_since = {};
    TimePoint pinned_until = kUnset;
    std::int32_t pinned_blocks = 0;  // as many as it had when it was pinned
    AgeLink fellows = {};  // among these
  };
  // The holdings that end with one node, which moves without a look at each.
  struct Tips {
    Slot node = kNoSlot;
    Slot newest = kNoSlot;
    std::int32_t size = 0;
  };
  // A tenant's pins.
  struct Pinning {
    std::int32_t pins = 0, blocks = 0;
  };

  // Nodes in the order in which they were used last: dead ones, the policy's lists, pinned ones, awaited ones. Those
  // whose place is far from both ends of the list are strays, in a heap.
  struct Line {
    Slot oldest = kNoSlot, newest = kNoSlot;
    Slot strays = kNoSlot;
  };
  static constexpr int kNear = 32;
  template <class P>
  static constexpr std::size_t ListsOf() {
    if constexpr (ListedRetention<P>) return P::kLists;
    return 1;
  }
  static constexpr std::size_t kLists = ListsOf<Policy>(), kPinnedLine = kLists + 1, kAwaitedLine = kLists + 2,
                               kLines = kLists + 3;
  using LineSet = std::array<std::uint64_t, (kLines + 63) / 64>;

  // What a walk has left of a node.
  struct Part {
    Slot node = kNoSlot;
    std::int32_t end = 0;
  };
  struct Head {
    Part part;
    double value = 0;
    bool spare = false;  // it is the root of the line's spares
  };
  // A node of the list of a policy without lists.
  struct Candidate {
    double value = 0;
    std::uint64_t stamp = 0;
    std::uint64_t scan = 0;
    Slot node = kNoSlot;
  };

  // Lists threaded through records, by their first one.
  template <auto kLink, class Records>
  static void Link(Records& records, Slot& list, Slot i) {
    records[i].*kLink = {kNoSlot, list};
    if (list != kNoSlot) (records[list].*kLink).older = i;
    list = i;
  }
  template <auto kLink, class Records>
  static void Unlink(Records& records, Slot& list, Slot i) {
    const AgeLink link = std::exchange(records[i].*kLink, {});
    (link.older == kNoSlot ? list : (records[link.older].*kLink).newer) = link.newer;
    if (link.newer != kNoSlot) (records[link.newer].*kLink).older = link.older;
  }

  template <class Table>
  static void Grow(Table& table, std::size_t n) {
    if (n > table.room()) table.Reserve(std::max(table.slots() + n, 2 * table.capacity()));
  }

  // Hosts may well give chunks of two sizes the same hash.
  static std::uint64_t NameOf(std::uint64_t hash, std::int32_t blocks) {
    return hash + static_cast<std::uint64_t>(blocks) * kStride;
  }
  static constexpr std::uint64_t kStride = 0x9e37'79b9'7f4a'7c15u;
  static std::size_t Index(std::int32_t i) { return static_cast<std::size_t>(i); }

  // --- Prompts. ---

  // How many chunks from the first one on are there. Both places that may be looked at next are fetched beside each.
  std::int32_t Search(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    const auto middle_of = [](std::size_t least, std::size_t most) { return least + (most - least + 1) / 2; };
    const auto name = [&](std::size_t count) { return NameOf(hashes[std::max<std::size_t>(count, 1) - 1], blocks); };
    std::size_t least = 0, most = hashes.size();  // so many at least, and at most
    while (least < most) {
      const std::size_t middle = middle_of(least, most);
      chunks_.Prefetch(name(middle_of(least, middle - 1)));
      chunks_.Prefetch(name(middle_of(middle, most)));
      if (chunks_.Find(name(middle)) != kNoSlot) least = middle;
      else most = middle - 1;
    }
    if (least == 0) return 0;
    const Chunk& chunk = chunks_[chunks_.Find(NameOf(hashes[least - 1], blocks))];
    auto found = static_cast<std::int32_t>(least);
    if (chunk.depth != found - 1) return SearchOneByOne(hashes, blocks);
    for (Slot n = chunk.node; n != kNoSlot && nodes_[n].spoiled; n = nodes_[n].parent) found = nodes_[n].first;
    return found;
  }

  // For hosts that break the contract.
  std::int32_t SearchOneByOne(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    std::int32_t found = 0;
    for (const std::uint64_t hash : hashes) {
      const Chunk* chunk = chunks_.Get(NameOf(hash, blocks));
      if (chunk == nullptr || chunk->depth != found || nodes_[chunk->node].spoiled) break;
      ++found;
    }
    return found;
  }

  Slot NodeOf(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    const Slot chunk = chunks_.Find(NameOf(hashes.back(), blocks));
    TAKT_ASSERT(chunk != kNoSlot);
    return chunks_[chunk].node;
  }

  static bool CanGo(const Node& node) { return node.children == 0 && node.references == 0 && node.chunks() > 0; }
  static bool GrowsInPlace(const Node& node, std::int32_t blocks) {
    return node.references == 1 && node.holders == 0 && !node.loose && node.children == 0 && node.blocks == blocks;
  }

  Slot NewNode(Slot parent, std::int32_t first, std::int32_t blocks) {
    const Slot n = nodes_.Take();
    Node& node = nodes_[n] = {};
    node.parent = parent;
    node.first = node.end = first;
    node.blocks = blocks;
    node.references = 1;
    if (parent == kNoSlot) return n;
    Link<&Node::siblings>(nodes_, nodes_[parent].child, n);
    ++nodes_[parent].children;
    return n;
  }

  // The chunk becomes the last of its node; those behind it become a node of their own. The part that has less to tell
  // of it takes another slot. O(chunks up to this one), or less.
  void Split(Slot chunk) {
    TAKT_ASSERT(chunk != kNoSlot);
    const Slot n = chunks_[chunk].node;
    if (nodes_[n].last == chunk) return;
    const std::size_t line = nodes_[n].line;
    Unlist(n);
    const Slot m = nodes_.Take();
    nodes_[m] = nodes_[n];
    const std::int32_t first = nodes_[n].first, middle = chunks_[chunk].depth + 1, end = nodes_[n].end;
    const bool back_moves = end - middle + nodes_[n].children <= middle - first;
    const Slot front = back_moves ? n : m, back = back_moves ? m : n;
    if (back_moves) {
      for (Slot c = nodes_[n].last; c != chunk; c = chunks_[c].before) chunks_[c].node = m;
      for (Slot c = nodes_[n].child; c != kNoSlot; c = nodes_[c].siblings.newer) nodes_[c].parent = m;
      if (nodes_[n].tips != kNoSlot) tips_[nodes_[n].tips].node = m;
    } else {
      Slot c = chunk;
      for (std::int32_t i = first; i < middle; ++i, c = chunks_[c].before) chunks_[c].node = m;
      if (const Slot p = nodes_[n].parent; p != kNoSlot) {
        Unlink<&Node::siblings>(nodes_, nodes_[p].child, n);
        Link<&Node::siblings>(nodes_, nodes_[p].child, m);
      }
    }
    nodes_[back].parent = front;
    nodes_[back].siblings = {};
    nodes_[back].first = nodes_[front].end = middle;
    nodes_[front].last = chunk;
    nodes_[front].child = back;
    nodes_[front].children = 1;
    nodes_[front].tips = kNoSlot;
    if (line != kNone) Enlist(back, line);
  }

  // What the same requests and workflows have used together may be one node again, the shorter one at the end.
  bool MergesUp(Slot n) const {
    const Node& node = nodes_[n];
    if (node.parent == kNoSlot || node.children > 0) return false;
    const Node& before = nodes_[node.parent];
    return before.children == 1 && before.references == node.references && before.holders == node.holders &&
           before.stamp == node.stamp && before.loose == node.loose && before.spoiled == node.spoiled &&
           before.blocks == node.blocks && node.chunks() <= before.chunks();
  }
  Slot MergeUp(Slot n) {
    Unlist(n);
    Node& node = nodes_[n];
    const Slot p = node.parent;
    Node& before = nodes_[p];
    for (Slot c = node.last; c != before.last; c = chunks_[c].before) chunks_[c].node = p;
    if (node.tips != kNoSlot) tips_[node.tips].node = p;
    if (before.copied >= before.end) before.copied = node.copied;
    before.last = node.last;
    before.end = node.end;
    before.tips = node.tips;  // it has none: the holdings that go through it go through what follows
    before.child = kNoSlot;
    before.children = 0;
    FreeNode(n);
    Relist(p);
    return p;
  }

  void FreeNode(Slot n) {
    nodes_[n].first = nodes_[n].end = 0;
    nodes_.Give(n);
  }

  // Forgets the chunks of an idle node without children from `end` on, all of them where that is before its first.
  // Returns the node, or where nothing is left the one before it.
  Slot Shrink(Slot n, std::int32_t end) {
    TAKT_ASSERT(CanGo(nodes_[n]));
    Node& node = nodes_[n];
    end = std::max(end, node.first);
    idle_ -= (node.end - end) * node.blocks;
    awaited_lost_ += node.awaited > 0 ? 1u : 0u;
    pins_broken_ += node.pinned > 0 ? 1u : 0u;
    Slot ahead = node.last;  // what is looked up some chunks later, or by the next call, is fetched meanwhile
    const auto fetch = [&] {
      if (ahead == kNoSlot) return;
      chunks_.Prefetch(chunks_[ahead].name);
      ahead = chunks_[ahead].before;
    };
    for (int i = 0; i < 6; ++i) fetch();
    for (; node.end > end; --node.end) {
      const Slot c = node.last;
      const std::uint64_t name = chunks_[c].name;
      fetch();
      node.last = chunks_[c].before;
      dropped_.push_back({name - static_cast<std::uint64_t>(node.blocks) * kStride, {node.blocks}});
      chunks_.Erase(c, name);
    }
    if (node.chunks() > 0) {
      Relist(n);
      return n;
    }
    Unlist(n);
    const Slot p = node.parent;
    if (p != kNoSlot) MoveTips(n, p);
    while (node.tips != kNoSlot) {
      const Slot h = tips_[node.tips].newest;
      RemoveTip(h);
      Forget(h);
    }
    if (p != kNoSlot) {
      Unlink<&Node::siblings>(nodes_, nodes_[p].child, n);
      --nodes_[p].children;
    }
    FreeNode(n);
    if (p != kNoSlot) Relist(p);
    return p;
  }

  // --- Workflows. ---

  Slot TipOf(const Record& record) const { return record.tips == kNoSlot ? kNoSlot : tips_[record.tips].node; }
  void AddTip(Slot n, Slot h) {
    Slot& t = nodes_[n].tips;
    if (t == kNoSlot) t = tips_.Take(), tips_[t] = {n};
    Link<&Record::fellows>(holdings_, tips_[t].newest, h);
    holdings_[h].tips = t;
    ++tips_[t].size;
  }
  void RemoveTip(Slot h) {
    const Slot t = std::exchange(holdings_[h].tips, kNoSlot);
    Unlink<&Record::fellows>(holdings_, tips_[t].newest, h);
    if (--tips_[t].size > 0) return;
    nodes_[tips_[t].node].tips = kNoSlot;
    tips_.Give(t);
  }
  // The holdings that end with one node end with another from here on. The fewer join the more: O(log holdings) for
  // each holding in all.
  void MoveTips(Slot from, Slot to) {
    Slot few = std::exchange(nodes_[from].tips, kNoSlot), many = nodes_[to].tips;
    if (few == kNoSlot) return;
    if (many == kNoSlot || tips_[few].size > tips_[many].size) std::swap(few, many);
    while (few != kNoSlot && tips_[few].newest != kNoSlot) {
      const Slot h = tips_[few].newest;
      Unlink<&Record::fellows>(holdings_, tips_[few].newest, h);
      Link<&Record::fellows>(holdings_, tips_[many].newest, h);
      holdings_[h].tips = many;
      ++tips_[many].size;
    }
    if (few != kNoSlot) tips_.Give(few);
    nodes_[to].tips = many;
    tips_[many].node = to;
  }

  // To all nodes of its path, once more or once less.
  void CountPath(Slot h, std::int32_t times) {
    const Record& record = holdings_[h];
    for (Slot n = TipOf(record); n != kNoSlot; n = nodes_[n].parent) {
      nodes_[n].holders += times;
      nodes_[n].awaited += record.awaited ? times : 0;
      nodes_[n].pinned += record.pinned_until != kUnset ? times : 0;
      nodes_[n].holder ^= h;
    }
  }

  // The branch's holding ends with `tip`.
  void Hold(const HeldTurn& turn, Slot tip, TimePoint now) {
    Slot h = holdings_.Find(turn.workflow, turn.branch);
    if (tip == kNoSlot) {
      if (h != kNoSlot) EndHolding(h);
      return;
    }
    if (h == kNoSlot) {
      while (holdings_.size() >= most_holdings_) CrowdOut(holdings_.Crowded());
      h = holdings_.Insert({{{turn.workflow, turn.branch, turn.tenant}}});
    } else {
      Unpin(h);
      holdings_.Returned({turn.workflow, turn.branch, turn.tenant});
      holdings_.Use(h, turn.tenant);
    }
    Record& record = holdings_[h];
    const Slot before = TipOf(record);
    CountPath(h, -1);
    if (before != kNoSlot) RemoveTip(h);
    AddTip(tip, h);
    record.awaited = false;
    record.its_class = turn.its_class;
    record.tokens = TokensOf(nodes_[tip], nodes_[tip].end);
    record.since = now;
    ++record.uses;
    CountPath(h, 1);
    if (before != kNoSlot && before != tip) Relist(before);
    if (turn.pinned_until > now) Pin(h, turn.pinned_until);
  }

  bool Pin(Slot h, TimePoint until) {
    Unpin(h);
    Record& record = holdings_[h];
    if (until == kUnset || record.awaited) return Relist(TipOf(record)), true;
    const Node& tip = nodes_[TipOf(record)];
    const std::int32_t blocks = tip.end * tip.blocks;
    const Slot known = pinning_.Find(record.name.tenant);
    const std::int32_t has = known == kNoSlot ? 0 : pinning_[known].blocks;
    if (blocks > most_of_one_ - has || blocks > most_of_all_ - pinned_) {
      ++pins_refused_;
      return Relist(TipOf(record)), false;
    }
    Pinning& of = pinning_[known != kNoSlot ? known : pinning_.Insert(record.name.tenant, {})];
    ++of.pins, of.blocks += blocks, pinned_ += blocks;
    record.pinned_until = until, record.pinned_blocks = blocks;
    pins_.Push(h, until, {}, {h});
    holdings_.Keep(h, true);
    for (Slot n = TipOf(record); n != kNoSlot; n = nodes_[n].parent) ++nodes_[n].pinned;
    return Relist(TipOf(record)), true;
  }

  // Its blocks are listed anew by the caller.
  void Unpin(Slot h) {
    Record& record = holdings_[h];
    if (record.pinned_until == kUnset) return;
    for (Slot n = TipOf(record); n != kNoSlot; n = nodes_[n].parent) --nodes_[n].pinned;
    pins_.Erase(h);
    holdings_.Keep(h, false);
    const Slot of = pinning_.Find(record.name.tenant);
    pinned_ -= record.pinned_blocks, pinning_[of].blocks -= record.pinned_blocks;
    if (--pinning_[of].pins == 0) pinning_.Erase(of, record.name.tenant);
    record.pinned_until = kUnset;
  }

  void CrowdOut(Slot h) {
    ++crowded_out_;
    pins_crowded_out_ += holdings_[h].pinned_until != kUnset ? 1u : 0u;
    EndHolding(h);
  }

  void EndHolding(Slot h) {
    Unpin(h);
    const Slot tip = TipOf(holdings_[h]);
    CountPath(h, -1);
    RemoveTip(h);
    Forget(h);
    Relist(tip);
  }

  // It has no blocks any more.
  void Forget(Slot h) {
    Unpin(h);
    holdings_.Erase(h);
  }

  // --- Order. ---

  std::int32_t TokensOf(const Node& node, std::int32_t chunks) const { return chunks * node.blocks * block_tokens_; }

  Held HeldOf(const Node& node, std::int32_t end) const {
    Held held = {.uses = node.holders + (node.loose ? 1 : 0),
                 .since = node.used,
                 .tokens = TokensOf(node, end),
                 .block_tokens = block_tokens_,
                 .copied = node.copied >= end};
    if (held.uses != 1 || node.loose) return held;
    const Record& record = holdings_[node.holder];
    held.workflow = record.name.workflow;
    held.branch = record.name.branch;
    held.its_class = record.its_class;
    held.uses = record.uses;
    held.context = record.tokens;
    if (record.awaited) held.awaited = record.awaited_since;
    return held;
  }
  static HeldTier TierOf(const Node& node) {
    if (node.awaited > 0) return HeldTier::kAwaited;
    if (node.pinned > 0) return HeldTier::kPinned;
    return node.holders > 0 || node.loose ? HeldTier::kHeld : HeldTier::kDead;
  }
  std::size_t LineOf(const Node& node, std::int32_t end) const {
    const HeldTier tier = TierOf(node);
    if (tier == HeldTier::kDead) return 0;
    if (tier != HeldTier::kHeld) return tier == HeldTier::kPinned ? kPinnedLine : kAwaitedLine;
    if constexpr (ListedRetention<Policy>) {
      if (Listed()) return 1 + std::min(policy_.List(HeldOf(node, end)), kLists - 1);
    }
    return 1;
  }
  double ValueOf(const Node& node, std::int32_t end) const {
    const HeldTier tier = TierOf(node);
    if (tier == HeldTier::kDead) return 0;
    if constexpr (AwaitedRetention<Policy>) {
      if (tier >= HeldTier::kPinned && Awaits()) return policy_.AwaitedValue(HeldOf(node, end));
    }
    const double value = policy_.Value(HeldOf(node, end), now_);
    return value == value ? value : 0;
  }

  // Puts it where it belongs now: into a line, or, where it cannot go, into none.
  void Relist(Slot n) {
    const std::size_t line = CanGo(nodes_[n]) ? LineOf(nodes_[n], nodes_[n].end) : kNone;
    if (line == nodes_[n].line) {
      if (Scanned(line)) Offer(n);
      return;
    }
    Unlist(n);
    if (line != kNone) Enlist(n, line);
  }

  void Unlist(Slot n) {
    Node& node = nodes_[n];
    if (node.line == kNone) return;
    Line& line = lines_[node.line];
    if (node.astray) {
      line.strays = EraseFromHeap<&Node::stray>(nodes_, line.strays, n, Older());
    } else {
      const AgeLink link = std::exchange(node.age, {});
      (link.older == kNoSlot ? line.oldest : nodes_[link.older].age.newer) = link.newer;
      (link.newer == kNoSlot ? line.newest : nodes_[link.newer].age.older) = link.older;
    }
    if (line.oldest == kNoSlot && line.strays == kNoSlot) Clear(filled_, node.line);
    node.line = kNone, node.astray = false, node.scan = 0;
  }

  // By its stamp, from whichever end is nearer: what was just used is the newest; what comes to light as others are
  // evicted is nearly the oldest.
  void Enlist(Slot n, std::size_t i) {
    Line& line = lines_[i];
    Node& node = nodes_[n];
    node.line = i;
    Set(filled_, i);
    Slot older = line.newest, newer = line.oldest;  // candidates for its neighbours
    if (Scanned(i)) newer = kNoSlot, Offer(n);  // in any order: the heap has them
    for (int steps = 0; !Scanned(i); ++steps) {
      if (steps == kNear) {
        node.astray = true;
        line.strays = PushHeap<&Node::stray>(nodes_, line.strays, n, Older());
        return;
      }
      if (older == kNoSlot || nodes_[older].stamp <= node.stamp) {
        newer = older == kNoSlot ? line.oldest : nodes_[older].age.newer;
        break;
      }
      if (nodes_[newer].stamp > node.stamp) {
        older = nodes_[newer].age.older;
        break;
      }
      older = nodes_[older].age.older;
      newer = nodes_[newer].age.newer;
    }
    node.age = {older, newer};
    (older == kNoSlot ? line.oldest : nodes_[older].age.newer) = n;
    (newer == kNoSlot ? line.newest : nodes_[newer].age.older) = n;
  }

  auto Older() const {
    return [this](Slot a, Slot b) { return nodes_[a].stamp < nodes_[b].stamp; };
  }

  static void Set(LineSet& set, std::size_t i) { set[i / 64] |= std::uint64_t{1} << i % 64; }
  static void Clear(LineSet& set, std::size_t i) { set[i / 64] &= ~(std::uint64_t{1} << i % 64); }
  static bool Has(const LineSet& set, std::size_t i) { return (set[i / 64] >> i % 64 & 1) != 0; }
  template <class Each>
  static void ForEach(const LineSet& set, Each&& each) {
    for (std::size_t word = 0; word < set.size(); ++word) {
      for (std::uint64_t bits = set[word]; bits != 0; bits &= bits - 1) {
        each(64 * word + static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
  }

  // --- A walk: the lines as they would become. ---

  void BeginWalk(TimePoint now) {
    if (now != std::exchange(now_, now)) scanned_ = false;
    ++walk_;
    taken_.clear();
    shown_ = {};
    spares_.fill(kNoSlot);
    if (!Listed() && Has(filled_, 1)) Scan();
    ForEach(filled_, [this](std::size_t i) {
      next_[i] = Scanned(i) ? kNoSlot : lines_[i].oldest;
      if (lines_[i].strays != kNoSlot) AddSpare(i, {lines_[i].strays, nodes_[lines_[i].strays].end});
      FindHead(i);
    });
  }

  // Whether the policy's lists are in no order, so that nodes are looked up by value.
  bool Scanned(std::size_t line) const { return line == 1 && !Listed(); }

  // Candidates of all nodes of the list, by value. What has changed since the last time is a candidate anew (Offer).
  void Scan() {
    if (scanned_) {
      for (const Candidate& c : popped_) {
        if (nodes_[c.node].scan == c.scan) scan_.push_back(c), std::ranges::push_heap(scan_, Later);
      }
      popped_.clear();
      return;
    }
    scanned_ = true;
    scan_.clear(), popped_.clear();
    for (Slot n = lines_[1].oldest; n != kNoSlot; n = nodes_[n].age.newer) scan_.push_back(CandidateOf(n));
    std::ranges::make_heap(scan_, Later);
  }
  Candidate CandidateOf(Slot n) {
    nodes_[n].scan = ++scans_;
    return {ValueOf(nodes_[n], nodes_[n].end), nodes_[n].stamp, nodes_[n].scan, n};
  }
  void Offer(Slot n) {
    if (!scanned_) return;
    scanned_ = scan_.size() + popped_.size() < scan_.capacity();  // else all are looked at anew, before the next walk
    if (!scanned_) return;
    scan_.push_back(CandidateOf(n));
    std::ranges::push_heap(scan_, Later);
  }
  Slot TopOfScan() {
    while (!scan_.empty() && nodes_[scan_.front().node].scan != scan_.front().scan) {
      std::ranges::pop_heap(scan_, Later);
      scan_.pop_back();
    }
    return scan_.empty() ? kNoSlot : scan_.front().node;
  }

  static bool Later(const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.stamp > b.stamp;
  }

  // What a walk may take of a line besides its list: what it has left of a node, or brought to light, and strays.
  void AddSpare(std::size_t i, Part part) {
    Node& node = nodes_[part.node];
    node.spare_end = part.end;
    if (Scanned(i)) node.spare_value = ValueOf(node, part.end);
    spares_[i] = PushHeap<&Node::spare>(nodes_, spares_[i], part.node, SpareBefore(i));
  }
  auto SpareBefore(std::size_t i) const {
    return [this, by_value = Scanned(i)](Slot a, Slot b) {
      if (by_value && nodes_[a].spare_value != nodes_[b].spare_value) {
        return nodes_[a].spare_value < nodes_[b].spare_value;
      }
      return nodes_[a].stamp < nodes_[b].stamp;
    };
  }

  void FindHead(std::size_t i) {
    if (!Has(filled_, i)) next_[i] = kNoSlot;
    const bool scanned = Scanned(i);
    Slot head = scanned && Has(filled_, i) ? TopOfScan() : next_[i];
    const Slot spare = spares_[i];
    Clear(shown_, i);
    if (head == kNoSlot && spare == kNoSlot) return;
    if (scanned && head != kNoSlot) nodes_[head].spare_value = scan_.front().value;
    const bool from_spares = head == kNoSlot || (spare != kNoSlot && SpareBefore(i)(spare, head));
    if (from_spares) head = spare;
    const Node& node = nodes_[head];
    const std::int32_t end = from_spares ? node.spare_end : node.end;
    heads_[i] = {{head, end}, scanned ? node.spare_value : ValueOf(node, end), from_spares};
    Set(shown_, i);
    if (node.age.newer != kNoSlot) __builtin_prefetch(&nodes_[node.age.newer]);
  }

  // The line whose head goes next.
  std::size_t Best() const {
    if (Has(shown_, 0)) return 0;
    std::size_t best = kNone;
    ForEach(shown_, [&](std::size_t i) {
      if (i >= kPinnedLine) return;
      if (best != kNone && heads_[i].value > heads_[best].value) return;
      if (best != kNone && heads_[i].value == heads_[best].value && StampOf(best) <= StampOf(i)) return;
      best = i;
    });
    if (best != kNone) return best;
    return Has(shown_, kPinnedLine) ? kPinnedLine : Has(shown_, kAwaitedLine) ? kAwaitedLine : kNone;
  }
  std::uint64_t StampOf(std::size_t line) const { return nodes_[heads_[line].part.node].stamp; }

  // How much of a node is left where its tail would leave the line.
  std::int32_t EndInLine(const Node& node, std::int32_t end, std::size_t line) const {
    if (!Listed() || line == 0 || line >= kPinnedLine || LineOf(node, node.first + 1) == line) return node.first;
    std::int32_t out = node.first + 1;  // an end that is not in the line; `end` is
    while (end - out > 1) {
      const std::int32_t middle = out + (end - out) / 2;
      (LineOf(node, middle) == line ? end : out) = middle;
    }
    return out;
  }

  // The line's head is taken from `end` on.
  void Took(std::size_t i, std::int32_t end) {
    const Part left = {heads_[i].part.node, end};
    Node& node = nodes_[left.node];
    if (heads_[i].spare) {
      spares_[i] = EraseFromHeap<&Node::spare>(nodes_, left.node, left.node, SpareBefore(i));
      if (node.walk != walk_ && node.astray) {
        for (const Slot n : {node.stray.left, node.stray.right}) {
          if (n != kNoSlot) AddSpare(i, {n, nodes_[n].end});
        }
      }
    } else if (Scanned(i)) {
      std::ranges::pop_heap(scan_, Later);
      popped_.push_back(scan_.back());
      scan_.pop_back();
    } else {
      next_[i] = node.age.newer;
    }
    if (node.walk != walk_) node.walk = walk_;
    std::size_t other = i;
    if (left.end > node.first) {
      other = LineOf(node, left.end);
      AddSpare(other, left);
    } else if (node.parent != kNoSlot) {
      Node& before = nodes_[node.parent];
      if (before.walk != walk_) before.walk = walk_, before.children_left = before.children;
      if (--before.children_left == 0 && before.references == 0) {
        other = LineOf(before, before.end);
        AddSpare(other, {node.parent, before.end});
      }
    }
    FindHead(i);
    if (other != i) FindHead(other);
  }

  Policy policy_;
  std::int32_t block_tokens_;
  IdTable<std::uint64_t, Chunk> chunks_;
  SlotTable<Node> nodes_;
  SlotTable<Tips> tips_;
  BranchTable<Record> holdings_;  // the newest: whose last turn ended last
  IdTable<TenantId, Pinning> pinning_;  // tenants that have pinned anything
  TimeHeap pins_;  // slots of holdings_, by the end of the pin
  std::int32_t most_of_one_ = 0, most_of_all_ = 0, pinned_ = 0;
  std::uint64_t pins_broken_ = 0, pins_refused_ = 0;
  std::size_t most_holdings_ = kMostHoldings;
  std::uint64_t crowded_out_ = 0, pins_crowded_out_ = 0;
  std::array<Line, kLines> lines_;
  LineSet filled_ = {};  // lines that are not empty
  std::uint64_t stamp_ = 0;
  std::int32_t referenced_ = 0, idle_ = 0;
  std::uint64_t uses_ = 0, awaited_lost_ = 0;
  std::vector<DroppedPrefix> dropped_;
  std::vector<Slot> stack_;
  // Of a walk:
  TimePoint now_ = {};
  std::uint64_t walk_ = 0;
  std::array<Slot, kLines> next_;
  std::array<Head, kLines> heads_;
  LineSet shown_ = {};  // lines that have a head
  std::array<Slot, kLines> spares_;  // roots of heaps
  std::vector<Part> taken_;
  // Of a policy without lists, as long as nothing that it reads has changed: candidates, and those that the last walk
  // has taken out. One counts as long as its node has its number.
  bool scanned_ = false;
  std::uint64_t scans_ = 0;
  std::vector<Candidate> scan_, popped_;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_TURNS_HOLDINGS_H_
