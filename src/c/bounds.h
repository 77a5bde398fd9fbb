// Bounds on waiting requests, which schedulers and routers share.
#ifndef TAKT_SRC_C_BOUNDS_H_
#define TAKT_SRC_C_BOUNDS_H_

#include "c/handle.h"
#include "c/memory.h"
#include "takt/base/spec_parser.h"
#include "takt/model/class_limits.h"

namespace takt::c {

// Sets the defaults of the bounds in a C struct. `plain`: the C++ struct with its defaults.
template <class To, class Plain>
void PutBounds(const Plain& plain, To& to) {
  to.max_waiting = plain.max_waiting, to.max_waiting_tokens = plain.max_waiting_tokens;
  to.tenant_max_waiting = plain.tenant_max_waiting;
  to.tenant_max_waiting_tokens = plain.tenant_max_waiting_tokens;
}

// Reads the bounds of a C struct. Returns TAKT_E_INVALID for an invalid text of classes.
template <class From, class To>
takt_status TakeBounds(const From& from, To& to, takt_error* error) {
  to.max_waiting = from.max_waiting, to.max_waiting_tokens = from.max_waiting_tokens;
  to.tenant_max_waiting = from.tenant_max_waiting;
  to.tenant_max_waiting_tokens = from.tenant_max_waiting_tokens;
  if (from.class_limits == nullptr || OptionFromText(from.class_limits, {}, to.class_limits)) return TAKT_OK;
  return Say(error, TAKT_E_INVALID, "class_limits: " + WishOf(to.class_limits, {}));
}

// Reads "NAME=VALUE,..." and passes the changed options to `set`.
template <class Options, class Set>
takt_status ChangeOptions(const Options& from, const char* changes, takt_error* error, Set&& set) {
  if (changes == nullptr) return Say(error, TAKT_E_NULL, "changes is NULL");
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    Options options = from;
    if (absl::Status read = internal::ReadOptions(changes, options); !read.ok()) return Invalid(error, "", read);
    const absl::Status done = set(options);
    return done.ok() ? TAKT_OK : Invalid(error, "", done);
  });
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_BOUNDS_H_
