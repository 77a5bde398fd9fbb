#include "memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* Allocate(std::size_t size, std::size_t align) {
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}

void* AllocateOrFail(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  using takt::fire::Memory;
  if (Memory::watched && Memory::left-- == 0) throw std::bad_alloc();
  if (void* p = Allocate(size, align)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return AllocateOrFail(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  return AllocateOrFail(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
