// takt-serve: a server without a model, whose steps take the times of a profile. docs/howto/simulated_server.md
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "program.h"
#include "simulated_model.h"

namespace simulated {
namespace {

using serving::Arguments;
using takt::tool::Group;
using takt::tool::Whole;

constexpr const char* kHelp =
    R"(A server for tests of clients and gateways without a GPU. It answers as an OpenAI server, with the step times
of a profile instead of a model: the times of takt replay. Answers are filler of the requested length.)";

constexpr const char* kExamples = R"(Examples
  A server with the times of Llama 3.1 8B on an H100, and a question:
    takt-serve --simulated aic/llama-3.1-8b/h100/bf16/tp1 --port 8000
    curl localhost:8000/v1/completions -d '{"prompt": "Once", "max_tokens": 20, "stream": true}'
  Faults in one answer of ten, and a fault on request:
    takt-serve --simulated aic/llama-3.1-8b/h100/bf16/tp1 --port 8000 --fault drop=0.05,error=0.05
    curl localhost:8000/v1/completions -H 'X-Takt-Fault: damage' -d '{"prompt": "Once", "stream": true}'
  The profile that takt calibrate wrote:
    takt-serve --simulated own.json --kv-tokens 430000

Exit code: 0 done, 1 failed, or requests were cut, 2 wrong usage.)";

// Returns the named profile: the only one of a file, or one by its id.
absl::StatusOr<takt::Profile> LoadProfile(const std::string& name, const std::string& file) {
  std::vector<takt::Profile> more;
  const bool is_file = name.ends_with(".json");
  if (is_file || !file.empty()) {
    absl::StatusOr<std::vector<takt::Profile>> read = takt::ReadProfiles(is_file ? name : file);
    if (!read.ok()) return read.status();
    more = *std::move(read);
  }
  if (!is_file) return takt::FindProfile(name, more);
  if (more.size() == 1) return more.front();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} profiles; expected one, or --profiles {} with --simulated ID", name, more.size(), name));
}

class TaktServe final : public serving::Program {
 public:
  const char* name() const override { return "takt-serve"; }
  const char* help() const override { return kHelp; }
  const char* examples() const override { return kExamples; }
  bool only_serves() const override { return true; }
  void SetDefaults(Arguments& to) const override {
    to.common.token_budget = 2048;
    to.common.max_seqs = 256;
    to.http.connections = 1024;
    to.http.max_body = 1 << 24;
    to.faults = true;
  }

  void AddModel(Group group) override {
    group.Add("--simulated", profile_, "PROFILE", "take step times from this profile: a file with one, or an id")
        .Required();
    group.Add("--profiles", file_, "FILE", "read more profiles from this file");
    group.Add("--max-context", max_context_, "N", "limit prompt and output together to N tokens", Whole(1, 1 << 24));
  }
  void AddEngine(Group group, Arguments& to) override {
    group.Add("--kv-tokens", kv_tokens_, "N", "set the capacity of the KV cache, in tokens [the profile's]",
              Whole(1, INT64_MAX));
    group.Add("--block-tokens", to.block_tokens, "N", "set the tokens per block", Whole(1, 4096));
    group.Add("--retention", to.common.retention, "NAME",
              "evict blocks of the prefix cache by this policy; see 'takt policies'");
    group.Add("--gate", to.common.gate, "NAME",
              "choose which requests may evict KV that is held for other requests; see 'takt policies'");
  }

  absl::StatusOr<std::unique_ptr<serving::ServedModel>> Load(const Arguments&) override {
    absl::StatusOr<takt::Profile> profile = LoadProfile(profile_, file_);
    if (!profile.ok()) return profile.status();
    return SimulatedModel::Create(*std::move(profile), kv_tokens_, max_context_);
  }

 private:
  std::string profile_, file_;
  std::int64_t kv_tokens_ = 0;  // 0: the profile's
  std::size_t max_context_ = 1 << 20;
};

}  // namespace
}  // namespace simulated

int main(int argc, char** argv) { return simulated::TaktServe().Run(argc, argv); }
