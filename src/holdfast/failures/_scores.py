"""Failures that are "another score is ahead of the own one", for scores that are linear in the representation."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Event


def overtaken(
    weights: Float[Tensor, "scores dim"],
    bias: Float[Tensor, "scores"],
    own: Int[Tensor, "images"],
    units: Float[Tensor, "images scores"] | None = None,
    slack: float = 0.0,
) -> Event:
    """Return the event that a score is ahead of the own one: max_{j != own} (s_j - s_own) / units_j > 0.

    Args:
        weights: w, one row per score; s_j = w_j · f(x') + b_j.
        bias: b.
        own: which score is each image's own.
        units: in which a lead is measured, positive numbers; 1 where none are given.
        slack: share of the magnitudes of a score that is rounding: scores nearer to each other are level, which is no
            failure.
    """
    longest, highest = float(weights.norm(dim=1).max()), float(bias.abs().max())

    def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
        scores = reps @ weights.to(reps).T + bias.to(reps)
        index = own.to(reps.device)[rows, None, None].expand(-1, reps.shape[1], 1)
        ahead = scores - scores.gather(2, index)
        if slack:
            ahead = ahead - slack * (reps.norm(dim=-1, keepdim=True) * longest + highest)
        if units is not None:
            ahead = ahead / units.to(reps)[rows, None]
        return ahead.scatter(2, index, -torch.inf).amax(2)

    return event
