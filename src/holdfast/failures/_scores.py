"""Failures that are "another score is ahead of the own one", for scores that are linear in the representation."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Event


def overtaken(
    weights: Float[Tensor, "scores dim"],
    bias: Float[Tensor, "scores"],
    own: Int[Tensor, "images"],
    scale: Float[Tensor, "images"] | None = None,
    slack: float = 0.0,
) -> Event:
    """Return the event that max_{j != own} (w_j · f(x') + b_j) exceeds the own score.

    Args:
        weights: w, one row per score.
        bias: b.
        own: which score is each image's own.
        scale: what the value is divided by, one positive number per image; 1 where none are given.
        slack: share of the magnitudes of a score that is rounding: scores nearer to each other are level, which is no
            failure.
    """
    longest, highest = float(weights.norm(dim=1).max()), float(bias.abs().max())

    def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
        scores = reps @ weights.to(reps).T + bias.to(reps)
        index = own.to(reps.device)[rows, None, None].expand(-1, reps.shape[1], 1)
        ahead = scores.scatter(2, index, -torch.inf).amax(2) - scores.gather(2, index).squeeze(2)
        if slack:
            ahead = ahead - slack * (reps.norm(dim=-1) * longest + highest)
        return ahead if scale is None else ahead / scale.to(reps)[rows, None]

    return event
