// A call graph as inline SVG.
#ifndef TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_
#define TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_

#include <functional>
#include <string>

#include "takt/learning/call_graph.h"

namespace takt::tool {

// Layers from left to right, by the longest way from the user; feedback is drawn below, dashed; what runs side by side
// with another is drawn bold; a join that was inferred is dotted.
std::string GraphSvg(const CallGraph& graph, const std::function<std::string(AgentId)>& name);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_
