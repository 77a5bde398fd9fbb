#include "takt/workload/generate.h"

#include <cmath>
#include <map>
#include <set>

#include "catch.h"
#include "takt/numeric/correlation.h"
#include "takt/workload/read.h"
#include "takt/workload/validate.h"

namespace takt {
namespace {

Workload Generated(std::string_view spec) {
  absl::StatusOr<Workload> workload = GenerateWorkload(spec);
  INFO(std::string(workload.status().message()));
  REQUIRE(workload.ok());
  CHECK(Validate(*workload).ok());
  return *workload;
}

std::string Error(std::string_view spec) {
  const absl::StatusOr<Workload> workload = GenerateWorkload(spec);
  return workload.ok() ? "no error" : std::string(workload.status().message());
}

struct Moments {
  double mean = 0, cv = 0;
};

Moments MomentsOf(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size())) / mean};
}

Moments Gaps(const Workload& w) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < w.workflows.size(); ++i) {
    gaps.push_back(ToSeconds(w.workflows[i].arrival - w.workflows[i - 1].arrival));
  }
  return MomentsOf(gaps);
}

std::vector<double> Outputs(const Workload& w) {
  std::vector<double> values;
  for (const WorkloadCall& c : w.calls) values.push_back(c.output_tokens);
  return values;
}

TEST_CASE("arrival processes have the promised rate and burstiness") {
  const Moments constant = Gaps(Generated("gen:constant,requests=1000,rate=4"));
  CHECK(constant.mean == Approx(0.25));
  CHECK(constant.cv == Approx(0).margin(1e-6));
  const Moments poisson = Gaps(Generated("gen:poisson,requests=100000,rate=4"));
  CHECK(poisson.mean == Approx(0.25).epsilon(0.02));
  CHECK(poisson.cv == Approx(1).epsilon(0.02));
  const Moments gamma = Gaps(Generated("gen:gamma,requests=200000,rate=4,cv=3"));
  CHECK(gamma.mean == Approx(0.25).epsilon(0.04));
  CHECK(gamma.cv == Approx(3).epsilon(0.04));
  const Moments weibull = Gaps(Generated("gen:weibull,requests=200000,rate=4,shape=0.7"));
  const double mean = std::tgamma(1 + 1 / 0.7), second = std::tgamma(1 + 2 / 0.7);
  CHECK(weibull.mean == Approx(0.25).epsilon(0.02));
  CHECK(weibull.cv == Approx(std::sqrt(second / (mean * mean) - 1)).epsilon(0.03));
}

TEST_CASE("length distributions have the promised moments") {
  const auto outputs = [](const std::string& lengths) {
    return MomentsOf(Outputs(Generated("gen:poisson,requests=100000,output=" + lengths)));
  };
  CHECK(outputs("17").mean == 17);
  CHECK(outputs("constant:17").cv == 0);
  CHECK(outputs("uniform:10:19").mean == Approx(14.5).epsilon(0.01));
  CHECK(outputs("lognormal:200:0.5").mean == Approx(200 * std::exp(0.125)).epsilon(0.01));
  const Moments by_mean = outputs("lognormal_mean:580:700");
  CHECK(by_mean.mean == Approx(580).epsilon(0.015));
  CHECK(by_mean.cv == Approx(700.0 / 580).epsilon(0.04));
}

TEST_CASE("uniform lengths include both ends and nothing else") {
  std::set<int> seen;
  for (const WorkloadCall& c : Generated("gen:poisson,requests=1000,output=uniform:3:5").calls)
    seen.insert(c.output_tokens);
  CHECK(seen == std::set<int>{3, 4, 5});
}

TEST_CASE("empirical lengths are those of the sample") {
  Workload source;
  for (const int tokens : {5, 70, 900}) source.calls.push_back({.prompt_tokens = tokens, .output_tokens = 2 * tokens});
  Random random(1);
  std::set<double> prompts, outputs;
  for (int i = 0; i < 100; ++i) {
    prompts.insert(Lengths::PromptsOf(source).Draw(random));
    outputs.insert(Lengths::OutputsOf(source).Draw(random));
  }
  CHECK(prompts == std::set<double>{5, 70, 900});
  CHECK(outputs == std::set<double>{10, 140, 1800});
}

TEST_CASE("a seed gives one workload, and the rate keeps its sizes") {
  const Workload w = Generated("gen:multi_stage,workflows=50,seed=7");
  CHECK(w == Generated("gen:multi_stage,workflows=50,seed=7"));
  CHECK_FALSE(w == Generated("gen:multi_stage,workflows=50,seed=8"));
  const Workload faster = Generated("gen:multi_stage,workflows=50,seed=7,rate=6");
  CHECK(faster.calls == w.calls);
  CHECK(ToSeconds(faster.workflows.back().arrival) == Approx(ToSeconds(w.workflows.back().arrival) / 2));
}

TEST_CASE("the bundled workload has three shapes, ordered stages and a heavy tail") {
  const Workload w = BundledWorkload();
  CHECK(Validate(w).ok());
  CHECK(w == Generated("gen:multi_stage"));
  REQUIRE(w.workflows.size() == 1200);
  CHECK(w.calls.size() > 2500);
  CHECK(w.calls.size() < 3500);
  std::map<std::string, int> shapes;
  std::map<std::size_t, int> coders;
  int second_coders = 0;
  std::vector<double> totals;
  for (const WorkloadWorkflow& f : w.workflows) {
    const std::string& shape = w.names[f.name];
    ++shapes[shape];
    double total = 0;
    std::map<std::string, std::vector<std::uint32_t>> stages;
    for (std::uint32_t i = 0; i < f.calls; ++i) {
      const WorkloadCall& call = w.calls_of(f)[i];
      stages[w.names[call.stage]].push_back(i);
      total += call.output_tokens;
    }
    totals.push_back(total);
    if (shape != "plan_code_review") continue;
    ++coders[stages["coder"].size()];
    second_coders += !stages["second_coder"].empty();
    const WorkloadCall& reviewer = w.calls_of(f)[stages["reviewer"][0]];
    const auto after = w.predecessors_of(reviewer);
    CHECK(std::vector<std::uint32_t>(after.begin(), after.end()) == stages["coder"]);  // the join
    for (const std::uint32_t c : stages["coder"]) CHECK(w.predecessors_of(w.calls_of(f)[c]).size() == 1);
    CHECK(f.deadline >= std::chrono::seconds(30));
    CHECK(f.deadline <= std::chrono::seconds(120));
  }
  for (const char* shape : {"plan_code_review", "plan_code", "code"}) CHECK(shapes[shape] == Approx(400).margin(60));
  CHECK(coders.size() == 3);
  for (const auto& [number, times] : coders) CHECK(times == Approx(shapes["plan_code_review"] / 3).margin(40));
  CHECK(second_coders == Approx(shapes["plan_code_review"] / 2).margin(40));
  const Moments total = MomentsOf(totals);
  CHECK(total.mean == Approx(2400).epsilon(0.15));
  CHECK(total.cv > 1);
}

TEST_CASE("the bundled workload is the same with every compiler") {
  const Workload w = BundledWorkload();
  std::uint64_t digest = 0;
  const auto add = [&](std::int64_t value) { digest = Mix64(digest ^ static_cast<std::uint64_t>(value)); };
  for (const WorkloadWorkflow& f : w.workflows) {
    add(f.arrival.time_since_epoch() / std::chrono::microseconds(1));
    add(f.deadline / std::chrono::microseconds(1));
  }
  for (const WorkloadCall& c : w.calls) {
    add(c.prompt_tokens);
    add(c.output_tokens);
  }
  CHECK(digest == 0x22d74c31c7080c6du);
}

TEST_CASE("a stage's prompt includes the outputs that it reads") {
  StageTemplate a{.stage = "a", .output = Lengths::Constant(100), .least_calls = 2, .most_calls = 2};
  StageTemplate b{.stage = "b", .prompt = Lengths::Constant(7), .output = Lengths::Constant(5), .reads = 0.5};
  StageTemplate c{.stage = "c", .prompt = Lengths::Constant(3), .reads = 1};
  a.next = {{1, {1, 2}}};
  b.next = {{1, {2}}};
  GeneratorOptions options;
  options.workflows = 20;
  options.templates.push_back({.name = "t", .stages = {a, b, c}});
  const absl::StatusOr<Workload> w = GenerateWorkload(options);
  REQUIRE(w.ok());
  const auto calls = w->calls_of(w->workflows[3]);
  REQUIRE(calls.size() == 4);
  CHECK(calls[2].prompt_tokens == 7 + 100);
  CHECK(calls[3].prompt_tokens == 3 + 100 + 100 + 5);  // both calls of a, and b
  CHECK(w->predecessors_of(calls[3]).size() == 3);
}

TEST_CASE("branches occur with their probabilities, at most one at a time") {
  GeneratorOptions options;
  options.workflows = 20000;
  StageTemplate router{.stage = "router"};
  router.next = {{0.5, {1}}, {0.3, {2}}};
  options.templates.push_back({.stages = {router, {.stage = "math"}, {.stage = "arts"}}});
  const absl::StatusOr<Workload> w = GenerateWorkload(options);
  REQUIRE(w.ok());
  std::map<std::string, int> ends;
  for (const WorkloadWorkflow& f : w->workflows) {
    REQUIRE(f.calls <= 2);
    ++ends[w->names[w->calls_of(f).back().stage]];
  }
  CHECK(ends["math"] == Approx(10000).margin(300));
  CHECK(ends["arts"] == Approx(6000).margin(300));
  CHECK(ends["router"] == Approx(4000).margin(300));
}

TEST_CASE("options are validated, with all faults at once") {
  GeneratorOptions options;
  options.workflows = 0;
  options.arrivals.rate = std::nan("");
  StageTemplate stage{.output = Lengths::LogNormal(-1, 1), .least_calls = 3};
  stage.next = {{0.7, {0}}, {0.7, {}}};
  options.templates.push_back({.stages = {stage}});
  const std::string message(options.Validate().message());
  for (const char* fault :
       {"workflows: 0 is invalid; expected 1..", "arrivals: rate nan",
        "templates[0].stages[0].output: ", ".calls: 3..1 is invalid; expected",
        ".next: 0 is invalid; expected a later stage", ".next: probabilities sum to 1.4; expected at most 1"}) {
    INFO(message);
    CHECK(message.find(fault) != std::string::npos);
  }
  CHECK(std::string(GeneratorOptions().Validate().message()) == "templates: all weights are 0; expected one above 0");
}

TEST_CASE("ReadWorkload reads specs, and faults name key, value and choices") {
  ReadReport report;
  const absl::StatusOr<Workload> w =
      ReadWorkload("gen:poisson,requests=10,rate=5,prompt=8,deadline=1:2", {.limit = 4}, &report);
  REQUIRE(w.ok());
  CHECK(w->workflows.size() == 4);
  CHECK(w->calls.size() == 4);
  CHECK(w->calls[0].prompt_tokens == 8);
  CHECK(report.arrivals_generated);
  CHECK(Error("gen:possion") ==
        "gen: \"possion\" is unknown; expected one of constant, poisson, gamma, weibull, multi_stage, kairos, apps, "
        "math");
  CHECK(Error("gen:poisson,cv=2") ==
        "gen:poisson: \"cv=2\" is invalid; expected KEY=VALUE with KEY one of requests, rate, seed, deadline, prompt, "
        "output");
  CHECK(Error("gen:gamma,cv") ==
        "gen:gamma: \"cv\" is invalid; expected KEY=VALUE with KEY one of requests, rate, seed, deadline, cv, prompt, "
        "output");
  CHECK(Error("gen:poisson,rate=fast") == "gen:poisson: rate: \"fast\" is invalid; expected a number");
  CHECK(Error("gen:poisson,requests=-5") == "gen:poisson: requests: \"-5\" is negative; expected at least 0");
  CHECK(Error("gen:poisson,prompt=normal:5:1") ==
        "gen:poisson: prompt: \"normal:5:1\" is invalid; expected one of N, constant:N, uniform:LEAST:MOST, "
        "lognormal:MEDIAN:SIGMA, lognormal_mean:MEAN:SD, empirical:FILE");

  CHECK(Error("gen:poisson,prompt=uniform:a:1")
            .find("gen:poisson: prompt: \"a\" is invalid; expected a number; expected a length: N, ") == 0);
  CHECK(Error("gen:poisson,prompt=uniform:9:1")
            .find("gen:poisson: templates[0].stages[0].prompt: is invalid; expected a length distribution") == 0);
  CHECK(Error("gen:poisson,prompt=empirical:/no/file").find("gen:poisson: prompt: /no/file: cannot be opened") == 0);
  CHECK(Error("gen:poisson,rate=0").find("gen:poisson: arrivals: rate 0 per second") == 0);
  CHECK(
      Error("gen:poisson,requests=99999999999").find("gen:poisson: workflows: 99999999999 is invalid; expected 1..") ==
      0);
  CHECK(Error("gen:poisson,rate=1e-9") == "rate: is too low; expected arrivals within 1e9 s");
  CHECK(Error("gen:multi_stage,deadline=9:2").find("gen:multi_stage: deadline: 9..2 s is invalid; expected a range") ==
        0);
}

TEST_CASE("Kairos' applications have their stages and failures") {
  const auto median = [](const Workload& w, std::string_view agent) {
    std::vector<std::int32_t> outputs;
    for (const WorkloadCall& c : w.calls) {
      if (w.names[c.agent] == agent) outputs.push_back(c.output_tokens);
    }
    REQUIRE(outputs.size() > 100);
    std::ranges::nth_element(outputs, outputs.begin() + std::ssize(outputs) / 2);
    return static_cast<double>(outputs[outputs.size() / 2]);
  };
  const Workload qa = Generated("gen:kairos,app=qa,workflows=4000"), rg = Generated("gen:kairos,app=rg,workflows=2000");
  const Workload cg = Generated("gen:kairos,app=cg,workflows=2000"),
                 cg3 = Generated("gen:kairos,app=cg:3,workflows=2000");
  CHECK(qa.calls.size() == 8000);
  CHECK(median(qa, "Router") == Approx(12).margin(1));
  CHECK(median(qa, "Humanities") == Approx(300).epsilon(0.06));
  CHECK(median(Generated("gen:kairos,app=qa:3,workflows=4000"), "Humanities") == Approx(120).epsilon(0.06));
  CHECK(median(rg, "Writer") == Approx(600).epsilon(0.06));
  CHECK(median(cg3, "Architect") == Approx(1.3 * 320).epsilon(0.06));
  // Failures: 0.35 + 0.35^2 + 0.35^3 further turns of two calls each.
  CHECK(static_cast<double>(cg.calls.size()) / 2000 == Approx(5 + 2 * (0.35 + 0.1225 + 0.0429)).epsilon(0.02));
  CHECK(static_cast<double>(cg3.calls.size()) / 2000 == Approx(5 + 2 * (0.5 + 0.25 + 0.125)).epsilon(0.02));
  for (const WorkloadWorkflow& f : cg.workflows) {
    std::int32_t before = 0;
    for (const WorkloadCall& c : cg.calls_of(f)) {
      if (cg.names[c.agent] == "Engineer") CHECK(c.prompt_tokens == 300 + before);
      before += c.output_tokens;
    }
    CHECK(f.calls <= 11);
  }
  const Workload mix = Generated("gen:kairos,workflows=3000");
  std::map<std::string, int> apps;
  for (const WorkloadWorkflow& f : mix.workflows) ++apps[mix.names[f.name]];
  REQUIRE(apps.size() == 3);
  for (const auto& [name, n] : apps) CHECK(n == Approx(1000).margin(120));
  CHECK(Error("gen:kairos,app=qa:4").find("gen:kairos: app: \"qa:4\" is invalid; expected one of qa, rg, cg, mix") ==
        0);
}

TEST_CASE("Chimera's workflows have the promised lengths and success per model") {
  struct Published {
    const char* model;
    double apps_mean, apps_sd, apps_solved, math_mean, math_sd, math_solved;
  };
  constexpr Published kPublished[] = {
      {"qwen2.5-1.5b", 447, 1276, 0.08, 606, 2587, 0.552},  {"qwen2.5-3b", 510, 1000, 0.18, 640, 1600, 0.659},
      {"qwen2.5-7b", 580, 700, 0.38, 690, 1000, 0.755},     {"qwen2.5-14b", 649, 534, 0.43, 709, 715, 0.8},
      {"llama-3.2-3b", 2400, 3000, 0.15, 2400, 3000, 0.48}, {"ministral-8b", 2900, 2800, 0.3, 2900, 2800, 0.545}};
  for (const bool math : {false, true}) {
    const Workload w = Generated(math ? "gen:math,workflows=30000" : "gen:apps,workflows=30000");
    CHECK(std::ranges::min(w.features) >= 0);
    CHECK(ToSeconds(w.workflows.back().arrival) == Approx(30000 / 8.0).epsilon(0.03));
    std::map<std::string, int> shapes;
    for (const WorkloadWorkflow& f : w.workflows) ++shapes[w.names[f.name]];
    for (const char* shape : {"four stages", "two stages", "one stage"}) {
      CHECK(shapes[shape] == Approx(10000).margin(300));
    }
    for (const Published& published : kPublished) {
      CAPTURE(math, published.model);
      const std::size_t m = w.ModelIndex(published.model);
      REQUIRE(m < w.models.size());
      std::vector<double> totals;
      double solved = 0;
      for (const WorkloadWorkflow& f : w.workflows) {
        double total = 0;
        for (std::uint32_t c = f.first_call; c < f.first_call + f.calls; ++c) total += w.OutputOf(c, m);
        totals.push_back(std::log(total));
        solved += f.solved_by >> m & 1;
      }
      // Compared by logarithms: samples of tails this heavy (deviations of up to four means) have other moments.
      const double mean = math ? published.math_mean : published.apps_mean,
                   cv = (math ? published.math_sd : published.apps_sd) / mean;
      const double variance = std::log1p(cv * cv);
      const Moments logs = MomentsOf(totals);
      CHECK(logs.mean == Approx(std::log(mean) - variance / 2).margin(0.03));
      CHECK(logs.mean * logs.cv == Approx(std::sqrt(variance)).epsilon(0.02));
      CHECK(solved / 30000 == Approx(math ? published.math_solved : published.apps_solved).margin(0.01));
    }
  }
}

TEST_CASE("Chimera's prompts order lengths nearly as well as possible") {
  for (const bool math : {false, true}) {
    const Workload w = Generated(math ? "gen:math,workflows=8000" : "gen:apps,workflows=8000");
    const double rho = math ? 0.87 : 0.89, best = 0.5 - std::asin(rho) / 3.14159265358979;
    for (std::size_t m = 0; m < w.models.size(); ++m) {
      std::vector<double> markers, hard, totals, solved;
      for (const WorkloadWorkflow& f : w.workflows) {
        double total = 0;
        for (std::uint32_t c = f.first_call; c < f.first_call + f.calls; ++c) total += w.OutputOf(c, m);
        totals.push_back(total);
        markers.push_back(static_cast<double>(w.features_of(f.first_call)[2]));
        hard.push_back(static_cast<double>(w.features_of(f.first_call)[3]));
        solved.push_back(f.solved_by >> m & 1);
      }
      const double distance = CountPairs(markers, totals).distance();
      CAPTURE(math, w.models[m], distance);
      CHECK(distance > best - 0.01);  // no unknowable fact has leaked
      CHECK(distance < best + 0.03);
      CHECK(CountPairs(hard, solved).distance() > 0.53);  // the hard ones are not solved
    }
  }
}

TEST_CASE("Chimera's workflows have stages, prompts and their text") {
  const Workload w = Generated("gen:apps,workflows=300,model=qwen2.5-14b,seed=4");
  const std::size_t m = w.ModelIndex("qwen2.5-14b");
  CHECK(w.feature_names == std::vector<std::string>{"topic", "words", "long_words", "hard_words"});
  const std::vector<std::string> all = {"Planner", "Coder", "QA", "Coder again"};
  for (const WorkloadWorkflow& f : w.workflows) {
    double history = 0;
    const std::size_t from = f.calls == 1 ? 1 : 0;
    for (std::uint32_t i = 0; i < f.calls; ++i) {
      const std::uint32_t c = f.first_call + i;
      const WorkloadCall& call = w.calls[c];
      CHECK(w.names[call.stage] == all[from + i]);
      CHECK(call.predecessors == (i > 0 ? 1u : 0u));
      CHECK(call.output_tokens == w.OutputOf(c, m));
      CHECK(call.output_tokens == w.OutputOf(c, Workload::kNoModel));
      const double words = static_cast<double>(w.features_of(c)[1]);
      CHECK(words >= 150);
      CHECK(call.prompt_tokens == Approx(1.3 * words + history + 200).margin(21));
      history += call.output_tokens;
    }
    const auto features = w.features_of(f.first_call);
    const std::string text = ChimeraPrompt(features, 7);
    CHECK(std::ranges::count(text, ' ') + 1 == static_cast<std::ptrdiff_t>(features[1]));
    CHECK(text == ChimeraPrompt(features, 7));
    CHECK(text != ChimeraPrompt(features, 8));
  }
  CHECK(ChimeraPrompt({}, 1).empty());
  const float bad[] = {-1, std::nanf(""), 3, 2};
  CHECK(ChimeraPrompt(bad, 1).size() == 5 * 5 - 1);
  const Workload other = Generated("gen:apps,workflows=300,model=qwen2.5-1.5b,seed=4,rate=16");
  CHECK(other.model_tokens == w.model_tokens);  // only the model differs whose prompts and outputs represent all
  CHECK(Error("gen:apps,model=gpt") ==
        "gen:apps: model: is unknown; expected one of qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, qwen2.5-14b, llama-3.2-3b, "
        "ministral-8b");
  CHECK(Error("gen:apps,prompt=5").find("with KEY one of workflows, rate, seed, deadline, model") != std::string::npos);
}

TEST_CASE("workflows are drawn with replacement, and the rate changes arrivals alone") {
  const Workload from = Generated("gen:multi_stage,workflows=50,seed=4");
  const Workload w = *Draw(from, 5000, {.rate = 4}, 7);
  CHECK(Validate(w).ok());
  REQUIRE(w.workflows.size() == 5000);
  CHECK(Gaps(w).mean == Approx(0.25).epsilon(0.05));
  CHECK(Gaps(w).cv == Approx(1).epsilon(0.05));
  CHECK(*Draw(from, 5000, {.rate = 4}, 7) == w);
  CHECK_FALSE(*Draw(from, 5000, {.rate = 4}, 8) == w);
  const Workload faster = *Draw(from, 5000, {.rate = 8}, 7);
  CHECK(faster.calls == w.calls);
  CHECK(faster.workflows.back().arrival < w.workflows.back().arrival);

  // Each about 100 times, with a standard deviation of 10.
  std::map<std::vector<std::int32_t>, int> drawn, present;
  const auto outputs = [](const Workload& of, const WorkloadWorkflow& f) {
    std::vector<std::int32_t> tokens;
    for (const WorkloadCall& c : of.calls_of(f)) tokens.push_back(c.output_tokens);
    return tokens;
  };
  for (const WorkloadWorkflow& f : from.workflows) ++present[outputs(from, f)];
  for (const WorkloadWorkflow& f : w.workflows) ++drawn[outputs(w, f)];
  REQUIRE(drawn.size() == present.size());
  for (const auto& [tokens, times] : drawn) CHECK(times == Approx(100 * present[tokens]).margin(45));
}

TEST_CASE("invalid draws are refused") {
  const Workload from = Generated("gen:constant,requests=2");
  const auto fault = [](const absl::StatusOr<Workload>& w) { return std::string(w.status().message()); };
  CHECK(fault(Draw({}, 1, {}, 1)) == "draw: the workload is empty; expected a workflow");
  CHECK(fault(Draw(from, 0, {}, 1)) == "workflows: 0 is invalid; expected 1..50000000");
  CHECK(fault(Draw(from, 1, {.rate = -1}, 1)).find("arrivals: rate -1 per second") == 0);
  CHECK(fault(Draw(from, 1000, {.rate = 1e-9}, 1)) == "rate: is too low; expected arrivals within 1e9 s");
}

}  // namespace
}  // namespace takt
