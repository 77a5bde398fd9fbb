// A router allocates nothing after warm-up. The test counts calls of operator new.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "catch.h"
#include "counting_new.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

// 40 requests are alive, at most 16 of them on instances. All requests on instances end after each Place.
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

TEST_CASE("a router allocates nothing after warm-up") {
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
