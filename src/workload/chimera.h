// Workflows in the shape of Chimera's experiments, drawn one at a time.
#ifndef TAKT_SRC_WORKLOAD_CHIMERA_H_
#define TAKT_SRC_WORKLOAD_CHIMERA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "takt/base/random.h"
#include "takt/workload/generate.h"
#include "workload/builder.h"

namespace takt {

class ChimeraGenerator {
 public:
  // Names the models and features in `workload`. `shape.model` is one of them.
  ChimeraGenerator(const ChimeraShape& shape, std::int32_t max_prompt_tokens, std::int32_t max_output_tokens,
                   Workload& workload);

  static bool Knows(const std::string& model);
  static std::vector<std::string> Models();

  // The calls of one workflow; of `head`, name and solved_by are set.
  std::vector<CallDraft> Draw(Random& random, WorkloadBuilder& builder, WorkloadWorkflow& head) const;

 private:
  ChimeraDataset dataset_;
  std::size_t model_;
  std::int32_t max_prompt_tokens_, max_output_tokens_;
  std::vector<double> mu_, sigma_;  // of the log of the total output, by model
  std::vector<double> ease_;        // the success' logit where the difficulty is zero, by model
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_CHIMERA_H_
