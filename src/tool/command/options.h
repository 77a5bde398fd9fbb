// What the command lines of takt's tools have in common: how options are checked, shown and complained about.
#ifndef TAKT_SRC_TOOL_COMMAND_OPTIONS_H_
#define TAKT_SRC_TOOL_COMMAND_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/command/arguments.h"

namespace takt::tool {

CLI::Validator Positive();
CLI::Validator Share(double most);  // a number from 0 to that
CLI::Validator Whole(std::int64_t least, std::int64_t most = INT32_MAX);

// Names and values to the left, what they are to the right, in lines that fit.
std::shared_ptr<CLI::FormatterBase> HelpFormat();

// Options that stand together in the help.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // What `to` is before shows as the default, where it is anything.
  template <class T>
  CLI::Option* Add(const char* names, T& to, const char* type, const char* text) {
    CLI::Option* option = app_.add_option(names, to, text)->type_name(type)->group(name_);
    if constexpr (requires { to == T{}; }) {
      if (to != T{}) option->capture_default_str();
    }
    return option;
  }
  template <class T>
  CLI::Option* Add(const char* names, T& to, const char* type, const char* text, const CLI::Validator& check) {
    return Add(names, to, type, text)->check(check);
  }
  CLI::Option* AddFlag(const char* names, bool& to, const char* text) {
    return app_.add_flag(names, to, text)->group(name_);
  }

 private:
  CLI::App& app_;
  std::string name_;
};

// How a workload is read.
void AddWorkload(Group group, WorkloadSource& to);

// The files that a comparison can be written to.
void AddReports(Group group, ReplayArguments& to);

// Prints what is wrong with a tool's command line; returns the exit code.
int ReportUsage(const CLI::App& tool, const CLI::ParseError& error);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_OPTIONS_H_
