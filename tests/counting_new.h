// Replaces operator new by one that counts and can fail on request. Include this in one source of a program: the
// functions are not inline.
#ifndef TAKT_TESTS_COUNTING_NEW_H_
#define TAKT_TESTS_COUNTING_NEW_H_

#include <cstddef>
#include <cstdlib>
#include <new>

namespace takt {

inline std::size_t allocations = 0, allocated_bytes = 0;

// While `watched`, allocations are numbered from 1, and allocation number `failing` throws.
inline bool watched = false;
inline std::size_t watched_allocations = 0, failing = 0;

inline void* CountedAlloc(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  ++allocations;
  allocated_bytes += size;
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}

inline void* CountedAllocOrEnd(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  if (watched && ++watched_allocations == failing) throw std::bad_alloc();
  if (void* p = CountedAlloc(size, align)) return p;
  std::abort();
}

}  // namespace takt

void* operator new(std::size_t size) { return takt::CountedAllocOrEnd(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  return takt::CountedAllocOrEnd(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return takt::CountedAlloc(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

#endif  // TAKT_TESTS_COUNTING_NEW_H_
