"""What people write in one line: `key=value`, and `NAME[key=value,...]` for a part and those of its fields that differ.

    value = JSON | 4/255 | [value, ...] | {key=value, ...} | NAME[key=value, ...] | a word

Commas part values, but not inside brackets and quotes. Records name the measures of an audit in the same way.
"""

import re
from functools import reduce
from typing import Any

from holdfast.config.tables import Table, nest, over
from holdfast.core import registry
from holdfast.runtime.checked import describe_value, number
from holdfast.runtime.errors import BadValue, unknown
from holdfast.storage.documents import DEPTH, TooDeep, parse_json

_CLOSING = {"[": "]", "{": "}"}
_WORDS = {"True": True, "False": False, "None": None}  # as Python writes them, and so names in records
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)
_PART = re.compile(r"([A-Za-z_]\w*)\[(.*)\]", re.DOTALL)


def setting(text: str) -> Table:
    """Return what `--set` says as a table: `{"adversary": {"threat": {"radius": 0.1}}}`."""
    try:
        return nest(*_pair(text))
    except ValueError as error:
        example = "key=value, for example breakaway_risk.attack.steps=20"
        raise BadValue(f"--set: expected {example}, got {_quote(text)}: {error}") from None


def part_table(text: str) -> Table:
    """Return the table of a part, {"name": "it", "attack": {"steps": 5}} of "it[attack.steps=5]", of a name a table.

    "WHAT under THREAT", a quantity and a threat or another disturbance, is the measure `under` of both.
    """
    # Brackets that are still open hold a text in which the word means nothing
    what, under, threat = text.partition(" under ")
    if under and what.count("[") == what.count("]"):
        # Before its parameters are read, as a wrong name says more than they do
        name, others = threat.partition("[")[0].strip(), registry.names("disturbances")
        if name not in (known := (*registry.names("threats"), *others)):
            raise unknown("threat", name, known)
        # Where a threat is expected, the kind of what is none must be said
        kind = {"kind": "disturbances"} if name in others else {}
        return {"name": "under", "what": part_table(what.strip()), "threat": kind | part_table(threat.strip())}
    if not set("[]") & set(text):  # most texts
        return {"name": text}
    try:
        return _part(text.strip())
    except ValueError as error:
        example = "NAME[key=value,...], for example breakaway_risk[attack.steps=20]"
        raise BadValue(f"expected {example}, got {_quote(text)}: {error}") from None


def _quote(text: str) -> str:
    return repr(text) if len(text) <= 120 and text.isprintable() else describe_value(text)


def _part(text: str) -> Table:
    _split(text)  # refuses brackets that do not close
    if not (match := _PART.fullmatch(text)):
        raise ValueError("fields stand in brackets after a name, and nothing after them")
    fields = _fields(match[2])
    if not fields.keys().isdisjoint(("kind", "name")):
        raise ValueError("its name stands before the bracket")
    return {"name": match[1], **fields}


def _fields(text: str) -> Table:
    """Return the table of `key=value, ...`; a part's name comes before its fields, whatever the order."""
    pairs = [_pair(item) for item in _split(text)]
    paths = [path for path, _ in pairs]
    if twice := {path for path in paths if paths.count(path) > 1}:
        raise ValueError(f"{min(twice)} is written twice")
    shallow_first = sorted(pairs, key=lambda pair: pair[0].count("."))
    return reduce(over, (nest(path, value) for path, value in shallow_first), {})


def _pair(text: str) -> tuple[str, Any]:
    """Return the key and the value of `key=value`."""
    path, equals, written = text.partition("=")
    if not equals or not all(map(str.strip, path.split("."))):
        raise ValueError(f"{describe_value(text)} is not a key=value" if text.strip() else "a key=value is missing")
    return ".".join(map(str.strip, path.split("."))), _value(written.strip())


def _value(text: str) -> Any:
    """Return the value that a text writes."""
    if not text:
        raise ValueError('a value is missing; an empty text is ""')
    try:
        # JSON first: it is what TOML and records write, and its numbers and quotes mean one thing
        return parse_json(text)
    except TooDeep:
        raise
    except ValueError:  # not JSON
        pass
    if text[0] in _CLOSING:
        _split(text)  # refuses brackets that do not close
        if text[-1] != _CLOSING[text[0]]:
            raise ValueError(f"{describe_value(text)} does not end with {_CLOSING[text[0]]}")
        return _fields(text[1:-1]) if text[0] == "{" else [_value(item.strip()) for item in _split(text[1:-1])]
    if _PART.fullmatch(text):
        return _part(text)
    # What is left is a number such as 4/255, or a word
    try:
        return number(text)
    except ValueError:
        return _WORDS.get(text, text)


def _split(text: str) -> list[str]:
    """Return what stands between commas outside brackets and quotes."""
    items, opened = [""], []
    # A quoted text is one piece, whatever is in it
    for piece in _PIECE.findall(text):
        if piece in _CLOSING:
            opened.append(_CLOSING[piece])
        elif piece in _CLOSING.values() and (not opened or opened.pop() != piece):
            raise ValueError(f"{piece} closes nothing")
        # Each bracket inside another is a recursion
        if len(opened) > DEPTH:
            raise TooDeep
        if piece == "," and not opened:
            items.append("")
        else:
            items[-1] += piece
    if opened:
        raise ValueError(f"{opened[-1]} is missing")
    return items
