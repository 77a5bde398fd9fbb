// Runs the built tool as a user would, without a shell.
#ifndef TAKT_TESTS_TOOL_TOOL_H_
#define TAKT_TESTS_TOOL_TOOL_H_

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"

namespace takt {

using Args = std::vector<std::string>;

inline std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A temporary folder of its own, which is removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "takt_cli_XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

struct Ended {
  int exit_code = -1;  // 128 + signal if a signal killed it
  std::string out, err;
};

// A run of the tool. Its standard output and error are files, or one terminal.
class Tool {
 public:
  enum class Where { kFiles, kTerminal };

  // `out`: another place for standard output. `in`: a file as standard input.
  explicit Tool(const Args& args, Where where = Where::kFiles, const std::string& out = "", const std::string& in = "")
      : out_(dir_ / "out") {
    if (!out.empty()) out_ = out;
    int terminal = -1;
    const winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    if (where == Where::kTerminal) REQUIRE(openpty(&terminal_, &terminal, nullptr, nullptr, &size) == 0);
    std::vector<char*> argv = {const_cast<char*>(TAKT_TOOL_PATH)};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      setenv("TERM", "xterm", 1);
      unsetenv("NO_COLOR");
      if (!in.empty()) dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
      constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(terminal >= 0 ? terminal : open(out_.c_str(), kCreate, 0600), STDOUT_FILENO);
      dup2(terminal >= 0 ? terminal : open((dir_ / "err").c_str(), kCreate, 0600), STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    if (terminal >= 0) close(terminal);
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool() {
    if (terminal_ >= 0) close(terminal_);
  }

  // Reads the terminal until `text` is there, or it is closed.
  void WaitFor(const std::string& text) {
    while (seen_.find(text) == std::string::npos && Read()) {
    }
  }
  const std::string& seen() const { return seen_; }  // on the terminal so far
  void Interrupt() { REQUIRE(kill(pid_, SIGINT) == 0); }
  void Terminate() { REQUIRE(kill(pid_, SIGTERM) == 0); }
  pid_t pid() const { return pid_; }

  Ended Wait() {
    while (terminal_ >= 0 && Read()) {
    }
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (terminal_ >= 0) return {exit_code, seen_, seen_};
    const bool a_file = std::filesystem::is_regular_file(out_);  // /dev/full never ends
    return {exit_code, a_file ? ReadWhole(out_) : "", ReadWhole(dir_ / "err")};
  }

 private:
  bool Read() {
    char buffer[4096];
    const ssize_t got = read(terminal_, buffer, sizeof buffer);
    if (got <= 0) return false;
    seen_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  TempDir dir_;
  std::string out_;
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string seen_;
};

inline Ended RunTool(const Args& args) { return Tool(args).Wait(); }

// Runs with a file as standard input.
inline Ended RunToolOn(const std::string& in, const Args& args) {
  return Tool(args, Tool::Where::kFiles, "", in).Wait();
}

// The arguments of a quick replay, and more.
inline Args Replay(Args more) {
  Args args = {"replay", "--workload", "gen:multi_stage,workflows=80,rate=20,seed=3", "--max-seqs", "24"};
  args.insert(args.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return args;
}

}  // namespace takt

#endif  // TAKT_TESTS_TOOL_TOOL_H_
