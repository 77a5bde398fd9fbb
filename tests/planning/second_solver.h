// glpsol, a solver without takt's code, and a folder for its files.
#ifndef TAKT_TESTS_PLANNING_SECOND_SOLVER_H_
#define TAKT_TESTS_PLANNING_SECOND_SOLVER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "catch.h"
#include "fmt/format.h"
#include "takt/planning/milp.h"

namespace takt {

class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "takt_milp_XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool HasGlpsol() { return std::system("glpsol --version > /dev/null 2>&1") == 0; }

// The result of glpsol for free MPS text; infinity: infeasible; nullopt: neither, such as unbounded.
inline std::optional<double> Glpsol(const std::string& mps) {
  const Folder folder;
  std::ofstream(folder / "model.mps") << mps;
  const std::string command = fmt::format("glpsol --tmlim 60 --freemps {} -w {} < /dev/null > {} 2>&1",
                                          folder / "model.mps", folder / "out", folder / "log");
  if (std::system(command.c_str()) != 0) FAIL("glpsol does not read it:\n" << ReadAll(folder / "log") << mps);
  // "s mip <rows> <columns> <o|f|n|u> <objective>", "s bas <rows> <columns> <f|..> <f|..> <objective>"
  std::istringstream lines(ReadAll(folder / "out"));
  std::optional<double> found;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string s, kind, rows, columns, state, dual;
    double objective = 0;
    words >> s >> kind;
    if (s != "s") continue;
    words >> rows >> columns >> state;
    if (kind == "bas") words >> dual;
    words >> objective;
    if (kind == "mip" ? state == "o" : state == "f" && dual == "f") found = objective;
    if (kind == "mip" && state == "n") found = kUnlimited;
    if (kind == "bas" && state == "n") found = kUnlimited;
  }
  // If the relaxation has no solution, only the log shows it.
  if (ReadAll(folder / "log").find("HAS NO PRIMAL FEASIBLE SOLUTION") != std::string::npos) found = kUnlimited;
  if (ReadAll(folder / "log").find("HAS NO INTEGER FEASIBLE SOLUTION") != std::string::npos) found = kUnlimited;
  return found;
}

}  // namespace takt

#endif  // TAKT_TESTS_PLANNING_SECOND_SOLVER_H_
