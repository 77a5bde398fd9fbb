// A progress bar for terminals, with lines about the work below it.
#ifndef TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
#define TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace takt::tool {

// Overwrites its lines on standard error and clears them at the end. Silent if standard error is not a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown);
  ~ProgressBar() { Clear(); }

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool shown() const { return shown_; }

  // Shows the done share of the work, from 0 to 1. The rows follow after a second if the terminal is known
  // to have room for them.
  void Show(double share, std::string_view what, std::span<const std::string> rows = {});
  void Clear();

 private:
  std::string Start() const;  // moves the cursor to the start of the first line

  bool shown_;
  bool dirty_ = false;
  std::size_t rows_ = 0;  // rows on the terminal
  std::chrono::steady_clock::time_point started_;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
