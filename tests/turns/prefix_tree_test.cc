// The tree of prompts alone: chunks and nodes, and how nodes are split and merged.
#include "takt/turns/prefix_tree.h"

#include <cstdint>
#include <vector>

#include "catch.h"

namespace takt::internal {
namespace {

using Hashes = std::vector<std::uint64_t>;

// Puts the chunks into one node at the root.
Slot Grow(PrefixTree& tree, const Hashes& hashes) {
  const Slot n = tree.AddNode(kNoSlot, 0, 1);
  Slot before = kNoSlot;
  for (const std::uint64_t hash : hashes) {
    tree.Append(n, before, hash);
    before = tree.FindChunk(hash, 1);
  }
  return n;
}

TEST_CASE("a prompt is one node and is found to its last chunk") {
  PrefixTree tree;
  const Slot n = Grow(tree, {1, 2, 3, 4});
  CHECK(tree.size() == 4);
  CHECK(tree.Search(Hashes{1, 2, 3, 4, 5}, 1) == 4);
  CHECK(tree.Search(Hashes{1, 2, 9}, 1) == 2);
  CHECK(tree.Search(Hashes{1, 2}, 2) == 0);  // chunks of another size
  CHECK(tree.Search(Hashes{1, 3, 2}, 1) == 1);  // hashes without a chain
  CHECK(tree.NodeOf(tree.FindChunk(3, 1)) == n);
  CHECK(tree.DepthOf(tree.FindChunk(3, 1)) == 2);
  tree.nodes()[n].spoiled = true;
  CHECK(tree.Search(Hashes{1, 2, 3}, 1) == 0);
}

TEST_CASE("a node is split before any chunk and merged again") {
  for (const std::uint64_t last : {1u, 2u, 3u}) {
    PrefixTree tree;
    const Slot n = Grow(tree, {1, 2, 3, 4});
    REQUIRE_FALSE(tree.EndsNode(tree.FindChunk(last, 1)));
    const Slot back = tree.Split(tree.FindChunk(last, 1));
    const Slot front = tree.nodes()[back].parent;
    CHECK((front == n) != (back == n));
    CHECK(tree.EndsNode(tree.FindChunk(last, 1)));
    for (std::uint64_t hash = 1; hash <= 4; ++hash) {
      CHECK(tree.NodeOf(tree.FindChunk(hash, 1)) == (hash <= last ? front : back));
    }
    CHECK(tree.nodes()[front].chunks() == static_cast<std::int32_t>(last));
    CHECK(tree.nodes()[back].chunks() == static_cast<std::int32_t>(4 - last));
    CHECK(tree.nodes()[front].children == 1);
    CHECK(tree.Merges(back) == (last >= 2));  // the shorter node is the back one
    CHECK(tree.Merge(back) == front);
    CHECK(tree.nodes()[front].chunks() == 4);
    CHECK(tree.NodeOf(tree.FindChunk(4, 1)) == front);
    CHECK(tree.Search(Hashes{1, 2, 3, 4}, 1) == 4);
  }
}

TEST_CASE("chunks leave a node's end, and a node leaves its parent") {
  PrefixTree tree;
  const Slot n = Grow(tree, {1, 2});
  const Slot child = tree.AddNode(n, 2, 1);
  tree.Append(child, tree.FindChunk(2, 1), 3);
  tree.Append(child, tree.FindChunk(3, 1), 4);
  std::vector<DroppedPrefix> dropped;
  tree.Truncate(child, 3, dropped);
  CHECK(dropped == std::vector<DroppedPrefix>{{4, {1}}});
  CHECK(tree.Search(Hashes{1, 2, 3, 4}, 1) == 3);
  tree.Truncate(child, 2, dropped);
  CHECK(dropped == std::vector<DroppedPrefix>{{4, {1}}, {3, {1}}});
  tree.Remove(child);
  CHECK(tree.nodes()[n].children == 0);
  CHECK(tree.nodes()[n].child == kNoSlot);
  CHECK(tree.size() == 2);
}

}  // namespace
}  // namespace takt::internal
