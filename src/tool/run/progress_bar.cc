#include "tool/run/progress_bar.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include "tool/run/shown_text.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {

ProgressBar::ProgressBar(bool shown)
    : shown_(shown && IsTerminal(stderr)), started_(std::chrono::steady_clock::now()) {}

void ProgressBar::Show(double share, std::string_view what) {
  if (!shown_) return;
  constexpr std::size_t kWidth = 28;
  share = std::clamp(share, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::string left;
  if (share > 0.02 && elapsed > 1) left = fmt::format(", {:.0f} s left", elapsed * (1 - share) / share);
  const std::string line = fmt::format("\r[{}{}] {:3.0f} %  {}{}\x1b[K", std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), share * 100, ShownName(what), left);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  dirty_ = true;
}

void ProgressBar::Clear() {
  if (!dirty_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  dirty_ = false;
}

}  // namespace takt::tool
