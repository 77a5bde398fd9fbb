"""Workflows of agents through Envoy, the router and six unequal engines; and the same under faults.

    python compare.py --programs FILE --folder FOLDER --runs 5 --seconds 25 --json FILE

The load is relative to what the engines can generate, which is measured before each round. Each profile's router is up all
the time, and the runs take turns; only the one that is measured runs. A call asks for exactly so many tokens as its agent's
distribution gives; takt is not shown that number (useMaxTokens: false), and has to learn lengths from the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings" / "python" / "peer"))

import serve  # noqa: E402
from servers import quantile, until_stopped  # noqa: E402

from stack import LANES, MODEL, PROFILES, REAL, SIMULATED, Failed, Stack  # noqa: E402

# As in serve.py, and shorter: agent: calls, mean output, tokens of the first prompt, tokens that a tool adds, mean pause of the
# tool [s], share.
AGENTS = {
    "lookup": (2, 8, 64, 48, 0.2, 0.55),
    "support": (4, 12, 128, 64, 0.3, 0.30),
    "research": (8, 24, 256, 128, 0.4, 0.15),
}
serve.AGENTS.clear()
serve.AGENTS.update(AGENTS)
draw, tokens_of_a_workflow, MOST = serve.draw, serve.tokens_of_a_workflow, serve.MOST
COMPARED = ("default", "prefix_load", "program_aware", "takt")


class Lost(Exception):
    """A call that did not come to its end."""

    def __init__(self, begun: bool, what: str) -> None:
        super().__init__(what)
        self.begun = begun  # its answer had begun


async def call(session, url: str, body: dict, headers: dict[str, str]) -> tuple[float, int, int]:
    """Time to the first token [s], tokens of the answer, and of the prompt."""
    import aiohttp

    began, first, tokens, prompt, whole = time.monotonic(), None, 0, 0, False
    try:
        async with session.post(url + "/v1/completions", json=body, headers=headers) as answer:
            if answer.status != 200:
                raise Lost(False, f"{answer.status} {(await answer.text())[:120]}")
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                if line.startswith(b"data: [DONE]"):
                    whole = True
                    continue
                told = json.loads(line[6:])
                if "error" in told:
                    raise Lost(first is not None, str(told["error"])[:120])
                if first is None and told.get("choices"):
                    first = time.monotonic() - began
                if told.get("usage"):
                    tokens, prompt = told["usage"]["completion_tokens"], told["usage"]["prompt_tokens"]
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, json.JSONDecodeError) as why:
        raise Lost(first is not None, f"{type(why).__name__}: {why}"[:120]) from None
    if not whole:
        raise Lost(first is not None, "the stream has no end")
    return first if first is not None else time.monotonic() - began, tokens, prompt


def words(rng: random.Random, n: int) -> str:
    return " ".join(rng.choice(("tool", "plan", "read", "file", "answer", "step", "list")) for _ in range(n))


async def workflow(session, url: str, told: dict, begun: float, out: dict) -> None:
    calls, mean, first_prompt, adds, pause, _ = AGENTS[told["agent"]]
    rng = random.Random(told["seed"])
    await asyncio.sleep(max(0.0, begun + told["at"] - time.monotonic()))
    arrived = time.monotonic()
    n = max(1, calls + rng.randint(-calls // 4, calls // 4))
    prompt, slo = words(rng, first_prompt // 4), 0.0
    for i in range(n):
        tokens = min(MOST, 1 + int(rng.expovariate(1 / mean)))
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}  # fmt: skip
        headers = {"X-Takt-Workflow": told["id"], "X-Takt-Agent": told["agent"], "X-Takt-Last": str(int(i == n - 1)),
                   "x-llm-d-inference-fairness-id": told["id"]}  # fmt: skip
        wait = rng.expovariate(1 / pause) if i + 1 < n else 0.0
        prompt += " " + words(rng, (tokens + adds) // 4)
        out["sent"] += 1
        try:
            ttft, got, _ = await call(session, url, body, headers)
        except Lost as why:
            out["errors"].append(str(why))
            out["begun" if why.begun else "lost"] += 1
            return  # a program that has no answer cannot go on
        out["ttft"].append(ttft)
        out["tokens"] += got
        slo += wait + 0.5 + 0.15 * tokens
        await asyncio.sleep(wait)
    latency = time.monotonic() - arrived
    out["latency"].append((told["agent"], latency))
    out["good"] += latency <= slo


async def run(session, stack: Stack, profile: str, workflows: list[dict], seconds: float = 120.0) -> dict:
    """`goodput`: workflows a second that ended within what an engine of middling speed takes alone, twice over (half a
    second a call, 150 ms a token, and the pauses)."""
    out: dict = {"ttft": [], "tokens": 0, "latency": [], "good": 0, "sent": 0, "errors": [], "lost": 0, "begun": 0}
    begun = time.monotonic()
    tasks = [asyncio.ensure_future(workflow(session, stack.url(profile), told, begun, out)) for told in workflows]
    try:
        _, late = await asyncio.wait(tasks, timeout=workflows[-1]["at"] + seconds)
    finally:
        for task in tasks:
            task.cancel()
    took = time.monotonic() - begun
    if late:
        out["errors"].append(f"{len(late)} workflows had no end after {took:.0f} s")
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception():
            raise task.exception()  # a fault of this program's
    latency = [s for _, s in out["latency"]] or [float("nan")]
    return {
        "profile": profile,
        "mean_workflow_s": round(statistics.fmean(latency), 3),
        "p95_workflow_s": round(quantile(latency, 0.95), 3),
        "ttft_s": round(statistics.fmean(out["ttft"] or [float("nan")]), 3),
        "ttft_p95_s": round(quantile(out["ttft"] or [float("nan")], 0.95), 3),
        "goodput": round(out["good"] / took, 3),
        "workflows": len(out["latency"]),
        "calls": out["sent"],
        "seconds": round(took, 1),
        "tokens": out["tokens"],
        "lost": out["lost"],
        "errors": out["errors"],
        "begun": out["begun"],
        "unended": len(late),
        "by_agent_s": {a: round(statistics.fmean([s for b, s in out["latency"] if a == b] or [0.0]), 3) for a in AGENTS},
    }


async def capacity(session, stack: Stack, seconds: float = 4.0) -> float:
    """Tokens a second that the engines generate, each asked directly by so many clients as it has lanes."""
    got = 0
    end = time.monotonic() + seconds

    async def client(name: str, i: int) -> None:
        nonlocal got
        rng = random.Random(f"{name}{i}")
        while time.monotonic() < end:
            n = 1 + int(rng.expovariate(1 / 30))
            body = {"model": MODEL, "prompt": words(rng, 50), "max_tokens": min(n, MOST), "ignore_eos": True, "stream": True,
                    "stream_options": {"include_usage": True}}  # fmt: skip
            began = time.monotonic()
            _, tokens, _ = await call(session, f"http://127.0.0.1:{stack.ports[name]}", body, {})
            took = time.monotonic() - began
            got += tokens * min(1.0, max(0.0, end - began) / took)

    lanes = {**{name: LANES for name in SIMULATED}, **{name: REAL[name][1] for name in REAL}}
    await asyncio.gather(*(client(name, i) for name, n in lanes.items() for i in range(n)))
    return got / seconds


async def compare(session, stack: Stack, options, result: dict) -> None:
    profiles = [name for name in options.profiles.split(",") if name]
    stack.only(profiles[0])
    rate = 0.9 * await capacity(session, stack) / tokens_of_a_workflow()
    for profile in profiles:  # warm
        stack.only(profile)
        await asyncio.sleep(0.5)
        await run(session, stack, profile, draw(max(8, int(rate * 3)), 999, rate))
    for i in range(options.runs):
        stack.only(profiles[0])
        tokens = await capacity(session, stack)
        print(json.dumps({"round": i, "tokens_per_s": round(tokens, 1), "machine_load": os.getloadavg()[0]}), flush=True)
        for load in options.loads:
            rate = load * tokens / tokens_of_a_workflow()
            workflows = draw(max(10, int(rate * options.seconds)), 100 + i, rate)
            for profile in profiles[i % len(profiles) :] + profiles[: i % len(profiles)]:
                stack.only(profile)
                await asyncio.sleep(0.7)  # its metrics are of now again
                row = await run(session, stack, profile, workflows)
                stack.check()
                result["runs"].append({**row, "load": load, "seed": 100 + i, "machine_load": os.getloadavg()[0]})
                print(json.dumps(result["runs"][-1]), flush=True)
                save(options, result)


# ---- faults ---------------------------------------------------------------------------------------------------------


async def faults(session, stack: Stack, options, result: dict) -> None:
    """What happens to calls while something goes wrong. `lost` are those whose answer had not begun and that got neither an
    answer nor an error; `errors` those that got a clear error, or an answer that was cut off."""
    everybody = [*SIMULATED, *REAL]

    async def kill(name: str) -> None:
        stack.running[name].signal(signal.SIGKILL)
        await asyncio.sleep(1.5)
        stack.write_endpoints([each for each in everybody if each != name])
        await asyncio.sleep(2)
        stack.start_engine(name)
        await stack.answers(session, name, f"http://127.0.0.1:{stack.ports[name]}/v1/models")
        stack.write_endpoints(everybody)

    async def freeze(name: str, seconds: float) -> None:
        """It takes connections, and answers neither them nor whoever asks for its metrics."""
        stack.running[name].signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        stack.running[name].signal(signal.SIGCONT)

    async def slow(name: str) -> None:
        for _ in range(20):
            await freeze(name, 0.3)
            await asyncio.sleep(0.1)

    async def come_and_go() -> None:
        rng = random.Random(3)
        for _ in range(12):
            stack.write_endpoints(rng.sample(everybody, rng.randint(2, len(everybody))))
            await asyncio.sleep(0.5)
        stack.write_endpoints(everybody)

    async def restart(profile: str) -> None:
        stack.running[f"router-{profile}"].signal(signal.SIGKILL)
        await asyncio.sleep(1)
        stack.running[f"router-{profile}"].process.wait()
        await stack.start_router(session, profile)

    for profile in ("takt", "takt_fair"):
        if profile not in stack.profiles:
            continue
        stack.only(profile)
        tokens = await capacity(session, stack)
        rate = 0.9 * tokens / tokens_of_a_workflow()
        for what, action in (
            ("backend killed in mid-stream, its endpoint removed, then back", lambda: kill("sim-a")),
            ("backend that answers slowly", lambda: slow("sim-b")),
            ("backend whose metrics stop, and that stands still", lambda: freeze("sim-c", 5)),
            ("endpoints that come and go in the discovery file", come_and_go),
            ("router killed, and started again", lambda: restart(profile)),
        ):
            during = asyncio.ensure_future(run(session, stack, profile, draw(int(rate * 8), 7, rate), 60))
            await asyncio.sleep(3)
            await action()
            row = await during
            stack.check()
            await asyncio.sleep(1.5)
            told = await stack.metrics(session, profile)
            left = told.get("takt_in_flight", -1)
            failed = row["lost"] + row["begun"]
            told = {"what": f"{profile}: {what}", "requests": row["calls"], "lost": row["unended"], "errors": failed,
                    "in_flight_after": left, "workflows": row["workflows"], "said": sorted(set(row["errors"]))[:6]}  # fmt: skip
            result["faults"].append(told)
            print(json.dumps(told), flush=True)
            save(options, result)


def save(options, result: dict) -> None:
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


async def main_async(options) -> dict:
    import aiohttp

    programs = {name: Path(path) for name, path in json.loads(Path(options.programs).read_text()).items()}
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in options.profiles.split(",") if name] if options.parts != "faults" else []
    if "faults" in options.parts:
        wanted += [name for name in ("takt", "takt_fair") if name not in wanted]
    stack = Stack(programs, folder, wanted)
    result: dict = {"runs": [], "faults": []}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)
    try:
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            await stack.start(session)
            if options.parts == "shell":
                print(json.dumps({name: stack.url(name) for name in wanted}), flush=True)
                await asyncio.Event().wait()
            if "compare" in options.parts:
                await compare(session, stack, options, result)
            if "faults" in options.parts:
                await faults(session, stack, options, result)
            for profile in wanted:
                if profile.startswith("takt"):
                    stack.only(profile)
                    told = await stack.metrics(session, profile)
                    result.setdefault("metrics", {})[profile] = {k: v for k, v in told.items() if k.startswith("takt_") and v}
    finally:
        stack.stop()
    save(options, result)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", required=True, help="JSON: the paths of envoy, router, sim and tiny_engine")
    parser.add_argument("--folder", required=True, help="for configurations and what the programs say")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=25.0, help="in which workflows arrive")
    parser.add_argument("--loads", type=lambda s: [float(x) for x in s.split(",")], default=[0.9, 1.1])
    parser.add_argument("--profiles", default=",".join(COMPARED), help="of " + ", ".join(PROFILES))
    parser.add_argument("--parts", default="compare,faults")
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        until_stopped(main_async(options))
    except (Failed, Lost) as why:
        print(why, file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
