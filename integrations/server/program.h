// A program around an engine: its name, its options and its model. The rest is the same for all programs: traces in
// real time, or a server.
#ifndef TAKT_INTEGRATIONS_SERVER_PROGRAM_H_
#define TAKT_INTEGRATIONS_SERVER_PROGRAM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arguments.h"
#include "served_model.h"
#include "tool/command/options.h"

namespace serving {

class Program {
 public:
  virtual ~Program() = default;

  virtual const char* name() const = 0;
  virtual const char* help() const = 0;
  virtual const char* examples() const = 0;

  // Sets defaults that differ from those of Arguments.
  virtual void SetDefaults(Arguments&) const {}
  // True if the program only serves, without --trace.
  virtual bool only_serves() const { return false; }

  // Adds the program's own options. `to` has its defaults at the time of this call.
  virtual void AddModel(takt::tool::Group group) = 0;
  virtual void AddEngine(takt::tool::Group group, Arguments& to) = 0;

  // Loads the model selected by the arguments.
  virtual absl::StatusOr<std::unique_ptr<ServedModel>> Load(const Arguments& arguments) = 0;

  // Runs the program. Returns the exit code.
  int Run(int argc, const char* const* argv);

  // Prints the error to standard error; returns `exit_code`.
  int Complain(const absl::Status& status, int exit_code) const;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PROGRAM_H_
