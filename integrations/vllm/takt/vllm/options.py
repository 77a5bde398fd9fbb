"""What a user may choose, from vLLM's --additional-config or the environment."""

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

    The config goes before the environment.
    """

    policy: str = ""
    """As the `takt` tool names it, such as ``"aged(sjf,threshold=100)"``. ``"vllm"`` is vLLM's own order. Empty:
    takt's default, or `priority` where vLLM was started with --scheduling-policy priority."""
    lengths: bool = True
    """Learn how long outputs are and what follows in their workflows, by agent and place in the workflow."""
    forest: str = ""
    """A file that `takt train` has written: what is left of a workflow is what its forest says. Needs ``lengths``."""
    forest_model: str = ""
    """Which of its models is asked. Empty: the one that is served, or the only one there is."""
    calls_log: str = ""
    """A file to which a line is added for each call that has ended, for `takt train`. Needs ``lengths``."""
    victims: bool = False
    """Choose by takt's order who is preempted, where the KV cache is nearly full."""
    victims_above: float = 0.9
    """Part of the KV cache in use above which that is done."""
    gate: str = "none"
    """``"price"``: a cold turn waits as long as it would take more from sessions about to return than it gains."""
    gate_kappa: float = 1.0
    """How much a turn may take from others before it must wait; less is stricter."""
    gate_patience_s: float = 300.0
    """A turn that has waited this long [s] may take twice as much."""
    gate_door_s: float = 60.0
    """The turn that has waited longest, and at least this [s], is let in whatever it costs."""
    gate_door_share: float = 0.1
    """Part of all prefill that goes to such turns."""
    warm_first: bool = False
    """The least uncached prefill first, where the gate is on or asked for; ``policy`` must be empty then."""
    prefill_s: float = 1e-4
    """Prefill time of a token [s], by which the gate counts what a turn costs."""
    idle_s: float = 60.0
    """Without a call for this long [s] a workflow counts as ended."""
    metrics: bool = True
    """Counters for vLLM's /metrics, where PROMETHEUS_MULTIPROC_DIR is set."""

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
            raise OptionError(f"takt.vllm: additional_config['takt'] is {section!r}, and must be a table of options")
        for name, value in (section or {}).items():
            if name not in names:
                raise OptionError(f"takt.vllm: no option {name!r}; there are {', '.join(names)}")
            told[name] = value
        return cls(**{name: _read(name, value, names[name].default) for name, value in told.items()})

    def __post_init__(self) -> None:
        if self.gate not in ("none", "price"):
            raise OptionError(f"takt.vllm: gate is {self.gate!r}, and must be 'none' or 'price'")
        for name in ("forest", "calls_log"):
            if getattr(self, name) and not self.lengths:
                raise OptionError(f"takt.vllm: {name} needs lengths, which is false")
        if self.forest_model and not self.forest:
            raise OptionError("takt.vllm: forest_model needs forest")
        if self.warm_first and self.policy:
            raise OptionError("takt.vllm: warm_first is an order of its own; leave policy empty")


def _read(name: str, value: Any, default: Any) -> Any:
    """A value of the type of the default, from JSON or from a text."""
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
        raise OptionError(f"takt.vllm: {name} is {value!r}, and must be {kind}") from None
