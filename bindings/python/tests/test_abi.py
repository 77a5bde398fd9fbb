"""The structs of ctypes equal those of the C header."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import takt
from takt import _abi as abi
from takt import schedulers

HERE = Path(__file__).resolve().parent.parent
TOOL = HERE / "tools" / "abi.py"
TREES = [tree for tree in (HERE / "cpp", HERE.parent.parent) if (tree / "include/takt/c/takt.h").exists()]


def places(of: str, kind: Any, path: str = "") -> dict[str, int]:
    """Returns the offset of every field, also in nested structs and unions, from the start of the outermost one."""
    found = {}
    for name, field, *_ in kind._fields_:
        at = getattr(kind, name).offset
        found[f"{of}.{path}{name}"] = at
        if field.__name__.startswith(f"{kind.__name__}_"):
            found.update({key: at + inner for key, inner in places(of, field, f"{path}{name}.").items()})
    return found


@pytest.mark.skipif(not TREES, reason="the package has no header next to it")
def test_the_module_matches_the_header() -> None:
    check = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


@pytest.mark.skipif(not TREES or shutil.which("cc") is None, reason="needs the header and a C compiler")
def test_every_struct_has_the_layout_of_c(tmp_path: Path) -> None:
    source = subprocess.run([sys.executable, str(TOOL), "--probe"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "probe.c").write_text(source)
    include = str(TREES[0] / "include")
    subprocess.run(["cc", "-std=c11", "-I", include, "probe.c", "-o", "probe"], cwd=tmp_path, check=True)
    printed = subprocess.run([str(tmp_path / "probe")], capture_output=True, text=True, check=True).stdout
    of_c = {name: int(number) for name, number in (line.split() for line in printed.splitlines())}
    of_python = {kind.__name__: ctypes.sizeof(kind) for kind in abi.STRUCTS}
    for kind in abi.STRUCTS:
        of_python.update(places(kind.__name__, kind))
    assert of_python == of_c
    assert len(of_c) > 400


def test_a_plan_read_at_once_equals_the_struct() -> None:
    plan = abi.takt_plan()
    skipped = ("struct_size", "reserved")
    names = [name for name, *_ in abi.takt_plan._fields_]
    for number, name in enumerate(names):
        field = getattr(abi.takt_plan, name)
        raw = bytearray(ctypes.sizeof(plan))
        raw[field.offset] = 1
        values = schedulers._PLAN.unpack_from(raw)
        assert values[number] == 1 and sum(values) == 1, name
    assert schedulers._PLAN.size == ctypes.sizeof(plan) and set(skipped) < set(names)


def test_versions_agree() -> None:
    assert takt.__version__ == abi.VERSION
