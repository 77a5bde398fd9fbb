#include "simulated_model.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine.h"
#include "fmt/format.h"
#include "prefix_chain.h"
#include "sim/typical_pace.h"
#include "takt/base/random.h"
#include "takt/model/call_time.h"

namespace simulated {

using namespace serving;  // parts shared by engines

namespace {

constexpr std::size_t kTokens = 1 << 18;  // above the vocabularies of public models
constexpr std::size_t kTokenBytes = 4;

constexpr std::array<const char*, 16> kWords = {" the",    " river", " carries", " slow",   " light",  " over",
                                                " stones", " and",   " every",   " bridge", " counts", " time",
                                                " until",  " a",     " new",     " day"};

class Filler final : public Vocabulary {
 public:
  std::size_t size() const override { return kTokens; }
  void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const override {
    for (; !text.empty(); text.remove_prefix(std::min(kTokenBytes, text.size()))) {
      std::uint64_t bytes = 0;
      for (const char c : text.substr(0, kTokenBytes)) bytes = bytes << 8 | static_cast<unsigned char>(c);
      tokens.push_back(static_cast<std::int32_t>(takt::Mix64(bytes) % kTokens));
    }
  }
  bool EncodeChat(std::span<const Message> messages, std::vector<std::int32_t>& tokens) const override {
    for (const Message& message : messages) {
      Encode(message.role, tokens);
      Encode(message.content, tokens);
    }
    return true;
  }
  void Decode(std::int32_t token, std::string& bytes) const override {
    bytes += kWords[static_cast<std::size_t>(token) % kWords.size()];
  }
  std::int32_t end_of_text() const override { return -1; }
  std::int32_t end_of_turn() const override { return -1; }
};

// No memory: takt counts the blocks. A step waits for its modelled time.
class SimulatedKv final : public ComputedKv {
 public:
  SimulatedKv(const takt::CostModel& cost, const EngineOptions& options, SimulatedTime& time)
      : cost_(cost), time_(time), block_tokens_(options.block_tokens), hashes_prompts_(options.prefix_cache) {}

  takt::KvOracle* oracle() override { return nullptr; }
  void Arrive(takt::Request& about, std::span<const std::int32_t> prompt) override {
    if (!hashes_prompts_) return;
    hashes_.clear();
    ExtendChain(hashes_, prompt, static_cast<std::size_t>(block_tokens_.value));
    about.prefix = {block_tokens_, hashes_};
  }
  void Publish(takt::RequestId, std::span<const std::int32_t>, std::size_t) override {}
  bool CopyOut(takt::RequestId, takt::Blocks) override { return true; }
  bool CopyIn(takt::RequestId) override { return true; }
  void Forget(takt::RequestId) override {}

  void Begin(const takt::StepPlan&) override { load_ = {}, samples_.clear(); }
  void Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) override {
    if (entry.prefill()) load_.AddPrefill(entry.tokens, entry.position, entry.samples());
    else load_.AddDecode(entry.position + entry.tokens);
    if (!entry.samples()) return;
    const std::uint64_t at = static_cast<std::uint32_t>(context.front()) + (std::uint64_t{context.size()} << 32);
    samples_.push_back({.token = static_cast<std::int32_t>(takt::Mix64(at) % kTokens)});
  }
  Computed Run() override {
    time_.WaitUntil(time_.now() + takt::VirtualStepTime(cost_, load_));
    return Computed::kDone;
  }
  std::span<const Sample> samples() const override { return samples_; }

 private:
  takt::PreparedCostModel cost_;
  SimulatedTime& time_;
  takt::Tokens block_tokens_;
  bool hashes_prompts_;
  std::vector<std::uint64_t> hashes_;  // of the newest prompt
  takt::StepLoad load_ = {};
  std::vector<Sample> samples_;
};

}  // namespace

const Vocabulary& FillerVocabulary() {
  static const Filler kFiller;
  return kFiller;
}

SimulatedModel::SimulatedModel(takt::Profile profile, std::int64_t kv_tokens, std::size_t max_context)
    : profile_(std::move(profile)),
      kv_tokens_(kv_tokens),
      max_context_(max_context),
      time_(takt::FromSeconds(profile_.front_end_ms / 1e3), takt::FromSeconds(profile_.front_end_token_us / 1e6)) {}

absl::StatusOr<std::unique_ptr<SimulatedModel>> SimulatedModel::Create(takt::Profile profile, std::int64_t kv_tokens,
                                                                       std::size_t max_context) {
  if (kv_tokens == 0) kv_tokens = profile.kv_capacity_tokens;
  if (kv_tokens == 0) {
    return absl::InvalidArgumentError(
        fmt::format("--kv-tokens: is needed, because {} has no capacity of its KV cache", profile.id));
  }
  return std::unique_ptr<SimulatedModel>(new SimulatedModel(std::move(profile), kv_tokens, max_context));
}

// As in takt::Replay.
void SimulatedModel::Prescribe(EngineOptions& options) const {
  const std::int64_t blocks = kv_tokens_ / std::max(options.block_tokens.value, 1);
  options.gpu_blocks = {static_cast<std::int32_t>(std::min<std::int64_t>(blocks, takt::Blocks::Max().value))};
  options.ledger = true;
  options.pace = takt::TypicalPace(profile_.cost, options.limits);
  options.scheduler.max_step_tokens = std::min(options.limits.tokens, options.limits.prefill_tokens);
  options.scheduler.max_step_seqs = options.limits.max_seqs;
}

absl::StatusOr<std::unique_ptr<ComputedKv>> SimulatedModel::Open(const EngineOptions& options) const {
  if (options.overlap) return absl::InvalidArgumentError("overlap: is unsupported with simulated steps");
  return std::make_unique<SimulatedKv>(profile_.cost, options, time_);
}

}  // namespace simulated
