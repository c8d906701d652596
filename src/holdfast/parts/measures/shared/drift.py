"""Upper bounds of drift, from the box that holds every representation of a ball."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

DRIFTS = ("linf", "cosine", "l2")
"""Divergences whose drift is bounded; the last one is the headline."""


def drift_bounds(
    ranges: Mapping[str, Tensor], clean: Float[Tensor, "images dim"]
) -> dict[str, Float[Tensor, "images"]]:
    """Return upper bounds of d(f(x'), f(x)) over the ball, for each of `DRIFTS`.

    linf and l2: the norm of r, the larger end of every coordinate's range. cosine: with a = min f(x)/||f(x)|| · f(x')
    the angle θ between f(x') and f(x) has cos θ >= a / √(a² + ||r||²) where a > 0, and sin θ <= ||r|| / ||f(x)|| where
    ||r|| < ||f(x)||; 2 where neither says anything.

    Args:
        ranges: what a `Drifts` observed.
        clean: f(x) of the same images, in float64.
    """
    # The farthest corner of the box, coordinate by coordinate: a bound of r for every norm
    reach = torch.maximum(ranges["low"].abs(), ranges["high"].abs())
    l2, norm, along = reach.norm(dim=1), clean.norm(dim=1), ranges["along"]
    # Both bounds of cos θ, -1 where one says nothing; the better one counts
    ahead = torch.where(along > 0, along / torch.hypot(along, l2).clamp_min(1e-300), -1.0)
    aside = torch.where(l2 < norm, (1 - (l2 / norm.clamp_min(1e-300)).square().clamp_max(1)).sqrt(), -1.0)
    cosine = 1 - torch.maximum(ahead, aside)
    return {"linf": reach.amax(1), "cosine": cosine, "l2": l2}
