"""Envoy, llm-d's router with takt's plug-ins, simulated engines and real ones, all on 127.0.0.1 and without Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LANES = 4  # concurrent requests of an engine
SIMULATED = {"sim-a": 40, "sim-b": 60, "sim-c": 80, "sim-d": 120}  # milliseconds between tokens, at any load
REAL = {"tiny-a": ("10M", 2), "tiny-b": ("10M", 1)}  # parameters, requests at once
MODEL = "tiny-10m"

SCORERS = """
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
"""
DETECTOR = f"""
- {{type: concurrency-detector, parameters: {{maxConcurrency: {LANES}, headroom: 0.5}}}}
"""
DEFAULT_PROFILE = """
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
"""
FLOW_CONTROL = """
featureGates: [flowControl]
flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
"""

# Additions of each profile to the common configuration: plug-ins, profile, flow control.
PROFILES = {
    "default": (SCORERS, DEFAULT_PROFILE),  # the router's own, as it is without a configuration: no flow control
    "prefix_load": (SCORERS + DETECTOR, DEFAULT_PROFILE + FLOW_CONTROL),  # the same scorers behind flow control
    "program_aware": (
        DETECTOR + "- {type: program-aware-fairness}\n- {type: queue-scorer}\n",
        "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: queue-scorer}]\n"
        + FLOW_CONTROL
        + "  defaultPriorityBand: {priority: 0, fairnessPolicyRef: program-aware-fairness}\n",
    ),
    # The older comparison: workflows in order of arrival, with placement by reports alone, as in the queue-scorer.
    "takt_fcfs": (
        DETECTOR
        + "- {type: takt-scorer, parameters: {placement: least_loaded, useMaxTokens: false}}\n"
        + "- {type: takt-ordering-policy, parameters: {policy: workflow_fcfs}}\n",
        "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: takt-scorer}]\n"
        + FLOW_CONTROL
        + "  defaultPriorityBand: {priority: 0, orderingPolicyRef: takt-ordering-policy}\n",
    ),
    "takt": (
        DETECTOR
        + "- {type: takt-scorer, parameters: {placement: minimum_completion_time, useMaxTokens: false}}\n"
        + "- {type: takt-ordering-policy, parameters: {policy: stjf}}\n",
        "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: takt-scorer}]\n"
        + FLOW_CONTROL
        + "  defaultPriorityBand: {priority: 0, orderingPolicyRef: takt-ordering-policy}\n",
    ),
    # Not in the comparison: the third plug-in, for the faults.
    "takt_fair": (
        DETECTOR
        + "- {type: takt-scorer, parameters: {placement: confidence_slack, useMaxTokens: false}}\n"
        + "- {type: takt-ordering-policy, parameters: {policy: stjf}}\n"
        + "- {type: takt-fairness-policy, parameters: {policy: fair_share, group: workflow}}\n",
        "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: takt-scorer}]\n"
        + FLOW_CONTROL
        + "  defaultPriorityBand: {priority: 0, orderingPolicyRef: takt-ordering-policy,"
        + " fairnessPolicyRef: takt-fairness-policy}\n",
    ),
}


WIDE = "- {type: concurrency-detector, parameters: {maxConcurrency: 256}}\n"
PROFILES["plain"] = (  # for throughput: the router's flow control, and one scorer that costs little
    WIDE + "- {type: queue-scorer}\n",
    "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: queue-scorer}]\n" + FLOW_CONTROL,
)
PROFILES["takt_wide"] = (PROFILES["takt"][0].replace(DETECTOR, WIDE), PROFILES["takt"][1])
PAIR = ("takt_one", "takt_two")  # two routers that follow one log, behind the listener "takt_pair"
for each in PAIR:
    shared = "useMaxTokens: false, replicas: {url: LOG, stream: peer, leaseSeconds: 2}"
    PROFILES[each] = (PROFILES["takt"][0].replace("useMaxTokens: false", shared), PROFILES["takt"][1])


class Failed(Exception):
    """An error in one line, with the path of its log."""


def configuration(profile: str, endpoints: Path, log: int) -> str:
    plugins, rest = PROFILES[profile]
    plugins = plugins.replace("LOG", f'"redis://127.0.0.1:{log}/0"')
    return f"""apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{type: file-discovery, parameters: {{path: {endpoints}, watchFile: true}}}}
- {{type: metrics-data-source}}
- type: core-metrics-extractor
  parameters:
    engineConfigs:
    - {{name: tiny, queuedRequestsSpec: "vllm:num_requests_waiting", runningRequestsSpec: "vllm:num_requests_running"}}
{plugins.strip()}
dataLayer:
  injectDefaults: false
  discovery: {{pluginRef: file-discovery}}
  sources:
  - {{pluginRef: metrics-data-source, extractors: [{{pluginRef: core-metrics-extractor}}]}}
{rest.strip()}
"""


def free_ports(n: int) -> list[int]:
    held = [socket.socket() for _ in range(n)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


LOST = "x-router-lost"  # header of the answer after the router has ended before answering
LARGEST = 8 << 20  # maximum size of a request that is sent again [bytes]
HTTP = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"


def envoy_configuration(admin: int, listeners: dict[str, tuple[int, int, list[int]]], engines: list[int]) -> dict:
    """Returns Envoy's configuration. Listeners: (its port, the port of the hop before it, its routers' ports). engines: ports."""

    def address(port: int) -> dict:
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    def http(name: str, port: int, **config) -> dict:
        manager = {"@type": HTTP, "stat_prefix": name, **config}
        filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
        return {"name": name, "address": address(port), "filter_chains": [{"filters": filters}]}

    last = {"name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}  # fmt: skip

    def before(name: str, port: int) -> dict:
        """Sends a request again for about half a minute if its router ended before answering."""
        retry = {"retry_on": "retriable-headers,reset,connect-failure", "num_retries": 60,
                 "retriable_headers": [{"name": LOST, "present_match": True}],
                 "retry_back_off": {"base_interval": "0.05s", "max_interval": "1s"}}  # fmt: skip
        to = {"cluster": f"before-{name}", "timeout": "600s", "idle_timeout": "600s", "retry_policy": retry}
        host = {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": to}],
                "request_body_buffer_limit": LARGEST}  # fmt: skip
        return http(f"before-{name}", port, route_config={"virtual_hosts": [host]}, http_filters=[last])

    def listener(name: str, port: int) -> dict:
        processing = {
            "name": "envoy.filters.http.ext_proc",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
                # A router that does not answer is passed over.
                "grpc_service": {"envoy_grpc": {"cluster_name": f"router-{name}"}, "timeout": "10s",
                                 "retry_policy": {"num_retries": 3}},
                "processing_mode": {
                    "request_header_mode": "SEND",
                    "response_header_mode": "SEND",
                    "request_body_mode": "FULL_DUPLEX_STREAMED",
                    "response_body_mode": "FULL_DUPLEX_STREAMED",
                    "request_trailer_mode": "SEND",
                    "response_trailer_mode": "SEND",
                },
                "message_timeout": "1000s",
            },
        }
        # Envoy retries only answers without headers. The router chooses the first engine, but not the next ones.
        retry = {"retry_on": "connect-failure,refused-stream,reset", "num_retries": 3, "host_selection_retry_max_attempts": 5,
                 "retry_host_predicate": [{"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": {
                     "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"}}],
                 "retry_back_off": {"base_interval": "0.025s"}}  # fmt: skip
        to = {"cluster": "engines", "timeout": "600s", "idle_timeout": "600s", "retry_policy": retry}
        host = {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": to}],
                "include_attempt_count_in_response": True}  # fmt: skip
        # tiny_engine does not support chunked requests, so this filter gives them a length.
        buffer = {"name": "envoy.filters.http.buffer", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer", "max_request_bytes": LARGEST}}  # fmt: skip
        # Envoy's own answers after the router has ended. Refusals by a router are different.
        ended = {
            "filter": {"extension_filter": {"name": "cel", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
                "expression": "response.code_details.startsWith('ext_proc_error')"}}},
            "status_code": 503,
            "body": {"inline_string": "the router ended before there was an answer"},
            "headers_to_add": [{"header": {"key": LOST, "value": "1"}}],
        }  # fmt: skip
        return http(name, port, local_reply_config={"mappers": [ended]}, route_config={"virtual_hosts": [host]},
                    http_filters=[processing, buffer, last])  # fmt: skip

    many = {"thresholds": [{"max_retries": 1024}]}  # the default is 3, but more calls are lost with a program

    def cluster(name: str, ports: list[int], **config) -> dict:
        there = [{"endpoint": {"address": address(port)}} for port in ports]
        return {"name": name, "type": "STATIC", "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": there}]},
                **config}  # fmt: skip

    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    http2 = {"connect_timeout": "5s", "typed_extension_protocol_options": {options: {
        "@type": f"type.googleapis.com/{options}", "explicit_http_config": {"http2_protocol_options": {}}}}}  # fmt: skip

    extension = "type.googleapis.com/envoy.extensions.load_balancing_policies"

    def policy(name: str, kind: str, **config) -> dict:
        config = {"@type": f"{extension}.{name}.v3.{kind}", **config}
        return {"policies": [{"typed_extension_config": {"name": f"envoy.load_balancing_policies.{name}", "typed_config": config}}]}

    spread = policy(
        "override_host",
        "OverrideHost",
        override_host_sources=[{"header": "x-gateway-destination-endpoint"}],
        fallback_policy=policy("least_request", "LeastRequest"),
    )
    all_listeners, clusters = [], [cluster("engines", engines, connect_timeout="2s", circuit_breakers=many, load_balancing_policy=spread)]
    for name, (port, hop, routers) in listeners.items():
        all_listeners += [listener(name, port), before(name, hop)]
        clusters += [cluster(f"router-{name}", routers, **http2), cluster(f"before-{name}", [port], circuit_breakers=many)]
    return {"admin": {"address": address(admin)}, "static_resources": {"listeners": all_listeners, "clusters": clusters}}


class Program:
    """A process of its own group, whose output goes to a file."""

    def __init__(self, name: str, command: list, log: Path, nice: int = 0, **environment: str) -> None:
        self.name, self.log = name, log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip

    def check(self) -> None:
        if self.process.poll() is not None:
            raise Failed(f"{self.name} has ended with {self.process.returncode}; see {self.log}")

    def signal(self, what: int) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, what)

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()


class Stack:
    """All processes. `url` of a profile: the address for its clients."""

    def __init__(self, programs: dict[str, Path], folder: Path, profiles: list[str], instant: bool = False) -> None:
        """instant: only simulated engines, which answer at once."""
        self.programs, self.folder, self.profiles = programs, folder, profiles
        self.simulated, self.real = (dict.fromkeys(SIMULATED, 0), {}) if instant else (SIMULATED, REAL)
        self.lanes = 256 if instant else LANES
        self.running: dict[str, Program] = {}
        names = [*self.simulated, *self.real]
        self.ports = dict(zip(names, free_ports(len(names))))
        ports = free_ports(5 * len(profiles) + 4)
        self.admin, self.log = ports.pop(), ports.pop()
        self.envoy = {"takt_pair": (ports.pop(), ports.pop())}  # listeners: of a profile, and the hop before it
        self.of = {}  # its router's, health, metrics
        for name in profiles:
            self.envoy[name], self.of[name], ports = tuple(ports[:2]), ports[2:5], ports[5:]
        self.endpoints = folder / "endpoints.yaml"
        self.there = list(names)

    def url(self, profile: str, again: bool = False) -> str:
        """again: through the hop that sends requests again after a router has ended."""
        return f"http://127.0.0.1:{self.envoy[profile][again]}"

    def write_endpoints(self, names: list[str]) -> None:
        """Replaces the file atomically, as the router's watcher requires."""
        self.there = list(names)
        kinds = {name: "tiny" if name in self.real else "vllm" for name in names}
        lines = [
            f'- {{name: {name}, address: 127.0.0.1, port: "{self.ports[name]}", labels: {{llm-d.ai/engine-type: {kinds[name]}}}}}'
            for name in names
        ]
        new = self.endpoints.with_suffix(".new")
        new.write_text("endpoints:\n" + "\n".join(lines) + "\n" if lines else "endpoints: []\n")
        new.replace(self.endpoints)

    def start_engine(self, name: str) -> None:
        log = self.folder / f"{name}.log"
        if name in self.simulated and self.programs["sim"].suffix == ".py":
            command = [sys.executable, self.programs["sim"], MODEL, self.lanes, f"{self.ports[name]}={self.simulated[name]}"]
        elif name in self.simulated:
            command = [
                self.programs["sim"], "--port", self.ports[name], "--model", MODEL, "--max-num-seqs", self.lanes,
                "--time-to-first-token", f"{2 * self.simulated[name]}ms", "--inter-token-latency", f"{self.simulated[name]}ms",
                "--max-model-len", 8192, "--force-dummy-tokenizer", "--seed", 1, "-v", 0,
            ]  # fmt: skip
        else:
            size, lanes = self.real[name]
            command = [
                self.programs["tiny_engine"], "--serve", self.ports[name], "--model", size, "--threads", 1, "--max-seqs",
                lanes, "--prefix-cache", "--policy", "fcfs",
            ]  # fmt: skip
        self.running[name] = Program(name, command, log)

    async def start(self, session) -> None:
        self.write_endpoints([*self.simulated, *self.real])
        for name in self.there:
            self.start_engine(name)
        for name in self.there:
            await self.answers(session, name, f"http://127.0.0.1:{self.ports[name]}/v1/models")
        paired = PAIR[0] in self.profiles
        if paired:
            await self.start_log()
        for profile in self.profiles:
            await self.start_router(session, profile)
        file = self.folder / "envoy.json"
        listeners = {name: (*self.envoy[name], [self.of[name][0]]) for name in self.profiles}
        if paired:
            listeners["takt_pair"] = (*self.envoy["takt_pair"], [self.of[name][0] for name in PAIR])
        file.write_text(json.dumps(envoy_configuration(self.admin, listeners, list(self.ports.values())), indent=1))
        command = [self.programs["envoy"], "-c", file, "--concurrency", 1, "--disable-hot-restart", "-l", "warning"]
        self.running["envoy"] = Program("envoy", command, self.folder / "envoy.log")
        await self.answers(session, "envoy", f"http://127.0.0.1:{self.admin}/ready")
        for profile in self.profiles:  # ready when a request comes through
            await self.answers(session, "envoy", self.url(profile, again=True) + "/v1/completions", {"model": MODEL, "prompt": "x", "max_tokens": 1})

    async def start_log(self) -> None:
        """Starts the server of the log, which writes to its disk."""
        server = shutil.which("valkey-server") or shutil.which("redis-server")
        if not server:
            raise Failed("there is no valkey-server and no redis-server, which has the log of the replicas")
        folder = self.folder / "log"
        folder.mkdir(exist_ok=True)
        command = [server, "--port", self.log, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes"]
        self.running["log"] = Program("log", command, self.folder / "log.log")
        end = time.monotonic() + 20
        while True:
            self.running["log"].check()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.log), 1).close()
                return
            if time.monotonic() > end:
                raise Failed(f"the log does not listen; see {self.running['log'].log}")
            await asyncio.sleep(0.05)

    async def start_router(self, session, profile: str) -> None:
        file = self.folder / f"{profile}.yaml"
        file.write_text(configuration(profile, self.endpoints, self.log))
        port, health, metrics = self.of[profile]
        command = [
            self.programs["router"], "--config-file", file, "--grpc-port", port, "--grpc-health-port", health,
            "--metrics-port", metrics, "--secure-serving=false", "--metrics-endpoint-auth=false", "--pool-name", "peer",
            "--refresh-metrics-interval", "200ms", "--allow-experimental-plugins", "-v", "0",
        ]  # fmt: skip
        name = f"router-{profile}"
        self.running[name] = Program(name, command, self.folder / f"{name}.log", GOMAXPROCS="2")
        await self.answers(session, name, f"http://127.0.0.1:{metrics}/metrics")

    async def answers(self, session, name: str, url: str, body: dict | None = None, seconds: float = 60) -> None:
        import aiohttp

        end = time.monotonic() + seconds
        last = ""
        while time.monotonic() < end:
            self.running[name].check()
            try:
                async with session.request("POST" if body else "GET", url, json=body) as answer:
                    if answer.status == 200:
                        return
                    last = f"{answer.status} {(await answer.text())[:200]}"
            except (aiohttp.ClientError, OSError) as why:
                last = str(why)
            await asyncio.sleep(0.1)
        raise Failed(f"{name}: no answer from {url} after {seconds:.0f} s ({last}); see {self.running[name].log}")

    async def metrics(self, session, profile: str) -> dict[str, float]:
        """Returns a router's counters, summed over their labels; takt_router_total by its label."""
        async with session.get(f"http://127.0.0.1:{self.of[profile][2]}/metrics") as answer:
            text = await answer.text()
        found: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith("#") or " " not in line:
                continue
            name, value = line.rsplit(" ", 1)
            if not name.startswith("takt_router_total"):
                name = name.split("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def only(self, profile: str) -> None:
        """Stops the other routers during a measurement, so that one router has the whole machine."""
        for other in self.profiles:
            runs = other == profile or profile == "takt_pair" and other in PAIR
            self.running[f"router-{other}"].signal(signal.SIGCONT if runs else signal.SIGSTOP)

    def check(self) -> None:
        for each in self.running.values():
            each.check()

    def stop(self) -> None:
        for each in reversed(list(self.running.values())):
            each.stop()
