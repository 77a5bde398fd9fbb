"""Real `vllm serve` on a CPU with a model of random weights made on the spot, under workflows of many calls.

    python serve.py --runs 5 --workflows 200 --json FILE

Orders: vLLM's fcfs, vLLM's priority (a workflow's calls bear the workflow's arrival), and takt's default. All servers are up
at once and the runs take turns. A call ends at a token out of a list, whose length gives the mean length of its agent's
outputs, so that nobody knows an output's length before it ends; max_tokens is the same for all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VOCABULARY = 2048
MOST = 256  # max_tokens of every call

# agent: calls, mean output, tokens of the first prompt, tokens that a tool adds, mean pause of the tool [s], share
AGENTS = {
    "lookup": (2, 12, 64, 48, 0.2, 0.55),
    "support": (4, 24, 128, 64, 0.3, 0.30),
    "research": (10, 60, 256, 128, 0.5, 0.15),
}

ORDERS = {
    "vllm_fcfs": [],
    "vllm_priority": ["--scheduling-policy", "priority"],
    "takt": ["--scheduler-cls", "takt.vllm.TaktScheduler"],
}


def make_model(path: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(path)
    alphabet = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    alphabet += [f"w{i}" for i in range(VOCABULARY - len(alphabet))]
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(path)


class Server:
    def __init__(self, model: Path, name: str, arguments: list[str], log: Path, common: list[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.name = name
        self.url = f"http://127.0.0.1:{self.port}"
        environment = dict(
            os.environ, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", VLLM_CPU_KVCACHE_SPACE="1",
            OMP_NUM_THREADS="1", VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_LOGGING_LEVEL="WARNING",
            PROMETHEUS_MULTIPROC_DIR=tempfile.mkdtemp(prefix="metrics-"),
        )  # fmt: skip
        self.log = log.open("w")
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("vllm")), "serve", str(model), "--served-model-name", "tiny", "--port",
             str(self.port), "--host", "127.0.0.1", *common, *arguments],
            stdout=self.log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip

    async def ready(self, session, seconds: float = 1200) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"{self.name}: vllm serve has ended; see its log")
            try:
                async with session.get(self.url + "/health") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            except Exception as error:  # the client's own errors are no OSError
                if type(error).__module__.split(".")[0] != "aiohttp":
                    raise
            await asyncio.sleep(1)
        raise RuntimeError(f"{self.name}: not ready after {seconds} s")

    @classmethod
    def at(cls, name: str, port: int) -> Server:
        """One that is up already, and stays."""
        server = cls.__new__(cls)
        server.name, server.port, server.url, server.process = name, port, f"http://127.0.0.1:{port}", None
        return server

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def draw(n: int, seed: int, rate: float) -> list[dict]:
    rng = random.Random(seed)
    names = list(AGENTS)
    at, workflows = 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        agent = rng.choices(names, [AGENTS[name][5] for name in names])[0]
        workflows.append({"id": f"{seed}-{i}", "agent": agent, "at": at, "seed": rng.randrange(2**31)})
    return workflows


def stops(mean: float) -> list[int]:
    """Tokens at which an output ends: of near-uniform ones it has this mean length."""
    return list(range(16, 16 + max(1, round(VOCABULARY / mean))))


async def call(session, server: Server, body: dict) -> tuple[float, list[int], int]:
    """Time to the first token [s], tokens, output tokens."""
    began = time.monotonic()
    first, tokens = None, []
    async with session.post(server.url + "/v1/completions", json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"{server.name}: {answer.status} {await answer.text()}")
        async for line in answer.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            told = json.loads(line[6:])
            if "choices" not in told:
                raise RuntimeError(f"{server.name}: {told}")
            choice = told["choices"]
            if not choice:
                continue
            got = choice[0].get("token_ids") or []
            if got and first is None:
                first = time.monotonic() - began
            tokens += got
    return first if first is not None else time.monotonic() - began, tokens, len(tokens)


def body_of(prompt: list[int], **more) -> dict:
    return {
        "model": "tiny", "prompt": prompt, "max_tokens": MOST, "stream": True, "return_token_ids": True,
        "detokenize": False, **more,
    }  # fmt: skip


async def workflow(session, server: Server, told: dict, begun: float, out: dict) -> None:
    calls, mean, first_prompt, adds, pause, _ = AGENTS[told["agent"]]
    rng = random.Random(told["seed"])
    await asyncio.sleep(max(0.0, begun + told["at"] - time.monotonic()))
    arrived = time.monotonic()
    n = max(1, calls + rng.randint(-calls // 4, calls // 4))
    prompt = [rng.randrange(300, VOCABULARY) for _ in range(first_prompt)]
    for i in range(n):
        body = body_of(
            list(prompt),
            temperature=1.0,
            seed=told["seed"] % 2**20 + i,
            ignore_eos=True,
            stop_token_ids=stops(mean),
            vllm_xargs={"takt_workflow": told["id"], "takt_agent": told["agent"], "takt_last": str(int(i == n - 1))},
        )
        if server.name == "vllm_priority":
            body["priority"] = int(1000 * told["at"])
        ttft, tokens, count = await call(session, server, body)
        out["ttft"].append(ttft)
        out["tokens"] += count
        prompt += tokens + [rng.randrange(300, VOCABULARY) for _ in range(adds)]
        if i + 1 < n:
            await asyncio.sleep(rng.expovariate(1 / pause))
    out["latency"].append((told["agent"], time.monotonic() - arrived))


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


async def run(session, server: Server, workflows: list[dict]) -> dict:
    out: dict = {"ttft": [], "tokens": 0, "latency": []}
    begun = time.monotonic()
    await asyncio.gather(*(workflow(session, server, told, begun, out) for told in workflows))
    took = time.monotonic() - begun
    latency = [seconds for _, seconds in out["latency"]]
    return {
        "order": server.name,
        "mean_workflow_s": round(statistics.fmean(latency), 3),
        "p95_workflow_s": round(quantile(latency, 0.95), 3),
        "ttft_s": round(statistics.fmean(out["ttft"]), 3),
        "ttft_p95_s": round(quantile(out["ttft"], 0.95), 3),
        "tokens_per_s": round(out["tokens"] / took, 1),
        "tokens": out["tokens"],
        "seconds": round(took, 1),
        "by_agent_s": {
            agent: round(statistics.fmean([s for a, s in out["latency"] if a == agent] or [0.0]), 3) for agent in AGENTS
        },
    }


async def same_outputs(session, servers: list[Server], n: int = 24) -> bool:
    """At temperature 0, one at a time and all at once."""
    rng = random.Random(5)
    prompts = [[rng.randrange(300, VOCABULARY) for _ in range(rng.randint(20, 200))] for _ in range(n)]
    answers = []
    for server in servers:
        bodies = [body_of(p, temperature=0.0, ignore_eos=True) | {"max_tokens": 24} for p in prompts]
        answers.append([tokens for _, tokens, _ in await asyncio.gather(*(call(session, server, b) for b in bodies))])
    return all(each == answers[0] for each in answers[1:])


async def main_async(options) -> dict:
    import aiohttp

    with tempfile.TemporaryDirectory(prefix="takt-vllm-") as folder:
        model = Path(folder) / "model"
        make_model(model)
        common = [
            "--enforce-eager", "--dtype", "float32", "--max-num-seqs", str(options.max_num_seqs),
            "--max-num-batched-tokens", "8192", "--max-model-len", "8192", "--stream-interval", "16",
            "--no-enable-chunked-prefill",  # vLLM 0.32 on a CPU fails on a chunk of a request that has a seed
            "--no-enable-log-requests", "--disable-uvicorn-access-log",
        ]  # fmt: skip
        logs = Path(options.logs or folder)
        names = options.orders.split(",")
        timeout = aiohttp.ClientTimeout(total=None, sock_read=900)
        servers: list[Server] = []
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            try:
                up = dict(each.split("=") for each in options.attach.split(",")) if options.attach else {}
                for name in names:
                    if name in up:
                        servers.append(Server.at(name, int(up[name])))
                        continue
                    servers.append(Server(model, name, ORDERS[name], logs / f"{name}.log", common))
                await asyncio.gather(*(server.ready(session) for server in servers))
                result: dict = {"same_outputs": await same_outputs(session, servers), "runs": []}
                for server in servers:  # warm
                    await run(session, server, draw(10, 999, options.rate))
                for i in range(options.runs):
                    for server in servers[i % len(servers) :] + servers[: i % len(servers)]:
                        row = await run(session, server, draw(options.workflows, 100 + i, options.rate))
                        row["seed"] = 100 + i
                        result["runs"].append(row)
                        print(json.dumps(row), flush=True)
                        if options.json:
                            Path(options.json).write_text(json.dumps(result, indent=1))
                async with session.get(servers[-1].url + "/metrics") as answer:
                    text = await answer.text()
                    result["metrics"] = [line for line in text.splitlines() if line.startswith("takt_")]
                return result
            finally:
                for server in servers:
                    server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="of each order")
    parser.add_argument("--workflows", type=int, default=40)
    parser.add_argument("--rate", type=float, default=4.0, help="workflows that arrive in a second")
    parser.add_argument("--max-num-seqs", type=int, default=8)
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--attach", default="", help="servers that are up: order=port,...")
    parser.add_argument("--logs", help="folder for what the servers say")
    parser.add_argument("--json", help="file for the result")
    options = parser.parse_args()
    result = asyncio.run(main_async(options))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
