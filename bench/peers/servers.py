"""Real `vllm serve` processes on a CPU with a model of random weights made on the spot, and a client of theirs."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

VOCABULARY = 2048
TEXT = 300  # prompts use ids from here on


class Failed(Exception):
    """A failure: one line of text, with the path of its log."""


def make_model(path: Path, positions: int, width: int = 64, layers: int = 2) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=width // 32,
        num_key_value_heads=width // 32, head_dim=32, max_position_embeddings=positions, bos_token_id=1, eos_token_id=2,
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


def _die_with_parent() -> None:
    """Ends a server when its client is killed (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        pass


class Server:
    """A `vllm serve` in its own process group."""

    def __init__(self, model: Path, name: str, arguments: list[str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.name = name
        self.url = f"http://127.0.0.1:{self.port}"
        environment = dict(
            os.environ, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", VLLM_CPU_KVCACHE_SPACE="1",
            OMP_NUM_THREADS="1", VLLM_HTTP_TIMEOUT_KEEP_ALIVE="3600", VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_LOGGING_LEVEL="WARNING",
            PROMETHEUS_MULTIPROC_DIR=tempfile.mkdtemp(prefix="metrics-", dir=model.parent),
        )  # fmt: skip
        self.path = log
        self.log = log.open("w")
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("vllm")), "serve", str(model), "--served-model-name", "tiny", "--port",
             str(self.port), "--host", "127.0.0.1", "--enforce-eager", "--dtype", "float32", "--no-enable-log-requests",
             "--disable-uvicorn-access-log", *arguments],
            stdout=self.log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
            preexec_fn=_die_with_parent,
        )  # fmt: skip

    async def ready(self, session: Any, seconds: float = 900) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Failed(f"{self.name}: vllm serve has ended with {self.process.returncode}; see {self.path}")
            try:
                async with session.get(self.url + "/health") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            except Exception as error:  # the client's own errors are not OSErrors
                if type(error).__module__.split(".")[0] != "aiohttp":
                    raise
            await asyncio.sleep(1)
        raise Failed(f"{self.name}: not ready after {seconds:.0f} s; see {self.path}")

    async def metrics(self, session: Any) -> dict[str, float]:
        """Returns its counters, summed over their labels."""
        async with session.get(self.url + "/metrics") as answer:
            text = await answer.text()
        found: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith("#") or " " not in line:
                continue
            name, value = line.rsplit(" ", 1)
            name = name.split("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def terminate(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()

    def stop(self) -> None:
        """Ends the whole process group, because the engine is a process of its own."""
        self.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()


@asynccontextmanager
async def serving(orders: dict[str, list[str]], logs: str | None, positions: int):
    """Starts a server for each order, and a client's session."""
    import aiohttp

    with tempfile.TemporaryDirectory(prefix="takt-vllm-", ignore_cleanup_errors=True) as folder:
        model = Path(folder) / "model"
        make_model(model, positions)
        servers: list[Server] = []
        timeout = aiohttp.ClientTimeout(total=None, sock_read=900)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            try:
                for name, arguments in orders.items():
                    servers.append(Server(model, name, arguments, Path(logs or folder) / f"{name}.log"))
                await asyncio.gather(*(server.ready(session) for server in servers))
                yield session, servers
            finally:
                for server in servers:
                    server.terminate()
                for server in servers:
                    server.stop()


def body_of(prompt: list[int], most: int, **more: Any) -> dict:
    return {
        "model": "tiny", "prompt": prompt, "max_tokens": most, "stream": True, "return_token_ids": True,
        "detokenize": False, **more,
    }  # fmt: skip


async def call(session: Any, server: Server, body: dict) -> tuple[float, list[int]]:
    """Returns the time to the first token [s], and the tokens."""
    import aiohttp

    try:
        return await _call(session, server, body)
    except aiohttp.ClientError as why:
        raise Failed(f"{server.name}: {type(why).__name__}: {why}; see {server.path}") from None


async def _call(session: Any, server: Server, body: dict) -> tuple[float, list[int]]:
    began = time.monotonic()
    first, tokens = None, []
    async with session.post(server.url + "/v1/completions", json=body) as answer:
        if answer.status != 200:
            raise Failed(f"{server.name}: {answer.status} {await answer.text()}; see {server.path}")
        async for line in answer.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            told = json.loads(line[6:])
            if "choices" not in told:
                raise Failed(f"{server.name}: {told}; see {server.path}")
            choice = told["choices"]
            if not choice:
                continue
            got = choice[0].get("token_ids") or []
            if got and first is None:
                first = time.monotonic() - began
            tokens += got
    return first if first is not None else time.monotonic() - began, tokens


def digest(tokens: list[int]) -> str:
    return hashlib.sha256(str(tokens).encode()).hexdigest()[:16]


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def until_stopped(main: Any, file: str | None = None) -> Any:
    """Returns the result of a coroutine, and writes it to `file`. Ctrl-C and TERM end the servers, print one line, and exit with 130."""

    async def guarded() -> Any:
        task = asyncio.ensure_future(main)
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, task.cancel)
        return await task

    try:
        result = asyncio.run(guarded())
        if file:
            Path(file).write_text(json.dumps(result, indent=1))
        return result
    except asyncio.CancelledError:
        print("stopped; the servers have ended", file=sys.stderr, flush=True)
        raise SystemExit(130) from None
    except Failed as why:
        print(why, file=sys.stderr, flush=True)
        raise SystemExit(1) from None
