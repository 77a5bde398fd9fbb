// Shared parts of the tools' command lines: checks, help texts and usage errors of options.
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

// A check of an option's value.
using Check = std::shared_ptr<const CLI::Validator>;
Check Positive();
Check Share(double most);  // a number from 0 to `most`
Check Whole(std::int64_t least, std::int64_t most = INT32_MAX);
Check OneOf(std::vector<std::string> names);

// Returns a formatter with names and values on the left and wrapped descriptions on the right.
std::shared_ptr<CLI::FormatterBase> HelpFormat();

// An option after it was added.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag Required() const;
  Flag Listed() const;  // takes several values, separated by commas
  Flag Must(const Check& check) const;
  Flag Excludes(std::initializer_list<Flag> others) const;
  Flag Each(std::function<void()> given) const;  // calls `given` for each value

 private:
  CLI::Option* option_;
};

// A group of options in the help.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // Adds an option that writes to `to`. A non-empty value of `to` is shown as the default. options.cc lists the
  // supported types.
  template <class T>
  Flag Add(const char* names, T& to, const char* type, const char* text, const Check& check = nullptr) const;
  Flag AddFlag(const char* names, bool& to, const char* text) const;

 private:
  CLI::App& app_;
  std::string name_;
};

// Adds the options that select and read a workload.
void AddWorkloadSource(Group group, WorkloadSource& to);

// Adds the options for the report files of a comparison.
void AddReports(Group group, ReportFiles& to, ReplaySetup& setup);

// Returns the options of these groups that were given, as arguments of a command line.
std::vector<std::string> GivenOptions(const CLI::App& app, std::initializer_list<const char*> groups);

// Prints the error of a command line. Returns the exit code.
int ReportUsage(const CLI::App& tool, const CLI::ParseError& error);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_OPTIONS_H_
