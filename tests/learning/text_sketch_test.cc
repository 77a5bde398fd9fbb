// Sketches of texts, and confidence heads on them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/learning/confidence.h"
#include "takt/learning/text_sketch.h"

namespace takt {
namespace {

std::string Word(std::uint64_t number) {
  std::string word;
  for (number = Mix64(number); word.size() < 6; number /= 26) word += static_cast<char>('a' + number % 26);
  return word;
}

// 150 words of one topic of several, of 100 words each.
std::string About(std::uint64_t topic, Random& random) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += Word(topic * 100 + random.Below(100)) + (i % 10 == 9 ? ".\n" : " ");
  return text;
}

struct Texts {
  std::vector<std::string> all;
  std::vector<std::string_view> views() const { return {all.begin(), all.end()}; }
};

Texts Topics(std::uint64_t topics, int each) {
  Random random(3);
  Texts texts;
  for (std::uint64_t t = 0; t < topics; ++t) {
    for (int i = 0; i < each; ++i) texts.all.push_back(About(t, random));
  }
  return texts;
}

std::shared_ptr<const TextSketch> Learnt(const Texts& texts, const TextSketchOptions& options = {}) {
  const std::vector<std::string_view> views = texts.views();
  auto sketch = TextSketch::Train(views, options);
  REQUIRE(sketch.ok());
  return *sketch;
}

std::vector<float> Of(const TextSketch& sketch, std::string_view text) {
  TextScratch scratch;
  std::vector<float> out(sketch.dimensions());
  sketch.Of(text, out, scratch);
  return out;
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  return Dot(a, b) / std::sqrt(Dot(a, a) * Dot(b, b));
}

TEST_CASE("texts of one topic have similar sketches, other topics not") {
  const auto sketch = Learnt(Topics(8, 20));
  Random random(9);
  double within = 1, between = -1;
  for (std::uint64_t t = 0; t < 8; ++t) {
    const auto one = Of(*sketch, About(t, random));
    within = std::min(within, Cosine(one, Of(*sketch, About(t, random))));
    between = std::max(between, Cosine(one, Of(*sketch, About((t + 1) % 8, random))));
  }
  CHECK(within > 0.9);
  CHECK(between < 0.3);
}

TEST_CASE("sketches ignore case and punctuation, and read word order and scripts") {
  Texts texts = Topics(4, 10);
  texts.all.push_back("caf\xc3\xa9 bar caf\xc3\xa9 foo \xe4\xb8\xad\xe6\x96\x87");
  const auto sketch = Learnt(texts, {.dimensions = 24});
  const std::string a = Word(1) + " " + Word(2) + " " + Word(3);
  std::string upper = Word(1) + ", \"" + Word(2) + "\"!\n" + Word(3);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  CHECK(Of(*sketch, a) == Of(*sketch, upper));
  CHECK(Of(*sketch, a) != Of(*sketch, Word(3) + " " + Word(2) + " " + Word(1)));
  CHECK(Dot(Of(*sketch, "caf\xc3\xa9"), Of(*sketch, "caf\xc3\xa9")) > 0);
  // Bytes that are not UTF-8 separate words.
  CHECK(Of(*sketch, "caf\xc3\xa9 bar") == Of(*sketch,
                                             "\xff"
                                             "caf\xc3\xa9\xc0\x80"
                                             "bar\xe4\xb8"));
}

TEST_CASE("empty, huge and broken prompts do no harm") {
  const auto sketch = Learnt(Topics(4, 10));
  const std::vector<float> zeros(16);
  CHECK(Of(*sketch, "") == zeros);
  CHECK(Of(*sketch, " \t\n .,;") == zeros);
  CHECK(Of(*sketch, std::string(1000, '\0')) == zeros);
  CHECK(Of(*sketch, std::string(1000, '\xff')) == zeros);
  Random random(1);
  std::string huge = About(1, random);
  const auto expected = Of(*sketch, (huge + " " + std::string(1 << 16, 'x')).substr(0, 1 << 16));
  huge += " ";
  huge.resize(10 << 20, 'x');
  CHECK(Of(*sketch, huge) == expected);  // text after max_bytes is not read
  std::string bytes(10 << 20, ' ');
  for (std::size_t i = 0; i < (1 << 16); ++i) bytes[i] = static_cast<char>(random.Bits());
  for (const float x : Of(*sketch, bytes)) CHECK(std::isfinite(x));
}

TEST_CASE("the leading singular values equal those of a small dense decomposition") {
  // Two texts have no common words, so the right singular vectors are the texts themselves.
  const std::vector<std::string_view> texts = {"alpha beta", "gamma delta", "gamma delta"};
  const auto sketch = TextSketch::Train(texts, {.dimensions = 2});
  REQUIRE(sketch.ok());
  const auto a = Of(**sketch, "alpha beta"), g = Of(**sketch, "gamma delta");
  CHECK(std::abs(g[0]) == Approx(1).margin(1e-4));  // it occurs twice: first
  CHECK(std::abs(g[1]) == Approx(0).margin(1e-4));
  CHECK(std::abs(a[0]) == Approx(0).margin(1e-4));
  CHECK(std::abs(a[1]) == Approx(1).margin(1e-4));
}

TEST_CASE("sketches are saved, and damaged ones refused") {
  const Texts texts = Topics(4, 10);
  const auto sketch = Learnt(texts);
  const std::string bytes = sketch->Save();
  const auto read = TextSketch::Load(bytes);
  REQUIRE(read.ok());
  CHECK(Of(**read, texts.all[3]) == Of(*sketch, texts.all[3]));
  CHECK(TextSketch::Load(std::string_view(bytes).substr(0, bytes.size() / 2)).status().code() ==
        absl::StatusCode::kDataLoss);
  std::string damaged = bytes;
  damaged[bytes.size() / 3] ^= 1;
  CHECK(TextSketch::Load(damaged).status().code() == absl::StatusCode::kDataLoss);
  CHECK(TextSketch::Load("no such thing").status().code() == absl::StatusCode::kInvalidArgument);

  const auto views = texts.views();
  CHECK(TextSketch::Train({}).status().message() == "text sketch: there are no texts to learn from");
  CHECK_FALSE(TextSketch::Train(views, {.dimensions = 0}).ok());
  CHECK(TextSketch::Train(views, {}, [](double) { return false; }).status().code() == absl::StatusCode::kCancelled);
  const std::vector<std::string_view> nothing = {"", "", ""};
  CHECK(TextSketch::Train(nothing).ok());
  CHECK(Of(**TextSketch::Train(nothing), "word") == std::vector<float>(16));
}

// --- Confidence. ---

// Two features have an effect and one has none. Model 1 solves with logistic(x0), model 2 with logistic(2 x1 - 1).
ConfidenceData Tried(std::size_t rows, std::uint64_t seed) {
  Random random(seed);
  ConfidenceData data{.features = 3, .models = {{1}, {2}}};
  for (std::size_t i = 0; i < rows; ++i) {
    const double a = random.Normal(), b = random.Normal();
    for (const double x : {10 + 100 * a, b, 7.0}) data.numbers.push_back(static_cast<float>(x));
    data.outcomes.push_back(random.Chance(1 / (1 + std::exp(-a))));
    data.outcomes.push_back(random.Chance(0.1) ? 2 : random.Chance(1 / (1 + std::exp(1 - 2 * b))) ? 1 : 0);
  }
  return data;
}

TEST_CASE("confidence is the true probability, and its report shows this") {
  const auto made = Confidence::Train(Tried(8000, 1));
  REQUIRE(made.ok());
  for (const double x : {-2.0, 0.0, 1.5}) {
    const std::array<float, 3> numbers = {static_cast<float>(10 + 100 * x), static_cast<float>(x), 7};
    std::array<double, 2> scores;
    (*made)->Scores(numbers, scores);
    CHECK(scores[0] == Approx(1 / (1 + std::exp(-x))).margin(0.03));
    CHECK(scores[1] == Approx(1 / (1 + std::exp(1 - 2 * x))).margin(0.03));
  }
  REQUIRE((*made)->report().size() == 2);
  for (const ConfidenceReport& report : (*made)->report()) {
    CHECK(report.calibration_error < 0.03);
    CHECK(report.cross_entropy < 0.65);
    CHECK(report.average_precision > report.solved + 0.1);
    CHECK(report.reliability.size() == 10);
  }
  CHECK((*made)->report()[0].rows == 8000);
  CHECK((*made)->report()[1].rows == Approx(7200).margin(150));  // the others were not tried
}

TEST_CASE("cross-validation leaves out all prompts of a group together") {
  // Three prompts of a workflow contain its number and have equal outcomes, for any number.
  Random random(1);
  ConfidenceData data{.features = 40, .models = {{1}}};
  for (std::uint64_t w = 0; w < 40; ++w) {
    const bool solved = random.Chance(0.5);
    for (int i = 0; i < 3; ++i) {
      for (std::uint64_t f = 0; f < 40; ++f) data.numbers.push_back(f == w ? 1.0f : 0.0f);
      data.outcomes.push_back(solved);
      data.groups.push_back(w);
    }
  }
  const double together = (*Confidence::Train(data))->report()[0].average_precision;
  data.groups.clear();
  const auto alone = (*Confidence::Train(data))->report()[0];
  CHECK(alone.average_precision > 0.95);
  CHECK(together < alone.solved + 0.15);
  data.groups.push_back(1);
  CHECK(Confidence::Train(data).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("prompts tried on one model teach the untried models of others") {
  const ConfidenceData all = Tried(600, 1);
  ConfidenceData dense = all, sparse = all;
  sparse.outcomes.clear();
  for (std::size_t i = 0; i < 600; ++i) {
    const std::size_t column = i % 3 == 0 ? 0 : 1;
    dense.outcomes[2 * i + 1 - column] = ConfidenceData::kUntried;
    sparse.outcomes.push_back(all.outcomes[2 * i + column]);
    sparse.columns.push_back(static_cast<std::uint32_t>(column));
    for (ConfidenceData* data : {&dense, &sparse}) data->groups.push_back(i / 4);
  }
  const auto of_dense = Confidence::Train(dense), of_sparse = Confidence::Train(sparse);
  REQUIRE(of_dense.ok());
  REQUIRE(of_sparse.ok());
  CHECK((*of_dense)->Save() == (*of_sparse)->Save());
  for (std::size_t m = 0; m < 2; ++m) {
    CHECK((*of_dense)->report()[m].rows == (*of_sparse)->report()[m].rows);
    CHECK((*of_dense)->report()[m].average_precision == (*of_sparse)->report()[m].average_precision);
    std::array<double, 2> scores;
    (*of_sparse)->Scores(all.numbers, scores);
    CHECK((*of_sparse)->Score(m, all.numbers) == scores[m]);
  }
  sparse.columns[0] = 2;
  CHECK(Confidence::Train(sparse).status().message() == "confidence: a prompt has an outcome of an unknown model");
  sparse.columns.pop_back();
  CHECK_FALSE(Confidence::Train(sparse).ok());
}

TEST_CASE("confidence training stops between two steps of one model") {
  int asked = 0;
  double last = -1;
  const auto rising = [&](double share) {
    CHECK(share >= last);
    CHECK(share < 1);
    last = share;
    return ++asked < 4;
  };
  CHECK(Confidence::Train(Tried(500, 1), {}, SerialFor, rising).status().code() == absl::StatusCode::kCancelled);
  CHECK(asked == 4);
}

TEST_CASE("uniform outcomes, one row, no trials and invalid numbers are handled") {
  std::array<double, 2> scores;
  ConfidenceData data = Tried(200, 1);
  data.outcomes.assign(400, ConfidenceData::kSolved);
  auto made = Confidence::Train(data);
  REQUIRE(made.ok());
  (*made)->Scores(data.numbers, scores);
  CHECK(scores[0] > 0.95);
  data.outcomes.assign(400, ConfidenceData::kUntried);
  REQUIRE(Confidence::Train(data).ok());
  (*Confidence::Train(data))->Scores({}, scores);
  CHECK(scores[0] == -1);
  CHECK(Confidence::Train(Tried(1, 1)).ok());

  data = Tried(200, 1);
  for (std::size_t i = 0; i < data.numbers.size(); i += 4) data.numbers[i] = i % 8 == 0 ? NAN : INFINITY;
  made = Confidence::Train(data);
  REQUIRE(made.ok());
  for (const float odd : {NAN, INFINITY, -INFINITY, 3e38f}) {
    (*made)->Scores(std::array<float, 3>{odd, odd, odd}, scores);
    for (const double score : scores) CHECK((score >= 0 && score <= 1));
  }
  CHECK(Confidence::Train({}).status().message() == "confidence: there are no models");
  data.numbers.pop_back();
  CHECK_FALSE(Confidence::Train(data).ok());
}

TEST_CASE("confidence heads are saved, and refused if damaged") {
  const ConfidenceData data = Tried(300, 1);
  const auto made = *Confidence::Train(data);
  const std::string bytes = made->Save();
  const auto read = Confidence::Load(bytes);
  REQUIRE(read.ok());
  std::array<double, 2> a, b;
  made->Scores(data.numbers, a);
  (*read)->Scores(data.numbers, b);
  CHECK(a == b);
  for (std::size_t i = 20; i < bytes.size(); i += 9) {
    std::string damaged = bytes;
    damaged[i] ^= 4;
    CHECK_FALSE(Confidence::Load(damaged).ok());
    CHECK_FALSE(Confidence::Load(bytes.substr(0, i)).ok());
  }
}

TEST_CASE("average precision, cross entropy and reliability equal values by hand") {
  const std::array<double, 4> scores = {0.9, 0.8, 0.3, 0.1};
  const std::array<std::uint8_t, 4> outcomes = {1, 0, 1, 0};
  CHECK(AveragePrecision(scores, outcomes) == Approx((1 + 2.0 / 3) / 2));
  CHECK(CrossEntropy(scores, outcomes) == Approx(-(std::log(0.9) + std::log(0.2) + std::log(0.3) + std::log(0.9)) / 4));
  const auto bins = Reliability(scores, outcomes, 2);
  CHECK(bins[1].count == 2);
  CHECK(bins[1].score == Approx(0.85));
  CHECK(bins[1].share == 0.5);
  CHECK(ExpectedCalibrationError(bins) == Approx((0.35 + 0.3) / 2));
  CHECK(AveragePrecision({}, {}) == 0);
}

}  // namespace
}  // namespace takt
