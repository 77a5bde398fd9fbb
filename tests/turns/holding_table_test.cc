// The table of holdings alone: nodes count them and know which of them end at a node.
#include "takt/turns/holding_table.h"

#include "catch.h"

namespace takt::internal {
namespace {

// A path of two nodes: 0, then 1.
PrefixNodes Path() {
  PrefixNodes nodes;
  for (int i = 0; i < 2; ++i) nodes[nodes.Take()] = {};
  nodes[1].parent = 0;
  return nodes;
}
Slot Add(HoldingTable& table, PrefixNodes& nodes, std::uint64_t workflow, Slot tip) {
  const Slot h = table.Insert({.workflow = {workflow}});
  table.EndAt(nodes, h, tip);
  return h;
}

TEST_CASE("each node counts the holdings through it and names a single one") {
  PrefixNodes nodes = Path();
  HoldingTable table;
  const Slot a = Add(table, nodes, 1, 1), b = Add(table, nodes, 2, 0);
  CHECK(table.Find({1}, 0) == a);
  CHECK(table.Find({1}, 1) == kNoSlot);
  CHECK(nodes[0].holders == 2);
  CHECK(nodes[1].holders == 1);
  CHECK(nodes[1].holder == a);
  table.Await(nodes, a, true, {});
  table.Pin(nodes, b, kNever, 5);
  CHECK(nodes[0].awaited == 1);
  CHECK(nodes[1].awaited == 1);
  CHECK(nodes[0].pinned == 1);
  CHECK(nodes[1].pinned == 0);
  table.EndAt(nodes, a, 0);  // an ended turn is not awaited
  CHECK(nodes[0].awaited == 0);
  CHECK(nodes[1].holders == 0);
  CHECK(nodes[1].awaited == 0);
  table.Unpin(nodes, b);
  table.Leave(nodes, b);
  table.Erase(b);
  CHECK(nodes[0].holders == 1);
  CHECK(nodes[0].holder == a);
  CHECK(nodes[0].pinned == 0);
  CHECK(table.size() == 1);
}

TEST_CASE("holdings that end at a node move together") {
  PrefixNodes nodes = Path();
  HoldingTable table;
  const Slot a = Add(table, nodes, 1, 1), b = Add(table, nodes, 2, 1), c = Add(table, nodes, 3, 0);
  CHECK(table.EndingWith(nodes[1]) == b);
  table.MoveTips(nodes, 1, 0);
  CHECK(table.EndingWith(nodes[1]) == kNoSlot);
  for (const Slot h : {a, b, c}) CHECK(table.TipOf(h) == 0);
  for (const Slot h : {a, b, c}) {
    table.LeaveTip(nodes, h);
    CHECK(table.TipOf(h) == kNoSlot);
  }
  CHECK(table.EndingWith(nodes[0]) == kNoSlot);
}

TEST_CASE("a split moves holdings to the back, a merge to the parent") {
  PrefixNodes nodes = Path();
  HoldingTable table;
  const Slot a = Add(table, nodes, 1, 0);
  nodes[1].tips = nodes[0].tips;  // a copy, as the tree makes one
  table.Split(nodes, 1);
  CHECK(table.TipOf(a) == 1);
  CHECK(table.EndingWith(nodes[0]) == kNoSlot);
  table.Merge(nodes, 1);
  CHECK(table.TipOf(a) == 0);
  CHECK(table.EndingWith(nodes[0]) == a);
}

}  // namespace
}  // namespace takt::internal
