"""The parts of vLLM's scheduler that takt uses, for tests of takt's half without vLLM: rows, and no KV."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class RequestStatus(enum.Enum):
    WAITING, RUNNING, PREEMPTED, WAITING_FOR_REMOTE_KVS, FINISHED_STOPPED, FINISHED_LENGTH_CAPPED = range(6)


class RequestQueue:
    pass


class Queue(RequestQueue, list):
    """vLLM's order fcfs."""

    def add_request(self, request: Any) -> None:
        self.append(request)

    def prepend_request(self, request: Any) -> None:
        self.insert(0, request)

    def prepend_requests(self, requests: Any) -> None:
        self[:0] = reversed(list(requests))

    def peek_request(self) -> Any:
        return self[0]

    def pop_request(self) -> Any:
        return self.pop(0)

    def remove_request(self, request: Any) -> None:
        self.remove(request)

    def remove_requests(self, requests: Any) -> None:
        self[:] = [each for each in self if all(each is not other for other in requests)]


class Scheduler:
    """Admits from `waiting` while a row is free. Each running request yields a token per iteration."""

    def __init__(self, vllm_config: Any, seqs: int) -> None:
        self.vllm_config = vllm_config
        self.scheduler_config = SimpleNamespace(policy="fcfs")
        self.kv_cache_manager = SimpleNamespace(block_pool=SimpleNamespace(num_gpu_blocks=1000), usage=0.0)
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[])
        self.requests: dict[str, Any] = {}
        self.running: list[Any] = []
        self.max_num_running_reqs, self.max_num_scheduled_tokens = seqs, 8192
        self.num_waiting_for_streaming_input, self.block_size = 0, 16
        self.waiting: Any = Queue()
        self.kv_holding_waiting: Any = Queue()

    def add_request(self, request: Any) -> None:
        self.requests[request.request_id] = request
        self.waiting.add_request(request)

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def schedule(self) -> Any:
        tokens = {request.request_id: 1 for request in self.running}
        new = []
        while self.waiting and len(self.running) < self.max_num_running_reqs:
            request = self.waiting.pop_request()
            tokens[request.request_id] = request.num_prompt_tokens
            self.running.append(request)
            new.append(SimpleNamespace(req_id=request.request_id))
        for name, n in tokens.items():
            self.requests[name].num_computed_tokens += n
        return SimpleNamespace(
            scheduled_new_reqs=new, num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values())
        )

    def update_from_output(self, output: Any) -> None:
        for name in output.num_scheduled_tokens:
            request = self.requests[name]
            request.num_output_tokens += 1
            if request.num_output_tokens >= request.max_tokens:
                request.status = RequestStatus.FINISHED_LENGTH_CAPPED
                self.running.remove(request)
                self._free_request(request)

    def finish_requests(self) -> None: ...

    def _free_request(self, request: Any) -> None:
        del self.requests[request.request_id]

    def _preempt_request(self, request: Any) -> None: ...

    def make_stats(self) -> None: ...

    def shutdown(self) -> None: ...


class AsyncScheduler(Scheduler):
    pass


def request(name: str, prompt: int = 20, most: int = 4, arrival: float = 0.0, **extra: Any) -> Any:
    return SimpleNamespace(
        request_id=name, num_prompt_tokens=prompt, num_output_tokens=0, num_computed_tokens=0, num_tokens=prompt,
        max_tokens=most, priority=0, arrival_time=arrival, lora_request=None, trace_headers=None, session_id=None,
        status=RequestStatus.WAITING, pooling_params=None, sampling_params=SimpleNamespace(extra_args=extra),
    )  # fmt: skip


@contextmanager
def installed() -> Iterator[None]:
    """Installs these parts under the names that `takt.vllm` imports."""
    told = {
        "vllm": {"__version__": "a stub"}, "vllm.v1": {}, "vllm.v1.core": {}, "vllm.v1.core.sched": {},
        "vllm.v1.core.sched.async_scheduler": {"AsyncScheduler": AsyncScheduler},
        "vllm.v1.core.sched.request_queue": {"RequestQueue": RequestQueue},
        "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
        "vllm.v1.request": {"RequestStatus": RequestStatus},
    }  # fmt: skip
    replaced = [*told, "takt.vllm.scheduler", "takt.vllm.order"]
    real = {name: sys.modules.pop(name) for name in replaced if name in sys.modules}
    for name, values in told.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(values)
    try:
        yield
    finally:
        for name in replaced:
            sys.modules.pop(name, None)
        sys.modules.update(real)
