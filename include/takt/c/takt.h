// The C interface of takt: a scheduler for one engine, a router before several, predictions for both,
// and the log that replays.
//
// The header is C11, and C++ with or without exceptions. The library is libtakt_c.so.0. A host of
// 40 lines is tests/c/host.c.
//
// Version 0 may change until hosts in other languages stand on it. From version 1 on structs only
// grow at their end, functions and numbers only come, and none changes its meaning.
//
// Structs. Those that begin with struct_size may grow. The caller's size says what the caller knows
//   of them: what is missing has its default, and what this library does not know must be zero (else
//   TAKT_E_SIZE). A function takt_..._init(&x, sizeof x) fills in the defaults. Structs that only
//   leave the library need nothing but struct_size. Elements of arrays have no struct_size and never
//   change. What is called `reserved` must be zero (else TAKT_E_INVALID).
// Arrays. A pointer and a number of elements. The pointer may be NULL where the number is 0.
// Errors. A status other than TAKT_OK means that nothing has happened. What is wrong with options is
//   told in a takt_error of the caller's, which may be NULL. Facts about requests that are not there
//   are no errors: they are counted in the statistics, and ignored.
// Memory. What is handed in is copied. What is handed out belongs to the handle, as long as each
//   function says. After warm-up, these alone allocate: what brings prefix hashes or scores of models
//   (arrivals, keys, scores of instances), workflows and their stages, an instance that comes up, a
//   policy, an epoch or retention that is set, an id that takt_ids or a class that a tool profile has not
//   met, and more than was ever there at once (requests, rows, events in an inbox, calls to predict). Where
//   memory ends at creation, or as retention is set, the status is TAKT_E_NOMEM; later, the process is aborted.
// Threads. One thread at a time may call a handle, and different handles have nothing to do with one
//   another. takt_inbox_push alone may be called by any thread at any time, and alone may wait: for a
//   lock, which is held for the time of one move. A callback may not call the handle that calls it
//   (TAKT_E_BUSY).
// Handles. A handle that has been destroyed must not be used. Builds with assertions keep its first
//   words, and answer TAKT_E_HANDLE; other builds do so as far as they can tell. To destroy NULL is
//   fine.
// Time. int64_t nanoseconds of the host's clock, which takt never reads.
// Ids. uint64_t, the host's choice; 0 is none.
#ifndef TAKT_C_TAKT_H_
#define TAKT_C_TAKT_H_

#include <stddef.h>
#include <stdint.h>

#include "takt/c/model.h"

#define TAKT_ABI_VERSION 0u

#if defined(_WIN32)
#ifdef TAKT_C_BUILD
#define TAKT_API __declspec(dllexport)
#else
#define TAKT_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define TAKT_API __attribute__((visibility("default")))
#else
#define TAKT_API
#endif

#ifdef __cplusplus
#define TAKT_NOEXCEPT noexcept
extern "C" {
#else
#define TAKT_NOEXCEPT
#endif

// ---- common ---------------------------------------------------------------------------------------------------------

typedef int32_t takt_status;
enum {
  TAKT_OK = 0,
  TAKT_E_INVALID = 1,  // a value that cannot be meant
  TAKT_E_NULL = 2,  // a pointer that must not be NULL
  TAKT_E_SIZE = 3,  // struct_size: not set, or what this library does not know is not zero
  TAKT_E_HANDLE = 4,  // not a handle of this kind, or not any more
  TAKT_E_BUSY = 5,  // a call from within a callback of the same handle
  TAKT_E_NOMEM = 6,  // memory has ended
  TAKT_E_CORRUPT = 7  // a damaged log; counts inside that contradict one another
};

typedef struct takt_error {
  uint32_t struct_size;
  takt_status code;
  char text[504];  // for people, one fault a line; ends with a zero, cut off where it is longer
} takt_error;

#define TAKT_NEVER INT64_MAX  // a time that never comes; of a duration or a bound: none
#define TAKT_UNSET INT64_MIN  // a time that is not told
#define TAKT_UNBOUNDED INT32_MAX  // of a limit

TAKT_API uint32_t takt_abi_version(void) TAKT_NOEXCEPT;
TAKT_API const char* takt_version(void) TAKT_NOEXCEPT;  // "0.1.0"
TAKT_API const char* takt_status_name(takt_status status) TAKT_NOEXCEPT;  // "TAKT_E_SIZE"
TAKT_API void takt_error_init(takt_error* error, size_t size) TAKT_NOEXCEPT;

// A counter since the creation of its handle: docs/reference/stats.md. Those of a kind of handle are many, at any
// index. takt_..._stats copies the first n, and returns how many there are, or 0 where the handle is none.
typedef struct takt_stat {
  const char* name;  // stays for ever
  uint64_t value;
} takt_stat;

// ---- faults ---------------------------------------------------------------------------------------------------------

// The last thing that the host said and that cannot be: nothing of it was believed. A count that is another after a
// call says that the call ignored something.
typedef struct takt_fault {
  uint32_t struct_size;
  uint32_t kind;
  uint64_t count;  // so far, with this one: 0 in a sound host
  uint64_t step;  // whose result it was in; of others, the last that was planned
  uint64_t request;  // that it names; 0: none
  int64_t at;  // of the call [ns]
  int64_t said, expected;  // an `expected` below 0: nothing would do
  uint32_t lane;  // that the row names; UINT32_MAX: it is no row
  uint32_t reserved;
} takt_fault;

// ---- requests, instances and workflows: takt/c/model.h --------------------------------------------------------------

TAKT_API void takt_request_init(takt_request* request, size_t size) TAKT_NOEXCEPT;
TAKT_API void takt_instance_init(takt_instance* instance, size_t size) TAKT_NOEXCEPT;
TAKT_API void takt_workflow_init(takt_workflow* workflow, size_t size) TAKT_NOEXCEPT;

// What takt_plan.dropped and host_chunks say of a hash with a salt.
TAKT_API uint64_t takt_salted_hash(uint64_t hash, uint64_t salt) TAKT_NOEXCEPT;

// ---- keys of the host's own -----------------------------------------------------------------------------------------

// What is known of a request when its key is read.
typedef struct takt_request_state {
  uint32_t struct_size;  // this library's
  uint32_t has_run;  // 1: a step has made progress for it
  const takt_request* request;  // as revised; its times are set, and estimates that cannot be meant are unknown
  int64_t enqueued;  // when it last joined those that wait
  int32_t generated;  // output so far, per sequence
  int32_t returned;  // tokens that tools have added to its context
  int32_t computed;  // of its context, with KV on the GPU or in the host's memory, when it last joined
  uint32_t reserved;
} takt_request_state;

// An order that is the host's own: smaller keys are sooner, of equal ones what arrived first; NaN is last. A key is
// read when a request joins those that wait, at arrival and whenever it comes back, when it is revised, and when its
// order is new; never by a step. What the function is shown stays for the call, and the function may not call the
// handle that asks. Where no policy is named, the key alone orders; else the policy has it inside:
// "aged(custom,threshold=100)". A log says custom(NAME), and does not hold `scores`. It replays in C++, where it is
// given a policy of that spec (LogReplayOptions); takt_replay says which one is missing.
typedef struct takt_key {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;  // 1 to 64 letters, digits and _
  void* context;
  double (*key)(void* context, const takt_request_state* state);
} takt_key;

TAKT_API void takt_key_init(takt_key* key, size_t size) TAKT_NOEXCEPT;

// ---- tables from slow work ------------------------------------------------------------------------------------------

enum {  // takt_epoch.told: what holds from here on; the rest stays as it was
  TAKT_EPOCH_AGENT_RANKS = 1,
  TAKT_EPOCH_ALPHA = 2
};

// What learning and tuning beside the loop have found, for the policies and placements that go by it.
typedef struct takt_epoch {
  uint32_t struct_size;
  uint32_t told;
  const takt_agent_rank* ranks;  // each agent once, in any order
  size_t n_ranks;
  takt_agent_rank otherwise;  // of agents that are not among them
  double alpha;  // of workload_balance: 0 to 1
} takt_epoch;

TAKT_API void takt_epoch_init(takt_epoch* epoch, size_t size) TAKT_NOEXCEPT;

// ---- steps ----------------------------------------------------------------------------------------------------------

TAKT_API void takt_limits_init(takt_limits* limits, size_t size) TAKT_NOEXCEPT;

// What the next iteration runs. The arrays belong to the scheduler. They stay until this plan's commit, those of a plan
// with n_run 0 until the next plan.
typedef struct takt_plan {
  uint32_t struct_size;
  uint32_t idle;
  uint64_t id;  // for the commit; a plan with n_run 0 needs none
  const takt_plan_entry* run;
  size_t n_run;
  const takt_move* moves;
  size_t n_moves;
  const takt_preemption* preempted;
  size_t n_preempted;
  const takt_failure* failed;  // requests that the host fails towards their clients
  size_t n_failed;
  const uint64_t* released;  // requests that ended, and that no step or move in flight names: forget them
  size_t n_released;
  int64_t wake_at;  // without an event before, ask again then
  int32_t tokens;  // of all entries, drafts included
  uint32_t reserved;
  const takt_dropped_prefix* dropped;
  size_t n_dropped;
  const takt_cache_hint* hints;  // for a host that keeps its cache by itself (TAKT_KV_MODE_ORACLE), once told of turns
  size_t n_hints;
  const takt_host_chunk* host_chunks;
  size_t n_host_chunks;
} takt_plan;

// ---- the scheduler --------------------------------------------------------------------------------------------------

typedef struct takt_scheduler takt_scheduler;

enum { TAKT_SHED_NEWEST = 0, TAKT_SHED_WORST = 1 };
enum { TAKT_ORDER_RUNNING_FIRST = 0, TAKT_ORDER_PREFILL_FIRST = 1 };
enum { TAKT_PREEMPT_OFF = 0, TAKT_PREEMPT_ON_MEMORY = 1, TAKT_PREEMPT_BY_RANK = 2 };
enum { TAKT_KV_MODE_NONE = 0, TAKT_KV_MODE_LEDGER = 1, TAKT_KV_MODE_ORACLE = 2 };

typedef struct takt_kv_snapshot {
  int32_t total;  // blocks of an empty cache, for "can never fit"
  int32_t free;  // usable now
  int32_t pending;  // released, and usable once TAKT_EVENT_KV_FREED is told
  uint32_t reserved;
} takt_kv_snapshot;

// A question about a waiting request: how much of its prompt does the host's prefix cache hold now?
typedef struct takt_kv_hit {
  uint64_t request;
  const uint64_t* prefix_hashes;  // as they were told; or NULL
  size_t n_prefix_hashes;
  int32_t prefix_block_tokens;
  int32_t prompt_tokens;
  int32_t tokens;  // the answer
  uint32_t reserved;
} takt_kv_hit;

enum {  // takt_kv_wish.refusal
  TAKT_KV_REFUSED_FOR_NOW = 0,  // it keeps what it has, is left out of this plan, and is asked for again
  TAKT_KV_REFUSED_FOR_EVER = 1  // it fails: TAKT_FAIL_NEVER_FITS where it does not run yet, else TAKT_FAIL_KV_EXHAUSTED
};

// A wish of one plan: whole blocks for `want` tokens of context where blocks for `have` are held; of several sequences,
// all together.
typedef struct takt_kv_wish {
  uint64_t request;
  int32_t have;
  int32_t want;
  uint32_t admission;  // 1: the request does not run yet
  uint32_t granted;  // the answer: 1: all of it; 0: nothing
  uint32_t refusal;  // and, where it is not granted, TAKT_KV_REFUSED_...
  uint32_t reserved;
} takt_kv_wish;

// KV memory that the host counts: functions that the scheduler calls from within its creation, from within takt_..._on,
// _take, _plan, _commit, _step, _set_policy and _kv, and never after its end. Each gets `context`. What they get is
// theirs during the call. docs/howto/embedding.md tells when each is called.
typedef struct takt_kv_oracle {
  uint32_t struct_size;
  int32_t block_tokens;  // granularity of wishes: 1 to 2^20
  void* context;
  // At most once a call of the scheduler's, and once more after each reserve or release.
  void (*snapshot)(void* context, takt_kv_snapshot* snapshot);
  // Sets `tokens` of each, which is 0; NULL: there is no prefix cache.
  void (*cached)(void* context, takt_kv_hit* hits, size_t n);
  // Sets `granted` of each, which is 0. The most important first; all together fit into what is free by the snapshot.
  void (*reserve)(void* context, uint64_t step, takt_kv_wish* wishes, size_t n);
  // Takes back all that a request holds on the GPU. `action`: TAKT_KV_DROP, or TAKT_KV_OUT where its KV has been moved
  // to the host's memory. Returns the blocks that are usable now; TAKT_EVENT_KV_FREED tells of the others.
  int32_t (*release)(void* context, uint64_t request, uint32_t action);
} takt_kv_oracle;

TAKT_API void takt_kv_oracle_init(takt_kv_oracle* oracle, size_t size) TAKT_NOEXCEPT;

// Takes n bytes of the log that follow those before.
typedef void (*takt_sink)(void* context, const void* bytes, size_t n);

// docs/howto/embedding.md tells what each does.
typedef struct takt_scheduler_options {
  uint32_t struct_size;
  int32_t max_running;  // rows for running requests
  int64_t max_waiting;  // so many may wait that have never run; the others are shed. TAKT_NEVER: no bound
  int64_t reserve_requests;  // storage made ready at creation
  uint32_t shed;  // TAKT_SHED_...
  uint32_t order;  // TAKT_ORDER_...
  uint32_t preempt;  // TAKT_PREEMPT_...
  uint32_t preempt_action;  // TAKT_KV_DROP: compute again; TAKT_KV_OUT: swap while the host's memory has room
  double preempt_margin;  // TAKT_PREEMPT_BY_RANK: a waiting key must be smaller by more than this
  uint32_t kv;  // TAKT_KV_MODE_...
  int32_t kv_block_tokens;
  int32_t kv_blocks;  // size of the cache
  int32_t cpu_blocks;  // host memory for swapped KV, and for prefixes
  double kv_watermark;  // share of the cache that admissions leave free
  uint32_t prefix_cache;  // 1: keep finished prefixes, least recently used out first
  int32_t admission_window;
  uint64_t first_step;  // number of the first plan
  uint64_t hash_seed;
  int32_t max_step_tokens;  // the largest step that the host will ever allow; 0: not known
  int32_t max_step_seqs;
  const char* policy;  // "aged(stjf,threshold=100)"; NULL: boosted_footprint
  const char* pause;  // "infercept(...)"; NULL: KV is kept during tool calls
  takt_sink record;  // takes the log, from within calls of the scheduler; NULL: nothing is recorded
  void* record_context;
  size_t record_flush_bytes;  // the sink is called when so much has come together
  uint32_t record_plans;  // 1: whole plans instead of their digests
  uint32_t reserved;
  const takt_kv_oracle* oracle;  // TAKT_KV_MODE_ORACLE: who counts; it is copied. NULL for the other modes
  const takt_key* key;  // of the host's own; it is copied. NULL: none
  double pin_share;  // of the cache, that one tenant's workflows may have pinned
  int32_t prefix_cpu_blocks;  // of cpu_blocks, so many may keep copies of prefixes; 0: none
  int32_t prefix_wait;  // maximum steps without progress that a request waits for a prefix that another computes
} takt_scheduler_options;

TAKT_API void takt_scheduler_options_init(takt_scheduler_options* options, size_t size) TAKT_NOEXCEPT;

// TAKT_E_INVALID names every option at fault.
TAKT_API takt_status takt_scheduler_create(const takt_scheduler_options* options, takt_scheduler** scheduler,
                                           takt_error* error) TAKT_NOEXCEPT;
// Does not flush the log.
TAKT_API takt_status takt_scheduler_destroy(takt_scheduler* scheduler) TAKT_NOEXCEPT;

// In their order. Where one of them is malformed, none happens.
TAKT_API takt_status takt_scheduler_on(takt_scheduler* scheduler, const takt_event* events, size_t n,
                                       int64_t now) TAKT_NOEXCEPT;
// `limits` may be NULL: the defaults.
TAKT_API takt_status takt_scheduler_plan(takt_scheduler* scheduler, int64_t now, const takt_limits* limits,
                                         takt_plan* plan) TAKT_NOEXCEPT;

enum {  // flags of takt_scheduler_commit and takt_scheduler_step
  TAKT_REST_AS_PLANNED = 1  // a commit by exception
};
// Rows in any order, those in the order of the plan are read fastest. An absent row made no progress; or, by exception,
// it computed what its entry says, with one token per sequence where it samples, and has no drafts: then only what is
// otherwise needs a row.
TAKT_API takt_status takt_scheduler_commit(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows,
                                           size_t n, uint32_t flags, int64_t now) TAKT_NOEXCEPT;
// Commit, where step is not 0, and then plan, in one call. Where run_out is not NULL, the first run_cap entries of the
// plan are copied there; plan->run names all of them. max_running entries are always enough.
TAKT_API takt_status takt_scheduler_step(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows,
                                         size_t n, uint32_t flags, int64_t now, const takt_limits* limits,
                                         takt_plan* plan, takt_plan_entry* run_out, size_t run_cap) TAKT_NOEXCEPT;

// Another order from here on; allocates. `policy` and `key` as in takt_scheduler_options.
TAKT_API takt_status takt_scheduler_set_policy(takt_scheduler* scheduler, const char* policy, const takt_key* key,
                                               int64_t now, takt_error* error) TAKT_NOEXCEPT;
// What turns of workflows leave in the prefix cache is held by `retention` ("hold_value", NULL: lru) from here on, told
// by TAKT_EVENT_TURN_ENDED and TAKT_EVENT_WORKFLOW_ENDED, and what would take it asks `gate` ("price", NULL: none).
// Never called, both are takt's own from the first of these events on. A token of prefill behind d others takes
// alpha_ms [ms] and d times beta_ns [ns], for what the texts do not say; both 0: not told. TAKT_E_INVALID: a text or a
// number that cannot be meant; another kv than TAKT_KV_MODE_LEDGER, or no prefix_cache. TAKT_E_NOMEM: as before.
TAKT_API takt_status takt_scheduler_set_retention(takt_scheduler* scheduler, const char* retention, const char* gate,
                                                  double alpha_ms, double beta_ns, takt_error* error) TAKT_NOEXCEPT;
// Of TAKT_KV_MODE_ORACLE: plans bear hints for the host's own cache from here on, for a prefill of this pace; 0 and 0:
// the default's. Never called, they do from the first event that tells of turns on.
TAKT_API takt_status takt_scheduler_set_hints(takt_scheduler* scheduler, double alpha_ms, double beta_ns,
                                              takt_error* error) TAKT_NOEXCEPT;
// TAKT_E_INVALID: a number that cannot be meant, or an agent twice.
TAKT_API takt_status takt_scheduler_epoch(takt_scheduler* scheduler, const takt_epoch* epoch,
                                          int64_t now) TAKT_NOEXCEPT;
// What takt_scheduler_create makes the same of. Valid until the policy is another; NULL where the handle is none.
TAKT_API const char* takt_scheduler_policy(const takt_scheduler* scheduler) TAKT_NOEXCEPT;
// What the policy has learnt of lengths that it was not told, and of what predictions that it was told come true to, as
// numbers that mean the same on any machine: how many they are (0: it learns nothing), of which the first n are
// written.
TAKT_API size_t takt_scheduler_learnt(const takt_scheduler* scheduler, uint64_t* numbers, size_t n) TAKT_NOEXCEPT;
// The policy goes on from what another has learnt. TAKT_E_INVALID, and as before: other numbers than those; a policy
// that learns nothing; while there are requests, or a log is recorded, which would not replay.
TAKT_API takt_status takt_scheduler_load_learnt(takt_scheduler* scheduler, const uint64_t* numbers, size_t n,
                                                int64_t now, takt_error* error) TAKT_NOEXCEPT;

TAKT_API takt_status takt_scheduler_last_fault(const takt_scheduler* scheduler, takt_fault* fault) TAKT_NOEXCEPT;
TAKT_API size_t takt_scheduler_stats(const takt_scheduler* scheduler, takt_stat* stats, size_t n) TAKT_NOEXCEPT;

typedef struct takt_scheduler_counts {
  uint32_t struct_size;
  uint32_t draining;
  int64_t alive, waiting, running, paused, blocked;  // requests, now
} takt_scheduler_counts;
TAKT_API takt_status takt_scheduler_count(const takt_scheduler* scheduler, takt_scheduler_counts* counts) TAKT_NOEXCEPT;

typedef struct takt_kv_use {
  uint32_t struct_size;
  int32_t total, used, free;  // blocks
  int32_t cached;  // idle prefixes, contained in free
  int32_t pending;  // free soon
  int32_t cpu_total, cpu_used;  // of the host's memory
  int32_t cpu_cached;  // of it, copies of prefixes, not contained in cpu_used
  uint32_t reserved;
} takt_kv_use;
TAKT_API takt_status takt_scheduler_kv(const takt_scheduler* scheduler, takt_kv_use* use) TAKT_NOEXCEPT;

enum {  // takt_explanation.status
  TAKT_REQUEST_UNKNOWN = 0,
  TAKT_REQUEST_WAITING = 1,
  TAKT_REQUEST_RUNNING = 2,
  TAKT_REQUEST_PAUSED = 3,  // in a tool call
  TAKT_REQUEST_BLOCKED = 4,
  TAKT_REQUEST_DEAD = 5  // ended, but a step or a move in flight names it
};
enum {  // takt_explanation.waits_for
  TAKT_WAITS_FOR_NOTHING = 0,
  TAKT_WAITS_FOR_ITS_TURN = 1,
  TAKT_WAITS_FOR_SEQUENCES = 2,
  TAKT_WAITS_FOR_KV = 3,
  TAKT_WAITS_FOR_BUDGET = 4,
  TAKT_WAITS_FOR_ADAPTER = 5,
  TAKT_WAITS_FOR_MOVE = 6,
  TAKT_WAITS_FOR_TOOL = 7,
  TAKT_WAITS_FOR_UNBLOCK = 8,
  TAKT_WAITS_FOR_DECLINED = 9,
  TAKT_WAITS_FOR_GATE = 10,  // memory that it would take is worth more to workflows that will come back
  TAKT_WAITS_FOR_PREFIX = 11  // a running request computes a prefix of its prompt
};

typedef struct takt_key_part {
  char name[24];
  double value;
} takt_key_part;

// Where a request stands, and why. For people: found by looking, at O(waiting).
typedef struct takt_explanation {
  uint32_t struct_size;
  uint32_t status;
  uint32_t waits_for;
  uint32_t promoted;  // 1: by aging, before all that are not
  double key;  // its rank; smaller is sooner
  int64_t ahead;  // waiting requests before it
  int32_t known, computed, in_flight, generated;  // tokens
  int32_t kv_blocks, cpu_blocks;
  uint32_t n_parts;
  int32_t passed;  // requests let in before it while it lacked memory, or room in a step
  takt_key_part parts[12];  // what the key came from, where the policy tells
} takt_explanation;
TAKT_API takt_status takt_scheduler_explain(const takt_scheduler* scheduler, uint64_t request,
                                            takt_explanation* explanation) TAKT_NOEXCEPT;

// What a branch of a workflow has in the prefix cache between its turns, and what would become of it.
typedef struct takt_held {
  uint32_t struct_size;
  uint32_t its_class;  // 0: its last turn ended with nothing known, 1 a tool, 2 a user, 3 children, 4 to 11 a time
                       // told, 11 + n the tool n
  int32_t tokens;  // from the start of its context on; 0: it holds nothing
  int32_t own;  // of these, the last ones, which are in no other workflow's context
  int32_t turns;  // that have ended
  uint32_t awaited;  // 1: its next turn waits here; its blocks go last
  uint32_t in_use;  // 1: a request that runs uses it to its end; nothing of it can go
  int32_t ahead;  // blocks that would go before its first one
  int64_t since;  // end of its last turn
  double value;  // of its last block, to the retention policy; of hold_value: seconds of work saved per second held
  double price;  // the same of the block that would go next; 0: a dead one, or none could go
  uint64_t next;  // the workflow whose block would go next; 0: nobody's alone
  uint64_t next_branch;
  int64_t pinned_until;  // its blocks go after all that is not pinned; TAKT_UNSET: no pin
} takt_held;
// O(what could go).
TAKT_API takt_status takt_scheduler_explain_held(takt_scheduler* scheduler, uint64_t workflow, uint64_t branch,
                                                 takt_held* held) TAKT_NOEXCEPT;

// Counts everything anew, for tests. TAKT_E_CORRUPT says what contradicts itself.
TAKT_API takt_status takt_scheduler_check(const takt_scheduler* scheduler, takt_error* error) TAKT_NOEXCEPT;

// Hands the sink what it has not been given yet.
TAKT_API takt_status takt_scheduler_flush(takt_scheduler* scheduler) TAKT_NOEXCEPT;

// ---- the key of one request (L0) ------------------------------------------------------------------------------------

// For hosts that compare by themselves: no queue, no memory of requests.
typedef struct takt_ranker takt_ranker;

enum {  // how long a key is good
  TAKT_TRAIT_FIXED = 1,  // none of the others: as long as the request waits
  TAKT_TRAIT_TIMED = 2,  // it changes at times that the policy knows beforehand
  TAKT_TRAIT_MOVING = 4,  // every key moves with time
  TAKT_TRAIT_GROUPS = 8,  // requests are ordered by the keys of their groups first, which only a queue knows
  TAKT_TRAIT_LEARNS = 16,  // it may depend on what the policy was told before
  TAKT_TRAIT_PRESSURE = 32,  // goes by what keeps requests out, which only a queue or a scheduler tells it
  TAKT_TRAIT_AGES = 64  // what waits for long is promoted, which only a queue counts
};

// `policy` and `key` as in takt_scheduler_options.
TAKT_API takt_status takt_ranker_create(const char* policy, const takt_key* key, takt_ranker** ranker,
                                        takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_ranker_destroy(takt_ranker* ranker) TAKT_NOEXCEPT;
TAKT_API uint32_t takt_ranker_traits(const takt_ranker* ranker) TAKT_NOEXCEPT;  // 0 where the handle is none
// Of n requests, `stride` bytes apart: smaller is sooner, equal keys go by arrival, then by id. Never NaN. An estimate
// that cannot be meant reads as unknown; a request without a sequence is TAKT_E_INVALID.
TAKT_API takt_status takt_ranker_keys(takt_ranker* ranker, const takt_request* requests, size_t n, size_t stride,
                                      int64_t now, double* keys) TAKT_NOEXCEPT;

// ---- the order alone (L1) -------------------------------------------------------------------------------------------

// For hosts that keep admission and KV to themselves. An iteration: begin; top, and take or hold what it names, as
// often as the host likes; end, with what ran. A take is no admission: what is taken, and not named by end or given
// back by requeue before, waits as though nothing had happened. Requests may come, change and go at any time. What end
// names need not have been taken: begin, one list, off which the host reads its looks and takes, and end are the
// cheapest iteration (docs/howto/c.md).
typedef struct takt_queue takt_queue;

typedef struct takt_queue_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t reserve_requests;  // storage made ready at creation
  uint64_t hash_seed;
  const char* policy;  // as in takt_scheduler_options
  const takt_key* key;  // likewise
} takt_queue_options;

TAKT_API void takt_queue_options_init(takt_queue_options* options, size_t size) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_create(const takt_queue_options* options, takt_queue** queue,
                                       takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_destroy(takt_queue* queue) TAKT_NOEXCEPT;
TAKT_API const char* takt_queue_policy(const takt_queue* queue) TAKT_NOEXCEPT;
// As takt_scheduler_learnt and takt_scheduler_load_learnt; what waits keeps its place.
TAKT_API size_t takt_queue_learnt(const takt_queue* queue, uint64_t* numbers, size_t n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_load_learnt(takt_queue* queue, const uint64_t* numbers, size_t n,
                                            takt_error* error) TAKT_NOEXCEPT;
TAKT_API uint32_t takt_queue_traits(const takt_queue* queue) TAKT_NOEXCEPT;  // TAKT_TRAIT_..., as takt_ranker_traits

// What became of a call that names a request. Below 0: a takt_status, negated. Where it is neither TAKT_RESULT_DONE nor
// TAKT_RESULT_REQUEUED, nothing has changed.
typedef int32_t takt_result;
enum {
  TAKT_RESULT_DONE = 0,
  TAKT_RESULT_UNKNOWN = 1,  // no such request is here
  TAKT_RESULT_IN_USE = 2,  // the id is that of one which is here
  TAKT_RESULT_INVALID = 3,  // no id, or no sequence
  TAKT_RESULT_OUT_OF_PLACE = 4,  // it is not where the call expects it, or no iteration has begun
  TAKT_RESULT_ENDED = 5,
  TAKT_RESULT_REQUEUED = 6  // of takt_queue_put: it was known, and waits again
};
enum {  // where a request stands
  TAKT_PLACE_NONE = 0,
  TAKT_PLACE_WAITING = 1,
  TAKT_PLACE_TAKEN = 2,
  TAKT_PLACE_HELD = 3,
  TAKT_PLACE_RUNNING = 4,
  TAKT_PLACE_PAUSED = 5  // in a tool call
};

TAKT_API size_t takt_queue_size(const takt_queue* queue) TAKT_NOEXCEPT;  // requests in the order
TAKT_API takt_result takt_queue_place(const takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // TAKT_PLACE_...

TAKT_API takt_result takt_queue_push(takt_queue* queue, const takt_request* request, int64_t now) TAKT_NOEXCEPT;
// Push, or requeue where the request is known: TAKT_RESULT_DONE or TAKT_RESULT_REQUEUED. What is known of it stays.
TAKT_API takt_result takt_queue_put(takt_queue* queue, const takt_request* request, int64_t now) TAKT_NOEXCEPT;
// Its id says which; `told` (TAKT_TOLD_...) what holds from here on.
TAKT_API takt_result takt_queue_revise(takt_queue* queue, const takt_request* request, uint32_t told,
                                       int64_t now) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_erase(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // ended, or cancelled

TAKT_API takt_status takt_queue_begin(takt_queue* queue, int64_t now) TAKT_NOEXCEPT;
// A look. 1: *request is the first of the order; 0: none waits, and *request is 0; below 0: a takt_status, negated.
TAKT_API int32_t takt_queue_top(const takt_queue* queue, uint64_t* request) TAKT_NOEXCEPT;
// The first n of the order, best first, or as many as there are. Their number.
TAKT_API size_t takt_queue_list(const takt_queue* queue, uint64_t* requests, size_t n) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_take(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_hold(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // blocked, until requeue
TAKT_API takt_result takt_queue_pause(takt_queue* queue, uint64_t request, int64_t now) TAKT_NOEXCEPT;  // a tool call
// Waits again: taken, held, in a tool call, or preempted.
TAKT_API takt_result takt_queue_requeue(takt_queue* queue, uint64_t request, int64_t now) TAKT_NOEXCEPT;

// What kept the first of the queue out of an iteration, for policies that price resources.
typedef struct takt_pressure {
  uint32_t struct_size;
  uint32_t head;  // TAKT_WAITS_FOR_...; TAKT_WAITS_FOR_NOTHING: none was left waiting
  const takt_limits* limits;  // of the iteration; NULL: not told
  int32_t kv_tokens;  // size of the KV cache; 0: not told
  int32_t engines;  // that serve this queue
} takt_pressure;
TAKT_API void takt_pressure_init(takt_pressure* pressure, size_t size) TAKT_NOEXCEPT;

// `ran` names what the iteration took in, taken before, held or neither, and may name what ran already, for its tokens.
// *counted of them (may be NULL) run; the others are not here, or in a tool call. `pressure` may be NULL.
TAKT_API takt_status takt_queue_end(takt_queue* queue, const takt_ran* ran, size_t n, const takt_pressure* pressure,
                                    int64_t now, size_t* counted) TAKT_NOEXCEPT;
// What was computed in a step, where the host learns it after the end: for requests that run, or have run and lost
// their place meanwhile. *counted of them (may be NULL) are such. Each other request that runs has yielded
// `rest_output` tokens per sequence, so that only what went otherwise needs a name; what runs but was not in that step
// needs one, too, without tokens. With 0 nothing is said of the others.
TAKT_API takt_status takt_queue_computed(takt_queue* queue, const takt_ran* ran, size_t n, int32_t rest_output,
                                         size_t* counted) TAKT_NOEXCEPT;

// Which of them to preempt for `need` blocks, worst first; with a `beneficiary` that waits or was taken (0: none), only
// those that it outranks. None where all together would not free enough. The array stays until the next such call.
TAKT_API takt_status takt_queue_victims(takt_queue* queue, const takt_holding* holding, size_t n, int32_t need,
                                        uint64_t beneficiary, int64_t now, const uint64_t** victims,
                                        size_t* n_victims) TAKT_NOEXCEPT;

// ---- the router -----------------------------------------------------------------------------------------------------

typedef struct takt_router takt_router;

typedef struct takt_router_options {
  uint32_t struct_size;
  int32_t window;  // waiting requests looked at past the first one that must wait
  int64_t max_outstanding;  // requests per instance at once; TAKT_NEVER: no bound but the instance's
  int64_t reserve_requests;  // storage made ready at creation
  uint64_t hash_seed;
  uint32_t fail_unfit;  // 1: fail what is too large for every instance that is up
  uint32_t reserved;
  const char* policy;  // the order of what waits; NULL: fcfs
  const char* placement;  // "least_loaded(waiting_weight=2)"; NULL: least_loaded
  const takt_key* key;  // of the host's own; it is copied. NULL: none
} takt_router_options;

TAKT_API void takt_router_options_init(takt_router_options* options, size_t size) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_create(const takt_router_options* options, takt_router** router,
                                        takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_destroy(takt_router* router) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_on(takt_router* router, const takt_event* events, size_t n, int64_t now) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_epoch(takt_router* router, const takt_epoch* epoch, int64_t now) TAKT_NOEXCEPT;

// What goes where. The arrays belong to the router, and stay until its next call.
typedef struct takt_routing {
  uint32_t struct_size;
  uint32_t reserved;
  const takt_placement* placed;
  size_t n_placed;
  const takt_failure* failed;
  size_t n_failed;
  const takt_workflow_end* ended;
  size_t n_ended;
  const takt_workflow_fault* faults;
  size_t n_faults;
  int64_t wake_at;  // without an event before, place again then
} takt_routing;

TAKT_API takt_status takt_router_place(takt_router* router, int64_t now, takt_routing* routing) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_wake_at(const takt_router* router, int64_t* wake_at) TAKT_NOEXCEPT;
// What the placement gives each of these instances for a request that need not be known here: larger is better, NaN: no
// place now. *possible (may be NULL) of them are places. Places nothing. A request is read as by takt_ranker_keys.
TAKT_API takt_status takt_router_score(takt_router* router, const takt_request* request, const uint64_t* instances,
                                       size_t n, int64_t now, double* scores, size_t* possible) TAKT_NOEXCEPT;
// The host has picked: a request that waits here goes to this instance. TAKT_E_INVALID, and nothing changes, where it
// does not wait here or the instance is not up.
TAKT_API takt_status takt_router_place_at(takt_router* router, uint64_t request, uint64_t instance,
                                          int64_t now) TAKT_NOEXCEPT;
// 0: the request waits here, or is not alive.
TAKT_API takt_status takt_router_instance_of(const takt_router* router, uint64_t request,
                                             uint64_t* instance) TAKT_NOEXCEPT;

TAKT_API const char* takt_router_policy(const takt_router* router) TAKT_NOEXCEPT;
// What instances of one model, GPU and parallelism are called, and may name from here on. Told twice, it is the same.
TAKT_API takt_status takt_router_add_profile(takt_router* router, const char* name, uint64_t* profile) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_last_fault(const takt_router* router, takt_fault* fault) TAKT_NOEXCEPT;
TAKT_API size_t takt_router_stats(const takt_router* router, takt_stat* stats, size_t n) TAKT_NOEXCEPT;

typedef struct takt_router_counts {
  uint32_t struct_size;
  uint32_t instances;  // that are up
  int64_t alive, waiting;
  int64_t set_aside;  // of those that wait, too large for every instance that is up
} takt_router_counts;
TAKT_API takt_status takt_router_count(const takt_router* router, takt_router_counts* counts) TAKT_NOEXCEPT;

// ---- the inbox ------------------------------------------------------------------------------------------------------

// Events from many threads to the one that owns a scheduler or a router.
typedef struct takt_inbox takt_inbox;

enum { TAKT_INBOX_OF_SCHEDULER = 0, TAKT_INBOX_OF_ROUTER = 1 };

enum {  // of takt_inbox_push
  TAKT_PUSHED_FULL = 0,  // not taken
  TAKT_PUSHED_QUEUED = 1,  // taken, behind others
  TAKT_PUSHED_FIRST = 2  // taken, and the inbox was empty: the moment to wake a thread that sleeps
};

// `capacity` 0: unbounded.
TAKT_API takt_status takt_inbox_create(uint32_t kind, size_t capacity, takt_inbox** inbox,
                                       takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_inbox_destroy(takt_inbox* inbox) TAKT_NOEXCEPT;
// From any thread, also from within a callback; `pushed` may be NULL. Waits for a lock.
TAKT_API takt_status takt_inbox_push(takt_inbox* inbox, const takt_event* event, uint32_t* pushed) TAKT_NOEXCEPT;
// From the thread that owns the scheduler or the router: tells it what has come so far, in order. `n`, how many, may be
// NULL. The inbox may be pushed to meanwhile, and not drained or destroyed (TAKT_E_BUSY).
TAKT_API takt_status takt_scheduler_take(takt_scheduler* scheduler, takt_inbox* inbox, int64_t now,
                                         size_t* n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_take(takt_router* router, takt_inbox* inbox, int64_t now, size_t* n) TAKT_NOEXCEPT;

// ---- ids for names --------------------------------------------------------------------------------------------------

// For hosts whose requests, tools, agents or tenants have names: a counter gives each name an id. A released id never
// means another name.
typedef struct takt_ids takt_ids;

// `reserve`: names that storage is made ready for. `hash_seed` as in takt_scheduler_options.
TAKT_API takt_status takt_ids_create(int64_t reserve, uint64_t hash_seed, takt_ids** ids,
                                     takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_ids_destroy(takt_ids* ids) TAKT_NOEXCEPT;
// The id of n bytes; a new one where they have none, which allocates.
TAKT_API takt_status takt_ids_of(takt_ids* ids, const char* name, size_t n, uint64_t* id) TAKT_NOEXCEPT;
// *id is 0 where they have none.
TAKT_API takt_status takt_ids_find(const takt_ids* ids, const char* name, size_t n, uint64_t* id) TAKT_NOEXCEPT;
// *name is NULL where the id is nobody's. It stays until the release, and ends with a zero; `n` may be NULL.
TAKT_API takt_status takt_ids_name(const takt_ids* ids, uint64_t id, const char** name, size_t* n) TAKT_NOEXCEPT;
// TAKT_E_INVALID where the id is nobody's.
TAKT_API takt_status takt_ids_release(takt_ids* ids, uint64_t id) TAKT_NOEXCEPT;
TAKT_API size_t takt_ids_size(const takt_ids* ids) TAKT_NOEXCEPT;  // names that have one

// ---- predictions ----------------------------------------------------------------------------------------------------

// What a log of calls has taught about the next ones: tokens that are left, and who solves what. `takt train` writes it
// (docs/howto/prediction.md). Several handles may be made of the same bytes, for several threads.
typedef struct takt_predictor takt_predictor;

// What is known when a call begins. Names end with a zero. NULL, and a count below 0: not told.
typedef struct takt_call {
  uint32_t struct_size;
  int32_t calls_before;  // of its workflow
  const char* model;
  const char* kind;  // of workflow
  const char* stage;
  const char* text;  // of the prompt: n_text bytes
  size_t n_text;
  int32_t prompt_tokens;
  int32_t system_tokens;  // of the prompt
  int32_t user_tokens;  // of the prompt
  int32_t tokens_before;  // that the calls before have generated
  int32_t generated;  // by the call itself so far: what is predicted is the rest. Below 0: it has not begun
  uint32_t reserved;
} takt_call;
TAKT_API void takt_call_init(takt_call* call, size_t size) TAKT_NOEXCEPT;

// TAKT_E_INVALID: no predictor, or one of another version. TAKT_E_CORRUPT: damaged, or cut off.
TAKT_API takt_status takt_predictor_create(const void* bytes, size_t n, takt_predictor** predictor,
                                           takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_predictor_destroy(takt_predictor* predictor) TAKT_NOEXCEPT;
// The names of the models that it knows, in ascending order; NULL from their number on. As long as the handle.
TAKT_API const char* takt_predictor_model(const takt_predictor* predictor, size_t index) TAKT_NOEXCEPT;
// Of n calls, `stride` bytes apart; together is faster than one by one. tokens_left: output of this call and of all
// that follow in its workflow, unknown where the model is. solved: the probability that the model solves it, below 0
// where that is not known. Either may be NULL.
TAKT_API takt_status takt_predictor_predict(takt_predictor* predictor, const takt_call* calls, size_t n, size_t stride,
                                            takt_estimate* tokens_left, double* solved) TAKT_NOEXCEPT;

// What calls of tools are like, learnt as they return (docs/howto/tool_profile.md). Tools are named by ids, as in
// takt_next_call, whose expectations these are.
typedef struct takt_tool_profile takt_tool_profile;

typedef struct takt_tool_profile_options {
  uint32_t struct_size;
  uint32_t max_classes;  // of tools; calls of more are learnt from together
  int64_t window;  // calls: whenever a class has so many, what was learnt counts half; at least 2
  int64_t seed_weight;  // a seed counts as so many calls; 1 to window / 2
  double max_seconds;  // above 0: a longer call is taken as this long
  uint64_t hash_seed;
} takt_tool_profile_options;
TAKT_API void takt_tool_profile_options_init(takt_tool_profile_options* options, size_t size) TAKT_NOEXCEPT;

// What is expected of a class of tools, or told of it before its first call has returned. Spreads are standard
// deviations of single calls.
typedef struct takt_tool_expectation {
  uint32_t struct_size;
  uint32_t pooled;  // 1: of all classes, since this one is not known
  takt_estimate seconds, returned_tokens, tokens_before;  // a mean below 0: not known
  double seconds_spread, returned_spread, before_spread;
  int64_t observations;  // calls behind it that have returned; seeds do not count
} takt_tool_expectation;
TAKT_API void takt_tool_expectation_init(takt_tool_expectation* expectation, size_t size) TAKT_NOEXCEPT;

TAKT_API takt_status takt_tool_profile_create(const takt_tool_profile_options* options, takt_tool_profile** profile,
                                              takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_tool_profile_destroy(takt_tool_profile* profile) TAKT_NOEXCEPT;
// Tells means and spreads of a class that are known from elsewhere: from an expectation of before a restart, say.
// Quantiles are not read. TAKT_E_INVALID where there is no mean, or a number that is not finite, or no room.
TAKT_API takt_status takt_tool_profile_seed(takt_tool_profile* profile, uint64_t tool,
                                            const takt_tool_expectation* seed) TAKT_NOEXCEPT;
// Learns from all but those whose time cannot be meant; *counted (may be NULL) are the others. A new class allocates.
TAKT_API takt_status takt_tool_profile_observe(takt_tool_profile* profile, const takt_tool_call* calls, size_t n,
                                               size_t* counted) TAKT_NOEXCEPT;
TAKT_API takt_status takt_tool_profile_expect(const takt_tool_profile* profile, uint64_t tool,
                                              takt_tool_expectation* expectation) TAKT_NOEXCEPT;

// ---- the log --------------------------------------------------------------------------------------------------------

typedef struct takt_replay_report {
  uint32_t struct_size;
  uint32_t differs;  // 1: a plan did not come out again; the replay ends there
  uint32_t truncated;  // 1: the log ended in the middle of a record
  uint32_t reserved;
  int64_t events, plans, commits;
  int64_t plans_compared;
  uint64_t bytes;  // of the log that were replayed
  uint64_t different_step;  // where it differs
  int64_t different_at;
  char difference[256];
} takt_replay_report;

// Builds the scheduler of a log anew and does all again. TAKT_OK also where a plan differs. TAKT_E_INVALID: not a log,
// or made with what this library does not have. TAKT_E_CORRUPT: damaged.
// The first n_stats of the scheduler's counters at the end are copied, as by takt_scheduler_stats.
TAKT_API takt_status takt_replay(const void* bytes, size_t n, takt_replay_report* report, takt_stat* stats,
                                 size_t n_stats, takt_error* error) TAKT_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  // TAKT_C_TAKT_H_
