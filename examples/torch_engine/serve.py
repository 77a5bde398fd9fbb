"""An OpenAI-compatible front: python serve.py, then curl localhost:8000/v1/completions -d '{"prompt": "Hi"}'"""
import argparse
import itertools
import json
import queue
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import takt
import torch

from engine import Engine
from kv import Sequence
from model import SIZES, Llama

inbox = queue.SimpleQueue()  # functions that the engine's thread calls between two steps

class Handler(BaseHTTPRequestHandler):
    ids, log_message = itertools.count(1), lambda *_: None

    def do_GET(self) -> None:
        self.answer(200, {"object": "list", "data": [{"id": "torch_engine", "object": "model"}]})

    def do_POST(self) -> None:
        results, begun, end = queue.SimpleQueue(), False, None
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/completions" or body.get("temperature", 0) or body.get("n", 1) != 1:
                raise ValueError("request: is unsupported; expected greedy sampling of one answer on /v1/completions")
            prompt, stream = body["prompt"], body.get("stream", False)
            tokens = list(prompt.encode()) if isinstance(prompt, str) else prompt
            sequence = Sequence(next(self.ids), tokens, body.get("max_tokens", 16), lambda *r: results.put(r))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self.answer(400, {"error": {"message": str(error)}})
        inbox.put(lambda engine: submit(engine, sequence))
        try:
            while end is None:
                token, end = results.get()
                if stream and token is not None:
                    begun = begun or self.begin(200, "text/event-stream")
                    self.event(completion(sequence, [token], end))
            if end != "length":
                error = {"error": {"message": str(end)}}
                self.event(error) if begun else self.answer(400 if isinstance(end, Exception) else 503, error)
            elif stream:
                self.wfile.write(b"data: [DONE]\n\n")
            else:
                self.answer(200, completion(sequence, sequence.output, end))
        except OSError:  # the client has left
            inbox.put(lambda engine: engine.takt.cancel(sequence.id))

    def event(self, content: dict) -> None:
        self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())

    def answer(self, status: int, content: dict) -> None:
        self.begin(status, "application/json")
        self.wfile.write(json.dumps(content).encode())

    def begin(self, status: int, kind: str) -> bool:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        return True

def completion(sequence: Sequence, tokens: list[int], end: str | None) -> dict:
    text = bytes(token % 256 for token in tokens).decode(errors="replace")  # a byte is a token
    return {"id": f"cmpl-{sequence.id}", "object": "text_completion", "model": "torch_engine",
            "usage": {"prompt_tokens": sequence.prompt_tokens, "completion_tokens": len(sequence.output)},
            "choices": [{"index": 0, "text": text, "token_ids": tokens, "finish_reason": end}]}

def submit(engine: Engine, sequence: Sequence) -> None:
    try:
        engine.submit(sequence)
    except (ValueError, TypeError, takt.TaktError) as error:
        sequence.on_token(None, error)

def run(engine: Engine) -> None:
    wait = 0.0
    while True:
        try:
            while True:
                inbox.get(wait > 0, wait)(engine)
                wait = 0
        except queue.Empty:
            idle = engine.step() is None
            wait = min(max(engine.wake_at - time.monotonic_ns(), 0) / 1e9, 60) if idle else 0

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", choices=SIZES, default="tiny", help="make random weights of this size [tiny]")
    options.add_argument("--policy", help="rank requests by this policy of takt")
    options.add_argument("--kv-blocks", type=int, default=4096, help="set the KV memory, in blocks of 16 tokens [4096]")
    options.add_argument("--no-prefix-cache", action="store_true", help="compute each prompt whole")
    options.add_argument("--port", type=int, default=8000, help="listen on this port of localhost [8000]")
    o, gpu = options.parse_args(), torch.cuda.is_available()
    kind = dict(dtype=torch.bfloat16, device="cuda", compiled=True) if gpu else {}
    engine = Engine(Llama.random(SIZES[o.size], **kind), blocks=o.kv_blocks, policy=o.policy, graphs=gpu,
                    prefix_cache=not o.no_prefix_cache)
    server = ThreadingHTTPServer(("localhost", o.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"serving on http://localhost:{server.server_port}/v1", flush=True)
    try:
        run(engine)
    except KeyboardInterrupt:
        for sequence in engine.sequences.values():
            sequence.on_token(None, "shutdown")  # their clients get an error
