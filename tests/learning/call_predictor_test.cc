// From a log of calls to a file, and back to predictions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "learning/pack.h"
#include "takt/base/random.h"
#include "takt/learning/call_predictor.h"

namespace takt {
namespace {

// Plans of some length, then code of twice that length. Prompts contain the length. The model "small" writes half as
// much and solves short tasks.
struct Log {
  std::vector<std::string> texts = std::vector<std::string>(1000);
  std::vector<std::vector<LoggedCall>> workflows = {};

  explicit Log(std::uint64_t seed = 1, bool with_texts = true) {
    Random random(seed);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto size = static_cast<int>(random.Below(4));  // one of four
      if (with_texts) {
        for (int w = 0; w < 60; ++w)
          texts[i] += "word" + std::to_string(100 * size + static_cast<int>(random.Below(50))) + " ";
      }
      const bool small = i % 2 == 0;
      const int tokens = (small ? 50 : 100) << size;
      const std::string_view model = small ? "small" : "large";
      const std::uint8_t solved = !small || random.Chance(0.9 - 0.25 * size);
      workflows.push_back({{{.model = model, .kind = "code", .stage = "plan", .text = texts[i], .prompt_tokens = {90}},
                            {tokens},
                            solved},
                           {{.model = model,
                             .kind = "code",
                             .stage = "code",
                             .text = texts[i],
                             .prompt_tokens = {90},
                             .calls_before = 1,
                             .tokens_before = {tokens}},
                            {2 * tokens}}});
    }
  }
};

const CallPredictorOptions kSmall = {.lengths = {.forest = {.trees = 20}}, .sketch = {.buckets = 1024}};

std::shared_ptr<const CallPredictor> Learnt(const Log& log, const CallPredictorOptions& options = kSmall) {
  auto made = CallPredictor::Train(log.workflows, options);
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *made;
}

std::vector<CallForecast> Forecasts(const CallPredictor& predictor, const std::vector<CallDescription>& calls) {
  CallPredictor::Scratch scratch;
  std::vector<CallForecast> forecasts(calls.size());
  predictor.Predict(calls, forecasts, scratch);
  return forecasts;
}

TEST_CASE("texts, stages, models and earlier output predict the rest") {
  const Log log, fresh(2);
  const auto predictor = Learnt(log);
  CHECK(std::vector<std::string>(predictor->models().begin(), predictor->models().end()) ==
        std::vector<std::string>{"large", "small"});
  REQUIRE(predictor->sketch() != nullptr);
  REQUIRE(predictor->confidence() != nullptr);
  double right = 0, solved_long = 0, solved_short = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const auto& workflow = fresh.workflows[i];
    const auto forecasts = Forecasts(*predictor, {workflow[0].call, workflow[1].call});
    const double truth = workflow[0].output_tokens.value;
    right += forecasts[0].tokens_left.Quantile(0.5) == 3 * truth ? 1 : 0;
    right += forecasts[1].tokens_left.Quantile(0.5) == 2 * truth ? 1 : 0;
    if (workflow[0].call.model == "large") CHECK(forecasts[0].solved > 0.9);
    else if (truth == 50) solved_short = forecasts[0].solved;
    else if (truth == 400) solved_long = forecasts[0].solved;
  }
  CHECK(right > 0.97 * 400);
  CHECK(solved_short > 0.8);
  CHECK(solved_long < 0.3);
  CHECK(predictor->ReportOf("small")->rows == 1000);
  CHECK(predictor->ReportOf("none") == nullptr);
}

TEST_CASE("missing inputs are allowed, and a model without observations is unknown") {
  Log log(1, false);
  for (auto& workflow : log.workflows) {
    for (LoggedCall& logged : workflow) logged.solved = ConfidenceData::kUntried;
  }
  const auto predictor = Learnt(log);
  CHECK(predictor->sketch() == nullptr);
  CHECK(predictor->confidence() == nullptr);
  const auto forecasts = Forecasts(*predictor, {{.model = "small", .stage = "code"},
                                                {.model = "small"},
                                                {.model = "small", .stage = "never seen", .text = "of no use"},
                                                {.model = "other"},
                                                {}});
  for (std::size_t i = 0; i < 3; ++i) CHECK(forecasts[i].tokens_left.known());
  CHECK_FALSE(forecasts[3].tokens_left.known());
  CHECK_FALSE(forecasts[4].tokens_left.known());
  for (const CallForecast& forecast : forecasts) CHECK(forecast.solved == -1);
  CHECK(CallPredictor::Train({}).status().message() == "predictor: calls are empty; expected at least one");
  const auto stopped = CallPredictor::Train(log.workflows, kSmall, SerialFor, [](double) { return false; });
  CHECK(stopped.status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("an untried model has an unknown success rate outside means") {
  Log log;
  for (auto& workflow : log.workflows) {
    if (workflow[0].call.model == "large") workflow[0].solved = ConfidenceData::kUntried;
  }
  const auto made = Learnt(log);
  for (const auto& predictor : {made, *CallPredictor::Load(made->Save())}) {
    const auto forecasts =
        Forecasts(*predictor, {{.model = "large", .stage = "plan"}, {.model = "small", .stage = "plan"}});
    CHECK(forecasts[0].solved == -1);
    CHECK(forecasts[0].tokens_left.known());
    CHECK(forecasts[1].solved > 0.2);
  }
  const auto report = made->confidence()->report();
  CHECK(report[0].rows == 0);
  CHECK(made->confidence()->mean_average_precision() == report[1].average_precision);
}

TEST_CASE("hostile texts and counts do no harm") {
  Log log;
  std::string huge(10 << 20, 'x');
  for (std::size_t i = 0; i < huge.size(); i += 7) huge[i] = ' ';
  const std::string broken = "\xff\xc3\x28 word \xe2\x82";
  log.workflows[0][0].call.text = huge;
  log.workflows[1][0].call.text = broken;
  log.workflows[2][0].output_tokens = {INT32_MAX};
  log.workflows[2][1].output_tokens = {INT32_MAX};
  log.workflows[3][0].output_tokens = {-7};
  const auto predictor = Learnt(log);
  for (const CallForecast& forecast :
       Forecasts(*predictor, {{.model = "small", .text = huge},
                              {.model = "small", .text = broken},
                              {.model = "small", .prompt_tokens = {INT32_MAX}, .tokens_before = {INT32_MAX}},
                              {.model = "small", .generated = {INT32_MAX}}})) {
    CHECK(forecast.tokens_left.known());
    CHECK((forecast.solved >= 0 && forecast.solved <= 1));
  }
}

TEST_CASE("files are read as written, and damaged ones are refused") {
  const Log log;
  for (const bool texts : {false, true}) {
    const auto made = Learnt(Log(1, texts), {.lengths = {.forest = {.trees = 5}}, .sketch = {.buckets = 256}});
    const std::string bytes = made->Save();
    std::shared_ptr<const CallPredictor> running = *CallPredictor::Load(bytes);
    CHECK(running->Save() == bytes);
    const std::vector<CallDescription> calls = {log.workflows[5][0].call, log.workflows[8][1].call};
    const auto there = Forecasts(*made, calls), back = Forecasts(*running, calls);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      CHECK(there[i].tokens_left == back[i].tokens_left);
      CHECK(there[i].solved == back[i].solved);
    }
    std::size_t refused = 0, tried = 0;
    const auto refresh = [&](std::string_view file) {
      ++tried;
      auto fresh = CallPredictor::Load(file);
      if (fresh.ok()) running = *fresh;
      else refused += fresh.status().message().empty() ? 0u : 1u;
    };
    for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 10) refresh(bytes.substr(0, size));
    for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 200) {
      std::string damaged = bytes;
      damaged[i] ^= 0x10;
      refresh(damaged);
    }
    refresh("no such thing");
    // Each part is valid, but they are from different files.
    const auto joined = [&](std::vector<std::string> models, const std::string& lengths, const std::string& heads) {
      internal::Packer out("takt predictor ", 2);
      out.Put(static_cast<std::uint64_t>(models.size()));
      for (const std::string& model : models) out.Put(std::string_view(model));
      out.Put(std::string_view(texts ? made->sketch()->Save() : std::string()));
      out.Put(std::string_view(lengths));
      out.Put(std::string_view(heads));
      out.Put(std::string_view());  // no tool calls
      return out.Take();
    };
    const std::string lengths = made->lengths().Save(), heads = made->confidence()->Save();
    CHECK(joined({"large", "small"}, lengths, heads) == bytes);
    refresh(joined({"large", "small"}, Learnt(Log(1, !texts))->lengths().Save(), heads));
    refresh(joined({"large", "small"}, lengths, Learnt(Log(1, !texts))->confidence()->Save()));
    refresh(joined({"large"}, lengths, ""));
    CHECK(refused == tried);
    CHECK(running->Save() == bytes);
  }
}

// LAMPS, section 5: bins of 10 tokens, the last of which has all counts from 490 on.
TEST_CASE("tokens before a tool call are predicted from the prompt, in bins") {
  Log log;
  for (std::size_t i = 0; i < log.workflows.size(); ++i) {
    const int size = log.workflows[i][0].output_tokens.value / (i % 2 == 0 ? 50 : 100);  // 1 to 8
    if (i % 10 != 0) log.workflows[i][0].before_tool = {size == 8 ? 1200 : 30 * size + static_cast<int>(i % 7)};
  }
  const auto predictor = Learnt(log);
  REQUIRE(predictor->before_tool() != nullptr);
  const auto first_of = [&](int tokens) {
    const auto of = [&](const auto& workflow) { return workflow[0].output_tokens.value == tokens; };
    return Forecasts(*predictor, {std::ranges::find_if(log.workflows, of)->front().call})[0].before_tool.Quantile(0.5);
  };
  CHECK(first_of(50) == 35);
  CHECK(first_of(200) == Approx(125).margin(10));  // a call of the small model: 30 times its size of 4
  CHECK(first_of(800) == 495);
  CHECK_FALSE(Forecasts(*predictor, {{.model = "other"}})[0].before_tool.known());
  CHECK(Learnt(Log())->before_tool() == nullptr);
  CHECK_FALSE(Forecasts(*Learnt(Log()), {log.workflows[0][0].call})[0].before_tool.known());

  const auto loaded = CallPredictor::Load(predictor->Save());
  REQUIRE(loaded.ok());
  CHECK((*loaded)->Save() == predictor->Save());
  CHECK(Forecasts(**loaded, {log.workflows[1][0].call})[0].before_tool ==
        Forecasts(*predictor, {log.workflows[1][0].call})[0].before_tool);
  CallPredictorOptions exact = kSmall;
  exact.tool_bins = 0;
  CHECK(Forecasts(*Learnt(log, exact), {log.workflows[7][0].call})[0].before_tool.known());
}

// Each call names its own model. Costs that grow with the square of the number of models would take minutes.
TEST_CASE("thousands of models are learned, and training stops on request") {
  std::vector<std::string> names;
  for (int m = 0; m < 20'000; ++m) names.push_back("model " + std::to_string(m));
  std::vector<std::vector<LoggedCall>> workflows;
  for (std::size_t m = names.size(); m-- > 0;) {  // in reverse order
    workflows.push_back(
        {{{.model = names[m], .prompt_tokens = {static_cast<std::int32_t>(m % 90)}}, {50}, m % 2 == 0}});
  }
  CallPredictorOptions options;
  options.lengths.forest.trees = 1;
  const auto made = CallPredictor::Train(workflows, options);
  REQUIRE(made.ok());
  CHECK((*made)->models().size() == names.size());
  CHECK((*made)->confidence()->report().back().rows == 1);

  workflows.resize(300);
  std::vector<double> shares;
  const auto count = [&](double share) {
    shares.push_back(share);
    return true;
  };
  REQUIRE(CallPredictor::Train(workflows, options, SerialFor, count).ok());
  CHECK(std::ranges::is_sorted(shares));
  CHECK(shares.back() > 0.95);
  const auto between = [&](double from, double to) {
    return std::ranges::count_if(shares, [&](double share) { return share > from && share < to; });
  };
  CHECK(between(0, 0.2) > 2);   // facts of calls are combined
  CHECK(between(0.2, 0.9) > 200);
  CHECK(between(0.9, 1) > 100);  // heads
  for (std::size_t stop = 0; stop < shares.size(); stop += 37) {
    std::size_t asked = 0;
    const auto status =
        CallPredictor::Train(workflows, options, SerialFor, [&](double) { return asked++ < stop; }).status();
    CHECK(status.code() == absl::StatusCode::kCancelled);
    CHECK(asked == stop + 1);
  }
}

}  // namespace
}  // namespace takt
