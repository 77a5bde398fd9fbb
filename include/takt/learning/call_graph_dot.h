// The learnt graph as text for Graphviz.
#ifndef TAKT_LEARNING_CALL_GRAPH_DOT_H_
#define TAKT_LEARNING_CALL_GRAPH_DOT_H_

#include <functional>
#include <string>

#include "takt/base/id.h"
#include "takt/learning/call_graph.h"

namespace takt {

// A digraph for `dot`: agents with their calls, mean execution and mean remaining time; edges with their calls and the
// share of the caller's calls that led there. Bold: ran side by side with another; dashed: feedback; dotted: a join
// that was inferred, where no record names the upstream. Names may hold anything.
std::string ToDot(const CallGraph& graph, const std::function<std::string(AgentId)>& name);

}  // namespace takt

#endif  // TAKT_LEARNING_CALL_GRAPH_DOT_H_
