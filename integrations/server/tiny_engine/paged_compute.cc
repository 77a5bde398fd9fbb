#include "paged_compute.h"

namespace tiny {

PagedCompute::PagedCompute(const Model& model, const EngineOptions& options)
    : block_tokens_(options.block_tokens),
      hashes_prompts_(options.prefix_cache),
      kv_(KvLayout(model.config(), static_cast<std::size_t>(options.block_tokens.value)).block(), options.block_tokens,
          options.gpu_blocks, options.cpu_blocks, options.prefix_cache, !options.retention.empty()),
      runner_(model, KvLayout(model.config(), static_cast<std::size_t>(options.block_tokens.value)), kv_.arena(),
              options.threads) {}

void PagedCompute::Arrive(takt::Request& about, std::span<const std::int32_t> prompt) {
  if (!hashes_prompts_) return;
  hashes_.clear();
  ExtendChain(hashes_, prompt, static_cast<std::size_t>(block_tokens_.value));
  about.prefix = {block_tokens_, hashes_};
}

void PagedCompute::Begin(const takt::StepPlan& plan) {
  rows_.clear(), tables_.clear();
  std::size_t blocks = 0;
  for (const takt::PlanEntry& entry : plan.run) blocks += kv_.table(entry.request).size();
  tables_.reserve(blocks);  // rows point into it, so it must not grow
}

// Adds a row for each of the entry's tokens. The block table is copied, because the scheduler may change it while the
// step runs.
void PagedCompute::Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) {
  const auto table = kv_.table(entry.request);
  const std::size_t at = tables_.size();
  tables_.insert(tables_.end(), table.begin(), table.end());
  const auto blocks = std::span(tables_).subspan(at, table.size());
  const std::int32_t end = entry.position + entry.tokens;
  for (std::int32_t position = entry.position; position < end; ++position) {
    rows_.push_back({.token = context[static_cast<std::size_t>(position)],
                     .position = position,
                     .blocks = blocks,
                     .samples = entry.samples() && position == end - 1});
  }
}

absl::StatusOr<std::unique_ptr<ComputedKv>> Model::Open(const EngineOptions& options) const {
  return std::make_unique<PagedCompute>(*this, options);
}

}  // namespace tiny
