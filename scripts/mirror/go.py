"""Generates the router's events in Go."""

import itertools
import re

from declarations import struct
from model import MADE, ONE, PARTS, ROUTER, STRUCTS, lower, member, snake
from text import BY, comment


def camel(name):
    return "".join({"id": "ID", "kv": "KV"}.get(part, part.capitalize()) for part in name.split("_"))


def events():
    """bindings/go/router_events.go"""
    out = "package takt\n\n" + BY + '\n/*\n#include "takt/c/takt.h"\n*/\nimport "C"\n\nimport "unsafe"\n'
    for name in ROUTER:
        made = MADE[name]
        kinds = {each.name: each for each in made.fields}
        for part in [*PARTS]:
            if any(part in each.type for each in made.fields):
                kinds |= {each.name: each for each in struct(PARTS[part], part)[1]}
        rows, body = [], []
        if name == "Revised":
            rows = [("Request", "Request", "the ID, and new values"), ("Fields", "RevisedFields", "fields to update")]
            body = [
                "request := &take[C.takt_request](room, 1)[0]",
                "b.request, b.fields = request, C.uint32_t(e.Fields)",
                "return e.Request.put(op, room, request)",
            ]
        for place in made.places:
            to, field = f"b.{place.name}", camel(place.name)
            text = in_go(
                kinds[place.name].text
                if place.name in kinds and "optional" not in kinds[place.name].type
                else place.text
            )
            kind = kinds[place.name].type if place.name in kinds else ""
            if name == "Revised" or place.name.startswith(("reserved", "n_")):
                continue
            if place.type.startswith("const takt_"):
                cxx = next(cxx for cxx, (c, *_) in STRUCTS.items() if c == place.type[6:-1])
                rows.append((field, cxx.removeprefix("Workflow") or cxx, text))
                body += [
                    f"{place.name} := &take[C.{place.type[6:-1]}](room, 1)[0]",
                    f"{to} = {place.name}",
                    f"if err := e.{field}.put(op, room, {place.name}); err != nil {{",
                    "\treturn err",
                    "}",
                ]
            elif array := re.fullmatch(r"const (uint\d+)_t\*", place.type):
                rows.append((field, f"[]{array[1]}", text))
                body += [
                    f"{to} = (*C.{array[1]}_t)(copied(room, e.{field}))",
                    f"b.n_{place.name} = C.size_t(len(e.{field}))",
                ]
            elif place.type == "int32_t":
                rows.append((field, "int", text))
                body += [
                    f'{place.name}, err := whole(op, "{field}", e.{field}, 0)',
                    "if err != nil {",
                    "\treturn err",
                    "}",
                    f"{to} = {place.name}",
                ]
            elif place.type == "uint32_t" and kind != "std::uint32_t":
                rows.append((field, "bool", re.sub("^1: ", "", text)))
                body.append(f"{to} = flag(e.{field})")
            else:
                rows.append((field, "Time" if kind == "TimePoint" else place.type[:-2], text))
                body.append(f"{to} = C.{place.type}(e.{field})")
        if body and body[-1] == "}" and ".put(" in body[-3]:
            body[-3:] = ["return " + body[-3].split(" := ")[1].split(";")[0]]
        elif not body or not body[-1].startswith("return"):
            body.append("return nil")
        text = in_go(made.text)
        out += "\n" + comment(f"{name}: {lower(text)}") + f"type {name} struct {{\n"
        for at, (field, kind, words) in enumerate(rows):
            near = [field]  # gofmt aligns fields without a comment between them
            near += [row[0] for row in itertools.takewhile(lambda row: not row[2], rows[at + 1 :])]
            near += [] if words else [row[0] for row in rows[max([0, *(i for i in range(at) if rows[i][2])]) : at]]
            out += (comment(words, "\t") if words else "") + f"\t{field.ljust(max(map(len, near)))} {kind}\n"
        told = re.sub(r"\bb\b", "", " ".join(body))
        arguments = [word if re.search(rf"\b{word}\b", told) else "_" for word in ("op", "room")]
        out += f"}}\n\nfunc (e {name}) put({arguments[0]} string, {arguments[1]} *room, c *C.takt_event) error {{\n"
        out += f"\tc._type = C.TAKT_EVENT_{snake(name).upper()}\n"
        if name in ONE:
            out += "\t*(*C.uint64_t)(unsafe.Pointer(&c.u)) = C.uint64_t(e.Request)\n\treturn nil\n}\n"
        else:
            out += (
                f"\tb := (*C.takt_event_{member(name)})(unsafe.Pointer(&c.u))\n"
                + "".join(f"\t{line}\n" for line in body)
                + "}\n"
            )
    return out


def in_go(text):
    """Converts a C++ comment to Go's names."""
    text = re.sub(r"\bk(Unset|Never)\b", r"\1", text)
    return re.sub(r"`(\w+)`", lambda found: camel(found[1]) if found[1].islower() else found[1], text)
