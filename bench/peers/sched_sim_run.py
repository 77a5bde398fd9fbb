"""Replays a trace in sched-sim, and writes its metrics: python sched_sim_run.py TRACE GPU BUDGET FILE

`sched-sim trace` does the same, but only prints a table.
"""

import sys
from pathlib import Path

from sched_sim.core.event_engine import Simulator
from sched_sim.hardware.presets import get_hardware_profile
from sched_sim.schedulers.factory import create_scheduler
from sched_sim.workloads.trace_loader import load_trace_file

trace, gpu, budget, file = sys.argv[1:]
hardware = get_hardware_profile(gpu)
simulator = Simulator(hardware, create_scheduler("chunked", hardware, token_budget=int(budget)))
simulator.submit_workload(load_trace_file(trace))
Path(file).write_text(simulator.run().model_dump_json(indent=1))
