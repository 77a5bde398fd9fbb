// Line and point plots as inline SVG.
#ifndef TAKT_SRC_TOOL_REPORT_PLOT_H_
#define TAKT_SRC_TOOL_REPORT_PLOT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace takt::tool {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotLine {
  std::string name;
  std::size_t style = 0;  // lines of one style look alike in all plots
  std::vector<PlotPoint> points;  // sorted by x
  bool cloud = false;  // points without a line
};

enum class Scale : unsigned char {
  kLinear,  // from zero
  kFit,  // axis from the smallest value
  kAuto,  // logarithmic if the values span a wide range
  kSigned,  // symmetric around zero; points beyond an end are drawn at the end
};

struct Plot {
  std::string title;
  std::string x_label, y_label;  // with units
  Scale x_scale = Scale::kLinear, y_scale = Scale::kLinear;
  double y_most = 0;  // end of the axis; 0: set by the data
  bool marks = false;  // a dot at every point
  bool stairs = false;  // a value holds until the next point
  std::vector<PlotLine> lines;
};

// Returns a <figure> with title, axes, grid and lines, and the points as JSON for the script. Colours come from the
// page's style sheet: classes s0, s1, ...
std::string ToFigure(const Plot& plot);

// Number of distinct styles; further lines reuse them from the first.
inline constexpr std::size_t kLineStyles = 21;

// Returns the label of a tick: "12,000", "0.5".
std::string TickText(double value);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_PLOT_H_
