// Requests, events, and what plans are made of, in C: docs/howto/c.md. takt.h includes it.
// Made by scripts/mirrors of include/takt/model/; not to be edited.
#ifndef TAKT_C_MODEL_H_
#define TAKT_C_MODEL_H_

#include <stddef.h>
#include <stdint.h>

enum {  // takt_fault.kind: docs/reference/mistakes.md
  TAKT_FAULT_NONE = 0,
  TAKT_FAULT_NO_ID = 1,  // a request whose id is zero
  TAKT_FAULT_ID_IN_USE = 2,  // a request whose id is another's that has not been released
  TAKT_FAULT_PROMPT_TOKENS = 3,  // a request with a prompt that cannot be; `said` tokens
  TAKT_FAULT_MAX_OUTPUT_TOKENS = 4,  // with a cap on output below zero; `said` tokens
  TAKT_FAULT_SEQUENCES = 5,  // with sequences below one, or more than there can be; `said`
  TAKT_FAULT_UNKNOWN_REQUEST = 6,  // an event names no living request
  TAKT_FAULT_UNKNOWN_MOVE = 7,  // no move of this number is in flight; `said`
  TAKT_FAULT_OUT_OF_PLACE = 8,  // the state of its request does not allow the event
  TAKT_FAULT_ABSURD_ESTIMATE = 9,  // a prediction that is NaN, infinite, negative or endless, taken as unknown
  // `said` nanoseconds lie before those of an earlier call, `expected`, and are taken as these
  TAKT_FAULT_CLOCK_BACK = 10,
  TAKT_FAULT_UNKNOWN_STEP = 11,  // a result for a step that is not in flight
  // A result that matches no entry of its step: its request is on lane `expected` there, or not there
  TAKT_FAULT_UNKNOWN_ROW = 12,
  TAKT_FAULT_INVALID_ROW = 13,  // a result of `said` tokens where its entry allows at least one, or at most `expected`
  TAKT_FAULT_UNKNOWN_INSTANCE = 14,  // a router event names an instance that is not up; `said`: its id
  // A count below zero, or an instance without id or with one role alone; `said`: its id
  TAKT_FAULT_INVALID_EVENT = 15,
  TAKT_FAULT_WORKFLOW = 16,  // a router event contradicts what is known of its workflow; `said`: its id
  // A call after an exception, or while another is being made: from a policy, or from another thread
  TAKT_FAULT_ENDED = 17,
  // Limits of a step with a chunk_align of `said`, above its largest chunk of `expected` tokens
  TAKT_FAULT_CHUNK_ALIGN = 18
};

// A prediction as a mean and five quantiles, in the unit of the field that holds it. Unknown by default: policies then
// fall back to what their page says, usually to the order of arrival. A mean above 0 with quantiles that are all 0: the
// mean alone is known.
typedef struct takt_estimate {
  double mean;  // below 0: unknown
  float quantiles[5];  // at 0.1, 0.25, 0.5, 0.75, 0.9
  uint32_t reserved;
} takt_estimate;

// Expected work of the calls of its workflow that have not ended, but for the request itself: those that follow, and
// those that run or wait beside it. Below 0: not known.
typedef struct takt_work_after {
  double calls;  // how many
  double prompt_tokens;  // of all of them
  double output_tokens;  // of all of them
  double kv_steps;  // the context of each, summed over its decode steps [tokens x steps]
  double path_tokens;  // output of the longest chain of calls, each of which waits for the one before
} takt_work_after;

// The tool call that a request is expected to make next. Without a time and an output before it: none is expected.
typedef struct takt_next_call {
  uint64_t tool;  // which, where the host knows it
  int32_t after;  // output tokens before it, from when this was told
  int32_t returned;  // that the answer will add to the context
  int64_t duration;  // of the tool call; 0: not known
} takt_next_call;

// What a model would make of a request.
typedef struct takt_model_score {
  uint64_t model;
  float score;  // how probably it solves what is asked: 0 .. 1
  float tokens;  // output of this call and all that follow in its workflow, on this model; below 0: not told
} takt_model_score;

enum {  // takt_request.flags
  TAKT_REQUEST_UNCHUNKABLE = 1,  // the whole prompt in one step
  TAKT_REQUEST_UNPREEMPTIBLE = 2  // keeps its place until it ends or calls a tool
};

// One call of a model: counts and estimates. Text and sampling parameters stay with the host.
typedef struct takt_request {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t id;  // unique among the living; zero is refused
  uint64_t workflow;  // none: a workflow of its own
  uint64_t stage;  // call site, where the host knows it
  uint64_t agent;  // role, where the host knows it
  uint64_t tenant;  // for fair sharing
  uint64_t adapter;  // LoRA adapter it needs while it runs
  int64_t arrival;  // of this call; TAKT_UNSET: the time of the event
  int64_t workflow_arrival;  // of the whole workflow; TAKT_UNSET: `arrival`
  int64_t deadline;  // of this call's end; of its workflow's, if `compute` is 0; TAKT_NEVER: none
  int64_t expires_at;  // it waits no longer than this before its first step, then fails; TAKT_NEVER: no bound
  int32_t prompt_tokens;  // of this call
  int32_t max_output_tokens;  // the host's cap on output, which it enforces itself; 0: none told
  int32_t sequences;  // parallel samples of one prompt; they share its KV blocks
  int32_t priority;  // lower is sooner
  takt_estimate output_tokens;  // of this call, per sequence [tokens]
  takt_estimate workflow_tokens_left;  // output of this call and all that follow in its workflow [tokens]
  takt_work_after after;  // what else its workflow will have the engine do
  takt_next_call next_call;  // what is known of its next tool call
  int64_t compute;  // expected time of this call alone, where it runs; 0: not known
  const uint64_t* prefix_hashes;  // of the prompt's leading blocks, each of a block and all before it; or NULL
  size_t n_prefix_hashes;
  int32_t prefix_block_tokens;
  uint32_t reserved;
  const takt_model_score* scores;  // for placements among models; of those that are not there: not known; or NULL
  size_t n_scores;
  uint64_t session;  // whose turn it is, where the host knows it
  uint64_t branch;  // Of its workflow: 0 is the main line, others are sub-agents'. What is held is held by branch.
  // Prefixes of requests with different salts never meet, whatever their hashes: one a tenant, say, so that none can
  // tell by the time that it takes what others have asked. TAKT_KV_MODE_LEDGER alone; takt_plan.dropped and host_chunks
  // have takt_salted_hash of both. 0: none
  uint64_t salt;
} takt_request;

// Which part of a request's life an instance serves. Requests that are computed by two instances, one after the other,
// are not placed yet: an instance of one role is refused, and counted as an invalid event.
enum {  // takt_instance.role
  TAKT_ROLE_BOTH = 0,
  TAKT_ROLE_PREFILL = 1,
  TAKT_ROLE_DECODE = 2
};

// An engine with a KV cache of its own.
typedef struct takt_instance {
  uint32_t struct_size;
  int32_t kv_tokens;  // size of its KV cache; 0: not told, everything fits
  uint64_t id;  // unique among those that are up; zero is refused
  uint64_t model;  // what it serves, where models differ
  int64_t capacity;  // requests at once, its own queue included; TAKT_NEVER: no limit; 0: no new ones
  double token_s;  // time of an output token at full batch over that batch [s]; 0: not told
  uint64_t profile;  // of takt_router_add_profile; none: nothing is known of how fast it is
  uint32_t role;  // TAKT_ROLE_BOTH; the others are refused
  uint32_t reserved;
  uint64_t life;  // grows each time the instance starts anew, such as a start time; 0: the router numbers it
} takt_instance;

// A stage of a declared graph: calls that are made in parallel, once all stages before it have ended. Stages of one
// workflow are named by index, counting from 0 in the order of declaration.
typedef struct takt_stage {
  uint64_t stage;  // call site, as its requests bear it; a graph may visit one several times
  const uint32_t* after;  // stages that must have ended before; or NULL
  size_t n_after;
  double cost_s;  // expected time of one call alone, mean over the instances [s]; 0: what was learnt of the site
  int32_t calls;  // made in parallel; at least 1
  uint32_t reserved;
} takt_stage;

// A graph of calls, as far as the host knows it.
typedef struct takt_workflow {
  uint32_t struct_size;
  // 1: more stages may come after all that are known have ended: it ends when the host says so. Always so without
  // stages.
  uint32_t open;
  uint64_t id;  // unique among the living; zero is refused
  uint64_t tenant;  // its SLO class
  int64_t arrival;  // TAKT_UNSET: the time of the event
  int64_t deadline;  // of the whole; TAKT_NEVER: none; TAKT_UNSET: as its tenant's class says
  const takt_stage* stages;  // empty: nothing is known of the graph; or NULL
  size_t n_stages;
} takt_workflow;

typedef struct takt_agent_rank {
  uint64_t agent;
  double rank;  // smaller is sooner; finite
  double execution_s;  // expected time that one of its calls runs; 0: not known
  int32_t stages_left;  // calls one after another to the end of its workflow, this one included; 0: not known
  uint32_t reserved;
} takt_agent_rank;

// What a workflow's branch waits for between two turns.
enum {  // takt_event_turn_ended.why
  TAKT_TURN_UNKNOWN = 0,
  TAKT_TURN_TOOL = 1,
  TAKT_TURN_USER = 2,
  TAKT_TURN_CHILDREN = 3,
  TAKT_TURN_OVER = 4
};

// What of the request holds from here on; the rest stays as it was.
enum {  // takt_event_revised.told
  TAKT_TOLD_OUTPUT_TOKENS = 1,
  TAKT_TOLD_WORKFLOW_TOKENS_LEFT = 2,
  TAKT_TOLD_AFTER = 4,
  TAKT_TOLD_DEADLINE = 8,
  TAKT_TOLD_EXPIRES_AT = 16,
  TAKT_TOLD_PRIORITY = 32,
  TAKT_TOLD_SEQUENCES = 64,  // may only fall: sequences that have ended
  TAKT_TOLD_NEXT_CALL = 128,
  TAKT_TOLD_PROMPT_TOKENS = 256,  // of takt_queue_revise alone, as of a session that is streamed
  TAKT_TOLD_ARRIVAL = 512  // likewise: of the request; that of its workflow stays
};

enum {  // takt_event.type; behind each who takes it, and its part of the union
  // A request that waits from now on.
  TAKT_EVENT_ARRIVED = 1,  // schedulers, routers: u.arrived
  // New knowledge about a living request; what is absent stays as it was.
  TAKT_EVENT_REVISED = 2,  // schedulers, routers: u.revised
  // The request cannot run until TAKT_EVENT_UNBLOCKED (a grammar being compiled, KV that comes from elsewhere). It
  // keeps what KV it holds and leaves the ranked set.
  TAKT_EVENT_BLOCKED = 3,  // schedulers: u.request
  // It may run.
  TAKT_EVENT_UNBLOCKED = 4,  // schedulers: u.kv
  // The request has called a tool: its tokens in flight are void, and the pause policy decides about its KV.
  TAKT_EVENT_TOOL_CALLED = 5,  // schedulers: u.tool_called
  // The tool has answered with this many tokens, which join the context.
  TAKT_EVENT_TOOL_RETURNED = 6,  // schedulers: u.tool_returned
  // The request ends here, whatever it does.
  TAKT_EVENT_CANCELLED = 7,  // schedulers, routers: u.request
  // The host has carried out a KV move of a plan: blocks moved out or dropped are free from here on, a request moved in
  // can run.
  TAKT_EVENT_MOVE_DONE = 8,  // schedulers: u.move_done
  // Nobody reads it any more. No request, host-owned KV only: blocks released earlier are usable now.
  TAKT_EVENT_KV_FREED = 9,  // schedulers: u.request
  // No new work from here on; what lives is finished.
  TAKT_EVENT_DRAIN = 10,  // schedulers
  // A running request is not to be in the next plan (the grammar of its next token is not there yet). It keeps its row,
  // its KV and its place, and later plans have it again. A plan while as many steps are in flight as may be does not
  // count.
  TAKT_EVENT_NOT_READY = 13,  // schedulers: u.request
  // KV of the first tokens of its context is there for a request that does not run (a transfer, a cache that was asked
  // late): it starts behind them where it holds no KV of its own by then. Blocks are counted when it is let in. The
  // last token, which is computed to sample from, does not count.
  TAKT_EVENT_KV_ARRIVED = 14,  // schedulers: u.kv
  // KV is lost, and has to be computed again. Tokens in flight for the request are void where any before them is lost.
  // It keeps its row and its blocks; one without a row gives up what it holds where all is lost. Prefix chunks that it
  // shared are found no more; those who share them are lost only where they are named too. No request: that of all, and
  // whatever is cached (weights were loaded, the cache was reset).
  TAKT_EVENT_KV_LOST = 15,  // schedulers: u.kv
  // Somebody reads the request's KV (a transfer to another engine): from its end on the KV stays, and the request is
  // not released, until TAKT_EVENT_KV_FREED names it. While it lives, its KV may be dropped like any other's.
  TAKT_EVENT_KV_PINNED = 16,  // schedulers: u.request
  // A turn of a workflow's branch has ended with something to wait for, as far as the host knows by now; may be told
  // late, and again: the newest holds, until the branch's next request arrives. What the turn has left in the prefix
  // cache is held by it, and by how such waits have ended before.
  TAKT_EVENT_TURN_ENDED = 18,  // schedulers: u.turn_ended
  // The next turn of a workflow's branch, which is away, is expected at this time: a user types, a tool is nearly done.
  // What it holds counts as used just now.
  TAKT_EVENT_TURN_EXPECTED = 19,  // schedulers: u.turn_expected
  // The first step of a request on its instance begins. For placements that count what waits there apart from what
  // runs; others need not be told.
  TAKT_EVENT_REQUEST_STARTED = 64,  // routers: u.request_started
  // What a request has come to that has not ended, for policies that go by service: say with each report, of all that
  // runs. Told twice, or late, the same changes nothing. `instance` as in TAKT_EVENT_REQUEST_ENDED.
  TAKT_EVENT_REQUEST_SERVED = 65,  // routers: u.request_served
  // A request has left its instance: finished, or `failed`. `instance`: the one that says so, so that the late word of
  // an instance that the request had to leave is not taken for its end; none: wherever it is.
  TAKT_EVENT_REQUEST_ENDED = 66,  // routers: u.request_ended
  // The instance takes requests from here on. A repeated event replaces its description and changes nothing else. A
  // greater `life` means that the instance has restarted, as TAKT_EVENT_INSTANCE_DOWN before it would. A smaller one is
  // late. `life` in other events comes from takt_placement or takt_instance: the router ignores and counts a message of
  // an earlier life.
  TAKT_EVENT_INSTANCE_UP = 67,  // routers: u.instance_up
  // The instance is gone, with all that it held: its requests go back to the queue and are placed again.
  TAKT_EVENT_INSTANCE_DOWN = 68,  // routers: u.instance_down
  // A report whose `as_of` lies before that of an earlier report, or before the instance came up, is late.
  TAKT_EVENT_INSTANCE_REPORTED = 69,  // routers: u.instance_reported
  // A workflow begins (workflow/workflow_table.h). Requests that bear its id are calls of it, by their stage.
  TAKT_EVENT_WORKFLOW_DECLARED = 70,  // routers: u.workflow_declared
  // A workflow has one more stage.
  TAKT_EVENT_WORKFLOW_GROWN = 71,  // routers: u.workflow_grown
  // No further calls are made at the stage.
  TAKT_EVENT_STAGE_ENDED = 72,  // routers: u.stage_ended
  // The workflow is over, early or not. To a router, requests of it that are alive have failed, wherever they are; in a
  // scheduler they go on, and what the workflow alone holds in the prefix cache is dead.
  TAKT_EVENT_WORKFLOW_ENDED = 73  // schedulers, routers: u.workflow_ended
};

typedef struct takt_event_arrived {
  const takt_request* request;
} takt_event_arrived;

typedef struct takt_event_revised {
  const takt_request* request;  // its id says which; of the rest, what is told
  uint32_t told;  // TAKT_TOLD_...
  uint32_t reserved;
} takt_event_revised;

typedef struct takt_event_tool_called {
  uint64_t request;
  int64_t expected;  // predicted duration; 0: unknown
  int32_t expected_returned;  // predicted length of the answer
  uint32_t reserved;
  uint64_t tool;
} takt_event_tool_called;

typedef struct takt_event_tool_returned {
  uint64_t request;
  int32_t returned;
  uint32_t reserved;
  takt_next_call next_call;  // what is expected from here on
} takt_event_tool_returned;

typedef struct takt_event_move_done {
  uint64_t move;
  uint32_t failed;  // 1: the copy was lost: the KV must be computed again
  uint32_t reserved;
} takt_event_move_done;

typedef struct takt_event_turn_ended {
  uint64_t workflow;
  uint64_t branch;
  uint32_t why;
  uint32_t reserved;
  uint64_t tool;  // of TAKT_TURN_TOOL, where the host knows which; zero: not told
  // From the turn's end to the next request; 0: not known. Need not be true: what is learnt is how long those stay away
  // of whom about that was said
  int64_t expected;
  int64_t pin;  // so long from now on it goes after all that is not pinned, as far as pin_share allows; 0: no pin
} takt_event_turn_ended;

typedef struct takt_event_turn_expected {
  uint64_t workflow;
  uint64_t branch;
  int64_t when;
} takt_event_turn_expected;

typedef struct takt_event_request_started {
  uint64_t request;
  uint64_t instance;
  uint64_t life;  // of the instance; 0: the present one
} takt_event_request_started;

typedef struct takt_event_request_served {
  uint64_t request;
  uint64_t instance;
  int32_t prefill;  // tokens of its context; one that is computed again counts again, one found in a cache does not
  int32_t output;  // new tokens of all its sequences
  uint64_t life;  // of the instance; 0: the present one
} takt_event_request_served;

typedef struct takt_event_request_ended {
  uint64_t request;
  uint64_t instance;
  int32_t prefill;  // tokens of its context; one that is computed again counts again, one found in a cache does not
  int32_t output;  // new tokens of all its sequences
  uint32_t failed;  // 1: its stage of a workflow lacks a call again
  uint32_t served;  // 1: `prefill` and `output` are valid
  uint64_t life;  // of the instance; 0: the present one
} takt_event_request_ended;

typedef struct takt_event_instance_up {
  const takt_instance* instance;
} takt_event_instance_up;

typedef struct takt_event_instance_down {
  uint64_t instance;
  uint64_t life;  // of the instance; 0: the present one
} takt_event_instance_down;

typedef struct takt_event_instance_reported {
  uint64_t instance;
  int64_t waiting;  // requests in its own queue
  int64_t running;  // requests that run
  int64_t preempted;  // preemptions since it came up
  int32_t kv_used;  // tokens whose KV it holds
  uint32_t dated;  // 1: `as_of` is set
  // Time up to which the counts are complete, on the router's clock. The report then includes all requests that were
  // placed by that time, and none that were placed later. TAKT_UNSET: unknown; the report then includes as many
  // requests as it counts, the oldest first.
  int64_t as_of;
  uint64_t life;  // of the instance; 0: the present one
} takt_event_instance_reported;

typedef struct takt_event_workflow_declared {
  const takt_workflow* workflow;
} takt_event_workflow_declared;

typedef struct takt_event_workflow_grown {
  uint64_t workflow;
  const takt_stage* stage;  // the new one
  const uint32_t* before;  // stages that come after it; or NULL
  size_t n_before;
} takt_event_workflow_grown;

typedef struct takt_event_stage_ended {
  uint64_t workflow;
  uint32_t stage;
  uint32_t reserved;
} takt_event_stage_ended;

typedef struct takt_event_workflow_ended {
  uint64_t workflow;
  uint32_t cancelled;  // 1: nothing is learnt of it
  uint32_t reserved;
} takt_event_workflow_ended;

typedef struct takt_event_kv {
  uint64_t request;
  // TAKT_EVENT_UNBLOCKED: as TAKT_EVENT_KV_ARRIVED says at the same time; 0: nothing came, or the load failed.
  // TAKT_EVENT_KV_ARRIVED: how many. TAKT_EVENT_KV_LOST: that of the tokens from this one on
  int32_t tokens;
  uint32_t reserved;
} takt_event_kv;

// A fact, 64 bytes. Pointers in it are read during the call.
typedef struct takt_event {
  uint32_t type;
  uint32_t reserved;
  union {
    uint64_t request;  // which; of events that tell nothing else
    takt_event_arrived arrived;
    takt_event_revised revised;
    takt_event_kv kv;
    takt_event_tool_called tool_called;
    takt_event_tool_returned tool_returned;
    takt_event_move_done move_done;
    takt_event_turn_ended turn_ended;
    takt_event_turn_expected turn_expected;
    takt_event_request_started request_started;
    takt_event_request_served request_served;
    takt_event_request_ended request_ended;
    takt_event_instance_up instance_up;
    takt_event_instance_down instance_down;
    takt_event_instance_reported instance_reported;
    takt_event_workflow_declared workflow_declared;
    takt_event_workflow_grown workflow_grown;
    takt_event_stage_ended stage_ended;
    takt_event_workflow_ended workflow_ended;
    uint64_t words[7];
  } u;
} takt_event;

// What the host allows this iteration. May change from step to step.
typedef struct takt_limits {
  uint32_t struct_size;
  int32_t tokens;  // token budget: prefill and decode together
  int32_t max_seqs;  // sequences that run at once
  int32_t prefill_tokens;  // share of the budget that prefill may take
  // Longest prefill chunk of one request. Maximum: not set; a long prompt takes whole steps, and leaves others room in
  // each while they wait.
  int32_t chunk_tokens;
  int32_t adapters;  // distinct adapters that run at once
  int32_t swap_out;  // KV blocks that may start to move to the host's memory
  int32_t swap_in;  // and back
  // A prefill chunk of a chunkable request ends at a multiple of this, or with what is known. A request waits for a
  // larger step if no multiple lies within the other limits. An alignment above the largest chunk is a fault.
  int32_t chunk_align;
} takt_limits;

enum {  // takt_plan_entry.flags
  TAKT_ENTRY_PREFILL = 1,  // computes known tokens (prompt, or context lost to a preemption or a tool's answer)
  TAKT_ENTRY_SAMPLES = 2,  // ends at the last known token: yields a new one per sequence
  TAKT_ENTRY_ADMITTED = 4,  // first step since it left the waiting queue
  TAKT_ENTRY_GATED = 8  // of those, that it was kept out by the gate before
};

// One request's part of a step: token counts, not phases. 32 bits of lane name the row, so that neither side hashes per
// running request.
typedef struct takt_plan_entry {
  uint64_t request;
  uint32_t lane;  // the scheduler's row; stable while the request runs
  int32_t tokens;  // known tokens to compute in this step, all sequences together
  int32_t position;  // tokens of its context that are computed, or in flight, before this step
  uint16_t speculative;  // draft tokens to verify on top
  uint16_t flags;
} takt_plan_entry;

enum {  // takt_row_result.flags
  TAKT_ROW_FINISHED = 1,
  TAKT_ROW_FAILED = 2
};

// What a step did for one request.
typedef struct takt_row_result {
  uint64_t request;
  uint32_t lane;  // as in the plan's entry
  // New tokens per sequence: 1 where the entry samples, more with accepted drafts, else 0. Of a row that has failed: a
  // code of the host's own, which its takt_failure repeats.
  uint16_t tokens;
  uint8_t drafts;  // draft tokens to verify next time
  uint8_t flags;
} takt_row_result;

enum {  // takt_move.action, takt_preemption.action, takt_host_chunk.action
  TAKT_KV_KEEP = 0,  // stays on the GPU while the request does not run
  TAKT_KV_DROP = 1,  // freed; to be computed again
  TAKT_KV_OUT = 2,  // copied to the host's memory, then freed
  TAKT_KV_IN = 3,  // copied back
  TAKT_KV_FETCH = 4  // the beginning of a prompt, copied from what the host's memory keeps of prompts
};

// A KV move that the host carries out and reports by TAKT_EVENT_MOVE_DONE. Blocks [first, first + count) of the
// request. What lies behind blocks that move out is dropped: the host frees it with them, and its tokens are computed
// again. TAKT_KV_FETCH: these blocks of its prompt come from chunks that the host's memory keeps
// (takt_plan.host_chunks), which stay there.
typedef struct takt_move {
  uint64_t id;
  uint64_t request;
  uint8_t action;
  uint8_t reserved[3];
  int32_t first;
  int32_t count;
  uint32_t reserved_too;
} takt_move;

// A running request that lost its place. Its tokens in flight are void: the host discards what those steps yield for
// it. TAKT_KV_DROP frees at once (or when its steps in flight have resolved); TAKT_KV_OUT is followed by a takt_move.
typedef struct takt_preemption {
  uint64_t request;
  uint8_t action;
  uint8_t reserved[7];
} takt_preemption;

enum {  // takt_failure.reason
  TAKT_FAIL_INVALID = 0,  // contradicts itself: no prompt and nothing to compute, sequences < 1, id zero
  TAKT_FAIL_NEVER_FITS = 1,  // more KV, tokens per step or sequences than the engine has
  TAKT_FAIL_KV_EXHAUSTED = 2,  // its context outgrew the whole KV cache
  TAKT_FAIL_EXPIRED = 3,  // waited past expires_at, or for a stage of its workflow that never came
  TAKT_FAIL_SHED = 4,  // bounded waiting: no place
  TAKT_FAIL_DRAINING = 5,  // arrived after TAKT_EVENT_DRAIN
  TAKT_FAIL_HOST = 6,  // the host said that the step failed for it, or that its workflow is over
  // Its id is another's that has not been released: this one was never let in, and that one goes on
  TAKT_FAIL_ID_IN_USE = 7
};

// A request that the host must fail towards its client. It is named in `released` too, in this plan or a later one.
// With TAKT_FAIL_ID_IN_USE, or an id of zero, the newcomer is meant: it is in no `released`, and a request that has the
// id goes on.
typedef struct takt_failure {
  uint64_t request;
  uint8_t reason;
  uint8_t reserved;
  uint16_t code;  // TAKT_FAIL_HOST, by a row's result: the code that stood there
  uint32_t reserved_too;
} takt_failure;

// A chunk of a prefix that left the prefix cache: whoever finds blocks by its hash must forget it.
typedef struct takt_dropped_prefix {
  uint64_t hash;  // as in takt_request.prefix
  int32_t blocks;  // of which it consisted
  uint32_t reserved;
} takt_dropped_prefix;

enum {  // takt_cache_hint.action
  TAKT_CACHE_HOLD = 0,  // worth so much, and until then
  TAKT_CACHE_DROP = 1,  // nothing comes after it
  TAKT_CACHE_FETCH = 2  // its next turn is expected by then
};

// A wish to a host that keeps its cache of prompts by itself (TAKT_KV_MODE_ORACLE): what a workflow's branch has left
// there. The newest of a branch holds.
typedef struct takt_cache_hint {
  uint64_t workflow;
  uint64_t branch;
  uint8_t action;
  uint8_t priority;  // 15 to 55; below 35 it is worth less than what would go for it
  uint8_t reserved[6];
  int64_t until;  // TAKT_CACHE_HOLD: from here on it is worth less than what it keeps out; TAKT_CACHE_FETCH: the time
  int32_t tokens;  // of the branch's context, as far as is known
  uint32_t reserved_too;
} takt_cache_hint;

// A chunk of a prefix that is to be kept in the host's memory, or no more. TAKT_KV_OUT: to be copied there before
// anything overwrites its blocks on the GPU, which this plan or a later one may do. TAKT_KV_DROP: forgotten there.
typedef struct takt_host_chunk {
  uint64_t hash;  // as in takt_request.prefix; of a request with a salt, takt_salted_hash of both
  int32_t blocks;
  uint8_t action;
  uint8_t reserved[3];
} takt_host_chunk;

// A request that ran, and the tokens computed for it. A host that learns the tokens later reports them with
// takt_queue_computed.
typedef struct takt_ran {
  uint64_t request;
  int32_t prefill;  // known tokens that were computed
  int32_t output;  // new tokens per sequence
} takt_ran;

// A request on the host's engine, and the KV that preempting it would free.
typedef struct takt_holding {
  uint64_t request;
  int32_t blocks;
  uint32_t reserved;
} takt_holding;

typedef struct takt_placement {
  uint64_t request;
  uint64_t instance;  // instance that computes the request
  uint64_t life;  // life of `instance`; events about this placement name it
} takt_placement;

enum {  // takt_workflow_end.how
  TAKT_WORKFLOW_COMPLETED = 0,  // all its stages have ended, or the host said that it is over
  TAKT_WORKFLOW_CANCELLED = 1,
  TAKT_WORKFLOW_SILENT = 2  // failed: nothing was heard of it for too long
};

// How a workflow went.
typedef struct takt_workflow_end {
  uint64_t workflow;
  uint8_t how;
  uint8_t reserved[7];
  int64_t arrival;
  int64_t end;
  int64_t deadline;
  uint32_t stage;  // TAKT_WORKFLOW_SILENT: the first stage that had not ended, or the number of stages
  uint32_t reserved_too;
} takt_workflow_end;

// What is wrong with something that was said about a workflow. Nothing has changed then.
typedef struct takt_workflow_fault {
  uint8_t kind;
  uint8_t reserved[7];
  uint64_t workflow;
  uint32_t stage;  // index
  uint32_t reserved_too;
  uint64_t site;
} takt_workflow_fault;

// A call that has returned.
typedef struct takt_tool_call {
  uint64_t tool;  // none: joins the pool alone
  double seconds;  // how long it took
  int64_t returned_tokens;  // that join the context
  int64_t tokens_before;  // generated since the prompt, or since the call before; negative: not told
} takt_tool_call;

// Why a plan runs nothing.
enum {  // takt_plan.idle
  TAKT_IDLE_BUSY = 0,  // it does run something
  TAKT_IDLE_NO_REQUESTS = 1,  // nothing lives here
  TAKT_IDLE_DRAINED = 2,  // nothing lives here, and TAKT_EVENT_DRAIN was asked for
  TAKT_IDLE_STEPS_IN_FLIGHT = 3,  // all that could run is in flight, or too many steps are: Commit first
  TAKT_IDLE_MOVES_IN_FLIGHT = 4,  // waits for KV moves to be done
  TAKT_IDLE_KV_PENDING = 5,  // waits for KV that the host frees later
  TAKT_IDLE_PAUSED = 6,  // all that lives waits for tools
  TAKT_IDLE_BLOCKED = 7,  // all that lives is blocked (or blocked and paused), or was not ready for this plan
  TAKT_IDLE_NO_BUDGET = 8,  // the limits of this step allow nothing
  TAKT_IDLE_KV_HELD = 9,  // what waits does not fit beside KV that is in use elsewhere, or the host's oracle refuses it
  TAKT_IDLE_ENDED = 10,  // an exception has left a call half-way: nothing will ever run
  TAKT_IDLE_DECLINED = 11,  // the policy keeps out what could run
  TAKT_IDLE_GATED = 12  // the gate does, until wake_at perhaps
};

#endif  // TAKT_C_MODEL_H_
