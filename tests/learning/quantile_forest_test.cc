// The forest compared with scikit-learn's and with known distributions, and under invalid inputs.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/learning/quantile_forest.h"
#include "takt/numeric/correlation.h"

namespace takt {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void OnTwoThreads(std::size_t n, const std::function<void(std::size_t)>& body) {
  std::thread other([&] {
    for (std::size_t i = 1; i < n; i += 2) body(i);
  });
  for (std::size_t i = 0; i < n; i += 2) body(i);
  other.join();
}

// Log-normal labels. The mean of the log is linear in two of four features and in one of five names. Its spread is 0.5.
ForestData Drawn(std::size_t rows, std::uint64_t seed) {
  Random random(seed);
  ForestData data{.numeric = 4, .categories = 1};
  for (std::size_t i = 0; i < rows; ++i) {
    std::array<double, 4> x;
    for (double& v : x) v = random.Normal();
    const std::uint64_t name = random.Below(5);
    const double mu = 5 + x[0] + 0.5 * x[1] + 0.3 * static_cast<double>(name * 3 % 5);
    for (const double v : x) data.numbers.push_back(static_cast<float>(v));
    data.names.push_back(name);
    data.labels.push_back(static_cast<float>(std::round(random.LogNormal(mu, 0.5))));
  }
  return data;
}

ForestRow RowOf(const ForestData& data, std::size_t i) {
  return {std::span(data.numbers).subspan(i * data.numeric, data.numeric),
          std::span(data.names).subspan(i * data.categories, data.categories)};
}

std::shared_ptr<const QuantileForest> Trained(const ForestData& data, const ForestOptions& options = {}) {
  auto forest = QuantileForest::Train(data, options);
  REQUIRE(forest.ok());
  return *forest;
}

constexpr const char* kReference = R"(
import sys, numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.ensemble._forest import _generate_sample_indices
train, test = np.loadtxt(sys.argv[1]), np.loadtxt(sys.argv[2])
x, y = train[:, :-1], train[:, -1]
out = []
for seed in (1, 2):
    forest = RandomForestRegressor(n_estimators=100, min_samples_leaf=10, max_features=2, max_depth=32,
                                   bootstrap=True, random_state=seed, n_jobs=1)
    forest.fit(x, np.log1p(y))
    pools = [[] for _ in test]
    for tree in forest.estimators_:
        drawn = _generate_sample_indices(tree.random_state, len(x), len(x))
        members = {}
        for label, leaf in zip(y[drawn], tree.apply(x[drawn])):
            members.setdefault(leaf, []).append(label)
        for pool, leaf in zip(pools, tree.apply(test[:, :-1])):
            pool.extend(members[leaf])
    out.append([np.quantile(p, [0.5, 0.9]) for p in pools])
np.savetxt(sys.argv[3], np.concatenate(out, axis=1))
)";

void Write(const std::filesystem::path& path, const ForestData& data) {
  std::ofstream out(path);
  for (std::size_t i = 0; i < data.rows(); ++i) {
    for (const float x : RowOf(data, i).numbers) out << x << ' ';
    // Ordered as a name's bins are, since scikit-learn has no names.
    for (const std::uint64_t name : RowOf(data, i).names) out << name * 3 % 5 << ' ';
    out << data.labels[i] << '\n';
  }
}

TEST_CASE("medians and 90 % quantiles equal those of scikit-learn's forest") {
  std::string python;
  for (const std::string candidate : {"python3", "/usr/bin/python3"}) {
    if (python.empty() && std::system((candidate + " -c 'import sklearn' 2>/dev/null").c_str()) == 0)
      python = candidate;
  }
  if (python.empty()) {
    std::puts("skipped: python3-sklearn is not there");
    return;
  }
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("takt_forest_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const ForestData data = Drawn(3000, 1), fresh = Drawn(400, 2);
  Write(folder / "train", data);
  Write(folder / "test", fresh);
  std::ofstream(folder / "reference.py") << kReference;
  const std::string in = folder.string();
  const std::string command = python + " " + in + "/reference.py " + in + "/train " + in + "/test " + in + "/out";
  REQUIRE(std::system(command.c_str()) == 0);

  const auto forest = Trained(data);
  ForestScratch scratch;
  std::ifstream out(folder / "out");
  // Mean and largest |log ratio| between our forest and the reference, and between two seeds of the reference.
  std::array<double, 2> ours{}, theirs{}, bias{};
  for (std::size_t i = 0; i < fresh.rows(); ++i) {
    const Estimate e = forest->Predict(RowOf(fresh, i), scratch);
    std::array<double, 4> reference{};
    for (double& x : reference) REQUIRE(out >> x);
    for (std::size_t q = 0; q < 2; ++q) {
      const double mine = std::log1p(e.Quantile(q == 0 ? 0.5 : 0.9));
      ours[q] += std::abs(mine - std::log1p(reference[q])) / 400;
      bias[q] += (mine - std::log1p(reference[q])) / 400;
      theirs[q] += std::abs(std::log1p(reference[2 + q]) - std::log1p(reference[q])) / 400;
    }
  }
  fs::remove_all(folder);
  std::printf(
      "mean |log ratio| of medians and 90 %% quantiles: %.4f, %.4f; between two seeds of scikit-learn's: %.4f, %.4f; "
      "mean log ratio: %.4f, %.4f\n",
      ours[0], ours[1], theirs[0], theirs[1], bias[0], bias[1]);
  for (std::size_t q = 0; q < 2; ++q) {
    CHECK(ours[q] < 1.5 * theirs[q]);
    CHECK(ours[q] < 0.1);
    CHECK(std::abs(bias[q]) < 0.05);
  }
}

TEST_CASE("quantiles, mean and order match the distribution of the samples") {
  const ForestData data = Drawn(20'000, 1), fresh = Drawn(1000, 2);
  const auto forest = Trained(data);
  ForestScratch scratch;
  std::vector<double> medians, best, labels;
  double below_90 = 0, mean = 0, label_mean = 0;
  for (std::size_t i = 0; i < fresh.rows(); ++i) {
    const Estimate e = forest->Predict(RowOf(fresh, i), scratch);
    const ForestRow row = RowOf(fresh, i);
    medians.push_back(e.Quantile(0.5));
    best.push_back(static_cast<double>(row.numbers[0]) + 0.5 * static_cast<double>(row.numbers[1]) +
                   0.3 * static_cast<double>(row.names[0] * 3 % 5));
    labels.push_back(static_cast<double>(fresh.labels[i]));
    below_90 += labels.back() <= e.Quantile(0.9) ? 0.001 : 0;
    mean += e.mean / 1000;
    label_mean += labels.back() / 1000;
  }
  CHECK(CountPairs(labels, medians).distance() < CountPairs(labels, best).distance() + 0.03);
  CHECK(below_90 == Approx(0.9).margin(0.04));
  CHECK(mean == Approx(label_mean).epsilon(0.1));

  const ForestReport& report = forest->report();
  CHECK(report.checked > 1000);
  CHECK(report.calibration_error < 0.03);
  CHECK(report.tau_distance == Approx(CountPairs(labels, medians).distance()).margin(0.03));
  CHECK(report.leaves * 2 - static_cast<std::int64_t>(forest->trees()) == report.nodes);
}

TEST_CASE("a batch equals single answers, and quantiles equal Estimate's") {
  const ForestData data = Drawn(2000, 1);
  const auto forest = Trained(data);
  ForestScratch scratch;
  std::vector<ForestRow> rows;
  std::vector<double> known;
  for (std::size_t i = 0; i < 150; ++i) {
    rows.push_back(RowOf(data, i));
    known.push_back(static_cast<double>(i % 7) * 40 - 1);
  }
  std::vector<Estimate> together(rows.size());
  forest->Predict(rows, known, together, scratch);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(forest->Predict(rows[i], scratch, known[i]) == together[i]);
    if (known[i] >= 0) continue;
    std::array<double, 5> out;
    forest->Quantiles(rows[i], Estimate::kLevels, out, scratch);
    for (std::size_t l = 0; l < out.size(); ++l) {
      CHECK(out[l] == Approx(static_cast<double>(together[i].quantiles[l])).epsilon(1e-6));
    }
  }
}

TEST_CASE("a known lower bound of the label cuts off the distribution") {
  ForestData data{.numeric = 1, .categories = 0};
  for (int i = 0; i < 1000; ++i) {
    data.numbers.push_back(0);
    data.labels.push_back(static_cast<float>(i));
  }
  const auto forest = Trained(data, {.leaf_labels = 1000});
  ForestScratch scratch;
  const std::array<float, 1> x = {0};
  const auto predicted = [&](double known) { return forest->Predict({x, {}}, scratch, known); };
  CHECK(predicted(-1).Quantile(0.5) == Approx(500).margin(10));
  CHECK(predicted(-1).mean == Approx(500).margin(15));
  CHECK(predicted(500).Quantile(0.5) == Approx(250).margin(10));
  CHECK(predicted(500).mean == Approx(250).margin(15));
  // Beyond the observed range, remaining lengths are short but never zero.
  CHECK(predicted(5000).mean >= 1);
  CHECK(predicted(5000).mean < 20);
  CHECK(predicted(1e300).known());
}

TEST_CASE("equal data and seed give equal forests with any threads") {
  const ForestData data = Drawn(1000, 1);
  auto two = QuantileForest::Train(data, {}, OnTwoThreads);
  REQUIRE(two.ok());
  CHECK(Trained(data)->Save() == (*two)->Save());
  CHECK(Trained(data, {.seed = 2})->Save() != (*two)->Save());
}

TEST_CASE("training stops on request and reports faults of its input") {
  const ForestData data = Drawn(500, 1);
  double last = -1;
  auto stopped = QuantileForest::Train(data, {}, SerialFor, [&](double done) {
    last = done;
    return done < 0.5;
  });
  CHECK(stopped.status().code() == absl::StatusCode::kCancelled);
  CHECK(last >= 0.5);

  const auto fault = [](ForestData broken, const ForestOptions& options = {}) {
    const auto forest = QuantileForest::Train(broken, options);
    return forest.ok() ? std::string() : std::string(forest.status().message());
  };
  CHECK(fault({}) == "forest: there are no rows to learn from");
  ForestData broken = data;
  broken.labels[7] = -1;
  CHECK(fault(broken).starts_with("forest: the label of row 7 is no length"));
  broken.labels[7] = kNan;
  CHECK(fault(broken).starts_with("forest: the label of row 7 is no length"));
  broken = data;
  broken.numbers.pop_back();
  CHECK(fault(broken).starts_with("forest: the number of features does not match"));
  CHECK(fault(data, {.trees = 0}) == "forest: trees is 0: must be 1 to 10000");
  CHECK(fault(data, {.min_leaf = 0}) == "forest: min_leaf is 0: must be at least 1");
  CHECK(fault(data, {.feature_share = 1.5}).starts_with("forest: feature_share"));
  CHECK(fault(data, {.leaf_labels = 0}).starts_with("forest: leaf_labels"));
}

TEST_CASE("forests train on constant, absent, huge and invalid features") {
  ForestScratch scratch;
  Random random(1);
  SECTION("one row") {
    ForestData data{.numeric = 1, .categories = 1, .numbers = {kNan}, .names = {7}, .labels = {42}};
    const auto forest = Trained(data);
    const Estimate e = forest->Predict(RowOf(data, 0), scratch);
    CHECK(e == Estimate::Exact(42));
    CHECK(forest->report().checked == 0);
    CHECK(QuantileForest::Load(forest->Save()).ok());
  }
  SECTION("no features at all") {
    ForestData data;
    for (int i = 0; i < 101; ++i) data.labels.push_back(static_cast<float>(i));
    const Estimate e = Trained(data)->Predict({}, scratch);
    CHECK(e.Quantile(0.5) == Approx(50).margin(5));
  }
  SECTION("labels of zero") {
    ForestData data = Drawn(200, 1);
    data.labels.assign(200, 0);
    CHECK(Trained(data)->Predict(RowOf(data, 0), scratch) == Estimate::Exact(0));
  }
  SECTION("constant, infinite, missing or denormal numbers") {
    ForestData data{.numeric = 5, .categories = 0};
    const float inf = std::numeric_limits<float>::infinity();
    for (int i = 0; i < 300; ++i) {
      const bool large = random.Chance(0.5);
      data.numbers.insert(data.numbers.end(),
                          {1,
                           i % 3 == 0   ? kNan
                           : i % 3 == 1 ? inf
                                        : -inf,
                           kNan, large ? std::numeric_limits<float>::max() : 1e-45f, large ? kNan : 1});
      data.labels.push_back(large ? 1000 : 10);
    }
    const auto forest = Trained(data);
    for (std::size_t i = 0; i < data.rows(); ++i) {
      CHECK(forest->Predict(RowOf(data, i), scratch).Quantile(0.5) == static_cast<double>(data.labels[i]));
    }
    const std::array<float, 5> odd = {kNan, kNan, inf, -inf, kNan};
    CHECK(forest->Predict({odd, {}}, scratch).known());
    CHECK(forest->Predict({}, scratch).known());  // missing features are unknown
  }
  SECTION("more names than bins, and unknown names") {
    ForestData data{.numeric = 0, .categories = 1};
    for (std::uint64_t i = 0; i < 5000; ++i) {
      const std::uint64_t name = i % 10 < 5 ? 1 : i % 10 < 9 ? 2 : 1000 + i;
      data.names.push_back(name);
      data.labels.push_back(name == 1 ? 10 : name == 2 ? 1000 : 100);
    }
    const auto forest = Trained(data);
    const auto median = [&](std::uint64_t name) {
      return forest->Predict({{}, std::span(&name, 1)}, scratch).Quantile(0.5);
    };
    CHECK(median(1) == 10);
    CHECK(median(2) == 1000);
    CHECK(median(999) == 100);
    CHECK(median(UINT64_MAX) == 100);
  }
}

TEST_CASE("a file is read as written; truncated or damaged ones are refused") {
  const ForestData data = Drawn(300, 1);
  const auto forest = Trained(data, {.trees = 5});
  const std::string bytes = forest->Save();
  const auto read = QuantileForest::Load(bytes);
  REQUIRE(read.ok());
  CHECK((*read)->Save() == bytes);
  ForestScratch scratch;
  CHECK((*read)->Predict(RowOf(data, 3), scratch) == forest->Predict(RowOf(data, 3), scratch));

  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 50) {
    CHECK(QuantileForest::Load(bytes.substr(0, size)).status().code() == absl::StatusCode::kDataLoss);
  }
  Random random(1);
  for (std::int64_t i = 0; i < Scaled(500); ++i) {
    std::string damaged = bytes;
    damaged[16 + random.Below(bytes.size() - 16)] ^= static_cast<char>(1 << random.Below(8));
    CHECK(QuantileForest::Load(damaged).status().code() == absl::StatusCode::kDataLoss);
  }
  std::string newer = bytes;
  newer[12] = 9;
  CHECK(QuantileForest::Load(newer).status().message() == "a forest of version 9; expected version 2");
  CHECK(QuantileForest::Load("PK\3\4").status().message() == "expected a forest");
}

TEST_CASE("rows of a group are left out together in the report") {
  // 100 groups of ten equal rows each. The feature identifies the group and does not predict its label.
  Random random(1);
  ForestData data{.numeric = 1, .categories = 0};
  for (std::uint64_t g = 0; g < 100; ++g) {
    const auto label = static_cast<float>(random.Below(1000));
    for (int i = 0; i < 10; ++i) {
      data.numbers.push_back(static_cast<float>(g));
      data.labels.push_back(label);
    }
  }
  const auto alone = Trained(data);
  data.groups.resize(data.rows());
  for (std::size_t i = 0; i < data.rows(); ++i) data.groups[i] = i;
  CHECK(Trained(data)->Save() == alone->Save());  // as without groups
  for (std::size_t i = 0; i < data.rows(); ++i) data.groups[i] = 1000 - i / 10;
  const auto together = Trained(data);
  CHECK(alone->report().tau_distance < 0.1);
  CHECK(together->report().tau_distance > 0.35);
  CHECK(together->report().checked == 1000);
  data.groups.assign(data.rows(), 7);
  CHECK(Trained(data)->report().checked == 0);  // one group: it is in every tree
  data.groups.pop_back();
  CHECK(QuantileForest::Train(data).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace takt
