"""Converts the structs of include/takt/model/ to C. Tables list all irregular cases."""

import re
import sys
from dataclasses import dataclass, field

from declarations import enum, struct, variant

# ---- irregular cases ------------------------------------------------------------------------------------------------

# C structs other than events: name in C, header, and kind. "exact": same layout; "grows": begins with struct_size;
# "plain": neither.
STRUCTS = {
    "Estimate": ("takt_estimate", "model/estimate.h", "exact"),
    "WorkAfter": ("takt_work_after", "model/request.h", "exact"),
    "NextCall": ("takt_next_call", "model/request.h", "exact"),
    "ModelScore": ("takt_model_score", "model/request.h", "exact"),
    "Request": ("takt_request", "model/request.h", "grows"),
    "Instance": ("takt_instance", "model/instance.h", "grows"),
    "WorkflowStage": ("takt_stage", "model/workflow.h", "plain"),
    "Workflow": ("takt_workflow", "model/workflow.h", "grows"),
    "AgentRank": ("takt_agent_rank", "model/agent_ranks.h", "exact"),
    "StepLimits": ("takt_limits", "model/step.h", "grows"),
    "PlanEntry": ("takt_plan_entry", "model/step.h", "exact"),
    "RowResult": ("takt_row_result", "model/step.h", "exact"),
    "KvMove": ("takt_move", "model/step.h", "exact"),
    "Preemption": ("takt_preemption", "model/step.h", "exact"),
    "Failure": ("takt_failure", "model/step.h", "exact"),
    "DroppedPrefix": ("takt_dropped_prefix", "model/step.h", "exact"),
    "CacheHint": ("takt_cache_hint", "model/step.h", "exact"),
    "HostChunk": ("takt_host_chunk", "model/step.h", "exact"),
    "AnyWaitingQueue::Ran": ("takt_ran", "queue/waiting_queue.h", "exact"),
    "AnyWaitingQueue::Holding": ("takt_holding", "queue/waiting_queue.h", "exact"),
    "Placement": ("takt_placement", "router/notices.h", "exact"),
    "WorkflowEnd": ("takt_workflow_end", "model/workflow.h", "exact"),
    "WorkflowFault": ("takt_workflow_fault", "model/workflow.h", "exact"),
    "ToolObservation": ("takt_tool_call", "learning/tool_profile.h", "exact"),
}
# C enums: prefix of their numbers, header, and field that holds a number.
ENUMS = {
    "TurnWhy": ("TAKT_TURN", "model/event.h", "takt_event_turn_ended.why"),
    "InstanceRole": ("TAKT_ROLE", "model/instance.h", "takt_instance.role"),
    "FaultKind": ("TAKT_FAULT", "model/fault.h", "takt_fault.kind: docs/reference/mistakes.md"),
    "PlanEntry::Flag": ("TAKT_ENTRY", "model/step.h", "takt_plan_entry.flags"),
    "RowResult::Flag": ("TAKT_ROW", "model/step.h", "takt_row_result.flags"),
    "KvAction": ("TAKT_KV", "model/step.h", "takt_move.action, takt_preemption.action, takt_host_chunk.action"),
    "FailReason": ("TAKT_FAIL", "model/step.h", "takt_failure.reason"),
    "CacheAction": ("TAKT_CACHE", "model/step.h", "takt_cache_hint.action"),
    "Idle": ("TAKT_IDLE", "model/step.h", "takt_plan.idle"),
    "WorkflowEnd::How": ("TAKT_WORKFLOW", "model/workflow.h", "takt_workflow_end.how"),
}
EVENTS = ("model/event.h", "Event"), ("model/instance.h", "RouterEvent")
PARTS = {"TokensServed": "model/instance.h", "InstanceReport": "model/instance.h"}  # fields of their owner in C
# Order of fields in C if it differs. "x?" is the flag that x is set; fields that are not named come last.
ORDER = {
    "Request": "id workflow stage agent tenant adapter arrival workflow_arrival deadline expires_at prompt_tokens "
    "max_output_tokens sequences priority output_tokens workflow_tokens_left after next_call compute prefix",
    "Instance": "kv_tokens id model capacity token_s profile role max_adapters",
    "WorkflowStage": "stage after cost_s",
    "Workflow": "open id tenant arrival deadline stages",
    "RequestEnded": "request instance served failed served?",
}
CHECKED = set()  # structs that an event refers to, so that each has a function Sound
NOT_IN_C = {"Workflow": {"expected"}}
# TAKT_REVISED_... bits that only takt_queue_revise accepts.
QUEUE_REVISED = {
    "PROMPT_TOKENS": (256, "takt_queue_revise only, for example for a streamed session"),
    "ARRIVAL": (512, "takt_queue_revise only; the arrival of the workflow stays"),
}
NOT_NEGATIVE = {"TurnEnded": ("expected", "pin")}
WORDS = {
    "kNever": "TAKT_NEVER",
    "kUnset": "TAKT_UNSET",
    "kUnbounded": "TAKT_NEVER",
    "kLedger": "TAKT_KV_MODE_LEDGER",
    "kLevels": "0.1, 0.25, 0.5, 0.75, 0.9",
    "kOracle": "TAKT_KV_MODE_ORACLE",
    "StepPlan": "takt_plan",
    "SaltedHash": "takt_salted_hash",
    "Router::AddProfile": "takt_router_add_profile",
    "Computed": "takt_queue_computed",
}
# Structs in the log other than events, and fields missing from it.
LOGGED = {
    "PrefixBlocks": "model/request.h",
    "AgentRank": "model/agent_ranks.h",
    "AgentRanks": "model/agent_ranks.h",
    "WorkAfter": "model/request.h",
    "NextCall": "model/request.h",
    "Request": "model/request.h",
    "PlanEntry": "model/step.h",
    "KvMove": "model/step.h",
    "Preemption": "model/step.h",
    "Failure": "model/step.h",
    "RowResult": "model/step.h",
}

# ---- C++ to C -------------------------------------------------------------------------------------------------------

SIZES = {
    "uint8_t": 1,
    "uint16_t": 2,
    "uint32_t": 4,
    "int32_t": 4,
    "uint64_t": 8,
    "int64_t": 8,
    "float": 4,
    "double": 8,
    "size_t": 8,
}
ALIGNS = dict(SIZES)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def c_enum(name):
    prefix, path, _ = ENUMS[name]
    return {value: f"{prefix}_{snake(value[1:]).upper()}" for value, _, _ in enum(path, name)[1]}


def scalar(kind, owner, wide):
    """Returns the C type of a number; None: not a number."""
    kind = kind.removeprefix("std::")
    if kind.endswith("Id"):
        return "uint64_t"
    if kind in ("Tokens", "Blocks"):
        return "int32_t"
    if kind in ("Duration", "TimePoint"):
        return "int64_t"
    if kind in SIZES:
        return kind
    if kind in ENUMS or f"{owner}::{kind}" in ENUMS or kind == "Kind":
        return "uint32_t" if wide else "uint8_t"
    return "uint32_t" if kind == "bool" else None


@dataclass
class Place:
    """A field in C."""

    name: str
    type: str
    text: str = ""
    count: int = 0  # elements of an array

    @property
    def align(self):
        return 8 if self.type.endswith("*") else ALIGNS[self.type]

    @property
    def size(self):
        return (8 if self.type.endswith("*") else SIZES[self.type]) * (self.count or 1)


@dataclass
class Struct:
    """A C++ struct and its C form."""

    name: str
    text: str
    fields: list
    places: list = field(default_factory=list)
    same: list = field(default_factory=list)  # statements that pair the fields: c in C, t in C++
    sound: list = field(default_factory=list)  # statuses as expressions
    flags: dict = field(default_factory=dict)  # bits in C: number and comment


def english(text, owner="", kinds=()):
    """Converts a C++ comment to C's names."""
    near = {}
    for kind in [*ENUMS]:
        for value, name in c_enum(kind).items():
            if value not in near or kind in kinds or kind.startswith(f"{owner}::"):
                near[value] = name
    names = {name: c for name, (c, *_) in STRUCTS.items()} | {
        name: f"TAKT_EVENT_{snake(name).upper()}" for name in NUMBERS
    }

    def word(found):
        name = found[0]
        if name in WORDS or name in near:
            return WORDS.get(name) or near[name]
        first, _, member = name.partition("::")
        starts = re.search(r"(^|[.:] )$", text[: found.start()])
        if first in WORDS or (first in names and (member or re.search("[a-z][A-Z]", first) or not starts)):
            return (WORDS.get(first) or names[first]) + ("." + member if member else "")
        if re.fullmatch(r"k[A-Z]\w*", name):
            sys.exit(f"mirrors: {owner}: {name} has no name in C")
        return name

    return re.sub(r"\b[A-Zk]\w*(?:::\w+)*", word, text)


def lower(text):
    """Returns a sentence in the form after a colon."""
    return text if re.match(r"[A-Z]{2}|[A-Z]\w*[A-Z_]", text) else text[:1].lower() + text[1:]


def of_c(name, path, kind):
    """Returns a struct with its fields in C."""
    text, fields = struct(path, name.split("::")[-1])
    out = Struct(name, text, fields)
    kinds = [each.type for each in fields]
    wide = kind != "exact"
    flags = []

    def add(place, same=None):
        out.places.append(place)
        if same is not None:
            out.same.append(same)

    def number(each, told, path=""):
        c = scalar(each.type, name, wide)
        words = english(each.text, name, kinds)
        if each.type == "bool":
            words = lower(words).removeprefix("true: ")
        if each.type == "TimePoint" and each.default == "kUnset" and kind == "event":
            add(Place("dated", "uint32_t", f"1: `{each.name}` is set"))
            add(Place(each.name, c, words), f"f.Dated(c.dated, c.{each.name}, {told}.{path}{each.name});")
            return
        add(
            Place(each.name, c, "1: " + words if each.type == "bool" and words else words),
            f"f(c.{each.name}, {told}.{path}{each.name});",
        )
        if kind == "event" and each.type in ENUMS:
            out.sound.append(f"Meant(c.{each.name} <= {list(c_enum(each.type).values())[-1]})")

    def one(each):
        array = re.fullmatch(r"std::array<([\w:]+), (\d+)>", each.type)
        several = re.fullmatch(r"std::(?:span<const|vector<) *([\w:]+)>", each.type)
        words = english(each.text, name, kinds)
        if each.type == "bool" and each.default == "true":
            flags.append((each, words))
        elif each.type in STRUCTS and STRUCTS[each.type][2] == "exact":
            c = STRUCTS[each.type][0]
            add(Place(each.name, c, words), f"f(c.{each.name}, t.{each.name});")
            if any(p.name == "reserved" for p in MADE[each.type].places):
                out.sound.append(f"Meant(c.{each.name}.reserved == 0)")
        elif each.type in STRUCTS:
            add(Place(each.name, f"const {STRUCTS[each.type][0]}*", words), f"f.Struct(c.{each.name}, t.{each.name});")
            out.sound.append(f"Sound(c.{each.name})")
            CHECKED.add(each.type)
        elif each.type in PARTS:
            for inner in struct(PARTS[each.type], each.type)[1]:
                number(inner, "t", f"{each.name}.")
        elif each.type == "PrefixBlocks":
            add(
                Place(
                    "prefix_hashes",
                    "const uint64_t*",
                    "of the prompt's leading blocks, each of a block and all before it; or NULL",
                )
            )
            add(Place("n_prefix_hashes", "size_t"))
            add(Place("prefix_block_tokens", "int32_t"), "f.Prefix(c, t.prefix);")
            out.sound.append("Given(c.prefix_hashes, c.n_prefix_hashes)")
        elif array:
            add(Place(each.name, scalar(array[1], name, wide), words, int(array[2])))
            if not each.name.startswith("reserved"):
                out.same.append(f"f(c.{each.name}, t.{each.name});")
        elif several:
            inner = scalar(several[1], name, wide) or STRUCTS[several[1]][0]
            add(Place(each.name, f"const {inner}*", words + "; or NULL" if words else "or NULL"))
            add(Place(f"n_{each.name}", "size_t"), f"f.Array(c.{each.name}, c.n_{each.name}, t.{each.name});")
            out.sound.append(f"Given(c.{each.name}, c.n_{each.name})")
        elif (some := re.fullmatch(r"std::optional<(\w+)>", each.type)) and some[1] in PARTS:
            inner = struct(PARTS[some[1]], some[1])[1]
            for part in inner:
                add(Place(part.name, scalar(part.type, name, wide), english(part.text, name, kinds)))
            pairs = " ".join(f"f(c.{part.name}, given.{part.name});" for part in inner)
            out.same.append(f"f.Optional(c.{each.name}, t.{each.name}, [&](auto& given) {{ {pairs} }});")
        elif scalar(each.type, name, wide):
            number(each, "t")
        else:
            sys.exit(f"mirrors: {path}: {name}::{each.name} of type {each.type} has no form in C")

    by_name = {each.name: each for each in fields}
    first = ORDER.get(name, "").split()
    order = first + [n for n in by_name if n not in first and f"{n}?" not in first]
    for asked in order:
        if asked.endswith("?"):
            inner = " and ".join(
                f"`{part.name}`"
                for part in struct(PARTS[by_name[asked[:-1]].type[14:-1]], by_name[asked[:-1]].type[14:-1])[1]
            )
            add(Place(asked[:-1], "uint32_t", f"1: {inner} are valid"))
        elif asked not in NOT_IN_C.get(name, ()):
            one(by_name[asked])
    c = STRUCTS[name][0] if name in STRUCTS else ""
    if flags:
        out.places.insert(0, Place("flags", "uint32_t"))
        out.flags = {
            f"{c.upper()}_UN{each.name.upper()}": (1 << bit, words.removeprefix("false: "))
            for bit, (each, words) in enumerate(flags)
        }
        out.same[:0] = [f"f.Flag(c.flags, {bit}, t.{each.name});" for bit, (each, _) in zip(out.flags, flags)]
        out.sound.insert(0, f"Meant((c.flags & ~std::uint32_t{{{' | '.join(out.flags)}}}) == 0)")
    if kind == "grows":
        out.places.insert(0, Place("struct_size", "uint32_t"))
    fill(out, 8 if kind == "event" else 0)
    for limit in NOT_NEGATIVE.get(name, ()):
        out.sound.append(f"Meant(c.{limit} >= 0)")
    return out


def fill(out, start=0):
    """Adds reserved fields in place of padding."""
    reserved = [n for n in ("reserved", "reserved_too") if n not in [place.name for place in out.places]]
    at, places = start, []
    end = max([place.align for place in out.places], default=1)

    def pad(align):
        nonlocal at
        gap = -at % align
        if gap:
            name = reserved.pop(0)
            places.append(Place(name, "uint32_t") if gap == 4 else Place(name, "uint8_t", "", gap))
            if out.name in EXACT:
                pass
            elif gap == 4:
                out.sound.insert(0, f"Meant(c.{name} == 0)")
            at += gap

    for place in out.places:
        pad(place.align)
        places.append(place)
        at += place.size
    pad(end)
    out.places = places
    if out.name in STRUCTS:
        SIZES[STRUCTS[out.name][0]], ALIGNS[STRUCTS[out.name][0]] = at, end


NUMBERS = {}
ROUTER = [name for name, _ in variant(*EVENTS[1])]
SCHEDULER = [name for name, _ in variant(*EVENTS[0])]
for path, name in EVENTS:
    for event, number in variant(path, name):
        if number:
            NUMBERS[event] = int(number)
if set(NUMBERS) != {*ROUTER, *SCHEDULER} or len(set(NUMBERS.values())) != len(NUMBERS):
    sys.exit("mirrors: an event without a number, or a number of two events")
HEADER = {event: path for path, name in reversed(EVENTS) for event, _ in variant(path, name)}
EXACT = {name for name, (_, _, kind) in STRUCTS.items() if kind == "exact"}
MADE = {}
for name, (c, path, kind) in STRUCTS.items():
    MADE[name] = of_c(name, path, kind)

ONE, KV = [], {}  # events with only a request's id, and events with a number of tokens
for name in NUMBERS:
    text, fields = struct(HEADER[name], name)
    kinds = [each.type for each in fields]
    if name == "Revised":
        MADE[name] = Struct(
            name,
            text,
            fields,
            [
                Place("request", "const takt_request*", "id of the request, and new values of the selected fields"),
                Place("fields", "uint32_t", "TAKT_REVISED_..."),
                Place("reserved", "uint32_t"),
            ],
            ["f.Revision(c.request, c.fields, t);"],
        )
    else:
        MADE[name] = of_c(name, HEADER[name], "event")
    if kinds == ["RequestId"]:
        ONE.append(name)
    elif kinds == ["RequestId", "Tokens"]:
        KV[name] = fields[1].name
        MADE[name].places[1].name = "tokens"
        MADE[name].same = ["f(c.request, t.request);", f"f(c.tokens, t.{fields[1].name});"]


def number_of(event):
    return f"TAKT_EVENT_{snake(event).upper()}"


def member(event):
    """Returns the member of the takt_event union."""
    return "request" if event in ONE else "kv" if event in KV else snake(event)


def revised_bits():
    bits, bit = {}, 1
    of_request = {each.name for each in MADE["Request"].fields}
    for each in MADE["Revised"].fields[1:]:
        if not each.type.startswith("std::optional<") or each.name not in of_request:
            sys.exit(
                f"mirrors: Revised::{each.name}: is invalid; expected a std::optional, and a field of this name in "
                "Request, because C describes a revision by a takt_request and a mask"
            )
        while bit in [taken for taken, _ in QUEUE_REVISED.values()]:
            bit *= 2
        bits[each.name.upper()] = (bit, english(each.text, "Revised"))
        bit *= 2
    return bits


MADE["Revised"].sound = [
    f"Meant((c.fields & ~std::uint32_t{{{' | '.join(f'TAKT_REVISED_{bit}' for bit in revised_bits())}}}) == 0)",
    "Meant(c.reserved == 0)",
    "Sound(c.request)",
]
