#include "takt/learning/call_graph_dot.h"

#include <algorithm>

#include "fmt/format.h"

namespace takt {
namespace {

// For a quoted string of the DOT language; what is no printable ASCII becomes '?', but for UTF-8.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  return quoted + '"';
}

// "1.4 s", "230 ms"
std::string TimeText(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", 1e3 * seconds) : fmt::format("{:.1f} s", seconds);
}

}  // namespace

std::string ToDot(const CallGraph& graph, const std::function<std::string(AgentId)>& name) {
  const auto nodes = graph.nodes();
  std::string dot = "digraph calls {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n";
  dot += "  edge [fontname=\"sans-serif\", fontsize=10];\n";
  const bool asked = std::ranges::any_of(nodes, [](const CallNode& n) { return n.first > 0; });
  if (asked) dot += "  user [shape=circle, label=\"user\"];\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const CallNode& n = nodes[i];
    std::string label = Quoted(name(n.agent));
    label.pop_back();
    label += fmt::format("\\n{} calls\\n{}, {} left\"", n.calls, TimeText(n.execution_s), TimeText(n.remaining_s));
    dot += fmt::format("  n{} [label={}];\n", i, label);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].first > 0) dot += fmt::format("  user -> n{} [label=\"{}\"];\n", i, nodes[i].first);
  }
  for (const CallEdge& e : graph.edges()) {
    const bool parallel = std::ranges::any_of(graph.siblings(), [&](const CallSiblings& s) {
      return s.from == e.from && (s.a == e.to || s.b == e.to) && s.side_by_side();
    });
    const bool back = 2 * e.feedback > e.calls;
    const std::int64_t calls = std::max<std::int64_t>(nodes[e.from].calls, 1);
    const double share = 100 * std::min(1.0, static_cast<double>(e.parents) / static_cast<double>(calls));
    dot += fmt::format("  n{} -> n{} [label=\"{}, {:.0f} %\"{}{}];\n", e.from, e.to, e.calls, share,
                       back ? ", style=dashed, constraint=false" : "", parallel ? ", penwidth=2" : "");
  }
  for (const CallJoin& join : graph.joins()) {
    if (!join.holds()) continue;
    for (const std::uint32_t member : join.members) {
      const bool told =
          std::ranges::any_of(graph.edges(), [&](const CallEdge& e) { return e.from == member && e.to == join.to; });
      if (!told) dot += fmt::format("  n{} -> n{} [style=dotted];\n", member, join.to);
    }
  }
  return dot + "}\n";
}

}  // namespace takt
