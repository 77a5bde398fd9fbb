// Names and messages as a terminal or a page shows them.
#ifndef TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_
#define TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_

#include <string>
#include <string_view>

namespace takt::tool {

// Returns the text with control characters as \n, \x1b or \u202e: C0, DEL, C1, line and paragraph separators, marks
// that change the direction of writing, and bytes that are no UTF-8.
std::string ShownName(std::string_view name);

// The same for whole lines: line breaks stay.
std::string ShownLines(std::string_view lines);

// Colours of tables.
inline constexpr std::string_view kBold = "\x1b[1;32m", kPlain = "\x1b[0m";

// The same as ShownLines, but for these colours, which stay.
std::string ShownInColour(std::string_view lines);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_
