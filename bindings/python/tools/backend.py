"""scikit-build-core, and a source distribution that has the C++ sources of the repository in cpp/."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).resolve().parent.parent
REPOSITORY = HERE.parent.parent
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src")


@contextmanager
def _sources() -> Iterator[None]:
    cpp = HERE / "cpp"
    if cpp.exists() or not (REPOSITORY / "include/takt/c/takt.h").exists():  # out of a source distribution already
        yield
        return
    try:
        cpp.mkdir()
        for part in PARTS:
            source = REPOSITORY / part
            if source.is_dir():
                shutil.copytree(source, cpp / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, cpp / part)
        yield
    finally:
        shutil.rmtree(cpp, ignore_errors=True)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    with _sources():
        made: str = _build.build_sdist(sdist_directory, config_settings)
        return made
