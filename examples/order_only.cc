// The order alone: a host that keeps admission and memory to itself asks only who comes first.
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

  std::vector<takt::RequestId> first;
  for (int iteration = 1; !queue.empty(); ++iteration) {
    queue.TopK(2, now, first);  // what the engine has room for
    queue.EndIteration(first);
    for (takt::RequestId picked : first) {
      std::printf("iteration %d runs request %d\n", iteration, static_cast<int>(picked.value));
      queue.Erase(picked);  // it has finished
    }
  }
}
