"""Options from vLLM's --additional-config or the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import OptionError

__all__ = ["Options"]


@dataclass
class Options:
    """``vllm serve --additional-config '{"takt": {"policy": "sjf"}}'``, or ``TAKT_VLLM_POLICY=sjf`` in the environment.

    The config takes precedence over the environment.
    """

    policy: str = ""
    """Policy, such as ``"aged(sjf,threshold=100)"``. ``"vllm"`` is vLLM's own order. Empty: takt's default, or
    `priority` if vLLM runs with --scheduling-policy priority."""
    system: str = ""
    """``"kairos"`` or ``"lamps"``: the scheduler half of a paper's system, which sets the order and learns from ended
    requests. Requires an empty ``policy``."""
    lengths: bool = True
    """Learn output lengths and the work that follows in workflows, by agent and position in the workflow."""
    forest: str = ""
    """File from `takt train` that predicts the output left in a workflow. Needs ``lengths``."""
    forest_model: str = ""
    """Model of the forest to use. Empty: the served model, or the only one in the file."""
    calls_log: str = ""
    """File to which each ended call appends a line, for `takt train`. Needs ``lengths``."""
    victims: bool = False
    """Preempt the request that takt ranks last if the KV cache is nearly full."""
    victims_above: float = 0.9
    """Share of the KV cache in use above which ``victims`` applies."""
    gate: str = "none"
    """``"price"``: a turn without cached KV waits while it would cost soon returning sessions more than it gains."""
    gate_kappa: float = 1.0
    """Factor on the cost that a turn may cause to other turns; a smaller factor makes more turns wait."""
    gate_patience_s: float = 300.0
    """Time after which a waiting turn may cause twice the cost [s]."""
    gate_door_s: float = 60.0
    """Minimum wait after which the turn that has waited longest is admitted at any cost [s]."""
    gate_door_share: float = 0.1
    """Share of all prefill that may go to turns admitted at any cost."""
    warm_first: bool = False
    """Run requests with the least uncached prefill first. Applies if the gate or this option is on; requires an empty
    ``policy``."""
    prefill_s: float = 1e-4
    """Prefill time per token [s], for the gate's costs."""
    idle_s: float = 60.0
    """Time without a call after which a workflow counts as ended [s]."""
    session_headers: bool = True
    """A call that names no workflow belongs to the session of its coding agent, or else to vLLM's session."""
    off_file: str = ""
    """takt turns off if this file appears, and on if it disappears. takt looks before a step, at most once a second."""
    state_file: str = ""
    """File of learnt state: read at the start, written every ``state_every_s`` and at the end. Empty: none. With data
    parallelism, each engine adds its rank to the name."""
    state_every_s: float = 300.0
    """Time between two writes of ``state_file`` [s]."""
    metrics: bool = True
    """Publish counters on vLLM's /metrics if PROMETHEUS_MULTIPROC_DIR is set."""

    @classmethod
    def of(cls, config: Any, environment: Mapping[str, str] = os.environ) -> Options:
        told: dict[str, Any] = {}
        names = {field.name: field for field in fields(cls)}
        for name in names:
            value = environment.get(f"TAKT_VLLM_{name.upper()}")
            if value is not None:
                told[name] = value
        section = config.get("takt") if isinstance(config, Mapping) else None
        if isinstance(section, str):
            try:
                section = json.loads(section)
            except ValueError as error:
                raise OptionError(f"takt.vllm: additional_config['takt'] is no JSON: {error}") from None
        if section is not None and not isinstance(section, Mapping):
            raise OptionError(f"takt.vllm: additional_config['takt'] is {section!r}; expected a table of options")
        for name, value in (section or {}).items():
            if name not in names:
                raise OptionError(f"takt.vllm: no option {name!r}; expected one of {', '.join(names)}")
            told[name] = value
        return cls(**{name: _read(name, value, names[name].default) for name, value in told.items()})

    def __post_init__(self) -> None:
        if self.gate not in ("none", "price"):
            raise OptionError(f"takt.vllm: gate is {self.gate!r}; expected 'none' or 'price'")
        for name in ("forest", "calls_log"):
            if getattr(self, name) and not self.lengths:
                raise OptionError(f"takt.vllm: {name} needs lengths, which is false")
        if self.forest_model and not self.forest:
            raise OptionError("takt.vllm: forest_model needs forest")
        if self.system not in ("", "kairos", "lamps"):
            raise OptionError(f"takt.vllm: system is {self.system!r}; expected 'kairos' or 'lamps'")
        if self.system and (self.policy or self.warm_first):
            raise OptionError("takt.vllm: system sets the order itself; leave policy empty and warm_first off")
        if self.system == "lamps" and not self.lengths:
            raise OptionError("takt.vllm: system 'lamps' needs lengths, which is false")
        if self.warm_first and self.policy:
            raise OptionError("takt.vllm: warm_first sets the order itself; leave policy empty")


def _read(name: str, value: Any, default: Any) -> Any:
    """Converts a value from JSON or text to the type of the default."""
    try:
        if isinstance(default, bool):
            if isinstance(value, str):
                return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[value.lower()]
            if isinstance(value, bool):
                return value
            raise ValueError
        if isinstance(default, float):
            number = float(value)
            if not 0 <= number < 1e18:
                raise ValueError
            return number
        if not isinstance(value, str):
            raise ValueError
        return value
    except (KeyError, TypeError, ValueError):
        kind = {bool: "true or false", float: "a number, 0 or more", str: "a text"}[type(default)]
        raise OptionError(f"takt.vllm: {name} is {value!r}; expected {kind}") from None
