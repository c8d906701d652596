"""Taken for any other image: the clean representation nearest to f(x') is no longer f(x)."""

from dataclasses import dataclass

import torch

from holdfast import neighbours
from holdfast.core import Event, Failure, HoldfastError, Shard
from holdfast.divergences import unit
from holdfast.errors import unknown
from holdfast.failures._scores import overtaken
from holdfast.margins import DIVERGENCES

TIES = 1e-6
"""Share of the magnitudes of a comparison that float32 representations are taken to be uncertain by."""


@dataclass(frozen=True)
class Nearest(Failure):
    """f(x') is strictly nearer to another clean representation f_j of the population than to its own, f_i.

    The nearest clean representation is the class of a linear classifier with as many classes as images, so this is
    misclassification without labels. The value is the signed distance of f(x') from the nearest of the boundaries
    between f_i and f_j, max_j [||f' - f_i||² - ||f' - f_j||²] / 2||f_i - f_j||, in units of that distance without a
    disturbance: -1 at x, 0 on a boundary. cosine: the same with unit vectors in the place of f_i and f_j. Images that
    look alike to the encoder (distances below rounding) are level, which is no failure.

    Attributes:
        divergence: "l2" or "cosine".

    Source: the event of the breakaway risk, Eq. 1 of "Robustness of unsupervised representation learning without
    labels", in the place of "h(x') is not y" of NPPR, Def. 1 to 3.
    """

    divergence: str = "l2"

    def __post_init__(self) -> None:
        if self.divergence not in DIVERGENCES:
            raise unknown("divergence of the failure nearest", self.divergence, DIVERGENCES)

    @property
    def title(self) -> str:
        """What happens."""
        return f"another image is nearer, {self.divergence}"

    def bind(self, shard: Shard) -> Event:
        """Return the event against the whole population.

        Raises:
            HoldfastError: a population of one image.
        """
        assert shard.clean is not None  # clean representations are always observed first
        bank, own = shard.clean.to(shard.x.device).double(), shard.positions.to(shard.x.device)
        if len(bank) < 2:
            raise HoldfastError("the failure nearest compares images with each other: expected at least 2, got 1")
        if self.divergence == "cosine":
            length, bank = bank[own].norm(dim=1) / 2, unit(bank)
            weights, bias = bank, torch.zeros_like(bank[:, 0])
        else:  # ||f' - f_i||² - ||f' - f_j||², around the middle of the population: less cancels
            middle = bank.mean(0)
            around = bank - middle
            weights, bias = 2 * around, -around.square().sum(1) - 2 * around @ middle
            length = torch.ones_like(bank[own, 0])
        apart = neighbours.pairwise(bank[own].cpu(), bank.cpu(), "l2").to(bank.device)
        nearest = apart.scatter(1, own[:, None], torch.inf).amin(1)
        usual = nearest.median().clamp_min(1e-30)
        nearest = torch.where(nearest > TIES * usual, nearest, usual)
        return overtaken(weights, bias, own, ((length * nearest)[:, None] * apart).clamp_min(1e-30), TIES)
