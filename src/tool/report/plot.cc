#include "tool/report/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tool/report/html_text.h"
#include "tool/report/json_writer.h"
#include "tool/report/table.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

// Size of the drawing, and margins of the plot in it.
constexpr double kWidth = 560, kHeight = 300;
constexpr double kLeft = 58, kRight = 14, kTop = 10, kBottom = 44;

// Maps data to the drawing.
struct Axis {
  double least = 0, most = 1;
  bool log = false;
  double from = 0, to = 1;  // in the drawing

  double operator()(double value) const {
    const double share =
        log ? std::log(std::max(value, least) / least) / std::log(most / least) : (value - least) / (most - least);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
};

// Returns 1, 2 or 5 times a power of ten, so that about `count` steps span `range`.
double NiceStep(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double digit = raw / power;
  return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

std::vector<double> Ticks(const Axis& axis, int count) {
  std::vector<double> ticks;
  if (!axis.log) {
    const double step = NiceStep(axis.most - axis.least, count);
    const double first = std::ceil(axis.least / step - 1e-9);
    for (double i = first; i * step <= axis.most + step * 1e-6; ++i) ticks.push_back(i * step);
    return ticks;
  }
  const bool few = std::log10(axis.most / axis.least) < 2.5;
  for (double power = std::pow(10, std::floor(std::log10(axis.least))); power <= axis.most; power *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double tick = power * digit;
      if ((digit == 1 || few) && tick >= axis.least * 0.999 && tick <= axis.most * 1.001) ticks.push_back(tick);
    }
  }
  return ticks;
}

struct Range {
  double least = std::numeric_limits<double>::infinity();  // smallest value above zero
  double most = 0;
  double size = 0;  // largest absolute value

  void Add(double value) {
    if (!std::isfinite(value)) return;
    most = std::max(most, value);
    size = std::max(size, std::abs(value));
    if (value > 0) least = std::min(least, value);
  }
};

Axis MakeAxis(Range range, Scale scale, double most, double from, double to) {
  Axis axis{.from = from, .to = to};
  if (scale == Scale::kAuto && range.least > 0 && range.most > range.least * 30) {
    axis.log = true;
    axis.least = std::max(range.least, range.most * 1e-5);
    axis.most = range.most * 1.02;
    return axis;
  }
  if (scale == Scale::kFit && range.least < range.most) {
    const double margin = (range.most - range.least) * 0.04;
    axis.least = range.least - margin;
    axis.most = range.most + margin;
    return axis;
  }
  if (scale == Scale::kSigned) {
    axis.most = most > 0 ? most : range.size > 0 ? range.size * 1.04 : 1;
    axis.least = -axis.most;
    return axis;
  }
  axis.most = most > 0 ? most : range.most > 0 ? range.most * 1.04 : 1;
  return axis;
}

std::string PathOf(const PlotLine& line, const Axis& x, const Axis& y, bool stairs) {
  std::string path;
  for (const PlotPoint& p : line.points) {
    if (path.empty()) path = fmt::format("M{:.1f} {:.1f}", x(p.x), y(p.y));
    else if (stairs) path += fmt::format("H{:.1f}V{:.1f}", x(p.x), y(p.y));
    else path += fmt::format("L{:.1f} {:.1f}", x(p.x), y(p.y));
  }
  return path;
}

std::string DrawAxes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : Ticks(y, 5)) {
    svg += fmt::format(
        "<line class=grid x1={0:.1f} x2={1:.1f} y1={2:.1f} y2={2:.1f} />"
        "<text x={3:.1f} y={4:.1f} text-anchor=end>{5}</text>\n",
        x.from, x.to, y(tick), x.from - 7, y(tick) + 4, TickText(tick));
  }
  for (const double tick : Ticks(x, 7)) {
    svg += fmt::format(
        "<line class=grid x1={0:.1f} x2={0:.1f} y1={1:.1f} y2={2:.1f} />"
        "<text x={0:.1f} y={3:.1f} text-anchor=middle>{4}</text>\n",
        x(tick), y.from, y.to, y.from + 17, TickText(tick));
  }
  svg += fmt::format("<line class=axis x1={0:.1f} x2={1:.1f} y1={2:.1f} y2={2:.1f} />\n", x.from, x.to,
                     y.least < 0 ? y(0) : y.from);
  svg += fmt::format("<text class=label x={:.1f} y={:.1f} text-anchor=middle>{}{}</text>\n", (x.from + x.to) / 2,
                     kHeight - 6, HtmlText(plot.x_label), x.log ? ", logarithmic" : "");
  svg += fmt::format("<text class=label transform='translate(13 {:.1f}) rotate(-90)' text-anchor=middle>{}{}</text>\n",
                     (y.from + y.to) / 2, HtmlText(plot.y_label), y.log ? ", log" : "");
  return svg;
}

void WriteAxis(JsonWriter& json, std::string_view name, const Axis& axis) {
  json.Key(name).BeginArray().Value(axis.least).Value(axis.most).Value(axis.from).Value(axis.to).Value(axis.log);
  json.EndArray();
}

// Returns the data that the page's script needs to show values under the pointer.
std::string DataOf(const Plot& plot, const Axis& x, const Axis& y) {
  JsonWriter json(0);
  json.BeginObject();
  WriteAxis(json, "x", x);
  WriteAxis(json, "y", y);
  json.Field("xLabel", plot.x_label).Field("yLabel", plot.y_label).Field("stairs", plot.stairs);
  json.Key("lines").BeginArray();
  for (const PlotLine& line : plot.lines) {
    json.BeginObject().Field("name", line.name).Field("style", line.style % kLineStyles).Field("cloud", line.cloud);
    json.Key("points").BeginArray();
    for (const PlotPoint& p : line.points) {
      json.Value(std::stod(fmt::format("{:.5g}", p.x))).Value(std::stod(fmt::format("{:.5g}", p.y)));
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  std::string text = json.Take();
  // "</script>" in a name would end the element, and "<!--<script>" would hide its end.
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::string TickText(double value) {
  const double size = std::abs(value);
  if (size < 1e-12) return "0";
  if (size >= 1e6 || size < 1e-3) return fmt::format("{:g}", value);
  const std::string text = fmt::format("{:.6g}", value);
  return size >= 10000 ? Grouped(std::llround(value)) : text;
}

std::string ToFigure(const Plot& plot) {
  Range xs, ys;
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& p : line.points) {
      xs.Add(p.x);
      ys.Add(p.y);
    }
  }
  const Axis x = MakeAxis(xs, plot.x_scale, 0, kLeft, kWidth - kRight);
  const Axis y = MakeAxis(ys, plot.y_scale, plot.y_most, kHeight - kBottom, kTop);
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' role=img aria-label='{}'>\n", kWidth, kHeight, HtmlText(plot.title));
  svg += DrawAxes(plot, x, y);
  for (const PlotLine& line : plot.lines) {
    const std::size_t style = line.style % kLineStyles;
    if (!line.cloud) svg += fmt::format("<path class='line s{}' d='{}'/>\n", style, PathOf(line, x, y, plot.stairs));
    if (!plot.marks && !line.cloud) continue;
    for (const PlotPoint& p : line.points) {
      svg += fmt::format("<circle class='{} s{}' cx={:.1f} cy={:.1f} r={} />\n", line.cloud ? "mark cloud" : "mark",
                         style, x(p.x), y(p.y), line.cloud ? 2 : 3.5);
    }
  }
  svg += "<line class=cursor y1=0 y2=0 x1=0 x2=0 /></svg>";
  return fmt::format("<figure><figcaption>{}</figcaption>{}\n<script type='application/json'>{}</script></figure>\n",
                     HtmlText(plot.title), svg, DataOf(plot, x, y));
}

}  // namespace takt::tool
