"""Runs workflows of agents through Envoy, the router and six unequal engines, also under faults.

    python llm_d_compare.py --programs FILE --folder FOLDER --runs 5 --seconds 25 --json FILE

The load is relative to the engines' throughput, which is measured before each round. Routers of all profiles stay up, and runs
take turns. Only the measured router runs. The number of tokens of a call is drawn from its agent's distribution. The router's
plug-in does not see this number (useMaxTokens: false) and must learn lengths from the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

import serve
from llm_d_stack import LANES, MODEL, PAIR, PROFILES, REAL, SIMULATED, Failed, Stack
from servers import quantile, until_stopped

# As in serve.py, but shorter.
# agent: calls, mean output, tokens of the first prompt, tokens that a tool adds, mean pause of the tool [s], share
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
    """A call that did not end. begun: it had the head of an answer; token: it also had a token."""

    def __init__(self, begun: bool, what: str, token: bool = False) -> None:
        super().__init__(what)
        self.begun, self.token = begun, token


async def call(session, url: str, body: dict, headers: dict[str, str]) -> tuple[float, int, int]:
    """Time to the first token [s], tokens of the answer, and of the prompt."""
    import aiohttp

    began, begun, first, tokens, prompt, whole = time.monotonic(), False, None, 0, 0, False
    try:
        async with session.post(url + "/v1/completions", json=body, headers=headers) as answer:
            if answer.status != 200:
                raise Lost(False, f"{answer.status} {(await answer.text())[:120]}")
            begun = True
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                if line.startswith(b"data: [DONE]"):
                    whole = True
                    continue
                told = json.loads(line[6:])
                if "error" in told:
                    raise Lost(True, str(told["error"])[:120], first is not None)
                if first is None and told.get("choices"):
                    first = time.monotonic() - began
                if told.get("usage"):
                    tokens, prompt = told["usage"]["completion_tokens"], told["usage"]["prompt_tokens"]
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, json.JSONDecodeError) as why:
        raise Lost(begun, f"{type(why).__name__}: {why}"[:120], first is not None) from None
    if not whole:
        raise Lost(True, "the stream has no end", first is not None)
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
            out["no_token"] += why.begun and not why.token
            return  # a program without an answer ends here
        out["ttft"].append(ttft)
        out["tokens"] += got
        slo += wait + 0.5 + 0.15 * tokens
        await asyncio.sleep(wait)
    latency = time.monotonic() - arrived
    out["latency"].append((told["agent"], latency))
    out["good"] += latency <= slo


async def run(session, stack: Stack, profile: str, workflows: list[dict], seconds: float = 120.0, again: bool = False) -> dict:
    """Returns the figures of a run. `goodput`: workflows per second that take at most twice their time on an idle engine. It has
    half a second per call, 150 ms per token, and the pauses."""
    out: dict = {"ttft": [], "tokens": 0, "latency": [], "good": 0, "sent": 0, "errors": [], "lost": 0, "begun": 0,
                 "no_token": 0}  # fmt: skip
    begun = time.monotonic()
    tasks = [asyncio.ensure_future(workflow(session, stack.url(profile, again), told, begun, out)) for told in workflows]
    try:
        _, late = await asyncio.wait(tasks, timeout=workflows[-1]["at"] + seconds)
    finally:
        for task in tasks:
            task.cancel()
    took = time.monotonic() - begun
    if late:
        out["errors"].append(f"{len(late)} workflows had not ended after {took:.0f} s")
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception():
            raise task.exception()  # a fault of this program
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
        "no_token": out["no_token"],
        "unended": len(late),
        "by_agent_s": {a: round(statistics.fmean([s for b, s in out["latency"] if a == b] or [0.0]), 3) for a in AGENTS},
    }


async def capacity(session, stack: Stack, seconds: float = 8.0) -> float:
    """Returns the tokens per second that the engines generate for this load. Each engine gets as many direct clients as it has
    lanes. They send first and later calls as in workflows, with prompts that are in no prefix cache."""
    got = 0.0
    end = time.monotonic() + seconds
    names = list(AGENTS)

    async def client(name: str, i: int) -> None:
        nonlocal got
        rng = random.Random(f"{name}{i}")
        while time.monotonic() < end:
            agent = rng.choices(names, [AGENTS[each][0] * AGENTS[each][5] for each in names])[0]
            calls, mean, first, adds, _, _ = AGENTS[agent]
            prompt = words(rng, first // 4 + rng.randrange(calls) * ((mean + adds) // 4))
            body = {"model": MODEL, "prompt": prompt, "max_tokens": min(MOST, 1 + int(rng.expovariate(1 / mean))), "ignore_eos": True,
                    "stream": True, "stream_options": {"include_usage": True}}  # fmt: skip
            began = time.monotonic()
            _, tokens, _ = await call(session, f"http://127.0.0.1:{stack.ports[name]}", body, {})
            took = time.monotonic() - began
            got += tokens * min(1.0, max(0.0, end - began) / took)

    lanes = {**{name: LANES for name in SIMULATED}, **{name: REAL[name][1] for name in REAL}}
    await asyncio.gather(*(client(name, i) for name, n in lanes.items() for i in range(n)))
    return got / seconds


async def watch_queue(session, stack: Stack, profile: str, to: list[float], seconds: float) -> None:
    """How many requests wait in the router's flow control, once a second while workflows arrive."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(1)
        to.append((await stack.metrics(session, profile)).get("llm_d_epp_flow_control_queue_size", 0.0))


@contextlib.asynccontextmanager
async def alone(options):
    """Nobody else who takes this lock measures meanwhile."""
    if not options.lock:
        yield
        return
    with open(options.lock, "ab") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield


async def compare(session, stack: Stack, options, result: dict) -> None:
    profiles = [name for name in options.profiles.split(",") if name]
    async with alone(options):
        stack.only(profiles[0])
        rate = 0.9 * await capacity(session, stack) / tokens_of_a_workflow()
        for profile in profiles:  # warm-up
            stack.only(profile)
            await asyncio.sleep(0.5)
            await run(session, stack, profile, draw(max(8, int(rate * 3)), 999, rate))
    for i in range(options.first, options.first + options.runs):
        async with alone(options):
            await compare_round(session, stack, options, profiles, i, result)


async def compare_round(session, stack: Stack, options, profiles: list[str], i: int, result: dict) -> None:
    """Each profile in turn, under each load."""
    stack.only(profiles[0])
    tokens = await capacity(session, stack)
    print(json.dumps({"round": i, "tokens_per_s": round(tokens, 1), "machine_load": os.getloadavg()[0]}), flush=True)
    for load in options.loads:
        rate = load * tokens / tokens_of_a_workflow()
        workflows = draw(max(10, int(rate * options.seconds)), 100 + i, rate)
        for profile in profiles[i % len(profiles) :] + profiles[: i % len(profiles)]:
            stack.only(profile)
            await asyncio.sleep(0.7)  # its metrics are up to date again
            queued: list[float] = []
            watch = asyncio.ensure_future(watch_queue(session, stack, profile, queued, options.seconds))
            row = await run(session, stack, profile, workflows)
            await watch
            stack.check()
            row["queued_mean"] = round(statistics.fmean(queued or [0.0]), 1)
            row["queued_most"] = max(queued or [0.0])
            result["runs"].append({**row, "load": load, "seed": 100 + i, "machine_load": os.getloadavg()[0]})
            print(json.dumps(result["runs"][-1]), flush=True)
            save(options, result)


# ---- faults ---------------------------------------------------------------------------------------------------------


async def faults(session, stack: Stack, options, result: dict) -> None:
    """Counts calls during a fault. `lost`: calls that got an error or nothing before their answer began. `errors`: calls whose
    answer was cut off; `before_a_token`: after its head."""
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

    async def restart_log() -> None:
        stack.running["log"].signal(signal.SIGKILL)
        stack.running["log"].process.wait()
        await asyncio.sleep(2)
        await stack.start_log()

    for profile in options.fault_profiles.split(","):
        stack.only(profile)
        tokens = await capacity(session, stack)
        rate = 0.9 * tokens / tokens_of_a_workflow()
        cases = (
            ("backend killed in mid-stream, its endpoint removed, then back", lambda: kill("sim-a")),
            ("backend that answers slowly", lambda: slow("sim-b")),
            ("backend whose metrics stop, and that does not respond", lambda: freeze("sim-c", 5)),
            ("endpoints that come and go in the discovery file", come_and_go),
            ("router killed, and started again", lambda: restart(profile)),
        )
        if profile == "takt_pair":
            cases = (
                ("server of the log killed, and started again", restart_log),
                ("one of two routers killed, and started again", lambda: restart(PAIR[1])),
                cases[0],
            )
        for what, action in cases:
            during = asyncio.ensure_future(run(session, stack, profile, draw(int(rate * 8), 7, rate), 60, again=True))
            await asyncio.sleep(3)
            await action()
            row = await during
            stack.check()
            await asyncio.sleep(1.5)
            of = [await stack.metrics(session, name) for name in (PAIR if profile == "takt_pair" else (profile,))]
            left = max(told.get("takt_in_flight", -1) for told in of)
            told = {"what": f"{profile}: {what}", "requests": row["calls"], "lost": row["lost"] + row["unended"],
                    "errors": row["begun"], "before_a_token": row["no_token"], "unended": row["unended"], "in_flight_after": left,
                    "workflows": row["workflows"], "said": sorted(set(row["errors"]))[:6]}  # fmt: skip
            if profile == "takt_pair":
                told["learned_workflows"] = [told.get("takt_learned_workflows_ended_total", -1) for told in of]
            result["faults"].append(told)
            print(json.dumps(told), flush=True)
            save(options, result)


# ---- throughput -----------------------------------------------------------------------------------------------------


async def throughput(session, programs: dict[str, Path], options, result: dict) -> None:
    """Measures calls per second through Envoy and the router, with 64 clients and engines that answer at once, and the router's
    processor time per call. Pairs of runs without and with takt alternate in order."""
    stack = Stack(programs, Path(options.folder), ["plain", "takt_wide"], instant=True)

    def cpu(profile: str) -> float:
        fields = Path(f"/proc/{stack.running[f'router-{profile}'].process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def client(profile: str, i: int, end: float) -> int:
        calls = 0
        while time.monotonic() < end:
            body = {"model": MODEL, "prompt": "read the file " * 20, "max_tokens": 2}
            headers = {"X-Takt-Workflow": f"{profile}-{i}-{calls // 4}", "X-Takt-Agent": "x"}
            async with session.post(stack.url(profile) + "/v1/completions", json=body, headers=headers) as answer:
                await answer.read()
                if answer.status != 200:
                    raise Lost(False, f"{answer.status} {(await answer.text())[:120]}")
            calls += 1
        return calls

    try:
        await stack.start(session)
        rows = result.setdefault("throughput", [])
        for i in range(-1, options.pairs):
            async with alone(options):
                for profile in (stack.profiles if i % 2 else stack.profiles[::-1]):
                    stack.only(profile)
                    await asyncio.sleep(0.5)
                    before, begun = cpu(profile), time.monotonic()
                    calls = sum(await asyncio.gather(*(client(profile, c, begun + options.pair_seconds) for c in range(64))))
                    took = time.monotonic() - begun
                    if i < 0:  # warm-up
                        continue
                    rows.append({"pair": i, "profile": profile, "calls_per_s": round(calls / took, 1),
                                 "router_ms_a_call": round(1e3 * (cpu(profile) - before) / calls, 3)})  # fmt: skip
                    print(json.dumps(rows[-1]), flush=True)
        for what in ("calls_per_s", "router_ms_a_call"):
            ratios = [by["takt_wide"] / by["plain"] for by in
                      ({row["profile"]: row[what] for row in rows if row["pair"] == i} for i in range(options.pairs))]  # fmt: skip
            mean, half = interval(ratios)
            result[f"{what}_ratio"] = {"mean": round(mean, 4), "half_95": round(half, 4), "least": round(min(ratios), 3),
                                       "most": round(max(ratios), 3)}  # fmt: skip
            print(what, json.dumps(result[f"{what}_ratio"]), flush=True)
    finally:
        stack.stop()


def interval(values: list[float]) -> tuple[float, float]:
    """Returns the mean, and half of its 95 % interval by Student's t (Abramowitz and Stegun 26.7.5: 2 % short for 5 values)."""
    n = len(values)
    if n < 2:
        return values[0], float("nan")
    t = 1.95996 + 2.3723 / (n - 1) + 2.8224 / (n - 1) ** 2
    return statistics.fmean(values), t * statistics.stdev(values) / n**0.5


def save(options, result: dict) -> None:
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


async def main_async(options) -> dict:
    import aiohttp

    programs = {name: Path(path) for name, path in json.loads(Path(options.programs).read_text()).items()}
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in options.profiles.split(",") if name] if options.parts not in ("faults", "throughput") else []
    if "faults" in options.parts:
        for name in options.fault_profiles.split(","):
            wanted += [each for each in (PAIR if name == "takt_pair" else (name,)) if each not in wanted]
    stack = Stack(programs, folder, wanted)
    result: dict = {"runs": [], "faults": []}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)
    if "throughput" in options.parts:
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            await throughput(session, programs, options, result)
    if options.parts == "throughput":
        save(options, result)
        return result
    try:
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            await stack.start(session)
            if options.parts == "shell":
                print(json.dumps({name: stack.url(name, again=True) for name in wanted}), flush=True)
                await asyncio.Event().wait()
            if "compare" in options.parts:
                await compare(session, stack, options, result)
            if "faults" in options.parts:
                async with alone(options):
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
    parser.add_argument("--folder", required=True, help="folder for configurations and logs of the programs")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which determines its seed and the order of profiles")
    parser.add_argument("--seconds", type=float, default=25.0, help="time in which workflows arrive")
    parser.add_argument("--loads", type=lambda s: [float(x) for x in s.split(",")], default=[0.9, 1.1])
    parser.add_argument("--profiles", default=",".join(COMPARED), help="of " + ", ".join(PROFILES))
    parser.add_argument("--fault-profiles", default="takt,takt_fair,takt_pair", help="takt_pair: two routers that follow one log")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of throughput runs, without and with takt")
    parser.add_argument("--pair-seconds", type=float, default=10, help="duration of each run of a pair")
    parser.add_argument("--parts", default="compare,faults")
    parser.add_argument("--lock", help="a file to lock during each round, shared by programs that measure on this machine")
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
