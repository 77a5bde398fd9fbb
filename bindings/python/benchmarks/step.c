// The loop of benchmarks/step.py in C: 256 requests run, and in each step some end and as many arrive. Prints
// nanoseconds per step, one line per round.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "takt/c/takt.h"

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int longer(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  const int running = atoi(argv[1]), steps = atoi(argv[2]), rounds = atoi(argv[3]), by_exception = atoi(argv[4]);
  const int life = argc > 5 ? atoi(argv[5]) : 1000;
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.policy = "sjf", options.kv_blocks = 1 << 22, options.max_running = running;
  takt_scheduler* scheduler;
  if (takt_scheduler_create(&options, &scheduler, NULL) != TAKT_OK) return 1;
  takt_limits limits;
  takt_limits_init(&limits, sizeof limits);
  limits.tokens = 8192, limits.max_seqs = running;
  takt_row_result* rows = calloc((size_t)running, sizeof *rows);
  takt_plan_entry* run = calloc((size_t)running, sizeof *run);
  takt_plan plan;
  memset(&plan, 0, sizeof plan);
  plan.struct_size = sizeof plan;
  takt_request request;
  takt_request_init(&request, sizeof request);
  request.prompt_tokens = 32;
  takt_event event;
  memset(&event, 0, sizeof event);
  event.type = TAKT_EVENT_ARRIVED, event.u.arrived.request = &request;
  double* took = calloc((size_t)steps, sizeof *took);
  uint64_t last = 0;
  int64_t now = 0;
  size_t n = 0;
  for (; last < (uint64_t)running;) request.id = ++last, takt_scheduler_on(scheduler, &event, 1, now);
  takt_scheduler_step(scheduler, 0, NULL, 0, 0, now, &limits, &plan, run, (size_t)running);
  for (int round = 0; round < rounds; ++round) {
    for (int step = 0; step < steps; ++step) {
      now += 10000000;
      const int ends = (step * running) / life != ((step + 1) * running) / life;  // running / life of them end per step
      const size_t end = (size_t)(step * 7919) % plan.n_run;
      const double begin = now_ns();
      n = 0;
      if (by_exception) {
        if (ends) {
          rows[0] = (takt_row_result){run[end].request, run[end].lane, 1, 0, TAKT_ROW_FINISHED};
          n = 1;
        }
      } else {
        for (; n < plan.n_run; ++n) {
          rows[n].request = run[n].request, rows[n].lane = run[n].lane;
          rows[n].tokens = (run[n].flags & TAKT_ENTRY_SAMPLES) != 0, rows[n].drafts = 0, rows[n].flags = 0;
        }
        if (ends) rows[end].flags = TAKT_ROW_FINISHED;
      }
      const takt_status status = takt_scheduler_step(scheduler, plan.id, rows, n, by_exception ? TAKT_REST_AS_PLANNED : 0,
                                                     now, &limits, &plan, run, (size_t)running);
      took[step] = now_ns() - begin;
      if (status != TAKT_OK) return 2;
      if (ends) request.id = ++last, takt_scheduler_on(scheduler, &event, 1, now);
    }
    qsort(took, (size_t)steps, sizeof *took, longer);
    double sum = 0;
    const int counted = steps * 19 / 20;
    for (int step = 0; step < counted; ++step) sum += took[step];
    printf("%.1f\n", sum / counted);
  }
  return 0;
}
