"""Whether originals are found and matched by their copies, and images by those of their class: before and after."""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Divergence, Score
from holdfast.numerics import statistics
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.neighbour_lists import Lists
from holdfast.numerics.statistics.thresholds import AtRate
from holdfast.workflows.compare_index.thresholds import Distanced, Thresholds

GIVEN = "given this index of images"

Reps = Float[Tensor, "images dim"]
Scores = dict[str, Score]


def ranks_of_originals(clean: Reps, copies: list[Reps], divergence: Divergence) -> Float[Tensor, "copies images"]:
    """Return the place at which a search for each copy returns its original: 1 and one more for each that is nearer."""
    own = torch.arange(len(clean))
    return torch.stack([1.0 + pairwise.closer(reps.double(), clean, own, divergence)[0].double() for reps in copies])


def ranks_of_class(lists: Lists, labels: Int[Tensor, "images"]) -> Float[Tensor, "1 images"]:
    """Return the place of the first image of its class in each image's list; NaN where there is no other one.

    It is infinite where that lies beyond the list.
    """
    same = labels[lists] == labels[:, None]
    first = torch.where(same.any(1), same.int().argmax(1) + 1.0, torch.inf).double()
    _, of, sizes = labels.unique(return_inverse=True, return_counts=True)
    return first.masked_fill(sizes[of] < 2, torch.nan)[None]


def recall(old: Float[Tensor, "queries images"], new: Float[Tensor, "queries images"], k: int) -> Scores:
    """Return recall@k of both encoders, the mean over the queries of each image, and the paired difference."""
    # an image alone in its class has nothing to find
    defined = ~old[0].isnan()
    hits = [(ranks[:, defined] <= k).double().mean(0) for ranks in (old, new)]
    # one query an image either finds or does not; of several the mean may be any share
    alone = len(old) == 1
    reduce = statistics.share if alone else partial(statistics.mean, most=1.0)
    before, after = (reduce(values, condition=GIVEN) for values in hits)
    rho = statistics.correlation(*map(statistics.influence_of_mean, hits[::-1]))
    return {"old": before, "change": statistics.difference(after, before, rho), "new": after}


def score_misses(
    distanced: Distanced,
    thresholds: Thresholds,
    clean: tuple[Reps, Reps],
    copies: tuple[list[Reps], list[Reps]],
    divergence: Divergence,
) -> Scores:
    """Return the share of copies that do not match their originals, at the threshold of each and at the old one.

    Intervals hold the error of the threshold, where it is estimated, beside that of the images; see `AtRate`.
    """
    images, rate = distanced.pairs.images, thresholds.rate.value
    # each copy from its original, by each encoder
    apart = [
        torch.stack([divergence(reps[:images].double(), own[:images].double()) for reps in edited])
        for own, edited in zip(clean, copies, strict=True)
    ]
    assert rate is not None
    reduce = partial(statistics.mean, most=1.0, condition="given this threshold")

    def at(encoder: int, limits_of: int) -> AtRate | None:
        """Return the misses of an encoder by thresholds of one of both; None where the threshold is given."""
        near = thresholds.near[limits_of]
        if near is None:
            return None
        shares = partial(_average_misses, distanced, apart[encoder], limits_of)
        return AtRate(shares, near, rate, float(distanced.pairs.count), reduce=reduce)

    def score_encoder(encoder: int, limits_of: int) -> tuple[Score, Float[Tensor, "images"]]:
        """Return the mean, and what each image has to do with it."""
        if (by_rate := at(encoder, limits_of)) is not None:
            return by_rate.score(), by_rate.influence()
        assert thresholds.old.value is not None
        values = (apart[encoder] >= thresholds.old.value).double().mean(0)
        return reduce(values), statistics.influence_of_mean(values)

    # each by its own threshold, then the new encoder by that of the old
    (old, of_old), (new, of_new), (kept, _) = score_encoder(0, 0), score_encoder(1, 1), score_encoder(1, 0)
    change = statistics.difference(new, old, statistics.correlation(of_new, of_old))
    return {"old": old, "kept": kept, "change": change, "new": new}


def _average_misses(
    distanced: Distanced, apart: Float[Tensor, "copies images"], limits_of: int, rate: float
) -> Float[Tensor, "images"]:
    return (apart >= distanced.at(limits_of, rate)).double().mean(0)
