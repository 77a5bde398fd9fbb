"""Each request gets the tokens that the model yields for its prompt alone, under every plan."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch.nn.functional as F  # noqa: E402
from engine import Engine  # noqa: E402
from kv import KvCache, Row, Sequence  # noqa: E402
from model import SIZES, Llama  # noqa: E402

import takt  # noqa: E402

NEAR = 1e-4  # logits of two tokens that are as good as equal

# Blocks, host blocks and tokens of a step are few, so that requests are cut, preempted, recomputed and swapped.
PLANS: list[dict[str, Any]] = [
    {"policy": policy, "blocks": blocks, "host_blocks": host, "tokens": tokens, "max_seqs": seqs, **options}
    for policy, blocks, host, tokens, seqs, options in [
        ("fcfs", 600, 0, 512, 32, {}),
        ("fcfs", 600, 0, 24, 8, {"prefix_cache": False}),
        ("fcfs", 40, 0, 64, 16, {}),
        ("fcfs", 40, 60, 64, 16, {}),
        ("sjf", 600, 0, 128, 16, {"block_tokens": 16}),
        ("sjf", 80, 0, 64, 16, {"preempt": "by_rank"}),
        ("sjf", 80, 200, 64, 16, {"preempt": "by_rank"}),
        ("sjf", 60, 0, 33, 7, {"prefix_cache": False}),
        ("sjf", 50, 30, 48, 12, {"kv_watermark": 0.05}),
        ("stjf", 70, 0, 17, 16, {"preempt": "by_rank", "block_tokens": 3}),
        ("stjf", 90, 100, 96, 16, {"preempt": "by_rank", "block_tokens": 2}),
        ("aged(sjf,threshold=20)", 64, 64, 40, 10, {}),
        ("aged(stjf,threshold=5)", 64, 0, 40, 10, {"order": "prefill_first"}),
        ("room_to_pass", 600, 0, 256, 32, {}),
        ("room_to_pass", 50, 0, 64, 16, {"preempt": "by_rank"}),
        ("room_to_pass", 50, 100, 64, 16, {"preempt": "by_rank", "order": "prefill_first"}),
        (None, 45, 20, 32, 16, {"prefix_wait": 2}),
        (None, 300, 0, 32, 4, {"block_tokens": 7, "prefix_wait": 0}),
        ("fcfs", 36, 36, 20, 16, {"order": "prefill_first", "block_tokens": 5}),
        ("sjf", 2000, 0, 2048, 64, {"block_tokens": 1}),
    ]
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model() -> Llama:
    return Llama.random(SIZES["tiny"], seed=7)


def requests(seed: int, count: int, most: int) -> list[Sequence]:
    """Random prompts, of which many begin alike. ``most``: maximum tokens of prompt and output."""
    dice = random.Random(seed)
    beginnings = [[dice.randrange(512) for _ in range(48)] for _ in range(3)]
    made = []
    for i in range(1, count + 1):
        shared = dice.choice(beginnings)[: dice.choice((0, 0, 16, 33, 48))]
        tokens = shared + [dice.randrange(512) for _ in range(dice.randint(1, 40))]
        made.append(Sequence(i, tokens, dice.randint(1, min(24, most - len(tokens)))))
    return made


def serve(engine: Engine, sequences: list[Sequence], seed: int) -> None:
    """Serves the requests, which arrive between the steps."""
    dice, waiting, steps = random.Random(seed), list(sequences), 0
    while waiting or engine.sequences:
        for _ in range(min(len(waiting), dice.choice((0, 0, 1, 2, 5)))):
            sequence = waiting.pop(0)
            estimate = takt.Estimate.exact(sequence.max_tokens) if dice.random() < 0.8 else None
            engine.submit(sequence, output_tokens=estimate, workflow=dice.randint(1, 20))
        engine.step()
        steps += 1
        assert steps < 100_000, "the engine does not finish"


def plain(_: int, q: Any, k: Any, v: Any) -> Any:
    heads = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)[0].transpose(0, 1)


def differences(model: Llama, sequence: Sequence) -> tuple[int, int]:
    """Computes the whole request alone, without pages and takt. Returns the number of tokens that are not the most
    likely one: those within `NEAR` of it, and the others."""
    tokens = torch.tensor(sequence.tokens, device=model.device)
    hidden = model.forward(tokens[:-1], torch.arange(len(tokens) - 1, device=model.device), plain)
    logits = model.logits(hidden[sequence.prompt_tokens - 1 :])
    missing = logits.max(-1).values - logits.gather(1, tokens[sequence.prompt_tokens :, None])[:, 0]
    return int(((missing > 0) & (missing < NEAR)).sum()), int((missing >= NEAR).sum())


def run(model: Llama, plan: dict[str, Any], seed: int, count: int) -> tuple[Engine, list[Sequence]]:
    engine = Engine(model, **{"block_tokens": 4, **plan})
    sequences = requests(seed, count, plan["blocks"] * plan.get("block_tokens", 4))
    serve(engine, sequences, seed)
    return engine, sequences


def test_every_plan_yields_the_same_tokens(model: Llama, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = near = others = served = 0
    happened = dict.fromkeys(("preempted_recompute", "preempted_swap", "tokens_cached", "tokens_recomputed"), 0)
    for seed, plan in enumerate(PLANS):
        engine, sequences = run(model, plan, seed, 52)
        for sequence in sequences:
            assert len(sequence.output) == sequence.max_tokens
            found = differences(model, sequence)
            near, others, tokens, served = near + found[0], others + found[1], tokens + len(sequence.output), served + 1
        stats = engine.takt.stats()
        for name in happened:
            happened[name] += stats[name]
        assert engine.takt.last_fault is None
        engine.takt.check()
        cached = sum(hash != 0 for hash in engine.kv.hash_of)
        assert len(engine.kv.free) + cached == engine.kv.blocks and not any(engine.kv.holders)
        assert engine.takt.kv()["cached"] == cached and len(engine.kv.host_free) == plan["host_blocks"]
    with capsys.disabled():
        print(f"\n{served} requests in {len(PLANS)} plans: {near} of {tokens} tokens differ, by less than {NEAR}; {happened}")
    assert served >= 1000 and others == 0 and near < tokens / 1000
    assert all(happened.values()), happened


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("graphs", [False, True])
def test_a_gpu_yields_the_same_tokens(graphs: bool) -> None:
    model = Llama.random(SIZES["tiny"], seed=7, device="cuda", compiled=graphs)
    for seed in (0, 3, 6, 9):
        _, sequences = run(model, {**PLANS[seed], "graphs": graphs}, seed, 52)
        found = [differences(model, sequence) for sequence in sequences]
        assert sum(others for _, others in found) == 0 and sum(near for near, _ in found) < 5


@pytest.mark.parametrize("bug", ["table", "position", "cached", "swapped"])
def test_a_bug_is_found(model: Llama, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison would notice a wrong block table, position, cached block or swapped block."""
    if bug == "table":
        monkeypatch.setattr(Row, "__new__", lambda kind, first, tokens, position, table: tuple.__new__(
            kind, (first, tokens, position, table[::-1])))  # fmt: skip
    elif bug == "position":
        forward = Llama.forward
        monkeypatch.setattr(Llama, "forward", lambda self, t, p, a: forward(self, t, p if a is plain else p // 2, a))
    elif bug == "cached":
        monkeypatch.setattr("engine.prefix_hashes", lambda t, n: [len(t[: i + n]) + 1 for i in range(0, len(t) - n + 1, n)])
    else:
        monkeypatch.setattr(KvCache, "copy", lambda *_: None)
    _, sequences = run(model, PLANS[3], 3, 52)
    assert sum(differences(model, sequence)[1] for sequence in sequences) > 0


def test_a_cancelled_request_leaves_nothing(model: Llama) -> None:
    engine, sequences, dice = Engine(model, blocks=64, block_tokens=4, host_blocks=30, tokens=40), requests(5, 60, 256), random.Random(5)
    for sequence in sequences:
        engine.submit(sequence)
        engine.step()
        if dice.random() < 0.4:
            engine.takt.cancel(dice.randint(1, sequence.id))
    while engine.sequences:
        engine.step()
    assert len(engine.kv.free) + len(engine.kv.by_hash) == 64 and len(engine.kv.host_free) == 30
    assert engine.takt.kv()["used"] == 0


def test_impossible_requests_are_refused(model: Llama) -> None:
    engine = Engine(model, blocks=8, block_tokens=4)
    for tokens, most in (([], 1), ([1], 0), ([1] * 30, 3), ([512], 1), ([-1], 1)):
        with pytest.raises(ValueError, match="is invalid"):
            engine.submit(Sequence(1, tokens, most))
    assert not engine.sequences


@pytest.fixture
def server() -> Any:
    here = Path(__file__).resolve().parents[1]
    running = subprocess.Popen([sys.executable, here / "serve.py", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    yield running, running.stdout.readline().split()[-1]
    running.kill()
    running.wait()


def post(url: str, **body: Any) -> str:
    with urllib.request.urlopen(urllib.request.Request(f"{url}/completions", json.dumps(body).encode()), timeout=60) as answer:
        return str(answer.read().decode())


def test_the_server(server: Any) -> None:
    running, url = server
    whole = json.loads(post(url, prompt="Hello", max_tokens=5))
    assert whole["usage"] == {"prompt_tokens": 5, "completion_tokens": 5} and whole["choices"][0]["finish_reason"] == "length"
    events = post(url, prompt="Hello", max_tokens=5, stream=True).strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    tokens = [json.loads(event[6:])["choices"][0]["token_ids"][0] for event in events]
    assert tokens == whole["choices"][0]["token_ids"]
    for body in ({"prompt": ""}, {"prompt": "a", "temperature": 1}, {"prompt": [9999]}, {"prompt": None}, {"max_tokens": 1}):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post(url, **body)
    assert "torch_engine" in urllib.request.urlopen(f"{url}/models", timeout=60).read().decode()
    client = subprocess.Popen([sys.executable, "-c", (
        "import urllib.request as u, sys; r = u.urlopen(u.Request(sys.argv[1], b'{\"prompt\": \"a\", \"max_tokens\": 2000, "
        "\"stream\": true}')); r.readline(); print('begun', flush=True); r.read()"), f"{url}/completions"], stdout=subprocess.PIPE)  # fmt: skip
    assert client.stdout is not None and client.stdout.readline() == b"begun\n"
    running.send_signal(signal.SIGINT)  # while a request runs
    assert running.wait(30) == 0
    client.kill()
    client.wait()
