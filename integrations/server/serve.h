// --serve: answers HTTP requests until an interrupt.
#ifndef TAKT_INTEGRATIONS_SERVER_SERVE_H_
#define TAKT_INTEGRATIONS_SERVER_SERVE_H_

#include "arguments.h"
#include "program.h"

namespace serving {

// Returns the exit code.
int Serve(Program& program, Arguments arguments);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SERVE_H_
