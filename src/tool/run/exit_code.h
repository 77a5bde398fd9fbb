// Exit codes of the tool.
#ifndef TAKT_SRC_TOOL_RUN_EXIT_CODE_H_
#define TAKT_SRC_TOOL_RUN_EXIT_CODE_H_

namespace takt::tool {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as in shells

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_EXIT_CODE_H_
