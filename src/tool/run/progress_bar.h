// A progress bar for terminals.
#ifndef TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
#define TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_

#include <chrono>
#include <string_view>

namespace takt::tool {

// Overwrites one line on standard error and clears it at the end. Silent if standard error is not a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown);
  ~ProgressBar() { Clear(); }

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Shows the done share of the work, from 0 to 1.
  void Show(double share, std::string_view what);
  void Clear();

 private:
  bool shown_;
  bool dirty_ = false;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
