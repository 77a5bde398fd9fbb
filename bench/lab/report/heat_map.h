// Ratios as a field of coloured cells, in inline SVG.
#ifndef TAKT_BENCH_LAB_REPORT_HEAT_MAP_H_
#define TAKT_BENCH_LAB_REPORT_HEAT_MAP_H_

#include <string>
#include <vector>

namespace takt::tool {

struct HeatCell {
  double ratio = 0;      // 0: nothing to show; coloured as a gain below 1, as a loss above
  bool certain = false;  // beyond chance: printed in bold
  bool framed = false;
  std::string tip;  // under the pointer
};

struct HeatGroup {
  std::string name;
  std::vector<std::string> columns;
};

struct HeatMap {
  std::vector<std::string> rows;
  std::vector<HeatGroup> groups;             // of columns
  std::vector<std::vector<HeatCell>> cells;  // by row, then column of all groups
};

// Colours are full at a factor of 1.5 either way. Drawn with the colours of HtmlPage.
std::string HeatMapSvg(const HeatMap& map);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_REPORT_HEAT_MAP_H_
