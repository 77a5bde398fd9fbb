// A policy that is chosen at run time, by its name: ./policy_by_name "aged(sjf)". Explain returns a request's key and
// position.
#include <cstdio>
#include <utility>

#include "takt/policy/registry.h"
#include "takt/scheduler.h"

int main(int argc, char** argv) {
  auto policy = takt::MakePolicy(argc > 1 ? argv[1] : "sjf");
  if (!policy.ok()) return std::puts(policy.status().ToString().c_str()), 1;
  auto scheduler = takt::Scheduler::Create({.kv_blocks = {1000}}, *std::move(policy));
  if (!scheduler.ok()) return std::puts(scheduler.status().ToString().c_str()), 1;

  for (std::uint64_t id = 1; id <= 3; ++id) {
    takt::Request request{.id = {id}, .prompt_tokens = {100}};
    request.output_tokens = takt::Estimate::Exact(static_cast<double>(400 - 100 * id));
    scheduler->On(takt::Arrived{request}, {});
  }
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const takt::Explanation e = scheduler->Explain({id});
    std::printf("request %d: key %g, %d before it\n", static_cast<int>(id), e.key.key, static_cast<int>(e.ahead));
  }
}
