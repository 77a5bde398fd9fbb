#!/usr/bin/env python3
"""Generates takt/_abi.py from the C header: the version, constants, structs and functions, for ctypes.

    - tools/abi.py            writes the module
    - tools/abi.py --check    exits with 1 if the module does not match the header
    - tools/abi.py --probe    prints a C program that prints the size and the offsets of every struct
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MODULE = HERE / "takt" / "_abi.py"

SCALARS = {
    "uint8_t": "ctypes.c_uint8",
    "uint16_t": "ctypes.c_uint16",
    "uint32_t": "ctypes.c_uint32",
    "uint64_t": "ctypes.c_uint64",
    "int32_t": "ctypes.c_int32",
    "int64_t": "ctypes.c_int64",
    "size_t": "ctypes.c_size_t",
    "float": "ctypes.c_float",
    "double": "ctypes.c_double",
    "char": "ctypes.c_char",
}


def header_path() -> Path:
    """Returns the path of the header, in the repository or in a source distribution."""
    for tree in (HERE / "cpp", HERE.parent.parent):
        if (tree / "include/takt/c/takt.h").exists():
            return tree / "include/takt/c/takt.h"
    raise SystemExit("abi.py: found no include/takt/c/takt.h for this package")


def header_text() -> str:
    """Returns the header with takt's own includes expanded."""
    path = header_path()
    return re.sub(r'#include "takt/c/(\w+\.h)"', lambda found: (path.parent / found[1]).read_text(), path.read_text())


def version() -> str:
    """Returns the version of the library, which is also that of the package."""
    found = re.search(r'define TAKT_VERSION "([^"]+)"', (header_path().parent.parent / "version.h").read_text())
    if found is None:
        raise SystemExit("abi.py: version.h defines no TAKT_VERSION")
    return found[1]


@dataclass
class Field:
    name: str
    type: str  # C type without const; "" for a nested struct or union
    pointer: bool = False
    const: bool = False  # the type pointed to is const
    count: int = 0  # elements of an array; 0: no array
    callback: tuple[str, list[str]] | None = None  # result, and arguments with their names
    nested: Struct | None = None


@dataclass
class Struct:
    name: str
    fields: list[Field]
    union: bool = False


@dataclass
class Function:
    name: str
    result: str
    arguments: list[str]
    declared: list[str]  # arguments with their names


class Header:
    """The declarations of takt.h."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*", "", text)
        self.constants: dict[str, int] = {}
        self.enums: list[dict[str, int]] = []
        self.scalars = dict(SCALARS)
        self.structs: list[Struct] = []
        self.handles = re.findall(r"typedef struct (takt_\w+) \1;", text)
        self.functions: list[Function] = []
        self.callbacks: dict[str, tuple[str, list[str]]] = {}
        known = {"INT64_MAX": 2**63 - 1, "INT64_MIN": -(2**63), "INT32_MAX": 2**31 - 1}
        for name, value in re.findall(r"#define (TAKT_[A-Z0-9_]+) +(\w+)", text):
            if name not in ("TAKT_API", "TAKT_NOEXCEPT"):
                self.constants[name] = known[value] if value in known else int(value.rstrip("uUlL"), 0)
        text = re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.M)
        for body in re.findall(r"(?<![\w])enum *\{([^}]*)\}", text):
            items = [part.split("=") for part in body.split(",") if part.strip()]
            self.enums.append({name.strip(): int(value, 0) for name, value in items})
            self.constants.update(self.enums[-1])
        for old, new in re.findall(r"typedef (\w+) (takt_\w+);", text):
            self.scalars[new] = self.scalars[old]
        for result, name, arguments in re.findall(r"typedef ([\w ]+?\**) *\(\*(takt_\w+)\)\(([^)]*)\);", text):
            self.callbacks[name] = (result.strip(), split_declared(arguments))
        for match in re.finditer(r"typedef struct (takt_\w+) \{", text):
            fields, _ = self._fields(text, match.end())
            self.structs.append(Struct(match[1], fields))
        for result, name, arguments in re.findall(
            r"TAKT_API ([\w ]+?\**) *(takt_\w+)\(([^)]*)\) *TAKT_NOEXCEPT;", text
        ):
            self.functions.append(Function(name, result.strip(), split_arguments(arguments), split_declared(arguments)))

    def _fields(self, text: str, at: int) -> tuple[list[Field], int]:
        """Returns the fields up to the closing brace, and the position after it."""
        fields: list[Field] = []
        while True:
            while text[at].isspace():
                at += 1
            if text[at] == "}":
                return fields, at + 1
            nested = re.compile(r"(struct|union) *\{").match(text, at)
            if nested:
                inner, at = self._fields(text, nested.end())
                name = re.compile(r"\s*(\w+)\s*;").match(text, at)
                assert name, text[at : at + 40]
                fields.append(Field(name[1], "", nested=Struct("", inner, nested[1] == "union")))
                at = name.end()
                continue
            end = text.index(";", at)
            fields += self._declared(" ".join(text[at:end].split()))
            at = end + 1

    def _declared(self, text: str) -> list[Field]:
        function = re.fullmatch(r"([\w ]+?\**) *\(\*(\w+)\)\((.*)\)", text)
        if function:
            return [Field(function[2], "", callback=(function[1].strip(), split_declared(function[3])))]
        const = text.startswith("const ")
        text = text.removeprefix("const ")
        kind, names = text.split(" ", 1)
        pointer = kind.endswith("*")
        fields = []
        for name in names.split(","):
            array = re.fullmatch(r"\s*(\w+)(?:\[(\d+)\])?", name)
            assert array, text
            fields.append(Field(array[1], kind.rstrip("*"), pointer, const, int(array[2] or 0)))
        return fields


def names_of(enum: dict[str, int]) -> dict[int, str]:
    """Returns the names of an enum's numbers, in lower case and without their common first words."""
    words = [name.split("_") for name in enum]
    shared = 0
    while shared < min(map(len, words)) - 1 and len({each[shared] for each in words}) == 1:
        shared += 1
    return {value: "_".join(each[shared:]).lower() for each, value in zip(words, enum.values())}


def split_declared(text: str) -> list[str]:
    """Returns arguments with their names."""
    return [] if text.strip() == "void" else [" ".join(part.split()) for part in text.split(",")]


def split_arguments(text: str) -> list[str]:
    """Returns the types of arguments."""
    return [re.sub(r"\s*\w+$", "", part) for part in split_declared(text)]


class Writer:
    def __init__(self, header: Header) -> None:
        self.header = header
        self.known: set[str] = set()
        self.lines: list[str] = []

    def argument(self, kind: str) -> str:
        """Returns the ctypes type of an argument: every pointer except a text is an address."""
        kind = kind.replace("const ", "").strip()
        if kind == "char*":
            return "ctypes.c_char_p"
        return "ctypes.c_void_p" if kind.endswith("*") else self.header.scalars[kind]

    def result(self, kind: str) -> str:
        return "None" if kind == "void" else self.argument(kind)

    def callback(self, told: tuple[str, list[str]]) -> str:
        arguments = [re.sub(r"\s*\w+$", "", each) for each in told[1]]
        return f"ctypes.CFUNCTYPE({', '.join([self.result(told[0]), *map(self.argument, arguments)])})"

    def field_type(self, field: Field, owner: str) -> tuple[str, str]:
        """Returns the ctypes type, and the type for type checkers."""
        if field.nested:
            name = f"{owner}_{field.name}"
            self.struct(Struct(name, field.nested.fields, field.nested.union))
            return name, name
        if field.callback:
            return self.callback(field.callback), "Any"
        if field.type in self.header.callbacks:
            return field.type, "Any"
        if field.pointer:
            if field.type == "char":
                return "ctypes.c_char_p", "builtins.bytes | None"
            if field.type in self.known:
                return f"ctypes.POINTER({field.type})", "Any"
            if field.type in self.header.scalars:
                return f"ctypes.POINTER({self.header.scalars[field.type]})", "Any"
            return "ctypes.c_void_p", "int | None"
        kind = self.header.scalars.get(field.type, field.type)
        if field.count:
            read = "builtins.bytes" if field.type == "char" else f"ctypes.Array[{kind}]"
            return f"{kind} * {field.count}", read
        if field.type in self.known:
            return kind, kind
        return kind, "float" if field.type in ("float", "double") else "int"

    def struct(self, struct: Struct) -> None:
        types = [(field.name, *self.field_type(field, struct.name)) for field in struct.fields]
        out = [f"class {struct.name}(ctypes.{'Union' if struct.union else 'Structure'}):"]
        out += [f"    {name}: {read}" for name, _, read in types]
        out += ["    _fields_ = ["]
        out += [f'        ("{name}", {kind}),' for name, kind, _ in types]
        out += ["    ]", "", ""]
        self.lines += out
        self.known.add(struct.name)

    def module(self) -> str:
        header = self.header
        self.lines = [
            '"""The C interface for ctypes. tools/abi.py writes this file from include/takt/c/takt.h."""',
            "",
            "# ruff: noqa",
            "from __future__ import annotations",
            "",
            "import builtins",
            "import ctypes",
            "from typing import Any, Final",
            "",
        ]
        self.lines += [f'VERSION: Final = "{version()}"', ""]
        self.lines += [f"{name}: Final = {value}" for name, value in header.constants.items()] + [""]
        self.lines.append("# Names of the numbers of each enum, by the enum's first constant.")
        self.lines.append("ENUMS: Final[dict[str, dict[int, str]]] = {")
        for enum in header.enums:
            self.lines.append(f'    "{next(iter(enum))}": {{')
            self.lines += [f'        {value}: "{name}",' for value, name in names_of(enum).items()] + ["    },"]
        self.lines += ["}", "", ""]
        for name, told in header.callbacks.items():
            self.lines.append(f"{name} = {self.callback(told)}")
        self.lines += ["", ""]
        for struct in header.structs:
            self.struct(struct)
        self.lines.append("STRUCTS: Final[tuple[type[ctypes.Structure], ...]] = (")
        self.lines += [f"    {struct.name}," for struct in header.structs] + [")", ""]
        self.lines.append("# Types of the result and the arguments; addresses for pointers.")
        self.lines.append("FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {")
        for function in header.functions:
            arguments = ", ".join(map(self.argument, function.arguments))
            self.lines.append(f'    "{function.name}": ({self.result(function.result)}, [{arguments}]),')
        self.lines += ["}", ""]
        return "\n".join(self.lines)


def probe(header: Header) -> str:
    """Returns a C program that prints "struct size" and "struct.field offset" for every struct and field."""

    def places(of: str, path: str, fields: list[Field]) -> list[str]:
        out = []
        for field in fields:
            name = f"{path}{field.name}"
            out.append(f'  printf("{of}.{name} %zu\\n", offsetof({of}, {name}));')
            if field.nested:
                out += places(of, name + ".", field.nested.fields)
        return out

    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "takt/c/takt.h"', "", "int main(void) {"]
    for struct in header.structs:
        lines.append(f'  printf("{struct.name} %zu\\n", sizeof({struct.name}));')
        lines += places(struct.name, "", struct.fields)
    return "\n".join([*lines, "  return 0;", "}", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--probe", action="store_true")
    arguments = parser.parse_args()
    header = Header(header_text())
    if arguments.probe:
        sys.stdout.write(probe(header))
        return 0
    text = Writer(header).module()
    if not arguments.check:
        MODULE.write_text(text)
        return 0
    if MODULE.exists() and MODULE.read_text() == text:
        return 0
    sys.stderr.write("abi.py: _abi.py does not match takt.h; run bindings/python/tools/abi.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
