"""Reads structs, enums and variants from the headers, with their comments."""

import pathlib
import re
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIELD = re.compile(r"^(?P<type>(?:const )?[A-Za-z_][\w:]*(?:<.*>)?\*?) (?P<names>\w+.*?);\s*(?:// (?P<text>.*))?$")
NAME = re.compile(r"(\w+)\s*(?:\{(.*)\}|= (.*))?$")
NOT_DATA = re.compile(r"^ \w+:$|^  [^=/]*\w\(|^    ")  # access, a function, or the rest of one
NO_FIELD = re.compile(r"static|friend|constexpr|using|template|enum|return|explicit")


@dataclass
class Field:
    name: str
    type: str
    default: str
    text: str  # comment of the field
    line: int  # line in the header; fields of one declaration share it


def lines_of(path):
    return (ROOT / "include/takt" / path).read_text().split("\n")


def above(lines, at):
    """Returns the comment above a line."""
    text = []
    while at > 0 and re.match(r" *// ", lines[at - 1]):
        at -= 1
        text.insert(0, lines[at].strip()[3:])
    return " ".join(text)


def begin(lines, what, path):
    """Returns the line of a declaration, and its indentation."""
    for at, line in enumerate(lines):
        if found := re.match(rf"( *){what}", line):
            return at, found[1]
    sys.exit(f"{path}: there is no {what}")


def struct(path, name):
    """Returns the comment and the fields of a struct."""
    lines = lines_of(path)
    at, indent = begin(lines, f"struct {name} {{", path)
    text = above(lines, at)
    if lines[at].rstrip().endswith("{};"):
        return text, []
    before, fields = [], []
    at += 1
    while lines[at] != indent + "};":
        line = lines[at].removeprefix(indent)
        at += 1
        if line.startswith("  // "):
            before.append(line[5:])
            continue
        while re.match(r"  \S", line) and not re.search(r"([;{}:]|//.*)$", line):  # the declaration goes on
            line += " " + lines[at].strip()
            at += 1
        if re.search(r"\{$", line):  # a function, or a type
            while not re.match(indent + r"  \};?$", lines[at]):
                at += 1
            at += 1
        elif (
            (field := FIELD.match(line[2:]))
            and not re.match(r"\w+\(", field["names"])
            and not NO_FIELD.match(line.strip())
        ):
            after = [field["text"]] if field["text"] else []
            while after and re.match(r"^ {8,}// ", lines[at]):  # the comment continues
                after.append(lines[at].strip()[3:])
                at += 1
            if before and after:
                after[0] = after[0][0].upper() + after[0][1:]
            for part in re.split(r", (?=\w+(?:\{| = ))", field["names"]):
                for each in [part] if re.search(r"[{=]", part) else part.split(", "):
                    one = NAME.match(each) or sys.exit(f"{path}: cannot parse: {line}")
                    default = (one[2] or one[3] or "").strip()
                    fields.append(Field(one[1], field["type"], default, " ".join(before + after), at))
        elif line.strip() and not NO_FIELD.match(line.strip()) and not NOT_DATA.search(line):
            sys.exit(f"{path}: {name}: cannot read the declaration: {line.strip()}")
        before = []
    return text, fields


def enum(path, name):
    """Returns the comment of an enum, and the name, number and comment of each value."""
    lines = lines_of(path)
    *owner, name = name.split("::")
    at = begin(lines, f"struct {owner[0]} {{", path)[0] if owner else 0
    at += begin(lines[at:], rf"enum (?:class )?{name}\b", path)[0]
    body = lines[at].split("{", 1)[1]
    end = at
    while "}" not in body:
        end += 1
        body += "\n" + lines[end]
    values, number = [], 0
    for value, told, text in re.findall(r"(k\w+)(?: = (\d+))?(?:,|\s|$) *(?:// (.*))?", body.split("};")[0]):
        number = int(told) if told else number
        values.append((value, number, text))
        number += 1
    return above(lines, at), values


def variant(path, name):
    """Returns the alternatives of a variant with their comments."""
    text = "\n".join(lines_of(path))
    found = re.search(rf"using {name} =\s*std::variant<(.*?)>;", text, re.S) or sys.exit(f"{path}: there is no {name}")
    return [(one, text.strip()) for one, text in re.findall(r"(?m)\b([A-Z]\w*)\b,?(?:[ ]*//([^\n]*)$)?", found[1])]
