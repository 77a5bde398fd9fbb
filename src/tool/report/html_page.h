// The page around the plots: style sheet, script and legend.
#ifndef TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_
#define TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace takt::tool {

// Returns a whole page that loads no other file. Its script shows values under the pointer and toggles lines by their
// legend. A button among ".loads" shows its section of class "load" and hides the others.
std::string HtmlPage(std::string_view title, std::string_view body);

// Returns a button for a <div class=legend> that shows and hides the lines of a style.
std::string LegendButton(std::size_t style, std::string_view label);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_
