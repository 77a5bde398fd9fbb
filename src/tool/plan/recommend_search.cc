#include "tool/plan/recommend_search.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "takt/base/spec_parser.h"
#include "takt/policy/registry.h"
#include "tool/report/metric_fields.h"
#include "tool/run/number_text.h"
#include "tool/run/runner.h"

namespace takt::tool {
namespace {

constexpr std::string_view kSuccess = "success", kAttainment = "attainment", kGoodput = "goodput";

// Returns the name of a summary in targets: "ttft" for "ttft_s".
std::string_view TargetName(const SummaryField& field) {
  return field.key.ends_with("_s") ? field.key.substr(0, field.key.size() - 2) : field.key;
}

std::vector<std::string> TargetNames() {
  std::vector<std::string> names = {std::string(kAttainment), std::string(kGoodput), std::string(kSuccess)};
  for (const SummaryField& field : kSummaries) {
    for (const StatisticField& statistic : kStatistics) {
      names.push_back(fmt::format("{}_{}", TargetName(field), statistic.key));
    }
  }
  return names;
}

absl::Status WrongTarget(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("--slo {}: {}", text, what));
}

// Reads a positive number, perhaps with one of the units, which are parts of a whole.
bool ReadLimit(std::string_view text, std::span<const std::pair<std::string_view, double>> units, double& limit) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || !std::isfinite(limit) || !(limit > 0)) return false;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return true;
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  if (found == units.end()) return false;
  limit /= found->second;
  return limit > 0 && std::isfinite(limit);
}

absl::StatusOr<Target> ReadTarget(std::string_view text) {
  using Unit = std::pair<std::string_view, double>;
  static constexpr Unit kTimes[] = {{"s", 1}, {"ms", 1e3}, {"us", 1e6}};
  static constexpr Unit kShares[] = {{"%", 100}};
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return WrongTarget(text, "is invalid; expected NAME=LIMIT");
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  Target target{.name = std::string(name)};
  if (name == kSuccess || name == kAttainment) {
    target.least = true;
    if (name == kAttainment) target.scalar = &Metrics::slo_attainment;
    if (ReadLimit(value, kShares, target.limit) && target.limit <= 1) return target;
    return WrongTarget(text, fmt::format("'{}' is invalid; expected a share above 0, at most 1 or 100%", value));
  }
  if (name == kGoodput) {
    target.least = true;
    target.scalar = &Metrics::goodput_rps;
    if (ReadLimit(value, {}, target.limit)) return target;
    return WrongTarget(text, fmt::format("'{}' is invalid; expected requests per second", value));
  }
  for (const SummaryField& field : kSummaries) {
    for (const StatisticField& statistic : kStatistics) {
      if (name != fmt::format("{}_{}", TargetName(field), statistic.key)) continue;
      target.summary = field.member;
      target.statistic = statistic.member;
      const bool time = field.key.ends_with("_s");
      if (ReadLimit(value, time ? std::span<const Unit>(kTimes) : std::span<const Unit>(), target.limit)) return target;
      return WrongTarget(text, time ? fmt::format("'{}' is invalid; expected a time such as 2s, 50ms or 0.05", value)
                                    : fmt::format("'{}' is invalid; expected a positive number", value));
    }
  }
  return WrongTarget(text, internal::Unknown("target", name, TargetNames()));
}

// Calls visit(shape, replicas, GPUs) in the order of the candidates.
template <class V>
void VisitSizes(const Grid& grid, V visit) {
  for (std::int32_t gpus = 1; gpus <= grid.gpus; ++gpus) {
    for (std::size_t s = 0; s < grid.shapes.size(); ++s) {
      const std::int32_t each = GpusOf(grid.shapes[s]);
      if (gpus % each == 0 && gpus / each <= kMostInstances) visit(s, gpus / each, gpus);
    }
  }
}

// Candidates that serve come first, by GPUs and then by room. The others follow by room. The first in the grid wins.
void Rank(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(
      candidates, {}, [](const Candidate& c) { return std::tuple(!c.serves(), c.serves() ? c.gpus : 0, -c.room); });
}

ReplayOptions OptionsOf(const Search& search, const Candidate& candidate) {
  ReplayOptions options = search.base;
  SetProfile(search.setup, search.grid.shapes[candidate.shape], options);
  options.instances = candidate.replicas;
  options.scheduler.prefix_cache = search.grid.caches[candidate.cache].prefixes;
  options.host_kv_tokens = search.grid.caches[candidate.cache].host_tokens;
  options.engine.limits.tokens = {search.grid.budgets[candidate.budget]};
  options.policy = *MakePolicyFactory(search.grid.policies[candidate.policy]);
  return options;
}

absl::Status WithName(const Grid& grid, const Candidate& candidate, const absl::Status& fault) {
  return absl::Status(fault.code(), fmt::format("{}: {}", TextOf(grid, candidate), std::string(fault.message())));
}

}  // namespace

double Target::FigureOf(const Metrics& metrics) const {
  if (summary != nullptr) {
    const Summary& values = metrics.*summary;
    if (values.count > 0) return values.*statistic;
    // Outputs of one token have no time per token.
    return summary == &Metrics::tpot && metrics.completed > 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  if (scalar != nullptr) return metrics.*scalar;
  if (metrics.requests == 0) return 0;
  return static_cast<double>(metrics.completed) / static_cast<double>(metrics.requests);
}

absl::StatusOr<std::vector<Target>> ReadTargets(std::span<const std::string> texts) {
  std::vector<Target> targets;
  for (const std::string& text : texts) {
    absl::StatusOr<Target> target = ReadTarget(text);
    if (!target.ok()) return target.status();
    if (std::ranges::find(targets, target->name, &Target::name) != targets.end()) {
      return WrongTarget(text, "is given twice; expected one limit per figure");
    }
    targets.push_back(*std::move(target));
  }
  if (std::ranges::find(targets, kSuccess, &Target::name) == targets.end()) {
    targets.push_back({.name = std::string(kSuccess), .limit = 1, .least = true, .implied = true});
  }
  return targets;
}

std::string CacheSetting::Name() const {
  if (host_tokens > 0) return fmt::format("{}", host_tokens);
  return prefixes ? "on" : "off";
}

absl::StatusOr<CacheSetting> ReadCacheSetting(const std::string& text) {
  if (text == "off") return CacheSetting{};
  if (text == "on") return CacheSetting{.prefixes = true};
  std::int64_t tokens = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, tokens);
  if (error != std::errc() || end != last || tokens < 1) {
    return absl::InvalidArgumentError(
        fmt::format("--caches: '{}' is invalid; expected off, on, or a number of tokens in host memory", text));
  }
  return CacheSetting{.prefixes = true, .host_tokens = tokens};
}

std::int32_t GpusOf(const Profile& shape) { return shape.cost.tp * shape.cost.pp; }

std::string TextOf(const Grid& grid, const Candidate& candidate) {
  return fmt::format("{} x {} with {}, steps of {} tokens, prefix cache {}", candidate.replicas,
                     grid.shapes[candidate.shape].id, grid.policies[candidate.policy],
                     Grouped(grid.budgets[candidate.budget]), grid.caches[candidate.cache].Name());
}

std::int64_t CountOf(const Grid& grid) {
  std::int64_t sizes = 0;
  VisitSizes(grid, [&](auto...) { ++sizes; });
  return sizes * std::ssize(grid.caches) * std::ssize(grid.budgets) * std::ssize(grid.policies);
}

std::vector<Candidate> CandidatesOf(const Grid& grid) {
  std::vector<Candidate> candidates;
  VisitSizes(grid, [&](std::size_t shape, std::int32_t replicas, std::int32_t gpus) {
    for (std::size_t cache = 0; cache < grid.caches.size(); ++cache) {
      for (std::size_t budget = 0; budget < grid.budgets.size(); ++budget) {
        for (std::size_t policy = 0; policy < grid.policies.size(); ++policy) {
          candidates.push_back({shape, cache, budget, policy, replicas, gpus});
        }
      }
    }
  });
  return candidates;
}

absl::StatusOr<std::vector<Candidate>> RunSearch(const Search& search, int threads, ProgressBar& bar) {
  const Grid& grid = search.grid;
  std::vector<Candidate> candidates = CandidatesOf(grid);
  for (const Candidate& candidate : candidates) {
    const absl::Status valid = OptionsOf(search, candidate).Validate();
    if (!valid.ok()) return WithName(grid, candidate, valid);
  }
  std::vector<absl::Status> faults(candidates.size());
  // Candidates start by their GPUs. The best never falls below the final one, so each with at most its GPUs runs.
  std::atomic<std::int32_t> best = grid.gpus;
  RunEach(candidates.size(), threads, "searching", bar, [&](std::size_t i, const RunProgress& progress) {
    Candidate& candidate = candidates[i];
    const auto wanted = [&] { return search.exhaustive || candidate.gpus <= best; };
    if (!wanted()) return;
    ReplayOptions options = OptionsOf(search, candidate);
    options.cluster.progress = [&](double share) { return progress(share) && wanted(); };
    const absl::StatusOr<ReplayResult> result = Replay(search.workload, options);
    faults[i] = result.status();
    if (!result.ok() || result->stopped) return;
    candidate.ended = true;
    candidate.metrics = result->metrics;
    candidate.room = std::numeric_limits<double>::infinity();
    for (const Target& target : search.targets) {
      const double room = target.RoomOf(candidate.figures.emplace_back(target.FigureOf(candidate.metrics)));
      if (!target.implied || room < 0) candidate.room = std::min(candidate.room, room);
    }
    std::int32_t least = best;
    while (candidate.serves() && candidate.gpus < least && !best.compare_exchange_weak(least, candidate.gpus)) {
    }
  });
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!faults[i].ok() && (search.exhaustive || candidates[i].gpus <= best)) {
      return WithName(grid, candidates[i], faults[i]);
    }
  }
  std::erase_if(candidates, [&](const Candidate& c) { return !c.ended || (!search.exhaustive && c.gpus > best); });
  Rank(candidates);
  return candidates;
}

}  // namespace takt::tool
