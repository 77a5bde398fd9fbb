#include "takt/sim/profiles.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "catch.h"
#include "fmt/format.h"
#include "takt/sim/virtual_engine.h"

namespace takt {
namespace {

double Ms(Duration d) { return ToSeconds(d) * 1e3; }

Profile Find(std::string_view id) {
  const auto profile = FindProfile(id);
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *profile;
}

// Printed precision: half a unit of the last place, plus the rounding of decimal numbers.
bool Prints(double value, double printed, double unit) { return std::abs(value - printed) <= unit / 2 + 1e-9; }

// The calibration data, which is not part of the sources. If it is absent, warns and returns an empty path.
std::vector<Profile> Calibration() {
  const char* data = std::getenv("TAKT_DATA");
  const std::string file = (data ? data : TAKT_SOURCE_DIR "/../shared/data") + std::string("/profiles/profiles.json");
  if (!std::filesystem::exists(file)) {
    WARN("skipped: no calibration data");
    return {};
  }
  const auto profiles = ReadProfiles(file);
  INFO(profiles.status().ToString());
  REQUIRE(profiles.ok());
  return *profiles;
}

void CheckSame(const CostModel& a, const CostModel& b) {
  const auto floors = [](const SoftFloor& x, const SoftFloor& y) {
    return x.offset_ms == y.offset_ms && x.floor_ms == y.floor_ms && x.slope_ms == y.slope_ms &&
           x.sharpness == y.sharpness;
  };
  const auto attentions = [](const CostModel::Attention& x, const CostModel::Attention& y) {
    return x.constant_ms == y.constant_ms && x.per_token_ms == y.per_token_ms && x.per_context_ms == y.per_context_ms;
  };
  CHECK(a.layers == b.layers);
  CHECK(a.hidden == b.hidden);
  CHECK(a.tp == b.tp);
  CHECK(a.pp == b.pp);
  CHECK(floors(a.gemm, b.gemm));
  CHECK(floors(a.head, b.head));
  CHECK(attentions(a.prefill, b.prefill));
  CHECK(attentions(a.decode, b.decode));
  CHECK(a.all_reduce == b.all_reduce);
  CHECK(a.kv_bytes_per_token == b.kv_bytes_per_token);
  REQUIRE(a.served.has_value() == b.served.has_value());
  if (!a.served) return;
  CHECK(a.served->constant_ms == b.served->constant_ms);
  CHECK(a.served->per_decode_ms == b.served->per_decode_ms);
  CHECK(a.served->per_context_ms == b.served->per_context_ms);
  CHECK(a.served->per_prefill_ms == b.served->per_prefill_ms);
}

TEST_CASE("typical iterations equal published times") {
  struct Row {
    std::string_view id;
    double decode1, decode64, prefill, mixed;
    std::int64_t kv_tokens;
  };
  const Row rows[] = {
      {"aic/llama-3.1-8b/l40s/bf16/tp1", 24.1, 36.5, 130, 55.6, 180'244},
      {"aic/llama-3.1-8b/a100/bf16/tp1", 11.1, 17.4, 124, 42.5, 436'449},
      {"aic/llama-3.1-8b/h100/bf16/tp1", 6.4, 9.2, 43, 16.2, 436'154},
      {"aic/qwen3-32b/h100/bf16/tp2", 13.6, 17.0, 115, 39.1, 308'731},
      {"aic/llama-3.1-70b/a100/bf16/tp4", 27.9, 37.5, 375, 125.2, 463'744},
      {"aic/llama-3.1-70b/h100/bf16/tp4", 15.4, 19.5, 155, 50.8, 463'272},
      {"aic/llama-3.1-70b/h100/fp8/tp2", 17.7, 24.2, 217, 72.5, 225'223},
      {"aic/llama-3.1-70b/h100/fp8/tp8", 8.4, 13.7, 130, 47.8, 1'566'070},
      {"fit/qwen3-coder-30b-a3b/h100/fp8/tp2", 7.1, 7.9, 21, 11.3, 2'359'135},
      {"vidur/llama-2-7b/a40/bf16/tp1", 26.6, 88.4, 280, 144.2, 49'989},
  };
  for (const Row& row : rows) {
    CAPTURE(row.id);
    const Profile p = Find(row.id);
    CHECK(p.cost.Faults().empty());
    CHECK(p.kv_capacity_tokens == row.kv_tokens);
    const double decode1 = Ms(p.cost.StepTime({.decodes = 1, .decode_context = 1000, .samples = 1}));
    const double decode64 = Ms(p.cost.StepTime({.decodes = 64, .decode_context = 64'000, .samples = 64}));
    StepLoad load;
    load.AddPrefill(2048, 0, true);
    const double prefill = Ms(p.cost.StepTime(load));
    load = {};
    load.AddPrefill(512, 0, true);
    for (int i = 0; i < 63; ++i) load.AddDecode(1000);
    const double mixed = Ms(p.cost.StepTime(load));
    CAPTURE(decode1, decode64, prefill, mixed);
    CHECK(Prints(decode1, row.decode1, 0.1));
    CHECK(Prints(decode64, row.decode64, 0.1));
    CHECK(Prints(prefill, row.prefill, 1));
    CHECK(Prints(mixed, row.mixed, 0.1));
  }
}

TEST_CASE("an all-reduce equals its value by hand") {
  Profile p = Find("aic/llama-3.1-70b/h100/bf16/tp4");
  // 2048 tokens x 8192 x 2 bytes = 33,554,432: the point of 0.32188 ms, twice in each of 80 layers.
  const StepLoad load{.prefill_tokens = 2048, .samples = 1};
  const double with = Ms(p.cost.StepTime(load));
  p.cost.all_reduce.points = {{0, 0}};
  CHECK(with - Ms(p.cost.StepTime(load)) == Approx(80 * 2 * 0.32188).epsilon(1e-6));
}

TEST_CASE("pipeline stages halve the layers and pool the memory") {
  const Profile one = Find("aic/llama-3.1-70b/h100/bf16/tp4");
  const Profile two = Find("aic/llama-3.1-70b/h100/bf16/tp4/pp2");
  CHECK(two.id == "aic/llama-3.1-70b/h100/bf16/tp4/pp2");
  CHECK(two.cost.pp == 2);
  CHECK(two.kv_capacity_tokens == 1'357'170);
  const StepLoad load{.decodes = 64, .decode_context = 64'000, .samples = 64};
  // 64 x 8192 x 2 bytes = 1 MiB between two stages of one DGX H100: 0.010024 ms.
  const double head = one.cost.head.At(64);
  CHECK(Ms(two.cost.StepTime(load)) ==
        Approx((Ms(one.cost.StepTime(load)) - head) / 2 + head + 0.010024).epsilon(1e-6));
  // 16 GPUs are two servers.
  const Profile four = Find("aic/llama-3.1-70b/h100/bf16/tp4/pp4");
  CHECK(four.cost.send_recv == one.send_recv_inter);
  CHECK_FALSE(FindProfile("aic/llama-3.1-70b/h100/bf16/tp4/pp3").ok());
  CHECK_FALSE(FindProfile("e2e/llama-3.1-70b/h100/fp8/vllm/tp2/pp2").ok());
  CHECK_FALSE(WithPipeline(two, 2).ok());
  CHECK_FALSE(WithPipeline(one, 0).ok());
}

TEST_CASE("an unknown id is refused with the nearest one") {
  const auto missing = FindProfile("aic/llama-3.1-8b/h100/bf16/tp9");
  REQUIRE(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK(missing.status().ToString().find("aic/llama-3.1-8b/h100/bf16/tp1") != std::string::npos);
  CHECK(FindProfile("").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("overhead is zero unless requested") {
  const Profile p = Find("aic/llama-3.1-8b/h100/bf16/tp1");
  CHECK(p.cost.overhead_ms == 0);
  const auto modern = WithOverhead(p, "modern-cudagraph");
  REQUIRE(modern.ok());
  const StepLoad load{.decodes = 10, .decode_context = 1000, .samples = 10};
  CHECK(Ms(modern->cost.StepTime(load)) == Approx(Ms(p.cost.StepTime(load)) + 0.55).epsilon(1e-6));
  CHECK(WithOverhead(p, "none")->cost.StepTime(load) == p.cost.StepTime(load));
  CHECK(WithOverhead(p, "some").status().ToString().find("modern-cudagraph") != std::string::npos);
}

TEST_CASE("every compiled-in profile is valid and has an id") {
  for (const Profile& p : BuiltInProfiles()) {
    CAPTURE(p.id);
    CHECK(p.cost.Faults().empty());
    CHECK_FALSE(p.source.empty());
    CHECK(p.derived == p.id.starts_with("fit/"));
    CHECK(FindProfile(p.id)->kv_capacity_tokens == p.kv_capacity_tokens);
    CHECK((p.kv_capacity_tokens > 0 || p.id == "aic/llama-3.1-70b/h100/bf16/tp1"));
  }
}

TEST_CASE("the compiled-in profiles equal the calibration data") {
  const std::vector<Profile> file = Calibration();
  if (file.empty()) return;
  CHECK(file.size() == 395);
  for (const Profile& p : BuiltInProfiles()) {
    if (p.id.starts_with("lamps/") || p.id.starts_with("fit/") || !p.engine.empty()) continue;
    CAPTURE(p.id);
    const auto it = std::find_if(file.begin(), file.end(), [&](const Profile& q) { return q.id == p.id; });
    REQUIRE(it != file.end());
    CheckSame(p.cost, it->cost);
    CHECK(p.model == it->model);
    CHECK(p.gpu == it->gpu);
    CHECK(p.dtype == it->dtype);
    CHECK(p.weight_bytes == it->weight_bytes);
    CHECK(p.kv_bytes_per_token == it->kv_bytes_per_token);
    CHECK(p.kv_heads == it->kv_heads);
    CHECK(p.kv_capacity_tokens == it->kv_capacity_tokens);
    CHECK(p.gpu_memory_gib == it->gpu_memory_gib);
    CHECK(p.decode_error_pct == it->decode_error_pct);
    CHECK(p.prefill_error_pct == it->prefill_error_pct);
    CHECK(p.source == it->source);
    CHECK(p.send_recv_intra == it->send_recv_intra);
    CHECK(p.send_recv_inter == it->send_recv_inter);
  }
}

TEST_CASE("the capacity formula equals the calibration data") {
  const std::vector<Profile> file = Calibration();
  if (file.empty()) return;
  for (const Profile& p : file) {
    CAPTURE(p.id);
    if (!p.cost.served) REQUIRE(KvCapacityTokens(p) == p.kv_capacity_tokens);
  }
  // As listed there for pp 2, 4 and 8.
  CHECK(FindProfile("vidur/llama-2-7b/a100/bf16/tp1/pp8", file)->kv_capacity_tokens == 1'092'257);
  CHECK(FindProfile("aic/llama-2-70b/l40s/fp8/tp8/pp4", file)->kv_capacity_tokens == 3'663'436);
  CHECK(FindProfile("vidur/llama-2-7b/a40/bf16/tp2/pp2", file)->kv_capacity_tokens == 277'071);
}

constexpr std::string_view kSmallFile = R"({
  "net": {"allreduce/x/tp2": {"bytes": [100, 200], "ms": [0.5, 0.75]}},
  "gpus": {"x1": {"mem_gib": 10}},
  "profiles": [
    {"id": "own/tiny/x1/bf16/tp2", "model": "tiny", "gpu": "x1", "dtype": "bf16", "tp": 2, "layers": 2, "hidden": 16,
     "lin": [0, 1, 0.5, 2], "ap": [1, 2, 3], "ad": [4, 5, 6], "head": [0, 1, 1, 1], "allreduce": "allreduce/x/tp2",
     "weight_bytes": 1000, "kv_bytes_per_token": 64, "kv_heads": 1, "kv_capacity_tokens": {"pp1": 77}}],
  "e2e": [{"id": "e2e/big/x1/fp8/own/tp4", "a0": 1, "aB": 2, "aS": 0, "aQ": 3, "kv_bytes_per_token": null}]
})";

absl::StatusOr<std::vector<Profile>> ReadText(std::string text) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("takt_{}.json", std::random_device{}())).string();
  std::ofstream(path) << text;
  auto profiles = ReadProfiles(path);
  std::filesystem::remove(path);
  return profiles;
}

TEST_CASE("a user's profile file is read") {
  const auto profiles = ReadText(std::string(kSmallFile));
  INFO(profiles.status().ToString());
  REQUIRE(profiles.ok());
  REQUIRE(profiles->size() == 2);
  const auto tiny = FindProfile("own/tiny/x1/bf16/tp2", *profiles);
  REQUIRE(tiny.ok());
  CHECK(tiny->cost.all_reduce == TransferCurve{{{100, 0.5}, {200, 0.75}}});
  CHECK(tiny->cost.gemm.sharpness == 2);
  CHECK(tiny->cost.decode.per_context_ms == 6);
  CHECK(tiny->kv_capacity_tokens == 77);
  CHECK(tiny->source == "own");
  CHECK(tiny->decode_error_pct == -1);
  // (0.9 x 10 GiB - 3 GiB) x 4 GPUs, 500 bytes of weights on each pair; 2 copies of 64 bytes a token.
  CHECK(WithPipeline(*tiny, 2)->kv_capacity_tokens == (6LL * 1024 * 1024 * 1024 * 4 - 1000) / 128);
  const Profile& big = profiles->back();
  CHECK(big.cost.tp == 4);
  CHECK(big.cost.served->per_prefill_ms == 3);
  CHECK(big.kv_capacity_tokens == 0);
}

TEST_CASE("a missing or endless file is refused") {
  CHECK(ReadProfiles("/absent").status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(ReadProfiles("/").status().message()).find("cannot be read") != std::string::npos);
  CHECK(ReadProfiles("/dev/zero").status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("errors in a file name the entry, the field and the value") {
  struct Case {
    std::string_view from, to, message;
  };
  const Case cases[] = {
      {"\"layers\": 2,", "", "profiles[0] own/tiny/x1/bf16/tp2 lacks layers"},
      {"\"layers\": 2", "\"layers\": 2.5", "layers = 2.5"},
      {"\"layers\": 2", "\"layers\": \"2\"", "layers = \"2\""},
      {"\"layers\": 2", "\"layers\": 0", "layers = 0, not a whole number from 1"},
      {"\"layers\": 2", "\"layers\": 99999999999", "layers = 99999999999"},
      {"[4, 5, 6]", "[4, 5, -6]", "ad[2] = -6"},
      {"[4, 5, 6]", "[4, 5, null]", "ad[2] = null"},
      {"[4, 5, 6]", "[4, 5]", "ad = array of 2, not 3 numbers"},
      {"[4, 5, 6]", "[4, 5, NaN]", ".json:6: not JSON"},
      {"[4, 5, 6]", "[4, 5, 1e999]", ".json:6: not JSON"},
      {"[0, 1, 0.5, 2]", "[0, 1, 0.5, 0.9]", "gemm.sharpness is 0.9"},
      {"\"allreduce/x/tp2\",", "\"allreduce/y\",", "allreduce = \"allreduce/y\"; expected a name in net"},
      {"\"bytes\": [100, 200]", "\"bytes\": [100]", "net \"allreduce/x/tp2\" has invalid bytes or ms"},
      {"\"bytes\": [100, 200]", "\"bytes\": [100, 50]", "all_reduce.points[1].bytes is 50"},
      {"\"bytes\": [100, 200]", "\"bytes\": [100, \"b\"]", "all_reduce.points[1].bytes is nan"},
      {"\"mem_gib\": 10", "\"mem\": 10", "gpus.x1 lacks mem_gib"},
      {"\"mem_gib\": 10", "\"mem_gib\": -1e308", "gpus.x1 has mem_gib = -1e+308"},
      {"{\"pp1\": 77}", "{}", "kv_capacity_tokens lacks pp1"},
      {"{\"pp1\": 77}", "77", "kv_capacity_tokens is not an object"},
      {"\"aQ\": 3", "\"aQ\": true", "e2e[0] e2e/big/x1/fp8/own/tp4 has aQ = true"},
      {"own/tp4", "own/pp4", "e2e[0] e2e/big/x1/fp8/own/pp4 has an invalid id"},
      {"e2e/big/x1/fp8/own/tp4", "own/tiny/x1/bf16/tp2", "repeats the id of an earlier entry"},
      {"\"id\": \"own/tiny/x1/bf16/tp2\"", "\"id\": 5", "profiles[0] has id = 5, not a text"},
      {"\"profiles\": [", "\"profiles\": [7, ", "profiles[0] is not an object"},
      {"\"e2e\": [", "\"e2e\": 7, \"other\": [", "e2e is not an array"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.from, c.to);
    std::string text(kSmallFile);
    const std::size_t at = text.find(c.from);
    REQUIRE(at != std::string::npos);
    const auto profiles = ReadText(text.replace(at, c.from.size(), c.to));
    CHECK(profiles.status().code() == absl::StatusCode::kInvalidArgument);
    CAPTURE(profiles.status().ToString());
    CHECK(profiles.status().ToString().find(c.message) != std::string::npos);
  }
  std::string vast(kSmallFile);
  CHECK(ReadText(vast.replace(vast.find("10}"), 2, "1e299")).ok());
  CHECK_FALSE(ReadText("").ok());
  CHECK_FALSE(ReadText("[]").ok());
  CHECK_FALSE(ReadText("{}").ok());
  CHECK(ReadProfiles("/nowhere/profiles.json").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a derived profile scales by bytes per bandwidth and FLOP per peak") {
  const Profile anchor = Find("aic/llama-3.1-8b/a100/bf16/tp1");
  const auto a40 = DeriveProfile(anchor, "a40", "");
  REQUIRE(a40.ok());
  CHECK(a40->id == "derived/llama-3.1-8b/a40/bf16/tp1");
  CHECK(a40->derived);
  CHECK(a40->source == "scaled from aic/llama-3.1-8b/a100/bf16/tp1");
  const double bytes = 2039.0 / 696, flop = 312.0 / 150;
  CHECK(a40->cost.gemm.floor_ms == Approx(anchor.cost.gemm.floor_ms * bytes));
  CHECK(a40->cost.gemm.slope_ms == Approx(anchor.cost.gemm.slope_ms * flop));
  CHECK(a40->cost.head.floor_ms == Approx(anchor.cost.head.floor_ms * bytes));
  CHECK(a40->cost.head.slope_ms == Approx(anchor.cost.head.slope_ms * flop));
  CHECK(a40->cost.decode.per_context_ms == Approx(anchor.cost.decode.per_context_ms * bytes));
  CHECK(a40->cost.prefill.per_context_ms == Approx(anchor.cost.prefill.per_context_ms * flop));
  CHECK(a40->cost.gemm.offset_ms == anchor.cost.gemm.offset_ms);
  CHECK(a40->cost.decode.constant_ms == anchor.cost.decode.constant_ms);
  CHECK(a40->cost.decode.per_token_ms == anchor.cost.decode.per_token_ms);
  CHECK(a40->cost.prefill.per_token_ms == anchor.cost.prefill.per_token_ms);
  // (0.9 x 44.4 GiB - 3 GiB - 16,060,522,496) / 131,072
  CHECK(a40->kv_capacity_tokens == 180'244);

  // Another model on four GPUs: per layer 14.7e9 x 2 / 48 bytes of weights, over 4.
  const auto qwen = DeriveProfile(anchor, "", "qwen2.5-14b", 4);
  REQUIRE(qwen.ok());
  const double weights = (14.7e9 * 2 / 48 / 4) / (16060522496.0 / 32);
  CHECK(qwen->cost.layers == 48);
  // 0.031 ms of a layer on an A100 stay constant for any share of its weights.
  CHECK(qwen->cost.gemm.offset_ms + qwen->cost.gemm.floor_ms ==
        Approx(0.031 + (anchor.cost.gemm.offset_ms + anchor.cost.gemm.floor_ms - 0.031) * weights));
  CHECK(qwen->cost.gemm.slope_ms == Approx(anchor.cost.gemm.slope_ms * weights));
  CHECK(qwen->cost.head.slope_ms == Approx(anchor.cost.head.slope_ms * 5120 / 4096 / 4));
  CHECK(qwen->cost.decode.per_context_ms ==
        Approx(anchor.cost.decode.per_context_ms * (196608.0 / 48 / 4) / (131072.0 / 32)));
  CHECK(qwen->cost.prefill.per_context_ms == Approx(anchor.cost.prefill.per_context_ms * 5120 / 4096 / 4));
  CHECK(qwen->cost.all_reduce.At(1048576) == 0.026046);  // four A100 SXM
  CHECK(qwen->cost.Faults().empty());

  CHECK(DeriveProfile(anchor, "gtx", "").status().ToString().find("a6000") != std::string::npos);
  CHECK(DeriveProfile(anchor, "", "gpt-9").status().ToString().find("qwen2.5-14b") != std::string::npos);
  CHECK_FALSE(DeriveProfile(anchor, "", "", 3).ok());
  Profile odd = anchor;
  odd.dtype = "bf7";
  CHECK_FALSE(DeriveProfile(odd, "", "qwen2.5-3b").ok());
  CHECK_FALSE(DeriveProfile(Find("e2e/llama-3.1-70b/h100/fp8/vllm/tp2"), "a100", "", 4).ok());
}

// Time per output token of Llama-3.1-70B, fp8, under vLLM. The fits to served runs used 4 to 64 sequences and are
// within 4 % of these. All-reduces among four and eight are measured curves. When launch times shrank with the weights,
// derived profiles were 12 and 25 % too fast from two GPUs on.
TEST_CASE("a derived profile of more GPUs matches measured serving") {
  for (const std::int32_t tp : {4, 8}) {
    const auto derived = DeriveProfile(Find("aic/llama-3.1-70b/h100/fp8/tp2"), "", "", tp);
    REQUIRE(derived.ok());
    const PreparedCostModel ours(derived->cost, 1 << 10, 256);
    const PreparedCostModel served(Find(fmt::format("e2e/llama-3.1-70b/h100/fp8/vllm/tp{}", tp)).cost, 1 << 10, 256);
    double error = 0;
    int cases = 0;
    for (const std::int64_t context : {1536, 5120}) {
      for (const int sequences : {4, 8, 16, 32, 64}) {
        StepLoad load;
        for (int i = 0; i < sequences; ++i) load.AddDecode(context);
        error += ToSeconds(VirtualStepTime(ours, load)) / ToSeconds(VirtualStepTime(served, load)) - 1;
        ++cases;
      }
    }
    INFO("from tp 2 to " << tp << ": " << 100 * error / cases << " %");
    CHECK(std::abs(error / cases) < 0.04);
  }
}

TEST_CASE("an id may name a derived profile, from the nearest anchor") {
  struct Case {
    std::string_view id, anchor;
  };
  for (const Case& c : {Case{"derived/llama-3-8b/a40/bf16/tp1", "aic/llama-3.1-8b/a100/bf16/tp1"},
                        Case{"derived/llama-3.1-70b/l40/bf16/tp4", "aic/llama-3.1-70b/l40s/bf16/tp4"},
                        Case{"derived/llama-3.1-70b/a6000/bf16/tp8", "aic/llama-3.1-70b/a100/bf16/tp8"},
                        Case{"derived/vicuna-13b/a100-40gb/bf16/tp2", "vidur/llama-2-7b/a100/bf16/tp1"},
                        Case{"derived/vicuna-13b/a6000/bf16/tp2", "vidur/llama-2-7b/a40/bf16/tp2"},
                        Case{"derived/qwen2.5-3b/h100/bf16/tp1", "aic/llama-3.2-3b/h100/bf16/tp1"},
                        Case{"derived/deepseek-671b/h100/fp8/tp8", "e2e/deepseek-r1/h200/fp8/sglang/tp8"}}) {
    CAPTURE(c.id);
    const Profile p = Find(c.id);
    CHECK(p.id == c.id);
    CHECK(p.derived);
    CHECK(p.source == "scaled from " + std::string(c.anchor));
    CHECK(p.cost.Faults().empty());
  }
  CHECK(Find("derived/llama-3.1-70b/a6000/bf16/tp4/pp2").cost.pp == 2);
  // 689e9 bytes do not fit into eight times 80 GB. H200 and H100 compute alike, but H200 reads faster.
  const Profile deepseek = Find("derived/deepseek-671b/h100/fp8/tp8");
  CHECK(deepseek.kv_capacity_tokens == 0);
  CHECK(deepseek.cost.served->constant_ms == Approx(9.115 * 671 / 689 * 4800 / 3350));
  CHECK(deepseek.cost.served->per_prefill_ms == Approx(0.03838 * 671 / 689));
  for (const std::string_view bad :
       {"derived/llama-3-8b/a40/bf16", "derived/llama-3-8b/a40/bf16/tp0", "derived/llama-9/a40/bf16/tp1",
        "derived/llama-3-8b/gtx/bf16/tp1", "derived/llama-3-8b/a40/bf7/tp1", "derived/llama-3-8b/a40/bf16/tp3"}) {
    CAPTURE(bad);
    CHECK_FALSE(FindProfile(bad).ok());
  }
}

TEST_CASE("GPT-J and Vicuna profiles have the published constants") {
  const Profile gpt_j = Find("lamps/gpt-j-6b/a100-40gb/fp16/tp1");
  CHECK(Ms(gpt_j.cost.ForwardTime(100)) == Approx(14.63));
  CHECK(gpt_j.kv_capacity_tokens == (36'000'000'000 - 12'100'000'000) / 458'752);
  CHECK(Find("lamps/vicuna-13b/a100-40gb/fp16/tp2").kv_capacity_tokens == (72'000'000'000 - 26'000'000'000) / 819'200);
}

}  // namespace
}  // namespace takt
