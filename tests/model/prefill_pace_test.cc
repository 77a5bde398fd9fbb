// Prefill time of a token by its position, from a cost model.
#include "takt/model/prefill_pace.h"

#include <cmath>
#include <cstdint>

#include "catch.h"
#include "takt/sim/profiles.h"

namespace takt {
namespace {

TEST_CASE("a layered model gives attention's slope as beta, the rest as alpha") {
  CostModel cost;
  cost.layers = 4;
  cost.hidden = 8;
  cost.gemm = {.offset_ms = 1, .floor_ms = 0, .slope_ms = 0.5, .sharpness = 1};  // 1 + 0.5 n
  cost.prefill = {.constant_ms = 2, .per_token_ms = 0.25, .per_context_ms = 1e-5};
  cost.overhead_ms = 8;
  // a chunk of 100 behind d others: 4 (51 + 2 + 25 + 1e-5 (100 d + 5,000)) + 8 = 320.2 + 0.004 d [ms]
  const PrefillPace pace = PrefillPace::From(cost, 100);
  CHECK(pace.beta_ns == Approx(0.004 / 100 * 1e6));  // 40 ns a token for each token before it
  CHECK(pace.alpha_ms == Approx(3.2));  // without the pairs of the chunk itself: 320 / 100
  // the same at any position, since a chunk's time is linear in its position
  CHECK(PrefillPace::From(cost, 100, 10).beta_ns == Approx(pace.beta_ns).epsilon(1e-3));
  // in smaller chunks each token pays more of a step's fixed cost
  CHECK(PrefillPace::From(cost, 10).alpha_ms == Approx((4 * (6 + 2 + 2.5) + 8) / 10));
}

TEST_CASE("a fit to served runs gives no slope") {
  CostModel cost;
  cost.served = CostModel::Served{.constant_ms = 5, .per_prefill_ms = 0.1};
  cost.overhead_ms = 1;
  const PrefillPace pace = PrefillPace::From(cost, 50);
  CHECK(pace.alpha_ms == Approx(11.0 / 50));
  CHECK(pace.beta_ns == 0);
}

TEST_CASE("an invalid chunk or depth counts as one token") {
  CostModel cost;
  cost.served = CostModel::Served{.constant_ms = 5, .per_prefill_ms = 1};
  CHECK(PrefillPace::From(cost, 0, 0) == PrefillPace::From(cost, 1, 1));
  CHECK(PrefillPace::From(cost, -7).alpha_ms == Approx(6));
  CHECK(PrefillPace::From(CostModel(), 100).alpha_ms == 0);
  CHECK(PrefillPace::From(CostModel(), 100).beta_ns == 0);
  cost.kv_bytes_per_token = 1e6;
  CHECK(PrefillPace::From(cost, 1).load_ms == Approx(1e6 / (cost.host_link_gb_s * 1e9) * 1e3));
}

TEST_CASE("Llama-3.1-70B fp8 on 8 H100 has the pace computed by hand") {
  const auto profile = FindProfile("aic/llama-3.1-70b/h100/fp8/tp8");
  REQUIRE(profile.ok());
  constexpr std::int64_t kChunk = 4096;
  const PrefillPace pace = PrefillPace::From(profile->cost, kChunk);
  const double gemm =
      0.00409613 + std::pow(std::pow(0.07758736, 1.15544829) + std::pow(0.0003968 * 4096, 1.15544829), 1 / 1.15544829);
  const double attention = 0.0127414 + 3.122e-6 * 4096;  // without the pairs of the chunk itself, which beta counts
  const double all_reduce = 2 * 0.69755;                 // of 2 times 4,096 times 8,192 bytes
  const double head = 0.1386459;
  CHECK(pace.alpha_ms == Approx((80 * (gemm + attention + all_reduce) + head) / 4096).epsilon(1e-5));
  CHECK(pace.beta_ns == Approx(80 * 6.82552e-9 * 1e6).epsilon(1e-5));
  CHECK(pace.beta_ns == Approx(PrefillPace{}.beta_ns).epsilon(1e-3));
  double seconds = 0;
  constexpr std::int64_t kTokens = 26 * kChunk;
  for (std::int64_t before = 0; before < kTokens; before += kChunk) {
    StepLoad load;
    load.AddPrefill(kChunk, before, false);
    seconds += ToSeconds(profile->cost.StepTime(load));
  }
  const auto n = static_cast<double>(kTokens);
  CHECK(seconds == Approx(pace.alpha_ms * 1e-3 * n + pace.beta_ns * 1e-9 * n * n / 2).epsilon(1e-3));
}

}  // namespace
}  // namespace takt
