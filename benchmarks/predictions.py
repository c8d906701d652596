"""Which number without labels foretells what a classifier on the representation loses, and which two say the same.

Encoders of one kind of images are the points, for numbers of other images are not comparable; Spearman's correlation,
for the question is about order. `references.py` measures them.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from holdfast.core import Score
from holdfast.numerics.statistics.correlations import spearman

FEW = 5
"""Encoders of one kind of images below which no correlation is taken."""


def predictions(encoders: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the correlation of every two measures over the encoders of one kind of images.

    Each is turned so that more is more robust.

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
            rows.append(row | {end: _short(score, end) for end in ("value", "low", "high")})
    return rows


def _column(points: Sequence[Mapping[str, Any]], title: str) -> torch.Tensor:
    """Return a measure of all encoders, larger where better; NaN where it is not known."""
    values = []
    for encoder in points:
        score = encoder["scores"].get(title, {"value": None, "better": "higher"})
        sign = 1 if score["better"] == "higher" else -1
        values.append(float("nan") if score["value"] is None else sign * score["value"])
    return torch.tensor(values, dtype=torch.float64)


def _short(score: Score, end: str) -> float | None:
    value = getattr(score, end)
    return None if value is None else float(f"{value:.3f}")
