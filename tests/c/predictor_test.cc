// Predictions through C equal those of C++. Invalid files and numbers return an error.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "c/told.h"
#include "catch.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"
#include "takt/learning/call_predictor.h"
#include "takt/learning/tool_profile.h"

namespace takt {
namespace {

// Two models. Long questions have long answers.
std::shared_ptr<const CallPredictor> Learnt() {
  std::vector<std::vector<LoggedCall>> workflows;
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    LoggedCall logged;
    const auto length = static_cast<std::int32_t>(10 + random.Below(400));
    logged.call = {.model = i % 2 == 0 ? "large" : "small", .kind = "chat", .stage = "answer"};
    logged.call.text = length > 200 ? "explain the proof of this theorem" : "hello how are you";
    logged.call.prompt_tokens = {length};
    logged.output_tokens = {2 * length};
    logged.solved = static_cast<std::uint8_t>(random.Below(2));
    workflows.push_back({logged});
  }
  CallPredictorOptions options;
  options.lengths.forest.trees = 8;
  return *CallPredictor::Train(workflows, options);
}

std::vector<takt_call> CallsInC() {
  std::vector<takt_call> calls;
  for (const char* model : {"large", "small", "none", static_cast<const char*>(nullptr)}) {
    for (const std::int32_t prompt : {-1, 20, 390, INT32_MAX}) {
      for (const char* text : {"", "explain this theorem"}) {
        takt_call call;
        takt_call_init(&call, sizeof call);
        call.model = model, call.kind = "chat", call.prompt_tokens = prompt;
        call.text = text, call.n_text = std::strlen(text);
        if (prompt == 390) call.stage = "answer", call.generated = 300, call.tokens_before = 7, call.calls_before = 1;
        calls.push_back(call);
      }
    }
  }
  return calls;
}

takt_predictor* Make(const std::string& bytes) {
  takt_predictor* predictor = nullptr;
  REQUIRE(takt_predictor_create(bytes.data(), bytes.size(), &predictor, nullptr) == TAKT_OK);
  return predictor;
}

bool Same(const takt_estimate& c, const Estimate& cxx) {
  return c.mean == cxx.mean && std::equal(cxx.quantiles.begin(), cxx.quantiles.end(), c.quantiles) && c.reserved == 0;
}

TEST_CASE("predictions through C equal those of C++") {
  const auto cxx = Learnt();
  takt_predictor* c = Make(cxx->Save());
  CHECK(takt_predictor_model(c, 0) == std::string("large"));
  CHECK(takt_predictor_model(c, 1) == std::string("small"));
  CHECK(takt_predictor_model(c, 2) == nullptr);
  const std::vector<takt_call> calls = CallsInC();
  std::vector<CallDescription> described;
  for (const takt_call& call : calls) {
    described.push_back({.model = call.model == nullptr ? "" : call.model,
                         .kind = call.kind,
                         .stage = call.stage == nullptr ? "" : call.stage,
                         .text = {call.text, call.n_text},
                         .prompt_tokens = {call.prompt_tokens},
                         .calls_before = call.calls_before,
                         .tokens_before = {call.tokens_before},
                         .generated = {call.generated}});
  }
  std::vector<CallForecast> expected(calls.size());
  CallPredictor::Scratch scratch;
  cxx->Predict(described, expected, scratch);
  std::vector<takt_estimate> left(calls.size());
  std::vector<double> solved(calls.size());
  REQUIRE(takt_predictor_predict(c, calls.data(), calls.size(), sizeof(takt_call), left.data(), solved.data()) ==
          TAKT_OK);
  int known = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CHECK(Same(left[i], expected[i].tokens_left));
    CHECK(solved[i] == expected[i].solved);
    known += left[i].mean >= 0 && solved[i] >= 0 ? 1 : 0;
    takt_estimate alone;
    CHECK(takt_predictor_predict(c, &calls[i], 1, 0, &alone, nullptr) == TAKT_OK);
    CHECK(std::memcmp(&alone, &left[i], sizeof alone) == 0);
  }
  CHECK(known == 16);
  CHECK(takt_predictor_predict(c, nullptr, 0, 0, nullptr, nullptr) == TAKT_OK);
  CHECK(takt_predictor_destroy(c) == TAKT_OK);
}

TEST_CASE("an invalid or damaged predictor is refused with its reader's message") {
  const std::string whole = Learnt()->Save();
  takt_error error;
  takt_error_init(&error, sizeof error);
  const auto load = [&](const std::string& bytes) {
    auto* predictor = reinterpret_cast<takt_predictor*>(&error);
    const takt_status status = takt_predictor_create(bytes.data(), bytes.size(), &predictor, &error);
    CHECK(predictor == nullptr);
    CHECK(error.code == status);
    return status;
  };
  CHECK(load("a forest of words") == TAKT_E_INVALID);
  CHECK(std::string(error.text) == "expected a predictor");
  CHECK(load("") == TAKT_E_CORRUPT);
  for (std::size_t n = 1; n < whole.size(); n += 1 + whole.size() / 50)
    CHECK(load(whole.substr(0, n)) == TAKT_E_CORRUPT);
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
  CHECK(load(changed) == TAKT_E_CORRUPT);
  CHECK(std::string(error.text).find("checksum") != std::string::npos);
  CHECK(takt_predictor_create(nullptr, 5, nullptr, &error) == TAKT_E_NULL);
  takt_predictor* none = nullptr;
  CHECK(takt_predictor_create(nullptr, 5, &none, &error) == TAKT_E_NULL);
}

TEST_CASE("invalid calls are not predicted") {
  takt_predictor* c = Make(Learnt()->Save());
  std::vector<takt_call> calls = CallsInC();
  takt_estimate left{7, {}, 0};
  const auto predict = [&](std::size_t n, std::size_t stride) {
    return takt_predictor_predict(c, calls.data(), n, stride, &left, nullptr);
  };
  CHECK(predict(2, 0) == TAKT_E_INVALID);
  CHECK(predict(2, sizeof(takt_call) + 4) == TAKT_E_INVALID);
  calls[0].reserved = 1;
  CHECK(predict(1, 0) == TAKT_E_INVALID);
  calls[0].reserved = 0, calls[0].text = nullptr, calls[0].n_text = 3;
  CHECK(predict(1, 0) == TAKT_E_NULL);
  calls[0].n_text = 0, calls[0].struct_size = 3;
  CHECK(predict(1, 0) == TAKT_E_SIZE);
  CHECK(takt_predictor_predict(c, nullptr, 1, 0, &left, nullptr) == TAKT_E_NULL);
  CHECK(left.mean == 7);
  CHECK(takt_predictor_predict(nullptr, nullptr, 0, 0, nullptr, nullptr) == TAKT_E_NULL);
  CHECK(takt_predictor_model(nullptr, 0) == nullptr);
  auto* other = reinterpret_cast<takt_tool_profile*>(c);
  CHECK(takt_tool_profile_observe(other, nullptr, 0, nullptr) == TAKT_E_HANDLE);
  CHECK(takt_predictor_destroy(c) == TAKT_OK);
  CHECK(takt_predictor_destroy(nullptr) == TAKT_OK);
}

takt_tool_profile_options ToolOptions() {
  takt_tool_profile_options options;
  takt_tool_profile_options_init(&options, sizeof options);
  return options;
}

TEST_CASE("tools learn the same through C as through C++") {
  ToolProfile cxx;
  takt_tool_profile* c = nullptr;
  const takt_tool_profile_options options = ToolOptions();
  REQUIRE(takt_tool_profile_create(&options, &c, nullptr) == TAKT_OK);
  takt_tool_expectation seed;
  takt_tool_expectation_init(&seed, sizeof seed);
  CHECK(takt_tool_profile_seed(c, 1, &seed) == TAKT_E_INVALID);  // an empty prediction
  seed.seconds.mean = 2, seed.seconds_spread = 1, seed.returned_tokens.mean = 40;
  CHECK(takt_tool_profile_seed(c, 1, &seed) == TAKT_OK);
  CHECK(cxx.Seed({1}, {.seconds = 2, .seconds_spread = 1, .returned_tokens = 40}));
  const auto same = [&] {
    for (const std::uint64_t tool : {0u, 1u, 2u, 9u}) {
      const ToolExpectation& expected = cxx.Expect({tool});
      auto told = Sized<takt_tool_expectation>();
      REQUIRE(takt_tool_profile_expect(c, tool, &told) == TAKT_OK);
      CHECK(Same(told.seconds, expected.seconds));
      CHECK(Same(told.returned_tokens, expected.returned_tokens));
      CHECK(Same(told.tokens_before, expected.tokens_before));
      CHECK(std::array{told.seconds_spread, told.returned_spread, told.before_spread} ==
            std::array{expected.seconds_spread, expected.returned_spread, expected.before_spread});
      CHECK(told.observations == expected.observations);
      CHECK((told.pooled != 0) == expected.pooled);
    }
  };
  same();
  Random random(1);
  for (int batch = 0; batch < 20; ++batch) {
    std::vector<takt_tool_call> calls;
    std::size_t fine = 0;
    for (int i = 0; i < 10; ++i) {
      const double seconds = random.Chance(0.1) ? std::numeric_limits<double>::quiet_NaN() : random.Uniform() * 9;
      fine += std::isnan(seconds) ? 0u : 1u;
      calls.push_back({random.Below(4), seconds, static_cast<std::int64_t>(random.Below(90)), -1});
      cxx.Observe({{calls.back().tool}, seconds, calls.back().returned_tokens, -1});
    }
    std::size_t counted = 0;
    REQUIRE(takt_tool_profile_observe(c, calls.data(), calls.size(), &counted) == TAKT_OK);
    REQUIRE(counted == fine);
  }
  same();
  // A saved profile survives a restart as a seed.
  auto learnt = Sized<takt_tool_expectation>();
  REQUIRE(takt_tool_profile_expect(c, 2, &learnt) == TAKT_OK);
  takt_tool_profile* anew = nullptr;
  REQUIRE(takt_tool_profile_create(&options, &anew, nullptr) == TAKT_OK);
  REQUIRE(takt_tool_profile_seed(anew, 2, &learnt) == TAKT_OK);
  auto again = Sized<takt_tool_expectation>();
  REQUIRE(takt_tool_profile_expect(anew, 2, &again) == TAKT_OK);
  CHECK(again.seconds.mean == Approx(learnt.seconds.mean));
  CHECK(again.seconds_spread == Approx(learnt.seconds_spread));
  CHECK(takt_tool_profile_destroy(anew) == TAKT_OK);
  CHECK(takt_tool_profile_destroy(c) == TAKT_OK);
}

TEST_CASE("a tool profile reports each mistake") {
  takt_error error;
  takt_error_init(&error, sizeof error);
  const auto fault = [&](auto&& change) {
    takt_tool_profile_options options = ToolOptions();
    change(options);
    auto* profile = reinterpret_cast<takt_tool_profile*>(&error);
    CHECK(takt_tool_profile_create(&options, &profile, &error) == TAKT_E_INVALID);
    CHECK(profile == nullptr);
    return std::string(error.text);
  };
  CHECK(fault([](auto& o) { o.window = 1; }) == "window: is invalid; expected at least 2");
  CHECK(fault([](auto& o) { o.seed_weight = 513; }) == "seed_weight: is invalid; expected 1 to window / 2");
  CHECK(fault([](auto& o) { o.seed_weight = 0; }) == "seed_weight: is invalid; expected 1 to window / 2");
  for (const double odd : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    CHECK(fault([odd](auto& o) { o.max_seconds = odd; }) ==
          "max_seconds: is invalid; expected a finite number above 0");
  }
  CHECK(takt_tool_profile_create(nullptr, nullptr, &error) == TAKT_E_NULL);
  takt_tool_profile* profile = nullptr;
  CHECK(takt_tool_profile_create(nullptr, &profile, &error) == TAKT_E_NULL);
  const takt_tool_profile_options options = ToolOptions();
  REQUIRE(takt_tool_profile_create(&options, &profile, &error) == TAKT_OK);
  takt_tool_expectation seed;
  takt_tool_expectation_init(&seed, sizeof seed);
  seed.seconds.mean = std::numeric_limits<double>::infinity();
  CHECK(takt_tool_profile_seed(profile, 1, &seed) == TAKT_E_INVALID);
  CHECK(takt_tool_profile_seed(profile, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_tool_profile_expect(profile, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_tool_profile_observe(profile, nullptr, 1, nullptr) == TAKT_E_NULL);
  seed.struct_size = 0;
  CHECK(takt_tool_profile_expect(profile, 1, &seed) == TAKT_E_SIZE);
  CHECK(takt_tool_profile_destroy(profile) == TAKT_OK);
}

}  // namespace
}  // namespace takt
