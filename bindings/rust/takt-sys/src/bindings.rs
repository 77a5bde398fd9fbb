// Of include/takt/c/takt.h by scripts/mirrors; not to be edited.
use core::ffi::{c_char, c_void};
use core::mem::{align_of, offset_of, size_of};

pub type takt_sink = Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const c_void, n: usize)>;
pub type takt_status = i32;
pub type takt_result = i32;
pub const TAKT_ABI_VERSION: u32 = 0;
pub const TAKT_FAULT_NONE: u32 = 0;
pub const TAKT_FAULT_NO_ID: u32 = 1;
pub const TAKT_FAULT_ID_IN_USE: u32 = 2;
pub const TAKT_FAULT_PROMPT_TOKENS: u32 = 3;
pub const TAKT_FAULT_MAX_OUTPUT_TOKENS: u32 = 4;
pub const TAKT_FAULT_SEQUENCES: u32 = 5;
pub const TAKT_FAULT_UNKNOWN_REQUEST: u32 = 6;
pub const TAKT_FAULT_UNKNOWN_MOVE: u32 = 7;
pub const TAKT_FAULT_OUT_OF_PLACE: u32 = 8;
pub const TAKT_FAULT_ABSURD_ESTIMATE: u32 = 9;
pub const TAKT_FAULT_CLOCK_BACK: u32 = 10;
pub const TAKT_FAULT_UNKNOWN_STEP: u32 = 11;
pub const TAKT_FAULT_UNKNOWN_ROW: u32 = 12;
pub const TAKT_FAULT_INVALID_ROW: u32 = 13;
pub const TAKT_FAULT_UNKNOWN_INSTANCE: u32 = 14;
pub const TAKT_FAULT_INVALID_EVENT: u32 = 15;
pub const TAKT_FAULT_WORKFLOW: u32 = 16;
pub const TAKT_FAULT_ENDED: u32 = 17;
pub const TAKT_FAULT_CHUNK_ALIGN: u32 = 18;
pub const TAKT_REQUEST_UNCHUNKABLE: u32 = 1;
pub const TAKT_REQUEST_UNPREEMPTIBLE: u32 = 2;
pub const TAKT_ROLE_BOTH: u32 = 0;
pub const TAKT_ROLE_PREFILL: u32 = 1;
pub const TAKT_ROLE_DECODE: u32 = 2;
pub const TAKT_TURN_UNKNOWN: u32 = 0;
pub const TAKT_TURN_TOOL: u32 = 1;
pub const TAKT_TURN_USER: u32 = 2;
pub const TAKT_TURN_CHILDREN: u32 = 3;
pub const TAKT_TURN_OVER: u32 = 4;
pub const TAKT_TOLD_OUTPUT_TOKENS: u32 = 1;
pub const TAKT_TOLD_WORKFLOW_TOKENS_LEFT: u32 = 2;
pub const TAKT_TOLD_AFTER: u32 = 4;
pub const TAKT_TOLD_DEADLINE: u32 = 8;
pub const TAKT_TOLD_EXPIRES_AT: u32 = 16;
pub const TAKT_TOLD_PRIORITY: u32 = 32;
pub const TAKT_TOLD_SEQUENCES: u32 = 64;
pub const TAKT_TOLD_NEXT_CALL: u32 = 128;
pub const TAKT_TOLD_PROMPT_TOKENS: u32 = 256;
pub const TAKT_TOLD_ARRIVAL: u32 = 512;
pub const TAKT_EVENT_ARRIVED: u32 = 1;
pub const TAKT_EVENT_REVISED: u32 = 2;
pub const TAKT_EVENT_BLOCKED: u32 = 3;
pub const TAKT_EVENT_UNBLOCKED: u32 = 4;
pub const TAKT_EVENT_TOOL_CALLED: u32 = 5;
pub const TAKT_EVENT_TOOL_RETURNED: u32 = 6;
pub const TAKT_EVENT_CANCELLED: u32 = 7;
pub const TAKT_EVENT_MOVE_DONE: u32 = 8;
pub const TAKT_EVENT_KV_FREED: u32 = 9;
pub const TAKT_EVENT_DRAIN: u32 = 10;
pub const TAKT_EVENT_NOT_READY: u32 = 13;
pub const TAKT_EVENT_KV_ARRIVED: u32 = 14;
pub const TAKT_EVENT_KV_LOST: u32 = 15;
pub const TAKT_EVENT_KV_PINNED: u32 = 16;
pub const TAKT_EVENT_TURN_ENDED: u32 = 18;
pub const TAKT_EVENT_TURN_EXPECTED: u32 = 19;
pub const TAKT_EVENT_REQUEST_STARTED: u32 = 64;
pub const TAKT_EVENT_REQUEST_SERVED: u32 = 65;
pub const TAKT_EVENT_REQUEST_ENDED: u32 = 66;
pub const TAKT_EVENT_INSTANCE_UP: u32 = 67;
pub const TAKT_EVENT_INSTANCE_DOWN: u32 = 68;
pub const TAKT_EVENT_INSTANCE_REPORTED: u32 = 69;
pub const TAKT_EVENT_WORKFLOW_DECLARED: u32 = 70;
pub const TAKT_EVENT_WORKFLOW_GROWN: u32 = 71;
pub const TAKT_EVENT_STAGE_ENDED: u32 = 72;
pub const TAKT_EVENT_WORKFLOW_ENDED: u32 = 73;
pub const TAKT_ENTRY_PREFILL: u32 = 1;
pub const TAKT_ENTRY_SAMPLES: u32 = 2;
pub const TAKT_ENTRY_ADMITTED: u32 = 4;
pub const TAKT_ENTRY_GATED: u32 = 8;
pub const TAKT_ROW_FINISHED: u32 = 1;
pub const TAKT_ROW_FAILED: u32 = 2;
pub const TAKT_KV_KEEP: u32 = 0;
pub const TAKT_KV_DROP: u32 = 1;
pub const TAKT_KV_OUT: u32 = 2;
pub const TAKT_KV_IN: u32 = 3;
pub const TAKT_KV_FETCH: u32 = 4;
pub const TAKT_FAIL_INVALID: u32 = 0;
pub const TAKT_FAIL_NEVER_FITS: u32 = 1;
pub const TAKT_FAIL_KV_EXHAUSTED: u32 = 2;
pub const TAKT_FAIL_EXPIRED: u32 = 3;
pub const TAKT_FAIL_SHED: u32 = 4;
pub const TAKT_FAIL_DRAINING: u32 = 5;
pub const TAKT_FAIL_HOST: u32 = 6;
pub const TAKT_FAIL_ID_IN_USE: u32 = 7;
pub const TAKT_CACHE_HOLD: u32 = 0;
pub const TAKT_CACHE_DROP: u32 = 1;
pub const TAKT_CACHE_FETCH: u32 = 2;
pub const TAKT_WORKFLOW_COMPLETED: u32 = 0;
pub const TAKT_WORKFLOW_CANCELLED: u32 = 1;
pub const TAKT_WORKFLOW_SILENT: u32 = 2;
pub const TAKT_IDLE_BUSY: u32 = 0;
pub const TAKT_IDLE_NO_REQUESTS: u32 = 1;
pub const TAKT_IDLE_DRAINED: u32 = 2;
pub const TAKT_IDLE_STEPS_IN_FLIGHT: u32 = 3;
pub const TAKT_IDLE_MOVES_IN_FLIGHT: u32 = 4;
pub const TAKT_IDLE_KV_PENDING: u32 = 5;
pub const TAKT_IDLE_PAUSED: u32 = 6;
pub const TAKT_IDLE_BLOCKED: u32 = 7;
pub const TAKT_IDLE_NO_BUDGET: u32 = 8;
pub const TAKT_IDLE_KV_HELD: u32 = 9;
pub const TAKT_IDLE_ENDED: u32 = 10;
pub const TAKT_IDLE_DECLINED: u32 = 11;
pub const TAKT_IDLE_GATED: u32 = 12;
pub const TAKT_OK: u32 = 0;
pub const TAKT_E_INVALID: u32 = 1;
pub const TAKT_E_NULL: u32 = 2;
pub const TAKT_E_SIZE: u32 = 3;
pub const TAKT_E_HANDLE: u32 = 4;
pub const TAKT_E_BUSY: u32 = 5;
pub const TAKT_E_NOMEM: u32 = 6;
pub const TAKT_E_CORRUPT: u32 = 7;
pub const TAKT_EPOCH_AGENT_RANKS: u32 = 1;
pub const TAKT_EPOCH_ALPHA: u32 = 2;
pub const TAKT_SHED_NEWEST: u32 = 0;
pub const TAKT_SHED_WORST: u32 = 1;
pub const TAKT_ORDER_RUNNING_FIRST: u32 = 0;
pub const TAKT_ORDER_PREFILL_FIRST: u32 = 1;
pub const TAKT_PREEMPT_OFF: u32 = 0;
pub const TAKT_PREEMPT_ON_MEMORY: u32 = 1;
pub const TAKT_PREEMPT_BY_RANK: u32 = 2;
pub const TAKT_KV_MODE_NONE: u32 = 0;
pub const TAKT_KV_MODE_LEDGER: u32 = 1;
pub const TAKT_KV_MODE_ORACLE: u32 = 2;
pub const TAKT_KV_REFUSED_FOR_NOW: u32 = 0;
pub const TAKT_KV_REFUSED_FOR_EVER: u32 = 1;
pub const TAKT_REST_AS_PLANNED: u32 = 1;
pub const TAKT_REQUEST_UNKNOWN: u32 = 0;
pub const TAKT_REQUEST_WAITING: u32 = 1;
pub const TAKT_REQUEST_RUNNING: u32 = 2;
pub const TAKT_REQUEST_PAUSED: u32 = 3;
pub const TAKT_REQUEST_BLOCKED: u32 = 4;
pub const TAKT_REQUEST_DEAD: u32 = 5;
pub const TAKT_WAITS_FOR_NOTHING: u32 = 0;
pub const TAKT_WAITS_FOR_ITS_TURN: u32 = 1;
pub const TAKT_WAITS_FOR_SEQUENCES: u32 = 2;
pub const TAKT_WAITS_FOR_KV: u32 = 3;
pub const TAKT_WAITS_FOR_BUDGET: u32 = 4;
pub const TAKT_WAITS_FOR_ADAPTER: u32 = 5;
pub const TAKT_WAITS_FOR_MOVE: u32 = 6;
pub const TAKT_WAITS_FOR_TOOL: u32 = 7;
pub const TAKT_WAITS_FOR_UNBLOCK: u32 = 8;
pub const TAKT_WAITS_FOR_DECLINED: u32 = 9;
pub const TAKT_WAITS_FOR_GATE: u32 = 10;
pub const TAKT_WAITS_FOR_PREFIX: u32 = 11;
pub const TAKT_TRAIT_FIXED: u32 = 1;
pub const TAKT_TRAIT_TIMED: u32 = 2;
pub const TAKT_TRAIT_MOVING: u32 = 4;
pub const TAKT_TRAIT_GROUPS: u32 = 8;
pub const TAKT_TRAIT_LEARNS: u32 = 16;
pub const TAKT_TRAIT_PRESSURE: u32 = 32;
pub const TAKT_TRAIT_AGES: u32 = 64;
pub const TAKT_TRAIT_TABLES: u32 = 128;
pub const TAKT_RESULT_DONE: u32 = 0;
pub const TAKT_RESULT_UNKNOWN: u32 = 1;
pub const TAKT_RESULT_IN_USE: u32 = 2;
pub const TAKT_RESULT_INVALID: u32 = 3;
pub const TAKT_RESULT_OUT_OF_PLACE: u32 = 4;
pub const TAKT_RESULT_ENDED: u32 = 5;
pub const TAKT_RESULT_REQUEUED: u32 = 6;
pub const TAKT_PLACE_NONE: u32 = 0;
pub const TAKT_PLACE_WAITING: u32 = 1;
pub const TAKT_PLACE_TAKEN: u32 = 2;
pub const TAKT_PLACE_HELD: u32 = 3;
pub const TAKT_PLACE_RUNNING: u32 = 4;
pub const TAKT_PLACE_PAUSED: u32 = 5;
pub const TAKT_BUDGETS_NONE: u32 = 0;
pub const TAKT_BUDGETS_SHARE: u32 = 1;
pub const TAKT_BUDGETS_WHOLE: u32 = 2;
pub const TAKT_BLOWN_LATENESS: u32 = 0;
pub const TAKT_BLOWN_PUBLISHED: u32 = 1;
pub const TAKT_BLOWN_ZERO: u32 = 2;
pub const TAKT_INBOX_OF_SCHEDULER: u32 = 0;
pub const TAKT_INBOX_OF_ROUTER: u32 = 1;
pub const TAKT_PUSHED_FULL: u32 = 0;
pub const TAKT_PUSHED_QUEUED: u32 = 1;
pub const TAKT_PUSHED_FIRST: u32 = 2;
pub const TAKT_AGENTS_BY_CLASSICAL: u32 = 0;
pub const TAKT_AGENTS_BY_SMACOF: u32 = 1;
pub const TAKT_AGENTS_BY_MEAN: u32 = 2;
pub const TAKT_AGENTS_BY_MEDIAN: u32 = 3;
pub const TAKT_VERDICT_AS_PLANNED: u32 = 0;
pub const TAKT_VERDICT_ACCEPT: u32 = 1;
pub const TAKT_VERDICT_ESCALATE: u32 = 2;
pub const TAKT_CASCADE_NONE: u32 = 0;
pub const TAKT_CASCADE_SEND: u32 = 1;
pub const TAKT_CASCADE_JUDGE: u32 = 2;
pub const TAKT_CASCADE_ACCEPT: u32 = 3;
pub const TAKT_CASCADE_FAIL: u32 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_scheduler {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_ranker {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_queue {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_router {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_inbox {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_ids {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_predictor {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_tool_profile {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_agent_learner {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cascade_router {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_estimate {
    pub mean: f64,
    pub quantiles: [f32; 5],
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_estimate"][size_of::<takt_estimate>() - 32usize];
    ["Alignment of takt_estimate"][align_of::<takt_estimate>() - 8usize];
    ["Offset of field: takt_estimate::mean"][offset_of!(takt_estimate, mean) - 0usize];
    ["Offset of field: takt_estimate::quantiles"][offset_of!(takt_estimate, quantiles) - 8usize];
    ["Offset of field: takt_estimate::reserved"][offset_of!(takt_estimate, reserved) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_work_after {
    pub calls: f64,
    pub prompt_tokens: f64,
    pub output_tokens: f64,
    pub kv_steps: f64,
    pub path_tokens: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_work_after"][size_of::<takt_work_after>() - 40usize];
    ["Alignment of takt_work_after"][align_of::<takt_work_after>() - 8usize];
    ["Offset of field: takt_work_after::calls"][offset_of!(takt_work_after, calls) - 0usize];
    ["Offset of field: takt_work_after::prompt_tokens"][offset_of!(takt_work_after, prompt_tokens) - 8usize];
    ["Offset of field: takt_work_after::output_tokens"][offset_of!(takt_work_after, output_tokens) - 16usize];
    ["Offset of field: takt_work_after::kv_steps"][offset_of!(takt_work_after, kv_steps) - 24usize];
    ["Offset of field: takt_work_after::path_tokens"][offset_of!(takt_work_after, path_tokens) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_next_call {
    pub tool: u64,
    pub after: i32,
    pub returned: i32,
    pub duration: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_next_call"][size_of::<takt_next_call>() - 24usize];
    ["Alignment of takt_next_call"][align_of::<takt_next_call>() - 8usize];
    ["Offset of field: takt_next_call::tool"][offset_of!(takt_next_call, tool) - 0usize];
    ["Offset of field: takt_next_call::after"][offset_of!(takt_next_call, after) - 8usize];
    ["Offset of field: takt_next_call::returned"][offset_of!(takt_next_call, returned) - 12usize];
    ["Offset of field: takt_next_call::duration"][offset_of!(takt_next_call, duration) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_model_score {
    pub model: u64,
    pub score: f32,
    pub tokens: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_model_score"][size_of::<takt_model_score>() - 16usize];
    ["Alignment of takt_model_score"][align_of::<takt_model_score>() - 8usize];
    ["Offset of field: takt_model_score::model"][offset_of!(takt_model_score, model) - 0usize];
    ["Offset of field: takt_model_score::score"][offset_of!(takt_model_score, score) - 8usize];
    ["Offset of field: takt_model_score::tokens"][offset_of!(takt_model_score, tokens) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_request {
    pub struct_size: u32,
    pub flags: u32,
    pub id: u64,
    pub workflow: u64,
    pub stage: u64,
    pub agent: u64,
    pub tenant: u64,
    pub adapter: u64,
    pub arrival: i64,
    pub workflow_arrival: i64,
    pub deadline: i64,
    pub expires_at: i64,
    pub prompt_tokens: i32,
    pub max_output_tokens: i32,
    pub sequences: i32,
    pub priority: i32,
    pub output_tokens: takt_estimate,
    pub workflow_tokens_left: takt_estimate,
    pub after: takt_work_after,
    pub next_call: takt_next_call,
    pub compute: i64,
    pub prefix_hashes: *const u64,
    pub n_prefix_hashes: usize,
    pub prefix_block_tokens: i32,
    pub reserved: u32,
    pub scores: *const takt_model_score,
    pub n_scores: usize,
    pub session: u64,
    pub branch: u64,
    pub salt: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_request"][size_of::<takt_request>() - 304usize];
    ["Alignment of takt_request"][align_of::<takt_request>() - 8usize];
    ["Offset of field: takt_request::struct_size"][offset_of!(takt_request, struct_size) - 0usize];
    ["Offset of field: takt_request::flags"][offset_of!(takt_request, flags) - 4usize];
    ["Offset of field: takt_request::id"][offset_of!(takt_request, id) - 8usize];
    ["Offset of field: takt_request::workflow"][offset_of!(takt_request, workflow) - 16usize];
    ["Offset of field: takt_request::stage"][offset_of!(takt_request, stage) - 24usize];
    ["Offset of field: takt_request::agent"][offset_of!(takt_request, agent) - 32usize];
    ["Offset of field: takt_request::tenant"][offset_of!(takt_request, tenant) - 40usize];
    ["Offset of field: takt_request::adapter"][offset_of!(takt_request, adapter) - 48usize];
    ["Offset of field: takt_request::arrival"][offset_of!(takt_request, arrival) - 56usize];
    ["Offset of field: takt_request::workflow_arrival"][offset_of!(takt_request, workflow_arrival) - 64usize];
    ["Offset of field: takt_request::deadline"][offset_of!(takt_request, deadline) - 72usize];
    ["Offset of field: takt_request::expires_at"][offset_of!(takt_request, expires_at) - 80usize];
    ["Offset of field: takt_request::prompt_tokens"][offset_of!(takt_request, prompt_tokens) - 88usize];
    ["Offset of field: takt_request::max_output_tokens"][offset_of!(takt_request, max_output_tokens) - 92usize];
    ["Offset of field: takt_request::sequences"][offset_of!(takt_request, sequences) - 96usize];
    ["Offset of field: takt_request::priority"][offset_of!(takt_request, priority) - 100usize];
    ["Offset of field: takt_request::output_tokens"][offset_of!(takt_request, output_tokens) - 104usize];
    ["Offset of field: takt_request::workflow_tokens_left"][offset_of!(takt_request, workflow_tokens_left) - 136usize];
    ["Offset of field: takt_request::after"][offset_of!(takt_request, after) - 168usize];
    ["Offset of field: takt_request::next_call"][offset_of!(takt_request, next_call) - 208usize];
    ["Offset of field: takt_request::compute"][offset_of!(takt_request, compute) - 232usize];
    ["Offset of field: takt_request::prefix_hashes"][offset_of!(takt_request, prefix_hashes) - 240usize];
    ["Offset of field: takt_request::n_prefix_hashes"][offset_of!(takt_request, n_prefix_hashes) - 248usize];
    ["Offset of field: takt_request::prefix_block_tokens"][offset_of!(takt_request, prefix_block_tokens) - 256usize];
    ["Offset of field: takt_request::reserved"][offset_of!(takt_request, reserved) - 260usize];
    ["Offset of field: takt_request::scores"][offset_of!(takt_request, scores) - 264usize];
    ["Offset of field: takt_request::n_scores"][offset_of!(takt_request, n_scores) - 272usize];
    ["Offset of field: takt_request::session"][offset_of!(takt_request, session) - 280usize];
    ["Offset of field: takt_request::branch"][offset_of!(takt_request, branch) - 288usize];
    ["Offset of field: takt_request::salt"][offset_of!(takt_request, salt) - 296usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_instance {
    pub struct_size: u32,
    pub kv_tokens: i32,
    pub id: u64,
    pub model: u64,
    pub capacity: i64,
    pub token_s: f64,
    pub profile: u64,
    pub role: u32,
    pub reserved: u32,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_instance"][size_of::<takt_instance>() - 64usize];
    ["Alignment of takt_instance"][align_of::<takt_instance>() - 8usize];
    ["Offset of field: takt_instance::struct_size"][offset_of!(takt_instance, struct_size) - 0usize];
    ["Offset of field: takt_instance::kv_tokens"][offset_of!(takt_instance, kv_tokens) - 4usize];
    ["Offset of field: takt_instance::id"][offset_of!(takt_instance, id) - 8usize];
    ["Offset of field: takt_instance::model"][offset_of!(takt_instance, model) - 16usize];
    ["Offset of field: takt_instance::capacity"][offset_of!(takt_instance, capacity) - 24usize];
    ["Offset of field: takt_instance::token_s"][offset_of!(takt_instance, token_s) - 32usize];
    ["Offset of field: takt_instance::profile"][offset_of!(takt_instance, profile) - 40usize];
    ["Offset of field: takt_instance::role"][offset_of!(takt_instance, role) - 48usize];
    ["Offset of field: takt_instance::reserved"][offset_of!(takt_instance, reserved) - 52usize];
    ["Offset of field: takt_instance::life"][offset_of!(takt_instance, life) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_stage {
    pub stage: u64,
    pub after: *const u32,
    pub n_after: usize,
    pub cost_s: f64,
    pub calls: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_stage"][size_of::<takt_stage>() - 40usize];
    ["Alignment of takt_stage"][align_of::<takt_stage>() - 8usize];
    ["Offset of field: takt_stage::stage"][offset_of!(takt_stage, stage) - 0usize];
    ["Offset of field: takt_stage::after"][offset_of!(takt_stage, after) - 8usize];
    ["Offset of field: takt_stage::n_after"][offset_of!(takt_stage, n_after) - 16usize];
    ["Offset of field: takt_stage::cost_s"][offset_of!(takt_stage, cost_s) - 24usize];
    ["Offset of field: takt_stage::calls"][offset_of!(takt_stage, calls) - 32usize];
    ["Offset of field: takt_stage::reserved"][offset_of!(takt_stage, reserved) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_workflow {
    pub struct_size: u32,
    pub open: u32,
    pub id: u64,
    pub tenant: u64,
    pub arrival: i64,
    pub deadline: i64,
    pub stages: *const takt_stage,
    pub n_stages: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_workflow"][size_of::<takt_workflow>() - 56usize];
    ["Alignment of takt_workflow"][align_of::<takt_workflow>() - 8usize];
    ["Offset of field: takt_workflow::struct_size"][offset_of!(takt_workflow, struct_size) - 0usize];
    ["Offset of field: takt_workflow::open"][offset_of!(takt_workflow, open) - 4usize];
    ["Offset of field: takt_workflow::id"][offset_of!(takt_workflow, id) - 8usize];
    ["Offset of field: takt_workflow::tenant"][offset_of!(takt_workflow, tenant) - 16usize];
    ["Offset of field: takt_workflow::arrival"][offset_of!(takt_workflow, arrival) - 24usize];
    ["Offset of field: takt_workflow::deadline"][offset_of!(takt_workflow, deadline) - 32usize];
    ["Offset of field: takt_workflow::stages"][offset_of!(takt_workflow, stages) - 40usize];
    ["Offset of field: takt_workflow::n_stages"][offset_of!(takt_workflow, n_stages) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_agent_rank {
    pub agent: u64,
    pub rank: f64,
    pub execution_s: f64,
    pub stages_left: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_agent_rank"][size_of::<takt_agent_rank>() - 32usize];
    ["Alignment of takt_agent_rank"][align_of::<takt_agent_rank>() - 8usize];
    ["Offset of field: takt_agent_rank::agent"][offset_of!(takt_agent_rank, agent) - 0usize];
    ["Offset of field: takt_agent_rank::rank"][offset_of!(takt_agent_rank, rank) - 8usize];
    ["Offset of field: takt_agent_rank::execution_s"][offset_of!(takt_agent_rank, execution_s) - 16usize];
    ["Offset of field: takt_agent_rank::stages_left"][offset_of!(takt_agent_rank, stages_left) - 24usize];
    ["Offset of field: takt_agent_rank::reserved"][offset_of!(takt_agent_rank, reserved) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_arrived {
    pub request: *const takt_request,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_arrived"][size_of::<takt_event_arrived>() - 8usize];
    ["Alignment of takt_event_arrived"][align_of::<takt_event_arrived>() - 8usize];
    ["Offset of field: takt_event_arrived::request"][offset_of!(takt_event_arrived, request) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_revised {
    pub request: *const takt_request,
    pub told: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_revised"][size_of::<takt_event_revised>() - 16usize];
    ["Alignment of takt_event_revised"][align_of::<takt_event_revised>() - 8usize];
    ["Offset of field: takt_event_revised::request"][offset_of!(takt_event_revised, request) - 0usize];
    ["Offset of field: takt_event_revised::told"][offset_of!(takt_event_revised, told) - 8usize];
    ["Offset of field: takt_event_revised::reserved"][offset_of!(takt_event_revised, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_tool_called {
    pub request: u64,
    pub expected: i64,
    pub expected_returned: i32,
    pub reserved: u32,
    pub tool: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_tool_called"][size_of::<takt_event_tool_called>() - 32usize];
    ["Alignment of takt_event_tool_called"][align_of::<takt_event_tool_called>() - 8usize];
    ["Offset of field: takt_event_tool_called::request"][offset_of!(takt_event_tool_called, request) - 0usize];
    ["Offset of field: takt_event_tool_called::expected"][offset_of!(takt_event_tool_called, expected) - 8usize];
    ["Offset of field: takt_event_tool_called::expected_returned"][offset_of!(takt_event_tool_called, expected_returned) - 16usize];
    ["Offset of field: takt_event_tool_called::reserved"][offset_of!(takt_event_tool_called, reserved) - 20usize];
    ["Offset of field: takt_event_tool_called::tool"][offset_of!(takt_event_tool_called, tool) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_tool_returned {
    pub request: u64,
    pub returned: i32,
    pub reserved: u32,
    pub next_call: takt_next_call,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_tool_returned"][size_of::<takt_event_tool_returned>() - 40usize];
    ["Alignment of takt_event_tool_returned"][align_of::<takt_event_tool_returned>() - 8usize];
    ["Offset of field: takt_event_tool_returned::request"][offset_of!(takt_event_tool_returned, request) - 0usize];
    ["Offset of field: takt_event_tool_returned::returned"][offset_of!(takt_event_tool_returned, returned) - 8usize];
    ["Offset of field: takt_event_tool_returned::reserved"][offset_of!(takt_event_tool_returned, reserved) - 12usize];
    ["Offset of field: takt_event_tool_returned::next_call"][offset_of!(takt_event_tool_returned, next_call) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_move_done {
    pub move_: u64,
    pub failed: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_move_done"][size_of::<takt_event_move_done>() - 16usize];
    ["Alignment of takt_event_move_done"][align_of::<takt_event_move_done>() - 8usize];
    ["Offset of field: takt_event_move_done::move"][offset_of!(takt_event_move_done, move_) - 0usize];
    ["Offset of field: takt_event_move_done::failed"][offset_of!(takt_event_move_done, failed) - 8usize];
    ["Offset of field: takt_event_move_done::reserved"][offset_of!(takt_event_move_done, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_turn_ended {
    pub workflow: u64,
    pub branch: u64,
    pub why: u32,
    pub reserved: u32,
    pub tool: u64,
    pub expected: i64,
    pub pin: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_turn_ended"][size_of::<takt_event_turn_ended>() - 48usize];
    ["Alignment of takt_event_turn_ended"][align_of::<takt_event_turn_ended>() - 8usize];
    ["Offset of field: takt_event_turn_ended::workflow"][offset_of!(takt_event_turn_ended, workflow) - 0usize];
    ["Offset of field: takt_event_turn_ended::branch"][offset_of!(takt_event_turn_ended, branch) - 8usize];
    ["Offset of field: takt_event_turn_ended::why"][offset_of!(takt_event_turn_ended, why) - 16usize];
    ["Offset of field: takt_event_turn_ended::reserved"][offset_of!(takt_event_turn_ended, reserved) - 20usize];
    ["Offset of field: takt_event_turn_ended::tool"][offset_of!(takt_event_turn_ended, tool) - 24usize];
    ["Offset of field: takt_event_turn_ended::expected"][offset_of!(takt_event_turn_ended, expected) - 32usize];
    ["Offset of field: takt_event_turn_ended::pin"][offset_of!(takt_event_turn_ended, pin) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_turn_expected {
    pub workflow: u64,
    pub branch: u64,
    pub when: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_turn_expected"][size_of::<takt_event_turn_expected>() - 24usize];
    ["Alignment of takt_event_turn_expected"][align_of::<takt_event_turn_expected>() - 8usize];
    ["Offset of field: takt_event_turn_expected::workflow"][offset_of!(takt_event_turn_expected, workflow) - 0usize];
    ["Offset of field: takt_event_turn_expected::branch"][offset_of!(takt_event_turn_expected, branch) - 8usize];
    ["Offset of field: takt_event_turn_expected::when"][offset_of!(takt_event_turn_expected, when) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_request_started {
    pub request: u64,
    pub instance: u64,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_request_started"][size_of::<takt_event_request_started>() - 24usize];
    ["Alignment of takt_event_request_started"][align_of::<takt_event_request_started>() - 8usize];
    ["Offset of field: takt_event_request_started::request"][offset_of!(takt_event_request_started, request) - 0usize];
    ["Offset of field: takt_event_request_started::instance"][offset_of!(takt_event_request_started, instance) - 8usize];
    ["Offset of field: takt_event_request_started::life"][offset_of!(takt_event_request_started, life) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_request_served {
    pub request: u64,
    pub instance: u64,
    pub prefill: i32,
    pub output: i32,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_request_served"][size_of::<takt_event_request_served>() - 32usize];
    ["Alignment of takt_event_request_served"][align_of::<takt_event_request_served>() - 8usize];
    ["Offset of field: takt_event_request_served::request"][offset_of!(takt_event_request_served, request) - 0usize];
    ["Offset of field: takt_event_request_served::instance"][offset_of!(takt_event_request_served, instance) - 8usize];
    ["Offset of field: takt_event_request_served::prefill"][offset_of!(takt_event_request_served, prefill) - 16usize];
    ["Offset of field: takt_event_request_served::output"][offset_of!(takt_event_request_served, output) - 20usize];
    ["Offset of field: takt_event_request_served::life"][offset_of!(takt_event_request_served, life) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_request_ended {
    pub request: u64,
    pub instance: u64,
    pub prefill: i32,
    pub output: i32,
    pub failed: u32,
    pub served: u32,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_request_ended"][size_of::<takt_event_request_ended>() - 40usize];
    ["Alignment of takt_event_request_ended"][align_of::<takt_event_request_ended>() - 8usize];
    ["Offset of field: takt_event_request_ended::request"][offset_of!(takt_event_request_ended, request) - 0usize];
    ["Offset of field: takt_event_request_ended::instance"][offset_of!(takt_event_request_ended, instance) - 8usize];
    ["Offset of field: takt_event_request_ended::prefill"][offset_of!(takt_event_request_ended, prefill) - 16usize];
    ["Offset of field: takt_event_request_ended::output"][offset_of!(takt_event_request_ended, output) - 20usize];
    ["Offset of field: takt_event_request_ended::failed"][offset_of!(takt_event_request_ended, failed) - 24usize];
    ["Offset of field: takt_event_request_ended::served"][offset_of!(takt_event_request_ended, served) - 28usize];
    ["Offset of field: takt_event_request_ended::life"][offset_of!(takt_event_request_ended, life) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_instance_up {
    pub instance: *const takt_instance,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_instance_up"][size_of::<takt_event_instance_up>() - 8usize];
    ["Alignment of takt_event_instance_up"][align_of::<takt_event_instance_up>() - 8usize];
    ["Offset of field: takt_event_instance_up::instance"][offset_of!(takt_event_instance_up, instance) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_instance_down {
    pub instance: u64,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_instance_down"][size_of::<takt_event_instance_down>() - 16usize];
    ["Alignment of takt_event_instance_down"][align_of::<takt_event_instance_down>() - 8usize];
    ["Offset of field: takt_event_instance_down::instance"][offset_of!(takt_event_instance_down, instance) - 0usize];
    ["Offset of field: takt_event_instance_down::life"][offset_of!(takt_event_instance_down, life) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_instance_reported {
    pub instance: u64,
    pub waiting: i64,
    pub running: i64,
    pub preempted: i64,
    pub kv_used: i32,
    pub dated: u32,
    pub as_of: i64,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_instance_reported"][size_of::<takt_event_instance_reported>() - 56usize];
    ["Alignment of takt_event_instance_reported"][align_of::<takt_event_instance_reported>() - 8usize];
    ["Offset of field: takt_event_instance_reported::instance"][offset_of!(takt_event_instance_reported, instance) - 0usize];
    ["Offset of field: takt_event_instance_reported::waiting"][offset_of!(takt_event_instance_reported, waiting) - 8usize];
    ["Offset of field: takt_event_instance_reported::running"][offset_of!(takt_event_instance_reported, running) - 16usize];
    ["Offset of field: takt_event_instance_reported::preempted"][offset_of!(takt_event_instance_reported, preempted) - 24usize];
    ["Offset of field: takt_event_instance_reported::kv_used"][offset_of!(takt_event_instance_reported, kv_used) - 32usize];
    ["Offset of field: takt_event_instance_reported::dated"][offset_of!(takt_event_instance_reported, dated) - 36usize];
    ["Offset of field: takt_event_instance_reported::as_of"][offset_of!(takt_event_instance_reported, as_of) - 40usize];
    ["Offset of field: takt_event_instance_reported::life"][offset_of!(takt_event_instance_reported, life) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_workflow_declared {
    pub workflow: *const takt_workflow,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_workflow_declared"][size_of::<takt_event_workflow_declared>() - 8usize];
    ["Alignment of takt_event_workflow_declared"][align_of::<takt_event_workflow_declared>() - 8usize];
    ["Offset of field: takt_event_workflow_declared::workflow"][offset_of!(takt_event_workflow_declared, workflow) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_workflow_grown {
    pub workflow: u64,
    pub stage: *const takt_stage,
    pub before: *const u32,
    pub n_before: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_workflow_grown"][size_of::<takt_event_workflow_grown>() - 32usize];
    ["Alignment of takt_event_workflow_grown"][align_of::<takt_event_workflow_grown>() - 8usize];
    ["Offset of field: takt_event_workflow_grown::workflow"][offset_of!(takt_event_workflow_grown, workflow) - 0usize];
    ["Offset of field: takt_event_workflow_grown::stage"][offset_of!(takt_event_workflow_grown, stage) - 8usize];
    ["Offset of field: takt_event_workflow_grown::before"][offset_of!(takt_event_workflow_grown, before) - 16usize];
    ["Offset of field: takt_event_workflow_grown::n_before"][offset_of!(takt_event_workflow_grown, n_before) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_stage_ended {
    pub workflow: u64,
    pub stage: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_stage_ended"][size_of::<takt_event_stage_ended>() - 16usize];
    ["Alignment of takt_event_stage_ended"][align_of::<takt_event_stage_ended>() - 8usize];
    ["Offset of field: takt_event_stage_ended::workflow"][offset_of!(takt_event_stage_ended, workflow) - 0usize];
    ["Offset of field: takt_event_stage_ended::stage"][offset_of!(takt_event_stage_ended, stage) - 8usize];
    ["Offset of field: takt_event_stage_ended::reserved"][offset_of!(takt_event_stage_ended, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_workflow_ended {
    pub workflow: u64,
    pub cancelled: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_workflow_ended"][size_of::<takt_event_workflow_ended>() - 16usize];
    ["Alignment of takt_event_workflow_ended"][align_of::<takt_event_workflow_ended>() - 8usize];
    ["Offset of field: takt_event_workflow_ended::workflow"][offset_of!(takt_event_workflow_ended, workflow) - 0usize];
    ["Offset of field: takt_event_workflow_ended::cancelled"][offset_of!(takt_event_workflow_ended, cancelled) - 8usize];
    ["Offset of field: takt_event_workflow_ended::reserved"][offset_of!(takt_event_workflow_ended, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_event_kv {
    pub request: u64,
    pub tokens: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_kv"][size_of::<takt_event_kv>() - 16usize];
    ["Alignment of takt_event_kv"][align_of::<takt_event_kv>() - 8usize];
    ["Offset of field: takt_event_kv::request"][offset_of!(takt_event_kv, request) - 0usize];
    ["Offset of field: takt_event_kv::tokens"][offset_of!(takt_event_kv, tokens) - 8usize];
    ["Offset of field: takt_event_kv::reserved"][offset_of!(takt_event_kv, reserved) - 12usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union takt_event_u {
    pub request: u64,
    pub arrived: takt_event_arrived,
    pub revised: takt_event_revised,
    pub kv: takt_event_kv,
    pub tool_called: takt_event_tool_called,
    pub tool_returned: takt_event_tool_returned,
    pub move_done: takt_event_move_done,
    pub turn_ended: takt_event_turn_ended,
    pub turn_expected: takt_event_turn_expected,
    pub request_started: takt_event_request_started,
    pub request_served: takt_event_request_served,
    pub request_ended: takt_event_request_ended,
    pub instance_up: takt_event_instance_up,
    pub instance_down: takt_event_instance_down,
    pub instance_reported: takt_event_instance_reported,
    pub workflow_declared: takt_event_workflow_declared,
    pub workflow_grown: takt_event_workflow_grown,
    pub stage_ended: takt_event_stage_ended,
    pub workflow_ended: takt_event_workflow_ended,
    pub words: [u64; 7],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event_u"][size_of::<takt_event_u>() - 56usize];
    ["Alignment of takt_event_u"][align_of::<takt_event_u>() - 8usize];
    ["Offset of field: takt_event_u::request"][offset_of!(takt_event_u, request) - 0usize];
    ["Offset of field: takt_event_u::arrived"][offset_of!(takt_event_u, arrived) - 0usize];
    ["Offset of field: takt_event_u::revised"][offset_of!(takt_event_u, revised) - 0usize];
    ["Offset of field: takt_event_u::kv"][offset_of!(takt_event_u, kv) - 0usize];
    ["Offset of field: takt_event_u::tool_called"][offset_of!(takt_event_u, tool_called) - 0usize];
    ["Offset of field: takt_event_u::tool_returned"][offset_of!(takt_event_u, tool_returned) - 0usize];
    ["Offset of field: takt_event_u::move_done"][offset_of!(takt_event_u, move_done) - 0usize];
    ["Offset of field: takt_event_u::turn_ended"][offset_of!(takt_event_u, turn_ended) - 0usize];
    ["Offset of field: takt_event_u::turn_expected"][offset_of!(takt_event_u, turn_expected) - 0usize];
    ["Offset of field: takt_event_u::request_started"][offset_of!(takt_event_u, request_started) - 0usize];
    ["Offset of field: takt_event_u::request_served"][offset_of!(takt_event_u, request_served) - 0usize];
    ["Offset of field: takt_event_u::request_ended"][offset_of!(takt_event_u, request_ended) - 0usize];
    ["Offset of field: takt_event_u::instance_up"][offset_of!(takt_event_u, instance_up) - 0usize];
    ["Offset of field: takt_event_u::instance_down"][offset_of!(takt_event_u, instance_down) - 0usize];
    ["Offset of field: takt_event_u::instance_reported"][offset_of!(takt_event_u, instance_reported) - 0usize];
    ["Offset of field: takt_event_u::workflow_declared"][offset_of!(takt_event_u, workflow_declared) - 0usize];
    ["Offset of field: takt_event_u::workflow_grown"][offset_of!(takt_event_u, workflow_grown) - 0usize];
    ["Offset of field: takt_event_u::stage_ended"][offset_of!(takt_event_u, stage_ended) - 0usize];
    ["Offset of field: takt_event_u::workflow_ended"][offset_of!(takt_event_u, workflow_ended) - 0usize];
    ["Offset of field: takt_event_u::words"][offset_of!(takt_event_u, words) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct takt_event {
    pub type_: u32,
    pub reserved: u32,
    pub u: takt_event_u,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_event"][size_of::<takt_event>() - 64usize];
    ["Alignment of takt_event"][align_of::<takt_event>() - 8usize];
    ["Offset of field: takt_event::type"][offset_of!(takt_event, type_) - 0usize];
    ["Offset of field: takt_event::reserved"][offset_of!(takt_event, reserved) - 4usize];
    ["Offset of field: takt_event::u"][offset_of!(takt_event, u) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_limits {
    pub struct_size: u32,
    pub tokens: i32,
    pub max_seqs: i32,
    pub prefill_tokens: i32,
    pub chunk_tokens: i32,
    pub adapters: i32,
    pub swap_out: i32,
    pub swap_in: i32,
    pub chunk_align: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_limits"][size_of::<takt_limits>() - 36usize];
    ["Alignment of takt_limits"][align_of::<takt_limits>() - 4usize];
    ["Offset of field: takt_limits::struct_size"][offset_of!(takt_limits, struct_size) - 0usize];
    ["Offset of field: takt_limits::tokens"][offset_of!(takt_limits, tokens) - 4usize];
    ["Offset of field: takt_limits::max_seqs"][offset_of!(takt_limits, max_seqs) - 8usize];
    ["Offset of field: takt_limits::prefill_tokens"][offset_of!(takt_limits, prefill_tokens) - 12usize];
    ["Offset of field: takt_limits::chunk_tokens"][offset_of!(takt_limits, chunk_tokens) - 16usize];
    ["Offset of field: takt_limits::adapters"][offset_of!(takt_limits, adapters) - 20usize];
    ["Offset of field: takt_limits::swap_out"][offset_of!(takt_limits, swap_out) - 24usize];
    ["Offset of field: takt_limits::swap_in"][offset_of!(takt_limits, swap_in) - 28usize];
    ["Offset of field: takt_limits::chunk_align"][offset_of!(takt_limits, chunk_align) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_plan_entry {
    pub request: u64,
    pub lane: u32,
    pub tokens: i32,
    pub position: i32,
    pub speculative: u16,
    pub flags: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_plan_entry"][size_of::<takt_plan_entry>() - 24usize];
    ["Alignment of takt_plan_entry"][align_of::<takt_plan_entry>() - 8usize];
    ["Offset of field: takt_plan_entry::request"][offset_of!(takt_plan_entry, request) - 0usize];
    ["Offset of field: takt_plan_entry::lane"][offset_of!(takt_plan_entry, lane) - 8usize];
    ["Offset of field: takt_plan_entry::tokens"][offset_of!(takt_plan_entry, tokens) - 12usize];
    ["Offset of field: takt_plan_entry::position"][offset_of!(takt_plan_entry, position) - 16usize];
    ["Offset of field: takt_plan_entry::speculative"][offset_of!(takt_plan_entry, speculative) - 20usize];
    ["Offset of field: takt_plan_entry::flags"][offset_of!(takt_plan_entry, flags) - 22usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_row_result {
    pub request: u64,
    pub lane: u32,
    pub tokens: u16,
    pub drafts: u8,
    pub flags: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_row_result"][size_of::<takt_row_result>() - 16usize];
    ["Alignment of takt_row_result"][align_of::<takt_row_result>() - 8usize];
    ["Offset of field: takt_row_result::request"][offset_of!(takt_row_result, request) - 0usize];
    ["Offset of field: takt_row_result::lane"][offset_of!(takt_row_result, lane) - 8usize];
    ["Offset of field: takt_row_result::tokens"][offset_of!(takt_row_result, tokens) - 12usize];
    ["Offset of field: takt_row_result::drafts"][offset_of!(takt_row_result, drafts) - 14usize];
    ["Offset of field: takt_row_result::flags"][offset_of!(takt_row_result, flags) - 15usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_move {
    pub id: u64,
    pub request: u64,
    pub action: u8,
    pub reserved: [u8; 3],
    pub first: i32,
    pub count: i32,
    pub reserved_too: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_move"][size_of::<takt_move>() - 32usize];
    ["Alignment of takt_move"][align_of::<takt_move>() - 8usize];
    ["Offset of field: takt_move::id"][offset_of!(takt_move, id) - 0usize];
    ["Offset of field: takt_move::request"][offset_of!(takt_move, request) - 8usize];
    ["Offset of field: takt_move::action"][offset_of!(takt_move, action) - 16usize];
    ["Offset of field: takt_move::reserved"][offset_of!(takt_move, reserved) - 17usize];
    ["Offset of field: takt_move::first"][offset_of!(takt_move, first) - 20usize];
    ["Offset of field: takt_move::count"][offset_of!(takt_move, count) - 24usize];
    ["Offset of field: takt_move::reserved_too"][offset_of!(takt_move, reserved_too) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_preemption {
    pub request: u64,
    pub action: u8,
    pub reserved: [u8; 7],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_preemption"][size_of::<takt_preemption>() - 16usize];
    ["Alignment of takt_preemption"][align_of::<takt_preemption>() - 8usize];
    ["Offset of field: takt_preemption::request"][offset_of!(takt_preemption, request) - 0usize];
    ["Offset of field: takt_preemption::action"][offset_of!(takt_preemption, action) - 8usize];
    ["Offset of field: takt_preemption::reserved"][offset_of!(takt_preemption, reserved) - 9usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_failure {
    pub request: u64,
    pub reason: u8,
    pub reserved: u8,
    pub code: u16,
    pub reserved_too: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_failure"][size_of::<takt_failure>() - 16usize];
    ["Alignment of takt_failure"][align_of::<takt_failure>() - 8usize];
    ["Offset of field: takt_failure::request"][offset_of!(takt_failure, request) - 0usize];
    ["Offset of field: takt_failure::reason"][offset_of!(takt_failure, reason) - 8usize];
    ["Offset of field: takt_failure::reserved"][offset_of!(takt_failure, reserved) - 9usize];
    ["Offset of field: takt_failure::code"][offset_of!(takt_failure, code) - 10usize];
    ["Offset of field: takt_failure::reserved_too"][offset_of!(takt_failure, reserved_too) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_dropped_prefix {
    pub hash: u64,
    pub blocks: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_dropped_prefix"][size_of::<takt_dropped_prefix>() - 16usize];
    ["Alignment of takt_dropped_prefix"][align_of::<takt_dropped_prefix>() - 8usize];
    ["Offset of field: takt_dropped_prefix::hash"][offset_of!(takt_dropped_prefix, hash) - 0usize];
    ["Offset of field: takt_dropped_prefix::blocks"][offset_of!(takt_dropped_prefix, blocks) - 8usize];
    ["Offset of field: takt_dropped_prefix::reserved"][offset_of!(takt_dropped_prefix, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cache_hint {
    pub workflow: u64,
    pub branch: u64,
    pub action: u8,
    pub priority: u8,
    pub reserved: [u8; 6],
    pub until: i64,
    pub tokens: i32,
    pub reserved_too: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_cache_hint"][size_of::<takt_cache_hint>() - 40usize];
    ["Alignment of takt_cache_hint"][align_of::<takt_cache_hint>() - 8usize];
    ["Offset of field: takt_cache_hint::workflow"][offset_of!(takt_cache_hint, workflow) - 0usize];
    ["Offset of field: takt_cache_hint::branch"][offset_of!(takt_cache_hint, branch) - 8usize];
    ["Offset of field: takt_cache_hint::action"][offset_of!(takt_cache_hint, action) - 16usize];
    ["Offset of field: takt_cache_hint::priority"][offset_of!(takt_cache_hint, priority) - 17usize];
    ["Offset of field: takt_cache_hint::reserved"][offset_of!(takt_cache_hint, reserved) - 18usize];
    ["Offset of field: takt_cache_hint::until"][offset_of!(takt_cache_hint, until) - 24usize];
    ["Offset of field: takt_cache_hint::tokens"][offset_of!(takt_cache_hint, tokens) - 32usize];
    ["Offset of field: takt_cache_hint::reserved_too"][offset_of!(takt_cache_hint, reserved_too) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_host_chunk {
    pub hash: u64,
    pub blocks: i32,
    pub action: u8,
    pub reserved: [u8; 3],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_host_chunk"][size_of::<takt_host_chunk>() - 16usize];
    ["Alignment of takt_host_chunk"][align_of::<takt_host_chunk>() - 8usize];
    ["Offset of field: takt_host_chunk::hash"][offset_of!(takt_host_chunk, hash) - 0usize];
    ["Offset of field: takt_host_chunk::blocks"][offset_of!(takt_host_chunk, blocks) - 8usize];
    ["Offset of field: takt_host_chunk::action"][offset_of!(takt_host_chunk, action) - 12usize];
    ["Offset of field: takt_host_chunk::reserved"][offset_of!(takt_host_chunk, reserved) - 13usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_ran {
    pub request: u64,
    pub prefill: i32,
    pub output: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_ran"][size_of::<takt_ran>() - 16usize];
    ["Alignment of takt_ran"][align_of::<takt_ran>() - 8usize];
    ["Offset of field: takt_ran::request"][offset_of!(takt_ran, request) - 0usize];
    ["Offset of field: takt_ran::prefill"][offset_of!(takt_ran, prefill) - 8usize];
    ["Offset of field: takt_ran::output"][offset_of!(takt_ran, output) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_holding {
    pub request: u64,
    pub blocks: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_holding"][size_of::<takt_holding>() - 16usize];
    ["Alignment of takt_holding"][align_of::<takt_holding>() - 8usize];
    ["Offset of field: takt_holding::request"][offset_of!(takt_holding, request) - 0usize];
    ["Offset of field: takt_holding::blocks"][offset_of!(takt_holding, blocks) - 8usize];
    ["Offset of field: takt_holding::reserved"][offset_of!(takt_holding, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_placement {
    pub request: u64,
    pub instance: u64,
    pub life: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_placement"][size_of::<takt_placement>() - 24usize];
    ["Alignment of takt_placement"][align_of::<takt_placement>() - 8usize];
    ["Offset of field: takt_placement::request"][offset_of!(takt_placement, request) - 0usize];
    ["Offset of field: takt_placement::instance"][offset_of!(takt_placement, instance) - 8usize];
    ["Offset of field: takt_placement::life"][offset_of!(takt_placement, life) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_workflow_end {
    pub workflow: u64,
    pub how: u8,
    pub reserved: [u8; 7],
    pub arrival: i64,
    pub end: i64,
    pub deadline: i64,
    pub stage: u32,
    pub reserved_too: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_workflow_end"][size_of::<takt_workflow_end>() - 48usize];
    ["Alignment of takt_workflow_end"][align_of::<takt_workflow_end>() - 8usize];
    ["Offset of field: takt_workflow_end::workflow"][offset_of!(takt_workflow_end, workflow) - 0usize];
    ["Offset of field: takt_workflow_end::how"][offset_of!(takt_workflow_end, how) - 8usize];
    ["Offset of field: takt_workflow_end::reserved"][offset_of!(takt_workflow_end, reserved) - 9usize];
    ["Offset of field: takt_workflow_end::arrival"][offset_of!(takt_workflow_end, arrival) - 16usize];
    ["Offset of field: takt_workflow_end::end"][offset_of!(takt_workflow_end, end) - 24usize];
    ["Offset of field: takt_workflow_end::deadline"][offset_of!(takt_workflow_end, deadline) - 32usize];
    ["Offset of field: takt_workflow_end::stage"][offset_of!(takt_workflow_end, stage) - 40usize];
    ["Offset of field: takt_workflow_end::reserved_too"][offset_of!(takt_workflow_end, reserved_too) - 44usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_workflow_fault {
    pub kind: u8,
    pub reserved: [u8; 7],
    pub workflow: u64,
    pub stage: u32,
    pub reserved_too: u32,
    pub site: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_workflow_fault"][size_of::<takt_workflow_fault>() - 32usize];
    ["Alignment of takt_workflow_fault"][align_of::<takt_workflow_fault>() - 8usize];
    ["Offset of field: takt_workflow_fault::kind"][offset_of!(takt_workflow_fault, kind) - 0usize];
    ["Offset of field: takt_workflow_fault::reserved"][offset_of!(takt_workflow_fault, reserved) - 1usize];
    ["Offset of field: takt_workflow_fault::workflow"][offset_of!(takt_workflow_fault, workflow) - 8usize];
    ["Offset of field: takt_workflow_fault::stage"][offset_of!(takt_workflow_fault, stage) - 16usize];
    ["Offset of field: takt_workflow_fault::reserved_too"][offset_of!(takt_workflow_fault, reserved_too) - 20usize];
    ["Offset of field: takt_workflow_fault::site"][offset_of!(takt_workflow_fault, site) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_tool_call {
    pub tool: u64,
    pub seconds: f64,
    pub returned_tokens: i64,
    pub tokens_before: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_tool_call"][size_of::<takt_tool_call>() - 32usize];
    ["Alignment of takt_tool_call"][align_of::<takt_tool_call>() - 8usize];
    ["Offset of field: takt_tool_call::tool"][offset_of!(takt_tool_call, tool) - 0usize];
    ["Offset of field: takt_tool_call::seconds"][offset_of!(takt_tool_call, seconds) - 8usize];
    ["Offset of field: takt_tool_call::returned_tokens"][offset_of!(takt_tool_call, returned_tokens) - 16usize];
    ["Offset of field: takt_tool_call::tokens_before"][offset_of!(takt_tool_call, tokens_before) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_error {
    pub struct_size: u32,
    pub code: takt_status,
    pub text: [c_char; 504],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_error"][size_of::<takt_error>() - 512usize];
    ["Alignment of takt_error"][align_of::<takt_error>() - 4usize];
    ["Offset of field: takt_error::struct_size"][offset_of!(takt_error, struct_size) - 0usize];
    ["Offset of field: takt_error::code"][offset_of!(takt_error, code) - 4usize];
    ["Offset of field: takt_error::text"][offset_of!(takt_error, text) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_stat {
    pub name: *const c_char,
    pub value: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_stat"][size_of::<takt_stat>() - 16usize];
    ["Alignment of takt_stat"][align_of::<takt_stat>() - 8usize];
    ["Offset of field: takt_stat::name"][offset_of!(takt_stat, name) - 0usize];
    ["Offset of field: takt_stat::value"][offset_of!(takt_stat, value) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_fault {
    pub struct_size: u32,
    pub kind: u32,
    pub count: u64,
    pub step: u64,
    pub request: u64,
    pub at: i64,
    pub said: i64,
    pub expected: i64,
    pub lane: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_fault"][size_of::<takt_fault>() - 64usize];
    ["Alignment of takt_fault"][align_of::<takt_fault>() - 8usize];
    ["Offset of field: takt_fault::struct_size"][offset_of!(takt_fault, struct_size) - 0usize];
    ["Offset of field: takt_fault::kind"][offset_of!(takt_fault, kind) - 4usize];
    ["Offset of field: takt_fault::count"][offset_of!(takt_fault, count) - 8usize];
    ["Offset of field: takt_fault::step"][offset_of!(takt_fault, step) - 16usize];
    ["Offset of field: takt_fault::request"][offset_of!(takt_fault, request) - 24usize];
    ["Offset of field: takt_fault::at"][offset_of!(takt_fault, at) - 32usize];
    ["Offset of field: takt_fault::said"][offset_of!(takt_fault, said) - 40usize];
    ["Offset of field: takt_fault::expected"][offset_of!(takt_fault, expected) - 48usize];
    ["Offset of field: takt_fault::lane"][offset_of!(takt_fault, lane) - 56usize];
    ["Offset of field: takt_fault::reserved"][offset_of!(takt_fault, reserved) - 60usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_request_state {
    pub struct_size: u32,
    pub has_run: u32,
    pub request: *const takt_request,
    pub enqueued: i64,
    pub generated: i32,
    pub returned: i32,
    pub computed: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_request_state"][size_of::<takt_request_state>() - 40usize];
    ["Alignment of takt_request_state"][align_of::<takt_request_state>() - 8usize];
    ["Offset of field: takt_request_state::struct_size"][offset_of!(takt_request_state, struct_size) - 0usize];
    ["Offset of field: takt_request_state::has_run"][offset_of!(takt_request_state, has_run) - 4usize];
    ["Offset of field: takt_request_state::request"][offset_of!(takt_request_state, request) - 8usize];
    ["Offset of field: takt_request_state::enqueued"][offset_of!(takt_request_state, enqueued) - 16usize];
    ["Offset of field: takt_request_state::generated"][offset_of!(takt_request_state, generated) - 24usize];
    ["Offset of field: takt_request_state::returned"][offset_of!(takt_request_state, returned) - 28usize];
    ["Offset of field: takt_request_state::computed"][offset_of!(takt_request_state, computed) - 32usize];
    ["Offset of field: takt_request_state::reserved"][offset_of!(takt_request_state, reserved) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_key {
    pub struct_size: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub context: *mut c_void,
    pub key: Option<unsafe extern "C" fn(context: *mut c_void, state: *const takt_request_state) -> f64>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_key"][size_of::<takt_key>() - 32usize];
    ["Alignment of takt_key"][align_of::<takt_key>() - 8usize];
    ["Offset of field: takt_key::struct_size"][offset_of!(takt_key, struct_size) - 0usize];
    ["Offset of field: takt_key::reserved"][offset_of!(takt_key, reserved) - 4usize];
    ["Offset of field: takt_key::name"][offset_of!(takt_key, name) - 8usize];
    ["Offset of field: takt_key::context"][offset_of!(takt_key, context) - 16usize];
    ["Offset of field: takt_key::key"][offset_of!(takt_key, key) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_epoch {
    pub struct_size: u32,
    pub told: u32,
    pub ranks: *const takt_agent_rank,
    pub n_ranks: usize,
    pub otherwise: takt_agent_rank,
    pub alpha: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_epoch"][size_of::<takt_epoch>() - 64usize];
    ["Alignment of takt_epoch"][align_of::<takt_epoch>() - 8usize];
    ["Offset of field: takt_epoch::struct_size"][offset_of!(takt_epoch, struct_size) - 0usize];
    ["Offset of field: takt_epoch::told"][offset_of!(takt_epoch, told) - 4usize];
    ["Offset of field: takt_epoch::ranks"][offset_of!(takt_epoch, ranks) - 8usize];
    ["Offset of field: takt_epoch::n_ranks"][offset_of!(takt_epoch, n_ranks) - 16usize];
    ["Offset of field: takt_epoch::otherwise"][offset_of!(takt_epoch, otherwise) - 24usize];
    ["Offset of field: takt_epoch::alpha"][offset_of!(takt_epoch, alpha) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_plan {
    pub struct_size: u32,
    pub idle: u32,
    pub id: u64,
    pub run: *const takt_plan_entry,
    pub n_run: usize,
    pub moves: *const takt_move,
    pub n_moves: usize,
    pub preempted: *const takt_preemption,
    pub n_preempted: usize,
    pub failed: *const takt_failure,
    pub n_failed: usize,
    pub released: *const u64,
    pub n_released: usize,
    pub wake_at: i64,
    pub tokens: i32,
    pub reserved: u32,
    pub dropped: *const takt_dropped_prefix,
    pub n_dropped: usize,
    pub hints: *const takt_cache_hint,
    pub n_hints: usize,
    pub host_chunks: *const takt_host_chunk,
    pub n_host_chunks: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_plan"][size_of::<takt_plan>() - 160usize];
    ["Alignment of takt_plan"][align_of::<takt_plan>() - 8usize];
    ["Offset of field: takt_plan::struct_size"][offset_of!(takt_plan, struct_size) - 0usize];
    ["Offset of field: takt_plan::idle"][offset_of!(takt_plan, idle) - 4usize];
    ["Offset of field: takt_plan::id"][offset_of!(takt_plan, id) - 8usize];
    ["Offset of field: takt_plan::run"][offset_of!(takt_plan, run) - 16usize];
    ["Offset of field: takt_plan::n_run"][offset_of!(takt_plan, n_run) - 24usize];
    ["Offset of field: takt_plan::moves"][offset_of!(takt_plan, moves) - 32usize];
    ["Offset of field: takt_plan::n_moves"][offset_of!(takt_plan, n_moves) - 40usize];
    ["Offset of field: takt_plan::preempted"][offset_of!(takt_plan, preempted) - 48usize];
    ["Offset of field: takt_plan::n_preempted"][offset_of!(takt_plan, n_preempted) - 56usize];
    ["Offset of field: takt_plan::failed"][offset_of!(takt_plan, failed) - 64usize];
    ["Offset of field: takt_plan::n_failed"][offset_of!(takt_plan, n_failed) - 72usize];
    ["Offset of field: takt_plan::released"][offset_of!(takt_plan, released) - 80usize];
    ["Offset of field: takt_plan::n_released"][offset_of!(takt_plan, n_released) - 88usize];
    ["Offset of field: takt_plan::wake_at"][offset_of!(takt_plan, wake_at) - 96usize];
    ["Offset of field: takt_plan::tokens"][offset_of!(takt_plan, tokens) - 104usize];
    ["Offset of field: takt_plan::reserved"][offset_of!(takt_plan, reserved) - 108usize];
    ["Offset of field: takt_plan::dropped"][offset_of!(takt_plan, dropped) - 112usize];
    ["Offset of field: takt_plan::n_dropped"][offset_of!(takt_plan, n_dropped) - 120usize];
    ["Offset of field: takt_plan::hints"][offset_of!(takt_plan, hints) - 128usize];
    ["Offset of field: takt_plan::n_hints"][offset_of!(takt_plan, n_hints) - 136usize];
    ["Offset of field: takt_plan::host_chunks"][offset_of!(takt_plan, host_chunks) - 144usize];
    ["Offset of field: takt_plan::n_host_chunks"][offset_of!(takt_plan, n_host_chunks) - 152usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_kv_snapshot {
    pub total: i32,
    pub free: i32,
    pub pending: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_kv_snapshot"][size_of::<takt_kv_snapshot>() - 16usize];
    ["Alignment of takt_kv_snapshot"][align_of::<takt_kv_snapshot>() - 4usize];
    ["Offset of field: takt_kv_snapshot::total"][offset_of!(takt_kv_snapshot, total) - 0usize];
    ["Offset of field: takt_kv_snapshot::free"][offset_of!(takt_kv_snapshot, free) - 4usize];
    ["Offset of field: takt_kv_snapshot::pending"][offset_of!(takt_kv_snapshot, pending) - 8usize];
    ["Offset of field: takt_kv_snapshot::reserved"][offset_of!(takt_kv_snapshot, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_kv_hit {
    pub request: u64,
    pub prefix_hashes: *const u64,
    pub n_prefix_hashes: usize,
    pub prefix_block_tokens: i32,
    pub prompt_tokens: i32,
    pub tokens: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_kv_hit"][size_of::<takt_kv_hit>() - 40usize];
    ["Alignment of takt_kv_hit"][align_of::<takt_kv_hit>() - 8usize];
    ["Offset of field: takt_kv_hit::request"][offset_of!(takt_kv_hit, request) - 0usize];
    ["Offset of field: takt_kv_hit::prefix_hashes"][offset_of!(takt_kv_hit, prefix_hashes) - 8usize];
    ["Offset of field: takt_kv_hit::n_prefix_hashes"][offset_of!(takt_kv_hit, n_prefix_hashes) - 16usize];
    ["Offset of field: takt_kv_hit::prefix_block_tokens"][offset_of!(takt_kv_hit, prefix_block_tokens) - 24usize];
    ["Offset of field: takt_kv_hit::prompt_tokens"][offset_of!(takt_kv_hit, prompt_tokens) - 28usize];
    ["Offset of field: takt_kv_hit::tokens"][offset_of!(takt_kv_hit, tokens) - 32usize];
    ["Offset of field: takt_kv_hit::reserved"][offset_of!(takt_kv_hit, reserved) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_kv_wish {
    pub request: u64,
    pub have: i32,
    pub want: i32,
    pub admission: u32,
    pub granted: u32,
    pub refusal: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_kv_wish"][size_of::<takt_kv_wish>() - 32usize];
    ["Alignment of takt_kv_wish"][align_of::<takt_kv_wish>() - 8usize];
    ["Offset of field: takt_kv_wish::request"][offset_of!(takt_kv_wish, request) - 0usize];
    ["Offset of field: takt_kv_wish::have"][offset_of!(takt_kv_wish, have) - 8usize];
    ["Offset of field: takt_kv_wish::want"][offset_of!(takt_kv_wish, want) - 12usize];
    ["Offset of field: takt_kv_wish::admission"][offset_of!(takt_kv_wish, admission) - 16usize];
    ["Offset of field: takt_kv_wish::granted"][offset_of!(takt_kv_wish, granted) - 20usize];
    ["Offset of field: takt_kv_wish::refusal"][offset_of!(takt_kv_wish, refusal) - 24usize];
    ["Offset of field: takt_kv_wish::reserved"][offset_of!(takt_kv_wish, reserved) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_kv_oracle {
    pub struct_size: u32,
    pub block_tokens: i32,
    pub context: *mut c_void,
    pub snapshot: Option<unsafe extern "C" fn(context: *mut c_void, snapshot: *mut takt_kv_snapshot)>,
    pub cached: Option<unsafe extern "C" fn(context: *mut c_void, hits: *mut takt_kv_hit, n: usize)>,
    pub reserve: Option<unsafe extern "C" fn(context: *mut c_void, step: u64, wishes: *mut takt_kv_wish, n: usize)>,
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, request: u64, action: u32) -> i32>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_kv_oracle"][size_of::<takt_kv_oracle>() - 48usize];
    ["Alignment of takt_kv_oracle"][align_of::<takt_kv_oracle>() - 8usize];
    ["Offset of field: takt_kv_oracle::struct_size"][offset_of!(takt_kv_oracle, struct_size) - 0usize];
    ["Offset of field: takt_kv_oracle::block_tokens"][offset_of!(takt_kv_oracle, block_tokens) - 4usize];
    ["Offset of field: takt_kv_oracle::context"][offset_of!(takt_kv_oracle, context) - 8usize];
    ["Offset of field: takt_kv_oracle::snapshot"][offset_of!(takt_kv_oracle, snapshot) - 16usize];
    ["Offset of field: takt_kv_oracle::cached"][offset_of!(takt_kv_oracle, cached) - 24usize];
    ["Offset of field: takt_kv_oracle::reserve"][offset_of!(takt_kv_oracle, reserve) - 32usize];
    ["Offset of field: takt_kv_oracle::release"][offset_of!(takt_kv_oracle, release) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_scheduler_options {
    pub struct_size: u32,
    pub max_running: i32,
    pub max_waiting: i64,
    pub reserve_requests: i64,
    pub shed: u32,
    pub order: u32,
    pub preempt: u32,
    pub preempt_action: u32,
    pub preempt_margin: f64,
    pub kv: u32,
    pub kv_block_tokens: i32,
    pub kv_blocks: i32,
    pub cpu_blocks: i32,
    pub kv_watermark: f64,
    pub prefix_cache: u32,
    pub admission_window: i32,
    pub first_step: u64,
    pub hash_seed: u64,
    pub max_step_tokens: i32,
    pub max_step_seqs: i32,
    pub policy: *const c_char,
    pub pause: *const c_char,
    pub record: takt_sink,
    pub record_context: *mut c_void,
    pub record_flush_bytes: usize,
    pub record_plans: u32,
    pub reserved: u32,
    pub oracle: *const takt_kv_oracle,
    pub key: *const takt_key,
    pub pin_share: f64,
    pub prefix_cpu_blocks: i32,
    pub prefix_wait: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_scheduler_options"][size_of::<takt_scheduler_options>() - 184usize];
    ["Alignment of takt_scheduler_options"][align_of::<takt_scheduler_options>() - 8usize];
    ["Offset of field: takt_scheduler_options::struct_size"][offset_of!(takt_scheduler_options, struct_size) - 0usize];
    ["Offset of field: takt_scheduler_options::max_running"][offset_of!(takt_scheduler_options, max_running) - 4usize];
    ["Offset of field: takt_scheduler_options::max_waiting"][offset_of!(takt_scheduler_options, max_waiting) - 8usize];
    ["Offset of field: takt_scheduler_options::reserve_requests"][offset_of!(takt_scheduler_options, reserve_requests) - 16usize];
    ["Offset of field: takt_scheduler_options::shed"][offset_of!(takt_scheduler_options, shed) - 24usize];
    ["Offset of field: takt_scheduler_options::order"][offset_of!(takt_scheduler_options, order) - 28usize];
    ["Offset of field: takt_scheduler_options::preempt"][offset_of!(takt_scheduler_options, preempt) - 32usize];
    ["Offset of field: takt_scheduler_options::preempt_action"][offset_of!(takt_scheduler_options, preempt_action) - 36usize];
    ["Offset of field: takt_scheduler_options::preempt_margin"][offset_of!(takt_scheduler_options, preempt_margin) - 40usize];
    ["Offset of field: takt_scheduler_options::kv"][offset_of!(takt_scheduler_options, kv) - 48usize];
    ["Offset of field: takt_scheduler_options::kv_block_tokens"][offset_of!(takt_scheduler_options, kv_block_tokens) - 52usize];
    ["Offset of field: takt_scheduler_options::kv_blocks"][offset_of!(takt_scheduler_options, kv_blocks) - 56usize];
    ["Offset of field: takt_scheduler_options::cpu_blocks"][offset_of!(takt_scheduler_options, cpu_blocks) - 60usize];
    ["Offset of field: takt_scheduler_options::kv_watermark"][offset_of!(takt_scheduler_options, kv_watermark) - 64usize];
    ["Offset of field: takt_scheduler_options::prefix_cache"][offset_of!(takt_scheduler_options, prefix_cache) - 72usize];
    ["Offset of field: takt_scheduler_options::admission_window"][offset_of!(takt_scheduler_options, admission_window) - 76usize];
    ["Offset of field: takt_scheduler_options::first_step"][offset_of!(takt_scheduler_options, first_step) - 80usize];
    ["Offset of field: takt_scheduler_options::hash_seed"][offset_of!(takt_scheduler_options, hash_seed) - 88usize];
    ["Offset of field: takt_scheduler_options::max_step_tokens"][offset_of!(takt_scheduler_options, max_step_tokens) - 96usize];
    ["Offset of field: takt_scheduler_options::max_step_seqs"][offset_of!(takt_scheduler_options, max_step_seqs) - 100usize];
    ["Offset of field: takt_scheduler_options::policy"][offset_of!(takt_scheduler_options, policy) - 104usize];
    ["Offset of field: takt_scheduler_options::pause"][offset_of!(takt_scheduler_options, pause) - 112usize];
    ["Offset of field: takt_scheduler_options::record"][offset_of!(takt_scheduler_options, record) - 120usize];
    ["Offset of field: takt_scheduler_options::record_context"][offset_of!(takt_scheduler_options, record_context) - 128usize];
    ["Offset of field: takt_scheduler_options::record_flush_bytes"][offset_of!(takt_scheduler_options, record_flush_bytes) - 136usize];
    ["Offset of field: takt_scheduler_options::record_plans"][offset_of!(takt_scheduler_options, record_plans) - 144usize];
    ["Offset of field: takt_scheduler_options::reserved"][offset_of!(takt_scheduler_options, reserved) - 148usize];
    ["Offset of field: takt_scheduler_options::oracle"][offset_of!(takt_scheduler_options, oracle) - 152usize];
    ["Offset of field: takt_scheduler_options::key"][offset_of!(takt_scheduler_options, key) - 160usize];
    ["Offset of field: takt_scheduler_options::pin_share"][offset_of!(takt_scheduler_options, pin_share) - 168usize];
    ["Offset of field: takt_scheduler_options::prefix_cpu_blocks"][offset_of!(takt_scheduler_options, prefix_cpu_blocks) - 176usize];
    ["Offset of field: takt_scheduler_options::prefix_wait"][offset_of!(takt_scheduler_options, prefix_wait) - 180usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_scheduler_counts {
    pub struct_size: u32,
    pub draining: u32,
    pub alive: i64,
    pub waiting: i64,
    pub running: i64,
    pub paused: i64,
    pub blocked: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_scheduler_counts"][size_of::<takt_scheduler_counts>() - 48usize];
    ["Alignment of takt_scheduler_counts"][align_of::<takt_scheduler_counts>() - 8usize];
    ["Offset of field: takt_scheduler_counts::struct_size"][offset_of!(takt_scheduler_counts, struct_size) - 0usize];
    ["Offset of field: takt_scheduler_counts::draining"][offset_of!(takt_scheduler_counts, draining) - 4usize];
    ["Offset of field: takt_scheduler_counts::alive"][offset_of!(takt_scheduler_counts, alive) - 8usize];
    ["Offset of field: takt_scheduler_counts::waiting"][offset_of!(takt_scheduler_counts, waiting) - 16usize];
    ["Offset of field: takt_scheduler_counts::running"][offset_of!(takt_scheduler_counts, running) - 24usize];
    ["Offset of field: takt_scheduler_counts::paused"][offset_of!(takt_scheduler_counts, paused) - 32usize];
    ["Offset of field: takt_scheduler_counts::blocked"][offset_of!(takt_scheduler_counts, blocked) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_kv_use {
    pub struct_size: u32,
    pub total: i32,
    pub used: i32,
    pub free: i32,
    pub cached: i32,
    pub pending: i32,
    pub cpu_total: i32,
    pub cpu_used: i32,
    pub cpu_cached: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_kv_use"][size_of::<takt_kv_use>() - 40usize];
    ["Alignment of takt_kv_use"][align_of::<takt_kv_use>() - 4usize];
    ["Offset of field: takt_kv_use::struct_size"][offset_of!(takt_kv_use, struct_size) - 0usize];
    ["Offset of field: takt_kv_use::total"][offset_of!(takt_kv_use, total) - 4usize];
    ["Offset of field: takt_kv_use::used"][offset_of!(takt_kv_use, used) - 8usize];
    ["Offset of field: takt_kv_use::free"][offset_of!(takt_kv_use, free) - 12usize];
    ["Offset of field: takt_kv_use::cached"][offset_of!(takt_kv_use, cached) - 16usize];
    ["Offset of field: takt_kv_use::pending"][offset_of!(takt_kv_use, pending) - 20usize];
    ["Offset of field: takt_kv_use::cpu_total"][offset_of!(takt_kv_use, cpu_total) - 24usize];
    ["Offset of field: takt_kv_use::cpu_used"][offset_of!(takt_kv_use, cpu_used) - 28usize];
    ["Offset of field: takt_kv_use::cpu_cached"][offset_of!(takt_kv_use, cpu_cached) - 32usize];
    ["Offset of field: takt_kv_use::reserved"][offset_of!(takt_kv_use, reserved) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_key_part {
    pub name: [c_char; 24],
    pub value: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_key_part"][size_of::<takt_key_part>() - 32usize];
    ["Alignment of takt_key_part"][align_of::<takt_key_part>() - 8usize];
    ["Offset of field: takt_key_part::name"][offset_of!(takt_key_part, name) - 0usize];
    ["Offset of field: takt_key_part::value"][offset_of!(takt_key_part, value) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_explanation {
    pub struct_size: u32,
    pub status: u32,
    pub waits_for: u32,
    pub promoted: u32,
    pub key: f64,
    pub ahead: i64,
    pub known: i32,
    pub computed: i32,
    pub in_flight: i32,
    pub generated: i32,
    pub kv_blocks: i32,
    pub cpu_blocks: i32,
    pub n_parts: u32,
    pub passed: i32,
    pub parts: [takt_key_part; 12],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_explanation"][size_of::<takt_explanation>() - 448usize];
    ["Alignment of takt_explanation"][align_of::<takt_explanation>() - 8usize];
    ["Offset of field: takt_explanation::struct_size"][offset_of!(takt_explanation, struct_size) - 0usize];
    ["Offset of field: takt_explanation::status"][offset_of!(takt_explanation, status) - 4usize];
    ["Offset of field: takt_explanation::waits_for"][offset_of!(takt_explanation, waits_for) - 8usize];
    ["Offset of field: takt_explanation::promoted"][offset_of!(takt_explanation, promoted) - 12usize];
    ["Offset of field: takt_explanation::key"][offset_of!(takt_explanation, key) - 16usize];
    ["Offset of field: takt_explanation::ahead"][offset_of!(takt_explanation, ahead) - 24usize];
    ["Offset of field: takt_explanation::known"][offset_of!(takt_explanation, known) - 32usize];
    ["Offset of field: takt_explanation::computed"][offset_of!(takt_explanation, computed) - 36usize];
    ["Offset of field: takt_explanation::in_flight"][offset_of!(takt_explanation, in_flight) - 40usize];
    ["Offset of field: takt_explanation::generated"][offset_of!(takt_explanation, generated) - 44usize];
    ["Offset of field: takt_explanation::kv_blocks"][offset_of!(takt_explanation, kv_blocks) - 48usize];
    ["Offset of field: takt_explanation::cpu_blocks"][offset_of!(takt_explanation, cpu_blocks) - 52usize];
    ["Offset of field: takt_explanation::n_parts"][offset_of!(takt_explanation, n_parts) - 56usize];
    ["Offset of field: takt_explanation::passed"][offset_of!(takt_explanation, passed) - 60usize];
    ["Offset of field: takt_explanation::parts"][offset_of!(takt_explanation, parts) - 64usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_held {
    pub struct_size: u32,
    pub its_class: u32,
    pub tokens: i32,
    pub own: i32,
    pub turns: i32,
    pub awaited: u32,
    pub in_use: u32,
    pub ahead: i32,
    pub since: i64,
    pub value: f64,
    pub price: f64,
    pub next: u64,
    pub next_branch: u64,
    pub pinned_until: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_held"][size_of::<takt_held>() - 80usize];
    ["Alignment of takt_held"][align_of::<takt_held>() - 8usize];
    ["Offset of field: takt_held::struct_size"][offset_of!(takt_held, struct_size) - 0usize];
    ["Offset of field: takt_held::its_class"][offset_of!(takt_held, its_class) - 4usize];
    ["Offset of field: takt_held::tokens"][offset_of!(takt_held, tokens) - 8usize];
    ["Offset of field: takt_held::own"][offset_of!(takt_held, own) - 12usize];
    ["Offset of field: takt_held::turns"][offset_of!(takt_held, turns) - 16usize];
    ["Offset of field: takt_held::awaited"][offset_of!(takt_held, awaited) - 20usize];
    ["Offset of field: takt_held::in_use"][offset_of!(takt_held, in_use) - 24usize];
    ["Offset of field: takt_held::ahead"][offset_of!(takt_held, ahead) - 28usize];
    ["Offset of field: takt_held::since"][offset_of!(takt_held, since) - 32usize];
    ["Offset of field: takt_held::value"][offset_of!(takt_held, value) - 40usize];
    ["Offset of field: takt_held::price"][offset_of!(takt_held, price) - 48usize];
    ["Offset of field: takt_held::next"][offset_of!(takt_held, next) - 56usize];
    ["Offset of field: takt_held::next_branch"][offset_of!(takt_held, next_branch) - 64usize];
    ["Offset of field: takt_held::pinned_until"][offset_of!(takt_held, pinned_until) - 72usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_queue_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub reserve_requests: i64,
    pub hash_seed: u64,
    pub policy: *const c_char,
    pub key: *const takt_key,
    pub epoch: *const takt_epoch,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_queue_options"][size_of::<takt_queue_options>() - 48usize];
    ["Alignment of takt_queue_options"][align_of::<takt_queue_options>() - 8usize];
    ["Offset of field: takt_queue_options::struct_size"][offset_of!(takt_queue_options, struct_size) - 0usize];
    ["Offset of field: takt_queue_options::reserved"][offset_of!(takt_queue_options, reserved) - 4usize];
    ["Offset of field: takt_queue_options::reserve_requests"][offset_of!(takt_queue_options, reserve_requests) - 8usize];
    ["Offset of field: takt_queue_options::hash_seed"][offset_of!(takt_queue_options, hash_seed) - 16usize];
    ["Offset of field: takt_queue_options::policy"][offset_of!(takt_queue_options, policy) - 24usize];
    ["Offset of field: takt_queue_options::key"][offset_of!(takt_queue_options, key) - 32usize];
    ["Offset of field: takt_queue_options::epoch"][offset_of!(takt_queue_options, epoch) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_pressure {
    pub struct_size: u32,
    pub head: u32,
    pub limits: *const takt_limits,
    pub kv_tokens: i32,
    pub engines: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_pressure"][size_of::<takt_pressure>() - 24usize];
    ["Alignment of takt_pressure"][align_of::<takt_pressure>() - 8usize];
    ["Offset of field: takt_pressure::struct_size"][offset_of!(takt_pressure, struct_size) - 0usize];
    ["Offset of field: takt_pressure::head"][offset_of!(takt_pressure, head) - 4usize];
    ["Offset of field: takt_pressure::limits"][offset_of!(takt_pressure, limits) - 8usize];
    ["Offset of field: takt_pressure::kv_tokens"][offset_of!(takt_pressure, kv_tokens) - 16usize];
    ["Offset of field: takt_pressure::engines"][offset_of!(takt_pressure, engines) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_stage_time {
    pub stage: u64,
    pub profile: *const c_char,
    pub time: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_stage_time"][size_of::<takt_stage_time>() - 24usize];
    ["Alignment of takt_stage_time"][align_of::<takt_stage_time>() - 8usize];
    ["Offset of field: takt_stage_time::stage"][offset_of!(takt_stage_time, stage) - 0usize];
    ["Offset of field: takt_stage_time::profile"][offset_of!(takt_stage_time, profile) - 8usize];
    ["Offset of field: takt_stage_time::time"][offset_of!(takt_stage_time, time) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cost_model {
    pub struct_size: u32,
    pub tp: i32,
    pub constant_ms: f64,
    pub per_prefill_ms: f64,
    pub per_decode_ms: f64,
    pub per_context_ms: f64,
    pub per_sample_ms: f64,
    pub kv_bytes_per_token: f64,
    pub host_link_gb_s: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_cost_model"][size_of::<takt_cost_model>() - 64usize];
    ["Alignment of takt_cost_model"][align_of::<takt_cost_model>() - 8usize];
    ["Offset of field: takt_cost_model::struct_size"][offset_of!(takt_cost_model, struct_size) - 0usize];
    ["Offset of field: takt_cost_model::tp"][offset_of!(takt_cost_model, tp) - 4usize];
    ["Offset of field: takt_cost_model::constant_ms"][offset_of!(takt_cost_model, constant_ms) - 8usize];
    ["Offset of field: takt_cost_model::per_prefill_ms"][offset_of!(takt_cost_model, per_prefill_ms) - 16usize];
    ["Offset of field: takt_cost_model::per_decode_ms"][offset_of!(takt_cost_model, per_decode_ms) - 24usize];
    ["Offset of field: takt_cost_model::per_context_ms"][offset_of!(takt_cost_model, per_context_ms) - 32usize];
    ["Offset of field: takt_cost_model::per_sample_ms"][offset_of!(takt_cost_model, per_sample_ms) - 40usize];
    ["Offset of field: takt_cost_model::kv_bytes_per_token"][offset_of!(takt_cost_model, kv_bytes_per_token) - 48usize];
    ["Offset of field: takt_cost_model::host_link_gb_s"][offset_of!(takt_cost_model, host_link_gb_s) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_router_options {
    pub struct_size: u32,
    pub window: i32,
    pub max_outstanding: i64,
    pub reserve_requests: i64,
    pub hash_seed: u64,
    pub fail_unfit: u32,
    pub reserved: u32,
    pub policy: *const c_char,
    pub placement: *const c_char,
    pub key: *const takt_key,
    pub budgets: u32,
    pub blown: u32,
    pub stage_times: *const takt_stage_time,
    pub n_stage_times: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_router_options"][size_of::<takt_router_options>() - 88usize];
    ["Alignment of takt_router_options"][align_of::<takt_router_options>() - 8usize];
    ["Offset of field: takt_router_options::struct_size"][offset_of!(takt_router_options, struct_size) - 0usize];
    ["Offset of field: takt_router_options::window"][offset_of!(takt_router_options, window) - 4usize];
    ["Offset of field: takt_router_options::max_outstanding"][offset_of!(takt_router_options, max_outstanding) - 8usize];
    ["Offset of field: takt_router_options::reserve_requests"][offset_of!(takt_router_options, reserve_requests) - 16usize];
    ["Offset of field: takt_router_options::hash_seed"][offset_of!(takt_router_options, hash_seed) - 24usize];
    ["Offset of field: takt_router_options::fail_unfit"][offset_of!(takt_router_options, fail_unfit) - 32usize];
    ["Offset of field: takt_router_options::reserved"][offset_of!(takt_router_options, reserved) - 36usize];
    ["Offset of field: takt_router_options::policy"][offset_of!(takt_router_options, policy) - 40usize];
    ["Offset of field: takt_router_options::placement"][offset_of!(takt_router_options, placement) - 48usize];
    ["Offset of field: takt_router_options::key"][offset_of!(takt_router_options, key) - 56usize];
    ["Offset of field: takt_router_options::budgets"][offset_of!(takt_router_options, budgets) - 64usize];
    ["Offset of field: takt_router_options::blown"][offset_of!(takt_router_options, blown) - 68usize];
    ["Offset of field: takt_router_options::stage_times"][offset_of!(takt_router_options, stage_times) - 72usize];
    ["Offset of field: takt_router_options::n_stage_times"][offset_of!(takt_router_options, n_stage_times) - 80usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_routing {
    pub struct_size: u32,
    pub reserved: u32,
    pub placed: *const takt_placement,
    pub n_placed: usize,
    pub failed: *const takt_failure,
    pub n_failed: usize,
    pub ended: *const takt_workflow_end,
    pub n_ended: usize,
    pub faults: *const takt_workflow_fault,
    pub n_faults: usize,
    pub wake_at: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_routing"][size_of::<takt_routing>() - 80usize];
    ["Alignment of takt_routing"][align_of::<takt_routing>() - 8usize];
    ["Offset of field: takt_routing::struct_size"][offset_of!(takt_routing, struct_size) - 0usize];
    ["Offset of field: takt_routing::reserved"][offset_of!(takt_routing, reserved) - 4usize];
    ["Offset of field: takt_routing::placed"][offset_of!(takt_routing, placed) - 8usize];
    ["Offset of field: takt_routing::n_placed"][offset_of!(takt_routing, n_placed) - 16usize];
    ["Offset of field: takt_routing::failed"][offset_of!(takt_routing, failed) - 24usize];
    ["Offset of field: takt_routing::n_failed"][offset_of!(takt_routing, n_failed) - 32usize];
    ["Offset of field: takt_routing::ended"][offset_of!(takt_routing, ended) - 40usize];
    ["Offset of field: takt_routing::n_ended"][offset_of!(takt_routing, n_ended) - 48usize];
    ["Offset of field: takt_routing::faults"][offset_of!(takt_routing, faults) - 56usize];
    ["Offset of field: takt_routing::n_faults"][offset_of!(takt_routing, n_faults) - 64usize];
    ["Offset of field: takt_routing::wake_at"][offset_of!(takt_routing, wake_at) - 72usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_router_counts {
    pub struct_size: u32,
    pub instances: u32,
    pub alive: i64,
    pub waiting: i64,
    pub set_aside: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_router_counts"][size_of::<takt_router_counts>() - 32usize];
    ["Alignment of takt_router_counts"][align_of::<takt_router_counts>() - 8usize];
    ["Offset of field: takt_router_counts::struct_size"][offset_of!(takt_router_counts, struct_size) - 0usize];
    ["Offset of field: takt_router_counts::instances"][offset_of!(takt_router_counts, instances) - 4usize];
    ["Offset of field: takt_router_counts::alive"][offset_of!(takt_router_counts, alive) - 8usize];
    ["Offset of field: takt_router_counts::waiting"][offset_of!(takt_router_counts, waiting) - 16usize];
    ["Offset of field: takt_router_counts::set_aside"][offset_of!(takt_router_counts, set_aside) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_call {
    pub struct_size: u32,
    pub calls_before: i32,
    pub model: *const c_char,
    pub kind: *const c_char,
    pub stage: *const c_char,
    pub text: *const c_char,
    pub n_text: usize,
    pub prompt_tokens: i32,
    pub system_tokens: i32,
    pub user_tokens: i32,
    pub tokens_before: i32,
    pub generated: i32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_call"][size_of::<takt_call>() - 72usize];
    ["Alignment of takt_call"][align_of::<takt_call>() - 8usize];
    ["Offset of field: takt_call::struct_size"][offset_of!(takt_call, struct_size) - 0usize];
    ["Offset of field: takt_call::calls_before"][offset_of!(takt_call, calls_before) - 4usize];
    ["Offset of field: takt_call::model"][offset_of!(takt_call, model) - 8usize];
    ["Offset of field: takt_call::kind"][offset_of!(takt_call, kind) - 16usize];
    ["Offset of field: takt_call::stage"][offset_of!(takt_call, stage) - 24usize];
    ["Offset of field: takt_call::text"][offset_of!(takt_call, text) - 32usize];
    ["Offset of field: takt_call::n_text"][offset_of!(takt_call, n_text) - 40usize];
    ["Offset of field: takt_call::prompt_tokens"][offset_of!(takt_call, prompt_tokens) - 48usize];
    ["Offset of field: takt_call::system_tokens"][offset_of!(takt_call, system_tokens) - 52usize];
    ["Offset of field: takt_call::user_tokens"][offset_of!(takt_call, user_tokens) - 56usize];
    ["Offset of field: takt_call::tokens_before"][offset_of!(takt_call, tokens_before) - 60usize];
    ["Offset of field: takt_call::generated"][offset_of!(takt_call, generated) - 64usize];
    ["Offset of field: takt_call::reserved"][offset_of!(takt_call, reserved) - 68usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_tool_profile_options {
    pub struct_size: u32,
    pub max_classes: u32,
    pub window: i64,
    pub seed_weight: i64,
    pub max_seconds: f64,
    pub hash_seed: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_tool_profile_options"][size_of::<takt_tool_profile_options>() - 40usize];
    ["Alignment of takt_tool_profile_options"][align_of::<takt_tool_profile_options>() - 8usize];
    ["Offset of field: takt_tool_profile_options::struct_size"][offset_of!(takt_tool_profile_options, struct_size) - 0usize];
    ["Offset of field: takt_tool_profile_options::max_classes"][offset_of!(takt_tool_profile_options, max_classes) - 4usize];
    ["Offset of field: takt_tool_profile_options::window"][offset_of!(takt_tool_profile_options, window) - 8usize];
    ["Offset of field: takt_tool_profile_options::seed_weight"][offset_of!(takt_tool_profile_options, seed_weight) - 16usize];
    ["Offset of field: takt_tool_profile_options::max_seconds"][offset_of!(takt_tool_profile_options, max_seconds) - 24usize];
    ["Offset of field: takt_tool_profile_options::hash_seed"][offset_of!(takt_tool_profile_options, hash_seed) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_tool_expectation {
    pub struct_size: u32,
    pub pooled: u32,
    pub seconds: takt_estimate,
    pub returned_tokens: takt_estimate,
    pub tokens_before: takt_estimate,
    pub seconds_spread: f64,
    pub returned_spread: f64,
    pub before_spread: f64,
    pub observations: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_tool_expectation"][size_of::<takt_tool_expectation>() - 136usize];
    ["Alignment of takt_tool_expectation"][align_of::<takt_tool_expectation>() - 8usize];
    ["Offset of field: takt_tool_expectation::struct_size"][offset_of!(takt_tool_expectation, struct_size) - 0usize];
    ["Offset of field: takt_tool_expectation::pooled"][offset_of!(takt_tool_expectation, pooled) - 4usize];
    ["Offset of field: takt_tool_expectation::seconds"][offset_of!(takt_tool_expectation, seconds) - 8usize];
    ["Offset of field: takt_tool_expectation::returned_tokens"][offset_of!(takt_tool_expectation, returned_tokens) - 40usize];
    ["Offset of field: takt_tool_expectation::tokens_before"][offset_of!(takt_tool_expectation, tokens_before) - 72usize];
    ["Offset of field: takt_tool_expectation::seconds_spread"][offset_of!(takt_tool_expectation, seconds_spread) - 104usize];
    ["Offset of field: takt_tool_expectation::returned_spread"][offset_of!(takt_tool_expectation, returned_spread) - 112usize];
    ["Offset of field: takt_tool_expectation::before_spread"][offset_of!(takt_tool_expectation, before_spread) - 120usize];
    ["Offset of field: takt_tool_expectation::observations"][offset_of!(takt_tool_expectation, observations) - 128usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_agent_learner_options {
    pub struct_size: u32,
    pub order: u32,
    pub wall_clock: u32,
    pub max_agents: u32,
    pub max_workflows: u32,
    pub reserved: u32,
    pub retire_after: i64,
    pub hash_seed: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_agent_learner_options"][size_of::<takt_agent_learner_options>() - 40usize];
    ["Alignment of takt_agent_learner_options"][align_of::<takt_agent_learner_options>() - 8usize];
    ["Offset of field: takt_agent_learner_options::struct_size"][offset_of!(takt_agent_learner_options, struct_size) - 0usize];
    ["Offset of field: takt_agent_learner_options::order"][offset_of!(takt_agent_learner_options, order) - 4usize];
    ["Offset of field: takt_agent_learner_options::wall_clock"][offset_of!(takt_agent_learner_options, wall_clock) - 8usize];
    ["Offset of field: takt_agent_learner_options::max_agents"][offset_of!(takt_agent_learner_options, max_agents) - 12usize];
    ["Offset of field: takt_agent_learner_options::max_workflows"][offset_of!(takt_agent_learner_options, max_workflows) - 16usize];
    ["Offset of field: takt_agent_learner_options::reserved"][offset_of!(takt_agent_learner_options, reserved) - 20usize];
    ["Offset of field: takt_agent_learner_options::retire_after"][offset_of!(takt_agent_learner_options, retire_after) - 24usize];
    ["Offset of field: takt_agent_learner_options::hash_seed"][offset_of!(takt_agent_learner_options, hash_seed) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_call_record {
    pub workflow: u64,
    pub agent: u64,
    pub upstream: u64,
    pub start: i64,
    pub end: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_call_record"][size_of::<takt_call_record>() - 40usize];
    ["Alignment of takt_call_record"][align_of::<takt_call_record>() - 8usize];
    ["Offset of field: takt_call_record::workflow"][offset_of!(takt_call_record, workflow) - 0usize];
    ["Offset of field: takt_call_record::agent"][offset_of!(takt_call_record, agent) - 8usize];
    ["Offset of field: takt_call_record::upstream"][offset_of!(takt_call_record, upstream) - 16usize];
    ["Offset of field: takt_call_record::start"][offset_of!(takt_call_record, start) - 24usize];
    ["Offset of field: takt_call_record::end"][offset_of!(takt_call_record, end) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cascade_stage {
    pub accept_at: f64,
    pub escalated_share: f64,
    pub served: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_cascade_stage"][size_of::<takt_cascade_stage>() - 24usize];
    ["Alignment of takt_cascade_stage"][align_of::<takt_cascade_stage>() - 8usize];
    ["Offset of field: takt_cascade_stage::accept_at"][offset_of!(takt_cascade_stage, accept_at) - 0usize];
    ["Offset of field: takt_cascade_stage::escalated_share"][offset_of!(takt_cascade_stage, escalated_share) - 8usize];
    ["Offset of field: takt_cascade_stage::served"][offset_of!(takt_cascade_stage, served) - 16usize];
    ["Offset of field: takt_cascade_stage::reserved"][offset_of!(takt_cascade_stage, reserved) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cascade_options {
    pub struct_size: u32,
    pub on_missing: u32,
    pub on_late: u32,
    pub reserved: u32,
    pub stages: *const takt_cascade_stage,
    pub n_stages: usize,
    pub judge_timeout: i64,
    pub seed: u64,
    pub reserve_requests: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_cascade_options"][size_of::<takt_cascade_options>() - 56usize];
    ["Alignment of takt_cascade_options"][align_of::<takt_cascade_options>() - 8usize];
    ["Offset of field: takt_cascade_options::struct_size"][offset_of!(takt_cascade_options, struct_size) - 0usize];
    ["Offset of field: takt_cascade_options::on_missing"][offset_of!(takt_cascade_options, on_missing) - 4usize];
    ["Offset of field: takt_cascade_options::on_late"][offset_of!(takt_cascade_options, on_late) - 8usize];
    ["Offset of field: takt_cascade_options::reserved"][offset_of!(takt_cascade_options, reserved) - 12usize];
    ["Offset of field: takt_cascade_options::stages"][offset_of!(takt_cascade_options, stages) - 16usize];
    ["Offset of field: takt_cascade_options::n_stages"][offset_of!(takt_cascade_options, n_stages) - 24usize];
    ["Offset of field: takt_cascade_options::judge_timeout"][offset_of!(takt_cascade_options, judge_timeout) - 32usize];
    ["Offset of field: takt_cascade_options::seed"][offset_of!(takt_cascade_options, seed) - 40usize];
    ["Offset of field: takt_cascade_options::reserve_requests"][offset_of!(takt_cascade_options, reserve_requests) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_cascade_action {
    pub kind: u32,
    pub model: i32,
    pub request: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_cascade_action"][size_of::<takt_cascade_action>() - 16usize];
    ["Alignment of takt_cascade_action"][align_of::<takt_cascade_action>() - 8usize];
    ["Offset of field: takt_cascade_action::kind"][offset_of!(takt_cascade_action, kind) - 0usize];
    ["Offset of field: takt_cascade_action::model"][offset_of!(takt_cascade_action, model) - 4usize];
    ["Offset of field: takt_cascade_action::request"][offset_of!(takt_cascade_action, request) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct takt_replay_report {
    pub struct_size: u32,
    pub differs: u32,
    pub truncated: u32,
    pub reserved: u32,
    pub events: i64,
    pub plans: i64,
    pub commits: i64,
    pub plans_compared: i64,
    pub bytes: u64,
    pub different_step: u64,
    pub different_at: i64,
    pub difference: [c_char; 256],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of takt_replay_report"][size_of::<takt_replay_report>() - 328usize];
    ["Alignment of takt_replay_report"][align_of::<takt_replay_report>() - 8usize];
    ["Offset of field: takt_replay_report::struct_size"][offset_of!(takt_replay_report, struct_size) - 0usize];
    ["Offset of field: takt_replay_report::differs"][offset_of!(takt_replay_report, differs) - 4usize];
    ["Offset of field: takt_replay_report::truncated"][offset_of!(takt_replay_report, truncated) - 8usize];
    ["Offset of field: takt_replay_report::reserved"][offset_of!(takt_replay_report, reserved) - 12usize];
    ["Offset of field: takt_replay_report::events"][offset_of!(takt_replay_report, events) - 16usize];
    ["Offset of field: takt_replay_report::plans"][offset_of!(takt_replay_report, plans) - 24usize];
    ["Offset of field: takt_replay_report::commits"][offset_of!(takt_replay_report, commits) - 32usize];
    ["Offset of field: takt_replay_report::plans_compared"][offset_of!(takt_replay_report, plans_compared) - 40usize];
    ["Offset of field: takt_replay_report::bytes"][offset_of!(takt_replay_report, bytes) - 48usize];
    ["Offset of field: takt_replay_report::different_step"][offset_of!(takt_replay_report, different_step) - 56usize];
    ["Offset of field: takt_replay_report::different_at"][offset_of!(takt_replay_report, different_at) - 64usize];
    ["Offset of field: takt_replay_report::difference"][offset_of!(takt_replay_report, difference) - 72usize];
};
unsafe extern "C" {
    pub fn takt_abi_version() -> u32;
    pub fn takt_version() -> *const c_char;
    pub fn takt_status_name(status: takt_status) -> *const c_char;
    pub fn takt_error_init(error: *mut takt_error, size: usize);
    pub fn takt_request_init(request: *mut takt_request, size: usize);
    pub fn takt_instance_init(instance: *mut takt_instance, size: usize);
    pub fn takt_workflow_init(workflow: *mut takt_workflow, size: usize);
    pub fn takt_salted_hash(hash: u64, salt: u64) -> u64;
    pub fn takt_key_init(key: *mut takt_key, size: usize);
    pub fn takt_epoch_init(epoch: *mut takt_epoch, size: usize);
    pub fn takt_limits_init(limits: *mut takt_limits, size: usize);
    pub fn takt_kv_oracle_init(oracle: *mut takt_kv_oracle, size: usize);
    pub fn takt_scheduler_options_init(options: *mut takt_scheduler_options, size: usize);
    pub fn takt_scheduler_create(options: *const takt_scheduler_options, scheduler: *mut *mut takt_scheduler, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_destroy(scheduler: *mut takt_scheduler) -> takt_status;
    pub fn takt_scheduler_on(scheduler: *mut takt_scheduler, events: *const takt_event, n: usize, now: i64) -> takt_status;
    pub fn takt_scheduler_plan(scheduler: *mut takt_scheduler, now: i64, limits: *const takt_limits, plan: *mut takt_plan) -> takt_status;
    pub fn takt_scheduler_commit(scheduler: *mut takt_scheduler, step: u64, rows: *const takt_row_result, n: usize, flags: u32, now: i64) -> takt_status;
    pub fn takt_scheduler_step(scheduler: *mut takt_scheduler, step: u64, rows: *const takt_row_result, n: usize, flags: u32, now: i64, limits: *const takt_limits, plan: *mut takt_plan, run_out: *mut takt_plan_entry, run_cap: usize) -> takt_status;
    pub fn takt_scheduler_set_policy(scheduler: *mut takt_scheduler, policy: *const c_char, key: *const takt_key, now: i64, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_set_retention(scheduler: *mut takt_scheduler, retention: *const c_char, gate: *const c_char, alpha_ms: f64, beta_ns: f64, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_set_hints(scheduler: *mut takt_scheduler, alpha_ms: f64, beta_ns: f64, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_epoch(scheduler: *mut takt_scheduler, epoch: *const takt_epoch, now: i64) -> takt_status;
    pub fn takt_scheduler_policy(scheduler: *const takt_scheduler) -> *const c_char;
    pub fn takt_scheduler_learnt(scheduler: *const takt_scheduler, numbers: *mut u64, n: usize) -> usize;
    pub fn takt_scheduler_load_learnt(scheduler: *mut takt_scheduler, numbers: *const u64, n: usize, now: i64, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_last_fault(scheduler: *const takt_scheduler, fault: *mut takt_fault) -> takt_status;
    pub fn takt_scheduler_stats(scheduler: *const takt_scheduler, stats: *mut takt_stat, n: usize) -> usize;
    pub fn takt_scheduler_count(scheduler: *const takt_scheduler, counts: *mut takt_scheduler_counts) -> takt_status;
    pub fn takt_scheduler_kv(scheduler: *const takt_scheduler, use_: *mut takt_kv_use) -> takt_status;
    pub fn takt_scheduler_explain(scheduler: *const takt_scheduler, request: u64, explanation: *mut takt_explanation) -> takt_status;
    pub fn takt_scheduler_explain_held(scheduler: *mut takt_scheduler, workflow: u64, branch: u64, held: *mut takt_held) -> takt_status;
    pub fn takt_scheduler_check(scheduler: *const takt_scheduler, error: *mut takt_error) -> takt_status;
    pub fn takt_scheduler_flush(scheduler: *mut takt_scheduler) -> takt_status;
    pub fn takt_ranker_create(policy: *const c_char, key: *const takt_key, ranker: *mut *mut takt_ranker, error: *mut takt_error) -> takt_status;
    pub fn takt_ranker_destroy(ranker: *mut takt_ranker) -> takt_status;
    pub fn takt_ranker_traits(ranker: *const takt_ranker) -> u32;
    pub fn takt_ranker_keys(ranker: *mut takt_ranker, requests: *const takt_request, n: usize, stride: usize, now: i64, keys: *mut f64) -> takt_status;
    pub fn takt_queue_options_init(options: *mut takt_queue_options, size: usize);
    pub fn takt_queue_create(options: *const takt_queue_options, queue: *mut *mut takt_queue, error: *mut takt_error) -> takt_status;
    pub fn takt_queue_destroy(queue: *mut takt_queue) -> takt_status;
    pub fn takt_queue_policy(queue: *const takt_queue) -> *const c_char;
    pub fn takt_queue_learnt(queue: *const takt_queue, numbers: *mut u64, n: usize) -> usize;
    pub fn takt_queue_load_learnt(queue: *mut takt_queue, numbers: *const u64, n: usize, error: *mut takt_error) -> takt_status;
    pub fn takt_queue_traits(queue: *const takt_queue) -> u32;
    pub fn takt_queue_size(queue: *const takt_queue) -> usize;
    pub fn takt_queue_place(queue: *const takt_queue, request: u64) -> takt_result;
    pub fn takt_queue_push(queue: *mut takt_queue, request: *const takt_request, now: i64) -> takt_result;
    pub fn takt_queue_put(queue: *mut takt_queue, request: *const takt_request, now: i64) -> takt_result;
    pub fn takt_queue_revise(queue: *mut takt_queue, request: *const takt_request, told: u32, now: i64) -> takt_result;
    pub fn takt_queue_erase(queue: *mut takt_queue, request: u64) -> takt_result;
    pub fn takt_queue_epoch(queue: *mut takt_queue, epoch: *const takt_epoch, now: i64) -> takt_status;
    pub fn takt_queue_begin(queue: *mut takt_queue, now: i64) -> takt_status;
    pub fn takt_queue_top(queue: *const takt_queue, request: *mut u64) -> i32;
    pub fn takt_queue_list(queue: *const takt_queue, requests: *mut u64, n: usize) -> usize;
    pub fn takt_queue_take(queue: *mut takt_queue, request: u64) -> takt_result;
    pub fn takt_queue_hold(queue: *mut takt_queue, request: u64) -> takt_result;
    pub fn takt_queue_pause(queue: *mut takt_queue, request: u64, now: i64) -> takt_result;
    pub fn takt_queue_requeue(queue: *mut takt_queue, request: u64, now: i64) -> takt_result;
    pub fn takt_pressure_init(pressure: *mut takt_pressure, size: usize);
    pub fn takt_queue_end(queue: *mut takt_queue, ran: *const takt_ran, n: usize, pressure: *const takt_pressure, now: i64, counted: *mut usize) -> takt_status;
    pub fn takt_queue_computed(queue: *mut takt_queue, ran: *const takt_ran, n: usize, rest_output: i32, counted: *mut usize) -> takt_status;
    pub fn takt_queue_victims(queue: *mut takt_queue, holding: *const takt_holding, n: usize, need: i32, beneficiary: u64, now: i64, victims: *mut *const u64, n_victims: *mut usize) -> takt_status;
    pub fn takt_cost_model_init(cost: *mut takt_cost_model, size: usize);
    pub fn takt_router_options_init(options: *mut takt_router_options, size: usize);
    pub fn takt_router_create(options: *const takt_router_options, router: *mut *mut takt_router, error: *mut takt_error) -> takt_status;
    pub fn takt_router_destroy(router: *mut takt_router) -> takt_status;
    pub fn takt_router_on(router: *mut takt_router, events: *const takt_event, n: usize, now: i64) -> takt_status;
    pub fn takt_router_epoch(router: *mut takt_router, epoch: *const takt_epoch, now: i64) -> takt_status;
    pub fn takt_router_place(router: *mut takt_router, now: i64, routing: *mut takt_routing) -> takt_status;
    pub fn takt_router_wake_at(router: *const takt_router, wake_at: *mut i64) -> takt_status;
    pub fn takt_router_score(router: *mut takt_router, request: *const takt_request, instances: *const u64, n: usize, now: i64, scores: *mut f64, possible: *mut usize) -> takt_status;
    pub fn takt_router_place_at(router: *mut takt_router, request: u64, instance: u64, now: i64) -> takt_status;
    pub fn takt_router_instance_of(router: *const takt_router, request: u64, instance: *mut u64) -> takt_status;
    pub fn takt_router_policy(router: *const takt_router) -> *const c_char;
    pub fn takt_router_add_profile(router: *mut takt_router, name: *const c_char, cost: *const takt_cost_model, profile: *mut u64, error: *mut takt_error) -> takt_status;
    pub fn takt_router_last_fault(router: *const takt_router, fault: *mut takt_fault) -> takt_status;
    pub fn takt_router_stats(router: *const takt_router, stats: *mut takt_stat, n: usize) -> usize;
    pub fn takt_router_count(router: *const takt_router, counts: *mut takt_router_counts) -> takt_status;
    pub fn takt_inbox_create(kind: u32, capacity: usize, inbox: *mut *mut takt_inbox, error: *mut takt_error) -> takt_status;
    pub fn takt_inbox_destroy(inbox: *mut takt_inbox) -> takt_status;
    pub fn takt_inbox_push(inbox: *mut takt_inbox, event: *const takt_event, pushed: *mut u32) -> takt_status;
    pub fn takt_scheduler_take(scheduler: *mut takt_scheduler, inbox: *mut takt_inbox, now: i64, n: *mut usize) -> takt_status;
    pub fn takt_router_take(router: *mut takt_router, inbox: *mut takt_inbox, now: i64, n: *mut usize) -> takt_status;
    pub fn takt_ids_create(reserve: i64, hash_seed: u64, ids: *mut *mut takt_ids, error: *mut takt_error) -> takt_status;
    pub fn takt_ids_destroy(ids: *mut takt_ids) -> takt_status;
    pub fn takt_ids_of(ids: *mut takt_ids, name: *const c_char, n: usize, id: *mut u64) -> takt_status;
    pub fn takt_ids_find(ids: *const takt_ids, name: *const c_char, n: usize, id: *mut u64) -> takt_status;
    pub fn takt_ids_name(ids: *const takt_ids, id: u64, name: *mut *const c_char, n: *mut usize) -> takt_status;
    pub fn takt_ids_release(ids: *mut takt_ids, id: u64) -> takt_status;
    pub fn takt_ids_size(ids: *const takt_ids) -> usize;
    pub fn takt_call_init(call: *mut takt_call, size: usize);
    pub fn takt_predictor_create(bytes: *const c_void, n: usize, predictor: *mut *mut takt_predictor, error: *mut takt_error) -> takt_status;
    pub fn takt_predictor_destroy(predictor: *mut takt_predictor) -> takt_status;
    pub fn takt_predictor_model(predictor: *const takt_predictor, index: usize) -> *const c_char;
    pub fn takt_predictor_predict(predictor: *mut takt_predictor, calls: *const takt_call, n: usize, stride: usize, tokens_left: *mut takt_estimate, solved: *mut f64) -> takt_status;
    pub fn takt_tool_profile_options_init(options: *mut takt_tool_profile_options, size: usize);
    pub fn takt_tool_expectation_init(expectation: *mut takt_tool_expectation, size: usize);
    pub fn takt_tool_profile_create(options: *const takt_tool_profile_options, profile: *mut *mut takt_tool_profile, error: *mut takt_error) -> takt_status;
    pub fn takt_tool_profile_destroy(profile: *mut takt_tool_profile) -> takt_status;
    pub fn takt_tool_profile_seed(profile: *mut takt_tool_profile, tool: u64, seed: *const takt_tool_expectation) -> takt_status;
    pub fn takt_tool_profile_observe(profile: *mut takt_tool_profile, calls: *const takt_tool_call, n: usize, counted: *mut usize) -> takt_status;
    pub fn takt_tool_profile_expect(profile: *const takt_tool_profile, tool: u64, expectation: *mut takt_tool_expectation) -> takt_status;
    pub fn takt_agent_learner_options_init(options: *mut takt_agent_learner_options, size: usize);
    pub fn takt_agent_learner_create(options: *const takt_agent_learner_options, learner: *mut *mut takt_agent_learner, error: *mut takt_error) -> takt_status;
    pub fn takt_agent_learner_destroy(learner: *mut takt_agent_learner) -> takt_status;
    pub fn takt_agent_learner_agent(learner: *mut takt_agent_learner, name: *const c_char, n: usize, agent: *mut u64) -> takt_status;
    pub fn takt_agent_learner_add(learner: *mut takt_agent_learner, calls: *const takt_call_record, n: usize, now: i64, kept: *mut usize) -> takt_status;
    pub fn takt_agent_learner_close(learner: *mut takt_agent_learner, workflow: u64) -> takt_status;
    pub fn takt_agent_learner_epoch(learner: *mut takt_agent_learner, epoch: *mut takt_epoch) -> takt_status;
    pub fn takt_agent_learner_save(learner: *mut takt_agent_learner, text: *mut *const c_char, n: *mut usize) -> takt_status;
    pub fn takt_agent_learner_load(learner: *mut takt_agent_learner, text: *const c_char, n: usize, error: *mut takt_error) -> takt_status;
    pub fn takt_cascade_options_init(options: *mut takt_cascade_options, size: usize);
    pub fn takt_cascade_router_create(options: *const takt_cascade_options, router: *mut *mut takt_cascade_router, error: *mut takt_error) -> takt_status;
    pub fn takt_cascade_router_destroy(router: *mut takt_cascade_router) -> takt_status;
    pub fn takt_cascade_router_arrived(router: *mut takt_cascade_router, request: u64, action: *mut takt_cascade_action) -> takt_status;
    pub fn takt_cascade_router_answered(router: *mut takt_cascade_router, request: u64, model: i32, now: i64, action: *mut takt_cascade_action) -> takt_status;
    pub fn takt_cascade_router_judged(router: *mut takt_cascade_router, request: u64, model: i32, score: f64, now: i64, action: *mut takt_cascade_action) -> takt_status;
    pub fn takt_cascade_router_failed(router: *mut takt_cascade_router, request: u64, model: i32, action: *mut takt_cascade_action) -> takt_status;
    pub fn takt_cascade_router_cancelled(router: *mut takt_cascade_router, request: u64) -> takt_status;
    pub fn takt_cascade_router_expire(router: *mut takt_cascade_router, now: i64, actions: *mut *const takt_cascade_action, n: *mut usize) -> takt_status;
    pub fn takt_cascade_router_wake_at(router: *const takt_cascade_router, wake_at: *mut i64) -> takt_status;
    pub fn takt_cascade_router_replan(router: *mut takt_cascade_router, stages: *const takt_cascade_stage, n: usize, error: *mut takt_error) -> takt_status;
    pub fn takt_cascade_router_model_of(router: *const takt_cascade_router, request: u64, model: *mut i32) -> takt_status;
    pub fn takt_cascade_router_stats(router: *const takt_cascade_router, stats: *mut takt_stat, n: usize) -> usize;
    pub fn takt_tail_test(before: *const f64, n_before: usize, now: *const f64, n_now: usize, tail: f64, p: *mut f64) -> takt_status;
    pub fn takt_replay(bytes: *const c_void, n: usize, report: *mut takt_replay_report, stats: *mut takt_stat, n_stats: usize, error: *mut takt_error) -> takt_status;
}
