// A host that plans and commits by two calls, as a host with overlapped steps does, by a clock of POSIX.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>
#include "takt/c/takt.h"

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(void) {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.policy = "sjf", options.kv_blocks = 64;
  takt_scheduler* scheduler;
  if (takt_scheduler_create(&options, &scheduler, NULL) != TAKT_OK) return 1;

  takt_request request;
  takt_request_init(&request, sizeof request);
  request.id = 1, request.prompt_tokens = 300;
  takt_event event = {TAKT_EVENT_ARRIVED, 0, {0}};
  event.u.arrived.request = &request;
  if (takt_scheduler_on(scheduler, &event, 1, now_ns()) != TAKT_OK) return 1;

  takt_limits limits;
  takt_limits_init(&limits, sizeof limits);
  limits.tokens = 256, limits.max_seqs = 8;
  takt_plan plan = {.struct_size = sizeof plan};
  for (int step = 0; step < 2; ++step) {
    if (takt_scheduler_plan(scheduler, now_ns(), &limits, &plan) != TAKT_OK) return 1;
    printf("step %d: %d tokens\n", step, plan.run[0].tokens);  // 256, then the other 44 and a new token
    if (takt_scheduler_commit(scheduler, plan.id, NULL, 0, TAKT_REST_AS_PLANNED, now_ns()) != TAKT_OK) return 1;
  }
  if (plan.run[0].tokens != 44) return 1;
  return takt_scheduler_destroy(scheduler) == TAKT_OK ? 0 : 1;
}
