// What the command lines of takt's tools have in common: how options are checked, shown and complained about.
#ifndef TAKT_SRC_TOOL_COMMAND_OPTIONS_H_
#define TAKT_SRC_TOOL_COMMAND_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/report_files.h"
#include "tool/run/load_workload.h"

namespace CLI {
class App;
class FormatterBase;
class Option;
class ParseError;
class Validator;
}  // namespace CLI

namespace takt::tool {

// What a value must be.
using Check = std::shared_ptr<const CLI::Validator>;
Check Positive();
Check Share(double most);  // a number from 0 to that
Check Whole(std::int64_t least, std::int64_t most = INT32_MAX);
Check OneOf(std::vector<std::string> names);

// Names and values to the left, what they are to the right, in lines that fit.
std::shared_ptr<CLI::FormatterBase> HelpFormat();

// An option that was added.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag Required() const;
  Flag Listed() const;  // several values, with commas between them
  Flag Must(const Check& check) const;
  Flag Excludes(std::initializer_list<Flag> others) const;
  Flag Each(std::function<void()> given) const;  // called for each value that is given

 private:
  CLI::Option* option_;
};

// Options that stand together in the help.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // What `to` is before shows as the default, where it is anything. Of the types that options.cc lists.
  template <class T>
  Flag Add(const char* names, T& to, const char* type, const char* text, const Check& check = nullptr) const;
  Flag AddFlag(const char* names, bool& to, const char* text) const;

 private:
  CLI::App& app_;
  std::string name_;
};

// How a workload is read.
void AddWorkloadSource(Group group, WorkloadSource& to);

// The files that a comparison can be written to.
void AddReports(Group group, ReportFiles& to, ReplaySetup& setup);

// Prints what is wrong with a tool's command line; returns the exit code.
int ReportUsage(const CLI::App& tool, const CLI::ParseError& error);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_OPTIONS_H_
