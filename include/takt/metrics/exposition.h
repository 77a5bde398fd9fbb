// Text that Prometheus reads: metrics with labels, whatever the label values contain.
#ifndef TAKT_METRICS_EXPOSITION_H_
#define TAKT_METRICS_EXPOSITION_H_

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/metrics/half_octaves.h"

namespace takt {

// Returns the length of the UTF-8 character at the start of the text; 0: invalid bytes.
constexpr std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto more = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return more(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second > 0x9F;
    return more(1) && more(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90, beyond = first == 0xF4 && second > 0x8F;
    return more(1) && more(2) && more(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

// Maximum bytes of a label value. Longer values are cut.
inline constexpr std::size_t kMostLabelBytes = 128;

// Returns a label value that Prometheus accepts. Invalid UTF-8 and control characters except line feeds become U+FFFD.
// Without escapes; Exposition escapes.
inline std::string LabelValue(std::string_view text) {
  std::string value;
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const auto first = static_cast<unsigned char>(text.front());
    const bool fine = length > 1 || (length == 1 && (first == '\n' || (first >= 0x20 && first != 0x7F)));
    const std::string_view shown = fine ? text.substr(0, length) : std::string_view("\xEF\xBF\xBD");
    if (value.size() + shown.size() > kMostLabelBytes) break;
    value += shown;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return value;
}

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

// Collects metrics in the text format 0.0.4. Source: prometheus.io/docs/instrumenting/exposition_formats.
class Exposition {
 public:
  using Label = std::pair<std::string_view, std::string_view>;

  // `shared`: labels of all samples, such as the model's name.
  explicit Exposition(std::initializer_list<Label> shared = {}) {
    for (const Label& label : shared) Append(shared_, label);
  }

  // Begins a metric. The name must be valid, and each metric must begin once.
  void Begin(std::string_view name, MetricType type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ");
    for (const char c : help) {
      if (c == '\\') text_ += "\\\\";
      else if (c == '\n') text_ += "\\n";
      else text_ += c;
    }
    text_.append("\n# TYPE ").append(name).append(" ");
    text_ += type == MetricType::kCounter ? "counter" : type == MetricType::kGauge ? "gauge" : "histogram";
    text_ += '\n';
  }

  // Adds a sample of the metric.
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void Sample(T value, std::initializer_list<Label> labels = {}) {
    Line("", value, {labels.begin(), labels.end()});
  }

  // Adds a histogram.
  void Histogram(const HalfOctaves& values, std::initializer_list<Label> labels = {}) {
    std::vector<Label> with_edge(labels.begin(), labels.end());
    with_edge.emplace_back("le", "");
    std::int64_t below = 0;
    const auto counts = values.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      below += counts[i];
      char edge[32];
      const auto end = std::to_chars(edge, edge + sizeof edge, values.edge(i + 1), std::chars_format::general, 4);
      const bool last = i + 1 == counts.size();
      with_edge.back().second = last ? "+Inf" : std::string_view(edge, static_cast<std::size_t>(end.ptr - edge));
      Line("_bucket", below, with_edge);
    }
    with_edge.pop_back();
    Line("_sum", values.sum(), with_edge);
    Line("_count", below, with_edge);
  }

  // Adds metrics that the host has written itself.
  void Add(std::string_view text) { text_ += text; }

  const std::string& text() const { return text_; }

 private:
  static void Append(std::string& to, const Label& label) {
    if (!to.empty()) to += ',';
    to.append(label.first).append("=\"");
    for (const char c : LabelValue(label.second)) {
      if (c == '\\') to += "\\\\";
      else if (c == '"') to += "\\\"";
      else if (c == '\n') to += "\\n";
      else to += c;
    }
    to += '"';
  }

  template <class T>
  void Line(std::string_view suffix, T value, const std::vector<Label>& labels) {
    std::string all = shared_;
    for (const Label& label : labels) Append(all, label);
    text_.append(name_).append(suffix);
    if (!all.empty()) text_.append("{").append(all).append("}");
    text_.append(" ").append(Number(value)).append("\n");
  }

  static std::string Number(std::integral auto value) { return std::to_string(value); }
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char digits[32];  // the longest double has 24 characters
    return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
  }

  std::string text_, shared_, name_;
};

}  // namespace takt

#endif  // TAKT_METRICS_EXPOSITION_H_
