"""What is measured of an upgrade, as records have measures: a title, a unit, which way is better, and scores."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Divergence
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.geometry.neighbour_lists import (
    TOLD,
    Kept,
    Lists,
    compare_drawn_lists,
    compare_lists,
    lists_of,
    neighbour_lists,
    overlap_weights,
    rank_biased_weights,
)
from holdfast.numerics.statistics.list_means import list_mean
from holdfast.numerics.statistics.pair_ranks import pair_rank_correlation
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Median, Share
from holdfast.runtime.listener import Listener
from holdfast.storage.index_upgrade import IndexMeasure
from holdfast.workflows.compare_index import copies
from holdfast.workflows.compare_index.cosines import median_cosine
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.thresholds import Distanced, Thresholds, scale

PERSISTENCE, DEPTH = 0.9, 50
"""Of the rank-biased overlap: the first ten places have two thirds of its weight, those beyond 50 next to none."""

BAR = 0.99
"""Cosine below which two vectors of an image count as different ones."""

MEAN = "mean"
"""The score of a measure that has one alone."""

Entries = dict[str, IndexMeasure]

Reps = Float[Tensor, "images dim"]

Finds = Callable[[Int[Tensor, "queries"], int], Lists]
"""The lists that an index itself finds for some items; below 0 where it finds fewer."""


def of_lists(
    plan: IndexPlan,
    old: Reps,
    new: Reps,
    listener: Listener,
    queries: Int[Tensor, "queries"] | None = None,
    finds: tuple[Finds | None, Finds | None] = (None, None),
) -> tuple[Entries, dict[str, Kept], tuple[Lists, Lists]]:
    """Return how much of its neighbours each image keeps, the same image by image, and the lists of neighbours.

    Args:
        plan: what is compared.
        old: representations by the old encoder.
        new: by the new one.
        listener: told of how many there are lists.
        queries: the images whose lists are compared; None: all, and intervals are about others like them.
        finds: what finds the lists of each side, where these are not the exact ones.
    """
    by, noun, drawn = plan.compared_by.in_words, plan.noun, queries is not None
    depth = max(*plan.k, min(DEPTH, len(old) - 2))
    listener.begin("neighbours", len(old) + len(new), "vectors" if drawn else "lists")

    def find(reps: Reps, own: Finds | None) -> Lists:
        if queries is None:
            return neighbour_lists(reps, depth + 1, plan.compared_by, listener.advance)
        if own is None:
            return lists_of(queries, reps, depth + 1, plan.compared_by, listener.advance)
        lists = own(queries, depth + 1)
        listener.advance(len(reps))
        return lists

    lists = find(old, finds[0]), find(new, finds[1])
    names = [f"overlap@{k}" for k in plan.k]
    weights = torch.stack([*(overlap_weights(k, depth) for k in plan.k), rank_biased_weights(PERSISTENCE, depth)])
    both = (compare_drawn_lists if drawn else compare_lists)(lists[0], lists[1], weights)
    entries: Entries = {}
    for name, k, values, without in zip(names, plan.k, both.values, both.without, strict=False):
        entries[name] = IndexMeasure(
            title=name,
            scores={MEAN: list_mean(values, without, k, drawn=drawn)},
            headline=MEAN,
            unit="share",
            better="higher",
            how_to_read=f"The share of the {k} {noun}s nearest to one by {by} that are so with the new encoder too.",
        )
    effective = round(1 / (1 - PERSISTENCE))
    entries["rank_biased_overlap"] = IndexMeasure(
        title="rank-biased overlap",
        scores={MEAN: list_mean(both.values[-1], both.without[-1], effective, drawn=drawn)},
        headline=MEAN,
        unit="share",
        better="higher",
        how_to_read=(
            f"Overlaps of the lists by {by} at all depths up to {depth}, the first places counting most: 100 % for "
            "lists in the same order."
        ),
    )
    each = {name: Kept(both.values[i], both.without[i]) for i, name in enumerate([*names, "rank_biased_overlap"])}
    return entries, each, lists


def of_vectors(old: Reps, new: Reps, noun: str = "image") -> Entries:
    """Return how alike the two vectors of an image are, where both have as many numbers; else nothing."""
    if old.shape != new.shape:
        return {}
    # some at a time, for they may lie on disk
    alike = torch.cat(
        [1 - cosine(a.double(), b.double()) for a, b in zip(old.split(TOLD), new.split(TOLD), strict=True)]
    )
    apart = Share((alike < BAR).double()).score()
    # What these images show, and nothing about others
    lowest = Score(float(alike.min()), None, None, len(alike), f"none: the lowest of these {noun}s")
    return {
        "cosine": IndexMeasure(
            title="cosine of old and new vectors, median",
            scores={"lowest": lowest, MEAN: median_cosine(alike)},
            headline=MEAN,
            unit="similarity",
            better="higher",
            how_to_read=(
                f"1: both encoders give an {noun} the same direction, as two builds of one network should. Two "
                "networks that were trained apart have nothing in common in this sense, however good the new one is."
            ),
        ),
        "cosine_below": IndexMeasure(
            title=f"{noun}s whose cosine is below {BAR:g}",
            scores={MEAN: apart},
            headline=MEAN,
            unit="share",
            better="lower",
            how_to_read=f"The share of {noun}s to which the new encoder gives another direction than the old one.",
        ),
        "length": IndexMeasure(
            title="length of vectors, new / old, median",
            scores={MEAN: Median(_lengths(old, new)).score()},
            headline=MEAN,
            unit="ratio",
            better="",
            how_to_read="How many times as long the new vectors are; l2 distances and inner products grow with it.",
        ),
    }


def _lengths(old: Reps, new: Reps) -> Float[Tensor, "images"]:
    """Return how many times as long the new vector of each image is; NaN where the old one is zero."""
    # A zero vector has no multiples
    before, after = (reps.double().norm(dim=1) for reps in (old, new))
    return torch.where(before > 0, after / before, torch.nan)


def of_distances(distanced: Distanced) -> Entries:
    """Return whether all pairs have the same order, and how much larger distances are."""
    entries: Entries = {
        "distance_correlation": IndexMeasure(
            title="rank correlation of distances",
            scores={MEAN: pair_rank_correlation(distanced.old, distanced.new, distanced.pairs.shares)},
            headline=MEAN,
            unit="similarity",
            better="higher",
            how_to_read=(
                f"Spearman's over the {distanced.compared_by.in_words} of pairs of {distanced.noun}s: 1 where the "
                "nearer pair is always the nearer one."
            ),
        ),
    }
    # Of what may be below 0 there are no multiples
    if distanced.compared_by.signed:
        return entries
    return entries | {
        "distance_scale": IndexMeasure(
            title="scale of distances, new / old",
            scores={MEAN: scale(distanced)},
            headline=MEAN,
            unit="ratio",
            better="",
            how_to_read="The median over pairs of how many times as long distances are.",
        )
    }


def of_thresholds(thresholds: Thresholds, compared_by: Divergence, noun: str = "image") -> Entries:
    """Return the thresholds, and the false positives where the old one is kept."""
    return {
        "threshold": IndexMeasure(
            title="threshold",
            scores={"old": compared_by.show_score(thresholds.old), "new": compared_by.show_score(thresholds.new)},
            headline="new",
            unit="ratio",
            better="",
            how_to_read=(
                f"{noun.capitalize()}s nearer than that by {compared_by.in_words} match. The interval holds the "
                "sampling error of the threshold itself."
            ),
        ),
        "false_positives": IndexMeasure(
            title="false positives",
            scores={"old": thresholds.rate, "change": thresholds.change, "kept": thresholds.kept},
            headline="kept",
            unit="share",
            better="lower",
            how_to_read=f"The share of the pairs of different {noun}s that match.",
        ),
    }


def of_copies(
    plan: IndexPlan,
    clean: tuple[Reps, Reps],
    edited: tuple[Mapping[str, Reps], Mapping[str, Reps]],
    distanced: Distanced,
    thresholds: Thresholds | None,
) -> Entries:
    """Return how edited copies are found and matched, before and after."""
    titles, divergence = list(edited[0]), plan.compared_by
    old, new = [edited[0][title] for title in titles], [edited[1][title] for title in titles]
    ranks = [copies.ranks_of_originals(reps, copied, divergence) for reps, copied in ((clean[0], old), (clean[1], new))]
    entries = _recalls(plan.k, "recall", "edited copies", ranks)
    if thresholds is not None:
        entries["missed_copies"] = IndexMeasure(
            title="edited copies missed",
            scores=copies.score_misses(distanced, thresholds, clean, (old, new), divergence),
            headline="new",
            unit="share",
            better="lower",
            how_to_read="The share of edited copies that are farther from their originals than the threshold.",
        )
    return entries


def of_classes(plan: IndexPlan, lists: tuple[Lists, Lists], classes: Int[Tensor, "images"]) -> Entries:
    """Return how images of the same class are found, before and after."""
    ranks = [copies.ranks_of_class(places, classes) for places in lists]
    return _recalls(plan.k, "class_recall", "same class", ranks)


def _recalls(k: Sequence[int], name: str, what: str, ranks: list[Float[Tensor, "queries images"]]) -> Entries:
    """Return recall at each k."""
    return {
        f"{name}@{number}": IndexMeasure(
            title=f"recall@{number}, {what}",
            scores=copies.recall(ranks[0], ranks[1], number),
            headline="new",
            unit="share",
            better="higher",
            how_to_read=f"The share of searches with a right image among the first {number}.",
        )
        for number in k
    }
