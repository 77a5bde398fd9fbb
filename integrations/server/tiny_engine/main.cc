// tiny_engine: plays a trace in real time, or serves HTTP. docs/howto/tiny_engine.md
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "model.h"
#include "program.h"

namespace tiny {
namespace {

using takt::tool::Group;
using takt::tool::Whole;

constexpr const char* kHelp =
    R"(A transformer on this computer's processor that serves many requests at once; takt decides what each step runs.
Weights are random, so answers are meaningless, but their timing is real.)";

constexpr const char* kExamples = R"(Examples
  A server, and a question:
    tiny_engine --serve 8000 --policy sjf
    curl localhost:8000/v1/completions -d '{"prompt": "Once", "max_tokens": 20, "stream": true}'
  Replay a real trace with lengths of an eighth under three policies:
    tiny_engine --trace azure_llm_2023_conv.csv.gz --limit 200 --length-scale 0.125 --rate-scale 4 \
      --policy fcfs --policy sjf --policy stjf
  Write the time of every step for takt calibrate, and a log for takt replay-log:
    tiny_engine --trace bundled --length-scale 0.1 --steps steps.jsonl --log run.log
    takt replay-log run.log

Exit code: 0 done, 1 failed, or requests were cut, 2 wrong usage, 130 a trace was interrupted (what had ended by
then is reported).)";

// kv_heads = heads / 2 in all of them.
const std::pair<const char*, ModelConfig> kSizes[] = {
    {"1M", {.layers = 6, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 352, .vocab = 272}},
    {"3M", {.layers = 8, .hidden = 192, .heads = 6, .kv_heads = 3, .ffn = 512, .vocab = 272}},
    {"10M", {.layers = 9, .hidden = 320, .heads = 10, .kv_heads = 5, .ffn = 848, .vocab = 272}},
    {"30M", {.layers = 10, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1376, .vocab = 272}},
    {"60M", {.layers = 13, .hidden = 640, .heads = 10, .kv_heads = 5, .ffn = 1712, .vocab = 272}},
    {"100M", {.layers = 15, .hidden = 768, .heads = 12, .kv_heads = 6, .ffn = 2048, .vocab = 272}},
};

// InvalidArgument lists the sizes.
absl::StatusOr<ModelConfig> SizeNamed(const std::string& name) {
  std::string known;
  for (const auto& [size, config] : kSizes) {
    if (name == size) return config;
    known += (known.empty() ? "" : ", ") + std::string(size);
  }
  return absl::InvalidArgumentError("--model: unknown '" + name + "'; expected one of " + known);
}

class TinyEngine final : public Program {
 public:
  const char* name() const override { return "tiny_engine"; }
  const char* help() const override { return kHelp; }
  const char* examples() const override { return kExamples; }

  void AddModel(Group group) override {
    group.Add("--model", size_, "SIZE", "make a model of 1M, 3M, 10M, 30M, 60M or 100M random weights");
    group.Add("--model-seed", seed_, "N", "seed the weights", Whole(0, INT64_MAX));
    group.Add("--max-context", max_context_, "N", "limit prompt and output together to N tokens", Whole(1, 1 << 20));
    group.Add("--weights", weights_, "FILE", "load this saved model instead");
    group.Add("--save-weights", save_weights_, "FILE", "save the model");
  }

  void AddEngine(Group group, Arguments& to) override {
    group.Add("--kv-blocks", to.kv_blocks, "N", "set the size of the KV cache, in blocks", Whole(1, 1 << 24));
    group.Add("--block-tokens", to.block_tokens, "N", "set the tokens per block", Whole(1, 4096));
    group.Add("--cpu-blocks", to.cpu_blocks, "N", "set the host memory for swapped KV, in blocks", Whole(0, 1 << 24));
    group.Add("--retention", to.common.retention, "NAME",
              "let takt manage the KV blocks and evict them by this policy; see 'takt policies'");
    group.Add("--gate", to.common.gate, "NAME",
              "choose which requests may evict KV that is held for other requests; see 'takt policies'");
    group.AddFlag("--overlap", to.overlap, "plan a step while the previous one runs");
    group.AddFlag("--awake", to.awake, "with --overlap: wait for a step in a busy loop, which takes a core");
  }

  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const Arguments&) override {
    absl::StatusOr<Model> model;
    if (!weights_.empty()) {
      model = Model::Load(weights_);
    } else {
      absl::StatusOr<ModelConfig> config = SizeNamed(size_);
      if (!config.ok()) return config.status();
      config->max_context = max_context_;
      model = Model::Random(*config, seed_);
      std::string name = "tiny-" + size_;
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      model->Rename(std::move(name));
    }
    if (!model.ok()) return model.status();
    if (!save_weights_.empty()) {
      if (absl::Status saved = model->Save(save_weights_); !saved.ok()) return saved;
    }
    return std::make_unique<Model>(*std::move(model));
  }

 private:
  std::string size_ = "3M";
  std::string weights_;  // path of a file to load instead
  std::string save_weights_;
  std::uint64_t seed_ = 1;
  std::size_t max_context_ = 4096;
};

}  // namespace
}  // namespace tiny

int main(int argc, char** argv) { return tiny::TinyEngine().Run(argc, argv); }
