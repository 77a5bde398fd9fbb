// Draws workflows like those of Chimera's experiments, one at a time.
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
  // Adds the names of models and features to `workload`. `shape.model` must be one of these models.
  ChimeraGenerator(const ChimeraShape& shape, std::int32_t max_prompt_tokens, std::int32_t max_output_tokens,
                   Workload& workload);

  static bool Knows(const std::string& model);
  static std::vector<std::string> Models();

  // Draws the calls of one workflow. Sets name and solved_by of `head`.
  std::vector<CallDraft> Draw(Random& random, WorkloadBuilder& builder, WorkloadWorkflow& head) const;

 private:
  ChimeraDataset dataset_;
  std::size_t model_;
  std::int32_t max_prompt_tokens_, max_output_tokens_;
  std::vector<double> mu_, sigma_;  // of the log of the total output, per model
  std::vector<double> ease_;  // logit of success at difficulty zero, per model
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_CHIMERA_H_
