// All headers that a host needs: scheduler, router, inbox, named policies, and the log for replays. Include single
// headers to reduce compile time.
#ifndef TAKT_TAKT_H_
#define TAKT_TAKT_H_

#include "takt/cascade_router.h"
#include "takt/inbox.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/queue/ranker.h"
#include "takt/queue/waiting_queue.h"
#include "takt/record.h"
#include "takt/router.h"
#include "takt/scheduler.h"
#include "takt/version.h"

#endif  // TAKT_TAKT_H_
