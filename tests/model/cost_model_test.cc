#include "takt/model/cost_model.h"

#include <cmath>
#include <limits>

#include "catch.h"
#include "takt/base/random.h"

namespace takt {
namespace {

double Ms(Duration d) { return ToSeconds(d) * 1e3; }

// Two GPUs and two stages.
CostModel Hand() {
  CostModel m;
  m.layers = 4;
  m.hidden = 100;
  m.tp = 2;
  m.gemm = {.offset_ms = 1, .floor_ms = 3, .slope_ms = 0.5, .sharpness = 2};
  m.prefill = {.constant_ms = 0.25, .per_token_ms = 0.125, .per_context_ms = 0.5};
  m.decode = {.constant_ms = 0.5, .per_token_ms = 0.25, .per_context_ms = 0.0625};
  m.head = {.offset_ms = 2, .floor_ms = 0, .slope_ms = 1, .sharpness = 1};
  m.all_reduce = {{{1000, 1}, {2000, 3}, {4000, 4}}};
  m.kv_bytes_per_token = 1e6;
  return m;
}

TEST_CASE("a soft floor runs from floor to slope") {
  const SoftFloor f{.offset_ms = 1, .floor_ms = 3, .slope_ms = 0.5, .sharpness = 2};
  CHECK(f.At(0) == 4);
  CHECK(f.At(8) == Approx(6).epsilon(1e-15));  // 1 + sqrt(9 + 16)
  CHECK(f.At(1e9) == Approx(5e8 + 1).epsilon(1e-15));
  CHECK(SoftFloor{.offset_ms = 1}.At(5) == 1);
  const SoftFloor sharp{.offset_ms = 0, .floor_ms = 1e-5, .slope_ms = 1e-7, .sharpness = 1000};
  CHECK(sharp.At(10) == Approx(1e-5).epsilon(1e-12));  // 1e-5 to the 1000th would underflow
  CHECK(sharp.At(1000) == Approx(1e-4).epsilon(1e-12));
}

TEST_CASE("a transfer is linear between points and extends its last slope") {
  const TransferCurve c{{{1000, 1}, {2000, 3}, {4000, 4}}};
  CHECK(c.At(0) == 1);
  CHECK(c.At(1000) == 1);
  CHECK(c.At(1500) == 2);
  CHECK(c.At(2000) == 3);
  CHECK(c.At(3000) == 3.5);
  CHECK(c.At(4000) == 4);
  CHECK(c.At(8000) == 6);
  CHECK(TransferCurve{}.At(5) == 0);
  CHECK(TransferCurve{{{10, 7}}}.At(50) == 7);
}

TEST_CASE("the load of a step adds chunks and decodes") {
  StepLoad load;
  load.AddPrefill(10, 100, false);
  load.AddPrefill(3, 0, true);
  load.AddDecode(500);
  load.AddDecode(20);
  CHECK(load.prefill_tokens == 13);
  CHECK(load.prefill_work == 10 * 105 + 3 * 1.5);
  CHECK(load.decodes == 2);
  CHECK(load.decode_context == 520);
  CHECK(load.samples == 3);
  CHECK(load.tokens() == 15);
}

TEST_CASE("a step is the sum of its parts") {
  const CostModel m = Hand();
  // n = 8: gemm 6, 2 x all-reduce of 1600 bytes = 2 x 2.2.
  CHECK(Ms(m.StepTime({.prefill_tokens = 8, .prefill_work = 32, .samples = 1})) ==
        Approx(4 * (6 + 4.4 + 0.25 + 1 + 16) + 3));
  CHECK(Ms(m.StepTime({.decodes = 8, .decode_context = 80, .samples = 8})) == Approx(4 * (6 + 4.4 + 0.5 + 2 + 5) + 10));
  CHECK(Ms(m.StepTime({.prefill_tokens = 6, .prefill_work = 18, .decodes = 2, .decode_context = 16, .samples = 2})) ==
        Approx(4 * (6 + 4.4 + 0.25 + 0.75 + 9 + 0.5 + 0.5 + 1) + 4));
}

TEST_CASE("stages, overhead, one GPU and an empty step are computed") {
  const StepLoad load{.decodes = 8, .decode_context = 80, .samples = 8};
  CostModel m = Hand();
  m.pp = 2;
  m.send_recv = {{{0, 0.5}, {1600, 1.5}}};
  m.overhead_ms = 0.25;
  m.overhead_per_sample_ms = 0.125;
  CHECK(Ms(m.StepTime(load)) == Approx(2 * (6 + 4.4 + 0.5 + 2 + 5) + 10 + 0.25 + 1 + 1.5));
  CHECK(m.StepLatency(load) == 2 * m.StepTime(load));
  m = Hand();
  m.tp = 1;
  CHECK(Ms(m.StepTime(load)) == Approx(4 * (6 + 0.5 + 2 + 5) + 10));
  CHECK(m.StepTime({}) == Duration::zero());
  CHECK(m.StepTime({.decodes = -5}) == Duration::zero());
}

TEST_CASE("a fit to served runs gives the measured times") {
  CostModel m;
  m.served =
      CostModel::Served{.constant_ms = 10, .per_decode_ms = 0.5, .per_context_ms = 0.001, .per_prefill_ms = 0.05};
  m.overhead_ms = 1;
  CHECK(Ms(m.StepTime({.prefill_tokens = 100, .decodes = 4, .decode_context = 2000, .samples = 4})) ==
        Approx(10 + 2 + 2 + 5 + 1));
  CHECK(m.SaturationTokens() == 200);
}

TEST_CASE("forward time, swap time and saturation equal values by hand") {
  const CostModel m = Hand();
  CHECK(m.ForwardTime(8) == m.StepTime({.prefill_tokens = 8, .prefill_work = 32, .samples = 1}));
  CHECK(m.ForwardTime(8, 2) == m.StepTime({.prefill_tokens = 8, .prefill_work = 48, .samples = 1}));
  CHECK(m.ForwardTime(0) == Duration::zero());
  CHECK(m.SwapTime(1000) == Duration(20'000'000));  // 1 GB over two links of 25 GB/s
  CHECK(m.SaturationTokens() == 6);
}

TEST_CASE("the prepared model gives the same nanoseconds as the direct one") {
  CostModel models[3] = {Hand(), Hand(), {}};
  models[1].pp = 4;
  models[1].send_recv = {{{100, 0.003}, {20'000, 0.7}}};
  models[1].gemm.sharpness = 1.7310482;
  models[1].overhead_per_sample_ms = 0.0487;
  models[2].served = CostModel::Served{8.823, 0.06295, 1.278e-05, 0.02977};
  Random random(5);
  for (const CostModel& m : models) {
    const PreparedCostModel prepared(m, 512, 32);
    for (int i = 0; i < 3000; ++i) {
      StepLoad load;  // half of them beyond the tables
      if (random.Chance(0.7)) {
        const auto tokens = static_cast<std::int64_t>(random.Below(1000));
        load.AddPrefill(tokens, 77, random.Chance(0.5));
      }
      for (std::uint64_t b = random.Below(64); b > 0; --b) {
        load.AddDecode(static_cast<std::int64_t>(random.Below(100'000)));
      }
      REQUIRE(prepared.StepTime(load) == m.StepTime(load));
      REQUIRE(prepared.StepLatency(load) == m.StepLatency(load));
    }
    CHECK(prepared.StepTime({.decodes = 1, .samples = -1}) == m.StepTime({.decodes = 1, .samples = -1}));
  }
}

TEST_CASE("faults name every field and its value") {
  CHECK(Hand().Faults().empty());
  CHECK(CostModel{.served = CostModel::Served{1, 1, 1, 1}}.Faults().empty());

  CostModel m = Hand();
  m.layers = 0;
  m.gemm.sharpness = 0.5;
  m.head.slope_ms = -2;
  m.prefill.per_token_ms = std::numeric_limits<double>::quiet_NaN();
  m.decode.per_context_ms = std::numeric_limits<double>::infinity();
  m.all_reduce.points[2].bytes = 2000;
  m.pp = 2;
  const std::string faults = m.Faults();
  for (const char* part :
       {"layers is 0", "gemm.sharpness is 0.5", "head.slope_ms is -2", "prefill.per_token_ms is nan",
        "decode.per_context_ms is inf", "all_reduce.points[2].bytes is 2000", "size of send_recv.points is 0"}) {
    CAPTURE(part, faults);
    CHECK(faults.find(part) != std::string::npos);
  }
  CHECK(CostModel{.hidden = 8, .host_link_gb_s = 0}.Faults().find("host_link_gb_s is 0") != std::string::npos);
}

}  // namespace
}  // namespace takt
