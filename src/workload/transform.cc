#include "takt/workload/transform.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/workload/validate.h"
#include "workload/builder.h"

namespace takt {

Workload Tidied(const Workload& workload) {
  WorkloadBuilder builder;
  CopyHead(workload, builder.workload());
  for (const WorkloadWorkflow& w : workload.workflows) Copy(workload, w, builder);
  return std::move(builder.workload());
}

absl::Status ScaleRate(Workload& workload, double factor) {
  const double last = workload.workflows.empty() ? 0 : ToSeconds(workload.workflows.back().arrival);
  if (!(factor > 0) || !std::isfinite(factor) || !(last / factor <= ToSeconds(kMaxWorkloadTime))) {
    return absl::InvalidArgumentError(
        fmt::format("rate scale: {} is invalid; expected a positive number that keeps arrivals within 1e9 s", factor));
  }
  for (WorkloadWorkflow& w : workload.workflows) w.arrival = TimePoint(FromSeconds(ToSeconds(w.arrival) / factor));
  return absl::OkStatus();
}

absl::Status ScaleLengths(Workload& workload, double factor) {
  const auto wrong = [factor] {
    return absl::InvalidArgumentError(
        fmt::format("length scale: {} is invalid; expected a positive number that keeps contexts within {} tokens",
                    factor, kMaxContextTokens));
  };
  if (!(factor > 0) || !std::isfinite(factor)) return wrong();
  const auto scaled = [factor](std::int32_t tokens, std::int64_t least) {
    const double most = kMaxContextTokens;
    const auto rounded = static_cast<std::int64_t>(std::min(std::round(tokens * factor), most));
    return static_cast<std::int32_t>(std::min<std::int64_t>(std::max(least, rounded), kMaxContextTokens));
  };
  workload.prefix_block_tokens = scaled(workload.prefix_block_tokens, 1);
  for (std::int32_t& tokens : workload.model_tokens) tokens = scaled(tokens, 1);
  for (WorkloadCall& call : workload.calls) {
    const auto tools = static_cast<std::int32_t>(call.tools);
    // The last block must begin inside the prompt.
    std::int64_t blocks = call.hashes;
    for (const PrefixRun& run : workload.runs_of(call)) blocks += run.count;
    const std::int64_t before_last = blocks > 0 ? (blocks - 1) * workload.prefix_block_tokens : 0;
    call.prompt_tokens = scaled(call.prompt_tokens, before_last + 1);
    call.output_tokens = scaled(call.output_tokens, std::int64_t{tools} + 1);
    std::int64_t context = std::int64_t{call.prompt_tokens} + call.output_tokens;
    std::int32_t before = 0;
    for (std::int32_t i = 0; i < tools; ++i) {
      WorkloadTool& tool = workload.tools[call.first_tool + static_cast<std::uint32_t>(i)];
      before = std::clamp(scaled(tool.after_tokens, 1), before + 1, call.output_tokens - (tools - i));
      tool.after_tokens = before;
      tool.returned_tokens = scaled(tool.returned_tokens, 0);
      context += tool.returned_tokens;
    }
    if (context > kMaxContextTokens) return wrong();
  }
  if (!workload.models.empty() && !Validate(workload).ok()) return wrong();
  return absl::OkStatus();
}

absl::Status SetArrivals(Workload& workload, std::span<const TimePoint> arrivals) {
  if (arrivals.size() != workload.workflows.size()) {
    return absl::InvalidArgumentError(
        fmt::format("arrivals: {} entries; expected {}, one per workflow", arrivals.size(), workload.workflows.size()));
  }
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    if (arrivals[i] >= arrivals[i - 1] && Between(arrivals[0], arrivals[i]) <= kMaxWorkloadTime) continue;
    return absl::InvalidArgumentError(
        fmt::format("arrivals[{}]: {} s is invalid; expected ascending times up to 1e9 s", i, ToSeconds(arrivals[i])));
  }
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    workload.workflows[i].arrival = TimePoint(Between(arrivals[0], arrivals[i]));
  }
  return absl::OkStatus();
}

absl::Status SetDeadlines(Workload& workload, std::span<const Duration> alone, double scale) {
  if (alone.size() != workload.workflows.size()) {
    return absl::InvalidArgumentError(
        fmt::format("deadlines: {} durations; expected {}, one per workflow", alone.size(), workload.workflows.size()));
  }
  if (!(scale >= 0) || !std::isfinite(scale)) {
    return absl::InvalidArgumentError(
        fmt::format("deadline scale: {} is invalid; expected a number of at least 0", scale));
  }
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const Duration deadline = FromSeconds(std::max(0.0, ToSeconds(alone[i])) * scale);
    workload.workflows[i].deadline = deadline <= kMaxWorkloadTime ? deadline : Duration::max();
  }
  return absl::OkStatus();
}

absl::Status DrawAdapters(Workload& workload, std::int64_t adapters, double exponent, std::uint64_t seed) {
  if (adapters < 1 || adapters > kMaxWorkloadAdapters) {
    return absl::InvalidArgumentError(
        fmt::format("adapters: {} is invalid; expected 1 to {}", adapters, kMaxWorkloadAdapters));
  }
  if (!(exponent >= 0 && exponent <= 10)) {
    return absl::InvalidArgumentError(fmt::format("adapter exponent: {} is invalid; expected 0 to 10", exponent));
  }
  std::vector<double> sums;  // of the first weights
  double sum = 0;
  for (std::int64_t k = 1; k <= adapters; ++k) {
    sum += exact::Pow(static_cast<double>(k), -exponent);
    sums.push_back(sum);
  }
  constexpr std::uint64_t kStream = 0x61646170746572;  // differs from other random streams of the same seed
  Random random(seed ^ kStream);
  for (const WorkloadWorkflow& w : workload.workflows) {
    const double drawn = Rounded(random.Uniform() * sum);
    const auto at = std::upper_bound(sums.begin(), sums.end() - 1, drawn);
    for (WorkloadCall& call : std::span(workload.calls).subspan(w.first_call, w.calls)) {
      call.adapter = static_cast<std::uint32_t>(at - sums.begin()) + 1;
    }
  }
  return absl::OkStatus();
}

void LimitTools(Workload& workload, std::uint32_t most) {
  for (WorkloadCall& call : workload.calls) {
    if (call.tools <= most) continue;
    call.output_tokens = workload.tools[call.first_tool + most].after_tokens;
    call.tools = most;
  }
  workload = Tidied(workload);
}

void Truncate(Workload& workload, std::size_t workflows) {
  if (workflows >= workload.workflows.size()) return;
  workload.workflows.resize(workflows);
  workload = Tidied(workload);
}

absl::StatusOr<Workload> Merge(std::span<const Part> parts) {
  WorkloadBuilder builder;
  std::uint64_t part = 0;
  for (const auto& [workload, starts] : parts) {
    Workload& merged = builder.workload();
    if (starts < Duration::zero()) return absl::InvalidArgumentError("merge: start is negative; expected at least 0");
    if (part == 0) {
      CopyHead(*workload, merged);
      merged.name.clear();
    }
    if (merged.models != workload->models || merged.feature_names != workload->feature_names) {
      return absl::InvalidArgumentError("merge: the workloads have different models or features; expected the same");
    }
    if (merged.tenant_names != workload->tenant_names) {
      return absl::InvalidArgumentError("merge: the workloads have different names of tenants; expected the same");
    }
    if (merged.prefix_block_tokens != workload->prefix_block_tokens &&
        !(workload->prefix_hashes.empty() && workload->prefix_runs.empty())) {
      return absl::InvalidArgumentError(fmt::format("merge: prefix blocks have {} and {} tokens; expected one size",
                                                    merged.prefix_block_tokens, workload->prefix_block_tokens));
    }
    merged.name += (part > 0 ? "+" : "") + workload->name;
    for (WorkloadWorkflow w : workload->workflows) {
      if (w.arrival.time_since_epoch() > Difference(kMaxWorkloadTime, starts)) {
        return absl::InvalidArgumentError("merge: the last arrival is too late; expected at most 1e9 s");
      }
      w.arrival = After(w.arrival, starts);
      Copy(*workload, w, builder, [part](std::uint64_t hash) { return part == 0 ? hash : Mix64(hash ^ Mix64(part)); });
    }
    ++part;
  }
  builder.Finish();
  return std::move(builder.workload());
}

}  // namespace takt
