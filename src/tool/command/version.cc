#include "tool/command/version.h"

#include "fmt/format.h"
#include "takt/version.h"

#ifndef TAKT_COMMIT  // set by CMake in a clone
#define TAKT_COMMIT ""
#endif

namespace takt::tool {

std::string CompilerText() {
#ifdef __clang__
  const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#ifdef __OPTIMIZE__
  return compiler;
#else
  return compiler + ", not optimised";
#endif
}

std::string VersionText(std::string_view program) {
  const std::string_view commit = TAKT_COMMIT;
  return fmt::format("{} " TAKT_VERSION "\n{}{}", program, commit.empty() ? "" : fmt::format("commit {}, ", commit),
                     CompilerText());
}

}  // namespace takt::tool
