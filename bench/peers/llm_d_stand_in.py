"""Simulates engines: a number of concurrent requests, a time per token, and vLLM's names of metrics. Replaces
llm-d-inference-sim on machines that do not build it (bench/peers/peer-llm-d --stand-in).

    python stand_in.py MODEL LANES PORT=MILLISECONDS ...
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import web


class Engine:
    def __init__(self, model: str, lanes: int, token_s: float) -> None:
        self.model, self.token_s = model, token_s
        self.lanes = asyncio.Semaphore(lanes)
        self.waiting = self.running = 0

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt, tokens = len(str(body.get("prompt", ""))) // 4, int(body.get("max_tokens", 16))
        self.waiting += 1
        try:
            await self.lanes.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self.generate(request, body, prompt, tokens)
        finally:
            self.running -= 1
            self.lanes.release()

    async def generate(self, request: web.Request, body: dict, prompt: int, tokens: int) -> web.StreamResponse:
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
        head = {"id": "x", "object": "text_completion", "model": self.model}
        if not body.get("stream"):
            await asyncio.sleep((tokens + 1) * self.token_s)
            choice = {"index": 0, "text": "a " * tokens, "finish_reason": "length"}
            return web.json_response({**head, "choices": [choice], "usage": usage})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        clock = asyncio.get_running_loop().time
        due = clock() + self.token_s
        for _ in range(tokens):
            due += self.token_s
            await asyncio.sleep(max(0.0, due - clock()))
            told = {**head, "choices": [{"index": 0, "text": "a ", "finish_reason": None}]}
            await answer.write(b"data: " + json.dumps(told).encode() + b"\n\n")
        await answer.write(b"data: " + json.dumps({**head, "choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
        return answer

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model, "object": "model"}]})

    async def metrics(self, _: web.Request) -> web.Response:
        label = f'{{model_name="{self.model}"}}'
        return web.Response(
            text="".join(
                f"# TYPE {name} gauge\n{name}{label} {value}\n"
                for name, value in (
                    ("vllm:num_requests_waiting", self.waiting),
                    ("vllm:num_requests_running", self.running),
                    ("vllm:kv_cache_usage_perc", 0.0),
                )
            )
        )


async def main(model: str, lanes: str, *ports: str) -> None:
    runners = []
    for told in ports:
        port, milliseconds = told.split("=")
        engine = Engine(model, int(lanes), float(milliseconds) / 1e3)
        app = web.Application()
        app.add_routes([web.post("/v1/completions", engine.completions), web.get("/v1/models", engine.models),
                        web.get("/metrics", engine.metrics)])  # fmt: skip
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", int(port)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        pass
