// Collects the transitions of a call in C memory, from which Go reads them after the call.
#ifndef TAKT_GO_WATCH_H_
#define TAKT_GO_WATCH_H_

#include <stdlib.h>

#include "takt/c/takt.h"

typedef struct takt_go_seen {
  takt_transition* at;
  size_t n, room;
} takt_go_seen;

// Appends a transition. Aborts if memory runs out, as takt does.
static void takt_go_moved(void* context, const takt_transition* transition) {
  takt_go_seen* seen = (takt_go_seen*)context;
  if (seen->n == seen->room) {
    seen->room = seen->room == 0 ? 64 : 2 * seen->room;
    seen->at = (takt_transition*)realloc(seen->at, seen->room * sizeof *seen->at);
    if (seen->at == NULL) abort();
  }
  seen->at[seen->n++] = *transition;
}

// Sets the observer of a router; `seen` NULL: none.
static takt_status takt_go_watch(takt_router* router, takt_go_seen* seen) {
  const takt_observer observer = {sizeof observer, 0, takt_go_moved, seen};
  return takt_router_watch(router, seen == NULL ? NULL : &observer);
}

#endif  // TAKT_GO_WATCH_H_
