"""A plugin of pytest: vLLM's own tests make takt's schedulers where they mean to make vLLM's.

    TAKT_VLLM_POLICY=vllm python -m pytest -p takt_in_vllm_tests tests/v1/core/test_scheduler.py
"""

import vllm.v1.core.sched.async_scheduler as async_scheduler
import vllm.v1.core.sched.scheduler as scheduler

from takt.vllm import TaktScheduler, TaktSyncScheduler

scheduler.Scheduler = TaktSyncScheduler
async_scheduler.AsyncScheduler = TaktScheduler

made = {"steps": 0}


def _counted(kind):
    plain = kind.schedule

    def schedule(self, *args, **kwargs):
        output = plain(self, *args, **kwargs)
        made["steps"] += 1
        if self.takt_order is not None:
            self.takt_order.check()  # vLLM and takt agree on who waits, after each step of each test
        return output

    return schedule


TaktSyncScheduler.schedule = _counted(TaktSyncScheduler)
TaktScheduler.schedule = _counted(TaktScheduler)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"takt ordered {made['steps']} steps of vLLM's tests")
