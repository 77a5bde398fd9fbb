// Connects the transformer and its paged memory to an engine.
#ifndef TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_PAGED_COMPUTE_H_
#define TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_PAGED_COMPUTE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine.h"
#include "kv_memory.h"
#include "model.h"

namespace tiny {

class PagedCompute final : public ComputedKv {
 public:
  PagedCompute(const Model& model, const EngineOptions& options);

  const KvMemory& kv() const { return kv_; }

  takt::KvOracle* oracle() override { return &kv_; }
  void Arrive(takt::Request& about, std::span<const std::int32_t> prompt) override;
  void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed) override {
    kv_.Publish(request, context, computed);
  }
  bool CopyOut(takt::RequestId request, takt::Blocks count) override { return kv_.CopyOut(request, count), true; }
  bool CopyIn(takt::RequestId request) override { return kv_.CopyIn(request), true; }
  void Forget(takt::RequestId request) override { kv_.Forget(request); }
  void Room(takt::RequestId request, std::span<const std::int32_t> prompt, std::int32_t cached,
            std::int32_t tokens) override {
    kv_.Room(request, prompt, cached, tokens);
  }
  void Free(takt::RequestId request) override { kv_.Free(request); }
  void Drop(std::uint64_t hash) override { kv_.Drop(hash); }

  void Begin(const takt::StepPlan& plan) override;
  void Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) override;
  Computed Run() override { return samples_ = runner_.Step(rows_), Computed::kDone; }
  std::span<const Sample> samples() const override { return samples_; }

 private:
  takt::Tokens block_tokens_;
  bool hashes_prompts_;
  KvMemory kv_;
  Runner runner_;
  std::vector<std::uint64_t> hashes_;   // of the newest prompt
  std::vector<std::int32_t> tables_;    // of all entries, one after another
  std::vector<Row> rows_;
  std::span<const Sample> samples_;
};

}  // namespace tiny

#endif  // TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_PAGED_COMPUTE_H_
