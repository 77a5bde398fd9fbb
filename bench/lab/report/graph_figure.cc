#include "lab/report/graph_figure.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tool/report/html_text.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr double kWidth = 150, kHeight = 58, kGapX = 92, kGapY = 26, kMargin = 16, kUserWidth = 56;

struct Box {
  double x = 0, y = 0, width = kWidth;  // its left upper corner
  double middle() const { return y + kHeight / 2; }
  double right() const { return x + width; }
};

bool IsFeedback(const CallEdge& e) { return 2 * e.feedback > e.calls; }

// Returns the length of each node's longest path from a workflow's start, without feedback.
std::vector<std::size_t> LayersOf(const CallGraph& graph) {
  std::vector<std::size_t> layers(graph.nodes().size(), 1);
  for (bool moved = true; moved;) {
    moved = false;
    for (const CallEdge& e : graph.edges()) {
      const std::size_t through = layers[e.from] + 1;
      if (IsFeedback(e) || through <= layers[e.to] || through > layers.size()) continue;
      layers[e.to] = through;
      moved = true;
    }
  }
  return layers;
}

// By layer; within one, near those that lead there.
std::vector<Box> Place(const CallGraph& graph, const std::vector<std::size_t>& layers) {
  std::vector<Box> boxes(layers.size());
  std::vector<double> wish(layers.size(), 0);
  std::size_t deepest = 0;
  for (const std::size_t layer : layers) deepest = std::max(deepest, layer);
  for (std::size_t layer = 1; layer <= deepest; ++layer) {
    std::vector<std::size_t> here;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] != layer) continue;
      here.push_back(i);
      double sum = 0, count = 0;
      for (const CallEdge& e : graph.edges()) {
        if (e.to == i && layers[e.from] < layer) sum += boxes[e.from].y, ++count;
      }
      wish[i] = count > 0 ? sum / count : static_cast<double>(i) * (kHeight + kGapY);
    }
    std::ranges::stable_sort(here, {}, [&](std::size_t i) { return wish[i]; });
    double free = kMargin;
    for (const std::size_t i : here) {
      boxes[i].x = kMargin + kUserWidth + kGapX + static_cast<double>(layer - 1) * (kWidth + kGapX);
      boxes[i].y = layer == 1 ? free : std::max(free, wish[i]);
      free = boxes[i].y + kHeight + kGapY;
    }
  }
  return boxes;
}

std::string TimeText(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", 1e3 * seconds) : fmt::format("{:.1f} s", seconds);
}

void AddText(std::string& svg, double x, double y, const std::string& text, const char* more = "") {
  svg +=
      fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\"{}>{}</text>\n", x, y, more, HtmlText(text));
}

// From the right of one to the left of the other.
void AddCurve(std::string& svg, const Box& from, const Box& to, const char* style, const std::string& label,
              double label_at = 0.5) {
  const double x1 = from.right(), x2 = to.x - 6, bend = (x2 - x1) / 2;
  svg += fmt::format("<path d=\"M{:.0f},{:.0f} C{:.0f},{:.0f} {:.0f},{:.0f} {:.0f},{:.0f}\" {}/>\n", x1, from.middle(),
                     x1 + bend, from.middle(), x2 - bend, to.middle(), x2, to.middle(), style);
  const double y = from.middle() + (to.middle() - from.middle()) * label_at;
  if (!label.empty()) AddText(svg, (x1 + x2) / 2, y - 5, label, " font-size=\"11\"");
}

}  // namespace

std::string GraphSvg(const CallGraph& graph, const std::function<std::string(AgentId)>& name) {
  const std::vector<std::size_t> layers = LayersOf(graph);
  std::vector<Box> boxes = Place(graph, layers);
  double right = kMargin + kUserWidth, bottom = kMargin + kHeight;
  for (const Box& b : boxes) right = std::max(right, b.right()), bottom = std::max(bottom, b.y + kHeight);
  const double feedback_at = bottom + 22;
  const double width = right + kMargin, height = feedback_at + 22 + kMargin;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"13\" fill=\"currentColor\">\n"
      "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto-start-reverse\" markerUnits=\"userSpaceOnUse\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n"
      "<g fill=\"none\" stroke=\"currentColor\" marker-end=\"url(#to)\">\n",
      width, height);
  std::string labels;
  const auto side_by_side = [&](const CallEdge& e) {
    return std::ranges::any_of(graph.siblings(), [&](const CallSiblings& s) {
      return s.from == e.from && (s.a == e.to || s.b == e.to) && s.side_by_side();
    });
  };
  const auto curve = [&](const Box& from, const Box& to, const char* style, const std::string& label) {
    std::string both;
    AddCurve(both, from, to, style, label);
    const std::size_t text = both.find("<text");
    svg += both.substr(0, text);
    if (text != std::string::npos) labels += both.substr(text);
  };
  const Box user{kMargin, bottom / 2 - kHeight / 2 + kMargin / 2, kUserWidth};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (graph.nodes()[i].first > 0) curve(user, boxes[i], "", fmt::format("{}", graph.nodes()[i].first));
  }
  for (const CallEdge& e : graph.edges()) {
    const auto calls = static_cast<double>(std::max<std::int64_t>(1, graph.nodes()[e.from].calls));
    const std::string label = fmt::format("{:.0f} %", 100 * std::min(1.0, static_cast<double>(e.parents) / calls));
    if (!IsFeedback(e)) {
      curve(boxes[e.from], boxes[e.to], side_by_side(e) ? "stroke-width=\"2.5\"" : "", label);
      continue;
    }
    const double x1 = boxes[e.from].x + kWidth * 0.6, x2 = boxes[e.to].x + kWidth * 0.4;
    const double y1 = boxes[e.from].y + kHeight, y2 = boxes[e.to].y + kHeight;
    svg += fmt::format(
        "<path stroke-dasharray=\"5 4\" d=\"M{:.0f},{:.0f} C{:.0f},{:.0f} {:.0f},{:.0f} {:.0f},{:.0f}\"/>\n", x1, y1,
        x1, y1 + 40, x2, y2 + 40, x2, y2 + 6);
    AddText(labels, (x1 + x2) / 2, std::max(y1, y2) + 27, label, " font-size=\"11\"");
  }
  for (const CallJoin& join : graph.joins()) {
    for (const std::uint32_t member : join.members) {
      const bool told =
          std::ranges::any_of(graph.edges(), [&](const CallEdge& e) { return e.from == member && e.to == join.to; });
      if (join.holds() && !told) curve(boxes[member], boxes[join.to], "stroke-dasharray=\"2 3\"", "");
    }
  }
  svg += "</g>\n" + labels;
  svg += fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{:.0f}\" fill=\"none\" stroke=\"currentColor\"/>\n",
                     user.x + kUserWidth / 2, user.middle(), kUserWidth / 2);
  AddText(svg, user.x + kUserWidth / 2, user.middle() + 4, "user");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const CallNode& n = graph.nodes()[i];
    const Box& b = boxes[i];
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" fill=\"none\" "
        "stroke=\"currentColor\"/>\n",
        b.x, b.y, b.width, kHeight);
    AddText(svg, b.x + b.width / 2, b.y + 19, name(n.agent), " class=label");
    AddText(svg, b.x + b.width / 2, b.y + 35, fmt::format("{} calls", n.calls), " font-size=\"11\"");
    AddText(svg, b.x + b.width / 2, b.y + 50,
            fmt::format("{}, {} left", TimeText(n.execution_s), TimeText(n.remaining_s)), " font-size=\"11\"");
  }
  return svg + "</svg>\n";
}

}  // namespace takt::tool
