#include "takt/scheduler_options.h"

#include <fmt/format.h>

#include <string>

namespace takt {

absl::Status SchedulerOptions::Validate() const {
  std::string faults;
  const auto expect = [&faults](bool fine, const char* field, auto value, const char* wish) {
    if (!fine) faults += fmt::format("{}{} is {}: {}", faults.empty() ? "" : "\n", field, value, wish);
  };
  expect(max_running >= 1 && max_running <= 1 << 20, "max_running", max_running, "must be 1 to 1048576");
  expect(max_waiting >= 0, "max_waiting", max_waiting, "must not be negative");
  expect(reserve_requests >= 0 && reserve_requests <= 1 << 28, "reserve_requests", reserve_requests,
         "must be 0 to 268435456");
  expect(preempt_action == KvAction::kDrop || preempt_action == KvAction::kOut, "preempt_action", Name(preempt_action),
         "must be drop or out");
  expect(preempt_margin >= 0, "preempt_margin", preempt_margin, "must not be negative");
  expect(admission_window >= 1, "admission_window", admission_window, "must be at least 1");
  expect(first_step.value >= 1 && first_step.value <= std::uint64_t{1} << 63, "first_step", first_step.value,
         "must be 1 to 2^63");
  expect(max_step_tokens.value >= 0, "max_step_tokens", max_step_tokens.value, "must not be negative");
  expect(max_step_seqs >= 0, "max_step_seqs", max_step_seqs, "must not be negative");
  expect(cpu_blocks.value >= 0, "cpu_blocks", cpu_blocks.value, "must not be negative");
  if (kv == KvMode::kLedger) {
    expect(kv_blocks.value >= 1, "kv_blocks", kv_blocks.value, "must be at least 1 where the library counts KV");
    expect(kv_block_tokens.value >= 1 && kv_block_tokens.value <= 1 << 20, "kv_block_tokens", kv_block_tokens.value,
           "must be 1 to 1048576");
    expect(kv_watermark >= 0 && kv_watermark < 1, "kv_watermark", kv_watermark, "must be in [0, 1)");
  }
  return faults.empty() ? absl::OkStatus() : absl::InvalidArgumentError(faults);
}

}  // namespace takt
