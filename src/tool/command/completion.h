// Words with which a shell can complete a command line.
#ifndef TAKT_SRC_TOOL_COMMAND_COMPLETION_H_
#define TAKT_SRC_TOOL_COMMAND_COMPLETION_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace takt::tool {

// The hidden command by which the scripts of `takt completion` ask for candidates.
inline constexpr const char* kCompleteWords = "complete-words";

// Returns the candidates for the last of these words, in alphabetical order. Empty: a file or a value.
std::vector<std::string> CandidatesOf(const CLI::App& tool, const std::vector<std::string>& words);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_COMPLETION_H_
