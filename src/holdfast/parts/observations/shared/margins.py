"""Observations of margins: the pairs of images, or of classes, that certificates and attacks are both asked about."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import AnyDivergence, Encoder, Goal, Images, LinearProbe, Margin, PerImage, Reps, Rows, Shard
from holdfast.core.divergence import require
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.runtime.errors import BadValue, Conflict, Missing, no_labels
from holdfast.runtime.rounding import REPRESENTATIONS

LINEAR = "divergence with a linear margin"
"""What margins are asked for."""

VALUES = 2**24
"""Coefficients that the rows of one call of a certifier take in its widest layer, about (128 MiB in float64)."""

WIDER = 4
"""How many times more values than pixels a layer is taken to have."""


@dataclass(frozen=True, kw_only=True)
class MadeNegatives(OfFirst):
    """An observation that makes the images which each image must not be confused with: `reps` [M, count, D].

    Attributes:
        count: how many for each image.
    """

    count: ClassVar[int]


def clean_of(shard: Shard) -> Tensor:
    """Return the clean representations of the population in float64, on the encoder's device, [N, D]."""
    assert shard.clean is not None  # clean representations are always observed first
    return shard.clean.to(shard.x.device).double()


@dataclass(frozen=True, kw_only=True)
class OfMargins(OfFirst):
    """An observation of margins: of each image against other images, or of its class against the other classes.

    Attributes:
        negatives: how many images each is compared with, drawn by the seed; None: the whole population (where the
            image itself has a margin that is zero everywhere); or an observation, made earlier, of other negatives.
        divergence: how images are compared; see `LinearDivergence.between`.
        probe: a linear head on labels; its margins e_y - e_j instead of those of pairs of images. Attacks then try as
            many classes as there would be negatives, the nearest ones.
    """

    negatives: int | MadeNegatives | None = 10
    divergence: AnyDivergence = Cosine()
    probe: LinearProbe | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.divergence, LinearDivergence, LINEAR)
        if isinstance(self.negatives, MadeNegatives):
            if self.negatives.first is not None or self.probe is not None:
                raise Conflict(
                    f"{type(self).__name__}: expected {part_name(self.negatives)} without `first` and without a probe; "
                    "set `first` of what reads them, and leave negatives a number where classes are compared"
                )
        elif self.negatives is not None and self.negatives < 1:
            raise BadValue(f"{type(self).__name__}: negatives: expected at least 1, got {self.negatives}")

    @property
    def needs_labels(self) -> bool:
        """Whether classes are compared."""
        return self.probe is not None

    @property
    def comparisons(self) -> int | None:
        """How many images each is compared with at most; None: the whole population."""
        return self.negatives.count if isinstance(self.negatives, MadeNegatives) else self.negatives

    @property
    def rows(self) -> str:
        """What is compared, in a few words."""
        if self.probe is not None:
            return f"classes ({part_name(self.probe)})"
        if isinstance(self.negatives, MadeNegatives):
            return self.negatives.title
        return "the whole population" if self.negatives is None else f"{self.negatives} negatives"

    def margins(self, shard: Shard) -> Margin:
        """Return the margins of a shard's images, in float64, [M, R] rows."""
        if self.probe is not None:
            if shard.labels is None or shard.head is None:
                raise no_labels(f"the observation {part_name(self)}", "the source of images")
            # Row j of the classes other than y: e_y - e_j, [M, C - 1, D]
            margin = shard.head(self.probe).margins(shard.labels[shard.positions])
            return margin.to(shard.x.device).to(torch.float64)
        # RVCL, Eq. 12, W_CL of every pair: [M, R, D]
        linear = require(self.divergence, LinearDivergence, LINEAR)
        return linear.between(clean_of(shard)[shard.positions], self.against(shard))

    def against(self, shard: Shard) -> Float[Tensor, "batch rows dim"]:
        """Return the representations that each image is compared with, in float64."""
        if not isinstance(self.negatives, MadeNegatives):
            return clean_of(shard)[self.others(shard)]
        if shard.read is None:
            raise Missing(f"{part_name(self)}: {part_name(self.negatives)} must be observed before")
        return shard.read(self.negatives)["reps"][shard.positions].to(shard.x.device).double()

    def others(self, shard: Shard) -> Int[Tensor, "batch rows"]:
        """Return the positions of the images that each is compared with (all others if fewer), where none are made."""
        assert shard.clean is not None
        population = len(shard.clean)
        if self.comparisons is None:
            # In order, the image itself among them, so that column j is image j
            return torch.arange(population).expand(len(shard.x), -1)
        # By seed and id: the certificate and the attack are asked about the same pairs
        return draw_negatives(shard.rng, shard.positions, population, min(self.comparisons, population - 1))


def row(margin: Margin, numbers: Int[Tensor, "batch"]) -> Margin:
    """Return one row of each image's margins."""
    images = torch.arange(len(numbers))
    return Margin(margin.weights[images, numbers][:, None], margin.bias[images, numbers][:, None])


def nearest_rows(margin: Margin, reps: Reps, count: int) -> Int[Tensor, "batch rows"]:
    """Return which `count` rows are nearest to zero, as distances between representations: m / ||weights||."""
    # Rows of zeros are no boundaries; the clamp keeps 0 / 0 away from them
    distance = margin(reps) / margin.weights.norm(dim=-1).clamp_min(1e-30)
    return distance.argsort(dim=1, stable=True)[:, :count].cpu()


def confusion(encoder: Encoder, margin: Margin, like: Images) -> Goal:
    """Return the goal -m(x') for margins of one row: above zero where they are below."""
    # In the images' precision, for the search; what it finds is judged again in float64
    margin = margin.to(like)

    def goal(x: Images) -> tuple[PerImage, Reps]:
        reps = encoder(x)
        return -margin(reps).squeeze(1), reps

    return goal


def rounding(margin: Margin, reps: Reps) -> Rows:
    """Return what float32 may change a margin by: 1e-6 of the sum of the magnitudes of its terms."""
    # Σ |w_k| |f_k| + |bias|: as if every term were rounded the same way
    return REPRESENTATIONS * Margin(margin.weights.abs(), margin.bias.abs())(reps.abs())


def last_digits(margin: Margin, reps: Reps) -> Rows:
    """Return what the last digits of float32 may change a margin by, mostly: 1e-6 √(Σ (w_k f_k)²).

    Unlike `rounding`, which allows for the worst, it leaves of a margin what a large mean has not taken away.
    """
    # Roundings of the terms are independent, mostly, so their squares add up
    squares = Margin(margin.weights.square(), torch.zeros_like(margin.bias))
    return REPRESENTATIONS * squares(reps.square()).sqrt()


def pieces(x: Images, rows: int) -> Iterator[slice]:
    """Yield which images to give a certifier at a time, so that their rows fit in memory."""
    # Coefficients of one image: rows times the values of its widest layer, about
    step = max(1, VALUES // (rows * WIDER * math.prod(x.shape[1:])))
    for start in range(0, len(x), step):
        yield slice(start, start + step)
