// Parses generators: gen:NAME,key=value,...
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "workload/format.h"

namespace takt {
namespace {

using Process = Arrivals::Process;

constexpr std::array<std::string_view, 8> kNames = {"constant",    "poisson", "gamma", "weibull",
                                                    "multi_stage", "kairos",  "apps",  "math"};
constexpr std::array<std::string_view, 4> kKairos = {"qa", "rg", "cg", "mix"};  // in the order of KairosApplication
constexpr std::array<std::string_view, 6> kLengthShapes = {
    "N", "constant:N", "uniform:LEAST:MOST", "lognormal:MEDIAN:SIGMA", "lognormal_mean:MEAN:SD", "empirical:FILE"};

std::vector<std::string_view> SplitAt(std::string_view text, char at, std::size_t most = SIZE_MAX) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < most && text.find(at) != std::string_view::npos) {
    parts.push_back(text.substr(0, text.find(at)));
    text.remove_prefix(text.find(at) + 1);
  }
  parts.push_back(text);
  return parts;
}

absl::StatusOr<double> Number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && std::isfinite(value)) return value;
  return absl::InvalidArgumentError(Quoted(text) + " is invalid; expected a number");
}

absl::Status Set(double& field, std::string_view text) {
  const absl::StatusOr<double> value = Number(text);
  if (value.ok()) field = *value;
  return value.status();
}

template <class Whole>
absl::Status Set(Whole& field, std::string_view text) {
  const absl::StatusOr<std::int64_t> value = ParseWhole(text, INT64_MAX);
  if (value.ok()) field = static_cast<Whole>(*value);
  return value.status();
}

// Reads the prompt or output lengths of a file.
absl::StatusOr<Lengths> ParseLengths(std::string_view text, Lengths (*of)(const Workload&)) {
  const std::vector<std::string_view> parts = SplitAt(text, ':', text.starts_with("empirical:") ? 2 : SIZE_MAX);
  if (parts.size() == 2 && parts[0] == "empirical") {
    if (parts[1].starts_with("gen:")) return absl::InvalidArgumentError("empirical: is invalid; expected a file path");
    const absl::StatusOr<Workload> workload = ReadWorkload(std::string(parts[1]));
    if (!workload.ok()) return workload.status();
    return of(*workload);
  }
  std::vector<double> numbers;
  for (std::size_t i = parts.size() == 1 ? 0 : 1; i < parts.size(); ++i) {
    const absl::StatusOr<double> number = Number(parts[i]);
    if (!number.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}; expected a length: {}", std::string(number.status().message()),
                                                    fmt::join(kLengthShapes, ", ")));
    }
    numbers.push_back(*number);
  }
  const bool two = numbers.size() == 2;
  if (numbers.size() == 1 && (parts.size() == 1 || parts[0] == "constant")) return Lengths::Constant(numbers[0]);
  if (two && parts[0] == "uniform") return Lengths::Uniform(numbers[0], numbers[1]);
  if (two && parts[0] == "lognormal") return Lengths::LogNormal(numbers[0], numbers[1]);
  if (two && parts[0] == "lognormal_mean") return Lengths::LogNormalWithMean(numbers[0], numbers[1]);
  return absl::InvalidArgumentError(
      fmt::format("{} is invalid; expected one of {}", Quoted(text), fmt::join(kLengthShapes, ", ")));
}

absl::Status Set(Lengths& field, std::string_view text, Lengths (*of)(const Workload&)) {
  absl::StatusOr<Lengths> lengths = ParseLengths(text, of);
  if (lengths.ok()) field = *lengths;
  return lengths.status();
}

absl::Status SetDeadline(GeneratorOptions& options, std::string_view text) {
  const std::vector<std::string_view> parts = SplitAt(text, ':');
  if (parts.size() > 2) return absl::InvalidArgumentError(Quoted(text) + " is invalid; expected SECONDS or LEAST:MOST");
  if (absl::Status s = Set(options.least_deadline_s, parts.front()); !s.ok()) return s;
  return Set(options.most_deadline_s, parts.back());
}

// Parses "cg" or "cg:2".
absl::Status SetApplication(GeneratorOptions& options, std::string_view text) {
  const std::vector<std::string_view> parts = SplitAt(text, ':');
  const auto app = static_cast<std::size_t>(std::ranges::find(kKairos, parts[0]) - kKairos.begin());
  std::int32_t group = 1;
  if (parts.size() == 2) {
    if (absl::Status s = Set(group, parts[1]); !s.ok()) return s;
  }
  if (app == kKairos.size() || parts.size() > 2 || group < 1 || group > 3) {
    return absl::InvalidArgumentError(fmt::format("{} is invalid; expected one of {}, alone or with :1 to :3",
                                                  Quoted(text), fmt::join(kKairos, ", ")));
  }
  options.templates = KairosOptions(static_cast<KairosApplication>(app), group).templates;
  return absl::OkStatus();
}

struct Key {
  std::string_view name;
  std::function<absl::Status(std::string_view)> set;
};

// Returns the keys of a generator.
std::vector<Key> KeysOf(GeneratorOptions& options) {
  const auto into = [](auto& field) { return [&field](std::string_view text) { return Set(field, text); }; };
  const bool stages = options.name == "multi_stage" || options.name == "kairos" || options.chimera;
  std::vector<Key> keys = {{stages ? "workflows" : "requests", into(options.workflows)},
                           {"rate", into(options.arrivals.rate)},
                           {"seed", into(options.seed)},
                           {"deadline", [&](std::string_view text) { return SetDeadline(options, text); }}};
  if (options.arrivals.process == Process::kGamma) keys.push_back({"cv", into(options.arrivals.cv)});
  if (options.arrivals.process == Process::kWeibull) keys.push_back({"shape", into(options.arrivals.shape)});
  if (options.name == "kairos") {
    keys.push_back({"app", [&](std::string_view text) { return SetApplication(options, text); }});
  }
  if (options.chimera) {
    keys.push_back({"model", [&](std::string_view text) {
                      options.chimera->model = text;
                      return absl::OkStatus();
                    }});
  }
  if (!stages) {
    StageTemplate& call = options.templates[0].stages[0];
    keys.push_back({"prompt", [&](std::string_view text) { return Set(call.prompt, text, &Lengths::PromptsOf); }});
    keys.push_back({"output", [&](std::string_view text) { return Set(call.output, text, &Lengths::OutputsOf); }});
  }
  return keys;
}

// One call per workflow, with the mean lengths of Azure's conversations.
GeneratorOptions SingleCalls(std::size_t process) {
  return {
      .name = std::string(kNames[process]),
      .arrivals = {.process = static_cast<Process>(process)},
      .templates = {{.stages = {{.prompt = Lengths::LogNormal(1000, 0.8), .output = Lengths::LogNormal(200, 0.8)}}}}};
}

}  // namespace

absl::StatusOr<GeneratorOptions> ParseGeneratorSpec(std::string_view spec) {
  std::string_view text = spec;
  if (text.starts_with("gen:")) text.remove_prefix(4);
  const std::vector<std::string_view> parts = SplitAt(text, ',');
  const auto known = static_cast<std::size_t>(std::ranges::find(kNames, parts[0]) - kNames.begin());
  if (known == kNames.size()) {
    return absl::InvalidArgumentError(
        fmt::format("gen: {} is unknown; expected one of {}", Quoted(parts[0]), fmt::join(kNames, ", ")));
  }
  GeneratorOptions options = parts[0] == "multi_stage" ? BundledOptions()
                             : parts[0] == "kairos"    ? KairosOptions(KairosApplication::kMix)
                             : parts[0] == "apps"      ? ChimeraOptions(ChimeraDataset::kApps)
                             : parts[0] == "math"      ? ChimeraOptions(ChimeraDataset::kMath)
                                                       : SingleCalls(known);
  const std::vector<Key> keys = KeysOf(options);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view key = parts[i].substr(0, parts[i].find('='));
    const auto found = std::ranges::find(keys, key, &Key::name);
    if (found == keys.end() || key.size() == parts[i].size()) {
      std::vector<std::string_view> names;
      for (const Key& k : keys) names.push_back(k.name);
      return absl::InvalidArgumentError(fmt::format("gen:{}: {} is invalid; expected KEY=VALUE with KEY one of {}",
                                                    parts[0], Quoted(parts[i]), fmt::join(names, ", ")));
    }
    const absl::Status status = found->set(parts[i].substr(key.size() + 1));
    if (!status.ok()) {
      return absl::InvalidArgumentError(fmt::format("gen:{}: {}: {}", parts[0], key, std::string(status.message())));
    }
  }
  if (const absl::Status s = options.Validate(); !s.ok()) {
    return absl::InvalidArgumentError(fmt::format("gen:{}: {}", parts[0], std::string(s.message())));
  }
  return options;
}

absl::StatusOr<Workload> GenerateWorkload(std::string_view spec) {
  const absl::StatusOr<GeneratorOptions> options = ParseGeneratorSpec(spec);
  if (!options.ok()) return options.status();
  return GenerateWorkload(*options);
}

}  // namespace takt
