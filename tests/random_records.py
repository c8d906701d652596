"""Records drawn at random from their declared shape, and records damaged at random."""

import json
import math
import random
from typing import Any

from holdfast.storage import record_shape as shapes
from holdfast.storage.record_shape import SCHEMA
from holdfast.storage.shape import ANY, COUNT, FLAG, NUMBER, TEXT, Items, Maybe, Named, Object, Plain, Shape

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


class Draw:
    """Draws JSON data that fits a shape.

    Args:
        seed: decides all of it.
    """

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def __call__(self, shape: Shape) -> Any:
        rng = self.rng
        if isinstance(shape, Maybe):
            return None if rng.random() < 0.3 else self(shape.inner)
        if isinstance(shape, Items):
            count = shape.length if shape.length is not None else rng.randint(0, 3)
            return [self(shape.inner) for _ in range(count)]
        if isinstance(shape, Named):
            names = rng.sample((*TEXTS[1:5], "z"), rng.randint(0, 3))
            return {name: self(shape.inner) for name in names}
        if shape is shapes.RECORD_SHAPE:
            return self.record()
        if isinstance(shape, shapes.AnyChart):
            kind = rng.choice(list(shapes.CHARTS))
            return {"kind": kind, **self(Object({**shapes.EVERY_CHART, **shapes.CHARTS[kind]}))}
        if isinstance(shape, Object):
            optional = {name: inner for name, inner in shape.optional.items() if rng.random() < 0.6}
            return self.fixed(shape, {name: self(inner) for name, inner in {**shape.needed, **optional}.items()})
        return self.plain(shape)

    def plain(self, shape: Shape) -> Any:
        rng = self.rng
        if shape is TEXT:
            return rng.choice(TEXTS)
        if shape is NUMBER:
            return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.random()
        if shape is COUNT:
            return rng.choice((0, 1, 2, 7, 1000, 2**62))
        if shape is FLAG:
            return rng.random() < 0.5
        if shape is ANY:
            return rng.choice((None, 1, "text", [1, 2], {"a": {"b": [0.5]}}))
        ball = {"name": "linf", "radius": rng.choice((0.05, 1, 0))}
        if shape is shapes.PART:
            return {
                "kind": "measures",
                "name": rng.choice(MEASURES),
                "ball": ball,
                "attack": {"name": "pgd", "steps": 5},
            }
        assert isinstance(shape, Plain)
        assert shape.name.startswith("none of "), shape
        return rng.choice(shape.name.removeprefix("none of ").split(", "))

    def fixed(self, shape: Object, value: dict[str, Any]) -> dict[str, Any]:
        """Make entries agree with each other where the shape asks for it."""
        rng = self.rng
        if shape is shapes.MEASURE:
            value["scores"] = {name: self(shapes.HEADED) for name in rng.sample(SCORES, rng.randint(0, 5))}
            value["headline"] = rng.choice(list(value["scores"])) if value["scores"] else None
            if value["headline"] is None:
                value["error"] = "no gradient"
        if shape is shapes.LINE:
            places = rng.randint(1, 4)
            value |= {"x": list(range(places)), "y": [self(Maybe(NUMBER)) for _ in range(places)]}
            ends = places if rng.random() < 0.5 else 0
            value |= {name: [self(Maybe(NUMBER)) for _ in range(ends)] for name in ("low", "high")}
        if shape in (shapes.ATTENTION, shapes.NOISE, shapes.FLUCTUATION) and any(shape.also(value)):
            value["problem"] = "no maps"
        return value

    def record(self) -> dict[str, Any]:
        rng = self.rng
        record = {name: self(inner) for name, inner in shapes.RECORD_SHAPE.needed.items() if name != "encoders"}
        encoders = []
        for number in range(rng.randint(1, 4)):
            entry = self(shapes.LOST if rng.random() < 0.2 else shapes.AUDITED)
            entry["name"] = f"{rng.choice(TEXTS[1:])} {number}"
            entry["error"] = "not found" if "fingerprint" not in entry else None
            entry["measures"] = {key: self(shapes.MEASURE) for key in rng.sample(MEASURES, rng.randint(1, 5))}
            encoders.append(entry)
        names, titles = [e["name"] for e in encoders], sorted({key for e in encoders for key in e["measures"]})
        relations = [
            self(shapes.RELATION) | {"first": rng.choice(titles), "second": rng.choice(titles)} for _ in range(2)
        ]
        one = {
            "name": rng.choice(TEXTS),
            "encoders": names,
            "fluctuation": {key: self(shapes.FLUCTUATION) for key in titles[:1]},
        }
        record |= {"schema": SCHEMA, "encoders": encoders, "relations": relations, "series": [one]}
        record["comparison"] = {
            key: {"best": rng.choice([None, *names]), "pairs": [self(shapes.PAIR)]} for key in titles[:2]
        }
        return record


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
