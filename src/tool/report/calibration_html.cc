#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tool/report/calibration_report.h"
#include "tool/run/output.h"
#include "tool/report/html_page.h"
#include "tool/report/html_text.h"
#include "tool/report/plot.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

// Kinds of steps, followed by outliers.
constexpr std::array<std::string_view, 4> kClouds = {Name(StepKind::kPrefill), Name(StepKind::kDecode),
                                                     Name(StepKind::kMixed), "outliers"};
constexpr std::size_t kCloudPoints = 500;  // points drawn per cloud; longer clouds are thinned evenly

struct Dot {
  double predicted_ms = 0, measured_ms = 0;
  double rows = 0, prefill = 0, context = 0, step = 0;

  double error() const { return 100 * (predicted_ms / measured_ms - 1); }  // error of the prediction [%]
};

using Clouds = std::array<std::vector<Dot>, kClouds.size()>;

Clouds CloudsOf(const CalibrationRun& run, const CostFit& fit) {
  Clouds clouds;
  for (std::size_t i = 0; i < run.log.steps.size(); ++i) {
    const TimedStep& step = run.log.steps[i];
    const std::size_t cloud = run.found.outliers[i] ? 3 : static_cast<std::size_t>(KindOf(step.load));
    const double measured_ms = ToSeconds(step.time) * 1e3 - (step.from_arrival ? run.found.arrival_ms : 0);
    clouds[cloud].push_back({ToSeconds(fit.cost.StepTime(step.load)) * 1e3, measured_ms,
                             static_cast<double>(step.load.decodes), static_cast<double>(step.load.prefill_tokens),
                             static_cast<double>(step.longest_context), static_cast<double>(i + 1)});
  }
  for (std::vector<Dot>& cloud : clouds) {
    const std::size_t stride = cloud.size() / kCloudPoints + 1;
    std::vector<Dot> some;
    for (std::size_t i = 0; i < cloud.size(); i += stride) some.push_back(cloud[i]);
    cloud = std::move(some);
  }
  return clouds;
}

// Draws a cloud per kind of step. Skips kinds without a dot whose `x(dot)` is above 0.
template <class X, class Y>
std::vector<PlotLine> LinesOf(const Clouds& clouds, X x, Y y) {
  std::vector<PlotLine> lines;
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    PlotLine line{.name = std::string(kClouds[i]), .style = i, .points = {}, .cloud = true};
    for (const Dot& dot : clouds[i]) {
      if (x(dot) > 0) line.points.push_back({x(dot), y(dot)});
    }
    std::ranges::sort(line.points, {}, &PlotPoint::x);
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

template <class X>
std::string Errors(const Clouds& clouds, double most, const char* title, const char* label, Scale scale, X x) {
  return ToFigure({.title = title,
                   .x_label = label,
                   .y_label = "prediction error [%]",
                   .x_scale = scale,
                   .y_scale = Scale::kSigned,
                   .y_most = most,
                   .lines = LinesOf(clouds, x, [](const Dot& dot) { return dot.error(); })});
}

std::string Plots(const CalibrationRun& run, const CostFit& fit) {
  const Clouds clouds = CloudsOf(run, fit);
  std::vector<PlotLine> lines =
      LinesOf(clouds, [](const Dot& dot) { return dot.predicted_ms; }, [](const Dot& dot) { return dot.measured_ms; });
  PlotLine equal{.name = "equal", .style = 6, .points = {}};
  for (const PlotLine& line : lines) {
    for (const PlotPoint& p : {line.points.front(), line.points.back()}) equal.points.push_back({p.x, p.x});
  }
  std::ranges::sort(equal.points, {}, &PlotPoint::x);
  lines.push_back(std::move(equal));

  // The plots of both forms have one scale. It shows nearly all steps except outliers.
  const double most = std::max({5.0, 2.5 * run.found.fits[0].all.p95_abs_pct, 2.5 * run.found.fits[1].all.p95_abs_pct});
  std::string html = "<div class=plots>\n";
  html += ToFigure({.title = "Measured against predicted",
                    .x_label = "predicted [ms]",
                    .y_label = "measured [ms]",
                    .x_scale = Scale::kAuto,
                    .y_scale = Scale::kAuto,
                    .lines = std::move(lines)});
  html += Errors(clouds, most, "Error against decode rows", "decode rows of the step", Scale::kLinear,
                 [](const Dot& dot) { return dot.rows; });
  html += Errors(clouds, most, "Error against prefill tokens", "prefill tokens of the step", Scale::kLinear,
                 [](const Dot& dot) { return dot.prefill; });
  html += Errors(clouds, most, "Error against context", "longest context of the step [tokens]", Scale::kLinear,
                 [](const Dot& dot) { return dot.context; });
  html += Errors(clouds, most, "Error against time", "predicted [ms]", Scale::kAuto,
                 [](const Dot& dot) { return dot.predicted_ms; });
  html += Errors(clouds, most, "Error over the log", "step of the log", Scale::kLinear,
                 [](const Dot& dot) { return dot.step; });
  return html + "</div>\n";
}

}  // namespace

std::string CalibrationHtml(const CalibrationRun& run) {
  const EngineCalibration& found = run.found;
  std::string html = fmt::format("<h1>Step time: {}</h1>\n", HtmlText(run.setup.id));
  html += fmt::format("<p>{}</p>\n<p>{}</p>\n", HtmlText(LogLine(run)), HtmlText(Verdict(run)));
  html += "<h2>Error of a step's time [%]</h2>\n<div class=wide>" + ErrorTable(found).ToHtml() + "</div>\n";
  html +=
      "<p class=soft>New steps were held out of the fit. A positive bias means that predicted times are too long. "
      "The column 'log' covers all steps, including outliers.</p>\n<dl>\n";
  for (const CostFit& fit : found.fits) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", Name(fit.form), HtmlText(Formula(fit)));
  }
  html += fmt::format("</dl>\n<p class=soft>{}</p>\n", HtmlText(Letters(run.log)));
  if (run.found.front_end_of > 0) html += fmt::format("<p>{}</p>\n", HtmlText(FrontEnd(run.found)));
  if (!found.warnings.empty()) html += "<h2>Beware</h2>\n";
  for (const std::string& warning : found.warnings) html += fmt::format("<p>{}</p>\n", HtmlText(warning));
  html += "<h2>Coverage of the log</h2>\n<div class=wide>" + CoverageTable(found).ToHtml() + "</div>\n";
  html += "<h2>Steps</h2>\n<div class=legend>";
  for (std::size_t i = 0; i < kClouds.size(); ++i) html += LegendButton(i, kClouds[i]);
  html += fmt::format("</div>\n<div class=loads data-first={}>form", static_cast<std::size_t>(found.chosen));
  for (const CostFit& fit : found.fits) html += fmt::format("<button>{}</button>", Name(fit.form));
  html += "</div>\n";
  for (const CostFit& fit : found.fits) html += "<section class=load>" + Plots(run, fit) + "</section>\n";
  html += "<p class=soft>Points beyond an axis are drawn at its end.</p>\n";
  return HtmlPage(InputName(run.setup.log), html);
}

}  // namespace takt::tool
