"""An OpenAI-compatible front: python serve.py, then curl localhost:8000/v1/completions -d '{"prompt": "Hi"}'"""
import argparse
import itertools
import json
import queue
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Optional

import takt
import torch

from engine import Engine
from kv import Sequence
from model import SIZES, Llama


class Service:
    """The engine on a thread of its own. Other threads pass it functions to run between two steps."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.inbox, self.stopped = engine, queue.SimpleQueue(), False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        busy = False
        while not self.stopped:
            wait = 0 if busy else min(max(self.engine.wake_at - time.monotonic_ns(), 0) / 1e9, 60)
            try:
                while True:
                    self.inbox.get(wait > 0, wait)()
                    wait = 0
            except queue.Empty:
                busy = self.engine.step() is not None
        for sequence in self.engine.sequences.values():
            sequence.on_token(None, "shutdown")  # their clients get an error

    def stop(self) -> None:
        self.inbox.put(lambda: setattr(self, "stopped", True))
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    service, ids = None, itertools.count(1)

    def do_GET(self) -> None:
        self.answer(200, {"object": "list", "data": [{"id": "torch_engine", "object": "model"}]})

    def do_POST(self) -> None:
        results = queue.SimpleQueue()
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/completions" or body.get("temperature", 0) or body.get("n", 1) != 1:
                raise ValueError("request: is unsupported; expected greedy sampling of one answer on /v1/completions")
            prompt, stream = body["prompt"], body.get("stream", False)
            tokens = list(prompt.encode()) if isinstance(prompt, str) else prompt
            sequence = Sequence(next(self.ids), tokens, body.get("max_tokens", 16), lambda *r: results.put(r))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self.answer(400, {"error": {"message": str(error), "type": "invalid_request_error"}})
        self.service.inbox.put(lambda: self.submit(sequence, results))
        count, end = 0, None
        try:
            while end is None:
                token, end = results.get()
                count += token is not None
                if stream and token is not None:
                    if count == 1:
                        self.begin(200, "text/event-stream")
                    self.event(json.dumps(self.completion(sequence, [token], end)))
            if end not in ("stop", "length"):
                error = {"error": {"message": end, "type": "server_error"}}
                self.event(json.dumps(error)) if stream and count else self.answer(503, error)
            else:
                self.event("[DONE]") if stream else self.answer(200, self.completion(sequence, sequence.output, end))
        except OSError:  # the client has left
            self.service.inbox.put(lambda: self.service.engine.cancel(sequence.id))

    def submit(self, sequence: Sequence, results: queue.SimpleQueue) -> None:
        try:
            self.service.engine.submit(sequence)
        except (ValueError, TypeError, takt.TaktError) as error:
            results.put((None, str(error)))

    def completion(self, sequence: Sequence, tokens: list[int], end: Optional[str]) -> dict:
        text = bytes(token % 256 for token in tokens).decode(errors="replace")  # a byte is a token
        usage = {"prompt_tokens": sequence.prompt_tokens, "completion_tokens": len(sequence.output)}
        return {"id": f"cmpl-{sequence.id}", "object": "text_completion", "model": "torch_engine", "usage": usage,
                "choices": [{"index": 0, "text": text, "token_ids": tokens, "finish_reason": end}]}

    def event(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())

    def answer(self, status: int, content: dict) -> None:
        self.begin(status, "application/json")
        self.wfile.write(json.dumps(content).encode())

    def begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--weights", type=Path, help="load a Llama from this folder")
    options.add_argument("--size", choices=SIZES, default="tiny", help="make random weights of this size [tiny]")
    options.add_argument("--policy", help="rank requests by this policy of takt")
    options.add_argument("--kv-blocks", type=int, default=4096, help="set the KV memory, in blocks of 16 tokens [4096]")
    options.add_argument("--port", type=int, default=8000, help="listen on this port of localhost [8000]")
    o = options.parse_args()
    gpu = torch.cuda.is_available()
    kind = dict(dtype=torch.bfloat16 if gpu else torch.float32, device="cuda" if gpu else "cpu", compiled=gpu)
    model = Llama.load(o.weights, **kind) if o.weights else Llama.random(SIZES[o.size], **kind)
    service = Handler.service = Service(Engine(model, blocks=o.kv_blocks, policy=o.policy, graphs=gpu))
    server = ThreadingHTTPServer(("localhost", o.port), Handler)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"serving on http://localhost:{server.server_port}/v1", flush=True)
    server.serve_forever()
    service.stop()
    server.server_close()


if __name__ == "__main__":
    main()
