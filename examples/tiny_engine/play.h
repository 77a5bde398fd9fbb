// tiny_engine --trace: a workload in real time, and the reports of takt replay.
#ifndef TAKT_EXAMPLES_TINY_ENGINE_PLAY_H_
#define TAKT_EXAMPLES_TINY_ENGINE_PLAY_H_

#include "arguments.h"

namespace tiny {

// Returns the exit code.
int PlayTrace(Arguments arguments);

}  // namespace tiny

#endif  // TAKT_EXAMPLES_TINY_ENGINE_PLAY_H_
