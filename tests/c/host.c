// The smallest host in C. Two requests are served, and a request that can never fit fails.
#include <stdio.h>
#include "takt/c/takt.h"

int main(void) {
  takt_scheduler_options options;
  takt_scheduler_options_init(&options, sizeof options);
  options.policy = "fcfs", options.kv_blocks = 64;  // of 16 tokens
  takt_error error;
  takt_error_init(&error, sizeof error);
  takt_scheduler* scheduler;
  if (takt_scheduler_create(&options, &scheduler, &error) != TAKT_OK) return fprintf(stderr, "%s\n", error.text), 1;

  for (int id = 1; id <= 3; ++id) {
    takt_request request;
    takt_request_init(&request, sizeof request);
    request.id = (uint64_t)id, request.prompt_tokens = id < 3 ? 100 : 2000;
    takt_event event = {TAKT_EVENT_ARRIVED, 0, {0}};
    event.u.arrived.request = &request;
    if (takt_scheduler_on(scheduler, &event, 1, 0) != TAKT_OK) return 1;
  }

  takt_row_result rows[8];
  static takt_plan plan;  // zero
  plan.struct_size = sizeof plan;
  size_t n = 0, left = 3;
  for (int64_t now = 0; left > 0; now += 10000000) {
    if (takt_scheduler_step(scheduler, n > 0 ? plan.id : 0, rows, n, 0, now, NULL, &plan, NULL, 0) != TAKT_OK) return 1;
    for (n = 0; n < plan.n_run; ++n) {  // here an engine computes
      const takt_plan_entry* entry = &plan.run[n];
      rows[n].request = entry->request, rows[n].lane = entry->lane, rows[n].drafts = 0;
      rows[n].tokens = (entry->flags & TAKT_ENTRY_SAMPLES) != 0;
      rows[n].flags = entry->position + entry->tokens == 103 ? (uint8_t)TAKT_ROW_FINISHED : 0;  // four new tokens
      printf("request %d: %d tokens from %d on\n", (int)entry->request, entry->tokens, entry->position);
    }
    for (size_t i = 0; i < plan.n_failed; ++i) printf("request %d fails\n", (int)plan.failed[i].request);
    left -= plan.n_released;
  }
  return takt_scheduler_destroy(scheduler) == TAKT_OK ? 0 : 1;
}
