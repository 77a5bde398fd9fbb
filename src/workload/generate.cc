#include "takt/workload/generate.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/base/exact_math.h"
#include "takt/numeric/ttest.h"
#include "workload/builder.h"
#include "workload/chimera.h"

namespace takt {
namespace {

constexpr std::int64_t kMostWorkflows = 50'000'000;

bool Positive(double x) { return x > 0 && x <= 1e12; }
bool Probability(double x) { return x >= 0 && x <= 1; }

bool Valid(const Lengths& l) {
  switch (l.kind) {
    case Lengths::Kind::kConstant: return Positive(l.a);
    case Lengths::Kind::kUniform: return Positive(l.a) && Positive(l.b) && l.a <= l.b;
    case Lengths::Kind::kLogNormal: return Positive(l.a) && l.b >= 0 && l.b <= 10;
    case Lengths::Kind::kEmpirical: return l.sample != nullptr && !l.sample->empty();
  }
  return false;
}

bool Valid(const Arrivals& a) {
  const bool cv = a.process != Arrivals::Process::kGamma || (a.cv >= 0.01 && a.cv <= 100);
  const bool shape = a.process != Arrivals::Process::kWeibull || (a.shape >= 0.1 && a.shape <= 100);
  return Positive(a.rate) && a.rate >= 1e-9 && cv && shape;
}

void Check(const StageTemplate& stage, std::size_t self, std::size_t stages, const std::string& path, Faults& faults) {
  faults.Expect(Valid(stage.prompt), path + ".prompt: is invalid; expected a length distribution");
  faults.Expect(Valid(stage.output), path + ".output: is invalid; expected a length distribution");
  faults.Expect(stage.reads >= 0 && stage.reads <= 1e3,
                path + fmt::format(".reads: {} is invalid; expected 0..1000", stage.reads));
  faults.Expect(stage.least_calls >= 1 && stage.least_calls <= stage.most_calls && stage.most_calls <= 1000,
                path + fmt::format(".calls: {}..{} is invalid; expected a range in 1..1000", stage.least_calls,
                                   stage.most_calls));
  double sum = 0;
  for (const Branch& branch : stage.next) {
    faults.Expect(Probability(branch.probability),
                  path + fmt::format(".next: {} is invalid; expected a probability", branch.probability));
    sum += branch.probability;
    for (const std::size_t s : branch.stages) {
      faults.Expect(s > self && s < stages, path + fmt::format(".next: {} is invalid; expected a later stage", s));
    }
  }
  faults.Expect(sum <= 1 + 1e-9, path + fmt::format(".next: probabilities sum to {}; expected at most 1", sum));
}

void Check(const WorkflowTemplate& t, const std::string& path, Faults& faults) {
  faults.Expect(t.weight >= 0 && t.weight <= 1e9,
                path + fmt::format(".weight: {} is invalid; expected 0..1e9", t.weight));
  faults.Expect(t.size_sigma >= 0 && t.size_sigma <= 10,
                path + fmt::format(".size_sigma: {} is invalid; expected 0..10", t.size_sigma));
  faults.Expect(!t.stages.empty(), path + ".stages: is empty; expected at least one");
  for (std::size_t i = 0; i < t.stages.size(); ++i) {
    Check(t.stages[i], i, t.stages.size(), fmt::format("{}.stages[{}]", path, i), faults);
  }
}

std::int32_t Rounded(double tokens, std::int32_t most) {
  return static_cast<std::int32_t>(std::lround(std::clamp(tokens, 1.0, static_cast<double>(most))));
}

// Advances to the next arrival. Whole nanoseconds add up without rounding.
absl::Status Advance(const Arrivals& arrivals, Random& gaps, Duration& now) {
  const Duration gap = FromSeconds(arrivals.Gap(gaps));
  now = Sum(now, gap);
  if (now > kMaxWorkloadTime) return absl::InvalidArgumentError("rate: is too low; expected arrivals within 1e9 s");
  return absl::OkStatus();
}

void Expect(std::int64_t workflows, const Arrivals& arrivals, Faults& faults) {
  faults.Expect(workflows >= 1 && workflows <= kMostWorkflows,
                fmt::format("workflows: {} is invalid; expected 1..{}", workflows, kMostWorkflows));
  faults.Expect(Valid(arrivals), fmt::format("arrivals: rate {} per second, cv {} or shape {} is out of range",
                                             arrivals.rate, arrivals.cv, arrivals.shape));
}

// Draws workflows of one set of options.
class Generator {
 public:
  explicit Generator(const GeneratorOptions& options)
      : options_(options), gaps_(Mix64(options.seed)), sizes_(Mix64(options.seed + 1)) {}

  absl::StatusOr<Workload> Run() {
    builder_.workload().name = options_.name;
    if (options_.chimera) {
      chimera_.emplace(*options_.chimera, options_.max_prompt_tokens, options_.max_output_tokens, builder_.workload());
    }
    Duration now{0};
    for (std::int64_t i = 0; i < options_.workflows; ++i) {
      if (i > 0) {
        if (absl::Status s = Advance(options_.arrivals, gaps_, now); !s.ok()) return s;
      }
      if (absl::Status s = Add(TimePoint(now)); !s.ok()) return s;
    }
    builder_.Finish();
    return std::move(builder_.workload());
  }

 private:
  absl::Status Add(TimePoint arrival) {
    const WorkflowTemplate* t = chimera_ ? nullptr : &Pick();
    WorkloadWorkflow head{.arrival = arrival};
    if (t != nullptr) head.name = builder_.Name(t->name);
    if (options_.most_deadline_s > 0) {
      const double share = sizes_.Uniform();
      head.deadline =
          FromSeconds(options_.least_deadline_s + share * (options_.most_deadline_s - options_.least_deadline_s));
    }
    const std::vector<CallDraft> calls = chimera_ ? chimera_->Draw(sizes_, builder_, head) : Calls(*t);
    return builder_.Add(head, calls);
  }

  const WorkflowTemplate& Pick() {
    double sum = 0;
    for (const WorkflowTemplate& t : options_.templates) sum += t.weight;
    double left = sizes_.Uniform() * sum;
    for (const WorkflowTemplate& t : options_.templates) {
      if (left < t.weight) return t;
      left -= t.weight;
    }
    return options_.templates.back();
  }

  std::vector<CallDraft> Calls(const WorkflowTemplate& t) {
    const double size = t.size_sigma > 0 ? sizes_.LogNormal(0, t.size_sigma) : 1;
    std::vector<CallDraft> drafts;
    std::vector<std::vector<std::uint32_t>> waits_for(t.stages.size());  // calls that led to the stage
    std::vector<bool> runs(t.stages.size());
    runs[0] = true;
    for (std::size_t i = 0; i < t.stages.size(); ++i) {
      if (!runs[i]) continue;
      const StageTemplate& stage = t.stages[i];
      const auto first = static_cast<std::uint32_t>(drafts.size());
      AddCalls(stage, size, waits_for[i], drafts);
      const Branch* taken = Take(stage);
      if (taken == nullptr) continue;
      for (const std::size_t s : taken->stages) {
        runs[s] = true;
        for (std::uint32_t c = first; c < drafts.size(); ++c) waits_for[s].push_back(c);
      }
    }
    return drafts;
  }

  void AddCalls(const StageTemplate& stage, double size, const std::vector<std::uint32_t>& after,
                std::vector<CallDraft>& drafts) {
    double upstream = 0;
    if (stage.reads_all) {
      for (const CallDraft& before : drafts) upstream += before.call.output_tokens;
    } else {
      for (const std::uint32_t c : after) upstream += drafts[c].call.output_tokens;
    }
    const std::int32_t spread = stage.most_calls - stage.least_calls;
    const auto more = spread > 0 ? sizes_.Below(static_cast<std::uint64_t>(spread) + 1) : 0;
    for (std::int32_t i = 0; i < stage.least_calls + static_cast<std::int32_t>(more); ++i) {
      CallDraft draft;
      draft.call.stage = builder_.Name(stage.stage);
      draft.call.agent = builder_.Name(stage.agent.empty() ? stage.stage : stage.agent);
      draft.call.prompt_tokens =
          Rounded(stage.prompt.Draw(sizes_) + stage.reads * upstream, options_.max_prompt_tokens);
      draft.call.output_tokens = Rounded(stage.output.Draw(sizes_) * size, options_.max_output_tokens);
      draft.after = after;
      drafts.push_back(std::move(draft));
    }
  }

  const Branch* Take(const StageTemplate& stage) {
    if (stage.next.empty()) return nullptr;
    double left = sizes_.Uniform();
    for (const Branch& branch : stage.next) {
      if (left < branch.probability) return &branch;
      left -= branch.probability;
    }
    return nullptr;
  }

  const GeneratorOptions& options_;
  Random gaps_, sizes_;
  WorkloadBuilder builder_;
  std::optional<ChimeraGenerator> chimera_;
};

std::vector<std::int32_t> All(const Workload& workload, std::int32_t WorkloadCall::* field) {
  std::vector<std::int32_t> values;
  values.reserve(workload.calls.size());
  for (const WorkloadCall& call : workload.calls) values.push_back(call.*field);
  return values;
}

}  // namespace

std::vector<TimePoint> NumpyPoissonArrivals(double rate, std::uint32_t seed, std::size_t n) {
  std::mt19937 bits(seed);  // the standard fixes this sequence
  std::vector<TimePoint> arrivals;
  arrivals.reserve(n);
  double now = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto high = static_cast<double>(bits() >> 5), low = static_cast<double>(bits() >> 6);
    const double uniform = (high * 67108864 + low) / 9007199254740992;
    now += -exact::Log(1 - uniform) * (1 / rate);
    arrivals.emplace_back(std::min(FromSeconds(now), kMaxWorkloadTime));
  }
  return arrivals;
}

double Arrivals::Gap(Random& random) const {
  switch (process) {
    case Process::kConstant: return 1 / rate;
    case Process::kPoisson: return random.Exponential() / rate;
    case Process::kGamma: return random.Gamma(1 / (cv * cv)) * cv * cv / rate;
    case Process::kWeibull: return random.Weibull(shape) / exact::Exp(internal::LogGamma(1 + 1 / shape)) / rate;
  }
  return 0;
}

Lengths Lengths::LogNormalWithMean(double mean, double sd) {
  const double variance = exact::Log1p(sd * sd / (mean * mean));
  return LogNormal(mean / exact::Exp(variance / 2), std::sqrt(variance));
}

Lengths Lengths::Empirical(std::vector<std::int32_t> sample) {
  return {Kind::kEmpirical, 0, 0, std::make_shared<const std::vector<std::int32_t>>(std::move(sample))};
}

Lengths Lengths::PromptsOf(const Workload& workload) { return Empirical(All(workload, &WorkloadCall::prompt_tokens)); }
Lengths Lengths::OutputsOf(const Workload& workload) { return Empirical(All(workload, &WorkloadCall::output_tokens)); }

double Lengths::Draw(Random& random) const {
  switch (kind) {
    case Kind::kConstant: return a;
    case Kind::kUniform: return std::floor(a + random.Uniform() * (b - a + 1));
    case Kind::kLogNormal: return a * random.LogNormal(0, b);
    case Kind::kEmpirical: return (*sample)[random.Below(sample->size())];
  }
  return 1;
}

absl::Status GeneratorOptions::Validate() const {
  Faults faults;
  Expect(workflows, arrivals, faults);
  faults.Expect(max_prompt_tokens >= 1 && max_prompt_tokens <= kMaxContextTokens / 2,
                "max_prompt_tokens: is out of range");
  faults.Expect(max_output_tokens >= 1 && max_output_tokens <= kMaxContextTokens / 2,
                "max_output_tokens: is out of range");
  faults.Expect(
      least_deadline_s >= 0 && least_deadline_s <= most_deadline_s && most_deadline_s <= 1e9,
      fmt::format("deadline: {}..{} s is invalid; expected a range in 0..1e9", least_deadline_s, most_deadline_s));
  double weight = 0;
  for (std::size_t i = 0; i < templates.size(); ++i) {
    Check(templates[i], fmt::format("templates[{}]", i), faults);
    weight += templates[i].weight;
  }
  faults.Expect(chimera || weight > 0, "templates: all weights are 0; expected one above 0");
  faults.Expect(!chimera || templates.empty(), "templates: are invalid with a Chimera shape; expected none");
  faults.Expect(!chimera || ChimeraGenerator::Knows(chimera->model),
                fmt::format("model: is unknown; expected one of {}", fmt::join(ChimeraGenerator::Models(), ", ")));
  return faults.ToStatus();
}

absl::StatusOr<Workload> GenerateWorkload(const GeneratorOptions& options) {
  if (absl::Status s = options.Validate(); !s.ok()) return s;
  return Generator(options).Run();
}

absl::StatusOr<Workload> Draw(const Workload& from, std::int64_t workflows, const Arrivals& arrivals,
                              std::uint64_t seed) {
  Faults faults;
  Expect(workflows, arrivals, faults);
  faults.Expect(!from.workflows.empty(), "draw: the workload is empty; expected a workflow");
  if (absl::Status s = faults.ToStatus(); !s.ok()) return s;
  Random gaps(Mix64(seed)), picks(Mix64(seed + 1));
  WorkloadBuilder builder;
  CopyHead(from, builder.workload());
  Duration now{0};
  for (std::int64_t i = 0; i < workflows; ++i) {
    if (i > 0) {
      if (absl::Status s = Advance(arrivals, gaps, now); !s.ok()) return s;
    }
    WorkloadWorkflow workflow = from.workflows[picks.Below(from.workflows.size())];
    workflow.arrival = TimePoint(now);
    Copy(from, workflow, builder);
  }
  builder.Finish();
  return std::move(builder.workload());
}

std::vector<WorkflowTemplate> MultiStageTemplates() {
  const Lengths total = Lengths::LogNormalWithMean(2400, 3000);
  constexpr double kPlanner = 0.25, kCoder = 0.35, kQa = 0.15, kSecondCoder = 0.25;
  constexpr double kStageSigma = 0.3;
  constexpr double kCoders = 2;  // mean number of parallel coders
  const auto output = [&](double share) { return Lengths::LogNormal(share * total.a, kStageSigma); };
  const auto instructions = [](double median) { return Lengths::LogNormal(median, 0.5); };

  const WorkflowTemplate four_stages{
      .name = "plan_code_review",
      .size_sigma = total.b,
      .stages = {
          {.stage = "planner", .prompt = instructions(400), .output = output(kPlanner), .next = {{1, {1}}}},
          {.stage = "coder",
           .prompt = instructions(500),
           .output = output(kCoder / kCoders),
           .reads = 1,
           .least_calls = 1,
           .most_calls = 3,
           .next = {{1, {2}}}},
          {.stage = "reviewer", .prompt = instructions(300), .output = output(kQa), .reads = 1, .next = {{0.5, {3}}}},
          {.stage = "second_coder",
           .agent = "coder",
           .prompt = instructions(800),
           .output = output(kSecondCoder),
           .reads = 1},
      }};
  const WorkflowTemplate two_stages{
      .name = "plan_code",
      .size_sigma = total.b,
      .stages = {
          {.stage = "planner",
           .prompt = instructions(400),
           .output = output(kPlanner / (kPlanner + kCoder)),
           .next = {{1, {1}}}},
          {.stage = "coder", .prompt = instructions(500), .output = output(kCoder / (kPlanner + kCoder)), .reads = 1},
      }};
  const WorkflowTemplate one_stage{.name = "code",
                                   .size_sigma = total.b,
                                   .stages = {{.stage = "coder", .prompt = instructions(500), .output = output(1)}}};
  return {four_stages, two_stages, one_stage};
}

GeneratorOptions KairosOptions(KairosApplication application, int group) {
  const bool second = group == 2, third = group == 3;
  const auto stage = [](const char* agent, double median, double sigma, double prompt, double reads,
                        std::vector<Branch> next) {
    return StageTemplate{.stage = agent,
                         .prompt = Lengths::Constant(prompt),
                         .output = Lengths::LogNormal(median, sigma),
                         .reads = reads,
                         .next = std::move(next)};
  };

  const double qa = second ? 0.9 : 1;
  const WorkflowTemplate questions{.name = "questions",
                                   .stages = {stage("Router", 12 * qa, 0.3, 120, 0, {{0.5, {1}}, {0.5, {2}}}),
                                              stage("Math", 150 * qa, 0.6, 180, 0, {}),
                                              stage("Humanities", third ? 120 : 300 * qa, 0.5, 200, 0, {})}};

  const double rg = second ? 1.1 : third ? 0.85 : 1;
  const WorkflowTemplate reports{
      .name = "reports",
      .stages = {stage("Research", 350 * rg, 0.4, 150, 0, {{1, {1}}}), stage("Writer", 600 * rg, 0.35, 200, 1, {})}};

  constexpr std::size_t kFirstEngineer = 3, kRetries = 3;
  const double cg = second ? 0.8 : third ? 1.3 : 1, fails = third ? 0.5 : 0.35;
  WorkflowTemplate code{.name = "code",
                        .stages = {stage("ProductManager", 260 * cg, 0.4, 220, 0, {{1, {1}}}),
                                   stage("Architect", 320 * cg, 0.4, 250, 1, {{1, {2}}}),
                                   stage("ProjectManager", 220 * cg, 0.4, 250, 1, {{1, {3}}})}};
  for (std::size_t turn = 0; turn <= kRetries; ++turn) {
    const std::size_t engineer = kFirstEngineer + 2 * turn;
    code.stages.push_back(stage("Engineer", 480 * cg, 0.5, 300, 1, {{1, {engineer + 1}}}));
    code.stages.back().reads_all = true;
    std::vector<Branch> again;
    if (turn < kRetries) again = {{fails, {engineer + 2}}};
    code.stages.push_back(stage("QA", 180 * cg, 0.5, 300, 1, std::move(again)));
  }

  GeneratorOptions options{.name = "kairos"};
  switch (application) {
    case KairosApplication::kQuestions: options.templates = {questions}; break;
    case KairosApplication::kReports: options.templates = {reports}; break;
    case KairosApplication::kCode: options.templates = {code}; break;
    case KairosApplication::kMix: options.templates = {questions, reports, code}; break;
  }
  return options;
}

GeneratorOptions ChimeraOptions(ChimeraDataset dataset) {
  return {.name = dataset == ChimeraDataset::kApps ? "apps" : "math",
          .arrivals = {.process = Arrivals::Process::kPoisson, .rate = 8},
          .chimera = ChimeraShape{.dataset = dataset}};
}

GeneratorOptions BundledOptions() {
  return {.name = "multi_stage",
          .workflows = 1200,
          .arrivals = {.process = Arrivals::Process::kPoisson, .rate = 3},
          .templates = MultiStageTemplates(),
          .least_deadline_s = 30,
          .most_deadline_s = 120};
}

Workload BundledWorkload() { return *GenerateWorkload(BundledOptions()); }

}  // namespace takt
