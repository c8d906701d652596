"""Records drawn at random from their declared types, and records damaged at random."""

import json
import math
import random
from typing import Annotated, Any

import msgspec.inspect as types
from msgspec import Meta
from msgspec.inspect import type_info

from holdfast.numerics.statistics.score import Score
from holdfast.storage import chart, pictured, record
from holdfast.storage.entry import Values as Numbers
from holdfast.storage.entry import read_json

NUMBERS = (
    0, 1, -1, 0.5, 0.25, 1 + 1e-12, 1 - 1e-12, 3.9, 1e-300, 5e-324, 1e300, -1e300, 1.7e308, 12345678, 0.05, -0.0,
)  # fmt: skip
TEXTS = ("", "a", "resnet50", "<b>bold</b>", "[red]x[/red]", "naïve ε", "\u202egnp", "x" * 300, "two\nlines", "%s {0}")
MEASURES = (
    "breakaway_risk",
    "cosine_to_self",
    "synbench",
    "margin_distribution",
    "tightness",
    "worst_noise_robustness",
)
SCORES = ("5 steps", "10 steps", "attack", "certificate", "average", "best ε", "a_t 0.7, ε 0", "a_t 0.8, ε 0.1")


SPEC = {"kind": "measures", "attack": {"name": "pgd", "steps": 5}}


class Draw:
    """Draws JSON data that fits a type.

    Args:
        seed: decides all of it.
    """

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def __call__(self, kind: Any) -> Any:
        return self.record() if kind is record.Record else self.draw(type_info(kind))

    def draw(self, info: Any) -> Any:
        rng = self.rng
        match info:
            case types.UnionType():
                kinds = [kind for kind in info.types if not isinstance(kind, types.NoneType)]
                if len(kinds) < len(info.types) and rng.random() < 0.3:
                    return None
                if len(kinds) > 1 and all(isinstance(kind, (types.IntType, types.FloatType)) for kind in kinds):
                    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.random()
                return self.draw(rng.choice(kinds))
            case types.DataclassType():
                return self.score()
            case types.ListType() | types.VarTupleType():
                count = info.min_length if info.min_length is not None else rng.randint(0, 3)
                return [self.draw(info.item_type) for _ in range(count)]
            case types.TupleType():
                return [self.draw(item) for item in info.item_types]
            case types.DictType():
                if isinstance(info.value_type, types.AnyType):
                    return self.spec()
                names = rng.sample((*TEXTS[1:5], "z"), rng.randint(0, 3))
                return {name: self.draw(info.value_type) for name in names}
            case types.StructType():
                fields = [field for field in info.fields if field.required or rng.random() < 0.6]
                value = {field.name: self.draw(field.type) for field in fields}
                tag = {} if info.tag is None else {"kind": info.tag}
                return self.fixed(info.cls, tag | value)
            case types.LiteralType():
                return rng.choice(info.values)
            case types.StrType():
                return rng.choice(TEXTS)
            case types.IntType():
                return rng.choice((0, 1, 2, 7, 1000, 2**62))
            case types.FloatType():
                return rng.choice(NUMBERS)
            case types.BoolType():
                return rng.random() < 0.5
            case types.AnyType():
                return rng.choice((None, 1, "text", [1, 2], {"a": {"b": [0.5]}}))
        raise TypeError(info)

    def score(self) -> dict[str, Any]:
        """Return a score with what those of measures say: what checks made of it, and what it is if one is weak."""
        said = ("checks", "standing", "because")
        fields = [f for f in type_info(Score).fields if f.required or f.name in said or self.rng.random() < 0.6]
        return {field.name: self.draw(field.type) for field in fields} | {"if_weak": "at most"}

    def spec(self) -> dict[str, Any]:
        ball = {"name": "linf", "radius": self.rng.choice((0.05, 1, 0))}
        return {**SPEC, "name": self.rng.choice(MEASURES), "ball": ball}

    def fixed(self, cls: type, value: dict[str, Any]) -> dict[str, Any]:
        """Make entries agree with each other where the type asks for it."""
        rng = self.rng
        if cls is record.MeasureEntry:
            value = {field: self.draw(types_of(cls)[field]) for field in ("table", "passes_alone", "seconds")} | value
            value["scores"] = {name: self.score() for name in rng.sample(SCORES, rng.randint(0, 5))}
            value["headline"] = rng.choice(list(value["scores"])) if value["scores"] else None
            if value["headline"] is None:
                value["error"] = "no gradient"
        if cls is chart.LineEntry:
            places = rng.randint(1, 4)
            value |= {"x": list(range(places)), "y": [self(Values)[0] for _ in range(places)]}
            ends = places if rng.random() < 0.5 else 0
            value |= {name: [self(Values)[0] for _ in range(ends)] for name in ("low", "high")}
        if cls is pictured.AttentionEntry and len(value) < len(type_info(cls).fields):
            value["problem"] = "no maps"
        if cls in (pictured.NoiseEntry, record.FluctuationEntry):
            try:
                read_json(value, cls)
            except ValueError:
                value["problem"] = "no maps"
        if cls is record.EncoderEntry and not value.get("error"):
            value |= {field: self.draw(types_of(cls)[field]) for field in (*record.NEEDED, *record.WRITTEN)}
        return value

    def record(self) -> dict[str, Any]:
        rng = self.rng
        data = {
            field.name: self.draw(field.type)
            for field in type_info(record.Record).fields
            if field.required and field.name != "encoders"
        }
        encoders = []
        for number in range(rng.randint(1, 4)):
            entry = self(record.EncoderEntry)
            entry.setdefault("checks", {})
            entry["name"] = f"{rng.choice(TEXTS[1:])} {number}"
            entry["measures"] = {key: self(record.MeasureEntry) for key in rng.sample(MEASURES, rng.randint(1, 5))}
            encoders.append(entry)
        names, titles = [e["name"] for e in encoders], sorted({key for e in encoders for key in e["measures"]})
        relations = [
            self(record.RelationEntry) | {"first": rng.choice(titles), "second": rng.choice(titles)} for _ in range(2)
        ]
        fluctuation = {key: self(record.FluctuationEntry) for key in titles[:1]}
        one = {"name": rng.choice(TEXTS), "encoders": names, "fluctuation": fluctuation}
        data |= {"schema": record.SCHEMA, "encoders": encoders, "relations": relations, "series": [one]}
        data["comparison"] = {
            key: {"best": rng.choice([None, *names]), "pairs": [self(record.PairEntry)]} for key in titles[:2]
        }
        return data


Values = Annotated[Numbers, Meta(min_length=1)]


def types_of(cls: type) -> dict[str, Any]:
    """Return the type of each field, never null."""
    kinds = {}
    for field in type_info(cls).fields:
        inner = [kind for kind in getattr(field.type, "types", ()) if not isinstance(kind, types.NoneType)]
        kinds[field.name] = inner[0] if len(inner) == 1 else field.type
    return kinds


def damaged(record: dict[str, Any], seed: int) -> bytes:
    """Return the bytes of a record in which something is wrong."""
    rng = random.Random(seed)
    data = json.loads(json.dumps(record))
    kind = rng.choice(("drop", "type", "null", "huge", "nested", "truncated", "bytes", "nan", "empty", "deep"))
    if kind in ("drop", "type", "null", "huge", "nested", "nan", "deep"):
        places = list(_places(data))
        parent, key = rng.choice(places)
        deep: Any = 1
        for _ in range(rng.choice((30, 3000))):
            deep = [deep]
        wrong = {"type": rng.choice((7, "x", [], {}, True)), "null": None, "huge": 10**400, "nan": math.nan}
        if kind == "drop":
            del parent[key]
        else:
            parent[key] = deep if kind in ("nested", "deep") else wrong[kind]
    try:
        text = json.dumps(data).encode()
    except (RecursionError, ValueError):
        text = b"[" * 100_000
    at = rng.randrange(len(text))
    return {"truncated": text[:at], "bytes": text[:at] + b"\xff\xfe\x00" + text[at + 3 :], "empty": b""}.get(kind, text)


def _places(data: Any) -> Any:
    """Yield (container, key) of everything in JSON data."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        yield data, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
