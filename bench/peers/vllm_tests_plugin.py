"""A pytest plug-in for vLLM's own tests. With TAKT_IN_VLLM=1, the tests create takt's schedulers instead of vLLM's:

    TAKT_IN_VLLM=1 TAKT_VLLM_POLICY=vllm python -m pytest --noconftest -p vllm_tests_plugin tests/v1/core/test_scheduler.py
"""

import logging
import os

import pytest
import vllm.v1.core.sched.async_scheduler as async_scheduler
import vllm.v1.core.sched.scheduler as scheduler

made = {"steps": 0}


def _counted(kind):
    plain = kind.schedule

    def schedule(self, *args, **kwargs):
        output = plain(self, *args, **kwargs)
        made["steps"] += 1
        if self.takt_order is not None:
            self.takt_order.check()  # vLLM and takt agree on the waiting requests, after each step of each test
        return output

    kind.schedule = schedule


if os.environ.get("TAKT_IN_VLLM") == "1":
    from takt.vllm import TaktScheduler, TaktSyncScheduler

    for kind in (TaktScheduler, TaktSyncScheduler):
        _counted(kind)
    scheduler.Scheduler = TaktSyncScheduler
    async_scheduler.AsyncScheduler = TaktScheduler


def pytest_collection_modifyitems(items):
    """TAKT_RANDOM_STEPS: steps of the random tests of priorities, instead of 20,000."""
    steps = int(os.environ.get("TAKT_RANDOM_STEPS") or 0)
    for module in {item.module for item in items if "random" in item.module.__name__} if steps else ():
        module.range = lambda *bounds: range(steps) if bounds == (20000,) else range(*bounds)


@pytest.fixture
def caplog_vllm(caplog):
    """Replaces vLLM's fixture, whose conftest.py needs devices."""
    logger = logging.getLogger("vllm")
    before, logger.propagate = logger.propagate, True
    with caplog.at_level(logging.DEBUG, logger="vllm"):
        yield caplog
    logger.propagate = before


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"takt ordered {made['steps']} steps of vLLM's tests")
