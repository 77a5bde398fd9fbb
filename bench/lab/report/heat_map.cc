#include "lab/report/heat_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tool/report/html_text.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr double kLeft = 124, kTop = 40, kCell = 25, kRow = 19, kGap = 5;  // px

// ".97", "1.04", "2.1", "13"
std::string RatioText(double ratio) {
  if (ratio >= 9.95) return fmt::format("{:.0f}", std::min(ratio, 999.0));
  std::string text = fmt::format("{:.{}f}", ratio, ratio >= 1.995 ? 1 : 2);
  return text.starts_with("0.") ? text.substr(1) : text;
}

}  // namespace

std::string HeatMapSvg(const HeatMap& map) {
  std::vector<double> lefts;  // by column
  double x = kLeft;
  std::string heads;
  for (const HeatGroup& group : map.groups) {
    const double width = kCell * static_cast<double>(group.columns.size());
    heads += fmt::format("<text class=label x={:g} y=14 text-anchor=middle>{}</text>\n", x + width / 2,
                         HtmlText(group.name));
    for (const std::string& column : group.columns) {
      heads += fmt::format("<text x={:g} y=32 text-anchor=middle>{}</text>\n", x + kCell / 2, HtmlText(column));
      lefts.push_back(x);
      x += kCell;
    }
    x += kGap;
  }
  const double height = kTop + kRow * static_cast<double>(map.rows.size()) + 2;
  std::string svg =
      fmt::format("<svg viewBox='0 0 {:g} {:g}' style='min-width:{:g}px' role=img>\n{}", x, height, x, heads);
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const double y = kTop + kRow * static_cast<double>(r);
    svg += fmt::format("<text class=label x={:g} y={:g} text-anchor=end>{}</text>\n", kLeft - 6, y + 13,
                       HtmlText(map.rows[r]));
    for (std::size_t c = 0; c < lefts.size(); ++c) {
      const HeatCell& cell = map.cells[r][c];
      if (!(cell.ratio > 0)) continue;
      const double strength = std::min(1.0, std::abs(std::log(cell.ratio)) / std::log(1.5));
      svg += fmt::format(
          "<g><title>{}</title><rect x={:g} y={:g} width={:g} height={:g} rx=2 style='fill:var(--c{});"
          "fill-opacity:{:.2f}{}'/><text class=label x={:g} y={:g} text-anchor=middle style='font-size:9.5px{}'>{}"
          "</text></g>\n",
          HtmlText(cell.tip), lefts[c] + 1, y + 1, kCell - 2, kRow - 2, cell.ratio > 1 ? 1 : 0, 0.75 * strength,
          cell.framed ? ";stroke:var(--ink);stroke-width:1.5px" : "", lefts[c] + kCell / 2, y + 13,
          cell.certain ? ";font-weight:700" : "", RatioText(cell.ratio));
    }
  }
  return svg + "</svg>";
}

}  // namespace takt::tool
