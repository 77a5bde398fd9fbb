// A call graph as inline SVG.
#ifndef TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_
#define TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_

#include <functional>
#include <string>

#include "takt/learning/call_graph.h"

namespace takt::tool {

// Layers go from left to right, by the longest path from the user. Feedback is dashed and below. Parallel calls are
// bold. An inferred join is dotted.
std::string GraphSvg(const CallGraph& graph, const std::function<std::string(AgentId)>& name);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_REPORT_GRAPH_FIGURE_H_
