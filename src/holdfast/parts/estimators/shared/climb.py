"""Populations of draws that climb levels until enough of them fail."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.parts.estimators.shared.streams import Streams
from holdfast.runtime.errors import NotFinite

Value = Callable[[Float[Tensor, "draws numbers"], Int[Tensor, "draws"]], Float[Tensor, "draws"]]
"""(standard normal numbers, of which image) -> a value that is above 0 exactly where the disturbed image fails."""

WISHED = 0.5
"""Share of moves that should be kept; in half-spaces anything from 0.4 to 0.6 serves about as well."""
SHORTEST = 1e-6
"""Of the moves' lengths β."""


@dataclass(frozen=True)
class Climbed:
    """How populations ended, [populations] each.

    Attributes:
        weight: the probability of getting as high as the population did.
        failing: how many of its draws fail at the end.
        levels: how many levels it climbed.
        extinct: whether all of its draws stood at the lowest level at once, so that there was nothing to copy.
        passes: values that were computed.
    """

    weight: Float[Tensor, "populations"]
    failing: Int[Tensor, "populations"]
    levels: Int[Tensor, "populations"]
    extinct: Bool[Tensor, "populations"]
    passes: Int[Tensor, "populations"]


def climb(
    value: Value, streams: Streams, owner: Int[Tensor, "populations"], n: int, k: int, moves: int, least: float
) -> Climbed:
    """Let populations climb, see `Splitting`.

    Args:
        value: what levels are levels of.
        streams: random numbers of the images.
        owner: to which image each population belongs, ascending.
        n: draws of a population.
        k: how many are replaced at a level; more where several stand at the k-th lowest value.
        moves: how often each copy moves.
        least: a population whose weight falls below it gives up.
    """
    # N plain draws for each population
    everyone = owner.repeat_interleave(n)
    z = streams.normal(everyone).view(len(owner), n, -1)
    s = _values(value, z.flatten(0, 1), everyone).view(len(owner), n)
    log_weight = torch.zeros(len(owner), dtype=torch.float64, device=s.device)
    length = torch.ones(len(owner), dtype=z.dtype, device=s.device)
    levels, passes = torch.zeros_like(owner), torch.full_like(owner, n)
    active, extinct = torch.arange(len(owner), device=s.device), torch.zeros_like(owner, dtype=torch.bool)
    while len(active):
        # the next level: the k-th lowest value. A population ends above 0, below `least`, or where all stand at it
        level = s[active].kthvalue(k, dim=1).values
        out = s[active] <= level[:, None]
        extinct[active] = out.all(1) & (level <= 0)
        on = (level <= 0) & ~extinct[active] & (log_weight[active] >= math.log(least))
        active, level, out = active[on], level[on], out[on]
        if not len(active):
            break
        # kill: P falls by the share that is above the level
        gone = out.sum(1)
        log_weight[active] += torch.log1p(-gone.double() / n)
        levels[active] += 1
        # clone: each place left empty gets a copy of a draw above the level
        row, slot = out.nonzero(as_tuple=True)
        populations = active[row]
        place = gone[row] + choose_parents(gone, n, streams.uniform(owner[populations]))
        parent = s[active].argsort(dim=1)[row, place]  # those above the level come last
        at, height = z[populations, parent], s[populations, parent]
        beta, kept = length[populations, None], torch.zeros_like(height)
        # move: autoregressive steps that leave N(0, I) as it is, kept above the level (Metropolis)
        for _ in range(moves):
            new = (1 - beta.square()).sqrt() * at + beta * streams.normal(owner[populations])
            moved = _values(value, new, owner[populations])
            ok = moved > level[row]
            at, height = torch.where(ok[:, None], new, at), torch.where(ok, moved, height)
            kept += ok
        z[populations, slot], s[populations, slot] = at, height
        # adapt β to the share of moves that were kept
        share = torch.zeros_like(level).index_add(0, row, kept / moves) / gone
        length[active] = (length[active] * (2 * (share - WISHED)).exp().to(length)).clamp(SHORTEST, 1)
        passes[active] += moves * gone
    return Climbed(log_weight.exp(), (s > 0).sum(1), levels, extinct, passes)


def choose_parents(gone: Int[Tensor, "populations"], n: int, random: Float[Tensor, "places"]) -> Int[Tensor, "places"]:
    """Return which draw above the level is copied to each empty place, by its rank among them from 0.

    The i-th of k empty places gets the draw of rank (i + u) (n - k) / k, rounded down, for u uniform in [0, 1): one of
    each stratum of their order. All are copied k / (n - k) times in expectation, which keeps P unbiased, and nearly so
    each time.

    Args:
        gone: k, how many places of each population are empty.
        n: places of a population.
        random: u, for all empty places of one population after the other.

    Source: Kitagawa (1996), "Monte Carlo filter and smoother for non-Gaussian nonlinear state space models".

    Example:
        >>> choose_parents(torch.tensor([2, 3]), 4, torch.tensor([0.9, 0.1, 0.2, 0.5, 0.8]))
        tensor([0, 1, 0, 0, 0])
    """
    first = (gone.cumsum(0) - gone).repeat_interleave(gone)
    k = gone.repeat_interleave(gone)
    place = (torch.arange(len(random), device=random.device) - first + random) * ((n - k) / k)
    return place.long().minimum(n - k - 1)  # rounding might reach n - k


def _values(value: Value, z: Float[Tensor, "draws numbers"], images: Int[Tensor, "draws"]) -> Float[Tensor, "draws"]:
    values = value(z, images)
    if values.isnan().any():
        raise NotFinite(
            f"splitting: expected values that can be compared, got {int(values.isnan().sum())} NaN among "
            f"{len(values)}; check the encoder's weights and its precision"
        )
    return values
