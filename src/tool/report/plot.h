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
  std::vector<PlotPoint> points;  // by x
  bool cloud = false;             // points alone
};

enum class Scale : unsigned char {
  kLinear,  // from zero
  kFit,     // from the least value
  kAuto,    // logarithmic where the values span much
  kSigned,  // as far below zero as above; what lies beyond the end is drawn there
};

struct Plot {
  std::string title;
  std::string x_label, y_label;  // with units
  Scale x_scale = Scale::kLinear, y_scale = Scale::kLinear;
  double y_most = 0;    // the axis' end; 0: by the data
  bool marks = false;   // a dot at every point
  bool stairs = false;  // a value holds until the next point
  std::vector<PlotLine> lines;
};

// A <figure> with title, axes, grid and lines, and the points as JSON for whoever reads off values. Colours come from
// the style sheet of the page: classes s0, s1, ...
std::string ToFigure(const Plot& plot);

// So many styles are told apart; further ones begin anew.
inline constexpr std::size_t kLineStyles = 21;

// "12,000", "0.5"
std::string TickText(double value);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_PLOT_H_
