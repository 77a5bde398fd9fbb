"""Runs `llama-server` and `llama_host` with the same library, model and limits, and provides clients for them."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gguf_model import TEXT, VOCABULARY
from servers import Failed, Server, _die_with_parent


class Llama(Server):
    """One of the two servers. `llama`: installation prefix of the library. `takt`: folder of llama_host."""

    def __init__(self, name: str, command: list[object], log: Path) -> None:
        self.name = name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.path, self.log = log, log.open("w")
        words = [str(word).replace("PORT", str(self.port)) for word in command]
        self.process = subprocess.Popen(
            words, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_die_with_parent,
            env=dict(os.environ, OMP_WAIT_POLICY="passive"),
        )  # fmt: skip

    def resident(self) -> int:
        """Bytes of memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Kit:
    """Paths of the two programs, and their common limits."""

    def __init__(self, llama: Path, host: Path, logs: Path) -> None:
        self.llama, self.host, self.logs = llama, host, logs

    def llama_server(self, name: str, model: Path, slots: int, cells: int, batch: int, *more: object) -> Llama:
        command = [
            self.llama / "bin" / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", "PORT", "-np", slots, "-c", cells,
            "-b", batch, "-ub", batch, "-t", 1, "-tb", 1, "--threads-http", 64, "--kv-unified", "--no-warmup", "--log-verbosity", 1, *more,
        ]  # fmt: skip
        return Llama(name, command, self.logs / f"{name}.log")

    def llama_host(self, name: str, model: Path, slots: int, cells: int, batch: int, *more: object) -> Llama:
        command = [
            self.host, "--serve", "PORT", "--model", model, "--max-seqs", slots, "--cells", cells, "--token-budget", batch,
            "--ubatch", batch, "--threads", 1, *more,
        ]  # fmt: skip
        return Llama(name, command, self.logs / f"{name}.log")


@asynccontextmanager
async def running(*servers: Llama):
    """A client's session, while the servers are up."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_read=900)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:
        try:
            await asyncio.gather(*(server.ready(session) for server in servers))
            yield session
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.stop()


class Refused(Exception):
    """An answer that is an error: its status and text."""


async def complete(session: Any, server: Llama, prompt: list[int], most: int, headers: dict | None = None) -> tuple[float, list[int], float]:
    """Time to the first token [s], the tokens, and when the last one came."""
    began = time.monotonic()
    ours = server.name.startswith("takt")
    if ours:
        url, body = "/v1/completions", {"prompt": prompt, "max_tokens": most, "stream": True, "return_token_ids": True}
    else:
        url, body = "/completion", {"prompt": prompt, "n_predict": most, "stream": True, "temperature": 0.0, "return_tokens": True, "top_k": 1}
    first, tokens, done = None, [], False
    async with session.post(server.url + url, json=body, headers=headers or {}) as answer:
        if answer.status != 200:
            raise Refused(answer.status, await answer.text())
        async for line in answer.content:
            if not line.startswith(b"data: "):
                if line.startswith(b"error: "):
                    raise Refused(200, line.decode())
                continue
            if line.startswith(b"data: [DONE]"):
                done = True
                continue
            told = json.loads(line[6:])
            if "error" in told:
                raise Refused(200, json.dumps(told["error"]))
            got = told["choices"][0].get("token_ids", []) if ours else ([] if told.get("stop") else told["tokens"])
            if not ours and told.get("stop"):
                done = True
                if told["tokens_predicted"] != len(tokens) and told["stop_type"] != "eos":
                    raise Failed(f"{server.name}: {len(tokens)} of {told['tokens_predicted']} tokens came")
            if got and first is None:
                first = time.monotonic() - began
            tokens += got
    if not done:
        raise Refused(200, "the stream ended early")
    end = time.monotonic()
    return first if first is not None else end - began, tokens, end


class Alone:
    """`llama-server` with one slot and one request at a time: the output of a request alone."""

    def __init__(self, server: Llama) -> None:
        self._port = server.port

    def ask(self, prompt: list[int], most: int) -> list[int]:
        return self._told(prompt, most)["tokens"]

    def gap(self, context: list[int]) -> float | None:
        """Returns by how much the next token's logit exceeds the second best; None: the server does not report it."""
        told = self._told(context, 1, n_probs=2).get("completion_probabilities")
        if not told:
            return None
        best, second = told[0]["top_logprobs"]
        return best["logprob"] - second["logprob"]

    def _told(self, prompt: list[int], most: int, **more: object) -> dict:
        body = {"prompt": prompt, "n_predict": most, "temperature": 0.0, "cache_prompt": False, "return_tokens": True, **more}
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)  # the server ends those that are idle
        line.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = line.getresponse()
        text = answer.read()
        line.close()
        if answer.status != 200:
            raise Failed(f"llama-server: {answer.status} {text.decode()}")
        return json.loads(text)


def drawn(rng: Any, n: int) -> list[int]:
    return [rng.randrange(TEXT, VOCABULARY) for _ in range(n)]
