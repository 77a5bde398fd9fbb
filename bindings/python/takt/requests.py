"""Requests and their estimates."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, Union

from . import _abi as abi
from ._library import I64, Single, check, field_types, initialised, real, whole
from .errors import RequestError

__all__ = ["Estimate", "WorkAfter", "NextCall", "ModelScore", "Request", "RequestState", "NEVER", "UNSET", "UNBOUNDED"]

NEVER: int = abi.TAKT_NEVER
"""A time that never comes; for a duration or a bound: unlimited."""
UNSET: int = abi.TAKT_UNSET
"""A time that is not set."""
UNBOUNDED: int = abi.TAKT_UNBOUNDED
"""A limit that does not apply."""

_U64, _I32 = (0, 2**64 - 1), (-(2**31), 2**31 - 1)
_COUNT = (0, 2**31 - 1)


_NO_QUANTILES = (0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Estimate:
    """A prediction: the mean and the quantiles 0.1, 0.25, 0.5, 0.75, 0.9, in the unit of its field.

    If all quantiles are 0 and the mean is above 0, takt uses the quantiles of an exponential distribution.
    """

    mean: float
    quantiles: tuple[float, float, float, float, float] = _NO_QUANTILES

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Returns the estimate of a value that is known exactly."""
        return cls(float(value), (float(value),) * 5)

    @property
    def median(self) -> float:
        return self.quantiles[2] if any(self.quantiles) else self.mean * math.log(2)

    @classmethod
    def of_quantiles(cls, quantiles: Sequence[float]) -> Estimate:
        """Returns an estimate from five non-decreasing quantiles. Its mean assumes a distribution that is linear
        between them."""
        if len(quantiles) != 5 or any(b < a for a, b in zip(quantiles, list(quantiles)[1:])):
            raise RequestError("quantiles", quantiles, "must be five non-decreasing numbers")
        levels = (0.1, 0.25, 0.5, 0.75, 0.9)
        mean = levels[0] * quantiles[0] + (1 - levels[4]) * quantiles[4]
        for i in range(1, 5):
            mean += (levels[i] - levels[i - 1]) * (quantiles[i - 1] + quantiles[i]) / 2
        a, b, c, d, e = map(float, quantiles)
        return cls(mean, (a, b, c, d, e))


@dataclass(frozen=True)
class WorkAfter:
    """Expected work of the calls of a workflow that have not ended, except for the request itself.

    ``calls`` is their number; ``prompt_tokens`` and ``output_tokens`` are sums [tokens]. ``kv_steps`` is the context of
    each call, summed over its decode steps [tokens x steps]. ``path_tokens`` is the output of the longest chain of
    calls [tokens]. None: unknown.
    """

    calls: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    kv_steps: float | None = None
    path_tokens: float | None = None


@dataclass(frozen=True)
class NextCall:
    """The tool call that a request is expected to make next.

    ``after`` is the output before the call [tokens], ``duration`` its length [ns], ``returned`` the tokens that its
    answer adds to the context.
    """

    tool: int = 0
    after: int = 0
    returned: int = 0
    duration: int = 0


@dataclass(frozen=True)
class ModelScore:
    """Predictions for a request on one model. ``score`` is the probability that the model solves it. ``tokens`` is the
    output of this call and of all later ones in its workflow; None: unknown."""

    model: int
    score: float
    tokens: float | None = None


KindT = TypeVar("KindT")
Length = Union[Estimate, float, int, None]
"""An estimate, or a number that is its mean, or None if nothing is known."""


@dataclass
class Request:
    """One call of a model. The prompt's text and the sampling parameters stay with the host.

    Times are nanoseconds of the host's clock, lengths are tokens. takt copies the values, so the object can be reused.
    An invalid field raises `RequestError` when the request is passed to takt.
    """

    id: int
    """Unique among the requests alive; not 0."""
    prompt_tokens: int = 0
    output_tokens: Length = None
    """Output of this call per sequence [tokens]; a number is the mean, `Estimate.exact` a known length."""
    workflow: int = 0
    """Workflow; 0: the request is a workflow of its own."""
    stage: int = 0
    """Call site in the workflow; 0: unknown."""
    agent: int = 0
    """Role of the agent that calls; 0: unknown."""
    tenant: int = 0
    """Tenant, for fair sharing."""
    session: int = 0
    """Session whose turn this is; 0: unknown."""
    branch: int = 0
    """Branch of the workflow: a context of its own, such as a sub-agent's."""
    salt: int = 0
    """Requests with different salts share no prefix; 0: none. Used only if takt counts KV."""
    adapter: int = 0
    """LoRA adapter that the request needs while it runs; 0: none."""
    arrival: int = UNSET
    """Arrival [ns]; `UNSET`: the time of the event."""
    workflow_arrival: int = UNSET
    """Arrival of the workflow [ns]; `UNSET`: `arrival`."""
    deadline: int = NEVER
    """Time by which the request should end [ns]."""
    expires_at: int = NEVER
    """Time at which the request fails if its first step has not run [ns]."""
    first_token_by: int = NEVER
    """Time by which the first token should be generated [ns]."""
    token_pace: int = 0
    """Target time between two output tokens [ns]; 0: the scheduler's."""
    max_output_tokens: int = 0
    """Maximum output, enforced by the host [tokens]; 0: unknown."""
    sequences: int = 1
    """Number of parallel samples of the prompt."""
    priority: int = 0
    """Priority; a lower number runs sooner."""
    workflow_tokens_left: Length = None
    """Output of this call and of all later ones in its workflow [tokens]."""
    after: WorkAfter | None = None
    next_call: NextCall | None = None
    compute: int = 0
    """Expected time of this call if it runs alone [ns]; 0: unknown."""
    prefix_hashes: Sequence[int] = ()
    """Hashes of the prompt's leading blocks; each covers its block and all blocks before it. Shape (blocks,)."""
    prefix_block_tokens: int = 0
    """Tokens per block of `prefix_hashes`."""
    scores: Sequence[ModelScore] = ()
    """Scores per model, for placement among models."""
    chunkable: bool = True
    """False: the whole prompt runs in one step."""
    preemptible: bool = True
    """False: the request is never preempted."""


_BOUNDS = {
    "id": (1, 2**64 - 1),
    **dict.fromkeys(("workflow", "stage", "agent", "tenant", "session", "branch", "salt", "adapter"), _U64),
    **dict.fromkeys(("arrival", "workflow_arrival", "deadline", "expires_at", "first_token_by"), I64),
    **dict.fromkeys(("compute", "token_pace"), (0, I64[1])),
    **dict.fromkeys(("prompt_tokens", "max_output_tokens", "prefix_block_tokens"), _COUNT),
    "sequences": (1, 2**31 - 1),
    "priority": _I32,
}
_DEFAULTS = {field.name: field.default for field in fields(Request)}
_PLAIN = tuple((name, *bounds, _DEFAULTS.get(name)) for name, bounds in _BOUNDS.items())
_WORK = tuple(field.name for field in fields(WorkAfter))


def _set_estimate(name: str, value: Length, into: abi.takt_estimate) -> None:
    if value is None:
        into.mean = -1.0
        return
    if isinstance(value, Estimate):
        mean, quantiles = real(name, value.mean), value.quantiles
    else:
        mean, quantiles = real(name, value), _NO_QUANTILES
    if not 0 <= mean <= 1e15:
        raise RequestError(name, value, "must be an estimate from 0 to 1e15, or None if unknown")
    into.mean = mean
    if quantiles is _NO_QUANTILES:
        return
    if not isinstance(quantiles, Sequence) or len(quantiles) != 5:
        raise RequestError(name, value, "must have five quantiles")
    told: list[Any] = [real(name, each) for each in quantiles]
    if min(told) < 0:
        raise RequestError(name, value, "must have five quantiles, none of them below 0")
    into.quantiles[:] = told


def _instance(name: str, value: Any, kind: type[KindT]) -> KindT:
    if not isinstance(value, kind):
        raise RequestError(name, value, f"must be a takt.{kind.__name__}")
    return value


def set_next_call(value: NextCall | None, into: abi.takt_next_call) -> None:
    value = _instance("next_call", NextCall() if value is None else value, NextCall)
    into.tool = whole("next_call.tool", value.tool, _U64)
    into.after = whole("next_call.after", value.after, _COUNT)
    into.returned = whole("next_call.returned", value.returned, _COUNT)
    into.duration = whole("next_call.duration", value.duration, (0, I64[1]))


class Filled:
    """A takt_request that is filled again for each call, with the arrays that it points to."""

    __slots__ = ("address", "fills", "kept", "struct")
    _default = bytes(initialised(abi.takt_request))

    def __init__(self, struct: abi.takt_request | None = None) -> None:
        self.struct = abi.takt_request() if struct is None else struct
        self.address = ctypes.addressof(self.struct)
        self.kept: Any = None
        self.fills = 0

    def fill(self, request: Request) -> int:
        """Fills the C struct and returns its address."""
        into = self.struct
        self.fills = mine = self.fills + 1
        ctypes.memmove(self.address, self._default, len(self._default))
        told = _instance("request", request, Request).__dict__
        for name, low, high, default in _PLAIN:
            value = told[name]
            if value is default:
                continue
            if type(value) is int and low <= value <= high:
                setattr(into, name, value)
            else:
                setattr(into, name, whole(name, value, (low, high)))
        if request.output_tokens is not None:
            _set_estimate("output_tokens", request.output_tokens, into.output_tokens)
        if request.workflow_tokens_left is not None:
            _set_estimate("workflow_tokens_left", request.workflow_tokens_left, into.workflow_tokens_left)
        if request.after is not None:
            after, known = into.after, _instance("after", request.after, WorkAfter)
            for name in _WORK:
                value = getattr(known, name)
                if value is not None:
                    setattr(after, name, value if type(value) is float and 0 <= value < 1e300 else real(f"after.{name}", value))
        if request.next_call is not None:
            set_next_call(request.next_call, into.next_call)
        if not (request.chunkable and request.preemptible):
            into.flags = (0 if request.chunkable else abi.TAKT_REQUEST_UNCHUNKABLE) | (
                0 if request.preemptible else abi.TAKT_REQUEST_UNPREEMPTIBLE
            )
        self.kept = None
        if len(request.prefix_hashes):
            if request.prefix_block_tokens < 1:
                raise RequestError("prefix_block_tokens", request.prefix_block_tokens, "must be set with prefix_hashes")
            hashes = [whole("prefix_hashes", each, _U64) for each in request.prefix_hashes]
            array = (ctypes.c_uint64 * len(hashes))(*hashes)
            into.prefix_hashes = ctypes.cast(array, ctypes.POINTER(ctypes.c_uint64))
            into.n_prefix_hashes = len(hashes)
            self.kept = array
        if len(request.scores):
            scores = (abi.takt_model_score * len(request.scores))()
            for score, model in zip(scores, request.scores):
                _instance("scores", model, ModelScore)
                score.model = whole("scores.model", model.model, _U64)
                score.score = real("scores.score", model.score)
                score.tokens = -1.0 if model.tokens is None else real("scores.tokens", model.tokens)
            into.scores = ctypes.cast(scores, ctypes.POINTER(abi.takt_model_score))
            into.n_scores = len(scores)
            self.kept = (self.kept, scores)
        if self.fills != mine:  # reading a value ran code that filled it for another call
            check(abi.TAKT_E_BUSY, "fill")
        return self.address


REVISED = {
    "output_tokens": abi.TAKT_REVISED_OUTPUT_TOKENS,
    "workflow_tokens_left": abi.TAKT_REVISED_WORKFLOW_TOKENS_LEFT,
    "after": abi.TAKT_REVISED_AFTER,
    "deadline": abi.TAKT_REVISED_DEADLINE,
    "expires_at": abi.TAKT_REVISED_EXPIRES_AT,
    "priority": abi.TAKT_REVISED_PRIORITY,
    "sequences": abi.TAKT_REVISED_SEQUENCES,
    "next_call": abi.TAKT_REVISED_NEXT_CALL,
}
REVISED_IN_QUEUES = {**REVISED, "prompt_tokens": abi.TAKT_REVISED_PROMPT_TOKENS, "arrival": abi.TAKT_REVISED_ARRIVAL}


def revised_by(changes: dict[str, Any], allowed: dict[str, int]) -> int:
    """Returns the mask of the fields that a revision sets."""
    told = 0
    for name in changes:
        if name not in allowed:
            raise RequestError(name, changes[name], f"is fixed; expected one of {', '.join(allowed)}")
        told |= allowed[name]
    return told


# ---- keys of the host -----------------------------------------------------------------------------------------------


class RequestState(Single):
    """The argument of a key function. It is empty after the call: copy the values that you need later.

    ``request`` is the request as revised, with the fields of `Request` (``request.output_tokens.mean`` is below 0 if
    unknown). ``has_run`` is True if a step has made progress on it. ``enqueued`` is the time when it last became
    waiting [ns]. ``generated`` is its output so far per sequence, ``returned`` the tokens that tools have added.
    ``computed`` is the number of context tokens whose KV was present when it last became waiting. ``cached`` is the
    number of its prompt tokens in the prefix cache at that time; 0 without a retention. ``taken`` is True if it was
    admitted to a step, taken from a queue, or placed. ``cut`` is True if it ended early.
    """

    __slots__ = ("_state", "request")

    def __init__(self, state: Any) -> None:
        self._state = state
        self.request: abi.takt_request = abi.takt_request.from_buffer_copy(state.request.contents)

    def end(self) -> None:
        """Empties this object: the library owns the memory, and the call has ended."""
        self._state = _OVER
        for name in ("prefix_hashes", "scores"):
            setattr(self.request, name, None)
            setattr(self.request, f"n_{name}", 0)

    has_run = property(lambda self: bool(self._state.has_run))
    enqueued = property(lambda self: int(self._state.enqueued))
    generated = property(lambda self: int(self._state.generated))
    returned = property(lambda self: int(self._state.returned))
    computed = property(lambda self: int(self._state.computed))
    cached = property(lambda self: int(self._state.cached))
    taken = property(lambda self: bool(self._state.taken))
    cut = property(lambda self: bool(self._state.cut))


_OVER = abi.takt_request_state()
KeyFunction = Callable[[RequestState], float]
_KEY_TYPE = field_types(abi.takt_key)["key"]
_STATE_POINTER = ctypes.POINTER(abi.takt_request_state)


class Inside:
    """True while a callback of a handle runs, which uses the structs that the handle's methods fill."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs = False

    def __enter__(self) -> None:
        self.runs = True

    def __exit__(self, *_: object) -> None:
        self.runs = False


class Key(Single):
    """A key function for C. An exception in it is kept, and the call that ran the function raises it."""

    def __init__(self, function: KeyFunction, name: str | None, inside: Inside) -> None:
        if not callable(function):
            raise RequestError("key", function, "must be a function of a RequestState")
        self.error: BaseException | None = None
        self.struct = initialised(abi.takt_key)
        name = str(name if name is not None else getattr(function, "__name__", "python"))
        safe = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
        self.struct.name = safe.strip("_")[:64].encode() or b"python"

        def call(_: Any, address: int) -> float:
            try:
                state = RequestState(ctypes.cast(address, _STATE_POINTER).contents)
                try:
                    with inside:
                        return float(function(state))
                finally:
                    state.end()
            except BaseException as error:  # no exception may pass through C
                self.error = self.error or error
                return math.nan

        self.struct.key = self._call = _KEY_TYPE(call)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.struct)

    def raise_error(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
