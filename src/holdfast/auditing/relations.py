"""Which measure predicts what: correlation between measures without labels and measures that read labels."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from holdfast.numerics.statistics.correlations import pearson, spearman
from holdfast.storage.record import EncoderEntry, MeasureEntry, RelationEntry

FEWEST = 4
"""Encoders, or corruptions, from which on a correlation has an interval."""


def relations(encoders: Sequence[EncoderEntry], unfit: Iterable[str] = ()) -> list[RelationEntry]:
    """Return the correlations between each measure without labels and each that reads them.

    Over encoders: between the headlines of two measures, one point for each encoder. Over corruptions: within one
    encoder, between the scores of two measures that look at the same corruptions, one point for each.
    """
    fit = [entry for entry in encoders if entry.name not in set(unfit) and not entry.error]
    correlations = []
    for first, second in _pairs(fit):
        points = [(_headline(entry, first), _headline(entry, second)) for entry in fit]
        correlations += _correlate(points, over="encoders", encoder=None, first=first, second=second)
    for entry in fit:
        for first, second in _pairs([entry]):
            free, labelled = (_by_corruption(entry.measures[key]) for key in (first, second))
            points = [(free[title], labelled[title]) for title in free if title in labelled]
            correlations += _correlate(points, over="corruptions", encoder=entry.name, first=first, second=second)
    return correlations


def _pairs(entries: Sequence[EncoderEntry]) -> Iterable[tuple[str, str]]:
    """Return the keys of (a measure without labels, a measure that reads them)."""
    reads = {key: m.needs_labels for entry in entries for key, m in entry.measures.items()}
    free = [key for key, needs in reads.items() if not needs]
    return itertools.product(free, [key for key, needs in reads.items() if needs])


def _headline(entry: EncoderEntry, key: str) -> float | None:
    measure = entry.measures.get(key)
    return None if measure is None or measure.headline_score is None else measure.headline_score.value


def _by_corruption(measure: MeasureEntry) -> dict[str, float | None]:
    """Return the score of each of a measure's corruptions; none of a measure that looks at none."""
    return {title: measure.scores[title].value for title in measure.corruptions if title in measure.scores}


def _correlate(points: Iterable[tuple[float | None, float | None]], **pair: Any) -> list[RelationEntry]:
    """Return the correlation of a pair of measures over the points that have both values; none of too few."""
    complete = [(x, y) for x, y in points if x is not None and y is not None]
    if len(complete) < FEWEST:
        return []
    x, y = torch.tensor(complete, dtype=torch.float64).unbind(1)
    return [RelationEntry(**pair, points=len(complete), pearson=pearson(x, y), spearman=spearman(x, y))]
