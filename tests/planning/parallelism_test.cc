#include "takt/planning/parallelism.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr std::int32_t kTp[] = {1, 2, 4, 8};
constexpr std::int32_t kPp[] = {1, 2};

ServedModel Llama(const std::string& size) {
  return {.name = size, .shapes = *FindShapes("aic/llama-3.1-" + size + "/h100/bf16", kTp, kPp)};
}

std::vector<RequestLengths> Lengths(int requests, double prompt = 300, double output = 300) {
  Random random(5);
  std::vector<RequestLengths> lengths;
  for (int i = 0; i < requests; ++i) {
    lengths.push_back({1 + static_cast<std::int32_t>(random.LogNormal(std::log(prompt), 0.8)),
                       1 + static_cast<std::int32_t>(random.LogNormal(std::log(output), 0.8))});
  }
  return lengths;
}

RateOptions Quick() {
  RateOptions options;
  options.least_requests = 200;
  options.most_requests = 800;
  return options;
}

TEST_CASE("a rate curve rises, and its inverse is conservative") {
  const RateCurve curve({{4, 9}, {0, 2}, {2, 3}, {3, 2.5}});  // one run was luckier than it should have been
  CHECK(curve.alone() == 2);
  CHECK(curve.saturation() == 4);
  CHECK(curve.LargestRate(1.9) == 0);
  CHECK(curve.LargestRate(2) == 0);
  CHECK(curve.LargestRate(2.5) == 1);
  CHECK(curve.LargestRate(3) == 3);
  CHECK(curve.LargestRate(6) == 3.5);
  CHECK(curve.LargestRate(100) == 4);
  CHECK(curve.Latency(0) == 2);
  CHECK(curve.Latency(1) == 2.5);
  CHECK(curve.Latency(2.5) == 3);
  CHECK(curve.Latency(4) == 9);
  CHECK(curve.Latency(4.1) == std::numeric_limits<double>::infinity());
  CHECK(RateCurve().LargestRate(5) == 0);
  CHECK(RateCurve().Latency(0) == std::numeric_limits<double>::infinity());
}

// The largest rate of all multisets of at most f GPUs, one by one.
double BruteForce(const ModelRates& model, double latency, std::int32_t left, std::size_t s = 0) {
  if (s == model.shapes.size()) return 0;
  double best = 0;
  for (std::int32_t n = 0; n * model.shapes[s].gpus <= left; ++n) {
    best = std::max(best, n * model.shapes[s].curve.LargestRate(latency) +
                              BruteForce(model, latency, left - n * model.shapes[s].gpus, s + 1));
  }
  return best;
}

TEST_CASE("the knapsack finds the best multiset of shapes") {
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<ModelRates> models(2);
    for (ModelRates& m : models) {
      const std::size_t shapes = 1 + random.Below(4);
      for (std::size_t s = 0; s < shapes; ++s) {
        const double alone = 1 + 3 * random.Uniform();
        const double most = 1 + 5 * random.Uniform();
        m.shapes.push_back({s, 1 + static_cast<std::int32_t>(random.Below(5)),
                            RateCurve({{0, alone}, {most / 2, 2 * alone}, {most, 4 * alone}})});
      }
    }
    const MixTable table(models, 10, 0.05);
    for (std::size_t m = 0; m < 2; ++m) {
      for (std::size_t level = 0; level < table.latencies().size(); level += 7) {
        for (std::int32_t f = 0; f <= 10; ++f) {
          const double best = table.Rate(m, level, f);
          REQUIRE(best == Approx(BruteForce(models[m], table.latencies()[level], f)));
          if (f > 0) REQUIRE(best >= table.Rate(m, level, f - 1));
          if (level >= 7) REQUIRE(best >= table.Rate(m, level - 7, f));
          double rate = 0;
          std::int32_t gpus = 0;
          const std::vector<ReplicaCount> mix = table.Mix(m, level, f);
          for (const ReplicaCount& r : mix) {
            rate += r.count * r.rate;
            gpus += r.count * models[m].shapes[r.shape].gpus;
          }
          REQUIRE(rate == Approx(best));
          REQUIRE(gpus <= f);
          if (best > 0) {
            REQUIRE(table.LeastGpus(m, level, best) <= f);
            REQUIRE(table.LeastLevel(m, f, best) <= level);
            REQUIRE(table.Latency(m, f, best) <= table.latencies()[level]);
            REQUIRE(table.MixLatency(m, mix, best * (1 - 1e-9)) <= table.latencies()[level]);
          }
        }
      }
      CHECK(table.LeastGpus(m, 0, 1e9) == 11);
      CHECK(table.Latency(m, 10, 1e9) == std::numeric_limits<double>::infinity());
      CHECK(table.Latency(m, 0, 0) == 0);  // f = 0 if there are no requests
      CHECK(table.LeastGpus(m, 0, 0) == 0);
    }
  }
}

TEST_CASE("shapes without enough memory are left out") {
  const std::vector<ServedModel> models = {Llama("8b"), Llama("70b")};
  const std::vector<RequestLengths> lengths = Lengths(200);
  const std::vector<std::vector<RequestLengths>> both = {lengths, lengths};
  const auto rates = MeasureRates(models, both, Quick());
  REQUIRE(rates.ok());
  CHECK((*rates)[0].shapes.size() == 8);
  CHECK((*rates)[1].shapes.size() == 7);  // not on one GPU
  for (const ShapeRates& s : (*rates)[1].shapes) CHECK(s.gpus >= 2);
  for (const ModelRates& m : *rates) {
    for (const ShapeRates& s : m.shapes) {
      REQUIRE(s.curve.points().size() >= 2);
      for (std::size_t i = 1; i < s.curve.points().size(); ++i) {
        CHECK(s.curve.points()[i].rate > s.curve.points()[i - 1].rate);
        CHECK(s.curve.points()[i].p95 >= s.curve.points()[i - 1].p95);
      }
    }
  }
}

TEST_CASE("a simulated mix keeps the promise of its table") {
  const std::vector<ServedModel> models = {Llama("8b"), Llama("70b")};
  const std::vector<RequestLengths> lengths = Lengths(500);
  const std::vector<std::vector<RequestLengths>> both = {lengths, lengths};
  const auto rates = MeasureRates(models, both, {});
  REQUIRE(rates.ok());
  const MixTable table(*rates, 13);  // an odd number, so that mixes have several shapes
  for (std::size_t m = 0; m < 2; ++m) {
    for (const double share : {0.2, 0.5, 0.8}) {
      const double rate = share * table.Rate(m, table.latencies().size() - 1, 13);
      const std::size_t level = table.LeastLevel(m, 13, rate);
      REQUIRE(level < table.latencies().size());
      std::vector<FastRequest> requests;
      Random random(9);
      double now = 0;
      for (int i = 0; i < 6000; ++i) {  // fewer requests would not last until queues show
        const RequestLengths& l = lengths[random.Below(lengths.size())];
        requests.push_back({now, l.prompt, l.output});
        now += random.Exponential() / rate;
      }
      std::vector<double> ends(requests.size());
      const MixRun run = SimulateMix(models[m], table.Mix(m, level, 13), requests, ends);
      INFO(models[m].name << " at " << rate << "/s: promised " << table.latencies()[level] << " s, simulated "
                          << run.p95 << " s");
      CHECK(run.p95 < 1.1 * table.latencies()[level]);
      CHECK(run.p95 > 0.7 * table.latencies()[level]);
      CHECK(run.utilisation > 0);
      CHECK(run.utilisation <= 1);
    }
  }
}

TEST_CASE("rates that were not measured are named") {
  const std::vector<RequestLengths> lengths = Lengths(100);
  const auto measure = [](const ServedModel& model, const std::vector<RequestLengths>& l, const RateOptions& o) {
    const std::vector<std::vector<RequestLengths>> all = {l};
    return MeasureRates(std::span(&model, 1), all, o).status();
  };
  ServedModel big{.name = "70b", .shapes = {*FindProfile("aic/llama-3.1-70b/h100/bf16/tp1")}};
  const absl::Status memory = measure(big, lengths, {});
  CHECK(memory.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(memory.message()).find("but weights and the KV of") != std::string::npos);
  CHECK(measure(Llama("8b"), {}, {}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(measure({.name = "none"}, lengths, {}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(measure(Llama("8b"), {{0, 5}}, {}).code() == absl::StatusCode::kInvalidArgument);
  RateOptions bad;
  bad.quantile = std::numeric_limits<double>::quiet_NaN();
  bad.runs = 0;
  const absl::Status both = measure(Llama("8b"), lengths, bad);
  CHECK(std::string(both.message()).find("quantile") != std::string::npos);
  CHECK(std::string(both.message()).find("runs") != std::string::npos);
  CHECK(FindShapes("aic/no-such/h100/bf16", kTp, kPp).status().code() == absl::StatusCode::kNotFound);

  const std::vector<ServedModel> models = {Llama("8b")};
  const std::vector<std::vector<RequestLengths>> all = {lengths};
  int asked = 0;
  const auto stopped = MeasureRates(models, all, Quick(), SerialFor, [&](double) { return ++asked < 1; });
  CHECK(stopped.status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("curves are equal in any order of a host's threads") {
  const std::vector<ServedModel> models = {Llama("8b")};
  const std::vector<std::vector<RequestLengths>> all = {Lengths(100)};
  const auto backwards = [](std::size_t n, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = n; i-- > 0;) body(i);
  };
  const auto a = MeasureRates(models, all, Quick());
  const auto b = MeasureRates(models, all, Quick(), backwards);
  REQUIRE((a.ok() && b.ok()));
  for (std::size_t s = 0; s < (*a)[0].shapes.size(); ++s) {
    const auto x = (*a)[0].shapes[s].curve.points(), y = (*b)[0].shapes[s].curve.points();
    CHECK(std::vector(x.begin(), x.end()) == std::vector(y.begin(), y.end()));
  }
}

TEST_CASE("a mix without replicas serves no request") {
  const ServedModel model = Llama("8b");
  const std::vector<FastRequest> requests = {{0, 10, 10}};
  std::vector<double> ends(1);
  CHECK(std::isinf(SimulateMix(model, {}, requests, ends).p95));
  CHECK(std::isinf(ends[0]));
  CHECK(SimulateMix(model, {}, {}, {}).p95 == 0);
}

}  // namespace
}  // namespace takt
