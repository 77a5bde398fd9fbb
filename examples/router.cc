// A router before two engines, one of which fails and returns: its requests are placed again, each once.
#include <cstdio>

#include "takt/placement/least_loaded.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace {

using namespace takt;

using FcfsRouter = BasicRouter<Fcfs, LeastLoaded>;

void PlaceAll(FcfsRouter& router, TimePoint now) {
  for (const Placement& p : router.Place(now)) {  // here a host hands the request to that engine
    std::printf("%3.0f s  request %d -> instance %d\n", ToSeconds(now), static_cast<int>(p.request.value),
                static_cast<int>(p.instance.value));
  }
  std::printf("%3.0f s  %d waiting here\n", ToSeconds(now), static_cast<int>(router.waiting()));
}

}  // namespace

int main() {
  auto router = FcfsRouter::Create({}, Fcfs{}, LeastLoaded{});
  if (!router.ok()) return 1;

  TimePoint now{};  // the host's clock; takt reads none
  for (std::uint64_t id = 1; id <= 2; ++id) router->On(InstanceUp{{.id = {id}, .capacity = 3}}, now);
  for (std::uint64_t id = 1; id <= 6; ++id) router->On(Arrived{{.id = {id}, .prompt_tokens = {100}}}, now);
  PlaceAll(*router, now);

  now += std::chrono::seconds(1);
  router->On(RequestEnded{.request = {1}, .instance = {1}}, now);
  router->On(InstanceDown{{2}}, now);  // requests 2, 4 and 6 were there; instance 1 has room for one
  PlaceAll(*router, now);

  now += std::chrono::seconds(1);
  router->On(InstanceUp{{.id = {2}, .capacity = 3}}, now);
  PlaceAll(*router, now);
}
