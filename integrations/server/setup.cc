#include "setup.h"

#include <string>
#include <vector>

#include "tool/command/scheduler_settings.h"

namespace serving {

absl::StatusOr<EngineOptions> MakeEngineOptions(Arguments& arguments) {
  CommonArguments& common = arguments.common;
  takt::ReplayOptions settings;
  settings.engine.overlap = arguments.overlap ? 1 : 0;
  settings.scheduler.cpu_blocks = {arguments.cpu_blocks};
  settings.scheduler.kv_block_tokens = {arguments.block_tokens};
  std::vector<std::string> of_policies;
  for (const std::string& option : common.options) {
    if (option.starts_with("kv=") || option.starts_with("kv_watermark=")) {
      return absl::InvalidArgumentError("--option " + option + ": unsupported; this engine manages its KV itself");
    }
    const absl::StatusOr<bool> known = takt::tool::ApplySetting(option, settings);
    if (!known.ok()) return known.status();
    if (!*known) of_policies.push_back(option);
  }
  if (settings.engine.overlap > 1) {
    return absl::InvalidArgumentError("--option overlap: is invalid; expected 0 or 1 step ahead");
  }
  if (absl::Status given = takt::tool::GiveOptions(common.policies, of_policies); !given.ok()) return given;
  EngineOptions options;
  const std::string pause = settings.pause({}).spec();
  options.pause = pause.substr(0, pause.find('('));  // the supported ones have no options
  options.scheduler = settings.scheduler;
  options.scheduler.max_running = common.max_seqs;
  options.limits = settings.engine.limits;
  options.limits.tokens = {common.token_budget};
  options.limits.max_seqs = common.max_seqs;
  options.block_tokens = settings.scheduler.kv_block_tokens;
  options.gpu_blocks = {arguments.kv_blocks};
  options.cpu_blocks = settings.scheduler.cpu_blocks;
  options.prefix_cache = common.prefix_cache;
  options.retention = common.retention;
  options.gate = common.gate.empty() ? "none" : common.gate;
  if (options.retention.empty() && !common.gate.empty()) options.retention = "lru";
  options.prefix_cache |= !options.retention.empty();
  options.overlap = settings.engine.overlap > 0;
  options.awake = arguments.awake;
  options.threads = arguments.threads;
  return options;
}

absl::StatusOr<std::optional<takt::tool::OutputFile>> OpenIfNamed(const std::string& path) {
  if (path.empty()) return std::nullopt;
  absl::StatusOr<takt::tool::OutputFile> file =
      takt::tool::OutputFile::Open(path, takt::tool::OutputFile::Mode::kGrowing);
  if (!file.ok()) return file.status();
  return std::optional<takt::tool::OutputFile>(*std::move(file));
}

}  // namespace serving
