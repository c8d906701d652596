"""Lists of nearest neighbours of the same images by two encoders: how much of one the other keeps."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.nearest import nearest_of_many

ENTRIES = 2**22
"""Comparisons that are held at once."""

TOLD = 4096
"""Images after whose lists it is told how many there are."""

Lists = Int[Tensor, "images places"]
Weights = Float[Tensor, "kinds depth"]


def neighbour_lists(
    reps: Float[Tensor, "images dim"],
    k: int,
    divergence: Divergence,
    advance: Callable[[int], object] = lambda images: None,
) -> Lists:
    """Return the positions of the k other images nearest to each image, nearest first (ties: lower position).

    Args:
        reps: representations, [N, D].
        k: how many, below N.
        divergence: how representations are compared.
        advance: told of how many further images there are lists.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> neighbour_lists(torch.tensor([[0.0], [1.0], [3.0]]), 2, L2()).tolist()
        [[1, 2], [0, 2], [1, 0]]
    """
    parts = []
    for images in torch.arange(len(reps)).split(TOLD):
        parts.append(lists_of(images, reps, k, divergence))
        advance(len(images))
    return torch.cat(parts)


def leave_out_own(lists: Lists, own: Int[Tensor, "images"]) -> Int[Tensor, "images fewer"]:
    """Return lists without the image itself that each belongs to, or without their last one where it is not there.

    Example:
        >>> leave_out_own(torch.tensor([[4, 2, 7], [1, 2, 3]]), torch.tensor([2, 9])).tolist()
        [[4, 7], [1, 2]]
    """
    itself = lists == own[:, None]
    itself[~itself.any(1), -1] = True  # more than k images equal it and stand before it
    return lists[~itself].view(len(lists), -1)


def lists_of(
    queries: Int[Tensor, "queries"],
    reps: Float[Tensor, "images dim"],
    k: int,
    divergence: Divergence,
    advance: Callable[[int], object] = lambda images: None,
) -> Int[Tensor, "queries places"]:
    """Return the rows of `neighbour_lists` that belong to some images; the representations may lie on disk.

    Args:
        queries: whose lists, in rising order.
        reps: representations of all images, [N, D].
        k: how many neighbours, below N.
        divergence: how representations are compared.
        advance: told with how many further images the queries have been compared.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> lists_of(torch.tensor([2]), torch.tensor([[0.0], [1.0], [3.0]]), 2, L2()).tolist()
        [[1, 0]]
    """
    return leave_out_own(nearest_of_many(reps[queries], reps, k + 1, divergence, advance)[0], queries)


def overlap_weights(k: int, depth: int) -> Float[Tensor, "depth"]:
    """Return weights of which `compare_lists` makes overlap@k: 1/k for what both lists have among their first k.

    Example:
        >>> overlap_weights(2, 3).tolist()
        [0.5, 0.5, 0.0]
    """
    weights = torch.zeros(depth, dtype=torch.float64)
    weights[:k] = 1 / k
    return weights


def rank_biased_weights(p: float, depth: int) -> Float[Tensor, "depth"]:
    """Return weights of which `compare_lists` makes the rank-biased overlap of lists of some depth.

    RBO = Σ_d p^(d-1) |A_d ∩ B_d| / d / Σ_d p^(d-1), d up to the depth: overlaps@d, nearer places counting more. An
    image whose worse place in the two lists is m is in the intersections from m on: its weight is Σ_(d>=m) p^(d-1) / d.

    Args:
        p: persistence, in (0, 1): the first 1 / (1-p) places have most of the weight.
        depth: places of a list.

    Source: Webber, Moffat & Zobel (2010), "A similarity measure for indefinite rankings", normalised at a depth.

    Example:
        >>> weights = rank_biased_weights(0.5, 2)  # (1 + 0.5/2) / 1.5 and (0.5/2) / 1.5
        >>> [round(weight, 4) for weight in weights.tolist()]
        [0.8333, 0.1667]
    """
    places = torch.arange(1, depth + 1, dtype=torch.float64)
    parts = p ** (places - 1)
    return (parts / places).flip(0).cumsum(0).flip(0) / parts.sum()


class Kept(NamedTuple):
    """What one list keeps of another.

    Attributes:
        values: for each kind of weights, what each image's lists have in common, in [0, 1].
        without: for each kind, the mean of these over the others where an image is taken out of all lists.
    """

    values: Float[Tensor, "kinds images"]
    without: Float[Tensor, "kinds images"]


def compare_lists(first: Lists, second: Lists, weights: Weights) -> Kept:
    """Return what the lists of each image have in common, and what each image's absence would make of their mean.

    v_i = Σ_x w(max(rank of x in A_i, rank of x in B_i)) over the images in both lists. Without an image j, the ones
    behind it in either list move up by one place, and one from beyond the last place comes in.

    Args:
        first: A, neighbours by one encoder, one place more than `weights` has, [N, depth + 1].
        second: B, by the other.
        weights: of the places; see `overlap_weights` and `rank_biased_weights`, [kinds, depth].

    Example:
        >>> first, second = torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.tensor([[1, 2], [2, 0], [1, 0]])
        >>> [round(value, 2) for value in compare_lists(first, second, overlap_weights(1, 1)[None]).values[0].tolist()]
        [1.0, 0.0, 1.0]
    """
    images, places = first.shape
    padded = _pad(weights)
    values, moved = [], torch.zeros(len(weights), images, dtype=torch.float64)
    for rows in torch.arange(images).split(max(1, ENTRIES // (2 * places**2))):
        a, b = first[rows], second[rows]
        equal, here, there, own = _weigh(a, b, padded)
        alone = ~equal.any(1)
        values.append(own)
        # each candidate j is taken out: images behind it move up in the list where they are behind
        in_a = torch.cat([here, torch.full_like(b, places)], 1)[:, :, None]
        in_b = torch.cat([there, torch.arange(places).expand_as(b)], 1)[:, :, None]
        worse = torch.maximum(
            here[:, None] - (here[:, None] > in_a).long(), there[:, None] - (there[:, None] > in_b).long()
        )
        staying = here[:, None] != in_a
        change = (padded[:, worse] * staying).sum(3) - own[:, :, None]
        counted = torch.cat([torch.ones_like(equal.any(2)), alone], 1)
        moved.index_add_(1, torch.cat([a, b], 1)[counted], change[:, counted])
    all_values = torch.cat(values, 1)
    without = (all_values.sum(1, keepdim=True) - all_values + moved) / (images - 1)
    return Kept(all_values.round(decimals=12), without)  # lists that are alike have all in common, to the last digit


def compare_drawn_lists(first: Lists, second: Lists, weights: Weights) -> Kept:
    """Return what `compare_lists` does of images that are drawn from an index, which stays as it is without one.

    So an image counts by its own list alone, whoever else is in the lists. What is in neither index is below 0.

    Args:
        first: A, of the images drawn, [Q, depth + 1].
        second: B, the same by the other encoder.
        weights: of the places, [kinds, depth].

    Example:
        >>> first, second = torch.tensor([[8, 9], [7, 6]]), torch.tensor([[9, 8], [7, 5]])
        >>> compare_drawn_lists(first, second, overlap_weights(1, 1)[None]).values[0].tolist()
        [0.0, 1.0]
    """
    padded = _pad(weights)
    rows = torch.arange(len(first)).split(max(1, ENTRIES // first.shape[1] ** 2))
    values = torch.cat([_weigh(first[some], second[some], padded)[3] for some in rows], 1)
    without = (values.sum(1, keepdim=True) - values) / max(len(first) - 1, 1)
    return Kept(values.round(decimals=12), without)


def _pad(weights: Weights) -> Float[Tensor, "kinds places"]:
    """Return weights that are 0 beyond the depth."""
    return torch.cat([weights.double(), weights.new_zeros(len(weights), 2).double()], 1)


def _weigh(a: Lists, b: Lists, padded: Float[Tensor, "kinds places"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return where two lists are equal, the places of the images of A in both, and the weight of what both have."""
    places = a.shape[1]
    equal = (a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None]
    here = torch.arange(places).expand_as(a)
    there = torch.where(equal.any(2), equal.int().argmax(2), places)  # `places` where absent
    return equal, here, there, padded[:, torch.maximum(here, there)].sum(2)
