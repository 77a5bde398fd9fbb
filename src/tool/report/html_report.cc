#include <algorithm>
#include <string>
#include <vector>

#include "tool/report/html_page.h"
#include "tool/report/html_text.h"
#include "tool/report/plot.h"
#include "tool/report/reports.h"
#include "fmt/format.h"
#include "takt/base/time.h"

namespace takt::tool {
namespace {

using Runs = std::vector<const Run*>;

constexpr double kInPercent = 100;

// Returns the ended runs by load, or in one group if there are no loads.
std::vector<Runs> ByLoad(const Comparison& comparison) {
  std::vector<Runs> loads;
  for (const Run& run : comparison.runs) {
    if (!run.ended) continue;
    if (loads.empty() || loads.back().front()->settings.load != run.settings.load) loads.emplace_back();
    loads.back().push_back(&run);
  }
  return loads;
}

// Runs of the same policy and estimates have the same style at every load.
std::size_t StyleOf(const Comparison& comparison, const Run& run) {
  const auto same = std::find_if(comparison.runs.begin(), comparison.runs.end(), [&](const Run& other) {
    return other.settings.policy == run.settings.policy && other.settings.estimates == run.settings.estimates;
  });
  return static_cast<std::size_t>(same - comparison.runs.begin());
}

// Draws `points(run)` of every run.
template <class Points>
std::vector<PlotLine> LinesOf(const Comparison& comparison, const Runs& runs, Points points) {
  std::vector<PlotLine> lines;
  for (const Run* run : runs) lines.push_back({LabelOf(comparison, *run), StyleOf(comparison, *run), points(*run)});
  return lines;
}

std::string Distribution(const Comparison& comparison, const Runs& runs, const char* title, const char* label,
                         Quantiles Run::* quantiles) {
  const auto points = [&](const Run& run) {
    const Quantiles& q = run.*quantiles;
    std::vector<PlotPoint> line;
    for (std::size_t i = 0; i < q.size(); ++i) {
      line.push_back({q[i], kInPercent * static_cast<double>(i) / static_cast<double>(q.size() - 1)});
    }
    return line;
  };
  return ToFigure({.title = title,
                   .x_label = label,
                   .y_label = "share served within [%]",
                   .x_scale = Scale::kAuto,
                   .y_most = 100,
                   .lines = LinesOf(comparison, runs, points)});
}

// Draws `value(run, point)` over the time of the run. Long series are thinned evenly.
template <class Value>
std::string OverTime(const Comparison& comparison, const Runs& runs, const char* title, const char* label, double most,
                     Value value) {
  constexpr std::size_t kPoints = 500;
  const auto points = [&](const Run& run) {
    const std::size_t stride = run.series.size() / kPoints + 1;
    std::vector<PlotPoint> line;
    for (std::size_t i = 0; i < run.series.size(); i += stride) {
      line.push_back({ToSeconds(run.series[i].time), value(run, run.series[i])});
    }
    return line;
  };
  return ToFigure({.title = title,
                   .x_label = "time [s]",
                   .y_label = label,
                   .y_most = most,
                   .stairs = true,
                   .lines = LinesOf(comparison, runs, points)});
}

// Draws `value(run)` of each policy's runs against their load.
template <class Value>
std::string OverLoad(const Comparison& comparison, const std::vector<Runs>& loads, const char* title, const char* label,
                     Scale scale, Value value) {
  const auto points = [&](const Run& like) {
    std::vector<PlotPoint> line;
    for (const Runs& runs : loads) {
      for (const Run* run : runs) {
        if (StyleOf(comparison, *run) == StyleOf(comparison, like)) line.push_back({*run->settings.load, value(*run)});
      }
    }
    std::sort(line.begin(), line.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
    return line;
  };
  return ToFigure({.title = title,
                   .x_label = "load (share of the capacity under fcfs)",
                   .y_label = label,
                   .x_scale = Scale::kFit,
                   .y_scale = scale,
                   .marks = true,
                   .lines = LinesOf(comparison, loads.front(), points)});
}

std::string LoadPlots(const Comparison& comparison, const Runs& runs) {
  std::string html = "<div class=plots>\n";
  if (comparison.multi_stage()) {
    html += Distribution(comparison, runs, "Workflows served within", "workflow latency [s]", &Run::workflow);
  }
  html += Distribution(comparison, runs, "Requests served within", "request latency [s]", &Run::e2e);
  html += Distribution(comparison, runs, "First tokens within", "time to first token [s]", &Run::ttft);
  html += OverTime(comparison, runs, "Waiting requests", "requests", 0,
                   [](const Run&, const SeriesPoint& p) { return static_cast<double>(p.waiting); });
  html += OverTime(comparison, runs, "Running requests", "requests", 0,
                   [](const Run&, const SeriesPoint& p) { return static_cast<double>(p.running); });
  html +=
      OverTime(comparison, runs, "KV cache in use", "% of all blocks", 100, [](const Run& run, const SeriesPoint& p) {
        return run.kv_blocks > 0 ? kInPercent * static_cast<double>(p.kv_blocks) / static_cast<double>(run.kv_blocks)
                                 : 0;
      });
  return html + "</div>\n";
}

std::string SweepPlots(const Comparison& comparison, const std::vector<Runs>& loads) {
  const auto latency = [&](const Run& run) -> const Summary& {
    return comparison.multi_stage() ? run.metrics.workflow : run.metrics.e2e;
  };
  const char* label = comparison.multi_stage() ? "workflow latency [s]" : "request latency [s]";
  std::string html = "<h2>Against load</h2>\n<div class=plots>\n";
  html +=
      OverLoad(comparison, loads, "Mean latency", label, Scale::kAuto, [&](const Run& r) { return latency(r).mean; });
  html += OverLoad(comparison, loads, "99th percentile of latency", label, Scale::kAuto,
                   [&](const Run& r) { return latency(r).p99; });
  html += OverLoad(comparison, loads, "Mean time to first token", "time to first token [s]", Scale::kAuto,
                   [](const Run& r) { return r.metrics.ttft.mean; });
  html += OverLoad(comparison, loads, "Requests served within the SLO", "%", Scale::kLinear,
                   [](const Run& r) { return kInPercent * r.metrics.slo_attainment; });
  return html + "</div>\n";
}

std::string Legend(const Comparison& comparison, const Runs& runs) {
  std::string html = "<div class=legend>";
  for (const Run* run : runs) html += LegendButton(StyleOf(comparison, *run), LabelOf(comparison, *run));
  return html + "</div>\n";
}

// Returns the load that is shown first: the one with the largest difference between runs.
std::size_t FirstShown(const std::vector<Runs>& loads) {
  const auto spread = [](const Runs& runs) {
    const auto [least, most] = std::minmax_element(
        runs.begin(), runs.end(), [](auto a, auto b) { return a->metrics.e2e.mean < b->metrics.e2e.mean; });
    return (*least)->metrics.e2e.mean > 0 ? (*most)->metrics.e2e.mean / (*least)->metrics.e2e.mean : 0;
  };
  const auto shown =
      std::max_element(loads.begin(), loads.end(), [&](const Runs& a, const Runs& b) { return spread(a) < spread(b); });
  return static_cast<std::size_t>(shown - loads.begin());
}

std::string Header(const Comparison& comparison) {
  const std::string& file = comparison.source;
  std::string html = fmt::format("<h1>{} under {}</h1>\n<dl>\n", HtmlText(file.substr(file.rfind('/') + 1)),
                                 comparison.runs.size() == 1 ? "one policy" : "several policies");
  for (const Condition& c : Conditions(comparison)) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", c.name, HtmlText(c.text));
  }
  html += "</dl>\n";
  const std::string notes = Notes(comparison);
  for (std::size_t from = 0; from < notes.size();) {
    const std::size_t to = std::min(notes.find('\n', from), notes.size());
    html += fmt::format("<p>{}</p>\n", HtmlText(std::string_view(notes).substr(from, to - from)));
    from = to + 1;
  }
  return html;
}

}  // namespace

std::string HtmlReport(const Comparison& comparison) {
  const std::vector<Runs> loads = ByLoad(comparison);
  std::string html = Header(comparison);
  if (!loads.empty()) {
    html += "<h2>Figures</h2>\n<div class=wide>" + RunTable(comparison).ToHtml() + "</div>\n";
    html += fmt::format(
        "<p class=soft>The best of a column is shaded. In SLO: first token within {} s, then at most {} s "
        "per token on average.</p>\n",
        comparison.setup.slo_ttft, comparison.setup.slo_tpot);
    if (std::optional<Table> parts = PartTable(comparison)) {
      html += fmt::format("<h3>{}</h3>\n<div class=wide>{}</div>\n", PartsText(comparison), parts->ToHtml());
    }
    if (std::optional<Table> estimates = EstimateTable(comparison)) {
      html += fmt::format("<div class=wide>{}</div>\n<p class=soft>{}</p>\n", estimates->ToHtml(), kEstimateTableText);
    }
    html += Legend(comparison, loads.front());
    if (comparison.sweeps) {
      html += SweepPlots(comparison, loads);
      html += fmt::format("<h2>At one load</h2>\n<div class=loads data-first={}>load", FirstShown(loads));
      for (const Runs& runs : loads) html += fmt::format("<button>{}</button>", *runs.front()->settings.load);
      html += "</div>\n";
    }
    for (const Runs& runs : loads) {
      html += "<section class=load>" + LoadPlots(comparison, runs) + "</section>\n";
    }
    html += "<p class=soft>A curve further left has lower latency. Times are those of the virtual engine.</p>\n";
  }
  return HtmlPage(comparison.source, html);
}

}  // namespace takt::tool
