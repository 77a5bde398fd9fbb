// Makes names and messages safe to show on a terminal or a page.
#ifndef TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_
#define TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_

#include <string>
#include <string_view>

namespace takt::tool {

// Returns the text with unsafe characters escaped as \n, \x1b or \u202e: C0, DEL, C1, line and paragraph separators,
// marks that change the direction of writing, and invalid UTF-8.
std::string ShownName(std::string_view name);

// Escapes whole lines like ShownName, but keeps line breaks.
std::string ShownLines(std::string_view lines);

// Colours of tables.
inline constexpr std::string_view kBold = "\x1b[1;32m", kPlain = "\x1b[0m";

// Escapes like ShownLines, but keeps these colours.
std::string ShownInColour(std::string_view lines);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_SHOWN_TEXT_H_
