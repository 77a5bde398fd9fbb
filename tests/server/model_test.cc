// The model's results are right, and equal in every batch.
#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace tiny {
namespace {

ModelConfig Small() {
  return {
      .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .vocab = 112, .max_context = 64, .tied = false};
}

std::vector<float> Numbers(std::size_t n, std::uint64_t seed) {
  takt::Random random(seed);
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(random.Normal());
  return v;
}

TEST_CASE("a product is one ordered sum in any batch and thread count") {
  constexpr std::size_t kIn = 40, kOut = 96;
  std::vector<Lanes> lanes(kIn * kOut / kLanes);
  takt::Random random(1);
  for (Lanes& l : lanes) {
    for (float& w : l.at) w = static_cast<float>(random.Normal());
  }
  const Matrix weights{lanes.data(), kIn, kOut};
  for (std::size_t threads : {1u, 2u, 3u}) {
    Threads pool(threads);
    for (std::size_t rows = 1; rows <= 35; ++rows) {
      const std::vector<float> x = Numbers(rows * kIn, rows);
      std::vector<float> y(rows * kOut, -1);
      MatMul(weights, x.data(), rows, y.data(), pool);
      bool same = true;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t o = 0; o < kOut; ++o) {
          float sum = 0;
          for (std::size_t i = 0; i < kIn; ++i) sum += weights.at(o, i) * x[r * kIn + i];
          same &= sum == y[r * kOut + o];
        }
      }
      CHECK(same);
    }
  }
}

using Vec = std::vector<double>;

Vec Times(const Matrix& w, const Vec& x) {
  Vec y(w.out);
  for (std::size_t o = 0; o < w.out; ++o) {
    for (std::size_t i = 0; i < w.in; ++i) y[o] += static_cast<double>(w.at(o, i)) * x[i];
  }
  return y;
}

Vec RmsNorm(const Vec& x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  Vec y = x;
  for (double& v : y) v /= std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  return y;
}

// The textbook's transformer over a whole context, in double precision: logits of the last position.
Vec Textbook(const Model& model, const std::vector<std::int32_t>& tokens) {
  const ModelConfig& c = model.config();
  const std::size_t n = c.head_dim(), half = n / 2;
  std::vector<Vec> x;
  for (std::int32_t token : tokens) {
    Vec row(c.hidden);
    for (std::size_t i = 0; i < c.hidden; ++i) {
      row[i] = static_cast<double>(model.embedding().at(static_cast<std::size_t>(token), i));
    }
    x.push_back(row);
  }
  for (const Model::Layer& layer : model.layers()) {
    std::vector<Vec> qkv;
    for (std::size_t p = 0; p < x.size(); ++p) {
      Vec row = Times(layer.qkv, RmsNorm(x[p]));
      for (std::size_t head = 0; head < c.heads + c.kv_heads; ++head) {
        for (std::size_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(p) / std::pow(10000, 2 * static_cast<double>(i) / static_cast<double>(n));
          double& a = row[head * n + i];
          double& b = row[head * n + half + i];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = turned;
        }
      }
      qkv.push_back(row);
    }
    for (std::size_t p = 0; p < x.size(); ++p) {
      Vec mix(c.hidden);
      for (std::size_t head = 0; head < c.heads; ++head) {
        const std::size_t key = c.hidden + head / 2 * n, value = key + c.kv_dim();  // two queries share a key
        Vec share(p + 1);
        double sum = 0;
        for (std::size_t q = 0; q <= p; ++q) {
          double dot = 0;
          for (std::size_t i = 0; i < n; ++i) dot += qkv[p][head * n + i] * qkv[q][key + i];
          sum += share[q] = std::exp(dot / std::sqrt(static_cast<double>(n)));
        }
        for (std::size_t q = 0; q <= p; ++q) {
          for (std::size_t i = 0; i < n; ++i) mix[head * n + i] += share[q] / sum * qkv[q][value + i];
        }
      }
      const Vec add = Times(layer.out, mix);
      for (std::size_t i = 0; i < c.hidden; ++i) x[p][i] += add[i];
      const Vec up = Times(layer.gate_up, RmsNorm(x[p]));
      Vec inner(c.ffn);
      for (std::size_t i = 0; i < c.ffn; ++i) inner[i] = up[i] / (1 + std::exp(-up[i])) * up[c.ffn + i];
      const Vec down = Times(layer.down, inner);
      for (std::size_t i = 0; i < c.hidden; ++i) x[p][i] += down[i];
    }
  }
  return Times(model.head(), RmsNorm(x.back()));
}

std::vector<std::int32_t> Prompt(std::size_t n, std::uint64_t seed, std::size_t vocab) {
  takt::Random random(seed);
  std::vector<std::int32_t> tokens(n);
  for (std::int32_t& t : tokens) t = static_cast<std::int32_t>(random.Below(vocab));
  return tokens;
}

TEST_CASE("the model computes what the textbook does") {
  for (bool tied : {false, true}) {
    ModelConfig config = Small();
    config.tied = tied;
    const Model model = Model::Random(config, 7);
    const KvLayout layout(config, 4);
    std::vector<float> kv(layout.block() * 8);
    Runner runner(model, layout, kv);
    const std::vector<std::int32_t> blocks = {5, 0, 7, 2, 1, 3};
    const std::vector<std::int32_t> tokens = Prompt(23, 8, config.vocab);
    std::vector<Row> rows;
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      rows.push_back({tokens[p], static_cast<std::int32_t>(p), blocks, true});
    }
    const auto samples = runner.Step(rows);
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      const Vec logits = Textbook(model, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(p) + 1});
      const auto best = std::max_element(logits.begin(), logits.end());
      CHECK(samples[p].token == best - logits.begin());
      CHECK(static_cast<double>(samples[p].logit) == Approx(*best).epsilon(1e-4));
    }
  }
}

// A sequence's samples, fed in pieces of the given sizes (the last one repeated), with `others` more rows in the batch.
std::vector<Sample> InPieces(const Model& model, const std::vector<std::int32_t>& tokens,
                             std::vector<std::size_t> sizes, std::size_t block_tokens, std::size_t others,
                             std::size_t threads) {
  const KvLayout layout(model.config(), block_tokens);
  const std::size_t blocks = tokens.size() / block_tokens + 1;
  std::vector<float> kv(layout.block() * (blocks + others));
  Runner runner(model, layout, kv, threads);
  std::vector<std::int32_t> table(blocks), other_blocks(others);
  for (std::size_t i = 0; i < blocks; ++i) table[i] = static_cast<std::int32_t>(blocks - 1 - i);
  for (std::size_t i = 0; i < others; ++i) other_blocks[i] = static_cast<std::int32_t>(blocks + i);
  std::vector<Sample> samples;
  for (std::size_t at = 0, piece = 0; at < tokens.size(); ++piece) {
    const std::size_t end = std::min(tokens.size(), at + sizes[std::min(piece, sizes.size() - 1)]);
    std::vector<Row> rows;
    for (std::size_t i = 0; i < others / 2; ++i) rows.push_back({3, 0, std::span(other_blocks).subspan(i, 1), false});
    for (; at < end; ++at) rows.push_back({tokens[at], static_cast<std::int32_t>(at), table, true});
    for (std::size_t i = others / 2; i < others; ++i) {
      rows.push_back({4, 0, std::span(other_blocks).subspan(i, 1), false});
    }
    const auto out = runner.Step(rows);
    samples.insert(samples.end(), out.begin(), out.end());
  }
  return samples;
}

TEST_CASE("a row's answer is equal bit for bit in any step") {
  const Model model = Model::Random(Small(), 3);
  const std::vector<std::int32_t> tokens = Prompt(50, 4, 112);
  const std::vector<Sample> alone = InPieces(model, tokens, {1}, 16, 0, 1);
  CHECK(InPieces(model, tokens, {50}, 16, 0, 1) == alone);
  CHECK(InPieces(model, tokens, {7, 20, 1}, 5, 3, 1) == alone);
  CHECK(InPieces(model, tokens, {31, 2}, 1, 64, 2) == alone);
  CHECK(InPieces(model, tokens, {13}, 64, 9, 3) == alone);
  std::vector<std::int32_t> changed = tokens;
  changed[0] ^= 1;
  CHECK_FALSE(InPieces(model, changed, {50}, 16, 0, 1) == alone);
}

TEST_CASE("a config names its faults") {
  CHECK(Small().Validate().ok());
  ModelConfig wrong = Small();
  wrong.hidden = 60, wrong.vocab = 0;
  const std::string message(wrong.Validate().message());
  CHECK(message.find("hidden is 60") != std::string::npos);
  CHECK(message.find("vocab is 0") != std::string::npos);
  wrong = Small(), wrong.heads = 16;
  CHECK_FALSE(wrong.Validate().ok());
  wrong = Small(), wrong.kv_heads = 3;
  CHECK_FALSE(wrong.Validate().ok());
  CHECK(Small().parameters() == 2 * (2 * 64 + 64 * 128 + 64 * 64 + 3 * 64 * 96) + 64 + 2 * 112 * 64);
}

class WeightsFile {
 public:
  WeightsFile()
      : path_((std::filesystem::temp_directory_path() / ("tiny_weights_" + std::to_string(Unique()))).string()) {}
  ~WeightsFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

  std::string Read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

 private:
  static std::uint64_t Unique() { return std::random_device{}(); }
  std::string path_;
};

TEST_CASE("weights survive a file, and a damaged file is refused with reasons") {
  const WeightsFile file;
  CHECK(Model::Load(file.path()).status().code() == absl::StatusCode::kNotFound);
  for (bool tied : {true, false}) {
    ModelConfig config = Small();
    config.tied = tied;
    const Model model = Model::Random(config, 5);
    REQUIRE(model.Save(file.path()).ok());
    const auto loaded = Model::Load(file.path());
    REQUIRE(loaded.ok());
    CHECK(loaded->config() == config);
    const std::vector<std::int32_t> tokens = Prompt(20, 6, config.vocab);
    CHECK(InPieces(model, tokens, {20}, 16, 0, 1) == InPieces(*loaded, tokens, {20}, 16, 0, 1));
  }
  const std::string good = file.Read();
  const auto complaint = [&](std::string bytes) {
    file.Write(bytes);
    return std::string(Model::Load(file.path()).status().message());
  };
  const auto with = [&good](std::size_t at, char c) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ c);
    return bytes;
  };
  CHECK(complaint("").find("too short") != std::string::npos);
  CHECK(complaint(good.substr(0, 30)).find("too short") != std::string::npos);
  CHECK(complaint(with(0, 1)).find("not a weights file") != std::string::npos);
  CHECK(complaint(with(8, 2)).find("version 3") != std::string::npos);
  CHECK(complaint(with(16, 1)).find("hidden is 65") != std::string::npos);
  CHECK(complaint(good + "x").find("its config needs") != std::string::npos);
  CHECK(complaint(good.substr(0, good.size() - 4)).find("its config needs") != std::string::npos);
  CHECK(complaint(with(good.size() - 1, 1)).find("checksum") != std::string::npos);
  CHECK(complaint(with(44, 1)).find("checksum") != std::string::npos);
  CHECK(complaint(good).empty());
}

}  // namespace
}  // namespace tiny
