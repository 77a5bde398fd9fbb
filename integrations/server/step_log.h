// What each step took: for people as a table, for cost models as a file.
#ifndef TAKT_INTEGRATIONS_SERVER_STEP_LOG_H_
#define TAKT_INTEGRATIONS_SERVER_STEP_LOG_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine.h"

namespace serving {

// A line for takt calibrate (takt/sim/step_log.h): time_s is that of the arithmetic, from the plan to the samples,
// `between` what came between the last step and this one without waiting, Plan and Commit included.
std::string StepLine(const StepReport& report, takt::Duration between);

class StepTimes {
 public:
  void Add(const StepReport& report);

  // By the number of requests in the step: how many steps, what they took, and what of it went into Plan and Commit.
  std::string Table() const;

  // Medians over the steps that had the most requests (at least 90 % of the largest number).
  struct Peak {
    std::size_t requests = 0;  // the largest number
    double step_s = 0, plan_s = 0;
  };
  Peak peak() const;

 private:
  struct Times {
    std::vector<double> step_s, plan_s;
  };

  std::map<std::size_t, Times> by_requests_;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_STEP_LOG_H_
