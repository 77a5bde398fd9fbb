// llama_host: a server on libllama whose batches takt plans. docs/howto/llama_host.md
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
    llama_host --model model.gguf --serve 8000 --policy room_to_pass --prefix-cache
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
    group.Add("--model", options_.path, "FILE", "GGUF file of the model");
    group.AddFlag("--no-flash-attention", options_.no_flash, "use attention whose sums do not depend on the batch");
    group.AddFlag("--kv-f32", options_.kv_f32, "keep keys and values in single precision, not half");
  }

  void AddEngine(Group group, Arguments& to) override {
    to.kv_blocks = 4096, to.block_tokens = 1;
    group.Add("--cells", to.kv_blocks, "N", "tokens in the KV cache for all requests (n_ctx)", Whole(1, 1 << 24));
    group.Add("--host-cells", to.cpu_blocks, "N", "tokens of KV in host memory, at most", Whole(0, 1 << 24));
    group.Add("--sequences", options_.sequences, "N",
              "requests with KV, including idle ones kept as prefixes (n_seq_max) [4 * --max-seqs]", Whole(1, 256));
    group.Add("--saved-cells", options_.saved_cells, "N",
              "tokens of KV in host memory for ended requests, reused as prefixes [4 * --cells]", Whole(0, 1 << 24));
    group.Add("--ubatch", options_.ubatch, "N", "tokens per library call (n_ubatch)", Whole(1, 1 << 20));
    group.Add("--fault", faults_, "K=V,...",
              "inject faults: probabilities no_room, aborted and move; missing_cells; seed");
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
