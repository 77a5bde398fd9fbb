// Requests, events, and what plans are made of, in C: docs/howto/c.md. takt.h includes it.
// Made by scripts/mirrors of include/takt/model/; not to be edited.
#ifndef TAKT_C_MODEL_H_
#define TAKT_C_MODEL_H_

#include <stddef.h>
#include <stdint.h>

enum {  // takt_fault.kind: docs/reference/mistakes.md
  TAKT_FAULT_NONE = 0,
  TAKT_FAULT_NO_ID = 1,  // a request with id 0
  TAKT_FAULT_ID_IN_USE = 2,  // a request whose id belongs to a request that has not been released
  TAKT_FAULT_PROMPT_TOKENS = 3,  // a request with an invalid prompt length of `received` tokens
  TAKT_FAULT_MAX_OUTPUT_TOKENS = 4,  // a request with a negative limit on output of `received` tokens
  TAKT_FAULT_SEQUENCES = 5,  // a request with fewer than one or too many sequences: `received`
  TAKT_FAULT_UNKNOWN_REQUEST = 6,  // an event for a request that is not alive
  TAKT_FAULT_UNKNOWN_MOVE = 7,  // a finished move that is not in flight; `received`: its number
  TAKT_FAULT_OUT_OF_PLACE = 8,  // an event that the state of its request does not allow
  TAKT_FAULT_ABSURD_ESTIMATE = 9,  // an estimate that is NaN, infinite, negative or too large; treated as unknown
  // A time of `received` ns, earlier than `expected`, the time of a previous call, which is used instead
  TAKT_FAULT_CLOCK_BACK = 10,
  TAKT_FAULT_UNKNOWN_STEP = 11,  // a result for a step that is not in flight
  // A result without an entry in its step; `expected`: the lane of its request, or below 0
  TAKT_FAULT_UNKNOWN_ROW = 12,
  // A result of `received` tokens, when its entry allows at most `expected`, or requires at least one
  TAKT_FAULT_INVALID_ROW = 13,
  TAKT_FAULT_UNKNOWN_INSTANCE = 14,  // a router event for an instance that is not up; `received`: its id
  // A negative count, or an instance without id or with an unsupported role; `received`: its id
  TAKT_FAULT_INVALID_EVENT = 15,
  TAKT_FAULT_WORKFLOW = 16,  // a router event that contradicts the state of its workflow; `received`: its id
  TAKT_FAULT_ENDED = 17,  // a call after an exception, or during another call, from a policy or another thread
  // Limits with a chunk_align of `received`, above the largest possible chunk of `expected` tokens
  TAKT_FAULT_CHUNK_ALIGN = 18
};

// A prediction: a mean and five quantiles, in the unit of the field that holds it. The default is unknown: policies
// then use the fallback that their page documents, usually the order of arrival. A mean above 0 with all quantiles 0
// means that only the mean is known.
typedef struct takt_estimate {
  double mean;  // negative: unknown
  float quantiles[5];  // at 0.1, 0.25, 0.5, 0.75, 0.9
  uint32_t reserved;
} takt_estimate;

// Expected work of all other unfinished calls of the same workflow: later calls, and calls that run or wait now. Below
// 0: unknown.
typedef struct takt_work_after {
  double calls;  // number of calls
  double prompt_tokens;  // sum over these calls
  double output_tokens;  // sum over these calls
  double kv_steps;  // sum over these calls and their decode steps of the context [tokens x steps]
  double path_tokens;  // output tokens on the longest chain of dependent calls
} takt_work_after;

// The expected next tool call of a request. If `after` and `duration` are both 0, no call is expected.
typedef struct takt_next_call {
  uint64_t tool;  // tool to call; 0: unknown
  int32_t after;  // output tokens before the call, counted from this event
  int32_t returned;  // tokens that the answer adds to the context
  int64_t duration;  // duration of the tool call; 0: unknown
} takt_next_call;

// Prediction of how one model would answer a request.
typedef struct takt_model_score {
  uint64_t model;
  float score;  // probability of a correct answer: 0 to 1
  float tokens;  // predicted output of this and all later calls of the workflow on this model; below 0: unknown
} takt_model_score;

enum {  // takt_request.flags
  TAKT_REQUEST_UNCHUNKABLE = 1,  // the whole prompt must run in one step
  TAKT_REQUEST_UNPREEMPTIBLE = 2  // runs until it ends or calls a tool
};

// One call of a model: token counts and estimates. Text and sampling parameters stay with the host.
typedef struct takt_request {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t id;  // unique among living requests; must not be 0
  uint64_t workflow;  // 0: a workflow of its own
  uint64_t stage;  // call site within the workflow; 0: unknown
  uint64_t agent;  // agent (role) that makes the call; 0: unknown
  uint64_t tenant;  // tenant, for fair sharing
  uint64_t adapter;  // LoRA adapter that it needs while it runs
  int64_t arrival;  // arrival of this call; TAKT_UNSET: the time of the event
  int64_t workflow_arrival;  // arrival of the whole workflow; TAKT_UNSET: `arrival`
  int64_t deadline;  // deadline of this call, or of its workflow if `compute` is 0; TAKT_NEVER: none
  int64_t expires_at;  // the request fails if its first step is later; TAKT_NEVER: no limit
  int32_t prompt_tokens;  // length of the prompt
  int32_t max_output_tokens;  // maximum output, which the host enforces; 0: unknown
  int32_t sequences;  // parallel samples of one prompt, which share its KV blocks
  int32_t priority;  // lower runs sooner
  takt_estimate output_tokens;  // output of this call, per sequence [tokens]
  takt_estimate workflow_tokens_left;  // output of this and all following calls of the workflow [tokens]
  takt_work_after after;  // expected work of the workflow's other calls
  takt_next_call next_call;  // expected next tool call
  int64_t compute;  // expected execution time of this call alone; 0: unknown
  const uint64_t* prefix_hashes;  // of the prompt's leading blocks, each of a block and all before it; or NULL
  size_t n_prefix_hashes;
  int32_t prefix_block_tokens;
  uint32_t reserved;
  const takt_model_score* scores;  // scores per model, for placements that choose models; absent: unknown; or NULL
  size_t n_scores;
  uint64_t session;  // session of the turn; 0: unknown
  // Branch of its workflow: 0 is the main line, others are sub-agents. KV between turns is held per branch.
  uint64_t branch;
  // Isolates prefixes: requests with different salts never share KV. Use one salt per tenant to prevent timing attacks
  // on the cache. TAKT_KV_MODE_LEDGER only; takt_plan.dropped and host_chunks contain takt_salted_hash(hash, salt). 0:
  // none
  uint64_t salt;
} takt_request;

// Phases that an instance serves. Only TAKT_ROLE_BOTH is supported: the router rejects an instance of another role, and
// counts an invalid event.
enum {  // takt_instance.role
  TAKT_ROLE_BOTH = 0,
  TAKT_ROLE_PREFILL = 1,
  TAKT_ROLE_DECODE = 2
};

// An engine with its own KV cache.
typedef struct takt_instance {
  uint32_t struct_size;
  int32_t kv_tokens;  // size of its KV cache [tokens]; 0: unknown, every request fits
  uint64_t id;  // unique among instances that are up; must not be 0
  uint64_t model;  // model that it serves, if models differ
  int64_t capacity;  // maximum requests, including its queue; TAKT_NEVER: no limit; 0: no new ones
  double token_s;  // step time at full batch / sequences in the batch [s per output token]; 0: unknown
  uint64_t profile;  // result of takt_router_add_profile; 0: speed unknown
  uint32_t role;  // must be TAKT_ROLE_BOTH
  uint32_t reserved;
  uint64_t life;  // increases at each restart, for example a start time; 0: the router counts restarts
} takt_instance;

// A stage of a declared graph: parallel calls that start when all stages in `after` have ended. Stages are referred to
// by index, starting at 0, in the order of declaration.
typedef struct takt_stage {
  uint64_t stage;  // call site, as in takt_request.stage; a graph may contain it several times
  const uint32_t* after;  // indices of stages that must end first; or NULL
  size_t n_after;
  double cost_s;  // expected execution time of one call, mean over the instances [s]; 0: learned per call site
  int32_t calls;  // parallel calls; at least 1
  uint32_t reserved;
} takt_stage;

// A graph of calls, as far as the host knows it.
typedef struct takt_workflow {
  uint32_t struct_size;
  // 1: true: further stages may come after all known stages have ended, so the host ends the workflow explicitly.
  // Implied if `stages` is empty.
  uint32_t open;
  uint64_t id;  // unique among living workflows; must not be 0
  uint64_t tenant;  // tenant, which selects the SLO class
  int64_t arrival;  // TAKT_UNSET: the time of the event
  int64_t deadline;  // deadline of the whole workflow; TAKT_NEVER: none; TAKT_UNSET: from the tenant's SLO class
  const takt_stage* stages;  // empty: the graph is unknown; or NULL
  size_t n_stages;
} takt_workflow;

typedef struct takt_agent_rank {
  uint64_t agent;
  double rank;  // a smaller rank runs sooner; finite
  double execution_s;  // expected execution time of one of its calls [s]; 0: unknown
  int32_t stages_left;  // calls on the longest path to the end of its workflow, including this one; 0: unknown
  uint32_t reserved;
} takt_agent_rank;

// The reason why a branch of a workflow waits between two turns.
enum {  // takt_event_turn_ended.why
  TAKT_TURN_UNKNOWN = 0,
  TAKT_TURN_TOOL = 1,
  TAKT_TURN_USER = 2,
  TAKT_TURN_CHILDREN = 3,
  TAKT_TURN_OVER = 4
};

// What of the request holds from here on; the rest stays as it was.
enum {  // takt_event_revised.fields
  TAKT_REVISED_OUTPUT_TOKENS = 1,
  TAKT_REVISED_WORKFLOW_TOKENS_LEFT = 2,
  TAKT_REVISED_AFTER = 4,
  TAKT_REVISED_DEADLINE = 8,
  TAKT_REVISED_EXPIRES_AT = 16,
  TAKT_REVISED_PRIORITY = 32,
  TAKT_REVISED_SEQUENCES = 64,  // may only decrease, when sequences have ended
  TAKT_REVISED_NEXT_CALL = 128,
  TAKT_REVISED_PROMPT_TOKENS = 256,  // of takt_queue_revise alone, as of a session that is streamed
  TAKT_REVISED_ARRIVAL = 512  // likewise: of the request; that of its workflow stays
};

enum {  // takt_event.type; behind each who takes it, and its part of the union
  // A new request joins the waiting queue.
  TAKT_EVENT_ARRIVED = 1,  // schedulers, routers: u.arrived
  // Updates estimates or limits of a living request. Absent fields keep their values.
  TAKT_EVENT_REVISED = 2,  // schedulers, routers: u.revised
  // The request may not run until TAKT_EVENT_UNBLOCKED, for example while its grammar compiles or its KV is
  // transferred. It keeps its KV and leaves the ranked queue.
  TAKT_EVENT_BLOCKED = 3,  // schedulers: u.request
  // A blocked request may run again.
  TAKT_EVENT_UNBLOCKED = 4,  // schedulers: u.kv
  // The request has called a tool. Its tokens in flight are discarded, and the pause policy decides about its KV.
  TAKT_EVENT_TOOL_CALLED = 5,  // schedulers: u.tool_called
  // The tool has answered. The tokens of the answer join the context.
  TAKT_EVENT_TOOL_RETURNED = 6,  // schedulers: u.tool_returned
  // Ends the request, whatever its state.
  TAKT_EVENT_CANCELLED = 7,  // schedulers, routers: u.request
  // The host has finished a KV move of a plan. Blocks moved out or dropped are now free. A request that was moved in
  // can run.
  TAKT_EVENT_MOVE_DONE = 8,  // schedulers: u.move_done
  // Ends TAKT_EVENT_KV_PINNED. Without a request (KV counted by the host only): blocks released earlier are usable now.
  TAKT_EVENT_KV_FREED = 9,  // schedulers: u.request
  // Rejects new requests; living requests finish.
  TAKT_EVENT_DRAIN = 10,  // schedulers
  // A running request must be left out of the next plan, for example because the grammar of its next token is not
  // ready. It keeps its row, its KV and its rank, and later plans include it again. A plan made while the maximum of
  // steps is in flight does not count.
  TAKT_EVENT_NOT_READY = 13,  // schedulers: u.request
  // KV of the first `computed` tokens of a request that is not running is available, for example after a transfer or a
  // late cache lookup. The request starts after these tokens, unless it holds KV of its own by then. Blocks are counted
  // at admission. The last token does not count, since it must be computed to sample.
  TAKT_EVENT_KV_ARRIVED = 14,  // schedulers: u.kv
  // KV is lost and must be recomputed. Tokens in flight after a lost token are discarded. A running request keeps its
  // row and its blocks; another request gives up its blocks if all its KV is lost. Prefix chunks that it shared leave
  // the prefix cache; other requests that share them need events of their own. Without a request, the KV of all
  // requests and the prefix cache are lost, for example after a reload of the weights.
  TAKT_EVENT_KV_LOST = 15,  // schedulers: u.kv
  // Another reader uses the request's KV, for example a transfer to another engine. After the request ends, its KV
  // stays and the request is not released until TAKT_EVENT_KV_FREED. While the request lives, its KV may still be
  // dropped.
  TAKT_EVENT_KV_PINNED = 16,  // schedulers: u.request
  // A turn of a workflow's branch has ended, and its next turn is expected. The retention policy uses `why` and the
  // history of similar waits to decide how long to keep the turn's KV in the prefix cache. The event may be late and
  // may be repeated: the newest holds until the branch's next request arrives.
  TAKT_EVENT_TURN_ENDED = 18,  // schedulers: u.turn_ended
  // The next turn of a waiting branch is expected at `when`, for example because a user types or a tool is nearly done.
  // Its KV counts as just used.
  TAKT_EVENT_TURN_EXPECTED = 19,  // schedulers: u.turn_expected
  // A request's first step on its instance begins. Only placements that separate waiting from running requests need
  // this event.
  TAKT_EVENT_REQUEST_STARTED = 64,  // routers: u.request_started
  // Progress of a running request, for policies that rank by service. Send it for all running requests with each
  // report. Repeated and outdated events have no effect. `instance` as in TAKT_EVENT_REQUEST_ENDED.
  TAKT_EVENT_REQUEST_SERVED = 65,  // routers: u.request_served
  // A request has left its instance: it has finished or failed. `instance` is the sender, so that the router ignores
  // late messages of an instance that no longer has the request. None: the current instance.
  TAKT_EVENT_REQUEST_ENDED = 66,  // routers: u.request_ended
  // The instance accepts requests from now on. A repeated event only replaces its description. A greater `life` means a
  // restart, and implies TAKT_EVENT_INSTANCE_DOWN; a smaller `life` is outdated. `life` in other events is copied from
  // takt_placement or takt_instance. The router ignores and counts messages of an earlier life.
  TAKT_EVENT_INSTANCE_UP = 67,  // routers: u.instance_up
  // The instance and its KV are gone. Its requests return to the queue and are placed again.
  TAKT_EVENT_INSTANCE_DOWN = 68,  // routers: u.instance_down
  // An instance reports its load. A report is outdated if its `as_of` is before that of an earlier report, or before
  // the instance came up.
  TAKT_EVENT_INSTANCE_REPORTED = 69,  // routers: u.instance_reported
  // Declares a workflow (workflow/workflow_table.h). Requests with its id are its calls, assigned by stage.
  TAKT_EVENT_WORKFLOW_DECLARED = 70,  // routers: u.workflow_declared
  // Adds a stage to a workflow.
  TAKT_EVENT_WORKFLOW_GROWN = 71,  // routers: u.workflow_grown
  // The stage makes no further calls.
  TAKT_EVENT_STAGE_ENDED = 72,  // routers: u.stage_ended
  // The workflow is over, complete or not. A router fails its living requests on all instances. A scheduler lets them
  // finish; prefix cache entries that only this workflow uses become free to evict.
  TAKT_EVENT_WORKFLOW_ENDED = 73  // schedulers, routers: u.workflow_ended
};

typedef struct takt_event_arrived {
  const takt_request* request;
} takt_event_arrived;

typedef struct takt_event_revised {
  const takt_request* request;  // its id says which; of the rest, the fields that change
  uint32_t fields;  // TAKT_REVISED_...
  uint32_t reserved;
} takt_event_revised;

typedef struct takt_event_tool_called {
  uint64_t request;
  int64_t expected;  // predicted duration of the tool call; 0: unknown
  int32_t expected_returned;  // predicted length of the answer; 0: unknown
  uint32_t reserved;
  uint64_t tool;
} takt_event_tool_called;

typedef struct takt_event_tool_returned {
  uint64_t request;
  int32_t returned;
  uint32_t reserved;
  takt_next_call next_call;  // expected next tool call
} takt_event_tool_returned;

typedef struct takt_event_move_done {
  uint64_t move;
  uint32_t failed;  // 1: true: the copy was lost, and the KV must be recomputed
  uint32_t reserved;
} takt_event_move_done;

typedef struct takt_event_turn_ended {
  uint64_t workflow;
  uint64_t branch;
  uint32_t why;
  uint32_t reserved;
  uint64_t tool;  // tool of a TAKT_TURN_TOOL wait; 0: unknown
  // Predicted time from the turn's end to the next request; 0: unknown. Need not be accurate: takt learns how long
  // workflows with a similar estimate actually stay away.
  int64_t expected;
  int64_t pin;  // time from now during which unpinned KV is evicted first, within pin_share; 0: no pin
} takt_event_turn_ended;

typedef struct takt_event_turn_expected {
  uint64_t workflow;
  uint64_t branch;
  int64_t when;
} takt_event_turn_expected;

typedef struct takt_event_request_started {
  uint64_t request;
  uint64_t instance;
  uint64_t life;  // life of the instance; 0: the current one
} takt_event_request_started;

typedef struct takt_event_request_served {
  uint64_t request;
  uint64_t instance;
  int32_t prefill;  // Context tokens, including recomputed tokens, excluding prefix cache hits.
  int32_t output;  // new tokens of all sequences
  uint64_t life;  // life of the instance; 0: the current one
} takt_event_request_served;

typedef struct takt_event_request_ended {
  uint64_t request;
  uint64_t instance;
  int32_t prefill;  // Context tokens, including recomputed tokens, excluding prefix cache hits.
  int32_t output;  // new tokens of all sequences
  uint32_t failed;  // 1: true: the workflow stage must make the call again
  uint32_t served;  // 1: `prefill` and `output` are valid
  uint64_t life;  // life of the instance; 0: the current one
} takt_event_request_ended;

typedef struct takt_event_instance_up {
  const takt_instance* instance;
} takt_event_instance_up;

typedef struct takt_event_instance_down {
  uint64_t instance;
  uint64_t life;  // life of the instance; 0: the current one
} takt_event_instance_down;

typedef struct takt_event_instance_reported {
  uint64_t instance;
  int64_t waiting;  // requests in the instance's own queue
  int64_t running;  // running requests
  int64_t preempted;  // preemptions since the instance came up
  int32_t kv_used;  // tokens that occupy its KV cache
  uint32_t dated;  // 1: `as_of` is set
  // Time up to which the counts are complete, on the router's clock. The report then covers all requests placed by that
  // time, and no later ones. TAKT_UNSET: unknown. The report then covers the oldest requests, as many as it counts.
  int64_t as_of;
  uint64_t life;  // life of the instance; 0: the current one
} takt_event_instance_reported;

typedef struct takt_event_workflow_declared {
  const takt_workflow* workflow;
} takt_event_workflow_declared;

typedef struct takt_event_workflow_grown {
  uint64_t workflow;
  const takt_stage* stage;  // the new stage
  const uint32_t* before;  // stages that follow the new one; or NULL
  size_t n_before;
} takt_event_workflow_grown;

typedef struct takt_event_stage_ended {
  uint64_t workflow;
  uint32_t stage;
  uint32_t reserved;
} takt_event_stage_ended;

typedef struct takt_event_workflow_ended {
  uint64_t workflow;
  uint32_t cancelled;  // 1: true: takt learns nothing from this workflow
  uint32_t reserved;
} takt_event_workflow_ended;

typedef struct takt_event_kv {
  uint64_t request;
  // TAKT_EVENT_UNBLOCKED: as in TAKT_EVENT_KV_ARRIVED, sent together with this event; 0: no KV arrived, or the load
  // failed. TAKT_EVENT_KV_ARRIVED: tokens at the start of the context. TAKT_EVENT_KV_LOST: first lost token of the
  // context
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

// The host's limits of one iteration. They may change at each step.
typedef struct takt_limits {
  uint32_t struct_size;
  int32_t tokens;  // token budget: prefill and decode together
  int32_t max_seqs;  // maximum running sequences
  int32_t prefill_tokens;  // maximum prefill tokens
  // Longest prefill chunk of one request. Maximum value: not set; a long prompt then takes whole steps, but leaves room
  // in them for waiting requests.
  int32_t chunk_tokens;
  int32_t adapters;  // maximum distinct LoRA adapters that run at once
  int32_t swap_out;  // maximum KV blocks that may start to move to host memory
  int32_t swap_in;  // maximum KV blocks that may start to move back
  // Alignment of prefill chunks: the chunk of a chunkable request ends at a multiple of this, or at the end of its
  // known tokens. A request waits for a larger step if no multiple fits the other limits. An alignment above the
  // largest chunk is a fault.
  int32_t chunk_align;
} takt_limits;

enum {  // takt_plan_entry.flags
  TAKT_ENTRY_PREFILL = 1,  // computes known tokens: the prompt, recomputed context, or a tool's answer
  TAKT_ENTRY_SAMPLES = 2,  // ends at the last known token: yields a new one per sequence
  TAKT_ENTRY_ADMITTED = 4,  // first step since the request left the waiting queue
  TAKT_ENTRY_GATED = 8  // admitted after the gate had kept it out
};

// One request's part of a step: token counts instead of phases. `lane` is the row of the request, so that neither side
// needs a hash lookup per running request.
typedef struct takt_plan_entry {
  uint64_t request;
  uint32_t lane;  // the scheduler's row; constant while the request runs
  int32_t tokens;  // known tokens to compute in this step, all sequences together
  int32_t position;  // context tokens that are computed or in flight before this step
  uint16_t speculative;  // draft tokens to verify in addition
  uint16_t flags;  // bits of Flag
} takt_plan_entry;

enum {  // takt_row_result.flags
  TAKT_ROW_FINISHED = 1,
  TAKT_ROW_FAILED = 2
};

// Result of a step for one request.
typedef struct takt_row_result {
  uint64_t request;
  uint32_t lane;  // as in takt_plan_entry
  // New tokens per sequence: 1 if the entry samples, more with accepted draft tokens, else 0. Of a failed row: an error
  // code of the host, which takt_failure.code repeats.
  uint16_t tokens;
  uint8_t drafts;  // draft tokens to verify in the next step
  uint8_t flags;  // bits of Flag
} takt_row_result;

enum {  // takt_move.action, takt_preemption.action, takt_host_chunk.action
  TAKT_KV_KEEP = 0,  // stays on the GPU while the request does not run
  TAKT_KV_DROP = 1,  // freed; must be recomputed
  TAKT_KV_OUT = 2,  // copied to host memory, then freed
  TAKT_KV_IN = 3,  // copied back to the GPU
  TAKT_KV_FETCH = 4  // start of a prompt, copied from the prefix copies in host memory
};

// A KV move that the host carries out and reports by TAKT_EVENT_MOVE_DONE. It concerns blocks [first, first + count) of
// the request. Blocks after those that move out are dropped: the host frees them, and their tokens are recomputed. With
// TAKT_KV_FETCH, the blocks come from prefix chunks in host memory (takt_plan.host_chunks), which stay there.
typedef struct takt_move {
  uint64_t id;
  uint64_t request;
  uint8_t action;
  uint8_t reserved[3];
  int32_t first;
  int32_t count;
  uint32_t reserved_too;
} takt_move;

// A running request that lost its row. The host must discard its tokens in flight. TAKT_KV_DROP frees its KV at once,
// or when its steps in flight have finished. TAKT_KV_OUT is followed by a takt_move.
typedef struct takt_preemption {
  uint64_t request;
  uint8_t action;
  uint8_t reserved[7];
} takt_preemption;

enum {  // takt_failure.reason
  TAKT_FAIL_INVALID = 0,  // inconsistent: no prompt and nothing to compute, sequences < 1, or id 0
  TAKT_FAIL_NEVER_FITS = 1,  // needs more KV, tokens per step or sequences than the engine has
  TAKT_FAIL_KV_EXHAUSTED = 2,  // its context outgrew the whole KV cache
  TAKT_FAIL_EXPIRED = 3,  // waited past expires_at, or for a workflow stage that never came
  TAKT_FAIL_SHED = 4,  // rejected because the waiting queue is full
  TAKT_FAIL_DRAINING = 5,  // arrived after TAKT_EVENT_DRAIN
  TAKT_FAIL_HOST = 6,  // the host reported that its step failed or its workflow is over
  TAKT_FAIL_ID_IN_USE = 7  // its id belongs to a request that has not been released; that request goes on
};

// A request that the host must report to its client as failed. `released` also contains it, in this plan or a later
// one. Exception: with TAKT_FAIL_ID_IN_USE or id 0 the new request was never admitted and is not in `released`.
typedef struct takt_failure {
  uint64_t request;
  uint8_t reason;
  uint8_t reserved;
  uint16_t code;  // with TAKT_FAIL_HOST after a failed row: the code of that row
  uint32_t reserved_too;
} takt_failure;

// A prefix chunk that left the prefix cache. The host must no longer look up its hash.
typedef struct takt_dropped_prefix {
  uint64_t hash;  // as in takt_request.prefix
  int32_t blocks;  // KV blocks of the chunk
  uint32_t reserved;
} takt_dropped_prefix;

enum {  // takt_cache_hint.action
  TAKT_CACHE_HOLD = 0,  // keep with this priority until `until`
  TAKT_CACHE_DROP = 1,  // no further turn: may be evicted
  TAKT_CACHE_FETCH = 2  // next turn expected at `until`
};

// A hint for a host that manages its own prefix cache (TAKT_KV_MODE_ORACLE), about the KV of one branch of a workflow.
// The newest hint of a branch replaces earlier ones.
typedef struct takt_cache_hint {
  uint64_t workflow;
  uint64_t branch;
  uint8_t action;
  uint8_t priority;  // 15 to 55; below 35: worth less than the KV that it displaces
  uint8_t reserved[6];
  int64_t until;  // TAKT_CACHE_HOLD: when other KV becomes worth more; TAKT_CACHE_FETCH: expected time of the next turn
  int32_t tokens;  // known length of the branch's context
  uint32_t reserved_too;
} takt_cache_hint;

// A prefix chunk to copy to host memory (TAKT_KV_OUT) or to drop there (TAKT_KV_DROP). The host must finish a copy
// before anything overwrites the chunk's GPU blocks, which this plan or a later one may do.
typedef struct takt_host_chunk {
  uint64_t hash;  // as in takt_request.prefix; takt_salted_hash(hash, salt) if the request has a salt
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
  TAKT_WORKFLOW_COMPLETED = 0,  // all its stages have ended, or the host ended it
  TAKT_WORKFLOW_CANCELLED = 1,
  TAKT_WORKFLOW_SILENT = 2  // failed: no event for too long
};

// How a workflow ended.
typedef struct takt_workflow_end {
  uint64_t workflow;
  uint8_t how;
  uint8_t reserved[7];
  int64_t arrival;
  int64_t end;
  int64_t deadline;
  uint32_t stage;  // TAKT_WORKFLOW_SILENT: first unfinished stage, or the number of stages
  uint32_t reserved_too;
} takt_workflow_end;

// The reason why the router rejected input about a workflow. Rejected input has no effect.
typedef struct takt_workflow_fault {
  uint8_t kind;
  uint8_t reserved[7];
  uint64_t workflow;
  uint32_t stage;  // index of the stage
  uint32_t reserved_too;
  uint64_t site;
} takt_workflow_fault;

// A tool call that has returned.
typedef struct takt_tool_call {
  uint64_t tool;  // none: joins the pool alone
  double seconds;  // how long it took
  int64_t returned_tokens;  // that join the context
  int64_t tokens_before;  // generated since the prompt, or since the call before; negative: not told
} takt_tool_call;

// Why a plan runs nothing.
enum {  // takt_plan.idle
  TAKT_IDLE_BUSY = 0,  // the plan runs something
  TAKT_IDLE_NO_REQUESTS = 1,  // no living requests
  TAKT_IDLE_DRAINED = 2,  // no living requests, after TAKT_EVENT_DRAIN
  TAKT_IDLE_STEPS_IN_FLIGHT = 3,  // all runnable requests are in flight, or too many steps are: Commit first
  TAKT_IDLE_MOVES_IN_FLIGHT = 4,  // waits for KV moves to finish
  TAKT_IDLE_KV_PENDING = 5,  // waits for KV that the host frees later
  TAKT_IDLE_PAUSED = 6,  // all living requests wait for tools
  TAKT_IDLE_BLOCKED = 7,  // all living requests are blocked, paused or not ready
  TAKT_IDLE_NO_BUDGET = 8,  // the step limits allow nothing
  // Waiting requests do not fit because KV is in use elsewhere, or the host's oracle refuses them
  TAKT_IDLE_KV_HELD = 9,
  TAKT_IDLE_ENDED = 10,  // an exception interrupted an earlier call: nothing will run again
  TAKT_IDLE_DECLINED = 11,  // the policy keeps out all runnable requests
  TAKT_IDLE_GATED = 12  // the gate keeps out all runnable requests, perhaps until wake_at
};

#endif  // TAKT_C_MODEL_H_
