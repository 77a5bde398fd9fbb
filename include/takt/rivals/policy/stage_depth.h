// Ayo: ranks by the number of stages left in the workflow.
#ifndef TAKT_RIVALS_POLICY_STAGE_DEPTH_H_
#define TAKT_RIVALS_POLICY_STAGE_DEPTH_H_

#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/policy/books/agent_table.h"

namespace takt {

// Requests of agents with the fewest remaining stages come first, by the newest table of an Epoch. Equal requests are
// ordered by arrival. The time of a stage does not count. Source: Tan et al., Towards End-to-End Optimization of
// LLM-based Applications with Ayo (ASPLOS 2025), as described in Kairos, section 2.2. Departure: stages are counted
// from the agent's place in the call graph, learnt or declared.
class StageDepth : public AgentTable {
 public:
  static constexpr std::string_view kName = "stage_depth";

  bool fewest_first = true;

  RankKey Key(const RequestState&) const { return {}; }
  RankKey GroupKey(std::uint64_t agent) const {
    const std::int32_t stages = Of(agent).stages_left;
    return {static_cast<double>(fewest_first ? stages : -stages)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("fewest_first", self.fewest_first, OptionText{"", "false: agents with the most remaining stages come first"});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_STAGE_DEPTH_H_
