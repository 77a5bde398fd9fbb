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

void ProgressBar::Show(double share, std::string_view what, std::span<const std::string> rows) {
  if (!shown_) return;
  constexpr std::size_t kWidth = 28;
  share = std::clamp(share, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::string left;
  if (share > 0.02 && elapsed > 1) left = fmt::format(", {:.0f} s left", elapsed * (1 - share) / share);
  const TerminalSize size = SizeOf(stderr);
  const auto cut = [&](std::string line) {  // a longer line would wrap
    if (size.columns > 0 && line.size() >= size.columns) line.resize(size.columns - 1);
    return line + "\x1b[K";
  };
  std::string frame = Start() + cut(fmt::format("[{}{}] {:3.0f} %  {}{}", std::string(filled, '#'),
                                                std::string(kWidth - filled, '.'), share * 100, ShownName(what), left));
  if (rows_ > 0) frame += "\x1b[J";
  rows_ = elapsed > 1 && size.lines > rows.size() ? rows.size() : 0;
  for (const std::string& row : rows.first(rows_)) frame += "\r\n" + cut(ShownName(row));
  std::fputs(frame.c_str(), stderr);
  std::fflush(stderr);
  dirty_ = true;
}

void ProgressBar::Clear() {
  if (!dirty_) return;
  std::fputs((Start() + (rows_ > 0 ? "\x1b[J" : "\x1b[K")).c_str(), stderr);
  std::fflush(stderr);
  dirty_ = false;
  rows_ = 0;
}

std::string ProgressBar::Start() const { return rows_ > 0 ? fmt::format("\r\x1b[{}A", rows_) : "\r"; }

}  // namespace takt::tool
