// A router that has warmed up allocates nothing: counted in operator new.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "catch.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace {

std::size_t allocations = 0;

void* Allocate(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  ++allocations;
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}

void* AllocateOrEnd(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  if (void* p = Allocate(size, align)) return p;
  std::abort();
}

}  // namespace

void* operator new(std::size_t size) { return AllocateOrEnd(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  return AllocateOrEnd(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace takt {
namespace {

// 40 requests alive, at most 16 of them on instances; all on instances end after each Place.
class Host {
 public:
  Host() {
    for (std::uint64_t id = 1; id <= 4; ++id) router_.On(InstanceUp{{.id = {id}}}, {});
  }

  void Round() {
    for (; arrived_ - ended_ < 40; ++arrived_) {
      Arrived arrival;
      arrival.request.id = {arrived_ + 1};
      arrival.request.prompt_tokens = {10};
      arrival.request.expires_at = TimePoint(FromSeconds(1e6));
      router_.On(arrival, {});
    }
    const std::uint64_t first = ended_ + 1;
    for (const Placement& p : router_.Place({})) ended_ = std::max(ended_, p.request.value);
    for (std::uint64_t id = first; id <= ended_; ++id) router_.On(RequestEnded{{id}, {}}, {});
  }

  std::uint64_t ended() const { return ended_; }

 private:
  BasicRouter<Fcfs, LeastLoaded> router_ =
      *BasicRouter<Fcfs, LeastLoaded>::Create({.max_outstanding = 4, .reserve_requests = 64}, {}, {});
  std::uint64_t arrived_ = 0, ended_ = 0;
};

TEST_CASE("after warm-up nothing is allocated") {
  Host host;
  for (int i = 0; i < 20; ++i) host.Round();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) host.Round();
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(before > 0);
  CHECK(host.ended() > 10'000);
}

}  // namespace
}  // namespace takt
