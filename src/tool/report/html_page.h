// What stands around the plots: style sheet, script, legend.
#ifndef TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_
#define TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace takt::tool {

// A whole page that loads nothing from elsewhere. Its script shows values under the pointer, shows and hides lines by
// their legend, and of sections of class "load" the one whose button among ".loads" was pressed.
std::string HtmlPage(std::string_view title, std::string_view body);

// For a <div class=legend>: shows and hides what is drawn in a style.
std::string LegendButton(std::size_t style, std::string_view label);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_HTML_PAGE_H_
