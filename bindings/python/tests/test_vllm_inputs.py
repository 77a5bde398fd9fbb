"""What clients and users may say to takt.vllm, however it is meant."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.importorskip("vllm", reason="vLLM is not installed: scripts/peer-vllm makes an environment that has it")

from takt import OptionError
from takt.vllm import Options
from takt.vllm.gate import Returns
from takt.vllm.headers import Headers
from takt.vllm.identity import Identity, identity_of, number_of
from takt.vllm.lengths import Lengths


def said(**xargs):
    parameters = SimpleNamespace(extra_args={f"takt_{name}": value for name, value in xargs.items()})
    return identity_of(SimpleNamespace(sampling_params=parameters, pooling_params=None, trace_headers=None))


@pytest.mark.parametrize("value", [10**400, -(10**400), "1" * 400, "nan", float("inf"), -1, [1], {}, None, True, "1e999"])
def test_a_number_that_cannot_be_meant_is_left_out(value):
    who = said(deadline=value, output_tokens=value, workflow_tokens_left=value, workflow="w")
    if value is not True:
        assert (who.deadline, who.output_tokens, who.workflow_tokens_left) == (None, None, None)
    assert who.workflow == "w"


def test_names_of_one_length_and_one_checksum_are_told_apart():
    # CRC-32 is linear: these two have the same, and with any start, since they are equally long.
    one, other = "plumless", "buckeroo"
    assert number_of(one) != number_of(other)
    assert len({number_of(f"w{i:06}") for i in range(200_000)}) == 200_000
    assert number_of("") == 0 and number_of("\ud800") != 0


def test_guesses_of_agents_that_clients_name_are_bounded():
    lengths = Lengths(1_000_000_000)
    for i in range(70_000):
        lengths.ends(Identity(agent=f"a{i}", output_tokens=5.0), 0, 10, 5, i, True)
    assert len(lengths._guesses) <= 65536 and len(lengths._outputs) <= 65536
    assert lengths.output(Identity(agent="a69999", output_tokens=5.0), 0, 100) is not None


def test_turns_sent_before_the_last_one_ended_leave_hazards_as_they_can_be():
    returns = Returns()
    for _ in range(5_000):
        returns.observe(-300.0, True)
    assert all(each > 0 for each in returns._at_risk)
    assert all(0 < returns.worth(age) < 1e9 for age in (0.0, 1.0, 30.0, 1e6))


@pytest.mark.parametrize("body", [b"[" * 200_000, b"\xff\xfe", b"", b"3", b'{"vllm_xargs": 3}', b'{"a": ' * 100_000])
def test_a_body_that_is_no_object_reaches_vllm_as_it_is(body):
    reached = []

    async def app(scope, receive, send):
        reached.append((await receive())["body"])

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"x-takt-workflow", b"w")]}
    asyncio.run(Headers(app)(scope, receive, None))
    assert reached == [body]


def test_a_header_becomes_an_argument_and_the_body_goes_before_it():
    reached = []

    async def app(scope, receive, send):
        reached.append(json.loads((await receive())["body"]))

    parts = [b'{"prompt": "x", "vllm_xargs": ', b'{"takt_agent": "coder"}}']

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    headers = [(b"x-takt-workflow", b"w"), (b"x-takt-agent", b"planner")]
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
    asyncio.run(Headers(app)(scope, receive, None))
    assert reached == [{"prompt": "x", "vllm_xargs": {"takt_workflow": "w", "takt_agent": "coder"}}]


def test_options_that_are_no_json_name_themselves():
    with pytest.raises(OptionError, match="additional_config\\['takt'\\] is no JSON"):
        Options.of({"takt": "{policy: sjf}"}, {})
