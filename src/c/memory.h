// Creates objects when memory may run out. Only this file of the library catches: no exception crosses the C interface.
#ifndef TAKT_SRC_C_MEMORY_H_
#define TAKT_SRC_C_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "c/handle.h"

namespace takt::c {

// Returns the result of `make`, which reports errors by status. Only operator new, or a size beyond a vector's limit,
// throws.
template <class F>
takt_status UnlessMemoryEnds(takt_error* error, F&& make) noexcept {
  try {
    return make();
  } catch (...) {
    return Say(error, TAKT_E_NOMEM, "out of memory");
  }
}

// Checks the options of a handle.
template <class T>
takt_status ReadableOptions(const T* options, takt_error* error) {
  const takt_status status = Readable(options);
  if (status == TAKT_OK) return TAKT_OK;
  return Say(error, status,
             status == TAKT_E_NULL ? "options is NULL"
                                   : "options.struct_size: is invalid; expected a known size, and zeros in new fields");
}

inline takt_status NotReserved(takt_error* error) {
  return Say(error, TAKT_E_INVALID, "reserved: is invalid; expected 0");
}

// Checks a size for storage that is allocated at creation.
inline takt_status SoundReserve(const char* field, std::int64_t n, takt_error* error) {
  if (0 <= n && n <= std::int64_t{1} << 31) return TAKT_OK;
  return Say(error, TAKT_E_INVALID, field + (" is " + std::to_string(n)) + "; expected 0 to 2147483648");
}

inline takt_status Invalid(takt_error* error, std::string_view field, const absl::Status& status) {
  return Say(error, TAKT_E_INVALID, std::string(field).append(std::string(status.message())));
}

// Returns the error for a file that takt could not read.
inline takt_status Unreadable(takt_error* error, const absl::Status& status) {
  const bool damaged = status.code() == absl::StatusCode::kDataLoss;
  return Say(error, damaged ? TAKT_E_CORRUPT : TAKT_E_INVALID, std::string(status.message()));
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_MEMORY_H_
