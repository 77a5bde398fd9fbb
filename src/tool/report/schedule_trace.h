// The schedule of a run in the Chrome trace event format, which ui.perfetto.dev reads.
#ifndef TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_
#define TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "takt/base/time.h"
#include "takt/model/step.h"
#include "takt/sim/metrics.h"
#include "takt/sim/virtual_engine.h"
#include "takt/workload/workload.h"

namespace takt::tool {

class OutputFile;

// Records the first requests of a run step by step, and the steps until the last of these requests has ended.
class ScheduleTrace {
 public:
  // `workload` must outlive this object.
  ScheduleTrace(const Workload& workload, std::size_t requests);

  void OnStep(const VirtualStep& step);

  // Adds the time before each request's first step and after its last. Call it after the run.
  void Finish(std::span<const RequestRecord> records);

  enum class Phase : std::uint8_t { kQueued, kPrefill, kDecode, kPreempted, kTool, kHeld };

  struct Slice {
    std::uint32_t request = 0;  // index of the workload's call
    Phase phase = Phase::kQueued;
    TimePoint start{}, end{};
    std::int64_t tokens = 0;
    std::uint16_t instance = 0;  // 0 for a request that never ran
  };
  struct Step {
    std::uint16_t instance = 0;
    TimePoint start{}, end{};
    std::int32_t rows = 0, prefill_tokens = 0, decode_tokens = 0;
    WaitsFor head = WaitsFor::kNothing;  // why the first waiting request did not run
  };

  const std::vector<Slice>& slices() const { return slices_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  struct Open {
    Slice slice;
    std::int64_t output = 0;  // its tokens so far
    std::uint16_t first_instance = 0;
    bool ran = false;
    bool preempted = false;  // since its last step
  };

  void Extend(const Slice& next);

  const Workload* workload_;
  std::vector<Open> open_;
  std::vector<Slice> slices_;
  std::vector<Step> steps_;
  TimePoint last_seen_{};  // end of the last step that ran a recorded request
  std::size_t finished_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_
