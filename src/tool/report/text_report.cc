#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tool/report/reports.h"
#include "tool/report/table.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr double kPercent = 100;
constexpr double kMilli = 1000;

std::string Known(const EstimateSpec& estimates) {
  if (estimates.learnt) {
    return Known({estimates.kind, estimates.sigma}) + ", calibrated on ended requests (" + estimates.ToString() + ")";
  }
  switch (estimates.kind) {
    case EstimateKind::kOracle: return "the exact output length of every request (oracle)";
    case EstimateKind::kNoise:
      return fmt::format("predicted lengths with a typical error of a factor of {:.1f} ({})", std::exp(estimates.sigma),
                         estimates.ToString());
    case EstimateKind::kGaussian:
      return fmt::format("predicted lengths with a typical error of {:.0f} % ({})", kPercent * estimates.sigma,
                         estimates.ToString());
    case EstimateKind::kCalibrated:
      return fmt::format("expected lengths given predictions with a typical error of a factor of {:.1f} ({})",
                         std::exp(estimates.sigma), estimates.ToString());
    case EstimateKind::kClassMean: return "the mean length of ended requests in the same stage (class-mean)";
    case EstimateKind::kLengths: return "ended requests in the same stage with prompts of similar length (lengths)";
    case EstimateKind::kForest: return "predictions by forests trained on ended requests (forest)";
    case EstimateKind::kNone: return "no estimates of lengths (none)";
  }
  return "";
}

std::string WorkloadLine(const Comparison& comparison) {
  const Workload& workload = comparison.workload;
  const auto calls = static_cast<long long>(workload.calls.size());
  const auto workflows = static_cast<long long>(workload.workflows.size());
  const std::string size = comparison.multi_stage()
                               ? fmt::format("{} of {}", Counted(workflows, "workflow"), Counted(calls, "request"))
                               : Counted(calls, "request");
  return fmt::format("{}: {}", comparison.source, size);
}

std::string EngineLine(const Comparison& comparison) {
  const ReplaySetup& setup = comparison.setup;
  const auto engine = [&](const Profile& profile) {
    const std::int64_t kv = comparison.KvOf(profile);  // 0: unknown
    return fmt::format("{}{}{}", profile.id, profile.derived ? " (derived, not measured)" : "",
                       kv > 0 ? fmt::format(", {} tokens of KV cache", Grouped(kv)) : "");
  };
  std::string line = engine(comparison.profile), several;
  comparison.ForEachEngine([&](const Profile& profile, std::int32_t count) {
    several += fmt::format("{}{} x {}", several.empty() ? "" : ", and ", count, engine(profile));
  });
  if (setup.prefill_instances > 0) {
    line = fmt::format(
        "{} for prompts{} and {} to decode, KV at {} GB/s, x {} each, placed by {}", setup.prefill_instances,
        setup.deflect_tokens > 0 ? fmt::format(" of more than {}", Counted(setup.deflect_tokens, "token")) : "",
        setup.instances - setup.prefill_instances, Short(setup.kv_link_gb_s), line, setup.placement);
    if (!several.empty()) line += fmt::format(" (engines in this order: {})", several);
  } else if (!several.empty()) {
    line = fmt::format("{}, placed by {}", several, setup.placement);
  } else if (setup.instances > 1) {
    line = fmt::format("{} x {} each, placed by {}", setup.instances, line, setup.placement);
  }
  line += fmt::format("; a step: {} tokens, {} requests", Grouped(setup.token_budget), Grouped(setup.max_seqs));
  if (setup.adapter_slots > 0) line += fmt::format(", {}", Counted(setup.adapter_slots, "adapter"));
  if (setup.adapter_load_ms > 0) line += fmt::format(", {} ms to load an adapter", Short(setup.adapter_load_ms));
  if (setup.front_end_ms > 0 || setup.front_end_token_us > 0) {
    line += fmt::format("; front end: {} ms per request and {} us per prompt token", Short(setup.front_end_ms),
                        Short(setup.front_end_token_us));
  }
  return line;
}

std::string LoadLine(const Comparison& comparison) {
  const ReplaySetup& setup = comparison.setup;
  if (setup.horizon > 0) {
    const std::string load = setup.closed_loop > 0 ? Counted(setup.closed_loop, "session") + " at any time"
                                                   : Short(setup.session_rate) + " sessions/s";
    return fmt::format("{} for {} s; figures cover the time from {} s on", load, Short(setup.horizon),
                       Short(setup.horizon * setup.warm_up));
  }
  if (setup.closed_loop > 0) return fmt::format("{} in flight at any time", Counted(setup.closed_loop, "workflow"));
  const double offered = OfferedRps(comparison.workload);
  if (offered == 0) return "all requests arrive at once";
  if (comparison.saturation_rps == 0) {
    return fmt::format("{} requests/s on average", Short(offered * setup.rate_scale));
  }
  const std::string most = fmt::format("the capacity under fcfs, {} requests/s", Short(comparison.saturation_rps));
  if (comparison.sweeps) return fmt::format("shares of {}", most);
  const Run& run = comparison.runs.front();
  return fmt::format("{} requests/s: {} of {}", Short(offered * run.settings.rate_scale), run.settings.load.value_or(0),
                     most);
}

std::string KnownLine(const Comparison& comparison) {
  std::string known =
      comparison.several_estimates ? "see the table" : Known(comparison.runs.front().settings.estimates);
  return fmt::format("{}; seed {}", known, comparison.seed);
}

// Returns the numbers of failed requests by reason.
std::string Failures(const Comparison& comparison) {
  std::string text;
  for (const Run& run : comparison.runs) {
    const Metrics& m = run.metrics;
    if (!run.ended || m.failed + m.never_made == 0) continue;
    text += fmt::format("{}: {} of {} failed (", LabelOf(comparison, run), Grouped(m.failed),
                        Counted(m.requests, "request"));
    const char* separator = "";
    for (std::size_t reason = 0; reason < run.failed.size(); ++reason) {
      if (run.failed[reason] == 0) continue;
      text += fmt::format("{}{}: {}", separator, Name(static_cast<FailReason>(reason)), Grouped(run.failed[reason]));
      separator = ", ";
    }
    text += m.never_made > 0 ? fmt::format("), which prevented {} later requests\n", Grouped(m.never_made)) : ")\n";
  }
  return text;
}

// Returns the ratio of two numbers in words: "3.4 times", "12 % above".
std::string Ratio(double a, double b) {
  if (!(b > 0)) return "more than";
  const double ratio = a / b;
  if (ratio >= 2) return fmt::format("{:.1f} times", ratio);
  const char* const side = ratio >= 1 ? "above" : "below";
  if (std::abs(ratio - 1) < 0.005) return fmt::format("less than 1 % {}", side);
  return fmt::format("{:.0f} % {}", std::abs(ratio - 1) * kPercent, side);
}

const Summary& Latency(const Comparison& comparison, const Run& run) {
  return comparison.multi_stage() ? run.metrics.workflow : run.metrics.e2e;
}

std::string ReadingOf(const Comparison& comparison, const std::vector<const Run*>& runs) {
  const char* whose = comparison.multi_stage() ? "workflow" : "request";
  const auto mean = [&](const Run* run) { return Latency(comparison, *run).mean; };
  const auto p99 = [&](const Run* run) { return Latency(comparison, *run).p99; };
  const Run* first = runs.front();
  const Run* best = *std::min_element(runs.begin(), runs.end(), [&](auto a, auto b) { return mean(a) < mean(b); });
  const Run* worst = *std::max_element(runs.begin(), runs.end(), [&](auto a, auto b) { return mean(a) < mean(b); });
  const Run* calmest = *std::min_element(runs.begin(), runs.end(), [&](auto a, auto b) { return p99(a) < p99(b); });
  if (mean(worst) <= mean(best) * 1.02) {
    const auto ttft = [](const Run* run) { return run->metrics.ttft.p99; };
    const auto [soonest, latest] =
        std::minmax_element(runs.begin(), runs.end(), [&](auto a, auto b) { return ttft(a) < ttft(b); });
    if (ttft(*latest) > 1.1 * ttft(*soonest)) {
      return fmt::format(
          "Mean {} latency is {} s under all policies, but the p99 of the first token is {} s under {} "
          "and {} s under {}. Compare the columns of the first token and of the SLO.",
          whose, Short(mean(best)), Short(ttft(*soonest)), LabelOf(comparison, **soonest), Short(ttft(*latest)),
          LabelOf(comparison, **latest));
    }
    const std::string same = fmt::format("Hardly any difference: mean {} latency is {} s", whose, Short(mean(best)));
    if (std::ranges::all_of(runs, HardlyWaits, [](const Run* run) -> const Run& { return *run; })) {
      return same + ". The order matters only if requests queue: try a higher --load or --rate-scale.";
    }
    return same + fmt::format(
                      ", although a request waits {} s on average under {}. These policies order this workload almost "
                      "alike: try other --policy or --estimates.",
                      Short(first->metrics.queue.mean), LabelOf(comparison, *first));
  }
  std::string text;
  if (best == first) {
    text = fmt::format("{} has the lowest mean {} latency, {} s", LabelOf(comparison, *best), whose, Short(mean(best)));
  } else {
    text =
        fmt::format("{} has the lowest mean {} latency: {} s, against {} s under {} ({})", LabelOf(comparison, *best),
                    whose, Short(mean(best)), Short(mean(first)), LabelOf(comparison, *first),
                    fmt::format("{:.0f} % less", (1 - mean(best) / mean(first)) * kPercent));
  }
  if (p99(best) <= p99(calmest)) return text + fmt::format(", and the lowest p99, {} s.", Short(p99(best)));
  return text + fmt::format("; {} has the lowest p99: {} s, while {} has {} s ({}).", LabelOf(comparison, *calmest),
                            Short(p99(calmest)), LabelOf(comparison, *best), Short(p99(best)),
                            Ratio(p99(best), p99(calmest)));
}

// Returns one sentence per load.
std::string Reading(const Comparison& comparison) {
  std::string text;
  std::vector<const Run*> runs;
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const Run& run = comparison.runs[i];
    if (run.ended && !run.stopped && Latency(comparison, run).count > 0) runs.push_back(&run);
    const bool last = i + 1 == comparison.runs.size() || comparison.runs[i + 1].settings.load != run.settings.load;
    if (!last) continue;
    if (runs.size() > 1) {
      if (comparison.sweeps) text += fmt::format("At load {}: ", *run.settings.load);
      text += ReadingOf(comparison, runs) + "\n";
    }
    runs.clear();
  }
  return text;
}

constexpr std::size_t kMostParts = 20;

// Returns the parts with the most requests, which the table shows.
std::vector<const Slice*> LargestParts(const Comparison& comparison) {
  std::vector<const Slice*> parts;
  for (const Run& run : comparison.runs) {
    if (!run.ended || !parts.empty()) continue;
    for (const Slice& part : run.parts) parts.push_back(&part);
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), [](const Slice* part) { return part->metrics.requests; });
  if (parts.size() > kMostParts) parts.resize(kMostParts);
  return parts;
}

// Otherwise the table of sessions has this column.
bool ShowsCached(const Comparison& comparison) {
  return std::ranges::any_of(comparison.runs, [](const Run& run) {
    return run.metrics.cached_share.has_value() && !run.metrics.sessions.has_value();
  });
}

// Returns the table of figures. `part`: heading of an extra first column, if any.
Table FiguresTable(const Comparison& comparison, std::string part) {
  const bool stages = comparison.multi_stage();
  const bool part_is_all = part.empty();
  std::vector<Table::Column> columns;
  if (!part_is_all) {
    columns.push_back({"", std::move(part), false});
    columns.push_back({"", "requests"});
  }
  if (comparison.sweeps) columns.push_back({"", "load"});
  columns.push_back({"", "policy", false});
  if (comparison.several_estimates) columns.push_back({"", "known", false});
  const auto latency = [&](const char* group) {
    columns.push_back({group, "mean", true, Best::kSmallest});
    columns.push_back({group, "p99", true, Best::kSmallest});
  };
  if (stages) latency("workflow [s]");
  latency("request [s]");
  latency("first token [s]");
  columns.push_back({"token [ms]", "mean", true, Best::kSmallest});
  columns.push_back({"in SLO", "%", true, Best::kLargest});
  columns.push_back({"served", "1/s", true, Best::kLargest});
  if (part_is_all) columns.push_back({"KV peak", "%"});
  if (part_is_all && ShowsCached(comparison)) columns.push_back({"prompts", "cached %", true, Best::kLargest});
  columns.push_back({"preempted", "times", true, Best::kSmallest});

  return Table(std::move(columns));
}

// Adds the figures of a run, or of a part of it, to a row whose first columns are filled.
void AddFigures(const Comparison& comparison, const Run& run, const Metrics& m, bool whole, Table& table) {
  const auto add = [&](const Summary& summary) {
    table.Number(summary.count > 0 ? summary.mean : Table::kNoNumber);
    table.Number(summary.count > 0 ? summary.p99 : Table::kNoNumber);
  };
  if (comparison.sweeps) table.Text(fmt::format("{}", run.settings.load.value_or(0)));
  table.Text(run.settings.policy + (run.stopped ? " (partial)" : ""));
  if (comparison.several_estimates) table.Text(run.settings.estimates.ToString());
  if (comparison.multi_stage()) add(m.workflow);
  add(m.e2e);
  add(m.ttft);
  table.Number(m.tpot.count > 0 ? m.tpot.mean * kMilli : Table::kNoNumber);
  table.Number(m.slo_attainment * kPercent);
  table.Number(m.throughput_rps);
  if (whole) table.Number(m.kv_peak * kPercent);
  if (whole && ShowsCached(comparison)) table.Number(m.cached_share ? *m.cached_share * kPercent : Table::kNoNumber);
  table.Number(static_cast<double>(m.preemptions));
}

}  // namespace

Table RunTable(const Comparison& comparison) {
  Table table = FiguresTable(comparison, "");
  std::optional<double> load = comparison.runs.front().settings.load;
  for (const Run& run : comparison.runs) {
    if (!run.ended) continue;
    if (run.settings.load != load) table.BeginSection();
    load = run.settings.load;
    table.BeginRow();
    AddFigures(comparison, run, run.metrics, true, table);
  }
  return table;
}

std::string PartsText(const Comparison& comparison) {
  std::string text = fmt::format("By {}", Name(comparison.split));
  std::size_t parts = 0;
  for (const Run& run : comparison.runs) parts = std::max(parts, run.parts.size());
  if (parts > kMostParts) text += fmt::format(": the {} of {} with the most requests", kMostParts, parts);
  return text;
}

std::optional<Table> PartTable(const Comparison& comparison) {
  const std::vector<const Slice*> parts = LargestParts(comparison);
  if (parts.empty()) return std::nullopt;
  Table table = FiguresTable(comparison, std::string(Name(comparison.split)));
  for (const Slice* part : parts) {
    std::optional<double> load = comparison.runs.front().settings.load;
    if (part != parts.front()) table.BeginSection();
    for (const Run& run : comparison.runs) {
      const auto same = std::ranges::find(run.parts, part->name, &Slice::name);
      if (same == run.parts.end()) continue;
      if (run.settings.load != load) table.BeginSection();
      load = run.settings.load;
      table.BeginRow();
      table.Text(part->name.empty() ? "(none)" : part->name);
      table.Number(static_cast<double>(same->metrics.requests));
      AddFigures(comparison, run, same->metrics, false, table);
    }
  }
  return table;
}

std::optional<Table> SessionTable(const Comparison& comparison) {
  const auto has_sessions = [](const Run& run) { return run.ended && run.metrics.sessions.has_value(); };
  if (std::ranges::none_of(comparison.runs, has_sessions)) return std::nullopt;
  Table table({{"", "policy", false},
               {"completed", "turns", true, Best::kLargest},
               {"completed", "sessions", true, Best::kLargest},
               {"prompts", "cached %", true, Best::kLargest},
               {"prompts", "prefill excess", true, Best::kSmallest},
               {"first token [s]", "p50", true, Best::kSmallest},
               {"first token [s]", "p95", true, Best::kSmallest},
               {"first token [s]", "max", true, Best::kSmallest},
               {"gate [s]", "max", true, Best::kSmallest}});
  for (const Run& run : comparison.runs) {
    if (!has_sessions(run)) continue;
    const SessionFigures& figures = *run.metrics.sessions;
    table.BeginRow();
    table.Text(run.settings.policy + (run.stopped ? " (partial)" : ""));
    table.Number(static_cast<double>(figures.turns));
    table.Number(static_cast<double>(figures.sessions));
    table.Number(figures.cached_share * kPercent);
    table.Number(figures.prefill_excess);
    table.Number(run.metrics.ttft.p50);
    table.Number(run.metrics.ttft.p95);
    table.Number(run.metrics.ttft.max);
    table.Number(figures.gate_wait.max);
  }
  return table;
}

const char* const kEstimateTableText =
    "Predictions. Off by: factor between mean length and mean prediction, by octave of the prediction. Before: "
    "the same before calibration. Came: sum of lengths / sum of predictions. Spread: typical factor of one prediction.";

std::optional<Table> EstimateTable(const Comparison& comparison) {
  const auto guessed = [](const Run& run) {
    return run.ended && run.settings.estimates.kind != EstimateKind::kOracle && run.errors.output.count > 0;
  };
  if (std::none_of(comparison.runs.begin(), comparison.runs.end(), guessed)) return std::nullopt;
  const bool learnt = std::any_of(comparison.runs.begin(), comparison.runs.end(),
                                  [](const Run& run) { return run.settings.estimates.learnt; });
  std::vector<Table::Column> columns;
  if (comparison.sweeps) columns.push_back({"", "load"});
  columns.push_back({"", "policy", false});
  columns.push_back({"", "known", false});
  const auto error = [&](const char* group) {
    columns.push_back({group, "off by"});
    if (learnt) columns.push_back({group, "before"});
    columns.push_back({group, "came"});
    columns.push_back({group, "spread"});
  };
  error("call [times]");
  if (comparison.multi_stage()) error("rest of workflow [times]");

  Table table(std::move(columns));
  for (const Run& run : comparison.runs) {
    if (!guessed(run)) continue;
    table.BeginRow();
    if (comparison.sweeps) table.Text(fmt::format("{}", run.settings.load.value_or(0)));
    table.Text(run.settings.policy);
    table.Text(run.settings.estimates.ToString());
    const auto factor = [&](const CalibrationError& of, double log) {
      table.Number(of.count > 0 ? std::exp(log) : Table::kNoNumber);
    };
    const auto add = [&](const CalibrationError& calibrated, const CalibrationError& raw) {
      factor(calibrated, calibrated.by_octave);
      if (learnt) factor(raw, run.settings.estimates.learnt ? raw.by_octave : Table::kNoNumber);
      factor(calibrated, calibrated.bias);
      factor(calibrated, calibrated.spread);
    };
    add(run.errors.output, run.errors.raw_output);
    if (comparison.multi_stage()) add(run.errors.left, run.errors.raw_left);
  }
  return table;
}

std::vector<Condition> Conditions(const Comparison& comparison) {
  return {{"Workload", WorkloadLine(comparison)},
          {"Engine", EngineLine(comparison)},
          {"Load", LoadLine(comparison)},
          {"Known", KnownLine(comparison)}};
}

std::string Notes(const Comparison& comparison) {
  std::string text = Failures(comparison) + Reading(comparison);
  if (comparison.interrupted) {
    const auto begun =
        std::count_if(comparison.runs.begin(), comparison.runs.end(), [](const Run& r) { return r.ended; });
    text += fmt::format("Interrupted: {} of {} runs started. Runs marked partial cover only ended requests.\n", begun,
                        comparison.runs.size());
  }
  return text;
}

std::string TextReport(const Comparison& comparison, bool colour) {
  const auto ended =
      std::count_if(comparison.runs.begin(), comparison.runs.end(), [](const Run& r) { return r.ended; });
  std::string text;
  for (const Condition& c : Conditions(comparison)) text += fmt::format("{:<10}{}\n", c.name, ShownName(c.text));
  text += "\n";
  if (ended > 0) text += RunTable(comparison).ToString(colour);
  if (ended > 1) text += "  * best of its column\n";
  if (std::optional<Table> sessions = SessionTable(comparison)) {
    text += "\nSessions. Prefill excess: prefill time relative to that with an unlimited cache.\n" +
            sessions->ToString(colour);
  }
  if (std::optional<Table> parts = PartTable(comparison)) {
    text += fmt::format("\n{}\n\n{}", PartsText(comparison), parts->ToString(colour));
  }
  if (std::optional<Table> estimates = EstimateTable(comparison)) {
    text += fmt::format("\n{}\n{}", kEstimateTableText, estimates->ToString(colour));
  }
  return text + "\n" + Notes(comparison) + comparison.postscript;
}

}  // namespace takt::tool
