"""Generates the C structs, the pairs of C and C++ fields, and the fields of the log."""

import re

from declarations import enum, struct, variant
from model import (
    CHECKED,
    ENUMS,
    EVENTS,
    EXACT,
    HEADER,
    KV,
    LOGGED,
    MADE,
    NUMBERS,
    ONE,
    QUEUE_REVISED,
    ROUTER,
    SCHEDULER,
    STRUCTS,
    c_enum,
    english,
    member,
    number_of,
    snake,
    revised_bits,
)
from text import BY, comment, declared, filled, guarded, listed

# ---- include/takt/c/model.h -----------------------------------------------------------------------------------------


def words_of(name):
    made = MADE[name]
    return english(made.text, name, [each.type for each in made.fields])


def c_struct(made, name, text=""):
    out = comment(text) + f"typedef struct {name} {{\n"
    for place in made.places:
        out += declared(f"{place.type} {place.name}{f'[{place.count}]' if place.count else ''};", place.text)
    return out + f"}} {name};\n\n"


def c_enum_of(name):
    _, path, where = ENUMS[name]
    text, values = enum(path, name)
    near = name.split("::")[0], (name,)
    rows = [(c_enum(name)[value], number, english(words, *near)) for value, number, words in values]
    return comment(english(text, *near)) + f"enum {{  // {where}\n{listed(rows)}}};\n\n"


def events():
    bits = [(f"TAKT_REVISED_{name}", bit, text) for name, (bit, text) in (revised_bits() | QUEUE_REVISED).items()]
    out = "// Fields of the request that the event updates; the others keep their values.\n"
    out += f"enum {{  // takt_event_revised.fields\n{listed(bits)}}};\n\n"
    order = sorted(NUMBERS, key=NUMBERS.get)
    out += "enum {  // takt_event.type; comments name the receivers and the member of the union\n"
    for name in order:
        who = [of for of, taken in (("schedulers", SCHEDULER), ("routers", ROUTER)) if name in taken]
        part = "" if name == "Drain" else f": u.{member(name)}"
        out += comment(words_of(name), "  ")
        out += f"  {number_of(name)} = {NUMBERS[name]}{',' if name != order[-1] else ''}  // {', '.join(who)}{part}\n"
    out += "};\n\n"
    for name in order:
        if name not in ONE and name not in KV and name != "Drain":
            out += c_struct(MADE[name], f"takt_event_{snake(name)}")
    out += "typedef struct takt_event_kv {\n  uint64_t request;\n"
    tokens = ". ".join(f"{number_of(name)}: {english(MADE[name].fields[1].text)}" for name in KV)
    out += declared("int32_t tokens;", tokens) + "  uint32_t reserved;\n} takt_event_kv;\n\n"
    out += "// An event, 64 bytes. Its pointers must be valid during the call.\n"
    out += "typedef struct takt_event {\n  uint32_t type;\n  uint32_t reserved;\n  union {\n"
    out += "    uint64_t request;  // for events with no other data\n"
    for part in dict.fromkeys(member(name) for name in order if name not in ONE and name != "Drain"):
        out += f"    takt_event_{part} {part};\n"
    return out + "    uint64_t words[7];\n  } u;\n} takt_event;\n\n"


def model_header():
    body = c_enum_of("FaultKind")
    for name, (c, path, _) in STRUCTS.items():
        if name == "StepLimits":
            body += c_enum_of("TurnWhy") + events()
        for each, (_, _, where) in ENUMS.items():
            if where.startswith(f"{c}."):
                body += c_enum_of(each)
        if MADE[name].flags:
            rows = [(bit, number, text) for bit, (number, text) in MADE[name].flags.items()]
            body += f"enum {{  // {c}.flags\n{listed(rows)}}};\n\n"
        body += c_struct(MADE[name], c, words_of(name))
    body += c_enum_of("Idle")
    head = "// Requests, events and parts of plans in C (docs/howto/c.md). takt.h includes this file.\n" + BY
    return head + guarded("include/takt/c/model.h", ["<stddef.h>", "<stdint.h>"], body.rstrip("\n") + "\n")


# ---- src/c/fields.h -------------------------------------------------------------------------------------------------


def pair(c, cxx, lines):
    head = f"template <class F, Either<{c}> C, Either<{cxx}> T>\nvoid Pair(const F& f, C& c, T& t) {{\n"
    return head + "".join(f"  {line}\n" for line in lines) + "}\n"


def of_union(name, code):
    """Replaces `c` by its part of the event's union."""
    return re.sub(r"\bc\.", f"c.u.{member(name)}.", code)


def pair_event(name):
    if name == "Drain":
        return "template <class F, Either<takt_event> C>\nvoid Pair(const F&, C&, const Drain&) {}\n"
    if name in ONE:
        return pair("takt_event", name, ["f(c.u.request, t.request);"])
    return pair("takt_event", name, [of_union(name, line) for line in MADE[name].same])


def sound(function, argument, conditions):
    """Returns the code of a function that returns the first status other than TAKT_OK."""
    conditions = list(dict.fromkeys(conditions))
    if not conditions:
        return f"inline takt_status {function}const {argument}&) {{ return TAKT_OK; }}\n"
    status = conditions[0] if len(conditions) == 1 else f"FirstOf({', '.join(conditions)})"
    return f"inline takt_status {function}const {argument}& c) {{\n{filled(f'return {status};', '  ', ' ' * 17)}\n}}\n"


def pairs():
    body = "namespace takt::c {\n\n"
    for name in STRUCTS:
        if name in EXACT:
            c = STRUCTS[name][0]
            body += f"TAKT_SAME_SIZE({name}, {c});\n"
            body += "".join(f"TAKT_SAME_PLACE({name}, {c}, {each.name});\n" for each in MADE[name].fields)
    body += "\n"
    for name in ENUMS:
        kind = name.split("::")[0]
        body += "".join(
            f"static_assert(int{{{c}}} == static_cast<int>({kind}::{value}));\n" for value, c in c_enum(name).items()
        )
    body += "\n// Calls f with each pair of fields.\n"
    others = {name: c for name, (c, _, kind) in STRUCTS.items() if kind != "exact"}
    for name, c in others.items():
        body += pair(c, name, MADE[name].same)
    revised = [f"f.IfRevised(TAKT_REVISED_{bit}, c.{bit.lower()}, t.{bit.lower()});" for bit in revised_bits()]
    body += pair("takt_request", "Revised", ["f(c.id, t.request);", *revised])
    all_bits = " | ".join(f"TAKT_REVISED_{bit}" for bit in revised_bits() | QUEUE_REVISED)
    body += f"\n// Fields that takt_queue_revise may update.\ninline constexpr std::uint32_t kRevised = {all_bits};\n\n"
    body += "".join(map(pair_event, NUMBERS))
    asked = {name: c for name, c in others.items() if MADE[name].sound or name in CHECKED}
    body += "\n" + "".join(f"takt_status Sound(const {c}* given);\n" for c in asked.values())
    body += "\n// Checks reserved fields, flags and arrays.\n"
    for name, c in asked.items():
        body += sound("SoundFields(", c, MADE[name].sound)
    for name in NUMBERS:
        conditions = [of_union(name, each) for each in MADE[name].sound]
        body += sound(f"SoundAs(const {name}*, ", "takt_event", conditions)
    body += "\n// The number of an event.\ntemplate <class E>\ninline constexpr std::uint32_t kNumber = 0;\n"
    for name in NUMBERS:
        body += f"template <>\ninline constexpr std::uint32_t kNumber<{name}> = {number_of(name)};\n"
    body += "\n// Calls f with the type of an event, as a null pointer; returns `otherwise` for an unknown number.\n"
    body += "template <class F, class T>\nT OfType(std::uint32_t type, T otherwise, F&& f) {\n  switch (type) {\n"
    body += "".join(f"    case {number_of(name)}: return f(static_cast<const {name}*>(nullptr));\n" for name in NUMBERS)
    body += "    default: return otherwise;\n  }\n}\n\n}  // namespace takt::c\n"
    headers = sorted({f'"takt/{path}"' for _, path, _ in [*STRUCTS.values(), *ENUMS.values()]})
    head = "// Pairs of corresponding fields in C and C++, and checks of C structs.\n" + BY
    return head + guarded("src/c/fields.h", ["<cstdint>", "", '"c/handle.h"', '"c/same.h"', *headers], body)


# ---- src/record/model_fields.h --------------------------------------------------------------------------------------


def log_fields():
    body = "namespace takt::internal {\n\n"
    for name in [*LOGGED, *SCHEDULER]:
        every = [each.name for each in struct(LOGGED.get(name) or HEADER[name], name)[1]]
        kept = [each for each in every if not each.startswith("reserved")]
        macro = "TAKT_FIELDS" if kept == every else "TAKT_FIELDS_BUT_RESERVED"
        names = kept if kept == every else [f'"{", ".join(kept)}"', *(f"object.{each}" for each in kept)]
        line = f"{macro}({', '.join([name, *names])})" if kept else f"TAKT_NO_FIELDS({name})"
        body += filled(line, "", " " * (len(macro) + 1)) + "\n"
    log_alone = {"LogPolicy": "policy_changed", "LogRetention": "retention_set", "LogOptions": "options_changed"}
    names = [f'"{log_alone.get(name) or snake(name)}"' for name, _ in variant("record.h", "LoggedEvent")]
    body += "\nconstexpr std::string_view kEventNames[] = {  // by index in LoggedEvent\n"
    body += filled(", ".join(names) + "};", " " * 4, " " * 4) + "\n\n}  // namespace takt::internal\n"
    headers = sorted({f'"takt/{path}"' for path in [*LOGGED.values(), EVENTS[0][0]]})
    head = "// Fields of the model's structs in a log.\n" + BY
    includes = ["<string_view>", "", '"record/fields_of.h"', *headers]
    return head + guarded("src/record/model_fields.h", includes, body)
