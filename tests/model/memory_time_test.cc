#include "takt/model/memory_time.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "catch.h"

namespace takt {
namespace {

using nlohmann::json;

// Computes the area by brute force, as the sum of trapezia over many short times.
double AreaByHand(double p, double g, double t, double r, double q, const MemoryPace& pace, KvAction action) {
  const auto ramp = [](double from, double to, double seconds) { return (from + to) / 2 * seconds; };
  const auto decode = [&](double from, double tokens) {
    double area = 0;
    for (int i = 1; i <= static_cast<int>(tokens); ++i) area += (from + i) * pace.decode_s;
    return area;
  };
  double area = ramp(0, p, pace.forward_s * p) + decode(p, g);
  const double c = p + g;
  if (action == KvAction::kKeep) area += c * t + ramp(c, c + r, pace.forward_s * r);
  if (action == KvAction::kDrop) area += ramp(0, c + r, pace.forward_s * (c + r));
  if (action == KvAction::kOut) {
    area += 2 * pace.swap_memory_share * c * pace.swap_s * c + ramp(c, c + r, pace.forward_s * r);
  }
  return area + decode(c + r, q);
}

TEST_CASE("the memory integral is the area under the memory") {
  const MemoryPace pace{.decode_s = 0.02, .forward_s = 2e-4, .swap_s = 4e-5};
  for (KvAction action : {KvAction::kKeep, KvAction::kDrop, KvAction::kOut}) {
    for (double t : {0.0, 0.7, 28.6}) {
      const std::vector<MemorySegment> segments{{392, 127, t, action}, {21, 47}};
      CHECK(AreaOfMemory(pace, segments) == Approx(AreaByHand(392, 127, t, 21, 47, pace, action)));
    }
  }
}

TEST_CASE("several calls add up segment by segment") {
  const MemoryPace pace{.decode_s = 0.02, .forward_s = 2e-4, .swap_s = 4e-5};
  const std::vector<MemorySegment> all{{100, 10, 1, KvAction::kKeep}, {20, 5, 2, KvAction::kKeep}, {30, 7}};
  const double first = AreaOfMemory(pace, std::span(all).first(1));
  const double rest = AreaOfMemory(pace, std::span(all).subspan(1), 110);
  CHECK(AreaOfMemory(pace, all) == Approx(first + 110 * 1.0 + rest));
}

TEST_CASE("keeping wastes with time, dropping and swapping with context and company") {
  const MemoryPace pace{.decode_s = 0.02, .forward_s = 2e-4, .swap_s = 4e-5, .chunk_overhead_s = 0.02};
  CHECK(WasteOfKeeping(1000, 2) == 2000);
  CHECK(WasteOfKeeping(1000, -2) == 0);  // an overdue call wastes at least zero
  CHECK(WasteOfDropping(pace, {}, 0) == 0);
  // A context of exactly one chunk costs nothing in the authors' code.
  CHECK(WasteOfDropping(pace, {.other_tokens = 100, .chunk_tokens = 512}, 512) == Approx(2e-4 * 512 * (100 + 512)));
  CHECK(WasteOfDropping(pace, {.other_tokens = 5000}, 1000) > WasteOfDropping(pace, {}, 1000));
  CHECK(WasteOfDroppingWhole(pace, {.other_tokens = 5000}, 1000) == Approx((0.2 + 0.02) * 6000));
  CHECK(WasteOfSwapping(pace, {.other_tokens = 5000}, 1000) == Approx(2 * 0.04 * 5500));
  CHECK(WasteOfSwapping(pace, {.other_tokens = 5000}, 1000, 1) == Approx(2 * 0.04 * 500));
}

// The authors' code (the reference page, 1.2 and 2.2), compared with the forms above. Units are seconds and tokens,
// with 64 tokens to a block and saturation at 384.
struct AuthorsCode {
  static double Chunk(double running_query) { return std::max(384 - running_query, 1.0); }
  static double Discard(double a, double c, double blocks, double running_query, double running) {
    const double context = 64 * blocks, chunk = Chunk(running_query);
    const double n = std::max(std::ceil(context / chunk) - 1, 0.0), last = std::fmod(context, chunk);
    return (a * 384 + c) / 1000 * chunk * n * (n + 1) / 2 + a * chunk / 1000 * n * running +
           a * last / 1000 * (running + last);
  }
  static double Swap(double blocks, double running_query, double running) {
    const double context = 64 * blocks, chunk = Chunk(running_query);
    const double n = std::max(std::ceil(context / chunk) - 1, 1.0);
    return (.181 * 384 + 22.5) / 1000 * n * context + 2 * (.136 * chunk / 1000) * n * running;
  }
  static double Area(double blocks, double running_query) {
    const double chunk = Chunk(running_query), n = std::max(std::ceil(64 * blocks / chunk), 1.0);
    return (.1 * 384 + 10) / 1000 * chunk * n * (n + 1) / 2;
  }
  static double Score(double prompt, double gen, double ret, double dur, const std::string& strategy, double query) {
    const double before = std::ceil((prompt + gen) / 64), after = std::ceil((gen + ret) / 64);
    const double pre = Area(before, query);
    if (strategy == "preserve") return pre + 64 * before * dur + Area(after, query);
    if (strategy == "recompute") return pre + Area(before + after, query);
    const double move = before * before / 4;  // blocks squared among seconds: mixed units
    return pre + move + .1 * dur + move + Area(after, query);
  }
};

TEST_CASE("golden vectors equal the authors' code, and differences are listed") {
  const std::string path = TAKT_SOURCE_DIR "/../shared/reference/lamps-golden.json";
  std::ifstream file(path);
  if (!file) {
    WARN("skipped: no " << path);
    return;
  }
  const json golden = json::parse(file);
  int reproduced = 0, departures = 0;
  for (const json& v : golden["code_discard"]) {
    const double w = v["w"], a = v["a"], c = v["c"], query = v["running_query"], running = v["running_tokens"];
    const double blocks = v["blocks"];
    CAPTURE(v.dump());
    CHECK(AuthorsCode::Discard(a, c, blocks, query, running) == Approx(w).epsilon(1e-12));
    ++reproduced;
    const double chunk = AuthorsCode::Chunk(query);
    // Own memory waits for a full iteration of 384 tokens, the others for the chunk's share.
    const MemoryPace pace{.forward_s = a / 1000, .chunk_overhead_s = (a * (384 - chunk) + c) / 1000};
    const double ours = WasteOfDropping(pace, {running, chunk}, 64 * blocks);
    const bool lost_chunk = std::fmod(64 * blocks, chunk) == 0;
    departures += lost_chunk;
    if (lost_chunk) {
      CHECK(ours > w);
      CHECK(ours == Approx(w + a * chunk / 1000 * (running + chunk)).epsilon(1e-12));
    } else {
      CHECK(ours == Approx(w).epsilon(1e-12));
    }
  }
  CHECK(departures == 36);
  for (const json& v : golden["mars_swap"]) {
    CAPTURE(v.dump());
    CHECK(AuthorsCode::Swap(v["blocks"], v["running_query"], v["running_tokens"]) ==
          Approx(v["w"].get<double>()).epsilon(1e-12));
    ++reproduced;
  }
  int mixed_units = 0;
  for (const json& v : golden["mars_score"]) {
    CAPTURE(v.dump());
    CHECK(AuthorsCode::Score(v["prompt"], v["gen"], v["ret"], v["dur"], v["strategy"], v["running_query"]) ==
          Approx(v["score"].get<double>()).epsilon(1e-12));
    ++reproduced;
    mixed_units += v["strategy"] == "swap";
  }
  CHECK(mixed_units == 6);
  CHECK(reproduced == 162);
  int integrals = 0;
  for (const json& v : golden["integral"]) {
    CAPTURE(v.dump());
    const MemoryPace pace{.decode_s = v["tau"],
                          .forward_s = v["fwd_s_per_tok"],
                          .swap_s = v["swap_s_per_tok"],
                          .swap_memory_share = v["kappa"]};
    const std::string mode = v["mode"];
    const KvAction action = mode == "P" ? KvAction::kKeep : mode == "D" ? KvAction::kDrop : KvAction::kOut;
    const std::vector<MemorySegment> segments{{v["p"], v["g"], v["T"], action}, {v["r"], v["q"]}};
    CHECK(AreaOfMemory(pace, segments) == Approx(v["area"].get<double>()).epsilon(1e-12));
    ++integrals;
  }
  CHECK(integrals == 16);
}

}  // namespace
}  // namespace takt
