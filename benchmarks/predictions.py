"""Which number without labels foretells what a classifier on the representation loses, and which two say the same.

Encoders of one kind of images are the points, for numbers of other images are not comparable; Spearman's correlation,
for the question is about order. What all kinds say together is the mean of their Fisher transforms, each weighed by
the reciprocal of its variance (Hedges & Olkin 1985). `references.py` measures the encoders.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from holdfast.numerics.statistics.correlations import spearman

ENDS = ("value", "low", "high")
NORMAL = 1.959964
"""Quantile of the normal distribution for intervals of 95 %."""

FEW = 5
"""Encoders of one kind of images below which no correlation is taken."""


def predictions(encoders: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the correlation of every two measures over the encoders of one kind of images, then over all kinds.

    Each is turned so that more is more robust. Rows about all kinds have `images` "all".

    Args:
        encoders: each with `images`, and `scores`: {title: {value, better, needs_labels}}.
    """
    rows = []
    for images, group in itertools.groupby(encoders, key=lambda encoder: encoder["images"]):
        points = list(group)
        if len(points) < FEW:
            continue
        titles = list(dict.fromkeys(title for encoder in points for title in encoder["scores"]))
        columns = {title: _column(points, title) for title in titles}
        labelled = {title: any(e["scores"].get(title, {}).get("needs_labels") for e in points) for title in titles}
        for first, second in itertools.combinations(titles, 2):
            score = spearman(columns[first], columns[second])
            row = {"images": images, "first": first, "second": second, "encoders": score.n}
            row |= {"labels": [labelled[first], labelled[second]]}
            rows.append(row | {end: getattr(score, end) for end in ENDS})
    rows += list(_of_all_kinds(rows))
    return [row | {end: _short(row[end]) for end in ENDS} for row in rows]


def _of_all_kinds(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield, for each two measures that several kinds of images know, what they say together."""
    by_name = sorted((row for row in rows if row["value"] is not None), key=_names)
    for (first, second), group in itertools.groupby(by_name, key=_names):
        kinds = list(group)
        if len(kinds) < 2:
            continue
        most = [1 - 6 / (row["encoders"] ** 3 - row["encoders"]) for row in kinds]  # r = 1 has no transform
        inner = [max(-limit, min(limit, row["value"])) for row, limit in zip(kinds, most, strict=True)]
        weights = [(row["encoders"] - 3) / (1 + r**2 / 2) for row, r in zip(kinds, inner, strict=True)]
        mean = sum(w * math.atanh(r) for w, r in zip(weights, inner, strict=True)) / sum(weights)
        low, value, high = (math.tanh(mean + z / math.sqrt(sum(weights))) for z in (-NORMAL, 0, NORMAL))
        row = {"images": "all", "first": first, "second": second, "encoders": sum(row["encoders"] for row in kinds)}
        yield row | {"labels": kinds[0]["labels"], "value": value, "low": low, "high": high}


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["first"], row["second"]


def _column(points: Sequence[Mapping[str, Any]], title: str) -> torch.Tensor:
    """Return a measure of all encoders, larger where better; NaN where it is not known."""
    values = []
    for encoder in points:
        score = encoder["scores"].get(title, {"value": None, "better": "higher"})
        sign = 1 if score["better"] == "higher" else -1
        values.append(float("nan") if score["value"] is None else sign * score["value"])
    return torch.tensor(values, dtype=torch.float64)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3f}")
