// What stands at the other end: a person, or a pipe.
#ifndef TAKT_SRC_TOOL_RUN_TERMINAL_H_
#define TAKT_SRC_TOOL_RUN_TERMINAL_H_

#include <cstdio>

namespace takt::tool {

// Whether a line there can be overwritten.
bool IsTerminal(std::FILE* stream);

// Whether colours are welcome there: a terminal, and NO_COLOR is not set (no-color.org).
bool WantsColour(std::FILE* stream);

// From now on Ctrl-C, or a polite kill, asks for the end; the second time it ends at once.
void CatchInterrupts();
bool Interrupted();

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_TERMINAL_H_
