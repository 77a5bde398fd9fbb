// The parts of a scheduler. Each part uses only those declared before it.
#ifndef TAKT_SCHEDULER_PARTS_H_
#define TAKT_SCHEDULER_PARTS_H_

#include <cstddef>

#include "takt/scheduler/faults.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/turns.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/paused_requests.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/row_room.h"
#include "takt/scheduler/standing.h"
#include "takt/scheduler/rows.h"
#include "takt/scheduler/new_rows.h"
#include "takt/scheduler/oracle_questions.h"
#include "takt/scheduler/admission.h"
#include "takt/scheduler/admission_walk.h"
#include "takt/scheduler/idle.h"
#include "takt/scheduler/results.h"
#include "takt/scheduler/events.h"
#include "takt/scheduler/kv_events.h"
#include "takt/scheduler/output_reserve.h"

namespace takt::internal {

// The parts refer to each other, so a move is impossible.
struct Parts {
  Parts(const SchedulerOptions& options, PolicyPort& policies, KvOracle* oracle_of_host, std::size_t most_entries)
      : state(options, policies, most_entries), kv(state, oracle_of_host) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  EngineState state;
  Faults faults{state};
  Kv kv;
  Ceilings ceilings{state, kv};
  OutputReserve reserve{state, kv};
  Gate gate{state, kv};
  SearchMemory memory{state, kv, gate};
  Turns turns{state, kv, gate};
  Prefixes prefixes{state, kv, gate};
  RestingKv resting{state, kv, memory, gate, turns};
  PausedRequests pauses{state, kv, resting};
  Victims victims{state};
  Ranks ranks{state, kv, turns, prefixes, pauses, victims};
  Lives lives{state, kv, memory, gate, turns, prefixes, resting, pauses, victims, ranks};
  Entries entries{state, kv};
  Displacing displacing{state, kv, reserve, victims, lives, entries};
  RowRoom room{state, kv, resting, victims, lives, entries, displacing};
  Standing standing{state, kv};
  Rows rows{state, kv, lives, entries, room, standing};
  NewRows new_rows{state, kv, turns, prefixes, resting, victims, lives, entries};
  OracleQuestions questions{state, kv, lives, entries, new_rows};
  Admission admission{state, kv, reserve, gate, prefixes, lives, new_rows, questions};
  Passing passing{state, kv, prefixes};
  AdmissionWalk walk{state,   kv,    memory,     gate,      prefixes,  resting,
                     victims, ranks, displacing, questions, admission, passing};
  IdlePlans idle{state, kv, prefixes, resting, victims, lives, displacing, walk};
  Results results{state, faults, kv, prefixes, ranks, lives};
  KvEvents kv_events{state, faults, kv, memory, prefixes, resting, lives};
  Events events{state, faults, kv, memory, turns, resting, pauses, ranks, lives, kv_events};
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PARTS_H_
