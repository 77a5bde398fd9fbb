"""Formats generated text."""

import re
import textwrap

BY = "// Made by scripts/mirrors of include/takt/model/; not to be edited.\n"


def filled(text, first="", later=""):
    return textwrap.fill(
        text, 120, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def comment(text, indent=""):
    return filled(text, f"{indent}// ", f"{indent}// ") + "\n" if text else ""


def declared(code, text, indent="  "):
    """Returns a declaration with its comment, on the same line if it fits."""
    if not text:
        return f"{indent}{code}\n"
    if len(indent) + len(code) + 4 + len(text) <= 119:
        return f"{indent}{code}  // {text}\n"
    return comment(text if re.match(r"\w+_|`", text) else text[0].upper() + text[1:], indent) + f"{indent}{code}\n"


def listed(values, indent="  "):
    """Returns the values of an enum, given as (name, number, comment)."""
    commas = [","] * (len(values) - 1) + [""]
    return "".join(declared(f"{n} = {v}{comma}", text, indent) for (n, v, text), comma in zip(values, commas))


def guarded(path, includes, body):
    guard = re.sub(r"\W", "_", "TAKT_" + path.removeprefix("include/takt/")).upper() + "_"
    lines = "".join(f"#include {each}\n" if each else "\n" for each in includes)
    return f"#ifndef {guard}\n#define {guard}\n\n{lines}\n{body}\n#endif  // {guard}\n"
