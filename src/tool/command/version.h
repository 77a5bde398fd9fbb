// The version of a program, as users report it.
#ifndef TAKT_SRC_TOOL_COMMAND_VERSION_H_
#define TAKT_SRC_TOOL_COMMAND_VERSION_H_

#include <string>
#include <string_view>

namespace takt::tool {

// Returns "NAME VERSION", and on a second line the commit, if known, and the compiler.
std::string VersionText(std::string_view program);
std::string CompilerText();

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_VERSION_H_
