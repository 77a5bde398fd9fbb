// The schedule itself, in the Chrome trace event format, which ui.perfetto.dev reads.
#ifndef TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_
#define TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "takt/base/time.h"
#include "takt/sim/metrics.h"
#include "takt/sim/virtual_engine.h"
#include "takt/workload/workload.h"

namespace takt::tool {

class OutputFile;

// What became of the first requests of a run, step by step, and the steps themselves until the last of them has ended.
class ScheduleTrace {
 public:
  // `workload` must outlive this.
  ScheduleTrace(const Workload& workload, std::size_t requests);

  void OnStep(const VirtualStep& step);

  // When the run is over: what preceded a request's first step, and followed its last.
  void Finish(std::span<const RequestRecord> records);

  enum class Phase : std::uint8_t { kQueued, kPrefill, kDecode, kPreempted, kTool, kHeld };

  struct Slice {
    std::uint32_t request = 0;  // call of the workload
    Phase phase = Phase::kQueued;
    TimePoint start{}, end{};
    std::int64_t tokens = 0;
  };
  struct Step {
    std::uint16_t instance = 0;
    TimePoint start{}, end{};
    std::int32_t rows = 0, prefill_tokens = 0, decode_tokens = 0;
  };

  const std::vector<Slice>& slices() const { return slices_; }
  const std::vector<Step>& steps() const { return steps_; }
  // Instance of each request; of one that never ran, 0.
  const std::vector<std::uint16_t>& instances() const { return instances_; }

 private:
  struct Open {
    Slice slice;
    bool ran = false;
    bool preempted = false;  // since it ran last
  };

  void Extend(std::uint32_t request, Phase phase, TimePoint start, TimePoint end, std::int64_t tokens);

  const Workload* workload_;
  std::vector<Open> open_;
  std::vector<Slice> slices_;
  std::vector<Step> steps_;
  std::vector<std::uint16_t> instances_;
  TimePoint last_seen_{};  // end of the last step that ran one of them
  std::size_t finished_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_SCHEDULE_TRACE_H_
