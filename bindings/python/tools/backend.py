"""Build backend: scikit-build-core with two additions. A source distribution has the repository's C++ sources and
integrations in cpp/. Packages have the integrations' entry points."""

from __future__ import annotations

import configparser
import shutil
from collections.abc import Iterator, Mapping
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
CPP = HERE / "cpp"
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src", "integrations/*/takt", "integrations/*/entry_points.txt")


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns the groups of entry points in the integrations' entry_points.txt."""
    found = configparser.ConfigParser(delimiters=["="])
    found.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case
    found.read(sorted((CPP if CPP.exists() else REPOSITORY).glob("integrations/*/entry_points.txt")))
    return {group: dict(found[group]) for group in found.sections()}


@contextmanager
def _sources() -> Iterator[None]:
    if CPP.exists() or not (REPOSITORY / "include/takt/c/takt.h").exists():  # building from a source distribution
        yield
        return
    try:
        CPP.mkdir()
        for source in (path for part in PARTS for path in sorted(REPOSITORY.glob(part))):
            target = CPP / source.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        yield
    finally:
        shutil.rmtree(CPP, ignore_errors=True)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    with _sources():
        made: str = _build.build_sdist(sdist_directory, config_settings)
        return made
