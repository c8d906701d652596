"""The shape of a record: what is in `record.json`, declared once, for the one reader of records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from holdfast.storage.shape import (
    ANY,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Items,
    Maybe,
    Named,
    Object,
    Plain,
    Shape,
    one_of,
    tame,
)

SCHEMA = 2
"""Version of the record's layout; records of another one are refused."""

PASSES = Object({"forward": COUNT, "backward": COUNT}, {"bounds": COUNT})
SPENT = Object(
    {"forward": COUNT, "backward": COUNT, "alone": PASSES, "shared_fraction": NUMBER},
    {"bounds": COUNT, "predicted": PASSES, "measures": PASSES},
)
SCORE = Object(
    {"value": Maybe(NUMBER), "low": Maybe(NUMBER), "high": Maybe(NUMBER), "n": COUNT, "interval": TEXT},
    {"confidence": NUMBER, "note": TEXT, "unit": TEXT, "checks": Items(TEXT), "because": Items(TEXT),
     "standing": one_of("sound", "at least", "at most", "void"), "if_weak": one_of("at least", "at most", "void")},
)  # fmt: skip
HEADED = Object(
    {**SCORE.needed, **{key: SCORE.optional[key] for key in ("checks", "because", "standing", "if_weak")}},
    SCORE.optional,
)
"""A score of a measure, which names the checks that it depends on."""
BALL = Object({"name": TEXT, "radius": NUMBER})
PART = Plain(
    "no part: an object with a name",
    lambda value: (
        isinstance(value, dict) and isinstance(value.get("name"), str) and tame(value)
        and all(not isinstance(value.get(key), dict) or isinstance(value[key].get("name"), str) for key in value)
    ),
)  # fmt: skip


def _line(line: Mapping[str, Any]) -> Iterator[str]:
    ends = [line[name] for name in ("low", "high") if line[name]]  # a line may have no band
    if len({len(values) for values in (line["x"], line["y"], *ends)}) > 1 or not line["x"]:
        yield "x, y, low, high are not equally long, or empty"


VALUES = Items(Maybe(NUMBER))
LINE = Object(
    {"x": Items(NUMBER), "y": VALUES, "low": VALUES, "high": VALUES, "name": TEXT,
     "style": one_of("solid", "dashed", "points")},
    also=_line,
)  # fmt: skip
CHARTS: dict[str, dict[str, Shape]] = {
    "readouts": {"scores": Items(TEXT), "at": Items(NUMBER), "across": TEXT, "choice": TEXT},
    "curves": {"lines": Items(LINE), "across": TEXT, "label": TEXT, "unit": TEXT, "most": Maybe(NUMBER),
               "dotted": Maybe(NUMBER), "summary": TEXT, "scale": one_of("linear", "log"), "marks": Items(NUMBER),
               "named": Items(TEXT)},
    "distribution": {"column": TEXT},
    "scatter": {"x": TEXT, "y": TEXT, "across": TEXT, "label": TEXT},
    "row": {"name": TEXT, "place": Items(NUMBER), "across": TEXT, "setting": Items(Items(TEXT, 2))},
    "cells": {"rows": Items(TEXT), "columns": Items(TEXT), "scores": Items(Items(TEXT)), "corner": TEXT},
    "shades": {"columns": Items(TEXT), "scores": Items(TEXT), "across": TEXT, "label": TEXT},
}  # fmt: skip
"""What each kind of chart holds, beside what all of them do; see `holdfast.core.chart`."""
EVERY_CHART = dict.fromkeys(("heading", "how_to_read", "title", "score", "note"), TEXT)


@dataclass(frozen=True)
class AnyChart(Shape):
    """A chart of any kind that there is."""

    @override
    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in CHARTS:
            yield f"{where} is no chart: none of {', '.join(CHARTS)}"
        else:
            yield from Object({**EVERY_CHART, **CHARTS[kind]}, {"short": TEXT}).wrong(value, where)


def _headline(measure: Mapping[str, Any]) -> Iterator[str]:
    headline, failed = measure["headline"], measure.get("error") or measure.get("not_certified")
    if headline is not None and headline not in measure["scores"] and not failed:
        yield f"the headline {headline!r} is none of its scores"
    if headline is None and not failed:
        yield "it has neither a headline nor a reason why not"


IN_WORDS = Object({"says": TEXT, "called": TEXT, "further": Items(TEXT), "levels": FLAG}, {"if_weak": TEXT})
MEASURE = Object(
    {"title": TEXT, "better": one_of("lower", "higher"), "unit": TEXT, "scores": Named(HEADED),
     "headline": Maybe(TEXT), "part": PART, "table": Maybe(TEXT),
     "passes_alone": Maybe(PASSES), "seconds": Maybe(NUMBER)},
    {"question": TEXT, "how_to_read": TEXT, "formula": TEXT, "reference": TEXT, "needs_labels": FLAG,
     "corruptions": Items(TEXT), "family": TEXT, "left_out": Named(TEXT), "in_words": Maybe(IN_WORDS), "in_brief": FLAG,
     "charts": Items(AnyChart()), "column": Maybe(TEXT), "error": Maybe(TEXT), "not_certified": Maybe(TEXT)},
    also=_headline,
)  # fmt: skip
CHECK = Object(
    {
        "title": TEXT,
        "status": one_of("pass", "warn", "fail", "skip"),
        "finding": TEXT,
        "meaning": TEXT,
        "consequence": one_of("void", "one side", "caution"),
        "details": Named(ANY),
    },
    {"passes": PASSES, "called": TEXT},
)
OBSERVATION = Object(
    {
        "title": TEXT,
        "part": PART,
        "passes": PASSES,
        "predicted": PASSES,
        "serves": Items(TEXT),
        "seconds": Maybe(NUMBER),
    },
    {"charts": Items(AnyChart()), "shards": TEXT},
)


NEIGHBOUR = Object({"id": TEXT, "picture": TEXT})
GALLERY = Object(
    {"id": TEXT, "clean": TEXT, "attacked": TEXT, "difference": TEXT,
     "before": Items(NEIGHBOUR), "after": Items(NEIGHBOUR)},
    {"drift": Maybe(NUMBER), "quantile": Maybe(NUMBER), "placed_among": NUMBER, "drift_map": TEXT},
)  # fmt: skip
"""An image that an attack moved far; `placed_among`: `quantile` is a share of the pairs of so many images."""
BROKEN = Object(
    {"id": TEXT, "radius": NUMBER, "norm": TEXT, "levels": Maybe(NUMBER), "amplified": NUMBER,
     "clean": TEXT, "attacked": TEXT, "difference": TEXT, "rival": Maybe(NEIGHBOUR)},
    {"edit": TEXT},
)  # fmt: skip
"""A smallest change that breaks an image, as pictures; `edit`: what was done, its radius being a strength."""
EXTREME = Object({"id": TEXT, "picture": TEXT, "certificate": Maybe(NUMBER), "attack": Maybe(NUMBER)})
IMPERSONATION = Object(
    {"title": TEXT, "classes": Items(ANY, 2),
     "sides": Items(Items(Object({"id": TEXT, "said": ANY, "clean": TEXT, "attacked": TEXT}, {"taken": ANY})), 2)}
)  # fmt: skip
ATTENTION = Object(
    {},
    {"problem": Maybe(TEXT), "images": Items(TEXT), "left_out": Items(TEXT), "passes": PASSES, "layer": TEXT,
     "readings": Items(TEXT), "probe": Maybe(PART),
     "strips": Items(Object({"title": TEXT, "picture": TEXT, "agreement": Named(Items(Maybe(NUMBER)))}))},
    also=lambda value: iter(
        f"{name} is missing" for name in ("images", "left_out", "passes", "layer", "readings", "probe", "strips")
        if value and not value.get("problem") and name not in value
    ),
)  # fmt: skip
DRAW = Object({"disturbed": TEXT, "difference": TEXT})
_DRAWN: dict[str, Shape] = {
    "images": COUNT, "grouped": TEXT, "groups": Items(TEXT), "table": TEXT, "cells": COUNT,
    "origin": Items(Maybe(NUMBER), 2), "explained": Items(Maybe(NUMBER)), "amplified": Maybe(NUMBER),
    "weights": Object({"mean": Items(Maybe(NUMBER)), "groups": Items(Items(Maybe(NUMBER)))}),
    "means": Object({"table": TEXT, "size": COUNT}),
    "covariance": Object({"table": TEXT, "size": COUNT, "block": COUNT}),
    "pictures": Items(Object({"id": TEXT, "group": COUNT, "clean": TEXT, "draws": Items(DRAW)})),
}  # fmt: skip
NOISE = Object(
    {"structure": TEXT, "failure": TEXT, "ball": BALL, "measures": Items(TEXT), "file": Maybe(TEXT),
     "training": Object(dict.fromkeys(("chance", "entropy"), Items(Maybe(NUMBER))))},
    {"title": TEXT, "problem": Maybe(TEXT), "learned_on": COUNT, **_DRAWN},
    also=lambda value: iter(
        f"{name} is missing" for name in _DRAWN if not value.get("problem") and name not in value
    ),
)  # fmt: skip
PERTURBATION = Object(
    {"title": TEXT, "measures": Items(TEXT), "learned_on": COUNT, "amplified": NUMBER, "picture": TEXT,
     "pictures": Items(Object({"id": TEXT, "clean": TEXT, "disturbed": TEXT}))},
    {"file": TEXT},
)  # fmt: skip
"""A perturbation that is the same for all images, amplified around grey, and what it makes of a few of them."""
GEOMETRY = Object({}, {"assumed": TEXT})
"""How pictures are rendered for an encoder; `assumed`: in words, where it was guessed."""
_MAYBE: dict[str, Shape] = {
    "slug": TEXT, "gallery": Items(GALLERY), "changes": Items(BROKEN), "impersonations": Items(IMPERSONATION),
    "extremes": Object({}, {"measure": TEXT, "least": Items(EXTREME), "most": Items(EXTREME)}),
    "noises": Items(NOISE), "perturbations": Items(PERTURBATION), "attention": ATTENTION,
    "geometry": Maybe(GEOMETRY), "batch_size": COUNT, "identity": TEXT, "rendering": TEXT,
}  # fmt: skip
AUDITED = Object(
    {"name": TEXT, "fingerprint": TEXT, "origin": Named(ANY), "parameters": COUNT, "mean": ANY, "std": ANY,
     "geometry": Maybe(GEOMETRY), "input": Items(COUNT), "dim": COUNT,
     "measures": Named(MEASURE), "checks": Named(CHECK), "observations": Items(OBSERVATION), "passes": SPENT},
    {"error": Maybe(TEXT), **{name: Maybe(shape) for name, shape in _MAYBE.items()}},
)  # fmt: skip
LOST = Object(
    {"name": TEXT, "error": TEXT, "measures": Named(MEASURE), "checks": Named(CHECK)},
    {"observations": Items(OBSERVATION), "origin": Named(ANY)},
)


@dataclass(frozen=True)
class AnyEncoder(Shape):
    """An encoder that was audited, or one that could not be."""

    @override
    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        lost = isinstance(value, dict) and isinstance(value.get("error"), str) and value["error"]
        yield from (LOST if lost else AUDITED).wrong(value, where)


GAP = Object({"value": Maybe(NUMBER), "low": Maybe(NUMBER), "high": Maybe(NUMBER)}, {"unit": TEXT})
CHANGE = Object(
    {"measure": TEXT, "title": TEXT, "unit": TEXT, "needs_labels": FLAG, "before": Maybe(SCORE), "after": Maybe(SCORE),
     "difference": Maybe(GAP)}
)  # fmt: skip
HARDENING = Object(
    {"steps": COUNT, "seconds": NUMBER, "budget": Maybe(NUMBER), "warnings": Items(TEXT), "measures": Items(CHANGE),
     "price": Object({"cosine": SCORE, "relative_l2": SCORE})}
)  # fmt: skip
PAIR = Object({"first": TEXT, "second": TEXT, "difference": GAP})
CONTRAST = Object({"first": TEXT, "second": TEXT, "chart": AnyChart()})
RELATION = Object(
    {"over": one_of("encoders", "corruptions"), "encoder": Maybe(TEXT), "first": TEXT, "second": TEXT,
     "points": COUNT, "pearson": SCORE, "spearman": SCORE}
)  # fmt: skip
FLUCTUATION = Object(
    {},
    {"problem": TEXT, "mean": SCORE, "noise": Maybe(NUMBER), "classes": Named(Maybe(NUMBER))},
    also=lambda value: iter(
        f"{name} is missing" for name in ("mean", "noise", "classes") if "problem" not in value and name not in value
    ),
)


def _whole(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong between the entries of a record: names that nothing has."""
    names = [encoder["name"] for encoder in record["encoders"]]
    titles = {key for encoder in record["encoders"] for key in encoder.get("measures", {})}
    if not names:
        yield "encoders is empty"
    if len(set(names)) < len(names):
        yield "encoders: two have one name"
    for key, comparison in record["comparison"].items():
        if not {contrast["first"] for contrast in comparison.get("charts", [])} <= set(names):
            yield f"comparison.{key}: a chart is of an encoder that is not there"
    for relation in record.get("relations") or []:
        if not {relation["first"], relation["second"]} <= titles:
            yield "relations: one is of a measure that no encoder has"
    for series in record.get("series") or []:
        if not set(series["encoders"]) <= set(names) or not set(series.get("fluctuation") or {}) <= titles:
            yield "series: one is of an encoder or a measure that is not there"


ROUNDS = Object(
    {"number": COUNT, "of": COUNT, "before": NUMBER, "answers_only": FLAG},
    {
        "look": COUNT,
        "budget": Maybe(NUMBER),
        "until": Maybe(TEXT),
        "ended": one_of("complete", "budget", "until", "interrupted"),
    },
)

RECORD_SHAPE = Object(
    {
        "holdfast": Object({"version": TEXT, "git": Maybe(TEXT)}, {"parts": Named(TEXT)}),
        "plan": Object(
            {"seed": COUNT, "measures": Items(PART), "command": TEXT, "profile": Maybe(TEXT), "device": TEXT,
             "batch_size": Maybe(COUNT)},
            {"precision": Maybe(TEXT), "allow": Items(TEXT), "shared_searches": FLAG},
            also=lambda plan: (
                f"measures[{i}].ball has no name and radius"
                for i, part in enumerate(plan["measures"])
                if "ball" in part and any(BALL.wrong(part["ball"]))
            ),
        ),
        "data": Object(
            {"fingerprint": TEXT, "images": COUNT, "attacked": COUNT, "spec": TEXT, "description": TEXT,
             "available": COUNT, "skipped": Items(Items(TEXT, 2)), "balls": Items(TEXT), "table": TEXT},
            {"synthetic": FLAG, "labels": Maybe(TEXT), "runs_left_out": COUNT,
             "duplicates": Items(Object({"image": TEXT, "like": TEXT, "levels": COUNT})), "duplicates_left_out": FLAG,
             "notes": Items(TEXT),
             "train": Maybe(Object({}, {"images": COUNT, "left_out": COUNT, "fingerprint": TEXT, "labels": TEXT,
                                        "notes": Items(TEXT)}))},
        ),
        "encoders": Items(AnyEncoder()),
        "comparison": Named(Object({"best": Maybe(TEXT), "pairs": Items(PAIR)}, {"charts": Items(CONTRAST)})),
        "environment": Object({"python": TEXT, "torch": TEXT, "platform": TEXT, "packages": Named(TEXT)}),
        "failures": Items(TEXT),
        "run": Object(
            {"started": TEXT, "finished": TEXT, "seconds": NUMBER, "resumed_shards": COUNT},
            {"remade_shards": COUNT, "engine": TEXT, "workers_lost": COUNT, "rounds": ROUNDS},
        ),
    },
    {
        "relations": Maybe(Items(RELATION)),
        "series": Maybe(Items(Object({"name": TEXT, "encoders": Items(TEXT)}, {"fluctuation": Named(FLUCTUATION)}))),
        "hardening": HARDENING,
        "files": Named(TEXT),
        "seal": TEXT,
    },
    also=_whole,
)  # fmt: skip
"""A record of schema `SCHEMA`."""
