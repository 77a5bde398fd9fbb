"""SGLang's own scheduling on a machine without a GPU: stubs replace its missing imports.

Only modules that SGLang itself imports are replaced, and within SGLang only the descriptions of models.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

_OWN = ("sglang.srt.configs", "sglang.srt.utils.hf_transformers_patches", "sglang.srt.utils.hf_transformers_utils")
_REAL = ("numpy", "torch")
stubbed: set[str] = set()


class _Meta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class Stub(metaclass=_Meta):
    def __init__(self, *args: Any, **more: Any) -> None:
        pass

    def __call__(self, *args: Any, **more: Any) -> Any:
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: stubs modules that are not installed, if SGLang imports them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] in _REAL or not self._asked_by_sglang():
            return None
        stubbed.add(name.split(".")[0])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    @staticmethod
    def _asked_by_sglang() -> bool:
        frame = sys._getframe()
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.split(".")[0] == "sglang":
                return True
            if name != __name__ and not name.startswith("importlib"):
                return False
            frame = frame.f_back  # type: ignore[assignment]
        return False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Own(_Missing):
    """The first finder: stubs SGLang's own readers of model descriptions."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in _OWN and not name.startswith(_OWN[0] + "."):
            return None
        stubbed.add(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)


def schedule_policy() -> Any:
    """Returns SGLang's module schedule_policy; ImportError if SGLang or PyTorch is not installed."""
    for needed in ("torch", "sglang"):
        if importlib.util.find_spec(needed) is None:
            raise ImportError(f"{needed} is not installed")
    finders: list[importlib.abc.MetaPathFinder] = [_Own(), _Missing()]
    sys.meta_path.insert(0, finders[0])
    sys.meta_path.append(finders[1])
    return importlib.import_module("sglang.srt.managers.schedule_policy")
