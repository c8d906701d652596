"""Taken for any other image: the clean representation nearest to f(x') is no longer f(x)."""

from dataclasses import dataclass

import torch

from holdfast.core import Event, Failure, HoldfastError, Shard
from holdfast.divergences import unit
from holdfast.errors import unknown
from holdfast.failures._scores import overtaken
from holdfast.margins import DIVERGENCES

TIES = 1e-6
"""Share of the magnitudes of a comparison that float32 representations are taken to be uncertain by."""


@dataclass(frozen=True)
class Nearest(Failure):
    """max_{j≠i} [d(f(x'), f(x_i)) - d(f(x'), f(x_j))] > 0 over the population, d = ||·||² or 1 - cos.

    The nearest clean representation is the class of a linear classifier with as many classes as images, so this is
    misclassification without labels. Divided by the distance of f(x) to its nearest other image (l2: squared; cosine:
    times ||f(x')||), so the value is -1 without a disturbance. Images that look alike to the encoder (distances below
    rounding) are level, which is no failure.

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
            weights, bias = unit(bank), torch.zeros_like(bank[:, 0])
        else:  # ||f'||² - ||f' - f_j||² = 2 f' · f_j - ||f_j||², around the middle of the population: less cancels
            middle = bank.mean(0)
            around = bank - middle
            weights, bias = 2 * around, -around.square().sum(1) - 2 * around @ middle
        clean = overtaken(weights, bias, own)(bank[own, None], torch.arange(len(own), device=own.device)).squeeze(1)
        usual = (-clean).median().clamp_min(1e-30)
        return overtaken(weights, bias, own, torch.where(-clean > TIES * usual, -clean, usual), TIES)
