// The profiles of engines: checked by hand against the models' dimensions and the GPUs' bandwidth.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "catch.h"
#include "sim/sim_workloads.h"
#include "takt/base/exact_math.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"

namespace takt {
namespace {

using testing::AtMs;
using testing::MustReplay;
using testing::Requests;

Profile Built(std::string_view id) {
  const auto profile = FindProfile(id);
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *profile;
}

double Bandwidth(std::string_view gpu) {
  const auto specs = GpuSpecs();
  const auto at = std::find_if(specs.begin(), specs.end(), [gpu](const GpuSpec& s) { return s.name == gpu; });
  REQUIRE(at != specs.end());
  return at->bandwidth_gb_s * 1e9;
}

double DecodeSeconds(const Profile& p, std::int64_t rows, std::int64_t context) {
  return ToSeconds(p.cost.StepTime({.decodes = rows, .decode_context = rows * context, .samples = rows}));
}

struct Family {
  std::string_view id;
  std::int64_t kv_bytes;  // per token
  std::int64_t kv_fixed;  // per sequence
  double read_bytes;  // weights that a step of one token must read, over all GPUs: less than the active parameters
};

// One per family of models. The KV bytes follow from each model's published dimensions.
const Family kFamilies[] = {
    // 61 layers with one latent of 512 + 64 numbers of 2 bytes.
    {"aic/deepseek-r1/h200/fp8/sglang/tp8", 61 * (512 + 64) * 2, 0, 30e9},
    {"aic/kimi-k2.5/h200/int4/vllm/tp8", 61 * (512 + 64) * 2, 0, 12e9},
    // The latent, and an index key of 128 bytes with a scale of 4 bytes.
    {"aic/glm-5/b200/fp8/sglang/tp8", 78 * ((512 + 64) * 2 + 132), 0, 30e9},
    // Keys and values of 8, 4 and 8 heads with 128 numbers.
    {"aic/qwen3-32b/h100/bf16/vllm/tp2", 64 * 2 * 8 * 128 * 2, 0, 60e9},
    {"aic/qwen3-235b-a22b/h200/fp8/vllm/tp4", 94 * 2 * 4 * 128 * 2, 0, 18e9},
    {"aic/minimax-m2.5/h100/fp8/vllm/tp4", 62 * 2 * 8 * 128 * 2, 0, 8e9},
    // 15 of 60 layers have attention: 2 heads with 256 numbers. The other 45 keep a state per sequence.
    {"aic/qwen3.5-397b-a17b/b200/fp8/sglang/tp4", 15 * 2 * 2 * 256 * 2, 192'061'440, 14e9},
    // 18 of 36 layers see all tokens, and 18 the last 128: 8 heads with 64 numbers.
    {"aic/gpt-oss-120b/h200/fp4/vllm/tp2", 18 * 2 * 8 * 64 * 2, 18 * 128 * 2 * 8 * 64 * 2, 2.5e9},
    {"aic/llama-3.1-70b/h200/fp8/vllm/tp4", 80 * 2 * 8 * 128 * 2, 0, 68e9},
    {"aic/llama-4-scout/h200/fp8/vllm/tp4", 48 * 2 * 8 * 128 * 2, 0, 14e9},
};

TEST_CASE("KV bytes and decode steps of each family agree with a calculation by hand") {
  for (const Family& f : kFamilies) {
    CAPTURE(f.id);
    const Profile p = Built(f.id);
    CHECK(p.cost.Faults().empty());
    CHECK(p.kv_bytes_per_token == f.kv_bytes);
    CHECK(p.kv_bytes_per_sequence == f.kv_fixed);
    const double bytes_per_second = Bandwidth(p.gpu) * p.cost.tp;
    // A step reads at least the weights that its tokens use. At 512 rows that is nearly all of them, and the KV.
    CHECK(DecodeSeconds(p, 1, 1000) > f.read_bytes / bytes_per_second);
    CHECK(DecodeSeconds(p, 512, 1000) > 0.9 * static_cast<double>(p.weight_bytes) / bytes_per_second);
    CHECK(DecodeSeconds(p, 512, 1000) < 12 * static_cast<double>(p.weight_bytes) / bytes_per_second);
    // Each GPU reads the KV of a token at least once, less often only if the heads are split over the GPUs.
    const double longer = DecodeSeconds(p, 64, 17'000) - DecodeSeconds(p, 64, 1000);
    CHECK(longer > 0.5 * 64 * 16'000 * static_cast<double>(f.kv_bytes) / bytes_per_second);
  }
}

TEST_CASE("a replay of one request per family takes its prefill and its decode steps") {
  for (const Family& f : kFamilies) {
    CAPTURE(f.id);
    ReplayOptions options;
    options.profile = Built(f.id);
    options.engine.limits.tokens = {8192};
    const ReplayResult result = MustReplay(Requests({{AtMs(0), {4000, 21}}}), options);
    const CostModel& c = options.profile.cost;
    // The formula of cost_model.h, written out: one prompt of 4,000 tokens, then 20 steps of one row.
    const auto floor = [](const SoftFloor& x, double more, double n) {
      const double a = x.floor_ms + more, b = x.slope_ms * n;
      return x.offset_ms + exact::Pow(exact::Pow(a, x.sharpness) + exact::Pow(b, x.sharpness), 1 / x.sharpness);
    };
    const auto token_ms = [&](double n) {
      const double read = c.experts.read_ms * (1 - exact::Pow(1 - c.experts.share, n));
      return c.layers * floor(c.gemm, read, n) + floor(c.head, 0, 1);
    };
    const double prompt = token_ms(4000) + c.layers * (c.prefill.constant_ms + c.prefill.per_token_ms * 4000 +
                                                       c.prefill.per_context_ms * 4000 * 2000);
    double decode = 0;
    for (int i = 1; i <= 20; ++i) {
      decode += token_ms(1) +
                c.layers * (c.decode.constant_ms + c.decode.per_token_ms + c.decode.per_context_ms * (4000 + i));
    }
    const RequestRecord& r = result.requests[0];
    CHECK(1e3 * ToSeconds(r.first_token - r.arrival) == Approx(prompt).epsilon(1e-5));
    CHECK(1e3 * ToSeconds(r.end - r.first_token) == Approx(decode).epsilon(1e-3));
  }
}

TEST_CASE("experts are read as tokens need them") {
  CostModel m{.layers = 1, .hidden = 1, .gemm = {.floor_ms = 1}, .experts = {.read_ms = 8, .share = 0.25}};
  const auto ms = [&m](std::int64_t rows) {
    return 1e3 * ToSeconds(m.StepTime({.decodes = rows, .decode_context = rows, .samples = rows}));
  };
  CHECK(ms(1) == Approx(1 + 8 * 0.25).epsilon(1e-6));
  CHECK(ms(2) == Approx(1 + 8 * 0.4375).epsilon(1e-6));
  CHECK(ms(100) == Approx(9).epsilon(1e-6));
  m.experts.share = 1.5;
  CHECK(m.Faults() == "1 - experts.share is -0.5, must be finite and at least 0");
  m.experts = {.read_ms = -1};
  CHECK(m.Faults() == "experts.read_ms is -1, must be finite and at least 0");
}

TEST_CASE("KV that does not grow is set aside for 256 sequences") {
  Profile p = Built("aic/gpt-oss-120b/h200/fp4/vllm/tp1");
  // (0.9 x 139.8 - 3) GiB less 60.4 GB of weights and 256 x 4,718,592 bytes, at 36,864 bytes per token.
  const double gib = 1024.0 * 1024 * 1024;
  const double room = (0.9 * 139.8 - 3) * gib - static_cast<double>(p.weight_bytes) - 256 * 4'718'592.0;
  CHECK(p.kv_capacity_tokens == static_cast<std::int64_t>(room / 36'864));
}

TEST_CASE("MLA keeps a copy of a sequence on each GPU unless attention is split by sequences") {
  const Profile tensor = Built("aic/deepseek-r1/b200/fp8/trtllm-ep8/tp8");
  const Profile data = Built("aic/deepseek-r1/b200/fp8/trtllm-ep8-dp8/tp8");
  CHECK(tensor.kv_heads == 1);
  CHECK(data.kv_heads == 0);
  CHECK(data.kv_capacity_tokens > 5 * tensor.kv_capacity_tokens);
  // Attention of 256 rows over 8 GPUs costs an eighth per row.
  CHECK(data.cost.decode.per_context_ms < 0.3 * tensor.cost.decode.per_context_ms);
}

TEST_CASE("only profiles of engines have a front end, and a file may have one") {
  CHECK(Built("aic/deepseek-r1/b200/fp4/sglang-ep8/tp8").front_end_ms == 245);
  CHECK(Built("aic/llama-3.1-70b/h200/fp8/vllm/tp4").front_end_token_us == 3);
  CHECK(Built("aic/llama-3.1-70b/h100/fp8/tp2").front_end_ms == 0);
  const std::string path = (std::filesystem::temp_directory_path() / "takt_engine_profiles_test.json").string();
  std::ofstream(path) << R"({"profiles": [{"id": "own/moe/h100/fp8/tp1", "model": "moe", "gpu": "h100", "dtype": "fp8",
      "tp": 1, "layers": 2, "hidden": 8, "lin": [0, 1, 0.5, 2], "ap": [0, 0, 0], "ad": [0, 0, 0], "head": [0, 0, 0, 1],
      "experts": [3, 0.125], "front_end": [7, 2], "kv_bytes_per_token": 10, "kv_bytes_per_sequence": 1000}]})";
  const auto read = ReadProfiles(path);
  std::filesystem::remove(path);
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  CHECK(read->front().cost.experts.read_ms == 3);
  CHECK(read->front().cost.experts.share == 0.125);
  CHECK(read->front().front_end_ms == 7);
  CHECK(read->front().front_end_token_us == 2);
  CHECK(read->front().kv_bytes_per_sequence == 1000);
}

TEST_CASE("a profile of an engine is no anchor and does not scale") {
  CHECK(DeriveProfile(Built("aic/llama-3.1-70b/h200/fp8/vllm/tp4"), "h100", "").status().code() ==
        absl::StatusCode::kInvalidArgument);
  for (const Profile& p : BuiltInProfiles()) {
    CAPTURE(p.id);
    CHECK(p.cost.Faults().empty());
    CHECK(FindProfile(p.id).ok());
  }
}

}  // namespace
}  // namespace takt
