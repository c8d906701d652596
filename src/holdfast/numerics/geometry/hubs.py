"""Hubs: items that stand in the lists of neighbours of many others, and those that stand in nobody's."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.neighbour_lists import Kept, Lists

Counts = Int[Tensor, "items"]


def occurrences(lists: Lists) -> Counts:
    """Return in how many lists each item stands, N_k.

    Example:
        >>> occurrences(torch.tensor([[1], [0], [1]])).tolist()
        [1, 2, 0]
    """
    return lists.flatten().bincount(minlength=len(lists))


def hubness(lists: Lists, top: float = 0.01) -> dict[str, Kept]:
    """Return three ways to say how unevenly lists are filled, and each without every item in turn.

    "skew": m₃ / m₂^1.5 of N_k over items. "hubs": the share of all places in lists that the most frequent items hold,
    a share `top` of the items: min over t of (top N t + Σ (N_k - t)⁺) / k N, with t the count at that rank. "antihubs":
    the share of items in no list.

    Without an item its list goes, and in every list that holds it the next neighbour comes in. All three are functions
    of sums over items, of which few terms change; t stays as it is, where the minimum is flat.

    Args:
        lists: neighbours of each item, nearest first, one place more than k, [N, k + 1].
        top: the share of items that count as hubs.

    Returns:
        Of each, what each item has to do with it, [1, N], and the value without it, [1, N]. The first is one number
        throughout where the quantity is no mean over items.

    Source: Radovanović, Nanopoulos & Ivanović (2010), "Hubs in space".

    Example:
        >>> found = hubness(torch.tensor([[1, 2], [0, 2], [1, 0]]), top=1 / 3)
        >>> found["hubs"].values[0, 0].item(), found["antihubs"].values.tolist()
        (0.6666666666666666, [[0.0, 0.0, 1.0]])
    """
    # The last place is for who comes in where somebody is left out
    items, k = len(lists), lists.shape[1] - 1
    counts = occurrences(lists[:, :k])
    # The count at the rank of the last hub; a part of an item counts in part
    limit = float(counts.sort(descending=True).values[max(0, round(top * items) - 1)])

    def terms(of: Tensor) -> Float[Tensor, "kinds items"]:
        values = of.double()
        return torch.stack([values, values**2, values**3, (values - limit).clamp_min(0), (values == 0).double()])

    def say(sums: Float[Tensor, "kinds *some"], n: int) -> tuple[Tensor, Tensor, Tensor]:
        # Moments around the mean, of the sums of powers
        mean, square, cube = sums[0] / n, sums[1] / n, sums[2] / n
        spread = (square - mean**2).clamp_min(0)
        third = cube - 3 * mean * square + 2 * mean**3
        return third / spread**1.5, (top * n * limit + sums[3]) / (k * n), sums[4] / n

    whole = say(terms(counts).sum(1), items)
    without = say(_sums_without(lists, counts, terms), items - 1)
    # Of means over items each has its own value; of other quantities there is one
    own = whole[0].expand(items), whole[1].expand(items), (counts == 0).double()
    return {
        name: Kept(values[None], less[None])
        for name, values, less in zip(("skew", "hubs", "antihubs"), own, without, strict=True)
    }


def _sums_without(lists: Lists, counts: Counts, terms: Callable[[Tensor], Tensor]) -> Float[Tensor, "kinds items"]:
    """Return sums of terms over items without each item in turn."""
    items, k = len(lists), lists.shape[1] - 1
    of = torch.arange(items).repeat_interleave(k)
    held, next_in_line = lists[:, :k].flatten(), lists[:, k].repeat_interleave(k)
    # (who is absent, whose count changes): what its list held loses one, what stands next in the lists of others wins
    keys = torch.cat([of * items + held, held * items + next_in_line])
    pairs, place = keys.unique(return_inverse=True)
    change = torch.zeros(len(pairs), dtype=torch.long)
    change.index_add_(0, place, torch.cat([-torch.ones_like(of), torch.ones_like(of)]))
    absent, other = pairs // items, pairs % items
    # What each change of a count does to the sums
    moved = terms(counts[other] + change) - terms(counts[other])
    every = terms(counts)
    return (every.sum(1, keepdim=True) - every).index_add_(1, absent, moved)
