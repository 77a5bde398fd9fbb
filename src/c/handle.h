// Common checks of all functions of the C interface: handles, and structs that the caller passes.
#ifndef TAKT_SRC_C_HANDLE_H_
#define TAKT_SRC_C_HANDLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "takt/c/takt.h"

namespace takt::c {

// ---- structs that may grow ------------------------------------------------------------------------------------------

// Upper bound on a struct's size. A larger struct_size means that the field was not set.
inline constexpr std::uint32_t kLargestStruct = 4096;

// Returns the value that takt_..._init writes.
template <class T>
T Defaults();

template <class T>
T Zeroed() {
  T to{};
  to.struct_size = sizeof to;
  return to;
}

// Checks that the caller's struct has a valid size, and that fields unknown to this library are zero.
template <class T>
takt_status Readable(const T* in) {
  static_assert(offsetof(T, struct_size) == 0);
  if (in == nullptr) return TAKT_E_NULL;
  if (in->struct_size == sizeof(T)) return TAKT_OK;
  // No header version ends in the middle of a field.
  if (in->struct_size < 8 || in->struct_size > kLargestStruct || in->struct_size % alignof(T) != 0) return TAKT_E_SIZE;
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  const auto zero = [](unsigned char byte) { return byte == 0; };
  return in->struct_size < sizeof(T) || std::all_of(bytes + sizeof(T), bytes + in->struct_size, zero) ? TAKT_OK
                                                                                                      : TAKT_E_SIZE;
}

// Returns the caller's struct, which is Readable. If it is shorter than this library's, returns a copy in `local` with
// defaults for the missing fields.
template <class T>
const T& Whole(const T* in, T& local) {
  if (in->struct_size >= sizeof(T)) [[likely]]
    return *in;
  local = Defaults<T>();
  std::memcpy(&local, in, in->struct_size);
  return local;
}

template <class T>
takt_status Writable(const T* out) {
  static_assert(offsetof(T, struct_size) == 0);
  if (out == nullptr) return TAKT_E_NULL;
  const std::uint32_t size = out->struct_size;
  return size >= 8 && size <= kLargestStruct && size % alignof(T) == 0 ? TAKT_OK : TAKT_E_SIZE;
}

// Writes the part that fits the caller's struct, which is Writable. Fields unknown to this library become zero.
template <class T>
void Write(T& value, T* out) {
  const std::uint32_t size = out->struct_size;
  value.struct_size = size;
  if (size == sizeof(T)) [[likely]] {
    *out = value;
    return;
  }
  std::memcpy(out, &value, std::min<std::size_t>(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<unsigned char*>(out) + sizeof(T), 0, size - sizeof(T));
}

// Implements takt_..._init. `size` is the caller's sizeof.
template <class T>
void Init(T* out, std::size_t size) {
  if (out == nullptr || size < 8 || size > kLargestStruct) return;
  out->struct_size = static_cast<std::uint32_t>(size);
  T value = Defaults<T>();
  Write(value, out);
}

inline void CopyText(std::string_view text, char* out, std::size_t size) {
  const std::size_t n = std::min(text.size(), size - 1);
  text.copy(out, n);
  std::memset(out + n, 0, size - n);
}

// Returns the code, and writes the reason if the caller passed an error struct.
inline takt_status Say(takt_error* error, takt_status code, std::string_view text) {
  if (Writable(error) != TAKT_OK) return code;
  takt_error value{};
  value.code = code;
  CopyText(text, value.text, std::min<std::size_t>(sizeof value.text, std::max(error->struct_size, 9u) - 8));
  Write(value, error);
  return code;
}

// ---- handles --------------------------------------------------------------------------------------------------------

// First word of a handle.
enum class Kind : std::uint32_t {
  kScheduler = 0x7a6b7401u,
  kRouter,
  kRanker,
  kQueue,
  kInbox,
  kIds,
  kPredictor,
  kToolProfile,
  kAgentLearner,
  kCascadeRouter,
  kDestroyed = 0xdeadda7au,
};

struct Handle {
  explicit Handle(Kind is) : kind(is) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Kind kind;
  mutable bool busy = false;  // a call that may call back is running, even a const one
  Handle* kept = nullptr;
};

// Keeps a destroyed handle in builds with assertions, so that later calls on it are detected.
void Keep(Handle& handle);

// Checks that the pointer is a handle of this kind, busy or not.
template <class H>
takt_status Known(const H* handle) {
  if (handle == nullptr) [[unlikely]]
    return TAKT_E_NULL;
  return handle->kind == H::kKind ? TAKT_OK : TAKT_E_HANDLE;
}

template <class H>
takt_status Valid(const H* handle) {
  if (const takt_status status = Known(handle); status != TAKT_OK) [[unlikely]]
    return status;
  return handle->busy ? TAKT_E_BUSY : TAKT_OK;
}

template <class H>
takt_status Destroy(H* handle) {
  if (handle == nullptr) return TAKT_OK;
  if (const takt_status status = Valid(handle); status != TAKT_OK) return status;
  static_cast<volatile Kind&>(handle->kind) = Kind::kDestroyed;
#ifdef NDEBUG
  delete handle;
#else
  handle->End();
  Keep(*handle);
#endif
  return TAKT_OK;
}

// Marks a handle as busy during a call that may call back.
class Busy {
 public:
  explicit Busy(const Handle& handle) : handle_(handle) { handle_.busy = true; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() { handle_.busy = false; }

 private:
  const Handle& handle_;
};

// Returns the first status that is not TAKT_OK.
template <class... Rest>
takt_status FirstOf(takt_status first, Rest... rest) {
  if constexpr (sizeof...(rest) > 0) {
    if (first == TAKT_OK) return FirstOf(rest...);
  }
  return first;
}

// Checks the pointer to an array of n elements.
inline takt_status Given(const void* array, std::size_t n) { return n > 0 && array == nullptr ? TAKT_E_NULL : TAKT_OK; }

// Writes a count if the caller passed a pointer for it.
inline void WriteCount(std::size_t n, std::size_t* counted) {
  if (counted != nullptr) *counted = n;
}

// Returns the i-th of structs that may grow, `stride` bytes apart.
template <class T>
const T* Nth(const T* first, std::size_t stride, std::size_t i) {
  return reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(first) + i * stride);
}
// Checks that there are n structs and that sound(each) succeeds.
template <class T, class F>
takt_status GivenEach(const T* first, std::size_t n, std::size_t stride, F&& sound) {
  if (const takt_status status = Given(first, n); status != TAKT_OK) return status;
  if (n > 1 && stride % alignof(T) != 0) return TAKT_E_INVALID;
  for (std::size_t i = 0; i < n; ++i) {
    const T* each = Nth(first, stride, i);
    if (const takt_status status = sound(each); status != TAKT_OK) return status;
    if (n > 1 && stride < each->struct_size) return TAKT_E_INVALID;
  }
  return TAKT_OK;
}

inline takt_status Meant(bool could_be) { return could_be ? TAKT_OK : TAKT_E_INVALID; }

}  // namespace takt::c

#endif  // TAKT_SRC_C_HANDLE_H_
