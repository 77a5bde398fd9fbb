// --trace: plays a workload in real time, and prints the reports of takt replay.
#ifndef TAKT_INTEGRATIONS_SERVER_PLAY_H_
#define TAKT_INTEGRATIONS_SERVER_PLAY_H_

#include "arguments.h"
#include "program.h"

namespace serving {

// Returns the exit code.
int PlayTrace(Program& program, Arguments arguments);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PLAY_H_
