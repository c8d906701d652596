"""Observations of some images, and the pairs that certificates and attacks are both asked about."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from holdfast.core import HoldfastError, Images, Margin, Observation, Shard
from holdfast.margins import between
from holdfast.negatives import draw_negatives

VALUES = 2**24
"""Coefficients that the rows of one call of a certifier take in its widest layer, about (128 MiB in float64)."""

WIDER = 4
"""How many times more values than pixels a layer is taken to have."""


@dataclass(frozen=True)
class Some(Observation):
    """An observation of the first images of an audit.

    Attributes:
        first: how many images; None: all that the audit attacks.
    """

    first: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise HoldfastError(f"{type(self).__name__}: first: expected at least 1 image, got {self.first}")

    @property
    @abstractmethod
    def title(self) -> str:
        """What it observes, in a few words."""

    def key(self) -> Observation:
        """How many images are observed changes nothing for any of them."""
        return replace(self, first=None)

    def join(self, other: Observation) -> Observation:
        """Observe as many images as the one needs that needs more."""
        assert isinstance(other, Some)  # equal keys
        return replace(
            self, first=None if None in (self.first, other.first) else max(self.first or 0, other.first or 0)
        )

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them."""
        return attacked if self.first is None else min(self.first, attacked)


def clean_of(shard: Shard) -> Tensor:
    """Return the clean representations of the population in float64, on the encoder's device, [N, D]."""
    assert shard.clean is not None  # clean representations are always observed first
    return shard.clean.to(shard.x.device).double()


def pair_margins(shard: Shard, negatives: int | None, divergence: str) -> tuple[Margin, Tensor]:
    """Return the margins of a shard's images against their negatives, and the positions of these, [B, R].

    Args:
        shard: the images x⁺.
        negatives: how many are drawn for each image; None: the whole population (where the image itself has a margin
            that is zero everywhere).
        divergence: see `margins.between`.
    """
    clean = clean_of(shard)
    if negatives is None:
        others = torch.arange(len(clean)).expand(len(shard.x), -1)
    else:
        others = draw_negatives(shard.rng, shard.positions, len(clean), negatives)
    return between(clean[shard.positions], clean[others], divergence), others


def pieces(x: Images, rows: int) -> Iterator[slice]:
    """Yield which images to give a certifier at a time, so that their rows fit in memory."""
    step = max(1, VALUES // (rows * WIDER * math.prod(x.shape[1:])))
    for start in range(0, len(x), step):
        yield slice(start, start + step)
