"""Generates takt-sys/src/bindings.rs from the C header; scripts/mirrors calls it."""

from __future__ import annotations

import re
from typing import Any

SCALARS = {"float": "f32", "double": "f64", "char": "c_char", "void": "c_void", "size_t": "usize"}
SIZES = {"f32": 4, "f64": 8, "c_char": 1, "usize": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "i64": 8}
BY_HAND = ("TAKT_NEVER", "TAKT_UNSET", "TAKT_UNBOUNDED")  # defined in lib.rs


def name_of(name: str) -> str:
    return name + "_" if name in ("type", "move", "in", "ref", "as", "use") else name


def type_of(kind: str) -> str:
    """Returns the Rust type of a C type such as "const takt_request*"."""
    base, stars = kind.replace("const ", "").rstrip("* "), kind.count("*")
    number = re.fullmatch(r"(u?)int(\d+)_t", base)
    out = f"{number[1] or 'i'}{number[2]}" if number else SCALARS.get(base, base)
    for level in range(stars):
        out = f"*{'const' if level == 0 and kind.startswith('const ') else 'mut'} {out}"
    return out


def arguments(declared: list[str]) -> str:
    parts = [re.fullmatch(r"(.*?)\s*(\w+)", each) for each in declared]
    return ", ".join(f"{name_of(part[2])}: {type_of(part[1])}" for part in parts if part)


def result(kind: str) -> str:
    return "" if kind == "void" else f" -> {type_of(kind)}"


def callback(told: tuple[str, list[str]]) -> str:
    return f'Option<unsafe extern "C" fn({arguments(told[1])}){result(told[0])}>'


class Writer:
    def __init__(self, header: Any) -> None:
        self.header = header
        self.sizes = {name: (size, size) for name, size in SIZES.items()}
        self.lines = [
            "// Of include/takt/c/takt.h by scripts/mirrors; not to be edited.",
            "use core::ffi::{c_char, c_void};",
            "use core::mem::{align_of, offset_of, size_of};",
            "",
        ]

    def struct(self, struct: Any) -> None:
        fields, nested = [], []
        for field in struct.fields:
            if field.nested:
                kind = f"{struct.name}_{field.name}"
                field.nested.name = kind
                self.struct(field.nested)
            elif field.callback:
                kind = callback(field.callback)
            else:
                kind = type_of(("const " if field.const else "") + field.type + "*" * field.pointer)
            fields.append(
                (name_of(field.name), f"[{kind}; {field.count}]" if field.count else kind, kind, field.count or 1)
            )
        at = align = size = 0
        checks = []
        for name, _, kind, count in fields:
            own, its = self.sizes.get(kind, (8, 8))  # pointers and functions
            at = 0 if struct.union else (at + its - 1) // its * its
            in_c = name.removesuffix("_")
            checks.append(
                f'    ["Offset of field: {struct.name}::{in_c}"][offset_of!({struct.name}, {name}) - {at}usize];'
            )
            at += own * count
            size, align = max(size, at), max(align, its)
        size = (size + align - 1) // align * align
        self.sizes[struct.name] = size, align
        plain = (
            "Copy, Clone"
            if struct.union or any(self.is_union(each) for each in struct.fields)
            else "Debug, Copy, Clone"
        )
        self.lines += [
            "#[repr(C)]",
            f"#[derive({plain})]",
            f"pub {'union' if struct.union else 'struct'} {struct.name} {{",
        ]
        self.lines += [f"    pub {name}: {told}," for name, told, _, _ in fields] + ["}"]
        self.lines += ["#[allow(clippy::unnecessary_operation, clippy::identity_op)]", "const _: () = {"]
        self.lines.append(f'    ["Size of {struct.name}"][size_of::<{struct.name}>() - {size}usize];')
        self.lines.append(f'    ["Alignment of {struct.name}"][align_of::<{struct.name}>() - {align}usize];')
        self.lines += [*checks, "};"]

    @staticmethod
    def is_union(field: Any) -> bool:
        return field.nested is not None and field.nested.union

    def module(self) -> str:
        header = self.header
        for name, (told, types) in header.callbacks.items():
            self.lines.append(f"pub type {name} = {callback((told, types))};")
        for name in ("takt_status", "takt_result"):
            self.lines.append(f"pub type {name} = i32;")
            self.sizes[name] = 4, 4
        for name, value in header.constants.items():
            if name not in BY_HAND:
                self.lines.append(f"pub const {name}: u32 = {value};")
        for name in header.handles:
            self.lines += [
                "#[repr(C)]",
                "#[derive(Debug, Copy, Clone)]",
                f"pub struct {name} {{",
                "    _unused: [u8; 0],",
                "}",
            ]
        for struct in header.structs:
            self.struct(struct)
        self.lines.append('unsafe extern "C" {')
        self.lines += [
            f"    pub fn {each.name}({arguments(each.declared)}){result(each.result)};" for each in header.functions
        ]
        return "\n".join([*self.lines, "}", ""])
