// tiny_engine --serve: answers HTTP requests until it is asked to end.
#ifndef TAKT_EXAMPLES_TINY_ENGINE_SERVE_H_
#define TAKT_EXAMPLES_TINY_ENGINE_SERVE_H_

#include "arguments.h"

namespace tiny {

// Returns the exit code.
int Serve(Arguments arguments);

}  // namespace tiny

#endif  // TAKT_EXAMPLES_TINY_ENGINE_SERVE_H_
