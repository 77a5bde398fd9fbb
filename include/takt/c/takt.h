// The C interface of takt: a scheduler for one engine, a router for several engines, predictions for both, and logs
// that can be replayed.
//
// The header compiles as C11, and as C++ with or without exceptions. The library is libtakt_c.so.0. A host of 40 lines
// is tests/c/host.c.
//
// Version 0 may change. From version 1 on, structs grow only at their end, and functions and numbers keep their
// meaning.
//
// Structs. A struct that begins with struct_size may grow. The caller sets struct_size to the size that it knows, and
//   fields beyond it have their defaults. Fields that this library does not know must be 0 (else TAKT_E_SIZE). The
//   functions takt_..._init(&x, sizeof x) set the defaults. Output structs need only struct_size. Array elements have
//   no struct_size and never change. Fields named `reserved` must be 0 (else TAKT_E_INVALID).
// Arrays. A pointer and a number of elements. The pointer may be NULL if the number is 0.
// Errors. If the status is not TAKT_OK, the call had no effect. The caller's takt_error, which may be NULL, describes
//   invalid options. Events about unknown requests are not errors: the library ignores them and counts them in the
//   statistics.
// Memory. The library copies its input. Output belongs to the handle, and each function documents how long it is valid.
//   After warm-up, the library allocates in these cases only:
//   - arrivals, keys and instance scores with prefix hashes or model scores
//   - workflows, their stages, and new instances
//   - setting a policy, an epoch or retention
//   - new names of takt_ids, and new classes of a tool profile
//   - calls of an agent learner, and a new plan of a cascade router
//   - new peaks of requests, rows, events in an inbox, or calls to predict
//
//   If memory runs out during creation or while retention is set, the status is TAKT_E_NOMEM. Later, the process is
//   aborted.
// Threads. Only one thread at a time may call a handle. Different handles are independent. Any thread may call
//   takt_inbox_push at any time; only this function may block, for a lock that is held during one move. A callback must
//   not call the handle that calls it (TAKT_E_BUSY).
// Handles. A destroyed handle must not be used. Builds with assertions detect it and return TAKT_E_HANDLE; other builds
//   detect it if they can. Destroying NULL is allowed.
// Time. int64_t nanoseconds of the host's clock, which takt never reads.
// Ids. uint64_t, chosen by the host; 0 means none.
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
  TAKT_E_INVALID = 1,  // invalid value
  TAKT_E_NULL = 2,  // a required pointer is NULL
  TAKT_E_SIZE = 3,  // struct_size is not set, or a field unknown to this library is not 0
  TAKT_E_HANDLE = 4,  // the handle is of another kind or destroyed
  TAKT_E_BUSY = 5,  // a call from a callback of the same handle
  TAKT_E_NOMEM = 6,  // out of memory
  TAKT_E_CORRUPT = 7  // a damaged log, or inconsistent internal counts
};

typedef struct takt_error {
  uint32_t struct_size;
  takt_status code;
  char text[504];  // readable text, one fault per line; zero-terminated, truncated if too long
} takt_error;

#define TAKT_NEVER INT64_MAX  // a time that never comes; as a duration or a limit: unlimited
#define TAKT_UNSET INT64_MIN  // an unset time
#define TAKT_UNBOUNDED INT32_MAX  // no limit

TAKT_API uint32_t takt_abi_version(void) TAKT_NOEXCEPT;
TAKT_API const char* takt_version(void) TAKT_NOEXCEPT;  // "0.1.0"
TAKT_API const char* takt_status_name(takt_status status) TAKT_NOEXCEPT;  // "TAKT_E_SIZE"
TAKT_API void takt_error_init(takt_error* error, size_t size) TAKT_NOEXCEPT;

// A counter since the creation of its handle: docs/reference/stats.md. The function takt_..._stats copies the first n
// counters of a handle. It returns the total number of counters, or 0 if the handle is invalid.
typedef struct takt_stat {
  const char* name;  // valid forever
  uint64_t value;
} takt_stat;

// ---- faults ---------------------------------------------------------------------------------------------------------

// The most recent invalid input, which was ignored. If `count` differs after a call, that call ignored input.
typedef struct takt_fault {
  uint32_t struct_size;
  uint32_t kind;
  uint64_t count;  // faults so far, including this one
  uint64_t step;  // step of the faulty result; for other faults, the most recent plan
  uint64_t request;  // request that the input names; 0: none
  int64_t at;  // time of the call [ns]
  int64_t received, expected;  // received and expected value; `expected` below 0: no value was valid
  uint32_t lane;  // lane of the result row; UINT32_MAX: the fault is not about a row
  uint32_t reserved;
} takt_fault;

// ---- metrics --------------------------------------------------------------------------------------------------------

enum {  // takt_transition.reason
  TAKT_REASON_ARRIVED = 0,
  TAKT_REASON_ADMITTED = 1,  // the request got its first row; in a router: its first instance
  TAKT_REASON_RESUMED = 2,
  TAKT_REASON_FIRST_TOKEN = 3,  // the status does not change
  TAKT_REASON_PREEMPTED_KV = 4,  // the request lost its row because memory or room was short
  TAKT_REASON_PREEMPTED_RANK = 5,  // the request lost its row to a request of better rank
  TAKT_REASON_INSTANCE_LOST = 6,
  TAKT_REASON_BLOCKED = 7,
  TAKT_REASON_UNBLOCKED = 8,
  TAKT_REASON_TOOL_CALLED = 9,
  TAKT_REASON_TOOL_RETURNED = 10,
  TAKT_REASON_FINISHED = 11,
  TAKT_REASON_CANCELLED = 12,
  TAKT_REASON_FAILED = 13  // plus the number of the TAKT_FAIL_... reason
};

// A change of a request's status. Each accepted request ends exactly once, with a change to TAKT_REQUEST_DEAD. A
// refused request has one transition, from TAKT_REQUEST_UNKNOWN to TAKT_REQUEST_DEAD.
typedef struct takt_transition {
  uint32_t struct_size;
  uint32_t reason;  // TAKT_REASON_...
  uint32_t from_status, to_status;  // TAKT_REQUEST_...
  uint64_t request;
  int64_t at;
  int32_t known;  // context tokens
  int32_t generated;  // output tokens so far, per sequence
  int32_t recomputed;  // context tokens computed again so far
  int32_t priority;
} takt_transition;

// Receives each transition during the call that makes it. It must not call the handle.
typedef struct takt_observer {
  uint32_t struct_size;
  uint32_t reserved;
  void (*moved)(void* context, const takt_transition* transition);
  void* context;
} takt_observer;

enum {  // takt_metrics_options.by: field of a request that is its class
  TAKT_CLASS_BY_PRIORITY = 0,
  TAKT_CLASS_BY_TENANT = 1,
  TAKT_CLASS_BY_AGENT = 2,
  TAKT_CLASS_BY_ADAPTER = 3
};

typedef struct takt_metrics_options {
  uint32_t struct_size;
  uint32_t by;  // TAKT_CLASS_BY_...
  int32_t max_classes;  // maximum label values, 1 to 64; later values share the class "other"
  int32_t max_requests;  // maximum living requests that are measured; memory for them is allocated at once
  double window_s;  // time constant of the drain rate and the late share [s]
} takt_metrics_options;
TAKT_API void takt_metrics_options_init(takt_metrics_options* options, size_t size) TAKT_NOEXCEPT;

// The load of a queue relative to the rate at which it becomes shorter.
typedef struct takt_saturation {
  uint32_t struct_size;
  uint32_t reserved;
  double seconds_to_clear;  // time until the waiting requests have rows; at most 3600; 0: no request waits
  double drain_tokens_per_s;  // rate at which waiting tokens got rows
  double kv_share;  // share of the KV cache in use, 0 to 1; 0: unknown
  double late_share;  // share of ended requests with a deadline or an expiry that were late, 0 to 1
  int64_t backlog_tokens;  // context tokens of the waiting requests
} takt_saturation;

// ---- requests, instances and workflows: takt/c/model.h --------------------------------------------------------------

TAKT_API void takt_request_init(takt_request* request, size_t size) TAKT_NOEXCEPT;
TAKT_API void takt_instance_init(takt_instance* instance, size_t size) TAKT_NOEXCEPT;
TAKT_API void takt_workflow_init(takt_workflow* workflow, size_t size) TAKT_NOEXCEPT;

// Returns the hash in takt_plan.dropped and host_chunks of a prefix with a salt.
TAKT_API uint64_t takt_salted_hash(uint64_t hash, uint64_t salt) TAKT_NOEXCEPT;

// Returns the HTTP status for a failure, or 0 for an unknown reason. With 429 the client should come back after
// takt_failure.retry_after_ms. With 503 no instance serves. With 504 a time limit ended the request.
TAKT_API int32_t takt_http_status(uint32_t reason) TAKT_NOEXCEPT;

// ---- custom keys ----------------------------------------------------------------------------------------------------

// State of a request when its key is computed.
typedef struct takt_request_state {
  uint32_t struct_size;  // size in this library
  uint32_t has_run;  // 1: a step has made progress for the request
  const takt_request* request;  // as revised; its times are set, and invalid estimates are unknown
  int64_t enqueued;  // time when the request last joined the waiting queue
  int32_t generated;  // output tokens so far, per sequence
  int32_t returned;  // context tokens added by tools
  int32_t computed;  // context tokens that had KV on the GPU or in host memory when the request last joined the queue
  int32_t cached;  // cached prompt tokens at that time; always 0 unless a retention is set
  uint32_t taken;  // 1: the request was admitted to a step, taken by a queue's host, or placed on an instance
  uint32_t cut;  // 1: the request ended early (cancelled, failed or lost)
} takt_request_state;

// A custom rank: smaller keys run sooner, equal keys in order of arrival, NaN last. The scheduler calls `key` whenever
// a request joins the waiting queue or is revised, and when the order is set. It calls `key` during a step only if a
// gate is set and `cached` changes. The arguments are valid during the call, and the function must not call its handle.
// Without a policy, requests are ordered by the key alone. A policy can include the key: "aged(custom,threshold=100)".
// A log contains custom(NAME), but not `scores`. A log replays in C++ with a policy of that spec (LogReplayOptions).
// takt_replay reports the missing name.
typedef struct takt_key {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;  // 1 to 64 letters, digits and _
  void* context;
  double (*key)(void* context, const takt_request_state* state);
} takt_key;

TAKT_API void takt_key_init(takt_key* key, size_t size) TAKT_NOEXCEPT;

// ---- tables from slow work ------------------------------------------------------------------------------------------

enum {  // takt_epoch.told: fields that change; the others keep their values
  TAKT_EPOCH_AGENT_RANKS = 1,
  TAKT_EPOCH_ALPHA = 2
};

// Results of learning and tuning outside the step loop, for policies and placements that use them.
typedef struct takt_epoch {
  uint32_t struct_size;
  uint32_t fields;
  const takt_agent_rank* ranks;  // each agent once, in any order
  size_t n_ranks;
  takt_agent_rank otherwise;  // rank of each agent that is not in `ranks`
  double alpha;  // alpha of workload_balance: 0 to 1
} takt_epoch;

TAKT_API void takt_epoch_init(takt_epoch* epoch, size_t size) TAKT_NOEXCEPT;

// ---- steps ----------------------------------------------------------------------------------------------------------

TAKT_API void takt_limits_init(takt_limits* limits, size_t size) TAKT_NOEXCEPT;

// The work of the next iteration. The arrays belong to the scheduler and are valid until this plan's commit. If n_run
// is 0, the arrays are valid until the next plan.
typedef struct takt_plan {
  uint32_t struct_size;
  uint32_t idle;
  uint64_t id;  // number of the plan, for its commit; a plan with n_run 0 needs no commit
  const takt_plan_entry* run;
  size_t n_run;
  const takt_move* moves;
  size_t n_moves;
  const takt_preemption* preempted;
  size_t n_preempted;
  const takt_failure* failed;  // failed requests, which the host must report to their clients
  size_t n_failed;
  const uint64_t* released;  // ended requests without a step or move in flight; the host can forget them
  size_t n_released;
  int64_t wake_at;  // time of the next plan if no event comes earlier
  int32_t tokens;  // tokens of all entries, including draft tokens
  uint32_t reserved;
  const takt_dropped_prefix* dropped;
  size_t n_dropped;
  const takt_cache_hint* hints;  // TAKT_KV_MODE_ORACLE: hints for the host's own prefix cache
  size_t n_hints;
  const takt_host_chunk* host_chunks;
  size_t n_host_chunks;
} takt_plan;

// ---- the scheduler --------------------------------------------------------------------------------------------------

typedef struct takt_scheduler takt_scheduler;

enum { TAKT_SHED_NEWEST = 0, TAKT_SHED_WORST = 1 };
enum { TAKT_ORDER_RUNNING_FIRST = 0, TAKT_ORDER_PREFILL_FIRST = 1 };
enum { TAKT_PREEMPT_OFF = 0, TAKT_PREEMPT_ON_MEMORY = 1, TAKT_PREEMPT_BY_RANK = 2 };
enum { TAKT_VICTIMS_RANK = 0, TAKT_VICTIMS_LEAST_LOST = 1 };
enum { TAKT_KV_MODE_NONE = 0, TAKT_KV_MODE_LEDGER = 1, TAKT_KV_MODE_ORACLE = 2 };

typedef struct takt_kv_snapshot {
  int32_t total;  // blocks of an empty cache; a request that needs more blocks never fits
  int32_t free;  // blocks usable now
  int32_t pending;  // released blocks that are not usable until TAKT_EVENT_KV_FREED
  uint32_t reserved;
} takt_kv_snapshot;

// A query about a waiting request: how many prompt tokens does the host's prefix cache hold now?
typedef struct takt_kv_hit {
  uint64_t request;
  const uint64_t* prefix_hashes;  // the request's prefix hashes, or NULL
  size_t n_prefix_hashes;
  int32_t prefix_block_tokens;
  int32_t prompt_tokens;
  int32_t tokens;  // the answer
  uint32_t reserved;
} takt_kv_hit;

enum {  // takt_kv_wish.refusal
  TAKT_KV_REFUSED_FOR_NOW = 0,  // the request keeps its blocks and is left out of this plan; a later plan asks again
  TAKT_KV_REFUSED_FOR_EVER = 1  // the request fails: TAKT_FAIL_NEVER_FITS before its start, else TAKT_FAIL_KV_EXHAUSTED
};

// A reservation of one plan: the request has blocks for `have` context tokens and needs whole blocks for `want` context
// tokens. Both counts are sums over all sequences.
typedef struct takt_kv_wish {
  uint64_t request;
  int32_t have;
  int32_t want;
  uint32_t admission;  // 1: the request is not running yet
  uint32_t granted;  // the host's answer; 1: granted in full; 0: refused
  uint32_t refusal;  // if refused: TAKT_KV_REFUSED_...
  uint32_t reserved;
} takt_kv_wish;

// Callbacks for KV memory that the host counts. The scheduler calls them during its creation and during takt_..._on,
// _take, _plan, _commit, _step, _set_policy and _kv, and never after its destruction. Each receives `context`.
// Arguments are valid during the call. docs/howto/embedding.md describes when each is called.
typedef struct takt_kv_oracle {
  uint32_t struct_size;
  int32_t block_tokens;  // granularity of reservations: 1 to 2^20 tokens
  void* context;
  // Called at most once per scheduler call, and once more after each reserve or release.
  void (*snapshot)(void* context, takt_kv_snapshot* snapshot);
  // Sets `tokens` of each hit, initially 0. NULL: no prefix cache.
  void (*cached)(void* context, takt_kv_hit* hits, size_t n);
  // Sets `granted` of each wish, initially 0. The most important wish comes first. Their sum fits into the free blocks
  // of the snapshot.
  void (*reserve)(void* context, uint64_t step, takt_kv_wish* wishes, size_t n);
  // Frees all GPU blocks of a request. `action`: TAKT_KV_DROP, or TAKT_KV_OUT if the KV has been moved to host memory.
  // Returns the number of these blocks that are usable now. Report the other blocks later with TAKT_EVENT_KV_FREED.
  int32_t (*release)(void* context, uint64_t request, uint32_t action);
} takt_kv_oracle;

TAKT_API void takt_kv_oracle_init(takt_kv_oracle* oracle, size_t size) TAKT_NOEXCEPT;

// Receives the next n bytes of the log.
typedef void (*takt_sink)(void* context, const void* bytes, size_t n);

// Described in docs/howto/embedding.md.
typedef struct takt_scheduler_options {
  uint32_t struct_size;
  int32_t max_running;  // maximum running requests
  int64_t max_waiting;  // maximum waiting requests that have never run; further ones are shed; TAKT_NEVER: no limit
  int64_t reserve_requests;  // requests to reserve storage for at creation
  uint32_t shed;  // TAKT_SHED_...
  uint32_t order;  // TAKT_ORDER_...
  uint32_t preempt;  // TAKT_PREEMPT_...
  uint32_t preempt_action;  // TAKT_KV_DROP: recompute a preempted request; TAKT_KV_OUT: swap while host memory has room
  double preempt_margin;  // TAKT_PREEMPT_BY_RANK: minimum difference between the keys of victim and waiting request
  uint32_t kv;  // TAKT_KV_MODE_...
  int32_t kv_block_tokens;
  int32_t kv_blocks;  // size of the KV cache
  int32_t cpu_blocks;  // blocks in host memory for swapped KV and prefix copies
  double kv_watermark;  // share of the cache that admissions leave free
  uint32_t prefix_cache;  // 1: finished prefixes stay cached; the least recently used are evicted first
  int32_t admission_window;
  uint64_t first_step;  // number of the first plan
  uint64_t hash_seed;
  int32_t max_step_tokens;  // largest step that the host will ever allow; 0: unknown
  int32_t max_step_seqs;
  const char* policy;  // "aged(stjf,threshold=100)"; NULL: room_to_pass
  const char* pause;  // "infercept(...)"; NULL: KV is kept during tool calls
  takt_sink record;  // receives the log during scheduler calls; NULL: no log
  void* record_context;
  size_t record_flush_bytes;  // number of buffered bytes at which the sink is called
  uint32_t record_plans;  // 1: record whole plans instead of digests
  uint32_t reserved;
  const takt_kv_oracle* oracle;  // required for TAKT_KV_MODE_ORACLE, NULL otherwise; the struct is copied
  const takt_key* key;  // custom key, which is copied; NULL: none
  double pin_share;  // maximum share of the cache that one tenant's workflows can pin
  int32_t prefix_cpu_blocks;  // maximum part of cpu_blocks for prefix copies; 0: none
  int32_t prefix_wait;  // maximum steps for which a request waits for a chunk of a prefix that another computes
  int64_t max_waiting_tokens;  // maximum prompt tokens of these requests; TAKT_NEVER: no limit
  int64_t tenant_max_waiting;  // the same two limits for each tenant
  int64_t tenant_max_waiting_tokens;
  // "PRIORITY:REQUESTS:TOKENS:SECONDS:CEILING:SOFT;...": limits of the requests from this priority on, up to the next
  // class: waiting requests, their prompt tokens, and time. An empty number means no limit. NULL: no classes.
  const char* class_limits;
  double max_resume_wait;  // longest wait for a row of a request that has run [s]; 0: no limit
  double max_blocked;  // longest time from TAKT_EVENT_BLOCKED to TAKT_EVENT_UNBLOCKED [s]; 0: no limit
  double max_paused;  // longest tool call [s]; 0: no limit
  double reserve_output;  // quantile of the output estimate for which admissions leave KV; 0: none; 1: the output cap
  uint32_t victims;  // TAKT_VICTIMS_...: order of preemption for memory
  uint32_t begun_first;  // 1: waiting requests that have run come before others with an equal key
  double token_pace;  // target time between two tokens of a running request [s]; 0: none
  int32_t least_prefill;  // minimum prompt tokens of a step, even if that breaks the pace
  uint32_t reserved_pace;
  double tenant_kv_share;  // share of the KV cache that the running requests of a tenant may hold; 1: no limit
} takt_scheduler_options;

TAKT_API void takt_scheduler_options_init(takt_scheduler_options* options, size_t size) TAKT_NOEXCEPT;

// Creates a scheduler. With TAKT_E_INVALID, `error` lists all invalid options.
TAKT_API takt_status takt_scheduler_create(const takt_scheduler_options* options, takt_scheduler** scheduler,
                                           takt_error* error) TAKT_NOEXCEPT;
// Destroys a scheduler without flushing its log.
TAKT_API takt_status takt_scheduler_destroy(takt_scheduler* scheduler) TAKT_NOEXCEPT;

// Applies events in order. If one is malformed, none is applied.
TAKT_API takt_status takt_scheduler_on(takt_scheduler* scheduler, const takt_event* events, size_t n,
                                       int64_t now) TAKT_NOEXCEPT;
// Plans the next iteration. `limits` may be NULL for the defaults.
TAKT_API takt_status takt_scheduler_plan(takt_scheduler* scheduler, int64_t now, const takt_limits* limits,
                                         takt_plan* plan) TAKT_NOEXCEPT;

enum {  // flags of takt_scheduler_commit and takt_scheduler_step
  TAKT_REST_AS_PLANNED = 1  // only exceptions are committed
};
// Commits the results of a step. Rows may come in any order; plan order is fastest. An absent row made no progress.
// With TAKT_REST_AS_PLANNED, an absent row computed its entry, yielded one token per sequence if it samples, and has no
// draft tokens. Only exceptions then need a row.
TAKT_API takt_status takt_scheduler_commit(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows,
                                           size_t n, uint32_t flags, int64_t now) TAKT_NOEXCEPT;
// Commits `step` unless `step` is 0, then plans the next iteration. If run_out is not NULL, copies the first run_cap
// entries of the plan there; plan->run contains all of them. A run_cap of max_running is always enough.
TAKT_API takt_status takt_scheduler_step(takt_scheduler* scheduler, uint64_t step, const takt_row_result* rows,
                                         size_t n, uint32_t flags, int64_t now, const takt_limits* limits,
                                         takt_plan* plan, takt_plan_entry* run_out, size_t run_cap) TAKT_NOEXCEPT;

// Replaces the policy; allocates. `policy` and `key` as in takt_scheduler_options.
TAKT_API takt_status takt_scheduler_set_policy(takt_scheduler* scheduler, const char* policy, const takt_key* key,
                                               int64_t now, takt_error* error) TAKT_NOEXCEPT;
// Changes options while requests run. `changes`: "NAME=VALUE,...", for example "max_waiting=500,token_pace=0.05".
// Options that may change: max_waiting, max_waiting_tokens, tenant_max_waiting, tenant_max_waiting_tokens,
// class_limits, max_resume_wait, max_blocked, max_paused, kv_watermark, reserve_output, prefix_wait, preempt_margin,
// token_pace, least_prefill, tenant_kv_share. A number without limit is "forever". The next plan sheds what exceeds a
// smaller bound. TAKT_E_INVALID: an unknown or invalid option, or one that cannot change; no effect. Allocates.
TAKT_API takt_status takt_scheduler_set_options(takt_scheduler* scheduler, const char* changes, int64_t now,
                                                takt_error* error) TAKT_NOEXCEPT;
// Sets the policy that chooses which cached KV to evict after a turn (`retention`: "hold_value"; NULL: lru). Sets the
// gate that decides which requests may evict it (`gate`: "price"; NULL: none). Without this call, takt selects both at
// the first TAKT_EVENT_TURN_ENDED or TAKT_EVENT_WORKFLOW_ENDED. Prefill of a token at position d takes alpha_ms [ms] +
// d beta_ns [ns], unless the texts set other numbers; both 0: unknown. TAKT_E_INVALID: an invalid text or number, a KV
// mode other than TAKT_KV_MODE_LEDGER, or no prefix_cache. TAKT_E_NOMEM: no effect.
TAKT_API takt_status takt_scheduler_set_retention(takt_scheduler* scheduler, const char* retention, const char* gate,
                                                  double alpha_ms, double beta_ns, takt_error* error) TAKT_NOEXCEPT;
// TAKT_KV_MODE_ORACLE: adds hints for the host's own cache to plans, based on this prefill pace; both 0: the default
// pace. Without this call, hints start at the first event about a turn.
TAKT_API takt_status takt_scheduler_set_hints(takt_scheduler* scheduler, double alpha_ms, double beta_ns,
                                              takt_error* error) TAKT_NOEXCEPT;
// Sets new tables. TAKT_E_INVALID: an invalid number, or a duplicate agent.
TAKT_API takt_status takt_scheduler_epoch(takt_scheduler* scheduler, const takt_epoch* epoch,
                                          int64_t now) TAKT_NOEXCEPT;
// Returns the policy's spec, which takt_scheduler_create accepts. Valid until the policy changes. NULL: invalid handle.
TAKT_API const char* takt_scheduler_policy(const takt_scheduler* scheduler) TAKT_NOEXCEPT;
// Writes the first n numbers of the policy's learned state: typical output lengths and the accuracy of predictions. The
// numbers are portable between machines. Returns how many numbers the state has; 0: the policy does not learn.
TAKT_API size_t takt_scheduler_learnt(const takt_scheduler* scheduler, uint64_t* numbers, size_t n) TAKT_NOEXCEPT;
// Loads the learned state of another scheduler. TAKT_E_INVALID, without effect: the numbers are not a learned state,
// the policy does not learn, a request is alive, or a log is being recorded.
TAKT_API takt_status takt_scheduler_load_learnt(takt_scheduler* scheduler, const uint64_t* numbers, size_t n,
                                                int64_t now, takt_error* error) TAKT_NOEXCEPT;

TAKT_API takt_status takt_scheduler_last_fault(const takt_scheduler* scheduler, takt_fault* fault) TAKT_NOEXCEPT;
TAKT_API size_t takt_scheduler_stats(const takt_scheduler* scheduler, takt_stat* stats, size_t n) TAKT_NOEXCEPT;

typedef struct takt_scheduler_counts {
  uint32_t struct_size;
  uint32_t draining;
  int64_t alive, waiting, running, paused, blocked;  // current requests
} takt_scheduler_counts;
TAKT_API takt_status takt_scheduler_count(const takt_scheduler* scheduler, takt_scheduler_counts* counts) TAKT_NOEXCEPT;

typedef struct takt_kv_use {
  uint32_t struct_size;
  int32_t total, used, free;  // blocks
  int32_t cached;  // unused prefix blocks, included in `free`
  int32_t pending;  // blocks that will be free soon
  int32_t cpu_total, cpu_used;  // blocks in host memory
  int32_t cpu_cached;  // prefix copies in host memory, not included in cpu_used
  uint32_t reserved;
} takt_kv_use;
TAKT_API takt_status takt_scheduler_kv(const takt_scheduler* scheduler, takt_kv_use* use) TAKT_NOEXCEPT;

enum {  // takt_explanation.status
  TAKT_REQUEST_UNKNOWN = 0,
  TAKT_REQUEST_WAITING = 1,
  TAKT_REQUEST_RUNNING = 2,
  TAKT_REQUEST_PAUSED = 3,  // in a tool call
  TAKT_REQUEST_BLOCKED = 4,
  TAKT_REQUEST_DEAD = 5  // the request has ended, but a step or move in flight includes it
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
  TAKT_WAITS_FOR_GATE = 10,  // the gate reserves the needed KV blocks for workflows that will return
  TAKT_WAITS_FOR_PREFIX = 11,  // a running request computes a prefix of the request's prompt
  TAKT_WAITS_FOR_CEILING = 12  // the running requests of its class and of later classes use their share
};

typedef struct takt_key_part {
  char name[24];
  double value;
} takt_key_part;

// State of a request and the reason for it, for diagnosis. O(waiting requests).
typedef struct takt_explanation {
  uint32_t struct_size;
  uint32_t status;
  uint32_t waits_for;
  uint32_t promoted;  // 1: aging has promoted the request, so it comes before all other requests
  double key;  // rank; smaller runs sooner
  int64_t ahead;  // waiting requests that come first
  int32_t known, computed, in_flight, generated;  // tokens
  int32_t kv_blocks, cpu_blocks;
  uint32_t n_parts;
  int32_t passed;  // number of requests that passed this request while it lacked memory or room in a step
  takt_key_part parts[12];  // components of the key, if the policy reports them
} takt_explanation;
TAKT_API takt_status takt_scheduler_explain(const takt_scheduler* scheduler, uint64_t request,
                                            takt_explanation* explanation) TAKT_NOEXCEPT;

// KV of a workflow's branch in the prefix cache between turns, and its eviction order.
typedef struct takt_held {
  uint32_t struct_size;
  // Kind of the wait after the last turn: unknown (0), tool (1), user (2), children (3), by predicted time (4 to 11),
  // or tool n (11 + n).
  uint32_t return_class;
  int32_t tokens;  // cached tokens from the start of its context; 0: none
  int32_t own;  // tokens at the end of these that no other workflow shares
  int32_t turns;  // ended turns
  uint32_t awaited;  // 1: the branch's next turn is already waiting, so its blocks are evicted last
  uint32_t in_use;  // 1: a running request uses all this KV, so nothing can be evicted
  int32_t ahead;  // blocks that would be evicted before its first block
  int64_t since;  // end of its last turn
  // value of the branch's last block for the retention policy; hold_value: seconds of work saved per second held
  double value;
  double price;  // value of the block that would be evicted next; 0: a dead block, or none
  uint64_t next;  // workflow of the block that would be evicted next; 0: none, or a shared block
  uint64_t next_branch;
  int64_t pinned_until;  // end of the pin; pinned blocks are evicted after unpinned blocks; TAKT_UNSET: no pin
} takt_held;
// Explains what a branch holds. O(evictable blocks).
TAKT_API takt_status takt_scheduler_explain_held(takt_scheduler* scheduler, uint64_t workflow, uint64_t branch,
                                                 takt_held* held) TAKT_NOEXCEPT;

// Measures all requests that arrive from now on, and forgets earlier figures. NULL `options`: stops. Allocates.
TAKT_API takt_status takt_scheduler_measure(takt_scheduler* scheduler, const takt_metrics_options* options,
                                            takt_error* error) TAKT_NOEXCEPT;
// Names the class of requests with this priority (or tenant, ...), before its first request. TAKT_E_INVALID: nothing is
// measured, the class has a label, or no label is free.
TAKT_API takt_status takt_scheduler_name_class(takt_scheduler* scheduler, int64_t key, const char* name,
                                               takt_error* error) TAKT_NOEXCEPT;
// TAKT_E_INVALID: nothing is measured.
TAKT_API takt_status takt_scheduler_saturation(takt_scheduler* scheduler, int64_t now,
                                               takt_saturation* saturation) TAKT_NOEXCEPT;
// Sets *text to all metrics in Prometheus' text format, n bytes, valid until the next such call. `names`: "takt", or
// the names that another program has for the same metrics (docs/reference/metrics.md); NULL: "takt". `model`: label
// model_name of every sample; NULL: none. Nothing is measured: only counters and gauges. Allocates.
TAKT_API takt_status takt_scheduler_metrics(takt_scheduler* scheduler, int64_t now, const char* names,
                                            const char* model, const char** text, size_t* n) TAKT_NOEXCEPT;
// Sets the observer of transitions, which is copied; NULL: none.
TAKT_API takt_status takt_scheduler_watch(takt_scheduler* scheduler, const takt_observer* observer) TAKT_NOEXCEPT;

// Checks all counts by a recount, for tests. With TAKT_E_CORRUPT, `error` describes the inconsistency.
TAKT_API takt_status takt_scheduler_check(const takt_scheduler* scheduler, takt_error* error) TAKT_NOEXCEPT;

// Passes all buffered bytes of the log to the sink.
TAKT_API takt_status takt_scheduler_flush(takt_scheduler* scheduler) TAKT_NOEXCEPT;

// ---- the key of one request (L0) ------------------------------------------------------------------------------------

// For hosts that compare keys themselves. A ranker has no queue and no state per request.
typedef struct takt_ranker takt_ranker;

enum {  // how long a key stays valid
  TAKT_TRAIT_FIXED = 1,  // a key stays valid while the request waits; no other trait is set
  TAKT_TRAIT_TIMED = 2,  // a key changes at times that the policy knows in advance
  TAKT_TRAIT_MOVING = 4,  // all keys change continuously
  TAKT_TRAIT_GROUPS = 8,  // requests are ordered by group first, which needs a queue
  TAKT_TRAIT_LEARNS = 16,  // a key may depend on what the policy has observed
  TAKT_TRAIT_PRESSURE = 32,  // a key depends on resource pressure, reported only by a queue or a scheduler
  TAKT_TRAIT_AGES = 64,  // requests that wait long are promoted; only a queue counts waiting
  TAKT_TRAIT_TABLES = 128,  // requests are ranked by the agent ranks of an epoch
  TAKT_TRAIT_CHOOSES = 256  // the next request depends on all that wait, which needs a queue
};

// Creates a ranker. `policy` and `key` as in takt_scheduler_options. TAKT_E_INVALID also for a policy that ranks by an
// epoch, such as agent_priority, because a ranker has no epoch.
TAKT_API takt_status takt_ranker_create(const char* policy, const takt_key* key, takt_ranker** ranker,
                                        takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_ranker_destroy(takt_ranker* ranker) TAKT_NOEXCEPT;
TAKT_API uint32_t takt_ranker_traits(const takt_ranker* ranker) TAKT_NOEXCEPT;  // 0 if the handle is invalid
// Computes the keys of n requests, `stride` bytes apart. Smaller runs sooner; ties are broken by arrival, then by id.
// Keys are never NaN. An invalid estimate is treated as unknown. TAKT_E_INVALID: a request with no sequences.
TAKT_API takt_status takt_ranker_keys(takt_ranker* ranker, const takt_request* requests, size_t n, size_t stride,
                                      int64_t now, double* keys) TAKT_NOEXCEPT;

// ---- the order alone (L1) -------------------------------------------------------------------------------------------

// For hosts that do admission and KV themselves. In each iteration, call begin, then top with take or hold repeatedly,
// then end with the requests that ran. A taken request that `end` does not list waits as before. Requests may arrive,
// change and leave at any time. `end` may list requests that were not taken. The cheapest iteration is begin, one list
// and end (docs/howto/c.md).
typedef struct takt_queue takt_queue;

typedef struct takt_queue_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t reserve_requests;  // requests to reserve storage for at creation
  uint64_t hash_seed;
  const char* policy;  // as in takt_scheduler_options
  const takt_key* key;  // as in takt_scheduler_options
  const takt_epoch* epoch;  // first tables; required by policies that rank by an epoch, such as agent_priority
} takt_queue_options;

TAKT_API void takt_queue_options_init(takt_queue_options* options, size_t size) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_create(const takt_queue_options* options, takt_queue** queue,
                                       takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_destroy(takt_queue* queue) TAKT_NOEXCEPT;
TAKT_API const char* takt_queue_policy(const takt_queue* queue) TAKT_NOEXCEPT;
// As takt_scheduler_learnt and takt_scheduler_load_learnt. Waiting requests keep their places.
TAKT_API size_t takt_queue_learnt(const takt_queue* queue, uint64_t* numbers, size_t n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_queue_load_learnt(takt_queue* queue, const uint64_t* numbers, size_t n,
                                            takt_error* error) TAKT_NOEXCEPT;
TAKT_API uint32_t takt_queue_traits(const takt_queue* queue) TAKT_NOEXCEPT;  // TAKT_TRAIT_..., as takt_ranker_traits

// Result of a call about one request. Negative: a negated takt_status. The call had an effect only if the result is
// TAKT_RESULT_DONE or TAKT_RESULT_REQUEUED.
typedef int32_t takt_result;
enum {
  TAKT_RESULT_DONE = 0,
  TAKT_RESULT_UNKNOWN = 1,  // the request is not in this queue
  TAKT_RESULT_IN_USE = 2,  // the id is already in this queue
  TAKT_RESULT_INVALID = 3,  // no id, or no sequences
  TAKT_RESULT_OUT_OF_PLACE = 4,  // the request's place does not allow this call, or no iteration has begun
  TAKT_RESULT_ENDED = 5,
  TAKT_RESULT_REQUEUED = 6  // takt_queue_put: the known request waits again
};
enum {  // place of a request
  TAKT_PLACE_NONE = 0,
  TAKT_PLACE_WAITING = 1,
  TAKT_PLACE_TAKEN = 2,
  TAKT_PLACE_HELD = 3,
  TAKT_PLACE_RUNNING = 4,
  TAKT_PLACE_PAUSED = 5  // in a tool call
};

TAKT_API size_t takt_queue_size(const takt_queue* queue) TAKT_NOEXCEPT;  // waiting requests
TAKT_API takt_result takt_queue_place(const takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // TAKT_PLACE_...

TAKT_API takt_result takt_queue_push(takt_queue* queue, const takt_request* request, int64_t now) TAKT_NOEXCEPT;
// Pushes a new request. Requeues a known request without changing it. Returns TAKT_RESULT_DONE or TAKT_RESULT_REQUEUED.
TAKT_API takt_result takt_queue_put(takt_queue* queue, const takt_request* request, int64_t now) TAKT_NOEXCEPT;
// Updates the request with this id; `fields` (TAKT_REVISED_...) selects the fields.
TAKT_API takt_result takt_queue_revise(takt_queue* queue, const takt_request* request, uint32_t fields,
                                       int64_t now) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_erase(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // ended or cancelled

// Sets new tables, as takt_scheduler_epoch does. The next takt_queue_begin orders by them.
TAKT_API takt_status takt_queue_epoch(takt_queue* queue, const takt_epoch* epoch, int64_t now) TAKT_NOEXCEPT;

TAKT_API takt_status takt_queue_begin(takt_queue* queue, int64_t now) TAKT_NOEXCEPT;
// Sets *request to the first request in order. Returns 1; 0 if none waits (*request is 0); or a negated takt_status.
TAKT_API int32_t takt_queue_top(const takt_queue* queue, uint64_t* request) TAKT_NOEXCEPT;
// Writes the first n requests in order, best first. Returns how many were written.
TAKT_API size_t takt_queue_list(const takt_queue* queue, uint64_t* requests, size_t n) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_take(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;
TAKT_API takt_result takt_queue_hold(takt_queue* queue, uint64_t request) TAKT_NOEXCEPT;  // blocked until requeue
// in a tool call
TAKT_API takt_result takt_queue_pause(takt_queue* queue, uint64_t request, int64_t now) TAKT_NOEXCEPT;
// Requeues a request that was taken, held, preempted or in a tool call.
TAKT_API takt_result takt_queue_requeue(takt_queue* queue, uint64_t request, int64_t now) TAKT_NOEXCEPT;

// The reason why the first request of the queue did not run, for policies that price resources.
typedef struct takt_pressure {
  uint32_t struct_size;
  uint32_t head;  // TAKT_WAITS_FOR_... of the first waiting request; TAKT_WAITS_FOR_NOTHING: none waits
  const takt_limits* limits;  // limits of the iteration; NULL: unknown
  int32_t kv_tokens;  // size of the KV cache; 0: unknown
  int32_t engines;  // number of engines that serve this queue
} takt_pressure;
TAKT_API void takt_pressure_init(takt_pressure* pressure, size_t size) TAKT_NOEXCEPT;

// Ends the iteration. `ran` lists every request that started in this iteration. It may also list running requests, to
// report their tokens. Sets *counted (may be NULL) to the number of listed requests that run. Other listed requests are
// unknown or in a tool call. `pressure` may be NULL.
TAKT_API takt_status takt_queue_end(takt_queue* queue, const takt_ran* ran, size_t n, const takt_pressure* pressure,
                                    int64_t now, size_t* counted) TAKT_NOEXCEPT;
// Reports the tokens of an ended step, for requests that run or were preempted since. Sets *counted (may be NULL) to
// the number of such requests. If `rest_output` is above 0, each running request that is not listed yielded
// `rest_output` tokens per sequence. List a running request that was not in the step with 0 tokens. If `rest_output` is
// 0, requests that are not listed do not change.
TAKT_API takt_status takt_queue_computed(takt_queue* queue, const takt_ran* ran, size_t n, int32_t rest_output,
                                         size_t* counted) TAKT_NOEXCEPT;

// Selects requests to preempt for `need` blocks, worst first. With a `beneficiary` (0: none) that waits or was taken,
// selects only requests of worse rank than the beneficiary's. Selects no request if all together would not free enough
// blocks. The array is valid until the next such call.
TAKT_API takt_status takt_queue_victims(takt_queue* queue, const takt_holding* holding, size_t n, int32_t need,
                                        uint64_t beneficiary, int64_t now, const uint64_t** victims,
                                        size_t* n_victims) TAKT_NOEXCEPT;

// ---- the router -----------------------------------------------------------------------------------------------------

typedef struct takt_router takt_router;

enum {  // takt_router_options.budgets: time that a call of a declared workflow gets
  TAKT_BUDGETS_NONE = 0,  // requests keep their deadlines
  TAKT_BUDGETS_SHARE = 1,  // the remaining time, times the call's share of the workflow's remaining cost
  TAKT_BUDGETS_WHOLE = 2  // all the remaining time
};
enum {  // takt_router_options.blown: budget of a call if the remaining time is negative
  TAKT_BLOWN_LATENESS = 0,  // all of the negative remaining time
  TAKT_BLOWN_PUBLISHED = 1,  // the call's share of the negative remaining time
  TAKT_BLOWN_ZERO = 2
};

// Measured time of the calls of a stage on instances of a profile.
typedef struct takt_stage_time {
  uint64_t stage;  // call site, as in takt_request.stage
  const char* profile;  // name, as in takt_router_add_profile
  int64_t time;  // [ns]
} takt_stage_time;

// Time of an iteration, as a linear fit to an engine's served iterations (docs/howto/fitting_profiles.md). The time
// [ms] is a constant plus four counts, each times its coefficient.
typedef struct takt_cost_model {
  uint32_t struct_size;
  int32_t tp;  // GPUs of an instance
  double constant_ms;
  double per_prefill_ms;  // time per prefill token
  double per_decode_ms;  // time per decoding sequence
  double per_context_ms;  // time per context token of the decoding sequences
  double per_sample_ms;  // time per sequence that samples a token
  double kv_bytes_per_token;  // KV bytes of one token on all GPUs of an instance; 0: unknown
  double host_link_gb_s;  // bandwidth to host memory per GPU and direction [1e9 bytes/s]
} takt_cost_model;
TAKT_API void takt_cost_model_init(takt_cost_model* cost, size_t size) TAKT_NOEXCEPT;

typedef struct takt_router_options {
  uint32_t struct_size;
  int32_t window;  // maximum waiting requests considered after the first request that must wait
  int64_t max_outstanding;  // maximum requests per instance; TAKT_NEVER: only the instance's own limit
  int64_t reserve_requests;  // requests to reserve storage for at creation
  uint64_t hash_seed;
  uint32_t fail_unfit;  // 1: fail requests that are too large for every instance
  uint32_t reserved;
  const char* policy;  // order of waiting requests; NULL: fcfs
  const char* placement;  // "least_loaded(waiting_weight=2)"; NULL: least_loaded
  const takt_key* key;  // custom key, which is copied; NULL: none
  uint32_t budgets;  // TAKT_BUDGETS_...
  uint32_t blown;  // TAKT_BLOWN_...
  const takt_stage_time* stage_times;  // measured times for budgets; for other stages, cost models supply times
  size_t n_stage_times;
  int64_t max_waiting;  // maximum requests that wait here and were never placed; TAKT_NEVER: no limit
  int64_t max_waiting_tokens;  // maximum prompt tokens of these requests; TAKT_NEVER: no limit
  int64_t tenant_max_waiting;  // the same two limits for each tenant
  int64_t tenant_max_waiting_tokens;
  // "PRIORITY:REQUESTS:TOKENS:SECONDS:CEILING:SOFT;...": limits of the requests from this priority on, up to the next
  // class: waiting requests, their prompt tokens, and time. An empty number means no limit. NULL: no classes.
  const char* class_limits;
  double max_held;  // longest time for which a call waits for earlier stages of its workflow [s]; 0: no limit
  double max_down;  // longest time without an instance before waiting requests fail [s]; 0: no limit
  const char* decode_placement;  // placement among the instances of TAKT_ROLE_DECODE; NULL: as `placement`
  // A decode instance runs a whole request if at most this many tokens of the prompt are not in its cache.
  int32_t local_tokens;
  // 1: also if its prefill would end no later than a prefill instance's and the transfer, if both have cost models
  uint32_t local_if_sooner;
  double kv_link_gb_s;  // KV bandwidth between two instances [1e9 bytes/s]; 0: unlimited
} takt_router_options;

TAKT_API void takt_router_options_init(takt_router_options* options, size_t size) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_create(const takt_router_options* options, takt_router** router,
                                        takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_destroy(takt_router* router) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_on(takt_router* router, const takt_event* events, size_t n, int64_t now) TAKT_NOEXCEPT;

// Changes options while requests wait or run, as takt_scheduler_set_options. Options that may change: max_outstanding,
// window, fail_unfit, max_waiting, max_waiting_tokens, tenant_max_waiting, tenant_max_waiting_tokens, class_limits,
// max_held, max_down, local_tokens, local_if_sooner, kv_link_gb_s. The next placement uses them.
TAKT_API takt_status takt_router_set_options(takt_router* router, const char* changes, int64_t now,
                                             takt_error* error) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_epoch(takt_router* router, const takt_epoch* epoch, int64_t now) TAKT_NOEXCEPT;

// The decisions of a call. The arrays belong to the router, and are valid until its next call.
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
  int64_t wake_at;  // time of the next placement if no event comes earlier
  // With instances for prefill and for decode: the host applies `withdrawn`, then `placed`, then `decodes`.
  const takt_placement* decodes;  // instances that take requests over after their prefill; the last of a request counts
  size_t n_decodes;
  const takt_placement* withdrawn;  // instances that no longer get or hold a request, which is placed anew
  size_t n_withdrawn;
} takt_routing;

TAKT_API takt_status takt_router_place(takt_router* router, int64_t now, takt_routing* routing) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_wake_at(const takt_router* router, int64_t* wake_at) TAKT_NOEXCEPT;
// Scores each instance for a request, which may be unknown to the router. Larger is better; NaN: the instance is not
// available now. Sets *possible (may be NULL) to the number of scores that are not NaN. Places no request. Requests are
// validated as in takt_ranker_keys.
TAKT_API takt_status takt_router_score(takt_router* router, const takt_request* request, const uint64_t* instances,
                                       size_t n, int64_t now, double* scores, size_t* possible) TAKT_NOEXCEPT;
// Places a waiting request on an instance that the host chose. TAKT_E_INVALID, without effect: the request does not
// wait here, the instance is not up, or it is a prefill instance.
TAKT_API takt_status takt_router_place_at(takt_router* router, uint64_t request, uint64_t instance,
                                          int64_t now) TAKT_NOEXCEPT;
// The same on a prefill instance. `decode` is the decode instance that takes the request over.
TAKT_API takt_status takt_router_place_apart(takt_router* router, uint64_t request, uint64_t instance, uint64_t decode,
                                             int64_t now) TAKT_NOEXCEPT;
// Sets *instance to the request's instance; 0: the request waits here or is not alive.
TAKT_API takt_status takt_router_instance_of(const takt_router* router, uint64_t request,
                                             uint64_t* instance) TAKT_NOEXCEPT;

TAKT_API const char* takt_router_policy(const takt_router* router) TAKT_NOEXCEPT;
// As takt_scheduler_learnt and takt_scheduler_load_learnt, for the policy. A placement's own counts are no part of it.
TAKT_API size_t takt_router_learnt(const takt_router* router, uint64_t* numbers, size_t n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_load_learnt(takt_router* router, const uint64_t* numbers, size_t n,
                                             takt_error* error) TAKT_NOEXCEPT;
// Adds a profile for instances of one model, GPU and parallelism. If `cost` is NULL, placements and budgets assume 1 ms
// per token. Repeated calls return the same id. TAKT_E_INVALID: an invalid number, or a cost model unlike the
// profile's.
TAKT_API takt_status takt_router_add_profile(takt_router* router, const char* name, const takt_cost_model* cost,
                                             uint64_t* profile, takt_error* error) TAKT_NOEXCEPT;

TAKT_API takt_status takt_router_last_fault(const takt_router* router, takt_fault* fault) TAKT_NOEXCEPT;
TAKT_API size_t takt_router_stats(const takt_router* router, takt_stat* stats, size_t n) TAKT_NOEXCEPT;

typedef struct takt_router_counts {
  uint32_t struct_size;
  uint32_t instances;  // instances that are up
  int64_t alive, waiting;
  int64_t set_aside;  // waiting requests that are too large for every instance
} takt_router_counts;
TAKT_API takt_status takt_router_count(const takt_router* router, takt_router_counts* counts) TAKT_NOEXCEPT;

// Measures all requests that arrive from now on, and forgets earlier figures. NULL `options`: stops. Allocates.
TAKT_API takt_status takt_router_measure(takt_router* router, const takt_metrics_options* options,
                                         takt_error* error) TAKT_NOEXCEPT;
// Names the class of requests with this priority (or tenant, ...), before its first request. TAKT_E_INVALID: nothing is
// measured, the class has a label, or no label is free.
TAKT_API takt_status takt_router_name_class(takt_router* router, int64_t key, const char* name,
                                            takt_error* error) TAKT_NOEXCEPT;
// TAKT_E_INVALID: nothing is measured.
TAKT_API takt_status takt_router_saturation(takt_router* router, int64_t now,
                                            takt_saturation* saturation) TAKT_NOEXCEPT;
// Sets *text to all metrics in Prometheus' text format, n bytes, valid until the next such call. `names`: "takt", or
// the names that another program has for the same metrics (docs/reference/metrics.md); NULL: "takt". `model`: label
// model_name of every sample; NULL: none. Nothing is measured: only counters and gauges. Allocates.
TAKT_API takt_status takt_router_metrics(takt_router* router, int64_t now, const char* names, const char* model,
                                         const char** text, size_t* n) TAKT_NOEXCEPT;
// Sets the observer of transitions, which is copied; NULL: none.
TAKT_API takt_status takt_router_watch(takt_router* router, const takt_observer* observer) TAKT_NOEXCEPT;

enum {  // takt_candidate.state
  TAKT_CANDIDATE_SCORED = 0,
  TAKT_CANDIDATE_REJECTED = 1,  // the placement rejects the instance now
  TAKT_CANDIDATE_FULL = 2,
  TAKT_CANDIDATE_TOO_SMALL = 3
};
typedef struct takt_candidate {
  uint64_t instance;
  uint32_t state;  // TAKT_CANDIDATE_...
  uint32_t reserved;
  double score;  // larger is better; NaN unless scored
  double regret;  // best score minus this score; NaN: unknown
} takt_candidate;

// State of a request and the scores of all instances for it, for diagnosis.
typedef struct takt_route_explanation {
  uint32_t struct_size;
  uint32_t status;  // TAKT_REQUEST_...
  uint64_t chosen;  // instance of a placed request; otherwise the candidate with the best score; 0: none
  int64_t ahead;  // waiting requests ahead of it
  double regret;  // best score minus that of `chosen`; NaN: unknown
  double margin;  // best score minus the second best; NaN: unknown
  uint32_t scores_compare;  // 0: the placement draws or takes turns, so no regret is known
  uint32_t scored;
  uint64_t candidates;  // instances that are up
  uint64_t decode;  // instance that takes the request over after its prefill on `chosen`; 0: none
  double decode_regret;  // as `regret`, of `decode`
} takt_route_explanation;
// Writes the first n candidates, by ascending instance. Places no request. A request that the router does not have is
// explained as given.
TAKT_API takt_status takt_router_explain(takt_router* router, const takt_request* request, int64_t now,
                                         takt_candidate* candidates, size_t n,
                                         takt_route_explanation* explanation) TAKT_NOEXCEPT;

// ---- the inbox ------------------------------------------------------------------------------------------------------

// A queue that passes events from many threads to the owner of a scheduler or router.
typedef struct takt_inbox takt_inbox;

enum { TAKT_INBOX_OF_SCHEDULER = 0, TAKT_INBOX_OF_ROUTER = 1 };

enum {  // results of takt_inbox_push
  TAKT_PUSHED_FULL = 0,  // the event was rejected
  TAKT_PUSHED_QUEUED = 1,  // the event was added; the inbox was not empty
  TAKT_PUSHED_FIRST = 2  // the event was added to an empty inbox: wake the owner if it sleeps
};

// Creates an inbox. `capacity` 0: unlimited.
TAKT_API takt_status takt_inbox_create(uint32_t kind, size_t capacity, takt_inbox** inbox,
                                       takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_inbox_destroy(takt_inbox* inbox) TAKT_NOEXCEPT;
// Adds an event. Any thread may call this function, also from a callback. `pushed` may be NULL. Waits for a lock.
TAKT_API takt_status takt_inbox_push(takt_inbox* inbox, const takt_event* event, uint32_t* pushed) TAKT_NOEXCEPT;
// Applies all events of the inbox to its scheduler or router, in order; call it from the owner's thread. `n`, the
// number of events, may be NULL. Other threads may push meanwhile, but must not drain or destroy the inbox
// (TAKT_E_BUSY).
TAKT_API takt_status takt_scheduler_take(takt_scheduler* scheduler, takt_inbox* inbox, int64_t now,
                                         size_t* n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_router_take(takt_router* router, takt_inbox* inbox, int64_t now, size_t* n) TAKT_NOEXCEPT;

// ---- ids for names --------------------------------------------------------------------------------------------------

// Maps names of requests, tools, agents or tenants to ids that count up. A released id is never reused.
typedef struct takt_ids takt_ids;

// Creates a map. `reserve`: number of names for which memory is reserved. `hash_seed` as in takt_scheduler_options.
TAKT_API takt_status takt_ids_create(int64_t reserve, uint64_t hash_seed, takt_ids** ids,
                                     takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_ids_destroy(takt_ids* ids) TAKT_NOEXCEPT;
// Sets *id to the id of a name of n bytes. A new name gets a new id, which allocates.
TAKT_API takt_status takt_ids_of(takt_ids* ids, const char* name, size_t n, uint64_t* id) TAKT_NOEXCEPT;
// Sets *id to the name's id; 0: the name has no id.
TAKT_API takt_status takt_ids_find(const takt_ids* ids, const char* name, size_t n, uint64_t* id) TAKT_NOEXCEPT;
// Sets *name to the zero-terminated name, valid until its release, or to NULL if the id is unknown. `n` may be NULL.
TAKT_API takt_status takt_ids_name(const takt_ids* ids, uint64_t id, const char** name, size_t* n) TAKT_NOEXCEPT;
// Releases an id. TAKT_E_INVALID: unknown id.
TAKT_API takt_status takt_ids_release(takt_ids* ids, uint64_t id) TAKT_NOEXCEPT;
TAKT_API size_t takt_ids_size(const takt_ids* ids) TAKT_NOEXCEPT;  // number of names

// ---- predictions ----------------------------------------------------------------------------------------------------

// Predicts remaining tokens and success of calls, as learned from a log by `takt train` (docs/howto/prediction.md).
// Several threads can create handles from the same bytes.
typedef struct takt_predictor takt_predictor;

// Facts about a call that are known when it begins. Names are zero-terminated. NULL or a negative count: unknown.
typedef struct takt_call {
  uint32_t struct_size;
  int32_t calls_before;  // earlier calls of its workflow
  const char* model;
  const char* kind;  // kind of workflow
  const char* stage;
  const char* text;  // text of the prompt, n_text bytes
  size_t n_text;
  int32_t prompt_tokens;
  int32_t system_tokens;  // part of the prompt
  int32_t user_tokens;  // part of the prompt
  int32_t tokens_before;  // output tokens of the earlier calls
  int32_t generated;  // output tokens of this call so far, excluded from the prediction; negative: not begun
  uint32_t reserved;
} takt_call;
TAKT_API void takt_call_init(takt_call* call, size_t size) TAKT_NOEXCEPT;

// TAKT_E_INVALID: not a predictor, or of another version. TAKT_E_CORRUPT: damaged or truncated.
TAKT_API takt_status takt_predictor_create(const void* bytes, size_t n, takt_predictor** predictor,
                                           takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_predictor_destroy(takt_predictor* predictor) TAKT_NOEXCEPT;
// Returns the name of a known model, in ascending order; NULL if `index` is too large. Valid as long as the handle.
TAKT_API const char* takt_predictor_model(const takt_predictor* predictor, size_t index) TAKT_NOEXCEPT;
// Predicts n calls, `stride` bytes apart; batches are faster than single calls. Sets tokens_left, the output tokens of
// this and all following calls of the workflow; unknown for an unknown model. Sets solved, the probability that the
// model solves the call; negative: unknown. Either may be NULL.
TAKT_API takt_status takt_predictor_predict(takt_predictor* predictor, const takt_call* calls, size_t n, size_t stride,
                                            takt_estimate* tokens_left, double* solved) TAKT_NOEXCEPT;

// Statistics of tool calls, learned as they return (docs/howto/tool_profile.md). Tools have the same ids as in
// takt_next_call, which uses these expectations.
typedef struct takt_tool_profile takt_tool_profile;

typedef struct takt_tool_profile_options {
  uint32_t struct_size;
  uint32_t max_classes;  // maximum tool classes; further classes are pooled
  int64_t window;  // number of calls per class after which older calls count half; at least 2
  int64_t seed_weight;  // number of calls that a seed counts as; 1 to window / 2
  double max_seconds;  // maximum counted duration of a call [s]; above 0
  uint64_t hash_seed;
} takt_tool_profile_options;
TAKT_API void takt_tool_profile_options_init(takt_tool_profile_options* options, size_t size) TAKT_NOEXCEPT;

// Expectation for a tool class, or its seed before the first call has returned. Spreads are standard deviations of
// single calls.
typedef struct takt_tool_expectation {
  uint32_t struct_size;
  uint32_t pooled;  // 1: the class is unknown, so the values are averages over all classes
  takt_estimate seconds, returned_tokens, tokens_before;  // mean below 0: unknown
  double seconds_spread, returned_spread, before_spread;
  int64_t observations;  // number of returned calls, without seeds
} takt_tool_expectation;
TAKT_API void takt_tool_expectation_init(takt_tool_expectation* expectation, size_t size) TAKT_NOEXCEPT;

TAKT_API takt_status takt_tool_profile_create(const takt_tool_profile_options* options, takt_tool_profile** profile,
                                              takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_tool_profile_destroy(takt_tool_profile* profile) TAKT_NOEXCEPT;
// Sets means and spreads of a class from other data, for example from before a restart. Quantiles are ignored.
// TAKT_E_INVALID: no mean, a number that is not finite, or no room for the class.
TAKT_API takt_status takt_tool_profile_seed(takt_tool_profile* profile, uint64_t tool,
                                            const takt_tool_expectation* seed) TAKT_NOEXCEPT;
// Learns from calls. Ignores calls with an invalid time. Sets *counted (may be NULL) to the number of valid calls. A
// new class allocates.
TAKT_API takt_status takt_tool_profile_observe(takt_tool_profile* profile, const takt_tool_call* calls, size_t n,
                                               size_t* counted) TAKT_NOEXCEPT;
TAKT_API takt_status takt_tool_profile_expect(const takt_tool_profile* profile, uint64_t tool,
                                              takt_tool_expectation* expectation) TAKT_NOEXCEPT;

// ---- ranks of agents ------------------------------------------------------------------------------------------------

// Learns ranks of agents from ended calls, for takt_queue_epoch, takt_scheduler_epoch and takt_router_epoch
// (docs/howto/agent_learner.md). Calls allocate: make them outside the step loop. A handle may have its own thread.
typedef struct takt_agent_learner takt_agent_learner;

enum {  // takt_agent_learner_options.order: how the distance of an agent's remaining time from zero is computed
  TAKT_AGENTS_BY_CLASSICAL = 0,  // as a position on the line of classical scaling
  TAKT_AGENTS_BY_SMACOF = 1,  // the same on a line improved by SMACOF
  TAKT_AGENTS_BY_MEAN = 2,
  TAKT_AGENTS_BY_MEDIAN = 3
};

typedef struct takt_agent_learner_options {
  uint32_t struct_size;
  uint32_t order;  // TAKT_AGENTS_BY_...
  uint32_t wall_clock;  // 1: remaining time includes queues and tools
  uint32_t max_agents;  // maximum agents, and maximum names; further agents are ignored
  uint32_t max_workflows;  // maximum open workflows; beyond it, the workflow without a call for longest is closed
  uint32_t converged_only;  // 1: ranks come only from distributions that have converged (Kairos, section 4.3)
  int64_t retire_after;  // time without a call after which a workflow is closed [ns]
  uint64_t hash_seed;
} takt_agent_learner_options;
TAKT_API void takt_agent_learner_options_init(takt_agent_learner_options* options, size_t size) TAKT_NOEXCEPT;

// An ended call of a model.
typedef struct takt_call_record {
  uint64_t workflow;
  uint64_t agent;  // from takt_agent_learner_agent
  uint64_t upstream;  // agent whose answer led to this call; 0: the user's question led to it
  int64_t start;  // start of the call's execution, after any wait
  int64_t end;
} takt_call_record;

TAKT_API takt_status takt_agent_learner_create(const takt_agent_learner_options* options, takt_agent_learner** learner,
                                               takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_agent_learner_destroy(takt_agent_learner* learner) TAKT_NOEXCEPT;
// Sets *agent to the number of an agent's name of n bytes. A new name gets the next number; 0: too many names, or a
// name above 1,024 bytes.
TAKT_API takt_status takt_agent_learner_agent(takt_agent_learner* learner, const char* name, size_t n,
                                              uint64_t* agent) TAKT_NOEXCEPT;
// Adds calls, in any order. Sets *kept (may be NULL) to the number of valid ones.
TAKT_API takt_status takt_agent_learner_add(takt_agent_learner* learner, const takt_call_record* calls, size_t n,
                                            int64_t now, size_t* kept) TAKT_NOEXCEPT;
// Ends a workflow. The learner learns from its calls. TAKT_E_INVALID: no open workflow has this id.
TAKT_API takt_status takt_agent_learner_close(takt_agent_learner* learner, uint64_t workflow) TAKT_NOEXCEPT;
// Drops a workflow without learning from it, for example after a cancellation. TAKT_E_INVALID: no open workflow has
// this id.
TAKT_API takt_status takt_agent_learner_forget(takt_agent_learner* learner, uint64_t workflow) TAKT_NOEXCEPT;
// Sets the agent ranks of an epoch, for takt_..._epoch, or no ranks if no rank has changed since the last call. The
// ranks are valid until the next such call.
TAKT_API takt_status takt_agent_learner_epoch(takt_agent_learner* learner, takt_epoch* epoch) TAKT_NOEXCEPT;
// Sets *text to the learned state and the agents' names, n bytes, valid until the next such call.
TAKT_API takt_status takt_agent_learner_save(takt_agent_learner* learner, const char** text, size_t* n) TAKT_NOEXCEPT;
// Replaces the learned state and the agents' names by a saved text. TAKT_E_INVALID, without effect: the text is
// invalid, and `error` names the line.
TAKT_API takt_status takt_agent_learner_load(takt_agent_learner* learner, const char* text, size_t n,
                                             takt_error* error) TAKT_NOEXCEPT;

// ---- a cascade of models --------------------------------------------------------------------------------------------

// Chooses the model that answers a request first, and decides by a judge's score whether the next model answers it
// (docs/howto/cascade_router.md). Each model's own router chooses an instance. Every request ends in one
// TAKT_CASCADE_ACCEPT, TAKT_CASCADE_FAIL or takt_cascade_router_cancelled, if the host calls
// takt_cascade_router_expire at the time of takt_cascade_router_wake_at.
typedef struct takt_cascade_router takt_cascade_router;

enum {  // takt_cascade_options.on_missing, on_late: decision if the judge gives no score for an answer
  TAKT_VERDICT_AS_PLANNED = 0,  // escalates the planned share of answers, chosen by request id
  TAKT_VERDICT_ACCEPT = 1,
  TAKT_VERDICT_ESCALATE = 2
};

// A model of the cascade. Answers of the last served model are not judged.
typedef struct takt_cascade_stage {
  double accept_at;  // minimum score at which an answer is accepted
  double escalated_share;  // planned share of judged answers that escalate
  uint32_t served;  // 0: the plan gives it no GPUs, so it is skipped
  uint32_t reserved;
} takt_cascade_stage;

typedef struct takt_cascade_options {
  uint32_t struct_size;
  uint32_t on_missing;  // TAKT_VERDICT_...: the judge gave no score
  uint32_t on_late;  // TAKT_VERDICT_...: the judge gave no score within judge_timeout
  uint32_t reserved;
  const takt_cascade_stage* stages;  // 1 to 64 models, in order
  size_t n_stages;
  int64_t judge_timeout;  // [ns]
  uint64_t seed;
  int64_t reserve_requests;  // requests to reserve storage for at creation
} takt_cascade_options;
TAKT_API void takt_cascade_options_init(takt_cascade_options* options, size_t size) TAKT_NOEXCEPT;

enum {  // takt_cascade_action.kind
  TAKT_CASCADE_NONE = 0,  // nothing to do: the event was counted and ignored
  TAKT_CASCADE_SEND = 1,  // send the request to the model's router
  TAKT_CASCADE_JUDGE = 2,  // send the model's answer to the judge
  TAKT_CASCADE_ACCEPT = 3,  // reply with the model's answer
  TAKT_CASCADE_FAIL = 4  // fail the request: no model has answered, and none is left
};
typedef struct takt_cascade_action {
  uint32_t kind;  // TAKT_CASCADE_...
  int32_t model;  // index of the stage
  uint64_t request;
} takt_cascade_action;

TAKT_API takt_status takt_cascade_router_create(const takt_cascade_options* options, takt_cascade_router** router,
                                                takt_error* error) TAKT_NOEXCEPT;
TAKT_API takt_status takt_cascade_router_destroy(takt_cascade_router* router) TAKT_NOEXCEPT;
TAKT_API takt_status takt_cascade_router_arrived(takt_cascade_router* router, uint64_t request,
                                                 takt_cascade_action* action) TAKT_NOEXCEPT;
TAKT_API takt_status takt_cascade_router_answered(takt_cascade_router* router, uint64_t request, int32_t model,
                                                  int64_t now, takt_cascade_action* action) TAKT_NOEXCEPT;
// Handles the judge's score; NaN: the judge gave no score.
TAKT_API takt_status takt_cascade_router_judged(takt_cascade_router* router, uint64_t request, int32_t model,
                                                double score, int64_t now, takt_cascade_action* action) TAKT_NOEXCEPT;
TAKT_API takt_status takt_cascade_router_failed(takt_cascade_router* router, uint64_t request, int32_t model,
                                                takt_cascade_action* action) TAKT_NOEXCEPT;
// Removes a request. TAKT_E_INVALID: unknown request.
TAKT_API takt_status takt_cascade_router_cancelled(takt_cascade_router* router, uint64_t request) TAKT_NOEXCEPT;
// Decides about requests whose score is late. The array is valid until the next such call.
TAKT_API takt_status takt_cascade_router_expire(takt_cascade_router* router, int64_t now,
                                                const takt_cascade_action** actions, size_t* n) TAKT_NOEXCEPT;
TAKT_API takt_status takt_cascade_router_wake_at(const takt_cascade_router* router, int64_t* wake_at) TAKT_NOEXCEPT;
// Sets the stages of a new plan, as many as before. Requests keep their models.
TAKT_API takt_status takt_cascade_router_replan(takt_cascade_router* router, const takt_cascade_stage* stages, size_t n,
                                                takt_error* error) TAKT_NOEXCEPT;
// Sets *model to the last model that received the request; -1: the request is not alive.
TAKT_API takt_status takt_cascade_router_model_of(const takt_cascade_router* router, uint64_t request,
                                                  int32_t* model) TAKT_NOEXCEPT;
TAKT_API size_t takt_cascade_router_stats(const takt_cascade_router* router, takt_stat* stats, size_t n) TAKT_NOEXCEPT;

// Sets *p to the probability that the tail of `now` is worse than the tail of `before` only by chance. A small p means
// that the tail became worse. The alpha of workload_balance is searched again if p of the latencies of two windows is
// below 0.01. `tail`: quantile of both samples above which values count, at least 0 and below 1.
TAKT_API takt_status takt_tail_test(const double* before, size_t n_before, const double* now, size_t n_now, double tail,
                                    double* p) TAKT_NOEXCEPT;

// ---- the log --------------------------------------------------------------------------------------------------------

typedef struct takt_replay_report {
  uint32_t struct_size;
  uint32_t differs;  // 1: a plan differs from the log, which ends the replay
  uint32_t truncated;  // 1: the log ends within a record
  uint32_t reserved;
  int64_t events, plans, commits;
  int64_t plans_compared;
  uint64_t bytes;  // replayed bytes of the log
  uint64_t different_step;  // first step that differs
  int64_t different_at;
  char difference[256];
} takt_replay_report;

// Rebuilds the scheduler of a log and replays all calls. Returns TAKT_OK even if a plan differs. TAKT_E_INVALID: not a
// log, or the log needs a policy that this library does not have. TAKT_E_CORRUPT: damaged. Copies the first n_stats
// counters that the scheduler has at the end, as takt_scheduler_stats does.
TAKT_API takt_status takt_replay(const void* bytes, size_t n, takt_replay_report* report, takt_stat* stats,
                                 size_t n_stats, takt_error* error) TAKT_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  // TAKT_C_TAKT_H_
