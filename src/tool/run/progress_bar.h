// How far it is, on a terminal.
#ifndef TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
#define TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_

#include <chrono>
#include <string_view>

namespace takt::tool {

// One line on standard error that is overwritten, and gone in the end. Silent where nobody would see it.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown);
  ~ProgressBar() { Clear(); }

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share` of the work is done: 0 .. 1.
  void Show(double share, std::string_view what);
  void Clear();

 private:
  bool shown_;
  bool dirty_ = false;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_PROGRESS_BAR_H_
