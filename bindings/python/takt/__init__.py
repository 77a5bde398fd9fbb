"""takt decides what an LLM serving engine runs next.

`Queue` orders waiting requests, `Scheduler` plans whole steps, and `Router` chooses an engine for each request.
`replay` compares policies on a workload in a simulator, `sweep` runs a grid of replays, and `takt.workloads` reads and
generates workloads.
`takt.workflow` and `takt.headers` carry the identity of a workflow from the client to the engine. Start with
docs/start/python.md.
"""

from glob import glob as _glob

if __path__[0].endswith("/bindings/python/takt"):
    # In the source tree, the modules of integrations have folders of their own. An installed package has them all in
    # one.
    __path__.extend(_glob(f"{__path__[0]}/../../../integrations/*/takt"))

from . import frameworks, identity, workloads
from ._abi import TAKT_ROW_FAILED as FAILED
from ._abi import TAKT_ROW_FINISHED as FINISHED
from ._library import version as __version__
from .cascades import CascadeAction, CascadeRouter, CascadeStage
from .errors import Fault, FaultError, OptionError, RequestError, TaktError, ToolError
from .identity import Identity, headers, parse_headers, workflow
from .learners import AgentLearner, AgentRanks, CallRecord, ToolCall, ToolExpectation, ToolProfile
from .predictors import Call, Forecast, Predictor
from .queues import Queue, Ran, Ranker, order
from .replays import Report, Table, replay
from .requests import (
    NEVER,
    UNBOUNDED,
    UNSET,
    Estimate,
    ModelScore,
    NextCall,
    Request,
    RequestState,
    WorkAfter,
)
from .routers import Candidate, CostModel, Instance, Placement, Router, Routing, Stage, WorkflowEnd, WorkflowFault
from .schedulers import (
    AgentRank,
    Dropped,
    Failure,
    KvHit,
    KvOracle,
    KvWish,
    Limits,
    Move,
    Plan,
    PlanEntry,
    Preemption,
    Scheduler,
    replay_log,
)
from .states import StateError, read_state, write_state
from .sweeps import Sweep, sweep

__all__ = [
    "AgentLearner", "AgentRank", "AgentRanks", "Call", "CallRecord", "Candidate", "CascadeAction", "CascadeRouter", "CascadeStage",
    "CostModel", "Dropped", "Estimate", "FAILED", "FINISHED", "Failure", "Fault", "FaultError", "Forecast", "Identity",
    "Instance", "KvHit", "KvOracle", "KvWish", "Limits", "ModelScore", "Move", "NEVER", "NextCall", "OptionError",
    "Placement", "Plan", "PlanEntry", "Predictor", "Preemption", "Queue", "Ran", "Ranker", "Report", "Request",
    "RequestError", "RequestState", "Router", "Routing", "Scheduler", "Stage", "StateError", "Sweep", "Table", "TaktError", "ToolCall",
    "ToolError", "ToolExpectation", "ToolProfile", "UNBOUNDED", "UNSET", "WorkAfter", "WorkflowEnd", "WorkflowFault", "__version__",
    "frameworks", "headers", "identity", "order", "parse_headers", "read_state", "replay", "replay_log", "sweep", "workflow",
    "workloads", "write_state",
]  # fmt: skip
