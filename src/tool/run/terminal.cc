#include "tool/run/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace takt::tool {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

bool IsTerminal(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

TerminalSize SizeOf(std::FILE* terminal) {
  winsize size = {};
  if (ioctl(fileno(terminal), TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

bool WantsColour(std::FILE* stream) {
  const char* no = std::getenv("NO_COLOR");
  return IsTerminal(stream) && (no == nullptr || *no == '\0');
}

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted; }

}  // namespace takt::tool
