// Properties of a stream, and interrupts.
#ifndef TAKT_SRC_TOOL_RUN_TERMINAL_H_
#define TAKT_SRC_TOOL_RUN_TERMINAL_H_

#include <cstddef>
#include <cstdio>

namespace takt::tool {

// Returns whether a line on the stream can be overwritten.
bool IsTerminal(std::FILE* stream);

// Size of a terminal in characters; 0: unknown.
struct TerminalSize {
  std::size_t columns = 0, lines = 0;
};
TerminalSize SizeOf(std::FILE* terminal);

// Returns whether to use colours: the stream is a terminal and NO_COLOR is not set (no-color.org).
bool WantsColour(std::FILE* stream);

// Makes the first SIGINT or SIGTERM request a stop. The second ends the process at once.
void CatchInterrupts();
bool Interrupted();

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_TERMINAL_H_
