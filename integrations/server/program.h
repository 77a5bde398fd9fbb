// A program around an engine: what it is called, what it takes, and its model. The rest of it is the same for all:
// traces in real time, or a server.
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

  // What this one takes besides what all take. `to` has its own defaults when this is called.
  virtual void AddModel(takt::tool::Group group) = 0;
  virtual void AddEngine(takt::tool::Group group, Arguments& to) = 0;

  // The model that the arguments ask for.
  virtual absl::StatusOr<std::unique_ptr<ServedModel>> Load(const Arguments& arguments) = 0;

  // Main. Returns the exit code.
  int Run(int argc, const char* const* argv);

  // Says what is wrong on standard error; returns `exit_code`.
  int Complain(const absl::Status& status, int exit_code) const;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PROGRAM_H_
