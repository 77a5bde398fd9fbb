#ifndef TAKT_SRC_TOOL_REPORT_HTML_TEXT_H_
#define TAKT_SRC_TOOL_REPORT_HTML_TEXT_H_

#include <string>
#include <string_view>

#include "tool/run/shown_text.h"

namespace takt::tool {

// Returns the text with markup and control characters escaped.
inline std::string HtmlText(std::string_view text) {
  std::string out;
  for (const char c : ShownLines(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_HTML_TEXT_H_
