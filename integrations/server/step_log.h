// Times of steps: a table for people, and a file for cost models.
#ifndef TAKT_INTEGRATIONS_SERVER_STEP_LOG_H_
#define TAKT_INTEGRATIONS_SERVER_STEP_LOG_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine.h"

namespace serving {

// Returns a line for takt calibrate (takt/sim/step_log.h). time_s is the time of the computation, from the plan to the
// samples. `between` is the time between the last step and this one without waiting, including Plan and Commit.
std::string StepLine(const StepReport& report, takt::Duration between);

// Returns the line of an ended request, with times in seconds. takt replay reads such a file as a workload.
std::string RequestLine(const RequestReport& report);

class StepTimes {
 public:
  void Add(const StepReport& report);

  // Returns the number of steps, their times, and the share of Plan and Commit, by number of requests.
  std::string Table() const;

  // Medians over the steps with at least 90 % of the largest number of requests.
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
