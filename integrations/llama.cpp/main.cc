// llama_host: a server over libllama whose batches takt decides. docs/howto/llama_host.md
#include <cstdint>
#include <memory>
#include <string>

#include "llama_model.h"
#include "program.h"

namespace llama_host {
namespace {

using serving::Arguments;
using takt::tool::Group;
using takt::tool::Whole;

constexpr const char* kHelp = R"(Any GGUF model of full attention, on libllama; takt decides what each batch holds.)";

constexpr const char* kExamples = R"(Examples
  A server, and a question:
    llama_host --model model.gguf --serve 8000 --policy boosted_footprint --prefix-cache
    curl localhost:8000/v1/completions -d '{"prompt": "Once", "max_tokens": 20, "stream": true}'
  A trace under two policies:
    llama_host --model model.gguf --trace bundled --length-scale 0.1 --policy fcfs --policy sjf

Exit code: 0 done, 1 failed, or requests were cut, 2 wrong usage, 130 a trace was interrupted (what had ended by
then is reported).)";

class LlamaHost final : public serving::Program {
 public:
  const char* name() const override { return "llama_host"; }
  const char* help() const override { return kHelp; }
  const char* examples() const override { return kExamples; }

  void AddModel(Group group) override {
    group.Add("--model", options_.path, "FILE", "the model, in GGUF");
    group.AddFlag("--no-flash-attention", options_.no_flash,
                  "attention whose sums do not go by how many rows of a sequence stand in a batch");
    group.AddFlag("--kv-f32", options_.kv_f32, "keys and values in single precision, not half");
  }

  void AddEngine(Group group, Arguments& to) override {
    to.kv_blocks = 4096, to.block_tokens = 1;
    group.Add("--cells", to.kv_blocks, "N", "tokens that the KV cache holds, of all requests together (n_ctx)",
              Whole(1, 1 << 24));
    group.Add("--host-cells", to.cpu_blocks, "N", "tokens of KV that the host's memory may hold", Whole(0, 1 << 24));
    group.Add("--sequences", options_.sequences, "N",
              "requests that may have KV, idle ones for their prefixes too (n_seq_max) [4 * --max-seqs]",
              Whole(1, 256));
    group.Add("--saved-cells", options_.saved_cells, "N",
              "tokens of KV that the host's memory keeps of requests that have ended, for prefixes [4 * --cells]",
              Whole(0, 1 << 24));
    group.Add("--ubatch", options_.ubatch, "N", "tokens that the library computes at once (n_ubatch)",
              Whole(1, 1 << 20));
    group.Add("--fault", faults_, "K=V,...",
              "faults on purpose: no_room, aborted and move with this chance, missing_cells, seed");
  }

  absl::StatusOr<std::unique_ptr<serving::ServedModel>> Load(const Arguments& arguments) override {
    if (options_.path.empty()) return absl::InvalidArgumentError("--model FILE is needed");
    absl::StatusOr<Faults> faults = ParseFaults(faults_);
    if (!faults.ok()) return faults.status();
    options_.faults = *faults;
    return LlamaModel::Load(options_, arguments.kv_blocks);
  }

 private:
  LlamaOptions options_;
  std::string faults_;
};

}  // namespace
}  // namespace llama_host

int main(int argc, char** argv) { return llama_host::LlamaHost().Run(argc, argv); }
