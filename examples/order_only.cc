// The order alone: a host that keeps its own admission and memory asks only which request comes first.
#include <cstdio>
#include <vector>

#include "takt/policy/aged.h"
#include "takt/policy/stjf.h"
#include "takt/queue/waiting_queue.h"

int main() {
  takt::WaitingQueue queue(takt::Aged(takt::Stjf{}));
  const takt::TimePoint now{};

  std::uint64_t id = 0;
  for (double tokens_left : {700, 200, 500, 100}) {
    takt::Request request;
    request.id = {++id};
    request.workflow_tokens_left = takt::Estimate::Exact(tokens_left);
    queue.Push(request, now);
  }

  for (int iteration = 1; !queue.empty(); ++iteration) {
    std::vector<decltype(queue)::Ran> ran;
    queue.Begin(now);
    while (takt::RequestId top = queue.Top()) {
      queue.Take(top);
      if (ran.size() == 2) break;  // the engine is full; a request that was taken but does not run keeps its place
      ran.push_back({top});
    }
    queue.End(ran, now);
    for (const auto& r : ran) {
      std::printf("iteration %d runs request %d\n", iteration, static_cast<int>(r.request.value));
      queue.Erase(r.request);  // it has finished
    }
  }
}
