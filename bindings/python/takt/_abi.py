"""The C interface for ctypes. tools/abi.py writes this file from include/takt/c/takt.h."""

# ruff: noqa
from __future__ import annotations

import builtins
import ctypes
from typing import Any, Final

VERSION: Final = "0.1.0"

TAKT_ABI_VERSION: Final = 0
TAKT_NEVER: Final = 9223372036854775807
TAKT_UNSET: Final = -9223372036854775808
TAKT_UNBOUNDED: Final = 2147483647
TAKT_FAULT_NONE: Final = 0
TAKT_FAULT_NO_ID: Final = 1
TAKT_FAULT_ID_IN_USE: Final = 2
TAKT_FAULT_PROMPT_TOKENS: Final = 3
TAKT_FAULT_MAX_OUTPUT_TOKENS: Final = 4
TAKT_FAULT_SEQUENCES: Final = 5
TAKT_FAULT_UNKNOWN_REQUEST: Final = 6
TAKT_FAULT_UNKNOWN_MOVE: Final = 7
TAKT_FAULT_OUT_OF_PLACE: Final = 8
TAKT_FAULT_ABSURD_ESTIMATE: Final = 9
TAKT_FAULT_CLOCK_BACK: Final = 10
TAKT_FAULT_UNKNOWN_STEP: Final = 11
TAKT_FAULT_UNKNOWN_ROW: Final = 12
TAKT_FAULT_INVALID_ROW: Final = 13
TAKT_FAULT_UNKNOWN_INSTANCE: Final = 14
TAKT_FAULT_INVALID_EVENT: Final = 15
TAKT_FAULT_WORKFLOW: Final = 16
TAKT_FAULT_ENDED: Final = 17
TAKT_FAULT_CHUNK_ALIGN: Final = 18
TAKT_REQUEST_UNCHUNKABLE: Final = 1
TAKT_REQUEST_UNPREEMPTIBLE: Final = 2
TAKT_ROLE_BOTH: Final = 0
TAKT_ROLE_PREFILL: Final = 1
TAKT_ROLE_DECODE: Final = 2
TAKT_TURN_UNKNOWN: Final = 0
TAKT_TURN_TOOL: Final = 1
TAKT_TURN_USER: Final = 2
TAKT_TURN_CHILDREN: Final = 3
TAKT_TURN_OVER: Final = 4
TAKT_REVISED_OUTPUT_TOKENS: Final = 1
TAKT_REVISED_WORKFLOW_TOKENS_LEFT: Final = 2
TAKT_REVISED_AFTER: Final = 4
TAKT_REVISED_DEADLINE: Final = 8
TAKT_REVISED_EXPIRES_AT: Final = 16
TAKT_REVISED_PRIORITY: Final = 32
TAKT_REVISED_SEQUENCES: Final = 64
TAKT_REVISED_NEXT_CALL: Final = 128
TAKT_REVISED_PROMPT_TOKENS: Final = 256
TAKT_REVISED_ARRIVAL: Final = 512
TAKT_EVENT_ARRIVED: Final = 1
TAKT_EVENT_REVISED: Final = 2
TAKT_EVENT_BLOCKED: Final = 3
TAKT_EVENT_UNBLOCKED: Final = 4
TAKT_EVENT_TOOL_CALLED: Final = 5
TAKT_EVENT_TOOL_RETURNED: Final = 6
TAKT_EVENT_CANCELLED: Final = 7
TAKT_EVENT_MOVE_DONE: Final = 8
TAKT_EVENT_KV_FREED: Final = 9
TAKT_EVENT_DRAIN: Final = 10
TAKT_EVENT_NOT_READY: Final = 13
TAKT_EVENT_KV_ARRIVED: Final = 14
TAKT_EVENT_KV_LOST: Final = 15
TAKT_EVENT_KV_PINNED: Final = 16
TAKT_EVENT_TURN_ENDED: Final = 18
TAKT_EVENT_TURN_EXPECTED: Final = 19
TAKT_EVENT_REQUEST_STARTED: Final = 64
TAKT_EVENT_REQUEST_SERVED: Final = 65
TAKT_EVENT_REQUEST_ENDED: Final = 66
TAKT_EVENT_INSTANCE_UP: Final = 67
TAKT_EVENT_INSTANCE_DOWN: Final = 68
TAKT_EVENT_INSTANCE_REPORTED: Final = 69
TAKT_EVENT_WORKFLOW_DECLARED: Final = 70
TAKT_EVENT_WORKFLOW_GROWN: Final = 71
TAKT_EVENT_STAGE_ENDED: Final = 72
TAKT_EVENT_WORKFLOW_ENDED: Final = 73
TAKT_EVENT_PREFILL_ENDED: Final = 74
TAKT_EVENT_KV_STORED: Final = 75
TAKT_EVENT_KV_REMOVED: Final = 76
TAKT_EVENT_KV_CLEARED: Final = 77
TAKT_ENTRY_PREFILL: Final = 1
TAKT_ENTRY_SAMPLES: Final = 2
TAKT_ENTRY_ADMITTED: Final = 4
TAKT_ENTRY_GATED: Final = 8
TAKT_ROW_FINISHED: Final = 1
TAKT_ROW_FAILED: Final = 2
TAKT_KV_KEEP: Final = 0
TAKT_KV_DROP: Final = 1
TAKT_KV_OUT: Final = 2
TAKT_KV_IN: Final = 3
TAKT_KV_FETCH: Final = 4
TAKT_FAIL_INVALID: Final = 0
TAKT_FAIL_NEVER_FITS: Final = 1
TAKT_FAIL_KV_EXHAUSTED: Final = 2
TAKT_FAIL_EXPIRED: Final = 3
TAKT_FAIL_SHED: Final = 4
TAKT_FAIL_DRAINING: Final = 5
TAKT_FAIL_HOST: Final = 6
TAKT_FAIL_ID_IN_USE: Final = 7
TAKT_FAIL_QUOTA: Final = 8
TAKT_FAIL_NO_INSTANCE: Final = 9
TAKT_CACHE_HOLD: Final = 0
TAKT_CACHE_DROP: Final = 1
TAKT_CACHE_FETCH: Final = 2
TAKT_WORKFLOW_COMPLETED: Final = 0
TAKT_WORKFLOW_CANCELLED: Final = 1
TAKT_WORKFLOW_SILENT: Final = 2
TAKT_IDLE_BUSY: Final = 0
TAKT_IDLE_NO_REQUESTS: Final = 1
TAKT_IDLE_DRAINED: Final = 2
TAKT_IDLE_STEPS_IN_FLIGHT: Final = 3
TAKT_IDLE_MOVES_IN_FLIGHT: Final = 4
TAKT_IDLE_KV_PENDING: Final = 5
TAKT_IDLE_PAUSED: Final = 6
TAKT_IDLE_BLOCKED: Final = 7
TAKT_IDLE_NO_BUDGET: Final = 8
TAKT_IDLE_KV_HELD: Final = 9
TAKT_IDLE_ENDED: Final = 10
TAKT_IDLE_DECLINED: Final = 11
TAKT_IDLE_GATED: Final = 12
TAKT_OK: Final = 0
TAKT_E_INVALID: Final = 1
TAKT_E_NULL: Final = 2
TAKT_E_SIZE: Final = 3
TAKT_E_HANDLE: Final = 4
TAKT_E_BUSY: Final = 5
TAKT_E_NOMEM: Final = 6
TAKT_E_CORRUPT: Final = 7
TAKT_REASON_ARRIVED: Final = 0
TAKT_REASON_ADMITTED: Final = 1
TAKT_REASON_RESUMED: Final = 2
TAKT_REASON_FIRST_TOKEN: Final = 3
TAKT_REASON_PREEMPTED_KV: Final = 4
TAKT_REASON_PREEMPTED_RANK: Final = 5
TAKT_REASON_INSTANCE_LOST: Final = 6
TAKT_REASON_BLOCKED: Final = 7
TAKT_REASON_UNBLOCKED: Final = 8
TAKT_REASON_TOOL_CALLED: Final = 9
TAKT_REASON_TOOL_RETURNED: Final = 10
TAKT_REASON_FINISHED: Final = 11
TAKT_REASON_CANCELLED: Final = 12
TAKT_REASON_FAILED: Final = 13
TAKT_CLASS_BY_PRIORITY: Final = 0
TAKT_CLASS_BY_TENANT: Final = 1
TAKT_CLASS_BY_AGENT: Final = 2
TAKT_CLASS_BY_ADAPTER: Final = 3
TAKT_EPOCH_AGENT_RANKS: Final = 1
TAKT_EPOCH_ALPHA: Final = 2
TAKT_SHED_NEWEST: Final = 0
TAKT_SHED_WORST: Final = 1
TAKT_ORDER_RUNNING_FIRST: Final = 0
TAKT_ORDER_PREFILL_FIRST: Final = 1
TAKT_PREEMPT_OFF: Final = 0
TAKT_PREEMPT_ON_MEMORY: Final = 1
TAKT_PREEMPT_BY_RANK: Final = 2
TAKT_VICTIMS_RANK: Final = 0
TAKT_VICTIMS_LEAST_LOST: Final = 1
TAKT_KV_MODE_NONE: Final = 0
TAKT_KV_MODE_LEDGER: Final = 1
TAKT_KV_MODE_ORACLE: Final = 2
TAKT_KV_REFUSED_FOR_NOW: Final = 0
TAKT_KV_REFUSED_FOR_EVER: Final = 1
TAKT_REST_AS_PLANNED: Final = 1
TAKT_REQUEST_UNKNOWN: Final = 0
TAKT_REQUEST_WAITING: Final = 1
TAKT_REQUEST_RUNNING: Final = 2
TAKT_REQUEST_PAUSED: Final = 3
TAKT_REQUEST_BLOCKED: Final = 4
TAKT_REQUEST_DEAD: Final = 5
TAKT_WAITS_FOR_NOTHING: Final = 0
TAKT_WAITS_FOR_ITS_TURN: Final = 1
TAKT_WAITS_FOR_SEQUENCES: Final = 2
TAKT_WAITS_FOR_KV: Final = 3
TAKT_WAITS_FOR_BUDGET: Final = 4
TAKT_WAITS_FOR_ADAPTER: Final = 5
TAKT_WAITS_FOR_MOVE: Final = 6
TAKT_WAITS_FOR_TOOL: Final = 7
TAKT_WAITS_FOR_UNBLOCK: Final = 8
TAKT_WAITS_FOR_DECLINED: Final = 9
TAKT_WAITS_FOR_GATE: Final = 10
TAKT_WAITS_FOR_PREFIX: Final = 11
TAKT_WAITS_FOR_CEILING: Final = 12
TAKT_TRAIT_FIXED: Final = 1
TAKT_TRAIT_TIMED: Final = 2
TAKT_TRAIT_MOVING: Final = 4
TAKT_TRAIT_GROUPS: Final = 8
TAKT_TRAIT_LEARNS: Final = 16
TAKT_TRAIT_PRESSURE: Final = 32
TAKT_TRAIT_AGES: Final = 64
TAKT_TRAIT_TABLES: Final = 128
TAKT_TRAIT_CHOOSES: Final = 256
TAKT_RESULT_DONE: Final = 0
TAKT_RESULT_UNKNOWN: Final = 1
TAKT_RESULT_IN_USE: Final = 2
TAKT_RESULT_INVALID: Final = 3
TAKT_RESULT_OUT_OF_PLACE: Final = 4
TAKT_RESULT_ENDED: Final = 5
TAKT_RESULT_REQUEUED: Final = 6
TAKT_PLACE_NONE: Final = 0
TAKT_PLACE_WAITING: Final = 1
TAKT_PLACE_TAKEN: Final = 2
TAKT_PLACE_HELD: Final = 3
TAKT_PLACE_RUNNING: Final = 4
TAKT_PLACE_PAUSED: Final = 5
TAKT_BUDGETS_NONE: Final = 0
TAKT_BUDGETS_SHARE: Final = 1
TAKT_BUDGETS_WHOLE: Final = 2
TAKT_BLOWN_LATENESS: Final = 0
TAKT_BLOWN_PUBLISHED: Final = 1
TAKT_BLOWN_ZERO: Final = 2
TAKT_CANDIDATE_SCORED: Final = 0
TAKT_CANDIDATE_REJECTED: Final = 1
TAKT_CANDIDATE_FULL: Final = 2
TAKT_CANDIDATE_TOO_SMALL: Final = 3
TAKT_INBOX_OF_SCHEDULER: Final = 0
TAKT_INBOX_OF_ROUTER: Final = 1
TAKT_PUSHED_FULL: Final = 0
TAKT_PUSHED_QUEUED: Final = 1
TAKT_PUSHED_FIRST: Final = 2
TAKT_AGENTS_BY_CLASSICAL: Final = 0
TAKT_AGENTS_BY_SMACOF: Final = 1
TAKT_AGENTS_BY_MEAN: Final = 2
TAKT_AGENTS_BY_MEDIAN: Final = 3
TAKT_VERDICT_AS_PLANNED: Final = 0
TAKT_VERDICT_ACCEPT: Final = 1
TAKT_VERDICT_ESCALATE: Final = 2
TAKT_CASCADE_NONE: Final = 0
TAKT_CASCADE_SEND: Final = 1
TAKT_CASCADE_JUDGE: Final = 2
TAKT_CASCADE_ACCEPT: Final = 3
TAKT_CASCADE_FAIL: Final = 4

# Names of the numbers of each enum, by the enum's first constant.
ENUMS: Final[dict[str, dict[int, str]]] = {
    "TAKT_FAULT_NONE": {
        0: "none",
        1: "no_id",
        2: "id_in_use",
        3: "prompt_tokens",
        4: "max_output_tokens",
        5: "sequences",
        6: "unknown_request",
        7: "unknown_move",
        8: "out_of_place",
        9: "absurd_estimate",
        10: "clock_back",
        11: "unknown_step",
        12: "unknown_row",
        13: "invalid_row",
        14: "unknown_instance",
        15: "invalid_event",
        16: "workflow",
        17: "ended",
        18: "chunk_align",
    },
    "TAKT_REQUEST_UNCHUNKABLE": {
        1: "unchunkable",
        2: "unpreemptible",
    },
    "TAKT_ROLE_BOTH": {
        0: "both",
        1: "prefill",
        2: "decode",
    },
    "TAKT_TURN_UNKNOWN": {
        0: "unknown",
        1: "tool",
        2: "user",
        3: "children",
        4: "over",
    },
    "TAKT_REVISED_OUTPUT_TOKENS": {
        1: "output_tokens",
        2: "workflow_tokens_left",
        4: "after",
        8: "deadline",
        16: "expires_at",
        32: "priority",
        64: "sequences",
        128: "next_call",
        256: "prompt_tokens",
        512: "arrival",
    },
    "TAKT_EVENT_ARRIVED": {
        1: "arrived",
        2: "revised",
        3: "blocked",
        4: "unblocked",
        5: "tool_called",
        6: "tool_returned",
        7: "cancelled",
        8: "move_done",
        9: "kv_freed",
        10: "drain",
        13: "not_ready",
        14: "kv_arrived",
        15: "kv_lost",
        16: "kv_pinned",
        18: "turn_ended",
        19: "turn_expected",
        64: "request_started",
        65: "request_served",
        66: "request_ended",
        67: "instance_up",
        68: "instance_down",
        69: "instance_reported",
        70: "workflow_declared",
        71: "workflow_grown",
        72: "stage_ended",
        73: "workflow_ended",
        74: "prefill_ended",
        75: "kv_stored",
        76: "kv_removed",
        77: "kv_cleared",
    },
    "TAKT_ENTRY_PREFILL": {
        1: "prefill",
        2: "samples",
        4: "admitted",
        8: "gated",
    },
    "TAKT_ROW_FINISHED": {
        1: "finished",
        2: "failed",
    },
    "TAKT_KV_KEEP": {
        0: "keep",
        1: "drop",
        2: "out",
        3: "in",
        4: "fetch",
    },
    "TAKT_FAIL_INVALID": {
        0: "invalid",
        1: "never_fits",
        2: "kv_exhausted",
        3: "expired",
        4: "shed",
        5: "draining",
        6: "host",
        7: "id_in_use",
        8: "quota",
        9: "no_instance",
    },
    "TAKT_CACHE_HOLD": {
        0: "hold",
        1: "drop",
        2: "fetch",
    },
    "TAKT_WORKFLOW_COMPLETED": {
        0: "completed",
        1: "cancelled",
        2: "silent",
    },
    "TAKT_IDLE_BUSY": {
        0: "busy",
        1: "no_requests",
        2: "drained",
        3: "steps_in_flight",
        4: "moves_in_flight",
        5: "kv_pending",
        6: "paused",
        7: "blocked",
        8: "no_budget",
        9: "kv_held",
        10: "ended",
        11: "declined",
        12: "gated",
    },
    "TAKT_OK": {
        0: "ok",
        1: "e_invalid",
        2: "e_null",
        3: "e_size",
        4: "e_handle",
        5: "e_busy",
        6: "e_nomem",
        7: "e_corrupt",
    },
    "TAKT_REASON_ARRIVED": {
        0: "arrived",
        1: "admitted",
        2: "resumed",
        3: "first_token",
        4: "preempted_kv",
        5: "preempted_rank",
        6: "instance_lost",
        7: "blocked",
        8: "unblocked",
        9: "tool_called",
        10: "tool_returned",
        11: "finished",
        12: "cancelled",
        13: "failed",
    },
    "TAKT_CLASS_BY_PRIORITY": {
        0: "priority",
        1: "tenant",
        2: "agent",
        3: "adapter",
    },
    "TAKT_EPOCH_AGENT_RANKS": {
        1: "agent_ranks",
        2: "alpha",
    },
    "TAKT_SHED_NEWEST": {
        0: "newest",
        1: "worst",
    },
    "TAKT_ORDER_RUNNING_FIRST": {
        0: "running_first",
        1: "prefill_first",
    },
    "TAKT_PREEMPT_OFF": {
        0: "off",
        1: "on_memory",
        2: "by_rank",
    },
    "TAKT_VICTIMS_RANK": {
        0: "rank",
        1: "least_lost",
    },
    "TAKT_KV_MODE_NONE": {
        0: "none",
        1: "ledger",
        2: "oracle",
    },
    "TAKT_KV_REFUSED_FOR_NOW": {
        0: "now",
        1: "ever",
    },
    "TAKT_REST_AS_PLANNED": {
        1: "planned",
    },
    "TAKT_REQUEST_UNKNOWN": {
        0: "unknown",
        1: "waiting",
        2: "running",
        3: "paused",
        4: "blocked",
        5: "dead",
    },
    "TAKT_WAITS_FOR_NOTHING": {
        0: "nothing",
        1: "its_turn",
        2: "sequences",
        3: "kv",
        4: "budget",
        5: "adapter",
        6: "move",
        7: "tool",
        8: "unblock",
        9: "declined",
        10: "gate",
        11: "prefix",
        12: "ceiling",
    },
    "TAKT_TRAIT_FIXED": {
        1: "fixed",
        2: "timed",
        4: "moving",
        8: "groups",
        16: "learns",
        32: "pressure",
        64: "ages",
        128: "tables",
        256: "chooses",
    },
    "TAKT_RESULT_DONE": {
        0: "done",
        1: "unknown",
        2: "in_use",
        3: "invalid",
        4: "out_of_place",
        5: "ended",
        6: "requeued",
    },
    "TAKT_PLACE_NONE": {
        0: "none",
        1: "waiting",
        2: "taken",
        3: "held",
        4: "running",
        5: "paused",
    },
    "TAKT_BUDGETS_NONE": {
        0: "none",
        1: "share",
        2: "whole",
    },
    "TAKT_BLOWN_LATENESS": {
        0: "lateness",
        1: "published",
        2: "zero",
    },
    "TAKT_CANDIDATE_SCORED": {
        0: "scored",
        1: "rejected",
        2: "full",
        3: "too_small",
    },
    "TAKT_INBOX_OF_SCHEDULER": {
        0: "scheduler",
        1: "router",
    },
    "TAKT_PUSHED_FULL": {
        0: "full",
        1: "queued",
        2: "first",
    },
    "TAKT_AGENTS_BY_CLASSICAL": {
        0: "classical",
        1: "smacof",
        2: "mean",
        3: "median",
    },
    "TAKT_VERDICT_AS_PLANNED": {
        0: "as_planned",
        1: "accept",
        2: "escalate",
    },
    "TAKT_CASCADE_NONE": {
        0: "none",
        1: "send",
        2: "judge",
        3: "accept",
        4: "fail",
    },
}


takt_sink = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class takt_estimate(ctypes.Structure):
    mean: float
    quantiles: ctypes.Array[ctypes.c_float]
    reserved: int
    _fields_ = [
        ("mean", ctypes.c_double),
        ("quantiles", ctypes.c_float * 5),
        ("reserved", ctypes.c_uint32),
    ]


class takt_work_after(ctypes.Structure):
    calls: float
    prompt_tokens: float
    output_tokens: float
    kv_steps: float
    path_tokens: float
    _fields_ = [
        ("calls", ctypes.c_double),
        ("prompt_tokens", ctypes.c_double),
        ("output_tokens", ctypes.c_double),
        ("kv_steps", ctypes.c_double),
        ("path_tokens", ctypes.c_double),
    ]


class takt_next_call(ctypes.Structure):
    tool: int
    after: int
    returned: int
    duration: int
    _fields_ = [
        ("tool", ctypes.c_uint64),
        ("after", ctypes.c_int32),
        ("returned", ctypes.c_int32),
        ("duration", ctypes.c_int64),
    ]


class takt_model_score(ctypes.Structure):
    model: int
    score: float
    tokens: float
    _fields_ = [
        ("model", ctypes.c_uint64),
        ("score", ctypes.c_float),
        ("tokens", ctypes.c_float),
    ]


class takt_request(ctypes.Structure):
    struct_size: int
    flags: int
    id: int
    workflow: int
    stage: int
    agent: int
    tenant: int
    adapter: int
    arrival: int
    workflow_arrival: int
    deadline: int
    expires_at: int
    prompt_tokens: int
    max_output_tokens: int
    sequences: int
    priority: int
    output_tokens: takt_estimate
    workflow_tokens_left: takt_estimate
    after: takt_work_after
    next_call: takt_next_call
    compute: int
    prefix_hashes: Any
    n_prefix_hashes: int
    prefix_block_tokens: int
    reserved: int
    scores: Any
    n_scores: int
    session: int
    branch: int
    salt: int
    first_token_by: int
    token_pace: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("workflow", ctypes.c_uint64),
        ("stage", ctypes.c_uint64),
        ("agent", ctypes.c_uint64),
        ("tenant", ctypes.c_uint64),
        ("adapter", ctypes.c_uint64),
        ("arrival", ctypes.c_int64),
        ("workflow_arrival", ctypes.c_int64),
        ("deadline", ctypes.c_int64),
        ("expires_at", ctypes.c_int64),
        ("prompt_tokens", ctypes.c_int32),
        ("max_output_tokens", ctypes.c_int32),
        ("sequences", ctypes.c_int32),
        ("priority", ctypes.c_int32),
        ("output_tokens", takt_estimate),
        ("workflow_tokens_left", takt_estimate),
        ("after", takt_work_after),
        ("next_call", takt_next_call),
        ("compute", ctypes.c_int64),
        ("prefix_hashes", ctypes.POINTER(ctypes.c_uint64)),
        ("n_prefix_hashes", ctypes.c_size_t),
        ("prefix_block_tokens", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("scores", ctypes.POINTER(takt_model_score)),
        ("n_scores", ctypes.c_size_t),
        ("session", ctypes.c_uint64),
        ("branch", ctypes.c_uint64),
        ("salt", ctypes.c_uint64),
        ("first_token_by", ctypes.c_int64),
        ("token_pace", ctypes.c_int64),
    ]


class takt_instance(ctypes.Structure):
    struct_size: int
    kv_tokens: int
    id: int
    model: int
    capacity: int
    token_s: float
    profile: int
    role: int
    max_adapters: int
    life: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kv_tokens", ctypes.c_int32),
        ("id", ctypes.c_uint64),
        ("model", ctypes.c_uint64),
        ("capacity", ctypes.c_int64),
        ("token_s", ctypes.c_double),
        ("profile", ctypes.c_uint64),
        ("role", ctypes.c_uint32),
        ("max_adapters", ctypes.c_int32),
        ("life", ctypes.c_uint64),
    ]


class takt_stage(ctypes.Structure):
    stage: int
    after: Any
    n_after: int
    cost_s: float
    calls: int
    reserved: int
    _fields_ = [
        ("stage", ctypes.c_uint64),
        ("after", ctypes.POINTER(ctypes.c_uint32)),
        ("n_after", ctypes.c_size_t),
        ("cost_s", ctypes.c_double),
        ("calls", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_workflow(ctypes.Structure):
    struct_size: int
    open: int
    id: int
    tenant: int
    arrival: int
    deadline: int
    stages: Any
    n_stages: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("open", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("tenant", ctypes.c_uint64),
        ("arrival", ctypes.c_int64),
        ("deadline", ctypes.c_int64),
        ("stages", ctypes.POINTER(takt_stage)),
        ("n_stages", ctypes.c_size_t),
    ]


class takt_agent_rank(ctypes.Structure):
    agent: int
    rank: float
    execution_s: float
    stages_left: int
    reserved: int
    _fields_ = [
        ("agent", ctypes.c_uint64),
        ("rank", ctypes.c_double),
        ("execution_s", ctypes.c_double),
        ("stages_left", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_arrived(ctypes.Structure):
    request: Any
    _fields_ = [
        ("request", ctypes.POINTER(takt_request)),
    ]


class takt_event_revised(ctypes.Structure):
    request: Any
    fields: int
    reserved: int
    _fields_ = [
        ("request", ctypes.POINTER(takt_request)),
        ("fields", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_tool_called(ctypes.Structure):
    request: int
    expected: int
    expected_returned: int
    reserved: int
    tool: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("expected", ctypes.c_int64),
        ("expected_returned", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("tool", ctypes.c_uint64),
    ]


class takt_event_tool_returned(ctypes.Structure):
    request: int
    returned: int
    reserved: int
    next_call: takt_next_call
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("returned", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("next_call", takt_next_call),
    ]


class takt_event_move_done(ctypes.Structure):
    move: int
    failed: int
    reserved: int
    _fields_ = [
        ("move", ctypes.c_uint64),
        ("failed", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_turn_ended(ctypes.Structure):
    workflow: int
    branch: int
    why: int
    reserved: int
    tool: int
    expected: int
    pin: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("branch", ctypes.c_uint64),
        ("why", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("tool", ctypes.c_uint64),
        ("expected", ctypes.c_int64),
        ("pin", ctypes.c_int64),
    ]


class takt_event_turn_expected(ctypes.Structure):
    workflow: int
    branch: int
    when: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("branch", ctypes.c_uint64),
        ("when", ctypes.c_int64),
    ]


class takt_event_request_started(ctypes.Structure):
    request: int
    instance: int
    life: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("instance", ctypes.c_uint64),
        ("life", ctypes.c_uint64),
    ]


class takt_event_request_served(ctypes.Structure):
    request: int
    instance: int
    prefill: int
    output: int
    life: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("instance", ctypes.c_uint64),
        ("prefill", ctypes.c_int32),
        ("output", ctypes.c_int32),
        ("life", ctypes.c_uint64),
    ]


class takt_event_request_ended(ctypes.Structure):
    request: int
    instance: int
    prefill: int
    output: int
    failed: int
    served: int
    life: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("instance", ctypes.c_uint64),
        ("prefill", ctypes.c_int32),
        ("output", ctypes.c_int32),
        ("failed", ctypes.c_uint32),
        ("served", ctypes.c_uint32),
        ("life", ctypes.c_uint64),
    ]


class takt_event_instance_up(ctypes.Structure):
    instance: Any
    _fields_ = [
        ("instance", ctypes.POINTER(takt_instance)),
    ]


class takt_event_instance_down(ctypes.Structure):
    instance: int
    life: int
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("life", ctypes.c_uint64),
    ]


class takt_event_instance_reported(ctypes.Structure):
    instance: int
    waiting: int
    running: int
    preempted: int
    kv_used: int
    dated: int
    as_of: int
    life: int
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("waiting", ctypes.c_int64),
        ("running", ctypes.c_int64),
        ("preempted", ctypes.c_int64),
        ("kv_used", ctypes.c_int32),
        ("dated", ctypes.c_uint32),
        ("as_of", ctypes.c_int64),
        ("life", ctypes.c_uint64),
    ]


class takt_event_workflow_declared(ctypes.Structure):
    workflow: Any
    _fields_ = [
        ("workflow", ctypes.POINTER(takt_workflow)),
    ]


class takt_event_workflow_grown(ctypes.Structure):
    workflow: int
    stage: Any
    before: Any
    n_before: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("stage", ctypes.POINTER(takt_stage)),
        ("before", ctypes.POINTER(ctypes.c_uint32)),
        ("n_before", ctypes.c_size_t),
    ]


class takt_event_stage_ended(ctypes.Structure):
    workflow: int
    stage: int
    reserved: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("stage", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_workflow_ended(ctypes.Structure):
    workflow: int
    cancelled: int
    reserved: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("cancelled", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_prefill_ended(ctypes.Structure):
    request: int
    instance: int
    life: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("instance", ctypes.c_uint64),
        ("life", ctypes.c_uint64),
    ]


class takt_event_kv_stored(ctypes.Structure):
    instance: int
    hashes: Any
    n_hashes: int
    life: int
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("hashes", ctypes.POINTER(ctypes.c_uint64)),
        ("n_hashes", ctypes.c_size_t),
        ("life", ctypes.c_uint64),
    ]


class takt_event_kv_removed(ctypes.Structure):
    instance: int
    hashes: Any
    n_hashes: int
    life: int
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("hashes", ctypes.POINTER(ctypes.c_uint64)),
        ("n_hashes", ctypes.c_size_t),
        ("life", ctypes.c_uint64),
    ]


class takt_event_kv_cleared(ctypes.Structure):
    instance: int
    life: int
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("life", ctypes.c_uint64),
    ]


class takt_event_kv(ctypes.Structure):
    request: int
    tokens: int
    reserved: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("tokens", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_event_u(ctypes.Union):
    request: int
    arrived: takt_event_arrived
    revised: takt_event_revised
    kv: takt_event_kv
    tool_called: takt_event_tool_called
    tool_returned: takt_event_tool_returned
    move_done: takt_event_move_done
    turn_ended: takt_event_turn_ended
    turn_expected: takt_event_turn_expected
    request_started: takt_event_request_started
    request_served: takt_event_request_served
    request_ended: takt_event_request_ended
    instance_up: takt_event_instance_up
    instance_down: takt_event_instance_down
    instance_reported: takt_event_instance_reported
    workflow_declared: takt_event_workflow_declared
    workflow_grown: takt_event_workflow_grown
    stage_ended: takt_event_stage_ended
    workflow_ended: takt_event_workflow_ended
    prefill_ended: takt_event_prefill_ended
    kv_stored: takt_event_kv_stored
    kv_removed: takt_event_kv_removed
    kv_cleared: takt_event_kv_cleared
    words: ctypes.Array[ctypes.c_uint64]
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("arrived", takt_event_arrived),
        ("revised", takt_event_revised),
        ("kv", takt_event_kv),
        ("tool_called", takt_event_tool_called),
        ("tool_returned", takt_event_tool_returned),
        ("move_done", takt_event_move_done),
        ("turn_ended", takt_event_turn_ended),
        ("turn_expected", takt_event_turn_expected),
        ("request_started", takt_event_request_started),
        ("request_served", takt_event_request_served),
        ("request_ended", takt_event_request_ended),
        ("instance_up", takt_event_instance_up),
        ("instance_down", takt_event_instance_down),
        ("instance_reported", takt_event_instance_reported),
        ("workflow_declared", takt_event_workflow_declared),
        ("workflow_grown", takt_event_workflow_grown),
        ("stage_ended", takt_event_stage_ended),
        ("workflow_ended", takt_event_workflow_ended),
        ("prefill_ended", takt_event_prefill_ended),
        ("kv_stored", takt_event_kv_stored),
        ("kv_removed", takt_event_kv_removed),
        ("kv_cleared", takt_event_kv_cleared),
        ("words", ctypes.c_uint64 * 7),
    ]


class takt_event(ctypes.Structure):
    type: int
    reserved: int
    u: takt_event_u
    _fields_ = [
        ("type", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("u", takt_event_u),
    ]


class takt_limits(ctypes.Structure):
    struct_size: int
    tokens: int
    max_seqs: int
    prefill_tokens: int
    chunk_tokens: int
    adapters: int
    swap_out: int
    swap_in: int
    chunk_align: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("tokens", ctypes.c_int32),
        ("max_seqs", ctypes.c_int32),
        ("prefill_tokens", ctypes.c_int32),
        ("chunk_tokens", ctypes.c_int32),
        ("adapters", ctypes.c_int32),
        ("swap_out", ctypes.c_int32),
        ("swap_in", ctypes.c_int32),
        ("chunk_align", ctypes.c_int32),
    ]


class takt_plan_entry(ctypes.Structure):
    request: int
    lane: int
    tokens: int
    position: int
    speculative: int
    flags: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("lane", ctypes.c_uint32),
        ("tokens", ctypes.c_int32),
        ("position", ctypes.c_int32),
        ("speculative", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
    ]


class takt_row_result(ctypes.Structure):
    request: int
    lane: int
    tokens: int
    drafts: int
    flags: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("lane", ctypes.c_uint32),
        ("tokens", ctypes.c_uint16),
        ("drafts", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
    ]


class takt_move(ctypes.Structure):
    id: int
    request: int
    action: int
    reserved: ctypes.Array[ctypes.c_uint8]
    first: int
    count: int
    reserved_too: int
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("action", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 3),
        ("first", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("reserved_too", ctypes.c_uint32),
    ]


class takt_preemption(ctypes.Structure):
    request: int
    action: int
    reserved: ctypes.Array[ctypes.c_uint8]
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("action", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 7),
    ]


class takt_failure(ctypes.Structure):
    request: int
    reason: int
    reserved: int
    code: int
    retry_after_ms: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("reason", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
        ("code", ctypes.c_uint16),
        ("retry_after_ms", ctypes.c_uint32),
    ]


class takt_dropped_prefix(ctypes.Structure):
    hash: int
    blocks: int
    reserved: int
    _fields_ = [
        ("hash", ctypes.c_uint64),
        ("blocks", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_cache_hint(ctypes.Structure):
    workflow: int
    branch: int
    action: int
    priority: int
    reserved: ctypes.Array[ctypes.c_uint8]
    until: int
    tokens: int
    reserved_too: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("branch", ctypes.c_uint64),
        ("action", ctypes.c_uint8),
        ("priority", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 6),
        ("until", ctypes.c_int64),
        ("tokens", ctypes.c_int32),
        ("reserved_too", ctypes.c_uint32),
    ]


class takt_host_chunk(ctypes.Structure):
    hash: int
    blocks: int
    action: int
    reserved: ctypes.Array[ctypes.c_uint8]
    _fields_ = [
        ("hash", ctypes.c_uint64),
        ("blocks", ctypes.c_int32),
        ("action", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 3),
    ]


class takt_ran(ctypes.Structure):
    request: int
    prefill: int
    output: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("prefill", ctypes.c_int32),
        ("output", ctypes.c_int32),
    ]


class takt_holding(ctypes.Structure):
    request: int
    blocks: int
    reserved: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("blocks", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_placement(ctypes.Structure):
    request: int
    instance: int
    life: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("instance", ctypes.c_uint64),
        ("life", ctypes.c_uint64),
    ]


class takt_workflow_end(ctypes.Structure):
    workflow: int
    how: int
    reserved: ctypes.Array[ctypes.c_uint8]
    arrival: int
    end: int
    deadline: int
    stage: int
    reserved_too: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("how", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 7),
        ("arrival", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("deadline", ctypes.c_int64),
        ("stage", ctypes.c_uint32),
        ("reserved_too", ctypes.c_uint32),
    ]


class takt_workflow_fault(ctypes.Structure):
    kind: int
    reserved: ctypes.Array[ctypes.c_uint8]
    workflow: int
    stage: int
    reserved_too: int
    site: int
    _fields_ = [
        ("kind", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 7),
        ("workflow", ctypes.c_uint64),
        ("stage", ctypes.c_uint32),
        ("reserved_too", ctypes.c_uint32),
        ("site", ctypes.c_uint64),
    ]


class takt_tool_call(ctypes.Structure):
    tool: int
    seconds: float
    returned_tokens: int
    tokens_before: int
    _fields_ = [
        ("tool", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("returned_tokens", ctypes.c_int64),
        ("tokens_before", ctypes.c_int64),
    ]


class takt_error(ctypes.Structure):
    struct_size: int
    code: int
    text: builtins.bytes
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("code", ctypes.c_int32),
        ("text", ctypes.c_char * 504),
    ]


class takt_stat(ctypes.Structure):
    name: builtins.bytes | None
    value: int
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("value", ctypes.c_uint64),
    ]


class takt_fault(ctypes.Structure):
    struct_size: int
    kind: int
    count: int
    step: int
    request: int
    at: int
    received: int
    expected: int
    lane: int
    reserved: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("count", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("at", ctypes.c_int64),
        ("received", ctypes.c_int64),
        ("expected", ctypes.c_int64),
        ("lane", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_transition(ctypes.Structure):
    struct_size: int
    reason: int
    from_status: int
    to_status: int
    request: int
    at: int
    known: int
    generated: int
    recomputed: int
    priority: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reason", ctypes.c_uint32),
        ("from_status", ctypes.c_uint32),
        ("to_status", ctypes.c_uint32),
        ("request", ctypes.c_uint64),
        ("at", ctypes.c_int64),
        ("known", ctypes.c_int32),
        ("generated", ctypes.c_int32),
        ("recomputed", ctypes.c_int32),
        ("priority", ctypes.c_int32),
    ]


class takt_observer(ctypes.Structure):
    struct_size: int
    reserved: int
    moved: Any
    context: int | None
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("moved", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
    ]


class takt_metrics_options(ctypes.Structure):
    struct_size: int
    by: int
    max_classes: int
    max_requests: int
    window_s: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("by", ctypes.c_uint32),
        ("max_classes", ctypes.c_int32),
        ("max_requests", ctypes.c_int32),
        ("window_s", ctypes.c_double),
    ]


class takt_saturation(ctypes.Structure):
    struct_size: int
    reserved: int
    seconds_to_clear: float
    drain_tokens_per_s: float
    kv_share: float
    late_share: float
    backlog_tokens: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("seconds_to_clear", ctypes.c_double),
        ("drain_tokens_per_s", ctypes.c_double),
        ("kv_share", ctypes.c_double),
        ("late_share", ctypes.c_double),
        ("backlog_tokens", ctypes.c_int64),
    ]


class takt_request_state(ctypes.Structure):
    struct_size: int
    has_run: int
    request: Any
    enqueued: int
    generated: int
    returned: int
    computed: int
    cached: int
    taken: int
    cut: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("has_run", ctypes.c_uint32),
        ("request", ctypes.POINTER(takt_request)),
        ("enqueued", ctypes.c_int64),
        ("generated", ctypes.c_int32),
        ("returned", ctypes.c_int32),
        ("computed", ctypes.c_int32),
        ("cached", ctypes.c_int32),
        ("taken", ctypes.c_uint32),
        ("cut", ctypes.c_uint32),
    ]


class takt_key(ctypes.Structure):
    struct_size: int
    reserved: int
    name: builtins.bytes | None
    context: int | None
    key: Any
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("key", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)),
    ]


class takt_epoch(ctypes.Structure):
    struct_size: int
    fields: int
    ranks: Any
    n_ranks: int
    otherwise: takt_agent_rank
    alpha: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("fields", ctypes.c_uint32),
        ("ranks", ctypes.POINTER(takt_agent_rank)),
        ("n_ranks", ctypes.c_size_t),
        ("otherwise", takt_agent_rank),
        ("alpha", ctypes.c_double),
    ]


class takt_plan(ctypes.Structure):
    struct_size: int
    idle: int
    id: int
    run: Any
    n_run: int
    moves: Any
    n_moves: int
    preempted: Any
    n_preempted: int
    failed: Any
    n_failed: int
    released: Any
    n_released: int
    wake_at: int
    tokens: int
    reserved: int
    dropped: Any
    n_dropped: int
    hints: Any
    n_hints: int
    host_chunks: Any
    n_host_chunks: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("idle", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("run", ctypes.POINTER(takt_plan_entry)),
        ("n_run", ctypes.c_size_t),
        ("moves", ctypes.POINTER(takt_move)),
        ("n_moves", ctypes.c_size_t),
        ("preempted", ctypes.POINTER(takt_preemption)),
        ("n_preempted", ctypes.c_size_t),
        ("failed", ctypes.POINTER(takt_failure)),
        ("n_failed", ctypes.c_size_t),
        ("released", ctypes.POINTER(ctypes.c_uint64)),
        ("n_released", ctypes.c_size_t),
        ("wake_at", ctypes.c_int64),
        ("tokens", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("dropped", ctypes.POINTER(takt_dropped_prefix)),
        ("n_dropped", ctypes.c_size_t),
        ("hints", ctypes.POINTER(takt_cache_hint)),
        ("n_hints", ctypes.c_size_t),
        ("host_chunks", ctypes.POINTER(takt_host_chunk)),
        ("n_host_chunks", ctypes.c_size_t),
    ]


class takt_kv_snapshot(ctypes.Structure):
    total: int
    free: int
    pending: int
    reserved: int
    _fields_ = [
        ("total", ctypes.c_int32),
        ("free", ctypes.c_int32),
        ("pending", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_kv_hit(ctypes.Structure):
    request: int
    prefix_hashes: Any
    n_prefix_hashes: int
    prefix_block_tokens: int
    prompt_tokens: int
    tokens: int
    reserved: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("prefix_hashes", ctypes.POINTER(ctypes.c_uint64)),
        ("n_prefix_hashes", ctypes.c_size_t),
        ("prefix_block_tokens", ctypes.c_int32),
        ("prompt_tokens", ctypes.c_int32),
        ("tokens", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_kv_wish(ctypes.Structure):
    request: int
    have: int
    want: int
    admission: int
    granted: int
    refusal: int
    reserved: int
    _fields_ = [
        ("request", ctypes.c_uint64),
        ("have", ctypes.c_int32),
        ("want", ctypes.c_int32),
        ("admission", ctypes.c_uint32),
        ("granted", ctypes.c_uint32),
        ("refusal", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_kv_oracle(ctypes.Structure):
    struct_size: int
    block_tokens: int
    context: int | None
    snapshot: Any
    cached: Any
    reserve: Any
    release: Any
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("block_tokens", ctypes.c_int32),
        ("context", ctypes.c_void_p),
        ("snapshot", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("cached", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("reserve", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)),
        ("release", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32)),
    ]


class takt_scheduler_options(ctypes.Structure):
    struct_size: int
    max_running: int
    max_waiting: int
    reserve_requests: int
    shed: int
    order: int
    preempt: int
    preempt_action: int
    preempt_margin: float
    kv: int
    kv_block_tokens: int
    kv_blocks: int
    cpu_blocks: int
    kv_watermark: float
    prefix_cache: int
    admission_window: int
    first_step: int
    hash_seed: int
    max_step_tokens: int
    max_step_seqs: int
    policy: builtins.bytes | None
    pause: builtins.bytes | None
    record: Any
    record_context: int | None
    record_flush_bytes: int
    record_plans: int
    reserved: int
    oracle: Any
    key: Any
    pin_share: float
    prefix_cpu_blocks: int
    prefix_wait: int
    max_waiting_tokens: int
    tenant_max_waiting: int
    tenant_max_waiting_tokens: int
    class_limits: builtins.bytes | None
    max_resume_wait: float
    max_blocked: float
    max_paused: float
    reserve_output: float
    victims: int
    begun_first: int
    token_pace: float
    least_prefill: int
    reserved_pace: int
    tenant_kv_share: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("max_running", ctypes.c_int32),
        ("max_waiting", ctypes.c_int64),
        ("reserve_requests", ctypes.c_int64),
        ("shed", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("preempt", ctypes.c_uint32),
        ("preempt_action", ctypes.c_uint32),
        ("preempt_margin", ctypes.c_double),
        ("kv", ctypes.c_uint32),
        ("kv_block_tokens", ctypes.c_int32),
        ("kv_blocks", ctypes.c_int32),
        ("cpu_blocks", ctypes.c_int32),
        ("kv_watermark", ctypes.c_double),
        ("prefix_cache", ctypes.c_uint32),
        ("admission_window", ctypes.c_int32),
        ("first_step", ctypes.c_uint64),
        ("hash_seed", ctypes.c_uint64),
        ("max_step_tokens", ctypes.c_int32),
        ("max_step_seqs", ctypes.c_int32),
        ("policy", ctypes.c_char_p),
        ("pause", ctypes.c_char_p),
        ("record", takt_sink),
        ("record_context", ctypes.c_void_p),
        ("record_flush_bytes", ctypes.c_size_t),
        ("record_plans", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("oracle", ctypes.POINTER(takt_kv_oracle)),
        ("key", ctypes.POINTER(takt_key)),
        ("pin_share", ctypes.c_double),
        ("prefix_cpu_blocks", ctypes.c_int32),
        ("prefix_wait", ctypes.c_int32),
        ("max_waiting_tokens", ctypes.c_int64),
        ("tenant_max_waiting", ctypes.c_int64),
        ("tenant_max_waiting_tokens", ctypes.c_int64),
        ("class_limits", ctypes.c_char_p),
        ("max_resume_wait", ctypes.c_double),
        ("max_blocked", ctypes.c_double),
        ("max_paused", ctypes.c_double),
        ("reserve_output", ctypes.c_double),
        ("victims", ctypes.c_uint32),
        ("begun_first", ctypes.c_uint32),
        ("token_pace", ctypes.c_double),
        ("least_prefill", ctypes.c_int32),
        ("reserved_pace", ctypes.c_uint32),
        ("tenant_kv_share", ctypes.c_double),
    ]


class takt_scheduler_counts(ctypes.Structure):
    struct_size: int
    draining: int
    alive: int
    waiting: int
    running: int
    paused: int
    blocked: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("draining", ctypes.c_uint32),
        ("alive", ctypes.c_int64),
        ("waiting", ctypes.c_int64),
        ("running", ctypes.c_int64),
        ("paused", ctypes.c_int64),
        ("blocked", ctypes.c_int64),
    ]


class takt_kv_use(ctypes.Structure):
    struct_size: int
    total: int
    used: int
    free: int
    cached: int
    pending: int
    cpu_total: int
    cpu_used: int
    cpu_cached: int
    reserved: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("total", ctypes.c_int32),
        ("used", ctypes.c_int32),
        ("free", ctypes.c_int32),
        ("cached", ctypes.c_int32),
        ("pending", ctypes.c_int32),
        ("cpu_total", ctypes.c_int32),
        ("cpu_used", ctypes.c_int32),
        ("cpu_cached", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_key_part(ctypes.Structure):
    name: builtins.bytes
    value: float
    _fields_ = [
        ("name", ctypes.c_char * 24),
        ("value", ctypes.c_double),
    ]


class takt_explanation(ctypes.Structure):
    struct_size: int
    status: int
    waits_for: int
    promoted: int
    key: float
    ahead: int
    known: int
    computed: int
    in_flight: int
    generated: int
    kv_blocks: int
    cpu_blocks: int
    n_parts: int
    passed: int
    parts: ctypes.Array[takt_key_part]
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("waits_for", ctypes.c_uint32),
        ("promoted", ctypes.c_uint32),
        ("key", ctypes.c_double),
        ("ahead", ctypes.c_int64),
        ("known", ctypes.c_int32),
        ("computed", ctypes.c_int32),
        ("in_flight", ctypes.c_int32),
        ("generated", ctypes.c_int32),
        ("kv_blocks", ctypes.c_int32),
        ("cpu_blocks", ctypes.c_int32),
        ("n_parts", ctypes.c_uint32),
        ("passed", ctypes.c_int32),
        ("parts", takt_key_part * 12),
    ]


class takt_held(ctypes.Structure):
    struct_size: int
    return_class: int
    tokens: int
    own: int
    turns: int
    awaited: int
    in_use: int
    ahead: int
    since: int
    value: float
    price: float
    next: int
    next_branch: int
    pinned_until: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("return_class", ctypes.c_uint32),
        ("tokens", ctypes.c_int32),
        ("own", ctypes.c_int32),
        ("turns", ctypes.c_int32),
        ("awaited", ctypes.c_uint32),
        ("in_use", ctypes.c_uint32),
        ("ahead", ctypes.c_int32),
        ("since", ctypes.c_int64),
        ("value", ctypes.c_double),
        ("price", ctypes.c_double),
        ("next", ctypes.c_uint64),
        ("next_branch", ctypes.c_uint64),
        ("pinned_until", ctypes.c_int64),
    ]


class takt_queue_options(ctypes.Structure):
    struct_size: int
    reserved: int
    reserve_requests: int
    hash_seed: int
    policy: builtins.bytes | None
    key: Any
    epoch: Any
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("reserve_requests", ctypes.c_int64),
        ("hash_seed", ctypes.c_uint64),
        ("policy", ctypes.c_char_p),
        ("key", ctypes.POINTER(takt_key)),
        ("epoch", ctypes.POINTER(takt_epoch)),
    ]


class takt_pressure(ctypes.Structure):
    struct_size: int
    head: int
    limits: Any
    kv_tokens: int
    engines: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("head", ctypes.c_uint32),
        ("limits", ctypes.POINTER(takt_limits)),
        ("kv_tokens", ctypes.c_int32),
        ("engines", ctypes.c_int32),
    ]


class takt_stage_time(ctypes.Structure):
    stage: int
    profile: builtins.bytes | None
    time: int
    _fields_ = [
        ("stage", ctypes.c_uint64),
        ("profile", ctypes.c_char_p),
        ("time", ctypes.c_int64),
    ]


class takt_cost_model(ctypes.Structure):
    struct_size: int
    tp: int
    constant_ms: float
    per_prefill_ms: float
    per_decode_ms: float
    per_context_ms: float
    per_sample_ms: float
    kv_bytes_per_token: float
    host_link_gb_s: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("tp", ctypes.c_int32),
        ("constant_ms", ctypes.c_double),
        ("per_prefill_ms", ctypes.c_double),
        ("per_decode_ms", ctypes.c_double),
        ("per_context_ms", ctypes.c_double),
        ("per_sample_ms", ctypes.c_double),
        ("kv_bytes_per_token", ctypes.c_double),
        ("host_link_gb_s", ctypes.c_double),
    ]


class takt_router_options(ctypes.Structure):
    struct_size: int
    window: int
    max_outstanding: int
    reserve_requests: int
    hash_seed: int
    fail_unfit: int
    reserved: int
    policy: builtins.bytes | None
    placement: builtins.bytes | None
    key: Any
    budgets: int
    blown: int
    stage_times: Any
    n_stage_times: int
    max_waiting: int
    max_waiting_tokens: int
    tenant_max_waiting: int
    tenant_max_waiting_tokens: int
    class_limits: builtins.bytes | None
    max_held: float
    max_down: float
    decode_placement: builtins.bytes | None
    local_tokens: int
    local_if_sooner: int
    kv_link_gb_s: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("window", ctypes.c_int32),
        ("max_outstanding", ctypes.c_int64),
        ("reserve_requests", ctypes.c_int64),
        ("hash_seed", ctypes.c_uint64),
        ("fail_unfit", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("policy", ctypes.c_char_p),
        ("placement", ctypes.c_char_p),
        ("key", ctypes.POINTER(takt_key)),
        ("budgets", ctypes.c_uint32),
        ("blown", ctypes.c_uint32),
        ("stage_times", ctypes.POINTER(takt_stage_time)),
        ("n_stage_times", ctypes.c_size_t),
        ("max_waiting", ctypes.c_int64),
        ("max_waiting_tokens", ctypes.c_int64),
        ("tenant_max_waiting", ctypes.c_int64),
        ("tenant_max_waiting_tokens", ctypes.c_int64),
        ("class_limits", ctypes.c_char_p),
        ("max_held", ctypes.c_double),
        ("max_down", ctypes.c_double),
        ("decode_placement", ctypes.c_char_p),
        ("local_tokens", ctypes.c_int32),
        ("local_if_sooner", ctypes.c_uint32),
        ("kv_link_gb_s", ctypes.c_double),
    ]


class takt_routing(ctypes.Structure):
    struct_size: int
    reserved: int
    placed: Any
    n_placed: int
    failed: Any
    n_failed: int
    ended: Any
    n_ended: int
    faults: Any
    n_faults: int
    wake_at: int
    decodes: Any
    n_decodes: int
    withdrawn: Any
    n_withdrawn: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("placed", ctypes.POINTER(takt_placement)),
        ("n_placed", ctypes.c_size_t),
        ("failed", ctypes.POINTER(takt_failure)),
        ("n_failed", ctypes.c_size_t),
        ("ended", ctypes.POINTER(takt_workflow_end)),
        ("n_ended", ctypes.c_size_t),
        ("faults", ctypes.POINTER(takt_workflow_fault)),
        ("n_faults", ctypes.c_size_t),
        ("wake_at", ctypes.c_int64),
        ("decodes", ctypes.POINTER(takt_placement)),
        ("n_decodes", ctypes.c_size_t),
        ("withdrawn", ctypes.POINTER(takt_placement)),
        ("n_withdrawn", ctypes.c_size_t),
    ]


class takt_router_counts(ctypes.Structure):
    struct_size: int
    instances: int
    alive: int
    waiting: int
    set_aside: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("instances", ctypes.c_uint32),
        ("alive", ctypes.c_int64),
        ("waiting", ctypes.c_int64),
        ("set_aside", ctypes.c_int64),
    ]


class takt_candidate(ctypes.Structure):
    instance: int
    state: int
    reserved: int
    score: float
    regret: float
    _fields_ = [
        ("instance", ctypes.c_uint64),
        ("state", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("score", ctypes.c_double),
        ("regret", ctypes.c_double),
    ]


class takt_route_explanation(ctypes.Structure):
    struct_size: int
    status: int
    chosen: int
    ahead: int
    regret: float
    margin: float
    scores_compare: int
    scored: int
    candidates: int
    decode: int
    decode_regret: float
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("chosen", ctypes.c_uint64),
        ("ahead", ctypes.c_int64),
        ("regret", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("scores_compare", ctypes.c_uint32),
        ("scored", ctypes.c_uint32),
        ("candidates", ctypes.c_uint64),
        ("decode", ctypes.c_uint64),
        ("decode_regret", ctypes.c_double),
    ]


class takt_call(ctypes.Structure):
    struct_size: int
    calls_before: int
    model: builtins.bytes | None
    kind: builtins.bytes | None
    stage: builtins.bytes | None
    text: builtins.bytes | None
    n_text: int
    prompt_tokens: int
    system_tokens: int
    user_tokens: int
    tokens_before: int
    generated: int
    reserved: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("calls_before", ctypes.c_int32),
        ("model", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("stage", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("n_text", ctypes.c_size_t),
        ("prompt_tokens", ctypes.c_int32),
        ("system_tokens", ctypes.c_int32),
        ("user_tokens", ctypes.c_int32),
        ("tokens_before", ctypes.c_int32),
        ("generated", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_tool_profile_options(ctypes.Structure):
    struct_size: int
    max_classes: int
    window: int
    seed_weight: int
    max_seconds: float
    hash_seed: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("max_classes", ctypes.c_uint32),
        ("window", ctypes.c_int64),
        ("seed_weight", ctypes.c_int64),
        ("max_seconds", ctypes.c_double),
        ("hash_seed", ctypes.c_uint64),
    ]


class takt_tool_expectation(ctypes.Structure):
    struct_size: int
    pooled: int
    seconds: takt_estimate
    returned_tokens: takt_estimate
    tokens_before: takt_estimate
    seconds_spread: float
    returned_spread: float
    before_spread: float
    observations: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("pooled", ctypes.c_uint32),
        ("seconds", takt_estimate),
        ("returned_tokens", takt_estimate),
        ("tokens_before", takt_estimate),
        ("seconds_spread", ctypes.c_double),
        ("returned_spread", ctypes.c_double),
        ("before_spread", ctypes.c_double),
        ("observations", ctypes.c_int64),
    ]


class takt_agent_learner_options(ctypes.Structure):
    struct_size: int
    order: int
    wall_clock: int
    max_agents: int
    max_workflows: int
    converged_only: int
    retire_after: int
    hash_seed: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("wall_clock", ctypes.c_uint32),
        ("max_agents", ctypes.c_uint32),
        ("max_workflows", ctypes.c_uint32),
        ("converged_only", ctypes.c_uint32),
        ("retire_after", ctypes.c_int64),
        ("hash_seed", ctypes.c_uint64),
    ]


class takt_call_record(ctypes.Structure):
    workflow: int
    agent: int
    upstream: int
    start: int
    end: int
    _fields_ = [
        ("workflow", ctypes.c_uint64),
        ("agent", ctypes.c_uint64),
        ("upstream", ctypes.c_uint64),
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
    ]


class takt_cascade_stage(ctypes.Structure):
    accept_at: float
    escalated_share: float
    served: int
    reserved: int
    _fields_ = [
        ("accept_at", ctypes.c_double),
        ("escalated_share", ctypes.c_double),
        ("served", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class takt_cascade_options(ctypes.Structure):
    struct_size: int
    on_missing: int
    on_late: int
    reserved: int
    stages: Any
    n_stages: int
    judge_timeout: int
    seed: int
    reserve_requests: int
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("on_missing", ctypes.c_uint32),
        ("on_late", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("stages", ctypes.POINTER(takt_cascade_stage)),
        ("n_stages", ctypes.c_size_t),
        ("judge_timeout", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("reserve_requests", ctypes.c_int64),
    ]


class takt_cascade_action(ctypes.Structure):
    kind: int
    model: int
    request: int
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("model", ctypes.c_int32),
        ("request", ctypes.c_uint64),
    ]


class takt_replay_report(ctypes.Structure):
    struct_size: int
    differs: int
    truncated: int
    reserved: int
    events: int
    plans: int
    commits: int
    plans_compared: int
    bytes: int
    different_step: int
    different_at: int
    difference: builtins.bytes
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("differs", ctypes.c_uint32),
        ("truncated", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("events", ctypes.c_int64),
        ("plans", ctypes.c_int64),
        ("commits", ctypes.c_int64),
        ("plans_compared", ctypes.c_int64),
        ("bytes", ctypes.c_uint64),
        ("different_step", ctypes.c_uint64),
        ("different_at", ctypes.c_int64),
        ("difference", ctypes.c_char * 256),
    ]


STRUCTS: Final[tuple[type[ctypes.Structure], ...]] = (
    takt_estimate,
    takt_work_after,
    takt_next_call,
    takt_model_score,
    takt_request,
    takt_instance,
    takt_stage,
    takt_workflow,
    takt_agent_rank,
    takt_event_arrived,
    takt_event_revised,
    takt_event_tool_called,
    takt_event_tool_returned,
    takt_event_move_done,
    takt_event_turn_ended,
    takt_event_turn_expected,
    takt_event_request_started,
    takt_event_request_served,
    takt_event_request_ended,
    takt_event_instance_up,
    takt_event_instance_down,
    takt_event_instance_reported,
    takt_event_workflow_declared,
    takt_event_workflow_grown,
    takt_event_stage_ended,
    takt_event_workflow_ended,
    takt_event_prefill_ended,
    takt_event_kv_stored,
    takt_event_kv_removed,
    takt_event_kv_cleared,
    takt_event_kv,
    takt_event,
    takt_limits,
    takt_plan_entry,
    takt_row_result,
    takt_move,
    takt_preemption,
    takt_failure,
    takt_dropped_prefix,
    takt_cache_hint,
    takt_host_chunk,
    takt_ran,
    takt_holding,
    takt_placement,
    takt_workflow_end,
    takt_workflow_fault,
    takt_tool_call,
    takt_error,
    takt_stat,
    takt_fault,
    takt_transition,
    takt_observer,
    takt_metrics_options,
    takt_saturation,
    takt_request_state,
    takt_key,
    takt_epoch,
    takt_plan,
    takt_kv_snapshot,
    takt_kv_hit,
    takt_kv_wish,
    takt_kv_oracle,
    takt_scheduler_options,
    takt_scheduler_counts,
    takt_kv_use,
    takt_key_part,
    takt_explanation,
    takt_held,
    takt_queue_options,
    takt_pressure,
    takt_stage_time,
    takt_cost_model,
    takt_router_options,
    takt_routing,
    takt_router_counts,
    takt_candidate,
    takt_route_explanation,
    takt_call,
    takt_tool_profile_options,
    takt_tool_expectation,
    takt_agent_learner_options,
    takt_call_record,
    takt_cascade_stage,
    takt_cascade_options,
    takt_cascade_action,
    takt_replay_report,
)

# Types of the result and the arguments; addresses for pointers.
FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "takt_abi_version": (ctypes.c_uint32, []),
    "takt_version": (ctypes.c_char_p, []),
    "takt_status_name": (ctypes.c_char_p, [ctypes.c_int32]),
    "takt_error_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_metrics_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_request_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_instance_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_workflow_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_salted_hash": (ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_uint64]),
    "takt_http_status": (ctypes.c_int32, [ctypes.c_uint32]),
    "takt_key_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_epoch_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_limits_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_kv_oracle_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_scheduler_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_scheduler_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_scheduler_on": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]),
    "takt_scheduler_plan": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_commit": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int64]),
    "takt_scheduler_step": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_scheduler_set_policy": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_scheduler_set_options": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_scheduler_set_retention": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_double, ctypes.c_void_p]),
    "takt_scheduler_set_hints": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_void_p]),
    "takt_scheduler_epoch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]),
    "takt_scheduler_policy": (ctypes.c_char_p, [ctypes.c_void_p]),
    "takt_scheduler_learnt": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_scheduler_load_learnt": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p]),
    "takt_scheduler_last_fault": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_stats": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_scheduler_count": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_kv": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_explain": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_scheduler_explain_held": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_scheduler_measure": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_name_class": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p]),
    "takt_scheduler_saturation": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_scheduler_metrics": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_watch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_check": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_flush": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_ranker_create": (ctypes.c_int32, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_ranker_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_ranker_traits": (ctypes.c_uint32, [ctypes.c_void_p]),
    "takt_ranker_keys": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p]),
    "takt_queue_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_queue_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_queue_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_queue_policy": (ctypes.c_char_p, [ctypes.c_void_p]),
    "takt_queue_learnt": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_queue_load_learnt": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_queue_traits": (ctypes.c_uint32, [ctypes.c_void_p]),
    "takt_queue_size": (ctypes.c_size_t, [ctypes.c_void_p]),
    "takt_queue_place": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_queue_push": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]),
    "takt_queue_put": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]),
    "takt_queue_revise": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64]),
    "takt_queue_erase": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_queue_epoch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]),
    "takt_queue_begin": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64]),
    "takt_queue_top": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_queue_list": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_queue_take": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_queue_hold": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_queue_pause": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64]),
    "takt_queue_requeue": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64]),
    "takt_pressure_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_queue_end": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_queue_computed": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p]),
    "takt_queue_victims": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_cost_model_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_router_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_router_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_router_on": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]),
    "takt_router_set_options": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_router_epoch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]),
    "takt_router_place": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_router_wake_at": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_score": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_place_at": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64]),
    "takt_router_place_apart": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64]),
    "takt_router_instance_of": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_router_policy": (ctypes.c_char_p, [ctypes.c_void_p]),
    "takt_router_learnt": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_router_load_learnt": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_router_add_profile": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_last_fault": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_stats": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_router_count": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_measure": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_name_class": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p]),
    "takt_router_saturation": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_router_metrics": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_watch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_router_explain": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_inbox_create": (ctypes.c_int32, [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_inbox_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_inbox_push": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_scheduler_take": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_router_take": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "takt_ids_create": (ctypes.c_int32, [ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_ids_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_ids_of": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_ids_find": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_ids_name": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_ids_release": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_ids_size": (ctypes.c_size_t, [ctypes.c_void_p]),
    "takt_call_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_predictor_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_predictor_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_predictor_model": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_predictor_predict": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_tool_profile_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_tool_expectation_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_tool_profile_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_tool_profile_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_tool_profile_seed": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_tool_profile_observe": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_tool_profile_expect": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_agent_learner_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_agent_learner_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_agent_learner_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_agent_learner_agent": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_agent_learner_add": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p]),
    "takt_agent_learner_close": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_agent_learner_forget": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_agent_learner_epoch": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_agent_learner_save": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_agent_learner_load": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_cascade_options_init": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    "takt_cascade_router_create": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_cascade_router_destroy": (ctypes.c_int32, [ctypes.c_void_p]),
    "takt_cascade_router_arrived": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_cascade_router_answered": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p]),
    "takt_cascade_router_judged": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_double, ctypes.c_int64, ctypes.c_void_p]),
    "takt_cascade_router_failed": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p]),
    "takt_cascade_router_cancelled": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    "takt_cascade_router_expire": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
    "takt_cascade_router_wake_at": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p]),
    "takt_cascade_router_replan": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "takt_cascade_router_model_of": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "takt_cascade_router_stats": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "takt_tail_test": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double, ctypes.c_void_p]),
    "takt_replay": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
}
