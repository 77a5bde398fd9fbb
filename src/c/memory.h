// Creation, where memory may end. The one place of the library that catches: no exception crosses the C interface.
#ifndef TAKT_SRC_C_MEMORY_H_
#define TAKT_SRC_C_MEMORY_H_

#include "c/handle.h"

namespace takt::c {

// What `make` returns. It fails by status; only operator new, or a size beyond what a vector may have, throws.
template <class F>
takt_status UnlessMemoryEnds(takt_error* error, F&& make) noexcept {
  try {
    return make();
  } catch (...) {
    return Say(error, TAKT_E_NOMEM, "memory has ended");
  }
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_MEMORY_H_
