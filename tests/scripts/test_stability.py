"""Tests of scripts/stability: it finds each kind of fault in a copy of the tree."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = [
    "include/takt", "bindings/python/takt", "integrations/vllm/takt", "integrations/sglang/takt", "integrations/llm-d",
    "integrations/server/step_log.h", "src/record/frame.h", "src/tool/report/json_report.cc", "tests/structure",
    "docs/project/architecture.md", "docs/reference/stability.md",
]
# File, text, replacement, part of the message.
FAULTS = [
    ("include/takt/model/new.h", None, "struct New {};", "header model/ new has no level"),
    ("include/takt/placement/session.h", None, None, "header placement/ session has a level and is not in the tree"),
    ("include/takt/c/takt.h", "takt_queue_push(", "takt_queue_shove(", "c takt_queue shove has no level"),
    ("bindings/python/takt/queues.py", "class Ran(", "class Run(", "python takt.queues Ran has a level and is not in"),
    ("integrations/vllm/takt/vllm/options.py", "    metrics: bool", "    gauges: bool", "option vLLM gauges has no level"),
    ("integrations/llm-d/plugins/scorer.go", '"logFile"', '"log"', "option llm-d log has no level"),
    ("src/record/frame.h", None, None, "src/record/frame.h, which defines the format log, is missing"),
    ("tests/structure/levels.txt", "header model/ stable ", "header model/ solid ", "is invalid; expected a kind"),
    ("tests/structure/levels.txt", "header kv/ beta ", "header kv/ beta kv_use ", "kv/ kv_use has a level already"),
    ("tests/structure/levels.txt", "header kv/ beta", "header kv/ experimental", "stability.md is stale"),
    ("include/takt/scheduler_options.h", "std::int32_t max_running = 1024", "std::int32_t max_running = 2048",
     "+ option SchedulerOptions max_running: std::int32_t max_running = 2048"),
    ("include/takt/model/request.h", "  TenantId tenant", "  TenantId payer", "- header model/ request: Request::TenantId tenant"),
    ("include/takt/basic_scheduler.h", "const StepPlan& Plan(TimePoint now,", "const StepPlan& Plan(Duration now,",
     "+ header takt/ basic_scheduler: BasicScheduler::const StepPlan& Plan(Duration now,"),
    ("bindings/python/takt/requests.py", "class Request", "class Request(dict)", "+ python takt.requests Request"),
    ("bindings/python/takt/queues.py", "    @property\n    def policy(", "    def policy(",
     "+ python takt.queues Queue: Queue.policy(self)"),
    ("bindings/python/takt/_metrics.py", "def metrics_text(", "def metrics_page(",
     "- python takt.schedulers Scheduler: Scheduler.metrics_text("),
    ("bindings/python/takt/_handle.py", "def close(", "def shut(", "- python takt.queues Queue: Queue.close("),
    ("bindings/python/takt/schedulers.py", "    request: int\n    lane: int\n    tokens: int\n    position",
     "    lane: int\n    request: int\n    tokens: int\n    position", "+ python takt.schedulers PlanEntry: PlanEntry.lane: int"),
]  # fmt: skip


class Stability(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for part in PARTS:
            (self.tree / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, self.tree / part)

    def run_script(self, what):
        command = [sys.executable, ROOT / "scripts/stability", what, "--root", self.tree]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_the_tree_as_it_is(self):
        self.assertEqual(self.run_script("--check")[0], 0)

    def test_faults(self):
        for file, text, other, message in FAULTS:
            with self.subTest(file=file, message=message):
                path = self.tree / file
                before = path.read_text() if path.exists() else None
                if text is not None:
                    self.assertEqual(before.count(text), 1 if "class Request" not in text else before.count(text))
                    path.write_text(before.replace(text, other, 1))
                elif other is None:
                    path.unlink()
                else:
                    path.write_text(other)
                code, told = self.run_script("--check")
                self.assertEqual(code, 1)
                self.assertIn(message, told)
                path.unlink(missing_ok=True)
                if before is not None:
                    path.write_text(before)

    def test_renew_accepts_a_change(self):
        path = self.tree / "include/takt/scheduler_options.h"
        path.write_text(path.read_text().replace("std::int32_t max_running = 1024", "std::int32_t max_running = 2048"))
        self.assertEqual(self.run_script("--check")[0], 1)
        self.assertEqual(self.run_script("--renew")[0], 0)
        self.assertEqual(self.run_script("--check")[0], 0)


unittest.main()
